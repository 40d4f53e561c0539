/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the variants of BLAKE3 share: constants, the order in which each round takes the message's words, the unit of
 * work and the variants themselves. All variants give the same results; the portable one is the reference and the one
 * that GPUs run.
 */
#ifndef G4_BLAKE3_TYPES_H
#define G4_BLAKE3_TYPES_H

#include "hash/blake3.h"

enum { G4_BLAKE3_START = 1, G4_BLAKE3_END = 2, G4_BLAKE3_PARENT = 4, G4_BLAKE3_ROOT = 8, G4_BLAKE3_KEYED = 16 };

#define G4_BLAKE3_IV                                                                                                   \
	{                                                                                                              \
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19         \
	}

/*
 * The seven rounds: ROUND(word of the message for each of the sixteen places). Written out, so that every variant's
 * message stays in registers.
 */
#define G4_BLAKE3_ROUNDS(ROUND)                                                                                        \
	ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)                                                    \
	ROUND(2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)                                                    \
	ROUND(3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1)                                                    \
	ROUND(10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6)                                                    \
	ROUND(12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4)                                                    \
	ROUND(9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7)                                                    \
	ROUND(11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13)

/* One round by a variant's MIX(a, b, c, d, x, y): columns, then diagonals of the state v[16], with message m[16]. */
#define G4_BLAKE3_ROUND(MIX, a, b, c, d, e, f, g, h, i, j, k, l, m0, n, o, p)                                          \
	MIX(v[0], v[4], v[8], v[12], m[a], m[b]);                                                                      \
	MIX(v[1], v[5], v[9], v[13], m[c], m[d]);                                                                      \
	MIX(v[2], v[6], v[10], v[14], m[e], m[f]);                                                                     \
	MIX(v[3], v[7], v[11], v[15], m[g], m[h]);                                                                     \
	MIX(v[0], v[5], v[10], v[15], m[i], m[j]);                                                                     \
	MIX(v[1], v[6], v[11], v[12], m[k], m[l]);                                                                     \
	MIX(v[2], v[7], v[8], v[13], m[m0], m[n]);                                                                     \
	MIX(v[3], v[4], v[9], v[14], m[o], m[p]);

/* One leaf or one parent to hash. A parent's data is its children's chaining values, which lie side by side. */
struct g4_blake3_job {
	const uint8_t *data;
	uint64_t leaf;	/* number of the leaf in its buffer; 0 for a parent */
	uint32_t bytes; /* 0 to 1024, of a parent 64 */
	uint32_t flags; /* PARENT, ROOT */
	uint32_t *
		cv; /* the result, 8 words; with ROOT they are the digest. Of a parent it may be the left child or before */
};

/* Flags of block `block` of a job's `blocks`. */
G4_HD G4_INLINE uint32_t g4_blake3_block_flags(uint32_t flags, uint32_t block, uint32_t blocks)
{
	uint32_t is = flags & G4_BLAKE3_PARENT;

	if (!is)
		is = (block == 0 ? G4_BLAKE3_START : 0) | (block + 1 == blocks ? G4_BLAKE3_END : 0);
	return block + 1 == blocks ? is | (flags & G4_BLAKE3_ROOT) : is;
}

/* Blocks of a job; there is one even where there are no bytes. */
G4_HD G4_INLINE uint32_t g4_blake3_blocks(uint32_t bytes)
{
	return bytes ? (bytes + G4_BLAKE3_BLOCK_BYTES - 1) / G4_BLAKE3_BLOCK_BYTES : 1;
}

/* Leaves of a buffer; there is one even where there are no bytes. */
G4_HD G4_INLINE uint64_t g4_blake3_leaves(uint64_t bytes)
{
	return bytes ? (bytes - 1) / G4_BLAKE3_LEAF_BYTES + 1 : 1;
}

/* Bytes of leaf `leaf` of a buffer. */
G4_HD G4_INLINE uint32_t g4_blake3_leaf_bytes(uint64_t bytes, uint64_t leaf)
{
	return (uint32_t)g4_min64(bytes - leaf * G4_BLAKE3_LEAF_BYTES, G4_BLAKE3_LEAF_BYTES);
}

/* ---- the portable variant: one block, one job ---- */
/* cv becomes that of `bytes` (0 to 64) more bytes at `block`. Per-lane. */
G4_FN void g4_blake3_compress(uint32_t cv[8], const uint8_t *block, uint32_t bytes, uint64_t leaf, uint32_t flags);
G4_FN void g4_blake3_job_portable(const struct g4_blake3_job *job);

/* ---- trees ---- */
G4_FN void g4_blake3_tree_init(struct g4_blake3_tree *tree);
/* Adds a complete subtree of `leaves` leaves, a power of two that divides what is there; more must follow. */
G4_FN void g4_blake3_tree_push(struct g4_blake3_tree *tree, const uint32_t cv[8], uint64_t leaves);
/* The digest of a tree that is not empty and ends with a subtree of chaining value cv. */
G4_FN void g4_blake3_tree_final(const struct g4_blake3_tree *tree, const uint32_t cv[8], uint8_t out[G4_BLAKE3_BYTES]);

/* ---- variants for the host ---- */
#if !G4_CUDA
/* `n` jobs in order, by the fastest variant there is. A later job may read what an earlier one read, not what it wrote. */
void g4_blake3_jobs(uint32_t n, const struct g4_blake3_job *jobs);
/* The chaining value of `leaves` complete leaves from leaf `first` on; `leaves` is a power of two, 256 at most. */
void g4_blake3_subtree(const uint8_t *data, uint64_t first, uint32_t leaves, uint32_t cv[8]);
void g4_blake3_jobs_portable(uint32_t n, const struct g4_blake3_job *jobs);

#if defined(__x86_64__)
#define G4_BLAKE3_HAVE_X86 1
/* True where the processor and the operating system have what the variant needs. */
bool g4_blake3_avx2_usable(void);
bool g4_blake3_avx512_usable(void);
void g4_blake3_jobs_avx2(uint32_t n, const struct g4_blake3_job *jobs);
/* Both need g4_blake3_avx512_usable(). The second is the first one's remainder, on 256-bit vectors. */
void g4_blake3_jobs_avx512(uint32_t n, const struct g4_blake3_job *jobs);
void g4_blake3_jobs_avx512vl(uint32_t n, const struct g4_blake3_job *jobs);
#else
#define G4_BLAKE3_HAVE_X86 0
#endif
#endif

#endif
