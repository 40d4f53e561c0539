/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CLEAR: all that is below a directory goes, a bounded number of names at a time, also while others change the tree. (Trees that
 * are none: test_damaged_tree.c.)
 */
#include "rig.h"

#include <pthread.h>

#include "fs/clear.h"
#include "fs/command.h"

#define CHAIN (3 * G4_CLEAR_WAY + 7) /* levels: more than the walk remembers */
#define WIDE 500u

static struct rig rig;

static int setup(void **state)
{
	(void)state;
	rig_begin_engine(&rig, 64 * G4_MIB);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig.cred = NULL;
	rig_end_engine(&rig);
	return 0;
}

static int clear(struct rig *r, uint64_t dir, uint64_t most, uint64_t from, uint64_t *removed)
{
	struct g4_cmd cmd = {.op = G4_CMD_CLEAR, .node = dir, .cookie = from, .length = most, .cred = r->cred};
	const int rc = g4_engine_execute(r->engine, &cmd);

	*removed = cmd.value;
	return rc;
}

static uint64_t make_directory(uint64_t parent, const char *name)
{
	uint64_t ino = 0;

	assert_int_equal(op_mkdir(&rig, parent, name, 0755, &ino), 0);
	return ino;
}

static void make_file(uint64_t parent, const char *name, uint64_t bytes)
{
	static uint8_t data[20000];
	uint64_t ino;

	assert_int_equal(op_mknod(&rig, parent, name, G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, bytes, NULL), 0);
}

/* Wide, deep and mixed; returns how many names are below. */
static uint64_t populate(uint64_t top)
{
	const uint64_t kept = rig_make(&rig, 7); /* has another name outside */
	uint64_t names = 0, dir = top;
	char name[32];

	for (uint32_t k = 0; k < CHAIN; k++) {
		dir = make_directory(dir, "chain");
		make_file(dir, "file", k % 50 ? 20 : 20000);
		names += 2;
	}
	dir = make_directory(top, "wide");
	for (uint32_t k = 0; k < WIDE; k++) {
		snprintf(name, sizeof(name), "name-%u", k);
		if (k % 5 == 0)
			make_directory(make_directory(dir, name), "inside");
		else
			make_file(dir, name, 0);
		names += k % 5 == 0 ? 2 : 1;
	}
	assert_int_equal(op_link(&rig, kept, top, "linked"), 0);
	assert_int_equal(op_symlink(&rig, top, "link", "/elsewhere", NULL), 0);
	return names + 3;
}

static uint64_t pages_free(void)
{
	struct g4_statfs space;

	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &space), 0);
	return space.blocks_free;
}

static void all_below_a_directory_goes(void **state)
{
	static const uint64_t most[] = {1000000, 37, 1};
	uint64_t before = 0;

	(void)state;
	for (uint32_t turn = 0; turn < 3; turn++) {
		const uint64_t top = make_directory(G4_NODE_ROOT, "top"), names = populate(top);
		uint64_t all = 0, removed;
		struct g4_attr attr;
		do {
			assert_int_equal(clear(&rig, top, most[turn], turn * 0x40000000u, &removed), 0);
			assert_in_range(removed, 0, most[turn]);
			all += removed;
		} while (removed > 0);
		assert_int_equal(all, names);
		assert_int_equal(op_getattr(&rig, top, &attr), 0);
		assert_int_equal(attr.nlink, 2);
		assert_int_equal(op_rmdir(&rig, G4_NODE_ROOT, "top"), 0);
		assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "f7", &attr), 0);
		assert_int_equal(attr.nlink, 1);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f7"), 0);
		if (turn > 0) /* but for empty slabs that a workgroup keeps; the end of the test counts exactly */
			assert_in_range(pages_free(), before - 4, before + 4);
		before = pages_free();
	}
}

static void what_the_caller_may_not_remove_ends_it(void **state)
{
	const struct g4_cred user = {.uid = 1000, .gid = 1000};
	struct g4_attr open_mode = {.mode = 0777}, no_list = {.mode = 0333};
	const uint64_t top = make_directory(G4_NODE_ROOT, "top"), closed = make_directory(top, "closed");
	uint64_t removed, file;
	struct g4_attr attr;

	(void)state;
	make_file(closed, "file", 10);
	make_file(top, "mine", 10);
	assert_int_equal(op_setattr(&rig, top, G4_SET_MODE, &open_mode), 0);
	rig.cred = &user;
	for (uint32_t calls = 0; calls < 3; calls++) { /* "mine" goes before it or not, by the hashes */
		const int rc = clear(&rig, top, 100, 0, &removed);
		assert_true(rc == 0 ? removed == 1 : rc == -G4_E_ACCES && removed == 0);
		if (rc < 0)
			break;
		assert_int_equal(calls, 0);
	}
	rig.cred = NULL;
	assert_int_equal(op_lookup(&rig, closed, "file", &attr), 0);
	/* to be changed, not to be listed: as rm(1) has it */
	assert_int_equal(op_setattr(&rig, closed, G4_SET_MODE, &no_list), 0);
	rig.cred = &user;
	assert_int_equal(clear(&rig, closed, 100, 0, &removed), -G4_E_ACCES);
	rig.cred = NULL;
	assert_int_equal(op_lookup(&rig, closed, "file", &attr), 0);
	assert_int_equal(clear(&rig, attr.ino, 100, 0, &removed), -G4_E_NOTDIR);
	assert_int_equal(clear(&rig, top, 0, 0, &removed), -G4_E_INVAL);
	file = attr.ino;
	assert_int_equal(clear(&rig, top, 100, 0, &removed), 0);
	assert_in_range(removed, 2, 3);
	assert_int_not_equal(op_getattr(&rig, file, &attr), 0);
	assert_int_equal(clear(&rig, top, 100, 0, &removed), 0);
	assert_int_equal(removed, 0);
	assert_int_equal(op_rmdir(&rig, G4_NODE_ROOT, "top"), 0);
	assert_int_equal(clear(&rig, top, 100, 0, &removed), -G4_E_STALE);
}

/* ---- together ---- */

struct party {
	pthread_t id;
	struct rig rig;
	uint64_t top, from, removed;
	int code; /* the first that should not be */
};
static uint64_t made; /* names, by the maker */

static void *clear_until_nothing_is_there(void *context)
{
	struct party *party = context;
	uint64_t removed;

	do {
		party->code = clear(&party->rig, party->top, 50, party->from, &removed);
		party->removed += removed;
	} while (removed > 0 && party->code == 0);
	return NULL;
}

/* Below directories that go while it works. */
static void *make_names(void *context)
{
	struct party *party = context;
	uint64_t dir = party->top, ino;
	char name[32];

	for (uint32_t k = 0; k < 300 && party->code == 0; k++) {
		snprintf(name, sizeof(name), "new-%u", k);
		int rc = op_mkdir(&party->rig, dir, name, 0755, &ino);
		if (rc < 0 && dir != party->top) {
			dir = party->top;
			rc = op_mkdir(&party->rig, dir, name, 0755, &ino);
		}
		if (rc < 0)
			party->code = rc;
		made += rc == 0;
		dir = rc == 0 ? ino : party->top;
	}
	return NULL;
}

static void several_clear_a_tree_that_grows(void **state)
{
	const uint64_t top = make_directory(G4_NODE_ROOT, "top"), names = populate(top);
	struct party parties[3];
	uint64_t all = 0, removed;

	(void)state;
	made = 0;
	for (uint32_t k = 0; k < 3; k++) {
		parties[k] = (struct party){.rig = rig, .top = top, .from = k * 0x80000000u};
		assert_int_equal(pthread_create(&parties[k].id, NULL, k < 2 ? clear_until_nothing_is_there : make_names,
						&parties[k]),
				 0);
	}
	for (uint32_t k = 0; k < 3; k++) {
		assert_int_equal(pthread_join(parties[k].id, NULL), 0);
		assert_int_equal(parties[k].code, 0);
		all += parties[k].removed;
	}
	do {
		assert_int_equal(clear(&rig, top, 1000, 0, &removed), 0);
		all += removed;
	} while (removed > 0);
	assert_int_equal(all, names + made);
	assert_int_equal(op_rmdir(&rig, G4_NODE_ROOT, "top"), 0);
}

#define clear_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		clear_test(all_below_a_directory_goes),
		clear_test(what_the_caller_may_not_remove_ends_it),
		clear_test(several_clear_a_tree_that_grows),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
