/* SPDX-License-Identifier: Apache-2.0 */
/* Writing superblocks while the file system is mounted: one whole copy is there at any time, for they are written in turn. */
#include "fs/super.h"

G4_FN int g4_super_write(struct g4_wg *wg, struct g4_fs *fs, struct g4_address address)
{
	const uint32_t mark = g4_scratch_mark(wg);
	uint8_t *page = g4_scratch_take_page(wg);

	g4_super_take_counts(fs);
	memcpy(page, &fs->super, sizeof(fs->super));
	g4_block_seal(page, G4_BLOCK_SUPERBLOCK, address, fs->super.header.generation, fs->meta.fs_tag);
	int rc = g4_space_write(wg, &fs->space, address, page, sizeof(fs->super), G4_IO_FUA);
	g4_scratch_release(wg, mark);
	return rc;
}

G4_FN int g4_super_add_feature(struct g4_wg *wg, struct g4_fs *fs, uint64_t feature)
{
	const uint64_t added = feature & ~g4_load64_acq(&fs->super.features_incompat);

	if (added == 0)
		return 0;
	if (fs->flags & G4_FS_READ_ONLY)
		return -G4_E_ROFS;
	if (!g4_cas32(&fs->resizing, 0, 1))
		return -G4_E_BUSY;
	g4_or64(&fs->super.features_incompat, added);
	int rc = g4_super_write(wg, fs, g4_layout_backup(&fs->meta.layout));
	if (rc == 0)
		rc = g4_super_write(wg, fs, G4_SUPERBLOCK);
	if (rc < 0)
		g4_and64(&fs->super.features_incompat,
			 ~added); /* nothing needs it; a copy on disk that has it does no harm */
	g4_store32_rel(&fs->resizing, 0);
	return rc;
}
