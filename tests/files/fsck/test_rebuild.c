/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of several pages is built anew: names in pages that can be read stay, and no file is lost. */
#include "files/fsck/checked.h"

#include "files/files.h"

#include <sys/stat.h>

#define NAMES 300u

static uint64_t big, inos[NAMES];

static void make_big(void)
{
	char name[32];

	checked_mount();
	assert_int_equal(op_mkdir(&checked->rig, G4_NODE_ROOT, "big", 0755, &big), 0);
	for (uint32_t i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "name %u", i);
		assert_int_equal(op_mknod(&checked->rig, big, name, S_IFREG | 0644, &inos[i]), 0);
	}
	checked_unmount(true);
}

/* How many names are there; no file is lost. */
static uint32_t count_names(void)
{
	struct g4_attr attr;
	uint32_t named = 0;
	char name[32];

	checked_mount();
	for (uint32_t i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "name %u", i);
		named += op_lookup(&checked->rig, big, name, &attr) == 0;
		assert_int_equal(op_getattr(&checked->rig, inos[i], &attr), 0); /* perhaps in lost+found */
	}
	checked_unmount(true);
	return named;
}

static void no_file_is_lost_with_a_leaf(void **state)
{
	uint64_t outcome[3];

	(void)state;
	make_big();
	for (uint64_t at = 0, damaged = 0; damaged == 0; at += G4_PAGE_BYTES) { /* the first leaf of it that is met */
		const struct g4_dir_leaf *leaf = (const struct g4_dir_leaf *)(void *)(checked->rig.image + at);
		if (leaf->header.magic != G4_BLOCK_MAGIC || leaf->header.type != G4_BLOCK_DIR_LEAF ||
		    leaf->header.address != at)
			continue;
		for (uint32_t unit = G4_DIR_HEADER_UNITS; unit < G4_DIR_UNITS && damaged == 0; unit++)
			damaged = memcmp(checked->rig.image + at + unit * G4_DIR_UNIT_BYTES, "name ", 5) == 0;
		if (damaged)
			memset(checked->rig.image + at, 0, G4_PAGE_BYTES);
	}
	expect_problem(G4_FSCK_DIRECTORY);
	expect_repaired(outcome);
	assert_in_range(count_names(), 1, NAMES - 1);
}

/* The only one of the image that is whole. */
static struct g4_dir_index *index_page(void)
{
	for (uint64_t at = 0; at < checked->rig.bytes; at += G4_PAGE_BYTES) {
		struct g4_dir_index *index = (struct g4_dir_index *)(void *)(checked->rig.image + at);
		if (index->header.magic == G4_BLOCK_MAGIC && index->header.type == G4_BLOCK_DIR_INDEX &&
		    index->header.address == at)
			return index;
	}
	fail_msg("there is no index page");
	return NULL;
}

static void repair_all_names(void)
{
	uint64_t outcome[3];

	expect_problem(G4_FSCK_DIRECTORY);
	expect_repaired(outcome);
	assert_int_equal(count_names(), NAMES);
}

/* The index page of a directory is damaged, its leaves are whole: each name stays where it was. */
static void names_below_a_damaged_index_page_stay(void **state)
{
	(void)state;
	make_big();
	index_page()->reserved[3] ^= 1;
	repair_all_names();
}

/* Its checksum is right, what it says is not. */
static void names_below_an_index_page_out_of_order_stay(void **state)
{
	(void)state;
	make_big();
	struct g4_dir_index *index = index_page();
	const struct g4_dir_index_entry first = index->entries[0];
	index->entries[0] = index->entries[1];
	index->entries[1] = first;
	g4_block_seal(index, index->header.type, g4_address_from(index->header.address), index->header.generation,
		      index->header.fs_tag);
	repair_all_names();
}

RUN_TESTS(fsck_test(no_file_is_lost_with_a_leaf), fsck_test(names_below_a_damaged_index_page_stay),
	  fsck_test(names_below_an_index_page_out_of_order_stay))
