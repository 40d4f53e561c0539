/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking names up without a lock. Most lookups meet directories that nobody is changing, and then all that the locks do
 * is to count readers in and out: four atomic operations a name, which is half of what a stat costs on a CPU and more on a
 * GPU. Here a lane copies what it needs and asks afterwards whether anybody has written meanwhile. It never waits and
 * keeps nothing, so 32 lanes of a warp may look up 32 paths.
 *
 * From a directory to what a name in it leads to: the child's core is copied first, then the directory is asked whether
 * it changed. If it did not, the name led to this inode at that moment; if the child does not change until its own copy
 * has been used, the copy is what it was at that moment, too.
 *
 * Whatever is not plain is left to the commands: names that are not cached, symbolic links on the way, "." and "..",
 * access lists, errors of any kind. LOOKUP and RESOLVE (namei.c) mean the same.
 */
#include "fs/fs.h"

struct place { /* where a walk is */
	uint32_t core;
	struct g4_core copy; /* its first G4_CORE_ATTRIBUTE_BYTES bytes */
};

G4_FN static bool start_at(struct g4_fs *fs, uint64_t node, uint64_t generation, struct place *at)
{
	at->core = g4_core_place(fs, node);
	if (at->core == G4_NO_CORE)
		return false;
	if (node == G4_NODE_ROOT)
		node = g4_load64_rlx(&g4_core_of(fs, at->core)->ino);
	return g4_core_glance(fs, at->core, node, &at->copy) &&
	       ((uint32_t)generation == 0 || at->copy.disk.generation == (uint32_t)generation);
}

/* Whether names may be looked up in it, as far as its mode says that. */
G4_FN static bool may_search(struct g4_fs *fs, struct g4_core *copy, const struct g4_cred *cred)
{
	if (!g4_is_dir(copy->disk.mode) || copy->disk.nlink == 0)
		return false;
	if (copy->disk.xattr && !g4_is_owner(copy, cred))
		return false; /* there may be an access list */
	return g4_permission(NULL, fs, copy, cred, G4_ACCESS_EXEC) == 0;
}

/* To what the name leads; `at` was copied and is not believed yet, `to` neither. */
G4_FN static bool go_down(struct g4_fs *fs, struct place *at, const char *name, uint32_t bytes,
			  const struct g4_cred *cred, struct place *to)
{
	struct g4_lookup_value value;

	if (bytes > G4_LOOKUP_NAME_BYTES || (name[0] == '.' && (bytes == 1 || (bytes == 2 && name[1] == '.'))))
		return false;
	if (!may_search(fs, &at->copy, cred))
		return false;
	const struct g4_lookup_name key = g4_lookup_key(fs, &at->copy, name, bytes);
	if (!g4_lookup_find(&fs->lookup, &key, &value) || value.core >= fs->cores.count)
		return false;
	to->core = value.core;
	if (!g4_core_glance(fs, to->core, value.inode, &to->copy) || !g4_core_unchanged(fs, at->core, &at->copy))
		return false;
	/* a directory with another parent is for the command to complain of */
	if (g4_is_dir(to->copy.disk.mode) && to->copy.disk.parent != at->copy.ino)
		return false;
	return to->core != at->core;
}

/* The walk's answer. */
G4_FN static bool arrive(struct g4_fs *fs, struct place *at, struct g4_attr *attr)
{
	struct g4_core *core = g4_core_of(fs, at->core);

	if (!g4_core_unchanged(fs, at->core, &at->copy))
		return false;
	if (attr)
		g4_fill_attr(&at->copy, attr);
	if (!g4_load32_rlx(&core->accessed)) /* another inode's by now, perhaps: for the clock that is no matter */
		g4_store32_rlx(&core->accessed, 1);
	return true;
}

G4_FN bool g4_glance_name(struct g4_fs *fs, const struct g4_cmd *cmd)
{
	struct place at, to;

	return cmd->name_bytes > 0 && start_at(fs, cmd->node, cmd->arg, &at) &&
	       go_down(fs, &at, cmd->name, cmd->name_bytes, cmd->cred, &to) && arrive(fs, &to, cmd->attr);
}

G4_FN bool g4_glance_path(struct g4_fs *fs, const struct g4_cmd *cmd)
{
	const char *path = cmd->name;
	const uint32_t end = cmd->name_bytes;
	struct place places[2];
	uint32_t at = 0, now = 0;

	if (end == 0 || end >= G4_PATH_MAX)
		return false;
	bool absolute = path[0] == '/' || cmd->node == 0;
	if (!start_at(fs, absolute ? G4_NODE_ROOT : cmd->node, absolute ? 0 : cmd->arg, &places[now]))
		return false;
	for (;;) {
		uint32_t bytes = 0;

		while (at < end && path[at] == '/')
			at++;
		while (at + bytes < end && path[at + bytes] != '/')
			bytes++;
		if (bytes == 0)
			return false; /* nothing but slashes, or a slash at the end, which asks for a directory */
		if (!go_down(fs, &places[now], path + at, bytes, cmd->cred, &places[1 - now]))
			return false;
		now = 1 - now;
		at += bytes;
		if (at == end)
			break;
	}
	if (g4_is_link(places[now].copy.disk.mode) && !(cmd->flags & G4_RESOLVE_NOFOLLOW))
		return false;
	return arrive(fs, &places[now], cmd->attr);
}
