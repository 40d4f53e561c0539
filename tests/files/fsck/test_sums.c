/* SPDX-License-Identifier: Apache-2.0 */
/* Where sums are kept: a damaged page of them is given up, and the contents stay. */
#include "files/fsck/checked.h"

#include "files/files.h"

#include "format/sums.h"

static uint64_t find_sums(void)
{
	for (uint64_t at = 0; at < checked->rig.bytes; at += G4_PAGE_BYTES) {
		struct g4_sums_header header;
		g4_sums_extract((const struct g4_sums_page *)(const void *)(checked->rig.image + at), &header);
		if (header.header.magic == G4_BLOCK_MAGIC && header.header.type == G4_BLOCK_CHECKSUMS &&
		    header.header.address == at)
			return at;
	}
	return 0;
}

static void a_damaged_page_of_sums_is_given_up(void **state)
{
	(void)state;
	const uint64_t at = find_sums();
	if (at == 0) { /* G4_TEST_CHECKSUM=0 */
		skip();
		return;
	}
	checked->rig.image[at + 2000] ^= 4;
	expect_problem(G4_FSCK_SUMS);
	expect_repaired(NULL);
	expect_page(checked->large, 0);
	expect_page(checked->large, CHECKED_LARGE_PAGE);
}

RUN_TESTS(fsck_test(a_damaged_page_of_sums_is_given_up))
