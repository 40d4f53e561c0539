/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another size: on the way there the power is cut at every write, by every rule for what an unflushed write leaves. Then
 * the image mounts with the old size or the new one, its files are whole, and the checker finds nothing, neither before
 * that mount nor after it.
 */
#include <pthread.h>

#include "fs/mount_host.h"
#include "rig.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (200 * G4_MIB)
#define JOURNAL_BYTES (2 * G4_MIB)
#define SMALL_BYTES (24 * G4_MIB)
#define FILE_BYTES (300u * 1024)
#define FILES 6u

static struct rig rig;
static uint8_t *pattern, *found;
static uint8_t *start; /* the image that each try begins with */

static int setup(void **state)
{
	(void)state;
	pattern = (uint8_t *)aligned_alloc(4096, 4 * FILE_BYTES);
	found = (uint8_t *)aligned_alloc(4096, 4 * FILE_BYTES);
	start = (uint8_t *)malloc(DEVICE_BYTES);
	rig_open(&rig, DEVICE_BYTES, JOURNAL_BYTES);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_close(&rig);
	free(pattern);
	free(found);
	free(start);
	return 0;
}

static void make_files(void)
{
	char name[16];
	uint64_t ino;

	for (uint32_t k = 0; k < FILES; k++) {
		snprintf(name, sizeof(name), "f%u", k);
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino), 0);
		rig_pattern(pattern, k, FILE_BYTES);
		assert_int_equal(op_write(&rig, ino, 0, 0, pattern, FILE_BYTES, NULL), 0);
	}
	assert_int_equal(op_sync(&rig), 0);
}

static void expect_files(void)
{
	struct g4_attr attr;
	uint64_t done;
	char name[16];

	for (uint32_t k = 0; k < FILES; k++) {
		snprintf(name, sizeof(name), "f%u", k);
		assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, name, &attr), 0);
		assert_int_equal(op_read(&rig, attr.ino, 0, 0, found, FILE_BYTES, &done), 0);
		assert_int_equal(done, FILE_BYTES);
		rig_pattern(pattern, k, FILE_BYTES);
		assert_memory_equal(found, pattern, FILE_BYTES);
	}
}

static uint64_t size_bytes(void)
{
	const struct g4_superblock *sb =
		(const struct g4_superblock *)(const void *)(rig.image + G4_SUPERBLOCK_ADDRESS);

	return sb->size_bytes;
}

/* Offline; 0 or a negative code. With a fault device the power may go. */
static int resize_alone(uint64_t bytes, const struct g4_fault *fault, uint64_t *limit)
{
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_fs *fs;

	rig.may_grow = true;
	int rc = rig_try_mount_fs(&rig, wg, fault, &fs);
	if (rc == 0) {
		const uint32_t jobs = g4_load32_acq(&fs->jobs.changed);
		rc = g4_resize(wg, fs, bytes, true, limit);
		if (rc == 0) /* what is listed in new groups is counted */
			assert_int_not_equal(g4_load32_acq(&fs->jobs.changed), jobs);
		const bool clean = rc == 0 && !fault;
		if (clean) {
			rig_unmount_fs(&rig, wg, fs, true);
		} else {
			int cut = rig.fault ? g4_dev_fault_cut(rig.fault) : 0;
			assert_int_equal(cut, 0);
			g4_fs_unmount(wg, fs, !fault);
			g4_dev_close(rig.dev);
			rig.dev = rig.fault = NULL;
		}
	}
	g4_wg_destroy(wg);
	return rc;
}

static void every_size_is_a_good_one(void **state)
{
	const uint64_t sizes[] = {SMALL_BYTES,	      SMALL_BYTES + 4096, 61 * G4_MIB,	62 * G4_MIB,
				  62 * G4_MIB + 4096, 63 * G4_MIB,	  124 * G4_MIB, 150 * G4_MIB,
				  DEVICE_BYTES,	      125 * G4_MIB,	  62 * G4_MIB,	40 * G4_MIB};
	uint64_t limit;

	(void)state;
	rig_mount(&rig);
	make_files();
	assert_int_equal(rig_unmount(&rig), 0);
	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct g4_statfs statfs;
		assert_int_equal(resize_alone(sizes[i], NULL, &limit), 0);
		assert_int_equal(size_bytes(), sizes[i]);
		rig_expect_clean(&rig, RIG_ANY_FREE, "at another size");
		rig_mount(&rig);
		expect_files();
		assert_int_equal(op_statfs(&rig, &statfs), 0);
		assert_true(statfs.blocks * 4096 < sizes[i] && statfs.blocks * 4096 + 4 * G4_MIB > sizes[i]);
		assert_int_equal(rig_unmount(&rig), 0);
		rig_expect_clean(&rig, statfs.blocks_free, "at another size, used");
	}
	/* to the last page of a grown one, which is then too full to shrink */
	assert_int_equal(resize_alone(150 * G4_MIB, NULL, &limit), 0);
	rig_mount(&rig);
	uint64_t ino, done = 0, at = 0;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "all", G4_S_IFREG | 0644, &ino), 0);
	rig_pattern(pattern, 77, 4 * FILE_BYTES);
	while (op_write(&rig, ino, 0, at, pattern, 4 * FILE_BYTES, &done) == 0 && done > 0)
		at += done;
	assert_true(at > 140 * G4_MIB);
	expect_files();
	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, RIG_ANY_FREE, "full");
	assert_int_equal(resize_alone(100 * G4_MIB, NULL, &limit), -G4_E_NOSPC);
	assert_true(limit > 140 * G4_MIB && limit <= 150 * G4_MIB);
	assert_int_equal(size_bytes(), 150 * G4_MIB);
	rig_expect_clean(&rig, RIG_ANY_FREE, "not shrunk");
	assert_int_equal(resize_alone(limit, NULL, &done), 0);
	assert_int_equal(size_bytes(), limit);
	rig_expect_clean(&rig, RIG_ANY_FREE, "as small as it can be");
	assert_int_equal(resize_alone(limit - 4096, NULL, &done), -G4_E_NOSPC);
	assert_int_equal(done, limit);
	rig_mount(&rig);
	expect_files();
	rig_unmount(&rig);
}

static void what_is_impossible_is_refused(void **state)
{
	uint64_t limit;

	(void)state;
	assert_int_equal(resize_alone(DEVICE_BYTES + 4096, NULL, &limit), -G4_E_DEV_SMALL);
	assert_int_equal(resize_alone(SMALL_BYTES + 5, NULL, &limit), -G4_E_INVAL);
	assert_int_equal(resize_alone(4096, NULL, &limit), -G4_E_NOSPC);
	assert_int_equal(limit, G4_MIN_DEVICE_BYTES);
	assert_int_equal(resize_alone(G4_MIN_DEVICE_BYTES, NULL, &limit), 0);
	assert_int_equal(resize_alone(DEVICE_BYTES, NULL, &limit), 0);
	assert_int_equal(size_bytes(), DEVICE_BYTES);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after refusals");
}

/* After the cut: what the next one sees, and what a mount makes of it. */
static void judge(uint64_t from, uint64_t to, const char *what)
{
	char *text;
	struct rig_verdict verdict = rig_fsck(&rig, &text);

	if (verdict.problems != 0)
		fail_msg("%s: before the next mount: %s", what, text);
	free(text);
	rig_mount(&rig);
	expect_files();
	assert_int_equal(rig_unmount(&rig), 0);
	if (size_bytes() != from && size_bytes() != to)
		fail_msg("%s: it has %llu bytes", what, (unsigned long long)size_bytes());
	rig_expect_clean(&rig, RIG_ANY_FREE, what);
}

static void cut_everywhere(uint64_t from, uint64_t to)
{
	const struct g4_fault rules[] = {{.keep_unflushed = true},
					 {.keep_unflushed = false},
					 {.seed = 11},
					 {.keep_unflushed = true, .cut_inside = true},
					 {.seed = 12, .cut_inside = true}};
	uint32_t olds = 0, news = 0;
	uint64_t limit;
	char what[96];

	assert_int_equal(resize_alone(from, NULL, &limit), 0);
	rig_copy(start, rig.image, DEVICE_BYTES);
	for (uint32_t r = 0; r < sizeof(rules) / sizeof(rules[0]); r++) {
		for (uint64_t n = 1;; n += rig_every(2)) {
			struct g4_fault fault = rules[r];
			fault.cut_after_writes = n;
			rig_copy(rig.image, start, DEVICE_BYTES);
			int rc = resize_alone(to, &fault, &limit);
			snprintf(what, sizeof(what), "%llu to %llu MiB, rule %u, write %llu",
				 (unsigned long long)(from / G4_MIB), (unsigned long long)(to / G4_MIB), r,
				 (unsigned long long)n);
			judge(from, to, what);
			if (size_bytes() == to)
				news++;
			else
				olds++;
			if (rc == 0)
				break; /* it came to its end */
		}
	}
	/* both are seen, or the cuts were at the wrong places */
	assert_true(olds > 0 && news > sizeof(rules) / sizeof(rules[0]));
}

static void a_crash_leaves_the_old_size_or_the_new_one(void **state)
{
	(void)state;
	rig_mount(&rig);
	make_files();
	assert_int_equal(rig_unmount(&rig), 0);
	cut_everywhere(SMALL_BYTES, 40 * G4_MIB);
	cut_everywhere(SMALL_BYTES, DEVICE_BYTES);
	cut_everywhere(DEVICE_BYTES, SMALL_BYTES);
	cut_everywhere(100 * G4_MIB, 70 * G4_MIB);
}

static uint32_t stop;

static void *write_again(void *argument)
{
	uint64_t ino, at = 0, done;

	(void)argument;
	if (op_mknod(&rig, G4_NODE_ROOT, "w", G4_S_IFREG | 0644, &ino) < 0)
		return NULL;
	while (!g4_load32_acq(&stop)) {
		if (op_write(&rig, ino, 0, at, pattern, FILE_BYTES, &done) == 0)
			at += done;
		else
			op_truncate(&rig, ino, at = 0);
	}
	return NULL;
}

/* While files are written, to the end of what there is. */
static void it_grows_while_it_is_used(void **state)
{
	uint64_t limit;
	pthread_t thread;

	(void)state;
	assert_int_equal(resize_alone(SMALL_BYTES, NULL, &limit), 0);
	rig_mount(&rig);
	make_files();
	rig_pattern(pattern, 5, FILE_BYTES);
	g4_store32_rel(&stop, 0);
	assert_int_equal(pthread_create(&thread, NULL, write_again, NULL), 0);
	for (uint64_t bytes = SMALL_BYTES + 8 * G4_MIB; bytes <= 136 * G4_MIB; bytes += 16 * G4_MIB) {
		assert_int_equal(g4_engine_resize(rig.engine, bytes, &limit), 0);
		assert_int_equal(op_sync(&rig), 0);
	}
	g4_store32_rel(&stop, 1);
	pthread_join(thread, NULL);
	assert_int_equal(g4_engine_resize(rig.engine, SMALL_BYTES, &limit), -G4_E_BUSY);
	assert_int_equal(g4_engine_resize(rig.engine, 1000 * G4_TIB, &limit), -G4_E_NOSPC);
	assert_true(limit > DEVICE_BYTES);
	expect_files();
	assert_int_equal(rig_unmount(&rig), 0);
	assert_int_equal(size_bytes(), 128 * G4_MIB);
	rig_expect_clean(&rig, RIG_ANY_FREE, "grown in use");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_size_is_a_good_one, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_impossible_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(a_crash_leaves_the_old_size_or_the_new_one, setup, teardown),
		cmocka_unit_test_setup_teardown(it_grows_while_it_is_used, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
