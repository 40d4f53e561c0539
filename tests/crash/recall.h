/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a recovery does is decided by what it reads. Of each that was run it is remembered which pages it read before it wrote them,
 * what was in them, and what it left in which home pages. A state that has the same in those pages recovers to the same, whatever
 * the rest of it is, and the sum of its home pages is known without a mount.
 *
 * Which pages are read depends little on their contents, so they are kept as sets: a state is compared with all recoveries that
 * read one set by the exclusive or of its pages' sums there, which costs no more than looking at the pages that differ in it.
 *
 * That a recovery depends on nothing else is checked: the caller runs some that are known, and recall_agrees() compares.
 * Not thread-safe; while a recovery runs, requests come one at a time, under the fault device's lock.
 */
#ifndef CRASH_RECALL_H
#define CRASH_RECALL_H

#include "sketch.h"
#include "table.h"

#define RECALL_SETS 128u

struct page_set {
	uint64_t *bits; /* of a page each */
	uint64_t sum;	/* of what is settled there */
	uint32_t sum_serial;
};
struct recall {
	struct sketch *sketch;
	struct page_set reads[RECALL_SETS], writes[RECALL_SETS]; /* those found most often come first, of reads */
	uint32_t read_sets, write_sets;
	uint32_t order[RECALL_SETS];
	uint32_t words;	    /* in a set */
	struct table found; /* what was read -> a result */
	struct recall_result {
		uint32_t writes; /* a set */
		uint64_t sum;	 /* of what is there then */
		uint64_t view;	 /* the caller's: of where it lies */
	} * results;
	uint32_t result_count, result_room;
	/* of the recovery that runs */
	bool running;
	uint64_t *read_now, *written_now;
};

void recall_open(struct recall *r, struct sketch *sketch);
void recall_close(struct recall *r);
/* Forgets all recoveries. */
void recall_forget(struct recall *r);
/* The sum of home pages that a recovery of the sketched state leaves. False: only it can tell. */
bool recall_home(struct recall *r, uint64_t *home);
/* The recovery of the sketched state, which is in memory, begins; what it asks the device for; it is done. view: a part of the sum of home pages. */
void recall_begin(struct recall *r);
void recall_request(struct recall *r, bool write, uint64_t offset, uint64_t bytes);
void recall_end(struct recall *r, uint64_t view);
/* It did not come to its end. */
void recall_drop(struct recall *r);

#endif
