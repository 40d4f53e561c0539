/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLAKE3's hash of bytes that come in pieces.
 *
 * A block, a leaf and a subtree are only closed when more input follows, because the last one of each kind carries flags
 * that say so. Hence `leaf_bytes` may stand at 1024, and g4_blake3_tree_push() is only called for what is not the end.
 */
#include "hash/blake3_types.h"

G4_FN static void begin_leaf(struct g4_blake3 *hash)
{
	const uint32_t iv[8] = G4_BLAKE3_IV;

	memcpy(hash->cv, iv, sizeof(iv));
	hash->leaf_bytes = 0;
}

G4_FN void g4_blake3_init(struct g4_blake3 *hash)
{
	g4_blake3_tree_init(&hash->tree);
	begin_leaf(hash);
}

/* Bytes in the block buffer: 0 only at the beginning of a leaf. */
G4_FN static uint32_t block_bytes(const struct g4_blake3 *hash)
{
	return hash->leaf_bytes ? (hash->leaf_bytes - 1) % G4_BLAKE3_BLOCK_BYTES + 1 : 0;
}

/* Adds the block buffer to cv as block number (leaf_bytes - 1) / 64 of the leaf. */
G4_FN static void close_block(const struct g4_blake3 *hash, uint32_t cv[8], uint32_t flags)
{
	if (hash->leaf_bytes <= G4_BLAKE3_BLOCK_BYTES)
		flags |= G4_BLAKE3_START;
	g4_blake3_compress(cv, hash->block, block_bytes(hash), hash->tree.leaves, flags);
}

/*
 * Takes whole subtrees straight from the input, at the beginning of a leaf: the largest that the position is aligned
 * for and after which at least a byte follows. Returns the bytes taken.
 */
G4_FN static uint64_t take_subtrees(struct g4_blake3 *hash, const uint8_t *data, uint64_t bytes)
{
#if G4_CUDA
	(void)hash;
	(void)data;
	(void)bytes;
	return 0;
#else
	uint64_t taken = 0;

	while (bytes - taken > G4_BLAKE3_LEAF_BYTES) {
		uint64_t room = (bytes - taken - 1) / G4_BLAKE3_LEAF_BYTES;
		uint32_t leaves = G4_BLAKE3_SCRATCH_LEAVES;
		uint32_t cv[8];

		while (leaves > room || hash->tree.leaves % leaves != 0)
			leaves /= 2;
		g4_blake3_subtree(data + taken, hash->tree.leaves, leaves, cv);
		g4_blake3_tree_push(&hash->tree, cv, leaves);
		taken += (uint64_t)leaves * G4_BLAKE3_LEAF_BYTES;
	}
	return taken;
#endif
}

G4_FN void g4_blake3_update(struct g4_blake3 *hash, const void *data, uint64_t bytes)
{
	const uint8_t *from = (const uint8_t *)data;

	while (bytes > 0) {
		uint32_t have = block_bytes(hash);
		uint64_t take;

		if (hash->leaf_bytes == G4_BLAKE3_LEAF_BYTES) {
			close_block(hash, hash->cv, G4_BLAKE3_END);
			g4_blake3_tree_push(&hash->tree, hash->cv, 1);
			begin_leaf(hash);
			have = 0;
		} else if (have == G4_BLAKE3_BLOCK_BYTES) {
			close_block(hash, hash->cv, 0);
			have = 0;
		}
		take = hash->leaf_bytes == 0 ? take_subtrees(hash, from, bytes) : 0;
		from += take;
		bytes -= take;
		take = g4_min64(bytes, G4_BLAKE3_BLOCK_BYTES - have);
		memcpy(hash->block + have, from, take);
		hash->leaf_bytes += (uint32_t)take;
		from += take;
		bytes -= take;
	}
}

G4_FN void g4_blake3_final(const struct g4_blake3 *hash, uint8_t out[G4_BLAKE3_BYTES])
{
	uint32_t cv[8];

	memcpy(cv, hash->cv, sizeof(cv));
	if (hash->tree.depth == 0) {
		close_block(hash, cv, G4_BLAKE3_END | G4_BLAKE3_ROOT);
		memcpy(out, cv, G4_BLAKE3_BYTES);
		return;
	}
	close_block(hash, cv, G4_BLAKE3_END);
	g4_blake3_tree_final(&hash->tree, cv, out);
}

#if G4_CUDA
/* A lane alone. Workgroups use g4_blake3_group(). */
G4_FN void g4_blake3(const void *data, uint64_t bytes, uint8_t out[G4_BLAKE3_BYTES])
{
	struct g4_blake3 hash;

	g4_blake3_init(&hash);
	g4_blake3_update(&hash, data, bytes);
	g4_blake3_final(&hash, out);
}

G4_FN void g4_blake3_many(uint64_t n, const void *const *data, const uint64_t *bytes, uint8_t (*out)[G4_BLAKE3_BYTES])
{
	for (uint64_t i = 0; i < n; i++)
		g4_blake3(data[i], bytes[i], out[i]);
}
#endif
