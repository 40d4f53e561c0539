/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners that are counted for 512 pages in one place: a copy by reference of 2 MiB that one pointer leads to needs no page of counts and
 * none of sums, parts of it have owners and sums of their own as soon as they are changed, and the space is exact in any order of all that. (Power cuts: the crash
 * explorer's "copy" and "share".)
 */
#include <pthread.h>

#include "damage.h"
#include "rig.h"

#include "data/map.h"
#include "format/owners.h"
#include "format/sums.h"
#include "fsck/fsck_types.h"
#include "inode/icache.h"
#include "journal/block.h"
#include "simt/simt_host.h"

#define LARGE (2 * G4_MIB)
#define LARGES 4u
#define MOST_BYTES (LARGES * LARGE)
#define PAGES (LARGES * 512u)

static struct rig rig;
static uint8_t *data, *found;
static bool has_sums;

static int begin(uint32_t algorithm)
{
	has_sums = algorithm != G4_CHECKSUM_NONE;
	rig_open_as(&rig, algorithm, RIG_AS_SET, 64 * G4_MIB, 4 * G4_MIB);
	rig.wg = g4_wg_create(0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	data = rig_memory(MOST_BYTES, 5);
	found = rig_memory(MOST_BYTES, 0);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return begin(G4_CHECKSUM_NONE);
}

static int setup_sums(void **state)
{
	(void)state;
	return begin(G4_CHECKSUM_BLAKE3);
}

static void unmount(void)
{
	struct g4_statfs statfs;

	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &statfs), 0);
	assert_int_equal(rig.fs->alloc.reserved, 0);
	assert_int_equal(rig.fs->journal.aborted, 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	rig_expect_clean(&rig, statfs.blocks_free, "with owners of whole regions");
}

static void mount(void)
{
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

static int teardown(void **state)
{
	(void)state;
	if (rig.fs)
		unmount();
	rig_close(&rig);
	g4_wg_destroy(rig.wg);
	free(data);
	free(found);
	return 0;
}

static uint64_t make(const char *name)
{
	uint64_t ino;

	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &ino), 0);
	return ino;
}

/* A file of large pages, by writes of one each. */
static uint64_t make_large(const char *name, uint32_t larges)
{
	const uint64_t ino = make(name);
	struct g4_run run;

	for (uint32_t k = 0; k < larges; k++)
		assert_int_equal(op_write(&rig, ino, 0, k * LARGE, data + k * LARGE, LARGE, NULL), 0);
	assert_int_equal(op_fsync(&rig, ino), 0);
	for (uint32_t k = 0; k < larges; k++) {
		rig_run_at(&rig, ino, k * UINT64_C(512), &run);
		assert_int_equal(run.level, 1);
	}
	return ino;
}

static int try_copy(uint64_t from, uint64_t from_page, uint64_t to, uint64_t to_page, uint64_t pages, uint64_t *copied)
{
	uint64_t in, out, done = 0;
	int rc;

	*copied = 0;
	assert_int_equal(op_open(&rig, from, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, to, G4_OPEN_WRITE, &out), 0);
	do {
		rc = op_copy(&rig, in, from_page * G4_PAGE_BYTES + *copied, out, to_page * G4_PAGE_BYTES + *copied,
			     pages * G4_PAGE_BYTES - *copied, &done);
		*copied += rc == 0 ? done : 0;
	} while (rc == 0 && done > 0 && *copied < pages * G4_PAGE_BYTES);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
	return rc;
}

static void copy(uint64_t from, uint64_t from_page, uint64_t to, uint64_t to_page, uint64_t pages)
{
	uint64_t copied;

	assert_int_equal(try_copy(from, from_page, to, to_page, pages, &copied), 0);
	assert_int_equal(copied, pages * G4_PAGE_BYTES);
}

static void expect(uint64_t ino, uint64_t bytes)
{
	uint64_t done;

	assert_int_equal(op_read(&rig, ino, 0, 0, found, MOST_BYTES, &done), 0);
	assert_int_equal(done, bytes);
	assert_memory_equal(found, data, bytes);
}

/* Of the unmounted image: what is counted for all regions, and how many pages of counts there are. */
struct counts {
	uint64_t whole, pages;
	struct g4_shares_page *shares; /* the last one */
};

static struct counts count(void)
{
	struct counts counts = {0, 0, NULL};

	for (uint64_t at = 0; at < rig.bytes; at += G4_PAGE_BYTES) {
		const struct g4_alloc_page *map = (const struct g4_alloc_page *)(void *)&rig.image[at];
		if (map->header.magic != G4_BLOCK_MAGIC || map->header.type != G4_BLOCK_ALLOC ||
		    map->header.address != at || map->shares == 0)
			continue;
		counts.shares = (struct g4_shares_page *)(void *)&rig.image[map->shares];
		for (uint32_t region = 0; region < G4_GROUP_REGIONS; region++) {
			counts.whole += counts.shares->whole[region];
			counts.pages += counts.shares->owners[region] != 0;
		}
	}
	return counts;
}

static void expect_counts(uint64_t whole, uint64_t pages)
{
	unmount();
	const struct counts counts = count();
	assert_int_equal(counts.whole, whole);
	/* with sums one more, of their pages, as long as those are shared */
	assert_in_range(counts.pages, pages, pages + (has_sums && whole + pages > 0));
	mount();
}

/* ---------------------------------------------------------------------------------------------------- one by one */

static void a_copy_of_large_pages_takes_no_page_of_counts(void **state)
{
	(void)state;
	unmount(); /* what the first names take is there */
	mount();
	const uint64_t a = make_large("a", LARGES), b = make("b"), c = make("c");

	copy(a, 0, b, 0, PAGES);
	expect_counts(LARGES, 0);
	copy(b, 512, c, 0, 1024); /* of a copy, to another place */
	expect_counts(LARGES + 2, 0);
	expect(a, MOST_BYTES);
	expect(b, MOST_BYTES);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "a"), 0);
	expect_counts(2, 0);
	expect(b, MOST_BYTES);
	assert_int_equal(op_truncate(&rig, c, LARGE), 0);
	expect_counts(1, 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "b"), 0);
	assert_int_equal(op_read(&rig, c, 0, 0, found, LARGE, NULL), 0);
	assert_memory_equal(found, data + LARGE, LARGE);
	unmount();
	assert_null(count().shares); /* what counts nothing has gone */
	mount();
}

/* Where the pages of sums of a large page lie. */
static uint64_t row_of(uint64_t ino, uint64_t page)
{
	struct g4_sum_entry entry;
	uint32_t index;

	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(rig.fs, index);
	g4_read_lock(&inode->lock);
	assert_int_equal(g4_map_row(rig.wg, rig.fs, inode, page, &entry), 1);
	g4_read_unlock(&inode->lock);
	g4_icache_put(rig.fs, index);
	return g4_address_stored(g4_sum_entry_place(&entry));
}

static void a_copy_has_the_same_pages_of_sums(void **state)
{
	const uint64_t a = make_large("a", LARGES), b = make("b");

	(void)state;
	const uint64_t before = rig_free_pages(&rig);
	copy(a, 0, b, 0, PAGES);
	assert_true(rig_free_pages(&rig) + 4 >= before); /* counts, and what leads to them */
	for (uint32_t k = 0; k < LARGES; k++)
		assert_int_equal(row_of(a, k * UINT64_C(512)), row_of(b, k * UINT64_C(512)));
	/* another large page in its place leaves them to the other */
	assert_int_equal(op_write(&rig, b, 0, LARGE, data, LARGE, NULL), 0);
	assert_int_equal(op_fsync(&rig, b), 0);
	expect(a, MOST_BYTES);
	assert_int_equal(op_read(&rig, b, 0, LARGE, found, LARGE, NULL), 0);
	assert_memory_equal(found, data, LARGE);
	/* whoever has them alone at last, and did not make them, divides them as its own */
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "a"), 0);
	assert_int_equal(op_write(&rig, b, 0, LARGE, data + LARGE, LARGE, NULL), 0);
	unmount();
	mount();
	for (uint32_t k = 0; k < LARGES; k++)
		assert_int_equal(op_write(&rig, b, 0, k * LARGE + 9 * G4_PAGE_BYTES,
					  data + k * LARGE + 9 * G4_PAGE_BYTES, G4_PAGE_BYTES, NULL),
				 0);
	unmount();
	mount();
	expect(b, MOST_BYTES);
	unmount();
	assert_null(count().shares);
	mount();
}

static void a_part_that_changes_has_owners_of_its_own(void **state)
{
	const uint64_t a = make_large("a", 2), b = make("b");

	(void)state;
	const uint64_t one = rig_free_pages(&rig);
	copy(a, 0, b, 0, 1024);
	assert_int_equal(op_write(&rig, b, 0, 7 * G4_PAGE_BYTES, data, G4_PAGE_BYTES, NULL), 0);
	expect_counts(1, 1); /* of 511 pages */
	expect(a, 2 * LARGE);
	assert_int_equal(op_read(&rig, b, 0, 7 * G4_PAGE_BYTES, found, 2 * G4_PAGE_BYTES, NULL), 0);
	assert_memory_equal(found, data, G4_PAGE_BYTES);
	assert_memory_equal(found + G4_PAGE_BYTES, data + 8 * G4_PAGE_BYTES, G4_PAGE_BYTES);
	/* the source's too, and a part that goes */
	assert_int_equal(op_fallocate(&rig, a, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 100 * G4_PAGE_BYTES,
				      200 * G4_PAGE_BYTES),
			 0);
	assert_int_equal(op_truncate(&rig, a, LARGE + 5 * G4_PAGE_BYTES), 0);
	expect_counts(0, 2);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "b"), 0);
	expect_counts(0, 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "a"), 0);
	unmount();
	mount();
	assert_true(rig_free_pages(&rig) >= one + 1024);
}

/* Pointers to single pages of a region that others have as a whole come and go beside them. */
static void single_pages_of_a_region_count_beside_it(void **state)
{
	const uint64_t a = make_large("a", 1), b = make("b"), c = make("c"), d = make("d");

	(void)state;
	copy(a, 0, b, 0, 512);
	copy(a, 0, c, 1, 512);	 /* each at another place: no large page */
	copy(a, 100, d, 0, 100); /* a part */
	expect_counts(1, 1);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "a"), 0);
	assert_int_equal(op_fallocate(&rig, c, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 0, 300 * G4_PAGE_BYTES), 0);
	expect_counts(0, 1);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "c"), 0);
	expect(b, LARGE);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "b"), 0);
	assert_int_equal(op_read(&rig, d, 0, 0, found, 100 * G4_PAGE_BYTES, NULL), 0);
	assert_memory_equal(found, data + 100 * G4_PAGE_BYTES, 100 * G4_PAGE_BYTES);
	expect_counts(0, 0);
}

/* What is moved by less than 2 MiB is divided first. */
static void insertions_divide_what_is_shared(void **state)
{
	const uint64_t a = make_large("a", 3), b = make("b");

	(void)state;
	copy(a, 0, b, 0, 3 * 512);
	assert_int_equal(op_fallocate(&rig, b, G4_FALLOC_INSERT_RANGE, 0, G4_PAGE_BYTES), 0);
	expect_counts(0, 3);
	assert_int_equal(op_read(&rig, b, 0, G4_PAGE_BYTES, found, 3 * LARGE, NULL), 0);
	assert_memory_equal(found, data, 3 * LARGE);
	assert_int_equal(op_fallocate(&rig, b, G4_FALLOC_COLLAPSE_RANGE, 0, G4_PAGE_BYTES), 0);
	expect(a, 3 * LARGE);
	expect(b, 3 * LARGE);
}

/* Whoever writes into a copy is told at once that there is no room; what is deleted goes. */
static void a_full_device_divides_or_says_so(void **state)
{
	const uint64_t a = make_large("a", LARGES), b = make("b"), fill = make("fill");
	const uint64_t before = rig_free_pages(&rig);
	uint64_t at = 0, done;

	(void)state;
	copy(a, 0, b, 0, PAGES);
	for (uint64_t bytes = 256 * G4_PAGE_BYTES; bytes >= G4_PAGE_BYTES;) {
		const int rc = op_write(&rig, fill, 0, at, data, bytes, &done);
		at += rc == 0 ? done : 0;
		bytes /= rc == 0 ? 1 : 2;
	}
	assert_int_equal(op_fsync(&rig, fill), 0);
	for (uint32_t k = 0; k < LARGES; k++) { /* told by the write, or done: never by the fsync */
		const int rc = op_write(&rig, b, 0, k * LARGE + G4_PAGE_BYTES, data + k * LARGE + G4_PAGE_BYTES,
					G4_PAGE_BYTES, NULL);
		assert_true(rc == 0 || rc == -G4_E_NOSPC);
		assert_int_equal(op_fsync(&rig, b), 0);
	}
	expect(a, MOST_BYTES);
	expect(b, MOST_BYTES);
	unmount();
	mount();
	assert_int_equal(op_truncate(&rig, b, LARGE + 5 * G4_PAGE_BYTES), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "a"), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "b"), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "fill"), 0);
	unmount();
	mount();
	assert_true(rig_free_pages(&rig) >= before + PAGES);
}

/* ---------------------------------------------------------------------------------------------------- any order */

#define FILES 4u

struct model {
	uint64_t ino, pages;
	uint32_t made[PAGES]; /* which write a page came from; 0: a hole */
};

static struct model files[FILES];
static uint32_t made_count;
static uint64_t choices = 11;

static uint64_t pick(uint64_t count_of)
{
	return rig_random(&choices) % count_of;
}

static void fill_page(uint32_t made, uint8_t *to)
{
	memset(to, 0, G4_PAGE_BYTES);
	if (made)
		rig_pattern(to, made, 64);
}

static void write_pages(struct model *file, uint64_t first, uint64_t pages)
{
	for (uint64_t k = 0; k < pages; k++) {
		file->made[first + k] = ++made_count;
		fill_page(made_count, found + k * G4_PAGE_BYTES);
	}
	assert_int_equal(op_write(&rig, file->ino, 0, first * G4_PAGE_BYTES, found, pages * G4_PAGE_BYTES, NULL), 0);
	file->pages = g4_max64(file->pages, first + pages);
}

static void copy_pages(const struct model *from, uint64_t first, struct model *to, uint64_t at, uint64_t pages)
{
	if (first >= from->pages)
		return;
	pages = g4_min64(pages, from->pages - first);
	if (from == to && first < at + pages && at < first + pages)
		return;
	copy(from->ino, first, to->ino, at, pages);
	memcpy(&to->made[at], &from->made[first], pages * sizeof(to->made[0]));
	to->pages = g4_max64(to->pages, at + pages);
}

static void cut(struct model *file, uint64_t pages)
{
	assert_int_equal(op_truncate(&rig, file->ino, pages * G4_PAGE_BYTES), 0);
	file->pages = pages;
	memset(&file->made[pages], 0, (PAGES - pages) * sizeof(file->made[0]));
}

static void change(struct model *file)
{
	const uint64_t what = pick(32), at = pick(PAGES - 4), pages = 1 + pick(4);

	if (what < 6) {
		write_pages(file, pick(LARGES) * 512, 512);
	} else if (what < 9) {
		write_pages(file, at, pages);
	} else if (what < 21) { /* large pages, to where they may be such */
		const uint64_t n = 1 + pick(2);
		if (pick(5) == 0) /* single pages that hang there stay single, unless their sums lie in a row */
			cut(file, 0);
		copy_pages(&files[pick(FILES)], pick(LARGES - 1) * 512, file, pick(LARGES - 1) * 512, n * 512);
	} else if (what < 24) {
		copy_pages(&files[pick(FILES)], pick(PAGES / 2), file, pick(PAGES / 2), 1 + pick(PAGES / 2));
	} else if (what < 25) {
		cut(file, at);
	} else if (what < 27) {
		assert_int_equal(op_fallocate(&rig, file->ino, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE,
					      at * G4_PAGE_BYTES, pages * G4_PAGE_BYTES),
				 0);
		memset(&file->made[at], 0, pages * sizeof(file->made[0]));
	} else if (what < 28) {
		char name[8];
		snprintf(name, sizeof(name), "r%u", (uint32_t)(file - files));
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
		memset(file, 0, sizeof(*file));
		file->ino = make(name);
	} else {
		assert_int_equal(op_fsync(&rig, file->ino), 0);
	}
}

static void expect_model(const struct model *file)
{
	uint8_t page[G4_PAGE_BYTES];
	uint64_t done;

	assert_int_equal(op_read(&rig, file->ino, 0, 0, found, MOST_BYTES, &done), 0);
	assert_int_equal(done, file->pages * G4_PAGE_BYTES);
	for (uint64_t k = 0; k < file->pages; k++) {
		fill_page(file->made[k], page);
		assert_memory_equal(found + k * G4_PAGE_BYTES, page, G4_PAGE_BYTES);
	}
}

/* How many pages of contents there are: each that was written is stored once, in however many files it is. */
static uint64_t expect_places(void)
{
	uint64_t *place = calloc(made_count + 1, sizeof(*place)), stored = 0;

	for (uint32_t f = 0; f < FILES; f++)
		for (uint64_t k = 0; k < files[f].pages; k++) {
			const uint32_t made = files[f].made[k];
			if (made == 0)
				continue;
			const uint64_t at = rig_place(&rig, files[f].ino, k);
			stored += place[made] == 0;
			if (place[made] == 0)
				place[made] = at;
			assert_int_equal(place[made], at);
		}
	free(place);
	return stored;
}

static void any_order_of_changes_leaves_what_the_model_has(void **state)
{
	uint64_t whole = 0;

	(void)state;
	made_count = 0;
	memset(files, 0, sizeof(files));
	for (uint32_t f = 0; f < FILES; f++) {
		char name[8];
		snprintf(name, sizeof(name), "r%u", f);
		files[f].ino = make(name);
	}
	unmount();
	mount();
	const uint64_t empty = rig_free_pages(&rig);
	write_pages(&files[0], 0, 512); /* something is counted so, however few steps follow */
	copy_pages(&files[0], 0, &files[1], 0, 512);
	unmount();
	whole += count().whole;
	mount();
	for (uint32_t i = 0; i < 600 / rig_every(4); i++) {
		change(&files[pick(FILES)]);
		if (i % 50 != 49)
			continue;
		assert_int_equal(op_sync(&rig), 0);
		for (uint32_t f = 0; f < FILES; f++)
			expect_model(&files[f]);
		(void)expect_places();
		unmount(); /* what is counted is what leads there */
		whole += count().whole;
		mount();
	}
	assert_true(whole > 0);
	for (uint32_t f = 0; f < FILES; f++)
		assert_int_equal(op_truncate(&rig, files[f].ino, 0), 0);
	unmount();
	mount();
	assert_int_equal(rig_free_pages(&rig), empty);
}

/* ---------------------------------------------------------------------------------------------------- the checker */

static void seal(void *page, uint32_t type)
{
	const struct g4_block_header *header = (const struct g4_block_header *)page;

	g4_block_seal(page, type, g4_address_from(header->address), header->generation, header->fs_tag);
}

static uint32_t first_region(const struct g4_shares_page *shares)
{
	uint32_t region = 0;

	while (shares->whole[region] == 0)
		assert_true(++region < G4_GROUP_REGIONS);
	return region;
}

static void clear_feature(void)
{
	struct g4_layout layout;
	struct g4_superblock *sb = (struct g4_superblock *)(void *)&rig.image[G4_SUPERBLOCK_ADDRESS];

	g4_layout_of(sb, &layout);
	const uint64_t both[] = {G4_SUPERBLOCK_ADDRESS, layout.backup_address};
	for (uint32_t k = 0; k < 2; k++) {
		sb = (struct g4_superblock *)(void *)&rig.image[both[k]];
		sb->features_incompat &= ~G4_FEATURE_INCOMPAT_WHOLE;
		damage_seal(&rig, both[k]);
	}
}

enum damage { MORE, LESS, NONE, FULL, FEATURE, DAMAGES };

static void wrong_counts_are_found_and_repaired(void **state)
{
	(void)state;
	for (uint32_t kind = 0; kind < DAMAGES; kind++) {
		const uint64_t a = make_large("a", 1), b = make("b"), c = make("c");
		struct rig_repair how = {0};
		char *text;

		copy(a, 0, b, 0, 512);
		copy(a, 0, c, 0, 512);
		unmount();
		struct g4_shares_page *shares = count().shares;
		const uint32_t region = first_region(shares);
		assert_int_equal(shares->whole[region], 2);
		if (kind == FEATURE)
			clear_feature();
		else
			shares->whole[region] = kind == MORE ? 3 : kind == LESS ? 1 : kind == NONE ? 0 : UINT32_MAX;
		seal(shares, G4_BLOCK_SHARES);
		const uint64_t problems = rig_fsck(&rig, &text).problems;
		if (problems == 0)
			print_error("damage %u is not found\n", kind);
		assert_int_not_equal(problems, 0);
		free(text);
		assert_int_equal(rig_repair(&rig, &how), 0);
		assert_int_equal(how.outcome[G4_FSCK_LOST], 0);
		free(how.text);
		rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
		mount();
		expect(a, LARGE);
		assert_int_equal(op_write(&rig, b, 0, 0, data, G4_PAGE_BYTES, NULL), 0);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "a"), 0);
		expect(b, LARGE);
		expect(c, LARGE);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "b"), 0);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "c"), 0);
		expect_counts(0, 0);
	}
}

/* The number of owners is right, and yet no pointer but the large one could be released. */
static void more_than_large_pointers_lead_there_is_wrong(void **state)
{
	const uint64_t a = make_large("a", 2), b = make("b");
	struct rig_repair how = {0};
	char *text;

	(void)state;
	copy(a, 0, b, 0, 512);
	copy(a, 512, b, 513, 512); /* each alone, beside one large pointer */
	unmount();
	struct g4_shares_page *shares = count().shares;
	uint32_t region = 0;
	while (shares->owners[region] == 0)
		assert_true(++region < G4_GROUP_REGIONS);
	struct g4_owners_page *owners = (struct g4_owners_page *)(void *)&rig.image[shares->owners[region]];
	assert_int_equal(owners->shared, 512);
	shares->whole[region] = 1;
	for (uint32_t k = 0; k < 511; k++) /* a page of counts says something */
		owners->more[k] = 0;
	owners->shared = 1;
	owners->more[511] = 1;
	seal(shares, G4_BLOCK_SHARES);
	seal(owners, G4_BLOCK_OWNERS);
	assert_int_not_equal(rig_fsck(&rig, &text).problems, 0);
	assert_non_null(strstr(text, "pointers to all of it were met"));
	free(text);
	/* whoever would need that count is told, and nothing is freed */
	mount();
	assert_int_not_equal(op_truncate(&rig, b, 513 * G4_PAGE_BYTES), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, false);
	rig.fs = NULL;
	assert_int_equal(rig_repair(&rig, &how), 0);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	mount();
	expect(a, 2 * LARGE);
}

/* Both files lose what a page of sums said of them, and no contents. */
static void a_damaged_page_of_sums_is_given_up_by_all(void **state)
{
	const uint64_t a = make_large("a", 2), b = make("b"), c = make("c");
	struct rig_repair how = {0};
	char *text;

	(void)state;
	copy(a, 0, b, 0, 1024);
	copy(a, 0, c, 0, 512);
	const uint64_t row = row_of(b, 0);
	unmount();
	rig.image[row + G4_PAGE_BYTES + 100] ^= 1;
	assert_int_not_equal(rig_fsck(&rig, &text).problems, 0);
	free(text);
	/* dividing what leads there makes entries that are lost of those, and all others stay */
	mount();
	assert_int_equal(op_write(&rig, c, 0, 0, data, G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_fsync(&rig, c), 0);
	assert_int_equal(op_read(&rig, c, 0, 0, found, 128 * G4_PAGE_BYTES, NULL), 0);
	assert_memory_equal(found, data, 128 * G4_PAGE_BYTES);
	assert_int_not_equal(op_read(&rig, c, 0, 130 * G4_PAGE_BYTES, found, G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_read(&rig, b, 0, 0, found, G4_PAGE_BYTES, NULL), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	assert_int_equal(rig_repair(&rig, &how), 0);
	assert_int_equal(how.outcome[G4_FSCK_LOST], 0);
	assert_true(how.outcome[G4_FSCK_DOUBTFUL] > 0);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	mount();
	expect(a, 2 * LARGE);
	expect(b, 2 * LARGE);
	expect(c, LARGE);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "a"), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "c"), 0);
	expect(b, 2 * LARGE);
}

/* A copy whose original is gone has pages of sums that name that: where the first can not be read the others are copied all the same. */
static void a_damaged_first_page_of_sums_takes_no_other_with_it(void **state)
{
	const uint64_t a = make_large("a", 1), b = make("b");
	const uint64_t quarter = G4_SUMS_SLOTS * G4_PAGE_BYTES;

	(void)state;
	copy(a, 0, b, 0, 512);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "a"), 0);
	const uint64_t row = row_of(b, 0);
	unmount();
	rig.image[row + 100] ^= 1;
	mount();
	assert_int_equal(op_write(&rig, b, 0, 3 * quarter, data + 3 * quarter, G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_fsync(&rig, b), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	mount();
	assert_int_not_equal(op_read(&rig, b, 0, 0, found, G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_read(&rig, b, 0, quarter, found, 3 * quarter, NULL), 0);
	assert_memory_equal(found, data + quarter, 3 * quarter);
	struct rig_repair how = {0};
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	assert_int_equal(rig_repair(&rig, &how), 0);
	assert_int_equal(how.outcome[G4_FSCK_LOST], 0);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	mount();
	expect(b, LARGE);
}

static void write_page(uint64_t ino, uint64_t page, int wanted)
{
	assert_int_equal(op_write(&rig, ino, 0, page * G4_PAGE_BYTES, data, G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_fsync(&rig, ino), wanted);
	assert_int_equal(rig.fs->journal.aborted, 0);
}

/*
 * The device does not give a page of sums: who would have to divide what it belongs to is told, before anything has changed. Everybody else goes on,
 * and so does who needs the other three alone.
 */
static void a_bad_sector_in_a_row_stops_one_file(void **state)
{
	const uint64_t a = make_large("a", 2), b = make("b"), other = make("other");
	const struct g4_fault none = {0};
	uint64_t done;

	(void)state;
	copy(a, 0, b, 0, 1024);
	const uint64_t row = row_of(b, 0);
	unmount();
	rig.fs = rig_mount_fs(&rig, rig.wg, &none);
	g4_dev_fault_set(rig.fault, &(struct g4_fault){.bad_at = row + G4_PAGE_BYTES + 100, .bad_bytes = 1});
	write_page(other, 0, 0);
	write_page(b, 600, 0);
	write_page(b, 7, -G4_E_IO);
	write_page(other, 1, 0);
	/* what was done before in the same transaction is done */
	assert_int_equal(op_write(&rig, a, 0, 700 * G4_PAGE_BYTES, data, G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_fallocate(&rig, a, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 20 * G4_PAGE_BYTES, 40960),
			 -G4_E_IO);
	assert_int_equal(op_truncate(&rig, a, 9 * G4_PAGE_BYTES), -G4_E_IO);
	assert_int_equal(rig.fs->journal.aborted, 0);
	assert_int_equal(op_read(&rig, a, 0, 0, found, 128 * G4_PAGE_BYTES, &done), 0);
	assert_memory_equal(found, data, 128 * G4_PAGE_BYTES);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "b"), 0);
	assert_int_equal(op_sync(&rig), 0);
	/* it is one file's now, which has made it: of the four pages one is in nobody's way but its own */
	write_page(a, 7, 0);
	write_page(a, 130, -G4_E_IO);
	write_page(a, 300, -G4_E_IO); /* with the one that is still dirty */
	write_page(other, 2, 0);
	g4_dev_fault_set(rig.fault, &none);
	assert_int_equal(op_fsync(&rig, a), 0);
	unmount();
	mount();
	const uint64_t written[] = {7, 130, 300, 700};
	for (uint32_t k = 0; k < 4; k++)
		memcpy(data + written[k] * G4_PAGE_BYTES, data, G4_PAGE_BYTES);
	expect(a, 2 * LARGE);
}

/*
 * A page of the map is in the way of a file that becomes shorter, behind what could be given up: nothing is. A file that is short and has what was
 * cut would show it to who makes it longer again, and no mount could finish it.
 */
static void what_can_not_be_cut_is_not_cut_in_part(void **state)
{
	const uint64_t a = make_large("a", 2);
	const struct g4_fault none = {0};
	struct g4_map_nodes nodes;
	uint32_t index;

	(void)state;
	assert_int_equal(op_write(&rig, a, 0, 600 * G4_PAGE_BYTES, data + 600 * G4_PAGE_BYTES, G4_PAGE_BYTES, NULL), 0);
	unmount();
	rig.fs = rig_mount_fs(&rig, rig.wg, &none);
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, a, &index), 0);
	assert_int_equal(g4_map_nodes(rig.wg, rig.fs, g4_icache_at(rig.fs, index), 600, &nodes), 0);
	g4_icache_put(rig.fs, index);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = rig_mount_fs(&rig, rig.wg, &none);
	g4_dev_fault_set(rig.fault,
			 &(struct g4_fault){.bad_at = g4_address_stored(nodes.nodes[nodes.count - 1]), .bad_bytes = 1});
	assert_int_equal(op_truncate(&rig, a, 0), -G4_E_IO);
	assert_int_equal(rig.fs->journal.aborted, 0);
	assert_int_equal(op_sync(&rig), 0);
	g4_dev_fault_set(rig.fault, &none);
	rig_unmount_fs(&rig, rig.wg, rig.fs, false);
	mount();
	expect(a, 2 * LARGE);
}

/* The same of a large page of which all four can be read by nobody: writing all of it anew needs none of them. */
static void what_is_written_anew_needs_no_old_sums(void **state)
{
	const uint64_t a = make_large("a", 2), b = make("b");
	const struct g4_fault none = {0};

	(void)state;
	copy(a, 0, b, 0, 1024);
	const uint64_t row = row_of(b, 0);
	unmount();
	rig.fs = rig_mount_fs(&rig, rig.wg, &none);
	g4_dev_fault_set(rig.fault, &(struct g4_fault){.bad_at = row, .bad_bytes = G4_SUMS_QUARTERS * G4_PAGE_BYTES});
	assert_int_not_equal(op_read(&rig, b, 0, 0, found, G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_write(&rig, b, 0, 0, data, LARGE, NULL), 0);
	assert_int_equal(op_fsync(&rig, b), 0);
	expect(b, 2 * LARGE);
	write_page(b, 9, 0);
	memcpy(data + 9 * G4_PAGE_BYTES, data, G4_PAGE_BYTES);
	g4_dev_fault_set(rig.fault, &none);
	expect(b, 2 * LARGE);
}

/* Counts of owners of pages of sums, and a version that does not know that they have any. */
static void wrong_owners_of_pages_of_sums_are_found_and_repaired(void **state)
{
	(void)state;
	for (uint32_t kind = 0; kind < 3; kind++) {
		const uint64_t a = make_large("a", 1), b = make("b"), c = make("c");
		struct rig_repair how = {0};
		char *text;

		copy(a, 0, b, 0, 512);
		copy(a, 0, c, 0, 512);
		const uint64_t row = row_of(c, 0);
		unmount();
		const struct g4_shares_page *shares = count().shares;
		const uint64_t at = shares->owners[row / G4_REGION_BYTES % G4_GROUP_REGIONS];
		struct g4_owners_page *owners = (struct g4_owners_page *)(void *)&rig.image[at];
		uint32_t *more = &owners->more[row / G4_PAGE_BYTES % G4_REGION_PAGES];
		assert_int_not_equal(at, 0);
		assert_int_equal(*more, 2);
		if (kind < 2)
			*more += kind == 0 ? 1 : -1u;
		else
			owners->more[row / G4_PAGE_BYTES % G4_REGION_PAGES + 1] = 1; /* the second one has none */
		owners->shared += kind == 2;
		seal(owners, G4_BLOCK_OWNERS);
		const uint64_t problems = rig_fsck(&rig, &text).problems;
		if (problems == 0)
			print_error("damage %u is not found\n", kind);
		assert_int_not_equal(problems, 0);
		free(text);
		assert_int_equal(rig_repair(&rig, &how), 0);
		assert_int_equal(how.outcome[G4_FSCK_LOST], 0);
		free(how.text);
		rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
		mount();
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "a"), 0);
		assert_int_equal(op_write(&rig, b, 0, 0, data, G4_PAGE_BYTES, NULL), 0);
		expect(b, LARGE);
		expect(c, LARGE);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "b"), 0);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "c"), 0);
		expect_counts(0, 0);
	}
}

/* ---------------------------------------------------------------------------------------------------- threads */

#define THREADS 3u
#define SHARED_LARGES 2u

struct sharer {
	pthread_t thread;
	uint32_t number;
	const uint64_t *ino;
};

/* Copies of large pages, and changes that divide them. A page holds the number of the write that it was made by, all over. */
static void *share_and_divide(void *user)
{
	const struct sharer *sharer = (const struct sharer *)user;
	uint64_t state = sharer->number + 1, *bytes = calloc(1, LARGE), done, handle[THREADS];

	for (uint32_t f = 0; f < THREADS; f++)
		assert_int_equal(op_open(&rig, sharer->ino[f], G4_OPEN_READ | G4_OPEN_WRITE, &handle[f]), 0);
	for (uint32_t i = 0; i < 160 / rig_every(4); i++) {
		const uint32_t from = (uint32_t)(rig_random(&state) % THREADS),
			       to = (uint32_t)(rig_random(&state) % THREADS);
		const uint64_t at = rig_random(&state) % SHARED_LARGES * LARGE, kind = rig_random(&state) % 8;
		const uint64_t page = rig_random(&state) % 512 * G4_PAGE_BYTES;
		if (kind == 0) { /* a new large page */
			for (uint64_t w = 0; w < LARGE / 8; w++)
				bytes[w] = (uint64_t)sharer->number << 32 | i;
			assert_int_equal(op_write(&rig, 0, handle[to], at, bytes, LARGE, &done), 0);
		} else if (kind < 3) {
			for (uint32_t w = 0; w < 512; w++)
				bytes[w] = (uint64_t)sharer->number << 32 | i;
			assert_int_equal(op_write(&rig, 0, handle[to], at + page, bytes, G4_PAGE_BYTES, &done), 0);
		} else if (kind == 3) {
			assert_int_equal(op_truncate(&rig, sharer->ino[to], at + page), 0);
		} else if (from != to) {
			assert_int_equal(op_copy(&rig, handle[from], at, handle[to],
						 rig_random(&state) % SHARED_LARGES * LARGE, LARGE, &done),
					 0);
		}
	}
	for (uint32_t f = 0; f < THREADS; f++)
		assert_int_equal(op_release(&rig, handle[f]), 0);
	free(bytes);
	return NULL;
}

static void threads_that_share_large_pages_leave_whole_ones(void **state)
{
	struct sharer sharers[THREADS];
	struct g4_statfs statfs;
	uint64_t ino[THREADS], done;

	(void)state;
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	rig_mount(&rig);
	for (uint32_t t = 0; t < THREADS; t++) {
		char name[] = {'t', (char)('0' + t), 0};
		ino[t] = make(name);
	}
	for (uint32_t t = 0; t < THREADS; t++) {
		sharers[t].ino = ino;
		sharers[t].number = t;
		assert_int_equal(pthread_create(&sharers[t].thread, NULL, share_and_divide, &sharers[t]), 0);
	}
	for (uint32_t t = 0; t < THREADS; t++)
		pthread_join(sharers[t].thread, NULL);
	for (uint32_t t = 0; t < THREADS; t++) {
		assert_int_equal(op_read(&rig, ino[t], 0, 0, found, MOST_BYTES, &done), 0);
		for (uint64_t at = 0; at < done; at += G4_PAGE_BYTES)
			assert_memory_equal(&found[at], &found[at + 8], g4_min64(done - at, G4_PAGE_BYTES) - 8);
	}
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &statfs), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, statfs.blocks_free, "after threads that share large pages");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_WITH_SUMS(name) cmocka_unit_test_setup_teardown(name, setup_sums, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_copy_of_large_pages_takes_no_page_of_counts),
		TEST_WITH_SUMS(a_copy_of_large_pages_takes_no_page_of_counts),
		TEST(a_part_that_changes_has_owners_of_its_own),
		TEST_WITH_SUMS(a_part_that_changes_has_owners_of_its_own),
		TEST(single_pages_of_a_region_count_beside_it),
		TEST_WITH_SUMS(single_pages_of_a_region_count_beside_it),
		TEST(insertions_divide_what_is_shared),
		TEST_WITH_SUMS(insertions_divide_what_is_shared),
		TEST(a_full_device_divides_or_says_so),
		TEST_WITH_SUMS(a_full_device_divides_or_says_so),
		TEST(any_order_of_changes_leaves_what_the_model_has),
		TEST_WITH_SUMS(any_order_of_changes_leaves_what_the_model_has),
		TEST(wrong_counts_are_found_and_repaired),
		TEST_WITH_SUMS(wrong_counts_are_found_and_repaired),
		TEST(more_than_large_pointers_lead_there_is_wrong),
		TEST_WITH_SUMS(a_copy_has_the_same_pages_of_sums),
		TEST_WITH_SUMS(a_damaged_page_of_sums_is_given_up_by_all),
		TEST_WITH_SUMS(a_damaged_first_page_of_sums_takes_no_other_with_it),
		TEST_WITH_SUMS(a_bad_sector_in_a_row_stops_one_file),
		TEST_WITH_SUMS(what_is_written_anew_needs_no_old_sums),
		TEST(what_can_not_be_cut_is_not_cut_in_part),
		TEST_WITH_SUMS(what_can_not_be_cut_is_not_cut_in_part),
		TEST_WITH_SUMS(wrong_owners_of_pages_of_sums_are_found_and_repaired),
		TEST(threads_that_share_large_pages_leave_whole_ones),
		TEST_WITH_SUMS(threads_that_share_large_pages_leave_whole_ones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
