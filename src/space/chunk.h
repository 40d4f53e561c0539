/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks: which part of an address space of several disks lies where. They are sorted, have no gap between them, and stay as
 * they are while others use a set, but for new ones at the end; so looking one up takes no lock.
 */
#ifndef G4_CHUNK_H
#define G4_CHUNK_H

#include "format/format.h"

enum g4_raid { G4_RAID_NONE, G4_RAID_0, G4_RAID_1, G4_RAID_PARITY };
#define G4_CHUNK_PARITY_MOST 4u
#define G4_STRIPE_DEFAULT (UINT64_C(128) << 10)
#define G4_STRIPE_IN_MEMORY (UINT64_C(16) << 10)

struct g4_chunk_map {
	const struct g4_chunk *chunks;
	uint32_t count; /* atomic: chunks are whole before they are counted */
};

/* The longest piece from an address on that lies in one row on each of its disks. */
struct g4_piece {
	uint64_t bytes;
	uint32_t copies; /* 0: nothing lies there */
	uint32_t parity; /* of its chunk: what is lost can be made of other columns */
	uint32_t disks[G4_CHUNK_PLACES];
	uint64_t offsets[G4_CHUNK_PLACES]; /* on them */
};

/* Whether a disk of this size has room for a place. */
G4_FN uint64_t g4_chunk_usable(uint64_t disk_bytes);
struct g4_chunk_wish {
	enum g4_raid raid;
	uint32_t copies; /* of RAID 1, 2 to G4_COPIES_MAX; with parity one more than that, of the front; else 1 */
	uint64_t stripe_bytes;
	uint64_t log_bytes, front_bytes; /* with parity: a log on each disk, and what is in copies; whole MiB */
	uint32_t leave_percent;		 /* of each disk: no chunk gets them; less than 100 */
	uint64_t most_bytes; /* of g4_chunk_extend(): as many and no more, or a few MiB; 0: all that there is */
	uint32_t level;	     /* of the chunks */
	uint64_t
		piece_bytes; /* of copies, and of none: no longer ones, on the disks with most room; 0: as there is room */
	uint32_t with_disk; /* each is on this one, too: 1 + its number; 0: on any */
};
/*
 * Lays chunks over disks of these sizes (at least one, bytes as the superblock has them). How many chunks, at most
 * G4_CHUNKS_MAX; 0: the level can not be had with these disks. Per-lane.
 */
G4_FN uint32_t g4_chunk_plan(const struct g4_chunk_wish *wish, const uint64_t *disk_bytes, uint32_t disk_count,
			     struct g4_chunk *chunks);
/*
 * Lays further chunks, behind `count` that are there, over what these leave of the disks, also between them; no front. Gaps that are
 * short stay where they would use up the table, and longer ones will do. How many chunks there are then: `count` if there is no room for what is wished. Per-lane.
 */
G4_FN uint32_t g4_chunk_extend(const struct g4_chunk_wish *wish, const uint64_t *disk_bytes, uint32_t disk_count,
			       struct g4_chunk *chunks, uint32_t count);
/*
 * Lays chunks as wished, not of parity, in the place of those that are gone, but for rows, as far as the disks have room that no chunk has and
 * the table has room for chunks; what there is no room for stays gone. How many chunks there are then. Per-lane.
 */
G4_FN uint32_t g4_chunk_fill(const struct g4_chunk_wish *wish, const uint64_t *disk_bytes, uint32_t disk_count,
			     struct g4_chunk *chunks, uint32_t count);
/* Nothing lies there: its disk was removed, and no disk has had room for more than what was in use. It has no places. */
G4_FN G4_INLINE bool g4_chunk_is_gone(const struct g4_chunk *chunk)
{
	return chunk->columns == 0;
}
/* What a chunk is by its columns and copies. */
G4_FN G4_INLINE uint32_t g4_chunk_shape(const struct g4_chunk *chunk)
{
	return chunk->parity	  ? G4_LEVEL_PARITY + chunk->parity - UINT32_C(1) :
	       chunk->columns > 1 ? (uint32_t)G4_LEVEL_STRIPED :
	       chunk->copies > 1  ? (uint32_t)G4_LEVEL_COPIES :
				    (uint32_t)G4_LEVEL_NONE;
}
/* A wish for what chunks have that are there. Per-lane. */
G4_FN void g4_chunk_wish_like(const struct g4_chunk_map *map, uint64_t log_bytes, struct g4_chunk_wish *wish);
/* Checks chunks that a disk has told: -G4_E_SB_GEOMETRY, or 0 and the map can be used. Per-lane. */
G4_FN int g4_chunk_validate(const struct g4_chunk *chunks, uint32_t count, const uint64_t *disk_bytes,
			    uint32_t disk_count);
/*
 * Whether there are chunks, of a map that can be used, as only a table with the feature MOVED has them: one that is gone, places of a disk in
 * another order than their chunks, columns on one disk. Per-lane.
 */
G4_FN bool g4_chunk_were_moved(const struct g4_chunk *chunks, uint32_t count);
G4_FN G4_INLINE uint64_t g4_chunk_end(const struct g4_chunk *chunks, uint32_t count)
{
	return chunks[count - 1].address + chunks[count - 1].bytes;
}
G4_FN G4_INLINE uint32_t g4_chunk_data_columns(const struct g4_chunk *chunk)
{
	return (uint32_t)chunk->columns - chunk->parity;
}
/* Of a chunk with parity: bytes of data of a stripe. */
G4_FN G4_INLINE uint64_t g4_chunk_stripe_data(const struct g4_chunk *chunk)
{
	return (uint64_t)chunk->stripe_bytes * g4_chunk_data_columns(chunk);
}
/* Of a chunk with parity: the place that has a column of a stripe. Columns of data come first. */
G4_FN G4_INLINE uint64_t g4_chunk_place(const struct g4_chunk *chunk, uint64_t stripe, uint32_t column)
{
	return chunk->places[(column + stripe) % chunk->columns];
}
/* Which of several copies is read first: of neighbouring MiB different ones. */
G4_FN G4_INLINE uint32_t g4_chunk_turn(uint64_t address, uint32_t copies)
{
	return (uint32_t)(address >> 20) % copies;
}
/* How many of `bytes` from an address on come before the next of those; 0: it is one. */
G4_FN G4_INLINE uint64_t g4_chunk_until(const uint64_t *those, uint32_t count, uint64_t address, uint64_t bytes)
{
	for (uint32_t k = 0; k < count; k++)
		bytes = address <= those[k] ? g4_min64(bytes, those[k] - address) : bytes;
	return bytes;
}
/* The chunk of an address of the space. Per-lane. */
G4_FN const struct g4_chunk *g4_chunk_find(const struct g4_chunk_map *map, uint64_t address);
/* Where `bytes` from `address` on lie, as far as they lie together. The address is one of the space. Per-lane. */
G4_FN void g4_chunk_translate(const struct g4_chunk_map *map, uint64_t address, uint64_t bytes, struct g4_piece *piece);

#endif
