/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INSERT_RANGE and COLLAPSE_RANGE: contents stay where they are on the device, whatever leads to them; what is shared stays shared;
 * what can not be done changes nothing. (Power cuts: the crash explorer's "insert" and "collapse".)
 */
#include "rig.h"

#include <pthread.h>

#include "data/map.h"
#include "fs/fs.h"
#include "inode/icache.h"
#include "simt/simt_host.h"

#define REGION_PAGES 512u
#define INSERT G4_FALLOC_INSERT_RANGE
#define COLLAPSE G4_FALLOC_COLLAPSE_RANGE

static struct rig rig;

static int setup(void **state)
{
	(void)state;
	rig_begin(&rig, 160 * G4_MIB, 0, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_end(&rig);
	return 0;
}

/* Slabs that were being filled go. */
static uint64_t free_pages_anew(void)
{
	assert_int_equal(op_sync(&rig), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	return rig_free_pages(&rig);
}

static int shift(uint64_t ino, uint32_t mode, uint64_t page, uint64_t pages)
{
	return op_fallocate(&rig, ino, mode, page * G4_PAGE_BYTES, pages * G4_PAGE_BYTES);
}

/* ---------------------------------------------------------------------------------------------------- a model of files */

#define MOST_PAGES 30000u /* a map of height 2 */
#define MOST_MADE 400000u
#define FILES 8u

/* What each page of a file was made as; 0: a hole, ALLOCATED: space without contents. */
#define ALLOCATED UINT32_MAX
struct model {
	uint64_t ino;
	uint64_t pages;
	uint32_t made[MOST_PAGES];
};
static struct model files[FILES];
static uint64_t places[MOST_MADE]; /* where what was made lies; 0: not known yet */
static uint32_t made_count;
static uint64_t random_state;
static uint8_t buffer[4 * G4_MIB], expected[G4_PAGE_BYTES];

static uint64_t pick(uint64_t below)
{
	return (rig_random(&random_state) >> 11) % below;
}

static void make_file(struct model *file, uint32_t number)
{
	memset(file, 0, sizeof(*file));
	file->ino = rig_make(&rig, number);
}

static void write_pages(struct model *file, uint64_t page, uint64_t pages)
{
	uint64_t done;

	assert_true(made_count + pages < MOST_MADE && pages * G4_PAGE_BYTES <= sizeof(buffer));
	for (uint64_t k = 0; k < pages; k++) {
		file->made[page + k] = ++made_count;
		rig_pattern(&buffer[k * G4_PAGE_BYTES], made_count, G4_PAGE_BYTES);
	}
	assert_int_equal(op_write(&rig, file->ino, 0, page * G4_PAGE_BYTES, buffer, pages * G4_PAGE_BYTES, &done), 0);
	assert_int_equal(done, pages * G4_PAGE_BYTES);
	file->pages = g4_max64(file->pages, page + pages);
}

/* The model's part of a shift. */
static void move_model(struct model *file, uint32_t mode, uint64_t page, uint64_t pages)
{
	uint32_t *made = file->made;

	if (mode == INSERT) {
		memmove(&made[page + pages], &made[page], (MOST_PAGES - page - pages) * sizeof(made[0]));
		memset(&made[page], 0, pages * sizeof(made[0]));
		file->pages += pages;
	} else {
		memmove(&made[page], &made[page + pages], (MOST_PAGES - page - pages) * sizeof(made[0]));
		memset(&made[MOST_PAGES - pages], 0, pages * sizeof(made[0]));
		file->pages -= pages;
	}
}

static void shift_both(struct model *file, uint32_t mode, uint64_t page, uint64_t pages)
{
	assert_int_equal(shift(file->ino, mode, page, pages), 0);
	move_model(file, mode, page, pages);
}

/*
 * Of pages inside of what was written at once, one in so many is read while changes go on, others each time; all others, and these at the
 * end, always. For where reading takes long: expect_places() has looked where all of them lie.
 */
static uint64_t stride = 1;

static bool is_read(const struct model *file, uint64_t page)
{
	const uint32_t *made = file->made;

	return page == 0 || made[page] != made[page - 1] + 1 || made[page + 1] != made[page] + 1 ||
	       page % REGION_PAGES == 0 || (page + 1) % REGION_PAGES == 0 || (page + made_count) % stride == 0;
}

/* Reads of one page and of up to 256, whatever begins where. cmocka's comparison goes byte by byte: it is for what is not equal. */
static void expect_pages(const struct model *file, uint64_t page, uint64_t pages)
{
	uint64_t done;

	assert_int_equal(op_read(&rig, file->ino, 0, page * G4_PAGE_BYTES, buffer, pages * G4_PAGE_BYTES, &done), 0);
	assert_int_equal(done, pages * G4_PAGE_BYTES);
	for (uint64_t k = 0; k < pages; k++) {
		rig_pattern(expected, file->made[page + k], G4_PAGE_BYTES);
		if (memcmp(&buffer[k * G4_PAGE_BYTES], expected, G4_PAGE_BYTES) != 0)
			assert_memory_equal(&buffer[k * G4_PAGE_BYTES], expected, G4_PAGE_BYTES);
	}
}

/* Of pages that have contents, up to `end`. */
static void expect_run(const struct model *file, uint64_t page, uint64_t end)
{
	static const uint32_t most[] = {1, 256, 7, 64, 2, 31};

	while (page < end) {
		const uint64_t limit = g4_min64(end, page + most[page % (sizeof(most) / sizeof(most[0]))]);
		uint64_t next = page;
		while (next < limit && is_read(file, next))
			next++;
		if (next > page)
			expect_pages(file, page, next - page);
		page = g4_max64(next, page + 1);
	}
}

/* Size, where there is data, what it is. */
static void expect_file(const struct model *file)
{
	struct g4_attr attr;
	uint64_t data, page = 0;

	assert_int_equal(op_getattr(&rig, file->ino, &attr), 0);
	assert_int_equal(attr.size, file->pages * G4_PAGE_BYTES);
	assert_int_equal(attr.rdev, 0);
	while (page < file->pages) {
		const int rc = op_seek(&rig, file->ino, page * G4_PAGE_BYTES, G4_SEEK_DATA, &data);
		const uint64_t first = rc == 0 ? data / G4_PAGE_BYTES : file->pages;
		assert_true(rc == 0 || rc == -G4_E_NXIO);
		for (; page < first; page++)
			assert_true(file->made[page] == 0 || file->made[page] == ALLOCATED);
		while (page < file->pages && file->made[page] != 0 && file->made[page] != ALLOCATED)
			page++;
		expect_run(file, first, page);
		assert_true(page > first || first == file->pages);
	}
}

/* Of what was made once all copies lie where the first did. */
static void expect_places(const struct model *file)
{
	struct g4_map_extent extents[64];
	uint64_t page = 0;
	uint32_t count;

	assert_int_equal(op_fsync(&rig, file->ino), 0);
	do {
		assert_int_equal(op_map(&rig, file->ino, page * G4_PAGE_BYTES, extents, 64, &count), 0);
		for (uint32_t e = 0; e < count; e++) {
			const uint64_t first = extents[e].offset / G4_PAGE_BYTES;
			for (page = first; page < first + extents[e].length / G4_PAGE_BYTES; page++) {
				const uint32_t made = page < file->pages ? file->made[page] : ALLOCATED;
				const uint64_t place = extents[e].address + (page - first) * G4_PAGE_BYTES;
				if (made == ALLOCATED)
					continue;
				assert_int_not_equal(made, 0);
				if (places[made] == 0)
					places[made] = place;
				assert_int_equal(places[made], place);
			}
		}
	} while (count == 64);
}

#define GROUP_REGIONS 31u

#define NODE (UINT32_C(1) << 30) /* and more: owners of what is no contents */

/*
 * Indirect pages that several files lead to, with their pages of sums: each file counts them. How many they are more than there are; they
 * are put among the owners.
 */
static uint64_t count_shared_nodes(uint32_t *owners)
{
	static uint8_t seen[160 * G4_MIB / G4_PAGE_BYTES];
	uint64_t more = 0;

	for (uint32_t f = 0; f < FILES; f++) {
		uint32_t index;
		assert_int_equal(g4_icache_get(rig.wg, rig.fs, files[f].ino, &index), 0);
		const struct g4_inode_core *inode = g4_icache_at(rig.fs, index);
		const uint64_t end =
			(inode->disk.flags & G4_INODE_INLINE) ? 0 : g4_map_capacity_pages(inode->disk.map_height);
		memset(seen, 0, sizeof(seen));
		for (uint64_t page = 0; page < end; page += G4_INDIRECT_SLOTS) {
			struct g4_map_nodes nodes;
			assert_int_equal(g4_map_nodes(rig.wg, rig.fs, inode, page, &nodes), 0);
			for (uint32_t k = 0; k < nodes.count + nodes.sums_count; k++) {
				const struct g4_address address =
					k < nodes.count ? nodes.nodes[k] : nodes.sums[k - nodes.count];
				const uint64_t at = g4_address_page(address);
				if (seen[at])
					continue;
				seen[at] = 1;
				more += owners[at] != 0;
				owners[at] = (owners[at] + 1) | NODE;
			}
		}
		g4_icache_put(rig.fs, index);
	}
	return more;
}

/*
 * Free space is what there was, less each page that any file leads to, once; what the files' maps have; a page of counts for each
 * region where a page has several owners, and one for each group of these.
 */
static void expect_space(uint64_t empty, uint64_t slabs)
{
	static uint32_t owners[160 * G4_MIB / G4_PAGE_BYTES];
	static uint8_t regions[sizeof(owners) / sizeof(owners[0]) / REGION_PAGES + 1], groups[8];
	uint8_t more[sizeof(regions)] = {0};
	struct g4_map_extent extents[64];
	struct g4_attr attr;
	uint64_t wanted = 0, found = rig_free_pages(&rig);
	uint32_t count;

	memset(owners, 0, sizeof(owners));
	memset(regions, 0, sizeof(regions));
	memset(groups, 0, sizeof(groups));
	for (uint32_t f = 0; f < FILES; f++) {
		uint64_t offset = 0, mapped = 0;
		do {
			assert_int_equal(op_map(&rig, files[f].ino, offset, extents, 64, &count), 0);
			for (uint32_t e = 0; e < count; e++) {
				for (uint64_t at = 0; at < extents[e].length; at += G4_PAGE_BYTES, mapped++)
					owners[(extents[e].address + at) / G4_PAGE_BYTES]++;
				offset = extents[e].offset + extents[e].length;
			}
		} while (count == 64);
		assert_int_equal(op_getattr(&rig, files[f].ino, &attr), 0);
		wanted += attr.blocks_512 / (G4_PAGE_BYTES / 512) - mapped;
	}
	wanted -= count_shared_nodes(owners);
	for (uint64_t page = 0; page < sizeof(owners) / sizeof(owners[0]); page++) {
		wanted += owners[page] != 0 && owners[page] < NODE;
		more[page / REGION_PAGES] |= owners[page] >= NODE && owners[page] % NODE > 1;
		if (owners[page] < NODE && owners[page] > 1)
			regions[page / REGION_PAGES] = groups[page / REGION_PAGES / GROUP_REGIONS] = 1;
	}
	for (uint32_t k = 0; k < sizeof(regions); k++)
		wanted += regions[k];
	for (uint32_t k = 0; k < sizeof(groups); k++)
		wanted += groups[k];
	/* owners of indirect pages, and of pages of sums, may have pages of counts, too: not where what leads there is shared itself */
	for (uint32_t k = 0; k < sizeof(more); k++)
		slabs += more[k] && !regions[k] ? 1u + !groups[k / GROUP_REGIONS] : 0;
	assert_in_range(empty - found, wanted, wanted + slabs);
}

static void begin_model(uint64_t seed)
{
	memset(places, 0, sizeof(places));
	made_count = 0;
	random_state = seed;
	stride = 1;
}

/* ---------------------------------------------------------------------------------------------------- what is kept */

static void large_pages_move_as_they_are_where_they_can(void **state)
{
	struct model *file = &files[0];
	struct g4_run run;

	(void)state;
	begin_model(1);
	make_file(file, 0);
	write_pages(file, 0, 2 * REGION_PAGES);
	write_pages(file, 2 * REGION_PAGES, 2 * REGION_PAGES);
	expect_places(file);
	rig_run_at(&rig, file->ino, 3 * REGION_PAGES, &run);
	const uint32_t level = run.level;
	const uint64_t before = rig_free_pages(&rig);
	shift_both(file, INSERT, REGION_PAGES, 3 * REGION_PAGES);
	rig_run_at(&rig, file->ino, 6 * REGION_PAGES, &run);
	assert_int_equal(run.level, level); /* a page of 2 MiB still, if it was one */
	expect_file(file);
	expect_places(file);
	shift_both(file, COLLAPSE, REGION_PAGES, 3 * REGION_PAGES);
	expect_file(file);
	expect_places(file);
	assert_int_equal(rig_free_pages(&rig), before);
	shift_both(file, INSERT, 100, 7); /* all of them are divided */
	expect_file(file);
	expect_places(file);
	shift_both(file, COLLAPSE, 0, 3 * REGION_PAGES + 1);
	expect_file(file);
	expect_places(file);
}

static void what_is_behind_an_insertion_stays_shared(void **state)
{
	struct model *a = &files[0], *b = &files[1];
	uint64_t in, out, done;

	(void)state;
	begin_model(2);
	make_file(a, 0);
	make_file(b, 1);
	write_pages(a, 0, 1000);
	assert_int_equal(op_open(&rig, a->ino, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, b->ino, G4_OPEN_WRITE, &out), 0);
	assert_int_equal(op_copy(&rig, in, 0, out, 0, 1000 * G4_PAGE_BYTES, &done), 0);
	assert_int_equal(done, 1000 * G4_PAGE_BYTES);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
	memcpy(b->made, a->made, sizeof(a->made));
	b->pages = a->pages;
	expect_places(a);
	const uint64_t before = rig_free_pages(&rig);
	shift_both(b, INSERT, 10, 1);
	write_pages(b, 10, 1);
	expect_places(b);
	expect_places(a);
	expect_file(a);
	expect_file(b);
	assert_true(before - rig_free_pages(&rig) <= 1 + 16); /* the page, and of the map */
	shift_both(a, COLLAPSE, 500, 300);
	expect_places(a);
	expect_places(b);
	expect_file(b);
}

/* Dirty pages, pages in the cache, the last page that is not full, what lies behind the end. */
static void what_is_only_in_memory_moves_too(void **state)
{
	const uint64_t ino = rig_make(&rig, 9);
	uint8_t *all = rig_memory(40 * G4_PAGE_BYTES, 5), *found = rig_memory(60 * G4_PAGE_BYTES, 6);
	const uint64_t bytes = 20 * G4_PAGE_BYTES + 100;
	uint64_t done;

	(void)state;
	assert_int_equal(op_write(&rig, ino, 0, 0, all, bytes, NULL), 0);
	assert_int_equal(op_fallocate(&rig, ino, G4_FALLOC_KEEP_SIZE, 30 * G4_PAGE_BYTES, 4 * G4_PAGE_BYTES), 0);
	assert_int_equal(op_write(&rig, ino, 0, 5 * G4_PAGE_BYTES, &all[5 * G4_PAGE_BYTES], 50, NULL), 0);
	assert_int_equal(shift(ino, INSERT, 4, 2), 0);
	assert_int_equal(op_read(&rig, ino, 0, 0, found, 60 * G4_PAGE_BYTES, &done), 0);
	assert_int_equal(done, bytes + 2 * G4_PAGE_BYTES);
	assert_memory_equal(found, all, 4 * G4_PAGE_BYTES);
	assert_memory_equal(&found[6 * G4_PAGE_BYTES], &all[4 * G4_PAGE_BYTES], bytes - 4 * G4_PAGE_BYTES);
	for (uint32_t k = 0; k < 2 * G4_PAGE_BYTES; k++)
		assert_int_equal(found[4 * G4_PAGE_BYTES + k], 0);
	assert_int_equal(op_write(&rig, ino, 0, 4 * G4_PAGE_BYTES, all, 100, NULL), 0);
	assert_int_equal(shift(ino, COLLAPSE, 4, 2), 0);
	assert_int_equal(op_read(&rig, ino, 0, 0, found, 60 * G4_PAGE_BYTES, &done), 0);
	assert_int_equal(done, bytes);
	assert_memory_equal(found, all, bytes);
	/* the space behind the end was moved there and back: it takes no other */
	const uint64_t before = rig_free_pages(&rig);
	assert_int_equal(op_fallocate(&rig, ino, G4_FALLOC_KEEP_SIZE, 30 * G4_PAGE_BYTES, 4 * G4_PAGE_BYTES), 0);
	assert_int_equal(rig_free_pages(&rig), before);
	/* beyond the size there are zeros */
	assert_int_equal(op_truncate(&rig, ino, 22 * G4_PAGE_BYTES), 0);
	assert_int_equal(op_read(&rig, ino, 0, bytes, found, G4_PAGE_BYTES, &done), 0);
	for (uint32_t k = 0; k < done; k++)
		assert_int_equal(found[k], 0);
	free(all);
	free(found);
}

/* ---------------------------------------------------------------------------------------------------- what is refused */

static void ranges_that_do_not_fit_are_refused(void **state)
{
	const uint64_t ino = rig_make(&rig, 1);

	(void)state;
	memset(buffer, 7, sizeof(buffer));
	assert_int_equal(op_write(&rig, ino, 0, 0, buffer, 10 * G4_PAGE_BYTES - 5, NULL), 0);
	for (uint32_t k = 0; k < 2; k++) {
		const uint32_t mode = k ? INSERT : COLLAPSE;
		assert_int_equal(op_fallocate(&rig, ino, mode, 100, G4_PAGE_BYTES), -G4_E_INVAL);
		assert_int_equal(op_fallocate(&rig, ino, mode, 0, 100), -G4_E_INVAL);
		assert_int_equal(op_fallocate(&rig, ino, mode, 0, 0), -G4_E_INVAL);
		assert_int_equal(shift(ino, mode, 10, 1), -G4_E_INVAL);
		assert_int_equal(shift(ino, mode | G4_FALLOC_KEEP_SIZE, 0, 1), -G4_E_INVAL);
		assert_int_equal(shift(ino, mode | G4_FALLOC_ZERO_RANGE, 0, 1), -G4_E_INVAL);
		assert_int_equal(shift(G4_NODE_ROOT, mode, 0, 1), -G4_E_ISDIR);
	}
	assert_int_equal(shift(ino, INSERT | COLLAPSE, 0, 1), -G4_E_INVAL);
	assert_int_equal(shift(ino, COLLAPSE, 5, 5), -G4_E_INVAL); /* up to the end, which is a truncation */
	assert_int_equal(shift(ino, COLLAPSE, 0, 20), -G4_E_INVAL);
	assert_int_equal(op_fallocate(&rig, ino, INSERT, 0, G4_FILE_MAX_BYTES / G4_PAGE_BYTES * G4_PAGE_BYTES),
			 -G4_E_FBIG);
	assert_int_equal(shift(ino, COLLAPSE, 5, 4), 0);
	assert_int_equal(shift(ino, INSERT, 5, 1), 0);
}

/* As far as a file can go and back. */
static void a_sparse_file_can_be_as_long_as_files_get(void **state)
{
	const uint64_t ino = rig_make(&rig, 1), most = G4_FILE_MAX_BYTES / G4_PAGE_BYTES;
	uint64_t done, at;

	(void)state;
	rig_pattern(expected, 3, G4_PAGE_BYTES);
	assert_int_equal(op_write(&rig, ino, 0, 0, expected, G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_write(&rig, ino, 0, G4_PAGE_BYTES, expected, G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(shift(ino, INSERT, 1, most - 1), -G4_E_FBIG);
	assert_int_equal(shift(ino, INSERT, 1, most - 2), 0);
	assert_int_equal(op_seek(&rig, ino, G4_PAGE_BYTES, G4_SEEK_DATA, &at), 0);
	assert_int_equal(at, (most - 1) * G4_PAGE_BYTES);
	assert_int_equal(op_read(&rig, ino, 0, at, buffer, G4_PAGE_BYTES, &done), 0);
	assert_memory_equal(buffer, expected, G4_PAGE_BYTES);
	assert_int_equal(shift(ino, COLLAPSE, 1, most - 2), 0);
	assert_int_equal(op_read(&rig, ino, 0, 0, buffer, 4 * G4_PAGE_BYTES, &done), 0);
	assert_int_equal(done, 2 * G4_PAGE_BYTES);
	assert_memory_equal(&buffer[G4_PAGE_BYTES], expected, G4_PAGE_BYTES);
}

/* Without space for the map in its new form nothing has changed, and what makes room helps. */
static void without_space_nothing_changes(void **state)
{
	struct model *file = &files[0];
	const uint64_t fill = rig_make(&rig, 5);
	uint64_t at = 0, bytes = sizeof(buffer), done;

	(void)state;
	begin_model(3);
	make_file(file, 0);
	for (uint32_t k = 0; k < 8; k++)
		write_pages(file, k * 2 * REGION_PAGES, REGION_PAGES);
	expect_places(file);
	while (bytes >= G4_PAGE_BYTES) {
		const int rc = op_write(&rig, fill, 0, at, buffer, bytes, &done);
		at += rc == 0 ? done : 0;
		if (rc != 0)
			bytes /= 2;
	}
	const uint64_t before = rig_free_pages(&rig);
	assert_int_equal(shift(file->ino, INSERT, 3, 1), -G4_E_NOSPC);
	assert_int_equal(shift(file->ino, COLLAPSE, 3, 1), -G4_E_NOSPC);
	assert_int_equal(rig_free_pages(&rig), before);
	expect_file(file);
	expect_places(file);
	assert_int_equal(op_truncate(&rig, fill, 0), 0);
	shift_both(file, INSERT, 3, 1);
	shift_both(file, COLLAPSE, 600, 300);
	expect_file(file);
	expect_places(file);
}

/* ---------------------------------------------------------------------------------------------------- any order */

/* Where something begins and how long it is: near the borders of pages of the map as often as not. */
static uint64_t pick_page(uint64_t below)
{
	if (below == 0)
		return 0;
	const uint64_t page = pick(4) == 0 ? pick(below) : pick(below / REGION_PAGES + 1) * REGION_PAGES + pick(5);
	return page < below ? page : pick(below);
}

static uint64_t pick_count(void)
{
	static const uint32_t counts[] = {1, 1, 2, 5, 100, 128, 511, 512, 512, 513, 1024, 3000, 8192, 20000};
	const uint64_t count = counts[pick(sizeof(counts) / sizeof(counts[0]))];

	return pick(4) == 0 ? 1 + pick(count) : count;
}

static void copy_some(struct model *from, struct model *to)
{
	const uint64_t first = pick_page(from->pages), at = pick_page(g4_min64(to->pages + 600, MOST_PAGES - 8000));
	uint64_t in, out, done = 0, count = 1 + pick(600);

	count = g4_min64(count, from->pages - g4_min64(first, from->pages));
	if (count == 0 || (from == to && first < at + count && at < first + count))
		return;
	assert_int_equal(op_open(&rig, from->ino, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, to->ino, G4_OPEN_WRITE, &out), 0);
	assert_int_equal(
		op_copy(&rig, in, first * G4_PAGE_BYTES, out, at * G4_PAGE_BYTES, count * G4_PAGE_BYTES, &done), 0);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
	assert_int_equal(done, count * G4_PAGE_BYTES);
	for (uint64_t k = 0; k < count; k++)
		to->made[at + k] = from->made[first + k] == ALLOCATED ? 0 : from->made[first + k];
	to->pages = g4_max64(to->pages, at + count);
}

static void change(struct model *file)
{
	const uint64_t what = pick(16), page = pick_page(file->pages), count = pick_count();

	if (what < 5 && file->pages > 0 && file->pages + count < MOST_PAGES - 8000) {
		shift_both(file, INSERT, page, count);
	} else if (what < 9 && count < file->pages - page) {
		shift_both(file, COLLAPSE, page, count);
	} else if (what < 11) {
		write_pages(file, pick_page(g4_min64(file->pages + 1000, MOST_PAGES - 8000)), 1 + pick(9));
	} else if (what < 12 && made_count < MOST_MADE / 2) {
		write_pages(file, pick(10) * REGION_PAGES, REGION_PAGES);
	} else if (what < 13) {
		const uint64_t pages = g4_min64(count, MOST_PAGES - 8000 - page);
		assert_int_equal(op_fallocate(&rig, file->ino, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE,
					      page * G4_PAGE_BYTES, pages * G4_PAGE_BYTES),
				 0);
		memset(&file->made[page], 0, pages * sizeof(file->made[0]));
	} else if (what < 14) {
		const uint64_t pages = 1 + pick(20);
		assert_int_equal(op_fallocate(&rig, file->ino, 0, page * G4_PAGE_BYTES, pages * G4_PAGE_BYTES), 0);
		for (uint64_t k = page; k < page + pages; k++)
			file->made[k] = file->made[k] ? file->made[k] : ALLOCATED;
		file->pages = g4_max64(file->pages, page + pages);
	} else if (what < 15) {
		copy_some(&files[pick(FILES)], file);
	} else {
		assert_int_equal(op_truncate(&rig, file->ino, page * G4_PAGE_BYTES), 0);
		memset(&file->made[page], 0, (MOST_PAGES - page) * sizeof(file->made[0]));
		file->pages = page;
	}
}

/* Sums of files of a few pages are in slabs, which are kept a while. */
static uint64_t slabs_for_sums(void)
{
	return rig_setting("G4_TEST_CHECKSUM", 1) ? FILES : 0;
}

static void any_order_of_changes_leaves_what_the_model_has(void **state)
{
	(void)state;
	begin_model(rig_setting("G4_TEST_SEED", 11));
	for (uint32_t f = 0; f < FILES; f++)
		make_file(&files[f], f);
	const uint64_t empty = free_pages_anew();
	stride = rig_setting("G4_SHIFT_STRIDE", 1);
	for (uint32_t i = 0; i < 1200 / rig_every(4); i++) {
		struct model *file = &files[pick(FILES)];

		change(file);
		if (i % 8 == 0)
			expect_file(file);
		if (i % 40 == 39)
			for (uint32_t f = 0; f < FILES; f++)
				expect_places(&files[f]);
		if (i % 10 == 9)
			expect_space(empty, slabs_for_sums());
	}
	stride = 1;
	for (uint32_t f = 0; f < FILES; f++) {
		expect_file(&files[f]);
		expect_places(&files[f]);
	}
	/* what they say of their space is true: nothing is left when they are gone */
	for (uint32_t f = 0; f < FILES; f++)
		assert_int_equal(op_truncate(&rig, files[f].ino, 0), 0);
	assert_int_equal(free_pages_anew(), empty);
}

/* Files that consist of few pages, over and over: each change is one of sharing, and of what is shared. */
static void files_of_few_pages_take_the_space_of_these(void **state)
{
	(void)state;
	begin_model(rig_setting("G4_TEST_SEED", 12));
	for (uint32_t f = 0; f < FILES; f++)
		make_file(&files[f], f);
	const uint64_t empty = free_pages_anew();
	write_pages(&files[0], 0, 9);
	for (uint32_t i = 0; i < 2000 / rig_every(4); i++) {
		const uint64_t f = pick(FILES), what = pick(20);
		struct model *file = &files[f];

		if (what < 12) {
			copy_some(&files[pick(FILES)], file);
		} else if (what < 18) {
			change(file);
		} else if (f > 0) { /* a copy goes, and another one begins */
			char name[16];
			snprintf(name, sizeof(name), "f%u", (unsigned)f);
			assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
			make_file(file, (uint32_t)f);
		}
		if (i % 5 == 4)
			expect_space(empty, slabs_for_sums());
		if (i % 50 == 49)
			for (uint32_t k = 0; k < FILES; k++)
				expect_places(&files[k]);
	}
	for (uint32_t f = 0; f < FILES; f++) {
		expect_file(&files[f]);
		assert_int_equal(op_truncate(&rig, files[f].ino, 0), 0);
	}
	assert_int_equal(free_pages_anew(), empty);
}

/* ---------------------------------------------------------------------------------------------------- at a time */

#define LINE_PAGES 600u
#define READERS 3u

struct reader {
	pthread_t thread;
	uint64_t ino;
	uint32_t *stop;
	uint64_t wrong;
};

/* Each page begins with its number from 1 on, or is of zeros. One read sees them in order, with at most one gap. */
static void *read_lines(void *user)
{
	struct reader *reader = (struct reader *)user;
	uint8_t *memory = rig_memory(2 * LINE_PAGES * G4_PAGE_BYTES, 1);
	struct rig mine = rig;
	uint64_t done;

	mine.wg = g4_wg_create(0);
	while (!g4_load32_acq(reader->stop)) {
		uint64_t last = 0, number;
		if (op_read(&mine, reader->ino, 0, 0, memory, 2 * LINE_PAGES * G4_PAGE_BYTES, &done) != 0)
			reader->wrong++;
		for (uint64_t at = 0; at < done; at += G4_PAGE_BYTES) {
			memcpy(&number, &memory[at], sizeof(number));
			reader->wrong += number != 0 && number != last + 1;
			last = number ? number : last;
		}
		reader->wrong += last != LINE_PAGES;
	}
	g4_wg_destroy(mine.wg);
	free(memory);
	return NULL;
}

static void readers_see_it_done_or_not(void **state)
{
	const uint64_t ino = rig_make(&rig, 1);
	struct reader readers[READERS];
	uint32_t stop = 0;

	(void)state;
	begin_model(4);
	memset(buffer, 0, sizeof(buffer));
	for (uint64_t page = 0; page < LINE_PAGES; page++) {
		const uint64_t number = page + 1;
		memcpy(&buffer[page * G4_PAGE_BYTES], &number, sizeof(number));
	}
	assert_int_equal(op_write(&rig, ino, 0, 0, buffer, LINE_PAGES * G4_PAGE_BYTES, NULL), 0);
	for (uint32_t r = 0; r < READERS; r++) {
		readers[r] = (struct reader){.ino = ino, .stop = &stop};
		assert_int_equal(pthread_create(&readers[r].thread, NULL, read_lines, &readers[r]), 0);
	}
	for (uint32_t i = 0; i < 60 / rig_every(3); i++) {
		const uint64_t at = pick(LINE_PAGES), count = 1 + pick(LINE_PAGES - 1);
		assert_int_equal(shift(ino, INSERT, at, count), 0);
		assert_int_equal(shift(ino, COLLAPSE, at, count), 0);
	}
	g4_store32_rel(&stop, 1);
	for (uint32_t r = 0; r < READERS; r++) {
		assert_int_equal(pthread_join(readers[r].thread, NULL), 0);
		assert_int_equal(readers[r].wrong, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(large_pages_move_as_they_are_where_they_can, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_behind_an_insertion_stays_shared, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_only_in_memory_moves_too, setup, teardown),
		cmocka_unit_test_setup_teardown(ranges_that_do_not_fit_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(a_sparse_file_can_be_as_long_as_files_get, setup, teardown),
		cmocka_unit_test_setup_teardown(without_space_nothing_changes, setup, teardown),
		cmocka_unit_test_setup_teardown(any_order_of_changes_leaves_what_the_model_has, setup, teardown),
		cmocka_unit_test_setup_teardown(files_of_few_pages_take_the_space_of_these, setup, teardown),
		cmocka_unit_test_setup_teardown(readers_see_it_done_or_not, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
