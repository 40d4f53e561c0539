/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removing a disk while users work: see leave.h. A step moves what comes next of the disk, as rebalancing does, or gives it up where nothing of
 * it is in use and the other disks have no room for all; where they have none for what is in use, others' free space is given up first. What
 * no other disk may have (rows that have all disks) comes before all else, and the order is refused where something is in use there.
 *
 * Giving up: the allocator lets go of whole regions, of which nothing is in use (alloc/retire.c), and then the set of their places, so nobody
 * can have a page there in between; what the set does not give up the allocator gets back. No page on the disk says so: the next mount learns it
 * of the table of chunks (levels.h). A region that lies in two chunks is lost as a whole with a part of one, so such rests are given up with it.
 *
 * Crashes: what is given up was in use in no state that a crash can bring back, for a page is in the allocator's view from its claim until the
 * transaction that frees it is durable. All else is the set's.
 */
#include "fs/leave.h"

#include "alloc/retire.h"
#include "dev/leave.h"
#include "fs/rebalance.h"
#include "inode/txn.h"

#define REGION_BYTES (G4_REGION_PAGES * G4_PAGE_BYTES)
#define RUN_REGIONS 256u		 /* given up at once, at most */
#define ROOM_BYTES (16u * G4_CHUNK_UNIT) /* of a place, for what is in use: as much as is copied at once */

#define MOST_WAITS 8u /* for what writers free */

enum choice {
	LOST,
	LEAVING,
	ANY
}; /* what is given up first for room: what the file system has lost already, what would have to be moved */

struct run { /* regions that were retired for an order */
	uint64_t first;
	uint8_t pools[RUN_REGIONS]; /* what each was of, POOL_GONE: nobody's before */
	uint32_t count;
};

G4_FN static int ask(struct g4_wg *wg, struct g4_fs *fs, const struct g4_job_record *record, uint32_t op,
		     struct g4_dev_order *order)
{
	order->op = op;
	order->done = record->arguments[0];
	order->all = record->arguments[1];
	return g4_space_order(wg, &fs->space, order);
}

/* What of a chunk's places is cut at least, and of its addresses. */
G4_FN static uint64_t place_unit(const struct g4_dev_order *chunk)
{
	return (uint64_t)(chunk->disk >> G4_LEAVE_UNIT_SHIFT & G4_LEAVE_UNIT_MASK) * G4_CHUNK_UNIT;
}

/* Units of rows can be cut in a MiB of places. */
G4_FN static bool is_rows(const struct g4_dev_order *chunk)
{
	return place_unit(chunk) > G4_CHUNK_UNIT;
}

G4_FN static uint64_t unit_of(const struct g4_dev_order *chunk)
{
	return place_unit(chunk) * (chunk->disk & G4_LEAVE_COLUMNS);
}

/* ------------------------------------------------------------------ giving up */

G4_FN static bool is_gone(const struct g4_fs *fs, uint64_t region)
{
	return region < g4_load64_acq(&fs->alloc.region_count) &&
	       g4_alloc_region_pool(&fs->alloc, region) == G4_POOL_GONE;
}

/* Whether all regions that bytes of the address space lie in are lost, or with `lost` false could be. */
G4_FN static bool may_go(struct g4_wg *wg, struct g4_fs *fs, uint64_t address, uint64_t bytes, bool lost)
{
	for (uint64_t r = address / REGION_BYTES; r * REGION_BYTES < address + bytes; r++)
		if (!is_gone(fs, r) && (lost || !g4_alloc_is_empty(wg, &fs->alloc, r)))
			return false;
	return true;
}

G4_FN static void take_back(struct g4_fs *fs, struct run *run, uint32_t from)
{
	for (uint32_t k = from; k < run->count; k++)
		if (run->pools[k] != G4_POOL_GONE)
			g4_alloc_take_back(&fs->alloc, run->first + k, run->pools[k]);
	run->count = from;
}

/* The regions up to one are nobody's; false: one of them is in use, and those that were not before are as they were. */
G4_FN static bool retire_to(struct g4_wg *wg, struct g4_fs *fs, struct run *run, uint64_t end)
{
	const uint32_t before = run->count;

	while (run->first + run->count < end) {
		const uint64_t region = run->first + run->count;
		uint32_t pool = G4_POOL_GONE;
		if (run->count == RUN_REGIONS ||
		    (!is_gone(fs, region) && !g4_alloc_retire(wg, &fs->alloc, region, &pool))) {
			take_back(fs, run, before);
			return false;
		}
		run->pools[run->count++] = (uint8_t)pool;
	}
	return true;
}

/*
 * Of `most` bytes of a chunk, from an address on, as many as can be: whole units, or up to the chunk's end. *bytes: how many are given up; 0: none
 * can be. -G4_E_AGAIN: not now, requests are under way.
 */
G4_FN static int give_up(struct g4_wg *wg, struct g4_fs *fs, uint64_t address, uint64_t unit, uint64_t most,
			 uint64_t *bytes)
{
	struct run run;
	struct g4_dev_order order;

	*bytes = 0;
	run.first = address / REGION_BYTES;
	run.count = 0;
	while (*bytes < most) {
		const uint64_t next = g4_min64(*bytes + unit, most);
		if (!retire_to(wg, fs, &run, (address + next + REGION_BYTES - 1) / REGION_BYTES))
			break;
		*bytes = next;
	}
	if (*bytes == 0)
		return 0;
	memset(&order, 0, sizeof(order));
	order.op = G4_ORDER_GIVE_UP;
	order.done = address;
	order.bytes = *bytes;
	const int rc = g4_space_order(wg, &fs->space, &order);
	if (rc < 0 || order.bytes == 0) {
		take_back(fs, &run, 0);
		*bytes = 0;
	}
	return rc == 0 && *bytes == 0 && order.disk == 1 ? -G4_E_AGAIN : rc;
}

/* A part of a lost region, whatever chunks have it: lost as well, so its places are room. What can not go now goes later, with make_room(). */
G4_FN static int give_up_rest(struct g4_wg *wg, struct g4_fs *fs, const struct g4_job_record *record, uint64_t from,
			      uint64_t to)
{
	struct g4_dev_order chunk;
	int rc = 0;

	memset(&chunk, 0, sizeof(chunk));
	for (uint64_t at = from; at < to && rc == 0; at = chunk.done + chunk.bytes) {
		uint64_t given = 0;
		chunk.bytes = at + 1;
		rc = ask(wg, fs, record, G4_ORDER_LEAVE_CHUNK, &chunk);
		if (rc < 0 || chunk.done + chunk.bytes <= at) /* nobody has it any more */
			return rc == -G4_E_NOENT ? 0 : rc;
		const uint64_t unit = unit_of(&chunk);
		const uint64_t first = (at - chunk.done + unit - 1) / unit;
		const uint64_t end = g4_min64(to - chunk.done, chunk.bytes) / unit;
		if (first < end)
			rc = give_up(wg, fs, chunk.done + first * unit, unit, (end - first) * unit, &given);
	}
	return rc == -G4_E_AGAIN ? 0 : rc;
}

/* The rests of the regions at both ends of what was given up. */
G4_FN static int give_up_rests(struct g4_wg *wg, struct g4_fs *fs, const struct g4_job_record *record, uint64_t address,
			       uint64_t bytes)
{
	const uint64_t end = address + bytes;
	const int rc = give_up_rest(wg, fs, record, g4_align_down(address, REGION_BYTES), address);

	return rc < 0 ? rc : give_up_rest(wg, fs, record, end, g4_align_up(end, REGION_BYTES));
}

/* ------------------------------------------------------------------ room */

/* The last units of a chunk that can go, in a row, from `least` to `most`. *first: the number of the first one; how many. */
G4_FN static uint64_t find_units(struct g4_wg *wg, struct g4_fs *fs, const struct g4_dev_order *chunk, bool lost,
				 uint64_t least, uint64_t most, uint64_t *first)
{
	const uint64_t unit = unit_of(chunk);
	uint64_t at = chunk->bytes / unit, found = 0;

	while (at > 0 && found < most) {
		const bool goes = may_go(wg, fs, chunk->done + (at - 1) * unit, unit, lost);
		if (!goes && found >= least)
			break;
		found = goes ? found + 1 : 0;
		at--;
		*first = at;
	}
	return found >= least ? found : 0;
}

/*
 * Free space of other disks for so many bytes of a place, or what frees some there, is given up, `least` of them in a row: rows go nowhere else.
 * *made: false, there is none; or somebody was faster, and it is tried again.
 */
G4_FN static int make_room(struct g4_wg *wg, struct g4_fs *fs, const struct g4_job_record *record, enum choice choice,
			   uint64_t wanted, uint64_t least, bool *made)
{
	struct g4_dev_order chunk;
	uint64_t before = UINT64_MAX, first = 0, given = 0;
	int rc;

	memset(&chunk, 0, sizeof(chunk));
	for (;;) {
		chunk.bytes = before;
		rc = ask(wg, fs, record, G4_ORDER_LEAVE_CHUNK, &chunk);
		if (rc < 0)
			return rc == -G4_E_NOENT ? 0 : rc;
		before = chunk.done;
		if (!(chunk.disk & G4_LEAVE_HELPS) || (choice == LEAVING && !(chunk.disk & G4_LEAVE_LEAVES)))
			continue;
		/* each unit frees one on every other disk that it lies on */
		const uint64_t freed = place_unit(&chunk) * g4_max64(chunk.all, 1), unit = unit_of(&chunk);
		const uint64_t row = choice == LOST ? 1 : (least + place_unit(&chunk) - 1) / place_unit(&chunk);
		const uint64_t enough = g4_max64((wanted + freed - 1) / freed, row);
		const uint64_t most = find_units(wg, fs, &chunk, choice == LOST, row, enough, &first);
		if (most == 0)
			continue;
		const uint64_t address = chunk.done + first * unit;
		rc = give_up(wg, fs, address, unit, most * unit, &given);
		*made = given > 0;
		if (given > 0)
			rc = give_up_rests(wg, fs, record, address, given);
		if (rc < 0 || given > 0)
			return rc;
	}
}

/* ------------------------------------------------------------------ parts of units */

/*
 * Rows of which no unit is free may be free in pieces. A unit, that has one bit of the map, can be cut at its ends: what is not in use there is given up, and what is between
 * moves as shorter rows, to a shorter gap. And where there are gaps that are too short for that, what is in use at its end becomes copies, which lie anywhere.
 *
 *   a unit        |      | used |      | used | used |     |
 *   1. its ends          | used |      | used | used |               given up; what is between needs a gap of 4 parts
 *   2. copies            | used |      |  copies     |               and then 1. again: a gap of one part
 */
struct unit {			 /* of rows */
	uint64_t address, piece; /* of a MiB of places, in bytes of the address space */
	uint32_t pieces;
};

G4_FN static struct unit unit_at(const struct g4_dev_order *chunk, uint64_t number)
{
	struct unit unit;

	unit.address = chunk->done + number * unit_of(chunk);
	unit.piece = G4_CHUNK_UNIT * (chunk->disk & G4_LEAVE_COLUMNS);
	unit.pieces = (uint32_t)(g4_min64(unit_of(chunk), chunk->done + chunk->bytes - unit.address) / unit.piece);
	return unit;
}

/* Bit n: nothing is in use of piece n. */
G4_FN static uint32_t idle_pieces(struct g4_wg *wg, struct g4_fs *fs, const struct unit *unit)
{
	uint32_t idle = 0;

	for (uint32_t n = 0; n < unit->pieces; n++)
		idle |= (uint32_t)may_go(wg, fs, unit->address + n * unit->piece, unit->piece, false) << n;
	return idle;
}

/* Idle pieces in front of those that are in use, and behind them; all in front where none is. */
G4_FN static uint32_t idle_in_front(const struct unit *unit, uint32_t idle)
{
	uint32_t count = 0;

	while (count < unit->pieces && (idle >> count & 1))
		count++;
	return count;
}

G4_FN static uint32_t idle_behind(const struct unit *unit, uint32_t idle)
{
	uint32_t count = 0;

	while (count < unit->pieces && (idle >> (unit->pieces - 1 - count) & 1))
		count++;
	return count;
}

/* Pages of a place, of so many bytes of the address space. */
G4_FN static uint64_t place_pages(const struct unit *unit, uint64_t bytes)
{
	return bytes / unit->piece * (G4_CHUNK_UNIT / G4_PAGE_BYTES);
}

/* Pieces at an end of a unit, all of them or none; the rest of it stays. */
G4_FN static int give_up_end(struct g4_wg *wg, struct g4_fs *fs, const struct unit *unit, bool behind, uint32_t pieces,
			     uint64_t *bytes)
{
	const uint64_t all = pieces * unit->piece,
		       address = unit->address + (behind ? (unit->pieces - pieces) * unit->piece : 0);

	return give_up(wg, fs, address, all, all, bytes);
}

/* `least` bytes of a place at an end of a unit of others, the last one first: room for as much, with `helps` where what comes next may go. */
G4_FN static int make_room_of_ends(struct g4_wg *wg, struct g4_fs *fs, const struct g4_job_record *record, bool helps,
				   uint64_t least, bool *made)
{
	const uint32_t pieces = (uint32_t)(least / G4_CHUNK_UNIT);
	struct g4_dev_order chunk;
	uint64_t before = UINT64_MAX;
	int rc = 0;

	memset(&chunk, 0, sizeof(chunk));
	while (rc == 0 && !*made) {
		chunk.bytes = before;
		rc = ask(wg, fs, record, G4_ORDER_LEAVE_CHUNK, &chunk);
		if (rc < 0)
			return rc == -G4_E_NOENT ? 0 : rc;
		before = chunk.done;
		if (!is_rows(&chunk) || (helps && !(chunk.disk & G4_LEAVE_HELPS)))
			continue;
		for (uint64_t n = (chunk.bytes + unit_of(&chunk) - 1) / unit_of(&chunk);
		     n-- > 0 && rc == 0 && !*made;) {
			const struct unit unit = unit_at(&chunk, n);
			const uint32_t idle = idle_pieces(wg, fs, &unit);
			const bool behind = idle_behind(&unit, idle) >= pieces;
			/* on the disk that goes: it is given up in its turn, or is the last of its level */
			const bool all = (chunk.disk & G4_LEAVE_LEAVES) && idle_behind(&unit, idle) == unit.pieces;
			uint64_t given = 0;
			if (!all && pieces < unit.pieces && (behind || idle_in_front(&unit, idle) >= pieces))
				rc = give_up_end(wg, fs, &unit, behind, pieces, &given);
			*made = given > 0;
		}
	}
	return rc;
}

/* What is free at both ends of what comes next. *pages: of the disk that goes, that are given up. */
G4_FN static int cut_ends(struct g4_wg *wg, struct g4_fs *fs, const struct unit *unit, uint64_t *pages)
{
	const uint32_t idle = idle_pieces(wg, fs, unit), behind = idle_behind(unit, idle);
	struct unit rest = *unit;
	uint64_t given = 0;
	int rc = 0;

	*pages = 0;
	if (behind == unit->pieces) /* all of it is given up otherwise, or not at all */
		return 0;
	if (behind > 0)
		rc = give_up_end(wg, fs, unit, true, behind, &given);
	*pages = place_pages(unit, given);
	if (given > 0)
		rest.pieces -= behind;
	const uint32_t front = idle_in_front(&rest, idle);
	if (rc == 0 && front > 0)
		rc = give_up_end(wg, fs, &rest, false, front, &given);
	else
		given = 0;
	*pages += place_pages(unit, given);
	return rc == -G4_E_AGAIN && *pages > 0 ? 0 : rc;
}

/* What is in use at the end of what comes next, which stays rows in part. *pages: of the disk that goes. -G4_E_NOSPC: copies of it have no room; -G4_E_PARITY: a scrub is wanted before. */
G4_FN static int scatter(struct g4_wg *wg, struct g4_fs *fs, const struct unit *unit, uint32_t disk, uint64_t *pages)
{
	const uint32_t idle = idle_pieces(wg, fs, unit);
	struct g4_dev_order order;
	uint32_t count = 0;

	*pages = 0;
	while (count + 1 < unit->pieces && !(idle >> (unit->pieces - 1 - count) & 1))
		count++;
	if (count == 0) /* one piece is left, or nothing is in use */
		return 0;
	memset(&order, 0, sizeof(order));
	order.op = G4_ORDER_GIVE_UP;
	order.disk = G4_GIVE_UP_TO_COPIES(disk);
	order.done = unit->address + (unit->pieces - count) * unit->piece;
	order.bytes = count * unit->piece;
	const int rc = g4_space_order(wg, &fs->space, &order);
	*pages = rc == 0 ? place_pages(unit, order.bytes) : 0;
	return rc == 0 && order.bytes == 0 ? -G4_E_AGAIN : rc;
}

/* ------------------------------------------------------------------ steps */

/* The chunk that has an address; false: there is none. */
G4_FN static bool find_chunk(struct g4_wg *wg, struct g4_fs *fs, const struct g4_job_record *record, uint64_t address,
			     struct g4_dev_order *chunk)
{
	memset(chunk, 0, sizeof(*chunk));
	chunk->bytes = address + 1;
	return ask(wg, fs, record, G4_ORDER_LEAVE_CHUNK, chunk) == 0 && chunk->done <= address &&
	       address - chunk->done < chunk->bytes;
}

/* Of what comes next that nothing is in use of, without room for it. *pages: of the disk that goes, that are given up. */
G4_FN static int give_up_next(struct g4_wg *wg, struct g4_fs *fs, const struct g4_job_record *record,
			      const struct g4_dev_order *next, uint64_t *pages)
{
	struct g4_dev_order chunk;
	uint64_t given = 0;

	*pages = 0;
	if (!find_chunk(wg, fs, record, next->done, &chunk))
		return 0;
	const int rc = give_up(wg, fs, next->done, unit_of(&chunk), next->bytes, &given);
	*pages = given / (chunk.disk & G4_LEAVE_COLUMNS) / G4_PAGE_BYTES;
	return given > 0 ? give_up_rests(wg, fs, record, next->done, given) : rc;
}

/* Nothing lies on the disk. 1: it is no disk of the set any more. */
G4_FN static int finish(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record)
{
	struct g4_dev_order order;

	memset(&order, 0, sizeof(order));
	const int rc = ask(wg, fs, record, G4_ORDER_LEAVE_END, &order);
	if (order.bytes == 0)
		return rc;
	/* what was met damaged is told by numbers of disks */
	const uint64_t damaged = g4_load64_rlx(&fs->space.damaged[order.all]);
	g4_store64_rlx(&fs->space.damaged[order.disk], order.disk == order.all ? 0 : damaged);
	g4_store64_rlx(&fs->space.damaged[order.all], 0);
	record->units = record->done;
	return rc < 0 ? rc : 1;
}

/*
 * What comes next has parts that are in use, no place as long as it is free, nor any unit of others. Of rows its ends first: then it is shorter. What follows is
 * tried in the order of what it costs: free space of others, what is in use in copies, and free space of others for these.
 */
G4_FN static int make_room_in_pieces(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record,
				     const struct g4_dev_order *next, const struct g4_dev_order *chunk, bool *again)
{
	const uint64_t bytes = next->bytes / (chunk->disk & G4_LEAVE_COLUMNS);
	const bool rows = is_rows(chunk) && next->done == chunk->done;
	const struct unit unit = unit_at(chunk, 0);
	uint64_t pages = 0;
	int rc = 0;

	if (rows)
		rc = cut_ends(wg, fs, &unit, &pages);
	if (rc == 0 && pages == 0)
		rc = make_room_of_ends(wg, fs, record, true, g4_min64(bytes, place_unit(chunk)), again);
	if (rc == 0 && pages == 0 && !*again && rows && (chunk->disk & G4_LEAVE_OWN) &&
	    !(chunk->disk & G4_LEAVE_FIXED)) {
		rc = scatter(wg, fs, &unit, chunk->disk >> G4_LEAVE_DISK_SHIFT, &pages);
		record->bytes += pages * G4_PAGE_BYTES;
		if (rc == -G4_E_NOSPC)
			rc = make_room_of_ends(wg, fs, record, false, G4_CHUNK_UNIT, again);
	}
	record->done += pages;
	*again = *again || pages > 0;
	return rc == 0 && !*again ? -G4_E_NOSPC : rc;
}

G4_FN static int make_room_for(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record,
			       const struct g4_dev_order *next, bool *again)
{
	struct g4_dev_order chunk;
	int rc = 0;

	if (!find_chunk(wg, fs, record, next->done, &chunk))
		return -G4_E_NOSPC;
	const uint64_t bytes = next->bytes / (chunk.disk & G4_LEAVE_COLUMNS), wanted = g4_min64(bytes, ROOM_BYTES),
		       least = g4_min64(bytes, place_unit(&chunk));
	for (uint32_t choice = LOST; choice <= ANY && rc == 0 && !*again; choice++)
		rc = make_room(wg, fs, record, (enum choice)choice, wanted, least, again);
	if (rc == 0 && !*again)
		rc = make_room_in_pieces(wg, fs, record, next, &chunk, again);
	if (*again)
		record->cursor[0] = 0;
	return rc;
}

/* One thing or the other, by the room that there is. *again: room was made for what comes next. */
G4_FN static int move_next(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record,
			   const struct g4_dev_order *next, bool *again)
{
	struct g4_dev_order order = *next;
	uint64_t pages = 0;
	int rc = 0;

	if (next->disk != G4_ROOM_FOR_ALL)
		rc = give_up_next(wg, fs, record, next, &pages);
	record->done += pages;
	if (pages > 0)
		record->cursor[0] = 0;
	if (rc < 0 || pages > 0)
		return rc;
	if (next->disk == G4_ROOM_FOR_NOTHING)
		return make_room_for(wg, fs, record, next, again);
	rc = g4_rebalance_move(wg, fs, next->done / G4_PAGE_BYTES, next->bytes / G4_PAGE_BYTES, &order);
	if (rc < 0)
		return rc;
	record->done += order.done / G4_PAGE_BYTES;
	record->bytes += order.bytes;
	if (order.done > 0)
		record->cursor[0] = 0;
	return 0;
}

/* What was freed comes back with a commit; writers may have more of it under way. So it is over when there was none several times in a row. */
G4_FN static int wait_for_room(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record)
{
	const int rc = g4_commit(wg, fs, UINT64_MAX, false);

	if (rc < 0)
		return rc;
	record->cursor[0]++;
	return record->cursor[0] > MOST_WAITS ? -G4_E_NOSPC : 0;
}

G4_FN int g4_leave_step(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record)
{
	struct g4_dev_order next;
	bool again = true;
	int rc = 0;

	for (uint32_t turn = 0; turn < 2 && again && rc == 0; turn++) {
		again = false;
		memset(&next, 0, sizeof(next));
		rc = ask(wg, fs, record, G4_ORDER_LEAVE_NEXT, &next);
		if (rc ==
		    -G4_E_NOENT) { /* a crash came before the record said so; or another disk has its place by now */
			record->units = record->done;
			return 1;
		}
		if (rc < 0)
			return rc;
		if (next.bytes == 0)
			return finish(wg, fs, record);
		record->units = record->done + next.all / G4_PAGE_BYTES;
		rc = move_next(wg, fs, record, &next, &again);
	}
	if (rc == -G4_E_AGAIN) /* a request that takes long is waited for as long as it takes */
		return 0;
	return rc == -G4_E_NOSPC ? wait_for_room(wg, fs, record) : rc;
}

/* ------------------------------------------------------------------ the order */

struct use { /* of a chunk: bytes of each place, and of copies in all */
	uint64_t used, idle, copies, idle_then;
};

/* Of a unit of rows all between the first and the last piece in use moves; or, where that takes less of the other disks, what is in use becomes copies. */
G4_FN static void add_unit(struct g4_wg *wg, struct g4_fs *fs, const struct g4_dev_order *chunk,
			   const struct unit *unit, struct use *use)
{
	const uint32_t idle = idle_pieces(wg, fs, unit), front = idle_in_front(unit, idle);
	const uint64_t between =
		(front == unit->pieces ? 0 : unit->pieces - front - idle_behind(unit, idle)) * G4_CHUNK_UNIT;
	const uint64_t all = unit->pieces * G4_CHUNK_UNIT, losses = chunk->all + 1 - (chunk->disk & G4_LEAVE_COLUMNS);
	const bool can = (chunk->disk & G4_LEAVE_LEAVES) && (chunk->disk & G4_LEAVE_OWN) &&
			 !(chunk->disk & G4_LEAVE_FIXED) && between > 0;
	uint64_t copies = 0;

	for (uint32_t n = 0; n < unit->pieces; n++)
		copies += idle >> n & 1 ? 0 : unit->piece * (losses + 1);
	/* places, less what they leave free on the others */
	if (can && copies + (all - between) * chunk->all < between + all * chunk->all) {
		use->copies += copies;
		use->idle_then += all;
	} else {
		use->used += between;
		use->idle += all - between;
	}
}

G4_FN static void look_at(struct g4_wg *wg, struct g4_fs *fs, const struct g4_dev_order *chunk, struct use *use)
{
	const uint64_t unit = unit_of(chunk);

	memset(use, 0, sizeof(*use));
	for (uint64_t at = 0; at < chunk->bytes; at += unit) {
		const uint64_t bytes = g4_min64(unit, chunk->bytes - at),
			       places = bytes / (chunk->disk & G4_LEAVE_COLUMNS);
		if (is_rows(chunk)) {
			const struct unit rows = unit_at(chunk, at / unit);
			add_unit(wg, fs, chunk, &rows, use);
		} else if (may_go(wg, fs, chunk->done + at, bytes, false)) {
			use->idle += places;
		} else {
			use->used += places;
		}
	}
}

/* The set is told of each chunk what is in use now, or has to move with that, and what could be given up. */
G4_FN static int tell_use(struct g4_wg *wg, struct g4_fs *fs, const struct g4_job_record *record)
{
	struct g4_dev_order chunk, order;
	struct use use;
	int rc;

	memset(&chunk, 0, sizeof(chunk));
	chunk.bytes = UINT64_MAX;
	while ((rc = ask(wg, fs, record, G4_ORDER_LEAVE_CHUNK, &chunk)) == 0) {
		look_at(wg, fs, &chunk, &use);
		for (uint32_t copies = 0; copies < 2 && rc == 0; copies++) {
			memset(&order, 0, sizeof(order));
			order.op = G4_ORDER_LEAVE_USE;
			order.done = chunk.done;
			order.disk = copies ? G4_LEAVE_USE_COPIES : 0;
			order.bytes = copies ? use.copies : use.used;
			order.all = copies ? use.idle_then : use.idle;
			rc = g4_space_order(wg, &fs->space, &order);
		}
		if (rc < 0)
			return rc;
		chunk.bytes = chunk.done;
	}
	return rc == -G4_E_NOENT ? 0 : rc;
}

G4_FN int g4_leave_order(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd, struct g4_job_record *record)
{
	const uint32_t mark = g4_scratch_mark(wg);
	char *name = (char *)g4_scratch_take_page(wg);
	struct g4_dev_order order;
	uint32_t length = 0;

	if (cmd->name_bytes == 0 || cmd->name_bytes >= G4_PAGE_BYTES || cmd->length == 0) {
		g4_scratch_release(wg, mark);
		return -G4_E_INVAL;
	}
	memset(&order, 0, sizeof(order));
	memcpy(name, cmd->name, cmd->name_bytes);
	name[cmd->name_bytes] = 0;
	order.op = G4_ORDER_LEAVE;
	order.name = name;
	order.text = (char *)cmd->data;
	order.text_bytes = cmd->length;
	order.text[0] = 0;
	int rc = g4_space_order(wg, &fs->space, &order);
	record->arguments[0] = order.done;
	record->arguments[1] = order.all;
	if (rc == 0)
		rc = tell_use(wg, fs, record);
	if (rc == 0) {
		order.disk = 1;
		rc = g4_space_order(wg, &fs->space, &order);
	}
	while (length < cmd->length && order.text[length])
		length++;
	cmd->value = length;
	if (rc == 0) {
		struct g4_dev_order next;
		memset(&next, 0, sizeof(next));
		rc = ask(wg, fs, record, G4_ORDER_LEAVE_NEXT, &next);
		record->units = next.all / G4_PAGE_BYTES;
	}
	g4_scratch_release(wg, mark);
	return rc;
}
