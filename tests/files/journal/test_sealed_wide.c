/* SPDX-License-Identifier: Apache-2.0 */
/* src/journal/sealed_wide.c: all lanes seal and verify as one does. */
#include "files/files.h"

#include "format/sums.h"
#include "journal/sealed_wide.h"

#define TAG 0x12345678u
#define GENERATION 77u
#define HERE g4_page_address(1234)

static uint8_t page[G4_PAGE_BYTES] __attribute__((aligned(64))), plain[G4_PAGE_BYTES] __attribute__((aligned(64)));

static const struct g4_sealed_about kinds[] = {{G4_BLOCK_DIR_LEAF, 0, 0, 0, 0},
					       {G4_BLOCK_INDIRECT, 2, 0, 0x123456789abc, 0x20304},
					       {G4_BLOCK_CHECKSUMS, 1, 3, 0xabcdef012345, 0}};

/* Contents as a cached page of the kind has them: nothing in spare bits, but where pages of sums are. */
static void fill(const struct g4_sealed_about *about, uint8_t *to)
{
	const struct g4_sums_places places = {
		{{1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}, {11, 12, 13, 14, 15}, {16, 17, 18, 19, 20}}};

	rig_pattern(to, 8 + about->type, G4_PAGE_BYTES);
	if (about->type == G4_BLOCK_INDIRECT) {
		g4_indirect_strip((g4_le64 *)(void *)to);
		g4_indirect_embed_places((g4_le64 *)(void *)to, &places);
	} else if (about->type == G4_BLOCK_CHECKSUMS) {
		g4_sums_strip((struct g4_sums_page *)(void *)to);
	}
}

static void seal_plainly(const struct g4_sealed_about *about, uint8_t *to)
{
	if (about->type == G4_BLOCK_INDIRECT) {
		g4_indirect_embed_below((g4_le64 *)(void *)to, about->below);
		g4_indirect_seal(to, about->inode, about->level, HERE, GENERATION, TAG);
	} else if (about->type == G4_BLOCK_CHECKSUMS)
		g4_sums_seal((struct g4_sums_page *)(void *)to, about->inode, about->level, about->quarter, HERE,
			     GENERATION, TAG);
	else
		g4_block_seal(to, about->type, HERE, GENERATION, TAG);
}

static int verify(uint32_t type, struct g4_address address, struct g4_sealed_about *about,
		  struct g4_sums_places *places)
{
	return g4_verify_wide(wg, page, type, address, TAG, about, places);
}

static void a_wide_seal_is_the_same(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		fill(&kinds[k], plain);
		memcpy(page, plain, sizeof(page));
		seal_plainly(&kinds[k], plain);
		const uint32_t crc = g4_seal_wide(wg, page, &kinds[k], HERE, GENERATION, TAG);
		assert_memory_equal(page, plain, sizeof(page));
		assert_int_equal(crc, g4_crc32c(0, page, sizeof(page)));
	}
}

static void what_was_sealed_verifies_and_is_bare(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		struct g4_sealed_about about;
		struct g4_sums_places places;
		fill(&kinds[k], page);
		seal_plainly(&kinds[k], page);
		assert_int_equal(verify(kinds[k].type, HERE, &about, &places), 0);
		assert_int_equal(about.type, kinds[k].type);
		assert_int_equal(about.inode, kinds[k].inode);
		assert_int_equal(about.level, kinds[k].level);
		assert_int_equal(about.quarter, kinds[k].quarter);
		assert_int_equal(about.below, kinds[k].below);
		if (kinds[k].type == G4_BLOCK_DIR_LEAF)
			continue;
		fill(&kinds[k], plain);
		if (kinds[k].type == G4_BLOCK_INDIRECT) {
			assert_int_equal(places.distance[2][3], 14);
			g4_indirect_strip((g4_le64 *)(void *)plain);
		}
		assert_memory_equal(page, plain, sizeof(page));
	}
}

/* In each byte of the page one bit, and the header's own checksum among them. */
static void a_flipped_bit_is_found(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (uint32_t byte = 0; byte < G4_PAGE_BYTES; byte++) {
			struct g4_sealed_about about;
			struct g4_sums_places places;
			fill(&kinds[k], page);
			seal_plainly(&kinds[k], page);
			page[byte] ^= (uint8_t)(1u << byte % 8);
			assert_int_equal(verify(kinds[k].type, HERE, &about, &places), -G4_E_CHECKSUM);
		}
}

static void a_page_of_another_place_or_kind_is_told(void **state)
{
	struct g4_sealed_about about;
	struct g4_sums_places places;

	(void)state;
	for (uint32_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		fill(&kinds[k], page);
		seal_plainly(&kinds[k], page);
		assert_int_equal(verify(kinds[k].type, g4_page_address(1), &about, &places), -G4_E_MISDIRECTED);
	}
	fill(&kinds[0], page);
	seal_plainly(&kinds[0], page);
	assert_int_equal(verify(G4_BLOCK_SLAB, HERE, &about, &places), -G4_E_TYPE);
}

RUN_TESTS(fs_test(a_wide_seal_is_the_same), fs_test(what_was_sealed_verifies_and_is_bare),
	  fs_test(a_flipped_bit_is_found), fs_test(a_page_of_another_place_or_kind_is_told))
