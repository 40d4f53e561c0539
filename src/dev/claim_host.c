/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claiming bytes, under whatever names they have. A file is locked, a block device is opened with O_EXCL; but a loop
 * device takes no lock on its file, partitions and device-mapper devices are names of parts of others, and each of them
 * would be used by a process that looked at its own name alone. So a device is followed down to where its bytes lie, as
 * sysfs tells, and all of these spans are claimed; then every loop device over one of them is.
 *
 *   file                   open file description lock of the span: shared by readers, exclusive for a writer
 *   block device           O_EXCL: against mounts of any kind, swap, device mapper, RAID, and its own partitions
 *   partition              claims itself; its span of the disk is followed
 *   loop device            claims itself; its span of its file or device is claimed and followed
 *   device mapper, RAID    claims itself, as it has claimed its members; these are followed, and files under them locked
 *                          shared: which of their bytes are whose sysfs does not tell
 *
 * Each side first claims what is its own and then looks at the others', so that of two at the same time one sees the
 * other. Claims last until they are dropped; readers only look whether the loop devices above are free.
 *
 * Not seen: other machines, other names of bytes that sysfs does not tell (network block devices, overlay and FUSE file
 * systems over the directory of an image), a loop device whose file has no name here (but its user sees the file's).
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/loop.h>
#include <linux/major.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "dev/dev_ops_host.h"

#define LOCK_TRIES 50u	      /* a quarter of a second */
#define LOCK_TRIES_GONE 2000u /* for what nobody holds any more: ten seconds */
#define LOCK_PAUSE_NS 5000000
#define MOST_SPANS 64u /* more layers and neighbours than this are refused */
#define SECTOR_BYTES 512u

struct span { /* bytes of a file, or of a block device that is no partition */
	dev_t device;
	ino_t inode; /* 0: a block device */
	uint64_t start, end;
};

struct g4_claim {
	struct span spans[MOST_SPANS];
	int fds[MOST_SPANS];
	uint32_t span_count, fd_count;
	int node; /* the block device, open with O_EXCL; -1: it is a file, or lent to the kernel */
	bool read_only;
};

struct backing { /* what is under a loop device */
	char path[PATH_MAX];
	struct span span; /* that it shows; valid if known */
	bool known;
};

/* ---- sysfs ---- */

/* The text of an attribute of a block device without the newline at its end; false when it has none. */
static bool read_attribute(dev_t device, const char *attribute, char *text, size_t text_bytes)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s", major(device), minor(device), attribute);
	FILE *file = fopen(path, "re");
	if (!file)
		return false;
	size_t bytes = fread(text, 1, text_bytes - 1, file);
	fclose(file);
	if (bytes > 0 && text[bytes - 1] == '\n')
		bytes--;
	text[bytes] = '\0';
	return bytes > 0;
}

static uint64_t read_number(dev_t device, const char *attribute)
{
	char text[32];
	return read_attribute(device, attribute, text, sizeof(text)) ? strtoull(text, NULL, 10) : 0;
}

static bool read_device(dev_t device, const char *attribute, dev_t *out)
{
	char text[32];
	unsigned int major_number, minor_number;

	if (!read_attribute(device, attribute, text, sizeof(text)) ||
	    sscanf(text, "%u:%u", &major_number, &minor_number) != 2)
		return false;
	*out = makedev(major_number, minor_number);
	return true;
}

/* The node of a block device, by its number. */
static bool node_path(dev_t device, char *path, size_t path_bytes)
{
	char link[64], target[PATH_MAX];

	snprintf(link, sizeof(link), "/sys/dev/block/%u:%u", major(device), minor(device));
	ssize_t bytes = readlink(link, target, sizeof(target) - 1);
	if (bytes < 0)
		return false;
	target[bytes] = '\0';
	const char *slash = strrchr(target, '/');
	snprintf(path, path_bytes, "/dev/%s", slash ? slash + 1 : target);
	for (char *c = path; *c; c++) /* sysfs has it for names with a slash, such as cciss/c0d0 */
		*c = *c == '!' ? '/' : *c;
	return true;
}

static int open_node(dev_t device, int flags)
{
	char path[PATH_MAX + sizeof("/dev/")];
	struct stat st;

	if (!node_path(device, path, sizeof(path)))
		return -1;
	int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISBLK(st.st_mode) || st.st_rdev != device)) {
		close(fd);
		errno = ENOENT;
		return -1;
	}
	return fd;
}

/* Bytes of a block device, as bytes of the disk that it is a partition of. */
static struct span disk_span(dev_t device, uint64_t start, uint64_t end)
{
	dev_t disk;

	if (read_number(device, "partition") != 0 && read_device(device, "../dev", &disk)) {
		const uint64_t from = read_number(device, "start") * SECTOR_BYTES;
		end = g4_min64(end, read_number(device, "size") * SECTOR_BYTES);
		return (struct span){.device = disk, .start = from + start, .end = from + end};
	}
	return (struct span){.device = device, .start = start, .end = end};
}

/* What the bytes [start, end) of a loop device are; false: it is no loop device, or has no file. */
static bool read_backing(dev_t loop, uint64_t start, uint64_t end, struct backing *out)
{
	const uint64_t offset = read_number(loop, "loop/offset"), limit = read_number(loop, "loop/sizelimit");
	struct loop_info64 info;
	struct stat st;
	dev_t device;

	if (!read_attribute(loop, "loop/backing_file", out->path, sizeof(out->path)))
		return false;
	if (limit != 0)
		end = g4_min64(end, limit);
	start += offset;
	end = end > UINT64_MAX - offset ? UINT64_MAX : end + offset;
	/* The device itself knows its file, also where that has lost its name or has it in another mount namespace. */
	int fd = open_node(loop, O_RDONLY);
	out->known = fd >= 0 && ioctl(fd, LOOP_GET_STATUS64, &info) == 0;
	if (fd >= 0)
		close(fd);
	if (out->known) {
		out->span = (struct span){.device = info.lo_device, .inode = info.lo_inode, .start = start, .end = end};
		device = info.lo_rdevice;
	} else {
		out->known = stat(out->path, &st) == 0;
		if (!out->known)
			return true;
		out->span = (struct span){.device = st.st_dev, .inode = st.st_ino, .start = start, .end = end};
		device = S_ISBLK(st.st_mode) ? st.st_rdev : 0;
	}
	if (device != 0)
		out->span = disk_span(device, start, end);
	return true;
}

/* ---- spans ---- */

static bool overlap(const struct span *a, const struct span *b)
{
	return a->device == b->device && a->inode == b->inode && a->start < b->end && b->start < a->end;
}

static bool has_device(const struct g4_claim *claim, dev_t device)
{
	for (uint32_t i = 0; i < claim->span_count; i++)
		if (claim->spans[i].inode == 0 && claim->spans[i].device == device)
			return true;
	return false;
}

static bool overlaps_any(const struct g4_claim *claim, const struct span *span)
{
	for (uint32_t i = 0; i < claim->span_count; i++)
		if (overlap(&claim->spans[i], span))
			return true;
	return false;
}

static int add_span(struct g4_claim *claim, struct span span, const char *name, struct g4_dev_message message)
{
	if (claim->span_count == MOST_SPANS)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: too many devices lie under or over it", name);
	claim->spans[claim->span_count++] = span;
	return 0;
}

static int keep(struct g4_claim *claim, int fd, const char *name, struct g4_dev_message message)
{
	if (claim->fd_count == MOST_SPANS) {
		close(fd);
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: too many devices lie under or over it", name);
	}
	claim->fds[claim->fd_count++] = fd;
	return 0;
}

/* ---- claims ---- */

/*
 * A process that is killed is gone before its io_uring has let go of files, which takes as long as its requests, and on a busy machine
 * longer. So whoever meets a lock tries again, for a moment; and longer where nobody can hold it who is alive.
 */
static bool pause_for_lock(uint32_t tries, bool gone)
{
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};

	if (tries >= (gone ? LOCK_TRIES_GONE : LOCK_TRIES))
		return false;
	nanosleep(&pause, NULL);
	return true;
}

/* A process that nobody has waited for is none: its files are closed. */
static bool is_alive(long pid)
{
	char path[32], text[512];

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return false;
	const size_t bytes = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[bytes] = 0;
	const char *name_end = strrchr(text, ')');
	return name_end && name_end[1] == ' ' && name_end[2] != 'Z' && name_end[2] != 'X';
}

/* Whether no process that can be seen from here, and lives, has taken a lock of flock(2) on the file. */
static bool is_held_by_nobody(int fd)
{
	char line[256];
	struct stat st;
	bool held = false;
	FILE *locks = fopen("/proc/locks", "re");

	if (!locks || fstat(fd, &st) != 0)
		held = true;
	/* The file system's number is left out: Btrfs tells stat(2) another one. */
	while (!held && fgets(line, sizeof(line), locks)) {
		unsigned long long inode;
		long pid;
		if (sscanf(line, "%*s FLOCK %*s %*s %ld %*[^:]:%*[^:]:%llu", &pid, &inode) == 2 && inode == st.st_ino)
			held = is_alive(pid);
	}
	if (locks)
		fclose(locks);
	return !held;
}

int g4_claim_flock(int fd, bool shared)
{
	bool gone = false;

	for (uint32_t tries = 0;; tries++) {
		if (flock(fd, (shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0)
			return 0;
		if (errno != EWOULDBLOCK)
			return errno;
		if (tries % LOCK_TRIES == 0)
			gone = is_held_by_nobody(fd);
		if (!pause_for_lock(tries, gone))
			return EWOULDBLOCK;
	}
}

/* 0, or errno. */
static int lock_span(int fd, uint64_t start, uint64_t end, bool shared)
{
	struct flock lock = {.l_type = shared ? F_RDLCK : F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)start};

	if (end <= INT64_MAX)
		lock.l_len = (off_t)(end - start);
	for (uint32_t tries = 0;; tries++) {
		if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
			return 0;
		if (errno != EAGAIN && errno != EACCES)
			return errno;
		if (!pause_for_lock(tries, false))
			return EAGAIN;
	}
}

static int lock_failed(const char *name, const char *path, int error, struct g4_dev_message message)
{
	errno = error;
	if (error != EAGAIN)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: %s cannot be locked: %m", name, path);
	if (strcmp(name, path) == 0)
		return g4_dev_fail(message, -G4_E_DEV_BUSY, "%s: is in use by another program", name);
	return g4_dev_fail(message, -G4_E_DEV_BUSY, "%s: is in use by another program as %s", name, path);
}

/* Claims what is under a loop device; `shared`: with others that have some of it, by the device mapper. */
static int claim_backing(struct g4_claim *claim, const struct backing *backing, bool shared, const char *name,
			 struct g4_dev_message message)
{
	const struct span *span = &backing->span;
	struct stat st;
	int code = 0;

	if (span->inode == 0) {
		if (shared)
			return 0;
		int fd = open(backing->path, O_RDONLY | O_CLOEXEC | O_EXCL | O_NONBLOCK);
		if (fd < 0 && errno == EBUSY)
			return g4_dev_fail(message, -G4_E_DEV_BUSY, "%s: is in use as %s", name, backing->path);
		/* it has no name here: loop devices over it are looked at nevertheless */
		return fd < 0 ? 0 : keep(claim, fd, name, message);
	}
	int fd = open(backing->path, (claim->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 && !claim->read_only) {
		fd = open(backing->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		shared = true;
	}
	if (fd < 0)
		return 0; /* as above */
	if (fstat(fd, &st) != 0 || st.st_dev != span->device || st.st_ino != span->inode) {
		close(fd); /* another file has that name */
		return 0;
	}
	int error = lock_span(fd, span->start, span->end, shared || claim->read_only);
	if (error != 0)
		code = lock_failed(name, backing->path, error, message);
	if (code == 0)
		return keep(claim, fd, name, message);
	close(fd);
	return code;
}

struct step { /* what is still to be followed down */
	dev_t device;
	uint64_t start, end;
	bool shared;
};

static int push_members(const struct step *step, struct step *steps, uint32_t *count, const char *name,
			struct g4_dev_message message)
{
	char path[64];

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/slaves", major(step->device), minor(step->device));
	DIR *members = opendir(path);
	for (struct dirent *entry; members && (entry = readdir(members)) != NULL;) {
		char attribute[300];
		dev_t member;
		snprintf(attribute, sizeof(attribute), "slaves/%s/dev", entry->d_name);
		if (entry->d_name[0] == '.' || !read_device(step->device, attribute, &member))
			continue;
		if (*count == MOST_SPANS) {
			closedir(members);
			return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: too many devices lie under it", name);
		}
		steps[(*count)++] = (struct step){.device = member, .end = UINT64_MAX, .shared = true};
	}
	if (members)
		closedir(members);
	return 0;
}

/* Claims what is under a block device, which is claimed itself. Ends: the kernel has no loops, and spans are counted. */
static int claim_below(struct g4_claim *claim, dev_t device, const char *name, struct g4_dev_message message)
{
	struct step steps[MOST_SPANS];
	uint32_t count = 1;
	int code = 0;

	steps[0] = (struct step){.device = device, .end = UINT64_MAX};
	while (count > 0 && code == 0) {
		const struct step step = steps[--count];
		const struct span span = disk_span(step.device, step.start, step.end);
		struct backing backing;
		code = add_span(claim, span, name, message);
		if (code == 0)
			code = push_members(&(struct step){.device = span.device}, steps, &count, name, message);
		if (code != 0 || !read_backing(span.device, span.start, span.end, &backing) || !backing.known)
			continue;
		code = claim_backing(claim, &backing, step.shared, name, message);
		if (code == 0 && backing.span.inode != 0)
			code = add_span(claim, backing.span, name, message);
		else if (code == 0 && count < MOST_SPANS)
			steps[count++] = (struct step){.device = backing.span.device,
						       .start = backing.span.start,
						       .end = backing.span.end,
						       .shared = step.shared};
	}
	return code;
}

/* Claims a loop device or a partition of one, all of whose bytes are `span`. */
static int claim_node(struct g4_claim *claim, dev_t device, struct span span, const char *name,
		      struct g4_dev_message message)
{
	char node[PATH_MAX + sizeof("/dev/")];
	const bool named = node_path(device, node, sizeof(node));
	int fd = open_node(device, O_RDONLY | O_EXCL);

	if (fd < 0 && errno == EBUSY)
		return g4_dev_fail(message, -G4_E_DEV_BUSY, "%s: is in use as %s", name, node);
	if (fd < 0)
		return g4_dev_fail(message, -G4_E_DEV_BUSY, "%s: is attached to %s, which may be in use: %m", name,
				   named ? node : "a loop device");
	int code = add_span(claim, span, name, message);
	if (code == 0 && !claim->read_only)
		return keep(claim, fd, name, message);
	close(fd);
	return code;
}

/* Claims those partitions of a loop device that lie over what is claimed; without one, all of it. */
static int claim_loop(struct g4_claim *claim, dev_t loop, const struct span *under, const char *name,
		      struct g4_dev_message message)
{
	char path[64];
	bool any = false;
	int code = 0;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(loop), minor(loop));
	DIR *parts = opendir(path);
	for (struct dirent *entry; parts && code == 0 && (entry = readdir(parts)) != NULL;) {
		char attribute[300];
		dev_t part;
		snprintf(attribute, sizeof(attribute), "%s/partition", entry->d_name);
		if (entry->d_name[0] == '.' || read_number(loop, attribute) == 0)
			continue;
		snprintf(attribute, sizeof(attribute), "%s/dev", entry->d_name);
		if (!read_device(loop, attribute, &part))
			continue;
		const struct span span = disk_span(part, 0, UINT64_MAX);
		struct span bytes = *under;
		bytes.start = under->start + span.start;
		bytes.end = under->start + span.end;
		if (!overlaps_any(claim, &bytes))
			continue;
		any = true;
		code = claim_node(claim, part, span, name, message);
	}
	if (parts)
		closedir(parts);
	if (any || code != 0)
		return code;
	return claim_node(claim, loop, (struct span){.device = loop, .end = UINT64_MAX}, name, message);
}

/* Claims each loop device over what is claimed, and each over these. */
static int claim_above(struct g4_claim *claim, const char *name, struct g4_dev_message message)
{
	uint32_t seen;
	int code = 0;

	do {
		seen = claim->span_count;
		DIR *devices = opendir("/sys/dev/block");
		for (struct dirent *entry; devices && code == 0 && (entry = readdir(devices)) != NULL;) {
			struct backing backing;
			unsigned int major_number, minor_number;
			if (sscanf(entry->d_name, "%u:%u", &major_number, &minor_number) != 2 ||
			    major_number != LOOP_MAJOR)
				continue;
			const dev_t loop = makedev(major_number, minor_number);
			if (!has_device(claim, loop) && read_backing(loop, 0, UINT64_MAX, &backing) && backing.known &&
			    overlaps_any(claim, &backing.span))
				code = claim_loop(claim, loop, &backing.span, name, message);
		}
		if (devices)
			closedir(devices);
	} while (code == 0 && claim->span_count != seen);
	return code;
}

static int claim_itself(struct g4_claim *claim, const char *name, const char *path, int fd, const struct stat *st,
			struct g4_dev_message message)
{
	/* Of a block device's node, too: it lasts when O_EXCL is handed over to the kernel. */
	int error = lock_span(fd, 0, UINT64_MAX, claim->read_only);
	if (error != 0)
		return lock_failed(name, name, error, message);
	if (S_ISREG(st->st_mode))
		return add_span(claim,
				(struct span){.device = st->st_dev, .inode = st->st_ino, .start = 0, .end = UINT64_MAX},
				name, message);
	int exclusive = open(path, O_RDONLY | O_EXCL | O_CLOEXEC | O_NONBLOCK);
	if (exclusive < 0 && errno == EBUSY)
		return g4_dev_fail(message, -G4_E_DEV_BUSY, "%s: is in use (mounted, or held by another program)",
				   name);
	if (exclusive < 0)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: cannot be claimed: %m", name);
	claim->node = exclusive;
	return 0;
}

int g4_claim_take(const char *name, const char *path, int fd, bool read_only, struct g4_claim **out,
		  struct g4_dev_message message)
{
	struct g4_claim *claim = calloc(1, sizeof(*claim));
	struct stat st;
	int code = 0;

	if (!claim)
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
	claim->node = -1;
	claim->read_only = read_only;
	if (fstat(fd, &st) != 0)
		code = g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: cannot be asked what it is: %m", name);
	if (code == 0)
		code = claim_itself(claim, name, path, fd, &st, message);
	if (code == 0 && S_ISBLK(st.st_mode))
		code = claim_below(claim, st.st_rdev, name, message);
	if (code == 0)
		code = claim_above(claim, name, message);
	if (code != 0) {
		g4_claim_drop(claim);
		return code;
	}
	*out = claim;
	return 0;
}

void g4_claim_drop(struct g4_claim *claim)
{
	if (!claim)
		return;
	if (claim->node >= 0)
		close(claim->node);
	for (uint32_t i = 0; i < claim->fd_count; i++)
		close(claim->fds[i]);
	free(claim);
}

bool g4_claim_lend(struct g4_claim *claim)
{
	if (claim->node < 0)
		return false;
	close(claim->node);
	claim->node = -1;
	return true;
}

bool g4_claim_take_back(struct g4_claim *claim, int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	claim->node = open(path, O_RDONLY | O_EXCL | O_CLOEXEC | O_NONBLOCK);
	return claim->node >= 0;
}
