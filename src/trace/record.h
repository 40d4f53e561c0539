/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording what a command does with files, by the system calls of its processes: ptrace(2), with a seccomp filter so that
 * no other calls stop.
 */
#ifndef G4_TRACE_RECORD_H
#define G4_TRACE_RECORD_H

#include <sys/types.h>

#include "trace/trace.h"

struct g4_record {
	bool one_file_system; /* only files of `dev` are recorded */
	dev_t dev;
	struct g4_trace_writer *writer;
	uint64_t accesses, files; /* set: how many were recorded */
};

/*
 * Runs the command and waits until it and its children have ended. Returns its exit status, or 128 and the number of the
 * signal that ended it; a negative errno when it could not be run (*ran is false) or followed. SIGTERM and SIGHUP are handed to the
 * command meanwhile (signals.h); once that has ended, they end what it has left behind, with this process. Not thread-safe.
 */
int g4_record_command(struct g4_record *record, char **command, bool *ran);

#endif
