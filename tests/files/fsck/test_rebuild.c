/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of several pages is built anew: names in pages that can be read stay, and no file is lost. */
#include "files/fsck/checked.h"

#include "files/files.h"

#include <sys/stat.h>

#define NAMES 300u

static void no_file_is_lost_with_a_leaf(void **state)
{
	uint64_t big, inos[NAMES], outcome[3];
	uint32_t named = 0;
	struct g4_attr attr;
	char name[32];

	(void)state;
	checked_mount();
	assert_int_equal(op_mkdir(&checked->rig, G4_NODE_ROOT, "big", 0755, &big), 0);
	for (uint32_t i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "name %u", i);
		assert_int_equal(op_mknod(&checked->rig, big, name, S_IFREG | 0644, &inos[i]), 0);
	}
	checked_unmount(true);
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
	checked_mount();
	for (uint32_t i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "name %u", i);
		named += op_lookup(&checked->rig, big, name, &attr) == 0;
		assert_int_equal(op_getattr(&checked->rig, inos[i], &attr), 0); /* perhaps in lost+found */
	}
	checked_unmount(true);
	assert_in_range(named, 1, NAMES - 1);
}

RUN_TESTS(fsck_test(no_file_is_lost_with_a_leaf))
