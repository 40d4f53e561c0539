/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walker of a backup goes through directories in the order of names, beside the parent's entries in the same order, so that comparing
 * needs neither a table nor a search. What is unchanged is copied from there; other files go to the pool.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/backend.h"
#include "store/backup_parts.h"
#include "store/names.h"
#include "store/quiet.h"

/* What the caller named, component by component: below a node without children everything is wanted. */
struct want {
	char *name;
	struct want *children;
	size_t count;
	bool all;
};

/* A directory that the walker is in. */
struct frame {
	struct backup_folder *folder;
	struct store_names *names;
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

/* The names of a directory, sorted. -1 and errno: not all could be read. */
static int read_names(struct backup_folder *folder, struct store_names *names)
{
	const int fd = store_open_quiet(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (dir == NULL) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	while ((errno = 0, entry = readdir(dir)) != NULL)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			store_names_add(names, entry->d_name);
	const int error = errno;
	closedir(dir);
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

struct walk {
	struct backup_worker *w;
	struct frame *frames;
	size_t depth, room;
};

/*
 * Goes into a directory; slot == NULL: the root. `old`: its content in the parent snapshot, or NULL. One whose names cannot all be read is kept
 * with those that could.
 */
static void enter(struct walk *walk, struct backup_slot *slot, int fd, const struct stat *st, struct want *want,
		  const struct store_content *old, bool leave_empty)
{
	struct backup *op = walk->w->op;
	struct backup_folder *folder = backup_new_folder(op), *parent = slot == NULL ? NULL : slot->folder;
	struct store_names *names = store_names_open(op->options->names_bytes);

	folder->parent = parent;
	folder->slot = slot;
	folder->name = store_strdup(slot == NULL ? "" : slot->name);
	folder->fd = fd;
	folder->st = *st;
	if (parent != NULL && backup_read_attributes(fd, NULL, &folder->attributes, &folder->attributes_count) != 0)
		backup_note(op, STORE_NOTE_UNREAD, parent, folder->name, strerror(errno));
	if (want != NULL && !want->all) {
		for (size_t i = 0; i < want->count; i++)
			store_names_add(names, want->children[i].name);
	} else if (!leave_empty && read_names(folder, names) != 0) {
		backup_note(op, STORE_NOTE_UNREAD, folder, "", strerror(errno));
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
	frame->names = names;
	frame->want = want != NULL && !want->all ? want : NULL;
	if (old != NULL) {
		frame->has_old = true;
		store_dir_open(&frame->old, op->s, &walk->w->cutter.codec, old);
	}
}

static struct want *want_child(struct want *want, const char *name)
{
	for (size_t i = 0; want != NULL && i < want->count; i++)
		if (strcmp(want->children[i].name, name) == 0)
			return &want->children[i];
	return NULL;
}

static bool is_excluded(struct backup *op, const struct backup_folder *folder, const char *name, const struct stat *st)
{
	if (S_ISDIR(st->st_mode) && st->st_dev == op->repository.st_dev && st->st_ino == op->repository.st_ino)
		return true; /* a repository does not hold itself */
	if (op->options->excludes == NULL || op->options->excludes->count == 0)
		return false;
	char *path = backup_path(folder, name);
	const bool excluded = store_excluded(op->options->excludes, path, S_ISDIR(st->st_mode));
	free(path);
	return excluded;
}

static bool is_cache(int folder)
{
	static const char signature[] = "Signature: 8a477f597d28d172789f06886806bc55";
	char text[sizeof(signature) - 1];
	const int fd = store_open_quiet(folder, "CACHEDIR.TAG", O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return false;
	const ssize_t got = read(fd, text, sizeof(text));
	close(fd);
	return got == (ssize_t)sizeof(text) && memcmp(text, signature, sizeof(text)) == 0;
}

static void enter_directory(struct walk *walk, struct frame *frame, struct backup_slot *slot, struct want *want,
			    const struct stat *st)
{
	struct backup_worker *w = walk->w;
	struct backup *op = w->op;
	struct backup_folder *folder = frame->folder;
	const char *name = slot->name;
	const bool through = want != NULL && !want->all; /* on the way to what was named: links are followed */
	const struct store_node *old = old_entry(frame, name);
	struct store_content content;
	struct stat opened;
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (through ? 0 : O_NOFOLLOW);
	const int fd = store_open_quiet(folder->fd, name, flags);

	if (fd < 0 || fstat(fd, &opened) != 0) {
		const int error = errno;

		if (fd >= 0)
			close(fd);
		backup_note(op, STORE_NOTE_UNREAD, folder, name, strerror(error));
		backup_complete(w, slot, NULL);
		return;
	}
	if (old != NULL && old->type == STORE_NODE_DIR)
		content = old->content;
	/* a mount point is kept, what is mounted there is not */
	bool leave_empty = op->options->one_file_system && !through && want == NULL && st->st_dev != folder->st.st_dev;
	for (size_t i = 0; i < op->options->exclude_if_present_count && !leave_empty; i++)
		leave_empty = faccessat(fd, op->options->exclude_if_present[i], F_OK, 0) == 0;
	leave_empty = leave_empty || (op->options->exclude_caches && is_cache(fd));
	enter(walk, slot, fd, &opened, through ? want : NULL,
	      old != NULL && old->type == STORE_NODE_DIR ? &content : NULL, leave_empty);
}

static bool is_too_large(const struct backup *op, const struct stat *st)
{
	return op->options->largest_bytes > 0 && S_ISREG(st->st_mode) &&
	       (uint64_t)st->st_size > op->options->largest_bytes;
}

/* A block device, or a link to one, as /dev/disk and LVM have them. */
static bool is_device(const struct backup_folder *folder, const char *name, const struct stat *st)
{
	struct stat target;

	return S_ISBLK(st->st_mode) ||
	       (S_ISLNK(st->st_mode) && fstatat(folder->fd, name, &target, 0) == 0 && S_ISBLK(target.st_mode));
}

/* One name of the directory on top. */
static void visit(struct walk *walk, const char *next)
{
	struct frame *frame = &walk->frames[walk->depth - 1];
	struct backup_worker *w = walk->w;
	struct backup *op = w->op;
	struct backup_folder *folder = frame->folder;
	struct backup_slot *slot = backup_add_slot(op, folder, next);
	const char *name = slot->name;
	struct want *want = want_child(frame->want, name);
	const bool through = want != NULL && !want->all;
	struct stat st;

	if (fstatat(folder->fd, name, &st, through ? 0 : AT_SYMLINK_NOFOLLOW) != 0) {
		if (errno != ENOENT || want != NULL) /* else it was removed since its directory was read */
			backup_note(op, STORE_NOTE_UNREAD, folder, name, strerror(errno));
		backup_complete(w, slot, NULL);
		return;
	}
	if (through && !S_ISDIR(st.st_mode)) {
		backup_note(op, STORE_NOTE_UNREAD, folder, name, strerror(ENOTDIR));
		backup_complete(w, slot, NULL);
		return;
	}
	if (want == NULL && (is_excluded(op, folder, name, &st) || is_too_large(op, &st))) {
		backup_complete(w, slot, NULL);
		return;
	}
	if (S_ISDIR(st.st_mode)) {
		enter_directory(walk, frame, slot, want, &st);
		return;
	}
	const struct store_node *old = old_entry(frame, name);
	if (old != NULL && (backup_take_old(w, &st, old) || backup_take_content(w, folder, name, &st, old))) {
		backup_complete(w, slot, &w->entry);
		return;
	}
	slot->device = want != NULL && is_device(folder, name, &st);
	if (S_ISREG(st.st_mode) || slot->device) {
		const struct store_keeping_job job = {.own = {.what = slot}};

		store_pool_add(op->keeping.pool, &job); /* false after a failure, when nothing matters any more */
		return;
	}
	const int rc = backup_read_other(w, folder, name, &st);
	if (rc != 0)
		backup_note(op, STORE_NOTE_UNREAD, folder, name, strerror(errno));
	backup_complete(w, slot, rc == 0 ? &w->entry : NULL);
}

static void close_frame(struct frame *frame)
{
	if (frame->has_old)
		store_dir_close(&frame->old);
	store_names_close(frame->names);
}

static void walk_tree(struct walk *walk)
{
	struct backup *op = walk->w->op;

	while (walk->depth > 0 && !atomic_load(&op->failed)) {
		struct frame *frame = &walk->frames[walk->depth - 1];
		const char *name;

		backup_progress(op);
		const int more = store_names_next(frame->names, &name);
		if (more == 1) {
			visit(walk, name);
			continue;
		}
		if (more < 0)
			backup_fail(op, more);
		close_frame(frame);
		walk->depth--;
		if (more == 0)
			backup_scanned(walk->w, frame->folder);
	}
	for (size_t i = 0; i < walk->depth; i++) /* after a failure */
		close_frame(&walk->frames[i]);
	free(walk->frames);
}

void backup_walk_paths(struct backup_worker *w, char **paths, size_t count)
{
	struct walk walk = {.w = w};
	const struct store_backup_options *o = w->op->options;
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
		backup_fail(w->op, store_fail(STORE_E_IO, "/: %s", strerror(errno)));
	} else {
		enter(&walk, NULL, fd, &none, wants.all ? NULL : &wants, o->parent != NULL ? &content : NULL, false);
		walk_tree(&walk);
	}
	free_want(&wants);
}
