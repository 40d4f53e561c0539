/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index's table beside a plain array, with memory for a fraction of its entries; and a repository whose index has no memory for
 * entries at all.
 * Of store/index.c, store/scratch.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "store/backend.h"
#include "store/backup.h"
#include "store/index.h"
#include "store/maintain.h"
#include "store/restore.h"
#include "store/table.h"

#define ENTRIES 300000u
#define SEGMENT_BYTES 2097152u
#define SEGMENT_ENTRIES 39936u

/* Entry number i of a repository: its id is as good as random, and known. */
static struct store_entry entry_of(uint32_t i)
{
	struct store_entry entry = {.pack = i / 60,
				    .offset = 16 + i,
				    .stored = 1000 + i % 1000,
				    .raw = 2 * i + 1,
				    .type = 1 + i % 2,
				    .grouped = i % 3 == 0,
				    .inner = 11 * i % STORE_GROUP_MAX};
	uint64_t x = i;

	for (int k = 0; k < 4; k++) { /* splitmix64 */
		uint64_t z = (x += UINT64_C(0x9e3779b97f4a7c15));

		z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
		z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
		z ^= z >> 31;
		memcpy(entry.id.bytes + 8 * k, &z, 8);
		x = z;
	}
	return entry;
}

/* Field by field: between them may be anything. */
static bool is_same(const struct store_entry *a, const struct store_entry *b)
{
	return store_id_equal(&a->id, &b->id) && a->pack == b->pack && a->offset == b->offset &&
	       a->stored == b->stored && a->raw == b->raw && a->type == b->type && a->grouped == b->grouped &&
	       a->inner == b->inner;
}

static void assert_same(const struct store_entry *a, const struct store_entry *b)
{
	assert_memory_equal(&a->id, &b->id, sizeof(a->id));
	assert_int_equal(a->pack, b->pack);
	assert_int_equal(a->offset, b->offset);
	assert_int_equal(a->stored, b->stored);
	assert_int_equal(a->raw, b->raw);
	assert_int_equal(a->type, b->type);
	assert_int_equal(a->grouped, b->grouped);
	assert_int_equal(a->inner, b->inner);
}

static struct store_table *filled(uint64_t expected, uint64_t memory_bytes, uint32_t count)
{
	struct store_table *t = store_table_open(expected, memory_bytes);
	uint32_t number;

	for (uint32_t i = 0; i < count; i++) {
		const struct store_entry entry = entry_of(i);

		assert_int_equal(store_table_add(t, &entry, &number), 1);
		assert_int_equal(number, i);
	}
	return t;
}

static void check_all(struct store_table *t)
{
	struct store_entry found;
	uint32_t number;

	assert_int_equal(store_table_count(t), ENTRIES);
	for (uint32_t i = 0; i < ENTRIES; i++) {
		const struct store_entry entry = entry_of(i), absent = entry_of(ENTRIES + i);

		assert_int_equal(store_table_find(t, &entry.id, &number, &found), 1);
		assert_int_equal(number, i);
		assert_same(&found, &entry);
		assert_int_equal(store_table_find(t, &absent.id, &number, &found), 0);
	}
	for (uint32_t i = ENTRIES; i-- > 0;) {
		const struct store_entry entry = entry_of(i);

		assert_int_equal(store_table_at(t, i, &found), 0);
		assert_same(&found, &entry);
	}
}

/* Looked up together they are what they are one by one: in memory and in the file, there and not, also twice the same. */
static void check_together(struct store_table *t)
{
	enum { SOME = 1000 };
	struct store_found *found = (struct store_found *)calloc(SOME, sizeof(*found));

	assert_non_null(found);
	for (uint32_t begin = 0; begin < 2 * ENTRIES; begin += 7 * SOME) {
		const size_t count = begin == 0 ? SOME : 1 + begin % SOME;

		for (size_t i = 0; i < count; i++)
			found[i].id = entry_of((begin + 7919 * (uint32_t)(i - i % 5)) % (2 * ENTRIES)).id;
		assert_int_equal(store_table_find_all(t, found, count), 0);
		for (size_t i = 0; i < count; i++) {
			const uint32_t number = (begin + 7919 * (uint32_t)(i - i % 5)) % (2 * ENTRIES);
			const struct store_entry entry = entry_of(number);

			assert_int_equal(found[i].there, number < ENTRIES);
			if (!found[i].there)
				continue;
			assert_int_equal(found[i].number, number);
			assert_same(&found[i].entry, &entry);
			assert_memory_equal(&found[i].id, &entry.id, sizeof(entry.id));
		}
	}
	assert_int_equal(store_table_find_all(t, found, 0), 0);
	free(found);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* SHREDDER_TABLE_BLOBS=10000000: how many look-ups a second one thread does among so many, in any order. */
static void how_fast_it_is(void **state)
{
	const char *text = getenv("SHREDDER_TABLE_BLOBS");
	const uint32_t count = text == NULL ? 0 : (uint32_t)strtoul(text, NULL, 10), rounds = 4000;
	enum { SOME = 1024 };
	struct store_found *found = (struct store_found *)calloc(SOME, sizeof(*found));
	double one = 0, together = 0;
	uint64_t random = 1;

	(void)state;
	if (count == 0) {
		free(found);
		skip();
	}
	struct store_table *t = filled(count, UINT64_MAX, count);
	for (uint32_t round = 0; round < rounds; round++) {
		struct store_entry entry;
		uint32_t number;

		for (int i = 0; i < SOME; i++) {
			random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
			found[i].id = entry_of((uint32_t)((random >> 32) * count >> 32)).id;
		}
		double begin = seconds();
		for (int i = 0; i < SOME && round % 2 == 0; i++)
			assert_int_equal(store_table_find(t, &found[i].id, &number, &entry), 1);
		one += seconds() - begin;
		begin = seconds();
		if (round % 2 == 1)
			assert_int_equal(store_table_find_all(t, found, SOME), 0);
		together += seconds() - begin;
	}
	print_message(
		"%u blobs, %.2f bytes of memory each to find them; %.1f million look-ups a second one by one, %.1f together\n",
		count, (double)store_table_sizes(t).slot_bytes / count, rounds / 2 * SOME / one / 1e6,
		rounds / 2 * SOME / together / 1e6);
	store_table_close(t);
	free(found);
}

static void entries_come_back_with_little_memory(void **state)
{
	const uint64_t expected[] = {0, ENTRIES}; /* it grows, with entries in the file; it is sized beforehand */

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct store_table *t = filled(expected[i], 2 * SEGMENT_BYTES, ENTRIES);
		struct store_table_sizes sizes = store_table_sizes(t);
		const struct store_entry again = entry_of(17);
		uint32_t number;

		assert_true(sizes.file_bytes >= (ENTRIES / SEGMENT_ENTRIES - 3) * (uint64_t)SEGMENT_BYTES);
		assert_true(sizes.entry_bytes <= 4 * SEGMENT_BYTES + (4 << 20));
		assert_true(sizes.slot_bytes <= (expected[i] != 0 ? 8 : 12) * (uint64_t)ENTRIES);
		check_all(t);
		check_together(t);
		assert_int_equal(store_table_add(t, &again, &number), 0);
		assert_int_equal(number, 17);
		store_table_close(t);
	}
}

/* A caller that asks in the order of packs reads each page once, and what is new is known without reading. */
static void neighbours_share_a_page(void **state)
{
	struct store_table *t = filled(ENTRIES, 0, ENTRIES);
	const uint64_t before = store_table_sizes(t).reads;
	struct store_entry found;
	uint32_t number;

	(void)state;
	for (uint32_t i = 0; i < ENTRIES; i++) {
		const struct store_entry entry = entry_of(i);

		assert_int_equal(store_table_find(t, &entry.id, &number, &found), 1);
	}
	const uint64_t there = store_table_sizes(t).reads - before;
	for (uint32_t i = ENTRIES; i < 2 * ENTRIES; i++) {
		const struct store_entry entry = entry_of(i);

		assert_int_equal(store_table_find(t, &entry.id, &number, &found), 0);
	}
	assert_in_range(there, 1, ENTRIES / 60);
	assert_in_range(store_table_sizes(t).reads - before - there, 0, ENTRIES / 1000);
	store_table_close(t);
}

static void pending_entries_stay_until_they_have_a_place(void **state)
{
	const struct store_entry other = {.pack = 1, .offset = 2, .stored = 3, .raw = 4, .type = STORE_TREE};
	struct store_table *t = store_table_open(0, 0);
	struct store_entry found;
	uint32_t number;

	(void)state;
	for (uint32_t i = 0; i < ENTRIES; i++) {
		struct store_entry entry = entry_of(i);

		entry.pack = i % 5000 == 0 || i / SEGMENT_ENTRIES == 3 ? STORE_PACK_PENDING : entry.pack;
		assert_int_equal(store_table_add(t, &entry, &number), 1);
	}
	assert_int_equal(store_table_sizes(t).file_bytes, 0); /* each segment has one */
	for (uint32_t i = 0; i < ENTRIES; i++) {
		const struct store_entry entry = entry_of(i);

		if (i % 5000 == 0 || i / SEGMENT_ENTRIES == 3)
			store_table_place(t, i, &entry);
	}
	check_all(t);
	for (uint32_t i = ENTRIES; i < ENTRIES + SEGMENT_ENTRIES; i++) {
		const struct store_entry entry = entry_of(i);

		assert_int_equal(store_table_add(t, &entry, &number), 1);
	}
	assert_true(store_table_sizes(t).file_bytes >= ENTRIES / SEGMENT_ENTRIES * (uint64_t)SEGMENT_BYTES);
	for (uint32_t i = 0; i < ENTRIES; i += 77) {
		const struct store_entry entry = entry_of(i);

		assert_int_equal(store_table_find(t, &entry.id, &number, &found), 1);
		assert_same(&found, &entry);
		store_table_place(t, i, &other); /* it has one */
		assert_int_equal(store_table_at(t, i, &found), 0);
		assert_same(&found, &entry);
	}
	store_table_close(t);
}

static void without_a_file_entries_stay_in_memory(void **state)
{
	char old[4096];
	const char *folder = getenv("TMPDIR");

	(void)state;
	snprintf(old, sizeof(old), "%s", folder == NULL ? "" : folder);
	setenv("TMPDIR", "/proc/self/task", 1);
	struct store_table *t = filled(0, 0, ENTRIES);
	assert_int_equal(store_table_sizes(t).file_bytes, 0);
	check_all(t);
	store_table_close(t);
	if (old[0] != 0)
		setenv("TMPDIR", old, 1);
	else
		unsetenv("TMPDIR");
}

/* The descriptor of the file without a name that this process has. */
static int unnamed_file(void)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;
	char target[512];
	int fd = -1;

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL) {
		const ssize_t bytes = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);

		if (bytes <= 0)
			continue;
		target[bytes] = 0;
		if (strstr(target, "(deleted)") != NULL)
			fd = atoi(entry->d_name);
	}
	closedir(dir);
	return fd;
}

/* What cannot be read is not taken for absent: a prune would remove it. */
static void a_file_that_cannot_be_read_is_an_error(void **state)
{
	struct store_table *t = filled(ENTRIES, 0, ENTRIES);
	const struct store_entry entry = entry_of(5);
	struct store_entry found;
	uint32_t number;

	(void)state;
	const int fd = unnamed_file();
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(store_table_find(t, &entry.id, &number, &found), STORE_E_IO);
	assert_int_equal(store_table_add(t, &entry, &number), STORE_E_IO);
	assert_int_equal(store_table_at(t, 5, &found), STORE_E_IO);
	store_table_close(t);
}

struct claiming {
	struct store_table *t;
	uint32_t fresh, seed;
};

static void *claim_some(void *user)
{
	struct claiming *c = (struct claiming *)user;
	uint32_t number;

	for (uint32_t i = 0; i < ENTRIES; i++) {
		const struct store_entry entry = entry_of((i * 7919 + c->seed) % ENTRIES);
		const int rc = store_table_add(c->t, &entry, &number);

		assert_true(rc == 0 || rc == 1);
		c->fresh += (uint32_t)rc;
	}
	return NULL;
}

static void one_of_several_threads_is_the_first(void **state)
{
	struct claiming claiming[3];
	pthread_t threads[3];
	uint32_t fresh = 0;

	(void)state;
	struct store_table *t = store_table_open(0, SEGMENT_BYTES);
	for (uint32_t i = 0; i < 3; i++) {
		claiming[i] = (struct claiming){.t = t, .seed = i * 1000};
		assert_int_equal(pthread_create(&threads[i], NULL, claim_some, &claiming[i]), 0);
	}
	for (uint32_t i = 0; i < 3; i++) {
		pthread_join(threads[i], NULL);
		fresh += claiming[i].fresh;
	}
	assert_int_equal(fresh, ENTRIES);
	assert_int_equal(store_table_count(t), ENTRIES);
	store_table_close(t);
}

#define AT_A_TIME 40u
#if defined(G4_TSAN)
#define WITH_OTHERS 100000u /* of two segments in the file in the place of seven: the same threads meet at each */
#else
#define WITH_OTHERS ENTRIES
#endif

struct looking {
	struct store_table *t;
	atomic_uint *there; /* entries that were added */
	uint32_t seed, wrong, absent;
};

/* What is there is found as it is, by batches and one by one, though others come and old ones go into the file meanwhile. */
static void *look_meanwhile(void *user)
{
	struct looking *l = (struct looking *)user;
	struct store_found found[AT_A_TIME];
	struct store_entry one;
	uint32_t there, number;

	do {
		there = atomic_load(l->there);
		for (uint32_t i = 0; i < AT_A_TIME; i++)
			found[i].id = entry_of((l->seed += 7919) % there).id;
		l->wrong += store_table_find_all(l->t, found, AT_A_TIME) != 0;
		for (uint32_t i = 0; i < AT_A_TIME; i++) {
			const struct store_entry wanted = entry_of(found[i].number);

			l->absent += !found[i].there;
			l->wrong += found[i].there && !is_same(&wanted, &found[i].entry);
		}
		l->wrong += store_table_find(l->t, &found[0].id, &number, &one) != 1 || number != found[0].number;
		l->wrong += store_table_at(l->t, number, &one) != 0 || !store_id_equal(&one.id, &found[0].id);
	} while (there < WITH_OTHERS);
	return NULL;
}

static void threads_look_up_while_entries_come(void **state)
{
	struct looking looking[2];
	pthread_t threads[2];
	atomic_uint there = 1;
	uint32_t number;

	(void)state;
	struct store_table *t = store_table_open(0, SEGMENT_BYTES);
	struct store_entry entry = entry_of(0);
	assert_int_equal(store_table_add(t, &entry, &number), 1);
	for (uint32_t i = 0; i < 2; i++) {
		looking[i] = (struct looking){.t = t, .there = &there, .seed = i * 1000};
		assert_int_equal(pthread_create(&threads[i], NULL, look_meanwhile, &looking[i]), 0);
	}
	for (uint32_t i = 1; i < WITH_OTHERS; i++) {
		entry = entry_of(i);
		assert_int_equal(store_table_add(t, &entry, &number), 1);
		assert_int_equal(number, i);
		atomic_store(&there, i + 1);
	}
	for (uint32_t i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(looking[i].wrong, 0);
		assert_int_equal(looking[i].absent, 0);
	}
	assert_true(store_table_sizes(t).file_bytes > 0);
	store_table_close(t);
}

/* --------------------------------------------------------------------------------------------------- a repository */

#define FILES 40000u

static char folder[64];

static void ignore_note(void *user, enum store_note note, const char *path, const char *sentence)
{
	(void)user;
	(void)note;
	(void)path;
	(void)sentence;
}

static void print_problem(void *user, const char *sentence)
{
	(void)user;
	print_error("%s\n", sentence);
}

static void print_note(void *user, const char *path, const char *sentence)
{
	(void)user;
	print_error("%s: %s\n", path, sentence);
}

static void file_path(const char *tree, uint32_t i, char path[128])
{
	snprintf(path, 128, "%s/%s/%u/%u", folder, tree, i / 1000, i);
}

static void write_file(uint32_t i, const char *text)
{
	char path[128];

	file_path("tree", i, path);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "%s %u", text, i);
	assert_int_equal(fclose(file), 0);
}

static void make_tree(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/tree", folder);
	assert_int_equal(mkdir(path, 0700), 0);
	for (uint32_t i = 0; i < FILES; i++) {
		if (i % 1000 == 0) {
			snprintf(path, sizeof(path), "%s/tree/%u", folder, i / 1000);
			assert_int_equal(mkdir(path, 0700), 0);
		}
		write_file(i, "file");
	}
}

static struct store *open_repository(bool make)
{
	char path[96];
	struct store *s;

	snprintf(path, sizeof(path), "%s/repository", folder);
	const struct store_place place = {.path = path};
	if (make)
		assert_int_equal(store_create(&place, NULL, NULL, &s), 0);
	else
		assert_int_equal(store_open(&place, NULL, NULL, &s), 0);
	s->index_bytes = 1;
	return s;
}

static void back_up(const struct store_snapshot *parent, struct store_snapshot *snapshot,
		    struct store_backup_stats *stats)
{
	char path[96];
	const char *paths[] = {path};
	const struct store_backup_options options = {.paths = paths,
						     .paths_count = 1,
						     .host = "here",
						     .level = 1,
						     .threads = 2,
						     .parent = parent,
						     .note = ignore_note};
	struct store *s = open_repository(false);

	snprintf(path, sizeof(path), "%s/tree", folder);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	assert_int_equal(store_backup(s, &options, snapshot, stats), 0);
	store_close(s);
}

static void check(uint64_t snapshots)
{
	const struct store_check_options options = {.problem = print_problem, .threads = 2, .read_data = true};
	struct store_check_result result;
	struct store *s = open_repository(false);

	assert_int_equal(store_check(s, &options, &result), 0);
	assert_int_equal(result.problems, 0);
	assert_int_equal(result.snapshots, snapshots);
	store_close(s);
}

static void a_repository_needs_no_memory_for_entries(void **state)
{
	const struct store_prune_options pruning = {0};
	struct store_snapshot first, second;
	struct store_backup_stats stats;
	struct store_prune_result pruned;
	struct store_restore_stats restored;
	char target[96], path[128], text[32];
	struct store_entry entry;
	uint32_t number;

	(void)state;
	make_tree();
	store_close(open_repository(true));
	back_up(NULL, &first, &stats);
	assert_int_equal(stats.files, FILES);
	assert_true(stats.new_blobs > FILES);
	check(1);
	/* what is there is found, though little of it is in memory */
	back_up(NULL, &second, &stats);
	assert_in_range(stats.new_blobs, 0, 200); /* directories: their files are older now */
	store_snapshot_free(&second);
	for (uint32_t i = 0; i < FILES; i += 10)
		write_file(i, "changed");
	back_up(&first, &second, &stats);
	assert_in_range(stats.new_blobs, FILES / 10, FILES / 10 + 200);
	check(3);
	/* the first two go, and what only they have */
	struct store *s = open_repository(false);
	struct store_listed *names;
	size_t count;
	assert_int_equal(store_list_all(s->backend, STORE_SNAPSHOT, &names, &count), 0);
	for (size_t i = 0; i < count; i++)
		if (!store_id_equal(&names[i].name, &second.name))
			assert_int_equal(s->backend->ops->remove(s->backend, STORE_SNAPSHOT, &names[i].name), 0);
	free(names);
	assert_int_equal(store_prune(s, &pruning, &pruned), 0);
	assert_in_range(pruned.unused_blobs, FILES / 10, FILES / 10 + 200);
	store_close(s);
	check(1);
	s = open_repository(false);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	assert_int_equal(store_index_at(s, 0, &entry), 0);
	assert_int_equal(store_index_find(s, &entry.id, &number, &entry), 0);
	memset(&entry.id, 7, sizeof(entry.id));
	assert_int_equal(store_index_find(s, &entry.id, &number, &entry), STORE_E_NO_BLOB);
	snprintf(target, sizeof(target), "%s/target", folder);
	snprintf(path, sizeof(path), "%s/tree", folder);
	const struct store_restore_options options = {
		.target = target, .subpath = path, .threads = 2, .note = print_note};
	assert_int_equal(store_restore(s, &second, &options, &restored), 0);
	assert_int_equal(restored.errors, 0);
	assert_int_equal(restored.files, FILES);
	store_close(s);
	for (uint32_t i = 0; i < FILES; i += 111) {
		char wanted[32];

		file_path("target", i, path);
		FILE *file = fopen(path, "r");
		assert_non_null(file);
		assert_non_null(fgets(text, sizeof(text), file));
		fclose(file);
		snprintf(wanted, sizeof(wanted), "%s %u", i % 10 == 0 ? "changed" : "file", i);
		assert_string_equal(text, wanted);
	}
	store_snapshot_free(&first);
	store_snapshot_free(&second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_come_back_with_little_memory),
		cmocka_unit_test(neighbours_share_a_page),
		cmocka_unit_test(how_fast_it_is),
		cmocka_unit_test(pending_entries_stay_until_they_have_a_place),
		cmocka_unit_test(without_a_file_entries_stay_in_memory),
		cmocka_unit_test(a_file_that_cannot_be_read_is_an_error),
		cmocka_unit_test(one_of_several_threads_is_the_first),
		cmocka_unit_test(threads_look_up_while_entries_come),
		cmocka_unit_test(a_repository_needs_no_memory_for_entries),
	};
	char command[128];

	if (test_folder(folder, sizeof(folder), "table") < 0)
		return 1;
	const int failed = cmocka_run_group_tests(tests, NULL, NULL);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command) == 0 ? failed : 1;
}
