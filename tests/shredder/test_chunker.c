/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library as callers see it: the same chunks whatever the input, the threads, the buffers and the kernel.
 * Of chunk/api.c, chunk/input.c, chunk/pipeline.c, chunk/devices.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "hash/blake3.h"
#include "model.h"

/* An input and the chunks it must give. */
struct given {
	struct shredder_params params;
	uint8_t *data;
	uint64_t bytes;
	struct model_cut *cuts;
	size_t count;
};

static struct given give(struct shredder_params params, enum content content, uint64_t bytes, uint64_t seed)
{
	struct given given = {.params = complete(params), .bytes = bytes};

	given.data = make_content(content, bytes, seed, &given.params);
	given.count = model_cuts(&given.params, given.data, bytes, &given.cuts);
	return given;
}

static void release(struct given *given)
{
	free(given->data);
	free(given->cuts);
}

static void check_chunk(const struct given *given, const struct shredder_chunk *chunk, size_t index, uint32_t flags)
{
	const uint64_t start = index == 0 ? 0 : given->cuts[index - 1].end;
	uint8_t digest[32] = {0};

	assert_true(index < given->count);
	assert_int_equal(chunk->offset, start);
	assert_int_equal(chunk->offset + chunk->length, given->cuts[index].end);
	assert_int_equal(chunk->fingerprint, given->cuts[index].fingerprint);
	assert_int_equal(chunk->cut, given->cuts[index].cut);
	if ((flags & SHREDDER_NO_DIGEST) == 0)
		g4_blake3(given->data + start, chunk->length, digest);
	assert_memory_equal(chunk->digest, digest, 32);
	if (chunk->data != NULL)
		assert_memory_equal(chunk->data, given->data + start, chunk->length);
	else
		assert_true((flags & SHREDDER_NO_DATA) != 0 || given->params.max_bytes > SHREDDER_DATA_MAX);
}

/* Takes all chunks of an input that was begun. */
static void expect_chunks(shredder *s, const struct given *given, uint32_t flags)
{
	struct shredder_chunk chunk;
	struct shredder_stats stats;
	size_t index = 0;
	int rc;

	while ((rc = shredder_next(s, &chunk)) == 1)
		check_chunk(given, &chunk, index++, flags);
	if (rc != 0)
		print_error("%s\n", shredder_last_message(s));
	assert_int_equal(rc, 0);
	assert_int_equal(index, given->count);
	assert_int_equal(shredder_next(s, &chunk), 0);
	shredder_get_stats(s, &stats);
	assert_int_equal(stats.bytes, given->bytes);
	assert_int_equal(stats.chunks, given->count);
}

static void expect_pushed(shredder *s, const struct given *given, uint32_t flags, struct dice *dice)
{
	struct shredder_chunk chunk;
	uint64_t at = 0;
	size_t index = 0;
	int rc = SHREDDER_E_AGAIN;

	assert_int_equal(shredder_begin_push(s), 0);
	while (at < given->bytes) {
		const uint64_t rest = given->bytes - at, piece = 1 + dice_below(dice, 70000);
		const int64_t taken = shredder_push(s, given->data + at, piece < rest ? piece : rest);

		assert_true(taken >= 0);
		at += (uint64_t)taken;
		if (taken == 0 || dice_below(dice, 4) == 0)
			while ((rc = shredder_next(s, &chunk)) == 1)
				check_chunk(given, &chunk, index++, flags);
		assert_int_equal(rc, SHREDDER_E_AGAIN);
	}
	while ((rc = shredder_push_end(s)) == SHREDDER_E_AGAIN)
		while ((rc = shredder_next(s, &chunk)) == 1)
			check_chunk(given, &chunk, index++, flags);
	assert_int_equal(rc, 0);
	while ((rc = shredder_next(s, &chunk)) == 1)
		check_chunk(given, &chunk, index++, flags);
	assert_int_equal(rc, 0);
	assert_int_equal(index, given->count);
}

/* A source that gives a few bytes at a time. */
struct dripping {
	const struct given *given;
	struct dice dice;
	uint64_t at;
	uint64_t fail_at; /* 0: never */
};

static int64_t drip(void *user, void *to, uint64_t bytes)
{
	struct dripping *d = (struct dripping *)user;
	const uint64_t rest = d->given->bytes - d->at, wish = 1 + dice_below(&d->dice, 50000);
	uint64_t part = wish < bytes ? wish : bytes;

	if (d->fail_at != 0 && d->at >= d->fail_at)
		return -1;
	part = part < rest ? part : rest;
	memcpy(to, d->given->data + d->at, part);
	d->at += part;
	return (int64_t)part;
}

struct writer {
	int fd;
	const uint8_t *data;
	uint64_t bytes;
	uint64_t piece;
};

static void *write_all(void *argument)
{
	const struct writer *w = (const struct writer *)argument;

	for (uint64_t at = 0; at < w->bytes;) {
		const uint64_t rest = w->bytes - at;
		const ssize_t put = send(w->fd, w->data + at, rest < w->piece ? rest : w->piece, MSG_NOSIGNAL);

		if (put <= 0)
			break;
		at += (uint64_t)put;
	}
	close(w->fd);
	return NULL;
}

static void expect_through_socket(shredder *s, const struct given *given, uint32_t flags, uint64_t piece)
{
	pthread_t thread;
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	struct writer writer = {ends[1], given->data, given->bytes, piece};
	assert_int_equal(pthread_create(&thread, NULL, write_all, &writer), 0);
	assert_int_equal(shredder_begin_fd(s, ends[0]), 0);
	expect_chunks(s, given, flags);
	assert_int_equal(pthread_join(thread, NULL), 0);
	close(ends[0]);
}

static void write_file(const char *name, const void *data, uint64_t bytes)
{
	FILE *file = fopen(name, "w");

	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, bytes, file), bytes);
	assert_int_equal(fclose(file), 0);
}

static const char *file_name(void)
{
	static char name[64];

	snprintf(name, sizeof(name), "chunker.%d", (int)getpid());
	return name;
}

/* All ways in, one after the other through the same chunker. */
static void expect_everywhere(const struct given *given, const struct shredder_options *options, struct dice *dice)
{
	struct dripping dripping = {.given = given, .dice = {3}};
	shredder *s;

	assert_int_equal(shredder_open(options, &s), 0);
	assert_int_equal(shredder_begin_buffer(s, given->data, given->bytes), 0);
	expect_chunks(s, given, options->flags);
	expect_pushed(s, given, options->flags, dice);
	assert_int_equal(shredder_begin_reader(s, drip, &dripping), 0);
	expect_chunks(s, given, options->flags);
	expect_through_socket(s, given, options->flags, 1 + dice_below(dice, 100000));
	write_file(file_name(), given->data, given->bytes);
	assert_int_equal(shredder_begin_file(s, file_name()), 0);
	expect_chunks(s, given, options->flags);
	unlink(file_name());
	shredder_close(s);
}

static void all_inputs_threads_and_buffers_give_the_same(void **state)
{
	static const char *const engines[] = {"cpu", "portable", NULL, "auto"};
	struct dice dice = {5};

	(void)state;
	for (uint64_t i = 0; i < 36; i++) {
		const bool gear = dice_below(&dice, 3) == 0;
		struct shredder_params params = {
			.algorithm = gear ? SHREDDER_GEAR : SHREDDER_RABIN,
			.mask_bits = 6 + (uint32_t)dice_below(&dice, 8),
			.min_bytes = dice_below(&dice, 3) == 0 ? SHREDDER_NONE : 0,
			.max_bytes = dice_below(&dice, 3) == 0 ? SHREDDER_NONE : 0,
			.delimiter_bytes = dice_below(&dice, 4) == 0 ? 1 : 0,
			.delimiter = "\n",
		};
		struct given given = give(params, (enum content)(i % CONTENTS), dice_below(&dice, 300000), i);
		const struct shredder_options options = {
			.size = sizeof(options),
			.flags = (uint32_t)dice_below(&dice, 8),
			.engine = engines[dice_below(&dice, 4)],
			.threads = 1 + (uint32_t)dice_below(&dice, 4),
			.buffers = 2 + (uint32_t)dice_below(&dice, 5),
			.buffer_bytes = 4096 * (1 + dice_below(&dice, i % 2 == 0 ? 4 : 100)),
			.params = &given.params,
		};

		expect_everywhere(&given, &options, &dice);
		release(&given);
	}
}

static void nothing_has_no_chunks(void **state)
{
	struct dice dice = {1};
	struct given given = give((struct shredder_params){0}, CONTENT_ZERO, 0, 0);
	const struct shredder_options options = {.size = sizeof(options)};

	(void)state;
	assert_int_equal(given.count, 0);
	expect_everywhere(&given, &options, &dice);
	release(&given);
}

/* Every byte a chunk: more of them than a buffer has room for. */
static void a_chunk_for_each_byte(void **state)
{
	struct given given = give(
		(struct shredder_params){.mask_bits = 1, .marker = SHREDDER_ZERO_MARKER, .min_bytes = SHREDDER_NONE},
		CONTENT_ZERO, 50000, 0);
	const struct shredder_options options = {
		.size = sizeof(options), .threads = 2, .buffers = 2, .buffer_bytes = 8192, .params = &given.params};
	struct dice dice = {1};

	(void)state;
	assert_int_equal(given.count, given.bytes);
	expect_everywhere(&given, &options, &dice);
	release(&given);
}

/* Large enough for O_DIRECT, several reads in flight, and a size that no block divides. */
static void large_files_are_read_whole(void **state)
{
	struct given given = give((struct shredder_params){.mask_bits = 11}, CONTENT_RANDOM, 3000001, 4);
	shredder *s;

	(void)state;
	write_file(file_name(), given.data, given.bytes);
	for (uint32_t flags = 0; flags < 4; flags += 2)
		for (uint32_t threads = 1; threads < 4; threads += 2) {
			const struct shredder_options options = {.size = sizeof(options),
								 .flags = flags,
								 .threads = threads,
								 .buffers = 2 + threads,
								 .buffer_bytes = 65536,
								 .params = &given.params};

			assert_int_equal(shredder_open(&options, &s), 0);
			for (int again = 0; again < 3; again++) {
				assert_int_equal(shredder_begin_file(s, file_name()), 0);
				expect_chunks(s, &given, flags);
			}
			shredder_close(s);
		}
	unlink(file_name());
	release(&given);
}

static void a_sparse_file_is_its_zeros(void **state)
{
	struct given given = give((struct shredder_params){0}, CONTENT_ZERO, 1 << 20, 0);
	const struct shredder_options options = {
		.size = sizeof(options), .buffer_bytes = 65536, .params = &given.params};
	const int fd = open(file_name(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
	shredder *s;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	assert_int_equal(shredder_open(&options, &s), 0);
	assert_int_equal(shredder_begin_file(s, file_name()), 0);
	expect_chunks(s, &given, 0);
	shredder_close(s);
	close(fd);
	unlink(file_name());
	release(&given);
}

static void a_file_is_read_from_its_offset(void **state)
{
	struct given given = give((struct shredder_params){.mask_bits = 9}, CONTENT_RANDOM, 200000, 8);
	const struct shredder_options options = {
		.size = sizeof(options), .buffer_bytes = 16384, .params = &given.params};
	uint8_t *longer = malloc(given.bytes + 777);
	shredder *s;

	(void)state;
	memset(longer, 1, 777);
	memcpy(longer + 777, given.data, given.bytes);
	write_file(file_name(), longer, given.bytes + 777);
	const int fd = open(file_name(), O_RDONLY | O_CLOEXEC);
	assert_int_equal(lseek(fd, 777, SEEK_SET), 777);
	assert_int_equal(shredder_open(&options, &s), 0);
	assert_int_equal(shredder_begin_fd(s, fd), 0);
	expect_chunks(s, &given, 0);
	shredder_close(s);
	close(fd);
	unlink(file_name());
	free(longer);
	release(&given);
}

static void files_of_the_kernel_have_no_size(void **state)
{
	struct shredder_chunk chunk;
	char text[256];
	shredder *s;
	FILE *file = fopen("/proc/sys/kernel/ostype", "r");

	(void)state;
	if (file == NULL)
		skip();
	const size_t bytes = fread(text, 1, sizeof(text), file);
	fclose(file);
	assert_int_equal(shredder_open(NULL, &s), 0);
	assert_int_equal(shredder_begin_file(s, "/proc/sys/kernel/ostype"), 0);
	assert_int_equal(shredder_next(s, &chunk), 1);
	assert_int_equal(chunk.length, bytes);
	assert_memory_equal(chunk.data, text, bytes);
	assert_int_equal(shredder_next(s, &chunk), 0);
	shredder_close(s);
}

/* ------------------------------------------------------------------------------------------------------- bad input */

static void what_cannot_be_read_is_refused(void **state)
{
	shredder *s;

	(void)state;
	assert_int_equal(shredder_open(NULL, &s), 0);
	assert_int_equal(shredder_begin_file(s, "/nonexistent"), SHREDDER_E_OPEN);
	assert_non_null(strstr(shredder_last_message(s), "/nonexistent"));
	assert_non_null(strstr(shredder_last_message(s), strerror(ENOENT)));
	assert_int_equal(shredder_begin_file(s, "/"), SHREDDER_E_ISDIR);
	assert_int_equal(shredder_begin_file(s, NULL), SHREDDER_E_INVAL);
	assert_int_equal(shredder_begin_fd(s, -1), SHREDDER_E_OPEN);
	assert_int_equal(shredder_begin_fd(s, 1000), SHREDDER_E_OPEN);
	const int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	assert_int_equal(shredder_begin_fd(s, fd), SHREDDER_E_OPEN);
	close(fd);
	assert_int_equal(shredder_begin_reader(s, NULL, NULL), SHREDDER_E_INVAL);
	assert_int_equal(shredder_begin_buffer(s, NULL, 1), SHREDDER_E_INVAL);
	assert_int_equal(shredder_begin_buffer(s, NULL, 0), 0);
	assert_int_equal(shredder_begin_push(s), SHREDDER_E_STATE);
	shredder_close(s);
}

/* The end of one input is not taken for that of the next one, which did not begin. */
static void what_was_refused_has_no_end(void **state)
{
	struct shredder_chunk chunk;
	shredder *s;

	(void)state;
	assert_int_equal(shredder_open(NULL, &s), 0);
	assert_int_equal(shredder_begin_buffer(s, NULL, 0), 0);
	assert_int_equal(shredder_next(s, &chunk), 0);
	assert_int_equal(shredder_next(s, &chunk), 0);
	assert_int_equal(shredder_begin_file(s, "/nonexistent"), SHREDDER_E_OPEN);
	assert_int_equal(shredder_next(s, &chunk), SHREDDER_E_STATE);
	assert_int_equal(shredder_begin_file(s, NULL), SHREDDER_E_INVAL);
	assert_string_equal(shredder_last_message(s), shredder_strerror(SHREDDER_E_INVAL));
	assert_int_equal(shredder_begin_buffer(s, "x", 1), 0);
	assert_int_equal(shredder_begin_file(s, NULL), SHREDDER_E_STATE);
	assert_int_equal(shredder_next(s, &chunk), 1);
	assert_int_equal(shredder_next(s, &chunk), 0);
	shredder_close(s);
}

static int open_with(struct shredder_options options)
{
	shredder *s = NULL;
	const int rc = shredder_open(&options, &s);

	assert_true((rc == 0) == (s != NULL));
	shredder_close(s);
	return rc;
}

static void options_that_cannot_work_are_refused(void **state)
{
	const struct shredder_params reducible = {.size = sizeof(reducible), .polynomial = UINT64_C(1) << 40};

	(void)state;
#define OPENED(...) open_with((struct shredder_options){__VA_ARGS__})
	assert_int_equal(OPENED(.size = 1), SHREDDER_E_VERSION);
#define SIZE .size = sizeof(struct shredder_options)
	assert_int_equal(OPENED(SIZE, .flags = 8), SHREDDER_E_VERSION);
	assert_int_equal(OPENED(SIZE, .reserved = 1), SHREDDER_E_VERSION);
	assert_int_equal(OPENED(SIZE, .engine = "abacus"), SHREDDER_E_ENGINE);
	assert_int_equal(OPENED(SIZE, .buffers = 1), SHREDDER_E_BUFFERS);
	assert_int_equal(OPENED(SIZE, .buffers = 100000), SHREDDER_E_BUFFERS);
	assert_int_equal(OPENED(SIZE, .buffer_bytes = 4097), SHREDDER_E_BUFFERS);
	assert_int_equal(OPENED(SIZE, .buffer_bytes = UINT64_C(1) << 40), SHREDDER_E_BUFFERS);
	assert_int_equal(OPENED(SIZE, .threads = 100000), SHREDDER_E_INVAL);
	assert_int_equal(OPENED(SIZE, .params = &reducible), SHREDDER_E_REDUCIBLE);
	assert_int_equal(OPENED(SIZE, .engine = "cpu", .threads = 3), 0);
	assert_int_equal(shredder_open(NULL, NULL), SHREDDER_E_INVAL);
#undef OPENED
#undef SIZE
	shredder_close(NULL);
}

static void a_missing_engine_falls_back_and_says_so(void **state)
{
	struct given given = give((struct shredder_params){.mask_bits = 9}, CONTENT_RANDOM, 100000, 8);
	const struct shredder_options options = {.size = sizeof(options), .engine = "cuda", .params = &given.params};
	struct shredder_stats stats;
	shredder *s;

	(void)state;
	assert_int_equal(shredder_open(&options, &s), 0);
	shredder_get_stats(s, &stats);
	assert_true(strcmp(stats.engine, "cuda") == 0 || stats.fell_back != NULL);
	assert_int_equal(shredder_begin_buffer(s, given.data, given.bytes), 0);
	expect_chunks(s, &given, 0);
	shredder_close(s);
	release(&given);
}

static void a_source_that_fails_ends_the_input(void **state)
{
	struct given given = give((struct shredder_params){.mask_bits = 8}, CONTENT_RANDOM, 300000, 8);
	struct dripping dripping = {.given = &given, .dice = {3}, .fail_at = 200000};
	const struct shredder_options options = {
		.size = sizeof(options), .buffer_bytes = 4096, .params = &given.params};
	struct shredder_chunk chunk;
	size_t index = 0;
	shredder *s;
	int rc;

	(void)state;
	assert_int_equal(shredder_open(&options, &s), 0);
	assert_int_equal(shredder_begin_reader(s, drip, &dripping), 0);
	while ((rc = shredder_next(s, &chunk)) == 1)
		check_chunk(&given, &chunk, index++, 0);
	assert_int_equal(rc, SHREDDER_E_IO);
	assert_true(index < given.count);
	assert_int_equal(shredder_next(s, &chunk), SHREDDER_E_IO);
	/* and the chunker is good for the next input */
	assert_int_equal(shredder_begin_buffer(s, given.data, given.bytes), 0);
	expect_chunks(s, &given, 0);
	shredder_close(s);
	release(&given);
}

/* The size of a file that is being read changes after its first chunk was handed out. */
static void a_file_that_changes_is_never_taken_as_whole(void **state)
{
	const off_t sizes[] = {100000, 2000000, 4000000};
	struct given given = give((struct shredder_params){.mask_bits = 9}, CONTENT_RANDOM, 3000000, 8);
	const struct shredder_options options = {.size = sizeof(options),
						 .flags = SHREDDER_NO_DIRECT,
						 .threads = 1,
						 .buffers = 2,
						 .buffer_bytes = 16384,
						 .params = &given.params};
	struct shredder_chunk chunk;
	shredder *s;
	int rc;

	(void)state;
	assert_int_equal(shredder_open(&options, &s), 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint64_t covered = 0;

		write_file(file_name(), given.data, given.bytes);
		assert_int_equal(shredder_begin_file(s, file_name()), 0);
		assert_int_equal(shredder_next(s, &chunk), 1);
		assert_int_equal(truncate(file_name(), sizes[i]), 0);
		while ((rc = shredder_next(s, &chunk)) == 1)
			covered = chunk.offset + chunk.length;
		assert_int_equal(rc, SHREDDER_E_CHANGED);
		assert_true(covered < (uint64_t)sizes[i]);
	}
	shredder_close(s);
	unlink(file_name());
	release(&given);
}

/* ------------------------------------------------------------------------------------------- stopping and waiting */

static void a_full_ring_takes_no_more(void **state)
{
	struct given given = give((struct shredder_params){.mask_bits = 9}, CONTENT_RANDOM, 200000, 8);
	const struct shredder_options options = {
		.size = sizeof(options), .threads = 2, .buffers = 3, .buffer_bytes = 8192, .params = &given.params};
	struct shredder_chunk chunk;
	shredder *s;

	(void)state;
	assert_int_equal(shredder_open(&options, &s), 0);
	assert_int_equal(shredder_push(s, given.data, 1), SHREDDER_E_STATE);
	assert_int_equal(shredder_begin_push(s), 0);
	assert_int_equal(shredder_next(s, &chunk), SHREDDER_E_AGAIN);
	assert_int_equal(shredder_push(s, given.data, given.bytes), 3 * 8192);
	assert_int_equal(shredder_push(s, given.data, given.bytes), 0);
	assert_int_equal(shredder_push_end(s), SHREDDER_E_AGAIN);
	assert_int_equal(shredder_next(s, &chunk), 1);
	assert_int_equal(chunk.offset, 0);
	shredder_abandon(s);
	assert_int_equal(shredder_next(s, &chunk), SHREDDER_E_CANCELLED);
	assert_int_equal(shredder_push(s, given.data, 1), SHREDDER_E_STATE);
	expect_pushed(s, &given, 0, &(struct dice){9});
	shredder_close(s);
	release(&given);
}

static void *cancel(void *argument)
{
	shredder_cancel((shredder *)argument);
	return NULL;
}

/* Nothing ever comes out of the socket, so only the other thread can end the wait. */
static void waiting_for_input_can_be_cancelled(void **state)
{
	struct shredder_chunk chunk;
	pthread_t thread;
	shredder *s;
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	for (uint32_t threads = 1; threads < 4; threads++) {
		const struct shredder_options options = {.size = sizeof(options), .threads = threads};

		assert_int_equal(shredder_open(&options, &s), 0);
		assert_int_equal(shredder_begin_fd(s, ends[0]), 0);
		assert_int_equal(pthread_create(&thread, NULL, cancel, s), 0);
		assert_int_equal(shredder_next(s, &chunk), SHREDDER_E_CANCELLED);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(shredder_begin_buffer(s, "abc", 3), 0);
		assert_int_equal(shredder_next(s, &chunk), 1);
		assert_int_equal(shredder_next(s, &chunk), 0);
		/* and closing does not wait for it either */
		assert_int_equal(shredder_begin_fd(s, ends[0]), 0);
		shredder_close(s);
	}
	close(ends[0]);
	close(ends[1]);
}

/* Nobody ever opens its other end. Then somebody does, behind the one who waits. */
static void waiting_for_a_fifo_can_be_cancelled(void **state)
{
	const struct shredder_options options = {.size = sizeof(options), .threads = 1};
	char folder[] = "/tmp/shredder-fifo-XXXXXX", path[64];
	struct shredder_chunk chunk;
	pthread_t thread;
	shredder *s;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/fifo", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(shredder_open(&options, &s), 0);
	assert_int_equal(shredder_begin_file(s, path), 0);
	assert_int_equal(pthread_create(&thread, NULL, cancel, s), 0);
	assert_int_equal(shredder_next(s, &chunk), SHREDDER_E_CANCELLED);
	assert_int_equal(pthread_join(thread, NULL), 0);
	/* and closing does not wait for it either */
	assert_int_equal(shredder_begin_file(s, path), 0);
	shredder_close(s);

	assert_int_equal(shredder_open(&options, &s), 0);
	assert_int_equal(shredder_begin_file(s, path), 0);
	const int writer = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(writer >= 0);
	assert_int_equal(write(writer, "abc", 3), 3);
	close(writer);
	assert_int_equal(shredder_next(s, &chunk), 1);
	assert_int_equal(chunk.length, 3);
	assert_int_equal(shredder_next(s, &chunk), 0);
	shredder_close(s);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
}

struct counter {
	uint64_t chunks;
	uint64_t stop_after;
};

static int count_chunk(void *user, const struct shredder_chunk *chunk)
{
	struct counter *counter = (struct counter *)user;

	return chunk->length == 0 || ++counter->chunks == counter->stop_after;
}

static void a_callback_can_stop(void **state)
{
	struct given given = give((struct shredder_params){.mask_bits = 9}, CONTENT_RANDOM, 200000, 8);
	const struct shredder_options options = {
		.size = sizeof(options), .threads = 3, .buffer_bytes = 8192, .params = &given.params};
	struct counter stops = {.stop_after = 3}, goes_on = {0};
	shredder *s;

	(void)state;
	assert_int_equal(shredder_open(&options, &s), 0);
	assert_int_equal(shredder_begin_buffer(s, given.data, given.bytes), 0);
	assert_int_equal(shredder_each(s, count_chunk, &stops), SHREDDER_E_STOPPED);
	assert_int_equal(stops.chunks, 3);
	assert_int_equal(shredder_begin_buffer(s, given.data, given.bytes), 0);
	assert_int_equal(shredder_each(s, count_chunk, &goes_on), 0);
	assert_int_equal(goes_on.chunks, given.count);
	shredder_close(s);
	release(&given);
}

static void statistics_tell_what_ran(void **state)
{
	struct given given = give((struct shredder_params){0}, CONTENT_RANDOM, 300000, 8);
	const struct shredder_options options = {
		.size = sizeof(options), .engine = "portable", .threads = 2, .buffers = 4};
	struct shredder_stats stats;
	shredder *s;

	(void)state;
	assert_int_equal(shredder_open(&options, &s), 0);
	assert_int_equal(shredder_begin_buffer(s, given.data, given.bytes), 0);
	expect_chunks(s, &given, 0);
	shredder_get_stats(s, &stats);
	assert_string_equal(stats.engine, "cpu");
	assert_string_equal(stats.kernel, "portable");
	assert_null(stats.fell_back);
	assert_int_equal(stats.threads, 2);
	assert_int_equal(stats.buffers, 4);
	assert_true(stats.busy_ns[SHREDDER_STAGE_KERNEL] > 0 && stats.busy_ns[SHREDDER_STAGE_STORE] > 0);
	assert_true(stats.elapsed_ns > 0);
	assert_string_equal(shredder_stage_name(SHREDDER_STAGE_KERNEL), "kernel");
	shredder_close(s);
	release(&given);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_has_no_chunks),
		cmocka_unit_test(all_inputs_threads_and_buffers_give_the_same),
		cmocka_unit_test(a_chunk_for_each_byte),
		cmocka_unit_test(large_files_are_read_whole),
		cmocka_unit_test(a_sparse_file_is_its_zeros),
		cmocka_unit_test(a_file_is_read_from_its_offset),
		cmocka_unit_test(files_of_the_kernel_have_no_size),
		cmocka_unit_test(what_cannot_be_read_is_refused),
		cmocka_unit_test(what_was_refused_has_no_end),
		cmocka_unit_test(options_that_cannot_work_are_refused),
		cmocka_unit_test(a_missing_engine_falls_back_and_says_so),
		cmocka_unit_test(a_source_that_fails_ends_the_input),
		cmocka_unit_test(a_file_that_changes_is_never_taken_as_whole),
		cmocka_unit_test(a_full_ring_takes_no_more),
		cmocka_unit_test(waiting_for_input_can_be_cancelled),
		cmocka_unit_test(waiting_for_a_fifo_can_be_cancelled),
		cmocka_unit_test(a_callback_can_stop),
		cmocka_unit_test(statistics_tell_what_ran),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
