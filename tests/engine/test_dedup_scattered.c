/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Duplicates that lie far from each other: their owners are buffered, so that a device gets few bytes for them where the cache has no room
 * for the counts of all regions. Wherever an owner is counted, the number is the same, and the checker knows it.
 */
#include "rig.h"

#include <stdlib.h>

#include "alloc/listing.h"
#include "alloc/share.h"
#include "damage.h"
#include "data/dedup.h"
#include "data/file.h"
#include "data/map.h"
#include "fs/execute.h"
#include "fs/fs.h"
#include "fsck/fsck.h"
#include "inode/txn.h"
#include "journal/journal.h"
#include "simt/simt_host.h"

#define KNOWN 65536u /* pages: 128 regions, as many as a transaction changes blocks */
#define PAGES 12288u /* nine in ten are more than the pages of buffered owners hold */
#define PART 256u    /* pages of a write */
#define CACHE_BYTES (4 * G4_MIB)
#define IMAGE_BYTES (384 * G4_MIB)

static struct rig rig;
static uint8_t data[PART * G4_PAGE_BYTES];

/* ---------------------------------------------------------------------------------------------------- what is written */

/* Of a page: by its type, G4_BLOCK_NONE for contents, and for maps and their sums, whose headers lie elsewhere, INDIRECT. */
static struct {
	uint64_t log[32], home[32];
	uint8_t is_metadata[IMAGE_BYTES / G4_PAGE_BYTES]; /* a record had an image of it */
} pages;

static void note_page(uint64_t address, const void *page)
{
	const struct g4_block_header *header = page;
	const struct g4_journal_descriptor *record = page;
	const struct g4_layout *layout = &rig.fs->meta.layout;
	const bool known =
		header->magic == G4_BLOCK_MAGIC && header->fs_tag == rig.fs->meta.fs_tag && header->type < 32;
	const bool in_log = address >= layout->journal_address && address < layout->groups_address;

	if (in_log && known && header->type == G4_BLOCK_JOURNAL_DESCRIPTOR)
		for (uint32_t k = 0; k < G4_JOURNAL_TAGS && k < record->block_count; k++)
			pages.is_metadata[record->tags[k] / G4_PAGE_BYTES] = 1;
	if (in_log)
		pages.log[known ? header->type : G4_BLOCK_INDIRECT]++;
	else if (pages.is_metadata[address / G4_PAGE_BYTES])
		pages.home[known ? header->type : G4_BLOCK_INDIRECT]++;
	else
		pages.home[G4_BLOCK_NONE]++;
}

static void note_writes(void *context, const struct g4_io *io)
{
	uint64_t address = io->offset_bytes;

	(void)context;
	for (uint32_t k = 0; io->op == G4_IO_WRITE && k < io->iov_count; k++)
		for (uint64_t at = 0; at < io->iov[k].bytes; at += G4_PAGE_BYTES, address += G4_PAGE_BYTES)
			note_page(address, (const uint8_t *)io->iov[k].base + at);
}

static uint64_t all_pages(void)
{
	uint64_t sum = 0;

	for (uint32_t type = 0; type < 32; type++) {
		sum += pages.log[type] + pages.home[type];
		if (pages.log[type] + pages.home[type] > 0)
			print_message("  type %2u: %6lu pages in the log, %6lu at home\n", type, pages.log[type],
				      pages.home[type]);
	}
	return sum;
}

/* ---------------------------------------------------------------------------------------------------- files */

/* Of page n, which no other has. */
static void make_page(uint64_t n, uint8_t *to)
{
	rig_pattern(to, n + 1, G4_PAGE_BYTES);
}

/* A file of pages of which so many in ten are one of those that are known, in rows. */
static void write_file(uint32_t number, uint64_t first, uint64_t count, uint32_t duplicates, uint32_t row)
{
	const uint64_t ino = rig_make(&rig, number);
	uint64_t seed = number + 1, done, from = 0;
	bool known = false;

	memset(&pages, 0, sizeof(pages));
	for (uint64_t page = 0; page < count; page += PART) {
		for (uint64_t k = 0; k < PART; k++) {
			if ((page + k) % row == 0) {
				known = rig_random(&seed) % 10 < duplicates;
				from = rig_random(&seed) % (KNOWN - row + 1);
			}
			make_page(known ? from++ : first++, data + k * G4_PAGE_BYTES);
		}
		assert_int_equal(op_write(&rig, ino, 0, page * G4_PAGE_BYTES, data, sizeof(data), &done), 0);
		assert_int_equal(done, sizeof(data));
	}
	assert_int_equal(op_sync(&rig), 0);
}

/* Each page that was written was there, was not, or holds zeros. */
static void expect_counted(uint64_t count)
{
	struct g4_dedup_counts counts;
	struct g4_cmd cmd = {.op = G4_CMD_DEDUP, .mask = G4_DEDUP_STATS, .data = &counts, .length = sizeof(counts)};

	assert_int_equal(g4_execute(rig.wg, rig.fs, &cmd), 0);
	assert_true(counts.hits <= count && counts.misses <= count);
	assert_int_equal(counts.hits + counts.misses + counts.zeros, count);
}

static void begin(const char *dedup)
{
	static const struct g4_fault harmless = {0};

	setenv("G4_TEST_CHECKSUM", "1", 1);
	setenv("G4_TEST_DEDUP", dedup, 1);
	rig_begin(&rig, IMAGE_BYTES, CACHE_BYTES, &harmless);
	g4_dev_fault_watch(rig.dev, note_writes, NULL);
}

static void end(void)
{
	g4_dev_fault_watch(rig.dev, NULL, NULL);
	rig_end(&rig);
	unsetenv("G4_TEST_CHECKSUM");
	unsetenv("G4_TEST_DEDUP");
}

static void a_scattered_duplicate_costs_less_than_a_page(void **state)
{
	uint64_t without, single, rows;

	(void)state;
	begin("0");
	write_file(0, 0, PAGES, 0, 1);
	without = all_pages();
	end();
	begin("1");
	write_file(0, 0, KNOWN, 0, 1);
	print_message("known: %lu blocks a transaction\n", (unsigned long)rig.fs->journal.max_blocks);
	all_pages();
	write_file(1, KNOWN, PAGES, 9, 1);
	print_message("single, %lu commits\n", (unsigned long)rig.fs->journal.commits);
	single = all_pages();
	expect_counted(KNOWN + PAGES);
	write_file(2, KNOWN + PAGES, PAGES, 9, 128);
	print_message("rows, %lu commits\n", (unsigned long)rig.fs->journal.commits);
	rows = all_pages();
	expect_counted(KNOWN + 2 * PAGES);
	end();
	print_message("%.3f times as much one by one, %.3f in rows\n", (double)single / (double)without,
		      (double)rows / (double)without);
	assert_true(rows <= without / 5);
	assert_true(single <= without / 5);
}

/* ---------------------------------------------------------------------------------------------------- counts */

#define COUNTED 1400u /* pages: three regions at least */
#define MORE_OWNERS 3u
static uint32_t model[COUNTED]; /* owners beyond the first */
static uint64_t places[COUNTED];

/* A file of pages, of which the engine knows where they are. */
static uint64_t open_counted(uint64_t bytes, uint32_t pages_of_file)
{
	uint64_t done;

	setenv("G4_TEST_CHECKSUM", "1", 1);
	setenv("G4_TEST_DEDUP", "1", 1);
	rig_begin(&rig, bytes, 0, NULL);
	const uint64_t ino = rig_make(&rig, 0);
	for (uint64_t page = 0; page < pages_of_file; page++) {
		make_page(page, data);
		assert_int_equal(op_write(&rig, ino, 0, page * G4_PAGE_BYTES, data, G4_PAGE_BYTES, &done), 0);
	}
	assert_int_equal(op_sync(&rig), 0);
	for (uint64_t page = 0; page < pages_of_file; page++)
		places[page] = rig_place(&rig, ino, page);
	memset(model, 0, sizeof(model));
	return ino;
}

static struct g4_alloc_page *map_at(uint64_t at)
{
	return (struct g4_alloc_page *)(void *)damage_map(&rig, at);
}

/* Of what is at `at` in the unmounted image; NULL: none of its group is shared. */
static struct g4_shares_page *shares_at(uint64_t at)
{
	const uint64_t address = map_at(at)->shares;

	return address ? (struct g4_shares_page *)(void *)&rig.image[address] : NULL;
}

static struct g4_buffered_page *buffered_at(uint64_t at)
{
	const struct g4_shares_page *shares = shares_at(at);

	return shares && shares->buffered ? (struct g4_buffered_page *)(void *)&rig.image[shares->buffered] : NULL;
}

/* Owners beyond the first of the page at `at`, as the image counts them. */
static uint32_t counted(uint64_t at)
{
	const uint64_t page = at / G4_PAGE_BYTES % G4_GROUP_PAGES;
	const struct g4_shares_page *shares = shares_at(at);
	const struct g4_buffered_page *buffered = buffered_at(at);
	const uint64_t owners = shares ? shares->owners[page / G4_REGION_PAGES] : 0;
	uint32_t count = 0;

	if (owners)
		count = ((struct g4_owners_page *)(void *)&rig.image[owners])->more[page % G4_REGION_PAGES];
	for (uint32_t k = 0; buffered && k < buffered->count; k++)
		count += buffered->pages[k] == page;
	return count;
}

/* Pages of counts that the group of the page at `at` has, in the unmounted image. */
static uint32_t pages_of_counts(uint64_t at)
{
	uint32_t count = 0;

	for (uint32_t region = 0; region < G4_GROUP_REGIONS; region++)
		count += shares_at(at)->owners[region] != 0;
	return count;
}

/* As many neighbours of page `first` as are one extent, up to `most`. */
static uint64_t row_at(uint32_t first, uint64_t most)
{
	uint64_t row = 1;

	while (row < most && first + row < COUNTED && places[first + row] == places[first] + row * G4_PAGE_BYTES &&
	       places[first + row] / G4_REGION_BYTES == places[first] / G4_REGION_BYTES)
		row++;
	return row;
}

/* An owner more of each of some pages, or one less, as a file would that had them. False: there was no room, and nothing changed. */
static bool change_owners(uint32_t first, uint64_t row, bool more)
{
	const struct g4_address address = g4_address_from(places[first]);
	struct g4_txn txn;

	assert_int_equal(g4_begin(rig.wg, rig.fs, G4_ALLOC_CREDITS + G4_SHARE_RELEASE_MOST, &txn), 0);
	const int rc = more ? g4_share_acquire(rig.wg, &rig.fs->alloc, &txn, address, row) :
			      g4_share_release(rig.wg, &rig.fs->alloc, &txn, address, row);
	assert_int_equal(g4_end(rig.fs, &txn, rc == -G4_E_NOSPC ? 0 : rc), 0);
	assert_true(rc == 0 || more); /* deletes need no room */
	for (uint64_t k = 0; k < row && rc == 0; k++)
		model[first + k] += more ? 1 : (uint32_t)-1;
	return rc == 0;
}

/* Random ones. How many there was no room for. */
static uint32_t change_many(uint32_t changes, uint64_t *seed)
{
	uint32_t refused = 0;

	for (uint32_t n = 0; n < changes; n++) {
		const uint32_t first = (uint32_t)(rig_random(seed) % COUNTED);
		uint64_t row = rig_random(seed) % 16 ? 1 : row_at(first, 1 + rig_random(seed) % 40);
		bool more = rig_random(seed) % 3 != 0;
		for (uint64_t k = 0; k < row && !more; k++)
			more = model[first + k] == 0;
		for (uint64_t k = 0; k < row && more; k++)
			more = model[first + k] < MORE_OWNERS;
		if (more || model[first] > 0)
			refused += !change_owners(first, more ? row : 1, more);
	}
	return refused;
}

static void release_all(void)
{
	for (uint32_t page = 0; page < COUNTED; page++)
		while (model[page] > 0)
			assert_true(change_owners(page, 1, false));
}

/* Others take all of the transaction's credits but so many. */
static void fill_journal(uint32_t room)
{
	struct g4_journal *journal = &rig.fs->journal;
	const uint64_t used = g4_load64_rlx(&journal->gate) & UINT32_MAX;

	assert_true(used + room <= journal->max_blocks);
	g4_add64(&journal->gate, journal->max_blocks - used - room);
}

static void unmount(void)
{
	assert_int_equal(op_sync(&rig), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
}

static void expect_counts(void)
{
	for (uint32_t page = 0; page < COUNTED; page++)
		assert_int_equal(counted(places[page]), model[page]);
}

static void remount(void)
{
	unmount();
	expect_counts();
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

static void counts_are_the_same_wherever_they_are(void **state)
{
	uint64_t seed = 5;

	(void)state;
	open_counted(64 * G4_MIB, COUNTED);
	for (uint32_t n = 0; n < G4_BUFFERED_MOST; n++)
		assert_true(change_owners(n % COUNTED, 1, true));
	unmount();
	expect_counts();
	assert_int_equal(pages_of_counts(places[0]), 0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_true(change_owners(0, 1, true)); /* it is full: a region is settled */
	unmount();
	expect_counts();
	assert_int_equal(pages_of_counts(places[0]), 1);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	for (uint32_t round = 0; round < 3; round++) {
		assert_int_equal(change_many(4000, &seed), 0);
		remount();
	}
	release_all();
	remount();
	rig_end(&rig);
}

/*
 * The region that is settled is that of the pages that just get owners, by one call: its page of counts is made behind the back of that, which makes
 * no other.
 */
static void the_region_that_is_settled_may_be_the_callers(void **state)
{
	struct g4_sum_entry sums[12];
	struct g4_txn txn;

	(void)state;
	for (uint32_t each = 0; each < 2; each++) {
		open_counted(64 * G4_MIB, COUNTED);
		for (uint32_t k = 0; k < 12; k++) {
			const void *page = data;
			make_page(k, data);
			g4_sums_make(rig.wg, G4_CHECKSUM_BLAKE3, &page, 1, &sums[k]);
		}
		assert_int_equal(row_at(0, 12), 12);
		for (uint32_t n = 0; n < G4_BUFFERED_MOST; n++)
			assert_true(change_owners(n % 12, 1, true));
		struct g4_listing_each found;
		memset(&found, 0, sizeof(found));
		found.which[0] = (1u << 12) - 1;
		assert_int_equal(g4_begin(rig.wg, rig.fs, G4_ALLOC_CREDITS + G4_SHARE_RELEASE_MOST, &txn), 0);
		const int got = each ? g4_share_acquire_each(rig.wg, &rig.fs->alloc, &txn, g4_address_from(places[0]),
							     12, places, sums, 0, &found) :
				       g4_share_acquire_listed(rig.wg, &rig.fs->alloc, &txn, g4_address_from(places[0]),
							       12, sums, 0, 0);
		assert_int_equal(g4_end(rig.fs, &txn, 0), 0);
		assert_int_equal(got, 12);
		for (uint32_t k = 0; k < 12; k++)
			model[k]++;
		unmount();
		expect_counts();
		assert_int_equal(pages_of_counts(places[0]), 1);
		assert_int_equal(buffered_at(places[0])->count, 12);
		rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
		release_all();
		rig_end(&rig);
	}
}

/* What is there is used to its end; then pages are refused, and nothing else. */
static void without_room_owners_still_go(void **state)
{
	uint64_t seed = 6;

	(void)state;
	open_counted(64 * G4_MIB, COUNTED);
	assert_true(change_owners(0, 1, true));
	const uint64_t taken = g4_load64_rlx(&rig.fs->alloc.free_pages);
	for (uint64_t k = 0; k < taken; k++)
		if (!g4_alloc_reserve(&rig.fs->alloc, 1))
			break;
	const uint64_t reserved = g4_load64_rlx(&rig.fs->alloc.reserved);
	const uint32_t refused = change_many(8000, &seed);
	print_message("%u of 8000 changes were refused\n", refused);
	assert_true(refused > 0);
	release_all();
	g4_alloc_unreserve(&rig.fs->alloc, reserved);
	remount();
	rig_end(&rig);
}

/* Of pages that two in a row share, so that they have a page of counts: the first one of these. */
static void open_with_counts(void)
{
	open_counted(64 * G4_MIB, 2);
	assert_int_equal(row_at(0, 2), 2);
	assert_true(change_owners(0, 2, true));
	assert_int_equal(op_sync(&rig), 0);
}

/* References whatever the cache can give away: nothing new comes in. */
static uint32_t hold_cache(uint32_t *lines, uint32_t most)
{
	struct g4_cache *cache = &rig.fs->cache;
	uint32_t count = 0, refused = 0;

	for (uint64_t index = 0; count < most && refused < 4096; index++) {
		bool fresh;
		const uint32_t line = g4_cache_get(NULL, cache, UINT64_C(1) << 60, index, false, &fresh);
		if (line != G4_NO_LINE && fresh)
			g4_cache_filled(cache, line);
		if (line != G4_NO_LINE)
			lines[count++] = line;
		refused += line == G4_NO_LINE;
	}
	return count;
}

/* A page is taken for buffered owners, and can not be had in the cache: nobody leads to it. */
static void what_is_half_done_stops_the_journal(void **state)
{
	static uint32_t lines[65536];
	struct g4_txn txn;

	(void)state;
	open_with_counts();
	assert_int_equal(g4_begin(rig.wg, rig.fs, 2 * G4_SHARE_CREDITS, &txn), 0);
	const uint32_t count = hold_cache(lines, 65536);
	assert_in_range(count, 1, 65535);
	const int rc = g4_share_acquire(rig.wg, &rig.fs->alloc, &txn, g4_address_from(places[0]), 1);
	for (uint32_t k = 0; k < count; k++)
		g4_cache_put(&rig.fs->cache, lines[k]);
	assert_int_equal(rc, -G4_E_NOMEM);
	assert_int_equal(g4_end(rig.fs, &txn, rc), rc);
	assert_int_not_equal(rig.fs->journal.aborted, 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, false);
	rig_close(&rig);
	g4_wg_destroy(rig.wg);
}

/* One damaged page of counts of another region: owners are counted without the buffer that it keeps full. */
static void a_region_that_can_not_be_settled_stops_no_other(void **state)
{
	struct g4_txn txn;
	uint32_t other = 0;

	(void)state;
	open_counted(64 * G4_MIB, COUNTED);
	const uint64_t region = places[0] / G4_REGION_BYTES;
	while (places[other] / G4_REGION_BYTES == region)
		other++;
	assert_int_equal(row_at(0, 2), 2);
	assert_true(change_owners(0, 2, true));
	unmount();
	const uint64_t owners = shares_at(places[0])->owners[places[0] / G4_REGION_BYTES % G4_GROUP_REGIONS];
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	for (uint32_t n = 0; n < G4_BUFFERED_MOST; n++)
		assert_true(change_owners(n % 2, 1, true));
	unmount();
	rig.image[owners + 777] ^= 1;
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_true(change_owners(other, 1, true));
	assert_int_equal(g4_begin(rig.wg, rig.fs, 2 * G4_SHARE_CREDITS, &txn), 0);
	assert_true(g4_share_acquire(rig.wg, &rig.fs->alloc, &txn, g4_address_from(places[0]), 1) < 0);
	assert_int_equal(g4_end(rig.fs, &txn, 0), 0);
	unmount();
	rig.image[owners + 777] ^= 1;
	expect_counts();
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	release_all();
	rig_end(&rig);
}

/* Others have filled the transaction: a release does with what it announces, and an empty page goes with what was in it. */
static void a_release_takes_no_more_than_it_announces(void **state)
{
	struct g4_txn txn;
	uint64_t count;

	(void)state;
	open_counted(64 * G4_MIB, 1);
	const uint64_t group = places[0] / G4_PAGE_BYTES / G4_GROUP_PAGES;
	assert_true(change_owners(0, 1, true));
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(g4_begin(rig.wg, rig.fs, g4_share_release_credits(1), &txn), 0);
	fill_journal(0);
	assert_int_equal(g4_share_release(rig.wg, &rig.fs->alloc, &txn, g4_address_from(places[0]), 1), 0);
	assert_int_equal(g4_load64_rlx(&rig.fs->journal.gate) & UINT32_MAX, rig.fs->journal.max_blocks);
	assert_int_equal(g4_end(rig.fs, &txn, 0), 0);
	model[0]--;
	unmount();
	assert_null(buffered_at(places[0]));
	assert_int_not_equal(map_at(places[0])->shares, 0); /* the page is listed */
	/* without its last owner's release a page of sums without a listed page goes when somebody prunes */
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(g4_begin(rig.wg, rig.fs, 1, &txn), 0);
	assert_int_equal(g4_share_unlist(rig.wg, &rig.fs->alloc, &txn, g4_address_from(places[0])), 0);
	assert_int_equal(g4_end(rig.fs, &txn, 0), 0);
	assert_int_equal(g4_dedup_prune(rig.wg, rig.fs, group, G4_LISTING_ANY_DAY, &count),
			 0); /* which lists nothing */
	assert_int_equal(count, 0);
	unmount();
	assert_int_equal(map_at(places[0])->shares, 0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	rig_end(&rig);
}

/* ---------------------------------------------------------------------------------------------------- files */

#define SHARED 40u

static uint64_t second_file(uint32_t number)
{
	const uint64_t ino = rig_make(&rig, number);
	uint64_t done;

	for (uint64_t page = 0; page < SHARED; page++) {
		make_page(page, data);
		assert_int_equal(op_write(&rig, ino, 0, page * G4_PAGE_BYTES, data, G4_PAGE_BYTES, &done), 0);
	}
	assert_int_equal(op_sync(&rig), 0);
	for (uint64_t page = 0; page < SHARED; page++)
		assert_int_equal(rig_place(&rig, ino, page), places[page]);
	return ino;
}

static void expect_contents(uint64_t ino)
{
	uint64_t done;

	for (uint64_t page = 0; page < SHARED; page++) {
		make_page(page, data);
		assert_int_equal(
			op_read(&rig, ino, 0, page * G4_PAGE_BYTES, data + G4_PAGE_BYTES, G4_PAGE_BYTES, &done), 0);
		assert_memory_equal(data, data + G4_PAGE_BYTES, G4_PAGE_BYTES);
	}
}

/* Whichever goes first, the other one keeps its pages, and no page of counts is made for what comes and goes. */
static void buffered_owners_go_with_their_files(void **state)
{
	(void)state;
	open_counted(64 * G4_MIB, SHARED);
	const uint64_t free_pages = rig_free_pages(&rig);
	second_file(1);
	unmount();
	assert_non_null(buffered_at(places[0]));
	assert_int_equal(pages_of_counts(places[0]), 0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f1"), 0);
	assert_true(rig_free_pages(&rig) >= free_pages); /* a slab may be kept */
	const uint64_t b = second_file(2);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f0"), 0);
	expect_contents(b);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f2"), 0);
	rig_end(&rig);
}

/* A file's pages go in a transaction that gets nothing beyond what it has begun with. */
static void free_in_a_full_journal(uint64_t ino)
{
	uint32_t index;

	assert_int_equal(op_sync(&rig), 0);
	const uint64_t running = rig.fs->journal.running;
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	fill_journal(2 * G4_MAP_CREDITS);
	g4_write_lock(&g4_icache_at(rig.fs, index)->lock);
	assert_int_equal(g4_file_free(rig.wg, rig.fs, index), 0);
	g4_write_unlock(&g4_icache_at(rig.fs, index)->lock);
	g4_icache_put(rig.fs, index);
	assert_int_equal(rig.fs->journal.running, running);
	assert_true((g4_load64_rlx(&rig.fs->journal.gate) & UINT32_MAX) <= rig.fs->journal.max_blocks);
}

/* The last file of a group may be the last that ever comes by: nothing of what was shared and listed is left behind it. */
static void what_is_empty_goes_however_full_the_journal_is(void **state)
{
	(void)state;
	const uint64_t a = open_counted(64 * G4_MIB, SHARED), b = second_file(1);
	free_in_a_full_journal(b);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f1"), 0);
	unmount();
	assert_null(buffered_at(places[0]));
	assert_int_not_equal(map_at(places[0])->shares, 0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	free_in_a_full_journal(a);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f0"), 0);
	unmount();
	for (uint64_t page = 0; page < SHARED; page++)
		assert_int_equal(map_at(places[page])->shares, 0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	rig_end(&rig);
}

/* ---------------------------------------------------------------------------------------------------- the checker */

enum damage { SURPLUS, MISSING, OUTSIDE, TOO_MANY, BROKEN, NOWHERE, FEATURE, DAMAGES };

static void drop_feature(void)
{
	for (uint32_t copy = 0; copy < 2; copy++) {
		const uint64_t at = copy ? rig.bytes - G4_PAGE_BYTES : G4_SUPERBLOCK_ADDRESS;
		struct g4_superblock *sb = (struct g4_superblock *)(void *)&rig.image[at];
		sb->features_incompat &= ~G4_FEATURE_INCOMPAT_BUFFERED;
		damage_seal(&rig, at);
	}
}

static void damage_buffered(enum damage kind)
{
	struct g4_shares_page *shares = shares_at(places[0]);
	struct g4_buffered_page *buffered = buffered_at(places[0]);
	const uint64_t at = shares->buffered;

	switch (kind) {
	case SURPLUS:
		buffered->pages[buffered->count++] = buffered->pages[0];
		break;
	case MISSING:
		buffered->count--;
		break;
	case OUTSIDE:
		buffered->pages[0] = G4_GROUP_PAGES;
		break;
	case TOO_MANY:
		buffered->count = G4_BUFFERED_MOST + 1;
		break;
	case BROKEN:
		buffered->pages[0] ^= 1;
		return; /* its checksum tells */
	case NOWHERE:
		shares->buffered = 0;
		damage_seal(&rig, map_at(places[0])->shares);
		return;
	default:
		drop_feature();
		return;
	}
	damage_seal(&rig, at);
}

/* No file is lost by it, and nothing wrong is left. */
static void repair_and_mount(void)
{
	struct rig_repair how = {0};

	assert_int_equal(rig_repair(&rig, &how), 0);
	assert_int_equal(how.outcome[G4_FSCK_LOST], 0);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

static void wrong_buffered_owners_are_found_and_repaired(void **state)
{
	(void)state;
	for (uint32_t kind = 0; kind < DAMAGES; kind++) {
		char *text;

		const uint64_t a = open_counted(64 * G4_MIB, SHARED), b = second_file(1);
		unmount();
		damage_buffered((enum damage)kind);
		const struct rig_verdict verdict = rig_fsck(&rig, &text);
		if (verdict.problems == 0)
			print_error("damage %u is not found\n", kind);
		assert_int_not_equal(verdict.problems, 0);
		if (kind == BROKEN || kind == FEATURE) { /* what is counted is not known: no pointer is blamed */
			assert_null(strstr(text, "/f0"));
			assert_null(strstr(text, "/f1"));
		}
		free(text);
		repair_and_mount();
		expect_contents(a);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f0"), 0);
		expect_contents(b);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f1"), 0);
		rig_end(&rig);
	}
}

/* Of a hostile image: one page has as many owners as a count has numbers, and a buffered one. */
static void more_owners_than_can_be_counted_are_found(void **state)
{
	char *text;

	(void)state;
	open_with_counts();
	assert_true(change_owners(0, 1, true));
	unmount();
	assert_non_null(buffered_at(places[0]));
	const uint64_t page = places[0] / G4_PAGE_BYTES % G4_GROUP_PAGES;
	const uint64_t at = shares_at(places[0])->owners[page / G4_REGION_PAGES];
	((struct g4_owners_page *)(void *)&rig.image[at])->more[page % G4_REGION_PAGES] = UINT32_MAX;
	damage_seal(&rig, at);
	rig_fsck(&rig, &text);
	assert_non_null(strstr(text, "more than can be counted"));
	free(text);
	repair_and_mount();
	rig_end(&rig);
}

/* An image from before owners were buffered: its counts stay, and the first mount that may write says that they may be. */
static void an_older_image_gets_buffers(void **state)
{
	(void)state;
	open_counted(64 * G4_MIB, SHARED);
	unmount();
	drop_feature();
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_true(rig.fs->super.features_incompat & G4_FEATURE_INCOMPAT_BUFFERED);
	second_file(1);
	unmount();
	assert_non_null(buffered_at(places[0]));
	for (uint32_t copy = 0; copy < 2; copy++) {
		const uint64_t at = copy ? rig.bytes - G4_PAGE_BYTES : G4_SUPERBLOCK_ADDRESS;
		assert_true(((struct g4_superblock *)(void *)&rig.image[at])->features_incompat &
			    G4_FEATURE_INCOMPAT_BUFFERED);
	}
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	rig_end(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_scattered_duplicate_costs_less_than_a_page),
		cmocka_unit_test(counts_are_the_same_wherever_they_are),
		cmocka_unit_test(the_region_that_is_settled_may_be_the_callers),
		cmocka_unit_test(without_room_owners_still_go),
		cmocka_unit_test(what_is_half_done_stops_the_journal),
		cmocka_unit_test(a_region_that_can_not_be_settled_stops_no_other),
		cmocka_unit_test(a_release_takes_no_more_than_it_announces),
		cmocka_unit_test(buffered_owners_go_with_their_files),
		cmocka_unit_test(what_is_empty_goes_however_full_the_journal_is),
		cmocka_unit_test(wrong_buffered_owners_are_found_and_repaired),
		cmocka_unit_test(more_owners_than_can_be_counted_are_found),
		cmocka_unit_test(an_older_image_gets_buffers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
