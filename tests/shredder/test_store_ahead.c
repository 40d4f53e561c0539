/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large files that several threads read: the same chunks as one thread's, and a file that ends early or cannot be read somewhere is told as ever. Of
 * store/backup_ahead.c. pread(2) of the file is in between.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "model.h"
#include "store/backup.h"

#define FILE_BYTES (21 * 1024 * 1024 + 12345)
#define NOWHERE UINT64_MAX

static char folder[64];
static struct stat watched;
/* From there on the file cannot be read, or ends; reads end at multiples of `steps`. */
static uint64_t fails_at, ends_at, steps;
static unsigned told;
static char sentence_told[256];

ssize_t __real_pread64(int fd, void *to, size_t bytes, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t bytes, off_t at);

ssize_t __wrap_pread64(int fd, void *to, size_t bytes, off_t at)
{
	const uint64_t begin = (uint64_t)at;
	struct stat st;

	if (fstat(fd, &st) != 0 || st.st_dev != watched.st_dev || st.st_ino != watched.st_ino)
		return __real_pread64(fd, to, bytes, at);
	if (begin >= fails_at) {
		errno = EIO;
		return -1;
	}
	bytes = begin >= ends_at ? 0 : (size_t)g4_min64(bytes, g4_min64(fails_at, ends_at) - begin);
	return __real_pread64(fd, to, (size_t)g4_min64(bytes, steps - begin % steps), at);
}

static void note(void *user, enum store_note kind, const char *path, const char *sentence)
{
	(void)user;
	(void)kind;
	(void)path;
	told++;
	snprintf(sentence_told, sizeof(sentence_told), "%s", sentence);
}

static int set_up(void **state)
{
	const struct shredder_params params = complete((struct shredder_params){.mask_bits = 18});
	uint8_t *random = make_content(CONTENT_RANDOM, FILE_BYTES, 3, &params);
	char path[96];

	(void)state;
	if (test_folder(folder, sizeof(folder), "store-ahead") != 0)
		return -1;
	snprintf(path, sizeof(path), "%s/file", folder);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(random, 1, FILE_BYTES, file), FILE_BYTES);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(stat(path, &watched), 0);
	free(random);
	return 0;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static void back_up(struct store *s, uint32_t threads, struct store_snapshot *snapshot,
		    struct store_backup_stats *stats)
{
	char path[96];
	const char *paths[] = {path};
	const struct store_backup_options options = {
		.paths = paths, .paths_count = 1, .host = "here", .level = 1, .threads = threads, .note = note};

	snprintf(path, sizeof(path), "%s/file", folder);
	told = 0;
	assert_int_equal(store_backup(s, &options, snapshot, stats), 0);
}

static void content_of(struct store *s, const struct store_snapshot *snapshot, struct store_node *node,
		       struct store_buf *hold)
{
	const struct store_content root = store_snapshot_root(snapshot);
	struct store_codec codec;
	char path[96];

	snprintf(path, sizeof(path), "%s/file", folder);
	store_codec_init(&codec, 0);
	assert_int_equal(store_path_find(s, &codec, &root, path, node, hold), 0);
	store_codec_free(&codec);
}

static struct store *make_repository(const char *name)
{
	char path[96];
	struct store *s;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(store_create(&(struct store_place){.path = path}, NULL, NULL, &s), 0);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	fails_at = NOWHERE;
	ends_at = NOWHERE;
	steps = NOWHERE;
	return s;
}

static void several_readers_give_the_chunks_of_one(void **state)
{
	static const uint64_t all_steps[] = {NOWHERE, 4097, 1 << 20, 1234567};
	struct store *s = make_repository("same");
	struct store_backup_stats stats;
	struct store_snapshot one, several;
	struct store_node wanted, found;
	struct store_buf hold = {0}, other = {0};

	(void)state;
	back_up(s, 1, &one, &stats);
	assert_int_equal(stats.ahead_bytes, 0);
	assert_int_equal(stats.read_bytes, FILE_BYTES);
	content_of(s, &one, &wanted, &hold);
	for (uint32_t threads = 2; threads <= 8; threads *= 2)
		for (size_t i = 0; i < sizeof(all_steps) / sizeof(*all_steps); i++) {
			steps = all_steps[i];
			do { /* until another thread had time for it */
				back_up(s, threads, &several, &stats);
				assert_int_equal(told, 0);
				assert_int_equal(stats.read_bytes, FILE_BYTES);
				content_of(s, &several, &found, &other);
				assert_int_equal(found.content.bytes, wanted.content.bytes);
				assert_memory_equal(found.content.data, wanted.content.data, wanted.content.bytes);
				store_snapshot_free(&several);
			} while (stats.ahead_bytes == 0);
		}
	store_snapshot_free(&one);
	store_buf_free(&hold);
	store_buf_free(&other);
	store_close(s);
}

/* Wherever that is: in the piece of who cuts, at its end, in a piece that was read ahead. */
static void a_file_that_ends_early_is_saved_as_far_as_it_goes(void **state)
{
	static const uint64_t places[] = {0, 1, 1 << 20, (1 << 20) + 1, 3 << 20, 7654321, FILE_BYTES - 1};
	struct store *s = make_repository("shorter");
	struct store_backup_stats stats;
	struct store_snapshot snapshot;
	struct store_node node;
	struct store_buf hold = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		ends_at = places[i];
		back_up(s, 4, &snapshot, &stats);
		assert_int_equal(told, 1);
		assert_string_equal(sentence_told, "it changed while it was read");
		assert_int_equal(stats.read_bytes, places[i]);
		content_of(s, &snapshot, &node, &hold);
		assert_int_equal(node.size, places[i]);
		store_snapshot_free(&snapshot);
	}
	store_buf_free(&hold);
	store_close(s);
}

static void a_file_that_cannot_be_read_somewhere_is_told(void **state)
{
	static const uint64_t places[] = {0, 1 << 20, (1 << 20) + 1, 3 << 20, 7654321, FILE_BYTES - 1};
	struct store *s = make_repository("broken");
	struct store_backup_stats stats;
	struct store_snapshot snapshot;

	(void)state;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		fails_at = places[i];
		back_up(s, 4, &snapshot, &stats);
		assert_int_equal(told, 1);
		assert_string_equal(sentence_told, strerror(EIO));
		assert_int_equal(stats.unread, 1);
		assert_int_equal(stats.files, 0);
		store_snapshot_free(&snapshot);
	}
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(several_readers_give_the_chunks_of_one),
		cmocka_unit_test(a_file_that_ends_early_is_saved_as_far_as_it_goes),
		cmocka_unit_test(a_file_that_cannot_be_read_somewhere_is_told),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
