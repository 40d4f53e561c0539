/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of sums are made before the lock of the group is taken, which all wait for that list pages there. So two may have made one for the same quarter:
 * one of them is given back, in the same transaction, and what either lists is found.
 */
#include "rig.h"

#include <pthread.h>
#include <sched.h>

#include "alloc/share.h"
#include "alloc/share_lines.h"
#include "data/map.h"
#include "fs/fs.h"
#include "inode/txn.h"
#include "simt/simt_host.h"
#include "simt/ticket.h"

#define LISTERS 2u
#define QUARTER G4_LISTING_PAGES

static struct rig rig;
static struct g4_sum_entry sums[QUARTER];
static struct g4_address region; /* of nobody else's */
static uint64_t at_first;	 /* free pages */

struct lister {
	struct g4_wg *wg;
	uint32_t first, pages;
	int rc;
	pthread_t thread;
};

static int setup(void **state)
{
	struct g4_txn txn;

	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_BLAKE3, 1, 128 * G4_MIB, 0, NULL);
	rig_pattern(sums, 1, sizeof(sums));
	at_first = rig_free_pages(&rig);
	assert_int_equal(g4_alloc_claim_region(rig.wg, &rig.fs->alloc, false, &region), 0);
	assert_int_equal(g4_begin(rig.wg, rig.fs, G4_ALLOC_CREDITS, &txn), 0);
	assert_int_equal(g4_end(rig.fs, &txn, g4_alloc_publish(rig.wg, &rig.fs->alloc, &txn, region, G4_REGION_PAGES)),
			 0);
	return 0;
}

/* Its pages go, and all that was made for them. */
static int teardown(void **state)
{
	struct g4_txn txn;

	(void)state;
	assert_int_equal(g4_begin(rig.wg, rig.fs, G4_SHARE_RELEASE_MOST + G4_ALLOC_CREDITS, &txn), 0);
	assert_int_equal(g4_end(rig.fs, &txn, g4_share_release(rig.wg, &rig.fs->alloc, &txn, region, G4_REGION_PAGES)),
			 0);
	assert_int_equal(rig_free_pages(&rig), at_first);
	rig_end(&rig);
	return 0;
}

static struct g4_address page_at(uint32_t page)
{
	return g4_address_after_pages(region, page);
}

static int list(struct g4_wg *wg, uint32_t first, uint32_t pages)
{
	struct g4_txn txn;
	int rc = g4_begin(wg, rig.fs, G4_LIST_CREDITS, &txn);

	if (rc == 0) {
		rc = g4_share_list(wg, &rig.fs->alloc, &txn, page_at(first), pages, &sums[first % QUARTER], 0, 1);
		g4_end(rig.fs, &txn, rc < 0 ? rc : 0);
	}
	return rc;
}

static void *run(void *argument)
{
	struct lister *lister = (struct lister *)argument;

	lister->rc = list(lister->wg, lister->first, lister->pages);
	return NULL;
}

static struct g4_lock *group_lock(void)
{
	return g4_shares_lock(&rig.fs->alloc, g4_address_page(region) / G4_GROUP_PAGES);
}

/* So many wait for the lock that the caller holds. */
static void await_waiters(uint32_t waiters)
{
	for (;;) {
		const uint64_t word = g4_load64_acq(&group_lock()->word);
		uint32_t ticket = g4_ticket_after(g4_ticket_serving(word));

		for (uint32_t k = 0; k < waiters; k++)
			ticket = g4_ticket_after(ticket);
		if (g4_ticket_next(word) == ticket)
			return;
		sched_yield();
	}
}

static void start(struct lister *lister, uint32_t number, uint32_t first, uint32_t pages)
{
	lister->wg = g4_wg_create(1 + number);
	lister->first = first;
	lister->pages = pages;
	assert_non_null(lister->wg);
	assert_int_equal(pthread_create(&lister->thread, NULL, run, lister), 0);
}

static void join(struct lister *lister)
{
	assert_int_equal(pthread_join(lister->thread, NULL), 0);
	assert_int_equal(lister->rc, 1);
	g4_wg_destroy(lister->wg);
}

static uint32_t listed(uint32_t first, uint32_t pages)
{
	const int rc = g4_share_listed_row(rig.wg, &rig.fs->alloc, page_at(first), pages, &sums[first % QUARTER], 0);

	assert_true(rc >= 0);
	return (uint32_t)rc;
}

static struct g4_address sums_of(uint32_t quarter)
{
	const uint64_t page = g4_address_page(region);
	uint64_t bits[G4_LISTING_WORDS];
	struct g4_address address;

	assert_int_equal(g4_share_listed(rig.wg, &rig.fs->alloc, page / G4_GROUP_PAGES,
					 (uint32_t)(page % G4_GROUP_PAGES / QUARTER) + quarter, bits, &address),
			 0);
	return address;
}

static void a_quarter_s_page_is_made_before_the_lock_is_taken(void **state)
{
	const uint64_t before = g4_alloc_free_all(&rig.fs->alloc);
	struct lister lister;

	(void)state;
	g4_lock(group_lock());
	start(&lister, 0, QUARTER, QUARTER);
	await_waiters(1);
	const uint64_t meanwhile = g4_alloc_free_all(&rig.fs->alloc);
	g4_unlock(group_lock());
	join(&lister);
	assert_int_equal(meanwhile, before - 1);
	assert_int_equal(listed(QUARTER, QUARTER), QUARTER);
	assert_int_equal(rig.fs->alloc.pending_pages, 0);
	assert_int_equal(rig.fs->alloc.reserved, 0);
}

/* Both have looked before either has made one: the lock is fair. */
static void of_two_pages_for_a_quarter_one_is_given_back(void **state)
{
	const uint64_t before = g4_alloc_free_all(&rig.fs->alloc);
	struct lister listers[LISTERS];

	(void)state;
	assert_int_equal(list(rig.wg, 0, 1), 1); /* the group has its page */
	g4_lock(group_lock());
	start(&listers[0], 0, 2 * QUARTER, 50);
	await_waiters(1);
	start(&listers[1], 1, 2 * QUARTER + 50, QUARTER - 50);
	await_waiters(2);
	g4_unlock(group_lock());
	join(&listers[0]);
	join(&listers[1]);
	assert_int_equal(rig.fs->alloc.pending_pages, 1);
	assert_int_equal(listed(2 * QUARTER, QUARTER), QUARTER);
	assert_int_equal(rig_free_pages(&rig), before - 3);
	assert_int_equal(rig.fs->alloc.pending_pages, 0);
	assert_int_equal(rig.fs->alloc.reserved, 0);
}

/* As behind damaged pages, or as an older version has left it. */
static void one_that_lists_nothing_is_used_again(void **state)
{
	struct g4_txn txn;

	(void)state;
	assert_int_equal(list(rig.wg, 0, QUARTER), 1);
	const struct g4_address address = sums_of(0);
	for (uint32_t k = 0; k < QUARTER; k++) {
		assert_int_equal(g4_begin(rig.wg, rig.fs, 1, &txn), 0);
		assert_int_equal(g4_end(rig.fs, &txn, g4_share_unlist(rig.wg, &rig.fs->alloc, &txn, page_at(k))), 0);
	}
	assert_int_equal(listed(0, QUARTER), 0);
	const uint64_t before = rig_free_pages(&rig);
	assert_int_equal(list(rig.wg, 0, QUARTER), 1);
	assert_int_equal(listed(0, QUARTER), QUARTER);
	assert_true(g4_address_is(sums_of(0), address));
	assert_int_equal(rig_free_pages(&rig), before);
}

/* Without room nothing is listed, and nothing is taken or reserved. */
static void without_room_nothing_is_listed(void **state)
{
	const uint64_t before = rig_free_pages(&rig), room = before - g4_alloc_keep(&rig.fs->alloc);

	(void)state;
	for (uint64_t left = 0; left < 2; left++) { /* one is not enough: the group needs its page, too */
		assert_true(g4_alloc_reserve(&rig.fs->alloc, room - left));
		assert_int_equal(list(rig.wg, 0, QUARTER), 0);
		assert_int_equal(list(rig.wg, QUARTER, 10), 0);
		assert_int_equal(rig.fs->alloc.reserved, room - left);
		g4_alloc_unreserve(&rig.fs->alloc, room - left);
		assert_int_equal(rig_free_pages(&rig), before);
	}
	assert_int_equal(list(rig.wg, QUARTER, 10), 1);
	assert_int_equal(rig_free_pages(&rig), before - 2);
}

#define share_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		share_test(a_quarter_s_page_is_made_before_the_lock_is_taken),
		share_test(of_two_pages_for_a_quarter_one_is_given_back),
		share_test(one_that_lists_nothing_is_used_again),
		share_test(without_room_nothing_is_listed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
