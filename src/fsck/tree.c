/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the root to every inode, with a stack of directories instead of recursion. A directory's entries are followed in
 * the order of their inodes, which is that of the disk.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "fsck/claim.h"
#include "fsck/fix.h"
#include "fsck/inode.h"
#include "fsck/jobs.h"
#include "fsck/plan.h"
#include "fsck/report.h"
#include "fsck/space.h"
#include "fsck/tables.h"
#include "fsck/task.h"
#include "fsck/team.h"
#include "fsck/tree.h"

/* Steps up from a lost directory; parents that form a ring must not hold us. */
#define MAX_CLIMB 4096
/* Entries of one directory that one member of a team follows at a time. */
#define RUN_ENTRIES 4096u

/* ------------------------------------------------------------------ the stack */

static uint32_t add_name(struct g4_fsck *fsck, const uint8_t *name, size_t bytes)
{
	while (fsck->name_bytes + bytes + 1 > fsck->name_room) {
		if (!g4_fsck_reserve(fsck, (void **)&fsck->names, fsck->name_room, &fsck->name_room, 1))
			return 0;
	}
	if (fsck->name_bytes + bytes + 1 > UINT32_MAX) {
		fsck->fatal = -G4_E_NOMEM;
		return 0;
	}
	const uint32_t at = (uint32_t)fsck->name_bytes;
	fsck->names[at] = (uint8_t)bytes;
	memcpy(fsck->names + at + 1, name, bytes);
	fsck->name_bytes += bytes + 1;
	return at;
}

void g4_fsck_push(struct g4_fsck *fsck, uint64_t ino, const struct g4_fsck_where *where)
{
	uint8_t name[G4_NAME_MAX];
	size_t bytes = 0;

	if (fsck->team != NULL) {
		g4_fsck_hand_out(fsck, ino, NULL, 0);
		return;
	}
	if (!g4_fsck_reserve(fsck, (void **)&fsck->dirs, fsck->dir_count, &fsck->dir_room, sizeof(*fsck->dirs)) ||
	    !g4_fsck_reserve(fsck, (void **)&fsck->stack, fsck->stack_count, &fsck->stack_room, sizeof(*fsck->stack)))
		return;
	if (where->dir != G4_NO_DIR)
		bytes = g4_fsck_entry_name(fsck, where->leaf_address, where->unit, name);
	const uint32_t name_at = add_name(fsck, name, bytes);
	if (fsck->fatal != 0)
		return;
	fsck->stack[fsck->stack_count++] = (uint32_t)fsck->dir_count;
	fsck->dirs[fsck->dir_count++] = (struct g4_fsck_dir){.ino = ino, .parent = where->dir, .name_at = name_at};
}

/* ------------------------------------------------------------------ what a name leads to */

static void count_inode(struct g4_fsck *fsck, const struct g4_inode *inode)
{
	if (S_ISREG(inode->mode))
		fsck->files++;
	else if (S_ISDIR(inode->mode))
		fsck->directories++;
	else if (S_ISLNK(inode->mode))
		fsck->symlinks++;
	else
		fsck->others++;
}

/* What belongs on the orphan list, for the case that it has to be written anew. */
static void add_orphan(struct g4_fsck *fsck, uint64_t ino)
{
	if (fsck->repairing && g4_fsck_reserve(fsck, (void **)&fsck->orphan_list, fsck->orphan_list_count,
					       &fsck->orphan_list_room, sizeof(*fsck->orphan_list)))
		fsck->orphan_list[fsck->orphan_list_count++] = ino;
}

/* Removed, or shrinking, which only contents behind pointers take more than one transaction for. */
static bool may_be_orphan(const struct g4_inode *inode)
{
	return inode->nlink == 0 || (S_ISREG(inode->mode) && (inode->flags & G4_INODE_INLINE) == 0);
}

static void clear_orphan_flag(struct g4_fsck *fsck, uint64_t ino)
{
	struct g4_inode *inode = g4_fsck_edit_inode(fsck, ino);

	if (inode != NULL)
		inode->flags &= ~(G4_INODE_ORPHAN | G4_INODE_GAP);
	g4_fsck_seal_inode(fsck, ino);
	g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0, "inode 0x%" PRIx64 " is no removed file any more", ino);
}

static void check_orphan_flag(struct g4_fsck *fsck, uint64_t ino, const struct g4_inode *inode,
			      const struct g4_fsck_where *where)
{
	if ((inode->flags & G4_INODE_ORPHAN) == 0 || g4_fsck_find(&fsck->orphans, ino) != NULL)
		return;
	g4_fsck_problem(fsck, G4_FSCK_ORPHAN, where, "inode 0x%" PRIx64 " claims to be on the orphan list, but is not",
			ino);
	if (!fsck->repairing)
		return;
	if (may_be_orphan(inode)) {
		if (inode->nlink == 0)
			g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, where, 0, 0,
				       "inode 0x%" PRIx64 " says it was removed; the next mount releases it", ino);
		add_orphan(fsck, ino);
		fsck->orphans_broken = true;
	} else {
		clear_orphan_flag(fsck, ino);
	}
}

/*
 * Files with one link, nearly all, need no cell: the second name finds them met already (`again`). True: nobody has met
 * the inode before.
 */
static bool count_name(struct g4_fsck *fsck, uint64_t ino, const struct g4_inode *inode, bool again, uint32_t dir)
{
	if (!again && inode->nlink == 1)
		return true;
	struct g4_fsck_table *links = g4_fsck_lock_links(fsck);
	struct g4_fsck_cell *cell = g4_fsck_find(links, ino);
	if (cell == NULL) {
		cell = g4_fsck_add(fsck, links, ino);
		if (cell != NULL) {
			cell->a = again ? 1 : 0;
			cell->b = inode->nlink;
			cell->c = dir;
		}
	}
	const bool first = cell != NULL && ++cell->a == 1 && !again;
	g4_fsck_unlock_links(fsck);
	return first;
}

static void follow_file(struct g4_fsck *fsck, const struct g4_inode *inode, bool again,
			const struct g4_fsck_where *where)
{
	if (!count_name(fsck, where->ino, inode, again, where->dir))
		return;
	count_inode(fsck, inode);
	check_orphan_flag(fsck, where->ino, inode, where);
	g4_fsck_contents(fsck, where->ino, inode, where);
}

/* Which of a directory's names is right shows when all are known: the one in the directory that it calls its parent. */
static void wait_for_parent(struct g4_fsck *fsck, const struct g4_fsck_where *where, uint64_t parent)
{
	if (!g4_fsck_reserve(fsck, (void **)&fsck->late_dirs, fsck->late_count, &fsck->late_room,
			     sizeof(*fsck->late_dirs)))
		return;
	struct g4_fsck_cell *cell = g4_fsck_add(fsck, &fsck->late, where->ino);
	if (cell == NULL)
		return;
	cell->a = (uint32_t)fsck->late_count;
	fsck->late_dirs[fsck->late_count++] = (struct g4_fsck_late){.where = *where, .parent = parent};
}

static void drop_second_name(struct g4_fsck *fsck, const struct g4_fsck_where *where)
{
	g4_fsck_change(fsck, G4_FSCK_REPAIRED, where, 0, 0, "a second name of directory 0x%" PRIx64 " is removed",
		       where->ino);
	g4_fsck_drop_entry(fsck, where);
}

static void follow_second_name(struct g4_fsck *fsck, const struct g4_inode *inode, const struct g4_fsck_where *where,
			       uint64_t parent)
{
	struct g4_fsck_cell *late = g4_fsck_find(&fsck->late, where->ino);

	g4_fsck_problem(fsck, G4_FSCK_TWO_NAMES, where, "directory 0x%" PRIx64 " has another name already", where->ino);
	if (!fsck->repairing)
		return;
	if (late == NULL || inode->parent != parent || fsck->late_dirs[late->a].where.ino == 0) {
		drop_second_name(fsck, where);
		return;
	}
	drop_second_name(fsck, &fsck->late_dirs[late->a].where);
	fsck->late_dirs[late->a].where.ino = 0;
	g4_fsck_push(fsck, where->ino, where);
}

static void follow_directory(struct g4_fsck *fsck, const struct g4_inode *inode, bool again,
			     const struct g4_fsck_where *where, uint64_t parent)
{
	if (again) {
		follow_second_name(fsck, inode, where, parent);
		return;
	}
	check_orphan_flag(fsck, where->ino, inode, where);
	if (inode->parent != parent) {
		g4_fsck_problem(fsck, G4_FSCK_PARENT, where,
				"the directory's parent is 0x%" PRIx64 ", it should be 0x%" PRIx64, inode->parent,
				parent);
		if (fsck->repairing) {
			wait_for_parent(fsck, where, parent);
			return;
		}
	}
	g4_fsck_push(fsck, where->ino, where);
}

static int compare_inodes(const void *a, const void *b)
{
	const struct g4_fsck_entry *x = a, *y = b;

	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

/* Returns the number of subdirectories among entries of directory `ino`. */
static uint64_t follow_run(struct g4_fsck *fsck, const struct g4_fsck_entry *entries, uint64_t count, uint64_t ino,
			   uint32_t dir)
{
	uint64_t subdirectories = 0;

	for (uint64_t i = 0; i < count && fsck->fatal == 0; i++) {
		const struct g4_fsck_entry *entry = &entries[i];
		const struct g4_fsck_where where = {
			.dir = dir,
			.leaf_address = entry->leaf_address,
			.unit = entry->unit,
			.ino = entry->ino,
			.file_type = entry->file_type,
		};
		struct g4_inode inode;
		subdirectories += entry->file_type == S_IFDIR >> 12;
		const enum g4_fsck_met met = g4_fsck_meet(fsck, entry->ino, &where, &inode);
		if (met == G4_FSCK_UNUSABLE)
			continue;
		if (inode.mode >> 12 != entry->file_type) {
			g4_fsck_problem(fsck, G4_FSCK_ENTRY, &where, "the entry is of type %u, its inode of type %u",
					entry->file_type, inode.mode >> 12);
			subdirectories += S_ISDIR(inode.mode);
			subdirectories -= entry->file_type == S_IFDIR >> 12;
			if (fsck->repairing) {
				g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, &where, 0, 0, "the entry is of type %u now",
					       inode.mode >> 12);
				g4_fsck_retype_entry(fsck, &where, inode.mode >> 12);
			}
		}
		if (S_ISDIR(inode.mode))
			follow_directory(fsck, &inode, met == G4_FSCK_AGAIN, &where, ino);
		else
			follow_file(fsck, &inode, met == G4_FSCK_AGAIN, &where);
	}
	return subdirectories;
}

/* A large directory is work for several; that the entries are of the types they say is checked by the member that follows them. */
static uint64_t hand_out_runs(struct g4_fsck *fsck, uint64_t ino)
{
	uint64_t subdirectories = 0;

	for (uint64_t first = 0; first < fsck->entry_count; first += RUN_ENTRIES)
		g4_fsck_hand_out(fsck, ino, &fsck->entries[first], g4_min64(RUN_ENTRIES, fsck->entry_count - first));
	for (uint64_t i = 0; i < fsck->entry_count; i++)
		subdirectories += fsck->entries[i].file_type == S_IFDIR >> 12;
	return subdirectories;
}

/* The same for all entries of the directory at hand. */
static uint64_t follow_entries(struct g4_fsck *fsck, uint64_t ino, uint32_t dir)
{
	if (fsck->entry_count > 1)
		qsort(fsck->entries, fsck->entry_count, sizeof(*fsck->entries), compare_inodes);
	if (fsck->team != NULL && fsck->entry_count > RUN_ENTRIES)
		return hand_out_runs(fsck, ino);
	return follow_run(fsck, fsck->entries, fsck->entry_count, ino, dir);
}

static void set_counts(struct g4_fsck *fsck, const struct g4_fsck_where *where, uint32_t entries, uint32_t links,
		       uint64_t missing)
{
	struct g4_inode *inode = g4_fsck_edit_inode(fsck, where->ino);

	if (inode == NULL)
		return;
	inode->entries = entries;
	inode->nlink = links;
	g4_fsck_seal_inode(fsck, where->ino);
	if (missing == 0)
		g4_fsck_change(fsck, G4_FSCK_REPAIRED, where, 0, 0, "the directory counts %u entries and %u links now",
			       entries, links);
	else
		g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, where, 0, 0,
			       "the directory counts %u entries now: %" PRIu64 " names of it may be gone", entries,
			       missing);
}

static void check_directory(struct g4_fsck *fsck, const struct g4_inode *inode, const struct g4_fsck_where *where)
{
	const uint64_t ino = where->ino;

	const struct g4_fsck_cell *before = g4_fsck_find(&fsck->dropped, ino);
	const uint32_t dropped = before == NULL ? 0 : before->a;

	count_inode(fsck, inode);
	const bool good = g4_fsck_contents(fsck, ino, inode, where);
	const uint64_t entries = fsck->entry_count;
	const uint64_t subdirectories = follow_entries(fsck, ino, where->dir);
	if (!good || fsck->fatal != 0)
		return; /* with a page missing the counts prove nothing */
	if (inode->entries != entries)
		g4_fsck_problem(fsck, G4_FSCK_ENTRIES, where, "the directory counts %u entries, it has %" PRIu64,
				inode->entries, entries);
	if (inode->nlink != 2 + subdirectories)
		g4_fsck_problem(fsck, G4_FSCK_LINKS, where, "the directory counts %u links, it should be %" PRIu64,
				inode->nlink, 2 + subdirectories);
	if (!fsck->repairing || (inode->entries == entries && inode->nlink == 2 + subdirectories))
		return;
	struct g4_fsck_cell *cell = g4_fsck_find(&fsck->dropped, ino);
	if (cell != NULL)
		cell->a -= dropped; /* what was taken from it in this round it counts in the next one */
	set_counts(fsck, where, (uint32_t)entries, (uint32_t)(2 + subdirectories),
		   g4_fsck_missing_names(fsck, inode, dropped, entries));
}

static void check_pushed(struct g4_fsck *fsck, uint32_t dir)
{
	const struct g4_fsck_where where = {.dir = dir, .ino = fsck->dirs[dir].ino};
	struct g4_inode inode;

	/* It was valid when it was pushed. */
	if (g4_fsck_meet(fsck, where.ino, &where, &inode) != G4_FSCK_UNUSABLE)
		check_directory(fsck, &inode, &where);
}

void g4_fsck_do_job(struct g4_fsck *fsck, const struct g4_fsck_job *job)
{
	const struct g4_fsck_where where = {.dir = 0, .ino = job->dir}; /* no paths are told */
	struct g4_inode inode;

	if (job->entries != NULL)
		follow_run(fsck, job->entries, job->count, job->dir, 0);
	else if (g4_image_inode(fsck->image, job->dir, &inode) == 0)
		check_directory(fsck, &inode, &where);
	else /* it was good for the member that handed it out */
		g4_fsck_stop_team(fsck);
}

/* The directories that nobody with a better claim has named are where they were found. */
static bool accept_late(struct g4_fsck *fsck)
{
	const uint64_t count = fsck->late_count;

	for (uint64_t i = 0; i < count && fsck->fatal == 0; i++) {
		const struct g4_fsck_late late = fsck->late_dirs[i];
		if (late.where.ino == 0)
			continue;
		struct g4_inode *inode = g4_fsck_edit_inode(fsck, late.where.ino);
		if (inode == NULL)
			break;
		inode->parent = late.parent;
		g4_fsck_seal_inode(fsck, late.where.ino);
		g4_fsck_change(fsck, G4_FSCK_REPAIRED, &late.where, 0, 0, "the directory's parent is set");
		fsck->late_dirs[i].where.ino = 0;
		g4_fsck_push(fsck, late.where.ino, &late.where);
	}
	return fsck->stack_count > 0;
}

static void drain_stack(struct g4_fsck *fsck)
{
	do {
		while (fsck->stack_count > 0 && fsck->fatal == 0)
			check_pushed(fsck, fsck->stack[--fsck->stack_count]);
	} while (fsck->fatal == 0 && accept_late(fsck));
}

/* ------------------------------------------------------------------ the root */

/* False when `ino` is no directory that can be used. */
static bool find_root(struct g4_fsck *fsck, uint64_t ino, struct g4_inode *inode)
{
	const struct g4_fsck_where where = {.dir = G4_NO_DIR, .ino = ino, .file_type = S_IFDIR >> 12};
	const enum g4_fsck_met met = g4_fsck_meet(fsck, ino, &where, inode);

	return (met == G4_FSCK_FIRST || met == G4_FSCK_AGAIN) && S_ISDIR(inode->mode);
}

/* A root block and a root directory where mkfs puts them; what the old ones led to is looked for. */
static uint64_t replace_root(struct g4_fsck *fsck, struct g4_inode *inode)
{
	const struct g4_address address = g4_layout_root(&fsck->image->layout);
	const uint64_t usual = g4_ino_of_slot(g4_layout_data(&fsck->image->layout), 1);
	struct g4_root root;
	const bool whole = g4_image_block(fsck->image, address, G4_BLOCK_ROOT, &root) == 0;

	if (g4_image_inode(fsck->image, usual, inode) < 0 || !S_ISDIR(inode->mode)) {
		const struct g4_fsck_where where = {.dir = G4_NO_DIR, .ino = usual};
		g4_fsck_change(fsck, G4_FSCK_LOST, &where, 0, 0, "the root directory's inode; it gets a new one");
		fsck->dir_gone = true;
		g4_fsck_make_root(fsck);
		const struct g4_fsck_task task = {
			.kind = G4_FSCK_REBUILD, .ino = usual, .missing = true, .where = where};
		g4_fsck_add_task(fsck, &task);
	}
	struct g4_root *page = (struct g4_root *)(void *)g4_fsck_edit(fsck, address);
	if (page == NULL)
		return 0;
	if (!whole) {
		memset(page, 0, sizeof(*page));
		fsck->forgot_domains = (fsck->image->sb.features_incompat & G4_FEATURE_INCOMPAT_DOMAINS) != 0;
	}
	if (!whole || page->root_inode != usual) {
		page->root_inode = usual;
		g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0, "the root block is written anew");
		fsck->orphans_broken = fsck->orphans_broken || !whole;
	}
	g4_fsck_seal(fsck, address, G4_BLOCK_ROOT);
	fsck->new_root = true;
	return usual;
}

/* Of two that may be the root, the one that says so itself: it is its own parent, where mkfs puts the root. */
static bool usual_is_better(struct g4_fsck *fsck, uint64_t ino)
{
	const uint64_t usual = g4_ino_of_slot(g4_layout_data(&fsck->image->layout), 1);
	struct g4_inode inode;

	return usual != ino && g4_image_inode(fsck->image, usual, &inode) == 0 && S_ISDIR(inode.mode) &&
	       inode.parent == usual;
}

/* The size by the last resize: where a resize is under way a mount believes it, so it must not wait there with another one. */
static void check_size(struct g4_fsck *fsck, const struct g4_root *root)
{
	const struct g4_address address = g4_layout_root(&fsck->image->layout);
	const uint64_t size = fsck->image->sb.size_bytes;

	if (root->size_bytes == 0 || root->size_bytes == size)
		return;
	g4_fsck_problem(fsck, G4_FSCK_ROOT, NULL,
			"the root block says that the file system has %" PRIu64 " bytes, it has %" PRIu64,
			(uint64_t)root->size_bytes, size);
	struct g4_root *page = fsck->repairing ? (struct g4_root *)(void *)g4_fsck_edit(fsck, address) : NULL;
	if (page == NULL)
		return;
	page->size_bytes = size;
	g4_fsck_seal(fsck, address, G4_BLOCK_ROOT);
	g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0, "the root block says the superblock's size");
}

void g4_fsck_count_domains(struct g4_fsck *fsck)
{
	const struct g4_address address = g4_layout_root(&fsck->image->layout);

	if (!fsck->forgot_domains)
		return;
	struct g4_root *page = (struct g4_root *)(void *)g4_fsck_edit(fsck, address);
	if (page == NULL)
		return;
	g4_fsck_problem(fsck, G4_FSCK_ROOT, NULL,
			"the root block does not say how many domains of deduplication there are");
	page->domains = fsck->domains_met;
	g4_fsck_seal(fsck, address, G4_BLOCK_ROOT);
	g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0,
		       "domains of deduplication are %" PRIu64 ", as inodes say that they are of them",
		       fsck->domains_met);
	fsck->forgot_domains = false;
}

void g4_fsck_tree(struct g4_fsck *fsck)
{
	const struct g4_fsck_where nowhere = {.dir = G4_NO_DIR};
	struct g4_root root;
	struct g4_inode inode;
	const int status = g4_image_root(fsck->image, &root);
	uint64_t ino = status == 0 ? root.root_inode : 0;

	if (status < 0) {
		g4_fsck_problem(fsck, G4_FSCK_ROOT, NULL, "the root block is damaged: %s", g4_strerror(status));
		if (!fsck->repairing)
			return;
		replace_root(fsck, &inode);
		return; /* the next round finds the new one */
	}
	check_size(fsck, &root);
	g4_fsck_jobs(fsck, &root);
	const bool found = find_root(fsck, ino, &inode);
	if (!found) {
		const struct g4_fsck_where where = {.dir = G4_NO_DIR, .ino = ino};
		g4_fsck_problem(fsck, G4_FSCK_ROOT, &where, "the root directory can not be used");
		if (fsck->repairing)
			replace_root(fsck, &inode);
		return;
	}
	if (inode.parent != ino && usual_is_better(fsck, ino)) {
		const struct g4_fsck_where where = {.dir = G4_NO_DIR, .ino = ino};
		g4_fsck_problem(fsck, G4_FSCK_ROOT, &where, "the root block names a directory that is in another one");
		if (fsck->repairing)
			replace_root(fsck, &inode);
		return;
	}
	if (inode.parent != ino) {
		const struct g4_fsck_where where = {.dir = G4_NO_DIR, .ino = ino};
		g4_fsck_problem(fsck, G4_FSCK_PARENT, &where, "the root directory's parent is not itself");
		struct g4_inode *slot = fsck->repairing ? g4_fsck_edit_inode(fsck, ino) : NULL;
		if (slot != NULL) {
			slot->parent = ino;
			g4_fsck_seal_inode(fsck, ino);
			g4_fsck_change(fsck, G4_FSCK_REPAIRED, &where, 0, 0, "the root directory's parent is set");
		}
	}
	g4_fsck_push(fsck, ino, &nowhere);
	drain_stack(fsck);
}

/* ------------------------------------------------------------------ orphans */

static bool orphan_is_possible(struct g4_fsck *fsck, uint64_t ino, struct g4_inode *inode)
{
	const struct g4_fsck_where where = {.dir = G4_NO_DIR, .ino = ino};
	const bool again = g4_fsck_find(&fsck->orphans, ino) != NULL;

	if (again || !g4_ino_plausible(ino, &fsck->image->layout)) {
		g4_fsck_problem(fsck, G4_FSCK_ORPHAN, &where, "the orphan list leads to inode 0x%" PRIx64 ", %s", ino,
				again ? "a second time" : "which can not be");
		return false;
	}
	if (g4_image_inode(fsck->image, ino, inode) == 0)
		return true;
	g4_fsck_problem(fsck, G4_FSCK_ORPHAN, &where, "inode 0x%" PRIx64 " on the orphan list can not be used", ino);
	return false;
}

/* On the list without the flag: belongs there when it has no name either. */
static bool mend_orphan(struct g4_fsck *fsck, uint64_t ino, const struct g4_inode *inode)
{
	if (inode->nlink != 0) {
		fsck->orphans_broken = true;
		return false;
	}
	struct g4_inode *slot = g4_fsck_edit_inode(fsck, ino);
	if (slot != NULL)
		slot->flags |= G4_INODE_ORPHAN;
	g4_fsck_seal_inode(fsck, ino);
	g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0, "inode 0x%" PRIx64 " is marked as a removed file", ino);
	return true;
}

/* One inode of the list; its successor, 0 at the end or when the rest can not be reached. */
static uint64_t check_orphan(struct g4_fsck *fsck, uint64_t ino)
{
	const struct g4_fsck_where where = {.dir = G4_NO_DIR, .ino = ino};
	struct g4_inode inode;

	if (!orphan_is_possible(fsck, ino, &inode)) {
		fsck->orphans_broken = true;
		return 0;
	}
	if (g4_fsck_add(fsck, &fsck->orphans, ino) == NULL)
		return 0;
	fsck->orphan_count++;
	if ((inode.flags & G4_INODE_ORPHAN) == 0) {
		g4_fsck_problem(fsck, G4_FSCK_ORPHAN, &where,
				"inode 0x%" PRIx64 " is on the orphan list, but has no such flag", ino);
		if (fsck->repairing && !mend_orphan(fsck, ino, &inode))
			return inode.orphan_next;
	}
	if (!may_be_orphan(&inode)) {
		g4_fsck_problem(fsck, G4_FSCK_ORPHAN, &where,
				"inode 0x%" PRIx64 " on the orphan list has names and nothing to shrink", ino);
		fsck->orphans_broken = true;
		if (fsck->repairing)
			clear_orphan_flag(fsck, ino);
		return inode.orphan_next;
	}
	add_orphan(fsck, ino);
	/* With links left it is being truncated, and its names lead to it. Without, this is where it is met. */
	if (inode.nlink == 0 && g4_fsck_meet(fsck, ino, &where, &inode) == G4_FSCK_FIRST) {
		struct g4_fsck_cell *links = g4_fsck_add(fsck, &fsck->links, ino);
		if (links != NULL)
			links->c = G4_NO_DIR;
		g4_fsck_contents(fsck, ino, &inode, &where);
	}
	return inode.orphan_next;
}

void g4_fsck_orphans(struct g4_fsck *fsck)
{
	struct g4_root root;

	if (g4_image_block(fsck->image, g4_layout_root(&fsck->image->layout), G4_BLOCK_ROOT, &root) < 0)
		return; /* the tree says so */
	for (uint64_t ino = root.orphan_head; ino != 0 && fsck->fatal == 0;)
		ino = check_orphan(fsck, ino);
}

/* ------------------------------------------------------------------ inodes without a name */

static uint64_t slots_unmet(const struct g4_fsck_cell *slab)
{
	return slab->c != 0 ? 0 : slab->a & ~slab->b & 0xfffeu;
}

static bool is_unmet(const struct g4_fsck *fsck, uint64_t ino)
{
	const struct g4_address address = g4_ptr_address(ino);
	const struct g4_fsck_cell *slab = g4_fsck_find(&fsck->slabs, g4_address_page(address));

	return slab != NULL && (slots_unmet(slab) >> g4_slab_slot_of(address) & 1) != 0;
}

/* The top of the lost tree that directory `ino` is part of. */
static uint64_t climb(struct g4_fsck *fsck, uint64_t ino)
{
	struct g4_inode inode;

	for (int step = 0; step < MAX_CLIMB; step++) {
		if (g4_image_inode(fsck->image, ino, &inode) < 0 || !S_ISDIR(inode.mode) || inode.parent == ino ||
		    !is_unmet(fsck, inode.parent))
			return ino;
		const uint64_t parent = inode.parent;
		if (g4_image_inode(fsck->image, parent, &inode) < 0 || !S_ISDIR(inode.mode))
			return ino;
		ino = parent;
	}
	return ino;
}

/* Nothing but its looks speaks for this inode: it must not want what somebody has, or what is free. */
static bool is_convincing(struct g4_fsck *fsck, uint64_t ino)
{
	struct g4_inode inode;

	if (g4_image_inode(fsck->image, ino, &inode) < 0 || (inode.nlink == 0 && (inode.flags & G4_INODE_ORPHAN) == 0))
		return false;
	if (inode.xattr != 0 && g4_fsck_bit(fsck->used, g4_address_page(g4_ptr_address(inode.xattr))))
		return false;
	g4_map_walk_start(&fsck->map_walk, fsck->image, ino, &inode);
	for (;;) {
		const struct g4_map_item *item = g4_map_walk_next(&fsck->map_walk);
		const uint64_t first = g4_address_page(g4_ptr_address(item->ptr));
		if (item->kind == G4_MAP_END)
			return true;
		if (item->kind == G4_MAP_DAMAGED)
			return false;
		for (uint64_t page = first; page < first + g4_tag_pages(g4_ptr_tag(item->ptr)); page++) {
			const bool marked = g4_fsck_bit(fsck->bad_group, page / G4_GROUP_PAGES) ||
					    g4_fsck_bit(fsck->alloc_used, page);
			if (g4_fsck_bit(fsck->used, page) || !marked)
				return false;
		}
		if (item->kind == G4_MAP_INDIRECT && g4_map_walk_enter(&fsck->map_walk) < 0)
			return false;
	}
}

/* An inode found by the looks of its slab only: true when it is taken for what it says. */
static bool confirm(struct g4_fsck *fsck, uint64_t ino)
{
	const uint64_t page = g4_address_page(g4_ptr_address(ino));
	const uint32_t slot = g4_slab_slot_of(g4_ptr_address(ino));
	struct g4_fsck_cell *slab = g4_fsck_find(&fsck->slabs, page);

	if ((slab->d & G4_FSCK_UNCONFIRMED) == 0)
		return true;
	if (is_convincing(fsck, ino)) {
		if (!g4_fsck_bit(fsck->used, page))
			g4_fsck_claim_metadata(fsck, g4_page_address(page), NULL, "a slab");
		return true;
	}
	slab->a &= ~(1u << slot);
	g4_fsck_free_slot(fsck, ino);
	return false;
}

static void connect_later(struct g4_fsck *fsck, const struct g4_fsck_where *where, const struct g4_inode *inode)
{
	const struct g4_fsck_task task = {
		.kind = G4_FSCK_CONNECT, .ino = where->ino, .where = *where, .height = inode->mode >> 12};

	g4_fsck_add_task(fsck, &task);
}

static void take_lost(struct g4_fsck *fsck, uint64_t ino)
{
	const struct g4_fsck_where where = {.dir = G4_NO_DIR, .ino = ino};
	struct g4_inode inode;

	if (fsck->repairing && !confirm(fsck, ino))
		return;
	if (g4_fsck_meet(fsck, ino, &where, &inode) != G4_FSCK_FIRST)
		return;
	g4_fsck_problem(fsck, G4_FSCK_UNREACHABLE, &where,
			"inode 0x%" PRIx64 " (%s, %" PRIu64 " bytes) is in use, but no directory names it", ino,
			S_ISDIR(inode.mode) ? "a directory" :
			S_ISREG(inode.mode) ? "a file" :
					      "a special file",
			inode.size);
	check_orphan_flag(fsck, ino, &inode, &where);
	fsck->unnamed++;
	/* Only a removed one needs no name. */
	if (fsck->repairing && ((inode.flags & G4_INODE_ORPHAN) == 0 || inode.nlink != 0))
		connect_later(fsck, &where, &inode);
	if (S_ISDIR(inode.mode)) {
		g4_fsck_push(fsck, ino, &where);
		drain_stack(fsck);
	} else {
		count_inode(fsck, &inode);
		g4_fsck_contents(fsck, ino, &inode, &where);
	}
}

/* Lost directories first, from their tops, so that what they name is not lost as well. */
static bool take_lost_of_slab(struct g4_fsck *fsck, uint64_t page, bool directories)
{
	bool any = false;

	if (slots_unmet(g4_fsck_find(&fsck->slabs, page)) == 0)
		return false;
	for (uint32_t slot = 1; slot < G4_SLAB_SLOTS && fsck->fatal == 0; slot++) {
		const uint64_t ino = g4_ino_of_slot(g4_page_address(page), slot);
		struct g4_inode inode;
		if (!is_unmet(fsck, ino))
			continue;
		if (directories && (g4_image_inode(fsck->image, ino, &inode) < 0 || !S_ISDIR(inode.mode)))
			continue;
		take_lost(fsck, directories ? climb(fsck, ino) : ino);
		any = true;
	}
	return any;
}

void g4_fsck_unreachable(struct g4_fsck *fsck)
{
	/* Lost trees may lead to slabs that were not known: again until nothing is found. */
	for (bool any = true; any && fsck->fatal == 0;) {
		uint64_t count;
		uint64_t *pages = g4_fsck_keys(fsck, &fsck->slabs, &count);
		any = false;
		for (uint64_t i = 0; i < count; i++)
			any = take_lost_of_slab(fsck, pages[i], true) || any;
		if (g4_fsck_find_hidden(fsck)) {
			free(pages);
			any = true;
			continue;
		}
		/* Names whose directory is lost are better than numbers: what they lead to is looked at in the next round. */
		if (fsck->repairing && g4_fsck_rescue_leaves(fsck)) {
			free(pages);
			return;
		}
		for (uint64_t i = 0; i < count; i++)
			any = take_lost_of_slab(fsck, pages[i], false) || any;
		free(pages);
	}
}

static void set_links(struct g4_fsck *fsck, const struct g4_fsck_where *where, uint32_t links)
{
	struct g4_inode *inode = g4_fsck_edit_inode(fsck, where->ino);

	if (inode == NULL)
		return;
	/* A name that is gone, or one that leads to the wrong file, shows like this. */
	const bool expected = g4_fsck_is_touched(fsck, where->ino);
	fsck->names_astray += links > inode->nlink ? links - inode->nlink : 0;
	inode->nlink = links;
	g4_fsck_seal_inode(fsck, where->ino);
	g4_fsck_change(fsck, expected ? G4_FSCK_REPAIRED : G4_FSCK_DOUBTFUL, where, 0, 0,
		       "inode 0x%" PRIx64 " counts %u links now", where->ino, links);
}

void g4_fsck_link_counts(struct g4_fsck *fsck)
{
	uint64_t count;
	uint64_t *inos = g4_fsck_keys(fsck, &fsck->links, &count);

	for (uint64_t i = 0; i < count; i++) {
		const struct g4_fsck_cell *cell = g4_fsck_find(&fsck->links, inos[i]);
		const struct g4_fsck_where where = {.dir = cell->c, .ino = inos[i]};
		if (cell->a != cell->b)
			g4_fsck_problem(fsck, G4_FSCK_LINKS, &where,
					"inode 0x%" PRIx64 " in this directory counts %u links, it has %u names",
					inos[i], cell->b, cell->a);
		if (cell->a != cell->b && fsck->repairing)
			set_links(fsck, &where, cell->a);
	}
	free(inos);
}
