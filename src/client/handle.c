/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open files: opening and closing, reading and writing, space and durability.
 *
 * pread and pwrite are the hot path: check, fill a command on the stack, run it. Calls that use the file position hold
 * position_lock for their whole length, as the kernel does, so that two of them never get the same bytes.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/beneath.h"
#include "client/client.h"

#define GATHER_MAX_BYTES (256 * 1024)
#define IOV_COUNT_MAX 1024

/* ------------------------------------------------------------------ handles */

static void release(gpu4fs *fs, uint64_t handle)
{
	struct g4_cmd cmd = {.op = G4_CMD_RELEASE, .handle = handle};

	(void)g4_engine_execute(fs->mount->engine, &cmd);
}

int g4c_file_new(gpu4fs *fs, const struct g4_cmd *opened, const struct g4_attr *attr, uint32_t flags, bool linkable,
		 gpu4fs_file **out)
{
	gpu4fs_file *file = malloc(sizeof(*file));

	if (!file) {
		release(fs, opened->handle);
		return -ENOMEM;
	}
	*file = (struct gpu4fs_file){
		.engine = fs->mount->engine,
		.handle = opened->handle,
		.ino = attr->ino,
		.generation = attr->generation,
		.token = attr->token,
		.fs = fs,
		.format = attr->mode & S_IFMT,
		.flags = flags,
		.linkable = linkable,
		.size_hint = attr->size,
	};
	pthread_mutex_init(&file->position_lock, NULL);
	__atomic_add_fetch(&fs->users, 1, __ATOMIC_RELAXED);
	*out = file;
	return 0;
}

static void free_file(gpu4fs_file *file)
{
	gpu4fs *fs = file->fs;

	g4c_stream_free(file);
	pthread_mutex_destroy(&file->position_lock);
	free(file);
	__atomic_sub_fetch(&fs->users, 1, __ATOMIC_RELEASE);
}

int gpu4fs_close(gpu4fs_file *file)
{
	struct g4_cmd cmd = {.op = G4_CMD_RELEASE, .handle = file->handle};
	int rc;

	if (__atomic_load_n(&file->has_locks, __ATOMIC_ACQUIRE))
		g4c_locks_close(file);
	rc = g4c_run(file->engine, &cmd);
	free_file(file);
	return rc;
}

void g4c_close_soon(gpu4fs_file *file)
{
	struct g4_cmd cmd = {.op = G4_CMD_RELEASE, .handle = file->handle};

	if (__atomic_load_n(&file->has_locks, __ATOMIC_ACQUIRE))
		g4c_locks_close(file);
	g4_engine_post(file->engine, &cmd);
	free_file(file);
}

/* ------------------------------------------------------------------ opening */

/* What can be opened, and how; before the engine checks permissions. */
static int check_type(const gpu4fs *fs, const struct g4_attr *attr, const struct g4c_open_flags *flags)
{
	if (S_ISLNK(attr->mode))
		return -ELOOP;
	if (flags->directory && !S_ISDIR(attr->mode))
		return -ENOTDIR;
	if (S_ISDIR(attr->mode))
		return flags->create || (flags->engine & (G4_OPEN_WRITE | G4_OPEN_TRUNC)) ? -EISDIR : 0;
	if (!S_ISREG(attr->mode))
		return -ENXIO;
	if (flags->noatime && fs->cred.uid != 0 && fs->cred.uid != attr->uid)
		return -EPERM;
	return 0;
}

/* Opens what a path leads to with one command. False: it is to be done step by step. */
static bool open_at_once(gpu4fs *fs, gpu4fs_file *at, const char *path, const struct g4c_open_flags *flags,
			 gpu4fs_file **out, int *rc)
{
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = G4_CMD_OPEN, .flags = flags->engine, .attr = &attr, .cred = &fs->cred};
	struct g4_path_split split;
	struct g4c_node start;

	if (flags->noatime || g4c_split_path(path, &split) || split.slash ||
	    g4c_start_of(fs, at, split.absolute, &start))
		return false;
	g4c_set_node(&cmd, start);
	*rc = g4c_run_at(fs, &cmd, split.directory, split.directory_bytes + split.name_bytes,
			 flags->nofollow ? G4_RESOLVE_NOFOLLOW : 0);
	if (*rc == 0)
		*rc = g4c_file_new(fs, &cmd, &attr, flags->engine, false, out);
	if (*rc == 0 && fs->pages && !(flags->engine & G4_OPEN_TRUNC))
		g4c_tell_of_handle(*out, &start, split.directory, split.directory_bytes + split.name_bytes,
				   !flags->nofollow);
	return *rc != -ESTALE;
}

static int open_existing(gpu4fs *fs, gpu4fs_file *at, const char *path, const struct g4c_open_flags *flags,
			 gpu4fs_file **out)
{
	uint32_t attempts = 0;
	int rc;

	if (open_at_once(fs, at, path, flags, out, &rc))
		return rc;
	do {
		struct g4_attr found, attr;
		struct g4_cmd cmd = {.op = G4_CMD_OPEN, .flags = flags->engine, .attr = &attr, .cred = &fs->cred};

		rc = g4c_resolve(fs, at, path, !flags->nofollow, &found);
		if (rc)
			return rc;
		rc = check_type(fs, &found, flags);
		if (rc)
			return rc;
		g4c_set_node(&cmd, g4c_node_of(&found));
		rc = g4c_run(fs->mount->engine, &cmd);
		if (rc == 0)
			return g4c_file_new(fs, &cmd, &attr, flags->engine, false, out);
	} while (g4c_again(rc, &attempts));
	return rc;
}

/*
 * One attempt of CREATE at the end of a path. Returns 1 with the link's content in target when the name is a symbolic
 * link to follow, and with its directory in *directory.
 */
static int create_once(gpu4fs *fs, const struct g4c_node *parent, const struct g4_path_split *split,
		       const struct g4c_open_flags *flags, uint32_t mode, char *target, gpu4fs_file **out)
{
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = G4_CMD_CREATE,
			     .name = split->name,
			     .name_bytes = (uint16_t)split->name_bytes,
			     .flags = flags->engine,
			     .mode = S_IFREG | (mode & 07777),
			     .attr = &attr,
			     .cred = &fs->cred};
	int rc;

	g4c_set_node(&cmd, *parent);
	rc = g4c_run(fs->mount->engine, &cmd);
	if (rc == -ELOOP && !flags->nofollow && !flags->exclusive) {
		cmd = (struct g4_cmd){.op = G4_CMD_LOOKUP,
				      .name = split->name,
				      .name_bytes = (uint16_t)split->name_bytes,
				      .attr = &attr,
				      .cred = &fs->cred};
		g4c_set_node(&cmd, *parent);
		rc = g4c_run(fs->mount->engine, &cmd);
		if (rc)
			return rc == -ENOENT ? -ESTALE : rc;
		if (!S_ISLNK(attr.mode))
			return -ESTALE;
		cmd = (struct g4_cmd){
			.op = G4_CMD_READLINK, .length = G4C_PATH_MAX - 1, .data = target, .cred = &fs->cred};
		g4c_set_node(&cmd, g4c_node_of(&attr));
		rc = g4c_run(fs->mount->engine, &cmd);
		if (rc)
			return rc;
		target[cmd.value] = 0;
		return 1;
	}
	if (rc)
		return rc;
	rc = check_type(fs, &attr, flags);
	if (rc) {
		release(fs, cmd.handle);
		return rc;
	}
	return g4c_file_new(fs, &cmd, &attr, flags->engine, false, out);
}

/* With one command, unless the path ends in a link, or in no name. False: it is to be done step by step. */
static bool create_at_once(gpu4fs *fs, gpu4fs_file *at, const char *path, const struct g4c_open_flags *flags,
			   uint32_t mode, gpu4fs_file **out, int *rc)
{
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = G4_CMD_CREATE,
			     .flags = flags->engine,
			     .mode = S_IFREG | (mode & 07777),
			     .attr = &attr,
			     .cred = &fs->cred};
	struct g4_path_split split;
	struct g4c_node start;

	if (flags->noatime || g4c_split_path(path, &split) || split.slash || split.last != G4_LAST_NAME ||
	    g4c_start_of(fs, at, split.absolute, &start))
		return false;
	g4c_set_node(&cmd, start);
	cmd.name = split.name;
	cmd.name_bytes = (uint16_t)split.name_bytes;
	*rc = g4c_run_at(fs, &cmd, split.directory, split.directory_bytes, G4_WALK_DIRECTORY);
	if (*rc == 0)
		*rc = check_type(fs, &attr, flags);
	else
		return *rc != -ESTALE && *rc != -ELOOP;
	if (*rc == 0)
		*rc = g4c_file_new(fs, &cmd, &attr, flags->engine, false, out);
	else
		release(fs, cmd.handle);
	return true;
}

/* O_CREAT follows a symbolic link at the end of the path, also to a name that does not exist yet. */
static int open_create(gpu4fs *fs, gpu4fs_file *at, const char *path, const struct g4c_open_flags *flags, uint32_t mode,
		       gpu4fs_file **out)
{
	char target[2][G4C_PATH_MAX];
	gpu4fs_file directory; /* only as the start of a walk */
	uint32_t links = 0, attempts = 0;
	int rc;

	if (create_at_once(fs, at, path, flags, mode, out, &rc))
		return rc;
	for (;;) {
		struct g4_path_split split;
		struct g4c_node parent;

		rc = g4c_resolve_parent(fs, at, path, &parent, &split);
		if (rc)
			return rc;
		if (split.slash || split.last != G4_LAST_NAME)
			return flags->exclusive && !split.slash ? -EEXIST : -EISDIR;
		rc = create_once(fs, &parent, &split, flags, mode, target[links & 1], out);
		if (g4c_again(rc, &attempts))
			continue;
		if (rc != 1)
			return rc;
		path = target[links & 1];
		if (path[0] == '/' && (fs->resolve_flags & G4_RESOLVE_BENEATH))
			return -EXDEV;
		if (++links > G4C_LINKS_MAX)
			return -ELOOP;
		memset(&directory, 0, sizeof(directory));
		directory.ino = parent.ino;
		directory.generation = parent.generation;
		directory.token = parent.token;
		directory.format = S_IFDIR;
		at = &directory;
	}
}

static int open_tmpfile(gpu4fs *fs, gpu4fs_file *at, const char *path, const struct g4c_open_flags *flags,
			uint32_t mode, gpu4fs_file **out)
{
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = G4_CMD_TMPFILE,
			     .flags = flags->engine,
			     .mode = S_IFREG | (mode & 07777),
			     .attr = &attr,
			     .cred = &fs->cred};
	int rc = g4c_resolve_directory(fs, at, path, !flags->nofollow, &attr, &cmd);

	if (rc)
		return rc;
	rc = g4c_run(fs->mount->engine, &cmd);
	if (rc)
		return rc;
	return g4c_file_new(fs, &cmd, &attr, flags->engine, !flags->exclusive, out);
}

int gpu4fs_open(gpu4fs *fs, gpu4fs_file *at, const char *path, int flags, uint32_t mode, gpu4fs_file **out)
{
	struct g4c_open_flags means;
	int rc = g4c_open_flags(flags, &means);

	if (rc)
		return rc;
	if (means.tmpfile)
		return open_tmpfile(fs, at, path, &means, mode, out);
	if (means.create)
		return open_create(fs, at, path, &means, mode, out);
	return open_existing(fs, at, path, &means, out);
}

/* ------------------------------------------------------------------ reading and writing */

static int check_io(const gpu4fs_file *file, uint32_t direction)
{
	if (!(file->flags & direction))
		return -EBADF;
	return S_ISDIR(file->format) ? -EISDIR : 0;
}

/* end: where the write ended, also for O_APPEND; may be NULL. */
static inline int64_t do_write(gpu4fs_file *file, const void *buffer, size_t bytes, uint64_t offset, uint64_t *end)
{
	struct g4_cmd cmd = {.op = G4_CMD_WRITE,
			     .handle = file->handle,
			     .offset = offset,
			     .length = g4_min64(bytes, G4C_IO_MAX_BYTES),
			     .data = (void *)(uintptr_t)buffer,
			     .cred = &file->fs->cred};
	int rc = g4c_run(file->engine, &cmd);

	if (rc)
		return rc;
	if (end)
		*end = cmd.offset + cmd.value; /* where an appending write went */
	return (int64_t)cmd.value;
}

int64_t gpu4fs_pread(gpu4fs_file *file, void *buffer, size_t bytes, int64_t offset)
{
	int rc = check_io(file, G4_OPEN_READ);

	if (__builtin_expect(rc || offset < 0, 0))
		return rc ? rc : -EINVAL;
	return g4c_read(file, buffer, bytes, (uint64_t)offset);
}

int64_t gpu4fs_pwrite(gpu4fs_file *file, const void *buffer, size_t bytes, int64_t offset)
{
	int rc = check_io(file, G4_OPEN_WRITE);

	if (__builtin_expect(rc || offset < 0, 0))
		return rc ? rc : -EINVAL;
	return do_write(file, buffer, bytes, (uint64_t)offset, NULL);
}

int64_t gpu4fs_read(gpu4fs_file *file, void *buffer, size_t bytes)
{
	int64_t done = check_io(file, G4_OPEN_READ);

	if (done)
		return done;
	pthread_mutex_lock(&file->position_lock);
	done = g4c_read(file, buffer, bytes, file->position);
	if (done > 0)
		file->position += (uint64_t)done;
	pthread_mutex_unlock(&file->position_lock);
	return done;
}

int64_t gpu4fs_write(gpu4fs_file *file, const void *buffer, size_t bytes)
{
	uint64_t end = 0;
	int64_t done = check_io(file, G4_OPEN_WRITE);

	if (done)
		return done;
	pthread_mutex_lock(&file->position_lock);
	done = do_write(file, buffer, bytes, file->position, &end);
	if (done > 0)
		file->position = end;
	pthread_mutex_unlock(&file->position_lock);
	return done;
}

/* Sum of the buffers' lengths, or a negative errno. */
static int64_t iov_bytes(const struct iovec *iov, int count)
{
	uint64_t total = 0;

	if (count < 0 || count > IOV_COUNT_MAX)
		return -EINVAL;
	for (int i = 0; i < count; i++) {
		if (__builtin_add_overflow(total, iov[i].iov_len, &total) || total > INT64_MAX)
			return -EINVAL;
	}
	return (int64_t)total;
}

int64_t gpu4fs_preadv(gpu4fs_file *file, const struct iovec *iov, int count, int64_t offset)
{
	int64_t total = iov_bytes(iov, count), done = 0;

	if (total < 0)
		return total;
	if (count == 0)
		return gpu4fs_pread(file, NULL, 0, offset);
	for (int i = 0; i < count; i++) {
		int64_t got = gpu4fs_pread(file, iov[i].iov_base, iov[i].iov_len, offset + done);

		if (got < 0)
			return done ? done : got;
		done += got;
		if ((uint64_t)got < iov[i].iov_len)
			break;
	}
	return done;
}

/* One write of what several buffers hold. */
static int64_t pwrite_gathered(gpu4fs_file *file, const struct iovec *iov, int count, int64_t total, int64_t offset)
{
	char *all = malloc((size_t)total);
	size_t filled = 0;
	int64_t done;

	if (!all)
		return -ENOMEM;
	for (int i = 0; i < count; i++) {
		if (iov[i].iov_len)
			memcpy(all + filled, iov[i].iov_base, iov[i].iov_len);
		filled += iov[i].iov_len;
	}
	done = gpu4fs_pwrite(file, all, (size_t)total, offset);
	free(all);
	return done;
}

int64_t gpu4fs_pwritev(gpu4fs_file *file, const struct iovec *iov, int count, int64_t offset)
{
	int64_t total = iov_bytes(iov, count), done = 0;

	if (total < 0)
		return total;
	if (total == 0)
		return gpu4fs_pwrite(file, NULL, 0, offset);
	if (count > 1 && total <= GATHER_MAX_BYTES)
		return pwrite_gathered(file, iov, count, total, offset);
	for (int i = 0; i < count; i++) {
		int64_t put = gpu4fs_pwrite(file, iov[i].iov_base, iov[i].iov_len, offset + done);

		if (put < 0)
			return done ? done : put;
		done += put;
		if ((uint64_t)put < iov[i].iov_len)
			break;
	}
	return done;
}

/* ------------------------------------------------------------------ position */

/* The new position, before it is stored. */
static int64_t seek_target(gpu4fs_file *file, int64_t offset, int whence)
{
	struct g4_cmd cmd = {.op = G4_CMD_SEEK, .handle = file->handle, .offset = (uint64_t)offset};
	uint64_t base = 0;
	int64_t target;
	int rc;

	G4_STATIC_ASSERT(SEEK_DATA == G4_SEEK_DATA && SEEK_HOLE == G4_SEEK_HOLE, "lseek(2)");
	switch (whence) {
	case SEEK_SET:
		break;
	case SEEK_CUR:
		base = file->position;
		break;
	case SEEK_END:
		rc = g4c_file_size(file, &base);
		if (rc)
			return rc;
		break;
	case SEEK_DATA:
	case SEEK_HOLE:
		if (offset < 0)
			return -ENXIO;
		cmd.flags = (uint32_t)whence;
		rc = g4c_run(file->engine, &cmd);
		return rc ? rc : (int64_t)cmd.value;
	default:
		return -EINVAL;
	}
	if (__builtin_add_overflow((int64_t)base, offset, &target))
		return -EOVERFLOW;
	return target < 0 ? -EINVAL : target;
}

int64_t gpu4fs_lseek(gpu4fs_file *file, int64_t offset, int whence)
{
	int64_t target;

	if (S_ISDIR(file->format))
		return -EISDIR;
	pthread_mutex_lock(&file->position_lock);
	target = seek_target(file, offset, whence);
	if (target >= 0)
		file->position = (uint64_t)target;
	pthread_mutex_unlock(&file->position_lock);
	return target;
}

/* ------------------------------------------------------------------ space and durability */

int gpu4fs_fallocate(gpu4fs_file *file, uint32_t mode, int64_t offset, int64_t bytes)
{
	struct g4_cmd cmd = {.op = G4_CMD_FALLOCATE,
			     .handle = file->handle,
			     .offset = (uint64_t)offset,
			     .length = (uint64_t)bytes,
			     .flags = mode,
			     .cred = &file->fs->cred};
	int64_t end;

	G4_STATIC_ASSERT(GPU4FS_FALLOC_KEEP_SIZE == G4_FALLOC_KEEP_SIZE &&
				 GPU4FS_FALLOC_PUNCH_HOLE == G4_FALLOC_PUNCH_HOLE &&
				 GPU4FS_FALLOC_ZERO_RANGE == G4_FALLOC_ZERO_RANGE &&
				 GPU4FS_FALLOC_COLLAPSE_RANGE == G4_FALLOC_COLLAPSE_RANGE &&
				 GPU4FS_FALLOC_INSERT_RANGE == G4_FALLOC_INSERT_RANGE,
			 "fallocate(2)");
	if (offset < 0 || bytes <= 0)
		return -EINVAL;
	switch (mode) {
	case 0:
	case GPU4FS_FALLOC_KEEP_SIZE:
	case GPU4FS_FALLOC_PUNCH_HOLE | GPU4FS_FALLOC_KEEP_SIZE:
	case GPU4FS_FALLOC_ZERO_RANGE:
	case GPU4FS_FALLOC_ZERO_RANGE | GPU4FS_FALLOC_KEEP_SIZE:
	case GPU4FS_FALLOC_COLLAPSE_RANGE:
	case GPU4FS_FALLOC_INSERT_RANGE:
		break;
	default:
		return mode & (GPU4FS_FALLOC_COLLAPSE_RANGE | GPU4FS_FALLOC_INSERT_RANGE) ? -EINVAL : -EOPNOTSUPP;
	}
	if (!(file->flags & G4_OPEN_WRITE))
		return -EBADF;
	if (__builtin_add_overflow(offset, bytes, &end))
		return -EFBIG;
	return g4c_run(file->engine, &cmd);
}

/* What is behind the end of the source is not copied, so it does not overlap either. */
static int cut_to_size(gpu4fs_file *file, uint64_t offset, uint64_t *bytes)
{
	uint64_t size;
	int rc = g4c_file_size(file, &size);

	if (rc == 0)
		*bytes = offset < size ? g4_min64(*bytes, size - offset) : 0;
	return rc;
}

/* The copy itself, both offsets known. */
static int64_t copy_range(gpu4fs_file *from, int64_t from_offset, gpu4fs_file *to, int64_t to_offset, uint64_t bytes,
			  uint32_t flags)
{
	struct g4_cmd cmd = {.op = G4_CMD_COPY_RANGE,
			     .handle = from->handle,
			     .handle2 = to->handle,
			     .offset = (uint64_t)from_offset,
			     .length = bytes,
			     .offset2 = (uint64_t)to_offset,
			     .flags = flags,
			     .cred = &to->fs->cred};
	int rc;

	if (from_offset < 0 || to_offset < 0)
		return -EINVAL;
	if (from->ino == to->ino) {
		rc = cut_to_size(from, (uint64_t)from_offset, &cmd.length);
		if (rc)
			return rc;
		if (!(flags & G4_COPY_ZEROS) &&
		    g4_max64(cmd.offset, cmd.offset2) - g4_min64(cmd.offset, cmd.offset2) < cmd.length)
			return -EINVAL;
	}
	if (cmd.length == 0)
		return 0;
	rc = g4c_run(from->engine, &cmd);
	return rc ? rc : (int64_t)cmd.value;
}

/* Two handles' positions are locked in the order of their addresses. */
static void lock_positions(gpu4fs_file *a, gpu4fs_file *b)
{
	if (a && b && (uintptr_t)b < (uintptr_t)a) {
		gpu4fs_file *swap = a;

		a = b;
		b = swap;
	}
	if (a)
		pthread_mutex_lock(&a->position_lock);
	if (b && b != a)
		pthread_mutex_lock(&b->position_lock);
}

static int check_pair(const gpu4fs_file *from, const gpu4fs_file *to)
{
	if (from->engine != to->engine)
		return -EXDEV;
	if (S_ISDIR(from->format) || S_ISDIR(to->format))
		return -EISDIR;
	return !(from->flags & G4_OPEN_READ) || !(to->flags & G4_OPEN_WRITE) || (to->flags & G4_OPEN_APPEND) ? -EBADF :
													       0;
}

/* One command after the other, until all is done or one does nothing. */
static int64_t share_range(gpu4fs_file *from, int64_t from_offset, gpu4fs_file *to, int64_t to_offset, uint64_t bytes,
			   uint32_t flags)
{
	int64_t done = check_pair(from, to), all = 0;

	if (done < 0)
		return done;
	if (from_offset < 0 || to_offset < 0)
		return -EINVAL;
	bytes = g4_min64(bytes, (uint64_t)(INT64_MAX - (from_offset > to_offset ? from_offset : to_offset)));
	do {
		done = copy_range(from, from_offset + all, to, to_offset + all, bytes - (uint64_t)all, flags);
		all += done > 0 ? done : 0;
	} while (done > 0 && (uint64_t)all < bytes);
	return all > 0 ? all : done;
}

int64_t gpu4fs_share_range(gpu4fs_file *from, int64_t from_offset, gpu4fs_file *to, int64_t to_offset, uint64_t bytes)
{
	return share_range(from, from_offset, to, to_offset, bytes, G4_COPY_SHARE);
}

int64_t gpu4fs_dedupe_range(gpu4fs_file *from, int64_t from_offset, gpu4fs_file *to, int64_t to_offset, uint64_t bytes,
			    uint32_t flags)
{
	if (flags & ~(GPU4FS_DEDUPE_COMPARE | GPU4FS_DEDUPE_ZEROS))
		return -EINVAL;
	return share_range(from, from_offset, to, to_offset, bytes,
			   G4_COPY_SAME | (flags & GPU4FS_DEDUPE_COMPARE ? G4_COPY_COMPARE : 0) |
				   (flags & GPU4FS_DEDUPE_ZEROS ? G4_COPY_ZEROS : 0));
}

int64_t gpu4fs_restripe(gpu4fs_file *file, int64_t offset, uint32_t flags, struct gpu4fs_restriped *out)
{
	struct g4_restriped told;
	struct g4_cmd cmd = {.op = G4_CMD_RESTRIPE,
			     .handle = file->handle,
			     .offset = (uint64_t)offset,
			     .flags = flags,
			     .data = &told,
			     .length = sizeof(told)};

	*out = (struct gpu4fs_restriped){0};
	if (offset < 0 || (flags & ~GPU4FS_RESTRIPE_LOOK))
		return -EINVAL;
	G4_STATIC_ASSERT(GPU4FS_RESTRIPE_LOOK == G4_RESTRIPE_LOOK, "the engine's own");
	const int rc = g4c_run(file->engine, &cmd);
	if (rc)
		return rc;
	*out = (struct gpu4fs_restriped){told.moved, told.shared, told.damaged};
	return (int64_t)told.next;
}

/* What a command tells of a file from an offset on, `count` things of a size at most. How many it told, or a negative errno. */
static int64_t list_from(gpu4fs_file *file, uint32_t op, int64_t offset, void *out, uint64_t size, uint32_t count)
{
	struct g4_cmd cmd = {
		.op = op, .handle = file->handle, .offset = (uint64_t)offset, .data = out, .length = count * size};

	if (offset < 0 || count == 0)
		return -EINVAL;
	const int rc = g4c_run(file->engine, &cmd);
	return rc ? rc : (int64_t)(cmd.value / size);
}

int64_t gpu4fs_page_sums(gpu4fs_file *file, int64_t offset, struct gpu4fs_page_sum *out, uint32_t count)
{
	G4_STATIC_ASSERT(sizeof(struct gpu4fs_page_sum) == sizeof(struct g4_page_sum), "the engine's own");
	return list_from(file, G4_CMD_SUMS, offset, out, sizeof(*out), count);
}

int64_t gpu4fs_extents(gpu4fs_file *file, int64_t offset, struct gpu4fs_extent *out, uint32_t count)
{
	G4_STATIC_ASSERT(sizeof(struct gpu4fs_extent) == sizeof(struct g4_map_extent) &&
				 GPU4FS_EXTENT_SHARED == G4_MAP_SHARED && GPU4FS_EXTENT_HUGE == G4_MAP_HUGE &&
				 GPU4FS_EXTENT_INLINE == G4_MAP_INLINE && GPU4FS_EXTENT_UNWRITTEN == G4_MAP_UNWRITTEN,
			 "the engine's own");
	return list_from(file, G4_CMD_MAP, offset, out, sizeof(*out), count);
}

int64_t gpu4fs_copy_file_range(gpu4fs_file *from, int64_t *from_offset, gpu4fs_file *to, int64_t *to_offset,
			       size_t bytes)
{
	gpu4fs_file *from_lock = from_offset ? NULL : from;
	gpu4fs_file *to_lock = to_offset ? NULL : to;
	int64_t done = check_pair(from, to);

	if (done < 0)
		return done;
	lock_positions(from_lock, to_lock);
	done = copy_range(from, from_offset ? *from_offset : (int64_t)from->position, to,
			  to_offset ? *to_offset : (int64_t)to->position, g4_min64(bytes, G4C_IO_MAX_BYTES), 0);
	if (done > 0) {
		if (from_offset)
			*from_offset += done;
		else
			from->position += (uint64_t)done;
		if (to_offset)
			*to_offset += done;
		else
			to->position += (uint64_t)done;
	}
	if (from_lock)
		pthread_mutex_unlock(&from_lock->position_lock);
	if (to_lock && to_lock != from_lock)
		pthread_mutex_unlock(&to_lock->position_lock);
	return done;
}

static int sync_file(gpu4fs_file *file, uint32_t flags)
{
	struct g4_cmd cmd = {.op = G4_CMD_FSYNC, .handle = file->handle, .flags = flags};

	return g4c_run(file->engine, &cmd);
}

int gpu4fs_fsync(gpu4fs_file *file)
{
	return sync_file(file, 0);
}

int gpu4fs_fdatasync(gpu4fs_file *file)
{
	return sync_file(file, G4_FSYNC_DATA);
}
