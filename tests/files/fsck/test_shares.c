/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of owners are compared with the pointers that were met, and rebuilt from them. */
#include "files/fsck/checked.h"

#include "files/files.h"

#include "format/owners.h"

static struct g4_owners_page *find_owners(void)
{
	for (uint64_t at = 0; at < checked->rig.bytes; at += G4_PAGE_BYTES) {
		struct g4_owners_page *page = (struct g4_owners_page *)(void *)(checked->rig.image + at);
		if (page->header.magic == G4_BLOCK_MAGIC && page->header.type == G4_BLOCK_OWNERS &&
		    page->header.address == at)
			return page;
	}
	fail_msg("no counts of owners");
	return NULL;
}

/* The first page of one file becomes another one's, too; the counts are on the device then. */
static uint32_t share_a_page(struct g4_owners_page **owners)
{
	uint64_t from, to, done;
	uint32_t page = 0;

	checked_mount();
	assert_int_equal(op_open(&checked->rig, checked->files[1], G4_OPEN_READ, &from), 0);
	assert_int_equal(op_open(&checked->rig, checked->linked, G4_OPEN_WRITE, &to), 0);
	assert_int_equal(op_copy(&checked->rig, from, 0, to, 0, G4_PAGE_BYTES, &done), 0);
	assert_int_equal(done, G4_PAGE_BYTES);
	assert_int_equal(op_release(&checked->rig, from), 0);
	assert_int_equal(op_release(&checked->rig, to), 0);
	checked_unmount(true);
	expect_problems(G4_FSCK_OWNERS, 0);
	*owners = find_owners();
	while ((*owners)->more[page] == 0)
		page++;
	return page;
}

static void a_wrong_count_is_found_and_set_right(void **state)
{
	struct g4_owners_page *owners;
	const uint32_t page = share_a_page(&owners);

	(void)state;
	owners->more[page] += 3;
	damage_seal(&checked->rig, (uint64_t)((uint8_t *)owners - checked->rig.image));
	expect_problem(G4_FSCK_OWNERS);
	expect_repaired(NULL);
	expect_page(checked->files[1], 0);
}

static void a_damaged_page_of_counts_is_rebuilt(void **state)
{
	struct g4_owners_page *owners;
	const uint32_t page = share_a_page(&owners);

	(void)state;
	owners->more[page] ^= 16; /* its checksum tells */
	expect_problem(G4_FSCK_OWNERS);
	expect_repaired(NULL);
	expect_page(checked->files[1], 0);
}

RUN_TESTS(fsck_test(a_wrong_count_is_found_and_set_right), fsck_test(a_damaged_page_of_counts_is_rebuilt))
