/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's signal handlers. The kernel has one of ours in their place, with the same flags and mask, which calls the program's: but not
 * while its thread is in this library's code with locks held (calm.c). What sigaction(2) tells is what the program has asked for.
 *
 * So a thread of the program may call in from any handler, and a call needs no mask of signals around it. ThreadSanitizer does the same.
 *
 * Which of a signal's handlers is the program's is kept here; whether it has one, the kernel knows: a child that shares this memory
 * and not the handlers (CLONE_VM without CLONE_SIGHAND) may take its own away.
 *
 * All of this is async-signal-safe and takes no lock.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/calm.h"
#include "preload/memory.h"

#define SIGNALS 65
#define SHOWN_RESTORER 0x04000000 /* of flags; the C library shows what the kernel has */

typedef void (*plain_handler)(int);
typedef void (*full_handler)(int, siginfo_t *, void *);

/* What the program has asked for when it set a function. */
static struct {
	full_handler function;
	int flags;
} asked[SIGNALS];
static bool not_restarted[SIGNALS]; /* by siginterrupt(3) */

bool g4p_guarded;

static bool is_served(int signal)
{
	return __atomic_load_n(&g4p_guarded, __ATOMIC_RELAXED) && signal > 0 && signal < SIGNALS;
}

static bool is_synchronous(int signal)
{
	return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL || signal == SIGTRAP ||
	       signal == SIGSYS;
}

/* Raised by what the thread itself has just done. */
static bool is_fault(int signal, const siginfo_t *info)
{
	return info->si_code > 0 && is_synchronous(signal);
}

/* In a signal that may be a fault, or comes in the middle of a call, or whose handler is to be taken away. */
static __attribute__((noinline)) void on_special_signal(int signal, siginfo_t *info, void *context)
{
	const bool fault = is_fault(signal, info);

	if (fault && g4p_resume(context))
		return;
	if (!fault && signal != SIGABRT && g4p_is_calm()) {
		g4p_defer(signal, info, context);
		return;
	}
	const full_handler function = __atomic_load_n(&asked[signal].function, __ATOMIC_RELAXED);
	const int flags = __atomic_load_n(&asked[signal].flags, __ATOMIC_RELAXED);
	if (flags & SA_RESETHAND) {
		const struct sigaction standard = {.sa_handler = SIG_DFL, .sa_flags = flags};
		(void)sigaction(signal, &standard, NULL);
	}
	function(signal, info, context);
}

/*
 * What the kernel calls in the place of the program's handlers. Both ways out are jumps where the compiler optimises, and nothing is written
 * onto the stack before: a handler of the program that writes nothing there may run on one that has become read-only meanwhile
 * (LTP's signal06), and one that looks at its frame finds what the kernel has put there.
 */
static void on_signal(int signal, siginfo_t *info, void *context)
{
	if (is_synchronous(signal) || signal == SIGABRT || g4p_is_calm() ||
	    (__atomic_load_n(&asked[signal].flags, __ATOMIC_RELAXED) & SA_RESETHAND))
		on_special_signal(signal, info, context);
	else
		__atomic_load_n(&asked[signal].function, __ATOMIC_RELAXED)(signal, info, context);
}

/* What it calls for SIGSEGV and SIGBUS where the program has no handler: the signal does what it does without one. */
static void on_fault(int signal, siginfo_t *info, void *context)
{
	const struct sigaction standard = {.sa_handler = SIG_DFL};

	if (is_fault(signal, info) && g4p_resume(context))
		return;
	(void)G4P_NEXT(sigaction)(signal, &standard, NULL);
	if (!is_fault(signal, info)) /* else it faults again */
		(void)syscall(SYS_tgkill, getpid(), gettid(), signal);
}

static struct sigaction action_of_faults(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	sigemptyset(&action.sa_mask);
	return action;
}

static bool is_guarded(int signal)
{
	return signal == SIGSEGV || signal == SIGBUS;
}

static bool is_function(plain_handler handler)
{
	return handler != SIG_DFL && handler != SIG_IGN;
}

/* What the kernel has, as the program knows it. */
static void show(struct sigaction *action, full_handler function, int flags)
{
	if (action->sa_sigaction == on_signal) {
		action->sa_sigaction = function;
		action->sa_flags = flags | (action->sa_flags & SHOWN_RESTORER);
	} else if (action->sa_sigaction == on_fault) {
		action->sa_handler = SIG_DFL;
		action->sa_flags &= SHOWN_RESTORER;
	}
}

int sigaction(int signal, const struct sigaction *restrict action, struct sigaction *restrict old)
{
	struct sigaction own, kernels;

	if (!is_served(signal))
		return G4P_NEXT(sigaction)(signal, action, old);
	const full_handler function = __atomic_load_n(&asked[signal].function, __ATOMIC_RELAXED);
	const int flags = __atomic_load_n(&asked[signal].flags, __ATOMIC_RELAXED);
	if (action) {
		own = *action;
		if (is_function(own.sa_handler)) {
			__atomic_store_n(&asked[signal].flags, own.sa_flags & ~SHOWN_RESTORER, __ATOMIC_RELAXED);
			__atomic_store_n(&asked[signal].function, own.sa_sigaction, __ATOMIC_RELAXED);
			own.sa_sigaction = on_signal;
			own.sa_flags = (own.sa_flags | SA_SIGINFO) & ~(int)SA_RESETHAND;
		} else if (own.sa_handler == SIG_DFL && is_guarded(signal)) {
			own = action_of_faults();
		}
	}
	const int rc = G4P_NEXT(sigaction)(signal, action ? &own : NULL, &kernels);
	if (rc != 0 && action) { /* none that can be set */
		__atomic_store_n(&asked[signal].function, function, __ATOMIC_RELAXED);
		__atomic_store_n(&asked[signal].flags, flags, __ATOMIC_RELAXED);
	}
	if (rc == 0 && old) {
		*old = kernels;
		show(old, function, flags);
	}
	return rc;
}

void g4p_guard(void)
{
	struct sigaction before;

	if (__atomic_exchange_n(&g4p_guarded, true, __ATOMIC_RELAXED))
		return;
	for (int signal = 1; signal < SIGNALS; signal++) /* also what constructors of other libraries have set by now */
		if (G4P_NEXT(sigaction)(signal, NULL, &before) == 0 &&
		    (is_guarded(signal) || is_function(before.sa_handler)))
			(void)sigaction(signal, &before, NULL);
}

bool g4p_sigaction_by_number(int signal, const void *action, void *old, size_t mask_bytes, long *result)
{
	struct kernels {
		full_handler function;
		unsigned long flags;
		void *restorer;
		uint64_t mask;
	} from, to;
	struct sigaction wanted, was;

	if (!is_served(signal) || mask_bytes != sizeof(from.mask) || (action && !g4p_can_read(action, sizeof(from))))
		return false;
	if (action) {
		memcpy(&from, action, sizeof(from));
		wanted = (struct sigaction){.sa_sigaction = from.function,
					    .sa_flags = (int)(from.flags & ~(unsigned long)SHOWN_RESTORER)};
		sigemptyset(&wanted.sa_mask);
		memcpy(&wanted.sa_mask, &from.mask, sizeof(from.mask));
	}
	*result = sigaction(signal, action ? &wanted : NULL, &was);
	if (*result == 0 && old) {
		to = (struct kernels){.function = was.sa_sigaction, .flags = (unsigned int)was.sa_flags};
		memcpy(&to.mask, &was.sa_mask, sizeof(to.mask));
		if (!g4p_copy_out(old, &to, sizeof(to))) {
			errno = EFAULT;
			*result = -1;
		}
	}
	return true;
}

/* ------------------------------------------------------------------ other ways to set a handler, which are the same in the C library */

static plain_handler set(int signal, plain_handler handler, int flags, bool blocks_itself)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, old;

	if (signal <= 0 || signal >= SIGNALS || handler == SIG_ERR) {
		errno = EINVAL;
		return SIG_ERR;
	}
	sigemptyset(&action.sa_mask);
	if (blocks_itself)
		sigaddset(&action.sa_mask, signal);
	return sigaction(signal, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

plain_handler signal(int number, plain_handler handler)
{
	const bool known = number > 0 && number < SIGNALS;

	return set(number, handler, known && not_restarted[number] ? 0 : SA_RESTART, true);
}

plain_handler bsd_signal(int number, plain_handler handler);
plain_handler bsd_signal(int number, plain_handler handler)
{
	return signal(number, handler);
}

plain_handler ssignal(int number, plain_handler handler)
{
	return signal(number, handler);
}

plain_handler __sysv_signal(int number, plain_handler handler)
{
	return set(number, handler, (int)(SA_RESETHAND | SA_NODEFER), false);
}

plain_handler sysv_signal(int number, plain_handler handler)
{
	return __sysv_signal(number, handler);
}

int siginterrupt(int number, int interrupts)
{
	struct sigaction action;

	if (sigaction(number, NULL, &action) != 0)
		return -1;
	not_restarted[number] = interrupts != 0;
	action.sa_flags = interrupts ? action.sa_flags & ~SA_RESTART : action.sa_flags | SA_RESTART;
	return sigaction(number, &action, NULL);
}

/* Of System V: one disposition more, that the signal is blocked. */
plain_handler sigset(int number, plain_handler handler)
{
	sigset_t one, masked;
	struct sigaction action;
	plain_handler old;

	sigemptyset(&one);
	if (sigaddset(&one, number) != 0)
		return SIG_ERR;
	if (handler == SIG_HOLD) {
		old = sigaction(number, NULL, &action) == 0 ? action.sa_handler : SIG_ERR;
		if (pthread_sigmask(SIG_BLOCK, &one, &masked) != 0)
			return SIG_ERR;
	} else {
		old = set(number, handler, 0, false);
		if (old == SIG_ERR || pthread_sigmask(SIG_UNBLOCK, &one, &masked) != 0)
			return SIG_ERR;
	}
	return sigismember(&masked, number) ? SIG_HOLD : old;
}

#define SAME(name, other) ".globl " name "\n.set " name ", " other "\n"
__asm__(SAME("__sigaction", "sigaction"));
