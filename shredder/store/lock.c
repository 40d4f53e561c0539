/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks: FORMAT.md, section 9. Write one, then look: of two that come at the same time at least one sees the other, and
 * maybe both give up, which is safe. A thread writes a new one every 5 minutes and removes the old one after that, so there is
 * always one.
 *
 * A process that is told to end gives back what it has (store_locks_end()): otherwise other hosts would wait for it, who cannot know that it is gone.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock_host.h"
#include "store/backend.h"
#include "store/crypto.h"
#include "store/gate.h"

#define REFRESH_NS (UINT64_C(300) * 1000000000)
#define STALE_SECONDS (30 * 60)
#define BOOT_BYTES 64
#define EMPTY_HOST "shredder lock host"
#define EMPTY_BOOT "shredder lock boot"

struct store_lock {
	struct store *s;
	bool exclusive;
	struct store_id name, next; /* zeros: none; next: what takes its place at the moment, and may be there or not */
	pthread_t keeper;
	bool keeper_runs;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool stopping;
	struct store_lock *other; /* of `live` */
};

/* All of this process. */
static pthread_mutex_t live_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct store_lock *live;
/* What a change that has begun may take when the process is told to end: that of a file is far below it, that of a request may not be. */
#define ENDING_NS (UINT64_C(10) * 1000000000)

struct body {
	struct store_lock_info info;
	uint64_t start;
	char boot[BOOT_BYTES + 1];
	bool known; /* whether its process is there can be told here: `dead` says it */
};

static void read_boot(char boot[BOOT_BYTES + 1])
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	memset(boot, 0, BOOT_BYTES + 1);
	if (file == NULL)
		return;
	if (fgets(boot, BOOT_BYTES, file) != NULL)
		boot[strcspn(boot, "\n")] = 0;
	fclose(file);
}

/* When a process started, in ticks since the machine did: field 22 of its stat. 0: there is none, or nobody can tell. */
static uint64_t process_start(uint64_t process)
{
	char path[64], text[1024];
	unsigned long long start = 0;

	snprintf(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)process);
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return 0;
	const size_t count = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[count] = 0;
	const char *at = strrchr(text, ')'); /* the name before may hold anything */
	for (int field = 2; at != NULL && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at != NULL)
		sscanf(at, "%llu", &start);
	return start;
}

/* Whether a process that can be known here is not there any more. One whose stat nobody shows (hidepid) may be there. */
static bool is_gone(uint64_t process, uint64_t start)
{
	const uint64_t now = process_start(process);

	if (now != 0 && start != 0)
		return now != start;
	return process == 0 || process > INT_MAX || (kill((pid_t)process, 0) != 0 && errno == ESRCH);
}

/* A process's number says something to those alone who see the same processes. */
static void lock_host(char host[65])
{
	const uint64_t space = store_process_space();
	char text[32];

	store_host(host);
	if (space == 0)
		return;
	const size_t bytes = (size_t)snprintf(text, sizeof(text), " pid:[%llu]", (unsigned long long)space);
	memcpy(host + g4_min64(strlen(host), 64 - bytes), text, bytes + 1);
}

static void add_text(struct store_buf *body, const char *text)
{
	store_buf_string(body, text, strlen(text));
}

/* What a lock says, and its name. */
static int make_lock(struct store *s, bool exclusive, struct store_buf *file, struct store_id *name)
{
	struct store_buf body = {0};
	char host[65], user[65], boot[BOOT_BYTES + 1];
	int rc;

	lock_host(host);
	store_user(user);
	read_boot(boot);
	store_buf_u8(&body, exclusive);
	store_buf_u64(&body, (uint64_t)store_now().seconds);
	store_buf_u64(&body, (uint64_t)getpid());
	store_buf_u64(&body, process_start((uint64_t)getpid()));
	add_text(&body, boot);
	add_text(&body, host);
	add_text(&body, user);
	rc = store_file_make(s, STORE_LOCK, &body, file, name);
	store_buf_free(&body);
	return rc;
}

static void take_text(struct store_in *in, size_t max, char *to)
{
	size_t bytes;
	const uint8_t *text = store_in_string(in, 0, max, &bytes);

	if (text != NULL)
		memcpy(to, text, bytes);
	to[bytes] = 0;
}

static int read_lock(struct store *s, const struct store_id *name, struct body *body)
{
	struct store_buf bytes = {0};
	char host[65], boot[BOOT_BYTES + 1];
	int rc = store_file_get(s, STORE_LOCK, name, &bytes);

	memset(body, 0, sizeof(*body));
	body->info.name = *name;
	if (rc != 0) {
		store_buf_free(&bytes);
		return rc;
	}
	struct store_in in = store_in_of(bytes.data, bytes.size);
	body->info.exclusive = store_in_u8(&in) != 0;
	body->info.time = (int64_t)store_in_u64(&in);
	body->info.process = store_in_u64(&in);
	body->start = store_in_u64(&in);
	take_text(&in, BOOT_BYTES, body->boot);
	take_text(&in, 64, body->info.host);
	take_text(&in, 64, body->info.user);
	if (!store_in_done(&in))
		rc = store_fail(STORE_E_DAMAGED, "a lock is damaged: it is none");
	store_buf_free(&bytes);
	lock_host(host);
	read_boot(boot);
	/* the boot id is one machine's and one boot's: with it the process's number and start name one process */
	body->known = rc == 0 && strcmp(host, body->info.host) == 0 && boot[0] != 0 && body->boot[0] != 0;
	if (body->known)
		body->info.dead = strcmp(boot, body->boot) != 0 || is_gone(body->info.process, body->start);
	return rc;
}

/* What the name of a lock without a byte says (FORMAT.md, section 9). */
static void name_empty(const struct store *s, struct store_id *name)
{
	struct store_buf bytes = {0};
	char host[65], boot[BOOT_BYTES + 1];

	lock_host(host);
	read_boot(boot);
	store_random(name, sizeof(*name));
	if (boot[0] == 0) /* nobody could tell whether the process is there */
		return;
	store_mark_text(s, EMPTY_HOST, host, store_buf_reserve(&bytes, STORE_MARK_BYTES));
	bytes.size += STORE_MARK_BYTES;
	store_mark_text(s, EMPTY_BOOT, boot, store_buf_reserve(&bytes, STORE_MARK_BYTES));
	bytes.size += STORE_MARK_BYTES;
	store_buf_u64(&bytes, process_start((uint64_t)getpid()));
	store_buf_u32(&bytes, (uint32_t)getpid());
	memcpy(name->bytes, bytes.data, bytes.size); /* the rest is random */
	store_buf_free(&bytes);
}

/* DAMAGED: it is another host's, or its name says nothing. */
static int read_empty(const struct store *s, const struct store_id *name, struct body *body)
{
	struct store_in in = store_in_of(name->bytes, sizeof(name->bytes));
	uint8_t host_mark[STORE_MARK_BYTES], boot_mark[STORE_MARK_BYTES];
	char boot[BOOT_BYTES + 1];

	memset(body, 0, sizeof(*body));
	body->info.name = *name;
	body->info.exclusive = true;
	lock_host(body->info.host);
	read_boot(boot);
	store_mark_text(s, EMPTY_HOST, body->info.host, host_mark);
	store_mark_text(s, EMPTY_BOOT, boot, boot_mark);
	if (boot[0] == 0 || memcmp(store_in_bytes(&in, STORE_MARK_BYTES), host_mark, STORE_MARK_BYTES) != 0)
		return store_fail(STORE_E_DAMAGED, "it says nothing");
	const bool booted = memcmp(store_in_bytes(&in, STORE_MARK_BYTES), boot_mark, STORE_MARK_BYTES) != 0;
	body->start = store_in_u64(&in);
	body->info.process = store_in_u32(&in);
	body->info.dead = booted || is_gone(body->info.process, body->start);
	snprintf(body->info.user, sizeof(body->info.user), "somebody");
	body->known = true;
	return 0;
}

static int read_listed(struct store *s, const struct store_listed *file, struct body *body)
{
	return file->bytes == 0 ? read_empty(s, &file->name, body) : read_lock(s, &file->name, body);
}

int store_lock_get(struct store *s, const struct store_id *name, struct store_lock_info *info)
{
	struct store_listed file = {.name = *name};
	struct body body;
	int rc = s->backend->ops->size(s->backend, STORE_LOCK, name, &file.bytes);

	if (rc == 0)
		rc = read_listed(s, &file, &body);
	if (rc == 0)
		*info = body.info;
	return rc;
}

/* LOCKED when another lock than `own` stands in the way. Dead ones are removed, by who may. */
static int look_around(struct store *s, bool exclusive, const struct store_id *own)
{
	struct store_listed *names;
	size_t count;
	int rc = store_list_all(s->backend, STORE_LOCK, &names, &count);

	for (size_t i = 0; i < count && rc == 0; i++) {
		struct body body;

		if (store_id_equal(&names[i].name, own))
			continue;
		rc = read_listed(s, &names[i], &body);
		if (rc == STORE_E_ABSENT) { /* it was given back meanwhile */
			rc = 0;
			continue;
		}
		if (rc != 0) {
			rc = store_fail(
				STORE_E_LOCKED,
				"a lock cannot be read (%s), or was made where there was no room; if nobody else "
				"works, 'shredder unlock --remove-all' removes it",
				store_message());
		} else if (
			body.info
				.dead) { /* nobody works behind it, so it is in nobody's way where it may not be removed */
			s->backend->ops->remove(s->backend, STORE_LOCK, &names[i].name);
		} else if (exclusive || body.info.exclusive) {
			rc = store_fail(
				STORE_E_LOCKED,
				"%s is locked%s by process %llu of %s on %s; 'shredder unlock' removes locks whose "
				"owner is gone",
				s->backend->path, body.info.exclusive ? " exclusively" : "",
				(unsigned long long)body.info.process, body.info.user, body.info.host);
		}
	}
	free(names);
	return rc;
}

/* From here on store_locks_end() removes it, whether it is there yet or not: behind the gate that it closes no file gets its name. */
static int put_next(struct store_lock *lock, const struct store_id *name, const void *data, size_t bytes)
{
	pthread_mutex_lock(&lock->mutex);
	lock->next = *name;
	pthread_mutex_unlock(&lock->mutex);
	return lock->s->backend->ops->put(lock->s->backend, STORE_LOCK, name, data, bytes);
}

static int write_next(struct store_lock *lock)
{
	struct store_buf file = {0};
	struct store_id name;
	int rc = make_lock(lock->s, lock->exclusive, &file, &name);

	if (rc == 0)
		rc = put_next(lock, &name, file.data, file.size);
	store_buf_free(&file);
	return rc;
}

/* Where there is no room for what a lock says, as long as that is so. Others stay away; keep() writes a real one as soon as it can. */
static int write_next_empty(struct store_lock *lock)
{
	struct store_id name;

	name_empty(lock->s, &name);
	return put_next(lock, &name, "", 0);
}

/* With the mutex held, or before there is another thread. */
static void take_next(struct store_lock *lock)
{
	lock->name = lock->next;
	memset(&lock->next, 0, sizeof(lock->next));
}

static void *keep(void *user)
{
	struct store_lock *lock = (struct store_lock *)user;

	pthread_mutex_lock(&lock->mutex);
	while (!lock->stopping) {
		const struct timespec until = g4_clock_after(CLOCK_MONOTONIC, REFRESH_NS);
		int waited = 0;

		while (!lock->stopping && waited == 0)
			waited = pthread_cond_timedwait(&lock->changed, &lock->mutex, &until);
		if (lock->stopping)
			break;
		pthread_mutex_unlock(&lock->mutex);
		const int rc = write_next(lock);
		if (rc == 0)
			lock->s->backend->ops->remove(lock->s->backend, STORE_LOCK, &lock->name);
		pthread_mutex_lock(&lock->mutex);
		if (rc == 0) /* else the old one stays; the next round tries again */
			take_next(lock);
	}
	pthread_mutex_unlock(&lock->mutex);
	return NULL;
}

/* Of `live`. */
static void take_out(struct store_lock *lock)
{
	struct store_lock **at = &live;

	pthread_mutex_lock(&live_mutex);
	while (*at != lock)
		at = &(*at)->other;
	*at = lock->other;
	pthread_mutex_unlock(&live_mutex);
}

/* Known to store_locks_end() before there is a file. */
static struct store_lock *new_lock(struct store *s, bool exclusive)
{
	struct store_lock *lock = (struct store_lock *)store_alloc(sizeof(*lock));
	pthread_condattr_t attributes;

	lock->s = s;
	lock->exclusive = exclusive;
	pthread_mutex_init(&lock->mutex, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&lock->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	pthread_mutex_lock(&live_mutex);
	lock->other = live;
	live = lock;
	pthread_mutex_unlock(&live_mutex);
	return lock;
}

static void free_lock(struct store_lock *lock)
{
	take_out(lock);
	pthread_cond_destroy(&lock->changed);
	pthread_mutex_destroy(&lock->mutex);
	free(lock);
}

/* What was read before the lock was there may have changed until then. */
static int look_again(struct store *s, bool exclusive)
{
	const int rc = store_config_get(s);

	return rc == 0 && exclusive ? store_key_again(s) : rc;
}

int store_lock(struct store *s, bool exclusive)
{
	struct store_lock *lock = new_lock(s, exclusive);
	int rc = write_next(lock);

	if (rc == STORE_E_FULL && !s->backend->ops->remote) /* who removes something has to lock, too */
		rc = write_next_empty(lock);
	if (rc != 0) {
		free_lock(lock);
		return rc;
	}
	pthread_mutex_lock(&lock->mutex);
	take_next(lock);
	pthread_mutex_unlock(&lock->mutex);
	s->lock = lock;
	rc = look_around(s, exclusive, &lock->name);
	if (rc == 0)
		rc = look_again(s, exclusive);
	if (rc != 0) {
		char text[STORE_TEXT_BYTES];

		snprintf(text, sizeof(text), "%s", store_message());
		store_unlock(s);
		return store_fail(rc, "%s", text);
	}
	lock->keeper_runs = pthread_create(&lock->keeper, NULL, keep, lock) == 0;
	return 0;
}

void store_unlock(struct store *s)
{
	struct store_lock *lock = s->lock;

	if (lock == NULL)
		return;
	pthread_mutex_lock(&lock->mutex);
	lock->stopping = true;
	pthread_cond_broadcast(&lock->changed);
	pthread_mutex_unlock(&lock->mutex);
	if (lock->keeper_runs)
		pthread_join(lock->keeper, NULL);
	s->backend->ops->remove(s->backend, STORE_LOCK, &lock->name);
	free_lock(lock);
	s->lock = NULL;
}

void store_locks_end(void)
{
	const struct store_id none = {{0}};

	if (!store_gate_close(ENDING_NS))
		return;
	pthread_mutex_lock(&live_mutex);
	for (struct store_lock *lock = live; lock != NULL; lock = lock->other) {
		struct store_backend *backend = lock->s->backend;

		pthread_mutex_lock(&lock->mutex);
		if (!store_id_equal(&lock->name, &none))
			backend->ops->remove(backend, STORE_LOCK, &lock->name);
		if (!store_id_equal(&lock->next, &none))
			backend->ops->remove(backend, STORE_LOCK, &lock->next);
		pthread_mutex_unlock(&lock->mutex);
	}
	pthread_mutex_unlock(&live_mutex);
}

int store_locks_clear(struct store *s, bool all, uint64_t *removed, uint64_t *left)
{
	const int64_t now = store_now().seconds;
	char text[STORE_TEXT_BYTES] = "";
	struct store_listed *names;
	size_t count;
	int rc = store_list_all(s->backend, STORE_LOCK, &names, &count);

	*removed = 0;
	*left = 0;
	if (rc != 0)
		return rc;
	for (size_t i = 0; i < count; i++) {
		struct body body;
		const bool readable = read_listed(s, &names[i], &body) == 0;
		bool remove = all;

		if (readable && !remove)
			remove = body.known ? body.info.dead : body.info.time < now - STALE_SECONDS;
		const int failed = remove ? s->backend->ops->remove(s->backend, STORE_LOCK, &names[i].name) : 0;
		if (failed != 0 && rc == 0) {
			rc = failed;
			snprintf(text, sizeof(text), "%s", store_message());
		}
		*(remove && failed == 0 ? removed : left) += 1;
	}
	free(names);
	return text[0] != 0 ? store_fail(rc, "%s", text) : rc;
}
