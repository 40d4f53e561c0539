/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Discarding free space, on a device where what was discarded is gone at once (the fault device fills it): nothing that
 * something on disk leads to may be among it, at no time, also not what only an old state that a crash brings back leads to.
 * And where files lie.
 */
#include <pthread.h>

#include "alloc/alloc.h"
#include "fs/fs.h"
#include "rig.h"
#include "simt/simt_host.h"

#define IMAGE_BYTES (96 * G4_MIB)
#define JOURNAL_BYTES (2 * G4_MIB)
#define FILE_BYTES (256u * 1024)
#define FILES 24u

static struct rig rig;
static uint8_t *pattern, *found;

static int setup(void **state)
{
	(void)state;
	pattern = (uint8_t *)aligned_alloc(4096, FILE_BYTES);
	found = (uint8_t *)aligned_alloc(4096, FILE_BYTES);
	rig_open(&rig, IMAGE_BYTES, JOURNAL_BYTES);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_close(&rig);
	free(pattern);
	free(found);
	return 0;
}

static void mount_with_faults(uint32_t flags, const struct g4_fault *fault)
{
	assert_int_equal(rig_try_mount(&rig, flags, fault), 0);
}

static uint64_t make(const char *name, uint64_t seed)
{
	uint64_t ino;

	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino), 0);
	rig_pattern(pattern, seed, FILE_BYTES);
	assert_int_equal(op_write(&rig, ino, 0, 0, pattern, FILE_BYTES, NULL), 0);
	return ino;
}

static void expect(const char *name, uint64_t seed)
{
	struct g4_attr attr;
	uint64_t done = 0;

	assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, name, &attr), 0);
	assert_int_equal(op_read(&rig, attr.ino, 0, 0, found, FILE_BYTES, &done), 0);
	assert_int_equal(done, FILE_BYTES);
	rig_pattern(pattern, seed, FILE_BYTES);
	assert_memory_equal(found, pattern, FILE_BYTES);
}

static uint64_t free_bytes(void)
{
	struct g4_statfs statfs;

	assert_int_equal(op_statfs(&rig, &statfs), 0);
	return statfs.blocks_free * G4_PAGE_BYTES;
}

static const struct g4_fault no_faults;

static void all_of_it_is_discarded_and_nothing_else(void **state)
{
	char name[16];
	uint64_t done;

	(void)state;
	mount_with_faults(0, &no_faults);
	for (uint32_t k = 0; k < FILES; k++) {
		snprintf(name, sizeof(name), "f%u", k);
		make(name, k);
	}
	for (uint32_t k = 0; k < FILES; k += 2) {
		snprintf(name, sizeof(name), "f%u", k);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
	}
	assert_int_equal(op_sync(&rig), 0);
	uint64_t before = free_bytes();
	assert_int_equal(op_trim(&rig, 0, UINT64_MAX, 0, &done), 0);
	assert_int_equal(done, before);
	assert_int_equal(free_bytes(), before);
	/* larger pieces only: what lies behind the files, not what lies between them */
	assert_int_equal(op_trim(&rig, 0, UINT64_MAX, 16 * G4_MIB, &done), 0);
	assert_true(done > 0 && done < before);
	assert_int_equal(op_trim(&rig, 0, G4_MIB, 0, &done), 0);
	assert_int_equal(done, 0); /* the journal is there */
	assert_int_equal(op_trim(&rig, IMAGE_BYTES, G4_MIB, 0, &done), -G4_E_INVAL);
	assert_int_equal(op_trim(&rig, 0, UINT64_MAX, UINT64_MAX, &done), -G4_E_INVAL);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, before / G4_PAGE_BYTES, "after a trim");
	rig_mount(&rig);
	for (uint32_t k = 1; k < FILES; k += 2) {
		snprintf(name, sizeof(name), "f%u", k);
		expect(name, k);
	}
	rig_unmount(&rig);
}

struct borders {
	uint64_t end; /* of the last discard */
	uint32_t discards, borders, ragged;
};

static void see_discard(void *context, const struct g4_io *io)
{
	struct borders *seen = context;

	if (io->op != G4_IO_DISCARD)
		return;
	if (seen->discards > 0 && io->offset_bytes == seen->end) {
		seen->ragged += seen->end % (256 * G4_KIB) != 0; /* not asserted here, with the device locked */
		seen->borders++;
	}
	seen->end = io->offset_bytes + io->discard_bytes;
	seen->discards++;
}

/* A drive discards whole granules: where a long run becomes several requests, none may lie across two of them. */
static void long_runs_are_cut_between_granules(void **state)
{
	struct borders seen = {0};
	uint64_t done;

	(void)state;
	mount_with_faults(0, &no_faults);
	make("in front of the free space", 1);
	const uint64_t before = free_bytes();
	g4_dev_fault_watch(rig.fault, see_discard, &seen);
	assert_int_equal(op_trim(&rig, 12288, UINT64_MAX, 0, &done), 0);
	g4_dev_fault_watch(rig.fault, NULL, NULL);
	assert_int_equal(done, before);
	assert_true(seen.borders > 3);
	assert_int_equal(seen.ragged, 0);
	rig_unmount(&rig);
}

/* What was removed and not committed is there after a crash. */
static void what_a_crash_brings_back_is_whole(void **state)
{
	const struct g4_fault cuts[] = {{.keep_unflushed = true}, {.keep_unflushed = false}, {.seed = 5}};
	uint64_t done, ino;

	(void)state;
	for (uint32_t c = 0; c < sizeof(cuts) / sizeof(cuts[0]); c++) {
		rig_mount(&rig);
		ino = make("kept", 70);
		make("gone", 71);
		assert_int_equal(op_sync(&rig), 0);
		rig_unmount(&rig);
		mount_with_faults(0, &cuts[c]);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "gone"), 0);
		rig_pattern(pattern, 72, FILE_BYTES);
		assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "kept", &(struct g4_attr){0}), 0);
		assert_int_equal(op_write(&rig, ino, 0, 0, pattern, FILE_BYTES, NULL), 0);
		assert_int_equal(op_trim(&rig, 0, UINT64_MAX, 0, &done), 0);
		assert_true(done > 0);
		assert_int_equal(g4_dev_fault_cut(rig.fault), 0);
		rig_abandon(&rig);
		rig_mount(&rig);
		expect("kept", 70);
		expect("gone", 71);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "kept"), 0);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "gone"), 0);
		rig_unmount(&rig);
		rig_expect_clean(&rig, RIG_ANY_FREE, "after a crash behind a trim");
	}
}

static uint32_t stop, files_changed;

static void count_file(void)
{
	g4_add32(&files_changed, 1);
	g4_wake(&files_changed);
}

/* Again when something has changed: the device under test keeps what each says until it is flushed. */
static void *trim_again(void *argument)
{
	uint64_t done;

	(void)argument;
	while (!g4_load32_acq(&stop)) {
		const uint32_t seen = g4_load32_acq(&files_changed);
		assert_int_equal(op_trim(&rig, 0, UINT64_MAX, 0, &done), 0);
		while (!g4_load32_acq(&stop) && g4_load32_acq(&files_changed) == seen)
			g4_wait(&files_changed, seen);
	}
	return NULL;
}

/* Files are made, filled to the last page, and removed, while all that is free is discarded over and over. */
static void nobody_notices(void **state)
{
	const uint32_t rounds = rig_slow() ? 1 : 3;
	char name[16];
	pthread_t thread;

	(void)state;
	mount_with_faults(0, &no_faults);
	g4_store32_rel(&stop, 0);
	assert_int_equal(pthread_create(&thread, NULL, trim_again, NULL), 0);
	for (uint32_t round = 0; round < rounds; round++) {
		uint64_t count = free_bytes() / FILE_BYTES - 24; /* what maps them, and their sums, needs some, too */
		for (uint64_t k = 0; k < count; k++) {
			snprintf(name, sizeof(name), "n%u", (unsigned)k);
			make(name, round * 1000 + k);
			count_file();
		}
		assert_int_equal(op_sync(&rig), 0);
		for (uint64_t k = 0; k < count; k++) {
			snprintf(name, sizeof(name), "n%u", (unsigned)k);
			expect(name, round * 1000 + k);
			assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
			count_file();
		}
		assert_int_equal(op_sync(&rig), 0);
	}
	g4_store32_rel(&stop, 1);
	count_file();
	pthread_join(thread, NULL);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after trims beside writers");
}

/* What the device was told to discard, by a record of it. */
static uint64_t discarded(void)
{
	uint64_t bytes = 0;

	for (uint64_t i = 0; i < g4_dev_fault_recorded(rig.fault); i++) {
		const struct g4_fault_op *op = g4_dev_fault_recorded_op(rig.fault, i);
		bytes += op->op == G4_IO_DISCARD ? op->bytes : 0;
	}
	return bytes;
}

/* Without a background thread: what is discarded behind a commit, and not before it. */
static void freed_space_is_discarded_behind_its_commit(void **state)
{
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_fs *fs = rig_mount_fs(&rig, wg, &no_faults);

	(void)state;
	rig.fs = fs;
	rig.wg = wg;
	make("f", 9);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(g4_discard_freed(wg, fs), 0);
	g4_dev_fault_record(rig.fault, true);
	fs->flags |= G4_FS_DISCARD;
	g4_discard_freed(wg, fs); /* what mounting and writing gave back */
	g4_dev_fault_record(rig.fault, true);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f"), 0);
	assert_int_equal(g4_discard_freed(wg, fs), 0);
	assert_int_equal(discarded(), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(g4_discard_freed(wg, fs), 0);
	assert_true(discarded() >= FILE_BYTES);
	g4_dev_fault_record(rig.fault, true);
	assert_int_equal(g4_discard_freed(wg, fs), 0);
	assert_int_equal(discarded(), 0); /* once is enough */
	g4_dev_fault_record(rig.fault, false);
	rig.fs = NULL;
	rig.wg = NULL;
	rig_unmount_fs(&rig, wg, fs, true);
	g4_wg_destroy(wg);
	rig_expect_clean(&rig, RIG_ANY_FREE, "with discards");
}

static void a_map_says_where_a_file_is(void **state)
{
	struct g4_map_extent extents[4];
	uint32_t count;
	uint64_t ino;

	(void)state;
	rig_mount(&rig);
	ino = make("m", 80);
	assert_int_equal(op_write(&rig, ino, 0, 4 * G4_MIB, pattern, G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_fallocate(&rig, ino, G4_FALLOC_KEEP_SIZE, 8 * G4_MIB, G4_PAGE_BYTES), 0);
	assert_int_equal(op_fsync(&rig, ino), 0);
	uint64_t next = 0, bytes = 0, unwritten = 0;
	do {
		assert_int_equal(op_map(&rig, ino, next, extents, 4, &count), 0);
		for (uint32_t i = 0; i < count; i++) {
			assert_true(extents[i].offset >= next);
			next = extents[i].offset + extents[i].length;
			if (extents[i].flags & G4_MAP_UNWRITTEN) {
				assert_int_equal(extents[i].offset, 8 * G4_MIB);
				unwritten += extents[i].length;
				continue;
			}
			bytes += extents[i].length;
			if (extents[i].offset < FILE_BYTES) { /* what is there is what was written */
				rig_pattern(pattern, 80, FILE_BYTES);
				assert_memory_equal(rig.image + extents[i].address, pattern + extents[i].offset,
						    extents[i].length);
			}
		}
	} while (count > 0);
	assert_int_equal(bytes, FILE_BYTES + G4_PAGE_BYTES);
	assert_int_equal(unwritten, G4_PAGE_BYTES);
	/* piece by piece it is the same */
	uint64_t again = 0;
	for (next = 0; op_map(&rig, ino, next, extents, 1, &count) == 0 && count == 1;) {
		again += extents[0].length;
		next = extents[0].offset + extents[0].length;
	}
	assert_int_equal(again, bytes + unwritten);

	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "tiny", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_write(&rig, ino, 0, 0, "twelve bytes", 12, NULL), 0);
	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_int_equal(op_map(&rig, ino, 0, extents, 4, &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(extents[0].flags, G4_MAP_INLINE);
	assert_int_equal(extents[0].length, 12);
	assert_int_equal(op_map(&rig, ino, 12, extents, 4, &count), 0);
	assert_int_equal(count, 0);
	assert_int_equal(op_map(&rig, G4_NODE_ROOT, 0, extents, 4, &count), -G4_E_ISDIR);
	rig_unmount(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_of_it_is_discarded_and_nothing_else, setup, teardown),
		cmocka_unit_test_setup_teardown(long_runs_are_cut_between_granules, setup, teardown),
		cmocka_unit_test_setup_teardown(what_a_crash_brings_back_is_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(nobody_notices, setup, teardown),
		cmocka_unit_test_setup_teardown(freed_space_is_discarded_behind_its_commit, setup, teardown),
		cmocka_unit_test_setup_teardown(a_map_says_where_a_file_is, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
