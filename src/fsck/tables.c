/* SPDX-License-Identifier: Apache-2.0 */
/* The checker's memory: bitmaps over pages, hash tables, arrays that grow. */
#include <inttypes.h>
#include <stdlib.h>

#include "fsck/fsck.h"

static uint64_t slot_of(const struct g4_fsck_table *table, uint64_t key)
{
	uint64_t at = (key * UINT64_C(0x9e3779b97f4a7c15)) >> 20 & (table->room - 1);

	while (table->cells[at].key != 0 && table->cells[at].key != key)
		at = (at + 1) & (table->room - 1);
	return at;
}

struct g4_fsck_cell *g4_fsck_find(const struct g4_fsck_table *table, uint64_t key)
{
	if (table->room == 0)
		return NULL;
	struct g4_fsck_cell *cell = &table->cells[slot_of(table, key)];
	return cell->key == key ? cell : NULL;
}

static bool grow_table(struct g4_fsck_table *table)
{
	struct g4_fsck_table larger = {.room = table->room == 0 ? 1024 : 2 * table->room, .count = table->count};

	larger.cells = calloc(larger.room, sizeof(*larger.cells));
	if (larger.cells == NULL)
		return false;
	for (uint64_t i = 0; i < table->room; i++) {
		if (table->cells[i].key != 0)
			larger.cells[slot_of(&larger, table->cells[i].key)] = table->cells[i];
	}
	free(table->cells);
	*table = larger;
	return true;
}

struct g4_fsck_cell *g4_fsck_add(struct g4_fsck *fsck, struct g4_fsck_table *table, uint64_t key)
{
	if (table->count >= table->room / 4 * 3 && !grow_table(table)) {
		fsck->fatal = -G4_E_NOMEM;
		return NULL;
	}
	struct g4_fsck_cell *cell = &table->cells[slot_of(table, key)];
	if (cell->key == 0) {
		cell->key = key;
		table->count++;
	}
	return cell;
}

bool g4_fsck_reserve(struct g4_fsck *fsck, void **array, uint64_t count, uint64_t *room, size_t element_bytes)
{
	if (count < *room)
		return true;
	const uint64_t larger = *room == 0 ? 256 : 2 * *room;
	void *moved = realloc(*array, larger * element_bytes);
	if (moved == NULL) {
		fsck->fatal = -G4_E_NOMEM;
		return false;
	}
	*array = moved;
	*room = larger;
	return true;
}

static int compare_keys(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

uint64_t *g4_fsck_keys(struct g4_fsck *fsck, const struct g4_fsck_table *table, uint64_t *count)
{
	*count = 0;
	if (table->count == 0)
		return NULL;
	uint64_t *keys = malloc(table->count * sizeof(*keys));
	if (keys == NULL) {
		fsck->fatal = -G4_E_NOMEM;
		return NULL;
	}
	for (uint64_t i = 0; i < table->room; i++) {
		if (table->cells[i].key != 0)
			keys[(*count)++] = table->cells[i].key;
	}
	qsort(keys, *count, sizeof(*keys), compare_keys);
	return keys;
}

/* Bitmaps are read and set by several threads at once. */
bool g4_fsck_bit(const uint64_t *bitmap, uint64_t bit)
{
	return (__atomic_load_n(&bitmap[bit / 64], __ATOMIC_RELAXED) >> (bit % 64) & 1) != 0;
}

static bool set_bit(struct g4_fsck *fsck, uint64_t **bitmap, uint64_t page)
{
	if (*bitmap == NULL)
		*bitmap = calloc(fsck->bitmap_words, sizeof(uint64_t));
	if (*bitmap == NULL) {
		fsck->fatal = -G4_E_NOMEM;
		return false;
	}
	(*bitmap)[page / 64] |= UINT64_C(1) << page % 64;
	return true;
}

bool g4_fsck_set_bits(struct g4_fsck *fsck, uint64_t **bitmap, uint64_t first, uint64_t count)
{
	for (uint64_t page = first; page < first + count; page++) {
		if (!set_bit(fsck, bitmap, page))
			return false;
	}
	return true;
}

static bool set_word(struct g4_fsck *fsck, uint64_t **bitmap, uint64_t word, uint64_t bits)
{
	for (; bits != 0; bits &= bits - 1) {
		if (!set_bit(fsck, bitmap, word * 64 + (uint64_t)__builtin_ctzll(bits)))
			return false;
	}
	return true;
}

void g4_fsck_note_broken(struct g4_fsck *fsck, uint64_t address)
{
	const struct g4_layout *layout = &fsck->image->layout;

	if (fsck->repairing && address >= layout->data_address && address < layout->backup_address)
		g4_fsck_set_bits(fsck, &fsck->broken, address / G4_PAGE_BYTES, 1);
}

bool g4_fsck_claim(struct g4_fsck *fsck, uint64_t address, uint64_t pages, const struct g4_fsck_where *where,
		   const char *what)
{
	uint64_t first_shared = 0, shared = 0;
	const uint64_t first = address / G4_PAGE_BYTES, end = first + pages;

	for (uint64_t page = first; page < end; page = (page / 64 + 1) * 64) {
		const uint64_t count = g4_min64(end - page, 64 - page % 64);
		const uint64_t mask = (count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1) << page % 64;
		const uint64_t before = __atomic_fetch_or(&fsck->used[page / 64], mask, __ATOMIC_RELAXED);
		const uint64_t twice = before & mask;
		if (twice == 0)
			continue;
		if (shared == 0)
			first_shared = page / 64 * 64 + (uint64_t)__builtin_ctzll(twice);
		shared += (uint64_t)__builtin_popcountll(twice);
		if (fsck->repairing && !set_word(fsck, &fsck->shared, page / 64, twice))
			return false;
	}
	fsck->pages_met += pages - shared;
	g4_progress_step(&fsck->progress, fsck->pages_met + g4_fsck_met_by_others(fsck), fsck->pages_marked);
	if (shared == 0)
		return true;
	g4_fsck_problem(fsck, G4_FSCK_SHARED, where,
			"%s at 0x%" PRIx64 " (%" PRIu64 " of %" PRIu64 " pages) is in use for something else, too",
			what, first_shared * G4_PAGE_BYTES, shared, pages);
	return false;
}

bool g4_fsck_claim_metadata(struct g4_fsck *fsck, uint64_t address, const struct g4_fsck_where *where, const char *what)
{
	if (fsck->repairing)
		fsck->metadata[address / G4_PAGE_BYTES / 64] |= UINT64_C(1) << address / G4_PAGE_BYTES % 64;
	return g4_fsck_claim(fsck, address, 1, where, what);
}
