/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous operations through the public API. */
#include "api_fixture.h"

#define FOREVER (-1)

static struct gpu4fs_async operation(enum gpu4fs_async_op op)
{
	return (struct gpu4fs_async){.size = sizeof(struct gpu4fs_async), .op = op, .result = 12345};
}

/* Submits one operation and waits for it. */
static int64_t run(struct gpu4fs_async *op)
{
	struct gpu4fs_async *done;

	ok(gpu4fs_submit(fs, op, 1));
	gives(gpu4fs_poll(fs, &done, 1, FOREVER), 1);
	assert_ptr_equal(done, op);
	return op->result;
}

/* Waits for `count` completions. */
static void collect(uint32_t count)
{
	struct gpu4fs_async *done[64];

	while (count) {
		int got = gpu4fs_poll(fs, done, 64, FOREVER);

		assert_in_range(got, 1, count);
		count -= (uint32_t)got;
	}
	gives(gpu4fs_poll(fs, done, 64, FOREVER), 0);
}

static void a_batch_of_writes_and_reads_moves_every_byte(void **state)
{
	enum { OPS = 200, BYTES = 5000 };
	struct gpu4fs_async *ops = calloc(OPS, sizeof(*ops));
	char *data = malloc(OPS * BYTES), *found = malloc(OPS * BYTES);
	gpu4fs_file *file = api_open("/f", O_RDWR | O_CREAT, 0644);

	(void)state;
	api_pattern(data, 1, 0, OPS * BYTES);
	for (uint64_t i = 0; i < OPS; i++) {
		ops[i] = operation(GPU4FS_ASYNC_WRITE);
		ops[i].user = i;
		ops[i].file = file;
		ops[i].buffer = data + i * BYTES;
		ops[i].bytes = BYTES;
		ops[i].offset = (int64_t)(i * BYTES);
	}
	ok(gpu4fs_submit(fs, ops, OPS));
	collect(OPS);
	for (uint64_t i = 0; i < OPS; i++) {
		gives(ops[i].result, BYTES);
		assert_int_equal(ops[i].user, i);
		ops[i].op = GPU4FS_ASYNC_READ;
		ops[i].buffer = found + i * BYTES;
	}
	ok(gpu4fs_submit(fs, ops, OPS));
	collect(OPS);
	assert_memory_equal(found, data, OPS * BYTES);
	ok(gpu4fs_close(file));
	free(ops);
	free(data);
	free(found);
}

static void every_operation_gives_what_its_function_gives(void **state)
{
	struct gpu4fs_async op = operation(GPU4FS_ASYNC_NOP);
	struct gpu4fs_stat stat;
	char buffer[8];
	struct iovec iov[2] = {{buffer, 2}, {buffer + 2, 2}};
	gpu4fs_file *file;

	(void)state;
	ok(run(&op));
	op = operation(GPU4FS_ASYNC_MKDIR);
	op.path = "/d";
	op.mode = 0750;
	ok(run(&op));
	fails(run(&op), EEXIST);
	op = operation(GPU4FS_ASYNC_OPEN);
	op.path = "/d/f";
	op.flags = O_RDWR | O_CREAT;
	op.mode = 0640;
	ok(run(&op));
	file = op.opened;
	op = operation(GPU4FS_ASYNC_WRITEV);
	op.file = file;
	memcpy(buffer, "abcd", 4);
	op.buffer = iov;
	op.bytes = 2;
	gives(run(&op), 4);
	memset(buffer, 0, 4);
	op.op = GPU4FS_ASYNC_READV;
	gives(run(&op), 4);
	assert_memory_equal(buffer, "abcd", 4);
	op = operation(GPU4FS_ASYNC_COPY);
	op.file = op.file2 = file;
	op.offset2 = 4;
	op.bytes = 4;
	gives(run(&op), 4);
	api_check_text("/d/f", "abcdabcd");
	op = operation(GPU4FS_ASYNC_FTRUNCATE);
	op.file = file;
	op.offset = 3;
	ok(run(&op));
	op = operation(GPU4FS_ASYNC_FALLOCATE);
	op.file = file;
	op.flags = GPU4FS_FALLOC_KEEP_SIZE;
	op.bytes = 10000;
	ok(run(&op));
	op = operation(GPU4FS_ASYNC_FSYNC);
	op.file = file;
	ok(run(&op));
	op.op = GPU4FS_ASYNC_FDATASYNC;
	ok(run(&op));
	op = operation(GPU4FS_ASYNC_FSTAT);
	op.file = file;
	op.buffer = &stat;
	ok(run(&op));
	assert_int_equal(stat.size, 3);
	op = operation(GPU4FS_ASYNC_SYMLINK);
	op.path = "/d/s";
	op.path2 = "f";
	ok(run(&op));
	op = operation(GPU4FS_ASYNC_STAT);
	op.path = "/d/s";
	op.buffer = &stat;
	ok(run(&op));
	assert_true(S_ISREG(stat.mode));
	op.op = GPU4FS_ASYNC_LSTAT;
	ok(run(&op));
	assert_true(S_ISLNK(stat.mode));
	op = operation(GPU4FS_ASYNC_LINK);
	op.path = "/d/f";
	op.path2 = "/d/g";
	ok(run(&op));
	op.op = GPU4FS_ASYNC_RENAME;
	op.path = "/d/g";
	op.path2 = "/g";
	ok(run(&op));
	op = operation(GPU4FS_ASYNC_UNLINK);
	op.path = "/d/s";
	ok(run(&op));
	fails(run(&op), ENOENT);
	op.path = "/d/f";
	ok(run(&op));
	op = operation(GPU4FS_ASYNC_CLOSE);
	op.file = file;
	ok(run(&op));
	op = operation(GPU4FS_ASYNC_RMDIR);
	op.path = "/d";
	ok(run(&op));
	op = operation(GPU4FS_ASYNC_SYNCFS);
	ok(run(&op));
	struct gpu4fs_batch_entry entries[] = {{.op = GPU4FS_BATCH_MKDIR, .path = "in batch", .mode = 0755},
					       {.op = GPU4FS_BATCH_RMDIR, .path = "none"}};
	op = operation(GPU4FS_ASYNC_BATCH);
	op.buffer = entries;
	op.bytes = 2;
	assert_int_equal(run(&op), 1);
	assert_int_equal(entries[1].result, -ENOENT);
	assert_true(api_exists("/in batch"));
	api_check_text("/g", "abc");
}

static void paths_start_at_the_given_directory(void **state)
{
	struct gpu4fs_async op = operation(GPU4FS_ASYNC_MKDIR);

	(void)state;
	ok(gpu4fs_mkdir(fs, NULL, "/d", 0755));
	op.file = api_open("/d", O_RDONLY | O_DIRECTORY, 0);
	op.path = "e";
	op.mode = 0755;
	ok(run(&op));
	assert_true(api_exists("/d/e"));
	ok(gpu4fs_close(op.file));
}

static void a_batch_with_a_bad_operation_does_not_start(void **state)
{
	struct gpu4fs_async ops[2] = {operation(GPU4FS_ASYNC_MKDIR), operation(GPU4FS_ASYNC_MKDIR)}, *done;

	(void)state;
	ops[0].path = "/a";
	ops[1].path = "/b";
	ops[1].op = 1000;
	fails(gpu4fs_submit(fs, ops, 2), EINVAL);
	ops[1].op = GPU4FS_ASYNC_MKDIR;
	ops[1].size = 8;
	fails(gpu4fs_submit(fs, ops, 2), EINVAL);
	assert_false(api_exists("/a"));
	ok(gpu4fs_submit(fs, ops, 0));
	gives(gpu4fs_poll(fs, &done, 1, FOREVER), 0);
}

static void polling_returns_in_time_when_nothing_is_done(void **state)
{
	struct gpu4fs_async op = operation(GPU4FS_ASYNC_NOP), *done;

	(void)state;
	gives(gpu4fs_poll(fs, &done, 1, 0), 0);
	gives(gpu4fs_poll(fs, &done, 1, 1000000000000), 0);
	ok(gpu4fs_submit(fs, &op, 1));
	while (gpu4fs_poll(fs, &done, 1, 1000000) == 0)
		;
	assert_ptr_equal(done, &op);
}

static void sessions_collect_their_own_completions(void **state)
{
	gpu4fs *user = api_session(1001, 1001, 0);
	struct gpu4fs_async mine = operation(GPU4FS_ASYNC_MKDIR), theirs = operation(GPU4FS_ASYNC_MKDIR), *done;

	(void)state;
	mine.path = "/mine";
	theirs.path = "/theirs";
	ok(gpu4fs_submit(user, &theirs, 1));
	ok(gpu4fs_submit(fs, &mine, 1));
	gives(gpu4fs_poll(fs, &done, 1, FOREVER), 1);
	assert_ptr_equal(done, &mine);
	ok(mine.result);
	fails(gpu4fs_session_close(user), EBUSY);
	gives(gpu4fs_poll(user, &done, 1, FOREVER), 1);
	assert_ptr_equal(done, &theirs);
	fails(theirs.result, EACCES);
	ok(gpu4fs_session_close(user));
}

static void unmount_waits_for_nobody(void **state)
{
	struct gpu4fs_async op = operation(GPU4FS_ASYNC_NOP), *done;

	(void)state;
	ok(gpu4fs_submit(fs, &op, 1));
	fails(gpu4fs_unmount(fs), EBUSY);
	gives(gpu4fs_poll(fs, &done, 1, FOREVER), 1);
}

enum { SUBMITTERS = 4, EACH = 300 };

static void *submit_and_collect(void *argument)
{
	struct gpu4fs_async *ops = calloc(EACH, sizeof(*ops));
	char(*paths)[32] = calloc(EACH, sizeof(*paths));
	bool good = true;

	for (int i = 0; i < EACH; i++) {
		ops[i] = operation(GPU4FS_ASYNC_MKDIR);
		ops[i].path = paths[i];
		snprintf(paths[i], sizeof(paths[i]), "/t%d-%d", *(int *)argument, i);
		good = good && gpu4fs_submit(fs, &ops[i], 1) == 0;
	}
	/* Any thread may get any completion; every operation is done when its result is there. */
	for (int i = 0; i < EACH; i++) {
		struct gpu4fs_async *done;

		if (gpu4fs_poll(fs, &done, 1, FOREVER) != 1 || done->result != 0)
			good = false;
	}
	*(int *)argument = good;
	return ops; /* freed when every thread has collected */
}

static void threads_share_one_queue(void **state)
{
	pthread_t threads[SUBMITTERS];
	int arguments[SUBMITTERS];
	void *ops[SUBMITTERS];

	(void)state;
	for (int i = 0; i < SUBMITTERS; i++) {
		arguments[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, submit_and_collect, &arguments[i]), 0);
	}
	for (int i = 0; i < SUBMITTERS; i++)
		pthread_join(threads[i], &ops[i]);
	for (int i = 0; i < SUBMITTERS; i++) {
		assert_true(arguments[i]);
		free((void *)((struct gpu4fs_async *)ops[i])->path);
		free(ops[i]);
	}
	assert_int_equal(api_count_names("/"), SUBMITTERS * EACH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		api_test(a_batch_of_writes_and_reads_moves_every_byte),
		api_test(every_operation_gives_what_its_function_gives),
		api_test(paths_start_at_the_given_directory),
		api_test(a_batch_with_a_bad_operation_does_not_start),
		api_test(polling_returns_in_time_when_nothing_is_done),
		api_test(sessions_collect_their_own_completions),
		api_test(unmount_waits_for_nobody),
		api_test(threads_share_one_queue),
	};

	return cmocka_run_group_tests_name("api asynchronous", tests, NULL, NULL);
}
