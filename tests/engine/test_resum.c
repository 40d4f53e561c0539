/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scrub that adds sums: files of a file system that had none get those of their policy, in place, whatever their map looks like; what
 * is damaged keeps what it has; a change of algorithm reaches what was written before; nothing of it is lost or wrong behind a crash.
 */
#include "rig.h"

#include "data/map.h"
#include "format/sums.h"
#include "fs/fs.h"
#include "fs/jobs.h"
#include "fs/super.h"
#include "inode/icache.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (64 * G4_MIB)
#define JOURNAL_BYTES (4 * G4_MIB)
#define PATTERN_BYTES (8 * G4_MIB)
#define LARGE (uint64_t) G4_INDIRECT_SLOTS /* pages */

static struct rig rig;
static uint8_t *pattern, *found;
static struct g4_health health;

static int setup(void **state)
{
	(void)state;
	rig_open_as(&rig, G4_CHECKSUM_NONE, RIG_AS_SET, DEVICE_BYTES, JOURNAL_BYTES);
	rig.wg = g4_wg_create(0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	pattern = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, PATTERN_BYTES);
	found = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, PATTERN_BYTES);
	rig_pattern(pattern, 13, PATTERN_BYTES);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig_expect_clean(&rig, RIG_ANY_FREE, "at the end");
	g4_wg_destroy(rig.wg);
	rig_close(&rig);
	free(pattern);
	free(found);
	return 0;
}

static void again(void)
{
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig_expect_clean(&rig, RIG_ANY_FREE, "between mounts");
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

static int set(uint64_t ino, const char *checksum)
{
	return op_setxattr(&rig, ino, "gpu4fs.checksum", checksum, strlen(checksum), 0);
}

/* What a page has a sum by. */
static uint32_t sum_of(uint64_t ino, uint64_t page)
{
	struct g4_sum_entry sum;
	uint32_t index;

	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	assert_int_equal(g4_map_sums(rig.wg, rig.fs, g4_icache_at(rig.fs, index), page, 1, &sum), 0);
	g4_icache_put(rig.fs, index);
	return g4_sum_entry_algorithm(&sum);
}

static void expect_sums(uint64_t ino, uint64_t first, uint64_t pages, uint32_t algorithm)
{
	for (uint64_t page = first; page < first + pages; page++)
		if (sum_of(ino, page) != algorithm)
			fail_msg("page %u has sums by %u", (unsigned)page, sum_of(ino, page));
}

static uint64_t make(const char *name, uint64_t page, uint64_t pages)
{
	return rig_make_file(&rig, name, page * G4_PAGE_BYTES, pattern, pages * G4_PAGE_BYTES);
}

static void expect(uint64_t ino, uint64_t page, uint64_t pages)
{
	rig_expect_contents(&rig, ino, page * G4_PAGE_BYTES, found, pattern, pages * G4_PAGE_BYTES);
}

static int start(uint32_t flags)
{
	struct g4_cmd cmd = {.op = G4_CMD_JOB_START, .kind = G4_JOB_SCRUB, .flags = flags};

	return g4_execute(rig.wg, rig.fs, &cmd);
}

static const struct g4_job_record *list(void)
{
	return rig_last_job(&rig, &health);
}

static const struct g4_job_record *steps(uint32_t most)
{
	while (most-- > 0 && list()->state == G4_JOB_RUNNING)
		assert_int_equal(g4_jobs_serve(rig.wg, rig.fs, true), 0);
	return list();
}

static const struct g4_job_record *add_sums(void)
{
	assert_int_equal(start(G4_JOB_ADD_SUMS), 0);
	return steps(UINT32_MAX);
}

/* What files have that have no policy of their own, as `gpu4fs tune --checksum` sets it. */
static void make_default(uint32_t algorithm)
{
	assert_int_equal(g4_super_add_feature(rig.wg, rig.fs, G4_FEATURE_INCOMPAT_SUMS), 0);
	rig.fs->super.policy = g4_policy_of(algorithm);
	assert_int_equal(g4_super_write(rig.wg, rig.fs, g4_layout_backup(&rig.fs->meta.layout)), 0);
	assert_int_equal(g4_super_write(rig.wg, rig.fs, G4_SUPERBLOCK), 0);
}

static uint32_t level_at(uint64_t ino, uint64_t page)
{
	struct g4_run run;

	rig_run_at(&rig, ino, page, &run);
	return run.level;
}

static void every_shape_of_file_gets_them(void **state)
{
	static const uint32_t pages[] = {1, 3, 4, 16, 17, 64, 130, 700};
	uint64_t inos[sizeof(pages) / sizeof(pages[0])], holes, unwritten, large, tiny, none;
	char name[16];

	(void)state;
	for (uint32_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		snprintf(name, sizeof(name), "%u", pages[i]);
		inos[i] = make(name, 0, pages[i]);
	}
	holes = make("holes", 2, 1);
	assert_int_equal(op_write(&rig, holes, 0, 300 * G4_PAGE_BYTES, pattern, 5000, NULL), 0);
	unwritten = make("unwritten", 0, 2);
	assert_int_equal(op_fallocate(&rig, unwritten, 0, 0, 12 * G4_PAGE_BYTES), 0);
	large = make("large", 0, 2 * LARGE);
	tiny = rig_make_file(&rig, "tiny", 0, pattern, 100);
	assert_int_equal(op_sync(&rig), 0);
	none = make("none", 0, 5);
	assert_int_equal(set(none, "none"), 0);
	assert_int_equal(level_at(large, 0), 1);
	assert_int_equal(sum_of(inos[3], 0), G4_CHECKSUM_NONE);

	make_default(G4_CHECKSUM_BLAKE3);
	again();
	const struct g4_job_record *job = add_sums();
	assert_int_equal(job->state, G4_JOB_DONE);
	assert_int_equal(job->errors, 0);
	uint64_t all = 1 + 2 + 2 + 2 * LARGE;
	for (uint32_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++)
		all += pages[i];
	assert_int_equal(job->summed, all);
	again();
	for (uint32_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		expect_sums(inos[i], 0, pages[i], G4_CHECKSUM_BLAKE3);
		expect(inos[i], 0, pages[i]);
	}
	expect_sums(holes, 2, 1, G4_CHECKSUM_BLAKE3);
	expect_sums(holes, 300, 2, G4_CHECKSUM_BLAKE3);
	expect_sums(unwritten, 0, 2, G4_CHECKSUM_BLAKE3);
	expect_sums(large, 0, 2 * LARGE, G4_CHECKSUM_BLAKE3);
	assert_int_equal(level_at(large, 0), 1); /* it is still a large page */
	assert_int_equal(level_at(large, LARGE), 1);
	expect(large, 0, 2 * LARGE);
	expect_sums(none, 0, 5, G4_CHECKSUM_NONE);
	rig_expect_contents(&rig, tiny, 0, found, pattern, 100);

	/* once more there is nothing to do, and space stays as it is */
	const uint64_t free_pages = rig.fs->alloc.free_pages;
	job = add_sums();
	assert_int_equal(job->state, G4_JOB_DONE);
	assert_int_equal(job->summed, 0);
	assert_int_equal(rig.fs->alloc.free_pages, free_pages);
}

static void an_algorithm_is_changed(void **state)
{
	uint64_t ino, large, other;

	(void)state;
	make_default(G4_CHECKSUM_XXH3);
	ino = make("f", 0, 40);
	large = make("large", 0, LARGE);
	other = make("other", 0, 3);
	assert_int_equal(op_sync(&rig), 0);
	expect_sums(ino, 0, 40, G4_CHECKSUM_XXH3);
	assert_int_equal(set(ino, "crc32c"), 0);
	assert_int_equal(set(large, "blake3"), 0);
	assert_int_equal(set(other, "none"),
			 0); /* what there is stays: it costs nothing, and goes when it is written over */
	assert_int_equal(add_sums()->summed, 40 + LARGE);
	again();
	expect_sums(ino, 0, 40, G4_CHECKSUM_CRC32C);
	expect_sums(large, 0, LARGE, G4_CHECKSUM_BLAKE3);
	expect_sums(other, 0, 3, G4_CHECKSUM_XXH3);
	expect(ino, 0, 40);
	expect(large, 0, LARGE);
}

static int start_only(uint64_t ino)
{
	struct g4_cmd cmd = {.op = G4_CMD_JOB_START, .node = ino, .kind = G4_JOB_SCRUB, .flags = G4_JOB_ADD_SUMS};

	return g4_execute(rig.wg, rig.fs, &cmd);
}

/* One file, or a directory with what is below it, gets them, and nothing else; so it is behind a remount after each step. */
static void one_file_or_directory_alone(void **state)
{
	uint64_t file, beside, dir, below, in, in_below;

	(void)state;
	file = make("file", 0, 400);
	beside = make("beside", 0, 40);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "dir", 0755, &dir), 0);
	assert_int_equal(op_mkdir(&rig, dir, "below", 0755, &below), 0);
	in = make("in", 0, 200);
	in_below = make("in_below", 0, 200);
	assert_int_equal(op_rename(&rig, G4_NODE_ROOT, "in", dir, "in", 0), 0);
	assert_int_equal(op_rename(&rig, G4_NODE_ROOT, "in_below", below, "in_below", 0), 0);
	assert_int_equal(op_sync(&rig), 0);
	make_default(G4_CHECKSUM_BLAKE3);
	for (uint32_t remounts = 0; remounts < 2; remounts++) {
		const uint64_t inos[2] = {file, dir};
		make_default(remounts ? G4_CHECKSUM_XXH3 : G4_CHECKSUM_BLAKE3);
		const uint32_t algorithm = remounts ? G4_CHECKSUM_XXH3 : G4_CHECKSUM_BLAKE3;
		const uint32_t before = remounts ? G4_CHECKSUM_BLAKE3 : G4_CHECKSUM_NONE;
		for (uint32_t k = 0; k < 2; k++) {
			expect_sums(k == 0 ? file : in_below, 0, 200, before);
			assert_int_equal(start_only(inos[k]), 0);
			while (remounts && steps(1)->state == G4_JOB_RUNNING)
				again();
			assert_int_equal(steps(UINT32_MAX)->state, G4_JOB_DONE);
			assert_int_equal(list()->summed, 400);
		}
		expect_sums(file, 0, 400, algorithm);
		expect_sums(in, 0, 200, algorithm);
		expect_sums(in_below, 0, 200, algorithm);
		expect_sums(beside, 0, 40, G4_CHECKSUM_NONE);
	}
	assert_int_equal(start_only(file + 1), -G4_E_NOENT);
	/* one that is gone before its first step: there is nothing to do */
	assert_int_equal(start_only(file), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "file"), 0);
	assert_int_equal(steps(UINT32_MAX)->state, G4_JOB_DONE);
	assert_int_equal(list()->summed, 0);
}

/* Pages that were not done yet become a page of 2 MiB together with those that were. */
static void the_rest_of_a_page_that_became_a_large_one(void **state)
{
	uint64_t ino, done;

	(void)state;
	make_default(G4_CHECKSUM_CRC32C);
	ino = make("file", 0, LARGE - 1);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(level_at(ino, 0), 0);
	make_default(G4_CHECKSUM_BLAKE3);
	assert_int_equal(start(G4_JOB_ADD_SUMS), 0);
	while (sum_of(ino, 0) != G4_CHECKSUM_BLAKE3)
		assert_int_equal(steps(1)->state, G4_JOB_RUNNING);
	assert_int_equal(sum_of(ino, LARGE - 2), G4_CHECKSUM_CRC32C);
	assert_int_equal(op_write(&rig, ino, 0, (LARGE - 1) * G4_PAGE_BYTES, pattern + (LARGE - 1) * G4_PAGE_BYTES,
				  G4_PAGE_BYTES, &done),
			 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(level_at(ino, 0), 1);
	assert_int_equal(steps(UINT32_MAX)->state, G4_JOB_DONE);
	expect_sums(ino, 0, LARGE, G4_CHECKSUM_BLAKE3);
	assert_int_equal(list()->errors, 0);
	again();
	expect(ino, 0, LARGE);
	expect_sums(ino, 0, LARGE, G4_CHECKSUM_BLAKE3);
}

static void flip(uint64_t ino, uint64_t page)
{
	struct g4_run run;

	rig_run_at(&rig, ino, page, &run);
	rig.image[g4_address_stored(run.address) + 77] ^= 4;
}

/* A new sum of what is damaged would make it right. */
static void what_is_damaged_keeps_its_sum(void **state)
{
	uint64_t ino, large;

	(void)state;
	make_default(G4_CHECKSUM_XXH3);
	ino = make("f", 0, 40);
	large = make("large", 0, LARGE);
	assert_int_equal(op_sync(&rig), 0);
	again();
	flip(ino, 7);
	flip(large, 200);
	make_default(G4_CHECKSUM_BLAKE3);
	const struct g4_job_record *job = add_sums();
	assert_int_equal(job->state, G4_JOB_DONE);
	assert_int_equal(job->errors, 2);
	assert_int_equal(job->summed, 40 + LARGE - 2);
	assert_int_equal(sum_of(ino, 6), G4_CHECKSUM_BLAKE3);
	assert_int_equal(sum_of(ino, 7), G4_CHECKSUM_XXH3);
	assert_int_equal(sum_of(large, 200), G4_CHECKSUM_XXH3);
	assert_int_equal(sum_of(large, 201), G4_CHECKSUM_BLAKE3);
	assert_int_equal(op_read(&rig, ino, 0, 7 * G4_PAGE_BYTES, found, G4_PAGE_BYTES, NULL), -G4_E_DATA);
	assert_int_equal(op_read(&rig, large, 0, 200 * G4_PAGE_BYTES, found, G4_PAGE_BYTES, NULL), -G4_E_DATA);
	expect(ino, 0, 7);
	flip(ino, 7);
	flip(large, 200);
	again();
	expect(ino, 0, 40);
	expect(large, 0, LARGE);
}

/* Whichever read fails for once: no page gets another one's sum, and none is left out. */
static void a_read_that_fails_once_costs_nothing(void **state)
{
	const struct g4_fault no_fault = {0};
	uint64_t before, after, other;
	uint32_t summed = 0;

	(void)state;
	make_default(G4_CHECKSUM_CRC32C);
	const uint64_t ino = make("f", 0, 150);
	assert_int_equal(op_sync(&rig), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = rig_mount_fs(&rig, rig.wg, &no_fault);
	g4_dev_fault_counts(rig.dev, &before, &other, &other);
	make_default(G4_CHECKSUM_XXH3);
	assert_int_equal(add_sums()->summed, 150);
	g4_dev_fault_counts(rig.dev, &after, &other, &other);
	for (uint64_t read = 1; read <= after - before; read++) {
		const uint32_t algorithm = read % 2 ? G4_CHECKSUM_CRC32C : G4_CHECKSUM_XXH3;
		const struct g4_fault fault = {.fail_read_at = read};

		rig_unmount_fs(&rig, rig.wg, rig.fs, true);
		rig.fs = rig_mount_fs(&rig, rig.wg, &no_fault);
		make_default(algorithm);
		g4_dev_fault_set(rig.dev, &fault);
		const struct g4_job_record *job = add_sums();
		g4_dev_fault_set(rig.dev, &no_fault);
		if (job->state == G4_JOB_DONE && job->errors == 0) {
			expect_sums(ino, 0, 150, algorithm);
			summed++;
		}
		expect(ino, 0, 150);
		if (add_sums()->state == G4_JOB_DONE)
			expect_sums(ino, 0, 150, algorithm);
	}
	assert_true(summed >= 3); /* the windows of the file */
}

/* What is shared stays so: only the entries of each map are its own. */
static void copies_share_on(void **state)
{
	uint64_t ino = make("f", 0, 300), copy, in, out, done;

	(void)state;
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "copy", G4_S_IFREG | 0644, &copy), 0);
	assert_int_equal(op_open(&rig, ino, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, copy, G4_OPEN_WRITE, &out), 0);
	assert_int_equal(op_copy(&rig, in, 0, out, 0, 300 * G4_PAGE_BYTES, &done), 0);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
	make_default(G4_CHECKSUM_BLAKE3);
	assert_int_equal(add_sums()->summed, 600);
	again();
	for (uint64_t page = 0; page < 300; page += 50) {
		struct g4_run one, two;
		rig_run_at(&rig, ino, page, &one);
		rig_run_at(&rig, copy, page, &two);
		assert_true(g4_address_is(one.address, two.address));
	}
	expect_sums(ino, 0, 300, G4_CHECKSUM_BLAKE3);
	expect_sums(copy, 0, 300, G4_CHECKSUM_BLAKE3);
	expect(copy, 0, 300);
}

/* Pages that are dirty meanwhile get their own when they are written; those that are on the device get theirs. */
static void what_is_dirty_does_not_matter(void **state)
{
	uint64_t ino;

	(void)state;
	make_default(G4_CHECKSUM_NONE);
	ino = make("f", 0, 40);
	assert_int_equal(op_sync(&rig), 0);
	make_default(G4_CHECKSUM_BLAKE3);
	assert_int_equal(op_write(&rig, ino, 0, 5 * G4_PAGE_BYTES, pattern + G4_PAGE_BYTES, 10, NULL), 0);
	assert_int_equal(add_sums()->summed, 40);
	again();
	expect_sums(ino, 0, 40, G4_CHECKSUM_BLAKE3);
	rig_expect_contents(&rig, ino, 5 * G4_PAGE_BYTES, found, pattern + G4_PAGE_BYTES, 10);
	expect(ino, 0, 5);
}

/* On a device without the space for them it ends and says why; nothing is worse than it was, and with space it is done. */
static void a_full_device_ends_it(void **state)
{
	uint64_t ino, full, done = 1;
	char name[16];

	(void)state;
	ino = make("f", 0, 1024);
	for (uint32_t i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "some %u", i);
		make(name, 0, 5);
	}
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "full", G4_S_IFREG | 0644, &full), 0);
	for (uint64_t at = 0; done > 0; at += done)
		if (op_write(&rig, full, 0, at, pattern, G4_PAGE_BYTES, &done) < 0)
			done = 0;
	assert_int_equal(op_sync(&rig), 0);
	make_default(G4_CHECKSUM_BLAKE3);
	const struct g4_job_record *job = add_sums();
	assert_int_equal(job->state, G4_JOB_FAILED);
	assert_int_equal(job->code, G4_E_NOSPC);
	assert_int_equal(rig.fs->journal.aborted, 0);
	expect(ino, 0, 1024);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "full"), 0);
	assert_int_equal(op_sync(&rig), 0);
	again();
	job = add_sums();
	assert_int_equal(job->state, G4_JOB_DONE);
	again();
	expect_sums(ino, 0, 1024, G4_CHECKSUM_BLAKE3);
	expect(ino, 0, 1024);
}

/* Each write of it is the last once: pages have their old entry or the new one, which is right, and the job goes on behind the crash. */
static void it_goes_on_behind_a_crash(void **state)
{
	struct g4_wg *wg = rig.wg;
	bool ended = false;

	(void)state;
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	for (uint64_t cut = 1; !ended; cut += 1 + cut / 8) {
		struct g4_fault fault = {0};
		uint64_t inos[3];

		rig_close(&rig);
		rig_open_as(&rig, G4_CHECKSUM_NONE, RIG_AS_SET, DEVICE_BYTES, JOURNAL_BYTES);
		rig.wg = wg;
		rig.fs = rig_mount_fs(&rig, wg, &fault);
		inos[0] = make("small", 0, 3);
		inos[1] = make("middle", 0, 300);
		inos[2] = make("large", 0, LARGE);
		assert_int_equal(op_sync(&rig), 0);
		make_default(G4_CHECKSUM_BLAKE3);
		assert_int_equal(start(G4_JOB_ADD_SUMS), 0);
		fault.cut_after_writes = cut;
		g4_dev_fault_set(rig.dev, &fault);
		while (list()->state == G4_JOB_RUNNING && g4_jobs_serve(rig.wg, rig.fs, true) == 0)
			(void)op_sync(&rig); /* each step's own record */
		ended = list()->state == G4_JOB_DONE && op_sync(&rig) == 0;
		rig_unmount_fs(&rig, rig.wg, rig.fs, false);
		rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
		for (uint32_t i = 0; i < 3; i++)
			expect(inos[i], 0, i == 0 ? 3 : i == 1 ? 300 : LARGE);
		assert_int_equal(steps(UINT32_MAX)->state, G4_JOB_DONE);
		assert_int_equal(health.damaged_since_mount, 0);
		again();
		for (uint32_t i = 0; i < 3; i++) {
			const uint64_t pages = i == 0 ? 3 : i == 1 ? 300 : LARGE;
			expect_sums(inos[i], 0, pages, G4_CHECKSUM_BLAKE3);
			expect(inos[i], 0, pages);
		}
		rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	}
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_shape_of_file_gets_them, setup, teardown),
		cmocka_unit_test_setup_teardown(an_algorithm_is_changed, setup, teardown),
		cmocka_unit_test_setup_teardown(one_file_or_directory_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(the_rest_of_a_page_that_became_a_large_one, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_damaged_keeps_its_sum, setup, teardown),
		cmocka_unit_test_setup_teardown(a_read_that_fails_once_costs_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(copies_share_on, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_dirty_does_not_matter, setup, teardown),
		cmocka_unit_test_setup_teardown(a_full_device_ends_it, setup, teardown),
		cmocka_unit_test_setup_teardown(it_goes_on_behind_a_crash, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
