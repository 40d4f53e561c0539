/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parity log of a set: what closes the write hole. A row is the pages at one place of all columns of a stripe; who writes some of a
 * row's pages changes its parity, which other pages are made from when their disk is lost.
 *
 *   - Rows of which some pages stay are written to the log first: all new pages of data and parity, with a descriptor, durable on m + 1
 *     disks (the holders) before the first of them goes to its place. A crash in between leaves a mixture of both in place; the next
 *     open writes what the log has over it. What of the log is not whole was not begun in place.
 *   - Rows that are written as a whole need no page in the log: all that a wrong parity could spoil is what was being written. But the
 *     region is marked in the log before, durably, and parity in marked regions is made anew after a crash: of a part that arrived, a
 *     commit may be found whole.
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
#include "space/set_parity_host.h"

#define LOG_ADDRESS G4_CHUNK_UNIT

static bool is_active(const struct g4_set *set, uint32_t disk)
{
	return g4_load32_acq(&set->disks[disk].state) == G4_DISK_ACTIVE;
}

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

/* The same pages of the log on these disks; those that fail are dropped. -G4_E_IO: that can not be. */
static int write_log(struct g4_wg *wg, struct g4_set *set, uint64_t disks, uint64_t page, void *from, uint64_t pages)
{
	struct g4_iov iov = {from, pages * G4_PAGE_BYTES};
	struct g4_io ios[G4_MAX_DISKS];
	int rc = 0;

	memset(ios, 0, sizeof(ios));
	for (uint32_t d = 0; d < set->count; d++) {
		if (!(disks >> d & 1))
			continue;
		ios[d] = (struct g4_io){.op = G4_IO_WRITE,
					.flags = G4_IO_FUA,
					.offset_bytes = address_of(page),
					.iov = &iov,
					.iov_count = 1};
		g4_dev_submit(wg, set->disks[d].dev, &ios[d]);
	}
	for (uint32_t d = 0; d < set->count; d++)
		if ((disks >> d & 1) && g4_dev_wait(wg, set->disks[d].dev, &ios[d]) < 0 && rc == 0)
			rc = g4_set_drop(wg, set, d);
	return rc;
}

static uint64_t active_disks(const struct g4_set *set, uint32_t most)
{
	uint64_t disks = 0;
	uint32_t count = 0;

	for (uint32_t d = 0; d < set->count && count < most; d++)
		if (is_active(set, d)) {
			disks |= UINT64_C(1) << d;
			count++;
		}
	return disks;
}

static int flush_all(struct g4_wg *wg, struct g4_set *set)
{
	int rc = 0;

	for (uint32_t d = 0; d < set->count && rc == 0; d++)
		if (is_active(set, d) && g4_dev_props(set->disks[d].dev)->volatile_cache &&
		    g4_dev_flush(wg, set->disks[d].dev) < 0)
			rc = g4_set_drop(wg, set, d);
	return rc;
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
	g4_block_seal(header, G4_BLOCK_PARITY_LOG, g4_address_from(address_of(0)), 0, tag_of(set));
	return write_log(wg, set, active_disks(set, G4_MAX_DISKS), 0, header, 1);
}

int g4_set_log_empty(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_set_parity *p = set->parity;
	int rc;

	do {
		rc = flush_all(wg, set);
		p->holders = active_disks(set, p->parity + 1);
		if (rc == 0)
			rc = begin_epoch(wg, set);
	} while (rc == 0 && p->holders != active_disks(set, p->parity + 1));
	if (rc < 0)
		p->holders = p->mark_count = 0; /* nobody knows what the log has now: the next entry begins an epoch */
	return rc;
}

static bool holders_are_there(const struct g4_set *set)
{
	for (uint32_t d = 0; d < set->count; d++)
		if ((set->parity->holders >> d & 1) && !is_active(set, d))
			return false;
	return true;
}

/* The entry that p->entry holds, with so many pages behind its descriptor. */
static int append(struct g4_wg *wg, struct g4_set *set, uint32_t pages)
{
	struct g4_set_parity *p = set->parity;
	struct g4_parity_log *entry = (struct g4_parity_log *)(void *)p->entry;

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
		const int rc = write_log(wg, set, p->holders, p->head, entry, 1 + pages);
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

int g4_set_log_pages(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, const uint64_t *places,
		     const uint8_t *const *from, uint32_t count)
{
	struct g4_set_parity *p = set->parity;
	struct g4_parity_log *entry = (struct g4_parity_log *)(void *)p->entry;

	if (p->row_count == G4_PARITY_LOG_ROWS) {
		const int rc = g4_set_log_empty(wg, set);
		if (rc < 0)
			return rc;
	}
	memset(entry, 0, sizeof(*entry));
	entry->kind = G4_PARITY_LOG_PAGES;
	entry->count = count;
	for (uint32_t i = 0; i < count; i++) {
		entry->slots[i].place = places[i];
		entry->slots[i].crc32c = g4_crc32c(0, from[i], G4_PAGE_BYTES);
		memcpy(p->entry + (uint64_t)(1 + i) * G4_PAGE_BYTES, from[i], G4_PAGE_BYTES);
	}
	const int rc = append(wg, set, count);
	if (rc == 0)
		p->rows[p->row_count++] = *row;
	return rc;
}

static bool overlap(const struct g4_row *a, const struct g4_row *b)
{
	return a->chunk == b->chunk && a->stripe == b->stripe && a->within < b->within + b->bytes &&
	       b->within < a->within + a->bytes;
}

int g4_set_log_mark(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row)
{
	struct g4_set_parity *p = set->parity;
	struct g4_parity_log *entry = (struct g4_parity_log *)(void *)p->entry;
	const uint64_t region = row->stripe * row->chunk->stripe_bytes / G4_PARITY_REGION_BYTES;
	const uint64_t mark = (uint64_t)(row->chunk - set->chunks) << 40 | region;
	bool again = false;
	int rc = 0;

	for (uint32_t n = 0; n < p->row_count && !again; n++)
		again = overlap(&p->rows[n], row);
	if (again || p->mark_count == G4_PARITY_MARKS || (p->holders && !holders_are_there(set)))
		rc = g4_set_log_empty(wg, set);
	for (uint32_t n = 0; n < p->mark_count; n++)
		if (p->marks[n] == mark)
			return rc;
	if (rc < 0)
		return rc;
	memset(entry, 0, sizeof(*entry));
	entry->kind = G4_PARITY_LOG_MARK;
	entry->count = 1;
	entry->slots[0].place = mark;
	rc = append(wg, set, 0);
	if (rc == 0)
		p->marks[p->mark_count++] = mark;
	return rc;
}

/* ---- after a crash ---- */

struct copy { /* the log of one disk */
	uint8_t *pages;
	uint64_t entries, end; /* whole ones of the epoch, and the page behind the last */
};

static const struct g4_parity_log *log_at(const struct copy *copy, uint64_t page)
{
	return (const struct g4_parity_log *)(const void *)(copy->pages + page * G4_PAGE_BYTES);
}

static bool is_entry(const struct g4_set *set, const struct copy *copy, uint64_t page)
{
	const struct g4_parity_log *entry = log_at(copy, page);

	return g4_block_verify(entry, G4_BLOCK_PARITY_LOG, g4_address_from(address_of(page)), tag_of(set)) == 0 &&
	       entry->count <= G4_PARITY_LOG_SLOTS;
}

static bool place_is_possible(const struct g4_set *set, uint64_t place)
{
	const uint32_t disk = g4_place_disk(place);
	const uint64_t address = g4_place_address(place);

	return disk < set->count && address % G4_PAGE_BYTES == 0 &&
	       address >= G4_CHUNK_UNIT + set->parity->pages * G4_PAGE_BYTES &&
	       address < G4_CHUNK_UNIT + g4_chunk_usable(set->super->disk_bytes[disk]);
}

/* How far the entries of the epoch are whole. */
static void count_entries(const struct g4_set *set, struct copy *copy, uint64_t epoch)
{
	const struct g4_set_parity *p = set->parity;
	uint64_t page = 1;

	for (uint64_t sequence = 1; page < p->pages && is_entry(set, copy, page); sequence++) {
		const struct g4_parity_log *entry = log_at(copy, page);
		const uint32_t pages = entry->kind == G4_PARITY_LOG_PAGES ? entry->count : 0;
		if (entry->epoch != epoch || entry->header.generation != sequence || page + pages >= p->pages)
			break;
		for (uint32_t i = 0; i < pages; i++)
			if (!place_is_possible(set, entry->slots[i].place) ||
			    g4_crc32c(0, log_at(copy, page + 1 + i), G4_PAGE_BYTES) != entry->slots[i].crc32c)
				return;
		page += 1 + pages;
		copy->entries = sequence;
		copy->end = page;
	}
}

/* The newest epoch's entries, of the disk that has most of them, into p->old. */
int g4_set_log_load(struct g4_wg *wg, struct g4_set *set)
{
	struct g4_set_parity *p = set->parity;
	struct copy best = {NULL, 0, 1}, copy;

	for (uint32_t d = 0; d < set->count; d++) {
		if (!is_active(set, d))
			continue;
		copy = (struct copy){NULL, 0, 1};
		if (posix_memalign((void **)&copy.pages, G4_PAGE_BYTES, p->pages * G4_PAGE_BYTES) != 0) {
			free(best.pages);
			return -G4_E_NOMEM;
		}
		const bool has_header =
			g4_dev_read(wg, set->disks[d].dev, address_of(0), copy.pages, p->pages * G4_PAGE_BYTES) == 0 &&
			is_entry(set, &copy, 0) && log_at(&copy, 0)->kind == G4_PARITY_LOG_HEADER;
		const uint64_t epoch = has_header ? (uint64_t)log_at(&copy, 0)->epoch : 0;
		if (has_header)
			count_entries(set, &copy, epoch);
		if (has_header && (epoch > p->epoch || (epoch == p->epoch && copy.entries > best.entries))) {
			free(best.pages);
			best = copy;
			p->epoch = epoch;
		} else {
			free(copy.pages);
		}
	}
	p->old = best.pages;
	p->old_end = best.end;
	return 0;
}

/* All pages of the log in the order in which they were written. */
int g4_set_log_replay(struct g4_wg *wg, struct g4_set *set)
{
	const struct g4_set_parity *p = set->parity;
	const struct copy copy = {p->old, 0, p->old_end};
	int rc = 0;

	for (uint64_t page = 1; page < p->old_end && rc == 0;) {
		const struct g4_parity_log *entry = log_at(&copy, page++);
		if (entry->kind != G4_PARITY_LOG_PAGES)
			continue;
		for (uint32_t i = 0; i < entry->count && rc == 0; i++, page++) {
			const uint32_t disk = g4_place_disk(entry->slots[i].place);
			if (is_active(set, disk) &&
			    g4_dev_write(wg, set->disks[disk].dev, g4_place_address(entry->slots[i].place),
					 log_at(&copy, page), G4_PAGE_BYTES, 0) < 0)
				rc = g4_set_drop(wg, set, disk);
		}
	}
	return rc;
}

bool g4_set_log_next_mark(const struct g4_set *set, uint64_t *page, const struct g4_chunk **chunk, uint64_t *from)
{
	const struct g4_set_parity *p = set->parity;
	const struct copy copy = {p->old, 0, p->old_end};

	while (*page < p->old_end) {
		const struct g4_parity_log *entry = log_at(&copy, (*page)++);
		*page += entry->kind == G4_PARITY_LOG_PAGES ? (uint32_t)entry->count : 0;
		if (entry->kind != G4_PARITY_LOG_MARK || entry->count != 1)
			continue;
		const uint64_t mark = entry->slots[0].place, n = mark >> 40;
		*from = (mark & ((UINT64_C(1) << 40) - 1)) * G4_PARITY_REGION_BYTES;
		*chunk = &set->chunks[n];
		if (n < set->map.count && (*chunk)->parity && *from < (*chunk)->place_bytes)
			return true;
	}
	return false;
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
	const struct copy copy = {p ? p->old : NULL, 0, p ? p->old_end : 1};
	uint64_t bytes = 0;

	if (!p || p->old_end == 1)
		return;
	for (uint32_t k = 0; k < parts; k++)
		bytes += iovs[k].bytes;
	for (uint64_t page = 1; page < p->old_end;) {
		const struct g4_parity_log *entry = log_at(&copy, page++);
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
					       (const uint8_t *)log_at(&copy, page) + (from - at), to - from);
			}
		}
	}
}
