/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public API made of calls of the C library: so the engine's tests of it run in a directory of any file system, and through the library.
 * G4_API_DIRECTORY names the directory; each test has a new one in it. A test of what such calls do not have (sessions of other users, sums,
 * sharing and moving pages) is skipped.
 */
#include "api_fixture.h"
#undef gpu4fs_unmount

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/xattr.h>

struct gpu4fs {
	int top;
	char path[PATH_MAX];
};

struct gpu4fs_file {
	int fd;
};

struct gpu4fs_dir {
	DIR *stream;
	uint32_t flags;
	struct gpu4fs_stat stat;
};

gpu4fs *fs;

static int64_t result_of(int64_t result)
{
	return result < 0 ? -errno : result;
}

/* Where a path of the API begins, and how it goes on from there. */
static const char *from_here(const gpu4fs *mounted, const gpu4fs_file *at, const char *path, int *start)
{
	*start = at && path[0] != '/' ? at->fd : mounted->top;
	while (path[0] == '/' && path[1] == '/')
		path++;
	return path[0] == '/' ? (path[1] ? path + 1 : ".") : path;
}

/* The same where a call takes no descriptor. */
static const char *whole(const gpu4fs *mounted, const gpu4fs_file *at, const char *path, char out[2 * PATH_MAX])
{
	int start;
	const char *rest = from_here(mounted, at, path, &start);

	if (start == mounted->top)
		snprintf(out, 2 * PATH_MAX, "%s/%s", mounted->path, rest);
	else
		snprintf(out, 2 * PATH_MAX, "/proc/self/fd/%d/%s", start, rest);
	return out;
}

/* ------------------------------------------------------------------ the fixture */

static int remove_one(const char *path, const struct stat *st, int what, struct FTW *where)
{
	(void)st;
	(void)what;
	(void)where;
	return remove(path);
}

gpu4fs *api_mount(const char *name, bool format)
{
	static unsigned int number;
	const char *top = getenv("G4_API_DIRECTORY");
	gpu4fs *mounted = malloc(sizeof(*mounted));

	assert_non_null(top);
	assert_non_null(mounted);
	if (!strncmp(name, "mem:", 4))
		snprintf(mounted->path, sizeof(mounted->path), "%.3000s/%d.%u", top, (int)getpid(), number++);
	else
		snprintf(mounted->path, sizeof(mounted->path), "%.3000s/%.200s", top, name);
	if (format) {
		(void)nftw(mounted->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
		assert_int_equal(mkdir(mounted->path, 0755), 0);
	}
	mounted->top = open(mounted->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(mounted->top >= 0);
	return mounted;
}

int api_unmount(gpu4fs *mounted)
{
	const int rc = close(mounted->top);

	free(mounted);
	return rc;
}

gpu4fs *api_in_process(void)
{
	return fs;
}

int api_setup(void **state)
{
	(void)state;
	umask(022);
	fs = api_mount("mem:64M", true);
	return 0;
}

int api_teardown(void **state)
{
	(void)state;
	(void)nftw(fs->path, remove_one, 16, FTW_DEPTH | FTW_PHYS); /* the next test has its room */
	return api_unmount(fs);
}

gpu4fs *api_session(uint32_t uid, uint32_t gid, uint32_t group)
{
	(void)uid;
	(void)gid;
	(void)group;
	skip();
	return NULL;
}

/* Of large counts the tests take fewer. */
bool rig_slow(void);
bool rig_slow(void)
{
	return true;
}

int gpu4fs_session_close(gpu4fs *session)
{
	(void)session;
	return 0;
}

const char *gpu4fs_strerror(int result)
{
	return strerror(-result);
}

/* ------------------------------------------------------------------ files */

int gpu4fs_open(gpu4fs *mounted, gpu4fs_file *at, const char *path, int flags, uint32_t mode, gpu4fs_file **out)
{
	int start;

	if (flags & (GPU4FS_O_DEDUP | GPU4FS_O_NODEDUP))
		skip();
	path = from_here(mounted, at, path, &start);
	const int fd = openat(start, path, flags | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	*out = malloc(sizeof(**out));
	assert_non_null(*out);
	(*out)->fd = fd;
	return 0;
}

int gpu4fs_close(gpu4fs_file *file)
{
	const int rc = (int)result_of(close(file->fd));

	free(file);
	return rc;
}

int64_t gpu4fs_read(gpu4fs_file *file, void *buffer, size_t bytes)
{
	return result_of(read(file->fd, buffer, bytes));
}

int64_t gpu4fs_write(gpu4fs_file *file, const void *buffer, size_t bytes)
{
	return result_of(write(file->fd, buffer, bytes));
}

int64_t gpu4fs_pread(gpu4fs_file *file, void *buffer, size_t bytes, int64_t offset)
{
	return result_of(pread(file->fd, buffer, bytes, offset));
}

int64_t gpu4fs_pwrite(gpu4fs_file *file, const void *buffer, size_t bytes, int64_t offset)
{
	return result_of(pwrite(file->fd, buffer, bytes, offset));
}

int64_t gpu4fs_preadv(gpu4fs_file *file, const struct iovec *iov, int count, int64_t offset)
{
	return result_of(preadv(file->fd, iov, count, offset));
}

int64_t gpu4fs_pwritev(gpu4fs_file *file, const struct iovec *iov, int count, int64_t offset)
{
	return result_of(pwritev(file->fd, iov, count, offset));
}

int64_t gpu4fs_lseek(gpu4fs_file *file, int64_t offset, int whence)
{
	return result_of(lseek(file->fd, offset, whence));
}

int gpu4fs_ftruncate(gpu4fs_file *file, int64_t size)
{
	return (int)result_of(ftruncate(file->fd, size));
}

int gpu4fs_fallocate(gpu4fs_file *file, uint32_t mode, int64_t offset, int64_t bytes)
{
	return (int)result_of(fallocate(file->fd, (int)mode, offset, bytes));
}

int64_t gpu4fs_copy_file_range(gpu4fs_file *from, int64_t *from_offset, gpu4fs_file *to, int64_t *to_offset,
			       size_t bytes)
{
	return result_of(copy_file_range(from->fd, from_offset, to->fd, to_offset, bytes, 0));
}

int gpu4fs_fsync(gpu4fs_file *file)
{
	return (int)result_of(fsync(file->fd));
}

int gpu4fs_fdatasync(gpu4fs_file *file)
{
	return (int)result_of(fdatasync(file->fd));
}

int gpu4fs_fchmod(gpu4fs_file *file, uint32_t mode)
{
	return (int)result_of(fchmod(file->fd, mode));
}

int gpu4fs_fchown(gpu4fs_file *file, uint32_t uid, uint32_t gid)
{
	return (int)result_of(fchown(file->fd, uid, gid));
}

int gpu4fs_futimens(gpu4fs_file *file, const struct timespec times[2])
{
	return (int)result_of(futimens(file->fd, times));
}

int gpu4fs_link_file(gpu4fs_file *file, gpu4fs_file *to_at, const char *to)
{
	int start;

	to = from_here(fs, to_at, to, &start);
	return (int)result_of(linkat(file->fd, "", start, to, AT_EMPTY_PATH));
}

/* ------------------------------------------------------------------ attributes */

static struct timespec time_of(const struct statx_timestamp *stamp)
{
	return (struct timespec){.tv_sec = stamp->tv_sec, .tv_nsec = stamp->tv_nsec};
}

static int attributes_of(int start, const char *path, int flags, struct gpu4fs_stat *out)
{
	struct statx st;

	if (statx(start, path, flags, STATX_BASIC_STATS | STATX_BTIME, &st) != 0)
		return -errno;
	*out = (struct gpu4fs_stat){.ino = st.stx_ino,
				    .generation =
					    (uint64_t)st.stx_btime.tv_sec << 32 | st.stx_btime.tv_nsec, /* as good */
				    .size = st.stx_size,
				    .blocks = st.stx_blocks,
				    .rdev = makedev(st.stx_rdev_major, st.stx_rdev_minor),
				    .mode = st.stx_mode,
				    .nlink = st.stx_nlink,
				    .uid = st.stx_uid,
				    .gid = st.stx_gid,
				    .block_bytes = st.stx_blksize,
				    .atime = time_of(&st.stx_atime),
				    .mtime = time_of(&st.stx_mtime),
				    .ctime = time_of(&st.stx_ctime),
				    .btime = time_of(&st.stx_btime)};
	return 0;
}

int gpu4fs_fstat(gpu4fs_file *file, struct gpu4fs_stat *out)
{
	return attributes_of(file->fd, "", AT_EMPTY_PATH, out);
}

int gpu4fs_stat(gpu4fs *mounted, gpu4fs_file *at, const char *path, struct gpu4fs_stat *out)
{
	int start;

	path = from_here(mounted, at, path, &start);
	return attributes_of(start, path, 0, out);
}

int gpu4fs_lstat(gpu4fs *mounted, gpu4fs_file *at, const char *path, struct gpu4fs_stat *out)
{
	int start;

	path = from_here(mounted, at, path, &start);
	return attributes_of(start, path, AT_SYMLINK_NOFOLLOW, out);
}

int gpu4fs_chmod(gpu4fs *mounted, gpu4fs_file *at, const char *path, uint32_t mode)
{
	int start;

	path = from_here(mounted, at, path, &start);
	return (int)result_of(fchmodat(start, path, mode, 0));
}

int gpu4fs_lchmod(gpu4fs *mounted, gpu4fs_file *at, const char *path, uint32_t mode)
{
	int start;

	path = from_here(mounted, at, path, &start);
	return (int)result_of(fchmodat(start, path, mode, AT_SYMLINK_NOFOLLOW));
}

int gpu4fs_chown(gpu4fs *mounted, gpu4fs_file *at, const char *path, uint32_t uid, uint32_t gid, int flags)
{
	int start;

	path = from_here(mounted, at, path, &start);
	return (int)result_of(fchownat(start, path, uid, gid, flags));
}

int gpu4fs_utimens(gpu4fs *mounted, gpu4fs_file *at, const char *path, const struct timespec times[2], int flags)
{
	int start;

	path = from_here(mounted, at, path, &start);
	return (int)result_of(utimensat(start, path, times, flags));
}

int gpu4fs_truncate(gpu4fs *mounted, gpu4fs_file *at, const char *path, int64_t size)
{
	char name[2 * PATH_MAX];

	return (int)result_of(truncate(whole(mounted, at, path, name), size));
}

int gpu4fs_access(gpu4fs *mounted, gpu4fs_file *at, const char *path, int mode)
{
	int start;

	path = from_here(mounted, at, path, &start);
	return (int)result_of(faccessat(start, path, mode, 0));
}

int gpu4fs_statfs(gpu4fs *mounted, struct gpu4fs_statfs *out)
{
	struct statvfs st;

	if (fstatvfs(mounted->top, &st) != 0)
		return -errno;
	*out = (struct gpu4fs_statfs){.block_bytes = st.f_frsize,
				      .blocks = st.f_blocks,
				      .blocks_free = st.f_bfree,
				      .blocks_available = st.f_bavail,
				      .inodes = st.f_files,
				      .inodes_free = st.f_ffree,
				      .name_max = (uint32_t)st.f_namemax};
	return 0;
}

int gpu4fs_syncfs(gpu4fs *mounted)
{
	return (int)result_of(syncfs(mounted->top));
}

/* ------------------------------------------------------------------ names */

int gpu4fs_mkdir(gpu4fs *mounted, gpu4fs_file *at, const char *path, uint32_t mode)
{
	int start;

	path = from_here(mounted, at, path, &start);
	return (int)result_of(mkdirat(start, path, mode));
}

int gpu4fs_rmdir(gpu4fs *mounted, gpu4fs_file *at, const char *path)
{
	int start;

	path = from_here(mounted, at, path, &start);
	return (int)result_of(unlinkat(start, path, AT_REMOVEDIR));
}

int gpu4fs_unlink(gpu4fs *mounted, gpu4fs_file *at, const char *path)
{
	int start;

	path = from_here(mounted, at, path, &start);
	return (int)result_of(unlinkat(start, path, 0));
}

int gpu4fs_mknod(gpu4fs *mounted, gpu4fs_file *at, const char *path, uint32_t mode, uint64_t rdev)
{
	int start;

	path = from_here(mounted, at, path, &start);
	return (int)result_of(mknodat(start, path, mode, rdev));
}

int gpu4fs_rename(gpu4fs *mounted, gpu4fs_file *from_at, const char *from, gpu4fs_file *to_at, const char *to,
		  uint32_t flags)
{
	int start, to_start;

	from = from_here(mounted, from_at, from, &start);
	to = from_here(mounted, to_at, to, &to_start);
	return (int)result_of(renameat2(start, from, to_start, to, flags));
}

int gpu4fs_link(gpu4fs *mounted, gpu4fs_file *from_at, const char *from, gpu4fs_file *to_at, const char *to, int flags)
{
	int start, to_start;

	from = from_here(mounted, from_at, from, &start);
	to = from_here(mounted, to_at, to, &to_start);
	return (int)result_of(linkat(start, from, to_start, to, flags));
}

int gpu4fs_symlink(gpu4fs *mounted, const char *target, gpu4fs_file *at, const char *path)
{
	int start;

	path = from_here(mounted, at, path, &start);
	return (int)result_of(symlinkat(target, start, path));
}

int64_t gpu4fs_readlink(gpu4fs *mounted, gpu4fs_file *at, const char *path, char *buffer, size_t bytes)
{
	int start;

	path = from_here(mounted, at, path, &start);
	return result_of(readlinkat(start, path, buffer, bytes));
}

/* ------------------------------------------------------------------ listings */

static int list(int fd, uint32_t flags, gpu4fs_dir **out)
{
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);

	if (!stream) {
		const int error = errno;
		if (fd >= 0)
			close(fd);
		return -error;
	}
	*out = calloc(1, sizeof(**out));
	assert_non_null(*out);
	(*out)->stream = stream;
	(*out)->flags = flags;
	return 0;
}

int gpu4fs_opendir(gpu4fs *mounted, gpu4fs_file *at, const char *path, uint32_t flags, gpu4fs_dir **out)
{
	int start;

	path = from_here(mounted, at, path, &start);
	return list(openat(start, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), flags, out);
}

int gpu4fs_opendir_file(gpu4fs_file *file, uint32_t flags, gpu4fs_dir **out)
{
	return list(openat(file->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), flags, out);
}

int gpu4fs_readdir(gpu4fs_dir *dir, struct gpu4fs_dirent *out)
{
	struct dirent *entry;

	do {
		errno = 0;
		entry = readdir(dir->stream);
		if (!entry)
			return -errno;
	} while (!(dir->flags & GPU4FS_DIR_DOTS) && (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")));
	*out = (struct gpu4fs_dirent){.ino = entry->d_ino,
				      .cookie = (uint64_t)telldir(dir->stream),
				      .name = entry->d_name,
				      .name_bytes = (uint32_t)strlen(entry->d_name),
				      .type = entry->d_type};
	if (dir->flags & GPU4FS_DIR_STAT) {
		const int rc = attributes_of(dirfd(dir->stream), entry->d_name, AT_SYMLINK_NOFOLLOW, &dir->stat);
		if (rc < 0)
			return rc;
		out->stat = &dir->stat;
	}
	return 1;
}

uint64_t gpu4fs_telldir(gpu4fs_dir *dir)
{
	return (uint64_t)telldir(dir->stream);
}

void gpu4fs_seekdir(gpu4fs_dir *dir, uint64_t cookie)
{
	seekdir(dir->stream, (long)cookie);
}

int gpu4fs_closedir(gpu4fs_dir *dir)
{
	const int rc = (int)result_of(closedir(dir->stream));

	free(dir);
	return rc;
}

/* ------------------------------------------------------------------ extended attributes */

#define BY_PATH(type, name, parameters, call)                                                                          \
	type gpu4fs_##name parameters                                                                                  \
	{                                                                                                              \
		char path_[2 * PATH_MAX];                                                                              \
		const char *where = whole(mounted, at, path, path_);                                                   \
		return (type)result_of(call);                                                                          \
	}
#define OF_PATH gpu4fs *mounted, gpu4fs_file *at, const char *path
BY_PATH(int64_t, getxattr, (OF_PATH, const char *name, void *buffer, size_t bytes),
	getxattr(where, name, buffer, bytes))
BY_PATH(int64_t, lgetxattr, (OF_PATH, const char *name, void *buffer, size_t bytes),
	lgetxattr(where, name, buffer, bytes))
BY_PATH(int, setxattr, (OF_PATH, const char *name, const void *value, size_t bytes, uint32_t flags),
	setxattr(where, name, value, bytes, (int)flags))
BY_PATH(int, lsetxattr, (OF_PATH, const char *name, const void *value, size_t bytes, uint32_t flags),
	lsetxattr(where, name, value, bytes, (int)flags))
BY_PATH(int64_t, listxattr, (OF_PATH, char *buffer, size_t bytes), listxattr(where, buffer, bytes))
BY_PATH(int64_t, llistxattr, (OF_PATH, char *buffer, size_t bytes), llistxattr(where, buffer, bytes))
BY_PATH(int, removexattr, (OF_PATH, const char *name), removexattr(where, name))
BY_PATH(int, lremovexattr, (OF_PATH, const char *name), lremovexattr(where, name))

int64_t gpu4fs_fgetxattr(gpu4fs_file *file, const char *name, void *buffer, size_t bytes)
{
	return result_of(fgetxattr(file->fd, name, buffer, bytes));
}

int gpu4fs_fsetxattr(gpu4fs_file *file, const char *name, const void *value, size_t bytes, uint32_t flags)
{
	return (int)result_of(fsetxattr(file->fd, name, value, bytes, (int)flags));
}

int64_t gpu4fs_flistxattr(gpu4fs_file *file, char *buffer, size_t bytes)
{
	return result_of(flistxattr(file->fd, buffer, bytes));
}

int gpu4fs_fremovexattr(gpu4fs_file *file, const char *name)
{
	return (int)result_of(fremovexattr(file->fd, name));
}

/* ------------------------------------------------------------------ what such calls do not have */

#define NOT_HERE(type, name, parameters)                                                                               \
	type gpu4fs_##name parameters                                                                                  \
	{                                                                                                              \
		skip();                                                                                                \
		return 0;                                                                                              \
	}
NOT_HERE(int, chflags, (gpu4fs * mounted, gpu4fs_file *at, const char *path, uint32_t flags))
NOT_HERE(int, fchflags, (gpu4fs_file * file, uint32_t flags))
NOT_HERE(int64_t, extents, (gpu4fs_file * file, int64_t offset, struct gpu4fs_extent *out, uint32_t count))
NOT_HERE(int64_t, share_range,
	 (gpu4fs_file * from, int64_t from_offset, gpu4fs_file *to, int64_t to_offset, uint64_t bytes))
NOT_HERE(int64_t, dedupe_range,
	 (gpu4fs_file * from, int64_t from_offset, gpu4fs_file *to, int64_t to_offset, uint64_t bytes, uint32_t flags))
NOT_HERE(int64_t, restripe, (gpu4fs_file * file, int64_t offset, uint32_t flags, struct gpu4fs_restriped *out))
NOT_HERE(int64_t, page_sums, (gpu4fs_file * file, int64_t offset, struct gpu4fs_page_sum *out, uint32_t count))
NOT_HERE(int, dedup_stats, (gpu4fs * mounted, struct gpu4fs_dedup_stats *out))
NOT_HERE(int64_t, dedup_prune, (gpu4fs * mounted))
NOT_HERE(int64_t, dedup_prune_older, (gpu4fs * mounted, uint32_t days))
NOT_HERE(int, dedup_quota, (gpu4fs * mounted, uint64_t bytes))
