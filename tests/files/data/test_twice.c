/* SPDX-License-Identifier: Apache-2.0 */
/* Two publish the same contents, and neither has heard of the other when it looks: there is one of each page then, which both files have. */
#include "files/data/stages.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "alloc/share_lines.h"
#include "data/twice.h"
#include "inode/inode.h"
#include "simt/ticket.h"

#define MOST 150u /* pages: more than a quarter of a region */

static struct g4_batch_lists other_lists;
static struct g4_batch other_batch;
static struct held other;

static int begin(void **state)
{
	setenv("G4_TEST_DEDUP", "1", 1);
	const int rc = stages_begin(state);
	unsetenv("G4_TEST_DEDUP");
	g4_batch_init(&other_batch, &other_lists, 0, G4_BATCH_PAGES);
	other = files_hold("other");
	assert_int_equal(op_sync(&rig), 0);
	free_before = fs->alloc.free_pages;
	fs->journal.max_blocks += 400; /* of the slack: two are in a transaction, and do not use what they announce */
	return rc;
}

static int end(void **state)
{
	files_let_go(other);
	return stages_end(state);
}

/* What the stages before leave: pages in a group, stored, of which nothing was known. */
static void prepare(struct g4_batch *b, uint64_t group, uint32_t pages)
{
	struct g4_address row;
	uint64_t got;

	if (pages == G4_REGION_PAGES) {
		assert_int_equal(g4_alloc_claim_region(wg, &fs->alloc, false, &row), 0);
	} else {
		assert_int_equal(g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_IN(g4_file_pool(fs, inode), G4_ALLOC_DATA),
						g4_page_address(group * G4_GROUP_PAGES + (group ? 0 : 4096)), pages,
						false, &row, &got),
				 0);
		assert_int_equal(got, pages);
	}
	assert_int_equal(g4_address_page(row) / G4_GROUP_PAGES, group);
	memcpy(rig.image + g4_address_stored(row), data, pages * G4_PAGE_BYTES);
	b->staged = b->dedup = true;
	b->algorithm = G4_CHECKSUM_BLAKE3;
	b->count = pages;
	b->segment_count = 1;
	b->segments[0] = (struct g4_segment){row, 0, pages, 0, G4_SEGMENT_NEW};
	for (uint32_t k = 0; k < pages; k++) {
		const void *page = data + k * G4_PAGE_BYTES;
		g4_sums_make(wg, G4_CHECKSUM_BLAKE3, &page, 1, &b->sums[k]);
	}
}

static void publish(struct g4_wg *by, struct g4_inode_core *to, struct g4_batch *b)
{
	uint32_t published = 0;

	g4_write_lock(&to->lock);
	const int rc = g4_publish(by, fs, to, b, b->count * G4_PAGE_BYTES, &published);
	g4_set_size(to, to->disk.size);
	g4_write_unlock(&to->lock);
	assert_int_equal(rc, 0);
	assert_int_equal(published, b->count);
}

static void *publish_beside(void *argument)
{
	struct g4_wg *own = g4_wg_create(1);

	publish(own, inode, (struct g4_batch *)argument);
	g4_wg_destroy(own);
	return NULL;
}

/* Has the lock until it is told, for a thread that publishes takes others in their order. */
static uint32_t hold;
static void *hold_lock(void *argument)
{
	struct g4_lock *lock = (struct g4_lock *)argument;

	g4_lock(lock);
	g4_store32_rel(&hold, 1);
	while (g4_load32_acq(&hold) == 1)
		sched_yield();
	g4_unlock(lock);
	return NULL;
}

/* The first one has looked, and waits to list in the first group; meanwhile the other one publishes in the second. */
static void race(uint32_t pages, uint32_t others)
{
	struct g4_lock *lock = g4_shares_lock(&fs->alloc, 0);
	pthread_t thread, holder;

	prepare(batch, 0, pages);
	prepare(&other_batch, 1, others);
	hold = 0;
	assert_int_equal(pthread_create(&holder, NULL, hold_lock, lock), 0);
	while (g4_load32_acq(&hold) == 0)
		sched_yield();
	const uint32_t before = g4_ticket_next(g4_load64_rlx(&lock->word));
	assert_int_equal(pthread_create(&thread, NULL, publish_beside, batch), 0);
	while (g4_ticket_next(g4_load64_rlx(&lock->word)) == before)
		sched_yield();
	publish(wg, other.inode, &other_batch);
	g4_store32_rel(&hold, 2);
	assert_int_equal(pthread_join(holder, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void expect_one(uint32_t pages)
{
	struct g4_ddt_stats stats;

	for (uint32_t k = 0; k < pages; k++) {
		const uint64_t at = rig_place(&rig, held.ino, k);
		assert_int_not_equal(at, 0);
		assert_int_equal(at, rig_place(&rig, other.ino, k));
	}
	g4_ddt_stats(&fs->ddt, &stats);
	assert_int_equal(stats.hits, pages);
	assert_int_equal(stats.misses, pages);
	assert_int_equal(stats.entries, pages);
	stages_expect(pages * G4_PAGE_BYTES);
	assert_int_equal(op_read(&rig, other.ino, 0, 0, found, pages * G4_PAGE_BYTES, NULL), 0);
	assert_memory_equal(found, data, pages * G4_PAGE_BYTES);
	/* a third one finds them, and all of it goes with the last */
	uint64_t third;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "third", G4_S_IFREG | 0600, &third), 0);
	assert_int_equal(op_write(&rig, third, 0, 0, data, pages * G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t k = 0; k < pages; k++)
		assert_int_equal(rig_place(&rig, third, k), rig_place(&rig, held.ino, k));
	assert_int_equal(op_truncate(&rig, held.ino, 0), 0);
	assert_int_equal(op_truncate(&rig, other.ino, 0), 0);
	assert_int_equal(op_truncate(&rig, third, 0), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_true(fs->alloc.free_pages + 2 >= free_before); /* slabs of sums are kept */
}

static void one_page_stays_of_two(void **state)
{
	(void)state;
	race(1, 1);
	expect_one(1);
}

static void all_of_a_row_do(void **state)
{
	(void)state;
	race(MOST, MOST);
	expect_one(MOST);
}

/* The first pages of a large page are others' then: it is divided. */
static void a_part_of_a_large_page_does(void **state)
{
	(void)state;
	race(G4_REGION_PAGES, MOST);
	for (uint32_t k = 0; k < MOST; k++)
		assert_int_equal(rig_place(&rig, held.ino, k), rig_place(&rig, other.ino, k));
	stages_expect(G4_REGION_BYTES);
	assert_int_equal(op_truncate(&rig, other.ino, 0), 0);
	memset(found, 0, G4_REGION_BYTES);
	stages_expect(G4_REGION_BYTES);
	assert_int_equal(op_truncate(&rig, held.ino, 0), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_true(fs->alloc.free_pages + 2 >= free_before);
}

/* What has gone meanwhile is not what others have: the file keeps its own. */
static void what_is_listed_no_more_is_not_shared(void **state)
{
	const uint64_t domain = g4_inode_domain(&inode->disk);
	struct g4_txn txn;
	uint64_t others[4];

	(void)state;
	prepare(batch, 0, 4);
	publish(wg, inode, batch);
	for (uint32_t k = 0; k < 4; k++)
		others[k] = (G4_GROUP_PAGES + k) * G4_PAGE_BYTES; /* nobody's */
	others[1] = 0;
	const uint64_t at = rig_place(&rig, held.ino, 0);
	g4_write_lock(&inode->lock);
	assert_int_equal(g4_begin(wg, fs, 2 * G4_MAP_CREDITS, &txn), 0);
	const int rc = g4_twice_yield(wg, fs, &txn, inode, 0, 4, batch->sums, others);
	assert_int_equal(txn.changed, 0);
	assert_int_equal(g4_end(fs, &txn, 0), 0);
	g4_write_unlock(&inode->lock);
	assert_int_equal(rc, 0);
	assert_int_equal(rig_place(&rig, held.ino, 0), at);
	assert_int_equal(g4_share_listed_row(wg, &fs->alloc, g4_address_from(at), 4, batch->sums, domain), 4);
}

RUN_TESTS(cmocka_unit_test_setup_teardown(one_page_stays_of_two, begin, end),
	  cmocka_unit_test_setup_teardown(all_of_a_row_do, begin, end),
	  cmocka_unit_test_setup_teardown(a_part_of_a_large_page_does, begin, end),
	  cmocka_unit_test_setup_teardown(what_is_listed_no_more_is_not_shared, begin, end))
