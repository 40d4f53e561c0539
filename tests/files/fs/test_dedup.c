/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DEDUP: what is counted of deduplication since the mount, and pages that nobody shares taken from the list. (What deduplication itself
 * does: engine/test_dedup.c.)
 */
#include "files/files.h"

#include <stdlib.h>

#define PAGES 300u /* more than a quarter of a region */
#define BYTES (PAGES * (uint64_t)G4_PAGE_BYTES)

static uint8_t *data;
static struct g4_dedup_counts counts;

static int begin(void **state)
{
	(void)state;
	data = rig_memory(BYTES, 1);
	files_begin_as(G4_CHECKSUM_BLAKE3, 1);
	return 0;
}

static int end(void **state)
{
	free(data);
	return files_end(state);
}

static int ask(uint32_t order, uint64_t group)
{
	struct g4_cmd cmd = {.op = G4_CMD_DEDUP, .mask = order, .length = sizeof(counts), .data = &counts};

	cmd.cookie = group;
	return g4_execute(wg, fs, &cmd);
}

static uint64_t prune(void)
{
	uint64_t pruned = 0, group = 0;

	do {
		assert_int_equal(ask(G4_DEDUP_PRUNE, group), 0);
		assert_true(counts.next > group);
		group = counts.next;
		pruned += counts.pruned;
	} while (group < counts.groups);
	return pruned;
}

static void fill(uint64_t ino, uint64_t bytes)
{
	assert_int_equal(op_write(&rig, ino, 0, 0, data, bytes, NULL), 0);
	assert_int_equal(op_fsync(&rig, ino), 0);
}

static void what_is_shared_stored_and_zero_is_counted(void **state)
{
	(void)state;
	memset(data + 8 * G4_PAGE_BYTES, 0, 2 * G4_PAGE_BYTES);
	const uint64_t a = rig_make(&rig, 0), b = rig_make(&rig, 1);
	fill(a, BYTES);
	assert_int_equal(ask(G4_DEDUP_STATS, 0), 0);
	assert_int_equal(counts.hits, 0);
	assert_int_equal(counts.misses, PAGES - 2);
	assert_int_equal(counts.zeros, 2);
	assert_int_equal(counts.hints, PAGES - 2);
	assert_true(counts.places >= counts.hints && counts.inserted >= counts.hints);
	assert_int_equal(counts.evicted, 0);
	assert_int_equal(counts.groups, fs->alloc.group_count);
	fill(b, BYTES);
	assert_int_equal(ask(G4_DEDUP_STATS, 0), 0);
	assert_int_equal(counts.hits, PAGES - 2);
	assert_int_equal(counts.misses, PAGES - 2);
	assert_int_equal(counts.zeros, 4);
}

/* What is shared stays, the rest is not found any more, and takes no space and no place in the table. */
static void what_nobody_shares_is_pruned(void **state)
{
	const uint64_t half = 150 * G4_PAGE_BYTES;

	(void)state;
	const uint64_t a = rig_make(&rig, 0), b = rig_make(&rig, 1), c = rig_make(&rig, 2);
	fill(a, 5 * G4_PAGE_BYTES); /* a slab of sums, which is kept */
	assert_int_equal(op_truncate(&rig, a, 0), 0);
	const uint64_t before = rig_free_pages(&rig);
	fill(a, BYTES);
	fill(b, half);
	for (uint64_t page = 0; page < 150; page++)
		assert_int_equal(rig_place(&rig, a, page), rig_place(&rig, b, page));
	assert_int_equal(prune(), 150);
	assert_int_equal(counts.hints, 150);
	assert_int_equal(prune(), 0);
	fill(c, BYTES);
	for (uint64_t page = 0; page < PAGES; page++)
		assert_true((rig_place(&rig, a, page) == rig_place(&rig, c, page)) == (page < 150));
	/* b and c have another half each: nothing is listed but what two have */
	assert_int_equal(op_truncate(&rig, b, 0), 0);
	assert_int_equal(op_truncate(&rig, c, 0), 0);
	assert_int_equal(prune(), 150);
	assert_int_equal(counts.hints, 150); /* of what was freed, until somebody follows them */
	assert_int_equal(op_truncate(&rig, a, 0), 0);
	assert_int_equal(rig_free_pages(&rig), before);
}

static void what_is_no_order_is_refused(void **state)
{
	struct g4_cmd cmd = {.op = G4_CMD_DEDUP, .length = sizeof(counts) - 1, .data = &counts};

	(void)state;
	assert_int_equal(ask(G4_DEDUP_ORDERS, 0), -G4_E_INVAL);
	assert_int_equal(g4_execute(wg, fs, &cmd), -G4_E_INVAL);
	assert_int_equal(ask(G4_DEDUP_PRUNE, UINT64_MAX - 1), 0);
	assert_int_equal(counts.next, counts.groups);
	assert_int_equal(counts.pruned, 0);
	fs->flags |= G4_FS_READ_ONLY;
	assert_int_equal(ask(G4_DEDUP_PRUNE, 0), -G4_E_ROFS);
	assert_int_equal(ask(G4_DEDUP_STATS, 0), 0);
	fs->flags &= ~G4_FS_READ_ONLY;
}

#define dedup_test(f) cmocka_unit_test_setup_teardown(f, begin, end)
RUN_TESTS(dedup_test(what_is_shared_stored_and_zero_is_counted), dedup_test(what_nobody_shares_is_pruned),
	  dedup_test(what_is_no_order_is_refused))
