/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large writes whose pages are looked for, a batch of a large page at a time: new pages, found ones and zeros by turns, over holes and over what is
 * there, on a device that gets full, and through power cuts. What is read is what was written, and the checker counts the same owners.
 */
#include "rig.h"

#include <pthread.h>
#include <stdlib.h>

#include "alloc/share.h"
#include "fs/fs.h"
#include "inode/txn.h"
#include "simt/simt_host.h"

#define FILES 4u
#define FILE_PAGES 1600u
#define MOST 700u /* pages of a write */
#define BYTES (FILE_PAGES * (uint64_t)G4_PAGE_BYTES)

static struct rig rig;
static uint8_t data[MOST * G4_PAGE_BYTES], found[BYTES];
static struct {
	uint64_t ino;
	uint32_t has[FILE_PAGES]; /* 0: zeros */
	uint64_t pages;
} files[FILES];
static uint32_t fresh; /* contents that nothing has yet */

static const void *contents(uint32_t k)
{
	static _Thread_local uint8_t page_of[G4_PAGE_BYTES];

	memset(page_of, 0, sizeof(page_of));
	if (k > 0) {
		rig_pattern(page_of, k % 64 + 1, G4_PAGE_BYTES);
		memcpy(page_of, &k, sizeof(k));
	}
	return page_of;
}

/* Rows of what others have, of new ones and of zeros, in lengths from a page to hundreds. */
static void choose(uint64_t *seed, uint32_t *ids, uint64_t pages)
{
	const uint64_t longest = UINT64_C(1) << rig_random(seed) % 9;
	const uint64_t duplicates = rig_random(seed) % 11;

	for (uint64_t k = 0; k < pages;) {
		uint64_t row = g4_min64(1 + rig_random(seed) % longest, pages - k);
		const uint64_t what = rig_random(seed) % 40, f = rig_random(seed) % FILES;
		const bool dup = rig_random(seed) % 10 < duplicates && files[f].pages > 0;
		const uint64_t at = dup ? rig_random(seed) % files[f].pages : 0;

		for (; row > 0; row--, k++) {
			if (what == 0)
				ids[k] = 0;
			else if (dup)
				ids[k] = files[f].has[(at + k) % files[f].pages];
			else
				ids[k] = ++fresh;
		}
	}
}

static void check(uint32_t f)
{
	uint64_t done;

	assert_int_equal(op_read(&rig, files[f].ino, 0, 0, found, BYTES, &done), 0);
	assert_int_equal(done, files[f].pages * G4_PAGE_BYTES);
	for (uint64_t page = 0; page < files[f].pages; page++)
		assert_true(rig_equal(found + page * G4_PAGE_BYTES, contents(files[f].has[page]), G4_PAGE_BYTES));
}

/* Of a write that failed a part is there, from its beginning. */
static void accept(uint32_t f, uint64_t first, const uint32_t *ids, uint64_t pages)
{
	struct g4_attr attr;
	uint64_t done;

	assert_int_equal(op_getattr(&rig, files[f].ino, &attr), 0);
	assert_int_equal(op_read(&rig, files[f].ino, 0, 0, found, BYTES, &done), 0);
	assert_int_equal(done, attr.size);
	files[f].pages = done / G4_PAGE_BYTES;
	for (uint64_t k = 0; k < pages && first + k < files[f].pages; k++)
		if (rig_equal(found + (first + k) * G4_PAGE_BYTES, contents(ids[k]), G4_PAGE_BYTES))
			files[f].has[first + k] = ids[k];
}

static uint64_t full;

static void step(uint64_t *seed)
{
	static uint32_t ids[MOST];
	const uint32_t f = (uint32_t)(rig_random(seed) % FILES);
	uint64_t page = rig_random(seed) % FILE_PAGES;
	const uint64_t what = rig_random(seed) % 16;
	uint64_t pages = g4_min64(1 + rig_random(seed) % MOST, FILE_PAGES - page);
	uint64_t done = 0;
	int rc;

	if (what < 11) {
		if (what < 4)
			page = page / 512 * 512;
		pages = g4_min64(1 + rig_random(seed) % MOST, FILE_PAGES - page);
		choose(seed, ids, pages);
		for (uint64_t k = 0; k < pages; k++)
			memcpy(data + k * G4_PAGE_BYTES, contents(ids[k]), G4_PAGE_BYTES);
		rc = op_write(&rig, files[f].ino, 0, page * G4_PAGE_BYTES, data, pages * G4_PAGE_BYTES, &done);
		if (rc == 0 && done == pages * G4_PAGE_BYTES) {
			memcpy(&files[f].has[page], ids, pages * sizeof(*ids));
			files[f].pages = g4_max64(files[f].pages, page + pages);
		} else {
			assert_true(rc == 0 || rc == -G4_E_NOSPC);
			full++;
			accept(f, page, ids, pages);
		}
	} else if (what < 13) {
		rc = op_truncate(&rig, files[f].ino, page * G4_PAGE_BYTES);
		assert_int_equal(rc, 0);
		memset(&files[f].has[page], 0, (FILE_PAGES - page) * sizeof(files[f].has[0]));
		files[f].pages = page;
	} else if (what < 14) {
		rc = op_fallocate(&rig, files[f].ino, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, page * G4_PAGE_BYTES,
				  pages * G4_PAGE_BYTES);
		assert_int_equal(rc, 0);
		memset(&files[f].has[page], 0, pages * sizeof(files[f].has[0]));
	} else {
		rc = op_fsync(&rig, files[f].ino);
		assert_true(rc == 0 || rc == -G4_E_NOSPC);
	}
}

static void steps(uint64_t seed, uint32_t count)
{
	memset(files, 0, sizeof(files));
	full = 0;
	for (uint32_t f = 0; f < FILES; f++)
		files[f].ino = rig_make(&rig, f);
	for (uint32_t i = 0; i < count; i++) {
		step(&seed);
		if (i % 10 == 9)
			for (uint32_t f = 0; f < FILES; f++)
				check(f);
	}
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t f = 0; f < FILES; f++)
		check(f);
}

static void run_on(uint64_t bytes, uint32_t checksum, uint64_t seed, uint32_t count, bool gets_full)
{
	rig_begin_as(&rig, checksum, 1, bytes, 0, NULL);
	const uint64_t before = rig_free_pages(&rig);
	steps(seed, count);
	struct g4_ddt_stats stats;
	g4_ddt_stats(&rig.fs->ddt, &stats);
	assert_true(stats.found > 0 && (!gets_full || full > 0));
	for (uint32_t f = 0; f < FILES; f++)
		assert_int_equal(op_truncate(&rig, files[f].ino, 0), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(g4_load64_rlx(&rig.fs->alloc.reserved), 0);
	assert_true(rig_free_pages(&rig) + 4 >= before); /* names and inodes */
	rig_end(&rig);
}

static uint64_t seed_of(uint64_t n)
{
	return rig_setting("G4_TEST_SEED", 1) * 1000 + n;
}

static void where_there_is_room(void **state)
{
	(void)state;
	run_on(128 * G4_MIB, G4_CHECKSUM_BLAKE3, seed_of(1), rig_slow() ? 30 : 100, false);
	run_on(128 * G4_MIB, G4_CHECKSUM_CRC32C, seed_of(2), rig_slow() ? 20 : 50, false);
}

static void where_it_gets_full(void **state)
{
	(void)state;
	for (uint64_t mib = 8; mib < (rig_slow() ? 9 : 16); mib += 2)
		run_on(mib * G4_MIB, G4_CHECKSUM_BLAKE3, seed_of(mib), 80, mib == 8);
}

/* ---------------------------------------------------------------------------------------------------- large pages that are known */

#define LARGE_PAGES ((uint64_t)G4_REGION_PAGES)
#define LARGE_GETS 48u

static uint64_t metadata_gets(void)
{
	struct g4_cache_counts counts;

	g4_cache_count_all(&rig.fs->cache, &counts);
	return counts.hits[G4_CACHE_METADATA] + counts.misses[G4_CACHE_METADATA];
}

/* Writes the same 2 MiB to each. */
static void write_large(uint64_t ino)
{
	uint64_t done;

	for (uint32_t k = 0; k < LARGE_PAGES; k++)
		memcpy(data + k * G4_PAGE_BYTES, contents(1 + k), G4_PAGE_BYTES);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, LARGE_PAGES * G4_PAGE_BYTES, &done), 0);
	assert_int_equal(done, LARGE_PAGES * G4_PAGE_BYTES);
}

static void expect_large(uint64_t ino)
{
	uint64_t done;

	assert_int_equal(op_read(&rig, ino, 0, 0, found, LARGE_PAGES * G4_PAGE_BYTES, &done), 0);
	assert_int_equal(done, LARGE_PAGES * G4_PAGE_BYTES);
	assert_true(rig_equal(found, data, LARGE_PAGES * G4_PAGE_BYTES));
}

static struct g4_run run_of(uint64_t ino, uint64_t page)
{
	struct g4_run run;

	rig_run_at(&rig, ino, page, &run);
	return run;
}

/* A group's pages are had once for a large page, and not for each of its quarters. */
static void a_large_page_that_is_known_is_had_once(void **state)
{
	struct g4_ddt_stats before, after;
	uint64_t files_of[3];

	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_BLAKE3, 1, 128 * G4_MIB, 0, NULL);
	for (uint32_t f = 0; f < 3; f++)
		files_of[f] = rig_make(&rig, f);
	for (uint32_t f = 0; f < 2; f++) { /* the second one makes the page of counts */
		write_large(files_of[f]);
		assert_int_equal(op_sync(&rig), 0);
	}
	g4_ddt_stats(&rig.fs->ddt, &before);
	uint64_t gets = metadata_gets();
	write_large(files_of[2]);
	gets = metadata_gets() - gets;
	g4_ddt_stats(&rig.fs->ddt, &after);
	print_message("%lu pages of metadata had for 2 MiB that are known\n", (unsigned long)gets);
	assert_true(gets <= LARGE_GETS);
	assert_int_equal(after.hits - before.hits, LARGE_PAGES);
	assert_int_equal(run_of(files_of[2], 0).level, 1);
	assert_true(g4_address_is(run_of(files_of[2], 0).address, run_of(files_of[0], 0).address));
	expect_large(files_of[2]);
	rig_end(&rig);
}

static uint64_t crossed;

static void count_bytes(void *context, const struct g4_io *io)
{
	(void)context;
	for (uint32_t k = 0; (io->op == G4_IO_WRITE || io->op == G4_IO_READ) && k < io->iov_count; k++)
		crossed += io->iov[k].bytes;
}

#define CROSSING_PAGES (6 * LARGE_PAGES)

/* Bytes to and from the device for a file of new or known pages, `pages` a write, until it is synced. */
static uint64_t crosses(uint32_t number, uint32_t pages)
{
	const uint64_t ino = rig_make(&rig, number);
	uint64_t done;

	crossed = 0;
	g4_dev_fault_watch(rig.dev, count_bytes, NULL);
	for (uint64_t at = 0; at < CROSSING_PAGES; at += pages) {
		const uint64_t now = g4_min64(pages, CROSSING_PAGES - at);

		for (uint64_t k = 0; k < now; k++)
			memcpy(data + k * G4_PAGE_BYTES, contents((uint32_t)(1 + at + k)), G4_PAGE_BYTES);
		assert_int_equal(op_write(&rig, ino, 0, at * G4_PAGE_BYTES, data, now * G4_PAGE_BYTES, &done), 0);
		assert_int_equal(done, now * G4_PAGE_BYTES);
	}
	assert_int_equal(op_sync(&rig), 0);
	g4_dev_fault_watch(rig.dev, NULL, NULL);
	return crossed;
}

/* Data that is known goes to the device no more and is not read from there: only metadata crosses. */
static void what_is_known_does_not_cross(void **state)
{
	static const uint32_t sizes[] = {(uint32_t)LARGE_PAGES, MOST, 64, 7};
	static const struct g4_fault harmless = {0};

	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_BLAKE3, 1, 128 * G4_MIB, 0, &harmless);
	const uint64_t all = CROSSING_PAGES * (uint64_t)G4_PAGE_BYTES, first = crosses(0, (uint32_t)LARGE_PAGES);

	assert_true(first >= all);
	for (uint32_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
		const uint64_t again = crosses(1 + k, sizes[k]);

		print_message("%u pages a write: %.3f of their bytes for new pages, %.3f for known ones\n", sizes[k],
			      (double)first / (double)all, (double)again / (double)all);
		assert_true(again <= all / 10);
	}
	rig_end(&rig);
}

static int acquire_region(struct g4_address address, const struct g4_sum_entry *sums, uint32_t *changed)
{
	struct g4_txn txn;

	assert_int_equal(g4_begin(rig.wg, rig.fs, 2 * G4_MAP_CREDITS, &txn), 0);
	const int rc = g4_share_acquire_listed_region(rig.wg, &rig.fs->alloc, &txn, address, sums, 0);
	*changed = txn.changed;
	if (rc == 0)
		assert_int_equal(g4_share_release(rig.wg, &rig.fs->alloc, &txn, address, LARGE_PAGES), 0);
	assert_int_equal(g4_end(rig.fs, &txn, 0), 0);
	return rc;
}

static void unlist(struct g4_address address)
{
	struct g4_txn txn;

	assert_int_equal(g4_begin(rig.wg, rig.fs, 1, &txn), 0);
	assert_int_equal(g4_end(rig.fs, &txn, g4_share_unlist(rig.wg, &rig.fs->alloc, &txn, address)), 0);
}

/* All pages of a region get an owner more, or none does, and then nothing has changed. */
static void one_page_of_it_may_have_gone(void **state)
{
	struct g4_sum_entry *sums = calloc(LARGE_PAGES, sizeof(*sums));
	uint64_t same = LARGE_PAGES;
	uint32_t changed, index;

	(void)state;
	assert_non_null(sums);
	rig_begin_as(&rig, G4_CHECKSUM_BLAKE3, 1, 128 * G4_MIB, 0, NULL);
	const uint64_t ino = rig_make(&rig, 0);
	write_large(ino);
	assert_int_equal(op_sync(&rig), 0);
	const struct g4_address first = run_of(ino, 0).address;
	assert_int_equal(run_of(ino, 0).level, 1);
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	assert_int_equal(g4_map_sums(rig.wg, rig.fs, g4_icache_at(rig.fs, index), 0, (uint32_t)LARGE_PAGES, sums), 0);
	g4_icache_put(rig.fs, index);

	for (uint32_t at = 0; at < LARGE_PAGES; at += G4_LISTING_PAGES + 1) { /* one in each quarter has another sum */
		sums[at].words[1] ^= 1;
		assert_int_equal(acquire_region(first, sums, &changed), -G4_E_AGAIN);
		assert_int_equal(changed, 0);
		sums[at].words[1] ^= 1;
	}
	assert_int_equal(g4_share_several(rig.wg, &rig.fs->alloc, first, &same), 0);
	assert_int_equal(same, LARGE_PAGES);
	assert_int_equal(acquire_region(first, sums, &changed), 0);
	assert_true(changed > 0);
	for (uint32_t at = 5; at < LARGE_PAGES; at += G4_LISTING_PAGES) { /* one in each quarter is listed no more */
		unlist(g4_address_after_pages(first, at));
		assert_int_equal(acquire_region(first, sums, &changed), -G4_E_AGAIN);
		assert_int_equal(changed, 0);
	}
	/* a writer of the same shares the others */
	const uint64_t other = rig_make(&rig, 1);
	write_large(other);
	assert_int_equal(run_of(other, 6).level, 0);
	assert_true(g4_address_is(run_of(other, 6).address, g4_address_after_pages(first, 6)));
	assert_false(g4_address_is(run_of(other, 5).address, g4_address_after_pages(first, 5)));
	expect_large(other);
	expect_large(ino);
	rig_end(&rig);
	free(sums);
}

/* ---------------------------------------------------------------------------------------------------- power cuts */

#define CUT_FILES 3u
#define CUT_PAGES 1024u
#define WRITES 6u
static uint32_t ever[CUT_FILES][CUT_PAGES][WRITES]; /* what was written there */

static uint64_t node_of(struct rig *r, uint32_t f)
{
	struct g4_attr attr = {0};
	char name[8];

	snprintf(name, sizeof(name), "f%u", f);
	return op_lookup(r, G4_NODE_ROOT, name, &attr) == 0 ? attr.ino : 0;
}

/* Writes of a large page each, whose pages are found by turns in files before; the last ones are written over and deleted. */
static bool write_all(struct rig *r, uint64_t seed)
{
	static uint32_t ids[512];
	uint64_t ino, done;

	fresh = 0;
	for (uint32_t w = 0; w < WRITES; w++) {
		const uint32_t f = w % CUT_FILES, first = w / CUT_FILES * 512;
		for (uint32_t k = 0; k < 512; k++) {
			ids[k] = w > 0 && rig_random(&seed) % 5 > 0 ? 1 + (uint32_t)(rig_random(&seed) % fresh) :
								      ++fresh;
			if (k > 0 && rig_random(&seed) % 3 > 0)
				ids[k] = ids[k - 1] < fresh ? ids[k - 1] + 1 : ++fresh;
			memcpy(data + k * G4_PAGE_BYTES, contents(ids[k]), G4_PAGE_BYTES);
			ever[f][first + k][w] = ids[k];
		}
		char name[8];
		snprintf(name, sizeof(name), "f%u", f);
		if ((first == 0 && op_mknod(r, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino) < 0) ||
		    (ino = node_of(r, f)) == 0 ||
		    op_write(r, ino, 0, first * G4_PAGE_BYTES, data, sizeof(ids) / 4 * G4_PAGE_BYTES, &done) < 0 ||
		    (w % 2 && op_fsync(r, ino) < 0))
			return false;
		if (w == 3 && op_truncate(r, node_of(r, 0), 300 * G4_PAGE_BYTES) < 0)
			return false;
	}
	return op_sync(r) == 0;
}

static void check_cut(struct rig *r)
{
	for (uint32_t f = 0; f < CUT_FILES; f++) {
		const uint64_t ino = node_of(r, f);
		uint64_t done;
		if (ino == 0)
			continue;
		assert_int_equal(op_read(r, ino, 0, 0, found, BYTES, &done), 0);
		for (uint64_t page = 0; page < done / G4_PAGE_BYTES; page++) {
			uint32_t id;
			bool known = false;
			memcpy(&id, found + page * G4_PAGE_BYTES, sizeof(id));
			for (uint32_t w = 0; w < WRITES; w++)
				known |= ever[f][page][w] == id;
			assert_true(known || id == 0);
			assert_true(rig_equal(found + page * G4_PAGE_BYTES, contents(id), G4_PAGE_BYTES));
		}
	}
}

static void through_power_cuts(void **state)
{
	const uint64_t every = rig_every(11);
	uint64_t reads, flushes, last = 0, seed = seed_of(100);
	struct g4_statfs statfs;
	struct rig r;

	(void)state;
	rig_open_as(&r, G4_CHECKSUM_BLAKE3, 1, 24 * G4_MIB, 2 * G4_MIB);
	uint8_t *base = malloc(r.bytes);
	assert_non_null(base);
	rig_copy(base, r.image, r.bytes);
	const struct g4_fault none = {0};
	for (uint64_t cut = 0; cut == 0 || cut <= last; cut += cut == 0 ? 1 : every) {
		const struct g4_fault fault = {.cut_after_writes = cut,
					       .seed = cut % 3 == 1 ? rig_random(&seed) | 1 : 0,
					       .keep_unflushed = cut % 3 == 2,
					       .cut_inside = cut % 2 == 1};
		bool synced = false;

		rig_copy(r.image, base, r.bytes);
		memset(ever, 0, sizeof(ever));
		if (rig_try_mount(&r, 0, cut == 0 ? &none : &fault) == 0) {
			synced = write_all(&r, seed_of(7));
			if (cut == 0) {
				g4_dev_fault_counts(r.fault, &reads, &last, &flushes);
				print_message("%lu writes to the device\n", (unsigned long)last);
			}
			g4_dev_fault_cut(r.fault);
			rig_abandon(&r);
		}
		assert_true(cut > 0 || (synced && last > 4));
		assert_int_equal(rig_try_mount(&r, 0, NULL), 0);
		check_cut(&r);
		assert_int_equal(op_statfs(&r, &statfs), 0);
		assert_int_equal(rig_unmount(&r), 0);
		rig_expect_clean(&r, statfs.blocks_free, "after a crash in a large write");
	}
	free(base);
	rig_close(&r);
}

/* ---------------------------------------------------------------------------------------------------- side by side */

#define THREADS 4u
#define POOL 3000u /* contents that all of them write, in rows */
static uint8_t wrote[THREADS][512 * G4_PAGE_BYTES], read_back[THREADS][512 * G4_PAGE_BYTES];

static void *write_and_cut(void *argument)
{
	const uint32_t number = (uint32_t)(uintptr_t)argument;
	uint64_t seed = seed_of(200 + number), done;
	struct rig own = rig; /* its workgroup */
	uint64_t ino;
	char name[16];

	own.wg = g4_wg_create(1 + number);
	snprintf(name, sizeof(name), "t%u", number);
	assert_int_equal(op_mknod(&own, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino), 0);
	for (uint32_t round = 0; round < (rig_slow() ? 10u : 40u); round++) {
		const uint64_t first = rig_random(&seed) % 4 * 512, row = 1 + rig_random(&seed) % 100;
		uint32_t id = 0;
		for (uint64_t k = 0; k < 512; k++) {
			id = k % row == 0 ? 1 + (uint32_t)(rig_random(&seed) % POOL) : id % POOL + 1;
			if (rig_random(&seed) % 10 == 0) /* nobody else's */
				id = POOL + 1 + ((number * 64 + round) * 512 + (uint32_t)k);
			memcpy(wrote[number] + k * G4_PAGE_BYTES, contents(id), G4_PAGE_BYTES);
		}
		assert_int_equal(
			op_write(&own, ino, 0, first * G4_PAGE_BYTES, wrote[number], sizeof(wrote[number]), &done), 0);
		assert_int_equal(done, sizeof(wrote[number]));
		if (round % 4 == 0)
			assert_int_equal(op_fsync(&own, ino), 0);
		assert_int_equal(op_read(&own, ino, 0, first * G4_PAGE_BYTES, read_back[number], sizeof(wrote[number]),
					 &done),
				 0);
		assert_true(rig_equal(read_back[number], wrote[number], sizeof(wrote[number])));
		if (round % 2)
			assert_int_equal(op_truncate(&own, ino, rig_random(&seed) % 2048 * G4_PAGE_BYTES), 0);
	}
	g4_wg_destroy(own.wg);
	return NULL;
}

/* What one finds others release meanwhile. */
static void side_by_side(void **state)
{
	pthread_t threads[THREADS];
	struct g4_ddt_stats stats;

	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_BLAKE3, 1, 128 * G4_MIB, 0, NULL);
	for (uintptr_t k = 0; k < THREADS; k++)
		assert_int_equal(pthread_create(&threads[k], NULL, write_and_cut, (void *)k), 0);
	for (uint32_t k = 0; k < THREADS; k++)
		pthread_join(threads[k], NULL);
	g4_ddt_stats(&rig.fs->ddt, &stats);
	assert_true(stats.found > 0);
	rig_end(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_there_is_room),
		cmocka_unit_test(where_it_gets_full),
		cmocka_unit_test(side_by_side),
		cmocka_unit_test(a_large_page_that_is_known_is_had_once),
		cmocka_unit_test(what_is_known_does_not_cross),
		cmocka_unit_test(one_page_of_it_may_have_gone),
		cmocka_unit_test(through_power_cuts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
