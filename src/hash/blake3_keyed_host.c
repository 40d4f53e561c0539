/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAKE3's keyed hash. The key takes the place of the initial chaining value and every compression has a flag more; the tree is
 * the plain hash's. One block at a time: what is keyed here is short, names made of digests and keys made of keys.
 */
#include "hash/blake3_types.h"

static void parent(const uint32_t key[8], const uint32_t left[8], const uint32_t right[8], uint32_t flags,
		   uint32_t out[8])
{
	uint32_t block[16];

	memcpy(block, left, 32);
	memcpy(block + 8, right, 32);
	memcpy(out, key, 32);
	g4_blake3_compress(out, (const uint8_t *)block, sizeof(block), 0, G4_BLAKE3_KEYED | G4_BLAKE3_PARENT | flags);
}

static void hash_leaf(const uint32_t key[8], const uint8_t *data, uint32_t bytes, uint64_t leaf, uint32_t flags,
		      uint32_t cv[8])
{
	const uint32_t blocks = g4_blake3_blocks(bytes);

	memcpy(cv, key, 32);
	for (uint32_t i = 0; i < blocks; i++) {
		const uint32_t at = i * G4_BLAKE3_BLOCK_BYTES;

		g4_blake3_compress(cv, data + at, (uint32_t)g4_min64(bytes - at, G4_BLAKE3_BLOCK_BYTES), leaf,
				   G4_BLAKE3_KEYED | g4_blake3_block_flags(flags, i, blocks));
	}
}

void g4_blake3_keyed(const uint8_t key[G4_BLAKE3_BYTES], const void *data, uint64_t bytes, uint8_t out[G4_BLAKE3_BYTES])
{
	const uint8_t *from = bytes > 0 ? (const uint8_t *)data : (const uint8_t *)"";
	const uint64_t leaves = g4_blake3_leaves(bytes);
	uint32_t words[8], cv[8], stack[G4_BLAKE3_LEVELS][8], depth = 0;

	memcpy(words, key, sizeof(words)); /* hosts are little-endian (base.h) */
	for (uint64_t leaf = 0; leaf < leaves; leaf++) {
		hash_leaf(words, from + leaf * G4_BLAKE3_LEAF_BYTES, g4_blake3_leaf_bytes(bytes, leaf), leaf,
			  leaves == 1 ? G4_BLAKE3_ROOT : 0, cv);
		if (leaf + 1 == leaves)
			break;
		for (uint64_t done = leaf + 1; (done & 1) == 0; done /= 2)
			parent(words, stack[--depth], cv, 0, cv);
		memcpy(stack[depth++], cv, sizeof(cv));
	}
	while (depth > 0) {
		depth--;
		parent(words, stack[depth], cv, depth == 0 ? G4_BLAKE3_ROOT : 0, cv);
	}
	memcpy(out, cv, G4_BLAKE3_BYTES);
}
