/* SPDX-License-Identifier: Apache-2.0 */
/* How a command names an inode: by number and generation, or by a handle that is open. */
#include "files/files.h"

static void another_generation_is_stale(void **state)
{
	const struct held held = files_hold("f");
	struct g4_cmd cmd = {.op = G4_CMD_GETATTR, .node = held.ino};
	uint32_t index;

	(void)state;
	assert_int_equal(g4_icache_get_node(wg, fs, &cmd, &index), 0);
	assert_int_equal(index, held.index);
	g4_icache_put(fs, index);
	cmd.generation = held.inode->disk.generation;
	assert_int_equal(g4_icache_get_node(wg, fs, &cmd, &index), 0);
	g4_icache_put(fs, index);
	cmd.generation++;
	assert_int_equal(g4_icache_get_node(wg, fs, &cmd, &index), -G4_E_STALE);
	files_let_go(held);
}

static void a_handle_is_good_while_it_is_open(void **state)
{
	const struct held held = files_hold("f");
	struct g4_cmd cmd = {.op = G4_CMD_READ};
	uint32_t index;

	(void)state;
	assert_int_equal(op_open(&rig, held.ino, G4_OPEN_READ | G4_OPEN_WRITE, &cmd.handle), 0);
	assert_int_equal(g4_handle_index(cmd.handle), held.index);
	assert_int_equal(g4_handle_flags(cmd.handle), G4_OPEN_READ | G4_OPEN_WRITE);
	assert_int_equal(g4_icache_get_target(wg, fs, &cmd, &index), 0);
	assert_int_equal(index, held.index);
	g4_icache_put(fs, index);
	assert_int_equal(op_release(&rig, cmd.handle), 0);
	assert_int_equal(g4_icache_get_target(wg, fs, &cmd, &index), -G4_E_BADF);
	cmd.handle = g4_handle_make(fs->icache.count, 0);
	assert_int_equal(g4_icache_get_target(wg, fs, &cmd, &index), -G4_E_BADF);
	files_let_go(held);
}

RUN_TESTS(fs_test(another_generation_is_stale), fs_test(a_handle_is_good_while_it_is_open))
