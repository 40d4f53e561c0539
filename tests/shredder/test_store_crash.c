/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Crash states of a repository in a directory. The calls that backend_local.c makes are written down (--wrap); then the machine crashes
 * after each of them, and of what no fsync has made durable any part is there or not. Every such state must be a repository in which each
 * snapshot that was complete can be read whole, and that prune leaves so.
 *
 * What a directory holds changes by single entries: a new name, a name that is gone. fsync of the directory makes all changes before it
 * durable; of the others every subset may have reached the disk, in whatever order. A file's bytes are durable after its own fsync; before, it
 * has none, a half or all of them. tmp/ is left out: nobody reads it. A directory of which the entry is lost takes all in it along.
 *
 * SHREDDER_CRASH_STATES: how many states at most after each call, where there are more; STATES when it is not set. With 256 there are 127 000
 * different ones.
 * Of store/backend_local.c, store/upload.c, store/marks.c, store/parity_change.c, store/salvage.c, store/replace.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "store/backend.h"
#include "store/backup.h"
#include "store/crypto.h"
#include "store/maintain.h"
#include "store/marks.h"
#include "store/upload.h"

#define EVENTS_MAX 20000
#define PATH_BYTES 200
#define DESCRIPTORS 1024
#define SEEN_ROWS (1u << 22)
#define GENERATIONS 22
/* Of every so many states one is pruned, and looked at again. */
#define PRUNE_EVERY 97
/* One thread judges them: what sanitizers look for is in each. */
#if defined(G4_TSAN)
#define STATES 2
#elif defined(G4_ASAN)
#define STATES 8
#else
#define STATES 32
#endif

enum event_kind { CREATED, WRITTEN, FILE_SYNCED, FOLDER_SYNCED, NAMED, UNNAMED, FOLDER_MADE, DONE, FORGOTTEN };

/* One call. `file` is an index into files[]. */
struct event {
	enum event_kind kind;
	char path[PATH_BYTES]; /* in the repository */
	int file;
	struct store_id snapshot;
};

struct written_file {
	uint8_t *data;
	size_t bytes;
};

static char folder[64], repository[96];
static struct event events[EVENTS_MAX];
static size_t events_count;
static struct written_file *files;
static int files_count;
static struct {
	int file; /* -1: a directory */
	char path[PATH_BYTES];
	bool used;
} descriptors[DESCRIPTORS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool recording;
/* Of writes past the page cache the first one is short, and the next ones are refused. */
static bool direct_breaks;
static unsigned int direct_writes;
/* Snapshots that were written anew under another name: from the call on that removes the old name, the new one counts. */
static struct {
	struct store_id old, now;
} renamed[4];
static size_t renamed_count;

/* ---------------------------------------------------------------------------------------------------- writing down */

int __real_openat64(int at, const char *path, int flags, ...);
int __wrap_openat64(int at, const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *data, size_t bytes);
ssize_t __wrap_write(int fd, const void *data, size_t bytes);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_close(int fd);
int __wrap_close(int fd);
int __real_renameat(int from_at, const char *from, int to_at, const char *to);
int __wrap_renameat(int from_at, const char *from, int to_at, const char *to);
int __real_unlinkat(int at, const char *path, int flags);
int __wrap_unlinkat(int at, const char *path, int flags);
int __real_mkdirat(int at, const char *path, mode_t mode);
int __wrap_mkdirat(int at, const char *path, mode_t mode);

static struct event *add_event(enum event_kind kind, const char *path, int file)
{
	assert_true(events_count < EVENTS_MAX);
	struct event *event = &events[events_count++];
	memset(event, 0, sizeof(*event));
	event->kind = kind;
	event->file = file;
	snprintf(event->path, sizeof(event->path), "%s", path);
	return event;
}

/* The path in the repository of a name below a descriptor; false: it is elsewhere. */
static bool inside(int at, const char *name, char path[PATH_BYTES])
{
	char link[64], whole[PATH_BYTES + 512];
	ssize_t bytes;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", at);
	bytes = readlink(link, whole, 400);
	if (!recording || bytes < 0)
		return false;
	whole[bytes] = 0;
	if (strncmp(whole, repository, strlen(repository)) != 0)
		return false;
	snprintf(whole + bytes, sizeof(whole) - (size_t)bytes, "%s%s", name[0] != 0 ? "/" : "", name);
	snprintf(path, PATH_BYTES, "%s", whole + strlen(repository) + (whole[strlen(repository)] == '/'));
	return true;
}

int __wrap_openat64(int at, const char *path, int flags, ...)
{
	char name[PATH_BYTES];
	va_list arguments;

	va_start(arguments, flags);
	const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	const int fd = __real_openat64(at, path, flags, mode);
	pthread_mutex_lock(&mutex);
	if (fd >= 0 && fd < DESCRIPTORS && inside(at, path, name)) {
		descriptors[fd].used = true;
		descriptors[fd].file = -1;
		snprintf(descriptors[fd].path, PATH_BYTES, "%s", name);
		if (flags & O_CREAT) {
			files = (struct written_file *)realloc(files, (size_t)(files_count + 1) * sizeof(*files));
			memset(&files[files_count], 0, sizeof(*files));
			descriptors[fd].file = files_count;
			add_event(CREATED, name, files_count++);
		}
	}
	pthread_mutex_unlock(&mutex);
	return fd;
}

ssize_t __wrap_write(int fd, const void *data, size_t bytes)
{
	const bool breaks = direct_breaks && (fcntl(fd, F_GETFL) & O_DIRECT) != 0;

	if (breaks && direct_writes++ > 0) {
		errno = EINVAL;
		return -1;
	}
	const ssize_t done = __real_write(fd, data, breaks && bytes > STORE_ALIGN_BYTES ? STORE_ALIGN_BYTES : bytes);

	pthread_mutex_lock(&mutex);
	if (done > 0 && fd >= 0 && fd < DESCRIPTORS && descriptors[fd].used && descriptors[fd].file >= 0) {
		struct written_file *file = &files[descriptors[fd].file];

		file->data = (uint8_t *)realloc(file->data, file->bytes + (size_t)done);
		memcpy(file->data + file->bytes, data, (size_t)done);
		file->bytes += (size_t)done;
		add_event(WRITTEN, descriptors[fd].path, descriptors[fd].file);
	}
	pthread_mutex_unlock(&mutex);
	return done;
}

int __wrap_fsync(int fd)
{
	const int rc = __real_fsync(fd);
	char path[PATH_BYTES];

	pthread_mutex_lock(&mutex);
	if (rc == 0 && fd >= 0 && fd < DESCRIPTORS && descriptors[fd].used)
		add_event(descriptors[fd].file >= 0 ? FILE_SYNCED : FOLDER_SYNCED, descriptors[fd].path,
			  descriptors[fd].file);
	else if (rc == 0 && inside(fd, "", path)) /* the repository itself was opened by its path */
		add_event(FOLDER_SYNCED, path, -1);
	pthread_mutex_unlock(&mutex);
	return rc;
}

int __wrap_close(int fd)
{
	pthread_mutex_lock(&mutex);
	if (fd >= 0 && fd < DESCRIPTORS)
		descriptors[fd].used = false;
	pthread_mutex_unlock(&mutex);
	return __real_close(fd);
}

/* The file that a name means after all events. */
static int file_named(const char *path)
{
	for (size_t i = events_count; i-- > 0;)
		if ((events[i].kind == CREATED || events[i].kind == NAMED) && strcmp(events[i].path, path) == 0)
			return events[i].file;
	return -1;
}

int __wrap_renameat(int from_at, const char *from, int to_at, const char *to)
{
	const int rc = __real_renameat(from_at, from, to_at, to);
	char old[PATH_BYTES], new[PATH_BYTES];

	pthread_mutex_lock(&mutex);
	if (rc == 0 && inside(from_at, from, old) && inside(to_at, to, new)) {
		const int file = file_named(old);

		add_event(NAMED, new, file);
		add_event(UNNAMED, old, file);
	}
	pthread_mutex_unlock(&mutex);
	return rc;
}

int __wrap_unlinkat(int at, const char *path, int flags)
{
	const int rc = __real_unlinkat(at, path, flags);
	char name[PATH_BYTES];

	pthread_mutex_lock(&mutex);
	if (rc == 0 && inside(at, path, name))
		add_event(UNNAMED, name, file_named(name));
	pthread_mutex_unlock(&mutex);
	return rc;
}

int __wrap_mkdirat(int at, const char *path, mode_t mode)
{
	const int rc = __real_mkdirat(at, path, mode);
	char name[PATH_BYTES];

	pthread_mutex_lock(&mutex);
	if (rc == 0 && inside(at, path, name))
		add_event(FOLDER_MADE, name, -1);
	pthread_mutex_unlock(&mutex);
	return rc;
}

/* ------------------------------------------------------------------------------------- a repository that is a state */

struct state_file {
	enum store_kind kind;
	struct store_id name;
	const uint8_t *data;
	size_t bytes;
	uint8_t *own; /* written since */
};

struct state_backend {
	struct store_backend base;
	struct state_file *list;
	size_t count, room;
};

static struct state_file *state_find(struct state_backend *b, enum store_kind kind, const struct store_id *name)
{
	for (size_t i = 0; i < b->count; i++)
		if (b->list[i].kind == kind && (kind == STORE_CONFIG || store_id_equal(&b->list[i].name, name)))
			return &b->list[i];
	return NULL;
}

static struct state_file *state_add(struct state_backend *b, enum store_kind kind, const struct store_id *name)
{
	if (b->count == b->room) {
		b->room = b->room == 0 ? 64 : 2 * b->room;
		b->list = (struct state_file *)realloc(b->list, b->room * sizeof(*b->list));
	}
	b->list[b->count] = (struct state_file){.kind = kind, .name = *name};
	return &b->list[b->count++];
}

static int state_open(struct store_backend *b)
{
	const struct store_id none = {{0}};

	return state_find((struct state_backend *)b, STORE_CONFIG, &none) != NULL ?
		       0 :
		       store_fail(STORE_E_NO_STORE, "there is none");
}

static int state_put(struct store_backend *base, enum store_kind kind, const struct store_id *name, const void *data,
		     size_t bytes)
{
	struct state_backend *b = (struct state_backend *)base;

	if (state_find(b, kind, name) != NULL)
		return 0;
	struct state_file *file = state_add(b, kind, name);
	file->own = (uint8_t *)malloc(bytes);
	memcpy(file->own, data, bytes);
	file->data = file->own;
	file->bytes = bytes;
	return 0;
}

static int state_get(struct store_backend *base, enum store_kind kind, const struct store_id *name, uint64_t offset,
		     void *to, size_t bytes)
{
	const struct state_file *file = state_find((struct state_backend *)base, kind, name);

	if (file == NULL)
		return store_fail(STORE_E_ABSENT, "a file is missing");
	if (offset > file->bytes || bytes > file->bytes - offset)
		return store_fail(STORE_E_DAMAGED, "a file is shorter than it was");
	memcpy(to, file->data + offset, bytes);
	return 0;
}

static int state_size(struct store_backend *base, enum store_kind kind, const struct store_id *name, uint64_t *bytes)
{
	const struct state_file *file = state_find((struct state_backend *)base, kind, name);

	*bytes = file != NULL ? file->bytes : 0;
	return file != NULL ? 0 : store_fail(STORE_E_ABSENT, "a file is missing");
}

static int state_list(struct store_backend *base, enum store_kind kind, store_list_fn *each, void *user)
{
	const struct state_backend *b = (const struct state_backend *)base;
	int rc = 0;

	for (size_t i = 0; i < b->count && rc == 0; i++)
		if (b->list[i].kind == kind)
			rc = each(user, &b->list[i].name, b->list[i].bytes);
	return rc;
}

static int state_remove(struct store_backend *base, enum store_kind kind, const struct store_id *name)
{
	struct state_backend *b = (struct state_backend *)base;
	struct state_file *file = state_find(b, kind, name);

	if (file != NULL) {
		free(file->own);
		*file = b->list[--b->count];
	}
	return 0;
}

static int state_settle(struct store_backend *b, enum store_kind kind)
{
	(void)b;
	(void)kind;
	return 0;
}

static int state_clean(struct store_backend *b)
{
	(void)b;
	return 0;
}

static void state_close(struct store_backend *base)
{
	struct state_backend *b = (struct state_backend *)base;

	for (size_t i = 0; i < b->count; i++)
		free(b->list[i].own);
	free(b->list);
	free(b);
}

static const struct store_backend_ops state_ops = {.open = state_open,
						   .put = state_put,
						   .get = state_get,
						   .size = state_size,
						   .list = state_list,
						   .remove = state_remove,
						   .settle = state_settle,
						   .clean = state_clean,
						   .close = state_close};

/* --------------------------------------------------------------------------------------------------------- states */

/* After the first `at` events: what surely is there, and what may be. */
struct durable {
	size_t *pending; /* changes of entries that no fsync covers */
	size_t pending_count;
	bool *settled; /* by event: this change is durable */
	bool *synced;  /* by file */
};

static void parent_of(const char *path, char parent[PATH_BYTES])
{
	snprintf(parent, PATH_BYTES, "%s", path);
	char *slash = strrchr(parent, '/');
	if (slash != NULL)
		*slash = 0;
	else
		parent[0] = 0;
}

static bool changes_entry(const struct event *event)
{
	return (event->kind == NAMED || event->kind == UNNAMED || event->kind == FOLDER_MADE) &&
	       strncmp(event->path, "tmp/", 4) != 0;
}

static void find_durable(size_t at, struct durable *d)
{
	char parent[PATH_BYTES];

	memset(d->settled, 0, events_count * sizeof(*d->settled));
	memset(d->synced, 0, (size_t)files_count * sizeof(*d->synced));
	for (size_t i = 0; i < at; i++) {
		if (events[i].kind == FILE_SYNCED)
			d->synced[events[i].file] = true;
		if (events[i].kind != FOLDER_SYNCED)
			continue;
		for (size_t k = 0; k < i; k++)
			if (changes_entry(&events[k]) && !d->settled[k]) {
				parent_of(events[k].path, parent);
				d->settled[k] = strcmp(parent, events[i].path) == 0;
			}
	}
	d->pending_count = 0;
	for (size_t i = 0; i < at; i++)
		if (changes_entry(&events[i]) && !d->settled[i])
			d->pending[d->pending_count++] = i;
}

/* "packs/ab/0123..." as a kind and a name; false: it is neither. */
static bool parse_path(const char *path, enum store_kind *kind, struct store_id *name)
{
	const char *last = strrchr(path, '/');

	memset(name, 0, sizeof(*name));
	if (strcmp(path, "config") == 0) {
		*kind = STORE_CONFIG;
		return true;
	}
	for (int k = STORE_KEY; k <= STORE_LOCK; k++) {
		const char *word = store_kind_name((enum store_kind)k);

		*kind = (enum store_kind)k;
		if (strncmp(path, word, strlen(word)) == 0 && path[strlen(word)] == '/' && last != NULL)
			return store_unhex(last + 1, name);
	}
	return false;
}

/* What is there when of the pending changes those in `mask` came through. variant: of bytes that are not durable, none, half, all. */
static struct state_backend *make_state(size_t at, const struct durable *d, const bool *chosen, int variant)
{
	struct state_backend *b = (struct state_backend *)calloc(1, sizeof(*b));
	bool made[256] = {false};
	size_t pending = 0;

	b->base.ops = &state_ops;
	b->base.path = (char *)"state";
	for (size_t i = 0; i < at; i++) {
		const struct event *event = &events[i];
		enum store_kind kind;
		struct store_id name;

		if (!changes_entry(event) || (!d->settled[i] && !chosen[pending++]))
			continue;
		if (event->kind == FOLDER_MADE) {
			if (strncmp(event->path, "packs/", 6) == 0)
				made[strtoul(event->path + 6, NULL, 16)] = true;
			continue;
		}
		if (!parse_path(event->path, &kind, &name))
			continue;
		if (event->kind == UNNAMED) {
			state_remove(&b->base, kind, &name);
			continue;
		}
		struct state_file *file = state_find(b, kind, &name);
		if (file == NULL)
			file = state_add(b, kind, &name);
		file->data = files[event->file].data;
		file->bytes = files[event->file].bytes;
		if (!d->synced[event->file])
			file->bytes = file->bytes * (size_t)variant / 2;
	}
	for (size_t i = 0; i < b->count;) {
		if (b->list[i].kind == STORE_PACK && !made[b->list[i].name.bytes[0]])
			b->list[i] = b->list[--b->count];
		else
			i++;
	}
	return b;
}

/* -------------------------------------------------------------------------------------------------------- judging */

static uint64_t states_seen, states_all, states_pruned;
static uint64_t *seen;

/* True when this set of files was judged before. */
static bool known_state(const struct state_backend *b, const struct store_id *wanted, size_t wanted_count)
{
	uint64_t sum = 0x9e3779b97f4a7c15u;

	for (size_t i = 0; i < b->count; i++) {
		uint8_t digest[32];
		uint64_t part;

		store_digest(&b->list[i], offsetof(struct state_file, own), digest);
		memcpy(&part, digest, 8);
		sum += part; /* in any order */
	}
	for (size_t i = 0; i < wanted_count; i++) {
		uint64_t part;

		memcpy(&part, &wanted[i], 8);
		sum += part * 31;
	}
	for (uint64_t row = sum % SEEN_ROWS;; row = (row + 1) % SEEN_ROWS) {
		if (seen[row] == sum)
			return true;
		if (seen[row] == 0) {
			seen[row] = sum;
			return false;
		}
	}
}

static void note_problem(void *user, const char *sentence)
{
	snprintf((char *)user, STORE_TEXT_BYTES, "%s", sentence);
}

static int give_secret(void *user, struct store_secret *secret)
{
	*secret = *(const struct store_secret *)user;
	return 0;
}

/* All snapshots are whole, every pack that the index names for them is there, and the wanted ones exist. NULL: all is well. */
static const char *judge(struct store *s, const struct store_id *wanted, size_t wanted_count)
{
	static char text[STORE_TEXT_BYTES];
	struct store_listed *names;
	struct store_marks marks;
	uint64_t size;
	size_t count;

	text[0] = 0;
	if (store_list_all(s->backend, STORE_SNAPSHOT, &names, &count) != 0 ||
	    store_index_load(s, NULL, NULL, NULL) != 0)
		return store_message();
	store_marks_begin(&marks, s, note_problem, text);
	store_marks_snapshots(&marks, names, count);
	free(names);
	for (uint64_t i = 0; i < store_index_count(s) && text[0] == 0; i++) {
		struct store_entry entry;
		struct store_pack pack;

		if (marks.used[i] == 0)
			continue;
		assert_int_equal(store_index_at(s, (uint32_t)i, &entry), 0);
		pack = store_pack_at(s, entry.pack);
		if (s->backend->ops->size(s->backend, STORE_PACK, &pack.name, &size) != 0 || size != pack.bytes)
			snprintf(text, sizeof(text), "a pack that a snapshot needs is missing");
	}
	store_marks_end(&marks);
	for (size_t i = 0; i < wanted_count && text[0] == 0; i++)
		if (s->backend->ops->size(s->backend, STORE_SNAPSHOT, &wanted[i], &size) != 0)
			snprintf(text, sizeof(text), "a snapshot that was complete is gone");
	return text[0] != 0 ? text : NULL;
}

static void fail_at(size_t at, const bool *chosen, const struct durable *d, const char *what)
{
	print_error("after call %zu (%s): %s\n", at, at > 0 ? events[at - 1].path : "", what);
	for (size_t i = 0; i < d->pending_count; i++)
		print_error("  %s %s: %s\n", chosen[i] ? "came through" : "was lost", events[d->pending[i]].path,
			    events[d->pending[i]].kind == UNNAMED ? "removed" : "made");
	fail();
}

static void judge_state(size_t at, const struct durable *d, const bool *chosen, int variant,
			struct store_secret *secret, const struct store_id *wanted, size_t wanted_count)
{
	struct state_backend *b = make_state(at, d, chosen, variant);
	const struct store_prune_options prune = {.max_unused = 0};
	struct store_prune_result result;
	const char *problem;
	struct store *s;

	states_all++;
	if (known_state(b, wanted, wanted_count)) {
		state_close(&b->base);
		return;
	}
	states_seen++;
	if (store_open_backend(&b->base, give_secret, secret, &s) != 0)
		fail_at(at, chosen, d, store_message());
	s->backend->path = strdup("state");
	problem = judge(s, wanted, wanted_count);
	if (problem == NULL && states_seen % PRUNE_EVERY == 0) {
		states_pruned++;
		problem = store_prune(s, &prune, &result) != 0 ? store_message() : judge(s, wanted, wanted_count);
	}
	if (problem != NULL)
		fail_at(at, chosen, d, problem);
	free(s->backend->path);
	store_close(s);
}

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void rename_wanted(const char *path, struct store_id *wanted, size_t count)
{
	enum store_kind kind;
	struct store_id name;

	if (!parse_path(path, &kind, &name) || kind != STORE_SNAPSHOT)
		return;
	for (size_t r = 0; r < renamed_count; r++)
		for (size_t k = 0; k < count; k++)
			if (store_id_equal(&renamed[r].old, &name) && store_id_equal(&wanted[k], &name))
				wanted[k] = renamed[r].now;
}

/* Every state after every call from `first` on: all subsets, or `most` of them. */
static void judge_all(size_t first, size_t most, struct store_secret *secret)
{
	struct durable d = {.pending = (size_t *)calloc(events_count, sizeof(size_t)),
			    .settled = (bool *)calloc(events_count, 1),
			    .synced = (bool *)calloc((size_t)files_count, 1)};
	struct store_id *wanted = (struct store_id *)calloc(events_count, sizeof(*wanted));
	bool *chosen = (bool *)calloc(events_count, 1);

	for (size_t at = first; at <= events_count; at++) {
		size_t wanted_count = 0;

		if (at > 0 && events[at - 1].kind == WRITTEN)
			continue; /* bytes that nobody can see yet */
		for (size_t i = 0; i < at; i++) {
			if (events[i].kind == DONE)
				wanted[wanted_count++] = events[i].snapshot;
			if (events[i].kind == FORGOTTEN)
				for (size_t k = 0; k < wanted_count; k++)
					if (store_id_equal(&wanted[k], &events[i].snapshot))
						wanted[k] = wanted[--wanted_count];
			if (events[i].kind == UNNAMED)
				rename_wanted(events[i].path, wanted, wanted_count);
		}
		find_durable(at, &d);
		const bool every = d.pending_count < 20 && ((size_t)1 << d.pending_count) <= most;
		const size_t count = every ? (size_t)1 << d.pending_count : most;
		for (size_t mask = 0; mask < count; mask++) {
			for (size_t i = 0; i < d.pending_count; i++)
				chosen[i] = every ? (mask >> i & 1) != 0 : (next_random() & 1) != 0;
			for (int variant = 0; variant <= 2; variant++)
				judge_state(at, &d, chosen, variant, secret, wanted, wanted_count);
		}
	}
	free(d.pending);
	free(d.settled);
	free(d.synced);
	free(wanted);
	free(chosen);
}

/* ------------------------------------------------------------------------------------------------------- scenarios */

static void write_noise(const char *name, size_t bytes)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/tree/%s", folder, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	for (size_t i = 0; i < bytes; i += 8) {
		const uint64_t word = next_random();

		fwrite(&word, 1, 8, file);
	}
	fclose(file);
}

static void note_backup(void *user, enum store_note note, const char *path, const char *sentence)
{
	(void)user;
	(void)note;
	(void)path;
	(void)sentence;
}

static struct store_id back_up(struct store *s)
{
	char path[96];
	const char *paths[] = {path};
	const struct store_backup_options options = {
		.paths = paths, .paths_count = 1, .host = "here", .level = 1, .threads = 1, .note = note_backup};
	struct store_backup_stats stats;
	struct store_snapshot snapshot;

	snprintf(path, sizeof(path), "%s/tree", folder);
	assert_int_equal(store_index_load(s, NULL, NULL, NULL), 0);
	assert_int_equal(store_backup(s, &options, &snapshot, &stats), 0);
	const struct store_id name = snapshot.name;
	store_snapshot_free(&snapshot);
	pthread_mutex_lock(&mutex);
	add_event(DONE, "", -1)->snapshot = name;
	pthread_mutex_unlock(&mutex);
	return name;
}

static void forget_one(struct store *s, const struct store_id *name)
{
	pthread_mutex_lock(&mutex);
	add_event(FORGOTTEN, "", -1)->snapshot = *name;
	pthread_mutex_unlock(&mutex);
	assert_int_equal(s->backend->ops->remove(s->backend, STORE_SNAPSHOT, name), 0);
}

static void prune_all(struct store *s)
{
	const struct store_prune_options options = {.max_unused = 0};
	struct store_prune_result result;

	assert_int_equal(store_lock(s, true), 0);
	assert_int_equal(store_prune(s, &options, &result), 0);
	store_unlock(s);
}

static const uint8_t key[32] = {7};
static struct store_secret secret = {.key = key, .key_bytes = sizeof(key)};

static int begin(void **state)
{
	char path[96];

	(void)state;
	if (test_folder(folder, sizeof(folder), "crash") < 0)
		return -1;
	snprintf(repository, sizeof(repository), "%s/repository", folder);
	snprintf(path, sizeof(path), "%s/tree", folder);
	seen = (uint64_t *)calloc(SEEN_ROWS, sizeof(*seen));
	events_count = 0;
	recording = true;
	return mkdir(path, 0700);
}

static int end(void **state)
{
	char command[128];

	(void)state;
	recording = false;
	for (int i = 0; i < files_count; i++)
		free(files[i].data);
	free(files);
	free(seen);
	files = NULL;
	files_count = 0;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static struct store *make_repository(void)
{
	const struct store_place place = {.path = repository};
	struct store *s;

	/* its first directories are made by init, whose crash leaves nothing that anybody misses: they count as there */
	assert_int_equal(store_create(&place, &secret, NULL, &s), 0);
	return s;
}

static void every_crash_leaves_a_whole_repository(void **state)
{
	const char *limit = getenv("SHREDDER_CRASH_STATES");
	struct store *s = make_repository();
	const size_t first = events_count;
	struct store_id names[GENERATIONS];
	char name[16];

	(void)state;
	for (int generation = 0; generation < GENERATIONS; generation++) {
		for (int file = 0; file < 3; file++) {
			snprintf(name, sizeof(name), "%d", (generation + file) % 4);
			write_noise(name, 40000 + (size_t)generation * 20000);
		}
		assert_int_equal(store_lock(s, false), 0);
		names[generation] = back_up(s);
		store_unlock(s);
		if (generation % 6 == 5) { /* of six, the third and the last stay */
			for (int k = generation - 5; k < generation; k++)
				if (k % 6 != 2)
					forget_one(s, &names[k]);
			prune_all(s);
		}
	}
	for (int generation = 0; generation < GENERATIONS - 1; generation++)
		if (generation % 6 == 2 || generation % 6 == 5 || generation >= GENERATIONS / 6 * 6)
			forget_one(s, &names[generation]);
	prune_all(s);
	store_close(s);
	recording = false;
	judge_all(first, limit != NULL ? strtoul(limit, NULL, 10) : STATES, &secret);
	print_message("%zu calls, %llu states, %llu of them different, %llu pruned\n", events_count,
		      (unsigned long long)states_all, (unsigned long long)states_seen,
		      (unsigned long long)states_pruned);
	assert_true(states_seen > 1000);
}

static void no_problem(void *user, const char *sentence)
{
	(void)user;
	fail_msg("%s", sentence);
}

static void no_sentence(void *user, const char *sentence)
{
	(void)user;
	(void)sentence;
}

/* Parity comes, becomes another one and goes, and each time a backup follows. */
static void every_crash_of_a_change_of_parity(void **state)
{
	static const uint32_t parities[] = {1, 3, 0};
	struct store *s = make_repository();
	struct store_snapshot *before, *after;
	size_t first, count, now;
	char name[16];

	(void)state;
	renamed_count = 0;
	for (int file = 0; file < 3; file++) {
		snprintf(name, sizeof(name), "%d", file);
		write_noise(name, 300000);
		back_up(s);
	}
	for (size_t i = 0; i < sizeof(parities) / sizeof(*parities); i++) {
		struct store_parity_change change = {.problem = no_problem};

		states_seen = 0;
		first = events_count;
		assert_int_equal(store_snapshots(s, &(struct store_filter){0}, &before, &count), 0);
		assert_int_equal(store_lock(s, true), 0);
		assert_int_equal(store_parity_set(s, parities[i], &change), 0);
		store_unlock(s);
		assert_int_equal(change.problems, 0);
		assert_true(change.packs > 2);
		assert_int_equal(change.others, count + 1); /* a key */
		assert_int_equal(store_snapshots(s, &(struct store_filter){0}, &after, &now), 0);
		assert_int_equal(now, count); /* in the order of their times, as before */
		assert_true(count <= sizeof(renamed) / sizeof(*renamed));
		for (renamed_count = 0; renamed_count < count; renamed_count++) {
			renamed[renamed_count].old = before[renamed_count].name;
			renamed[renamed_count].now = after[renamed_count].name;
		}
		store_snapshots_free(before, count);
		store_snapshots_free(after, now);
		recording = false;
		judge_all(first, 64, &secret);
		print_message("parity %u: %llu different states\n", parities[i], (unsigned long long)states_seen);
		assert_true(states_seen > 50);
		/* what the next one begins with counts as complete */
		pthread_mutex_lock(&mutex);
		for (size_t k = 0; k < renamed_count; k++) {
			add_event(FORGOTTEN, "", -1)->snapshot = renamed[k].old;
			add_event(FORGOTTEN, "", -1)->snapshot = renamed[k].now;
			add_event(DONE, "", -1)->snapshot = renamed[k].now;
		}
		pthread_mutex_unlock(&mutex);
		renamed_count = 0;
		recording = true;
	}
	store_close(s);
}

/* On the disk, and in what was written down. */
static void lose_header(const struct store_id *pack, uint64_t bytes)
{
	char hex[STORE_HEX_BYTES], path[PATH_BYTES], whole[sizeof(repository) + PATH_BYTES];
	const uint64_t at = bytes - 20;

	store_hex(pack, hex);
	snprintf(path, sizeof(path), "packs/%.2s/%s", hex, hex);
	snprintf(whole, sizeof(whole), "%s/%s", repository, path);
	const int file = file_named(path);
	assert_true(file >= 0 && files[file].bytes == bytes);
	files[file].data[at] ^= 4;
	const int fd = open(whole, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, &files[file].data[at], 1, (off_t)at), 1);
	close(fd);
}

/* Every pack has lost its header, so all that is in them moves, by what the index says, and every snapshot is whole at any moment. */
static void every_crash_of_a_repair_of_packs(void **state)
{
	const struct store_salvage_options options = {.threads = 1, .level = 1, .told = no_sentence};
	struct store *s = make_repository();
	struct store_salvage_result result;
	struct store_listed *packs;
	size_t count;
	char name[16];

	(void)state;
	states_seen = 0;
	renamed_count = 0;
	for (int file = 0; file < 3; file++) {
		snprintf(name, sizeof(name), "%d", file);
		write_noise(name, 300000);
		back_up(s);
	}
	assert_int_equal(store_list_all(s->backend, STORE_PACK, &packs, &count), 0);
	assert_true(count >= 6);
	for (size_t i = 0; i < count; i++)
		lose_header(&packs[i].name, packs[i].bytes);
	free(packs);
	const size_t first = events_count;
	assert_int_equal(store_lock(s, true), 0);
	assert_int_equal(store_salvage(s, &options, &result), 0);
	store_unlock(s);
	assert_int_equal(result.damaged_packs, count);
	assert_int_equal(result.lost_blobs, 0);
	store_close(s);
	recording = false;
	judge_all(first, 256, &secret);
	print_message("%llu different states\n", (unsigned long long)states_seen);
	assert_true(states_seen > 50);
}

/* A folder that somebody else has made a moment ago, or who was killed behind it, is not durable because it is there. */
static void a_folder_that_is_there_is_made_durable(void **state)
{
	struct store *s = make_repository();
	const int root = open(repository, O_RDONLY | O_DIRECTORY);
	const size_t first = events_count;
	char name[16];

	(void)state;
	for (int i = 0; i < 256; i++) {
		snprintf(name, sizeof(name), "packs/%02x", (unsigned int)i);
		assert_int_equal(mkdirat(root, name, 0700), 0);
	}
	close(root);
	write_noise("file", 100000);
	back_up(s);
	store_close(s);
	recording = false;
	(void)first;
	judge_all(events_count, 64, &secret);
}

/* A write past the page cache that was short at a whole block, and is refused from there on: no byte is there twice. */
static void a_short_direct_write_goes_on(void **state)
{
	const size_t bytes = 5 * STORE_ALIGN_BYTES + 100;
	struct store *s = make_repository();
	uint8_t *data = (uint8_t *)store_alloc_aligned(STORE_ALIGN_BYTES, 6 * STORE_ALIGN_BYTES);
	uint8_t *found = (uint8_t *)calloc(1, bytes);
	const struct store_id name = {.bytes = {1}};
	uint64_t there;

	(void)state;
	recording = false;
	for (size_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(i / 1000 + i);
	direct_writes = 0;
	direct_breaks = true;
	assert_int_equal(s->backend->ops->put(s->backend, STORE_PACK, &name, data, bytes), 0);
	direct_breaks = false;
	assert_int_equal(s->backend->ops->size(s->backend, STORE_PACK, &name, &there), 0);
	assert_int_equal(there, bytes);
	assert_int_equal(s->backend->ops->get(s->backend, STORE_PACK, &name, 0, found, bytes), 0);
	assert_memory_equal(found, data, bytes);
	if (direct_writes == 0)
		print_message("this file system has no writes past the page cache\n");
	free(data);
	free(found);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_crash_leaves_a_whole_repository, begin, end),
		cmocka_unit_test_setup_teardown(every_crash_of_a_change_of_parity, begin, end),
		cmocka_unit_test_setup_teardown(every_crash_of_a_repair_of_packs, begin, end),
		cmocka_unit_test_setup_teardown(a_short_direct_write_goes_on, begin, end),
		cmocka_unit_test_setup_teardown(a_folder_that_is_there_is_made_durable, begin, end),
	};

	return cmocka_run_group_tests_name("store_crash", tests, NULL, NULL);
}
