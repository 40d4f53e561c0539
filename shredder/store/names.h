/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of one directory in the order of their bytes, however many there are: sorted runs of those that are too many for memory go into a
 * file without a name, and are merged. Where there can be no such file they stay in memory.
 *
 * One thread's.
 */
#ifndef SHREDDER_STORE_NAMES_H
#define SHREDDER_STORE_NAMES_H

#include "store/store.h"

/* Memory for names unless somebody says otherwise: a million, about. */
#define STORE_NAMES_BYTES (16 * G4_MIB)

struct store_names;

/* 0: STORE_NAMES_BYTES. */
struct store_names *store_names_open(size_t memory_bytes);
/* NULL is allowed. */
void store_names_close(struct store_names *n);
/* At most STORE_NAME_MAX bytes of it count. None comes after the first store_names_next(). */
void store_names_add(struct store_names *n, const char *name);
/* 1 and the next name, once, until the next call; 0: there is none; IO. */
int store_names_next(struct store_names *n, const char **name);

#endif
