/* SPDX-License-Identifier: Apache-2.0 */
/* Space: many workgroups claim, publish, free and release at once; nothing is given twice, nothing is lost. */
#include "rig.h"

#include <pthread.h>

#include "fs/fs.h"
#include "simt/simt_host.h"

#define THREADS 4u
#define HELD 64u

static struct rig rig;
static struct g4_fs *fs;
static uint32_t *owner; /* of each page: 0 or thread + 1 */

struct run {
	struct g4_address address;
	uint64_t pages;
	bool published;
};

struct worker {
	pthread_t thread;
	struct g4_wg *wg;
	uint64_t random;
	uint32_t index, refused;
	struct run held[HELD];
	uint32_t count;
	int error;
};

static void own(struct worker *w, const struct run *run, bool take)
{
	for (uint64_t p = 0; p < run->pages; p++) {
		uint32_t before = g4_xchg32(&owner[g4_address_page(run->address) + p], take ? w->index + 1 : 0);
		if (before != (take ? 0 : w->index + 1))
			w->error = 1;
	}
}

static void claim(struct worker *w)
{
	struct run *run = &w->held[w->count];
	uint64_t want = rig_random(&w->random) % 4 ? 1 + rig_random(&w->random) % 40 : 1 + rig_random(&w->random) % 512;
	uint32_t class_ = (uint32_t)(rig_random(&w->random) % 3);
	bool reserved = rig_random(&w->random) % 2;

	*run = (struct run){0};
	if (reserved && !g4_alloc_reserve(&fs->alloc, want)) {
		w->refused++;
		return;
	}
	int rc = class_ == 2 && want > 256 ? g4_alloc_claim(w->wg, &fs->alloc, G4_ALLOC_ALIGNED, G4_NO_ADDRESS, want,
							    reserved, &run->address, &run->pages) :
					     g4_alloc_claim(w->wg, &fs->alloc, class_ % 2, G4_NO_ADDRESS, want,
							    reserved, &run->address, &run->pages);
	if (reserved) /* what it did not take of the reservation */
		g4_alloc_unreserve(&fs->alloc, want - run->pages);
	if (rc == -G4_E_NOSPC && !reserved) {
		w->refused++;
		return;
	}
	if (rc < 0 || run->pages == 0 || run->pages > want) {
		w->error = rc < 0 ? rc : 2;
		return;
	}
	own(w, run, true);
	w->count++;
}

static void publish(struct worker *w, struct run *run)
{
	struct g4_txn txn;
	int rc = g4_begin(w->wg, fs, 8, &txn);

	if (rc == 0) {
		rc = g4_alloc_publish(w->wg, &fs->alloc, &txn, run->address, run->pages);
		g4_txn_end(&txn);
	}
	run->published = true;
	if (rc < 0)
		w->error = rc;
}

static void give_back(struct worker *w, uint32_t k)
{
	struct run run = w->held[k];
	struct g4_txn txn;

	w->held[k] = w->held[--w->count];
	own(w, &run, false);
	if (!run.published) {
		g4_alloc_release(&fs->alloc, run.address, run.pages);
		return;
	}
	int rc = g4_begin(w->wg, fs, 8, &txn);
	if (rc == 0) {
		rc = g4_alloc_free(w->wg, &fs->alloc, &txn, run.address, run.pages);
		g4_txn_end(&txn);
	}
	if (rc < 0)
		w->error = rc;
}

static void *work(void *argument)
{
	struct worker *w = (struct worker *)argument;
	uint64_t steps = rig_slow() ? 2000 : 12000;

	for (uint64_t n = 0; n < steps && w->error == 0; n++) {
		uint64_t choice = rig_random(&w->random) % 100;
		if (choice < 50 && w->count < HELD)
			claim(w);
		else if (choice < 65 && w->count > 0 && !w->held[choice % w->count].published)
			publish(w, &w->held[choice % w->count]);
		else if (choice < 98 && w->count > 0)
			give_back(w, (uint32_t)(rig_random(&w->random) % w->count));
		else if (choice >= 98 && g4_commit(w->wg, fs, UINT64_MAX, false) < 0)
			w->error = 3;
	}
	while (w->count > 0 && w->error == 0)
		give_back(w, 0);
	return NULL;
}

static void expect_counts_agree(void)
{
	uint64_t pages = 0, by_group = 0;

	for (uint64_t g = 0; g < fs->alloc.group_count; g++) {
		by_group += fs->alloc.group_free[g];
		if (fs->alloc.group_state[g] != G4_GROUP_LOADED) {
			pages += fs->alloc.group_free[g];
			continue;
		}
		for (uint64_t r = g * G4_GROUP_REGIONS; r < (g + 1) * G4_GROUP_REGIONS; r++) {
			uint32_t clear = 0;
			for (uint32_t bit = 0; bit < G4_REGION_PAGES; bit++)
				clear += !((fs->alloc.used[r * 8 + bit / 64] >> (bit % 64)) & 1);
			assert_int_equal(clear, fs->alloc.region_free[r]);
			pages += clear;
		}
	}
	assert_int_equal(pages, fs->alloc.free_pages);
	assert_int_equal(by_group, fs->alloc.free_pages);
}

static void run_workers(uint64_t device_bytes, uint64_t seed)
{
	struct worker workers[THREADS];
	struct g4_wg *wg = g4_wg_create(THREADS);

	print_message("seed %lu\n", (unsigned long)seed);
	rig_open(&rig, device_bytes, 0);
	fs = rig_mount_fs(&rig, wg, NULL);
	owner = (uint32_t *)calloc(device_bytes / G4_PAGE_BYTES + 1, sizeof(uint32_t));
	assert_non_null(owner);
	uint64_t free_pages = fs->alloc.free_pages;
	for (uint32_t k = 0; k < THREADS; k++) {
		workers[k] = (struct worker){.index = k, .random = seed * 10 + k, .wg = g4_wg_create(k)};
		assert_int_equal(pthread_create(&workers[k].thread, NULL, work, &workers[k]), 0);
	}
	for (uint32_t k = 0; k < THREADS; k++) {
		pthread_join(workers[k].thread, NULL);
		assert_int_equal(workers[k].error, 0);
		g4_wg_destroy(workers[k].wg);
	}
	assert_int_equal(g4_commit(wg, fs, UINT64_MAX, false), 0);
	assert_int_equal(fs->alloc.free_pages, free_pages);
	assert_int_equal(fs->alloc.pending_pages, 0);
	assert_int_equal(fs->alloc.reserved, 0);
	expect_counts_agree();
	/* what was free in 2 MiB pages is free in 2 MiB pages again */
	uint64_t empty = 0, claimed = 0;
	struct g4_address address;
	for (uint64_t r = 0; r < fs->alloc.region_count; r++)
		empty += fs->alloc.region_free[r] == G4_REGION_PAGES;
	assert_true(empty >= device_bytes / G4_REGION_BYTES - 4);
	for (; g4_alloc_claim_region(wg, &fs->alloc, false, &address) == 0; claimed++)
		assert_true(g4_address_starts_region(address));
	assert_int_equal(claimed, empty);
	rig_unmount_fs(&rig, wg, fs, true);
	rig_expect_clean(&rig, free_pages, "after all was freed");
	g4_wg_destroy(wg);
	free(owner);
	rig_close(&rig);
}

static void parallel_claims_never_overlap_and_leave_nothing_behind(void **state)
{
	(void)state;
	run_workers(64 * G4_MIB, rig_setting("G4_ALLOC_SEED", 1));
}

static void parallel_claims_on_a_full_device_fail_cleanly(void **state)
{
	(void)state;
	run_workers(12 * G4_MIB, rig_setting("G4_ALLOC_SEED", 2));
}

static void freed_space_waits_for_its_transaction(void **state)
{
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_address address;
	uint64_t got;
	struct g4_txn txn;

	(void)state;
	rig_open(&rig, 12 * G4_MIB, 0);
	fs = rig_mount_fs(&rig, wg, NULL);
	assert_int_equal(g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, G4_NO_ADDRESS, 10, false, &address, &got), 0);
	assert_int_equal(got, 10);
	uint64_t free_pages = fs->alloc.free_pages;
	assert_int_equal(g4_begin(wg, fs, 16, &txn), 0);
	assert_int_equal(g4_alloc_publish(wg, &fs->alloc, &txn, address, got), 0);
	assert_int_equal(g4_alloc_free(wg, &fs->alloc, &txn, address, got), 0);
	g4_txn_end(&txn);
	assert_int_equal(fs->alloc.free_pages, free_pages);
	assert_int_equal(fs->alloc.pending_pages, 10);
	assert_int_equal(g4_commit(wg, fs, UINT64_MAX, false), 0);
	assert_int_equal(fs->alloc.free_pages, free_pages + 10);
	assert_int_equal(fs->alloc.pending_pages, 0);
	/* twice is an error, not a second page */
	assert_int_equal(g4_begin(wg, fs, 16, &txn), 0);
	assert_int_equal(g4_alloc_free(wg, &fs->alloc, &txn, address, 1), -G4_E_CORRUPT_ALLOC);
	g4_txn_end(&txn);
	rig_unmount_fs(&rig, wg, fs, false);
	g4_wg_destroy(wg);
	rig_close(&rig);
}

static void slots_are_given_once_and_empty_slabs_go_back(void **state)
{
	enum { SLOTS = 400 };
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_address address[SLOTS];
	uint64_t free_pages;
	struct g4_txn txn;
	uint32_t near;

	(void)state;
	rig_open(&rig, 12 * G4_MIB, 0);
	fs = rig_mount_fs(&rig, wg, NULL);
	free_pages = fs->alloc.free_pages;
	for (uint32_t k = 0; k < SLOTS; k++) {
		assert_int_equal(g4_begin(wg, fs, 16, &txn), 0);
		assert_int_equal(g4_slab_alloc(wg, &fs->alloc, &txn, G4_SLAB_SMALL, NULL, &address[k], &near), 0);
		g4_txn_end(&txn);
		for (uint32_t j = 0; j < k; j++)
			assert_false(g4_address_is(address[j], address[k]));
	}
	for (uint32_t k = 0; k < SLOTS; k++) {
		assert_int_equal(g4_begin(wg, fs, 16, &txn), 0);
		assert_int_equal(g4_slab_free(wg, &fs->alloc, &txn, address[(k * 7) % SLOTS], G4_NO_LINE), 0);
		g4_txn_end(&txn);
	}
	assert_int_equal(g4_commit(wg, fs, UINT64_MAX, false), 0);
	/* the one that is being filled stays */
	assert_true(fs->alloc.free_pages >= free_pages - 1);
	rig_unmount_fs(&rig, wg, fs, false);
	g4_wg_destroy(wg);
	rig_close(&rig);
}

/* Of those whose commands come one after the other, where a workgroup has several lanes; beside somebody each begins its own. */
static void one_after_the_other_they_fill_one_slab(void **state)
{
	enum { WORKGROUPS = 6 };
	struct g4_address address[WORKGROUPS];
	struct g4_txn txn;

	(void)state;
	rig_open(&rig, 12 * G4_MIB, 0);
	struct g4_wg *wg = g4_wg_create(0);
	fs = rig_mount_fs(&rig, wg, NULL);
	for (uint32_t k = 0; k < WORKGROUPS; k++) {
		struct g4_wg *one = g4_wg_create(1 + k);
		uint32_t near;
		if (k == WORKGROUPS - 1)
			g4_lock(&fs->alloc.shards[fs->alloc.slab_shard[G4_SLAB_INODES - 1]].lock);
		assert_int_equal(g4_begin(one, fs, 16, &txn), 0);
		assert_int_equal(g4_slab_alloc(one, &fs->alloc, &txn, G4_SLAB_INODES, NULL, &address[k], &near), 0);
		g4_txn_end(&txn);
		g4_wg_destroy(one);
	}
	const bool together = g4_wg_width(wg) > 1;
	for (uint32_t k = 1; k < WORKGROUPS; k++)
		assert_int_equal(g4_address_is(g4_address_page_start(address[k]), g4_address_page_start(address[0])),
				 together && k < WORKGROUPS - 1);
	/* who had none until the lock was held has its own now, and the next one fills that */
	assert_int_equal(fs->alloc.slab_shard[G4_SLAB_INODES - 1], together ? WORKGROUPS : 0);
	g4_unlock(&fs->alloc.shards[together ? 1 : 0].lock);
	rig_unmount_fs(&rig, wg, fs, true);
	g4_wg_destroy(wg);
	rig_close(&rig);
}

/* What keeps other files out of the device keeps nobody from the slots of slabs that others fill. */
static void a_full_device_gives_slots_of_slabs_that_others_fill(void **state)
{
	enum { OTHERS = 5, SLOTS = 6 }; /* a slab has seven blocks, of two slots each */
	struct g4_wg *wg = g4_wg_create(0), *other[OTHERS];
	struct g4_address address, seen[OTHERS * SLOTS];
	uint64_t got;
	uint32_t count = 0, near;
	struct g4_txn txn;

	(void)state;
	rig_open(&rig, 12 * G4_MIB, 0);
	fs = rig_mount_fs(&rig, wg, NULL);
	for (uint32_t k = 0; k < OTHERS; k++) {
		other[k] = g4_wg_create(1 + k);
		assert_int_equal(g4_begin(other[k], fs, 16, &txn), 0);
		assert_int_equal(g4_slab_alloc(other[k], &fs->alloc, &txn, G4_SLAB_SMALL, NULL, &address, &near), 0);
		g4_txn_end(&txn);
		g4_lock(&fs->alloc.shards[1 + k].lock); /* so that the next one begins a slab of its own */
	}
	for (uint32_t k = 0; k < OTHERS; k++)
		g4_unlock(&fs->alloc.shards[1 + k].lock);
	while (g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, G4_NO_ADDRESS, 512, false, &address, &got) == 0)
		;
	while (count < OTHERS * SLOTS) {
		assert_int_equal(g4_begin(wg, fs, 16, &txn), 0);
		assert_int_equal(g4_slab_alloc(wg, &fs->alloc, &txn, G4_SLAB_SMALL, NULL, &seen[count], &near), 0);
		g4_txn_end(&txn);
		for (uint32_t j = 0; j < count; j++)
			assert_false(g4_address_is(seen[j], seen[count]));
		count++;
	}
	rig_unmount_fs(&rig, wg, fs, false);
	for (uint32_t k = 0; k < OTHERS; k++)
		g4_wg_destroy(other[k]);
	g4_wg_destroy(wg);
	rig_close(&rig);
}

/* However many of them there are, up to what there are shards. */
static void hundreds_of_workgroups_begin_all_over_the_device(void **state)
{
	enum { FIRST = 64, MOST = 512 };

	(void)state;
	for (uint32_t count = 64; count <= MOST; count *= 2) {
		struct g4_wg *wg = g4_wg_create(0);
		uint8_t seen[128] = {0};
		uint32_t regions = 0;
		rig_open(&rig, sizeof(seen) * G4_REGION_PAGES * G4_PAGE_BYTES, 0);
		fs = rig_mount_fs(&rig, wg, NULL);
		for (uint32_t k = 0; k < count; k++) {
			struct g4_wg *one = g4_wg_create(FIRST + k);
			struct g4_address address;
			uint64_t got;
			assert_int_equal(g4_alloc_claim(one, &fs->alloc, G4_ALLOC_DATA, G4_NO_ADDRESS, 1, false,
							&address, &got),
					 0);
			const uint64_t region = g4_address_page(address) / G4_REGION_PAGES;
			regions += !seen[region];
			seen[region] = 1;
			g4_wg_destroy(one);
		}
		/* those that have metadata alone, and those behind the end of the device, lead to the next one */
		assert_in_range(regions, g4_min64(count, sizeof(seen)) / 2, sizeof(seen));
		rig_unmount_fs(&rig, wg, fs, false);
		g4_wg_destroy(wg);
		rig_close(&rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parallel_claims_never_overlap_and_leave_nothing_behind),
		cmocka_unit_test(parallel_claims_on_a_full_device_fail_cleanly),
		cmocka_unit_test(freed_space_waits_for_its_transaction),
		cmocka_unit_test(slots_are_given_once_and_empty_slabs_go_back),
		cmocka_unit_test(one_after_the_other_they_fill_one_slab),
		cmocka_unit_test(a_full_device_gives_slots_of_slabs_that_others_fill),
		cmocka_unit_test(hundreds_of_workgroups_begin_all_over_the_device),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
