/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pair's interleavings, forced, with the wrap-around of its tickets at each place of them: a lane is held up where its command has a place
 * and is not written, before its mark, before it lets go of the tail and behind that, and a poller between its loads. Whoever runs
 * meanwhile does so inside of that call, so nothing is left to chance. The controller is the test. (By threads: test_pair.c.)
 */
#include "unit/nvme/queue_memory.h"

enum point { WRITES, MARKS, LETS_GO, HAS_LET_GO, LOADS, POINTS };

static void (*meanwhile[POINTS])(void); /* called once; NULL: nobody does anything there */

static void at(enum point point)
{
	void (*const call)(void) = meanwhile[point];

	meanwhile[point] = NULL;
	if (call)
		call();
}

static uint32_t let_go(uint32_t *word, uint32_t value)
{
	at(LETS_GO);
	const uint32_t before = (g4_xchg32)(word, value);
	at(HAS_LET_GO);
	return before;
}

static uint64_t load(const uint64_t *word)
{
	at(LOADS);
	return (g4_load64_fenced_sys)(word);
}

#define g4_copy16(...) (at(WRITES), (g4_copy16)(__VA_ARGS__))
#define g4_store32_rel(...) (at(MARKS), (g4_store32_rel)(__VA_ARGS__))
#define g4_xchg32(word, value) let_go(word, value)
#define g4_load64_fenced_sys(word) load(word)
#include "dev/nvme/pair.c" /* NOLINT(bugprone-suspicious-include) */
#undef g4_copy16
#undef g4_store32_rel
#undef g4_xchg32
#undef g4_load64_fenced_sys

static struct g4_nvme_pair pair;
static uint32_t sent, taken; /* commands, by what they are called; seen by the controller */

static void submit(void)
{
	struct g4_nvme_command command __attribute__((aligned(16)));

	memset(&command, 0, sizeof(command));
	command.id = (g4_le16)sent;
	command.prp1 = UINT64_C(0x1234567800000000) + sent++;
	assert_true(g4_nvme_pair_submit(&pair, &command, NULL, 0, NULL));
}

/* What the doorbell tells of, in whatever order lanes got their places: each is whole, and none is of the turn before. */
static uint32_t take_commands(void)
{
	const struct g4_nvme_command *command;
	uint32_t count = 0, seen = 0;
	const uint32_t first = taken;

	while ((command = next_command())) {
		const uint32_t which = (uint32_t)command->id - first;
		assert_true(which < ENTRIES && !(seen >> which & 1));
		assert_int_equal(command->prp1, UINT64_C(0x1234567800000000) + command->id);
		seen |= 1u << which;
		count++;
	}
	taken += count;
	return count;
}

static void rings_for(uint32_t count)
{
	assert_int_equal(take_commands(), count);
	assert_true(g4_nvme_pair_is_rung(&pair));
	assert_int_equal(taken, sent);
}

static void nothing_is_rung_for(void)
{
	assert_null(next_command());
}

/* So that the scenario begins `before` tickets after the first one, which is two turns before 2^32. */
static void begin_at(uint32_t before)
{
	begin_queue_memory(&pair);
	memset(meanwhile, 0, sizeof(meanwhile));
	sent = taken = 0;
	for (uint32_t i = 0; i < before; i++) {
		submit();
		rings_for(1);
	}
}

/* Each scenario has fewer commands than half a turn, so the wrap-around is at each of its places in some round. */
static void at_each_place(void (*scenario)(void))
{
	bool wraps = false;

	for (uint32_t before = 0; before <= 4 * ENTRIES; before++) {
		begin_at(before);
		const uint32_t first = pair.tickets;
		scenario();
		for (uint32_t i = 0; i < POINTS; i++)
			assert_null(meanwhile[i]); /* all were there */
		assert_true(g4_nvme_pair_is_rung(&pair));
		wraps |= pair.tickets < first;
		for (uint32_t i = 0; i < 2 * ENTRIES; i++) { /* and the queue works, another two turns long */
			submit();
			rings_for(1);
		}
	}
	assert_true(wraps);
}

/* ---- submitting ---- */

static void submit_twice_and_see_nothing(void)
{
	submit();
	submit();
	nothing_is_rung_for();
	assert_false(g4_nvme_pair_is_rung(&pair));
	g4_nvme_pair_help(&pair); /* the tail is held: nobody else can ring */
	nothing_is_rung_for();
}

/* The place of the first command has what was there a turn ago, with that turn's mark. */
static void held_up_with_the_tail(void)
{
	meanwhile[WRITES] = submit_twice_and_see_nothing;
	submit();
	rings_for(3);
}

static void who_has_the_tail_rings_for_those_behind(void **state)
{
	(void)state;
	at_each_place(held_up_with_the_tail);
}

static void submit_one(void)
{
	submit();
}

/* The outermost lane has rung for itself, and another command comes before it lets go of the tail. */
static void marked_before_the_tail_is_free(void)
{
	meanwhile[LETS_GO] = submit_one;
	submit();
	rings_for(2);
}

static void what_comes_before_the_tail_is_free_is_rung_for(void **state)
{
	(void)state;
	at_each_place(marked_before_the_tail_is_free);
}

/* ... or right behind that, when it looks again. */
static void marked_behind_the_tail(void)
{
	meanwhile[HAS_LET_GO] = submit_one;
	submit();
	rings_for(2);
}

static void what_comes_when_the_tail_is_free_is_rung_for(void **state)
{
	(void)state;
	at_each_place(marked_behind_the_tail);
}

/*
 * A lane that did not get the tail stands before its mark, and those that come are marked behind it: the tail must not pass it, though the
 * mark of a turn ago is at its place.
 */
static void come_behind_a_missing_mark(void)
{
	submit();
	submit();
	g4_nvme_pair_help(&pair);
}

static void second_without_a_mark(void)
{
	meanwhile[MARKS] = come_behind_a_missing_mark;
	submit();
	assert_int_equal(taken, sent - 4); /* of the four, nothing yet: the first one has the tail */
}

static void a_mark_is_missing(void)
{
	meanwhile[WRITES] = second_without_a_mark;
	submit();
	rings_for(4);
}

static void a_missing_mark_is_not_passed(void **state)
{
	(void)state;
	at_each_place(a_mark_is_missing);
}

/* The tail's holder has rung and looked at marks; then three come, of which the first one's mark is the last. */
static void two_come_before_its_mark(void)
{
	submit();
	submit();
	assert_int_equal(take_commands(), 1); /* the holder's own */
}

static void first_of_three(void)
{
	meanwhile[MARKS] = two_come_before_its_mark;
	submit();
	nothing_is_rung_for();
}

static void a_mark_comes_late(void)
{
	meanwhile[LETS_GO] = first_of_three;
	submit();
	rings_for(3);
}

static void the_last_mark_is_rung_for(void **state)
{
	(void)state;
	at_each_place(a_mark_comes_late);
}

/* At each letting go another one comes: after so many rounds the holder leaves, and a lane that waits rings for what is left. */
static void come_again(void)
{
	meanwhile[LETS_GO] = come_again;
	submit();
}

static void comes_again_and_again(void)
{
	meanwhile[LETS_GO] = come_again;
	submit();
	meanwhile[LETS_GO] = NULL;
	assert_false(g4_nvme_pair_is_rung(&pair));
	assert_int_equal(take_commands(), 1 + RING_ROUNDS);
	g4_nvme_pair_help(&pair);
	rings_for(1);
}

static void who_waits_rings_for_what_is_left(void **state)
{
	(void)state;
	at_each_place(comes_again_and_again);
}

/* ---- completions: the head ---- */

static uint32_t answers_now;

static void answer_some(void)
{
	for (uint32_t i = 0; i < answers_now; i++)
		answer(queue_memory.answered, G4_NVME_OK);
}

/*
 * A poller has loaded some entries when completions come: it takes those that it has seen in a row from the head on, the next look takes
 * the others, and none of the turn before is taken for one, at each place of the queue and of the counts' wrap-around.
 */
static void a_poller_between_its_loads_takes_each_once(void **state)
{
	uint64_t end[G4_NVME_TAKE_MOST];

	(void)state;
	for (uint32_t before = 0; before <= 4 * ENTRIES; before++)
		for (answers_now = 1; answers_now < ENTRIES; answers_now++)
			for (uint32_t there = 0; there + answers_now < ENTRIES; there++) {
				begin_queue_memory(&pair);
				memset(meanwhile, 0, sizeof(meanwhile));
				uint32_t got = 0;
				for (uint32_t i = 0; i < before; i++) {
					answer(i, G4_NVME_OK);
					assert_int_equal(g4_nvme_pair_take(&pair, end), 1);
					got++;
				}
				for (uint32_t i = 0; i < there; i++)
					answer(queue_memory.answered, G4_NVME_OK);
				meanwhile[LOADS] = answer_some;
				while (got < before + there + answers_now) {
					const uint32_t count = g4_nvme_pair_take(&pair, end);
					assert_true(count > 0);
					for (uint32_t i = 0; i < count; i++)
						assert_int_equal(g4_nvme_completion_id(end[i]), got++ & 0xffff);
				}
				assert_int_equal(g4_nvme_pair_take(&pair, end), 0);
				assert_false(g4_nvme_pair_is_answered(&pair));
			}
}

/*
 * The controller knows a head that is old by as much as it may be: it has room for all commands that can be under way, and what it
 * writes there is none of what was not taken yet. Told is told before more than a quarter is owed, over the wrap-around, too.
 */
static void an_old_head_leaves_room(void **state)
{
	uint32_t result, under_way = 0;
	uint64_t end;

	(void)state;
	begin_queue_memory(&pair);
	for (uint32_t round = 0; round < 16 * ENTRIES; round++) {
		while (under_way < ENTRIES / 2) { /* as many as there may be (slots.h) */
			const uint32_t told = queue_memory.head_bell;
			const uint32_t used = (queue_memory.answered + ENTRIES - told) % ENTRIES;
			assert_true(used < ENTRIES - 1); /* a full queue would look empty */
			answer(queue_memory.answered, G4_NVME_OK);
			under_way++;
		}
		for (uint32_t i = 0; i <= round % (ENTRIES / 2); i++, under_way--) {
			assert_true(g4_nvme_pair_next(&pair, &end, &result));
			g4_nvme_pair_consumed(&pair);
		}
		assert_true((pair.head - pair.told) < (ENTRIES + 3) / 4);
		assert_int_equal(queue_memory.head_bell, pair.told % ENTRIES);
	}
	assert_true(pair.head < 16 * ENTRIES * ENTRIES); /* it has wrapped around */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_has_the_tail_rings_for_those_behind),
		cmocka_unit_test(what_comes_before_the_tail_is_free_is_rung_for),
		cmocka_unit_test(what_comes_when_the_tail_is_free_is_rung_for),
		cmocka_unit_test(a_missing_mark_is_not_passed),
		cmocka_unit_test(the_last_mark_is_rung_for),
		cmocka_unit_test(who_waits_rings_for_what_is_left),
		cmocka_unit_test(a_poller_between_its_loads_takes_each_once),
		cmocka_unit_test(an_old_head_leaves_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
