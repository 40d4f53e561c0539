/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU engine. Threads that call borrow a workgroup each, from a small pool, and keep it in thread-local memory for
 * their next call. One background thread writes back and commits, at the latest every commit interval.
 */
#include "engine/engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log_host.h"
#include "dev/dev_host.h"
#include "fs/mount_host.h"
#include "simt/simt_host.h"

#define DEFAULT_CACHE_BYTES (256 * G4_MIB)
#define MIN_CACHE_BYTES (4 * G4_MIB)
#define DEFAULT_COMMIT_MS 5000u

struct holder { /* a workgroup lent to a thread */
	struct g4_wg *wg;
	struct holder *next;
};

struct g4_engine {
	struct g4_fs *fs;
	struct g4_dev *dev;
	uint64_t id;
	pthread_mutex_t pool_mutex;
	struct holder *idle;
	struct holder *all[1024];
	uint32_t made;
	pthread_t thread;
	bool thread_runs;
	pthread_mutex_t mutex; /* of stop */
	pthread_cond_t wake;
	bool stop;
	uint32_t commit_ms;
};

/* ------------------------------------------------------------------ workgroups */

static struct holder *borrow(struct g4_engine *engine)
{
	struct holder *holder;

	pthread_mutex_lock(&engine->pool_mutex);
	holder = engine->idle;
	if (holder) {
		engine->idle = holder->next;
	} else if (engine->made < sizeof(engine->all) / sizeof(engine->all[0])) {
		holder = (struct holder *)calloc(1, sizeof(*holder));
		if (holder)
			holder->wg = g4_wg_create(engine->made);
		if (holder && !holder->wg) {
			free(holder);
			holder = NULL;
		}
		if (holder)
			engine->all[engine->made++] = holder;
	}
	pthread_mutex_unlock(&engine->pool_mutex);
	return holder;
}

static void give_back(struct g4_engine *engine, struct holder *holder)
{
	pthread_mutex_lock(&engine->pool_mutex);
	holder->next = engine->idle;
	engine->idle = holder;
	pthread_mutex_unlock(&engine->pool_mutex);
}

int g4_engine_execute(struct g4_engine *engine, struct g4_cmd *cmd)
{
	struct holder *holder = borrow(engine);

	if (!holder) {
		cmd->status = -G4_E_NOMEM;
		return cmd->status;
	}
	g4_execute(holder->wg, engine->fs, cmd);
	give_back(engine, holder);
	return cmd->status;
}

/* ------------------------------------------------------------------ background */

static void wait_interval(struct g4_engine *engine)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += engine->commit_ms / 1000;
	until.tv_nsec += (long)(engine->commit_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&engine->mutex);
	while (!engine->stop && pthread_cond_timedwait(&engine->wake, &engine->mutex, &until) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&engine->mutex);
}

static void *background(void *argument)
{
	struct g4_engine *engine = (struct g4_engine *)argument;
	struct holder *holder = borrow(engine);
	bool reported = false;

	while (holder) {
		wait_interval(engine);
		pthread_mutex_lock(&engine->mutex);
		bool stop = engine->stop;
		pthread_mutex_unlock(&engine->mutex);
		if (stop)
			break;
		int rc = g4_sync_all(holder->wg, engine->fs, false);
		if (rc < 0 && !reported)
			g4_log(G4_LOG_ERROR, "write-back: %s", g4_strerror(rc));
		reported = rc < 0;
	}
	if (holder)
		give_back(engine, holder);
	return NULL;
}

static int start_background(struct g4_engine *engine)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&engine->wake, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&engine->mutex, NULL);
	if (engine->fs->flags & G4_FS_READ_ONLY)
		return 0;
	if (pthread_create(&engine->thread, NULL, background, engine) != 0)
		return -G4_E_NOMEM;
	engine->thread_runs = true;
	return 0;
}

static void stop_background(struct g4_engine *engine)
{
	if (!engine->thread_runs)
		return;
	pthread_mutex_lock(&engine->mutex);
	engine->stop = true;
	pthread_cond_signal(&engine->wake);
	pthread_mutex_unlock(&engine->mutex);
	pthread_join(engine->thread, NULL);
	engine->thread_runs = false;
}

/* ------------------------------------------------------------------ mount */

static void free_engine(struct g4_engine *engine)
{
	for (uint32_t i = 0; i < engine->made; i++) {
		g4_wg_destroy(engine->all[i]->wg);
		free(engine->all[i]);
	}
	g4_dev_close(engine->dev);
	pthread_mutex_destroy(&engine->pool_mutex);
	free(engine);
}

static struct g4_fs_options translate(const struct g4_mount_options *options)
{
	struct g4_fs_options out = {0};
	uint64_t cache = options->cache_bytes ? options->cache_bytes : DEFAULT_CACHE_BYTES;

	out.cache_bytes = g4_max64(cache, MIN_CACHE_BYTES);
	out.flags |= options->flags & G4_MOUNT_READ_ONLY ? G4_FS_READ_ONLY : 0;
	out.flags |= options->flags & G4_MOUNT_NOATIME ? G4_FS_NOATIME : 0;
	out.flags |= options->flags & G4_MOUNT_STRICTATIME ? G4_FS_STRICTATIME : 0;
	out.flags |= options->flags & G4_MOUNT_HOLD_UNLINKED ? G4_FS_HOLD_UNLINKED : 0;
	out.no_replay = options->flags & G4_MOUNT_NO_REPLAY;
	return out;
}

int g4_engine_mount_device(struct g4_dev *dev, const struct g4_mount_options *options, struct g4_engine **out,
			   char *message, size_t message_bytes)
{
	struct g4_fs_options fs_options = translate(options);
	struct g4_engine *engine = (struct g4_engine *)calloc(1, sizeof(*engine));
	struct holder *holder = NULL;
	int rc = -G4_E_NOMEM;

	if (!engine) {
		g4_dev_close(dev);
		snprintf(message, message_bytes, "cannot mount: %s", g4_strerror(rc));
		return rc;
	}
	engine->dev = dev;
	engine->commit_ms = options->commit_ms ? options->commit_ms : DEFAULT_COMMIT_MS;
	pthread_mutex_init(&engine->pool_mutex, NULL);
	holder = borrow(engine);
	if (holder) {
		rc = g4_fs_mount(holder->wg, dev, &fs_options, &engine->fs, message, message_bytes);
		if (rc == 0) {
			rc = start_background(engine);
			if (rc < 0)
				g4_fs_unmount(holder->wg, engine->fs, false);
		}
		give_back(engine, holder);
	}
	if (rc < 0) {
		free_engine(engine);
		return rc;
	}
	*out = engine;
	return 0;
}

int g4_engine_mount(const char *const *names, uint32_t count, const struct g4_mount_options *options,
		    struct g4_engine **out, char *message, size_t message_bytes)
{
	struct g4_dev_open_options open_options = {0};
	struct g4_dev *dev;

	if (count != 1) {
		snprintf(message, message_bytes, "cannot mount: this version uses exactly one device");
		return -G4_E_SB_DISKS;
	}
	open_options.flags = options->flags & (G4_MOUNT_READ_ONLY | G4_MOUNT_NO_REPLAY) ?
				     (options->flags & G4_MOUNT_NO_REPLAY ? G4_DEV_READ_ONLY :
									    G4_DEV_READ_ONLY | G4_DEV_EXCLUSIVE) :
				     G4_DEV_EXCLUSIVE;
	int rc = g4_dev_open(names[0], &open_options, &dev, message, message_bytes);
	return rc < 0 ? rc : g4_engine_mount_device(dev, options, out, message, message_bytes);
}

int g4_engine_unmount(struct g4_engine *engine)
{
	struct holder *holder;
	int rc = -G4_E_NOMEM;

	stop_background(engine);
	holder = borrow(engine);
	if (holder)
		rc = g4_fs_unmount(holder->wg, engine->fs, true);
	free_engine(engine);
	return rc;
}

void g4_engine_abandon(struct g4_engine *engine)
{
	stop_background(engine);
	struct holder *holder = borrow(engine);
	if (holder)
		g4_fs_unmount(holder->wg, engine->fs, false);
	free_engine(engine);
}
