/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for what nobody announces (ring/polling_host.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>

#include <cmocka.h>

#include "ring/polling_host.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_that_napped_is_as_lazy_as_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
