/* SPDX-License-Identifier: Apache-2.0 */
/* The workload in a directory of a gpu4fs file system, in this process. Only "mem:", which is empty, is formatted. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench_workload.h"
#include "gpu4fs/gpu4fs.h"

#define MANY_MOST 64u

struct context {
	const struct g4_bench_options *options;
	bool memory;
	char name[G4_BENCH_NAME_BYTES]; /* of the directory, in the root */
	gpu4fs *fs;			/* NULL while unmounted */
	gpu4fs_file *folder;
};

static int mount_device(struct context *context)
{
	const struct gpu4fs_mkfs_options format = {.size = sizeof(format)};
	const struct gpu4fs_options options = {.size = sizeof(options),
					       .cache_bytes = context->options->cache_bytes,
					       .format = context->memory ? &format : NULL};

	return gpu4fs_mount(&context->options->target, 1, &options, &context->fs);
}

static int open_folder(struct context *context)
{
	return gpu4fs_open(context->fs, NULL, context->name, O_RDONLY | O_DIRECTORY, 0, &context->folder);
}

static int unmount(struct context *context)
{
	int rc = 0;

	if (context->folder)
		gpu4fs_close(context->folder);
	context->folder = NULL;
	if (context->fs)
		rc = gpu4fs_unmount(context->fs);
	context->fs = NULL;
	return rc;
}

/* ------------------------------------------------------------------ callbacks */

static int do_mkdir(void *context, const char *path)
{
	struct context *self = context;

	return gpu4fs_mkdir(self->fs, self->folder, path, 0755);
}

static int do_rmdir(void *context, const char *path)
{
	struct context *self = context;

	return gpu4fs_rmdir(self->fs, self->folder, path);
}

static int do_open(void *context, const char *path, unsigned int flags, void **file)
{
	struct context *self = context;
	int posix = flags & G4_BENCH_CREATE ? O_RDWR | O_CREAT | O_EXCL : O_RDWR;
	gpu4fs_file *opened;
	int rc = gpu4fs_open(self->fs, self->folder, path, posix, 0644, &opened);

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
	struct context *self = context;
	struct gpu4fs_stat stat;

	return gpu4fs_stat(self->fs, self->folder, path, &stat);
}

static int do_rename(void *context, const char *from, const char *to)
{
	struct context *self = context;

	return gpu4fs_rename(self->fs, self->folder, from, self->folder, to, 0);
}

static int do_unlink(void *context, const char *path)
{
	struct context *self = context;

	return gpu4fs_unlink(self->fs, self->folder, path);
}

static int do_many(void *context, enum g4_bench_many kind, const char *const *paths, uint32_t count)
{
	static const uint32_t ops[] = {GPU4FS_BATCH_CREATE, GPU4FS_BATCH_STAT, GPU4FS_BATCH_UNLINK};
	struct context *self = context;
	struct gpu4fs_batch_entry entries[MANY_MOST];
	struct gpu4fs_stat stats[MANY_MOST];

	if (count > MANY_MOST)
		return -EINVAL;
	for (uint32_t i = 0; i < count; i++)
		entries[i] = (struct gpu4fs_batch_entry){.op = ops[kind],
							 .mode = 0644,
							 .path = paths[i],
							 .stat = kind == G4_BENCH_MANY_STAT ? &stats[i] : NULL};
	const int64_t done = gpu4fs_batch(self->fs, self->folder, entries, count, 0);
	for (uint32_t i = 0; i < count && done != count; i++)
		if (entries[i].result < 0)
			return entries[i].result;
	return done < 0 ? (int)done : 0;
}

/* As a path, with another one behind it. Free it. */
static char *deep_path(const char *name, uint32_t levels)
{
	const size_t bytes = strlen(name) + 1;
	char *path = malloc(levels * bytes + 1);

	for (uint32_t i = 0; path && i < levels; i++) {
		memcpy(path + i * bytes, name, bytes - 1);
		path[(i + 1) * bytes - 1] = '/';
	}
	if (path)
		path[levels * bytes] = 0;
	return path;
}

static int do_deep_mkdir(void *context, const char *name, uint32_t levels)
{
	struct context *self = context;
	char *path = deep_path(name, levels);
	const int rc = path ? gpu4fs_mkdir_all(self->fs, self->folder, path, 0755, NULL) : -ENOMEM;

	free(path);
	return rc;
}

static int do_deep_stat(void *context, const char *name, uint32_t levels)
{
	struct context *self = context;
	struct gpu4fs_stat stat;
	struct gpu4fs_batch_entry entry = {.op = GPU4FS_BATCH_STAT, .stat = &stat};
	char *path = deep_path(name, levels);
	int64_t rc = -ENOMEM;

	entry.path = path;
	if (path)
		rc = gpu4fs_batch(self->fs, self->folder, &entry, 1, 0);
	free(path);
	return rc < 0 ? (int)rc : entry.result;
}

static int do_deep_rmdir(void *context, const char *name, uint32_t levels)
{
	struct context *self = context;
	int64_t removed;

	do
		removed = gpu4fs_clear(self->fs, self->folder, name, levels, 0);
	while (removed > 0);
	return removed < 0 ? (int)removed : gpu4fs_rmdir(self->fs, self->folder, name);
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
	struct context *self = context;
	int rc;

	(void)path;
	if (self->memory) /* would be gone */
		return gpu4fs_syncfs(self->fs);
	rc = unmount(self);
	if (rc == 0)
		rc = mount_device(self);
	return rc ? rc : open_folder(self);
}

static int do_forget_names(void *context)
{
	(void)context;
	return 0;
}

static int do_free_bytes(void *context, uint64_t *bytes)
{
	struct gpu4fs_statfs space;
	int rc = gpu4fs_statfs(((struct context *)context)->fs, &space);

	if (rc == 0)
		*bytes = space.blocks_available * space.block_bytes;
	return rc;
}

/* ------------------------------------------------------------------ from start to end */

/* Removes everything in a directory. */
static int clear(gpu4fs *fs, gpu4fs_file *at)
{
	struct gpu4fs_dirent entry;
	gpu4fs_dir *dir;
	int more, rc = gpu4fs_opendir_file(at, 0, &dir);

	if (rc)
		return rc;
	while (rc == 0 && (more = gpu4fs_readdir(dir, &entry)) != 0) {
		gpu4fs_file *below;
		if (more < 0) {
			rc = more;
		} else if (entry.type != DT_DIR) {
			rc = gpu4fs_unlink(fs, at, entry.name);
		} else {
			rc = gpu4fs_open(fs, at, entry.name, O_RDONLY | O_DIRECTORY, 0, &below);
			if (rc == 0) {
				rc = clear(fs, below);
				gpu4fs_close(below);
			}
			if (rc == 0)
				rc = gpu4fs_rmdir(fs, at, entry.name);
		}
	}
	gpu4fs_closedir(dir);
	return rc;
}

static int do_finish(void *context)
{
	struct context *self = context;
	int rc = 0, unmounted;

	if (!self->fs) /* mounting it again failed */
		rc = mount_device(self);
	if (rc == 0 && !self->folder)
		rc = open_folder(self);
	if (rc == 0)
		rc = clear(self->fs, self->folder);
	if (rc == 0)
		rc = gpu4fs_rmdir(self->fs, NULL, self->name);
	unmounted = unmount(self);
	free(self);
	return rc ? rc : unmounted;
}

int g4_bench_inprocess(const struct g4_bench_options *options, struct g4_bench_target *target, char *message,
		       size_t bytes)
{
	struct context *context = calloc(1, sizeof(*context));
	int rc;

	if (!context || !g4_bench_name(context->name)) {
		free(context);
		snprintf(message, bytes, "%s", strerror(ENOMEM));
		return -ENOMEM;
	}
	context->options = options;
	context->memory = strncmp(options->target, "mem:", 4) == 0;
	rc = mount_device(context);
	if (rc) {
		snprintf(message, bytes, "%s", gpu4fs_last_message());
		free(context);
		return rc;
	}
	rc = gpu4fs_mkdir(context->fs, NULL, context->name, 0700);
	if (rc == 0)
		rc = open_folder(context);
	if (rc) {
		snprintf(message, bytes, "%s: no directory can be made in it: %s", options->target, strerror(-rc));
		unmount(context);
		free(context);
		return rc;
	}
	*target = (struct g4_bench_target){
		.context = context,
		.mkdir = do_mkdir,
		.rmdir = do_rmdir,
		.open = do_open,
		.close = do_close,
		.stat = do_stat,
		.rename = do_rename,
		.unlink = do_unlink,
		.many = do_many,
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
		.finish = do_finish,
	};
	return 0;
}
