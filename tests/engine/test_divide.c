/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaves that are split beside others (dir.c): what goes on while one is, and what meets a leaf that was split between the look and
 * the lock. The test stands where a leaf is split and where one is locked, so all is in one order and nobody sleeps.
 */
#include "rig.h"

#include <pthread.h>

#include "dir/leaf.h"
#include "dir/tree.h"
#include "fs/fs.h"
#include "fs/makers.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (64 * G4_MIB)
#define LONG 200u   /* bytes of a name of which a leaf has 18 at most */
#define NAMES 120u  /* that the directory begins with, in ten leaves or so */
#define MOST 48000u /* numbers of names: who comes between takes those below the half, enough after six splits */

static struct rig rig;

static struct {
	uint64_t dir;
	struct g4_inode_core *inode;
	uint32_t index;
	struct g4_wg *wg; /* of who comes between */
	bool there[MOST]; /* by number */
	uint32_t count;
	/* once: called in the middle of a split; before a leaf is locked for reading or for writing */
	void (*in_split)(void);
	void (*before_reading)(struct g4_leaf_lock *leaf_lock);
	void (*before_writing)(struct g4_leaf_lock *leaf_lock);
	void (*without_a_page)(void); /* where a page is to be allocated and there is none */
	uint32_t no_pages;	      /* so often */
	uint32_t called;
	bool alone;
	bool passed; /* the test came to its end */
} d;

static void hooked_split(struct g4_leaf *leaf, struct g4_leaf *right, uint64_t cut)
{
	void (*const hook)(void) = d.in_split;

	d.in_split = NULL;
	if (hook)
		hook();
	g4_leaf_split(leaf, right, cut);
}

/* NULL: it is no leaf's. */
static struct g4_leaf_lock *leaf_lock_in(struct g4_rwlock *lock)
{
	struct g4_leaf_lock *leaf_lock = (struct g4_leaf_lock *)(void *)lock;
	const struct g4_leaf_lock *leaves = rig.fs->dir_locks.leaves;

	return leaf_lock >= leaves && leaf_lock < leaves + G4_LEAF_LOCKS ? leaf_lock : NULL;
}

static void hooked_read_lock(struct g4_rwlock *index_lock)
{
	struct g4_leaf_lock *leaf_lock = leaf_lock_in(index_lock);
	void (*const hook)(struct g4_leaf_lock *) = d.before_reading;

	if (!leaf_lock) {
		g4_read_lock_at_gate(index_lock);
		return;
	}
	d.before_reading = NULL;
	if (hook)
		hook(leaf_lock);
	g4_read_lock_at_gate(&leaf_lock->lock);
}

static void hooked_write_lock(struct g4_rwlock *index_lock)
{
	struct g4_leaf_lock *leaf_lock = leaf_lock_in(index_lock);
	void (*const hook)(struct g4_leaf_lock *) = d.before_writing;

	if (!leaf_lock) {
		g4_write_lock(index_lock);
		return;
	}
	d.before_writing = NULL;
	if (hook)
		hook(leaf_lock);
	g4_write_lock(&leaf_lock->lock);
}

static int hooked_alloc(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address *address)
{
	void (*const hook)(void) = d.without_a_page;
	const uint32_t left = d.no_pages;

	if (left == 0)
		return g4_alloc_metadata(wg, alloc, txn, address);
	d.without_a_page = NULL;
	d.no_pages = 0; /* for the hook */
	if (hook)
		hook();
	d.no_pages = left - 1;
	return -G4_E_NOSPC;
}

#undef g4_read_lock_at_gate
#undef g4_write_lock
#define g4_alloc_metadata hooked_alloc
#define g4_leaf_split hooked_split
#define g4_read_lock_at_gate hooked_read_lock
#define g4_write_lock hooked_write_lock
#include "dir/dir.c"   /* NOLINT(bugprone-suspicious-include) */
#include "dir/locks.c" /* NOLINT(bugprone-suspicious-include) */

/* ------------------------------------------------------------------ names */

static const char *write_name(char name[LONG + 1], uint32_t number)
{
	const int bytes = snprintf(name, LONG + 1, "%08u-", number);

	memset(name + bytes, 'n', LONG - (size_t)bytes);
	name[LONG] = 0;
	return name;
}

/* For the operations that something comes between. */
static const char *name_of(uint32_t number)
{
	static char name[LONG + 1];

	return write_name(name, number);
}

/* A command about a name by the workgroup that comes between. */
static int between(uint32_t op, uint32_t number)
{
	char name[LONG + 1];
	struct g4_attr attr = {0};
	struct g4_cmd cmd = {.op = op,
			     .node = d.dir,
			     .name = write_name(name, number),
			     .name_bytes = LONG,
			     .mode = 0100644,
			     .attr = op == G4_CMD_UNLINK ? NULL : &attr};

	return g4_execute(d.wg, rig.fs, &cmd);
}

static void made(uint32_t number)
{
	assert_false(d.there[number]);
	d.there[number] = true;
	d.count++;
}

static void removed(uint32_t number)
{
	assert_true(d.there[number]);
	d.there[number] = false;
	d.count--;
}

static void make(uint32_t number)
{
	uint64_t ino;

	assert_int_equal(op_mknod(&rig, d.dir, name_of(number), 0100644, &ino), 0);
	made(number);
}

/* The directory as makers see it, and where a name's place is in it. Its lock is held shared, or nobody else is there. */
static struct g4_dir pages(void)
{
	return g4_dir_shared(rig.fs, d.inode);
}

static struct g4_leaf_lock *lock_of(uint32_t number, uint32_t *room)
{
	const struct g4_dir dir = pages();
	struct g4_dir_slot slot = {.line = G4_NO_LINE};
	char name[LONG + 1];
	const int rc = g4_dir_lookup(d.wg, &dir, write_name(name, number), LONG, &slot);

	assert_int_equal(rc, d.there[number] ? 0 : -G4_E_NOENT);
	if (room)
		*room = slot.room;
	return slot.leaf_lock;
}

static bool fits(uint32_t number)
{
	uint32_t room;

	lock_of(number, &room);
	return room >= g4_leaf_units_for(LONG);
}

/* A name that is not there, of a leaf with that lock, or without it; full: one that has no room. */
static uint32_t find(const struct g4_leaf_lock *leaf_lock, bool with, bool full)
{
	for (uint32_t number = MOST / 2; number < MOST; number++)
		if (!d.there[number] && (lock_of(number, NULL) == leaf_lock) == with && fits(number) != full)
			return number;
	fail_msg("%s", "no such name");
	return 0;
}

/* Names into a leaf until the next one has no room. That is it. */
static uint32_t fill(struct g4_leaf_lock *leaf_lock)
{
	for (uint32_t number = NAMES; number < MOST / 2; number++) {
		if (d.there[number] || lock_of(number, NULL) != leaf_lock)
			continue;
		if (!fits(number))
			return number;
		assert_int_equal(between(G4_CMD_MKNOD, number), 0);
		made(number);
	}
	fail_msg("%s", "a leaf that does not fill");
	return 0;
}

/* By the one that comes between: the leaf is split. */
static void split(struct g4_leaf_lock *leaf_lock)
{
	const uint64_t splits = leaf_lock->splits;
	const uint32_t number = fill(leaf_lock);

	assert_int_equal(between(G4_CMD_MKNOD, number), 0);
	made(number);
	assert_int_equal(leaf_lock->splits, splits + 1);
	d.called++;
}

/* Every name is found and listed, once; each that is not there is not. */
static void expect_names(void)
{
	static uint8_t records[8192];
	static uint32_t seen[MOST];
	uint64_t cookie = 0, bytes = 0;
	struct g4_attr attr;

	memset(seen, 0, sizeof(seen));
	do {
		struct g4_cmd cmd = {.op = G4_CMD_READDIR,
				     .node = d.dir,
				     .cookie = cookie,
				     .data = records,
				     .length = sizeof(records)};
		assert_int_equal(g4_execute(rig.wg, rig.fs, &cmd), 0);
		bytes = cmd.value;
		for (uint64_t at = 0; at < bytes;) {
			const struct g4_dirent *entry = (const struct g4_dirent *)(records + at);
			const char *name = (const char *)(entry + 1);
			if (name[0] != '.')
				seen[strtoul(name, NULL, 10)]++;
			cookie = entry->cookie;
			at += entry->record_bytes;
		}
	} while (bytes > 0);
	for (uint32_t number = 0; number < MOST; number++) {
		assert_int_equal(seen[number], d.there[number]);
		if (number < 2 * NAMES || d.there[number])
			assert_int_equal(op_lookup(&rig, d.dir, name_of(number), &attr),
					 d.there[number] ? 0 : -G4_E_NOENT);
	}
	assert_int_equal(d.inode->disk.entries, d.count);
}

static uint32_t locked_indexes(void)
{
	uint32_t count = 0;

	for (uint32_t k = 0; k < G4_INDEX_LOCKS; k++) {
		struct g4_rwlock *index_lock = &rig.fs->dir_locks.indexes[k].lock;
		if (g4_write_trylock(index_lock))
			g4_write_unlock(index_lock);
		else
			count++;
	}
	return count;
}

static int setup(void **state)
{
	const struct g4_fault none = {0};

	(void)state;
	memset(&d, 0, sizeof(d));
	rig_begin(&rig, DEVICE_BYTES, 0, &none);
	d.wg = g4_wg_create(1);
	assert_non_null(d.wg);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &d.dir), 0);
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, d.dir, &d.index), 0);
	d.inode = g4_icache_at(rig.fs, d.index);
	for (uint32_t k = 0; k < NAMES; k++)
		make(k);
	return 0;
}

/* A test that fails in the middle of a split leaves locks behind that all else would wait for: its file system stays as it is. */
static int teardown(void **state)
{
	(void)state;
	if (!d.passed)
		return 0;
	expect_names();
	g4_icache_put(rig.fs, d.index);
	g4_wg_destroy(d.wg);
	const uint64_t free_pages = rig_free_pages(&rig);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig_expect_clean(&rig, free_pages, "behind the splits");
	rig.fs = rig_mount_fs(&rig, rig.wg, &(struct g4_fault){0});
	rig_end(&rig);
	return 0;
}

/* ------------------------------------------------------------------ beside a split */

static uint32_t other, gone;

static void *come_by(void *unused)
{
	(void)unused;
	assert_int_equal(between(G4_CMD_MKNOD, other), 0);
	made(other);
	assert_int_equal(between(G4_CMD_LOOKUP, other), 0);
	assert_int_equal(between(G4_CMD_UNLINK, gone), 0);
	removed(gone);
	return NULL;
}

static void others_come_by(void)
{
	pthread_t id;

	d.called++;
	assert_true(
		g4_read_trylock(&d.inode->lock)); /* nobody has the directory alone: below, that would be waited for */
	g4_read_unlock(&d.inode->lock);
	assert_in_range(rig_locked_leaves(&rig), 1, 2);
	assert_int_equal(locked_indexes(), 0);
	assert_int_equal(pthread_create(&id, NULL, come_by, NULL), 0);
	assert_int_equal(pthread_join(id, NULL), 0);
}

/* Another number whose leaf has another lock. */
static uint32_t there_without(const struct g4_leaf_lock *leaf_lock)
{
	for (uint32_t number = 0; number < NAMES; number++)
		if (d.there[number] && lock_of(number, NULL) != leaf_lock)
			return number;
	fail_msg("%s", "no such name");
	return 0;
}

static void names_in_other_leaves_go_on_while_a_leaf_is_split(void **state)
{
	struct g4_leaf_lock *leaf_lock = lock_of(0, NULL);
	const uint32_t last = fill(leaf_lock);
	const uint64_t count = d.inode->disk.pages;

	(void)state;
	other = find(leaf_lock, false, false);
	gone = there_without(leaf_lock);
	d.in_split = others_come_by;
	make(last);
	assert_int_equal(d.called, 1);
	assert_false(d.alone);
	assert_int_equal(d.inode->disk.pages, count + 1);
}

/* Also where somebody has the directory shared for as long as it takes. */
static void a_leaf_is_split_while_another_has_the_directory_shared(void **state)
{
	const uint32_t last = fill(lock_of(0, NULL));
	const uint64_t count = d.inode->disk.pages;
	struct g4_txn txn;

	(void)state;
	g4_read_lock(&d.inode->lock);
	assert_int_equal(g4_begin(rig.wg, rig.fs, G4_NAME_CREDITS + G4_DIR_SPLIT_CREDITS, &txn), 0);
	const uint32_t *blocks = &rig.fs->journal.logs[txn.sequence & 1].line_count, before = *blocks;
	const uint32_t hash = g4_dir_hash(rig.fs->hash_key, name_of(last), LONG);
	assert_int_equal(g4_makers_divide(rig.wg, rig.fs, &txn, d.inode, hash, LONG), 0);
	assert_in_range(*blocks - before, 0, G4_NAME_CREDITS + G4_DIR_SPLIT_CREDITS);
	assert_int_equal(g4_end(rig.fs, &txn, 0), 0);
	assert_int_equal(d.inode->disk.pages, count + 1);
	assert_true(fits(last));
	g4_read_unlock(&d.inode->lock);
}

/* ------------------------------------------------------------------ between the look and the lock */

static void a_name_is_found_in_a_leaf_that_was_split_on_the_way(void **state)
{
	struct g4_attr attr;

	(void)state;
	for (uint32_t number = 0; number < 40; number++) { /* some of them move to the new leaf */
		/* the lookup cache does not know it: the leaf is asked */
		memset(rig.fs->lookup.entries, 0,
		       ((uint64_t)rig.fs->lookup.mask + 1) * sizeof(*rig.fs->lookup.entries));
		d.before_reading = split;
		assert_int_equal(op_lookup(&rig, d.dir, name_of(number), &attr), 0);
		assert_int_equal(d.called, number + 1);
	}
}

/* Each leaf of a listing is split after its range was looked up: what went to the new one is listed all the same. */
static void a_listing_meets_all_names_of_leaves_that_are_split_on_the_way(void **state)
{
	static struct g4_dir_listed listed;
	const struct g4_dir dir = pages();
	static uint32_t seen[MOST];
	static bool before[MOST];
	uint64_t bounds[NAMES];
	uint32_t count = 0, at = 0;

	(void)state;
	memset(seen, 0, sizeof(seen));
	memcpy(before, d.there, sizeof(before));
	for (uint64_t from = 0; from != UINT64_MAX; from = listed.next) {
		bounds[count++] = from;
		assert_int_equal(g4_dir_read_leaf(rig.wg, &dir, from, &listed), 0);
	}
	for (uint64_t from = 0; from != UINT64_MAX; from = listed.next) {
		if (at < count && from == bounds[at]) { /* not of a new one */
			d.before_reading = split;
			at++;
		}
		assert_int_equal(g4_dir_read_leaf(rig.wg, &dir, from, &listed), 0);
		for (uint32_t k = 0; k < listed.count; k++)
			seen[strtoul((const char *)(listed.items[k].entry + 1), NULL, 10)]++;
	}
	assert_int_equal(at, count);
	assert_int_equal(d.called, count);
	for (uint32_t number = 0; number < MOST; number++)
		assert_in_range(seen[number], before[number], d.there[number]);
}

static void a_listed_name_that_moved_is_looked_up(void **state)
{
	static struct g4_dir_listed listed;
	const struct g4_dir dir = pages();

	(void)state;
	assert_int_equal(g4_dir_read_leaf(rig.wg, &dir, 0, &listed), 0);
	assert_true(g4_dir_listed_holds(&listed));
	split(lock_of((uint32_t)strtoul((const char *)(listed.items[0].entry + 1), NULL, 10), NULL));
	assert_false(g4_dir_listed_holds(&listed));
}

/* A maker has seen where its name goes, and the leaf is split before it is locked. */
static void a_name_goes_to_where_its_place_is_after_a_split(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < 20; k++) {
		const uint32_t number = find(NULL, false, false);
		d.before_writing = split;
		make(number);
		assert_int_equal(d.called, k + 1);
	}
}

static void a_name_is_taken_from_where_it_is_after_a_split(void **state)
{
	(void)state;
	for (uint32_t number = 0; number < 20; number++) {
		d.before_writing = split;
		assert_int_equal(op_unlink(&rig, d.dir, name_of(number)), 0);
		removed(number);
		assert_int_equal(d.called, number + 1);
	}
}

static void a_name_is_moved_from_where_it_is_after_a_split(void **state)
{
	(void)state;
	for (uint32_t number = 0; number < 20; number++) {
		char from[LONG + 1];
		const uint32_t to = find(NULL, false, false);
		memcpy(from, name_of(number), sizeof(from));
		d.before_writing = split;
		assert_int_equal(op_rename(&rig, d.dir, from, d.dir, name_of(to), 0), 0);
		removed(number);
		made(to);
		assert_int_equal(d.called, number + 1);
	}
}

static struct g4_leaf_lock *to_split;

/* Of the two locks of a split the first may be the new leaf's. */
static void split_the_same(struct g4_leaf_lock *unused)
{
	(void)unused;
	split(to_split);
}

/* Who wants to split a leaf finds that another has done so, and gives back the page that it has for it. */
static void a_leaf_is_split_once(void **state)
{
	const uint64_t count = d.inode->disk.pages;

	(void)state;
	to_split = lock_of(0, NULL);
	fill(to_split);
	const uint32_t last = find(to_split, true, true);
	d.before_writing = split_the_same;
	make(last);
	assert_int_equal(d.called, 1);
	assert_int_equal(d.inode->disk.pages, count + 1);
}

static void split_to_split(void)
{
	split(to_split);
}

/* The last free page went to another maker, who has split the leaf with it: there is room. */
static void a_leaf_is_split_with_the_last_page(void **state)
{
	const uint64_t count = d.inode->disk.pages;

	(void)state;
	to_split = lock_of(0, NULL);
	fill(to_split);
	const uint32_t last = find(to_split, true, true);
	d.without_a_page = split_to_split;
	d.no_pages = 100;
	make(last);
	assert_int_equal(d.called, 1);
	d.no_pages = 0;
	assert_int_equal(d.inode->disk.pages, count + 1);
}

/* The other maker has not split it yet, or gives the page back. */
static void a_page_that_another_maker_has_is_no_lack_of_space(void **state)
{
	const uint64_t count = d.inode->disk.pages;
	const uint32_t last = fill(lock_of(0, NULL));

	(void)state;
	d.no_pages = 1;
	make(last);
	assert_int_equal(d.no_pages, 0);
	assert_int_equal(d.inode->disk.pages, count + 1);
}

static void no_page_for_a_split_is_a_lack_of_space(void **state)
{
	const uint64_t count = d.inode->disk.pages;
	const uint32_t last = fill(lock_of(0, NULL));
	uint64_t ino;

	(void)state;
	d.no_pages = 100;
	assert_int_equal(op_mknod(&rig, d.dir, name_of(last), 0100644, &ino), -G4_E_NOSPC);
	assert_in_range(d.no_pages, 90, 99);
	d.no_pages = 0;
	assert_int_equal(d.inode->disk.pages, count);
	make(last);
}

/* An index page that an image has in two directories may change between a look at it and an insertion. */
static void nothing_is_written_behind_an_index_page(void **state)
{
	static struct {
		struct g4_dir_index index;
		uint8_t behind[G4_PAGE_BYTES];
	} now, before;
	const struct {
		uint32_t count, child;
	} cases[] = {{G4_DIR_INDEX_ENTRIES, 0},
		     {G4_DIR_INDEX_ENTRIES, G4_DIR_INDEX_ENTRIES - 1},
		     {UINT32_MAX, 0},
		     {1, G4_DIR_INDEX_ENTRIES - 1}};

	(void)state;
	for (uint32_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		memset(&now, 0x5a, sizeof(now));
		now.index.count = cases[k].count;
		before = now;
		assert_false(g4_dir_index_insert(&now.index, cases[k].child, g4_dir_position(7, 0), G4_PAGE_BYTES));
		assert_memory_equal(&now, &before, sizeof(now));
	}
	now.index.count = G4_DIR_INDEX_ENTRIES - 1;
	assert_true(g4_dir_index_insert(&now.index, G4_DIR_INDEX_ENTRIES - 2, g4_dir_position(7, 0), G4_PAGE_BYTES));
	assert_int_equal(now.index.count, G4_DIR_INDEX_ENTRIES);
	assert_int_equal(now.index.entries[G4_DIR_INDEX_ENTRIES - 1].hash, 7);
	assert_memory_equal(now.behind, before.behind, sizeof(now.behind));
}

/* ------------------------------------------------------------------ what is left to who has the directory alone */

/* More leaves than an index page leads to. */
static void index_pages_are_divided_and_go_again(void **state)
{
	(void)state;
	for (uint32_t number = NAMES; number < 5000; number++)
		make(number);
	assert_true(d.inode->disk.pages > G4_DIR_INDEX_ENTRIES + 3);
	expect_names();
	for (uint32_t number = 0; number < 5000; number++) {
		assert_int_equal(op_unlink(&rig, d.dir, name_of(number)), 0);
		removed(number);
	}
	assert_int_equal(d.inode->disk.pages, 1);
}

static void run(void **state)
{
	(*(CMUnitTestFunction *)*state)(NULL);
	d.passed = true;
}

static struct CMUnitTest ending(const char *name, CMUnitTestFunction *test)
{
	return (struct CMUnitTest){name, run, setup, teardown, test};
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(f) ending(#f, &(CMUnitTestFunction){f})
		TEST(names_in_other_leaves_go_on_while_a_leaf_is_split),
		TEST(a_leaf_is_split_while_another_has_the_directory_shared),
		TEST(a_name_is_found_in_a_leaf_that_was_split_on_the_way),
		TEST(a_listing_meets_all_names_of_leaves_that_are_split_on_the_way),
		TEST(a_listed_name_that_moved_is_looked_up),
		TEST(a_name_goes_to_where_its_place_is_after_a_split),
		TEST(a_name_is_taken_from_where_it_is_after_a_split),
		TEST(a_name_is_moved_from_where_it_is_after_a_split),
		TEST(a_leaf_is_split_once),
		TEST(a_leaf_is_split_with_the_last_page),
		TEST(a_page_that_another_maker_has_is_no_lack_of_space),
		TEST(no_page_for_a_split_is_a_lack_of_space),
		cmocka_unit_test(nothing_is_written_behind_an_index_page),
		TEST(index_pages_are_divided_and_go_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
