/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What callers of the device API do to names: making, removing, renaming and linking by path, as libgpu4fs does it on a CPU
 * (client/path.c).
 */
#include "device/caller.h"

/* A directory that is gone since the walk has no names. */
G4_FN static int execute(struct g4_caller *caller, struct g4_cmd *cmd)
{
	int rc = g4_caller_run(caller, cmd);

	return rc == -G4_E_STALE ? -G4_E_NOENT : rc;
}

/* What the name is by now: caller->attr. */
G4_FN static int look_up(struct g4_caller *caller, const struct g4_caller_name *ending)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_LOOKUP);

	g4_caller_set_name(&cmd, ending);
	cmd.attr = &caller->attr;
	return execute(caller, &cmd);
}

/* A slash at the end asks for a directory. */
G4_FN static int look_up_directory(struct g4_caller *caller, const struct g4_caller_name *ending)
{
	int rc = look_up(caller, ending);

	if (rc < 0)
		return rc;
	return g4_is_dir(caller->attr.mode) ? 0 : -G4_E_NOTDIR;
}

/* Where a new name is to be; only a directory's may end in a slash. */
G4_FN static int find_new(struct g4_caller *caller, const struct g4_caller_path *path, bool directory,
			  struct g4_caller_name *ending)
{
	int rc = g4_caller_find(caller, path, ending);

	if (rc < 0)
		return rc;
	if (ending->split.last != G4_LAST_NAME)
		return -G4_E_EXIST;
	if (!ending->split.slash || directory)
		return 0;
	rc = look_up(caller, ending);
	return rc < 0 ? rc : -G4_E_EXIST;
}

G4_FN int g4_caller_mkdir(struct g4_caller *caller, const struct g4_caller_path *path, uint32_t mode)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_MKDIR);
	struct g4_caller_name ending;
	int rc = find_new(caller, path, true, &ending);

	if (rc < 0)
		return rc;
	g4_caller_set_name(&cmd, &ending);
	cmd.mode = mode & (0777u | G4_S_ISVTX);
	return execute(caller, &cmd);
}

G4_FN int g4_caller_symlink(struct g4_caller *caller, const char *target, uint64_t bytes,
			    const struct g4_caller_path *path)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_SYMLINK);
	struct g4_caller_name ending;

	if (bytes == 0)
		return -G4_E_NOENT;
	if (bytes >= G4_PATH_MAX)
		return -G4_E_NAMETOOLONG;
	int rc = find_new(caller, path, false, &ending);
	if (rc < 0)
		return rc;
	g4_caller_set_name(&cmd, &ending);
	cmd.name2 = target;
	cmd.name2_bytes = (uint16_t)bytes;
	return execute(caller, &cmd);
}

G4_FN static int link_once(struct g4_caller *caller, const struct g4_caller_path *from, const struct g4_caller_path *to,
			   bool follow)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_LINK);
	struct g4_caller_name ending;
	int rc = g4_caller_stat(caller, from->at, from->text, from->bytes, !follow);

	if (rc < 0)
		return rc;
	g4_caller_set_node(&cmd, caller);
	rc = find_new(caller, to, false, &ending);
	if (rc < 0)
		return rc;
	g4_caller_set_name2(&cmd, &ending);
	return g4_caller_run(caller, &cmd);
}

G4_FN int g4_caller_link(struct g4_caller *caller, const struct g4_caller_path *from, const struct g4_caller_path *to,
			 bool follow)
{
	uint32_t attempts = 0;
	int rc;

	do {
		rc = link_once(caller, from, to, follow);
	} while (g4_caller_again(rc, &attempts));
	return rc == -G4_E_STALE ? -G4_E_NOENT : rc;
}

G4_FN int g4_caller_unlink(struct g4_caller *caller, const struct g4_caller_path *path)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_UNLINK);
	struct g4_caller_name ending;
	int rc = g4_caller_find(caller, path, &ending);

	if (rc < 0)
		return rc;
	if (ending.split.last != G4_LAST_NAME)
		return -G4_E_ISDIR;
	if (ending.split.slash) {
		rc = look_up_directory(caller, &ending);
		return rc < 0 ? rc : -G4_E_ISDIR;
	}
	g4_caller_set_name(&cmd, &ending);
	return execute(caller, &cmd);
}

G4_FN int g4_caller_rmdir(struct g4_caller *caller, const struct g4_caller_path *path)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_RMDIR);
	struct g4_caller_name ending;
	int rc = g4_caller_find(caller, path, &ending);

	if (rc < 0)
		return rc;
	if (ending.split.last == G4_LAST_DOT)
		return -G4_E_INVAL;
	if (ending.split.last == G4_LAST_DOTDOT)
		return -G4_E_NOTEMPTY;
	if (ending.split.last == G4_LAST_ROOT)
		return -G4_E_BUSY;
	g4_caller_set_name(&cmd, &ending);
	return execute(caller, &cmd);
}

G4_FN int g4_caller_rename(struct g4_caller *caller, const struct g4_caller_path *from, const struct g4_caller_path *to,
			   uint32_t flags)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_RENAME);
	const bool exchange = flags == G4_RENAME_EXCHANGE;
	struct g4_caller_name old, new_;

	if ((flags & G4_RENAME_FILES_ONLY) || !g4_rename_flags_valid(flags))
		return -G4_E_INVAL;
	int rc = g4_caller_find(caller, from, &old);
	if (rc == 0)
		rc = g4_caller_find(caller, to, &new_);
	if (rc < 0)
		return rc;
	if (old.split.last != G4_LAST_NAME)
		return -G4_E_BUSY;
	if (new_.split.last != G4_LAST_NAME)
		return flags & G4_RENAME_NOREPLACE ? -G4_E_EXIST : -G4_E_BUSY;
	if (old.split.slash || (new_.split.slash && !exchange))
		rc = look_up_directory(caller, &old);
	if (rc == 0 && new_.split.slash && exchange)
		rc = look_up_directory(caller, &new_);
	if (rc < 0)
		return rc;
	g4_caller_set_name(&cmd, &old);
	g4_caller_set_name2(&cmd, &new_);
	cmd.flags = flags;
	return execute(caller, &cmd);
}

G4_FN int g4_caller_truncate(struct g4_caller *caller, const struct g4_caller_file *file, uint64_t size)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_SETATTR);

	if (file->handle == 0)
		return -G4_E_BADF;
	cmd.handle = file->handle;
	cmd.mask = G4_SET_SIZE;
	caller->attr.size = size;
	cmd.attr = &caller->attr;
	return execute(caller, &cmd);
}

G4_FN int64_t g4_caller_batch(struct g4_caller *caller, const struct g4_caller_file *at, void *data, uint64_t bytes,
			      uint32_t count, uint32_t flags)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_BATCH);

	if (at && at->handle == 0)
		return -G4_E_BADF;
	cmd.node = at ? at->ino : caller->callers->start;
	cmd.data = data;
	cmd.length = bytes;
	cmd.mask = count;
	cmd.flags = flags;
	const int rc = g4_caller_run(caller, &cmd);
	return rc < 0 ? rc : (int64_t)cmd.value;
}
