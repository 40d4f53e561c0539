/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A FLUSH that meets a reset, in the host's queue and in lanes': the controller has lost what was acknowledged, so the FLUSH fails. The
 * reset comes where a thread that sends it could be held up: when it has looked whether something is lost, and has no place in the
 * queue yet. The controller is the test.
 */
#include "dev/nvme/lanes.h"
#include "unit/nvme/queue_memory.h"

static void (*held_up)(void); /* called once; NULL: not at all */

static void hold_up(void)
{
	void (*const call)(void) = held_up;

	held_up = NULL;
	if (call)
		call();
}

#define g4_nvme_pair_submit(...) (hold_up(), (g4_nvme_pair_submit)(__VA_ARGS__))
#include "dev/nvme/flight.c" /* NOLINT(bugprone-suspicious-include) */
#undef g4_nvme_pair_submit

#define SLOTS 4u
#define MINUTE_NS UINT64_C(60000000000)

static void answer_next(void)
{
	const struct g4_nvme_command *command = next_command();

	if (command)
		answer(command->id, G4_NVME_OK);
}

/* ---- the host's ---- */

static struct g4_nvme_queue queue __attribute__((aligned(128)));
static struct g4_nvme_cache cache;
static uint8_t *data;

static int begin_host(void **state)
{
	(void)state;
	memset(&queue, 0, sizeof(queue));
	begin_queue_memory(&queue.flight.pair);
	cache = (struct g4_nvme_cache){.is_volatile = 1};
	queue.flight.count = SLOTS;
	queue.flight.cache = &cache;
	g4_slots_init(&queue.pool, SLOTS);
	data = pages((SLOTS + 1) * G4_NVME_LIST_BYTES);
	queue.lists = data + G4_PAGE_BYTES;
	queue.first.block_shift = 9;
	queue.piece_bytes = G4_PAGE_BYTES;
	return 0;
}

static int end_host(void **state)
{
	(void)state;
	free(data);
	return 0;
}

static int run_on_host(uint32_t op, void (*between)(void), void (*after)(void))
{
	struct g4_iov iov = {.base = data, .bytes = G4_PAGE_BYTES};
	struct g4_io io = {.op = op, .iov = &iov, .iov_count = 1};

	held_up = between;
	g4_nvme_start(&queue, &queue.first, &io);
	if (after)
		after();
	while (!g4_nvme_step(&queue, &queue.first, &io, NULL))
		answer_next();
	return io.result;
}

static void pause_host(void)
{
	if (g4_nvme_flight_pause(&queue.flight))
		cache.lost = G4_NVME_LOST;
}

static void restart_host(void)
{
	empty_queue_memory();
	g4_nvme_flight_restart(&queue.flight);
}

static void reset_host(void)
{
	pause_host();
	restart_host();
}

static void a_pause_counts_a_flush_that_has_no_place_yet(void **state)
{
	(void)state;
	assert_int_equal(run_on_host(G4_IO_WRITE, NULL, NULL), 0);
	assert_int_equal(run_on_host(G4_IO_FLUSH, pause_host, restart_host), -G4_E_IO);
	assert_int_equal(run_on_host(G4_IO_FLUSH, NULL, NULL), -G4_E_IO);
}

static void a_flush_that_outlives_a_reset_says_what_was_lost(void **state)
{
	(void)state;
	assert_int_equal(run_on_host(G4_IO_WRITE, NULL, NULL), 0);
	assert_int_equal(run_on_host(G4_IO_FLUSH, reset_host, NULL), -G4_E_IO);
	assert_int_equal(queue.flight.counts.failed, 1);
}

static void a_flush_with_nothing_to_lose_is_sent_again(void **state)
{
	(void)state;
	assert_int_equal(run_on_host(G4_IO_WRITE, NULL, NULL), 0);
	assert_int_equal(run_on_host(G4_IO_FLUSH, NULL, NULL), 0);
	assert_int_equal(run_on_host(G4_IO_FLUSH, pause_host, restart_host), 0);
	assert_int_equal(run_on_host(G4_IO_FLUSH, reset_host, NULL), 0);
}

/* ---- lanes' ---- */

static struct g4_nvme_lanes lanes __attribute__((aligned(128)));
static struct g4_nvme_talk talk;

static int begin_lanes(void **state)
{
	(void)state;
	memset(&lanes, 0, sizeof(lanes));
	memset(&talk, 0, sizeof(talk));
	begin_queue_memory(&lanes.flight.pair);
	lanes.cache.is_volatile = 1;
	lanes.flight.count = SLOTS;
	lanes.flight.cache = &lanes.cache;
	lanes.talk = &talk;
	lanes.timeout_ns = UINT64_MAX / 2;
	lanes.block_shift = 9;
	return 0;
}

static int run_on_lanes(uint32_t op, void (*between)(void), void (*after)(void))
{
	const struct g4_remote_request request = {.op = op, .bytes = G4_PAGE_BYTES};
	int32_t code;

	held_up = between;
	g4_nvme_lanes_post(&lanes, 0, &request);
	if (after)
		after();
	while (g4_nvme_lanes_take(&lanes, 1, G4_NVME_NO_SLOT) == 0) {
		assert_false(g4_nvme_lanes_ended(&lanes, 0, &code));
		answer_next();
	}
	assert_true(g4_nvme_lanes_ended(&lanes, 0, &code));
	return code;
}

/* They look at what the host tells now and then. */
static void look_until(bool paused)
{
	while (lanes.flight.paused != paused)
		assert_int_equal(g4_nvme_lanes_take(&lanes, 1, G4_NVME_NO_SLOT), 0);
}

/* Long enough for them to look at the clock. */
static void look_for_long(void)
{
	for (uint32_t i = 0; i < 128; i++)
		assert_int_equal(g4_nvme_lanes_take(&lanes, 16, G4_NVME_NO_SLOT), 0);
}

static void pause_lanes(void)
{
	talk.told = (lanes.reset + 1) << G4_NVME_RESET_SHIFT;
	look_until(true);
	assert_int_equal(talk.said >> G4_NVME_RESET_SHIFT, lanes.reset);
}

/* Not until it is looked at: a parked command is sent or fails at once then. */
static void let_lanes_restart(void)
{
	empty_queue_memory();
	talk.told |= G4_NVME_TOLD_READY;
}

static void reset_lanes(void)
{
	pause_lanes();
	let_lanes_restart();
	look_until(false);
}

static void a_pause_of_lanes_counts_a_flush_that_has_no_place_yet(void **state)
{
	(void)state;
	assert_int_equal(run_on_lanes(G4_IO_WRITE, NULL, NULL), 0);
	assert_int_equal(run_on_lanes(G4_IO_FLUSH, pause_lanes, let_lanes_restart), -G4_E_IO);
	assert_true(talk.said & G4_NVME_SAID_LOST);
	assert_int_equal(run_on_lanes(G4_IO_FLUSH, NULL, NULL), -G4_E_IO);
}

static void a_flush_of_lanes_that_outlives_a_reset_says_what_was_lost(void **state)
{
	(void)state;
	assert_int_equal(run_on_lanes(G4_IO_WRITE, NULL, NULL), 0);
	assert_int_equal(run_on_lanes(G4_IO_FLUSH, reset_lanes, NULL), -G4_E_IO);
	assert_int_equal(lanes.flight.counts.failed, 1);
}

static void a_flush_of_lanes_with_nothing_to_lose_is_sent_again(void **state)
{
	(void)state;
	assert_int_equal(run_on_lanes(G4_IO_WRITE, NULL, NULL), 0);
	assert_int_equal(run_on_lanes(G4_IO_FLUSH, NULL, NULL), 0);
	assert_int_equal(run_on_lanes(G4_IO_FLUSH, pause_lanes, let_lanes_restart), 0);
	assert_int_equal(run_on_lanes(G4_IO_FLUSH, reset_lanes, NULL), 0);
	assert_false(talk.said & G4_NVME_SAID_LOST);
}

/* All that happened to the slot's command was long ago. */
static void let_time_pass(uint32_t number)
{
	lanes.flight.slots[number].state &= ~G4_NVME_SINCE_MASK;
	lanes.flight.slots[number].late &= ~G4_NVME_SINCE_MASK;
}

/* The host has not begun with the first one yet; then it has, and with a second time, a reset is wished for. */
static void one_late_command_is_named_at_a_time(void **state)
{
	const struct g4_remote_request request = {.op = G4_IO_READ, .bytes = G4_PAGE_BYTES};

	(void)state;
	lanes.timeout_ns = MINUTE_NS;
	for (uint32_t i = 0; i < 2; i++) {
		g4_nvme_lanes_post(&lanes, i, &request);
		let_time_pass(i);
	}
	look_for_long();
	const uint32_t first = talk.late;
	assert_int_equal((first & ~G4_NVME_AGAIN) - 1, next_command()->id);
	look_for_long();
	assert_int_equal(talk.late, first);
	talk.heard = first;
	look_for_long();
	assert_int_not_equal(talk.late, first);
	assert_int_equal((talk.late & ~G4_NVME_AGAIN) - 1, next_command()->id);
	let_time_pass(0);
	look_for_long();
	assert_int_equal(talk.wish, 0);
	talk.heard = talk.late;
	look_for_long();
	assert_int_equal(talk.wish, 1);
}

#define host_test(f) cmocka_unit_test_setup_teardown(f, begin_host, end_host)
#define lanes_test(f) cmocka_unit_test_setup(f, begin_lanes)

int main(void)
{
	const struct CMUnitTest tests[] = {
		host_test(a_pause_counts_a_flush_that_has_no_place_yet),
		host_test(a_flush_that_outlives_a_reset_says_what_was_lost),
		host_test(a_flush_with_nothing_to_lose_is_sent_again),
		lanes_test(a_pause_of_lanes_counts_a_flush_that_has_no_place_yet),
		lanes_test(a_flush_of_lanes_that_outlives_a_reset_says_what_was_lost),
		lanes_test(a_flush_of_lanes_with_nothing_to_lose_is_sent_again),
		lanes_test(one_late_command_is_named_at_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
