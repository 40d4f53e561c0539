/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages that rot in rows with parity. Whatever is written beside a page, and wherever the power fails meanwhile, parity has the page as it
 * was written until somebody has it written back.
 */
#include "disks.h"

#include "alloc/alloc.h"
#include "alloc/count.h"
#include "dev/dev_ops_host.h"
#include "simt/simt_host.h"
#include "space/sealed.h"
#include "space/space.h"

#define PAGES 96u
#define BASE (12 * G4_MIB)	 /* behind the front, which has copies */
#define ROWS_BYTES (16 * G4_MIB) /* of a disk */
#define ROWS_DISKS 7u

struct rows { /* an open set, of which pages are written without a file system */
	struct disks d;
	struct g4_dev *dev;
	struct g4_wg *wg;
	uint32_t copies, parity;
	uint32_t tags[2]; /* of the set, where pages are metadata: the second one; all that are written a second time */
	_Alignas(G4_PAGE_BYTES) uint8_t page[G4_PAGE_BYTES];
	_Alignas(G4_PAGE_BYTES) uint8_t found[G4_PAGE_BYTES];
};

#define STRIPE_PAGES (2 * ROWS_STRIPE / G4_PAGE_BYTES) /* of data, of three disks with one parity */

static void open_rows(struct rows *r)
{
	if (disks_try_open(&r->d, (1u << r->d.count) - 1, false, 0, &r->dev) < 0)
		fail_msg("%s", r->d.message);
	r->copies = g4_dev_props(r->dev)->copies;
}

static void make_rows(struct rows *r, uint32_t count, uint32_t parity)
{
	const struct g4_set_plan plan = {
		.raid = G4_RAID_PARITY, .parity = parity, .stripe_bytes = ROWS_STRIPE, .journal_bytes = JOURNAL_BYTES};

	uint64_t sizes[MOST_DISKS];

	memset(r, 0, sizeof(*r));
	r->parity = parity;
	for (uint32_t n = 0; n < count; n++)
		sizes[n] = ROWS_BYTES;
	disks_make(&r->d, count, sizes);
	disks_format_plan(&r->d, &plan, G4_CHECKSUM_NONE);
	r->wg = g4_wg_create(0);
	open_rows(r);
}

static uint8_t kept[ROWS_DISKS][ROWS_BYTES]; /* once for all: memory that is new at each turn is what takes time */

static void keep_disks(struct rows *r)
{
	for (uint32_t n = 0; n < r->d.count; n++)
		rig_copy(kept[n], r->d.memory[n], ROWS_BYTES);
}

static void restore_disks(struct rows *r)
{
	for (uint32_t n = 0; n < r->d.count; n++)
		rig_copy(r->d.memory[n], kept[n], ROWS_BYTES);
}

static void free_rows(struct rows *r)
{
	g4_dev_close(r->dev);
	g4_wg_destroy(r->wg);
	disks_free(&r->d);
}

/* What a page has when it is put, into r->page. */
static void make_page(struct rows *r, uint32_t number, uint32_t version)
{
	rig_pattern(r->page, 1000 * number + version, G4_PAGE_BYTES);
	const uint32_t tag = version > 1 ? r->tags[1] : number == 1 ? r->tags[0] : 0;
	if (tag)
		g4_block_seal(r->page, G4_BLOCK_LISTING, g4_address_from(BASE + number * G4_PAGE_BYTES), version, tag);
}

static void put_page(struct rows *r, uint32_t number, uint32_t version)
{
	make_page(r, number, version);
	assert_int_equal(g4_dev_write(r->wg, r->dev, BASE + number * G4_PAGE_BYTES, r->page, G4_PAGE_BYTES, 0), 0);
}

/* What the log has is in its place, too: whoever compares rows has that done first, also where there are none. */
static void settle(struct g4_wg *wg, struct g4_dev *set)
{
	struct g4_io io = {.op = G4_IO_CHECK, .discard_bytes = G4_PAGE_BYTES};

	g4_dev_submit(wg, set, &io);
	assert_int_equal(g4_dev_wait(wg, set, &io), 0);
}

/* Until then pages may be held back, and be in the log alone. */
static void flush_rows(struct rows *r)
{
	assert_int_equal(g4_dev_flush(r->wg, r->dev), 0);
	settle(r->wg, r->dev);
}

/* Into r->found; in one copy, or made by one parity alone. */
static int get_version(struct rows *r, uint32_t number, uint32_t version)
{
	struct g4_iov iov = {r->found, G4_PAGE_BYTES};
	struct g4_io io = {.op = G4_IO_READ,
			   .flags = G4_IO_COPY(version),
			   .offset_bytes = BASE + number * G4_PAGE_BYTES,
			   .iov = &iov,
			   .iov_count = 1};

	g4_dev_submit(r->wg, r->dev, &io);
	return g4_dev_wait(r->wg, r->dev, &io);
}

/* Where a page is that was put, in the memory of a disk. */
static uint8_t *find_page(struct rows *r, uint32_t number, uint32_t version)
{
	make_page(r, number, version);
	for (uint32_t n = 0; n < r->d.count; n++)
		for (uint64_t at = 4 * G4_MIB; at < r->d.bytes[n]; at += G4_PAGE_BYTES)
			if (memcmp(r->d.memory[n] + at, r->page, G4_PAGE_BYTES) == 0)
				return r->d.memory[n] + at;
	fail_msg("page %u is nowhere", number);
	return NULL;
}

static void rot_page(struct rows *r, uint32_t number, uint32_t version)
{
	find_page(r, number, version)[number % 4000] ^= 0x40;
}

/* Each parity has the page as it was written. */
static void expect_remade(struct rows *r, uint32_t number, uint32_t version, const char *when)
{
	for (uint32_t p = 0; p < r->parity; p++) {
		assert_int_equal(get_version(r, number, r->copies + p), 0);
		make_page(r, number, version);
		if (memcmp(r->found, r->page, G4_PAGE_BYTES) != 0)
			fail_msg("%s: parity %u has not page %u as it was written", when, p, number);
	}
}

/* All pages but those that rotted: what is written beside them stays in part, and is whole rows at the end. */
static void write_beside(struct rows *r, uint32_t version, uint32_t every)
{
	for (uint32_t n = 0; n < PAGES; n++)
		if (n % every != 5)
			put_page(r, n, version);
	flush_rows(r);
}

/* A seventh of the pages: so there is never more than one in a row, of stripes of four pages. */
#define EVERY 7u

static void expect_all_remade(struct rows *r, uint32_t version, const char *when)
{
	for (uint32_t n = 5; n < PAGES; n += EVERY)
		expect_remade(r, n, version, when);
}

static const struct {
	uint32_t disks, parity;
} levels[] = {{3, 1}, {4, 1}, {5, 2}, {7, 4}};
#define LEVELS (sizeof(levels) / sizeof(levels[0]))

/* A mounted file system with rows of a level. */
static void make_level(struct disks *d, uint32_t l, uint32_t checksum, struct g4_dev **dev)
{
	disks_make(d, levels[l].disks, NULL);
	disks_format_rows(d, levels[l].parity, checksum);
	disks_mount_fs(d, (1u << levels[l].disks) - 1, dev);
}

static void a_write_beside_a_rotten_page_keeps_what_parity_has_of_it(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct rows r;
		make_rows(&r, levels[l].disks, levels[l].parity);
		for (uint32_t n = 0; n < PAGES; n++)
			put_page(&r, n, 1);
		flush_rows(&r);
		expect_all_remade(&r, 1, "before");
		for (uint32_t n = 5; n < PAGES; n += EVERY)
			rot_page(&r, n, 1);
		write_beside(&r, 2, EVERY);
		expect_all_remade(&r, 1, "written beside");
		/* the set remembers which parity is right */
		g4_dev_close(r.dev);
		open_rows(&r);
		write_beside(&r, 3, EVERY);
		expect_all_remade(&r, 1, "written beside after it was opened again");
		free_rows(&r);
	}
}

/* ---- the power fails ---- */

/* What the disks have now, as after a crash in which all that was written arrived. */
static void crash_rows(struct rows *r)
{
	keep_disks(r);
	g4_dev_close(r->dev);
	restore_disks(r);
}

static void put_large(struct rows *r, uint64_t at, uint64_t bytes, uint32_t seed)
{
	uint8_t *data = rig_memory(bytes, seed);

	assert_int_equal(g4_dev_write(r->wg, r->dev, BASE + at, data, bytes, 0), 0);
	free(data);
}

static void recovery_takes_no_rot_into_parity(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct rows r;
		make_rows(&r, levels[l].disks, levels[l].parity);
		for (uint32_t n = 0; n < PAGES; n++)
			put_page(&r, n, 1);
		flush_rows(&r);
		g4_dev_close(r.dev);
		open_rows(&r);
		/* whole rows, in the same regions */
		put_large(&r, 4 * G4_MIB, 2 * G4_MIB, 5);
		put_large(&r, 7 * G4_MIB, G4_MIB / 2, 6);
		for (uint32_t n = 5; n < PAGES; n += EVERY)
			rot_page(&r, n, 1);
		crash_rows(&r);
		open_rows(&r);
		expect_all_remade(&r, 1, "after a crash");
		free_rows(&r);
	}
}

/* Rows that were being written as a whole have a parity that fits, whatever arrived. */
static void recovery_makes_parity_of_rows_that_were_being_written(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		uint8_t *data = rig_memory(G4_MIB, 9);
		uint32_t wrong = 0;
		struct rows r;
		make_rows(&r, levels[l].disks, levels[l].parity);
		put_large(&r, 0, G4_MIB, 8);
		g4_dev_close(r.dev);
		open_rows(&r);
		put_large(&r, 0, G4_MIB, 9);
		/* one disk has not got it: of no row can be told what is in it, but parity is that of what is there */
		for (uint64_t at = 4 * G4_MIB; at < r.d.bytes[1]; at += G4_PAGE_BYTES)
			for (uint64_t page = 0; page < G4_MIB; page += G4_PAGE_BYTES)
				if (memcmp(r.d.memory[1] + at, data + page, G4_PAGE_BYTES) == 0)
					memset(r.d.memory[1] + at, 0x5a, G4_PAGE_BYTES);
		crash_rows(&r);
		open_rows(&r);
		for (uint32_t n = 0; n < G4_MIB / G4_PAGE_BYTES; n++) {
			assert_int_equal(get_version(&r, n, 0), 0);
			rig_copy(r.page, r.found, G4_PAGE_BYTES);
			for (uint32_t p = 0; p < r.parity; p++) {
				assert_int_equal(get_version(&r, n, r.copies + p), 0);
				wrong += memcmp(r.page, r.found, G4_PAGE_BYTES) != 0;
			}
		}
		assert_int_equal(wrong, 0);
		free_rows(&r);
		free(data);
	}
}

/* ---- what was there before ---- */

/* No map, and on free places whatever a disk had: as of a set that an older version has made, or disks that can not be cleared. */
static void parity_is_right_whatever_the_disks_had(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++) {
		struct rows r;
		make_rows(&r, levels[l].disks, levels[l].parity);
		g4_dev_close(r.dev);
		for (uint32_t n = 0; n < r.d.count; n++) {
			rig_pattern(r.d.memory[n] + 2 * G4_MIB - G4_PAGE_BYTES, n, G4_PAGE_BYTES); /* the map */
			rig_pattern(r.d.memory[n] + 4 * G4_MIB, 77 + n, ROWS_BYTES - 5 * G4_MIB);
		}
		open_rows(&r);
		for (uint32_t n = 0; n < PAGES; n += 3)
			put_page(&r, n, 1);
		flush_rows(&r);
		for (uint32_t n = 0; n < PAGES; n += 3)
			expect_remade(&r, n, 1, "on old contents");
		free_rows(&r);
	}
}

/* ---- the log ---- */

#define LOG_AT G4_MIB
#define LOG_BYTES G4_MIB

/* All pages have version 1, and those that are given version 2 in the log alone. How many of the log's pages are used. */
static uint32_t leave_log(struct rows *r, uint32_t every)
{
	uint8_t *log[MOST_DISKS];
	uint32_t used = 0;

	for (uint32_t n = 0; n < PAGES; n++)
		put_page(r, n, 1);
	g4_dev_close(r->dev);
	open_rows(r);
	keep_disks(r);
	for (uint32_t n = 0; n < PAGES; n += every) {
		put_page(r, n, 2);
		flush_rows(r);
	}
	for (uint32_t n = 0; n < r->d.count; n++) {
		log[n] = (uint8_t *)malloc(LOG_BYTES);
		rig_copy(log[n], r->d.memory[n] + LOG_AT, LOG_BYTES);
	}
	g4_dev_close(r->dev);
	restore_disks(r);
	for (uint32_t n = 0; n < r->d.count; n++) {
		rig_copy(r->d.memory[n] + LOG_AT, log[n], LOG_BYTES);
		free(log[n]);
	}
	/* an entry is a descriptor, the page and its parities */
	used = 1 + (PAGES + every - 1) / every * (2 + r->parity);
	return used;
}

static void expect_versions(struct rows *r, uint32_t every)
{
	for (uint32_t n = 0; n < PAGES; n++) {
		const uint32_t version = n % every == 0 ? 2 : 1;
		assert_int_equal(get_version(r, n, 0), 0);
		rig_pattern(r->page, 1000 * n + version, G4_PAGE_BYTES);
		if (memcmp(r->page, r->found, G4_PAGE_BYTES) != 0)
			fail_msg("page %u has not version %u", n, version);
		expect_remade(r, n, version, "with the log");
	}
}

/* One bad page is not the end of a log that another disk has, whether it is a descriptor or contents. */
static void damaged_pages_of_the_log_come_from_another_disk(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++)
		for (uint32_t first = 0; first < 3; first++) {
			struct rows r;
			make_rows(&r, levels[l].disks, levels[l].parity);
			const uint32_t used = leave_log(&r, 11);
			/* each page is damaged in all copies but one, the header among them */
			for (uint32_t page = 0; page < used; page++)
				for (uint32_t n = 0; n <= r.parity; n++)
					if ((page + first) % (r.parity + 1) != n)
						r.d.memory[n][LOG_AT + page * G4_PAGE_BYTES + 99] ^= 4;
			open_rows(&r);
			expect_versions(&r, 11);
			free_rows(&r);
		}
}

/* The set behind fault devices, without the disks that are missing. */
static int assemble_rows(struct rows *r, uint32_t missing, struct g4_dev **fault, const struct g4_fault *faults)
{
	const struct g4_set_options options = {.degraded = true};
	struct g4_dev *devs[MOST_DISKS] = {NULL};
	const char *names[MOST_DISKS] = {NULL};
	uint32_t count = 0;

	for (uint32_t n = 0; n < r->d.count; n++) {
		if (missing >> n & 1)
			continue;
		assert_int_equal(g4_dev_fault_open(disks_open_one(r->d.names[n]), &fault[n]), 0);
		if (faults)
			g4_dev_fault_set(fault[n], &faults[n]);
		devs[count] = fault[n];
		names[count++] = r->d.names[n];
	}
	const int rc = g4_set_assemble(devs, names, count, &options, &r->dev, r->d.message, sizeof(r->d.message));
	for (uint32_t n = 0; rc < 0 && n < count; n++)
		g4_dev_close(devs[n]);
	return rc;
}

static void any_read_of_the_log_may_fail(void **state)
{
	struct rows r;
	uint32_t opened = 0;

	(void)state;
	make_rows(&r, 4, 1);
	leave_log(&r, 11);
	keep_disks(&r);
	for (uint32_t at = 1; at < 12; at++)
		for (uint32_t disk = 0; disk < 4; disk++) {
			struct g4_fault faults[MOST_DISKS] = {{.cut_after_writes = 0}};
			struct g4_dev *fault[MOST_DISKS];
			faults[disk].fail_read_at = at;
			if (assemble_rows(&r, 0, fault, faults) == 0) { /* else it was a superblock */
				faults[disk].fail_read_at = 0;
				g4_dev_fault_set(fault[disk], &faults[disk]);
				expect_versions(&r, 11);
				g4_dev_close(r.dev);
				opened++;
			}
			restore_disks(&r);
		}
	assert_true(opened > 20);
	open_rows(&r);
	free_rows(&r);
}

/*
 * A write to the log that fails, on a set that lacks a disk: with another parity the set goes on without that disk, too; else
 * the writer
 * is told, and what was told to be written is there afterwards.
 */
static void a_log_may_fail_on_a_set_that_lacks_a_disk(void **state)
{
	uint32_t refused = 0, went_on = 0;

	(void)state;
	for (uint32_t l = 1; l < 3; l++)
		for (uint32_t at = 1; at < 24; at += 1 + l)
			for (uint32_t disk = 0; disk < 2; disk++) {
				struct g4_fault faults[MOST_DISKS] = {{.cut_after_writes = 0}};
				const uint32_t missing = 1u << (levels[l].disks - 1);
				struct g4_dev *fault[MOST_DISKS];
				uint32_t versions[PAGES];
				struct rows r;
				int rc = 0;
				make_rows(&r, levels[l].disks, levels[l].parity);
				for (uint32_t n = 0; n < PAGES; n++) {
					put_page(&r, n, 1);
					versions[n] = 1;
				}
				g4_dev_close(r.dev);
				assert_int_equal(assemble_rows(&r, missing, fault, faults), 0);
				faults[disk].cut_after_writes = at;
				faults[disk].cut_inside = true;
				g4_dev_fault_set(fault[disk], &faults[disk]);
				for (uint32_t n = 0; n < PAGES && rc == 0; n += 5) {
					rig_pattern(r.page, 1000 * n + 2, G4_PAGE_BYTES);
					rc = g4_dev_write(r.wg, r.dev, BASE + n * G4_PAGE_BYTES, r.page, G4_PAGE_BYTES,
							  0);
					if (rc == 0)
						rc = g4_dev_flush(r.wg, r.dev);
					versions[n] = rc == 0 ? 2 : 3; /* 3: either */
				}
				if (rc < 0 && (rc != -G4_E_IO || r.parity > 1))
					fail_msg("%d, write %u of disk %u of %u: %s", rc, at, disk, r.d.count,
						 g4_strerror(rc));
				refused += rc < 0;
				went_on += rc == 0;
				struct g4_disk_info info;
				assert_true(g4_set_disk(r.dev, disk, &info));
				const bool dropped = info.state == G4_DISK_DROPPED;
				g4_dev_fault_power_on(fault[disk]);
				g4_dev_close(r.dev);
				assert_int_equal(assemble_rows(&r, missing | (dropped ? 1u << disk : 0), fault, NULL),
						 0);
				for (uint32_t n = 0; n < PAGES; n++) {
					struct g4_iov iov = {r.found, G4_PAGE_BYTES};
					struct g4_io io = {.op = G4_IO_READ,
							   .offset_bytes = BASE + n * G4_PAGE_BYTES,
							   .iov = &iov,
							   .iov_count = 1};
					g4_dev_submit(r.wg, r.dev, &io);
					assert_int_equal(g4_dev_wait(r.wg, r.dev, &io), 0);
					rig_pattern(r.page, 1000 * n + 2, G4_PAGE_BYTES);
					const bool newer = memcmp(r.page, r.found, G4_PAGE_BYTES) == 0;
					rig_pattern(r.page, 1000 * n + 1, G4_PAGE_BYTES);
					const bool older = memcmp(r.page, r.found, G4_PAGE_BYTES) == 0;
					if (!(versions[n] & 2 ? newer : false) && !(versions[n] & 1 ? older : false))
						fail_msg("page %u is lost, write %u of disk %u of %u", n, at, disk,
							 r.d.count);
				}
				free_rows(&r);
			}
	assert_true(refused > 0 && went_on > 0);
}

/* ---- what is held back ---- */

static void expect_read(struct rows *r, uint32_t number, uint32_t version, uint32_t missing)
{
	rig_pattern(r->page, 1000 * number + version, G4_PAGE_BYTES);
	memset(r->found, 0, G4_PAGE_BYTES);
	assert_int_equal(g4_dev_read(r->wg, r->dev, BASE + number * G4_PAGE_BYTES, r->found, G4_PAGE_BYTES), 0);
	if (memcmp(r->page, r->found, G4_PAGE_BYTES) != 0)
		fail_msg("page %u has not version %u without disks %x", number, version, missing);
}

/* Whether it is on a disk or not, readers have what was written last; and after a flush it is there without any m disks. */
static void what_is_held_back_is_what_is_read(void **state)
{
	uint8_t *data = rig_memory(PAGES * G4_PAGE_BYTES, 12), *found = rig_memory(PAGES * G4_PAGE_BYTES, 13);

	(void)state;
	for (uint32_t l = 0; l < LEVELS; l++)
		for (uint32_t lost = 0; lost <= levels[l].disks; lost++) {
			const uint32_t missing = lost < levels[l].disks ? 1u << lost : 0;
			struct g4_dev *fault[MOST_DISKS];
			struct rows r;
			make_rows(&r, levels[l].disks, levels[l].parity);
			g4_dev_close(r.dev);
			assert_int_equal(assemble_rows(&r, missing, fault, NULL), 0);
			for (uint32_t n = 0; n < PAGES; n++)
				put_page(&r, n, 1);
			flush_rows(&r);
			for (uint32_t version = 2; version < 6; version++) {
				for (uint32_t n = 0; n < PAGES; n += 3)
					put_page(&r, n, version);
				for (uint32_t n = 0; n < PAGES; n++)
					expect_read(&r, n, n % 3 ? 1 : version, missing);
				if (version % 2)
					flush_rows(&r);
			}
			/* all of it at once, over what is held, and in pieces that no stripe has */
			for (uint64_t at = 0, some = 5; at < PAGES; at += some, some = g4_min64(some + 2, PAGES - at)) {
				put_page(&r, (uint32_t)at, 7);
				assert_int_equal(g4_dev_write(r.wg, r.dev, BASE + at * G4_PAGE_BYTES,
							      data + at * G4_PAGE_BYTES, some * G4_PAGE_BYTES, 0),
						 0);
			}
			assert_int_equal(g4_dev_read(r.wg, r.dev, BASE, found, PAGES * G4_PAGE_BYTES), 0);
			assert_memory_equal(data, found, PAGES * G4_PAGE_BYTES);
			flush_rows(&r);
			g4_dev_close(r.dev);
			/* any others, as many as there are parities in all */
			const uint32_t other = missing && r.parity == 1 ? missing : 1u << (lost + 1) % r.d.count;
			assert_int_equal(assemble_rows(&r, missing | other, fault, NULL), 0);
			assert_int_equal(g4_dev_read(r.wg, r.dev, BASE, found, PAGES * G4_PAGE_BYTES), 0);
			assert_memory_equal(data, found, PAGES * G4_PAGE_BYTES);
			free_rows(&r);
		}
	free(data);
	free(found);
}

/* ---- what the file system makes of it ---- */

#define NAMES 300u

static struct g4_chunk_map map_of(const struct disks *d)
{
	const struct g4_chunks_page *page =
		(const struct g4_chunks_page *)(const void *)(d->memory[0] + G4_CHUNKS_ADDRESS);

	return (struct g4_chunk_map){.chunks = page->chunks, .count = page->count};
}

/* Whether this place of a disk is that of an address of a row with parity. */
static bool is_home(const struct disks *d, uint32_t disk, uint64_t at, uint64_t address)
{
	const struct g4_chunk_map map = map_of(d);
	struct g4_piece piece;

	g4_chunk_translate(&map, address, G4_PAGE_BYTES, &piece);
	return piece.parity > 0 && piece.disks[0] == disk && piece.offsets[0] == at;
}

/* What is done to slabs that lie in rows on some disks, and how many there are. */
static uint32_t each_slab(struct disks *d, uint32_t which, void (*act)(struct disks *d, uint32_t disk, uint64_t at))
{
	uint32_t slabs = 0;

	for (uint32_t n = 0; n < d->count; n++)
		for (uint64_t at = 2 * G4_MIB; at < d->bytes[n] - G4_PAGE_BYTES; at += G4_PAGE_BYTES) {
			const struct g4_block_header *header = (const struct g4_block_header *)(d->memory[n] + at);
			if (header->magic != G4_BLOCK_MAGIC || header->type != G4_BLOCK_SLAB || !(which >> n & 1) ||
			    !is_home(d, n, at, header->address))
				continue;
			slabs++;
			act(d, n, at);
		}
	return slabs;
}

static void rot_one(struct disks *d, uint32_t disk, uint64_t at)
{
	d->memory[disk][at + 1000] ^= 0x20;
}

/* And the first parity of its row. */
static void rot_with_parity(struct disks *d, uint32_t disk, uint64_t at)
{
	const uint64_t address = ((const struct g4_block_header *)(d->memory[disk] + at))->address;
	const struct g4_chunk_map map = map_of(d);
	const struct g4_chunk *chunk = g4_chunk_find(&map, address);
	const uint32_t k = g4_chunk_data_columns(chunk);
	const uint64_t stripe = (address - chunk->address) / chunk->stripe_bytes / k;
	const uint64_t place = g4_chunk_place(chunk, stripe, k) + stripe * chunk->stripe_bytes +
			       (address - chunk->address) % chunk->stripe_bytes;

	d->memory[disk][at + 1000]++;
	d->memory[g4_place_disk(place)][g4_place_address(place) + 1001]++;
}

static void expect_whole(struct disks *d, uint32_t disk, uint64_t at)
{
	const struct g4_block_header *header = (const struct g4_block_header *)(d->memory[disk] + at);

	assert_int_equal(g4_block_verify(header, G4_BLOCK_SLAB, g4_address_from(header->address), header->fs_tag), 0);
}

static void make_names(struct disks *d)
{
	char name[32];
	uint64_t ino;

	for (uint32_t n = 0; n < NAMES; n++) {
		snprintf(name, sizeof(name), "name %u", n);
		assert_int_equal(op_mknod(&d->rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino), 0);
	}
}

static int look_up(struct disks *d, uint32_t number)
{
	struct g4_attr attr;
	char name[32];

	snprintf(name, sizeof(name), "name %u", number);
	return op_lookup(&d->rig, G4_NODE_ROOT, name, &attr);
}

static void a_lookup_has_a_rotten_slab_written_back(void **state)
{
	uint32_t slabs = 0;

	(void)state;
	for (uint32_t l = 0; l < 3; l++) {
		const uint32_t all = (1u << levels[l].disks) - 1;
		struct g4_dev *dev;
		struct disks d;
		make_level(&d, l, G4_CHECKSUM_NONE, &dev);
		make_names(&d);
		disks_unmount_fs(&d, dev, true);
		for (uint32_t bad = 0; bad < levels[l].disks; bad++) {
			slabs += each_slab(&d, 1u << bad, rot_one);
			disks_mount_fs(&d, all, &dev);
			for (uint32_t n = 0; n < NAMES; n++)
				assert_int_equal(look_up(&d, n), 0);
			disks_unmount_fs(&d, dev, true);
			each_slab(&d, all, expect_whole);
		}
		disks_expect_clean(&d, all);
		disks_free(&d);
	}
	assert_true(slabs > 15);
}

static void an_inode_that_can_not_be_made_again_is_an_error(void **state)
{
	struct g4_dev *dev;
	uint32_t damaged = 0;
	struct disks d;

	(void)state;
	disks_make(&d, 4, NULL);
	disks_format_rows(&d, 1, G4_CHECKSUM_NONE);
	disks_mount_fs(&d, 15, &dev);
	make_names(&d);
	disks_unmount_fs(&d, dev, true);
	assert_true(each_slab(&d, 15, rot_with_parity) > 5);
	disks_mount_fs(&d, 15, &dev);
	for (uint32_t n = 0; n < NAMES; n++) {
		const int rc = look_up(&d, n);
		assert_int_not_equal(rc, -G4_E_NOENT);
		damaged += rc == -G4_E_CORRUPT_INODE;
	}
	assert_true(damaged > 0);
	disks_unmount_fs(&d, dev, false);
	disks_free(&d);
}

/* Contents that the newest record of the journal relies on have rotted since they were flushed. */
static void recovery_asks_parity_for_contents_that_rotted(void **state)
{
	uint8_t *data = (uint8_t *)malloc(FILE_PAGES * G4_PAGE_BYTES), *crashed[4];
	uint32_t rotten = 0;
	struct faulty f;
	struct disks d;

	(void)state;
	disks_make(&d, 4, NULL);
	disks_format_rows(&d, 1, G4_CHECKSUM_NONE);
	disks_open_faulty(&d, &f);
	disks_mount_faulty(&d, &f);
	for (uint32_t n = 0; n < 4; n++)
		assert_int_equal(disks_put(&d, n, 1), 0);
	disks_unmount(&d);
	disks_open_faulty(&d, &f);
	disks_mount_faulty(&d, &f);
	assert_int_equal(disks_put(&d, 1, 2), 0);
	/* of each disk: that of the record has made durable what the log has, and what is in its place only the log's emptying does */
	struct g4_wg *wg = g4_wg_create(9);
	settle(wg, f.set);
	for (uint32_t n = 0; n < 4; n++)
		assert_int_equal(g4_dev_flush(wg, f.fault[n]), 0);
	g4_wg_destroy(wg);
	for (uint32_t n = 0; n < 4; n++) {
		crashed[n] = (uint8_t *)malloc(d.bytes[n]);
		rig_copy(crashed[n], d.memory[n], d.bytes[n]);
	}
	disks_unmount(&d);
	for (uint32_t n = 0; n < 4; n++) {
		rig_copy(d.memory[n], crashed[n], d.bytes[n]);
		free(crashed[n]);
	}
	rig_pattern(data, 1002, FILE_PAGES * G4_PAGE_BYTES);
	for (uint32_t n = 0; n < 4; n++) {
		d.memory[n][LOG_AT + 99] ^= 1; /* no header: the log, which has it as well, was emptied since */
		for (uint64_t at = 2 * G4_MIB; at < d.bytes[n] && rotten == 0; at += G4_PAGE_BYTES)
			if (memcmp(d.memory[n] + at, data, G4_PAGE_BYTES) == 0) {
				d.memory[n][at + 5] ^= 1;
				rotten++;
			}
	}
	assert_int_equal(rotten, 1);
	disks_mount(&d, 15);
	assert_int_equal(disks_has(&d, 1, 2), 1);
	disks_unmount(&d);
	free(data);
	disks_free(&d);
}

/* ---- rows are compared ---- */

/* Every page of a disk's rows, so far as files and metadata may be there. */
static void rot_rows(struct disks *d, uint32_t disk)
{
	for (uint64_t at = 4 * G4_MIB; at < d->bytes[disk] - G4_PAGE_BYTES; at += G4_PAGE_BYTES)
		d->memory[disk][at + 40 + at / G4_PAGE_BYTES * 7 % 3000] ^= 0x10;
}

static uint64_t mended(struct g4_dev *dev, uint32_t disk)
{
	struct g4_disk_info info;

	assert_true(g4_set_disk(dev, disk, &info));
	return info.mended;
}

static void fsck_and_scrub_find_parity_that_rotted(void **state)
{
	(void)state;
	for (uint32_t l = 0; l < 3; l++) {
		const uint32_t count = levels[l].disks, all = (1u << count) - 1;
		uint64_t in_use = 0;
		for (uint32_t bad = 0; bad < count; bad++) {
			const uint64_t sizes[5] = {32 * G4_MIB, 32 * G4_MIB, 32 * G4_MIB, 32 * G4_MIB, 32 * G4_MIB};
			struct g4_dev *dev;
			struct disks d;
			char *text;
			disks_make(&d, count, sizes);
			disks_format_rows(&d, levels[l].parity, G4_CHECKSUM_CRC32C);
			disks_mount_fs(&d, all, &dev);
			disks_populate(&d);
			disks_unmount_fs(&d, dev, true);
			snprintf(d.rig.name, sizeof(d.rig.name), "%s", disks_name_of(&d, all));
			rig_fsck_data(&d.rig, 2, &text);
			if (strstr(text, "do not fit"))
				fail_msg("before: %s", text);
			free(text);
			rot_rows(&d, bad);
			snprintf(d.rig.name, sizeof(d.rig.name), "%s", disks_name_of(&d, all));
			rig_fsck_data(&d.rig, 2, &text);
			assert_non_null(strstr(text, "do not fit together"));
			free(text);
			disks_mount_fs(&d, all, &dev);
			assert_int_equal(disks_scrub(&d), 0);
			assert_true(levels[l].parity == 1 || mended(dev, bad) > 1000);
			/* with one parity only rows that are in use as a whole; how much of them a disk has is chance */
			in_use += mended(dev, bad);
			for (uint32_t other = 0; other < count; other++)
				assert_true(other == bad || mended(dev, other) == 0);
			disks_unmount_fs(&d, dev, true);
			snprintf(d.rig.name, sizeof(d.rig.name), "%s", disks_name_of(&d, all));
			rig_fsck_data(&d.rig, 2, &text);
			if (strstr(text, "do not fit"))
				fail_msg("afterwards: %s", text);
			free(text);
			/* and it serves: any other disk may be lost */
			const uint32_t later = all & ~(1u << (bad + 1) % count);
			disks_mount_fs(&d, later, &dev);
			disks_expect_all(&d);
			disks_unmount_fs(&d, dev, true);
			disks_expect_clean(&d, later);
			disks_free(&d);
		}
		assert_true(in_use > 20 * count);
	}
}

#define UNNAMED_BYTES G4_MIB

/* The first page of a disk that these contents are in. */
static uint8_t *find_any(struct disks *d, const uint8_t *data, uint64_t bytes)
{
	for (uint32_t n = 0; n < d->count; n++)
		for (uint64_t at = 4 * G4_MIB; at < d->bytes[n]; at += G4_PAGE_BYTES)
			for (uint64_t page = 0; page < bytes; page += G4_PAGE_BYTES)
				if (memcmp(d->memory[n] + at, data + page, G4_PAGE_BYTES) == 0)
					return d->memory[n] + at;
	fail_msg("the contents are nowhere");
	return NULL;
}

/* A scrub comes to a file without a name, too; what parity has of it is the last good version of a page that rots. */
static void a_scrub_mends_a_file_without_a_name_from_parity(void **state)
{
	uint8_t *data = rig_memory(UNNAMED_BYTES, 31), *found = rig_memory(UNNAMED_BYTES, 32);

	(void)state;
	for (uint32_t l = 0; l < 3; l++) {
		const uint32_t all = (1u << levels[l].disks) - 1;
		uint64_t ino, handle, done = 0;
		struct g4_dev *dev;
		struct disks d;
		make_level(&d, l, G4_CHECKSUM_CRC32C, &dev);
		assert_int_equal(op_tmpfile(&d.rig, G4_NODE_ROOT, &ino, &handle), 0);
		assert_int_equal(op_write(&d.rig, ino, handle, 0, data, UNNAMED_BYTES, &done), 0);
		assert_int_equal(op_fsync(&d.rig, ino), 0);
		find_any(&d, data, UNNAMED_BYTES)[77] ^= 8;
		assert_int_equal(disks_scrub(&d), 0);
		assert_int_equal(op_link(&d.rig, ino, G4_NODE_ROOT, "named"), 0);
		assert_int_equal(op_release(&d.rig, handle), 0);
		disks_unmount_fs(&d, dev, true);
		disks_mount_fs(&d, all, &dev);
		assert_int_equal(op_read(&d.rig, ino, 0, 0, found, UNNAMED_BYTES, &done), 0);
		assert_memory_equal(data, found, UNNAMED_BYTES);
		assert_int_equal(disks_scrub(&d), 0); /* and the rows fit */
		disks_unmount_fs(&d, dev, true);
		disks_free(&d);
	}
	free(data);
	free(found);
}

/* What rots of space that is reserved and has no contents is nobody's: a scrub makes parity of it, and the next one finds nothing. What is written there then is protected. */
static void a_scrub_knows_that_reserved_space_has_no_contents(void **state)
{
	uint8_t *data = rig_memory(UNNAMED_BYTES, 33), *found = rig_memory(UNNAMED_BYTES, 34);

	(void)state;
	for (uint32_t l = 0; l < 3; l++) {
		const uint32_t all = (1u << levels[l].disks) - 1;
		uint64_t ino, done = 0;
		struct g4_dev *dev;
		struct disks d;
		make_level(&d, l, G4_CHECKSUM_CRC32C, &dev);
		assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, "reserved", G4_S_IFREG | 0644, &ino), 0);
		assert_int_equal(op_fallocate(&d.rig, ino, 0, 0, 12 * G4_MIB), 0);
		assert_int_equal(op_fsync(&d.rig, ino), 0);
		disks_unmount_fs(&d, dev, true);
		for (uint32_t bad = 0; bad < levels[l].parity; bad++)
			disks_rot(&d, 1 + bad);
		disks_mount_fs(&d, all, &dev);
		assert_int_equal(disks_scrub(&d), 0);
		assert_int_equal(disks_scrub(&d), 0);
		for (uint64_t at = 0; at < 12 * G4_MIB; at += 3 * G4_MIB)
			assert_int_equal(op_write(&d.rig, ino, 0, at, data, UNNAMED_BYTES, &done), 0);
		disks_unmount_fs(&d, dev, true);
		disks_mount_fs(&d, all & ~(((1u << levels[l].parity) - 1) << 1), &dev);
		for (uint64_t at = 0; at < 12 * G4_MIB; at += 3 * G4_MIB) {
			assert_int_equal(op_read(&d.rig, ino, 0, at, found, UNNAMED_BYTES, &done), 0);
			assert_memory_equal(data, found, UNNAMED_BYTES);
		}
		disks_unmount_fs(&d, dev, true);
		disks_free(&d);
	}
	free(data);
	free(found);
}

/* Metadata that is in the journal alone: what lies in its place is nobody's, and may have rotted. A scrub has it brought home before it compares rows. */
static void a_scrub_knows_of_metadata_that_is_not_home(void **state)
{
	uint8_t *data = rig_memory(G4_PAGE_BYTES, 35), *found = rig_memory(G4_PAGE_BYTES, 36);

	(void)state;
	for (uint32_t l = 0; l < 3; l++) {
		const uint32_t all = (1u << levels[l].disks) - 1;
		uint64_t ino, done = 0;
		struct g4_dev *dev;
		struct disks d;
		make_level(&d, l, G4_CHECKSUM_BLAKE3, &dev);
		assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0644, &ino), 0);
		for (uint64_t at = 0; at < 24; at++) {
			assert_int_equal(op_write(&d.rig, ino, 0, at * 2 * G4_MIB, data, G4_PAGE_BYTES, &done), 0);
			assert_int_equal(op_sync(&d.rig), 0);
		}
		settle(d.rig.wg, dev);
		disks_rot(&d, 1);
		assert_int_equal(disks_scrub(&d), 0);
		disks_unmount_fs(&d, dev, true);
		disks_mount_fs(&d, all & ~2u, &dev);
		for (uint64_t at = 0; at < 24; at++) {
			assert_int_equal(op_read(&d.rig, ino, 0, at * 2 * G4_MIB, found, G4_PAGE_BYTES, &done), 0);
			assert_memory_equal(data, found, G4_PAGE_BYTES);
		}
		disks_unmount_fs(&d, dev, true);
		disks_free(&d);
	}
	free(data);
	free(found);
}

/* Two pages of these contents that are columns of one row: they lie at the same place of two disks. *at: where. */
static void find_row(struct disks *d, const uint8_t *data, uint64_t bytes, uint32_t on[2], uint64_t *at)
{
	for (*at = 4 * G4_MIB; *at < d->bytes[0]; *at += G4_PAGE_BYTES) {
		uint32_t found = 0;
		for (uint32_t n = 0; n < d->count && found < 2; n++)
			for (uint64_t page = 0; page < bytes; page += G4_PAGE_BYTES)
				if (memcmp(d->memory[n] + *at, data + page, G4_PAGE_BYTES) == 0) {
					on[found++] = n;
					break;
				}
		if (found == 2)
			return;
	}
	fail_msg("no row has two pages of the contents");
}

/*
 * One parity and contents without sums: nothing says whether these or parity has rotted. Scrubs tell it, each of them, and write none
 * of it.
 */
static void a_row_of_which_nobody_knows_is_told_and_kept(void **state)
{
	uint8_t *data = rig_memory(UNNAMED_BYTES, 43), *found = rig_memory(UNNAMED_BYTES, 44), rotten[G4_PAGE_BYTES];
	uint64_t ino, at, done = 0;
	struct g4_dev *dev;
	uint32_t on[2];
	struct disks d;
	char *text;

	(void)state;
	disks_make(&d, 3, NULL);
	disks_format_rows(&d, 1, G4_CHECKSUM_NONE);
	disks_mount_fs(&d, 7, &dev);
	assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_write(&d.rig, ino, 0, 0, data, UNNAMED_BYTES, &done), 0);
	disks_unmount_fs(&d, dev, true);
	find_row(&d, data, UNNAMED_BYTES, on, &at);
	for (uint32_t i = 0; i < G4_PAGE_BYTES; i++)
		rotten[i] = d.memory[on[0]][at + i] ^ d.memory[on[1]][at + i];
	uint8_t *parity =
		d.memory[3 - on[0] - on[1]]; /* of the disk that is neither, which may have the row elsewhere */
	for (uint64_t left = d.bytes[0]; memcmp(parity, rotten, G4_PAGE_BYTES) != 0; left -= G4_PAGE_BYTES) {
		assert_true(left > G4_PAGE_BYTES);
		parity += G4_PAGE_BYTES;
	}
	parity[99] ^= 4;
	memcpy(rotten, parity, G4_PAGE_BYTES);
	for (uint32_t round = 0; round < 2; round++) {
		snprintf(d.rig.name, sizeof(d.rig.name), "%s", disks_name_of(&d, 7));
		rig_fsck_data(&d.rig, 2, &text);
		assert_non_null(strstr(text, "do not fit together"));
		free(text);
		disks_mount_fs(&d, 7, &dev);
		assert_int_equal(disks_scrub(&d), 1);
		assert_int_equal(op_read(&d.rig, ino, 0, 0, found, UNNAMED_BYTES, &done), 0);
		assert_memory_equal(data, found, UNNAMED_BYTES);
		for (uint32_t n = 0; n < d.count; n++)
			assert_int_equal(mended(dev, n), 0);
		disks_unmount_fs(&d, dev, true);
		assert_memory_equal(rotten, parity, G4_PAGE_BYTES);
	}
	free(data);
	free(found);
	disks_free(&d);
}

/*
 * One parity, a page that can not be read for a while, and another one of its row that has rotted: nothing tells what the first one was but its
 * sum. A scrub that meets that writes neither, and both come back when the page can be read.
 */
static void a_page_with_a_sum_is_not_made_up(void **state)
{
	uint8_t *data = rig_memory(UNNAMED_BYTES, 41), *found = rig_memory(UNNAMED_BYTES, 42), kept_page[G4_PAGE_BYTES];
	uint64_t ino, at, done = 0;
	struct g4_dev *dev;
	uint32_t on[2];
	struct faulty f;
	struct disks d;

	(void)state;
	disks_make(&d, 4, NULL);
	disks_format_rows(&d, 1, G4_CHECKSUM_CRC32C);
	disks_mount_fs(&d, 15, &dev);
	assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_write(&d.rig, ino, 0, 0, data, UNNAMED_BYTES, &done), 0);
	disks_unmount_fs(&d, dev, true);
	find_row(&d, data, UNNAMED_BYTES, on, &at);
	memcpy(kept_page, d.memory[on[0]] + at, G4_PAGE_BYTES);
	d.memory[on[1]][at + 7] ^= 1;
	disks_open_faulty(&d, &f);
	g4_dev_fault_set(f.fault[on[0]], &(struct g4_fault){.bad_at = at, .bad_bytes = G4_PAGE_BYTES});
	disks_begin_fs(&d, f.set, 0);
	assert_true(disks_scrub(&d) > 0);
	disks_unmount_fs(&d, f.set, true);
	assert_memory_equal(d.memory[on[0]] + at, kept_page, G4_PAGE_BYTES);
	disks_mount_fs(&d, 15, &dev);
	assert_int_equal(disks_scrub(&d), 0);
	assert_int_equal(op_read(&d.rig, ino, 0, 0, found, UNNAMED_BYTES, &done), 0);
	assert_memory_equal(data, found, UNNAMED_BYTES);
	disks_unmount_fs(&d, dev, true);
	free(data);
	free(found);
	disks_free(&d);
}

/* Where a sum tells what is right, two parities make up for a page that rots beside a missing disk, whichever is asked for, or beside another one. */
static void two_pages_of_a_row_may_be_lost(void **state)
{
	uint8_t *data = rig_memory(UNNAMED_BYTES, 43), *found = rig_memory(UNNAMED_BYTES, 44);

	(void)state;
	for (uint32_t rotten = 1; rotten < 4; rotten++) { /* bits: of the two pages */
		uint64_t ino, at, done = 0;
		struct g4_dev *dev;
		uint32_t on[2];
		uint8_t was[2];
		struct disks d;
		disks_make(&d, 4, NULL);
		disks_format_rows(&d, 2, G4_CHECKSUM_CRC32C);
		disks_mount_fs(&d, 15, &dev);
		assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0644, &ino), 0);
		assert_int_equal(op_write(&d.rig, ino, 0, 0, data, UNNAMED_BYTES, &done), 0);
		disks_unmount_fs(&d, dev, true);
		find_row(&d, data, UNNAMED_BYTES, on, &at);
		uint32_t there = 15;
		for (uint32_t n = 0; n < 2; n++) {
			was[n] = d.memory[on[n]][at + 9 + n];
			if (rotten >> n & 1)
				d.memory[on[n]][at + 9 + n] ^= 4;
			else
				there &= ~(1u << on[n]);
		}
		assert_int_equal(disks_try_open(&d, there, true, 0, &dev), 0);
		disks_begin_fs(&d, dev, 0);
		assert_int_equal(op_read(&d.rig, ino, 0, 0, found, UNNAMED_BYTES, &done), 0);
		assert_memory_equal(data, found, UNNAMED_BYTES);
		disks_unmount_fs(&d, dev, true);
		for (uint32_t n = 0; n < 2; n++) /* and what rotted was written back */
			assert_int_equal(d.memory[on[n]][at + 9 + n], was[n]);
		disks_free(&d);
	}
	free(data);
	free(found);
}

/* Contents without a sum: with two parities the row tells. */
static void a_row_with_two_parities_tells_what_rotted(void **state)
{
	struct rows r;

	(void)state;
	make_rows(&r, 5, 2);
	for (uint32_t n = 0; n < PAGES; n++)
		put_page(&r, n, 1);
	flush_rows(&r);
	for (uint32_t n = 5; n < PAGES; n += EVERY)
		rot_page(&r, n, 1);
	struct g4_io io = {.op = G4_IO_CHECK, .offset_bytes = 0, .discard_bytes = g4_dev_props(r.dev)->size_bytes};
	g4_dev_submit(r.wg, r.dev, &io);
	assert_int_equal(g4_dev_wait(r.wg, r.dev, &io), 0);
	for (uint32_t n = 0; n < PAGES; n++) {
		assert_int_equal(get_version(&r, n, 0), 0);
		rig_pattern(r.page, 1000 * n + 1, G4_PAGE_BYTES);
		assert_memory_equal(r.page, r.found, G4_PAGE_BYTES);
		expect_remade(&r, n, 1, "compared");
	}
	free_rows(&r);
}

/* The first rows that have pages. */
static int compare(struct rows *r)
{
	struct g4_io io = {.op = G4_IO_CHECK, .offset_bytes = BASE - 4 * ROWS_STRIPE, .discard_bytes = 8 * ROWS_STRIPE};

	g4_dev_submit(r->wg, r->dev, &io);
	return g4_dev_wait(r->wg, r->dev, &io);
}

/* An order about rows; the answer in *order. */
static int ask_rows(struct rows *r, uint32_t op, struct g4_dev_order *order)
{
	order->op = op;
	return g4_dev_order(r->wg, r->dev, order);
}

/* Has it noted what would have to be known of the row of a page that does not fit: that page, and one beside it. */
static void ask_for_row(struct rows *r, uint32_t number, uint64_t asked[2])
{
	struct g4_dev_order order = {.disk = G4_ROWS_ASK_BEGIN};

	assert_int_equal(ask_rows(r, G4_ORDER_ROWS_ASK, &order), 0);
	assert_int_equal(compare(r), -G4_E_PARITY);
	for (uint64_t n = 0; n < 2; n++) {
		order = (struct g4_dev_order){.done = n};
		assert_int_equal(ask_rows(r, G4_ORDER_ROWS_NEXT, &order), 0);
		asked[n] = order.bytes;
	}
	assert_true(asked[0] < asked[1] &&
		    (asked[0] == BASE + number * G4_PAGE_BYTES || asked[1] == BASE + number * G4_PAGE_BYTES));
	order = (struct g4_dev_order){.done = 2};
	assert_int_equal(ask_rows(r, G4_ORDER_ROWS_NEXT, &order), -G4_E_NOENT);
}

static int tell_page(struct rows *r, uint64_t address)
{
	rig_pattern(r->page, 1000 * ((address - BASE) / G4_PAGE_BYTES) + 1, G4_PAGE_BYTES);
	struct g4_dev_order order = {.bytes = address, .all = g4_space_page_print(address, r->page)};
	return ask_rows(r, G4_ORDER_ROWS_TELL, &order);
}

/* One parity: who knows what a page is to hold has it written again. What was told of a page is not known any more when it is written. */
static void a_row_is_mended_by_what_is_told_of_it(void **state)
{
	uint64_t asked[2];
	struct rows r;

	(void)state;
	make_rows(&r, 3, 1);
	for (uint32_t n = 0; n < PAGES; n++)
		put_page(&r, n, 1);
	flush_rows(&r);
	rot_page(&r, 5, 1);
	ask_for_row(&r, 5, asked);
	assert_int_equal(tell_page(&r, BASE + 6 * G4_PAGE_BYTES), -G4_E_NOENT); /* which was not asked for */
	assert_int_equal(compare(&r), -G4_E_PARITY);
	assert_int_equal(tell_page(&r, BASE + 5 * G4_PAGE_BYTES), 0);
	assert_int_equal(compare(&r), 0);
	(void)find_page(&r, 5, 1);
	expect_remade(&r, 5, 1, "told");

	/* nobody's: parity is made of whatever lies there */
	rot_page(&r, 5, 1);
	ask_for_row(&r, 5, asked);
	for (uint32_t n = 0; n < 2; n++) {
		struct g4_dev_order order = {.bytes = asked[n], .all = G4_PAGE_IS_FREE};
		assert_int_equal(compare(&r), -G4_E_PARITY);
		if (asked[n] == BASE + 5 * G4_PAGE_BYTES)
			assert_int_equal(ask_rows(&r, G4_ORDER_ROWS_TELL, &order), 0);
		else
			assert_int_equal(tell_page(&r, asked[n]), 0);
	}
	assert_int_equal(compare(&r), 0);

	/* a write that the disk has lost, behind what was told: parity alone has what was written */
	put_page(&r, 5, 1);
	flush_rows(&r);
	rot_page(&r, 5, 1);
	ask_for_row(&r, 5, asked);
	assert_int_equal(tell_page(&r, asked[0]), 0);
	assert_int_equal(tell_page(&r, asked[1]), 0);
	assert_int_equal(compare(&r), 0);
	put_page(&r, 5, 2);
	flush_rows(&r);
	uint8_t *const there = find_page(&r, 5, 2);
	rig_pattern(there, 1000 * 5 + 1, G4_PAGE_BYTES);
	assert_int_equal(compare(&r), -G4_E_PARITY);
	expect_remade(&r, 5, 2, "written since");
	free_rows(&r);
}

/* A page that is verified goes where it lies, as readers have it done. */
static int mend_page(struct rows *r, uint32_t number, uint32_t version)
{
	struct g4_iov iov = {r->page, G4_PAGE_BYTES};
	struct g4_io io = {.op = G4_IO_WRITE,
			   .flags = G4_IO_COPY(0),
			   .offset_bytes = BASE + number * G4_PAGE_BYTES,
			   .iov = &iov,
			   .iov_count = 1};

	make_page(r, number, version);
	g4_dev_submit(r->wg, r->dev, &io);
	return g4_dev_wait(r->wg, r->dev, &io);
}

/* Whether one of the versions of a page is it. */
static bool has_version(struct rows *r, uint32_t number, uint32_t version)
{
	const uint32_t versions = r->copies + g4_dev_props(r->dev)->remakes;

	for (uint32_t n = 0; n < versions; n++) {
		make_page(r, number, version);
		if (get_version(r, number, n) == 0 && memcmp(r->found, r->page, G4_PAGE_BYTES) == 0)
			return true;
	}
	return false;
}

/*
 * `written`: to the page that the missing disk has, before the one beside it rots (`late`) or behind that. `metadata`, bits: the page that rots is; what is written is,
 * where there was none before. `there_still`: the disk is there, but for that page.
 */
static void mend_beside_a_missing_disk(uint32_t disks, uint32_t parity, bool written, bool late, uint32_t metadata,
				       bool there_still)
{
	const uint32_t beside = ROWS_STRIPE / G4_PAGE_BYTES; /* the same row, the next column */
	struct g4_fault faults[MOST_DISKS] = {{.cut_after_writes = 0}};
	struct g4_dev *fault[MOST_DISKS];
	struct rows r;

	make_rows(&r, disks, parity);
	for (uint32_t k = 0; k < 2; k++)
		r.tags[k] = (metadata >> k & 1) *
			    g4_superblock_tag((const struct g4_superblock *)(const void *)(r.d.memory[0] +
											   G4_SUPERBLOCK_ADDRESS));
	for (uint32_t n = 0; n < PAGES; n++)
		put_page(&r, n, 1);
	flush_rows(&r);
	uint32_t lost = 0;
	const uint8_t *there = find_page(&r, 1 + beside, 1);
	while (there < r.d.memory[lost] || there >= r.d.memory[lost] + r.d.bytes[lost])
		lost++;
	g4_dev_close(r.dev);
	assert_int_equal(assemble_rows(&r, there_still ? 0 : 1u << lost, fault, faults), 0);
	faults[lost].bad_at = (uint64_t)(there - r.d.memory[lost]);
	faults[lost].bad_bytes = G4_PAGE_BYTES;
	if (there_still)
		g4_dev_fault_set(fault[lost], &faults[lost]);
	if (!late)
		rot_page(&r, 1, 1);
	if (written) {
		put_page(&r, 1 + beside, 2);
		flush_rows(&r);
	}
	if (late)
		rot_page(&r, 1, 1);
	faults[lost].bad_bytes = 0;
	if (there_still)
		g4_dev_fault_set(fault[lost], &faults[lost]);
	assert_true(has_version(&r, 1, 1));
	assert_true(has_version(&r, 1 + beside, 1 + written));
	assert_int_equal(mend_page(&r, 1, 1), 0);
	g4_dev_close(r.dev); /* now it is in its place */
	(void)find_page(&r, 1, 1);
	assert_int_equal(assemble_rows(&r, 1u << lost, fault, faults), 0);
	assert_true(has_version(&r, 1, 1));
	assert_true(has_version(&r, 1 + beside, 1 + written));
	if (metadata & 1)
		expect_remade(&r, 1 + beside, 1 + written, "mended");
	free_rows(&r);
}

/*
 * A page that rots beside a missing disk, and what is written to that disk then: parity has it by the page that has rotted, or, of metadata, by what that was. That is
 * mended when it is read, and what was written is there all the same.
 */
static void mending_a_page_beside_a_missing_disk_loses_nothing_of_that(void **state)
{
	(void)state;
	for (uint32_t l = 2; l < LEVELS; l++)
		for (uint32_t kind = 0; kind < 16; kind++)
			mend_beside_a_missing_disk(levels[l].disks, levels[l].parity, kind & 1, kind & 2, kind >> 2,
						   false);
}

/* The same where the disk is there, and a sector of it can not be read before that is written over; it is lost behind the mending. */
static void mending_metadata_beside_a_bad_sector_loses_nothing_of_what_is_written_there(void **state)
{
	(void)state;
	for (uint32_t l = 2; l < LEVELS; l++)
		for (uint32_t metadata = 1; metadata <= 3; metadata += 2)
			mend_beside_a_missing_disk(levels[l].disks, levels[l].parity, true, false, metadata, true);
}

/* What all parities make of a page is no good version of it if it had rotted before it was written: who knows it is asked. */
static void what_parities_make_of_a_page_is_not_believed_unasked(void **state)
{
	struct g4_dev_order order = {.disk = G4_ROWS_ASK_BEGIN};
	struct rows r;

	(void)state;
	make_rows(&r, 5, 2);
	for (uint32_t n = 0; n < PAGES; n++)
		put_page(&r, n, 1);
	flush_rows(&r);
	rot_page(&r, 5, 1); /* nobody's now, and */
	put_page(&r, 5, 2); /* taken */
	assert_int_equal(g4_dev_flush(r.wg, r.dev), 0);
	assert_int_equal(ask_rows(&r, G4_ORDER_ROWS_ASK, &order),
			 0); /* which has what was held put in its place, too */
	(void)find_page(&r, 5, 2);
	assert_int_equal(compare(&r), -G4_E_PARITY);
	(void)find_page(&r, 5, 2);
	for (uint64_t n = 0;; n++) {
		order = (struct g4_dev_order){.done = n};
		if (ask_rows(&r, G4_ORDER_ROWS_NEXT, &order) < 0)
			break;
		const uint32_t number = (uint32_t)((order.bytes - BASE) / G4_PAGE_BYTES);
		rig_pattern(r.page, 1000 * number + (number == 5 ? 2 : 1), G4_PAGE_BYTES);
		const bool put = order.bytes >= BASE && number < PAGES;
		order.all = put ? g4_space_page_print(order.bytes, r.page) : G4_PAGE_IS_FREE;
		assert_int_equal(ask_rows(&r, G4_ORDER_ROWS_TELL, &order), 0);
	}
	assert_int_equal(compare(&r), 0);
	(void)find_page(&r, 5, 2);
	for (uint32_t n = 0; n < PAGES; n++)
		expect_remade(&r, n, n == 5 ? 2 : 1, "told");
	free_rows(&r);
}

/* A scrub that ends with the mount while it goes through the tree for rows that do not fit begins with the rows once more. */
static void a_scrub_that_was_interrupted_mends_rows(void **state)
{
	struct g4_cmd start = {.op = G4_CMD_JOB_START, .kind = G4_JOB_SCRUB};
	struct g4_dev *dev;
	struct disks d;

	(void)state;
	disks_make(&d, 3, NULL);
	disks_format_rows(&d, 1, G4_CHECKSUM_CRC32C);
	disks_mount_fs(&d, 7, &dev);
	disks_populate(&d);
	disks_unmount_fs(&d, dev, true);
	rot_rows(&d, 1);
	disks_mount_fs(&d, 7, &dev);
	assert_int_equal(g4_execute(d.rig.wg, d.rig.fs, &start), 0);
	while (!d.rig.fs->jobs.scrub.again)
		assert_int_equal(g4_jobs_serve(d.rig.wg, d.rig.fs, true), 0);
	disks_unmount_fs(&d, dev, true);
	disks_mount_fs(&d, 7, &dev);
	uint32_t rounds = 0;
	while (disks_newest_job(&d)->state == G4_JOB_RUNNING) {
		assert_int_equal(g4_jobs_serve(d.rig.wg, d.rig.fs, true), 0);
		rounds |= d.rig.fs->jobs.scrub.again;
	}
	assert_int_equal(disks_newest_job(&d)->state, G4_JOB_DONE);
	assert_int_equal(disks_newest_job(&d)->errors, 0);
	assert_true(rounds);
	disks_unmount_fs(&d, dev, true);
	disks_expect_clean(&d, 7);
	disks_expect_clean(&d, 5);
	disks_free(&d);
}

/* ---- somebody takes a page while a scrub tells that it is nobody's ---- */

#define TAKE_BYTES (UINT64_C(64) << 10)
#define TAKE_MOST 1024u

static struct {
	struct disks *d;
	struct g4_wg *wg; /* of the writer, which the scrub's step calls */
	const struct g4_dev_ops *ops;
	uint32_t bad; /* of this disk pages have rotted */
	uint64_t ino, address;
	uint32_t count; /* of parts, so many were written */
} taker;

static void take_until_used(uint64_t address)
{
	struct rig *rig = &taker.d->rig;
	struct g4_wg *const wg = rig->wg;
	uint8_t *data = rig_memory(TAKE_BYTES, 52);
	uint64_t done = 0;

	rig->wg = taker.wg;
	while (g4_alloc_count(rig->wg, &rig->fs->alloc, address / G4_PAGE_BYTES, 1, false) == 1) {
		assert_true(taker.count < TAKE_MOST);
		assert_int_equal(op_write(rig, taker.ino, 0, taker.count++ * TAKE_BYTES, data, TAKE_BYTES, &done), 0);
		assert_int_equal(done, TAKE_BYTES);
		assert_int_equal(op_fsync(rig, taker.ino), 0);
	}
	rig->wg = wg;
	free(data);
}

/* What the set is told of the first page that has rotted comes after another writer has taken it. */
static int order_behind_a_writer(struct g4_wg *wg, struct g4_dev *dev, struct g4_dev_order *order)
{
	const struct g4_chunk_map map = map_of(taker.d);
	struct g4_piece piece;

	if (order->op == G4_ORDER_ROWS_TELL && order->all == G4_PAGE_IS_FREE && taker.address == 0) {
		g4_chunk_translate(&map, order->bytes, G4_PAGE_BYTES, &piece);
		if (piece.parity > 0 && piece.disks[0] == taker.bad) {
			taker.address = order->bytes;
			take_until_used(order->bytes);
		}
	}
	return taker.ops->order(wg, dev, order);
}

/* Two parities: what they make of a page that rotted while it was nobody's is not written over what somebody has there since. */
static void a_page_that_is_taken_while_it_is_told_as_free_is_kept(void **state)
{
	uint8_t *data = rig_memory(UNNAMED_BYTES, 51), *again = rig_memory(TAKE_BYTES, 52),
		*found = rig_memory(TAKE_BYTES, 0);
	struct g4_dev_ops ops;
	struct g4_dev *dev;
	uint64_t ino, done = 0;
	uint32_t rotten = 0;
	struct disks d;

	(void)state;
	memset(&taker, 0, sizeof(taker));
	disks_make(&d, 5, NULL);
	disks_format_rows(&d, 2, G4_CHECKSUM_CRC32C);
	disks_mount_fs(&d, 31, &dev);
	assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0644, &ino), 0);
	assert_int_equal(op_write(&d.rig, ino, 0, 0, data, UNNAMED_BYTES, &done), 0);
	assert_int_equal(op_fsync(&d.rig, ino), 0);
	assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, "g", G4_S_IFREG | 0644, &taker.ino), 0);
	assert_int_equal(op_unlink(&d.rig, G4_NODE_ROOT, "f"), 0);
	disks_unmount_fs(&d, dev, true);
	for (uint64_t at = 4 * G4_MIB; at < d.bytes[1]; at += G4_PAGE_BYTES)
		for (uint64_t page = 0; page < UNNAMED_BYTES; page += G4_PAGE_BYTES)
			if (memcmp(d.memory[1] + at, data + page, G4_PAGE_BYTES) == 0) {
				d.memory[1][at + 9] ^= 1;
				rotten++;
			}
	assert_true(rotten > 0);
	disks_mount_fs(&d, 31, &dev);
	taker.d = &d;
	taker.wg = g4_wg_create(1);
	taker.bad = 1;
	taker.ops = dev->ops;
	ops = *dev->ops;
	ops.order = order_behind_a_writer;
	dev->ops = &ops;
	(void)disks_scrub(&d); /* of that page it may not know */
	dev->ops = taker.ops;
	assert_true(taker.address != 0 && taker.count > 0);
	disks_unmount_fs(&d, dev, true);
	disks_mount_fs(&d, 31, &dev);
	for (uint32_t n = 0; n < taker.count; n++) {
		assert_int_equal(op_read(&d.rig, taker.ino, 0, n * TAKE_BYTES, found, TAKE_BYTES, &done), 0);
		assert_int_equal(done, TAKE_BYTES);
		assert_memory_equal(again, found, TAKE_BYTES);
	}
	assert_int_equal(disks_scrub(&d), 0);
	disks_unmount_fs(&d, dev, true);
	disks_expect_clean(&d, 31);
	g4_wg_destroy(taker.wg);
	disks_free(&d);
	free(data);
	free(again);
	free(found);
}

/* Two parities, a page that can not be read, and one of its row that has rotted: what is made of them is neither, and is not written. */
static void a_column_that_can_not_be_read_is_not_made_up_of_one_that_rotted(void **state)
{
	uint32_t told = 0;

	(void)state;
	for (uint32_t at = 1; at < 40; at++) {
		struct g4_fault faults[MOST_DISKS] = {{.cut_after_writes = 0}};
		struct g4_dev *fault[MOST_DISKS];
		struct rows r;
		make_rows(&r, 5, 2);
		g4_dev_close(r.dev);
		assert_int_equal(assemble_rows(&r, 0, fault, NULL), 0);
		r.copies = g4_dev_props(r.dev)->copies;
		r.parity = 2;
		for (uint32_t n = 0; n < PAGES; n++)
			put_page(&r, n, 1);
		flush_rows(&r);
		for (uint32_t n = 0; n < r.d.count; n++)
			assert_int_equal(g4_dev_flush(r.wg, fault[n]), 0);
		rot_page(&r, 5, 1);
		/* on every disk: at the comparison of the rows, then of the row's pages, one of which is the one that rotted */
		faults[at % 5].fail_read_at = 1 + at / 5;
		g4_dev_fault_set(fault[at % 5], &faults[at % 5]);
		const int rc = compare(&r);
		assert_true(rc == 0 || rc == -G4_E_PARITY);
		told += rc != 0;
		faults[at % 5].fail_read_at = 0;
		g4_dev_fault_set(fault[at % 5], &faults[at % 5]);
		for (uint32_t n = 0; n < PAGES; n++)
			if (n != 5) {
				assert_int_equal(get_version(&r, n, 0), 0);
				rig_pattern(r.page, 1000 * n + 1, G4_PAGE_BYTES);
				assert_memory_equal(r.page, r.found, G4_PAGE_BYTES);
			}
		free_rows(&r);
	}
	assert_true(told > 0);
}

/* One page of each row is held; then another comes, durably, and makes the row whole. */
static void a_write_that_completes_a_row_durably_takes_what_was_held_with_it(void **state)
{
	struct g4_dev *fault[MOST_DISKS];
	struct rows r;

	(void)state;
	make_rows(&r, 3, 1);
	for (uint32_t n = 0; n < PAGES; n++)
		put_page(&r, n, 1);
	g4_dev_close(r.dev);
	assert_int_equal(assemble_rows(&r, 0, fault, NULL), 0);
	for (uint32_t n = 0; n < PAGES; n++) { /* stripes of two times four pages */
		rig_pattern(r.page, 1000 * n + 2, G4_PAGE_BYTES);
		assert_int_equal(g4_dev_write(r.wg, r.dev, BASE + n * G4_PAGE_BYTES, r.page, G4_PAGE_BYTES,
					      n % 8 < 4 ? 0 : G4_IO_FUA),
				 0);
	}
	for (uint32_t n = 0; n < 3; n++)
		assert_int_equal(g4_dev_fault_cut(fault[n]), 0);
	crash_rows(&r);
	open_rows(&r);
	for (uint32_t n = 0; n < PAGES; n++)
		expect_read(&r, n, 2, 0);
	free_rows(&r);
}

/* Half a stripe is in the log, and on its way to its place; then a whole one is written that the log has a page of, so it is emptied. */
static void what_the_log_forgets_is_in_place(void **state)
{
	uint8_t *stripe = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, STRIPE_PAGES * G4_PAGE_BYTES);
	struct g4_dev *fault[MOST_DISKS];
	struct rows r;

	(void)state;
	make_rows(&r, 3, 1);
	for (uint32_t n = 0; n < 2 * STRIPE_PAGES; n++)
		put_page(&r, n, 1);
	g4_dev_close(r.dev);
	assert_int_equal(assemble_rows(&r, 0, fault, NULL), 0);
	for (uint32_t n = 0; n < STRIPE_PAGES / 2; n++)
		put_page(&r, n, 2);
	put_page(&r, STRIPE_PAGES, 2);
	assert_int_equal(g4_dev_flush(r.wg, r.dev), 0);
	for (uint32_t n = 0; n < STRIPE_PAGES; n++)
		rig_pattern(stripe + n * G4_PAGE_BYTES, 1000 * (STRIPE_PAGES + n) + 3, G4_PAGE_BYTES);
	assert_int_equal(g4_dev_write(r.wg, r.dev, BASE + STRIPE_PAGES * G4_PAGE_BYTES, stripe,
				      STRIPE_PAGES * G4_PAGE_BYTES, G4_IO_FUA),
			 0);
	for (uint32_t n = 0; n < 3; n++)
		assert_int_equal(g4_dev_fault_cut(fault[n]), 0);
	crash_rows(&r);
	open_rows(&r);
	for (uint32_t n = 0; n < 2 * STRIPE_PAGES; n++)
		expect_read(&r, n, n < STRIPE_PAGES / 2 ? 2 : n < STRIPE_PAGES ? 1 : 3, 0);
	free_rows(&r);
	free(stripe);
}

/*
 * An entry is written beside a record of the journal, and before a flush a stripe is written as a whole: its mark comes behind. However
 * the power leaves both, all rows fit together.
 */
static void a_mark_behind_an_entry_that_is_not_durable_is_found(void **state)
{
	uint8_t *stripe = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, STRIPE_PAGES * G4_PAGE_BYTES);

	(void)state;
	rig_pattern(stripe, 77, STRIPE_PAGES * G4_PAGE_BYTES);
	for (uint64_t seed = 1; seed <= 24; seed++) {
		const struct g4_fault fault_of = {.seed = seed};
		struct g4_dev *fault[MOST_DISKS];
		struct rows r;
		make_rows(&r, 3, 1);
		for (uint32_t n = 0; n < 2 * STRIPE_PAGES; n++)
			put_page(&r, n, 1);
		g4_dev_close(r.dev);
		assert_int_equal(assemble_rows(&r, 0, fault, NULL), 0);
		put_page(&r, 0, 2);
		assert_int_equal(
			g4_dev_write(r.wg, r.dev, G4_MIB / 2, r.page, G4_PAGE_BYTES, G4_IO_CLASS(G4_CLASS_JOURNAL)), 0);
		assert_int_equal(g4_dev_write(r.wg, r.dev, BASE + STRIPE_PAGES * G4_PAGE_BYTES, stripe,
					      STRIPE_PAGES * G4_PAGE_BYTES, 0),
				 0);
		for (uint32_t n = 0; n < 3; n++) {
			g4_dev_fault_set(fault[n], &fault_of);
			assert_int_equal(g4_dev_fault_cut(fault[n]), 0);
		}
		crash_rows(&r);
		open_rows(&r);
		assert_int_equal(compare(&r), 0);
		free_rows(&r);
	}
	free(stripe);
}

/*
 * On its way from the log to its place one page of a row fails, on a set that lacks a disk. The log has the row, and nothing of what is in
 * place now is taken for what it was before: pages of the disk that is not there are made of it.
 */
static void a_row_that_is_half_in_place_is_not_logged_again(void **state)
{
	uint32_t stuck = 0;

	(void)state;
	for (uint32_t disk = 0; disk < 3; disk++)
		for (uint32_t number = 0; number < 24; number++) {
			const struct g4_fault fails = {.fail_write_at = 1}, none = {.fail_write_at = 0};
			struct g4_dev *fault[MOST_DISKS];
			struct rows r;
			make_rows(&r, 4, 1);
			for (uint32_t n = 0; n < PAGES; n++)
				put_page(&r, n, 1);
			g4_dev_close(r.dev);
			assert_int_equal(assemble_rows(&r, 1u << 3, fault, NULL), 0);
			put_page(&r, number, 2);
			assert_int_equal(g4_dev_flush(r.wg, r.dev), 0);
			g4_dev_fault_set(fault[disk], &fails);
			(void)compare(&r); /* it goes to its place */
			g4_dev_fault_set(fault[disk], &none);
			stuck += g4_dev_flush(r.wg, r.dev) == -G4_E_IO;
			(void)g4_dev_flush(r.wg, r.dev);
			for (uint32_t n = 0; n < PAGES; n++) { /* what can not be told is not made up */
				const int rc =
					g4_dev_read(r.wg, r.dev, BASE + n * G4_PAGE_BYTES, r.found, G4_PAGE_BYTES);
				rig_pattern(r.page, 1000 * n + (n == number ? 2 : 1), G4_PAGE_BYTES);
				if (rc != -G4_E_IO)
					assert_memory_equal(r.found, r.page, G4_PAGE_BYTES);
			}
			g4_dev_close(r.dev);
			assert_int_equal(assemble_rows(&r, 1u << 3, fault, NULL), 0);
			for (uint32_t n = 0; n < PAGES; n++)
				expect_read(&r, n, n == number ? 2 : 1, 1u << 3);
			free_rows(&r);
		}
	assert_true(stuck > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_write_beside_a_rotten_page_keeps_what_parity_has_of_it),
		cmocka_unit_test(recovery_takes_no_rot_into_parity),
		cmocka_unit_test(recovery_makes_parity_of_rows_that_were_being_written),
		cmocka_unit_test(parity_is_right_whatever_the_disks_had),
		cmocka_unit_test(damaged_pages_of_the_log_come_from_another_disk),
		cmocka_unit_test(any_read_of_the_log_may_fail),
		cmocka_unit_test(a_log_may_fail_on_a_set_that_lacks_a_disk),
		cmocka_unit_test(what_is_held_back_is_what_is_read),
		cmocka_unit_test(a_lookup_has_a_rotten_slab_written_back),
		cmocka_unit_test(fsck_and_scrub_find_parity_that_rotted),
		cmocka_unit_test(a_row_of_which_nobody_knows_is_told_and_kept),
		cmocka_unit_test(a_row_is_mended_by_what_is_told_of_it),
		cmocka_unit_test(what_parities_make_of_a_page_is_not_believed_unasked),
		cmocka_unit_test(mending_a_page_beside_a_missing_disk_loses_nothing_of_that),
		cmocka_unit_test(mending_metadata_beside_a_bad_sector_loses_nothing_of_what_is_written_there),
		cmocka_unit_test(a_scrub_that_was_interrupted_mends_rows),
		cmocka_unit_test(a_page_that_is_taken_while_it_is_told_as_free_is_kept),
		cmocka_unit_test(a_row_with_two_parities_tells_what_rotted),
		cmocka_unit_test(a_scrub_mends_a_file_without_a_name_from_parity),
		cmocka_unit_test(a_scrub_knows_that_reserved_space_has_no_contents),
		cmocka_unit_test(a_scrub_knows_of_metadata_that_is_not_home),
		cmocka_unit_test(a_page_with_a_sum_is_not_made_up),
		cmocka_unit_test(two_pages_of_a_row_may_be_lost),
		cmocka_unit_test(a_column_that_can_not_be_read_is_not_made_up_of_one_that_rotted),
		cmocka_unit_test(a_write_that_completes_a_row_durably_takes_what_was_held_with_it),
		cmocka_unit_test(what_the_log_forgets_is_in_place),
		cmocka_unit_test(a_mark_behind_an_entry_that_is_not_durable_is_found),
		cmocka_unit_test(a_row_that_is_half_in_place_is_not_logged_again),
		cmocka_unit_test(an_inode_that_can_not_be_made_again_is_an_error),
		cmocka_unit_test(recovery_asks_parity_for_contents_that_rotted),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
