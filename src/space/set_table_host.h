/* SPDX-License-Identifier: Apache-2.0 */
/* The table of chunks that a set is to have, while it is planned. Of the files of this folder alone. */
#ifndef G4_SET_TABLE_HOST_H
#define G4_SET_TABLE_HOST_H

#include "space/set_move_host.h"
#include "space/set_parity_host.h"

#define G4_TABLE_REGION (G4_REGION_PAGES * G4_PAGE_BYTES) /* bytes of which it is known whether they are in use */
#define G4_TABLE_UNIT_MOST (UINT64_C(1) << 30)		  /* larger parts of places are not needed to cut a table */
/* Units of rows are cut in pieces while a table has no more chunks: whole ones need the rest to be moved or given up. */
#define G4_TABLE_PIECES_MOST (G4_CHUNKS_MAX / 2)

struct g4_set_span { /* of a disk, that somebody has */
	uint64_t from, to;
};

struct g4_set_gap { /* that nobody has; 0 bytes: there is none */
	uint32_t disk;
	uint64_t from, bytes;
};

static inline uint32_t g4_table_places(const struct g4_chunk *chunk)
{
	return (uint32_t)chunk->columns * chunk->copies;
}

/* Places of a chunk are cut at multiples of that: the map knows regions of rows by number, which are the same as long as they are whole. */
static inline uint64_t g4_table_unit(const struct g4_chunk *chunk)
{
	return chunk->parity ? G4_PARITY_REGION_BYTES : G4_CHUNK_UNIT;
}
/* The first place on a disk; G4_CHUNK_PLACES: it has none. */
uint32_t g4_table_place_on(const struct g4_chunk *chunk, uint32_t disk);
/* Which of its places has `place` so far behind its beginning; G4_CHUNK_PLACES: none. */
uint32_t g4_table_number_of(const struct g4_chunk *chunk, uint64_t within, uint64_t place);
/*
 * Chunk n of *count ends `within` its places, a multiple of its unit, and another one begins there, whose first stripe may begin in another of its
 * places; nothing where that is one of its ends. False: there are G4_CHUNKS_MAX.
 */
bool g4_table_cut(struct g4_chunk *chunks, uint32_t *count, uint32_t n, uint64_t within);
/* Neighbours that go on where the one before ends, on all disks, become one, but for rows with parity; and with those. */
void g4_table_join(struct g4_chunk *chunks, uint32_t *count);
void g4_table_join_all(struct g4_chunk *chunks, uint32_t *count);
/* It has no places any more. Of rows the length of one stays, in whole regions: their bits of the map stay, so that those behind do. */
void g4_table_give_up(struct g4_chunk *chunk);
/* Regions of which a part is gone: the file system loses all of each, whatever other chunks have of it. */
uint64_t g4_table_lost(const struct g4_chunk *chunks, uint32_t count);
/* Whether `bytes` of the places of a chunk, from `within` on, have nothing in use, and with `all`, bits of regions, are of these altogether. Not of a gone one. */
bool g4_table_is_idle(const struct g4_set_in_use *in_use, const uint64_t *all, const struct g4_chunk *chunk,
		      uint64_t within, uint64_t bytes);
/* The longest such part, in whole units of places, or one of `wanted` bytes; the last of several. *within: where; 0 bytes: there is none. */
uint64_t g4_table_longest_idle(const struct g4_set_in_use *in_use, const uint64_t *all, const struct g4_chunk *chunk,
			       uint64_t unit, uint64_t wanted, uint64_t *within);
/*
 * Of the gaps of a disk the smallest of `wanted` bytes or more, else the largest; *best becomes it where it is better. `spans` has memory for
 * G4_CHUNKS_MAX * G4_CHUNK_PLACES + 1 more than the `taken` ones of that disk that it has already, which are no gaps either; their order changes.
 */
void g4_table_find_gap(const struct g4_set_move *move, const struct g4_superblock *super, uint32_t disk,
		       struct g4_set_span *spans, size_t taken, uint64_t wanted, struct g4_set_gap *best);

#endif
