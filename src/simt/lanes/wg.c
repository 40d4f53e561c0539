/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions and collectives of the lanes build. Its purpose is to find mistakes that one lane cannot make: data races
 * between lanes (ThreadSanitizer takes each for a thread) and divergence (lanes at different collectives).
 *
 * Everything is made from one operation, the meeting: each lane leaves a value and the name of the collective in its
 * slot, all wait for each other, and each then reads all slots. Beginning and end of a region are meetings as well, so
 * a lane that leaves a region while another is at a collective is caught too. A lane that never comes cannot be: that
 * is a hang, which the tests' time limit ends.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "simt/lanes/wg_types.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#if defined(G4_TSAN)
#include <sanitizer/tsan_interface.h>
/* Between two lanes it belongs to neither. */
#define G4_LANES_UNSEEN __attribute__((noinline, no_sanitize("thread")))
#else
#define G4_LANES_UNSEEN __attribute__((noinline))
#endif

/* Below this many bytes waking the lanes costs more than it saves: the leader does it alone. */
#define ALONE_BYTES 256
/*
 * Under ThreadSanitizer the leader does most of the larger ones alone, too: the others wait meanwhile, so a race with anybody else is
 * found all the same, and meeting twice is what takes the time. One in so many is shared.
 */
#if defined(G4_TSAN)
#define TRANSFERS_PER_SHARED 16
#else
#define TRANSFERS_PER_SHARED 1
#endif
/* Lanes share a transfer in parts of whole cache lines. */
#define PART_ALIGN 64

/* Of the thread's lanes the one that runs; 0, the leader, outside of regions. */
static __thread uint32_t lane_self;

/* All lanes of a thread use its variable, one after the other; for ThreadSanitizer it is the thread's own. */
G4_LANES_UNSEEN static uint32_t this_lane(void)
{
	return lane_self;
}

static const char *meeting_text(uint32_t meeting)
{
	switch ((enum g4_meeting)meeting) {
#define G4_MEETING_TEXT(name, text)                                                                                    \
	case G4_MEET_##name:                                                                                           \
		return text;
		G4_MEETINGS(G4_MEETING_TEXT)
#undef G4_MEETING_TEXT
	}
	return "is nowhere";
}

static void fail(const struct g4_wg *wg, const char *what)
{
	fprintf(stderr, "gpu4fs: workgroup %" PRIu32 ", lane %" PRIu32 ": %s\n", wg->index, this_lane(), what);
	abort();
}

static void fail_diverged(const struct g4_wg *wg, const struct g4_slot *slots, uint32_t lane)
{
	fprintf(stderr,
		"gpu4fs: workgroup %" PRIu32 " diverged: lane 0 %s (meeting %" PRIu64 ", argument %" PRIu32
		"), lane %" PRIu32 " %s (meeting %" PRIu64 ", argument %" PRIu32 ")\n",
		wg->index, meeting_text(slots[0].meeting), slots[0].sequence, slots[0].detail, lane,
		meeting_text(slots[lane].meeting), slots[lane].sequence, slots[lane].detail);
	abort();
}

/*
 * Goes on as another lane of this workgroup. It returns when a lane goes on as this one: maybe in another thread, between whose
 * beginning of a region and its end all of them stay. So nothing here may keep the address of a variable of the thread.
 */
G4_LANES_UNSEEN static void go_on_as(struct g4_wg *wg, uint32_t lane)
{
	struct g4_lane *from = &wg->lanes[this_lane()], *to = &wg->lanes[lane];

	lane_self = lane;
#if defined(G4_TSAN)
	from->fiber = __tsan_get_current_fiber();
	__tsan_release(from); /* to the thread that ends the lane */
	if (!to->fiber)
		to->fiber = __tsan_create_fiber(0);
	__tsan_switch_to_fiber(to->fiber, __tsan_switch_to_fiber_no_sync);
#endif
	swapcontext(&from->context, &to->context);
}

static void barrier(struct g4_wg *wg)
{
	uint32_t generation = g4_load32_acq(&wg->generation);

	if (g4_add32(&wg->arrived, 1) == G4_LANES - 1) {
		g4_store32_rlx(&wg->arrived, 0);
		g4_add32(&wg->generation, 1);
		return;
	}
	while (g4_load32_acq(&wg->generation) == generation)
		go_on_as(wg, (this_lane() + 1) % G4_LANES);
}

/* The slots of all lanes. They may be read until this lane's next meeting. */
static const struct g4_slot *meet(struct g4_wg *wg, enum g4_meeting meeting, uint32_t detail, uint64_t value)
{
	uint32_t lane = this_lane();
	uint64_t sequence = wg->sequence[lane]++;
	struct g4_slot *slots = wg->slots[sequence & 1];

	slots[lane].value = value;
	slots[lane].sequence = sequence;
	slots[lane].meeting = (uint32_t)meeting;
	slots[lane].detail = detail;
	barrier(wg);
	for (uint32_t i = 1; i < G4_LANES; i++) {
		if (slots[i].meeting != slots[0].meeting || slots[i].sequence != slots[0].sequence ||
		    slots[i].detail != slots[0].detail)
			fail_diverged(wg, slots, i);
	}
	return slots;
}

/* ---- workgroup ---- */

uint32_t g4_wg_width(const struct g4_wg *wg)
{
	(void)wg;
	return G4_LANES;
}

uint32_t g4_wg_lane(const struct g4_wg *wg)
{
	(void)wg;
	return this_lane();
}

uint32_t g4_wg_index(const struct g4_wg *wg)
{
	return wg->index;
}

struct g4_scratch *g4_wg_scratch(struct g4_wg *wg)
{
	return &wg->scratch;
}

/* ---- regions ---- */

/* This lane's part of a transfer: [*from, *from + the result). */
static uint64_t part_of(uint64_t bytes, uint64_t *from)
{
	uint64_t part = g4_align_up((bytes + G4_LANES - 1) / G4_LANES, PART_ALIGN);

	*from = g4_min64(bytes, part * this_lane());
	return g4_min64(part, bytes - *from);
}

/* A transfer region, collective. */
static void run_transfer(struct g4_wg *wg, uint32_t kind, struct g4_transfer *t)
{
	uint64_t at;
	uint64_t bytes = part_of(t->bytes, &at);
	bool equal = true;

	if (bytes && kind == G4_REGION_COPY)
		memcpy(t->to + at, t->from + at, bytes);
	else if (bytes && kind == G4_REGION_ZERO)
		memset(t->to + at, 0, bytes);
	else if (bytes)
		equal = memcmp(t->to + at, t->from + at, bytes) == 0;
	if (kind == G4_REGION_EQUAL) {
		equal = g4_all(wg, equal);
		if (this_lane() == 0)
			t->equal = equal;
	}
}

/* Begins, runs and ends the region that the leader opened. Returns its kind. Collective. */
static uint32_t run_region(struct g4_wg *wg)
{
	uint32_t kind;

	meet(wg, G4_MEET_REGION_BEGIN, 0, 0);
	kind = wg->region_kind;
	if (kind >= G4_REGION_USER)
		wg->region_run(wg, wg->region_args);
	else if (kind != G4_REGION_DISMISS)
		run_transfer(wg, kind, (struct g4_transfer *)wg->region_args);
	/* Only now may the leader write what the next region is. */
	meet(wg, G4_MEET_REGION_END, 0, 0);
	return kind;
}

static void check_leader(const struct g4_wg *wg)
{
	if (this_lane() != 0)
		fail(wg, "calls a function that is the leader's");
	if (wg->in_region)
		fail(wg, "calls a function that opens a region while it is in one");
}

/*
 * The stack of the calling thread. pthread_getattr_np() reads /proc for the first thread, so each thread asks once.
 */
static bool is_on_own_stack(const void *p)
{
	static __thread uintptr_t low;
	static __thread size_t bytes;
	pthread_attr_t attributes;
	void *address;

	if (bytes == 0) {
		if (pthread_getattr_np(pthread_self(), &attributes) != 0)
			return false;
		if (pthread_attr_getstack(&attributes, &address, &bytes) == 0)
			low = (uintptr_t)address;
		pthread_attr_destroy(&attributes);
	}
	return (uintptr_t)p - low < bytes;
}

static void open_region(struct g4_wg *wg, uint32_t kind, void *args)
{
	wg->in_region = true;
	wg->region_kind = kind;
	wg->region_args = args;
	run_region(wg);
	wg->in_region = false;
}

void g4_region(struct g4_wg *wg, uint32_t kind, void (*run)(struct g4_wg *wg, void *args), void *args)
{
	check_leader(wg);
	if (kind < G4_REGION_USER)
		fail(wg, "opens a region of a kind that is not the user's");
	if (is_on_own_stack(args))
		fail(wg, "opens a region with arguments on its stack, which a GPU's other lanes cannot read");
	wg->region_run = run;
	open_region(wg, kind, args);
}

/* Whether all lanes take part in a transfer. Leader. */
static bool is_shared(struct g4_wg *wg, uint64_t bytes)
{
	return bytes >= ALONE_BYTES && wg->transfers++ % TRANSFERS_PER_SHARED == 0;
}

void g4_copy(struct g4_wg *wg, void *to, const void *from, uint64_t bytes)
{
	check_leader(wg);
	if (is_shared(wg, bytes)) {
		struct g4_transfer t = {(uint8_t *)to, (const uint8_t *)from, bytes, false};

		open_region(wg, G4_REGION_COPY, &t);
	} else if (bytes) {
		memcpy(to, from, bytes);
	}
}

void g4_zero(struct g4_wg *wg, void *to, uint64_t bytes)
{
	check_leader(wg);
	if (is_shared(wg, bytes)) {
		struct g4_transfer t = {(uint8_t *)to, NULL, bytes, false};

		open_region(wg, G4_REGION_ZERO, &t);
	} else if (bytes) {
		memset(to, 0, bytes);
	}
}

bool g4_equal(struct g4_wg *wg, const void *a, const void *b, uint64_t bytes)
{
	check_leader(wg);
	if (is_shared(wg, bytes)) {
		/* `to` is only read by this kind of region. */
		struct g4_transfer t = {(uint8_t *)(uintptr_t)a, (const uint8_t *)b, bytes, false};

		open_region(wg, G4_REGION_EQUAL, &t);
		return t.equal;
	}
	return bytes == 0 || memcmp(a, b, bytes) == 0;
}

void g4_lanes_serve(struct g4_wg *wg)
{
	if (this_lane() == 0)
		fail(wg, "serves, and it is the leader");
	while (run_region(wg) != G4_REGION_DISMISS)
		;
}

bool g4_wg_next(struct g4_wg *wg, struct g4_wg_region *region)
{
	(void)region;
	g4_lanes_serve(wg);
	return false;
}

/* Lanes meet at the end of each region without being told to. */
void g4_region_end(struct g4_wg *wg)
{
	(void)wg;
}

/* And begin it together. */
void g4_converge(struct g4_wg *wg)
{
	(void)wg;
}

void g4_wg_dismiss(struct g4_wg *wg)
{
	check_leader(wg);
	open_region(wg, G4_REGION_DISMISS, NULL);
}

/* ---- collectives ---- */

void g4_sync(struct g4_wg *wg)
{
	meet(wg, G4_MEET_SYNC, 0, 0);
}

static uint64_t ballot(struct g4_wg *wg, enum g4_meeting meeting, bool predicate)
{
	const struct g4_slot *slots = meet(wg, meeting, 0, predicate);
	uint64_t bits = 0;

	for (uint32_t i = 0; i < G4_LANES; i++)
		bits |= slots[i].value << i;
	return bits;
}

bool g4_any(struct g4_wg *wg, bool predicate)
{
	return ballot(wg, G4_MEET_ANY, predicate) != 0;
}

bool g4_all(struct g4_wg *wg, bool predicate)
{
	return ballot(wg, G4_MEET_ALL, !predicate) == 0;
}

uint64_t g4_ballot(struct g4_wg *wg, bool predicate)
{
	return ballot(wg, G4_MEET_BALLOT, predicate);
}

uint64_t g4_broadcast(struct g4_wg *wg, uint64_t value, uint32_t lane)
{
	if (lane >= G4_LANES)
		fail(wg, "broadcasts from a lane that does not exist");
	return meet(wg, G4_MEET_BROADCAST, lane, value)[lane].value;
}

uint64_t g4_reduce_min(struct g4_wg *wg, uint64_t value)
{
	const struct g4_slot *slots = meet(wg, G4_MEET_REDUCE_MIN, 0, value);
	uint64_t result = UINT64_MAX;

	for (uint32_t i = 0; i < G4_LANES; i++)
		result = g4_min64(result, slots[i].value);
	return result;
}

uint64_t g4_reduce_max(struct g4_wg *wg, uint64_t value)
{
	const struct g4_slot *slots = meet(wg, G4_MEET_REDUCE_MAX, 0, value);
	uint64_t result = 0;

	for (uint32_t i = 0; i < G4_LANES; i++)
		result = g4_max64(result, slots[i].value);
	return result;
}

static uint64_t sum_below(const struct g4_slot *slots, uint32_t end)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < end; i++)
		sum += slots[i].value;
	return sum;
}

uint64_t g4_reduce_sum(struct g4_wg *wg, uint64_t value)
{
	return sum_below(meet(wg, G4_MEET_REDUCE_SUM, 0, value), G4_LANES);
}

uint64_t g4_scan_exclusive(struct g4_wg *wg, uint64_t value)
{
	return sum_below(meet(wg, G4_MEET_SCAN_EXCLUSIVE, 0, value), this_lane());
}

void g4_copy_in_region(struct g4_wg *wg, void *to, const void *from, uint64_t bytes)
{
	uint64_t at, part = part_of(bytes, &at);

	(void)wg;
	if (part)
		memcpy((uint8_t *)to + at, (const uint8_t *)from + at, part);
}
