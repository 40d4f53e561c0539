/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A submission queue and its completion queue: commands arrive in the order of their places, behind the doorbell, over turns of the
 * queue; completions are seen once, by their phase. (With a controller of its own thread: test_emulated.c.)
 */
#include <pthread.h>

#include "unit/nvme/queue_memory.h"

#define THREADS 3u
#define EACH 2000u

static struct g4_nvme_pair pair;

static void submit(uint32_t id)
{
	struct g4_nvme_command command __attribute__((aligned(16)));

	memset(&command, 0, sizeof(command));
	command.id = (g4_le16)id;
	command.prp1 = UINT64_C(0x1234567800000000) + id;
	g4_nvme_pair_submit(&pair, &command, NULL, 0, NULL);
}

static void commands_arrive_in_order_and_completions_once(void **state)
{
	uint32_t result, sent = 0;
	uint64_t end;

	(void)state;
	begin_queue_memory(&pair);
	assert_null(next_command());
	for (uint32_t round = 0; round < 5 * ENTRIES; round++) {
		const uint32_t count = 1 + round % (ENTRIES - 1);

		for (uint32_t i = 0; i < count; i++)
			submit(sent + i);
		for (uint32_t i = 0; i < count; i++) {
			const struct g4_nvme_command *command = next_command();
			assert_non_null(command);
			assert_int_equal(command->id, (g4_le16)(sent + i));
			assert_int_equal(command->prp1, UINT64_C(0x1234567800000000) + sent + i);
		}
		assert_null(next_command());
		assert_false(g4_nvme_pair_is_answered(&pair));
		assert_false(g4_nvme_pair_next(&pair, &end, &result));
		for (uint32_t i = 0; i < count; i++)
			answer(sent + i, G4_NVME_OK);
		assert_true(g4_nvme_pair_is_answered(&pair));
		for (uint32_t i = 0; i < count; i++) {
			assert_true(g4_nvme_pair_next(&pair, &end, &result));
			assert_int_equal(g4_nvme_completion_id(end), (g4_le16)(sent + i));
			assert_int_equal(result, 1000 + sent + i);
		}
		assert_false(g4_nvme_pair_next(&pair, &end, &result));
		sent += count;
	}
}

/* As many as there are, in their order, over the queue's end, and none of the turn before. */
static void completions_are_taken_together(void **state)
{
	uint64_t end[G4_NVME_TAKE_MOST];
	uint32_t sent = 0;

	(void)state;
	begin_queue_memory(&pair);
	for (uint32_t round = 0; round < 100; round++) {
		const uint32_t count = round % ENTRIES;

		for (uint32_t i = 0; i < count; i++) {
			submit(sent + i);
			answer(sent + i, G4_NVME_OK);
		}
		assert_int_equal(g4_nvme_pair_take(&pair, end), count);
		for (uint32_t i = 0; i < count; i++)
			assert_int_equal(g4_nvme_completion_id(end[i]), (sent + i) & 0xffff);
		assert_int_equal(g4_nvme_pair_take(&pair, end), 0);
		sent += count;
	}
}

/*
 * Of a queue that has room for more than are taken at once: any number at any place, in their order, over the queue's end; what is
 * behind the most of one look is there in the next.
 */
static void any_number_is_taken_at_any_place(void **state)
{
	enum { LONG = 64 };
	static struct g4_nvme_command commands[LONG] __attribute__((aligned(4096)));
	static struct g4_nvme_completion completions[LONG];
	uint64_t end[G4_NVME_TAKE_MOST];
	uint32_t bells[2], answered = 0;

	(void)state;
	memset(completions, 0, sizeof(completions));
	g4_nvme_pair_init(&pair, commands, completions, &bells[0], &bells[1], LONG);
	for (uint32_t round = 0; round < 20 * LONG; round++) {
		uint32_t left = round * 7 % (LONG / 2 + 1), taken = answered;

		for (uint32_t i = 0; i < left; i++, answered++)
			g4_store64_rel_sys(&completions[answered % LONG].end,
					   (uint64_t)(answered & 0xffff) << 32 | (uint64_t)(answered / LONG % 2 == 0)
											 << 48);
		do {
			const uint32_t count = g4_nvme_pair_take(&pair, end);
			assert_int_equal(count, left < G4_NVME_TAKE_MOST ? left : G4_NVME_TAKE_MOST);
			for (uint32_t i = 0; i < count; i++)
				assert_int_equal(g4_nvme_completion_id(end[i]), taken++ & 0xffff);
			left -= count;
		} while (left > 0);
		assert_int_equal(g4_nvme_pair_take(&pair, end), 0);
	}
}

/* The controller learns what was taken when that is said and is a quarter of the queue, and not without need. */
static void places_are_given_back_when_that_is_said(void **state)
{
	uint32_t result;
	uint64_t end;

	(void)state;
	begin_queue_memory(&pair);
	for (uint32_t i = 0; i < 3; i++) {
		submit(i);
		answer(i, G4_NVME_OK);
		assert_true(g4_nvme_pair_next(&pair, &end, &result));
	}
	assert_int_equal(queue_memory.head_bell, 0);
	g4_nvme_pair_consumed(&pair);
	assert_int_equal(queue_memory.head_bell, 3);
	queue_memory.head_bell = 77;
	g4_nvme_pair_consumed(&pair);
	assert_int_equal(queue_memory.head_bell, 77);
	submit(3);
	answer(3, G4_NVME_OK);
	assert_true(g4_nvme_pair_next(&pair, &end, &result));
	g4_nvme_pair_consumed(&pair); /* one of eight */
	assert_int_equal(queue_memory.head_bell, 77);
}

static uint32_t under_way;

static void *submit_many(void *argument)
{
	const uint32_t first = *(const uint32_t *)argument;

	for (uint32_t i = 0; i < EACH; i++) {
		while (g4_add32(&under_way, 1) >= ENTRIES - 1) { /* no more than there are places for */
			g4_sub32(&under_way, 1);
			g4_pause();
		}
		submit(first + i);
		g4_nvme_pair_help(&pair);
	}
	return NULL;
}

/* Whichever lane rings: each command is there once, whole. */
static void many_submit_at_once(void **state)
{
	static uint8_t seen[THREADS * EACH];
	uint32_t firsts[THREADS];
	pthread_t threads[THREADS];

	(void)state;
	begin_queue_memory(&pair);
	memset(seen, 0, sizeof(seen));
	for (uint32_t t = 0; t < THREADS; t++) {
		firsts[t] = t * EACH;
		assert_int_equal(pthread_create(&threads[t], NULL, submit_many, &firsts[t]), 0);
	}
	for (uint32_t n = 0; n < THREADS * EACH; n++) {
		while (queue_memory.head % ENTRIES == g4_load32_acq_sys(&queue_memory.tail_bell)) {
			g4_nvme_pair_help(&pair);
			g4_pause();
		}
		const struct g4_nvme_command *command = &queue_memory.commands[queue_memory.head++ % ENTRIES];
		const uint32_t id = command->id;
		assert_true(id < THREADS * EACH);
		assert_int_equal(command->prp1, UINT64_C(0x1234567800000000) + id);
		assert_int_equal(seen[id]++, 0);
		g4_sub32(&under_way, 1);
	}
	for (uint32_t t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	assert_true(g4_load32_rlx(&pair.rings) <= THREADS * EACH);
}

/* ---- a pause ---- */

static uint8_t was_sent[THREADS * EACH];
static uint32_t finished;

static void *try_to_submit(void *argument)
{
	const uint32_t first = *(const uint32_t *)argument;
	struct g4_nvme_command command __attribute__((aligned(16)));

	memset(&command, 0, sizeof(command));
	for (uint32_t i = 0; i < EACH; i++) {
		uint64_t sent = 0;
		while (g4_add32(&under_way, 1) >= ENTRIES - 1) {
			g4_sub32(&under_way, 1);
			g4_pause();
		}
		command.id = (g4_le16)(first + i);
		was_sent[first + i] = g4_nvme_pair_submit(&pair, &command, &sent, 1, NULL);
		assert_int_equal(sent, was_sent[first + i]);
		if (!sent)
			g4_sub32(&under_way, 1);
	}
	g4_add32(&finished, 1);
	return NULL;
}

/*
 * The pair is paused and begins anew, again and again, among those who submit: what they were told was submitted is there in the order
 * of places, once, before the pause is over; what they were told was not is nowhere.
 */
static void who_submits_during_a_pause_knows_it(void **state)
{
	static uint8_t seen[THREADS * EACH];
	uint32_t firsts[THREADS], pauses = 0;
	pthread_t threads[THREADS];

	(void)state;
	begin_queue_memory(&pair);
	memset(queue_memory.commands, 0xff, sizeof(queue_memory.commands));
	memset(seen, 0, sizeof(seen));
	g4_store32_rlx(&under_way, 0);
	for (uint32_t t = 0; t < THREADS; t++) {
		firsts[t] = t * EACH;
		assert_int_equal(pthread_create(&threads[t], NULL, try_to_submit, &firsts[t]), 0);
	}
	while (g4_load32_acq(&finished) < THREADS) {
		g4_nvme_pair_pause(&pair);
		uint32_t count = 0;
		for (uint32_t place = 0; place < ENTRIES; place++) {
			const uint32_t id = queue_memory.commands[place].id;
			if (id == UINT16_MAX)
				break;
			assert_int_equal(seen[id]++, 0);
			count++;
		}
		memset(queue_memory.commands, 0xff, sizeof(queue_memory.commands));
		pauses++;
		g4_nvme_pair_restart(&pair);
		g4_sub32(&under_way, count);
	}
	for (uint32_t t = 0; t < THREADS; t++)
		pthread_join(threads[t], NULL);
	assert_true(pauses > 1);
	g4_nvme_pair_pause(&pair);
	for (uint32_t place = 0; place < ENTRIES && queue_memory.commands[place].id != UINT16_MAX; place++)
		seen[queue_memory.commands[place].id]++;
	assert_memory_equal(seen, was_sent, sizeof(seen));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commands_arrive_in_order_and_completions_once),
		cmocka_unit_test(completions_are_taken_together),
		cmocka_unit_test(any_number_is_taken_at_any_place),
		cmocka_unit_test(places_are_given_back_when_that_is_said),
		cmocka_unit_test(many_submit_at_once),
		cmocka_unit_test(who_submits_during_a_pause_knows_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
