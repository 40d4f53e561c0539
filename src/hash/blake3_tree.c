/* SPDX-License-Identifier: Apache-2.0 */
/* BLAKE3's tree: chaining values of subtrees, joined from the left. */
#include "hash/blake3_types.h"

/* out = the parent of two chaining values. */
G4_FN static void parent(const uint32_t left[8], const uint32_t right[8], uint32_t flags, uint32_t out[8])
{
	const uint32_t iv[8] = G4_BLAKE3_IV;
	uint32_t block[16];

	memcpy(block, left, 32);
	memcpy(block + 8, right, 32);
	memcpy(out, iv, sizeof(iv));
	g4_blake3_compress(out, (const uint8_t *)block, sizeof(block), 0, G4_BLAKE3_PARENT | flags);
}

G4_FN void g4_blake3_tree_init(struct g4_blake3_tree *tree)
{
	tree->leaves = 0;
	tree->depth = 0;
}

G4_FN void g4_blake3_tree_push(struct g4_blake3_tree *tree, const uint32_t cv[8], uint64_t leaves)
{
	uint32_t joined[8];
	uint64_t subtrees;

	memcpy(joined, cv, sizeof(joined));
	tree->leaves += leaves;
	for (subtrees = tree->leaves / leaves; (subtrees & 1) == 0; subtrees /= 2) {
		tree->depth--;
		parent(tree->cv[tree->depth], joined, 0, joined);
	}
	memcpy(tree->cv[tree->depth], joined, sizeof(joined));
	tree->depth++;
}

G4_FN void g4_blake3_tree_final(const struct g4_blake3_tree *tree, const uint32_t cv[8], uint8_t out[G4_BLAKE3_BYTES])
{
	uint32_t joined[8];

	memcpy(joined, cv, sizeof(joined));
	for (uint32_t i = tree->depth; i-- > 0;)
		parent(tree->cv[i], joined, i == 0 ? G4_BLAKE3_ROOT : 0, joined);
	memcpy(out, joined, G4_BLAKE3_BYTES);
}
