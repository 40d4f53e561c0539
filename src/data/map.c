/* SPDX-License-Identifier: Apache-2.0 */
/*
 * File mapping: a radix tree of pointers (DESIGN.md "File map"). The inode's 16 slots cover 512^height pages each;
 * an indirect page of level L has 512 slots of 512^(L-1) pages. A data pointer may stand at level 1 (2 MiB) or 2 (1 GiB)
 * instead of an indirect page; it is split when a part of it changes, and a full, contiguous, aligned level-1 page
 * becomes one 2 MiB pointer.
 *
 * Changing functions run inside the caller's transaction and stop early, at a valid state, when its credits run out or
 * it is crowded.
 */
#include "data/map.h"

#include "data/extent.h"
#include "data/map_own.h"
#include "data/map_path.h"
#include "data/sums.h"
#include "data/unreadable.h"
#include "inode/txn.h"

/* Whether a slot of the inode covers the page. */
G4_FN static bool has_slot(const struct g4_inode_core *inode, uint64_t page)
{
	return !(inode->disk.flags & G4_INODE_INLINE) &&
	       page >> (9 * inode->disk.map_height) < g4_inode_slots(&inode->disk);
}

/* Extends a run over the slots that follow in the same array. */
G4_FN static void extend_run(const g4_le64 *slots, uint32_t count, uint32_t at, uint64_t most, struct g4_run *run)
{
	if (run->kind == G4_HOLE) {
		run->pages += g4_count_row(&slots[at + run->pages], g4_min64(most, count - at) - run->pages, 0, 0);
		return;
	}
	while (run->pages < most && at + run->pages < count) {
		g4_ptr next = slots[at + run->pages];
		if ((next & G4_PTR_INDIRECT) || g4_map_kind(next) != run->kind ||
		    (next && !g4_address_is(g4_ptr_address(next), g4_address_after_pages(run->address, run->pages))))
			break;
		run->pages++;
	}
}

G4_FN int g4_map_lookup(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			uint64_t most, struct g4_run *run)
{
	uint32_t level = inode->disk.map_height, line = G4_NO_LINE;
	int rc = 0;

	run->kind = G4_HOLE;
	run->level = 0;
	run->address = G4_NO_ADDRESS;
	run->pages = most;
	if (!has_slot(inode, page))
		return 0;
	const g4_le64 *slots = inode->disk.map;
	uint32_t count = g4_inode_slots(&inode->disk), at = (uint32_t)(page >> (9 * level));
	for (;;) {
		g4_ptr ptr = slots[at];
		if (!(ptr & G4_PTR_INDIRECT)) {
			uint64_t inside = page & (g4_map_span(level) - 1);
			rc = ptr ? g4_map_check_data(fs, ptr, level) : 0;
			run->kind = g4_map_kind(ptr);
			run->level = level;
			run->address = ptr ? g4_address_after_pages(g4_ptr_address(ptr), inside) : G4_NO_ADDRESS;
			run->pages = g4_min64(most, g4_map_span(level) - inside);
			if (level == 0)
				extend_run(slots, count, at, most, run);
			break;
		}
		if (level == 0) {
			rc = -G4_E_CORRUPT_MAP;
			break;
		}
		uint32_t below;
		rc = g4_map_get_node(wg, fs, inode, ptr, level, &below);
		if (line != G4_NO_LINE)
			g4_cache_put(&fs->cache, line);
		line = G4_NO_LINE;
		if (rc < 0)
			break;
		line = below;
		level--;
		slots = g4_map_slots(fs, line);
		count = G4_INDIRECT_SLOTS;
		at = (uint32_t)(page >> (9 * level)) & (G4_INDIRECT_SLOTS - 1);
	}
	if (line != G4_NO_LINE)
		g4_cache_put(&fs->cache, line);
	return rc;
}

/* Where the entry of a page, or of the large page that it is in, stands: beside a slot of `line`, referenced, or of the inode. */
struct beside {
	bool found; /* or there is none */
	uint32_t line, slot;
	uint32_t level; /* of the slot */
	g4_ptr ptr;
};

G4_FN static int find_beside(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			     struct beside *at)
{
	at->level = inode->disk.map_height;
	at->line = G4_NO_LINE;
	at->slot = (uint32_t)(page >> (9 * at->level));
	at->found = has_slot(inode, page);
	at->ptr = at->found ? inode->disk.map[at->slot] : 0;
	while (at->level > 0 && (at->ptr & G4_PTR_INDIRECT)) {
		uint32_t below;
		int rc = g4_map_get_node(wg, fs, inode, at->ptr, at->level, &below);
		if (at->line != G4_NO_LINE)
			g4_cache_put(&fs->cache, at->line);
		at->line = rc < 0 ? G4_NO_LINE : below;
		if (rc < 0)
			return rc;
		at->level--;
		at->slot = (uint32_t)(page >> (9 * at->level)) & (G4_INDIRECT_SLOTS - 1);
		at->ptr = g4_map_slots(fs, below)[at->slot];
	}
	return 0;
}

G4_FN int g4_map_end(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t before,
		     uint64_t *end)
{
	uint64_t page = g4_min64(before, g4_inode_slots(&inode->disk) * g4_map_span(inode->disk.map_height));
	int rc = 0;

	*end = 0;
	while (page > 0 && rc == 0) {
		struct beside at;

		rc = find_beside(wg, fs, inode, page - 1, &at);
		if (rc == 0 && at.ptr == 0) { /* back to what is there in front of it in the same page */
			const g4_le64 *slots = at.line == G4_NO_LINE ? inode->disk.map : g4_map_slots(fs, at.line);
			while (at.slot > 0 && slots[at.slot - 1] == 0)
				at.slot--;
			const uint64_t base = at.line == G4_NO_LINE ? 0 : (page - 1) & ~(g4_map_span(at.level + 1) - 1);
			page = base + at.slot * g4_map_span(at.level);
		} else if (rc == 0) {
			*end = page;
		}
		if (at.line != G4_NO_LINE)
			g4_cache_put(&fs->cache, at.line);
		if (*end)
			break;
	}
	return rc;
}

G4_FN int g4_map_sums(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
		      uint32_t count, struct g4_sum_entry *sums)
{
	int rc = 0;

	g4_zero(wg, sums, count * sizeof(*sums));
	while (count > 0 && rc == 0) {
		/* what lies in one page of sums */
		uint32_t n = (uint32_t)g4_min64(count, g4_sums_row((uint32_t)(page % G4_SUMS_SLOTS)));
		struct g4_sum_entry entry;
		struct beside at;

		rc = find_beside(wg, fs, inode, page, &at);
		if (rc == 0 && at.level == 0 && inode->disk.map_height == 0)
			n = (uint32_t)g4_min64(n, at.found ? g4_inode_slots(&inode->disk) - at.slot : n);
		if (rc == 0 && at.found && at.level == 0) {
			rc = g4_sums_read(wg, fs, inode, at.line, at.slot, n, sums);
		} else if (rc == 0 && (at.ptr & G4_PTR_VALID)) {
			rc = g4_sums_read(wg, fs, inode, at.line, at.slot, 1, &entry);
			if (rc == 0)
				rc = g4_sums_read_large(wg, fs, g4_sums_maker(fs, inode, at.line), &entry, at.level,
							page, n, sums);
		}
		if (at.line != G4_NO_LINE)
			g4_cache_put(&fs->cache, at.line);
		page += n;
		sums += n;
		count -= n;
	}
	return rc;
}

G4_FN int g4_map_row(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
		     struct g4_sum_entry *entry)
{
	struct beside at;
	int rc = find_beside(wg, fs, inode, page, &at);

	g4_zero(wg, entry, sizeof(*entry));
	if (rc == 0 && at.found && at.level == 1 && (at.ptr & G4_PTR_VALID))
		rc = g4_sums_read(wg, fs, inode, at.line, at.slot, 1, entry);
	if (at.line != G4_NO_LINE)
		g4_cache_put(&fs->cache, at.line);
	return rc < 0 ? rc : g4_sum_entry_algorithm(entry) == G4_CHECKSUM_LARGE;
}

G4_FN int g4_map_sums_page(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			   uint32_t *line, const struct g4_sum_entry **entry)
{
	struct beside at;
	int rc = find_beside(wg, fs, inode, page, &at);

	*line = G4_NO_LINE;
	if (rc == 0 && (at.level == 0 || (at.ptr & G4_PTR_VALID)))
		rc = g4_sums_page(wg, fs, inode, at.line, at.slot, at.level, page, line, entry);
	if (at.line != G4_NO_LINE)
		g4_cache_put(&fs->cache, at.line);
	return rc;
}

G4_FN int g4_map_sums_ready(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
			    uint64_t *pages)
{
	struct beside at;
	int rc = find_beside(wg, fs, inode, page, &at);

	if (rc < 0)
		return rc;
	*pages = g4_min64(*pages, g4_sums_row((uint32_t)(page % G4_SUMS_SLOTS)));
	if (inode->disk.map_height == 0 && at.found)
		*pages = g4_min64(*pages, g4_inode_slots(&inode->disk) - at.slot);
	rc = at.found && at.level == 0 && g4_sums_ready(fs, inode, at.line, at.slot);
	if (at.line != G4_NO_LINE)
		g4_cache_put(&fs->cache, at.line);
	return rc;
}

/* The pages of sums that the entry of a large page leads to: its own four, and on the way down those of what has the page. */
G4_FN static int add_large(struct g4_wg *wg, struct g4_fs *fs, uint64_t maker, uint64_t page, uint32_t level,
			   struct g4_sum_entry entry, struct g4_map_nodes *nodes)
{
	int rc = 0;

	for (; rc == 0 && level > 0 && g4_sum_entry_algorithm(&entry) == G4_CHECKSUM_LARGE; level--) {
		const struct g4_address first = g4_sum_entry_place(&entry);
		const uint32_t slot = (uint32_t)(page >> (9 * (level - 1))) % G4_INDIRECT_SLOTS;
		const uint32_t quarter = slot / G4_SUMS_SLOTS;
		uint32_t line;
		for (uint32_t k = 0; k < G4_SUMS_QUARTERS; k++)
			nodes->sums[nodes->sums_count++] = g4_address_after_pages(first, k);
		if (level == 1)
			return 0;
		rc = g4_ptr_validate(g4_ptr_make(first, G4_TAG_4K, G4_PTR_VALID), &fs->meta.layout);
		if (rc == 0)
			rc = g4_meta_get_sums(wg, &fs->meta, g4_address_after_pages(first, quarter), maker, level,
					      quarter, &line);
		if (rc == 0) {
			entry = ((const struct g4_sums_page *)g4_line_data(&fs->cache, line))
					->entries[slot % G4_SUMS_SLOTS];
			g4_cache_put(&fs->cache, line);
		}
	}
	return rc;
}

G4_FN int g4_map_nodes(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint64_t page,
		       struct g4_map_nodes *nodes)
{
	uint32_t level = inode->disk.map_height;
	struct g4_sum_entry entry;
	struct beside at;

	nodes->count = nodes->sums_count = 0;
	if (!has_slot(inode, page))
		return 0;
	g4_ptr ptr = inode->disk.map[page >> (9 * level)];
	for (; level > 0 && (ptr & G4_PTR_INDIRECT); level--) {
		uint32_t line;
		nodes->nodes[nodes->count++] = g4_ptr_address(ptr);
		int rc = g4_map_get_node(wg, fs, inode, ptr, level, &line);
		if (rc < 0)
			return rc;
		for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++) {
			const struct g4_address sums =
				g4_sums_place(g4_meta_places(&fs->cache, line), g4_ptr_address(ptr), quarter);
			if (!g4_address_is_none(sums))
				nodes->sums[nodes->sums_count++] = sums;
		}
		ptr = g4_map_slots(fs, line)[(page >> (9 * (level - 1))) & (G4_INDIRECT_SLOTS - 1)];
		g4_cache_put(&fs->cache, line);
	}
	if (level == 0 || !(ptr & G4_PTR_VALID))
		return 0;
	int rc = find_beside(wg, fs, inode, page, &at);
	if (rc == 0)
		rc = g4_sums_read(wg, fs, inode, at.line, at.slot, 1, &entry);
	if (rc == 0)
		rc = add_large(wg, fs, g4_sums_maker(fs, inode, at.line), page, at.level, entry, nodes);
	if (at.line != G4_NO_LINE)
		g4_cache_put(&fs->cache, at.line);
	return rc;
}

/* ------------------------------------------------------------------ changing */

/* What pages of a file are to lead to. */
struct target {
	struct g4_address address;
	uint64_t pages;
	bool written;
	bool shared;			 /* the space has an owner already; else it is claimed and not published */
	bool whole;			 /* shared: from a large pointer */
	bool found;			 /* shared: by an entry of the table of contents, which may go */
	bool same;			 /* shared: what is there has the same contents */
	bool prepares;			 /* not written, and to have sums when it is */
	const struct g4_sum_entry *sums; /* of the pages, or NULL */
	const struct g4_sum_entry
		*row;	       /* whole: that of the large page, whose pages of sums are to be shared; or NULL */
	const uint32_t *marks; /* found: of each, g4_share_mark(); NULL: of none */
};

G4_STATIC_ASSERT(
	G4_EXTENT_CREDITS(6, G4_INDIRECT_SLOTS) + G4_EXTENT_SHARE_CREDITS + G4_SHARE_LEAVE_CREDITS <=
			2 * G4_MAP_CREDITS &&
		G4_EXTENT_CREDITS(4, G4_INDIRECT_SLOTS) + G4_EXTENT_SHARE_CREDITS + G4_SHARE_LEAVE_CREDITS +
				G4_SHARE_CREDITS <=
			2 * G4_MAP_CREDITS &&
		G4_EXTENT_CREDITS(7, G4_INDIRECT_SLOTS) + G4_SHARE_RELEASE_MOST + G4_SHARE_LEAVE_CREDITS <=
			2 * G4_MAP_CREDITS,
	"so is what mapping begins with, once the way to the slot is there: shared with sums, shared with others', new with sums");

/*
 * Where sums have no place, what was shared is released again. In the place of something else that has the credits of what does not go then. In a hole's
 * it has none of its own: the row, of two quarters at most, where a version of before may have left everything empty, the page of counts of another
 * region that is settled, the slots, and the page of sums that was not to be had, are no more than what was asked for sharing and mapping it.
 */
G4_STATIC_ASSERT(G4_SHARE_RELEASE_CREDITS(2) + 3 + 1 + 3 <= G4_EXTENT_CREDITS(4, G4_INDIRECT_SLOTS) + G4_SHARE_CREDITS,
		 "a share in a hole can be undone");
/* The same of a large page, whose four pages of sums are new; with others' pages of sums the credits to leave these are asked for. */
G4_STATIC_ASSERT(G4_SHARE_RELEASE_MOST + (G4_SUMS_QUARTERS + 2) + 1 + 3 <=
				 G4_EXTENT_CREDITS(7, G4_INDIRECT_SLOTS) + G4_SHARE_CREDITS &&
			 G4_SHARE_RELEASE_MOST + G4_SHARE_LEAVE_CREDITS + 3 + 1 + 3 <=
				 G4_EXTENT_CREDITS(5, G4_INDIRECT_SLOTS) + 2 * G4_SHARE_CREDITS +
					 G4_SHARE_LEAVE_CREDITS,
		 "a large one in a hole's place as well");

/* How many of the target's pages from one on, which come to `to`, can be shared at a time: one that was compared is proved by its mark alone. */
G4_FN static uint64_t found_row(const struct target *target, uint64_t from, struct g4_address to, uint64_t most)
{
	uint64_t row = 1;

	most = g4_share_list_part(to, most);
	if (!target->marks)
		return most;
	while (target->marks[from] == 0 && row < most && target->marks[from + row] == 0)
		row++;
	return row;
}

/* Takes back what got an owner more before rc was met. Where it can not, counts are wrong, and the journal ends, which want of space would not do. */
G4_FN static int unshare(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_address to, uint64_t n,
			 int rc)
{
	return g4_extent_release(wg, fs, txn, to, n) < 0 ? -G4_E_IO : rc;
}

/* Replaces a run of level-0 slots of the indirect page in `line`, or of the inode. *done: slots changed before the credits ran out. */
G4_FN static int set_slots(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   uint32_t line, g4_le64 *slots, uint64_t count, const struct target *target, uint64_t from,
			   uint64_t *done)
{
	const struct g4_sum_entry *sums = target->sums ? &target->sums[from] : NULL;
	const g4_le64 *all = line == G4_NO_LINE ? inode->disk.map : g4_map_slots(fs, line);
	const uint32_t first = (uint32_t)(slots - all);
	uint64_t k = 0, one = 1;
	int rc = 0;

	while (k < count && rc == 0) {
		struct g4_run old = {g4_map_kind(slots[k]), 0, g4_ptr_address(slots[k]), 1};
		const struct g4_address to = g4_address_after_pages(target->address, from + k);
		uint64_t most = g4_min64(count - k, g4_sums_row(first + (uint32_t)k));

		if (slots[k]) {
			rc = g4_map_check_data(fs, slots[k], 0);
			if (rc < 0)
				break;
		}
		const uint32_t mark = target->found && target->marks ? target->marks[from + k] : 0;
		if (target->shared)
			most = target->found ? found_row(target, from + k, to, most) : g4_extent_part(to, most);
		if (old.kind != G4_HOLE)
			most = g4_extent_part(old.address, most);
		extend_run(slots, (uint32_t)count, (uint32_t)k, most, &old);
		const bool moves = !g4_address_is(old.address, to);
		if (!g4_extent_credits(fs, txn, 4, count, moves && target->shared,
				       moves && old.kind != G4_HOLE ? old.pages : 0, 0) ||
		    (k > 0 && g4_txn_is_crowded(txn)))
			break;
		if (moves && old.kind != G4_HOLE) { /* the same of its owners: before anything else has changed */
			const int several = g4_extent_has_several(wg, fs, old.address, &one);
			if (several < 0) {
				rc = k > 0 && -several >= G4_E_IO ? 0 : several;
				break;
			}
		}
		if (moves && target->shared) /* may find no space for a count: before anything else has changed */
			rc = target->found ? g4_extent_share_found(wg, fs, txn, to, old.pages, &sums[k],
								   g4_inode_domain(&inode->disk), mark) :
			     target->same  ? g4_extent_share_same(wg, fs, txn, to, old.pages) :
					     g4_extent_share(wg, fs, txn, to, old.pages);
		if (rc < 0)
			break;
		if (rc > 0) /* so many were found */
			old.pages = (uint64_t)rc;
		if (line != G4_NO_LINE)
			g4_txn_dirty(txn, line);
		if (target->written)
			rc = g4_sums_write(wg, fs, txn, inode, line, first + (uint32_t)k, (uint32_t)old.pages,
					   sums ? &sums[k] : NULL);
		else if (target->prepares)
			rc = g4_sums_prepare(wg, fs, txn, inode, line, first + (uint32_t)k);
		if (rc < 0 && moves && target->shared)
			rc = unshare(wg, fs, txn, to, old.pages, rc);
		if (rc < 0)
			break;
		if (moves) {
			if (old.kind != G4_HOLE)
				rc = g4_extent_release(wg, fs, txn, old.address, old.pages);
			if (rc == 0 && !target->shared)
				rc = g4_extent_acquire(wg, fs, txn, to, old.pages);
			if (rc < 0)
				break;
			inode->disk.pages += old.kind == G4_HOLE ? old.pages : 0;
		}
		for (uint64_t i = 0; i < old.pages; i++)
			slots[k + i] = g4_map_data_ptr(g4_address_after_pages(to, i), 0, target->written);
		k += old.pages;
	}
	*done = k;
	return rc;
}

/*
 * A level-1 page whose 512 pages are contiguous, aligned and written gives way to one 2 MiB pointer. If it has pages of sums, they are
 * four in a row; they become those of the large page.
 */
G4_FN static int collapse(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  struct g4_path *path, uint64_t page)
{
	const g4_le64 *slots = g4_map_slots(fs, path->lines[1]);
	const struct g4_address first = g4_ptr_address(slots[0]);
	const bool sums = g4_sums_any(fs, path->lines[1]);
	struct g4_sum_entry entry;
	struct g4_path above;

	if (sums && g4_sums_maker(fs, inode, path->lines[1]) != inode->ino) /* pages of sums that name another file */
		return 0;
	if (g4_address_is_none(first) || !g4_address_starts_region(first) ||
	    !g4_address_is(g4_ptr_address(slots[511]), g4_address_after_pages(first, 511)))
		return 0;
	if (g4_count_row(slots, G4_INDIRECT_SLOTS, g4_map_data_ptr(first, 0, true), G4_PAGE_BYTES) <
		    G4_INDIRECT_SLOTS ||
	    g4_alloc_is_unreadable(g4_path_look_at_node(wg, fs, path->lines[1])))
		return 0;
	/* the page's, the slot above it, and what stands beside that */
	if (!g4_extent_credits(fs, txn, 3, 1, false, 0, 0))
		return 0;
	if (sums && !g4_sums_join(wg, fs, path->lines[1], &entry)) {
		/* a row of pages that is made, and four that go */
		if (!g4_extent_credits(fs, txn, 3 + 1 + G4_SUMS_QUARTERS, 1, false, 0, G4_SUMS_QUARTERS)) {
			inode->joins_late = true; /* also if another 2 MiB of the batch has them */
			return 0;
		}
		const int lined_up = g4_sums_line_up(wg, fs, txn, inode, path->lines[1]);
		if (lined_up < 0 || !g4_sums_join(wg, fs, path->lines[1], &entry))
			return lined_up < 0 && lined_up != -G4_E_NOSPC ? lined_up : 0;
	}
	above = *path;
	above.level = 1;
	above.slot = inode->disk.map_height == 1 ?
			     &inode->disk.map[page >> 9] :
			     &g4_map_slots(fs, path->lines[2])[(page >> 9) & (G4_INDIRECT_SLOTS - 1)];
	const struct g4_address node = g4_ptr_address(*above.slot);
	g4_path_dirty(txn, &above);
	int rc = g4_path_write_entry(wg, fs, txn, inode, &above, sums ? &entry : NULL);
	if (rc < 0) /* without the space for it everything stays as it is */
		return rc == -G4_E_NOSPC ? 0 : rc;
	*above.slot = g4_map_data_ptr(first, 1, true);
	return g4_node_release(wg, fs, txn, inode, node);
}

/* Whether the next pages are a 2 MiB page, whole and written: one pointer, unless single pages hang there now. */
G4_FN static bool is_large(uint64_t page, struct g4_address address, uint64_t pages, bool written)
{
	return written && page % G4_INDIRECT_SLOTS == 0 && g4_address_starts_region(address) &&
	       pages >= G4_INDIRECT_SLOTS;
}

/*
 * Replaces a level-1 slot that holds nothing or a data pointer. *done 0: the credits ran out. -G4_E_NOSPC: there is no space for its
 * sums in a row, and nothing has changed.
 */
G4_FN static int set_large(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   const struct g4_path *path, const struct target *target, struct g4_address address,
			   const struct g4_sum_entry *sums, uint64_t *done)
{
	struct g4_sum_entry before, entry;
	g4_ptr old = *path->slot;
	const bool moves = !g4_address_is(g4_ptr_address(old), address);
	int rc = old ? g4_map_check_data(fs, old, 1) : 0;

	/* the page, what was there, and the same of its sums; the slot, and what stands beside it. Of what is shared less, and its counts */
	const uint32_t extents = (sums ? 8 : 6) - (moves && target->shared) - (moves && old);
	if (rc < 0 ||
	    !g4_extent_credits(
		    fs, txn, extents, G4_INDIRECT_SLOTS, moves && target->shared, moves && old ? G4_INDIRECT_SLOTS : 0,
		    (target->row ? G4_SHARE_CREDITS : 0) +
			    ((old || target->row) && g4_extent_shares_rows(fs) ? G4_SHARE_LEAVE_CREDITS : 0)))
		return rc;
	rc = g4_path_read_entry(wg, fs, inode, path, &before);
	if (rc == 0 && old)
		rc = g4_look_at_large(wg, fs, old, &before);
	if (rc == 0 && moves && target->shared && !target->found)
		rc = target->whole ? g4_extent_share_whole(wg, fs, txn, address) :
				     g4_extent_share(wg, fs, txn, address, G4_INDIRECT_SLOTS);
	if (rc < 0)
		return rc;
	if (target->row) {
		entry = *target->row;
		rc = g4_sums_share_large(wg, fs, txn, inode, &entry);
	} else if (sums) {
		rc = g4_sums_new_large(wg, fs, txn, inode, sums, &entry);
	}
	if (rc == 0) {
		const bool has_entry = sums || target->row;
		g4_path_dirty(txn, path);
		rc = g4_path_write_entry(wg, fs, txn, inode, path, has_entry ? &entry : NULL);
		if (rc < 0 && has_entry && g4_sums_free_large(wg, fs, txn, inode, &entry) < 0)
			rc = -G4_E_IO;
	}
	if (rc < 0) {
		return moves && target->shared ? unshare(wg, fs, txn, address, G4_INDIRECT_SLOTS, rc) : rc;
	}
	rc = g4_sums_free_large(wg, fs, txn, inode, &before);
	if (rc == 0 && moves && old)
		rc = g4_extent_release(wg, fs, txn, g4_ptr_address(old), G4_INDIRECT_SLOTS);
	if (rc == 0 && moves && !target->shared)
		rc = g4_extent_acquire(wg, fs, txn, address, G4_INDIRECT_SLOTS);
	if (rc < 0)
		return rc;
	if (moves)
		inode->disk.pages += old ? 0 : G4_INDIRECT_SLOTS;
	*path->slot = g4_map_data_ptr(address, 1, true);
	*done = G4_INDIRECT_SLOTS;
	return 0;
}

/*
 * All pages of a large one that the table of contents has get an owner more, and the pointer leads there. *done 0, and nothing has changed: not all
 * are listed, or not in this transaction.
 */
G4_FN static int set_large_found(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
				 const struct g4_path *path, const struct target *target, struct g4_address address,
				 const struct g4_sum_entry *sums, uint64_t *done)
{
	/* as set_large(); and so that all of it can be taken back */
	if (*path->slot != 0 || !g4_extent_credits(fs, txn, 8, G4_INDIRECT_SLOTS, true, G4_INDIRECT_SLOTS, 0))
		return 0;
	int rc = g4_extent_share_found_large(wg, fs, txn, address, sums, g4_inode_domain(&inode->disk));
	if (rc < 0)
		return rc == -G4_E_AGAIN ? 0 : rc;
	rc = set_large(wg, fs, txn, inode, path, target, address, sums, done);
	return rc < 0 || *done > 0 ? rc : g4_extent_release(wg, fs, txn, address, G4_INDIRECT_SLOTS);
}

/*
 * What a step came to that began when the transaction had changed so much. An error of a device or an image that it has met before it changed
 * anything would, behind what the transaction has already, stop the journal: it ends before the step, and the next one is told.
 */
G4_FN static int told_later(const struct g4_txn *txn, uint32_t before, int rc)
{
	return -rc >= G4_E_IO && before > 0 && txn->changed == before ? 0 : rc;
}

/* The target's pages from `from` on, as many as one place in the tree has slots for: *changed of them. */
G4_FN static int set_step(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  uint64_t at, const struct target *target, uint64_t from, uint64_t *changed)
{
	const struct g4_address to = g4_address_after_pages(target->address, from);
	const struct g4_sum_entry *sums = target->sums ? &target->sums[from] : NULL;
	bool large = !(target->found && target->marks) && is_large(at, to, target->pages - from, target->written);
	struct g4_path path;

	*changed = 0;
	int rc = g4_map_grow(wg, fs, txn, inode, large ? at + G4_INDIRECT_SLOTS - 1 : at);
	if (rc < 0)
		return rc;
	g4_path_start(&path, inode, at);
	if (large)
		rc = g4_path_make(wg, fs, txn, inode, &path, at, 1);
	large = large && rc == 0 && !(*path.slot & G4_PTR_INDIRECT);
	if (large) {
		rc = target->found ? set_large_found(wg, fs, txn, inode, &path, target, to, sums, changed) :
				     set_large(wg, fs, txn, inode, &path, target, to, sums, changed);
		large = rc != -G4_E_NOSPC && !(target->found && rc == 0 && *changed == 0);
		rc = large ? rc : 0;
	}
	if (rc == 0 && !large && target->row)
		rc = -G4_E_AGAIN;
	if (rc == 0 && !large)
		rc = g4_path_make(wg, fs, txn, inode, &path, at, 0);
	if (rc == 0 && !large) {
		const uint32_t line = inode->disk.map_height ? path.lines[1] : G4_NO_LINE;
		const uint64_t room = line == G4_NO_LINE ? G4_MAP_SLOTS - at : G4_INDIRECT_SLOTS - (at & 511),
			       n = g4_min64(target->pages - from, room);
		if (line == G4_NO_LINE)
			rc = g4_sums_fit(wg, fs, txn, inode, (uint32_t)(at + n),
					 target->sums != NULL || target->prepares);
		else if (target->written)
			rc = g4_look_at_sums(wg, fs, inode, line, at, n);
		if (rc == 0)
			rc = set_slots(wg, fs, txn, inode, line, path.slot, n, target, from, changed);
		/* the last part of these 2 MiB: there is something behind it, or nothing can be */
		if (rc == 0 && line != G4_NO_LINE && *changed == n && target->written &&
		    (n == room || path.slot[n] != 0))
			rc = collapse(wg, fs, txn, inode, &path, at);
	}
	if (*changed == 0 && (rc == -G4_E_NOSPC || rc == -G4_E_MLINK)) { /* nobody goes on at what was made for it */
		const int pruned = g4_path_prune(wg, fs, txn, inode, &path, at);
		rc = pruned < 0 ? pruned : rc;
	}
	g4_path_put(fs, &path);
	return rc;
}

G4_FN static int set_pages(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   uint64_t page, const struct target *target, uint64_t *done)
{
	int rc = 0;

	*done = 0;
	while (*done < target->pages && rc == 0) {
		const uint32_t before = txn->changed;
		uint64_t changed;

		if (!g4_map_need_credits(txn, G4_MAP_CREDITS - 4))
			break;
		rc = told_later(txn, before, set_step(wg, fs, txn, inode, page + *done, target, *done, &changed));
		*done += changed;
		if (changed == 0 || g4_txn_is_crowded(txn))
			break;
	}
	return rc;
}

G4_FN int g4_map_join(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		      uint64_t page)
{
	struct g4_path path;
	int rc = 0;

	if (inode->disk.map_height == 0)
		return 0;
	g4_path_start(&path, inode, page);
	while (rc == 0 && path.level > 0 && (*path.slot & G4_PTR_INDIRECT))
		rc = g4_path_enter(wg, fs, inode, &path, page);
	if (rc == 0 && path.level == 0) {
		g4_path_dirty(txn, &path);
		rc = collapse(wg, fs, txn, inode, &path, page);
	}
	g4_path_put(fs, &path);
	return rc;
}

G4_FN int g4_map_set(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode, uint64_t page,
		     struct g4_address address, uint64_t pages, bool written, const struct g4_sum_entry *sums,
		     uint64_t *done)
{
	const bool prepares = !written && g4_sums_wanted(fs, inode);
	const struct target target = {address, pages, written, false, false, false, false, prepares, sums, NULL, NULL};

	return set_pages(wg, fs, txn, inode, page, &target, done);
}

G4_FN int g4_map_share(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       uint64_t page, struct g4_address address, uint64_t pages, bool whole, bool same,
		       const struct g4_sum_entry *sums, const struct g4_sum_entry *row, uint64_t *done)
{
	const struct target target = {address, pages, true, true, whole, false, same, false, sums, row, NULL};

	return set_pages(wg, fs, txn, inode, page, &target, done);
}

G4_FN int g4_map_share_found(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			     uint64_t page, struct g4_address address, uint64_t pages, const struct g4_sum_entry *sums,
			     const uint32_t *marks, uint64_t *done)
{
	const struct target target = {address, pages, true, true, false, true, false, false, sums, NULL, marks};

	return set_pages(wg, fs, txn, inode, page, &target, done);
}

/* Clears level-0 slots; *done: how many before the credits ran out, or before one of which the owners can not be read. */
G4_FN static int clear_slots(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			     const struct g4_path *path, uint64_t count, uint64_t *done)
{
	g4_le64 *slots = path->slot;
	uint64_t k = 0;
	int rc = 0;

	while (k < count && rc == 0) {
		const uint32_t before = txn->changed;
		struct g4_run old = {g4_map_kind(slots[k]), 0, g4_ptr_address(slots[k]), 1};
		if (slots[k])
			rc = g4_map_check_data(fs, slots[k], 0);
		if (rc < 0)
			break;
		extend_run(slots, (uint32_t)count, (uint32_t)k,
			   old.kind == G4_HOLE ? count - k : g4_extent_part(old.address, count - k), &old);
		if (old.kind != G4_HOLE) {
			if (!g4_extent_credits(fs, txn, 2, count, false, old.pages, 0) ||
			    (k > 0 && g4_txn_is_crowded(txn)))
				break;
			const int released = g4_extent_release(wg, fs, txn, old.address, old.pages);
			if (released < 0) {
				rc = k > 0 ? told_later(txn, before, released) : released;
				break;
			}
			g4_path_dirty(txn, path);
			inode->disk.pages -= old.pages;
			memset(&slots[k], 0, old.pages * sizeof(slots[0]));
		}
		k += old.pages;
	}
	*done = k;
	return rc;
}

/* Whether one transaction can release a large page: one of 1 GiB has too many pages of sums. */
G4_FN static bool may_go_whole(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode,
			       const struct g4_path *path, struct g4_sum_entry *sums, int *rc)
{
	*rc = g4_map_check_data(fs, *path->slot, path->level);
	if (*rc == 0)
		*rc = g4_path_read_entry(wg, fs, inode, path, sums);
	return *rc < 0 || path->level == 1 || g4_sum_entry_algorithm(sums) != G4_CHECKSUM_LARGE;
}

G4_STATIC_ASSERT(G4_EXTENT_CREDITS(1, G4_GIB / G4_PAGE_BYTES) <= 2 * G4_MAP_CREDITS &&
			 G4_EXTENT_CREDITS(4, G4_INDIRECT_SLOTS) + G4_SHARE_RELEASE_MOST + G4_SHARE_LEAVE_CREDITS <=
				 2 * G4_MAP_CREDITS,
		 "what clearing begins with is enough for the largest piece, however full others make the transaction");

/*
 * Down to what is cleared first at `page`. G4_LEFT, G4_LEFT_AS_IT_IS: it is an indirect page that others have as well; -G4_E_AGAIN: it would go, with
 * more credits.
 */
G4_FN static int clear_way(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   uint64_t page, uint64_t end, struct g4_path *path)
{
	int rc = 0;

	while (rc == 0 && path->level > 0 && (*path->slot & G4_PTR_INDIRECT)) {
		if (g4_map_may_share(inode))
			rc = g4_map_leave(wg, fs, txn, inode, path, page, end);
		if (rc == 0)
			rc = g4_path_enter(wg, fs, inode, path, page);
		if (rc == 0)
			g4_path_forget_below(fs, txn, path);
	}
	return rc;
}

/*
 * One step of clearing at `page`: *next is where the next step starts; equal to page when credits ran out. 1: a large
 * pointer was split, do the step again. *behind: the first page behind the array of slots that it was about.
 */
G4_FN static int clear_step(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			    uint64_t page, uint64_t end, uint64_t *next, uint64_t *behind)
{
	struct g4_sum_entry sums;
	struct g4_path path;

	g4_path_start(&path, inode, page);
	int rc = clear_way(wg, fs, txn, inode, page, end, &path);
	*behind = (page | (g4_map_span(path.level > 0 ? path.level : 1) - 1)) + 1;
	*next = page;
	if (rc == G4_LEFT || rc == G4_LEFT_AS_IT_IS) {
		*next = g4_min64((page | (g4_map_span(path.level) - 1)) + 1, end);
		rc = rc == G4_LEFT ? g4_path_prune(wg, fs, txn, inode, &path, page) : 0;
	} else if (rc == -G4_E_AGAIN) {
		rc = 0;
	} else if (rc == 0) {
		uint64_t span = g4_map_span(path.level), inside = page & (span - 1), changed = 0;
		g4_ptr ptr = *path.slot;
		/* what has other owners goes a region at a time */
		const int several =
			path.level > 1 && ptr != 0 ? g4_extent_is_shared(wg, fs, g4_ptr_address(ptr), span) : 0;
		if (several < 0) {
			g4_path_put(fs, &path);
			return several;
		}
		if (path.level == 0) {
			uint64_t room = inode->disk.map_height == 0 ? g4_inode_slots(&inode->disk) - page :
								      G4_INDIRECT_SLOTS - (page & 511);
			rc = clear_slots(wg, fs, txn, inode, &path, g4_min64(room, end - page), &changed);
			*next = page + changed;
		} else if (ptr == 0) {
			*next = page + span - inside;
		} else if (inside == 0 && end - page >= span && !several &&
			   may_go_whole(wg, fs, inode, &path, &sums, &rc)) {
			if (rc == 0)
				rc = path.level == 1 ? g4_look_at_large(wg, fs, ptr, &sums) :
						       g4_look_at_run(wg, fs, g4_ptr_address(ptr), span);
			/* the page; its sums; the slot, and what stands beside it: one of 1 GiB has no sums */
			if (rc == 0 && g4_map_need_credits(txn, G4_MAP_CREDITS) &&
			    g4_extent_credits(fs, txn, path.level == 1 ? 4 : 1, span, false, path.level == 1 ? span : 0,
					      path.level == 1 && g4_extent_shares_rows(fs) ? G4_SHARE_LEAVE_CREDITS :
											     0)) {
				g4_path_dirty(txn, &path);
				if (g4_sum_entry_algorithm(&sums) == G4_CHECKSUM_LARGE)
					rc = g4_sums_free_large(wg, fs, txn, inode, &sums);
				if (rc == 0 && g4_sum_entry_algorithm(&sums) == G4_CHECKSUM_LARGE)
					rc = g4_path_write_entry(wg, fs, txn, inode, &path, NULL);
				if (rc == 0)
					rc = g4_extent_release(wg, fs, txn, g4_ptr_address(ptr), span);
				if (rc == 0) {
					*path.slot = 0;
					inode->disk.pages -= span;
					*next = page + span;
				}
			}
		} else {
			rc = g4_path_divide(wg, fs, txn, inode, &path, page, true);
			g4_path_put(fs, &path);
			return rc < 0 ? rc : 1;
		}
		if (rc == 0 && *next > page)
			rc = g4_path_prune(wg, fs, txn, inode, &path, page);
	}
	g4_path_put(fs, &path);
	return rc;
}

/* in_parts: an error behind something that is cleared is told by the next call. *behind: after an error, what can not be had ends there. */
G4_FN static int clear(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       uint64_t page, uint64_t end, bool in_parts, uint64_t *next, uint64_t *behind)
{
	int rc = 0;

	*behind = UINT64_MAX;
	end = g4_min64(end, g4_inode_slots(&inode->disk) * g4_map_span(inode->disk.map_height));
	*next = page;
	while (*next < end) {
		const uint32_t before = txn->changed;
		uint64_t at = *next;
		if (!g4_map_need_credits(txn, G4_MAP_CREDITS - 4) || (at > page && g4_txn_is_crowded(txn)))
			return 0;
		rc = clear_step(wg, fs, txn, inode, at, end, next, behind);
		if (rc < 0 && in_parts && told_later(txn, before, rc) == 0) {
			*next = at;
			return 0;
		}
		if (rc < 0)
			return rc;
		if (*next == at && rc == 0)
			return 0;
	}
	*next = *behind = UINT64_MAX;
	for (uint32_t i = 0; i < g4_inode_slots(&inode->disk); i++)
		if (inode->disk.map[i])
			return 0;
	inode->disk.flags &= ~G4_INODE_SHARES_MAP; /* what is written next may go into the inode */
	const uint32_t before = txn->changed;
	rc = g4_sums_free(wg, fs, txn, inode, G4_NO_LINE);
	if (rc < 0 && in_parts && told_later(txn, before, rc) == 0) {
		*next = end;
		return 0;
	}
	return rc;
}

G4_FN int g4_map_clear(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       uint64_t page, uint64_t end, uint64_t *next)
{
	uint64_t behind;

	return clear(wg, fs, txn, inode, page, end, false, next, &behind);
}

G4_FN int g4_map_dig(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode, uint64_t page,
		     uint64_t end, uint64_t *next)
{
	uint64_t behind;

	return clear(wg, fs, txn, inode, page, end, true, next, &behind);
}

G4_FN int g4_map_abandon(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			 uint64_t page, uint64_t *next)
{
	uint64_t behind;
	int rc = clear(wg, fs, txn, inode, page, UINT64_MAX, true, next, &behind);

	if (rc < 0)
		*next = behind;
	return rc;
}
