/* SPDX-License-Identifier: Apache-2.0 */
/* The stage of the write pipeline in which pages get their sums. Lines are not changed meanwhile: the inode is locked. */
#include "data/batch.h"

G4_FN int g4_hash(struct g4_wg *wg, struct g4_fs *fs, uint32_t policy, struct g4_batch *batch)
{
	const uint32_t algorithm = g4_sums_algorithm(fs, policy);
	const void *pages[G4_SUMS_AT_ONCE];

	batch->algorithm = algorithm;
	if (algorithm == G4_CHECKSUM_NONE)
		return 0;
	if (algorithm == G4_CHECKSUM_UNKNOWN)
		return -G4_E_POLICY;
	if (batch->foreign)
		return 0;
	for (uint32_t first = 0; first < batch->count; first += G4_SUMS_AT_ONCE) {
		const uint32_t n = (uint32_t)g4_min64(batch->count - first, G4_SUMS_AT_ONCE);
		for (uint32_t k = 0; k < n; k++)
			pages[k] = g4_batch_page(fs, batch, first + k);
		g4_sums_make(wg, algorithm, pages, n, &batch->sums[first]);
	}
	return 0;
}
