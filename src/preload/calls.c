/* SPDX-License-Identifier: Apache-2.0 */
/* Around each call: which file system a path belongs to, and what the program gets. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "client/beneath.h"
#include "preload/settle.h"

/* ------------------------------------------------------------------ calls by path */

static struct g4p_mount *mount_of(const char *path, const char **rest)
{
	uint32_t count;
	struct g4p_mount *mounts = g4p_mounts(&count), *best = NULL;

	for (uint32_t i = 0; i < count; i++) {
		struct g4p_mount *mount = &mounts[i];
		const size_t bytes = mount->directory_bytes;
		if (strncmp(path, mount->directory, bytes) == 0 && (path[bytes] == '/' || path[bytes] == 0) &&
		    (!best || bytes > best->directory_bytes))
			best = mount;
	}
	if (!best)
		return NULL;
	path += best->directory_bytes;
	while (*path == '/')
		path++;
	*rest = *path ? path : "/";
	return best;
}

/* What lies in /proc/PID/fd and behind /dev/fd may be one of our descriptors, which only the kernel can show when it is its own. */
static bool shows_descriptors(const char *path)
{
	while (path[0] == '/' && path[1] == '/')
		path++;
	return (strncmp(path, "/proc/", 6) == 0 && strstr(path, "/fd")) || strncmp(path, "/dev/fd", 7) == 0 ||
	       strncmp(path, "/dev/std", 8) == 0;
}

void g4p_settle_shown(const char *path)
{
	if (g4p_any_files() && !g4p_is_calm() && g4p_is_string(path) && shows_descriptors(path))
		g4p_settle_all(false, G4P_proc);
}

static bool locate(struct g4p_call *call, int at, const char *path)
{
	call->held = NULL;
	call->at = NULL;
	if (path[0] == '/') {
		call->mount = mount_of(path, &call->path);
		return call->mount != NULL;
	}
	call->by_working_directory = at == AT_FDCWD;
	call->held = at == AT_FDCWD ? g4p_working_directory() : g4p_get(at);
	if (!call->held)
		return false;
	call->at = call->held->handle;
	call->mount = call->held->mount;
	call->path = path;
	return true;
}

/*
 * What the path begins at is of a connection that has ended meanwhile. The working directory is found again; what the program has opened
 * is gone with the server, and the kernel says so.
 */
static bool relocate(struct g4p_call *call, int at, const char *path)
{
	if (!call->by_working_directory)
		return false;
	g4p_put(call->held);
	return locate(call, at, path) && call->held->fs == call->fs;
}

/* The kernel is going to be asked: where the path begins at a placeholder, that must be the directory itself. */
static int settle_start(struct g4p_call *call)
{
	const int rc = call->held && !call->by_working_directory ? g4p_settle_file(call->held) : 0;

	return rc == -ESTALE ? -ENOENT : rc; /* what a directory that is gone says of its names */
}

bool g4p_settle_start(int at, const char *path, enum g4p_number number)
{
	if (g4p_begins_with(path, '/')) {
		g4p_settle_shown(path);
		return true;
	}
	if (g4p_settle(at, number))
		return true;
	if (errno == ESTALE)
		errno = ENOENT;
	return false;
}

/* The server of what is behind the path is not there: the kernel's call, or an error where it does not get its start. */
static int64_t enter_without_server(struct g4p_call *call)
{
	const int rc = settle_start(call);

	g4p_count(call->number, G4P_SERVER_ANSWER);
	if (call->held)
		g4p_put(call->held);
	g4p_restless(&call->calm);
	if (rc < 0)
		errno = -rc;
	return rc < 0 ? -1 : G4P_KERNEL;
}

int64_t g4p_enter(struct g4p_call *call, enum g4p_number number, int at, const char *path)
{
	uint32_t count;

	if (g4p_is_calm())
		return G4P_KERNEL;
	g4p_mounts(&count);
	if (count == 0 || !g4p_is_string(path)) /* what is to be said of a bad pointer, the kernel says */
		return G4P_KERNEL;
	if (path[0] == '/' && !mount_of(path, &call->path)) {
		g4p_settle_shown(path);
		g4p_count(number, G4P_OUTSIDE_ANSWER);
		return G4P_KERNEL;
	}
	pthread_testcancel();
	g4p_calm(&call->calm);
	call->number = number;
	if (!locate(call, at, path)) {
		g4p_count(number, G4P_OUTSIDE_ANSWER);
		g4p_restless(&call->calm);
		return G4P_KERNEL;
	}
	call->fs = g4p_connect(call->mount);
	if (call->fs && call->held && call->held->fs != call->fs && !relocate(call, at, path))
		call->fs = NULL;
	return call->fs ? 0 : enter_without_server(call);
}

bool g4p_enter_second(struct g4p_call *second, const struct g4p_call *first, int at, const char *path)
{
	if (!g4p_is_string(path) || !locate(second, at, path)) {
		second->held = NULL;
		return false;
	}
	return second->mount == first->mount && (!second->held || second->held->fs == first->fs);
}

void g4p_leave_second(struct g4p_call *second)
{
	if (second->held)
		g4p_put(second->held);
}

/* Errors that say where the answer is, and not what it is. */
static bool is_for_kernel(int64_t result, enum g4p_answer *why)
{
	*why = result == -EXDEV ? G4P_LEAVES_ANSWER : G4P_UNSUPPORTED_ANSWER;
	return result == G4P_KERNEL || result == -EXDEV || result == -EOPNOTSUPP || result == -ENOSYS ||
	       result == -ENFILE;
}

int64_t g4p_leave(struct g4p_call *call, int64_t result)
{
	enum g4p_answer why;
	bool kernel = is_for_kernel(result, &why);

	if (result == -EIO && g4c_is_over(call->fs)) { /* the mount has ended as well, or is there anew */
		g4p_disconnect(call->mount, call->fs);
		why = G4P_SERVER_ANSWER;
		kernel = true;
	}
	const int rc = kernel ? settle_start(call) : 0;
	if (rc < 0) {
		kernel = false;
		result = rc;
	}
	if (call->held)
		g4p_put(call->held);
	g4p_restless(&call->calm);
	g4p_count(call->number, kernel ? why : G4P_ENGINE_ANSWER);
	if (kernel)
		return G4P_KERNEL;
	if (result < 0)
		errno = (int)-result;
	return result < 0 ? -1 : result;
}

/* ------------------------------------------------------------------ calls by descriptor */

bool g4p_use(struct g4p_use *use, enum g4p_number number, int fd)
{
	if (g4p_is_calm())
		return false;
	if (!g4p_is_ours(fd)) {
		g4p_count(number, G4P_OUTSIDE_ANSWER);
		return false;
	}
	pthread_testcancel();
	g4p_calm(&use->calm);
	use->file = g4p_get(fd);
	if (!use->file) {
		g4p_count(number, G4P_OUTSIDE_ANSWER);
		g4p_restless(&use->calm);
		return false;
	}
	pthread_rwlock_rdlock(&use->file->lock);
	if (use->file->settled) { /* meanwhile: the number is the kernel's now */
		g4p_count(number, G4P_OUTSIDE_ANSWER);
		(void)g4p_done(use, 0);
		return false;
	}
	use->handle = use->file->handle;
	g4p_count(number, G4P_ENGINE_ANSWER);
	return true;
}

int64_t g4p_done(struct g4p_use *use, int64_t result)
{
	pthread_rwlock_unlock(&use->file->lock);
	g4p_put(use->file);
	g4p_restless(&use->calm);
	if (result < 0)
		errno = (int)-result;
	return result < 0 ? -1 : result;
}

void g4p_record_lock(int fd)
{
	struct g4p_calm calm;
	uint64_t ino;

	if (!g4p_calm(&calm))
		return;
	const struct g4p_mount *mount = g4p_inode_of(fd, &ino);
	if (mount)
		g4p_settle_inode(mount, ino);
	g4p_restless(&calm);
}
