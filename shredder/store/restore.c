/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restoring: the caller's thread walks the snapshot, makes directories, links and devices; workers fetch chunks and write them
 * into files. A file's owner, mode, attributes and times are set by the worker that writes its last chunk; a directory's when all below it
 * is complete, because writing changes its time.
 *
 * Every name is opened relative to the descriptor of its directory, with O_NOFOLLOW: a link that somebody puts into the target,
 * or that the snapshot itself has, is never followed, and names have no slashes (tree.c).
 *
 * Further names of a file wait until its contents are there, and are not made where that failed.
 *
 * A device that is written has a folder without a descriptor: it lies in nothing that is restored, keeps its owner, mode and times, and
 * is not removed when its contents are not complete. It has one round.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "store/backend.h"
#include "store/device.h"
#include "store/pool.h"
#include "store/restore_parts.h"

#define JOBS_MAX 256
#define LINK_ROWS 65536
/* A further name of a file that is under way. */
struct waiting {
	struct restore_folder *folder; /* used */
	char *name;
	struct waiting *next;
};

enum link_state { LINK_PENDING, LINK_MADE, LINK_FAILED };

/* The first name of a file with several. op->links guards the last three. */
struct restore_linked {
	uint64_t device, inode, size;
	uint8_t type;
	struct restore_folder *folder; /* used until the end */
	char *name;
	enum link_state state;
	struct waiting *waiting;
	struct restore_linked *next;
};

/* Gives a folder back; the last user sets what it should be and goes on with its parent. */
void restore_leave(struct restore *op, struct restore_folder *folder)
{
	while (folder != NULL && atomic_fetch_sub(&folder->users, 1) == 1) {
		struct restore_folder *parent = folder->parent;

		if (folder->entry.size > 0) {
			struct store_in in = store_in_of(folder->entry.data, folder->entry.size);
			struct store_node node;

			store_node_read(&in, &node);
			restore_set_open(op, parent, folder->name, folder->fd, &node, folder->fresh);
		}
		if (folder->fd >= 0)
			close(folder->fd);
		free(folder->name);
		store_buf_free(&folder->entry);
		free(folder);
		folder = parent;
	}
}

/* Removes what is in the way of `name`, unless it is a directory or `keep` says that it can stay. -1 and errno. */
static int clear_way(const struct restore_folder *folder, const char *name, bool (*keep)(const struct stat *st))
{
	struct stat st;

	if (fstatat(folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? 0 : -1;
	if (keep != NULL && keep(&st))
		return 0;
	return unlinkat(folder->fd, name, 0);
}

struct restore_linked *restore_find_linked(struct restore *op, const struct store_node *node)
{
	struct restore_linked *at = op->linked[(node->inode * 31 + node->device) % LINK_ROWS];

	while (at != NULL && (at->device != node->device || at->inode != node->inode))
		at = at->next;
	return at;
}

/* Above 0: what the snapshot has is newer; below: older. */
int restore_newer(const struct store_node *node, const struct stat *st)
{
	const struct timespec *there = &st->st_mtim;

	if (node->mtime.seconds != there->tv_sec)
		return node->mtime.seconds > there->tv_sec ? 1 : -1;
	return (node->mtime.ns > (uint32_t)there->tv_nsec) - (node->mtime.ns < (uint32_t)there->tv_nsec);
}

/* --------------------------------------------------------------------------------------------------- other things */

static struct restore_linked *add_linked(struct restore *op, struct restore_folder *folder,
					 const struct store_node *node, const char *name)
{
	struct restore_linked *linked = (struct restore_linked *)store_alloc(sizeof(*linked));
	struct restore_linked **row = &op->linked[(node->inode * 31 + node->device) % LINK_ROWS];

	linked->device = node->device;
	linked->inode = node->inode;
	linked->size = node->size;
	linked->type = node->type;
	linked->folder = folder;
	linked->name = store_strdup(name);
	linked->next = *row;
	*row = linked;
	atomic_fetch_add(&folder->users, 1);
	return linked;
}

/* A further name, when it is known what became of the first one. */
static void make_linked(struct restore *op, const struct restore_linked *first, struct restore_folder *folder,
			const char *name, bool made)
{
	struct stat st, other;
	const bool there = fstatat(folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	const bool right = made && there && fstatat(first->folder->fd, first->name, &other, AT_SYMLINK_NOFOLLOW) == 0 &&
			   st.st_dev == other.st_dev && st.st_ino == other.st_ino;

	if (!made) {
		restore_note(op, folder, name,
			     there ? "it is another name of a file that could not be restored; it is kept as it was" :
				     "it is another name of a file that could not be restored; it is left out");
		return;
	}
	if (!right && clear_way(folder, name, NULL) != 0) {
		restore_note_errno(op, folder, name, "removing what is in the way");
		return;
	}
	if (!right && linkat(first->folder->fd, first->name, folder->fd, name, 0) != 0) {
		restore_note_errno(op, folder, name, "making the link");
		return;
	}
	atomic_fetch_add(first->type == STORE_NODE_FILE ? &op->files : &op->others, 1);
	atomic_fetch_add(&op->bytes, first->size);
}

void restore_end_linked(struct restore *op, struct restore_linked *linked, bool made)
{
	pthread_mutex_lock(&op->links);
	struct waiting *waiting = linked->waiting;
	linked->waiting = NULL;
	linked->state = made ? LINK_MADE : LINK_FAILED;
	pthread_mutex_unlock(&op->links);
	while (waiting != NULL) {
		struct waiting *next = waiting->next;

		make_linked(op, linked, waiting->folder, waiting->name, made);
		restore_leave(op, waiting->folder);
		free(waiting->name);
		free(waiting);
		waiting = next;
	}
}

static void restore_linked(struct restore *op, struct restore_folder *folder, struct restore_linked *first,
			   const char *name)
{
	pthread_mutex_lock(&op->links);
	const enum link_state state = first->state;
	if (state == LINK_PENDING) {
		struct waiting *waiting = (struct waiting *)store_alloc(sizeof(*waiting));

		atomic_fetch_add(&folder->users, 1);
		*waiting = (struct waiting){folder, store_strdup(name), first->waiting};
		first->waiting = waiting;
	}
	pthread_mutex_unlock(&op->links);
	if (state != LINK_PENDING)
		make_linked(op, first, folder, name, state == LINK_MADE);
}

static int make_other(struct restore_folder *folder, const struct store_node *node, const char *name)
{
	char target[STORE_TARGET_MAX + 1];
	const dev_t device = makedev(node->major, node->minor);

	switch (node->type) {
	case STORE_NODE_LINK:
		memcpy(target, node->target, node->target_bytes);
		target[node->target_bytes] = 0;
		return symlinkat(target, folder->fd, name);
	case STORE_NODE_CHAR:
		return mknodat(folder->fd, name, S_IFCHR | 0600, device);
	case STORE_NODE_BLOCK:
		return mknodat(folder->fd, name, S_IFBLK | 0600, device);
	case STORE_NODE_FIFO:
		return mknodat(folder->fd, name, S_IFIFO | 0600, 0);
	default:
		return mknodat(folder->fd, name, S_IFSOCK | 0600, 0);
	}
}

static bool restore_other(struct restore *op, struct restore_folder *folder, const struct store_node *node,
			  const char *name)
{
	if (!folder->fresh && restore_other_is_set(op, folder, name, node)) {
		atomic_fetch_add(&op->others, 1);
		return true;
	}
	if (clear_way(folder, name, NULL) != 0) {
		restore_note_errno(op, folder, name, "removing what is in the way");
		return false;
	}
	if (make_other(folder, node, name) != 0) {
		restore_note_errno(op, folder, name, "making it");
		return false;
	}
	restore_set_closed(op, folder, name, node);
	atomic_fetch_add(&op->others, 1);
	return true;
}

/* ---------------------------------------------------------------------------------------------------------- walk */

struct frame {
	struct restore_folder *folder; /* NULL: not made, because nothing in it is included so far, or it failed */
	bool failed;
	bool single;		/* of one file: it says nothing about what else the target has */
	struct store_buf entry; /* what it is made of */
	struct store_dir dir;
	char *path; /* in the snapshot, for patterns */
	bool included;
};

struct walk {
	struct restore *op;
	struct store_codec *codec;
	const struct store_snapshot *snapshot;
	struct store_buf prefix; /* of what is restored, in the snapshot: "", "/a"; without a zero */
	struct frame *frames;
	size_t depth, room;
};

static struct frame *push(struct walk *walk, struct restore_folder *folder, const struct store_content *content,
			  char *path, bool included)
{
	if (walk->depth == walk->room) {
		walk->room = walk->room == 0 ? 16 : 2 * walk->room;
		walk->frames = (struct frame *)store_realloc(walk->frames, walk->room * sizeof(*walk->frames));
	}
	struct frame *frame = &walk->frames[walk->depth++];
	memset(frame, 0, sizeof(*frame));
	frame->folder = folder;
	frame->path = path;
	frame->included = included;
	store_dir_open(&frame->dir, walk->op->s, walk->codec, content);
	return frame;
}

static bool keep_directory(const struct stat *st)
{
	return S_ISDIR(st->st_mode);
}

/* What `overwrite` says of what is there under a name; it is counted. */
static bool stays(struct restore *op, const struct store_node *node, const struct stat *st)
{
	const enum store_overwrite overwrite = op->options->overwrite;

	if (overwrite != STORE_OVERWRITE_NEVER &&
	    (overwrite != STORE_OVERWRITE_IF_NEWER || restore_newer(node, st) > 0))
		return false;
	atomic_fetch_add(&op->kept, 1);
	return true;
}

/* NULL after a note, or when what is there is no directory and stays. */
static struct restore_folder *make_folder(struct restore *op, struct restore_folder *parent,
					  const struct store_node *node, const char *name)
{
	const bool dry = op->options->dry_run;
	struct stat st;

	if (!parent->fresh && parent->fd >= 0 && fstatat(parent->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    !S_ISDIR(st.st_mode) && stays(op, node, &st))
		return NULL;
	if (!dry && clear_way(parent, name, keep_directory) != 0) {
		restore_note_errno(op, parent, name, "removing what is in the way");
		return NULL;
	}
	bool fresh = !dry && mkdirat(parent->fd, name, 0700) == 0;
	if (!dry && !fresh && errno != EEXIST) {
		restore_note_errno(op, parent, name, "making the directory");
		return NULL;
	}
	const int fd = parent->fd < 0 ? -1 : openat(parent->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	fresh = fresh || (dry && fd < 0); /* as if it had been made */
	if (fd < 0 && !dry) {
		restore_note_errno(op, parent, name, "opening the directory");
		return NULL;
	}
	if (fd >= 0 && restore_is_repository(op, fd)) {
		restore_note(op, parent, name, "nothing is restored into it: it is the repository");
		close(fd);
		return NULL;
	}
	struct restore_folder *folder = (struct restore_folder *)store_alloc(sizeof(*folder));
	folder->parent = parent;
	folder->mounted = fd >= 0 && !fresh && op->options->delete_others && restore_is_mounted(fd);
	folder->fd = fd;
	folder->fresh = fresh;
	folder->name = store_strdup(name);
	if (!dry)
		store_buf_add(&folder->entry, node->raw, node->raw_bytes);
	atomic_store(&folder->users, 1);
	atomic_fetch_add(&parent->users, 1);
	atomic_fetch_add(&op->directories, 1);
	return folder;
}

/* The directory on top is made, and those above it that are not there yet; NULL when that failed, which was told. */
static struct restore_folder *need_folder(struct walk *walk)
{
	size_t from = walk->depth - 1;

	while (walk->frames[from].folder == NULL && !walk->frames[from].failed) /* the target is always there */
		from--;
	for (size_t i = from; i + 1 < walk->depth && walk->frames[i].folder != NULL; i++) {
		struct frame *frame = &walk->frames[i + 1];
		struct store_in in = store_in_of(frame->entry.data, frame->entry.size);
		struct store_node node;
		char name[STORE_NAME_MAX + 1];

		store_node_read(&in, &node);
		memcpy(name, node.name, node.name_bytes);
		name[node.name_bytes] = 0;
		frame->folder = make_folder(walk->op, walk->frames[i].folder, &node, name);
		frame->failed = frame->folder == NULL;
	}
	return walk->frames[walk->depth - 1].folder;
}

static void count_only(struct restore *op, const struct store_node *node)
{
	atomic_fetch_add(node->type == STORE_NODE_FILE ? &op->files : &op->others, 1);
	atomic_fetch_add(&op->bytes, node->size);
}

/* What is there under the name of what is no directory: false when it stays. */
static bool make_way(struct restore *op, const struct restore_folder *folder, const struct store_node *node,
		     const char *name, const char *path, bool included)
{
	const enum store_overwrite overwrite = op->options->overwrite;
	struct stat st;

	if (folder->fresh || folder->fd < 0 || (overwrite < STORE_OVERWRITE_IF_NEWER && !op->options->delete_others) ||
	    fstatat(folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return true;
	if (stays(op, node, &st))
		return false;
	if (!op->options->delete_others || !S_ISDIR(st.st_mode) ||
	    restore_delete_directory(op, folder, name, path, included) == 0)
		return true;
	restore_note_errno(op, folder, name, "removing what is in the way");
	return false;
}

static void visit(struct walk *walk, const struct store_node *node)
{
	struct restore *op = walk->op;
	const struct frame *frame = &walk->frames[walk->depth - 1];
	char name[STORE_NAME_MAX + 1];

	memcpy(name, node->name, node->name_bytes);
	name[node->name_bytes] = 0;
	char *path = (char *)store_alloc(strlen(frame->path) + node->name_bytes + 2);
	sprintf(path, "%s/%s", frame->path, name);
	bool included = frame->included;
	if (!restore_selects(op, path, node->type == STORE_NODE_DIR, &included) ||
	    (!included && node->type != STORE_NODE_DIR)) {
		free(path);
		return;
	}
	if (node->type == STORE_NODE_DIR) {
		/* its entry may lie in this directory's buffer, which stays until it is closed */
		struct frame *own = push(walk, NULL, &node->content, path, included);

		store_buf_add(&own->entry, node->raw, node->raw_bytes);
		if (included)
			need_folder(walk);
		return;
	}
	free(path);
	struct restore_folder *folder = need_folder(walk);
	if (folder == NULL || !make_way(op, folder, node, name, frame->path, included))
		return;
	if (op->options->dry_run) {
		count_only(op, node);
		return;
	}
	struct restore_linked *linked = NULL;
	if (node->flags & STORE_LINKED) {
		linked = restore_find_linked(op, node);
		if (linked != NULL) {
			restore_linked(op, folder, linked, name);
			return;
		}
		linked = add_linked(op, folder, node, name);
	}
	if (node->type == STORE_NODE_FILE) {
		restore_file(op, folder, node, name);
		return;
	}
	const bool made = restore_other(op, folder, node, name);
	if (linked != NULL)
		restore_end_linked(op, linked, made);
}

static void report_progress(struct restore *op, struct store_restore_stats *stats)
{
	if (op->options->progress == NULL || !store_progress_due(&op->progress_ns))
		return;
	stats->files = atomic_load(&op->files);
	stats->bytes = atomic_load(&op->bytes);
	pthread_mutex_lock(&op->notes);
	op->options->progress(op->options->user, stats);
	pthread_mutex_unlock(&op->notes);
}

/*
 * Of a directory that was gone through. Where something is mounted on a directory that the snapshot has empty, it was not mounted then or in
 * another file system that was left out.
 */
static void delete_others(struct walk *walk, const struct frame *frame)
{
	struct restore *op = walk->op;
	const struct store_content content = {frame->dir.content.data, frame->dir.content.size, 0};
	struct store_buf path = {0};

	store_buf_add(&path, walk->prefix.data, walk->prefix.size);
	store_buf_add(&path, frame->path, strlen(frame->path) + 1);
	if (!restore_knows(walk->snapshot, (const char *)path.data))
		;
	else if (frame->folder->mounted && frame->dir.last_bytes == 0)
		restore_note(op, frame->folder->parent, frame->folder->name,
			     "nothing in it is deleted: something is mounted there");
	else
		restore_delete_others(op, walk->codec, frame->folder, &content, frame->path, frame->included);
	store_buf_free(&path);
}

static void walk_tree(struct walk *walk, struct store_restore_stats *stats)
{
	struct restore *op = walk->op;
	struct store_node node;

	while (walk->depth > 0) {
		struct frame *frame = &walk->frames[walk->depth - 1];
		const int rc = store_dir_next(&frame->dir, &node);

		report_progress(op, stats);
		if (rc == 1) {
			visit(walk, &node);
			continue;
		}
		if (rc < 0) { /* the rest of this directory cannot be known */
			atomic_fetch_add(&op->errors, 1);
			pthread_mutex_lock(&op->notes);
			op->options->note(op->options->user, frame->path[0] != 0 ? frame->path : "/", store_message());
			pthread_mutex_unlock(&op->notes);
		}
		struct restore_folder *folder = frame->folder;

		if (rc == 0 && op->options->delete_others && folder != NULL && !folder->fresh && folder->fd >= 0 &&
		    !frame->single)
			delete_others(walk, frame);
		store_dir_close(&frame->dir);
		store_buf_free(&frame->entry);
		free(frame->path);
		walk->depth--;
		restore_leave(op, folder);
	}
	free(walk->frames);
}

static void free_linked(struct restore *op)
{
	for (size_t i = 0; i < LINK_ROWS; i++)
		while (op->linked[i] != NULL) {
			struct restore_linked *next = op->linked[i]->next;

			restore_leave(op, op->linked[i]->folder);
			free(op->linked[i]->name);
			free(op->linked[i]);
			op->linked[i] = next;
		}
	free(op->linked);
}

/* The contents of one file onto the device; its folder is left. */
static int begin_device(struct restore *op, struct restore_folder *folder, const struct store_node *node)
{
	const char *path = op->options->device, *name = strrchr(path, '/');

	if (node->type != STORE_NODE_FILE)
		return store_fail(STORE_E_INVAL, "a device takes the contents of one file: say SNAPSHOT:PATH of one");
	const int fd = store_device_open(path, node->size, op->options->dry_run);
	if (fd < 0)
		return fd;
	if (op->options->dry_run) {
		count_only(op, node);
		close(fd);
	} else {
		restore_onto(op, folder, node, name != NULL ? name + 1 : path, fd);
	}
	restore_leave(op, folder);
	return 0;
}

/* What is restored, as a frame: a directory's content, or one file as a directory of one. */
static int begin(struct walk *walk, const struct store_snapshot *snapshot, struct restore_folder *target)
{
	struct restore *op = walk->op;
	const struct store_content root = store_snapshot_root(snapshot);
	const char *subpath = op->options->subpath != NULL ? op->options->subpath : "/";
	struct store_buf hold = {0};
	struct store_node node;
	int rc = store_path_find(op->s, walk->codec, &root, subpath, &node, &hold);

	for (const char *at = subpath + strspn(subpath, "/"); *at != 0; at += strspn(at, "/")) {
		const size_t bytes = strcspn(at, "/");

		store_buf_u8(&walk->prefix, '/');
		store_buf_add(&walk->prefix, at, bytes);
		at += bytes;
	}
	if (rc == 0 && op->options->device != NULL) {
		rc = begin_device(op, target, &node);
	} else if (rc == 0 && node.type == STORE_NODE_DIR) {
		/* the target becomes that directory */
		if (node.raw != NULL && op->options->includes == NULL && !op->options->dry_run)
			store_buf_add(&target->entry, node.raw, node.raw_bytes);
		push(walk, target, &node.content, store_strdup(""), op->options->includes == NULL);
	} else if (rc == 0) {
		const struct store_content nothing = {0};

		push(walk, target, &nothing, store_strdup(""), true)->single = true;
		visit(walk, &node);
	}
	store_buf_free(&hold);
	return rc;
}

/* The directory, or one above it, is the repository. */
static bool in_repository(const struct restore *op, int fd)
{
	struct stat st, above = {0};
	int at = dup(fd);
	bool found = at < 0 || fstat(at, &st) != 0 || restore_is_repository(op, at);

	while (!found) {
		const int parent = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

		if (parent < 0 || fstat(parent, &above) != 0 ||
		    (above.st_ino == st.st_ino && above.st_dev == st.st_dev)) {
			if (parent >= 0)
				close(parent);
			break;
		}
		close(at);
		at = parent;
		st = above;
		found = restore_is_repository(op, at);
	}
	if (at >= 0)
		close(at);
	return found;
}

static struct restore_folder *open_target(struct restore *op)
{
	const char *device = op->options->device, *target = device != NULL ? device : op->options->target;
	const char *slash = device != NULL ? strrchr(device, '/') : NULL;
	struct restore_folder *folder = (struct restore_folder *)store_alloc(sizeof(*folder));

	folder->fd = -1;
	if (op->options->dry_run && device == NULL) { /* it may be there */
		folder->fd = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		folder->fresh = folder->fd < 0;
	} else if (device == NULL) {
		if (mkdir(target, 0700) != 0 && errno != EEXIST)
			store_fail(STORE_E_IO, "cannot make %s: %s", target, strerror(errno));
		else if ((folder->fd = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
			store_fail(STORE_E_IO, "%s: %s", target, strerror(errno));
	}
	if (folder->fd >= 0 && in_repository(op, folder->fd)) {
		store_fail(STORE_E_INVAL, "%s lies in the repository: nothing is restored there", target);
		close(folder->fd);
		folder->fd = -1;
		folder->fresh = false;
	}
	if (folder->fd < 0 && device == NULL && !folder->fresh) {
		free(folder);
		return NULL;
	}
	folder->name = store_strdup(device != NULL && slash == NULL ? "." : target);
	if (slash != NULL)
		folder->name[slash - device] = 0;
	for (size_t n = strlen(folder->name); device == NULL && n > 0 && folder->name[n - 1] == '/';)
		folder->name[--n] = 0; /* of "/" nothing is left: what is told about begins with the next one */
	atomic_store(&folder->users, 1);
	return folder;
}

int store_restore(struct store *s, const struct store_snapshot *snapshot, const struct store_restore_options *options,
		  struct store_restore_stats *stats)
{
	const uint32_t threads = store_threads(options->threads);
	struct restore *op = (struct restore *)store_alloc(sizeof(*op));
	struct restore_worker *workers = (struct restore_worker *)store_alloc((threads + 1) * sizeof(*workers));
	struct walk walk = {.op = op, .codec = &workers[threads].codec, .snapshot = snapshot};
	const struct store_pool_options pool = {.threads = threads,
						.members = workers,
						.member_bytes = sizeof(*workers),
						.job_bytes = restore_job_bytes(),
						.jobs_max = JOBS_MAX,
						.work = restore_job};
	int rc = 0;

	memset(stats, 0, sizeof(*stats));
	store_raise_descriptors();
	op->s = s;
	op->options = options;
	if (stat(s->backend->path, &op->repository) != 0)
		op->repository.st_ino = 0;
	restore_spare(op);
	op->as_root = geteuid() == 0 && !options->no_owner;
	op->owners = options->owner_names ? store_owner_map_new(&snapshot->owners) : NULL;
	op->linked = (struct restore_linked **)store_alloc(LINK_ROWS * sizeof(*op->linked));
	pthread_mutex_init(&op->notes, NULL);
	pthread_mutex_init(&op->links, NULL);
	for (uint32_t i = 0; i <= threads; i++) {
		workers[i].op = op;
		store_codec_init(&workers[i].codec, 0);
	}
	op->pool = store_pool_open(&pool);
	struct restore_folder *target = op->pool != NULL ? open_target(op) : NULL;
	if (target == NULL)
		rc = STORE_E_IO;
	if (rc == 0 && (rc = begin(&walk, snapshot, target)) == 0)
		walk_tree(&walk, stats);
	else if (target != NULL)
		restore_leave(op, target);
	store_buf_free(&walk.prefix);
	store_pool_close(op->pool);
	free_linked(op);
	store_owner_map_free(op->owners);
	free(op->spared);
	for (uint32_t i = 0; i <= threads; i++) {
		store_codec_free(&workers[i].codec);
		store_buf_free(&workers[i].blob);
		store_buf_free(&workers[i].old);
		store_buf_free(&workers[i].held);
		free(workers[i].run.memory);
	}
	stats->files = atomic_load(&op->files);
	stats->directories = atomic_load(&op->directories);
	stats->others = atomic_load(&op->others);
	stats->bytes = atomic_load(&op->bytes);
	stats->written_bytes = atomic_load(&op->written);
	stats->errors = atomic_load(&op->errors);
	stats->kept = atomic_load(&op->kept);
	stats->deleted = atomic_load(&op->deleted);
	free(workers);
	free(op);
	return rc;
}
