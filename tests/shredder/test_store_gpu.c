/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backups whose files GPUs cut and hash: the same chunks under the same names as the processor's, whatever fails. Of chunk/service.c, store/cutter.c,
 * store/backup_source.c. The GPUs are a stand-in's, in the place of chunk/devices.c; the clock is ahead, so that files count as settled.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chunk/devices.h"
#include "folder.h"
#include "model.h"
#include "stand_in_device.h"
#include "store/backend.h"
#include "store/backup.h"
#include "store/cutter.h"
#include "store/maintain.h"

/* More than a load has, of which the last one is not whole. */
#define LARGE_BYTES (2 * STORE_LOAD_BYTES + 1234567)
#define SMALL_FILES 300u

static char folder[64];

struct store_time __real_store_now(void);
struct store_time __wrap_store_now(void);

struct store_time __wrap_store_now(void)
{
	struct store_time now = __real_store_now();

	now.seconds += 10;
	return now;
}

bool shredder_device_known(const char *name)
{
	return strcmp(name, "cuda") == 0;
}

const struct shredder_device_ops *shredder_device_find(const char *name)
{
	(void)name;
	return &stand_in_device;
}

static void write_file(const char *name, const uint8_t *data, size_t bytes)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/tree/%s", folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, bytes, file), bytes);
	assert_int_equal(fclose(file), 0);
}

static void make_tree(void)
{
	const struct shredder_params params = complete((struct shredder_params){.mask_bits = 18});
	uint8_t *random = make_content(CONTENT_RANDOM, LARGE_BYTES, 3, &params);
	uint8_t *text = make_content(CONTENT_TEXT, 3 << 20, 4, &params);
	uint8_t *zeros = make_content(CONTENT_ZERO, 5 << 20, 5, &params);
	struct dice dice = {6};
	char name[128], other[128];

	for (uint32_t i = 0; i < SMALL_FILES; i++) {
		const uint64_t bytes = dice_below(&dice, i % 10 == 0 ? 700000 : 20000);

		snprintf(name, sizeof(name), "small-%03u", i);
		write_file(name, random + dice_below(&dice, 1 << 20), bytes);
	}
	/* around the minimum, the maximum and what may wait */
	for (int around = -1; around <= 1; around++) {
		snprintf(name, sizeof(name), "minimum%d", around);
		write_file(name, random + 5000, params.min_bytes + (uint64_t)(int64_t)around);
		snprintf(name, sizeof(name), "waits%d", around);
		write_file(name, random + 7777, (1u << 20) + (uint64_t)(int64_t)around);
		snprintf(name, sizeof(name), "maximum%d", around);
		write_file(name, zeros, params.max_bytes + (uint64_t)(int64_t)around);
	}
	write_file("empty", random, 0);
	write_file("large", random, LARGE_BYTES);
	write_file("text", text, 3 << 20);
	write_file("zeros", zeros, 5 << 20);
	write_file("first-name", random + 99, 54321);
	write_file("sparse", random + 321, 100000);
	snprintf(name, sizeof(name), "%s/tree/sparse", folder);
	assert_int_equal(truncate(name, 9 << 20), 0);
	snprintf(name, sizeof(name), "%s/tree/first-name", folder);
	snprintf(other, sizeof(other), "%s/tree/second-name", folder);
	assert_int_equal(link(name, other), 0);
	free(random);
	free(text);
	free(zeros);
}

static int set_up(void **state)
{
	char path[96];

	(void)state;
	if (test_folder(folder, sizeof(folder), "store-gpu") != 0)
		return -1;
	snprintf(path, sizeof(path), "%s/tree", folder);
	if (mkdir(path, 0700) != 0)
		return -1;
	make_tree();
	return 0;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static void fail_note(void *user, enum store_note note, const char *path, const char *sentence)
{
	(void)user;
	(void)note;
	fail_msg("%s: %s", path, sentence);
}

/* Everything is read, whatever is known of it. */
static int back_up(struct store *s, const char *engine, uint32_t threads, struct store_snapshot *snapshot,
		   struct store_backup_stats *stats)
{
	char path[96];
	const char *paths[] = {path};
	const struct store_backup_options options = {.paths = paths,
						     .paths_count = 1,
						     .host = "here",
						     .level = 1,
						     .threads = threads,
						     .engine = engine,
						     .note = fail_note};

	snprintf(path, sizeof(path), "%s/tree", folder);
	return store_backup(s, &options, snapshot, stats);
}

static struct store *make_repository(const char *name, const char *password)
{
	char path[96];
	const struct store_secret secret = {.password = password};
	struct store *s;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(store_create(&(struct store_place){.path = path}, password == NULL ? NULL : &secret, NULL, &s),
			 0);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	return s;
}

static void remove_repository(struct store *s, const char *name)
{
	char command[160];

	store_close(s);
	snprintf(command, sizeof(command), "rm -rf %s/%s", folder, name);
	assert_int_equal(system(command), 0);
}

/* What the snapshot has of the tree: names of the pieces in which all its entries are, with the names of their chunks. */
static void content_of(struct store *s, const struct store_snapshot *snapshot, struct store_buf *out)
{
	const struct store_content root = store_snapshot_root(snapshot);
	struct store_codec codec;
	struct store_buf hold = {0};
	struct store_node node;
	char path[96];

	snprintf(path, sizeof(path), "%s/tree", folder);
	store_codec_init(&codec, 0);
	assert_int_equal(store_path_find(s, &codec, &root, path, &node, &hold), 0);
	store_buf_add(out, node.content.data, node.content.bytes);
	store_buf_free(&hold);
	store_codec_free(&codec);
}

/* The next backup finds every chunk of the tree and makes the same one of them. Directories above it may change at any time: others write there. */
static void expect_same(struct store *s, const char *engine, uint32_t threads, const struct store_snapshot *wanted,
			struct store_backup_stats *stats)
{
	struct store_buf was = {0}, is = {0};
	struct store_snapshot snapshot;

	assert_int_equal(back_up(s, engine, threads, &snapshot, stats), 0);
	assert_true(stats->new_bytes < 10000);
	assert_int_equal(stats->unread, 0);
	assert_int_equal(stats->bytes, wanted->bytes);
	content_of(s, wanted, &was);
	content_of(s, &snapshot, &is);
	assert_int_equal(is.size, was.size);
	assert_memory_equal(is.data, was.data, was.size);
	store_buf_free(&was);
	store_buf_free(&is);
	store_snapshot_free(&snapshot);
}

/* With secret parameters and keyed names, and without. */
static void chunks_and_names_are_the_processors(void **state)
{
	static const char *const passwords[] = {NULL, "secret"};
	struct store_backup_stats stats;
	struct store_snapshot snapshot;

	(void)state;
	plan = all_is_well;
	for (int i = 0; i < 2; i++)
		for (uint32_t threads = 1; threads <= 3; threads += 2) {
			struct store *s = make_repository("cpu", passwords[i]);

			assert_int_equal(back_up(s, "cpu", threads, &snapshot, &stats), 0);
			assert_int_equal(stats.gpus.bytes, 0);
			expect_same(s, "cuda", threads, &snapshot, &stats);
			assert_int_equal(stats.gpus.gpus, 1);
			assert_int_equal(stats.gpus.works, 1);
			assert_string_equal(stats.gpus.trouble, "");
			assert_true(stats.gpus.bytes > LARGE_BYTES);
			expect_same(s, "portable", threads, &snapshot, &stats);
			store_snapshot_free(&snapshot);
			remove_repository(s, "cpu");
			/* and the other way round */
			s = make_repository("gpu", passwords[i]);
			assert_int_equal(back_up(s, "auto", threads, &snapshot, &stats), 0);
			assert_true(stats.gpus.bytes > 0);
			expect_same(s, "cpu", threads, &snapshot, &stats);
			assert_int_equal(stats.gpus.gpus, 0);
			store_snapshot_free(&snapshot);
			remove_repository(s, "gpu");
		}
}

/* Hundreds of files go in a few loads, where a GPU was asked for; where it is only there, it gets large ones. */
static void small_files_share_loads(void **state)
{
	struct store *s = make_repository("small", NULL);
	struct store_backup_stats stats;
	struct store_snapshot snapshot;

	(void)state;
	plan = all_is_well;
	assert_int_equal(back_up(s, "cpu", 1, &snapshot, &stats), 0);
	alone_batches = alone_borders = 0;
	expect_same(s, "cuda", 1, &snapshot, &stats);
	assert_true(alone_borders > SMALL_FILES / 2);
	assert_true(alone_batches <= 2 + 2 * snapshot.bytes / STORE_LOAD_BYTES);
	const uint64_t with_small = stats.gpus.bytes;
	alone_borders = 0;
	expect_same(s, "auto", 1, &snapshot, &stats);
	assert_int_equal(alone_borders, 0);
	assert_true(stats.gpus.bytes >= LARGE_BYTES);
	assert_true(stats.gpus.bytes < with_small);
	store_snapshot_free(&snapshot);
	remove_repository(s, "small");
}

/* GPUs fail at some load, or decline from some load on. */
static void what_a_gpu_does_not_cut_the_processor_does(void **state)
{
	struct store *s = make_repository("failing", "secret");
	struct store_backup_stats stats;
	struct store_snapshot snapshot;

	(void)state;
	plan = all_is_well;
	assert_int_equal(back_up(s, "cpu", 2, &snapshot, &stats), 0);
	for (uint32_t at = 0; at < 3; at++)
		for (uint32_t threads = 1; threads <= 3; threads += 2) {
			plan = all_is_well;
			plan.submit_fails[0] = at;
			expect_same(s, "cuda", threads, &snapshot, &stats);
			assert_int_equal(stats.gpus.works, 0);
			assert_non_null(strstr(stats.gpus.trouble, "it was told to fail"));
			plan = all_is_well;
			plan.collect_fails[0] = at;
			expect_same(s, "cuda", threads, &snapshot, &stats);
			assert_int_equal(stats.gpus.works, 0);
			plan.gpus = 2; /* one of two */
			plan.healthy = 1;
			expect_same(s, "cuda", threads, &snapshot, &stats);
			assert_true(stats.gpus.works >= 1);
			assert_true(stats.gpus.bytes > 0);
			plan = all_is_well;
			plan.declines = at;
			alone_batches = 0;
			expect_same(s, "cuda", threads, &snapshot, &stats);
			assert_int_equal(stats.gpus.works, 1);
		}
	plan.gpus = 0;
	expect_same(s, "cuda", 2, &snapshot, &stats);
	assert_non_null(strstr(stats.gpus.trouble, "there is no GPU"));
	store_snapshot_free(&snapshot);
	remove_repository(s, "failing");
}

static const struct store_backend_ops *real_ops;

static int fail_to_put(struct store_backend *b, enum store_kind kind, const struct store_id *name, const void *data,
		       size_t bytes)
{
	(void)b;
	(void)kind;
	(void)name;
	(void)data;
	(void)bytes;
	return store_fail(STORE_E_IO, "the disk is full");
}

/* A backup that fails while files wait leaves no snapshot, and the next one is whole. */
static void a_failure_leaves_no_snapshot(void **state)
{
	struct store *s = make_repository("broken", NULL);
	struct store_backup_stats stats;
	struct store_snapshot snapshot, *list;
	struct store_backend_ops ops;
	size_t count;

	(void)state;
	plan = all_is_well;
	real_ops = s->backend->ops;
	ops = *real_ops;
	ops.put = fail_to_put;
	s->backend->ops = &ops;
	assert_int_not_equal(back_up(s, "cuda", 2, &snapshot, &stats), 0);
	s->backend->ops = real_ops;
	store_snapshot_free(&snapshot);
	assert_int_equal(store_snapshots(s, &(struct store_filter){0}, &list, &count), 0);
	assert_int_equal(count, 0);
	store_snapshots_free(list, count);
	assert_int_equal(back_up(s, "cuda", 2, &snapshot, &stats), 0);
	expect_same(s, "cpu", 2, &snapshot, &stats);
	store_snapshot_free(&snapshot);
	remove_repository(s, "broken");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_and_names_are_the_processors),
		cmocka_unit_test(small_files_share_loads),
		cmocka_unit_test(what_a_gpu_does_not_cut_the_processor_does),
		cmocka_unit_test(a_failure_leaves_no_snapshot),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
