/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two that publish the same contents may both have asked the table before either has made a hint of his page. Both list theirs, and then make a hint. The
 * second hint takes the place of the first by compare-and-swap: so one of the two, and never both, learns of the other, whose page is listed already.
 * He shares that and lets his own page go, which nothing else leads to but who has followed his hint meanwhile.
 *
 * Crash at any line: the pages are the file's in this transaction alone, by the one place or by the other.
 */
#include "data/twice.h"

#include "data/map.h"

G4_FN int g4_twice_yield(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			 uint64_t page, uint32_t pages, const struct g4_sum_entry *sums, const uint64_t *others)
{
	const uint64_t domain = g4_inode_domain(&inode->disk);
	const uint32_t proven = 0;
	int rc = 0;

	for (uint32_t p = 0; p < pages && rc == 0; p++) {
		p += (uint32_t)g4_count_row(&others[p], pages - p, 0, 0); /* of most there is none */
		if (p == pages)
			break;
		const struct g4_address other = g4_address_from(others[p]);
		uint64_t done = 0;

		if (g4_share_listed_row(wg, &fs->alloc, other, 1, &sums[p], domain) <= 0)
			continue;
		rc = g4_map_share_found(wg, fs, txn, inode, page + p, other, 1, &sums[p], &proven, &done);
		if (rc == -G4_E_AGAIN || rc == -G4_E_NOSPC || rc == -G4_E_MLINK) /* it stays twice */
			rc = 0;
		if (done == 0)
			continue;
		const struct g4_listing_key key = g4_listing_key(&sums[p], domain);
		(void)g4_ddt_insert(&fs->ddt, key.bytes, other);
		g4_ddt_count(&fs->ddt, page, 1, UINT64_MAX, 0); /* it was one that was stored */
	}
	return rc;
}
