/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in directories: what looking up, making, removing and renaming share. The directory is locked, for writing by what
 * changes it, unless it does so beside others (makers.h). Leader, unless a function says otherwise.
 *
 * A step of a lookup, by definition (lookup.c):
 *     1. The directory may be searched: g4_dir_permits().
 *     2. The name leads where the lookup cache says, or else the directory's pages (g4_name_find()), which the cache then
 *        learns; . and .. lead to the directory and its parent.
 *     3. A directory that the name leads to names this one as its parent: g4_is_child().
 * The walks without locks (optimistic.h) and of lanes that have a name each (engine/caller_each.c) take the same three from
 * here, of copies or under one lock, and leave to the definition whatever the lookup cache does not know.
 */
#ifndef G4_NAMES_H
#define G4_NAMES_H

#include "dir/dir.h"
#include "fs/command.h"
#include "fs/cred.h"
#include "fs/perm.h"
#include "inode/icache.h"
#include "inode/mounted.h"

/* Beside the name itself: the inodes of parent and child, a slot for a new one and the space of its slab, the orphan list. */
#define G4_NAME_CREDITS 16u

G4_FN G4_INLINE bool g4_is_dot(const char *name, uint32_t bytes)
{
	return bytes == 1 && name[0] == '.';
}

G4_FN G4_INLINE bool g4_is_dotdot(const char *name, uint32_t bytes)
{
	return bytes == 2 && name[0] == '.' && name[1] == '.';
}

G4_FN G4_INLINE uint8_t g4_dirent_type(uint32_t mode)
{
	return (uint8_t)((mode & G4_S_IFMT) >> 12); /* DT_* */
}

/* The pages of a write-locked directory. */
G4_FN G4_INLINE struct g4_dir g4_dir_of(struct g4_fs *fs, const struct g4_inode_core *inode)
{
	struct g4_dir dir = {&fs->alloc,   &fs->meta,	       &fs->cache,
			     fs->hash_key, inode->disk.map[0], g4_load64_rlx(&inode->disk.pages),
			     NULL};
	return dir;
}

/* Of a read-locked one. */
G4_FN G4_INLINE struct g4_dir g4_dir_shared(struct g4_fs *fs, const struct g4_inode_core *inode)
{
	struct g4_dir dir = g4_dir_of(fs, inode);

	dir.locks = &fs->dir_locks;
	return dir;
}

/* How a directory is locked. */
enum g4_locked { G4_LOCKED_SHARED, G4_LOCKED_ALONE };

G4_FN G4_INLINE void g4_dir_lock(struct g4_fs *fs, struct g4_inode_core *dir, enum g4_locked how)
{
	if (how == G4_LOCKED_ALONE)
		g4_icache_lock(fs, dir);
	else
		g4_read_lock_at_gate(&dir->lock);
}

G4_FN G4_INLINE void g4_dir_unlock(struct g4_inode_core *dir, enum g4_locked how)
{
	if (how == G4_LOCKED_ALONE)
		g4_write_unlock(&dir->lock);
	else
		g4_read_unlock(&dir->lock);
}

/* Behind g4_fence_rel(), as one of several releases (simt.h). */
G4_FN G4_INLINE void g4_dir_unlock_fenced(struct g4_inode_core *dir, enum g4_locked how)
{
	if (how == G4_LOCKED_ALONE)
		g4_write_unlock_fenced(&dir->lock);
	else
		g4_read_unlock_fenced(&dir->lock);
}

G4_FN G4_INLINE struct g4_dir g4_dir_locked(struct g4_fs *fs, const struct g4_inode_core *inode, enum g4_locked how)
{
	return how == G4_LOCKED_ALONE ? g4_dir_of(fs, inode) : g4_dir_shared(fs, inode);
}

/* The pages that an insert came to, back into the inode: also those of one that failed and had divided some by then. */
G4_FN G4_INLINE void g4_dir_grown(struct g4_inode_core *inode, const struct g4_dir *dir)
{
	inode->disk.map[0] = dir->root;
	inode->disk.pages = dir->pages;
}

/* The same of an insert or removal that came about; also times and the number of entries. */
G4_FN G4_INLINE void g4_dir_changed(struct g4_inode_core *inode, const struct g4_dir *dir, int entries, uint64_t now)
{
	g4_dir_grown(inode, dir);
	inode->disk.entries = (g4_le32)((int64_t)inode->disk.entries + entries);
	inode->disk.mtime_ns = inode->disk.ctime_ns = now;
}

/* Whether it can be a name: 0 or a negative code. Per-lane. */
G4_FN int g4_check_name(const char *name, uint32_t bytes);
/*
 * Per-lane, of a locked directory or a copy. Whether names in it may be looked up (want: G4_ACCESS_EXEC) or changed
 * (G4_ACCESS_WRITE | G4_ACCESS_EXEC): 0 or a negative code; 1: an access list decides, ask g4_permission(). root:
 * g4_is_root(cred), which a walk asks once.
 */
G4_FN G4_INLINE int g4_dir_permits(const struct g4_inode_core *dir, const struct g4_cred *cred, bool root,
				   uint32_t want)
{
	/* all are asked for before one is looked at; the last of them keeps the others before it */
	const bool dead = dir->dead;
	const uint32_t mode = dir->disk.mode, flags = dir->disk.flags, nlink = g4_load32_rlx(&dir->disk.nlink);

	if (dead || nlink == 0)
		return -G4_E_NOENT;
	if (!g4_is_dir(mode))
		return -G4_E_NOTDIR;
	if ((want & G4_ACCESS_WRITE) && (flags & G4_INODE_IMMUTABLE))
		return -G4_E_PERM;
	return root ? 0 : g4_mode_permits(dir, cred, want);
}
/* The whole answer: 0 or a negative code. */
G4_FN G4_INLINE int g4_check_dir(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *dir,
				 const struct g4_cred *cred, uint32_t want)
{
	const int rc = g4_dir_permits(dir, cred, g4_is_root(cred), want);

	return rc > 0 ? g4_permission(wg, fs, dir, cred, want) : rc;
}
/* Finds a name, . and .. included. */
G4_FN int g4_name_find(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, enum g4_locked how,
		       const char *name, uint32_t bytes, struct g4_dir_slot *slot);
/*
 * The same of a name that is neither . nor .., and references the inode that it leads to: it is the one that the name meant. remember:
 * the lookup cache learns of it.
 */
G4_FN int g4_name_get(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, enum g4_locked how,
		      const char *name, uint32_t bytes, bool remember, struct g4_dir_slot *slot, uint32_t *index);
/*
 * Whether a name of a locked directory leads to a locked inode: 1, 0 or a negative code. What it says holds until one of the locks is
 * given back, since a workgroup that takes the name away needs the inode's lock or the directory alone.
 */
G4_FN int g4_name_leads_to(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *dir, enum g4_locked how,
			   const char *name, uint32_t bytes, const struct g4_inode_core *inode);
/* Whether the directory `parent` may have a name for an inode of this mode, which calls `its_parent` its parent. */
G4_FN G4_INLINE bool g4_is_child(uint32_t mode, uint64_t its_parent, uint64_t parent)
{
	return !g4_is_dir(mode) || its_parent == parent;
}
/*
 * Before the inode that a name in a locked directory leads to is locked: -G4_E_CORRUPT_DIR where the name cannot be
 * right, because a directory has another parent. The order of locks relies on it, whatever an image says.
 */
G4_FN int g4_check_child(struct g4_fs *fs, const struct g4_inode_core *parent, uint32_t index);
/*
 * Attributes of what a listed name leads to, in a moment in which it does, with the directory read-locked since it was listed.
 * -G4_E_NOENT: the name is gone since.
 */
G4_FN int g4_name_attr(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *dir,
		       const struct g4_dir_listed *listed, const struct g4_dir_entry *entry, struct g4_attr *attr);
/* Whether names may be looked up in a locked inode: a directory, with the permission. */
G4_FN G4_INLINE int g4_may_search(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *dir,
				  const struct g4_cred *cred)
{
	return g4_check_dir(wg, fs, dir, cred, G4_ACCESS_EXEC);
}
/* What the lookup cache knows a name in a directory by, with its hash as the directory has it. Per-lane. */
G4_FN struct g4_lookup_name g4_lookup_key_of(const struct g4_fs *fs, const struct g4_inode_core *dir, uint32_t hash,
					     const char *name, uint32_t bytes);
/* The same of one whose hash is not known. */
G4_FN struct g4_lookup_name g4_lookup_key(const struct g4_fs *fs, const struct g4_inode_core *dir, const char *name,
					  uint32_t bytes);
/*
 * Per-lane; neither waits nor locks. Where a name of a locked directory leads by the lookup cache, which has no name that the
 * directory has not, for as long as g4_lookup_holds(seen). False: it does not know. bytes > 0.
 */
G4_FN bool g4_name_cached(struct g4_fs *fs, const struct g4_inode_core *dir, const char *name, uint64_t bytes,
			  struct g4_lookup_value *value, struct g4_lookup_seen *seen);
/*
 * Before a transaction that puts a name which was not found into a directory, which is locked alone: the file system may have what that
 * needs. -G4_E_BUSY: its size is just changing.
 */
G4_FN int g4_name_allow(struct g4_wg *wg, struct g4_fs *fs, const struct g4_dir_slot *slot);
/* A name goes, or leads elsewhere from now on. */
G4_FN void g4_name_forget(struct g4_fs *fs, const struct g4_inode_core *inode, const struct g4_dir_slot *slot,
			  const char *name, uint32_t bytes);
/* A new name, or a new meaning of one: it leads to the in-core inode at `index`. */
G4_FN void g4_name_remember(struct g4_fs *fs, const struct g4_lookup_name *key, uint32_t index);

#endif
