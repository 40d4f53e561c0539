/* SPDX-License-Identifier: Apache-2.0 */
/* TALLY: each name of a directory is in the sums, or told by itself, exactly once, however many commands that takes. */
#include "rig.h"

#include "fs/command.h"
#include "fs/tally.h"

#define WIDE (2 * G4_TALLY_MOST + 100)

static struct rig rig;
static uint64_t data[G4_PAGE_BYTES];

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

static const struct g4_tally *tally(uint64_t dir, uint64_t cookie, uint64_t room, int wanted)
{
	struct g4_cmd cmd = {.op = G4_CMD_TALLY,
			     .node = dir,
			     .cookie = cookie,
			     .data = data,
			     .length = sizeof(struct g4_tally) + room * sizeof(struct g4_tally_item),
			     .cred = rig.cred};
	const struct g4_tally *sum = (const struct g4_tally *)(const void *)data;

	assert_int_equal(g4_engine_execute(rig.engine, &cmd), wanted);
	if (wanted == 0) {
		assert_int_equal(cmd.value, sizeof(*sum) + sum->items * sizeof(struct g4_tally_item));
		assert_in_range(sum->items, 0, room);
		assert_in_range(sum->names, 0, G4_TALLY_MOST);
	}
	return sum;
}

static void sums_and_items(void **state)
{
	static uint8_t bytes[9000];
	const struct g4_tally_item *items;
	struct g4_attr attr, file, kept;
	uint64_t dir, ino, blocks;

	(void)state;
	const uint64_t linked = rig_make(&rig, 1);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	assert_true(tally(dir, 0, 1, 0)->cookie == UINT64_MAX);
	assert_int_equal(tally(dir, 0, 1, 0)->names, 0);
	assert_int_equal(op_mknod(&rig, dir, "file", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_write(&rig, ino, 0, 0, bytes, sizeof(bytes), NULL), 0);
	assert_int_equal(op_getattr(&rig, ino, &file), 0);
	assert_int_equal(op_symlink(&rig, dir, "link", "somewhere", NULL), 0);
	assert_int_equal(op_mknod(&rig, dir, "pipe", G4_S_IFIFO | 0644, NULL), 0);
	assert_int_equal(op_mkdir(&rig, dir, "sub", 0755, &ino), 0);
	assert_int_equal(op_mkdir(&rig, ino, "below", 0755, NULL), 0);
	assert_int_equal(op_link(&rig, linked, dir, "several"), 0);
	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	assert_int_equal(op_getattr(&rig, linked, &kept), 0);
	const struct g4_tally *sum = tally(dir, 0, 10, 0);
	assert_true(sum->cookie == UINT64_MAX);
	assert_int_equal(sum->names, 5);
	assert_int_equal(sum->files, 1);
	assert_int_equal(sum->links, 1);
	assert_int_equal(sum->directories, 1);
	assert_int_equal(sum->bytes, sizeof(bytes) + strlen("somewhere"));
	assert_int_equal(sum->blocks_512, file.blocks_512 + attr.blocks_512);
	assert_int_equal(sum->items, 2);
	items = (const struct g4_tally_item *)(const void *)(sum + 1);
	const uint32_t sub = items[0].ino == ino ? 0 : 1;
	assert_int_equal(items[sub].ino, ino);
	assert_int_equal(items[sub].generation, attr.generation);
	assert_int_equal(items[sub].mode, attr.mode);
	assert_int_equal(items[sub].token, 0);
	assert_int_equal(items[1 - sub].ino, linked);
	assert_int_equal(items[1 - sub].size, kept.size);
	assert_int_equal(items[1 - sub].mode, kept.mode);
	blocks = sum->blocks_512;
	/* with room for one it takes two commands, of which the sums are the same */
	uint64_t cookie = 0, names = 0, all = 0, told = 0;
	while (cookie != UINT64_MAX) {
		sum = tally(dir, cookie, 1, 0);
		assert_true(sum->names > 0);
		cookie = sum->cookie;
		names += sum->names;
		all += sum->blocks_512;
		told += sum->items;
	}
	assert_int_equal(names, 5);
	assert_int_equal(told, 2);
	assert_int_equal(all, blocks);
	tally(linked, 0, 1, -G4_E_NOTDIR);
	tally(dir, 0, 0, -G4_E_INVAL);
	assert_true(tally(dir, UINT64_MAX, 1, 0)->cookie == UINT64_MAX);
	assert_int_equal(tally(dir, UINT64_MAX, 1, 0)->names, 0);
}

static void what_may_not_be_read(void **state)
{
	const struct g4_cred user = {.uid = 1000, .gid = 1000};
	struct g4_attr no_search = {.mode = 0744}, no_list = {.mode = 0711};
	uint64_t dir;

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	rig.cred = &user;
	tally(dir, 0, 1, 0);
	rig.cred = NULL;
	assert_int_equal(op_setattr(&rig, dir, G4_SET_MODE, &no_search), 0);
	rig.cred = &user;
	tally(dir, 0, 1, -G4_E_ACCES);
	rig.cred = NULL;
	assert_int_equal(op_setattr(&rig, dir, G4_SET_MODE, &no_list), 0);
	rig.cred = &user;
	tally(dir, 0, 1, -G4_E_ACCES);
	rig.cred = NULL;
	assert_int_equal(op_rmdir(&rig, G4_NODE_ROOT, "d"), 0);
}

/* Names that stay are counted once, while others come and go between the commands. */
static void names_that_stay_count_once(void **state)
{
	uint64_t dir, cookie = 0, directories = 0, commands = 0;
	char name[32];

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	for (uint32_t k = 0; k < WIDE; k++) {
		snprintf(name, sizeof(name), "%s-%u", k % 2 ? "stays" : "goes", k);
		assert_int_equal(k % 2 ? op_mkdir(&rig, dir, name, 0755, NULL) :
					 op_mknod(&rig, dir, name, G4_S_IFREG | 0644, NULL),
				 0);
	}
	for (; cookie != UINT64_MAX; commands++) {
		const struct g4_tally *sum = tally(dir, cookie, 200, 0);
		cookie = sum->cookie;
		directories += sum->directories;
		for (uint32_t k = 0; k < WIDE / 20; k++) {
			const uint64_t number = 2 * (commands * (WIDE / 20) + k);
			snprintf(name, sizeof(name), "goes-%lu", (unsigned long)number);
			if (number < WIDE)
				assert_int_equal(op_unlink(&rig, dir, name), 0);
			snprintf(name, sizeof(name), "comes-%lu", (unsigned long)number);
			assert_int_equal(op_mknod(&rig, dir, name, G4_S_IFREG | 0644, NULL), 0);
		}
	}
	assert_int_equal(directories, WIDE / 2);
	assert_true(commands > 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sums_and_items),
		TEST(what_may_not_be_read),
		TEST(names_that_stay_count_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
