/* SPDX-License-Identifier: Apache-2.0 */
/* Metadata pages: those whose header is spread over pointers or sums are sealed, verified and stripped; others are not believed. */
#include "files/files.h"

#include "journal/block.h"

#define HERE g4_page_address(1234)
#define TAG 0x77u

static _Alignas(64) uint8_t page[G4_PAGE_BYTES], copy[G4_PAGE_BYTES];

static void pointers_survive_their_header(void **state)
{
	struct g4_indirect_header header;
	g4_le64 slots[G4_INDIRECT_SLOTS];
	uint64_t generation;

	(void)state;
	for (uint32_t i = 0; i < G4_INDIRECT_SLOTS; i++)
		slots[i] = g4_ptr_make(g4_page_address(i + 1), G4_TAG_4K, i % 2 ? G4_PTR_VALID : 0);
	memcpy(page, slots, sizeof(page));
	g4_indirect_seal(page, 42, 2, HERE, 9, TAG);
	memcpy(copy, page, sizeof(copy));
	assert_true(g4_block_is_whole(copy, HERE, TAG, &generation));
	assert_int_equal(generation, 9);
	memcpy(copy, page, sizeof(copy));
	assert_int_equal(g4_indirect_verify(copy, HERE, TAG, &header), 0);
	assert_memory_equal(copy, slots, sizeof(slots));
	assert_int_equal(header.inode, 42);
	assert_int_equal(header.level, 2);
	memcpy(copy, page, sizeof(copy));
	assert_int_equal(g4_indirect_verify(copy, g4_page_address(1), TAG, &header), -G4_E_MISDIRECTED);
	memcpy(copy, page, sizeof(copy));
	copy[100] ^= 4;
	assert_int_equal(g4_indirect_verify(copy, HERE, TAG, &header), -G4_E_CHECKSUM);
	memcpy(copy, page, sizeof(copy));
	assert_false(g4_block_is_whole(copy, HERE, TAG + 1, &generation));
}

static void a_page_of_another_kind_is_not_taken(void **state)
{
	const struct g4_address root = g4_layout_root(&fs->meta.layout);
	uint32_t line, again;

	(void)state;
	assert_int_equal(g4_meta_get(wg, &fs->meta, root, G4_BLOCK_ROOT, &line), 0);
	assert_int_equal(g4_meta_get_near(wg, &fs->meta, root, G4_BLOCK_ROOT, line, &again), 0);
	assert_int_equal(again, line);
	g4_cache_put(&fs->cache, line);
	g4_cache_put(&fs->cache, again);
	assert_true(g4_meta_get(wg, &fs->meta, root, G4_BLOCK_SLAB, &line) < 0);
}

static bool is_cached(struct g4_address address)
{
	const uint32_t line = g4_cache_find(&fs->cache, 0, g4_address_page(address));

	if (line != G4_NO_LINE)
		g4_cache_put(&fs->cache, line);
	return line != G4_NO_LINE;
}

/* Those that are right stay, whatever the others are; a mount has read some so. */
static void pages_are_read_together(void **state)
{
	const struct g4_layout *layout = &fs->meta.layout;
	const struct g4_address empty = g4_page_address(g4_address_page(g4_layout_data(layout)) + 3000);
	const struct g4_meta_wanted wanted[] = {
		{empty, G4_BLOCK_SLAB}, /* nothing is there */
		{g4_page_address(UINT64_MAX / G4_PAGE_BYTES), G4_BLOCK_SLAB},
		{g4_layout_root(layout), G4_BLOCK_SLAB}, /* it is cached, and of another kind */
		{g4_layout_data(layout), G4_BLOCK_SLAB},
	};
	uint32_t line;

	(void)state;
	assert_true(is_cached(g4_layout_root(layout)) && is_cached(g4_layout_data(layout)) &&
		    is_cached(g4_layout_map_page(layout, 0)) && is_cached(g4_layout_groups_page(layout, 0)));
	g4_meta_read_together(wg, &fs->meta, wanted, sizeof(wanted) / sizeof(wanted[0]));
	assert_false(is_cached(empty));
	assert_int_equal(g4_meta_get(wg, &fs->meta, g4_layout_root(layout), G4_BLOCK_ROOT, &line), 0);
	g4_cache_put(&fs->cache, line);
	assert_int_equal(g4_meta_get(wg, &fs->meta, g4_layout_data(layout), G4_BLOCK_SLAB, &line), 0);
	g4_cache_put(&fs->cache, line);
}

RUN_TESTS(cmocka_unit_test(pointers_survive_their_header), fs_test(a_page_of_another_kind_is_not_taken),
	  fs_test(pages_are_read_together))
