/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear combinations of buffers over GF(2^8): what making, changing, checking and reconstructing come down to.
 *
 *     row r:   sum over columns c of  coefficient(r, c) * in[c]
 *
 * All variants give the same results; the portable one is the reference.
 */
#ifndef G4_PARITY_COMBINE_H
#define G4_PARITY_COMBINE_H

#include "parity/parity.h"

enum g4_parity_way {
	G4_PARITY_SET,	  /* out[r] = row r */
	G4_PARITY_ADD,	  /* out[r] += row r */
	G4_PARITY_COMPARE /* bit r of what is returned: out[r] is not row r. Writes nothing */
};

/* What is known of the coefficients, for variants that make use of it. */
enum g4_parity_shape {
	G4_PARITY_ANY,
	G4_PARITY_ONES, /* row 0 has ones */
	G4_PARITY_CODE, /* they are the code's (parity.h): row 0 has ones, row 1 the powers of 2, column by column */
};

struct g4_parity_job {
	enum g4_parity_way way;
	enum g4_parity_shape shape;
	uint32_t rows, columns; /* at least 1; at most G4_PARITY_MOST, G4_PARITY_DISKS */
	const uint32_t *term;	/* byte r of term[c] is the coefficient in row r */
	const void *const *in;	/* NULL: zeros */
	void *const *out;
};

/* Collective, of `bytes` bytes; every lane gets the same, and what was written is there for all of them. By the fastest variant there is. */
G4_FN uint32_t g4_parity_combine(struct g4_wg *wg, const struct g4_parity_job *job, uint64_t bytes);

/*
 * The variant of GPUs, whose lanes take 16 bytes each in turns. Collective; returns what is wrong of the lane's own bytes, and what
 * others wrote is there after the next collective. Buffers that are not 16 B aligned take far longer.
 */
G4_FN uint32_t g4_parity_combine_words(struct g4_wg *wg, const struct g4_parity_job *job, uint64_t bytes);

#if !G4_CUDA
/* Per-lane: of bytes `from` to `to`. Buffers need no alignment. */
uint32_t g4_parity_combine_portable(const struct g4_parity_job *job, uint64_t from, uint64_t to);

#if defined(__x86_64__)
#define G4_PARITY_HAVE_X86 1
/* True where the processor and the operating system have what the variant needs. */
bool g4_parity_avx2_usable(void);
bool g4_parity_avx512_usable(void);
uint32_t g4_parity_combine_avx2(const struct g4_parity_job *job, uint64_t from, uint64_t to);
uint32_t g4_parity_combine_avx512(const struct g4_parity_job *job, uint64_t from, uint64_t to);
#else
#define G4_PARITY_HAVE_X86 0
#endif
#endif

#endif
