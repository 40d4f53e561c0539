/* SPDX-License-Identifier: Apache-2.0 */
/* Writing past the cache: large writes of whole pages, a batch after the other through the write pipeline. */
#include "data/batch.h"
#include "data/bounce_stage.h"
#include "data/dirty.h"
#include "data/page.h"
#include "data/reserve.h"
#include "data/writeback.h"
#include "inode/txn.h"

#define DIRECT_PAGES                                                                                                   \
	4096u /* a batch: enough for many workgroups to move at a time; with sums it ends with a large page */

G4_FN int g4_write_direct(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint64_t page, const uint8_t *from,
			  uint64_t pages, uint64_t new_size, uint32_t wish, struct g4_stage_ahead *ahead,
			  uint64_t *done)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);

	const bool sums = g4_sums_algorithm(fs, inode->disk.policy) != G4_CHECKSUM_NONE;
	const bool staged = g4_dedup_wanted(fs, inode, wish) || (sums && g4_space_stripe_bytes(&fs->space) > 0);
	const uint32_t row = staged || sums ? G4_BATCH_SUMS : DIRECT_PAGES;

	for (*done = 0; *done < pages;) {
		const uint64_t first = page + *done, most = sums ? row - first % row : row;
		uint64_t now = g4_min64(pages - *done, most), reserved, pooled;
		uint32_t published;
		int rc = staged ? g4_reserve_staged(wg, fs, index, first, &now, &reserved, &pooled) :
				  g4_reserve_direct(wg, fs, index, first, &now, &reserved, &pooled);
		if (rc < 0)
			return g4_check(fs, rc);
		const uint32_t mark = g4_scratch_mark(wg);
		struct g4_batch *batch = g4_batch_take(wg);
		const uint8_t *at = from + *done * G4_PAGE_BYTES;
		if (staged) {
			batch->wish = (uint8_t)wish;
			batch->reserved = reserved;
			batch->pooled = pooled;
			rc = g4_stage_run(wg, fs, inode, batch, at, first, (uint32_t)now, new_size, ahead, &published);
		} else {
			g4_gather_memory(at, first, (uint32_t)now, reserved, batch);
			batch->pooled = pooled;
			batch->foreign = true;
			rc = g4_pipeline_run(wg, fs, inode, batch, new_size, &published);
		}
		g4_scratch_release(wg, mark);
		uint64_t end = first + published;
		g4_drop_dirty(fs, index, first, end);
		if (g4_pages_absent(wg, fs, inode, first, published) < published)
			g4_cache_drop_range(&fs->cache, inode->data_key, first, end);
		*done += published;
		if (published > 0)
			g4_set_size(inode, g4_max64(inode->size, g4_min64(new_size, end * G4_PAGE_BYTES)));
		if (rc < 0)
			return g4_check(fs, rc);
	}
	return 0;
}
