/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of the write pipeline one after the other, and whose reservation pays for the space. */
#include "data/batch.h"
#include "data/dirty.h"
#include "data/map.h"

/* Else what is reserved is the batch's, not its lines'. */
G4_FN static bool has_dirty(const struct g4_batch *batch)
{
	return batch->direct == NULL && !batch->moves && !batch->staged;
}

G4_FN void g4_pipeline_cancel(struct g4_fs *fs, const struct g4_inode_core *inode, const struct g4_batch *batch)
{
	if (has_dirty(batch))
		return;
	g4_alloc_unreserve(&fs->alloc, batch->reserved);
	g4_alloc_unreserve_in(&fs->alloc, g4_file_pool(fs, inode), batch->pooled);
}

G4_FN int g4_pipeline_prepare(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
			      bool first)
{
	if (first && !batch->direct && g4_ddt_is_there(&fs->ddt))
		memset(batch->lists->seen, 0, sizeof(batch->lists->seen));
	int rc = batch->moves ? 0 : g4_hash(wg, fs, inode->disk.policy, batch);

	if (rc == 0 && !batch->moves)
		g4_dedup_batch(wg, fs, inode, batch, 0);
	if (rc == 0)
		rc = g4_place(wg, fs, inode, batch, 0);
	if (rc < 0)
		g4_pipeline_cancel(fs, inode, batch);
	return rc;
}

/* Of what is reserved in a pool there is to be left what is kept. */
G4_FN static void settle(struct g4_fs *fs, uint32_t pool, uint64_t left, uint64_t kept)
{
	if (kept > left)
		g4_alloc_reserve_again(&fs->alloc, pool, kept - left);
	else
		g4_alloc_unreserve_in(&fs->alloc, pool, left - kept);
}

G4_FN int g4_pipeline_finish(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
			     uint64_t size, int rc, uint32_t *published)
{
	*published = 0;
	/* what the pages themselves did not take is for mapping, the growth last: others may need it later */
	const uint32_t pool = g4_file_pool(fs, inode);
	const uint64_t claimed = pool == G4_LEVEL_OWN ? batch->claimed : 0;

	inode->map_reservation = batch->reserved - claimed + inode->growth_reservation;
	if (rc == 0)
		rc = g4_publish(wg, fs, inode, batch, size, published);
	inode->growth_reservation = (uint32_t)g4_min64(inode->growth_reservation, inode->map_reservation);
	const uint64_t left = inode->map_reservation - inode->growth_reservation;
	/* what was not published is dirty still, and its reservation holds before anybody else can have the space */
	const uint64_t kept = has_dirty(batch) ? g4_gathered_reservation(fs, batch, *published) : 0;
	inode->map_reservation = 0;
	settle(fs, G4_LEVEL_OWN, left, kept);
	if (pool != G4_LEVEL_OWN)
		settle(fs, pool, batch->pooled - batch->claimed,
		       has_dirty(batch) ? g4_gathered_pooled(fs, batch, *published) : 0);
	if (*published < batch->count)
		g4_place_undo(fs, batch, *published);
	return rc;
}

G4_FN int g4_pipeline_run(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
			  uint64_t size, uint32_t *published)
{
	int rc = g4_pipeline_prepare(wg, fs, inode, batch, true);

	*published = 0;
	return rc < 0 ? rc : g4_pipeline_finish(wg, fs, inode, batch, size, g4_store(wg, fs, batch), published);
}

G4_FN void g4_pipeline_run_together(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *const *inodes,
				    struct g4_batch *batches, uint32_t count, int *results, uint32_t *published)
{
	for (uint32_t k = 0; k < count; k++) {
		published[k] = 0;
		results[k] = g4_pipeline_prepare(wg, fs, inodes[k], &batches[k], k == 0);
		if (results[k] < 0)
			batches[k].segment_count = 0; /* nothing of it is stored */
	}
	const int stored = g4_store_together(wg, fs, batches, count);
	for (uint32_t k = 0; k < count; k++)
		if (results[k] == 0)
			results[k] = g4_pipeline_finish(wg, fs, inodes[k], &batches[k], inodes[k]->size, stored,
							&published[k]);
}

G4_FN int g4_store_ahead(struct g4_wg *wg, struct g4_fs *fs, uint32_t policy, struct g4_address goal,
			 const uint8_t *data, struct g4_page_ahead *ahead)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_batch *batch = g4_batch_take(wg);

	memset(ahead, 0, sizeof(*ahead));
	g4_gather_memory(data, 0, 1, 0, batch);
	int rc = g4_hash(wg, fs, policy, batch);
	if (rc == 0)
		rc = g4_place_page(wg, fs, policy, goal, batch);
	if (rc == 0) {
		rc = g4_store(wg, fs, batch);
		g4_store32_rel(&fs->journal.data_written, 1); /* flushed before the record of any transaction */
		if (rc < 0) {
			g4_place_undo(fs, batch, 0);
		} else {
			ahead->address = batch->segments[0].address;
			ahead->has_sum = batch->algorithm != G4_CHECKSUM_NONE;
			ahead->sum = batch->sums[0];
		}
	}
	g4_scratch_release(wg, mark);
	return rc;
}

G4_FN int g4_publish_ahead(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   uint64_t page, const struct g4_page_ahead *ahead)
{
	uint64_t done;
	int rc = g4_map_set(wg, fs, txn, inode, page, ahead->address, 1, true, ahead->has_sum ? &ahead->sum : NULL,
			    &done);

	/* a transaction without the credits for it leaves the page out, and the caller can not go on in another one */
	return rc == 0 && done == 0 ? -G4_E_JOURNAL_FULL : rc;
}

G4_FN void g4_drop_ahead(struct g4_fs *fs, const struct g4_page_ahead *ahead)
{
	g4_alloc_release(&fs->alloc, ahead->address, 1);
}
