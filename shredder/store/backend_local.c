/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A repository in a directory. put() writes under tmp/, fsyncs, renames and fsyncs the folder: a crash leaves at most a
 * file in tmp/, which clean() removes when nobody has its lock (flock): a prune may clean while somebody writes the lock
 * file that will tell him that he has to wait.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/backend.h"
#include "store/crypto.h"
#include "store/gate.h"
#include "store/upload.h"

/* Of a file's path behind the repository's: "snapshots/" and a name, or "packs/XX/" and one. */
#define FILE_PATH_BYTES 96

/* Packs that are open: a restore reads thousands of chunks of one. */
#define OPEN_PACKS 16

struct open_pack {
	struct store_id name;
	int fd; /* -1: free */
	uint32_t users;
	uint64_t used; /* when */
};

struct local {
	struct store_backend base;
	int folder;		       /* descriptor of the repository */
	atomic_bool pack_folders[256]; /* this process has made it durable */
	pthread_mutex_t mutex;
	struct open_pack packs[OPEN_PACKS];
	uint64_t clock;
};

static int fail_errno(int code, const struct local *l, const char *what, const char *file)
{
	if (errno == ENOSPC || errno == EDQUOT)
		code = STORE_E_FULL;
	return store_fail(code, "%s %s/%s: %s", what, l->base.path, file, strerror(errno));
}

static void path_of(enum store_kind kind, const struct store_id *name, char path[FILE_PATH_BYTES])
{
	char hex[STORE_HEX_BYTES];

	if (kind == STORE_CONFIG)
		snprintf(path, FILE_PATH_BYTES, "config");
	else if (kind == STORE_PACK)
		snprintf(path, FILE_PATH_BYTES, "packs/%.2s/%s", store_hex(name, hex), hex);
	else
		snprintf(path, FILE_PATH_BYTES, "%s/%s", store_kind_name(kind), store_hex(name, hex));
}

static int local_open(struct store_backend *b)
{
	struct local *l = (struct local *)b;
	struct stat st;

	l->folder = open(b->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->folder < 0)
		return store_fail(errno == ENOENT || errno == ENOTDIR ? STORE_E_NO_STORE : STORE_E_IO, "%s: %s",
				  b->path, strerror(errno));
	if (fstatat(l->folder, "config", &st, 0) != 0)
		return store_fail(errno == ENOENT ? STORE_E_NO_STORE : STORE_E_IO,
				  "%s: there is no repository here (config: %s)", b->path, strerror(errno));
	return 0;
}

static int make_folder(const struct local *l, const char *name)
{
	if (mkdirat(l->folder, name, 0700) != 0 && errno != EEXIST)
		return fail_errno(STORE_E_IO, l, "cannot make", name);
	return 0;
}

static int local_create(struct store_backend *b)
{
	static const char *const folders[] = {"keys", "packs", "index", "snapshots", "locks", "tmp"};
	struct local *l = (struct local *)b;
	struct stat st;
	int rc = 0;

	if (mkdir(b->path, 0700) != 0 && errno != EEXIST)
		return store_fail(STORE_E_IO, "cannot make %s: %s", b->path, strerror(errno));
	l->folder = open(b->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->folder < 0)
		return store_fail(STORE_E_IO, "%s: %s", b->path, strerror(errno));
	if (fstatat(l->folder, "config", &st, 0) == 0)
		return store_fail(STORE_E_EXISTS, "%s: there is a repository already", b->path);
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders) && rc == 0; i++)
		rc = make_folder(l, folders[i]);
	if (rc == 0 && fsync(l->folder) != 0)
		rc = fail_errno(STORE_E_IO, l, "cannot write", ".");
	return rc;
}

/* How many bytes were written; fewer: errno says why. */
static size_t write_all(int fd, const uint8_t *data, size_t bytes)
{
	size_t written = 0;

	while (written < bytes) {
		const ssize_t done = write(fd, data + written, bytes - written);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			break;
		written += (size_t)done;
	}
	return written;
}

static int sync_folder(const struct local *l, const char *path)
{
	char folder[FILE_PATH_BYTES];
	char *slash;
	int rc;

	snprintf(folder, sizeof(folder), "%s", path);
	slash = strrchr(folder, '/');
	if (slash == NULL)
		return fsync(l->folder);
	*slash = 0;
	const int fd = openat(l->folder, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	rc = fsync(fd);
	close(fd);
	return rc;
}

/*
 * The folder packs/XX of a pack; it is durable before the pack is. One that is there may be of somebody who made it a moment ago, or was killed before
 * he made it durable.
 */
static int pack_folder(struct local *l, const struct store_id *name, const char *path)
{
	atomic_bool *durable = &l->pack_folders[name->bytes[0]];
	char folder[FILE_PATH_BYTES];

	if (atomic_load(durable))
		return 0;
	snprintf(folder, sizeof(folder), "%.8s", path);
	if (mkdirat(l->folder, folder, 0700) != 0 && errno != EEXIST)
		return fail_errno(STORE_E_IO, l, "cannot make", folder);
	if (sync_folder(l, folder) != 0)
		return fail_errno(STORE_E_IO, l, "cannot write", folder);
	atomic_store(durable, true);
	return 0;
}

/*
 * A file of its own under tmp/, open for writing, with its lock, so that clean() tells it from one whose writer was killed. Its name is
 * random: writers may be of several hosts or containers, where processes have the same numbers.
 */
static int make_temporary(const struct local *l, char path[FILE_PATH_BYTES], int *fd)
{
	for (;;) {
		struct store_id name;
		char hex[STORE_HEX_BYTES];
		struct stat st;

		store_random(&name, sizeof(name));
		snprintf(path, FILE_PATH_BYTES, "tmp/%s", store_hex(&name, hex));
		*fd = openat(l->folder, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (*fd < 0)
			return fail_errno(STORE_E_IO, l, "cannot make", path);
		const bool busy = flock(*fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
		if (fstat(*fd, &st) != 0) {
			const int rc = fail_errno(STORE_E_IO, l, "cannot make", path);

			close(*fd);
			return rc;
		}
		if (!busy && st.st_nlink > 0)
			return 0;
		close(*fd); /* clean() was quicker than the lock */
	}
}

/* A file under tmp/. While all that came are whole blocks it is written past the page cache, if the file system allows it. */
struct store_incoming {
	int fd;
	bool direct;
	char path[FILE_PATH_BYTES];
};

/* Says whether it can be had; the file stays as it is when not. */
static bool set_direct(int fd, bool direct)
{
	const int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && fcntl(fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

static int local_begin(struct store_backend *b, struct store_incoming **out)
{
	struct store_incoming *in = (struct store_incoming *)store_alloc(sizeof(*in));
	const int rc = make_temporary((struct local *)b, in->path, &in->fd);

	if (rc != 0) {
		free(in);
		return rc;
	}
	in->direct = set_direct(in->fd, true);
	*out = in;
	return 0;
}

static int local_add(struct store_backend *b, struct store_incoming *in, const void *data, size_t bytes)
{
	const uint8_t *from = (const uint8_t *)data;
	const bool aligned = (uintptr_t)from % STORE_ALIGN_BYTES == 0;
	const size_t blocks = in->direct && aligned ? bytes - bytes % STORE_ALIGN_BYTES : 0;
	const size_t written = write_all(in->fd, from, blocks);

	if (written < blocks && errno != EINVAL) /* which says: it wants larger blocks */
		return fail_errno(STORE_E_IO, (struct local *)b, "cannot write", in->path);
	if (written == bytes)
		return 0;
	if (in->direct && !set_direct(in->fd, false))
		return fail_errno(STORE_E_IO, (struct local *)b, "cannot write", in->path);
	in->direct = false;
	return write_all(in->fd, from + written, bytes - written) == bytes - written ?
		       0 :
		       fail_errno(STORE_E_IO, (struct local *)b, "cannot write", in->path);
}

/* What was written gets its name. -1 and errno. */
static int name_file(const struct local *l, const char *from, const char *path)
{
	store_gate_enter();
	const int rc = renameat(l->folder, from, l->folder, path) != 0 ? -1 : sync_folder(l, path);
	store_gate_leave();
	return rc;
}

static int local_end(struct store_backend *b, struct store_incoming *in, enum store_kind kind,
		     const struct store_id *name)
{
	struct local *l = (struct local *)b;
	char path[FILE_PATH_BYTES];
	int rc = 0;

	if (name != NULL) {
		path_of(kind, name, path);
		if (kind == STORE_PACK)
			rc = pack_folder(l, name, path);
		if (rc == 0 && (fsync(in->fd) != 0 || name_file(l, in->path, path) != 0))
			rc = fail_errno(STORE_E_IO, l, "cannot write", path);
	}
	if (name == NULL || rc != 0)
		unlinkat(l->folder, in->path, 0);
	close(in->fd); /* fsync() has told what was wrong; until here clean() leaves the file alone */
	free(in);
	return rc;
}

static int local_put(struct store_backend *b, enum store_kind kind, const struct store_id *name, const void *data,
		     size_t bytes)
{
	struct store_incoming *in;
	int rc = local_begin(b, &in);

	if (rc != 0)
		return rc;
	rc = local_add(b, in, data, bytes);
	if (rc == 0)
		return local_end(b, in, kind, name);
	char text[STORE_TEXT_BYTES];
	snprintf(text, sizeof(text), "%s", store_message());
	local_end(b, in, kind, NULL);
	return store_fail(rc, "%s", text);
}

/* One that is read at the moment is closed when others need its place. */
static void forget_pack(struct local *l, const struct store_id *name)
{
	pthread_mutex_lock(&l->mutex);
	for (size_t i = 0; i < OPEN_PACKS; i++)
		if (l->packs[i].fd >= 0 && l->packs[i].users == 0 && store_id_equal(&l->packs[i].name, name)) {
			close(l->packs[i].fd);
			l->packs[i].fd = -1;
			l->packs[i].used = 0;
		}
	pthread_mutex_unlock(&l->mutex);
}

/* Readers that have the old one open go on with that; the next one opens the new one. */
static int local_replace(struct store_backend *b, enum store_kind kind, const struct store_id *name, const void *data,
			 size_t bytes)
{
	const int rc = local_put(b, kind, name, data, bytes);

	if (rc == 0 && kind == STORE_PACK)
		forget_pack((struct local *)b, name);
	return rc;
}

static int open_file(const struct local *l, enum store_kind kind, const struct store_id *name, char *path, int *fd)
{
	path_of(kind, name, path);
	*fd = openat(l->folder, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (*fd >= 0)
		return 0;
	return fail_errno(errno == ENOENT ? STORE_E_ABSENT : STORE_E_IO, l, "cannot read", path);
}

/* With the mutex held: a place for one more, NULL when all are read at the moment. */
static struct open_pack *oldest_pack(struct local *l)
{
	struct open_pack *oldest = NULL;

	for (size_t i = 0; i < OPEN_PACKS; i++)
		if (l->packs[i].users == 0 && (oldest == NULL || l->packs[i].used < oldest->used))
			oldest = &l->packs[i];
	if (oldest != NULL && oldest->fd >= 0) {
		close(oldest->fd);
		oldest->fd = -1;
		oldest->used = 0;
	}
	return oldest;
}

/* Opens a file for one read. *pack: where its descriptor is kept, or NULL when it is closed by hand. */
static int take_file(struct local *l, enum store_kind kind, const struct store_id *name, char *path, int *fd,
		     struct open_pack **pack)
{
	int rc = 0;

	*pack = NULL;
	if (kind != STORE_PACK)
		return open_file(l, kind, name, path, fd);
	path_of(kind, name, path);
	pthread_mutex_lock(&l->mutex);
	for (size_t i = 0; i < OPEN_PACKS && *pack == NULL; i++)
		if (l->packs[i].fd >= 0 && store_id_equal(&l->packs[i].name, name))
			*pack = &l->packs[i];
	if (*pack == NULL && (rc = open_file(l, kind, name, path, fd)) == 0 && (*pack = oldest_pack(l)) != NULL) {
		(*pack)->name = *name;
		(*pack)->fd = *fd;
	}
	if (*pack != NULL) {
		(*pack)->users++;
		(*pack)->used = ++l->clock;
		*fd = (*pack)->fd;
	}
	pthread_mutex_unlock(&l->mutex);
	return rc;
}

static void give_file(struct local *l, int fd, struct open_pack *pack)
{
	if (pack == NULL) {
		close(fd);
		return;
	}
	pthread_mutex_lock(&l->mutex);
	pack->users--;
	pthread_mutex_unlock(&l->mutex);
}

static int local_get(struct store_backend *b, enum store_kind kind, const struct store_id *name, uint64_t offset,
		     void *to, size_t bytes)
{
	struct local *l = (struct local *)b;
	char path[FILE_PATH_BYTES];
	uint8_t *at = (uint8_t *)to;
	struct open_pack *pack;
	int fd, rc;

	rc = take_file(l, kind, name, path, &fd, &pack);
	if (rc != 0)
		return rc;
	while (rc == 0 && bytes > 0) {
		const ssize_t done = pread(fd, at, bytes, (off_t)offset);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			rc = fail_errno(STORE_E_IO, l, "cannot read", path);
		else if (done == 0)
			rc = store_fail(STORE_E_DAMAGED, "%s/%s is shorter than it was", b->path, path);
		else {
			at += done;
			offset += (uint64_t)done;
			bytes -= (size_t)done;
		}
	}
	give_file(l, fd, pack);
	return rc;
}

int store_local_open_file(struct store_backend *b, enum store_kind kind, const struct store_id *name, int *fd,
			  uint64_t *bytes)
{
	const struct local *l = (const struct local *)b;
	char path[FILE_PATH_BYTES];
	struct stat st;
	const int rc = open_file(l, kind, name, path, fd);

	if (rc != 0)
		return rc;
	if (fstat(*fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(*fd);
		return store_fail(STORE_E_DAMAGED, "%s/%s is no regular file", b->path, path);
	}
	*bytes = (uint64_t)st.st_size;
	return 0;
}

static int local_size(struct store_backend *b, enum store_kind kind, const struct store_id *name, uint64_t *bytes)
{
	const struct local *l = (const struct local *)b;
	char path[FILE_PATH_BYTES];
	struct stat st;

	path_of(kind, name, path);
	if (fstatat(l->folder, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return fail_errno(errno == ENOENT ? STORE_E_ABSENT : STORE_E_IO, l, "cannot read", path);
	if (!S_ISREG(st.st_mode))
		return store_fail(STORE_E_DAMAGED, "%s/%s is no regular file", b->path, path);
	*bytes = (uint64_t)st.st_size;
	return 0;
}

/* The files of one folder. */
static int list_folder(const struct local *l, const char *folder, store_list_fn *each, void *user)
{
	const int fd = openat(l->folder, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct dirent *entry;
	int rc = 0;

	if (fd < 0)
		return errno == ENOENT ? 0 : fail_errno(STORE_E_IO, l, "cannot read", folder);
	DIR *dir = fdopendir(fd);
	if (dir == NULL) {
		close(fd);
		return fail_errno(STORE_E_IO, l, "cannot read", folder);
	}
	while (rc == 0 && (errno = 0, entry = readdir(dir)) != NULL) {
		struct store_id name;
		struct stat st;

		if (!store_unhex(entry->d_name, &name) || fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		rc = each(user, &name, (uint64_t)st.st_size);
	}
	if (rc == 0 && errno != 0)
		rc = fail_errno(STORE_E_IO, l, "cannot read", folder);
	closedir(dir);
	return rc;
}

static int local_list(struct store_backend *b, enum store_kind kind, store_list_fn *each, void *user)
{
	const struct local *l = (const struct local *)b;
	char folder[FILE_PATH_BYTES];
	int rc = 0;

	if (kind != STORE_PACK)
		return list_folder(l, store_kind_name(kind), each, user);
	for (unsigned int i = 0; i < 256 && rc == 0; i++) {
		snprintf(folder, sizeof(folder), "packs/%02x", i);
		rc = list_folder(l, folder, each, user);
	}
	return rc;
}

static int local_remove(struct store_backend *b, enum store_kind kind, const struct store_id *name)
{
	struct local *l = (struct local *)b;
	char path[FILE_PATH_BYTES];

	path_of(kind, name, path);
	if (kind == STORE_PACK)
		forget_pack(l, name);
	store_gate_enter();
	const bool gone = unlinkat(l->folder, path, 0) == 0 || errno == ENOENT;
	store_gate_leave();
	return gone ? 0 : fail_errno(STORE_E_IO, l, "cannot remove", path);
}

static int local_settle(struct store_backend *b, enum store_kind kind)
{
	const struct local *l = (const struct local *)b;
	char path[FILE_PATH_BYTES];

	for (unsigned int i = 0; i < (kind == STORE_PACK ? 256 : 1); i++) {
		if (kind == STORE_PACK)
			snprintf(path, sizeof(path), "packs/%02x/x", i);
		else
			snprintf(path, sizeof(path), "%s/x", store_kind_name(kind));
		if (sync_folder(l, path) != 0 && errno != ENOENT)
			return fail_errno(STORE_E_IO, l, "cannot write", path);
	}
	return 0;
}

static int local_clean(struct store_backend *b)
{
	const struct local *l = (const struct local *)b;
	const int fd = openat(l->folder, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct dirent *entry;
	int rc = 0;

	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (dir == NULL) {
		rc = fail_errno(STORE_E_IO, l, "cannot read", "tmp");
		if (fd >= 0)
			close(fd);
		return rc;
	}
	while (rc == 0 && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		const int file = openat(fd, entry->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		/* in place by now, or still being written */
		const bool stays = file < 0 ? errno == ENOENT : flock(file, LOCK_EX | LOCK_NB) != 0;

		if (!stays && unlinkat(fd, entry->d_name, 0) != 0 && errno != ENOENT)
			rc = fail_errno(STORE_E_IO, l, "cannot remove a file of", "tmp");
		if (file >= 0)
			close(file);
	}
	closedir(dir);
	return rc;
}

static void local_close(struct store_backend *b)
{
	struct local *l = (struct local *)b;

	for (size_t i = 0; i < OPEN_PACKS; i++)
		if (l->packs[i].fd >= 0)
			close(l->packs[i].fd);
	if (l->folder >= 0)
		close(l->folder);
	pthread_mutex_destroy(&l->mutex);
	free(b->path);
	free(b);
}

struct store_backend *store_backend_local(const char *path)
{
	static const struct store_backend_ops ops = {.create = local_create,
						     .open = local_open,
						     .put = local_put,
						     .begin = local_begin,
						     .add = local_add,
						     .end = local_end,
						     .replace = local_replace,
						     .get = local_get,
						     .size = local_size,
						     .list = local_list,
						     .remove = local_remove,
						     .settle = local_settle,
						     .clean = local_clean,
						     .close = local_close};
	struct local *l = (struct local *)store_alloc(sizeof(*l));

	l->base.ops = &ops;
	l->base.path = store_strdup(path);
	l->folder = -1;
	pthread_mutex_init(&l->mutex, NULL);
	for (size_t i = 0; i < OPEN_PACKS; i++)
		l->packs[i].fd = -1;
	return &l->base;
}

/* ------------------------------------------------------------------------------------------------------- listing */

struct collection {
	struct store_listed *names;
	size_t count, room;
};

static int collect(void *user, const struct store_id *name, uint64_t bytes)
{
	struct collection *c = (struct collection *)user;

	if (c->count == c->room) {
		c->room = c->room == 0 ? 64 : 2 * c->room;
		c->names = (struct store_listed *)store_realloc(c->names, c->room * sizeof(*c->names));
	}
	c->names[c->count++] = (struct store_listed){*name, bytes};
	return 0;
}

int store_list_all(struct store_backend *b, enum store_kind kind, struct store_listed **names, size_t *count)
{
	struct collection c = {0};
	const int rc = b->ops->list(b, kind, collect, &c);

	if (rc != 0) {
		free(c.names);
		*names = NULL;
		*count = 0;
		return rc;
	}
	if (c.count > 1)
		qsort(c.names, c.count, sizeof(*c.names), store_id_order);
	*names = c.names;
	*count = c.count;
	return 0;
}

int store_find_name(struct store_backend *b, enum store_kind kind, const char *text, struct store_id *name)
{
	struct store_listed *names;
	size_t count, found = 0;
	char hex[STORE_HEX_BYTES];
	const int rc = store_list_all(b, kind, &names, &count);

	if (rc != 0)
		return rc;
	for (size_t i = 0; i < count && text[0] != 0; i++) {
		if (strncmp(store_hex(&names[i].name, hex), text, strlen(text)) != 0)
			continue;
		*name = names[i].name;
		found++;
	}
	free(names);
	if (found == 1)
		return 0;
	return found == 0 ? store_fail(STORE_E_NONE, "there is no %s '%s'", store_kind_word(kind), text) :
			    store_fail(STORE_E_NONE, "'%s' is the beginning of %zu names: say more of it", text, found);
}
