/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slabs that no name leads to, in space that the maps call free or that a file claims as its contents. Nobody looks
 * there while nothing is wrong, or for -f. A repair does before it says what is lost, when names and slabs that the maps
 * know have been followed.
 *
 * The slab of removed files keeps what it held when its last file went, so a slab in free space proves nothing. What speaks
 * for one:
 *   - it is no older than its group's map. Freeing it would have changed the map in a later transaction, for a page that
 *     a transaction frees is not written by it;
 *   - an inode in it owns pages that the maps call used and that nothing else leads to;
 *   - it is where a file has written contents: these would have replaced it;
 *   - its group's descriptor counts more used pages than the map has bits: so many are missing in the map;
 *   - directories count names that are gone, and fewer inodes were found without a name.
 * The latter two say how many, not which: the newest are taken, unless an inode in it owns pages that are free or
 * somebody else's by now, or there are more inodes in it than names that are gone. What is taken so may be the wrong
 * thing, and does not count as found.
 *
 * What looks like a slab can have been made by the writer of a file there. Therefore inodes that are found like this are
 * doubtful, and lose the rights to act as somebody else: set-id bits, and the permissions of device files.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "fsck/claim.h"
#include "fsck/fix.h"
#include "fsck/inode.h"
#include "fsck/report.h"
#include "fsck/space.h"
#include "fsck/tables.h"
#include "journal/block.h"

struct candidate {
	uint64_t page, generation;
	uint32_t inodes;
	bool taken;
};

struct hunt {
	struct g4_fsck *fsck;
	struct candidate *undecided;
	uint64_t count, room;
	bool contents; /* look at files' contents, too */
	bool found;
};

struct evidence {
	uint32_t inodes, owned; /* in use; pages of these that nobody else has */
	bool outdated;		/* an inode's pages are free, or somebody else's */
};

static bool is_marked(const struct g4_fsck *fsck, uint64_t page)
{
	return g4_fsck_bit(fsck->bad_group, page / G4_GROUP_PAGES) || g4_fsck_bit(fsck->alloc_used, page);
}

static void weigh_pages(const struct g4_fsck *fsck, uint64_t first, uint64_t count, struct evidence *evidence)
{
	for (uint64_t page = first; page < first + count; page++) {
		if (is_marked(fsck, page) && !g4_fsck_bit(fsck->used, page))
			evidence->owned++;
		else
			evidence->outdated = true;
	}
}

static void weigh_inode(struct g4_fsck *fsck, uint64_t ino, struct evidence *evidence)
{
	struct g4_inode inode;

	if (g4_image_inode(fsck->image, ino, &inode) < 0 || (inode.nlink == 0 && (inode.flags & G4_INODE_ORPHAN) == 0))
		return;
	evidence->inodes++;
	if (inode.xattr != 0)
		weigh_pages(fsck, g4_address_page(g4_ptr_address(inode.xattr)), 1, evidence);
	g4_map_walk_start(&fsck->map_walk, fsck->image, ino, &inode);
	for (;;) {
		const struct g4_map_item *item = g4_map_walk_next(&fsck->map_walk);
		if (item->kind == G4_MAP_END)
			return;
		if (item->kind == G4_MAP_DAMAGED) {
			evidence->outdated = true;
			continue;
		}
		weigh_pages(fsck, g4_address_page(g4_ptr_address(item->ptr)), g4_tag_pages(g4_ptr_tag(item->ptr)),
			    evidence);
		if (item->kind == G4_MAP_INDIRECT && g4_map_walk_enter(&fsck->map_walk) < 0)
			evidence->outdated = true;
	}
}

static bool take(struct hunt *hunt, uint64_t page, bool proven)
{
	struct g4_fsck *fsck = hunt->fsck;
	struct g4_fsck_cell *cell = g4_fsck_add(fsck, &fsck->hidden, page);

	if (cell == NULL || g4_fsck_slab(fsck, page, NULL) == NULL)
		return false;
	cell->a = proven;
	hunt->found = true;
	return true;
}

static bool is_written(const struct g4_fsck *fsck, uint64_t page)
{
	return fsck->unwritten == NULL || !g4_fsck_bit(fsck->unwritten, page);
}

/*
 * A file's pointer leads to a page that says it is metadata of this place, though nothing leads to it as that: what the file
 * had there before nobody knows. The next round says so.
 */
static void doubt_contents(struct g4_fsck *fsck, uint64_t page)
{
	const struct g4_address address = g4_page_address(page);
	union {
		g4_le64 slots[G4_INDIRECT_SLOTS];
		struct g4_block_header header;
	} copy;
	struct g4_indirect_header indirect;
	const void *contents;

	if (g4_image_page(fsck->image, address, &contents) < 0)
		return;
	memcpy(&copy, contents, sizeof(copy));
	if (g4_block_verify(&copy, copy.header.type, address, fsck->image->fs_tag) != 0 &&
	    g4_indirect_verify(&copy, address, fsck->image->fs_tag, &indirect) != 0)
		return;
	g4_fsck_note_broken(fsck, address);
	fsck->problems++;
}

/* `newest`: the generation of its group's map. */
static void judge(struct hunt *hunt, uint64_t page, uint64_t newest)
{
	struct g4_fsck *fsck = hunt->fsck;
	struct evidence evidence = {.inodes = 0};
	union {
		uint8_t bytes[G4_PAGE_BYTES];
		struct g4_slab_header slab;
	} copy;

	if (g4_fsck_find(&fsck->slabs, page) != NULL ||
	    g4_image_block_once(fsck->image, g4_page_address(page), G4_BLOCK_SLAB, copy.bytes) < 0 ||
	    g4_slab_validate(&copy.slab) != 0 || copy.slab.kind != G4_SLAB_INODES)
		return;
	for (uint32_t slot = 1; slot < G4_SLAB_SLOTS; slot++) {
		if ((copy.slab.used >> slot & 1) != 0)
			weigh_inode(fsck, g4_ino_of_slot(g4_page_address(page), slot), &evidence);
	}
	if (evidence.inodes == 0)
		return;
	const uint64_t generation = copy.slab.header.generation;
	const bool is_contents = g4_fsck_bit(fsck->used, page);
	const bool written = is_contents && is_written(fsck, page);
	/* What this repair has sealed itself proves nothing. */
	const bool newer = !is_contents && generation >= newest && (!fsck->repairing || generation < fsck->sequence);
	if (newer || written || evidence.owned != 0) {
		take(hunt, page, true);
		return;
	}
	if (evidence.outdated || is_contents || !fsck->repairing ||
	    !g4_fsck_reserve(fsck, (void **)&hunt->undecided, hunt->count, &hunt->room, sizeof(*hunt->undecided)))
		return;
	hunt->undecided[hunt->count++] =
		(struct candidate){.page = page, .generation = generation, .inodes = evidence.inodes};
}

static int compare_ages(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->generation != y->generation)
		return x->generation > y->generation ? -1 : 1;
	return x->page < y->page ? -1 : x->page > y->page;
}

/* How many used pages the descriptor knows that neither the map nor the tree does. */
static uint64_t bits_missing(struct g4_fsck *fsck, uint64_t group)
{
	const struct g4_layout *layout = &fsck->image->layout;
	const uint64_t first = group / G4_GROUPS_PER_PAGE * G4_GROUPS_PER_PAGE;
	struct g4_groups_page page;
	uint64_t known = 0;

	if (g4_image_block(fsck->image, g4_layout_groups_page(layout, group), G4_BLOCK_GROUPS, &page) < 0 ||
	    g4_groups_page_validate(&page, first, layout->group_count) != 0 ||
	    (page.groups[group - first].flags & G4_GROUP_INITIALISED) == 0)
		return 0;
	for (uint64_t word = group * G4_FSCK_GROUP_WORDS; word < (group + 1) * G4_FSCK_GROUP_WORDS; word++) {
		const uint64_t made = fsck->taken == NULL ? 0 : fsck->taken[word];
		known += (uint64_t)__builtin_popcountll((fsck->alloc_used[word] | fsck->used[word]) & ~made);
	}
	const uint64_t used = G4_GROUP_PAGES - page.groups[group - first].free_pages;
	return used > known ? used - known : 0;
}

/* The newest of the undecided of a group, the last of hunt->undecided from `first` on, as many as bits are missing. */
static void settle_group(struct hunt *hunt, uint64_t group, uint64_t first)
{
	uint64_t missing = hunt->fsck->repairing && first < hunt->count ? bits_missing(hunt->fsck, group) : 0;

	if (missing == 0)
		return;
	qsort(hunt->undecided + first, hunt->count - first, sizeof(*hunt->undecided), compare_ages);
	for (uint64_t i = first; i < hunt->count && missing > 0; i++, missing--)
		hunt->undecided[i].taken = take(hunt, hunt->undecided[i].page, false);
}

/* A map that its descriptor does not know was written for this file system all the same. */
static void add_unknown_map(struct g4_fsck *fsck, uint64_t group, const struct g4_alloc_page *map)
{
	for (uint32_t word = 0; word < G4_FSCK_GROUP_WORDS; word++)
		fsck->alloc_used[group * G4_FSCK_GROUP_WORDS + word] |=
			map->regions[word / G4_FSCK_REGION_WORDS].used[word % G4_FSCK_REGION_WORDS];
}

static void search_group(struct hunt *hunt, uint64_t group)
{
	struct g4_fsck *fsck = hunt->fsck;
	const struct g4_layout *layout = &fsck->image->layout;
	const uint64_t before = hunt->count;
	struct g4_alloc_page map;

	/* A damaged one is known to say nothing: a walk through the slabs looks at everything. Else it was never written. */
	if (g4_fsck_bit(fsck->bad_group, group) ||
	    g4_image_block(fsck->image, g4_layout_map_page(layout, group), G4_BLOCK_ALLOC, &map) < 0 ||
	    g4_alloc_page_validate(&map, group) != 0)
		return;
	if (fsck->repairing)
		add_unknown_map(fsck, group, &map);
	for (uint64_t word = group * G4_FSCK_GROUP_WORDS; word < (group + 1) * G4_FSCK_GROUP_WORDS && fsck->fatal == 0;
	     word++) {
		uint64_t pages = ~(fsck->used[word] | fsck->alloc_used[word]);
		if (hunt->contents)
			pages |= fsck->used[word] & ~fsck->metadata[word];
		for (; pages != 0; pages &= pages - 1) {
			const uint64_t page = word * 64 + (uint64_t)__builtin_ctzll(pages);
			if (!g4_layout_holds(layout, g4_page_address(page)))
				continue;
			if (g4_fsck_bit(fsck->used, page) && is_written(fsck, page))
				doubt_contents(fsck, page);
			judge(hunt, page, map.header.generation);
		}
	}
	settle_group(hunt, group, before);
}

/*
 * Names that are gone and whose inodes were not found so far. An inode with fewer names than links proves nothing: one of these
 * may have been its, or its count is wrong.
 */
static uint64_t names_without_inode(struct g4_fsck *fsck)
{
	uint64_t found = fsck->connected + fsck->unnamed, astray = fsck->names_astray;

	for (uint64_t i = 0; i < fsck->slabs.room; i++) {
		const struct g4_fsck_cell *slab = &fsck->slabs.cells[i];
		if (slab->key != 0 && slab->c == 0)
			found += (uint64_t)__builtin_popcount(slab->a & ~slab->b & 0xfffeu);
	}
	for (uint64_t i = 0; i < fsck->links.room; i++) {
		const struct g4_fsck_cell *link = &fsck->links.cells[i];
		if (link->key != 0 && link->a > link->b)
			astray += link->a - link->b;
	}
	found -= g4_min64(found, astray);
	return fsck->names_missing > found ? fsck->names_missing - found : 0;
}

static bool any_leaked(const struct g4_fsck *fsck)
{
	for (uint64_t word = 0; word < fsck->bitmap_words; word++) {
		if (g4_fsck_leaked(fsck, word) != 0)
			return true;
	}
	return false;
}

/* What is told of what was read: nothing that leads to inodes is gone with it. */
static bool hides_nothing(enum g4_fsck_problem kind)
{
	return kind == G4_FSCK_SUPERBLOCK || kind == G4_FSCK_JOURNAL || kind == G4_FSCK_COPY || kind == G4_FSCK_JOB;
}

/* True when something is wrong that may have made inodes disappear. */
static bool is_due(const struct g4_fsck *fsck)
{
	if (!fsck->repairing || fsck->searched)
		return fsck->thorough && !fsck->searched;
	if (fsck->thorough || fsck->reset_journal)
		return true;
	for (uint32_t kind = 0; kind < G4_FSCK_PROBLEM_KINDS; kind++) {
		if (fsck->by_kind[kind] != 0 && !hides_nothing((enum g4_fsck_problem)kind))
			return true;
	}
	return false;
}

bool g4_fsck_find_hidden(struct g4_fsck *fsck)
{
	struct hunt hunt = {.fsck = fsck};

	if (!is_due(fsck))
		return false;
	fsck->searched = true;
	hunt.contents = fsck->repairing && (any_leaked(fsck) || names_without_inode(fsck) != 0);
	for (uint64_t group = 0; group < fsck->image->layout.group_count && fsck->fatal == 0; group++)
		search_group(&hunt, group);
	uint64_t wanted = names_without_inode(fsck);
	if (hunt.count > 1 && wanted > 0)
		qsort(hunt.undecided, hunt.count, sizeof(*hunt.undecided), compare_ages);
	for (uint64_t i = 0; i < hunt.count && wanted > 0 && fsck->fatal == 0; i++) {
		/* Any name that is left would have led to it. */
		const struct candidate *candidate = &hunt.undecided[i];
		if (!candidate->taken && candidate->inodes <= wanted && take(&hunt, candidate->page, false))
			wanted -= candidate->inodes;
	}
	free(hunt.undecided);
	return hunt.found;
}

void g4_fsck_disarm(struct g4_fsck *fsck, uint64_t ino, const struct g4_fsck_where *where)
{
	struct g4_inode *inode = g4_fsck_edit_inode(fsck, ino);
	struct g4_fsck_where here = *where;

	if (inode == NULL)
		return;
	here.ino = ino;
	if (S_ISREG(inode->mode))
		inode->mode &= (g4_le16) ~(S_ISUID | S_ISGID);
	if (S_ISCHR(inode->mode) || S_ISBLK(inode->mode))
		inode->mode &= S_IFMT;
	g4_fsck_seal_inode(fsck, ino);
	g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, &here, 0, 0,
		       "inode 0x%" PRIx64 " was found in space that no map calls its: it may have been removed", ino);
}

bool g4_fsck_is_proven(const struct g4_fsck *fsck, uint64_t ino)
{
	const struct g4_fsck_cell *cell = g4_fsck_find(&fsck->hidden, g4_address_page(g4_ptr_address(ino)));

	return cell == NULL || cell->a != 0;
}

/* ------------------------------------------------------------------ names */

uint64_t g4_fsck_missing_names(struct g4_fsck *fsck, const struct g4_inode *inode, uint64_t dropped, uint64_t found)
{
	/* A count that these pages can not have held is no count. */
	if (inode->entries > inode->pages * (G4_DIR_UNITS / 2) || inode->entries <= dropped + found)
		return 0;
	fsck->names_missing += inode->entries - dropped - found;
	return inode->entries - dropped - found;
}

void g4_fsck_tell_missing(struct g4_fsck *fsck)
{
	/* Beside a directory that is gone, a file without a name may be one of its files, and not of those missed here. */
	const uint64_t all = fsck->dir_gone ? 0 : fsck->connected;
	const uint64_t found = all - g4_min64(all, fsck->names_astray);

	if (fsck->names_missing <= found)
		return;
	fsck->lost_files = fsck->names_missing - found;
	g4_fsck_change(fsck, G4_FSCK_LOST, NULL, 0, 0,
		       "directories counted %" PRIu64 " more names than they have, and what %" PRIu64
		       " of these led to was not found for certain",
		       fsck->names_missing, fsck->lost_files);
}
