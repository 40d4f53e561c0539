/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers that outlive their inodes: a command that names an inode by number and generation does nothing to another one
 * that got the number. And the ends of files that were removed while open, more of them than the engine keeps in memory.
 */
#include "journal/block.h"
#include "rig.h"

#define IMAGE_BYTES (64 * G4_MIB)
#define JOURNAL_BYTES (4 * G4_MIB)

static struct rig rig;

static int setup(void **state)
{
	(void)state;
	rig_open(&rig, IMAGE_BYTES, JOURNAL_BYTES);
	rig_mount(&rig);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_close(&rig);
	return 0;
}

static int run(struct g4_cmd *cmd)
{
	static const struct g4_cred root = {.umask = 022};

	cmd->cred = &root;
	return g4_engine_execute(rig.engine, cmd);
}

/* Makes something, removes it, and makes others until one of them has its number. */
static void reuse(const char *first, uint32_t first_mode, const char *second, uint32_t mode, struct g4_attr *was,
		  struct g4_attr *now)
{
	uint64_t ino;
	char name[32];

	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, first, first_mode, &ino), 0);
	assert_int_equal(op_getattr(&rig, ino, was), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, first), 0);
	for (uint32_t i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "%s %u", second, i);
		if (mode & 040000)
			assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, name, mode & 07777, &ino), 0);
		else
			assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, mode, &ino), 0);
		if (ino == was->ino) {
			assert_int_equal(op_getattr(&rig, ino, now), 0);
			assert_int_not_equal(now->generation, was->generation);
			return;
		}
	}
	fail_msg("the number was never used again");
}

static void a_number_in_its_old_generation_is_stale(void **state)
{
	static const uint32_t ops[] = {G4_CMD_OPEN,	G4_CMD_SETATTR,	 G4_CMD_GETATTR,   G4_CMD_ACCESS,
				       G4_CMD_SETXATTR, G4_CMD_GETXATTR, G4_CMD_LISTXATTR, G4_CMD_REMOVEXATTR,
				       G4_CMD_LINK,	G4_CMD_READLINK, G4_CMD_RESOLVE,   G4_CMD_READDIR};
	struct g4_attr was, now, attr;
	char buffer[512];

	(void)state;
	reuse("old", 0100644, "new", 0100644, &was, &now);
	assert_int_equal(op_write(&rig, now.ino, 0, 0, "important", 9, NULL), 0);
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		attr = (struct g4_attr){.size = 0, .mode = 0777};
		struct g4_cmd cmd = {.op = ops[i],
				     .node = was.ino,
				     .generation = (uint32_t)was.generation,
				     .flags = ops[i] == G4_CMD_OPEN   ? G4_OPEN_WRITE | G4_OPEN_TRUNC :
					      ops[i] == G4_CMD_ACCESS ? G4_ACCESS_READ :
									0,
				     .mask = ops[i] == G4_CMD_SETATTR ? G4_SET_SIZE | G4_SET_MODE : 0,
				     .attr = &attr,
				     .data = buffer,
				     .length = sizeof(buffer)};
		if (ops[i] == G4_CMD_LINK) {
			cmd.node2 = G4_NODE_ROOT;
			cmd.name2 = "link";
			cmd.name2_bytes = 4;
		} else if (ops[i] == G4_CMD_RESOLVE) {
			cmd.name = "x";
			cmd.name_bytes = 1;
		} else if (ops[i] >= G4_CMD_SETXATTR) {
			cmd.name = "user.x";
			cmd.name_bytes = 6;
		}
		if (run(&cmd) != -G4_E_STALE)
			fail_msg("command %u took the old number", ops[i]);
	}
	assert_int_equal(op_getattr(&rig, now.ino, &attr), 0);
	assert_int_equal(attr.size, 9);
	assert_int_equal(attr.mode, now.mode);
	assert_int_equal(attr.nlink, 1);
}

static void nothing_is_made_or_moved_in_a_directory_that_is_another_now(void **state)
{
	struct g4_attr was, now;
	uint64_t ino;

	(void)state;
	reuse("old", 0100644, "directory", 0040755, &was, &now);
	struct g4_cmd make = {.op = G4_CMD_MKNOD,
			      .node = was.ino,
			      .generation = (uint32_t)was.generation,
			      .mode = 0100644,
			      .name = "x",
			      .name_bytes = 1};
	assert_int_equal(run(&make), -G4_E_STALE);
	make.generation = (uint32_t)now.generation;
	assert_int_equal(run(&make), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "file", 0100644, &ino), 0);
	struct g4_cmd move = {.op = G4_CMD_RENAME,
			      .node = G4_NODE_ROOT,
			      .name = "file",
			      .name_bytes = 4,
			      .node2 = now.ino,
			      .name2 = "x",
			      .name2_bytes = 1,
			      .generation2 = (uint32_t)was.generation};
	assert_int_equal(run(&move), -G4_E_STALE);
	move.generation2 = (uint32_t)now.generation;
	assert_int_equal(run(&move), 0);
}

/*
 * Old numbers lead nowhere, even where a file's data at their place looks like the slab that was there: a user that writes
 * files could make that.
 */
#define MADE 3000

static void data_that_looks_like_an_old_slab_is_none(void **state)
{
	static struct g4_attr was[MADE];
	static uint8_t fill[G4_MIB];
	uint64_t ino, offset = 0, done;
	uint32_t forged = 0, tag;
	char name[16];

	(void)state;
	memcpy(&tag, ((const struct g4_superblock *)(const void *)(rig.image + G4_SUPERBLOCK_ADDRESS))->uuid,
	       sizeof(tag));
	for (uint32_t i = 0; i < MADE; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, 0100644, &ino), 0);
		assert_int_equal(op_getattr(&rig, ino, &was[i]), 0);
	}
	for (uint32_t i = 0; i < MADE; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
	}
	assert_int_equal(op_sync(&rig), 0);
	memset(fill, 0xa5, sizeof(fill));
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "data", 0100644, &ino), 0);
	while (op_write(&rig, ino, 0, offset, fill, sizeof(fill), &done) == 0 && done > 0)
		offset += done;
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t i = 0; i < MADE; i++) {
		uint64_t address = g4_align_down(g4_ptr_offset(was[i].ino), G4_PAGE_BYTES);
		struct g4_slab_header *slab = (struct g4_slab_header *)(void *)(rig.image + address);
		struct g4_attr attr;
		if (memcmp(rig.image + address, fill, G4_PAGE_BYTES) == 0) {
			memset(slab, 0, G4_PAGE_BYTES);
			slab->kind = G4_SLAB_INODES;
			slab->used = 0xffff;
			for (uint32_t slot = 1; slot < G4_SLAB_SLOTS; slot++) {
				struct g4_inode *inode =
					(struct g4_inode *)(void *)(rig.image + address + slot * G4_SLAB_SLOT_BYTES);
				inode->mode = 0100666;
				inode->nlink = 1;
				inode->generation = (uint32_t)was[i].generation;
			}
			g4_block_seal(slab, G4_BLOCK_SLAB, g4_address_from(address), 1, tag);
			forged++;
		}
		struct g4_cmd cmd = {.op = G4_CMD_GETATTR,
				     .node = was[i].ino,
				     .generation = (uint32_t)was[i].generation,
				     .attr = &attr};
		assert_int_equal(run(&cmd), -G4_E_STALE);
		cmd.generation = 0;
		if (was[i].ino != ino)
			assert_int_equal(run(&cmd), -G4_E_STALE);
	}
	assert_in_range(forged, 10, MADE);
}

static bool is_slab_on_device(uint64_t ino)
{
	const struct g4_block_header *header =
		(const struct g4_block_header *)(const void *)(rig.image +
							       g4_align_down(g4_ptr_offset(ino), G4_PAGE_BYTES));

	return header->magic == G4_BLOCK_MAGIC && header->type == G4_BLOCK_SLAB;
}

/* Slabs that are gone since an earlier mount lie where they were, to the last byte, and their pages are given to a file that writes nothing. */
static void a_number_of_an_earlier_mount_leads_nowhere(void **state)
{
	static struct g4_attr was[MADE];
	struct g4_attr attr;
	uint32_t found = 0, slabs = 0;
	struct g4_statfs room;
	uint64_t ino;
	char name[16];

	(void)state;
	for (uint32_t i = 0; i < MADE; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, 0100644, &ino), 0);
		assert_int_equal(op_getattr(&rig, ino, &was[i]), 0);
	}
	assert_int_equal(rig_unmount(&rig), 0); /* now they are in place */
	rig_mount(&rig);
	for (uint32_t i = 0; i < MADE; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
	}
	assert_int_equal(rig_unmount(&rig), 0);
	rig_mount(&rig);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "data", 0100644, &ino), 0);
	assert_int_equal(op_statfs(&rig, &room), 0);
	for (uint64_t left = room.blocks_free, at = 0; left > 0; left /= 2) /* nearly all pages */
		while (op_fallocate(&rig, ino, 0, at, left * G4_PAGE_BYTES) == 0)
			at += left * G4_PAGE_BYTES;
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t i = 0; i < MADE; i++) {
		struct g4_cmd cmd = {.op = G4_CMD_GETATTR, .node = was[i].ino, .attr = &attr};
		slabs += is_slab_on_device(was[i].ino);
		found += was[i].ino != ino && run(&cmd) != -G4_E_STALE;
		cmd.generation = (uint32_t)was[i].generation;
		found += run(&cmd) != -G4_E_STALE;
	}
	/* else the test tests nothing; pages of the file's map and sums lie over the others, how many depends on when it was written back */
	assert_in_range(slabs, MADE / 10, MADE);
	assert_int_equal(found, 0);
}

/* More than are in memory at a time with the smallest cache. */
#define REMOVED 5000

static void any_number_of_removed_files_ends_at_a_mount_with_a_small_cache(void **state)
{
	struct g4_statfs empty;
	uint64_t ino, handle;

	(void)state;
	assert_int_equal(rig_unmount(&rig), 0);
	rig.cache_bytes = 32 * G4_MIB;
	rig_mount(&rig);
	assert_int_equal(op_statfs(&rig, &empty), 0);
	for (uint32_t i = 0; i < REMOVED; i++)
		assert_int_equal(op_tmpfile(&rig, G4_NODE_ROOT, &ino, &handle), 0);
	assert_int_equal(op_sync(&rig), 0);
	rig_abandon(&rig);
	rig.cache_bytes = 8 * G4_MIB;
	rig_mount(&rig);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, empty.blocks_free, "after the mount");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_number_in_its_old_generation_is_stale, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_is_made_or_moved_in_a_directory_that_is_another_now, setup,
						teardown),
		cmocka_unit_test_setup_teardown(data_that_looks_like_an_old_slab_is_none, setup, teardown),
		cmocka_unit_test_setup_teardown(a_number_of_an_earlier_mount_leads_nowhere, setup, teardown),
		cmocka_unit_test_setup_teardown(any_number_of_removed_files_ends_at_a_mount_with_a_small_cache, setup,
						teardown),
	};

	return cmocka_run_group_tests_name("stale numbers", tests, NULL, NULL);
}
