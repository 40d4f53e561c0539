/* SPDX-License-Identifier: Apache-2.0 */
/* Deleting inodes: when it happens, and that all they have comes back, however small transactions are. */
#include "rig.h"

#include "fs/fs.h"

#define PIECES 600u

static struct rig rig;

static int setup(void **state)
{
	(void)state;
	rig_begin(&rig, 64 * G4_MIB, 1, NULL); /* the smallest cache: transactions of few blocks */
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_end(&rig);
	return 0;
}

/* A file in as many pieces as it has pages, with attributes in pages of their own. */
static uint64_t make(void)
{
	static uint8_t page[G4_PAGE_BYTES], value[40000];
	const uint64_t ino = rig_make(&rig, 1);
	char name[32];

	rig_pattern(page, 1, sizeof(page));
	for (uint32_t k = 0; k < PIECES; k++)
		assert_int_equal(op_write(&rig, ino, 0, 2 * k * G4_PAGE_BYTES, page, sizeof(page), NULL), 0);
	for (uint32_t k = 0; k < 4; k++) {
		snprintf(name, sizeof(name), "user.%u", k);
		assert_int_equal(op_setxattr(&rig, ino, name, value, sizeof(value), 0), 0);
	}
	assert_int_equal(op_sync(&rig), 0);
	return ino;
}

static int forget(uint64_t ino)
{
	struct g4_cmd cmd = {.op = G4_CMD_FORGET, .node = ino};

	return g4_execute(rig.wg, rig.fs, &cmd);
}

static void all_that_a_file_has_comes_back(void **state)
{
	(void)state;
	make(); /* the inode's slab stays */
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f1"), 0);
	const uint64_t before = rig_free_pages(&rig);
	make();
	assert_true(rig_free_pages(&rig) < before - PIECES);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f1"), 0);
	assert_int_equal(rig_free_pages(&rig), before);
}

static void all_that_a_directory_has_comes_back(void **state)
{
	const uint32_t count = 400;
	char name[200];
	uint64_t dir;

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "first", 0755, &dir), 0);
	const uint64_t file = rig_make(&rig, 1), before = rig_free_pages(&rig);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	for (uint32_t k = 0; k < count; k++) {
		snprintf(name, sizeof(name), "%0150u", k);
		assert_int_equal(op_link(&rig, file, dir, name), 0);
	}
	assert_true(rig_free_pages(&rig) < before - 10);
	for (uint32_t k = 0; k < count; k++) {
		snprintf(name, sizeof(name), "%0150u", k);
		assert_int_equal(op_unlink(&rig, dir, name), 0);
	}
	assert_int_equal(op_rmdir(&rig, G4_NODE_ROOT, "d"), 0);
	assert_int_equal(rig_free_pages(&rig), before);
}

static void link_names(uint64_t file, uint64_t dir, const char *prefix, uint32_t count)
{
	char name[200];

	for (uint32_t k = 0; k < count; k++) {
		snprintf(name, sizeof(name), "%s%0150u", prefix, k);
		assert_int_equal(op_link(&rig, file, dir, name), 0);
	}
}

static uint64_t pages_of(uint64_t dir)
{
	struct g4_attr attr;

	assert_int_equal(op_getattr(&rig, dir, &attr), 0);
	return attr.size / G4_PAGE_BYTES;
}

/* Names that go take their pages along, whatever command they go with; one page stays. */
static void a_directory_that_lives_gives_its_pages_back(void **state)
{
	const uint32_t count = 400;
	const char *const to[] = {"same", "over", "gone"};
	char name[200], name2[200];
	uint64_t dir, other;

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "other", 0755, &other), 0);
	const uint64_t file = rig_make(&rig, 1);
	link_names(file, dir, "", 1);
	link_names(rig_make(&rig, 2), other, "", 1);
	const uint64_t before = rig_free_pages(&rig);
	link_names(file, dir, "first", count);
	link_names(rig_make(&rig, 3), other, "over", count);
	uint64_t most =
		2 * pages_of(dir); /* new names find other leaves, which divide before the old ones are united */
	assert_in_range(most, 20, count);
	/* to a name of the same directory, one that is there in another, none in another */
	for (uint32_t turn = 0; turn < 3; turn++) {
		const uint64_t target = turn == 0 ? dir : other;
		for (uint32_t k = 0; k < count; k++) {
			if (turn == 1 && k % 2)
				continue;
			if (turn == 2 && k % 2 == 0)
				continue;
			snprintf(name, sizeof(name), "%s%0150u", turn == 0 ? "first" : "same", k);
			snprintf(name2, sizeof(name2), "%s%0150u", to[turn], k);
			assert_int_equal(op_rename(&rig, dir, name, target, name2, 0), 0);
		}
		assert_in_range(pages_of(dir), turn < 2 ? 2 : 1, turn < 2 ? most : 1);
		most = pages_of(dir); /* names only go from now on */
	}
	for (uint32_t k = 0; k < count; k++) {
		snprintf(name, sizeof(name), "over%0150u", k);
		assert_int_equal(op_unlink(&rig, other, name), 0);
		snprintf(name, sizeof(name), "gone%0150u", k);
		assert_int_equal(op_unlink(&rig, other, name), k % 2 ? 0 : -G4_E_NOENT);
	}
	assert_int_equal(pages_of(other), 1);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f3"), 0);
	assert_int_equal(rig_free_pages(&rig), before);
}

static void an_inode_without_names_lives_while_it_is_open_or_known(void **state)
{
	struct g4_attr attr;
	uint64_t handle;

	(void)state;
	rig.fs->flags |= G4_FS_HOLD_UNLINKED;
	for (uint32_t closed_first = 0; closed_first < 2; closed_first++) {
		const uint64_t ino = make();
		assert_int_equal(op_open(&rig, ino, G4_OPEN_READ, &handle), 0);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f1"), 0);
		assert_int_equal(closed_first ? op_release(&rig, handle) : forget(ino), 0);
		assert_int_equal(op_getattr(&rig, ino, &attr), 0);
		assert_int_equal(attr.nlink, 0);
		assert_int_equal(attr.size, (2 * PIECES - 1) * G4_PAGE_BYTES);
		const uint64_t held = rig_free_pages(&rig);
		assert_int_equal(closed_first ? forget(ino) : op_release(&rig, handle), 0);
		assert_int_not_equal(op_getattr(&rig, ino, &attr), 0);
		assert_true(rig_free_pages(&rig) >= held + PIECES);
		assert_int_equal(forget(ino), 0); /* what is gone needs none */
	}
}

/* A caller that takes the last name of an inode that is held learns its number, which it may have to forget. */
static void who_takes_a_last_name_learns_what_is_held(void **state)
{
	static const struct g4_cred root = {.umask = 022};
	struct g4_cmd unlink = {
		.op = G4_CMD_UNLINK, .node = G4_NODE_ROOT, .name = "f1", .name_bytes = 2, .cred = &root};
	struct g4_cmd rename = {.op = G4_CMD_RENAME,
				.node = G4_NODE_ROOT,
				.node2 = G4_NODE_ROOT,
				.name = "other",
				.name_bytes = 5,
				.name2 = "f1",
				.name2_bytes = 2,
				.cred = &root};
	uint64_t ino, other;

	(void)state;
	ino = make();
	assert_int_equal(g4_execute(rig.wg, rig.fs, &unlink), 0);
	assert_int_equal(unlink.value, 0); /* nobody holds it */
	rig.fs->flags |= G4_FS_HOLD_UNLINKED;
	ino = make();
	assert_int_equal(op_link(&rig, ino, G4_NODE_ROOT, "second"), 0);
	assert_int_equal(g4_execute(rig.wg, rig.fs, &unlink), 0);
	assert_int_equal(unlink.value, 0); /* it has another name */
	unlink.name = "second";
	unlink.name_bytes = 6;
	assert_int_equal(g4_execute(rig.wg, rig.fs, &unlink), 0);
	assert_int_equal(unlink.value, ino);
	assert_int_equal(forget(ino), 0);
	ino = make();
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "other", 0100644, &other), 0);
	assert_int_equal(g4_execute(rig.wg, rig.fs, &rename), 0);
	assert_int_equal(rename.value, ino);
	assert_int_equal(forget(ino), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f1"), 0);
	assert_int_equal(forget(other), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_that_a_file_has_comes_back, setup, teardown),
		cmocka_unit_test_setup_teardown(all_that_a_directory_has_comes_back, setup, teardown),
		cmocka_unit_test_setup_teardown(a_directory_that_lives_gives_its_pages_back, setup, teardown),
		cmocka_unit_test_setup_teardown(an_inode_without_names_lives_while_it_is_open_or_known, setup,
						teardown),
		cmocka_unit_test_setup_teardown(who_takes_a_last_name_learns_what_is_held, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
