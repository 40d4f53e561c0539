/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of files, by path and by handle: stat, mode, owner, times, length, flags, access. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sys/stat.h>
#include <unistd.h>

#include "client/client_host.h"

/* ------------------------------------------------------------------ reading */

static int stat_path(gpu4fs *fs, gpu4fs_file *at, const char *path, bool follow, struct gpu4fs_stat *out)
{
	struct g4_attr attr;
	int rc = g4c_resolve(fs, at, path, follow, &attr);

	if (rc)
		return rc;
	g4c_stat_from_attr(&attr, out);
	return 0;
}

int gpu4fs_stat(gpu4fs *fs, gpu4fs_file *at, const char *path, struct gpu4fs_stat *out)
{
	return stat_path(fs, at, path, true, out);
}

int gpu4fs_lstat(gpu4fs *fs, gpu4fs_file *at, const char *path, struct gpu4fs_stat *out)
{
	return stat_path(fs, at, path, false, out);
}

int gpu4fs_fstat(gpu4fs_file *file, struct gpu4fs_stat *out)
{
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = G4_CMD_GETATTR, .handle = file->handle, .attr = &attr};
	int rc = g4c_run(file->engine, &cmd);

	if (rc)
		return rc;
	g4c_stat_from_attr(&attr, out);
	return 0;
}

int g4c_file_size(gpu4fs_file *file, uint64_t *size)
{
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = G4_CMD_GETATTR, .handle = file->handle, .attr = &attr};
	int rc = g4c_run(file->engine, &cmd);

	if (rc == 0)
		*size = attr.size;
	return rc;
}

int gpu4fs_access(gpu4fs *fs, gpu4fs_file *at, const char *path, int mode)
{
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = G4_CMD_ACCESS, .cred = &fs->cred};
	int rc;

	G4_STATIC_ASSERT(R_OK == G4_ACCESS_READ && W_OK == G4_ACCESS_WRITE && X_OK == G4_ACCESS_EXEC, "access(2)");
	if (mode & ~(R_OK | W_OK | X_OK))
		return -EINVAL;
	rc = g4c_resolve(fs, at, path, true, &attr);
	if (rc || mode == F_OK)
		return rc;
	cmd.node = attr.ino;
	cmd.flags = (uint32_t)mode;
	return g4c_run(fs->mount->engine, &cmd);
}

/* ------------------------------------------------------------------ writing */

/* By node or, with file, by handle. */
static int set_attributes(gpu4fs *fs, gpu4fs_file *file, uint64_t node, uint32_t mask, struct g4_attr *attr)
{
	struct g4_cmd cmd = {.op = G4_CMD_SETATTR, .mask = mask, .attr = attr, .cred = &fs->cred};

	if (file)
		cmd.handle = file->handle;
	else
		cmd.node = node;
	return g4c_run(fs->mount->engine, &cmd);
}

int gpu4fs_chmod(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t mode)
{
	struct g4_attr attr;
	int rc = g4c_resolve(fs, at, path, true, &attr);

	if (rc)
		return rc;
	attr.mode = mode & 07777;
	return set_attributes(fs, NULL, attr.ino, G4_SET_MODE, &attr);
}

int gpu4fs_fchmod(gpu4fs_file *file, uint32_t mode)
{
	struct g4_attr attr = {.mode = mode & 07777};

	return set_attributes(file->fs, file, 0, G4_SET_MODE, &attr);
}

static int change_owner(gpu4fs *fs, gpu4fs_file *file, uint64_t node, uint32_t uid, uint32_t gid)
{
	struct g4_attr attr = {.uid = uid, .gid = gid};
	uint32_t mask = 0;

	if (uid != UINT32_MAX)
		mask |= G4_SET_UID;
	if (gid != UINT32_MAX)
		mask |= G4_SET_GID;
	return mask ? set_attributes(fs, file, node, mask, &attr) : 0;
}

int gpu4fs_chown(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t uid, uint32_t gid, int flags)
{
	struct g4_attr attr;
	int rc;

	if (flags & ~AT_SYMLINK_NOFOLLOW)
		return -EINVAL;
	rc = g4c_resolve(fs, at, path, !(flags & AT_SYMLINK_NOFOLLOW), &attr);
	if (rc)
		return rc;
	return change_owner(fs, NULL, attr.ino, uid, gid);
}

int gpu4fs_fchown(gpu4fs_file *file, uint32_t uid, uint32_t gid)
{
	return change_owner(file->fs, file, 0, uid, gid);
}

int gpu4fs_utimens(gpu4fs *fs, gpu4fs_file *at, const char *path, const struct timespec times[2], int flags)
{
	struct g4_attr attr, found;
	uint32_t mask;
	int rc;

	if (flags & ~AT_SYMLINK_NOFOLLOW)
		return -EINVAL;
	memset(&attr, 0, sizeof(attr));
	rc = g4c_times_to_mask(times, &mask, &attr);
	if (rc)
		return rc;
	rc = g4c_resolve(fs, at, path, !(flags & AT_SYMLINK_NOFOLLOW), &found);
	if (rc || !mask)
		return rc;
	return set_attributes(fs, NULL, found.ino, mask, &attr);
}

int gpu4fs_futimens(gpu4fs_file *file, const struct timespec times[2])
{
	struct g4_attr attr = {0};
	uint32_t mask;
	int rc = g4c_times_to_mask(times, &mask, &attr);

	if (rc || !mask)
		return rc;
	return set_attributes(file->fs, file, 0, mask, &attr);
}

int gpu4fs_chflags(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t flags)
{
	struct g4_attr attr;
	int rc;

	if (flags & ~(GPU4FS_FLAG_IMMUTABLE | GPU4FS_FLAG_APPEND | GPU4FS_FLAG_NODUMP | GPU4FS_FLAG_NOATIME))
		return -EINVAL;
	rc = g4c_resolve(fs, at, path, true, &attr);
	if (rc)
		return rc;
	attr.flags = flags;
	return set_attributes(fs, NULL, attr.ino, G4_SET_FLAGS, &attr);
}

/* ------------------------------------------------------------------ length */

static int check_size(int64_t size)
{
	if (size < 0)
		return -EINVAL;
	return size > G4C_FILE_MAX_BYTES ? -EFBIG : 0;
}

int gpu4fs_truncate(gpu4fs *fs, gpu4fs_file *at, const char *path, int64_t size)
{
	struct g4_attr attr;
	int rc = check_size(size);

	if (rc)
		return rc;
	rc = g4c_resolve(fs, at, path, true, &attr);
	if (rc)
		return rc;
	if (S_ISDIR(attr.mode))
		return -EISDIR;
	if (!S_ISREG(attr.mode))
		return -EINVAL;
	attr.size = (uint64_t)size;
	return set_attributes(fs, NULL, attr.ino, G4_SET_SIZE, &attr);
}

int gpu4fs_ftruncate(gpu4fs_file *file, int64_t size)
{
	struct g4_attr attr = {.size = (uint64_t)size};
	int rc = check_size(size);

	if (rc)
		return rc;
	if (!(file->flags & G4_OPEN_WRITE) || !S_ISREG(file->format))
		return -EINVAL;
	return set_attributes(file->fs, file, 0, G4_SET_SIZE, &attr);
}
