/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAKE3-256: the checksum of data pages and the name of a content-defined chunk (O'Connor, Aumasson, Neves and
 * Wilcox-O'Hearn, "BLAKE3: one function, fast everywhere", 2021; the plain hash mode with 32 bytes of output).
 *
 * A buffer is cut into leaves of 1 KiB, a leaf is hashed 64 bytes at a time, and a binary tree of 64-byte parents joins
 * the leaves' chaining values. Leaves do not depend on each other: processors with vectors hash 8 or 16 of them side by
 * side, of one buffer or of many, and a workgroup gives one to each lane.
 */
#ifndef G4_BLAKE3_H
#define G4_BLAKE3_H

#include "simt/simt.h"

#define G4_BLAKE3_BYTES 32
#define G4_BLAKE3_BLOCK_BYTES 64
#define G4_BLAKE3_LEAF_BYTES 1024

/*
 * Chaining values of the complete subtrees to the left of where a hash stands, largest first: one for each bit that is
 * set in `leaves`. 2^64 bytes have 2^54 leaves.
 */
#define G4_BLAKE3_LEVELS 54
struct g4_blake3_tree {
	uint64_t leaves;
	uint32_t depth;
	uint32_t cv[G4_BLAKE3_LEVELS][8];
};

/* A hash of bytes that come in pieces. Any number may be under way; one is used by one thread or lane at a time. */
struct g4_blake3 {
	struct g4_blake3_tree tree;
	uint32_t cv[8];	     /* of the leaf's blocks before the last one */
	uint32_t leaf_bytes; /* of the current leaf, with those in `block`; 1024 until more input comes */
	uint8_t block[G4_BLAKE3_BLOCK_BYTES];
};

/*
 * The digest of `bytes` bytes at `data`. Per-lane. `data` needs no alignment and may be NULL where `bytes` is 0. Chooses
 * the fastest variant the processor has.
 */
G4_FN void g4_blake3(const void *data, uint64_t bytes, uint8_t out[G4_BLAKE3_BYTES]);

/* The same in pieces of any size; final leaves the hash as it is, so that more may follow. Per-lane. */
G4_FN void g4_blake3_init(struct g4_blake3 *hash);
G4_FN void g4_blake3_update(struct g4_blake3 *hash, const void *data, uint64_t bytes);
G4_FN void g4_blake3_final(const struct g4_blake3 *hash, uint8_t out[G4_BLAKE3_BYTES]);

#if !G4_CUDA
/*
 * The keyed hash (the paper's section 2.3): a pseudorandom function of the data under a secret key. Thread-safe. For what
 * is short: no vectors.
 */
void g4_blake3_keyed(const uint8_t key[G4_BLAKE3_BYTES], const void *data, uint64_t bytes,
		     uint8_t out[G4_BLAKE3_BYTES]);
#endif

/*
 * Digests of `n` independent buffers: out[i] is that of bytes[i] bytes at data[i]. Fills the processor's vectors with
 * leaves of all of them, so that many pages cost far less than one call each. Per-lane. Allocates nothing.
 */
G4_FN void g4_blake3_many(uint64_t n, const void *const *data, const uint64_t *bytes, uint8_t (*out)[G4_BLAKE3_BYTES]);

/*
 * The same by all lanes of a workgroup. Collective, inside a region: every lane passes the same arguments, and `data`,
 * `bytes`, `out` and `scratch` lie in memory that the lanes share. `scratch` may hold anything before and after. The digests
 * are there for every lane when it returns.
 */
struct g4_blake3_scratch;
G4_FN void g4_blake3_group(struct g4_wg *wg, uint64_t n, const void *const *data, const uint64_t *bytes,
			   uint8_t (*out)[G4_BLAKE3_BYTES], struct g4_blake3_scratch *scratch);

/*
 * Digests of `n` pages of 4 KiB, 16 B aligned like `out`, by all lanes of a workgroup. Collective, as g4_blake3_group() is.
 */
#define G4_BLAKE3_SCRATCH_PAGES 32u
struct g4_blake3_pages_scratch {
	uint32_t leaf[G4_BLAKE3_SCRATCH_PAGES * 4][8];
	uint32_t parent[G4_BLAKE3_SCRATCH_PAGES * 2][8];
} __attribute__((aligned(16)));
G4_FN void g4_blake3_pages(struct g4_wg *wg, uint32_t n, const void *const *pages, uint8_t (*out)[G4_BLAKE3_BYTES],
			   struct g4_blake3_pages_scratch *scratch);

/* Leaves that g4_blake3_group() has in flight, and subtrees of that size at most. A power of two. */
#define G4_BLAKE3_SCRATCH_LEAVES 256
struct g4_blake3_piece {
	uint64_t buffer;     /* which one */
	uint64_t first_leaf; /* where in the buffer it begins; a multiple of SCRATCH_LEAVES */
	uint32_t leaves;
	uint32_t leaf; /* leaves of the pieces before it */
	uint32_t slot; /* of its first chaining value; a multiple of the power of two that holds its leaves */
	bool whole;    /* it is all of its buffer */
	bool last;     /* it is the end of its buffer */
};
struct g4_blake3_scratch {
	uint64_t buffer, first_leaf; /* where the next piece begins */
	uint32_t pieces, leaves, slots;
	struct g4_blake3_tree tree; /* of the one buffer that is larger than a piece */
	struct g4_blake3_piece piece[G4_BLAKE3_SCRATCH_LEAVES];
	uint16_t piece_of_leaf[G4_BLAKE3_SCRATCH_LEAVES];
	uint16_t piece_of_slot[G4_BLAKE3_SCRATCH_LEAVES];
	uint32_t cv[G4_BLAKE3_SCRATCH_LEAVES][8];
};
#endif
