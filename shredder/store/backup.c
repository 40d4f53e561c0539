/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A backup: one thread walks the tree, workers read.
 *
 *	walker --files--> workers --blobs--> packer's buffers --> its writer
 *	   |                 |
 *	   +-- unchanged ----+--entries--> directories --tree blobs--> ...
 *
 * The walker goes through directories in the order of names, beside the parent's entries in the same order, so that comparing
 * needs neither a table nor a search. What is unchanged is copied from there; files that are not go to the workers. A worker reads a piece of a
 * file, cuts it, names its chunks, and seals those that the index does not know; when another worker has nothing to do, it gets the sealing.
 *
 * A directory collects its entries and writes what is complete from its beginning on as pieces; when all are there it becomes an entry
 * of its parent. So memory holds names of the directories that are open, and entries that wait for an earlier file.
 *
 * Cutting piece by piece: no window reaches beyond SHREDDER_WINDOW_BYTES and no cut is nearer than the minimum, which is not smaller;
 * so a chunker that begins at a cut makes the same cuts as one that began at the file's beginning.
 *
 * The snapshot comes last: after all packs, after the index.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/clock_host.h"
#include "store/backend.h"
#include "store/backup.h"

/* What a worker reads at a time: twice the longest chunk at least. */
#define READ_BYTES (4 * G4_MIB)
#define FILE_JOBS_MAX 256
#define BLOB_JOBS_MAX 64
/* Files that changed so recently may change again without another time: file systems count in 10 ms, some in 2 s. */
#define SETTLED_NS (INT64_C(2) * 1000000000)
#define PROGRESS_NS 100000000
#define DESCRIPTORS_WANTED 65536

/* One name of a directory: its entry once it is complete. */
struct slot {
	char *name;
	uint8_t *entry;
	uint32_t bytes;
	bool complete; /* entry == NULL then: left out */
};

/* Guarded by op->tree, but for what the walker alone uses. */
struct folder {
	struct folder *parent;
	size_t place; /* in the parent */
	char *name;   /* "" for the root */
	int fd;
	struct stat st; /* st_mode 0: the root, which no file system has */
	struct store_buf attributes;
	uint64_t attributes_count;
	struct slot *slots;
	size_t count, complete, written;
	bool scanned, writing;
	struct store_buf piece, content; /* the writer's */
	uint64_t content_count;
};

struct file_job {
	struct folder *folder;
	size_t place;
};

struct blob_job {
	enum store_blob_type type;
	uint32_t number;
	struct store_id id;
	uint8_t *data;
	size_t bytes;
};

/* A file with several names: what the first one gave. */
struct linked {
	dev_t device;
	ino_t inode;
	struct timespec ctime;
	struct store_buf content;
	uint64_t count, size;
	struct linked *next;
};
#define LINKED_ROWS 65536

struct operation {
	struct store *s;
	const struct store_backup_options *options;
	struct store_packer *packer; /* NULL: dry run */
	struct stat repository;

	pthread_mutex_t tree;
	struct store_content root; /* once it is complete */
	struct store_buf root_bytes;
	bool root_complete;
	struct linked **linked;
	dev_t *devices; /* in the order in which they came */
	size_t devices_count;

	pthread_mutex_t queue;
	pthread_cond_t work, room;
	struct file_job files[FILE_JOBS_MAX];
	size_t files_first, files_count;
	struct blob_job blobs[BLOB_JOBS_MAX];
	size_t blobs_count;
	uint32_t idle, threads;
	bool ending;

	pthread_mutex_t notes;
	atomic_bool failed;
	int rc;
	char text[STORE_TEXT_BYTES];

	atomic_ullong files_done, directories, others, bytes, unchanged, read_bytes, new_blobs, new_bytes, stored_bytes,
		unread, changed;
	uint64_t progress_ns;
};

/* What a thread has of its own. */
struct worker {
	struct operation *op;
	pthread_t thread;
	shredder *chunker;
	uint8_t *buffer;
	struct store_codec codec;
	struct store_buf sealed, content, attributes, entry;
	uint64_t content_count;
};

/* ---------------------------------------------------------------------------------------------------- small parts */

/* The first failure counts; everybody stops. Takes this thread's sentence. */
static void fail_operation(struct operation *op, int rc)
{
	pthread_mutex_lock(&op->notes);
	if (op->rc == 0) {
		op->rc = rc;
		snprintf(op->text, sizeof(op->text), "%s", store_message());
	}
	pthread_mutex_unlock(&op->notes);
	atomic_store(&op->failed, true);
	pthread_mutex_lock(&op->queue);
	pthread_cond_broadcast(&op->work);
	pthread_cond_broadcast(&op->room);
	pthread_mutex_unlock(&op->queue);
}

/* "/a/b/NAME"; the caller frees it. Folders stay while something in them is not complete. */
static char *path_of(const struct folder *folder, const char *name)
{
	size_t bytes = strlen(name) + 2;
	const struct folder *at;

	for (at = folder; at != NULL; at = at->parent)
		bytes += strlen(at->name) + 1;
	char *path = (char *)store_alloc(bytes), *end = path + bytes - 1 - strlen(name);
	memcpy(end, name, strlen(name));
	for (at = folder; at != NULL && at->parent != NULL; at = at->parent) {
		*--end = '/';
		end -= strlen(at->name);
		memcpy(end, at->name, strlen(at->name));
	}
	*--end = '/';
	memmove(path, end, strlen(end) + 1);
	return path;
}

static void note(struct operation *op, enum store_note kind, const struct folder *folder, const char *name,
		 const char *sentence)
{
	char *path = path_of(folder, name);

	if (kind == STORE_NOTE_UNREAD)
		atomic_fetch_add(&op->unread, 1);
	if (kind == STORE_NOTE_CHANGED)
		atomic_fetch_add(&op->changed, 1);
	pthread_mutex_lock(&op->notes);
	op->options->note(op->options->user, kind, path, sentence);
	pthread_mutex_unlock(&op->notes);
	free(path);
}

static struct store_time time_of(const struct timespec *time)
{
	return (struct store_time){time->tv_sec, (uint32_t)time->tv_nsec};
}

static bool same_time(const struct timespec *a, const struct store_time *b)
{
	return a->tv_sec == b->seconds && (uint32_t)a->tv_nsec == b->ns;
}

/* Whether a later change would surely show in the times. A time in the future tells nothing. */
static bool settled(const struct stat *st)
{
	const struct store_time now = store_now();
	const struct timespec *last = &st->st_ctim;

	if (last->tv_sec > now.seconds || now.seconds - last->tv_sec > 60)
		return last->tv_sec <= now.seconds;
	return (now.seconds - last->tv_sec) * 1000000000 + ((int64_t)now.ns - last->tv_nsec) > SETTLED_NS;
}

/* Numbers devices in the order in which they come: the kernel's numbers change with every boot. */
static uint64_t device_number(struct operation *op, dev_t device)
{
	size_t i = 0;

	pthread_mutex_lock(&op->tree);
	while (i < op->devices_count && op->devices[i] != device)
		i++;
	if (i == op->devices_count) {
		op->devices = (dev_t *)store_realloc(op->devices, (i + 1) * sizeof(*op->devices));
		op->devices[op->devices_count++] = device;
	}
	pthread_mutex_unlock(&op->tree);
	return i;
}

/* ----------------------------------------------------------------------------------------------------- attributes */

/* All extended attributes of an open file, or with fd -1 of a path. -1 and errno. */
static int read_attributes(int fd, const char *path, struct store_buf *out, uint64_t *count)
{
	char small[1024], *names = small;
	ssize_t bytes = fd >= 0 ? flistxattr(fd, small, sizeof(small)) : llistxattr(path, small, sizeof(small));

	out->size = 0;
	*count = 0;
	if (bytes < 0 && errno == ERANGE) {
		names = (char *)store_alloc(STORE_VALUE_MAX);
		bytes = fd >= 0 ? flistxattr(fd, names, STORE_VALUE_MAX) : llistxattr(path, names, STORE_VALUE_MAX);
	}
	if (bytes < 0) {
		if (names != small)
			free(names);
		return errno == ENOTSUP || errno == EACCES || errno == EPERM ? 0 : -1;
	}
	uint8_t *value = bytes > 0 ? (uint8_t *)store_alloc(STORE_VALUE_MAX) : NULL;
	for (const char *name = names; name < names + bytes; name += strlen(name) + 1) {
		const ssize_t size = fd >= 0 ? fgetxattr(fd, name, value, STORE_VALUE_MAX) :
					       lgetxattr(path, name, value, STORE_VALUE_MAX);

		if (size < 0) /* removed meanwhile, or not for us */
			continue;
		store_buf_string(out, name, strlen(name));
		store_buf_string(out, value, (size_t)size);
		++*count;
	}
	free(value);
	if (names != small)
		free(names);
	return 0;
}

/* Fills what every entry has. */
static void describe(struct operation *op, struct store_node *node, const struct stat *st, const char *name,
		     const struct store_buf *attributes, uint64_t attributes_count)
{
	memset(node, 0, sizeof(*node));
	node->name = (const uint8_t *)name;
	node->name_bytes = strlen(name);
	node->mode = st->st_mode & 07777;
	node->uid = st->st_uid;
	node->gid = st->st_gid;
	node->mtime = time_of(&st->st_mtim);
	node->size = 0;
	if (!S_ISDIR(st->st_mode)) {
		node->ctime = time_of(&st->st_ctim);
		node->inode = st->st_ino;
		if (st->st_nlink > 1) {
			node->flags |= STORE_LINKED;
			node->device = device_number(op, st->st_dev);
			node->links = st->st_nlink;
		}
	}
	if (attributes_count > 0) {
		node->flags |= STORE_ATTRIBUTES;
		node->attributes = attributes->data;
		node->attributes_bytes = attributes->size;
		node->attributes_count = attributes_count;
	}
}

/* ---------------------------------------------------------------------------------------------------------- blobs */

static int seal_blob(struct worker *w, enum store_blob_type type, uint32_t number, const struct store_id *id,
		     const void *data, size_t bytes)
{
	struct operation *op = w->op;

	w->sealed.size = 0;
	store_blob_seal(op->s, &w->codec, type, id, data, bytes, &w->sealed);
	atomic_fetch_add(&op->new_blobs, 1);
	atomic_fetch_add(&op->new_bytes, bytes);
	atomic_fetch_add(&op->stored_bytes, w->sealed.size);
	return op->packer == NULL ? 0 : store_packer_add(op->packer, type, number, id, &w->sealed, bytes);
}

/* Gives a copy to somebody who has nothing to do; false: nobody has. */
static bool give_blob(struct operation *op, enum store_blob_type type, uint32_t number, const struct store_id *id,
		      const void *data, size_t bytes)
{
	bool given = false;

	pthread_mutex_lock(&op->queue);
	if (op->blobs_count < op->idle && op->blobs_count < BLOB_JOBS_MAX) {
		struct blob_job *job = &op->blobs[op->blobs_count++];

		job->type = type;
		job->number = number;
		job->id = *id;
		job->bytes = bytes;
		job->data = (uint8_t *)malloc(bytes);
		given = job->data != NULL;
		if (given)
			memcpy(job->data, data, bytes);
		else
			op->blobs_count--;
		pthread_cond_signal(&op->work);
	}
	pthread_mutex_unlock(&op->queue);
	return given;
}

/* Stores a blob unless it is known, and gives its id. */
static int keep_blob(struct worker *w, enum store_blob_type type, const void *data, size_t bytes,
		     const uint8_t digest[32], struct store_id *id)
{
	uint32_t number;

	store_name_blob(w->op->s, type, digest, id);
	if (!store_index_claim(w->op->s, id, type, &number) || give_blob(w->op, type, number, id, data, bytes))
		return 0;
	return seal_blob(w, type, number, id, data, bytes);
}

/* ---------------------------------------------------------------------------------------------------- directories */

static void free_folder(struct folder *folder)
{
	if (folder->fd >= 0)
		close(folder->fd);
	for (size_t i = 0; i < folder->count; i++) {
		free(folder->slots[i].name);
		free(folder->slots[i].entry);
	}
	free(folder->slots);
	free(folder->name);
	store_buf_free(&folder->attributes);
	store_buf_free(&folder->piece);
	store_buf_free(&folder->content);
	free(folder);
}

static int write_piece(struct worker *w, struct folder *folder)
{
	struct store_part part = {.bytes = folder->piece.size};
	uint8_t digest[32];

	if (folder->piece.size == 0)
		return 0;
	store_digest(folder->piece.data, folder->piece.size, digest);
	const int rc = keep_blob(w, STORE_TREE, folder->piece.data, folder->piece.size, digest, &part.id);
	store_part_add(&folder->content, &folder->content_count, &part);
	folder->piece.size = 0;
	return rc;
}

/* The writer of the folder, with the tree's mutex held, which it gives back for the work: moves entries into pieces. */
static int write_entries(struct worker *w, struct folder *folder)
{
	struct operation *op = w->op;
	int rc = 0;

	while (rc == 0 && folder->written < folder->count && folder->slots[folder->written].complete) {
		struct slot *slot = &folder->slots[folder->written++];

		if (slot->entry == NULL)
			continue;
		store_buf_add(&folder->piece, slot->entry, slot->bytes);
		free(slot->entry);
		slot->entry = NULL;
		if (store_piece_ends(folder->piece.size, (const uint8_t *)slot->name, strlen(slot->name))) {
			pthread_mutex_unlock(&op->tree);
			rc = write_piece(w, folder);
			pthread_mutex_lock(&op->tree);
		}
	}
	return rc;
}

/* Its own entry, from what it holds. */
static void folder_entry(struct operation *op, const struct folder *folder, struct store_buf *entry)
{
	struct store_node node;

	describe(op, &node, &folder->st, folder->name, &folder->attributes, folder->attributes_count);
	node.type = STORE_NODE_DIR;
	node.content = (struct store_content){folder->content.data, folder->content.size, folder->content_count};
	entry->size = 0;
	store_node_write(entry, &node);
}

/*
 * An entry is complete (NULL: left out; it is copied), or with place == SIZE_MAX the folder was scanned. Whoever completes a folder goes on with its
 * parent. One thread at a time writes a folder's pieces; another one that completes an entry meanwhile leaves it to that one.
 */
static int complete(struct worker *w, struct folder *folder, size_t place, const struct store_buf *entry)
{
	struct operation *op = w->op;
	struct store_buf own = {0};
	int rc = 0;

	while (folder != NULL && rc == 0) {
		pthread_mutex_lock(&op->tree);
		if (place == SIZE_MAX) {
			folder->scanned = true;
		} else {
			struct slot *slot = &folder->slots[place];

			if (entry != NULL) {
				slot->entry = (uint8_t *)store_alloc(entry->size);
				slot->bytes = (uint32_t)entry->size;
				memcpy(slot->entry, entry->data, entry->size);
			}
			slot->complete = true;
			folder->complete++;
		}
		if (folder->writing) {
			pthread_mutex_unlock(&op->tree);
			break;
		}
		folder->writing = true;
		rc = write_entries(w, folder);
		folder->writing = false;
		const bool whole = folder->scanned && folder->written == folder->count;
		pthread_mutex_unlock(&op->tree);
		if (!whole || rc != 0)
			break;
		rc = write_piece(w, folder);
		if (folder->parent == NULL) {
			pthread_mutex_lock(&op->tree);
			op->root_bytes = folder->content;
			memset(&folder->content, 0, sizeof(folder->content));
			op->root =
				(struct store_content){op->root_bytes.data, op->root_bytes.size, folder->content_count};
			op->root_complete = true;
			pthread_mutex_unlock(&op->tree);
			free_folder(folder);
			break;
		}
		folder_entry(op, folder, &own);
		entry = &own;
		place = folder->place;
		struct folder *parent = folder->parent;
		free_folder(folder);
		folder = parent;
	}
	store_buf_free(&own);
	if (rc != 0)
		fail_operation(op, rc);
	return rc;
}

/* ---------------------------------------------------------------------------------------------------------- files */

static int keep_chunk(struct worker *w, const void *data, size_t bytes, const uint8_t digest[32])
{
	struct store_part part = {.bytes = bytes};
	const int rc = keep_blob(w, STORE_DATA, data, bytes, digest, &part.id);

	store_part_add(&w->content, &w->content_count, &part);
	return rc;
}

/* The chunks of a buffer; without `last` what is behind the last cut is left: *rest bytes. */
static int cut_buffer(struct worker *w, size_t bytes, bool last, size_t *rest)
{
	struct shredder_chunk chunk;
	uint8_t digest[32];
	int rc, taken = 0;

	*rest = 0;
	if (last && bytes <= w->op->s->params.min_bytes) { /* one chunk, whatever is in it */
		store_digest(w->buffer, bytes, digest);
		return bytes == 0 ? 0 : keep_chunk(w, w->buffer, bytes, digest);
	}
	rc = shredder_begin_buffer(w->chunker, w->buffer, bytes);
	while (rc == 0 && (taken = shredder_next(w->chunker, &chunk)) == 1) {
		if (!last && chunk.offset + chunk.length == bytes && chunk.cut == SHREDDER_CUT_END)
			*rest = chunk.length;
		else
			rc = keep_chunk(w, chunk.data, chunk.length, chunk.digest);
	}
	if (rc == 0 && taken == 0)
		return 0;
	if (rc == 0 || taken < 0)
		rc = store_fail(STORE_E_CHUNKER, "cutting failed: %s", shredder_last_message(w->chunker));
	shredder_abandon(w->chunker);
	return rc;
}

/* Reads from `at` until `end` or the file's end, and gives where it stopped. 1 after an error of the file, in errno. */
static int read_range(struct worker *w, int fd, bool seekable, uint64_t at, uint64_t end, uint64_t *stopped)
{
	size_t have = 0;
	bool last = false;
	int rc = 0;

	while (!last && rc == 0) {
		const size_t wanted = (size_t)g4_min64(READ_BYTES - have, end - at);
		const ssize_t got = wanted == 0 ? 0 :
				    seekable	? pread(fd, w->buffer + have, wanted, (off_t)at) :
						  read(fd, w->buffer + have, wanted);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return 1;
		if (atomic_load(&w->op->failed))
			return STORE_E_STOPPED;
		at += (uint64_t)got;
		have += (size_t)got;
		last = got == 0 || at == end;
		atomic_fetch_add(&w->op->read_bytes, (unsigned long long)got);
		if (last || have == READ_BYTES) {
			size_t rest;

			rc = cut_buffer(w, have, last, &rest);
			memmove(w->buffer, w->buffer + have - rest, rest);
			have = rest;
		}
	}
	*stopped = at;
	return rc;
}

static void keep_hole(struct worker *w, uint64_t bytes)
{
	const struct store_part part = {.bytes = bytes, .hole = true};

	if (bytes > 0)
		store_part_add(&w->content, &w->content_count, &part);
}

/* The content of a regular file of st_size bytes; *size: what there was. As read_range(). */
static int read_content(struct worker *w, int fd, const struct stat *st, uint64_t *size)
{
	const uint64_t end = (uint64_t)st->st_size;
	uint64_t at = 0;
	int rc = 0;

	if ((uint64_t)st->st_blocks * 512 >= end) {
		if (end > READ_BYTES)
			posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
		return read_range(w, fd, true, 0, end, size);
	}
	while (at < end && rc == 0) {
		const off_t data = lseek(fd, (off_t)at, SEEK_DATA);

		if (data < 0 && errno != ENXIO)
			return errno == EINVAL ? read_range(w, fd, true, at, end, size) : 1;
		const uint64_t begin = data < 0 ? end : g4_min64((uint64_t)data, end);
		keep_hole(w, begin - at);
		at = begin;
		if (at == end)
			break;
		const off_t hole = lseek(fd, (off_t)at, SEEK_HOLE);
		const uint64_t stop = hole < 0 ? end : g4_min64((uint64_t)hole, end);
		uint64_t stopped;
		rc = read_range(w, fd, true, at, stop, &stopped);
		at = stopped;
		if (rc == 0 && stopped < stop) /* it became shorter */
			break;
	}
	*size = at;
	return rc;
}

static struct linked **linked_row(struct operation *op, const struct stat *st)
{
	return &op->linked[(st->st_ino * 31 + st->st_dev) % LINKED_ROWS];
}

/* Takes the content that another name of the file gave. */
static bool take_linked(struct worker *w, const struct stat *st, uint64_t *size)
{
	struct operation *op = w->op;
	const struct linked *at;

	pthread_mutex_lock(&op->tree);
	for (at = *linked_row(op, st); at != NULL; at = at->next)
		if (at->device == st->st_dev && at->inode == st->st_ino &&
		    memcmp(&at->ctime, &st->st_ctim, sizeof(at->ctime)) == 0)
			break;
	if (at != NULL) {
		w->content.size = 0;
		store_buf_add(&w->content, at->content.data, at->content.size);
		w->content_count = at->count;
		*size = at->size;
	}
	pthread_mutex_unlock(&op->tree);
	return at != NULL;
}

static void leave_linked(struct worker *w, const struct stat *st, uint64_t size)
{
	struct linked *linked = (struct linked *)store_alloc(sizeof(*linked));

	linked->device = st->st_dev;
	linked->inode = st->st_ino;
	linked->ctime = st->st_ctim;
	store_buf_add(&linked->content, w->content.data, w->content.size);
	linked->count = w->content_count;
	linked->size = size;
	pthread_mutex_lock(&w->op->tree);
	linked->next = *linked_row(w->op, st);
	*linked_row(w->op, st) = linked;
	pthread_mutex_unlock(&w->op->tree);
}

static int open_source(const struct folder *folder, const char *name)
{
	const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	const int fd = openat(folder->fd, name, flags | O_NOATIME);

	return fd >= 0 || errno != EPERM ? fd : openat(folder->fd, name, flags);
}

static bool unchanged_meanwhile(const struct stat *a, const struct stat *b)
{
	return a->st_size == b->st_size && memcmp(&a->st_mtim, &b->st_mtim, sizeof(a->st_mtim)) == 0 &&
	       memcmp(&a->st_ctim, &b->st_ctim, sizeof(a->st_ctim)) == 0;
}

/* The entry of a file that is open, into w->entry. As read_range(). */
static int read_open_file(struct worker *w, const struct file_job *job, int fd, const char *name)
{
	struct operation *op = w->op;
	struct store_node node;
	struct stat st, after;
	uint64_t count, size = 0;
	bool changed = false;
	int rc;

	if (fstat(fd, &st) != 0)
		return 1;
	if (!S_ISREG(st.st_mode)) {
		errno = ESTALE; /* it was one when its directory was read */
		return 1;
	}
	if (read_attributes(fd, NULL, &w->attributes, &count) != 0)
		return 1;
	w->content.size = 0;
	w->content_count = 0;
	if (st.st_nlink < 2 || !take_linked(w, &st, &size)) {
		rc = read_content(w, fd, &st, &size);
		if (rc != 0)
			return rc;
		if (fstat(fd, &after) != 0)
			return 1;
		changed = !unchanged_meanwhile(&st, &after) || size != (uint64_t)st.st_size;
		if (changed)
			note(op, STORE_NOTE_CHANGED, job->folder, name, "it changed while it was read");
		else if (st.st_nlink > 1)
			leave_linked(w, &st, size);
	}
	describe(op, &node, &st, name, &w->attributes, count);
	node.type = STORE_NODE_FILE;
	node.flags |= settled(&st) && !changed ? 0 : STORE_UNSETTLED;
	node.size = size;
	node.content = (struct store_content){w->content.data, w->content.size, w->content_count};
	w->entry.size = 0;
	store_node_write(&w->entry, &node);
	atomic_fetch_add(&op->files_done, 1);
	atomic_fetch_add(&op->bytes, size);
	return 0;
}

static void do_file(struct worker *w, const struct file_job *job)
{
	struct operation *op = w->op;
	const char *name = job->folder->slots[job->place].name;
	const int fd = open_source(job->folder, name);
	const int rc = fd < 0 ? 1 : read_open_file(w, job, fd, name);
	const int error = errno;

	if (fd >= 0)
		close(fd);
	if (rc < 0) {
		fail_operation(op, rc);
		return;
	}
	if (rc == 1 && error != ENOENT) /* else it was removed since its directory was read */
		note(op, STORE_NOTE_UNREAD, job->folder, name, strerror(error));
	else if (rc == 0 && op->options->tell_files)
		note(op, STORE_NOTE_FILE, job->folder, name, "");
	complete(w, job->folder, job->place, rc == 0 ? &w->entry : NULL);
}

static void do_blob(struct worker *w, struct blob_job *job)
{
	const int rc = seal_blob(w, job->type, job->number, &job->id, job->data, job->bytes);

	free(job->data);
	if (rc != 0)
		fail_operation(w->op, rc);
}

static void *work(void *user)
{
	struct worker *w = (struct worker *)user;
	struct operation *op = w->op;

	pthread_mutex_lock(&op->queue);
	for (;;) {
		if (op->blobs_count > 0) {
			struct blob_job job = op->blobs[--op->blobs_count];

			pthread_mutex_unlock(&op->queue);
			do_blob(w, &job);
		} else if (op->files_count > 0 && !atomic_load(&op->failed)) {
			const struct file_job job = op->files[op->files_first];

			op->files_first = (op->files_first + 1) % FILE_JOBS_MAX;
			op->files_count--;
			pthread_cond_signal(&op->room);
			pthread_mutex_unlock(&op->queue);
			do_file(w, &job);
		} else if (atomic_load(&op->failed) ||
			   (op->ending && op->idle + 1 == op->threads)) { /* nobody can make more work */
			op->idle++;
			pthread_cond_broadcast(&op->work);
			break;
		} else {
			op->idle++;
			pthread_cond_wait(&op->work, &op->queue);
			/* those who went home stay idle, so that the last one sees it is the last */
			op->idle--;
			continue;
		}
		pthread_mutex_lock(&op->queue);
	}
	pthread_mutex_unlock(&op->queue);
	return NULL;
}

static void add_file_job(struct operation *op, struct folder *folder, size_t place)
{
	pthread_mutex_lock(&op->queue);
	while (op->files_count == FILE_JOBS_MAX && !atomic_load(&op->failed))
		pthread_cond_wait(&op->room, &op->queue);
	if (!atomic_load(&op->failed)) {
		op->files[(op->files_first + op->files_count++) % FILE_JOBS_MAX] =
			(struct file_job){.folder = folder, .place = place};
		pthread_cond_signal(&op->work);
	}
	pthread_mutex_unlock(&op->queue);
}

/* ---------------------------------------------------------------------------------------------------------- walk */

/* What the caller named, component by component: below a node without children everything is wanted. */
struct want {
	char *name;
	struct want *children;
	size_t count;
	bool all;
};

/* A directory that the walker is in. */
struct frame {
	struct folder *folder;
	size_t next;
	struct want *want; /* NULL: everything */
	bool has_old, old_valid;
	struct store_dir old; /* the parent's */
	struct store_node old_node;
};

static void add_want(struct want *root, char *path)
{
	struct want *at = root;
	char *save = NULL;

	for (char *name = strtok_r(path, "/", &save); name != NULL; name = strtok_r(NULL, "/", &save)) {
		size_t i = 0;

		while (i < at->count && strcmp(at->children[i].name, name) != 0)
			i++;
		if (i == at->count) {
			at->children = (struct want *)store_realloc(at->children, (i + 1) * sizeof(*at->children));
			memset(&at->children[i], 0, sizeof(*at->children));
			at->children[i].name = store_strdup(name);
			at->count++;
		}
		at = &at->children[i];
	}
	at->all = true;
}

static void free_want(struct want *want)
{
	for (size_t i = 0; i < want->count; i++)
		free_want(&want->children[i]);
	free(want->children);
	free(want->name);
}

static int by_slot_name(const void *a, const void *b)
{
	return strcmp(((const struct slot *)a)->name, ((const struct slot *)b)->name);
}

static void add_slot(struct folder *folder, size_t *room, const char *name)
{
	if (folder->count == *room) {
		*room = *room == 0 ? 16 : 2 * *room;
		folder->slots = (struct slot *)store_realloc(folder->slots, *room * sizeof(*folder->slots));
	}
	folder->slots[folder->count++] = (struct slot){.name = store_strdup(name)};
}

/* The names of a directory, sorted. -1 and errno: not all could be read. */
static int read_names(struct folder *folder)
{
	const int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	size_t room = 0;

	if (dir == NULL) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	while ((errno = 0, entry = readdir(dir)) != NULL)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			add_slot(folder, &room, entry->d_name);
	const int error = errno;
	closedir(dir);
	if (folder->count > 1)
		qsort(folder->slots, folder->count, sizeof(*folder->slots), by_slot_name);
	errno = error;
	return error != 0 ? -1 : 0;
}

/* The parent's entry of that name, if there is one: both sides go forward only. */
static const struct store_node *old_entry(struct frame *frame, const char *name)
{
	const size_t bytes = strlen(name);
	int order = -1;

	while (frame->has_old) {
		if (frame->old_valid)
			order = store_name_compare(frame->old_node.name, frame->old_node.name_bytes,
						   (const uint8_t *)name, bytes);
		if (frame->old_valid && order >= 0)
			return order == 0 ? &frame->old_node : NULL;
		/* a parent that cannot be read is none: then files are read again */
		frame->old_valid = store_dir_next(&frame->old, &frame->old_node) == 1;
		if (!frame->old_valid) {
			store_dir_close(&frame->old);
			frame->has_old = false;
		}
	}
	return NULL;
}

static uint8_t type_of(mode_t mode)
{
	return S_ISREG(mode)  ? STORE_NODE_FILE :
	       S_ISDIR(mode)  ? STORE_NODE_DIR :
	       S_ISLNK(mode)  ? STORE_NODE_LINK :
	       S_ISCHR(mode)  ? STORE_NODE_CHAR :
	       S_ISBLK(mode)  ? STORE_NODE_BLOCK :
	       S_ISFIFO(mode) ? STORE_NODE_FIFO :
				STORE_NODE_SOCKET;
}

/* All of its chunks are in the index; what is not must be read again. */
static bool content_there(struct operation *op, const struct store_content *content)
{
	struct store_in in = store_content_in(content);
	struct store_entry entry;
	struct store_part part;
	uint32_t number;

	while (in.at != in.end && store_part_next(&in, &part))
		if (!part.hole && !store_index_find(op->s, &part.id, &number, &entry))
			return false;
	return !in.bad;
}

/* True when the old entry still says what the file is; it becomes w->entry. */
static bool take_old(struct worker *w, const struct stat *st, const struct store_node *old)
{
	struct operation *op = w->op;

	if (old->type != type_of(st->st_mode) || (old->flags & STORE_UNSETTLED) != 0 || old->inode != st->st_ino ||
	    !same_time(&st->st_ctim, &old->ctime) || !same_time(&st->st_mtim, &old->mtime) ||
	    (old->mode != (st->st_mode & 07777)) || old->uid != st->st_uid || old->gid != st->st_gid ||
	    ((old->flags & STORE_LINKED) != 0) != (st->st_nlink > 1))
		return false;
	if (old->type == STORE_NODE_FILE && (old->size != (uint64_t)st->st_size || !content_there(op, &old->content)))
		return false;
	w->entry.size = 0;
	if (old->flags & STORE_LINKED) {
		struct store_node node = *old;

		node.device = device_number(op, st->st_dev);
		node.links = st->st_nlink;
		store_node_write(&w->entry, &node);
	} else {
		store_buf_add(&w->entry, old->raw, old->raw_bytes);
	}
	if (old->type == STORE_NODE_FILE) {
		atomic_fetch_add(&op->files_done, 1);
		atomic_fetch_add(&op->unchanged, 1);
		atomic_fetch_add(&op->bytes, old->size);
	} else {
		atomic_fetch_add(&op->others, 1);
	}
	return true;
}

/* What is neither file nor directory. -1 and errno. */
static int read_other(struct worker *w, struct folder *folder, const char *name, const struct stat *st)
{
	char target[STORE_TARGET_MAX + 1], path[64 + STORE_NAME_MAX];
	struct store_node node;
	uint64_t count;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", folder->fd, name);
	if (read_attributes(-1, path, &w->attributes, &count) != 0)
		return -1;
	describe(w->op, &node, st, name, &w->attributes, count);
	node.type = type_of(st->st_mode);
	node.flags |= settled(st) ? 0 : STORE_UNSETTLED;
	if (node.type == STORE_NODE_LINK) {
		const ssize_t bytes = readlinkat(folder->fd, name, target, sizeof(target));

		if (bytes <= 0 || bytes > STORE_TARGET_MAX) {
			errno = bytes < 0 ? errno : ENAMETOOLONG;
			return -1;
		}
		node.target = (const uint8_t *)target;
		node.target_bytes = (size_t)bytes;
	} else if (node.type == STORE_NODE_CHAR || node.type == STORE_NODE_BLOCK) {
		node.major = major(st->st_rdev);
		node.minor = minor(st->st_rdev);
	}
	w->entry.size = 0;
	store_node_write(&w->entry, &node);
	atomic_fetch_add(&w->op->others, 1);
	return 0;
}

static void report_progress(struct operation *op, struct store_backup_stats *stats)
{
	const uint64_t now = g4_clock_ns(CLOCK_MONOTONIC);

	if (now - op->progress_ns < PROGRESS_NS || op->options->progress == NULL)
		return;
	op->progress_ns = now;
	stats->files = atomic_load(&op->files_done);
	stats->bytes = atomic_load(&op->bytes);
	stats->read_bytes = atomic_load(&op->read_bytes);
	stats->new_bytes = atomic_load(&op->new_bytes);
	pthread_mutex_lock(&op->notes);
	op->options->progress(op->options->user, stats);
	pthread_mutex_unlock(&op->notes);
}

struct walk {
	struct worker *w;
	struct frame *frames;
	size_t depth, room;
	struct store_backup_stats *stats;
};

/*
 * Goes into a directory, as name number `place` of `parent`. `old`: its content in the parent snapshot, or NULL. -1 and
 * errno: it cannot be opened. One whose names cannot all be read is kept with those that could.
 */
static int enter(struct walk *walk, struct folder *parent, size_t place, int fd, const struct stat *st,
		 struct want *want, const struct store_content *old, bool leave_empty)
{
	struct operation *op = walk->w->op;
	struct folder *folder = (struct folder *)store_alloc(sizeof(*folder));
	size_t room = 0;

	folder->parent = parent;
	folder->place = place;
	folder->name = store_strdup(parent == NULL ? "" : parent->slots[place].name);
	folder->fd = fd;
	folder->st = *st;
	if (parent != NULL && read_attributes(fd, NULL, &folder->attributes, &folder->attributes_count) != 0) {
		note(op, STORE_NOTE_UNREAD, parent, folder->name, strerror(errno));
	}
	if (want != NULL && !want->all) {
		for (size_t i = 0; i < want->count; i++)
			add_slot(folder, &room, want->children[i].name);
		if (folder->count > 1)
			qsort(folder->slots, folder->count, sizeof(*folder->slots), by_slot_name);
	} else if (!leave_empty && read_names(folder) != 0) {
		note(op, STORE_NOTE_UNREAD, folder, "", strerror(errno));
	}
	if (parent != NULL)
		atomic_fetch_add(&op->directories, 1);
	if (walk->depth == walk->room) {
		walk->room = walk->room == 0 ? 16 : 2 * walk->room;
		walk->frames = (struct frame *)store_realloc(walk->frames, walk->room * sizeof(*walk->frames));
	}
	struct frame *frame = &walk->frames[walk->depth++];
	memset(frame, 0, sizeof(*frame));
	frame->folder = folder;
	frame->want = want != NULL && !want->all ? want : NULL;
	if (old != NULL) {
		frame->has_old = true;
		store_dir_open(&frame->old, op->s, &walk->w->codec, old);
	}
	return 0;
}

static struct want *want_child(struct want *want, const char *name)
{
	for (size_t i = 0; want != NULL && i < want->count; i++)
		if (strcmp(want->children[i].name, name) == 0)
			return &want->children[i];
	return NULL;
}

static bool is_excluded(struct operation *op, const struct folder *folder, const char *name, const struct stat *st)
{
	if (S_ISDIR(st->st_mode) && st->st_dev == op->repository.st_dev && st->st_ino == op->repository.st_ino)
		return true; /* a repository does not hold itself */
	if (op->options->excludes == NULL || op->options->excludes->count == 0)
		return false;
	char *path = path_of(folder, name);
	const bool excluded = store_excluded(op->options->excludes, path, S_ISDIR(st->st_mode));
	free(path);
	return excluded;
}

static void enter_directory(struct walk *walk, struct frame *frame, size_t place, struct want *want,
			    const struct stat *st)
{
	struct worker *w = walk->w;
	struct operation *op = w->op;
	struct folder *folder = frame->folder;
	const char *name = folder->slots[place].name;
	const bool through = want != NULL && !want->all; /* on the way to what was named: links are followed */
	const struct store_node *old = old_entry(frame, name);
	struct store_content content;
	struct stat opened;
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (through ? 0 : O_NOFOLLOW);
	int fd = openat(folder->fd, name, flags | O_NOATIME);

	if (fd < 0 && errno == EPERM)
		fd = openat(folder->fd, name, flags);
	if (fd < 0 || fstat(fd, &opened) != 0) {
		const int error = errno;

		if (fd >= 0)
			close(fd);
		note(op, STORE_NOTE_UNREAD, folder, name, strerror(error));
		complete(w, folder, place, NULL);
		return;
	}
	if (old != NULL && old->type == STORE_NODE_DIR)
		content = old->content;
	/* a mount point is kept, what is mounted there is not */
	bool leave_empty = op->options->one_file_system && !through && want == NULL && st->st_dev != folder->st.st_dev;
	if (op->options->exclude_if_present != NULL && faccessat(fd, op->options->exclude_if_present, F_OK, 0) == 0)
		leave_empty = true;
	enter(walk, folder, place, fd, &opened, through ? want : NULL,
	      old != NULL && old->type == STORE_NODE_DIR ? &content : NULL, leave_empty);
}

/* One name of the directory on top. */
static void visit(struct walk *walk)
{
	struct frame *frame = &walk->frames[walk->depth - 1];
	struct worker *w = walk->w;
	struct operation *op = w->op;
	struct folder *folder = frame->folder;
	const size_t place = frame->next++;
	const char *name = folder->slots[place].name;
	struct want *want = want_child(frame->want, name);
	const bool through = want != NULL && !want->all;
	struct stat st;

	if (fstatat(folder->fd, name, &st, through ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
		if (errno != ENOENT || want != NULL) /* else it was removed since its directory was read */
			note(op, STORE_NOTE_UNREAD, folder, name, strerror(errno));
		complete(w, folder, place, NULL);
		return;
	}
	if (through && !S_ISDIR(st.st_mode)) {
		note(op, STORE_NOTE_UNREAD, folder, name, strerror(ENOTDIR));
		complete(w, folder, place, NULL);
		return;
	}
	if (want == NULL && is_excluded(op, folder, name, &st)) {
		complete(w, folder, place, NULL);
		return;
	}
	if (S_ISDIR(st.st_mode)) {
		enter_directory(walk, frame, place, want, &st);
		return;
	}
	const struct store_node *old = old_entry(frame, name);
	if (old != NULL && take_old(w, &st, old)) {
		complete(w, folder, place, &w->entry);
		return;
	}
	if (S_ISREG(st.st_mode)) {
		add_file_job(op, folder, place);
		return;
	}
	const int rc = read_other(w, folder, name, &st);
	if (rc != 0)
		note(op, STORE_NOTE_UNREAD, folder, name, strerror(errno));
	complete(w, folder, place, rc == 0 ? &w->entry : NULL);
}

static void walk_tree(struct walk *walk)
{
	struct operation *op = walk->w->op;

	while (walk->depth > 0 && !atomic_load(&op->failed)) {
		struct frame *frame = &walk->frames[walk->depth - 1];

		report_progress(op, walk->stats);
		if (frame->next < frame->folder->count) {
			visit(walk);
			continue;
		}
		if (frame->has_old)
			store_dir_close(&frame->old);
		walk->depth--;
		complete(walk->w, frame->folder, SIZE_MAX, NULL);
	}
	for (size_t i = 0; i < walk->depth; i++) /* after a failure; the folders are left to the end of the process */
		if (walk->frames[i].has_old)
			store_dir_close(&walk->frames[i].old);
	free(walk->frames);
}

/* Standard input as the only file. */
static void read_stdin(struct walk *walk)
{
	struct worker *w = walk->w;
	struct operation *op = w->op;
	struct folder *folder = (struct folder *)store_alloc(sizeof(*folder));
	struct store_node node;
	struct stat st = {.st_mode = S_IFREG | 0600, .st_nlink = 1};
	size_t room = 0;
	uint64_t size;

	folder->name = store_strdup("");
	folder->fd = -1;
	add_slot(folder, &room, op->options->stdin_name);
	st.st_uid = geteuid();
	st.st_gid = getegid();
	clock_gettime(CLOCK_REALTIME, &st.st_mtim);
	st.st_ctim = st.st_mtim;
	int rc = read_range(w, STDIN_FILENO, false, 0, INT64_MAX, &size);
	if (rc == 1) /* what was read is no whole: no snapshot of it */
		rc = store_fail(STORE_E_IO, "standard input cannot be read: %s", strerror(errno));
	if (rc != 0) {
		fail_operation(op, rc);
		return;
	}
	describe(op, &node, &st, op->options->stdin_name, NULL, 0);
	node.type = STORE_NODE_FILE;
	node.flags |= STORE_UNSETTLED;
	node.size = size;
	node.content = (struct store_content){w->content.data, w->content.size, w->content_count};
	store_node_write(&w->entry, &node);
	atomic_fetch_add(&op->files_done, 1);
	atomic_fetch_add(&op->bytes, size);
	complete(w, folder, 0, &w->entry);
	complete(w, folder, SIZE_MAX, NULL);
}

/* ------------------------------------------------------------------------------------------------------ everything */

static int start_worker(struct operation *op, struct worker *w)
{
	const struct shredder_options options = {.size = sizeof(options),
						 .engine = "cpu",
						 .threads = 1,
						 .buffers = 2,
						 .buffer_bytes = READ_BYTES,
						 .params = &op->s->params};

	w->op = op;
	store_codec_init(&w->codec, op->options->level);
	w->buffer = (uint8_t *)store_alloc(READ_BYTES); /* from the kernel; takes no memory until it is used */
	const int rc = shredder_open(&options, &w->chunker);
	return rc == 0 ? 0 : store_fail(STORE_E_CHUNKER, "the chunker cannot be opened: %s", shredder_strerror(rc));
}

static void end_worker(struct worker *w)
{
	shredder_close(w->chunker);
	store_codec_free(&w->codec);
	store_buf_free(&w->sealed);
	store_buf_free(&w->content);
	store_buf_free(&w->attributes);
	store_buf_free(&w->entry);
	free(w->buffer);
}

static void raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < DESCRIPTORS_WANTED) {
		limit.rlim_cur = limit.rlim_max < DESCRIPTORS_WANTED ? limit.rlim_max : DESCRIPTORS_WANTED;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

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

static int make_snapshot(struct operation *op, char **paths, size_t count, struct store_snapshot *snapshot)
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
	snapshot->files = atomic_load(&op->files_done);
	snapshot->directories = atomic_load(&op->directories);
	snapshot->others = atomic_load(&op->others);
	snapshot->bytes = atomic_load(&op->bytes);
	snapshot->unread = atomic_load(&op->unread);
	snapshot->program = store_strdup("shredder " G4_VERSION);
	return o->dry_run ? 0 : store_snapshot_put(op->s, snapshot);
}

static void fill_stats(struct operation *op, struct store_backup_stats *stats)
{
	stats->files = atomic_load(&op->files_done);
	stats->directories = atomic_load(&op->directories);
	stats->others = atomic_load(&op->others);
	stats->bytes = atomic_load(&op->bytes);
	stats->unchanged_files = atomic_load(&op->unchanged);
	stats->read_bytes = atomic_load(&op->read_bytes);
	stats->new_blobs = atomic_load(&op->new_blobs);
	stats->new_bytes = atomic_load(&op->new_bytes);
	stats->stored_bytes = atomic_load(&op->stored_bytes);
	stats->unread = atomic_load(&op->unread);
	stats->changed = atomic_load(&op->changed);
	stats->written_bytes = op->packer == NULL ? 0 : store_packer_written(op->packer);
}

static void walk_paths(struct walk *walk, char **paths, size_t count)
{
	const struct store_backup_options *o = walk->w->op->options;
	struct want wants = {0};
	struct stat none = {0};
	struct store_content content;

	for (size_t i = 0; i < count; i++) {
		char *copy = store_strdup(paths[i]);

		add_want(&wants, copy);
		free(copy);
	}
	if (o->parent != NULL)
		content = store_snapshot_root(o->parent);
	const int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || (wants.all && fstat(fd, &none) != 0)) {
		fail_operation(walk->w->op, store_fail(STORE_E_IO, "/: %s", strerror(errno)));
	} else {
		enter(walk, NULL, 0, fd, &none, wants.all ? NULL : &wants, o->parent != NULL ? &content : NULL, false);
		walk_tree(walk);
	}
	free_want(&wants);
}

static void free_linked(struct operation *op)
{
	for (size_t i = 0; i < LINKED_ROWS; i++)
		while (op->linked[i] != NULL) {
			struct linked *next = op->linked[i]->next;

			store_buf_free(&op->linked[i]->content);
			free(op->linked[i]);
			op->linked[i] = next;
		}
	free(op->linked);
	free(op->devices);
}

/* All stages; `paths` are absolute. */
static int run(struct operation *op, char **paths, size_t count, struct store_backup_stats *stats)
{
	struct worker *workers = (struct worker *)store_alloc((op->threads + 1) * sizeof(*workers));
	struct walk walk = {.w = &workers[op->threads], .stats = stats};
	uint32_t started = 0, ready = 0;
	int rc = 0;

	for (; ready <= op->threads && rc == 0; ready++)
		rc = start_worker(op, &workers[ready]);
	if (rc != 0)
		fail_operation(op, rc);
	for (; started < op->threads && rc == 0; started++)
		if (pthread_create(&workers[started].thread, NULL, work, &workers[started]) != 0)
			break;
	if (rc == 0 && started == 0)
		fail_operation(op, store_fail(STORE_E_IO, "a thread cannot be started"));
	pthread_mutex_lock(&op->queue);
	op->threads = started;
	pthread_mutex_unlock(&op->queue);
	if (!atomic_load(&op->failed)) {
		if (op->options->stdin_name != NULL)
			read_stdin(&walk);
		else
			walk_paths(&walk, paths, count);
	}
	pthread_mutex_lock(&op->queue);
	op->ending = true;
	pthread_cond_broadcast(&op->work);
	pthread_mutex_unlock(&op->queue);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(workers[i].thread, NULL);
	for (size_t i = 0; i < op->blobs_count; i++)
		free(op->blobs[i].data);
	for (uint32_t i = 0; i < ready; i++)
		end_worker(&workers[i]);
	free(workers);
	return op->rc == 0 ? 0 : store_fail(op->rc, "%s", op->text);
}

int store_backup(struct store *s, const struct store_backup_options *options, struct store_snapshot *snapshot,
		 struct store_backup_stats *stats)
{
	struct operation *op = (struct operation *)store_alloc(sizeof(*op));
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);
	size_t count = options->stdin_name != NULL ? 1 : options->paths_count;
	char **paths = (char **)store_alloc(count * sizeof(*paths));
	int rc = 0;

	raise_descriptors();
	memset(snapshot, 0, sizeof(*snapshot));
	memset(stats, 0, sizeof(*stats));
	snapshot->time = store_now();
	op->s = s;
	op->options = options;
	op->threads = options->threads != 0 ? options->threads : processors > 0 ? (uint32_t)processors : 1;
	op->linked = (struct linked **)store_alloc(LINKED_ROWS * sizeof(*op->linked));
	pthread_mutex_init(&op->tree, NULL);
	pthread_mutex_init(&op->queue, NULL);
	pthread_mutex_init(&op->notes, NULL);
	pthread_cond_init(&op->work, NULL);
	pthread_cond_init(&op->room, NULL);
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
	if (rc == 0) {
		op->packer = options->dry_run ? NULL : store_packer_open(s);
		rc = run(op, paths, count, stats);
	}
	if (rc == 0 && op->packer != NULL)
		rc = store_packer_finish(op->packer);
	if (rc == 0 && !op->root_complete)
		rc = store_fail(STORE_E_IO, "the tree is incomplete: this is a fault of the program");
	fill_stats(op, stats);
	if (rc == 0)
		rc = make_snapshot(op, paths, count, snapshot);
	if (op->packer != NULL)
		store_packer_close(op->packer);
	for (size_t i = 0; i < count; i++)
		free(paths[i]);
	free(paths);
	free_linked(op);
	store_buf_free(&op->root_bytes);
	free(op);
	return rc;
}
