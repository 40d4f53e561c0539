/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait for a drive and sleep: no wake-up is lost wherever a completion, another one's look, or the listener's leaving comes
 * in between; who sleeps looks at nothing; the controller may be silent, never interrupt, or go away. The controller is the emulated one, as a
 * drive is: nobody helps it.
 *
 * Sleeps that a wake-up is due for have a minute: one that takes it is a lost one.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "dev/nvme/recovery_host.h"
#include "dev/nvme/waiting_host.h"
#include "dev/nvme/waking_host.h"
#include "unit/dev_util.h"

/* ---- where a thread that goes to sleep can be held up ---- */

enum place { NOWHERE, TURNING_ON, TURNED_ON, SEEN, ASKED, LISTENING, BESIDE };

static enum place held_at;	/* once */
static void (*held_up)(void);	/* what happens there */
static uint32_t polls, futexes; /* sleeps, and those that nobody has ended within a minute */
static uint32_t lost;
static uint32_t early; /* of the next sleeps, so many end at once, as if their time were over */
static bool in_time;   /* sleeps last as long as they are to: no wake-up is due */

static void at(enum place place)
{
	if (held_at != place)
		return;
	held_at = NOWHERE;
	held_up();
}

static bool ends_early(void)
{
	uint32_t left = g4_load32_rlx(&early);

	while (left > 0 && !g4_cas32(&early, left, left - 1))
		left = g4_load32_rlx(&early);
	return left > 0;
}

static int hooked_ppoll(struct pollfd *files, nfds_t count, const struct timespec *longest, const sigset_t *mask)
{
	const struct timespec minute = {.tv_sec = 60};

	g4_add32(&polls, 1);
	if (ends_early())
		return 0;
	at(LISTENING);
	const int found = ppoll(files, count, in_time ? longest : &minute, mask);
	if (found == 0 && !in_time)
		g4_add32(&lost, 1);
	return found;
}

static long hooked_syscall(long number, uint32_t *word, int op, uint32_t value, const struct timespec *longest,
			   void *none, int zero)
{
	const struct timespec minute = {.tv_sec = 60};

	assert_int_equal(number, SYS_futex);
	g4_add32(&futexes, 1);
	at(BESIDE);
	const long rc = syscall(number, word, op, value, in_time ? longest : &minute, none, zero);
	if (rc < 0 && errno == ETIMEDOUT && !in_time)
		g4_add32(&lost, 1);
	return rc;
}

static uint32_t hooked_xchg32(uint32_t *word, uint32_t value)
{
	const uint32_t before = (g4_xchg32)(word, value);

	if (value)
		at(ASKED);
	return before;
}

#define ppoll hooked_ppoll
#define syscall hooked_syscall
#define g4_xchg32 hooked_xchg32
#define g4_nvme_is_quiet(queue) (at(SEEN), (g4_nvme_is_quiet)(queue))
#include "dev/nvme/waiting_host.c" /* NOLINT(bugprone-suspicious-include) */
#undef ppoll
#undef syscall
#undef g4_xchg32
#undef g4_nvme_is_quiet

#include "unit/nvme/emulated.h"

/* ---- a medium whose reads wait for leave ---- */

static struct g4_dev *medium;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_opens = PTHREAD_COND_INITIALIZER;
static uint32_t leaves; /* requests that may be executed */
#define ALWAYS 1000000000u

static void give_leave(uint32_t count)
{
	pthread_mutex_lock(&gate);
	leaves += count;
	pthread_cond_broadcast(&gate_opens);
	pthread_mutex_unlock(&gate);
}

static void take_leaves(void)
{
	pthread_mutex_lock(&gate);
	leaves = 0;
	pthread_mutex_unlock(&gate);
}

static void await_leave(void)
{
	pthread_mutex_lock(&gate);
	while (leaves == 0)
		pthread_cond_wait(&gate_opens, &gate);
	leaves -= leaves < ALWAYS / 2;
	pthread_mutex_unlock(&gate);
}

static void submit_gated(struct g4_wg *by, struct g4_dev *dev, struct g4_io *first)
{
	(void)dev;
	for (struct g4_io *io = first; io; io = io->next) {
		struct g4_io own = *io;
		own.next = NULL;
		own.done = 0;
		if (io->op == G4_IO_READ)
			await_leave();
		g4_dev_submit(by, medium, &own);
		io->result = g4_dev_wait(by, medium, &own);
		g4_store32_rel(&io->done, 1);
	}
}

static void wait_gated(struct g4_wg *by, struct g4_dev *dev, struct g4_io *io)
{
	(void)by;
	(void)dev;
	assert_true(g4_load32_acq(&io->done));
}

static void close_gated(struct g4_dev *dev)
{
	(void)dev;
	g4_dev_close(medium);
}

static const struct g4_dev_ops gated_ops = {
	.submit = submit_gated, .poll = wait_gated, .wait = wait_gated, .close = close_gated};
static struct g4_dev gated;

/* ---- the controller ---- */

static struct g4_dev *dev;
static struct g4_nvme *nvme;
static bool (*inner_listen)(void *context, uint32_t vector, int event);
static uint32_t turned_on, turned_off;
static bool mute; /* interrupts do not arrive */

static bool hooked_listen(void *context, uint32_t vector, int event)
{
	bool heard;

	if (event < 0) {
		turned_off++;
		return inner_listen(context, vector, event);
	}
	at(TURNING_ON);
	heard = inner_listen(context, vector, mute ? -1 : event);
	turned_on++;
	at(TURNED_ON);
	return heard;
}

static void open_waiting(uint64_t poll_ns)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};
	const struct g4_nvme_options options = {.queues = 1, .slots = 8, .poll_ns = poll_ns};
	struct g4_nvme_provider provider;

	medium = open_device("mem:16M");
	gated = (struct g4_dev){.props = medium->props, .ops = &gated_ops};
	gated.props.mapped = false;
	assert_int_equal(g4_emu_open(&gated, NULL, &emu, &provider), 0);
	provider.work = NULL;
	inner_listen = provider.listen;
	provider.listen = hooked_listen;
	assert_int_equal(g4_nvme_device_open("emu:test", &provider, &options, &dev, sentence), 0);
	nvme = g4_nvme_of(dev);
}

static int begin(void **state)
{
	held_at = NOWHERE;
	polls = futexes = lost = early = turned_on = turned_off = 0;
	in_time = mute = false;
	take_leaves();
	return begin_emulated(state);
}

static int end_waiting(void **state)
{
	give_leave(ALWAYS);
	g4_dev_close(dev);
	return end_emulated(state);
}
#define waiting_test(f) cmocka_unit_test_setup_teardown(f, begin, end_waiting)

static struct g4_iov request_iov;
static struct g4_io request;

static void submit_read(void)
{
	request_iov = (struct g4_iov){.base = buffer, .bytes = 4096};
	request = (struct g4_io){.op = G4_IO_READ, .iov = &request_iov, .iov_count = 1};
	g4_dev_submit(wg, dev, &request);
}

static void read_once(void)
{
	submit_read();
	assert_int_equal(g4_dev_wait(wg, dev, &request), 0);
}

/* A read whose turn the medium gives when its waiter sleeps. */
static void leave_one(void)
{
	give_leave(1);
}

static void read_asleep(void)
{
	held_up = leave_one;
	held_at = LISTENING;
	read_once();
	assert_int_equal(held_at, NOWHERE);
}

/* ---- what comes in between ---- */

/* Nobody looks at completions meanwhile. */
static void controller_answers(void)
{
	give_leave(1);
	while (!g4_nvme_pair_is_answered(&nvme->queues[0].flight.pair))
		g4_pause();
}

static void somebody_looks(void)
{
	controller_answers();
	struct g4_io other = {.op = G4_IO_READ}; /* a wait of somebody's who looks once */
	struct g4_nvme_turn turn = {0};
	while (!g4_load32_acq(&request.done)) {
		other.cookie = UINT64_C(1) << 56; /* all of it is started */
		g4_nvme_step(&nvme->queues[0], g4_nvme_target_of(dev), &other, &turn);
	}
	g4_nvme_pass_on(nvme, 0);
}

/* Somebody looks, for whom it was too early: the completion comes while the look lock is held still. */
static void somebody_looks_too_early(void)
{
	assert_true(g4_slots_try_look(&nvme->queues[0].pool));
	controller_answers();
}

static void *let_look(void *argument)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	(void)argument;
	nanosleep(&nap, NULL); /* however long */
	g4_slots_looked(&nvme->queues[0].pool);
	return NULL;
}

static pthread_t looker;
static void somebody_holds_the_look(void)
{
	somebody_looks_too_early();
	assert_int_equal(pthread_create(&looker, NULL, let_look, NULL), 0);
}

static void between(enum place place, void (*what)(void))
{
	held_up = what;
	held_at = place;
	read_once();
	assert_int_equal(held_at, NOWHERE);
	assert_int_equal(lost, 0);
	if (what == somebody_holds_the_look)
		pthread_join(looker, NULL);
}

static void a_completion_comes_at_each_place(void **state)
{
	const enum place places[] = {TURNING_ON, TURNED_ON, ASKED, SEEN, LISTENING};
	void (*const what[])(void) = {controller_answers, somebody_looks, somebody_holds_the_look};
	uint32_t met = 0;

	(void)state;
	for (uint32_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		for (uint32_t k = 0; k < sizeof(what) / sizeof(what[0]); k++, met++) {
			open_waiting(1); /* anew: the interrupt is off */
			between(places[i], what[k]);
			assert_int_equal(turned_on, 1 + met);
			assert_int_equal(g4_load32_acq(&nvme->queues[0].sleepers), 0);
			if (met < 14)
				g4_dev_close(dev);
		}
	assert_int_equal(met, 15);
}

/* This test is the listener: the thread that waits is one beside it. */
static void listen_here(void)
{
	assert_int_equal(g4_xchg32(&nvme->waking[0].listening, 1), 0);
}

/* The controller answers when somebody listens again. */
static void listener_leaves(void)
{
	g4_xchg32(&nvme->waking[0].listening, 0);
	assert_int_equal(g4_load32_acq(&nvme->queues[0].sleepers), 1);
	g4_nvme_wake(&nvme->waking[0]);
	held_up = leave_one;
	held_at = LISTENING;
}

static void those_beside_the_listener_are_told(void **state)
{
	const enum place places[] = {ASKED, SEEN, BESIDE};

	(void)state;
	open_waiting(1);
	listen_here();
	for (uint32_t i = 0; i < 3; i++)
		between(places[i], somebody_looks);
	assert_int_equal(polls, 0);
	assert_int_equal(futexes, 1); /* elsewhere it was seen before */
}

static void the_listener_leaves_and_another_one_listens(void **state)
{
	const enum place places[] = {ASKED, SEEN, BESIDE};

	(void)state;
	open_waiting(1);
	for (uint32_t i = 0; i < 3; i++) {
		listen_here();
		between(places[i], listener_leaves);
		assert_int_equal(futexes, i + 1);
		assert_true(polls > i); /* the wake-up may be one of it, too */
		assert_int_equal(g4_load32_acq(&nvme->waking[0].listening), 0);
	}
}

static uint64_t wakes_before;
static void somebody_looks_for_it(void)
{
	somebody_looks();
	wakes_before = g4_nvme_waits_of(nvme).wakes;
}

/* That it leaves, it tells those that sleep, also where it has taken nothing for them. */
static void who_leaves_off_listening_says_so(void **state)
{
	(void)state;
	open_waiting(1);
	g4_add32(&nvme->queues[0].sleepers, 1); /* this test */
	between(LISTENING, somebody_looks_for_it);
	assert_int_equal(g4_nvme_waits_of(nvme).wakes, wakes_before + 1);
	assert_int_equal(g4_load32_acq(&nvme->waking[0].listening), 0);
	g4_sub32(&nvme->queues[0].sleepers, 1);
}

/* ---- several threads ---- */

struct sleeper {
	pthread_t thread;
	uint32_t index, rounds;
};

static void *read_in_rounds(void *argument)
{
	const struct sleeper *sleeper = argument;
	struct g4_wg *own = g4_wg_create(sleeper->index + 2);
	uint8_t *memory = pages(G4_PAGE_BYTES);

	for (uint32_t i = 0; i < sleeper->rounds; i++) {
		assert_int_equal(g4_dev_read(own, dev, (sleeper->index * 64 + i % 64) * G4_PAGE_BYTES, memory,
					     G4_PAGE_BYTES),
				 0);
		check(memory, G4_PAGE_BYTES, (sleeper->index * 64 + i % 64) * G4_PAGE_BYTES, 1);
	}
	free(memory);
	g4_wg_destroy(own);
	return NULL;
}

#define SLEEPERS 4u
static void read_by_several(uint32_t rounds)
{
	static struct sleeper sleepers[SLEEPERS];

	for (uint32_t i = 0; i < SLEEPERS; i++) {
		sleepers[i] = (struct sleeper){.index = i, .rounds = rounds};
		assert_int_equal(pthread_create(&sleepers[i].thread, NULL, read_in_rounds, &sleepers[i]), 0);
	}
	while (g4_load32_acq(&polls) + g4_load32_acq(&futexes) < SLEEPERS)
		g4_pause(); /* all have gone to sleep */
	give_leave(ALWAYS);
	for (uint32_t i = 0; i < SLEEPERS; i++)
		pthread_join(sleepers[i].thread, NULL);
}

static void several_sleep_and_all_are_woken(void **state)
{
	(void)state;
	give_leave(ALWAYS);
	open_waiting(1);
	fill(buffer, SLEEPERS * 64 * G4_PAGE_BYTES, 0, 1);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, SLEEPERS * 64 * G4_PAGE_BYTES, 0), 0);
	for (uint32_t i = 0; i < 8; i++) {
		g4_nvme_turn_off(nvme, 0);
		polls = futexes = 0;
		take_leaves();
		read_by_several(50);
		assert_int_equal(g4_load32_acq(&nvme->queues[0].sleepers), 0);
	}
	assert_int_equal(lost, 0);
	assert_true(g4_nvme_waits_of(nvme).sleeps >= 8 * SLEEPERS);
}

/* ---- how much is looked ---- */

/* Each sleep costs two looks, whatever a request takes. */
static void who_sleeps_looks_at_nothing(void **state)
{
	const uint32_t requests = 10, times = 100;

	(void)state;
	open_waiting(1);
	for (uint32_t i = 0; i < requests; i++) {
		early = times;
		read_asleep();
	}
	const struct g4_nvme_waits waits = g4_nvme_waits_of(nvme);
	assert_int_equal(waits.sleeps, requests * (times + 1));
	assert_true(waits.looks <= 2 * waits.sleeps + requests * 40);
	assert_int_equal(lost, 0);
}

/* Requests that take long are not polled for: but one of sixteen, for that may change. */
static void long_requests_are_not_polled_for(void **state)
{
	uint32_t polled = 0;

	(void)state;
	open_waiting(1);
	for (uint32_t i = 0; i < 20; i++)
		read_asleep();
	for (uint32_t i = 0; i < 64; i++) {
		const uint64_t before = g4_nvme_waits_of(nvme).looks;
		read_asleep();
		polled += g4_nvme_waits_of(nvme).looks - before >= 2 * LOOKS_FIRST;
	}
	assert_int_equal(polled, 4);
	assert_int_equal(turned_on, 1);
}

/* The interrupt stays off where polling is enough, and is turned off where it is again. */
static void who_polls_is_not_interrupted(void **state)
{
	(void)state;
	give_leave(ALWAYS);
	open_waiting(UINT64_C(3600000000000));
	for (uint32_t i = 0; i < 300; i++)
		read_once();
	assert_int_equal(turned_on, 0);
	assert_int_equal(g4_nvme_waits_of(nvme).sleeps, 0);
	take_leaves();
	nvme->poll_ns = 1;
	read_asleep();
	assert_int_equal(turned_on, 1);
	assert_int_equal(g4_nvme_waits_of(nvme).on, 1);
	nvme->poll_ns = UINT64_C(3600000000000);
	give_leave(ALWAYS);
	for (uint32_t i = 0; i < POLLED_MOST; i++)
		read_once();
	assert_int_equal(turned_off, 1);
	assert_int_equal(g4_nvme_waits_of(nvme).on, 0);
	take_leaves();
	nvme->poll_ns = 1;
	read_asleep();
	assert_int_equal(turned_on, 2);
	assert_int_equal(lost, 0);
}

/* ---- a controller that is not as it should be ---- */

/* Its requests end all the same, and soon nobody sleeps for it any more. */
static void a_controller_that_never_interrupts_is_found_out(void **state)
{
	(void)state;
	open_waiting(1);
	mute = in_time = true;
	for (uint32_t i = 0; i < UNHEARD_MOST; i++) {
		assert_int_equal(g4_nvme_waits_of(nvme).deaf, 0);
		held_up = controller_answers;
		held_at = LISTENING;
		read_once();
		assert_int_equal(held_at, NOWHERE);
	}
	assert_int_equal(g4_nvme_waits_of(nvme).deaf, 1);
	const uint64_t sleeps = g4_nvme_waits_of(nvme).sleeps;
	give_leave(ALWAYS);
	for (uint32_t i = 0; i < 20; i++)
		read_once();
	assert_int_equal(g4_nvme_waits_of(nvme).sleeps, sleeps);
	assert_int_equal(g4_nvme_device_counts(dev).failed, 0);
}

static void interrupts_that_arrive_keep_their_trust(void **state)
{
	(void)state;
	open_waiting(1);
	for (uint32_t i = 0; i < 3 * UNHEARD_MOST; i++) {
		in_time = mute = i % UNHEARD_MOST != UNHEARD_MOST - 1;
		g4_nvme_turn_off(nvme, 0);
		held_up = controller_answers;
		held_at = LISTENING;
		read_once();
	}
	assert_int_equal(g4_nvme_waits_of(nvme).deaf, 0);
}

/* Nobody interrupts for these: what ends a sleep is its time. */
static int read_with_fault(struct g4_emu_faults faults)
{
	give_leave(ALWAYS);
	in_time = true;
	set(faults);
	submit_read();
	const int rc = g4_dev_wait(wg, dev, &request);
	assert_true(g4_nvme_waits_of(nvme).sleeps > 0);
	return rc;
}

static void a_reset_is_found_by_who_sleeps(void **state)
{
	(void)state;
	open_waiting(1);
	assert_int_equal(read_with_fault((struct g4_emu_faults){.reset_at = 1}), 0);
	assert_int_equal(g4_nvme_device_counts(dev).resets, 1);
	assert_int_equal(read_with_fault((struct g4_emu_faults){.fatal_at = 1}), 0);
	assert_int_equal(g4_nvme_device_counts(dev).resets, 2);
	take_leaves(); /* the queue that was made again interrupts, too */
	in_time = false;
	read_asleep();
	assert_int_equal(lost, 0);
}

/* Who finds it does not sleep. What the others wait for is sent again, or fails, and they learn of it. */
static void somebody_resets_and_finds_it(void)
{
	g4_store32_rel_sys((uint32_t *)(nvme->provider.registers + G4_NVME_CC), 0);
	g4_nvme_rung(nvme);
	while (g4_nvme_csts(nvme) & G4_NVME_CSTS_RDY)
		g4_pause();
	set((struct g4_emu_faults){0}); /* the command may not have been taken before */
	g4_nvme_check_at(nvme, g4_monotonic_ns());
}

static int read_while_it_is_reset(void)
{
	while (g4_load32_acq(&nvme->state) == G4_NVME_RECOVERS)
		g4_pause(); /* the one before is not quite over, and nobody would begin another one */
	give_leave(ALWAYS);
	set((struct g4_emu_faults){.mute_at = 1});
	held_up = somebody_resets_and_finds_it;
	held_at = LISTENING;
	submit_read();
	const int rc = g4_dev_wait(wg, dev, &request);
	assert_int_equal(held_at, NOWHERE);
	assert_int_equal(lost, 0);
	return rc;
}

static void recovery_wakes_who_sleeps(void **state)
{
	(void)state;
	open_waiting(1);
	assert_int_equal(read_while_it_is_reset(), 0);
	assert_int_equal(g4_nvme_device_counts(dev).resets, 1);
	nvme->resets_most = 0;
	assert_int_equal(read_while_it_is_reset(), -G4_E_IO);
}

static void a_late_command_is_aborted_for_who_sleeps(void **state)
{
	(void)state;
	open_waiting(1);
	nvme->timeout_ns = SHORT_NS / 10;
	assert_int_equal(read_with_fault((struct g4_emu_faults){.mute_at = 1}), 0);
	assert_int_equal(g4_nvme_device_counts(dev).resets, 0);
	assert_int_equal(g4_nvme_device_counts(dev).aborted, 1);
}

static void a_drive_that_is_pulled_is_found_by_who_sleeps(void **state)
{
	(void)state;
	open_waiting(1);
	assert_int_equal(read_with_fault((struct g4_emu_faults){.vanish_at = 1}), -G4_E_IO);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), -G4_E_IO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		waiting_test(a_completion_comes_at_each_place),
		waiting_test(those_beside_the_listener_are_told),
		waiting_test(the_listener_leaves_and_another_one_listens),
		waiting_test(who_leaves_off_listening_says_so),
		waiting_test(several_sleep_and_all_are_woken),
		waiting_test(who_sleeps_looks_at_nothing),
		waiting_test(long_requests_are_not_polled_for),
		waiting_test(who_polls_is_not_interrupted),
		waiting_test(a_controller_that_never_interrupts_is_found_out),
		waiting_test(interrupts_that_arrive_keep_their_trust),
		waiting_test(a_reset_is_found_by_who_sleeps),
		waiting_test(recovery_wakes_who_sleeps),
		waiting_test(a_late_command_is_aborted_for_who_sleeps),
		waiting_test(a_drive_that_is_pulled_is_found_by_who_sleeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
