/* SPDX-License-Identifier: Apache-2.0 */
/* A sealed page is believed in its place, as what it is and of its file system, and with no bit changed. */
#include "files/files.h"

#include "hash/crc32c.h"
#include "space/sealed.h"

static _Alignas(8) uint8_t page[G4_PAGE_BYTES];

static void each_thing_that_can_be_wrong_has_its_code(void **state)
{
	const struct g4_address here = g4_page_address(77);

	(void)state;
	rig_pattern(page, 2, sizeof(page));
	g4_block_seal(page, G4_BLOCK_SLAB, here, 5, 0xabcd);
	assert_int_equal(g4_block_verify(page, G4_BLOCK_SLAB, here, 0xabcd), 0);
	assert_int_equal(((const struct g4_block_header *)(const void *)page)->generation, 5);
	assert_int_equal(g4_block_verify(page, G4_BLOCK_ROOT, here, 0xabcd), -G4_E_TYPE);
	assert_int_equal(g4_block_verify(page, G4_BLOCK_SLAB, g4_page_address(78), 0xabcd), -G4_E_MISDIRECTED);
	assert_int_equal(g4_block_verify(page, G4_BLOCK_SLAB, here, 0xabce), -G4_E_CHECKSUM);
	for (uint32_t byte = 0; byte < G4_PAGE_BYTES; byte += 97) {
		page[byte] ^= 0x10;
		assert_int_equal(g4_block_verify(page, G4_BLOCK_SLAB, here, 0xabcd), -G4_E_CHECKSUM);
		page[byte] ^= 0x10;
	}
	assert_int_equal(g4_block_verify(page, G4_BLOCK_SLAB, here, 0xabcd), 0);
}

/* A page of a slab as it was written by a transaction, with contents of that. */
static void seal_as(uint8_t *to, uint64_t number, uint64_t generation)
{
	memset(to, 0, G4_PAGE_BYTES);
	rig_pattern(to + 512, number, 1024);
	to[600] ^= (uint8_t)generation;
	g4_block_seal(to, G4_BLOCK_SLAB, g4_page_address(number), generation, 0xabcd);
}

/*
 * What parity makes of a page beside one that has missed a write is the sum of three whole pages, and so is its CRC. One in 32 768 is
 * taken for a page; these are always the same, so the number of them never changes.
 */
static void a_sum_of_three_pages_is_no_page(void **state)
{
	static uint8_t before[G4_PAGE_BYTES], after[G4_PAGE_BYTES];
	uint32_t taken = 0;

	(void)state;
	for (uint64_t turn = 0; turn < 3000; turn++) {
		const uint64_t number = 100 + turn % 37;
		seal_as(page, number, 1000 + turn % 11);
		seal_as(before, number + 16, 900 + turn);
		seal_as(after, number + 16, 900 + turn + 1 + turn % 5);
		for (uint32_t byte = 0; byte < G4_PAGE_BYTES; byte++)
			page[byte] ^= (uint8_t)(before[byte] ^ after[byte]);
		taken += g4_block_verify(page, G4_BLOCK_SLAB, g4_page_address(number), 0xabcd) == 0;
	}
	assert_true(taken <= 1);
}

/* As versions before wrote it: without a check. */
static void a_page_without_a_check_is_one(void **state)
{
	const struct g4_address here = g4_page_address(77);
	struct g4_block_header *header = (struct g4_block_header *)(void *)page;

	(void)state;
	seal_as(page, 77, 5);
	assert_int_not_equal(header->check, 0);
	for (uint32_t other = 0; other < 2; other++) {
		header->check = (uint16_t)(other * (header->check ^ 1u));
		header->crc32c = 0;
		header->crc32c = g4_crc32c(0, page, G4_PAGE_BYTES);
		assert_int_equal(g4_block_verify(page, G4_BLOCK_SLAB, here, 0xabcd), other ? -G4_E_CHECKSUM : 0);
		seal_as(page, 77, 5);
	}
}

RUN_TESTS(cmocka_unit_test(each_thing_that_can_be_wrong_has_its_code),
	  cmocka_unit_test(a_sum_of_three_pages_is_no_page), cmocka_unit_test(a_page_without_a_check_is_one))
