/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parity of stripes: k chunks of data and m of parity, from any k of which the others can be made again (docs/design/parity.md).
 *
 *     parity r = sum over data chunks j of coefficient(r, j) * data j, byte by byte over GF(2^8) (field.h):
 *
 *     r = 0:  1                                      the exclusive-or, as of RAID 5
 *     r = 1:  2^j                                    as the second one of RAID 6
 *     r = 2:  2^(j + 1) / (2^(j + 1) + 1)
 *     r = 3:  2^(j + 2) / (2^(j + 2) + 1)
 *
 * The coefficients depend on neither k nor m: a stripe can get another parity, or another data chunk, without a change of what is there.
 *
 * All functions are collective, inside a region: every lane passes the same arguments, and what they point to is memory that the lanes
 * share. Results are there for every lane when they return. Buffers of any length and alignment; a GPU is fast where they are 16 B aligned.
 * A buffer that is written overlaps no other one.
 */
#ifndef G4_PARITY_H
#define G4_PARITY_H

#include "simt/simt.h"

#define G4_PARITY_MOST 4u   /* parity chunks of a stripe */
#define G4_PARITY_DISKS 64u /* chunks of a stripe, data and parity */

/* What data chunk `data` (below G4_PARITY_DISKS) is multiplied by in parity chunk `parity`. Per-lane. */
G4_FN uint8_t g4_parity_coefficient(uint32_t parity, uint32_t data);

/* Room that the lanes share. It may hold anything before and after. */
struct g4_parity_scratch {
	uint32_t term[G4_PARITY_DISKS];
	const void *in[G4_PARITY_DISKS];
	void *out[G4_PARITY_MOST];
};

/* parity[0] to parity[m - 1] of data[0] to data[k - 1], `bytes` bytes each. A data chunk that is NULL counts as zeros. */
G4_FN void g4_parity_encode(struct g4_wg *wg, uint32_t k, uint32_t m, const void *const *data, void *const *parity,
			    uint64_t bytes);

/* Bit r of the result: parity[r] is not the data's. Arguments as above. */
G4_FN uint32_t g4_parity_verify(struct g4_wg *wg, uint32_t k, uint32_t m, const void *const *data, void *const *parity,
				uint64_t bytes);

/*
 * Changes all m parities by n (at most G4_PARITY_DISKS) terms: contents data[i] of data chunk chunk[i] come or go, which is the same.
 * So what replaces contents is two terms of one chunk, the old and the new; where there were zeros, or will be, one.
 */
G4_FN void g4_parity_update(struct g4_wg *wg, uint32_t n, const uint32_t *chunk, const void *const *data, uint32_t m,
			    void *const *parity, uint64_t bytes, struct g4_parity_scratch *scratch);

/*
 * Makes lost chunks again: of chunk[0] to chunk[k - 1], the data, and the m parities behind them, those whose bit in `lost` is set and
 * whose pointer is not NULL (NULL: nobody wants it). Of the others a data chunk that is NULL counts as zeros, and a parity that is
 * NULL is not looked at. False, and nothing is written: more data chunks are lost than there are parities to look at.
 * Only the first parities are read, as many as data chunks are lost.
 */
G4_FN bool g4_parity_reconstruct(struct g4_wg *wg, uint32_t k, uint32_t m, uint64_t lost, void *const *chunk,
				 uint64_t bytes, struct g4_parity_scratch *scratch);

#endif
