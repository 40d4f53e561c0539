/* SPDX-License-Identifier: Apache-2.0 */
/* Writing superblocks while the file system is mounted: one whole copy is there at any time, for they are written in turn. */
#include "fs/super.h"

#include "alloc/quota.h"

/* With features more than are there in memory, and a quota for listed pages that need not be the one that is. */
G4_FN static int write_with(struct g4_wg *wg, struct g4_fs *fs, uint64_t added, uint64_t quota,
			    struct g4_address address)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_superblock *page = (struct g4_superblock *)(void *)g4_scratch_take_page(wg);

	g4_super_take_counts(fs);
	memcpy(page, &fs->super, sizeof(fs->super));
	page->features_incompat |= added;
	page->dedup_quota = quota;
	g4_block_seal(page, G4_BLOCK_SUPERBLOCK, address, fs->super.header.generation, fs->meta.fs_tag);
	int rc = g4_space_write(wg, &fs->space, address, page, sizeof(fs->super), G4_IO_FUA);
	g4_scratch_release(wg, mark);
	return rc;
}

G4_FN int g4_super_write(struct g4_wg *wg, struct g4_fs *fs, struct g4_address address)
{
	return write_with(wg, fs, 0, fs->super.dedup_quota, address);
}

G4_FN static int write_both(struct g4_wg *wg, struct g4_fs *fs, uint64_t added, uint64_t quota)
{
	const int rc = write_with(wg, fs, added, quota, g4_layout_backup(&fs->meta.layout));

	return rc < 0 ? rc : write_with(wg, fs, added, quota, G4_SUPERBLOCK);
}

/* `resizing` is the caller's, or somebody else changes the size. */
G4_FN static int take(struct g4_fs *fs)
{
	while (!g4_cas32(&fs->resizing, 0, G4_FS_ADDS_FEATURE)) {
		if (g4_load32_acq(&fs->resizing) == G4_FS_RESIZES)
			return -G4_E_BUSY;
		g4_pause(); /* somebody else writes both, which takes two writes */
	}
	return 0;
}

G4_FN void g4_super_apply_features(struct g4_fs *fs)
{
	const uint64_t features = g4_load64_acq(&fs->super.features_incompat);

	g4_store32_rel(&fs->alloc.buffers_owners, (features & G4_FEATURE_INCOMPAT_BUFFERED) != 0);
	g4_store32_rel(&fs->alloc.counts_regions, (features & G4_FEATURE_INCOMPAT_WHOLE) != 0);
	g4_quota_set(&fs->alloc, g4_load64_acq(&fs->super.dedup_quota));
}

G4_FN int g4_super_add_feature(struct g4_wg *wg, struct g4_fs *fs, uint64_t feature)
{
	uint64_t added = feature & ~g4_load64_acq(&fs->super.features_incompat);

	if (added == 0)
		return 0;
	if (fs->flags & G4_FS_READ_ONLY)
		return -G4_E_ROFS;
	int rc = take(fs);
	if (rc < 0)
		return rc;
	added = feature & ~g4_load64_acq(&fs->super.features_incompat);
	if (added != 0)
		rc = write_both(wg, fs, added, fs->super.dedup_quota);
	if (rc == 0) /* a workgroup that sees it may use it. A copy on disk that has it where this fails does no harm */
		g4_or64(&fs->super.features_incompat, added);
	g4_super_apply_features(fs);
	g4_store32_rel(&fs->resizing, 0);
	return rc;
}

G4_FN int g4_super_set_quota(struct g4_wg *wg, struct g4_fs *fs, uint64_t bytes)
{
	if (fs->flags & G4_FS_READ_ONLY)
		return -G4_E_ROFS;
	int rc = take(fs);
	if (rc < 0)
		return rc;
	rc = write_both(wg, fs, 0, bytes);
	if (rc == 0)
		g4_store64_rel(&fs->super.dedup_quota, bytes);
	g4_super_apply_features(fs);
	g4_store32_rel(&fs->resizing, 0);
	return rc;
}
