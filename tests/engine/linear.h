/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of several workers on a few names and a file, and whether their answers fit one order of all of them, in which an operation that
 * ended before another began comes first (linearizability). Workers are threads or processes, and reach the file system as they like.
 * One search at a time.
 */
#ifndef G4_TEST_LINEAR_H
#define G4_TEST_LINEAR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define LINEAR_WORKERS 3u
#define LINEAR_STEPS 5u	  /* of one worker in a round */
#define LINEAR_PLACES 4u  /* names: two in each of two directories */
#define LINEAR_STATES 64u /* in which a round may end */

enum linear_verb {
	LINEAR_MAKE,
	LINEAR_MAKE_DIR,
	LINEAR_UNLINK,
	LINEAR_RMDIR,
	LINEAR_RENAME,
	LINEAR_NOREPLACE,
	LINEAR_EXCHANGE,
	LINEAR_LINK,
	LINEAR_LOOKUP,
	LINEAR_STAT,
	LINEAR_LIST,
	LINEAR_WRITE,
	LINEAR_READ,
	LINEAR_CUT,
	LINEAR_MAKE_ALL, /* MKDIR_ALL of one name */
	LINEAR_VERBS
};

struct linear_step {
	enum linear_verb verb;
	uint32_t place, to; /* to: also the directory that is listed */
	uint8_t byte;	    /* WRITE */
	/* what came of it */
	int code;	/* 0 or a negative code of base/error.h */
	bool half_told; /* LOOKUP: the inode number only */
	uint64_t ino; /* MAKE, MAKE_ALL, LOOKUP: found; LINK, STAT: what was to be linked, or looked at by its number */
	uint64_t
		value; /* LOOKUP, STAT: links; LIST: names found, a bit a place; READ: byte, 256 for an empty file; MAKE_ALL: made */
	uint64_t begun, ended; /* by one clock for all */
};

/* What the file system may be like at one moment. */
struct linear_state {
	uint64_t at[LINEAR_PLACES]; /* inode number, 0: no such name */
	uint64_t directory;	    /* bit p: what lies at place p is one */
	uint64_t byte;		    /* of the file, 256: it is empty */
};

struct linear_round {
	const struct linear_step *steps[LINEAR_WORKERS]; /* LINEAR_STEPS of each */
	struct linear_state ends[LINEAR_STATES];	 /* in which it may have ended; of linear_check() */
	uint32_t end_count;
};

void linear_put(struct linear_state *state, uint32_t place, uint64_t ino, bool directory);
/* Names of an inode. */
uint64_t linear_links(const struct linear_state *state, uint64_t ino);
/* Whether some order that the clock allows gives the answers of a round that began in this state. */
bool linear_check(struct linear_round *round, const struct linear_state *start);
/* Behind that: whether one of these orders ends in what was found when all was over. */
bool linear_may_end_in(const struct linear_round *round, const struct linear_state *found);
/* Whether two operations of different workers were under way at once. */
bool linear_overlaps(const struct linear_round *round);
void linear_print(FILE *to, const struct linear_round *round, const struct linear_state *start);

#endif
