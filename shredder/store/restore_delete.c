/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deleting what a directory of the target has and the snapshot has not.
 *
 * Only a name that stands between two that the snapshot has, in a list that was authenticated and is sorted, is known to be missing there: what
 * cannot be read deletes nothing. Every name is looked at and removed relative to the descriptor of its directory, and no link is followed, so
 * nothing outside of the target goes, whoever exchanges directories for links meanwhile. What is mounted below the target stays, and so do
 * the repository and the files that open it.
 *
 * Where a directory takes letters of either case for one, a name that the snapshot has is there under another one. Such a directory shows
 * by a name of it that is found with another case; of its names those stay that are the same inode as one of the snapshot's.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/names.h"
#include "store/quiet.h"
#include "store/restore_parts.h"

/* Of names of a folder: nothing is known, each is its own, or several are one. */
enum { UNKNOWN, PLAIN, FOLDS };

/* A directory that is emptied. */
struct level {
	DIR *dir;
	size_t path_bytes;
	bool included;
	bool left; /* something in it stays */
};

struct deletion {
	struct restore *op;
	const struct restore_folder *folder;
	size_t base_bytes;     /* of `path`: what the folder is */
	struct store_buf path; /* of what is looked at now, with a zero behind it that does not count */
	struct level *levels;
	size_t depth, room;
	int names; /* FOLDS: the folder takes several for one */
	struct restore_inode *ours;
	size_t ours_count;
};

enum outcome { GONE, LEFT, ENTERED };

bool restore_selects(const struct restore *op, const char *path, bool directory, bool *included)
{
	const struct store_restore_options *o = op->options;

	*included = *included || o->includes == NULL || store_excluded(o->includes, path, directory);
	return o->excludes == NULL || !store_excluded(o->excludes, path, directory);
}

bool restore_is_mounted(int fd)
{
	struct statx st;

	return statx(fd, "", AT_EMPTY_PATH, 0, &st) != 0 || (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

static void add_inode(struct restore_inode **list, size_t *count, const struct stat *st)
{
	if ((*count & (*count - 1)) == 0) /* a power of two: it is full */
		*list = (struct restore_inode *)store_realloc(*list, (*count == 0 ? 1 : 2 * *count) * sizeof(**list));
	(*list)[(*count)++] = (struct restore_inode){st->st_dev, st->st_ino};
}

static int compare_inodes(const void *left, const void *right)
{
	const struct restore_inode *a = (const struct restore_inode *)left, *b = (const struct restore_inode *)right;

	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	return (a->inode > b->inode) - (a->inode < b->inode);
}

static bool has_inode(const struct restore_inode *list, size_t count, const struct stat *st)
{
	const struct restore_inode wanted = {st->st_dev, st->st_ino};

	return count > 0 && bsearch(&wanted, list, count, sizeof(*list), compare_inodes) != NULL;
}

void restore_spare(struct restore *op)
{
	const struct store_restore_options *o = op->options;
	struct stat st;

	for (size_t i = 0; i < o->spared_count; i++) {
		if (stat(o->spared[i], &st) == 0)
			add_inode(&op->spared, &op->spared_count, &st);
		if (lstat(o->spared[i], &st) == 0 && S_ISLNK(st.st_mode))
			add_inode(&op->spared, &op->spared_count, &st);
	}
	if (op->spared_count > 0)
		qsort(op->spared, op->spared_count, sizeof(*op->spared), compare_inodes);
}

bool restore_is_repository(const struct restore *op, int fd)
{
	struct stat st;

	return op->repository.st_ino != 0 &&
	       (fstat(fd, &st) != 0 || (st.st_ino == op->repository.st_ino && st.st_dev == op->repository.st_dev));
}

bool restore_knows(const struct store_snapshot *snapshot, const char *path)
{
	for (size_t i = 0; i < snapshot->paths_count; i++) {
		const char *root = snapshot->paths[i];
		size_t bytes = strlen(root);

		while (bytes > 0 && root[bytes - 1] == '/')
			bytes--;
		if (strncmp(path, root, bytes) == 0 && (path[bytes] == 0 || path[bytes] == '/'))
			return true;
	}
	return false;
}

static const char *path_of(const struct deletion *d)
{
	return (const char *)d->path.data;
}

/* Below the folder, for messages. */
static const char *below(const struct deletion *d)
{
	return path_of(d) + d->base_bytes + 1;
}

static void set_path(struct deletion *d, size_t bytes, const char *name)
{
	d->path.size = bytes;
	store_buf_u8(&d->path, '/');
	store_buf_add(&d->path, name, strlen(name));
	*store_buf_reserve(&d->path, 1) = 0;
}

/* By the path as it is. False after a note. */
static bool delete_name(struct deletion *d, int parent, bool directory)
{
	const struct store_restore_options *o = d->op->options;
	const char *name = strrchr(path_of(d), '/') + 1;

	if (!o->dry_run && unlinkat(parent, name, directory ? AT_REMOVEDIR : 0) != 0 && errno != ENOENT) {
		restore_note_errno(d->op, d->folder, below(d), "deleting");
		return false;
	}
	atomic_fetch_add(&d->op->deleted, 1);
	if (o->deleted != NULL) {
		pthread_mutex_lock(&d->op->notes);
		o->deleted(o->user, path_of(d), directory);
		pthread_mutex_unlock(&d->op->notes);
	}
	return true;
}

static enum outcome enter_directory(struct deletion *d, int parent, bool included)
{
	const char *name = strrchr(path_of(d), '/') + 1;
	const int fd = store_open_quiet(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0) {
		restore_note_errno(d->op, d->folder, below(d), "deleting");
		return LEFT;
	}
	const bool mounted = restore_is_mounted(fd);
	if (mounted)
		restore_note(d->op, d->folder, below(d), "it is not deleted: something is mounted there");
	DIR *dir = NULL;
	if (!mounted && !restore_is_repository(d->op, fd) && (dir = fdopendir(fd)) == NULL)
		restore_note_errno(d->op, d->folder, below(d), "deleting");
	if (dir == NULL) {
		close(fd);
		return LEFT;
	}
	if (d->depth == d->room) {
		d->room = d->room == 0 ? 16 : 2 * d->room;
		d->levels = (struct level *)store_realloc(d->levels, d->room * sizeof(*d->levels));
	}
	d->levels[d->depth++] = (struct level){.dir = dir, .path_bytes = d->path.size, .included = included};
	return ENTERED;
}

static enum outcome enter(struct deletion *d, int parent, bool included)
{
	const char *name = strrchr(path_of(d), '/') + 1;
	struct stat st;

	if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
		if (errno == ENOENT)
			return GONE;
		restore_note_errno(d->op, d->folder, below(d), "deleting");
		return LEFT;
	}
	if (!restore_selects(d->op, path_of(d), S_ISDIR(st.st_mode), &included) || !included)
		return LEFT;
	if (has_inode(d->op->spared, d->op->spared_count, &st) ||
	    (d->depth == 0 && d->names == FOLDS && has_inode(d->ours, d->ours_count, &st)))
		return LEFT;
	if (S_ISDIR(st.st_mode))
		return enter_directory(d, parent, included);
	return delete_name(d, parent, false) ? GONE : LEFT;
}

/* The directory on top has been gone through. */
static enum outcome leave_directory(struct deletion *d)
{
	const struct level level = d->levels[--d->depth];

	d->path.size = level.path_bytes;
	d->path.data[d->path.size] = 0;
	closedir(level.dir);
	const int parent = d->depth > 0 ? dirfd(d->levels[d->depth - 1].dir) : d->folder->fd;
	return !level.left && delete_name(d, parent, true) ? GONE : LEFT;
}

static bool is_name(const char *name)
{
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* One name of the folder and all below it. True: it is gone. */
static bool delete_all(struct deletion *d, const char *name, bool included)
{
	enum outcome outcome;

	set_path(d, d->base_bytes, name);
	outcome = enter(d, d->folder->fd, included);
	while (d->depth > 0) {
		struct level *top = &d->levels[d->depth - 1];

		errno = 0;
		const struct dirent *entry = readdir(top->dir);
		if (entry != NULL && !is_name(entry->d_name))
			continue;
		if (entry != NULL) {
			set_path(d, top->path_bytes, entry->d_name);
			outcome = enter(d, dirfd(top->dir), top->included);
		} else {
			if (errno != 0) {
				d->path.size = top->path_bytes;
				d->path.data[d->path.size] = 0;
				restore_note_errno(d->op, d->folder, below(d), "reading the directory");
				top->left = true;
			}
			outcome = leave_directory(d);
		}
		if (outcome == LEFT && d->depth > 0)
			d->levels[d->depth - 1].left = true;
	}
	return outcome == GONE;
}

static void begin(struct deletion *d, struct restore *op, const struct restore_folder *folder, const char *path)
{
	memset(d, 0, sizeof(*d));
	d->op = op;
	d->folder = folder;
	store_buf_add(&d->path, path, strlen(path));
	d->base_bytes = d->path.size;
}

static void end(struct deletion *d)
{
	store_buf_free(&d->path);
	free(d->levels);
	free(d->ours);
}

int restore_delete_directory(struct restore *op, const struct restore_folder *folder, const char *name,
			     const char *path, bool included)
{
	struct deletion d;

	begin(&d, op, folder, path);
	const bool gone = delete_all(&d, name, included);
	end(&d);
	errno = ENOTEMPTY;
	return gone ? 0 : -1;
}

/* NULL after a note. */
static struct store_names *list_folder(struct restore *op, const struct restore_folder *folder)
{
	const int fd = store_open_quiet(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct store_names *names = store_names_open(0);
	const struct dirent *entry;

	errno = dir == NULL ? errno : 0;
	while (dir != NULL && (entry = readdir(dir)) != NULL)
		if (is_name(entry->d_name))
			store_names_add(names, entry->d_name);
	if (errno != 0) {
		restore_note_errno(op, folder, ".", "reading the directory");
		store_names_close(names);
		names = NULL;
	}
	if (dir != NULL)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
	return names;
}

/* Whether a name that is there is found with its letters' case changed, too. What has no letters cannot tell, and has no other case either. */
static int look_at_case(int fd, const char *name)
{
	char other[STORE_NAME_MAX + 1];
	struct stat st, again;
	bool letters = false, plain = true;
	size_t i = 0;

	for (; name[i] != 0 && i < STORE_NAME_MAX; i++) {
		const bool letter = (name[i] | 32) >= 'a' && (name[i] | 32) <= 'z';

		other[i] = letter ? (char)(name[i] ^ 32) : name[i];
		letters = letters || letter;
		plain = plain && (name[i] & 128) == 0;
	}
	other[i] = 0;
	if (!letters)
		return plain ? UNKNOWN : FOLDS; /* letters that only the file system knows */
	return fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			       fstatat(fd, other, &again, AT_SYMLINK_NOFOLLOW) == 0 && st.st_ino == again.st_ino &&
			       st.st_dev == again.st_dev ?
		       FOLDS :
		       PLAIN;
}

/*
 * Before the first name goes that the snapshot does not have: whether the folder folds names, and if it does, which inodes the snapshot's names lead
 * to. 0, or an error.
 */
static int learn_folding(struct deletion *d, struct store_codec *codec, const struct store_content *content,
			 const char *name)
{
	const int fd = d->folder->fd;
	struct store_dir dir;
	struct store_node node;
	struct stat st;
	char text[STORE_NAME_MAX + 1];
	int more;

	if (d->names != UNKNOWN)
		return 0;
	d->names = look_at_case(fd, name);
	if (d->names != FOLDS)
		return 0;
	store_dir_open(&dir, d->op->s, codec, content);
	while ((more = store_dir_next(&dir, &node)) == 1) {
		memcpy(text, node.name, node.name_bytes);
		text[node.name_bytes] = 0;
		if (fstatat(fd, text, &st, AT_SYMLINK_NOFOLLOW) == 0)
			add_inode(&d->ours, &d->ours_count, &st);
	}
	store_dir_close(&dir);
	if (d->ours_count > 0)
		qsort(d->ours, d->ours_count, sizeof(*d->ours), compare_inodes);
	return more;
}

void restore_delete_others(struct restore *op, struct store_codec *codec, const struct restore_folder *folder,
			   const struct store_content *content, const char *path, bool included)
{
	struct store_names *names = list_folder(op, folder);
	struct store_dir dir;
	struct store_node node;
	struct deletion d;
	const char *name;
	int more, rc = 0;

	if (names == NULL)
		return;
	begin(&d, op, folder, path);
	store_dir_open(&dir, op->s, codec, content);
	more = store_dir_next(&dir, &node);
	while (more >= 0 && (rc = store_names_next(names, &name)) == 1) {
		int order = 1;

		while (more == 1 && (order = store_name_compare(node.name, node.name_bytes, (const uint8_t *)name,
								strlen(name))) < 0)
			more = store_dir_next(&dir, &node);
		if (more < 0 || (more == 1 && order == 0))
			continue;
		if ((rc = learn_folding(&d, codec, content, name)) < 0)
			break;
		delete_all(&d, name, included);
	}
	if (more < 0 || rc < 0)
		restore_note(op, folder, ".", store_message());
	store_dir_close(&dir);
	store_names_close(names);
	end(&d);
}
