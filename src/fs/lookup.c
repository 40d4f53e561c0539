/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking names up: the walk with locks, which is the definition of a lookup (DESIGN.md, "Directories and lookup"). For each
 * name the directory is locked, searched if that is permitted, and the inode referenced that the name leads to.
 */
#include "data/symlink.h"
#include "fs/attr.h"
#include "fs/commands.h"
#include "fs/names.h"
#include "fs/node.h"
#include "inode/icache.h"
#include "inode/times.h"
#include "inode/txn.h"

/* The in-core inode that a name leads to which is neither . nor ..; directory locked, so that it is the inode the name meant. */
G4_FN static int step_down(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *dir, const char *name,
			   uint32_t bytes, uint32_t *next)
{
	struct g4_lookup_name key = g4_lookup_key(fs, dir, name, bytes);
	struct g4_lookup_value value;
	struct g4_dir_slot slot;
	int rc;

	if (g4_lookup_find(&fs->lookup, &key, &value)) {
		rc = g4_icache_get_near(wg, fs, value.inode, value.index, next);
		if (rc < 0 || *next == value.index)
			return rc;
	} else {
		rc = g4_name_find(wg, fs, dir, name, bytes, &slot);
		if (rc == 0)
			rc = g4_icache_get(wg, fs, slot.inode, next);
		if (rc < 0)
			return rc;
	}
	g4_name_remember(fs, &key, *next);
	return 0;
}

G4_FN static void fill_attr(struct g4_fs *fs, uint32_t index, struct g4_attr *attr)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);

	g4_read_lock(&inode->lock);
	g4_fill_attr(inode, attr);
	g4_read_unlock(&inode->lock);
}

/*
 * One step: the in-core inode that `name` leads to in the directory at `index`. Its attributes, if wanted, are those of a
 * moment in which it had the name; *given tells whether they are filled in (not for . and .., whose lock may be the directory's).
 */
G4_FN static int step(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, const char *name, uint32_t bytes,
		      const struct g4_cred *cred, struct g4_attr *attr, bool *given, uint32_t *next)
{
	struct g4_inode_core *dir = g4_icache_at(fs, index);
	struct g4_dir_slot slot;

	*given = false;
	if (bytes > G4_NAME_MAX)
		return -G4_E_NAMETOOLONG;
	g4_read_lock(&dir->lock);
	int rc = g4_may_search(wg, fs, dir, cred);
	if (rc == 0 && (g4_is_dot(name, bytes) || g4_is_dotdot(name, bytes))) {
		rc = g4_name_find(wg, fs, dir, name, bytes, &slot);
		if (rc == 0)
			rc = g4_icache_get(wg, fs, slot.inode, next);
	} else if (rc == 0) {
		rc = step_down(wg, fs, dir, name, bytes, next);
		if (rc == 0 && attr && g4_check_child(fs, dir, *next) == 0) {
			fill_attr(fs, *next, attr);
			*given = true;
		}
	}
	g4_read_unlock(&dir->lock);
	return rc == -G4_E_STALE ? -G4_E_NOENT : rc;
}

G4_FN int g4_do_lookup(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	bool given;
	uint32_t dir, child;

	int rc = g4_check_name(cmd->name, cmd->name_bytes);

	if (rc == 0)
		rc = g4_icache_get_node(wg, fs, cmd, &dir);
	if (rc == -G4_E_STALE)
		return -G4_E_NOENT;
	if (rc < 0)
		return g4_check(fs, rc);
	rc = step(wg, fs, dir, cmd->name, cmd->name_bytes, cmd->cred, cmd->attr, &given, &child);
	g4_icache_put(fs, dir);
	if (rc < 0)
		return g4_check(fs, rc);
	if (!given && cmd->attr)
		fill_attr(fs, child, cmd->attr);
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

/* ".." of the root is the root, but for who sees the file system mounted below another one. */
G4_FN static int leaves_by_dotdot(const struct g4_fs *fs, uint32_t index, const char *name, uint32_t bytes,
				  uint32_t flags)
{
	return (flags & G4_RESOLVE_BENEATH) && index == fs->root_index && g4_is_dotdot(name, bytes) ? -G4_E_LEAVES : 0;
}

G4_FN static int resolve(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd, struct walk *walk)
{
	uint32_t index, next;
	bool given = false;
	int rc;

	memcpy(walk->path, cmd->name, cmd->name_bytes);
	walk->at = walk->links = 0;
	walk->bytes = cmd->name_bytes;
	rc = walk->path[0] == '/' || cmd->node == 0 ? g4_icache_get(wg, fs, G4_NODE_ROOT, &index) :
						      g4_icache_get_node(wg, fs, cmd, &index);
	while (rc == 0) {
		uint32_t n = component(walk);
		if (n == 0)
			break;
		struct g4_attr *attr = walk->at + n == walk->bytes ? cmd->attr : NULL;
		rc = leaves_by_dotdot(fs, index, walk->path + walk->at, n, cmd->flags);
		if (rc == 0)
			rc = step(wg, fs, index, walk->path + walk->at, n, cmd->cred, attr, &given, &next);
		if (rc < 0) {
			g4_icache_put(fs, index);
			break;
		}
		walk->at += n;
		bool last = walk->at == walk->bytes;
		bool slash = !last; /* link/ means what it points to */
		if (g4_is_link(g4_inode_core_type(g4_icache_at(fs, next))) &&
		    (slash || !(cmd->flags & G4_RESOLVE_NOFOLLOW))) {
			rc = check_follow(fs, index, next, cmd->cred);
			if (rc == 0)
				rc = expand(wg, fs, walk, next);
			if (rc == 0 && walk->path[0] == '/' && (cmd->flags & G4_RESOLVE_BENEATH))
				rc = -G4_E_LEAVES;
			g4_icache_put(fs, next);
			given = false;
			if (rc == 0 && walk->path[0] == '/') {
				g4_icache_put(fs, index);
				rc = g4_icache_get(wg, fs, G4_NODE_ROOT, &index);
				if (rc < 0)
					return rc;
			}
			if (rc < 0)
				g4_icache_put(fs, index);
			continue;
		}
		g4_icache_put(fs, index);
		index = next;
		if (slash && !g4_is_dir(g4_inode_core_type(g4_icache_at(fs, index)))) {
			g4_icache_put(fs, index);
			rc = -G4_E_NOTDIR;
		}
	}
	if (rc < 0)
		return g4_check(fs, rc);
	if (!given && cmd->attr)
		fill_attr(fs, index, cmd->attr);
	g4_icache_put(fs, index);
	return 0;
}

G4_FN int g4_do_resolve(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	if (cmd->name_bytes == 0)
		return -G4_E_NOENT;
	if (cmd->name_bytes >= G4_PATH_MAX)
		return -G4_E_NAMETOOLONG;
	const uint32_t mark = g4_scratch_mark(wg);
	int rc = resolve(wg, fs, cmd, (struct walk *)g4_scratch_take(wg, sizeof(struct walk)));

	g4_scratch_release(wg, mark);
	return rc;
}
