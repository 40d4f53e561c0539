/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a repair of snapshots reads: each directory that is whole once, however many snapshots have it.
 * Of store/rewrite.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "folder.h"
#include "store/backend.h"
#include "store/backup.h"
#include "store/index.h"
#include "store/rewrite.h"

#define DIRECTORIES 20
#define SNAPSHOTS 30

static char folder[64];
static const struct store_backend_ops *real;
static struct store_backend_ops ops;
static uint64_t reads; /* of packs */

static int counting_get(struct store_backend *b, enum store_kind kind, const struct store_id *name, uint64_t offset,
			void *to, size_t bytes)
{
	reads += kind == STORE_PACK;
	return real->get(b, kind, name, offset, to, bytes);
}

static int begin(void **state)
{
	char path[128];

	(void)state;
	if (test_folder(folder, sizeof(folder), "rewrite") < 0)
		return -1;
	snprintf(path, sizeof(path), "%s/tree", folder);
	if (mkdir(path, 0700) != 0)
		return -1;
	for (int i = 0; i < DIRECTORIES; i++) {
		snprintf(path, sizeof(path), "%s/tree/%d", folder, i);
		if (mkdir(path, 0700) != 0)
			return -1;
		snprintf(path, sizeof(path), "%s/tree/%d/file", folder, i);
		FILE *file = fopen(path, "w");
		if (file == NULL || fprintf(file, "file %d\n", i) < 0 || fclose(file) != 0)
			return -1;
	}
	return 0;
}

static int end(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static void no_note(void *user, enum store_note kind, const char *path, const char *sentence)
{
	(void)user;
	(void)kind;
	(void)path;
	(void)sentence;
}

static void count_told(void *user, const char *path, const char *sentence)
{
	(void)path;
	(void)sentence;
	(*(uint64_t *)user)++;
}

/* A snapshot, and others of the same tree. Each blob by itself, so that each that is read is a read of its pack. */
static struct store *make(void)
{
	const struct store_form form = {.version = 1};
	char path[96];
	const char *paths[] = {path};
	const struct store_backup_options options = {
		.paths = paths, .paths_count = 1, .host = "here", .level = 1, .threads = 1, .note = no_note};
	struct store_backup_stats stats;
	struct store_snapshot snapshot;
	struct store *s;

	snprintf(path, sizeof(path), "%s/repository", folder);
	assert_int_equal(store_create_as(&(struct store_place){.path = path}, NULL, NULL, &form, &s), 0);
	snprintf(path, sizeof(path), "%s/tree", folder);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	assert_int_equal(store_backup(s, &options, &snapshot, &stats), 0);
	for (int i = 1; i < SNAPSHOTS; i++) {
		snapshot.time.seconds++;
		assert_int_equal(store_snapshot_put(s, &snapshot), 0);
	}
	store_snapshot_free(&snapshot);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	real = s->backend->ops;
	ops = *real;
	ops.get = counting_get;
	s->backend->ops = &ops;
	return s;
}

static uint64_t count_trees(struct store *s, struct store_entry *last)
{
	const uint64_t blobs = store_index_count(s);
	uint64_t trees = 0;

	for (uint32_t i = 0; i < blobs; i++) {
		struct store_entry entry;

		assert_int_equal(store_index_at(s, i, &entry), 0);
		trees += entry.type == STORE_TREE;
		if (entry.type == STORE_DATA)
			*last = entry;
	}
	return trees;
}

/* What a visit of all snapshots gives, and how many have lost something. */
static size_t visit_all(struct store *s, uint64_t *told)
{
	const struct store_filter all = {0};
	struct store_looked looked = {0};
	const struct store_rewrite_options options = {.mend = true,
						      .looked = &looked,
						      .read_data = true,
						      .dry_run = true,
						      .level = 1,
						      .told = count_told,
						      .user = told};
	struct store_snapshot *list;
	size_t count, changed = 0;

	*told = 0;
	reads = 0;
	assert_int_equal(store_snapshots(s, &all, &list, &count), 0);
	assert_int_equal(count, SNAPSHOTS);
	for (size_t i = 0; i < count; i++) {
		const int rc = store_rewrite(s, &options, &list[i]);

		assert_true(rc == 0 || rc == 1);
		changed += rc == 1;
		assert_int_equal(list[i].files, DIRECTORIES);
	}
	store_snapshots_free(list, count);
	store_looked_free(&looked);
	return changed;
}

static void whole_directories_are_read_once(void **state)
{
	struct store_entry data;
	struct store *s = make();
	const uint64_t trees = count_trees(s, &data);
	uint64_t told;

	(void)state;
	assert_true(trees > DIRECTORIES);
	assert_int_equal(visit_all(s, &told), 0);
	assert_int_equal(told, 0);
	print_message("%llu reads for %llu directories' pieces and %d chunks\n", (unsigned long long)reads,
		      (unsigned long long)trees, DIRECTORIES);
	assert_true(reads <= trees + DIRECTORIES);

	/* a chunk that is lost is told of each snapshot, and the directories beside it are not read again for it */
	char hex[STORE_HEX_BYTES], path[256];
	const struct store_pack pack = store_pack_at(s, data.pack);

	store_hex(&pack.name, hex);
	snprintf(path, sizeof(path), "%s/repository/packs/%.2s/%s", folder, hex, hex);
	FILE *file = fopen(path, "r+");
	assert_non_null(file);
	assert_int_equal(fseek(file, (long)data.offset, SEEK_SET), 0);
	assert_true(fputs("xxxxxxxx", file) >= 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(visit_all(s, &told), SNAPSHOTS);
	assert_int_equal(told, SNAPSHOTS);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_directories_are_read_once),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
