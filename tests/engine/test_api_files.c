/* SPDX-License-Identifier: Apache-2.0 */
/* File contents through the public API: reading, writing, length, holes, space, handles. */
#include "api_fixture.h"

#define PAGE 4096u

/* ------------------------------------------------------------------ content */

static void what_was_written_is_read_back_at_every_size(void **state)
{
	static const size_t sizes[] = {0,    1,	   127,	  128,	 129,	255,	256,	 257,	  4095,	   4096,
				       4097, 8191, 12289, 65536, 65537, 524288, 1048577, 2097152, 2097153, 5000001};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		api_write_pattern("/f", i, sizes[i]);
		api_check_pattern("/f", i, sizes[i]);
	}
}

static void small_overwrites_change_only_their_bytes(void **state)
{
	enum { BYTES = 5 * PAGE + 100 };
	static unsigned char model[BYTES];
	uint64_t random = 1;
	gpu4fs_file *file;

	(void)state;
	api_write_pattern("/f", 7, BYTES);
	api_pattern(model, 7, 0, BYTES);
	file = api_open("/f", O_RDWR, 0);
	for (int i = 0; i < 300; i++) {
		size_t offset = api_random(&random) % BYTES;
		size_t bytes = api_random(&random) % (i % 2 ? 20 : 6000);

		if (bytes > BYTES - offset)
			bytes = BYTES - offset;
		api_pattern(model + offset, (uint64_t)i, 0, bytes);
		gives(gpu4fs_pwrite(file, model + offset, bytes, (int64_t)offset), bytes);
		if (i % 50 == 0)
			ok(gpu4fs_fsync(file));
		if (i % 20 == 0)
			api_check_bytes(file, model, BYTES);
	}
	api_check_bytes(file, model, BYTES);
	ok(gpu4fs_close(file));
}

/* With a flag of open(2) alone, in a file system that has never heard of it; without sums nothing is believed to be the same. */
static void what_is_written_twice_is_stored_once_where_the_writer_says_so(void **state)
{
	enum { BYTES = 40 * PAGE };
	static unsigned char bytes[BYTES];
	static const int flags[] = {GPU4FS_O_DEDUP, GPU4FS_O_NODEDUP, 0, GPU4FS_O_DEDUP};
	struct gpu4fs_dedup_stats stats;
	gpu4fs *here = api_in_process(); /* nobody else is told */
	/* a GPU's memory has a table for an image only that was told to deduplicate before the mount */
	const bool shares = getenv("G4_TEST_ENGINE") == NULL;

	(void)state;
	api_pattern(bytes, 3, 0, BYTES);
	for (int i = 0; i < 4; i++) {
		char name[8];
		snprintf(name, sizeof(name), "/f%d", i);
		gpu4fs_file *file = api_open(name, O_RDWR | O_CREAT | flags[i], 0644);
		gives(gpu4fs_pwrite(file, bytes, BYTES, 0), BYTES);
		ok(gpu4fs_fsync(file));
		api_check_bytes(file, bytes, BYTES);
		ok(gpu4fs_close(file));
	}
	ok(gpu4fs_dedup_stats(here, &stats));
	assert_int_equal(stats.hits, shares ? 40 : 0);
	assert_int_equal(stats.misses, shares ? 40 : 0);
	assert_int_equal(stats.saved_bytes, shares ? BYTES : 0);
	assert_int_equal(stats.hints, shares ? 40 : 0);
	ok(gpu4fs_unlink(fs, NULL, "/f0"));
	ok(gpu4fs_syncfs(fs));
	gives(gpu4fs_dedup_prune_older(here, 2), 0); /* of today */
	fails((int)gpu4fs_dedup_prune_older(here, UINT32_MAX), EINVAL);
	gives(gpu4fs_dedup_prune(here), shares ? 40 : 0); /* one owner is left */
	gives(gpu4fs_dedup_prune(here), 0);
}

static void reading_at_or_behind_the_end_gives_nothing(void **state)
{
	gpu4fs_file *file;
	char buffer[16];

	(void)state;
	api_write_text("/f", "abc");
	file = api_open("/f", O_RDONLY, 0);
	gives(gpu4fs_pread(file, buffer, 16, 3), 0);
	gives(gpu4fs_pread(file, buffer, 16, 4), 0);
	gives(gpu4fs_pread(file, buffer, 16, INT64_MAX), 0);
	gives(gpu4fs_pread(file, buffer, 16, 2), 1);
	fails(gpu4fs_pread(file, buffer, 16, -1), EINVAL);
	ok(gpu4fs_close(file));
}

static void a_write_behind_the_end_leaves_zeros_between(void **state)
{
	static const size_t gaps[] = {1, 100, 200, 4000, 4093, 4096, 8192, 100000};

	(void)state;
	for (size_t i = 0; i < sizeof(gaps) / sizeof(gaps[0]); i++) {
		size_t bytes = 3 + gaps[i] + 3;
		char *model = calloc(1, bytes);
		gpu4fs_file *file = api_open("/f", O_RDWR | O_CREAT | O_TRUNC, 0644);

		memcpy(model, "abc", 3);
		memcpy(model + 3 + gaps[i], "xyz", 3);
		gives(gpu4fs_pwrite(file, "abc", 3, 0), 3);
		gives(gpu4fs_pwrite(file, "xyz", 3, (int64_t)(3 + gaps[i])), 3);
		api_check_bytes(file, model, bytes);
		ok(gpu4fs_close(file));
		free(model);
	}
}

static void a_zero_length_write_changes_nothing(void **state)
{
	gpu4fs_file *file = api_open("/f", O_RDWR | O_CREAT, 0644);

	(void)state;
	gives(gpu4fs_pwrite(file, "", 0, 1000), 0);
	gives(gpu4fs_pwritev(file, NULL, 0, 1000), 0);
	gives(gpu4fs_preadv(file, NULL, 0, 0), 0);
	assert_int_equal(api_lstat("/f").size, 0);
	ok(gpu4fs_close(file));
}

static void vectors_are_read_and_written_in_order(void **state)
{
	gpu4fs_file *file = api_open("/f", O_RDWR | O_CREAT, 0644);
	char a[3], b[5], c[10];
	char text[] = "abcdefghij";
	struct iovec out[3] = {{text, 3}, {NULL, 0}, {text + 3, 7}};
	struct iovec in[3] = {{a, 3}, {b, 5}, {c, 10}};

	(void)state;
	gives(gpu4fs_pwritev(file, out, 3, 5), 10);
	gives(gpu4fs_preadv(file, in, 3, 5), 10);
	assert_memory_equal(a, "abc", 3);
	assert_memory_equal(b, "defgh", 5);
	assert_memory_equal(c, "ij", 2);
	fails(gpu4fs_preadv(file, in, -1, 0), EINVAL);
	fails(gpu4fs_preadv(file, in, 1025, 0), EINVAL);
	ok(gpu4fs_close(file));
}

static void large_vectors_arrive_whole(void **state)
{
	enum { PART = 200000, PARTS = 5 };
	char *data = malloc(PART * PARTS);
	gpu4fs_file *file = api_open("/f", O_RDWR | O_CREAT, 0644);
	struct iovec iov[PARTS];

	(void)state;
	api_pattern(data, 3, 0, PART * PARTS);
	for (int i = 0; i < PARTS; i++)
		iov[i] = (struct iovec){data + (size_t)i * PART, PART};
	gives(gpu4fs_pwritev(file, iov, PARTS, 0), PART * PARTS);
	api_check_bytes(file, data, PART * PARTS);
	ok(gpu4fs_close(file));
	free(data);
}

/* ------------------------------------------------------------------ position and append */

static void the_position_follows_reads_writes_and_seeks(void **state)
{
	gpu4fs_file *file = api_open("/f", O_RDWR | O_CREAT, 0644);
	char buffer[8];

	(void)state;
	gives(gpu4fs_write(file, "hello", 5), 5);
	gives(gpu4fs_write(file, "world", 5), 5);
	gives(gpu4fs_lseek(file, 0, SEEK_CUR), 10);
	gives(gpu4fs_lseek(file, 3, SEEK_SET), 3);
	gives(gpu4fs_read(file, buffer, 4), 4);
	assert_memory_equal(buffer, "lowo", 4);
	gives(gpu4fs_lseek(file, -1, SEEK_CUR), 6);
	gives(gpu4fs_lseek(file, -2, SEEK_END), 8);
	gives(gpu4fs_read(file, buffer, 8), 2);
	gives(gpu4fs_read(file, buffer, 8), 0);
	gives(gpu4fs_pread(file, buffer, 8, 0), 8);
	gives(gpu4fs_lseek(file, 0, SEEK_CUR), 10);
	gives(gpu4fs_lseek(file, 100, SEEK_END), 110);
	fails(gpu4fs_lseek(file, -1, SEEK_SET), EINVAL);
	fails(gpu4fs_lseek(file, -111, SEEK_CUR), EINVAL);
	fails(gpu4fs_lseek(file, 0, 77), EINVAL);
	gives(gpu4fs_lseek(file, 0, SEEK_CUR), 110);
	ok(gpu4fs_close(file));
}

static void appending_handles_write_at_the_end_wherever_they_stand(void **state)
{
	gpu4fs_file *a = api_open("/f", O_RDWR | O_CREAT | O_APPEND, 0644);
	gpu4fs_file *b = api_open("/f", O_WRONLY | O_APPEND, 0);
	char text[] = "78";
	struct iovec iov[2] = {{text, 1}, {text + 1, 1}};

	(void)state;
	gives(gpu4fs_write(a, "12", 2), 2);
	gives(gpu4fs_write(b, "34", 2), 2);
	gives(gpu4fs_pwrite(a, "56", 2, 0), 2);
	gives(gpu4fs_lseek(a, 0, SEEK_CUR), 2);
	gives(gpu4fs_pwritev(a, iov, 2, 0), 2);
	gives(gpu4fs_write(a, "9", 1), 1);
	gives(gpu4fs_lseek(a, 0, SEEK_CUR), 9);
	ok(gpu4fs_ftruncate(a, 1));
	gives(gpu4fs_write(b, "x", 1), 1);
	api_check_text("/f", "1x");
	ok(gpu4fs_close(a));
	ok(gpu4fs_close(b));
}

enum { APPEND_THREADS = 4, APPEND_RECORDS = 200, RECORD = 100 };

static void *append_records(void *argument)
{
	char name = *(char *)argument, record[RECORD];
	gpu4fs_file *file;

	memset(record, name, RECORD);
	if (gpu4fs_open(fs, NULL, "/log", O_WRONLY | O_APPEND, 0, &file))
		return (void *)1;
	for (int i = 0; i < APPEND_RECORDS; i++) {
		struct iovec iov[2] = {{record, 40}, {record + 40, RECORD - 40}};
		int64_t done = i % 2 ? gpu4fs_write(file, record, RECORD) : gpu4fs_pwritev(file, iov, 2, 0);

		if (done != RECORD)
			return (void *)1;
	}
	return gpu4fs_close(file) ? (void *)1 : NULL;
}

static void records_appended_by_threads_are_neither_torn_nor_lost(void **state)
{
	char names[APPEND_THREADS] = {'a', 'b', 'c', 'd'}, record[RECORD];
	pthread_t threads[APPEND_THREADS];
	int counts[APPEND_THREADS] = {0};
	gpu4fs_file *file;

	(void)state;
	api_touch("/log", 0644);
	for (int i = 0; i < APPEND_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, append_records, &names[i]), 0);
	for (int i = 0; i < APPEND_THREADS; i++) {
		void *result;

		pthread_join(threads[i], &result);
		assert_null(result);
	}
	assert_int_equal(api_lstat("/log").size, APPEND_THREADS * APPEND_RECORDS * RECORD);
	file = api_open("/log", O_RDONLY, 0);
	while (gpu4fs_read(file, record, RECORD) == RECORD) {
		assert_in_range(record[0], 'a', 'd');
		for (int i = 1; i < RECORD; i++)
			assert_int_equal(record[i], record[0]);
		counts[record[0] - 'a']++;
	}
	for (int i = 0; i < APPEND_THREADS; i++)
		assert_int_equal(counts[i], APPEND_RECORDS);
	ok(gpu4fs_close(file));
}

enum { STRIPE_THREADS = 4, STRIPES = 32 };

static void *write_stripes(void *argument)
{
	int number = *(int *)argument;
	char page[PAGE];
	gpu4fs_file *file;

	if (gpu4fs_open(fs, NULL, "/shared", O_WRONLY, 0, &file))
		return (void *)1;
	for (uint64_t i = 0; i < STRIPES; i++) {
		uint64_t offset = (i * STRIPE_THREADS + (uint64_t)number) * PAGE / 2; /* two writers a page */

		api_pattern(page, 5, offset, PAGE / 2);
		if (gpu4fs_pwrite(file, page, PAGE / 2, (int64_t)offset) != PAGE / 2)
			return (void *)1;
	}
	return gpu4fs_close(file) ? (void *)1 : NULL;
}

static void threads_write_disjoint_parts_of_one_file(void **state)
{
	pthread_t threads[STRIPE_THREADS];
	int numbers[STRIPE_THREADS];

	(void)state;
	api_touch("/shared", 0644);
	for (int i = 0; i < STRIPE_THREADS; i++) {
		numbers[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, write_stripes, &numbers[i]), 0);
	}
	for (int i = 0; i < STRIPE_THREADS; i++) {
		void *result;

		pthread_join(threads[i], &result);
		assert_null(result);
	}
	api_check_pattern("/shared", 5, STRIPE_THREADS * STRIPES * PAGE / 2);
}

/* ------------------------------------------------------------------ length */

static void shrinking_and_growing_again_shows_zeros(void **state)
{
	static const size_t cuts[] = {0, 1, 100, 128, 129, 4095, 4096, 4097, 10000, 3 * PAGE};
	enum { BYTES = 4 * PAGE + 17 };
	static unsigned char model[BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
		for (int sync = 0; sync < 2; sync++) {
			gpu4fs_file *file;

			api_write_pattern("/f", i, BYTES);
			api_pattern(model, i, 0, BYTES);
			file = api_open("/f", O_RDWR, 0);
			if (sync)
				ok(gpu4fs_fsync(file));
			ok(gpu4fs_ftruncate(file, (int64_t)cuts[i]));
			api_check_bytes(file, model, cuts[i]);
			if (sync)
				ok(gpu4fs_fsync(file));
			ok(gpu4fs_truncate(fs, NULL, "/f", BYTES));
			memset(model + cuts[i], 0, BYTES - cuts[i]);
			api_check_bytes(file, model, BYTES);
			ok(gpu4fs_close(file));
		}
	}
}

static void small_files_grow_and_shrink_across_the_inline_limit(void **state)
{
	static const size_t sizes[] = {50, 128, 129, 40, 300, 128, 0, 64, 5000, 100};
	unsigned char model[5000] = {0};
	gpu4fs_file *file = api_open("/f", O_RDWR | O_CREAT, 0644);
	size_t size = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		ok(gpu4fs_ftruncate(file, (int64_t)sizes[i]));
		if (sizes[i] < size)
			memset(model + sizes[i], 0, sizeof(model) - sizes[i]);
		size = sizes[i];
		api_check_bytes(file, model, size);
		if (size) {
			api_pattern(model + size / 2, i, 0, size - size / 2);
			gives(gpu4fs_pwrite(file, model + size / 2, size - size / 2, (int64_t)(size / 2)),
			      size - size / 2);
		}
		api_check_bytes(file, model, size);
	}
	ok(gpu4fs_close(file));
}

static void bad_lengths_are_refused(void **state)
{
	gpu4fs_file *file;

	(void)state;
	api_touch("/f", 0644);
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	ok(gpu4fs_mknod(fs, NULL, "/fifo", S_IFIFO | 0644, 0));
	fails(gpu4fs_truncate(fs, NULL, "/f", -1), EINVAL);
	fails(gpu4fs_truncate(fs, NULL, "/d", 0), EISDIR);
	fails(gpu4fs_truncate(fs, NULL, "/fifo", 0), EINVAL);
	fails(gpu4fs_truncate(fs, NULL, "/none", 0), ENOENT);
	file = api_open("/f", O_RDONLY, 0);
	fails(gpu4fs_ftruncate(file, 0), EINVAL);
	ok(gpu4fs_close(file));
}

static void files_reach_as_far_as_offsets_do(void **state)
{
	const int64_t most = INT64_MAX, last_page = most / PAGE * PAGE;
	gpu4fs_file *file = api_open("/f", O_RDWR | O_CREAT, 0644);
	char buffer[4] = "";

	(void)state;
	gives(gpu4fs_pwrite(file, "z", 1, most - 1), 1);
	assert_int_equal(api_lstat("/f").size, most);
	assert_true(api_lstat("/f").blocks < 1000);
	gives(gpu4fs_pread(file, buffer, 4, most - 2), 2);
	assert_memory_equal(buffer, "\0z", 2);
	fails(gpu4fs_pwrite(file, "z", 1, most), EFBIG);
	gives(gpu4fs_pwrite(file, "yy", 2, most - 1), 1);
	gives(gpu4fs_lseek(file, 0, SEEK_DATA), last_page);
	gives(gpu4fs_pread(file, buffer, 4, INT64_C(1) << 61), 4);
	assert_memory_equal(buffer, "\0\0\0", 4);
	ok(gpu4fs_ftruncate(file, 0));
	ok(gpu4fs_ftruncate(file, most));
	ok(gpu4fs_close(file));
	ok(gpu4fs_unlink(fs, NULL, "/f"));
}

/* ------------------------------------------------------------------ holes and space */

static void holes_and_data_are_found(void **state)
{
	const int64_t mib = 1 << 20;
	gpu4fs_file *file = api_open("/f", O_RDWR | O_CREAT, 0644);
	char page[PAGE];

	(void)state;
	memset(page, 1, PAGE);
	gives(gpu4fs_pwrite(file, page, PAGE, mib), PAGE);
	gives(gpu4fs_pwrite(file, page, PAGE, 3 * mib), PAGE);
	ok(gpu4fs_ftruncate(file, 4 * mib));
	for (int sync = 0; sync < 2; sync++) {
		gives(gpu4fs_lseek(file, 0, SEEK_HOLE), 0);
		gives(gpu4fs_lseek(file, 0, SEEK_DATA), mib);
		gives(gpu4fs_lseek(file, mib, SEEK_DATA), mib);
		gives(gpu4fs_lseek(file, mib + 5, SEEK_DATA), mib + 5);
		gives(gpu4fs_lseek(file, mib + 5, SEEK_HOLE), mib + PAGE);
		gives(gpu4fs_lseek(file, mib + PAGE, SEEK_DATA), 3 * mib);
		gives(gpu4fs_lseek(file, 3 * mib, SEEK_HOLE), 3 * mib + PAGE);
		fails(gpu4fs_lseek(file, 3 * mib + PAGE, SEEK_DATA), ENXIO);
		fails(gpu4fs_lseek(file, 4 * mib, SEEK_HOLE), ENXIO);
		fails(gpu4fs_lseek(file, 4 * mib, SEEK_DATA), ENXIO);
		fails(gpu4fs_lseek(file, -1, SEEK_DATA), ENXIO);
		ok(gpu4fs_fsync(file));
	}
	assert_true(api_lstat("/f").blocks < 64);
	ok(gpu4fs_close(file));
}

static void the_end_of_a_full_file_counts_as_a_hole(void **state)
{
	gpu4fs_file *file;

	(void)state;
	api_write_pattern("/small", 1, 10);
	api_write_pattern("/big", 1, 3 * PAGE + 5);
	file = api_open("/small", O_RDONLY, 0);
	gives(gpu4fs_lseek(file, 3, SEEK_HOLE), 10);
	gives(gpu4fs_lseek(file, 3, SEEK_DATA), 3);
	ok(gpu4fs_close(file));
	file = api_open("/big", O_RDONLY, 0);
	gives(gpu4fs_lseek(file, 0, SEEK_HOLE), 3 * PAGE + 5);
	ok(gpu4fs_close(file));
}

/* Applies a mode to a range of a patterned file and checks every byte. */
static void check_fallocate(uint32_t mode, size_t offset, size_t bytes, bool sync)
{
	enum { SIZE = 6 * PAGE + 1000, MOST = 12 * PAGE };
	static unsigned char model[MOST];
	size_t size = SIZE, end = offset + bytes;
	gpu4fs_file *file;

	memset(model, 0, sizeof(model));
	api_pattern(model, mode, 0, SIZE);
	api_write_pattern("/f", mode, SIZE);
	file = api_open("/f", O_RDWR, 0);
	if (sync)
		ok(gpu4fs_fsync(file));
	ok(gpu4fs_fallocate(file, mode, (int64_t)offset, (int64_t)bytes));
	if (mode & (GPU4FS_FALLOC_PUNCH_HOLE | GPU4FS_FALLOC_ZERO_RANGE))
		memset(model + offset, 0, bytes);
	if (!(mode & GPU4FS_FALLOC_KEEP_SIZE) && end > size)
		size = end;
	api_check_bytes(file, model, size);
	if (sync)
		ok(gpu4fs_fsync(file));
	/* What lies behind the end must not show when the file grows over it. */
	if (size < MOST) {
		memset(model + size, 0, MOST - size);
		ok(gpu4fs_ftruncate(file, MOST));
		api_check_bytes(file, model, MOST);
	}
	ok(gpu4fs_close(file));
}

static void fallocate_changes_exactly_its_range_in_every_mode(void **state)
{
	static const uint32_t modes[] = {0, GPU4FS_FALLOC_KEEP_SIZE, GPU4FS_FALLOC_PUNCH_HOLE | GPU4FS_FALLOC_KEEP_SIZE,
					 GPU4FS_FALLOC_ZERO_RANGE, GPU4FS_FALLOC_ZERO_RANGE | GPU4FS_FALLOC_KEEP_SIZE};
	static const struct {
		size_t offset, bytes;
	} ranges[] = {
		{0, 1},
		{0, PAGE},
		{PAGE, 2 * PAGE},
		{100, 200},
		{PAGE - 1, 2},
		{PAGE - 1, PAGE + 2},
		{10, 5 * PAGE},
		{5 * PAGE + 1, PAGE},
		{6 * PAGE, 2 * PAGE},
		{6 * PAGE + 500, 3 * PAGE},
		{8 * PAGE, PAGE},
		{8 * PAGE + 7, 100},
		{0, 10 * PAGE},
	};

	(void)state;
	for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
		for (size_t r = 0; r < sizeof(ranges) / sizeof(ranges[0]); r++) {
			check_fallocate(modes[m], ranges[r].offset, ranges[r].bytes, false);
			check_fallocate(modes[m], ranges[r].offset, ranges[r].bytes, true);
		}
	}
}

/* And what refuses them leaves times and contents. */
static void ranges_are_inserted_and_taken_out(void **state)
{
	enum { SIZE = 20 * PAGE + 77 };
	static unsigned char model[SIZE + 5 * PAGE];
	static const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	gpu4fs_file *file;

	(void)state;
	for (uint32_t tries = 0; tries < 2; tries++) {
		api_pattern(model, 3, 0, SIZE);
		api_write_pattern("/f", 3, SIZE);
		file = api_open("/f", O_RDWR, 0);
		if (tries)
			ok(gpu4fs_fsync(file));
		ok(gpu4fs_futimens(file, old));
		fails(gpu4fs_fallocate(file, GPU4FS_FALLOC_INSERT_RANGE, 1, PAGE), EINVAL);
		fails(gpu4fs_fallocate(file, GPU4FS_FALLOC_INSERT_RANGE, 0, PAGE + 1), EINVAL);
		fails(gpu4fs_fallocate(file, GPU4FS_FALLOC_INSERT_RANGE, 21 * PAGE, PAGE), EINVAL);
		fails(gpu4fs_fallocate(file, GPU4FS_FALLOC_INSERT_RANGE, 0, INT64_MAX / PAGE * PAGE), EFBIG);
		fails(gpu4fs_fallocate(file, GPU4FS_FALLOC_COLLAPSE_RANGE, 0, 21 * PAGE), EINVAL);
		fails(gpu4fs_fallocate(file, GPU4FS_FALLOC_COLLAPSE_RANGE | GPU4FS_FALLOC_KEEP_SIZE, 0, PAGE), EINVAL);
		fails(gpu4fs_fallocate(file, GPU4FS_FALLOC_COLLAPSE_RANGE | GPU4FS_FALLOC_INSERT_RANGE, 0, PAGE),
		      EINVAL);
		api_check_bytes(file, model, SIZE);
		assert_int_equal(api_lstat("/f").mtime.tv_sec, 1000);
		ok(gpu4fs_fallocate(file, GPU4FS_FALLOC_INSERT_RANGE, 7 * PAGE, 5 * PAGE));
		memmove(model + 12 * PAGE, model + 7 * PAGE, SIZE - 7 * PAGE);
		memset(model + 7 * PAGE, 0, 5 * PAGE);
		api_check_bytes(file, model, SIZE + 5 * PAGE);
		assert_int_not_equal(api_lstat("/f").mtime.tv_sec, 1000);
		ok(gpu4fs_futimens(file, old));
		ok(gpu4fs_fallocate(file, GPU4FS_FALLOC_COLLAPSE_RANGE, 3 * PAGE, 11 * PAGE));
		memmove(model + 3 * PAGE, model + 14 * PAGE, SIZE + 5 * PAGE - 14 * PAGE);
		api_check_bytes(file, model, SIZE - 6 * PAGE);
		assert_int_not_equal(api_lstat("/f").mtime.tv_sec, 1000);
		ok(gpu4fs_close(file));
		file = api_open("/f", O_RDONLY, 0);
		fails(gpu4fs_fallocate(file, GPU4FS_FALLOC_INSERT_RANGE, 0, PAGE), EBADF);
		ok(gpu4fs_close(file));
	}
}

static void fallocate_takes_and_punching_gives_back_space(void **state)
{
	const uint64_t mib = 1 << 20;
	gpu4fs_file *file = api_open("/f", O_RDWR | O_CREAT, 0644);
	char byte = 1;

	(void)state;
	ok(gpu4fs_fallocate(file, GPU4FS_FALLOC_KEEP_SIZE, 0, 4 * (int64_t)mib));
	assert_int_equal(api_lstat("/f").size, 0);
	assert_in_range(api_lstat("/f").blocks, 4 * mib / 512, 5 * mib / 512);
	ok(gpu4fs_fallocate(file, 0, 0, 4 * (int64_t)mib));
	assert_int_equal(api_lstat("/f").size, 4 * mib);
	gives(gpu4fs_pwrite(file, &byte, 1, 2 * (int64_t)mib), 1);
	gives(gpu4fs_pread(file, &byte, 1, 2 * (int64_t)mib + 1), 1);
	assert_int_equal(byte, 0);
	ok(gpu4fs_fallocate(file, GPU4FS_FALLOC_PUNCH_HOLE | GPU4FS_FALLOC_KEEP_SIZE, 0, 4 * (int64_t)mib));
	ok(gpu4fs_fsync(file));
	assert_true(api_lstat("/f").blocks < 64);
	assert_int_equal(api_lstat("/f").size, 4 * mib);
	ok(gpu4fs_close(file));
}

static void fallocate_gives_all_or_nothing(void **state)
{
	gpu4fs_file *file = api_open("/f", O_RDWR | O_CREAT, 0644);
	struct gpu4fs_statfs before, after;
	int64_t available, more = 0;
	int rc = 0;

	(void)state;
	/* sums of a few pages take a part of a slab, which is kept a while */
	ok(gpu4fs_fallocate(file, 0, 0, 16 * PAGE));
	ok(gpu4fs_ftruncate(file, 0));
	ok(gpu4fs_syncfs(fs));
	ok(gpu4fs_statfs(fs, &before));
	available = (int64_t)before.blocks_available * PAGE;
	for (int mode = 0; mode < 2; mode++) {
		fails(gpu4fs_fallocate(file, mode ? GPU4FS_FALLOC_ZERO_RANGE : 0, 0, available + PAGE), ENOSPC);
		assert_int_equal(api_lstat("/f").size, 0);
		assert_int_equal(api_lstat("/f").blocks, 0);
		ok(gpu4fs_statfs(fs, &after));
		assert_int_equal(after.blocks_available, before.blocks_available);
	}
	ok(gpu4fs_fallocate(file, 0, 0, available));
	ok(gpu4fs_fallocate(file, GPU4FS_FALLOC_ZERO_RANGE, 0, available)); /* nothing more of it */
	while (rc == 0 &&
	       more <= 2) { /* what was offered is what is certain: of a page for sums all, and a slab for a few */
		rc = gpu4fs_fallocate(file, 0, available + more * PAGE, PAGE);
		more += rc == 0;
	}
	fails(rc, ENOSPC);
	assert_int_equal(api_lstat("/f").size, available + more * PAGE);
	ok(gpu4fs_ftruncate(file, 0));
	ok(gpu4fs_syncfs(fs));
	ok(gpu4fs_statfs(fs, &after));
	assert_int_equal(after.blocks_available, before.blocks_available);
	ok(gpu4fs_close(file));
}

static void what_is_written_again_is_counted_once(void **state)
{
	gpu4fs_file *file = api_open("/f", O_RDWR | O_CREAT, 0644);
	char page[PAGE];
	uint64_t blocks;

	(void)state;
	memset(page, 1, PAGE);
	ok(gpu4fs_fallocate(file, 0, 0, 8 * PAGE));
	blocks = api_lstat("/f").blocks;
	assert_int_equal(blocks, 8 * PAGE / 512);
	for (int round = 0; round < 2; round++) {
		for (int at = 0; at < 8; at++)
			gives(gpu4fs_pwrite(file, page, PAGE, at * PAGE), PAGE);
		assert_int_equal(api_lstat("/f").blocks, blocks);
		ok(gpu4fs_fsync(file));
		assert_int_equal(api_lstat("/f").blocks, blocks);
	}
	ok(gpu4fs_ftruncate(file, 0));
	gives(gpu4fs_pwrite(file, page, PAGE, 0), PAGE);
	assert_int_equal(api_lstat("/f").blocks, PAGE / 512);
	ok(gpu4fs_close(file));
}

static void fallocate_refuses_what_makes_no_sense(void **state)
{
	gpu4fs_file *file = api_open("/f", O_RDWR | O_CREAT, 0644);

	(void)state;
	fails(gpu4fs_fallocate(file, 0, -1, 10), EINVAL);
	fails(gpu4fs_fallocate(file, 0, 0, 0), EINVAL);
	fails(gpu4fs_fallocate(file, 0, 0, -1), EINVAL);
	fails(gpu4fs_fallocate(file, 0, INT64_MAX - 1, 10), EFBIG);
	fails(gpu4fs_fallocate(file, GPU4FS_FALLOC_PUNCH_HOLE, 0, 10), EOPNOTSUPP);
	fails(gpu4fs_fallocate(file, 0x40, 0, 10), EOPNOTSUPP);
	fails(gpu4fs_fallocate(file, 0, 0, INT64_C(1) << 40), ENOSPC);
	ok(gpu4fs_close(file));
	file = api_open("/f", O_RDONLY, 0);
	fails(gpu4fs_fallocate(file, 0, 0, 10), EBADF);
	ok(gpu4fs_close(file));
}

/* A file that is one chunk again and again. */
static void check_chunks(const char *path, const char *chunk, size_t bytes)
{
	char *found = malloc(bytes);
	gpu4fs_file *file = api_open(path, O_RDONLY, 0);
	int64_t got;

	while ((got = gpu4fs_read(file, found, bytes)) > 0)
		assert_memory_equal(found, chunk, got);
	ok(got);
	ok(gpu4fs_close(file));
	free(found);
}

static void a_full_file_system_says_so_and_deletes_still_work(void **state)
{
	enum { CHUNK = 256 * 1024 };
	char *chunk = malloc(CHUNK), path[32];
	struct gpu4fs_statfs before, full, after;
	int64_t done = 0;
	int files = 0;

	(void)state;
	api_pattern(chunk, 9, 0, CHUNK);
	ok(gpu4fs_statfs(fs, &before));
	while (done >= 0 && files < 1000) {
		gpu4fs_file *file;
		int rc;

		snprintf(path, sizeof(path), "/f%d", files);
		rc = gpu4fs_open(fs, NULL, path, O_WRONLY | O_CREAT | O_EXCL, 0644, &file);
		if (rc) {
			fails(rc, ENOSPC);
			break;
		}
		files++;
		for (int i = 0; i < 16 && done >= 0; i++)
			done = gpu4fs_write(file, chunk, CHUNK);
		if (done < 0)
			fails(done, ENOSPC);
		rc = gpu4fs_fsync(file);
		if (rc)
			fails(rc, ENOSPC);
		ok(gpu4fs_close(file));
	}
	assert_in_range(files, 8, 20);
	ok(gpu4fs_statfs(fs, &full));
	assert_true(full.blocks_available < before.blocks_available / 8);
	check_chunks("/f0", chunk, CHUNK);
	for (int i = 0; i < files; i++) {
		snprintf(path, sizeof(path), "/f%d", i);
		ok(gpu4fs_unlink(fs, NULL, path));
	}
	ok(gpu4fs_syncfs(fs));
	ok(gpu4fs_statfs(fs, &after));
	assert_true(after.blocks_free + 64 >= before.blocks_free);
	api_write_pattern("/again", 1, 8 << 20);
	api_check_pattern("/again", 1, 8 << 20);
	free(chunk);
}

/* ------------------------------------------------------------------ copy_file_range */

static void ranges_are_copied_within_and_between_files(void **state)
{
	enum { SIZE = 8 * PAGE };
	static unsigned char model[3 * SIZE];
	gpu4fs_file *from, *to;
	int64_t a, b;

	(void)state;
	api_write_pattern("/from", 1, SIZE);
	from = api_open("/from", O_RDWR, 0);
	to = api_open("/to", O_RDWR | O_CREAT, 0644);
	a = 100;
	b = 50;
	gives(gpu4fs_copy_file_range(from, &a, to, &b, 10000), 10000);
	assert_int_equal(a, 10100);
	assert_int_equal(b, 10050);
	api_pattern(model + 50, 1, 100, 10000);
	api_check_bytes(to, model, 10050);
	/* aligned, with the files' own positions */
	gives(gpu4fs_copy_file_range(from, NULL, to, NULL, 2 * PAGE), 2 * PAGE);
	gives(gpu4fs_lseek(from, 0, SEEK_CUR), 2 * PAGE);
	gives(gpu4fs_lseek(to, 0, SEEK_CUR), 2 * PAGE);
	api_pattern(model, 1, 0, 2 * PAGE);
	api_check_bytes(to, model, 10050);
	/* what is behind the end of the source is not there */
	a = SIZE - 10;
	b = 0;
	gives(gpu4fs_copy_file_range(from, &a, to, &b, 1000), 10);
	a = SIZE;
	gives(gpu4fs_copy_file_range(from, &a, to, &b, 1000), 0);
	a = 10 * SIZE;
	gives(gpu4fs_copy_file_range(from, &a, to, &b, 1000), 0);
	/* within one file */
	a = 0;
	b = SIZE;
	gives(gpu4fs_copy_file_range(from, &a, from, &b, SIZE), SIZE);
	api_pattern(model, 1, 0, SIZE);
	api_pattern(model + SIZE, 1, 0, SIZE);
	api_check_bytes(from, model, 2 * SIZE);
	a = 0;
	b = 100;
	fails(gpu4fs_copy_file_range(from, &a, from, &b, 101), EINVAL);
	gives(gpu4fs_copy_file_range(from, &a, from, &b, 100), 100);
	ok(gpu4fs_close(from));
	ok(gpu4fs_close(to));
}

static void a_copy_does_not_change_with_its_source(void **state)
{
	enum { SIZE = 3 << 20 };
	gpu4fs_file *from, *to;
	int64_t a = 0, b = 0;

	(void)state;
	api_write_pattern("/from", 1, SIZE);
	from = api_open("/from", O_RDWR, 0);
	to = api_open("/to", O_RDWR | O_CREAT, 0644);
	gives(gpu4fs_copy_file_range(from, &a, to, &b, SIZE), SIZE);
	gives(gpu4fs_pwrite(from, "changed", 7, 5000), 7);
	ok(gpu4fs_ftruncate(from, 10000));
	ok(gpu4fs_close(from));
	ok(gpu4fs_close(to));
	api_check_pattern("/to", 1, SIZE);
}

static void copies_need_the_right_handles(void **state)
{
	gpu4fs *other = api_mount("mem:16M", true);
	gpu4fs_file *from, *to, *append, *dir, *foreign;

	(void)state;
	api_write_text("/from", "text");
	from = api_open("/from", O_RDONLY, 0);
	to = api_open("/to", O_WRONLY | O_CREAT, 0644);
	append = api_open("/to", O_WRONLY | O_APPEND, 0);
	dir = api_open("/", O_RDONLY, 0);
	ok(gpu4fs_open(other, NULL, "/f", O_RDWR | O_CREAT, 0644, &foreign));
	fails(gpu4fs_copy_file_range(to, NULL, from, NULL, 1), EBADF);
	fails(gpu4fs_copy_file_range(from, NULL, append, NULL, 1), EBADF);
	fails(gpu4fs_copy_file_range(dir, NULL, to, NULL, 1), EISDIR);
	fails(gpu4fs_copy_file_range(from, NULL, foreign, NULL, 1), EXDEV);
	ok(gpu4fs_close(from));
	ok(gpu4fs_close(to));
	ok(gpu4fs_close(append));
	ok(gpu4fs_close(dir));
	ok(gpu4fs_close(foreign));
	ok(gpu4fs_unmount(other));
}

/* ------------------------------------------------------------------ open */

static void open_flags_do_what_posix_says(void **state)
{
	gpu4fs_file *file;

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	api_write_text("/f", "content");
	fails(gpu4fs_open(fs, NULL, "/none", O_RDONLY, 0, &file), ENOENT);
	fails(gpu4fs_open(fs, NULL, "", O_RDONLY, 0, &file), ENOENT);
	fails(gpu4fs_open(fs, NULL, "/f", O_WRONLY | O_CREAT | O_EXCL, 0644, &file), EEXIST);
	fails(gpu4fs_open(fs, NULL, "/f", O_RDONLY | O_DIRECTORY, 0, &file), ENOTDIR);
	fails(gpu4fs_open(fs, NULL, "/f/", O_RDONLY, 0, &file), ENOTDIR);
	fails(gpu4fs_open(fs, NULL, "/f/x", O_RDONLY, 0, &file), ENOTDIR);
	fails(gpu4fs_open(fs, NULL, "/d", O_WRONLY, 0, &file), EISDIR);
	fails(gpu4fs_open(fs, NULL, "/d", O_RDWR, 0, &file), EISDIR);
	fails(gpu4fs_open(fs, NULL, "/d", O_RDONLY | O_CREAT, 0644, &file), EISDIR);
	fails(gpu4fs_open(fs, NULL, "/d", O_RDONLY | O_CREAT | O_EXCL, 0644, &file), EEXIST);
	fails(gpu4fs_open(fs, NULL, "/new/", O_WRONLY | O_CREAT, 0644, &file), EISDIR);
	fails(gpu4fs_open(fs, NULL, "/none/new", O_WRONLY | O_CREAT, 0644, &file), ENOENT);
	fails(gpu4fs_open(fs, NULL, "/f", O_WRONLY | O_RDWR, 0, &file), EINVAL);
	fails(gpu4fs_open(fs, NULL, "/f", O_RDONLY | O_CREAT | O_DIRECTORY, 0, &file), EINVAL);
	ok(gpu4fs_close(api_open("/f", O_WRONLY | O_CREAT, 0600)));
	api_check_text("/f", "content");
	ok(gpu4fs_close(api_open("/f", O_WRONLY | O_TRUNC, 0)));
	api_check_text("/f", "");
	ok(gpu4fs_close(api_open("/", O_RDONLY | O_DIRECTORY, 0)));
	ok(gpu4fs_close(api_open("/d/..//d/.", O_RDONLY, 0)));
}

static void creating_follows_a_symbolic_link_to_a_name_that_is_not_there(void **state)
{
	gpu4fs_file *file;

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	ok(gpu4fs_symlink(fs, "target", NULL, "/d/link"));
	ok(gpu4fs_symlink(fs, "/d/link", NULL, "/link"));
	fails(gpu4fs_open(fs, NULL, "/link", O_WRONLY | O_CREAT | O_EXCL, 0644, &file), EEXIST);
	fails(gpu4fs_open(fs, NULL, "/link", O_WRONLY | O_CREAT | O_NOFOLLOW, 0644, &file), ELOOP);
	fails(gpu4fs_open(fs, NULL, "/link", O_RDONLY, 0, &file), ENOENT);
	fails(gpu4fs_open(fs, NULL, "/link", O_RDONLY | O_NOFOLLOW, 0, &file), ELOOP);
	file = api_open("/link", O_WRONLY | O_CREAT, 0644);
	gives(gpu4fs_write(file, "x", 1), 1);
	ok(gpu4fs_close(file));
	api_check_text("/d/target", "x");
	ok(gpu4fs_close(api_open("/link", O_WRONLY | O_CREAT | O_TRUNC, 0644)));
	api_check_text("/d/target", "");
	ok(gpu4fs_symlink(fs, "loop", NULL, "/loop"));
	fails(gpu4fs_open(fs, NULL, "/loop", O_WRONLY | O_CREAT, 0644, &file), ELOOP);
}

static void special_nodes_cannot_be_opened(void **state)
{
	gpu4fs_file *file;

	(void)state;
	ok(gpu4fs_mknod(fs, NULL, "/fifo", S_IFIFO | 0644, 0));
	ok(gpu4fs_mknod(fs, NULL, "/socket", S_IFSOCK | 0644, 0));
	ok(gpu4fs_mknod(fs, NULL, "/null", S_IFCHR | 0666, 0x103));
	fails(gpu4fs_open(fs, NULL, "/fifo", O_RDONLY | O_NONBLOCK, 0, &file), ENXIO);
	fails(gpu4fs_open(fs, NULL, "/socket", O_RDONLY, 0, &file), ENXIO);
	fails(gpu4fs_open(fs, NULL, "/null", O_RDWR, 0, &file), ENXIO);
}

static void handles_allow_only_what_they_were_opened_for(void **state)
{
	gpu4fs_file *reader, *writer, *dir;
	char buffer[4];

	(void)state;
	api_write_text("/f", "text");
	reader = api_open("/f", O_RDONLY, 0);
	writer = api_open("/f", O_WRONLY, 0);
	dir = api_open("/", O_RDONLY, 0);
	fails(gpu4fs_write(reader, "x", 1), EBADF);
	fails(gpu4fs_pwrite(reader, "x", 1, 0), EBADF);
	fails(gpu4fs_read(writer, buffer, 1), EBADF);
	fails(gpu4fs_pread(writer, buffer, 1, 0), EBADF);
	fails(gpu4fs_read(dir, buffer, 1), EISDIR);
	fails(gpu4fs_pread(dir, buffer, 1, 0), EISDIR);
	fails(gpu4fs_pwrite(dir, buffer, 1, 0), EBADF);
	ok(gpu4fs_fsync(reader));
	ok(gpu4fs_fsync(dir));
	ok(gpu4fs_close(reader));
	ok(gpu4fs_close(writer));
	ok(gpu4fs_close(dir));
}

static void a_file_without_a_name_gets_one_when_it_is_ready(void **state)
{
	gpu4fs_file *file = api_open("/", O_RDWR | O_TMPFILE, 0640), *secret;
	struct gpu4fs_stat stat;

	(void)state;
	gives(gpu4fs_write(file, "ready", 5), 5);
	ok(gpu4fs_fstat(file, &stat));
	assert_int_equal(stat.nlink, 0);
	assert_int_equal(stat.mode, S_IFREG | 0640);
	assert_int_equal(api_count_names("/"), 0);
	ok(gpu4fs_link_file(file, NULL, "/named"));
	fails(gpu4fs_link_file(file, NULL, "/named"), EEXIST);
	ok(gpu4fs_link_file(file, NULL, "/twice"));
	ok(gpu4fs_close(file));
	api_check_text("/named", "ready");
	assert_int_equal(api_lstat("/named").nlink, 2);
	secret = api_open("/", O_RDWR | O_TMPFILE | O_EXCL, 0600);
	fails(gpu4fs_link_file(secret, NULL, "/secret"), ENOENT);
	ok(gpu4fs_close(secret));
	fails(gpu4fs_open(fs, NULL, "/", O_RDONLY | O_TMPFILE, 0600, &file), EINVAL);
	fails(gpu4fs_open(fs, NULL, "/named", O_RDWR | O_TMPFILE, 0600, &file), ENOTDIR);
}

static void an_unlinked_file_lives_until_its_last_handle_closes(void **state)
{
	struct gpu4fs_statfs before, open, after;
	gpu4fs_file *file, *again;
	struct gpu4fs_stat stat;
	char text[5];

	(void)state;
	ok(gpu4fs_syncfs(fs));
	ok(gpu4fs_statfs(fs, &before));
	api_write_pattern("/f", 1, 4 << 20);
	file = api_open("/f", O_RDWR, 0);
	again = api_open("/f", O_RDONLY, 0);
	ok(gpu4fs_unlink(fs, NULL, "/f"));
	assert_false(api_exists("/f"));
	ok(gpu4fs_fstat(file, &stat));
	assert_int_equal(stat.nlink, 0);
	fails(gpu4fs_link_file(file, NULL, "/back"), ENOENT);
	gives(gpu4fs_pwrite(file, "still", 5, 0), 5);
	ok(gpu4fs_fsync(file));
	ok(gpu4fs_statfs(fs, &open));
	assert_true(open.blocks_free + 1000 < before.blocks_free);
	ok(gpu4fs_close(file));
	gives(gpu4fs_pread(again, text, 5, 0), 5);
	assert_memory_equal(text, "still", 5);
	ok(gpu4fs_close(again));
	ok(gpu4fs_syncfs(fs));
	ok(gpu4fs_statfs(fs, &after));
	assert_true(after.blocks_free + 16 >= before.blocks_free);
}

static void a_replaced_file_lives_on_for_its_handle(void **state)
{
	gpu4fs_file *old;
	char text[3];

	(void)state;
	api_write_text("/a", "new");
	api_write_text("/b", "old");
	old = api_open("/b", O_RDONLY, 0);
	ok(gpu4fs_rename(fs, NULL, "/a", NULL, "/b", 0));
	gives(gpu4fs_read(old, text, 3), 3);
	assert_memory_equal(text, "old", 3);
	api_check_text("/b", "new");
	ok(gpu4fs_close(old));
}

static uint32_t count_descriptors(void)
{
	uint32_t count = 0;

	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void thousands_of_open_files_need_no_descriptors(void **state)
{
	enum { COUNT = 5000 };
	gpu4fs_file **files = calloc(COUNT, sizeof(gpu4fs_file *));
	uint32_t before = count_descriptors();
	char path[32];

	(void)state;
	for (int i = 0; i < COUNT; i++) {
		snprintf(path, sizeof(path), "/f%d", i % 1000);
		files[i] = api_open(path, O_RDWR | O_CREAT, 0644);
		gives(gpu4fs_pwrite(files[i], &i, sizeof(i), 0), sizeof(i));
	}
	assert_int_equal(count_descriptors(), before);
	for (int i = 0; i < COUNT; i++) {
		int found;

		gives(gpu4fs_pread(files[i], &found, sizeof(found), 0), sizeof(found));
		assert_int_equal(found, COUNT - 1000 + i % 1000);
		ok(gpu4fs_close(files[i]));
	}
	free(files);
}

static void every_way_to_ask_for_durability_works(void **state)
{
	static const int flags[] = {0, O_SYNC, O_DSYNC, O_DIRECT, O_DIRECT | O_SYNC};

	(void)state;
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		static unsigned char data[3 * PAGE];
		gpu4fs_file *file = api_open("/f", O_RDWR | O_CREAT | O_TRUNC | flags[i], 0644);

		api_pattern(data, i, 0, sizeof(data));
		gives(gpu4fs_pwrite(file, data, sizeof(data), 0), sizeof(data));
		ok(gpu4fs_fdatasync(file));
		ok(gpu4fs_fsync(file));
		api_check_bytes(file, data, sizeof(data));
		ok(gpu4fs_close(file));
	}
	ok(gpu4fs_syncfs(fs));
}

/* ------------------------------------------------------------------ remount */

static void contents_survive_unmount_and_mount(void **state)
{
	static const char image[] = "api_files_remount.img";
	gpu4fs *memory = fs;
	uint64_t random = 42;
	char path[64];

	(void)state;
	api_image(image, 64 << 20);
	fs = api_mount(image, true);
	for (int i = 0; i < 200; i++) {
		snprintf(path, sizeof(path), "/d%d", i % 7);
		if (i < 7)
			ok(gpu4fs_mkdir(fs, NULL, path, 0755));
		snprintf(path, sizeof(path), "/d%d/f%d", i % 7, i);
		api_write_pattern(path, (uint64_t)i, api_random(&random) % (i % 10 ? 9000 : 900000));
	}
	ok(gpu4fs_unmount(fs));
	for (int round = 0; round < 2; round++) {
		fs = api_mount(image, false);
		random = 42;
		for (int i = 0; i < 200; i++) {
			size_t bytes = api_random(&random) % (i % 10 ? 9000 : 900000);

			snprintf(path, sizeof(path), "/d%d/f%d", i % 7, i);
			api_check_pattern(path, (uint64_t)i, bytes);
		}
		ok(gpu4fs_unmount(fs));
	}
	fs = memory;
	unlink(image);
}

static void a_sparse_file_stays_sparse_over_a_remount(void **state)
{
	static const char image[] = "api_files_sparse.img";
	const int64_t far = INT64_C(1) << 40;
	gpu4fs *memory = fs;
	gpu4fs_file *file;
	char text[4];

	(void)state;
	api_image(image, 32 << 20);
	fs = api_mount(image, true);
	file = api_open("/f", O_RDWR | O_CREAT, 0644);
	gives(gpu4fs_pwrite(file, "head", 4, 0), 4);
	gives(gpu4fs_pwrite(file, "tail", 4, far), 4);
	ok(gpu4fs_fallocate(file, GPU4FS_FALLOC_KEEP_SIZE, far / 2, 1 << 20));
	ok(gpu4fs_close(file));
	ok(gpu4fs_unmount(fs));
	fs = api_mount(image, false);
	file = api_open("/f", O_RDONLY, 0);
	assert_int_equal(api_lstat("/f").size, far + 4);
	gives(gpu4fs_pread(file, text, 4, far), 4);
	assert_memory_equal(text, "tail", 4);
	gives(gpu4fs_pread(file, text, 4, far / 2), 4);
	assert_memory_equal(text, "\0\0\0\0", 4);
	gives(gpu4fs_lseek(file, 10, SEEK_HOLE), PAGE);
	gives(gpu4fs_lseek(file, PAGE, SEEK_DATA), far);
	ok(gpu4fs_close(file));
	ok(gpu4fs_unmount(fs));
	fs = memory;
	unlink(image);
}

static int64_t free_blocks(void)
{
	struct gpu4fs_statfs space;

	ok(gpu4fs_syncfs(fs));
	ok(gpu4fs_statfs(fs, &space));
	return (int64_t)space.blocks_free;
}

static void sharing_copies_nothing_or_says_why(void **state)
{
	enum { SIZE = 300 * PAGE + 50 };
	static unsigned char model[SIZE];
	gpu4fs_file *from, *to, *tiny, *other;

	(void)state;
	api_pattern(model, 4, 0, SIZE);
	api_write_pattern("/from", 4, SIZE);
	api_write_pattern("/tiny", 5, 60);
	from = api_open("/from", O_RDWR, 0);
	tiny = api_open("/tiny", O_RDONLY, 0);
	to = api_open("/to", O_RDWR | O_CREAT, 0644);
	const int64_t before = free_blocks();
	gives(gpu4fs_share_range(from, 0, to, 0, UINT64_MAX), SIZE);
	assert_true(before - free_blocks() <= 16);
	api_check_bytes(to, model, SIZE);
	memset(model + 7 * PAGE + 5, 9, 20);
	gives(gpu4fs_pwrite(to, model + 7 * PAGE + 5, 20, 7 * PAGE + 5), 20);
	api_check_bytes(to, model, SIZE);
	api_pattern(model, 4, 0, SIZE);
	api_check_bytes(from, model, SIZE);
	/* what are not whole pages */
	fails(gpu4fs_share_range(from, 1, to, 0, PAGE), EINVAL);
	fails(gpu4fs_share_range(from, 0, to, 1, PAGE), EINVAL);
	fails(gpu4fs_share_range(from, 0, to, 0, PAGE + 1), EINVAL);
	fails(gpu4fs_share_range(from, 300 * PAGE, to, 0, UINT64_MAX), EINVAL); /* its end would lie inside */
	fails(gpu4fs_share_range(from, 0, from, PAGE, 2 * PAGE), EINVAL);
	fails(gpu4fs_share_range(from, -4096, to, 0, PAGE), EINVAL);
	fails(gpu4fs_share_range(tiny, 0, tiny, 0, 10), EBADF);
	api_check_bytes(from, model, SIZE);
	gives(gpu4fs_share_range(from, 301 * PAGE, to, 0, PAGE), 0);
	gives(gpu4fs_share_range(from, 10 * PAGE, from, 5 * PAGE, 2 * PAGE), 2 * PAGE);
	memcpy(model + 5 * PAGE, model + 10 * PAGE, 2 * PAGE);
	api_check_bytes(from, model, SIZE);
	other = api_open("/other", O_RDWR | O_CREAT, 0644);
	gives(gpu4fs_share_range(tiny, 0, other, 0, UINT64_MAX), 60);
	api_pattern(model, 5, 0, 60);
	api_check_bytes(other, model, 60);
	ok(gpu4fs_close(other));
	ok(gpu4fs_close(from));
	ok(gpu4fs_close(to));
	ok(gpu4fs_close(tiny));
}

/* All extents of a synced file, those in a row with the same flags as one. */
static uint32_t extents_of(gpu4fs_file *file, struct gpu4fs_extent *all, uint32_t most)
{
	struct gpu4fs_extent some[3];
	uint32_t count = 0;
	int64_t got, next = 0;

	ok(gpu4fs_fsync(file));
	while ((got = gpu4fs_extents(file, next, some, 3)) > 0) {
		for (int64_t k = 0; k < got; k++) {
			next = (int64_t)(some[k].offset + some[k].length);
			if (count > 0 && all[count - 1].flags == some[k].flags &&
			    all[count - 1].offset + all[count - 1].length == some[k].offset) {
				all[count - 1].length += some[k].length;
				continue;
			}
			assert_true(count < most);
			all[count++] = some[k];
		}
	}
	gives(got, 0);
	return count;
}

static void expect_extent(const struct gpu4fs_extent *extent, uint64_t page, uint64_t pages, uint32_t flags)
{
	assert_int_equal(extent->offset, page * PAGE);
	assert_int_equal(extent->length, pages * PAGE);
	assert_int_equal(extent->flags, flags);
}

/* Whatever leads there: by single pages, by a page of pointers that both files have, or by large ones. */
static void extents_say_what_is_shared(void **state)
{
	enum { PAGES = 1024 };
	struct gpu4fs_extent at[8];
	gpu4fs_file *from, *to, *tiny;

	(void)state;
	api_write_pattern("/from", 4, 300 * PAGE);
	api_write_pattern("/tiny", 5, 60);
	api_write_pattern("/large", 6, PAGES * PAGE);
	from = api_open("/from", O_RDWR, 0);
	tiny = api_open("/tiny", O_RDONLY, 0);
	to = api_open("/to", O_RDWR | O_CREAT, 0644);
	gives(extents_of(tiny, at, 8), 1);
	assert_int_equal(at[0].length, 60);
	assert_int_equal(at[0].flags, GPU4FS_EXTENT_INLINE);
	gives(extents_of(from, at, 8), 1);
	expect_extent(&at[0], 0, 300, 0);
	ok(gpu4fs_fallocate(from, FALLOC_FL_KEEP_SIZE, 600 * PAGE, 2 * PAGE));
	gives(gpu4fs_share_range(from, 0, to, 0, UINT64_MAX), 300 * PAGE);
	for (int n = 0; n < 2; n++) {
		gives(extents_of(n ? to : from, at, 8), n ? 1 : 2);
		expect_extent(&at[0], 0, 300, GPU4FS_EXTENT_SHARED);
		if (n == 0)
			expect_extent(&at[1], 600, 2, GPU4FS_EXTENT_UNWRITTEN);
	}
	/* the map is a copy from here on, and so is a page */
	gives(gpu4fs_pwrite(to, "x", 1, 7 * PAGE), 1);
	ok(gpu4fs_fsync(to));
	for (int n = 0; n < 2; n++) {
		gives(extents_of(n ? to : from, at, 8), n ? 3 : 4);
		expect_extent(&at[0], 0, 7, GPU4FS_EXTENT_SHARED);
		expect_extent(&at[1], 7, 1, 0);
		expect_extent(&at[2], 8, 292, GPU4FS_EXTENT_SHARED);
	}
	ok(gpu4fs_ftruncate(to, 100 * PAGE));
	gives(extents_of(from, at, 8), 5);
	expect_extent(&at[2], 8, 92, GPU4FS_EXTENT_SHARED);
	expect_extent(&at[3], 100, 200, 0);
	ok(gpu4fs_close(from));
	ok(gpu4fs_close(tiny));
	from = api_open("/large", O_RDWR, 0);
	ok(gpu4fs_ftruncate(to, 0));
	gives(gpu4fs_share_range(from, 0, to, 0, UINT64_MAX), PAGES * PAGE);
	gives(gpu4fs_pwrite(to, "x", 1, 700 * PAGE), 1);
	ok(gpu4fs_fsync(to));
	for (int n = 0; n < 2; n++) {
		uint64_t shared = 0;
		const uint32_t count = extents_of(n ? to : from, at, 8);
		for (uint32_t k = 0; k < count; k++) {
			shared += at[k].flags & GPU4FS_EXTENT_SHARED ? at[k].length : 0;
			if (!(at[k].flags & GPU4FS_EXTENT_SHARED))
				expect_extent(&at[k], 700, 1, at[k].flags);
		}
		assert_int_equal(shared, (PAGES - 1) * PAGE);
	}
	ok(gpu4fs_close(to));
	to = api_open("/to", O_WRONLY, 0);
	fails(gpu4fs_extents(to, 0, at, 8), EBADF);
	fails(gpu4fs_extents(from, -1, at, 8), EINVAL);
	fails(gpu4fs_extents(from, 0, at, 0), EINVAL);
	gives(gpu4fs_extents(from, (int64_t)PAGES * PAGE, at, 8), 0);
	ok(gpu4fs_close(to));
	ok(gpu4fs_close(from));
}

static void what_is_the_same_is_shared_and_nothing_changes(void **state)
{
	enum { SIZE = 5000 * PAGE + 50 }; /* more than one command takes */
	struct gpu4fs_page_sum sums[4], other;
	struct gpu4fs_restriped moved;
	struct gpu4fs_stat before, after;
	gpu4fs_file *from, *to, *directory;

	(void)state;
	api_write_pattern("/one", 6, SIZE);
	api_write_pattern("/two", 6, SIZE);
	from = api_open("/one", O_RDWR, 0);
	to = api_open("/two", O_RDWR, 0);
	const int64_t used = free_blocks();
	ok(gpu4fs_fstat(to, &before));
	gives(gpu4fs_dedupe_range(from, 0, to, 0, UINT64_MAX, 0), SIZE);
	ok(gpu4fs_fstat(to, &after));
	assert_int_equal(before.size, after.size);
	assert_memory_equal(&before.mtime, &after.mtime, sizeof(after.mtime));
	assert_true(free_blocks() - used >= 5000 - 64);
	api_check_pattern("/two", 6, SIZE);
	gives(gpu4fs_page_sums(from, 4998 * PAGE, sums, 4), 3);
	gives(gpu4fs_page_sums(to, 5000 * PAGE, &other, 1), 1);
	assert_int_equal(sums[2].offset, 5000 * PAGE);
	assert_int_equal(sums[2].address, other.address);
	gives(gpu4fs_page_sums(to, 5001 * PAGE, &other, 1), 0);
	gives(gpu4fs_pwrite(to, "x", 1, 3 * PAGE), 1);
	gives(gpu4fs_dedupe_range(from, 0, to, 0, UINT64_MAX, GPU4FS_DEDUPE_COMPARE), 3 * PAGE);
	gives(gpu4fs_dedupe_range(from, 3 * PAGE, to, 3 * PAGE, UINT64_MAX, 0), 0);
	api_check_pattern("/one", 6, SIZE);
	fails(gpu4fs_dedupe_range(from, 0, to, 0, PAGE, 4), EINVAL);
	fails(gpu4fs_dedupe_range(from, 0, to, 0, PAGE, GPU4FS_DEDUPE_ZEROS), EINVAL);
	fails(gpu4fs_dedupe_range(from, 0, to, 5, PAGE, 0), EINVAL);
	fails(gpu4fs_dedupe_range(from, -4096, to, 0, PAGE, 0), EINVAL);
	fails(gpu4fs_page_sums(from, 0, sums, 0), EINVAL);
	fails(gpu4fs_page_sums(from, -1, sums, 4), EINVAL);
	/* one level, in which all is where it belongs */
	gives(gpu4fs_restripe(from, 0, 0, &moved), 16 * 1024 * 1024);
	gives(gpu4fs_restripe(from, 16 * 1024 * 1024, GPU4FS_RESTRIPE_LOOK, &moved), 0);
	assert_int_equal(moved.moved + moved.shared + moved.damaged, 0);
	fails(gpu4fs_restripe(from, -1, 0, &moved), EINVAL);
	fails(gpu4fs_restripe(from, 0, 2, &moved), EINVAL);
	directory = api_open("/", O_RDONLY | O_DIRECTORY, 0);
	fails(gpu4fs_dedupe_range(directory, 0, to, 0, PAGE, 0), EISDIR);
	assert_true(gpu4fs_restripe(directory, 0, 0, &moved) < 0);
	ok(gpu4fs_close(directory));
	ok(gpu4fs_close(from));
	from = api_open("/one", O_RDONLY, 0);
	fails(gpu4fs_dedupe_range(to, 0, from, 0, PAGE, 0), EBADF);
	ok(gpu4fs_close(from));
	ok(gpu4fs_close(to));
}

static void zeros_become_holes_and_nothing_changes(void **state)
{
	enum { ZEROS = 5000 };
	uint8_t *zeros = calloc(ZEROS, PAGE);
	struct gpu4fs_page_sum sum;
	gpu4fs_file *file, *other;

	(void)state;
	assert_non_null(zeros);
	file = api_open("/zeros", O_RDWR | O_CREAT, 0644);
	gives(gpu4fs_pwrite(file, "x", 1, 0), 1);
	gives(gpu4fs_pwrite(file, zeros, ZEROS * PAGE, PAGE), ZEROS * PAGE);
	gives(gpu4fs_pwrite(file, "y", 1, (ZEROS + 1) * PAGE + 9), 1);
	ok(gpu4fs_syncfs(fs));
	const int64_t used = free_blocks();
	gives(gpu4fs_dedupe_range(file, 0, file, 0, UINT64_MAX, GPU4FS_DEDUPE_ZEROS), 0);
	gives(gpu4fs_dedupe_range(file, PAGE, file, PAGE, UINT64_MAX, GPU4FS_DEDUPE_ZEROS), ZEROS * PAGE);
	ok(gpu4fs_syncfs(fs));
	assert_true(free_blocks() - used >= ZEROS - 64);
	gives(gpu4fs_page_sums(file, PAGE, &sum, 1), 1);
	assert_int_equal(sum.offset, (ZEROS + 1) * PAGE);
	memset(zeros, 1, ZEROS * PAGE);
	gives(gpu4fs_pread(file, zeros, ZEROS * PAGE, PAGE), ZEROS * PAGE);
	for (uint64_t at = 0; at < ZEROS * PAGE; at++)
		assert_int_equal(zeros[at], 0);
	fails(gpu4fs_dedupe_range(file, PAGE, file, 2 * PAGE, PAGE, GPU4FS_DEDUPE_ZEROS), EINVAL);
	other = api_open("/zeros", O_WRONLY, 0); /* who may not read does not learn */
	fails(gpu4fs_dedupe_range(other, PAGE, other, PAGE, PAGE, GPU4FS_DEDUPE_ZEROS), EBADF);
	ok(gpu4fs_close(other));
	ok(gpu4fs_close(file));
	free(zeros);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(zeros_become_holes_and_nothing_changes),
		api_test(what_was_written_is_read_back_at_every_size),
		api_test(small_overwrites_change_only_their_bytes),
		api_test(what_is_written_twice_is_stored_once_where_the_writer_says_so),
		api_test(reading_at_or_behind_the_end_gives_nothing),
		api_test(a_write_behind_the_end_leaves_zeros_between),
		api_test(a_zero_length_write_changes_nothing),
		api_test(vectors_are_read_and_written_in_order),
		api_test(large_vectors_arrive_whole),
		api_test(the_position_follows_reads_writes_and_seeks),
		api_test(appending_handles_write_at_the_end_wherever_they_stand),
		api_test(records_appended_by_threads_are_neither_torn_nor_lost),
		api_test(threads_write_disjoint_parts_of_one_file),
		api_test(shrinking_and_growing_again_shows_zeros),
		api_test(small_files_grow_and_shrink_across_the_inline_limit),
		api_test(bad_lengths_are_refused),
		api_test(files_reach_as_far_as_offsets_do),
		api_test(holes_and_data_are_found),
		api_test(the_end_of_a_full_file_counts_as_a_hole),
		api_test(fallocate_changes_exactly_its_range_in_every_mode),
		api_test(ranges_are_inserted_and_taken_out),
		api_test(sharing_copies_nothing_or_says_why),
		api_test(extents_say_what_is_shared),
		api_test(what_is_the_same_is_shared_and_nothing_changes),
		api_test(fallocate_takes_and_punching_gives_back_space),
		api_test(fallocate_refuses_what_makes_no_sense),
		api_test(fallocate_gives_all_or_nothing),
		api_test(what_is_written_again_is_counted_once),
		api_test(a_full_file_system_says_so_and_deletes_still_work),
		api_test(ranges_are_copied_within_and_between_files),
		api_test(a_copy_does_not_change_with_its_source),
		api_test(copies_need_the_right_handles),
		api_test(open_flags_do_what_posix_says),
		api_test(creating_follows_a_symbolic_link_to_a_name_that_is_not_there),
		api_test(special_nodes_cannot_be_opened),
		api_test(handles_allow_only_what_they_were_opened_for),
		api_test(a_file_without_a_name_gets_one_when_it_is_ready),
		api_test(an_unlinked_file_lives_until_its_last_handle_closes),
		api_test(a_replaced_file_lives_on_for_its_handle),
		api_test(thousands_of_open_files_need_no_descriptors),
		api_test(every_way_to_ask_for_durability_works),
		api_test(contents_survive_unmount_and_mount),
		api_test(a_sparse_file_stays_sparse_over_a_remount),
	};

	return cmocka_run_group_tests_name("api files", tests, NULL, NULL);
}
