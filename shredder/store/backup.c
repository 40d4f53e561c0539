/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backup: one thread walks the tree, workers read.
 *
 *	walker --files--> workers --blobs--> packer's buffers --> its writer
 *	   |                 |
 *	   +-- unchanged ----+--entries--> directories --tree blobs--> ...
 *
 * backup_walk.c is the walker; backup_source.c reads files; cutter.c cuts them, names their chunks, and protects those that the index does not
 * know, and when another worker has nothing to do, it gets that to do; GPUs cut and hash for it where there are some; backup_folder.c makes directories of entries. So memory holds names
 * of the directories that are open, up to a limit (names.h), and entries that wait for an earlier file, up to another.
 *
 * The snapshot comes last: after all packs, after the index.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chunk/devices.h"
#include "store/backend.h"
#include "store/backup_parts.h"
#include "store/maintain.h"

#define FILE_JOBS_MAX 256

char *store_absolute(const char *path)
{
	char *whole, *save = NULL, *out;
	bool up = false;

	if (path[0] == '/') {
		whole = store_strdup(path);
	} else {
		char *here = getcwd(NULL, 0);

		if (here == NULL)
			return NULL;
		whole = (char *)store_alloc(strlen(here) + strlen(path) + 2);
		sprintf(whole, "%s/%s", here, path);
		free(here);
	}
	out = (char *)store_alloc(strlen(whole) + 2);
	char *copy = store_strdup(whole);
	for (const char *name = strtok_r(copy, "/", &save); name != NULL; name = strtok_r(NULL, "/", &save)) {
		up = up || strcmp(name, "..") == 0;
		if (strcmp(name, ".") != 0) {
			strcat(out, "/");
			strcat(out, name);
		}
	}
	free(copy);
	if (up) {
		free(out);
		out = realpath(whole, NULL);
	} else if (out[0] == 0) {
		strcpy(out, "/");
	}
	free(whole);
	return out;
}

/* A change counts at or below what was backed up; above that, directories are only on the way, and change with what else they have. */
static int count_change(void *user, enum store_change change, const char *path, const struct store_node *left,
			const struct store_node *right)
{
	const struct store_snapshot *snapshot = (const struct store_snapshot *)user;
	const size_t bytes = strlen(path);

	for (size_t i = 0; i < snapshot->paths_count && change == STORE_METADATA; i++)
		if (strncmp(snapshot->paths[i], path, bytes) == 0 && snapshot->paths[i][bytes] == '/')
			return 0;
	return left != NULL || right != NULL ? 1 : 0;
}

/*
 * Whether a restore of what was backed up gives the same; 1 or 0, or an error. All that is new can be read. Files with several names count
 * as changed when they are other inodes: which names are one file could be told only by looking at all of them. A parent that somebody has
 * removed meanwhile restores nothing.
 */
static int same_as_parent(struct backup *op, struct store_snapshot *snapshot)
{
	const struct store_snapshot *parent = op->options->parent;
	struct store_backend *b = op->s->backend;
	struct store_codec codec;
	uint64_t bytes;

	if (parent == NULL || snapshot->unread != 0 || parent->unread != 0 ||
	    snapshot->owners.list.size != parent->owners.list.size ||
	    (parent->owners.list.size > 0 &&
	     memcmp(snapshot->owners.list.data, parent->owners.list.data, parent->owners.list.size) != 0))
		return 0;
	const struct store_content before = store_snapshot_root(parent), after = store_snapshot_root(snapshot);
	store_codec_init(&codec, 0);
	int rc = store_diff(op->s, &codec, &before, &after, count_change, snapshot);
	store_codec_free(&codec);
	if (rc == 0 && (rc = b->ops->size(b, STORE_SNAPSHOT, &parent->name, &bytes)) == STORE_E_ABSENT)
		return 0;
	return rc < 0 ? rc : rc == 0;
}

static int make_snapshot(struct backup *op, char **paths, size_t count, struct store_snapshot *snapshot)
{
	const struct store_backup_options *o = op->options;
	char user[65];

	store_user(user);
	snapshot->host = store_strdup(o->host);
	snapshot->user = store_strdup(user);
	snapshot->uid = geteuid();
	snapshot->gid = getegid();
	snapshot->paths = (char **)store_alloc(count * sizeof(char *));
	snapshot->paths_count = count;
	for (size_t i = 0; i < count; i++)
		snapshot->paths[i] = store_strdup(paths[i]);
	snapshot->tags = (char **)store_alloc(o->tags_count * sizeof(char *));
	snapshot->tags_count = o->tags_count;
	for (size_t i = 0; i < o->tags_count; i++)
		snapshot->tags[i] = store_strdup(o->tags[i]);
	snapshot->has_parent = o->parent != NULL;
	if (o->parent != NULL)
		snapshot->parent = o->parent->name;
	store_buf_add(&snapshot->root, op->root.data, op->root.bytes);
	snapshot->root_count = op->root.count;
	snapshot->files = atomic_load(&op->files);
	snapshot->directories = atomic_load(&op->directories);
	snapshot->others = atomic_load(&op->others);
	snapshot->bytes = atomic_load(&op->bytes);
	snapshot->unread = atomic_load(&op->unread);
	snapshot->program = store_strdup("shredder " G4_VERSION);
	if (op->s->version >= STORE_VERSION_OWNERS)
		store_owners_of(op->owners, &snapshot->owners);
	if (o->dry_run)
		return 0;
	const int same = o->skip_unchanged ? same_as_parent(op, snapshot) : 0;
	op->stats->skipped = same == 1;
	return same < 0 ? same : same == 1 ? 0 : store_snapshot_put(op->s, snapshot);
}

static void fill_stats(struct backup *op, struct store_backup_stats *stats)
{
	stats->files = atomic_load(&op->files);
	stats->directories = atomic_load(&op->directories);
	stats->others = atomic_load(&op->others);
	stats->bytes = atomic_load(&op->bytes);
	stats->unchanged_files = atomic_load(&op->unchanged);
	stats->read_bytes = atomic_load(&op->read_bytes);
	stats->new_blobs = atomic_load(&op->keeping.new_blobs);
	stats->new_bytes = atomic_load(&op->keeping.new_bytes);
	stats->stored_bytes = atomic_load(&op->keeping.stored_bytes);
	stats->unread = atomic_load(&op->unread);
	stats->changed = atomic_load(&op->changed);
	stats->resumed_bytes = atomic_load(&op->resumed_bytes);
	stats->ahead_bytes = atomic_load(&op->ahead_bytes);
	stats->done_bytes = atomic_load(&op->done_bytes);
	stats->expected_bytes = atomic_load(&op->expected_bytes);
	if (op->keeping.service != NULL)
		shredder_service_get_state(op->keeping.service, &stats->gpus);
	stats->written_bytes = op->keeping.packer == NULL ? 0 : store_packer_written(op->keeping.packer);
}

static void do_job(void *member, void *user)
{
	struct backup_worker *w = (struct backup_worker *)member;
	struct store_keeping_job *job = (struct store_keeping_job *)user;

	if (!job->blob) {
		if (job->own.number == BACKUP_JOB_AHEAD)
			backup_ahead_help(&((struct backup_worker *)job->own.what)->ahead);
		else
			backup_do_file(w, (struct backup_slot *)job->own.what);
		return;
	}
	const int rc = store_cutter_do(&w->cutter, &job->of_blob);
	if (rc != 0)
		backup_fail(w->op, rc);
}

/* Tells what is to be expected while the backup goes on already. */
struct measuring {
	struct backup *op;
	char **paths;
	size_t count;
	atomic_bool stop;
	pthread_t thread;
	bool started;
};

static void *measure(void *user)
{
	struct measuring *m = (struct measuring *)user;
	const uint64_t bytes = store_measure(m->paths, m->count, m->op->options, &m->stop);

	if (!atomic_load(&m->stop))
		atomic_store(&m->op->expected_bytes, bytes);
	return NULL;
}

/* Without the thread nobody knows, and the backup is the same. Its fts(3) accesses directories, whose times the backup may want. */
static void begin_measuring(struct measuring *m)
{
	const struct store_backup_options *options = m->op->options;

	if (options->parent != NULL)
		atomic_store(&m->op->expected_bytes, options->parent->bytes);
	m->started = options->parent == NULL && options->stdin_name == NULL && !options->with_atime &&
		     options->progress != NULL && pthread_create(&m->thread, NULL, measure, m) == 0;
}

static void end_measuring(struct measuring *m)
{
	atomic_store(&m->stop, true);
	if (m->started)
		pthread_join(m->thread, NULL);
}

/* GPUs cut and hash if the engine's name is a device's or none. */
static int choose_engine(struct backup *op, uint32_t threads)
{
	const struct store_backup_options *o = op->options;
	const bool any = o->engine == NULL || strcmp(o->engine, "auto") == 0;
	const struct shredder_service_options options = {.params = &op->s->params,
							 .gpus = o->gpus,
							 .gpus_count = o->gpus_count,
							 .users = threads,
							 .load_bytes = STORE_LOAD_BYTES,
							 .borders_max = STORE_WAITING_MAX};

	if (!any && strcmp(o->engine, "cuda") != 0) {
		op->keeping.engine = o->engine;
		return 0;
	}
	if (any && o->gpus_count == 0 && shredder_device_find(NULL) == NULL)
		return 0;
	op->keeping.complete = backup_complete_waiting;
	op->keeping.together = !any;
	op->keeping.service = shredder_service_new(&options);
	if (op->keeping.service == NULL)
		return store_fail(STORE_E_CHUNKER, "the chunker cannot be opened: %s",
				  shredder_strerror(SHREDDER_E_NOMEM));
	if (!any)
		shredder_service_begin(op->keeping.service);
	return 0;
}

/* All stages; `paths` are absolute. The last worker is the walker's. */
static int run(struct backup *op, uint32_t threads, char **paths, size_t count)
{
	struct backup_worker *workers = (struct backup_worker *)store_alloc((threads + 1) * sizeof(*workers));
	const struct store_pool_options pool = {.threads = threads,
						.members = workers,
						.member_bytes = sizeof(*workers),
						.job_bytes = sizeof(struct store_keeping_job),
						.jobs_max = FILE_JOBS_MAX,
						.work = do_job,
						.idle = backup_do_waiting};
	struct measuring measuring = {.op = op, .paths = paths, .count = count};
	int rc = choose_engine(op, threads);

	begin_measuring(&measuring);
	op->keeping.between = backup_offer_ahead;
	for (uint32_t i = 0; i <= threads; i++)
		backup_ahead_init(&workers[i].ahead);
	for (uint32_t i = 0; i <= threads && rc == 0; i++) {
		workers[i].op = op;
		workers[i].resume.fd = -1;
		rc = store_cutter_open(&workers[i].cutter, &op->keeping, &workers[i]);
		if (op->keeping.service != NULL)
			workers[i].waiting =
				(struct backup_read *)store_alloc(STORE_WAITING_MAX * sizeof(*workers[i].waiting));
	}
	if (rc == 0 && (op->keeping.pool = store_pool_open(&pool)) == NULL)
		rc = STORE_E_IO;
	if (rc != 0)
		backup_fail(op, rc);
	else if (op->options->stdin_name != NULL)
		backup_read_stdin(&workers[threads]);
	else
		backup_walk_paths(&workers[threads], paths, count);
	store_pool_close(op->keeping.pool);
	op->keeping.pool = NULL;
	for (uint32_t i = 0; i <= threads && !atomic_load(&op->failed); i++)
		if ((rc = store_cutter_flush(&workers[i].cutter)) != 0)
			backup_fail(op, rc);
	end_measuring(&measuring);
	backup_free_folders(op); /* that a failure has left open */
	for (uint32_t i = 0; i <= threads; i++) {
		for (uint32_t k = 0; workers[i].waiting != NULL && k < STORE_WAITING_MAX; k++) /* after a failure */
			store_buf_free(&workers[i].waiting[k].attributes);
		free(workers[i].waiting);
		atomic_fetch_add(&op->ahead_bytes, atomic_load(&workers[i].ahead.helped));
		backup_ahead_free(&workers[i].ahead);
		store_cutter_close(&workers[i].cutter);
		store_buf_free(&workers[i].attributes);
		store_buf_free(&workers[i].entry);
		store_buf_free(&workers[i].block);
	}
	free(workers);
	return op->rc == 0 ? 0 : store_fail(op->rc, "%s", op->text);
}

int store_backup(struct store *s, const struct store_backup_options *options, struct store_snapshot *snapshot,
		 struct store_backup_stats *stats)
{
	struct backup *op = (struct backup *)store_alloc(sizeof(*op));
	size_t count = options->stdin_name != NULL ? 1 : options->paths_count;
	char **paths = (char **)store_alloc(count * sizeof(*paths));
	int rc = 0;

	store_raise_descriptors();
	memset(snapshot, 0, sizeof(*snapshot));
	memset(stats, 0, sizeof(*stats));
	snapshot->time = options->time != NULL ? *options->time : store_now();
	op->s = s;
	op->options = options;
	op->stats = stats;
	op->keeping.s = s;
	op->keeping.level = options->level;
	op->linked = (struct backup_linked **)store_alloc(BACKUP_LINKED_ROWS * sizeof(*op->linked));
	op->owners = store_owner_set_new();
	pthread_mutex_init(&op->tree, NULL);
	pthread_cond_init(&op->written, NULL);
	op->waiting_max = options->waiting_max != 0 ? options->waiting_max : BACKUP_WAITING_MAX;
	pthread_mutex_init(&op->notes, NULL);
	if (stat(s->backend->path, &op->repository) != 0)
		op->repository.st_ino = 0;
	for (size_t i = 0; i < count && rc == 0; i++) {
		paths[i] = options->stdin_name != NULL ? NULL : store_absolute(options->paths[i]);
		if (options->stdin_name != NULL) {
			paths[i] = (char *)store_alloc(strlen(options->stdin_name) + 2);
			sprintf(paths[i], "/%s", options->stdin_name);
		} else if (paths[i] == NULL) {
			rc = store_fail(STORE_E_INVAL, "%s: %s", options->paths[i], strerror(errno));
		}
	}
	if (rc == 0) /* sooner than after hours of reading */
		rc = store_snapshot_texts(options->host, paths, count, options->tags, options->tags_count);
	if (rc == 0 && options->with_atime && s->version < STORE_VERSION_ATIME)
		rc = store_fail(
			STORE_E_INVAL,
			"a repository of format %u has no place for times of last access; 'shredder copy' into a new "
			"one",
			s->version);
	if (rc == 0) {
		op->keeping.packer = options->dry_run ? NULL : store_packer_open(s);
		rc = run(op, store_threads(options->threads), paths, count);
	}
	if (rc == 0 && options->was_read != NULL)
		rc = options->was_read(options->user);
	if (rc == 0 && op->keeping.packer != NULL)
		rc = store_packer_finish(op->keeping.packer);
	if (rc == 0 && !op->root_complete)
		rc = store_fail(STORE_E_IO, "the tree is incomplete: this is a fault of the program");
	fill_stats(op, stats);
	if (rc == 0)
		rc = make_snapshot(op, paths, count, snapshot);
	if (rc == 0 && !options->dry_run)
		store_resume_clear(s, options->resume_folder);
	if (op->keeping.packer != NULL)
		store_packer_close(op->keeping.packer);
	shredder_service_close(op->keeping.service);
	for (size_t i = 0; i < count; i++)
		free(paths[i]);
	free(paths);
	backup_free_linked(op);
	store_owner_set_free(op->owners);
	store_buf_free(&op->root_bytes);
	free(op);
	return rc;
}
