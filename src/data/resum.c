/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of pages that were written before their file was to have any, or by another algorithm. */
#include "data/resum.h"

#include "data/map_path.h"
#include "data/reserve.h"
#include "inode/inode.h"
#include "inode/txn.h"

/*
 * What entries of a large page may need: four pages of sums in a row, and one for the entry that leads to them, or the indirect page that
 * it is divided into; a page of 1 GiB is divided before. Old pages of sums come back when that is durable.
 */
#define RESUM_RESERVATION 16u

/* Whether a page may get another entry. What is lost, or of an algorithm that this program does not know, stays until a repair. */
G4_FN static bool may_change(const struct g4_sum_entry *entry, uint32_t algorithm)
{
	const uint32_t has = g4_sum_entry_algorithm(entry);

	return has != algorithm && (has == G4_CHECKSUM_NONE || has == G4_CHECKSUM_BLAKE3 || has == G4_CHECKSUM_CRC32C ||
				    has == G4_CHECKSUM_XXH3);
}

G4_FN uint32_t g4_resum_begin(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			      const struct g4_run *run, uint32_t most, struct g4_resum *resum)
{
	const uint32_t pages = run->level > 0 ? G4_RESUM_PAGES : (uint32_t)g4_min64(run->pages, most);
	uint32_t change = 0;

	if (run->kind != G4_WRITTEN || !g4_sums_wanted(fs, inode) || (run->level > 0 && page % G4_RESUM_PAGES))
		return 0;
	resum->algorithm = g4_sums_algorithm(fs, inode->disk.policy);
	resum->page = page;
	resum->address = run->address;
	resum->count = resum->changed = 0;
	/* twice: an error may pass; if it stays, readers of the pages are told so */
	if (g4_map_sums(wg, fs, inode, page, pages, resum->sums) < 0 &&
	    g4_map_sums(wg, fs, inode, page, pages, resum->sums) < 0)
		return 0;
	for (uint32_t k = 0; k < pages; k++)
		change += may_change(&resum->sums[k], resum->algorithm);
	return change ? pages : 0;
}

G4_FN void g4_resum_add(struct g4_wg *wg, struct g4_resum *resum, const uint8_t *pages, uint32_t count, uint64_t keep)
{
	for (uint32_t first = 0; first < count; first += G4_SUMS_AT_ONCE) {
		const uint32_t n = (uint32_t)g4_min64(count - first, G4_SUMS_AT_ONCE);
		struct g4_sum_entry *to[G4_SUMS_AT_ONCE], made[G4_SUMS_AT_ONCE];
		const void *from[G4_SUMS_AT_ONCE];
		const uint32_t mark = g4_scratch_mark(wg);
		struct g4_sum_entry *has = (struct g4_sum_entry *)g4_scratch_take(wg, G4_SUMS_AT_ONCE * sizeof(*has));
		uint32_t wanted = 0, differ = 0, unknown = 0;
		bool had = false;

		for (uint32_t k = first; k < first + n; k++) {
			struct g4_sum_entry *entry = &resum->sums[resum->count + k];
			if ((keep >> k & 1) || !may_change(entry, resum->algorithm))
				continue;
			had = had || g4_sum_entry_algorithm(entry) != G4_CHECKSUM_NONE;
			from[wanted] = pages + k * G4_PAGE_BYTES;
			has[wanted] = *entry;
			to[wanted++] = entry;
		}
		/* of this memory: the caller may have verified other bytes of the page, another copy's for example */
		if (had)
			g4_sums_compare(wg, from, wanted, has, made, &differ, &unknown);
		g4_scratch_release(wg, mark);
		if (wanted > 0)
			g4_sums_make(wg, resum->algorithm, from, wanted, made);
		for (uint32_t k = 0; k < wanted; k++) {
			if ((differ | unknown) >> k & 1)
				continue;
			*to[k] = made[k];
			resum->changed++;
		}
	}
	resum->count += count;
}

/* One transaction. *done more pages have their entries. */
G4_FN static int put(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, const struct g4_resum *resum,
		     uint32_t *done)
{
	struct g4_txn txn;
	uint64_t now = 0;
	int rc = g4_begin(wg, fs, g4_map_credits(fs), &txn);

	if (rc < 0)
		return rc;
	/* the pages are where they were: of the map only what stands beside the pointers changes */
	rc = g4_map_set(wg, fs, &txn, inode, resum->page + *done, g4_address_after_pages(resum->address, *done),
			resum->count - *done, true, &resum->sums[*done], &now);
	if (rc < 0 && !txn.changed)
		return g4_end(fs, &txn, rc);
	*done += (uint32_t)now;
	const int logged = g4_inode_log(wg, fs, &txn, inode);
	rc = g4_end(fs, &txn, rc < 0 ? rc : logged);
	return rc == 0 && now == 0 ? -G4_E_JOURNAL_FULL : rc;
}

G4_FN int g4_resum_end(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, const struct g4_resum *resum)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint32_t done = 0;
	int rc = 0;

	if (resum->changed == 0)
		return 0;
	rc = g4_own_pages(wg, fs, index, resum->page, resum->count);
	if (rc < 0)
		return rc;
	if (!g4_alloc_reserve(&fs->alloc, RESUM_RESERVATION)) {
		/* what was freed helps once that is durable */
		rc = g4_load64_acq(&fs->alloc.pending_pages) ? g4_commit(wg, fs, UINT64_MAX, false) : 0;
		if (rc < 0)
			return rc;
		if (!g4_alloc_reserve(&fs->alloc, RESUM_RESERVATION))
			return -G4_E_NOSPC;
	}
	inode->map_reservation = RESUM_RESERVATION;
	while (done < resum->count && rc == 0)
		rc = put(wg, fs, inode, resum, &done);
	g4_alloc_unreserve(&fs->alloc, inode->map_reservation);
	inode->map_reservation = 0;
	return rc;
}
