/* SPDX-License-Identifier: Apache-2.0 */
/* What a repair leaves for its end: tasks, names, and pages that nothing uses. */
#include "files/fsck/checked.h"

#include "files/files.h"

#include "fsck/plan.h"

static bool is_used(uint64_t page)
{
	return (checked->fsck.alloc_used[page / 64] >> page % 64 & 1) != 0;
}

static void room_is_aligned_free_and_given_once(void **state)
{
	const uint64_t sizes[] = {1, 1, 8, 512};
	uint64_t ends = 0;

	(void)state;
	check();
	for (uint32_t k = 0; k < 4; k++) {
		const struct g4_address address = g4_fsck_find_room(&checked->fsck, sizes[k]);
		assert_false(g4_address_is_none(address));
		const uint64_t page = g4_address_page(address);
		assert_int_equal(page % sizes[k], 0);
		assert_true(page >= ends); /* none of it was given before */
		for (uint64_t i = 0; i < sizes[k]; i++)
			assert_false(is_used(page + i));
		ends = page + sizes[k];
	}
	assert_false(checked->fsck.no_room);
	assert_true(g4_address_is_none(g4_fsck_find_room(&checked->fsck, UINT64_C(1) << 20)));
	assert_true(checked->fsck.no_room);
}

static void a_directory_is_rebuilt_once(void **state)
{
	struct g4_fsck_task task = {.kind = G4_FSCK_REBUILD, .ino = checked->dir};

	(void)state;
	check();
	g4_fsck_add_task(&checked->fsck, &task);
	task.missing = true;
	g4_fsck_add_task(&checked->fsck, &task);
	assert_int_equal(checked->fsck.task_count, 1);
	assert_true(checked->fsck.tasks[0].missing);
	task.ino = checked->root;
	g4_fsck_add_task(&checked->fsck, &task);
	task.kind = G4_FSCK_CONNECT;
	g4_fsck_add_task(&checked->fsck, &task);
	g4_fsck_add_task(&checked->fsck, &task);
	assert_int_equal(checked->fsck.task_count, 4);
}

RUN_TESTS(fsck_test(room_is_aligned_free_and_given_once), fsck_test(a_directory_is_rebuilt_once))
