/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of files, by path and by handle: stat, mode, owner, times, length, flags, access. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sys/stat.h>
#include <unistd.h>

#include "client/client.h"

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
	int rc = g4c_stat_handle(file, &attr);

	if (rc)
		return rc;
	g4c_stat_from_attr(&attr, out);
	return 0;
}

int g4c_file_size(gpu4fs_file *file, uint64_t *size)
{
	struct g4_attr attr;
	int rc = g4c_stat_handle(file, &attr);

	if (rc == 0)
		*size = attr.size;
	return rc;
}

int gpu4fs_access(gpu4fs *fs, gpu4fs_file *at, const char *path, int mode)
{
	struct g4_attr attr;

	G4_STATIC_ASSERT(R_OK == G4_ACCESS_READ && W_OK == G4_ACCESS_WRITE && X_OK == G4_ACCESS_EXEC, "access(2)");
	if (mode & ~(R_OK | W_OK | X_OK))
		return -EINVAL;
	return mode == F_OK ? g4c_resolve(fs, at, path, true, &attr) : g4c_access(fs, at, path, (uint32_t)mode);
}

/* ------------------------------------------------------------------ writing */

static int set_by_handle(gpu4fs_file *file, uint32_t mask, struct g4_attr *attr)
{
	struct g4_cmd cmd = {
		.op = G4_CMD_SETATTR, .handle = file->handle, .mask = mask, .attr = attr, .cred = &file->fs->cred};

	return mask ? g4c_run(file->engine, &cmd) : 0;
}

/* mask 0 still says whether the path leads anywhere. */
static int set_by_path(gpu4fs *fs, gpu4fs_file *at, const char *path, bool follow, uint32_t mask,
		       const struct g4_attr *wanted)
{
	uint32_t attempts = 0;
	int rc;

	do {
		struct g4_attr attr;
		struct g4_cmd cmd = {.op = G4_CMD_SETATTR, .mask = mask, .attr = &attr, .cred = &fs->cred};

		rc = g4c_resolve(fs, at, path, follow, &attr);
		if (rc || mask == 0)
			return rc;
		if ((mask & G4_SET_SIZE) && !S_ISREG(attr.mode))
			return S_ISDIR(attr.mode) ? -EISDIR : -EINVAL;
		if ((mask & G4_SET_MODE) && S_ISLNK(attr.mode)) /* as Linux: that of a link says nothing */
			return -EOPNOTSUPP;
		g4c_set_node(&cmd, g4c_node_of(&attr));
		attr = *wanted;
		rc = g4c_run(fs->mount->engine, &cmd);
	} while (g4c_again(rc, &attempts));
	return rc;
}

int gpu4fs_chmod(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t mode)
{
	const struct g4_attr attr = {.mode = mode & 07777};

	return set_by_path(fs, at, path, true, G4_SET_MODE, &attr);
}

int gpu4fs_lchmod(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t mode)
{
	const struct g4_attr attr = {.mode = mode & 07777};

	return set_by_path(fs, at, path, false, G4_SET_MODE, &attr);
}

int gpu4fs_fchmod(gpu4fs_file *file, uint32_t mode)
{
	struct g4_attr attr = {.mode = mode & 07777};

	return set_by_handle(file, G4_SET_MODE, &attr);
}

static uint32_t owner_mask(uint32_t uid, uint32_t gid)
{
	return (uid != UINT32_MAX ? G4_SET_UID : 0) | (gid != UINT32_MAX ? G4_SET_GID : 0);
}

int gpu4fs_chown(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t uid, uint32_t gid, int flags)
{
	const struct g4_attr attr = {.uid = uid, .gid = gid};

	if (flags & ~AT_SYMLINK_NOFOLLOW)
		return -EINVAL;
	return set_by_path(fs, at, path, !(flags & AT_SYMLINK_NOFOLLOW), owner_mask(uid, gid), &attr);
}

int gpu4fs_fchown(gpu4fs_file *file, uint32_t uid, uint32_t gid)
{
	struct g4_attr attr = {.uid = uid, .gid = gid};

	return set_by_handle(file, owner_mask(uid, gid), &attr);
}

int gpu4fs_utimens(gpu4fs *fs, gpu4fs_file *at, const char *path, const struct timespec times[2], int flags)
{
	struct g4_attr attr = {0};
	uint32_t mask;
	int rc;

	if (flags & ~AT_SYMLINK_NOFOLLOW)
		return -EINVAL;
	rc = g4c_times_to_mask(times, &mask, &attr);
	if (rc)
		return rc;
	return set_by_path(fs, at, path, !(flags & AT_SYMLINK_NOFOLLOW), mask, &attr);
}

int gpu4fs_futimens(gpu4fs_file *file, const struct timespec times[2])
{
	struct g4_attr attr = {0};
	uint32_t mask;
	int rc = g4c_times_to_mask(times, &mask, &attr);

	return rc ? rc : set_by_handle(file, mask, &attr);
}

static int check_flags(uint32_t flags)
{
	return flags & ~(GPU4FS_FLAG_IMMUTABLE | GPU4FS_FLAG_APPEND | GPU4FS_FLAG_NODUMP | GPU4FS_FLAG_NOATIME) ?
		       -EINVAL :
		       0;
}

int gpu4fs_chflags(gpu4fs *fs, gpu4fs_file *at, const char *path, uint32_t flags)
{
	const struct g4_attr attr = {.flags = flags};
	const int rc = check_flags(flags);

	return rc ? rc : set_by_path(fs, at, path, true, G4_SET_FLAGS, &attr);
}

int gpu4fs_fchflags(gpu4fs_file *file, uint32_t flags)
{
	struct g4_attr attr = {.flags = flags};
	const int rc = check_flags(flags);

	return rc ? rc : set_by_handle(file, G4_SET_FLAGS, &attr);
}

/* ------------------------------------------------------------------ length */

static int check_size(int64_t size)
{
	return size < 0 ? -EINVAL : 0;
}

int gpu4fs_truncate(gpu4fs *fs, gpu4fs_file *at, const char *path, int64_t size)
{
	const struct g4_attr attr = {.size = (uint64_t)size};
	int rc = check_size(size);

	return rc ? rc : set_by_path(fs, at, path, true, G4_SET_SIZE, &attr);
}

int gpu4fs_ftruncate(gpu4fs_file *file, int64_t size)
{
	struct g4_attr attr = {.size = (uint64_t)size};
	int rc = check_size(size);

	if (rc)
		return rc;
	if (!(file->flags & G4_OPEN_WRITE) || !S_ISREG(file->format))
		return -EINVAL;
	return set_by_handle(file, G4_SET_SIZE, &attr);
}

/* ------------------------------------------------------------------ the whole file system */

int gpu4fs_statfs(gpu4fs *fs, struct gpu4fs_statfs *out)
{
	struct g4_statfs state = {0};
	struct g4_cmd cmd = {.op = G4_CMD_STATFS, .length = sizeof(state), .data = &state};
	int rc = g4c_run(fs->mount->engine, &cmd);

	if (rc)
		return rc;
	*out = (struct gpu4fs_statfs){
		.block_bytes = state.block_bytes,
		.blocks = state.blocks,
		.blocks_free = state.blocks_free,
		.blocks_available = state.blocks_available,
		.inodes = state.inodes,
		.inodes_free = state.inodes_free,
		.name_max = state.name_max,
		.state = state.flags,
	};
	memcpy(out->uuid, state.uuid, sizeof(out->uuid));
	return 0;
}

static int get_health(gpu4fs *fs, struct g4_health *health)
{
	struct g4_cmd cmd = {.op = G4_CMD_JOB_LIST, .length = sizeof(*health), .data = health};

	return g4c_run(fs->mount->engine, &cmd);
}

int gpu4fs_health(gpu4fs *fs, struct gpu4fs_health *out)
{
	struct g4_health health = {0};
	const struct g4_finding *last = &health.last;
	int rc = get_health(fs, &health);

	if (rc)
		return rc;
	*out = (struct gpu4fs_health){
		.damaged_pages = health.damaged_pages,
		.damaged_since_mount = health.damaged_since_mount,
		.repaired_pages = health.mended_since_mount,
		.state = health.flags,
		.last_devices = health.last_disks,
		.devices = health.disk_count,
	};
	if (last->code == 0)
		return 0;
	const bool metadata = last->page == G4_FINDING_METADATA;
	out->last_kind = metadata ? GPU4FS_DAMAGE_METADATA : GPU4FS_DAMAGE_DATA;
	out->last_ino = last->inode;
	out->last_offset = metadata ? 0 : last->page * G4_PAGE_BYTES;
	out->last_address = last->address;
	return 0;
}

int gpu4fs_device_health(gpu4fs *fs, uint32_t device, struct gpu4fs_device_health *out)
{
	struct g4_health health = {0};
	int rc = get_health(fs, &health);

	if (rc)
		return rc;
	if (device >= health.disk_count)
		return -ENODEV;
	*out = (struct gpu4fs_device_health){.damaged_pages = health.disk_damaged[device]};
	return 0;
}

int gpu4fs_syncfs(gpu4fs *fs)
{
	struct g4_cmd cmd = {.op = G4_CMD_SYNCFS};

	return g4c_run(fs->mount->engine, &cmd);
}
