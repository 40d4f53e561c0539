/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scrub. First what lies at fixed places: superblocks, root block, the journal's header, descriptors and maps. Then the tree, a directory
 * in the order of its positions, what a name leads to when it comes to it, subdirectories at once: so every page is reached from what
 * leads to it, under the lock that keeps it what it is. Nothing is believed for its looks.
 *
 * Pages of files are fetched as for any reader, but into memory of the scrub's own. Metadata is looked at on the device
 * (journal/look.c), and through the cache to get on. What is damaged becomes a finding, and is not followed; readers that meet it get
 * their own errors. Nothing is changed but sums, where they are to be added.
 *
 * A scrub of one file or directory alone begins there, and looks at nothing that lies at fixed places. Of a file
 * alone the cursor has the page, and whether it is done: CURSOR_AT.
 *
 * The cursor says which directory, which position, and which page of the file there; what is in front of it is done. Where the scrub goes
 * on above that is in memory alone: after a remount it finds the place of the directory in its parent. Inodes that get other names
 * meanwhile are looked at once more, for they may have gone from where it will come to where it was. When the tree is through
 * inodes are met that no name leads to any more: the orphan list has them.
 *
 * Last, on sets with parity, rows are compared: what is known to be wrong in one that does not fit is written again by the set, which
 * counts it by disk; else it becomes a finding.
 */
#include "fs/scrub.h"

#include "alloc/share.h"
#include "data/dedup.h"
#include "data/resum.h"
#include "fs/names.h"
#include "fs/scrub_look.h"
#include "fs/scrub_rows.h"
#include "fs/scrub_span.h"
#include "fs/xattr.h"
#include "inode/txn.h"

enum { PHASE_FIXED, PHASE_TREE, PHASE_ROWS, PHASE_AGAIN, PHASE_MEND };
/* What alone is looked at, with what is below it; 0: everything. */
enum { ARGUMENT_INODE, ARGUMENT_GENERATION };
/* Damaged: whether anything was, before rows are compared. */
enum {
	CURSOR_PHASE,
	CURSOR_AT,
	CURSOR_DIR,
	CURSOR_POSITION,
	CURSOR_FILE,
	CURSOR_PAGE,
	CURSOR_GENERATION,
	CURSOR_DAMAGED
};
#define FIXED_PAGES 4u

/* ------------------------------------------------------------------ metadata */

G4_FN static void look_at_slab(struct g4_scrub_step *step, uint64_t ino, struct g4_address address)
{
	g4_scrub_look_once(step, ino, address, G4_BLOCK_SLAB, g4_scrub_seen(step, address));
}

/* ------------------------------------------------------------------ contents */

/*
 * One copy of a page of counts is damaged: the next checkpoint writes all copies, for they stay where they are in a transaction alone.
 * Whether that is so.
 */
G4_FN static bool rewrite_owners(struct g4_scrub_step *step, uint64_t group, uint32_t n)
{
	struct g4_txn txn;

	if (g4_space_copies(&step->fs->space) == 1 || (step->fs->flags & G4_FS_READ_ONLY) ||
	    g4_begin(step->wg, step->fs, 1, &txn) < 0)
		return false;
	const int rc = g4_share_rewrite(step->wg, &step->fs->alloc, &txn, group, n);
	return g4_end(step->fs, &txn, 0) == 0 && rc == 0;
}

/* Counts of owners, and listed pages. Nothing keeps them where they are: what looks wrong may have been given back meanwhile. */
G4_FN static void look_at_owners(struct g4_scrub_step *step, uint64_t group)
{
	struct g4_alloc *alloc = &step->fs->alloc;
	struct g4_address at, now;
	uint32_t type;

	if (g4_share_place(step->wg, alloc, group, 0, &at, &type) < 0)
		return; /* nothing; or the map can not be read, which was found */
	for (uint32_t n = 0; n < G4_SHARE_PLACES; n++) {
		if (g4_share_place(step->wg, alloc, group, n, &at, &type) < 0)
			continue; /* what leads there was found, if it is damaged */
		const int rc = g4_journal_look(step->wg, &step->fs->journal, at, type, step->buffer);
		g4_scrub_count(step, 1);
		if (rc < 0 && g4_share_place(step->wg, alloc, group, n, &now, &type) == 0 && g4_address_is(at, now) &&
		    !rewrite_owners(step, group, n))
			g4_scrub_find_metadata(step, 0, at, rc);
	}
}

/* Whether all maps are done. */
G4_FN static bool look_at_fixed(struct g4_scrub_step *step)
{
	const struct g4_layout *layout = &step->fs->meta.layout;
	const uint64_t groups = layout->group_count;
	uint64_t *at = &step->record->cursor[CURSOR_AT];

	step->dir = 0;
	if (*at == 0) {
		const struct g4_address places[FIXED_PAGES] = {G4_SUPERBLOCK, g4_layout_backup(layout),
							       g4_layout_root(layout), g4_layout_journal(layout)};
		const uint32_t types[FIXED_PAGES] = {G4_BLOCK_SUPERBLOCK, G4_BLOCK_SUPERBLOCK, G4_BLOCK_ROOT,
						     G4_BLOCK_JOURNAL_HEADER};
		for (uint32_t k = 0; k < FIXED_PAGES; k++)
			if (types[k] != G4_BLOCK_SUPERBLOCK || !g4_load32_acq(&step->fs->resizing))
				g4_scrub_look(step, 0, places[k], types[k]);
	}
	while (*at < groups && step->pages < G4_SCRUB_PAGES) {
		const uint64_t first = g4_layout_groups_first(*at);
		g4_scrub_look(step, 0, g4_layout_groups_page(layout, first), G4_BLOCK_GROUPS);
		/* by the cache: what the device has may be old, or damaged and going to be written */
		for (; *at < g4_min64(groups, first + G4_GROUPS_PER_PAGE); ++*at)
			if (g4_alloc_has_map(step->wg, &step->fs->alloc, *at) > 0) {
				g4_scrub_look(step, 0, g4_layout_map_page(layout, *at), G4_BLOCK_ALLOC);
				look_at_owners(step, *at);
			}
	}
	return *at >= groups;
}

/* A page of attributes or of the value of one, referenced; NULL: it can not be had, which was said. */
G4_FN static const struct g4_xattr_page *look_at_link(struct g4_scrub_step *step, const struct g4_inode_core *inode,
						      g4_ptr ptr, uint32_t type, uint32_t *line)
{
	const struct g4_address address = g4_ptr_address(ptr);

	if (g4_scrub_look(step, inode->ino, address, type) < 0)
		return NULL;
	int rc = g4_meta_get(step->wg, &step->fs->meta, address, type, line);
	if (rc < 0) {
		g4_scrub_find_metadata(step, inode->ino, address, rc);
		return NULL;
	}
	const struct g4_xattr_page *page = (const struct g4_xattr_page *)g4_line_data(&step->fs->cache, *line);
	if (type == G4_BLOCK_XATTR)
		rc = g4_xattr_page_validate(page, &step->fs->meta.layout);
	if (rc == 0 && page->inode == inode->ino)
		return page;
	g4_scrub_find_metadata(step, inode->ino, address, -G4_E_CORRUPT_XATTR);
	g4_cache_put(&step->fs->cache, *line);
	return NULL;
}

G4_FN static void look_at_value(struct g4_scrub_step *step, const struct g4_inode_core *inode, g4_ptr ptr)
{
	for (uint32_t n = 0; ptr && n < G4_XATTR_MAX_PAGES; n++) {
		uint32_t line;
		const struct g4_xattr_page *page = look_at_link(step, inode, ptr, G4_BLOCK_XATTR_VALUE, &line);
		if (!page)
			return;
		ptr = page->next;
		g4_cache_put(&step->fs->cache, line);
	}
}

G4_FN static void look_at_attributes(struct g4_scrub_step *step, const struct g4_inode_core *inode)
{
	g4_ptr ptr = inode->disk.xattr, value;

	for (uint32_t n = 0; ptr && n < G4_XATTR_MAX_PAGES; n++) {
		uint32_t line;
		const struct g4_xattr_page *page = look_at_link(step, inode, ptr, G4_BLOCK_XATTR, &line);
		if (!page)
			return;
		for (uint32_t at = 0; at < page->bytes;) {
			const struct g4_xattr_record *record =
				(const struct g4_xattr_record *)(const void *)(page->payload + at);
			memcpy(&value, (const char *)(record + 1) + record->name_bytes, sizeof(value));
			if (record->flags & G4_XATTR_EXTERNAL)
				look_at_value(step, inode, value);
			at += record->record_bytes;
		}
		ptr = page->next;
		g4_cache_put(&step->fs->cache, line);
	}
}

/* What an inode owns beside its contents. Read-locked. */
G4_FN static void look_at_inode(struct g4_scrub_step *step, const struct g4_inode_core *inode)
{
	const uint64_t block = g4_align_down(inode->disk.checksums, G4_PAGE_BYTES);

	look_at_attributes(step, inode);
	if (block)
		look_at_slab(step, inode->ino, g4_address_from(block));
}

/* ------------------------------------------------------------------ contents */

/* The pages of copies that are not the same, of those that were just read: without sums nobody can tell which of them is right. */
G4_FN static uint64_t unlike(struct g4_scrub_step *step, const struct g4_inode_core *inode, uint64_t page,
			     struct g4_address address, uint32_t pages, const struct g4_sum_entry *sums)
{
	const uint32_t copies = g4_space_copies(&step->fs->space);
	uint64_t differ = 0;

	for (uint32_t k = 0; copies > 1 && k < pages; k++) {
		const struct g4_address at = g4_address_after_pages(address, k);
		const struct g4_finding finding = {inode->ino, step->dir, page + k, g4_address_stored(at),
						   1,	       G4_E_DATA};
		for (uint32_t copy = 0; copy < copies; copy++)
			if (g4_sum_entry_algorithm(&sums[k]) == G4_CHECKSUM_NONE && !(differ >> k & 1) &&
			    g4_space_read_copy_as(step->wg, &step->fs->space, copy, at, step->buffer, G4_PAGE_BYTES,
						  G4_IO_CLASS(G4_CLASS_BACKGROUND)) == 0 &&
			    !g4_bytes_equal(step->buffer, step->scrub->pages + k * G4_PAGE_BYTES, G4_PAGE_BYTES))
				differ |= UINT64_C(1) << k;
		if (differ >> k & 1)
			g4_finding_add(step->fs, step->record, &finding);
	}
	return differ;
}

/* And those without a sum that were listed with that of other contents (data/dedup.h). */
G4_FN static uint64_t unlisted(struct g4_scrub_step *step, const struct g4_inode_core *inode, uint64_t page,
			       struct g4_address address, uint32_t pages, const struct g4_sum_entry *sums)
{
	const uint64_t bad = g4_dedup_compare(step->wg, step->fs, address, step->scrub->pages, pages, sums);

	for (uint32_t k = 0; k < pages; k++) {
		const struct g4_address at = g4_address_after_pages(address, k);
		const struct g4_finding finding = {inode->ino, step->dir, page + k, g4_address_stored(at),
						   1,	       G4_E_DATA};
		if (bad >> k & 1)
			g4_finding_add(step->fs, step->record, &finding);
	}
	return bad;
}

/*
 * The same for pages that get sums, the inode being write-locked: so many are done, 0: none of them gets any. A large page is done as a
 * whole, from its beginning on.
 */
G4_FN static uint64_t give_sums(struct g4_scrub_step *step, uint32_t index, uint64_t page, uint64_t end)
{
	const struct g4_inode_core *inode = g4_icache_at(step->fs, index);
	const uint32_t mark = g4_scratch_mark(step->wg);
	uint8_t *const to = step->to;
	struct g4_run run;
	struct g4_resum *resum = (struct g4_resum *)g4_scratch_take(step->wg, sizeof(*resum));
	uint32_t pages = 0;

	g4_scrub_look_at_nodes(step, inode, page);
	int rc = g4_map_lookup(step->wg, step->fs, inode, page, end - page, &run);
	/* what was done of it before it became a large page is done with it once more */
	const uint64_t first = rc == 0 && run.level > 0 ? g4_align_down(page, G4_RESUM_PAGES) : page;
	if (first < page)
		rc = g4_map_lookup(step->wg, step->fs, inode, first, end - first, &run);
	if (rc == 0)
		pages = g4_resum_begin(step->wg, step->fs, inode, first, &run, G4_SCRUB_PAGES, resum);
	step->to = step->scrub->pages; /* of this memory the sums are */
	for (uint32_t done = 0; done < pages;) {
		const struct g4_address at = g4_address_after_pages(run.address, done);
		const uint32_t n = (uint32_t)g4_min64(pages - done, G4_SCRUB_PAGES);
		uint64_t keep = g4_scrub_read(step, inode, first + done, at, n);
		keep |= unlike(step, inode, first + done, at, n, &resum->sums[done]);
		keep |= unlisted(step, inode, first + done, at, n, &resum->sums[done]);
		g4_resum_add(step->wg, resum, step->scrub->pages, n, keep);
		done += n;
	}
	step->to = to;
	if (pages > 0)
		step->rc = g4_resum_end(step->wg, step->fs, index, resum);
	if (pages > 0 && step->rc == 0)
		step->record->summed += resum->changed;
	g4_scratch_release(step->wg, mark);
	return pages ? pages - (page - first) : 0;
}

/* Goes on with a file, read-locked, or write-locked where it gets sums, from *page on. Whether it is through. */
G4_FN static bool read_file(struct g4_scrub_step *step, uint32_t index, bool gives, uint64_t *page)
{
	const struct g4_inode_core *inode = g4_icache_at(step->fs, index);
	const uint64_t end = g4_map_capacity_pages(inode->disk.map_height);

	if (inode->dead || (inode->disk.flags & G4_INODE_INLINE) ||
	    !(g4_is_reg(inode->disk.mode) || g4_is_link(inode->disk.mode)))
		return true;
	while (*page < end && step->pages < G4_SCRUB_PAGES && step->rc == 0) {
		const uint64_t given = gives ? give_sums(step, index, *page, end) : g4_scrub_share(step, index, *page);
		if (step->rc < 0)
			break;
		const int64_t done = given ? (int64_t)given : g4_scrub_some(step, inode, *page, end, G4_SCRUB_PAGES);
		if (done < 0) { /* what is there can not be had: on to what another pointer of the inode leads to */
			const uint64_t span = UINT64_C(1) << 9 * g4_max64(inode->disk.map_height, 1);
			*page = inode->disk.map_height ? g4_align_down(*page, span) + span : end;
			continue;
		}
		*page += (uint64_t)done;
	}
	return *page >= end;
}

/* ------------------------------------------------------------------ the tree */

G4_FN static void let_go(struct g4_fs *fs, uint32_t *index)
{
	if (*index != G4_NO_INODE)
		g4_icache_put(fs, *index);
	*index = G4_NO_INODE;
}

/* Into a directory, referenced, which the scrub has from now on. */
G4_FN static void enter(struct g4_scrub_step *step, uint32_t index, uint64_t position)
{
	const struct g4_inode_core *inode = g4_icache_at(step->fs, index);

	step->scrub->dir = index;
	step->record->cursor[CURSOR_DIR] = inode->ino;
	step->record->cursor[CURSOR_GENERATION] = inode->disk.generation;
	step->record->cursor[CURSOR_POSITION] = position;
	step->record->cursor[CURSOR_FILE] = step->record->cursor[CURSOR_PAGE] = 0;
	for (uint32_t k = 0; k < G4_DIR_PATH; k++)
		step->scrub->leaves[k] = 0;
}

/* The same, to come back to the one that it is in, at `position`. Of too many above each other the highest is forgotten. */
G4_FN static void descend(struct g4_scrub_step *step, uint32_t index, uint64_t position)
{
	struct g4_scrub *scrub = step->scrub;

	if (scrub->depth == G4_SCRUB_DEPTH) {
		g4_icache_put(step->fs, scrub->stack[0]);
		scrub->depth--;
		for (uint32_t k = 0; k < scrub->depth; k++) {
			scrub->stack[k] = scrub->stack[k + 1];
			scrub->positions[k] = scrub->positions[k + 1];
		}
	}
	scrub->stack[scrub->depth] = scrub->dir;
	scrub->positions[scrub->depth++] = position;
	enter(step, index, 0);
}

/* Where a directory, locked for reading, names an inode; UINT64_MAX: nowhere. */
G4_FN static uint64_t position_of(struct g4_scrub_step *step, const struct g4_inode_core *dir, uint64_t ino)
{
	const struct g4_dir of = g4_dir_shared(step->fs, dir);
	const uint32_t mark = g4_scratch_mark(step->wg);
	struct g4_dir_listed *listed = (struct g4_dir_listed *)g4_scratch_take(step->wg, sizeof(*listed));
	uint64_t found = UINT64_MAX;

	for (uint64_t from = 0; from != UINT64_MAX && found == UINT64_MAX; from = listed->next) {
		if (g4_dir_read_leaf(step->wg, &of, from, listed) < 0)
			break;
		for (uint32_t k = 0; k < listed->count; k++)
			if (listed->items[k].entry->inode == ino)
				found = listed->items[k].position;
	}
	g4_scratch_release(step->wg, mark);
	return found;
}

/* Where the scrub begins, referenced. G4_NO_INODE: that is not there any more, or can not be had. */
G4_FN static uint32_t get_top(struct g4_scrub_step *step)
{
	const uint64_t *arguments = step->record->arguments;
	uint32_t index = step->fs->root_index;

	if (arguments[ARGUMENT_INODE] == 0) {
		g4_icache_ref(step->fs, index);
		return index;
	}
	if (!g4_ino_plausible(arguments[ARGUMENT_INODE], &step->fs->meta.layout) ||
	    g4_icache_get(step->wg, step->fs, arguments[ARGUMENT_INODE], &index) < 0)
		return G4_NO_INODE;
	if (g4_icache_at(step->fs, index)->disk.generation == arguments[ARGUMENT_GENERATION])
		return index;
	g4_icache_put(step->fs, index);
	return G4_NO_INODE;
}

/* Into the directory where it begins, or to the end of the tree where that is none. */
G4_FN static void enter_top(struct g4_scrub_step *step)
{
	uint32_t top = get_top(step);
	const bool dir = top != G4_NO_INODE && g4_is_dir(g4_inode_core_type(g4_icache_at(step->fs, top)));

	if (!dir) {
		let_go(step->fs, &top);
		top = step->fs->root_index;
		g4_icache_ref(step->fs, top);
	}
	enter(step, top, dir ? 0 : UINT64_MAX);
}

/*
 * The next inodes that no name leads to, but handles that have them open: they are met as those that were moved are. Whether
 * there are any. One that
 * goes from the list meanwhile may hide one that is far behind.
 */
G4_FN static bool take_nameless(struct g4_scrub_step *step)
{
	struct g4_fs *fs = step->fs;
	uint32_t skip = step->scrub->nameless, taken = 0;

	g4_lock(&fs->orphan_lock);
	for (uint32_t index = fs->orphan_head; index != G4_NO_INODE && taken < G4_SCRUB_MOVED;
	     index = g4_icache_at(fs, index)->orphan_next) {
		if (skip > 0) {
			skip--;
			continue;
		}
		g4_scrub_moved(fs, index);
		taken++;
	}
	g4_unlock(&fs->orphan_lock);
	step->scrub->nameless += taken;
	return taken > 0;
}

/* The directory is through. Whether the tree is. */
G4_FN static bool ascend(struct g4_scrub_step *step)
{
	struct g4_scrub *scrub = step->scrub;
	const struct g4_inode_core *inode = g4_icache_at(step->fs, scrub->dir);
	const uint64_t ino = inode->ino;
	uint32_t parent = G4_NO_INODE;
	uint64_t position = UINT64_MAX;

	if (scrub->depth > 0) {
		let_go(step->fs, &scrub->dir);
		scrub->depth--;
		enter(step, scrub->stack[scrub->depth], scrub->positions[scrub->depth]);
		return false;
	}
	if (scrub->dir == step->fs->root_index || ino == step->record->arguments[ARGUMENT_INODE])
		return g4_load32_rlx(&scrub->moved_count) == 0 &&
		       (step->record->arguments[ARGUMENT_INODE] != 0 || !take_nameless(step));
	g4_read_lock(&g4_icache_at(step->fs, scrub->dir)->lock);
	if (!inode->dead && g4_icache_get(step->wg, step->fs, inode->disk.parent, &parent) < 0)
		parent = G4_NO_INODE;
	g4_read_unlock(&g4_icache_at(step->fs, scrub->dir)->lock);
	if (parent != G4_NO_INODE) {
		struct g4_inode_core *above = g4_icache_at(step->fs, parent);
		g4_read_lock(&above->lock);
		if (!above->dead && g4_is_dir(above->disk.mode))
			position = position_of(step, above, ino);
		g4_read_unlock(&above->lock);
	}
	let_go(step->fs, &scrub->dir);
	if (position ==
	    UINT64_MAX) { /* it was removed, or what is above it can not be had: from the top on once more */
		let_go(step->fs, &parent);
		enter_top(step);
	} else {
		enter(step, parent, position + 1);
	}
	return false;
}

/*
 * The inode of the first name that was listed, referenced, and its slab is looked at while nobody can take the name away, so that it is
 * one. 1: it is that, or damaged (G4_NO_INODE); 0: the leaf has changed since; -1: there is no room for it.
 */
G4_FN static int get_listed(struct g4_scrub_step *step, const struct g4_inode_core *dir,
			    const struct g4_dir_listed *listed, uint32_t *index)
{
	const uint64_t ino = listed->items[0].entry->inode;
	const struct g4_address slab = g4_address_page_start(g4_ptr_address(ino));
	int rc = g4_icache_get(step->wg, step->fs, ino, index);
	bool leads = g4_dir_listed_holds(listed);

	if (rc == 0 && leads) {
		struct g4_inode_core *inode = g4_icache_at(step->fs, *index);
		const bool child = g4_check_child(step->fs, dir, *index) == 0;
		if (child)
			g4_read_lock(&inode->lock);
		leads = g4_dir_listed_holds(listed);
		if (leads)
			look_at_slab(step, ino, slab);
		if (child)
			g4_read_unlock(&inode->lock);
	} else if (rc < 0 && leads) {	       /* nobody has it, or could take its name */
		look_at_slab(step, ino, slab); /* which may mend it */
		rc = g4_icache_get(step->wg, step->fs, ino, index);
		if (rc < 0 && rc != -G4_E_NFILE && rc != -G4_E_NOMEM)
			g4_scrub_find_metadata(step, ino, slab, rc);
	}
	if (rc == 0 && !leads)
		g4_icache_put(step->fs, *index);
	if (rc < 0 || !leads)
		*index = G4_NO_INODE;
	return !leads ? 0 : rc == -G4_E_NFILE || rc == -G4_E_NOMEM ? -1 : 1;
}

/*
 * Whether the way to a leaf is what it was before the leaf was read. A split that came between both has made it that of another leaf, and
 * none of the two is found by its old way again: leaves are joined by who has the directory alone.
 */
G4_FN static bool is_same_way(struct g4_scrub_step *step, const struct g4_dir *dir, uint64_t from,
			      const struct g4_address *path, uint32_t ways)
{
	struct g4_address now[G4_DIR_PATH];
	uint32_t count;

	(void)g4_dir_path(step->wg, dir, from, now, &count);
	return count == ways && (ways == 0 || g4_address_is(now[ways - 1], path[ways - 1]));
}

/* The first name of a listing; as next_name(). 0: it is gone since. */
G4_FN static int meet_name(struct g4_scrub_step *step, const struct g4_inode_core *dir,
			   const struct g4_dir_listed *listed, struct g4_address leaf, uint32_t *index)
{
	step->dir = dir->ino;
	if (g4_ino_plausible(listed->items[0].entry->inode, &step->fs->meta.layout))
		return get_listed(step, dir, listed, index);
	g4_scrub_find_metadata(step, dir->ino, leaf, -G4_E_CORRUPT_DIR);
	return 1;
}

/* What the next name of the directory leads to, referenced; 0: there is none; -1: there is no room for it. */
G4_FN static int next_name(struct g4_scrub_step *step, uint32_t *index, uint64_t *position)
{
	struct g4_inode_core *inode = g4_icache_at(step->fs, step->scrub->dir);
	const uint32_t mark = g4_scratch_mark(step->wg);
	struct g4_dir_listed *listed = (struct g4_dir_listed *)g4_scratch_take(step->wg, sizeof(*listed));
	struct g4_address path[G4_DIR_PATH];
	uint64_t from = *position >> 48 ? UINT64_MAX : *position;
	int found = 0;

	*index = G4_NO_INODE;
	g4_read_lock(&inode->lock);
	const struct g4_dir dir = g4_dir_shared(step->fs, inode);
	while (!inode->dead && found == 0 && from != UINT64_MAX && step->pages < G4_SCRUB_PAGES) {
		uint32_t ways;
		int rc = g4_dir_path(step->wg, &dir, from, path, &ways);
		for (uint32_t k = 0; k < ways; k++)
			g4_scrub_look_once(step, inode->ino, path[k], G4_BLOCK_DIR_LEAF, &step->scrub->leaves[k]);
		if (rc == 0)
			rc = g4_dir_read_leaf(step->wg, &dir, from, listed);
		const bool bad = rc < 0 || (listed->count > 0 &&
					    !g4_ino_plausible(listed->items[0].entry->inode, &step->fs->meta.layout));
		if (bad && !is_same_way(step, &dir, from, path, ways))
			continue; /* and the leaf is named that it is in now */
		if (rc < 0) {	  /* the rest of its names can not be had */
			if (ways > 0)
				g4_scrub_find_metadata(step, inode->ino, path[ways - 1], rc);
			from = UINT64_MAX;
			break;
		}
		if (listed->count > 0) {
			*position = from = listed->items[0].position;
			found = meet_name(step, inode, listed, path[ways - 1], index);
		} else {
			from = listed->next;
		}
	}
	g4_read_unlock(&inode->lock);
	g4_scratch_release(step->wg, mark);
	if (found == 0)
		*position = from;
	return found;
}

/* An inode, referenced: what it has beside its contents. The reference is given on. back: where the directory goes on. */
G4_FN static void meet(struct g4_scrub_step *step, uint32_t index, uint64_t back, uint64_t page, bool extra)
{
	struct g4_inode_core *inode = g4_icache_at(step->fs, index);

	g4_read_lock(&inode->lock);
	const bool dir = g4_is_dir(inode->disk.mode);
	if (!inode->dead)
		look_at_inode(step, inode);
	g4_read_unlock(&inode->lock);
	if (dir) {
		descend(step, index, back);
		return;
	}
	step->scrub->file = index;
	step->scrub->page = page;
	step->scrub->extra = extra;
	if (!extra)
		step->record->cursor[CURSOR_FILE] = inode->ino;
}

/* Takes one of those that were moved, if there is any. */
G4_FN static uint32_t take_moved(struct g4_scrub *scrub)
{
	uint32_t index = G4_NO_INODE;

	if (g4_load32_rlx(&scrub->moved_count) == 0)
		return index;
	g4_lock(&scrub->moved_lock);
	if (scrub->moved_count > 0) {
		index = scrub->moved[scrub->moved_count - 1];
		g4_store32_rlx(&scrub->moved_count, scrub->moved_count - 1);
	}
	g4_unlock(&scrub->moved_lock);
	return index;
}

/* Goes on with the file that it is at. Those that were moved have no place in the cursor. */
G4_FN static void walk_file(struct g4_scrub_step *step)
{
	struct g4_scrub *scrub = step->scrub;
	struct g4_inode_core *inode = g4_icache_at(step->fs, scrub->file);
	uint64_t *cursor = step->record->cursor;

	const bool gives = (step->record->flags & G4_JOB_ADD_SUMS) != 0 && !scrub->again;
	const uint64_t ino = inode->ino;

	step->dir = scrub->extra ? 0 : g4_icache_at(step->fs, scrub->dir)->ino;
	if (gives)
		g4_icache_lock(step->fs, inode);
	else
		g4_read_lock(&inode->lock);
	const bool through = read_file(step, scrub->file, gives, &scrub->page);
	if (gives)
		g4_write_unlock(&inode->lock);
	else
		g4_read_unlock(&inode->lock);
	if (through)
		let_go(step->fs, &scrub->file);
	if (scrub->extra && ino == step->record->arguments[ARGUMENT_INODE]) {
		cursor[CURSOR_AT] = through;
		cursor[CURSOR_PAGE] = scrub->page;
	}
	if (scrub->extra)
		return;
	cursor[CURSOR_PAGE] = through ? 0 : scrub->page;
	if (!through)
		return;
	cursor[CURSOR_FILE] = 0;
	cursor[CURSOR_POSITION]++;
}

/* Goes on with what the cursor is at: a file, another name, the directory above. 1: the tree is through. */
G4_FN static int walk(struct g4_scrub_step *step)
{
	struct g4_scrub *scrub = step->scrub;
	uint64_t *cursor = step->record->cursor, position = cursor[CURSOR_POSITION];
	uint32_t index;

	if (scrub->file != G4_NO_INODE) {
		walk_file(step);
		return 0;
	}
	index = take_moved(scrub);
	if (index != G4_NO_INODE) {
		step->dir = 0;
		meet(step, index, position, 0, true);
		return 0;
	}
	const int found = next_name(step, &index, &position);
	/* a file that it was at before a remount goes on at its page */
	const bool same = found > 0 && index != G4_NO_INODE && position == cursor[CURSOR_POSITION] &&
			  cursor[CURSOR_FILE] == g4_icache_at(step->fs, index)->ino;
	const uint64_t page = same ? cursor[CURSOR_PAGE] : 0;
	cursor[CURSOR_POSITION] = position;
	cursor[CURSOR_FILE] = 0;
	cursor[CURSOR_PAGE] = page;
	if (found < 0) { /* all in use: later */
		step->pages = G4_SCRUB_PAGES;
		return 0;
	}
	if (found == 0)
		return position == UINT64_MAX ? ascend(step) : 0;
	if (index == G4_NO_INODE)
		cursor[CURSOR_POSITION]++;
	else
		meet(step, index, position + 1, page, false);
	return 0;
}

/* ------------------------------------------------------------------ the step */

G4_FN void g4_scrub_moved(struct g4_fs *fs, uint32_t index)
{
	struct g4_scrub *scrub = &fs->jobs.scrub;

	if (!g4_load32_rlx(&scrub->watching))
		return;
	g4_lock(&scrub->moved_lock);
	if (scrub->watching && scrub->moved_count < G4_SCRUB_MOVED) {
		g4_icache_ref(fs, index);
		scrub->moved[scrub->moved_count] = index;
		g4_store32_rlx(&scrub->moved_count, scrub->moved_count + 1);
	} else if (scrub->watching) {
		scrub->moved_lost++;
	}
	g4_unlock(&scrub->moved_lock);
}

G4_FN void g4_scrub_watch(struct g4_fs *fs, uint64_t skipped)
{
	struct g4_scrub *scrub = &fs->jobs.scrub;

	g4_lock(&scrub->moved_lock);
	scrub->moved_lost = skipped;
	g4_store32_rlx(&scrub->watching, 1);
	g4_unlock(&scrub->moved_lock);
}

G4_FN void g4_scrub_leave(struct g4_fs *fs)
{
	struct g4_scrub *scrub = &fs->jobs.scrub;
	uint32_t index;

	scrub->again = false;
	g4_lock(&scrub->moved_lock);
	g4_store32_rlx(&scrub->watching, 0);
	g4_unlock(&scrub->moved_lock);
	while ((index = take_moved(scrub)) != G4_NO_INODE)
		g4_icache_put(fs, index);
	while (scrub->depth > 0)
		g4_icache_put(fs, scrub->stack[--scrub->depth]);
	let_go(fs, &scrub->file);
	let_go(fs, &scrub->dir);
}

/* The first step of a scrub of one file alone. */
G4_FN static void begin_file(struct g4_scrub_step *step, uint32_t index)
{
	const uint64_t page = step->record->cursor[CURSOR_PAGE];

	enter_top(step);
	look_at_slab(step, g4_icache_at(step->fs, index)->ino,
		     g4_address_page_start(g4_ptr_address(g4_icache_at(step->fs, index)->ino)));
	meet(step, index, UINT64_MAX, page, true);
}

/* From the top on once more. */
G4_FN static void go_again(struct g4_scrub_step *step)
{
	struct g4_scrub *scrub = step->scrub;

	while (scrub->depth > 0)
		g4_icache_put(step->fs, scrub->stack[--scrub->depth]);
	let_go(step->fs, &scrub->dir);
	scrub->nameless = 0;
	enter_top(step);
}

/* The first step since it was started, or since the mount. */
G4_FN static void begin(struct g4_scrub_step *step)
{
	struct g4_fs *fs = step->fs;
	uint64_t *cursor = step->record->cursor;
	uint32_t index = G4_NO_INODE;

	for (uint32_t k = 0; k < G4_SCRUB_SEEN; k++)
		step->scrub->seen[k] = 0;
	step->scrub->depth = 0;
	step->scrub->nameless = 0;
	step->scrub->rounds = 0;
	if (cursor[CURSOR_PHASE] > PHASE_ROWS) /* what did not fit is known no more */
		cursor[CURSOR_PHASE] = PHASE_ROWS;
	if (cursor[CURSOR_PHASE] == PHASE_ROWS)
		cursor[CURSOR_AT] = 0;
	index = get_top(step);
	if (index != G4_NO_INODE && !g4_is_dir(g4_inode_core_type(g4_icache_at(fs, index))) && !cursor[CURSOR_AT]) {
		begin_file(step, index);
		return;
	}
	let_go(fs, &index);
	if (cursor[CURSOR_DIR] && g4_ino_plausible(cursor[CURSOR_DIR], &fs->meta.layout) &&
	    g4_icache_get(step->wg, fs, cursor[CURSOR_DIR], &index) == 0) {
		const struct g4_inode_core *inode = g4_icache_at(fs, index);
		if (inode->disk.generation == cursor[CURSOR_GENERATION] && g4_is_dir(g4_inode_core_type(inode))) {
			step->scrub->dir = index;
			return;
		}
		g4_icache_put(fs, index);
	}
	enter_top(step);
	look_at_slab(step, cursor[CURSOR_DIR], g4_address_page_start(g4_ptr_address(cursor[CURSOR_DIR])));
	g4_read_lock(&g4_icache_at(fs, step->scrub->dir)->lock);
	look_at_inode(step, g4_icache_at(fs, step->scrub->dir));
	g4_read_unlock(&g4_icache_at(fs, step->scrub->dir)->lock);
}

G4_FN int g4_scrub_limit(struct g4_wg *wg, struct g4_fs *fs, uint64_t ino, struct g4_job_record *record)
{
	uint32_t index;
	int rc = g4_ino_plausible(ino, &fs->meta.layout) ? g4_icache_get(wg, fs, ino, &index) : -G4_E_NOENT;

	if (rc < 0)
		return rc;
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	g4_read_lock(&inode->lock);
	record->arguments[ARGUMENT_INODE] = ino;
	record->arguments[ARGUMENT_GENERATION] = inode->disk.generation;
	if (!g4_is_dir(inode->disk.mode))
		record->units = inode->disk.pages + 1;
	rc = inode->dead ? -G4_E_NOENT : 0;
	g4_read_unlock(&inode->lock);
	g4_icache_put(fs, index);
	return rc;
}

G4_FN int g4_scrub_step(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_scrub_step step = {wg, fs, &fs->jobs.scrub, record, 0, 0, g4_scratch_take_page(wg), NULL, 0};
	int rc = 0;

	if (record->arguments[ARGUMENT_INODE])
		record->cursor[CURSOR_PHASE] = PHASE_TREE;
	if (record->units == 0)
		record->units = FIXED_PAGES + fs->meta.layout.groups_pages + fs->meta.layout.group_count +
				g4_load64_rlx(&fs->alloc.total_pages) - g4_alloc_free_all(&fs->alloc) +
				(g4_scrub_has_rows(fs) ? g4_space_bytes(&fs->space) / G4_PAGE_BYTES : 0);
	step.to = g4_scrub_is_in_place(fs) ? NULL : step.scrub->pages;
	if (step.scrub->dir == G4_NO_INODE)
		begin(&step);
	if (record->cursor[CURSOR_PHASE] == PHASE_FIXED) {
		if (look_at_fixed(&step))
			record->cursor[CURSOR_PHASE] = PHASE_TREE;
	} else if (record->cursor[CURSOR_PHASE] == PHASE_ROWS) {
		rc = record->cursor[CURSOR_DAMAGED] ? 1 : g4_scrub_compare_rows(&step, &record->cursor[CURSOR_AT]);
		if (rc == 1 && step.scrub->again) {
			record->cursor[CURSOR_PHASE] = PHASE_AGAIN;
			go_again(&step);
			rc = 0;
		}
	} else if (record->cursor[CURSOR_PHASE] == PHASE_MEND) {
		rc = g4_scrub_mend_rows(&step, &record->cursor[CURSOR_AT]);
		if (rc == 2) {
			record->cursor[CURSOR_PHASE] = PHASE_ROWS;
			rc = 0;
		}
	} else {
		/* names cost something, too */
		for (uint32_t k = 0; rc == 0 && step.rc == 0 && k < 4 * G4_SCRUB_PAGES && step.pages < G4_SCRUB_PAGES;
		     k++)
			rc = walk(&step);
		g4_lock(&step.scrub->moved_lock);
		record->skipped = step.scrub->moved_lost + (rc == 0 ? step.scrub->moved_count : 0);
		g4_unlock(&step.scrub->moved_lock);
		if (step.rc < 0)
			rc = step.rc;
		if (rc == 1 && step.scrub->again) {
			step.scrub->again = false;
			record->cursor[CURSOR_PHASE] = PHASE_MEND;
			record->cursor[CURSOR_AT] = 0;
			rc = 0;
		} else if (rc == 1 && g4_scrub_has_rows(fs) && !record->arguments[ARGUMENT_INODE]) {
			record->cursor[CURSOR_PHASE] = PHASE_ROWS;
			record->cursor[CURSOR_AT] = 0;
			record->cursor[CURSOR_DAMAGED] = record->errors > 0;
			/* of metadata that is in the journal alone nobody could say what its place has */
			rc = (fs->flags & G4_FS_READ_ONLY) ? 0 : g4_commit(wg, fs, UINT64_MAX, true);
		}
		if (g4_load32_acq(&fs->journal.aborted))
			rc = -(int)g4_load32_acq(&fs->journal.aborted);
	}
	g4_scratch_release(wg, mark);
	return rc;
}
