/* SPDX-License-Identifier: Apache-2.0 */
/* The workload through system calls in a directory, for ext4, XFS, Btrfs and anything behind FUSE. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "workload.h"

struct context {
	int directory;
	bool warned;
};

/* Paths of the workload start with '/': below the directory, that is without it. */
static int at(void *context)
{
	return ((struct context *)context)->directory;
}

static int result(int rc)
{
	return rc < 0 ? -errno : 0;
}

static int do_mkdir(void *context, const char *path)
{
	return result(mkdirat(at(context), path + 1, 0755));
}

static int do_rmdir(void *context, const char *path)
{
	return result(unlinkat(at(context), path + 1, AT_REMOVEDIR));
}

static int do_open(void *context, const char *path, unsigned int flags, void **file)
{
	int posix = flags & WORKLOAD_CREATE ? O_RDWR | O_CREAT | O_EXCL : O_RDWR;
	int fd = openat(at(context), path + 1, posix | O_CLOEXEC, 0644);

	if (fd < 0)
		return -errno;
	*file = (void *)(intptr_t)fd;
	return 0;
}

static int fd_of(void *file)
{
	return (int)(intptr_t)file;
}

static int do_close(void *file)
{
	return result(close(fd_of(file)));
}

static int do_stat(void *context, const char *path)
{
	struct stat stat;

	return result(fstatat(at(context), path + 1, &stat, 0));
}

static int do_rename(void *context, const char *from, const char *to)
{
	return result(renameat(at(context), from + 1, at(context), to + 1));
}

static int do_unlink(void *context, const char *path)
{
	return result(unlinkat(at(context), path + 1, 0));
}

static int64_t do_pread(void *file, void *buffer, size_t bytes, int64_t offset)
{
	ssize_t got = pread(fd_of(file), buffer, bytes, offset);

	return got < 0 ? -errno : got;
}

static int64_t do_pwrite(void *file, const void *buffer, size_t bytes, int64_t offset)
{
	ssize_t put = pwrite(fd_of(file), buffer, bytes, offset);

	return put < 0 ? -errno : put;
}

static int do_fsync(void *file)
{
	return result(fsync(fd_of(file)));
}

static int do_sync(void *context)
{
	return result(syncfs(at(context)));
}

static int drop_file(struct context *context, const char *path)
{
	int fd = openat(context->directory, path + 1, O_RDONLY | O_CLOEXEC), rc;

	if (!context->warned)
		fprintf(stderr, "no right to drop all caches, dropping the file's pages only\n");
	context->warned = true;
	if (fd < 0)
		return -errno;
	rc = -posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
	return rc;
}

static int do_drop_caches(void *context, const char *path)
{
	int fd, rc;

	sync();
	fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return drop_file(context, path);
	rc = write(fd, "3", 1) == 1 ? 0 : -errno;
	close(fd);
	return rc ? drop_file(context, path) : 0;
}

int main(int argc, char **argv)
{
	struct workload_options options;
	struct context context = {0};
	const struct workload_target target = {
		.context = &context,
		.mkdir = do_mkdir,
		.rmdir = do_rmdir,
		.open = do_open,
		.close = do_close,
		.stat = do_stat,
		.rename = do_rename,
		.unlink = do_unlink,
		.pread = do_pread,
		.pwrite = do_pwrite,
		.fsync = do_fsync,
		.sync = do_sync,
		.drop_caches = do_drop_caches,
	};
	int rc;

	workload_parse(argc, argv, "DIRECTORY", &options);
	context.directory = open(options.target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (context.directory < 0) {
		fprintf(stderr, "%s: %s\n", options.target, strerror(errno));
		return 1;
	}
	rc = workload_run(&target, &options);
	close(context.directory);
	return rc;
}
