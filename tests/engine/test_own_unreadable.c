/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that was copied by reference is changed, and one of the pages that its copy of an indirect page asks for can not be read, once or each time: the
 * change is refused, or done, both files keep what they have, nobody else's writes end, and owners and space are exact.
 */
#include "rig.h"

#include "alloc/share.h"
#include "fs/fs.h"
#include "inode/icache.h"
#include "simt/simt_host.h"

#define IMAGE_BYTES (192 * G4_MIB)
#define CACHE_BYTES (32 * G4_MIB) /* a transaction has room for what they lead to */
#define BASE_BYTES (140 * G4_MIB) /* of three groups */
#define EVERY (20 * G4_MIB)	  /* so far are rows apart that one indirect page leads to */
#define ROWS (BASE_BYTES / EVERY)
#define ROW UINT64_C(66) /* pages: their owners are counted in a page of counts, and not buffered */
#define STEP (ROW + 4)	 /* holes between them */
#define READS_MOST 4096u

static struct rig rig;
static uint8_t *data;
static uint64_t first, second, third, base, row, other;
static uint64_t places[READS_MOST];
static uint32_t place_count;

static void mount_fs(const struct g4_fault *fault)
{
	const struct g4_fault none = {0};

	rig.fs = rig_mount_fs(&rig, rig.wg, fault ? fault : &none);
}

static void unmount_clean(void)
{
	assert_int_equal(rig.fs->journal.aborted, 0);
	assert_int_equal(rig.fs->alloc.reserved, 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
}

static void share(uint64_t from, uint64_t from_offset, uint64_t to, uint64_t to_offset, uint64_t bytes)
{
	uint64_t in, out, done;

	assert_int_equal(op_open(&rig, from, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, to, G4_OPEN_READ | G4_OPEN_WRITE, &out), 0);
	assert_int_equal(op_copy_as(&rig, in, from_offset, out, to_offset, bytes, G4_COPY_SHARE, &done), 0);
	assert_int_equal(done, bytes);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
}

/* Rows that lie far from each other, each with several owners, hang at one indirect page that two files have. */
static int begin(uint32_t algorithm)
{
	rig_open_as(&rig, algorithm, RIG_AS_SET, IMAGE_BYTES, 16 * G4_MIB);
	rig.cache_bytes = CACHE_BYTES;
	rig.wg = g4_wg_create(0);
	data = rig_memory(BASE_BYTES, 3);
	mount_fs(NULL);
	base = rig_make_file(&rig, "base", 0, data, BASE_BYTES);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "first", G4_S_IFREG | 0600, &first), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "second", G4_S_IFREG | 0600, &second), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "third", G4_S_IFREG | 0600, &third), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "other", G4_S_IFREG | 0600, &other), 0);
	assert_int_equal(op_sync(&rig), 0);
	for (uint64_t k = 0; k < ROWS; k++)
		share(base, k * EVERY, first, k * STEP * G4_PAGE_BYTES, ROW * G4_PAGE_BYTES);
	assert_int_equal(op_truncate(&rig, first, 2 * G4_MIB), 0);
	share(first, 0, second, 0, 2 * G4_MIB);
	assert_int_equal(op_sync(&rig), 0);
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

static int teardown(void **state)
{
	(void)state;
	if (rig.fs)
		rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig_close(&rig);
	g4_wg_destroy(rig.wg);
	free(data);
	return 0;
}

/* What is in a file, but for the page that was changed. */
static void expect_file(uint64_t ino, uint64_t changed)
{
	uint8_t *found = rig_memory(2 * G4_MIB, 0);
	uint64_t done;

	assert_int_equal(op_read(&rig, ino, 0, 0, found, 2 * G4_MIB, &done), 0);
	assert_int_equal(done, 2 * G4_MIB);
	for (uint64_t page = 0; page < ROWS * STEP; page++)
		if (page % STEP < ROW && page != changed)
			assert_memory_equal(found + page * G4_PAGE_BYTES,
					    data + page / STEP * EVERY + page % STEP * G4_PAGE_BYTES, G4_PAGE_BYTES);
	free(found);
}

enum change {
	WRITE,
	CUT,
	PUNCH,
	LEND /* the indirect page to another file */,
	LEAD /* single pages to it */,
	OVER /* the same where it has others */,
	CHANGES
};

static int do_share(uint64_t from, uint64_t from_offset, uint64_t to_offset, uint64_t bytes)
{
	uint64_t in, out, done;
	int rc = op_open(&rig, from, G4_OPEN_READ, &in);

	if (rc == 0 && (rc = op_open(&rig, third, G4_OPEN_READ | G4_OPEN_WRITE, &out)) == 0) {
		rc = op_copy_as(&rig, in, from_offset, out, to_offset, bytes, G4_COPY_SHARE, &done);
		if (rc == 0)
			assert_int_equal(done, bytes);
		assert_int_equal(op_release(&rig, out), 0);
		assert_int_equal(op_release(&rig, in), 0);
	}
	return rc;
}

/* Into what two files have: the first three of these make a copy of the indirect page first, but for one whose other owner has gone. */
static int do_change(enum change change)
{
	const uint64_t at = 4 * G4_PAGE_BYTES;
	int rc;

	switch (change) {
	case WRITE:
		rc = op_write(&rig, second, 0, at, "changed", 7, NULL);
		return rc < 0 ? rc : op_fsync(&rig, second);
	case CUT:
		return op_truncate(&rig, second, (ROWS - 1) * STEP * G4_PAGE_BYTES);
	case LEND:
		return do_share(first, 0, 0, 2 * G4_MIB);
	case LEAD:
		return do_share(base, EVERY, 0, ROW * G4_PAGE_BYTES);
	case OVER:
		rc = do_share(base, 2 * EVERY, 0, ROW * G4_PAGE_BYTES);
		return rc;
	default:
		return op_fallocate(&rig, second, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, at, G4_PAGE_BYTES);
	}
}

static void note_read(void *context, const struct g4_io *io)
{
	(void)context;
	if (io->op == G4_IO_READ && place_count < READS_MOST)
		places[place_count++] = io->offset_bytes;
}

/* After a change that was refused or not everybody goes on. */
static void expect_all_go_on(enum change change, int rc)
{
	if (rc != 0 && rc != -G4_E_IO)
		fail_msg("%s", g4_strerror(rc));
	g4_dev_fault_set(rig.fault, &(struct g4_fault){0});
	assert_int_equal(rig.fs->journal.aborted, 0);
	assert_int_equal(op_write(&rig, other, 0, 0, data, G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_fsync(&rig, other), 0);
	expect_file(first, UINT64_MAX);
	if (change != CUT)
		expect_file(second, 4);
}

/* All files have what they had. */
static void undo(enum change change)
{
	if (change >= LEND) {
		assert_int_equal(op_truncate(&rig, third, 0), 0);
		if (change == OVER)
			share(base, EVERY, third, 0, ROW * G4_PAGE_BYTES);
		assert_int_equal(op_sync(&rig), 0);
		return;
	}
	assert_int_equal(op_truncate(&rig, second, 0), 0);
	share(first, 0, second, 0, 2 * G4_MIB);
	assert_int_equal(op_sync(&rig), 0);
}

/* The places that a change reads, nothing of which is cached. */
static void find_places(enum change change)
{
	unmount_clean();
	mount_fs(NULL);
	place_count = 0;
	g4_dev_fault_watch(rig.fault, note_read, NULL);
	assert_int_equal(do_change(change), 0);
	g4_dev_fault_watch(rig.fault, NULL, NULL);
	assert_in_range(place_count, change < LEND ? ROWS : 1, READS_MOST - 1);
	undo(change);
}

static void one_change(enum change change, const struct g4_fault *fault, uint32_t *refused)
{
	unmount_clean();
	mount_fs(NULL);
	g4_dev_fault_set(rig.fault, fault);
	const int rc = do_change(change);
	expect_all_go_on(change, rc);
	*refused += rc < 0;
	if (rc < 0) /* the same again, with what can be read now */
		assert_int_equal(do_change(change), 0);
	expect_all_go_on(change, 0);
	undo(change);
}

static void a_page_that_can_not_be_read_ends_that_change_alone(void **state)
{
	(void)state;
	for (enum change change = WRITE; change < CHANGES; change++) {
		uint32_t refused = 0, once = 0;
		undo(change);
		find_places(change);
		const uint32_t count = place_count;
		const uint64_t every = change < LEND ? rig_every(3) : 1; /* copies by reference read little */
		for (uint32_t k = 0; k < count; k += every) {
			one_change(change, &(struct g4_fault){.bad_at = places[k], .bad_bytes = 1}, &refused);
			one_change(change, &(struct g4_fault){.fail_read_at = k + 1}, &once);
		}
		assert_true(refused >= (change < LEND ? ROWS / every : 1)); /* counts of owners among them */
		unmount_clean();
		rig_expect_clean(&rig, RIG_ANY_FREE, "after changes that could not be done");
		mount_fs(NULL);
	}
}

/* ------------------------------------------------------------------ a large page that is divided */

#define LARGE (2 * G4_MIB)

static void make_third_large(void)
{
	assert_int_equal(op_truncate(&rig, third, 0), 0);
	assert_int_equal(op_write(&rig, third, 0, 0, data, LARGE, NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
}

/* `row`: single pages in a row, as many as an indirect page leads to. */
static int setup_large(void **state)
{
	(void)state;
	rig_open_as(&rig, G4_CHECKSUM_BLAKE3, RIG_AS_SET, 48 * G4_MIB, 4 * G4_MIB);
	rig.wg = g4_wg_create(0);
	data = rig_memory(2 * LARGE, 3);
	mount_fs(NULL);
	base = rig_make_file(&rig, "base", 0, data, 2 * LARGE);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "row", G4_S_IFREG | 0600, &row), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "third", G4_S_IFREG | 0600, &third), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "other", G4_S_IFREG | 0600, &other), 0);
	assert_int_equal(op_sync(&rig), 0);
	share(base, G4_PAGE_BYTES, row, 0, LARGE);
	make_third_large();
	return 0;
}

/* Single pages take the place of a large one, which is divided with its pages of sums first: of these none is to be read too late. */
static void single_pages_in_the_place_of_a_large_one(void **state)
{
	uint32_t refused = 0;

	(void)state;
	unmount_clean();
	mount_fs(NULL);
	place_count = 0;
	g4_dev_fault_watch(rig.fault, note_read, NULL);
	assert_int_equal(do_share(row, 0, 0, LARGE), 0);
	g4_dev_fault_watch(rig.fault, NULL, NULL);
	make_third_large();
	for (uint32_t k = 0; k < place_count; k++) {
		unmount_clean();
		mount_fs(NULL);
		g4_dev_fault_set(rig.fault, &(struct g4_fault){.bad_at = places[k], .bad_bytes = 1});
		const int rc = do_share(row, 0, 0, LARGE);
		g4_dev_fault_set(rig.fault, &(struct g4_fault){0});
		assert_true(rc == 0 || rc == -G4_E_IO);
		assert_int_equal(rig.fs->journal.aborted, 0);
		assert_int_equal(op_write(&rig, other, 0, 0, data, G4_PAGE_BYTES, NULL), 0);
		assert_int_equal(op_fsync(&rig, other), 0);
		refused += rc < 0;
		if (rc == 0)
			make_third_large();
	}
	assert_in_range(refused, 4, place_count); /* its pages of sums among them */
	unmount_clean();
	rig_expect_clean(&rig, RIG_ANY_FREE, "after copies that could not be done");
	mount_fs(NULL);
}

/* All space is in use but for single pages: `row` has the pages of a large one, and could not become one for want of four in a row for its sums. */
static int setup_crowded(void **state)
{
	const uint64_t isolated = 64;
	uint64_t fill, done;
	char name[32];

	(void)state;
	rig_open_as(&rig, G4_CHECKSUM_BLAKE3, 0, 32 * G4_MIB, 4 * G4_MIB);
	rig.wg = g4_wg_create(0);
	data = rig_memory(2 * LARGE, 3);
	mount_fs(NULL);
	base = rig_make_file(&rig, "base", 0, data, LARGE);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "row", G4_S_IFREG | 0600, &row), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "third", G4_S_IFREG | 0600, &third), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "other", G4_S_IFREG | 0600, &other), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "fill", G4_S_IFREG | 0600, &fill), 0);
	assert_int_equal(op_sync(&rig), 0);
	make_third_large();
	share(base, 0, row, 0, 100 * G4_PAGE_BYTES);
	for (uint64_t at = 0; op_write(&rig, fill, 0, at, data, G4_PAGE_BYTES, &done) == 0; at += done)
		;
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_fallocate(&rig, fill, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 10 * G4_PAGE_BYTES,
				      G4_PAGE_BYTES),
			 0); /* it is divided */
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t k = 0;; k++) {
		snprintf(name, sizeof(name), "user.%u", k);
		if (op_setxattr(&rig, other, name, data, 3000, 0) < 0)
			break;
	}
	assert_int_equal(op_sync(&rig), 0);
	for (uint64_t k = 0; k < isolated; k++)
		assert_int_equal(op_fallocate(&rig, fill, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE,
					      (20 + 2 * k) * G4_PAGE_BYTES, G4_PAGE_BYTES),
				 0);
	assert_int_equal(op_sync(&rig), 0);
	share(base, 100 * G4_PAGE_BYTES, row, 100 * G4_PAGE_BYTES, LARGE - 100 * G4_PAGE_BYTES);
	assert_int_equal(op_sync(&rig), 0);
	return 0;
}

/* The large page is divided after all, in the same transaction: its pages of sums are not to be read too late. */
static void single_pages_that_lie_as_a_large_one_in_its_place(void **state)
{
	uint32_t refused = 0;

	(void)state;
	unmount_clean();
	uint8_t *image = rig_memory(rig.bytes, 0);
	memcpy(image, rig.image, rig.bytes);
	mount_fs(NULL);
	place_count = 0;
	g4_dev_fault_watch(rig.fault, note_read, NULL);
	assert_int_equal(do_share(row, 0, 0, LARGE), 0);
	g4_dev_fault_watch(rig.fault, NULL, NULL);
	unmount_clean();
	for (uint32_t k = 0; k < place_count; k++) {
		memcpy(rig.image, image, rig.bytes);
		mount_fs(NULL);
		g4_dev_fault_set(rig.fault, &(struct g4_fault){.bad_at = places[k], .bad_bytes = 1});
		const int rc = do_share(row, 0, 0, LARGE);
		g4_dev_fault_set(rig.fault, &(struct g4_fault){0});
		assert_true(rc == 0 || rc == -G4_E_IO);
		refused += rc < 0;
		unmount_clean();
		rig_expect_clean(&rig, RIG_ANY_FREE, "after a copy that could not be done");
	}
	assert_in_range(refused, 4, place_count); /* its pages of sums among them */
	free(image);
	mount_fs(NULL);
}

/* ------------------------------------------------------------------ counts in another group */

static int setup_apart(void **state)
{
	(void)state;
	rig_open_as(&rig, G4_CHECKSUM_NONE, 0, 160 * G4_MIB, 4 * G4_MIB);
	rig.cache_bytes = 16 * G4_MIB;
	rig.wg = g4_wg_create(0);
	data = rig_memory(LARGE, 3);
	mount_fs(NULL);
	return 0;
}

/* Whoever leaves an indirect page takes its last further owner off, and the page where that was buffered lies in a group whose map can not be read: it stays. */
static void a_map_that_can_not_be_read_loses_no_owner(void **state)
{
	const uint64_t bytes = 400 * G4_PAGE_BYTES;
	uint8_t *changed = rig_memory(LARGE, 4), *found = rig_memory(LARGE, 0);
	struct g4_address counts;
	uint64_t shared[2], in, out, done;
	uint32_t type;

	(void)state;
	first = rig_make_file(&rig, "first", 3 * LARGE, data, bytes);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "second", G4_S_IFREG | 0600, &second), 0);
	/* others share as well, so that the page of shares stays */
	for (uint32_t n = 0; n < 2; n++)
		shared[n] = rig_make_file(&rig, n ? "b" : "a", 0, data, bytes);
	assert_int_equal(op_open(&rig, shared[0], G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, shared[1], G4_OPEN_WRITE, &out), 0);
	assert_int_equal(op_copy_as(&rig, in, 0, out, 0, 64 * G4_PAGE_BYTES, G4_COPY_SAME, &done), 0);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
	assert_int_equal(op_sync(&rig), 0);
	/* metadata goes on in the last group, as where another workgroup's does */
	for (uint32_t n = 0; n < G4_ALLOC_SHARDS; n++)
		rig.fs->alloc.shards[n].region[G4_ALLOC_METADATA] = 2 * G4_GROUP_REGIONS;
	share(first, 3 * LARGE, second, 3 * LARGE, bytes);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(g4_share_place(rig.wg, &rig.fs->alloc, 0, G4_SHARE_PLACES - 1, &counts, &type), 0);
	const uint64_t group = g4_address_stored(counts) / G4_GROUP_BYTES;
	assert_int_equal(group, 2);
	const uint64_t bad = g4_address_stored(g4_layout_map_page(&rig.fs->meta.layout, group));

	unmount_clean();
	mount_fs(NULL);
	g4_dev_fault_set(rig.fault, &(struct g4_fault){.bad_at = bad, .bad_bytes = 1});
	int rc = op_write(&rig, second, 0, 3 * LARGE, changed, G4_PAGE_BYTES, NULL);
	if (rc == 0)
		rc = op_fsync(&rig, second);
	assert_int_equal(rc, 0);
	g4_dev_fault_set(rig.fault, &(struct g4_fault){0});
	assert_int_equal(g4_share_place(rig.wg, &rig.fs->alloc, 0, G4_SHARE_PLACES - 1, &counts, &type), 0);
	unmount_clean();
	rig_expect_clean(&rig, RIG_ANY_FREE, "with an empty page of buffered owners");
	mount_fs(NULL);
	/* what the second one has goes, and others write there */
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "second"), 0);
	assert_int_equal(op_sync(&rig), 0);
	other = rig_make_file(&rig, "other", 0, changed, LARGE);
	for (uint32_t k = 1; k < 20; k++)
		assert_int_equal(op_write(&rig, other, 0, k * LARGE, changed, LARGE, NULL), 0);
	assert_int_equal(op_sync(&rig), 0);
	rig_squeeze(&rig);
	rig_expect_contents(&rig, first, 3 * LARGE, found, data, bytes);
	unmount_clean();
	rig_expect_clean(&rig, RIG_ANY_FREE, "at the end");
	mount_fs(NULL);
	free(changed);
	free(found);
}

/* All that shares there: pages of shares, of counts, of buffered owners. */
static uint64_t sharing(void)
{
	struct g4_address address;
	uint64_t pages = 0;
	uint32_t type;

	for (uint32_t n = 0; n < G4_SHARE_PLACES; n++)
		pages += g4_share_place(rig.wg, &rig.fs->alloc, 0, n, &address, &type) == 0;
	return pages;
}

/* What counts owners lies where no map can be read: who releases the last of them leaves it, empty, to the next one. */
static void what_counts_owners_stays_where_its_map_can_not_be_read(void **state)
{
	const uint64_t bytes = 200 * G4_PAGE_BYTES;
	uint8_t *found = rig_memory(bytes, 0);
	struct g4_address counts;
	uint32_t type;

	(void)state;
	for (uint32_t change = 0; change < 3; change++) {
		first = rig_make_file(&rig, "first", 0, data, bytes);
		second = rig_make_file(&rig, "second", bytes, data, G4_PAGE_BYTES); /* with its map */
		assert_int_equal(op_sync(&rig), 0);
		for (uint32_t n = 0; n < G4_ALLOC_SHARDS; n++)
			rig.fs->alloc.shards[n].region[G4_ALLOC_METADATA] = 2 * G4_GROUP_REGIONS;
		share(first, 0, second, 0, 100 * G4_PAGE_BYTES);
		assert_int_equal(op_sync(&rig), 0);
		const uint64_t had = sharing();
		assert_true(had >= 2);
		assert_int_equal(g4_share_place(rig.wg, &rig.fs->alloc, 0, 0, &counts, &type), 0);
		const uint64_t group = g4_address_stored(counts) / G4_GROUP_BYTES;
		assert_int_equal(group, 2);
		const uint64_t bad = g4_address_stored(g4_layout_map_page(&rig.fs->meta.layout, group));

		unmount_clean();
		mount_fs(&(struct g4_fault){.bad_at = bad, .bad_bytes = 1});
		if (change == 0) {
			assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "second"), 0);
			assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "second", G4_S_IFREG | 0600, &second), 0);
		} else if (change == 1) {
			assert_int_equal(
				op_fallocate(&rig, second, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 0, bytes), 0);
		} else {
			assert_int_equal(op_write(&rig, second, 0, 0, data, 100 * G4_PAGE_BYTES, NULL), 0);
		}
		assert_int_equal(op_sync(&rig), 0);
		g4_dev_fault_set(rig.fault, &(struct g4_fault){0});
		assert_int_equal(sharing(), had);
		unmount_clean();
		rig_expect_clean(&rig, RIG_ANY_FREE, "with an empty page of counts");
		mount_fs(NULL);
		/* they are used again, and go with what is released then */
		share(first, 0, second, 0, 100 * G4_PAGE_BYTES);
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(sharing(), had);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "second"), 0);
		assert_int_equal(op_sync(&rig), 0);
		rig_squeeze(&rig);
		assert_int_equal(sharing(), 0);
		rig_expect_contents(&rig, first, 0, found, data, bytes);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "first"), 0);
		unmount_clean();
		rig_expect_clean(&rig, RIG_ANY_FREE, "at the end");
		mount_fs(NULL);
	}
	free(found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_map_that_can_not_be_read_loses_no_owner, setup_apart, teardown),
		cmocka_unit_test_setup_teardown(what_counts_owners_stays_where_its_map_can_not_be_read, setup_apart,
						teardown),
		cmocka_unit_test_setup_teardown(single_pages_in_the_place_of_a_large_one, setup_large, teardown),
		cmocka_unit_test_setup_teardown(single_pages_that_lie_as_a_large_one_in_its_place, setup_crowded,
						teardown),
		cmocka_unit_test_setup_teardown(a_page_that_can_not_be_read_ends_that_change_alone, setup, teardown),
		{"a_page_that_can_not_be_read_ends_that_change_alone with sums",
		 a_page_that_can_not_be_read_ends_that_change_alone, setup_sums, teardown, NULL},
	};

	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests_name("own_unreadable", tests, NULL, NULL);
}
