/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots go to those who ask in the order of asking, over more turns than there are places; classes take turns, and none waits longer
 * than slots.h says. Interleavings are made by hand: the lock of the dealer is held by a test that stands in for another workgroup.
 */
#include <pthread.h>

#include "files/files.h"

#include "dev/slots.h"

#define FOREGROUND G4_CLASS_FOREGROUND
#define COUNT 8u
#define ASKED 60u /* of each class */

static struct g4_slots slots;
static const uint32_t weights[G4_CLASSES] = {2, 8, 4, 1};

static void take_all(uint32_t count)
{
	uint32_t slot;

	g4_slots_init(&slots, count);
	for (uint32_t i = 0; i < count; i++)
		assert_true(g4_slots_take(&slots, FOREGROUND, &slot));
	assert_false(g4_slots_take(&slots, FOREGROUND, &slot));
}

static void all_can_be_taken_and_no_more(void **state)
{
	uint64_t seen = 0;
	uint32_t slot;

	(void)state;
	g4_slots_init(&slots, 8);
	for (uint32_t i = 0; i < 8; i++) {
		assert_int_equal(g4_slots_load(&slots), i);
		assert_true(g4_slots_take(&slots, FOREGROUND, &slot));
		assert_true(slot < 8 && !(seen >> slot & 1));
		seen |= UINT64_C(1) << slot;
	}
	assert_false(g4_slots_take(&slots, FOREGROUND, &slot));
	g4_slots_give(&slots, FOREGROUND, 3);
	assert_true(g4_slots_take(&slots, FOREGROUND, &slot));
	assert_int_equal(slot, 3);
}

static void who_asked_first_is_first(void **state)
{
	uint32_t slot;

	(void)state;
	take_all(2);
	const uint32_t first = g4_slots_ask(&slots, FOREGROUND), second = g4_slots_ask(&slots, FOREGROUND);
	assert_int_equal(g4_slots_load(&slots), 4);
	g4_slots_give(&slots, FOREGROUND, 1);
	assert_false(g4_slots_take(&slots, FOREGROUND, &slot)); /* it is the first one's */
	assert_false(g4_slots_got(&slots, FOREGROUND, second, &slot));
	assert_true(g4_slots_got(&slots, FOREGROUND, first, &slot));
	assert_int_equal(slot, 1);
	g4_slots_give(&slots, FOREGROUND, 0);
	assert_true(g4_slots_got(&slots, FOREGROUND, second, &slot));
	assert_int_equal(slot, 0);
	assert_int_equal(g4_slots_load(&slots), 2);
}

/* Tickets begin two turns before 2^32, of the free line and of each class. */
static void turns_wrap_around(void **state)
{
	uint32_t slot;

	(void)state;
	g4_slots_init(&slots, 4);
	assert_true(slots.taken > UINT32_MAX - 16);
	for (uint32_t i = 0; i < 1000; i++) {
		assert_true(g4_slots_take(&slots, FOREGROUND, &slot));
		g4_slots_give(&slots, FOREGROUND, slot);
	}
	assert_true(slots.taken < 1000);
	take_all(4);
	for (uint32_t i = 0, holder = FOREGROUND; i < 400; i++) {
		const uint32_t next = i % G4_CLASSES, ticket = g4_slots_ask(&slots, next);
		g4_slots_give(&slots, holder, 2);
		assert_true(g4_slots_got(&slots, next, ticket, &slot));
		assert_int_equal(slot, 2);
		holder = next;
	}
	assert_true(slots.lines[G4_CLASS_JOURNAL].dealt < 100);
}

static void one_looks_at_a_time(void **state)
{
	(void)state;
	g4_slots_init(&slots, 1);
	assert_true(g4_slots_try_look(&slots));
	assert_false(g4_slots_try_look(&slots));
	g4_slots_looked(&slots);
	assert_true(g4_slots_try_look(&slots));
}

/* ---- classes ---- */

static uint32_t tickets[G4_CLASSES], got[G4_CLASSES]; /* the first ticket of each, and how many have their slot */

static void ask(uint32_t io_class, uint32_t count)
{
	tickets[io_class] = slots.lines[io_class].asked;
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(g4_slots_ask(&slots, io_class), tickets[io_class] + i);
	got[io_class] = 0;
}

/* Gives a slot back that `from` held; the class that gets it, in the order of its tickets. */
static uint32_t pass_on(uint32_t from, uint32_t slot)
{
	uint32_t received;

	g4_slots_give(&slots, from, slot);
	for (uint32_t c = 0; c < G4_CLASSES; c++)
		if (g4_slots_got(&slots, c, tickets[c] + got[c], &received)) {
			assert_int_equal(received, slot);
			got[c]++;
			return c;
		}
	return G4_CLASSES;
}

/* All wait all the time: each gets its weight of every round, in one burst. */
static void classes_take_turns_by_weight(void **state)
{
	uint32_t counts[G4_CLASSES] = {0}, bursts[G4_CLASSES] = {0}, holder = FOREGROUND, before = G4_CLASSES;

	(void)state;
	take_all(COUNT);
	for (uint32_t c = 0; c < G4_CLASSES; c++)
		ask(c, ASKED);
	for (uint32_t i = 0; i < 4 * G4_SLOTS_ROUND; i++) {
		const uint32_t next = pass_on(holder, 0);
		assert_true(next < G4_CLASSES);
		counts[next]++;
		bursts[next] += next != before;
		before = holder = next;
		if ((i + 1) % G4_SLOTS_ROUND == 0)
			for (uint32_t c = 0; c < G4_CLASSES; c++)
				assert_int_equal(counts[c], weights[c] * (i + 1) / G4_SLOTS_ROUND);
	}
	for (uint32_t c = 0; c < G4_CLASSES; c++)
		assert_true(bursts[c] <= 5);
}

/*
 * The bound, for each class and each place in its line: others that ask again and again get at most ceil(p / w) * (15 - w) slots before
 * the waiter at position p.
 */
static void nobody_is_overtaken_for_ever(void **state)
{
	(void)state;
	for (uint32_t mine = 0; mine < G4_CLASSES; mine++)
		for (uint32_t begun = 0; begun < G4_SLOTS_ROUND; begun++) { /* anywhere in the round of the others */
			const uint32_t weight = weights[mine];
			uint32_t holder = FOREGROUND, overtaken = 0;

			take_all(COUNT);
			for (uint32_t c = 0; c < G4_CLASSES; c++)
				ask(c, c == mine ? 0 : 400);
			for (uint32_t i = 0; i < begun; i++)
				holder = pass_on(holder, 0);
			ask(mine, 20);
			for (uint32_t p = 1; p <= 20; p++) {
				while (got[mine] < p) {
					holder = pass_on(holder, 0);
					overtaken += holder != mine;
				}
				assert_true(overtaken <= (p + weight - 1) / weight * (G4_SLOTS_ROUND - weight));
			}
		}
}

/* Background has at most a quarter, whatever is free; others are not kept from what it may not have. */
static void background_holds_a_quarter(void **state)
{
	uint32_t held[2], slot;

	(void)state;
	g4_slots_init(&slots, COUNT);
	assert_true(g4_slots_take(&slots, G4_CLASS_BACKGROUND, &held[0]));
	assert_true(g4_slots_take(&slots, G4_CLASS_BACKGROUND, &held[1]));
	assert_false(g4_slots_take(&slots, G4_CLASS_BACKGROUND, &slot));
	const uint32_t ticket = g4_slots_ask(&slots, G4_CLASS_BACKGROUND);
	assert_false(g4_slots_got(&slots, G4_CLASS_BACKGROUND, ticket, &slot));
	for (uint32_t i = 0; i < COUNT - 2; i++)
		assert_true(g4_slots_take(&slots, G4_CLASS_JOURNAL, &slot));
	assert_false(g4_slots_take(&slots, G4_CLASS_JOURNAL, &slot));
	g4_slots_give(&slots, G4_CLASS_JOURNAL, slot);
	assert_false(g4_slots_got(&slots, G4_CLASS_BACKGROUND, ticket, &slot));
	g4_slots_give(&slots, G4_CLASS_BACKGROUND, held[0]);
	assert_true(g4_slots_got(&slots, G4_CLASS_BACKGROUND, ticket, &slot));
	assert_true(g4_slots_take(&slots, G4_CLASS_JOURNAL, &slot));
}

/* Another workgroup deals and has looked already: what is given now is dealt by who waits for it. */
static void a_slot_that_the_dealer_missed_is_not_lost(void **state)
{
	uint32_t slot;

	(void)state;
	take_all(2);
	const uint32_t ticket = g4_slots_ask(&slots, G4_CLASS_JOURNAL);
	slots.dealing = 1;
	g4_slots_give(&slots, FOREGROUND, 1);
	assert_false(g4_slots_got(&slots, G4_CLASS_JOURNAL, ticket, &slot));
	assert_false(g4_slots_take(&slots, FOREGROUND, &slot)); /* nobody overtakes it meanwhile */
	slots.dealing = 0;
	assert_false(g4_slots_got(&slots, G4_CLASS_JOURNAL, ticket, &slot)); /* which deals it */
	assert_true(g4_slots_got(&slots, G4_CLASS_JOURNAL, ticket, &slot));
	assert_int_equal(slot, 1);
}

/* A waiter that does not take what was dealt to it holds up those a turn behind it in its line, and nobody else. */
static void who_does_not_take_its_slot_stops_no_dealer(void **state)
{
	uint32_t slot, ticket;

	(void)state;
	take_all(2);
	ask(G4_CLASS_JOURNAL, 3);
	g4_slots_give(&slots, FOREGROUND, 0); /* for the first, who does not look */
	g4_slots_give(&slots, FOREGROUND, 1);
	assert_true(g4_slots_got(&slots, G4_CLASS_JOURNAL, tickets[G4_CLASS_JOURNAL] + 1, &slot));
	ticket = g4_slots_ask(&slots, FOREGROUND);
	g4_slots_give(&slots, G4_CLASS_JOURNAL, slot); /* the third's place is the first's still */
	assert_true(g4_slots_got(&slots, FOREGROUND, ticket, &slot));
	assert_true(g4_slots_got(&slots, G4_CLASS_JOURNAL, tickets[G4_CLASS_JOURNAL], &slot));
	g4_slots_give(&slots, G4_CLASS_JOURNAL, slot);
	assert_true(g4_slots_got(&slots, G4_CLASS_JOURNAL, tickets[G4_CLASS_JOURNAL] + 2, &slot));
}

/* ---- threads ---- */

#define THREADS 5u
#define ROUNDS 150u
static uint32_t owners[4];
static uint32_t shared;

static void *use(void *argument)
{
	const uint32_t io_class = (uint32_t)(uintptr_t)argument % G4_CLASSES;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint32_t slot, rests = 1;
		if (!g4_slots_take(&slots, io_class, &slot)) {
			const uint32_t ticket = g4_slots_ask(&slots, io_class);
			while (!g4_slots_got(&slots, io_class, ticket, &slot))
				g4_slots_rest(&rests);
		}
		g4_add32(&shared, g4_xchg32(&owners[slot], 1)); /* 1: somebody else has it, too */
		g4_store32_rlx(&owners[slot], 0);
		g4_slots_give(&slots, io_class, slot);
	}
	return NULL;
}

static void threads_of_all_classes_share_few_slots(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	for (uint32_t count = 1; count <= 4; count++) {
		g4_slots_init(&slots, count);
		for (uintptr_t i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, use, (void *)i), 0);
		for (uint32_t i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(shared, 0);
		assert_int_equal(g4_slots_load(&slots), 0);
		assert_int_equal(slots.background, 0);
		assert_int_equal(slots.waiting, 0);
	}
}

RUN_TESTS(cmocka_unit_test(all_can_be_taken_and_no_more), cmocka_unit_test(who_asked_first_is_first),
	  cmocka_unit_test(turns_wrap_around), cmocka_unit_test(one_looks_at_a_time),
	  cmocka_unit_test(classes_take_turns_by_weight), cmocka_unit_test(nobody_is_overtaken_for_ever),
	  cmocka_unit_test(background_holds_a_quarter), cmocka_unit_test(a_slot_that_the_dealer_missed_is_not_lost),
	  cmocka_unit_test(who_does_not_take_its_slot_stops_no_dealer),
	  cmocka_unit_test(threads_of_all_classes_share_few_slots))
