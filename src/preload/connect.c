/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which directories are served, the connections to their servers, and the working directory. A connection is made by the first
 * call that needs it and ends with the process; a forked child has none at first. Its memory and descriptors are the library's own:
 * they lie above the numbers that programs get, and close(2) of them is refused. When a server has ended, the next call by path
 * connects to the server of the socket by then, once.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/beneath.h"
#include "preload/settle.h"

#define DATA_BYTES (8u << 20) /* shared with the server: a small process shall not cost it 32 MiB */
#define HIGH_FD 900	      /* where own descriptors lie, if the process may have so many */

static struct g4p_mount mounts[G4P_MOUNTS];
static uint32_t mount_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* connecting, own descriptors, the working directory */
static struct g4p_file *working;
static bool working_known;
static uint32_t wanderings;

/* ------------------------------------------------------------------ the environment */

/* One line SOCKET=DIRECTORY. The directory is absolute and has no links in it: gpu4fs run has seen to that. */
static void add_mount(const char *line, size_t bytes)
{
	struct g4p_mount *mount = &mounts[mount_count];
	const char *equals = memchr(line, '=', bytes);
	const size_t socket_bytes = equals ? (size_t)(equals - line) : 0;
	const size_t rest = equals ? bytes - socket_bytes - 1 : 0;

	if (mount_count == G4P_MOUNTS || socket_bytes == 0 || socket_bytes >= sizeof(mount->socket) || rest < 2 ||
	    rest >= sizeof(mount->directory) || equals[1] != '/')
		return;
	memcpy(mount->socket, line, socket_bytes);
	memcpy(mount->directory, equals + 1, rest);
	mount->directory_bytes = rest;
	mount_count++;
}

static void read_environment(void)
{
	const char *text = getenv(G4P_ENVIRONMENT);

	while (text && *text) {
		const size_t bytes = strcspn(text, "\n");
		add_mount(text, bytes);
		text += bytes + (text[bytes] == '\n');
	}
	if (mount_count == 0)
		return;
	struct g4p_calm calm;
	const bool calmed = g4p_calm(&calm); /* what it calls shall not come back here */
	g4p_guard();
	(void)syscall(SYS_getpid); /* finds the C library's, before a signal handler needs it */
	g4p_trace_start();
	if (calmed)
		g4p_restless(&calm);
}

void g4p_start(void)
{
	pthread_once(&once, read_environment);
}

struct g4p_mount *g4p_mounts(uint32_t *count)
{
	g4p_start();
	*count = mount_count;
	return mounts;
}

/* ------------------------------------------------------------------ mounts inside */

/* Undoes in place what the kernel writes for blanks and backslashes in names: three digits of base eight. */
static void unescape(char *name)
{
	char *to = name;

	for (const char *from = name; *from; to++) {
		if (from[0] == '\\' && from[1] && from[2] && from[3]) {
			*to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = 0;
}

/* A line of the table of mounts, whose fifth word is where something is mounted; it is changed. */
static bool is_inside(const struct g4p_mount *mount, char *line)
{
	char *place = line;

	for (int blanks = 0; blanks < 4 && place; blanks++)
		place = (place = strchr(place, ' ')) ? place + 1 : NULL;
	if (!place)
		return false;
	place[strcspn(place, " ")] = 0;
	unescape(place);
	return strncmp(place, mount->directory, mount->directory_bytes) == 0 && place[mount->directory_bytes] == '/';
}

/*
 * Whether something is mounted below the directory. Its names would be the engine's here, which does not know of it: so the kernel is
 * asked for all. Negative: there is no telling, for want of a descriptor. No malloc(): signal handlers may call. Locked.
 */
static int has_mounts_inside(const struct g4p_mount *mount)
{
	static char text[10 * G4P_PATH_BYTES]; /* room for the fifth word of a line, with all escapes */
	const int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	size_t kept = 0;
	ssize_t bytes = 0;
	bool found = false;

	if (fd < 0)
		return -1;
	while (!found && (bytes = syscall(SYS_read, fd, text + kept, sizeof(text) - 1 - kept)) > 0) {
		char *line = text, *end;
		kept += (size_t)bytes;
		text[kept] = 0;
		while (!found && (end = strchr(line, '\n')) != NULL) {
			*end = 0;
			found = is_inside(mount, line);
			line = end + 1;
		}
		kept -= (size_t)(line - text);
		memmove(text, line, kept);
		if (kept == sizeof(text) - 1) { /* what is left of so long a line counts as one more */
			found = is_inside(mount, text);
			kept = 0;
		}
	}
	syscall(SYS_close, fd);
	return bytes < 0 ? -1 : found;
}

/* Whether the directory is another one by now, which was mounted over it. That may go again, and what is open stays as it is. */
static bool is_covered(const struct g4p_mount *mount, const gpu4fs *fs)
{
	dev_t device;
	bool handed;

	return !g4c_is_mounted_at(fs, mount->directory, &device, &handed);
}

void g4p_mounts_changed(void)
{
	struct g4p_calm calm;
	bool inside = false;

	if (mount_count == 0 || !g4p_calm(&calm))
		return;
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < mount_count; i++) {
		if (mounts[i].fs && is_covered(&mounts[i], mounts[i].fs)) /* the next call looks again */
			__atomic_store_n(&mounts[i].looked, g4c_mount_changes(mounts[i].fs) - 1, __ATOMIC_RELEASE);
		if (mounts[i].off || has_mounts_inside(&mounts[i]) == 0)
			continue;
		__atomic_store_n(&mounts[i].off, true, __ATOMIC_RELAXED);
		inside = true;
	}
	pthread_mutex_unlock(&lock);
	g4p_restless(&calm);
	if (inside) /* directories are where paths begin */
		g4p_settle_all(false, G4P_mount);
}

/*
 * The server says that something was mounted. False: inside of the directory, whose names are the kernel's from now on; or over it, or there is no
 * telling for want of a number, and the kernel is asked this time.
 */
static bool still_has_no_mounts(struct g4p_mount *mount, gpu4fs *fs)
{
	pthread_mutex_lock(&lock);
	const uint32_t changes = g4c_mount_changes(fs);
	int inside = 0;
	if (mount->fs == fs && mount->looked != changes) {
		inside = is_covered(mount, fs) ? -1 : has_mounts_inside(mount);
		if (inside >= 0)
			__atomic_store_n(&mount->looked, changes, __ATOMIC_RELEASE);
		if (inside > 0)
			__atomic_store_n(&mount->off, true, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&lock);
	if (inside > 0)
		g4p_settle_all(false, G4P_mount);
	return inside == 0;
}

/* ------------------------------------------------------------------ own descriptors */

/* Where descriptors lie that programs do not count on finding theirs. */
static int high_number(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < HIGH_FD + 32 ? (int)(limit.rlim_cur / 2) :
											HIGH_FD;
}

bool g4p_owns(int fd)
{
	for (uint32_t i = 0; i < mount_count; i++) {
		gpu4fs *fs = __atomic_load_n(&mounts[i].fs, __ATOMIC_ACQUIRE);
		if (fd >= 0 && fs && fd == g4c_socket(fs))
			return true;
	}
	return false;
}

void g4p_make_way(int fd)
{
	pthread_mutex_lock(&lock);
	for (uint32_t i = 0; i < mount_count; i++) {
		if (mounts[i].fs && fd == g4c_socket(mounts[i].fs))
			(void)g4c_move_socket(mounts[i].fs, fd + 1);
	}
	pthread_mutex_unlock(&lock);
}

/* ------------------------------------------------------------------ connections */

static void connect_mount(struct g4p_mount *mount)
{
	const struct gpu4fs_connect_options options = {.size = sizeof(options), .data_bytes = DATA_BYTES};
	dev_t device;
	gpu4fs *fs;

	if (gpu4fs_connect(mount->socket, &options, &fs) != 0) {
		mount->off = true;
		return;
	}
	mount->looked = g4c_mount_changes(fs); /* in this order: what is mounted behind the look changes it */
	if (has_mounts_inside(mount) != 0) {
		gpu4fs_unmount(fs);
		mount->off = true;
		return;
	}
	g4c_stay_beneath(fs);
	g4c_deliver_by(fs, g4p_copy_out);
	int low = g4c_move_socket(fs, high_number());
	if (low >= 0)
		syscall(SYS_close, low);
	/* "opens": without descriptors a file that is open here could never become the kernel's */
	if (!g4c_is_mounted_at(fs, mount->directory, &device, &mount->opens)) {
		gpu4fs_unmount(fs);
		mount->off = true;
		return;
	}
	mount->device = device;
	__atomic_store_n(&mount->fs, fs, __ATOMIC_RELEASE);
}

gpu4fs *g4p_connect(struct g4p_mount *mount)
{
	if (__atomic_load_n(&mount->off, __ATOMIC_RELAXED))
		return NULL;
	gpu4fs *fs = __atomic_load_n(&mount->fs, __ATOMIC_ACQUIRE);
	if (fs && !g4c_is_over(fs))
		return __atomic_load_n(&mount->looked, __ATOMIC_ACQUIRE) == g4c_mount_changes(fs) ||
				       still_has_no_mounts(mount, fs) ?
			       fs :
			       NULL;
	if (fs)
		g4p_disconnect(mount, fs);
	pthread_mutex_lock(&lock);
	if (!mount->fs && !mount->off)
		connect_mount(mount);
	fs = mount->fs;
	pthread_mutex_unlock(&lock);
	return fs;
}

/* What has it still in use gets EIO from it, so it stays in memory. */
void g4p_disconnect(struct g4p_mount *mount, gpu4fs *fs)
{
	struct g4p_file *old = NULL;

	pthread_mutex_lock(&lock);
	if (mount->fs == fs) {
		__atomic_store_n(&mount->fs, NULL, __ATOMIC_RELEASE);
		g4c_end(fs); /* the number is the program's from now on */
		old = working;
		working = NULL;
		working_known = false;
	}
	pthread_mutex_unlock(&lock);
	if (old)
		g4p_put(old);
}

void g4p_connect_lock(bool take)
{
	if (take)
		pthread_mutex_lock(&lock);
	else
		pthread_mutex_unlock(&lock);
}

/* In the child, where nothing else runs. What the parent's connection has in memory stays, unused. */
void g4p_connect_forked(bool shared)
{
	struct g4p_calm calm;
	bool calmed = g4p_calm(&calm);

	for (uint32_t i = 0; i < mount_count; i++) {
		if (mounts[i].fs)
			g4c_forsake(mounts[i].fs, shared);
		mounts[i].fs = NULL;
	}
	if (calmed)
		g4p_restless(&calm);
	working = NULL;
	working_known = false;
}

/* The server knows the process by its credentials when it connected, also where files are open. */
void g4p_credentials_changed(void)
{
	for (uint32_t i = 0; i < mount_count; i++)
		__atomic_store_n(&mounts[i].off, true, __ATOMIC_RELAXED);
	if (mount_count > 0)
		g4p_settle_all(false, G4P_credentials);
}

/*
 * A file that is handed over by its number has no name in the kernel that the kernel has not met, and who watches a directory is told of what
 * has a name there: so it meets those of what is open here.
 */
static void meet_names(const struct g4p_mount *mount, int at, const char *path)
{
	const int place = (int)syscall(SYS_openat, at, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	union {
		struct dirent64 first;
		char bytes[4096];
	} list;
	ssize_t bytes;
	uint64_t ino;
	dev_t device;

	while (place >= 0 && (bytes = syscall(SYS_getdents64, place, &list, sizeof(list))) > 0) {
		for (ssize_t i = 0; i < bytes;) {
			const struct dirent64 *entry = (const struct dirent64 *)(list.bytes + i);
			if (g4p_has_inode(mount, entry->d_ino))
				(void)g4c_identify(place, entry->d_name, &device, &ino);
			i += entry->d_reclen;
		}
	}
	if (place >= 0)
		syscall(SYS_close, place);
}

/* A mount that the process has not connected to may be the one, too. */
void g4p_watches(int at, const char *path)
{
	struct g4p_calm calm;
	uint64_t ino;
	dev_t watched, device;
	bool found = false;

	if (mount_count == 0 || !g4p_is_string(path) || !g4p_calm(&calm))
		return;
	const bool known = g4c_identify(at, path, &watched, &ino);
	for (uint32_t i = 0; known && i < mount_count; i++) {
		if (__atomic_load_n(&mounts[i].off, __ATOMIC_RELAXED) ||
		    !g4c_identify(AT_FDCWD, mounts[i].directory, &device, &ino) || device != watched)
			continue;
		__atomic_store_n(&mounts[i].off, true, __ATOMIC_RELAXED);
		if (g4p_any_files())
			meet_names(&mounts[i], at, path);
		found = true;
	}
	g4p_restless(&calm);
	if (found)
		g4p_settle_all(false, G4P_watch);
}

void g4p_umask_changed(mode_t mask)
{
	for (uint32_t i = 0; i < mount_count; i++) {
		gpu4fs *fs = __atomic_load_n(&mounts[i].fs, __ATOMIC_ACQUIRE);
		if (fs)
			g4c_set_umask(fs, mask);
	}
}

const struct g4p_mount *g4p_inode_of(int fd, uint64_t *ino)
{
	dev_t device;

	if (mount_count == 0 || !g4c_identify(fd, "", &device, ino))
		return NULL;
	for (uint32_t i = 0; i < mount_count; i++)
		if (mounts[i].device == device)
			return &mounts[i];
	return NULL;
}

/* ------------------------------------------------------------------ the working directory */

void g4p_directory_changed(void)
{
	struct g4p_calm calm;
	struct g4p_file *old;

	if (mount_count == 0 || !g4p_calm(&calm))
		return;
	pthread_mutex_lock(&lock);
	old = working;
	working = NULL;
	working_known = false;
	pthread_mutex_unlock(&lock);
	if (old)
		g4p_put(old);
	g4p_restless(&calm);
}

void g4p_wander(bool begin)
{
	if (begin) {
		__atomic_add_fetch(&wanderings, 1, __ATOMIC_RELAXED);
	} else {
		g4p_directory_changed();
		__atomic_sub_fetch(&wanderings, 1, __ATOMIC_RELAXED);
	}
}

/* The kernel's word for it: what getcwd(2) names is in a mount, and the engine has the same directory there. */
static struct g4p_file *find_working(struct g4p_mount **found)
{
	char path[G4P_PATH_BYTES];
	struct g4p_file *file = NULL;
	gpu4fs_file *handle;
	uint64_t ino;
	dev_t device;

	if (syscall(SYS_getcwd, path, sizeof(path)) < 0)
		return NULL;
	for (uint32_t i = 0; i < mount_count && !file; i++) {
		struct g4p_mount *mount = &mounts[i];
		const size_t bytes = mount->directory_bytes;

		if (strncmp(path, mount->directory, bytes) != 0 || (path[bytes] != '/' && path[bytes] != 0))
			continue;
		if (!mount->fs && !mount->off)
			connect_mount(mount);
		if (mount->off || gpu4fs_open(mount->fs, NULL, path[bytes] ? path + bytes + 1 : ".",
					      O_RDONLY | O_DIRECTORY, 0, &handle) != 0)
			continue;
		if (g4c_identify(AT_FDCWD, ".", &device, &ino) && device == mount->device &&
		    ino == g4c_inode_of(handle))
			file = calloc(1, sizeof(*file));
		if (!file) {
			gpu4fs_close(handle);
			continue;
		}
		*file = (struct g4p_file){
			.refs = 1, .directory = true, .handle = handle, .mount = mount, .fs = mount->fs};
		pthread_rwlock_init(&file->lock, NULL);
		*found = mount;
	}
	return file;
}

struct g4p_file *g4p_working_directory(void)
{
	struct g4p_mount *mount = NULL;
	struct g4p_file *file;

	if (__atomic_load_n(&wanderings, __ATOMIC_RELAXED) > 0)
		return NULL;
	pthread_mutex_lock(&lock);
	if (!working_known) {
		working = find_working(&mount);
		working_known = true;
	}
	file = working;
	if (file) {
		g4p_files_lock(true);
		file->refs++;
		g4p_files_lock(false);
	}
	pthread_mutex_unlock(&lock);
	return file;
}
