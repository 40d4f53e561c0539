/* SPDX-License-Identifier: Apache-2.0 */
/* The workload on a gpu4fs image, in this process. The image is formatted; it is left behind. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu4fs/gpu4fs.h"
#include "workload.h"

struct context {
	const struct workload_options *options;
	gpu4fs *fs;
};

static int mount_image(struct context *context, const struct gpu4fs_mkfs_options *format)
{
	const struct gpu4fs_options options = {
		.size = sizeof(options), .cache_bytes = context->options->cache_bytes, .format = format};
	int rc = gpu4fs_mount(&context->options->target, 1, &options, &context->fs);

	if (rc)
		fprintf(stderr, "%s\n", gpu4fs_last_message());
	return rc;
}

static int do_mkdir(void *context, const char *path)
{
	return gpu4fs_mkdir(((struct context *)context)->fs, NULL, path, 0755);
}

static int do_rmdir(void *context, const char *path)
{
	return gpu4fs_rmdir(((struct context *)context)->fs, NULL, path);
}

static int do_open(void *context, const char *path, unsigned int flags, void **file)
{
	int posix = flags & WORKLOAD_CREATE ? O_RDWR | O_CREAT | O_EXCL : O_RDWR;
	gpu4fs_file *opened;
	int rc = gpu4fs_open(((struct context *)context)->fs, NULL, path, posix, 0644, &opened);

	if (rc == 0)
		*file = opened;
	return rc;
}

static int do_close(void *file)
{
	return gpu4fs_close(file);
}

static int do_stat(void *context, const char *path)
{
	struct gpu4fs_stat stat;

	return gpu4fs_stat(((struct context *)context)->fs, NULL, path, &stat);
}

static int do_rename(void *context, const char *from, const char *to)
{
	return gpu4fs_rename(((struct context *)context)->fs, NULL, from, NULL, to, 0);
}

static int do_unlink(void *context, const char *path)
{
	return gpu4fs_unlink(((struct context *)context)->fs, NULL, path);
}

static int64_t do_pread(void *file, void *buffer, size_t bytes, int64_t offset)
{
	return gpu4fs_pread(file, buffer, bytes, offset);
}

static int64_t do_pwrite(void *file, const void *buffer, size_t bytes, int64_t offset)
{
	return gpu4fs_pwrite(file, buffer, bytes, offset);
}

static int do_fsync(void *file)
{
	return gpu4fs_fsync(file);
}

static int do_sync(void *context)
{
	return gpu4fs_syncfs(((struct context *)context)->fs);
}

static int do_drop_caches(void *context, const char *path)
{
	int rc = gpu4fs_unmount(((struct context *)context)->fs);

	(void)path;
	return rc ? rc : mount_image(context, NULL);
}

static int do_forget_names(void *context)
{
	(void)context;
	return 0;
}

int main(int argc, char **argv)
{
	struct workload_options options;
	struct context context = {.options = &options};
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
		.forget_names = do_forget_names,
	};
	struct gpu4fs_mkfs_options format = {.size = sizeof(format), .flags = GPU4FS_MKFS_FORCE};
	int rc;

	workload_parse(argc, argv, "IMAGE", &options);
	format.create_bytes = options.image_bytes;
	if (mount_image(&context, &format))
		return 1;
	rc = workload_run(&target, &options);
	return gpu4fs_unmount(context.fs) ? 1 : rc;
}
