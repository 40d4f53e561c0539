/* SPDX-License-Identifier: Apache-2.0 */
#include "naive.h"

#include <stdlib.h>
#include <string.h>

#define MOST 512

/* A queue: [0] came first. */
struct queue {
	uint32_t page[MOST];
	uint32_t mark[MOST];
	uint32_t count;
};

static int find(const struct queue *q, uint32_t page)
{
	for (uint32_t i = 0; i < q->count; i++)
		if (q->page[i] == page)
			return (int)i;
	return -1;
}

static void insert(struct queue *q, uint32_t at, uint32_t page, uint32_t mark)
{
	memmove(&q->page[at + 1], &q->page[at], (q->count - at) * sizeof(q->page[0]));
	memmove(&q->mark[at + 1], &q->mark[at], (q->count - at) * sizeof(q->mark[0]));
	q->page[at] = page;
	q->mark[at] = mark;
	q->count++;
}

static void append(struct queue *q, uint32_t page, uint32_t mark)
{
	insert(q, q->count, page, mark);
}

static uint32_t take(struct queue *q, uint32_t at)
{
	const uint32_t page = q->page[at];

	q->count--;
	memmove(&q->page[at], &q->page[at + 1], (q->count - at) * sizeof(q->page[0]));
	memmove(&q->mark[at], &q->mark[at + 1], (q->count - at) * sizeof(q->mark[0]));
	return page;
}

static bool forget(struct queue *q, uint32_t page)
{
	const int at = find(q, page);

	if (at >= 0)
		(void)take(q, (uint32_t)at);
	return at >= 0;
}

static uint64_t fifo(const uint32_t *pages, uint32_t count, uint32_t ways, bool recent)
{
	struct queue q = {.count = 0};
	uint64_t hits = 0;

	for (uint32_t i = 0; i < count; i++) {
		const bool hit = find(&q, pages[i]) >= 0;
		hits += hit;
		if (hit && recent)
			(void)forget(&q, pages[i]);
		if (!hit && q.count == ways)
			(void)take(&q, 0);
		if (!hit || recent)
			append(&q, pages[i], 0);
	}
	return hits;
}

/* Frames and a hand, as in cache/cache.c: no queue. */
static uint64_t clock_of_frames(const uint32_t *pages, uint32_t count, uint32_t ways, bool first)
{
	uint32_t frame[MOST], used[MOST] = {0}, hand = 0;
	uint64_t hits = 0;

	memset(frame, 0xff, sizeof(frame));
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = 0;
		while (at < ways && frame[at] != pages[i])
			at++;
		if (at < ways) {
			used[at] = 1;
			hits++;
			continue;
		}
		for (; used[hand % ways]; hand++)
			used[hand % ways] = 0;
		frame[hand % ways] = pages[i];
		used[hand++ % ways] = first;
	}
	return hits;
}

static uint64_t sieve(const uint32_t *pages, uint32_t count, uint32_t ways)
{
	struct queue q = {.count = 0};
	uint32_t hand = 0; /* index; what is behind the end is the beginning */
	uint64_t hits = 0;

	for (uint32_t i = 0; i < count; i++) {
		const int at = find(&q, pages[i]);
		if (at >= 0) {
			q.mark[at] = 1;
			hits++;
			continue;
		}
		if (q.count == ways) {
			/* a hand that passed the newest page begins at the oldest, also when newer pages came since */
			for (;; hand++) {
				if (hand >= q.count)
					hand = 0;
				if (!q.mark[hand])
					break;
				q.mark[hand] = 0;
			}
			(void)take(&q, hand);
			if (hand == q.count)
				hand = MOST;
		}
		append(&q, pages[i], 0);
	}
	return hits;
}

static void s3_push_main(struct queue *main_queue, uint32_t page, uint32_t room)
{
	append(main_queue, page, 0);
	while (main_queue->count > room) {
		const uint32_t mark = main_queue->mark[0], oldest = take(main_queue, 0);
		if (mark > 0)
			append(main_queue, oldest, mark - 1);
	}
}

uint64_t naive_s3fifo(const uint32_t *pages, uint32_t count, uint32_t ways, uint32_t often, uint32_t most)
{
	struct queue small = {.count = 0}, large = {.count = 0}, ghost = {.count = 0};
	const uint32_t tenth = ways < 10 ? 1 : ways / 10;
	uint64_t hits = 0;

	for (uint32_t i = 0; i < count; i++) {
		int at = find(&small, pages[i]);
		struct queue *in = at >= 0 ? &small : &large;
		if (at < 0)
			at = find(&large, pages[i]);
		if (at >= 0) {
			in->mark[at] = in->mark[at] == most ? most : in->mark[at] + 1;
			hits++;
			continue;
		}
		const bool again = forget(&ghost, pages[i]);
		while (small.count + large.count >= ways) {
			if (small.count < tenth && large.count > 0) {
				const uint32_t mark = large.mark[0], page = take(&large, 0);
				if (mark > 0)
					append(&large, page, mark - 1);
				continue;
			}
			const uint32_t mark = small.mark[0], page = take(&small, 0);
			if (mark >= often) {
				s3_push_main(&large, page, ways - tenth);
				continue;
			}
			append(&ghost, page, 0);
			if (ghost.count > ways - tenth)
				(void)take(&ghost, 0);
		}
		append(again ? &large : &small, pages[i], 0);
	}
	return hits;
}

/* As the paper's figure has it; queues begin with the least recently used page. */
static uint64_t arc(const uint32_t *pages, uint32_t count, uint32_t ways)
{
	struct queue t1 = {.count = 0}, t2 = {.count = 0}, b1 = {.count = 0}, b2 = {.count = 0};
	double p = 0;
	uint64_t hits = 0;

	for (uint32_t i = 0; i < count; i++) {
		const uint32_t x = pages[i], n1 = b1.count, n2 = b2.count;
		bool replace = true;
		const bool in_b1 = find(&b1, x) >= 0, in_b2 = find(&b2, x) >= 0;
		if (forget(&t1, x) || forget(&t2, x)) {
			append(&t2, x, 0);
			hits++;
			continue;
		}
		if (in_b1) {
			const double by = n1 >= n2 ? 1 : n2 / n1; /* whole pages */
			p = p + by < ways ? p + by : ways;
		} else if (in_b2) {
			const double by = n2 >= n1 ? 1 : n1 / n2;
			p = p - by > 0 ? p - by : 0;
		} else if (t1.count + b1.count == ways) {
			if (t1.count < ways) {
				(void)take(&b1, 0);
			} else {
				(void)take(&t1, 0);
				replace = false;
			}
		} else {
			const uint32_t all = t1.count + t2.count + b1.count + b2.count;
			if (all == 2 * ways)
				(void)take(&b2, 0);
			replace = all >= ways;
		}
		if (replace && t1.count + t2.count == ways) {
			if (t1.count > 0 && ((in_b2 && t1.count == p) || t1.count > p || t2.count == 0))
				append(&b1, take(&t1, 0), 0);
			else
				append(&b2, take(&t2, 0), 0);
		}
		(void)forget(&b1, x);
		(void)forget(&b2, x);
		append(in_b1 || in_b2 ? &t2 : &t1, x, 0);
	}
	return hits;
}

/* ------------------------------------------------------------------ CLOCK-Pro: a ring that is an array, hands are indices */

enum { HOT = 1, COLD, GONE, USED = 8 };

struct pro {
	struct queue ring;
	uint32_t hands[3];
	uint32_t ways, target;
};

static uint32_t pro_count(const struct pro *pro, uint32_t kind)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < pro->ring.count; i++)
		n += (pro->ring.mark[i] & ~(uint32_t)USED) == kind;
	return n;
}

static void pro_take(struct pro *pro, uint32_t at)
{
	(void)take(&pro->ring, at);
	for (int h = 0; h < 3; h++) {
		if (pro->hands[h] > at)
			pro->hands[h]--;
		if (pro->hands[h] >= pro->ring.count)
			pro->hands[h] = 0;
	}
}

static void pro_end_test(struct pro *pro, uint32_t at)
{
	pro_take(pro, at);
	if (pro->target > 1)
		pro->target--;
}

static uint32_t pro_step(struct pro *pro, int hand)
{
	const uint32_t at = pro->hands[hand];

	pro->hands[hand] = (at + 1) % pro->ring.count;
	return at;
}

static void pro_run_cold(struct pro *pro)
{
	const uint32_t cold = pro_step(pro, 1);
	uint32_t *mark = &pro->ring.mark[cold];

	if (*mark == COLD)
		*mark = GONE;
	else if (*mark == (COLD | USED))
		*mark = HOT;
	while (pro_count(pro, GONE) > pro->ways) {
		const uint32_t at = pro_step(pro, 2);
		if (pro->ring.mark[at] == GONE)
			pro_end_test(pro, at);
	}
	while (pro_count(pro, HOT) > pro->ways - pro->target) {
		const uint32_t at = pro_step(pro, 0);
		if (pro->ring.mark[at] == GONE)
			pro_end_test(pro, at);
		else if (pro->ring.mark[at] == HOT)
			pro->ring.mark[at] = COLD;
		else if (pro->ring.mark[at] == (HOT | USED))
			pro->ring.mark[at] = HOT;
	}
}

static uint64_t clockpro(const uint32_t *pages, uint32_t count, uint32_t ways)
{
	struct pro pro = {.ways = ways, .target = ways};
	uint64_t hits = 0;

	for (uint32_t i = 0; i < count; i++) {
		const int at = find(&pro.ring, pages[i]);
		const bool gone = at >= 0 && pro.ring.mark[at] == GONE;
		if (at >= 0 && !gone) {
			pro.ring.mark[at] |= USED;
			hits++;
			continue;
		}
		if (gone) {
			pro_take(&pro, (uint32_t)at);
			pro.target += pro.target < ways;
		}
		while (pro_count(&pro, HOT) + pro_count(&pro, COLD) >= ways)
			pro_run_cold(&pro);
		const bool empty = pro.ring.count == 0;
		const uint32_t hot = pro.hands[0]; /* the page comes in front of what the hot hand looks at */
		insert(&pro.ring, empty ? 0 : hot, pages[i], gone ? HOT : COLD);
		for (int h = 0; !empty && h < 3; h++)
			pro.hands[h] += pro.hands[h] >= hot;
	}
	return hits;
}

static uint64_t min(const uint32_t *pages, uint32_t count, uint32_t ways)
{
	struct queue q = {.count = 0};
	uint64_t hits = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (find(&q, pages[i]) >= 0) {
			hits++;
			continue;
		}
		uint32_t victim = 0, latest = 0;
		for (uint32_t k = 0; q.count == ways && k < q.count; k++) {
			uint32_t next = i + 1;
			while (next < count && pages[next] != q.page[k])
				next++;
			if (next > latest) {
				latest = next;
				victim = k;
			}
		}
		if (q.count == ways)
			(void)take(&q, victim);
		append(&q, pages[i], 0);
	}
	return hits;
}

/* As the paper has it, a value for each page: 3 is next to go. What has been there longest with its value goes first. */
struct rrip_set {
	struct queue q; /* in the order in which pages got the values that they have */
};

static bool rrip(struct rrip_set *set, uint32_t page, uint32_t ways, uint32_t value)
{
	struct queue *q = &set->q;
	const bool hit = forget(q, page);

	for (uint32_t victim = MOST; !hit && q->count == ways && victim == MOST;) {
		for (uint32_t k = q->count; k-- > 0;)
			victim = q->mark[k] == 3 ? k : victim;
		for (uint32_t k = 0; victim == MOST && k < q->count; k++)
			q->mark[k]++;
		if (victim != MOST)
			(void)take(q, victim);
	}
	append(q, page, hit ? 0 : value);
	return hit;
}

static uint64_t srrip(const uint32_t *pages, uint32_t count, uint32_t ways)
{
	struct rrip_set set = {.q = {.count = 0}};
	uint64_t hits = 0;

	for (uint32_t i = 0; i < count; i++)
		hits += rrip(&set, pages[i], ways, 2);
	return hits;
}

uint64_t naive_drrip(const uint32_t *pages, const uint32_t *set_of, uint32_t count, uint32_t ways)
{
	static struct rrip_set sets[64];
	int selector = 0;
	uint32_t cold_ones = 0;
	uint64_t hits = 0;

	memset(sets, 0, sizeof(sets));
	for (uint32_t i = 0; i < count; i++) {
		struct queue *q = &sets[set_of[i]].q;
		const bool miss = find(q, pages[i]) < 0;
		if (miss && set_of[i] % 32 == 0 && selector < 511)
			selector++;
		if (miss && set_of[i] % 32 == 1 && selector > -512)
			selector--;
		/* a leader's own miss counts before others look, and leaders look at nothing */
		const bool bimodal = set_of[i] % 32 == 0 ? false : set_of[i] % 32 == 1 ? true : selector > 0;
		const bool distant = miss && bimodal && ++cold_ones % 32 != 0;
		hits += rrip(&sets[set_of[i]], pages[i], ways, distant ? 3 : 2);
	}
	return hits;
}

uint64_t naive_hits(enum g4_policy policy, const uint32_t *pages, uint32_t count, uint32_t ways)
{
	switch (policy) {
	case G4_POLICY_FIFO:
		return fifo(pages, count, ways, false);
	case G4_POLICY_LRU:
		return fifo(pages, count, ways, true);
	case G4_POLICY_CLOCK:
		return clock_of_frames(pages, count, ways, true);
	case G4_POLICY_SECOND:
		return clock_of_frames(pages, count, ways, false);
	case G4_POLICY_SIEVE:
		return sieve(pages, count, ways);
	case G4_POLICY_S3FIFO:
		return naive_s3fifo(pages, count, ways, 2, 3);
	case G4_POLICY_S3FIFO1:
		return naive_s3fifo(pages, count, ways, 1, 3);
	case G4_POLICY_ARC:
		return arc(pages, count, ways);
	case G4_POLICY_CLOCKPRO:
		return clockpro(pages, count, ways);
	case G4_POLICY_SRRIP:
	case G4_POLICY_DRRIP: /* of one set */
		return srrip(pages, count, ways);
	case G4_POLICY_MIN:
		return min(pages, count, ways);
	default:
		abort();
	}
}
