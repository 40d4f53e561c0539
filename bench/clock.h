/* SPDX-License-Identifier: Apache-2.0 */
/* What benchmarks measure with. */
#ifndef G4_BENCH_CLOCK_H
#define G4_BENCH_CLOCK_H

#include <time.h>

static inline double seconds_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

#endif
