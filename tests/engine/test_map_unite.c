/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indirect pages that lead to the same after a deduplication are one afterwards, with the space exact, until one of the files changes. (In any order, and on a
 * full device: test_map_own.c; power cuts: the crash explorer's "maps-unite".)
 */
#include "damage.h"
#include "rig.h"

#include "alloc/share.h"
#include "fs/fs.h"
#include "simt/simt_host.h"

#define LEAF 512u /* pages below an indirect page */
#define PAGES 400u
#define BYTES (PAGES * (uint64_t)G4_PAGE_BYTES)
#define AT (3 * LEAF) /* where in the files: an indirect page of their own inodes */

static struct rig rig;
static uint8_t data[LEAF * G4_PAGE_BYTES], found[LEAF * G4_PAGE_BYTES];

static void begin(uint32_t checksum)
{
	rig_begin_as(&rig, checksum, 0, 64 * G4_MIB, 16 * G4_MIB, NULL); /* transactions for a few regions */
	rig_pattern(data, 3, sizeof(data));
}

static int setup(void **state)
{
	(void)state;
	begin(G4_CHECKSUM_NONE);
	return 0;
}

static int setup_blake3(void **state)
{
	(void)state;
	begin(G4_CHECKSUM_BLAKE3);
	return 0;
}

static int setup_crc32c(void **state)
{
	(void)state;
	begin(G4_CHECKSUM_CRC32C);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_end(&rig);
	return 0;
}

static void write_page(uint64_t ino, uint64_t page, const uint8_t *from)
{
	assert_int_equal(op_write(&rig, ino, 0, page * G4_PAGE_BYTES, from, G4_PAGE_BYTES, NULL), 0);
}

/* Backwards and synced now and then: single pages, which do not become one of 2 MiB. */
static uint64_t make_at(uint32_t number, uint64_t first)
{
	const uint64_t ino = rig_make(&rig, number);

	for (uint32_t k = PAGES; k-- > 0;) {
		write_page(ino, first + k, data + (uint64_t)k * G4_PAGE_BYTES);
		if (k % 50 == 0)
			assert_int_equal(op_fsync(&rig, ino), 0);
	}
	return ino;
}

static uint64_t dedupe(uint64_t from, uint64_t from_page, uint64_t to, uint64_t to_page, uint64_t pages)
{
	uint64_t in, out, done;

	assert_int_equal(op_open(&rig, from, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, to, G4_OPEN_WRITE, &out), 0);
	assert_int_equal(op_copy_as(&rig, in, from_page * G4_PAGE_BYTES, out, to_page * G4_PAGE_BYTES,
				    pages * G4_PAGE_BYTES, G4_COPY_SAME, &done),
			 0);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
	return done / G4_PAGE_BYTES;
}

static void reflink(uint64_t from, uint64_t to)
{
	uint64_t in, out, done, copied = 0;

	assert_int_equal(op_open(&rig, from, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, to, G4_OPEN_WRITE, &out), 0);
	do {
		assert_int_equal(op_copy(&rig, in, copied, out, copied, 16 * G4_MIB, &done), 0);
		copied += done;
	} while (done > 0);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
}

/* The indirect page above page AT of files, once all is at home. */
static uint64_t leaf_of(uint64_t ino)
{
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	const struct g4_inode *inode = damage_inode(&rig, ino);
	const g4_ptr ptr = inode->map[AT / LEAF];
	assert_int_equal(inode->map_height, 1);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_true(ptr & G4_PTR_INDIRECT);
	return g4_address_stored(g4_ptr_address(ptr));
}

/* Pages that sharing takes: those that count owners, and lead there. */
static uint64_t sharing(void)
{
	struct g4_address address;
	uint64_t pages = 0;
	uint32_t type;

	for (uint64_t group = 0; group < rig.fs->alloc.group_count; group++)
		for (uint32_t n = 0; n < G4_SHARE_PLACES; n++)
			pages += g4_share_place(rig.wg, &rig.fs->alloc, group, n, &address, &type) == 0;
	return pages;
}

static uint64_t blocks_of(uint64_t ino)
{
	struct g4_attr attr;

	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	return attr.blocks_512;
}

static void expect(uint64_t ino, uint64_t first)
{
	rig_expect_contents(&rig, ino, first * G4_PAGE_BYTES, found, data, BYTES);
}

/* Of the target everything goes but its inode: pages, the indirect page, and those of sums. What each file counts stays. */
static void space_falls_by_all_that_the_target_had(void **state)
{
	const uint64_t a = make_at(0, AT);
	const uint64_t before = rig_free_pages(&rig);
	const uint64_t b = make_at(1, AT);
	const uint64_t blocks = blocks_of(b);
	struct g4_attr was, is;

	(void)state;
	assert_int_equal(op_getattr(&rig, b, &was), 0);
	const uint64_t first = sharing();
	/* in three commands, of which the last one makes them equal */
	assert_int_equal(dedupe(a, AT, b, AT, 100), 100);
	assert_int_equal(dedupe(a, AT + 200, b, AT + 200, 200), 200);
	const uint64_t partly = rig_free_pages(&rig) + sharing();
	assert_true(partly < before + first);
	assert_int_equal(dedupe(a, AT + 100, b, AT + 100, 100), 100);
	assert_int_equal(rig_free_pages(&rig) + sharing(), before + first);
	assert_true(rig_free_pages(&rig) + sharing() > partly + 100);
	assert_int_equal(blocks_of(b), blocks);
	assert_int_equal(op_getattr(&rig, b, &is), 0);
	assert_int_equal(is.size, was.size);
	assert_int_equal(is.mtime_ns, was.mtime_ns);
	assert_int_equal(is.ctime_ns, was.ctime_ns);
	assert_int_equal(leaf_of(a), leaf_of(b));
	expect(a, AT);
	expect(b, AT);
	/* a third one, and the page has three owners */
	const uint64_t c = make_at(2, AT);
	assert_int_equal(dedupe(a, AT, c, AT, PAGES), PAGES);
	assert_int_equal(rig_free_pages(&rig) + sharing(), before + first);
	assert_int_equal(leaf_of(a), leaf_of(c));
	/* each change is its file's */
	write_page(b, AT + 7, data);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_not_equal(leaf_of(a), leaf_of(b));
	expect(a, AT);
	expect(c, AT);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f0"), 0);
	expect(c, AT);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f2"), 0);
	rig_expect_contents(&rig, b, (AT + 8) * G4_PAGE_BYTES, found, data + 8 * G4_PAGE_BYTES,
			    BYTES - 8 * G4_PAGE_BYTES);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f1"), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(sharing(), 0);
}

/* Asked again, what has been the same for long is made one as well. */
static void what_is_shared_already_is_made_one(void **state)
{
	const uint64_t a = make_at(0, AT), b = make_at(1, AT), c = rig_make(&rig, 2);

	(void)state;
	reflink(b, c); /* the page above has two owners: it is left by one of them */
	assert_int_equal(leaf_of(b), leaf_of(c));
	assert_int_equal(dedupe(a, AT, b, AT, PAGES), PAGES);
	assert_int_equal(leaf_of(a), leaf_of(b));
	assert_int_not_equal(leaf_of(a), leaf_of(c));
	const uint64_t d = rig_make(&rig, 3), blocks = blocks_of(c);
	assert_int_equal(dedupe(a, AT, c, AT, PAGES), PAGES);
	reflink(c, d);
	assert_int_equal(leaf_of(a), leaf_of(c));
	assert_int_equal(leaf_of(a), leaf_of(d));
	assert_int_equal(blocks_of(c), blocks);
	/* a copy of its own, that others have then, and that comes to lead to the same again */
	write_page(c, AT, data + G4_PAGE_BYTES);
	assert_int_equal(op_fsync(&rig, c), 0);
	write_page(c, AT, data);
	assert_int_equal(op_truncate(&rig, d, 0), 0);
	reflink(c, d);
	assert_int_not_equal(leaf_of(a), leaf_of(d));
	assert_int_equal(dedupe(a, AT, d, AT, 1), 1);
	assert_int_equal(leaf_of(a), leaf_of(d));
	for (uint32_t n = 0; n < 2; n++)
		expect(n ? c : d, AT);
}

/* Another place in 2 MiB, other pages beside them, and other sums: pages are one, and what leads there is not. */
static void what_differs_is_left(void **state)
{
	const uint64_t a = make_at(0, AT), b = make_at(1, AT + 1), c = make_at(2, AT), d = make_at(3, AT);
	const bool sums = (g4_load64_acq(&rig.fs->super.features_incompat) & G4_FEATURE_INCOMPAT_SUMS) != 0;
	char word[] = "none";

	(void)state;
	assert_int_equal(dedupe(a, AT, b, AT + 1, PAGES), PAGES);
	assert_int_not_equal(leaf_of(a), leaf_of(b));
	write_page(c, AT + 450, data);
	assert_int_equal(op_fsync(&rig, c), 0);
	assert_int_equal(dedupe(a, AT, c, AT, PAGES), PAGES);
	assert_int_not_equal(leaf_of(a), leaf_of(c));
	assert_int_equal(op_setxattr(&rig, d, "gpu4fs.checksum", word, 4, 0), 0);
	write_page(d, AT + 9, data + 9 * G4_PAGE_BYTES);
	assert_int_equal(op_fsync(&rig, d), 0);
	assert_int_equal(dedupe(a, AT, d, AT, PAGES), PAGES);
	for (uint32_t k = 0; k < PAGES; k++)
		assert_int_equal(rig_place(&rig, a, AT + k), rig_place(&rig, d, AT + k));
	assert_true((leaf_of(a) == leaf_of(d)) == !sums);
	expect(a, AT);
	expect(b, AT + 1);
	expect(c, AT);
	expect(d, AT);
}

static uint64_t region_of(uint64_t ino, uint64_t page)
{
	return rig_place(&rig, ino, page) / G4_REGION_BYTES;
}

/* Two files come to have the same pages, of so many others: in how many regions these lie. */
static uint32_t make_of(uint64_t *inodes, uint32_t others)
{
	const uint32_t each = PAGES / others;
	uint32_t regions = 1;

	for (uint32_t n = 0; n < 2 + others; n++)
		inodes[n] = make_at(n, AT);
	for (uint32_t n = 0; n < others; n++) {
		const uint64_t page = AT + n * each, pages = n + 1 < others ? each : PAGES - n * each;
		for (uint32_t k = 0; k < 2; k++) { /* the first page of all later, or they would be one by then */
			const uint64_t from = page + (n == 0);
			assert_int_equal(dedupe(inodes[2 + n], from, inodes[k], from, pages - (n == 0)),
					 pages - (n == 0));
		}
		regions += n > 0 && region_of(inodes[0], page) != region_of(inodes[0], page - 1);
	}
	return regions;
}

/* If one transaction has room for what changes of the owners in all of them. */
static void what_lies_in_few_regions_is_made_one(void **state)
{
	uint64_t inodes[6];

	(void)state;
	assert_true(make_of(inodes, 4) >= 2);
	const uint32_t blocks = rig.fs->journal.max_blocks;
	rig.fs->journal.max_blocks = 72;
	assert_int_equal(dedupe(inodes[0], AT, inodes[1], AT, 1), 1);
	rig.fs->journal.max_blocks = blocks;
	assert_int_not_equal(leaf_of(inodes[0]), leaf_of(inodes[1]));
	assert_int_equal(dedupe(inodes[0], AT, inodes[1], AT, PAGES), PAGES);
	assert_int_equal(leaf_of(inodes[0]), leaf_of(inodes[1]));
	expect(inodes[0], AT);
	expect(inodes[1], AT);
}

/* A copy would not find the room that it needs: pages are shared, and each file has its own way there. */
static void what_could_not_be_copied_is_left(void **state)
{
	uint64_t inodes[12];

	(void)state;
	assert_true(make_of(inodes, 10) > 4);
	rig.fs->journal.max_blocks = 72;
	assert_int_equal(dedupe(inodes[0], AT, inodes[1], AT, 1), 1);
	assert_int_equal(rig_place(&rig, inodes[0], AT), rig_place(&rig, inodes[1], AT));
	assert_int_not_equal(leaf_of(inodes[0]), leaf_of(inodes[1]));
	expect(inodes[0], AT);
	expect(inodes[1], AT);
}

/* ------------------------------------------------------------------ what can not be read */

static void begin_wide(void)
{
	rig_begin_as(&rig, G4_CHECKSUM_NONE, 0, 160 * G4_MIB, 16 * G4_MIB, NULL);
	rig_pattern(data, 3, sizeof(data));
}

static int setup_wide(void **state)
{
	(void)state;
	begin_wide();
	return 0;
}

static void mount_again(const struct g4_fault *fault)
{
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = rig_mount_fs(&rig, rig.wg, fault);
}

/* The page of counts, which goes with the last of them, lies in a group whose map can not be read: all owners are counted as they were, or none is lost. */
static void a_map_that_can_not_be_read_loses_no_owner(void **state)
{
	const struct g4_fault none = {0};
	static uint8_t other[LEAF * G4_PAGE_BYTES];
	struct g4_address counts = G4_NO_ADDRESS;
	uint64_t in, out, done;
	uint32_t type;

	(void)state;
	rig_pattern(other, 4, sizeof(other));
	const uint64_t a = rig_make(&rig, 0), b = rig_make(&rig, 1);
	assert_int_equal(op_write(&rig, a, 0, AT * G4_PAGE_BYTES, data, BYTES, NULL), 0);
	assert_int_equal(op_fsync(&rig, a), 0);
	assert_int_equal(op_write(&rig, b, 0, AT * G4_PAGE_BYTES, data, BYTES - G4_PAGE_BYTES, NULL), 0);
	write_page(b, AT + PAGES - 1, other);
	assert_int_equal(op_fsync(&rig, b), 0);
	/* others share as well */
	const uint64_t d = rig_make(&rig, 4), e = rig_make(&rig, 5);
	for (uint32_t n = 0; n < 2; n++)
		assert_int_equal(op_write(&rig, n ? e : d, 0, 0, data, BYTES, NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(dedupe(d, 0, e, 0, 200), 200);
	/* metadata goes on in the last group, as where another workgroup's does */
	for (uint32_t n = 0; n < G4_ALLOC_SHARDS; n++)
		rig.fs->alloc.shards[n].region[G4_ALLOC_METADATA] = 2 * G4_GROUP_REGIONS;
	assert_int_equal(dedupe(a, AT, b, AT, PAGES - 1), PAGES - 1);
	write_page(b, AT + PAGES - 1, data + BYTES - G4_PAGE_BYTES);
	assert_int_equal(op_fsync(&rig, b), 0);
	assert_int_equal(
		g4_share_place(rig.wg, &rig.fs->alloc, 0,
			       1 + (1 + G4_LISTING_QUARTERS) * (uint32_t)(rig_place(&rig, a, AT) / G4_REGION_BYTES),
			       &counts, &type),
		0);
	const uint64_t group = g4_address_stored(counts) / G4_GROUP_BYTES;
	assert_true(group != rig_place(&rig, a, AT) / G4_GROUP_BYTES);
	const uint64_t bad = g4_address_stored(g4_layout_map_page(&rig.fs->meta.layout, group));

	mount_again(&none);
	assert_int_equal(op_open(&rig, a, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, b, G4_OPEN_WRITE, &out), 0);
	g4_dev_fault_set(rig.fault, &(struct g4_fault){.bad_at = bad, .bad_bytes = 1});
	const uint64_t at = (AT + PAGES - 1) * G4_PAGE_BYTES;
	const int rc = op_copy_as(&rig, in, at, out, at, G4_PAGE_BYTES, G4_COPY_SAME, &done);
	g4_dev_fault_set(rig.fault, &none);
	assert_int_equal(rc, 0);
	assert_int_equal(rig.fs->journal.aborted, 0);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig_expect_clean(&rig, RIG_ANY_FREE, "where nothing became one");
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	/* what b has goes, and others write there */
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f1"), 0);
	assert_int_equal(op_sync(&rig), 0);
	const uint64_t c = rig_make(&rig, 3);
	for (uint32_t k = 0; k < 20; k++)
		assert_int_equal(op_write(&rig, c, 0, k * (uint64_t)sizeof(other), other, sizeof(other), NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	rig_squeeze(&rig);
	expect(a, AT);
}

int main(void)
{
#define TEST_AS(name, how, begins)                                                                                     \
	{                                                                                                              \
#name how, name, begins, teardown, NULL                                                                \
	}
#define TEST(name)                                                                                                     \
	TEST_AS(name, "", setup), TEST_AS(name, " with sums", setup_blake3),                                           \
		TEST_AS(name, " with CRC-32C", setup_crc32c)
	const struct CMUnitTest tests[] = {
		TEST(space_falls_by_all_that_the_target_had),
		TEST(what_is_shared_already_is_made_one),
		TEST(what_differs_is_left),
		TEST(what_lies_in_few_regions_is_made_one),
		TEST(what_could_not_be_copied_is_left),
		cmocka_unit_test_setup_teardown(a_map_that_can_not_be_read_loses_no_owner, setup_wide, teardown),
	};

	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
