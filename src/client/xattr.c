/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes, in their three forms: by path, by path without following a link at its end, by handle. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sys/stat.h>

#include "client/client.h"

#define VALUE_MAX 65536u

/* Which file: a path to resolve, or a handle. */
struct target {
	gpu4fs *fs;
	gpu4fs_file *file; /* the handle, or the directory to start at */
	const char *path;  /* NULL: the handle itself */
	bool follow;
};

/* Whether anybody may ask for the attribute, so that nothing but that it is not there can be said. */
static bool is_unguarded(const struct g4_cmd *cmd, uint32_t mode)
{
	static const char acl[] = "system.posix_acl_", security[] = "security.";
	const size_t acl_bytes = sizeof(acl) - 1, security_bytes = sizeof(security) - 1;

	if (cmd->name_bytes > security_bytes && memcmp(cmd->name, security, security_bytes) == 0)
		return true;
	return !S_ISLNK(mode) && cmd->name_bytes > acl_bytes && memcmp(cmd->name, acl, acl_bytes) == 0 &&
	       (strcmp(cmd->name + acl_bytes, "access") == 0 || strcmp(cmd->name + acl_bytes, "default") == 0);
}

/*
 * Whether a command's answer is in attributes that were told within the call: of what has no extended attributes. ls -l asks for each
 * file's, most have none.
 */
static bool is_answered(struct g4_cmd *cmd, const struct g4_attr *attr, int *rc)
{
	if (!(attr->tells & G4_TELLS_NO_XATTR))
		return false;
	cmd->value = 0;
	*rc = cmd->op == G4_CMD_GETXATTR ? -ENODATA : 0;
	return cmd->op == G4_CMD_LISTXATTR || (cmd->op == G4_CMD_GETXATTR && is_unguarded(cmd, attr->mode));
}

static bool is_answered_by_handle(gpu4fs_file *file, struct g4_cmd *cmd, int *rc)
{
	struct g4_trail trail;
	struct g4_attr attr;

	return file->fs->mirror && g4c_was_told_of_handle(file, &attr, &trail) && is_answered(cmd, &attr, rc) &&
	       g4_engine_lives(file->engine);
}

static int run_on(const struct target *target, struct g4_cmd *cmd)
{
	struct g4_attr attr;
	uint32_t attempts = 0;
	int rc;

	cmd->cred = &target->fs->cred;
	if (!target->path && is_answered_by_handle(target->file, cmd, &rc))
		return rc;
	if (target->file)
		g4c_set_node(cmd, g4c_node_of_file(target->file));
	do {
		if (target->path) {
			rc = g4c_resolve(target->fs, target->file, target->path, target->follow, &attr);
			if (rc || is_answered(cmd, &attr, &rc))
				return rc;
			g4c_set_node(cmd, g4c_node_of(&attr));
		}
		rc = g4c_run(target->fs->mount->engine, cmd);
	} while (g4c_again(rc, &attempts));
	return rc;
}

static int set_name(struct g4_cmd *cmd, const char *name)
{
	size_t bytes = name ? strnlen(name, G4C_NAME_MAX + 1) : 0;

	if (bytes == 0 || bytes > G4C_NAME_MAX)
		return -ERANGE;
	cmd->name = name;
	cmd->name_bytes = (uint16_t)bytes;
	return 0;
}

/* ------------------------------------------------------------------ get */

static int64_t get(struct target target, const char *name, void *buffer, size_t bytes)
{
	struct g4_cmd cmd = {.op = G4_CMD_GETXATTR, .length = g4_min64(bytes, VALUE_MAX), .data = buffer};
	int rc = set_name(&cmd, name);

	if (!rc)
		rc = run_on(&target, &cmd);
	return rc ? rc : (int64_t)cmd.value;
}

int64_t gpu4fs_getxattr(gpu4fs *fs, gpu4fs_file *at, const char *path, const char *name, void *buffer, size_t bytes)
{
	return get((struct target){fs, at, path ? path : "", true}, name, buffer, bytes);
}

int64_t gpu4fs_lgetxattr(gpu4fs *fs, gpu4fs_file *at, const char *path, const char *name, void *buffer, size_t bytes)
{
	return get((struct target){fs, at, path ? path : "", false}, name, buffer, bytes);
}

int64_t gpu4fs_fgetxattr(gpu4fs_file *file, const char *name, void *buffer, size_t bytes)
{
	return get((struct target){file->fs, file, NULL, false}, name, buffer, bytes);
}

/* ------------------------------------------------------------------ set */

static int set(struct target target, const char *name, const void *value, size_t bytes, uint32_t flags)
{
	struct g4_cmd cmd = {.op = G4_CMD_SETXATTR, .length = bytes, .data = (void *)(uintptr_t)value, .flags = flags};
	int rc;

	G4_STATIC_ASSERT(GPU4FS_XATTR_CREATE == G4_XATTR_CREATE && GPU4FS_XATTR_REPLACE == G4_XATTR_REPLACE,
			 "setxattr(2)");
	if (flags & ~(GPU4FS_XATTR_CREATE | GPU4FS_XATTR_REPLACE))
		return -EINVAL;
	if (bytes > VALUE_MAX)
		return -E2BIG;
	rc = set_name(&cmd, name);
	return rc ? rc : run_on(&target, &cmd);
}

int gpu4fs_setxattr(gpu4fs *fs, gpu4fs_file *at, const char *path, const char *name, const void *value, size_t bytes,
		    uint32_t flags)
{
	return set((struct target){fs, at, path ? path : "", true}, name, value, bytes, flags);
}

int gpu4fs_lsetxattr(gpu4fs *fs, gpu4fs_file *at, const char *path, const char *name, const void *value, size_t bytes,
		     uint32_t flags)
{
	return set((struct target){fs, at, path ? path : "", false}, name, value, bytes, flags);
}

int gpu4fs_fsetxattr(gpu4fs_file *file, const char *name, const void *value, size_t bytes, uint32_t flags)
{
	return set((struct target){file->fs, file, NULL, false}, name, value, bytes, flags);
}

/* ------------------------------------------------------------------ list */

static int64_t list(struct target target, char *buffer, size_t bytes)
{
	struct g4_cmd cmd = {.op = G4_CMD_LISTXATTR, .length = bytes, .data = buffer};
	int rc = run_on(&target, &cmd);

	return rc ? rc : (int64_t)cmd.value;
}

int64_t gpu4fs_listxattr(gpu4fs *fs, gpu4fs_file *at, const char *path, char *buffer, size_t bytes)
{
	return list((struct target){fs, at, path ? path : "", true}, buffer, bytes);
}

int64_t gpu4fs_llistxattr(gpu4fs *fs, gpu4fs_file *at, const char *path, char *buffer, size_t bytes)
{
	return list((struct target){fs, at, path ? path : "", false}, buffer, bytes);
}

int64_t gpu4fs_flistxattr(gpu4fs_file *file, char *buffer, size_t bytes)
{
	return list((struct target){file->fs, file, NULL, false}, buffer, bytes);
}

/* ------------------------------------------------------------------ remove */

static int remove_one(struct target target, const char *name)
{
	struct g4_cmd cmd = {.op = G4_CMD_REMOVEXATTR};
	int rc = set_name(&cmd, name);

	return rc ? rc : run_on(&target, &cmd);
}

int gpu4fs_removexattr(gpu4fs *fs, gpu4fs_file *at, const char *path, const char *name)
{
	return remove_one((struct target){fs, at, path ? path : "", true}, name);
}

int gpu4fs_lremovexattr(gpu4fs *fs, gpu4fs_file *at, const char *path, const char *name)
{
	return remove_one((struct target){fs, at, path ? path : "", false}, name);
}

int gpu4fs_fremovexattr(gpu4fs_file *file, const char *name)
{
	return remove_one((struct target){file->fs, file, NULL, false}, name);
}
