/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of indirect pages that several files have. A copy leads to what the page leads to: all of that gets an owner more, and the page loses
 * one. A page with several owners does not change, whoever has the lock of one of their inodes, so it can be read without any other lock.
 * Others may leave it meanwhile. Who finds in the end that he is the last owner takes his copy back, and changes the page itself.
 *
 * Crash at any line: the copy, the owners of what hangs there, the slot that leads to it and the count of the page are of one transaction; of
 * pages that are copied one below the other each has its own, and after each the file is what it was.
 */
#include "data/map_own.h"

#include "data/extent.h"
#include "data/sums.h"
#include "data/unreadable.h"
#include "format/sums.h"
#include "inode/inode.h"
#include "inode/txn.h"

/* What a copy changes at most beside the owners of what hangs there: itself, its pages of sums, the slot, the inode, and the old page's owners. */
#define NODES_MOST (1 + G4_SUMS_QUARTERS)
#define LEAST_CREDITS (NODES_MOST * (1 + G4_ALLOC_CREDITS) + 2 + G4_SHARE_LEAVE_CREDITS)
/* And for each region of single pages; for each group of large ones, whose maps and pages of shares have all of theirs. */
#define EACH_CREDITS G4_SHARE_CREDITS
#define REGIONS_MOST 4u /* and */
#define SUMS_GROUPS                                                                                                    \
	16u /* groups that pages of sums of large pages lie in, beside what else is copied: a guess, of more it gets the credits as it goes */
#define LARGE_MOST 20u /* groups of large pages fit any transaction, unless all of them are new to sharing */
/*
 * Of buffered owners a group takes as many as a region: its pages of shares and of buffered owners, which may be made, or else a region's page of
 * counts that is settled, which may be. Each time that as many as G4_SHARE_ROW have come a buffer may be full again, and that is one more.
 */
#define SETTLED_CREDITS ((G4_INDIRECT_SLOTS / G4_SHARE_ROW + 1) * (1 + G4_ALLOC_CREDITS))
G4_STATIC_ASSERT(1 + G4_ALLOC_CREDITS + 2 <= EACH_CREDITS, "a page of counts that is made, and the group's two");
G4_STATIC_ASSERT(
	LEAST_CREDITS + (G4_MAP_PLACES + G4_INDIRECT_SLOTS / G4_SHARE_ROW) * EACH_CREDITS + SETTLED_CREDITS <=
		G4_TXN_MAX_BLOCKS / 4,
	"where cache and log are of usual size, what buffered owners allow to share can be copied, and three more beside it");
G4_STATIC_ASSERT(G4_EXTENT_CREDITS(2, 1) + G4_SHARE_LEAVE_CREDITS + G4_MAP_CREDITS <= 2 * G4_MAP_CREDITS,
		 "what clearing begins with is enough to leave a page");
G4_STATIC_ASSERT(LEAST_CREDITS + 4 * EACH_CREDITS <= G4_TXN_LEAST_BLOCKS, "what lies in four regions can be copied");
G4_STATIC_ASSERT(REGIONS_MOST == 4, "of that");

struct copy {
	struct g4_inode_core *inode;
	struct g4_txn txn;
	uint32_t level;					 /* of both pages */
	uint32_t from, to;				 /* lines */
	struct g4_address source;			 /* of the page with several owners */
	struct g4_address pages[NODES_MOST];		 /* that were made: the copy, and its pages of sums */
	uint32_t quarters[NODES_MOST], sums[NODES_MOST]; /* of these: whose, and their lines */
	uint32_t count, had; /* of them; and how many of these the file counted for the source */
	uint32_t done;	     /* slots, from the first on, of which everything has an owner more */
	uint64_t lost;	     /* pages that the copy does not lead to */
	uint64_t unknown;    /* of these at most so many more: pages of sums of large pages whose entries are lost */
	bool half;	     /* something got an owner more that could not be taken back */
	bool undone;	     /* it failed, and everything is as it was */
};

G4_FN bool g4_map_ends_within(const g4_le64 *slots, uint32_t level, uint64_t pages)
{
	const uint64_t first = (pages + g4_map_span(level - 1) - 1) / g4_map_span(level - 1);

	return first >= G4_INDIRECT_SLOTS ||
	       g4_count_row(&slots[first], G4_INDIRECT_SLOTS - first, 0, 0) == G4_INDIRECT_SLOTS - first;
}

/*
 * Whether nothing hangs at an indirect page of the file, of a level that others may have, from one of its pages to another: 1, 0, or an error. An
 * indirect page below it may lead to nothing: so two parts that are holes are one together. One that can not be had, all of which is asked for, has something.
 */
G4_FN static int is_hole(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t line,
			 uint32_t level, uint64_t from, uint64_t to)
{
	const g4_le64 *slots = g4_map_slots(fs, line);
	const uint64_t span = g4_map_span(level - 1);

	for (uint64_t at = from; at < to; at = (at | (span - 1)) + 1) {
		const g4_ptr ptr = slots[at / span];
		const uint64_t inside = at & (span - 1), end = g4_min64(to - (at - inside), span);
		uint32_t below;
		if (ptr == 0)
			continue;
		if (!(ptr & G4_PTR_INDIRECT))
			return 0;
		const int rc = g4_map_get_node(wg, fs, inode, ptr, level - 1, &below);
		if (rc < 0)
			return end - inside == span ? 0 : rc;
		const uint32_t pages = (uint32_t)(end - inside);
		const bool hole = g4_count_row(&g4_map_slots(fs, below)[inside], pages, 0, 0) == pages;
		g4_cache_put(&fs->cache, below);
		if (!hole)
			return 0;
	}
	return 1;
}
G4_STATIC_ASSERT(G4_SHARED_MAP_LEVEL <= 2, "what hangs at a slot of it has slots for single pages");

/* Whether a number is new among those that are there. */
G4_FN static bool add_place(uint64_t place, uint64_t *places, uint32_t *count)
{
	for (uint32_t k = (uint32_t)g4_min64(*count, G4_MAP_PLACES); k-- > 0;)
		if (places[k] == place)
			return false;
	if (*count < G4_MAP_PLACES)
		places[*count] = place;
	*count = (uint32_t)g4_min64(*count, G4_MAP_PLACES) + 1;
	return true;
}

G4_FN void g4_map_add_pages(struct g4_map_places *places, struct g4_address address, uint64_t pages)
{
	const uint64_t page = g4_address_page(address);

	(void)add_place(page / G4_REGION_PAGES, places->regions, &places->region_count);
	(void)add_place(page / G4_GROUP_PAGES, places->groups, &places->group_count);
	places->rows += pages >= G4_SHARE_ROW;
}

G4_FN void g4_map_add_large(struct g4_map_places *places, struct g4_address address)
{
	places->large_count +=
		add_place(g4_address_page(address) / G4_GROUP_PAGES, places->groups, &places->group_count);
}

G4_FN static bool buffers(const struct g4_fs *fs)
{
	return g4_load32_acq(&fs->alloc.buffers_owners) != 0;
}

/* Credits of a copy, where owners are counted by regions, or buffered; UINT32_MAX: too many to tell. */
G4_FN static uint32_t credits_for(const struct g4_map_places *places, bool buffered)
{
	const uint32_t count =
		buffered ? places->group_count + places->rows : places->region_count + places->large_count;

	if (places->group_count > G4_MAP_PLACES || (!buffered && places->region_count > G4_MAP_PLACES))
		return UINT32_MAX;
	return LEAST_CREDITS + count * EACH_CREDITS + (buffered ? SETTLED_CREDITS : 0);
}

G4_FN bool g4_map_can_copy(const struct g4_fs *fs, const struct g4_map_places *places)
{
	return (places->region_count <= REGIONS_MOST && places->large_count <= LARGE_MOST) ||
	       credits_for(places, true) <= fs->journal.max_blocks / 2;
}

G4_FN uint32_t g4_map_row_of(const g4_le64 *slots, uint32_t slot)
{
	const struct g4_address address = g4_ptr_address(slots[slot]);
	const uint64_t most = g4_extent_part(address, G4_INDIRECT_SLOTS - slot);
	uint32_t n = 1;

	while (n < most && g4_map_kind(slots[slot + n]) == G4_WRITTEN &&
	       g4_address_is(g4_ptr_address(slots[slot + n]), g4_address_after_pages(address, n)))
		n++;
	return n;
}

G4_FN bool g4_map_add_written(struct g4_fs *fs, uint32_t line, struct g4_map_places *places)
{
	const g4_le64 *slots = g4_map_slots(fs, line);

	for (uint32_t slot = 0, n; slot < G4_INDIRECT_SLOTS; slot += n) {
		n = 1;
		if (slots[slot] == 0)
			continue;
		if (g4_map_kind(slots[slot]) != G4_WRITTEN || g4_map_check_data(fs, slots[slot], 0) < 0)
			return false;
		n = g4_map_row_of(slots, slot);
		g4_map_add_pages(places, g4_ptr_address(slots[slot]), n);
	}
	return true;
}

G4_FN uint32_t g4_map_sums_pages(const struct g4_fs *fs, uint32_t line)
{
	const struct g4_address address = g4_page_address(fs->cache.lines[line].index);
	uint32_t pages = 0;

	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++)
		pages += !g4_address_is_none(g4_sums_place(g4_meta_places(&fs->cache, line), address, quarter));
	return pages;
}

/* ------------------------------------------------------------------ what is to be done */

enum what { NOTHING, COPY, FORGET /* the number of pages below */ };

struct task {
	enum what what;
	uint32_t level, credits, pages;
	uint64_t next; /* the first page behind what is the file's own by then */
};

/* Credits for a copy of the page in a line, and pages for it. */
G4_FN static void measure(struct g4_fs *fs, uint32_t line, uint32_t level, struct task *task)
{
	const g4_le64 *slots = g4_map_slots(fs, line);
	struct g4_map_places places = {.region_count = 0};
	uint32_t sums = 0;

	for (uint32_t k = 0, n; k < G4_INDIRECT_SLOTS; k += n) {
		n = level == 1 && g4_map_kind(slots[k]) == G4_WRITTEN ? g4_map_row_of(slots, k) : 1;
		if (slots[k] == 0)
			continue;
		if (level == 1 || (slots[k] & G4_PTR_INDIRECT))
			g4_map_add_pages(&places, g4_ptr_address(slots[k]), n);
		else
			g4_map_add_large(&places, g4_ptr_address(slots[k]));
	}
	task->pages = 1 + g4_map_sums_pages(fs, line);
	const uint32_t each = credits_for(&places, false), buffered = credits_for(&places, buffers(fs));
	const uint32_t credits = (uint32_t)g4_min64(each, buffered);
	if (level > 1 && task->pages > 1) /* pages of sums of large pages, which lie anywhere */
		sums = (each <= buffered ? REGIONS_MOST : SUMS_GROUPS) * EACH_CREDITS;
	task->credits = (uint32_t)g4_min64((uint64_t)credits + sums, fs->journal.max_blocks);
}

/* Which indirect pages on a way are looked at. */
struct way {
	uint64_t page, end; /* what changes */
	uint32_t above;	    /* of a level above it alone */
	bool ends;	    /* only what has pages in front of the way's own, too */
	bool fills;	    /* holes change as well */
	bool goes;	    /* what has nothing else goes as a whole */
};

/* Whether an indirect page in a line that begins at a page changes, and stays: 1, 0, or an error. */
G4_FN static int changes(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, const struct way *way,
			 uint32_t line, uint32_t level, uint64_t begin)
{
	const uint64_t span = g4_map_span(level);
	const uint64_t from = way->page > begin ? way->page - begin : 0, to = g4_min64(way->end - begin, span);
	int rc = way->fills ? 0 : is_hole(wg, fs, inode, line, level, from, to);

	if (rc != 0)
		return rc < 0 ? rc : 0;
	if (!way->goes)
		return 1;
	rc = is_hole(wg, fs, inode, line, level, 0, from);
	if (rc > 0)
		rc = is_hole(wg, fs, inode, line, level, to, span);
	return rc < 0 ? rc : rc == 0;
}

/* What is to be done first on the way to a page. */
G4_FN static int look(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
		      const struct way *way, struct task *task)
{
	struct g4_path path;
	uint32_t level;
	int rc = 0;

	task->what = NOTHING;
	g4_path_start(&path, inode, page);
	level = path.level;
	while (rc == 0 && task->what == NOTHING && path.level > way->above && (*path.slot & G4_PTR_INDIRECT)) {
		const uint64_t inside = page & (g4_map_span(path.level) - 1);
		if (way->ends && inside == 0)
			break;
		const int shared = g4_path_is_shared(wg, fs, inode, &path);
		task->level = path.level;
		rc = shared < 0 ? shared : g4_path_down(wg, fs, inode, &path, page);
		if (rc < 0)
			break;
		level = path.level;
		const uint32_t line = path.lines[task->level];
		const bool counted = task->level == G4_SHARED_MAP_LEVEL && g4_meta_line(&fs->cache, line)->below != 0;
		if (!shared && !counted)
			continue;
		rc = changes(wg, fs, inode, way, line, task->level, page - inside);
		if (rc == 0)
			level = task->level;
		if (rc <= 0)
			break;
		rc = 0;
		task->what = shared ? COPY : FORGET;
		if (shared)
			measure(fs, line, task->level, task);
	}
	level = level > way->above ? level : way->above + 1;
	task->next = (page | (g4_map_span(level) - 1)) + 1;
	g4_path_put(fs, &path);
	return rc < 0 ? rc : 0;
}

/* ------------------------------------------------------------------ copying */

G4_FN static const struct g4_sum_entry *entries_of(const struct g4_fs *fs, uint32_t line)
{
	return ((const struct g4_sums_page *)(const void *)g4_line_data(&fs->cache, line))->entries;
}

/* The entry of a large page beside a slot of the copy, or NULL. */
G4_FN static const struct g4_sum_entry *row_of(const struct g4_fs *fs, const struct copy *c, uint32_t slot)
{
	for (uint32_t n = 1; n < c->count; n++)
		if (c->quarters[n] == slot / G4_SUMS_SLOTS) {
			const struct g4_sum_entry *entry = &entries_of(fs, c->sums[n])[slot % G4_SUMS_SLOTS];
			return g4_sum_entry_algorithm(entry) == G4_CHECKSUM_LARGE ? entry : NULL;
		}
	return NULL;
}

/* How many slots from this one on have an owner more, or less, at a time: pages in a row of one region, of level 1. */
G4_FN static uint32_t slots_from(const g4_le64 *slots, uint32_t slot, uint32_t level)
{
	return level > 1 ? 1 : g4_map_row_of(slots, slot);
}

G4_FN static uint64_t pages_of(const struct copy *c, g4_ptr ptr, uint32_t slots)
{
	return (ptr & G4_PTR_INDIRECT) ? 1 : slots * g4_map_span(c->level - 1);
}

/* What a slot, or several in a row, lead to has an owner more: so many of them, from the first on. After an error none has; an empty page of shares may stay (FORMAT.md). */
G4_FN static int acquire(struct g4_wg *wg, struct g4_fs *fs, struct copy *c, uint32_t slot, uint32_t slots)
{
	const g4_ptr ptr = g4_map_slots(fs, c->from)[slot];
	const struct g4_address address = g4_ptr_address(ptr);
	const struct g4_sum_entry *row = NULL;
	int rc = (ptr & G4_PTR_INDIRECT) ? g4_ptr_validate(ptr, &fs->meta.layout) :
					   g4_map_check_data(fs, ptr, c->level - 1);

	if ((ptr & G4_PTR_INDIRECT) && c->level == 1)
		return -G4_E_CORRUPT_MAP;
	if (rc == 0 && c->level > 1 && !(ptr & G4_PTR_INDIRECT)) {
		rc = g4_extent_share_whole(wg, fs, &c->txn, address);
		row = row_of(fs, c, slot);
	} else if (rc == 0) {
		return g4_extent_share_few(wg, fs, &c->txn, address, slots);
	}
	if (rc < 0 || row == NULL)
		return rc < 0 ? rc : 1;
	rc = g4_layout_holds(&fs->meta.layout, g4_sum_entry_place(row)) ?
		     g4_extent_share(wg, fs, &c->txn, g4_sum_entry_place(row), 1) :
		     -G4_E_CORRUPT_MAP;
	if (rc < 0)
		c->half = g4_extent_release(wg, fs, &c->txn, address, G4_INDIRECT_SLOTS) < 0;
	return rc < 0 ? rc : 1;
}

G4_FN static int release(struct g4_wg *wg, struct g4_fs *fs, struct copy *c, uint32_t slot, uint32_t slots)
{
	const g4_ptr ptr = g4_map_slots(fs, c->from)[slot];
	const struct g4_sum_entry *row = c->level > 1 && !(ptr & G4_PTR_INDIRECT) ? row_of(fs, c, slot) : NULL;
	int rc = g4_extent_release(wg, fs, &c->txn, g4_ptr_address(ptr), pages_of(c, ptr, slots));

	if (rc == 0 && row)
		rc = g4_share_leave(wg, &fs->alloc, &c->txn, g4_sum_entry_place(row));
	return rc < 0 ? rc : 0;
}

/* All of it gets an owner more. What was never written has one alone, and is a hole in the copy. -G4_E_AGAIN: the transaction has no room for it. */
G4_FN static int acquire_all(struct g4_wg *wg, struct g4_fs *fs, struct copy *c)
{
	const g4_le64 *slots = g4_map_slots(fs, c->from);
	int rc = 0;

	while (c->done < G4_INDIRECT_SLOTS && rc >= 0) {
		const uint32_t slot = c->done;
		if (slots[slot] == 0) {
			c->done++;
			continue;
		}
		if (g4_map_kind(slots[slot]) == G4_UNWRITTEN) {
			g4_map_slots(fs, c->to)[slot] = 0;
			c->lost += pages_of(c, slots[slot], 1);
			c->done++;
			continue;
		}
		/* enough of them are left for what comes behind */
		if (c->txn.credits < 2 * EACH_CREDITS + G4_SHARE_LEAVE_CREDITS + 2 &&
		    !g4_txn_extend(&c->txn, 2 * EACH_CREDITS))
			return -G4_E_AGAIN;
		rc = acquire(wg, fs, c, slot, slots_from(slots, slot, c->level));
		c->done += rc > 0 ? (uint32_t)rc : 0;
	}
	return rc < 0 ? rc : 0;
}

/* Takes the owners back, and the pages. */
G4_FN static int take_back(struct g4_wg *wg, struct g4_fs *fs, struct copy *c)
{
	const g4_le64 *slots = g4_map_slots(fs, c->from);
	int rc = 0;

	for (uint32_t slot = 0, n; slot < c->done && rc == 0; slot += n) {
		n = g4_map_kind(slots[slot]) == G4_WRITTEN ?
			    (uint32_t)g4_min64(slots_from(slots, slot, c->level), c->done - slot) :
			    1;
		if (g4_map_kind(slots[slot]) == G4_WRITTEN)
			rc = release(wg, fs, c, slot, n);
	}
	while (c->count > 0 && rc == 0)
		rc = g4_node_release(wg, fs, &c->txn, c->inode, c->pages[--c->count]);
	return rc;
}

/* Entries of what is there, and can not be told from anything else: so many. */
G4_FN static uint32_t make_lost(const g4_le64 *slots, struct g4_sum_entry *entries)
{
	uint32_t count = 0;

	for (uint32_t k = 0; k < G4_SUMS_SLOTS; k++)
		if ((slots[k] & (G4_PTR_VALID | G4_PTR_INDIRECT)) == G4_PTR_VALID) {
			g4_sum_entry_make_lost(&entries[k]);
			count++;
		}
	return count;
}

/* A page of sums for a quarter of the copy. */
G4_FN static int copy_sums(struct g4_wg *wg, struct g4_fs *fs, struct copy *c, uint32_t quarter, struct g4_address from)
{
	const struct g4_address to = g4_page_address(fs->cache.lines[c->to].index);
	struct g4_address address;
	uint32_t source, line;
	int rc = g4_node_acquire(wg, fs, &c->txn, c->inode, &address);

	if (rc < 0)
		return rc;
	c->pages[c->count] = address;
	c->quarters[c->count] = quarter;
	c->sums[c->count] = G4_NO_LINE;
	c->count++;
	if (!g4_sums_set_place(g4_meta_places(&fs->cache, c->to), to, quarter, address))
		return -G4_E_NOSPC; /* none that is near enough */
	rc = g4_meta_new(wg, &fs->meta, address, G4_BLOCK_CHECKSUMS, &line);
	if (rc < 0)
		return rc;
	struct g4_meta_line *about = g4_meta_line(&fs->cache, line);
	about->inode = c->inode->ino;
	about->level = (uint8_t)c->level;
	about->quarter = (uint8_t)quarter;
	c->sums[c->count - 1] = line;
	g4_txn_dirty(&c->txn, line);
	rc = g4_ptr_validate(g4_ptr_make(from, G4_TAG_4K, G4_PTR_VALID), &fs->meta.layout);
	if (rc == 0)
		rc = g4_meta_get_sums(wg, &fs->meta, from, g4_meta_line(&fs->cache, c->from)->inode, c->level, quarter,
				      &source);
	if (rc == -G4_E_IO || rc == -G4_E_NOMEM)
		return rc;
	if (rc < 0) {
		const uint32_t lost =
			make_lost(g4_map_slots(fs, c->from) + (uint64_t)quarter * G4_SUMS_SLOTS,
				  ((struct g4_sums_page *)(void *)g4_line_data(&fs->cache, line))->entries);
		c->unknown += c->level > 1 ? (uint64_t)lost * G4_SUMS_QUARTERS : 0;
		return 0;
	}
	g4_copy(wg, g4_line_data(&fs->cache, line), g4_line_data(&fs->cache, source), G4_PAGE_BYTES);
	g4_cache_put(&fs->cache, source);
	return 0;
}

/* The copy, to which nothing leads yet. */
G4_FN static int make(struct g4_wg *wg, struct g4_fs *fs, struct copy *c)
{
	int rc = g4_node_acquire(wg, fs, &c->txn, c->inode, &c->pages[0]);

	if (rc < 0)
		return rc;
	c->count = c->had = 1;
	rc = g4_meta_new(wg, &fs->meta, c->pages[0], G4_BLOCK_INDIRECT, &c->to);
	if (rc < 0)
		return rc;
	g4_meta_line(&fs->cache, c->to)->inode = c->inode->ino;
	g4_meta_line(&fs->cache, c->to)->level = (uint8_t)c->level;
	g4_txn_dirty(&c->txn, c->to);
	g4_copy(wg, g4_line_data(&fs->cache, c->to), g4_line_data(&fs->cache, c->from), G4_PAGE_BYTES);
	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS && rc == 0; quarter++) {
		const struct g4_address sums = g4_sums_place(g4_meta_places(&fs->cache, c->from), c->source, quarter);
		if (g4_address_is_none(sums))
			continue;
		rc = copy_sums(wg, fs, c, quarter, sums);
		c->had += rc == 0;
	}
	return rc;
}

/*
 * Of large pages whose entries are lost, how many pages of sums the file had there: what the page with several owners says of all that it leads to, less
 * everything that is known. Where that can not be had they are taken for pages with sums.
 */
G4_FN static uint64_t lost_rows(struct g4_wg *wg, struct g4_fs *fs, const struct copy *c)
{
	const g4_le64 *slots = g4_map_slots(fs, c->from);
	const uint64_t below = g4_meta_line(&fs->cache, c->from)->below;
	uint64_t known = 1 + g4_map_sums_pages(fs, c->from);

	if (c->unknown == 0 || below == 0)
		return c->unknown;
	for (uint32_t slot = 0; slot < G4_INDIRECT_SLOTS; slot++) {
		uint32_t line;
		if (slots[slot] == 0)
			continue;
		if (!(slots[slot] & G4_PTR_INDIRECT)) {
			known += G4_INDIRECT_SLOTS + (row_of(fs, c, slot) ? G4_SUMS_QUARTERS : 0);
			continue;
		}
		if (g4_map_get_node(wg, fs, c->inode, slots[slot], c->level - 1, &line) < 0)
			return c->unknown;
		known += g4_map_count_below(fs, line);
		g4_cache_put(&fs->cache, line);
	}
	return below > known ? g4_min64(below - known, c->unknown) : 0;
}

G4_FN static void put_lines(struct g4_fs *fs, struct copy *c, uint32_t made)
{
	for (uint32_t n = 1; n < made; n++)
		if (c->sums[n] != G4_NO_LINE)
			g4_cache_put(&fs->cache, c->sums[n]);
	if (c->to != G4_NO_LINE)
		g4_cache_put(&fs->cache, c->to);
	g4_cache_put(&fs->cache, c->from);
}

/*
 * In the transaction, at the slot that leads to the page: the slot leads to a copy, or the page is the file's alone by now. Where that fails
 * everything is as it was.
 */
G4_FN static int copy_node(struct g4_wg *wg, struct g4_fs *fs, struct copy *c, struct g4_path *path)
{
	c->level = path->level;
	c->to = G4_NO_LINE;
	c->source = g4_ptr_address(*path->slot);
	int rc = g4_map_get_node(wg, fs, c->inode, *path->slot, path->level, &c->from);

	if (rc < 0)
		return rc;
	rc = make(wg, fs, c);
	const uint32_t made = c->count;
	if (rc == 0)
		rc = acquire_all(wg, fs, c);
	const uint32_t before = c->txn.changed;
	if (rc == 0)
		rc = g4_share_leave(wg, &fs->alloc, &c->txn, c->source);
	c->half |= rc < 0 && c->txn.changed != before; /* the owner is off, and what counted it could not go */
	if (rc > 0) {
		g4_path_dirty(&c->txn, path);
		*path->slot = g4_ptr_make(c->pages[0], G4_TAG_4K, G4_PTR_VALID | G4_PTR_INDIRECT);
		c->inode->disk.pages -= c->had + c->lost + lost_rows(wg, fs, c);
	} else {
		const int back = take_back(wg, fs, c);
		c->undone = rc < 0 && back == 0 && !c->half;
		/* also behind want of space, which ends no journal: counts are wrong */
		rc = back < 0 || c->half ? -G4_E_IO : rc;
	}
	put_lines(fs, c, made);
	return rc < 0 ? rc : 0;
}

/* ------------------------------------------------------------------ ways */

/* To the slot that leads to the indirect page of a level on the way to a page; 1: there is none any more. */
G4_FN static int go_to(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page, uint32_t level,
		       struct g4_path *path)
{
	int rc = 0;

	g4_path_start(path, inode, page);
	while (rc == 0 && path->level > level && (*path->slot & G4_PTR_INDIRECT))
		rc = g4_path_down(wg, fs, inode, path, page);
	return rc < 0 ? rc : path->level != level || !(*path->slot & G4_PTR_INDIRECT);
}

G4_FN static int copy_one(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
			  const struct task *task)
{
	const uint64_t reserved = inode->map_reservation;
	struct copy c = {.inode = inode};
	struct g4_path path;

	int rc = go_to(wg, fs, inode, page, task->level, &path);
	if (rc == 0)
		rc = g4_look_at_copy(wg, fs, inode, &path);
	g4_path_put(fs, &path);
	if (rc < 0)
		return rc;
	if (!g4_alloc_reserve(&fs->alloc, task->pages))
		return -G4_E_NOSPC;
	rc = g4_begin(wg, fs, task->credits, &c.txn);
	if (rc < 0) {
		g4_alloc_unreserve(&fs->alloc, task->pages);
		return rc;
	}
	inode->map_reservation = task->pages;
	rc = go_to(wg, fs, inode, page, task->level, &path);
	if (rc == 0 && g4_path_is_shared(wg, fs, inode, &path) > 0)
		rc = copy_node(wg, fs, &c, &path);
	g4_path_put(fs, &path);
	g4_alloc_unreserve(&fs->alloc, inode->map_reservation);
	inode->map_reservation = reserved;
	const int logged = c.txn.changed ? g4_inode_log(wg, fs, &c.txn, inode) : 0;
	/* what could not be read is no reason to end the journal, if nothing of the copy is left */
	const bool harmless = c.undone && rc == -G4_E_IO && logged == 0;
	const int ended = g4_end(fs, &c.txn, rc < 0 && !harmless ? rc : logged);
	rc = rc < 0 ? rc : ended;
	return rc < 0 ? rc : 0;
}

G4_FN static int forget_one(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
			    const struct task *task)
{
	struct g4_path path;
	struct g4_txn txn;
	int rc = g4_begin(wg, fs, 4, &txn);

	if (rc < 0)
		return rc;
	rc = go_to(wg, fs, inode, page, task->level, &path);
	if (rc == 0)
		rc = g4_path_down(wg, fs, inode, &path, page);
	if (rc == 0)
		g4_path_forget_below(fs, &txn, &path);
	g4_path_put(fs, &path);
	rc = g4_end(fs, &txn, rc);
	return rc < 0 ? rc : 0;
}

/* What changes on the way to a page is the file's own; *next: and so is what is in front of that. */
G4_FN static int own_way(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
			 const struct way *way, uint64_t *next)
{
	struct task task;
	int rc = look(wg, fs, inode, page, way, &task);

	for (uint32_t steps = 0; rc == 0 && task.what != NOTHING; steps++) {
		if (steps > 4 * G4_SHARED_MAP_LEVEL) /* what is shared as a whole region is no indirect page */
			return -G4_E_CORRUPT_MAP;
		rc = task.what == COPY ? copy_one(wg, fs, inode, page, &task) : forget_one(wg, fs, inode, page, &task);
		if (rc ==
		    -G4_E_AGAIN) { /* others had the credits that it could not foresee; of a whole transaction nobody has any */
			rc = task.credits < fs->journal.max_blocks ? 0 : -G4_E_NOSPC;
			task.credits = fs->journal.max_blocks;
			continue;
		}
		if (rc == 0)
			rc = look(wg, fs, inode, page, way, &task);
	}
	*next = task.next;
	return rc;
}

G4_FN static uint64_t capacity(const struct g4_inode_core *inode)
{
	return (inode->disk.flags & G4_INODE_INLINE) ?
		       0 :
		       g4_inode_slots(&inode->disk) * g4_map_span(inode->disk.map_height);
}

/* All ways to what changes. */
G4_FN static int own_range(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, const struct way *way)
{
	const uint64_t end = g4_min64(way->end, capacity(inode));
	uint64_t page = way->page;
	int rc = 0;

	while (page < end && rc == 0)
		rc = own_way(wg, fs, inode, page, way, &page);
	return rc;
}

/* The way to a page at an end of what changes. */
G4_FN static int own_end(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
			 const struct way *way)
{
	uint64_t next;

	return page >= capacity(inode) ? 0 : own_way(wg, fs, inode, page, way, &next);
}

/* Whether the file has anything mapped from a page on, `pages` of them at most: 1, 0, or an error. */
G4_FN static int has_pages(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
			   uint64_t pages)
{
	const uint64_t room = capacity(inode), end = page < room && room - page > pages ? page + pages : room;
	int rc = 0;

	while (page < end && rc == 0) {
		struct g4_path path;
		g4_path_start(&path, inode, page);
		while (rc == 0 && path.level > 0 && (*path.slot & G4_PTR_INDIRECT))
			rc = g4_path_down(wg, fs, inode, &path, page);
		const uint32_t bits = 9 * path.level;
		const uint64_t slot = page >> bits, slots = g4_path_line(inode, &path) == G4_NO_LINE ?
								    g4_inode_slots(&inode->disk) - slot :
								    G4_INDIRECT_SLOTS - slot % G4_INDIRECT_SLOTS;
		const bool found = rc == 0 && *path.slot != 0;
		if (rc == 0)
			page = (slot + g4_count_row(path.slot, (uint32_t)slots, 0, 0)) << bits;
		g4_path_put(fs, &path);
		if (found)
			return 1;
	}
	return rc;
}

/*
 * Slots of a level move as they are, so pages above it change; below it only those that the first page's way leads through, and the way to where it
 * comes to: each if something moves out of it, or into it. Where it moves up, nothing comes to what begins in front of the first page.
 */
G4_FN static int own_moved(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode,
			   const struct g4_change *change)
{
	struct way way = {change->page, UINT64_MAX, change->level, false, false, false};
	int rc = own_range(wg, fs, inode, &way);

	way.above = 0;
	way.ends = true;
	if (rc == 0)
		rc = own_end(wg, fs, inode, change->page, &way);
	way.page = change->to;
	way.fills = true;
	for (uint32_t level = G4_SHARED_MAP_LEVEL; level > 0 && rc == 0 && change->to < change->page; level--) {
		const uint64_t span = g4_map_span(level);
		way.above = level - 1;
		rc = has_pages(wg, fs, inode, change->page, span - (change->to & (span - 1)));
		if (rc > 0)
			rc = own_end(wg, fs, inode, change->to, &way);
	}
	return rc;
}

G4_FN int g4_map_own_for(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode,
			 const struct g4_change *change)
{
	struct way way = {change->page, change->end, 0, false, true, false};
	int rc;

	if (!g4_map_may_share(inode) || change->page >= change->end)
		return 0;
	if (change->kind == G4_CHANGE_MOVE)
		return own_moved(wg, fs, inode, change);
	if (change->kind == G4_CHANGE_EACH)
		return own_range(wg, fs, inode, &way);
	way.ends = way.goes = true;
	way.fills = change->kind == G4_CHANGE_RENEW;
	rc = own_end(wg, fs, inode, change->page, &way);
	return rc < 0 ? rc : own_end(wg, fs, inode, change->end, &way);
}

G4_FN int g4_map_own(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page, uint64_t end)
{
	const struct g4_change change = {G4_CHANGE_EACH, page, end, 0, 0};

	return g4_map_own_for(wg, fs, inode, &change);
}

G4_FN int g4_map_way_is_shared(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page)
{
	struct g4_path path;
	int shared = 0, rc = 0;

	if (!g4_map_may_share(inode) || page >= capacity(inode))
		return 0;
	g4_path_start(&path, inode, page);
	while (shared == 0 && rc == 0 && path.level > 0 && (*path.slot & G4_PTR_INDIRECT)) {
		shared = g4_path_is_shared(wg, fs, inode, &path);
		if (shared == 0)
			rc = g4_path_down(wg, fs, inode, &path, page);
	}
	g4_path_put(fs, &path);
	return rc < 0 ? rc : shared;
}

G4_FN int g4_map_is_shared(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t page,
			   struct g4_run *run)
{
	if (run->kind != G4_WRITTEN)
		return 0;
	if (!g4_layout_holds(&fs->meta.layout, run->address))
		return -G4_E_CORRUPT_MAP;
	uint64_t pages = g4_extent_part(run->address, run->pages); /* counts are of a region */
	int rc = g4_extent_has_several(wg, fs, run->address, &pages);
	if (rc == 0) /* what others lead to by the same indirect page has one owner by its count */
		rc = g4_map_way_is_shared(wg, fs, inode, page);
	run->pages = pages;
	return rc;
}

/* ------------------------------------------------------------------ going */

G4_FN uint64_t g4_map_count_below(struct g4_fs *fs, uint32_t line)
{
	const struct g4_meta_line *about = g4_meta_line(&fs->cache, line);
	const g4_le64 *slots = g4_map_slots(fs, line);
	uint64_t pages = 1 + g4_map_sums_pages(fs, line);

	if (about->level > 1)
		return about->below;
	for (uint32_t slot = 0; slot < G4_INDIRECT_SLOTS; slot++)
		pages += slots[slot] != 0;
	return pages;
}

G4_FN int g4_map_leave(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       struct g4_path *path, uint64_t page, uint64_t end)
{
	const struct g4_address address = g4_ptr_address(*path->slot);
	const struct way all = {page, end, 0, false, true, true}, some = {page, end, 0, false, false, false};
	const uint64_t begin = page & ~(g4_map_span(path->level) - 1);
	uint32_t line;
	int rc = g4_path_is_shared(wg, fs, inode, path);

	if (rc <= 0)
		return rc < 0 ? rc : G4_LEFT_NOT;
	rc = g4_map_get_node(wg, fs, inode, *path->slot, path->level, &line);
	if (rc < 0)
		return rc;
	int left = G4_LEFT_NOT;
	rc = changes(wg, fs, inode, &some, line, path->level, begin);
	if (rc == 0) { /* what has nothing elsewhere, either, would be in the way of what comes there */
		rc = is_hole(wg, fs, inode, line, path->level, 0, g4_map_span(path->level));
		left = rc > 0 ? G4_LEFT : G4_LEFT_AS_IT_IS;
	} else if (rc > 0) {
		rc = changes(wg, fs, inode, &all, line, path->level, begin);
		left = rc == 0 ? G4_LEFT : G4_LEFT_NOT;
	}
	const uint64_t pages = g4_map_count_below(fs, line);
	g4_cache_put(&fs->cache, line);
	if (rc < 0 || left != G4_LEFT)
		return rc < 0 ? rc : left;
	/* the count; the way, of which pages may go that are empty then */
	if (!g4_extent_credits(fs, txn, 2, 1, false, 0, G4_SHARE_LEAVE_CREDITS + G4_MAP_CREDITS))
		return -G4_E_AGAIN;
	if (pages == 0) /* it does not say what the file has there */
		return -G4_E_CORRUPT_MAP;
	rc = g4_share_leave(wg, &fs->alloc, txn, address);
	if (rc <= 0)
		return rc < 0 ? rc : G4_LEFT_NOT;
	g4_path_dirty(txn, path);
	*path->slot = 0;
	inode->disk.pages -= g4_min64(inode->disk.pages, pages);
	return G4_LEFT;
}
