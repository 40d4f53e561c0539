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
#include "store/crew.h"
#include "store/store.h"

#define GIVEN_MAX 64
#define DESCRIPTORS_WANTED 65536
#define PROGRESS_NS 100000000

struct member {
	struct store_crew *crew;
	void *user;
	pthread_t thread;
};

struct store_crew {
	struct store_crew_options options;
	struct member *members;
	pthread_mutex_t mutex;
	pthread_cond_t work, room;
	uint8_t *jobs;
	size_t places, first, count, given;
	uint32_t threads, idle;
	bool ending, stopped;
};

static uint8_t *job_at(const struct store_crew *crew, size_t place)
{
	return crew->jobs + place % crew->places * crew->options.job_bytes;
}

/* With the mutex held: the next job, or false. */
static bool take(struct store_crew *crew, uint8_t *job)
{
	if (crew->given == 0 && (crew->stopped || crew->count == 0))
		return false;
	memcpy(job, job_at(crew, crew->first), crew->options.job_bytes);
	crew->first = (crew->first + 1) % crew->places;
	crew->count--;
	if (crew->given > 0)
		crew->given--;
	else
		pthread_cond_signal(&crew->room);
	return true;
}

static void *work(void *user)
{
	const struct member *member = (const struct member *)user;
	struct store_crew *crew = member->crew;
	uint8_t *job = (uint8_t *)store_alloc(crew->options.job_bytes);

	pthread_mutex_lock(&crew->mutex);
	for (;;) {
		if (take(crew, job)) {
			pthread_mutex_unlock(&crew->mutex);
			crew->options.work(member->user, job);
			pthread_mutex_lock(&crew->mutex);
			continue;
		}
		crew->idle++;
		if (crew->stopped || (crew->ending && crew->idle == crew->threads))
			break;
		pthread_cond_wait(&crew->work, &crew->mutex);
		crew->idle--;
	}
	/* whoever left stays idle, so that the last one sees that it is the last */
	pthread_cond_broadcast(&crew->work);
	pthread_mutex_unlock(&crew->mutex);
	free(job);
	return NULL;
}

static void free_crew(struct store_crew *crew)
{
	pthread_cond_destroy(&crew->work);
	pthread_cond_destroy(&crew->room);
	pthread_mutex_destroy(&crew->mutex);
	free(crew->members);
	free(crew->jobs);
	free(crew);
}

struct store_crew *store_crew_open(const struct store_crew_options *options)
{
	struct store_crew *crew = (struct store_crew *)store_alloc(sizeof(*crew));

	crew->options = *options;
	crew->places = options->jobs_max + GIVEN_MAX;
	crew->jobs = (uint8_t *)store_alloc(crew->places * options->job_bytes);
	crew->members = (struct member *)store_alloc(options->threads * sizeof(*crew->members));
	pthread_mutex_init(&crew->mutex, NULL);
	pthread_cond_init(&crew->work, NULL);
	pthread_cond_init(&crew->room, NULL);
	pthread_mutex_lock(&crew->mutex); /* nobody counts the idle ones before all are there */
	while (crew->threads < options->threads) {
		struct member *member = &crew->members[crew->threads];

		member->crew = crew;
		member->user = (uint8_t *)options->members + crew->threads * options->member_bytes;
		if (pthread_create(&member->thread, NULL, work, member) != 0)
			break;
		crew->threads++;
	}
	const bool started = crew->threads > 0;
	pthread_mutex_unlock(&crew->mutex);
	if (started)
		return crew;
	free_crew(crew);
	store_fail(STORE_E_IO, "a thread cannot be started");
	return NULL;
}

bool store_crew_add(struct store_crew *crew, const void *job)
{
	pthread_mutex_lock(&crew->mutex);
	while (!crew->stopped && crew->count - crew->given == crew->options.jobs_max)
		pthread_cond_wait(&crew->room, &crew->mutex);
	const bool added = !crew->stopped;
	if (added) {
		memcpy(job_at(crew, crew->first + crew->count++), job, crew->options.job_bytes);
		pthread_cond_signal(&crew->work);
	}
	pthread_mutex_unlock(&crew->mutex);
	return added;
}

/* With the mutex held. */
static bool may_give(const struct store_crew *crew)
{
	return !crew->stopped && crew->given < crew->idle && crew->given < GIVEN_MAX;
}

bool store_crew_has_idle(struct store_crew *crew)
{
	pthread_mutex_lock(&crew->mutex);
	const bool idle = may_give(crew);
	pthread_mutex_unlock(&crew->mutex);
	return idle;
}

bool store_crew_give(struct store_crew *crew, const void *job)
{
	pthread_mutex_lock(&crew->mutex);
	const bool given = may_give(crew);
	if (given) {
		crew->first = (crew->first + crew->places - 1) % crew->places;
		memcpy(job_at(crew, crew->first), job, crew->options.job_bytes);
		crew->count++;
		crew->given++;
		pthread_cond_signal(&crew->work);
	}
	pthread_mutex_unlock(&crew->mutex);
	return given;
}

void store_crew_stop(struct store_crew *crew)
{
	pthread_mutex_lock(&crew->mutex);
	crew->stopped = true;
	pthread_cond_broadcast(&crew->work);
	pthread_cond_broadcast(&crew->room);
	pthread_mutex_unlock(&crew->mutex);
}

void store_crew_close(struct store_crew *crew)
{
	if (crew == NULL)
		return;
	pthread_mutex_lock(&crew->mutex);
	crew->ending = true;
	pthread_cond_broadcast(&crew->work);
	pthread_mutex_unlock(&crew->mutex);
	for (uint32_t i = 0; i < crew->threads; i++)
		pthread_join(crew->members[i].thread, NULL);
	free_crew(crew);
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
