/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of data: what tells whether a page is what was written.
 *
 * A sum is an entry of 256 bits that names its algorithm itself (docs/design/checksums.md). Its four highest bits are zero here: on
 * disk they belong to the page that the entry stands in.
 *
 *      255  252  251  250      243 242                             0
 *     +--------+-----+---------------------------------------------+
 *     |   0    |  1  | the lower 251 bits of BLAKE3-256            |
 *     |   0    |  0  | algorithm |  0 ...  XXH3-128, or CRC-32C    |
 *     +--------+-----+-----------+---------------------------------+
 *
 * What the entry of a page of 2 MiB or 1 GiB says of each page of entries of its parts is the lowest 48 bits of word 0 of the sum of
 * that page (FORMAT.md, "Sums").
 */
#ifndef G4_SUMS_H
#define G4_SUMS_H

#include "hash/blake3.h"
#include "hash/crc32c.h"
#include "hash/xxh3.h"

/* The numbers are those in an entry; BLAKE3 has a bit instead. */
enum g4_sum_algorithm { G4_SUM_BLAKE3 = 0, G4_SUM_CRC32C = 1, G4_SUM_XXH3 = 2 };

struct g4_sum {
	uint64_t word[4];
} __attribute__((aligned(16)));
G4_STATIC_ASSERT(sizeof(struct g4_sum) == G4_BLAKE3_BYTES, "a digest becomes a sum where it lies");

#define G4_SUM_IS_BLAKE3 (UINT64_C(1) << 59) /* in word 3 */
#define G4_SUM_ALGORITHM_SHIFT 51

/* Room that the lanes share while sums of pages are made. It may hold anything before and after. */
union g4_page_sums_scratch {
	struct g4_blake3_pages_scratch blake3;
	struct g4_xxh3_scratch xxh3;
};
/* The same for buffers of several pages. */
union g4_sums_scratch {
	union g4_page_sums_scratch pages;
	struct {
		uint64_t bytes[G4_BLAKE3_SCRATCH_LEAVES / 4]; /* as many pages fill the scratch */
		struct g4_blake3_scratch scratch;
	} blake3;
};

/* Makes a digest of BLAKE3 the entry that says so. */
G4_HD G4_INLINE void g4_sum_of_blake3(struct g4_sum *digest)
{
	digest->word[3] = (digest->word[3] & (G4_SUM_IS_BLAKE3 - 1)) | G4_SUM_IS_BLAKE3;
}

/* Word 3 of an entry of another algorithm. */
G4_HD G4_INLINE uint64_t g4_sum_name(enum g4_sum_algorithm algorithm)
{
	return (uint64_t)algorithm << G4_SUM_ALGORITHM_SHIFT;
}

G4_HD G4_INLINE bool g4_sum_equal(const struct g4_sum *a, const struct g4_sum *b)
{
	uint64_t differ = 0;

	for (uint32_t i = 0; i < 4; i++)
		differ |= a->word[i] ^ b->word[i];
	return differ == 0;
}

/*
 * sums[i] = the sum of the page at data[i], 16 B aligned, for each of `n`.
 *
 * Collective, inside a region: every lane passes the same arguments, and what they point to is memory that the lanes share. Sums of
 * many pages in one call cost far less than one call each. The sums are there for every lane when it returns.
 */
G4_FN void g4_page_sums(struct g4_wg *wg, enum g4_sum_algorithm algorithm, uint32_t n, const void *const *data,
			struct g4_sum *sums, union g4_page_sums_scratch *scratch);
/* The same of `pages` times 4 KiB, 1 to 32, at each data[i]. */
G4_FN void g4_sums(struct g4_wg *wg, enum g4_sum_algorithm algorithm, uint32_t n, const void *const *data,
		   uint32_t pages, struct g4_sum *sums, union g4_sums_scratch *scratch);

#endif
