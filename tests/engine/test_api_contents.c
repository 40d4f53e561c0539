/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads through a connection that keeps what it has read (src/client/read.c) give what the file has, whatever changed it: calls in the
 * server's process here, of which the connection is told nothing.
 */
#include "api_fixture.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>

#include "client/client.h"
#undef gpu4fs_unmount
#define gpu4fs_unmount api_unmount

#define PAGE 4096u
#define MOST (24 * PAGE)

static gpu4fs *server; /* the same file system, in its process */
static gpu4fs_file *reader, *writer, *other;
static uint8_t got[MOST], wanted[MOST];

static bool is_kept(uint64_t offset)
{
	uint8_t byte;
	int64_t done;
	bool old;

	return fs->pages &&
	       g4c_pages_find(fs->pages, reader->ino, reader->generation, offset, 1, NULL, &byte, &done, &old);
}

/* What the reader is told of these bytes is what the file has. */
static void check(uint64_t offset, size_t bytes, const char *after)
{
	const int64_t has = gpu4fs_pread(writer, wanted, bytes, (int64_t)offset);
	const int64_t rc = gpu4fs_pread(reader, got, bytes, (int64_t)offset);

	assert_true(has >= 0);
	if (rc != has || memcmp(got, wanted, (size_t)has) != 0)
		fail_msg("after %s the reader was told %lld of %lld bytes at %llu, or other bytes", after,
			 (long long)rc, (long long)has, (unsigned long long)offset);
}

static void check_all(const char *after)
{
	check(0, MOST, after);
	for (uint64_t at = 0; at < 12 * PAGE; at += 3000)
		check(at, 5000, after);
}

/*
 * Reads until what is there is kept: the first read of a handle keeps nothing, one that changes the time of access neither, and the background
 * may have something to write.
 */
static void learn(void)
{
	uint32_t round = 0;

	do
		check_all("nothing");
	while (fs->pages && !(is_kept(0) && is_kept(PAGE)) && ++round < 1000);
	assert_true(round < 1000);
}

static void open_files(void)
{
	server = api_in_process();
	api_write_pattern("file", 1, 10 * PAGE + 100);
	api_write_pattern("other", 2, 6 * PAGE);
	ok(gpu4fs_open(server, NULL, "file", O_RDWR, 0, &writer));
	ok(gpu4fs_open(server, NULL, "other", O_RDWR, 0, &other));
	reader = api_open("file", O_RDONLY, 0);
}

static void close_files(void)
{
	ok(gpu4fs_close(reader));
	ok(gpu4fs_close(writer));
	ok(gpu4fs_close(other));
}

static int64_t do_write(void)
{
	return gpu4fs_pwrite(writer, "new", 3, 5000);
}

static int64_t do_append(void)
{
	return gpu4fs_pwrite(writer, "behind the end", 14, 10 * PAGE + 100);
}

static int64_t do_write_far(void)
{
	return gpu4fs_pwrite(writer, "x", 1, 20 * PAGE);
}

static int64_t do_shrink(void)
{
	return gpu4fs_ftruncate(writer, 3 * PAGE + 50);
}

static int64_t do_grow(void)
{
	return gpu4fs_truncate(server, NULL, "file", 11 * PAGE + 7);
}

static int64_t do_punch(void)
{
	return gpu4fs_fallocate(writer, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 100, 2 * PAGE);
}

static int64_t do_zero(void)
{
	return gpu4fs_fallocate(writer, FALLOC_FL_ZERO_RANGE, PAGE, 2 * PAGE);
}

static int64_t do_collapse(void)
{
	return gpu4fs_fallocate(writer, FALLOC_FL_COLLAPSE_RANGE, PAGE, 2 * PAGE);
}

static int64_t do_insert(void)
{
	return gpu4fs_fallocate(writer, FALLOC_FL_INSERT_RANGE, PAGE, 2 * PAGE);
}

static int64_t do_copy(void)
{
	int64_t from = 0, to = PAGE;

	return gpu4fs_copy_file_range(other, &from, writer, &to, 2 * PAGE);
}

static int64_t do_share(void)
{
	return gpu4fs_share_range(other, 0, writer, 2 * PAGE, 3 * PAGE);
}

static int64_t do_empty(void)
{
	gpu4fs_file *file;
	int rc = gpu4fs_open(server, NULL, "file", O_WRONLY | O_TRUNC, 0, &file);

	return rc ? rc : gpu4fs_close(file);
}

static int64_t do_refill(void)
{
	const int64_t rc = do_empty();

	return rc ? rc : gpu4fs_pwrite(writer, wanted, 5 * PAGE, 17);
}

static void every_change_is_seen_at_once(void **state)
{
	static const struct {
		const char *name;
		int64_t (*change)(void);
	} changes[] = {{"a write", do_write},
		       {"a write at the end", do_append},
		       {"a write far off", do_write_far},
		       {"truncation", do_shrink},
		       {"growing", do_grow},
		       {"a hole", do_punch},
		       {"zeros", do_zero},
		       {"a range taken out", do_collapse},
		       {"a range put in", do_insert},
		       {"copy_file_range", do_copy},
		       {"sharing pages", do_share},
		       {"O_TRUNC", do_empty},
		       {"O_TRUNC and a write", do_refill}};

	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		open_files();
		learn();
		const int64_t rc = changes[i].change();
		if (rc < 0)
			fail_msg("%s: %s", changes[i].name, gpu4fs_strerror((int)rc));
		check_all(changes[i].name);
		check_all(changes[i].name);
		close_files();
		ok(gpu4fs_unlink(server, NULL, "file"));
		ok(gpu4fs_unlink(server, NULL, "other"));
	}
}

/* A new file may have an old one's number. */
static void another_file_of_the_name_is_another_file(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 4; round++) {
		open_files();
		learn();
		ok(gpu4fs_close(writer));
		ok(gpu4fs_unlink(server, NULL, "file"));
		ok(gpu4fs_close(reader));
		api_write_pattern("file", 100 + round, 10 * PAGE);
		ok(gpu4fs_open(server, NULL, "file", O_RDWR, 0, &writer));
		reader = api_open("file", O_RDONLY, 0);
		check_all("another file has the name");
		learn();
		close_files();
	}
}

static void reads_of_any_size_among_changes_of_any_kind(void **state)
{
	uint64_t random = 7;

	(void)state;
	open_files();
	for (uint32_t step = 0; step < 3000; step++) {
		const uint64_t at = api_random(&random) % (12 * PAGE);
		const size_t bytes = 1 + api_random(&random) % (api_random(&random) % 4 == 0 ? 8 * PAGE : 300);

		switch (api_random(&random) % 24) {
		case 0:
			api_pattern(wanted, step, 0, bytes);
			gives(gpu4fs_pwrite(writer, wanted, bytes, (int64_t)at), bytes);
			break;
		case 1:
			ok(gpu4fs_ftruncate(writer, (int64_t)at));
			break;
		case 2: {
			int64_t where = (int64_t)gpu4fs_lseek(reader, (int64_t)at, SEEK_SET);
			assert_int_equal(where, at);
			break;
		}
		case 3:
		case 4:
		case 5: { /* a sequential reader */
			const int64_t where = gpu4fs_lseek(reader, 0, SEEK_CUR);
			const int64_t has = gpu4fs_pread(writer, wanted, bytes, where);
			gives(gpu4fs_read(reader, got, bytes), has);
			assert_memory_equal(got, wanted, (size_t)has);
			break;
		}
		default:
			check(at, bytes, "something");
		}
	}
	close_files();
}

/* Files that were closed, and opened again, are found as they were. */
static void what_was_kept_serves_the_next_handle(void **state)
{
	bool kept = false;

	(void)state;
	open_files();
	for (uint32_t round = 0; round < 1000 && !kept; round++) {
		learn();
		ok(gpu4fs_close(reader));
		reader = api_open("file", O_RDONLY, 0);
		kept = !fs->pages || is_kept(0);
	}
	assert_true(kept);
	check_all("it was opened again");
	close_files();
}

#define STAMPS 400u
#define STAMPED_MOST (1u << 20) /* what one command moves */
static uint32_t stamp;		/* written, and known to be */
static size_t stamped;		/* bytes of a write and of a read */

static void *stamp_again(void *context)
{
	uint32_t *words = malloc(stamped);

	(void)context;
	for (uint32_t round = 1; words && round <= STAMPS; round++) {
		for (size_t k = 0; k < stamped / sizeof(round); k++)
			words[k] = round;
		if (gpu4fs_pwrite(writer, words, stamped, 0) != (int64_t)stamped)
			break;
		g4_store32_rel(&stamp, round);
		for (uint32_t k = 0; k < round % 8; k++)
			sched_yield(); /* now and then readers have the time to keep it */
	}
	free(words);
	g4_store32_rel(&stamp, STAMPS);
	return NULL;
}

static void read_beside_writes(size_t bytes)
{
	uint32_t *words = calloc(1, bytes), known = 0, last = 0;
	pthread_t thread;

	assert_non_null(words);
	stamped = bytes;
	gives(gpu4fs_pwrite(writer, words, bytes, 0), bytes);
	g4_store32_rel(&stamp, 0);
	assert_int_equal(pthread_create(&thread, NULL, stamp_again, NULL), 0);
	while (known < STAMPS) {
		known = g4_load32_acq(&stamp);
		gives(gpu4fs_pread(reader, words, bytes, 0), bytes);
		for (size_t k = 0; k < bytes / sizeof(*words); k++)
			if (words[k] != words[0])
				fail_msg("a read of %zu bytes has %u at its begin and %u at %zu", bytes, words[0],
					 words[k], k * sizeof(*words));
		assert_true(words[0] >= known && words[0] >= last);
		last = words[0];
	}
	pthread_join(thread, NULL);
	free(words);
}

/* A read that begins when a write has returned has it, whole: from pages that are kept, from pages and commands, and by one command. */
static void reads_beside_writes_have_an_order(void **state)
{
	static const size_t sizes[] = {3 * PAGE, 32 * PAGE, 33 * PAGE, STAMPED_MOST};

	(void)state;
	open_files();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		read_beside_writes(sizes[i]);
	close_files();
}

#define LONG_BYTES (2700000u)
#define LONGEST (4u << 20)

/* Reads of more than goes through a ring at once, from its pieces' ends and beside them, also behind the end of the file. */
static void *read_long(void *context)
{
	static const size_t sizes[] = {256u << 10, (256u << 10) + 1, 1u << 20, (1u << 20) + 1, LONGEST};
	static const uint64_t offsets[] = {0,	       1,      300000, LONG_BYTES - (256u << 10), LONG_BYTES - 1,
					   LONG_BYTES, LONGEST};
	uint8_t *has = malloc(LONGEST), *told = malloc(LONGEST);
	uint64_t wrong = !has || !told;

	(void)context;
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]) && wrong == 0; s++) {
		for (size_t o = 0; o < sizeof(offsets) / sizeof(offsets[0]); o++) {
			const uint64_t left = offsets[o] < LONG_BYTES ? LONG_BYTES - offsets[o] : 0;
			const uint64_t bytes = left < sizes[s] ? left : sizes[s];

			api_pattern(has, 3, offsets[o], bytes);
			wrong += gpu4fs_pread(reader, told, sizes[s], (int64_t)offsets[o]) != (int64_t)bytes;
			wrong += memcmp(has, told, bytes) != 0;
		}
	}
	free(has);
	free(told);
	return (void *)(uintptr_t)wrong;
}

static void long_reads_are_of_all_their_pieces(void **state)
{
	pthread_t threads[4];

	(void)state;
	api_write_pattern("long", 3, LONG_BYTES);
	reader = api_open("long", O_RDONLY, 0);
	assert_null(read_long(NULL));
	for (uint32_t t = 0; t < 4; t++)
		assert_int_equal(pthread_create(&threads[t], NULL, read_long, NULL), 0);
	for (uint32_t t = 0; t < 4; t++) {
		void *wrong;
		pthread_join(threads[t], &wrong);
		assert_null(wrong);
	}
	ok(gpu4fs_close(reader));
}

#define STREAM_BYTES (3u << 20)
#define STREAM_READ 300000u /* more than is read into pages */

static int64_t stream_write(void)
{
	return gpu4fs_pwrite(writer, "new", 3, 700001);
}

static int64_t stream_shrink(void)
{
	return gpu4fs_ftruncate(writer, 650001);
}

static int64_t stream_punch(void)
{
	return gpu4fs_fallocate(writer, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 600000, 9 * PAGE);
}

static int64_t stream_collapse(void)
{
	return gpu4fs_fallocate(writer, FALLOC_FL_COLLAPSE_RANGE, PAGE, 2 * PAGE);
}

static int64_t stream_share(void)
{
	return gpu4fs_share_range(other, 0, writer, 160 * PAGE, 3 * PAGE);
}

static void read_on(uint8_t *has, uint8_t *told, const char *after)
{
	const int64_t at = gpu4fs_lseek(reader, 0, SEEK_CUR);
	const int64_t bytes = gpu4fs_pread(writer, has, STREAM_READ, at), rc = gpu4fs_read(reader, told, STREAM_READ);

	assert_true(at >= 0 && bytes >= 0);
	if (rc != bytes || memcmp(has, told, (size_t)bytes) != 0)
		fail_msg("after %s a sequential reader was told %lld of %lld bytes at %lld, or other bytes", after,
			 (long long)rc, (long long)bytes, (long long)at);
}

/* What comes next was read ahead of a sequential reader, and has changed since. */
static void what_was_read_ahead_is_what_the_file_has(void **state)
{
	static const struct {
		const char *name;
		int64_t (*change)(void);
	} changes[] = {{"nothing", NULL},
		       {"a write", stream_write},
		       {"truncation", stream_shrink},
		       {"a hole", stream_punch},
		       {"a range taken out", stream_collapse},
		       {"sharing pages", stream_share},
		       {"O_TRUNC", do_empty},
		       {"O_TRUNC and a write", do_refill},
		       {"a write again", stream_write}};
	uint8_t *has = malloc(STREAM_READ), *told = malloc(STREAM_READ);

	(void)state;
	assert_true(has && told);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		open_files();
		ok(gpu4fs_close(reader));
		api_write_pattern("file", 8 + i, STREAM_BYTES);
		reader = api_open("file", O_RDONLY, 0);
		for (uint32_t round = 0; round < 3; round++) { /* the first one may change the time of access */
			gives(gpu4fs_lseek(reader, 0, SEEK_SET), 0);
			read_on(has, told, "nothing");
			read_on(has, told, "nothing");
		}
		const int64_t rc = changes[i].change ? changes[i].change() : 0;
		if (rc < 0)
			fail_msg("%s: %s", changes[i].name, gpu4fs_strerror((int)rc));
		for (uint32_t k = 0; k < STREAM_BYTES / STREAM_READ; k++)
			read_on(has, told, changes[i].name);
		close_files(); /* reads are under way, and forgotten */
		ok(gpu4fs_unlink(server, NULL, "file"));
		ok(gpu4fs_unlink(server, NULL, "other"));
	}
	free(has);
	free(told);
}

#define READ_MOST ((INT64_C(1) << 31) - PAGE) /* of read(2), whatever is asked for */
#define WINDOW (INT64_C(1) << 20)

/* The same MiB of memory again and again: nobody has room for what is read. */
static void no_read_gives_more_than_the_kernel_does(void **state)
{
	const int memory = memfd_create("many times", MFD_CLOEXEC);
	const int64_t room = READ_MOST + PAGE + WINDOW;
	uint8_t *buffer = mmap(NULL, (size_t)room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)state;
	assert_true(memory >= 0 && buffer != MAP_FAILED);
	assert_int_equal(ftruncate(memory, WINDOW), 0);
	for (int64_t at = 0; at < room; at += WINDOW)
		assert_true(mmap(buffer + at, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) !=
			    MAP_FAILED);
	reader = api_open("sparse", O_RDWR | O_CREAT, 0644);
	ok(gpu4fs_ftruncate(reader, room));
	for (uint32_t round = 0; round < 3; round++) /* the first one may change the time of access */
		gives(gpu4fs_pread(reader, buffer, WINDOW, 0), WINDOW);
	gives(gpu4fs_pread(reader, buffer, (size_t)room, 0), READ_MOST);
	gives(gpu4fs_pread(reader, buffer, SIZE_MAX, room - WINDOW), WINDOW);
	ok(gpu4fs_close(reader));
	assert_int_equal(munmap(buffer, (size_t)room), 0);
	assert_int_equal(close(memory), 0);
}

#define CUT (3u << 19) /* in the middle of a long read's second piece */
static uint32_t cuts_end;

static void *cut_again(void *context)
{
	(void)context;
	for (uint32_t round = 0; round < 60; round++)
		if (gpu4fs_ftruncate(writer, CUT) != 0 || gpu4fs_ftruncate(writer, LONGEST) != 0)
			break;
	g4_store32_rel(&cuts_end, 1);
	return NULL;
}

/* A long read is as long as one of its pieces found the file, and nothing of what lies behind a short piece comes with it. */
static void long_reads_end_with_the_first_short_piece(void **state)
{
	uint8_t *has = malloc(CUT), *told = malloc(LONGEST);
	pthread_t thread;

	(void)state;
	assert_true(has && told);
	server = api_in_process();
	api_write_pattern("long", 4, CUT);
	api_pattern(has, 4, 0, CUT);
	ok(gpu4fs_open(server, NULL, "long", O_RDWR, 0, &writer));
	reader = api_open("long", O_RDONLY, 0);
	g4_store32_rel(&cuts_end, 0);
	assert_int_equal(pthread_create(&thread, NULL, cut_again, NULL), 0);
	for (bool last = false; !last;) {
		last = g4_load32_acq(&cuts_end) != 0;
		memset(told, 0xee, LONGEST);
		const int64_t rc = gpu4fs_pread(reader, told, LONGEST, 0);
		if (rc != CUT && rc != LONGEST && rc % (1 << 20) != 0)
			fail_msg("a read beside truncation gave %lld bytes", (long long)rc);
		assert_true(rc >= CUT);
		assert_memory_equal(told, has, CUT);
		for (int64_t k = CUT; k < LONGEST; k++)
			if (told[k] != (k < rc ? 0 : 0xee))
				fail_msg("byte %lld of a read of %lld is %u", (long long)k, (long long)rc, told[k]);
	}
	pthread_join(thread, NULL);
	gives(gpu4fs_pread(reader, told, LONGEST, 0), LONGEST);
	ok(gpu4fs_close(reader));
	ok(gpu4fs_close(writer));
	free(has);
	free(told);
}

static uint64_t damage_met(gpu4fs_file *file)
{
	struct gpu4fs_health health = {0};

	ok(gpu4fs_health(server, &health));
	const uint64_t before = health.damaged_since_mount;
	fails(gpu4fs_pread(file, got, 2 * PAGE, 5 * PAGE), EIO);
	ok(gpu4fs_health(server, &health));
	return health.damaged_since_mount - before;
}

/* What lies in front of a page that cannot be read is told, the page is an error each time, and what lies behind it is told, too. */
static void an_unreadable_page_ends_reads_and_is_an_error(void **state)
{
	static const uint64_t bad[] = {5, 300}; /* among pages that are kept; in the second piece of a long read */
	uint8_t *has = malloc(LONG_BYTES), *told = malloc(LONG_BYTES);

	(void)state;
	assert_true(has && told);
	api_pattern(has, 5, 0, LONG_BYTES);
	ok(api_unmount(fs));
	api_image("bad.image", 64 << 20);
	fs = api_mount("bad.image", true);
	api_write_pattern("file", 5, LONG_BYTES);
	ok(api_unmount(fs));
	for (size_t b = 0; b < 2; b++)
		api_flip_in_image("bad.image", has + bad[b] * PAGE);
	fs = api_mount("bad.image", false);
	reader = api_open("file", O_RDONLY, 0);
	for (uint32_t round = 0; round < 4; round++) {
		gives(gpu4fs_pread(reader, told, 4 * PAGE, PAGE), 4 * PAGE);
		gives(gpu4fs_pread(reader, told, 8 * PAGE, 3 * PAGE + 10), 2 * PAGE - 10);
		assert_memory_equal(told, has + 3 * PAGE + 10, 2 * PAGE - 10);
		fails(gpu4fs_pread(reader, told, 8 * PAGE, 5 * PAGE + 10), EIO);
		gives(gpu4fs_pread(reader, told, 2 * PAGE, 6 * PAGE), 2 * PAGE);
		assert_memory_equal(told, has + 6 * PAGE, 2 * PAGE);
		gives(gpu4fs_pread(reader, told, LONG_BYTES, 6 * PAGE), 294 * PAGE);
		assert_memory_equal(told, has + 6 * PAGE, 294 * PAGE);
		fails(gpu4fs_pread(reader, told, LONG_BYTES, 300 * PAGE), EIO);
		gives(gpu4fs_pread(reader, told, LONG_BYTES, 301 * PAGE), LONG_BYTES - 301 * PAGE);
		assert_memory_equal(told, has + 301 * PAGE, LONG_BYTES - 301 * PAGE);
	}
	server = api_in_process();
	ok(gpu4fs_open(server, NULL, "file", O_RDONLY, 0, &writer));
	assert_int_equal(damage_met(reader), damage_met(writer)); /* it is asked for once */
	ok(gpu4fs_close(writer));
	ok(gpu4fs_close(reader));
	free(has);
	free(told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(every_change_is_seen_at_once),
		api_test(another_file_of_the_name_is_another_file),
		api_test(reads_of_any_size_among_changes_of_any_kind),
		api_test(what_was_kept_serves_the_next_handle),
		api_test(reads_beside_writes_have_an_order),
		api_test(long_reads_are_of_all_their_pieces),
		api_test(what_was_read_ahead_is_what_the_file_has),
		api_test(long_reads_end_with_the_first_short_piece),
		api_test(no_read_gives_more_than_the_kernel_does),
		api_test(an_unreadable_page_ends_reads_and_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
