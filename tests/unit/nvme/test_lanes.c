/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lanes make of completions that they take together: each ends the slot that waits for it, once, with its status; what nobody
 * waits for ends nothing. The controller is the test. (With threads and a controller that is one: test_emulated.c, test_recovery.c.)
 */
#include "dev/nvme/lanes.h"
#include "unit/nvme/queue_memory.h"

#define SLOTS 4u

static struct g4_nvme_lanes lanes __attribute__((aligned(128)));
static struct g4_nvme_talk talk;

static int setup(void **state)
{
	(void)state;
	memset(&lanes, 0, sizeof(lanes));
	memset(&talk, 0, sizeof(talk));
	begin_queue_memory(&lanes.flight.pair);
	lanes.flight.count = SLOTS;
	lanes.flight.cache = &lanes.cache;
	lanes.talk = &talk;
	lanes.timeout_ns = UINT64_MAX / 2;
	lanes.block_shift = 9;
	return 0;
}

static uint32_t post(uint32_t slot, uint32_t op)
{
	const struct g4_remote_request request = {.op = op, .offset_bytes = slot * 4096, .bytes = 4096};
	int32_t code;

	g4_nvme_lanes_post(&lanes, slot, &request);
	assert_false(g4_nvme_lanes_ended(&lanes, slot, &code));
	return next_command()->id;
}

static bool has_ended(uint32_t slot, int32_t expected)
{
	int32_t code;

	if (!g4_nvme_lanes_ended(&lanes, slot, &code))
		return false;
	assert_int_equal(code, expected);
	return true;
}

static uint32_t take(uint32_t own)
{
	return g4_nvme_lanes_take(&lanes, 1, own);
}

/* Reads, writes and flushes, in another order than they were sent, over turns of the queue. */
static void completions_that_are_taken_together_end_all(void **state)
{
	static const uint32_t ops[SLOTS] = {G4_IO_READ, G4_IO_WRITE, G4_IO_FLUSH, G4_IO_READ};
	uint32_t ids[SLOTS];

	(void)state;
	for (uint32_t round = 0; round < 5 * ENTRIES; round++) {
		const uint32_t count = 1 + round % SLOTS;

		for (uint32_t i = 0; i < count; i++)
			ids[i] = post(i, ops[i]);
		assert_int_equal(take(0), 0);
		for (uint32_t i = count; i-- > 0;)
			answer(ids[i], G4_NVME_OK);
		assert_int_equal(take(round % 2 ? 0 : G4_NVME_NO_SLOT), count);
		for (uint32_t i = 0; i < count; i++)
			assert_true(has_ended(i, 0));
	}
	assert_int_equal(lanes.flight.counts.stray, 0);
	assert_int_equal(lanes.flight.counts.completed, 5 * ENTRIES * (1 + SLOTS) / 2);
}

static void the_same_completion_twice_ends_its_slot_once(void **state)
{
	(void)state;
	const uint32_t first = post(0, G4_IO_READ), second = post(1, G4_IO_WRITE);
	answer(first, G4_NVME_OK);
	answer(first, G4_NVME_OK);
	answer(second, G4_NVME_OK);
	answer(second, G4_NVME_OK);
	answer(0xfffe, G4_NVME_OK);
	assert_int_equal(take(G4_NVME_NO_SLOT), 2);
	assert_true(has_ended(0, 0) && has_ended(1, 0));
	assert_int_equal(lanes.flight.counts.stray, 3);
	assert_int_equal(lanes.flight.counts.completed, 2);
}

/* Nor does one of a command that the slot had before. */
static void an_old_completion_ends_nothing(void **state)
{
	(void)state;
	const uint32_t old = post(2, G4_IO_READ);
	answer(old, G4_NVME_OK);
	assert_int_equal(take(2), 1);
	post(2, G4_IO_READ);
	answer(old, G4_NVME_OK);
	assert_int_equal(take(2), 0);
	assert_false(has_ended(2, 0));
	assert_int_equal(lanes.flight.counts.stray, 1);
}

static void an_error_is_tried_again_beside_others_that_end(void **state)
{
	(void)state;
	const uint32_t good = post(0, G4_IO_READ), bad = post(1, G4_IO_READ), worse = post(2, G4_IO_WRITE);
	answer(bad, G4_NVME_READ_FAULT);
	answer(good, G4_NVME_OK);
	answer(worse, G4_NVME_READ_ONLY | G4_NVME_DNR);
	assert_int_equal(take(1), 2);
	assert_true(has_ended(0, 0) && has_ended(2, -G4_E_DEV_READONLY));
	assert_false(has_ended(1, 0));
	for (uint32_t tries = 1; tries < G4_NVME_TRIES; tries++) {
		const struct g4_nvme_command *again = next_command();
		assert_non_null(again);
		assert_int_equal(again->id & 0xff, 1);
		assert_int_equal(again->dword10, 8);
		answer(again->id, G4_NVME_READ_FAULT);
		assert_int_equal(take(1), tries == G4_NVME_TRIES - 1);
	}
	assert_true(has_ended(1, -G4_E_IO));
	assert_null(next_command());
}

#define lanes_test(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		lanes_test(completions_that_are_taken_together_end_all),
		lanes_test(the_same_completion_twice_ends_its_slot_once),
		lanes_test(an_old_completion_ends_nothing),
		lanes_test(an_error_is_tried_again_beside_others_that_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
