/* SPDX-License-Identifier: Apache-2.0 */
/* Around the library's own code: no signals, no cancellation, and the functions that it stands in front of. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "preload/preload.h"

static __thread bool inside __attribute__((tls_model("initial-exec")));

void *g4p_next(void **found, const char *name)
{
	void *next = __atomic_load_n(found, __ATOMIC_ACQUIRE);

	if (!next) {
		next = dlsym(RTLD_NEXT, name);
		if (!next)
			abort(); /* a C library without a function that it exports to us */
		__atomic_store_n(found, next, __ATOMIC_RELEASE);
	}
	return next;
}

bool g4p_is_calm(void)
{
	return inside;
}

bool g4p_calm(struct g4p_calm *calm)
{
	sigset_t all;

	if (inside)
		return false;
	calm->error = errno;
	sigfillset(&all);
	/* a fault in here must still end the program */
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGILL);
	sigdelset(&all, SIGABRT);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &calm->cancel);
	pthread_sigmask(SIG_SETMASK, &all, &calm->signals);
	inside = true;
	return true;
}

void g4p_restless(const struct g4p_calm *calm)
{
	inside = false;
	pthread_sigmask(SIG_SETMASK, &calm->signals, NULL);
	pthread_setcancelstate(calm->cancel, NULL);
	errno = calm->error;
}
