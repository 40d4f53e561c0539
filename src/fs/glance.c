/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking names up without a lock. Most lookups meet directories that nobody is changing, and then all that the locks do
 * is to count readers in and out: four atomic operations a name, which is half of what a stat costs on a CPU and more on a
 * GPU. Here a lane copies what it needs and asks afterwards whether anybody has written meanwhile. It never waits and
 * keeps nothing, so 32 lanes of a warp may look up 32 paths.
 *
 * All places of a walk are asked at its end, behind one fence: if none has changed since it was copied, then at that moment
 * every name led where the walk went, and the attributes were these. Until then nothing that was copied is believed. It
 * may be torn, or another inode's: the walk then ends at the wrong place, or finds nothing, and that is all.
 *
 * On a GPU a function's variables lie in memory, unless they fit the registers, and each fence or acquire empties the cache
 * that they are in. So what is copied stays in registers, and the way down has few calls.
 *
 * Whatever is not plain is left to the commands: names that are not cached, symbolic links on the way, "." and "..",
 * access lists, errors of any kind. LOOKUP and RESOLVE (namei.c) mean the same. They fill the command's attributes again; if they
 * fail, these are undefined.
 */
#include "fs/fs.h"

#define SEEN 4u /* places that are asked together; a longer walk asks on its way, too */

struct walk {
	uint32_t core;	     /* where it is, and what must be there: */
	uint64_t inode;	     /* 0: whatever is */
	uint64_t parent;     /* if it is a directory; 0: any */
	uint32_t generation; /* 0: any */

	uint32_t seen;
	struct {
		uint32_t core;
		uint32_t version;
	} places[SEEN]; /* behind the last one seen: the same again */
};

G4_FN G4_INLINE bool is_unchanged(const struct g4_fs *fs, const struct walk *walk)
{
	bool same = true;

	g4_fence_acq();
	for (uint32_t k = 0; k < SEEN; k++)
		same &= g4_read_unchanged(&fs->cores.core[walk->places[k].core].lock, walk->places[k].version);
	return same;
}

/* Copies what is where the walk has come. */
G4_FN G4_INLINE bool look(const struct g4_fs *fs, struct walk *walk, struct g4_core *copy)
{
	if (!g4_core_glance(fs, walk->core, walk->inode, copy))
		return false;
	if (walk->seen == SEEN) {
		if (!is_unchanged(fs, walk))
			return false;
		walk->seen = 0;
	}
	/* no index that is not known when this is compiled: registers have none */
	for (uint32_t k = 0; k < SEEN; k++) {
		if (k >= walk->seen) {
			walk->places[k].core = walk->core;
			walk->places[k].version = copy->lock.version;
		}
	}
	walk->seen++;
	if (walk->generation && copy->disk.generation != walk->generation)
		return false;
	/* a directory with another parent is for the command to complain of */
	return walk->parent == 0 || !g4_is_dir(copy->disk.mode) || copy->disk.parent == walk->parent;
}

/* Whether names may be looked up in it, as far as its mode says that. */
G4_FN G4_INLINE bool may_search(const struct g4_core *copy, const struct g4_cred *cred)
{
	const uint32_t mode = copy->disk.mode;

	if (!g4_is_dir(mode) || copy->disk.nlink == 0)
		return false;
	if (cred == NULL || cred->uid == 0 || (cred->flags & G4_CRED_TRUSTED))
		return true;
	if (cred->uid == copy->disk.uid)
		return (mode >> 6 & G4_ACCESS_EXEC) != 0;
	if (copy->disk.xattr)
		return false; /* there may be an access list */
	return ((g4_in_group(cred, copy->disk.gid) ? mode >> 3 : mode) & G4_ACCESS_EXEC) != 0;
}

G4_FN G4_INLINE bool start_at(const struct g4_fs *fs, uint64_t node, uint64_t generation, struct walk *walk)
{
	walk->core = g4_core_place(fs, node);
	walk->inode = node == G4_NODE_ROOT ? 0 : node;
	walk->parent = 0;
	walk->generation = (uint32_t)generation;
	walk->seen = 0;
	return walk->core != G4_NO_CORE;
}

/* To what the name leads. */
G4_FN G4_INLINE bool go_down(const struct g4_fs *fs, struct walk *walk, const char *name, uint32_t bytes,
			     const struct g4_cmd *cmd)
{
	struct g4_lookup_value value;
	struct g4_core copy;

	if (bytes > G4_LOOKUP_NAME_BYTES || (name[0] == '.' && (bytes == 1 || (bytes == 2 && name[1] == '.'))))
		return false;
	if (!look(fs, walk, &copy) || !may_search(&copy, cmd->cred))
		return false;
	const struct g4_lookup_name key = {copy.data_key, g4_dir_hash(fs->hash_key, name, bytes), name, bytes};
	walk->parent = copy.ino;
	if (!g4_lookup_find(&fs->lookup, &key, &value) || value.core >= fs->cores.count)
		return false;
	walk->core = value.core;
	walk->inode = value.inode;
	walk->generation = 0;
	return true;
}

/* The walk's answer. */
G4_FN G4_INLINE bool arrive(const struct g4_fs *fs, struct walk *walk, bool follow, const struct g4_cmd *cmd)
{
	struct g4_core *core = &fs->cores.core[walk->core];
	struct g4_core copy;

	if (!look(fs, walk, &copy) || (follow && g4_is_link(copy.disk.mode)))
		return false;
	const bool untouched = !copy.accessed;
	if (cmd->attr)
		g4_fill_attr(&copy, cmd->attr);
	if (!is_unchanged(fs, walk))
		return false;
	if (untouched) /* another inode's by now, perhaps: for the clock that is no matter */
		g4_store32_rlx(&core->accessed, 1);
	return true;
}

G4_FN bool g4_glance_name(struct g4_fs *fs, const struct g4_cmd *cmd)
{
	struct walk walk;

	return cmd->name_bytes > 0 && start_at(fs, cmd->node, cmd->arg, &walk) &&
	       go_down(fs, &walk, cmd->name, cmd->name_bytes, cmd) && arrive(fs, &walk, false, cmd);
}

G4_FN bool g4_glance_path(struct g4_fs *fs, const struct g4_cmd *cmd)
{
	const char *path = cmd->name;
	const uint32_t end = cmd->name_bytes;
	struct walk walk;
	uint32_t at = 0;

	if (end == 0 || end >= G4_PATH_MAX)
		return false;
	bool absolute = path[0] == '/' || cmd->node == 0;
	if (!start_at(fs, absolute ? G4_NODE_ROOT : cmd->node, absolute ? 0 : cmd->arg, &walk))
		return false;
	do {
		uint32_t bytes = 0;

		while (at < end && path[at] == '/')
			at++;
		while (at + bytes < end && path[at + bytes] != '/')
			bytes++;
		if (bytes == 0)
			return false; /* nothing but slashes, or a slash at the end, which asks for a directory */
		if (!go_down(fs, &walk, path + at, bytes, cmd))
			return false;
		at += bytes;
	} while (at < end);
	return arrive(fs, &walk, !(cmd->flags & G4_RESOLVE_NOFOLLOW), cmd);
}
