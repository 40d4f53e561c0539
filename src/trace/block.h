/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recording what reaches a block device, whatever file system is on it: the kernel's tracepoint block:block_bio_queue, as tracefs
 * prints it, in an instance of our own, so that nobody else's tracing is disturbed. Root. Host only; nothing here is thread-safe.
 */
#ifndef G4_TRACE_BLOCK_H
#define G4_TRACE_BLOCK_H

#include "trace/trace.h"

#define G4_BLOCK_LINE_BYTES 512u /* the kernel's are below 200 */
#define G4_BLOCK_MESSAGE_BYTES 512

/* The kernel's text, as it comes: lines may be cut anywhere between two calls. Zeroed but for the first two: nothing has come. */
struct g4_block_text {
	struct g4_trace_writer *writer;
	uint64_t
		first_sector; /* of a partition: requests have sectors of its disk, and the trace has offsets in the partition */
	uint64_t accesses; /* reads and writes so far */
	uint64_t
		lost; /* requests that the kernel says it had no room for; G4_BLOCK_LOST_SOME: it does not say how many */
	uint64_t bad;			    /* lines with a request that is not understood */
	char bad_line[G4_BLOCK_LINE_BYTES]; /* the first of them */
	char line[G4_BLOCK_LINE_BYTES];
	size_t length;
	bool too_long; /* the line that is under way */
};
#define G4_BLOCK_LOST_SOME UINT64_MAX
void g4_block_take(struct g4_block_text *text, const char *bytes, size_t count);
/* A line of what the kernel counts of a processor's buffer: requests that it tells nowhere else that it had no room for. */
void g4_block_take_count(struct g4_block_text *text, const char *line);

struct g4_block_record {
	const char *device; /* of blocks: a disk or a partition */
	const char *output; /* where the trace goes; what is there stays as it is where the device cannot be recorded */
	bool as_text;
	uint64_t accesses; /* set: how many were recorded */
};

/*
 * Runs the command and records meanwhile what anybody asks the device to read and write, in the order of submission. Returns the
 * command's exit status, or 128 and the number of the signal that ended it; a negative errno when it could not be run (*ran is
 * false, and `message` empty), or when the device could not be recorded or not to the end, or the trace not be written, which `message`
 * says in a sentence that names what it is about. SIGTERM and SIGHUP are handed to the command meanwhile; SIGINT and SIGQUIT, which a
 * terminal sends to the command as well, are ignored. The command has the caller's signals.
 */
int g4_block_command(struct g4_block_record *record, char **command, bool *ran, char message[G4_BLOCK_MESSAGE_BYTES]);

#endif
