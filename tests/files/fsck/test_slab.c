/* SPDX-License-Identifier: Apache-2.0 */
/* A damaged slab: the inodes that can be read stay. */
#include "files/fsck/checked.h"

#include "files/files.h"

static void inodes_of_a_damaged_slab_are_kept(void **state)
{
	uint64_t outcome[3];

	(void)state;
	const uint64_t ino = checked->files[20];
	checked->rig.image[page_of(ino) + 100] ^= 1; /* of the header's slot, behind the header */
	expect_problem(G4_FSCK_SLAB);
	expect_repaired(outcome);
	assert_true(outcome[G4_FSCK_DOUBTFUL] > 0);
	expect_page(ino, 0);
}

static void a_wrong_bit_in_the_map_is_found(void **state)
{
	const uint64_t page = page_of(checked->files[20]) / G4_PAGE_BYTES;
	struct g4_alloc_page *map = damage_map(&checked->rig, page_of(checked->files[20]));

	(void)state;
	map->regions[page % G4_GROUP_PAGES / G4_REGION_PAGES].slab[page % G4_REGION_PAGES / 64] ^= UINT64_C(1)
												   << page % 64;
	damage_seal(&checked->rig, (uint64_t)((uint8_t *)map - checked->rig.image));
	expect_problem(G4_FSCK_SLAB_BIT);
	expect_repaired(NULL);
	expect_page(checked->files[20], 0);
}

RUN_TESTS(fsck_test(inodes_of_a_damaged_slab_are_kept), fsck_test(a_wrong_bit_in_the_map_is_found))
