/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scrub. First what lies at fixed places: superblocks, root block, the journal's header, descriptors and maps. Then the tree, a directory
 * in the order of its positions, what a name leads to when it comes to it, subdirectories at once: so every page is reached from what
 * leads to it, under the lock that keeps it what it is. Nothing is believed for its looks.
 *
 * Pages of files are fetched as for any reader, but into memory of the scrub's own. Metadata is looked at on the device
 * (journal/look.c), and through the cache to get on. What is damaged becomes a finding, and is not followed; users who meet it get
 * their own errors. Nothing is changed but sums, where they are to be added.
 *
 * The cursor says which directory, which position, and which page of the file there; what is in front of it is done. Where the scrub goes
 * on above that is in memory alone: after a remount it finds the place of the directory in its parent. Inodes that get other names
 * meanwhile are looked at once more, for they may have gone from where it will come to where it was.
 */
#include "fs/scrub.h"

#include "alloc/share.h"
#include "data/fetch.h"
#include "data/map.h"
#include "data/resum.h"
#include "fs/xattr.h"
#include "inode/events.h"
#include "inode/icache.h"
#include "inode/txn.h"

enum { PHASE_FIXED, PHASE_TREE };
enum { CURSOR_PHASE, CURSOR_AT, CURSOR_DIR, CURSOR_POSITION, CURSOR_FILE, CURSOR_PAGE, CURSOR_GENERATION };
#define FIXED_PAGES 4u

struct step {
	struct g4_wg *wg;
	struct g4_fs *fs;
	struct g4_scrub *scrub;
	struct g4_job_record *record;
	uint32_t pages; /* looked at in this step */
	uint64_t dir;	/* that named what is looked at */
	uint8_t *room;	/* a page */
	int rc;		/* why the job can not go on */
};

/* ------------------------------------------------------------------ findings */

G4_FN void g4_finding_add(struct g4_fs *fs, struct g4_job_record *record, const struct g4_finding *finding)
{
	struct g4_jobs *jobs = &fs->jobs;
	struct g4_finding *place = NULL;
	bool known = false;

	g4_lock(&jobs->lock);
	for (uint32_t i = 0; i < G4_FINDINGS && !known; i++) {
		struct g4_finding *old = &jobs->findings[i];
		const bool same = old->code == finding->code && old->inode == finding->inode;
		if (old->code == 0) {
			place = place ? place : old;
		} else if (same && finding->page == G4_FINDING_METADATA) {
			known = old->page == finding->page && old->address == finding->address;
		} else if (same && old->page != G4_FINDING_METADATA && finding->page >= old->page) {
			known = finding->page < old->page + old->pages;
			if (!known && finding->page == old->page + old->pages) {
				old->pages++;
				record->errors++;
				known = true;
			}
		}
	}
	if (!known) {
		record->errors++;
		if (place)
			*place = *finding;
		else
			jobs->findings_lost++;
	}
	g4_unlock(&jobs->lock);
}

G4_FN static void find_metadata(struct step *step, uint64_t ino, struct g4_address address, int code)
{
	const struct g4_finding finding = {ino, step->dir,	G4_FINDING_METADATA, g4_address_stored(address),
					   1,	(uint32_t)-code};
	const struct g4_event event = {ino, G4_FINDING_METADATA, g4_address_stored(address), (uint32_t)-code, 0, {0},
				       {0}};
	const uint64_t before = step->record->errors;

	g4_finding_add(step->fs, step->record, &finding);
	if (step->record->errors != before)
		g4_event_post(step->fs, &event);
}

/* ------------------------------------------------------------------ metadata */

G4_FN static void count(struct step *step, uint32_t pages)
{
	step->pages += pages;
	step->record->done += pages;
	step->record->bytes += pages * G4_PAGE_BYTES;
}

/* Of a page that something locked leads to. Its contents are in step->room if it says 0. */
G4_FN static int look(struct step *step, uint64_t ino, struct g4_address address, uint32_t type)
{
	int rc = g4_ptr_validate(g4_ptr_make(address, G4_TAG_4K, G4_PTR_VALID), &step->fs->meta.layout);

	if (rc == 0 || type == G4_BLOCK_SUPERBLOCK || type == G4_BLOCK_ROOT || type == G4_BLOCK_JOURNAL_HEADER ||
	    type == G4_BLOCK_GROUPS || type == G4_BLOCK_ALLOC)
		rc = g4_journal_look(step->wg, &step->fs->journal, address, type, step->room);
	count(step, 1);
	if (rc < 0)
		find_metadata(step, ino, address, rc);
	return rc;
}

/* The same for one of which the last is remembered in *seen. */
G4_FN static void look_once(struct step *step, uint64_t ino, struct g4_address address, uint32_t type, uint64_t *seen)
{
	if (*seen == g4_address_stored(address))
		return;
	*seen = g4_address_stored(address);
	look(step, ino, address, type);
}

/* Where it is noted that a page was looked at: for those to which several lead. */
G4_FN static uint64_t *seen(struct step *step, struct g4_address address)
{
	return &step->scrub->seen[g4_address_page(address) % G4_SCRUB_SEEN];
}

G4_FN static void look_at_slab(struct step *step, uint64_t ino, struct g4_address address)
{
	look_once(step, ino, address, G4_BLOCK_SLAB, seen(step, address));
}

/*
 * One copy of a page of counts is damaged: the next checkpoint writes all copies, for they stay where they are in a transaction alone.
 * Whether that is so.
 */
G4_FN static bool rewrite_owners(struct step *step, uint64_t group, uint32_t n)
{
	struct g4_txn txn;

	if (g4_space_copies(&step->fs->space) == 1 || (step->fs->flags & G4_FS_READ_ONLY) ||
	    g4_begin(step->wg, step->fs, 1, &txn) < 0)
		return false;
	const int rc = g4_share_rewrite(step->wg, &step->fs->alloc, &txn, group, n);
	return g4_end(step->fs, &txn, 0) == 0 && rc == 0;
}

/* Counts of owners, and listed pages. Nothing keeps them where they are: what looks wrong may have been given back meanwhile. */
G4_FN static void look_at_owners(struct step *step, uint64_t group)
{
	struct g4_alloc *alloc = &step->fs->alloc;
	struct g4_address at, now;
	uint32_t type;

	if (g4_share_place(step->wg, alloc, group, 0, &at, &type) < 0)
		return; /* nothing; or the map can not be read, which was found */
	for (uint32_t n = 0; n < G4_SHARE_PLACES; n++) {
		if (g4_share_place(step->wg, alloc, group, n, &at, &type) < 0)
			continue; /* what leads there was found, if it is damaged */
		const int rc = g4_journal_look(step->wg, &step->fs->journal, at, type, step->room);
		count(step, 1);
		if (rc < 0 && g4_share_place(step->wg, alloc, group, n, &now, &type) == 0 && g4_address_is(at, now) &&
		    !rewrite_owners(step, group, n))
			find_metadata(step, 0, at, rc);
	}
}

/* Whether all maps are done. */
G4_FN static bool look_at_fixed(struct step *step)
{
	const struct g4_layout *layout = &step->fs->meta.layout;
	const uint64_t groups = layout->group_count;
	uint64_t *at = &step->record->cursor[CURSOR_AT];

	step->dir = 0;
	if (*at == 0) {
		const uint64_t places[FIXED_PAGES] = {G4_SUPERBLOCK_ADDRESS, layout->backup_address,
						      layout->root_address, layout->journal_address};
		const uint32_t types[FIXED_PAGES] = {G4_BLOCK_SUPERBLOCK, G4_BLOCK_SUPERBLOCK, G4_BLOCK_ROOT,
						     G4_BLOCK_JOURNAL_HEADER};
		for (uint32_t k = 0; k < FIXED_PAGES; k++)
			if (types[k] != G4_BLOCK_SUPERBLOCK || !g4_load32_acq(&step->fs->resizing))
				look(step, 0, g4_address_from(places[k]), types[k]);
	}
	while (*at < groups && step->pages < G4_SCRUB_PAGES) {
		const struct g4_groups_page *page = (const struct g4_groups_page *)(const void *)step->room;
		const uint64_t first = g4_align_down(*at, G4_GROUPS_PER_PAGE);
		uint64_t written[G4_GROUPS_PER_PAGE / 64 + 1] = {0};
		if (look(step, 0, g4_layout_groups_page(layout, first), G4_BLOCK_GROUPS) == 0)
			for (uint32_t k = 0; k < G4_GROUPS_PER_PAGE; k++)
				written[k / 64] |= (uint64_t)(page->groups[k].flags & G4_GROUP_INITIALISED) << k % 64;
		for (; *at < g4_min64(groups, first + G4_GROUPS_PER_PAGE); ++*at)
			if (written[(*at - first) / 64] >> (*at - first) % 64 & 1) {
				look(step, 0, g4_layout_map_page(layout, *at), G4_BLOCK_ALLOC);
				look_at_owners(step, *at);
			}
	}
	return *at >= groups;
}

/* A page of attributes or of the value of one, referenced; NULL: it can not be had, which was said. */
G4_FN static const struct g4_xattr_page *look_at_link(struct step *step, const struct g4_inode_core *inode, g4_ptr ptr,
						      uint32_t type, uint32_t *line)
{
	const struct g4_address address = g4_ptr_address(ptr);

	if (look(step, inode->ino, address, type) < 0)
		return NULL;
	int rc = g4_meta_get(step->wg, &step->fs->meta, address, type, line);
	if (rc < 0) {
		find_metadata(step, inode->ino, address, rc);
		return NULL;
	}
	const struct g4_xattr_page *page = (const struct g4_xattr_page *)g4_line_data(&step->fs->cache, *line);
	if (type == G4_BLOCK_XATTR)
		rc = g4_xattr_page_validate(page, &step->fs->meta.layout);
	if (rc == 0 && page->inode == inode->ino)
		return page;
	find_metadata(step, inode->ino, address, -G4_E_CORRUPT_XATTR);
	g4_cache_put(&step->fs->cache, *line);
	return NULL;
}

G4_FN static void look_at_value(struct step *step, const struct g4_inode_core *inode, g4_ptr ptr)
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

G4_FN static void look_at_attributes(struct step *step, const struct g4_inode_core *inode)
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
G4_FN static void look_at_inode(struct step *step, const struct g4_inode_core *inode)
{
	const uint64_t block = g4_align_down(inode->disk.checksums, G4_PAGE_BYTES);

	look_at_attributes(step, inode);
	if (block)
		look_at_slab(step, inode->ino, g4_address_from(block));
}

/* ------------------------------------------------------------------ contents */

/* The indirect pages and pages of sums of a page of a file. */
G4_FN static void look_at_nodes(struct step *step, const struct g4_inode_core *inode, uint64_t page)
{
	struct g4_map_nodes nodes;
	int rc = g4_map_nodes(step->wg, step->fs, inode, page, &nodes);

	for (uint32_t k = 0; k < nodes.count; k++)
		look_once(step, inode->ino, nodes.nodes[k], G4_BLOCK_INDIRECT, &step->scrub->nodes[k]);
	for (uint32_t k = 0; k < nodes.sums_count; k++)
		look_once(step, inode->ino, nodes.sums[k], G4_BLOCK_CHECKSUMS, seen(step, nodes.sums[k]));
	if (rc < 0 && rc != -G4_E_CORRUPT_SUMS && nodes.count > 0)
		find_metadata(step, inode->ino, nodes.nodes[nodes.count - 1], rc);
}

/* Pages in a row of a file, into scrub->pages. Bits of those that are damaged, or can not be read. */
G4_FN static uint64_t read_pages(struct step *step, const struct g4_inode_core *inode, uint64_t page,
				 struct g4_address address, uint32_t pages)
{
	uint64_t bad, unverified;
	int rc =
		g4_fetch_survey(step->wg, step->fs, inode, page, address, step->scrub->pages, pages, &bad, &unverified);

	count(step, pages);
	for (uint32_t k = 0; rc < 0 && k < pages; k++) {
		const struct g4_address at = g4_address_after_pages(address, k);
		uint64_t one = bad >> k & 1, without;
		int code = rc;
		if (unverified >> k & 1)
			code = -G4_E_CORRUPT_SUMS;
		else if (rc == -G4_E_CORRUPT_SUMS) /* another page's */
			code = -G4_E_DATA;
		else if (one && rc != -G4_E_DATA) /* which of them can not be read */
			code = g4_fetch_survey(step->wg, step->fs, inode, page + k, at,
					       step->scrub->pages + k * G4_PAGE_BYTES, 1, &one, &without);
		if (code == 0)
			bad &= ~(UINT64_C(1) << k);
		const struct g4_finding finding = {inode->ino, step->dir,      page + k, g4_address_stored(at),
						   1,	       (uint32_t)-code};
		if (one && code < 0)
			g4_finding_add(step->fs, step->record, &finding);
	}
	return bad;
}

/* The pages of copies that are not the same, of those that were just read: without sums nobody can tell which of them is right. */
G4_FN static uint64_t unlike(struct step *step, const struct g4_inode_core *inode, uint64_t page,
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
			    g4_space_read_copy(step->wg, &step->fs->space, copy, at, step->room, G4_PAGE_BYTES) == 0 &&
			    !g4_bytes_equal(step->room, step->scrub->pages + k * G4_PAGE_BYTES, G4_PAGE_BYTES))
				differ |= UINT64_C(1) << k;
		if (differ >> k & 1)
			g4_finding_add(step->fs, step->record, &finding);
	}
	return differ;
}

/*
 * The same for pages that get sums, the inode being write-locked: so many are done, 0: none of them gets any. A large page is done as a whole.
 */
G4_FN static uint64_t give_sums(struct step *step, uint32_t index, uint64_t page, const struct g4_run *run)
{
	const struct g4_inode_core *inode = g4_icache_at(step->fs, index);
	const uint32_t mark = g4_scratch_mark(step->wg);
	struct g4_resum *resum = (struct g4_resum *)g4_scratch_take(step->wg, sizeof(*resum));
	const uint32_t pages = g4_resum_begin(step->wg, step->fs, inode, page, run, G4_SCRUB_PAGES, resum);

	for (uint32_t done = 0; done < pages;) {
		const struct g4_address at = g4_address_after_pages(run->address, done);
		const uint32_t n = (uint32_t)g4_min64(pages - done, G4_SCRUB_PAGES);
		uint64_t keep = read_pages(step, inode, page + done, at, n);
		keep |= unlike(step, inode, page + done, at, n, &resum->sums[done]);
		g4_resum_add(step->wg, resum, step->scrub->pages, n, keep);
		done += n;
	}
	if (pages > 0)
		step->rc = g4_resum_end(step->wg, step->fs, index, resum);
	if (pages > 0 && step->rc == 0)
		step->record->summed += resum->changed;
	g4_scratch_release(step->wg, mark);
	return pages;
}

/* Goes on with a file, read-locked, or write-locked where it gets sums, from *page on. Whether it is through. */
G4_FN static bool read_file(struct step *step, uint32_t index, bool gives, uint64_t *page)
{
	const struct g4_inode_core *inode = g4_icache_at(step->fs, index);
	const uint64_t end = g4_map_capacity_pages(inode->disk.map_height);

	if (inode->dead || (inode->disk.flags & G4_INODE_INLINE) ||
	    !(g4_is_reg(inode->disk.mode) || g4_is_link(inode->disk.mode)))
		return true;
	while (*page < end && step->pages < G4_SCRUB_PAGES && step->rc == 0) {
		struct g4_run run;
		uint64_t given = 0;
		look_at_nodes(step, inode, *page);
		int rc = g4_map_lookup(step->wg, step->fs, inode, *page, end - *page, &run);
		if (rc < 0) { /* what is there can not be had: on to what another pointer of the inode leads to */
			const uint64_t span = UINT64_C(1) << 9 * g4_max64(inode->disk.map_height, 1);
			*page = inode->disk.map_height ? g4_align_down(*page, span) + span : end;
			continue;
		}
		if (gives)
			given = give_sums(step, index, *page, &run);
		if (given > 0) {
			run.pages = step->rc == 0 ? given : 0;
		} else if (run.kind == G4_WRITTEN) {
			run.pages = g4_min64(run.pages, G4_SCRUB_PAGES);
			read_pages(step, inode, *page, run.address, (uint32_t)run.pages);
		} else {
			step->pages++;
		}
		*page += run.pages;
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
G4_FN static void enter(struct step *step, uint32_t index, uint64_t position)
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
G4_FN static void descend(struct step *step, uint32_t index, uint64_t position)
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
G4_FN static uint64_t position_of(struct step *step, const struct g4_inode_core *dir, uint64_t ino)
{
	struct g4_dir of = {&step->fs->alloc, step->fs->hash_key, dir->disk.map[0], dir->disk.pages};
	struct g4_dir_item items[G4_DIR_LEAF_ENTRIES];
	uint64_t from = 0, found = UINT64_MAX;

	while (from != UINT64_MAX && found == UINT64_MAX) {
		uint32_t items_count, line;
		if (g4_dir_read_leaf(step->wg, &of, from, items, &items_count, &from, &line) < 0)
			break;
		for (uint32_t k = 0; k < items_count; k++)
			if (items[k].entry->inode == ino)
				found = items[k].position;
		if (line != G4_NO_LINE)
			g4_cache_put(&step->fs->cache, line);
	}
	return found;
}

/* The directory is through. Whether the tree is. */
G4_FN static bool ascend(struct step *step)
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
	if (scrub->dir == step->fs->root_index)
		return g4_load32_rlx(&scrub->moved_count) == 0;
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
	if (position ==
	    UINT64_MAX) { /* it was removed, or what is above it can not be had: from the root on once more */
		let_go(step->fs, &parent);
		parent = step->fs->root_index;
		g4_icache_ref(step->fs, parent);
	}
	let_go(step->fs, &scrub->dir);
	enter(step, parent, position == UINT64_MAX ? 0 : position + 1);
	return false;
}

/*
 * What the next name of the directory leads to, referenced; 0: there is none; -1: there is no room for it. Under the directory's lock, so that it is what the name
 * means, and its slab is one.
 */
G4_FN static int next_name(struct step *step, uint32_t *index, uint64_t *position)
{
	struct g4_inode_core *inode = g4_icache_at(step->fs, step->scrub->dir);
	struct g4_dir_item items[G4_DIR_LEAF_ENTRIES];
	struct g4_address path[G4_DIR_PATH];
	uint64_t from = *position >> 48 ? UINT64_MAX : *position;
	int found = 0;

	*index = G4_NO_INODE;
	g4_read_lock(&inode->lock);
	const struct g4_dir dir = {&step->fs->alloc, step->fs->hash_key, inode->disk.map[0], inode->disk.pages};
	while (!inode->dead && found == 0 && from != UINT64_MAX && step->pages < G4_SCRUB_PAGES) {
		uint32_t items_count = 0, line = G4_NO_LINE, ways;
		uint64_t next = UINT64_MAX;
		int rc = g4_dir_path(step->wg, &dir, from, path, &ways);
		for (uint32_t k = 0; k < ways; k++)
			look_once(step, inode->ino, path[k], G4_BLOCK_DIR_LEAF, &step->scrub->leaves[k]);
		if (rc == 0)
			rc = g4_dir_read_leaf(step->wg, &dir, from, items, &items_count, &next, &line);
		if (rc < 0) { /* the rest of its names can not be had */
			if (ways > 0)
				find_metadata(step, inode->ino, path[ways - 1], rc);
			from = UINT64_MAX;
			break;
		}
		if (items_count > 0) {
			const uint64_t ino = items[0].entry->inode;
			*position = items[0].position;
			step->dir = inode->ino;
			if (g4_ino_plausible(ino, &step->fs->meta.layout)) {
				const struct g4_address slab = g4_address_page_start(g4_ptr_address(ino));
				look_at_slab(step, ino, slab);
				rc = g4_icache_get(step->wg, step->fs, ino, index);
				if (rc < 0)
					*index = G4_NO_INODE;
				found = rc == -G4_E_NFILE || rc == -G4_E_NOMEM ? -1 : 1;
				if (rc < 0 && found > 0)
					find_metadata(step, ino, slab, rc);
			} else {
				find_metadata(step, inode->ino, path[ways - 1], -G4_E_CORRUPT_DIR);
				found = 1;
			}
		}
		if (line != G4_NO_LINE)
			g4_cache_put(&step->fs->cache, line);
		from = found ? from : next;
	}
	g4_read_unlock(&inode->lock);
	if (found == 0)
		*position = from;
	return found;
}

/* An inode, referenced: what it has beside its contents. The reference is given on. back: where the directory goes on. */
G4_FN static void meet(struct step *step, uint32_t index, uint64_t back, uint64_t page, bool extra)
{
	struct g4_inode_core *inode = g4_icache_at(step->fs, index);

	g4_read_lock(&inode->lock);
	const bool dir = g4_is_dir(inode->disk.mode);
	if (!inode->dead)
		look_at_inode(step, inode);
	g4_read_unlock(&inode->lock);
	for (uint32_t k = 0; k < G4_MAP_MAX_HEIGHT; k++)
		step->scrub->nodes[k] = 0;
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
G4_FN static void walk_file(struct step *step)
{
	struct g4_scrub *scrub = step->scrub;
	struct g4_inode_core *inode = g4_icache_at(step->fs, scrub->file);
	uint64_t *cursor = step->record->cursor;

	const bool gives = (step->record->flags & G4_JOB_ADD_SUMS) != 0;

	step->dir = scrub->extra ? 0 : g4_icache_at(step->fs, scrub->dir)->ino;
	if (gives)
		g4_write_lock(&inode->lock);
	else
		g4_read_lock(&inode->lock);
	const bool through = read_file(step, scrub->file, gives, &scrub->page);
	if (gives)
		g4_write_unlock(&inode->lock);
	else
		g4_read_unlock(&inode->lock);
	if (through)
		let_go(step->fs, &scrub->file);
	if (scrub->extra)
		return;
	cursor[CURSOR_PAGE] = through ? 0 : scrub->page;
	if (!through)
		return;
	cursor[CURSOR_FILE] = 0;
	cursor[CURSOR_POSITION]++;
}

/* Goes on with what the cursor is at: a file, another name, the directory above. 1: the tree is through. */
G4_FN static int walk(struct step *step)
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

/* The first step since it was started, or since the mount. */
G4_FN static void begin(struct step *step)
{
	struct g4_fs *fs = step->fs;
	uint64_t *cursor = step->record->cursor;
	uint32_t index = G4_NO_INODE;

	for (uint32_t k = 0; k < G4_SCRUB_SEEN; k++)
		step->scrub->seen[k] = 0;
	step->scrub->depth = 0;
	if (cursor[CURSOR_DIR] && g4_ino_plausible(cursor[CURSOR_DIR], &fs->meta.layout) &&
	    g4_icache_get(step->wg, fs, cursor[CURSOR_DIR], &index) == 0) {
		const struct g4_inode_core *inode = g4_icache_at(fs, index);
		if (inode->disk.generation == cursor[CURSOR_GENERATION] && g4_is_dir(g4_inode_core_type(inode))) {
			step->scrub->dir = index;
			return;
		}
		g4_icache_put(fs, index);
	}
	g4_icache_ref(fs, fs->root_index);
	enter(step, fs->root_index, 0);
	look_at_slab(step, cursor[CURSOR_DIR], g4_address_page_start(g4_ptr_address(cursor[CURSOR_DIR])));
	g4_read_lock(&g4_icache_at(fs, fs->root_index)->lock);
	look_at_inode(step, g4_icache_at(fs, fs->root_index));
	g4_read_unlock(&g4_icache_at(fs, fs->root_index)->lock);
}

G4_FN int g4_scrub_step(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct step step = {wg, fs, &fs->jobs.scrub, record, 0, 0, g4_scratch_take_page(wg), 0};
	int rc = 0;

	if (record->units == 0)
		record->units = FIXED_PAGES + fs->meta.layout.groups_pages + fs->meta.layout.group_count +
				g4_load64_rlx(&fs->alloc.total_pages) - g4_load64_rlx(&fs->alloc.free_pages);
	if (step.scrub->dir == G4_NO_INODE)
		begin(&step);
	if (record->cursor[CURSOR_PHASE] == PHASE_FIXED) {
		if (look_at_fixed(&step))
			record->cursor[CURSOR_PHASE] = PHASE_TREE;
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
		if (g4_load32_acq(&fs->journal.aborted))
			rc = -(int)g4_load32_acq(&fs->journal.aborted);
	}
	g4_scratch_release(wg, mark);
	return rc;
}
