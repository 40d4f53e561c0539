/* SPDX-License-Identifier: Apache-2.0 */
/* Sums by the algorithm that is asked for. */
#include "hash/sums.h"

/* Buffers that are handed on in one call. */
#define BATCH ((uint32_t)G4_BLAKE3_SCRATCH_LEAVES / 4)

G4_FN static void xxh3(struct g4_wg *wg, uint32_t n, const void *const *data, uint32_t pages, struct g4_sum *sums,
		       struct g4_xxh3_scratch *scratch)
{
	if (g4_wg_width(wg) > 1) {
		g4_xxh3_group(wg, n, data, pages, g4_sum_name(G4_SUM_XXH3), (uint64_t(*)[4])sums, scratch);
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		g4_xxh3_128(data[i], pages * G4_PAGE_BYTES, sums[i].word);
		sums[i].word[2] = 0;
		sums[i].word[3] = g4_sum_name(G4_SUM_XXH3);
	}
}

/* All that have digests of BLAKE3 now. */
G4_FN static void name_blake3(struct g4_wg *wg, uint32_t n, struct g4_sum *sums)
{
	for (uint32_t i = g4_wg_lane(wg); i < n; i += g4_wg_width(wg))
		g4_sum_of_blake3(&sums[i]);
	g4_sync(wg);
}

G4_FN void g4_page_sums(struct g4_wg *wg, enum g4_sum_algorithm algorithm, uint32_t n, const void *const *data,
			struct g4_sum *sums, union g4_page_sums_scratch *scratch)
{
	switch (algorithm) {
	case G4_SUM_BLAKE3:
		g4_blake3_pages(wg, n, data, (uint8_t(*)[G4_BLAKE3_BYTES])sums, &scratch->blake3);
		name_blake3(wg, n, sums);
		break;
	case G4_SUM_XXH3:
		xxh3(wg, n, data, 1, sums, &scratch->xxh3);
		break;
	case G4_SUM_CRC32C:
		g4_crc32c_group(wg, n, data, 1, g4_sum_name(G4_SUM_CRC32C), (uint64_t(*)[4])sums);
		break;
	default:
		G4_TRAP();
	}
}

G4_FN static void blake3(struct g4_wg *wg, uint32_t n, const void *const *data, uint32_t pages, struct g4_sum *sums,
			 union g4_sums_scratch *scratch)
{
	for (uint32_t i = g4_wg_lane(wg); i < BATCH; i += g4_wg_width(wg))
		scratch->blake3.bytes[i] = pages * G4_PAGE_BYTES;
	g4_sync(wg);
	for (uint32_t first = 0; first < n; first += BATCH)
		g4_blake3_group(wg, g4_min64(n - first, BATCH), data + first, scratch->blake3.bytes,
				(uint8_t(*)[G4_BLAKE3_BYTES])(sums + first), &scratch->blake3.scratch);
	name_blake3(wg, n, sums);
}

G4_FN void g4_sums(struct g4_wg *wg, enum g4_sum_algorithm algorithm, uint32_t n, const void *const *data,
		   uint32_t pages, struct g4_sum *sums, union g4_sums_scratch *scratch)
{
	if (pages == 1)
		g4_page_sums(wg, algorithm, n, data, sums, &scratch->pages);
	else if (algorithm == G4_SUM_BLAKE3)
		blake3(wg, n, data, pages, sums, scratch);
	else if (algorithm == G4_SUM_XXH3)
		xxh3(wg, n, data, pages, sums, &scratch->pages.xxh3);
	else
		g4_crc32c_group(wg, n, data, pages, g4_sum_name(G4_SUM_CRC32C), (uint64_t(*)[4])sums);
}
