/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of power cuts share: operations on a small populated image, the states that a workload of one or two of them goes
 * through, and whether what was found after a crash is one of these.
 */
#ifndef CRASH_H
#define CRASH_H

#include "rig.h"

#define MAX_NODES 24u
#define MAX_STATES 6u

extern uint8_t *crash_pattern; /* 2 MiB, page-aligned; the test's */

struct operation {
	const char *name;
	int (*run)(struct rig *rig);
	const char *sync; /* what an fsync afterwards is about, NULL: sync everything */
};
extern const struct operation crash_operations[];
extern const uint32_t crash_operation_count;

struct seen_node { /* one name */
	char path[48];
	uint64_t ino;
	uint32_t mode, nlink;
	uint64_t size;
	uint64_t xattrs; /* a sum over names and values */
	uint64_t *pages; /* a sum over each page, zero-padded; the last 4 of a long file, too */
	uint32_t page_count;
};
struct state {
	struct seen_node nodes[MAX_NODES];
	uint32_t count;
};

struct workload {
	const struct operation *steps[2];
	uint32_t count;
	uint32_t syncs;	 /* bit k: a sync after step k */
	bool everything; /* it is of the file system, not of a file */
	/* what a run without faults told */
	struct state states[MAX_STATES];
	uint32_t state_count;
	int results[2];
	uint64_t writes;
};

/* What the workload has reached: the states that may still be found begin there. */
struct progress {
	uint32_t names, file;				  /* index of the oldest state for names; for `path` */
	const char *path;				  /* of the last fsync */
	uint32_t reached;				  /* operations started */
	void (*changed)(const struct progress *progress); /* called with each change; NULL: nobody */
	void *context;
};

/* Everything that the operations are about. */
void crash_populate(struct rig *rig);
void crash_see(struct rig *rig, struct state *state);
void crash_forget(struct state *state);
/* Of an operation, the three kinds of sync; under ThreadSanitizer, which sees the same threads in each, one of them by turns. */
bool crash_takes(uint32_t operation, uint32_t kind);
/* Runs until something fails. look: notes the state after each step. */
void crash_run(struct rig *rig, struct workload *w, struct progress *progress, bool look);
void crash_describe(const struct workload *w, const struct g4_fault *fault);
/* What was found after a crash may be so, or the test fails. */
void crash_check(struct rig *rig, const struct workload *w, const struct g4_fault *fault,
		 const struct progress *progress);

#define bad(w, fault, ...)                                                                                             \
	do {                                                                                                           \
		crash_describe(w, fault);                                                                              \
		fail_msg(__VA_ARGS__);                                                                                 \
	} while (0)

#endif
