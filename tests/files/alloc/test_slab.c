/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of slabs: each is given once, comes with zeros, and is given again when it was freed. */
#include "files/files.h"

#define SLOTS (2 * G4_SLAB_SLOTS)

static struct g4_address slots[SLOTS];

static void take_all(void)
{
	struct g4_txn txn;

	for (uint32_t i = 0; i < SLOTS; i++) {
		uint32_t near = G4_NO_LINE, line;
		assert_int_equal(g4_begin(wg, fs, 16, &txn), 0);
		assert_int_equal(g4_slab_alloc(wg, &fs->alloc, &txn, G4_SLAB_INODES, NULL, &slots[i], &near), 0);
		const struct g4_address page = g4_address_page_start(slots[i]);
		assert_int_equal(g4_meta_get(wg, &fs->meta, page, G4_BLOCK_SLAB, &line), 0);
		const uint8_t *slab = g4_line_data(&fs->cache, line);
		const uint32_t slot = g4_slab_slot_of(slots[i]);
		assert_true(((const struct g4_slab_header *)(const void *)slab)->used >> slot & 1);
		for (uint32_t k = 0; k < G4_SLAB_SLOT_BYTES; k++)
			assert_int_equal(slab[slot * G4_SLAB_SLOT_BYTES + k], 0);
		g4_cache_put(&fs->cache, line);
		assert_int_equal(g4_end(fs, &txn, 0), 0);
	}
}

static void free_all(void)
{
	struct g4_txn txn;

	for (uint32_t i = 0; i < SLOTS; i++) {
		assert_int_equal(g4_begin(wg, fs, 16, &txn), 0);
		assert_int_equal(g4_slab_free(wg, &fs->alloc, &txn, slots[i], G4_NO_LINE), 0);
		assert_int_equal(g4_end(fs, &txn, 0), 0);
	}
}

static void each_slot_is_given_once_and_none_is_a_header(void **state)
{
	(void)state;
	take_all();
	for (uint32_t i = 0; i < SLOTS; i++) {
		assert_true(g4_slab_slot_of(slots[i]) > 0);
		for (uint32_t k = 0; k < i; k++)
			assert_false(g4_address_is(slots[i], slots[k]));
	}
	free_all();
}

static void what_was_freed_is_given_again_without_new_space(void **state)
{
	(void)state;
	take_all();
	const uint64_t free_pages = fs->alloc.free_pages;
	free_all();
	assert_int_equal(op_sync(&rig), 0); /* pages of slabs that became empty are free from now on */
	take_all();
	const uint64_t again = fs->alloc.free_pages;
	free_all();
	assert_int_equal(again, free_pages);
}

static struct g4_address take(uint32_t *near)
{
	struct g4_address slot;
	struct g4_txn txn;

	assert_int_equal(g4_begin(wg, fs, 16, &txn), 0);
	assert_int_equal(g4_slab_alloc(wg, &fs->alloc, &txn, G4_SLAB_INODES, NULL, &slot, near), 0);
	assert_int_equal(g4_end(fs, &txn, 0), 0);
	return slot;
}

static void give_back(struct g4_address slot)
{
	struct g4_txn txn;

	assert_int_equal(g4_begin(wg, fs, 16, &txn), 0);
	assert_int_equal(g4_slab_free(wg, &fs->alloc, &txn, slot, G4_NO_LINE), 0);
	assert_int_equal(g4_end(fs, &txn, 0), 0);
}

static void drop_hints(void)
{
	for (; fs->alloc.slab_hinted; fs->alloc.slab_hinted &= fs->alloc.slab_hinted - 1)
		fs->alloc.slab_hints[g4_lowest_bit(fs->alloc.slab_hinted)] = 0;
}

/* A slot of a slab that no shard fills, the nth of them. */
static struct g4_address not_being_filled(uint32_t nth)
{
	const struct g4_address filled = g4_address_from(fs->alloc.shards[0].slab[G4_SLAB_INODES - 1]);

	for (uint32_t i = 0; i < SLOTS; i++)
		if (!g4_address_is(g4_address_page_start(slots[i]), filled) && nth-- == 0)
			return slots[i];
	fail_msg("all slots are of the slab that is being filled");
	return G4_NO_ADDRESS;
}

/* One word says where there are hints; each is taken once, and a slab that is noted again is noted. */
static void a_slab_with_a_freed_slot_is_the_next_that_is_filled(void **state)
{
	uint32_t near = G4_NO_LINE;

	(void)state;
	take_all(); /* several slabs, the last of them is being filled */
	drop_hints();
	for (uint32_t round = 0; round < 3; round++) {
		const struct g4_address freed = not_being_filled(round);
		struct g4_address rest[G4_SLAB_SLOTS];
		uint32_t count = 0;
		give_back(freed);
		assert_int_equal(__builtin_popcountll(fs->alloc.slab_hinted), 1);
		do /* what is left of the slab that is being filled */
			rest[count] = take(&near);
		while (!g4_address_is(rest[count++], freed) && count < G4_SLAB_SLOTS);
		assert_true(g4_address_is(rest[count - 1], freed));
		assert_int_equal(fs->alloc.slab_hinted, 0);
		for (uint32_t h = 0; h < G4_SLAB_HINTS; h++)
			assert_int_equal(fs->alloc.slab_hints[h], 0);
		for (uint32_t k = 0; k + 1 < count; k++)
			give_back(rest[k]);
		drop_hints();
	}
	free_all();
}

RUN_TESTS(fs_test(each_slot_is_given_once_and_none_is_a_header),
	  fs_test(what_was_freed_is_given_again_without_new_space),
	  fs_test(a_slab_with_a_freed_slot_is_the_next_that_is_filled))
