/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deduplication of what is written: a page that is there already takes no space, whichever writer stored it and in whatever
 * order; what is
 * overwritten, cut or deleted comes back; and the table of contents never leads to what is not what it was.
 */
#include "rig.h"

#include <pthread.h>
#include <stdlib.h>

#include "alloc/share.h"
#include "data/batch.h"
#include "data/dirty.h"
#include "data/map.h"
#include "dedup/table.h"
#include "fs/fs.h"
#include "fs/super.h"
#include "inode/icache.h"
#include "simt/simt_host.h"

#define PAGES 700u /* more than a region, and than a batch */
#define BYTES (PAGES * (uint64_t)G4_PAGE_BYTES)

static struct rig rig;
static uint8_t data[BYTES], found[BYTES];

static int setup(void **state)
{
	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_BLAKE3, 1, 128 * G4_MIB, 0, NULL);
	return 0;
}

static int setup_crc32c(void **state)
{
	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_CRC32C, 1, 128 * G4_MIB, 0, NULL);
	return 0;
}

static int setup_off(void **state)
{
	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_BLAKE3, 0, 128 * G4_MIB, 0, NULL);
	return 0;
}

static int setup_small(void **state)
{
	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_BLAKE3, 1, 16 * G4_MIB, 0, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_end(&rig);
	return 0;
}

static struct g4_ddt_stats stats(void)
{
	struct g4_ddt_stats stats;

	g4_ddt_stats(&rig.fs->ddt, &stats);
	return stats;
}

/* Pages that others may find. */
static uint64_t listed(void)
{
	static struct g4_listing_page page;
	uint64_t bits[G4_LISTING_WORDS], count = 0;

	for (uint64_t group = 0; group < rig.fs->alloc.group_count; group++)
		for (uint32_t quarter = 0; quarter < G4_GROUP_REGIONS * G4_LISTING_QUARTERS; quarter++) {
			(void)g4_share_listed_sums(rig.wg, &rig.fs->alloc, group, quarter, bits, &page);
			for (uint32_t w = 0; w < G4_LISTING_WORDS; w++)
				count += (uint64_t)__builtin_popcountll(bits[w]);
		}
	return count;
}

/* As who does background jobs. */
static void load(void)
{
	while (g4_jobs_serve(rig.wg, rig.fs, true) == 0)
		;
}

static void write_at(uint64_t ino, uint64_t offset, const void *from, uint64_t bytes)
{
	assert_int_equal(op_write(&rig, ino, 0, offset, from, bytes, NULL), 0);
}

static uint64_t make_with(uint32_t number, const uint8_t *from, uint64_t bytes)
{
	const uint64_t ino = rig_make(&rig, number);

	write_at(ino, 0, from, bytes);
	assert_int_equal(op_fsync(&rig, ino), 0);
	return ino;
}

/* From the device. */
static void expect(uint64_t ino, const uint8_t *contents, uint64_t bytes)
{
	uint64_t done;

	assert_int_equal(op_read(&rig, ino, 0, 0, found, BYTES, &done), 0);
	assert_int_equal(done, bytes);
	assert_memory_equal(found, contents, bytes);
}

static int set(uint64_t ino, const char *word)
{
	return op_setxattr(&rig, ino, "gpu4fs.dedup", word, strlen(word), 0);
}

static void mount_again(void)
{
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

/* ---------------------------------------------------------------------------------------------------- sharing */

static void what_is_there_takes_no_space(void **state)
{
	const uint64_t bytes = BYTES - 1000; /* the last page is not full */

	(void)state;
	rig_pattern(data, 1, bytes);
	const uint64_t a = make_with(0, data, bytes);
	const uint64_t before = rig_free_pages(&rig);
	const uint64_t b = make_with(1, data, bytes);
	assert_true(before - rig_free_pages(&rig) < PAGES / 32); /* a map, sums and counts of owners */
	for (uint64_t page = 0; page < PAGES; page++)
		assert_int_equal(rig_place(&rig, a, page), rig_place(&rig, b, page));
	assert_int_equal(stats().found, PAGES);
	assert_int_equal(stats().entries, PAGES);
	mount_again();
	expect(b, data, bytes);
	expect(a, data, bytes);
	/* a page of one changes */
	write_at(b, 5000, data + 9, 100);
	assert_int_equal(op_fsync(&rig, b), 0);
	expect(a, data, bytes);
	memcpy(data + 5000, data + 9, 100);
	expect(b, data, bytes);
}

static void pages_of_one_write_are_compared_with_each_other(void **state)
{
	(void)state;
	rig_pattern(data, 2, 3 * G4_PAGE_BYTES);
	for (uint64_t page = 3; page < PAGES; page++)
		memcpy(data + page * G4_PAGE_BYTES, data + page % 3 * G4_PAGE_BYTES, G4_PAGE_BYTES);
	const uint64_t before = rig_free_pages(&rig);
	const uint64_t a = make_with(0, data, BYTES);
	for (uint64_t page = 3; page < PAGES; page++)
		assert_int_equal(rig_place(&rig, a, page), rig_place(&rig, a, page % 3));
	assert_true(before - rig_free_pages(&rig) < 3 + 20);
	mount_again();
	expect(a, data, BYTES);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f0"), 0);
	assert_true(before - rig_free_pages(&rig) < 4);
}

static void zeros_become_a_hole(void **state)
{
	struct g4_run run;

	(void)state;
	rig_pattern(data, 3, BYTES);
	memset(data + 10 * G4_PAGE_BYTES, 0, 200 * G4_PAGE_BYTES);
	memset(data + (PAGES - 1) * G4_PAGE_BYTES, 0, G4_PAGE_BYTES);
	const uint64_t a = make_with(0, data, BYTES);
	for (uint64_t page = 10; page < 210; page++) {
		rig_run_at(&rig, a, page, &run);
		assert_int_equal(run.kind, G4_HOLE);
	}
	rig_run_at(&rig, a, PAGES - 1, &run);
	assert_int_equal(run.kind, G4_HOLE);
	/* what was allocated stays */
	const uint64_t b = rig_make(&rig, 1);
	assert_int_equal(op_fallocate(&rig, b, 0, 0, BYTES), 0);
	write_at(b, 0, data, BYTES);
	assert_int_equal(op_fsync(&rig, b), 0);
	for (uint64_t page = 0; page < PAGES; page++)
		assert_int_not_equal(rig_place(&rig, b, page), 0);
	/* and pages become zeros */
	memset(data + 300 * G4_PAGE_BYTES, 0, 100 * G4_PAGE_BYTES);
	const uint64_t before = rig_free_pages(&rig);
	write_at(a, 300 * G4_PAGE_BYTES, data + 300 * G4_PAGE_BYTES, 100 * G4_PAGE_BYTES);
	assert_true(rig_free_pages(&rig) >= before + 100 - 4);
	mount_again();
	expect(a, data, BYTES);
}

static void what_goes_is_forgotten(void **state)
{
	(void)state;
	rig_pattern(data, 4, BYTES);
	const uint64_t before = rig_free_pages(&rig);
	const uint64_t a = make_with(0, data, BYTES), b = make_with(1, data, BYTES);
	assert_int_equal(op_truncate(&rig, a, 100 * G4_PAGE_BYTES), 0);
	assert_int_equal(rig_free_pages(&rig) + PAGES + 30 > before, 1);
	assert_int_equal(listed(), PAGES);
	assert_int_equal(op_truncate(&rig, b, 50 * G4_PAGE_BYTES), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(listed(), 100);
	assert_int_equal(op_fallocate(&rig, a, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 60 * G4_PAGE_BYTES,
				      10 * G4_PAGE_BYTES),
			 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(listed(), 90);
	/* over themselves, and in another order: what is read at last was found while it went */
	const uint64_t c = make_with(2, data, 50 * G4_PAGE_BYTES);
	for (uint64_t page = 0; page < 50; page++)
		write_at(c, page * G4_PAGE_BYTES, data + (49 - page) * G4_PAGE_BYTES, G4_PAGE_BYTES);
	assert_int_equal(op_fsync(&rig, c), 0);
	for (uint64_t page = 0; page < 50; page++)
		memcpy(found + page * G4_PAGE_BYTES, data + (49 - page) * G4_PAGE_BYTES, G4_PAGE_BYTES);
	memcpy(data, found, 50 * G4_PAGE_BYTES);
	expect(c, data, 50 * G4_PAGE_BYTES);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f0"), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f1"), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f2"), 0);
	assert_true(rig_free_pages(&rig) + 3 >= before);
	assert_int_equal(listed(), 0);
}

/* Pages whose only copy is in the file that is written: what is found goes in the same batch. */
static void pages_change_places(void **state)
{
	(void)state;
	rig_pattern(data, 5, 20 * G4_PAGE_BYTES);
	const uint64_t a = make_with(0, data, 20 * G4_PAGE_BYTES);
	for (uint32_t turn = 0; turn < 5; turn++) {
		memcpy(found, data, G4_PAGE_BYTES);
		memmove(data, data + G4_PAGE_BYTES, 19 * G4_PAGE_BYTES);
		memcpy(data + 19 * G4_PAGE_BYTES, found, G4_PAGE_BYTES);
		write_at(a, 0, data, 20 * G4_PAGE_BYTES);
		assert_int_equal(op_fsync(&rig, a), 0);
	}
	mount_again();
	expect(a, data, 20 * G4_PAGE_BYTES);
}

/* ---------------------------------------------------------------------------------------------------- another mount */

static void mount_and_find(bool clean)
{
	rig_pattern(data, 10, BYTES);
	const uint64_t a = make_with(0, data, BYTES);
	assert_int_equal(op_truncate(&rig, a, (PAGES - 10) * G4_PAGE_BYTES), 0);
	assert_int_equal(op_sync(&rig), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, clean);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(listed(), PAGES - 10);
	assert_int_equal(stats().entries, 0); /* the mount has loaded nothing */
	load();
	assert_int_equal(stats().entries, PAGES - 10);
	const uint64_t before = rig_free_pages(&rig), b = make_with(1, data, BYTES);
	for (uint64_t page = 0; page < PAGES - 10; page++)
		assert_int_equal(rig_place(&rig, a, page), rig_place(&rig, b, page));
	assert_true(before - rig_free_pages(&rig) < 10 + PAGES / 32);
	expect(b, data, BYTES);
	assert_int_equal(listed(), PAGES);
}

static void the_next_mount_finds_it(void **state)
{
	(void)state;
	mount_and_find(true);
}

static void so_does_the_one_after_a_crash(void **state)
{
	(void)state;
	mount_and_find(false);
}

/* What is loaded does not take the place of what the table has, and what was freed while it was loaded is not found. */
static void loading_beside_writers(void **state)
{
	(void)state;
	rig_pattern(data, 11, BYTES);
	const uint64_t a = make_with(0, data, BYTES);
	mount_again();
	const uint64_t b = make_with(1, data, 20 * G4_PAGE_BYTES); /* not found yet: another copy */
	assert_int_not_equal(rig_place(&rig, a, 0), rig_place(&rig, b, 0));
	load();
	assert_int_equal(op_truncate(&rig, a, 0), 0);
	const uint64_t c = make_with(2, data, 40 * G4_PAGE_BYTES);
	for (uint64_t page = 0; page < 20; page++)
		assert_int_equal(rig_place(&rig, b, page), rig_place(&rig, c, page));
	mount_again();
	expect(b, data, 20 * G4_PAGE_BYTES);
	expect(c, data, 40 * G4_PAGE_BYTES);
}

/* ---------------------------------------------------------------------------------------------------- policies */

static void files_and_directories_say_whether(void **state)
{
	char word[8] = "";
	uint64_t dir, off, on;

	(void)state;
	rig_pattern(data, 6, 8 * G4_PAGE_BYTES);
	const uint64_t a = make_with(0, data, 8 * G4_PAGE_BYTES), b = make_with(1, data, 8 * G4_PAGE_BYTES);
	assert_int_not_equal(rig_place(&rig, a, 0), rig_place(&rig, b, 0));
	assert_int_equal(set(a, "yes"), -G4_E_INVAL);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	assert_int_equal(set(dir, "on"), 0);
	assert_int_equal(op_getxattr(&rig, dir, "gpu4fs.dedup", word, sizeof(word), NULL), 0);
	assert_string_equal(word, "on");
	assert_true(rig.fs->super.features_incompat & G4_FEATURE_INCOMPAT_SHARED);
	assert_int_equal(op_mknod(&rig, dir, "on", G4_S_IFREG | 0644, &on), 0);
	assert_int_equal(op_mknod(&rig, dir, "off", G4_S_IFREG | 0644, &off), 0);
	assert_int_equal(set(off, "off"), 0);
	write_at(on, 0, data, 4 * G4_PAGE_BYTES);
	assert_int_equal(op_fsync(&rig, on), 0);
	assert_int_equal(listed(), 4); /* what was written without it is not known */
	write_at(on, 4 * G4_PAGE_BYTES, data, 4 * G4_PAGE_BYTES);
	write_at(off, 0, data, 4 * G4_PAGE_BYTES);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(rig_place(&rig, on, 0), rig_place(&rig, on, 4));
	assert_int_not_equal(rig_place(&rig, on, 0), rig_place(&rig, off, 0));
	/* what has another kind of sum is not compared with them */
	assert_int_equal(op_setxattr(&rig, on, "gpu4fs.checksum", "xxh3", 4, 0), 0);
	write_at(on, 8 * G4_PAGE_BYTES, data, 4 * G4_PAGE_BYTES);
	assert_int_equal(op_fsync(&rig, on), 0);
	assert_int_not_equal(rig_place(&rig, on, 0), rig_place(&rig, on, 8));
}

static void write_as(uint64_t handle, uint32_t flags, uint64_t page, uint64_t pages)
{
	struct g4_cmd cmd = {.op = G4_CMD_WRITE, .handle = handle, .flags = flags, .data = data + page * G4_PAGE_BYTES};

	cmd.offset = page * G4_PAGE_BYTES;
	cmd.length = pages * G4_PAGE_BYTES;
	assert_int_equal(g4_execute(rig.wg, rig.fs, &cmd), 0);
	assert_int_equal(cmd.value, cmd.length);
}

/* The pages of a file are one after the other those of another one, or not, as often in a row as this says. */
static void expect_shared(uint64_t a, uint64_t b, const uint64_t *rows, uint32_t count)
{
	uint64_t page = 0;

	for (uint32_t k = 0; k < count; k++)
		for (const uint64_t end = page + rows[k]; page < end; page++)
			assert_true((rig_place(&rig, a, page) == rig_place(&rig, b, page)) == (k % 2 == 0));
}

static bool may_list(void)
{
	return (rig.fs->super.features_incompat & G4_FEATURE_INCOMPAT_LISTED) != 0;
}

/* No older program is kept out for a wish that comes to nothing, and what it needs not being had fails no write. */
static void a_wish_fails_no_write(void **state)
{
	uint64_t a, b, dir, in;

	(void)state;
	rig_pattern(data, 31, BYTES);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "a", G4_S_IFREG | 0644, &a), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "b", G4_S_IFREG | 0644, &b), 0);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	assert_int_equal(op_setxattr(&rig, b, "gpu4fs.checksum", "none", 4, 0), 0);
	struct g4_cmd write = {
		.op = G4_CMD_WRITE, .node = dir, .flags = G4_WRITE_DEDUP, .data = data, .length = G4_PAGE_BYTES};
	assert_int_not_equal(g4_execute(rig.wg, rig.fs, &write), 0);
	assert_int_equal(op_open(&rig, b, G4_OPEN_WRITE | G4_OPEN_DEDUP, &in), 0);
	write_as(in, 0, 0, 10);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_open(&rig, a, G4_OPEN_WRITE | G4_OPEN_DEDUP, &in), 0);
	write_as(in, 0, 0, 0);
	assert_false(may_list());
	rig.fs->resizing = G4_FS_RESIZES;
	write_as(in, 0, 0, 10);
	assert_false(may_list());
	rig.fs->resizing = 0;
	write_as(in, 0, 10, 10);
	assert_true(may_list());
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_sync(&rig), 0);
	expect(a, data, 20 * G4_PAGE_BYTES);
	expect(b, data, 10 * G4_PAGE_BYTES);
}

/* A handle goes before the policy, and a command before the handle; large writes as well as small ones. */
static void writers_say_whether(void **state)
{
	static const uint64_t rows[] = {100, 100, 50, 50, 300}, refused[] = {0, 20, 10, 30};
	uint64_t a, b, c, in;

	(void)state;
	rig_pattern(data, 30, BYTES);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "a", G4_S_IFREG | 0644, &a), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "b", G4_S_IFREG | 0644, &b), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "c", G4_S_IFREG | 0644, &c), 0);
	assert_false(rig.fs->super.features_incompat & G4_FEATURE_INCOMPAT_LISTED);
	assert_int_equal(op_open(&rig, a, G4_OPEN_WRITE | G4_OPEN_DEDUP, &in), 0);
	write_as(in, 0, 0, 600); /* so large that it would go past the cache */
	assert_true(rig.fs->super.features_incompat & G4_FEATURE_INCOMPAT_LISTED);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(listed(), 600);
	assert_int_equal(op_open(&rig, b, G4_OPEN_WRITE | G4_OPEN_DEDUP, &in), 0);
	write_as(in, 0, 0, 100);
	write_as(in, G4_WRITE_NODEDUP, 100, 100);
	write_as(in, G4_WRITE_DEDUP, 200, 50);
	write_as(in, 0, 250, 350);
	write_as(in, G4_WRITE_NODEDUP, 250, 50); /* the last one counts */
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_sync(&rig), 0);
	expect_shared(a, b, rows, 5);
	expect(b, data, 600 * G4_PAGE_BYTES);
	assert_int_equal(set(c, "on"), 0);
	assert_int_equal(op_open(&rig, c, G4_OPEN_WRITE | G4_OPEN_NODEDUP, &in), 0);
	write_as(in, 0, 0, 20);
	write_as(in, G4_WRITE_DEDUP, 20, 10);
	write_as(in, 0, 30, 30);
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_sync(&rig), 0);
	expect_shared(a, c, refused, 4);
	write_at(c, 0, data,
		 60 * G4_PAGE_BYTES); /* without either its policy counts; what it has already is stored anew */
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(rig_place(&rig, a, 5), rig_place(&rig, c, 5));
	expect(c, data, 60 * G4_PAGE_BYTES);
}

/* What a directory's files have is shared among them, and is not found by others, nor are others' pages by them. */
static void a_domain_is_alone(void **state)
{
	const uint64_t bytes = 150 * (uint64_t)G4_PAGE_BYTES;
	uint64_t dir, below, other, files_of[6], outside[2];
	char word[8] = "";

	(void)state;
	rig_pattern(data, 6, bytes);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "e", 0755, &other), 0);
	assert_int_equal(set(dir, "domain"), 0);
	assert_int_equal(set(other, "domain"), 0);
	assert_true(rig.fs->super.features_incompat & G4_FEATURE_INCOMPAT_DOMAINS);
	assert_int_equal(op_mkdir(&rig, dir, "below", 0755, &below), 0);
	assert_int_equal(op_getxattr(&rig, below, "gpu4fs.dedup", word, sizeof(word), NULL), 0);
	assert_string_equal(word, "domain");
	for (uint32_t k = 0; k < 6; k++) { /* two of each, and none together with another one's */
		char name[8];
		snprintf(name, sizeof(name), "%u", k);
		assert_int_equal(op_mknod(&rig,
					  k < 2 ? dir :
					  k < 4 ? below :
						  other,
					  name, G4_S_IFREG | 0644, &files_of[k]),
				 0);
		write_at(files_of[k], 0, data, bytes);
	}
	outside[0] = rig_make(&rig, 0);
	outside[1] = rig_make(&rig, 1);
	for (uint32_t k = 0; k < 2; k++)
		write_at(outside[k], 0, data, bytes);
	assert_int_equal(op_sync(&rig), 0); /* small files side by side in one batch */
	for (uint32_t round = 0; round < 2; round++) {
		for (uint64_t page = 0; page < 150; page++) {
			const uint64_t ours = rig_place(&rig, files_of[0], page),
				       others = rig_place(&rig, files_of[4], page),
				       everybodys = rig_place(&rig, outside[0], page);
			for (uint32_t k = 1; k < 4; k++)
				assert_int_equal(rig_place(&rig, files_of[k], page), ours);
			assert_int_equal(rig_place(&rig, files_of[5], page), others);
			assert_int_equal(rig_place(&rig, outside[1], page), everybodys);
			assert_true(ours != others && ours != everybodys && others != everybodys);
		}
		assert_int_equal(listed(), 450);
		/* after a mount what is read from the device leads there as well */
		mount_again();
		load();
		assert_int_equal(op_mknod(&rig, below, round ? "new" : "newer", G4_S_IFREG | 0644, &files_of[3]), 0);
		write_at(files_of[3], 0, data, bytes);
		outside[1] = make_with(10 + round, data, bytes);
		assert_int_equal(op_sync(&rig), 0);
	}
	/* a file stays in the domain that it was made in */
	assert_int_equal(op_rename(&rig, below, "2", G4_NODE_ROOT, "moved", 0), 0);
	write_at(files_of[2], bytes, data, bytes);
	assert_int_equal(op_fsync(&rig, files_of[2]), 0);
	assert_int_equal(rig_place(&rig, files_of[2], 150), rig_place(&rig, files_of[0], 0));
	expect(files_of[3], data, bytes);
	/* who leaves it is among all others with what he writes from then on */
	assert_int_equal(set(files_of[3], "on"), 0);
	write_at(files_of[3], 0, data, bytes);
	assert_int_equal(op_fsync(&rig, files_of[3]), 0);
	assert_int_equal(rig_place(&rig, files_of[3], 7), rig_place(&rig, outside[0], 7));
}

static struct g4_root *root_block(void)
{
	uint32_t line;

	assert_int_equal(g4_meta_get(rig.wg, &rig.fs->meta, g4_layout_root(&rig.fs->meta.layout), G4_BLOCK_ROOT, &line),
			 0);
	struct g4_root *root = (struct g4_root *)g4_line_data(&rig.fs->cache, line);
	g4_cache_put(&rig.fs->cache, line);
	return root;
}

/* Numbers are given once, so no owner of a directory may use them up with it; and where none is left none is taken. */
static void who_has_a_domain_keeps_it(void **state)
{
	uint64_t dir, ino, other;

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "e", 0755, &other), 0);
	for (uint32_t k = 0; k < 5; k++)
		assert_int_equal(set(dir, "domain"), 0);
	assert_int_equal(root_block()->domains, 1);
	assert_int_equal(op_mknod(&rig, dir, "f", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(set(ino, "domain"), 0); /* its directory's */
	assert_int_equal(root_block()->domains, 1);
	root_block()->domains = G4_DOMAIN_MOST;
	for (uint32_t k = 0; k < 3; k++)
		assert_int_equal(set(other, "domain"), -G4_E_NOSPC);
	assert_int_equal(root_block()->domains, G4_DOMAIN_MOST);
	assert_int_equal(set(dir, "domain"), 0);
	root_block()->domains = 1;
	assert_int_equal(set(other, "domain"), 0);
	assert_int_equal(root_block()->domains, 2);
}

/* Who asks whether two files of different domains are the same is not told; a copy by reference is what its user asked for. */
static void domains_are_not_compared(void **state)
{
	const uint64_t bytes = 40 * (uint64_t)G4_PAGE_BYTES;
	uint64_t dir, a, in, out, done = 1;

	(void)state;
	rig_pattern(data, 7, bytes);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	assert_int_equal(set(dir, "domain"), 0);
	assert_int_equal(op_mknod(&rig, dir, "a", G4_S_IFREG | 0644, &a), 0);
	write_at(a, 0, data, bytes);
	const uint64_t b = make_with(0, data, bytes);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_open(&rig, a, G4_OPEN_READ, &in), 0);
	assert_int_equal(op_open(&rig, b, G4_OPEN_WRITE, &out), 0);
	struct g4_cmd same = {
		.op = G4_CMD_COPY_RANGE, .handle = in, .handle2 = out, .length = bytes, .flags = G4_COPY_SAME};
	assert_int_equal(g4_execute(rig.wg, rig.fs, &same), 0);
	assert_int_equal(same.value, 0);
	assert_int_not_equal(rig_place(&rig, a, 0), rig_place(&rig, b, 0));
	assert_int_equal(op_copy(&rig, in, 0, out, 0, bytes, &done), 0);
	assert_int_equal(done, bytes);
	assert_int_equal(rig_place(&rig, a, 0),
			 rig_place(&rig, b, 0)); /* and the checker understands that (teardown) */
	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
}

/* Two files of one domain, of which the second shares; and pages that nobody shares are pruned. Whether all of it is durable. */
static bool make_domain(struct rig *r)
{
	struct g4_dedup_counts counts;
	struct g4_cmd prune = {.op = G4_CMD_DEDUP, .mask = G4_DEDUP_PRUNE, .data = &counts, .length = sizeof(counts)};
	uint64_t dir = 0, ino;

	if (op_mkdir(r, G4_NODE_ROOT, "d", 0755, &dir) < 0 || op_setxattr(r, dir, "gpu4fs.dedup", "domain", 6, 0) < 0)
		return false;
	for (uint32_t k = 0; k < 2; k++) {
		if (op_mknod(r, dir, k ? "b" : "a", G4_S_IFREG | 0644, &ino) < 0 ||
		    op_write(r, ino, 0, 0, data, (20 + 20 * k) * G4_PAGE_BYTES, NULL) < 0 || op_fsync(r, ino) < 0)
			return false;
	}
	return g4_engine_execute(r->engine, &prune) == 0 && op_sync(r) == 0;
}

/* There is a domain or there is none, and what is in it is what was written, and listed for it. */
static void a_domain_survives_a_power_cut(void **state)
{
	const uint64_t every = rig_every(5);
	uint64_t reads, flushes, last = 0, seed = 9, with = 0;
	struct g4_statfs statfs;
	struct rig r;

	(void)state;
	rig_pattern(data, 40, 40 * G4_PAGE_BYTES);
	rig_open(&r, 16 * G4_MIB, 2 * G4_MIB);
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
		if (rig_try_mount(&r, 0, cut == 0 ? &none : &fault) == 0) { /* or it is cut while it is mounted */
			synced = make_domain(&r);
			if (cut == 0)
				g4_dev_fault_counts(r.fault, &reads, &last, &flushes);
			g4_dev_fault_cut(r.fault);
			rig_abandon(&r);
		}
		assert_true(cut > 0 || (synced && last > 4));
		assert_int_equal(rig_try_mount(&r, 0, NULL), 0);
		struct g4_attr dir;
		char word[8] = "";
		if (op_lookup(&r, G4_NODE_ROOT, "d", &dir) == 0)
			assert_int_equal(op_getxattr(&r, dir.ino, "gpu4fs.dedup", word, sizeof(word), NULL), 0);
		with += strcmp(word, "domain") == 0;
		assert_true(!synced || strcmp(word, "domain") == 0);
		assert_int_equal(op_statfs(&r, &statfs), 0);
		assert_int_equal(rig_unmount(&r), 0);
		rig_expect_clean(&r, statfs.blocks_free, "after a crash with a domain");
	}
	assert_true(with > 0);
	free(base);
	rig_close(&r);
}

/* ---------------------------------------------------------------------------------------------------- in any order */

#define FILES 6u
#define FILE_PAGES 64u
#define CONTENTS 40u

static uint8_t contents[CONTENTS + 1][G4_PAGE_BYTES];
static struct {
	uint64_t ino;
	uint32_t has[FILE_PAGES];    /* 0: zeros */
	uint64_t stored[FILE_PAGES]; /* a bit for each that may be on the device since the last flush */
	uint64_t pages;
} files[FILES];
/*
 * How often contents may have been stored that were there: where they were already (what_is_written_again_is_stored_again()), or, where sums prove
 * nothing, in several files that are written back together.
 */
static uint64_t repeats[CONTENTS + 1];
G4_STATIC_ASSERT(CONTENTS < 64, "they have their bits");

static void make_contents(void)
{
	memset(contents, 0, sizeof(contents));
	for (uint32_t k = 1; k <= CONTENTS; k++)
		rig_pattern(contents[k], k, G4_PAGE_BYTES);
}

/* So many contents are there, and so many pages that are no zeros. */
static uint64_t distinct(uint64_t *pages)
{
	bool there[CONTENTS + 1] = {false};
	uint64_t n = 0;

	*pages = 0;
	for (uint32_t f = 0; f < FILES; f++) {
		for (uint64_t page = 0; page < files[f].pages; page++) {
			const uint32_t k = files[f].has[page];
			*pages += k != 0;
			n += k != 0 && !there[k];
			there[k] = true;
		}
	}
	return n;
}

/*
 * Contents are those of the model; so many pages hold them. `looked`: all of them were looked for, and there are no more copies of any than it
 * was stored again.
 */
static uint64_t check_files(bool looked)
{
	static uint64_t places[FILES * FILE_PAGES];
	uint64_t used = 0, copies[CONTENTS + 1] = {0}, done;
	struct g4_run run;

	for (uint32_t f = 0; f < FILES; f++) {
		assert_int_equal(op_read(&rig, files[f].ino, 0, 0, found, BYTES, &done), 0);
		assert_int_equal(done, files[f].pages * G4_PAGE_BYTES);
		for (uint64_t page = 0; page < files[f].pages; page++) {
			assert_memory_equal(found + page * G4_PAGE_BYTES, contents[files[f].has[page]], G4_PAGE_BYTES);
			rig_run_at(&rig, files[f].ino, page, &run);
			if (run.kind == G4_HOLE)
				continue;
			const uint64_t place = g4_address_stored(run.address);
			uint64_t at = 0;
			while (at < used && places[at] != place)
				at++;
			places[at] = place;
			copies[files[f].has[page]] += at == used;
			used += at == used;
		}
	}
	for (uint32_t k = 0; k <= CONTENTS && looked; k++)
		assert_in_range(copies[k], 0, (k > 0) + repeats[k]);
	return used;
}

/* What a file has is on the device, and nothing else that it had. */
static void flushed(uint32_t f)
{
	for (uint64_t page = 0; page < FILE_PAGES; page++)
		files[f].stored[page] = UINT64_C(1) << files[f].has[page];
}

static void write_page(uint32_t f, uint64_t page, uint32_t what)
{
	repeats[what] += what > 0 && (files[f].stored[page] >> what & 1);
	files[f].stored[page] |= UINT64_C(1) << what;
	files[f].has[page] = what;
	write_at(files[f].ino, page * G4_PAGE_BYTES, contents[what], G4_PAGE_BYTES);
}

/* Pages become a hole. */
static void forget_pages(uint32_t f, uint64_t page, uint64_t pages)
{
	for (; pages-- > 0; page++) {
		files[f].has[page] = 0;
		files[f].stored[page] = 1;
	}
}

/* All files are written back, several at a time. */
static void flush_all(void)
{
	for (uint32_t k = 1; k <= CONTENTS; k++) {
		uint64_t written_by = 0;
		for (uint32_t f = 0; f < FILES; f++) {
			bool any = false;
			for (uint64_t page = 0; page < FILE_PAGES; page++)
				any |= files[f].has[page] == k && files[f].stored[page] != UINT64_C(1) << k;
			written_by += any;
		}
		repeats[k] += g4_sums_algorithm(rig.fs, 0) != G4_CHECKSUM_BLAKE3 && written_by > 1 ? written_by - 1 : 0;
	}
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t f = 0; f < FILES; f++)
		flushed(f);
}

static void step(uint64_t *seed)
{
	const uint32_t f = (uint32_t)(rig_random(seed) % FILES);
	const uint64_t page = rig_random(seed) % FILE_PAGES, what = rig_random(seed) % 16;
	const uint64_t pages = g4_min64(1 + rig_random(seed) % 16, FILE_PAGES - page);

	if (what < 10) {
		for (uint64_t k = page; k < page + pages; k++)
			write_page(f, k, (uint32_t)(rig_random(seed) % (CONTENTS + 1)));
		files[f].pages = g4_max64(files[f].pages, page + pages);
	} else if (what < 12) {
		assert_int_equal(op_truncate(&rig, files[f].ino, page * G4_PAGE_BYTES), 0);
		forget_pages(f, page, FILE_PAGES - page);
		files[f].pages = page;
	} else if (what < 13) {
		assert_int_equal(op_fallocate(&rig, files[f].ino, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE,
					      page * G4_PAGE_BYTES, pages * G4_PAGE_BYTES),
				 0);
		forget_pages(f, page, pages);
	} else {
		assert_int_equal(op_fsync(&rig, files[f].ino), 0);
		flushed(f);
	}
}

/* Files f10 and on. */
static void random_steps(uint64_t seed, uint32_t steps)
{
	memset(files, 0, sizeof(files));
	memset(repeats, 0, sizeof(repeats));
	make_contents();
	for (uint32_t f = 0; f < FILES; f++) {
		files[f].ino = rig_make(&rig, 10 + f);
		/* contents that fit the inode are pages of the model, too */
		assert_int_equal(op_fsync(&rig, files[f].ino), 0);
		forget_pages(f, 0, FILE_PAGES);
	}
	for (uint32_t i = 0; i < steps; i++) {
		uint64_t pages;
		step(&seed);
		if (i % 50 != 49)
			continue;
		flush_all();
		const uint64_t least = distinct(&pages);
		const uint64_t used = check_files(stats().stale == 0 && stats().evicted == 0);
		assert_in_range(used, least, g4_max64(least, pages));
		uint64_t most = least + stats().stale * FILE_PAGES;
		for (uint32_t k = 1; k <= CONTENTS; k++)
			most += repeats[k];
		if (stats().evicted == 0) /* a batch is stored without looking behind a page that was found and gone */
			assert_in_range(used, least, most);
	}
}

static void any_order(void **state)
{
	(void)state;
	random_steps(rig_setting("G4_TEST_SEED", 1), rig_slow() ? 200 : 1000);
	assert_true(stats().found > 0);
}

/* On a device that is nearly full: counts of owners find no page, and what is shared comes back. */
static void on_a_full_device(void **state)
{
	uint64_t done, bytes = 0;
	int rc = 0;

	(void)state;
	random_steps(7, 100);
	const uint64_t big = rig_make(&rig, 100);
	for (uint64_t seed = 100; rc == 0; seed++) {
		rig_pattern(data, seed, 16 * G4_PAGE_BYTES);
		rc = op_write(&rig, big, 0, bytes, data, 16 * G4_PAGE_BYTES, &done);
		bytes += rc == 0 ? done : 0;
	}
	assert_int_equal(rc, -G4_E_NOSPC);
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t f = 0; f < FILES; f++)
		for (uint64_t page = 0; page < files[f].pages;
		     page++) /* what is there already, where there is space to try */
			(void)op_write(&rig, files[f].ino, 0, page * G4_PAGE_BYTES, contents[files[f].has[page]],
				       G4_PAGE_BYTES, NULL);
	assert_int_equal(op_sync(&rig), 0);
	(void)check_files(false);
	assert_int_equal(op_truncate(&rig, big, 0), 0);
	assert_int_equal(op_sync(&rig), 0);
	for (uint32_t f = 0; f < FILES; f++)
		assert_int_equal(op_truncate(&rig, files[f].ino, 0), 0);
}

/* The table has room for a part of what there is: then less is found, and nothing else happens. */
static void a_table_that_is_full_forgets(void **state)
{
	const uint64_t bytes = 4096;
	void *memory = calloc(1, g4_ddt_memory(bytes));

	(void)state;
	assert_non_null(memory);
	g4_ddt_init(&rig.fs->ddt, memory, bytes);
	const uint64_t places = stats().places;
	assert_in_range(places, 256, PAGES);
	rig_pattern(data, 9, BYTES);
	const uint64_t a = make_with(0, data, BYTES);
	assert_true(stats().evicted > 0);
	assert_true(stats().entries <= places);
	const uint64_t before = stats().found, b = make_with(1, data, BYTES);
	assert_true(stats().found > before);
	assert_true(stats().found < before + PAGES);
	random_steps(3, rig_slow() ? 100 : 300);
	for (uint32_t f = 0; f < FILES; f++)
		assert_int_equal(op_truncate(&rig, files[f].ino, 0), 0);
	mount_again();
	free(memory);
	expect(a, data, BYTES);
	expect(b, data, BYTES);
}

/* What was written together is found together, though the table has one hint in many of it. */
static void a_small_table_finds_files(void **state)
{
	enum { MANY = 24 };
	const uint64_t bytes = 16 * 1024;
	void *memory = calloc(1, g4_ddt_memory(bytes));
	uint64_t first[MANY], shared = 0;

	(void)state;
	assert_non_null(memory);
	g4_ddt_init(&rig.fs->ddt, memory, bytes);
	for (uint32_t f = 0; f < MANY; f++) {
		rig_pattern(data, 100 + f, BYTES);
		first[f] = make_with(f, data, BYTES);
	}
	assert_true(stats().places * 8 < MANY * PAGES);
	for (uint32_t f = 0; f < MANY; f += 3) {
		rig_pattern(data, 100 + f, BYTES);
		const uint64_t again = make_with(MANY + f, data, BYTES);
		for (uint64_t page = 0; page < PAGES; page++)
			shared += rig_place(&rig, first[f], page) == rig_place(&rig, again, page);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f0"), f == 0 ? 0 : -G4_E_NOENT);
	}
	print_message("%llu of %llu pages are found by a table for %llu of %llu\n", (unsigned long long)shared,
		      (unsigned long long)(MANY / 3 * PAGES), (unsigned long long)stats().places,
		      (unsigned long long)(MANY * PAGES));
	assert_true(shared * 100 >= MANY / 3 * PAGES * 95);
	mount_again();
	free(memory);
	rig_pattern(data, 100 + 3, BYTES);
	expect(first[3], data, BYTES);
}

/* ---------------------------------------------------------------------------------------------------- what is written */

static uint64_t written;

static void count_writes(void *context, const struct g4_io *io)
{
	(void)context;
	for (uint32_t k = 0; io->op == G4_IO_WRITE && k < io->iov_count; k++)
		written += io->iov[k].bytes;
}

#define PARTS 6u

/* Bytes that a device gets for a file of pages of which so many in ten are there already. */
static uint64_t write_file(uint32_t number, uint32_t duplicates)
{
	const uint64_t ino = rig_make(&rig, number);
	uint64_t seed = 1;

	written = 0;
	g4_dev_fault_watch(rig.dev, count_writes, NULL);
	for (uint32_t part = 0; part < PARTS; part++) {
		for (uint64_t page = 0; page < PAGES; page++)
			rig_pattern(data + page * G4_PAGE_BYTES,
				    rig_random(&seed) % 10 < duplicates ? 1 : part * PAGES + page + 2, G4_PAGE_BYTES);
		write_at(ino, part * BYTES, data, BYTES);
		assert_int_equal(op_fsync(&rig, ino), 0);
	}
	assert_int_equal(op_sync(&rig), 0);
	g4_dev_fault_watch(rig.dev, NULL, NULL);
	return written;
}

/* The same with a clean image. `again`: if not NULL, the bytes for the same file once more, with a table for a quarter of its pages. */
static uint64_t device_bytes(const char *dedup, uint32_t duplicates, uint64_t *again)
{
	static const struct g4_fault harmless = {0};
	const uint64_t table = PARTS * PAGES / 4 * sizeof(uint64_t);
	void *memory = calloc(1, table);
	uint64_t bytes;

	assert_non_null(memory);
	setenv("G4_TEST_CHECKSUM", "1", 1);
	setenv("G4_TEST_DEDUP", dedup, 1);
	rig_begin(&rig, 128 * G4_MIB, 0, &harmless);
	unsetenv("G4_TEST_CHECKSUM");
	unsetenv("G4_TEST_DEDUP");
	if (again)
		g4_ddt_init(&rig.fs->ddt, memory, table);
	bytes = write_file(0, duplicates);
	if (again)
		*again = write_file(1, duplicates);
	rig_end(&rig);
	free(memory);
	return bytes;
}

static void less_is_written_where_there_is_less(void **state)
{
	(void)state;
	const uint64_t without = device_bytes("0", 0, NULL), unique = device_bytes("1", 0, NULL);
	const uint64_t same = device_bytes("1", 9, NULL);
	uint64_t again;
	const uint64_t crowded = device_bytes("1", 0, &again);

	print_message("%.3f times as much for what is new, %.3f where nine pages in ten are not\n",
		      (double)unique / (double)without, (double)same / (double)without);
	print_message("with a table for a quarter: %.3f for what is new, %.3f for all of it again\n",
		      (double)crowded / (double)without, (double)again / (double)without);
	assert_true(unique <= without + without / 10);
	assert_true(same <= without / 5);
	assert_true(crowded <= without + without / 10);
	assert_true(again <= without / 5);
}

/* ---------------------------------------------------------------------------------------------------- side by side */

#define RACE_PAGES 200u /* of a batch */

/* So that they stay dirty: no part is large enough to go past the cache. */
static void write_dirty(uint64_t ino, const uint8_t *from, uint64_t bytes)
{
	const uint64_t part = 20 * G4_PAGE_BYTES;

	for (uint64_t at = 0; at < bytes; at += part)
		write_at(ino, at, from + at, part);
}

static void publish_dirty(struct g4_wg *wg, struct g4_inode_core *inode, struct g4_batch *batch, int stored)
{
	uint32_t published;

	assert_int_equal(g4_pipeline_finish(wg, rig.fs, inode, batch, inode->size, stored, &published), 0);
	assert_int_equal(published, batch->count);
	for (uint32_t k = 0; k < published; k++)
		g4_dirty_remove(rig.fs, inode, batch->lines[k]);
}

/* The dirty pages of a file are written back, and when they are stored `other` is written back, before they are published. */
static void write_back_around(uint64_t ino, uint64_t other, uint32_t pages, struct g4_wg *wg, struct g4_batch *batch)
{
	uint32_t index;

	assert_int_equal(g4_icache_get(wg, rig.fs, ino, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(rig.fs, index);
	g4_gather_dirty(rig.fs, inode, batch);
	assert_int_equal(batch->count, pages);
	assert_int_equal(g4_pipeline_prepare(wg, rig.fs, inode, batch, true), 0);
	const int stored = g4_store(wg, rig.fs, batch);
	assert_int_equal(op_fsync(&rig, other), 0);
	publish_dirty(wg, inode, batch, stored);
	g4_icache_put(rig.fs, index);
}

/* The same in a batch of its own. */
static void write_all_back_around(uint64_t ino, uint64_t other)
{
	struct g4_wg *wg = g4_wg_create(1);
	const uint32_t mark = g4_scratch_mark(wg);

	write_back_around(ino, other, RACE_PAGES, wg, g4_batch_take(wg));
	g4_scratch_release(wg, mark);
	g4_wg_destroy(wg);
}

/* Neither has found the other's pages when it looked: of those that are published second none stays. */
static void of_two_at_a_time_one_wins(void **state)
{
	const uint64_t bytes = RACE_PAGES * (uint64_t)G4_PAGE_BYTES;
	static const uint32_t others[] = {0, 1, 7, 50, 199}; /* pages that only one of them has */

	(void)state;
	rig_pattern(data, 1, bytes);
	memcpy(data + 20 * G4_PAGE_BYTES, data, 5 * G4_PAGE_BYTES); /* what a batch has twice */
	const uint64_t a = rig_make(&rig, 0), b = rig_make(&rig, 1), before = rig_free_pages(&rig);
	write_dirty(a, data, bytes);
	for (uint32_t k = 0; k < sizeof(others) / sizeof(others[0]); k++)
		write_at(a, others[k] * G4_PAGE_BYTES, "of one alone", 12);
	write_dirty(b, data, bytes);
	write_all_back_around(a, b);
	assert_int_equal(op_sync(&rig), 0);
	for (uint64_t page = 0, k = 0; page < RACE_PAGES; page++) {
		const bool same = rig_place(&rig, a, page) == rig_place(&rig, b, page);
		assert_true(same == (page != others[k]));
		k += page == others[k] && k + 1 < sizeof(others) / sizeof(others[0]);
	}
	expect(b, data, bytes);
	for (uint32_t k = 0; k < sizeof(others) / sizeof(others[0]); k++)
		memcpy(data + others[k] * G4_PAGE_BYTES, "of one alone", 12);
	expect(a, data, bytes);
	assert_int_equal(op_truncate(&rig, a, 0), 0);
	assert_int_equal(op_truncate(&rig, b, 0), 0);
	/* also what the loser had claimed; a slab may be kept */
	assert_true(rig_free_pages(&rig) + 1 >= before);
	assert_int_equal(listed(), 0);
}

/* The same of what comes behind other pages that the batch had before, as a file's write-back uses it. */
static void of_two_at_a_time_one_wins_in_each_batch(void **state)
{
	const uint64_t before = 20 * G4_PAGE_BYTES, bytes = 3 * before;
	struct g4_wg *wg = g4_wg_create(1);
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_batch *batch = g4_batch_take(wg);

	(void)state;
	rig_pattern(data, 3, before + bytes + before);
	const uint64_t a = rig_make(&rig, 0), b = rig_make(&rig, 1);
	write_at(a, 0, data + before + bytes, before); /* beside the first pages of a file nothing is looked for */
	assert_int_equal(op_fsync(&rig, a), 0);
	write_at(a, 0, data, before);
	write_back_around(a, b, 20, wg, batch);
	for (uint64_t at = before; at < before + bytes; at += before)
		write_at(a, at, data + at, before);
	write_dirty(b, data + before, bytes);
	write_back_around(a, b, 60, wg, batch);
	g4_scratch_release(wg, mark);
	g4_wg_destroy(wg);
	assert_int_equal(op_sync(&rig), 0);
	for (uint64_t page = 0; page < 60; page++)
		assert_int_equal(rig_place(&rig, a, 20 + page), rig_place(&rig, b, page));
	expect(a, data, before + bytes);
	expect(b, data + before, bytes);
}

/* The file has them already, and may have them rotten: what is written once more is stored, whichever was faster. */
static void what_is_written_again_is_stored_again(void **state)
{
	const uint64_t bytes = RACE_PAGES * (uint64_t)G4_PAGE_BYTES;

	(void)state;
	rig_pattern(data, 2, bytes);
	const uint64_t a = make_with(0, data, bytes), b = rig_make(&rig, 1), at = rig_place(&rig, a, 0);
	write_dirty(a, data, bytes);
	write_dirty(b, data, bytes);
	write_all_back_around(a, b);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_not_equal(rig_place(&rig, a, 0), at);
	expect(a, data, bytes);
	expect(b, data, bytes);
}

#define RACERS 2u
static pthread_barrier_t racers;

static uint32_t rounds(void)
{
	return rig_slow() ? 20 : 100;
}

/* The same pages, at the same time, to a file of its own. */
static void *race(void *argument)
{
	const uint32_t number = (uint32_t)(uintptr_t)argument;
	struct rig own = rig;
	uint64_t ino, done;
	char name[16];

	own.wg = g4_wg_create(1 + number);
	for (uint32_t round = 0; round < rounds(); round++) {
		snprintf(name, sizeof(name), "r%u %u", number, round);
		assert_int_equal(op_mknod(&own, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino), 0);
		if (number == 0)
			rig_pattern(data, 100 + round, RACE_PAGES * G4_PAGE_BYTES);
		(void)pthread_barrier_wait(&racers);
		assert_int_equal(op_write(&own, ino, 0, 0, data, RACE_PAGES * G4_PAGE_BYTES, &done), 0);
		assert_int_equal(op_fsync(&own, ino), 0);
		(void)pthread_barrier_wait(&racers);
	}
	g4_wg_destroy(own.wg);
	return NULL;
}

/*
 * Nobody looks and lists in one step: who is put aside between the two learns of the other's page by its hint, if the transaction has room to take its own
 * back (files/data/test_twice.c). If nobody looked again when he publishes, one page in thirty or more would be there twice.
 */
static void racers_store_little_twice(void **state)
{
	pthread_t threads[RACERS];
	uint64_t twice = 0, all = 0;

	(void)state;
	assert_int_equal(pthread_barrier_init(&racers, NULL, RACERS), 0);
	for (uintptr_t k = 0; k < RACERS; k++)
		assert_int_equal(pthread_create(&threads[k], NULL, race, (void *)k), 0);
	for (uint32_t k = 0; k < RACERS; k++)
		pthread_join(threads[k], NULL);
	(void)pthread_barrier_destroy(&racers);
	for (uint32_t round = 0; round < rounds(); round++) {
		struct g4_attr of[RACERS];
		for (uint32_t k = 0; k < RACERS; k++) {
			char name[16];
			snprintf(name, sizeof(name), "r%u %u", k, round);
			assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, name, &of[k]), 0);
			rig_pattern(data, 100 + round, RACE_PAGES * G4_PAGE_BYTES);
			expect(of[k].ino, data, RACE_PAGES * G4_PAGE_BYTES);
		}
		for (uint64_t page = 0; page < RACE_PAGES; page++)
			twice += rig_place(&rig, of[0].ino, page) != rig_place(&rig, of[1].ino, page);
		all += RACE_PAGES;
	}
	print_message("of %lu pages that two wrote at a time %lu are there twice\n", (unsigned long)all,
		      (unsigned long)twice);
	assert_true(twice <= all / 50);
}

#define THREADS 4u

static void *write_and_delete(void *argument)
{
	const uint32_t number = (uint32_t)(uintptr_t)argument;
	uint64_t seed = 1000 + number;
	struct rig own = rig; /* its workgroup */
	static uint8_t pages[THREADS][32 * G4_PAGE_BYTES], back[THREADS][32 * G4_PAGE_BYTES];
	char name[16];

	own.wg = g4_wg_create(1 + number);
	for (uint32_t round = 0; round < (rig_slow() ? 30u : 150u); round++) {
		const uint64_t count = 1 + rig_random(&seed) % 32;
		uint64_t ino, done;

		snprintf(name, sizeof(name), "t%u", number);
		for (uint64_t page = 0; page < count; page++)
			memcpy(pages[number] + page * G4_PAGE_BYTES, contents[rig_random(&seed) % (CONTENTS + 1)],
			       G4_PAGE_BYTES);
		assert_int_equal(op_mknod(&own, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino), 0);
		assert_int_equal(op_write(&own, ino, 0, 0, pages[number], count * G4_PAGE_BYTES, NULL), 0);
		assert_int_equal(op_fsync(&own, ino), 0);
		assert_int_equal(op_read(&own, ino, 0, 0, back[number], count * G4_PAGE_BYTES, &done), 0);
		assert_memory_equal(back[number], pages[number], count * G4_PAGE_BYTES);
		if (round % 8 != 7)
			assert_int_equal(op_unlink(&own, G4_NODE_ROOT, name), 0);
		else
			assert_int_equal(op_rename(&own, G4_NODE_ROOT, name, G4_NODE_ROOT, "kept", 0), 0);
	}
	g4_wg_destroy(own.wg);
	return NULL;
}

static void writers_side_by_side(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	make_contents();
	for (uintptr_t k = 0; k < THREADS; k++)
		assert_int_equal(pthread_create(&threads[k], NULL, write_and_delete, (void *)k), 0);
	for (uint32_t k = 0; k < THREADS; k++)
		pthread_join(threads[k], NULL);
	assert_int_equal(op_sync(&rig), 0);
	assert_true(stats().found > 0);
	assert_true(listed() > 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "kept"), 0);
	for (uint32_t k = 0; k < THREADS; k++) {
		char name[16];

		snprintf(name, sizeof(name), "t%u", k);
		(void)op_unlink(&rig, G4_NODE_ROOT, name);
	}
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(listed(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_there_takes_no_space, setup, teardown),
		cmocka_unit_test_setup_teardown(pages_of_one_write_are_compared_with_each_other, setup, teardown),
		cmocka_unit_test_setup_teardown(zeros_become_a_hole, setup, teardown),
		cmocka_unit_test_setup_teardown(what_goes_is_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(pages_change_places, setup, teardown),
		cmocka_unit_test_setup_teardown(the_next_mount_finds_it, setup, teardown),
		cmocka_unit_test_setup_teardown(so_does_the_one_after_a_crash, setup, teardown),
		cmocka_unit_test_setup_teardown(loading_beside_writers, setup, teardown),
		cmocka_unit_test_setup_teardown(files_and_directories_say_whether, setup_off, teardown),
		cmocka_unit_test_setup_teardown(writers_say_whether, setup_off, teardown),
		cmocka_unit_test_setup_teardown(a_wish_fails_no_write, setup_off, teardown),
		cmocka_unit_test_setup_teardown(a_domain_is_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(who_has_a_domain_keeps_it, setup, teardown),
		cmocka_unit_test_setup_teardown(domains_are_not_compared, setup, teardown),
		cmocka_unit_test(a_domain_survives_a_power_cut),
		cmocka_unit_test_setup_teardown(any_order, setup, teardown),
		cmocka_unit_test_setup_teardown(any_order, setup_crc32c, teardown), /* whose pages are compared */
		cmocka_unit_test_setup_teardown(writers_side_by_side, setup_crc32c, teardown),
		cmocka_unit_test_setup_teardown(on_a_full_device, setup_small, teardown),
		cmocka_unit_test_setup_teardown(a_table_that_is_full_forgets, setup, teardown),
		cmocka_unit_test_setup_teardown(a_small_table_finds_files, setup, teardown),
		cmocka_unit_test(less_is_written_where_there_is_less),
		cmocka_unit_test_setup_teardown(of_two_at_a_time_one_wins, setup, teardown),
		cmocka_unit_test_setup_teardown(of_two_at_a_time_one_wins_in_each_batch, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_written_again_is_stored_again, setup, teardown),
		cmocka_unit_test_setup_teardown(racers_store_little_twice, setup, teardown),
		cmocka_unit_test_setup_teardown(writers_side_by_side, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
