/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu4fs import: a tree of the host into a file system that is not mounted, or that gpu4fs serve has.
 *
 * A directory is a task: its names are made by batches, its files filled, and the directories in it become tasks. Several threads do
 * tasks, the newest first, so that what is open at a time is as much as the tree is deep. A directory gets its owner, mode and times
 * when the last one below it is done, by the thread that did that.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/progress_host.h"
#include "cli/attach.h"

const char g4_help_import[] =
	"[-v] [-j N] --image IMAGE|--socket PATH SOURCE TARGET\n\n"
	"Copies a directory of the host, with all that is in it, into a file system that is not\n"
	"mounted, or that 'gpu4fs serve' has: contents with their holes, owners, modes, times,\n"
	"extended attributes with access lists, symbolic and hard links, special files. TARGET\n"
	"is a directory, begins at the file system's root and is made where it is missing.\n"
	"A directory that is there gets what it lacks; any other name that is there is an error,\n"
	"and stays. A SOURCE that is no directory gets into TARGET by its own name.\n\n"
	"      --image IMAGE  the device with the file system, which is not mounted\n"
	"      --socket PATH  where 'gpu4fs serve' serves it\n"
	"  -j, --jobs=N       use N threads, not as many as there are processors\n"
	"  -v, --verbose      say how much was copied\n"
	"      --help         show this\n";

#define BUFFER_BYTES (1u << 20)
#define VALUE_BYTES (64u << 10)

struct item { /* a name of a directory */
	char *name;
	struct stat stat;
	bool made; /* by a batch */
};

struct directory {
	struct directory *parent, *next;
	char *name; /* in the parent; the first: "" */
	char *path; /* in the file system, for messages and hard links */
	struct stat stat;
	int fd;
	gpu4fs_file *to;
	uint32_t pending; /* itself while it is a task, and the directories in it */
	const char *only; /* the first, of a single name: that of it; NULL: all of it, and its attributes */
};

struct import {
	gpu4fs *fs;
	bool root; /* who may give files away */
	struct g4_cli_links links;
	pthread_mutex_t lock;
	pthread_cond_t changed; /* a task more, or none is left */
	struct directory *tasks;
	uint64_t unfinished;			      /* directories */
	uint64_t files, directories, bytes, failures; /* atomic */
	struct g4_progress progress;
};

struct worker {
	struct import *import;
	unsigned char *buffer, *value;
};

static void failed(struct import *import, const struct directory *dir, const char *name, int64_t rc)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s%s%s", dir->path, *name ? "/" : "", name);
	__atomic_fetch_add(&import->failures, 1, __ATOMIC_RELAXED);
	g4_cli_failed("import", path, rc);
}

static void tell(struct import *import)
{
	g4_progress_tree(&import->progress,
			 __atomic_load_n(&import->files, __ATOMIC_RELAXED) +
				 __atomic_load_n(&import->directories, __ATOMIC_RELAXED),
			 __atomic_load_n(&import->bytes, __ATOMIC_RELAXED));
}

/* ------------------------------------------------------------------ contents and attributes */

/* All of the file that is stored; holes stay holes. */
static int64_t copy_data(struct worker *worker, int from, gpu4fs_file *to, const struct stat *stat)
{
	off_t at = 0;

	while ((at = lseek(from, at, SEEK_DATA)) >= 0) {
		const off_t end = lseek(from, at, SEEK_HOLE);
		while (at < end) {
			const size_t most = end - at < BUFFER_BYTES ? (size_t)(end - at) : BUFFER_BYTES;
			if (g4_cli_interrupted())
				return -EINTR;
			const ssize_t got = pread(from, worker->buffer, most, at);
			if (got <= 0) /* 0: it has become shorter */
				return got < 0 ? -errno : 0;
			const int64_t put = gpu4fs_pwrite(to, worker->buffer, (size_t)got, at);
			if (put <= 0)
				return put < 0 ? put : -ENOSPC;
			at += put; /* fewer than were read: the next write has the engine make room, or says that there is none */
			__atomic_fetch_add(&worker->import->bytes, (uint64_t)put, __ATOMIC_RELAXED);
			tell(worker->import);
		}
	}
	if (at < 0 && errno != ENXIO)
		return -errno;
	return gpu4fs_ftruncate(to, stat->st_size);
}

/* Attributes that are no file's own on any other file system, and those that only root has to give, stay behind. */
static bool is_wanted(const struct import *import, const char *name)
{
	if (strncmp(name, "system.", 7) == 0)
		return strncmp(name, "system.posix_acl_", 17) == 0;
	return import->root || strncmp(name, "user.", 5) == 0;
}

/* A file of the host's: open, or held with O_PATH, where calls that need an open file take the path of the descriptor instead. */
struct source {
	int fd;
	const char *path; /* NULL: open */
};

static ssize_t list_of(const struct source *source, char *names, size_t bytes)
{
	return source->path == NULL ? flistxattr(source->fd, names, bytes) : listxattr(source->path, names, bytes);
}

static ssize_t value_of(const struct source *source, const char *name, void *value, size_t bytes)
{
	return source->path == NULL ? fgetxattr(source->fd, name, value, bytes) :
				      getxattr(source->path, name, value, bytes);
}

/* Ours is the handle, or without one the name in the directory. */
static int64_t copy_xattrs(struct worker *worker, const struct source *source, gpu4fs_file *to,
			   const struct directory *dir, const char *name)
{
	char *names = NULL;
	ssize_t bytes = list_of(source, NULL, 0);
	int64_t rc = 0;

	if (bytes <= 0)
		return bytes < 0 && errno != EOPNOTSUPP ? -errno : 0;
	names = malloc((size_t)bytes);
	bytes = names != NULL ? list_of(source, names, (size_t)bytes) : -1;
	rc = bytes < 0 ? -errno : 0;
	for (ssize_t at = 0; at < bytes && rc == 0; at += (ssize_t)strlen(names + at) + 1) {
		const char *its = names + at;
		if (!is_wanted(worker->import, its))
			continue;
		const ssize_t got = value_of(source, its, worker->value, VALUE_BYTES);
		if (got < 0)
			rc = errno == ENODATA ? 0 : -errno;
		else if (to != NULL)
			rc = gpu4fs_fsetxattr(to, its, worker->value, (size_t)got, 0);
		else
			rc = gpu4fs_lsetxattr(worker->import->fs, dir->to, name, its, worker->value, (size_t)got, 0);
	}
	free(names);
	return rc;
}

/* Owners first, for a change of them takes set-id bits and capabilities; times last. Set-id bits are for the owner they came with. */
static int64_t copy_attributes(struct worker *worker, const struct source *source, gpu4fs_file *to,
			       const struct directory *dir, const char *name, const struct stat *stat)
{
	const struct timespec times[2] = {stat->st_atim, stat->st_mtim};
	gpu4fs *fs = worker->import->fs;
	uint32_t mode = stat->st_mode & 07777;
	int64_t rc = to != NULL ? gpu4fs_fchown(to, stat->st_uid, stat->st_gid) :
				  gpu4fs_chown(fs, dir->to, name, stat->st_uid, stat->st_gid, AT_SYMLINK_NOFOLLOW);

	if (rc == -EPERM && !worker->import->root) {
		mode &= ~(uint32_t)(S_ISUID | S_ISGID);
		rc = 0;
	}
	if (rc == 0)
		rc = copy_xattrs(worker, source, to, dir, name);
	if (rc == 0 && to != NULL)
		rc = gpu4fs_fchmod(to, mode);
	else if (rc == 0 && !S_ISLNK(stat->st_mode))
		rc = gpu4fs_lchmod(fs, dir->to, name, mode);
	if (rc == 0)
		rc = to != NULL ? gpu4fs_futimens(to, times) :
				  gpu4fs_utimens(fs, dir->to, name, times, AT_SYMLINK_NOFOLLOW);
	return rc;
}

/* ------------------------------------------------------------------ one name */

/*
 * Opens what was listed, or holds what has no contents, and takes its attributes as they are now. Others may have put something else
 * there since, which may be what they can not read: that is an error, and a FIFO is not waited for.
 */
static int open_item(const struct directory *dir, struct item *item)
{
	const int how = S_ISREG(item->stat.st_mode) ? O_RDONLY | O_NONBLOCK : O_PATH;
	const int fd = openat(dir->fd, item->name, how | O_NOFOLLOW | O_CLOEXEC);
	struct stat now;
	int rc = fd < 0 || fstat(fd, &now) != 0 ? -errno : 0;

	if (rc == 0 && (now.st_dev != item->stat.st_dev || now.st_ino != item->stat.st_ino ||
			(now.st_mode & S_IFMT) != (item->stat.st_mode & S_IFMT)))
		rc = -ESTALE;
	if (rc == 0)
		item->stat = now;
	else if (fd >= 0)
		close(fd);
	return rc < 0 ? rc : fd;
}

static int64_t fill_file(struct worker *worker, const struct source *from, const struct directory *dir,
			 const struct item *item)
{
	gpu4fs_file *to = NULL;
	int64_t rc = gpu4fs_open(worker->import->fs, dir->to, item->name, O_WRONLY | O_NOFOLLOW, 0, &to);

	if (rc < 0)
		return rc;
	rc = copy_data(worker, from->fd, to, &item->stat);
	if (rc == 0)
		rc = copy_attributes(worker, from, to, dir, item->name, &item->stat);
	gpu4fs_close(to);
	return rc;
}

static int64_t make_link(struct import *import, int from, const struct directory *dir, const struct item *item)
{
	char target[PATH_MAX];
	const ssize_t bytes = readlinkat(from, "", target, sizeof(target) - 1);

	if (bytes < 0)
		return -errno;
	target[bytes] = '\0';
	return gpu4fs_symlink(import->fs, target, dir->to, item->name);
}

static int64_t make_name(struct import *import, int from, const struct directory *dir, struct item *item)
{
	const mode_t mode = item->stat.st_mode;
	const int64_t rc = S_ISLNK(mode) ? make_link(import, from, dir, item) :
					   gpu4fs_mknod(import->fs, dir->to, item->name, (mode & S_IFMT) | 0600,
							S_ISCHR(mode) || S_ISBLK(mode) ? item->stat.st_rdev : 0);

	item->made = rc == 0;
	return rc;
}

static int64_t link_to(struct import *import, const char *first, const struct directory *dir, const char *name)
{
	gpu4fs_file *at;
	const char *last;
	int64_t rc = g4_cli_open_above(import->fs, first, &at, &last);

	if (rc == 0)
		rc = gpu4fs_link(import->fs, at, last, dir->to, name, 0);
	if (at != NULL)
		gpu4fs_close(at);
	return rc;
}

static bool note_first(struct import *import, const struct directory *dir, const struct item *item)
{
	char *path;

	if (asprintf(&path, "%s/%s", dir->path, item->name) < 0)
		return false;
	const bool noted = g4_cli_links_note(&import->links, item->stat.st_dev, item->stat.st_ino, path);
	free(path);
	return noted;
}

/* The first name of a file with several makes it; 1: another one has, and this is a link to it. */
static int64_t make_or_link(struct import *import, int from, const struct directory *dir, struct item *item)
{
	if (item->made)
		return 0;
	if (item->stat.st_nlink < 2)
		return make_name(import, from, dir, item);
	pthread_mutex_lock(&import->links.lock);
	const char *first = g4_cli_links_find(&import->links, item->stat.st_dev, item->stat.st_ino);
	int64_t rc = first != NULL ? link_to(import, first, dir, item->name) : -ENOENT;
	if (rc == 0) {
		rc = 1;
	} else if (rc == -ENOENT) { /* also: the first is gone again, for it could not be filled */
		rc = make_name(import, from, dir, item);
		if (rc == 0 && !note_first(import, dir, item))
			rc = -ENOMEM;
	}
	pthread_mutex_unlock(&import->links.lock);
	return rc;
}

/* What was made of a name that fails goes again: with it in the way the next import would fail, too. */
static void copy_item(struct worker *worker, const struct directory *dir, struct item *item)
{
	struct import *import = worker->import;
	const bool regular = S_ISREG(item->stat.st_mode);
	char path[64];
	const struct source from = {.fd = open_item(dir, item), .path = regular ? NULL : path};
	int64_t rc = from.fd < 0 ? from.fd : make_or_link(import, from.fd, dir, item);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", from.fd);
	if (rc == 0)
		rc = regular ? fill_file(worker, &from, dir, item) :
			       copy_attributes(worker, &from, NULL, dir, item->name, &item->stat);
	if (from.fd >= 0)
		close(from.fd);
	if (rc >= 0) {
		__atomic_fetch_add(&import->files, 1, __ATOMIC_RELAXED);
		tell(import);
		return;
	}
	failed(import, dir, item->name, rc);
	if (item->made && (rc = gpu4fs_unlink(import->fs, dir->to, item->name)) < 0)
		failed(import, dir, item->name, rc);
}

/* ------------------------------------------------------------------ directories */

static void push(struct import *import, struct directory *dir)
{
	pthread_mutex_lock(&import->lock);
	dir->next = import->tasks;
	import->tasks = dir;
	import->unfinished++;
	pthread_cond_signal(&import->changed);
	pthread_mutex_unlock(&import->lock);
}

static void free_directory(struct directory *dir)
{
	if (dir->to != NULL)
		gpu4fs_close(dir->to);
	if (dir->fd >= 0)
		close(dir->fd);
	free(dir->name);
	free(dir->path);
	free(dir);
}

/* One that it waited for is done: when it was the last, so is the directory, and then its parent has one less. */
static void let_go(struct worker *worker, struct directory *dir)
{
	struct import *import = worker->import;

	while (dir != NULL && __atomic_sub_fetch(&dir->pending, 1, __ATOMIC_ACQ_REL) == 0) {
		struct directory *parent = dir->parent;
		const struct source from = {.fd = dir->fd};
		if (dir->to != NULL && dir->only == NULL && !g4_cli_interrupted()) {
			const int64_t rc = copy_attributes(worker, &from, dir->to, dir, "", &dir->stat);
			if (rc < 0)
				failed(import, dir, "", rc);
			__atomic_fetch_add(&import->directories, 1, __ATOMIC_RELAXED);
			tell(import);
		}
		free_directory(dir);
		pthread_mutex_lock(&import->lock);
		if (--import->unfinished == 0)
			pthread_cond_broadcast(&import->changed);
		pthread_mutex_unlock(&import->lock);
		dir = parent;
	}
}

/* A directory in another one, or the first. NULL: no memory. */
static struct directory *new_directory(struct directory *parent, const char *name, const char *path,
				       const struct stat *stat)
{
	struct directory *dir = calloc(1, sizeof(*dir));

	if (dir == NULL)
		return NULL;
	dir->fd = -1;
	dir->parent = parent;
	dir->stat = *stat;
	dir->pending = 1;
	dir->name = strdup(name);
	if (asprintf(&dir->path, "%s%s%s", path, parent != NULL ? "/" : "", name) < 0)
		dir->path = NULL;
	if (dir->name == NULL || dir->path == NULL) {
		free_directory(dir);
		return NULL;
	}
	if (parent != NULL)
		__atomic_fetch_add(&parent->pending, 1, __ATOMIC_RELAXED);
	return dir;
}

static int list(const struct directory *dir, struct item **items, size_t *count)
{
	size_t room = 0;
	const int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (stream == NULL) {
		const int error = errno;
		if (fd >= 0)
			close(fd);
		return -error;
	}
	while (errno = 0, (entry = readdir(stream)) != NULL) {
		struct item item = {.name = NULL};
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    (dir->only != NULL && strcmp(entry->d_name, dir->only) != 0))
			continue;
		if (fstatat(dir->fd, entry->d_name, &item.stat, AT_SYMLINK_NOFOLLOW) != 0) {
			if (errno == ENOENT) /* gone meanwhile */
				continue;
			break;
		}
		if (*count == room) {
			struct item *more = realloc(*items, (room = room ? 2 * room : 64) * sizeof(*more));
			if (more == NULL)
				break;
			*items = more;
		}
		item.name = strdup(entry->d_name);
		if (item.name == NULL)
			break;
		(*items)[(*count)++] = item;
	}
	const int error = errno;
	closedir(stream);
	return -error;
}

/* Whether a batch makes it: all but links, devices and files with several names. */
static bool is_for_batch(const struct item *item)
{
	const mode_t type = item->stat.st_mode & S_IFMT;

	return type == S_IFDIR || ((type == S_IFREG || type == S_IFIFO || type == S_IFSOCK) && item->stat.st_nlink < 2);
}

/* Makes the names that batches can make; what is wrong with one is said here, and the name forgotten. */
static int make_names(struct import *import, const struct directory *dir, struct item *items, size_t count)
{
	struct gpu4fs_batch_entry *entries = calloc(count ? count : 1, sizeof(*entries));
	uint32_t n = 0;

	if (entries == NULL)
		return -ENOMEM;
	for (size_t k = 0; k < count; k++) {
		if (!is_for_batch(&items[k]))
			continue;
		const bool directory = S_ISDIR(items[k].stat.st_mode);
		entries[n++] = (struct gpu4fs_batch_entry){
			.op = directory ? GPU4FS_BATCH_MKDIR : GPU4FS_BATCH_CREATE,
			.mode = directory ? 0700 : (items[k].stat.st_mode & S_IFMT) | 0600,
			.path = items[k].name,
		};
	}
	const int64_t rc = gpu4fs_batch(import->fs, dir->to, entries, n, 0);
	n = 0;
	for (size_t k = 0; k < count && rc >= 0; k++) {
		if (!is_for_batch(&items[k]))
			continue;
		const int result = entries[n++].result;
		items[k].made = result == 0 || (result == -EEXIST && S_ISDIR(items[k].stat.st_mode));
		if (!items[k].made)
			failed(import, dir, items[k].name, result);
	}
	free(entries);
	return rc < 0 ? (int)rc : 0;
}

static int open_both(struct import *import, struct directory *dir)
{
	if (dir->fd < 0)
		dir->fd = openat(dir->parent->fd, dir->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* it may be another one than was listed, with other rights */
	if (dir->fd < 0 || fstat(dir->fd, &dir->stat) != 0)
		return -errno;
	if (dir->to != NULL)
		return 0;
	return gpu4fs_open(import->fs, dir->parent->to, dir->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, &dir->to);
}

static void do_directory(struct worker *worker, struct directory *dir)
{
	struct import *import = worker->import;
	struct item *items = NULL;
	size_t count = 0;
	int rc = open_both(import, dir);

	if (rc == 0)
		rc = list(dir, &items, &count);
	if (rc == 0)
		rc = make_names(import, dir, items, count);
	if (rc < 0)
		failed(import, dir, "", rc);
	for (size_t k = 0; k < count; k++) {
		if (rc == 0 && !g4_cli_interrupted() && S_ISDIR(items[k].stat.st_mode)) {
			struct directory *below =
				items[k].made ? new_directory(dir, items[k].name, dir->path, &items[k].stat) : NULL;
			if (below != NULL)
				push(import, below);
			else if (items[k].made)
				failed(import, dir, items[k].name, -ENOMEM);
		} else if (rc == 0 && !g4_cli_interrupted() && (items[k].made || !is_for_batch(&items[k]))) {
			copy_item(worker, dir, &items[k]);
		}
		free(items[k].name);
	}
	free(items);
	let_go(worker, dir);
}

static void *work(void *context)
{
	struct worker *worker = context;
	struct import *import = worker->import;

	pthread_mutex_lock(&import->lock);
	while (import->unfinished > 0) {
		struct directory *dir = import->tasks;
		if (dir == NULL) {
			pthread_cond_wait(&import->changed, &import->lock);
			continue;
		}
		import->tasks = dir->next;
		pthread_mutex_unlock(&import->lock);
		do_directory(worker, dir);
		pthread_mutex_lock(&import->lock);
	}
	pthread_mutex_unlock(&import->lock);
	return NULL;
}

/* ------------------------------------------------------------------ all of it */

static int run_workers(struct import *import, long jobs)
{
	struct worker workers[G4_CLI_MOST_JOBS];
	pthread_t ids[G4_CLI_MOST_JOBS];
	long ready = 0, started = 1;

	for (; ready < jobs; ready++) {
		workers[ready] =
			(struct worker){.import = import, .buffer = malloc(BUFFER_BYTES), .value = malloc(VALUE_BYTES)};
		if (workers[ready].buffer == NULL || workers[ready].value == NULL)
			break;
	}
	const int rc = ready > 0 ? 0 : -ENOMEM;
	while (started < ready && pthread_create(&ids[started], NULL, work, &workers[started]) == 0)
		started++;
	if (rc == 0)
		work(&workers[0]);
	for (long k = 1; k < started && rc == 0; k++)
		pthread_join(ids[k], NULL);
	for (long k = 0; k < jobs && k <= ready; k++) {
		free(workers[k].buffer);
		free(workers[k].value);
	}
	return rc;
}

/* The directory of the host that is copied; of another name the one that it is in, and the name in *only. */
static int open_source(const char *source, const char **only)
{
	const char *slash = strrchr(source, '/');
	struct stat stat;
	int fd = open(source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	*only = NULL;
	if (fd >= 0 || lstat(source, &stat) != 0 || S_ISDIR(stat.st_mode))
		return fd;
	*only = slash != NULL ? slash + 1 : source;
	char *above = slash == NULL ? strdup(".") : strndup(source, slash > source ? (size_t)(slash - source) : 1);
	fd = above != NULL ? open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	free(above);
	return fd;
}

static int import_tree(struct import *import, const char *source, const char *target, long jobs)
{
	const char *only;
	struct stat stat;
	const int fd = open_source(source, &only);

	if (fd < 0 || fstat(fd, &stat) != 0) {
		const int error = errno;
		if (fd >= 0)
			close(fd);
		g4_cli_error("import", "%s: %s", source, strerror(error));
		return -error;
	}
	struct directory *top = new_directory(NULL, "", strcmp(target, "/") == 0 ? "" : target, &stat);
	int rc = top == NULL ? -ENOMEM : gpu4fs_mkdir_all(import->fs, NULL, target, only != NULL ? 0755 : 0700, NULL);
	if (rc == 0)
		rc = g4_cli_open_directory(import->fs, target, 0, &top->to);
	if (rc < 0) {
		g4_cli_error("import", "%s: %s", target, g4_cli_why(-rc));
		if (top != NULL)
			free_directory(top);
		close(fd);
		return rc;
	}
	top->fd = fd;
	top->only = only;
	push(import, top);
	g4_progress_start(&import->progress, "import");
	rc = run_workers(import, jobs);
	g4_progress_clear(&import->progress);
	return rc;
}

static int run(const char *image, const char *socket, char **words, long jobs, bool verbose)
{
	struct import import = {.root = geteuid() == 0};

	import.fs = g4_cli_attach("import", image, socket);
	if (import.fs == NULL)
		return G4_EXIT_FAILURE;
	g4_cli_links_begin(&import.links);
	pthread_mutex_init(&import.lock, NULL);
	pthread_cond_init(&import.changed, NULL);
	g4_cli_allow_open_files();
	g4_cli_catch_interrupts();
	int rc = import_tree(&import, words[0], words[1], jobs);
	const int unmounted = g4_cli_detach("import", import.fs, image != NULL ? image : socket);
	if (g4_cli_ended_early("import") && rc == 0)
		rc = -EINTR;
	if (rc == 0)
		rc = unmounted;
	if (verbose)
		printf("%llu %s, %llu other %s, %llu %s\n", (unsigned long long)import.directories,
		       g4_counted(import.directories, "directory", "directories"), (unsigned long long)import.files,
		       g4_counted(import.files, "name", "names"), (unsigned long long)import.bytes,
		       g4_counted(import.bytes, "byte", "bytes"));
	g4_cli_links_end(&import.links);
	pthread_cond_destroy(&import.changed);
	pthread_mutex_destroy(&import.lock);
	return rc == 0 && import.failures == 0 ? G4_EXIT_OK : G4_EXIT_FAILURE;
}

int g4_cli_import(int argc, char **argv)
{
	static const struct option long_options[] = {{"image", required_argument, NULL, 'i'},
						     {"socket", required_argument, NULL, 's'},
						     {"jobs", required_argument, NULL, 'j'},
						     {"verbose", no_argument, NULL, 'v'},
						     {NULL, 0, NULL, 0}};
	const char *image = NULL, *socket = NULL;
	long jobs = g4_cli_jobs();
	bool verbose = false;

	for (int answer; (answer = getopt_long(argc, argv, ":j:v", long_options, NULL)) != -1;) {
		if (answer == 'i')
			image = optarg;
		else if (answer == 's')
			socket = optarg;
		else if (answer == 'v')
			verbose = true;
		else if (answer == 'j' && !g4_cli_parse_jobs(optarg, &jobs))
			return g4_cli_usage("import", "-j is a number from 1 to %d, not '%s'", G4_CLI_MOST_JOBS,
					    optarg);
		else if (answer != 'j')
			return g4_cli_bad_option("import", answer, argv);
	}
	if ((image == NULL) == (socket == NULL))
		return g4_cli_usage("import", "one of --image and --socket is needed");
	if (argc - optind != 2)
		return g4_cli_usage("import", "a directory of the host and one of the file system are needed");
	if (argv[optind + 1][0] != '/')
		return g4_cli_usage("import", "'%s' does not begin at the file system's root", argv[optind + 1]);
	return run(image, socket, argv + optind, jobs, verbose);
}
