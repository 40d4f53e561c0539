/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lookup cache (directories document, chapter 4.3): (directory, name) to inode number, shared by all workgroups.
 *
 * An entry is one 64 B cache line that holds the whole name, so a hit is exact; longer names are not cached. It is a
 * sequence lock: readers take no lock and never wait. A directory is named by a key that no later directory gets.
 * Beside the inode's number stands where its core is, which spares the way through the table's buckets.
 *
 * The caller holds the directory's inode lock: shared to find and put, exclusive to forget. Whoever removes a name, or
 * lets it lead elsewhere, forgets it; entries of other names in the same place may be lost at any time.
 */
#ifndef G4_LOOKUP_H
#define G4_LOOKUP_H

#include "simt/simt.h"

#define G4_LOOKUP_NAME_BYTES 32u
#define G4_LOOKUP_CORES (1u << 24)

struct g4_lookup_entry {
	uint64_t sequence; /* odd while it is written */
	uint64_t directory;
	uint64_t inode;
	uint64_t shape; /* hash and length of the name, and the place of the inode's core: see shape_of() */
	uint64_t name[G4_LOOKUP_NAME_BYTES / 8];
};
G4_STATIC_ASSERT(sizeof(struct g4_lookup_entry) == 64, "one cache line");

struct g4_lookup {
	struct g4_lookup_entry *entries; /* zeroed */
	uint32_t mask;			 /* their number, a power of two, minus 1 */
};

struct g4_lookup_value {
	uint64_t inode;
	uint32_t core; /* where the inode stood in the table when it was put, below G4_LOOKUP_CORES: a hint */
};

struct g4_lookup_name {
	uint64_t directory;
	uint32_t hash;
	const char *text;
	uint32_t bytes;
};

/* Thread-safe; find is per-lane, the others are the leader's. */
G4_FN bool g4_lookup_find(const struct g4_lookup *cache, const struct g4_lookup_name *name,
			  struct g4_lookup_value *value);
G4_FN void g4_lookup_put(struct g4_lookup *cache, const struct g4_lookup_name *name,
			 const struct g4_lookup_value *value);
G4_FN void g4_lookup_forget(struct g4_lookup *cache, const struct g4_lookup_name *name);

#endif
