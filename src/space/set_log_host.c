/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parity log of a set: what closes the write hole. A row is the pages at one place of all columns of a stripe; a writer
 * of some of a
 * row's pages changes its parity, which other pages are made from when their disk is lost.
 *
 *   - Rows of which some pages stay are written to the log first: all new pages of data and parity, with a descriptor, durable on m + 1
 *     disks (the holders) before the first of them goes to its place: by FUA, or by the flush that somebody waits for. A crash in between leaves a mixture of both in place; the next
 *     open writes what the log has over it. What of the log is not whole was not begun in place.
 *   - Rows that are written as a whole need no page in the log: all that a wrong parity could spoil is what was being written. But they
 *     are marked in the log before, durably, and after a crash marked rows that do not fit together get a new parity (set_cut_host.c says which): of a part that
 *     arrived, a commit may be found whole. No other row is touched, for what does not fit there has rotted. Only in front of a writer
 *     that goes on and on some more is marked, so that it need not wait each time.
 *     A flush of the set asks the disks that were written since their last one, and what went to its place from the log does not count for
 *     that: it is in the log, as long as that is not emptied.
 *   - The log is emptied by flushing all disks and giving it another epoch, in a header on all disks; entries of other epochs count for
 *     nothing. This is done before a whole row is written that the log has pages of, for replay would bring these back; when a holder
 *     was dropped, for the epoch's other entries have to be on m + 1 disks that are there; and when there is no room.
 *
 * A crash while the next open writes: the entries are still there. The log is emptied only when all that it has was flushed in place.
 */
#define _GNU_SOURCE 1

#include <stdlib.h>

#include "base/clock_host.h"
#include "hash/crc32c.h"
#include "space/sealed.h"
#include "space/set_flush_host.h"
#include "space/set_granted_host.h"
#include "space/set_rows_host.h"

#define LOG_ADDRESS G4_CHUNK_UNIT

static uint64_t address_of(uint64_t page)
{
	return LOG_ADDRESS + page * G4_PAGE_BYTES;
}

static uint32_t tag_of(const struct g4_set *set)
{
	/* the superblock may be being written; what a set that was opened has is known since */
	return set->parity->tag ? set->parity->tag : g4_superblock_tag(set->super);
}

/* ---- an epoch ---- */

/* The requests of these disks, at the same time: the last by this thread, while the others are under way. */
static void do_together(struct g4_wg *wg, struct g4_set *set, uint64_t disks, struct g4_io *ios)
{
	uint32_t last = G4_MAX_DISKS;

	for (uint32_t d = 0; d < set->count; d++) {
		if (!(disks >> d & 1))
			continue;
		if (last != G4_MAX_DISKS)
			g4_dev_submit(wg, set->disks[last].dev, &ios[last]);
		last = d;
	}
	if (last != G4_MAX_DISKS)
		ios[last].result = g4_dev_execute(wg, set->disks[last].dev, &ios[last]);
	for (uint32_t d = 0; d < set->count; d++)
		if ((disks >> d & 1) && d != last)
			(void)g4_dev_wait(wg, set->disks[d].dev, &ios[d]);
}

/* The same pages of the log on these disks; those that fail are dropped. -G4_E_IO: that can not be. */
static int write_log(struct g4_wg *wg, struct g4_set *set, uint64_t disks, uint64_t page, void *from, uint64_t pages,
		     uint32_t flags)
{
	struct g4_iov iov = {from, pages * G4_PAGE_BYTES};
	struct g4_io ios[G4_MAX_DISKS];
	int rc = 0;

	for (uint32_t d = 0; d < set->count; d++)
		ios[d] = (struct g4_io){.op = G4_IO_WRITE,
					.flags = flags,
					.offset_bytes = address_of(page),
					.iov = &iov,
					.iov_count = 1};
	do_together(wg, set, disks, ios);
	for (uint32_t d = 0; d < set->count; d++) {
		if (!(disks >> d & 1))
			continue;
		if (!(flags & G4_IO_FUA))
			g4_set_note_written(set, d);
		if (ios[d].result < 0 && rc == 0)
			rc = g4_set_drop(wg, set, d);
	}
	return rc;
}

static uint64_t active_disks(const struct g4_set *set, uint32_t most)
{
	uint64_t disks = 0;
	uint32_t count = 0;

	for (uint32_t d = 0; d < set->count && count < most; d++)
		if (g4_set_is_active(set, d)) {
			disks |= UINT64_C(1) << d;
			count++;
		}
	return disks;
}

/* At the same time; a disk that fails is dropped. all: also those that have nothing which a flush of the set has to make durable. */
static int flush_disks(struct g4_wg *wg, struct g4_set *set, bool all)
{
	struct g4_io ios[G4_MAX_DISKS];
	uint64_t written[G4_MAX_DISKS], disks = 0;
	int rc = 0;

	for (uint32_t d = 0; d < set->count; d++) {
		ios[d] = (struct g4_io){.op = G4_IO_FLUSH};
		if (g4_set_is_written(set, d) && g4_dev_props(set->disks[d].dev)->volatile_cache &&
		    (g4_set_needs_flush(set, d, &written[d]) || all))
			disks |= UINT64_C(1) << d;
	}
	do_together(wg, set, disks, ios);
	for (uint32_t d = 0; d < set->count; d++) {
		if (!(disks >> d & 1))
			continue;
		if (ios[d].result == 0)
			g4_set_note_flushed(set, d, written[d]);
		else if (rc == 0)
			rc = g4_set_drop(wg, set, d);
	}
	if (rc == 0 && set->parity)
		set->parity->loose = false;
	return rc;
}

int g4_set_log_flush(struct g4_wg *wg, struct g4_set *set)
{
	return flush_disks(wg, set, false);
}

int g4_set_log_flush_all(struct g4_wg *wg, struct g4_set *set)
{
	return flush_disks(wg, set, true);
}

/* ---- the map ---- */

#define MAP_BYTES G4_PARITY_MAP_BYTES

uint64_t g4_set_log_region(const struct g4_set *set, const struct g4_chunk *chunk, uint64_t region)
{
	for (const struct g4_chunk *one = set->chunks; one < chunk; one++)
		region += g4_set_log_regions(one);
	return region;
}

static uint64_t map_bytes(const struct g4_set_parity *p, uint64_t page)
{
	return g4_min64((p->regions + 7) / 8 - page * MAP_BYTES, MAP_BYTES);
}

/* All that was written before is flushed: so regions that it says are right are. */
static int write_map(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_set_parity *p = set->parity;
	struct g4_parity_log *map = (struct g4_parity_log *)(void *)p->entry;
	int rc = 0;

	p->epoch = g4_max64(p->epoch + 1, (uint64_t)g4_realtime_ns());
	for (uint64_t page = 0; p->pages + page < p->area && rc == 0; page++) {
		memset(map, 0, sizeof(*map));
		map->epoch = p->epoch;
		map->kind = G4_PARITY_LOG_MAP;
		map->count = (uint32_t)page;
		memcpy(map->slots, p->made + page * MAP_BYTES, map_bytes(p, page));
		g4_block_seal(map, G4_BLOCK_PARITY_LOG, g4_address_from(address_of(p->pages + page)), 0, tag_of(set));
		rc = write_log(wg, set, active_disks(set, G4_MAX_DISKS), p->pages + page, map, 1, G4_IO_FUA);
	}
	p->made_changed = rc < 0;
	return rc;
}

/*
 * Of each page the newest that a disk has; what no disk has counts for nothing. An older one may say more than is true, for regions
 * leave the map, too (g4_rows_forget()): where a disk has that, or none, the map is written before anybody relies on what is not in it.
 */
static void load_map(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_set_parity *p = set->parity;
	const struct g4_parity_log *map = (const struct g4_parity_log *)(const void *)p->kept;

	for (uint64_t page = 0; p->pages + page < p->area; page++) {
		const uint64_t address = address_of(p->pages + page);
		uint64_t newest = 0;
		uint32_t disks = 0, same = 0; /* that have the newest */
		for (uint32_t d = 0; d < set->count; d++) {
			if (!g4_set_is_active(set, d))
				continue;
			disks++;
			if (g4_dev_read(wg, set->disks[d].dev, address, p->kept, G4_PAGE_BYTES) < 0 ||
			    g4_block_verify(map, G4_BLOCK_PARITY_LOG, g4_address_from(address), tag_of(set)) < 0 ||
			    map->kind != G4_PARITY_LOG_MAP || map->count != page || map->epoch < newest)
				continue;
			same = map->epoch == newest ? same + 1 : 1;
			newest = map->epoch;
			memcpy(p->made + page * MAP_BYTES, map->slots, map_bytes(p, page));
		}
		p->epoch = g4_max64(p->epoch, newest); /* the next one is newer, whatever the clock says */
		p->made_changed = p->made_changed || (same > 0 && same < disks);
	}
}

/* A header of an empty log on all disks. */
static int begin_epoch(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_set_parity *p = set->parity;
	struct g4_parity_log *header = (struct g4_parity_log *)(void *)p->entry;

	p->epoch = g4_max64(p->epoch + 1, (uint64_t)g4_realtime_ns());
	p->sequence = 0;
	p->head = 1;
	p->mark_count = p->row_count = 0;
	memset(header, 0, sizeof(*header));
	header->epoch = p->epoch;
	header->kind = G4_PARITY_LOG_HEADER;
	header->slots[0].place = p->holders;
	g4_block_seal(header, G4_BLOCK_PARITY_LOG, g4_address_from(address_of(0)), 0, tag_of(set));
	return write_log(wg, set, active_disks(set, G4_MAX_DISKS), 0, header, 1, G4_IO_FUA);
}

int g4_set_log_empty(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_set_parity *p = set->parity;
	int rc;

	if (g4_load32_acq(&set->stuck))
		return -G4_E_IO;
	if (p->cut) /* it has the only marks of what is not completed: whoever writes has that done first */
		return -G4_E_BUSY;
	rc = p->settle ? p->settle(wg, set) : 0; /* what the log forgets has to be in place */
	if (rc == 0)
		rc = g4_set_grants_await(set); /* they are marked there */
	if (rc < 0)
		return rc;
	do {
		rc = flush_disks(wg, set, true);
		if (rc == 0 && p->made_changed)
			rc = write_map(wg, set);
		p->holders = active_disks(set, p->parity + 1);
		if (rc == 0)
			rc = begin_epoch(wg, set);
	} while (rc == 0 && p->holders != active_disks(set, p->parity + 1));
	if (rc < 0)
		p->holders = p->mark_count = 0; /* nobody knows what the log has now: the next entry begins an epoch */
	return rc;
}

int g4_set_log_clear(struct g4_wg *wg, struct g4_set *set, uint64_t from, uint64_t to)
{
	int rc = 0;

	memset(set->parity->entry, 0, G4_PAGE_BYTES);
	for (uint64_t page = from; page < to && rc == 0; page++)
		rc = write_log(wg, set, active_disks(set, G4_MAX_DISKS), page, set->parity->entry, 1, G4_IO_FUA);
	return rc;
}

static bool holders_are_there(const struct g4_set *set)
{
	for (uint32_t d = 0; d < set->count; d++)
		if ((set->parity->holders >> d & 1) && !g4_set_is_active(set, d))
			return false;
	return true;
}

/* The entry that p->entry holds, with so many pages behind its descriptor. */
static int append(struct g4_wg *wg, struct g4_set *set, uint32_t pages, uint32_t flags)
{
	struct g4_set_parity *p = set->parity;
	struct g4_parity_log *entry = (struct g4_parity_log *)(void *)p->entry;
	const int flushed = p->loose ? flush_disks(wg, set, false) : 0; /* replay ends at the first that is not whole */

	if (flushed < 0)
		return flushed;
	for (;;) {
		const uint32_t count = entry->count, kind = entry->kind;
		if (p->head + 1 + pages > p->pages || !p->holders || !holders_are_there(set)) {
			/* the header is made where the descriptor is */
			memcpy(p->kept, entry, G4_PAGE_BYTES);
			const int rc = g4_set_log_empty(wg, set);
			memcpy(entry, p->kept, G4_PAGE_BYTES);
			if (rc < 0)
				return rc;
		}
		entry->epoch = p->epoch;
		entry->kind = kind;
		entry->count = count;
		g4_block_seal(entry, G4_BLOCK_PARITY_LOG, g4_address_from(address_of(p->head)), ++p->sequence,
			      tag_of(set));
		const int rc = write_log(wg, set, p->holders, p->head, entry, 1 + pages, flags);
		if (rc < 0) {
			p->holders = p->mark_count = 0; /* it may be whole on a disk, and its number is used */
			return rc;
		}
		if (holders_are_there(set)) {
			p->head += 1 + pages;
			return 0;
		}
	}
}

/* ---- what goes in ---- */

uint32_t g4_set_log_room(const struct g4_set *set)
{
	return (uint32_t)g4_min64(G4_PARITY_LOG_SLOTS, set->parity->pages - 2);
}

uint8_t *g4_set_log_page(const struct g4_set *set, uint32_t page)
{
	return set->parity->entry + (uint64_t)(1 + page) * G4_PAGE_BYTES;
}

static void fill_entry(struct g4_set *set, const uint64_t *places, uint32_t count)
{
	struct g4_parity_log *entry = (struct g4_parity_log *)(void *)set->parity->entry;

	memset(entry, 0, sizeof(*entry));
	entry->kind = G4_PARITY_LOG_PAGES;
	entry->count = count;
	for (uint32_t i = 0; i < count; i++) {
		entry->slots[i].place = places[i];
		entry->slots[i].crc32c = g4_crc32c(0, g4_set_log_page(set, i), G4_PAGE_BYTES);
	}
}

int g4_set_log_pages(struct g4_wg *wg, struct g4_set *set, const struct g4_row *rows, uint32_t row_count,
		     const uint64_t *places, uint32_t count, enum g4_log_how how)
{
	struct g4_set_parity *p = set->parity;
	int rc = p->row_count + row_count > G4_PARITY_LOG_ROWS ? g4_set_log_empty(wg, set) : 0;

	if (g4_load32_acq(
		    &set->stuck)) /* what is in place may be half of what the log has, and parity be made of that */
		return -G4_E_IO;
	if (rc < 0)
		return rc;
	fill_entry(set, places, count);
	rc = append(wg, set, count, how == G4_LOG_FUA ? G4_IO_FUA : 0);
	p->loose = rc == 0 && how == G4_LOG_LOOSE;
	if (rc == 0 && how == G4_LOG_FLUSH)
		rc = flush_disks(wg, set, false);
	if (rc == 0 && !holders_are_there(set)) { /* one has failed at that */
		rc = g4_set_log_empty(wg, set);
		fill_entry(set, places, count);
		if (rc == 0)
			rc = append(wg, set, count, G4_IO_FUA);
	}
	if (rc < 0) {
		p->holders = p->mark_count = 0;
		return rc;
	}
	memcpy(&p->rows[p->row_count], rows, row_count * sizeof(*rows));
	p->row_count += row_count;
	return 0;
}

int g4_set_log_settle(struct g4_wg *wg, struct g4_set *set)
{
	const int rc = flush_disks(wg, set, false);

	return rc == 0 && !holders_are_there(set) ? g4_set_log_empty(wg, set) : rc;
}

/* Whether the log has pages of rows between these places. */
static bool has_rows(const struct g4_set_parity *p, const struct g4_chunk *chunk, uint64_t from, uint64_t to)
{
	for (uint32_t n = 0; n < p->row_count; n++) {
		const struct g4_row *row = &p->rows[n];
		const uint64_t begin = row->stripe * row->chunk->stripe_bytes + row->within;
		if (row->chunk == chunk && begin < to && from < begin + row->bytes)
			return true;
	}
	return false;
}

bool g4_set_log_has(const struct g4_set *set, const struct g4_row *rows)
{
	const uint64_t from = rows->stripe * rows->chunk->stripe_bytes + rows->within;

	return has_rows(set->parity, rows->chunk, from, from + rows->bytes);
}

/* The mark of a region; NULL: it has none. */
static struct g4_parity_mark *find_mark(struct g4_set_parity *p, uint64_t region)
{
	for (uint32_t n = 0; n < p->mark_count; n++)
		if (p->marks[n].region == region)
			return &p->marks[n];
	return NULL;
}

/* Units between two places of one region, of which bit 0 begins at `region`. */
static uint64_t units_of(uint64_t region, uint64_t from, uint64_t to)
{
	const uint64_t first = (from - region) / G4_PARITY_UNIT_BYTES, last = (to - 1 - region) / G4_PARITY_UNIT_BYTES;

	return UINT64_MAX >> (63 - (last - first)) << first;
}

#define ENDED_MOST ((G4_PARITY_LOG_SLOTS - G4_PARITY_MARK_ENDED) / 2)

/* A mark goes into the log, and what has ended of all others with it, as much as it has room for. */
static int append_mark(struct g4_wg *wg, struct g4_set *set, uint64_t region, uint64_t units, uint64_t in_use)
{
	struct g4_set_parity *p = set->parity;
	struct g4_parity_log *entry = (struct g4_parity_log *)(void *)p->entry;
	uint32_t most = 0, ended = 0;

	memset(entry, 0, sizeof(*entry));
	entry->kind = G4_PARITY_LOG_MARK;
	entry->count = 1;
	entry->slots[0].place = region;
	entry->slots[1].place = units;
	entry->slots[2].place = G4_PARITY_MARK_TELLS;
	entry->slots[3].place = in_use;
	for (; most < p->mark_count && ended < ENDED_MOST; most++) {
		struct g4_parity_slot *pair = &entry->slots[G4_PARITY_MARK_ENDED + 2 * ended];
		pair[0].place = p->marks[most].region;
		pair[1].place = p->marks[most].ended;
		ended += p->marks[most].ended != 0;
	}
	const int rc = append(wg, set, 0, G4_IO_FUA);
	for (uint32_t n = 0; n < p->mark_count && n < most && rc == 0; n++) { /* there are none in a new epoch */
		p->marks[n].in_use &= ~p->marks[n].ended;
		p->marks[n].ended = 0;
	}
	return rc;
}

/* Units of a region are marked durably. in_use: some of the pages there are somebody's. */
static int add_mark(struct g4_wg *wg, struct g4_set *set, uint64_t region, uint64_t units, bool in_use)
{
	struct g4_set_parity *p = set->parity;
	struct g4_parity_mark *mark = find_mark(p, region);

	const int rc = append_mark(wg, set, region, units, in_use ? units : 0);
	if (rc < 0)
		return rc;
	mark = find_mark(p, region); /* there may be a new epoch */
	if (!mark) {
		mark = &p->marks[p->mark_count++];
		*mark = (struct g4_parity_mark){.region = region};
	}
	mark->units |= units;
	mark->in_use |= in_use ? units : 0;
	return 0;
}

/* Of these units those that a mark does not have; NULL: there is none. */
static uint64_t not_marked(const struct g4_parity_mark *mark, uint64_t units, bool in_use)
{
	return units & ~(mark ? in_use ? mark->in_use : mark->units : 0);
}

/* Rows of one region. `most`: how far more may be marked. */
static int mark_region(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to,
		       uint64_t most, bool in_use)
{
	struct g4_set_parity *p = set->parity;
	const uint64_t begin = g4_align_down(from, G4_PARITY_REGION_BYTES),
		       region = (uint64_t)(chunk - set->chunks) << 40 | begin / G4_PARITY_REGION_BYTES;
	const struct g4_parity_mark *mark = find_mark(p, region);
	int rc = 0;

	if ((!mark && p->mark_count == G4_PARITY_MARKS) || (p->holders && !holders_are_there(set)))
		rc = g4_set_log_empty(wg, set);
	mark = find_mark(p, region);
	if (rc < 0 || not_marked(mark, units_of(begin, from, to), in_use) == 0)
		return rc;
	return add_mark(wg, set, region, units_of(begin, from, g4_min64(most, begin + G4_PARITY_REGION_BYTES)), in_use);
}

bool g4_set_log_is_marked(const struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to,
			  bool in_use)
{
	bool marked = set->parity->holders && holders_are_there(set);

	while (from < to && marked) {
		const uint64_t begin = g4_align_down(from, G4_PARITY_REGION_BYTES),
			       some = g4_min64(to, begin + G4_PARITY_REGION_BYTES);
		const struct g4_parity_mark *mark =
			find_mark(set->parity, (uint64_t)(chunk - set->chunks) << 40 | begin / G4_PARITY_REGION_BYTES);
		marked = not_marked(mark, units_of(begin, from, some), in_use) == 0;
		from = some;
	}
	return marked;
}

void g4_set_log_flushed(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_set_parity *p = set->parity;
	const struct g4_parity_mark *mark = NULL;

	for (uint32_t n = 0; n < p->mark_count && !p->in_place && !mark; n++)
		mark = p->marks[n].ended ? &p->marks[n] : NULL;
	if (mark) /* what can not be said of them stays as it was */
		(void)append_mark(wg, set, mark->region, mark->units, mark->in_use & ~mark->ended);
	for (uint32_t n = 0; n < p->mark_count; n++)
		p->marks[n].ended = p->marks[n].in_use;
	p->in_place = false;
}

/* What is written there now may be cut short again. */
static void begin_in_place(struct g4_set_parity *p, uint64_t chunk, uint64_t from, uint64_t to)
{
	p->in_place = true;
	for (uint64_t some; from < to; from = some) {
		const uint64_t begin = g4_align_down(from, G4_PARITY_REGION_BYTES);
		struct g4_parity_mark *mark = find_mark(p, chunk << 40 | begin / G4_PARITY_REGION_BYTES);
		some = g4_min64(to, begin + G4_PARITY_REGION_BYTES);
		if (mark)
			mark->ended &= ~units_of(begin, from, some);
	}
}

#define AHEAD_MOST (UINT64_C(1) << 20)
int g4_set_log_mark(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunk, uint64_t from, uint64_t to,
		    bool in_use)
{
	struct g4_set_parity *p = set->parity;
	int rc = has_rows(p, chunk, from, to) ? g4_set_log_empty(wg, set) : 0;

	if (in_use)
		begin_in_place(p, (uint64_t)(chunk - set->chunks), from, to);
	if (rc < 0 || g4_set_log_is_marked(set, chunk, from, to, in_use))
		return rc;
	/* a stripe in between may be in two requests, and be held until the second */
	if (p->next_chunk == chunk && from <= p->next_from + chunk->stripe_bytes && p->next_from < to)
		p->ahead = g4_min64(g4_max64(2 * p->ahead, to - from), AHEAD_MOST);
	else
		p->ahead = 0;
	p->next_chunk = chunk;
	p->next_from = to + p->ahead;
	while (from < to && rc == 0) {
		const uint64_t some =
			g4_min64(to, g4_align_down(from, G4_PARITY_REGION_BYTES) + G4_PARITY_REGION_BYTES);
		rc = mark_region(wg, set, chunk, from, some, g4_min64(to + p->ahead, chunk->place_bytes), in_use);
		from = some;
	}
	return rc;
}

/* ---- after a crash ---- */

static const struct g4_parity_log *log_at(const uint8_t *pages, uint64_t page)
{
	return (const struct g4_parity_log *)(const void *)(pages + page * G4_PAGE_BYTES);
}

static bool is_entry(const struct g4_set *set, const uint8_t *pages, uint64_t page)
{
	const struct g4_parity_log *entry = log_at(pages, page);

	return g4_block_verify(entry, G4_BLOCK_PARITY_LOG, g4_address_from(address_of(page)), tag_of(set)) == 0 &&
	       entry->count <= G4_PARITY_LOG_SLOTS;
}

static bool place_is_possible(const struct g4_set *set, uint64_t place)
{
	const uint32_t disk = g4_place_disk(place);
	const uint64_t address = g4_place_address(place);

	return disk < set->count && address % G4_PAGE_BYTES == 0 &&
	       address >= G4_CHUNK_UNIT + set->parity->area * G4_PAGE_BYTES &&
	       address < G4_CHUNK_UNIT + g4_chunk_usable(set->super->disk_bytes[disk]);
}

/* Pages of an entry behind its descriptor. */
static uint32_t pages_of(const struct g4_parity_log *entry)
{
	return entry->kind == G4_PARITY_LOG_PAGES ? (uint32_t)entry->count : 0;
}

struct copies { /* of the log: what each disk has of it that may have entries of the epoch */
	uint8_t *pages[G4_MAX_DISKS];
	uint32_t disks[G4_MAX_DISKS]; /* whose they are */
	uint32_t count;
	uint64_t epoch;
};

/* The descriptor of this number, of whichever copy has it whole; NULL: none. */
static const struct g4_parity_log *find_entry(const struct g4_set *set, const struct copies *copies, uint64_t page,
					      uint64_t sequence)
{
	for (uint32_t c = 0; c < copies->count; c++) {
		const struct g4_parity_log *entry = log_at(copies->pages[c], page);
		bool possible = is_entry(set, copies->pages[c], page) && entry->epoch == copies->epoch &&
				entry->header.generation == sequence && page + pages_of(entry) < set->parity->area;
		for (uint32_t i = 0; possible && i < pages_of(entry); i++)
			possible = place_is_possible(set, entry->slots[i].place);
		if (possible)
			return entry;
	}
	return NULL;
}

/* A page of an entry goes into the first copy, of whichever has it whole. */
static bool take_page(const struct copies *copies, uint64_t page, uint32_t crc32c, bool *changed)
{
	uint8_t *to = copies->pages[0] + page * G4_PAGE_BYTES;

	for (uint32_t c = 0; c < copies->count; c++) {
		const uint8_t *from = copies->pages[c] + page * G4_PAGE_BYTES;
		if (g4_crc32c(0, from, G4_PAGE_BYTES) != crc32c)
			continue;
		if (from != to)
			memcpy(to, from, G4_PAGE_BYTES);
		*changed = *changed || from != to;
		return true;
	}
	return false;
}

/* The entries of the epoch that are whole go into the first copy, one behind the other; the page behind the last. *changed: it lacked some. */
static uint64_t merge(const struct g4_set *set, const struct copies *copies, bool *changed)
{
	uint64_t page = 1;

	for (uint64_t sequence = 1; page < set->parity->area; sequence++) {
		const struct g4_parity_log *entry = find_entry(set, copies, page, sequence);
		if (!entry)
			break;
		if (entry != log_at(copies->pages[0], page)) {
			memcpy(copies->pages[0] + page * G4_PAGE_BYTES, entry, G4_PAGE_BYTES);
			*changed = true;
		}
		for (uint32_t i = 0; i < pages_of(entry); i++)
			if (!take_page(copies, page + 1 + i, entry->slots[i].crc32c, changed))
				return page;
		page += 1 + pages_of(entry);
	}
	return page;
}

/* Pages of a disk's log; what can not be read is zeros, and takes none of the others with it. */
static void read_log(struct g4_wg *wg, struct g4_set *set, uint32_t disk, uint8_t *to, uint64_t pages)
{
	struct g4_dev *dev = set->disks[disk].dev;

	if (g4_dev_read(wg, dev, address_of(0), to, pages * G4_PAGE_BYTES) == 0)
		return;
	for (uint64_t page = 0; page < pages; page++)
		if (g4_dev_read(wg, dev, address_of(page), to + page * G4_PAGE_BYTES, G4_PAGE_BYTES) < 0)
			memset(to + page * G4_PAGE_BYTES, 0, G4_PAGE_BYTES);
}

/*
 * Whether a disk may have entries. Those that do have one behind the header, unless it can not be read: for versions that do
 * not know them.
 */
static bool may_hold(struct g4_wg *wg, struct g4_set *set, uint32_t disk, uint64_t holders, uint64_t epoch)
{
	uint8_t *first = set->parity->entry + G4_PAGE_BYTES;

	if (!g4_set_is_active(set, disk) || holders)
		return holders >> disk & 1 && g4_set_is_active(set, disk);
	return g4_dev_read(wg, set->disks[disk].dev, address_of(1), first, G4_PAGE_BYTES) < 0 ||
	       (is_entry(set, set->parity->entry, 1) && log_at(first, 0)->epoch == epoch);
}

/* The copies that may have entries, of disks that have the newest epoch as far as they tell. -G4_E_NOMEM, or 0. */
static int read_copies(struct g4_wg *wg, struct g4_set *set, struct copies *copies)
{
	const struct g4_set_parity *p = set->parity;
	uint64_t holders = 0;

	for (uint32_t d = 0; d < set->count; d++) {
		if (!g4_set_is_active(set, d))
			continue;
		read_log(wg, set, d, p->entry, 1);
		const struct g4_parity_log *header = log_at(p->entry, 0);
		if (!is_entry(set, p->entry, 0) || header->kind != G4_PARITY_LOG_HEADER ||
		    header->epoch <= copies->epoch)
			continue;
		copies->epoch = header->epoch;
		holders = header->slots[0].place;
	}
	for (uint32_t d = 0; d < set->count; d++) {
		if (!may_hold(wg, set, d, holders, copies->epoch))
			continue;
		uint8_t **pages = &copies->pages[copies->count];
		if (posix_memalign((void **)pages, G4_PAGE_BYTES, p->area * G4_PAGE_BYTES) != 0)
			return -G4_E_NOMEM;
		copies->disks[copies->count++] = d;
		read_log(wg, set, d, *pages, p->area);
	}
	return 0;
}

/* The newest epoch's entries, of all disks that have any, into p->old. */
int g4_set_log_load(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_set_parity *p = set->parity;
	struct copies copies = {.epoch = 0};
	int rc = read_copies(wg, set, &copies);

	p->epoch = copies.epoch;
	load_map(wg, set);
	p->old_end = 1;
	p->old_short = 0;
	if (rc == 0 && copies.count > 0) {
		bool changed = false;
		p->old_end = merge(set, &copies, &changed);
		p->old = copies.pages[0];
		for (uint32_t c = 0; c < copies.count; c++)
			if (c == 0 ? changed :
				     memcmp(copies.pages[c] + G4_PAGE_BYTES, p->old + G4_PAGE_BYTES,
					    (p->old_end - 1) * G4_PAGE_BYTES) != 0)
				p->old_short |= UINT64_C(1) << copies.disks[c];
	}
	for (uint32_t c = p->old ? 1 : 0; c < copies.count; c++)
		free(copies.pages[c]);
	return rc;
}

/*
 * All pages of the log in the order in which they were written. The power may fail meanwhile, and the only disk that has an entry be lost
 * with it: so before the first page is written to its place all that are to have the log have all of it.
 */
int g4_set_log_replay(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_set_parity *p = set->parity;
	const uint64_t missing = p->old_short & active_disks(set, G4_MAX_DISKS);
	int rc = 0;

	if (missing && p->old_end > 1)
		rc = write_log(wg, set, missing, 1, p->old + G4_PAGE_BYTES, p->old_end - 1, G4_IO_FUA);

	for (uint64_t page = 1; page < p->old_end && rc == 0;) {
		const struct g4_parity_log *entry = log_at(p->old, page++);
		if (entry->kind != G4_PARITY_LOG_PAGES)
			continue;
		for (uint32_t i = 0; i < entry->count && rc == 0; i++, page++) {
			const uint32_t disk = g4_place_disk(entry->slots[i].place);
			const uint64_t address = g4_place_address(entry->slots[i].place);
			if (g4_set_has(set, disk, address, G4_PAGE_BYTES) &&
			    g4_dev_write(wg, set->disks[disk].dev, address, log_at(p->old, page), G4_PAGE_BYTES, 0) < 0)
				rc = g4_set_drop(wg, set, disk);
		}
	}
	return rc;
}

/* What a mark of the log says; false: it is of nothing that is there. One of an older version does not tell what is in use. */
static bool read_mark(const struct g4_set *set, const struct g4_parity_log *entry, struct g4_parity_mark *mark)
{
	const uint64_t n = (uint64_t)entry->slots[0].place >> 40,
		       region = entry->slots[0].place & ((UINT64_C(1) << 40) - 1);

	mark->region = entry->slots[0].place;
	mark->units = entry->slots[1].place ? (uint64_t)entry->slots[1].place : UINT64_MAX;
	mark->in_use = entry->slots[2].place == G4_PARITY_MARK_TELLS ? (uint64_t)entry->slots[3].place : mark->units;
	return entry->kind == G4_PARITY_LOG_MARK && entry->count == 1 && n < set->map.count && set->chunks[n].parity &&
	       region * G4_PARITY_REGION_BYTES < set->chunks[n].place_bytes;
}

/* Of marks before this one. */
static void end_marks(struct g4_set_parity *p, const struct g4_parity_log *entry)
{
	for (uint32_t n = 0; n < ENDED_MOST; n++) {
		const struct g4_parity_slot *pair = &entry->slots[G4_PARITY_MARK_ENDED + 2 * n];
		if (!pair[1].place)
			break;
		struct g4_parity_mark *mark = find_mark(p, pair[0].place);
		if (mark)
			mark->in_use &= ~(uint64_t)pair[1].place;
	}
}

void g4_set_log_load_marks(struct g4_set *set)
{
	struct g4_set_parity *p = set->parity;

	p->mark_count = 0;
	for (uint64_t page = 1; page < p->old_end; page += 1 + pages_of(log_at(p->old, page))) {
		struct g4_parity_mark mark;
		if (!read_mark(set, log_at(p->old, page), &mark))
			continue;
		struct g4_parity_mark *known = find_mark(p, mark.region);
		if (!known && p->mark_count == G4_PARITY_MARKS) /* no writer has made so many */
			break;
		if (!known) {
			known = &p->marks[p->mark_count++];
			*known = (struct g4_parity_mark){.region = mark.region};
		}
		end_marks(p, log_at(p->old, page));
		known->units |= mark.units;
		known->in_use |= mark.in_use;
	}
}

void g4_set_log_forget(struct g4_set *set)
{
	free(set->parity->old);
	set->parity->old = NULL;
	set->parity->old_end = 1;
}

void g4_set_log_patch(const struct g4_set *set, uint32_t disk, uint64_t offset, const struct g4_iov *iovs,
		      uint32_t parts)
{
	const struct g4_set_parity *p = set->parity;
	uint64_t bytes = 0;

	if (!p || p->old_end == 1)
		return;
	for (uint32_t k = 0; k < parts; k++)
		bytes += iovs[k].bytes;
	for (uint64_t page = 1; page < p->old_end;) {
		const struct g4_parity_log *entry = log_at(p->old, page++);
		for (uint32_t i = 0; entry->kind == G4_PARITY_LOG_PAGES && i < entry->count; i++, page++) {
			const uint64_t at = g4_place_address(entry->slots[i].place);
			if (g4_place_disk(entry->slots[i].place) != disk || at + G4_PAGE_BYTES <= offset ||
			    at >= offset + bytes)
				continue;
			/* parts and requests are of sectors, not always of pages */
			uint64_t begin = offset;
			for (uint32_t k = 0; k < parts; begin += iovs[k].bytes, k++) {
				const uint64_t from = g4_max64(at, begin),
					       to = g4_min64(at + G4_PAGE_BYTES, begin + iovs[k].bytes);
				if (from < to)
					memcpy((uint8_t *)iovs[k].base + (from - begin),
					       (const uint8_t *)log_at(p->old, page) + (from - at), to - from);
			}
		}
	}
}
