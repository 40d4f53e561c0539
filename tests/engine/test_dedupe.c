/* SPDX-License-Identifier: Apache-2.0 */
/*
 * COPY_RANGE with G4_COPY_SAME: what is the same becomes one page and nothing else changes, what only looks the same does not,
 * whatever sums there are, also while others write. SUMS says what it goes by. (Power cuts: the crash explorer's "dedupe".)
 */
#include "rig.h"

#include <pthread.h>
#include <stdlib.h>

#include "format/format.h"
#include "fs/fs.h"
#include "simt/simt_host.h"

#define PAGES 700u /* more than a region */
#define BYTES (PAGES * (uint64_t)G4_PAGE_BYTES)

static struct rig rig;
static uint8_t data[BYTES], found[BYTES];

static int setup(void **state)
{
	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_BLAKE3, RIG_AS_SET, 128 * G4_MIB, 0, NULL);
	return 0;
}

static int setup_small(void **state)
{
	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_BLAKE3, RIG_AS_SET, 32 * G4_MIB, 0, NULL);
	return 0;
}

static int setup_crc32c(void **state)
{
	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_CRC32C, RIG_AS_SET, 128 * G4_MIB, 0, NULL);
	return 0;
}

static int setup_xxh3(void **state)
{
	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_XXH3, RIG_AS_SET, 128 * G4_MIB, 0, NULL);
	return 0;
}

static int setup_none(void **state)
{
	(void)state;
	rig_begin_as(&rig, G4_CHECKSUM_NONE, RIG_AS_SET, 128 * G4_MIB, 0, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_end(&rig);
	return 0;
}

/* ---------------------------------------------------------------------------------------------------- commands */

static uint64_t open_as(uint64_t ino, uint32_t flags)
{
	uint64_t handle;

	assert_int_equal(op_open(&rig, ino, flags, &handle), 0);
	return handle;
}

static int dedupe_with(uint64_t from, uint64_t from_offset, uint64_t to, uint64_t to_offset, uint64_t bytes,
		       uint32_t flags, uint64_t *done)
{
	const uint64_t in = open_as(from, G4_OPEN_READ), out = open_as(to, G4_OPEN_WRITE);
	const int rc = op_copy_as(&rig, in, from_offset, out, to_offset, bytes, flags, done);

	assert_int_equal(op_release(&rig, in), 0);
	assert_int_equal(op_release(&rig, out), 0);
	return rc;
}

static uint64_t dedupe(uint64_t from, uint64_t from_offset, uint64_t to, uint64_t to_offset, uint64_t bytes)
{
	uint64_t done;

	assert_int_equal(dedupe_with(from, from_offset, to, to_offset, bytes, G4_COPY_SAME, &done), 0);
	return done;
}

static uint64_t sums_of(uint64_t ino, uint64_t offset, struct g4_page_sum *sums, uint32_t count)
{
	struct g4_cmd cmd = {
		.op = G4_CMD_SUMS, .node = ino, .offset = offset, .data = sums, .length = count * sizeof(*sums)};

	assert_int_equal(g4_execute(rig.wg, rig.fs, &cmd), 0);
	return cmd.value / sizeof(*sums);
}

static struct g4_page_sum sum_of(uint64_t ino, uint64_t page)
{
	struct g4_page_sum sum;

	assert_int_equal(sums_of(ino, page * G4_PAGE_BYTES, &sum, 1), 1);
	assert_int_equal(sum.offset, page * G4_PAGE_BYTES);
	return sum;
}

static void write_at(uint64_t ino, uint64_t offset, const void *from, uint64_t bytes)
{
	assert_int_equal(op_write(&rig, ino, 0, offset, from, bytes, NULL), 0);
}

static uint64_t make_with(uint32_t number, const uint8_t *from, uint64_t bytes)
{
	const uint64_t ino = rig_make(&rig, number);

	write_at(ino, 0, from, bytes);
	return ino;
}

static void expect(uint64_t ino, const uint8_t *contents, uint64_t bytes)
{
	uint64_t done;

	assert_int_equal(op_read(&rig, ino, 0, 0, found, BYTES, &done), 0);
	assert_int_equal(done, bytes);
	assert_memory_equal(found, contents, bytes);
}

/* ---------------------------------------------------------------------------------------------------- what is the same */

static void same_files_become_one(void **state)
{
	const uint64_t bytes = BYTES - 1000; /* the last page is not full */

	(void)state;
	rig_pattern(data, 1, bytes);
	const uint64_t a = make_with(0, data, bytes), b = make_with(1, data, bytes);
	struct g4_attr before, after;
	const uint64_t free_before = rig_free_pages(&rig);
	assert_int_equal(op_getattr(&rig, b, &before), 0);
	assert_int_not_equal(sum_of(a, 5).address, sum_of(b, 5).address);
	assert_int_equal(dedupe(a, 0, b, 0, UINT32_MAX), bytes);
	for (uint64_t page = 0; page < PAGES; page++)
		assert_int_equal(sum_of(a, page).address, sum_of(b, page).address);
	assert_true(rig_free_pages(&rig) >= free_before + PAGES - 8); /* counts of owners take two for a region */
	assert_int_equal(op_getattr(&rig, b, &after), 0);
	assert_int_equal(after.size, before.size);
	assert_int_equal(after.mtime_ns, before.mtime_ns);
	assert_int_equal(after.ctime_ns, before.ctime_ns);
	assert_int_equal(after.mode, before.mode);
	expect(b, data, bytes);
	assert_int_equal(dedupe(a, 0, b, 0, bytes), bytes); /* once more */
	memset(found, 9, 3000);
	write_at(a, 5000, found, 3000);
	expect(b, data, bytes);
}

static void sharing_ends_at_the_first_difference(void **state)
{
	(void)state;
	rig_pattern(data, 2, BYTES);
	const uint64_t a = make_with(0, data, BYTES);
	data[300 * G4_PAGE_BYTES + 77] ^= 1;
	const uint64_t b = make_with(1, data, BYTES);
	assert_int_equal(dedupe(a, 0, b, 0, BYTES), 300 * G4_PAGE_BYTES);
	assert_int_equal(dedupe(a, 300 * G4_PAGE_BYTES, b, 300 * G4_PAGE_BYTES, BYTES), 0);
	assert_int_equal(dedupe(a, 301 * G4_PAGE_BYTES, b, 301 * G4_PAGE_BYTES, BYTES), 399 * G4_PAGE_BYTES);
	expect(b, data, BYTES);
	assert_int_not_equal(sum_of(a, 300).address, sum_of(b, 300).address);
	assert_int_equal(sum_of(a, 699).address, sum_of(b, 699).address);
	/* other places of one file, and one that ends in a page that the other has all of */
	write_at(b, 10 * G4_PAGE_BYTES, data + 500 * G4_PAGE_BYTES, 20 * G4_PAGE_BYTES);
	assert_int_equal(dedupe(b, 500 * G4_PAGE_BYTES, b, 10 * G4_PAGE_BYTES, 20 * G4_PAGE_BYTES), 20 * G4_PAGE_BYTES);
	const uint64_t c = make_with(2, data + 600 * G4_PAGE_BYTES, 2 * G4_PAGE_BYTES + 10);
	assert_int_equal(dedupe(b, 600 * G4_PAGE_BYTES, c, 0, 3 * G4_PAGE_BYTES), 2 * G4_PAGE_BYTES);
}

static void holes_are_nothing_to_share(void **state)
{
	(void)state;
	rig_pattern(data, 3, BYTES);
	const uint64_t a = rig_make(&rig, 0), b = rig_make(&rig, 1), tiny = make_with(2, data, 100);
	for (uint32_t k = 0; k < 2; k++)
		write_at(k ? a : b, 20 * G4_PAGE_BYTES, data, 10 * G4_PAGE_BYTES);
	assert_int_equal(dedupe(a, 0, b, 0, 30 * G4_PAGE_BYTES), 30 * G4_PAGE_BYTES);
	struct g4_page_sum sums[20];
	assert_int_equal(sums_of(b, 0, sums, 20), 10);
	assert_int_equal(sums[0].offset, 20 * G4_PAGE_BYTES);
	assert_int_equal(sums_of(b, 30 * G4_PAGE_BYTES, sums, 20), 0);
	memset(found, 0, G4_PAGE_BYTES);
	write_at(b, 0, found, G4_PAGE_BYTES); /* zeros, and not a hole */
	assert_int_equal(dedupe(a, 0, b, 0, 30 * G4_PAGE_BYTES), 0);
	assert_int_equal(dedupe(tiny, 0, b, 0, 100), 0);
	assert_int_equal(dedupe(b, 0, tiny, 0, 100), 0);
	assert_int_equal(sums_of(tiny, 0, sums, 20), 0);
	assert_int_equal(dedupe(a, 40 * G4_PAGE_BYTES, b, 0, G4_PAGE_BYTES), 0); /* behind the end */
}

static uint64_t dig_with(uint64_t ino, uint64_t page, uint64_t bytes, uint32_t flags)
{
	uint64_t done;

	assert_int_equal(dedupe_with(ino, page * G4_PAGE_BYTES, ino, page * G4_PAGE_BYTES, bytes,
				     G4_COPY_SAME | G4_COPY_ZEROS | flags, &done),
			 0);
	return done;
}

static void zeros_become_holes(void **state)
{
	struct g4_page_sum sums[8];
	struct g4_attr before, after;
	uint64_t done;

	(void)state;
	rig_pattern(data, 9, BYTES);
	memset(data + 100 * G4_PAGE_BYTES, 0, 300 * G4_PAGE_BYTES);
	data[250 * G4_PAGE_BYTES + 4095] = 1;
	memset(data + (PAGES - 1) * G4_PAGE_BYTES, 0, G4_PAGE_BYTES);
	const uint64_t a = make_with(0, data, BYTES - 1000),
		       b = make_with(1, data + 99 * G4_PAGE_BYTES, 10 * G4_PAGE_BYTES);
	assert_int_equal(op_fallocate(&rig, a, 0, BYTES, 20 * G4_PAGE_BYTES), 0);
	assert_int_equal(op_truncate(&rig, a, BYTES - 1000), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_getattr(&rig, a, &before), 0);
	const uint64_t space = rig_free_pages(&rig);
	assert_int_equal(dig_with(a, 0, BYTES, 0), 0);
	assert_int_equal(dig_with(a, 99, 10 * G4_PAGE_BYTES, 0), 0);
	assert_int_equal(dig_with(a, 100, 300 * G4_PAGE_BYTES, 0), 150 * G4_PAGE_BYTES);
	assert_int_equal(dig_with(a, 250, G4_PAGE_BYTES, 0), 0);
	assert_int_equal(dig_with(a, 251, 300 * G4_PAGE_BYTES, G4_COPY_COMPARE), 149 * G4_PAGE_BYTES);
	assert_int_equal(dig_with(a, PAGES - 1, G4_PAGE_BYTES, 0),
			 G4_PAGE_BYTES - 1000); /* with the end of the file in it */
	assert_int_equal(dig_with(a, PAGES, G4_PAGE_BYTES, 0), 0);
	assert_int_equal(dig_with(a, 100, 150 * G4_PAGE_BYTES, 0), 150 * G4_PAGE_BYTES); /* once more */
	assert_int_equal(op_sync(&rig), 0);
	assert_true(rig_free_pages(&rig) >= space + 300 - 2); /* a map of smaller parts */
	assert_int_equal(sums_of(a, 100 * G4_PAGE_BYTES, sums, 8), 8);
	assert_int_equal(sums[0].offset, 250 * G4_PAGE_BYTES);
	assert_int_equal(sums[1].offset, 400 * G4_PAGE_BYTES);
	assert_int_equal(sums_of(a, (PAGES - 1) * G4_PAGE_BYTES, sums, 8), 0);
	assert_int_equal(op_getattr(&rig, a, &after), 0);
	assert_int_equal(after.size, before.size);
	assert_int_equal(after.mtime_ns, before.mtime_ns);
	assert_int_equal(after.ctime_ns, before.ctime_ns);
	expect(a, data, BYTES - 1000);

	/* what fallocate(2) has given stays, and what is shared is another's still */
	assert_int_equal(op_fallocate(&rig, b, 0, 10 * G4_PAGE_BYTES, 4 * G4_PAGE_BYTES), 0);
	const uint64_t c = make_with(2, data + 99 * G4_PAGE_BYTES, 10 * G4_PAGE_BYTES);
	assert_int_equal(dedupe(b, 0, c, 0, 10 * G4_PAGE_BYTES), 10 * G4_PAGE_BYTES);
	assert_int_equal(dig_with(b, 1, 13 * G4_PAGE_BYTES, 0), 13 * G4_PAGE_BYTES);
	struct g4_run run;
	rig_run_at(&rig, b, 9, &run);
	assert_int_equal(run.kind, G4_HOLE);
	rig_run_at(&rig, b, 10, &run);
	assert_int_equal(run.kind, G4_UNWRITTEN);
	assert_int_equal(sums_of(c, G4_PAGE_BYTES, sums, 8), 8);
	expect(c, data + 99 * G4_PAGE_BYTES, 10 * G4_PAGE_BYTES);

	assert_int_equal(dedupe_with(a, 0, c, 0, G4_PAGE_BYTES, G4_COPY_SAME | G4_COPY_ZEROS, &done), -G4_E_INVAL);
	assert_int_equal(dedupe_with(c, 0, c, G4_PAGE_BYTES, G4_PAGE_BYTES, G4_COPY_SAME | G4_COPY_ZEROS, &done),
			 -G4_E_INVAL);
	assert_int_equal(dedupe_with(c, 0, c, 0, G4_PAGE_BYTES, G4_COPY_ZEROS, &done), -G4_E_INVAL);
	assert_int_equal(dedupe_with(c, 0, c, 0, G4_PAGE_BYTES, G4_COPY_SHARE | G4_COPY_ZEROS, &done), -G4_E_INVAL);
}

/* Where nothing can be written any more, which is when somebody looks for what is stored twice. */
static void a_full_device_is_emptied(void **state)
{
	uint64_t filled = 0, done;

	(void)state;
	rig_pattern(data, 21, BYTES);
	const uint64_t a = make_with(0, data, BYTES), b = make_with(1, data, BYTES), c = rig_make(&rig, 2);
	assert_int_equal(op_sync(&rig), 0);
	for (uint64_t part = 256; part > 0;) {
		for (uint64_t page = 0; page < part; page++)
			rig_pattern(found + page * G4_PAGE_BYTES, 1000 + filled + page, G4_PAGE_BYTES);
		const int rc = op_write(&rig, c, 0, filled * G4_PAGE_BYTES, found, part * G4_PAGE_BYTES, &done);
		assert_true(rc == 0 || rc == -G4_E_NOSPC);
		filled += rc == 0 ? done / G4_PAGE_BYTES : 0;
		part = rc == 0 ? part : part / 2;
	}
	assert_int_equal(op_sync(&rig), 0);
	const uint64_t before = rig_free_pages(&rig);
	assert_int_equal(op_write(&rig, c, 0, filled * G4_PAGE_BYTES, found, G4_PAGE_BYTES, &done), -G4_E_NOSPC);
	assert_int_equal(dedupe(a, 0, b, 0, BYTES), BYTES);
	assert_int_equal(op_sync(&rig), 0);
	assert_true(rig_free_pages(&rig) > before + PAGES / 2);
	expect(a, data, BYTES);
	expect(b, data, BYTES);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f2"), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f0"), 0);
	expect(b, data, BYTES);
}

static void what_makes_no_sense_is_refused(void **state)
{
	uint64_t done;

	(void)state;
	rig_pattern(data, 4, BYTES);
	const uint64_t a = make_with(0, data, BYTES), b = make_with(1, data, BYTES);
	assert_int_equal(dedupe_with(a, 1, b, 0, G4_PAGE_BYTES, G4_COPY_SAME, &done), -G4_E_INVAL);
	assert_int_equal(dedupe_with(a, 0, b, 1, G4_PAGE_BYTES, G4_COPY_SAME, &done), -G4_E_INVAL);
	assert_int_equal(dedupe_with(a, 0, b, 0, 100, G4_COPY_SAME, &done), -G4_E_INVAL);
	assert_int_equal(dedupe_with(a, 0, a, G4_PAGE_BYTES, 2 * G4_PAGE_BYTES, G4_COPY_SAME, &done), -G4_E_INVAL);
	assert_int_equal(dedupe_with(a, 0, b, 0, G4_PAGE_BYTES, 16, &done), -G4_E_INVAL);
	assert_int_equal(dedupe_with(a, 0, b, 0, G4_PAGE_BYTES, G4_COPY_COMPARE, &done), -G4_E_INVAL);
	const uint64_t in = open_as(a, G4_OPEN_WRITE), out = open_as(b, G4_OPEN_WRITE);
	assert_int_equal(op_copy_as(&rig, in, 0, out, 0, G4_PAGE_BYTES, G4_COPY_SAME, &done), -G4_E_BADF);
	assert_int_equal(op_release(&rig, in), 0);
	struct g4_attr attr = {.flags = G4_INODE_IMMUTABLE};
	assert_int_equal(op_setattr(&rig, b, G4_SET_FLAGS, &attr), 0);
	const uint64_t read = open_as(a, G4_OPEN_READ);
	assert_int_equal(op_copy_as(&rig, read, 0, out, 0, G4_PAGE_BYTES, G4_COPY_SAME, &done), -G4_E_PERM);
	assert_int_equal(op_release(&rig, read), 0);
	assert_int_equal(op_release(&rig, out), 0);
	assert_int_not_equal(sum_of(a, 0).address, sum_of(b, 0).address);
	struct g4_page_sum sum;
	struct g4_cmd cmd = {.op = G4_CMD_SUMS, .node = a, .data = &sum, .length = sizeof(sum) - 1};
	assert_int_equal(g4_execute(rig.wg, rig.fs, &cmd), -G4_E_INVAL);
	cmd.node = G4_NODE_ROOT;
	cmd.length = sizeof(sum);
	assert_int_equal(g4_execute(rig.wg, rig.fs, &cmd), -G4_E_ISDIR);
}

/* ---------------------------------------------------------------------------------------------------- what looks the same */

/* Changes a page so that its CRC-32C stays: by the polynomial itself, whose highest power is in the lowest bit. */
static void forge(uint8_t *page)
{
	const uint64_t polynomial = UINT64_C(0x82f63b78) << 1 | 1;
	uint64_t word;

	memcpy(&word, page + 1000, sizeof(word));
	word ^= polynomial;
	memcpy(page + 1000, &word, sizeof(word));
}

static void pages_of_one_crc_are_two(void **state)
{
	(void)state;
	rig_pattern(data, 5, 8 * G4_PAGE_BYTES);
	const uint64_t a = make_with(0, data, 8 * G4_PAGE_BYTES);
	forge(data + 3 * G4_PAGE_BYTES);
	const uint64_t b = make_with(1, data, 8 * G4_PAGE_BYTES);
	assert_int_equal(op_sync(&rig), 0);
	const struct g4_page_sum one = sum_of(a, 3), other = sum_of(b, 3);
	assert_int_equal(one.algorithm, G4_CHECKSUM_CRC32C);
	assert_memory_equal(one.sum, other.sum, sizeof(one.sum));
	assert_int_equal(dedupe(a, 0, b, 0, 8 * G4_PAGE_BYTES), 3 * G4_PAGE_BYTES);
	assert_int_equal(dedupe(a, 3 * G4_PAGE_BYTES, b, 3 * G4_PAGE_BYTES, G4_PAGE_BYTES), 0);
	expect(b, data, 8 * G4_PAGE_BYTES);
}

/* Sums of two kinds say nothing about each other. Each file keeps its own: none gets a weaker one for a page that it had already. */
static void pages_with_other_sums_are_compared(void **state)
{
	static const struct {
		const char *from, *to;
		uint32_t kept;
	} cases[] = {{"blake3", "crc32c", G4_CHECKSUM_CRC32C},
		     {"crc32c", "blake3", G4_CHECKSUM_BLAKE3},
		     {"none", "blake3", G4_CHECKSUM_BLAKE3},
		     {"blake3", "none", G4_CHECKSUM_NONE}};

	(void)state;
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		rig_pattern(data, 6 + i, 20 * G4_PAGE_BYTES);
		const uint64_t a = rig_make(&rig, 2 * i), b = rig_make(&rig, 2 * i + 1);
		assert_int_equal(op_setxattr(&rig, a, "gpu4fs.checksum", cases[i].from, strlen(cases[i].from), 0), 0);
		assert_int_equal(op_setxattr(&rig, b, "gpu4fs.checksum", cases[i].to, strlen(cases[i].to), 0), 0);
		write_at(a, 0, data, 20 * G4_PAGE_BYTES);
		write_at(b, 0, data, 20 * G4_PAGE_BYTES);
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(sum_of(b, 0).algorithm, cases[i].kept);
		assert_int_equal(dedupe(a, 0, b, 0, 20 * G4_PAGE_BYTES), 20 * G4_PAGE_BYTES);
		assert_int_equal(sum_of(b, 7).address, sum_of(a, 7).address);
		assert_int_equal(sum_of(b, 7).algorithm, cases[i].kept);
		expect(b, data, 20 * G4_PAGE_BYTES);
	}
}

/* A page that became other bytes on the device: its sum says nothing of that, and --compare reads it. */
static void comparing_finds_damage(void **state)
{
	uint64_t done;

	(void)state;
	rig_pattern(data, 7, 6 * G4_PAGE_BYTES);
	const uint64_t a = make_with(0, data, 6 * G4_PAGE_BYTES), b = make_with(1, data, 6 * G4_PAGE_BYTES);
	assert_int_equal(op_sync(&rig), 0);
	rig.image[sum_of(a, 4).address + 9] ^= 1;
	assert_int_equal(dedupe_with(a, 0, b, 0, 6 * G4_PAGE_BYTES, G4_COPY_SAME | G4_COPY_COMPARE, &done), 0);
	assert_int_equal(done, 4 * G4_PAGE_BYTES);
	assert_int_equal(dedupe_with(a, 4 * G4_PAGE_BYTES, b, 4 * G4_PAGE_BYTES, G4_PAGE_BYTES,
				     G4_COPY_SAME | G4_COPY_COMPARE, &done),
			 -G4_E_DATA);
	assert_int_not_equal(sum_of(a, 4).address, sum_of(b, 4).address);
	rig.image[sum_of(a, 4).address + 9] ^= 1;
}

/* ---------------------------------------------------------------------------------------------------- in any order */

#define FILES 6u
#define FILE_PAGES 64u
#define CONTENTS 40u
#define ZEROS CONTENTS

struct model {
	uint64_t ino;
	uint32_t has[FILE_PAGES]; /* 0: a hole; ZEROS: of a page */
	uint64_t pages;
};
static struct model files[FILES];

static uint32_t pick(uint32_t below)
{
	static uint64_t state = 11;

	return (uint32_t)(rig_random(&state) >> 11) % below;
}

static void contents_of(uint32_t has, uint8_t *to)
{
	if (has && has != ZEROS)
		rig_pattern(to, has, G4_PAGE_BYTES);
	else
		memset(to, 0, G4_PAGE_BYTES);
}

static void expect_model(const struct model *file)
{
	for (uint64_t page = 0; page < file->pages; page++)
		contents_of(file->has[page], &data[page * G4_PAGE_BYTES]);
	expect(file->ino, data, file->pages * G4_PAGE_BYTES);
}

/* Some pages, of a few that there are. */
static void write_some(struct model *file)
{
	const uint32_t first = pick(FILE_PAGES - 8), count = 1 + pick(8), has = 1 + pick(CONTENTS - 8);

	for (uint32_t k = 0; k < count; k++) {
		file->has[first + k] = pick(6) == 0 ? ZEROS : has + k;
		contents_of(file->has[first + k], found);
		write_at(file->ino, (first + k) * (uint64_t)G4_PAGE_BYTES, found, G4_PAGE_BYTES);
	}
	file->pages = g4_max64(file->pages, first + count);
}

static void dedupe_some(const struct model *from, const struct model *to)
{
	const uint64_t first = pick(FILE_PAGES), at = pick(FILE_PAGES), room = g4_max64(first, at);
	const uint64_t count = 1 + pick((uint32_t)(FILE_PAGES - room));
	uint64_t same = 0;

	if (from == to && first < at + count && at < first + count)
		return;
	while (same < count && first + same < from->pages && at + same < to->pages &&
	       from->has[first + same] == to->has[at + same])
		same++;
	assert_int_equal(dedupe(from->ino, first * G4_PAGE_BYTES, to->ino, at * G4_PAGE_BYTES, count * G4_PAGE_BYTES),
			 same * G4_PAGE_BYTES);
}

static void dig_some(struct model *file)
{
	const uint64_t first = pick(FILE_PAGES), count = 1 + pick((uint32_t)(FILE_PAGES - first));
	uint64_t holes = 0;

	for (; holes < count && first + holes < file->pages; holes++) {
		if (file->has[first + holes] != 0 && file->has[first + holes] != ZEROS)
			break;
		file->has[first + holes] = 0;
	}
	assert_int_equal(dig_with(file->ino, first, count * G4_PAGE_BYTES, 0), holes * G4_PAGE_BYTES);
}

static void cut(struct model *file)
{
	const uint64_t pages = pick(FILE_PAGES);

	assert_int_equal(op_truncate(&rig, file->ino, pages * G4_PAGE_BYTES), 0);
	memset(&file->has[pages], 0, (FILE_PAGES - pages) * sizeof(file->has[0]));
	file->pages = pages;
}

static void punch(struct model *file)
{
	const uint64_t first = pick(FILE_PAGES - 4), count = 1 + pick(4);

	assert_int_equal(op_fallocate(&rig, file->ino, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE,
				      first * G4_PAGE_BYTES, count * G4_PAGE_BYTES),
			 0);
	memset(&file->has[first], 0, count * sizeof(file->has[0]));
}

/* Each of the contents has one page on the device in the end. */
static void dedupe_all(void)
{
	uint64_t place[CONTENTS + 8] = {0};
	uint32_t file_of[CONTENTS + 8], page_of[CONTENTS + 8];

	for (uint32_t f = 0; f < FILES; f++)
		for (uint32_t page = 0; page < files[f].pages; page++) {
			const uint32_t has = files[f].has[page];
			if (has == 0)
				continue;
			if (place[has] == 0) {
				assert_int_equal(op_fsync(&rig, files[f].ino), 0);
				place[has] = sum_of(files[f].ino, page).address;
				file_of[has] = f;
				page_of[has] = page;
				continue;
			}
			assert_int_equal(dedupe(files[file_of[has]].ino, page_of[has] * (uint64_t)G4_PAGE_BYTES,
						files[f].ino, page * (uint64_t)G4_PAGE_BYTES, G4_PAGE_BYTES),
					 G4_PAGE_BYTES);
			assert_int_equal(sum_of(files[f].ino, page).address, place[has]);
		}
}

static void any_order_of_changes_leaves_what_the_model_has(void **state)
{
	(void)state;
	memset(files, 0, sizeof(files));
	for (uint32_t f = 0; f < FILES; f++)
		files[f].ino = rig_make(&rig, f);
	rig_pattern(data, 8, 10 * G4_PAGE_BYTES);
	write_at(files[0].ino, 0, data, 10 * G4_PAGE_BYTES); /* a slab for sums stays */
	assert_int_equal(op_fsync(&rig, files[0].ino), 0);
	assert_int_equal(op_truncate(&rig, files[0].ino, 0), 0);
	const uint64_t empty = rig_free_pages(&rig);
	for (uint32_t i = 0; i < 3000 / rig_every(4); i++) {
		struct model *file = &files[pick(FILES)];
		const uint32_t what = pick(20);

		if (what < 7)
			write_some(file);
		else if (what < 15)
			dedupe_some(&files[pick(FILES)], file);
		else if (what < 17)
			dig_some(file);
		else if (what < 18)
			cut(file);
		else
			punch(file);
		expect_model(file);
		if (i % 250 == 249) {
			dedupe_all();
			for (uint32_t f = 0; f < FILES; f++)
				expect_model(&files[f]);
		}
	}
	for (uint32_t f = 0; f < FILES; f++)
		assert_int_equal(op_truncate(&rig, files[f].ino, 0), 0);
	assert_int_equal(rig_free_pages(&rig), empty);
}

/* ---------------------------------------------------------------------------------------------------- at a time */

#define WRITERS 3u
#define DEDUPERS 2u

struct worker {
	pthread_t thread;
	uint32_t number;
	const uint64_t *ino; /* of the writers' files */
	uint64_t last[FILE_PAGES];
};

/* The only one who changes its file: what it wrote last is there at the end. */
static void *write_pages(void *user)
{
	struct worker *worker = (struct worker *)user;
	uint64_t state = worker->number + 1, page[512];

	for (uint32_t i = 0; i < 1500 / rig_every(3); i++) {
		const uint64_t at = rig_random(&state) % FILE_PAGES, what = rig_random(&state) % 4;
		for (uint32_t w = 0; w < 512; w++)
			page[w] = what;
		write_at(worker->ino[worker->number], at * G4_PAGE_BYTES, page, sizeof(page));
		worker->last[at] = what;
		if (i % 64 == 0)
			assert_int_equal(op_fsync(&rig, worker->ino[worker->number]), 0);
	}
	return NULL;
}

static void *dedupe_pages(void *user)
{
	const struct worker *worker = (const struct worker *)user;
	uint64_t state = worker->number + 100, done;

	for (uint32_t i = 0; i < 1500 / rig_every(3); i++) {
		const uint64_t from = rig_random(&state) % FILE_PAGES, to = rig_random(&state) % FILE_PAGES;
		const uint64_t a = rig_random(&state) % WRITERS, b = rig_random(&state) % WRITERS;
		if (a == b && from == to) {
			(void)dig_with(worker->ino[a], to, G4_PAGE_BYTES, 0);
			continue;
		}
		assert_int_equal(dedupe_with(worker->ino[a], from * G4_PAGE_BYTES, worker->ino[b], to * G4_PAGE_BYTES,
					     G4_PAGE_BYTES, G4_COPY_SAME, &done),
				 0);
	}
	return NULL;
}

static void nothing_that_is_written_meanwhile_is_lost(void **state)
{
	static struct worker workers[WRITERS + DEDUPERS];
	uint64_t ino[WRITERS], done;
	struct g4_statfs statfs;

	(void)state;
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	rig_mount(&rig);
	memset(workers, 0, sizeof(workers));
	for (uint32_t k = 0; k < WRITERS; k++)
		ino[k] = rig_make(&rig, k);
	for (uint32_t k = 0; k < WRITERS + DEDUPERS; k++) {
		workers[k].number = k;
		workers[k].ino = ino;
		assert_int_equal(pthread_create(&workers[k].thread, NULL, k < WRITERS ? write_pages : dedupe_pages,
						&workers[k]),
				 0);
	}
	for (uint32_t k = 0; k < WRITERS + DEDUPERS; k++)
		pthread_join(workers[k].thread, NULL);
	for (uint32_t k = 0; k < WRITERS; k++) {
		assert_int_equal(op_read(&rig, ino[k], 0, 0, found, BYTES, &done), 0);
		for (uint64_t at = 0; at < done; at += sizeof(uint64_t))
			assert_memory_equal(&found[at], &workers[k].last[at / G4_PAGE_BYTES], sizeof(uint64_t));
	}
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &statfs), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, statfs.blocks_free, "after threads that write and share");
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

int main(void)
{
#define TEST(name, algorithm)                                                                                          \
	{                                                                                                              \
#name " (" #algorithm ")", name, setup_##algorithm, teardown, NULL                                     \
	}
#define setup_blake3 setup
	const struct CMUnitTest tests[] = {
		TEST(same_files_become_one, blake3),
		TEST(same_files_become_one, crc32c),
		TEST(same_files_become_one, xxh3),
		TEST(same_files_become_one, none),
		TEST(sharing_ends_at_the_first_difference, blake3),
		TEST(sharing_ends_at_the_first_difference, crc32c),
		TEST(sharing_ends_at_the_first_difference, none),
		TEST(holes_are_nothing_to_share, blake3),
		TEST(holes_are_nothing_to_share, none),
		TEST(zeros_become_holes, blake3),
		TEST(zeros_become_holes, crc32c),
		TEST(zeros_become_holes, none),
		TEST(a_full_device_is_emptied, small),
		TEST(what_makes_no_sense_is_refused, blake3),
		TEST(pages_of_one_crc_are_two, crc32c),
		TEST(pages_with_other_sums_are_compared, blake3),
		TEST(comparing_finds_damage, blake3),
		TEST(any_order_of_changes_leaves_what_the_model_has, blake3),
		TEST(any_order_of_changes_leaves_what_the_model_has, xxh3),
		TEST(any_order_of_changes_leaves_what_the_model_has, none),
		TEST(nothing_that_is_written_meanwhile_is_lost, blake3),
		TEST(nothing_that_is_written_meanwhile_is_lost, none),
	};

	return cmocka_run_group_tests_name("dedupe", tests, NULL, NULL);
}
