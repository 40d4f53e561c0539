/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous operations: worker threads that call the synchronous functions.
 *
 * The submitted structures are the queue's own nodes: reserved[0] links them, first in the pool's queue, then in the
 * session's list of completions; reserved[1] is the session. Nothing is allocated by submitting, so it cannot fail half
 * way. Locks: a thread holds the pool's lock or one session's async_lock, never both.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>
#include <unistd.h>

#include "base/clock_host.h"
#include "base/thread_host.h"
#include "client/client.h"

#define ASYNC_V1 sizeof(struct gpu4fs_async)
#define THREADS_DEFAULT_MAX 8
#define THREADS_MAX 256

struct g4c_pool {
	pthread_mutex_t lock;
	pthread_cond_t work; /* the queue is not empty, or stop */
	struct gpu4fs_async *head, *tail;
	bool stop;
	uint32_t thread_count;
	pthread_t threads[THREADS_MAX];
};

static struct gpu4fs_async *next_of(const struct gpu4fs_async *op)
{
	return op->reserved[0];
}

static void append(struct gpu4fs_async **head, struct gpu4fs_async **tail, struct gpu4fs_async *op)
{
	op->reserved[0] = NULL;
	if (*tail)
		(*tail)->reserved[0] = op;
	else
		*head = op;
	*tail = op;
}

static struct gpu4fs_async *take_first(struct gpu4fs_async **head, struct gpu4fs_async **tail)
{
	struct gpu4fs_async *op = *head;

	*head = next_of(op);
	if (!*head)
		*tail = NULL;
	return op;
}

/* ------------------------------------------------------------------ executing */

static int64_t execute(gpu4fs *fs, struct gpu4fs_async *op)
{
	int64_t from = op->offset, to = op->offset2;

	switch ((enum gpu4fs_async_op)op->op) {
	case GPU4FS_ASYNC_NOP:
		return 0;
	case GPU4FS_ASYNC_READ:
		return gpu4fs_pread(op->file, op->buffer, op->bytes, op->offset);
	case GPU4FS_ASYNC_WRITE:
		return gpu4fs_pwrite(op->file, op->buffer, op->bytes, op->offset);
	case GPU4FS_ASYNC_READV:
		return gpu4fs_preadv(op->file, op->buffer, op->bytes > INT32_MAX ? -1 : (int)op->bytes, op->offset);
	case GPU4FS_ASYNC_WRITEV:
		return gpu4fs_pwritev(op->file, op->buffer, op->bytes > INT32_MAX ? -1 : (int)op->bytes, op->offset);
	case GPU4FS_ASYNC_FSYNC:
		return gpu4fs_fsync(op->file);
	case GPU4FS_ASYNC_FDATASYNC:
		return gpu4fs_fdatasync(op->file);
	case GPU4FS_ASYNC_FALLOCATE:
		return gpu4fs_fallocate(op->file, op->flags, op->offset, (int64_t)op->bytes);
	case GPU4FS_ASYNC_FTRUNCATE:
		return gpu4fs_ftruncate(op->file, op->offset);
	case GPU4FS_ASYNC_COPY:
		return gpu4fs_copy_file_range(op->file, &from, op->file2, &to, op->bytes);
	case GPU4FS_ASYNC_OPEN:
		return gpu4fs_open(fs, op->file, op->path, (int)op->flags, op->mode, &op->opened);
	case GPU4FS_ASYNC_CLOSE:
		return gpu4fs_close(op->file);
	case GPU4FS_ASYNC_STAT:
		return gpu4fs_stat(fs, op->file, op->path, op->buffer);
	case GPU4FS_ASYNC_LSTAT:
		return gpu4fs_lstat(fs, op->file, op->path, op->buffer);
	case GPU4FS_ASYNC_FSTAT:
		return gpu4fs_fstat(op->file, op->buffer);
	case GPU4FS_ASYNC_MKDIR:
		return gpu4fs_mkdir(fs, op->file, op->path, op->mode);
	case GPU4FS_ASYNC_RMDIR:
		return gpu4fs_rmdir(fs, op->file, op->path);
	case GPU4FS_ASYNC_UNLINK:
		return gpu4fs_unlink(fs, op->file, op->path);
	case GPU4FS_ASYNC_RENAME:
		return gpu4fs_rename(fs, op->file, op->path, op->file2, op->path2, op->flags);
	case GPU4FS_ASYNC_LINK:
		return gpu4fs_link(fs, op->file, op->path, op->file2, op->path2, (int)op->flags);
	case GPU4FS_ASYNC_SYMLINK:
		return gpu4fs_symlink(fs, op->path2, op->file, op->path);
	case GPU4FS_ASYNC_SYNCFS:
		return gpu4fs_syncfs(fs);
	case GPU4FS_ASYNC_BATCH:
		return op->bytes > UINT32_MAX ? -EINVAL :
						gpu4fs_batch(fs, op->file, op->buffer, (uint32_t)op->bytes, op->flags);
	}
	return -EINVAL;
}

static void complete(gpu4fs *fs, struct gpu4fs_async *op)
{
	pthread_mutex_lock(&fs->async_lock);
	append(&fs->done_head, &fs->done_tail, op);
	fs->in_flight--;
	pthread_cond_broadcast(&fs->async_done);
	/* The last touch of fs: the collector of the completion may close the session. */
	pthread_mutex_unlock(&fs->async_lock);
}

static void *worker(void *argument)
{
	struct g4c_pool *pool = argument;

	for (;;) {
		struct gpu4fs_async *op;

		pthread_mutex_lock(&pool->lock);
		while (!pool->head && !pool->stop)
			pthread_cond_wait(&pool->work, &pool->lock);
		op = pool->head ? take_first(&pool->head, &pool->tail) : NULL;
		pthread_mutex_unlock(&pool->lock);
		if (!op)
			return NULL;
		op->result = execute(op->reserved[1], op);
		complete(op->reserved[1], op);
	}
}

/* ------------------------------------------------------------------ the pool */

static uint32_t threads_wanted(const struct g4c_mount *mount)
{
	long cores;

	if (mount->pool_threads)
		return mount->pool_threads < THREADS_MAX ? mount->pool_threads : THREADS_MAX;
	cores = sysconf(_SC_NPROCESSORS_ONLN);
	if (cores < 1)
		return 1;
	return cores < THREADS_DEFAULT_MAX ? (uint32_t)cores : THREADS_DEFAULT_MAX;
}

/* Makes the threads; fewer than wanted are fine, none is an error. */
static int start_threads(struct g4c_pool *pool, uint32_t wanted)
{
	int rc = 0;

	while (pool->thread_count < wanted && rc == 0) {
		rc = g4_thread_start(&pool->threads[pool->thread_count], worker, pool);
		if (rc == 0)
			pool->thread_count++;
	}
	return pool->thread_count ? 0 : -EAGAIN;
}

static int pool_new(struct g4c_mount *mount, struct g4c_pool **out)
{
	struct g4c_pool *pool = calloc(1, sizeof(*pool));
	int rc;

	if (!pool)
		return -ENOMEM;
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->work, NULL);
	rc = start_threads(pool, threads_wanted(mount));
	if (rc) {
		pthread_cond_destroy(&pool->work);
		pthread_mutex_destroy(&pool->lock);
		free(pool);
		return rc;
	}
	*out = pool;
	return 0;
}

static int pool_get(struct g4c_mount *mount, struct g4c_pool **out)
{
	int rc = 0;

	*out = __atomic_load_n(&mount->pool, __ATOMIC_ACQUIRE);
	if (*out)
		return 0;
	pthread_mutex_lock(&mount->pool_lock);
	*out = mount->pool;
	if (!*out) {
		rc = pool_new(mount, out);
		if (rc == 0)
			__atomic_store_n(&mount->pool, *out, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&mount->pool_lock);
	return rc;
}

void g4c_pool_free(struct g4c_mount *mount)
{
	struct g4c_pool *pool = mount->pool;

	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->stop = true;
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->lock);
	for (uint32_t i = 0; i < pool->thread_count; i++)
		pthread_join(pool->threads[i], NULL);
	pthread_cond_destroy(&pool->work);
	pthread_mutex_destroy(&pool->lock);
	free(pool);
}

bool g4c_async_busy(gpu4fs *fs)
{
	bool busy;

	pthread_mutex_lock(&fs->async_lock);
	busy = fs->in_flight != 0 || fs->done_head;
	pthread_mutex_unlock(&fs->async_lock);
	return busy;
}

/* ------------------------------------------------------------------ submit and poll */

int gpu4fs_submit(gpu4fs *fs, struct gpu4fs_async *ops, uint32_t count)
{
	struct g4c_pool *pool;
	int rc;

	for (uint32_t i = 0; i < count; i++) {
		if (ops[i].size != ASYNC_V1 || ops[i].op > GPU4FS_ASYNC_BATCH)
			return -EINVAL;
	}
	if (count == 0)
		return 0;
	rc = pool_get(fs->mount, &pool);
	if (rc)
		return rc;

	pthread_mutex_lock(&fs->async_lock);
	fs->in_flight += count;
	pthread_mutex_unlock(&fs->async_lock);

	pthread_mutex_lock(&pool->lock);
	for (uint32_t i = 0; i < count; i++) {
		ops[i].reserved[1] = fs;
		append(&pool->head, &pool->tail, &ops[i]);
	}
	if (count == 1)
		pthread_cond_signal(&pool->work);
	else
		pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->lock);
	return 0;
}

int gpu4fs_poll(gpu4fs *fs, struct gpu4fs_async **completions, uint32_t max, int64_t timeout_ns)
{
	struct timespec deadline = {0};
	uint32_t count = 0;
	int rc = 0;

	if (max > INT32_MAX)
		max = INT32_MAX;
	if (timeout_ns > 0)
		deadline = g4_clock_after(CLOCK_MONOTONIC, (uint64_t)timeout_ns);
	pthread_mutex_lock(&fs->async_lock);
	while (max && !fs->done_head && fs->in_flight && timeout_ns && rc != ETIMEDOUT) {
		if (timeout_ns < 0)
			pthread_cond_wait(&fs->async_done, &fs->async_lock);
		else
			rc = pthread_cond_timedwait(&fs->async_done, &fs->async_lock, &deadline);
	}
	while (count < max && fs->done_head)
		completions[count++] = take_first(&fs->done_head, &fs->done_tail);
	pthread_mutex_unlock(&fs->async_lock);
	return (int)count;
}
