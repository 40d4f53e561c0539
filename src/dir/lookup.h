/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lookup cache (directories document, chapter 4.3): (directory, name) to inode number, shared by all workgroups.
 *
 * An entry is one 64 B cache line that holds the whole name, so a hit is exact. Of a longer name it holds the length, the first and the last
 * eight bytes and a print of 128 bits, by keys that a mount takes at random and tells nobody: whoever makes names, or the image, cannot
 * find two that are alike, and by chance 2^64 names of one directory would. It is a
 * sequence lock: readers take no lock and never wait. A directory is named by a key that no later directory gets.
 * Beside the number of the inode stands where it is in the icache, which spares the way through the table's buckets.
 *
 * A name is put and forgotten under the lock of its leaf (dir.h), or with the directory's inode lock held exclusively: shared is
 * enough to put it, exclusive to forget it. An operation that removes a name, or lets it lead elsewhere, forgets it before that is to
 * be seen; entries of other names in the same place may be lost at any time. So a name that is found is there, and was until the
 * sequence of its entry changes, which g4_lookup_holds() tells.
 */
#ifndef G4_LOOKUP_H
#define G4_LOOKUP_H

#include "simt/simt.h"

#define G4_LOOKUP_NAME_BYTES 32u
#define G4_LOOKUP_INDEXES (1u << 24)

struct g4_lookup_entry {
	uint64_t sequence; /* odd while it is written */
	uint64_t directory;
	uint64_t inode;
	uint64_t shape; /* hash and length of the name, and the place of the in-core inode: see g4_lookup_shape() */
	uint64_t name[G4_LOOKUP_NAME_BYTES / 8];
};
G4_STATIC_ASSERT(sizeof(struct g4_lookup_entry) == 64, "one cache line");

struct g4_lookup {
	struct g4_lookup_entry *entries; /* zeroed */
	uint32_t mask;			 /* their number, a power of two, minus 1 */
};

struct g4_lookup_value {
	uint64_t inode;
	uint32_t index; /* where the inode stood in the table when it was put, below G4_LOOKUP_INDEXES: a hint */
};

struct g4_lookup_name {
	uint64_t directory;
	uint32_t hash;
	const char *text;
	uint32_t bytes;
	uint64_t print[2]; /* of a name of more than G4_LOOKUP_NAME_BYTES: g4_lookup_print() */
};

/* ------------------------------------------------------------------ how an entry is laid out */
#define G4_LOOKUP_NAME_WORDS (G4_LOOKUP_NAME_BYTES / 8)
#define G4_LOOKUP_WAYS                                                                                                 \
	2u /* a name stands in one of two neighbours; with one place alone a name in thirty was pushed out by another */
#define G4_LOOKUP_INDEX_SHIFT 40 /* in the shape, above hash and length */

/* Where a name stands, or would like to stand first. */
G4_FN G4_INLINE struct g4_lookup_entry *g4_lookup_slot(const struct g4_lookup *cache, const struct g4_lookup_name *name,
						       uint32_t way)
{
	uint64_t mixed = (name->directory * UINT64_C(0x9e3779b97f4a7c15) >> 32) ^ name->hash;

	return &cache->entries[(mixed & cache->mask) ^ way];
}

/* Never 0, so that an empty entry fits no name. */
G4_FN G4_INLINE uint64_t g4_lookup_shape(const struct g4_lookup_name *name)
{
	return (uint64_t)name->hash << 8 | name->bytes;
}

G4_FN G4_INLINE bool g4_lookup_same_shape(uint64_t shape, const struct g4_lookup_name *name)
{
	return (shape & ((UINT64_C(1) << G4_LOOKUP_INDEX_SHIFT) - 1)) == g4_lookup_shape(name);
}

/* The name's bytes, and zeros behind them. */
G4_FN G4_INLINE uint64_t g4_lookup_word(const struct g4_lookup_name *name, uint32_t w)
{
	return 8 * w < name->bytes ? g4_load_bytes(name->text + 8 * w, (uint32_t)g4_min64(8, name->bytes - 8 * w)) : 0;
}

/* The same of a name of any length: what an entry has of it. */
G4_FN G4_INLINE uint64_t g4_lookup_kept_word(const struct g4_lookup_name *name, uint32_t w)
{
	if (name->bytes <= G4_LOOKUP_NAME_BYTES)
		return g4_lookup_word(name, w);
	return w < 2 ? name->print[w] : g4_load_bytes(name->text + (w == 2 ? 0 : name->bytes - 8), 8);
}

/* Per-lane. Fills in a long name's print, by four words that are nobody's to know. */
G4_FN void g4_lookup_print(struct g4_lookup_name *name, const uint64_t secret[4]);

/* Whether word i of an entry is as it is in one that has the name. */
G4_FN G4_INLINE bool g4_lookup_word_fits(uint64_t word, uint32_t i, const struct g4_lookup_name *name,
					 const uint64_t words[G4_LOOKUP_NAME_WORDS])
{
	const uint32_t first = offsetof(struct g4_lookup_entry, name) / 8;

	if (i >= first)
		return word == words[i - first];
	if (i == offsetof(struct g4_lookup_entry, directory) / 8)
		return word == name->directory;
	return i != offsetof(struct g4_lookup_entry, shape) / 8 || g4_lookup_same_shape(word, name);
}

/* An entry that was read, and the sequence that it must still have for that to count. */
struct g4_lookup_seen {
	const struct g4_lookup_entry *entry;
	uint64_t sequence;
};

/* Per-lane. The caller's acquire or collective lies between the look and this question. */
G4_FN G4_INLINE bool g4_lookup_holds(const struct g4_lookup_seen *seen)
{
	return g4_load64_rlx(&seen->entry->sequence) == seen->sequence;
}

/* Thread-safe; find is per-lane, the others are the leader's. */
G4_FN bool g4_lookup_find(const struct g4_lookup *cache, const struct g4_lookup_name *name,
			  struct g4_lookup_value *value);
/* The same for a caller that asks later whether it still holds. */
G4_FN bool g4_lookup_look(const struct g4_lookup *cache, const struct g4_lookup_name *name,
			  struct g4_lookup_value *value, struct g4_lookup_seen *seen);
G4_FN void g4_lookup_put(struct g4_lookup *cache, const struct g4_lookup_name *name,
			 const struct g4_lookup_value *value);
/*
 * The same in three steps, with a g4_fence_rel() between each two that the caller has uses for: readers that see some of what is filled in
 * see that the entry is claimed, and then all of it. NULL: there is no entry to be had. Between the first and the last the caller waits for
 * nobody, and holds what keeps the name from being taken away.
 */
G4_FN struct g4_lookup_entry *g4_lookup_claim(struct g4_lookup *cache, const struct g4_lookup_name *name);
G4_FN void g4_lookup_fill_fenced(struct g4_lookup_entry *entry, const struct g4_lookup_name *name,
				 const struct g4_lookup_value *value);
G4_FN void g4_lookup_show_fenced(struct g4_lookup_entry *entry);
G4_FN void g4_lookup_forget(struct g4_lookup *cache, const struct g4_lookup_name *name);

#endif
