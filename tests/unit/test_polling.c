/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for what nobody announces (ring/polling_host.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>

#include <cmocka.h>

#include "ring/polling_host.h"
#include "simt/simt.h"

static uint64_t yield_ns; /* so long others run in place of a thread that yields */
static uint32_t yields;

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
	const uint64_t until = g4_monotonic_ns() + yield_ns;

	while (g4_monotonic_ns() < until)
		;
	yields++;
	return 0;
}

static void a_thread_that_napped_is_as_lazy_as_before(void **state)
{
	struct g4_polling slow = {.usual_ns = 100000}, fast = {.usual_ns = 10000};
	struct g4_waiter waiter;

	(void)state;
	assert_int_equal(prctl(PR_SET_TIMERSLACK, 40000, 0, 0, 0), 0);
	g4_waiter_begin(&waiter, &slow, 50000, false);
	assert_false(g4_waiter_spins(&waiter)); /* it takes too long to be looked for */
	g4_waiter_nap(&waiter);
	g4_waiter_end(&waiter, true);
	assert_true(slow.usual_ns < 100000); /* who knows how long it has been there */
	assert_int_equal(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), 40000);
	g4_waiter_begin(&waiter, &slow, 50000, false);
	for (uint32_t i = 0; i < 3; i++)
		g4_waiter_nap(&waiter);
	g4_waiter_end(&waiter, false);
	assert_int_equal(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), 40000);
	g4_waiter_begin(&waiter, &fast, 50000, false);
	while (g4_waiter_spins(&waiter)) /* not for ever */
		;
	g4_waiter_end(&waiter, true);
	assert_true(fast.usual_ns > 10000);
}

/* Being woken takes so long that what is slept for looks slow for ever. */
static void what_has_become_quick_is_found_out(void **state)
{
	struct g4_polling polling = {.usual_ns = 100000};
	struct g4_waiter waiter;

	(void)state;
	while (polling.usual_ns > 50000) { /* it is there at the first look, but the sleepers come 100 us late */
		uint32_t slept = 0;
		for (;;) {
			g4_waiter_begin(&waiter, &polling, 50000, true);
			if (g4_waiter_spins(&waiter))
				break;
			assert_true(++slept < 2 * G4_POLLING_TRIES);
			waiter.began_ns -= 100000;
			g4_waiter_end(&waiter, true);
		}
		g4_waiter_end(&waiter, true);
	}
}

static void what_stays_slow_is_slept_for(void **state)
{
	struct g4_polling polling = {.usual_ns = 100000};
	struct g4_waiter waiter;
	uint32_t tries = 0;

	(void)state;
	for (uint32_t i = 0; i < 4 * G4_POLLING_TRIES; i++) {
		g4_waiter_begin(&waiter, &polling, 50000, true);
		for (; g4_waiter_spins(&waiter); tries += waiter.looks == 1)
			;
		waiter.began_ns -= 100000;
		g4_waiter_end(&waiter, true);
	}
	assert_int_equal(tries, 4);
	assert_true(polling.usual_ns >= 100000);
}

static void who_shares_a_processor_steps_aside(void **state)
{
	uint32_t elsewhere = 0, here;

	(void)state;
	yield_ns = 0;
	assert_int_equal(g4_step_aside(&elsewhere), G4_STEP_LOOKS);
	do /* it may be moved in between */
		here = g4_runs_on();
	while (g4_step_aside(&here) == G4_STEP_LOOKS);
}

/* A step at a time at which a yield is due; what it was. */
static enum g4_step next_yield(void)
{
	const uint32_t before = yields;
	enum g4_step step;

	do
		step = g4_step_aside(NULL);
	while (yields == before);
	return step;
}

static void where_a_yield_takes_long_waiters_sleep(void **state)
{
	struct g4_polling polling = {.usual_ns = 1000000000};
	struct g4_waiter waiter;
	uint32_t here = g4_runs_on();

	(void)state;
	yields = 0;
	yield_ns = 5000000;
	const uint64_t began = g4_monotonic_ns();
	for (uint32_t i = 0; i < 10000; i++)
		assert_int_equal(g4_step_aside(NULL), G4_STEP_SLEEPS);
	/* all but the first are followed by as long a time without one, or longer */
	assert_true(yields <= 2 + (g4_monotonic_ns() - began) / (2 * yield_ns));
	while (next_yield() != G4_STEP_SLEEPS)
		;
	g4_waiter_begin(&waiter, &polling, 2000000000, true);
	waiter.peer = &here;
	while (g4_waiter_spins(&waiter)) /* until it runs where it says, or 256 looks are over */
		here = g4_runs_on();
	assert_true(waiter.crowded);
	g4_waiter_end(&waiter, true);
	assert_int_equal(polling.usual_ns, 1000000000); /* nothing is learned of the others' time */
	yield_ns = 0;
	while (next_yield() != G4_STEP_ASIDE) /* they are gone */
		;
	assert_int_not_equal(g4_step_aside(NULL), G4_STEP_LOOKS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_has_become_quick_is_found_out),
		cmocka_unit_test(what_stays_slow_is_slept_for),
		cmocka_unit_test(who_shares_a_processor_steps_aside),
		cmocka_unit_test(where_a_yield_takes_long_waiters_sleep),
		cmocka_unit_test(a_thread_that_napped_is_as_lazy_as_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
