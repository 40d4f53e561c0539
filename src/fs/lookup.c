/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking names up: the walk with locks, which is the definition of a lookup (DESIGN.md, "Directories and lookup"). For each
 * name the directory is locked, searched if that is permitted, and the inode referenced that the name leads to.
 */
#include "data/symlink.h"
#include "fs/attr.h"
#include "fs/commands.h"
#include "fs/execute.h"
#include "fs/names.h"
#include "fs/node.h"
#include "fs/walk.h"
#include "inode/epoch.h"
#include "inode/icache.h"
#include "inode/times.h"
#include "inode/txn.h"

/*
 * The in-core inode that a name leads to which is neither . nor ..; directory locked, so that it is the inode the name meant. cached:
 * the lookup cache may say which one.
 */
G4_FN static int step_down(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *dir, const char *name,
			   uint32_t bytes, bool cached, uint32_t *next)
{
	struct g4_lookup_value value;
	struct g4_lookup_seen seen;
	struct g4_dir_slot slot;

	if (cached && g4_name_cached(fs, dir, name, bytes, &value, &seen)) {
		if (g4_icache_get_near(wg, fs, value.inode, value.index, next) == 0) {
			g4_fence_acq();
			if (*next == value.index && g4_lookup_holds(&seen))
				return 0;
			g4_icache_put(fs, *next);
		}
	}
	const int rc = g4_name_get(wg, fs, dir, G4_LOCKED_SHARED, name, bytes, true, &slot, next);
	/* it is there, for the name is: its slab can not be had */
	return rc == -G4_E_STALE ? -G4_E_CORRUPT_INODE : rc;
}

G4_FN static void fill_attr(struct g4_fs *fs, uint32_t index, struct g4_attr *attr, struct g4_trail *trail)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);

	g4_read_lock(&inode->lock);
	g4_trail_note_attr(fs, trail, inode);
	g4_fill_attr(inode, attr);
	g4_read_unlock(&inode->lock);
}

/* Attributes of the inode that the name leads to, of a moment in which it does. 1: they are given; 0: it leads elsewhere by now. */
G4_FN static int fill_attr_of(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *dir, const char *name,
			      uint32_t bytes, uint32_t index, struct g4_attr *attr, struct g4_trail *trail)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);

	g4_read_lock(&inode->lock);
	const int leads = g4_name_leads_to(wg, fs, dir, G4_LOCKED_SHARED, name, bytes, inode);
	if (leads > 0) {
		g4_trail_note_attr(fs, trail, inode);
		g4_fill_attr(inode, attr);
	}
	g4_read_unlock(&inode->lock);
	return leads;
}

/*
 * step() of a name that is neither . nor ..: once more for each time that the name is given to another inode meanwhile. In a damaged
 * image names may be left that lead to an inode without links, which is freed: the lookup cache would lead to what it was in
 * core for ever, and the slab says that it is gone.
 */
G4_FN static int step_to(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *dir, const char *name,
			 uint32_t bytes, struct g4_attr *attr, struct g4_trail *trail, bool *given, uint32_t *next)
{
	for (bool cached = true;; cached = false) {
		int rc = step_down(wg, fs, dir, name, bytes, cached, next);
		if (rc < 0 || !attr || g4_check_child(fs, dir, *next) < 0)
			return rc;
		rc = fill_attr_of(wg, fs, dir, name, bytes, *next, attr, trail);
		*given = rc > 0;
		if (rc > 0)
			return 0;
		g4_icache_put(fs, *next);
		if (rc < 0)
			return rc;
	}
}

/*
 * One step: the in-core inode that `name` leads to in the directory at `index`. Its attributes, if wanted, are those of a
 * moment in which it had the name; *given tells whether they are filled in (not for . and .., whose lock may be the directory's).
 */
G4_FN static int step(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, const char *name, uint32_t bytes,
		      const struct g4_cred *cred, struct g4_attr *attr, struct g4_trail *trail, bool *given,
		      uint32_t *next)
{
	struct g4_inode_core *dir = g4_icache_at(fs, index);
	struct g4_dir_slot slot;

	*given = false;
	if (bytes > G4_NAME_MAX)
		return -G4_E_NAMETOOLONG;
	g4_read_lock(&dir->lock);
	g4_trail_note(fs, trail, dir);
	int rc = g4_may_search(wg, fs, dir, cred);
	if (rc == 0 && (g4_is_dot(name, bytes) || g4_is_dotdot(name, bytes))) {
		rc = g4_name_find(wg, fs, dir, G4_LOCKED_SHARED, name, bytes, &slot);
		if (rc == 0)
			rc = g4_icache_get(wg, fs, slot.inode, next);
	} else if (rc == 0) {
		rc = step_to(wg, fs, dir, name, bytes, attr, trail, given, next);
	}
	g4_read_unlock(&dir->lock);
	return rc == -G4_E_STALE ? -G4_E_NOENT : rc;
}

G4_FN int g4_do_lookup(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct g4_trail *trail = g4_trail_of(cmd);
	bool given;
	uint32_t dir, child;

	int rc = g4_check_name(cmd->name, cmd->name_bytes);

	if (trail)
		g4_trail_begin(trail);
	if (rc == 0)
		rc = g4_icache_get_node(wg, fs, cmd, &dir);
	if (rc == -G4_E_STALE)
		return -G4_E_NOENT;
	if (rc < 0)
		return g4_check(fs, rc);
	rc = step(wg, fs, dir, cmd->name, cmd->name_bytes, cmd->cred, cmd->attr, trail, &given, &child);
	g4_icache_put(fs, dir);
	if (rc < 0)
		return g4_check(fs, rc);
	if (!given && cmd->attr)
		fill_attr(fs, child, cmd->attr, trail);
	g4_icache_put(fs, child);
	return 0;
}

G4_FN int g4_do_readlink(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t index, bytes = 0;
	int rc = g4_icache_get_node(wg, fs, cmd, &index);

	if (rc < 0)
		return rc;
	g4_read_lock(&g4_icache_at(fs, index)->lock);
	rc = g4_link_read(wg, fs, index, (char *)cmd->data, (uint32_t)g4_min64(cmd->length, G4_PATH_MAX), &bytes);
	if (rc == 0)
		g4_touch_read(fs, index);
	g4_read_unlock(&g4_icache_at(fs, index)->lock);
	g4_icache_put(fs, index);
	cmd->value = bytes;
	return g4_check(fs, rc);
}

#define MAX_LINKS 40u

struct walk {
	char path[2 * G4_PATH_MAX + 512];
	char target[G4_PATH_MAX];
	uint32_t at, bytes, links;
	uint32_t own; /* so many bytes at the end are the path's own, and not a link's target */
};

G4_STATIC_ASSERT(sizeof(struct walk) <= G4_FS_SCRATCH_BYTES, "its room in scratch memory");

/* Puts a link's target in front of what is left of the path. */
G4_FN static int expand(struct g4_wg *wg, struct g4_fs *fs, struct walk *walk, uint32_t link)
{
	uint32_t bytes, left = walk->bytes - walk->at;
	struct g4_inode_core *inode = g4_icache_at(fs, link);

	if (++walk->links > MAX_LINKS)
		return -G4_E_LOOP;
	g4_read_lock(&inode->lock);
	int rc = g4_link_read(wg, fs, link, walk->target, G4_PATH_MAX - 1, &bytes);
	g4_read_unlock(&inode->lock);
	if (rc < 0)
		return rc;
	if (bytes == 0)
		return -G4_E_NOENT;
	if (bytes + left >= G4_PATH_MAX + 256)
		return -G4_E_NAMETOOLONG;
	g4_bytes_move(walk->path + bytes, walk->path + walk->at, left);
	memcpy(walk->path, walk->target, bytes);
	walk->at = 0;
	walk->bytes = bytes + left;
	return 0;
}

/* Whether the link may be followed that a name in the directory at `index` led to. No lock held. */
G4_FN static int check_follow(struct g4_fs *fs, uint32_t index, uint32_t link, const struct g4_cred *cred)
{
	struct g4_inode_core *dir = g4_icache_at(fs, index), *inode = g4_icache_at(fs, link);

	if (g4_is_trusted(cred))
		return 0;
	g4_read_lock(&dir->lock);
	g4_read_lock(&inode->lock); /* a link is nobody's parent */
	int rc = g4_may_follow(dir, inode, cred);
	g4_read_unlock(&inode->lock);
	g4_read_unlock(&dir->lock);
	return rc;
}

/* Skips slashes; the next component's length. */
G4_FN static uint32_t component(struct walk *walk)
{
	uint32_t n = 0;

	while (walk->at < walk->bytes && walk->path[walk->at] == '/')
		walk->at++;
	while (walk->at + n < walk->bytes && walk->path[walk->at + n] != '/')
		n++;
	return n;
}

/* ".." of the root is the root, but for a client that sees the file system mounted below another one. */
G4_FN static int leaves_by_dotdot(const struct g4_fs *fs, uint32_t index, const char *name, uint32_t bytes,
				  uint32_t flags)
{
	return (flags & G4_RESOLVE_BENEATH) && index == fs->root_index && g4_is_dotdot(name, bytes) ? -G4_E_LEAVES : 0;
}

/* Where the walk is: the in-core inode is referenced. */
G4_FN static void note_place(struct g4_fs *fs, uint32_t index, struct g4_walked *walked)
{
	walked->ino = g4_icache_at(fs, index)->ino;
	walked->generation = g4_icache_at(fs, index)->disk.generation;
}

/* Gives the in-core inode at *index back, for the one at `next`. */
G4_FN static void move_to(struct g4_fs *fs, uint32_t *index, uint32_t next)
{
	g4_icache_put(fs, *index);
	*index = next;
}

/* A link was met in the directory at *index: the walk goes on with what it says. */
G4_FN static int follow(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd, struct walk *walk,
			uint32_t *index, uint32_t link)
{
	uint32_t root;

	/* who may not follow it depends on its owner, too */
	g4_trail_note(fs, g4_trail_of(cmd), g4_icache_at(fs, link));
	int rc = check_follow(fs, *index, link, cmd->cred);
	if (rc == 0)
		rc = expand(wg, fs, walk, link);
	if (rc == 0 && walk->path[0] == '/' && (cmd->flags & G4_RESOLVE_BENEATH))
		rc = -G4_E_LEAVES;
	g4_icache_put(fs, link);
	if (rc == 0 && walk->path[0] == '/') {
		rc = g4_icache_get(wg, fs, G4_NODE_ROOT, &root);
		if (rc == 0)
			move_to(fs, index, root);
	}
	return rc;
}

/* One component of n bytes. */
G4_FN static int walk_component(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd, struct walk *walk, uint32_t n,
				uint32_t *index, bool *given, struct g4_walked *walked)
{
	const uint32_t left = walk->bytes - walk->at;
	struct g4_attr *attr = n == left ? cmd->attr : NULL;
	uint32_t next;

	walked->own = left <= walk->own;
	if (walked->own)
		walked->at = cmd->name_bytes - left;
	int rc = leaves_by_dotdot(fs, *index, walk->path + walk->at, n, cmd->flags);
	if (rc == 0)
		rc = step(wg, fs, *index, walk->path + walk->at, n, cmd->cred, attr, g4_trail_of(cmd), given, &next);
	if (rc < 0)
		return rc;
	if (walked->own)
		walk->own = left - n;
	walk->at += n;
	const bool slash = n < left; /* link/ means what it points to */
	const uint32_t type = g4_inode_core_type(g4_icache_at(fs, next));
	if (g4_is_link(type) && (slash || !(cmd->flags & G4_RESOLVE_NOFOLLOW))) {
		*given = false;
		return follow(wg, fs, cmd, walk, index, next);
	}
	if (slash && !g4_is_dir(type)) {
		g4_icache_put(fs, next);
		return -G4_E_NOTDIR;
	}
	move_to(fs, index, next);
	return 0;
}

G4_FN static int resolve(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd, struct walk *walk,
			 struct g4_walked *walked)
{
	uint32_t index, n;
	bool given = false;
	int rc;

	if (g4_trail_of(cmd))
		g4_trail_begin(g4_trail_of(cmd));
	memcpy(walk->path, cmd->name, cmd->name_bytes);
	walk->at = walk->links = 0;
	walk->bytes = walk->own = cmd->name_bytes;
	walked->at = 0;
	walked->own = false;
	rc = walk->path[0] == '/' || cmd->node == 0 ? g4_icache_get(wg, fs, G4_NODE_ROOT, &index) :
						      g4_icache_get_node(wg, fs, cmd, &index);
	if (rc < 0)
		return g4_check(fs, rc);
	while (rc == 0 && (n = component(walk)) > 0)
		rc = walk_component(wg, fs, cmd, walk, n, &index, &given, walked);
	if (rc == 0 && !given && cmd->attr)
		fill_attr(fs, index, cmd->attr, g4_trail_of(cmd));
	note_place(fs, index, walked);
	g4_icache_put(fs, index);
	return g4_check(fs, rc);
}

G4_FN static int walk_short(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd, struct g4_walked *walked)
{
	const uint32_t mark = g4_scratch_mark(wg);
	int rc = resolve(wg, fs, cmd, (struct walk *)g4_scratch_take(wg, sizeof(struct walk)), walked);

	g4_scratch_release(wg, mark);
	return rc;
}

G4_FN int g4_do_resolve(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct g4_walked walked;

	if (cmd->name_bytes == 0)
		return -G4_E_NOENT;
	if (cmd->name_bytes >= G4_PATH_MAX)
		return -G4_E_NAMETOOLONG;
	return walk_short(wg, fs, cmd, &walked);
}

/* ------------------------------------------------------------------ paths of any length */

/* How much of a path a walk takes at a time: as much as fits, up to behind a slash; 0: a component is too long. */
G4_FN static uint32_t piece_of(const char *path, uint64_t bytes)
{
	uint32_t n = G4_PATH_MAX - 1;

	if (bytes <= n)
		return (uint32_t)bytes;
	while (n > 0 && path[n - 1] != '/')
		n--;
	return n;
}

/* One piece; only what the definition says of an error tells where it is. */
G4_FN static int walk_piece(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd, struct g4_walked *walked)
{
	if (!g4_optimistic_alone(fs, cmd))
		return walk_short(wg, fs, cmd, walked);
	walked->ino = cmd->attr->ino;
	walked->generation = (uint32_t)cmd->attr->generation;
	return 0;
}

/* The piece ends in front of slashes, behind which there is more: it leads to a directory. */
G4_FN static int check_directory(const struct g4_cmd *cmd, struct g4_walked *walked)
{
	if (g4_is_dir(cmd->attr->mode))
		return 0;
	walked->own = true;
	walked->at = cmd->name_bytes;
	while (walked->at > 0 && cmd->name[walked->at - 1] != '/')
		walked->at--;
	return -G4_E_NOTDIR;
}

G4_FN int g4_walk(struct g4_wg *wg, struct g4_fs *fs, const struct g4_place *from, const char *path, uint64_t bytes,
		  uint32_t flags, const struct g4_cred *cred, struct g4_attr *attr, struct g4_walked *walked)
{
	struct g4_cmd cmd = {0};
	uint64_t at = 0;
	int rc = bytes == 0 ? -G4_E_NOENT : 0;

	cmd.op = G4_CMD_RESOLVE;
	cmd.attr = attr;
	cmd.cred = cred;
	walked->ino = from->ino;
	walked->generation = from->generation;
	walked->own = false;
	walked->at = 0;
	while (rc == 0 && at < bytes) {
		uint32_t n = piece_of(path + at, bytes - at);
		const uint64_t end = at + n;
		const bool last = end == bytes;
		while (!last && n > 1 && path[at + n - 1] == '/') /* of what is plain the caches know more */
			n--;
		if (n == 0)
			return -G4_E_NAMETOOLONG;
		cmd.node = walked->ino;
		cmd.generation = walked->generation;
		cmd.name = path + at;
		cmd.name_bytes = (uint16_t)n;
		cmd.flags = last ? flags : 0;
		rc = walk_piece(wg, fs, &cmd, walked);
		if (rc == 0 && !last)
			rc = check_directory(&cmd, walked);
		walked->at += at; /* with an error */
		at = end;
		while (at < bytes && path[at] == '/') /* or the next piece would begin at the root */
			at++;
	}
	return rc == -G4_E_STALE ? -G4_E_NOENT : rc;
}

G4_FN uint32_t g4_path_components(const char *path, uint64_t bytes)
{
	uint32_t count = 0;

	for (uint64_t at = 0; at < bytes; at++)
		count += path[at] != '/' && (at == 0 || path[at - 1] == '/');
	return count;
}
