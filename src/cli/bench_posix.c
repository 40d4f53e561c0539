/* SPDX-License-Identifier: Apache-2.0 */
/* The workload through system calls in a directory, for ext4, XFS, Btrfs, a mounted gpu4fs and anything else. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/magic.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/bench_workload.h"
#include "cli/cli.h"

struct context {
	const struct g4_bench_options *options;
	char *path; /* of the fresh directory */
	int folder;
	bool is_fuse;
	bool may_drop; /* the kernel's caches */
};

static int folder_of(void *context)
{
	return ((struct context *)context)->folder;
}

static int result(int rc)
{
	return rc < 0 ? -errno : 0;
}

/* ------------------------------------------------------------------ callbacks */

static int do_mkdir(void *context, const char *path)
{
	return result(mkdirat(folder_of(context), path, 0755));
}

static int do_rmdir(void *context, const char *path)
{
	return result(unlinkat(folder_of(context), path, AT_REMOVEDIR));
}

static int do_open(void *context, const char *path, unsigned int flags, void **file)
{
	int posix = flags & G4_BENCH_CREATE ? O_RDWR | O_CREAT | O_EXCL : O_RDWR;
	int fd = openat(folder_of(context), path, posix | O_CLOEXEC, 0644);

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

	return result(fstatat(folder_of(context), path, &stat, 0));
}

static int do_rename(void *context, const char *from, const char *to)
{
	return result(renameat(folder_of(context), from, folder_of(context), to));
}

static int do_unlink(void *context, const char *path)
{
	return result(unlinkat(folder_of(context), path, 0));
}

/* The directory below, in place of *fd, which is closed; the target's own stays open. */
static int enter(void *context, int *fd, const char *name)
{
	const int below = openat(*fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), error = errno;

	if (*fd != folder_of(context))
		close(*fd);
	*fd = below < 0 ? folder_of(context) : below;
	return below < 0 ? -error : 0;
}

static void leave(void *context, int fd)
{
	if (fd != folder_of(context))
		close(fd);
}

/* make: what is not there. Paths of 4 096 bytes and more have no other way. */
static int descend(void *context, const char *name, uint32_t levels, bool make)
{
	int fd = folder_of(context), rc = 0;

	for (uint32_t i = 0; i < levels && rc == 0; i++) {
		if (make)
			rc = result(mkdirat(fd, name, 0755));
		if (rc == 0)
			rc = enter(context, &fd, name);
	}
	leave(context, fd);
	return rc;
}

static int do_deep_mkdir(void *context, const char *name, uint32_t levels)
{
	return descend(context, name, levels, true);
}

static int do_deep_stat(void *context, const char *name, uint32_t levels)
{
	return descend(context, name, levels, false);
}

static int do_deep_rmdir(void *context, const char *name, uint32_t levels)
{
	int fd = folder_of(context), rc = 0;

	for (uint32_t i = 1; i < levels && rc == 0; i++)
		rc = enter(context, &fd, name);
	for (uint32_t i = levels; i > 0 && rc == 0; i--) {
		rc = result(unlinkat(fd, name, AT_REMOVEDIR));
		if (rc == 0 && i > 1)
			rc = enter(context, &fd, "..");
	}
	leave(context, fd);
	return rc;
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

static int open_folder(struct context *context)
{
	context->folder = open(context->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return context->folder < 0 ? -errno : 0;
}

static void close_folder(struct context *context)
{
	if (context->folder >= 0)
		close(context->folder);
	context->folder = -1;
}

/* The user's command line, in a shell. */
static int remount(struct context *context)
{
	const char *argv[] = {"sh", "-c", context->options->remount, NULL};
	int status = 0, error;
	pid_t pid;

	close_folder(context);
	error = posix_spawn(&pid, "/bin/sh", NULL, NULL, (char *const *)(uintptr_t)argv, environ);
	while (error == 0 && waitpid(pid, &status, 0) < 0)
		error = errno == EINTR ? 0 : errno;
	if (error != 0)
		return -error;
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		g4_cli_error("bench", "'%s' failed", context->options->remount);
		return -EIO;
	}
	return open_folder(context);
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
	int fd = openat(context->folder, path, O_RDONLY | O_CLOEXEC), rc;

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
	if (rc == 0)
		rc = self->may_drop ? drop_kernel_caches("3") : drop_file(self, path);
	return rc;
}

/* A FUSE server hears of every forgotten name afterwards; it gets the time to. */
static int do_forget_names(void *context)
{
	struct context *self = context;
	int rc = do_sync(context);

	if (rc == 0 && self->may_drop)
		rc = drop_kernel_caches("2");
	if (self->is_fuse)
		sleep(1);
	return rc;
}

static int do_free_bytes(void *context, uint64_t *bytes)
{
	struct statfs space;

	if (fstatfs(folder_of(context), &space) != 0)
		return -errno;
	*bytes = (uint64_t)space.f_bavail * (uint64_t)space.f_bsize;
	return 0;
}

static int server_cpu_seconds(void *context, double *seconds)
{
	unsigned long user, system_time;
	char path[64];
	long pid = 0;
	FILE *file = fopen(((struct context *)context)->options->server, "re");
	bool good;

	if (!file || fscanf(file, "%ld", &pid) != 1)
		pid = 0;
	if (file)
		fclose(file);
	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return -ESRCH;
	/* Its name in brackets has no spaces. */
	good = fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system_time) == 2;
	fclose(file);
	*seconds = good ? (double)(user + system_time) / (double)sysconf(_SC_CLK_TCK) : 0;
	return good ? 0 : -ESRCH;
}

/* ------------------------------------------------------------------ from start to end */

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *place)
{
	(void)stat;
	(void)kind;
	(void)place;
	return remove(path) == 0 ? 0 : -errno;
}

static void free_context(struct context *context)
{
	close_folder(context);
	free(context->path);
	free(context);
}

static int do_finish(void *context)
{
	struct context *self = context;
	int rc;

	close_folder(self);
	errno = 0;
	rc = nftw(self->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	if (rc == -1)
		rc = errno ? -errno : -EIO;
	free_context(self);
	return rc;
}

static int make_folder(struct context *context)
{
	const char *target = context->options->target;
	char name[G4_BENCH_NAME_BYTES];

	if (!g4_bench_name(name) || asprintf(&context->path, "%s/%s", target, name) < 0) {
		context->path = NULL;
		return -ENOMEM;
	}
	if (mkdir(context->path, 0700) != 0)
		return -errno;
	int rc = open_folder(context);
	if (rc < 0)
		rmdir(context->path);
	return rc;
}

int g4_bench_posix(const struct g4_bench_options *options, struct g4_bench_target *target, char *message, size_t bytes)
{
	struct context *context = calloc(1, sizeof(*context));
	struct statfs space;
	int rc = -ENOMEM;

	if (context) {
		context->options = options;
		context->folder = -1;
		rc = make_folder(context);
	}
	if (rc < 0) {
		snprintf(message, bytes, "%s: no directory can be made in it: %s", options->target, strerror(-rc));
		if (context)
			free_context(context);
		return rc;
	}
	context->is_fuse = fstatfs(context->folder, &space) == 0 && space.f_type == FUSE_SUPER_MAGIC;
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
	context->may_drop = fd >= 0;
	if (fd >= 0)
		close(fd);
	else
		g4_cli_error("bench",
			     "no right to drop the kernel's caches (%s): only the file's pages are dropped, and lookup "
			     "is the same as stat",
			     strerror(errno));
	*target = (struct g4_bench_target){
		.context = context,
		.mkdir = do_mkdir,
		.rmdir = do_rmdir,
		.open = do_open,
		.close = do_close,
		.stat = do_stat,
		.rename = do_rename,
		.unlink = do_unlink,
		.deep_mkdir = do_deep_mkdir,
		.deep_stat = do_deep_stat,
		.deep_rmdir = do_deep_rmdir,
		.pread = do_pread,
		.pwrite = do_pwrite,
		.fsync = do_fsync,
		.sync = do_sync,
		.drop_caches = do_drop_caches,
		.forget_names = do_forget_names,
		.free_bytes = do_free_bytes,
		.server_cpu_seconds = options->server ? server_cpu_seconds : NULL,
		.finish = do_finish,
	};
	return 0;
}
