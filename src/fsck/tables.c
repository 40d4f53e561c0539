/* SPDX-License-Identifier: Apache-2.0 */
/* The checker's memory: bitmaps over pages, hash tables, arrays that grow. */
#include <inttypes.h>
#include <stdlib.h>

#include "fsck/tables.h"

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

int g4_fsck_compare_numbers(const void *a, const void *b)
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
	qsort(keys, *count, sizeof(*keys), g4_fsck_compare_numbers);
	return keys;
}

/* Bitmaps are read and set by several threads at once. */
bool g4_fsck_bit(const uint64_t *bitmap, uint64_t bit)
{
	return (__atomic_load_n(&bitmap[bit / 64], __ATOMIC_RELAXED) >> (bit % 64) & 1) != 0;
}

void g4_fsck_set_bit(uint64_t *bitmap, uint64_t bit)
{
	bitmap[bit / 64] |= UINT64_C(1) << bit % 64;
}

void g4_fsck_clear_bit(uint64_t *bitmap, uint64_t bit)
{
	bitmap[bit / 64] &= ~(UINT64_C(1) << bit % 64);
}

bool g4_fsck_set_bits(struct g4_fsck *fsck, uint64_t **bitmap, uint64_t first, uint64_t count)
{
	if (*bitmap == NULL)
		*bitmap = calloc(fsck->bitmap_words, sizeof(uint64_t));
	if (*bitmap == NULL) {
		fsck->fatal = -G4_E_NOMEM;
		return false;
	}
	for (uint64_t bit = first; bit < first + count; bit++)
		g4_fsck_set_bit(*bitmap, bit);
	return true;
}
