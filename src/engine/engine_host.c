/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU engine. A thread that calls borrows a workgroup for the call, without a lock. One background thread writes back and commits, at the latest every commit interval.
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

#define SLOTS 256u /* operations at a time; further callers wait for a slot */

struct holder { /* a workgroup, borrowed by one caller at a time */
	uint32_t busy;
	struct g4_wg *wg; /* made at first use */
	uint8_t padding[48];
};

struct g4_engine {
	struct g4_fs *fs;
	struct g4_dev *dev;
	uint64_t id;
	struct holder slots[SLOTS];
	pthread_t thread;
	bool thread_runs;
	pthread_mutex_t mutex; /* of stop */
	pthread_cond_t wake;
	bool stop;
	uint32_t kicked; /* the background thread was asked to work before its time */
	uint32_t commit_ms;
};

/* ------------------------------------------------------------------ workgroups */

/* Threads start looking at different slots, so that each usually finds its last one free. */
static uint32_t first_slot(void)
{
	static uint32_t threads;
	static __thread uint32_t mine;

	if (mine == 0)
		mine = g4_add32(&threads, 1) + 1;
	return mine - 1;
}

/* NULL when there is no memory for another workgroup. */
static struct holder *borrow(struct g4_engine *engine)
{
	for (uint32_t at = first_slot();; at++) {
		struct holder *holder = &engine->slots[at % SLOTS];

		if (g4_load32_rlx(&holder->busy) || !g4_cas32(&holder->busy, 0, 1)) {
			if (at % SLOTS == SLOTS - 1)
				g4_pause();
			continue;
		}
		if (!holder->wg)
			holder->wg = g4_wg_create(at % SLOTS);
		if (holder->wg)
			return holder;
		g4_store32_rel(&holder->busy, 0);
		return NULL;
	}
}

static void give_back(struct holder *holder)
{
	g4_store32_rel(&holder->busy, 0);
}

static void kick(struct g4_engine *engine)
{
	if (!engine->thread_runs || g4_xchg32(&engine->kicked, 1))
		return;
	pthread_mutex_lock(&engine->mutex);
	pthread_cond_signal(&engine->wake);
	pthread_mutex_unlock(&engine->mutex);
}

uint32_t g4_engine_open_inodes(struct g4_engine *engine, uint64_t *inodes, uint32_t room)
{
	struct g4_fs *fs = engine->fs;
	uint32_t count = 0;

	for (uint32_t i = 0; i < fs->cores.count && count < room; i++)
		if (g4_load32_acq(&g4_core_of(fs, i)->opens) > 0)
			inodes[count++] = g4_load64_rlx(&g4_core_of(fs, i)->ino);
	return count;
}

int g4_engine_execute(struct g4_engine *engine, struct g4_cmd *cmd)
{
	struct holder *holder = borrow(engine);

	if (!holder) {
		cmd->status = -G4_E_NOMEM;
		return cmd->status;
	}
	g4_execute(holder->wg, engine->fs, cmd);
	give_back(holder);
	if (g4_dirty_pressure(engine->fs, false) && !g4_load32_rlx(&engine->kicked))
		kick(engine);
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
	while (!engine->stop && !g4_load32_acq(&engine->kicked) &&
	       pthread_cond_timedwait(&engine->wake, &engine->mutex, &until) != ETIMEDOUT)
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
		g4_store32_rel(&engine->kicked, 0);
		int rc = g4_sync_all(holder->wg, engine->fs, false);
		if (rc < 0 && !reported)
			g4_log(G4_LOG_ERROR, "write-back: %s", g4_strerror(rc));
		reported = rc < 0;
	}
	if (holder)
		give_back(holder);
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
	for (uint32_t i = 0; i < SLOTS; i++)
		if (engine->slots[i].wg)
			g4_wg_destroy(engine->slots[i].wg);
	g4_dev_close(engine->dev);
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
	out.flags |= options->flags & G4_MOUNT_SYNC ? G4_FS_SYNC : 0;
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
	holder = borrow(engine);
	if (holder) {
		rc = g4_fs_mount(holder->wg, dev, &fs_options, &engine->fs, message, message_bytes);
		if (rc == 0) {
			rc = start_background(engine);
			if (rc < 0)
				g4_fs_unmount(holder->wg, engine->fs, false);
		}
		give_back(holder);
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
	open_options.flags =
		options->flags & (G4_MOUNT_READ_ONLY | G4_MOUNT_NO_REPLAY) ?
			(options->flags & G4_MOUNT_NO_REPLAY ? G4_DEV_READ_ONLY : G4_DEV_READ_ONLY | G4_DEV_EXCLUSIVE) :
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
