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
	const struct workload_options *options;
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

/* Everything, because there may be another file system below this one. */
static int do_sync(void *context)
{
	(void)context;
	sync();
	return 0;
}

static int open_directory(struct context *context)
{
	context->directory = open(context->options->target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return context->directory < 0 ? -errno : 0;
}

static int remount(struct context *context)
{
	int status;

	close(context->directory);
	status = system(context->options->remount);
	if (status != 0) {
		fprintf(stderr, "'%s' failed with status %d\n", context->options->remount, status);
		return -EIO;
	}
	return open_directory(context);
}

/* what: "1" pages, "2" names and attributes, "3" both */
static int drop_kernel_caches(const char *what)
{
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	rc = write(fd, what, 1) == 1 ? 0 : -errno;
	close(fd);
	return rc;
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
	struct context *self = context;
	int rc = do_sync(context);

	if (rc == 0 && self->options->remount)
		rc = remount(self);
	if (rc == 0 && drop_kernel_caches("3") < 0)
		rc = drop_file(self, path);
	return rc;
}

/* A FUSE server hears of every forgotten name afterwards; it gets the time to. */
static int do_forget_names(void *context)
{
	int rc = do_sync(context);

	if (rc == 0 && drop_kernel_caches("2") < 0)
		fprintf(stderr, "no right to make the kernel forget names: lookup is the same as stat\n");
	sleep(1);
	return rc;
}

static double server_cpu_seconds(void *context)
{
	unsigned long user, system_time;
	char path[64];
	long pid = 0;
	FILE *file = fopen(((struct context *)context)->options->server, "re");

	if (!file || fscanf(file, "%ld", &pid) != 1)
		pid = 0;
	if (file)
		fclose(file);
	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	file = fopen(path, "re");
	/* Its name in brackets has no spaces. */
	if (!file ||
	    fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system_time) != 2) {
		fprintf(stderr, "the FUSE server, process %ld, is gone\n", pid);
		exit(1);
	}
	fclose(file);
	return (double)(user + system_time) / (double)sysconf(_SC_CLK_TCK);
}

int main(int argc, char **argv)
{
	struct workload_options options;
	struct context context = {.options = &options};
	struct workload_target target = {
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
		.forget_names = do_forget_names,
	};
	int rc;

	workload_parse(argc, argv, "DIRECTORY", &options);
	if (options.server)
		target.server_cpu_seconds = server_cpu_seconds;
	if (open_directory(&context) < 0) {
		fprintf(stderr, "%s: %s\n", options.target, strerror(errno));
		return 1;
	}
	rc = workload_run(&target, &options);
	close(context.directory);
	return rc;
}
