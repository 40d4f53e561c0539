/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list is a ring. Given jobs stand at its front, so that they are begun next, and have room of their own: a member that gives never waits.
 * A member leaves when the list is empty, no more will be added, and all others are idle: until then somebody may give.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock_host.h"
#include "store/pool.h"
#include "store/store.h"

#define GIVEN_MAX 64
/* Given jobs that may wait for each other member while there is nothing else: what it does while the giver reads and cuts. */
#define GIVEN_AHEAD 4
#define DESCRIPTORS_WANTED 65536
#define PROGRESS_NS 100000000

struct member {
	struct store_pool *pool;
	void *user;
	pthread_t thread;
};

struct store_pool {
	struct store_pool_options options;
	struct member *members;
	pthread_mutex_t mutex;
	pthread_cond_t work, room;
	uint8_t *jobs;
	size_t places, first, count, given;
	uint32_t threads, idle;
	bool ending, stopped;
};

static uint8_t *job_at(const struct store_pool *pool, size_t place)
{
	return pool->jobs + place % pool->places * pool->options.job_bytes;
}

/* With the mutex held: the next job, or false. */
static bool take(struct store_pool *pool, uint8_t *job)
{
	if (pool->given == 0 && (pool->stopped || pool->count == 0))
		return false;
	memcpy(job, job_at(pool, pool->first), pool->options.job_bytes);
	pool->first = (pool->first + 1) % pool->places;
	pool->count--;
	if (pool->given > 0)
		pool->given--;
	else
		pthread_cond_signal(&pool->room);
	return true;
}

static void *work(void *user)
{
	const struct member *member = (const struct member *)user;
	struct store_pool *pool = member->pool;
	uint8_t *job = (uint8_t *)store_alloc(pool->options.job_bytes);
	bool rested = pool->options.idle == NULL; /* nothing is put off */

	pthread_mutex_lock(&pool->mutex);
	for (;;) {
		if (take(pool, job)) {
			pthread_mutex_unlock(&pool->mutex);
			pool->options.work(member->user, job);
			pthread_mutex_lock(&pool->mutex);
			rested = pool->options.idle == NULL;
			continue;
		}
		if (!rested) { /* others may add jobs meanwhile */
			pthread_mutex_unlock(&pool->mutex);
			pool->options.idle(member->user);
			pthread_mutex_lock(&pool->mutex);
			rested = true;
			continue;
		}
		pool->idle++;
		if (pool->stopped || (pool->ending && pool->idle == pool->threads))
			break;
		pthread_cond_wait(&pool->work, &pool->mutex);
		pool->idle--;
	}
	/* members that left stay idle, so that the last one sees that it is the last */
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->mutex);
	free(job);
	return NULL;
}

static void free_pool(struct store_pool *pool)
{
	pthread_cond_destroy(&pool->work);
	pthread_cond_destroy(&pool->room);
	pthread_mutex_destroy(&pool->mutex);
	free(pool->members);
	free(pool->jobs);
	free(pool);
}

struct store_pool *store_pool_open(const struct store_pool_options *options)
{
	struct store_pool *pool = (struct store_pool *)store_alloc(sizeof(*pool));

	pool->options = *options;
	pool->places = options->jobs_max + GIVEN_MAX;
	pool->jobs = (uint8_t *)store_alloc(pool->places * options->job_bytes);
	pool->members = (struct member *)store_alloc(options->threads * sizeof(*pool->members));
	pthread_mutex_init(&pool->mutex, NULL);
	pthread_cond_init(&pool->work, NULL);
	pthread_cond_init(&pool->room, NULL);
	pthread_mutex_lock(&pool->mutex); /* nobody counts the idle ones before all are there */
	while (pool->threads < options->threads) {
		struct member *member = &pool->members[pool->threads];

		member->pool = pool;
		member->user = (uint8_t *)options->members + pool->threads * options->member_bytes;
		if (pthread_create(&member->thread, NULL, work, member) != 0)
			break;
		pool->threads++;
	}
	const bool started = pool->threads > 0;
	pthread_mutex_unlock(&pool->mutex);
	if (started)
		return pool;
	free_pool(pool);
	store_fail(STORE_E_IO, "a thread cannot be started");
	return NULL;
}

bool store_pool_add(struct store_pool *pool, const void *job)
{
	pthread_mutex_lock(&pool->mutex);
	while (!pool->stopped && pool->count - pool->given == pool->options.jobs_max)
		pthread_cond_wait(&pool->room, &pool->mutex);
	const bool added = !pool->stopped;
	if (added) {
		memcpy(job_at(pool, pool->first + pool->count++), job, pool->options.job_bytes);
		pthread_cond_signal(&pool->work);
	}
	pthread_mutex_unlock(&pool->mutex);
	return added;
}

/* With the mutex held. */
static bool may_give(const struct store_pool *pool)
{
	const bool waits = pool->count > pool->given; /* a job that is nobody's: members will not be idle */

	return !pool->stopped && pool->given < GIVEN_MAX &&
	       (pool->given < pool->idle || (!waits && pool->given < GIVEN_AHEAD * (pool->threads - 1)));
}

bool store_pool_has_idle(struct store_pool *pool)
{
	pthread_mutex_lock(&pool->mutex);
	const bool idle = !pool->stopped && pool->given < pool->idle;
	pthread_mutex_unlock(&pool->mutex);
	return idle;
}

bool store_pool_wants(struct store_pool *pool)
{
	pthread_mutex_lock(&pool->mutex);
	const bool wants = may_give(pool);
	pthread_mutex_unlock(&pool->mutex);
	return wants;
}

bool store_pool_give(struct store_pool *pool, const void *job)
{
	pthread_mutex_lock(&pool->mutex);
	const bool given = may_give(pool);
	if (given) {
		pool->first = (pool->first + pool->places - 1) % pool->places;
		memcpy(job_at(pool, pool->first), job, pool->options.job_bytes);
		pool->count++;
		pool->given++;
		pthread_cond_signal(&pool->work);
	}
	pthread_mutex_unlock(&pool->mutex);
	return given;
}

void store_pool_stop(struct store_pool *pool)
{
	pthread_mutex_lock(&pool->mutex);
	pool->stopped = true;
	pthread_cond_broadcast(&pool->work);
	pthread_cond_broadcast(&pool->room);
	pthread_mutex_unlock(&pool->mutex);
}

void store_pool_close(struct store_pool *pool)
{
	if (pool == NULL)
		return;
	pthread_mutex_lock(&pool->mutex);
	pool->ending = true;
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->mutex);
	for (uint32_t i = 0; i < pool->threads; i++)
		pthread_join(pool->members[i].thread, NULL);
	free_pool(pool);
}

uint32_t store_threads(uint32_t wanted)
{
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);

	return wanted != 0 ? wanted : processors > 0 ? (uint32_t)processors : 1;
}

void store_raise_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < DESCRIPTORS_WANTED) {
		limit.rlim_cur = limit.rlim_max < DESCRIPTORS_WANTED ? limit.rlim_max : DESCRIPTORS_WANTED;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

bool store_progress_due(uint64_t *last_ns)
{
	const uint64_t now = g4_clock_ns(CLOCK_MONOTONIC);

	if (now - *last_ns < PROGRESS_NS)
		return false;
	*last_ns = now;
	return true;
}
