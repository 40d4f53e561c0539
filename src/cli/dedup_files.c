/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/dedup_files.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "fuse/ioctl.h"

/* A path may lead to something else by now: it is not waited for a pipe, and a link is not followed. */
#define HERE (O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)

/* ------------------------------------------------------------------ the file system */

int g4_dedup_place_mounted(struct g4_dedup_place *place, const char *path)
{
	struct g4_ioc_sums io = {0};
	struct g4_ioc_same same = {0};
	struct stat st;

	*place = (struct g4_dedup_place){.root = open(path, HERE)};
	if (place->root < 0)
		return -errno;
	/* nothing is shared yet: whether this server knows the ioctls, and this user may have them or not */
	if (fstat(place->root, &st) < 0 || (ioctl(place->root, G4_IOC_SUMS, &io) < 0 && errno != EISDIR) ||
	    (ioctl(place->root, G4_IOC_SAME, &same) < 0 && errno != EPERM)) {
		const int rc = -errno;
		g4_dedup_place_close(place);
		return rc;
	}
	place->device = st.st_dev;
	return 0;
}

void g4_dedup_place_close(struct g4_dedup_place *place)
{
	if (place->fs == NULL && place->root >= 0)
		close(place->root);
	place->root = -1;
}

int g4_dedup_place_sync(const struct g4_dedup_place *place)
{
	struct g4_ioc_job job = {.op = G4_CMD_SYNCFS};

	if (place->fs != NULL)
		return gpu4fs_syncfs(place->fs);
	/* the kernel gives its server what it has; the server writes that when it is asked, which syncfs(2) does not always do */
	if (syncfs(place->root) < 0 || ioctl(place->root, G4_IOC_JOB, &job) < 0)
		return -errno;
	return -g4_errno(job.status);
}

/* ------------------------------------------------------------------ names */

static void fill(struct g4_dedup_entry *out, const struct stat *st)
{
	*out = (struct g4_dedup_entry){
		.ino = st->st_ino, .size = (uint64_t)st->st_size, .mode = st->st_mode, .names = (uint32_t)st->st_nlink};
}

static void fill_from(struct g4_dedup_entry *out, const struct gpu4fs_stat *stat)
{
	*out = (struct g4_dedup_entry){.ino = stat->ino, .size = stat->size, .mode = stat->mode, .names = stat->nlink};
}

int g4_dedup_stat(const struct g4_dedup_place *place, const char *path, struct g4_dedup_entry *out)
{
	struct gpu4fs_stat stat;
	struct stat st;

	if (place->fs != NULL) {
		const int rc = gpu4fs_lstat(place->fs, NULL, path, &stat);
		if (rc == 0)
			fill_from(out, &stat);
		return rc;
	}
	if (lstat(path, &st) < 0)
		return -errno;
	fill(out, &st);
	return st.st_dev == place->device ? 0 : -EXDEV;
}

int g4_dedup_dir_open(const struct g4_dedup_place *place, const char *path, struct g4_dedup_dir *dir)
{
	*dir = (struct g4_dedup_dir){NULL, NULL};
	if (place->fs != NULL)
		return gpu4fs_opendir(place->fs, NULL, path, GPU4FS_DIR_STAT, &dir->stream);
	const int fd = open(path, HERE | O_DIRECTORY);
	if (fd >= 0 && (dir->here = fdopendir(fd)) != NULL)
		return 0;
	const int rc = -errno;
	if (fd >= 0)
		close(fd);
	return rc;
}

/* What was removed since its name was read, and what is mounted on a name, is passed over. */
static int next_here(const struct g4_dedup_place *place, DIR *here, struct g4_dedup_entry *out)
{
	const struct dirent *entry;
	struct stat st;

	while (errno = 0, (entry = readdir(here)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		if (place->numbers && entry->d_type == DT_REG) { /* what its number stands for is ours in any case */
			*out = (struct g4_dedup_entry){.ino = entry->d_ino, .size = G4_DEDUP_ANY_SIZE, .mode = S_IFREG};
			out->name = entry->d_name;
			return 1;
		}
		if (fstatat(dirfd(here), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT)
				continue;
			return -errno;
		}
		if (st.st_dev != place->device)
			continue;
		fill(out, &st);
		out->name = entry->d_name;
		return 1;
	}
	return -errno;
}

int g4_dedup_dir_next(const struct g4_dedup_place *place, struct g4_dedup_dir *dir, struct g4_dedup_entry *out)
{
	struct gpu4fs_dirent entry;

	if (dir->here != NULL)
		return next_here(place, dir->here, out);
	const int rc = gpu4fs_readdir(dir->stream, &entry);
	if (rc > 0) {
		fill_from(out, entry.stat);
		out->name = entry.name;
	}
	return rc;
}

void g4_dedup_dir_close(struct g4_dedup_dir *dir)
{
	if (dir->here != NULL)
		closedir(dir->here);
	else
		gpu4fs_closedir(dir->stream);
}

/* ------------------------------------------------------------------ pages */

int g4_dedup_open(const struct g4_dedup_place *place, const char *path, bool change, struct g4_dedup_handle *out)
{
	struct stat st;
	int rc = 0;

	*out = (struct g4_dedup_handle){.fd = -1};
	if (place->fs != NULL) {
		const int flags = (change ? O_RDWR : O_RDONLY) | O_NOFOLLOW;
		rc = gpu4fs_open(place->fs, NULL, path, flags | O_NOATIME, 0, &out->file);
		if (rc == -EPERM)
			rc = gpu4fs_open(place->fs, NULL, path, flags, 0, &out->file);
		out->is_open = rc == 0;
		return rc;
	}
	out->fd = open(path,
		       HERE | O_NOATIME); /* for reading in any case: watchers of the file need not hear of a writer */
	if (out->fd < 0 && errno == EPERM)
		out->fd = open(path, HERE);
	if (out->fd < 0)
		return -errno;
	if (fstat(out->fd, &st) < 0 || ioctl(out->fd, FS_IOC_GETVERSION, &out->generation) < 0)
		rc = -errno;
	else if (st.st_dev != place->device || !S_ISREG(st.st_mode))
		rc = -ESTALE; /* something else has this name now */
	out->ino = rc == 0 ? st.st_ino : 0;
	out->is_open = true;
	if (rc < 0)
		g4_dedup_close(out);
	return rc;
}

void g4_dedup_close(struct g4_dedup_handle *handle)
{
	if (handle->is_open && handle->file != NULL)
		gpu4fs_close(handle->file);
	else if (handle->is_open)
		close(handle->fd);
	*handle = (struct g4_dedup_handle){.fd = -1};
}

int64_t g4_dedup_sums(const struct g4_dedup_handle *handle, int64_t offset, struct gpu4fs_page_sum *out, uint32_t count)
{
	struct g4_ioc_sums io = {.offset = (uint64_t)offset};

	if (handle->file != NULL)
		return gpu4fs_page_sums(handle->file, offset, out, count);
	G4_STATIC_ASSERT(sizeof(*out) == sizeof(io.sums[0]), "the engine's own");
	if (ioctl(handle->fd, G4_IOC_SUMS, &io) < 0)
		return -errno;
	const uint64_t told = g4_min64(g4_min64(count, io.count), G4_IOC_SUMS_PAGES);
	memcpy(out, io.sums, told * sizeof(*out));
	return (int64_t)told;
}

int g4_dedup_sums_of(const struct g4_dedup_place *place, struct g4_ioc_sums_of *io)
{
	return ioctl(place->root, G4_IOC_SUMS_OF, io) < 0 ? -errno : 0;
}

void g4_dedup_place_numbers(struct g4_dedup_place *place)
{
	struct g4_ioc_sums_of none = {0};

	place->numbers = place->fs == NULL && g4_dedup_sums_of(place, &none) == 0;
}

int64_t g4_dedup_restripe(const struct g4_dedup_handle *handle, int64_t offset, uint32_t flags,
			  struct gpu4fs_restriped *out)
{
	struct g4_ioc_restripe io = {.offset = (uint64_t)offset, .flags = flags};

	if (handle->file != NULL)
		return gpu4fs_restripe(handle->file, offset, flags, out);
	*out = (struct gpu4fs_restriped){0};
	if (ioctl(handle->fd, G4_IOC_RESTRIPE, &io) < 0)
		return -errno;
	if (io.status < 0)
		return -g4_errno(io.status);
	*out = (struct gpu4fs_restriped){io.told.moved, io.told.shared, io.told.damaged};
	return (int64_t)io.told.next;
}

int64_t g4_dedup_read(const struct g4_dedup_handle *handle, uint64_t offset, void *to, uint64_t bytes)
{
	if (handle->file != NULL)
		return gpu4fs_pread(handle->file, to, bytes, (int64_t)offset);
	const ssize_t got = pread(handle->fd, to, bytes, (off_t)offset);
	return got < 0 ? -errno : got;
}

int64_t g4_dedup_same(const struct g4_dedup_handle *from, uint64_t from_offset, const struct g4_dedup_handle *to,
		      uint64_t to_offset, uint64_t bytes, bool compare)
{
	const bool zeros = from == NULL;

	if (zeros) { /* of itself */
		from = to;
		from_offset = to_offset;
	}
	return gpu4fs_dedupe_range(from->file, (int64_t)from_offset, to->file, (int64_t)to_offset, bytes,
				   (compare ? GPU4FS_DEDUPE_COMPARE : 0) | (zeros ? GPU4FS_DEDUPE_ZEROS : 0));
}

int g4_dedup_same_rows(const struct g4_dedup_place *place, struct g4_ioc_same *io)
{
	if (ioctl(place->root, G4_IOC_SAME, io) < 0)
		return -errno;
	return io->count > 0 ? 0 : -g4_errno(io->status);
}
