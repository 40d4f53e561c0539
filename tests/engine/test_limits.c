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
	rig_open(&rig, 32 * G4_MIB, 0);
	rig_mount(&rig);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (rig.engine)
		assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, RIG_ANY_FREE, "at the end");
	rig_close(&rig);
	return 0;
}

static uint64_t make(uint32_t number)
{
	char name[32];
	uint64_t ino;

	snprintf(name, sizeof(name), "f%u", number);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &ino), 0);
	return ino;
}

static void more_files_than_the_table_holds_can_be_written(void **state)
{
	const uint32_t count = rig_slow() ? 5000 : 9000;
	uint64_t *ino = (uint64_t *)malloc(count * sizeof(*ino));

	(void)state;
	assert_non_null(ino);
	for (uint32_t k = 0; k < count; k++) {
		ino[k] = make(k);
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
		assert_int_equal(op_truncate(&rig, make(k), 1), 0);
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
	make(MOST + 1);
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
		ino[k] = make(k);
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
	uint64_t file = make(0), tail = make(1), done, ino;
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
	uint64_t file = make(1), handle, done;
	struct g4_attr attr = {.mode = 0600};

	(void)state;
	assert_non_null(before);
	assert_int_equal(op_write(&rig, file, 0, 0, data, sizeof(data), NULL), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	memcpy(before, rig.image, rig.bytes);
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

static void *write_and_sync(void *argument)
{
	struct worker *w = (struct worker *)argument;
	uint64_t ino = make(w->index);

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
	uint64_t ino = make(0);

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
		make(k);
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
		make(k);
}

/* ------------------------------------------------------------------ promised space */

/* Mounts so that nothing is written back or committed until somebody asks, with a cache that holds many dirty pages. */
static void mount_quietly(void)
{
	const struct g4_fault no_fault = {0};

	if (rig.engine)
		assert_int_equal(rig_unmount(&rig), 0);
	rig.cache_bytes = 16 * G4_MIB;
	assert_int_equal(rig_try_mount(&rig, 0, &no_fault), 0);
}

/* Space reserved for what is dirty. */
static uint64_t reserved_pages(void)
{
	struct g4_statfs space;

	assert_int_equal(op_statfs(&rig, &space), 0);
	assert_true(space.blocks_available > 0);
	return space.blocks_free - space.blocks_available - (space.blocks / 256 + 32);
}

/* Takes space until `left` pages are available, or, for 0, a write is refused. */
static void fill_up_to(uint64_t left)
{
	static uint8_t data[64 * 1024];
	struct g4_statfs space;
	uint64_t ino = make(999999), offset = 0;

	rig_pattern(data, 7, sizeof(data));
	for (;;) {
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(op_statfs(&rig, &space), 0);
		if (space.blocks_available <= left)
			return;
		uint64_t bytes = g4_min64((space.blocks_available - left + 3) / 4 * G4_PAGE_BYTES, sizeof(data));
		int rc = op_write(&rig, ino, 0, offset, data, bytes, NULL);
		if (left == 0 && rc == -G4_E_NOSPC)
			return;
		assert_int_equal(rc, 0);
		offset += bytes;
	}
}

/* Takes what is kept back for metadata as well. Returns the number of symbolic links that did it. */
static uint32_t use_up_what_is_kept_back(void)
{
	char target[300], name[32];
	uint32_t count = 0;
	int rc = 0;

	memset(target, 't', sizeof(target));
	target[299] = 0;
	for (; rc == 0; count += rc == 0) {
		snprintf(name, sizeof(name), "l%u", count);
		rc = op_symlink(&rig, G4_NODE_ROOT, name, target, NULL);
	}
	assert_int_equal(rc, -G4_E_NOSPC);
	return count;
}

static void remove_all(char kind, uint32_t first, uint32_t count)
{
	char name[32];

	for (uint32_t k = first; k < first + count; k++) {
		snprintf(name, sizeof(name), "%c%u", kind, k);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
	}
}

/* Every page needs indirect pages of its own at four levels. */
static void sparse_writes_that_succeed_can_be_published(void **state)
{
	const uint64_t step = ((UINT64_C(1) << 36) + 1) * G4_PAGE_BYTES;
	uint64_t written = 0, value, ino;
	int rc = 0;

	(void)state;
	mount_quietly();
	ino = make(0);
	fill_up_to(3000);
	while ((rc = op_write(&rig, ino, 0, written * step, &written, sizeof(written), NULL)) == 0)
		written++;
	assert_int_equal(rc, -G4_E_NOSPC);
	assert_in_range(written, 3000 / 5 - 100, 3000 / 5);
	use_up_what_is_kept_back();
	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_mount(&rig);
	for (uint64_t k = 0; k < written; k++) {
		assert_int_equal(op_read(&rig, ino, 0, k * step, &value, sizeof(value), NULL), 0);
		assert_int_equal(value, k);
	}
}

/* Nothing but the write itself tells that there is no space, whatever happens to a file between that and an fsync. */
static void reservations_hold_whatever_else_changes_the_map(void **state)
{
	enum { FILES = 3, KNOWN = 200 };
	static uint8_t large[256 * 1024] __attribute__((aligned(4096)));
	/* one page at each height of the map, near others and far from them */
	const uint64_t bases[] = {
		0, 10, 1000, 8191, 8193, 500000, UINT64_C(1) << 22, UINT64_C(1) << 35, UINT64_C(1) << 49};
	const uint32_t base_count = sizeof(bases) / sizeof(bases[0]);
	uint64_t random = rig_setting("G4_SEED", 1), ino[FILES], refused = 0, accepted = 0;

	(void)state;
	mount_quietly();
	fill_up_to(400);
	for (uint32_t round = 0; round < (rig_slow() ? 30u : 150u); round++) {
		struct {
			uint64_t page, value;
		} known[FILES][KNOWN] = {0};
		uint32_t count[FILES] = {0};

		for (uint32_t f = 0; f < FILES; f++)
			ino[f] = make(round * FILES + f);
		for (uint32_t step = 0; step < KNOWN; step++) {
			uint32_t f = (uint32_t)(rig_random(&random) % FILES);
			uint64_t page = bases[rig_random(&random) % base_count] + rig_random(&random) % 40, value;
			uint32_t what = (uint32_t)(rig_random(&random) % 20);
			int rc = 0;
			if (what == 0) {
				rc = op_fallocate(&rig, ino[f], G4_FALLOC_KEEP_SIZE, page * G4_PAGE_BYTES, 5000);
			} else if (what == 1) {
				rc = op_truncate(&rig, ino[f], (page + 1) * G4_PAGE_BYTES);
				for (uint32_t k = 0; k < count[f]; k++)
					known[f][k].value = known[f][k].page > page ? 0 : known[f][k].value;
			} else if (what == 2) {
				rc = op_write(&rig, ino[f], 0, (page + 50) * G4_PAGE_BYTES, large, sizeof(large), NULL);
			} else if (what == 3) {
				rc = op_fallocate(&rig, ino[f], G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE,
						  page * G4_PAGE_BYTES, G4_PAGE_BYTES);
				for (uint32_t k = 0; k < count[f] && rc == 0; k++)
					known[f][k].value = known[f][k].page == page ? 0 : known[f][k].value;
			} else if (what == 4) {
				assert_int_equal(op_fsync(&rig, ino[f]), 0);
			} else {
				value = rig_random(&random);
				rc = op_write(&rig, ino[f], 0, page * G4_PAGE_BYTES, &value, sizeof(value), NULL);
				if (rc == 0) {
					for (uint32_t k = 0; k < count[f]; k++)
						if (known[f][k].page == page)
							known[f][k] = known[f][--count[f]];
					known[f][count[f]].page = page;
					known[f][count[f]++].value = value;
				}
			}
			assert_true(rc == 0 || rc == -G4_E_NOSPC);
			refused += rc != 0;
			accepted += rc == 0;
		}
		uint32_t links = use_up_what_is_kept_back();
		for (uint32_t f = 0; f < FILES; f++) {
			assert_int_equal(op_fsync(&rig, ino[f]), 0);
			for (uint32_t k = 0; k < count[f]; k++) {
				uint64_t value = 0, at = known[f][k].page * G4_PAGE_BYTES;
				assert_int_equal(op_read(&rig, ino[f], 0, at, &value, sizeof(value), NULL), 0);
				assert_int_equal(value, known[f][k].value);
			}
		}
		remove_all('f', round * FILES, FILES);
		remove_all('l', 0, links);
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(reserved_pages(), 0);
	}
	assert_true(accepted > 1000);
	assert_true(refused > 100);
}

/* A dirty page at the start of an empty map that then becomes as high as it gets, in three ways; all space is gone. */
static void a_dirty_page_has_its_space_when_the_map_grows_above_it(void **state)
{
	enum { WAYS = 3 };
	static uint8_t large[256 * 1024] __attribute__((aligned(4096)));
	const uint64_t far = UINT64_C(1) << 61;
	uint64_t ino[WAYS], value = 0;

	(void)state;
	mount_quietly();
	for (uint64_t k = 0; k < WAYS; k++) {
		ino[k] = make((uint32_t)k);
		value = k + 1;
		assert_int_equal(op_write(&rig, ino[k], 0, 0, &value, sizeof(value), NULL), 0);
	}
	assert_int_equal(op_write(&rig, ino[0], 0, far, &value, sizeof(value), NULL), 0);
	assert_int_equal(op_write(&rig, ino[1], 0, far, large, sizeof(large), NULL), 0);
	assert_int_equal(op_fallocate(&rig, ino[2], G4_FALLOC_KEEP_SIZE, far, 1), 0);
	use_up_what_is_kept_back();
	for (uint64_t k = 0; k < WAYS; k++)
		assert_int_equal(op_fsync(&rig, ino[k]), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_mount(&rig);
	for (uint64_t k = 0; k < WAYS; k++) {
		assert_int_equal(op_read(&rig, ino[k], 0, 0, &value, sizeof(value), NULL), 0);
		assert_int_equal(value, k + 1);
	}
}

static void a_dropped_page_gives_its_reservation_back(void **state)
{
	const uint64_t far = UINT64_C(1) << 61;
	uint64_t ino, one = 1;

	(void)state;
	mount_quietly();
	ino = make(0);
	assert_int_equal(op_write(&rig, ino, 0, 5 * G4_PAGE_BYTES, &one, sizeof(one), NULL), 0);
	assert_int_equal(reserved_pages(), 1);
	assert_int_equal(op_write(&rig, ino, 0, far, &one, sizeof(one), NULL), 0);
	assert_int_equal(reserved_pages(), 1 + 6 + 1 + 6); /* the page, its path, and the chain above the first one */
	assert_int_equal(op_truncate(&rig, ino, far), 0);
	assert_int_equal(reserved_pages(), 1 + 6); /* the chain, as long as anything is dirty */
	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_int_equal(reserved_pages(), 0);
	assert_int_equal(op_write(&rig, ino, 0, far, &one, sizeof(one), NULL), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f0"), 0);
	assert_int_equal(reserved_pages(), 0);
}

static void allocated_space_can_be_written_on_a_full_device(void **state)
{
	enum { PAGES = 200 };
	static uint8_t data[PAGES * G4_PAGE_BYTES] __attribute__((aligned(4096))), back[sizeof(data)];
	uint64_t ino, half, done;
	struct g4_attr attr;

	(void)state;
	mount_quietly();
	ino = make(0);
	half = make(1);
	assert_int_equal(op_fallocate(&rig, ino, 0, 0, sizeof(data)), 0);
	assert_int_equal(op_fallocate(&rig, half, G4_FALLOC_KEEP_SIZE, 0, sizeof(data) / 2), 0);
	fill_up_to(0);
	use_up_what_is_kept_back();
	rig_pattern(data, 3, sizeof(data));
	for (uint32_t k = 0; k < PAGES / 2; k++) /* by the page, then past the cache */
		assert_int_equal(
			op_write(&rig, ino, 0, k * G4_PAGE_BYTES, data + k * G4_PAGE_BYTES, G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_write(&rig, ino, 0, sizeof(data) / 2, data + sizeof(data) / 2, sizeof(data) / 2, &done), 0);
	assert_int_equal(done, sizeof(data) / 2);
	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_int_equal(op_read(&rig, ino, 0, 0, back, sizeof(back), &done), 0);
	assert_int_equal(done, sizeof(back));
	assert_memory_equal(back, data, sizeof(data));
	/* where the space ends, the write tells how far it came */
	assert_int_equal(op_write(&rig, half, 0, 0, data, sizeof(data), &done), 0);
	assert_int_equal(done, sizeof(data) / 2);
	assert_int_equal(op_getattr(&rig, half, &attr), 0);
	assert_int_equal(attr.size, sizeof(data) / 2);
	assert_int_equal(op_write(&rig, half, 0, done, data, sizeof(data), &done), -G4_E_NOSPC);
}

#define limits_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* Ranges whose ends wrap, ranges that overlap, targets that only grow at their end. */
static void copies_that_can_not_be_are_refused(void **state)
{
	static uint8_t bytes[3 * G4_PAGE_BYTES], found[3 * G4_PAGE_BYTES];
	uint64_t from, to, appending, done;
	struct g4_attr attr;
	uint64_t a = make(1), b = make(2);

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
		limits_test(concurrent_fsyncs_lose_nothing),
		limits_test(a_page_is_read_while_its_cache_set_is_full_of_dirty_ones),
		limits_test(a_freed_inode_page_is_not_taken_for_what_the_device_still_says),
		limits_test(sparse_writes_that_succeed_can_be_published),
		limits_test(reservations_hold_whatever_else_changes_the_map),
		limits_test(a_dirty_page_has_its_space_when_the_map_grows_above_it),
		limits_test(a_dropped_page_gives_its_reservation_back),
		limits_test(allocated_space_can_be_written_on_a_full_device),
		limits_test(copies_that_can_not_be_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
