/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several threads at one list of work: what backup, restore and copy share. One thread adds jobs to a bounded list, the crew does
 * them in that order; a member of the crew may give a part of its job to another one that has nothing to do.
 */
#ifndef SHREDDER_STORE_CREW_H
#define SHREDDER_STORE_CREW_H

#include "store/bytes.h"

struct store_crew;
/* `member` is the thread's own element of the array that store_crew_open() got. */
typedef void store_crew_fn(void *member, void *job);

struct store_crew_options {
	uint32_t threads;
	void *members; /* one for each thread */
	size_t member_bytes, job_bytes, jobs_max;
	store_crew_fn *work;
};
/* Starts as many of the threads as can be had. NULL after a sentence: none. */
struct store_crew *store_crew_open(const struct store_crew_options *options);
/* Copies the job; waits while the list is full. False: the crew was stopped, and the job is still the caller's. */
bool store_crew_add(struct store_crew *crew, const void *job);
/* By a member: false when nobody has nothing to do. Given jobs come before all others, and are done after a stop, too. */
bool store_crew_give(struct store_crew *crew, const void *job);
/* A guess that costs no more than a lock: giving is worth preparing. */
bool store_crew_has_idle(struct store_crew *crew);
/* Nothing that was added is begun any more. By any thread. */
void store_crew_stop(struct store_crew *crew);
/* Waits until all is done, or nothing is begun any more, and frees it. NULL is allowed. */
void store_crew_close(struct store_crew *crew);

/* `wanted`, or with 0 one for each processor. */
uint32_t store_threads(uint32_t wanted);
/* As many open files as this process may have, up to 65 536. */
void store_raise_descriptors(void);
/* True once every 100 ms; *last_ns is 0 at first. */
bool store_progress_due(uint64_t *last_ns);

#endif
