/* SPDX-License-Identifier: Apache-2.0 */
/* More inodes than the table holds, no space at all, no permission to write, many fsyncs at once. */
#include "rig.h"

#include <pthread.h>

#include "fs/fs.h"
#include "simt/simt_host.h"

static struct rig rig;

static int setup(void **state)
{
	(void)state;
	rig_begin_engine(&rig, 32 * G4_MIB);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_end_engine(&rig);
	return 0;
}

static void more_files_than_the_table_holds_can_be_written(void **state)
{
	const uint32_t count = rig_slow() ? 5000 : 9000;
	uint64_t *ino = (uint64_t *)malloc(count * sizeof(*ino));

	(void)state;
	assert_non_null(ino);
	for (uint32_t k = 0; k < count; k++) {
		ino[k] = rig_make(&rig, k);
		assert_int_equal(op_write(&rig, ino[k], 0, 0, &k, sizeof(k), NULL), 0);
	}
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t k = 0; k < count; k++) {
			uint32_t value = 0;
			assert_int_equal(op_read(&rig, ino[k], 0, 0, &value, sizeof(value), NULL), 0);
			assert_int_equal(value, k);
		}
		assert_int_equal(rig_unmount(&rig), 0);
		rig_mount(&rig);
	}
	free(ino);
}

/* Without the threads of an engine, which might write them back in time. */
static void inodes_that_wait_to_be_written_back_leave_room_for_others(void **state)
{
	struct g4_wg *wg = g4_wg_create(0);
	uint32_t count;

	(void)state;
	assert_non_null(wg);
	assert_int_equal(rig_unmount(&rig), 0);
	rig.wg = wg;
	rig.fs = rig_mount_fs(&rig, wg, NULL);
	count = rig.fs->icache.count + 100;
	for (uint32_t k = 0; k < count; k++)
		assert_int_equal(op_truncate(&rig, rig_make(&rig, k), 1), 0);
	rig_unmount_fs(&rig, wg, rig.fs, true);
	rig.fs = NULL;
	rig.wg = NULL;
	g4_wg_destroy(wg);
}

static void too_many_open_files_are_refused_and_do_no_harm(void **state)
{
	enum { MOST = 8000 };
	uint64_t *handles = (uint64_t *)calloc(MOST, sizeof(*handles)), ino = 0;
	uint32_t open_files = 0;
	int rc = 0;

	(void)state;
	assert_non_null(handles);
	for (; open_files < MOST && rc == 0; open_files += rc == 0) {
		char name[32];
		snprintf(name, sizeof(name), "f%u", open_files);
		rc = op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &ino);
		if (rc == 0)
			rc = op_open(&rig, ino, G4_OPEN_READ, &handles[open_files]);
	}
	assert_int_equal(rc, -G4_E_NFILE);
	assert_true(open_files > 3000);
	for (uint32_t k = 0; k < open_files; k++)
		assert_int_equal(op_release(&rig, handles[k]), 0);
	rig_make(&rig, MOST + 1);
	free(handles);
}

/* What was done to a file before the table forgot it is made durable by an fsync after that. */
static void fsync_of_a_forgotten_inode_commits_what_was_done_to_it(void **state)
{
	const uint32_t count = 5000;
	const struct g4_fault no_fault = {0};
	uint64_t *ino = (uint64_t *)malloc(count * sizeof(*ino)), file;
	struct g4_attr attr;

	(void)state;
	assert_non_null(ino);
	for (uint32_t k = 0; k < count; k++)
		ino[k] = rig_make(&rig, k);
	assert_int_equal(rig_unmount(&rig), 0);
	assert_int_equal(rig_try_mount(&rig, 0, &no_fault), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "late", G4_S_IFREG | 0600, &file), 0);
	for (uint32_t round = 0; round < 3; round++)
		for (uint32_t k = 0; k < count; k++)
			assert_int_equal(op_getattr(&rig, ino[k], &attr), 0);
	assert_int_equal(op_fsync(&rig, file), 0);
	g4_dev_fault_cut(rig.fault);
	rig_abandon(&rig);
	rig_mount(&rig);
	assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "late", &attr), 0);
	free(ino);
}

/* Each kind of change, again and again, until nothing fits; then room is made and all goes on. */
static void a_full_file_system_refuses_and_recovers(void **state)
{
	uint8_t *data = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, G4_MIB);
	uint64_t file = rig_make(&rig, 0), tail = rig_make(&rig, 1), done, ino;
	uint64_t offset = 0;
	char target[300];
	int rc = 0;

	(void)state;
	assert_non_null(data);
	rig_pattern(data, 1, G4_MIB);
	memset(target, 't', sizeof(target));
	target[299] = 0;
	assert_int_equal(op_write(&rig, tail, 0, 0, data, 100000, NULL), 0);
	while ((rc = op_write(&rig, file, 0, offset, data, G4_MIB, &done)) == 0)
		offset += done;
	assert_int_equal(rc, -G4_E_NOSPC);
	rc = 0;
	for (uint32_t k = 0; k < 10000 && rc == 0; k++) { /* what is kept back for metadata goes as well */
		char name[32];
		snprintf(name, sizeof(name), "l%u", k);
		rc = op_symlink(&rig, G4_NODE_ROOT, name, target, &ino);
	}
	assert_int_equal(rc, -G4_E_NOSPC);
	(void)op_mkdir(&rig, G4_NODE_ROOT, "d", 0700, NULL);
	(void)op_setxattr(&rig, tail, "user.a", data, 60000, 0);
	(void)op_fallocate(&rig, tail, 0, 0, G4_MIB);
	(void)op_fallocate(&rig, tail, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 5000, 5000);
	assert_int_equal(op_sync(&rig), 0); /* what was accepted has its space */
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f0"), 0);
	assert_int_equal(op_truncate(&rig, tail, 777), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_setxattr(&rig, tail, "user.a", data, 60000, 0), 0);
	assert_int_equal(op_write(&rig, tail, 0, 777, data, G4_MIB, &done), 0);
	assert_int_equal(done, G4_MIB);
	free(data);
}

static void a_read_only_mount_changes_nothing(void **state)
{
	uint8_t *before = (uint8_t *)malloc(32 * G4_MIB), data[16] = "0123456789abcde";
	uint64_t file = rig_make(&rig, 1), handle, done;
	struct g4_attr attr = {.mode = 0600};

	(void)state;
	assert_non_null(before);
	assert_int_equal(op_write(&rig, file, 0, 0, data, sizeof(data), NULL), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_copy(before, rig.image, rig.bytes);
	assert_int_equal(rig_try_mount(&rig, G4_MOUNT_READ_ONLY, NULL), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "n", G4_S_IFREG, NULL), -G4_E_ROFS);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "n", 0700, NULL), -G4_E_ROFS);
	assert_int_equal(op_symlink(&rig, G4_NODE_ROOT, "n", "t", NULL), -G4_E_ROFS);
	assert_int_equal(op_link(&rig, file, G4_NODE_ROOT, "n"), -G4_E_ROFS);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f1"), -G4_E_ROFS);
	assert_int_equal(op_rename(&rig, G4_NODE_ROOT, "f1", G4_NODE_ROOT, "n", 0), -G4_E_ROFS);
	assert_int_equal(op_write(&rig, file, 0, 0, data, 1, NULL), -G4_E_ROFS);
	assert_int_equal(op_truncate(&rig, file, 0), -G4_E_ROFS);
	assert_int_equal(op_fallocate(&rig, file, 0, 0, 100), -G4_E_ROFS);
	assert_int_equal(op_setattr(&rig, file, G4_SET_MODE, &attr), -G4_E_ROFS);
	assert_int_equal(op_setxattr(&rig, file, "user.a", "v", 1, 0), -G4_E_ROFS);
	assert_int_equal(op_removexattr(&rig, file, "user.a"), -G4_E_ROFS);
	assert_int_equal(op_open(&rig, file, G4_OPEN_WRITE, &handle), -G4_E_ROFS);
	assert_int_equal(op_open(&rig, file, G4_OPEN_READ, &handle), 0);
	assert_int_equal(op_read(&rig, 0, handle, 0, data, sizeof(data), &done), 0);
	assert_int_equal(done, sizeof(data));
	assert_int_equal(op_release(&rig, handle), 0);
	assert_int_equal(op_fsync(&rig, file), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	assert_memory_equal(before, rig.image, rig.bytes);
	free(before);
}

/* ------------------------------------------------------------------ many fsyncs */

#define THREADS 4u

struct worker {
	pthread_t thread;
	uint32_t index;
	uint64_t synced;
	int rc;
};

static void a_synchronous_mount_loses_nothing_in_a_crash(void **state)
{
	char data[8] = "kept", back[8] = "";
	struct g4_attr attr;
	uint64_t dir, file, done;

	(void)state;
	assert_int_equal(rig_unmount(&rig), 0);
	assert_int_equal(rig_try_mount(&rig, G4_MOUNT_SYNC, NULL), 0);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "dir", 0700, &dir), 0);
	assert_int_equal(op_mknod(&rig, dir, "file", G4_S_IFREG | 0600, &file), 0);
	assert_int_equal(op_write(&rig, file, 0, 0, data, sizeof(data), NULL), 0);
	rig_abandon(&rig);
	rig_mount(&rig);
	assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "dir", &attr), 0);
	assert_int_equal(op_lookup(&rig, attr.ino, "file", &attr), 0);
	assert_int_equal(op_read(&rig, attr.ino, 0, 0, back, sizeof(back), &done), 0);
	assert_int_equal(done, sizeof(data));
	assert_memory_equal(back, data, sizeof(data));
}

/* Commands that change something only in some cases. */
static void a_synchronous_mount_keeps_copies_and_cuts(void **state)
{
	const uint32_t flags = G4_OPEN_READ | G4_OPEN_WRITE;
	char data[8] = "kept", back[8] = "";
	uint64_t from, to, cut, from_handle, to_handle, cut_handle, done;
	struct g4_attr attr;

	(void)state;
	from = rig_make(&rig, 1);
	to = rig_make(&rig, 2);
	cut = rig_make(&rig, 3);
	assert_int_equal(op_write(&rig, from, 0, 0, data, sizeof(data), NULL), 0);
	assert_int_equal(op_write(&rig, cut, 0, 0, data, sizeof(data), NULL), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	assert_int_equal(rig_try_mount(&rig, G4_MOUNT_SYNC, NULL), 0);
	assert_int_equal(op_open(&rig, from, flags, &from_handle), 0);
	assert_int_equal(op_open(&rig, to, flags, &to_handle), 0);
	assert_int_equal(op_copy(&rig, from_handle, 0, to_handle, 0, sizeof(data), &done), 0);
	assert_int_equal(done, sizeof(data));
	rig_abandon(&rig);
	rig_mount(&rig);
	assert_int_equal(op_read(&rig, to, 0, 0, back, sizeof(back), &done), 0);
	assert_int_equal(done, sizeof(data));
	assert_memory_equal(back, data, sizeof(data));
	assert_int_equal(rig_unmount(&rig), 0);
	assert_int_equal(rig_try_mount(&rig, G4_MOUNT_SYNC, NULL), 0);
	assert_int_equal(op_open(&rig, cut, flags | G4_OPEN_TRUNC, &cut_handle), 0);
	rig_abandon(&rig);
	rig_mount(&rig);
	assert_int_equal(op_getattr(&rig, cut, &attr), 0);
	assert_int_equal(attr.size, 0);
}

static void *write_and_sync(void *argument)
{
	struct worker *w = (struct worker *)argument;
	uint64_t ino = rig_make(&rig, w->index);

	for (uint64_t n = 1; n <= (rig_slow() ? 40u : 150u) && w->rc == 0; n++) {
		w->rc = op_write(&rig, ino, 0, (n - 1) * 3000, &n, sizeof(n), NULL);
		if (w->rc == 0)
			w->rc = op_fsync(&rig, ino);
		if (w->rc == 0)
			w->synced = n;
	}
	return NULL;
}

static void concurrent_fsyncs_lose_nothing(void **state)
{
	const struct g4_fault no_fault = {0};
	struct worker workers[THREADS];
	struct g4_attr attr;

	(void)state;
	assert_int_equal(rig_unmount(&rig), 0);
	assert_int_equal(rig_try_mount(&rig, 0, &no_fault), 0);
	for (uint32_t k = 0; k < THREADS; k++) {
		workers[k] = (struct worker){.index = k};
		assert_int_equal(pthread_create(&workers[k].thread, NULL, write_and_sync, &workers[k]), 0);
	}
	for (uint32_t k = 0; k < THREADS; k++) {
		pthread_join(workers[k].thread, NULL);
		assert_int_equal(workers[k].rc, 0);
	}
	g4_dev_fault_cut(rig.fault);
	rig_abandon(&rig);
	rig_mount(&rig);
	for (uint32_t k = 0; k < THREADS; k++) {
		char name[32];
		snprintf(name, sizeof(name), "f%u", k);
		assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, name, &attr), 0);
		for (uint64_t n = 1; n <= workers[k].synced; n++) {
			uint64_t value = 0;
			assert_int_equal(op_read(&rig, attr.ino, 0, (n - 1) * 3000, &value, sizeof(value), NULL), 0);
			assert_int_equal(value, n);
		}
	}
}

static void a_page_is_read_while_its_cache_set_is_full_of_dirty_ones(void **state)
{
	enum { COUNT = G4_CACHE_WAYS + 4, ROUNDS = 50 };
	/* pages of one file that are so far apart share a set */
	const uint64_t step = g4_cache_sets_for((uint32_t)g4_cache_lines_for(rig.cache_bytes)) * G4_PAGE_BYTES;
	uint64_t ino = rig_make(&rig, 0);

	(void)state;
	for (uint32_t k = 0; k < COUNT; k++)
		assert_int_equal(op_write(&rig, ino, 0, k * step, &k, sizeof(k), NULL), 0);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint8_t page[G4_PAGE_BYTES] = {(uint8_t)round};
		uint32_t value = 0;

		assert_int_equal(op_fsync(&rig, ino), 0);
		for (uint32_t k = 0; k + 1 < COUNT; k++)
			assert_int_equal(op_write(&rig, ino, 0, k * step, page, sizeof(page), NULL), 0);
		assert_int_equal(op_read(&rig, ino, 0, (COUNT - 1) * step, &value, sizeof(value), NULL), 0);
		assert_int_equal(value, COUNT - 1);
		for (uint32_t k = 0; k + 1 < COUNT; k++) {
			assert_int_equal(op_read(&rig, ino, 0, k * step, &value, sizeof(value), NULL), 0);
			assert_int_equal(value, round);
		}
	}
}

static void a_freed_inode_page_is_not_taken_for_what_the_device_still_says(void **state)
{
	const uint32_t count = 300;
	char name[32];

	(void)state;
	for (uint32_t k = 0; k < count; k++)
		rig_make(&rig, k);
	for (uint32_t k = 0; k < count; k += 2) {
		snprintf(name, sizeof(name), "f%u", k);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
	}
	/* half-full pages of inodes reach their places; then they are noted as such, emptied and freed for good */
	assert_int_equal(rig_unmount(&rig), 0);
	rig_mount(&rig);
	for (uint32_t k = 1; k < count; k += 2) {
		snprintf(name, sizeof(name), "f%u", k);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
	}
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t k = 0; k < count; k++)
		rig_make(&rig, k);
}

#define limits_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* Ranges whose ends wrap, ranges that overlap, targets that only grow at their end. */
static void copies_that_can_not_be_are_refused(void **state)
{
	static uint8_t bytes[3 * G4_PAGE_BYTES], found[3 * G4_PAGE_BYTES];
	uint64_t from, to, appending, done;
	struct g4_attr attr;
	uint64_t a = rig_make(&rig, 1), b = rig_make(&rig, 2);

	(void)state;
	rig_pattern(bytes, 1, sizeof(bytes));
	assert_int_equal(op_write(&rig, a, 0, 0, bytes, sizeof(bytes), NULL), 0);
	assert_int_equal(op_write(&rig, b, 0, 0, "keep", 4, NULL), 0);
	assert_int_equal(op_open(&rig, a, G4_OPEN_READ | G4_OPEN_WRITE, &from), 0);
	assert_int_equal(op_open(&rig, b, G4_OPEN_WRITE, &to), 0);
	assert_int_equal(op_open(&rig, b, G4_OPEN_WRITE | G4_OPEN_APPEND, &appending), 0);
	assert_int_equal(op_copy(&rig, from, 0, appending, 0, 4, &done), -G4_E_BADF);
	assert_int_equal(op_copy(&rig, from, 0, from, 4096, UINT64_MAX - 4095, &done), -G4_E_OVERFLOW);
	assert_int_equal(op_copy(&rig, from, 0, from, 4096, 4097, &done), -G4_E_INVAL);
	assert_int_equal(op_copy(&rig, from, 4096, from, 0, 4097, &done), -G4_E_INVAL);
	assert_int_equal(op_getattr(&rig, a, &attr), 0);
	assert_int_equal(attr.size, sizeof(bytes));
	assert_int_equal(op_read(&rig, b, 0, 0, found, 4, NULL), 0);
	assert_memory_equal(found, "keep", 4);
	assert_int_equal(op_copy(&rig, from, 0, from, 8192, 4096, &done), 0);
	assert_int_equal(op_copy(&rig, from, 0, to, 0, sizeof(bytes), &done), 0);
	assert_int_equal(done, sizeof(bytes));
	memcpy(bytes + 8192, bytes, 4096);
	assert_int_equal(op_read(&rig, b, 0, 0, found, sizeof(found), NULL), 0);
	assert_memory_equal(found, bytes, sizeof(bytes));
	assert_int_equal(op_release(&rig, from), 0);
	assert_int_equal(op_release(&rig, to), 0);
	assert_int_equal(op_release(&rig, appending), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		limits_test(more_files_than_the_table_holds_can_be_written),
		limits_test(inodes_that_wait_to_be_written_back_leave_room_for_others),
		limits_test(too_many_open_files_are_refused_and_do_no_harm),
		limits_test(fsync_of_a_forgotten_inode_commits_what_was_done_to_it),
		limits_test(a_full_file_system_refuses_and_recovers),
		limits_test(a_read_only_mount_changes_nothing),
		limits_test(a_synchronous_mount_loses_nothing_in_a_crash),
		limits_test(a_synchronous_mount_keeps_copies_and_cuts),
		limits_test(concurrent_fsyncs_lose_nothing),
		limits_test(a_page_is_read_while_its_cache_set_is_full_of_dirty_ones),
		limits_test(a_freed_inode_page_is_not_taken_for_what_the_device_still_says),
		limits_test(copies_that_can_not_be_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
