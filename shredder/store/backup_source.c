/* SPDX-License-Identifier: Apache-2.0 */
/* What a backup reads: one file at a time. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "store/backup_parts.h"
#include "store/device.h"
#include "store/quiet.h"

/* Files that changed so recently may change again without another time: file systems count in 10 ms, some in 2 s. */
#define SETTLED_NS (INT64_C(2) * 1000000000)
/* Of a device: zeros that fill one are a hole. */
#define DEVICE_BLOCK_BYTES G4_MIB

/* A file with several names: what the first one gave. */
struct backup_linked {
	dev_t device;
	ino_t inode;
	struct timespec ctime;
	struct store_buf content;
	uint64_t count, size;
	struct backup_linked *next;
};

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

/* ---------------------------------------------------------------------------------------------------------- files */

/* Less is not worth the memory of reading ahead. */
#define AHEAD_LEAST (2 * STORE_CUTTER_BYTES)

void backup_offer_ahead(void *worker)
{
	struct backup_worker *w = (struct backup_worker *)worker;
	const struct store_keeping_job job = {.own = {.what = w, .number = BACKUP_JOB_AHEAD}};

	backup_ahead_offer(&w->ahead, w->op->keeping.pool, &job);
}

static int64_t read_some(struct backup_worker *w, int fd, bool seekable, uint64_t at, uint8_t *to, size_t wanted)
{
	if (wanted == 0)
		return 0;
	if (w->ahead.fd >= 0) {
		backup_offer_ahead(w);
		return backup_ahead_read(&w->ahead, to, wanted);
	}
	return seekable ? pread(fd, to, wanted, (off_t)at) : read(fd, to, wanted);
}

/* Reads from `at` until `end` or the file's end, and gives where it stopped. 1 after an error of the file, in errno. */
static int read_until(struct backup_worker *w, int fd, bool seekable, uint64_t at, uint64_t end, uint64_t *stopped)
{
	bool last = false;
	int rc = 0;

	while (!last && rc == 0) {
		size_t room;
		uint8_t *to = store_cutter_room(&w->cutter, &room);
		const size_t wanted = (size_t)g4_min64(room, end - at);
		const int64_t got = read_some(w, fd, seekable, at, to, wanted);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return 1;
		if (atomic_load(&w->op->failed))
			return STORE_E_STOPPED;
		at += (uint64_t)got;
		last = got == 0 || at == end;
		atomic_fetch_add(&w->op->read_bytes, (unsigned long long)got);
		atomic_fetch_add(&w->op->done_bytes, (unsigned long long)got);
		backup_progress(w->op);
		rc = store_cutter_took(&w->cutter, (size_t)got, last);
		store_resume_note(&w->resume, w->op->s, &w->cutter.content, false);
	}
	*stopped = at;
	return rc;
}

static int read_range(struct backup_worker *w, int fd, bool seekable, uint64_t at, uint64_t end, uint64_t *stopped)
{
	if (seekable && end - at >= AHEAD_LEAST && w->op->keeping.pool != NULL)
		backup_ahead_begin(&w->ahead, fd, at, end);
	const int rc = read_until(w, fd, seekable, at, end, stopped);
	const int error = errno;
	backup_ahead_end(&w->ahead);
	errno = error;
	return rc;
}

/* The content of a regular file of st_size bytes from `at` on; *size: what there was. As read_range(). */
static int read_content(struct backup_worker *w, int fd, const struct stat *st, uint64_t at, uint64_t *size)
{
	const uint64_t end = (uint64_t)st->st_size;
	int rc = 0;

	if ((uint64_t)st->st_blocks * 512 >= end) {
		if (end > STORE_CUTTER_BYTES)
			posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
		return read_range(w, fd, true, at, end, size);
	}
	while (at < end && rc == 0) {
		const off_t data = lseek(fd, (off_t)at, SEEK_DATA);

		if (data < 0 && errno != ENXIO)
			return errno == EINVAL ? read_range(w, fd, true, at, end, size) : 1;
		const uint64_t begin = data < 0 ? end : g4_min64((uint64_t)data, end);
		store_cutter_hole(&w->cutter, begin - at);
		atomic_fetch_add(&w->op->done_bytes, begin - at);
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

/* Into the cutter, whatever room it has. */
static int cut_block(struct backup_worker *w, const uint8_t *data, size_t bytes)
{
	int rc = 0;

	while (bytes > 0 && rc == 0) {
		size_t room;
		uint8_t *to = store_cutter_room(&w->cutter, &room);
		const size_t part = bytes < room ? bytes : room;

		memcpy(to, data, part);
		data += part;
		bytes -= part;
		rc = store_cutter_took(&w->cutter, part, false);
	}
	return rc;
}

/* A block from `at` on: `wanted` bytes. 1 after an error of the device, in errno. */
static int read_block(int fd, uint8_t *to, uint64_t wanted, uint64_t at)
{
	uint64_t have = 0;

	while (have < wanted) {
		const ssize_t got = pread(fd, to + have, wanted - have, (off_t)(at + have));

		if (got < 0 && errno == EINTR)
			continue;
		if (got == 0)
			errno = EIO; /* it has become smaller */
		if (got <= 0)
			return 1;
		have += (uint64_t)got;
	}
	return 0;
}

/*
 * The content of a block device. It says nowhere what is unused; blocks of zeros become holes, at places that do not depend on what is
 * before them. As read_range().
 */
static int read_device(struct backup_worker *w, int fd, uint64_t *size)
{
	const off_t end = lseek(fd, 0, SEEK_END);
	uint64_t hole = 0;
	int rc = 0;

	if (end < 0)
		return 1;
	w->block.size = 0;
	uint8_t *block = store_buf_reserve(&w->block, DEVICE_BLOCK_BYTES);
	posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	*size = (uint64_t)end;
	for (uint64_t at = 0; at < *size && rc == 0; at += DEVICE_BLOCK_BYTES) {
		const uint64_t bytes = g4_min64(DEVICE_BLOCK_BYTES, *size - at);

		if (read_block(fd, block, bytes, at) != 0)
			return 1;
		if (atomic_load(&w->op->failed))
			return STORE_E_STOPPED;
		atomic_fetch_add(&w->op->read_bytes, bytes);
		atomic_fetch_add(&w->op->done_bytes, bytes);
		backup_progress(w->op);
		if (store_device_zeros(block, bytes)) {
			rc = hole == 0 ? store_cutter_took(&w->cutter, 0, true) : 0;
			hole += bytes;
			continue;
		}
		store_cutter_hole(&w->cutter, hole);
		hole = 0;
		rc = cut_block(w, block, bytes);
	}
	if (rc == 0 && hole == 0)
		rc = store_cutter_took(&w->cutter, 0, true);
	store_cutter_hole(&w->cutter, hole);
	return rc;
}

/*
 * The same, of a large file from where a backup was cut off: chunks that begin at a cut are those of the whole (cutter.h). Only of a file
 * whose next change would show, as for one that is not read at all.
 */
static int read_or_resume(struct backup_worker *w, int fd, const struct stat *st, uint64_t *size)
{
	struct backup *op = w->op;
	const char *folder = op->options->resume_folder;
	uint64_t at = 0;

	if ((uint64_t)st->st_size < op->options->resume_bytes || !settled(st))
		folder = NULL;
	store_resume_begin(&w->resume, op->s, folder, st, &w->cutter.content, &w->cutter.content_count, &at);
	atomic_fetch_add(&op->resumed_bytes, at);
	atomic_fetch_add(&op->done_bytes, at);
	const int rc = read_content(w, fd, st, at, size);
	const int error = errno;
	store_resume_note(&w->resume, op->s, &w->cutter.content, true);
	store_resume_end(&w->resume);
	errno = error;
	return rc;
}

static struct backup_linked **linked_row(struct backup *op, const struct stat *st)
{
	return &op->linked[(st->st_ino * 31 + st->st_dev) % BACKUP_LINKED_ROWS];
}

/* Takes the content that another name of the file gave. */
static bool take_linked(struct backup_worker *w, const struct stat *st, uint64_t *size)
{
	struct backup *op = w->op;
	const struct backup_linked *at;

	pthread_mutex_lock(&op->tree);
	for (at = *linked_row(op, st); at != NULL; at = at->next)
		if (at->device == st->st_dev && at->inode == st->st_ino &&
		    memcmp(&at->ctime, &st->st_ctim, sizeof(at->ctime)) == 0)
			break;
	if (at != NULL) {
		w->cutter.content.size = 0;
		store_buf_add(&w->cutter.content, at->content.data, at->content.size);
		w->cutter.content_count = at->count;
		*size = at->size;
		atomic_fetch_add(&op->done_bytes, at->size);
	}
	pthread_mutex_unlock(&op->tree);
	return at != NULL;
}

static void leave_linked(struct backup_worker *w, const struct stat *st, uint64_t size)
{
	struct backup_linked *linked = (struct backup_linked *)store_alloc(sizeof(*linked));

	linked->device = st->st_dev;
	linked->inode = st->st_ino;
	linked->ctime = st->st_ctim;
	store_buf_add(&linked->content, w->cutter.content.data, w->cutter.content.size);
	linked->count = w->cutter.content_count;
	linked->size = size;
	pthread_mutex_lock(&w->op->tree);
	linked->next = *linked_row(w->op, st);
	*linked_row(w->op, st) = linked;
	pthread_mutex_unlock(&w->op->tree);
}

static int open_source(const struct backup_folder *folder, const char *name, bool device)
{
	return store_open_quiet(folder->fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | (device ? 0 : O_NOFOLLOW));
}

static bool unchanged_meanwhile(const struct stat *a, const struct stat *b)
{
	return a->st_size == b->st_size && memcmp(&a->st_mtim, &b->st_mtim, sizeof(a->st_mtim)) == 0 &&
	       memcmp(&a->st_ctim, &b->st_ctim, sizeof(a->st_ctim)) == 0;
}

/* Bytes of a file whose content may come later, in one piece; 0: it may not. */
static uint64_t may_wait(const struct stat *st, bool device)
{
	const bool small = !device && st->st_nlink < 2 && st->st_size <= (off_t)STORE_WAITING_BYTES;

	return small && (uint64_t)st->st_blocks * 512 >= (uint64_t)st->st_size ? (uint64_t)st->st_size : 0;
}

/* The content of a file that is open, into the cutter. As read_range(). */
static int read_open_file(struct backup_worker *w, struct backup_read *read, int fd)
{
	const struct backup_slot *slot = read->slot;
	struct stat *st = &read->st, after;
	bool changed = false;
	int rc;

	if (fstat(fd, st) != 0)
		return 1;
	if (slot->device ? !S_ISBLK(st->st_mode) : !S_ISREG(st->st_mode)) {
		errno = ESTALE; /* it was one when its directory was read */
		return 1;
	}
	if (backup_read_attributes(fd, NULL, &read->attributes, &read->attributes_count) != 0)
		return 1;
	rc = store_cutter_begin(&w->cutter, may_wait(st, slot->device));
	if (rc != 0)
		return rc;
	if (slot->device) {
		rc = read_device(w, fd, &read->size);
		if (rc != 0)
			return rc;
		st->st_nlink = 1; /* other names of the node are not names of the file */
		changed = true;	  /* perhaps: its times tell nothing */
	} else if (st->st_nlink < 2 || !take_linked(w, st, &read->size)) {
		rc = read_or_resume(w, fd, st, &read->size);
		if (rc != 0)
			return rc;
		if (fstat(fd, &after) != 0)
			return 1;
		changed = !unchanged_meanwhile(st, &after) || read->size != (uint64_t)st->st_size;
		if (changed)
			backup_note(w->op, STORE_NOTE_CHANGED, slot->folder, slot->name,
				    "it changed while it was read");
		else if (st->st_nlink > 1)
			leave_linked(w, st, read->size);
	}
	read->unsettled = changed || !settled(st);
	return 0;
}

/* The entry of a file that was read. */
static void complete_file(struct backup_worker *w, const struct backup_read *read, const struct store_content *content)
{
	struct backup *op = w->op;
	struct store_node node;

	backup_describe(op, &node, &read->st, read->slot->name, &read->attributes, read->attributes_count);
	node.type = STORE_NODE_FILE;
	node.flags |= read->unsettled ? STORE_UNSETTLED : 0;
	node.size = read->size;
	node.content = *content;
	w->entry.size = 0;
	store_node_write(&w->entry, &node);
	atomic_fetch_add(&op->files, 1);
	atomic_fetch_add(&op->bytes, read->size);
	if (op->options->tell_files)
		backup_note(op, STORE_NOTE_FILE, read->slot->folder, read->slot->name, "");
	backup_complete(w, read->slot, &w->entry);
}

void backup_complete_waiting(void *worker, uint32_t index, const struct store_content *content)
{
	struct backup_worker *w = (struct backup_worker *)worker;

	complete_file(w, &w->waiting[index], content);
	store_buf_free(&w->waiting[index].attributes);
}

void backup_do_waiting(void *worker)
{
	struct backup_worker *w = (struct backup_worker *)worker;
	const int rc = atomic_load(&w->op->failed) ? 0 : store_cutter_cut_waiting(&w->cutter);

	if (rc != 0)
		backup_fail(w->op, rc);
}

/* Its cutter completes it later. */
static void wait_for_others(struct backup_worker *w, struct backup_read *read)
{
	struct backup_read *waiting = &w->waiting[w->cutter.waiting - 1];

	*waiting = *read;
	memset(&waiting->attributes, 0, sizeof(waiting->attributes));
	if (read->attributes.size > 0)
		store_buf_add(&waiting->attributes, read->attributes.data, read->attributes.size);
}

void backup_do_file(struct backup_worker *w, struct backup_slot *slot)
{
	const struct backup_folder *folder = slot->folder;
	struct backup_read read = {.slot = slot, .attributes = w->attributes};
	const int fd = open_source(folder, slot->name, slot->device);
	const int rc = fd < 0 ? 1 : read_open_file(w, &read, fd);
	const int error = errno;

	w->attributes = read.attributes;
	if (fd >= 0)
		close(fd);
	if (rc < 0) {
		backup_fail(w->op, rc);
	} else if (rc == 1) {
		if (error != ENOENT) /* else it was removed since its directory was read */
			backup_note(w->op, STORE_NOTE_UNREAD, folder, slot->name, strerror(error));
		backup_complete(w, slot, NULL);
	} else if (store_cutter_waits(&w->cutter)) {
		wait_for_others(w, &read);
	} else {
		const struct store_cutter *c = &w->cutter;
		const struct store_content content = {c->content.data, c->content.size, c->content_count};

		complete_file(w, &read, &content);
	}
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
static bool content_there(struct backup *op, const struct store_content *content)
{
	struct store_in in = store_content_in(content);
	struct store_entry entry;
	struct store_part part;
	uint32_t number;

	while (in.at != in.end && store_part_next(&in, &part))
		if (!part.hole && store_index_find(op->s, &part.id, &number, &entry) != 0)
			return false;
	return !in.bad;
}

static void count_unchanged(struct backup *op, const struct store_node *file)
{
	atomic_fetch_add(&op->files, 1);
	atomic_fetch_add(&op->unchanged, 1);
	atomic_fetch_add(&op->done_bytes, file->size);
	atomic_fetch_add(&op->bytes, file->size);
}

bool backup_take_old(struct backup_worker *w, const struct stat *st, const struct store_node *old)
{
	struct backup *op = w->op;

	if (old->type != type_of(st->st_mode) || (old->flags & STORE_UNSETTLED) != 0 || old->inode != st->st_ino ||
	    !same_time(&st->st_ctim, &old->ctime) || !same_time(&st->st_mtim, &old->mtime) ||
	    (old->mode != (st->st_mode & 07777)) || old->uid != st->st_uid || old->gid != st->st_gid ||
	    ((old->flags & STORE_LINKED) != 0) != (st->st_nlink > 1))
		return false;
	if (old->type == STORE_NODE_FILE && (old->size != (uint64_t)st->st_size || !content_there(op, &old->content)))
		return false;
	backup_note_owners(op, old);
	w->entry.size = 0;
	if ((old->flags & (STORE_LINKED | STORE_ATIME)) != 0 || op->options->with_atime) {
		struct store_node node = *old;

		if (old->flags & STORE_LINKED) {
			node.device = backup_device_number(op, st->st_dev);
			node.links = st->st_nlink;
		}
		backup_set_atime(op, &node, st);
		store_node_write(&w->entry, &node);
	} else {
		store_buf_add(&w->entry, old->raw, old->raw_bytes);
	}
	if (old->type == STORE_NODE_FILE)
		count_unchanged(op, old);
	else
		atomic_fetch_add(&op->others, 1);
	return true;
}

bool backup_take_content(struct backup_worker *w, struct backup_folder *folder, const char *name, const struct stat *st,
			 const struct store_node *old)
{
	struct backup *op = w->op;
	const struct store_backup_options *o = op->options;
	char path[64 + STORE_NAME_MAX];
	struct store_node node;
	uint64_t count;

	if ((!o->ignore_ctime && !o->ignore_inode) || old->type != STORE_NODE_FILE || !S_ISREG(st->st_mode) ||
	    (old->flags & STORE_UNSETTLED) != 0 || old->size != (uint64_t)st->st_size ||
	    !same_time(&st->st_mtim, &old->mtime) || (!o->ignore_inode && old->inode != st->st_ino) ||
	    (!o->ignore_ctime && !same_time(&st->st_ctim, &old->ctime)) || !content_there(op, &old->content))
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", folder->fd, name);
	if (backup_read_attributes(-1, path, &w->attributes, &count) != 0)
		return false;
	backup_describe(op, &node, st, name, &w->attributes, count);
	node.type = STORE_NODE_FILE;
	node.flags |= settled(st) ? 0 : STORE_UNSETTLED;
	node.size = old->size;
	node.content = old->content;
	w->entry.size = 0;
	store_node_write(&w->entry, &node);
	count_unchanged(op, old);
	return true;
}

int backup_read_other(struct backup_worker *w, struct backup_folder *folder, const char *name, const struct stat *st)
{
	char target[STORE_TARGET_MAX + 1], path[64 + STORE_NAME_MAX];
	struct store_node node;
	uint64_t count;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", folder->fd, name);
	if (backup_read_attributes(-1, path, &w->attributes, &count) != 0)
		return -1;
	backup_describe(w->op, &node, st, name, &w->attributes, count);
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

void backup_read_stdin(struct backup_worker *w)
{
	struct backup *op = w->op;
	struct backup_folder *folder = backup_new_folder(op);
	struct store_node node;
	struct stat st = {.st_mode = S_IFREG | 0600, .st_nlink = 1};
	uint64_t size = 0;

	folder->name = store_strdup("");
	struct backup_slot *slot = backup_add_slot(op, folder, op->options->stdin_name);
	st.st_uid = geteuid();
	st.st_gid = getegid();
	clock_gettime(CLOCK_REALTIME, &st.st_mtim);
	st.st_ctim = st.st_mtim;
	st.st_atim = st.st_mtim;
	store_cutter_begin(&w->cutter, 0); /* nothing waits */
	int rc = read_range(w, STDIN_FILENO, false, 0, INT64_MAX, &size);
	if (rc == 1) /* what was read is no whole: no snapshot of it */
		rc = store_fail(STORE_E_IO, "standard input cannot be read: %s", strerror(errno));
	if (rc != 0) {
		backup_fail(op, rc);
		return;
	}
	backup_describe(op, &node, &st, op->options->stdin_name, NULL, 0);
	node.type = STORE_NODE_FILE;
	node.flags |= STORE_UNSETTLED;
	node.size = size;
	node.content = (struct store_content){w->cutter.content.data, w->cutter.content.size, w->cutter.content_count};
	store_node_write(&w->entry, &node);
	atomic_fetch_add(&op->files, 1);
	atomic_fetch_add(&op->bytes, size);
	backup_complete(w, slot, &w->entry);
	backup_scanned(w, folder);
}

void backup_free_linked(struct backup *op)
{
	for (size_t i = 0; i < BACKUP_LINKED_ROWS; i++)
		while (op->linked[i] != NULL) {
			struct backup_linked *next = op->linked[i]->next;

			store_buf_free(&op->linked[i]->content);
			free(op->linked[i]);
			op->linked[i] = next;
		}
	free(op->linked);
	free(op->devices);
}
