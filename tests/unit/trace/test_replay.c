/* SPDX-License-Identifier: Apache-2.0 */
/* Replacement policies against naive models of them, and the simulated clock against the engine's cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/cache.h"
#include "naive.h"
#include "trace/replay.h"

static uint64_t seed = 1;

static uint32_t below(uint32_t n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(seed >> 33) % n;
}

/* Pages as programs use them: some often, some once, some in rows. */
static void make_up(uint32_t *pages, uint32_t count, uint32_t distinct)
{
	uint32_t row = 0;

	for (uint32_t i = 0; i < count; i++) {
		const uint32_t kind = below(8);
		if (kind < 3)
			pages[i] = below(1 + distinct / 4);
		else if (kind < 5)
			pages[i] = below(distinct);
		else
			pages[i] = row++ % distinct;
	}
}

static void pages_of(const uint32_t *numbers, uint32_t count, struct g4_pages *pages)
{
	struct g4_trace trace = {0};

	for (uint32_t i = 0; i < count; i++) {
		const struct g4_trace_access access = {.file = 3, .page = numbers[i], .pages = 1, .write = i % 5 == 0};
		assert_int_equal(g4_trace_append(&trace, &access), 0);
	}
	assert_int_equal(g4_pages_of(&trace, pages), 0);
	assert_int_equal(pages->count, count);
	g4_trace_free(&trace);
}

static uint64_t hits_of(const struct g4_pages *pages, enum g4_policy policy, uint32_t capacity, uint32_t ways)
{
	struct g4_replay replay;

	assert_int_equal(g4_replay(pages, policy, capacity, ways, &replay), 0);
	assert_true(replay.read_hits <= replay.hits);
	return replay.hits;
}

static void policies_do_what_their_models_do(void **state)
{
	uint32_t numbers[400];

	(void)state;
	for (uint32_t round = 0; round < 1500; round++) {
		const uint32_t count = 1 + below(400), distinct = 1 + below(60), ways = 1 + below(30);
		struct g4_pages pages;
		make_up(numbers, count, distinct);
		pages_of(numbers, count, &pages);
		for (uint32_t p = 0; p < G4_POLICY_COUNT; p++) {
			const uint64_t naive = naive_hits((enum g4_policy)p, numbers, count, ways);
			const uint64_t hits = hits_of(&pages, (enum g4_policy)p, ways, 0);
			if (hits != naive)
				fail_msg("round %u: %s, %u pages of %u, %u accesses: %u hits, not %u", round,
					 g4_policy_name((enum g4_policy)p), ways, distinct, count, (unsigned)hits,
					 (unsigned)naive);
		}
		g4_pages_free(&pages);
	}
}

static void a_set_is_a_cache_of_its_own(void **state)
{
	const uint32_t ways = 4, sets = 5;
	uint32_t numbers[600], part[600];

	(void)state;
	make_up(numbers, 600, 80);
	struct g4_pages pages;
	pages_of(numbers, 600, &pages);
	for (uint32_t p = 0; p < G4_POLICY_COUNT; p++) {
		uint64_t sum = 0;
		if (p == G4_POLICY_DRRIP) /* whose sets learn from others */
			continue;
		for (uint32_t set = 0; set < sets; set++) {
			uint32_t n = 0;
			for (uint32_t i = 0; i < 600; i++)
				if (pages.spread[pages.page[i]] % sets == set)
					part[n++] = numbers[i];
			sum += naive_hits((enum g4_policy)p, part, n, ways);
		}
		/* what is left of a set is not used */
		assert_int_equal(hits_of(&pages, (enum g4_policy)p, sets * ways + 3, ways), sum);
	}
	g4_pages_free(&pages);
}

static void sets_follow_those_that_miss_less(void **state)
{
	static uint32_t numbers[6000], set_of[6000];

	(void)state;
	for (uint32_t round = 0; round < 60; round++) {
		const uint32_t sets = 2 + below(60), ways = 1 + below(8);
		struct g4_pages pages;
		make_up(numbers, 6000, 10 + below(1200));
		pages_of(numbers, 6000, &pages);
		for (uint32_t i = 0; i < 6000; i++)
			set_of[i] = (uint32_t)(pages.spread[pages.page[i]] % sets);
		assert_int_equal(hits_of(&pages, G4_POLICY_DRRIP, sets * ways, ways),
				 naive_drrip(numbers, set_of, 6000, ways));
		g4_pages_free(&pages);
	}
}

static void nothing_has_more_hits_than_the_bound(void **state)
{
	static uint32_t numbers[20000];

	(void)state;
	make_up(numbers, 20000, 3000);
	struct g4_pages pages;
	pages_of(numbers, 20000, &pages);
	for (uint32_t capacity = 1; capacity < 4000; capacity = capacity * 3 + 1) {
		const uint64_t bound = hits_of(&pages, G4_POLICY_MIN, capacity, 0);
		for (uint32_t p = 0; p < G4_POLICY_COUNT; p++)
			assert_true(hits_of(&pages, (enum g4_policy)p, capacity, 0) <= bound);
	}
	/* where all fit, only first accesses miss */
	for (uint32_t p = 0; p < G4_POLICY_COUNT; p++)
		assert_int_equal(hits_of(&pages, (enum g4_policy)p, pages.distinct, 0), pages.count - pages.distinct);
	assert_int_equal(hits_of(&pages, G4_POLICY_LRU, 0, 8), 0);
	g4_pages_free(&pages);
}

static void pages_of_many_files_are_told_apart(void **state)
{
	struct g4_trace trace = {0};
	struct g4_pages pages;

	(void)state;
	for (uint64_t round = 0; round < 2; round++) {
		for (uint64_t file = 0; file < 3000; file++) {
			const struct g4_trace_access access = {.file = file << 40, .page = file, .pages = 1 + file % 3};
			assert_int_equal(g4_trace_append(&trace, &access), 0);
		}
	}
	assert_int_equal(g4_pages_of(&trace, &pages), 0);
	assert_int_equal(pages.count, 2 * pages.distinct);
	assert_int_equal(pages.distinct, 6000);
	for (uint32_t i = 0; i < 6000; i++) {
		assert_int_equal(pages.page[i], i);
		assert_int_equal(pages.next[i], 6000 + i);
		assert_true(pages.next[6000 + i] == UINT32_MAX);
	}
	g4_pages_free(&pages);
	g4_trace_free(&trace);
}

/* The engine's policy: the clock and CLOCK-Pro as they are simulated, or S3-FIFO with one bit a page. */
static uint64_t policy_hits(const struct g4_pages *pages, uint32_t sets)
{
#if G4_CACHE_POLICY == G4_CACHE_S3FIFO
	static uint32_t part[30000];
	uint64_t sum = 0;

	for (uint32_t set = 0; set < sets; set++) {
		uint32_t n = 0;
		for (uint64_t at = 0; at < pages->count; at++)
			if (pages->spread[pages->page[at]] % sets == set)
				part[n++] = pages->page[at];
		sum += naive_s3fifo(part, n, G4_CACHE_WAYS, 1, 1);
	}
	return sum;
#else
	const enum g4_policy policy = G4_CACHE_POLICY == G4_CACHE_CLOCKPRO ? G4_POLICY_CLOCKPRO : G4_POLICY_CLOCK;

	return hits_of(pages, policy, sets * G4_CACHE_WAYS, G4_CACHE_WAYS);
#endif
}

/* The engine's cache, alone. */
static struct g4_cache cache;
static struct g4_line *lines;
static struct g4_cache_set *sets;
static struct g4_note *notes;
static uint8_t *frames;

static void begin(uint32_t count)
{
	lines = calloc(count, sizeof(*lines));
	sets = calloc(count, sizeof(*sets));
	notes = calloc(count, sizeof(*notes));
	frames = aligned_alloc(G4_PAGE_BYTES, (size_t)count * G4_PAGE_BYTES);
	assert_true(lines && sets && notes && frames);
	g4_cache_init(&cache, lines, frames, NULL, sets, notes, count);
}

static void end(void)
{
	free(lines);
	free(sets);
	free(notes);
	free(frames);
}

enum { HIT, FILLED, FILLED_AHEAD, NO_LINE };

/* One access to a page, or its coming beside another one; what it was. The line is left referenced. */
static int ask(uint64_t owner, uint64_t index, bool ahead, uint32_t *line)
{
	bool fresh;

	*line = g4_cache_get(NULL, &cache, owner, index, false, &fresh);
	if (*line == G4_NO_LINE)
		return NO_LINE;
	if (fresh && ahead)
		g4_cache_filled_ahead(&cache, *line);
	else if (fresh)
		g4_cache_filled(&cache, *line);
	return !fresh ? HIT : ahead ? FILLED_AHEAD : FILLED;
}

static int use(uint64_t owner, uint64_t index, bool ahead)
{
	uint32_t line;
	const int how = ask(owner, index, ahead, &line);

	if (line != G4_NO_LINE)
		g4_cache_put(&cache, line);
	return how;
}

static bool is_there(uint64_t owner, uint64_t index)
{
	const uint32_t line = g4_cache_find(&cache, owner, index);

	if (line == G4_NO_LINE)
		return false;
	g4_cache_put(&cache, line);
	return true;
}

#if G4_CACHE_ASKS_TWICE
/* The same without asking for it. */
static bool lies_there(uint64_t owner, uint64_t index)
{
	for (uint32_t i = 0; i < cache.line_count; i++)
		if (g4_line_is(&lines[i], owner, index))
			return true;
	return false;
}
#endif

static void what_is_simulated_is_the_engines(void **state)
{
	enum { LINES = 1024, ACCESSES = 30000 };
	struct g4_trace trace = {0};
	struct g4_pages pages;
	uint64_t hits = 0;

	(void)state;
	begin(LINES);
	for (uint32_t i = 0; i < ACCESSES; i++) {
		const struct g4_trace_access access = {
			.file = (1 + below(5)) * UINT64_C(977), .page = below(1 + below(800)), .pages = 1};
		const int how = use(access.file, access.page, false);
		assert_int_not_equal(how, NO_LINE);
		hits += how == HIT;
		assert_int_equal(g4_trace_append(&trace, &access), 0);
	}
	assert_int_equal(g4_pages_of(&trace, &pages), 0);
	assert_int_equal(policy_hits(&pages, cache.set_count), hits);
	assert_true(hits > ACCESSES / 4 && hits < ACCESSES * 3 / 4);
	g4_pages_free(&pages);
	g4_trace_free(&trace);
	end();
}

/*
 * Pages that are used stay, pages that nobody uses make room, whatever the policy: as long as a set has one of these it borrows no line. Some
 * are dropped, some come in vain, some are held for a time.
 */
static void what_is_used_stays_and_what_is_not_makes_room(void **state)
{
	enum { LINES = 512, HELD = 200, ROUNDS = 200000 };
	static struct {
		uint32_t line, page;
	} held[HELD];
	static uint32_t in_use[LINES];
	struct g4_cache_counts counts;
	uint64_t borrowed = 0, hits = 0;

	(void)state;
	begin(LINES);
	memset(in_use, 0, sizeof(in_use));
	for (uint32_t k = 0; k < HELD; k++)
		held[k].line = G4_NO_LINE;
	for (uint32_t round = 0; round < ROUNDS; round++) {
		const uint32_t page = below(1 + below(2000)), at = below(HELD), kind = below(20);
		const uint64_t owner = page % 50 == 0 ? 0 : 7;
		bool fresh;
		if (held[at].line != G4_NO_LINE) { /* it is still the page that it was */
			const uint64_t its = held[at].page % 50 == 0 ? 0 : 7;
			assert_true(g4_line_is(&cache.lines[held[at].line], its, held[at].page));
			in_use[held[at].line]--;
			g4_cache_put(&cache, held[at].line);
			held[at].line = G4_NO_LINE;
		}
		const bool there = is_there(owner, page);
		const uint32_t line = g4_cache_get(NULL, &cache, owner, page, false, &fresh);
		assert_true(line != G4_NO_LINE && fresh == !there);
		hits += there;
		if (fresh && kind == 0) { /* it does not come after all */
			g4_cache_abort(&cache, line);
			continue;
		}
		if (fresh && kind < 4)
			g4_cache_filled_ahead(&cache, line);
		else if (fresh)
			g4_cache_filled(&cache, line);
		if (fresh && line >= cache.overflow_first) {
			const uint32_t set = cache.lines[line].set;
			for (uint32_t way = 0; way < G4_CACHE_WAYS; way++)
				assert_true(in_use[set * G4_CACHE_WAYS + way] > 0);
			borrowed++;
		}
		if (kind < 8) {
			held[at].line = line;
			held[at].page = page;
			in_use[line]++;
			continue;
		}
		g4_cache_put(&cache, line);
		if (kind == 8 && in_use[line] == 0) {
			g4_cache_drop(&cache, owner, page);
			assert_false(is_there(owner, page));
		}
	}
	for (uint32_t k = 0; k < HELD; k++)
		if (held[k].line != G4_NO_LINE)
			g4_cache_put(&cache, held[k].line);
	for (uint32_t i = 0; i < LINES; i++)
		assert_int_equal(cache.lines[i].state & (G4_LINE_REFS | G4_LINE_BUSY), 0);
	g4_cache_count_all(&cache, &counts);
	assert_int_equal(counts.events[G4_CACHE_BORROWED], borrowed);
	assert_true(borrowed > 0 && hits > 0);
	end();
}

#if G4_CACHE_ASKS_TWICE
/* Where files' pages have to be wanted twice: metadata that nobody has come back to yet stays while files are read once. */
static void metadata_stays_while_files_are_read_once(void **state)
{
	(void)state;
	begin(512);
	for (uint32_t i = 0; i < 21 * cache.set_count; i++) /* a page of metadata for each set, then 20 of a file */
		assert_int_equal(use(i < cache.set_count ? 0 : 7, i, false), FILLED);
	for (uint32_t i = 0; i < cache.set_count; i++)
		assert_true(is_there(0, i));
	end();
}

/* What was read ahead stays while as many pages as a set has come in and are wanted once; nobody having asked for it, it goes then. */
static void what_was_read_ahead_waits_and_goes(void **state)
{
	(void)state;
	begin(512);
	for (uint32_t i = 0; i < cache.set_count; i++)
		assert_int_equal(use(5, i, true), FILLED_AHEAD);
	for (uint32_t i = 0; i < G4_CACHE_WAYS * cache.set_count; i++)
		assert_int_equal(use(7, i, false), FILLED);
	for (uint32_t i = 0; i < cache.set_count; i++)
		assert_true(lies_there(5, i));
	for (uint32_t i = 0; i < 300 * cache.set_count; i++) /* of which some are wanted twice */
		(void)(use(8, i, false) + (i % 3 ? 0 : use(8, i, false)));
	for (uint32_t i = 0; i < cache.set_count; i++)
		assert_false(lies_there(5, i));
	end();
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(policies_do_what_their_models_do),
		cmocka_unit_test(a_set_is_a_cache_of_its_own),
		cmocka_unit_test(sets_follow_those_that_miss_less),
		cmocka_unit_test(nothing_has_more_hits_than_the_bound),
		cmocka_unit_test(pages_of_many_files_are_told_apart),
		cmocka_unit_test(what_is_simulated_is_the_engines),
		cmocka_unit_test(what_is_used_stays_and_what_is_not_makes_room),
#if G4_CACHE_ASKS_TWICE
		cmocka_unit_test(what_was_read_ahead_waits_and_goes),
		cmocka_unit_test(metadata_stays_while_files_are_read_once),
#endif
	};

	return cmocka_run_group_tests_name("replay", tests, NULL, NULL);
}
