/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines: the choice of one, and the CPU engine. A thread that calls borrows a workgroup for the call, without a lock. One
 * background thread writes back and commits, at the latest every commit interval. The others (gpu/cuda_host.h, a connection
 * to a server) take commands through a ring.
 */
#include "engine/engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock_host.h"
#include "base/log_host.h"
#include "base/memory_host.h"
#include "base/thread_host.h"
#include "dev/dev_host.h"
#include "fs/mount_host.h"
#include "fs/tell_host.h"
#include "gpu/cuda_host.h"
#include "ring/client_host.h"
#include "ring/epochs_host.h"
#include "ring/execute.h"
#include "ring/serve_host.h"
#include "ring/session_host.h"
#include "simt/simt_host.h"
#include "space/set_host.h"

#define DEFAULT_CACHE_BYTES (256 * G4_MIB)
#define TIER_SHARE 16u /* of the cache: so much more, by default, for pages by device address */
#define MIN_CACHE_BYTES (4 * G4_MIB)
#define COMMIT_MS 5000u

#define MESSAGE_BYTES 512
#define AHEAD_THREADS 2u
#define SLOTS 256u /* operations at a time; further callers wait for a slot */

struct holder { /* a workgroup, borrowed by one caller at a time */
	uint32_t busy;
	uint32_t resident; /* by a thread of the engine's own, for good */
	struct g4_wg *wg;  /* made at first use */
	uint8_t padding[48];
};

struct g4_engine {
	struct g4_session_engine sessions;
	struct g4_ring_client
		*ring; /* the engine runs elsewhere: commands go through this, and nothing below is used but */
	struct g4_cuda_engine *cuda;	  /* which it is: on a GPU, or */
	struct g4_connection *connection; /* behind a server */

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
	pthread_t ahead[AHEAD_THREADS]; /* read ahead of sequential readers */
	uint32_t ahead_count;
	uint32_t ahead_stop;
	pthread_t toucher; /* touches memory of pages before they come in */
	bool toucher_runs;
	pthread_mutex_t epochs_lock; /* of the making of: */
	struct g4_shared_epochs epochs;
	pthread_t jobs; /* does their steps, and tells of damage that was met */
	bool jobs_run;
	uint32_t jobs_stop;
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

/* The first free one from slot `at` on, `step` slots apart; NULL when there is no memory for another workgroup. */
static struct holder *take(struct g4_engine *engine, uint32_t at, uint32_t step)
{
	for (uint32_t tries = 1;; tries++, at += step) {
		struct holder *holder = &engine->slots[at % SLOTS];

		if (g4_load32_rlx(&holder->busy) || !g4_cas32(&holder->busy, 0, 1)) {
			if (tries % SLOTS == 0)
				g4_pause();
			continue;
		}
		if (!holder->wg) /* the first one mounts, and does not know yet what the mount needs */
			holder->wg = g4_wg_create_with(at % SLOTS,
						       engine->fs ? engine->fs->scratch_bytes : G4_WG_SCRATCH_BYTES);
		if (holder->wg)
			return holder;
		g4_store32_rel(&holder->busy, 0);
		return NULL;
	}
}

/* NULL when there is no memory for another workgroup. */
static struct holder *borrow(struct g4_engine *engine)
{
	return take(engine, first_slot(), 1);
}

static void give_back(struct holder *holder)
{
	g4_store32_rlx(&holder->resident, 0);
	g4_store32_rel(&holder->busy, 0);
}

/*
 * For a thread that keeps it: from the end, out of the way of clients. A thread that met the engine's own in its slot
 * would go on in another, and there with other slabs and space of its own.
 */
static struct holder *settle(struct g4_engine *engine)
{
	struct holder *holder = take(engine, SLOTS - 1, SLOTS - 1);

	if (holder)
		g4_store32_rlx(&holder->resident, 1);
	return holder;
}

/* Whether no user's command is under way. */
static bool is_idle(const struct g4_engine *engine)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		if (g4_load32_rlx(&engine->slots[i].busy) && !g4_load32_rlx(&engine->slots[i].resident))
			return false;
	return true;
}

int g4_engine_is_idle(const struct g4_engine *engine)
{
	return engine->ring ? -G4_E_NOTSUP : is_idle(engine);
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

	if (!fs)
		return 0;
	for (uint32_t i = 0; i < fs->icache.count && count < room; i++)
		if (g4_load32_acq(&g4_icache_at(fs, i)->opens) > 0)
			inodes[count++] = g4_load64_rlx(&g4_icache_at(fs, i)->ino);
	return count;
}

static void relieve(struct g4_engine *engine)
{
	if (g4_dirty_pressure(engine->fs, false) && !g4_load32_rlx(&engine->kicked))
		kick(engine);
}

int g4_engine_execute(struct g4_engine *engine, struct g4_cmd *cmd)
{
	struct holder *holder;

	if (engine->ring)
		return g4_ring_client_execute(engine->ring, cmd);
	holder = borrow(engine);
	if (!holder) {
		cmd->status = -G4_E_NOMEM;
		return cmd->status;
	}
	g4_execute(holder->wg, engine->fs, cmd);
	give_back(holder);
	relieve(engine);
	return cmd->status;
}

int g4_engine_execute_at(struct g4_engine *engine, struct g4_cmd *cmd, const struct g4_walk *walk)
{
	struct g4_attr attr;
	struct g4_cmd look = {.op = G4_CMD_RESOLVE,
			      .flags = walk->flags & (G4_RESOLVE_NOFOLLOW | G4_RESOLVE_BENEATH),
			      .node = cmd->node,
			      .generation = cmd->generation,
			      .name = walk->path,
			      .name_bytes = (uint16_t)walk->bytes,
			      .cred = cmd->cred,
			      .attr = &attr};
	int rc = 0;

	if (engine->ring)
		return g4_ring_client_execute_at(engine->ring, cmd, walk);
	if (walk->bytes > 0)
		rc = g4_engine_execute(engine, &look);
	if (rc == 0 && walk->bytes > 0)
		rc = g4_walk_arrived(cmd, &attr, walk->flags);
	return rc < 0 ? (cmd->status = rc) : g4_engine_execute(engine, cmd);
}

int g4_engine_resize(struct g4_engine *engine, uint64_t bytes, uint64_t *limit)
{
	struct g4_cmd cmd = {.op = G4_CMD_RESIZE, .bytes = bytes};

	*limit = 0;
	if (engine->ring)
		return -G4_E_NOTSUP; /* what it runs on has memory for the groups that there were, and no more */
	const uint64_t old = g4_dev_props(engine->dev)->size_bytes;
	if (g4_dev_props(engine->dev)->disks) { /* as large as they are: a disk was added, and the growth interrupted */
		cmd.bytes = old;
		return bytes != 0 && bytes != old ? -G4_E_NOTSUP : g4_engine_execute(engine, &cmd);
	}
	if (bytes == 0) /* all of it */
		cmd.bytes = bytes = g4_align_down(old, G4_PAGE_BYTES);
	if (bytes < engine->fs->super.size_bytes)
		return -G4_E_BUSY;
	if (engine->fs->flags & G4_FS_READ_ONLY)
		return -G4_E_ROFS;
	/* asked before the file is made longer than the file system can be */
	if (bytes / G4_GROUP_BYTES > engine->fs->alloc.most_groups) {
		*limit = engine->fs->alloc.most_groups * G4_GROUP_BYTES;
		return -G4_E_NOSPC;
	}
	int rc = bytes > old ? g4_dev_set_size(engine->dev, bytes) : 0;
	if (rc == 0)
		rc = g4_engine_execute(engine, &cmd);
	*limit = cmd.value;
	if (rc == -G4_E_NOSPC || rc == -G4_E_BUSY)
		g4_dev_set_size(engine->dev, old); /* nothing was written there */
	return rc;
}

void g4_engine_post(struct g4_engine *engine, struct g4_cmd *cmd)
{
	if (engine->ring)
		g4_ring_client_post(engine->ring, cmd);
	else
		(void)g4_engine_execute(engine, cmd);
}

bool g4_engine_begin_read(struct g4_engine *engine, const struct g4_cmd *cmd, uint64_t *read)
{
	return engine->ring && g4_ring_client_begin_read(engine->ring, cmd, read);
}

const uint8_t *g4_engine_await_read(struct g4_engine *engine, uint64_t read, int *status, uint32_t *bytes)
{
	return g4_ring_client_await_read(engine->ring, read, status, bytes);
}

void g4_engine_end_read(struct g4_engine *engine, uint64_t read, bool keep)
{
	g4_ring_client_end_read(engine->ring, read, keep);
}

bool g4_engine_begin_lookup(struct g4_engine *engine, const struct g4_cmd *cmd, uint64_t *lookup)
{
	return engine->ring && g4_ring_client_begin_lookup(engine->ring, cmd, lookup);
}

bool g4_engine_await_lookup(struct g4_engine *engine, uint64_t lookup, struct g4_cmd *cmd, struct g4_trail *trail)
{
	return g4_ring_client_await_lookup(engine->ring, lookup, cmd, trail);
}

void g4_engine_end_lookup(struct g4_engine *engine, uint64_t lookup)
{
	g4_ring_client_end_lookup(engine->ring, lookup);
}

static int run_session(void *context, struct g4_session *session, uint32_t number, struct g4_session_stage *stage)
{
	struct g4_engine *engine = context;
	struct holder *holder = borrow(engine);

	if (!holder)
		return -G4_E_NOMEM;
	g4_session_execute(holder->wg, engine->fs, session, number, stage);
	give_back(holder);
	relieve(engine);
	return 0;
}

static int close_session(void *context, struct g4_session *session)
{
	struct g4_engine *engine = context;
	struct holder *holder = borrow(engine);

	if (!holder)
		return -G4_E_NOMEM;
	g4_session_close(holder->wg, engine->fs, session);
	give_back(holder);
	return 0;
}

static int unuse_handle(void *context, struct g4_session *session, uint64_t number)
{
	struct g4_engine *engine = context;
	struct holder *holder = borrow(engine);

	if (!holder)
		return -G4_E_NOMEM;
	g4_session_unuse_handle(holder->wg, engine->fs, session, number);
	give_back(holder);
	return 0;
}

/*
 * From the return on all changes count, also for who has asked for the address already and found none: that one has its lock, or says that
 * its change is under way, since before it asked, so that no answer of now on is from before that change.
 */
static int share_epochs(void *context)
{
	struct g4_engine *engine = context;
	int rc = 0;

	pthread_mutex_lock(&engine->epochs_lock);
	if (!engine->epochs.memory) {
		rc = g4_epochs_make(&engine->epochs);
		if (rc == 0) {
			g4_store64_rel(&engine->fs->epochs, (uint64_t)(uintptr_t)engine->epochs.memory);
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
		}
	}
	pthread_mutex_unlock(&engine->epochs_lock);
	return rc < 0 ? rc : engine->epochs.fd;
}

const uint64_t *g4_engine_epochs(const struct g4_engine *engine)
{
	return engine->connection ? g4_connection_epochs(engine->connection) :
	       engine->cuda	  ? engine->cuda->epochs :
				    NULL;
}

bool g4_engine_lives(const struct g4_engine *engine)
{
	return !engine->ring || g4_ring_client_lives(engine->ring);
}

struct g4_connection *g4_engine_connection(const struct g4_engine *engine)
{
	return engine->connection;
}

const struct g4_session_engine *g4_engine_sessions(const struct g4_engine *engine)
{
	return engine->cuda ? &engine->cuda->sessions : &engine->sessions;
}

struct g4_cuda_engine *g4_engine_cuda(const struct g4_engine *engine)
{
	return engine->cuda;
}

/* Ends an engine that runs elsewhere. What was written through a connection is the server's: it commits in its own time. */
static int close_remote(struct g4_engine *engine, bool clean)
{
	int rc = engine->cuda ? g4_cuda_unmount(engine->cuda, clean) : 0;

	if (engine->connection)
		g4_connection_close(engine->connection);
	free(engine);
	return rc;
}

/* ------------------------------------------------------------------ background */

static void wait_interval(struct g4_engine *engine)
{
	const struct timespec until = g4_clock_after(CLOCK_MONOTONIC, UINT64_C(1000000) * engine->commit_ms);

	pthread_mutex_lock(&engine->mutex);
	while (!engine->stop && !g4_load32_acq(&engine->kicked) &&
	       pthread_cond_timedwait(&engine->wake, &engine->mutex, &until) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&engine->mutex);
}

static void *background(void *argument)
{
	struct g4_engine *engine = (struct g4_engine *)argument;
	struct holder *holder = settle(engine);
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
		int discarded = g4_discard_freed(holder->wg, engine->fs);
		rc = rc < 0 ? rc : discarded;
		if (rc < 0 && !reported)
			g4_log(G4_LOG_ERROR, "write-back: %s", g4_strerror(rc));
		reported = rc < 0;
		g4_jobs_look(engine->fs);
	}
	if (holder)
		give_back(holder);
	return NULL;
}

static void *read_ahead(void *argument)
{
	struct g4_engine *engine = (struct g4_engine *)argument;
	struct g4_fs *fs = engine->fs;
	struct holder *holder = settle(engine);

	if (!holder)
		return NULL;
	g4_add32(&fs->ahead.servers, 1);
	g4_add32(&fs->jobs.scrub.helpers, 1);
	for (;;) {
		uint32_t seen = g4_load32_acq(&fs->ahead.posted);

		if (g4_load32_acq(&engine->ahead_stop))
			break;
		if (!g4_ahead_serve(holder->wg, fs) && !g4_scrub_help(holder->wg, fs))
			g4_wait(&fs->ahead.posted, seen);
	}
	g4_sub32(&fs->jobs.scrub.helpers, 1);
	g4_sub32(&fs->ahead.servers, 1);
	give_back(holder);
	return NULL;
}

static void *touch_ahead(void *argument)
{
	struct g4_engine *engine = (struct g4_engine *)argument;
	struct g4_cache *cache = &engine->fs->cache;
	uint32_t touched = 0;

	g4_dev_find_pages(engine->dev);
	if (g4_memory_has_huge_pages())
		g4_fs_touch(engine->fs);
	for (;;) {
		const uint32_t seen = g4_load32_acq(&cache->coming);

		if (g4_load32_acq(&engine->ahead_stop))
			return NULL;
		if (!g4_cache_touch(cache, &touched))
			g4_wait(&cache->coming, seen);
	}
}

/* Fewer threads than wanted, or none, make reading slower and nothing else. */
static void start_ahead(struct g4_engine *engine)
{
	while (engine->ahead_count < AHEAD_THREADS &&
	       g4_thread_start(&engine->ahead[engine->ahead_count], read_ahead, engine) == 0)
		engine->ahead_count++;
	engine->toucher_runs = g4_thread_start(&engine->toucher, touch_ahead, engine) == 0;
}

static void stop_ahead(struct g4_engine *engine)
{
	g4_store32_rel(&engine->ahead_stop, 1);
	g4_add32(&engine->fs->ahead.posted, 1);
	g4_wake(&engine->fs->ahead.posted);
	g4_add32(&engine->fs->cache.coming, 1);
	g4_wake(&engine->fs->cache.coming);
	while (engine->ahead_count > 0)
		pthread_join(engine->ahead[--engine->ahead_count], NULL);
	if (engine->toucher_runs)
		pthread_join(engine->toucher, NULL);
	engine->toucher_runs = false;
	g4_ahead_drop(engine->fs);
}

/* ------------------------------------------------------------------ jobs, and what is to be told */

/* The path of what was met, if a scrub has come to it by a name. Else nobody knows which directories name a file. */
static const char *path_of(struct g4_wg *wg, struct g4_fs *fs, const struct g4_event *event, char *buffer, size_t bytes)
{
	struct g4_cmd cmd = {.op = G4_CMD_PATH, .node = event->ino, .data = buffer, .length = bytes - 1};

	g4_lock(&fs->jobs.lock);
	for (uint32_t i = 0; i < G4_FINDINGS && cmd.node2 == 0; i++)
		if (fs->jobs.findings[i].code != 0 && fs->jobs.findings[i].inode == event->ino)
			cmd.node2 = fs->jobs.findings[i].dir;
	g4_unlock(&fs->jobs.lock);
	if (event->ino == 0 || cmd.node2 == 0 || g4_execute(wg, fs, &cmd) < 0)
		return NULL;
	buffer[cmd.value] = 0;
	return buffer;
}

/* Writes lines about damaged pages that were met. True: there were some. */
static bool tell(struct g4_wg *wg, struct g4_fs *fs, struct g4_teller *teller)
{
	struct g4_event event;
	bool any = false;
	char path[G4_PATH_MAX];

	g4_teller_look(teller, g4_load64_rlx(&fs->events.lost));
	for (; g4_event_take(fs, &event); any = true)
		g4_teller_tell(teller, &event, path_of(wg, fs, &event, path, sizeof(path)));
	return any;
}

/* Longer than a step need not wait, so that a stop or an event does not. */
static void rest(uint64_t ns)
{
	const uint64_t most = g4_min64(ns, UINT64_C(20000000));
	const struct timespec time = {.tv_nsec = (long)most};

	nanosleep(&time, NULL);
}

static void *serve_jobs(void *argument)
{
	struct g4_engine *engine = (struct g4_engine *)argument;
	struct g4_fs *fs = engine->fs;
	struct holder *holder = settle(engine);
	struct g4_teller teller = {.dev = engine->dev};

	while (holder) {
		uint32_t seen = g4_load32_acq(&fs->jobs.changed);

		if (g4_load32_acq(&engine->jobs_stop))
			break;
		if (tell(holder->wg, fs, &teller) && !(fs->flags & G4_FS_READ_ONLY))
			(void)g4_jobs_log(holder->wg, fs); /* the count; where nothing can be logged it is lost */
		uint64_t wait = g4_jobs_serve(holder->wg, fs, is_idle(engine));
		if (wait == UINT64_MAX && !g4_teller_waits(&teller))
			g4_wait(&fs->jobs.changed, seen);
		else if (wait != 0)
			rest(wait);
	}
	if (holder)
		give_back(holder);
	return NULL;
}

static void stop_jobs(struct g4_engine *engine)
{
	if (!engine->jobs_run)
		return;
	g4_store32_rel(&engine->jobs_stop, 1);
	g4_add32(&engine->fs->jobs.changed, 1);
	g4_wake(&engine->fs->jobs.changed);
	pthread_join(engine->jobs, NULL);
	engine->jobs_run = false;
}

static int start_background(struct g4_engine *engine)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&engine->wake, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&engine->mutex, NULL);
	if (!(engine->fs->flags & G4_FS_READ_ONLY)) {
		if (g4_thread_start(&engine->thread, background, engine) != 0)
			return -G4_E_NOMEM;
		engine->thread_runs = true;
	}
	start_ahead(engine);
	engine->jobs_run = g4_thread_start(&engine->jobs, serve_jobs, engine) == 0;
	return engine->jobs_run ? 0 : -G4_E_NOMEM;
}

static void stop_background(struct g4_engine *engine)
{
	stop_jobs(engine);
	stop_ahead(engine);
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

const char *g4_engine_name(const struct g4_engine *engine)
{
	return engine->cuda ? "cuda" : engine->connection ? "server" : "cpu";
}

int g4_engine_parse_kind(const char *word, uint32_t *kind)
{
	static const char *const words[] = {"cpu", "cuda", "auto"}; /* enum g4_engine_kind */

	for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(word, words[i]) == 0) {
			*kind = i;
			return 0;
		}
	}
	return -G4_E_INVAL;
}

static void free_engine(struct g4_engine *engine)
{
	for (uint32_t i = 0; i < SLOTS; i++)
		if (engine->slots[i].wg)
			g4_wg_destroy(engine->slots[i].wg);
	g4_epochs_free(&engine->epochs);
	pthread_mutex_destroy(&engine->epochs_lock);
	free(engine);
}

/* What the file system is told of mount options, defaults filled in. */
static struct g4_fs_options fs_options_of(const struct g4_mount_options *options)
{
	struct g4_fs_options out = {0};
	uint64_t cache = options->cache_bytes ? options->cache_bytes : DEFAULT_CACHE_BYTES;

	out.cache_bytes = g4_max64(cache, MIN_CACHE_BYTES);
	out.tier_bytes = options->tier_bytes ? options->tier_bytes : out.cache_bytes / TIER_SHARE;
	out.dedup_bytes = options->dedup_bytes;
	out.flags |= options->flags & G4_MOUNT_READ_ONLY ? G4_FS_READ_ONLY : 0;
	out.flags |= options->flags & G4_MOUNT_NOATIME ? G4_FS_NOATIME : 0;
	out.flags |= options->flags & G4_MOUNT_STRICTATIME ? G4_FS_STRICTATIME : 0;
	out.flags |= options->flags & G4_MOUNT_HOLD_UNLINKED ? G4_FS_HOLD_UNLINKED : 0;
	out.flags |= options->flags & G4_MOUNT_TICK_TIMES ? G4_FS_TICK_TIMES : 0;
	out.flags |= options->flags & G4_MOUNT_SYNC ? G4_FS_SYNC : 0;
	out.flags |= options->flags & G4_MOUNT_DEDUP_VERIFY ? G4_FS_DEDUP_VERIFY : 0;
	out.flags |= options->flags & G4_MOUNT_DISCARD ? G4_FS_DISCARD : 0;
	out.no_replay = options->flags & G4_MOUNT_NO_REPLAY;
	return out;
}

static uint32_t commit_ms_of(const struct g4_mount_options *options)
{
	return options->commit_ms ? options->commit_ms : COMMIT_MS;
}

static struct g4_engine *new_engine(char *message, size_t message_bytes)
{
	struct g4_engine *engine = calloc(1, sizeof(*engine));

	if (!engine)
		snprintf(message, message_bytes, "cannot mount: %s", g4_strerror(-G4_E_NOMEM));
	return engine;
}

/* The CPU engine. On failure the device stays the caller's. */
static int mount_cpu(struct g4_dev *dev, const struct g4_mount_options *options, struct g4_engine **out, char *message,
		     size_t message_bytes)
{
	struct g4_fs_options fs_options = fs_options_of(options);
	struct g4_engine *engine = new_engine(message, message_bytes);
	struct holder *holder;
	int rc = -G4_E_NOMEM;

	if (!engine)
		return rc;
	fs_options.may_grow = true;
	message[0] = 0;
	engine->sessions = (struct g4_session_engine){.context = engine,
						      .run = run_session,
						      .close = close_session,
						      .unuse_handle = unuse_handle,
						      .epochs = share_epochs};
	pthread_mutex_init(&engine->epochs_lock, NULL);
	engine->epochs.fd = -1;
	engine->dev = dev;
	engine->commit_ms = commit_ms_of(options);
	holder = borrow(engine);
	if (holder) {
		rc = g4_fs_mount(holder->wg, dev, &fs_options, &engine->fs, message, message_bytes);
		if (rc == 0) {
			rc = start_background(engine);
			if (rc < 0)
				stop_background(engine);
			if (rc < 0)
				g4_fs_unmount(holder->wg, engine->fs, false);
		}
		give_back(holder);
	}
	if (rc < 0) {
		if (message[0] == 0)
			snprintf(message, message_bytes, "cannot mount: %s", g4_strerror(rc));
		free_engine(engine);
		return rc;
	}
	*out = engine;
	return 0;
}

/* The same on a GPU. */
static int mount_cuda(struct g4_dev *dev, const struct g4_mount_options *options, struct g4_engine **out, char *message,
		      size_t message_bytes)
{
	struct g4_cuda_options cuda = {.fs = fs_options_of(options),
				       .commit_ms = commit_ms_of(options),
				       .sms = options->sms,
				       .wants_queues = options->gpu_queues > 0};
	struct g4_engine *engine = new_engine(message, message_bytes);
	int rc;

	if (!engine)
		return -G4_E_NOMEM;
	cuda.fs.tier_bytes =
		options->tier_bytes; /* memory of the host that nobody else can use is taken where it is asked for */
	rc = g4_cuda_mount(dev, &cuda, &engine->cuda, message, message_bytes);
	if (rc < 0) {
		free(engine);
		return rc;
	}
	engine->ring = engine->cuda->ring;
	*out = engine;
	if (options->gpu_queues > 0 && g4_dev_props(dev)->mapped)
		g4_log(G4_LOG_WARN, "gpu_queues has no effect: the device is memory");
	return 0;
}

/* Whatever keeps the GPU from it, the CPU mounts; what neither can mount is the device's fault, and the CPU says so. */
static int mount_either(struct g4_dev *dev, const struct g4_mount_options *options, struct g4_engine **out,
			char *message, size_t message_bytes)
{
	char why[MESSAGE_BYTES] = "";
	int rc = mount_cuda(dev, options, out, why, sizeof(why));

	if (rc == 0) {
		g4_log(G4_LOG_INFO, "the GPU runs the file system");
		return 0;
	}
	rc = mount_cpu(dev, options, out, message, message_bytes);
	if (rc == 0)
		g4_log(G4_LOG_INFO, "the CPU runs the file system: %s", why);
	return rc;
}

int g4_engine_mount_device(struct g4_dev *dev, const struct g4_mount_options *options, struct g4_engine **out,
			   char *message, size_t message_bytes)
{
	int rc;

	if (g4_set_is_degraded(dev))
		g4_log(G4_LOG_WARN,
		       "a disk of the file system is missing, or does not have everything yet; see gpu4fs status");
	if ((options->flags & G4_MOUNT_DISCARD) && !g4_dev_props(dev)->discard)
		g4_log(G4_LOG_INFO, "the device cannot discard: the option has no effect");
	if (options->kind == G4_ENGINE_CUDA)
		rc = mount_cuda(dev, options, out, message, message_bytes);
	else if (options->kind == G4_ENGINE_AUTO)
		rc = mount_either(dev, options, out, message, message_bytes);
	else
		rc = mount_cpu(dev, options, out, message, message_bytes);
	if (rc < 0)
		g4_dev_close(dev);
	else if (options->tier_bytes > G4_NO_TIER &&
		 !((*out)->cuda ? (*out)->cuda->tier : g4_tier_is_used(&(*out)->fs->space.tier)))
		g4_log(G4_LOG_INFO,
		       "the cache has no second tier: that takes 1M or more, and a device that is not memory");
	return rc;
}

int g4_engine_mount(const char *const *names, uint32_t count, const struct g4_mount_options *options,
		    struct g4_engine **out, char *message, size_t message_bytes)
{
	struct g4_set_options open = {.open.lane_queues = options->gpu_queues,
				      .degraded = (options->flags & G4_MOUNT_DEGRADED) != 0,
				      .mounts = true};
	struct g4_dev *dev;

	open.open.flags =
		options->flags & (G4_MOUNT_READ_ONLY | G4_MOUNT_NO_REPLAY) ?
			(options->flags & G4_MOUNT_NO_REPLAY ? G4_DEV_READ_ONLY : G4_DEV_READ_ONLY | G4_DEV_EXCLUSIVE) :
			G4_DEV_EXCLUSIVE;
	int rc = g4_set_open(names, count, &open, &dev, message, message_bytes);
	return rc < 0 ? rc : g4_engine_mount_device(dev, options, out, message, message_bytes);
}

int g4_engine_connect(const char *path, uint32_t umask, uint64_t data_bytes, struct g4_engine **out, char *message,
		      size_t message_bytes)
{
	struct g4_engine *engine = calloc(1, sizeof(*engine));
	int rc;

	if (!engine) {
		snprintf(message, message_bytes, "%s: cannot connect: out of memory", path);
		return -G4_E_NOMEM;
	}
	rc = g4_connect(path, umask, data_bytes, &engine->connection, message, message_bytes);
	if (rc < 0) {
		free(engine);
		return rc;
	}
	engine->ring = g4_connection_ring(engine->connection);
	*out = engine;
	return 0;
}

int g4_engine_unmount(struct g4_engine *engine)
{
	struct holder *holder;
	int rc = -G4_E_NOMEM;

	if (engine->ring)
		return close_remote(engine, true);
	stop_background(engine);
	holder = borrow(engine);
	if (holder)
		rc = g4_fs_unmount(holder->wg, engine->fs, true);
	g4_dev_close(engine->dev);
	free_engine(engine);
	return rc;
}

void g4_engine_abandon(struct g4_engine *engine)
{
	if (engine->ring) {
		close_remote(engine, false); /* what fails there has nobody to be told */
		return;
	}
	stop_background(engine);
	struct holder *holder = borrow(engine);
	if (holder)
		g4_fs_unmount(holder->wg, engine->fs, false);
	g4_dev_close(engine->dev);
	free_engine(engine);
}
