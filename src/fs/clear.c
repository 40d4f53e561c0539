/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CLEAR: removes what is below a directory, a bounded number of names at a time. Each name goes as UNLINK or RMDIR would let it go,
 * in a transaction and with permissions of its own: a crash, an error or a caller that stops leaves a smaller tree, and
 * several workgroups may clear one tree together. Whatever others do meanwhile is done before or after each name; what they move out of the
 * tree while a caller is in it may still be cleared. Nothing is locked between two names but by a helper, which has their directory shared for the names
 * of a leaf that are no directories, until somebody wants it alone: so it need not look them up that it has just listed.
 *
 * Workgroups that have nothing else to do share one command: a directory with many names is cut into ranges of positions, and who takes one
 * walks what is below its names as the owner would (docs/design/directories.md, *Trees*). The owner holds nothing while it waits.
 *
 * The walk has no recursion. It tries a directory with RMDIR, goes into it where that says NOTEMPTY, and comes back to its name when
 * it is empty. Of the way down it knows the last G4_CLEAR_WAY directories, by number and generation; where that does not
 * reach, or something on it is gone, it begins at the top again. It never follows `..`, which may lead out of the tree by now.
 *
 * Bounds: `tries` are names that may be tried, by all workgroups of a command together, also while others change the tree; who has a piece tries few of them,
 * for calls of others come to a helper meanwhile, and what all pieces try leaves enough to the owner. A directory that is below itself, which only an
 * image or a client that moves directories meanwhile can say, ends the same way: RMDIR refuses a name whose directory has another
 * parent, so the first directory to be met twice would be the top, where the walk begins again. One that counts names and has none, as
 * is left where an image has a leaf in two directories, would be met until all tries are used up: it is damage, and said at once.
 */
#include "fs/clear.h"
#include "data/split.h"
#include "fs/commands.h"
#include "fs/delete.h"
#include "fs/makers.h"
#include "fs/names.h"
#include "fs/node.h"
#include "fs/remove.h"
#include "inode/icache.h"
#include "inode/txn.h"

struct at_dir {
	uint64_t ino;
	uint32_t generation;
};

struct clearing {
	struct g4_cmd one; /* the removal of a name */
	struct g4_dir_listed listed;
	struct g4_clear_part *part; /* the command, and its bounds; the owner's, who has all of it */
	struct g4_clear_part own;
	struct at_dir top, here;
	struct at_dir way[G4_CLEAR_WAY]; /* what is above `here`, the nearest last */
	uint32_t depth;
	bool helps;	   /* has a piece of `part` */
	bool kept;	   /* helps: names went from `here`, which is not the top, and its pages stayed; */
	uint64_t way_kept; /* bit k: from way[k] */
	uint32_t names;	   /* of the directory that was listed */
	uint32_t held;	   /* helps: that, in core, read-locked since it was listed; G4_NO_INODE: it is not */
	uint32_t unused[G4_CLEAR_UNUSED]; /* inodes with contents that have lost their names since, in core; */
	uint32_t unused_count;		  /* deleted when it is unlocked */
	uint64_t start;			  /* where a directory is begun with, and around: */
	uint64_t at;			  /* names of `here` before that are gone, */
	bool around;			  /* and those from `start` on */
	bool again;			  /* has come around, and names were left that others are at */
	uint64_t from, until;		  /* helps: positions of the top that are left */
	uint64_t below;			  /* helps: of the top's name that the walk is below */
	uint32_t unions;		  /* helps: how often it may unite pages yet */
	uint64_t left;			  /* tries of this workgroup's */
	uint64_t in_vain;		  /* the directory that was shared last and of which no name went */
};
G4_STATIC_ASSERT(offsetof(struct clearing, one) % 16 == 0 && offsetof(struct clearing, listed.page) % 16 == 0,
		 "zeroed and copied by 16 bytes");
G4_STATIC_ASSERT(G4_CLEAR_PIECES_MOST *G4_CLEAR_PIECE_LEAST <= G4_CLEAR_TRIES * 2 / 3,
		 "not all tries are those of pieces");
G4_STATIC_ASSERT(2 * sizeof(struct clearing) <= G4_COPY_SCRATCH_BYTES,
		 "of one that runs several operations in a row: the command and a piece of it");

G4_FN static int get_dir(struct g4_wg *wg, struct g4_fs *fs, const struct at_dir *dir, uint32_t *index)
{
	int rc = g4_icache_get(wg, fs, dir->ino, index);

	if (rc == 0 && g4_icache_at(fs, *index)->disk.generation != dir->generation) {
		g4_icache_put(fs, *index);
		return -G4_E_STALE;
	}
	return rc;
}

G4_FN static bool at_top(const struct clearing *c)
{
	return c->here.ino == c->top.ino;
}

/* Copies the first leaf with names from one position on, before another one. Read-locked. */
G4_FN static int copy_first(struct g4_wg *wg, const struct g4_dir *dir, struct clearing *c, uint64_t from,
			    uint64_t until)
{
	int rc = 0;

	while (rc == 0 && c->listed.count == 0 && from < until) {
		rc = g4_dir_read_leaf(wg, dir, from, &c->listed);
		from = c->listed.next;
		while (c->listed.count > 0 && c->listed.items[c->listed.count - 1].position >= until)
			c->listed.count--;
	}
	return rc;
}

/* The directory at hand is another one, or may have names again that the walk has come past. */
G4_FN static void begin_round(struct clearing *c)
{
	c->at = c->start;
	c->around = c->again = false;
}

/* What was listed is gone, and who helps begins behind it: leaves that have no names any more stay until it leaves the directory. */
G4_FN static void pass_listed(struct clearing *c)
{
	if (c->helps && at_top(c))
		c->from = c->listed.next;
	else if (c->helps)
		c->at = c->listed.next;
}

/* From the caller's place in the order of hashes on, and around; of what is shared, the piece. Read-locked. */
G4_FN static int copy_leaf(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, struct clearing *c)
{
	const struct g4_dir dir = g4_dir_shared(fs, inode);

	if (c->helps && at_top(c))
		return copy_first(wg, &dir, c, c->from, c->until);
	if (!c->around) {
		const int rc = copy_first(wg, &dir, c, c->at, UINT64_MAX);
		if (rc < 0 || c->listed.count > 0)
			return rc;
		c->around = true;
		c->at = 0;
	}
	return copy_first(wg, &dir, c, c->at, c->start);
}

/* The same; at the end of a round once more where there are names yet, which others are about to remove or have made. */
G4_FN static int copy_names(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, struct clearing *c)
{
	const bool begun = c->helps && (c->around || c->at != c->start);
	int rc;

	if (!c->helps)
		begin_round(c);
	/* one that has none by now is removed, whatever its pages say */
	if (!at_top(c) && g4_load32_rlx(&inode->disk.entries) == 0)
		return 0;
	rc = copy_leaf(wg, fs, inode, c);
	if (rc == 0 && begun && !at_top(c) && c->listed.count == 0 && g4_load32_rlx(&inode->disk.entries) > 0) {
		begin_round(c);
		c->again = true;
		rc = copy_leaf(wg, fs, inode, c);
	}
	return rc;
}

/*
 * Of one that counts names and of which none was seen: others have made some meanwhile, or an image says so, whose directory never goes and
 * would be met again and again. With the directory alone it is told.
 */
G4_FN G4_COLD static int list_alone(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct clearing *c)
{
	g4_write_lock(&inode->lock);
	begin_round(c);
	const int rc = copy_leaf(wg, fs, inode, c);
	c->names = inode->disk.entries;
	g4_write_unlock(&inode->lock);
	return rc == 0 && c->listed.count == 0 && c->names > 0 ? -G4_E_CORRUPT_DIR : rc;
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
	rc = g4_check_dir(wg, fs, inode, c->part->cmd.cred, G4_ACCESS_READ | G4_ACCESS_EXEC);
	if (rc == 0)
		rc = copy_names(wg, fs, inode, c);
	c->names = g4_load32_rlx(&inode->disk.entries);
	/* who may not change it is told so by the removal of a name */
	if (rc == 0 && c->helps && c->listed.count > 0 &&
	    g4_check_dir(wg, fs, inode, c->part->cmd.cred, G4_ACCESS_WRITE | G4_ACCESS_EXEC) == 0) {
		c->held = index;
		return 0;
	}
	g4_read_unlock(&inode->lock);
	const bool all = !c->helps || !at_top(c); /* of the directory: not a piece */
	if (rc == 0 && all && c->listed.count == 0 && c->names > 0)
		rc = list_alone(wg, fs, inode, c);
	g4_icache_put(fs, index);
	return g4_check(fs, rc);
}

/*
 * Of a directory that others use meanwhile: leaves from a position on without names go, and those that have few are united, in no more transactions
 * than *most, of which it takes its.
 */
G4_FN static int unite(struct g4_wg *wg, struct g4_fs *fs, const struct at_dir *dir, uint64_t from, uint64_t until,
		       uint32_t *most)
{
	uint32_t index;
	int rc = get_dir(wg, fs, dir, &index);

	if (rc < 0)
		return rc == -G4_E_STALE ? 0 : rc;
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	while (rc == 0 && *most > 0 && from < until) {
		--*most;
		g4_icache_lock(fs, inode);
		rc = g4_unite_pages(wg, fs, inode, &from, until);
		g4_write_unlock(&inode->lock);
	}
	g4_icache_put(fs, index);
	return rc == -G4_E_NOENT ? 0 : rc;
}

G4_FN static int unite_here(struct g4_wg *wg, struct g4_fs *fs, struct clearing *c)
{
	const bool kept = c->kept;

	c->kept = false;
	return kept ? unite(wg, fs, &c->here, 0, G4_DIR_POSITIONS, &c->unions) : 0;
}

/* Of a level of the way that is left or forgotten. */
G4_FN static int unite_above(struct g4_wg *wg, struct g4_fs *fs, struct clearing *c, uint32_t level)
{
	const bool kept = c->way_kept >> level & 1;

	c->way_kept &= ~(UINT64_C(1) << level);
	return kept ? unite(wg, fs, &c->way[level], 0, G4_DIR_POSITIONS, &c->unions) : 0;
}

/* Before the walk begins at the top again, or ends. */
G4_FN static int unite_way(struct g4_wg *wg, struct g4_fs *fs, struct clearing *c)
{
	int rc = unite_here(wg, fs, c);

	for (uint32_t level = 0; level < c->depth; level++) {
		const int above = unite_above(wg, fs, c, level);
		rc = rc < 0 ? rc : above;
	}
	return rc;
}

G4_FN static void begin_at_top(struct clearing *c)
{
	c->here = c->top;
	c->depth = 0;
	begin_round(c);
}

/* Who has a piece leaves a name of the top as it is: it is the owner's. */
G4_FN static int leave(struct g4_wg *wg, struct g4_fs *fs, struct clearing *c, uint64_t position)
{
	const int rc = unite_way(wg, fs, c);

	c->from = (at_top(c) ? position : c->below) + 1;
	begin_at_top(c);
	return rc;
}

/*
 * Into a directory that the one at hand named at a position. One that is gone from there by now is met again, or not at all. One with many
 * names is no single workgroup's.
 */
G4_FN static int go_down(struct g4_wg *wg, struct g4_fs *fs, struct clearing *c, uint64_t ino, uint64_t position)
{
	uint32_t index;

	if (ino == c->top.ino || (c->helps && ino == c->part->cmd.node)) {
		/* others moved it below what they had moved out of it, or an image says so: `tries` end that */
		if (c->helps)
			return leave(wg, fs, c, position);
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
	const bool wide = g4_load32_rlx(&inode->disk.entries) > G4_CLEAR_WIDE;
	g4_read_unlock(&inode->lock);
	g4_icache_put(fs, index);
	if (!is_below)
		return 0;
	if (c->helps && wide)
		return leave(wg, fs, c, position);
	if (at_top(c))
		c->below = position;
	if (c->depth == G4_CLEAR_WAY) {
		rc = unite_above(wg, fs, c, 0);
		for (uint32_t k = 1; k < G4_CLEAR_WAY; k++)
			c->way[k - 1] = c->way[k];
		c->way_kept >>= 1;
		c->depth--;
	}
	c->way_kept |= (uint64_t)c->kept << c->depth;
	c->kept = false;
	c->way[c->depth++] = c->here;
	c->here = below;
	begin_round(c);
	return rc;
}

/* Of the directory that is held, if one is; what lost its name there is deleted. 0, or what failed of that first. */
G4_FN static int let_go(struct g4_wg *wg, struct g4_fs *fs, struct clearing *c)
{
	int rc = 0;

	if (c->held == G4_NO_INODE)
		return 0;
	g4_read_unlock(&g4_icache_at(fs, c->held)->lock);
	g4_icache_put(fs, c->held);
	c->held = G4_NO_INODE;
	while (c->unused_count > 0) {
		const uint32_t index = c->unused[--c->unused_count];
		const int failed = g4_inode_delete(wg, fs, index);
		g4_icache_put(fs, index);
		rc = rc < 0 ? rc : failed;
	}
	return rc;
}

/* G4_ALONE: it is no name that can go so; the directory is let go of, and the name is removed like any other. */
G4_FN static int remove_listed(struct g4_wg *wg, struct g4_fs *fs, struct clearing *c, uint32_t k)
{
	struct g4_inode_core *dir = g4_icache_at(fs, c->held);
	uint32_t unused = G4_NO_INODE;
	int rc = G4_ALONE, deleted = 0;

	g4_zero16(&c->one, sizeof(c->one));
	c->one.cred = c->part->cmd.cred;
	if (c->listed.items[k].entry->file_type != 4)
		rc = g4_remove_listed(wg, fs, dir, &c->listed, k, &c->one, &unused);
	if (unused != G4_NO_INODE)
		c->unused[c->unused_count++] = unused;
	c->kept = c->kept || (rc == 0 && !at_top(c));
	if (rc != 0 && rc != -G4_E_NOENT)
		deleted = let_go(wg, fs, c);
	return rc < 0 || deleted == 0 ? rc : deleted;
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
	c->one.cred = c->part->cmd.cred;
	/* of a directory that several clear together leaves are united when they have done so: of the top by the owner */
	const int rc = c->helps ? g4_remove_keeping_pages(wg, fs, &c->one) : g4_do_remove(wg, fs, &c->one);
	c->kept = c->kept || (rc == 0 && c->helps && !at_top(c));
	return rc;
}

/* 0: go on; 1: the walk is in another directory, or one listing on. */
G4_FN static int clear_entry(struct g4_wg *wg, struct g4_fs *fs, struct clearing *c, uint32_t k)
{
	const struct g4_dir_item *item = &c->listed.items[k];
	const struct g4_dir_entry *entry = item->entry;
	int rc = c->held == G4_NO_INODE ? G4_ALONE : remove_listed(wg, fs, c, k);

	if (rc == G4_ALONE)
		rc = remove_one(wg, fs, c, entry, entry->file_type == 4 ? G4_CMD_RMDIR : G4_CMD_UNLINK);
	if (rc == -G4_E_NOTDIR || rc == -G4_E_ISDIR) /* the name is another one's by now */
		rc = remove_one(wg, fs, c, entry, rc == -G4_E_ISDIR ? G4_CMD_RMDIR : G4_CMD_UNLINK);
	switch (-rc) {
	case 0:
		g4_add64_rlx(&c->part->removed, 1);
		return 0;
	case G4_E_NOENT:
	case G4_E_STALE: /* the directory was removed, which the next listing finds */
		g4_add64_rlx(&c->part->taken, UINT64_MAX);
		return 0;
	case G4_E_NOTEMPTY:
		g4_add64_rlx(&c->part->taken, UINT64_MAX);
		rc = go_down(wg, fs, c, entry->inode, item->position);
		return rc < 0 ? rc : 1;
	default:
		g4_add64_rlx(&c->part->taken, UINT64_MAX);
		return rc;
	}
}

G4_FN static bool may_try(const struct clearing *c)
{
	return c->left > 0 && g4_load64_rlx(&c->part->tried) < c->part->tries;
}

G4_FN static void count_try(struct clearing *c)
{
	c->left--;
	g4_add64_rlx(&c->part->tried, 1);
}

G4_FN static bool take_name(struct g4_clear_part *part)
{
	if (g4_load64_rlx(&part->taken) >= part->most)
		return false;
	if (g4_add64_rlx(&part->taken, 1) < part->most)
		return true;
	g4_add64_rlx(&part->taken, UINT64_MAX);
	return false;
}

G4_FN static bool is_waited_for(struct g4_fs *fs, const struct clearing *c)
{
	uint32_t version;

	return c->held != G4_NO_INODE && !g4_read_begin(&g4_icache_at(fs, c->held)->lock, &version);
}

/* Names of one leaf; not all of them where somebody waits, or files with contents are to be deleted: the others are listed again. */
G4_FN static int clear_listed(struct g4_wg *wg, struct g4_fs *fs, struct clearing *c)
{
	/* what is left is at hand of somebody who goes from the first to the last: who comes to help begins elsewhere, each at another place */
	const uint32_t first = c->again ? g4_wg_index(wg) * 29 % c->listed.count : 0;
	uint32_t k = 0;
	int rc = 0;

	while (k < c->listed.count && rc == 0 && may_try(c)) {
		if (c->unused_count == G4_CLEAR_UNUSED || (k > 0 && is_waited_for(fs, c)) || !take_name(c->part))
			break;
		count_try(c);
		rc = clear_entry(wg, fs, c, (first + k++) % c->listed.count);
	}
	const int deleted = let_go(wg, fs, c);
	if (k == c->listed.count && rc == 0)
		pass_listed(c);
	return rc < 0 ? rc : deleted;
}

G4_FN uint64_t g4_clear_span(uint64_t names, uint64_t start, uint64_t first, uint64_t leaf_end, uint32_t leaf_names)
{
	/* commands clear from the start on, and around: between that and the first name there are none */
	const uint64_t cleared = first >= start ? first - start : G4_DIR_POSITIONS - start + first;
	const uint64_t by_all = (G4_DIR_POSITIONS - cleared) / g4_max64(names, 1);
	/* names that are nearer to each other than hashes are, of which few say nothing */
	const uint64_t by_leaf = leaf_names < G4_CLEAR_TELLING ? UINT64_MAX : (leaf_end - first) / leaf_names * 2;

	return g4_max64(g4_min64(by_all, by_leaf), 1);
}

#define LOOKED_BELOW 4u
/* Names of directories that are listed, on average, as far as some of them tell; 0: most of what is listed are none. */
G4_FN static uint64_t names_below(struct g4_wg *wg, struct g4_fs *fs, const struct g4_dir_listed *listed)
{
	uint32_t directories = 0, index;
	uint64_t names = 0;

	for (uint32_t k = 0; k < LOOKED_BELOW; k++) {
		const struct g4_dir_entry *entry = listed->items[k * (listed->count - 1) / (LOOKED_BELOW - 1)].entry;
		if (entry->file_type != 4 || g4_icache_get(wg, fs, entry->inode, &index) < 0)
			continue;
		names += g4_load32_rlx(&g4_icache_at(fs, index)->disk.entries);
		g4_icache_put(fs, index);
		directories++;
	}
	return directories > LOOKED_BELOW / 2 ? names / directories + 1 : 0;
}

/* How `part` is cut into pieces; how many. c->listed: names from where they begin; below: what names_below() says of them. */
G4_FN static uint64_t cut(const struct g4_fs *fs, const struct clearing *c, uint64_t below, struct g4_clear_part *part)
{
	const uint64_t may_go = part->most - g4_load64_rlx(&part->removed);
	const uint64_t workers = g4_min64(g4_load32_rlx(&fs->split.helpers), G4_SPLIT_CLEAR_HELPERS) + 1;
	const uint64_t end = g4_min64(c->listed.next, G4_DIR_POSITIONS);
	/* so many that nobody waits long for who has the last ones */
	const uint64_t names = g4_min64(G4_CLEAR_PIECE_NAMES, g4_min64(c->names, may_go) / G4_CLEAR_PIECES + 1);
	/* a directory that many clear at once is cleared in few transactions, and so its pages are copied few times */
	const uint64_t turns = g4_min64(below / G4_CLEAR_TURN_NAMES, workers / G4_CLEAR_TURNS);

	part->turns = (uint32_t)g4_max64(g4_min64(turns, G4_CLEAR_TURNS), 1);
	part->first = c->listed.items[0].position;
	part->span = g4_clear_span(c->names, c->start, part->first, end, c->listed.count);
	/* of directories one too many is looked at soon, and two in one piece are twice the work */
	const uint64_t each = below > 0 ? g4_min64(names, G4_CLEAR_PIECE_NAMES / below) : names;
	part->span = each > 0 ? part->span * each : part->span / 2 + 1;
	/* each may have what one workgroup of many gets of all that may go: so the first ones do not take it all */
	part->piece_tries = g4_max64(may_go / workers, 2 * below / part->turns);
	part->piece_tries = g4_max64(G4_CLEAR_PIECE_LEAST, g4_min64(G4_CLEAR_PIECE_TRIES, part->piece_tries));
	const uint64_t left = (G4_DIR_POSITIONS - part->first + part->span - 1) / part->span;
	const uint64_t most = g4_min64(G4_CLEAR_PIECES_MOST, G4_CLEAR_TRIES * 2 / 3 / part->piece_tries);
	part->ranges =
		(uint32_t)g4_min64(g4_min64(left, below > 0 ? most : (may_go + names - 1) / names), most / part->turns);
	return (uint64_t)part->ranges * part->turns;
}

/*
 * Lets others clear parts of the directory that was listed, which has many names; from the first listed one on, as many parts as the command
 * may remove names. Whether any name went.
 */
G4_FN static bool share(struct g4_wg *wg, struct g4_fs *fs, struct clearing *c, int *rc)
{
	struct g4_clear_part *part = c->part;
	struct g4_split_work work = {.kind = G4_SPLIT_CLEAR};
	struct g4_split_piece piece;
	uint64_t done;

	*rc = 0;
	if (c->names < G4_CLEAR_SHARED_DIRS || c->here.ino == c->in_vain || g4_load32_rlx(&fs->split.helpers) == 0)
		return false;
	const uint64_t below = names_below(wg, fs, &c->listed);
	if (c->names < G4_CLEAR_SHARED && below == 0)
		return false;
	const uint64_t before = g4_load64_rlx(&part->removed);
	part->ino = c->here.ino;
	part->generation = c->here.generation;
	work.bytes = cut(fs, c, below, part);
	work.clear = part;
	struct g4_split_job *job = g4_split_open(wg, fs, &work);
	if (!job)
		return false;
	while (g4_split_take(job, &piece)) {
		/* `c` is where the command has come to: the owner's pieces have a walk of their own */
		const int failed = g4_clear_piece(wg, fs, part, (uint32_t)piece.offset);
		g4_split_done(job, &piece, failed, 0);
	}
	*rc = g4_split_close(fs, job, &done);
	if (g4_load64_rlx(&part->removed) == before) { /* what is left is wide or deep: name by name, then */
		c->in_vain = c->here.ino;
		return false;
	}
	/* those before the first name have none, whoever left them so */
	uint32_t most = UINT32_MAX;
	const int united = unite(wg, fs, &c->here, part->first >= c->start ? c->start : 0,
				 g4_min64(part->first + part->ranges * part->span, G4_DIR_POSITIONS), &most);
	*rc = *rc < 0 ? *rc : united;
	return true;
}

/* From a directory without names. */
G4_FN static int up(struct g4_wg *wg, struct g4_fs *fs, struct clearing *c)
{
	const int rc = unite_here(wg, fs, c);

	count_try(c);
	if (c->depth > 0) {
		c->here = c->way[--c->depth];
		c->kept = c->way_kept >> c->depth & 1;
		c->way_kept &= ~(UINT64_C(1) << c->depth);
		begin_round(c);
	} else {
		begin_at_top(c);
	}
	return rc;
}

/* The owner's walk. */
G4_FN static int clear(struct g4_wg *wg, struct g4_fs *fs, struct clearing *c)
{
	int rc = 0;

	while (rc == 0 && g4_load64_rlx(&c->part->removed) < c->part->most) {
		if (!may_try(c))
			return -G4_E_NOTEMPTY;
		rc = list(wg, fs, c);
		if (rc == 0 && c->listed.count > 0) {
			if (!share(wg, fs, c, &rc) && rc == 0)
				rc = clear_listed(wg, fs, c);
		} else if ((rc == 0 || rc == -G4_E_NOENT) && !at_top(c)) {
			rc = up(wg, fs, c);
		} else if (rc == 0) {
			break;
		}
	}
	return rc;
}

G4_FN int g4_clear_piece(struct g4_wg *wg, struct g4_fs *fs, struct g4_clear_part *part, uint32_t piece)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct clearing *c = (struct clearing *)g4_scratch_take(wg, sizeof(*c));
	int rc = 0;

	c->part = part;
	c->helps = true;
	c->top.ino = part->ino;
	c->top.generation = part->generation;
	c->from = part->first + piece / part->turns * part->span;
	c->until = g4_min64(c->from + part->span, G4_DIR_POSITIONS);
	/* several that have one range are in the same directory below it, each at another place */
	c->start = piece % part->turns * (G4_DIR_POSITIONS / part->turns);
	c->left = part->piece_tries;
	c->unions = G4_CLEAR_UNIONS;
	c->kept = false;
	c->way_kept = 0;
	c->held = G4_NO_INODE;
	c->unused_count = 0;
	begin_at_top(c);
	while (rc == 0 && g4_load64_rlx(&part->taken) < part->most && may_try(c)) {
		rc = list(wg, fs, c);
		if (rc == 0 && c->listed.count > 0) {
			rc = clear_listed(wg, fs, c);
		} else if ((rc == 0 || rc == -G4_E_NOENT) && !at_top(c)) {
			rc = up(wg, fs, c);
		} else { /* nothing is left of it; that the directory is gone its owner will find */
			break;
		}
	}
	const int united = unite_way(wg, fs, c);
	g4_scratch_release(wg, mark);
	return rc < 0 && rc != -G4_E_NOENT ? rc : united;
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
	c->part = &c->own;
	c->helps = false;
	c->own.cmd = *cmd;
	c->own.cmd.node = top.ino;
	if (cmd->cred) {
		c->own.cred = *cmd->cred;
		c->own.cmd.cred = &c->own.cred;
	}
	c->top = top;
	c->start = (cmd->cookie & UINT32_MAX) << 16;
	c->own.most = g4_min64(cmd->length, G4_CLEAR_MOST);
	c->own.taken = c->own.removed = c->own.tried = 0;
	c->own.tries = G4_CLEAR_TRIES + 4 * c->own.most;
	c->left = UINT64_MAX;
	c->in_vain = 0;
	c->kept = false;
	c->way_kept = 0;
	c->held = G4_NO_INODE;
	c->unused_count = 0;
	begin_at_top(c);
	rc = clear(wg, fs, c);
	cmd->value = g4_load64_rlx(&c->own.removed);
	g4_scratch_release(wg, mark);
	/* what stopped it is met again, before anything else, unless it has stopped all changes: then this is who can say it */
	return cmd->value > 0 && !g4_load32_acq(&fs->journal.aborted) ? 0 : rc;
}
