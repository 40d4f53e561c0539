/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What callers of the device API do to names: making, removing, renaming and linking by path, as libgpu4fs does it on a CPU
 * (client/path.c). A path is cut before its last component; what is in front is walked, the command gets the rest.
 */
#include "engine/caller.h"

enum last { LAST_NAME, LAST_DOT, LAST_DOTDOT, LAST_ROOT };

/* Where a path ends: a name in a directory. */
struct place {
	uint64_t node, generation;
	const char *name;
	uint32_t name_bytes;
	enum last last;
	bool slash; /* behind it */
};

/* A directory that is gone since the walk has no names. */
G4_FN static int execute(struct g4_caller *caller, struct g4_cmd *cmd)
{
	int rc = g4_execute(caller->wg, caller->callers->fs, cmd);

	return rc == -G4_E_STALE ? -G4_E_NOENT : rc;
}

G4_FN static enum last last_of(const struct place *place)
{
	if (place->name_bytes == 0)
		return LAST_ROOT;
	if (place->name[0] != '.' || place->name_bytes > 2)
		return LAST_NAME;
	if (place->name_bytes == 1)
		return LAST_DOT;
	return place->name[1] == '.' ? LAST_DOTDOT : LAST_NAME;
}

G4_FN static int find_place(struct g4_caller *caller, const struct g4_caller_path *path, struct place *place)
{
	uint64_t end = path->bytes;

	if (path->bytes == 0)
		return -G4_E_NOENT;
	if (path->bytes >= G4_PATH_MAX)
		return -G4_E_NAMETOOLONG;
	while (end > 0 && path->text[end - 1] == '/')
		end--;
	uint64_t start = end;
	while (start > 0 && path->text[start - 1] != '/')
		start--;
	if (end - start > G4_NAME_MAX)
		return -G4_E_NAMETOOLONG;
	place->slash = end < path->bytes;
	place->name = path->text + start;
	place->name_bytes = (uint32_t)(end - start);
	place->last = last_of(place);
	place->node = path->at ? path->at->ino : caller->callers->start;
	place->generation = 0;
	if (start == 0)
		return 0;
	int rc = g4_caller_stat(caller, path->at, path->text, start, false);
	place->node = caller->attr.ino;
	place->generation = caller->attr.generation;
	return rc;
}

G4_FN static void set_name(struct g4_cmd *cmd, const struct place *place)
{
	cmd->node = place->node;
	cmd->arg |= (uint32_t)place->generation;
	cmd->name = place->name;
	cmd->name_bytes = (uint16_t)place->name_bytes;
}

G4_FN static void set_name2(struct g4_cmd *cmd, const struct place *place)
{
	cmd->node2 = place->node;
	cmd->arg |= place->generation << 32;
	cmd->name2 = place->name;
	cmd->name2_bytes = (uint16_t)place->name_bytes;
}

/* What the name is by now: caller->attr. */
G4_FN static int look_up(struct g4_caller *caller, const struct place *place)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_LOOKUP);

	set_name(&cmd, place);
	cmd.attr = &caller->attr;
	return execute(caller, &cmd);
}

/* A slash at the end asks for a directory. */
G4_FN static int look_up_directory(struct g4_caller *caller, const struct place *place)
{
	int rc = look_up(caller, place);

	if (rc < 0)
		return rc;
	return g4_is_dir(caller->attr.mode) ? 0 : -G4_E_NOTDIR;
}

/* The place of a new name; only a directory's may end in a slash. */
G4_FN static int find_new(struct g4_caller *caller, const struct g4_caller_path *path, bool directory,
			  struct place *place)
{
	int rc = find_place(caller, path, place);

	if (rc < 0)
		return rc;
	if (place->last != LAST_NAME)
		return -G4_E_EXIST;
	if (!place->slash || directory)
		return 0;
	rc = look_up(caller, place);
	return rc < 0 ? rc : -G4_E_EXIST;
}

G4_FN int g4_caller_mkdir(struct g4_caller *caller, const struct g4_caller_path *path, uint32_t mode)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_MKDIR);
	struct place place;
	int rc = find_new(caller, path, true, &place);

	if (rc < 0)
		return rc;
	set_name(&cmd, &place);
	cmd.mode = mode & (0777u | G4_S_ISVTX);
	return execute(caller, &cmd);
}

G4_FN int g4_caller_symlink(struct g4_caller *caller, const char *target, uint64_t bytes,
			    const struct g4_caller_path *path)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_SYMLINK);
	struct place place;

	if (bytes == 0)
		return -G4_E_NOENT;
	if (bytes >= G4_PATH_MAX)
		return -G4_E_NAMETOOLONG;
	int rc = find_new(caller, path, false, &place);
	if (rc < 0)
		return rc;
	set_name(&cmd, &place);
	cmd.name2 = target;
	cmd.name2_bytes = (uint16_t)bytes;
	return execute(caller, &cmd);
}

G4_FN static int link_once(struct g4_caller *caller, const struct g4_caller_path *from, const struct g4_caller_path *to,
			   bool follow)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_LINK);
	struct place place;
	int rc = g4_caller_stat(caller, from->at, from->text, from->bytes, !follow);

	if (rc < 0)
		return rc;
	cmd.node = caller->attr.ino;
	cmd.arg = (uint32_t)caller->attr.generation;
	rc = find_new(caller, to, false, &place);
	if (rc < 0)
		return rc;
	set_name2(&cmd, &place);
	return g4_execute(caller->wg, caller->callers->fs, &cmd);
}

G4_FN int g4_caller_link(struct g4_caller *caller, const struct g4_caller_path *from, const struct g4_caller_path *to,
			 bool follow)
{
	int rc = -G4_E_STALE;

	for (uint32_t attempt = 0; attempt < G4_CALLER_ATTEMPTS && rc == -G4_E_STALE; attempt++)
		rc = link_once(caller, from, to, follow);
	return rc == -G4_E_STALE ? -G4_E_NOENT : rc;
}

G4_FN int g4_caller_unlink(struct g4_caller *caller, const struct g4_caller_path *path)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_UNLINK);
	struct place place;
	int rc = find_place(caller, path, &place);

	if (rc < 0)
		return rc;
	if (place.last != LAST_NAME)
		return -G4_E_ISDIR;
	if (place.slash) {
		rc = look_up_directory(caller, &place);
		return rc < 0 ? rc : -G4_E_ISDIR;
	}
	set_name(&cmd, &place);
	return execute(caller, &cmd);
}

G4_FN int g4_caller_rmdir(struct g4_caller *caller, const struct g4_caller_path *path)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_RMDIR);
	struct place place;
	int rc = find_place(caller, path, &place);

	if (rc < 0)
		return rc;
	if (place.last == LAST_DOT)
		return -G4_E_INVAL;
	if (place.last == LAST_DOTDOT)
		return -G4_E_NOTEMPTY;
	if (place.last == LAST_ROOT)
		return -G4_E_BUSY;
	set_name(&cmd, &place);
	return execute(caller, &cmd);
}

G4_FN int g4_caller_rename(struct g4_caller *caller, const struct g4_caller_path *from, const struct g4_caller_path *to,
			   uint32_t flags)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_RENAME);
	const bool exchange = flags == G4_RENAME_EXCHANGE;
	struct place old, new_;

	if (!g4_rename_flags_valid(flags))
		return -G4_E_INVAL;
	int rc = find_place(caller, from, &old);
	if (rc == 0)
		rc = find_place(caller, to, &new_);
	if (rc < 0)
		return rc;
	if (old.last != LAST_NAME)
		return -G4_E_BUSY;
	if (new_.last != LAST_NAME)
		return flags & G4_RENAME_NOREPLACE ? -G4_E_EXIST : -G4_E_BUSY;
	if (old.slash || (new_.slash && !exchange))
		rc = look_up_directory(caller, &old);
	if (rc == 0 && new_.slash && exchange)
		rc = look_up_directory(caller, &new_);
	if (rc < 0)
		return rc;
	set_name(&cmd, &old);
	set_name2(&cmd, &new_);
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
