/* SPDX-License-Identifier: Apache-2.0 */
/* A thread inherits the mask of the one that makes it: so it has no moment in which it could take a signal. */
#include "base/thread_host.h"

#include <signal.h>

int g4_thread_start(pthread_t *thread, void *(*run)(void *), void *context)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	const int rc = pthread_create(thread, NULL, run, context);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}
