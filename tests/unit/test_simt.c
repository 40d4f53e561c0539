/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workgroups, regions, collectives and atomics, on the build's own number of lanes. On `lanes` also that mistakes which
 * a single lane cannot make end the process with a message that names them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "simt/simt_host.h"

#define MAX_LANES 64
#define BUFFER_BYTES 40000
#define ROOM_BYTES (16u * 1024)
#define REGION_ROUNDS 500
#define ATOMIC_ROUNDS 5000

/* What the lanes of a region saw, one entry a lane. */
struct region_result {
	uint32_t ran;
	bool any_none, any_last, all_but_last, all;
	uint64_t ballot_even;
	uint64_t from_last;
	uint64_t min, max, sum, scan;
	uint64_t neighbour; /* written by the next lane before g4_sync() */
};

static void record(struct g4_wg *wg, void *args)
{
	struct region_result *results = (struct region_result *)args;
	uint32_t lane = g4_wg_lane(wg);
	uint32_t last = g4_wg_width(wg) - 1;
	struct region_result *r = &results[lane];

	r->ran++;
	r->any_none = g4_any(wg, false);
	r->any_last = g4_any(wg, lane == last);
	r->all_but_last = g4_all(wg, lane != last);
	r->all = g4_all(wg, true);
	r->ballot_even = g4_ballot(wg, lane % 2 == 0);
	r->from_last = g4_broadcast(wg, 100 + lane, last);
	r->min = g4_reduce_min(wg, 1000 - lane);
	r->max = g4_reduce_max(wg, UINT64_C(1) << 40 | lane);
	r->sum = g4_reduce_sum(wg, lane + 1);
	r->scan = g4_scan_exclusive(wg, lane + 1);
	results[(lane + last) % (last + 1)].neighbour = lane;
	g4_sync(wg);
}

struct copies {
	uint8_t *to, *again;
	const uint8_t *from;
	uint64_t bytes;
};

/* The second copy is of the first, by lanes that did not all write it. */
static void copy_twice(struct g4_wg *wg, void *args)
{
	const struct copies *copies = (const struct copies *)args;

	g4_copy_in_region(wg, copies->to, copies->from, copies->bytes);
	g4_sync(wg);
	g4_copy_in_region(wg, copies->again, copies->to + 1, copies->bytes ? copies->bytes - 1 : 0);
}

static void count(struct g4_wg *wg, void *args)
{
	((uint32_t *)args)[g4_wg_lane(wg)]++;
}

/* Memory that the lanes share. */
static void *shared(struct g4_wg *wg)
{
	g4_scratch_release(wg, 0);
	return g4_scratch_take(wg, ROOM_BYTES);
}

static int make_wg(void **state)
{
	*state = g4_wg_create(7);
	return *state ? 0 : -1;
}

static int drop_wg(void **state)
{
	g4_wg_destroy((struct g4_wg *)*state);
	return 0;
}

/* ---- workgroups ---- */

static void a_workgroup_knows_itself(void **state)
{
	struct g4_wg *wg = (struct g4_wg *)*state;

#ifdef G4_LANES
	assert_int_equal(g4_wg_width(wg), G4_LANES);
#else
	assert_int_equal(g4_wg_width(wg), 1);
#endif
	assert_int_equal(g4_wg_lane(wg), 0);
	assert_int_equal(g4_wg_index(wg), 7);
}

static void a_workgroup_beyond_the_limit_is_refused(void **state)
{
	struct g4_wg *wg = g4_wg_create(G4_WG_MAX - 1);

	(void)state;
	assert_non_null(wg);
	g4_wg_destroy(wg);
	assert_null(g4_wg_create(G4_WG_MAX));
	g4_wg_destroy(NULL);
}

/* ---- regions of the layer ---- */

static const uint64_t sizes[] = {0, 1, 7, 63, 64, 255, 256, 257, 1000, 4096, 4097, 30001};
static const uint32_t shifts[] = {0, 1, 8, 13, 63};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define SHIFTS (sizeof(shifts) / sizeof(shifts[0]))

static uint8_t one[BUFFER_BYTES];
static uint8_t two[BUFFER_BYTES];

static void fill(void)
{
	for (uint32_t i = 0; i < BUFFER_BYTES; i++) {
		one[i] = (uint8_t)(i * 7 + i / 251);
		two[i] = 0xee;
	}
}

/* two[from, from + bytes) lies between untouched bytes. */
static void assert_untouched_around(uint64_t from, uint64_t bytes)
{
	for (uint64_t i = 0; i < BUFFER_BYTES; i++) {
		if (i < from || i >= from + bytes)
			assert_int_equal(two[i], 0xee);
	}
}

static void copy_copies_exactly(void **state)
{
	struct g4_wg *wg = (struct g4_wg *)*state;

	for (uint32_t i = 0; i < SIZES * SHIFTS; i++) {
		uint64_t bytes = sizes[i / SHIFTS];
		uint32_t shift = shifts[i % SHIFTS];

		fill();
		g4_copy(wg, two + 100 + shift, one + 64, bytes);
		assert_memory_equal(two + 100 + shift, one + 64, bytes);
		assert_untouched_around(100 + shift, bytes);
	}
	g4_copy(wg, NULL, NULL, 0);
}

static void lanes_in_a_region_copy_exactly(void **state)
{
	struct g4_wg *wg = (struct g4_wg *)*state;
	struct copies *copies = (struct copies *)shared(wg);
	static uint8_t again[BUFFER_BYTES];

	for (uint32_t i = 0; i < SIZES * SHIFTS; i++) {
		uint64_t bytes = sizes[i / SHIFTS];
		uint32_t shift = shifts[i % SHIFTS];

		fill();
		*copies = (struct copies){two + 100 + shift, again, one + 64, bytes};
		g4_region(wg, G4_REGION_USER, copy_twice, copies);
		assert_memory_equal(two + 100 + shift, one + 64, bytes);
		assert_untouched_around(100 + shift, bytes);
		if (bytes)
			assert_memory_equal(again, one + 65, bytes - 1);
	}
}

static void zero_zeroes_exactly(void **state)
{
	struct g4_wg *wg = (struct g4_wg *)*state;

	for (uint32_t i = 0; i < SIZES * SHIFTS; i++) {
		uint64_t bytes = sizes[i / SHIFTS];
		uint32_t shift = shifts[i % SHIFTS];

		fill();
		g4_zero(wg, two + 100 + shift, bytes);
		for (uint64_t k = 0; k < bytes; k++)
			assert_int_equal(two[100 + shift + k], 0);
		assert_untouched_around(100 + shift, bytes);
	}
	g4_zero(wg, NULL, 0);
}

static void equal_finds_a_difference_anywhere(void **state)
{
	struct g4_wg *wg = (struct g4_wg *)*state;

	fill();
	memcpy(two, one, BUFFER_BYTES);
	for (uint32_t i = 0; i < SIZES; i++)
		assert_true(g4_equal(wg, one + 3, two + 3, sizes[i]));
	for (uint32_t at = 0; at < 4096; at += 61) {
		two[at]++;
		assert_false(g4_equal(wg, one, two, 4096));
		assert_true(g4_equal(wg, one, two, at));
		assert_true(g4_equal(wg, one + at + 1, two + at + 1, 4095 - at));
		two[at]--;
	}
	assert_true(g4_equal(wg, NULL, NULL, 0));
}

/* ---- user regions and collectives ---- */

static void every_lane_runs_a_user_region(void **state)
{
	struct g4_wg *wg = (struct g4_wg *)*state;
	uint32_t *counts = (uint32_t *)shared(wg);

	g4_zero(wg, counts, MAX_LANES * sizeof(*counts));
	for (uint32_t round = 0; round < REGION_ROUNDS; round++)
		g4_region(wg, G4_REGION_USER, count, counts);
	for (uint32_t lane = 0; lane < MAX_LANES; lane++)
		assert_int_equal(counts[lane], lane < g4_wg_width(wg) ? REGION_ROUNDS : 0);
}

static void collectives_agree_in_every_lane(void **state)
{
	struct g4_wg *wg = (struct g4_wg *)*state;
	struct region_result *results = (struct region_result *)shared(wg);
	uint32_t width = g4_wg_width(wg);
	uint64_t even = UINT64_C(0x5555555555555555) & (UINT64_MAX >> (64 - width));

	memset(results, 0, MAX_LANES * sizeof(*results));
	g4_region(wg, G4_REGION_USER, record, results);
	for (uint32_t lane = 0; lane < width; lane++) {
		const struct region_result *r = &results[lane];

		assert_int_equal(r->ran, 1);
		assert_false(r->any_none);
		assert_true(r->any_last);
		assert_false(r->all_but_last);
		assert_true(r->all);
		assert_int_equal(r->ballot_even, even);
		assert_int_equal(r->from_last, 100 + width - 1);
		assert_int_equal(r->min, 1000 - (width - 1));
		assert_int_equal(r->max, UINT64_C(1) << 40 | (width - 1));
		assert_int_equal(r->sum, width * (width + 1) / 2);
		assert_int_equal(r->scan, lane * (lane + 1) / 2);
		assert_int_equal(r->neighbour, (lane + 1) % width);
	}
}

static void lanes_serve_again_after_they_were_dismissed(void **state)
{
	struct g4_wg *wg = (struct g4_wg *)*state;
	uint32_t *counts = (uint32_t *)shared(wg);

	memset(counts, 0, MAX_LANES * sizeof(*counts));
	g4_wg_dismiss(wg);
	g4_region(wg, G4_REGION_USER, count, counts);
	g4_wg_dismiss(wg);
	for (uint32_t lane = 0; lane < g4_wg_width(wg); lane++)
		assert_int_equal(counts[lane], 1);
}

static void *lead(void *arg)
{
	struct g4_wg *wg = (struct g4_wg *)arg;
	uint8_t *scratch = (uint8_t *)shared(wg);

	for (uint32_t round = 0; round < REGION_ROUNDS; round++) {
		g4_zero(wg, scratch, 2048);
		g4_copy(wg, scratch + 4096, scratch, 2048);
		if (!g4_equal(wg, scratch, scratch + 4096, 2048))
			return wg;
	}
	return NULL;
}

static void workgroups_do_not_disturb_each_other(void **state)
{
	struct g4_wg *other = g4_wg_create(8);
	pthread_t thread;
	void *result;

	assert_non_null(other);
	assert_int_equal(pthread_create(&thread, NULL, lead, other), 0);
	assert_null(lead(*state));
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
	/* A workgroup's leader may be another thread the next time. */
	assert_null(lead(other));
	g4_wg_destroy(other);
}

/* ---- mistakes that only lanes can make ---- */

#ifdef G4_LANES
static void diverge_in_kind(struct g4_wg *wg, void *args)
{
	(void)args;
	if (g4_wg_lane(wg) == 1)
		g4_any(wg, true);
	else
		g4_sync(wg);
}

static void leave_early(struct g4_wg *wg, void *args)
{
	(void)args;
	if (g4_wg_lane(wg) != 0)
		g4_sync(wg);
}

static void diverge_in_argument(struct g4_wg *wg, void *args)
{
	(void)args;
	g4_broadcast(wg, 7, g4_wg_lane(wg));
}

static void open_region(struct g4_wg *wg, void *args)
{
	g4_zero(wg, args, 64);
}

/*
 * Runs a region in a process of its own and looks for `text` in what it wrote. How it ended, as waitpid() has it. The arguments are on
 * the stack if on_stack.
 */
static int run_apart(void (*run)(struct g4_wg *wg, void *args), bool on_stack, const char *text)
{
	char message[16384]; /* a report of ThreadSanitizer's, too */
	size_t bytes = 0;
	ssize_t n;
	int ends[2];
	int status;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct g4_wg *wg = g4_wg_create(0);
		uint32_t local[MAX_LANES] = {0};

		signal(SIGABRT, SIG_DFL);
		dup2(ends[1], STDERR_FILENO);
		if (wg)
			g4_region(wg, G4_REGION_USER, run, on_stack ? local : shared(wg));
		_exit(0);
	}
	close(ends[1]);
	while ((n = read(ends[0], message + bytes, sizeof(message) - 1 - bytes)) > 0)
		bytes += (size_t)n;
	close(ends[0]);
	message[bytes] = '\0';
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_non_null(strstr(message, text));
	return status;
}

static void assert_aborts(void (*run)(struct g4_wg *wg, void *args), bool on_stack, const char *text)
{
	const int status = run_apart(run, on_stack, text);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
}

#if defined(G4_TSAN)
static void count_in_one_word(struct g4_wg *wg, void *args)
{
	(void)wg;
	++*(uint32_t *)args;
}

/* One lane runs after the other, and still they race. */
static void lanes_that_race_are_reported(void **state)
{
	(void)state;
	const int status = run_apart(count_in_one_word, false, "data race");

	assert_true(WIFEXITED(status));
	assert_int_not_equal(WEXITSTATUS(status), 0);
}

/* ThreadSanitizer asks for it. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:count_as_meant\n";
}

#define DEPTH_MOST                                                                                                     \
	64u /* of calls: a report has memory for them, as much as ThreadSanitizer has for a lane, for one of the depths */

static __attribute__((noinline)) void count_as_meant(volatile uint32_t *word, uint32_t depth)
{
	if (depth > 0)
		count_as_meant(word, depth - 1);
	else
		++*word;
	++*word; /* so that the call before is none in tail position */
}

static void race_as_meant(struct g4_wg *wg, void *args)
{
	(void)wg;
	for (uint32_t depth = 0; depth < DEPTH_MOST; depth++)
		count_as_meant((uint32_t *)args + 2 * depth, depth);
}

/* What ThreadSanitizer knows of their lanes may lie where reports lay that were suppressed. */
static void workgroups_that_never_ran_end_behind_reports(void **state)
{
	struct g4_wg *wg = g4_wg_create(0), *others[64];

	(void)state;
	for (uint32_t round = 0; round < 16; round++)
		g4_region(wg, G4_REGION_USER, race_as_meant, shared(wg));
	for (uint32_t n = 0; n < 64; n++)
		others[n] = g4_wg_create(1 + n);
	for (uint32_t n = 0; n < 64; n++)
		g4_wg_destroy(others[n]);
	g4_wg_destroy(wg);
}
#endif

static void lanes_at_different_collectives_are_reported(void **state)
{
	(void)state;
	assert_aborts(diverge_in_kind, false, "lane 0 is in g4_sync() (meeting 1, argument 0), lane 1 is in g4_any()");
}

static void a_lane_that_leaves_the_region_early_is_reported(void **state)
{
	(void)state;
	assert_aborts(leave_early, false, "lane 0 has reached the end of the region");
}

static void lanes_with_different_arguments_are_reported(void **state)
{
	(void)state;
	assert_aborts(diverge_in_argument, false, "argument 0), lane 1 is in g4_broadcast() (meeting 1, argument 1)");
}

static void a_region_within_a_region_is_reported(void **state)
{
	(void)state;
	assert_aborts(open_region, false, "calls a function that");
}

static void arguments_on_the_leaders_stack_are_reported(void **state)
{
	(void)state;
#if !defined(G4_ASAN)
	assert_aborts(count, true, "arguments on its stack");
#else
	skip(); /* AddressSanitizer moves locals to the heap */
#endif
}
#endif

/* ---- atomics ---- */

static void atomics_return_the_old_value(void **state)
{
	uint32_t x = 5;
	uint64_t y = UINT64_C(1) << 40;

	(void)state;
	assert_int_equal(g4_add32(&x, 3), 5);
	assert_int_equal(g4_sub32(&x, 2), 8);
	assert_int_equal(g4_or32(&x, 9), 6);
	assert_int_equal(g4_and32(&x, 13), 15);
	assert_int_equal(g4_xchg32(&x, 100), 13);
	assert_int_equal(g4_atomic_max32(&x, 50), 100);
	assert_int_equal(g4_atomic_max32(&x, 200), 100);
	assert_int_equal(g4_load32_acq(&x), 200);
	assert_false(g4_cas32(&x, 100, 1));
	assert_true(g4_cas32(&x, 200, 1));
	assert_int_equal(g4_load32_rlx(&x), 1);

	assert_int_equal(g4_add64(&y, 1), UINT64_C(1) << 40);
	assert_int_equal(g4_sub64(&y, 1), (UINT64_C(1) << 40) + 1);
	assert_int_equal(g4_or64(&y, 1), UINT64_C(1) << 40);
	assert_int_equal(g4_and64(&y, ~UINT64_C(1)), (UINT64_C(1) << 40) + 1);
	assert_int_equal(g4_xchg64(&y, UINT64_MAX), UINT64_C(1) << 40);
	assert_int_equal(g4_atomic_max64(&y, 1), UINT64_MAX);
	assert_false(g4_cas64(&y, 0, 1));
	assert_true(g4_cas64(&y, UINT64_MAX, 3));
	g4_store64_rel_sys(&y, g4_load64_acq_sys(&y) + 1);
	g4_store64_rel(&y, g4_load64_acq(&y) + 1);
	assert_int_equal(g4_load64_rlx_sys(&y), 5);
	g4_store32_rel_sys(&x, g4_load32_acq_sys(&x) + 1);
	assert_int_equal(g4_load32_rlx_sys(&x), 2);
}

static void *add_many(void *arg)
{
	uint64_t *sum_and_max = (uint64_t *)arg;

	for (uint32_t i = 1; i <= ATOMIC_ROUNDS; i++) {
		g4_add64(&sum_and_max[0], 1);
		g4_atomic_max64(&sum_and_max[1], i);
	}
	return NULL;
}

static void atomics_lose_no_update(void **state)
{
	uint64_t sum_and_max[2] = {0, 0};
	pthread_t threads[4];

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add_many, sum_and_max), 0);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(sum_and_max[0], 4 * ATOMIC_ROUNDS);
	assert_int_equal(sum_and_max[1], ATOMIC_ROUNDS);
}

/* ---- time ---- */

static void clocks_advance(void **state)
{
	time_t before = time(NULL);
	int64_t now = g4_realtime_ns();
	uint64_t earlier = g4_monotonic_ns();

	(void)state;
	/* time() may run a clock tick behind. */
	assert_true(now / 1000000000 + 1 >= before);
	assert_true(now / 1000000000 <= time(NULL) + 1);
	assert_true(g4_monotonic_ns() >= earlier);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifdef G4_LANES
		/* First: a process forks safely as long as it has one thread. */
		cmocka_unit_test(lanes_at_different_collectives_are_reported),
		cmocka_unit_test(a_lane_that_leaves_the_region_early_is_reported),
		cmocka_unit_test(lanes_with_different_arguments_are_reported),
		cmocka_unit_test(a_region_within_a_region_is_reported),
		cmocka_unit_test(arguments_on_the_leaders_stack_are_reported),
#if defined(G4_TSAN)
		cmocka_unit_test(lanes_that_race_are_reported),
		cmocka_unit_test(workgroups_that_never_ran_end_behind_reports),
#endif
#endif
		cmocka_unit_test_setup_teardown(a_workgroup_knows_itself, make_wg, drop_wg),
		cmocka_unit_test(a_workgroup_beyond_the_limit_is_refused),
		cmocka_unit_test_setup_teardown(copy_copies_exactly, make_wg, drop_wg),
		cmocka_unit_test_setup_teardown(lanes_in_a_region_copy_exactly, make_wg, drop_wg),
		cmocka_unit_test_setup_teardown(zero_zeroes_exactly, make_wg, drop_wg),
		cmocka_unit_test_setup_teardown(equal_finds_a_difference_anywhere, make_wg, drop_wg),
		cmocka_unit_test_setup_teardown(every_lane_runs_a_user_region, make_wg, drop_wg),
		cmocka_unit_test_setup_teardown(collectives_agree_in_every_lane, make_wg, drop_wg),
		cmocka_unit_test_setup_teardown(lanes_serve_again_after_they_were_dismissed, make_wg, drop_wg),
		cmocka_unit_test_setup_teardown(workgroups_do_not_disturb_each_other, make_wg, drop_wg),
		cmocka_unit_test(atomics_return_the_old_value),
		cmocka_unit_test(atomics_lose_no_update),
		cmocka_unit_test(clocks_advance),
	};

	return cmocka_run_group_tests_name("simt", tests, NULL, NULL);
}
