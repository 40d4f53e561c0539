/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the paths and names of callers of the device API lead. What makes or removes a name wants the place of it: the
 * directory in front is walked, the command gets the rest.
 */
#include "device/caller.h"

/* Where a path leads: caller->attr. */
G4_FN int g4_caller_stat(struct g4_caller *caller, const struct g4_caller_file *at, const char *path,
			 uint64_t path_bytes, bool nofollow)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_RESOLVE);

	if (path_bytes >= G4_PATH_MAX)
		return -G4_E_NAMETOOLONG;
	cmd.node = at ? at->ino : caller->callers->start;
	cmd.name = path;
	cmd.name_bytes = (uint16_t)path_bytes;
	cmd.flags = nofollow ? G4_RESOLVE_NOFOLLOW : 0;
	cmd.attr = &caller->attr;
	return g4_caller_run(caller, &cmd);
}

G4_FN int g4_caller_fstat(struct g4_caller *caller, const struct g4_caller_file *file)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_GETATTR);

	cmd.handle = file->handle;
	cmd.attr = &caller->attr;
	return file->handle ? g4_caller_run(caller, &cmd) : -G4_E_BADF;
}

G4_FN int g4_caller_lookup(struct g4_caller *caller, const struct g4_caller_file *dir, const char *name,
			   uint64_t name_bytes)
{
	struct g4_cmd cmd = g4_caller_command(caller, G4_CMD_LOOKUP);

	if (name_bytes > G4_NAME_MAX)
		return -G4_E_NAMETOOLONG;
	cmd.node = dir->ino;
	cmd.name = name;
	cmd.name_bytes = (uint16_t)name_bytes;
	cmd.attr = &caller->attr;
	return dir->handle ? g4_caller_run(caller, &cmd) : -G4_E_BADF;
}

G4_FN int g4_caller_find(struct g4_caller *caller, const struct g4_caller_path *path, struct g4_caller_name *ending)
{
	int rc = g4_path_cut(path->text, path->bytes, &ending->split);

	if (rc < 0)
		return rc;
	ending->node = path->at ? path->at->ino : caller->callers->start;
	ending->generation = 0;
	if (ending->split.directory_bytes == 0)
		return 0;
	rc = g4_caller_stat(caller, path->at, path->text, ending->split.directory_bytes, false);
	ending->node = caller->attr.ino;
	ending->generation = (uint32_t)caller->attr.generation;
	return rc;
}

G4_FN void g4_caller_set_node(struct g4_cmd *cmd, const struct g4_caller *caller)
{
	cmd->node = caller->attr.ino;
	cmd->generation = (uint32_t)caller->attr.generation;
}

G4_FN void g4_caller_set_name(struct g4_cmd *cmd, const struct g4_caller_name *ending)
{
	cmd->node = ending->node;
	cmd->generation = ending->generation;
	cmd->name = ending->split.name;
	cmd->name_bytes = (uint16_t)ending->split.name_bytes;
}

G4_FN void g4_caller_set_name2(struct g4_cmd *cmd, const struct g4_caller_name *ending)
{
	cmd->node2 = ending->node;
	cmd->generation2 = ending->generation;
	cmd->name2 = ending->split.name;
	cmd->name2_bytes = (uint16_t)ending->split.name_bytes;
}

G4_FN bool g4_caller_again(int rc, uint32_t *attempts)
{
	return rc == -G4_E_STALE && ++*attempts < G4_CALLER_ATTEMPTS;
}
