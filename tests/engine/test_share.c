/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that share pages: COPY_RANGE copies nothing where it need not, nobody sees the others' changes, space is counted once and
 * is free when its last owner goes, and the checker finds counts that are wrong. (Power cuts: the crash explorer's "copy" and "share".)
 */
#include "damage.h"
#include "rig.h"

#include <pthread.h>

#include "format/owners.h"
#include "fs/fs.h"
#include "fsck/fsck.h"
#include "journal/block.h"
#include "simt/simt_host.h"

#define FILES 6u
#define MOST_PAGES 1200u /* more than a region */
#define MOST_BYTES (MOST_PAGES * (uint64_t)G4_PAGE_BYTES)

static struct rig rig;
static struct g4_wg *wg;
static uint8_t found[MOST_BYTES], data[MOST_BYTES];

static int setup(void **state)
{
	(void)state;
	wg = g4_wg_create(0);
	rig_open(&rig, 128 * G4_MIB, 0);
	rig.fs = rig_mount_fs(&rig, wg, NULL);
	rig.wg = wg;
	return 0;
}

static void unmount(void)
{
	struct g4_statfs statfs;

	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &statfs), 0);
	assert_int_equal(rig.fs->alloc.reserved, 0);
	rig_unmount_fs(&rig, wg, rig.fs, true);
	rig.fs = NULL;
	rig_expect_clean(&rig, statfs.blocks_free, "at the end");
}

static int teardown(void **state)
{
	(void)state;
	if (rig.fs)
		unmount();
	rig_close(&rig);
	g4_wg_destroy(wg);
	return 0;
}

static uint64_t make(const char *name)
{
	uint64_t ino;

	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &ino), 0);
	return ino;
}

static uint64_t make_with(const char *name, uint64_t seed, uint64_t bytes)
{
	const uint64_t ino = make(name);

	rig_pattern(data, seed, bytes);
	assert_int_equal(op_write(&rig, ino, 0, 0, data, bytes, NULL), 0);
	return ino;
}

static uint64_t copy(uint64_t from, uint64_t from_offset, uint64_t to, uint64_t to_offset, uint64_t bytes)
{
	uint64_t in, out, done = 0, all = 0;
	int rc = 0;

	assert_int_equal(op_open(&rig, from, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, to, G4_OPEN_WRITE, &out), 0);
	do {
		rc = op_copy(&rig, in, from_offset + all, out, to_offset + all, bytes - all, &done);
		all += done;
	} while (rc == 0 && done > 0 && all < bytes);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
	return all;
}

/* The same of a whole file, the first page by itself: each page has another owner, and not the indirect page that leads to them. */
static uint64_t copy_pages(uint64_t from, uint64_t to, uint64_t bytes)
{
	const uint64_t first = copy(from, 0, to, 0, G4_PAGE_BYTES);

	return first + copy(from, first, to, first, bytes - first);
}

/* The device address of a page, 0: a hole. */
static uint64_t address_of(uint64_t ino, uint64_t page)
{
	struct g4_map_extent extent;
	uint32_t count;

	assert_int_equal(op_map(&rig, ino, page * G4_PAGE_BYTES, &extent, 1, &count), 0);
	return count == 0 || extent.offset > page * G4_PAGE_BYTES ?
		       0 :
		       extent.address + (page * G4_PAGE_BYTES - extent.offset);
}

static void expect(uint64_t ino, const uint8_t *contents, uint64_t bytes)
{
	uint64_t done;

	assert_int_equal(op_read(&rig, ino, 0, 0, found, MOST_BYTES, &done), 0);
	assert_int_equal(done, bytes);
	assert_memory_equal(found, contents, bytes);
}

static void a_copy_takes_no_space_and_is_a_file_of_its_own(void **state)
{
	static uint8_t other[MOST_BYTES];
	const uint64_t bytes = MOST_BYTES - 1000; /* the last page is not full */
	const uint64_t a = make_with("a", 1, bytes), b = make("b");
	const uint64_t before = rig_free_pages(&rig);

	(void)state;
	assert_int_equal(copy(a, 0, b, 0, bytes), bytes);
	expect(b, data, bytes);
	assert_true(before - rig_free_pages(&rig) <= 32); /* maps, counts, and pages of sums where there are any */
	for (uint64_t page = 0; page < MOST_PAGES; page += 99)
		assert_int_equal(address_of(a, page), address_of(b, page));
	assert_int_equal(address_of(a, MOST_PAGES - 1), address_of(b, MOST_PAGES - 1));
	memcpy(other, data, bytes);
	memset(&other[5000], 7, 10000);
	assert_int_equal(op_write(&rig, b, 0, 5000, &other[5000], 10000, NULL), 0);
	assert_int_equal(op_truncate(&rig, b, bytes - 5000), 0);
	assert_int_equal(op_fsync(&rig, b), 0);
	expect(a, data, bytes);
	expect(b, other, bytes - 5000);
	assert_int_not_equal(address_of(a, 2), address_of(b, 2));
	assert_int_equal(address_of(a, 5), address_of(b, 5));
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "a"), 0);
	unmount();
	rig.fs = rig_mount_fs(&rig, wg, NULL);
	expect(b, other, bytes - 5000);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "b"), 0);
	assert_true(rig_free_pages(&rig) >= before + MOST_PAGES);
}

/* Nothing but whole pages at page's boundaries can be shared; what is tiny has none. */
static void what_can_not_be_shared_is_copied(void **state)
{
	const uint64_t a = make_with("a", 2, 20 * G4_PAGE_BYTES), b = make("b"), c = make("c"), d = make("d");

	(void)state;
	assert_int_equal(copy(a, 100, b, 0, 10 * G4_PAGE_BYTES), 10 * G4_PAGE_BYTES);
	expect(b, &data[100], 10 * G4_PAGE_BYTES);
	assert_int_equal(copy(a, G4_PAGE_BYTES, c, 0, 3 * G4_PAGE_BYTES + 10), 3 * G4_PAGE_BYTES + 10);
	expect(c, &data[G4_PAGE_BYTES], 3 * G4_PAGE_BYTES + 10);
	assert_int_equal(op_fsync(&rig, c), 0);
	assert_int_equal(address_of(c, 2), address_of(a, 3));
	assert_int_not_equal(address_of(c, 3), address_of(a, 4));
	assert_int_equal(copy(make_with("e", 3, 100), 0, d, 0, 1000), 100);
	expect(d, data, 100);
}

static void a_file_shares_with_itself(void **state)
{
	const uint64_t a = make_with("a", 4, 30 * G4_PAGE_BYTES);

	(void)state;
	assert_int_equal(copy(a, 0, a, 40 * G4_PAGE_BYTES, 30 * G4_PAGE_BYTES), 30 * G4_PAGE_BYTES);
	memmove(&data[40 * G4_PAGE_BYTES], data, 30 * G4_PAGE_BYTES);
	memset(&data[30 * G4_PAGE_BYTES], 0, 10 * G4_PAGE_BYTES);
	expect(a, data, 70 * G4_PAGE_BYTES);
	assert_int_equal(address_of(a, 7), address_of(a, 47));
	assert_int_equal(op_truncate(&rig, a, 8 * G4_PAGE_BYTES), 0);
	expect(a, data, 8 * G4_PAGE_BYTES);
}

/* One page in more places than the device has pages: all of it is there after a mount, and can be removed. */
static void a_file_may_have_more_pages_than_the_device(void **state)
{
	const uint64_t a = make_with("a", 4, G4_PAGE_BYTES), most = 2 * rig.bytes;
	uint64_t bytes = G4_PAGE_BYTES;

	(void)state;
	for (; bytes < most; bytes *= 2)
		assert_int_equal(copy(a, 0, a, bytes, bytes), bytes);
	rig_unmount_fs(&rig, wg, rig.fs, true);
	rig_expect_clean(&rig, RIG_ANY_FREE, "with a page in so many places");
	rig.fs = rig_mount_fs(&rig, wg, NULL);
	assert_int_equal(op_read(&rig, a, 0, bytes - G4_PAGE_BYTES, found, G4_PAGE_BYTES, NULL), 0);
	assert_memory_equal(found, data, G4_PAGE_BYTES);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "a"), 0);
}

static void holes_and_allocated_space_are_holes_in_the_copy(void **state)
{
	const uint64_t a = make_with("a", 5, 4 * G4_PAGE_BYTES), b = make_with("b", 6, 20 * G4_PAGE_BYTES);
	uint64_t at;

	(void)state;
	assert_int_equal(op_fallocate(&rig, a, 0, 8 * G4_PAGE_BYTES, 4 * G4_PAGE_BYTES), 0);
	assert_int_equal(copy(a, 0, b, 0, 12 * G4_PAGE_BYTES), 12 * G4_PAGE_BYTES);
	rig_pattern(data, 6, 20 * G4_PAGE_BYTES);
	rig_pattern(data, 5, 4 * G4_PAGE_BYTES);
	memset(&data[4 * G4_PAGE_BYTES], 0, 8 * G4_PAGE_BYTES);
	expect(b, data, 20 * G4_PAGE_BYTES);
	assert_int_equal(op_seek(&rig, b, 0, G4_SEEK_HOLE, &at), 0);
	assert_int_equal(at, 4 * G4_PAGE_BYTES);
	assert_int_equal(op_write(&rig, a, 0, 9 * G4_PAGE_BYTES, data, 100, NULL), 0);
	expect(b, data, 20 * G4_PAGE_BYTES);
}

/* On a full device a copy fails as a write does, what was there stays, and all can be deleted. */
static void a_full_device_loses_nothing(void **state)
{
	const uint64_t a = make_with("a", 7, 600 * G4_PAGE_BYTES), fill = make("fill"), b = make("b");
	const uint64_t before = rig_free_pages(&rig);
	static uint8_t chunk[256 * G4_PAGE_BYTES];
	uint64_t at = 0, bytes = sizeof(chunk), done, all;

	(void)state;
	while (bytes >= G4_PAGE_BYTES) {
		const int rc = op_write(&rig, fill, 0, at, chunk, bytes, &done);
		at += rc == 0 ? done : 0;
		if (rc != 0)
			bytes /= 2;
	}
	assert_int_equal(op_fsync(&rig, fill), 0);
	all = copy(a, 0, b, 0, 600 * G4_PAGE_BYTES);
	assert_true(all % G4_PAGE_BYTES == 0);
	rig_pattern(data, 7, 600 * G4_PAGE_BYTES);
	expect(b, data, all);
	expect(a, data, 600 * G4_PAGE_BYTES);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "a"), 0);
	expect(b, data, all);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "b"), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "fill"), 0);
	assert_true(rig_free_pages(&rig) >= before + 600 - 16);
}

/* ---------------------------------------------------------------------------------------------------- any order */

/* Of each page of a file: which content it has, and which of the pages it was made as. 0: zeros, stored nowhere or alone. */
struct model {
	uint64_t ino;
	uint64_t pages;
	uint32_t made[64];
};
static struct model files[FILES];
static uint32_t made_count;

static void page_contents(uint32_t made, uint8_t *to)
{
	if (made)
		rig_pattern(to, made, G4_PAGE_BYTES);
	else
		memset(to, 0, G4_PAGE_BYTES);
}

static void expect_model(const struct model *file)
{
	for (uint64_t page = 0; page < file->pages; page++)
		page_contents(file->made[page], &data[page * G4_PAGE_BYTES]);
	expect(file->ino, data, file->pages * G4_PAGE_BYTES);
}

static uint32_t pick(uint32_t below)
{
	static uint64_t state = 7;

	return (uint32_t)(rig_random(&state) >> 11) % below;
}

static void write_some(struct model *file)
{
	const uint32_t first = pick(60), count = 1 + pick(4);

	for (uint32_t page = first; page < first + count; page++) {
		file->made[page] = ++made_count;
		page_contents(made_count, found);
		assert_int_equal(
			op_write(&rig, file->ino, 0, page * (uint64_t)G4_PAGE_BYTES, found, G4_PAGE_BYTES, NULL), 0);
	}
	file->pages = g4_max64(file->pages, first + count);
}

static void copy_some(const struct model *from, struct model *to)
{
	const uint32_t first = pick(60), at = pick(60);
	uint64_t count = 1 + pick(64 - (first > at ? first : at));

	if (first >= from->pages)
		return;
	count = g4_min64(count, from->pages - first);
	if (from == to && first < at + count && at < first + count)
		return;
	assert_int_equal(copy(from->ino, first * (uint64_t)G4_PAGE_BYTES, to->ino, at * (uint64_t)G4_PAGE_BYTES,
			      count * G4_PAGE_BYTES),
			 count * G4_PAGE_BYTES);
	memcpy(&to->made[at], &from->made[first], count * sizeof(to->made[0]));
	to->pages = g4_max64(to->pages, at + count);
}

static void cut(struct model *file)
{
	const uint64_t pages = pick(64);

	assert_int_equal(op_truncate(&rig, file->ino, pages * G4_PAGE_BYTES), 0);
	file->pages = pages;
	memset(&file->made[pages], 0, (64 - pages) * sizeof(file->made[0]));
}

static void punch(struct model *file)
{
	const uint64_t first = pick(60), count = 1 + pick(4);

	assert_int_equal(op_fallocate(&rig, file->ino, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE,
				      first * G4_PAGE_BYTES, count * G4_PAGE_BYTES),
			 0);
	memset(&file->made[first], 0, count * sizeof(file->made[0]));
}

static void replace(struct model *file, uint32_t number)
{
	char name[8];

	snprintf(name, sizeof(name), "r%u", number);
	if (file->ino)
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
	memset(file, 0, sizeof(*file));
	file->ino = make(name);
}

/* Of two pages that came out of one write by copies alone, both lie in one place; all others in places of their own. */
static void expect_places(void)
{
	static uint64_t place[100000];

	assert_true(made_count < 100000);
	memset(place, 0, sizeof(place));
	for (uint32_t f = 0; f < FILES; f++)
		for (uint64_t page = 0; page < files[f].pages; page++) {
			const uint32_t made = files[f].made[page];
			const uint64_t address = address_of(files[f].ino, page);
			if (made == 0)
				continue;
			assert_int_not_equal(address, 0);
			if (place[made] == 0)
				place[made] = address;
			assert_int_equal(place[made], address);
		}
}

static void any_order_of_changes_leaves_what_the_model_has(void **state)
{
	(void)state;
	made_count = 0;
	for (uint32_t f = 0; f < FILES; f++)
		replace(&files[f], f);
	const uint64_t empty = rig_free_pages(&rig);
	for (uint32_t i = 0; i < 5000 / rig_every(4); i++) {
		struct model *file = &files[pick(FILES)];
		const uint32_t what = pick(20);

		if (what < 6)
			write_some(file);
		else if (what < 15)
			copy_some(&files[pick(FILES)], file);
		else if (what < 16)
			cut(file);
		else if (what < 18)
			punch(file);
		else if (what < 19)
			replace(file, (uint32_t)(file - files));
		else
			assert_int_equal(op_fsync(&rig, file->ino), 0);
		expect_model(file);
		if (i % 200 == 199) {
			assert_int_equal(op_sync(&rig), 0);
			for (uint32_t f = 0; f < FILES; f++)
				expect_model(&files[f]);
			expect_places();
		}
		if (i % 1000 == 999) {
			unmount();
			rig.fs = rig_mount_fs(&rig, wg, NULL);
		}
	}
	for (uint32_t f = 0; f < FILES; f++)
		assert_int_equal(op_truncate(&rig, files[f].ino, 0), 0);
	unmount(); /* a workgroup keeps an empty slab of small blocks */
	rig.fs = rig_mount_fs(&rig, wg, NULL);
	assert_int_equal(rig_free_pages(&rig), empty);
}

/* ---------------------------------------------------------------------------------------------------- at a time */

#define THREADS 4u
#define SHARED_PAGES 300u

struct copier {
	pthread_t thread;
	uint32_t number;
	uint64_t ino[THREADS];
};

/* A page holds the number of the write that it was made by, all over. */
static void *copy_and_change(void *user)
{
	const struct copier *copier = (const struct copier *)user;
	uint64_t state = copier->number + 1, page[512], done;
	uint64_t handle[THREADS];

	for (uint32_t f = 0; f < THREADS; f++)
		assert_int_equal(op_open(&rig, copier->ino[f], G4_OPEN_READ | G4_OPEN_WRITE, &handle[f]), 0);
	for (uint32_t i = 0; i < 400 / rig_every(2); i++) {
		const uint32_t from = (uint32_t)(rig_random(&state) % THREADS),
			       to = (uint32_t)(rig_random(&state) % THREADS);
		const uint64_t at = rig_random(&state) % SHARED_PAGES, count = 1 + rig_random(&state) % 64;
		if (i % 4 == 0) {
			for (uint32_t w = 0; w < 512; w++)
				page[w] = (uint64_t)copier->number << 32 | i;
			assert_int_equal(op_write(&rig, 0, handle[to], at * G4_PAGE_BYTES, page, sizeof(page), &done),
					 0);
		} else if (i % 16 == 1) {
			assert_int_equal(op_truncate(&rig, copier->ino[to], at * G4_PAGE_BYTES), 0);
		} else if (from != to) {
			assert_int_equal(op_copy(&rig, handle[from], at * G4_PAGE_BYTES, handle[to],
						 rig_random(&state) % SHARED_PAGES * G4_PAGE_BYTES,
						 count * G4_PAGE_BYTES, &done),
					 0);
		}
	}
	for (uint32_t f = 0; f < THREADS; f++)
		assert_int_equal(op_release(&rig, handle[f]), 0);
	return NULL;
}

static void threads_that_share_leave_whole_pages(void **state)
{
	struct copier copiers[THREADS];
	struct g4_statfs statfs;

	(void)state;
	rig_unmount_fs(&rig, wg, rig.fs, true);
	rig.fs = NULL;
	rig_mount(&rig);
	for (uint32_t t = 0; t < THREADS; t++) {
		char name[] = {'t', (char)('0' + t), 0};
		copiers[0].ino[t] = make(name);
	}
	for (uint32_t t = 0; t < THREADS; t++) {
		memcpy(copiers[t].ino, copiers[0].ino, sizeof(copiers[t].ino));
		copiers[t].number = t;
		assert_int_equal(pthread_create(&copiers[t].thread, NULL, copy_and_change, &copiers[t]), 0);
	}
	for (uint32_t t = 0; t < THREADS; t++)
		pthread_join(copiers[t].thread, NULL);
	for (uint32_t t = 0; t < THREADS; t++) {
		uint64_t done;
		assert_int_equal(op_read(&rig, copiers[0].ino[t], 0, 0, found, MOST_BYTES, &done), 0);
		for (uint64_t at = 0; at < done; at += sizeof(uint64_t))
			assert_memory_equal(&found[at], &found[at & ~(G4_PAGE_BYTES - 1)], sizeof(uint64_t));
	}
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &statfs), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, statfs.blocks_free, "after threads that share");
}

/* ---------------------------------------------------------------------------------------------------- the checker */

/* The only page of shares of the unmounted image. */
static struct g4_shares_page *find_shares(void)
{
	struct g4_shares_page *shares = NULL;

	for (uint64_t at = 0; at < rig.bytes; at += G4_PAGE_BYTES) {
		const struct g4_alloc_page *map = (const struct g4_alloc_page *)(void *)&rig.image[at];
		if (map->header.magic != G4_BLOCK_MAGIC || map->header.type != G4_BLOCK_ALLOC ||
		    map->header.address != at || map->shares == 0)
			continue;
		assert_null(shares);
		shares = (struct g4_shares_page *)(void *)&rig.image[map->shares];
	}
	assert_non_null(shares);
	return shares;
}

static void seal(void *page, uint32_t type)
{
	const struct g4_block_header *header = (const struct g4_block_header *)page;

	g4_block_seal(page, type, g4_address_from(header->address), header->generation, header->fs_tag);
}

enum damage { MORE, LESS, NONE, BROKEN, NOWHERE, DAMAGES, FULL };

static void damage_counts(enum damage kind)
{
	struct g4_shares_page *shares = find_shares();
	struct g4_owners_page *owners;
	uint32_t region = 0, first = 0;

	while (shares->owners[region] == 0)
		region++;
	owners = (struct g4_owners_page *)(void *)&rig.image[shares->owners[region]];
	while (owners->more[first] == 0)
		first++;
	switch (kind) {
	case MORE:
		owners->more[first]++;
		break;
	case LESS: /* one that three files have */
		owners->more[first]--;
		break;
	case NONE:
		for (uint32_t i = 0; i < G4_REGION_PAGES; i++) {
			owners->shared -= owners->more[i] != 0 && i < first + 3;
			if (i < first + 3)
				owners->more[i] = 0;
		}
		break;
	case FULL:
		for (uint32_t i = 0; i < G4_REGION_PAGES; i++)
			owners->more[i] = owners->more[i] ? UINT32_MAX : 0;
		break;
	case BROKEN:
		owners->more[first] ^= 16;
		return; /* its checksum tells */
	default:
		memset(shares->owners, 0, sizeof(shares->owners));
		seal(shares, G4_BLOCK_SHARES);
		return;
	}
	seal(owners, G4_BLOCK_OWNERS);
}

static void wrong_counts_are_found_and_repaired(void **state)
{
	const uint64_t pages = 100, bytes = pages * G4_PAGE_BYTES;

	(void)state;
	for (uint32_t kind = 0; kind < DAMAGES; kind++) {
		struct rig_repair how = {0};
		uint64_t ino[3];
		char *text;

		if (rig.fs == NULL)
			rig.fs = rig_mount_fs(&rig, wg, NULL);
		ino[0] = make_with("x", 11, bytes);
		ino[1] = make("y");
		ino[2] = make("z");
		assert_int_equal(copy_pages(ino[0], ino[1], bytes), bytes);
		assert_int_equal(copy_pages(ino[0], ino[2], bytes), bytes);
		unmount();
		damage_counts((enum damage)kind);
		const struct rig_verdict verdict = rig_fsck(&rig, &text);
		if (verdict.problems == 0)
			print_error("damage %u is not found\n", kind);
		assert_int_not_equal(verdict.problems, 0);
		free(text);
		assert_int_equal(rig_repair(&rig, &how), 0);
		assert_int_equal(how.outcome[G4_FSCK_LOST], 0);
		free(how.text);
		rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
		rig.fs = rig_mount_fs(&rig, wg, NULL);
		for (uint32_t f = 0; f < 3; f++)
			expect(ino[f], data, bytes);
		assert_int_equal(op_write(&rig, ino[1], 0, 0, found, G4_PAGE_BYTES, NULL), 0);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "x"), 0);
		expect(ino[2], data, bytes);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "y"), 0);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "z"), 0);
		unmount();
	}
}

/* Counts that a hostile image lowers: what is freed too early is told, never followed. */
static void a_count_that_is_too_low_stops_writing(void **state)
{
	const uint64_t bytes = 100 * G4_PAGE_BYTES, a = make_with("a", 12, bytes), b = make("b");
	struct rig_repair how = {0};

	(void)state;
	assert_int_equal(copy_pages(a, b, bytes), bytes);
	unmount();
	damage_counts(NONE);
	rig.fs = rig_mount_fs(&rig, wg, NULL);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "a"), 0);
	assert_int_equal(op_sync(&rig), 0);
	/* three pages of b are free now; freeing them once more contradicts the map */
	assert_int_not_equal(op_truncate(&rig, b, 0), 0);
	assert_int_not_equal(rig.fs->journal.aborted, 0);
	rig_unmount_fs(&rig, wg, rig.fs, false);
	rig.fs = NULL;
	assert_int_equal(rig_repair(&rig, &how), 0);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
}

static void a_page_with_all_owners_that_can_be_counted_is_copied(void **state)
{
	const uint64_t bytes = 100 * G4_PAGE_BYTES, a = make_with("a", 13, bytes), b = make("b");
	struct rig_repair how = {0};

	(void)state;
	assert_int_equal(copy_pages(a, b, bytes), bytes);
	unmount();
	damage_counts(FULL);
	rig.fs = rig_mount_fs(&rig, wg, NULL);
	const uint64_t c = make("c");
	assert_int_equal(copy_pages(a, c, bytes), bytes);
	expect(c, data, bytes);
	assert_int_equal(op_fsync(&rig, c), 0);
	for (uint64_t page = 0; page < 100; page++)
		assert_int_not_equal(address_of(a, page), address_of(c, page));
	rig_unmount_fs(&rig, wg, rig.fs, true);
	rig.fs = NULL;
	assert_int_equal(rig_repair(&rig, &how), 0);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
}

/* The only indirect page of a file in the unmounted image gets a pointer to nowhere, behind those that it has. */
static void damage_indirect(uint64_t ino)
{
	struct g4_indirect_header header;
	uint32_t damaged = 0;

	for (uint64_t at = 0; at < rig.bytes; at += G4_PAGE_BYTES) {
		g4_indirect_extract((const g4_le64 *)(void *)&rig.image[at], &header);
		if (header.header.magic != G4_BLOCK_MAGIC || header.header.type != G4_BLOCK_INDIRECT ||
		    header.header.address != at || header.inode != ino)
			continue;
		((uint64_t *)(void *)&rig.image[at])[300] ^= UINT64_C(1) << 60;
		damaged++;
	}
	assert_int_equal(damaged, 1);
}

static void a_damaged_indirect_page_keeps_what_is_shared(void **state)
{
	const uint64_t pages = 100, bytes = pages * G4_PAGE_BYTES;

	(void)state;
	for (uint32_t both = 0; both < 2; both++) {
		const uint64_t a = make_with("a", 14, bytes), b = make("b");
		struct rig_repair how = {0};

		assert_int_equal(copy_pages(a, b, bytes), bytes);
		unmount();
		damage_indirect(b);
		if (both)
			damage_indirect(a);
		assert_int_equal(rig_repair(&rig, &how), 0);
		assert_int_equal(how.outcome[G4_FSCK_LOST], 1 + both); /* the pointer */
		free(how.text);
		rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
		rig.fs = rig_mount_fs(&rig, wg, NULL);
		expect(a, data, bytes);
		expect(b, data, bytes);
		for (uint64_t page = 0; page < pages; page++)
			assert_int_equal(address_of(a, page), address_of(b, page));
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "a"), 0);
		expect(b, data, bytes);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "b"), 0);
	}
}

/* A file's page that leads to what two others share: which of the three is wrong nobody knows, and all are told. */
static void one_owner_too_many_is_told_of_all(void **state)
{
	const uint64_t bytes = 12 * G4_PAGE_BYTES, a = make_with("a", 15, bytes), b = make("b"),
		       c = make_with("c", 16, bytes);
	const char *const names[] = {"/a", "/b", "/c"};
	struct rig_repair how = {0};

	(void)state;
	assert_int_equal(copy_pages(a, b, bytes), bytes);
	assert_int_equal(op_sync(&rig), 0);
	const uint64_t shared = address_of(a, 1);
	unmount();
	struct g4_inode *inode = damage_inode(&rig, c);
	inode->map[1] = g4_ptr_at(shared, G4_TAG_4K, G4_PTR_VALID);
	damage_seal(&rig, g4_align_down(g4_ptr_offset(c), G4_PAGE_BYTES));
	assert_int_equal(rig_repair(&rig, &how), 0);
	for (uint32_t k = 0; k < 3; k++) {
		char line[32];
		snprintf(line, sizeof(line), "doubtful: %s: ", names[k]);
		assert_non_null(strstr(how.text, line));
	}
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_copy_takes_no_space_and_is_a_file_of_its_own),
		TEST(what_can_not_be_shared_is_copied),
		TEST(a_file_shares_with_itself),
		TEST(a_file_may_have_more_pages_than_the_device),
		TEST(holes_and_allocated_space_are_holes_in_the_copy),
		TEST(a_full_device_loses_nothing),
		TEST(any_order_of_changes_leaves_what_the_model_has),
		TEST(threads_that_share_leave_whole_pages),
		TEST(wrong_counts_are_found_and_repaired),
		TEST(a_count_that_is_too_low_stops_writing),
		TEST(a_page_with_all_owners_that_can_be_counted_is_copied),
		TEST(a_damaged_indirect_page_keeps_what_is_shared),
		TEST(one_owner_too_many_is_told_of_all),
	};

	return cmocka_run_group_tests_name("share", tests, NULL, NULL);
}
