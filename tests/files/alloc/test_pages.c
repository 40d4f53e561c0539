/* SPDX-License-Identifier: Apache-2.0 */
/* Many pages at once: what is claimed and not wanted is free again, what is published and dropped, too. */
#include "files/files.h"

#include "alloc/pages.h"

#define WANTED 40u

static void publish(uint32_t count, uint64_t *pages, bool drop)
{
	struct g4_alloc_runs runs;
	struct g4_txn txn;

	g4_alloc_claim_runs(wg, &fs->alloc, WANTED, &runs);
	assert_int_equal(runs.count, WANTED);
	assert_int_equal(g4_begin(wg, fs, WANTED + G4_ALLOC_PAGES_CREDITS, &txn), 0);
	assert_int_equal(g4_alloc_publish_runs(wg, &fs->alloc, &txn, &runs, count, pages), 0);
	if (drop)
		assert_int_equal(g4_alloc_drop_pages(wg, &fs->alloc, &txn, pages, count), 0);
	assert_int_equal(g4_end(fs, &txn, 0), 0);
}

static void pages_are_published_or_free_again(void **state)
{
	static const uint32_t counts[] = {0, 1, 17, WANTED};
	const uint64_t before = g4_alloc_free_all(&fs->alloc);
	uint64_t pages[WANTED];

	(void)state;
	for (uint32_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
		publish(counts[k], pages, true);
		for (uint32_t i = 0; i < counts[k]; i++)
			for (uint32_t j = 0; j < i; j++)
				assert_true(pages[i] != pages[j]);
		assert_int_equal(g4_alloc_free_all(&fs->alloc), before - counts[k]); /* until it is durable */
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(g4_alloc_free_all(&fs->alloc), before);
	}
	/* without dropping them they are in use, until they are freed like any others */
	publish(WANTED, pages, false);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(g4_alloc_free_all(&fs->alloc), before - WANTED);
	struct g4_txn txn;
	assert_int_equal(g4_begin(wg, fs, WANTED, &txn), 0);
	assert_int_equal(g4_alloc_drop_pages(wg, &fs->alloc, &txn, pages, WANTED), 0);
	assert_int_equal(g4_end(fs, &txn, 0), 0);
}

/* Where free pages lie one here and one there, no more than a few are taken. */
static void few_runs_are_taken(void **state)
{
	static uint64_t taken[65536];
	struct g4_alloc_runs runs;
	struct g4_address page;
	uint32_t count = 0;
	uint64_t got;

	(void)state;
	while (count < 65536 &&
	       g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_METADATA, G4_NO_ADDRESS, 1, false, &page, &got) == 0)
		taken[count++] = g4_address_page(page);
	assert_true(count > 100 && count < 65536);
	g4_alloc_claim_runs(wg, &fs->alloc, WANTED, &runs);
	assert_int_equal(runs.runs, 0);
	assert_int_equal(runs.count, 0);
	for (uint32_t k = 0; k < 100; k++)
		if (taken[k] % 2)
			g4_alloc_release(&fs->alloc, g4_page_address(taken[k]), 1);
	g4_alloc_claim_runs(wg, &fs->alloc, WANTED, &runs);
	assert_int_equal(runs.runs, G4_ALLOC_PAGES_RUNS);
	assert_int_equal(runs.count, G4_ALLOC_PAGES_RUNS);
	for (uint32_t r = 0; r < runs.runs; r++)
		g4_alloc_release(&fs->alloc, runs.address[r], runs.pages[r]);
	for (uint32_t k = 0; k < count; k++)
		if (k >= 100 || taken[k] % 2 == 0)
			g4_alloc_release(&fs->alloc, g4_page_address(taken[k]), 1);
}

RUN_TESTS(fs_test(pages_are_published_or_free_again), fs_test(few_runs_are_taken))
