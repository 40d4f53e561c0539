/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One leaf of a directory. On disk an entry says how long it is, so that entry k is found by way of all before it: a chain
 * of eighty loads, each waiting for the last. In memory the cache keeps a note for each line (g4_cache.notes), and a
 * leaf's is the set of units at which an entry starts: searches go from one to the next, on a GPU with 32 hashes on their way at once.
 *
 * The first search makes the note, and each change of the leaf keeps it. Filling the line clears it.
 */
#ifndef G4_LEAF_H
#define G4_LEAF_H

#include "alloc/alloc.h"

#define G4_LEAF_WORDS (G4_DIR_UNITS / 64)

/* An open leaf: its line is referenced, and the directory's inode lock or the leaf's is held, exclusive for changes. */
struct g4_leaf {
	struct g4_dir_leaf *page;
	struct g4_note *note;
	uint64_t starts[G4_LEAF_WORDS];
};

G4_FN void g4_leaf_open(struct g4_leaf *leaf, const struct g4_cache *cache, uint32_t line);
/* The same with one of them held exclusively: no reader is making the note. */
G4_FN void g4_leaf_open_alone(struct g4_leaf *leaf, const struct g4_cache *cache, uint32_t line);
/* The same for a new page, all zero but for its header. */
G4_FN void g4_leaf_init(struct g4_leaf *leaf, const struct g4_cache *cache, uint32_t line);

G4_FN G4_INLINE uint32_t g4_leaf_units_for(uint32_t name_bytes)
{
	return 1 + (name_bytes + G4_DIR_UNIT_BYTES - 1) / G4_DIR_UNIT_BYTES;
}
G4_FN G4_INLINE struct g4_dir_entry *g4_leaf_entry(const struct g4_leaf *leaf, uint32_t unit)
{
	return (struct g4_dir_entry *)(void *)((uint8_t *)leaf->page + unit * G4_DIR_UNIT_BYTES);
}
G4_FN G4_INLINE const char *g4_leaf_name(const struct g4_dir_entry *entry)
{
	return (const char *)(entry + 1);
}

/* The first entry at or behind `unit`; G4_DIR_UNITS at the end. */
G4_FN uint32_t g4_leaf_next(const struct g4_leaf *leaf, uint32_t unit);
#define G4_LEAF_FOR_EACH(leaf, unit, entry)                                                                            \
	for (uint32_t unit = g4_leaf_next(leaf, 0);                                                                    \
	     unit < G4_DIR_UNITS && ((entry) = g4_leaf_entry(leaf, unit), true); unit = g4_leaf_next(leaf, unit + 1))

/* The unit of a name; 0: it is not there. *collides: but another one with its hash. */
G4_FN uint32_t g4_leaf_find(const struct g4_leaf *leaf, uint32_t hash, const char *name, uint32_t bytes,
			    bool *collides);
/* Whether it is at a unit. */
G4_FN bool g4_leaf_has(const struct g4_leaf *leaf, uint32_t unit, uint32_t hash, const char *name, uint32_t bytes);
/*
 * Units that names may have before a leaf is full, and entries of an index page: as many as there are. Tests of structural changes are
 * built with G4_DIR_TINY, where some dozens of names have each of them happen; such a directory is valid for everybody.
 */
#ifdef G4_DIR_TINY
#define G4_LEAF_FILL 76u /* four of the longest names; half of them leaves room for another one */
#define G4_DIR_INDEX_FILL 8u
#else
#define G4_LEAF_FILL (G4_DIR_UNITS - G4_DIR_HEADER_UNITS)
#define G4_DIR_INDEX_FILL G4_DIR_INDEX_ENTRIES
#endif

/* Units that are not in use. */
G4_FN G4_INLINE uint32_t g4_leaf_room(const struct g4_leaf *leaf)
{
	uint32_t count = G4_DIR_HEADER_UNITS + G4_LEAF_FILL;

	for (uint32_t w = 0; w < G4_LEAF_WORDS; w++)
		count -= g4_count_bits(leaf->page->used[w]);
#ifdef G4_DIR_TINY
	if (count > G4_LEAF_FILL) /* made by others, with more */
		count = 0;
#endif
	return count;
}
/*
 * Leader. Puts an entry in; there is room for it, in one place or in several. False: there was no room after all, because an image has
 * the leaf in two directories, whose locks are two. Nothing is ever written behind the page.
 */
G4_FN bool g4_leaf_insert(struct g4_wg *wg, struct g4_leaf *leaf, const struct g4_dir_entry *header, const char *name);
/* The smallest collision number from `first` on that no entry of this hash has; G4_COLLISIONS: none. */
#define G4_COLLISIONS 65536u
G4_FN uint32_t g4_leaf_number(const struct g4_leaf *leaf, uint32_t hash, uint32_t first);
G4_FN void g4_leaf_remove(struct g4_leaf *leaf, uint32_t unit);
/* Leader. A hash that halves the entries by units: all below go left. 0 when all hashes are equal. */
G4_FN uint32_t g4_leaf_pivot(struct g4_wg *wg, const struct g4_leaf *leaf);
/*
 * Leader. The position at which a leaf that has no room for a name is to be cut, so that it has: between two hashes, the middle if that
 * does, or else with *equal behind all names of the name's own hash. Either way one cut is enough. 0: the hash has no higher number.
 */
G4_FN uint64_t g4_leaf_cut(struct g4_wg *wg, const struct g4_leaf *leaf, uint32_t hash, uint32_t units, bool *equal);
/* Moves the entries from the position `cut` on to an empty leaf. */
G4_FN void g4_leaf_split(struct g4_leaf *leaf, struct g4_leaf *right, uint64_t cut);
/* Leader. Copies all entries of `right` into a leaf that has room for them. False: it had none after all, as with g4_leaf_insert(). */
G4_FN bool g4_leaf_unite(struct g4_wg *wg, struct g4_leaf *leaf, const struct g4_leaf *right);

struct g4_dir_listed;
/* Leader. The first half of a listing, with the leaf locked: what the other half needs. */
G4_FN void g4_leaf_copy(struct g4_wg *wg, const struct g4_leaf *leaf, struct g4_dir_listed *listed);
/* Leader. Of a copy: its entries from a position on, by position. */
G4_FN void g4_leaf_list(struct g4_wg *wg, uint64_t from, struct g4_dir_listed *listed);
/* The region of that. Collective. */
G4_FN void g4_leaf_keys_region(struct g4_wg *wg, void *args);

#endif
