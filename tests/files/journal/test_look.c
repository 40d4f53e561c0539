/* SPDX-License-Identifier: Apache-2.0 */
/* Looking past the cache: a page is as it was written, is going to be written, or what is wrong with it is told. */
#include "files/files.h"

static _Alignas(4096) uint8_t page[G4_PAGE_BYTES];

/* Everything is home afterwards. */
static uint8_t *home_of_root(struct g4_address *root)
{
	*root = g4_layout_root(&fs->meta.layout);
	assert_int_equal(g4_commit(wg, fs, UINT64_MAX, true), 0);
	return rig.image + g4_address_stored(*root);
}

static void a_page_is_found_as_it_was_written(void **state)
{
	struct g4_address root;
	const uint8_t *home = home_of_root(&root);

	(void)state;
	assert_int_equal(g4_journal_look(wg, &fs->journal, root, G4_BLOCK_ROOT, page), 0);
	assert_memory_equal(page, home, G4_PAGE_BYTES);
}

static void damage_is_told(void **state)
{
	struct g4_address root;
	uint8_t *home = home_of_root(&root);

	(void)state;
	home[3000] ^= 1;
	assert_int_equal(g4_journal_look(wg, &fs->journal, root, G4_BLOCK_ROOT, page), -G4_E_CHECKSUM);
	home[3000] ^= 1;
	assert_int_equal(g4_journal_look(wg, &fs->journal, root, G4_BLOCK_SLAB, page), -G4_E_TYPE);
	assert_int_equal(g4_journal_look(wg, &fs->journal, g4_address_after_pages(root, 1), G4_BLOCK_ROOT, page) < 0,
			 1);
	assert_int_equal(g4_journal_look(wg, &fs->journal, root, G4_BLOCK_ROOT, page), 0);
}

/* A home that is old or half written is no damage while the page is in a transaction or waits for its checkpoint. */
static void what_is_on_its_way_is_no_damage(void **state)
{
	struct g4_address root;
	uint8_t *home = home_of_root(&root);
	struct g4_txn txn;
	uint32_t line;

	(void)state;
	assert_int_equal(g4_begin(wg, fs, 2, &txn), 0);
	assert_int_equal(g4_meta_get(wg, &fs->meta, root, G4_BLOCK_ROOT, &line), 0);
	g4_txn_dirty(&txn, line);
	g4_cache_put(&fs->cache, line);
	assert_int_equal(g4_end(fs, &txn, 0), 0);
	home[3000] ^= 1;
	assert_int_equal(g4_journal_look(wg, &fs->journal, root, G4_BLOCK_ROOT, page), 1);
	assert_int_equal(g4_commit(wg, fs, UINT64_MAX, false), 0);
	assert_int_equal(g4_journal_look(wg, &fs->journal, root, G4_BLOCK_ROOT, page), 1);
	assert_int_equal(g4_commit(wg, fs, UINT64_MAX, true), 0);
	assert_int_equal(g4_journal_look(wg, &fs->journal, root, G4_BLOCK_ROOT, page), 0);
}

RUN_TESTS(fs_test(a_page_is_found_as_it_was_written), fs_test(damage_is_told), fs_test(what_is_on_its_way_is_no_damage))
