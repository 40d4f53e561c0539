/* SPDX-License-Identifier: Apache-2.0 */
/* The table of in-core inodes: finding and referencing them. Leader, thread-safe, unless a function says otherwise. */
#ifndef G4_ICACHE_H
#define G4_ICACHE_H

#include "inode/mounted.h"

/* References the in-core inode of a number. -G4_E_STALE: no such inode. */
G4_FN int g4_icache_get(struct g4_wg *wg, struct g4_fs *fs, uint64_t ino, uint32_t *index);
/* Neither waits nor locks. The same of one that is there, loaded; false: it is not, or that cannot be told in this way. */
G4_FN bool g4_icache_find(struct g4_fs *fs, uint64_t ino, uint32_t *index);
/* References the in-core inode of a number, for a caller that saw the inode at this index of the table before (G4_NO_INODE: nowhere). */
G4_FN int g4_icache_get_near(struct g4_wg *wg, struct g4_fs *fs, uint64_t ino, uint32_t near, uint32_t *index);
/* Per-lane; neither waits nor locks. References the in-core inode at that index, if it is the inode's and loaded. */
G4_FN bool g4_icache_ref_near(struct g4_fs *fs, uint64_t ino, uint32_t near);
/*
 * Per-lane. The index at which the inode seems to stand in the table, or G4_NO_INODE. Nothing is referenced: the caller looks
 * at the in-core inode with g4_icache_read_optimistic().
 */
G4_FN uint32_t g4_icache_index_of(const struct g4_fs *fs, uint64_t ino);
/* A key for an inode's pages in the cache, which no inode or incarnation has had. */
G4_FN uint64_t g4_icache_new_key(struct g4_icache *icache);
/* So many of them in a row: the first. */
G4_FN uint64_t g4_icache_new_keys(struct g4_icache *icache, uint32_t count);
/* Of an inode that leaves the table with its pages in the cache. */
G4_FN void g4_icache_remember_key(struct g4_icache *icache, uint64_t ino, uint32_t generation, uint64_t key);
/* The key that was remembered of the same number and generation, which then is forgotten; or a new one. */
G4_FN uint64_t g4_icache_recall_key(struct g4_icache *icache, uint64_t ino, uint32_t generation);

G4_FN G4_INLINE void g4_icache_put(struct g4_fs *fs, uint32_t index)
{
	g4_sub32_rel(&g4_icache_at(fs, index)->refs, 1);
}

/* The same behind g4_fence_rel(), as one of several releases (simt.h): others may see it before the caller's unlocks. */
G4_FN G4_INLINE void g4_icache_put_fenced(struct g4_fs *fs, uint32_t index)
{
	g4_sub32_fenced(&g4_icache_at(fs, index)->refs, 1);
}

/* Another reference to an in-core inode that the caller has referenced or locked. */
G4_FN void g4_icache_ref(struct g4_fs *fs, uint32_t index);
/*
 * Write-locks an inode in which something may change that attributes, permissions or names tell: its epoch grows (epoch.h). Who changes
 * nothing of that takes the lock itself, as g4_write_lock() does.
 */
G4_FN void g4_icache_lock(struct g4_fs *fs, struct g4_inode_core *inode);
/* The same of inodes below their directories, the lower number first; b may be a, or NULL. The rule: src/fs/README.md. */
G4_FN void g4_icache_lock_two(struct g4_fs *fs, struct g4_inode_core *a, struct g4_inode_core *b);
G4_FN void g4_icache_unlock_two(struct g4_inode_core *a, struct g4_inode_core *b);

/* ---- for inode.c, which gives an in-core inode to a new inode ---- */
/* Takes an unused in-core inode out of the table, G4_ICACHE_TAKEN and write-locked; G4_NO_INODE: all are in use. */
G4_FN uint32_t g4_icache_take(struct g4_icache *icache);
/* Gives a taken in-core inode back that was not used. */
G4_FN void g4_icache_untake(struct g4_icache *icache, uint32_t index);
/* A taken in-core inode becomes that of `ino`, empty; it stays write-locked. */
G4_FN void g4_icache_reset(const struct g4_fs *fs, struct g4_inode_core *inode, uint64_t ino);
/* Puts it into the table, ready; from here on others find it. */
G4_FN void g4_icache_enter(struct g4_icache *icache, uint32_t index);
/* Takes a referenced in-core inode out of its chain: nobody finds it any more. */
G4_FN void g4_icache_unhash(struct g4_icache *icache, uint32_t index);

#endif
