/* SPDX-License-Identifier: Apache-2.0 */
/* A table of sums, half full at most. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

uint32_t *table_find(struct table *table, uint64_t key)
{
	key |= key == 0;
	if (table->room == 0)
		return NULL;
	for (uint64_t at = key & (table->room - 1);; at = (at + 1) & (table->room - 1)) {
		if (table->slots[at].key == key)
			return &table->slots[at].value;
		if (table->slots[at].key == 0)
			return NULL;
	}
}

static void put(struct table *table, uint64_t key, uint32_t value)
{
	uint64_t at = key & (table->room - 1);

	while (table->slots[at].key != 0)
		at = (at + 1) & (table->room - 1);
	table->slots[at].key = key;
	table->slots[at].value = value;
	table->count++;
}

void table_add(struct table *table, uint64_t key, uint32_t value)
{
	if (2 * (table->count + 1) > table->room) {
		struct table old = *table;
		table->room = old.room ? 2 * old.room : 4096;
		table->count = 0;
		table->slots = calloc(table->room, sizeof(table->slots[0]));
		if (!table->slots)
			abort();
		for (uint64_t k = 0; k < old.room; k++)
			if (old.slots[k].key)
				put(table, old.slots[k].key, old.slots[k].value);
		free(old.slots);
	}
	put(table, key | (key == 0), value);
}

void table_clear(struct table *table)
{
	free(table->slots);
	memset(table, 0, sizeof(*table));
}
