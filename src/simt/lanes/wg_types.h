/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The workgroup of the lanes build: lanes that meet at a barrier. Private to this folder.
 *
 * All lanes of a workgroup run on the thread that called it, one at a time: each has a stack, and one that waits at a meeting goes on
 * with the next lane. ThreadSanitizer is told of each such change and takes lanes for threads: it compares what happens before what,
 * not times, and so still finds a data race between them. Atomics of two lanes are never interleaved, those of two workgroups are:
 * they are threads. Lanes that were threads took two thirds of a test's time for waking each other.
 */
#ifndef G4_SIMT_LANES_WG_TYPES_H
#define G4_SIMT_LANES_WG_TYPES_H

#include <ucontext.h>

#include "simt/simt.h"

#ifndef G4_LANES
#error "the lanes build defines G4_LANES, the number of lanes of a workgroup"
#endif
G4_STATIC_ASSERT(G4_LANES >= 4 && G4_LANES <= 64,
		 "collective lookups ask for three words at once; a ballot has 64 bits");

/*
 * Where all lanes meet. X(NAME, what a lane does there, for the message about lanes that do different things).
 * The lanes of a workgroup pass the same sequence of these.
 */
#define G4_MEETINGS(X)                                                                                                 \
	X(REGION_BEGIN, "waits for a region to begin")                                                                 \
	X(REGION_END, "has reached the end of the region")                                                             \
	X(SYNC, "is in g4_sync()")                                                                                     \
	X(ANY, "is in g4_any()")                                                                                       \
	X(ALL, "is in g4_all()")                                                                                       \
	X(BALLOT, "is in g4_ballot()")                                                                                 \
	X(BROADCAST, "is in g4_broadcast()")                                                                           \
	X(REDUCE_MIN, "is in g4_reduce_min()")                                                                         \
	X(REDUCE_MAX, "is in g4_reduce_max()")                                                                         \
	X(REDUCE_SUM, "is in g4_reduce_sum()")                                                                         \
	X(SCAN_EXCLUSIVE, "is in g4_scan_exclusive()")

enum g4_meeting {
#define G4_MEETING_ENUM(name, text) G4_MEET_##name,
	G4_MEETINGS(G4_MEETING_ENUM)
#undef G4_MEETING_ENUM
};

/* Regions of this layer; user regions begin at G4_REGION_USER. */
enum g4_region_kind { G4_REGION_DISMISS, G4_REGION_COPY, G4_REGION_ZERO, G4_REGION_EQUAL };

/* What a lane brings to a meeting. */
struct g4_slot {
	uint64_t value;
	uint64_t sequence; /* meetings this lane has been to */
	uint32_t meeting;  /* enum g4_meeting */
	uint32_t detail;   /* an argument that must be the same in all lanes */
};

/* What a region of this layer works on; `equal` is its result. */
struct g4_transfer {
	uint8_t *to;
	const uint8_t *from;
	uint64_t bytes;
	bool equal;
};

/* Where a lane goes on. The leader's is in the thread that opens a region, on that thread's stack. */
struct g4_lane {
	ucontext_t context;
	void *stack; /* NULL: the leader's */
	/*
	 * What ThreadSanitizer knows it by. A lane gets one when it first runs (go_on_as()), for clang 14's ends the process when one goes by which nothing ever ran:
	 * the head of a list in it has no value before (struct Trace of its runtime), and where reports that are suppressed have used that memory, a wild one.
	 */
	void *fiber;
};

struct g4_wg {
	/* the barrier */
	uint32_t arrived;
	uint32_t generation;
	/*
	 * What the lanes brought to the meeting, by the parity of its sequence number. A lane that comes to meeting n + 2
	 * has left the barrier of n + 1, so all lanes have entered that and none still reads the slots of n: two sets are
	 * enough for one barrier a meeting.
	 */
	struct g4_slot slots[2][G4_LANES];
	uint64_t sequence[G4_LANES]; /* each lane's own count */

	/* the region the leader opened: written before its first meeting, read after it */
	uint32_t region_kind;
	void (*region_run)(struct g4_wg *wg, void *args); /* of user regions */
	void *region_args;
	bool in_region;	    /* the leader's own */
	uint32_t transfers; /* large enough to be shared; the leader's own */

	struct g4_scratch scratch;
	uint32_t index;

	struct g4_lane lanes[G4_LANES];
};

/* A lane that is no leader: takes part in regions until it is dismissed. */
void g4_lanes_serve(struct g4_wg *wg);

#endif
