/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of directories: one of very many long names, all of which lead to one inode, in a cache that holds a small part of it. */
#ifndef LONG_NAMES_H
#define LONG_NAMES_H

#include "rig.h"

#include "dir/leaf.h"
#include "dir/shrink.h"
#include "fs/fs.h"
#include "simt/simt_host.h"

struct long_names {
	struct rig rig;
	struct g4_wg *wg;
	struct g4_fs *fs;
	struct g4_dir dir;
	uint64_t inode;
	uint32_t tail; /* bytes of a name behind its number */
};
extern struct long_names names;
int names_setup(void **state);
int names_teardown(void **state);
/* The same in so many bytes; 0: as setup has it. */
void names_begin(uint64_t bytes, uint64_t journal_bytes, uint64_t cache_bytes);
#define names_test(f) cmocka_unit_test_setup_teardown(f, names_setup, names_teardown)

/* Each checks that no more blocks change than were announced. */
void names_insert(uint32_t number);
void names_remove(uint32_t number);
int names_lookup(uint32_t number, struct g4_dir_slot *slot);
/* Levels above the leaves. */
uint32_t names_height(void);
/* Reads the leaf at `from`; numbers of its names to `numbers`. */
uint32_t names_read_leaf(uint64_t *from, uint32_t *numbers, uint64_t *positions);
/* 0 to count - 1, in some order. */
void names_shuffle(uint32_t *numbers, uint32_t count, uint64_t random);

#endif
