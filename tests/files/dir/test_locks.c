/* SPDX-License-Identifier: Apache-2.0 */
/* Leaves by what a lookup or a listing said of them. */
#include "files/files.h"

#define NAMES 300u
#define ROOT G4_NODE_ROOT

static uint64_t dir;
static struct g4_inode_core *directory;
static struct g4_dir_listed *listed;

static int begin(void **state)
{
	char name[16];
	uint32_t index;

	if (files_begin(state) != 0)
		return -1;
	assert_int_equal(op_mkdir(&rig, ROOT, "d", 0755, &dir), 0);
	for (uint32_t k = 0; k < NAMES; k++) {
		snprintf(name, sizeof(name), "n%u", k);
		assert_int_equal(op_mknod(&rig, dir, name, 0100644, NULL), 0);
	}
	assert_int_equal(g4_icache_get(wg, fs, dir, &index), 0);
	directory = g4_icache_at(fs, index);
	listed = g4_scratch_take(wg, sizeof(*listed));
	return 0;
}

static int end(void **state)
{
	g4_scratch_release(wg, 0);
	g4_icache_put(fs, (uint32_t)(directory - fs->icache.inodes));
	return files_end(state);
}

static void name_of(uint32_t k, char name[G4_NAME_MAX + 1])
{
	const struct g4_dir_entry *entry = listed->items[k].entry;

	memcpy(name, entry + 1, entry->name_bytes);
	name[entry->name_bytes] = 0;
}

static void a_listed_name_has_the_slot_of_a_lookup(void **state)
{
	const struct g4_dir pages = g4_dir_shared(fs, directory);
	uint32_t names = 0, leaves = 0;

	(void)state;
	for (uint64_t from = 0; from != UINT64_MAX; from = listed->next, leaves++) {
		assert_int_equal(g4_dir_read_leaf(wg, &pages, from, listed), 0);
		for (uint32_t k = 0; k < listed->count; k++, names++) {
			struct g4_dir_slot found = {.line = G4_NO_LINE}, slot;
			char name[G4_NAME_MAX + 1];
			name_of(k, name);
			assert_int_equal(g4_dir_lookup(wg, &pages, name, (uint32_t)strlen(name), &found), 0);
			g4_dir_listed_slot(listed, k, &slot);
			assert_int_equal(slot.inode, found.inode);
			assert_ptr_equal(slot.leaf_lock, found.leaf_lock);
			assert_null(slot.leaf);
			assert_int_equal(slot.changes, found.changes);
			assert_int_equal(slot.splits, found.splits);
			assert_true(g4_address_is(slot.page, found.page));
			assert_int_equal(slot.line, found.line);
			assert_int_equal(slot.unit, found.unit);
			assert_int_equal(slot.hash, found.hash);
			assert_int_equal(slot.collision, found.collision);
			assert_int_equal(slot.file_type, found.file_type);
			assert_false(slot.equal || slot.alone);
			assert_true(g4_dir_slot_holds(&slot));
		}
	}
	assert_int_equal(names, NAMES);
	assert_true(leaves > 2);
}

/* One that is where it was is found there, another one's name there is not taken for it. */
static void a_slot_is_made_good(void **state)
{
	const struct g4_dir pages = g4_dir_shared(fs, directory);
	char name[G4_NAME_MAX + 1], other[G4_NAME_MAX + 1];
	struct g4_dir_slot slot, gone;

	(void)state;
	assert_int_equal(g4_dir_read_leaf(wg, &pages, 0, listed), 0);
	assert_true(listed->count > 20);
	name_of(3, name);
	name_of(4, other);
	g4_dir_listed_slot(listed, 3, &slot);
	g4_dir_listed_slot(listed, 4, &gone);
	const uint32_t unit = slot.unit;
	assert_int_equal(op_unlink(&rig, dir, other), 0);
	assert_false(g4_dir_slot_holds(&slot));
	g4_dir_hold(&slot);
	assert_int_equal(g4_dir_look_again(wg, &pages, name, (uint32_t)strlen(name), &slot), 0);
	assert_int_equal(slot.unit, unit);
	assert_true(g4_dir_slot_holds(&slot));
	assert_int_equal(g4_dir_look_again(wg, &pages, other, (uint32_t)strlen(other), &gone), -G4_E_NOENT);
	assert_int_equal(gone.unit, 0);
	g4_dir_let_go(&slot);
	/* at the unit of one that is gone there is another name of as many bytes, if any */
	g4_dir_listed_slot(listed, 3, &slot);
	g4_dir_listed_slot(listed, 5, &gone);
	slot.unit = gone.unit;
	g4_dir_hold(&slot);
	assert_int_equal(g4_dir_look_again(wg, &pages, name, (uint32_t)strlen(name), &slot), 0);
	assert_int_equal(slot.unit, unit);
	g4_dir_let_go(&slot);
}

static void one_lock_is_taken_once(void **state)
{
	struct g4_leaf_lock *a = &fs->dir_locks.leaves[5], *b = &fs->dir_locks.leaves[6];
	const uint64_t before = a->changes;
	struct g4_dir_slot slot = {.leaf_lock = NULL};

	(void)state;
	g4_dir_lock_two(b, a);
	assert_int_equal(rig_locked_leaves(&rig), 2);
	g4_dir_unlock_two(b, a, false);
	assert_int_equal(a->changes, before);
	g4_dir_lock_two(a, a);
	assert_int_equal(rig_locked_leaves(&rig), 1);
	g4_dir_unlock_two(a, a, true);
	assert_int_equal(a->changes, before + 1);
	g4_dir_lock_leaf(a);
	g4_dir_unlock_leaf(a, true);
	assert_int_equal(a->changes, before + 2);
	/* who has the directory alone has locked none */
	g4_dir_hold(&slot);
	g4_dir_let_go(&slot);
	g4_dir_let_go_fenced(&slot);
	slot.leaf_lock = b;
	g4_dir_hold(&slot);
	assert_int_equal(rig_locked_leaves(&rig), 1);
	g4_dir_let_go_fenced(&slot);
	assert_int_equal(rig_locked_leaves(&rig), 0);
}

#define lock_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

RUN_TESTS(lock_test(a_listed_name_has_the_slot_of_a_lookup), lock_test(a_slot_is_made_good),
	  lock_test(one_lock_is_taken_once))
