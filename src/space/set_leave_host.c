/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk less while others use the set. Places that it has are moved to the others, a piece at a time, as set_spread_host.c does; what is not in
 * use is moved as well, without a copy, while the others have room for all of it, and gives its places up else: its addresses lie nowhere then
 * ("gone", set_move_host.c). Which pages are in use, and that nobody uses those that are given up, is the owner's to know (fs/leave.c).
 *
 *   NEXT      a piece of the disk that goes, and a gap of another one
 *   MOVE      set_spread_host.c, 3 to 6
 *   GIVE_UP   a piece of which nothing is in use, of that disk or of any that has no gap; or rows become copies (set_scatter_host.c)
 *   END       nothing lies on the disk: table and superblocks of the others, in one more generation
 *
 * Nothing on the disks says that one is to leave: the order goes on by its UUID, and what was moved or given up stays so.
 *
 * Rows with parity go to disks that have no other column of them, in whole regions of their map, as set_spread_host.c moves them. Where they have all disks
 * they can go nowhere: what is free of them is given up, first of all, and where something is in use there the order is refused. Those that are given up
 * keep their bits of it (g4_table_give_up()), so that each table leads to the same ones. GIVE_UP and END hold the lock of rows, with an empty log.
 *
 * Crashes: those of a move are set_spread_host.c's. What is given up has nothing that is in use in any state that a crash leaves, so either
 * table is right. The last step is that of a removal while nobody uses the set (set_remove_host.c).
 *
 * Numbers: the last disk gets the number of the one that goes. Requests that began with the table before know it by its old number, as long as
 * they are under way: that entry stays what it was, behind those that count, and a disk that fails there is found by its device. It is
 * used again when no request looks at that table, and no flush has it (g4_set_forget_numbers()). The disk that goes has no request by then:
 * none that reads or writes, for no table has a place on it, and none that flushes, for from a moment on nobody begins one. So nobody waits
 * for requests but the order itself, which tries again later.
 */
#define _GNU_SOURCE 1

#include "space/set_leave_host.h"

#include <time.h>

#include "base/log_host.h"
#include "base/units_host.h"
#include "dev/leave.h"
#include "simt/simt_host.h"
#include "space/set_draft_host.h"
#include "space/set_epoch_host.h"
#include "space/set_judge_host.h"
#include "space/set_leave_room_host.h"
#include "space/set_parity_host.h"
#include "space/set_scatter_host.h"

#define PARTS 128u /* of the address space: no longer piece is chosen */
#define TRIES                                                                                                          \
	20u /* of a millisecond each, for flushes of the disk that goes, and for requests that look at a table of before */

struct leaving {
	struct g4_set *set;
	struct g4_set_draft draft;
	uint32_t disk;
	uint64_t used[G4_MAX_DISKS]; /* bytes of places */
};

/* ---- which disk ---- */

/* Orders held. To be ended, unless it fails. -G4_E_NOENT: no disk of the set has that UUID. */
static int begin(struct leaving *l, struct g4_set *set, const struct g4_dev_order *order)
{
	const uint64_t uuid[2] = {order->done, order->all};

	memset(l->used, 0, sizeof(l->used));
	l->set = set;
	int rc = g4_set_draft_begin(&l->draft, set);
	if (rc < 0)
		return rc;
	l->disk = g4_set_number_of(l->draft.super, (const uint8_t *)uuid);
	if (l->disk == G4_MAX_DISKS) {
		g4_set_draft_end(&l->draft);
		return -G4_E_NOENT;
	}
	for (uint32_t n = 0; n < l->draft.move.count; n++)
		for (uint32_t k = 0; k < g4_table_places(&l->draft.move.chunks[n]); k++)
			l->used[g4_place_disk(l->draft.move.chunks[n].places[k])] +=
				l->draft.move.chunks[n].place_bytes;
	return 0;
}

static bool lies_on(const struct g4_chunk *chunk, uint32_t disk)
{
	return g4_table_place_on(chunk, disk) != G4_CHUNK_PLACES;
}

static bool may_have(const struct leaving *l, const struct g4_chunk *chunk, uint32_t disk)
{
	return g4_set_may_have(chunk, l->disk, disk);
}

static uint64_t room_of(const struct leaving *l, uint32_t disk)
{
	return g4_chunk_usable(l->draft.super->disk_bytes[disk]) - l->draft.super->parity_log_bytes;
}

/* Of the other disks, that no chunk has. */
static uint64_t all_room(const struct leaving *l)
{
	uint64_t bytes = 0;

	for (uint32_t d = 0; d < l->set->count; d++)
		bytes += d != l->disk ? room_of(l, d) - g4_min64(l->used[d], room_of(l, d)) : 0;
	return bytes;
}

/* ---- what comes next ---- */

/* Whether a disk is better for a place than another one: columns on several disks are faster, and all are to be as full. */
static bool is_better(const struct leaving *l, const struct g4_chunk *chunk, uint32_t disk, uint32_t than)
{
	if (lies_on(chunk, disk) != lies_on(chunk, than))
		return !lies_on(chunk, disk);
	return (double)l->used[disk] / (double)room_of(l, disk) < (double)l->used[than] / (double)room_of(l, than);
}

/* For so much of its place, or a unit of it at least. */
static struct g4_set_gap find_gap(const struct leaving *l, const struct g4_chunk *chunk, uint64_t wanted)
{
	const uint64_t least = g4_min64(wanted, g4_table_unit(chunk));
	struct g4_set_gap best = {.bytes = 0};

	for (uint32_t d = 0; d < l->set->count; d++) {
		struct g4_set_gap gap = {.bytes = 0};
		if (!may_have(l, chunk, d))
			continue;
		g4_table_find_gap(&l->draft.move, l->draft.super, d, l->draft.spans, 0, wanted, &gap);
		if (gap.bytes >= least && (best.bytes == 0 || is_better(l, chunk, d, best.disk)))
			best = gap;
	}
	return best;
}

/* Of a disk, from an address on, what no place has. */
static uint64_t room_from(const struct leaving *l, uint32_t disk, uint64_t at)
{
	uint64_t end = G4_CHUNK_UNIT + g4_chunk_usable(l->draft.super->disk_bytes[disk]);

	for (uint32_t n = 0; n < l->draft.move.count; n++)
		for (uint32_t k = 0; k < g4_table_places(&l->draft.move.chunks[n]); k++) {
			const uint64_t place = l->draft.move.chunks[n].places[k], from = g4_place_address(place);
			if (g4_place_disk(place) == disk && at < from + l->draft.move.chunks[n].place_bytes)
				end = g4_min64(end, g4_max64(from, at));
		}
	return end > at ? end - at : 0;
}

/*
 * The gap behind what was moved before, as long as that is less than a part: else neighbours would go to several disks by turns, and the table be
 * full of small chunks. 0 bytes: there is none.
 */
static struct g4_set_gap gap_behind(const struct leaving *l, uint32_t n, uint64_t part, uint64_t wanted)
{
	const struct g4_chunk *chunk = &l->draft.move.chunks[n], *before = chunk - 1;
	struct g4_set_gap gap = {.bytes = 0};

	if (n == 0 || before->bytes >= part || before->parity != chunk->parity)
		return gap;
	for (uint32_t k = 0; k < g4_table_places(before) && gap.bytes == 0; k++) {
		const uint32_t disk = g4_place_disk(before->places[k]);
		const uint64_t at = g4_place_address(before->places[k]) + before->place_bytes;
		const uint64_t bytes = may_have(l, chunk, disk) ? room_from(l, disk, at) : 0;
		if (bytes >= g4_min64(wanted, g4_table_unit(chunk)))
			gap = (struct g4_set_gap){disk, at, bytes};
	}
	return gap;
}

/* Whether a chunk has a place on the disk that no other one may have. */
static bool is_fixed(const struct leaving *l, const struct g4_chunk *chunk)
{
	bool possible = !lies_on(chunk, l->disk);

	for (uint32_t d = 0; d < l->set->count && !possible; d++)
		possible = may_have(l, chunk, d);
	return !possible;
}

/*
 * The first chunk with a place on the disk, of those that have nowhere to go if there are any: where these can not be given up nothing is to be
 * moved. How many chunks there are: there is none.
 */
static uint32_t find_leaving(const struct leaving *l)
{
	const uint32_t count = l->draft.move.count;
	uint32_t found = count;

	for (uint32_t n = 0; n < count; n++) {
		if (is_fixed(l, &l->draft.move.chunks[n]))
			return n;
		if (found == count && lies_on(&l->draft.move.chunks[n], l->disk))
			found = n;
	}
	return found;
}

/* Orders held. */
static void choose(struct leaving *l, struct g4_dev_order *order)
{
	const uint32_t n = find_leaving(l);
	struct g4_set *set = l->set;

	set->next.generation = 0;
	order->done = order->bytes = 0;
	order->all = l->used[l->disk];
	order->disk = G4_ROOM_FOR_ALL;
	if (n == l->draft.move.count)
		return;
	const struct g4_chunk *chunk = &l->draft.move.chunks[n];
	const uint64_t columns = g4_chunk_data_columns(chunk), unit = g4_table_unit(chunk);
	const uint64_t part = g4_chunk_end(l->draft.move.chunks, l->draft.move.count) / PARTS;
	uint64_t bytes = g4_min64(chunk->place_bytes, g4_align_up(part / columns + 1, unit));
	struct g4_set_gap gap = gap_behind(l, n, part, bytes);

	if (gap.bytes == 0)
		gap = find_gap(l, chunk, bytes);

	order->disk = gap.bytes == 0		     ? G4_ROOM_FOR_NOTHING :
		      all_room(l) < l->used[l->disk] ? G4_ROOM_FOR_THIS :
						       G4_ROOM_FOR_ALL;
	if (gap.bytes > 0) {
		bytes = gap.bytes >= bytes ? bytes : g4_align_down(gap.bytes, unit);
		set->next = (struct g4_set_piece){.generation = l->draft.super->set_generation,
						  .chunk = n,
						  .number = g4_table_place_on(chunk, l->disk),
						  .bytes = bytes,
						  .to = gap.from | gap.disk};
	}
	order->done = chunk->address;
	order->bytes = bytes * columns;
	if (g4_load32_acq(&set->target) == G4_MAX_DISKS)
		g4_set_window_watch(&set->window, 0, order->done, order->bytes);
	else /* whose copies are watched; MOVE says that nothing is moved now */
		set->next.generation = 0;
}

/* Whether a disk that a chunk lies on can take what comes next of the disk that goes. */
static bool helps(const struct leaving *l, const struct g4_chunk *chunk)
{
	const uint32_t next = find_leaving(l);
	bool some = false;

	for (uint32_t d = 0; d < l->set->count && next < l->draft.move.count; d++)
		some = some || (lies_on(chunk, d) && may_have(l, &l->draft.move.chunks[next], d));
	return some;
}

/* Orders held. */
static int tell_chunk(const struct leaving *l, struct g4_dev_order *order)
{
	const uint64_t before = order->bytes;

	for (uint32_t n = l->draft.move.count; n-- > 0;) {
		const struct g4_chunk *chunk = &l->draft.move.chunks[n];
		if (chunk->address >= before || g4_chunk_is_gone(chunk))
			continue;
		order->done = chunk->address;
		order->bytes = chunk->bytes;
		order->disk = g4_chunk_data_columns(chunk) | (lies_on(chunk, l->disk) ? G4_LEAVE_LEAVES : 0) |
			      (helps(l, chunk) ? G4_LEAVE_HELPS : 0) | (is_fixed(l, chunk) ? G4_LEAVE_FIXED : 0) |
			      (chunk->level == G4_LEVEL_OWN ? G4_LEAVE_OWN : 0) | l->disk << G4_LEAVE_DISK_SHIFT |
			      (uint32_t)(g4_table_unit(chunk) / G4_CHUNK_UNIT) << G4_LEAVE_UNIT_SHIFT;
		order->all = g4_table_places(chunk);
		for (uint32_t k = 0; k < g4_table_places(chunk); k++)
			order->all -= g4_place_disk(chunk->places[k]) == l->disk;
		return 0;
	}
	return -G4_E_NOENT;
}

/* ---- whether it can be done ---- */

/* Whether a chunk is something of the level that another one is of. */
static bool is_of_level(const struct g4_chunk *chunk, const struct g4_chunk *other)
{
	return !g4_chunk_is_gone(chunk) && chunk->level == other->level && chunk->parity == other->parity;
}

/* Whether all that there is of a level is fixed: without that nobody would know the level any more, or have a place for its files. */
static bool ends_level(const struct leaving *l)
{
	const struct g4_chunk *chunks = l->draft.move.chunks;

	for (uint32_t n = 0; n < l->draft.move.count; n++) {
		bool stays = !is_fixed(l, &chunks[n]);
		for (uint32_t k = 0; k < l->draft.move.count && !stays; k++)
			stays = is_of_level(&chunks[k], &chunks[n]) && !is_fixed(l, &chunks[k]);
		if (!stays)
			return true;
	}
	return false;
}

/* Orders held. Whether it is told what is in use; then the look is over. */
static int check_room(const struct leaving *l, const char *name, bool told, struct g4_dev_message message)
{
	bool fixed = false;
	const uint64_t missing = told ? g4_set_leave_lacks(l->set, &fixed) : 0;
	char text[24];

	if (fixed || ends_level(l))
		return g4_dev_fail(
			message, -G4_E_INVAL,
			"%s: a part of the file system lies on all of its disks, and would bear fewer losses "
			"without this one: add another disk, or replace it",
			name);
	g4_format_size(missing, text, sizeof(text));
	if (missing > 0)
		return g4_dev_fail(message, -G4_E_NOSPC,
				   "%s: the other disks have too little room for what lies on it, %s are missing: "
				   "delete something, or add a disk",
				   name, text);
	return 0;
}

/* Orders held. */
static int check(struct g4_set *set, struct g4_dev_order *order, struct g4_dev_message message)
{
	struct leaving l = {.set = set};
	int rc = g4_set_check_whole(set, message);

	if (rc < 0)
		return rc;
	for (l.disk = 0; l.disk < set->count && !g4_set_is_same_file(set->disks[l.disk].name, order->name); l.disk++)
		;
	if (l.disk == set->count)
		return g4_dev_fail(message, -G4_E_NOENT, "%s: is no disk of the file system", order->name);
	pthread_mutex_lock(&set->lock);
	memcpy(&order->done, set->super->disk_uuids[l.disk], sizeof(order->done));
	memcpy(&order->all, set->super->disk_uuids[l.disk] + sizeof(order->done), sizeof(order->all));
	pthread_mutex_unlock(&set->lock);
	rc = begin(&l, set, order);
	if (rc < 0)
		return g4_dev_fail(message, rc, "%s: %s", order->name, g4_strerror(rc));
	if (set->count <= 2)
		rc = g4_dev_fail(message, -G4_E_INVAL, "%s: a file system of several disks keeps two of them",
				 order->name);
	else
		rc = check_room(&l, order->name, order->disk == 1, message);
	if (rc == 0 && order->disk != 1) {
		rc = g4_set_leave_look(set, l.draft.super, l.disk);
		if (rc < 0)
			g4_dev_fail(message, rc, "out of memory");
	}
	g4_set_draft_end(&l.draft);
	return rc;
}

/* Orders held. */
static int tell_use(struct g4_set *set, const struct g4_dev_order *order)
{
	const struct g4_chunk *chunk = g4_chunk_find(&set->map, order->done);

	return order->disk == G4_LEAVE_USE_COPIES ? g4_set_leave_tell_copies(set, chunk, order->bytes, order->all) :
						    g4_set_leave_tell(set, chunk, order->bytes, order->all);
}

/* ---- giving up ---- */

/* Addresses of a unit of a chunk's places. */
static uint64_t unit_bytes(const struct g4_chunk *chunk)
{
	return g4_table_unit(chunk) * g4_chunk_data_columns(chunk);
}

/* Whether a part of a chunk is whole units of its places, or goes to its end. */
static bool is_whole(const struct g4_chunk *chunk, uint64_t within, uint64_t bytes)
{
	const uint64_t unit = unit_bytes(chunk);

	return within % unit == 0 && (bytes % unit == 0 || within + bytes == chunk->bytes);
}

/* Whether it is one end of a unit, whole MiB of its places, and something of the unit is left. */
static bool is_end(const struct g4_chunk *chunk, uint64_t within, uint64_t bytes)
{
	const uint64_t least = G4_CHUNK_UNIT * g4_chunk_data_columns(chunk),
		       begin = within - within % unit_bytes(chunk),
		       end = g4_min64(begin + unit_bytes(chunk), chunk->bytes);

	return within % least == 0 && bytes % least == 0 && bytes < end - begin &&
	       (within == begin || within + bytes == end);
}

/*
 * A part of chunk n, of whole units of its places or to its end, lies nowhere in the table that is planned; or one end of a unit of rows, the rest of which keeps
 * the unit's bit of the map. That rest is a chunk of its own, also behind what was its front: bits are counted from a chunk's beginning, so none goes on with the next unit.
 */
static int plan_giving_up(struct g4_set *set, struct g4_set_draft *draft, uint32_t n, uint64_t within, uint64_t bytes)
{
	const bool whole = is_whole(&draft->move.chunks[n], within, bytes);
	struct g4_set_move *move = &draft->move;
	const uint64_t columns = g4_chunk_data_columns(&move->chunks[n]), unit = unit_bytes(&move->chunks[n]);

	if (!whole && !g4_table_cut(move->chunks, &move->count, n, (within - within % unit + unit) / columns))
		return -G4_E_NOSPC;
	if (!g4_table_cut(move->chunks, &move->count, n, (within + bytes) / columns) ||
	    !g4_table_cut(move->chunks, &move->count, n, within / columns))
		return -G4_E_NOSPC;
	struct g4_chunk *given = &move->chunks[n + (within > 0)];
	g4_table_give_up(given);
	if (!whole)
		given->place_bytes = 0;
	g4_table_join(move->chunks, &move->count);
	if (!whole && move->count > G4_TABLE_PIECES_MOST)
		return -G4_E_NOSPC;
	return g4_chunk_validate(move->chunks, move->count, draft->super->disk_bytes, set->count);
}

/* Whether a table has any of the level that a chunk is of: without that nobody would know what was given up, or have a place for its files. */
static bool has_level(const struct g4_set_move *move, const struct g4_chunk *chunk)
{
	bool found = false;

	for (uint32_t n = 0; n < move->count && !found; n++)
		found = is_of_level(&move->chunks[n], chunk);
	return found;
}

/* Orders held. */
static int give_up(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order)
{
	const uint64_t address = order->done, bytes = order->bytes;
	struct g4_set_draft draft;

	order->bytes = order->disk = 0;
	int rc = g4_set_check_whole(set, (struct g4_dev_message){.text = NULL});
	if (rc < 0)
		return rc;
	if (!g4_set_view_wait(set, TRIES)) { /* a request that takes longer is waited for by asking again */
		order->disk = 1;
		return 0;
	}
	const struct g4_chunk *chunk = g4_chunk_find(&set->map, address);
	const uint64_t within = address - chunk->address;
	if (g4_chunk_is_gone(chunk) || bytes == 0 || within >= chunk->bytes || bytes > chunk->bytes - within ||
	    (!is_whole(chunk, within, bytes) && !is_end(chunk, within, bytes)))
		return -G4_E_INVAL;
	rc = g4_set_draft_begin(&draft, set);
	if (rc < 0)
		return rc;
	rc = plan_giving_up(set, &draft, (uint32_t)(chunk - set->chunks), within, bytes);
	const bool goes = rc == 0 && has_level(&draft.move, chunk);
	if (goes)
		rc = g4_set_draft_lock(wg, set);
	if (goes && rc == 0) {
		rc = g4_set_draft_switch(wg, set, &draft);
		g4_set_draft_unlock(set);
	}
	set->next.generation = 0;
	order->bytes = goes && rc == 0 ? bytes : 0;
	g4_set_draft_end(&draft);
	return rc;
}

/* Orders held. */
static int give_up_or_scatter(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order)
{
	if (order->disk < G4_GIVE_UP_TO_COPIES(0))
		return give_up(wg, set, order);
	const int rc = g4_set_scatter(wg, set, order->done, order->disk - G4_GIVE_UP_TO_COPIES(0), &order->bytes);
	order->disk = rc == 0 && order->bytes == 0;
	return rc;
}

/* ---- the end ---- */

/* Nobody begins a flush of the disk from now on. False, and it is as before: one is under way for long. */
static bool shut_out(struct g4_set *set, uint32_t disk)
{
	const struct timespec rest = {.tv_nsec = 1000 * 1000};
	bool unused = false;

	g4_store32_rel(&set->leaving, disk + 1);
	for (uint32_t turn = 0; turn < TRIES && !unused; turn++) {
		unused = g4_set_is_unused(set, disk);
		if (!unused)
			nanosleep(&rest, NULL);
	}
	if (!unused)
		g4_store32_rel(&set->leaving, 0);
	return unused;
}

/* What the last disk has it has by the number of the one that goes. */
static void renumber(struct leaving *l, uint32_t last)
{
	for (uint32_t n = 0; n < l->draft.move.count; n++) {
		struct g4_chunk *chunk = &l->draft.move.chunks[n];
		for (uint32_t k = 0; k < g4_table_places(chunk); k++)
			if (g4_place_disk(chunk->places[k]) == last)
				chunk->places[k] = g4_place_address(chunk->places[k]) | l->disk;
	}
}

/* Orders and lock held, and nobody uses the disk. *dev: its device, where it is no disk of the set any more. */
static int take_out(struct g4_wg *wg, struct leaving *l, struct g4_dev **dev)
{
	struct g4_set *set = l->set;
	const uint32_t last = set->count - 1;
	struct g4_dev *own = set->disks[l->disk].dev;
	char *name = set->disks[l->disk].name;
	const uint64_t bytes = set->super->disk_bytes[l->disk];
	const struct g4_set_growth growth = {.chunks = l->draft.move.chunks,
					     .chunk_count = l->draft.move.count,
					     .disk_count = last,
					     .removed = l->disk,
					     .moves = true,
					     .live = true};

	int rc = g4_set_keep_name(set, name);
	if (rc < 0)
		return rc;
	rc = g4_set_switch_table(wg, set, &growth);
	if (set->count != last) {
		set->old_name_count--;
		return rc;
	}
	*dev = own;
	if (l->disk == last) {
		g4_store32_rel(&set->disks[last].state, G4_DISK_MISSING);
		set->disks[last].dev = NULL;
		set->disks[last].name = NULL;
	}
	set->told &= ~(UINT64_C(1) << l->disk | UINT64_C(1) << last);
	if (rc == 0 && g4_set_wipe_device(wg, set, own, bytes) < 0)
		g4_log(G4_LOG_WARN, "%s: can not be wiped; it is refused as a disk of this file system from now on",
		       name);
	g4_store32_rel(&set->dev.props.disks, last);
	return rc;
}

/* Orders held, and locked. The next entry of the log begins an epoch, whose holders have the numbers of then. */
static int go(struct g4_wg *wg, struct leaving *l, struct g4_dev **dev)
{
	struct g4_set *set = l->set;

	if (!shut_out(set, l->disk))
		return 0;
	renumber(l, set->count - 1);
	pthread_mutex_lock(&set->lock);
	const int rc = take_out(wg, l, dev);
	pthread_mutex_unlock(&set->lock);
	g4_store32_rel(&set->leaving, 0);
	if (*dev && set->parity)
		set->parity->holders = 0;
	return rc;
}

/* Orders held. *dev: to be closed without locks. */
static int end(struct g4_wg *wg, struct leaving *l, struct g4_dev_order *order, struct g4_dev **dev)
{
	struct g4_set *set = l->set;
	const uint32_t last = set->count - 1;

	order->bytes = 0;
	int rc = g4_set_check_whole(set, (struct g4_dev_message){.text = NULL});
	if (rc < 0)
		return rc;
	if (set->count <= 2)
		return -G4_E_INVAL;
	if (l->used[l->disk] > 0 || !g4_set_forget_numbers(set))
		return 0;
	rc = g4_set_draft_lock(wg, set);
	if (rc < 0)
		return rc;
	rc = go(wg, l, dev);
	g4_set_draft_unlock(set);
	order->bytes = *dev ? 1 : 0;
	order->disk = l->disk;
	order->all = last;
	return rc;
}

int g4_set_leave_order(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order)
{
	const struct g4_dev_message message = {.text = order->text, .bytes = order->text_bytes};
	struct g4_dev *closed = NULL;
	struct leaving l;
	int rc;

	pthread_mutex_lock(&set->orders);
	if (order->op == G4_ORDER_LEAVE || order->op == G4_ORDER_LEAVE_USE || order->op == G4_ORDER_GIVE_UP) {
		rc = order->op == G4_ORDER_LEAVE     ? check(set, order, message) :
		     order->op == G4_ORDER_LEAVE_USE ? tell_use(set, order) :
						       give_up_or_scatter(wg, set, order);
		pthread_mutex_unlock(&set->orders);
		return rc;
	}
	rc = begin(&l, set, order);
	if (rc == 0) {
		if (order->op == G4_ORDER_LEAVE_NEXT)
			choose(&l, order);
		else
			rc = order->op == G4_ORDER_LEAVE_CHUNK ? tell_chunk(&l, order) : end(wg, &l, order, &closed);
		g4_set_draft_end(&l.draft);
	}
	pthread_mutex_unlock(&set->orders);
	g4_dev_close(closed);
	return rc;
}
