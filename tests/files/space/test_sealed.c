/* SPDX-License-Identifier: Apache-2.0 */
/* A sealed page is believed in its place, as what it is and of its file system, and with no bit changed. */
#include "files/files.h"

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

RUN_TESTS(cmocka_unit_test(each_thing_that_can_be_wrong_has_its_code))
