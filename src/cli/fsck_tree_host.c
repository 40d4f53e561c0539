/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the root to every inode, with a stack of directories instead of recursion. A directory's entries are followed in
 * the order of their inodes, which is that of the disk.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "cli/fsck_host.h"

/* Steps up from a lost directory; parents that form a ring must not hold us. */
#define MAX_CLIMB 4096

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

/* A directory to be looked into later; where is its entry. */
static void push_directory(struct g4_fsck *fsck, uint64_t ino, const struct g4_fsck_where *where)
{
	uint8_t name[G4_NAME_MAX];
	size_t bytes = 0;

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

static void check_orphan_flag(struct g4_fsck *fsck, uint64_t ino, const struct g4_inode *inode,
			      const struct g4_fsck_where *where)
{
	if ((inode->flags & G4_INODE_ORPHAN) != 0 && g4_fsck_find(&fsck->orphans, ino) == NULL)
		g4_fsck_problem(fsck, G4_FSCK_ORPHAN, where,
				"inode 0x%" PRIx64 " claims to be on the orphan list, but is not", ino);
}

/* Files with one link, nearly all, need no cell: the second name finds them met already. */
static void count_name(struct g4_fsck *fsck, uint64_t ino, const struct g4_inode *inode, bool again, uint32_t dir)
{
	if (!again && inode->nlink == 1)
		return;
	struct g4_fsck_cell *cell = g4_fsck_find(&fsck->links, ino);
	if (cell == NULL) {
		cell = g4_fsck_add(fsck, &fsck->links, ino);
		if (cell == NULL)
			return;
		cell->a = again ? 1 : 0;
		cell->b = inode->nlink;
		cell->c = dir;
	}
	cell->a++;
}

static void follow_file(struct g4_fsck *fsck, const struct g4_inode *inode, bool again,
			const struct g4_fsck_where *where)
{
	count_name(fsck, where->ino, inode, again, where->dir);
	if (again)
		return;
	count_inode(fsck, inode);
	check_orphan_flag(fsck, where->ino, inode, where);
	g4_fsck_contents(fsck, where->ino, inode, where);
}

static void follow_directory(struct g4_fsck *fsck, const struct g4_inode *inode, bool again,
			     const struct g4_fsck_where *where, uint64_t parent)
{
	if (again) {
		g4_fsck_problem(fsck, G4_FSCK_TWO_NAMES, where, "directory 0x%" PRIx64 " has another name already",
				where->ino);
		return;
	}
	if (inode->parent != parent)
		g4_fsck_problem(fsck, G4_FSCK_PARENT, where,
				"the directory's parent is 0x%" PRIx64 ", it should be 0x%" PRIx64, inode->parent,
				parent);
	check_orphan_flag(fsck, where->ino, inode, where);
	push_directory(fsck, where->ino, where);
}

static int compare_inodes(const void *a, const void *b)
{
	const struct g4_fsck_entry *x = a, *y = b;

	return x->ino < y->ino ? -1 : x->ino > y->ino;
}

/* Follows the entries of the directory at hand; returns the number of its subdirectories. */
static uint64_t follow_entries(struct g4_fsck *fsck, uint64_t ino, uint32_t dir)
{
	const uint64_t count = fsck->entry_count;
	uint64_t subdirectories = 0;

	if (count > 1)
		qsort(fsck->entries, count, sizeof(*fsck->entries), compare_inodes);
	for (uint64_t i = 0; i < count && fsck->fatal == 0; i++) {
		const struct g4_fsck_entry *entry = &fsck->entries[i];
		const struct g4_fsck_where where = {
			.dir = dir,
			.leaf_address = entry->leaf_address,
			.unit = entry->unit,
			.ino = entry->ino,
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
		}
		if (S_ISDIR(inode.mode))
			follow_directory(fsck, &inode, met == G4_FSCK_AGAIN, &where, ino);
		else
			follow_file(fsck, &inode, met == G4_FSCK_AGAIN, &where);
	}
	return subdirectories;
}

static void check_directory(struct g4_fsck *fsck, uint32_t dir)
{
	const uint64_t ino = fsck->dirs[dir].ino;
	const struct g4_fsck_where where = {.dir = dir, .ino = ino};
	struct g4_inode inode;

	/* It was valid when it was pushed. */
	if (g4_fsck_meet(fsck, ino, &where, &inode) == G4_FSCK_UNUSABLE)
		return;
	count_inode(fsck, &inode);
	const bool good = g4_fsck_contents(fsck, ino, &inode, &where);
	const uint64_t entries = fsck->entry_count;
	const uint64_t subdirectories = follow_entries(fsck, ino, dir);
	if (!good || fsck->fatal != 0)
		return; /* with a page missing the counts prove nothing */
	if (inode.entries != entries)
		g4_fsck_problem(fsck, G4_FSCK_ENTRIES, &where, "the directory counts %u entries, it has %" PRIu64,
				inode.entries, entries);
	if (inode.nlink != 2 + subdirectories)
		g4_fsck_problem(fsck, G4_FSCK_LINKS, &where, "the directory counts %u links, it should be %" PRIu64,
				inode.nlink, 2 + subdirectories);
}

static void drain_stack(struct g4_fsck *fsck)
{
	while (fsck->stack_count > 0 && fsck->fatal == 0)
		check_directory(fsck, fsck->stack[--fsck->stack_count]);
}

/* ------------------------------------------------------------------ the root */

void g4_fsck_tree(struct g4_fsck *fsck)
{
	const struct g4_fsck_where nowhere = {.dir = G4_NO_DIR};
	struct g4_root root;
	struct g4_inode inode;
	const int status = g4_image_root(fsck->image, &root);

	if (status < 0) {
		g4_fsck_problem(fsck, G4_FSCK_ROOT, NULL, "the root block is damaged: %s", g4_strerror(status));
		return;
	}
	const struct g4_fsck_where where = {.dir = G4_NO_DIR, .ino = root.root_inode};
	if (g4_fsck_meet(fsck, root.root_inode, &where, &inode) != G4_FSCK_FIRST || !S_ISDIR(inode.mode)) {
		g4_fsck_problem(fsck, G4_FSCK_ROOT, &where, "the root directory can not be used");
		return;
	}
	if (inode.parent != root.root_inode)
		g4_fsck_problem(fsck, G4_FSCK_PARENT, &where, "the root directory's parent is not itself");
	push_directory(fsck, root.root_inode, &nowhere);
	drain_stack(fsck);
}

/* ------------------------------------------------------------------ orphans */

/* One inode of the list; its successor, 0 at the end or when the rest can not be reached. */
static uint64_t check_orphan(struct g4_fsck *fsck, uint64_t ino)
{
	const struct g4_fsck_where where = {.dir = G4_NO_DIR, .ino = ino};
	struct g4_inode inode;

	if (!g4_ino_plausible(ino, &fsck->image->layout) || g4_fsck_find(&fsck->orphans, ino) != NULL) {
		g4_fsck_problem(fsck, G4_FSCK_ORPHAN, &where, "the orphan list leads to inode 0x%" PRIx64 ", %s", ino,
				g4_fsck_find(&fsck->orphans, ino) != NULL ? "a second time" : "which can not be");
		return 0;
	}
	if (g4_image_inode(fsck->image, ino, &inode) < 0) {
		g4_fsck_problem(fsck, G4_FSCK_ORPHAN, &where, "inode 0x%" PRIx64 " on the orphan list can not be used",
				ino);
		return 0;
	}
	if (g4_fsck_add(fsck, &fsck->orphans, ino) == NULL)
		return 0;
	fsck->orphan_count++;
	if ((inode.flags & G4_INODE_ORPHAN) == 0)
		g4_fsck_problem(fsck, G4_FSCK_ORPHAN, &where,
				"inode 0x%" PRIx64 " is on the orphan list, but has no such flag", ino);
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

	if (g4_image_block(fsck->image, fsck->image->layout.root_address, G4_BLOCK_ROOT, &root) < 0)
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
	const uint64_t address = g4_ptr_address(ino);
	const struct g4_fsck_cell *slab = g4_fsck_find(&fsck->slabs, address / G4_PAGE_BYTES);

	return slab != NULL && (slots_unmet(slab) >> (address % G4_PAGE_BYTES / G4_SLAB_SLOT_BYTES) & 1) != 0;
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

static void take_lost(struct g4_fsck *fsck, uint64_t ino)
{
	const struct g4_fsck_where where = {.dir = G4_NO_DIR, .ino = ino};
	struct g4_inode inode;

	if (g4_fsck_meet(fsck, ino, &where, &inode) != G4_FSCK_FIRST)
		return;
	g4_fsck_problem(fsck, G4_FSCK_UNREACHABLE, &where,
			"inode 0x%" PRIx64 " (%s, %" PRIu64 " bytes) is in use, but no directory names it", ino,
			S_ISDIR(inode.mode) ? "a directory" :
			S_ISREG(inode.mode) ? "a file" :
					      "a special file",
			inode.size);
	check_orphan_flag(fsck, ino, &inode, &where);
	if (S_ISDIR(inode.mode)) {
		push_directory(fsck, ino, &where);
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

	for (uint32_t slot = 1; slot < G4_SLAB_SLOTS && fsck->fatal == 0; slot++) {
		const uint64_t ino = g4_ino_make(page * G4_PAGE_BYTES + slot * G4_SLAB_SLOT_BYTES);
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
		for (uint64_t i = 0; i < count; i++)
			any = take_lost_of_slab(fsck, pages[i], false) || any;
		free(pages);
	}
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
	}
	free(inos);
}
