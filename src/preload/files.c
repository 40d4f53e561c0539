/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors. A file that the engine serves has a number of the kernel all the same: an O_PATH descriptor of the mount's
 * directory, its placeholder, with which the kernel does nothing but count, copy and close it. When a process is to have the file that
 * has not this library's memory, it is settled: the server opens it in the kernel, and that takes the placeholders' numbers.
 *
 * Locks: a file's lock before the table's. The table's is a leaf.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/beneath.h"
#include "preload/settle.h"
#include "ring/serve_host.h"

/* What F_GETFL shows. */
#define KEPT_FLAGS (O_ACCMODE | O_APPEND | O_SYNC | O_DSYNC | O_DIRECT | O_NOATIME | O_NONBLOCK | O_DIRECTORY)

static struct g4p_file *table[G4P_FILES];
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static int table_end; /* behind the largest number that was ever used */
static uint32_t table_used;
/*
 * Files of which the process has had record locks. One that is handed over arrives under a number of its own, which is closed when the
 * file has its place, and with each number of a file that is closed the locks of the process go. So all that stands for such a file is
 * the kernel's before the first lock, and from the start afterwards. Guarded by table_lock.
 */
#define LOCKED_MAX 256u
static struct {
	const struct g4p_mount *mount;
	uint64_t ino;
} locked[LOCKED_MAX];
static uint32_t locked_count; /* more than LOCKED_MAX: all files count as such */
/*
 * Stands in the table for a number that an open has which is under way: nobody's file, but the child of a fork, where nobody
 * waits for it, knows the number. Never given back to the last.
 */
static struct g4p_file reserved = {.refs = 1u << 30};
static int copied = -1; /* the number of a placeholder, to copy; guarded by table_lock */

bool g4p_any_files(void)
{
	return __atomic_load_n(&table_used, __ATOMIC_RELAXED) > 0;
}

int g4p_files_end(void)
{
	return __atomic_load_n(&table_end, __ATOMIC_RELAXED);
}

bool g4p_is_ours(int fd)
{
	return fd >= 0 && fd < (int)G4P_FILES && __atomic_load_n(&table[fd], __ATOMIC_RELAXED);
}

struct g4p_file *g4p_get(int fd)
{
	struct g4p_file *file;
	struct g4p_calm calm;

	if (!g4p_is_ours(fd))
		return NULL;
	const bool calmed = g4p_calm(&calm);
	pthread_mutex_lock(&table_lock);
	file = table[fd] != &reserved ? table[fd] : NULL;
	if (file)
		file->refs++;
	pthread_mutex_unlock(&table_lock);
	if (calmed)
		g4p_restless(&calm);
	return file;
}

void g4p_put(struct g4p_file *file)
{
	struct g4p_calm calm;
	const bool calmed = g4p_calm(&calm);

	pthread_mutex_lock(&table_lock);
	const uint32_t refs = --file->refs;
	pthread_mutex_unlock(&table_lock);
	if (refs == 0) {
		g4c_close_soon(file->handle);
		pthread_rwlock_destroy(&file->lock);
		free(file);
	}
	if (calmed)
		g4p_restless(&calm);
}

/* The number's place has another file, or none; what was there comes back for g4p_put(). Table locked. */
static struct g4p_file *replace(int fd, struct g4p_file *file)
{
	struct g4p_file *old = table[fd];

	__atomic_store_n(&table[fd], file, __ATOMIC_RELAXED);
	__atomic_add_fetch(&table_used, (file != NULL) - (old != NULL), __ATOMIC_RELAXED);
	if (fd >= table_end)
		table_end = fd + 1;
	return old;
}

void g4p_set(int fd, struct g4p_file *file)
{
	struct g4p_file *old;
	struct g4p_calm calm;

	if (fd < 0 || fd >= (int)G4P_FILES)
		return;
	const bool calmed = g4p_calm(&calm);
	pthread_mutex_lock(&table_lock);
	if (file)
		file->refs++;
	old = replace(fd, file);
	pthread_mutex_unlock(&table_lock);
	if (old)
		g4p_put(old);
	if (calmed)
		g4p_restless(&calm);
}

void g4p_forget(int fd)
{
	if (fd >= 0 && fd < (int)G4P_FILES && __atomic_load_n(&table[fd], __ATOMIC_RELAXED))
		g4p_set(fd, NULL);
}

void g4p_number_goes(int fd)
{
	struct g4p_calm calm;
	const bool calmed = g4p_calm(&calm);

	pthread_mutex_lock(&table_lock);
	if (copied == fd)
		copied = -1;
	pthread_mutex_unlock(&table_lock);
	if (calmed)
		g4p_restless(&calm);
}

static int open_placeholder(const struct g4p_mount *mount, int flags)
{
	int fd;

	do
		fd = (int)syscall(SYS_openat, AT_FDCWD, mount->directory, O_PATH | O_DIRECTORY | (flags & O_CLOEXEC));
	while (fd < 0 && errno == EINTR);
	return fd < 0 ? -errno : fd;
}

/* A copy of another placeholder takes a quarter of the time that the path takes. */
int g4p_reserve(const struct g4p_mount *mount, int flags)
{
	int fd = -1;

	pthread_mutex_lock(&table_lock);
	if (copied >= 0 && table[copied] && table[copied]->mount == mount && !table[copied]->hidden)
		fd = (int)syscall(SYS_fcntl, copied, flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
	if (fd >= 0 && fd < (int)G4P_FILES)
		replace(fd, &reserved);
	pthread_mutex_unlock(&table_lock);
	if (fd < 0) {
		fd = open_placeholder(mount, flags);
		if (fd >= 0)
			g4p_set(fd, &reserved);
	}
	if (fd >= (int)G4P_FILES) {
		syscall(SYS_close, fd);
		fd = -EMFILE;
	}
	return fd;
}

void g4p_unreserve(int fd)
{
	g4p_set(fd, NULL);
	syscall(SYS_close, fd);
}

static bool is_locked(const struct g4p_mount *mount, uint64_t ino)
{
	for (uint32_t i = 0; i < locked_count && i < LOCKED_MAX; i++)
		if (locked[i].mount == mount && locked[i].ino == ino)
			return true;
	return locked_count > LOCKED_MAX;
}

/*
 * The number is a placeholder of the file from now on. False: a file that has record locks has none, and none has one when all has become the
 * kernel's while it was opened.
 */
static bool give_number(int fd, struct g4p_file *file)
{
	struct g4p_file *old = NULL;

	pthread_mutex_lock(&table_lock);
	const bool may = !__atomic_load_n(&file->mount->off, __ATOMIC_RELAXED) &&
			 (file->directory || !is_locked(file->mount, g4c_inode_of(file->handle)));
	if (may) {
		file->refs++;
		old = replace(fd, file);
		if (copied < 0 || !table[copied] || table[copied]->mount != file->mount || table[copied]->hidden)
			copied = fd;
	}
	pthread_mutex_unlock(&table_lock);
	if (old)
		g4p_put(old);
	return may;
}

/* The kernel's from the start, under the number that it comes with. */
static int hand_over_at_once(const struct g4p_file *file, int flags)
{
	const int fd = g4c_hand_over(file->handle, file->flags);

	if (fd >= 0 && !(flags & O_CLOEXEC))
		syscall(SYS_fcntl, fd, F_SETFD, 0);
	return fd;
}

int g4p_install(struct g4p_mount *mount, gpu4fs *fs, gpu4fs_file *handle, int flags, int number)
{
	struct g4p_file *file = calloc(1, sizeof(*file));
	int fd = number;

	if (!file) {
		if (number >= 0)
			g4p_unreserve(number);
		gpu4fs_close(handle);
		return -ENOMEM;
	}
	*file = (struct g4p_file){.refs = 1,
				  .directory = g4c_is_directory(handle),
				  .flags = flags & KEPT_FLAGS,
				  .handle = handle,
				  .mount = mount,
				  .fs = fs};
	pthread_rwlock_init(&file->lock, NULL);
	if (fd < 0)
		fd = g4p_reserve(mount, flags);
	if (fd >= 0 && !give_number(fd, file)) {
		g4p_unreserve(fd);
		fd = hand_over_at_once(file, flags);
	}
	g4p_put(file);
	return fd;
}

/* ------------------------------------------------------------------ becoming the kernel's */

static int open_nothing(void)
{
	const int fd = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_PATH | O_CLOEXEC);

	return fd >= 0 ? fd : (int)syscall(SYS_epoll_create1, EPOLL_CLOEXEC); /* another root, without devices */
}

/*
 * A copy of fd in the place of a placeholder. Where the number is above a limit that was lowered meanwhile, nothing may have it, and it is closed:
 * a path that begins at a placeholder would begin at the mount's root.
 */
static void put(int fd, int number)
{
	const int kept = (int)syscall(SYS_fcntl, number, F_GETFD);

	if (syscall(SYS_dup3, fd, number, kept & FD_CLOEXEC ? O_CLOEXEC : 0) < 0)
		syscall(SYS_close, number);
}

/* In the place of a placeholder: the number stays in use, but no path begins there. False: another thread has got the number. */
static bool put_nothing(int number)
{
	const int kept = (int)syscall(SYS_fcntl, number, F_GETFD);
	int fd = open_nothing();

	if (fd >= 0) {
		put(fd, number);
		syscall(SYS_close, fd);
		return true;
	}
	syscall(SYS_close, number); /* no number is free but this one */
	fd = open_nothing();
	if (fd != number && fd >= 0)
		syscall(SYS_close, fd);
	else if (!(kept & FD_CLOEXEC))
		syscall(SYS_fcntl, fd, F_SETFD, 0);
	return fd == number;
}

/* The number is no placeholder of the file any more, who has it now. Table locked. */
static void drop_number(int number, struct g4p_file *file)
{
	replace(number, NULL);
	file->refs--; /* not the last: the caller has one */
}

/*
 * Puts the kernel's description under each number of the file; fd -1: there is none, and they are nothing's. Whether fd is one of these numbers
 * itself. Table locked.
 */
static bool take_numbers(struct g4p_file *file, int fd)
{
	bool own = false;

	for (int i = 0; i < table_end; i++) {
		if (table[i] != file)
			continue;
		if (i == fd)
			own = true;
		else if (fd >= 0)
			put(fd, i);
		else
			(void)put_nothing(i);
		drop_number(i, file);
	}
	return own;
}

/* The number was closed for a moment, and is to be a placeholder again, of the file or, where fd is given, a copy of that. Table locked. */
static void put_back(int number, int fd, int kept, struct g4p_file *file)
{
	const int found = fd >= 0 ? (int)syscall(SYS_fcntl, fd, kept & FD_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, number) :
				    open_placeholder(file->mount, kept & FD_CLOEXEC ? O_CLOEXEC : 0);

	if (found == number)
		return;
	if (found >= 0)
		syscall(SYS_close, found);
	drop_number(number, file); /* another thread has got it */
}

/* Which of a file's numbers was closed for what is handed over, when no other was free. */
struct room {
	struct g4p_file *file;
	int first;  /* the least that may be */
	int number; /* -1: none was */
	int kept;   /* of it, as F_GETFD says */
	bool locked;
};

/* From here on the table is locked: the library's other threads cannot get the number. Where the program does by itself, it is what that made of it. */
static void make_room(void *context)
{
	struct room *room = context;
	struct rlimit limit;

	pthread_mutex_lock(&table_lock);
	room->locked = true;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	for (int i = room->first; room->number < 0 && i < table_end && (rlim_t)i < limit.rlim_cur; i++)
		if (table[i] == room->file)
			room->number = i;
	if (room->number < 0)
		return;
	room->kept = (int)syscall(SYS_fcntl, room->number, F_GETFD);
	syscall(SYS_close, room->number);
}

/*
 * No number is free: the kernel's descriptor comes under one of the file's own. Returns what g4c_hand_over() does, and with the table locked. While
 * the server is waited for it is not: other threads have nothing to do with that.
 */
static int hand_over_in_place(struct g4p_file *file)
{
	struct room room = {.file = file, .number = -1};
	const struct g4_make_room by = {make_room, &room};

	for (;;) {
		const int fd = g4c_hand_over_in(file->handle, file->flags, &by);
		if (!room.locked)
			pthread_mutex_lock(&table_lock);
		if (room.number >= 0 && fd != room.number)
			put_back(room.number, fd, room.kept, file);
		else if (room.number >= 0 && !(room.kept & FD_CLOEXEC))
			syscall(SYS_fcntl, fd, F_SETFD, 0);
		if (fd != -EMFILE || room.number < 0)
			return fd;
		room = (struct room){.file = file, .first = room.number + 1, .number = -1};
		pthread_mutex_unlock(&table_lock);
	}
}

int g4p_settle_file(struct g4p_file *file)
{
	int fd = 0;

	pthread_rwlock_wrlock(&file->lock);
	if (!file->settled) {
		const int64_t position = file->directory ? 0 : gpu4fs_lseek(file->handle, 0, SEEK_CUR);

		fd = position < 0 ? (int)position : g4c_hand_over(file->handle, file->flags);
		if (fd == -EMFILE)
			fd = hand_over_in_place(file);
		else
			pthread_mutex_lock(&table_lock);
		if (fd >= 0) {
			if (position > 0)
				syscall(SYS_lseek, fd, position, SEEK_SET);
			if (!take_numbers(file, fd))
				syscall(SYS_close, fd);
			file->settled = true;
		}
		pthread_mutex_unlock(&table_lock);
	}
	pthread_rwlock_unlock(&file->lock);
	return fd < 0 ? fd : 0;
}

void g4p_lose_file(struct g4p_file *file)
{
	pthread_rwlock_wrlock(&file->lock);
	pthread_mutex_lock(&table_lock);
	if (!file->settled)
		(void)take_numbers(file, -1);
	pthread_mutex_unlock(&table_lock);
	file->settled = true;
	pthread_rwlock_unlock(&file->lock);
}

void g4p_hide_file(struct g4p_file *file)
{
	pthread_rwlock_wrlock(&file->lock);
	pthread_mutex_lock(&table_lock);
	for (int i = 0; !file->settled && i < table_end; i++) {
		if (table[i] != file)
			continue;
		if (copied == i)
			copied = -1;
		if (!put_nothing(i))
			drop_number(i, file);
	}
	file->hidden = true;
	pthread_mutex_unlock(&table_lock);
	pthread_rwlock_unlock(&file->lock);
}

bool g4p_settle(int fd, enum g4p_number number)
{
	struct g4p_file *file = g4p_get(fd);
	struct g4p_calm calm;

	if (!file)
		return true;
	bool calmed = g4p_calm(&calm);
	int rc = g4p_settle_file(file);
	g4p_put(file);
	if (calmed)
		g4p_restless(&calm);
	g4p_count(number, G4P_SETTLED_ANSWER);
	if (rc < 0)
		errno = -rc;
	return rc == 0;
}

/* A placeholder's file of the inode, with a reference; NULL: there is none. */
static struct g4p_file *next_of_inode(const struct g4p_mount *mount, uint64_t ino)
{
	struct g4p_file *file = NULL;

	pthread_mutex_lock(&table_lock);
	for (int i = 0; i < table_end && !file; i++)
		if (table[i] && table[i]->mount == mount && g4c_inode_of(table[i]->handle) == ino)
			file = table[i];
	if (file)
		file->refs++;
	pthread_mutex_unlock(&table_lock);
	return file;
}

bool g4p_has_inode(const struct g4p_mount *mount, uint64_t ino)
{
	struct g4p_file *file = next_of_inode(mount, ino);

	if (file)
		g4p_put(file);
	return file != NULL;
}

void g4p_settle_inode(const struct g4p_mount *mount, uint64_t ino)
{
	struct g4p_file *file;
	bool settled = true;

	pthread_mutex_lock(&table_lock);
	if (!is_locked(mount, ino)) {
		if (locked_count < LOCKED_MAX) {
			locked[locked_count].mount = mount;
			locked[locked_count].ino = ino;
		}
		locked_count++;
	}
	pthread_mutex_unlock(&table_lock);
	while (settled && (file = next_of_inode(mount, ino)) != NULL) {
		settled = g4p_settle_file(file) == 0;
		g4p_put(file);
	}
}

void g4p_files_lock(bool take)
{
	if (take)
		pthread_mutex_lock(&table_lock);
	else
		pthread_mutex_unlock(&table_lock);
}

void g4p_files_forked(bool shared)
{
	struct g4p_calm calm;
	const bool calmed = g4p_calm(&calm);

	for (int fd = 0; fd < table_end; fd++) {
		if (table[fd] == &reserved && !shared)
			syscall(SYS_close, fd);
		else if (table[fd] && !shared)
			(void)put_nothing(fd);
		table[fd] = NULL;
	}
	if (calmed)
		g4p_restless(&calm);
	table_used = 0;
	copied = -1;
}
