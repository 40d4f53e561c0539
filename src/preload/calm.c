/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Around the library's own code: no handlers, no cancellation, and the functions that it stands in front of.
 *
 * A call sets a flag of its thread and no mask of signals, which would be two system calls. A handler that comes meanwhile (signals.c)
 * sees the flag, sends the signal to the thread again and has all signals blocked when it returns; the end of the call unblocks
 * them. So of a call's signals the first one is taken twice, and the others wait in the kernel.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "preload/calm.h"

typedef uint64_t kernel_mask; /* what the kernel has in a ucontext_t: behind it lies something else */

G4P_OF_THREAD bool g4p_inside;
static G4P_OF_THREAD bool deferred;	 /* signals are blocked that were not when the call began */
static G4P_OF_THREAD kernel_mask before; /* which were, then */

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

bool g4p_calm(struct g4p_calm *calm)
{
	if (g4p_inside)
		return false;
	calm->error = errno;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &calm->cancel);
	g4p_inside = true;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return true;
}

/* Of all that can wait: a fault in here must still end the program. */
static void all_that_wait(sigset_t *all)
{
	sigfillset(all);
	sigdelset(all, SIGSEGV);
	sigdelset(all, SIGBUS);
	sigdelset(all, SIGFPE);
	sigdelset(all, SIGILL);
	sigdelset(all, SIGTRAP);
	sigdelset(all, SIGSYS);
	sigdelset(all, SIGABRT);
}

void g4p_defer(int signal, siginfo_t *info, void *context)
{
	kernel_mask *const kernels = (kernel_mask *)&((ucontext_t *)context)->uc_sigmask;
	const int error = errno;
	sigset_t all;

	all_that_wait(&all);
	if (!deferred)
		before = *kernels;
	deferred = true;
	/* first: where handlers are nested (SA_NODEFER) it would come at once */
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	memcpy(kernels, &all, sizeof(*kernels));
	/* with all that it tells; where no more signals may be queued, without */
	if (syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), signal, info) != 0)
		(void)syscall(SYS_tgkill, getpid(), gettid(), signal);
	errno = error;
}

void g4p_restless(const struct g4p_calm *calm)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	g4p_inside = false;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (deferred) {
		deferred = false;
		(void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
	}
	pthread_setcancelstate(calm->cancel, NULL);
	errno = calm->error;
}
