/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restoring files' contents.
 *
 * What is there under a file's name is changed, or replaced where it must not be changed, only after all chunks that it lacks could be read: a
 * first round compares and reads, a second one writes. So a chunk that is lost leaves an old file as it was. Small files' chunks are kept from one
 * round to the other, larger files' are read twice. A new file has one round, and is removed when it cannot be completed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/device.h"
#include "store/pool.h"
#include "store/restore_parts.h"

/* Chunks that one job writes at most: files larger than that are several workers'. */
#define JOB_BYTES (16 * G4_MIB)
/* Of files up to this size the first round's chunks stay in memory. */
#define HELD_BYTES (4 * G4_MIB)

/* A file under way. */
struct file {
	struct restore_folder *folder;
	struct store_target target;
	struct store_buf entry;
	struct store_node node;
	char name[STORE_NAME_MAX + 1];
	struct restore_linked *linked; /* NULL: it has one name */
	bool compare;		       /* its old content may be right */
	bool old;		       /* something was there under its name */
	bool look;		       /* the first of two rounds: nothing is changed */
	bool replace;		       /* what was there must not be changed, but may be right */
	uint8_t *there;		       /* of each part, what the first round has found; NULL: there was none */
	uint64_t old_size;
	atomic_bool differs;
	atomic_uint jobs;
	atomic_bool failed;
};

struct job {
	struct file *file;
	struct store_in parts; /* from here on */
	uint64_t offset, first, count;
};

static bool on_device(const struct file *file)
{
	return file->folder->fd < 0;
}

static void add_jobs(struct restore *op, struct restore_worker *w, struct file *file);

/* A note about a file that was begun, and what became of it; the first one only. */
static void fail_file(struct restore *op, struct file *file, const char *sentence)
{
	char text[512];
	const char *now = "it is left out";

	if (atomic_exchange(&file->failed, true))
		return;
	if (on_device(file))
		now = "the device is not complete";
	else if (file->old && file->look)
		now = "it is kept as it was";
	else if (file->old && !file->replace)
		now = "it is partly what it was, and partly what the snapshot has";
	snprintf(text, sizeof(text), "%s; %s", sentence, now);
	restore_note(op, file->folder, file->name, text);
}

static void fail_errno(struct restore *op, struct file *file, const char *what)
{
	char sentence[256];

	snprintf(sentence, sizeof(sentence), "%s: %s", what, strerror(errno));
	fail_file(op, file, sentence);
}

/* All that is missing could be read: the second round may begin. */
static void open_second(struct restore *op, struct file *file)
{
	const int folder_fd = file->folder->fd;

	if (!file->replace) {
		if (file->old_size != file->node.size && ftruncate(file->target.fd, (off_t)file->node.size) != 0)
			fail_errno(op, file, "setting the size");
		file->look = false;
		return;
	}
	if (unlinkat(folder_fd, file->name, 0) != 0 && errno != ENOENT) {
		fail_errno(op, file, "removing what is in the way");
		return;
	}
	file->look = false;
	if (file->target.fd >= 0)
		close(file->target.fd);
	free(file->there);
	file->there = NULL;
	file->compare = false;
	file->target.fd = openat(folder_fd, file->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (file->target.fd < 0)
		fail_errno(op, file, "making the file");
	else if (ftruncate(file->target.fd, (off_t)file->node.size) != 0)
		fail_errno(op, file, "setting the size");
	else
		file->target.direct_fd = store_open_direct(folder_fd, file->name, file->target.fd, file->node.size);
}

static void finish_file(struct restore *op, struct file *file)
{
	const bool stays = file->replace && !atomic_load(&file->differs);
	const bool made = !on_device(file) && !file->look && (!file->old || (file->replace && !stays));

	if (!atomic_load(&file->failed)) {
		if (stays)
			restore_set_atime(op, file->folder, file->name, file->target.fd, &file->node);
		else if (!on_device(file))
			restore_set_open(op, file->folder, file->name, file->target.fd, &file->node, made);
		else if (fsync(file->target.fd) != 0)
			restore_note_errno(op, file->folder, file->name, "writing");
		if (close(file->target.fd) != 0)
			restore_note_errno(op, file->folder, file->name, "closing");
		atomic_fetch_add(&op->files, 1);
	} else {
		if (made && file->target.fd >= 0) /* nothing half right is left under the name */
			unlinkat(file->folder->fd, file->name, 0);
		if (file->target.fd >= 0)
			close(file->target.fd);
	}
	if (file->target.direct_fd >= 0)
		close(file->target.direct_fd);
	if (file->linked != NULL)
		restore_end_linked(op, file->linked, !atomic_load(&file->failed));
	restore_leave(op, file->folder);
	store_buf_free(&file->entry);
	free(file->there);
	free(file);
}

/* One job less, or the round's end. w: NULL for the thread that walks. */
static void end_job(struct restore *op, struct restore_worker *w, struct file *file)
{
	if (atomic_fetch_sub(&file->jobs, 1) != 1)
		return;
	if (file->look && !atomic_load(&file->failed)) {
		const bool differs = atomic_load(&file->differs);

		if (differs || !file->replace)
			open_second(op, file);
		if (differs && !atomic_load(&file->failed)) {
			add_jobs(op, w, file);
			return;
		}
		if (!atomic_load(&file->failed))
			atomic_fetch_add(&op->bytes, file->node.size);
	}
	finish_file(op, file);
}

/* True when the bytes that are there already are the chunk's: then it is not even fetched. */
static bool part_there(struct restore_worker *w, const struct file *file, const struct store_part *part,
		       uint64_t offset)
{
	uint8_t digest[32];
	struct store_id id;

	w->old.size = 0;
	if (!file->compare || !store_read_at(file->target.fd, &w->old, part->bytes, offset))
		return false;
	store_digest(w->old.data, part->bytes, digest);
	store_name_blob(w->op->s, STORE_DATA, digest, &id);
	return store_id_equal(&id, &part->id);
}

/* A hole: a new file has one there; in an old one it is made, or where that cannot be, what is no zero becomes one. */
static int restore_hole(struct restore_worker *w, const struct file *file, uint64_t bytes, uint64_t offset)
{
	if (!file->compare ||
	    fallocate(file->target.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes) == 0)
		return 0;
	if (errno != EOPNOTSUPP && !(errno == EINVAL && on_device(file))) /* EINVAL: a part of a device's block */
		return -1;
	for (uint64_t done = 0; done < bytes; done += G4_MIB) {
		const uint64_t now = g4_min64(G4_MIB, bytes - done);

		w->old.size = 0;
		if (!store_read_at(file->target.fd, &w->old, now, offset + done))
			return -1;
		if (store_device_zeros(w->old.data, now))
			continue;
		memset(w->old.data, 0, now);
		if (store_write_at(file->target.fd, w->old.data, now, offset + done) != 0)
			return -1;
		atomic_fetch_add(&w->op->written, now);
	}
	return 0;
}

/* A hole where the file has none, or where it is not known, is made again. */
static bool hole_there(const struct file *file, uint64_t bytes, uint64_t offset)
{
	const off_t data = lseek(file->target.fd, (off_t)offset, SEEK_DATA);

	return data < 0 ? errno == ENXIO : (uint64_t)data >= offset + bytes;
}

/* In w->blob. */
static bool get_part(struct restore_worker *w, struct file *file, const struct store_part *part)
{
	struct restore *op = w->op;
	int rc = 0;

	if (w->held_of == file && !file->look) {
		w->blob.size = 0;
		store_buf_add(&w->blob, w->held.data + w->held_at, part->bytes);
		w->held_at += part->bytes;
		return true;
	}
	rc = store_blob_get(op->s, &w->codec, STORE_DATA, &part->id, &w->blob);
	if (rc == 0 && w->blob.size != part->bytes)
		rc = store_fail(STORE_E_DAMAGED, "a chunk does not have the size that its file says");
	if (rc != 0)
		fail_file(op, file, store_message());
	return rc == 0;
}

/* The first round of a part. */
static bool look_part(struct restore_worker *w, struct file *file, const struct store_part *part, uint64_t offset,
		      uint64_t index)
{
	if (part->hole) {
		file->there[index] = file->target.fd >= 0 && hole_there(file, part->bytes, offset);
	} else {
		file->there[index] = part_there(w, file, part, offset);
		if (!file->there[index] && !get_part(w, file, part))
			return false;
		if (!file->there[index] && w->held_of == file)
			store_buf_add(&w->held, w->blob.data, w->blob.size);
	}
	if (!file->there[index])
		atomic_store(&file->differs, true);
	return true;
}

static bool restore_part(struct restore_worker *w, struct file *file, const struct store_part *part, uint64_t offset,
			 uint64_t index)
{
	struct restore *op = w->op;

	if (file->there != NULL && file->there[index])
		return true;
	if (part->hole) {
		if (restore_hole(w, file, part->bytes, offset) == 0)
			return true;
		fail_errno(op, file, "writing");
		return false;
	}
	if (file->there == NULL && part_there(w, file, part, offset))
		return true;
	if (!get_part(w, file, part))
		return false;
	if ((file->target.direct_fd >= 0 ? store_run_add(&file->target, &w->run, w->blob.data, w->blob.size, offset) :
					   store_write_at(file->target.fd, w->blob.data, w->blob.size, offset)) != 0) {
		fail_errno(op, file, "writing");
		return false;
	}
	atomic_fetch_add(&op->written, w->blob.size);
	return true;
}

static void do_parts(struct restore_worker *w, struct job *job)
{
	struct file *file = job->file;
	struct store_part part;
	bool done = true;

	for (uint64_t i = 0; i < job->count && done && !atomic_load(&file->failed); i++) {
		store_part_next(&job->parts, &part);
		done = file->look ? look_part(w, file, &part, job->offset, job->first + i) :
				    restore_part(w, file, &part, job->offset, job->first + i);
		job->offset += part.bytes;
		if (done && !file->look)
			atomic_fetch_add(&w->op->bytes, part.bytes);
	}
	if (done && store_run_end(&file->target, &w->run) != 0)
		fail_errno(w->op, file, "writing");
	w->run.bytes = 0;
	end_job(w->op, w, file);
}

void restore_job(void *member, void *user)
{
	struct restore_worker *w = (struct restore_worker *)member;
	struct job *job = (struct job *)user;
	const struct file *file = job->file;

	w->held.size = 0;
	w->held_at = 0;
	w->held_of = file->look && file->node.size <= HELD_BYTES ? file : NULL;
	do_parts(w, job);
	w->held_of = NULL;
}

/* A worker does itself what nobody takes: it may not wait for room in the list. */
static void add_job(struct restore *op, struct restore_worker *w, struct job *job)
{
	atomic_fetch_add(&job->file->jobs, 1);
	if (w == NULL)
		store_pool_add(op->pool, job);
	else if (w->held_of == job->file || !store_pool_give(op->pool, job))
		do_parts(w, job);
}

/* Hands the parts out in jobs. A round without any ends here. */
static void add_jobs(struct restore *op, struct restore_worker *w, struct file *file)
{
	struct store_in in = store_content_in(&file->node.content);
	struct job job = {.file = file, .parts = in};
	uint64_t at = 0, bytes = 0, blocks = 0;
	struct store_part part;

	while (!file->look && in.at != in.end && store_part_next(&in, &part)) {
		if (part.hole) {
			store_make_blocks(&file->target, blocks, at);
			blocks = at + part.bytes;
		}
		at += part.bytes;
	}
	if (!file->look)
		store_make_blocks(&file->target, blocks, at);
	in = job.parts;
	at = 0;
	atomic_store(&file->jobs, 1); /* ours */
	while (in.at != in.end && store_part_next(&in, &part)) {
		at += part.bytes;
		bytes += part.hole ? 0 : part.bytes;
		job.count++;
		if (bytes < JOB_BYTES || in.at == in.end)
			continue;
		const uint64_t next = job.first + job.count;
		add_job(op, w, &job);
		job = (struct job){.file = file, .parts = in, .offset = at, .first = next};
		bytes = 0;
	}
	if (job.count > 0)
		add_job(op, w, &job);
	end_job(op, w, file);
}

/* The one part of a small file gives it its size. */
static bool size_follows(const struct store_node *node)
{
	struct store_in in = store_content_in(&node->content);
	struct store_part part;

	return node->size == 0 || (node->content.count == 1 && store_part_next(&in, &part) && !part.hole);
}

static struct file *new_file(struct restore *op, struct restore_folder *folder, const struct store_node *node,
			     const char *name, int fd)
{
	struct file *file = (struct file *)store_alloc(sizeof(*file));

	file->folder = folder;
	file->target = (struct store_target){.fd = fd, .direct_fd = -1};
	snprintf(file->name, sizeof(file->name), "%s", name);
	store_buf_add(&file->entry, node->raw, node->raw_bytes);
	struct store_in in = store_in_of(file->entry.data, file->entry.size);
	store_node_read(&in, &file->node);
	if (folder->fd >= 0 && (node->flags & STORE_LINKED))
		file->linked = restore_find_linked(op, node);
	atomic_fetch_add(&folder->users, 1);
	return file;
}

/* False: something is there. */
static bool restore_new(struct restore *op, struct restore_folder *folder, const struct store_node *node,
			const char *name)
{
	const int fd = openat(folder->fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0 && errno == EEXIST)
		return false;
	struct file *file = new_file(op, folder, node, name, fd);
	if (fd < 0)
		fail_errno(op, file, "making the file");
	else if (!size_follows(node) && ftruncate(fd, (off_t)node->size) != 0)
		fail_errno(op, file, "setting the size");
	if (atomic_load(&file->failed)) {
		finish_file(op, file);
		return true;
	}
	file->target.direct_fd = store_open_direct(folder->fd, name, fd, node->size);
	add_jobs(op, NULL, file);
	return true;
}

static void count_parts(struct file *file)
{
	struct store_in in = store_content_in(&file->node.content);
	struct store_part part;
	uint64_t count = 0;

	while (in.at != in.end && store_part_next(&in, &part))
		count++;
	file->there = (uint8_t *)store_alloc(count + 1);
}

void restore_file(struct restore *op, struct restore_folder *folder, const struct store_node *node, const char *name)
{
	struct stat st;

	if ((folder->fresh || fstatat(folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) &&
	    restore_new(op, folder, node, name))
		return;
	struct file *file = new_file(op, folder, node, name, -1);
	file->old = file->look = true;
	const bool found = fstatat(folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (!found || S_ISDIR(st.st_mode)) {
		errno = found ? EISDIR : errno;
		fail_errno(op, file, "removing what is in the way");
		finish_file(op, file);
		return;
	}
	int fd = !S_ISREG(st.st_mode) ? -1 : openat(folder->fd, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	/* one without write permission, or that is running */
	if (fd < 0 && S_ISREG(st.st_mode) && (errno == EACCES || errno == ETXTBSY)) {
		fd = openat(folder->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		file->replace = true;
	}
	if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) { /* it has come into the way since */
		close(fd);
		fd = -1;
	}
	/* Another name of the file, outside of what is restored, must not change with it: neither contents nor owner and mode. */
	file->replace = file->replace || fd < 0 || st.st_nlink > 1;
	if (file->replace && fd >= 0 && ((uint64_t)st.st_size != node->size || !restore_is_set(op, fd, node))) {
		close(fd);
		fd = -1;
	}
	file->target.fd = fd;
	file->compare = fd >= 0 && st.st_size > 0;
	file->old_size = (uint64_t)st.st_size;
	if (fd < 0)
		atomic_store(&file->differs, true);
	else if (op->options->overwrite == STORE_OVERWRITE_IF_CHANGED && st.st_size > 0 &&
		 (uint64_t)st.st_size == node->size && restore_newer(node, &st) == 0)
		file->node.content = (struct store_content){0};
	count_parts(file);
	add_jobs(op, NULL, file);
}

void restore_onto(struct restore *op, struct restore_folder *folder, const struct store_node *node, const char *name,
		  int fd)
{
	struct file *file = new_file(op, folder, node, name, fd);

	file->compare = true;
	add_jobs(op, NULL, file);
}

size_t restore_job_bytes(void)
{
	return sizeof(struct job);
}
