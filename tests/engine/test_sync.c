/* SPDX-License-Identifier: Apache-2.0 */
/* fsync and write-back of everything: what a power cut leaves. */
#include "rig.h"

#include "fs/fs.h"

static struct rig rig;
static const struct g4_fault no_fault = {0};

static int setup(void **state)
{
	(void)state;
	rig_begin(&rig, 64 * G4_MIB, 0, &no_fault);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_end(&rig);
	return 0;
}

static void crash(void)
{
	rig_unmount_fs(&rig, rig.wg, rig.fs, false);
	rig.fs = rig_mount_fs(&rig, rig.wg, &no_fault);
}

static uint64_t size_of(uint64_t ino)
{
	struct g4_attr attr;

	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	return attr.size;
}

static void fsync_makes_one_file_durable_and_sync_all_of_them(void **state)
{
	static uint8_t data[3 * G4_PAGE_BYTES], found[3 * G4_PAGE_BYTES];
	const uint64_t one = rig_make(&rig, 1), other = rig_make(&rig, 2);
	uint64_t done;

	(void)state;
	rig_pattern(data, 5, sizeof(data));
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_write(&rig, one, 0, 0, data, sizeof(data), NULL), 0);
	assert_int_equal(op_write(&rig, other, 0, 0, data, sizeof(data), NULL), 0);
	assert_int_equal(op_fsync(&rig, one), 0);
	crash();
	assert_int_equal(op_read(&rig, one, 0, 0, found, sizeof(found), &done), 0);
	assert_int_equal(done, sizeof(data));
	assert_memory_equal(found, data, sizeof(data));
	assert_int_equal(size_of(other), 0); /* nobody asked for it */
	assert_int_equal(op_write(&rig, other, 0, 0, data, sizeof(data), NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	crash();
	assert_int_equal(size_of(other), sizeof(data));
}

/* A file grows by pages that are punched out again before they were written. */
static void the_size_of_a_file_whose_new_end_is_a_hole_is_durable(void **state)
{
	static uint8_t data[8 * G4_PAGE_BYTES];
	const uint64_t ino = rig_make(&rig, 1);

	(void)state;
	rig_pattern(data, 6, sizeof(data));
	assert_int_equal(op_write(&rig, ino, 0, 0, data, sizeof(data), NULL), 0);
	assert_int_equal(op_fallocate(&rig, ino, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 0, sizeof(data)), 0);
	assert_int_equal(op_fsync(&rig, ino), 0);
	crash();
	assert_int_equal(size_of(ino), sizeof(data));
}

/* Times that reading changed are kept back until somebody writes them. */
static void an_fsync_writes_times_that_waited(void **state)
{
	const uint64_t ino = rig_make(&rig, 1);
	struct g4_attr before, attr;
	uint8_t byte = 1;

	(void)state;
	assert_int_equal(op_write(&rig, ino, 0, 0, &byte, 1, NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_getattr(&rig, ino, &before), 0);
	attr = before;
	attr.atime_ns = 1000;
	assert_int_equal(op_setattr(&rig, ino, G4_SET_ATIME, &attr), 0);
	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_int_equal(op_read(&rig, ino, 0, 0, &byte, 1, NULL), 0);
	assert_int_equal(op_getattr(&rig, ino, &before), 0);
	assert_true(before.atime_ns > 1000);
	assert_int_equal(op_fsync(&rig, ino), 0);
	crash();
	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	assert_int_equal(attr.atime_ns, before.atime_ns);
}

/* The power goes right after the call. */
static void fallocate_is_durable_where_writes_are(void **state)
{
	static uint8_t data[4 * G4_PAGE_BYTES];
	static const uint32_t modes[] = {0, G4_FALLOC_INSERT_RANGE, G4_FALLOC_COLLAPSE_RANGE};
	const uint64_t ino = rig_make(&rig, 1);
	uint64_t size = sizeof(data);

	(void)state;
	rig_pattern(data, 8, sizeof(data));
	assert_int_equal(op_write(&rig, ino, 0, 0, data, sizeof(data), NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t k = 0; k < 9; k++) {
		const uint32_t mode = modes[k % 3], how = k / 3; /* opened so, or so, or the mount is */
		struct g4_cmd cmd = {.op = G4_CMD_FALLOCATE, .flags = mode, .node = ino};

		if (how < 2)
			assert_int_equal(op_open(&rig, ino, G4_OPEN_WRITE | (how ? G4_OPEN_DSYNC : G4_OPEN_SYNC),
						 &cmd.handle),
					 0);
		else
			rig.fs->flags |= G4_FS_SYNC;
		cmd.offset = mode ? G4_PAGE_BYTES : size;
		cmd.length = mode ? 2 * G4_PAGE_BYTES : 3 * G4_PAGE_BYTES;
		assert_int_equal(g4_execute(rig.wg, rig.fs, &cmd), 0);
		crash();
		size += mode == G4_FALLOC_COLLAPSE_RANGE ? -cmd.length : cmd.length;
		assert_int_equal(size_of(ino), size);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(fsync_makes_one_file_durable_and_sync_all_of_them, setup, teardown),
		cmocka_unit_test_setup_teardown(the_size_of_a_file_whose_new_end_is_a_hole_is_durable, setup, teardown),
		cmocka_unit_test_setup_teardown(an_fsync_writes_times_that_waited, setup, teardown),
		cmocka_unit_test_setup_teardown(fallocate_is_durable_where_writes_are, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
