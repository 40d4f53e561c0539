/* SPDX-License-Identifier: Apache-2.0 */
/* Signals of a process that records (signals.h). */
#include "trace/signals.h"

#include <stddef.h>
#include <time.h>

static const int changed[G4_SIGNALS_CHANGED] = {SIGINT, SIGQUIT, SIGPIPE, SIGXFSZ, SIGCHLD};

void g4_signals_blocked(sigset_t *signals)
{
	sigemptyset(signals);
	sigaddset(signals, SIGCHLD);
	sigaddset(signals, SIGTERM);
	sigaddset(signals, SIGHUP);
}

void g4_signals_take(struct g4_signals *before)
{
	sigset_t signals;

	for (size_t i = 0; i < G4_SIGNALS_CHANGED; i++) {
		struct sigaction action = {.sa_handler = changed[i] == SIGCHLD ? SIG_DFL : SIG_IGN};
		sigemptyset(&action.sa_mask);
		sigaction(changed[i], &action, &before->actions[i]);
	}
	g4_signals_blocked(&signals);
	sigprocmask(SIG_BLOCK, &signals, &before->mask);
}

void g4_signals_forget(void)
{
	const struct timespec none = {0};
	sigset_t signals;

	g4_signals_blocked(&signals);
	while (sigtimedwait(&signals, NULL, &none) > 0)
		;
}

void g4_signals_restore(const struct g4_signals *before)
{
	for (size_t i = 0; i < G4_SIGNALS_CHANGED; i++)
		sigaction(changed[i], &before->actions[i], NULL);
	sigprocmask(SIG_SETMASK, &before->mask, NULL);
}
