/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a transaction freed comes back at once as it would run by run: the same bits, counters and marks, whatever the order of the runs,
 * their lengths, and how many regions they lie in. Who claims meanwhile gets no page twice.
 */
#include "files/files.h"

#include <pthread.h>

#include "alloc/release.h"
#include "alloc/retire.h"
#include "fs/room.h"
#include "inode/txn.h"

#define RUNS_MOST 4096u

static struct g4_extent runs[RUNS_MOST];
static uint32_t count;
static uint64_t random_state;

static uint64_t next_random(uint64_t below)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (random_state >> 33) % below;
}

/* All of the memory view. */
struct view {
	uint64_t *used, *past, *freed;
	uint32_t *regions, *groups;
	uint64_t free_pages, pools[G4_POOLS];
};

static void *copy_of(const void *from, uint64_t bytes)
{
	void *copy = malloc(bytes);

	assert_non_null(copy);
	memcpy(copy, from, bytes);
	return copy;
}

static struct view look(void)
{
	const struct g4_alloc *alloc = &fs->alloc;
	struct view view = {.used = copy_of(alloc->used, alloc->region_count * 64),
			    .past = copy_of(alloc->past_slabs, alloc->region_count * 64),
			    .freed = copy_of(alloc->freed, (alloc->region_count + 63) / 64 * 8),
			    .regions = copy_of(alloc->region_free, alloc->region_count * 4),
			    .groups = copy_of(alloc->group_free, alloc->group_count * 4),
			    .free_pages = alloc->free_pages};

	memcpy(view.pools, alloc->pool_free, sizeof(view.pools));
	return view;
}

static void forget(struct view *view)
{
	free(view->used);
	free(view->past);
	free(view->freed);
	free(view->regions);
	free(view->groups);
}

static void expect_same(const struct view *view, const struct view *wanted)
{
	const struct g4_alloc *alloc = &fs->alloc;

	assert_memory_equal(view->used, wanted->used, alloc->region_count * 64);
	assert_memory_equal(view->past, wanted->past, alloc->region_count * 64);
	assert_memory_equal(view->freed, wanted->freed, (alloc->region_count + 63) / 64 * 8);
	assert_memory_equal(view->regions, wanted->regions, alloc->region_count * 4);
	assert_memory_equal(view->groups, wanted->groups, alloc->group_count * 4);
	assert_int_equal(view->free_pages, wanted->free_pages);
	assert_memory_equal(view->pools, wanted->pools, sizeof(view->pools));
}

static uint32_t pool_used = G4_LEVEL_OWN;

/* Claims the pages of all runs again, exactly those. */
static void claim_again(void)
{
	for (uint32_t k = 0; k < count; k++) {
		uint64_t page = g4_address_page(runs[k].address), left = runs[k].pages, got;
		while (left > 0) {
			struct g4_address address;
			assert_int_equal(g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_IN(pool_used, G4_ALLOC_DATA),
							g4_page_address(page), left, false, &address, &got),
					 0);
			assert_int_equal(g4_address_page(address), page);
			page += got;
			left -= got;
		}
	}
	/* as if nothing had been given back since the mount */
	memset(fs->alloc.past_slabs, 0, fs->alloc.region_count * 64);
	memset(fs->alloc.freed, 0, (fs->alloc.region_count + 63) / 64 * 8);
	for (uint32_t k = 0; k < count; k++)
		g4_add64(&fs->alloc.pending_pages, runs[k].pages);
}

/* Some runs of `regions` empty ones in a row, of 1..most pages with gaps as long, in any order. */
static void choose_runs(uint64_t first, uint64_t regions, uint64_t most)
{
	count = 0;
	for (uint64_t page = first, end = first + regions * G4_REGION_PAGES; page < end && count < RUNS_MOST;) {
		const uint64_t pages = g4_min64(1 + next_random(most), end - page);
		runs[count++] = (struct g4_extent){g4_page_address(page), next_random(20) ? pages : 0};
		page += pages + next_random(most);
	}
	for (uint32_t k = count; k > 1; k--) {
		const uint32_t other = (uint32_t)next_random(k);
		const struct g4_extent moved = runs[k - 1];
		runs[k - 1] = runs[other];
		runs[other] = moved;
	}
}

static void expect_the_same_as_run_by_run(void)
{
	claim_again();
	for (uint32_t k = 0; k < count; k++) {
		g4_alloc_release(&fs->alloc, runs[k].address, runs[k].pages);
		g4_sub64(&fs->alloc.pending_pages, runs[k].pages);
	}
	struct view wanted = look();
	claim_again();
	g4_alloc_release_runs(wg, &fs->alloc, runs, count);
	struct view view = look();
	expect_same(&view, &wanted);
	assert_int_equal(fs->alloc.pending_pages, 0);
	forget(&view);
	forget(&wanted);
}

static uint64_t empty_regions(uint64_t *regions)
{
	uint64_t first = 0;

	for (uint64_t group = 0; group < fs->alloc.group_count; group++) /* loads the view */
		assert_true(g4_alloc_in_use(wg, &fs->alloc, g4_page_address(group * G4_GROUP_PAGES)) >= 0);
	while (fs->alloc.region_free[first] != G4_REGION_PAGES)
		first++;
	for (*regions = 0;
	     first + *regions < fs->alloc.region_count && fs->alloc.region_free[first + *regions] == G4_REGION_PAGES;)
		++*regions;
	return first * G4_REGION_PAGES;
}

static void all_runs_come_back_as_one_by_one(void **state)
{
	static const uint64_t most[] = {1, 3, 70, 600, 3000};
	uint64_t regions;
	const uint64_t first = empty_regions(&regions);

	(void)state;
	assert_true(regions >= 8);
	for (uint32_t turn = 0; turn < 5; turn++) {
		random_state = turn;
		choose_runs(first, regions, most[turn]);
		assert_true(count > 1);
		expect_the_same_as_run_by_run();
	}
	count = 0;
	g4_alloc_release_runs(wg, &fs->alloc, runs, 0);
}

static int begin_large(void **state)
{
	(void)state;
	rig_begin(&rig, 192 * G4_MIB, 0, NULL);
	fs = rig.fs;
	wg = rig.wg;
	return 0;
}

/* More regions than one lane puts together: those that have the same row make room for each other. */
static void regions_that_have_one_row_take_turns(void **state)
{
	uint64_t regions;
	const uint64_t first = empty_regions(&regions);

	(void)state;
	assert_true(regions > G4_RELEASE_ROWS + 3);
	for (count = 0; count < 300; count++) {
		const uint64_t region = count % 3 == 0 ? 1 : count % 3 == 1 ? 1 + G4_RELEASE_ROWS : 2;
		runs[count] = (struct g4_extent){g4_page_address(first + region * G4_REGION_PAGES + count * 3 / 2), 1};
	}
	expect_the_same_as_run_by_run();
	random_state = 5;
	choose_runs(first, regions, 300);
	expect_the_same_as_run_by_run();
}

static void pages_come_back_to_the_pool_of_their_region(void **state)
{
	uint64_t regions;
	const uint64_t first = empty_regions(&regions);

	(void)state;
	for (uint64_t r = 0; r < regions; r++) {
		fs->alloc.region_pool[first / G4_REGION_PAGES + r] = 2;
		g4_sub64(&fs->alloc.free_pages, G4_REGION_PAGES);
		g4_add64(&fs->alloc.pool_free[2], G4_REGION_PAGES);
	}
	pool_used = 2;
	random_state = 77;
	choose_runs(first, regions, 700);
	expect_the_same_as_run_by_run();
	pool_used = G4_LEVEL_OWN;
}

/* ---- while others claim ---- */

static uint32_t *owners, stop, wrong;

/* Each page changes hands from one to the other. Also in threads that are not cmocka's. */
static void hand_over(struct g4_address address, uint64_t pages, uint32_t from, uint32_t to)
{
	for (uint64_t k = 0; k < pages; k++)
		if (!g4_cas32(&owners[g4_address_page(address) + k], from, to))
			g4_store32_rel(&wrong, 1);
}

static void *claim_and_release(void *argument)
{
	struct g4_wg *other = g4_wg_create(1);
	uint64_t *turns = argument;

	while (!g4_load32_acq(&stop)) {
		struct g4_address address;
		uint64_t got;
		if (g4_alloc_claim(other, &fs->alloc, G4_ALLOC_DATA, G4_NO_ADDRESS, 1 + *turns % 40, false, &address,
				   &got) < 0) {
			g4_pause();
			continue;
		}
		hand_over(address, got, 0, 2);
		hand_over(address, got, 2, 0);
		g4_alloc_release(&fs->alloc, address, got);
		g4_add64(turns, 1);
	}
	g4_wg_destroy(other);
	return NULL;
}

static void nobody_gets_a_page_that_another_one_has(void **state)
{
	const uint64_t before = fs->alloc.free_pages;
	uint64_t turns = 0, got;
	pthread_t thread;

	(void)state;
	owners = calloc(fs->meta.layout.size_bytes / G4_PAGE_BYTES, sizeof(*owners));
	assert_non_null(owners);
	stop = wrong = 0;
	assert_int_equal(pthread_create(&thread, NULL, claim_and_release, &turns), 0);
	for (uint32_t round = 0; round < 30 || g4_load64_rlx(&turns) < 100; round++) {
		uint64_t pages = 0;
		/* all that there is: the other one waits for what is given back */
		for (count = 0; count < RUNS_MOST; count++) {
			if (g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_METADATA, G4_NO_ADDRESS, 1 + count * 7 % 90, false,
					   &runs[count].address, &got) < 0)
				break;
			runs[count].pages = got;
			hand_over(runs[count].address, got, 0, 1);
			pages += got;
		}
		for (uint32_t k = 0; k < count; k++)
			hand_over(runs[k].address, runs[k].pages, 1, 0);
		g4_add64(&fs->alloc.pending_pages, pages);
		g4_alloc_release_runs(wg, &fs->alloc, runs, count);
	}
	g4_store32_rel(&stop, 1);
	pthread_join(thread, NULL);
	assert_int_equal(wrong, 0);
	assert_int_equal(fs->alloc.free_pages, before);
	assert_int_equal(fs->alloc.pending_pages, 0);
	free(owners);
}

/* ---- regions that are lent meanwhile ---- */

#define LENT_REGIONS 8u
enum turn { TURN_WAITS, TURN_LENDS, TURN_ENDS };
static uint32_t turn; /* of the one who lends: TURN_ENDS is answered by TURN_WAITS */
static uint64_t lent_first;

/* Retires each region as soon as it is empty, and takes all back in the end. */
static void *lend(void *argument)
{
	struct g4_wg *other = g4_wg_create(1);
	uint32_t pools[LENT_REGIONS];
	bool lent[LENT_REGIONS] = {false};

	(void)argument;
	while (!g4_load32_acq(&stop)) {
		const uint32_t now = g4_load32_acq(&turn);
		for (uint32_t k = 0; k < LENT_REGIONS; k++)
			if (now == TURN_LENDS && !lent[k] && g4_alloc_is_empty(other, &fs->alloc, lent_first + k)) {
				lent[k] = g4_alloc_retire(other, &fs->alloc, lent_first + k, &pools[k]);
			} else if (now == TURN_ENDS && lent[k]) {
				g4_alloc_take_back(&fs->alloc, lent_first + k, pools[k]);
				lent[k] = false;
			}
		if (now == TURN_ENDS)
			g4_store32_rel(&turn, TURN_WAITS);
		g4_pause();
	}
	g4_wg_destroy(other);
	return NULL;
}

/* A region that runs have made empty may be lent before the last of them is counted: its pages stay of the pool that they were of. */
static void pages_stay_of_their_pool_where_regions_are_lent(void **state)
{
	uint64_t regions;
	pthread_t thread;

	(void)state;
	const uint64_t first = empty_regions(&regions);
	assert_true(regions >= LENT_REGIONS);
	const uint64_t before = fs->alloc.free_pages;
	lent_first = first / G4_REGION_PAGES;
	stop = turn = 0;
	assert_int_equal(pthread_create(&thread, NULL, lend, NULL), 0);
	for (uint32_t round = 0; round < (rig_slow() ? 10 : 40); round++) {
		for (count = 0; count < LENT_REGIONS * G4_REGION_PAGES; count++)
			runs[count] = (struct g4_extent){g4_page_address(first + count), 1};
		claim_again();
		g4_store32_rel(&turn, TURN_LENDS);
		g4_alloc_release_runs(wg, &fs->alloc, runs, count);
		g4_store32_rel(&turn, TURN_ENDS);
		while (g4_load32_acq(&turn) != TURN_WAITS)
			g4_pause();
		assert_int_equal(fs->alloc.free_pages, before);
		assert_int_equal(fs->alloc.pool_free[G4_POOL_GONE], 0);
	}
	g4_store32_rel(&stop, 1);
	pthread_join(thread, NULL);
}

/* ---- a commit between an operation's look and the question why it found nothing ---- */

/* All that is free is claimed, and in `runs`. */
static void claim_all(void)
{
	struct g4_extent *run = &runs[count];

	while (g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, G4_NO_ADDRESS, 512, false, &run->address, &run->pages) ==
	       0) {
		assert_true(++count < RUNS_MOST);
		run = &runs[count];
	}
}

static void who_asked_before_a_commit_asks_once_more(void **state)
{
	static uint8_t data[64 * G4_PAGE_BYTES];
	uint64_t ino;

	(void)state;
	count = 0;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, sizeof(data), NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f"), 0);
	claim_all();
	assert_false(g4_alloc_reserve(&fs->alloc, 1));
	assert_true(fs->alloc.pending_pages >= 64);
	assert_int_equal(g4_commit(wg, fs, UINT64_MAX, false), 0);
	assert_int_equal(fs->alloc.pending_pages, 0);
	assert_true(g4_fs_make_room(wg, fs, G4_CMD_MKDIR, -G4_E_NOSPC));
	claim_all();
	assert_false(g4_fs_make_room(wg, fs, G4_CMD_MKDIR, -G4_E_NOSPC)); /* there is none now */
	for (uint32_t k = 0; k < count; k++)
		g4_alloc_release(&fs->alloc, runs[k].address, runs[k].pages);
}

RUN_TESTS(fs_test(all_runs_come_back_as_one_by_one),
	  cmocka_unit_test_setup_teardown(regions_that_have_one_row_take_turns, begin_large, files_end),
	  fs_test(pages_come_back_to_the_pool_of_their_region), fs_test(nobody_gets_a_page_that_another_one_has),
	  fs_test(who_asked_before_a_commit_asks_once_more),
	  cmocka_unit_test_setup_teardown(pages_stay_of_their_pool_where_regions_are_lent, begin_large, files_end))
