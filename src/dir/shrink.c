/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shrinking. It comes with the removal of a name, in the same transaction, under the same exclusive lock: a crash finds the
 * tree before or behind both.
 *
 *   1. A leaf of which at most a quarter is in use is united with a neighbour below the same index page, if both together fill
 *      at most half a page or one of them is empty. An empty leaf therefore goes at once, and what splits or unites a leaf
 *      leaves it a quarter of a page away from the next such step.
 *   2. An index page that has lost an entry and has at most a quarter of its entries left is united with a neighbour where both
 *      fit half a page; otherwise the two share their entries evenly. So an index page below the root never runs out of leaves,
 *      and the first bound of a page never changes but together with the entry that leads to it.
 *   3. A root with a single child gives way to it: a level goes.
 *
 * Hence a directory that grew under these rules and lost all of its names has one page, an empty leaf.
 *
 * Where many names went and pages were kept meanwhile, leaves without names go in runs: all that are beside each other below one index page,
 * with their entries, at once, but for one that the page keeps. What is left of them are leaves with names, which 1 applies to.
 *
 * Positions of a listing are (hash, collision number), which no entry changes here, and a leaf's range only becomes wider: a listing that goes on
 * behind a position meets all that is behind it, once.
 */
#include "dir/shrink.h"
#include "alloc/count.h"

#include "dir/leaf.h"
#include "dir/tree.h"

struct way { /* to a leaf; all lines are referenced */
	uint32_t lines[G4_DIR_PATH], children[G4_DIR_PATH];
	uint32_t count; /* index pages, the root first; the leaf is lines[count] */
};

G4_FN uint32_t g4_dir_shrink_credits(const struct g4_dir *dir, const struct g4_dir_slot *slot, uint32_t name_bytes)
{
	const bool sparse = G4_LEAF_FILL - slot->room <= G4_LEAF_FILL / 4 + g4_leaf_units_for(name_bytes);

	return sparse && dir->pages > 1 ? G4_DIR_SHRINK_CREDITS : 0;
}

G4_FN static bool fit_one(uint32_t used, uint32_t beside)
{
	return used == 0 || beside == 0 || used + beside <= G4_LEAF_FILL / 2;
}

G4_FN bool g4_dir_shrinks(const struct g4_dir *dir, const struct g4_dir_slot *slot, uint32_t name_bytes,
			  uint32_t beside)
{
	const uint32_t used = G4_LEAF_FILL - slot->room - g4_leaf_units_for(name_bytes);

	return g4_dir_shrink_credits(dir, slot, name_bytes) > 0 && beside != UINT32_MAX && fit_one(used, beside);
}

G4_FN static struct g4_dir_index *index_at(const struct g4_dir *dir, uint32_t line)
{
	return (struct g4_dir_index *)g4_line_data(g4_dir_cache(dir), line);
}

G4_FN static void let_go(const struct g4_dir *dir, const struct way *way, uint32_t lines)
{
	for (uint32_t k = 0; k < lines; k++)
		g4_cache_put(g4_dir_cache(dir), way->lines[k]);
}

/* False, with nothing referenced: it cannot be walked. */
G4_FN static bool find_way(struct g4_wg *wg, const struct g4_dir *dir, uint64_t position, struct way *way)
{
	struct g4_address address = g4_ptr_address(dir->root);
	uint32_t level = 0;

	for (way->count = 0; way->count < G4_DIR_PATH; way->count++) {
		uint32_t *line = &way->lines[way->count];
		if (g4_dir_get_page(wg, dir, address, line) < 0)
			break;
		if (!g4_dir_is_index(dir, *line)) {
			if (level <= 1)
				return true;
			way->count++;
			break;
		}
		const struct g4_dir_index *index = index_at(dir, *line);
		if (g4_dir_check_index(index, level) < 0) {
			way->count++;
			break;
		}
		level = index->level;
		way->children[way->count] = g4_dir_child_of(index, position);
		address = g4_address_from(index->entries[way->children[way->count]].page);
	}
	let_go(dir, way, way->count);
	return false;
}

/* Whether what changes when a page goes can be read: else it stays. */
G4_FN static bool can_go(struct g4_wg *wg, const struct g4_dir *dir, struct g4_address address)
{
	return !g4_alloc_is_unreadable(g4_alloc_look(wg, dir->alloc, address));
}

G4_FN static struct g4_address page_in(const struct g4_dir *dir, uint32_t line)
{
	return g4_page_address(g4_dir_cache(dir)->lines[line].index);
}

G4_FN static int free_page(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint32_t line)
{
	dir->pages--;
	return g4_alloc_free_metadata(wg, dir->alloc, txn, page_in(dir, line));
}

/*
 * Takes `count` entries from `first` on out of a dirty page. Nothing, if it has fewer by now, because an image has it in two directories,
 * whose locks are two: nowhere here its number of entries is more than there are places for them (tree.h).
 */
G4_FN static void drop_entries(struct g4_dir_index *index, uint32_t first, uint32_t count)
{
	const uint32_t all = g4_dir_index_count(index);

	if (first + count > all)
		return;
	for (uint32_t k = first; k + count < all; k++)
		index->entries[k] = index->entries[k + count];
	g4_store32_rlx(&index->count, all - count);
}

/*
 * References children k and k + 1 of an index page; one of them is the page in line `have`, referenced already. False: they
 * are none that could be united.
 */
G4_FN static bool get_pair(struct g4_wg *wg, const struct g4_dir *dir, const struct g4_dir_index *parent, uint32_t k,
			   uint32_t have, uint32_t pair[2])
{
	const struct g4_address mine = g4_page_address(g4_dir_cache(dir)->lines[have].index);
	const bool leaves = parent->level == 1;
	uint32_t other;

	if (k + 1 >= g4_dir_index_count(parent))
		return false;
	const bool left = g4_address_is(g4_address_from(parent->entries[k].page), mine);
	const struct g4_address beside = g4_address_from(parent->entries[k + left].page);
	if (g4_address_is(beside, mine) || g4_dir_get_page(wg, dir, beside, &other) < 0)
		return false;
	if (g4_dir_is_index(dir, other) == leaves ||
	    (!leaves && g4_dir_check_index(index_at(dir, other), parent->level) < 0)) {
		g4_cache_put(g4_dir_cache(dir), other);
		return false;
	}
	pair[!left] = have;
	pair[left] = other;
	return true;
}

/* Unites children k and k + 1 of an index page. 1: done, so that it has an entry less; 0: they have too much for that. */
G4_FN static int unite_leaves(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint32_t parent_line,
			      uint32_t k, const uint32_t pair[2])
{
	struct g4_dir_index *parent = index_at(dir, parent_line);
	struct g4_leaf left, right;

	g4_leaf_open_alone(&left, g4_dir_cache(dir), pair[0]);
	g4_leaf_open_alone(&right, g4_dir_cache(dir), pair[1]);
	const uint32_t used_left = G4_LEAF_FILL - g4_leaf_room(&left), used_right = G4_LEAF_FILL - g4_leaf_room(&right);
	const uint32_t goes = pair[used_left == 0 ? 0 : 1];
	if (!fit_one(used_left, used_right) || !can_go(wg, dir, page_in(dir, goes)))
		return 0;
	g4_txn_dirty(txn, parent_line);
	if (used_left > 0 && used_right > 0) {
		g4_txn_dirty(txn, pair[0]);
		if (!g4_leaf_unite(wg, &left, &right))
			return -G4_E_CORRUPT_DIR;
	} else if (used_left == 0) { /* the other one's entries stay where they are */
		parent->entries[k].page = parent->entries[k + 1].page;
	}
	drop_entries(parent, k + 1, 1);
	const int rc = free_page(wg, dir, txn, goes);
	return rc < 0 ? rc : 1;
}

/* The same for index pages; where they have too much to be one, each gets half of it. */
G4_FN static int unite_indexes(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint32_t parent_line,
			       uint32_t k, const uint32_t pair[2])
{
	struct g4_dir_index *parent = index_at(dir, parent_line), *left = index_at(dir, pair[0]),
			    *right = index_at(dir, pair[1]);
	const uint32_t has_left = g4_dir_index_count(left), has_right = g4_dir_index_count(right),
		       all = has_left + has_right, half = all / 2;

	if (all <= G4_DIR_INDEX_FILL / 2 && !can_go(wg, dir, page_in(dir, pair[1])))
		return 0;
	g4_txn_dirty(txn, parent_line);
	g4_txn_dirty(txn, pair[0]);
	g4_txn_dirty(txn, pair[1]);
	if (all <= G4_DIR_INDEX_FILL / 2) {
		g4_copy(wg, &left->entries[has_left], right->entries, (uint64_t)has_right * sizeof(right->entries[0]));
		left->count = all;
		drop_entries(parent, k + 1, 1);
		const int rc = free_page(wg, dir, txn, pair[1]);
		return rc < 0 ? rc : 1;
	}
	if (has_left < half) {
		const uint32_t count = half - has_left;
		g4_copy(wg, &left->entries[has_left], right->entries, (uint64_t)count * sizeof(right->entries[0]));
		left->count = half;
		drop_entries(right, 0, count);
	} else {
		const uint32_t count = has_left - half;
		for (uint32_t e = has_right; e-- > 0;)
			right->entries[e + count] = right->entries[e];
		g4_copy(wg, right->entries, &left->entries[half], (uint64_t)count * sizeof(right->entries[0]));
		right->count = has_right + count;
		left->count = half;
	}
	parent->entries[k + 1].hash = right->entries[0].hash;
	parent->entries[k + 1].collision = right->entries[0].collision;
	return 0;
}

/* The page of the way at `at` with its right neighbour, or else with its left one. 1: the page above has an entry less. */
G4_FN static int unite_at(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, const struct way *way, uint32_t at)
{
	const uint32_t parent_line = way->lines[at - 1], child = way->children[at - 1];
	int rc = 0;

	for (uint32_t side = 0; side < 2 && rc == 0; side++) {
		uint32_t pair[2];
		if (child < side || !get_pair(wg, dir, index_at(dir, parent_line), child - side, way->lines[at], pair))
			continue;
		rc = at == way->count ? unite_leaves(wg, dir, txn, parent_line, child - side, pair) :
					unite_indexes(wg, dir, txn, parent_line, child - side, pair);
		g4_cache_put(g4_dir_cache(dir), pair[pair[0] == way->lines[at]]);
		if (at < way->count) /* united or even */
			break;
	}
	return rc;
}

/* How much of a leaf that is not locked is in use; UINT32_MAX: it cannot be told. */
G4_FN static uint32_t used_in(const struct g4_dir *dir, uint32_t line)
{
	struct g4_leaf leaf;

	if (g4_dir_is_index(dir, line))
		return UINT32_MAX;
	g4_leaf_open_alone(&leaf, g4_dir_cache(dir), line);
	return G4_LEAF_FILL - g4_leaf_room(&leaf);
}

/* The same of a page below an index page of level 1. */
G4_FN static uint32_t used_below(struct g4_wg *wg, const struct g4_dir *dir, const struct g4_dir_index *parent,
				 uint32_t k)
{
	uint32_t line;

	if (g4_dir_get_page(wg, dir, g4_address_from(parent->entries[k].page), &line) < 0)
		return UINT32_MAX;
	const uint32_t used = used_in(dir, line);
	g4_cache_put(g4_dir_cache(dir), line);
	return used;
}

/* Where the page behind child k of the last index page of a way begins; UINT64_MAX: there is none, or not behind `from`. */
G4_FN static uint64_t bound_behind(const struct g4_dir *dir, const struct way *way, uint32_t k, uint64_t from)
{
	for (uint32_t at = way->count; at-- > 0; k = at > 0 ? way->children[at - 1] : 0) {
		const struct g4_dir_index *index = index_at(dir, way->lines[at]);
		if (k + 1 < g4_dir_index_count(index)) {
			const uint64_t bound = g4_dir_bound_of(&index->entries[k + 1]);
			return bound > from ? bound : UINT64_MAX;
		}
	}
	return UINT64_MAX;
}

/*
 * Of a way to a leaf without names: that and those behind it that have none either go, at most `most` and not all of their index page. How
 * many went; the page has so many entries less.
 */
G4_FN static int drop_run(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, const struct way *way,
			  uint64_t until, uint32_t most)
{
	const uint32_t parent_line = way->lines[way->count - 1], first = way->children[way->count - 1];
	struct g4_dir_index *parent = index_at(dir, parent_line);
	const uint32_t children = g4_dir_index_count(parent);
	uint32_t run = 1;
	int rc = 0;

	if (first >= children)
		return 0;
	most = (uint32_t)g4_min64(g4_min64(most, children - 1), dir->pages - way->count - 1);
	if (most == 0)
		return 0;
	if (!can_go(wg, dir, g4_address_from(parent->entries[first].page)))
		return 0;
	while (run < most && first + run < children && g4_dir_bound_of(&parent->entries[first + run]) < until &&
	       parent->entries[first + run].page != parent->entries[first + run - 1].page &&
	       used_below(wg, dir, parent, first + run) == 0 &&
	       can_go(wg, dir, g4_address_from(parent->entries[first + run].page)))
		run++;
	/* the page before them takes their hashes, or, of the first of the index page, the one behind them */
	const uint32_t stays = first == 0 ? run : first - 1;
	if (parent->entries[stays].page == parent->entries[first == 0 ? run - 1 : first].page)
		return 0;
	g4_txn_dirty(txn, parent_line);
	for (uint32_t k = first; k < first + run && rc == 0; k++) {
		dir->pages--;
		rc = g4_alloc_free_metadata(wg, dir->alloc, txn, g4_address_from(parent->entries[k].page));
	}
	if (first == 0)
		parent->entries[0].page = parent->entries[run].page;
	drop_entries(parent, first == 0 ? 1 : first, run);
	return rc < 0 ? rc : (int)run;
}

/* A root that leads to a single page gives way to it. */
G4_FN static int lower_root(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint32_t line)
{
	const struct g4_dir_index *root = index_at(dir, line);

	if (root->count > 1 || !can_go(wg, dir, page_in(dir, line)))
		return 0;
	dir->root = g4_ptr_make(g4_address_from(root->entries[0].page), G4_TAG_4K, G4_PTR_VALID);
	return free_page(wg, dir, txn, line);
}

/* rc: as unite_at() has it of the leaf of a way. Puts the index pages above it right. */
G4_FN static int shrink_above(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, const struct way *way, int rc)
{
	for (uint32_t at = way->count - 1; at > 0 && rc > 0; at--)
		rc = index_at(dir, way->lines[at])->count <= G4_DIR_INDEX_FILL / 4 ? unite_at(wg, dir, txn, way, at) :
										     0;
	return rc < 0 ? rc : lower_root(wg, dir, txn, way->lines[0]);
}

/* The way to a leaf that may be united. False: there is none, or the directory does not have as many pages as that may free. */
G4_FN static bool find_shrinking(struct g4_wg *wg, const struct g4_dir *dir, uint64_t position, struct way *way)
{
	if (dir->root == 0 || !find_way(wg, dir, position, way))
		return false;
	if (way->count > 0 && dir->pages > way->count + 1)
		return true;
	let_go(dir, way, way->count + 1);
	return false;
}

G4_FN G4_COLD int g4_dir_shrink(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint64_t position)
{
	struct way way;

	if (!find_shrinking(wg, dir, position, &way))
		return 0;
	const int rc = shrink_above(wg, dir, txn, &way, unite_at(wg, dir, txn, &way, way.count));
	let_go(dir, &way, way.count + 1);
	return rc < 0 ? rc : 0;
}

G4_FN G4_COLD int g4_dir_shrink_some(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint64_t *from,
				     uint64_t until, uint32_t most, uint32_t *looks)
{
	struct way way;
	int rc = 0;

	if (!find_shrinking(wg, dir, *from, &way)) {
		*from = UINT64_MAX;
		return 0;
	}
	const struct g4_dir_index *parent = index_at(dir, way.lines[way.count - 1]);
	uint32_t k = way.children[way.count - 1], used = used_in(dir, way.lines[way.count]);
	if (used == 0)
		rc = drop_run(wg, dir, txn, &way, until, most);
	else if (used <= G4_LEAF_FILL / 4)
		rc = unite_at(wg, dir, txn, &way, way.count);
	if (rc != 0) {
		const int above = rc < 0 ? rc : shrink_above(wg, dir, txn, &way, rc);
		rc = above < 0 ? above : rc;
	} else { /* on to one for which there may be something to do */
		do {
			*from = bound_behind(dir, &way, k++, *from);
			*looks -= *looks > 0;
		} while (*from<until && * looks> 0 && k < g4_dir_index_count(parent) &&
			 used_below(wg, dir, parent, k) > G4_LEAF_FILL / 4);
	}
	let_go(dir, &way, way.count + 1);
	return rc;
}

G4_FN int g4_dir_free_page(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn)
{
	struct g4_address address = g4_ptr_address(dir->root);
	uint32_t parent = G4_NO_LINE, level = 0, line;
	int rc;

	if (dir->root == 0)
		return 0;
	for (;;) { /* to the last child of the last child ... */
		rc = g4_dir_get_page(wg, dir, address, &line);
		if (rc < 0)
			break;
		const struct g4_dir_index *index = (const struct g4_dir_index *)g4_line_data(g4_dir_cache(dir), line);
		const uint32_t count = g4_dir_index_count(index);
		if (!g4_dir_is_index(dir, line) || count == 0) {
			g4_cache_put(g4_dir_cache(dir), line);
			break;
		}
		rc = g4_dir_check_index(index, level);
		if (rc < 0) {
			g4_cache_put(g4_dir_cache(dir), line);
			break;
		}
		level = index->level;
		address = g4_address_from(index->entries[count - 1].page);
		if (parent != G4_NO_LINE)
			g4_cache_put(g4_dir_cache(dir), parent);
		parent = line;
	}
	if (rc == 0)
		rc = g4_alloc_look(wg, dir->alloc, address);
	if (rc == 0 && parent != G4_NO_LINE) {
		struct g4_dir_index *above = index_at(dir, parent);
		g4_txn_dirty(txn, parent);
		drop_entries(above, (uint32_t)g4_max64(g4_dir_index_count(above), 1) - 1, 1);
	} else if (rc == 0) {
		dir->root = 0;
	}
	if (parent != G4_NO_LINE)
		g4_cache_put(g4_dir_cache(dir), parent);
	if (rc < 0)
		return rc;
	dir->pages--;
	rc = g4_alloc_free_metadata(wg, dir->alloc, txn, address);
	return rc < 0 ? rc : dir->root != 0;
}
