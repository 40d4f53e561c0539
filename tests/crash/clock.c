/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of day and the random numbers of tests that make the same bytes in every run: the explorer's states, the images
 * of tests/corrupt and of the fuzzers. The linker puts these in place of the C library's (--wrap).
 */
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include "clock.h"
#include "engine/rig.h"
#include "simt/simt.h"

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags);

static uint64_t ticks;
static uint64_t random_state;

void clock_restart_as(uint64_t seed)
{
	g4_store64_rel(&ticks, 0);
	random_state = seed;
}

void clock_restart(void)
{
	clock_restart_as(0);
}

/* One microsecond passes with each look at the clock. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	if (clock != CLOCK_REALTIME)
		return __real_clock_gettime(clock, now);
	uint64_t tick = g4_add64(&ticks, 1);
	now->tv_sec = (time_t)(1700000000 + tick / 1000000);
	now->tv_nsec = (long)(tick % 1000000) * 1000;
	return 0;
}

ssize_t __wrap_getrandom(void *to, size_t bytes, unsigned flags)
{
	(void)flags;
	for (size_t k = 0; k < bytes; k++)
		((uint8_t *)to)[k] = (uint8_t)rig_random(&random_state);
	return (ssize_t)bytes;
}
