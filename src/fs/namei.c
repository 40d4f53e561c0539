/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names: looking up, making, linking, removing, renaming. Locks: a directory before what is in it; two directories
 * under the rename lock, the ancestor first; then the inodes in them by number. A transaction is joined last.
 */
#include "fs/fs.h"

/* Beside the name itself: the inodes of parent and child, a slot for a new one and the space of its slab, the orphan list. */
#define INODE_CREDITS 16u
/* And what a new inode gets from its directory: access lists, the page of a long link's target. */
#define NEW_ATTRIBUTE_CREDITS 24u

/* Whether a byte of the word is 0 (Lamport, "Multiple byte processing with full-word instructions", 1975). */
G4_FN static bool has_zero(uint64_t word)
{
	return ((word - UINT64_C(0x0101010101010101)) & ~word & UINT64_C(0x8080808080808080)) != 0;
}

/* Whether a slash or a zero is among 1 to 8 bytes. */
G4_FN static bool has_bad_byte(const char *text, uint32_t bytes)
{
	uint64_t word = g4_load_bytes(text, bytes);

	if (bytes < 8)
		word |= ~UINT64_C(0) << 8 * bytes;
	return has_zero(word) || has_zero(word ^ UINT64_C(0x2f2f2f2f2f2f2f2f));
}

G4_FN static int check_name(const char *name, uint32_t bytes)
{
	if (bytes == 0)
		return -G4_E_NOENT;
	if (bytes > G4_NAME_MAX)
		return -G4_E_NAMETOOLONG;
	G4_ROLLED
	for (uint32_t i = 0; i < bytes; i += 8)
		if (has_bad_byte(name + i, (uint32_t)g4_min64(8, bytes - i)))
			return -G4_E_INVAL;
	return 0;
}

G4_FN static bool is_dot(const char *name, uint32_t bytes)
{
	return bytes == 1 && name[0] == '.';
}

G4_FN static bool is_dotdot(const char *name, uint32_t bytes)
{
	return bytes == 2 && name[0] == '.' && name[1] == '.';
}

G4_FN static uint8_t type_of(uint32_t mode)
{
	return (uint8_t)((mode & G4_S_IFMT) >> 12); /* DT_* */
}

G4_FN static struct g4_dir dir_of(struct g4_fs *fs, const struct g4_inode_core *inode)
{
	struct g4_dir dir = {&fs->alloc, fs->hash_key, inode->disk.map[0], inode->disk.pages};
	return dir;
}

/* The pages that an insert came to, back into the inode: also those of one that failed and had divided some by then. */
G4_FN static void dir_grown(struct g4_inode_core *inode, const struct g4_dir *dir)
{
	inode->disk.map[0] = dir->root;
	inode->disk.pages = dir->pages;
}

/* The same of an insert or removal that came about; also times and the number of entries. */
G4_FN static void dir_changed(struct g4_inode_core *inode, const struct g4_dir *dir, int entries, uint64_t now)
{
	dir_grown(inode, dir);
	inode->disk.entries = (g4_le32)((int64_t)inode->disk.entries + entries);
	inode->disk.mtime_ns = inode->disk.ctime_ns = now;
}

/* A directory that may be searched. Locked. */
G4_FN static int check_dir(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, const struct g4_cred *cred,
			   uint32_t want)
{
	if (inode->dead || inode->disk.nlink == 0)
		return -G4_E_NOENT;
	if (!g4_is_dir(inode->disk.mode))
		return -G4_E_NOTDIR;
	if ((want & G4_ACCESS_WRITE) && (inode->disk.flags & G4_INODE_IMMUTABLE))
		return -G4_E_PERM;
	if (cred == NULL || cred->uid == 0) /* g4_permission() would say so of any directory */
		return 0;
	return g4_permission(wg, fs, inode, cred, want);
}

/* Finds a name in a locked directory, . and .. included. */
G4_FN static int find(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, const char *name, uint32_t bytes,
		      struct g4_dir_slot *slot)
{
	struct g4_dir dir = dir_of(fs, inode);

	if (is_dot(name, bytes) || is_dotdot(name, bytes)) {
		slot->inode = is_dot(name, bytes) ? inode->ino : inode->disk.parent;
		slot->file_type = 4; /* DT_DIR */
		slot->room = 0;
		return 0;
	}
	const bool small = inode->disk.pages == 1;
	const uint32_t near = small ? g4_load32_rlx(&inode->leaf) - 1 : G4_NO_LINE;
	slot->line = near;
	int rc = g4_dir_lookup(wg, &dir, name, bytes, slot);
	if (small && slot->line != near)
		g4_store32_rlx(&inode->leaf, slot->line + 1);
	return rc;
}

G4_FN int g4_check_child(struct g4_fs *fs, const struct g4_inode_core *parent, uint32_t index)
{
	const struct g4_inode_core *inode = g4_icache_at(fs, index);

	if (!g4_is_dir(g4_inode_core_type(inode)))
		return 0;
	return inode == parent || g4_load64_acq(&inode->disk.parent) != parent->ino ? -G4_E_CORRUPT_DIR : 0;
}

G4_FN struct g4_lookup_name g4_lookup_key(const struct g4_fs *fs, const struct g4_inode_core *inode, const char *name,
					  uint32_t bytes)
{
	struct g4_lookup_name key = {inode->data_key, g4_dir_hash(fs->hash_key, name, bytes), name, bytes};
	return key;
}

/* A name in a write-locked directory goes, or leads elsewhere from now on. */
G4_FN static void forget_name(struct g4_fs *fs, const struct g4_inode_core *inode, const struct g4_dir_slot *slot,
			      const char *name, uint32_t bytes)
{
	const struct g4_lookup_name key = {inode->data_key, slot->hash, name, bytes};

	g4_lookup_forget(&fs->lookup, &key);
}

/* A new name, or a new meaning of one: it leads to index i. */
G4_FN static void remember_name(struct g4_fs *fs, const struct g4_lookup_name *key, uint32_t index)
{
	struct g4_lookup_value value = {g4_icache_at(fs, index)->ino, index};

	g4_lookup_put(&fs->lookup, key, &value);
}

/* ------------------------------------------------------------------ lookup */

G4_FN int g4_may_search(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, const struct g4_cred *cred)
{
	return check_dir(wg, fs, inode, cred, G4_ACCESS_EXEC);
}

G4_FN bool g4_name_cached(struct g4_fs *fs, const struct g4_inode_core *dir, const char *name, uint64_t bytes,
			  struct g4_lookup_value *value)
{
	if (bytes > G4_LOOKUP_NAME_BYTES)
		return false;
	struct g4_lookup_name key = g4_lookup_key(fs, dir, name, (uint32_t)bytes);
	return g4_lookup_find(&fs->lookup, &key, value);
}

/* The in-core inode that a name leads to which is neither . nor ..; directory locked, so that it is the inode the name meant. */
G4_FN static int step_down(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, const char *name,
			   uint32_t bytes, uint32_t *out)
{
	struct g4_lookup_name key = g4_lookup_key(fs, inode, name, bytes);
	struct g4_lookup_value value;
	struct g4_dir_slot slot;
	int rc;

	if (g4_lookup_find(&fs->lookup, &key, &value)) {
		rc = g4_icache_get_near(wg, fs, value.inode, value.index, out);
		if (rc < 0 || *out == value.index)
			return rc;
	} else {
		rc = find(wg, fs, inode, name, bytes, &slot);
		if (rc == 0)
			rc = g4_icache_get(wg, fs, slot.inode, out);
		if (rc < 0)
			return rc;
	}
	remember_name(fs, &key, *out);
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
 * One step: the in-core inode that `name` leads to in the directory of index i. Its attributes, if wanted, are those of a moment in
 * which it had the name; *given tells whether they are filled in (not for . and .., whose lock may be the directory's).
 */
G4_FN static int step(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, const char *name, uint32_t bytes,
		      const struct g4_cred *cred, struct g4_attr *attr, bool *given, uint32_t *out)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct g4_dir_slot slot;

	*given = false;
	if (bytes > G4_NAME_MAX)
		return -G4_E_NAMETOOLONG;
	g4_read_lock(&inode->lock);
	int rc = g4_may_search(wg, fs, inode, cred);
	if (rc == 0 && (is_dot(name, bytes) || is_dotdot(name, bytes))) {
		rc = find(wg, fs, inode, name, bytes, &slot);
		if (rc == 0)
			rc = g4_icache_get(wg, fs, slot.inode, out);
	} else if (rc == 0) {
		rc = step_down(wg, fs, inode, name, bytes, out);
		if (rc == 0 && attr && g4_check_child(fs, inode, *out) == 0) {
			fill_attr(fs, *out, attr);
			*given = true;
		}
	}
	g4_read_unlock(&inode->lock);
	return rc == -G4_E_STALE ? -G4_E_NOENT : rc;
}

G4_FN int g4_do_lookup(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	bool given;
	uint32_t dir, i;

	int rc = check_name(cmd->name, cmd->name_bytes);

	if (rc == 0)
		rc = g4_icache_get_node(wg, fs, cmd, &dir);
	if (rc == -G4_E_STALE)
		return -G4_E_NOENT;
	if (rc < 0)
		return g4_check(fs, rc);
	rc = step(wg, fs, dir, cmd->name, cmd->name_bytes, cmd->cred, cmd->attr, &given, &i);
	g4_icache_put(fs, dir);
	if (rc < 0)
		return g4_check(fs, rc);
	if (!given && cmd->attr)
		fill_attr(fs, i, cmd->attr);
	g4_icache_put(fs, i);
	return 0;
}

G4_FN int g4_link_read(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, char *to, uint32_t room, uint32_t *bytes)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint32_t line;

	if (!g4_is_link(inode->disk.mode))
		return -G4_E_INVAL;
	*bytes = (uint32_t)g4_min64(inode->disk.size, room);
	if (inode->disk.flags & G4_INODE_INLINE) {
		memcpy(to, inode->disk.inline_data, g4_min64(*bytes, G4_INLINE_BYTES));
		return 0;
	}
	int rc = g4_page_get(wg, fs, inode, 0, &line);
	if (rc < 0)
		return rc;
	memcpy(to, g4_line_data(&fs->cache, line), *bytes);
	g4_cache_put(&fs->cache, line);
	return 0;
}

G4_FN int g4_do_readlink(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t i, bytes = 0;
	int rc = g4_icache_get_node(wg, fs, cmd, &i);

	if (rc < 0)
		return rc;
	g4_read_lock(&g4_icache_at(fs, i)->lock);
	rc = g4_link_read(wg, fs, i, (char *)cmd->data, (uint32_t)g4_min64(cmd->length, G4_PATH_MAX), &bytes);
	if (rc == 0)
		g4_touch_read(fs, i);
	g4_read_unlock(&g4_icache_at(fs, i)->lock);
	g4_icache_put(fs, i);
	cmd->value = bytes;
	return g4_check(fs, rc);
}

#define MAX_LINKS 40u
struct walk {
	char path[2 * G4_PATH_MAX + 512];
	char target[G4_PATH_MAX];
	uint32_t at, bytes, links;
};
G4_STATIC_ASSERT(sizeof(struct walk) <= G4_FS_SCRATCH_BYTES, "walk fits the scratch memory");

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

/* Whether the link may be followed that a name in directory d led to. No lock held. */
G4_FN static int check_follow(struct g4_fs *fs, uint32_t d, uint32_t link, const struct g4_cred *cred)
{
	struct g4_inode_core *dir = g4_icache_at(fs, d), *inode = g4_icache_at(fs, link);

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

G4_FN int g4_do_resolve(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct walk *walk = (struct walk *)g4_fs_scratch(wg);
	uint32_t i, next;
	bool given = false;
	int rc;

	if (cmd->name_bytes == 0)
		return -G4_E_NOENT;
	if (cmd->name_bytes >= G4_PATH_MAX)
		return -G4_E_NAMETOOLONG;
	memcpy(walk->path, cmd->name, cmd->name_bytes);
	walk->at = walk->links = 0;
	walk->bytes = cmd->name_bytes;
	rc = walk->path[0] == '/' || cmd->node == 0 ? g4_icache_get(wg, fs, G4_NODE_ROOT, &i) :
						      g4_icache_get_node(wg, fs, cmd, &i);
	while (rc == 0) {
		uint32_t n = component(walk);
		if (n == 0)
			break;
		struct g4_attr *attr = walk->at + n == walk->bytes ? cmd->attr : NULL;
		rc = step(wg, fs, i, walk->path + walk->at, n, cmd->cred, attr, &given, &next);
		if (rc < 0) {
			g4_icache_put(fs, i);
			break;
		}
		walk->at += n;
		bool last = walk->at == walk->bytes;
		bool slash = !last; /* link/ means what it points to */
		if (g4_is_link(g4_inode_core_type(g4_icache_at(fs, next))) &&
		    (slash || !(cmd->flags & G4_RESOLVE_NOFOLLOW))) {
			rc = check_follow(fs, i, next, cmd->cred);
			if (rc == 0)
				rc = expand(wg, fs, walk, next);
			g4_icache_put(fs, next);
			given = false;
			if (rc == 0 && walk->path[0] == '/') {
				g4_icache_put(fs, i);
				rc = g4_icache_get(wg, fs, G4_NODE_ROOT, &i);
				if (rc < 0)
					return rc;
			}
			if (rc < 0)
				g4_icache_put(fs, i);
			continue;
		}
		g4_icache_put(fs, i);
		i = next;
		if (slash && !g4_is_dir(g4_inode_core_type(g4_icache_at(fs, i)))) {
			g4_icache_put(fs, i);
			rc = -G4_E_NOTDIR;
		}
	}
	if (rc < 0)
		return g4_check(fs, rc);
	if (!given && cmd->attr)
		fill_attr(fs, i, cmd->attr);
	g4_icache_put(fs, i);
	return 0;
}

/* ------------------------------------------------------------------ making */

/* Writes a long link's target to a page of its own, before the inode exists. */
G4_FN G4_COLD static int write_target(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cmd *cmd, uint64_t *address)
{
	uint8_t *page = g4_scratch_page(wg);
	uint64_t got;

	*address = 0;
	if (cmd->name2_bytes <= G4_INLINE_BYTES)
		return 0;
	int rc = g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, 0, 1, false, address, &got);
	if (rc < 0)
		return rc;
	memset(page, 0, G4_PAGE_BYTES);
	memcpy(page, cmd->name2, cmd->name2_bytes);
	rc = g4_space_write(wg, &fs->space, *address, page, G4_PAGE_BYTES, 0);
	g4_store32_rel(&fs->journal.data_written, 1);
	if (rc < 0)
		g4_alloc_release(&fs->alloc, *address, 1);
	return rc;
}

struct new_inode { /* what decides a new inode */
	uint32_t mode;
	uint32_t uid, gid;
	uint64_t target; /* page of a long link, 0: none */
	bool published;	 /* the target belongs to the inode */
	struct g4_acl_result acl;
};

G4_FN static int prepare(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *parent,
			 const struct g4_cmd *cmd, uint32_t type, struct new_inode *new_inode)
{
	const struct g4_cred *cred = cmd->cred;
	uint32_t mode = type == G4_S_IFLNK ? 0777 : cmd->mode & 07777u;

	new_inode->target = 0;
	new_inode->published = false;
	new_inode->uid = cred ? cred->uid : 0;
	new_inode->gid = cred ? cred->gid : 0;
	if (parent && (parent->disk.mode & G4_S_ISGID)) {
		new_inode->gid = parent->disk.gid;
		if (type == G4_S_IFDIR)
			mode |= G4_S_ISGID;
		else if ((mode & (G4_S_ISGID | G4_S_IXGRP)) == (G4_S_ISGID | G4_S_IXGRP) && !g4_is_root(cred) &&
			 !g4_in_group(cred, new_inode->gid))
			mode &= ~G4_S_ISGID;
	}
	if (parent && parent->disk.xattr)
		return g4_acl_inherit(wg, fs, parent, type | mode, cred ? cred->umask : 0, &new_inode->acl);
	new_inode->acl.mode = type | (type == G4_S_IFLNK ? mode : mode & ~(cred ? cred->umask & 0777u : 0));
	new_inode->acl.access_bytes = new_inode->acl.default_bytes = 0;
	return 0;
}

/* What few new inodes have: a link's target, access lists. */
G4_FN G4_COLD static int set_new_attributes(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn,
					    const struct g4_cmd *cmd, struct new_inode *new_inode,
					    struct g4_inode_core *inode)
{
	uint64_t done;
	int rc = 0;

	if (g4_is_link(new_inode->acl.mode)) {
		inode->size = inode->disk.size = cmd->name2_bytes;
		if (new_inode->target) {
			rc = g4_map_set(wg, fs, txn, inode, 0, new_inode->target, 1, true, &done);
			new_inode->published = rc == 0;
		} else {
			inode->disk.flags |= G4_INODE_INLINE;
			memcpy(inode->disk.inline_data, cmd->name2, cmd->name2_bytes);
		}
	}
	if (rc == 0 && new_inode->acl.access_bytes)
		rc = g4_xattr_set(wg, fs, txn, inode, G4_XATTR_ACL_ACCESS, "", 0, new_inode->acl.access,
				  new_inode->acl.access_bytes, 0);
	if (rc == 0 && new_inode->acl.default_bytes)
		rc = g4_xattr_set(wg, fs, txn, inode, G4_XATTR_ACL_DEFAULT, "", 0, new_inode->acl.default_,
				  new_inode->acl.default_bytes, 0);
	return rc;
}

/* Makes the inode in the transaction; *out is referenced and write-locked. */
G4_FN static int make_inode(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, const struct g4_inode_core *parent,
			    const struct g4_cmd *cmd, struct new_inode *new_inode, uint32_t *out)
{
	int rc = g4_inode_new(wg, fs, txn, new_inode->acl.mode, out);

	if (rc < 0)
		return rc;
	struct g4_inode_core *inode = g4_icache_at(fs, *out);
	inode->disk.uid = new_inode->uid;
	inode->disk.gid = new_inode->gid;
	inode->disk.nlink = g4_is_dir(new_inode->acl.mode) ? 2 : 1;
	inode->disk.parent = g4_is_dir(new_inode->acl.mode) && parent ? parent->ino : 0;
	inode->disk.rdev = cmd->op == G4_CMD_MKNOD ? cmd->offset : 0;
	if (g4_is_link(new_inode->acl.mode) || new_inode->acl.access_bytes || new_inode->acl.default_bytes)
		return set_new_attributes(wg, fs, txn, cmd, new_inode, inode);
	return 0;
}

/* Takes an inode back that could not get its name, in the same transaction. */
G4_FN G4_COLD static int undo_new_inode(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint64_t next = 0;
	int rc = 0;

	if (inode->disk.xattr)
		rc = g4_xattr_clear(wg, fs, txn, inode);
	if (rc == 0 && inode->disk.xattr)
		rc = -G4_E_JOURNAL_FULL; /* the transaction has no room to take it back, so it must not commit */
	if (rc == 0 && inode->disk.pages > 0)
		rc = g4_map_clear(wg, fs, txn, inode, 0, UINT64_MAX, &next);
	if (rc == 0)
		rc = g4_inode_free(wg, fs, txn, index);
	g4_write_unlock(&inode->lock);
	g4_icache_put(fs, index);
	return rc;
}

G4_FN static int open_new(struct g4_fs *fs, uint32_t index, struct g4_cmd *cmd)
{
	g4_icache_at(fs, index)->opens++;
	g4_icache_ref(fs, index); /* the handle's */
	cmd->handle = g4_handle_make(index, cmd->flags);
	return 0;
}

G4_FN static uint32_t new_inode_credits(const struct new_inode *new_inode)
{
	return INODE_CREDITS + (new_inode->target || new_inode->acl.access_bytes || new_inode->acl.default_bytes ?
					NEW_ATTRIBUTE_CREDITS :
					0);
}

/* A name for a new inode in the write-locked directory, where `slot` says that it is not there. */
G4_FN static int make_in(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *parent, struct g4_cmd *cmd,
			 uint32_t type, const struct g4_dir_slot *slot)
{
	struct new_inode new_inode;
	struct g4_txn txn;
	uint32_t i = G4_NO_INODE;
	int rc = prepare(wg, fs, parent, cmd, type, &new_inode);

	if (rc == 0 && type == G4_S_IFDIR && parent->disk.nlink >= G4_LINK_MAX)
		rc = -G4_E_MLINK;
	if (rc == 0 && type == G4_S_IFLNK)
		rc = write_target(wg, fs, cmd, &new_inode.target);
	if (rc == 0)
		rc = g4_begin(wg, fs, new_inode_credits(&new_inode) + g4_dir_insert_credits(slot, cmd->name_bytes),
			      &txn);
	if (rc < 0) {
		if (new_inode.target)
			g4_alloc_release(&fs->alloc, new_inode.target, 1);
		return rc;
	}
	rc = make_inode(wg, fs, &txn, parent, cmd, &new_inode, &i);
	if (rc == 0) {
		struct g4_inode_core *inode = g4_icache_at(fs, i);
		struct g4_dir dir = dir_of(fs, parent);
		rc = g4_dir_insert(wg, &dir, &txn, slot, cmd->name, cmd->name_bytes, inode->ino, type_of(type));
		if (rc == 0) {
			dir_changed(parent, &dir, 1, inode->disk.btime_ns);
			parent->disk.nlink += type == G4_S_IFDIR;
			rc = g4_inode_log(wg, fs, &txn, inode);
		} else {
			dir_grown(parent, &dir);
		}
		int logged = g4_inode_log(wg, fs, &txn, parent);
		rc = rc < 0 ? rc : logged;
	}
	if (rc == 0) {
		const struct g4_lookup_name key = {parent->data_key, slot->hash, cmd->name, cmd->name_bytes};
		remember_name(fs, &key, i);
		if (cmd->op == G4_CMD_CREATE)
			open_new(fs, i, cmd);
		cmd->value = 1;
		if (cmd->attr)
			g4_fill_attr(g4_icache_at(fs, i), cmd->attr);
		g4_write_unlock(&g4_icache_at(fs, i)->lock);
		g4_icache_put(fs, i);
	} else if (i != G4_NO_INODE) {
		int undone = undo_new_inode(wg, fs, &txn, i);
		if (undone < 0)
			g4_fs_error(fs, undone);
	}
	g4_end(fs, &txn, rc);
	if (rc < 0 && new_inode.target && !new_inode.published)
		g4_alloc_release(&fs->alloc, new_inode.target, 1);
	return rc;
}

/* Whether CREATE may open what is there already, in the locked directory. *child is referenced, unless it fails. */
G4_FN static int find_made(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *parent,
			   const struct g4_dir_slot *slot, const struct g4_cred *cred, uint32_t *child)
{
	if (slot->file_type == 4)
		return -G4_E_ISDIR;
	int rc = g4_icache_get(wg, fs, slot->inode, child);
	if (rc < 0 || g4_is_trusted(cred) || !(parent->disk.mode & G4_S_ISVTX))
		return rc;
	struct g4_inode_core *inode = g4_icache_at(fs, *child);
	rc = g4_check_child(fs, parent, *child);
	if (rc == 0) {
		g4_read_lock(&inode->lock);
		rc = g4_may_reuse(parent, inode, cred);
		g4_read_unlock(&inode->lock);
	}
	if (rc < 0)
		g4_icache_put(fs, *child);
	return rc;
}

/* What mknod(2) makes, with its errors. */
G4_FN static int check_node_type(uint32_t type)
{
	switch (type) {
	case G4_S_IFREG:
	case G4_S_IFIFO:
	case G4_S_IFSOCK:
	case G4_S_IFCHR:
	case G4_S_IFBLK:
		return 0;
	case G4_S_IFDIR:
		return -G4_E_PERM;
	default:
		return -G4_E_INVAL;
	}
}

G4_FN int g4_do_make(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t type = cmd->op == G4_CMD_MKDIR	  ? G4_S_IFDIR :
			cmd->op == G4_CMD_SYMLINK ? G4_S_IFLNK :
			cmd->op == G4_CMD_CREATE  ? G4_S_IFREG :
						    cmd->mode & G4_S_IFMT;
	struct g4_dir_slot slot;
	uint32_t i, child;
	int rc = check_name(cmd->name, cmd->name_bytes);

	if (rc == 0 && type == 0)
		type = G4_S_IFREG;
	if (rc == 0 && cmd->op == G4_CMD_MKNOD)
		rc = check_node_type(type);
	if (rc == 0 && type == G4_S_IFLNK && (cmd->name2_bytes == 0 || cmd->name2_bytes >= G4_PATH_MAX))
		rc = cmd->name2_bytes ? -G4_E_NAMETOOLONG : -G4_E_NOENT;
	if (rc == 0)
		rc = g4_icache_get_node(wg, fs, cmd, &i);
	if (rc < 0)
		return rc;
	struct g4_inode_core *parent = g4_icache_at(fs, i);
	g4_write_lock(&parent->lock);
	rc = check_dir(wg, fs, parent, cmd->cred, G4_ACCESS_EXEC);
	if (rc == 0)
		rc = find(wg, fs, parent, cmd->name, cmd->name_bytes, &slot);
	bool exists = rc == 0;
	if (rc == -G4_E_NOENT && parent->disk.nlink > 0)
		rc = check_dir(wg, fs, parent, cmd->cred, G4_ACCESS_WRITE | G4_ACCESS_EXEC);
	if (rc == 0 && !exists)
		rc = make_in(wg, fs, parent, cmd, type, &slot);
	else if (exists && (cmd->op != G4_CMD_CREATE || (cmd->flags & G4_OPEN_EXCL)))
		rc = -G4_E_EXIST;
	else if (exists)
		/* referenced while the name is locked, so that it is the file the name meant that is opened below */
		rc = find_made(wg, fs, parent, &slot, cmd->cred, &child);
	g4_write_unlock(&parent->lock);
	g4_icache_put(fs, i);
	if (exists && rc == 0) {
		cmd->value = 0;
		rc = g4_open_inode(wg, fs, child, cmd);
	}
	return g4_check(fs, rc);
}

G4_FN int g4_do_tmpfile(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct new_inode new_inode;
	struct g4_txn txn;
	uint32_t parent, i = G4_NO_INODE;
	int rc = g4_icache_get_node(wg, fs, cmd, &parent);

	if (rc < 0)
		return rc;
	struct g4_inode_core *dir = g4_icache_at(fs, parent);
	g4_read_lock(&dir->lock);
	rc = check_dir(wg, fs, dir, cmd->cred, G4_ACCESS_WRITE | G4_ACCESS_EXEC);
	if (rc == 0)
		rc = prepare(wg, fs, dir, cmd, G4_S_IFREG, &new_inode);
	g4_read_unlock(&dir->lock);
	g4_icache_put(fs, parent);
	if (rc == 0)
		rc = g4_begin(wg, fs, new_inode_credits(&new_inode), &txn);
	if (rc < 0)
		return g4_check(fs, rc);
	rc = make_inode(wg, fs, &txn, NULL, cmd, &new_inode, &i);
	if (rc == 0) {
		struct g4_inode_core *inode = g4_icache_at(fs, i);
		inode->disk.nlink = 0;
		inode->unnamed = !(cmd->flags & G4_OPEN_EXCL);
		rc = g4_orphan_add(wg, fs, &txn, i); /* logs it */
	}
	if (rc == 0) {
		open_new(fs, i, cmd);
		if (cmd->attr)
			g4_fill_attr(g4_icache_at(fs, i), cmd->attr);
		g4_write_unlock(&g4_icache_at(fs, i)->lock);
		g4_icache_put(fs, i);
	} else if (i != G4_NO_INODE) {
		int undone = undo_new_inode(wg, fs, &txn, i);
		if (undone < 0)
			g4_fs_error(fs, undone);
	}
	return g4_check(fs, g4_end(fs, &txn, rc));
}

/*
 * What nobody but the owner may give another name (sysctl fs.protected_hardlinks): others would keep a program with privileges
 * after it was replaced, or bring a file where it is changed by mistake. Write-locked.
 */
G4_FN static int check_link_source(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode,
				   const struct g4_cred *cred)
{
	const uint32_t mode = inode->disk.mode, set_gid = G4_S_ISGID | G4_S_IXGRP;

	if (g4_is_owner(inode, cred))
		return 0;
	if (!g4_is_reg(mode) || (mode & G4_S_ISUID) || (mode & set_gid) == set_gid)
		return -G4_E_PERM;
	int rc = g4_permission(wg, fs, inode, cred, G4_ACCESS_READ | G4_ACCESS_WRITE);
	return rc == -G4_E_ACCES ? -G4_E_PERM : rc;
}

G4_FN int g4_do_link(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct g4_dir_slot slot;
	struct g4_txn txn;
	uint32_t d, i;
	int rc = check_name(cmd->name2, cmd->name2_bytes);

	if (rc == 0)
		rc = g4_icache_get_node2(wg, fs, cmd, &d);
	if (rc < 0)
		return rc;
	rc = g4_icache_get_node(wg, fs, cmd, &i);
	if (rc < 0) {
		g4_icache_put(fs, d);
		return rc;
	}
	struct g4_inode_core *parent = g4_icache_at(fs, d), *inode = g4_icache_at(fs, i);
	if (d == i) {
		g4_icache_put(fs, d);
		g4_icache_put(fs, i);
		return -G4_E_PERM;
	}
	g4_write_lock(&parent->lock);
	rc = check_dir(wg, fs, parent, cmd->cred, G4_ACCESS_EXEC);
	if (rc == 0) {
		rc = find(wg, fs, parent, cmd->name2, cmd->name2_bytes, &slot);
		rc = rc == 0 ? -G4_E_EXIST : rc == -G4_E_NOENT ? 0 : rc;
	}
	if (rc == 0)
		rc = check_dir(wg, fs, parent, cmd->cred, G4_ACCESS_WRITE | G4_ACCESS_EXEC);
	if (rc == 0 && g4_is_dir(inode->disk.mode))
		rc = -G4_E_PERM;
	if (rc == 0) {
		g4_write_lock(&inode->lock);
		if (inode->dead || (inode->disk.nlink == 0 && !inode->unnamed))
			rc = -G4_E_NOENT;
		else if (inode->disk.flags & (G4_INODE_IMMUTABLE | G4_INODE_APPEND))
			rc = -G4_E_PERM;
		else if (inode->disk.nlink >= G4_LINK_MAX)
			rc = -G4_E_MLINK;
		if (rc == 0)
			rc = check_link_source(wg, fs, inode, cmd->cred);
		if (rc == 0)
			rc = g4_begin(wg, fs, INODE_CREDITS + g4_dir_insert_credits(&slot, cmd->name2_bytes), &txn);
		if (rc == 0) {
			struct g4_dir dir = dir_of(fs, parent);
			uint64_t now = g4_now(fs);
			rc = g4_dir_insert(wg, &dir, &txn, &slot, cmd->name2, cmd->name2_bytes, inode->ino,
					   type_of(inode->disk.mode));
			if (rc == 0)
				dir_changed(parent, &dir, 1, now);
			else
				dir_grown(parent, &dir);
			int logged = rc == 0 || txn.changed ? g4_inode_log(wg, fs, &txn, parent) : 0;
			if (rc == 0 && inode->disk.nlink == 0)
				rc = g4_orphan_remove(wg, fs, &txn, i);
			if (rc == 0) {
				inode->disk.nlink++;
				inode->unnamed = false;
				inode->disk.ctime_ns = now;
				rc = g4_inode_log(wg, fs, &txn, inode);
			}
			rc = g4_end(fs, &txn, rc < 0 ? rc : logged);
		}
		if (rc == 0 && cmd->attr)
			g4_fill_attr(inode, cmd->attr);
		g4_write_unlock(&inode->lock);
	}
	g4_write_unlock(&parent->lock);
	g4_icache_put(fs, d);
	g4_icache_put(fs, i);
	return g4_check(fs, rc);
}

/* ------------------------------------------------------------------ removing */

/* Sticky directories: only the owner of the file, of the directory, or root. */
G4_FN static int check_delete(const struct g4_inode_core *parent, const struct g4_inode_core *inode,
			      const struct g4_cred *cred)
{
	if (inode->disk.flags & (G4_INODE_IMMUTABLE | G4_INODE_APPEND))
		return -G4_E_PERM;
	if (parent->disk.flags & G4_INODE_APPEND)
		return -G4_E_PERM;
	if ((parent->disk.mode & G4_S_ISVTX) && !g4_is_owner(inode, cred) && !g4_is_owner(parent, cred))
		return -G4_E_PERM;
	return 0;
}

/*
 * In a transaction: a locked inode lost a name. Without names it becomes an orphan; *unused says that nobody uses it,
 * so that the caller deletes it when its locks are gone.
 */
G4_FN static int lose_name(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t index, uint64_t now,
			   bool *unused)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	bool tiny = inode->opens == 0 && !(fs->flags & G4_FS_HOLD_UNLINKED) && inode->disk.xattr == 0 &&
		    inode->dirty_count == 0 && inode->disk.pages == 0;

	*unused = false;
	inode->disk.ctime_ns = now;
	inode->disk.nlink = g4_is_dir(inode->disk.mode) ? 0 : inode->disk.nlink - 1;
	if (inode->disk.nlink > 0)
		return g4_inode_log(wg, fs, txn, inode);
	if (tiny) /* nothing to free but the inode: no detour over the orphan list */
		return g4_inode_free(wg, fs, txn, index);
	inode->held = fs->flags & G4_FS_HOLD_UNLINKED;
	*unused = inode->opens == 0 && !inode->held;
	return g4_orphan_add(wg, fs, txn, index);
}

G4_FN static int remove_locked(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *parent, uint32_t index,
			       const struct g4_dir_slot *slot, const struct g4_cmd *cmd, bool *unused)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct g4_dir dir = dir_of(fs, parent);
	bool directory = g4_is_dir(inode->disk.mode);
	uint64_t now = g4_now(fs);
	struct g4_txn txn;
	int rc = check_delete(parent, inode, cmd->cred);

	if (rc == 0 && cmd->op == G4_CMD_UNLINK && directory)
		rc = -G4_E_ISDIR;
	if (rc == 0 && cmd->op == G4_CMD_RMDIR)
		rc = !directory ? -G4_E_NOTDIR : inode->disk.entries > 0 ? -G4_E_NOTEMPTY : 0;
	if (rc == 0 && inode->ino == g4_icache_at(fs, fs->root_index)->ino)
		rc = -G4_E_BUSY;
	if (rc == 0)
		rc = g4_begin(wg, fs, INODE_CREDITS, &txn);
	if (rc < 0)
		return rc;
	forget_name(fs, parent, slot, cmd->name, cmd->name_bytes);
	rc = g4_dir_remove(wg, &dir, &txn, slot);
	if (rc == 0) {
		dir_changed(parent, &dir, -1, now);
		parent->disk.nlink -= directory;
		rc = g4_inode_log(wg, fs, &txn, parent);
	}
	if (rc == 0)
		rc = lose_name(wg, fs, &txn, index, now, unused);
	return g4_end(fs, &txn, rc);
}

G4_FN int g4_do_remove(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct g4_dir_slot slot;
	uint32_t d, i = G4_NO_INODE;
	bool unused = false;
	int rc = check_name(cmd->name, cmd->name_bytes);

	if (rc == 0 && is_dot(cmd->name, cmd->name_bytes))
		rc = cmd->op == G4_CMD_RMDIR ? -G4_E_INVAL : -G4_E_ISDIR;
	if (rc == 0 && is_dotdot(cmd->name, cmd->name_bytes))
		rc = cmd->op == G4_CMD_RMDIR ? -G4_E_NOTEMPTY : -G4_E_ISDIR;
	if (rc == 0)
		rc = g4_icache_get_node(wg, fs, cmd, &d);
	if (rc < 0)
		return rc;
	struct g4_inode_core *parent = g4_icache_at(fs, d);
	g4_write_lock(&parent->lock);
	rc = check_dir(wg, fs, parent, cmd->cred, G4_ACCESS_EXEC);
	if (rc == 0)
		rc = find(wg, fs, parent, cmd->name, cmd->name_bytes, &slot);
	if (rc == 0)
		rc = check_dir(wg, fs, parent, cmd->cred, G4_ACCESS_WRITE | G4_ACCESS_EXEC);
	if (rc == 0)
		rc = g4_icache_get(wg, fs, slot.inode, &i);
	if (rc == 0)
		rc = g4_check_child(fs, parent, i);
	if (rc == 0) {
		g4_write_lock(&g4_icache_at(fs, i)->lock);
		rc = remove_locked(wg, fs, parent, i, &slot, cmd, &unused);
		g4_write_unlock(&g4_icache_at(fs, i)->lock);
	}
	g4_write_unlock(&parent->lock);
	g4_icache_put(fs, d);
	if (rc == 0 && unused)
		rc = g4_inode_delete(wg, fs, i);
	if (i != G4_NO_INODE)
		g4_icache_put(fs, i);
	return g4_check(fs, rc);
}

/* ------------------------------------------------------------------ renaming */

/* Whether directory `above` lies on the way from `node` to the root, `node` included. Rename lock held. */
G4_FN static int is_ancestor(struct g4_wg *wg, struct g4_fs *fs, uint64_t above, uint64_t node)
{
	uint64_t root = g4_icache_at(fs, fs->root_index)->ino;

	for (uint32_t depth = 0; node != above; depth++) {
		uint32_t i;
		if (node == root || node == 0 || depth > 1000000)
			return 0;
		int rc = g4_icache_get(wg, fs, node, &i);
		if (rc < 0)
			return rc;
		node = g4_load64_acq(&g4_icache_at(fs, i)->disk.parent);
		g4_icache_put(fs, i);
	}
	return 1;
}

struct rename {
	struct g4_cmd *cmd;
	uint32_t d1, d2; /* directories */
	uint32_t i1, i2; /* what is renamed, what it meets; G4_NO_INODE: nothing */
	struct g4_dir_slot s1, s2;
	bool unused;	   /* i2 is to be deleted */
	uint32_t whiteout; /* what the old name leads to afterwards; G4_NO_INODE: it goes */
};

G4_FN static int lock_directories(struct g4_wg *wg, struct g4_fs *fs, struct rename *r)
{
	struct g4_inode_core *a = g4_icache_at(fs, r->d1), *b = g4_icache_at(fs, r->d2);

	if (r->d1 == r->d2) {
		g4_write_lock(&a->lock);
		return 0;
	}
	g4_lock(&fs->rename_lock);
	int rc = is_ancestor(wg, fs, a->ino, b->ino);
	bool first = rc == 1;
	if (rc == 0) {
		rc = is_ancestor(wg, fs, b->ino, a->ino);
		first = rc == 0 && a->ino < b->ino;
	}
	if (rc < 0) {
		g4_unlock(&fs->rename_lock);
		return rc;
	}
	g4_write_lock(first ? &a->lock : &b->lock);
	g4_write_lock(first ? &b->lock : &a->lock);
	return 0;
}

G4_FN static void unlock_directories(struct g4_fs *fs, struct rename *r)
{
	g4_write_unlock(&g4_icache_at(fs, r->d1)->lock);
	if (r->d1 != r->d2) {
		g4_write_unlock(&g4_icache_at(fs, r->d2)->lock);
		g4_unlock(&fs->rename_lock);
	}
}

/* Looks both names up and references what they lead to. */
G4_FN static int find_both(struct g4_wg *wg, struct g4_fs *fs, struct rename *r)
{
	struct g4_inode_core *a = g4_icache_at(fs, r->d1), *b = g4_icache_at(fs, r->d2);
	const struct g4_cmd *cmd = r->cmd;
	int rc = check_dir(wg, fs, a, cmd->cred, G4_ACCESS_EXEC);

	if (rc == 0)
		rc = check_dir(wg, fs, b, cmd->cred, G4_ACCESS_EXEC);
	if (rc == 0)
		rc = find(wg, fs, a, cmd->name, cmd->name_bytes, &r->s1);
	if (rc == 0)
		rc = g4_icache_get(wg, fs, r->s1.inode, &r->i1);
	if (rc == 0)
		rc = g4_check_child(fs, a, r->i1);
	if (rc < 0)
		return rc;
	rc = find(wg, fs, b, cmd->name2, cmd->name2_bytes, &r->s2);
	if (rc == 0)
		rc = g4_icache_get(wg, fs, r->s2.inode, &r->i2);
	if (rc == 0)
		rc = g4_check_child(fs, b, r->i2);
	if (rc == -G4_E_NOENT)
		rc = (cmd->flags & G4_RENAME_EXCHANGE) ? rc : 0;
	else if (rc == 0 && (cmd->flags & G4_RENAME_NOREPLACE))
		rc = -G4_E_EXIST;
	if (rc == 0)
		rc = check_dir(wg, fs, a, cmd->cred, G4_ACCESS_WRITE | G4_ACCESS_EXEC);
	if (rc == 0)
		rc = check_dir(wg, fs, b, cmd->cred, G4_ACCESS_WRITE | G4_ACCESS_EXEC);
	return rc;
}

G4_FN static int check_tree(struct g4_wg *wg, struct g4_fs *fs, const struct rename *r)
{
	const struct g4_inode_core *a = g4_icache_at(fs, r->d1), *b = g4_icache_at(fs, r->d2),
				   *x = g4_icache_at(fs, r->i1);
	bool exchange = r->cmd->flags & G4_RENAME_EXCHANGE;
	int rc = 0;

	if (r->d1 == r->d2)
		return 0;
	if (g4_is_dir(g4_inode_core_type(x))) {
		rc = is_ancestor(wg, fs, x->ino, b->ino);
		if (rc == 1)
			return -G4_E_INVAL;
	}
	if (rc == 0 && r->i2 != G4_NO_INODE && g4_is_dir(g4_inode_core_type(g4_icache_at(fs, r->i2)))) {
		rc = is_ancestor(wg, fs, g4_icache_at(fs, r->i2)->ino, a->ino);
		if (rc == 1)
			return exchange ? -G4_E_INVAL : -G4_E_NOTEMPTY;
	}
	return rc;
}

/* Permissions on the locked inodes themselves. */
G4_FN static int check_inodes(struct g4_wg *wg, struct g4_fs *fs, const struct rename *r)
{
	struct g4_inode_core *a = g4_icache_at(fs, r->d1), *b = g4_icache_at(fs, r->d2), *x = g4_icache_at(fs, r->i1);
	const struct g4_cmd *cmd = r->cmd;
	bool directory = g4_is_dir(x->disk.mode);
	int rc = check_delete(a, x, cmd->cred);

	/* a directory that changes its parent changes itself (its ..) */
	if (rc == 0 && directory && r->d1 != r->d2)
		rc = g4_permission(wg, fs, x, cmd->cred, G4_ACCESS_WRITE);
	/* a directory more, in another one than before; a directory that it replaces would not be counted, and is rare there */
	if (rc == 0 && directory && r->d1 != r->d2 && b->disk.nlink >= G4_LINK_MAX)
		rc = -G4_E_MLINK;
	if (rc < 0 || r->i2 == G4_NO_INODE)
		return rc;
	struct g4_inode_core *y = g4_icache_at(fs, r->i2);
	rc = check_delete(b, y, cmd->cred);
	if (rc < 0)
		return rc;
	if (cmd->flags & G4_RENAME_EXCHANGE) {
		if (g4_is_dir(y->disk.mode) && r->d1 != r->d2)
			rc = g4_permission(wg, fs, y, cmd->cred, G4_ACCESS_WRITE);
		return rc;
	}
	if (directory && !g4_is_dir(y->disk.mode))
		return -G4_E_NOTDIR;
	if (!directory && g4_is_dir(y->disk.mode))
		return -G4_E_ISDIR;
	return g4_is_dir(y->disk.mode) && y->disk.entries > 0 ? -G4_E_NOTEMPTY : 0;
}

G4_FN static void set_parent(struct g4_inode_core *inode, const struct g4_inode_core *parent)
{
	if (g4_is_dir(inode->disk.mode))
		g4_store64_rel(&inode->disk.parent, parent->ino);
}

G4_FN static int exchange(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct rename *r, uint64_t now)
{
	struct g4_inode_core *a = g4_icache_at(fs, r->d1), *b = g4_icache_at(fs, r->d2);
	struct g4_inode_core *x = g4_icache_at(fs, r->i1), *y = g4_icache_at(fs, r->i2);
	struct g4_dir da = dir_of(fs, a), db = dir_of(fs, b);
	uint32_t held;
	/* with this one here, only the first step can fail */
	int rc = g4_dir_get_leaf(wg, &db, &r->s2, &held);

	if (rc < 0)
		return rc;
	rc = g4_dir_replace(wg, &da, txn, &r->s1, y->ino, type_of(y->disk.mode));
	if (rc == 0)
		rc = g4_dir_replace(wg, &db, txn, &r->s2, x->ino, type_of(x->disk.mode));
	g4_cache_put(&fs->cache, held);
	if (rc < 0)
		return rc;
	set_parent(x, b);
	set_parent(y, a);
	if (r->d1 != r->d2) {
		int moved = (int)g4_is_dir(x->disk.mode) - (int)g4_is_dir(y->disk.mode);
		a->disk.nlink = (g4_le32)((int64_t)a->disk.nlink - moved);
		b->disk.nlink = (g4_le32)((int64_t)b->disk.nlink + moved);
	}
	x->disk.ctime_ns = y->disk.ctime_ns = now;
	a->disk.mtime_ns = a->disk.ctime_ns = b->disk.mtime_ns = b->disk.ctime_ns = now;
	rc = g4_inode_log(wg, fs, txn, x);
	return rc < 0 ? rc : g4_inode_log(wg, fs, txn, y);
}

/* The old name of what was moved: it goes, or leads to the whiteout. */
G4_FN static int leave_name(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_dir *dir,
			    const struct rename *r)
{
	if (r->whiteout == G4_NO_INODE)
		return g4_dir_remove(wg, dir, txn, &r->s1);
	return g4_dir_replace(wg, dir, txn, &r->s1, g4_icache_at(fs, r->whiteout)->ino, type_of(G4_S_IFCHR));
}

G4_FN static int move(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct rename *r, uint64_t now)
{
	struct g4_inode_core *a = g4_icache_at(fs, r->d1), *b = g4_icache_at(fs, r->d2), *x = g4_icache_at(fs, r->i1);
	bool directory = g4_is_dir(x->disk.mode), replaces = r->i2 != G4_NO_INODE;
	struct g4_dir da = dir_of(fs, a), db = dir_of(fs, b);
	/* an insert without room splits leaves, perhaps that of the old name; it may fail, so that it comes first */
	const bool splits = !replaces && g4_dir_insert_credits(&r->s2, r->cmd->name2_bytes) > 1;
	uint32_t held = G4_NO_LINE;
	int rc = splits ? 0 : g4_dir_get_leaf(wg, &db, &r->s2, &held);

	if (rc == 0 && !splits)
		rc = leave_name(wg, fs, txn, &da, r);
	if (rc == 0 && replaces)
		rc = g4_dir_replace(wg, &db, txn, &r->s2, x->ino, type_of(x->disk.mode));
	else if (rc == 0)
		rc = g4_dir_insert(wg, &db, txn, &r->s2, r->cmd->name2, r->cmd->name2_bytes, x->ino,
				   type_of(x->disk.mode));
	if (held != G4_NO_LINE)
		g4_cache_put(&fs->cache, held);
	if (rc == 0)
		dir_changed(b, &db, !replaces, now);
	else
		dir_grown(b, &db);
	if (rc == 0 && splits) {
		da = dir_of(fs, a);
		rc = g4_dir_lookup(wg, &da, r->cmd->name, r->cmd->name_bytes, &r->s1);
		rc = rc == 0 ? leave_name(wg, fs, txn, &da, r) : rc == -G4_E_NOENT ? -G4_E_CORRUPT_DIR : rc;
	}
	if (rc < 0)
		return rc;
	dir_changed(a, &da, r->whiteout == G4_NO_INODE ? -1 : 0, now);
	if (directory) {
		a->disk.nlink--;
		b->disk.nlink += replaces ? 0 : 1; /* the directory it replaces goes */
	}
	set_parent(x, b);
	x->disk.ctime_ns = now;
	rc = g4_inode_log(wg, fs, txn, x);
	if (rc == 0 && replaces)
		rc = lose_name(wg, fs, txn, r->i2, now, &r->unused);
	return rc;
}

/* Makes the whiteout, write-locked and referenced: Linux's, a character device 0:0 that nobody may open. */
G4_FN static int make_whiteout(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct rename *r)
{
	const struct g4_inode_core *parent = g4_icache_at(fs, r->d1);
	const struct g4_cred *cred = r->cmd->cred;
	int rc = g4_inode_new(wg, fs, txn, G4_S_IFCHR, &r->whiteout);

	if (rc < 0) {
		r->whiteout = G4_NO_INODE;
		return rc;
	}
	struct g4_inode_core *inode = g4_icache_at(fs, r->whiteout);
	inode->disk.uid = cred ? cred->uid : 0;
	inode->disk.gid = parent->disk.mode & G4_S_ISGID ? parent->disk.gid : cred ? cred->gid : 0;
	inode->disk.nlink = 1;
	return g4_inode_log(wg, fs, txn, inode);
}

/* Ends what make_whiteout() began, in the same transaction: it is there, or it is taken back. */
G4_FN static void end_whiteout(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t index, int rc)
{
	if (rc < 0) {
		rc = undo_new_inode(wg, fs, txn, index);
		if (rc < 0)
			g4_fs_error(fs, rc);
		return;
	}
	g4_write_unlock(&g4_icache_at(fs, index)->lock);
	g4_icache_put(fs, index);
}

G4_FN static int rename_locked(struct g4_wg *wg, struct g4_fs *fs, struct rename *r)
{
	struct g4_inode_core *x = g4_icache_at(fs, r->i1);
	struct g4_txn txn;
	int rc = check_inodes(wg, fs, r);

	/* who writes a file and renames it over another expects the one or the other after a crash, never an empty one */
	if (rc == 0 && r->i2 != G4_NO_INODE && g4_is_reg(x->disk.mode))
		rc = g4_writeback(wg, fs, r->i1);
	if (rc == 0)
		rc = g4_begin(wg, fs,
			      (r->cmd->flags & G4_RENAME_WHITEOUT ? 2 : 1) * INODE_CREDITS +
				      g4_dir_insert_credits(&r->s2, r->cmd->name2_bytes),
			      &txn);
	if (rc < 0)
		return rc;
	if (r->cmd->flags & G4_RENAME_WHITEOUT)
		rc = make_whiteout(wg, fs, &txn, r);
	uint64_t now = g4_now(fs);
	forget_name(fs, g4_icache_at(fs, r->d1), &r->s1, r->cmd->name, r->cmd->name_bytes);
	forget_name(fs, g4_icache_at(fs, r->d2), &r->s2, r->cmd->name2, r->cmd->name2_bytes);
	if (rc == 0)
		rc = r->cmd->flags & G4_RENAME_EXCHANGE ? exchange(wg, fs, &txn, r, now) : move(wg, fs, &txn, r, now);
	if (r->whiteout != G4_NO_INODE)
		end_whiteout(wg, fs, &txn, r->whiteout, rc);
	if (rc < 0 && !txn.changed)
		return g4_end(fs, &txn, rc);
	/* the directories' pages may have changed even where the rename did not come about */
	int logged = g4_inode_log(wg, fs, &txn, g4_icache_at(fs, r->d1));
	if (logged == 0 && r->d1 != r->d2)
		logged = g4_inode_log(wg, fs, &txn, g4_icache_at(fs, r->d2));
	return g4_end(fs, &txn, rc < 0 ? rc : logged);
}

G4_FN static int rename_found(struct g4_wg *wg, struct g4_fs *fs, struct rename *r)
{
	struct g4_inode_core *x = g4_icache_at(fs, r->i1);
	struct g4_inode_core *y = r->i2 == G4_NO_INODE ? NULL : g4_icache_at(fs, r->i2);
	int rc = check_tree(wg, fs, r);

	if (rc < 0)
		return rc;
	if (x == y) /* two names of one inode: nothing happens (rename(2)) */
		return 0;
	if (y && (r->i2 == r->d1 || r->i2 == r->d2 || r->i1 == r->d2))
		return -G4_E_INVAL;
	bool first = !y || x->ino < y->ino;
	g4_write_lock(first ? &x->lock : &y->lock);
	if (y)
		g4_write_lock(first ? &y->lock : &x->lock);
	rc = rename_locked(wg, fs, r);
	g4_write_unlock(&x->lock);
	if (y)
		g4_write_unlock(&y->lock);
	return rc;
}

G4_FN int g4_do_rename(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	struct rename r = {cmd, G4_NO_INODE, G4_NO_INODE, G4_NO_INODE, G4_NO_INODE, {0}, {0}, false, G4_NO_INODE};
	int rc = check_name(cmd->name, cmd->name_bytes);

	if (rc == 0)
		rc = check_name(cmd->name2, cmd->name2_bytes);
	if (rc == 0 && (is_dot(cmd->name, cmd->name_bytes) || is_dotdot(cmd->name, cmd->name_bytes) ||
			is_dot(cmd->name2, cmd->name2_bytes) || is_dotdot(cmd->name2, cmd->name2_bytes)))
		rc = -G4_E_BUSY;
	if (rc == 0 && !g4_rename_flags_valid(cmd->flags))
		rc = -G4_E_INVAL;
	if (rc == 0)
		rc = g4_icache_get_node(wg, fs, cmd, &r.d1);
	if (rc < 0)
		return rc;
	rc = g4_icache_get_node2(wg, fs, cmd, &r.d2);
	if (rc == 0 && (!g4_is_dir(g4_inode_core_type(g4_icache_at(fs, r.d1))) ||
			!g4_is_dir(g4_inode_core_type(g4_icache_at(fs, r.d2)))))
		rc = -G4_E_NOTDIR;
	if (rc == 0) {
		rc = lock_directories(wg, fs, &r);
		if (rc == 0) {
			rc = find_both(wg, fs, &r);
			if (rc == 0)
				rc = rename_found(wg, fs, &r);
			unlock_directories(fs, &r);
		}
	}
	if (rc == 0 && r.unused)
		rc = g4_inode_delete(wg, fs, r.i2);
	if (r.i1 != G4_NO_INODE)
		g4_icache_put(fs, r.i1);
	if (r.i2 != G4_NO_INODE)
		g4_icache_put(fs, r.i2);
	if (r.d2 != G4_NO_INODE)
		g4_icache_put(fs, r.d2);
	g4_icache_put(fs, r.d1);
	return g4_check(fs, rc);
}
