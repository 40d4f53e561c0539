/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many buffers by a workgroup: each lane hashes leaves of its own, then pairs of subtrees of its own, level by level.
 *
 * Up to 256 leaves of consecutive buffers are in flight. The chaining value of leaf i of a piece lies in the piece's
 * slot i, that of the subtree of 2^k leaves from leaf i on takes its place; so joining moves nothing. Pieces begin at
 * multiples of the power of two that holds them: at level k only every 2^(k+1)th slot can have work, and counting in such
 * steps keeps lanes busy. A subtree whose right half has no leaf is the left half: the same tree as BLAKE3's.
 *
 * A buffer of more than 256 leaves comes in pieces of 256, aligned subtrees each, which lane 0 joins.
 */
#include "hash/blake3_types.h"

#define MOST_LEAVES G4_BLAKE3_SCRATCH_LEAVES
#define NO_PIECE 0xffffu

/* The smallest power of two that is not below `leaves`, 1 to 256. */
G4_FN static uint32_t slots_for(uint32_t leaves)
{
	uint32_t slots = 1;

	while (slots < leaves)
		slots *= 2;
	return slots;
}

/* Lane 0: takes the next pieces of the buffers, as many as there is room for. */
G4_FN static void fill(uint64_t n, const uint64_t *bytes, struct g4_blake3_scratch *scratch)
{
	scratch->pieces = 0;
	scratch->leaves = 0;
	scratch->slots = 0;
	while (scratch->buffer < n) {
		uint64_t leaves = g4_blake3_leaves(bytes[scratch->buffer]);
		uint32_t take = (uint32_t)g4_min64(leaves - scratch->first_leaf, MOST_LEAVES);
		uint32_t slots = slots_for(take);
		uint32_t slot = (uint32_t)g4_align_up(scratch->slots, slots);
		struct g4_blake3_piece *piece = &scratch->piece[scratch->pieces];

		if (slot + slots > MOST_LEAVES)
			break;
		piece->buffer = scratch->buffer;
		piece->first_leaf = scratch->first_leaf;
		piece->leaves = take;
		piece->leaf = scratch->leaves;
		piece->slot = slot;
		piece->last = scratch->first_leaf + take == leaves;
		piece->whole = piece->last && scratch->first_leaf == 0;
		scratch->pieces++;
		scratch->leaves += take;
		scratch->slots = slot + slots;
		scratch->first_leaf = piece->last ? 0 : scratch->first_leaf + take;
		scratch->buffer += piece->last;
	}
}

/* Per-lane: says of every leaf and slot to which piece it belongs. */
G4_FN static void index_pieces(const struct g4_wg *wg, struct g4_blake3_scratch *scratch)
{
	for (uint32_t p = g4_wg_lane(wg); p < scratch->pieces; p += g4_wg_width(wg)) {
		const struct g4_blake3_piece *piece = &scratch->piece[p];
		uint32_t next = p + 1 < scratch->pieces ? scratch->piece[p + 1].slot : scratch->slots;

		for (uint32_t i = 0; i < piece->leaves; i++)
			scratch->piece_of_leaf[piece->leaf + i] = (uint16_t)p;
		for (uint32_t slot = piece->slot; slot < next; slot++)
			scratch->piece_of_slot[slot] = (uint16_t)(slot - piece->slot < piece->leaves ? p : NO_PIECE);
	}
}

G4_FN static void hash_leaves(const struct g4_wg *wg, const void *const *data, const uint64_t *bytes,
			      struct g4_blake3_scratch *scratch)
{
	for (uint32_t i = g4_wg_lane(wg); i < scratch->leaves; i += g4_wg_width(wg)) {
		const struct g4_blake3_piece *piece = &scratch->piece[scratch->piece_of_leaf[i]];
		uint64_t leaf = piece->first_leaf + (i - piece->leaf);
		struct g4_blake3_job job;

		job.data = (const uint8_t *)data[piece->buffer] + leaf * G4_BLAKE3_LEAF_BYTES;
		job.leaf = leaf;
		job.bytes = g4_blake3_leaf_bytes(bytes[piece->buffer], leaf);
		job.flags = piece->whole && piece->leaves == 1 ? G4_BLAKE3_ROOT : 0;
		job.cv = scratch->cv[piece->slot + (i - piece->leaf)];
		g4_blake3_job_portable(&job);
	}
}

/* Joins subtrees of `half` leaves, a power of two, to subtrees of twice as many. */
G4_FN static void join(const struct g4_wg *wg, struct g4_blake3_scratch *scratch, uint32_t half)
{
	for (uint32_t slot = g4_wg_lane(wg) * 2 * half; slot < scratch->slots; slot += g4_wg_width(wg) * 2 * half) {
		uint32_t p = scratch->piece_of_slot[slot];
		const struct g4_blake3_piece *piece;
		uint32_t block[16];
		struct g4_blake3_job job;

		if (p == NO_PIECE)
			continue;
		piece = &scratch->piece[p];
		if (slot - piece->slot + half >= piece->leaves)
			continue;
		memcpy(block, scratch->cv[slot], 32);
		memcpy(block + 8, scratch->cv[slot + half], 32);
		job.data = (const uint8_t *)block;
		job.leaf = 0;
		job.bytes = G4_BLAKE3_BLOCK_BYTES;
		job.flags = G4_BLAKE3_PARENT | (piece->whole && 2 * half >= piece->leaves ? G4_BLAKE3_ROOT : 0);
		job.cv = scratch->cv[slot];
		g4_blake3_job_portable(&job);
	}
}

/* Lane 0: pieces of buffers that have several. */
G4_FN static void deliver_parts(uint8_t (*out)[G4_BLAKE3_BYTES], struct g4_blake3_scratch *scratch)
{
	for (uint32_t p = 0; p < scratch->pieces; p++) {
		const struct g4_blake3_piece *piece = &scratch->piece[p];

		if (piece->whole)
			continue;
		if (piece->last) {
			g4_blake3_tree_final(&scratch->tree, scratch->cv[piece->slot], out[piece->buffer]);
			g4_blake3_tree_init(&scratch->tree);
		} else {
			g4_blake3_tree_push(&scratch->tree, scratch->cv[piece->slot], MOST_LEAVES);
		}
	}
}

G4_FN static void deliver(const struct g4_wg *wg, uint8_t (*out)[G4_BLAKE3_BYTES], struct g4_blake3_scratch *scratch)
{
	for (uint32_t p = g4_wg_lane(wg); p < scratch->pieces; p += g4_wg_width(wg)) {
		const struct g4_blake3_piece *piece = &scratch->piece[p];

		if (piece->whole)
			memcpy(out[piece->buffer], scratch->cv[piece->slot], G4_BLAKE3_BYTES);
	}
	if (g4_wg_lane(wg) == 0)
		deliver_parts(out, scratch);
}

G4_FN static void hash_by_lanes(struct g4_wg *wg, uint64_t n, const void *const *data, const uint64_t *bytes,
				uint8_t (*out)[G4_BLAKE3_BYTES], struct g4_blake3_scratch *scratch)
{
	bool leader = g4_wg_lane(wg) == 0;

	if (leader) {
		scratch->buffer = 0;
		scratch->first_leaf = 0;
		g4_blake3_tree_init(&scratch->tree);
	}
	for (;;) {
		if (leader)
			fill(n, bytes, scratch);
		g4_sync(wg);
		if (scratch->pieces == 0)
			break;
		index_pieces(wg, scratch);
		g4_sync(wg);
		hash_leaves(wg, data, bytes, scratch);
		g4_sync(wg);
		for (uint32_t half = 1; half < scratch->slots; half *= 2) {
			join(wg, scratch, half);
			g4_sync(wg);
		}
		deliver(wg, out, scratch);
		g4_sync(wg);
	}
	g4_sync(wg); /* all have seen that it is over, before the scratch is used again */
}

G4_FN void g4_blake3_group(struct g4_wg *wg, uint64_t n, const void *const *data, const uint64_t *bytes,
			   uint8_t (*out)[G4_BLAKE3_BYTES], struct g4_blake3_scratch *scratch)
{
	/* One lane of a CPU has vectors. */
	if (g4_wg_width(wg) == 1)
		g4_blake3_many(n, data, bytes, out);
	else
		hash_by_lanes(wg, n, data, bytes, out, scratch);
}
