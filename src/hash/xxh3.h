/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XXH3-128 of more than 240 bytes, with seed 0 and the default secret: the fast checksum of data pages (Collet, "xxHash",
 * doc/xxhash_spec.md, version 0.2.0, section "XXH3 Algorithm (for long inputs)"). Shorter inputs have other formulas in
 * that hash, and there are none here.
 *
 * The input is taken in stripes of 64 bytes, each of which adds to eight sums; sixteen stripes are a block, behind which the
 * sums are scrambled. What a stripe adds does not depend on the sums, so the stripes of a block can be added side by side.
 */
#ifndef G4_XXH3_H
#define G4_XXH3_H

#include "simt/simt.h"

#define G4_XXH3_LEAST_BYTES 241u
#define G4_XXH3_BYTES 16

/*
 * out = the low and the high 64 bits of the hash of `bytes` bytes, at least G4_XXH3_LEAST_BYTES. Per-lane. `data` needs no
 * alignment on a CPU and 8 bytes on a GPU. Chooses the fastest variant the processor has.
 */
G4_FN void g4_xxh3_128(const void *data, uint64_t bytes, uint64_t out[2]);

/*
 * The same of `n` buffers of `pages` times 4 KiB each, 1 to 32, 16 B aligned, by all lanes of a workgroup of 4, 8, 16 or 32; each hash
 * is followed by 8 bytes of zeros and `last`. Collective, inside a region: every lane passes the same arguments, and what they point
 * to is memory that the lanes share. The hashes are there for every lane when it returns.
 */
#define G4_XXH3_SCRATCH_PAGES 32u
struct g4_xxh3_scratch {
	uint64_t block[G4_XXH3_SCRATCH_PAGES][4][8]; /* what the blocks of each page add to the sums */
	uint64_t part[G4_XXH3_SCRATCH_PAGES][4][2];  /* what the sums of each buffer add to the result, two by two */
};
G4_FN void g4_xxh3_group(struct g4_wg *wg, uint32_t n, const void *const *data, uint32_t pages, uint64_t last,
			 uint64_t (*out)[4], struct g4_xxh3_scratch *scratch);

/* ---- the variants: all give the same result; the portable one is the reference and the one that GPUs run ---- */
/* The sums behind all stripes. */
G4_FN void g4_xxh3_sums_portable(const uint8_t *data, uint64_t bytes, uint64_t sums[8]);
#if !G4_CUDA && defined(__x86_64__)
#define G4_XXH3_HAVE_X86 1
bool g4_xxh3_avx2_usable(void);
void g4_xxh3_sums_avx2(const uint8_t *data, uint64_t bytes, uint64_t out[8]);
#else
#define G4_XXH3_HAVE_X86 0
#endif

#endif
