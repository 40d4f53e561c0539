/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Background jobs: states, throttle, progress. What a job does is the business of the layer that knows its kind; its record is
 * format/job.h's, and fs/jobs.c keeps it.
 *
 *      start -> RUNNING -> DONE | FAILED
 *                 |  ^ \
 *           pause v  |  cancel -> CANCELLED   (from PAUSED, too)
 *              PAUSED resume
 */
#ifndef G4_JOB_H
#define G4_JOB_H

#include "base/base.h"

#define G4_JOB_LOOK_NS UINT64_C(5000000)     /* users work: when to look again */
#define G4_JOB_LEAST_NS UINT64_C(1000000000) /* one step in so much time is done however busy users are */
#define G4_JOB_LOG_NS UINT64_C(30000000000)  /* a crash costs a job that only looks so much work */

enum g4_job_order { G4_JOB_PAUSE = 1, G4_JOB_RESUME = 2, G4_JOB_CANCEL = 3, G4_JOB_LIMIT = 4, G4_JOB_ORDERS };

struct g4_job_throttle {  /* of one job that runs; nothing of it lasts */
	uint64_t due_ns;  /* no step before */
	uint64_t last_ns; /* the last step's end */
};

/* How long to wait before a step: 0: do it now. idle: no user waits for anything. */
G4_FN G4_INLINE uint64_t g4_job_wait_ns(const struct g4_job_throttle *throttle, uint64_t now, bool idle)
{
	if (now < throttle->due_ns)
		return throttle->due_ns - now;
	return idle || now - throttle->last_ns >= G4_JOB_LEAST_NS ? 0 : G4_JOB_LOOK_NS;
}

/* A step has ended that began at `begun`. Time in which it could not run is not made up for. */
G4_FN G4_INLINE void g4_job_paid(struct g4_job_throttle *throttle, uint64_t begun, uint64_t now, uint64_t bytes,
				 uint64_t rate)
{
	const uint64_t most = UINT64_MAX / UINT64_C(1000000000);

	throttle->last_ns = now;
	throttle->due_ns = rate == 0 ? 0 : begun + g4_min64(bytes, most) * UINT64_C(1000000000) / rate;
}

/* In hundredths of a percent. What is not over is never all done: `units` is an estimate. */
G4_FN G4_INLINE uint32_t g4_job_progress(uint64_t done, uint64_t units, bool over)
{
	if (over || units == 0)
		return over ? 10000 : 0;
	return (uint32_t)g4_min64((uint64_t)((double)done / (double)units * 10000), 9999);
}

/* What is left, from the units done in the time that it ran; UINT64_MAX: nobody knows. */
G4_FN G4_INLINE uint64_t g4_job_left_ns(uint64_t done, uint64_t units, uint64_t run_ns)
{
	if (done == 0)
		return UINT64_MAX;
	return done >= units ? 0 : (uint64_t)((double)run_ns * (double)(units - done) / (double)done);
}

#endif
