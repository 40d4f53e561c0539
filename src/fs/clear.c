/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CLEAR: removes what is below a directory, a bounded number of names at a time. Each name goes as UNLINK or RMDIR would let it go,
 * in a transaction and with locks and permissions of its own: a crash, an error or a caller that stops leaves a smaller tree, and
 * several workgroups may clear one tree together. Nothing is locked between two names, so whatever others do meanwhile is
 * done before or after each of them; what they move out of the tree while a caller is in it may still be cleared.
 *
 * The walk has no recursion. It tries a directory with RMDIR, goes into it where that says NOTEMPTY, and comes back to its name when
 * it is empty. Of the way down it knows the last G4_CLEAR_WAY directories, by number and generation; where that does not
 * reach, or something on it is gone, it begins at the top again. It never follows `..`, which may lead out of the tree by now.
 *
 * Bounds: `tries` counts names that were tried, also while others change the tree. A directory that is below itself, which only an
 * image or a client that moves directories meanwhile can say, ends the same way: RMDIR refuses a name whose directory has another
 * parent, so the first directory to be met twice would be the top, where the walk begins again.
 */
#include "fs/clear.h"
#include "fs/commands.h"
#include "fs/names.h"
#include "fs/node.h"
#include "inode/icache.h"
#include "inode/txn.h"

struct at_dir {
	uint64_t ino;
	uint32_t generation;
};

struct clearing {
	struct g4_cmd one; /* the removal of a name */
	struct g4_dir_listed listed;
	struct g4_cmd *cmd;
	struct at_dir top, here;
	struct at_dir way[G4_CLEAR_WAY]; /* what is above `here`, the nearest last */
	uint32_t depth;
	uint64_t most;
	uint64_t tries; /* that are left */
};
G4_STATIC_ASSERT(offsetof(struct clearing, one) % 16 == 0 && offsetof(struct clearing, listed.page) % 16 == 0,
		 "zeroed and copied by 16 bytes");
G4_STATIC_ASSERT(sizeof(struct clearing) <= G4_COPY_SCRATCH_BYTES, "of one that runs several operations in a row");

G4_FN static int get_dir(struct g4_wg *wg, struct g4_fs *fs, const struct at_dir *dir, uint32_t *index)
{
	int rc = g4_icache_get(wg, fs, dir->ino, index);

	if (rc == 0 && g4_icache_at(fs, *index)->disk.generation != dir->generation) {
		g4_icache_put(fs, *index);
		return -G4_E_STALE;
	}
	return rc;
}

/* Copies the first leaf with names, from the caller's place in the order of hashes on, and around. Read-locked. */
G4_FN static int copy_leaf(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, struct clearing *c)
{
	const struct g4_dir dir = g4_dir_shared(fs, inode);
	uint64_t from = (c->cmd->cookie & UINT32_MAX) << 16;
	int rc = 0;

	for (uint32_t round = 0; round < 2 && rc == 0 && c->listed.count == 0; round++, from = 0) {
		while (rc == 0 && c->listed.count == 0 && from != UINT64_MAX) {
			rc = g4_dir_read_leaf(wg, &dir, from, &c->listed);
			from = c->listed.next;
		}
	}
	return rc;
}

/* Names of the directory at hand, as a listing would give them. */
G4_FN static int list(struct g4_wg *wg, struct g4_fs *fs, struct clearing *c)
{
	uint32_t index;

	c->listed.count = 0;
	int rc = get_dir(wg, fs, &c->here, &index);
	if (rc < 0)
		return rc == -G4_E_STALE ? -G4_E_NOENT : rc;
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	g4_read_lock(&inode->lock);
	rc = g4_check_dir(wg, fs, inode, c->cmd->cred, G4_ACCESS_READ | G4_ACCESS_EXEC);
	if (rc == 0)
		rc = copy_leaf(wg, fs, inode, c);
	g4_read_unlock(&inode->lock);
	g4_icache_put(fs, index);
	return g4_check(fs, rc);
}

G4_FN static void begin_at_top(struct clearing *c)
{
	c->here = c->top;
	c->depth = 0;
}

/* Into a directory that the one at hand named. One that is gone from there by now is met again, or not at all. */
G4_FN static int go_down(struct g4_wg *wg, struct g4_fs *fs, struct clearing *c, uint64_t ino)
{
	uint32_t index;

	if (ino ==
	    c->top.ino) { /* others moved it below what they had moved out of it, or an image says so: `tries` end that */
		begin_at_top(c);
		return 0;
	}
	int rc = g4_icache_get(wg, fs, ino, &index);
	if (rc < 0)
		return rc == -G4_E_STALE ? 0 : g4_check(fs, rc);
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	g4_read_lock(&inode->lock);
	const struct at_dir below = {ino, inode->disk.generation};
	const bool is_below = !inode->dead && g4_is_dir(inode->disk.mode) && g4_load32_rlx(&inode->disk.nlink) > 0 &&
			      g4_load64_acq(&inode->disk.parent) == c->here.ino;
	g4_read_unlock(&inode->lock);
	g4_icache_put(fs, index);
	if (!is_below)
		return 0;
	if (c->depth == G4_CLEAR_WAY) {
		for (uint32_t k = 1; k < G4_CLEAR_WAY; k++)
			c->way[k - 1] = c->way[k];
		c->depth--;
	}
	c->way[c->depth++] = c->here;
	c->here = below;
	return 0;
}

G4_FN static int remove_one(struct g4_wg *wg, struct g4_fs *fs, struct clearing *c, const struct g4_dir_entry *entry,
			    uint32_t op)
{
	g4_zero16(&c->one, sizeof(c->one));
	c->one.op = op;
	c->one.node = c->here.ino;
	c->one.generation = c->here.generation;
	c->one.name = (const char *)(entry + 1);
	c->one.name_bytes = entry->name_bytes;
	c->one.cred = c->cmd->cred;
	return g4_do_remove(wg, fs, &c->one);
}

/* 0: go on; 1: the walk is in another directory. */
G4_FN static int clear_entry(struct g4_wg *wg, struct g4_fs *fs, struct clearing *c, const struct g4_dir_entry *entry)
{
	int rc = remove_one(wg, fs, c, entry, entry->file_type == 4 ? G4_CMD_RMDIR : G4_CMD_UNLINK);

	if (rc == -G4_E_NOTDIR || rc == -G4_E_ISDIR) /* the name is another one's by now */
		rc = remove_one(wg, fs, c, entry, rc == -G4_E_ISDIR ? G4_CMD_RMDIR : G4_CMD_UNLINK);
	switch (-rc) {
	case 0:
		c->cmd->value++;
		return 0;
	case G4_E_NOENT:
	case G4_E_STALE: /* the directory was removed, which the next listing finds */
		return 0;
	case G4_E_NOTEMPTY:
		rc = go_down(wg, fs, c, entry->inode);
		return rc < 0 ? rc : 1;
	default:
		return rc;
	}
}

/* Names of one leaf. */
G4_FN static int clear_listed(struct g4_wg *wg, struct g4_fs *fs, struct clearing *c)
{
	int rc = 0;

	for (uint32_t k = 0; k < c->listed.count && rc == 0 && c->tries > 0 && c->cmd->value < c->most; k++) {
		c->tries--;
		rc = clear_entry(wg, fs, c, c->listed.items[k].entry);
	}
	return rc < 0 ? rc : 0;
}

G4_FN static int clear(struct g4_wg *wg, struct g4_fs *fs, struct clearing *c)
{
	int rc = 0;

	while (rc == 0 && c->cmd->value < c->most) {
		if (c->tries == 0)
			return -G4_E_NOTEMPTY;
		rc = list(wg, fs, c);
		const bool at_top = c->here.ino == c->top.ino;
		if (rc == 0 && c->listed.count > 0) {
			rc = clear_listed(wg, fs, c);
		} else if ((rc == 0 || rc == -G4_E_NOENT) && !at_top) {
			rc = 0;
			c->tries--;
			if (c->depth > 0)
				c->here = c->way[--c->depth];
			else
				begin_at_top(c);
		} else if (rc == 0) {
			break;
		}
	}
	return rc;
}

G4_FN G4_COLD int g4_do_clear(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd)
{
	uint32_t index;

	cmd->value = 0;
	if (fs->flags & G4_FS_HOLD_UNLINKED) /* clients that keep numbers of inodes would have to hear of each */
		return -G4_E_NOTSUP;
	int rc = cmd->length == 0 ? -G4_E_INVAL : g4_icache_get_node(wg, fs, cmd, &index);
	if (rc < 0)
		return rc;
	const struct at_dir top = {g4_icache_at(fs, index)->ino, g4_icache_at(fs, index)->disk.generation};
	g4_icache_put(fs, index);
	const uint32_t mark = g4_scratch_mark(wg);
	struct clearing *c = (struct clearing *)g4_scratch_take(wg, sizeof(*c));
	c->cmd = cmd;
	c->top = top;
	c->most = g4_min64(cmd->length, G4_CLEAR_MOST);
	c->tries = G4_CLEAR_TRIES + 4 * c->most;
	begin_at_top(c);
	rc = clear(wg, fs, c);
	g4_scratch_release(wg, mark);
	/* what stopped it is met again, before anything else, unless it has stopped all changes: then this is who can say it */
	return cmd->value > 0 && !g4_load32_acq(&fs->journal.aborted) ? 0 : rc;
}
