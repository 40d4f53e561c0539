/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many buffers at a time on a CPU: chooses the variant once, on first use, and keeps its vectors full.
 *
 * Up to 256 leaves of consecutive buffers are collected and hashed together, full leaves first and the short last ones
 * of each buffer after them, so that those of unequal length meet in few vectors. Then one level of all their trees
 * after the other is joined: chaining values are paired from the left and an odd one moves up as it is, which gives
 * BLAKE3's tree, whose left subtrees are as large a power of two as fits. A buffer of more than 256 leaves comes in
 * pieces of 256, aligned subtrees each.
 */
#include "hash/blake3_types.h"

#define MOST_LEAVES G4_BLAKE3_SCRATCH_LEAVES

enum variant { VARIANT_UNKNOWN, VARIANT_PORTABLE, VARIANT_AVX2, VARIANT_AVX512 };

/* Threads that race to set it write the same value. */
static uint32_t chosen;

static uint32_t choose(void)
{
	uint32_t variant = VARIANT_PORTABLE;

#if G4_BLAKE3_HAVE_X86
	if (g4_blake3_avx512_usable())
		variant = VARIANT_AVX512;
	else if (g4_blake3_avx2_usable())
		variant = VARIANT_AVX2;
#endif
	g4_store32_rlx(&chosen, variant);
	return variant;
}

void g4_blake3_jobs_portable(uint32_t n, const struct g4_blake3_job *jobs)
{
	for (uint32_t i = 0; i < n; i++)
		g4_blake3_job_portable(&jobs[i]);
}

void g4_blake3_jobs(uint32_t n, const struct g4_blake3_job *jobs)
{
	uint32_t variant = g4_load32_rlx(&chosen);

	if (variant == VARIANT_UNKNOWN)
		variant = choose();
	switch (variant) {
#if G4_BLAKE3_HAVE_X86
	case VARIANT_AVX512:
		g4_blake3_jobs_avx512(n, jobs);
		break;
	case VARIANT_AVX2:
		g4_blake3_jobs_avx2(n, jobs);
		break;
#endif
	default:
		g4_blake3_jobs_portable(n, jobs);
	}
}

struct piece {
	uint64_t buffer;
	uint32_t slot;	/* of its first chaining value */
	uint32_t count; /* chaining values left of it */
	bool whole;	/* it is all of its buffer */
	bool last;	/* it is the end of its buffer */
};

struct batch {
	uint32_t pieces, slots, full, partial;
	struct piece piece[MOST_LEAVES];
	struct g4_blake3_job job[MOST_LEAVES]; /* full leaves from the front, partial ones from the back */
	uint32_t cv[MOST_LEAVES][8];
};

static void add_leaf(struct batch *batch, const struct g4_blake3_job *job)
{
	if (job->bytes == G4_BLAKE3_LEAF_BYTES)
		batch->job[batch->full++] = *job;
	else
		batch->job[MOST_LEAVES - ++batch->partial] = *job;
	batch->slots++;
}

/* Adds `count` leaves of a buffer of `bytes` bytes at `data`, from leaf `first` on. */
static void add_piece(struct batch *batch, uint64_t buffer, const uint8_t *data, uint64_t bytes, uint64_t first,
		      uint32_t count)
{
	struct piece *piece = &batch->piece[batch->pieces++];

	piece->buffer = buffer;
	piece->slot = batch->slots;
	piece->count = count;
	piece->last = first + count == g4_blake3_leaves(bytes);
	piece->whole = piece->last && first == 0;
	for (uint64_t leaf = first; leaf < first + count; leaf++) {
		struct g4_blake3_job job = {
			.data = data ? data + leaf * G4_BLAKE3_LEAF_BYTES : NULL,
			.leaf = leaf,
			.bytes = g4_blake3_leaf_bytes(bytes, leaf),
			.flags = piece->whole && count == 1 ? G4_BLAKE3_ROOT : 0,
			.cv = batch->cv[batch->slots],
		};

		add_leaf(batch, &job);
	}
}

/* One level of all trees. Returns whether there was anything to join. */
static bool join(struct batch *batch)
{
	uint32_t jobs = 0;

	for (uint32_t p = 0; p < batch->pieces; p++) {
		const struct piece *piece = &batch->piece[p];
		uint32_t flags = G4_BLAKE3_PARENT | (piece->whole && piece->count == 2 ? G4_BLAKE3_ROOT : 0);

		for (uint32_t i = 0; i < piece->count / 2; i++) {
			batch->job[jobs++] = (struct g4_blake3_job){
				.data = (const uint8_t *)batch->cv[piece->slot + 2 * i],
				.leaf = 0,
				.bytes = G4_BLAKE3_BLOCK_BYTES,
				.flags = flags,
				.cv = batch->cv[piece->slot + i],
			};
		}
	}
	if (jobs == 0)
		return false;
	g4_blake3_jobs(jobs, batch->job);
	for (uint32_t p = 0; p < batch->pieces; p++) {
		struct piece *piece = &batch->piece[p];

		if (piece->count % 2 && piece->count > 1)
			memcpy(batch->cv[piece->slot + piece->count / 2], batch->cv[piece->slot + piece->count - 1],
			       32);
		piece->count = (piece->count + 1) / 2;
	}
	return true;
}

static void empty(struct batch *batch)
{
	batch->pieces = 0;
	batch->slots = 0;
	batch->full = 0;
	batch->partial = 0;
}

/* Hashes what the batch holds; its pieces' chaining values are then in the slots of the pieces. */
static void hash_batch(struct batch *batch)
{
	g4_blake3_jobs(batch->full, batch->job);
	g4_blake3_jobs(batch->partial, batch->job + MOST_LEAVES - batch->partial);
	while (join(batch))
		continue;
}

/* Hashes the batch and delivers; `tree` is that of the buffer that spans batches. */
static void run(struct batch *batch, struct g4_blake3_tree *tree, uint8_t (*out)[G4_BLAKE3_BYTES])
{
	hash_batch(batch);
	for (uint32_t p = 0; p < batch->pieces; p++) {
		const struct piece *piece = &batch->piece[p];

		if (piece->whole) {
			memcpy(out[piece->buffer], batch->cv[piece->slot], G4_BLAKE3_BYTES);
		} else if (piece->last) {
			g4_blake3_tree_final(tree, batch->cv[piece->slot], out[piece->buffer]);
			g4_blake3_tree_init(tree);
		} else {
			g4_blake3_tree_push(tree, batch->cv[piece->slot], MOST_LEAVES);
		}
	}
	empty(batch);
}

void g4_blake3_many(uint64_t n, const void *const *data, const uint64_t *bytes, uint8_t (*out)[G4_BLAKE3_BYTES])
{
	struct g4_blake3_tree tree;
	struct batch batch;

	g4_blake3_tree_init(&tree);
	empty(&batch);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t leaves = g4_blake3_leaves(bytes[i]);

		for (uint64_t first = 0; first < leaves; first += MOST_LEAVES) {
			uint32_t count = (uint32_t)g4_min64(leaves - first, MOST_LEAVES);

			if (batch.slots + count > MOST_LEAVES)
				run(&batch, &tree, out);
			add_piece(&batch, i, (const uint8_t *)data[i], bytes[i], first, count);
		}
	}
	run(&batch, &tree, out);
}

void g4_blake3(const void *data, uint64_t bytes, uint8_t out[G4_BLAKE3_BYTES])
{
	g4_blake3_many(1, &data, &bytes, (uint8_t(*)[G4_BLAKE3_BYTES])out);
}

void g4_blake3_subtree(const uint8_t *data, uint64_t first, uint32_t leaves, uint32_t cv[8])
{
	struct batch batch;
	struct piece piece = {.buffer = 0, .slot = 0, .count = leaves, .whole = false, .last = false};

	empty(&batch);
	batch.piece[batch.pieces++] = piece;
	for (uint32_t i = 0; i < leaves; i++) {
		struct g4_blake3_job job = {
			.data = data + (uint64_t)i * G4_BLAKE3_LEAF_BYTES,
			.leaf = first + i,
			.bytes = G4_BLAKE3_LEAF_BYTES,
			.flags = 0,
			.cv = batch.cv[i],
		};

		add_leaf(&batch, &job);
	}
	hash_batch(&batch);
	memcpy(cv, batch.cv[0], 32);
}
