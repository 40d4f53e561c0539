/* SPDX-License-Identifier: Apache-2.0 */
/* Hints where contents lie: what is put in is found, what has to go is worth the least, and many threads break nothing. */
#include "files/files.h"

#include <pthread.h>
#include <stdlib.h>

#include "dedup/table.h"

#define THREADS 4u

static struct g4_ddt ddt;
static void *memory;

static void begin(uint64_t buckets)
{
	const uint64_t bytes = buckets * G4_DDT_SLOTS * sizeof(uint64_t);

	assert_int_equal(g4_ddt_memory(bytes + 7), bytes);
	memory = calloc(1, bytes);
	assert_non_null(memory);
	g4_ddt_init(&ddt, memory, bytes);
}

static void end(void)
{
	free(memory);
}

static struct g4_ddt_stats stats(void)
{
	struct g4_ddt_stats stats;

	g4_ddt_stats(&ddt, &stats);
	return stats;
}

/* The hash of contents number n, an anchor or none. */
static const void *hash_of(uint64_t n, bool anchor, uint64_t hash[4])
{
	uint64_t seed = n + 1;

	for (uint32_t w = 0; w < 4; w++)
		hash[w] = rig_random(&seed);
	hash[1] = (hash[1] & ~UINT64_C(15)) | (anchor ? 0 : 1 + n % 15);
	return hash;
}

static uint64_t found(uint64_t n, bool anchor)
{
	uint64_t hash[4];

	return g4_address_page(g4_ddt_find(&ddt, hash_of(n, anchor, hash)));
}

static void put(uint64_t n, bool anchor)
{
	uint64_t hash[4];

	g4_ddt_insert(&ddt, hash_of(n, anchor, hash), g4_page_address(n + 1));
}

static void what_is_there_is_found(void **state)
{
	uint64_t hash[4];

	(void)state;
	begin(1000);
	for (uint64_t n = 0; n < 4000; n++)
		put(n, n % 16 == 0);
	for (uint64_t n = 0; n < 4000; n++)
		assert_int_equal(found(n, n % 16 == 0), n + 1);
	assert_int_equal(found(4000, true), 0);
	assert_int_equal(stats().entries, 4000);
	assert_int_equal(stats().found, 4000);
	g4_ddt_remove(&ddt, hash_of(7, false, hash), g4_page_address(9), false); /* something else is there by now */
	assert_int_equal(found(7, false), 8);
	g4_ddt_remove(&ddt, hash, g4_page_address(8), true);
	assert_int_equal(found(7, false), 0);
	assert_int_equal(stats().entries, 3999);
	assert_int_equal(stats().stale, 1);
	g4_ddt_insert(&ddt, hash_of(8, false, hash), g4_page_address(5000)); /* another copy */
	assert_int_equal(found(8, false), 5000);
	g4_ddt_fill(&ddt, hash, g4_page_address(5001));
	assert_int_equal(found(8, false), 5000);
	assert_int_equal(stats().entries, 3999);
	end();
}

static void a_page_that_is_damaged_is_not_found(void **state)
{
	(void)state;
	begin(100);
	put(1, false);
	put(2, false);
	g4_ddt_suspect(&ddt, g4_page_address(2));
	assert_true(g4_ddt_is_suspect(&ddt, g4_page_address(2)));
	assert_false(g4_ddt_is_suspect(&ddt, g4_page_address(3)));
	assert_int_equal(found(1, false), 0);
	assert_int_equal(found(2, false), 3);
	g4_ddt_suspect(&ddt, g4_page_address(2)); /* it was told already */
	assert_int_equal(g4_address_page(g4_ddt_damaged(&ddt, 0)), 2);
	assert_true(g4_address_is_none(g4_ddt_damaged(&ddt, 1)));
	g4_ddt_unlisted(&ddt, 0, g4_page_address(2));
	assert_true(g4_address_is_none(g4_ddt_damaged(&ddt, 0)));
	assert_true(g4_ddt_is_suspect(&ddt, g4_page_address(2)));
	g4_ddt_suspect(&ddt, g4_page_address(2)); /* it may have been listed since */
	assert_int_equal(g4_address_page(g4_ddt_damaged(&ddt, 0)), 2);
	for (uint64_t page = 2; page < 2 + G4_DDT_DAMAGED; page++)
		g4_ddt_suspect(&ddt, g4_page_address(page));
	assert_false(g4_ddt_overflowed(&ddt));
	g4_ddt_suspect(&ddt, g4_page_address(2 + G4_DDT_DAMAGED));
	assert_true(g4_ddt_is_suspect(&ddt, g4_page_address(2 + G4_DDT_DAMAGED)));
	assert_true(g4_ddt_overflowed(&ddt));
	assert_false(g4_ddt_overflowed(&ddt));
	end();
}

static void anchors_stay(void **state)
{
	uint64_t there = 0;

	(void)state;
	begin(16); /* 256 hints; 100 anchors */
	assert_false(g4_ddt_brings(&ddt, g4_page_address(1000)));
	for (uint64_t n = 0; n < 1600; n++)
		put(n, n % 16 == 0);
	for (uint64_t n = 0; n < 1600; n += 16)
		there += found(n, true) != 0;
	assert_true(there > 95);
	assert_true(stats().evicted > 1200);
	/* and what is beside a page that was found is wanted, once */
	assert_true(g4_ddt_brings(&ddt, g4_page_address(1000)));
	assert_false(g4_ddt_brings(&ddt, g4_page_address(1001)));
	assert_true(g4_ddt_brings(&ddt, g4_page_address(1000 + G4_LISTING_PAGES)));
	end();
}

static void filling_takes_no_place_but_for_anchors(void **state)
{
	uint64_t hash[4];

	(void)state;
	begin(1);
	for (uint64_t n = 0; n < G4_DDT_SLOTS; n++)
		put(n, false);
	g4_ddt_fill(&ddt, hash_of(100, false, hash), g4_page_address(101));
	assert_int_equal(found(100, false), 0);
	g4_ddt_fill(&ddt, hash_of(101, true, hash), g4_page_address(102));
	assert_int_equal(found(101, true), 102);
	assert_int_equal(stats().entries, G4_DDT_SLOTS);
	end();
}

static void *work(void *argument)
{
	uint64_t seed = (uint64_t)(uintptr_t)argument, hash[4];

	for (uint32_t step = 0; step < (rig_slow() ? 20000u : 200000u); step++) {
		const uint64_t n = rig_random(&seed) % 2000;
		const uint64_t page = found(n, false);
		if (page != 0 && page != n + 1)
			abort(); /* no two of these have a hint in common */
		if (rig_random(&seed) % 2)
			put(n, false);
		else
			g4_ddt_remove(&ddt, hash_of(n, false, hash), g4_page_address(n + 1), false);
	}
	return NULL;
}

static void threads_find_what_was_put_in(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	begin(32);
	for (uintptr_t t = 0; t < THREADS; t++)
		assert_int_equal(pthread_create(&threads[t], NULL, work, (void *)(t + 1)), 0);
	for (uint32_t t = 0; t < THREADS; t++)
		assert_int_equal(pthread_join(threads[t], NULL), 0);
	assert_true(stats().entries <= stats().places);
	uint64_t in_use = 0;
	for (uint64_t k = 0; k < stats().places; k++)
		in_use += ddt.slots[k] != 0;
	assert_int_equal(stats().entries, in_use);
	end();
}

RUN_TESTS(cmocka_unit_test(what_is_there_is_found), cmocka_unit_test(a_page_that_is_damaged_is_not_found),
	  cmocka_unit_test(anchors_stay), cmocka_unit_test(filling_takes_no_place_but_for_anchors),
	  cmocka_unit_test(threads_find_what_was_put_in))
