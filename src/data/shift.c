/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges that are inserted into a file, or taken out of it (fallocate(2)): pointers and their sums move, contents do not
 * (docs/design/deduplication.md, "Insertion").
 *
 * Crash at any line: there is a gap of as many pages in the map, behind the pages that have moved up or in front of those that have
 * not moved down yet. As long as it is there, the inode names it (G4_INODE_GAP) and is on the orphan list: each transaction moves some
 * pages and the gap, and what mounts the file system closes it (g4_file_close_gap()). That takes an insertion back and brings a
 * collapse to its end; the size is that of this state, of an insertion until its last transaction.
 *
 * What maps the pages in their new places is reserved before anything changes.
 */
#include "data/dirty.h"
#include "data/extent.h"
#include "data/file.h"
#include "data/map_path.h"
#include "data/reserve.h"
#include "data/sums.h"
#include "data/unreadable.h"
#include "data/write.h"
#include "data/writeback.h"
#include "inode/inode.h"
#include "inode/orphan.h"
#include "inode/times.h"
#include "inode/txn.h"

#define MOVE_CREDITS                                                                                                   \
	(2 * G4_MAP_CREDITS - 4) /* what moving slots in one page may take: a way to there, and one from there */

struct shift {
	uint32_t index;
	struct g4_inode_core *inode;
	uint64_t from;		      /* pages in front of it stay */
	uint64_t gap, pages;	      /* where the gap is now, and how long */
	uint64_t cleared;	      /* nothing is mapped in front of it in the gap */
	g4_le64 *slots;		      /* memory for G4_INDIRECT_SLOTS of them */
	struct g4_sum_entry *entries; /* for G4_SUMS_SLOTS of them; NULL: nothing has sums */
};

/* ------------------------------------------------------------------ slots */

/* The sums of level-0 slots; what can not be read is lost. *any: whether there are any. */
G4_FN static int read_sums(struct g4_wg *wg, struct g4_fs *fs, const struct shift *s, uint32_t line, uint32_t first,
			   const g4_le64 *slots, uint32_t count, bool *any)
{
	*any = false;
	if (s->entries == NULL)
		return 0;
	int rc = g4_sums_read(wg, fs, s->inode, line, first, count, s->entries);
	for (uint32_t k = 0; k < count && rc == -G4_E_CORRUPT_SUMS; k++)
		if (g4_map_kind(slots[k]) == G4_WRITTEN)
			g4_sum_entry_make_lost(&s->entries[k]);
	rc = rc == -G4_E_CORRUPT_SUMS ? 0 : rc;
	for (uint32_t k = 0; k < count && rc == 0; k++)
		*any |= g4_map_kind(slots[k]) == G4_WRITTEN &&
			g4_sum_entry_algorithm(&s->entries[k]) != G4_CHECKSUM_NONE;
	return rc;
}

/*
 * Where pages come to lie nothing is mapped. Indirect pages that nothing hangs at go first, so that whole slots can move there, and none is filled that
 * others have as well. 1: one went, and the step begins anew; -G4_E_AGAIN: in a transaction of its own.
 */
G4_FN static int clear_place(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			     uint64_t to, uint64_t pages)
{
	const uint32_t before = txn->changed;
	uint64_t next;
	const int rc = g4_map_clear(wg, fs, txn, inode, to, to + pages, &next);

	if (rc < 0)
		return rc;
	return next != UINT64_MAX ? -G4_E_AGAIN : txn->changed != before;
}

/* `count` slots for single pages, from that of page `from` on, each way in one array, become those from `to` on. */
G4_FN static int move_pages(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct shift *s, uint64_t from,
			    uint64_t to, uint32_t count)
{
	struct g4_inode_core *inode = s->inode;
	struct g4_path source, target;
	bool any = false;
	int rc = 0;

	if (inode->disk.map_height == 0) /* what is there has room for sums where it will be */
		rc = g4_sums_fit(wg, fs, txn, inode, (uint32_t)(to + count), g4_sums_own(inode));
	g4_path_start(&source, inode, from);
	g4_path_start(&target, inode, to);
	if (rc == 0)
		rc = g4_path_make(wg, fs, txn, inode, &target, to, 0);
	if (rc == 0)
		rc = g4_path_make(wg, fs, txn, inode, &source, from, 0);
	if (rc == 0)
		rc = read_sums(wg, fs, s, g4_path_line(inode, &source), g4_path_index(fs, inode, &source), source.slot,
			       count, &any);
	if (rc == 0) {
		g4_path_dirty(txn, &source);
		g4_path_dirty(txn, &target);
		rc = g4_sums_write(wg, fs, txn, inode, g4_path_line(inode, &target), g4_path_index(fs, inode, &target),
				   count, any ? s->entries : NULL);
	}
	if (rc == 0) {
		memcpy(s->slots, source.slot, count * sizeof(s->slots[0]));
		memset(source.slot, 0, count * sizeof(s->slots[0]));
		memcpy(target.slot, s->slots, count * sizeof(s->slots[0]));
		rc = g4_path_prune(wg, fs, txn, inode, &source, from);
	}
	g4_path_put(fs, &source);
	g4_path_put(fs, &target);
	return rc;
}

/* The same for one slot of a higher level, whatever hangs there. 1: it can not move as one, since its new place holds pages without contents. */
G4_FN static int move_tree(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct shift *s, uint64_t from,
			   uint64_t to, uint32_t level)
{
	struct g4_inode_core *inode = s->inode;
	struct g4_path source, target;
	struct g4_sum_entry entry;

	g4_path_start(&source, inode, from);
	g4_path_start(&target, inode, to);
	int rc = g4_path_make(wg, fs, txn, inode, &target, to, level);
	if (rc == 0 && *target.slot != 0)
		rc = 1;
	if (rc == 0)
		rc = g4_path_make(wg, fs, txn, inode, &source, from, level);
	if (rc == 0)
		rc = g4_path_read_entry(wg, fs, inode, &source, &entry);
	if (rc == 0) {
		const bool has_entry = g4_sum_entry_algorithm(&entry) != G4_CHECKSUM_NONE;
		g4_path_dirty(txn, &source);
		g4_path_dirty(txn, &target);
		if (!(*source.slot & G4_PTR_INDIRECT))
			rc = g4_path_write_entry(wg, fs, txn, inode, &target, has_entry ? &entry : NULL);
	}
	if (rc == 0) {
		*target.slot = *source.slot;
		*source.slot = 0;
		rc = g4_path_prune(wg, fs, txn, inode, &source, from);
	}
	g4_path_put(fs, &source);
	g4_path_put(fs, &target);
	return rc;
}

/* ------------------------------------------------------------------ steps */

/* The highest level whose slots can move as a whole: they do not come to lie across two. */
G4_FN static uint32_t whole_level(const struct shift *s)
{
	uint32_t level = 0;

	while (level < s->inode->disk.map_height && s->pages % g4_map_span(level + 1) == 0)
		level++;
	return level;
}

/* Slots of single pages that a page of the map, and one of sums, has from this one on. */
G4_FN static uint64_t row_from(const struct shift *s, uint64_t page)
{
	if (s->inode->disk.map_height == 0)
		return G4_MAP_SLOTS - page;
	return s->entries ? g4_sums_row((uint32_t)(page % G4_SUMS_SLOTS)) :
			    G4_INDIRECT_SLOTS - page % G4_INDIRECT_SLOTS;
}

/* The same in front of this one. */
G4_FN static uint64_t row_before(const struct shift *s, uint64_t page)
{
	if (s->inode->disk.map_height == 0)
		return page;
	return (page - 1) % (s->entries ? G4_SUMS_SLOTS : G4_INDIRECT_SLOTS) + 1;
}

/* One step of an insertion: what is right in front of the gap goes behind it. 1: nothing is left to do. */
G4_FN static int step_up(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct shift *s)
{
	uint64_t end;
	int rc = g4_map_end(wg, fs, s->inode, s->gap, &end);

	if (rc < 0 || end <= s->from)
		return rc < 0 ? rc : 1;
	for (uint32_t level = whole_level(s); level > 0; level--) {
		const uint64_t span = g4_map_span(level), behind = (end + span - 1) & ~(span - 1);
		if (behind > s->gap || behind - span < s->from)
			continue;
		rc = clear_place(wg, fs, txn, s->inode, behind - span + s->pages, span);
		if (rc != 0)
			return rc < 0 ? rc : 0;
		rc = move_tree(wg, fs, txn, s, behind - span, behind - span + s->pages, level);
		if (rc == 0)
			s->gap = behind - span;
		if (rc <= 0)
			return rc;
	}
	const uint64_t most = g4_min64(row_before(s, end), row_before(s, end + s->pages));
	const uint64_t count = g4_min64(end - s->from, most);
	rc = clear_place(wg, fs, txn, s->inode, g4_max64(end, end - count + s->pages), g4_min64(count, s->pages));
	if (rc != 0)
		return rc < 0 ? rc : 0;
	rc = move_pages(wg, fs, txn, s, end - count, end - count + s->pages, (uint32_t)count);
	if (rc == 0)
		s->gap = end - count;
	return rc;
}

/* The first page from `page` on that has space; UINT64_MAX: none. */
G4_FN static int find_next(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			   uint64_t *found)
{
	const uint64_t end = g4_map_capacity_pages(inode->disk.map_height);
	struct g4_run run = {G4_HOLE, 0, G4_NO_ADDRESS, 0};
	int rc = 0;

	for (; page < end && rc == 0; page += run.pages) {
		rc = g4_map_lookup(wg, fs, inode, page, end - page, &run);
		if (rc == 0 && run.kind != G4_HOLE) {
			*found = page;
			return 0;
		}
	}
	*found = UINT64_MAX;
	return rc;
}

/* One step of closing the gap: what is right behind it goes in front of it. 1: nothing is left to do. */
G4_FN static int step_down(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct shift *s)
{
	uint64_t first;
	int rc = find_next(wg, fs, s->inode, s->gap + s->pages, &first);

	if (rc < 0 || first == UINT64_MAX)
		return rc < 0 ? rc : 1;
	for (uint32_t level = whole_level(s); level > 0; level--) {
		const uint64_t span = g4_map_span(level), begin = first & ~(span - 1);
		if (begin < s->gap + s->pages)
			continue;
		rc = clear_place(wg, fs, txn, s->inode, begin - s->pages, span);
		if (rc != 0)
			return rc < 0 ? rc : 0;
		rc = move_tree(wg, fs, txn, s, begin, begin - s->pages, level);
		if (rc == 0)
			s->gap = begin - s->pages + span;
		if (rc <= 0)
			return rc;
	}
	const uint64_t count = g4_min64(row_from(s, first), row_from(s, first - s->pages));
	rc = clear_place(wg, fs, txn, s->inode, first - s->pages, g4_min64(count, s->pages));
	if (rc != 0)
		return rc < 0 ? rc : 0;
	rc = move_pages(wg, fs, txn, s, first, first - s->pages, (uint32_t)count);
	if (rc == 0)
		s->gap = first - s->pages + count;
	return rc;
}

/* ------------------------------------------------------------------ transactions */

/* Steps as long as the transaction has room for them. 1: nothing is left to do. */
G4_FN static int move_some(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct shift *s, bool up)
{
	int rc = 0;

	do {
		if (txn->credits < MOVE_CREDITS && !g4_txn_extend(txn, 2 * G4_MAP_CREDITS))
			break;
		rc = up ? step_up(wg, fs, txn, s) : step_down(wg, fs, txn, s);
	} while (rc == 0 && !g4_txn_is_crowded(txn));
	return rc == -G4_E_AGAIN ? 0 : rc;
}

/* What the inode says of the gap at the end of a transaction, and the orphan list. */
G4_FN static int note_gap(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct shift *s, bool there)
{
	struct g4_inode *disk = &s->inode->disk;

	if (!there && !(disk->flags & G4_INODE_GAP))
		return g4_inode_log(wg, fs, txn, s->inode);
	disk->flags = there ? disk->flags | G4_INODE_GAP : disk->flags & ~G4_INODE_GAP;
	disk->rdev = there ? s->gap : 0;
	disk->parent = there ? s->pages : 0;
	int rc = 0;
	if (there)
		rc = g4_orphan_add(wg, fs, txn, s->index);
	else if (disk->nlink > 0) /* a file without a name stays on the list */
		rc = g4_orphan_remove(wg, fs, txn, s->index);
	return rc < 0 ? rc : g4_inode_log(wg, fs, txn, s->inode);
}

/* The file is `size` bytes long from the first transaction on. */
G4_FN static int close_gap(struct g4_wg *wg, struct g4_fs *fs, struct shift *s, uint64_t size)
{
	int rc = 0;

	while (rc == 0) {
		struct g4_txn txn;
		uint64_t next = UINT64_MAX;

		rc = g4_begin(wg, fs, 2 * G4_MAP_CREDITS, &txn);
		if (rc < 0)
			return rc;
		if (s->cleared < s->gap + s->pages) {
			rc = g4_map_clear(wg, fs, &txn, s->inode, s->cleared, s->gap + s->pages, &next);
			if (rc == 0)
				s->cleared = g4_min64(next, s->gap + s->pages);
		}
		if (rc == 0 && s->cleared == s->gap + s->pages) {
			rc = move_some(wg, fs, &txn, s, false);
			s->cleared = s->gap + s->pages;
		}
		if (rc >= 0 || txn.changed)
			s->inode->disk.size = size;
		const int logged = rc >= 0 || txn.changed ? note_gap(wg, fs, &txn, s, rc != 1) : 0;
		rc = g4_end(fs, &txn, rc < 0 || logged == 0 ? rc : logged);
	}
	return rc < 0 ? rc : 0;
}

/* Makes the gap at the end of what is mapped, and moves it down to s->from. */
G4_FN static int open_gap(struct g4_wg *wg, struct g4_fs *fs, struct shift *s, uint64_t size)
{
	const uint64_t end = s->gap + s->pages;
	int rc = 0;

	while (rc == 0) {
		struct g4_txn txn;

		rc = g4_begin(wg, fs, 2 * G4_MAP_CREDITS, &txn);
		if (rc < 0)
			return rc;
		if (s->gap > s->from)
			rc = g4_map_grow(wg, fs, &txn, s->inode, end - 1);
		if (rc == 0)
			rc = move_some(wg, fs, &txn, s, true);
		if (rc == 1)
			s->inode->disk.size = size;
		const int logged = rc >= 0 || txn.changed ? note_gap(wg, fs, &txn, s, rc != 1) : 0;
		rc = g4_end(fs, &txn, rc < 0 || logged == 0 ? rc : logged);
	}
	return rc < 0 ? rc : 0;
}

/* Nothing can be moved any more: the gap becomes a hole. */
G4_FN static int leave_gap(struct g4_wg *wg, struct g4_fs *fs, struct shift *s)
{
	struct g4_txn txn;
	int rc = g4_begin(wg, fs, 4, &txn);

	if (rc < 0)
		return rc;
	s->inode->disk.size += s->pages * G4_PAGE_BYTES;
	return g4_end(fs, &txn, note_gap(wg, fs, &txn, s, false));
}

G4_FN static void take_memory(struct g4_wg *wg, const struct g4_fs *fs, struct shift *s)
{
	const bool sums = g4_load64_acq(&fs->super.features_incompat) & G4_FEATURE_INCOMPAT_SUMS;

	s->slots = (g4_le64 *)g4_scratch_take(wg, G4_INDIRECT_SLOTS * sizeof(*s->slots));
	s->entries = NULL;
	if (sums)
		s->entries = (struct g4_sum_entry *)g4_scratch_take(wg, G4_SUMS_SLOTS * sizeof(*s->entries));
}

/* What the way of all pages behind the gap, or the range, changes is the file's own: `first` is the first of them, and comes to `to`. */
G4_FN static int own_moved(struct g4_wg *wg, struct g4_fs *fs, const struct shift *s, uint64_t first, uint64_t to)
{
	const struct g4_change moves = {G4_CHANGE_MOVE, first, UINT64_MAX, to, whole_level(s)};
	const int rc = to < first ? g4_own_ends(wg, fs, s->index, to, first) : 0;

	return rc < 0 ? rc : g4_own_for(wg, fs, s->index, &moves);
}

G4_FN int g4_file_close_gap(struct g4_wg *wg, struct g4_fs *fs, uint32_t index)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	const uint32_t mark = g4_scratch_mark(wg);
	struct shift s = {.index = index, .inode = inode};

	s.gap = s.cleared = inode->disk.rdev;
	s.pages = inode->disk.parent;
	take_memory(wg, fs, &s);
	int rc = own_moved(wg, fs, &s, s.gap + s.pages, s.gap);
	if (rc == 0)
		rc = close_gap(wg, fs, &s, inode->disk.size);
	if (rc == -G4_E_NOSPC)
		rc = leave_gap(wg, fs, &s);
	g4_set_size(inode, inode->disk.size);
	g4_scratch_release(wg, mark);
	return rc;
}

/* ------------------------------------------------------------------ space */

/*
 * Pages of the map, and of sums, that the pages from s->from on may take in their new places, `up` or down, and what dividing large
 * ones takes where they are. Whole slots that move take none but at the ends.
 */
G4_FN static int count_nodes(struct g4_wg *wg, struct g4_fs *fs, const struct shift *s, bool up, uint64_t *nodes)
{
	const struct g4_inode_core *inode = s->inode;
	const uint64_t end = g4_map_capacity_pages(inode->disk.map_height);
	const uint32_t whole = whole_level(s);
	uint64_t counted[G4_MAP_MAX_HEIGHT + 1] = {0}; /* by level: the first node that is not counted yet */
	uint64_t rows[G4_MAP_MAX_HEIGHT + 1] = {0};    /* the same of pages of sums */
	uint64_t page = up ? s->from : s->from + s->pages, last = 0;
	/* slots of the inode, which are there; beside each large page's its sums stand as well, which may have to get a place */
	bool slots = whole == inode->disk.map_height && s->from % g4_map_span(whole) == 0;
	struct g4_run run = {G4_HOLE, 0, G4_NO_ADDRESS, 0};
	int rc = 0;

	/* at both ends a node and what is divided there, with a page of sums each, and a higher map */
	*nodes = (s->entries ? 7 : 3) * (G4_MAP_MAX_HEIGHT + 1) + 2 * g4_extent_divide_pages(fs, 0, 1);
	for (; page < end && rc == 0; page += run.pages) {
		rc = g4_map_lookup(wg, fs, inode, page, end - page, &run);
		if (rc < 0 || run.kind == G4_HOLE)
			continue;
		const uint64_t to = up ? page + s->pages : page - s->pages;
		last = to + run.pages;
		slots = slots && (s->entries == NULL || run.level < whole);
		for (uint32_t level = whole + 1; level <= G4_MAP_MAX_HEIGHT; level++) {
			const uint64_t first = g4_max64(to >> (9 * level), counted[level]);
			const uint64_t behind = ((to + run.pages - 1) >> (9 * level)) + 1;
			*nodes += behind > first ? behind - first : 0;
			counted[level] = g4_max64(counted[level], behind);
			if (s->entries == NULL || level > run.level + 1)
				continue;		    /* entries stand beside pointers to contents alone */
			const uint32_t row = 9 * level - 2; /* log2 of the pages that have their entries in one page */
			const uint64_t first_row = g4_max64(to >> row, rows[level]);
			const uint64_t behind_rows = ((to + run.pages - 1) >> row) + 1;
			*nodes += behind_rows > first_row ? behind_rows - first_row : 0;
			rows[level] = g4_max64(rows[level], behind_rows);
		}
		for (uint32_t level = run.level; level > whole; level--)
			*nodes += run.pages / g4_map_span(level) + 1;
		if (run.level > 0 && run.kind == G4_WRITTEN)
			*nodes += whole == 0 ? g4_extent_divide_pages(fs, page, run.pages) : 0;
	}
	/* where nothing moves, what is taken out may begin inside of a large page */
	if (rc == 0 && last == 0)
		rc = g4_map_lookup(wg, fs, inode, s->from, 1, &run);
	if (rc == 0 && (last == 0 ? run.level == 0 || run.kind == G4_HOLE : slots && last <= end))
		*nodes = 0;
	return rc;
}

G4_FN static int reserve(struct g4_wg *wg, struct g4_fs *fs, struct shift *s, bool up)
{
	uint64_t nodes;

	for (uint32_t tries = 0;; tries++) {
		int rc = count_nodes(wg, fs, s, up, &nodes);
		if (rc < 0)
			return rc;
		nodes *= up ? 2 : 1; /* what was moved may have to go back */
		if (g4_alloc_reserve(&fs->alloc, nodes)) {
			s->inode->map_reservation = nodes;
			return 0;
		}
		rc = tries ? -G4_E_NOSPC : g4_make_room(wg, fs, s->index);
		if (rc < 0)
			return rc;
	}
}

/* ------------------------------------------------------------------ all of it */

G4_FN int g4_file_check_shift(const struct g4_inode_core *inode, uint32_t mode, uint64_t offset, uint64_t bytes)
{
	if (!(mode & (G4_FALLOC_INSERT_RANGE | G4_FALLOC_COLLAPSE_RANGE)))
		return 0;
	if (offset % G4_PAGE_BYTES != 0 || bytes % G4_PAGE_BYTES != 0 || offset >= inode->size)
		return -G4_E_INVAL;
	if (mode == G4_FALLOC_INSERT_RANGE)
		return bytes > G4_FILE_MAX_BYTES - inode->size ? -G4_E_FBIG : 0;
	return bytes >= inode->size - offset ? -G4_E_INVAL : 0;
}

G4_FN static int shift(struct g4_wg *wg, struct g4_fs *fs, struct shift *s, bool up)
{
	struct g4_inode_core *inode = s->inode;
	const uint64_t bytes = s->pages * G4_PAGE_BYTES, size = up ? inode->size + bytes : inode->size - bytes;
	uint64_t end = 0;
	/* a file is not left with a gap where the device does not give what it has behind it */
	int rc = g4_map_look(wg, fs, inode, s->from, s->entries != NULL);

	if (rc == 0 && up)
		rc = g4_map_end(wg, fs, inode, UINT64_MAX, &end);
	if (rc == 0 && end > G4_FILE_MAX_BYTES / G4_PAGE_BYTES - s->pages)
		rc = -G4_E_FBIG;
	if (rc == 0)
		rc = reserve(wg, fs, s, up);
	if (rc < 0)
		return rc;
	/* nobody brings pages back as long as the inode is locked */
	g4_cache_drop_range(&fs->cache, inode->data_key, s->from, g4_max64(s->from, g4_pages_for(inode->size)));
	const uint64_t span = g4_map_span(whole_level(s));
	s->gap = s->from;
	if (up && end > s->from) /* where the last slot ends that moves as it is */
		s->gap = (end + span - 1) & ~(span - 1);
	s->cleared = s->from;
	rc = up ? open_gap(wg, fs, s, size) : close_gap(wg, fs, s, size);
	if (rc == -G4_E_NOSPC && (inode->disk.flags & G4_INODE_GAP)) { /* though enough was reserved */
		s->cleared = s->gap + s->pages;
		if (!up || close_gap(wg, fs, s, inode->disk.size) < 0)
			(void)leave_gap(wg, fs, s); /* rc tells more */
	}
	/* a file that is used with its gap would lose what is written there: recovery closes it */
	if (rc < 0 && (inode->disk.flags & G4_INODE_GAP))
		g4_fs_error(fs, rc);
	g4_alloc_unreserve(&fs->alloc, inode->map_reservation);
	inode->map_reservation = 0;
	g4_set_size(inode, inode->disk.size);
	return rc;
}

G4_FN int g4_file_shift(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint32_t mode, uint64_t offset,
			uint64_t bytes)
{
	struct shift s = {.index = index, .inode = g4_icache_at(fs, index)};
	int rc = g4_inline_leave(wg, fs, index);

	const bool up = mode == G4_FALLOC_INSERT_RANGE;
	s.from = offset >> G4_PAGE_SHIFT;
	s.pages = bytes >> G4_PAGE_SHIFT;
	if (rc == 0)
		rc = g4_writeback_mapped(wg, fs, index);
	if (rc == 0)
		rc = own_moved(wg, fs, &s, up ? s.from : s.from + s.pages, up ? s.from + s.pages : s.from);
	if (rc < 0)
		return rc;
	const uint32_t mark = g4_scratch_mark(wg);
	take_memory(wg, fs, &s);
	rc = shift(wg, fs, &s, up);
	g4_scratch_release(wg, mark);
	return rc;
}
