/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread pool with one list of work: what backup, restore and copy share. One thread adds jobs to a bounded list, the pool does
 * them in that order; a member of the pool may give a part of its job to another one that has nothing to do.
 */
#ifndef SHREDDER_STORE_POOL_H
#define SHREDDER_STORE_POOL_H

#include "store/bytes.h"

struct store_pool;
/* `member` is the thread's own element of the array that store_pool_open() got. */
typedef void store_pool_fn(void *member, void *job);

struct store_pool_options {
	uint32_t threads;
	void *members; /* one for each thread */
	size_t member_bytes, job_bytes, jobs_max;
	store_pool_fn *work;
	/* Before a member waits for a job: what it has put off. NULL: nothing. Whoever takes part in the pool's end has been here. */
	void (*idle)(void *member);
};
/* Starts as many of the threads as can be had. NULL after a sentence: none. */
struct store_pool *store_pool_open(const struct store_pool_options *options);
/* Copies the job; waits while the list is full. False: the pool was stopped, and the job is still the caller's. */
bool store_pool_add(struct store_pool *pool, const void *job);
/*
 * By a member: false when nobody has nothing to do, nor soon will: some given jobs may wait while no others do. Given jobs come before all others, and
 * are done after a stop, too.
 */
bool store_pool_give(struct store_pool *pool, const void *job);
/* A guess that costs no more than a lock: giving is worth preparing. */
bool store_pool_wants(struct store_pool *pool);
/* The same guess: somebody has nothing to do now. */
bool store_pool_has_idle(struct store_pool *pool);
/* Nothing that was added is begun any more. By any thread. */
void store_pool_stop(struct store_pool *pool);
/* Waits until all is done, or nothing is begun any more, and frees it. NULL is allowed. */
void store_pool_close(struct store_pool *pool);

/* `wanted`, or with 0 one for each processor. */
uint32_t store_threads(uint32_t wanted);
/* As many open files as this process may have, up to 65 536. */
void store_raise_descriptors(void);
/* True once every 100 ms; *last_ns is 0 at first. */
bool store_progress_due(uint64_t *last_ns);

#endif
