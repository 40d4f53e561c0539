/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What holds for every command, whatever it does: each number of the table is executed, nothing changes a file system that is read-only
 * or stopped, sync mounts return when what they did is durable, and space that others will give back is waited for. (Attributes, which
 * this source has, too: engine/test_perm.c and test_inode.c.)
 */
#include "files/files.h"

static _Alignas(4096) uint8_t buffer[G4_PAGE_BYTES];

/* The command with something in every field, of an inode that there is not. */
static int execute(uint32_t op)
{
	static struct g4_attr attr;
	struct g4_cmd cmd = {.op = op, .status = 12345, .node = 77, .name = "x", .name_bytes = 1, .name2 = "y"};

	cmd.name2_bytes = 1;
	cmd.data = buffer;
	cmd.length = sizeof(buffer);
	cmd.attr = &attr;
	const int rc = g4_execute(wg, fs, &cmd);
	assert_int_equal(cmd.status, rc);
	return rc;
}

static void each_number_is_executed_and_no_other(void **state)
{
	(void)state;
	for (uint32_t op = 0; op < G4_COMMAND_COUNT; op++)
		assert_int_not_equal(execute(op), -G4_E_NOSYS);
	assert_int_equal(execute(G4_COMMAND_COUNT), -G4_E_NOSYS);
	assert_int_equal(execute(64), -G4_E_NOSYS);
	assert_int_equal(execute(UINT32_MAX), -G4_E_NOSYS);
}

static void expect_refused(void)
{
	for (uint32_t op = 0; op < G4_COMMAND_COUNT; op++) {
		if (g4_command_is(op, G4_CHANGES))
			assert_int_equal(execute(op), -G4_E_ROFS);
		else if (!g4_command_is(op, G4_MAY_CHANGE))
			assert_int_not_equal(execute(op), -G4_E_ROFS);
	}
}

static void what_changes_is_refused_when_nothing_may(void **state)
{
	uint64_t ino;

	(void)state;
	fs->flags |= G4_FS_READ_ONLY;
	expect_refused();
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0600, &ino), -G4_E_ROFS);
	fs->flags &= ~G4_FS_READ_ONLY;
	g4_store32_rel(&fs->journal.aborted, G4_E_IO);
	expect_refused();
	g4_store32_rel(&fs->journal.aborted, 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0600, &ino), 0);
}

static void a_sync_mount_returns_when_it_is_durable(void **state)
{
	struct g4_attr attr;
	uint64_t ino, handle;

	(void)state;
	fs->flags |= G4_FS_SYNC;
	uint64_t commits = fs->journal.commits;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0600, &ino), 0);
	assert_int_equal(fs->journal.commits, commits + 1);
	assert_int_equal(op_write(&rig, ino, 0, 0, buffer, sizeof(buffer), NULL), 0);
	assert_int_equal(fs->dirty_pages, 0);
	commits = fs->journal.commits;
	assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "f", &attr), 0);
	assert_int_equal(op_open(&rig, ino, G4_OPEN_READ, &handle), 0);
	assert_int_equal(op_release(&rig, handle), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0600, &ino), -G4_E_EXIST);
	assert_int_equal(fs->journal.commits, commits);
	assert_int_equal(op_open(&rig, ino, G4_OPEN_WRITE | G4_OPEN_TRUNC, &handle), 0);
	assert_int_equal(fs->journal.commits, commits + 1);
	assert_int_equal(op_release(&rig, handle), 0);
	fs->flags &= ~G4_FS_SYNC;
}

/* What was removed is free when that is durable: a command that needs the space sees to it. */
static void space_of_removed_files_can_be_had_at_once(void **state)
{
	uint64_t first, second;
	struct g4_statfs statfs;

	(void)state;
	assert_int_equal(op_statfs(&rig, &statfs), 0);
	const uint64_t bytes = statfs.blocks_available / 4 * 3 * G4_PAGE_BYTES;
	first = rig_make(&rig, 1);
	second = rig_make(&rig, 2);
	assert_int_equal(op_fallocate(&rig, first, 0, 0, bytes), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_fallocate(&rig, second, 0, 0, bytes), -G4_E_NOSPC);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f1"), 0);
	assert_int_equal(op_fallocate(&rig, second, 0, 0, bytes), 0);
}

/* A commit counts pages as free before it takes them out of what is pending: who asks then is not told of more than there is. */
static void no_more_is_free_than_there_is(void **state)
{
	struct g4_statfs space;

	(void)state;
	g4_add64(&fs->alloc.pending_pages, fs->alloc.total_pages);
	assert_int_equal(op_statfs(&rig, &space), 0);
	assert_int_equal(space.blocks_free, space.blocks);
	assert_true(space.blocks_available <= space.blocks);
	g4_sub64(&fs->alloc.pending_pages, fs->alloc.total_pages);
}

RUN_TESTS(fs_test(each_number_is_executed_and_no_other), fs_test(what_changes_is_refused_when_nothing_may),
	  fs_test(a_sync_mount_returns_when_it_is_durable), fs_test(space_of_removed_files_can_be_had_at_once),
	  fs_test(no_more_is_free_than_there_is))
