/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows: the memory that they are read into, what is computed of them, and requests to all of their disks at once. What a crash
 * has left in the log is what a row has, for readers here. Locks of rows: set_parity_host.c.
 */
#define _GNU_SOURCE 1

#include <stdlib.h>

#include "base/memory_host.h"
#include "space/set_drain_host.h"
#include "space/set_flush_host.h"
#include "space/set_granted_host.h"

/* ---- memory ---- */

static uint64_t regions_of(const struct g4_chunk *chunks, uint32_t chunk_count)
{
	uint64_t regions = 0;

	for (uint32_t n = 0; n < chunk_count; n++)
		regions += g4_set_log_regions(&chunks[n]);
	return regions;
}

/* Where the log ends and the map begins. One that there is no room for is in memory alone. */
static uint64_t map_page(const struct g4_set_parity *p, uint64_t regions)
{
	const uint64_t map = (regions / 8 + G4_PARITY_MAP_BYTES) / G4_PARITY_MAP_BYTES;

	return p->area - (map < p->area / 4 ? map : 0);
}

static void plan_map(struct g4_set *set, uint32_t chunk_count)
{
	struct g4_set_parity *p = set->parity;

	p->regions = regions_of(set->chunks, chunk_count);
	p->pages = p->clear = map_page(p, p->regions);
}

int g4_set_parity_begin(struct g4_set *set)
{
	const uint64_t columns = G4_CHUNK_PLACES; /* chunks that are added may have more than those that there are */
	uint64_t stripe = 0;
	uint32_t parity = 0;

	for (uint32_t n = 0; n < set->super->chunk_count; n++) {
		const struct g4_chunk *chunk = &set->chunks[n];
		if (!chunk->parity)
			continue;
		stripe = g4_max64(stripe, chunk->stripe_bytes);
		parity = (uint32_t)g4_max64(parity, chunk->parity);
	}
	if (!set->super->parity_log_bytes)
		return 0;
	/* there may be chunks with parity later */
	stripe = g4_max64(stripe, G4_STRIPE_DEFAULT);
	parity = (uint32_t)g4_max64(parity, set->super->copies - UINT32_C(1));
	struct g4_set_parity *p = calloc(1, sizeof(*p));
	if (!p || pthread_rwlock_init(&p->lock, NULL) != 0) {
		free(p);
		return -G4_E_NOMEM;
	}
	set->parity = p;
	p->parity = parity;
	p->area = set->super->parity_log_bytes / G4_PAGE_BYTES;
	p->old_end = p->head = 1;
	plan_map(set, set->super->chunk_count);
	p->made = calloc(1, p->regions / 8 + 1);
	p->rows = calloc(G4_PARITY_LOG_ROWS, sizeof(*p->rows));
	p->drain = calloc(1, sizeof(*p->drain));
	const uint64_t entry = (1 + G4_PARITY_LOG_SLOTS) * G4_PAGE_BYTES;
	p->memory_bytes = 2 * columns * stripe + entry +
			  (1 + columns + G4_PARITY_LOG_SLOTS + 2 * G4_PARITY_BEHIND_ROWS * columns) * G4_PAGE_BYTES;
	p->memory = (uint8_t *)g4_memory_map(p->memory_bytes);
	if (!p->rows || !p->drain || !p->made || !p->memory)
		return -G4_E_NOMEM;
	p->entry = p->memory;
	p->kept = p->entry + entry;
	if (g4_set_held_begin(set, columns) < 0 || g4_set_grants_begin(set) < 0)
		return -G4_E_NOMEM;
	for (uint32_t c = 0; c < 2 * columns; c++)
		p->columns[c % columns + (c < columns ? 0 : G4_ROW_COLUMNS)] = p->kept + G4_PAGE_BYTES + c * stripe;
	for (uint32_t c = 0; c < columns; c++)
		p->spare[c] = p->kept + (1 + c) * G4_PAGE_BYTES + 2 * columns * stripe;
	p->replaced = p->kept + (1 + columns) * G4_PAGE_BYTES + 2 * columns * stripe;
	p->behind = p->replaced + G4_PARITY_LOG_SLOTS * G4_PAGE_BYTES;
	return 0;
}

/*
 * The map of regions may be longer then, and begin elsewhere in the log. Pages of the old one are none of the new one there:
 * each has its number. But where disks were removed, one that was as long has left pages in front of the old one, with the numbers
 * that belong there: they are cleared, too, here and of a disk that is being added (g4_set_wipe()). In the last byte that the old one used there may be bits of regions that did not exist: they are
 * cleared before they mean anything.
 */
int g4_set_parity_extend(struct g4_wg *wg, struct g4_set *set, const struct g4_chunk *chunks, uint32_t chunk_count)
{
	struct g4_set_parity *p = set->parity;
	const uint64_t regions = regions_of(chunks, chunk_count);
	uint8_t *made = calloc(1, regions / 8 + 1);

	if (!made)
		return -G4_E_NOMEM;
	memcpy(made, p->made, p->regions / 8 + 1);
	made[p->regions / 8] &= (uint8_t)((1u << p->regions % 8) - 1);
	free(p->made);
	p->made = made;
	p->made_changed = true;
	p->clear = g4_min64(p->pages, map_page(p, regions));
	const int rc = g4_set_log_empty(wg, set);
	return rc < 0 ? rc : g4_set_log_clear(wg, set, p->clear, p->pages);
}

void g4_set_parity_extended(struct g4_set *set)
{
	plan_map(set, set->map.count);
	set->parity->made_changed = true; /* it may be elsewhere, and a new disk has none */
}

void g4_set_parity_end(struct g4_set *set)
{
	struct g4_set_parity *p = set->parity;

	if (!p)
		return;
	g4_set_held_end(set);
	g4_set_grants_end(set);
	pthread_rwlock_destroy(&p->lock);
	g4_memory_unmap(p->memory, p->memory_bytes);
	free(p->rows);
	free(p->drain);
	free(p->made);
	free(p->asked);
	free(p->old);
	free(p);
	set->parity = NULL;
}

struct g4_row g4_row_at(const struct g4_chunk_map *map, uint64_t address, uint64_t bytes, uint32_t *column)
{
	const struct g4_chunk *chunk = g4_chunk_find(map, address);
	const uint64_t index = (address - chunk->address) / chunk->stripe_bytes;
	const uint32_t k = g4_chunk_data_columns(chunk);

	*column = (uint32_t)(index % k);
	return (struct g4_row){chunk, index / k, (address - chunk->address) % chunk->stripe_bytes, bytes};
}

/* ---- computing ---- */

struct computation {
	uint32_t k, m;
	uint64_t lost;
	uint8_t *const *columns;
	uint64_t bytes;
	bool makes, done;
	uint64_t changed; /* columns that had `old`, and have `columns`; the parities are changed by that */
	uint8_t *const *old;
	struct g4_parity_scratch scratch;
};

static void change(struct g4_wg *wg, struct computation *c)
{
	uint32_t chunks[2 * G4_ROW_COLUMNS], terms = 0;
	const void *data[2 * G4_ROW_COLUMNS];

	for (uint32_t k = 0; k < c->k; k++)
		for (uint32_t side = 0; side < 2 && (c->changed >> k & 1); side++, terms++) {
			chunks[terms] = k;
			data[terms] = side ? c->old[k] : c->columns[k];
		}
	g4_parity_update(wg, terms, chunks, data, c->m, (void *const *)(c->columns + c->k), c->bytes, &c->scratch);
}

G4_REGION_BODY static void compute_in_region(struct g4_wg *wg, void *args)
{
	struct computation *c = (struct computation *)args;

	g4_converge(wg);
	if (c->makes) {
		const bool done = g4_parity_reconstruct(wg, c->k, c->m, c->lost, (void *const *)c->columns, c->bytes,
							&c->scratch);
		if (g4_wg_lane(wg) == 0)
			c->done = done;
	} else if (c->changed) {
		change(wg, c);
	} else {
		g4_parity_encode(wg, c->k, c->m, (const void *const *)c->columns, (void *const *)(c->columns + c->k),
				 c->bytes);
	}
	g4_converge(wg);
}

/* Whether it was done. All lanes see what is in scratch memory, not what is on the leader's stack. */
static bool compute(struct g4_wg *wg, const struct computation *asked)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct computation *c = (struct computation *)g4_scratch_take(wg, sizeof(*c));

	*c = *asked;
	g4_region(wg, G4_REGION_USER, compute_in_region, c);
	const bool done = c->done;
	g4_scratch_release(wg, mark);
	return done;
}

void g4_row_encode(struct g4_wg *wg, const struct g4_chunk *chunk, uint8_t *const *columns, uint64_t bytes)
{
	const struct computation c = {
		.k = g4_chunk_data_columns(chunk), .m = chunk->parity, .columns = columns, .bytes = bytes};

	compute(wg, &c);
}

void g4_row_change(struct g4_wg *wg, const struct g4_chunk *chunk, uint64_t changed, uint8_t *const *old,
		   uint8_t *const *columns, uint64_t bytes)
{
	const struct computation c = {.k = g4_chunk_data_columns(chunk),
				      .m = chunk->parity,
				      .columns = columns,
				      .bytes = bytes,
				      .changed = changed,
				      .old = old};

	compute(wg, &c);
}

bool g4_row_reconstruct(struct g4_wg *wg, const struct g4_chunk *chunk, uint64_t lost, uint8_t *const *columns,
			uint64_t bytes)
{
	const struct computation c = {.k = g4_chunk_data_columns(chunk),
				      .m = chunk->parity,
				      .lost = lost,
				      .columns = columns,
				      .bytes = bytes,
				      .makes = true};

	return compute(wg, &c);
}

bool g4_row_lost_to(const struct g4_row *row, uint32_t column, uint32_t version, uint64_t *lost)
{
	const uint32_t k = g4_chunk_data_columns(row->chunk), parity = row->chunk->parity, others = k + parity - 1;

	*lost = UINT64_C(1) << column;
	if (version < parity) {
		*lost |= g4_row_mask(parity) << k & ~(UINT64_C(1) << (k + version));
		return true;
	}
	if (parity < 2 || version >= g4_row_choices(others, parity - 1))
		return false;
	for (uint32_t wanted = parity - 1, other = others; wanted > 0; wanted--) {
		do
			other--;
		while (g4_row_choices(other, wanted) > version);
		version -= g4_row_choices(other, wanted);
		*lost |= UINT64_C(1) << (other < parity ? k + other : other - parity + (other - parity >= column));
	}
	return true;
}

/* ---- disks ---- */

/* Whoever makes this row for a disk that is being rebuilt (set_taken_host.c) has to do it again. */
static void touch(struct g4_set *set, const struct g4_row *row)
{
	const uint64_t at = row->stripe * row->chunk->stripe_bytes + row->within;

	for (uint32_t n = 0; n < set->taken_count; n++) {
		struct g4_set_taken *taken = &set->taken[n];
		if (taken->rows && taken->address == row->chunk->address && at < taken->end &&
		    taken->from < at + row->bytes)
			taken->touched = true;
	}
}

void g4_row_prepare(struct g4_set *set, const struct g4_row *row, uint32_t op, uint32_t flags, uint64_t columns,
		    uint8_t *const *memory, struct g4_row_io *t, struct g4_row_lists *lists)
{
	if (op == G4_IO_WRITE)
		touch(set, row);
	memset(t->ios, 0, sizeof(t->ios));
	t->begun = t->failed = 0;
	t->logged = false;
	for (uint32_t c = 0; c < row->chunk->columns; c++) {
		const uint64_t place = g4_row_place(row, c);
		const uint32_t disk = g4_place_disk(place);
		if (!(columns >> c & 1))
			continue;
		if (!g4_row_has(set, row, c)) {
			t->failed |= UINT64_C(1) << c;
			continue;
		}
		t->iovs[c] = (struct g4_iov){memory[c], row->bytes};
		t->ios[c] = (struct g4_io){.op = op,
					   .flags = flags,
					   .offset_bytes = g4_place_address(place),
					   .iov = &t->iovs[c],
					   .iov_count = 1};
		t->begun |= UINT64_C(1) << c;
		if (lists->first[disk])
			lists->last[disk]->next = &t->ios[c];
		else
			lists->first[disk] = &t->ios[c];
		lists->last[disk] = &t->ios[c];
	}
}

void g4_row_submit(struct g4_wg *wg, struct g4_set *set, struct g4_row_lists *lists)
{
	for (uint32_t d = 0; d < set->count; d++)
		if (lists->first[d])
			g4_dev_submit(wg, set->disks[d].dev, lists->first[d]);
}

void g4_row_begin(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint32_t op, uint32_t flags,
		  uint64_t columns, uint8_t *const *memory, struct g4_row_io *t)
{
	struct g4_row_lists lists = {.first = {NULL}};

	g4_row_prepare(set, row, op, flags, columns, memory, t, &lists);
	g4_row_submit(wg, set, &lists);
}

uint64_t g4_row_end(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, struct g4_row_io *t)
{
	for (uint32_t c = 0; c < row->chunk->columns; c++) {
		if (!(t->begun >> c & 1))
			continue;
		const uint32_t disk = g4_place_disk(g4_row_place(row, c));
		const int rc = g4_dev_wait(wg, set->disks[disk].dev, &t->ios[c]);
		if (t->ios[c].op == G4_IO_WRITE && !(t->ios[c].flags & G4_IO_FUA) && !t->logged)
			g4_set_note_written(set, disk);
		if (rc < 0)
			t->failed |= UINT64_C(1) << c;
		else if (t->ios[c].op == G4_IO_READ)
			g4_set_log_patch(set, disk, t->ios[c].offset_bytes, &t->iovs[c], 1);
	}
	return t->failed;
}

uint64_t g4_row_transfer(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint32_t op, uint32_t flags,
			 uint64_t columns, uint8_t *const *memory)
{
	struct g4_row_io transfer;

	g4_row_begin(wg, set, row, op, flags, columns, memory, &transfer);
	return g4_row_end(wg, set, row, &transfer);
}

int g4_row_read(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint64_t wanted, uint64_t lost,
		uint8_t *const *memory)
{
	const uint64_t all = g4_row_mask(row->chunk->columns);
	uint8_t *columns[G4_ROW_COLUMNS];

	lost |= g4_row_transfer(wg, set, row, G4_IO_READ, 0, wanted & ~lost, memory);
	if (!(wanted & lost))
		return 0;
	for (uint32_t c = 0; c < row->chunk->columns; c++)
		lost |= (uint64_t)!g4_row_has(set, row, c) << c;
	if ((uint32_t)__builtin_popcountll(lost) > row->chunk->parity)
		return -G4_E_IO;
	lost |= g4_row_transfer(wg, set, row, G4_IO_READ, 0, all & ~wanted & ~lost, memory);
	for (uint32_t c = 0; c < row->chunk->columns; c++)
		columns[c] = (lost & ~wanted) >> c & 1 ? NULL : memory[c];
	return g4_row_reconstruct(wg, row->chunk, lost, columns, row->bytes) ? 0 : -G4_E_IO;
}

int g4_row_drop(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint64_t columns)
{
	int rc = 0;

	for (uint32_t c = 0; c < row->chunk->columns && rc == 0; c++)
		if ((columns >> c & 1) && g4_row_has(set, row, c))
			rc = g4_set_drop(wg, set, g4_place_disk(g4_row_place(row, c)));
	return rc;
}

int g4_row_write(struct g4_wg *wg, struct g4_set *set, const struct g4_row *row, uint32_t flags, uint64_t columns,
		 uint8_t *const *memory)
{
	return g4_row_drop(wg, set, row, g4_row_transfer(wg, set, row, G4_IO_WRITE, flags, columns, memory));
}

int g4_row_make_parity(struct g4_wg *wg, struct g4_set *set, const struct g4_row *rows, uint64_t given,
		       uint8_t *const *now)
{
	const uint32_t k = g4_chunk_data_columns(rows->chunk);
	const uint64_t kept = g4_row_mask(k) & ~given;
	uint8_t *memory[G4_ROW_COLUMNS];
	int rc = 0;

	if (kept) {
		g4_row_offset_columns(memory, set->parity->columns + G4_ROW_COLUMNS, rows->chunk->columns,
				      rows->within);
		for (uint32_t c = 0; c < k; c++)
			memory[c] = kept >> c & 1 ? now[c] : memory[c];
		rc = g4_row_read(wg, set, rows, kept, 0, memory);
	}
	if (rc == 0)
		g4_row_encode(wg, rows->chunk, now, rows->bytes);
	return rc;
}
