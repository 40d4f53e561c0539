/* SPDX-License-Identifier: Apache-2.0 */
/* Around the library's own code: no handlers, no cancellation, and the functions that it stands in front of. */
#ifndef G4_PRELOAD_CALM_H
#define G4_PRELOAD_CALM_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* The function that this one stands in front of: in the C library, or in another library that was preloaded behind this one. */
#define G4P_NEXT(name)                                                                                                 \
	({                                                                                                             \
		static void *g4p_found;                                                                                \
		(__typeof__(&name))g4p_next(&g4p_found, #name);                                                        \
	})

#define G4P_OF_THREAD __thread __attribute__((tls_model("initial-exec")))

extern G4P_OF_THREAD bool g4p_inside;

/* Inline: a signal handler asks, which must not write onto its stack (signals.c). */
static inline bool g4p_is_calm(void)
{
	return g4p_inside;
}

struct g4p_calm { /* what a call puts back when it ends */
	int cancel;
	int error;
};

/*
 * From calm to restless the program's signal handlers wait (signals.c) and the thread is not cancelled, so that a handler cannot call in
 * while a lock is held; calls of this library's own code go to the kernel. False: it is calm already.
 */
bool g4p_calm(struct g4p_calm *calm);
void g4p_restless(const struct g4p_calm *calm);
void *g4p_next(void **found, const char *name);
/* In a signal handler of a calm thread: the signal, and each that follows, comes when the thread is restless. */
void g4p_defer(int signal, siginfo_t *info, void *context);

/* ------------------------------------------------------------------ signals.c: handlers of the program, and faults */

/* From now on a bad pointer that memory.c is given is found out and does not end the program. Calm. */
void g4p_guard(void);
/* rt_sigaction(2) by number: sigaction(2) with the kernel's structures. False: with these arguments it is the kernel's. */
bool g4p_sigaction_by_number(int signal, const void *action, void *old, size_t mask_bytes, long *result);

#endif
