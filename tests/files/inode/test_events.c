/* SPDX-License-Identifier: Apache-2.0 */
/* What was found damaged is told in order, and what nobody takes in time is counted. */
#include "files/files.h"

static void events_come_in_order_and_those_without_room_are_counted(void **state)
{
	struct g4_event event = {.code = G4_E_DATA};

	(void)state;
	assert_false(g4_event_take(fs, &event));
	for (event.page = 0; event.page < G4_EVENTS + 5; event.page++)
		g4_event_post(wg, fs, &event);
	assert_int_equal(fs->damaged_pages, G4_EVENTS + 5);
	assert_int_equal(fs->events.lost, 5);
	assert_int_equal(fs->events.last.page, G4_EVENTS + 4);
	for (uint64_t page = 0; page < G4_EVENTS; page++) {
		assert_true(g4_event_take(fs, &event));
		assert_int_equal(event.page, page);
	}
	assert_false(g4_event_take(fs, &event));
}

RUN_TESTS(fs_test(events_come_in_order_and_those_without_room_are_counted))
