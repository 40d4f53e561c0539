/* SPDX-License-Identifier: Apache-2.0 */
/* Walks of block maps and directories: in order, each page once, and not below what is not entered. */
#include "files/fsck/checked.h"

#include "files/files.h"

static void a_walk_meets_all_pages_in_order(void **state)
{
	static struct g4_map_walk walk;
	const struct g4_map_item *item;
	struct g4_inode inode;
	uint64_t pages[4], count = 0;
	uint32_t indirect = 0;

	(void)state;
	check();
	assert_int_equal(g4_image_inode(&checked->image, checked->large, &inode), 0);
	g4_map_walk_start(&walk, &checked->image, checked->large, &inode);
	while ((item = g4_map_walk_next(&walk))->kind != G4_MAP_END) {
		if (item->kind == G4_MAP_INDIRECT) {
			assert_int_equal(g4_map_walk_enter(&walk), 0);
			indirect++;
			continue;
		}
		assert_int_equal(item->kind, G4_MAP_DATA);
		assert_true(count < 4);
		pages[count++] = item->file_page;
	}
	assert_int_equal(count, 2);
	assert_int_equal(pages[0], 0);
	assert_int_equal(pages[1], CHECKED_LARGE_PAGE);
	assert_int_equal(indirect, 2);
}

static void what_is_not_entered_is_skipped(void **state)
{
	static struct g4_map_walk walk;
	const struct g4_map_item *item;
	struct g4_inode inode;

	(void)state;
	check();
	assert_int_equal(g4_image_inode(&checked->image, checked->large, &inode), 0);
	g4_map_walk_start(&walk, &checked->image, checked->large, &inode);
	while ((item = g4_map_walk_next(&walk))->kind != G4_MAP_END)
		assert_int_equal(item->kind, G4_MAP_INDIRECT);
}

static bool count_entry(void *context, const struct g4_entry_view *view)
{
	uint32_t *count = (uint32_t *)context;

	assert_true(view->entry.inode != 0 && view->entry.name_bytes > 0);
	*count += 1;
	return false;
}

static void all_entries_of_a_directory_are_met(void **state)
{
	struct g4_dir_entry entry;
	uint32_t count = 0;
	bool found;

	(void)state;
	check();
	assert_int_equal(g4_image_each_entry(&checked->image, checked->dir, count_entry, &count, &found), 0);
	assert_false(found);
	assert_int_equal(count, CHECKED_FILES + 1);
	assert_int_equal(g4_image_find_entry(&checked->image, checked->dir, "another name", 12, &entry), 0);
	assert_int_equal(entry.inode, checked->linked);
}

RUN_TESTS(fsck_test(a_walk_meets_all_pages_in_order), fsck_test(what_is_not_entered_is_skipped),
	  fsck_test(all_entries_of_a_directory_are_met))
