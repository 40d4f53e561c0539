/* SPDX-License-Identifier: Apache-2.0 */
/* A time of day and random numbers that repeat, for programs linked with --wrap=clock_gettime,--wrap=getrandom. */
#ifndef CRASH_CLOCK_H
#define CRASH_CLOCK_H

#include <stdint.h>

/* Both begin again as in a program that just started. */
void clock_restart(void);
/* The same with other random numbers: what is made from them is made twice nowhere. */
void clock_restart_as(uint64_t seed);

#endif
