/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals of a process that records what a command does: it has a trace to write to its end, and so none of those ends it that others send. SIGTERM
 * and SIGHUP are blocked, and handed on to the command; SIGINT and SIGQUIT, which a terminal sends to the command as well, SIGPIPE and
 * SIGXFSZ are ignored; SIGCHLD, blocked too, is not ignored, since the kernel would take the command's status away. The command has the signals
 * as the caller had them. Host only.
 */
#ifndef G4_TRACE_SIGNALS_H
#define G4_TRACE_SIGNALS_H

#include <signal.h>

#define G4_SIGNALS_CHANGED 5u
struct g4_signals { /* as they were */
	sigset_t mask;
	struct sigaction actions[G4_SIGNALS_CHANGED];
};

void g4_signals_take(struct g4_signals *before);
/* SIGCHLD, SIGTERM and SIGHUP. */
void g4_signals_blocked(sigset_t *signals);
/* What came too late for the command, and would end this process when it is let in. */
void g4_signals_forget(void);
/* In this process at the end, and in the command's before it runs. */
void g4_signals_restore(const struct g4_signals *before);

#endif
