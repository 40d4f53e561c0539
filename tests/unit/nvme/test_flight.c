/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands under way: which of them a pause parks, that each is sent again once and under another identifier, what fails instead, and
 * who is late. The controller is the test. (With threads and a controller that is one: test_recovery.c.)
 */
#include "unit/nvme/queue_memory.h"

#define SLOTS 4u
#define MINUTE_NS UINT64_C(60000000000)

static struct g4_nvme_flight flight __attribute__((aligned(128)));
static struct g4_nvme_cache cache;

static int setup(void **state)
{
	(void)state;
	memset(&flight, 0, sizeof(flight));
	memset(&cache, 0, sizeof(cache));
	begin_queue_memory(&flight.pair);
	flight.count = SLOTS;
	flight.cache = &cache;
	return 0;
}

static void send(uint32_t number, uint32_t opcode)
{
	flight.slots[number].command.opcode = (uint8_t)opcode;
	flight.slots[number].command.dword12 = 0;
	g4_nvme_flight_begin(&flight, number, &flight.slots[number].command);
}

/* As who looks does it. */
static bool take(uint32_t status, bool *ended)
{
	uint64_t end;
	int32_t code;

	if (!g4_nvme_pair_next(&flight.pair, &end, NULL))
		return false;
	const uint32_t id = g4_nvme_completion_id(end);
	*ended = g4_nvme_flight_claim(&flight, id) && g4_nvme_flight_ended(&flight, id & 0xff, status, &code);
	return true;
}

static void complete(uint32_t id)
{
	bool ended;

	answer(id, G4_NVME_OK);
	assert_true(take(G4_NVME_OK, &ended));
	assert_true(ended);
}

static bool none_fails(void)
{
	uint32_t number = 0;

	return !g4_nvme_flight_fails(&flight, &number);
}

static void restart(void)
{
	empty_queue_memory();
	g4_nvme_flight_restart(&flight);
}

static void what_was_under_way_is_sent_again_once(void **state)
{
	bool ended;

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		send(i, G4_NVME_READ);
	complete(next_command()->id);
	const uint32_t old = next_command()->id;
	assert_false(g4_nvme_flight_pause(&flight));
	assert_true(none_fails()); /* nor is anything sent */
	assert_int_equal(g4_nvme_flight_late(&flight, UINT64_MAX, 0), 0);
	restart();
	assert_null(next_command());
	assert_true(none_fails());
	for (uint32_t i = 1; i < 3; i++) {
		const struct g4_nvme_command *command = next_command();
		assert_non_null(command);
		assert_int_equal(command->id & 0xff, i);
		assert_int_not_equal(command->id, old);
	}
	assert_null(next_command());
	answer(old, G4_NVME_OK);
	assert_true(take(G4_NVME_OK, &ended));
	assert_false(ended);
	assert_int_equal(flight.counts.resent, 2);
	complete(queue_memory.commands[0].id);
	complete(queue_memory.commands[1].id);
	assert_true(none_fails());
	assert_null(next_command());
}

static void what_comes_meanwhile_waits(void **state)
{
	(void)state;
	assert_false(g4_nvme_flight_pause(&flight));
	send(2, G4_NVME_WRITE);
	assert_null(next_command());
	assert_false(g4_nvme_flight_pause(&flight));
	restart();
	assert_true(none_fails());
	complete(next_command()->id);
	assert_int_equal(flight.counts.resent, 0);
	assert_int_equal(flight.slots[2].tries, 1);
}

/* Slots that have outlived turns of the queue are parked as others are. */
static void an_old_command_is_not_forgotten(void **state)
{
	(void)state;
	send(0, G4_NVME_READ);
	(void)next_command();
	for (uint32_t i = 0; i < 3 * ENTRIES; i++) {
		send(1, G4_NVME_READ);
		complete(next_command()->id);
	}
	assert_false(g4_nvme_flight_pause(&flight));
	restart();
	assert_true(none_fails());
	assert_int_equal(next_command()->id & 0xff, 0);
	assert_null(next_command());
}

static void all_fail_when_it_is_dead(void **state)
{
	uint32_t number = 0;

	(void)state;
	send(1, G4_NVME_READ);
	g4_nvme_flight_pause(&flight);
	flight.dead = 1;
	send(3, G4_NVME_WRITE);
	assert_true(g4_nvme_flight_fails(&flight, &number));
	assert_int_equal(number++, 1);
	assert_true(g4_nvme_flight_fails(&flight, &number));
	assert_int_equal(number++, 3);
	assert_false(g4_nvme_flight_fails(&flight, &number));
}

/* Written and not flushed, flushed, flushed in vain, or nothing. */
static void a_pause_tells_what_may_be_lost(void **state)
{
	uint32_t number = 0;
	bool ended;

	(void)state;
	cache.is_volatile = 1;
	send(0, G4_NVME_WRITE);
	complete(next_command()->id);
	assert_true(g4_nvme_flight_pause(&flight));
	restart();
	send(0, G4_NVME_FLUSH);
	complete(next_command()->id);
	assert_false(g4_nvme_flight_pause(&flight));
	restart();
	send(0, G4_NVME_FLUSH);
	assert_true(g4_nvme_flight_pause(&flight)); /* one that is under way has promised nothing */
	cache.lost = G4_NVME_LOST;
	assert_true(g4_nvme_flight_fails(&flight, &number));
	assert_int_equal(number, 0);
	restart();
	assert_true(none_fails());
	cache.lost = 0;
	send(0, G4_NVME_FLUSH);
	answer(next_command()->id, G4_NVME_INTERNAL_ERROR);
	assert_true(take(G4_NVME_INTERNAL_ERROR, &ended) && ended);
	assert_true(g4_nvme_flight_pause(&flight));
	restart();
	cache.is_volatile = 0;
	send(0, G4_NVME_WRITE);
	complete(next_command()->id);
	assert_false(g4_nvme_flight_pause(&flight));
}

static void who_is_late_gets_time_once(void **state)
{
	const uint64_t now = g4_monotonic_ns();

	(void)state;
	send(2, G4_NVME_READ);
	const uint32_t late = g4_nvme_flight_late(&flight, now + 2 * MINUTE_NS, MINUTE_NS);
	assert_int_equal(late, next_command()->id + 1);
	assert_int_equal(g4_nvme_flight_late(&flight, now, MINUTE_NS), 0);
	assert_int_equal(g4_nvme_flight_give_time(&flight, late, now + 2 * MINUTE_NS), G4_NVME_LATE);
	assert_int_equal(g4_nvme_flight_late(&flight, now + 2 * MINUTE_NS, MINUTE_NS), 0);
	assert_int_equal(g4_nvme_flight_late(&flight, now + 3 * MINUTE_NS, MINUTE_NS), late);
	assert_int_equal(g4_nvme_flight_give_time(&flight, late, now + 3 * MINUTE_NS), G4_NVME_LATE_AGAIN);
	complete(late - 1);
	assert_int_equal(g4_nvme_flight_late(&flight, UINT64_MAX, 0), 0);
}

/* The controller may still be asked to abort it when it has ended, and many others of the slot. */
static void the_identifier_of_one_that_is_to_be_aborted_does_not_come_again(void **state)
{
	uint32_t late[2], id;

	(void)state;
	for (uint32_t round = 0; round < 2; round++) {
		send(2, G4_NVME_READ);
		late[round] = next_command()->id;
		assert_int_equal(g4_nvme_flight_give_time(&flight, late[round] + 1, 2 * MINUTE_NS), G4_NVME_LATE);
		complete(late[round]);
		assert_int_equal(g4_nvme_flight_give_time(&flight, late[round] + 1, 2 * MINUTE_NS), G4_NVME_NOT_LATE);
		for (uint32_t i = 0; i < 300; i++) {
			send(2, G4_NVME_READ);
			id = next_command()->id;
			assert_int_not_equal(id, late[round]);
			assert_int_equal(g4_nvme_flight_give_time(&flight, late[round] + 1, 2 * MINUTE_NS),
					 G4_NVME_NOT_LATE);
			complete(id);
		}
	}
	for (uint32_t i = 0; i < 128; i++) { /* one at a time is kept away */
		send(2, G4_NVME_READ);
		id = next_command()->id;
		complete(id);
		if (id == late[0])
			return;
	}
	fail();
}

/* An aborted command is tried again at once, perhaps at the time that it was given. */
static void one_that_is_tried_again_gets_time_anew(void **state)
{
	uint32_t late;
	bool ended;

	(void)state;
	send(1, G4_NVME_READ);
	late = next_command()->id + 1;
	assert_int_equal(g4_nvme_flight_give_time(&flight, late, g4_monotonic_ns()), G4_NVME_LATE);
	answer(late - 1, G4_NVME_ABORTED);
	assert_true(take(G4_NVME_ABORTED, &ended));
	assert_false(ended);
	late = next_command()->id + 1;
	const uint64_t later = g4_monotonic_ns() + 2 * MINUTE_NS;
	assert_int_equal(g4_nvme_flight_late(&flight, later, MINUTE_NS), late);
	assert_int_equal(g4_nvme_flight_give_time(&flight, late, later), G4_NVME_LATE);
	assert_int_equal(g4_nvme_flight_give_time(&flight, late, later + 2 * MINUTE_NS), G4_NVME_LATE_AGAIN);
}

/* What this side has had aborted has not failed; what the controller has ended by itself may have. */
static void a_flush_that_was_to_be_aborted_is_sent_again(void **state)
{
	bool ended;

	(void)state;
	cache.is_volatile = 1;
	send(0, G4_NVME_WRITE);
	complete(next_command()->id);
	send(0, G4_NVME_FLUSH);
	const uint32_t late = next_command()->id + 1;
	assert_int_equal(g4_nvme_flight_give_time(&flight, late, g4_monotonic_ns()), G4_NVME_LATE);
	answer(late - 1, G4_NVME_ABORTED);
	assert_true(take(G4_NVME_ABORTED, &ended));
	assert_false(ended);
	assert_int_equal(next_command()->opcode, G4_NVME_FLUSH);
	assert_true(g4_nvme_flight_pause(&flight)); /* it has promised nothing yet */
	restart();
	assert_true(none_fails());
	answer(next_command()->id, G4_NVME_ABORTED);
	assert_true(take(G4_NVME_ABORTED, &ended) && ended);
	assert_int_equal(flight.counts.failed, 1);
	assert_true(g4_nvme_flight_pause(&flight));
}

static void a_flush_behind_a_loss_is_not_sent_again(void **state)
{
	bool ended;

	(void)state;
	cache.is_volatile = 1;
	send(0, G4_NVME_FLUSH);
	const uint32_t late = next_command()->id + 1;
	assert_int_equal(g4_nvme_flight_give_time(&flight, late, g4_monotonic_ns()), G4_NVME_LATE);
	cache.lost = G4_NVME_LOST;
	answer(late - 1, G4_NVME_ABORTED);
	assert_true(take(G4_NVME_ABORTED, &ended) && ended);
	assert_int_equal(flight.counts.failed, 1);
}

#define flight_test(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		flight_test(what_was_under_way_is_sent_again_once),
		flight_test(what_comes_meanwhile_waits),
		flight_test(an_old_command_is_not_forgotten),
		flight_test(all_fail_when_it_is_dead),
		flight_test(a_pause_tells_what_may_be_lost),
		flight_test(who_is_late_gets_time_once),
		flight_test(the_identifier_of_one_that_is_to_be_aborted_does_not_come_again),
		flight_test(one_that_is_tried_again_gets_time_anew),
		flight_test(a_flush_that_was_to_be_aborted_is_sent_again),
		flight_test(a_flush_behind_a_loss_is_not_sent_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
