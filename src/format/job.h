/* SPDX-License-Identifier: Apache-2.0 */
/* Records of background jobs and what they found. They stand in the root block: nothing has to be allocated or found first. */
#ifndef G4_FORMAT_JOB_H
#define G4_FORMAT_JOB_H

#include "base/numbers.h"

#define G4_JOBS 3u
#define G4_FINDINGS 64u

enum g4_job_kind {
	G4_JOB_NONE = 0,
	G4_JOB_SCRUB = 1,
	G4_JOB_REBUILD = 2,
	G4_JOB_REBALANCE = 3,
	G4_JOB_REMOVE = 4,
	G4_JOB_KINDS
};
enum g4_job_state {
	G4_JOB_RUNNING = 1,
	G4_JOB_PAUSED = 2,
	G4_JOB_DONE = 3,
	G4_JOB_CANCELLED = 4,
	G4_JOB_FAILED = 5,
	G4_JOB_STATES
};
#define G4_JOB_EAGER 1u	   /* steps are done whether users wait or not */
#define G4_JOB_ADD_SUMS 2u /* a scrub's: pages without the sums that their file's policy names get them */
#define G4_JOB_FLAGS (G4_JOB_EAGER | G4_JOB_ADD_SUMS)

struct g4_job_record {
	uint32_t kind; /* 0: none, the rest is 0 */
	uint32_t state;
	uint32_t flags;
	uint32_t code;	 /* FAILED: the positive code */
	uint64_t number; /* of all that were started, from 1 on */
	uint64_t rate;	 /* bytes a second, 0: no limit */
	uint64_t units;	 /* an estimate of all, and those done: pages */
	uint64_t done;
	uint64_t bytes;	     /* moved */
	uint64_t errors;     /* a scrub's: damaged pages */
	uint64_t run_ns;     /* time that it was running */
	uint64_t started_ns; /* by the clock, as times of files are */
	uint64_t ended_ns;
	uint64_t skipped; /* a scrub's: names that were moved while it ran, and not looked at */
	uint64_t summed;  /* a scrub's: pages that it gave a sum */
	uint64_t reserved[3];
	uint64_t cursor[8];
	uint64_t arguments[8];
};
G4_STATIC_ASSERT(sizeof(struct g4_job_record) == 256, "job record");

#define G4_FINDING_METADATA UINT64_MAX /* in place of a page of the file */
struct g4_finding {		       /* pages in a row that are damaged in the same way */
	uint64_t inode;		       /* whose; 0: the file system's */
	uint64_t dir;		       /* the directory that named it, 0: not known */
	uint64_t page;		       /* of the file: the first */
	uint64_t address;	       /* of the first, 0: not known */
	uint32_t pages;
	uint32_t code; /* positive; 0: no finding */
};
G4_STATIC_ASSERT(sizeof(struct g4_finding) == 40, "finding");

#endif
