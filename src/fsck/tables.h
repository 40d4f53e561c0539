/* SPDX-License-Identifier: Apache-2.0 */
/* The checker's memory: bitmaps over pages, hash tables, arrays that grow. */
#ifndef G4_FSCK_TABLES_H
#define G4_FSCK_TABLES_H

#include "fsck/fsck_types.h"

struct g4_fsck_cell *g4_fsck_find(const struct g4_fsck_table *table, uint64_t key);
/* The cell of key, made when there is none; NULL for lack of memory. Other cells' addresses change. */
struct g4_fsck_cell *g4_fsck_add(struct g4_fsck *fsck, struct g4_fsck_table *table, uint64_t key);
/* Room for one more; false for lack of memory. */
bool g4_fsck_reserve(struct g4_fsck *fsck, void **array, uint64_t count, uint64_t *room, size_t element_bytes);
/* Of two uint64_t, for qsort(). */
int g4_fsck_compare_numbers(const void *a, const void *b);
/* The keys in ascending order, malloc'ed; NULL when there are none or for lack of memory. */
uint64_t *g4_fsck_keys(struct g4_fsck *fsck, const struct g4_fsck_table *table, uint64_t *count);
bool g4_fsck_bit(const uint64_t *bitmap, uint64_t bit);
/* One bit of a bitmap that is there; not for bitmaps that other threads use, too. */
void g4_fsck_set_bit(uint64_t *bitmap, uint64_t bit);
void g4_fsck_clear_bit(uint64_t *bitmap, uint64_t bit);
/* Sets bits of a bitmap over pages, which is made when it is NULL; false for lack of memory. */
bool g4_fsck_set_bits(struct g4_fsck *fsck, uint64_t **bitmap, uint64_t first, uint64_t count);

#endif
