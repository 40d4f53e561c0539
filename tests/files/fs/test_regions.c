/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lanes run by its number is what the leader of a host runs by its name: each region of this layer and of those below it. One of
 * a layer above, or of none, ends the program.
 */
#include "files/files.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/buffered.h"
#include "alloc/listing.h"
#include "alloc/release.h"
#include "data/hints.h"
#include "data/sums_region.h"
#include "dir/leaf.h"
#include "hash/crc32c.h"
#include "journal/wide.h"

static uint8_t *page;

static int begin(void **state)
{
	page = rig_memory(G4_PAGE_BYTES, 3);
	return files_begin(state);
}

static int end(void **state)
{
	free(page);
	return files_end(state);
}

static void by_number(struct g4_wg *group, void *args)
{
	g4_fs_region(group, (const struct g4_wg_region *)args);
}

/* All lanes, with a job in memory that they share. */
static void run(uint32_t kind, void *job)
{
	static struct g4_wg_region region;

	region = (struct g4_wg_region){kind, job};
	g4_region(wg, G4_REGION_USER, by_number, &region);
}

/* What the lanes' parts come to. */
static uint32_t parts_of(const uint8_t *data)
{
	static struct g4_crc32c_job job;
	uint32_t crc = 0;

	job = (struct g4_crc32c_job){.data = data};
	run(G4_REGION_CRC32C, &job);
	for (uint32_t lane = 0; lane < g4_wg_width(wg); lane++)
		crc ^= job.part[lane];
	return crc;
}

/* It is linear but for a constant, which zeros have, too. */
static void a_page_has_its_checksum(void **state)
{
	static uint8_t zeros[G4_PAGE_BYTES];

	(void)state;
	assert_int_equal(parts_of(page) ^ parts_of(zeros),
			 g4_crc32c(0, page, G4_PAGE_BYTES) ^ g4_crc32c(0, zeros, G4_PAGE_BYTES));
}

static void pages_have_their_sums(void **state)
{
	static struct g4_sums_job job;
	const void *pages[] = {page, page};
	struct g4_sum_entry entries[2];

	(void)state;
	memset(&job, 0, sizeof(job));
	job.algorithm = G4_CHECKSUM_XXH3;
	job.count = 2;
	job.pages[0] = job.pages[1] = page;
	run(G4_REGION_SUMS, &job);
	g4_sums_make(wg, G4_CHECKSUM_XXH3, pages, 2, entries);
	assert_memory_equal(job.sums, entries, sizeof(entries));
}

static void lines_that_are_not_there_are_counted(void **state)
{
	static struct g4_cache_probe probe;
	uint64_t ino, found;

	(void)state;
	ino = rig_make(&rig, 1);
	assert_int_equal(op_write(&rig, ino, 0, 5 * G4_PAGE_BYTES, page, G4_PAGE_BYTES, NULL), 0);
	uint32_t index;
	assert_int_equal(g4_icache_get(wg, fs, ino, &index), 0);
	const uint64_t owner = g4_icache_at(fs, index)->data_key;
	g4_icache_put(fs, index);
	for (uint64_t first = 0; first < 8; first++) {
		probe = (struct g4_cache_probe){.cache = &fs->cache, .owner = owner, .first = first, .count = 100};
		run(G4_REGION_CACHE_PROBE, &probe);
		found = g4_cache_absent(wg, &fs->cache, owner, first, 100);
		assert_int_equal(probe.absent, found);
		assert_int_equal(found, first <= 5 ? 5 - first : 100);
	}
}

/* The first kind of a commit's jobs: tags of a descriptor. */
static void a_commit_has_its_tags(void **state)
{
	struct g4_journal *j = &fs->journal;
	static struct g4_commit_job job;
	static struct g4_txn_log log;
	static uint64_t revokes[] = {G4_PAGE_BYTES * 11, G4_PAGE_BYTES * 12};

	(void)state;
	log = (struct g4_txn_log){.revokes = revokes, .revoke_count = 2};
	job = (struct g4_commit_job){.journal = j, .log = &log};
	memset(j->record, 0, G4_PAGE_BYTES);
	run(G4_REGION_COMMIT, &job);
	const struct g4_journal_descriptor *descriptor = (const struct g4_journal_descriptor *)(const void *)j->record;
	assert_int_equal(descriptor->tags[0], revokes[0]);
	assert_int_equal(descriptor->tags[1], revokes[1]);
	assert_int_equal(descriptor->tags[2], 0);
}

static void freed_runs_are_given_back(void **state)
{
	static struct g4_release_job job;
	static struct g4_extent runs[2];
	const uint64_t before = fs->alloc.free_pages;

	(void)state;
	for (uint32_t k = 0; k < 2; k++)
		assert_int_equal(g4_alloc_claim(wg, &fs->alloc, G4_ALLOC_DATA, G4_NO_ADDRESS, 3, false,
						&runs[k].address, &runs[k].pages),
				 0);
	job = (struct g4_release_job){.alloc = &fs->alloc, .runs = runs, .count = 2};
	run(G4_REGION_RELEASE, &job);
	assert_int_equal(job.pages, runs[0].pages + runs[1].pages);
	assert_int_equal(job.own, job.pages);
	for (uint32_t k = 0; k < 2; k++)
		assert_int_equal(g4_alloc_in_use(wg, &fs->alloc, runs[k].address), 0);
	fs->alloc.free_pages = before;
}

static void listed_sums_are_written_and_compared(void **state)
{
	static struct g4_listing_job job;
	static struct g4_sum_entry sums[40];
	struct g4_listing_page *listing = (struct g4_listing_page *)(void *)page;

	(void)state;
	for (uint32_t k = 0; k < 40; k++)
		memset(&sums[k], (int)k + 1, sizeof(sums[k]));
	job = (struct g4_listing_job){.page = listing, .sums = sums, .at = 3, .count = 39, .writes = true};
	run(G4_REGION_LISTING, &job);
	job = (struct g4_listing_job){.page = listing, .sums = sums, .at = 3, .count = 40};
	run(G4_REGION_LISTING, &job);
	assert_int_equal(job.match, 39);
}

static void hints_are_made_and_found(void **state)
{
	static struct g4_hints_job job;
	static struct g4_sum_entry sums[40];
	static uint64_t places[40];

	(void)state;
	for (uint32_t k = 0; k < 40; k++)
		memset(&sums[k], (int)k + 1, sizeof(sums[k]));
	job = (struct g4_hints_job){.fs = fs, .sums = sums, .count = 39, .address = g4_page_address(1000)};
	run(G4_REGION_HINTS, &job);
	job = (struct g4_hints_job){.fs = fs, .sums = sums, .count = 40, .found = places};
	run(G4_REGION_HINTS, &job);
	for (uint32_t k = 0; k < 40; k++)
		assert_int_equal(places[k], k < 39 ? (1000 + k) * G4_PAGE_BYTES : 0);
}

static void a_buffered_owner_is_found(void **state)
{
	static struct g4_buffered_job job;
	struct g4_buffered_page *owners = (struct g4_buffered_page *)(void *)page;

	(void)state;
	memset(page, 0, G4_PAGE_BYTES);
	owners->count = 100;
	owners->pages[70] = G4_REGION_PAGES + 65;
	job = (struct g4_buffered_job){.page = owners, .finds = true, .number = G4_REGION_PAGES + 65};
	run(G4_REGION_BUFFERED, &job);
	assert_int_equal(job.found, 70);
	job = (struct g4_buffered_job){.page = owners, .number = 1};
	run(G4_REGION_BUFFERED, &job);
	assert_int_equal(job.bits[0][0], 0);
	assert_int_equal(job.bits[0][1], 2);
}

static bool ends_the_program(uint32_t kind)
{
	const struct g4_wg_region region = {kind, NULL};
	const pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		for (int signal_ = SIGILL; signal_ <= SIGSEGV; signal_++)
			signal(signal_, SIG_DFL); /* not the test's */
		g4_fs_region(wg, &region);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status);
}

static void what_is_no_region_of_this_layer_ends_the_program(void **state)
{
	(void)state;
	assert_true(ends_the_program(G4_REGION_OPTIMISTIC_LOOKUP));
	assert_true(ends_the_program(G4_REGION_CALLER));
	assert_true(ends_the_program(1000));
}

#define region_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

RUN_TESTS(region_test(a_page_has_its_checksum), region_test(pages_have_their_sums),
	  region_test(lines_that_are_not_there_are_counted), region_test(a_commit_has_its_tags),
	  region_test(a_buffered_owner_is_found), region_test(freed_runs_are_given_back),
	  region_test(hints_are_made_and_found), region_test(listed_sums_are_written_and_compared),
	  region_test(what_is_no_region_of_this_layer_ends_the_program))
