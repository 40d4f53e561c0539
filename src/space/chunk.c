/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Planning, checking and looking up chunks (the document on RAID, chapter 4.1.4). A chunk is columns times copies: one column
 * and one copy is a disk as it is, several columns are RAID 0 or with parity RAID 5 and 6, several copies RAID 1; none of them, and nothing
 * lies there.
 */
#include "space/chunk.h"

#include "simt/simt.h"

#define MOST_PIECES 512u /* of a plan with copies, about */

/* ---- planning ---- */

struct plan {
	struct g4_chunk *chunks;
	uint32_t first, count; /* those before `first` were there already, and stay as they are */
	uint64_t address, end; /* the end that is not to be passed by more than a MiB of each column */
	bool exact;	       /* nor by less */
	uint64_t piece_bytes;  /* of copies on some of the disks */
	uint32_t level, with_disk;
	/* the gap of each disk that is given away next: its first byte, and how long it is; and bytes of all gaps from there on */
	uint64_t next[G4_MAX_DISKS], run[G4_MAX_DISKS], left[G4_MAX_DISKS];
	uint64_t stop[G4_MAX_DISKS]; /* of each disk: where what chunks may have ends */
	uint64_t least;		     /* shorter gaps are left alone */
	uint32_t disk_count;
};

G4_FN uint64_t g4_chunk_usable(uint64_t disk_bytes)
{
	/* the front has the superblock and the chunks, the last page the second superblock */
	const uint64_t end = g4_align_down(disk_bytes - G4_PAGE_BYTES, G4_CHUNK_UNIT);

	return disk_bytes > G4_PAGE_BYTES && end > G4_CHUNK_UNIT ? end - G4_CHUNK_UNIT : 0;
}

/*
 * The disk with the most room left that is not among the first `taken` of `disks`, but first the one that is to be there;
 * G4_MAX_DISKS: none has any.
 */
G4_FN static uint32_t roomiest(const struct plan *plan, const uint32_t *disks, uint32_t taken)
{
	uint32_t best = G4_MAX_DISKS;

	if (taken == 0 && plan->with_disk)
		return plan->left[plan->with_disk - 1] ? plan->with_disk - 1 : G4_MAX_DISKS;
	for (uint32_t d = 0; d < plan->disk_count; d++) {
		bool free = plan->left[d] != 0;
		for (uint32_t k = 0; k < taken; k++)
			free = free && disks[k] != d;
		if (free && (best == G4_MAX_DISKS || plan->left[d] > plan->left[best]))
			best = d;
	}
	return best;
}

/* The first gap of a disk from `*at` on, which then is where it begins; its bytes, 0: there is none. */
G4_FN static uint64_t find_any_gap(const struct plan *plan, uint32_t disk, uint64_t *at)
{
	uint64_t end = plan->stop[disk];
	bool moved = true;

	while (moved && *at < plan->stop[disk]) { /* most places are in order, so it is done after the second look */
		end = plan->stop[disk];
		moved = false;
		for (uint32_t n = 0; n < plan->count; n++)
			for (uint32_t k = 0; k < (uint32_t)plan->chunks[n].columns * plan->chunks[n].copies; k++) {
				const uint64_t place = plan->chunks[n].places[k], from = g4_place_address(place);
				if (g4_place_disk(place) != disk || from + plan->chunks[n].place_bytes <= *at)
					continue;
				if (from > *at) {
					end = g4_min64(end, from);
				} else {
					*at = from + plan->chunks[n].place_bytes;
					moved = true;
				}
			}
	}
	return *at < plan->stop[disk] ? end - *at : 0;
}

/* The first that is long enough. */
G4_FN static uint64_t find_gap(const struct plan *plan, uint32_t disk, uint64_t *at)
{
	uint64_t bytes = find_any_gap(plan, disk, at);

	while (bytes != 0 && bytes < plan->least) {
		*at += bytes;
		bytes = find_any_gap(plan, disk, at);
	}
	return bytes;
}

/* Whether `chunk` goes on where the last of the plan ends, on the same disks. */
G4_FN static bool continues(const struct plan *plan, const uint32_t *disks, uint32_t columns, uint32_t copies)
{
	const struct g4_chunk *last = plan->count > plan->first ? &plan->chunks[plan->count - 1] : NULL;

	if (!last || last->columns != 1 || columns != 1 || last->copies != copies)
		return false;
	for (uint32_t k = 0; k < copies; k++)
		if (g4_place_disk(last->places[k]) != disks[k] ||
		    g4_place_address(last->places[k]) + last->place_bytes != plan->next[disks[k]])
			return false;
	return true;
}

G4_FN static void add_chunk(struct plan *plan, const uint32_t *disks, uint32_t columns, uint32_t copies,
			    uint64_t place_bytes, uint64_t stripe_bytes, uint32_t parity)
{
	const uint64_t bytes = (columns - parity) * place_bytes;
	const bool longer = continues(plan, disks, columns, copies);
	struct g4_chunk *chunk = &plan->chunks[longer ? plan->count - 1 : plan->count];

	if (!longer) {
		memset(chunk, 0, sizeof(*chunk));
		chunk->address = plan->address;
		chunk->columns = (uint16_t)columns;
		chunk->copies = (uint16_t)copies;
		chunk->parity = (uint16_t)parity;
		chunk->level = (uint16_t)plan->level;
		chunk->stripe_bytes = columns > 1 ? (uint32_t)stripe_bytes : 0;
		for (uint32_t k = 0; k < columns * copies; k++)
			chunk->places[k] = plan->next[disks[k]] | disks[k];
		plan->count++;
	}
	chunk->place_bytes += place_bytes;
	chunk->bytes += bytes;
	plan->address += bytes;
	for (uint32_t k = 0; k < columns * copies; k++) {
		const uint32_t d = disks[k];
		plan->next[d] += place_bytes;
		plan->run[d] -= place_bytes;
		plan->left[d] -= place_bytes;
		if (plan->run[d] == 0 && plan->left[d])
			plan->run[d] = find_gap(plan, d, &plan->next[d]);
	}
}

/* All of each disk, one behind the other. */
G4_FN static void plan_none(struct plan *plan)
{
	for (uint32_t d = 0; d < plan->disk_count; d++)
		while (plan->run[d] && (!plan->with_disk || d + 1 == plan->with_disk) && plan->count < G4_CHUNKS_MAX &&
		       plan->address < plan->end)
			add_chunk(plan, &d, 1, 1, g4_min64(plan->run[d], plan->end - plan->address), 0, 0);
}

/* Over as many disks as have room, at most G4_CHUNK_PLACES at a time in groups of the same width, until too few have. */
G4_FN static void plan_striped(struct plan *plan, uint64_t stripe_bytes, uint32_t parity)
{
	for (;;) {
		uint32_t disks[G4_MAX_DISKS], count = 0, done = 0;
		while (count < plan->disk_count && (disks[count] = roomiest(plan, disks, count)) != G4_MAX_DISKS)
			count++;
		if (plan->with_disk) /* one group, or others would be without it */
			count = (uint32_t)g4_min64(count, G4_CHUNK_PLACES);
		if (plan->exact)
			count = (uint32_t)g4_min64(count, (plan->end - plan->address) / G4_CHUNK_UNIT);
		/* each group of columns has its own parity, and two columns of data at least; what was assigned to stripes has two of them */
		if (count < (parity ? parity + 2 : plan->level != G4_LEVEL_OWN ? 2u : 1u))
			return;
		const uint32_t groups = (count + G4_CHUNK_PLACES - 1) / G4_CHUNK_PLACES;
		if (plan->count + groups > G4_CHUNKS_MAX)
			return;
		for (uint32_t g = 0; g < groups; g++) {
			const uint32_t columns = (count - done + groups - g - 1) / (groups - g);
			uint64_t room = plan->run[disks[done]];
			for (uint32_t k = 1; k < columns; k++)
				room = g4_min64(room, plan->run[disks[done + k]]);
			if (plan->address >= plan->end)
				return;
			const uint64_t each = (plan->end - plan->address + columns - parity - 1) / (columns - parity);
			const uint64_t wanted =
				plan->exact ? g4_align_down((plan->end - plan->address) / columns, G4_CHUNK_UNIT) :
					      g4_align_up(each, G4_CHUNK_UNIT);
			if (wanted == 0) /* less than a MiB for each: fewer columns have it */
				break;
			add_chunk(plan, &disks[done], columns, 1, g4_min64(room, wanted), stripe_bytes, parity);
			done += columns;
		}
	}
}

/* The disks with the most room, as many as there are to be copies, in their order; the least of their gaps, 0: there are too few. */
G4_FN static uint64_t choose_disks(const struct plan *plan, uint32_t copies, uint32_t *disks)
{
	uint64_t least = 0;

	for (uint32_t taken = 0; taken < copies; taken++) {
		const uint32_t disk = roomiest(plan, disks, taken);
		uint32_t at = taken;
		if (disk == G4_MAX_DISKS)
			return 0;
		least = taken ? g4_min64(least, plan->run[disk]) : plan->run[disk];
		for (; at > 0 && disks[at - 1] > disk; at--)
			disks[at] = disks[at - 1];
		disks[at] = disk;
	}
	return least;
}

/* Pieces on the disks that have the most room, until fewer than there are copies have any, or the space has `most` bytes. */
G4_FN static void plan_mirrored(struct plan *plan, uint32_t copies, uint64_t most, bool whole)
{
	/* the front of a set with parity is in one piece: a copy of a record of the journal is on one disk then */
	const uint64_t unit = whole ? most : plan->piece_bytes;

	while (plan->count < G4_CHUNKS_MAX && plan->address < most) {
		uint32_t disks[G4_COPIES_MAX];
		const uint64_t least = choose_disks(plan, copies, disks);
		if (least == 0)
			return;
		const uint64_t room = g4_min64(least, most - plan->address);
		add_chunk(plan, disks, 1, copies, plan->disk_count == copies ? room : g4_min64(unit, room), 0, 0);
	}
}

/* Gaps of at least so many bytes, of all disks from the byte on that chunks may have. How many. */
G4_FN static uint64_t look_for_gaps(struct plan *plan, uint64_t front, uint64_t least)
{
	uint64_t count = 0;

	plan->least = least;
	for (uint32_t d = 0; d < plan->disk_count; d++) {
		plan->next[d] = front;
		plan->run[d] = find_gap(plan, d, &plan->next[d]);
		plan->left[d] = 0;
		for (uint64_t at = plan->next[d], bytes = plan->run[d]; bytes; bytes = find_gap(plan, d, &at)) {
			plan->left[d] += bytes;
			at += bytes;
			count++;
		}
	}
	return count;
}

/* Whether there are gaps on as many disks as a chunk is to have, and on the one that is to be there. */
G4_FN static bool can_be_laid(const struct plan *plan, const struct g4_chunk_wish *wish)
{
	const uint32_t least = wish->raid == G4_RAID_1	    ? wish->copies :
			       wish->raid == G4_RAID_PARITY ? wish->copies + 1 :
			       wish->raid == G4_RAID_0	    ? 2u :
							      1u;
	uint32_t count = 0;

	for (uint32_t d = 0; d < plan->disk_count; d++)
		count += plan->left[d] != 0;
	return count >= least && (!plan->with_disk || plan->left[plan->with_disk - 1] != 0);
}

/* A gap takes a chunk at least: where there are too many for half of what the table has left, short ones stay, if longer ones will do. */
G4_FN static void choose_gaps(struct plan *plan, const struct g4_chunk_wish *wish, uint64_t front)
{
	uint64_t least = G4_CHUNK_UNIT, count = look_for_gaps(plan, front, least);

	while (count > (G4_CHUNKS_MAX - plan->count) / 2) {
		count = look_for_gaps(plan, front, 2 * least);
		if (!can_be_laid(plan, wish)) {
			look_for_gaps(plan, front, least);
			return;
		}
		least *= 2;
	}
}

/* What of the disks the first `count` chunks leave. */
G4_FN static void begin_plan(struct plan *plan, const struct g4_chunk_wish *wish, const uint64_t *disk_bytes,
			     uint32_t disk_count, struct g4_chunk *chunks, uint32_t count)
{
	memset(plan, 0, sizeof(*plan));
	plan->chunks = chunks;
	plan->first = plan->count = count;
	plan->disk_count = disk_count;
	plan->address = count ? chunks[count - 1].address + chunks[count - 1].bytes : 0;
	plan->end = wish->most_bytes ? plan->address + g4_align_up(wish->most_bytes, G4_CHUNK_UNIT) : UINT64_MAX / 2;
	plan->level = wish->level;
	plan->with_disk = wish->with_disk;
	for (uint32_t d = 0; d < disk_count; d++) {
		const uint64_t usable = g4_chunk_usable(disk_bytes[d]);
		plan->stop[d] =
			G4_CHUNK_UNIT + usable - g4_align_down(usable / 100 * wish->leave_percent, G4_CHUNK_UNIT);
	}
	choose_gaps(plan, wish, G4_CHUNK_UNIT + wish->log_bytes);
	for (uint32_t d = 0; d < disk_count; d++)
		plan->piece_bytes += plan->left[d] / MOST_PIECES;
	plan->piece_bytes = g4_align_up(g4_max64(plan->piece_bytes, wish->piece_bytes) + 1, G4_CHUNK_UNIT);
}

G4_FN uint32_t g4_chunk_plan(const struct g4_chunk_wish *wish, const uint64_t *disk_bytes, uint32_t disk_count,
			     struct g4_chunk *chunks)
{
	struct plan plan;

	if (wish->raid != G4_RAID_PARITY)
		return g4_chunk_extend(wish, disk_bytes, disk_count, chunks, 0);
	begin_plan(&plan, wish, disk_bytes, disk_count, chunks, 0);
	plan_mirrored(&plan, wish->copies, wish->front_bytes, true);
	const uint32_t mirrors = plan.count;
	if (plan.address == wish->front_bytes)
		plan_striped(&plan, wish->stripe_bytes, wish->copies - 1);
	return plan.count > mirrors ? plan.count : 0;
}

/* In pieces, where most room is. */
G4_FN static void plan_pieces(struct plan *plan)
{
	while (plan->count < G4_CHUNKS_MAX && plan->address < plan->end) {
		uint32_t disk = roomiest(plan, NULL, 0);
		if (disk == G4_MAX_DISKS)
			return;
		const uint64_t most = g4_min64(plan->piece_bytes, plan->end - plan->address);
		add_chunk(plan, &disk, 1, 1, g4_min64(plan->run[disk], most), 0, 0);
	}
}

G4_FN static void lay(struct plan *plan, const struct g4_chunk_wish *wish)
{
	if (wish->raid == G4_RAID_0)
		plan_striped(plan, wish->stripe_bytes, 0);
	else if (wish->raid == G4_RAID_1)
		plan_mirrored(plan, wish->copies, plan->end, false);
	else if (wish->raid == G4_RAID_PARITY)
		plan_striped(plan, wish->stripe_bytes, wish->copies - 1);
	else if (wish->piece_bytes)
		plan_pieces(plan);
	else
		plan_none(plan);
}

G4_FN uint32_t g4_chunk_extend(const struct g4_chunk_wish *wish, const uint64_t *disk_bytes, uint32_t disk_count,
			       struct g4_chunk *chunks, uint32_t count)
{
	struct plan plan;

	begin_plan(&plan, wish, disk_bytes, disk_count, chunks, count);
	lay(&plan, wish);
	return plan.count;
}

/* Chunks from `first` on go where their addresses are among those before, and chunks without bytes nowhere. */
G4_FN static uint32_t sort_in(struct g4_chunk *chunks, uint32_t first, uint32_t count)
{
	uint32_t kept = 0;

	for (uint32_t n = first; n < count; n++) {
		const struct g4_chunk chunk = chunks[n];
		uint32_t at = n;
		for (; at > 0 && chunks[at - 1].address >= chunk.address; at--)
			chunks[at] = chunks[at - 1];
		chunks[at] = chunk;
	}
	for (uint32_t n = 0; n < count; n++)
		if (chunks[n].bytes != 0)
			chunks[kept++] = chunks[n];
	return kept;
}

G4_FN uint32_t g4_chunk_fill(const struct g4_chunk_wish *wish, const uint64_t *disk_bytes, uint32_t disk_count,
			     struct g4_chunk *chunks, uint32_t count)
{
	struct plan plan;

	begin_plan(&plan, wish, disk_bytes, disk_count, chunks, count);
	plan.exact = true;
	for (uint32_t n = 0; n < count; n++) {
		if (!g4_chunk_is_gone(&chunks[n]) || chunks[n].place_bytes != 0)
			continue;
		plan.first = plan.count;
		plan.address = chunks[n].address;
		plan.end = chunks[n].address + chunks[n].bytes;
		lay(&plan, wish);
		chunks[n].address = plan.address;
		chunks[n].bytes = plan.end - plan.address;
	}
	return sort_in(chunks, count, plan.count);
}

G4_FN void g4_chunk_wish_like(const struct g4_chunk_map *map, uint64_t log_bytes, struct g4_chunk_wish *wish)
{
	memset(wish, 0, sizeof(*wish));
	wish->raid = G4_RAID_NONE;
	wish->copies = 1;
	wish->stripe_bytes = G4_STRIPE_DEFAULT;
	wish->log_bytes = log_bytes;
	for (uint32_t n = 0; n < map->count; n++) {
		const struct g4_chunk *chunk = &map->chunks[n];
		if (chunk->level != G4_LEVEL_OWN || g4_chunk_is_gone(chunk))
			continue;
		if (chunk->parity || (chunk->columns > 1 && wish->raid != G4_RAID_PARITY)) {
			wish->raid = chunk->parity ? G4_RAID_PARITY : G4_RAID_0;
			wish->copies = chunk->parity + UINT32_C(1);
			wish->stripe_bytes = chunk->stripe_bytes;
		} else if (chunk->copies > 1 && wish->raid != G4_RAID_PARITY) {
			wish->raid = G4_RAID_1;
			wish->copies = chunk->copies;
		}
	}
}

/* ---- checking ---- */

G4_FN static bool place_is_possible(uint64_t place, uint64_t bytes, const uint64_t *disk_bytes, uint32_t disk_count)
{
	const uint32_t disk = g4_place_disk(place);
	const uint64_t from = g4_place_address(place);

	if (disk >= disk_count || from < G4_CHUNK_UNIT || from % G4_CHUNK_UNIT != 0)
		return false;
	const uint64_t end = G4_CHUNK_UNIT + g4_chunk_usable(disk_bytes[disk]);
	return from < end && bytes <= end - from;
}

/*
 * A chunk without places has a size, and nothing else; of rows the length that a place had, in whole regions of the map: a MiB of rows, with
 * two columns of data or more, is a region, too.
 */
G4_FN static bool is_nothing(const struct g4_chunk *chunk)
{
	uint64_t any = chunk->stripe_bytes | chunk->copies | chunk->parity | chunk->level | chunk->reserved[0] |
		       chunk->reserved[1];

	for (uint32_t k = 0; k < G4_CHUNK_PLACES; k++)
		any |= chunk->places[k];
	return any == 0 && chunk->bytes != 0 && chunk->bytes % G4_CHUNK_UNIT == 0 &&
	       chunk->place_bytes % G4_GONE_ROWS_UNIT == 0 && chunk->place_bytes >> 56 == 0 &&
	       chunk->place_bytes / (G4_GONE_ROWS_UNIT / G4_CHUNK_UNIT / 2) <= chunk->bytes;
}

G4_FN static bool chunk_is_possible(const struct g4_chunk *chunk, const uint64_t *disk_bytes, uint32_t disk_count)
{
	const uint32_t places = (uint32_t)chunk->columns * chunk->copies;
	uint64_t disks = 0;

	if (g4_chunk_is_gone(chunk))
		return is_nothing(chunk);
	if (chunk->columns == 0 || chunk->columns > G4_CHUNK_PLACES || chunk->copies == 0 ||
	    chunk->copies > G4_COPIES_MAX || places > G4_CHUNK_PLACES || chunk->reserved[0] != 0 ||
	    chunk->reserved[1] != 0)
		return false;
	if (chunk->parity && (chunk->parity > G4_CHUNK_PARITY_MOST || chunk->columns < chunk->parity + 2))
		return false;
	if (chunk->level != G4_LEVEL_OWN && chunk->level != g4_chunk_shape(chunk))
		return false;
	if (chunk->columns > 1 && chunk->copies > 1) /* no stripes of copies: a disk is rebuilt a column at a time */
		return false;
	if (chunk->place_bytes == 0 || chunk->place_bytes % G4_CHUNK_UNIT != 0 || chunk->place_bytes >> 56 != 0 ||
	    chunk->bytes != g4_chunk_data_columns(chunk) * chunk->place_bytes)
		return false;
	if (chunk->columns == 1 ? chunk->stripe_bytes != 0 :
				  chunk->stripe_bytes < G4_STRIPE_MIN || chunk->stripe_bytes > G4_STRIPE_MAX ||
					  (chunk->stripe_bytes & (chunk->stripe_bytes - 1)) != 0)
		return false;
	for (uint32_t k = 0; k < G4_CHUNK_PLACES; k++) {
		const uint64_t place = chunk->places[k], bit = UINT64_C(1) << g4_place_disk(place);
		if (k >= places && place != 0)
			return false;
		/* stripes alone bear no loss: columns that were moved may be on one disk */
		if (k < places && (disks & bit) != 0 && (chunk->copies > 1 || chunk->parity))
			return false;
		if (k < places && !place_is_possible(place, chunk->place_bytes, disk_bytes, disk_count))
			return false;
		disks |= k < places ? bit : 0;
	}
	return true;
}

/* Whether place k of chunk n overlaps none before it. */
G4_FN static bool is_apart(const struct g4_chunk *chunks, uint32_t n, uint32_t k)
{
	const uint64_t place = chunks[n].places[k], from = g4_place_address(place), to = from + chunks[n].place_bytes;

	for (uint32_t m = 0; m <= n; m++)
		for (uint32_t p = 0; p < (m < n ? (uint32_t)chunks[m].columns * chunks[m].copies : k); p++) {
			const uint64_t other = g4_place_address(chunks[m].places[p]);
			if (g4_place_disk(chunks[m].places[p]) == g4_place_disk(place) && other < to &&
			    from < other + chunks[m].place_bytes)
				return false;
		}
	return true;
}

/* Most places on a disk are in the order of their chunks, and behind all before; those that were moved are compared with all. */
G4_FN int g4_chunk_validate(const struct g4_chunk *chunks, uint32_t count, const uint64_t *disk_bytes,
			    uint32_t disk_count)
{
	uint64_t address = 0, used[G4_MAX_DISKS] = {0};

	for (uint32_t n = 0; n < count; n++) {
		const struct g4_chunk *chunk = &chunks[n];
		if (chunk->address != address || chunk->bytes > UINT64_MAX / 2 - address ||
		    !chunk_is_possible(chunk, disk_bytes, disk_count))
			return -G4_E_SB_GEOMETRY;
		for (uint32_t k = 0; k < (uint32_t)chunk->columns * chunk->copies; k++) {
			const uint32_t disk = g4_place_disk(chunk->places[k]);
			const uint64_t from = g4_place_address(chunk->places[k]);
			if (from < used[disk] && !is_apart(chunks, n, k))
				return -G4_E_SB_GEOMETRY;
			used[disk] = g4_max64(used[disk], from + chunk->place_bytes);
		}
		address += chunk->bytes;
	}
	return 0;
}

G4_FN bool g4_chunk_were_moved(const struct g4_chunk *chunks, uint32_t count)
{
	uint64_t used[G4_MAX_DISKS] = {0};
	bool moved = false;

	for (uint32_t n = 0; n < count && !moved; n++) {
		uint64_t disks = 0;
		moved = g4_chunk_is_gone(&chunks[n]);
		for (uint32_t k = 0; k < (uint32_t)chunks[n].columns * chunks[n].copies; k++) {
			const uint32_t disk = g4_place_disk(chunks[n].places[k]);
			const uint64_t from = g4_place_address(chunks[n].places[k]);
			moved = moved || from < used[disk] || (disks >> disk & 1) != 0;
			used[disk] = g4_max64(used[disk], from + chunks[n].place_bytes);
			disks |= UINT64_C(1) << disk;
		}
	}
	return moved;
}

/* ---- looking up ---- */

G4_FN const struct g4_chunk *g4_chunk_find(const struct g4_chunk_map *map, uint64_t address)
{
	uint32_t low = 0, high = g4_load32_acq(&map->count) - 1;

	while (low < high) {
		const uint32_t middle = low + (high - low + 1) / 2;
		if (map->chunks[middle].address <= address)
			low = middle;
		else
			high = middle - 1;
	}
	return &map->chunks[low];
}

G4_FN void g4_chunk_translate(const struct g4_chunk_map *map, uint64_t address, uint64_t bytes, struct g4_piece *piece)
{
	const struct g4_chunk *chunk = g4_chunk_find(map, address);
	const uint64_t in_chunk = address - chunk->address;
	uint64_t column = 0, in_place = in_chunk, most = chunk->bytes - in_chunk;

	if (chunk->columns > 1) {
		const uint64_t index = in_chunk / chunk->stripe_bytes, within = in_chunk % chunk->stripe_bytes;
		const uint32_t columns = g4_chunk_data_columns(chunk);
		column = index % columns;
		if (chunk->parity)
			column = (column + index / columns) % chunk->columns;
		in_place = index / columns * chunk->stripe_bytes + within;
		most = chunk->stripe_bytes - within;
	}
	piece->bytes = g4_min64(bytes, most);
	piece->copies = chunk->copies;
	piece->parity = chunk->parity;
	for (uint32_t c = 0; c < chunk->copies; c++) {
		const uint64_t place = chunk->places[column * chunk->copies + c];
		piece->disks[c] = g4_place_disk(place);
		piece->offsets[c] = g4_place_address(place) + in_place;
	}
}
