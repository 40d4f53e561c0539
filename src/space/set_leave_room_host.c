/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for what lies on a disk that is to be removed, before anything is changed. What is in use of a chunk's place there can go to any disk that
 * has no other place of the chunk, where that matters; room is what no chunk has of a disk, and what can be given up there.
 *
 *   what is in use            disks that may have it        room
 *   rows of 3, 4, 5   ----->  0, 1, 2                       0: 5 MiB
 *   rows of 1, 2, 3   ----->  0, 4, 5                       4: 20 MiB, of rows of 3, 4, 5 themselves
 *
 * So all of it has room if it can flow there, and what does not is missing: a demand takes what room there is, then what others have taken that can go
 * elsewhere (the shortest such way, Edmonds and Karp). Whether room is in pieces that are long enough, for rows or for the table, is not looked at.
 */
#define _GNU_SOURCE 1

#include "space/set_leave_room_host.h"

#include <stdlib.h>

#include "space/set_table_host.h"

#define NONE UINT32_MAX

struct demand {
	uint64_t disks; /* that may have it, a bit each */
	uint64_t bytes; /* that have no room yet */
	uint64_t on[G4_MAX_DISKS];
	uint32_t by; /* the disk on which it can make room, where that was searched for; NONE: it was not reached */
};

struct g4_set_leave_look {
	uint32_t disk, count, room_for; /* demands, and memory for so many */
	uint64_t room[G4_MAX_DISKS];
	struct demand *demands;
	uint32_t *queue; /* of demands: there are no more than chunks */
};

bool g4_set_may_have(const struct g4_chunk *chunk, uint32_t leaving, uint32_t disk)
{
	const bool matters = chunk->copies > 1 || chunk->parity;

	return disk != leaving && !(matters && g4_table_place_on(chunk, disk) != G4_CHUNK_PLACES);
}

void g4_set_leave_look_end(struct g4_set *set)
{
	struct g4_set_leave_look *look = set->look;

	if (look) {
		free(look->demands);
		free(look->queue);
		free(look);
	}
	set->look = NULL;
}

int g4_set_leave_look(struct g4_set *set, const struct g4_superblock *super, uint32_t disk)
{
	g4_set_leave_look_end(set);
	struct g4_set_leave_look *look = set->look = calloc(1, sizeof(*look));
	if (look)
		look->queue = calloc(G4_CHUNKS_MAX, sizeof(*look->queue));
	if (!look || !look->queue) {
		g4_set_leave_look_end(set);
		return -G4_E_NOMEM;
	}
	look->disk = disk;
	for (uint32_t d = 0; d < set->count; d++)
		look->room[d] = d == disk ? 0 : g4_chunk_usable(super->disk_bytes[d]) - super->parity_log_bytes;
	for (uint32_t n = 0; n < set->map.count; n++)
		for (uint32_t k = 0; k < g4_table_places(&set->chunks[n]); k++) {
			uint64_t *room = &look->room[g4_place_disk(set->chunks[n].places[k])];
			*room -= g4_min64(*room, set->chunks[n].place_bytes);
		}
	return 0;
}

/* Chunks that may go to the same disks are one demand. */
static int add_demand(struct g4_set_leave_look *look, uint64_t disks, uint64_t bytes)
{
	uint32_t n = 0;

	while (n < look->count && look->demands[n].disks != disks)
		n++;
	if (n == look->room_for) {
		const uint32_t more = look->room_for ? 2 * look->room_for : 16;
		struct demand *demands = realloc(look->demands, more * sizeof(*demands));
		if (!demands)
			return -G4_E_NOMEM;
		look->demands = demands;
		look->room_for = more;
	}
	if (n == look->count) {
		memset(&look->demands[n], 0, sizeof(look->demands[n]));
		look->demands[n].disks = disks;
		look->count++;
	}
	look->demands[n].bytes += bytes;
	return 0;
}

/* What can be given up of a chunk's places is room. How many of them are on the disk that goes: columns of stripes that were moved may be on one. */
static uint32_t add_room(struct g4_set_leave_look *look, const struct g4_chunk *chunk, uint64_t idle)
{
	uint32_t leaving = 0;

	for (uint32_t k = 0; k < g4_table_places(chunk); k++)
		if (g4_place_disk(chunk->places[k]) != look->disk)
			look->room[g4_place_disk(chunk->places[k])] += idle;
		else
			leaving++;
	return leaving;
}

int g4_set_leave_tell(struct g4_set *set, const struct g4_chunk *chunk, uint64_t used, uint64_t idle)
{
	struct g4_set_leave_look *look = set->look;
	uint64_t disks = 0;

	if (!look)
		return -G4_E_INVAL;
	const uint32_t leaving = add_room(look, chunk, idle);
	for (uint32_t d = 0; d < set->count; d++)
		disks |= (uint64_t)g4_set_may_have(chunk, look->disk, d) << d;
	return used > 0 && leaving > 0 ? add_demand(look, disks, leaving * used) : 0;
}

int g4_set_leave_tell_copies(struct g4_set *set, const struct g4_chunk *chunk, uint64_t bytes, uint64_t idle)
{
	struct g4_set_leave_look *look = set->look;

	if (!look)
		return -G4_E_INVAL;
	(void)add_room(look, chunk, idle);
	const uint64_t disks = (UINT64_MAX >> (G4_MAX_DISKS - set->count)) & ~(UINT64_C(1) << look->disk);
	return bytes > 0 ? add_demand(look, disks, bytes) : 0;
}

/* A disk with room that a demand can get, where others go elsewhere if need be; reached[]: the demand that led to each disk. NONE: there is none. */
static uint32_t find_way(struct g4_set_leave_look *look, uint32_t first, uint32_t *reached)
{
	uint32_t count = 1;

	for (uint32_t n = 0; n < look->count; n++)
		look->demands[n].by = NONE;
	for (uint32_t d = 0; d < G4_MAX_DISKS; d++)
		reached[d] = NONE;
	look->queue[0] = first;
	for (uint32_t at = 0; at < count; at++)
		for (uint32_t d = 0; d < G4_MAX_DISKS; d++) {
			if (!(look->demands[look->queue[at]].disks >> d & 1) || reached[d] != NONE)
				continue;
			reached[d] = look->queue[at];
			if (look->room[d] > 0)
				return d;
			for (uint32_t n = 0; n < look->count; n++)
				if (n != first && look->demands[n].by == NONE && look->demands[n].on[d] > 0) {
					look->demands[n].by = d;
					look->queue[count++] = n;
				}
		}
	return NONE;
}

/* As much as goes that way. */
static void take_way(struct g4_set_leave_look *look, uint32_t first, uint32_t disk, const uint32_t *reached)
{
	struct demand *demands = look->demands;
	uint64_t bytes = g4_min64(look->room[disk], demands[first].bytes);

	for (uint32_t n = reached[disk]; n != first; n = reached[demands[n].by])
		bytes = g4_min64(bytes, demands[n].on[demands[n].by]);
	look->room[disk] -= bytes;
	for (uint32_t n = reached[disk], d = disk;; n = reached[d]) {
		demands[n].on[d] += bytes;
		if (n == first)
			break;
		d = demands[n].by;
		demands[n].on[d] -= bytes;
	}
	demands[first].bytes -= bytes;
}

uint64_t g4_set_leave_lacks(struct g4_set *set, bool *fixed)
{
	struct g4_set_leave_look *look = set->look;
	uint32_t reached[G4_MAX_DISKS], disk;
	uint64_t missing = 0;

	*fixed = false;
	if (!look)
		return 0;
	for (uint32_t n = 0; n < look->count; n++) {
		while (look->demands[n].bytes > 0 && (disk = find_way(look, n, reached)) != NONE)
			take_way(look, n, disk, reached);
		missing += look->demands[n].bytes;
		*fixed = *fixed || look->demands[n].disks == 0;
	}
	g4_set_leave_look_end(set);
	return missing;
}
