/* SPDX-License-Identifier: Apache-2.0 */
/* The system's clocks. Host only. */
#ifndef G4_CLOCK_HOST_H
#define G4_CLOCK_HOST_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Nanoseconds. Fails only for a clock that the kernel does not have, and those of POSIX and Linux every kernel has. */
static inline uint64_t g4_clock_ns(clockid_t id)
{
	struct timespec now;

	if (clock_gettime(id, &now) != 0) {
		perror("gpu4fs: clock_gettime");
		abort();
	}
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The moment `ns` from now, for waits that end at a moment of that clock. */
static inline struct timespec g4_clock_after(clockid_t id, uint64_t ns)
{
	const uint64_t at = g4_clock_ns(id) + ns;

	return (struct timespec){.tv_sec = (time_t)(at / 1000000000), .tv_nsec = (long)(at % 1000000000)};
}

#endif
