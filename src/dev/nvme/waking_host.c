/* SPDX-License-Identifier: Apache-2.0 */
/* Waking threads that sleep (waking_host.h). */
#define _GNU_SOURCE 1
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "dev/nvme/waking_host.h"

#define TRIES 8u
#define TRY_NS 50000u
#define POLL_LEAST_NS UINT64_C(10000)
#define POLL_MOST_NS UINT64_C(500000)
#define WAKE (UINT64_C(1) << 32) /* what a thread adds to an eventfd, and no interrupt */

/* ---- what a sleep costs ---- */

/* How much later than its time poll(2) returns behind a timer; 0: that can not be known. */
static uint64_t lateness(int timer)
{
	const uint64_t due = g4_monotonic_ns() + TRY_NS;
	const struct itimerspec when = {
		.it_value = {.tv_sec = (time_t)(due / 1000000000), .tv_nsec = (long)(due % 1000000000)}};
	struct pollfd file = {.fd = timer, .events = POLLIN};
	uint64_t count;

	if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL) != 0 || poll(&file, 1, -1) != 1)
		return 0;
	const uint64_t now = g4_monotonic_ns();
	return read(timer, &count, sizeof(count)) == sizeof(count) && now > due ? now - due : 0;
}

/*
 * How long to poll: as long as two sleeps cost, of which each is taken for two of a timer: a drive's has the interrupt's handler in VFIO and an
 * eventfd besides. The least of several, for this thread may have to wait for a processor.
 */
static uint64_t measure(void)
{
	const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	uint64_t least = POLL_MOST_NS;

	for (uint32_t i = 0; i < TRIES && timer >= 0; i++) {
		const uint64_t late = lateness(timer);
		if (late > 0)
			least = g4_min64(least, late);
	}
	if (timer >= 0)
		close(timer);
	return g4_max64(g4_min64(4 * least, POLL_MOST_NS), POLL_LEAST_NS);
}

/* ---- opening and closing ---- */

/* The queue's own vector; 0 is that of admin commands. */
static uint32_t vector_of(uint32_t index)
{
	return index + 1;
}

bool g4_nvme_waking_open(struct g4_nvme *nvme)
{
	const struct g4_nvme_provider *provider = &nvme->provider;

	nvme->waking = aligned_alloc(128, nvme->queue_count * sizeof(*nvme->waking));
	if (!nvme->waking)
		return false;
	memset(nvme->waking, 0, nvme->queue_count * sizeof(*nvme->waking));
	for (uint32_t i = 0; i < nvme->queue_count; i++) {
		struct g4_nvme_waking *waking = &nvme->waking[i];
		pthread_mutex_init(&waking->lock, NULL);
		waking->score = G4_NVME_SCORE_MOST;
		waking->event = vector_of(i) < provider->vectors ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
	}
	if (nvme->poll_ns == 0 && provider->vectors > 0 && !provider->work)
		nvme->poll_ns = measure();
	return true;
}

void g4_nvme_waking_close(struct g4_nvme *nvme)
{
	for (uint32_t i = 0; nvme->waking && i < nvme->queue_count; i++) {
		if (nvme->waking[i].event >= 0)
			close(nvme->waking[i].event);
		pthread_mutex_destroy(&nvme->waking[i].lock);
	}
	free(nvme->waking);
}

struct g4_nvme_waits g4_nvme_waits_of(const struct g4_nvme *nvme)
{
	struct g4_nvme_waits sum = {0};

	for (uint32_t i = 0; i < nvme->queue_count; i++) {
		const struct g4_nvme_waking *waking = &nvme->waking[i];
		sum.sleeps += g4_load64_rlx(&waking->sleeps);
		sum.looks += g4_load64_rlx(&waking->looks);
		sum.wakes += g4_load64_rlx(&waking->wakes);
		sum.on += g4_load32_rlx(&waking->on);
		sum.deaf += g4_load32_rlx(&waking->deaf);
	}
	return sum;
}

/* ---- the interrupt ---- */

bool g4_nvme_can_listen(const struct g4_nvme_waking *waking)
{
	return waking->event >= 0 && !g4_load32_rlx(&waking->deaf);
}

bool g4_nvme_begin_to_sleep(struct g4_nvme *nvme, uint32_t index)
{
	struct g4_nvme_waking *waking = &nvme->waking[index];
	const struct g4_nvme_provider *provider = &nvme->provider;

	if (!g4_nvme_can_listen(waking))
		return false;
	pthread_mutex_lock(&waking->lock);
	if (!waking->on && provider->listen(provider->context, vector_of(index), waking->event))
		g4_store32_rlx(&waking->on, 1);
	const bool on = waking->on;
	if (on)
		g4_add32(&nvme->queues[index].sleepers, 1);
	else
		g4_store32_rlx(&waking->deaf, 1);
	pthread_mutex_unlock(&waking->lock);
	g4_store32_rlx(&waking->polled, 0);
	return on;
}

void g4_nvme_turn_off(struct g4_nvme *nvme, uint32_t index)
{
	struct g4_nvme_waking *waking = &nvme->waking[index];
	const struct g4_nvme_provider *provider = &nvme->provider;

	if (pthread_mutex_trylock(&waking->lock) != 0)
		return;
	if (waking->on && g4_load32_rlx(&nvme->queues[index].sleepers) == 0) {
		provider->listen(provider->context, vector_of(index), -1);
		g4_store32_rlx(&waking->on, 0);
	}
	pthread_mutex_unlock(&waking->lock);
}

bool g4_nvme_take_interrupts(const struct g4_nvme_waking *waking)
{
	uint64_t count = 0;

	return read(waking->event, &count, sizeof(count)) == sizeof(count) && (uint32_t)count > 0;
}

/* ---- waking ---- */

void g4_nvme_wake(struct g4_nvme_waking *waking)
{
	const uint64_t count = WAKE;

	g4_add64_rlx(&waking->wakes, 1);
	g4_add32(&waking->generation, 1);
	/* if it fails: sleeps have an end */
	syscall(SYS_futex, &waking->generation, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	while (waking->event >= 0 && write(waking->event, &count, sizeof(count)) < 0 && errno == EINTR)
		; /* one that is full can be read from already */
}

void g4_nvme_pass_on(struct g4_nvme *nvme, uint32_t index)
{
	struct g4_nvme_queue *queue = &nvme->queues[index];

	if (g4_load32_rlx(&queue->wake) && g4_xchg32(&queue->wake, 0))
		g4_nvme_wake(&nvme->waking[index]);
}

void g4_nvme_wake_all(struct g4_nvme *nvme)
{
	for (uint32_t i = 0; i < nvme->queue_count; i++)
		g4_nvme_wake(&nvme->waking[i]);
}
