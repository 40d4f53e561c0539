/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host files as devices: opening, creating and locking regular files and block devices, and finding out what they can do.
 *
 * Everything that can be wrong with a name is found here, before the first request, and told in one sentence. A created
 * file is made durable (the file, then its directory) before it is handed out, so that what is later flushed to it cannot
 * vanish with its name.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/falloc.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "dev/dev_ops_host.h"

#define SECTOR_MIN_BYTES 512u
#define SECTOR_MAX_BYTES 4096u

/* ---- opening ---- */

static int open_failed(const char *name, struct g4_dev_message message)
{
	switch (errno) {
	case ENOENT:
		return g4_dev_fail(message, -G4_E_NOENT, "%s: no such file or device", name);
	case EACCES:
	case EPERM:
		return g4_dev_fail(message, -G4_E_ACCES, "%s: no permission to open it: %m", name);
	case EROFS:
		return g4_dev_fail(message, -G4_E_DEV_READONLY, "%s: is read-only", name);
	case EBUSY:
	case ETXTBSY:
		return g4_dev_fail(message, -G4_E_DEV_BUSY, "%s: is in use (mounted, or held by another program)",
				   name);
	case EISDIR:
		return g4_dev_fail(message, -G4_E_ISDIR, "%s: is a directory", name);
	default:
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: cannot be opened: %m", name);
	}
}

static int check_type(const char *name, mode_t mode, struct g4_dev_message message)
{
	if (S_ISREG(mode) || S_ISBLK(mode))
		return 0;
	if (S_ISDIR(mode))
		return g4_dev_fail(message, -G4_E_ISDIR, "%s: is a directory", name);
	return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: is neither a regular file nor a block device", name);
}

static int check_writable(const char *name, const struct g4_file *file, struct g4_dev_message message)
{
	int read_only = 0;
	if (!file->block_device)
		return 0;
	if (ioctl(file->fd, BLKROGET, &read_only) != 0)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: cannot be asked whether it is read-only: %m", name);
	return read_only ? g4_dev_fail(message, -G4_E_DEV_READONLY, "%s: is read-only", name) : 0;
}

static int read_size(const char *name, struct g4_file *file, struct g4_dev_message message)
{
	struct stat st;
	uint64_t bytes = 0;
	if (file->block_device ? ioctl(file->fd, BLKGETSIZE64, &bytes) : fstat(file->fd, &st))
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: cannot be asked for its size: %m", name);
	file->size_bytes = file->block_device ? bytes : (uint64_t)st.st_size;
	if (file->size_bytes < G4_PAGE_BYTES)
		return g4_dev_fail(message, -G4_E_DEV_SMALL, "%s: is too small (%llu bytes)", name,
				   (unsigned long long)file->size_bytes);
	return 0;
}

/* Readers share, a writer excludes everyone. A file gets the lock that flock(1) takes, too. */
static int lock_file(const char *name, const char *path, struct g4_file *file, uint32_t flags,
		     struct g4_dev_message message)
{
	const bool read_only = flags & G4_DEV_READ_ONLY;

	if (!(flags & G4_DEV_EXCLUSIVE))
		return 0;
	const int error = file->block_device ? 0 : g4_claim_flock(file->fd, read_only);
	errno = error;
	if (error == EWOULDBLOCK)
		return g4_dev_fail(message, -G4_E_DEV_BUSY, "%s: is in use by another program", name);
	if (error != 0)
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: cannot be locked: %m", name);
	return g4_claim_take(name, path, file->fd, read_only, &file->claim, message);
}

static int sync_parent(const char *path)
{
	char *copy = strdup(path);
	if (!copy)
		return -1;
	int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(copy);
	if (fd < 0)
		return -1;
	int result = fsync(fd);
	int error = errno;
	close(fd);
	errno = error;
	return result;
}

static int create_file(const char *name, const char *path, const struct g4_dev_open_options *options,
		       struct g4_file *file, struct g4_dev_message message)
{
	uint64_t bytes = options->create_bytes;
	if (bytes < G4_PAGE_BYTES)
		return g4_dev_fail(message, -G4_E_DEV_SMALL, "%s: cannot be created with %llu bytes, that is too small",
				   name, (unsigned long long)bytes);
	if (bytes > INT64_MAX)
		return g4_dev_fail(message, -G4_E_FBIG, "%s: cannot be created with %llu bytes, that is too large",
				   name, (unsigned long long)bytes);
	file->block_device = false;
	file->size_bytes = bytes;
	file->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file->fd < 0 && errno == ENOENT)
		return g4_dev_fail(message, -G4_E_NOENT, "%s: cannot be created: its directory does not exist", name);
	if (file->fd < 0)
		return open_failed(name, message);
	int code = lock_file(name, path, file, options->flags, message);
	if (code == 0 && (ftruncate(file->fd, (off_t)bytes) != 0 || fsync(file->fd) != 0 || sync_parent(path) != 0))
		code = g4_dev_fail(message, errno == EFBIG ? -G4_E_FBIG : g4_dev_code(errno),
				   "%s: cannot be created with %llu bytes: %m", name, (unsigned long long)bytes);
	if (code != 0)
		unlink(path);
	return code;
}

static int resize_file(const char *name, const struct g4_file *file, const struct g4_dev_open_options *options,
		       struct g4_dev_message message)
{
	if (!(options->flags & G4_DEV_RESIZE) || file->block_device ||
	    ftruncate(file->fd, (off_t)options->create_bytes) == 0)
		return 0;
	return g4_dev_fail(message, errno == EFBIG ? -G4_E_FBIG : g4_dev_code(errno), "%s: cannot get %llu bytes: %m",
			   name, (unsigned long long)options->create_bytes);
}

static int open_existing(const char *name, const char *path, const struct g4_dev_open_options *options,
			 const struct stat *seen, struct g4_file *file, struct g4_dev_message message)
{
	const uint32_t flags = options->flags;
	bool read_only = flags & G4_DEV_READ_ONLY;
	int code = check_type(name, seen->st_mode, message);
	if (code != 0)
		return code;
	file->block_device = S_ISBLK(seen->st_mode);
	file->fd = open(path, (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC);
	if (file->fd < 0)
		return open_failed(name, message);
	struct stat st;
	if (fstat(file->fd, &st) != 0 || (st.st_mode & S_IFMT) != (seen->st_mode & S_IFMT))
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: changed while it was being opened", name);
	code = lock_file(name, path, file, flags, message);
	if (code == 0 && !read_only)
		code = check_writable(name, file, message);
	if (code == 0)
		code = resize_file(name, file, options, message);
	if (code == 0)
		code = read_size(name, file, message);
	return code;
}

int g4_file_open(const char *name, const char *path, const struct g4_dev_open_options *options, struct g4_file *file,
		 struct g4_dev_message message)
{
	struct stat st;
	int code;
	file->fd = -1;
	file->claim = NULL;
	if (stat(path, &st) == 0)
		code = open_existing(name, path, options, &st, file, message);
	else if (errno == ENOENT && (options->flags & G4_DEV_CREATE) && !(options->flags & G4_DEV_READ_ONLY))
		code = create_file(name, path, options, file, message);
	else
		code = open_failed(name, message);
	if (code != 0)
		g4_file_close(file);
	return code;
}

void g4_file_close(struct g4_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
	g4_claim_drop(file->claim);
	file->claim = NULL;
}

bool g4_dev_lend(struct g4_dev *dev)
{
	const struct g4_file *file = (const struct g4_file *)dev->host;

	/* a queued file: others whose state begins with a struct g4_file have another size in another way */
	return dev->ops->set_size == g4_file_set_size && file->claim && g4_claim_lend(file->claim);
}

bool g4_dev_take_back(struct g4_dev *dev)
{
	const struct g4_file *file = (const struct g4_file *)dev->host;

	return g4_claim_take_back(file->claim, file->fd);
}

/* ---- where its pages lie ---- */

void g4_dev_find_pages(const struct g4_dev *dev)
{
	const struct g4_file *file = (const struct g4_file *)dev->host;
	struct fiemap extents = {.fm_length = 1, .fm_flags = FIEMAP_FLAG_CACHE};

	if (dev->ops->set_size == g4_file_set_size && !file->block_device)
		(void)ioctl(file->fd, FS_IOC_FIEMAP,
			    &extents); /* who does not know the flag says so, and nothing is wrong */
}

/* ---- what a file can do ---- */

/* A number from the queue attributes of a block device; partitions have them one level up. */
static uint64_t queue_attribute(dev_t device, const char *attribute)
{
	static const char *const places[] = {"queue", "../queue"};
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		char path[128];
		unsigned long long value = 0;
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s/%s", major(device), minor(device), places[i],
			 attribute);
		FILE *stream = fopen(path, "re");
		if (!stream)
			continue;
		int fields = fscanf(stream, "%llu", &value);
		fclose(stream);
		return fields == 1 ? value : 0;
	}
	return 0;
}

/* What O_DIRECT asks of offsets and buffers; 0: not supported. */
static uint64_t direct_alignment(const struct g4_file *file)
{
	int sector = 0;
	if (file->block_device)
		return ioctl(file->fd, BLKSSZGET, &sector) == 0 ? (uint64_t)sector : 0;
#ifdef STATX_DIOALIGN
	struct statx stx;
	if (statx(file->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 && (stx.stx_mask & STATX_DIOALIGN))
		return g4_max64(stx.stx_dio_offset_align, stx.stx_dio_mem_align);
#endif
	struct stat st;
	uint64_t below = fstat(file->fd, &st) == 0 ? queue_attribute(st.st_dev, "logical_block_size") : 0;
	return below ? below : SECTOR_MAX_BYTES;
}

/* One read at a buffer that is aligned to the sector and to no more. */
static bool direct_read_works(int fd, uint32_t sector)
{
	void *memory = NULL;
	if (posix_memalign(&memory, 2 * SECTOR_MAX_BYTES, 2 * SECTOR_MAX_BYTES) != 0)
		return false;
	ssize_t bytes = pread(fd, (char *)memory + sector, sector, 0);
	free(memory);
	return bytes == (ssize_t)sector;
}

uint32_t g4_file_go_direct(const struct g4_file *file)
{
	int flags = fcntl(file->fd, F_GETFL);
	uint64_t sector = direct_alignment(file);
	if (flags < 0 || sector == 0 || sector > SECTOR_MAX_BYTES)
		return 0;
	if (fcntl(file->fd, F_SETFL, flags | O_DIRECT) != 0)
		return 0;
	sector = g4_max64(sector, SECTOR_MIN_BYTES);
	if (direct_read_works(file->fd, (uint32_t)sector))
		return (uint32_t)sector;
	if (direct_read_works(file->fd, SECTOR_MAX_BYTES))
		return SECTOR_MAX_BYTES;
	/* Going back cannot fail: the flags are those that the descriptor had. */
	(void)fcntl(file->fd, F_SETFL, flags);
	return 0;
}

bool g4_file_can_discard(const struct g4_file *file)
{
	struct stat st;
	if (file->block_device)
		return fstat(file->fd, &st) == 0 && queue_attribute(st.st_rdev, "discard_max_bytes") > 0;
	/* A hole behind the end of the file changes nothing but is refused where holes are not supported. */
	uint64_t behind = g4_align_up(file->size_bytes, G4_PAGE_BYTES);
	return fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)behind, (off_t)G4_PAGE_BYTES) ==
	       0;
}

/* ---- another size ---- */

int g4_file_set_size(struct g4_dev *dev, uint64_t bytes)
{
	struct g4_file *file = dev->host;
	uint64_t found = bytes;

	if (file->block_device) {
		if (ioctl(file->fd, BLKGETSIZE64, &found) != 0)
			return g4_dev_code(errno);
	} else if (ftruncate(file->fd, (off_t)bytes) != 0) {
		return g4_dev_code(errno);
	}
	file->size_bytes = found;
	g4_store64_rel(&dev->props.size_bytes, found);
	return bytes <= found ? 0 : -G4_E_DEV_SMALL;
}
