/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of symbolic links. */
#include "data/symlink.h"
#include "data/batch.h"
#include "data/page.h"

G4_FN int g4_link_read(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, char *to, uint32_t room, uint32_t *bytes)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint32_t line;

	if (!g4_is_link(inode->disk.mode))
		return -G4_E_INVAL;
	*bytes = (uint32_t)g4_min64(inode->disk.size, room);
	if (inode->disk.flags & G4_INODE_INLINE) {
		memcpy(to, inode->disk.inline_data, g4_min64(*bytes, G4_INLINE_BYTES));
		return 0;
	}
	int rc = g4_page_get(wg, fs, inode, 0, &line);
	if (rc < 0)
		return rc;
	memcpy(to, g4_line_data(&fs->cache, line), *bytes);
	g4_cache_put(&fs->cache, line);
	return 0;
}

G4_FN G4_COLD int g4_link_store(struct g4_wg *wg, struct g4_fs *fs, uint32_t policy, const char *target, uint32_t bytes,
				struct g4_page_ahead *ahead)
{
	memset(ahead, 0, sizeof(*ahead));
	if (bytes <= G4_INLINE_BYTES)
		return 0;
	const uint32_t mark = g4_scratch_mark(wg);
	uint8_t *page = g4_scratch_take_page(wg);
	memset(page, 0, G4_PAGE_BYTES);
	memcpy(page, target, bytes);
	int rc = g4_store_ahead(wg, fs, policy, G4_NO_ADDRESS, page, ahead);
	g4_scratch_release(wg, mark);
	return rc;
}

G4_FN int g4_link_publish(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  const char *target, uint32_t bytes, const struct g4_page_ahead *ahead)
{
	inode->size = inode->disk.size = bytes;
	if (!g4_address_is_none(ahead->address))
		return g4_publish_ahead(wg, fs, txn, inode, 0, ahead);
	inode->disk.flags |= G4_INODE_INLINE;
	memcpy(inode->disk.inline_data, target, bytes);
	return 0;
}

G4_FN void g4_link_drop(struct g4_fs *fs, const struct g4_page_ahead *ahead)
{
	g4_drop_ahead(fs, ahead);
}
