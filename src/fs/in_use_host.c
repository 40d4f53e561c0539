/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a device or an image file is in use: mounts, swap, loop devices, as the kernel lists them in /proc and /sys; else
 * by the process that has claimed it as gpu4fs does.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "dev/dev_host.h"
#include "fs/probe_host.h"
#include "space/set_host.h"

struct mount_line { /* the fields of a mountinfo line that matter, unescaped in place (proc_pid_mountinfo(5)) */
	dev_t device;
	char *point;
	char *type;
	char *source;
};

/* Space, tab, newline and backslash come as \ooo. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from != 0; to++) {
		if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' && from[2] <= '7' &&
		    from[3] >= '0' && from[3] <= '7') {
			*to = (char)((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = 0;
}

/* ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAGS...] - TYPE SOURCE SUPEROPTIONS */
static bool parse_mount_line(char *line, struct mount_line *out)
{
	unsigned int major_number, minor_number;
	char *rest = line;

	for (int field = 0; field <= 4; field++) {
		char *word = strsep(&rest, " ");
		if (word == NULL)
			return false;
		if (field == 2 && sscanf(word, "%u:%u", &major_number, &minor_number) != 2)
			return false;
		out->point = word;
	}
	char *tail = rest == NULL ? NULL : strstr(rest, " - ");
	if (tail == NULL)
		return false;
	tail += 3;
	out->type = strsep(&tail, " ");
	out->source = strsep(&tail, " \n");
	if (out->type == NULL || out->source == NULL)
		return false;
	out->device = makedev(major_number, minor_number);
	unescape(out->point);
	unescape(out->source);
	return true;
}

static bool same_file(const char *path, const struct stat *wanted)
{
	struct stat found;

	if (path[0] != '/' || stat(path, &found) != 0)
		return false;
	if (S_ISBLK(wanted->st_mode))
		return S_ISBLK(found.st_mode) && found.st_rdev == wanted->st_rdev;
	return found.st_dev == wanted->st_dev && found.st_ino == wanted->st_ino;
}

/* Whether it is one of the devices that the source of a mount stands for: of gpu4fs those may be several. */
static bool is_source(const struct mount_line *mount, const struct stat *wanted)
{
	char **names = NULL;
	uint32_t count = 0;
	bool found = same_file(g4_dev_path(mount->source), wanted);

	if (found || !g4_probe_is_mount_type(mount->type) || g4_set_names(mount->source, &names, &count) < 0)
		return found;
	for (uint32_t n = 0; n < count && !found; n++)
		found = same_file(g4_dev_path(names[n]), wanted);
	free(names);
	return found;
}

static bool is_mounted(const struct stat *wanted, char *use, size_t bytes)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t room = 0;
	bool found = false;

	while (mounts != NULL && !found && getline(&line, &room, mounts) > 0) {
		struct mount_line mount;
		if (!parse_mount_line(line, &mount))
			continue;
		found = (S_ISBLK(wanted->st_mode) && mount.device == wanted->st_rdev) || is_source(&mount, wanted);
		/* A directory that is bound elsewhere has a path as its root, never a device as its source. */
		if (found)
			snprintf(use, bytes, "mounted on %s", mount.point);
	}
	free(line);
	if (mounts != NULL)
		fclose(mounts);
	return found;
}

static bool is_swap(const struct stat *wanted, char *use, size_t bytes)
{
	FILE *swaps = fopen("/proc/swaps", "re");
	char *line = NULL;
	size_t room = 0;
	bool found = false;

	while (swaps != NULL && !found && getline(&line, &room, swaps) > 0) {
		char *rest = line;
		char *path = strsep(&rest, " \t");
		unescape(path);
		found = same_file(path, wanted);
	}
	if (found)
		snprintf(use, bytes, "in use as swap space");
	free(line);
	if (swaps != NULL)
		fclose(swaps);
	return found;
}

/* The backing file of a loop device, or false. */
static bool loop_backing_file(const char *loop, char *path, size_t bytes)
{
	char name[300];

	snprintf(name, sizeof(name), "/sys/block/%s/loop/backing_file", loop);
	FILE *file = fopen(name, "re");
	if (file == NULL)
		return false;
	const bool found = fgets(path, (int)bytes, file) != NULL;
	fclose(file);
	path[found ? strcspn(path, "\n") : 0] = 0;
	return found;
}

static bool is_loop_attached(const struct stat *wanted, char *use, size_t bytes)
{
	DIR *blocks = opendir("/sys/block");
	bool found = false;

	for (struct dirent *entry; blocks != NULL && !found && (entry = readdir(blocks)) != NULL;) {
		char path[4096], device[300];
		struct stat loop;
		if (strncmp(entry->d_name, "loop", 4) != 0 || !loop_backing_file(entry->d_name, path, sizeof(path)))
			continue;
		found = same_file(path, wanted);
		snprintf(device, sizeof(device), "/dev/%s", entry->d_name);
		if (found && (stat(device, &loop) != 0 || !is_mounted(&loop, use, bytes)))
			snprintf(use, bytes, "attached to %s", device);
	}
	if (blocks != NULL)
		closedir(blocks);
	return found;
}

/*
 * The process that holds a lock on a file, as /proc/locks has it: NUMBER: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF.
 * 0: nobody known.
 */
static long lock_holder(const struct stat *wanted)
{
	FILE *locks = fopen("/proc/locks", "re");
	char *line = NULL;
	size_t room = 0;
	long holder = 0;

	while (locks != NULL && holder == 0 && getline(&line, &room, locks) > 0) {
		unsigned int major_number, minor_number;
		unsigned long inode;
		long pid;
		if (sscanf(line, "%*d: FLOCK %*s %*s %ld %x:%x:%lu", &pid, &major_number, &minor_number, &inode) == 4 &&
		    makedev(major_number, minor_number) == wanted->st_dev && inode == wanted->st_ino)
			holder = pid;
	}
	free(line);
	if (locks != NULL)
		fclose(locks);
	return holder;
}

static void name_of_process(long pid, char *name, size_t bytes)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
	FILE *file = fopen(path, "re");
	if (file == NULL || fgets(name, (int)bytes, file) == NULL)
		name[0] = 0;
	if (file != NULL)
		fclose(file);
	name[strcspn(name, "\n")] = 0;
}

/* A server, a benchmark, a program with libgpu4fs, another repair: what would be in the way of an exclusive user. */
static bool is_claimed(const char *name, const struct stat *wanted, char *use, size_t bytes)
{
	const struct g4_dev_open_options open = {.flags = G4_DEV_READ_ONLY | G4_DEV_EXCLUSIVE};
	char message[512], comm[64] = "";
	struct g4_dev *dev;
	const int status = g4_dev_open(name, &open, &dev, message, sizeof(message));

	if (status >= 0)
		g4_dev_close(dev);
	if (status != -G4_E_DEV_BUSY)
		return false;
	const long pid = lock_holder(wanted);
	if (pid > 0)
		name_of_process(pid, comm, sizeof(comm));
	if (comm[0] != 0)
		snprintf(use, bytes, "in use by process %ld (%s)", pid, comm);
	else
		snprintf(use, bytes, "in use by another program");
	return true;
}

/* Of one device. */
static bool is_in_use(const char *name, char *use, size_t bytes)
{
	struct stat wanted;

	if (stat(g4_dev_path(name), &wanted) != 0)
		return false;
	if (is_mounted(&wanted, use, bytes) || is_swap(&wanted, use, bytes))
		return true;
	if (S_ISREG(wanted.st_mode) && is_loop_attached(&wanted, use, bytes))
		return true;
	return is_claimed(name, &wanted, use, bytes);
}

bool g4_probe_in_use(const char *name, char *use, size_t bytes)
{
	char **names = NULL;
	uint32_t count = 0;
	bool used = false;

	if (g4_set_names(name, &names, &count) < 0)
		return false;
	for (uint32_t n = 0; n < count && !used; n++)
		used = is_in_use(names[n], use, bytes);
	free(names);
	return used;
}

bool g4_probe_is_mount_type(const char *type)
{
	return strcmp(type, "fuse.gpu4fs") == 0 || strcmp(type, "fuseblk.gpu4fs") == 0;
}

bool g4_probe_mount_source(const char *path, bool exact, char *source, size_t bytes)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	char *real = realpath(path, NULL);
	struct stat wanted;
	char *line = NULL;
	size_t room = 0;
	bool found = false;

	const bool known = real != NULL && stat(real, &wanted) == 0;
	while (known && mounts != NULL && getline(&line, &room, mounts) > 0) {
		struct mount_line mount;
		if (!parse_mount_line(line, &mount) || !g4_probe_is_mount_type(mount.type))
			continue;
		if (mount.device != wanted.st_dev || (exact && strcmp(mount.point, real) != 0))
			continue;
		snprintf(source, bytes, "%s", mount.source);
		found = true; /* the last line wins: it lies on top */
	}
	free(line);
	free(real);
	if (mounts != NULL)
		fclose(mounts);
	return found;
}
