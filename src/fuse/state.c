/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding mounts, and the file per mount through which an unmount learns that everything is on disk.
 *
 * umount(2) of a FUSE file system that is no block device's (block.c) returns when the kernel has let go of it; the serving
 * process may then still write.
 * It holds an exclusive flock on its state file from the mount to its end, so a blocking shared flock waits exactly that
 * long, also when the process is killed. The result is written before the file is removed and the lock given back; the
 * waiter has the file open since before the unmount and reads it there. The file also names the device, for those who
 * come after a plain umount(8) and find the device still in use.
 *
 * The file's name is MAJOR-MINOR-PID. The kernel gives the number of a mount to the next one as soon as it is unmounted,
 * when its process may still write for long: so what a number stands for is told by the device as well.
 *
 *   pid NUMBER
 *   device PATH     (as the table of mounts has it, with the same characters escaped: the mount may hide it by now)
 *   engine NAME
 *   stopped         (once an error has ended writing)
 *   no room         (at the end, if some of what was written found none, which its writers were told)
 *   result CODE     (last, at the end)
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "fuse/mounts.h"
#include "space/set_host.h"

#define STATE_PATH_BYTES 128
#define STATE_TEXT_BYTES (4 * PATH_MAX + 128) /* each character may be escaped */
#define SILENT_WAIT_MS 1000
#define LOOK_PERIOD_MS 10

/* mountinfo writes space, tab, newline and backslash as \ooo. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; to++) {
		if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' &&
		    from[3] >= '0' && from[3] <= '7') {
			*to = (char)(((from[1] - '0') << 6) | ((from[2] - '0') << 3) | (from[3] - '0'));
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = '\0';
}

/* Reads one line of mountinfo: where something is mounted, in the line, or NULL; *source: what, in the line as well. */
static const char *parse_mount(char *line, struct g4_fuse_mount_entry *entry, const char **source)
{
	char *fields[6], *rest, *save = NULL, *user, *type, *what;

	rest = strstr(line, " - ");
	if (!rest)
		return NULL;
	*rest = '\0';
	rest += 3;
	for (int i = 0; i < 6; i++) {
		fields[i] = strtok_r(i == 0 ? line : NULL, " ", &save);
		if (!fields[i])
			return NULL;
	}
	type = strtok_r(rest, " ", &save);
	what = strtok_r(NULL, " ", &save);
	user = what ? strstr(save, "user_id=") : NULL; /* behind the source, which may be called anything */
	entry->user_id = user ? (unsigned)strtoul(user + strlen("user_id="), NULL, 10) : 0;
	if (sscanf(fields[2], "%u:%u", &entry->major, &entry->minor) != 2 || !type || !what)
		return NULL;
	snprintf(entry->type, sizeof(entry->type), "%s", type);
	unescape(fields[4]);
	unescape(what);
	*source = what;
	return fields[4];
}

/* The topmost mount on a path, or, without one, of a device. 0 or -errno; *found, unless NULL: where, to be freed. */
static int find_mount(const char *dir, dev_t device, struct g4_fuse_mount_entry *entry, char **found)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	struct g4_fuse_mount_entry candidate;
	const char *source;
	char *line = NULL;
	size_t line_bytes = 0;
	int result = -ENOENT;

	if (!file)
		return -errno;
	/* Later lines lie on top of earlier ones. */
	while (getline(&line, &line_bytes, file) > 0) {
		const char *point = parse_mount(line, &candidate, &source);

		if (!point || (dir ? strcmp(point, dir) != 0 : makedev(candidate.major, candidate.minor) != device))
			continue;
		*entry = candidate;
		snprintf(entry->source, sizeof(entry->source), "%s", source);
		result = 0;
		if (found) {
			free(*found);
			*found = strdup(point);
		}
	}
	free(line);
	fclose(file);
	return result;
}

int g4_fuse_find_mount(const char *dir, struct g4_fuse_mount_entry *entry)
{
	return find_mount(dir, 0, entry, NULL);
}

char *g4_fuse_find_device(dev_t device, struct g4_fuse_mount_entry *entry)
{
	char *dir = NULL;

	(void)find_mount(NULL, device, entry, &dir);
	return dir;
}

/*
 * The directory for state files of a user's mounts. Where it lies in a place that others can write to, one that is not
 * the user's own is refused.
 */
static int state_directory(unsigned user, bool create, char *path, size_t path_bytes)
{
	struct stat st;

	if (user == 0) {
		snprintf(path, path_bytes, "/run/gpu4fs");
	} else {
		snprintf(path, path_bytes, "/run/user/%u", user);
		if (stat(path, &st) == 0)
			snprintf(path, path_bytes, "/run/user/%u/gpu4fs", user);
		else
			snprintf(path, path_bytes, "/tmp/gpu4fs-%u", user);
	}
	if (create && mkdir(path, user == 0 ? 0755 : 0700) < 0 && errno != EEXIST)
		return -errno;
	if (lstat(path, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode) || st.st_uid != user || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return -EPERM;
	return 0;
}

static int state_path(const struct g4_fuse_mount_entry *entry, long pid, bool create, char *path, size_t path_bytes)
{
	char directory[STATE_PATH_BYTES / 2];
	int result = state_directory(entry->user_id, create, directory, sizeof(directory));

	if (result == 0)
		snprintf(path, path_bytes, "%s/%u-%u-%ld", directory, entry->major, entry->minor, pid);
	return result;
}

/* The value of a line of the file, in place; NULL when there is none. */
static char *state_value(char *text, const char *key)
{
	size_t key_bytes = strlen(key);

	for (char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, key, key_bytes) && line[key_bytes] == ' ')
			return line + key_bytes + 1;
	}
	return NULL;
}

/* What is mounted, in place; NULL when the file does not say it. */
static char *state_device(char *text)
{
	char *device = state_value(text, "device");

	if (device) {
		device[strcspn(device, "\n")] = '\0';
		unescape(device);
	}
	return device;
}

/* Writes the file's first lines, at once, for readers that come by; false: not all of them. */
static bool write_state(int fd, const char *device, const char *engine)
{
	char text[STATE_TEXT_BYTES];
	int at = snprintf(text, sizeof(text), "pid %ld\ndevice ", (long)getpid());

	for (const char *c = device; *c; c++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, strchr(" \t\n\\", *c) ? "\\%03o" : "%c",
			       (unsigned char)*c);
	at += snprintf(text + at, sizeof(text) - (size_t)at, "\nengine %s\n", engine);
	return write(fd, text, (size_t)at) == at;
}

static int read_state(int fd, char *text, size_t text_bytes)
{
	ssize_t bytes = pread(fd, text, text_bytes - 1, 0);

	if (bytes < 0)
		return -errno;
	text[bytes] = '\0';
	return 0;
}

/* Goes through a user's state files: the next one, open, or -1 at the end. */
static int next_state(DIR *directory, unsigned *major, unsigned *minor, long *pid)
{
	struct dirent *dirent;
	int fd = -1;

	while (fd < 0 && directory && (dirent = readdir(directory)) != NULL) {
		if (sscanf(dirent->d_name, "%u-%u-%ld", major, minor, pid) == 3)
			fd = openat(dirfd(directory), dirent->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	}
	return fd;
}

static DIR *open_states(unsigned user)
{
	char path[STATE_PATH_BYTES / 2];
	int result = state_directory(user, false, path, sizeof(path));

	if (result == 0)
		return opendir(path);
	errno = -result;
	return NULL;
}

static bool is_locked(int fd)
{
	if (flock(fd, LOCK_SH | LOCK_NB) < 0)
		return errno == EWOULDBLOCK;
	flock(fd, LOCK_UN);
	return false;
}

/* Removes the files of servers that were killed and whose number is that of a mount which begins. */
static void remove_left_over(const struct g4_fuse_mount_entry *entry)
{
	DIR *states = open_states(entry->user_id);
	char path[STATE_PATH_BYTES];
	unsigned major, minor;
	long pid;

	for (int fd; (fd = next_state(states, &major, &minor, &pid)) >= 0; close(fd)) {
		if (major == entry->major && minor == entry->minor && !is_locked(fd) &&
		    state_path(entry, pid, false, path, sizeof(path)) == 0)
			unlink(path);
	}
	if (states)
		closedir(states);
}

int g4_fuse_state_create(const struct g4_fuse_mount_entry *entry, const char *engine)
{
	char path[STATE_PATH_BYTES];
	struct stat st;
	int result = state_path(entry, getpid(), true, path, sizeof(path));

	if (result < 0)
		return result;
	remove_left_over(entry);
	for (;;) {
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);

		if (fd < 0)
			return -errno;
		while (flock(fd, LOCK_EX) < 0) { /* somebody looks whether it is locked */
			if (errno != EINTR) {
				result = -errno;
				close(fd);
				return result;
			}
		}
		if (fstat(fd, &st) == 0 && st.st_nlink == 0) {
			close(fd);
			continue;
		}
		if (ftruncate(fd, 0) < 0 || !write_state(fd, entry->source, engine)) {
			result = -errno;
			unlink(path);
			close(fd);
			return result;
		}
		return fd;
	}
}

int g4_fuse_state_open(const struct g4_fuse_mount_entry *entry)
{
	DIR *states = open_states(entry->user_id);
	char text[STATE_TEXT_BYTES], *device;
	unsigned major, minor;
	long pid;
	int found = -1;

	if (!states)
		return -errno;
	for (int fd; (fd = next_state(states, &major, &minor, &pid)) >= 0;) {
		/* One with a result is that of a mount that is over, which had the number before. */
		device = read_state(fd, text, sizeof(text)) == 0 && !state_value(text, "result") ? state_device(text) :
												   NULL;
		/* Of several, all but one are of servers that were killed. */
		if (major == entry->major && minor == entry->minor && device && strcmp(device, entry->source) == 0 &&
		    (found < 0 || is_locked(fd))) {
			if (found >= 0)
				close(found);
			found = fd;
		} else {
			close(fd);
		}
	}
	closedir(states);
	return found < 0 ? -ENOENT : found;
}

void g4_fuse_state_stopped(int fd)
{
	(void)dprintf(fd, "stopped by an error\n"); /* the mount's flags and the log tell it, too */
}

void g4_fuse_state_no_room(int fd)
{
	(void)dprintf(fd, "no room for all that was written\n"); /* the log has it, too */
}

void g4_fuse_state_finish(const struct g4_fuse_mount_entry *entry, int fd, int result)
{
	char path[STATE_PATH_BYTES];

	(void)dprintf(fd, "result %d\n", result); /* a waiter that finds no line reports an early end */
	if (state_path(entry, getpid(), false, path, sizeof(path)) == 0)
		unlink(path);
	close(fd);
}

/* What the state file of the mount on dir says; false when there is none that this user may read. */
static bool read_state_of(const char *dir, char *text, size_t text_bytes)
{
	char *resolved = realpath(dir, NULL);
	struct g4_fuse_mount_entry entry;
	int fd = -1, result = -ENOENT;

	if (resolved && g4_fuse_find_mount(resolved, &entry) == 0)
		fd = g4_fuse_state_open(&entry);
	if (fd >= 0) {
		result = read_state(fd, text, text_bytes);
		close(fd);
	}
	free(resolved);
	return result == 0;
}

bool g4_fuse_mount_engine(const char *dir, char *name, size_t name_bytes)
{
	char text[STATE_TEXT_BYTES], *value = NULL;

	if (read_state_of(dir, text, sizeof(text)))
		value = state_value(text, "engine");
	if (value)
		snprintf(name, name_bytes, "%.*s", (int)strcspn(value, "\n"), value);
	return value != NULL;
}

bool g4_fuse_has_ended(int error)
{
	return error == ENOTCONN || error == ECONNABORTED;
}

const char *g4_fuse_mount_access(const char *dir)
{
	char text[STATE_TEXT_BYTES];
	struct statvfs st;

	if (read_state_of(dir, text, sizeof(text)) && state_value(text, "stopped"))
		return "read-only after an error";
	if (statvfs(dir, &st) < 0)
		return g4_fuse_has_ended(errno) ? "none, for its server has ended: unmount it" : NULL;
	return st.f_flag & ST_RDONLY ? "read-only" : "read-write";
}

static int wait_for_lock(int fd)
{
	while (flock(fd, LOCK_SH) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

int g4_fuse_state_wait(const struct g4_fuse_mount_entry *entry, int fd, int *result, bool *no_room)
{
	char path[STATE_PATH_BYTES], text[STATE_TEXT_BYTES];
	const char *value, *pid;
	int error = wait_for_lock(fd);

	if (error == 0)
		error = read_state(fd, text, sizeof(text));
	if (error < 0)
		return error;
	value = state_value(text, "result");
	if (!value) {
		pid = state_value(text, "pid"); /* a killed server leaves its file behind */
		if (pid && state_path(entry, strtol(pid, NULL, 10), false, path, sizeof(path)) == 0)
			unlink(path);
		return -ENODATA;
	}
	*result = (int)strtol(value, NULL, 10);
	*no_room = state_value(text, "no") != NULL;
	return 0;
}

bool g4_fuse_mount_is_dead(const char *path, const struct g4_fuse_mount_entry *entry)
{
	struct statvfs st;
	int fd = g4_fuse_state_open(entry);
	bool served = fd >= 0 && is_locked(fd);

	if (fd >= 0)
		close(fd);
	/* The holder of the lock is alive, and may take long to answer. */
	return !served && statvfs(path, &st) < 0 && errno == ENOTCONN;
}

/* True when the process has the mount of `source` in its sight: it is not on its way out. */
static bool still_mounted(long pid, unsigned major, unsigned minor, const char *source)
{
	struct g4_fuse_mount_entry entry;
	const char *mounted;
	char path[64], *line = NULL;
	size_t line_bytes = 0;
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%ld/mountinfo", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && getline(&line, &line_bytes, file) > 0)
		found = parse_mount(line, &entry, &mounted) && entry.major == major && entry.minor == minor &&
			strcmp(mounted, source) == 0;
	free(line);
	fclose(file);
	return found;
}

/* Waits for the server with the number `pid` to end; one that takes long is named, so that users can help it. */
static void wait_for_server(int fd, const char *device, long pid)
{
	int waited_ms = 0;

	while (flock(fd, LOCK_SH | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return; /* nothing to wait for: the device itself says whether it is in use */
		if (waited_ms >= SILENT_WAIT_MS) {
			fprintf(stderr,
				"gpu4fs: %s is still in use by process %ld, which serves a detached mount of it; waiting until "
				"its last file is closed and everything is written\n",
				device, pid);
			(void)wait_for_lock(fd);
			return;
		}
		usleep(LOOK_PERIOD_MS * 1000);
		waited_ms += LOOK_PERIOD_MS;
	}
}

/* Whether a device is one of those that a name stands for. */
static bool is_among(const char *name, const char *device)
{
	char **names = NULL;
	uint32_t count = 0;
	bool found = false;

	if (g4_set_names(name, &names, &count) < 0)
		return false;
	for (uint32_t n = 0; n < count; n++)
		found = found || strcmp(names[n], device) == 0;
	free(names);
	return found;
}

/* Waits when this file is that of a mount of device that is over. */
static void wait_if_ending(int fd, unsigned major, unsigned minor, long pid, const char *device)
{
	char text[STATE_TEXT_BYTES], *served;

	if (read_state(fd, text, sizeof(text)) < 0)
		return;
	served = state_device(text);
	if (!served)
		return;
	if (is_among(served, device) && !still_mounted(pid, major, minor, served))
		wait_for_server(fd, device, pid);
}

/* Of one device. */
static void wait_for_last_mount(const char *device)
{
	char *resolved = realpath(device, NULL);
	DIR *states = resolved ? open_states(geteuid()) : NULL;
	unsigned major, minor;
	long pid;

	for (int fd; (fd = next_state(states, &major, &minor, &pid)) >= 0; close(fd))
		wait_if_ending(fd, major, minor, pid, resolved);
	if (states)
		closedir(states);
	free(resolved);
}

void g4_fuse_wait_for_last_mount(const char *device)
{
	char **names = NULL;
	uint32_t count = 0;

	if (g4_set_names(device, &names, &count) < 0)
		return;
	for (uint32_t n = 0; n < count; n++)
		wait_for_last_mount(names[n]);
	free(names);
}
