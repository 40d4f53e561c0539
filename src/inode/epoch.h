/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Epochs: counters that clients of other processes read, to see that what they were told of an inode has become old
 * (docs/design/mirror.md, which has the rules' proof). Leader, thread-safe; nothing waits.
 *
 *     1. Who changes what attributes, permissions or names of an inode tell, under its write lock, has its epoch grow when it has the
 *        lock: g4_icache_lock(). An operation locks all inodes before anything of it is to be seen: so then all their epochs have grown.
 *     2. Who changes a name under the lock of its leaf: behind g4_name_forget(), before g4_name_remember() and before the leaf's unlock.
 *     3. Who changes attributes with the inode locked shared does so between g4_shared_change_begin() and g4_shared_change_end().
 */
#ifndef G4_EPOCH_H
#define G4_EPOCH_H

#include "hash/siphash.h"
#include "inode/mounted.h"
#include "inode/trail.h"

G4_FN G4_INLINE uint64_t *g4_epochs(const struct g4_fs *fs)
{
	return (uint64_t *)(uintptr_t)g4_load64_acq(&fs->epochs);
}

/*
 * Where clients read another memory than the counters': as many counters behind them, of the additions whose store there has been made.
 * NULL: clients read the counters themselves.
 */
G4_FN G4_INLINE uint64_t *g4_epochs_stored(const struct g4_fs *fs)
{
	uint64_t *epochs = g4_epochs(fs);

	return epochs && fs->epochs_shown ? epochs + G4_EPOCHS : NULL;
}

/*
 * An epoch's value. stored: g4_epochs_stored(). False: somebody is between an addition and its store, which could show clients that
 * value again behind a later one.
 */
G4_FN G4_INLINE bool g4_epoch_read(const uint64_t *epochs, const uint64_t *stored, uint16_t epoch, uint64_t *value)
{
	const uint64_t done = stored ? g4_load64_acq(&stored[epoch]) : 0; /* first: it is never more than the counter */

	*value = g4_load64_acq(&epochs[epoch]);
	return !stored || done == *value;
}

/* Which one is an inode's. */
G4_FN G4_INLINE uint16_t g4_epoch_of(const struct g4_fs *fs, uint64_t ino)
{
	const uint64_t key[2] = {~fs->hash_key[0], fs->hash_key[1]}; /* other hashes than those of names */

	return (uint16_t)(g4_siphash13(key, &ino, sizeof(ino)) % G4_EPOCHS);
}

/*
 * Adds to it, behind g4_fence_rel(), and shows it. True: that has been stored where clients look (of several at once in whatever order:
 * g4_epoch_read()), and g4_epoch_stored_fenced() is to follow.
 */
G4_FN G4_INLINE bool g4_epoch_add_fenced(struct g4_fs *fs, const struct g4_inode_core *inode)
{
	uint64_t *epochs = g4_epochs(fs);

	if (!epochs)
		return false;
	const uint64_t now = g4_add64_acq(&epochs[inode->epoch], 1) + 1;
	if (!fs->epochs_shown)
		return false;
	g4_store64_rlx_sys(&fs->epochs_shown[inode->epoch], now);
	return true;
}

/* Behind another g4_fence_rel(). Until then nobody believes the epoch. */
G4_FN G4_INLINE void g4_epoch_stored_fenced(struct g4_fs *fs, const struct g4_inode_core *inode)
{
	g4_add64_fenced(&g4_epochs(fs)[G4_EPOCHS + inode->epoch], 1);
}

G4_FN G4_INLINE void g4_epoch_advance(struct g4_fs *fs, const struct g4_inode_core *inode)
{
	g4_fence_rel();
	if (g4_epoch_add_fenced(fs, inode)) {
		g4_fence_rel();
		g4_epoch_stored_fenced(fs, inode);
	}
}

#define G4_SHARED_CHANGE_BEGUN (UINT64_C(1) << 16)
/*
 * The epoch grows; who sees that, or something of what follows, sees that a change has begun. On a GPU each release waits until all that was
 * written before it has arrived: so this has one, and the end shares its with the caller. Returns what the end wants to know.
 */
G4_FN G4_INLINE bool g4_shared_change_begin(struct g4_fs *fs, struct g4_inode_core *inode)
{
	g4_add64_rlx(&inode->shared_changes, G4_SHARED_CHANGE_BEGUN + 1);
	g4_fence_rel();
	return g4_epoch_add_fenced(fs, inode);
}

/* Behind g4_fence_rel(). */
G4_FN G4_INLINE void g4_shared_change_end_fenced(struct g4_fs *fs, struct g4_inode_core *inode, bool shown)
{
	if (shown)
		g4_epoch_stored_fenced(fs, inode);
	g4_sub64_fenced(&inode->shared_changes, 1);
}

G4_FN G4_INLINE bool g4_shared_change_is_under_way(uint64_t shared_changes)
{
	return (shared_changes & (G4_SHARED_CHANGE_BEGUN - 1)) != 0;
}

/* An inode that the answer will depend on, referenced; before anything of it is looked at under its lock. trail: NULL: nobody asks. */
G4_FN G4_INLINE void g4_trail_note(const struct g4_fs *fs, struct g4_trail *trail, const struct g4_inode_core *inode)
{
	const uint64_t *epochs = trail ? g4_epochs(fs) : NULL;
	uint64_t value;

	if (!epochs)
		return;
	if (g4_epoch_read(epochs, g4_epochs_stored(fs), inode->epoch, &value))
		g4_trail_add(trail, inode->epoch, value);
	else
		trail->count = G4_TRAIL_LOST;
}

/* The same of one whose attributes are told. */
G4_FN G4_INLINE void g4_trail_note_attr(const struct g4_fs *fs, struct g4_trail *trail,
					const struct g4_inode_core *inode)
{
	g4_trail_note(fs, trail, inode);
	if (trail && g4_shared_change_is_under_way(g4_load64_acq(&inode->shared_changes)))
		trail->count = G4_TRAIL_LOST;
}

#endif
