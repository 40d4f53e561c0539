/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what was restored again: a file's bytes must give the names of its chunks. It opens names below the target only, and follows no link. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/crypto.h"
#include "store/device.h"
#include "store/maintain.h"
#include "store/pool.h"
#include "store/quiet.h"
#include "store/restore.h"
#include "store/restore_write.h"

#define JOBS_MAX 256

struct verify {
	struct store *s;
	const struct store_restore_options *options;
	int target; /* -1: a device */
	struct store_pool *pool;
	pthread_mutex_t notes;
	atomic_ullong files, bytes, errors;
};

struct worker {
	struct verify *v;
	struct store_buf bytes;
};

/* A file; the worker frees what it has. */
struct job {
	char *path; /* below the target, "/a/b"; NULL: the device */
	uint8_t *entry;
	size_t entry_bytes;
};

static void note(struct verify *v, const char *path, const char *sentence)
{
	const struct store_restore_options *o = v->options;
	const char *below = path != NULL ? path : "", *above = path != NULL ? o->target : o->device;
	char *whole = (char *)store_alloc(strlen(above) + strlen(below) + 1);

	size_t bytes = strlen(above);
	while (path != NULL && bytes > 0 && above[bytes - 1] == '/')
		bytes--;
	sprintf(whole, "%.*s%s", (int)bytes, above, below);
	atomic_fetch_add(&v->errors, 1);
	pthread_mutex_lock(&v->notes);
	o->note(o->user, whole, sentence);
	pthread_mutex_unlock(&v->notes);
	free(whole);
}

/* Name by name, as it was restored: paths may be longer than the kernel takes them. */
static int open_below(const struct verify *v, const char *path)
{
	int folder = v->target;

	if (path == NULL)
		return open(v->options->device, O_RDONLY | O_CLOEXEC);
	for (const char *at = path + 1;;) {
		const size_t bytes = strcspn(at, "/");
		const bool last = at[bytes] == 0;
		char name[STORE_NAME_MAX + 1];

		memcpy(name, at, bytes);
		name[bytes] = 0;
		const int fd = last ? store_open_quiet(folder, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC) :
				      openat(folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		const int error = errno;
		if (folder != v->target)
			close(folder);
		errno = error;
		if (last || fd < 0)
			return fd;
		folder = fd;
		at += bytes + 1;
	}
}

/* Of `bytes` bytes from `at` on, how many come before the next ones that the file has. */
static uint64_t hole_at(int fd, uint64_t at, uint64_t bytes)
{
	const off_t data = lseek(fd, (off_t)at, SEEK_DATA);

	if (data < 0) /* ENXIO: there are no more; else nobody can tell */
		return errno == ENXIO ? bytes : 0;
	return g4_min64((uint64_t)data - at, bytes);
}

/* NULL, or what is wrong. */
static const char *compare(struct worker *w, int fd, const struct store_node *node)
{
	struct store_in in = store_content_in(&node->content);
	struct store_part part;
	uint64_t offset = 0;

	while (in.at != in.end && store_part_next(&in, &part)) {
		uint64_t done = 0;

		/* a hole may be of any size, a chunk is read as a whole */
		while (done < part.bytes) {
			done += part.hole ? hole_at(fd, offset + done, part.bytes - done) : 0;
			const uint64_t now = part.hole ? g4_min64(G4_MIB, part.bytes - done) : part.bytes;
			uint8_t digest[32];
			struct store_id id;

			if (now == 0)
				break;
			w->bytes.size = 0;
			if (!store_read_at(fd, &w->bytes, now, offset + done))
				return "what was restored cannot be read";
			atomic_fetch_add(&w->v->bytes, now);
			done += now;
			if (part.hole) {
				if (!store_device_zeros(w->bytes.data, now))
					return "it is not what the snapshot has: bytes where it has a hole";
				continue;
			}
			store_digest(w->bytes.data, now, digest);
			store_name_blob(w->v->s, STORE_DATA, digest, &id);
			if (!store_id_equal(&id, &part.id))
				return "its contents are not what the snapshot has";
		}
		offset += part.bytes;
	}
	return NULL;
}

static void verify_file(struct worker *w, const char *path, const struct store_node *node)
{
	const int fd = open_below(w->v, path);
	const char *wrong = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		wrong = strerror(errno);
	else if (path != NULL && !S_ISREG(st.st_mode))
		wrong = "it is no regular file";
	else if (path != NULL && (uint64_t)st.st_size != node->size)
		wrong = "its size is not what the snapshot has";
	else
		wrong = compare(w, fd, node);
	if (wrong != NULL)
		note(w->v, path, wrong);
	else
		atomic_fetch_add(&w->v->files, 1);
	if (fd >= 0)
		close(fd);
}

static void do_job(void *member, void *user)
{
	struct job *job = (struct job *)user;
	struct store_in in = store_in_of(job->entry, job->entry_bytes);
	struct store_node node;

	store_node_read(&in, &node);
	verify_file((struct worker *)member, job->path, &node);
	free(job->path);
	free(job->entry);
}

static void add_file(struct verify *v, const char *path, const struct store_node *node)
{
	struct job job = {.path = path == NULL ? NULL : store_strdup(path),
			  .entry = (uint8_t *)store_alloc(node->raw_bytes),
			  .entry_bytes = node->raw_bytes};

	memcpy(job.entry, node->raw, node->raw_bytes);
	store_pool_add(v->pool, &job);
}

/* It or a directory above it matches. */
static bool is_included(const struct store_restore_options *o, const char *path)
{
	char *part = store_strdup(path);
	bool included = o->includes == NULL, directory = false;

	for (char *end = part + strlen(part); !included && end != NULL && end != part; end = strrchr(part, '/')) {
		*end = 0;
		included = store_excluded(o->includes, part, directory);
		directory = true;
	}
	free(part);
	return included;
}

static int visit(void *user, const char *path, const struct store_node *node)
{
	struct verify *v = (struct verify *)user;
	const bool directory = node->type == STORE_NODE_DIR;

	if (v->options->excludes != NULL && store_excluded(v->options->excludes, path, directory))
		return 1;
	if (node->type == STORE_NODE_FILE && is_included(v->options, path))
		add_file(v, path, node);
	return 0;
}

static int walk(struct verify *v, const struct store_snapshot *snapshot)
{
	const struct store_content root = store_snapshot_root(snapshot);
	const char *subpath = v->options->subpath != NULL ? v->options->subpath : "/";
	struct store_buf hold = {0};
	struct store_codec codec;
	struct store_node node;
	char path[STORE_NAME_MAX + 2];

	store_codec_init(&codec, 0);
	int rc = store_path_find(v->s, &codec, &root, subpath, &node, &hold);
	if (rc == 0 && node.type == STORE_NODE_DIR) {
		rc = store_visit(v->s, &codec, &node.content, "", visit, v);
	} else if (rc == 0 && v->options->device != NULL) {
		add_file(v, NULL, &node);
	} else if (rc == 0) {
		snprintf(path, sizeof(path), "/%.*s", (int)node.name_bytes, (const char *)node.name);
		visit(v, path, &node);
	}
	store_buf_free(&hold);
	store_codec_free(&codec);
	return rc;
}

int store_restore_verify(struct store *s, const struct store_snapshot *snapshot,
			 const struct store_restore_options *options, struct store_verify_result *result)
{
	const uint32_t threads = store_threads(options->threads);
	struct worker *workers = (struct worker *)store_alloc(threads * sizeof(*workers));
	struct verify v = {.s = s, .options = options, .target = -1};
	const struct store_pool_options pool = {.threads = threads,
						.members = workers,
						.member_bytes = sizeof(*workers),
						.job_bytes = sizeof(struct job),
						.jobs_max = JOBS_MAX,
						.work = do_job};
	int rc = 0;

	pthread_mutex_init(&v.notes, NULL);
	for (uint32_t i = 0; i < threads; i++)
		workers[i].v = &v;
	if (options->device == NULL && (v.target = open(options->target, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
		rc = store_fail(STORE_E_IO, "%s: %s", options->target, strerror(errno));
	if (rc == 0 && (v.pool = store_pool_open(&pool)) == NULL)
		rc = STORE_E_IO;
	if (rc == 0)
		rc = walk(&v, snapshot);
	store_pool_close(v.pool);
	if (v.target >= 0)
		close(v.target);
	for (uint32_t i = 0; i < threads; i++)
		store_buf_free(&workers[i].bytes);
	free(workers);
	pthread_mutex_destroy(&v.notes);
	*result = (struct store_verify_result){atomic_load(&v.files), atomic_load(&v.bytes), atomic_load(&v.errors)};
	return rc;
}
