/* SPDX-License-Identifier: Apache-2.0 */
/* Unmounting, with the wait for the process that served the mount. */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fs/probe_host.h"
#include "fuse/mounts.h"

#define BUSY_TRIES 500u
#define BUSY_PAUSE_NS 2000000

/*
 * A mount whose server has died answers nothing, but its path still resolves, without the slash at the end that asks
 * whether it is a directory; a path that does not is used as it is.
 */
char *g4_fuse_mount_path(const char *dir)
{
	char *plain = strdup(dir), *path = NULL;
	size_t bytes = strlen(dir);

	if (!plain)
		return NULL;
	while (bytes > 1 && plain[bytes - 1] == '/')
		plain[--bytes] = '\0';
	path = realpath(plain, NULL);
	if (!path && dir[0] == '/' && (errno == ENOTCONN || errno == EACCES || errno == EIO))
		return plain;
	free(plain);
	return path;
}

/* For users: fusermount3 is set-uid and unmounts what its caller mounted. It prints its own errors. */
static int run_fusermount(const char *path, bool lazy)
{
	const char *argv[] = {"fusermount3", "-u", lazy ? "-z" : "--", lazy ? "--" : path, lazy ? path : NULL, NULL};
	pid_t pid;
	int status, error;

	error = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ);
	if (error) {
		fprintf(stderr, "gpu4fs: fusermount3 cannot be run: %s\n", strerror(error));
		return G4_MOUNT_EXIT_FAIL;
	}
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return G4_MOUNT_EXIT_FAIL;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : G4_MOUNT_EXIT_FAIL;
}

/*
 * umount(2), again while the mount is busy, for a second. A process inside a call on it, statfs(2) for df(1) above all,
 * keeps it busy until the server has answered; other file systems answer within the call, so fast that it is not noticed.
 */
static int unmount_when_idle(const char *path, int flags)
{
	const struct timespec pause = {.tv_nsec = BUSY_PAUSE_NS};

	for (uint32_t tries = 1; umount2(path, flags) != 0; tries++) {
		if (errno != EBUSY || tries == BUSY_TRIES)
			return -1;
		nanosleep(&pause, NULL);
	}
	return 0;
}

static int detach(const char *path, bool lazy, bool force)
{
	if (unmount_when_idle(path, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0) | (force ? MNT_FORCE : 0)) == 0)
		return 0;
	if (errno == EPERM && geteuid() != 0)
		return run_fusermount(path, lazy);
	if (errno == EBUSY)
		fprintf(stderr, "gpu4fs: %s is in use: close its files and leave its directories first\n", path);
	else
		fprintf(stderr, "gpu4fs: %s cannot be unmounted: %s\n", path, strerror(errno));
	return G4_MOUNT_EXIT_FAIL;
}

static int wait_for_server(const char *path, const struct g4_fuse_mount_entry *entry, int state_fd)
{
	bool no_room = false;
	int result = 0;
	int error = g4_fuse_state_wait(entry, state_fd, &result, &no_room);

	if (error == -ENODATA) {
		fprintf(stderr,
			"gpu4fs: %s: the process that served it ended early; the next mount replays the journal\n",
			path);
		return G4_MOUNT_EXIT_SYSTEM;
	}
	if (error < 0) {
		fprintf(stderr, "gpu4fs: %s: cannot wait for the process that served it: %s\n", path, strerror(-error));
		return G4_MOUNT_EXIT_SYSTEM;
	}
	if (result < 0) {
		fprintf(stderr, "gpu4fs: %s: not everything could be written: %s\n", path, g4_strerror(result));
		return G4_MOUNT_EXIT_SYSTEM;
	}
	if (no_room)
		fprintf(stderr,
			"gpu4fs: %s: some data found no room, which the programs that wrote it were told; all else is on the device\n",
			path);
	return G4_MOUNT_EXIT_OK;
}

static bool remove_dead(const char *path)
{
	fprintf(stderr, "gpu4fs: %s: unmounting what is left of a mount whose server has ended\n", path);
	return detach(path, false, false) == 0;
}

bool g4_fuse_remove_dead_mounts(const char *path, const char *device)
{
	struct g4_fuse_mount_entry entry;
	struct stat st;
	bool good = true;

	while (g4_fuse_find_mount(path, &entry) == 0 && g4_probe_is_mount_type(entry.type) &&
	       g4_fuse_mount_is_dead(path, &entry))
		if (!remove_dead(path))
			return false;
	if (stat(device, &st) < 0 || !S_ISBLK(st.st_mode))
		return true;
	for (char *dir; good && (dir = g4_fuse_find_device(st.st_rdev, &entry)) != NULL; free(dir)) {
		if (!g4_probe_is_mount_type(entry.type) || !g4_fuse_mount_is_dead(dir, &entry)) {
			free(dir);
			break;
		}
		good = remove_dead(dir);
	}
	return good;
}

int g4_fuse_umount(const char *dir, uint32_t flags)
{
	struct g4_fuse_mount_entry entry;
	bool lazy = (flags & G4_UMOUNT_LAZY) != 0, force = (flags & G4_UMOUNT_FORCE) != 0;
	bool wait = !lazy && !force;
	char *path = g4_fuse_mount_path(dir), use[512];
	struct stat found;
	int state_fd, status;

	if (!path) {
		fprintf(stderr, "gpu4fs: %s: %s\n", dir, strerror(errno));
		return G4_MOUNT_EXIT_FAIL;
	}
	if (g4_fuse_find_mount(path, &entry) < 0) {
		if (stat(path, &found) == 0 && !S_ISDIR(found.st_mode) && g4_probe_in_use(path, use, sizeof(use)))
			fprintf(stderr, "gpu4fs: %s is %s: a directory is needed\n", path, use);
		else
			fprintf(stderr, "gpu4fs: nothing is mounted on %s\n", path);
		free(path);
		return G4_MOUNT_EXIT_FAIL;
	}
	if (!g4_probe_is_mount_type(entry.type)) {
		fprintf(stderr, "gpu4fs: %s is a mount of type %s, not of gpu4fs\n", path, entry.type);
		free(path);
		return G4_MOUNT_EXIT_FAIL;
	}
	state_fd = g4_fuse_state_open(&entry);
	status = detach(path, lazy, force);
	if (status == 0 && wait && state_fd >= 0)
		status = wait_for_server(path, &entry, state_fd);
	else if (status == 0 && wait)
		fprintf(stderr, "gpu4fs: %s is unmounted, but its server may still be writing: no state file (%s)\n",
			path, strerror(-state_fd));
	if (state_fd >= 0)
		close(state_fd);
	free(path);
	return status;
}
