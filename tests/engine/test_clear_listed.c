/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CLEAR by who has a piece: leaves are listed few times, and names that were just listed are not looked up. What others do between the listing
 * and the removal of a name is done before it or after it.
 */
#include "rig.h"

#include <pthread.h>

#include "fs/fs.h"
#include "fs/remove.h"
#include "simt/simt_host.h"

static uint32_t reads, by_listing, by_lookup;
static uint32_t gone_then;		  /* by listing, before the last read */
static struct g4_address leaf_then;	  /* of the name that is about to go */
static struct g4_dir_entry *entry_then;	  /* that, in the listing */
static void (*between)(const char *name); /* before the next name that goes without a lookup */

static void (*at_lock)(const char *name); /* when its inode is about to be locked */
static char name_then[G4_NAME_MAX + 1];

static void hooked_icache_lock(struct g4_fs *of, struct g4_inode_core *inode)
{
	void (*const first)(const char *name) = at_lock;

	if (first) {
		at_lock = NULL;
		first(name_then);
	}
	g4_icache_lock(of, inode);
}

#define g4_icache_lock hooked_icache_lock
#include "fs/remove.c" /* NOLINT(bugprone-suspicious-include) */
#undef g4_icache_lock

static int hooked_read_leaf(struct g4_wg *wg, const struct g4_dir *dir, uint64_t from, struct g4_dir_listed *listed)
{
	gone_then = by_listing;
	reads++;
	return g4_dir_read_leaf(wg, dir, from, listed);
}

static int hooked_remove_listed(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *dir,
				struct g4_dir_listed *listed, uint32_t k, struct g4_cmd *cmd, uint32_t *unused)
{
	void (*const first)(const char *name) = between;

	if (first) {
		const struct g4_dir_entry *entry = listed->items[k].entry;
		memcpy(name_then, entry + 1, entry->name_bytes);
		name_then[entry->name_bytes] = 0;
		between = NULL;
		leaf_then = listed->leaf;
		entry_then = (struct g4_dir_entry *)(void *)((uint8_t *)listed->page +
							     ((const uint8_t *)entry - (const uint8_t *)listed->page));
		first(name_then);
	}
	const int rc = g4_remove_listed(wg, fs, dir, listed, k, cmd, unused);
	by_listing += rc == 0;
	return rc;
}

static int hooked_remove(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	by_lookup++;
	return g4_remove_keeping_pages(wg, fs, cmd);
}

#define g4_dir_read_leaf hooked_read_leaf
#define g4_remove_listed hooked_remove_listed
#define g4_remove_keeping_pages hooked_remove
#include "fs/clear.c" /* NOLINT(bugprone-suspicious-include) */
#undef g4_dir_read_leaf
#undef g4_remove_listed
#undef g4_remove_keeping_pages

#define ROOT G4_NODE_ROOT

static struct rig rig;
static struct g4_fs *fs;
static struct g4_wg *wg;
static uint64_t top;

static void begin(const struct g4_fault *fault)
{
	rig_begin(&rig, 64 * G4_MIB, 0, fault);
	fs = rig.fs;
	wg = rig.wg;
	reads = by_listing = by_lookup = 0;
	between = at_lock = NULL;
	assert_int_equal(op_mkdir(&rig, ROOT, "top", 0755, &top), 0);
}

static int setup(void **state)
{
	(void)state;
	begin(NULL);
	return 0;
}

static int setup_watched(void **state)
{
	const struct g4_fault none = {0};

	(void)state;
	begin(&none);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_end(&rig);
	return 0;
}

static void make_files(uint64_t dir, uint32_t count)
{
	char name[32];

	for (uint32_t k = 0; k < count; k++) {
		snprintf(name, sizeof(name), "file %u", k);
		assert_int_equal(op_mknod(&rig, dir, name, G4_S_IFREG | 0644, NULL), 0);
	}
}

static void begin_part(struct g4_clear_part *part, uint32_t turns)
{
	struct g4_attr attr;

	memset(part, 0, sizeof(*part));
	assert_int_equal(op_getattr(&rig, top, &attr), 0);
	part->ino = part->cmd.node = top;
	part->generation = (uint32_t)attr.generation;
	part->most = part->tries = part->piece_tries = 100000;
	part->span = G4_DIR_POSITIONS;
	part->ranges = 1;
	part->turns = turns;
}

static uint32_t leaves_of(uint64_t dir)
{
	uint32_t index;

	assert_int_equal(g4_icache_get(wg, fs, dir, &index), 0);
	const uint64_t pages = g4_icache_at(fs, index)->disk.pages;
	g4_icache_put(fs, index);
	return (uint32_t)pages - 1; /* all but the root */
}

static void a_leaf_is_listed_once(void **state)
{
	static struct g4_clear_part part;

	(void)state;
	make_files(top, 1500);
	begin_part(&part, 1);
	const uint32_t leaves = leaves_of(top);
	assert_true(leaves > 10);
	assert_int_equal(g4_clear_piece(wg, fs, &part, 0), 0);
	assert_int_equal(part.removed, 1500);
	assert_int_equal(reads, leaves);
	assert_int_equal(by_listing, 1500);
	assert_int_equal(by_lookup, 0);
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
}

/* Also of a directory below it, which is begun in its middle. */
static void leaves_below_are_listed_once(void **state)
{
	static struct g4_clear_part part;
	uint64_t below;

	(void)state;
	assert_int_equal(op_mkdir(&rig, top, "below", 0755, &below), 0);
	make_files(below, 1500);
	begin_part(&part, 4);
	const uint32_t leaves = leaves_of(below);
	assert_int_equal(g4_clear_piece(wg, fs, &part, 2), 0);
	assert_int_equal(part.removed, 1501);
	/* one twice, where it begins, and the top's before and behind it */
	assert_in_range(reads, leaves, leaves + 4);
	assert_int_equal(by_listing, 1500);
	assert_int_equal(by_lookup, 2); /* its own, before and behind them */
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
}

/* ---- others */

static struct {
	int (*run)(const char *name);
	const char *name;
	int code;
} other;

static void *run_other(void *context)
{
	(void)context;
	other.code = other.run(other.name);
	return NULL;
}

/* In a thread of its own, for who has the piece has the directory locked. */
static void by_other(const char *name, int (*run)(const char *name))
{
	pthread_t thread;

	other.run = run;
	other.name = name;
	assert_int_equal(pthread_create(&thread, NULL, run_other, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(other.code, 0);
}

static struct rig beside(void)
{
	struct rig other_rig = rig;

	other_rig.wg = g4_wg_create(1);
	assert_non_null(other_rig.wg);
	return other_rig;
}

static struct rig others;

static int unlink_it(const char *name)
{
	return op_unlink(&others, top, name);
}

static int make_it(const char *name)
{
	return op_mknod(&others, top, name, G4_S_IFREG | 0600, NULL);
}

static int make_directory_of_it(const char *name)
{
	return op_mkdir(&others, top, name, 0755, NULL);
}

static int move_it(const char *name)
{
	return op_rename(&others, top, name, top, "moved", 0);
}

static int link_it(const char *name)
{
	struct g4_attr attr;
	const int rc = op_lookup(&others, top, name, &attr);

	return rc < 0 ? rc : op_link(&others, attr.ino, ROOT, "kept");
}

static void goes(const char *name)
{
	by_other(name, unlink_it);
}

static void becomes_another_file(const char *name)
{
	by_other(name, unlink_it);
	by_other(name, make_it);
}

static void becomes_a_directory(const char *name)
{
	by_other(name, unlink_it);
	by_other(name, make_directory_of_it);
}

static void is_moved(const char *name)
{
	by_other(name, move_it);
}

static void has_a_name_elsewhere(const char *name)
{
	by_other(name, link_it);
}

/* Units of the leaf are another name's: that of a file that gets the number of the inode, mostly. */
static void makes_room_for_another(const char *name)
{
	by_other(name, unlink_it);
	by_other("another", make_it);
}

/* Names that come beside it, more than its leaf has room for. */
static int make_many(const char *name)
{
	char new_name[32];
	int rc = 0;

	(void)name;
	for (uint32_t k = 0; k < 400 && rc == 0; k++) {
		snprintf(new_name, sizeof(new_name), "new %u", k);
		rc = op_mknod(&others, top, new_name, G4_S_IFREG | 0644, NULL);
	}
	return rc;
}

static void leaves_are_split(const char *name)
{
	by_other(name, make_many);
}

/* Another file elsewhere gets its number, and may not be removed. */
static uint32_t made_elsewhere;
static int number_of_it(const char *name)
{
	struct g4_attr attr, fixed = {.flags = G4_INODE_IMMUTABLE};
	struct rig first = rig; /* whose slabs have the number */
	char new_name[32];
	uint64_t ino = 0;
	int rc = op_lookup(&others, top, name, &attr);

	if (rc == 0)
		rc = op_unlink(&first, top, name);
	for (made_elsewhere = 0; made_elsewhere < 1000 && rc == 0 && ino != attr.ino; made_elsewhere++) {
		snprintf(new_name, sizeof(new_name), "elsewhere %u", made_elsewhere);
		rc = op_mknod(&first, ROOT, new_name, G4_S_IFREG | 0644, &ino);
	}
	if (rc == 0)
		rc = ino == attr.ino ? op_setattr(&first, ino, G4_SET_FLAGS, &fixed) : -G4_E_NOENT;
	return rc;
}

static void its_number_is_taken(const char *name)
{
	by_other(name, number_of_it);
}

/* A new file gets its number and its name. */
static int name_and_number_of_it(const char *name)
{
	struct g4_attr attr;
	struct rig first = rig; /* whose slabs have the number */
	char new_name[32] = "";
	uint64_t ino = 0;
	int rc = op_lookup(&others, top, name, &attr);

	if (rc == 0)
		rc = op_unlink(&first, top, name);
	for (made_elsewhere = 0; made_elsewhere < 1000 && rc == 0 && ino != attr.ino; made_elsewhere++) {
		snprintf(new_name, sizeof(new_name), "elsewhere %u", made_elsewhere);
		rc = op_mknod(&first, ROOT, new_name, G4_S_IFREG | 0644, &ino);
	}
	made_elsewhere--;
	if (rc == 0)
		rc = op_unlink(&first, ROOT, new_name);
	if (rc == 0)
		rc = op_mknod(&first, top, name, G4_S_IFREG | 0644, &ino);
	return rc == 0 && ino != attr.ino ? -G4_E_NOENT : rc;
}

static void becomes_another_of_its_number(const char *name)
{
	by_other(name, name_and_number_of_it);
}

static void goes_late(const char *name)
{
	(void)name;
	at_lock = goes;
}

static void becomes_another_late(const char *name)
{
	(void)name;
	at_lock = becomes_another_file;
}

static void becomes_a_directory_late(const char *name)
{
	(void)name;
	at_lock = becomes_a_directory;
}

static void becomes_another_of_its_number_late(const char *name)
{
	(void)name;
	at_lock = becomes_another_of_its_number;
}

static void remove_elsewhere(void)
{
	struct g4_attr attr = {.flags = 0};
	char name[32];

	for (uint32_t k = 0; k < made_elsewhere; k++) {
		snprintf(name, sizeof(name), "elsewhere %u", k);
		assert_int_equal(op_lookup(&rig, ROOT, name, &attr), 0);
		attr.flags = 0;
		assert_int_equal(op_setattr(&rig, attr.ino, G4_SET_FLAGS, &attr), 0);
		assert_int_equal(op_unlink(&rig, ROOT, name), 0);
	}
	made_elsewhere = 0;
}

static int nothing(const char *name)
{
	(void)name;
	return 0;
}

static void nothing_happens(const char *name)
{
	by_other(name, nothing);
}

static uint64_t below_top;

static int make_below(const char *name)
{
	char new_name[32];
	int rc = 0;

	(void)name;
	for (uint32_t k = 0; k < 100 && rc == 0; k++) {
		snprintf(new_name, sizeof(new_name), "new %u", k);
		rc = op_mknod(&others, below_top, new_name, G4_S_IFREG | 0644, NULL);
	}
	return rc;
}

static void names_come_where_it_was(const char *name)
{
	by_other(name, make_below);
}

/* Some of them, mostly, into the leaf that was listed: who has come around goes around once more. */
static void what_comes_behind_the_walk_goes_too(void **state)
{
	static struct g4_clear_part part;

	(void)state;
	others = beside();
	struct g4_wg *third = g4_wg_create(3);
	assert_int_equal(op_mkdir(&rig, top, "below", 0755, &below_top), 0);
	make_files(below_top, 1500);
	begin_part(&part, 4);
	between = names_come_where_it_was;
	assert_int_equal(g4_clear_piece(third, fs, &part, 2), 0);
	assert_int_equal(part.removed, 1601);
	assert_int_equal(part.taken, part.removed);
	g4_wg_destroy(third);
	g4_wg_destroy(others.wg);
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
}

#define FILES 200u /* of more than one leaf: the only one is split by who has the directory alone */
static void what_others_do_is_before_or_after(void **state)
{
	static const struct {
		void (*between)(const char *name);
		uint32_t removed; /* names, by the piece and those after it */
		int looked_up;	  /* whether any of them was; -1: perhaps */
	} cases[] = {
		{nothing_happens, FILES, 0},
		{goes, FILES - 1, 0},
		{becomes_another_file, FILES, 0},
		{becomes_a_directory, FILES, 1},
		{is_moved, FILES, 0},
		{has_a_name_elsewhere, FILES, 0},
		{makes_room_for_another, FILES, 0},
		{its_number_is_taken, FILES - 1, 0},
		{goes_late, FILES - 1, 0},
		{becomes_another_late, FILES, 1},
		{becomes_a_directory_late, FILES, 1},
		{becomes_another_of_its_number_late, FILES, 1},
		{leaves_are_split, FILES + 400, -1},
	};
	static struct g4_clear_part part;

	(void)state;
	others = beside();
	for (uint32_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		make_files(top, FILES);
		begin_part(&part, 1);
		between = cases[c].between;
		by_lookup = 0;
		for (uint64_t before = UINT64_MAX; part.removed != before;) {
			before = part.removed;
			assert_int_equal(g4_clear_piece(wg, fs, &part, 0), 0);
		}
		assert_null(between);
		assert_null(at_lock);
		assert_int_equal(part.removed, cases[c].removed);
		if (cases[c].looked_up >= 0)
			assert_int_equal(by_lookup > 0, cases[c].looked_up);
		assert_int_equal(part.taken, part.removed);
		if (cases[c].between == has_a_name_elsewhere) {
			struct g4_attr attr;
			assert_int_equal(op_lookup(&rig, ROOT, "kept", &attr), 0);
			assert_int_equal(attr.nlink, 1);
			assert_int_equal(op_unlink(&rig, ROOT, "kept"), 0);
		}
		remove_elsewhere();
		assert_int_equal(rig_locked_leaves(&rig), 0);
	}
	g4_wg_destroy(others.wg);
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
}

/* ---- an image says that a name, which is a file's, leads to the directory that has it and is locked */

static void leads_back(const char *name)
{
	(void)name;
	entry_then->inode = top;
}

static void a_directory_is_not_locked_twice(void **state)
{
	static struct g4_clear_part part;

	(void)state;
	make_files(top, 10);
	begin_part(&part, 1);
	between = leads_back;
	assert_int_equal(g4_clear_piece(wg, fs, &part, 0), 0);
	assert_int_equal(part.removed, 10); /* the leaf itself says better */
	assert_in_range(by_lookup, 1, 10);
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
}

/* ---- the leaf is not in the cache any more */

static uint32_t device_reads, locked;

/* In the middle of a request. */
static void watch(void *unused, const struct g4_io *io)
{
	(void)unused;
	if (io->op != G4_IO_READ)
		return;
	device_reads++;
	locked += rig_locked_leaves(&rig);
}

static int make_beside(const char *name)
{
	(void)name;
	const int rc = op_mknod(&others, top, "beside", G4_S_IFREG | 0644, NULL);

	return rc < 0 ? rc : g4_commit(others.wg, fs, g4_load64_acq(&fs->journal.running), true);
}

static void its_leaf_changes_and_leaves_the_cache(const char *name)
{
	by_other(name, make_beside);
	g4_cache_drop(&fs->cache, 0, g4_address_page(leaf_then));
	g4_dev_fault_watch(rig.fault, watch, NULL);
}

/* Makers wait for the leaf inside of their transactions. */
static void a_leaf_is_read_without_its_lock(void **state)
{
	static struct g4_clear_part part;

	(void)state;
	others = beside();
	make_files(top, 20);
	begin_part(&part, 1);
	device_reads = locked = 0;
	between = its_leaf_changes_and_leaves_the_cache;
	assert_int_equal(g4_clear_piece(wg, fs, &part, 0), 0);
	g4_dev_fault_watch(rig.fault, NULL, NULL);
	assert_true(device_reads > 0);
	assert_int_equal(locked, 0);
	for (uint32_t k = 0; k < 2 && part.removed < 21; k++)
		assert_int_equal(g4_clear_piece(wg, fs, &part, 0), 0);
	assert_int_equal(part.removed, 21);
	assert_in_range(by_listing, 20, 21);
	g4_wg_destroy(others.wg);
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
}

/* ---- somebody wants it alone */

static pthread_t waiter;
static uint32_t mode_code;

static void *set_mode(void *context)
{
	struct g4_attr mode = {.mode = 0700};

	(void)context;
	mode_code = (uint32_t)-op_setattr(&others, top, G4_SET_MODE, &mode);
	return NULL;
}

static void wants_it_alone(const char *name)
{
	uint32_t index, version;

	(void)name;
	assert_int_equal(pthread_create(&waiter, NULL, set_mode, NULL), 0);
	assert_int_equal(g4_icache_get(wg, fs, top, &index), 0);
	while (g4_read_begin(&g4_icache_at(fs, index)->lock, &version))
		g4_pause();
	g4_icache_put(fs, index);
}

/* Waits for no more than a name. */
static void who_wants_the_directory_gets_it(void **state)
{
	static struct g4_clear_part part;
	struct g4_attr attr;

	(void)state;
	others = beside();
	make_files(top, 60);
	begin_part(&part, 1);
	between = wants_it_alone;
	assert_int_equal(g4_clear_piece(wg, fs, &part, 0), 0);
	assert_int_equal(pthread_join(waiter, NULL), 0);
	assert_int_equal(mode_code, 0);
	assert_int_equal(part.removed, 60);
	assert_int_equal(reads, 2);
	assert_int_equal(gone_then, 1); /* that was about to go; the others were listed again */
	assert_int_equal(by_listing, 60);
	assert_int_equal(by_lookup, 0);
	assert_int_equal(op_getattr(&rig, top, &attr), 0);
	assert_int_equal(attr.mode & 0777, 0700);
	g4_wg_destroy(others.wg);
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
}

/* ---- what is no empty file */

static void contents_go_with_the_directory_unlocked(void **state)
{
	static struct g4_clear_part part;
	static uint8_t data[3 * G4_PAGE_BYTES];
	char name[32];
	uint64_t ino;

	(void)state;
	for (uint32_t k = 0; k < 60; k++) {
		snprintf(name, sizeof(name), "file %u", k);
		assert_int_equal(op_mknod(&rig, top, name, G4_S_IFREG | 0644, &ino), 0);
		if (k % 7 == 0 || k < 20)
			assert_int_equal(op_write(&rig, ino, 0, 0, data, sizeof(data), NULL), 0);
	}
	begin_part(&part, 1);
	assert_int_equal(g4_clear_piece(wg, fs, &part, 0), 0);
	assert_int_equal(part.removed, 60);
	assert_int_equal(by_listing, 60);
	assert_int_equal(by_lookup, 0);
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
}

static void who_may_not_remove_is_told_so(void **state)
{
	static const struct g4_cred user = {.uid = 1000, .gid = 1000};
	static struct g4_clear_part part;

	(void)state;
	make_files(top, 10);
	begin_part(&part, 1);
	part.cred = user;
	part.cmd.cred = &part.cred;
	assert_int_equal(g4_clear_piece(wg, fs, &part, 0), -G4_E_ACCES);
	assert_int_equal(part.removed, 0);
	assert_int_equal(by_listing, 0);
	/* in a sticky directory only one's own */
	struct g4_attr open = {.mode = 01777};
	assert_int_equal(op_setattr(&rig, top, G4_SET_MODE, &open), 0);
	assert_int_equal(g4_clear_piece(wg, fs, &part, 0), -G4_E_PERM);
	assert_int_equal(part.removed, 0);
	part.cmd.cred = NULL;
	assert_int_equal(g4_clear_piece(wg, fs, &part, 0), 0);
	assert_int_equal(part.removed, 10);
}

#define listed_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		listed_test(a_leaf_is_listed_once),
		listed_test(leaves_below_are_listed_once),
		listed_test(what_comes_behind_the_walk_goes_too),
		listed_test(what_others_do_is_before_or_after),
		listed_test(a_directory_is_not_locked_twice),
		cmocka_unit_test_setup_teardown(a_leaf_is_read_without_its_lock, setup_watched, teardown),
		listed_test(who_wants_the_directory_gets_it),
		listed_test(contents_go_with_the_directory_unlocked),
		listed_test(who_may_not_remove_is_told_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
