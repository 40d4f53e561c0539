/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/clock_host.h"
#include "store/gate.h"

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	uint32_t inside;
	bool closed;
	pthread_t closer;
} gate = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* With the mutex held. */
static bool passes(void)
{
	return !gate.closed || pthread_equal(gate.closer, pthread_self());
}

void store_gate_enter(void)
{
	pthread_mutex_lock(&gate.mutex);
	while (!passes())
		pthread_cond_wait(&gate.changed, &gate.mutex);
	gate.inside++;
	pthread_mutex_unlock(&gate.mutex);
}

void store_gate_leave(void)
{
	const int error = errno;

	pthread_mutex_lock(&gate.mutex);
	if (--gate.inside == 0)
		pthread_cond_broadcast(&gate.changed);
	pthread_mutex_unlock(&gate.mutex);
	errno = error;
}

bool store_gate_close(uint64_t ns)
{
	const struct timespec until = g4_clock_after(CLOCK_REALTIME, ns);
	int waited = 0;

	pthread_mutex_lock(&gate.mutex);
	gate.closed = true;
	gate.closer = pthread_self();
	while (gate.inside > 0 && waited == 0)
		waited = pthread_cond_timedwait(&gate.changed, &gate.mutex, &until);
	const bool empty = gate.inside == 0;
	pthread_mutex_unlock(&gate.mutex);
	return empty;
}
