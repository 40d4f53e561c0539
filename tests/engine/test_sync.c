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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(fsync_makes_one_file_durable_and_sync_all_of_them, setup, teardown),
		cmocka_unit_test_setup_teardown(the_size_of_a_file_whose_new_end_is_a_hole_is_durable, setup, teardown),
		cmocka_unit_test_setup_teardown(an_fsync_writes_times_that_waited, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
