/* SPDX-License-Identifier: Apache-2.0 */
/* Lookup, insertion and removal of names (directories document, chapter 4). */
#include "dir/dir.h"

#include "dir/leaf.h"
#include "dir/tree.h"

/* ------------------------------------------------------------------ which lock */

/* Of the leaf at that address; NULL: the caller has the directory alone. */
G4_FN static struct g4_leaf_lock *leaf_lock_of(const struct g4_dir *dir, struct g4_address page)
{
	const uint64_t mixed = g4_address_page(page) * UINT64_C(0x9e3779b97f4a7c15);

	return dir->locks ? &dir->locks->leaves[mixed >> (64 - G4_LEAF_LOCK_BITS)] : NULL;
}

G4_FN static struct g4_address page_of(const struct g4_dir *dir, uint32_t line)
{
	return g4_page_address(g4_dir_cache(dir)->lines[line].index);
}

/* Of the index page in a referenced line; NULL: as above. */
G4_FN static struct g4_rwlock *index_lock_of(const struct g4_dir *dir, uint32_t line)
{
	const uint64_t mixed = g4_address_page(page_of(dir, line)) * UINT64_C(0x9e3779b97f4a7c15);

	G4_STATIC_ASSERT(G4_INDEX_LOCKS == 64, "six bits");
	return dir->locks ? &dir->locks->indexes[mixed >> 58].lock : NULL;
}

/* ------------------------------------------------------------------ tree */

struct lead { /* from an index page to the page below it */
	struct g4_address page;
	uint64_t bound;	 /* the lowest position of its next page; UINT64_MAX: none */
	uint64_t splits; /* of a leaf, with the directory shared: how many its lock counted when the page led to it */
	uint32_t level;
	uint32_t first; /* the lowest number that names of the hash may have there */
	bool full;
};

/* The lowest number of names of the position's hash in what an entry leads to. */
G4_FN static uint32_t first_number(const struct g4_dir_index_entry *entry, uint64_t position)
{
	const uint64_t bound = g4_dir_bound_of(entry);

	return bound >> 16 == position >> 16 ? (uint32_t)(bound & UINT16_MAX) : 0;
}

/* above: the level of the page that leads to it, 0: any. */
G4_FN static int look_at_index(const struct g4_dir *dir, const struct g4_dir_index *index, uint32_t above,
			       uint64_t position, struct lead *lead)
{
	const int rc = g4_dir_check_index(index, above);

	if (rc < 0)
		return rc;
	const uint32_t child = g4_dir_child_of(index, position), count = g4_dir_index_count(index);
	lead->page = g4_address_from(g4_load64_rlx(&index->entries[child].page));
	lead->first = first_number(&index->entries[child], position);
	lead->bound = child + 1 < count ? g4_dir_bound_of(&index->entries[child + 1]) : UINT64_MAX;
	lead->level = index->level;
	lead->full = count >= G4_DIR_INDEX_FILL;
	lead->splits = dir->locks && lead->level == 1 ? g4_load64_acq(&leaf_lock_of(dir, lead->page)->splits) : 0;
	return 0;
}

/* The same of the page in a referenced line, at one moment. */
G4_FN static int read_index(const struct g4_dir *dir, uint32_t line, uint32_t above, uint64_t position,
			    struct lead *lead)
{
	const struct g4_dir_index *index = (const struct g4_dir_index *)g4_line_data(g4_dir_cache(dir), line);
	struct g4_rwlock *index_lock = index_lock_of(dir, line);
	uint32_t version;
	int rc;

	if (!index_lock)
		return look_at_index(dir, index, above, position, lead);
	if (g4_read_begin(index_lock, &version)) {
		rc = look_at_index(dir, index, above, position, lead);
		g4_fence_acq();
		if (g4_read_unchanged(index_lock, version))
			return rc;
	}
	g4_read_lock_at_gate(index_lock);
	rc = look_at_index(dir, index, above, position, lead);
	g4_read_unlock(index_lock);
	return rc;
}

struct found {				/* a leaf */
	uint32_t line;			/* referenced */
	uint32_t first_line;		/* where the directory's first page is */
	uint32_t parent;		/* G4_NO_LINE, or where it is wanted that of the index page above, referenced */
	uint64_t bound;			/* the lowest position of the next leaf; G4_DIR_POSITIONS: none */
	uint64_t splits;		/* its lock counted before it was locked */
	uint32_t first;			/* the lowest number that names of the hash may have in it */
	bool full;			/* an index page on the way is, and an insertion would split it */
	struct g4_leaf_lock *leaf_lock; /* NULL: the caller has the directory alone */
};

/* line: G4_NO_LINE: none. */
G4_FN static void put_page(const struct g4_dir *dir, uint32_t line)
{
	if (line != G4_NO_LINE)
		g4_cache_put(g4_dir_cache(dir), line);
}

/* Descends to the leaf for a position. near: where the first page may be. */
G4_FN static int find_leaf(struct g4_wg *wg, const struct g4_dir *dir, uint64_t position, uint32_t near,
			   bool wants_parent, struct found *found)
{
	struct lead lead = {g4_ptr_address(dir->root), UINT64_MAX, 0, 0, 0, false};
	uint32_t parent = G4_NO_LINE;
	int rc;

	found->first_line = G4_NO_LINE;
	found->bound = G4_DIR_POSITIONS;
	found->full = false;
	for (;;) {
		rc = g4_meta_get_near(wg, dir->meta, lead.page, G4_BLOCK_DIR_LEAF, near, &found->line);
		near = G4_NO_LINE;
		if (rc == 0 && found->first_line == G4_NO_LINE)
			found->first_line = found->line;
		if (rc < 0 || !g4_dir_is_index(dir, found->line))
			break;
		put_page(dir, parent);
		parent = found->line;
		rc = read_index(dir, parent, lead.level, position, &lead);
		if (rc < 0)
			break;
		found->bound = lead.bound == UINT64_MAX ? found->bound : lead.bound;
		found->full = found->full || lead.full;
		if (!wants_parent) {
			put_page(dir, parent);
			parent = G4_NO_LINE;
		}
	}
	if (rc == 0 && lead.level > 1) {
		g4_cache_put(g4_dir_cache(dir), found->line);
		rc = -G4_E_CORRUPT_DIR;
	}
	if (rc < 0) {
		put_page(dir, parent);
		return rc;
	}
	found->parent = parent;
	found->first = lead.first;
	found->leaf_lock = leaf_lock_of(dir, lead.page);
	/* a root that is a leaf is split by a caller who has the directory alone */
	found->splits = found->leaf_lock && lead.level == 0 ? g4_load64_acq(&found->leaf_lock->splits) : lead.splits;
	return 0;
}

/* The leaf for a position, locked shared. It was split on the way there: then the way is another one. */
G4_FN static int find_and_hold(struct g4_wg *wg, const struct g4_dir *dir, uint64_t position, uint32_t near,
			       struct found *found)
{
	for (;;) {
		const int rc = find_leaf(wg, dir, position, near, false, found);

		if (rc < 0 || !found->leaf_lock)
			return rc;
		g4_read_lock_at_gate(&found->leaf_lock->lock);
		if (g4_load64_rlx(&found->leaf_lock->splits) == found->splits)
			return 0;
		g4_read_unlock(&found->leaf_lock->lock);
		g4_cache_put(g4_dir_cache(dir), found->line);
		near = G4_NO_LINE;
	}
}

/* ------------------------------------------------------------------ lookup */

/* Whether a name with whose hash there is another one has no room in its leaf unless names of that hash are divided. */
G4_FN G4_COLD static bool divides_equal(struct g4_wg *wg, const struct g4_leaf *leaf, const struct g4_dir_slot *slot,
					uint32_t bytes)
{
	const uint32_t units = g4_leaf_units_for(bytes);
	bool equal = false;

	if (slot->room < units)
		(void)g4_leaf_cut(wg, leaf, slot->hash, units, &equal);
	return equal;
}

/* A name in the leaf in a referenced line, which is locked: the rest of its slot. slot->unit: where it was before; 0: nobody knows. */
G4_FN static int look_in(struct g4_wg *wg, const struct g4_dir *dir, const char *name, uint32_t bytes,
			 struct g4_dir_slot *slot)
{
	struct g4_leaf leaf;
	slot->changes = slot->leaf_lock ? g4_load64_rlx(&slot->leaf_lock->changes) : 0;
	slot->splits = slot->leaf_lock ? g4_load64_rlx(&slot->leaf_lock->splits) : 0;
	g4_leaf_open(&leaf, g4_dir_cache(dir), slot->line);
	if (slot->unit == 0 || !g4_leaf_has(&leaf, slot->unit, slot->hash, name, bytes))
		slot->unit = g4_leaf_find(&leaf, slot->hash, name, bytes, &slot->collides);
	slot->room = g4_leaf_room(&leaf);
	if (slot->unit == 0) {
		slot->equal = slot->collides && divides_equal(wg, &leaf, slot, bytes);
		slot->alone = slot->equal;
		slot->room = slot->full ? 0 : slot->room;
		return -G4_E_NOENT;
	}
	const struct g4_dir_entry *entry = g4_leaf_entry(&leaf, slot->unit);
	slot->inode = entry->inode;
	slot->collision = entry->collision;
	slot->file_type = entry->file_type;
	return 0;
}

/* The same in a leaf that was found and is locked. */
G4_FN static int look_in_found(struct g4_wg *wg, const struct g4_dir *dir, const struct found *found, const char *name,
			       uint32_t bytes, struct g4_dir_slot *slot)
{
	slot->line = found->line;
	slot->page = page_of(dir, found->line);
	slot->leaf_lock = found->leaf_lock;
	slot->full = found->full;
	slot->first = found->first;
	return look_in(wg, dir, name, bytes, slot);
}

/* Whether names of the hash are in the next leaf, too. */
G4_FN static bool goes_on(const struct found *found, uint32_t hash)
{
	return found->bound >> 16 == hash;
}

/* Of a leaf that has some of the names of a hash: whether one more has room there, and a number. */
G4_FN static bool takes_one(const struct g4_dir *dir, const struct found *found, const struct g4_dir_slot *slot,
			    uint32_t bytes)
{
	const uint32_t end = goes_on(found, slot->hash) ? (uint32_t)(found->bound & UINT16_MAX) : G4_COLLISIONS;
	struct g4_leaf leaf;

	if (slot->room < g4_leaf_units_for(bytes))
		return false;
	g4_leaf_open(&leaf, g4_dir_cache(dir), found->line);
	return g4_leaf_number(&leaf, slot->hash, found->first) < end;
}

/*
 * A name that is not in the first of the leaves with names of its hash, on through the others. If it is in none, who has the directory
 * alone may put it into the first that takes it, or else divides the last. With the directory shared none can come meanwhile, and those
 * that are there stay in the leaf where they are, or go into one behind it.
 */
G4_FN G4_COLD static int look_further(struct g4_wg *wg, const struct g4_dir *dir, const char *name, uint32_t bytes,
				      struct g4_dir_slot *slot, struct found *found)
{
	bool collides = slot->collides, has_taker = takes_one(dir, found, slot, bytes);
	struct g4_dir_slot taker = *slot;
	int rc = -G4_E_NOENT;

	while (rc == -G4_E_NOENT && goes_on(found, slot->hash)) {
		const uint64_t next = found->bound;
		g4_dir_let_go(slot);
		slot->leaf_lock = NULL;
		g4_cache_put(g4_dir_cache(dir), found->line);
		rc = find_and_hold(wg, dir, next, G4_NO_LINE, found);
		if (rc < 0) {
			found->line = G4_NO_LINE;
			return rc;
		}
		rc = look_in_found(wg, dir, found, name, bytes, slot);
		collides = collides || slot->collides;
		if (!has_taker && rc == -G4_E_NOENT && takes_one(dir, found, slot, bytes)) {
			has_taker = true;
			taker = *slot;
		}
	}
	if (rc == -G4_E_NOENT && has_taker && !dir->locks)
		*slot = taker;
	else if (rc == -G4_E_NOENT)
		slot->room = 0;
	slot->collides = collides;
	slot->alone = rc == -G4_E_NOENT;
	return rc;
}

G4_FN int g4_dir_lookup_held(struct g4_wg *wg, const struct g4_dir *dir, const char *name, uint32_t bytes,
			     struct g4_dir_slot *slot)
{
	struct found found;

	slot->hash = g4_dir_hash(dir->hash_key, name, bytes);
	slot->leaf_lock = NULL;
	slot->leaf = NULL;
	slot->collides = slot->equal = slot->alone = false;
	slot->unit = slot->room = slot->first = 0;
	slot->first_line = slot->line;
	if (dir->root == 0)
		return -G4_E_NOENT;
	int rc = find_and_hold(wg, dir, g4_dir_position(slot->hash, 0), slot->line, &found);
	if (rc < 0)
		return rc;
	slot->first_line = found.first_line;
	rc = look_in_found(wg, dir, &found, name, bytes, slot);
	if (rc == -G4_E_NOENT && goes_on(&found, slot->hash))
		rc = look_further(wg, dir, name, bytes, slot, &found);
	g4_fence_rel();
	if (found.line != G4_NO_LINE)
		g4_cache_put_fenced(g4_dir_cache(dir), found.line);
	return rc;
}

G4_FN int g4_dir_lookup(struct g4_wg *wg, const struct g4_dir *dir, const char *name, uint32_t bytes,
			struct g4_dir_slot *slot)
{
	const int rc = g4_dir_lookup_held(wg, dir, name, bytes, slot);

	g4_dir_let_go_fenced(slot);
	return rc;
}

G4_FN int g4_dir_look_again(struct g4_wg *wg, const struct g4_dir *dir, const char *name, uint32_t bytes,
			    struct g4_dir_slot *slot)
{
	if (g4_dir_slot_holds(slot))
		return slot->unit ? 0 : -G4_E_NOENT;
	if (g4_load64_rlx(&slot->leaf_lock->splits) != slot->splits)
		return G4_DIR_SPLIT;
	int rc = g4_meta_get_near(wg, dir->meta, slot->page, G4_BLOCK_DIR_LEAF, slot->line, &slot->line);
	if (rc < 0)
		return rc;
	rc = look_in(wg, dir, name, bytes, slot);
	g4_cache_put(g4_dir_cache(dir), slot->line);
	return rc;
}

/* ------------------------------------------------------------------ growing */

G4_FN static int new_page(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint32_t type,
			  struct g4_address *address, uint32_t *line)
{
	int rc = g4_alloc_metadata(wg, dir->alloc, txn, address);

	if (rc < 0)
		return rc;
	rc = g4_meta_new(wg, dir->meta, *address, type, line);
	if (rc < 0)
		return rc;
	g4_txn_dirty(txn, *line);
	dir->pages++;
	return 0;
}

G4_FN static int put_root_above(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint32_t level)
{
	struct g4_address address;
	uint32_t line;

	if (level > G4_DIR_MAX_LEVEL)
		return -G4_E_NOSPC;
	int rc = new_page(wg, dir, txn, G4_BLOCK_DIR_INDEX, &address, &line);
	if (rc < 0)
		return rc;
	struct g4_dir_index *index = (struct g4_dir_index *)g4_line_data(g4_dir_cache(dir), line);
	index->count = 1;
	index->level = level;
	index->entries[0].hash = index->entries[0].collision = 0;
	index->entries[0].page = g4_address_stored(g4_ptr_address(dir->root));
	dir->root = g4_ptr_make(address, G4_TAG_4K, G4_PTR_VALID);
	g4_cache_put(g4_dir_cache(dir), line);
	return 0;
}

G4_FN static bool index_is_full(const struct g4_dir_index *index)
{
	return g4_dir_index_count(index) >= G4_DIR_INDEX_FILL;
}

/* Splits the full index page in `line` in two; its parent has room. */
G4_FN static int split_index(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint32_t line,
			     struct g4_dir_index *parent, uint32_t parent_line, uint32_t child)
{
	struct g4_dir_index *old = (struct g4_dir_index *)g4_line_data(g4_dir_cache(dir), line);
	const uint32_t count = g4_dir_index_count(old), keep = count / 2;
	uint32_t right_line;
	struct g4_address right_address;
	int rc = new_page(wg, dir, txn, G4_BLOCK_DIR_INDEX, &right_address, &right_line);

	if (rc < 0)
		return rc;
	struct g4_dir_index *right = (struct g4_dir_index *)g4_line_data(g4_dir_cache(dir), right_line);
	g4_txn_dirty(txn, line);
	g4_txn_dirty(txn, parent_line);
	right->level = old->level;
	right->count = count - keep;
	g4_copy(wg, right->entries, &old->entries[keep], (uint64_t)right->count * sizeof(right->entries[0]));
	old->count = keep;
	const uint64_t bound = g4_dir_bound_of(&right->entries[0]);
	rc = g4_dir_index_insert(parent, child, bound, g4_address_stored(right_address)) ? 0 : -G4_E_CORRUPT_DIR;
	g4_cache_put(g4_dir_cache(dir), right_line);
	return rc;
}

/*
 * Moves the upper part of a leaf, from the position `cut` on, to the new one in right_line, and lets the page above lead there. Both leaves are
 * locked. False: nothing was changed, for that page is full, or as with g4_dir_index_insert().
 */
G4_FN static bool move_half(const struct g4_dir *dir, struct g4_txn *txn, struct g4_leaf *leaf, uint32_t line,
			    uint32_t right_line, uint64_t cut, uint32_t parent_line)
{
	struct g4_dir_index *parent = (struct g4_dir_index *)g4_line_data(g4_dir_cache(dir), parent_line);
	struct g4_rwlock *index_lock = index_lock_of(dir, parent_line);
	struct g4_leaf right;

	if (index_lock)
		g4_write_lock(index_lock);
	bool fits = !index_is_full(parent);
	if (fits) {
		g4_txn_dirty(txn, parent_line);
		fits = g4_dir_index_insert(parent, g4_dir_child_of(parent, cut), cut,
					   g4_address_stored(page_of(dir, right_line)));
	}
	if (index_lock)
		g4_write_unlock(index_lock);
	if (!fits)
		return false;
	g4_txn_dirty(txn, line);
	g4_leaf_init(&right, g4_dir_cache(dir), right_line);
	g4_leaf_split(leaf, &right, cut);
	return true;
}

struct wanted { /* room for a name, by who has the directory alone */
	uint32_t hash, units;
	bool divides;	/* names of one hash, if that is what it takes */
	uint32_t first; /* once it is there: the lowest number that the name may have */
};

/* Names of its hash would have to be divided, and are not. */
#define EQUAL 2

/* The last leaf with names of its hash. */
G4_FN static uint64_t position_for(const struct wanted *wanted)
{
	return g4_dir_position(wanted->hash, UINT16_MAX);
}

/*
 * Splits a leaf in two that has no room for a name, by a caller who has the directory alone. The parent had room on the way down: it has
 * none if the leaf is split for the second time, which only one of those asks for that have more than they may (leaf.h).
 */
G4_FN static int split_leaf(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint32_t line,
			    uint32_t parent_line, const struct wanted *wanted)
{
	struct g4_leaf leaf;
	uint32_t right_line;
	struct g4_address right_address;

	g4_leaf_open_alone(&leaf, g4_dir_cache(dir), line);
	bool equal;
	const uint64_t cut = g4_leaf_cut(wg, &leaf, wanted->hash, wanted->units, &equal);
	if (equal && !wanted->divides)
		return EQUAL;
	if (cut == 0 || index_is_full((const struct g4_dir_index *)g4_line_data(g4_dir_cache(dir), parent_line)))
		return -G4_E_NOSPC;
	int rc = new_page(wg, dir, txn, G4_BLOCK_DIR_LEAF, &right_address, &right_line);
	if (rc < 0)
		return rc;
	rc = move_half(dir, txn, &leaf, line, right_line, cut, parent_line) ? 0 : -G4_E_CORRUPT_DIR;
	g4_cache_put(g4_dir_cache(dir), right_line);
	return rc;
}

G4_FN static bool leaf_has_room(const struct g4_dir *dir, uint32_t line, uint32_t units)
{
	struct g4_leaf leaf;

	g4_leaf_open_alone(&leaf, g4_dir_cache(dir), line);
	return g4_leaf_room(&leaf) >= units;
}

/*
 * One step down from an index page: splits the child when it could not take what comes. 1: the child was split, look
 * at the index again; 0: *line is the child. Or EQUAL.
 */
G4_FN static int step_down(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint32_t parent_line,
			   struct wanted *wanted, uint32_t *line)
{
	struct g4_dir_index *parent = (struct g4_dir_index *)g4_line_data(g4_dir_cache(dir), parent_line);
	int rc = g4_dir_check_index(parent, 0);

	if (rc < 0)
		return rc;
	uint32_t child = g4_dir_child_of(parent, position_for(wanted));
	rc = g4_dir_get_page(wg, dir, g4_address_from(parent->entries[child].page), line);
	if (rc < 0)
		return rc;
	void *page = g4_line_data(g4_dir_cache(dir), *line);
	if (g4_dir_is_index(dir, *line)) {
		rc = g4_dir_check_index((const struct g4_dir_index *)page, parent->level);
		if (rc == 0 && ((const struct g4_dir_index *)page)->count < G4_DIR_INDEX_FILL)
			return 0;
		if (rc == 0)
			rc = split_index(wg, dir, txn, *line, parent, parent_line, child);
	} else {
		if (parent->level != 1)
			rc = -G4_E_CORRUPT_DIR;
		else if (leaf_has_room(dir, *line, wanted->units)) {
			wanted->first = first_number(&parent->entries[child], position_for(wanted));
			return 0;
		} else
			rc = split_leaf(wg, dir, txn, *line, parent_line, wanted);
	}
	g4_cache_put(g4_dir_cache(dir), *line);
	return rc ? rc : 1;
}

/* References it; there is room for any name. */
G4_FN static int first_page(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint32_t *line)
{
	struct g4_address address;
	int rc = new_page(wg, dir, txn, G4_BLOCK_DIR_LEAF, &address, line);

	if (rc < 0)
		return rc;
	struct g4_leaf leaf;
	g4_leaf_init(&leaf, g4_dir_cache(dir), *line);
	dir->root = g4_ptr_make(address, G4_TAG_4K, G4_PTR_VALID);
	return 0;
}

/* References the root, with an index page above it when it could not take what comes. */
G4_FN static int prepare_root(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint32_t units, uint32_t *line)
{
	if (dir->root == 0)
		return first_page(wg, dir, txn, line);
	int rc = g4_dir_get_page(wg, dir, g4_ptr_address(dir->root), line);
	if (rc < 0)
		return rc;
	const void *page = g4_line_data(g4_dir_cache(dir), *line);
	uint32_t level;
	if (g4_dir_is_index(dir, *line)) {
		const struct g4_dir_index *index = (const struct g4_dir_index *)page;
		if (index->count < G4_DIR_INDEX_FILL)
			return 0;
		level = index->level + 1;
	} else {
		if (leaf_has_room(dir, *line, units))
			return 0;
		level = 1;
	}
	g4_cache_put(g4_dir_cache(dir), *line);
	rc = put_root_above(wg, dir, txn, level);
	return rc < 0 ? rc : g4_dir_get_page(wg, dir, g4_ptr_address(dir->root), line);
}

G4_FN uint32_t g4_dir_insert_credits(const struct g4_dir_slot *slot, uint32_t name_bytes)
{
	return slot->room >= g4_leaf_units_for(name_bytes) ? 1 : G4_DIR_CREDITS;
}

/* References the leaf for a name, with room for it: splits what has none on the way. Or EQUAL. */
G4_FN G4_COLD static int make_room(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, struct wanted *wanted,
				   uint32_t *line)
{
	uint32_t below;
	int rc = prepare_root(wg, dir, txn, wanted->units, line);

	if (rc < 0)
		return rc;
	while (g4_dir_is_index(dir, *line)) {
		rc = step_down(wg, dir, txn, *line, wanted, &below);
		if (rc == 1)
			continue;
		g4_cache_put(g4_dir_cache(dir), *line);
		if (rc)
			return rc;
		*line = below;
	}
	return 0;
}

G4_FN int g4_dir_divide(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint32_t hash, uint32_t name_bytes)
{
	struct wanted wanted = {hash, g4_leaf_units_for(name_bytes), false, 0};
	uint32_t line;
	const int rc = make_room(wg, dir, txn, &wanted, &line);

	if (rc == 0)
		g4_cache_put(g4_dir_cache(dir), line);
	return rc == EQUAL ? 1 : rc;
}

/*
 * Splits a leaf that has no room for so many units, to the new one in right_line. 0: done; 1: nothing was changed, for the page above
 * is full or all hashes are one; ROOM_SINCE: nothing was changed, and there may be room now.
 */
#define ROOM_SINCE 2
G4_FN static int split_beside(struct g4_wg *wg, const struct g4_dir *dir, struct g4_txn *txn, const struct found *found,
			      uint32_t right_line, uint32_t units)
{
	struct g4_leaf_lock *leaf_lock = found->leaf_lock, *right_lock = leaf_lock_of(dir, page_of(dir, right_line));
	struct g4_leaf leaf;
	int rc = ROOM_SINCE;

	g4_dir_lock_two(leaf_lock, right_lock);
	g4_leaf_open_alone(&leaf, g4_dir_cache(dir), found->line);
	if (leaf_lock->splits == found->splits && g4_leaf_room(&leaf) < units) {
		const uint32_t pivot = g4_leaf_pivot(wg, &leaf);
		rc = pivot == 0 ||
		     !move_half(dir, txn, &leaf, found->line, right_line, g4_dir_position(pivot, 0), found->parent);
	}
	if (rc == 0)
		g4_store64_rlx(&leaf_lock->splits, leaf_lock->splits + 1);
	g4_dir_unlock_two(leaf_lock, right_lock, rc == 0);
	return rc;
}

/* The same of a leaf that is not locked, with a page of its own for the upper half. 1: or there is no page. */
G4_FN static int divide_found(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, const struct found *found,
			      uint32_t units)
{
	struct g4_address right_address;
	struct g4_leaf leaf;
	uint32_t right_line;

	g4_read_lock_at_gate(&found->leaf_lock->lock);
	g4_leaf_open(&leaf, g4_dir_cache(dir), found->line);
	const bool has_room = g4_leaf_room(&leaf) >= units;
	g4_read_unlock(&found->leaf_lock->lock);
	if (has_room)
		return ROOM_SINCE;
	/* before a leaf is locked, for this may wait for the device */
	int rc = new_page(wg, dir, txn, G4_BLOCK_DIR_LEAF, &right_address, &right_line);
	/* another may have split the leaf with the last page, or be about to: alone it is seen whether there is room */
	if (rc < 0)
		return rc == -G4_E_NOSPC ? 1 : rc;
	rc = split_beside(wg, dir, txn, found, right_line, units);
	g4_cache_put(g4_dir_cache(dir), right_line);
	if (rc == 0)
		return 0;
	dir->pages--;
	const int freed = g4_alloc_free_metadata(wg, dir->alloc, txn, right_address);
	return freed < 0 ? freed : rc;
}

G4_FN int g4_dir_divide_beside(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, uint32_t hash,
			       uint32_t name_bytes)
{
	struct found found;

	if (dir->root == 0)
		return 1;
	int rc = find_leaf(wg, dir, g4_dir_position(hash, UINT16_MAX), G4_NO_LINE, true, &found);
	if (rc < 0)
		return rc;
	rc = found.parent == G4_NO_LINE || found.full ?
		     1 :
		     divide_found(wg, dir, txn, &found, g4_leaf_units_for(name_bytes));
	put_page(dir, found.parent);
	g4_cache_put(g4_dir_cache(dir), found.line);
	return rc == ROOM_SINCE ? 0 : rc;
}

/* Units of a leaf's names; 0: it cannot be told. */
G4_FN static uint32_t used_in(struct g4_wg *wg, const struct g4_dir *dir, struct g4_address address)
{
	struct g4_leaf_lock *leaf_lock = leaf_lock_of(dir, address);
	uint32_t line, used = 0;

	if (g4_dir_get_page(wg, dir, address, &line) < 0)
		return 0;
	if (!g4_dir_is_index(dir, line)) {
		struct g4_leaf leaf;
		g4_read_lock_at_gate(&leaf_lock->lock);
		g4_leaf_open(&leaf, g4_dir_cache(dir), line);
		used = G4_LEAF_FILL - g4_leaf_room(&leaf);
		g4_read_unlock(&leaf_lock->lock);
	}
	g4_cache_put(g4_dir_cache(dir), line);
	return used;
}

G4_FN uint32_t g4_dir_used_beside(struct g4_wg *wg, const struct g4_dir *dir, uint64_t position)
{
	struct g4_address beside[2];
	struct found found;
	uint32_t count = 0, least = UINT32_MAX;

	if (find_leaf(wg, dir, position, G4_NO_LINE, true, &found) < 0)
		return 0;
	g4_cache_put(g4_dir_cache(dir), found.line);
	if (found.parent == G4_NO_LINE)
		return UINT32_MAX;
	const struct g4_dir_index *parent = (const struct g4_dir_index *)g4_line_data(g4_dir_cache(dir), found.parent);
	struct g4_rwlock *index_lock = index_lock_of(dir, found.parent);
	g4_read_lock_at_gate(index_lock);
	const uint32_t child = g4_dir_child_of(parent, position);
	if (child > 0)
		beside[count++] = g4_address_from(parent->entries[child - 1].page);
	if (child + 1 < g4_dir_index_count(parent))
		beside[count++] = g4_address_from(parent->entries[child + 1].page);
	g4_read_unlock(index_lock);
	g4_cache_put(g4_dir_cache(dir), found.parent);
	for (uint32_t k = 0; k < count; k++) {
		const uint32_t used = used_in(wg, dir, beside[k]);
		least = used < least ? used : least;
	}
	return count > 0 ? least : 0;
}

G4_FN int g4_dir_get_leaf(struct g4_wg *wg, const struct g4_txn *txn, const struct g4_dir_slot *slot,
			  struct g4_txn_page *leaf)
{
	return g4_txn_get(wg, txn, slot->page, G4_BLOCK_DIR_LEAF, slot->line, leaf);
}

/* The leaf of a slot for a change: that of the caller, or *own. */
G4_FN static int leaf_for(struct g4_wg *wg, const struct g4_txn *txn, const struct g4_dir_slot *slot,
			  struct g4_txn_page *own, const struct g4_txn_page **page)
{
	*page = slot->leaf ? slot->leaf : own;
	return slot->leaf ? 0 : g4_dir_get_leaf(wg, txn, slot, own);
}

G4_FN static void open_for(const struct g4_dir *dir, struct g4_txn *txn, const struct g4_txn_page *page,
			   struct g4_leaf *leaf)
{
	g4_txn_dirty_page(txn, page);
	g4_leaf_open_alone(leaf, g4_dir_cache(dir), page->line);
}

G4_FN int g4_dir_insert(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, const struct g4_dir_slot *slot,
			const char *name, uint32_t bytes, uint64_t inode, uint8_t file_type)
{
	struct wanted wanted = {slot->hash, g4_leaf_units_for(bytes), true, slot->first};
	struct g4_txn_page own = {G4_NO_LINE, false};
	const struct g4_txn_page *page = &own;
	struct g4_leaf leaf;
	int rc = slot->room >= wanted.units ? leaf_for(wg, txn, slot, &own, &page) :
					      make_room(wg, dir, txn, &wanted, &own.line);

	if (rc < 0)
		return rc;
	open_for(dir, txn, page, &leaf);
	const uint32_t number = slot->collides ? g4_leaf_number(&leaf, slot->hash, wanted.first) : wanted.first;
	const struct g4_dir_entry entry = {inode, slot->hash, (uint16_t)number, (uint8_t)bytes, file_type};
	if (number == G4_COLLISIONS)
		rc = -G4_E_NOSPC;
	else
		rc = g4_leaf_insert(wg, &leaf, &entry, name) ? 0 : -G4_E_CORRUPT_DIR;
	if (page == &own)
		g4_txn_put(txn, &own);
	return rc;
}

G4_FN int g4_dir_new_leaf(struct g4_wg *wg, const struct g4_dir *dir, struct g4_txn *txn, struct g4_address page,
			  const char *name, uint32_t bytes, uint64_t inode, uint8_t file_type)
{
	const struct g4_dir_entry entry = {inode, g4_dir_hash(dir->hash_key, name, bytes), 0, (uint8_t)bytes,
					   file_type};
	struct g4_leaf leaf;
	uint32_t line;
	int rc = g4_meta_new(wg, dir->meta, page, G4_BLOCK_DIR_LEAF, &line);

	if (rc < 0)
		return rc;
	g4_txn_dirty(txn, line);
	g4_leaf_init(&leaf, g4_dir_cache(dir), line);
	rc = g4_leaf_insert(wg, &leaf, &entry, name) ? 0 : -G4_E_CORRUPT_DIR;
	g4_cache_put(g4_dir_cache(dir), line);
	return rc;
}

G4_FN int g4_dir_remove(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, const struct g4_dir_slot *slot)
{
	const struct g4_txn_page *page;
	struct g4_txn_page own;
	struct g4_leaf leaf;
	int rc = leaf_for(wg, txn, slot, &own, &page);

	if (rc < 0)
		return rc;
	open_for(dir, txn, page, &leaf);
	g4_leaf_remove(&leaf, slot->unit);
	if (page == &own)
		g4_txn_put(txn, &own);
	return 0;
}

G4_FN int g4_dir_replace(struct g4_wg *wg, struct g4_dir *dir, struct g4_txn *txn, const struct g4_dir_slot *slot,
			 uint64_t inode, uint8_t file_type)
{
	const struct g4_txn_page *page;
	struct g4_txn_page own;
	struct g4_leaf leaf;
	int rc = leaf_for(wg, txn, slot, &own, &page);

	if (rc < 0)
		return rc;
	open_for(dir, txn, page, &leaf);
	g4_leaf_entry(&leaf, slot->unit)->inode = inode;
	g4_leaf_entry(&leaf, slot->unit)->file_type = file_type;
	if (page == &own)
		g4_txn_put(txn, &own);
	return 0;
}

/* ------------------------------------------------------------------ iteration */

G4_FN int g4_dir_read_leaf(struct g4_wg *wg, const struct g4_dir *dir, uint64_t from, struct g4_dir_listed *listed)
{
	struct found found;

	listed->count = 0;
	listed->next = UINT64_MAX;
	listed->leaf_lock = NULL;
	if (dir->root == 0 || from >= G4_DIR_POSITIONS)
		return 0;
	int rc = find_and_hold(wg, dir, from, G4_NO_LINE, &found);
	if (rc < 0)
		return rc;
	struct g4_leaf_lock *leaf_lock = found.leaf_lock;
	struct g4_leaf leaf;
	g4_leaf_open(&leaf, g4_dir_cache(dir), found.line);
	listed->leaf = page_of(dir, found.line);
	listed->line = found.line;
	listed->splits = found.splits;
	g4_leaf_copy(wg, &leaf, listed);
	listed->leaf_lock = leaf_lock;
	listed->changes = leaf_lock ? g4_load64_rlx(&leaf_lock->changes) : 0;
	if (leaf_lock)
		g4_read_unlock(&leaf_lock->lock);
	g4_cache_put(g4_dir_cache(dir), found.line);
	g4_leaf_list(wg, from, listed);
	if (found.bound < G4_DIR_POSITIONS)
		listed->next = found.bound;
	return 0;
}

G4_FN int g4_dir_path(struct g4_wg *wg, const struct g4_dir *dir, uint64_t from, struct g4_address path[G4_DIR_PATH],
		      uint32_t *count)
{
	struct lead lead = {g4_ptr_address(dir->root), 0, 0, 0, 0, false};
	uint32_t line;
	int rc = 0;

	*count = 0;
	if (dir->root == 0)
		return 0;
	while (rc == 0) {
		path[(*count)++] = lead.page;
		rc = g4_dir_get_page(wg, dir, lead.page, &line);
		if (rc < 0)
			return rc;
		const bool leaf = !g4_dir_is_index(dir, line);
		if (!leaf)
			rc = read_index(dir, line, 0, from, &lead);
		g4_cache_put(g4_dir_cache(dir), line);
		if (leaf)
			return 0;
		if (*count == G4_DIR_PATH)
			rc = -G4_E_CORRUPT_DIR;
	}
	return rc;
}
