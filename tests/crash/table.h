/* SPDX-License-Identifier: Apache-2.0 */
/* A table of sums. Not thread-safe. */
#ifndef CRASH_TABLE_H
#define CRASH_TABLE_H

#include <stdint.h>

struct table { /* open addressing */
	struct {
		uint64_t key;
		uint32_t value;
	} * slots;
	uint64_t room, count;
};

uint32_t *table_find(struct table *table, uint64_t key); /* NULL: not there */
void table_add(struct table *table, uint64_t key, uint32_t value);
void table_clear(struct table *table);

#endif
