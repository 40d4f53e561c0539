/* SPDX-License-Identifier: Apache-2.0 */
/* Workgroups find other queues where theirs is long, and do not herd; loads are given by hand, or those of real pools. */
#include "files/files.h"

#include "dev/mapper.h"
#include "dev/slots.h"

#define QUEUES 24u
#define PLACES (QUEUES * G4_MAPPER_PLACES_EACH)

static struct g4_mapper mapper;

static uint32_t others_of(uint32_t queue)
{
	uint32_t count = 0;

	for (uint32_t w = 0; w < PLACES; w++)
		count += g4_mapper_queue(&mapper, w) == queue;
	return count;
}

/* Waits until it is to look at another queue. */
static uint32_t wait_long(uint32_t workgroup, uint32_t queue)
{
	uint32_t other = queue;

	while (!g4_mapper_waited(&mapper, workgroup, queue, &other))
		;
	assert_true(other != queue && other < mapper.queues);
	return other;
}

static void places_are_spread_evenly(void **state)
{
	(void)state;
	for (uint32_t queues = 1; queues <= QUEUES; queues++) {
		g4_mapper_init(&mapper, queues);
		for (uint32_t w = 0; w < 4 * PLACES; w++)
			assert_int_equal(g4_mapper_queue(&mapper, w), w % queues);
	}
}

static void one_queue_is_all_there_is(void **state)
{
	uint32_t other;

	(void)state;
	g4_mapper_init(&mapper, 1);
	for (uint32_t i = 0; i < 2 * G4_MAPPER_PATIENCE; i++)
		assert_false(g4_mapper_waited(&mapper, i, 0, &other));
}

/* Not before it has waited a while, not to a queue that is half as long or longer, and not twice for the same reason. */
static void a_place_moves_for_a_reason_only(void **state)
{
	uint32_t other;

	(void)state;
	g4_mapper_init(&mapper, QUEUES);
	for (uint32_t i = 1; i < G4_MAPPER_PATIENCE; i++)
		assert_false(g4_mapper_waited(&mapper, 5, 5, &other));
	assert_true(g4_mapper_waited(&mapper, 5, 5, &other));
	assert_false(g4_mapper_move(&mapper, 5, 5, 100, other, 50));
	assert_int_equal(g4_mapper_queue(&mapper, 5), 5);
	assert_true(g4_mapper_move(&mapper, 5, 5, 100, other, 49));
	assert_int_equal(g4_mapper_queue(&mapper, 5), other);
	assert_false(g4_mapper_waited(&mapper, 5, 5, &other)); /* a request that began before */
	assert_false(g4_mapper_move(&mapper, 5, 5, 100, other, 0));
	const uint32_t now = g4_mapper_queue(&mapper, 5);
	for (uint32_t i = 1; i < G4_MAPPER_PATIENCE; i++)
		assert_false(g4_mapper_waited(&mapper, 5, now, &other));
}

/* The count of waits wraps around and leaves the queue alone. */
static void waiting_for_ever_changes_no_queue(void **state)
{
	uint32_t other;

	(void)state;
	g4_mapper_init(&mapper, QUEUES);
	mapper.places[7].word += 0xfffffe00u;
	for (uint32_t i = 0; i < 4; i++) {
		(void)g4_mapper_waited(&mapper, 7, 7, &other);
		assert_int_equal(g4_mapper_queue(&mapper, 7), 7);
	}
}

/*
 * The interleaving that makes a herd: all have seen queue 0 with everything and the others with nothing before anybody moves. Each of the
 * 95 that leave it has 23 to choose from: 4 or 5 each if they were even; to the least loaded one all would have gone.
 */
static void those_who_see_the_same_do_not_herd(void **state)
{
	uint32_t chosen[PLACES], longest = 0;

	(void)state;
	g4_mapper_init(&mapper, QUEUES);
	for (uint32_t w = 0; w < PLACES; w++)
		mapper.places[w].word = 0;
	for (uint32_t w = 0; w < PLACES; w++)
		chosen[w] = wait_long(w, 0);
	for (uint32_t w = 0; w < PLACES; w++)
		assert_true(g4_mapper_move(&mapper, w, 0, 1000, chosen[w], 0));
	for (uint32_t queue = 0; queue < QUEUES; queue++)
		longest = (uint32_t)g4_max64(longest, others_of(queue));
	assert_true(longest <= 3 * G4_MAPPER_PLACES_EACH);
}

/*
 * One busy workgroup in eight: by its index alone all of them would share one of eight queues. Each has always one request under way or
 * waits for a slot; a queue ends one request a step.
 */
static void busy_ones_that_meet_in_a_queue_part(void **state)
{
	enum { KINDS = 8, BUSY = 32, SLOTS = 2 };
	static struct g4_slots pools[KINDS];
	struct user {
		uint32_t queue, ticket, slot;
		bool waits, has;
	} users[BUSY] = {{0}};
	uint32_t done[2] = {0}, used = 0;

	(void)state;
	for (uint32_t mapped = 0; mapped < 2; mapped++) {
		g4_mapper_init(&mapper, KINDS);
		memset(users, 0, sizeof(users));
		for (uint32_t i = 0; i < KINDS; i++)
			g4_slots_init(&pools[i], SLOTS);
		for (uint32_t step = 0; step < 20000; step++) {
			bool ended[KINDS] = {false};
			for (uint32_t n = 0; n < BUSY; n++) {
				const uint32_t i = (n + step) % BUSY, workgroup = i * KINDS;
				struct user *u = &users[i];
				uint32_t other;
				if (u->has && !ended[u->queue]) {
					ended[u->queue] = true;
					g4_slots_give(&pools[u->queue], G4_CLASS_FOREGROUND, u->slot);
					done[mapped]++;
					u->has = false;
				}
				if (!u->has && !u->waits) {
					u->queue = g4_mapper_queue(&mapper, workgroup);
					u->has = g4_slots_take(&pools[u->queue], G4_CLASS_FOREGROUND, &u->slot);
					u->waits = !u->has;
					if (!u->waits)
						continue;
					u->ticket = g4_slots_ask(&pools[u->queue], G4_CLASS_FOREGROUND);
					if (mapped && g4_mapper_waited(&mapper, workgroup, u->queue, &other))
						g4_mapper_move(&mapper, workgroup, u->queue,
							       g4_slots_load(&pools[u->queue]), other,
							       g4_slots_load(&pools[other]));
				}
				if (u->waits &&
				    g4_slots_got(&pools[u->queue], G4_CLASS_FOREGROUND, u->ticket, &u->slot)) {
					u->waits = false;
					u->has = true;
				}
			}
		}
	}
	for (uint32_t queue = 0; queue < KINDS; queue++)
		used += others_of(queue) > 0;
	assert_true(used >= 4);
	assert_true(done[1] > 3 * done[0]); /* steps, not time: 4 busy places can use 4 queues */
}

RUN_TESTS(cmocka_unit_test(places_are_spread_evenly), cmocka_unit_test(one_queue_is_all_there_is),
	  cmocka_unit_test(a_place_moves_for_a_reason_only), cmocka_unit_test(waiting_for_ever_changes_no_queue),
	  cmocka_unit_test(those_who_see_the_same_do_not_herd), cmocka_unit_test(busy_ones_that_meet_in_a_queue_part))
