/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that takes events out of the ring of told.h. Nothing in device memory can wake it, so it looks while the kernel is there. */
#include "gpu/teller_host.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock_host.h"
#include "base/thread_host.h"
#include "fs/tell_host.h"

#define LOOK_NS (UINT64_C(100) * 1000 * 1000)

struct g4_gpu_teller {
	struct g4_gpu_told *told;
	struct g4_teller lines;
	pthread_t thread;
	pthread_mutex_t lock; /* of all below */
	pthread_cond_t wake;
	bool runs; /* the kernel */
	bool ends;
};

static void tell(struct g4_gpu_teller *t)
{
	struct g4_event event;

	g4_teller_look(&t->lines, g4_load64_rlx_sys(&t->told->lost));
	while (g4_gpu_take_told(t->told, &event))
		g4_teller_tell(&t->lines, &event, NULL);
}

static void *run(void *argument)
{
	struct g4_gpu_teller *t = argument;

	for (bool ends = false; !ends;) {
		pthread_mutex_lock(&t->lock);
		ends = t->ends;
		const bool ran = t->runs;
		pthread_mutex_unlock(&t->lock);
		tell(t); /* if it did not run, that was all until somebody says so */
		const struct timespec until = g4_clock_after(CLOCK_MONOTONIC, LOOK_NS);
		pthread_mutex_lock(&t->lock);
		if (t->runs == ran && t->ends == ends && !ends) {
			if (ran || g4_teller_waits(&t->lines))
				pthread_cond_timedwait(&t->wake, &t->lock, &until);
			else
				pthread_cond_wait(&t->wake, &t->lock);
		}
		pthread_mutex_unlock(&t->lock);
	}
	return NULL;
}

int g4_gpu_teller_start(struct g4_gpu_told *told, const struct g4_dev *dev, struct g4_gpu_teller **out)
{
	struct g4_gpu_teller *t = calloc(1, sizeof(*t));
	pthread_condattr_t attr;

	if (!t)
		return -G4_E_NOMEM;
	t->told = told;
	t->lines.dev = dev;
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&t->wake, &attr);
	pthread_condattr_destroy(&attr);
	if (g4_thread_start(&t->thread, run, t) != 0) {
		pthread_cond_destroy(&t->wake);
		pthread_mutex_destroy(&t->lock);
		free(t);
		return -G4_E_NOMEM;
	}
	*out = t;
	return 0;
}

void g4_gpu_teller_look(struct g4_gpu_teller *t, bool runs)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->runs = runs;
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
}

void g4_gpu_teller_stop(struct g4_gpu_teller *t)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->ends = true;
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	pthread_cond_destroy(&t->wake);
	pthread_mutex_destroy(&t->lock);
	free(t);
}
