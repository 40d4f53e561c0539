/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of files in the cache: zeros where nothing is stored, and each page once. */
#include "files/files.h"

#define PAGES 40u

static void a_hole_is_zeros_and_comes_once(void **state)
{
	const struct held held = files_hold("f");
	uint32_t line, again;

	(void)state;
	assert_int_equal(op_truncate(&rig, held.ino, PAGES * G4_PAGE_BYTES), 0);
	g4_read_lock(&held.inode->lock);
	assert_int_equal(g4_pages_absent(wg, fs, held.inode, 0, PAGES), PAGES);
	assert_int_equal(g4_page_get(wg, fs, held.inode, 7, &line), 0);
	const uint8_t *data = g4_line_data(&fs->cache, line);
	for (uint32_t i = 0; i < G4_PAGE_BYTES; i++)
		assert_int_equal(data[i], 0);
	assert_int_equal(g4_page_get(wg, fs, held.inode, 7, &again), 0);
	assert_int_equal(again, line);
	assert_int_equal(g4_pages_absent(wg, fs, held.inode, 0, PAGES), 7);
	assert_int_equal(g4_pages_absent(wg, fs, held.inode, 7, PAGES), 0);
	g4_read_unlock(&held.inode->lock);
	g4_cache_put(&fs->cache, line);
	g4_cache_put(&fs->cache, again);
	files_let_go(held);
}

static void a_run_is_read_up_to_what_is_there(void **state)
{
	uint8_t *data = rig_memory(PAGES * G4_PAGE_BYTES, 3);
	const uint64_t ino = rig_make_file(&rig, "f", 0, data, PAGES * G4_PAGE_BYTES);
	struct g4_run run;
	uint32_t index, line, there, pages;

	(void)state;
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(g4_icache_get(wg, fs, ino, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	g4_cache_drop_range(&fs->cache, inode->data_key, 0, PAGES);
	g4_read_lock(&inode->lock);
	assert_int_equal(g4_page_get(wg, fs, inode, 10, &there), 0);
	assert_int_equal(g4_map_lookup(wg, fs, inode, 0, PAGES, &run), 0);
	assert_int_equal(run.pages, PAGES);
	assert_int_equal(g4_fill_run(wg, fs, inode, 0, &run, &line, &pages), 0);
	assert_int_equal(pages, 10);
	assert_memory_equal(g4_line_data(&fs->cache, line), data, G4_PAGE_BYTES);
	g4_read_unlock(&inode->lock);
	g4_cache_put(&fs->cache, there);
	g4_cache_put(&fs->cache, line);
	g4_icache_put(fs, index);
	free(data);
}

RUN_TESTS(fs_test(a_hole_is_zeros_and_comes_once), fs_test(a_run_is_read_up_to_what_is_there))
