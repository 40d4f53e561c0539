/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of stripes that lanes keep (space/direct_kept.h): who writes large files asks the set for whole stripes alone, whatever a stripe's length is and
 * wherever calls end. What is kept is read, goes out before anybody needs it on disks, and is forgotten where somebody else writes.
 */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <sched.h>

#include "alloc/count.h"
#include "helping.h"
#include "rebuilding.h"

#include "dev/dev_ops_host.h"
#include "fs/fs.h"
#include "space/set_granted_host.h"
#include "space/set_rows_host.h"

#define EACH_BYTES (24 * G4_MIB)

static struct disks d;
static struct g4_dev *set;

static uint32_t all_of(void)
{
	return (1u << d.count) - 1;
}

static struct g4_kept *kept(void)
{
	return &d.rig.fs->space.direct.kept;
}

/* ------------------------------------------------------------------ what the set is asked for */

static const struct g4_dev_ops *own_ops;
static struct g4_dev_ops watched_ops;
static struct g4_direct_table
	table; /* as it was first, for the space's own becomes another one while requests are made */
static uint64_t grants, granted_bytes; /* atomic; since count_anew() */
static uint64_t granted_at;	       /* atomic: where the newest begins */
static uint64_t parts;		       /* atomic: writes to rows by way of the set */
static uint64_t reads;		       /* atomic: of rows */
static uint64_t flushes;	       /* atomic */
static uint32_t failing;	       /* atomic: writes to rows fail */

static void count_anew(void)
{
	g4_store64_rel(&grants, 0);
	g4_store64_rel(&granted_bytes, 0);
	g4_store64_rel(&parts, 0);
	g4_store64_rel(&reads, 0);
	g4_store64_rel(&flushes, 0);
}

/* False: it is to fail. */
static bool count(const struct g4_io *io)
{
	const struct g4_chunk_map map = {table.chunks, table.chunk_count};

	if ((io->op != G4_IO_WRITE && io->op != G4_IO_READ) || !g4_chunk_find(&map, io->offset_bytes)->parity)
		return true;
	g4_add64(io->op == G4_IO_WRITE ? &parts : &reads, 1);
	return io->op == G4_IO_READ || !g4_load32_acq(&failing);
}

static int watched_grant(struct g4_wg *wg, struct g4_dev *dev, uint64_t address, uint64_t bytes, uint32_t number)
{
	const int rc = own_ops->grant(wg, dev, address, bytes, number);

	if (rc == 0) {
		g4_add64(&grants, 1);
		g4_add64(&granted_bytes, bytes);
		g4_store64_rel(&granted_at, address);
	}
	return rc;
}

static void watched_submit(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *first)
{
	for (struct g4_io *io = first, *next; io; io = next) {
		next = io->next;
		io->next = NULL;
		if (count(io)) {
			own_ops->submit(wg, dev, io);
			continue;
		}
		io->result = -G4_E_IO;
		g4_store32_rel(&io->done, 1);
	}
}

static int watched_execute(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	return count(io) ? own_ops->execute(wg, dev, io) : -G4_E_IO;
}

static int watched_flush(struct g4_dev *dev)
{
	g4_add64(&flushes, 1);
	return own_ops->flush(dev);
}

static void watch(void)
{
	table = d.rig.fs->space.direct.table;
	own_ops = set->ops;
	watched_ops = *own_ops;
	watched_ops.grant = watched_grant;
	watched_ops.submit = watched_submit;
	watched_ops.execute = own_ops->execute ? watched_execute : NULL;
	watched_ops.flush = watched_flush;
	set->ops = &watched_ops;
	count_anew();
}

static void make(uint32_t disks, uint32_t parity, uint32_t algorithm)
{
	uint64_t sizes[MOST_DISKS];

	for (uint32_t n = 0; n < disks; n++)
		sizes[n] = EACH_BYTES;
	disks_make(&d, disks, sizes);
	disks_format_rows(&d, parity, algorithm);
	disks_mount_fs(&d, all_of(), &set);
	assert_true(g4_direct_is_open(&d.rig.fs->space.direct));
	watch();
}

static void expect_rows_fit(void)
{
	assert_int_equal(g4_space_check(d.rig.wg, &d.rig.fs->space, g4_page_address(0), g4_dev_props(set)->size_bytes),
			 0);
}

static void end(void)
{
	assert_int_equal(op_sync(&d.rig), 0);
	assert_int_equal(kept()->count, 0);
	expect_rows_fit();
	set->ops = own_ops;
	disks_unmount_fs(&d, set, true);
	disks_expect_clean(&d, all_of());
	disks_free(&d);
}

/* ------------------------------------------------------------------ files */

static uint64_t make_file(const char *name)
{
	uint64_t ino;

	assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &ino), 0);
	return ino;
}

static void write_file(uint64_t ino, const uint8_t *data, uint64_t bytes, uint64_t call)
{
	uint64_t done;

	for (uint64_t at = 0; at < bytes; at += done)
		assert_int_equal(op_write(&d.rig, ino, 0, at, data + at, g4_min64(call, bytes - at), &done), 0);
}

static void expect_file(struct rig *rig, uint64_t ino, const uint8_t *data, uint64_t bytes)
{
	uint8_t *found = (uint8_t *)malloc(bytes);
	uint64_t done;

	assert_int_equal(op_read(rig, ino, 0, 0, found, bytes, &done), 0);
	assert_int_equal(done, bytes);
	assert_memory_equal(found, data, bytes);
	free(found);
}

/* Written, and counted alone. Some may find room in the front, which has copies: they stay there, until one does not. */
static uint64_t make_in_rows(const char *name, const uint8_t *data, uint64_t bytes, uint64_t call)
{
	const struct g4_chunk_map map = {table.chunks, table.chunk_count};

	for (uint32_t n = 0; n < 8; n++) {
		struct g4_run run;
		char other[32];

		const uint64_t ino = make_file(name);
		assert_int_equal(op_sync(&d.rig), 0);
		count_anew();
		write_file(ino, data, bytes, call);
		rig_run_at(&d.rig, ino, 0, &run);
		if (g4_chunk_find(&map, g4_address_stored(run.address))->parity)
			return ino;
		snprintf(other, sizeof(other), "%s in front, %u", name, n);
		assert_int_equal(op_rename(&d.rig, G4_NODE_ROOT, name, G4_NODE_ROOT, other, 0), 0);
	}
	fail_msg("no file lies in rows");
	return 0;
}

static void a_large_file_leaves_parts_at_its_ends_alone(void **state)
{
	static const struct {
		uint32_t disks, parity;
	} levels[] = {{4, 1}, {6, 2}, {8, 1}};
	static const uint64_t calls[] = {16 * G4_MIB, G4_MIB, 2 * G4_MIB, 5 * G4_MIB / 4};
	const uint64_t bytes = 7 * G4_MIB;
	uint8_t *data = rig_memory(bytes, 11);

	(void)state;
	for (uint32_t l = 0; l < sizeof(levels) / sizeof(levels[0]); l++)
		for (uint32_t sums = 0; sums < 2; sums++) {
			char name[16];

			make(levels[l].disks, levels[l].parity, sums ? G4_CHECKSUM_BLAKE3 : G4_CHECKSUM_NONE);
			start_helpers(d.rig.fs);
			/* all of them of the first, and of others by turns */
			for (uint32_t c = l; c < sizeof(calls) / sizeof(calls[0]);
			     c += (uint32_t)g4_max64(l + UINT64_C(1), disks_every(2))) {
				snprintf(name, sizeof(name), "large%u", c);
				const uint64_t ino = make_in_rows(name, data, bytes, calls[c]);
				assert_int_equal(flushes, 0);
				assert_int_equal(parts, 0);
				const uint64_t batch = g4_min64(calls[c], sums ? 2 * G4_MIB : 16 * G4_MIB);
				/* where a call does not end with a batch there is one more */
				assert_in_range(grants, 1, bytes / batch + (batch < 2 * G4_MIB ? 8 : 1));
				assert_in_range(granted_bytes, bytes - 2 * 5 * 2 * ROWS_STRIPE, bytes);
				expect_file(&d.rig, ino, data, bytes);
				assert_int_equal(reads, 0);
				assert_int_equal(op_sync(&d.rig), 0);
				assert_in_range(parts, 0, 4); /* its ends, and pages of its map */
				expect_file(&d.rig, ino, data, bytes);
				assert_int_equal(op_unlink(&d.rig, G4_NODE_ROOT, name), 0);
			}
			stop_helpers(d.rig.fs);
			end();
		}
	free(data);
}

/* Pages in a row of which some lie behind a superblock's page, or in another chunk: there whole stripes end, and what a grant may have. */
static void a_row_of_pages_may_be_more_than_is_granted(void **state)
{
	const uint64_t bytes = 2 * G4_MIB;
	uint8_t *data = rig_memory(bytes, 11);

	(void)state;
	for (uint32_t at = 0; at < 3; at++) {
		struct g4_run run;

		make(4, 1, G4_CHECKSUM_NONE);
		uint64_t *const super = &d.rig.fs->space.direct.table.supers[1];
		const uint64_t ino = make_file("divided"), own = *super;
		write_file(ino, data, G4_MIB, G4_MIB);
		rig_run_at(&d.rig, ino, 0, &run);
		/* where the second half goes; not always where a stripe begins */
		*super = g4_address_stored(run.address) + G4_MIB + (120 + at * 5) * G4_PAGE_BYTES;
		assert_int_equal(op_write(&d.rig, ino, 0, G4_MIB, data + G4_MIB, G4_MIB, NULL), 0);
		rig_run_at(&d.rig, ino, bytes / G4_PAGE_BYTES - 1, &run);
		assert_in_range(*super, g4_address_stored(run.address) - G4_MIB, g4_address_stored(run.address));
		expect_file(&d.rig, ino, data, bytes);
		assert_int_equal(op_sync(&d.rig), 0);
		*super = own;
		expect_file(&d.rig, ino, data, bytes);
		end();
	}
	free(data);
}

/* What was synced is there, whichever disk is lost, when nobody unmounts. */
static void expect_survived(uint64_t ino, const uint8_t *data, uint64_t bytes)
{
	for (uint32_t lost = 0; lost <= d.count; lost++) { /* the last time none */
		static struct disks other;
		struct g4_dev *dev;

		disks_make(&other, d.count, d.bytes);
		for (uint32_t n = 0; n < d.count; n++)
			memcpy(other.memory[n], d.memory[n], d.bytes[n]);
		if (disks_try_open(&other, all_of() & ~(1u << lost), lost < d.count, 0, &dev) < 0)
			fail_msg("%s", other.message);
		disks_begin_fs(&other, dev, 0);
		expect_file(&other.rig, ino, data, bytes);
		disks_unmount_fs(&other, dev, true);
		disks_free(&other);
	}
}

static void what_was_synced_survives_a_kill(void **state)
{
	const uint64_t bytes = G4_MIB + 5 * G4_PAGE_BYTES;
	uint8_t *data = rig_memory(bytes, 1), *other = rig_memory(bytes, 2);

	(void)state;
	make(4, 1, G4_CHECKSUM_NONE);
	uint64_t first = 0;
	for (uint32_t n = 0; n < 16 && kept()->count == 0;
	     n++) { /* a commit between a write and our look leaves nothing */
		char name[16];
		snprintf(name, sizeof(name), "first-%u", n);
		first = make_file(name);
		write_file(first, data, bytes, G4_MIB);
	}
	assert_int_not_equal(kept()->count, 0);
	assert_int_equal(op_sync(&d.rig), 0);
	assert_int_equal(kept()->count, 0);
	expect_survived(first, data, bytes);
	/* files beside it, the first of which make its last stripe whole, as it would be */
	for (uint32_t n = 0; n < 4; n++) {
		char name[16];

		snprintf(name, sizeof(name), "beside%u", n);
		write_file(make_file(name), other, bytes, G4_MIB);
	}
	assert_int_not_equal(kept()->count, 0);
	expect_survived(first, data, bytes);
	free(data);
	free(other);
	end();
}

/* ------------------------------------------------------------------ the space itself */

#define PAGES 1536u /* 6 MiB of rows */

static uint64_t first_page; /* of them, where a stripe begins */
static uint8_t *model;	    /* what was written */

/* Nothing of a file is there, and a stripe begins there. */
static void choose_pages(void)
{
	const struct g4_chunk *chunk = &table.chunks[0];

	for (uint32_t n = 0; n < table.chunk_count; n++)
		if (table.chunks[n].parity && (!chunk->parity || table.chunks[n].bytes > chunk->bytes))
			chunk = &table.chunks[n];
	const uint64_t stripe = g4_chunk_stripe_data(chunk);
	uint64_t at = chunk->bytes / 2 / stripe * stripe;
	do {
		at += stripe;
		first_page = (chunk->address + at) / G4_PAGE_BYTES;
		assert_true(at + PAGES * G4_PAGE_BYTES <= chunk->bytes);
	} while (g4_alloc_count(d.rig.wg, &d.rig.fs->alloc, first_page, PAGES, false) < PAGES);
	model = rig_memory(PAGES * G4_PAGE_BYTES, 5);
	assert_int_equal(g4_space_write(d.rig.wg, &d.rig.fs->space, g4_page_address(first_page), model,
					PAGES * G4_PAGE_BYTES, 0),
			 0);
	assert_int_equal(g4_space_flush(d.rig.wg, &d.rig.fs->space), 0);
}

/* As store.c does. */
static void write_large(struct g4_wg *wg, uint64_t page, uint64_t pages)
{
	struct g4_space *space = &d.rig.fs->space;
	struct g4_direct_grant grant;
	uint8_t *from = model + page * G4_PAGE_BYTES;
	const struct g4_address address = g4_page_address(first_page + page);

	if (!g4_space_take_stripes(wg, space, address, pages * G4_PAGE_BYTES, 64 * G4_PAGE_BYTES, false, &grant)) {
		assert_int_equal(g4_space_write(wg, space, address, from, pages * G4_PAGE_BYTES, 0), 0);
		return;
	}
	bool done[2];
	for (uint32_t p = 0; p < 2; p++) {
		struct g4_iov iov = {from + (grant.parts[p].address - g4_address_stored(address)),
				     grant.parts[p].bytes};
		done[p] = grant.parts[p].bytes == 0 || g4_space_write_part(wg, space, &grant, p, &iov, 1);
	}
	struct g4_iov iov = {from + (grant.address - g4_address_stored(address)), grant.bytes};
	g4_space_write_stripes(wg, space, g4_address_from(grant.address), &iov, 1);
	g4_space_end_stripes(space, &grant);
	for (uint32_t p = 0; p < 2; p++)
		if (!done[p])
			assert_int_equal(g4_space_write(wg, space, g4_address_from(grant.parts[p].address),
							from + (grant.parts[p].address - g4_address_stored(address)),
							grant.parts[p].bytes, 0),
					 0);
}

static void expect_pages(struct g4_wg *wg, uint64_t page, uint64_t pages)
{
	uint8_t *found = rig_memory(pages * G4_PAGE_BYTES, 9);

	assert_int_equal(g4_space_read(wg, &d.rig.fs->space, g4_page_address(first_page + page), found,
				       pages * G4_PAGE_BYTES),
			 0);
	assert_memory_equal(found, model + page * G4_PAGE_BYTES, pages * G4_PAGE_BYTES);
	free(found);
}

/* What the set has, by itself. */
static void expect_stored(uint64_t page, uint64_t pages)
{
	uint8_t *found = rig_memory(pages * G4_PAGE_BYTES, 9);

	assert_int_equal(g4_dev_read(d.rig.wg, set, (first_page + page) * G4_PAGE_BYTES, found, pages * G4_PAGE_BYTES),
			 0);
	assert_memory_equal(found, model + page * G4_PAGE_BYTES, pages * G4_PAGE_BYTES);
	free(found);
}

static void change(uint64_t page, uint64_t pages, uint32_t seed)
{
	rig_pattern(model + page * G4_PAGE_BYTES, seed, pages * G4_PAGE_BYTES);
}

/* Behind all that asks the device for what is kept it is there: each turn is one of these. */
static void whoever_asks_the_device_finds_what_was_kept(void **state)
{
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 1);
	struct g4_space *space;

	(void)state;
	make(4, 1, G4_CHECKSUM_NONE);
	choose_pages();
	space = &d.rig.fs->space;
	for (uint32_t turn = 0; turn < 8; turn++) {
		const uint64_t at = 12 * 7 + 5, pages = 12 * 6; /* parts of 7 and 5 pages */
		const struct g4_address last = g4_page_address(first_page + at + pages - 1);

		change(at, pages, 100 + turn);
		count_anew();
		write_large(d.rig.wg, at, pages);
		assert_int_equal(grants, 1);
		assert_int_equal(parts, 0);
		assert_int_equal(kept()->count, 2);
		expect_pages(d.rig.wg, at - 5, pages + 9);
		assert_int_equal(reads, 0);
		switch (turn) {
		case 0:
			assert_int_equal(g4_space_flush(d.rig.wg, space), 0);
			assert_int_equal(parts, 2);
			break;
		case 1: /* a copy of a page: what lies elsewhere is kept still */
			assert_int_equal(g4_space_read_copy(d.rig.wg, space, 0, last, page, G4_PAGE_BYTES), 0);
			assert_memory_equal(page, model + (at + pages - 1) * G4_PAGE_BYTES, G4_PAGE_BYTES);
			assert_int_equal(kept()->count, 1);
			assert_int_equal(g4_space_read_copy(d.rig.wg, space, 0, g4_page_address(first_page + at), page,
							    G4_PAGE_BYTES),
					 0);
			assert_memory_equal(page, model + at * G4_PAGE_BYTES, G4_PAGE_BYTES);
			break;
		case 2:
			expect_rows_fit();
			break;
		case 3: /* an order, after which others read what it has lost */
			begin(&d, G4_DISK_OFFLINE, 1);
			assert_int_equal(kept()->count, 0);
			expect_pages(d.rig.wg, at - 5, pages + 9);
			change(at + 1, 3 * 12, 55); /* nothing is kept */
			write_large(d.rig.wg, at + 1, 3 * 12);
			assert_int_equal(kept()->count, 0);
			expect_pages(d.rig.wg, at - 5, pages + 9);
			begin(&d, G4_DISK_REBUILD, 1);
			finish(&d);
			change(0, PAGES, 61); /* they are free, so nobody has made what the disk lacks of them */
			write_large(d.rig.wg, 0, PAGES);
			break;
		case 4: /* the first superblock was written: the table is asked for */
			g4_space_open(d.rig.wg, space);
			break;
		case 5: /* the rest of both stripes, as parts of others */
			change(at - 5 - 24, 24 + 5, 56);
			write_large(d.rig.wg, at - 5 - 24, 24 + 5);
			assert_int_equal(granted_at, (first_page + at - 5 - 24) * G4_PAGE_BYTES);
			assert_int_equal(kept()->count, 1);
			change(at + pages, 7 + 24, 57);
			write_large(d.rig.wg, at + pages, 7 + 24);
			assert_int_equal(granted_at,
					 (first_page + at + pages - 5) * G4_PAGE_BYTES); /* with what was kept */
			assert_int_equal(grants, 3);
			assert_int_equal(granted_bytes, (60 + 24 + 12 + 24 + 12) * G4_PAGE_BYTES);
			assert_int_equal(parts, 0);
			break;
		case 6: /* somebody else has the pages now, and writes in another way */
			change(at, 3, 58);
			assert_int_equal(g4_space_write(d.rig.wg, space, g4_page_address(first_page + at),
							model + at * G4_PAGE_BYTES, 3 * G4_PAGE_BYTES, 0),
					 0);
			change(at + pages - 5, 5, 59);
			assert_int_equal(g4_space_write(d.rig.wg, space, g4_page_address(first_page + at + pages - 5),
							model + (at + pages - 5) * G4_PAGE_BYTES, 5 * G4_PAGE_BYTES, 0),
					 0);
			assert_int_equal(kept()->count, 1);
			expect_pages(d.rig.wg, at - 5, pages + 9);
			break;
		default: /* or as whole stripes */
			change(at - 5, pages + 12, 60);
			write_large(d.rig.wg, at - 5, pages + 12);
			break;
		}
		expect_pages(d.rig.wg, at - 5, pages + 9);
		assert_int_equal(g4_space_flush(d.rig.wg, space), 0);
		assert_int_equal(kept()->count, 0);
		expect_stored(0, PAGES);
		expect_rows_fit();
	}
	free(page);
	free(model);
	end();
}

/* What goes on in the next chunk is not the grant's: nobody says of it that it is written, or kept. */
static void what_lies_behind_a_chunk_is_the_callers(void **state)
{
	uint8_t *page = rig_memory(4 * G4_PAGE_BYTES, 3);

	(void)state;
	make(4, 1, G4_CHECKSUM_NONE);
	choose_pages();
	struct g4_direct_table *now = &d.rig.fs->space.direct.table;
	struct g4_chunk *chunk = &now->chunks[1], whole = *chunk;
	const uint64_t stripe = g4_chunk_stripe_data(chunk);
	assert_int_equal(now->chunk_count, 2);
	assert_true(chunk->parity);
	/* as of a set that has two, side by side */
	const uint64_t border = ((first_page * G4_PAGE_BYTES - chunk->address) / stripe + 3) * stripe;
	chunk->bytes = border;
	now->chunks[2] = whole;
	now->chunks[2].address += border;
	now->chunks[2].bytes -= border;
	now->chunk_count = 3;
	struct g4_direct_grant grant;
	struct g4_iov iov = {page, 4 * G4_PAGE_BYTES};
	assert_true(g4_space_take_stripes(d.rig.wg, &d.rig.fs->space,
					  g4_address_from(whole.address + border - 2 * stripe), 2 * stripe + iov.bytes,
					  64 * G4_PAGE_BYTES, false, &grant));
	assert_int_equal(grant.bytes, 2 * stripe);
	assert_false(g4_space_write_part(d.rig.wg, &d.rig.fs->space, &grant, 1, &iov, 1));
	iov = (struct g4_iov){model, grant.bytes};
	g4_space_write_stripes(d.rig.wg, &d.rig.fs->space, g4_address_from(grant.address), &iov, 1);
	g4_space_end_stripes(&d.rig.fs->space, &grant);
	/* nor is what begins in one without stripes without any */
	chunk->parity = 0;
	assert_true(g4_space_take_stripes(d.rig.wg, &d.rig.fs->space, g4_address_from(whole.address + border - stripe),
					  3 * stripe + iov.bytes, 64 * G4_PAGE_BYTES, false, &grant));
	assert_int_equal(grant.address, whole.address + border);
	assert_int_equal(grant.bytes, 2 * stripe + iov.bytes / stripe * stripe);
	assert_int_equal(grant.parts[0].bytes, 0);
	iov = (struct g4_iov){model + 3 * stripe, grant.bytes};
	g4_space_write_stripes(d.rig.wg, &d.rig.fs->space, g4_address_from(grant.address), &iov, 1);
	g4_space_end_stripes(&d.rig.fs->space, &grant);
	*chunk = whole;
	now->chunk_count = 2;
	free(page);
	free(model);
	end();
}

static void what_can_not_be_written_out_is_kept(void **state)
{
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 1);
	struct g4_space *space;

	(void)state;
	make(4, 1, G4_CHECKSUM_NONE);
	choose_pages();
	space = &d.rig.fs->space;
	change(5, 40, 7);
	write_large(d.rig.wg, 5, 40);
	assert_int_equal(kept()->count, 2);
	g4_store32_rel(&failing, 1);
	assert_int_equal(g4_space_flush(d.rig.wg, space), -G4_E_IO);
	assert_int_equal(kept()->count, 2);
	expect_pages(d.rig.wg, 0, 60);
	/* no order may change what lies where, and nobody goes past the set, for stripes may be others when the table comes again */
	struct g4_dev_order order = {.op = G4_ORDER_OFFLINE, .disk = 1};
	assert_int_equal(g4_space_order(d.rig.wg, space, &order), -G4_E_IO);
	assert_int_equal(g4_space_disks(space), 4);
	assert_false(g4_direct_is_open(&space->direct));
	assert_int_equal(kept()->count, 2);
	assert_int_equal(g4_space_read(d.rig.wg, space, g4_page_address(first_page + 5), page, G4_PAGE_BYTES),
			 -G4_E_IO);
	assert_int_equal(g4_space_read(d.rig.wg, space, g4_page_address(first_page + 12), page, G4_PAGE_BYTES), 0);
	assert_memory_equal(page, model + 12 * G4_PAGE_BYTES, G4_PAGE_BYTES);
	g4_space_open(d.rig.wg, space);
	assert_false(g4_direct_is_open(&space->direct));
	g4_store32_rel(&failing, 0);
	expect_pages(d.rig.wg, 0, 60);
	assert_int_equal(kept()->count, 0);
	assert_int_equal(g4_space_flush(d.rig.wg, space), 0);
	expect_stored(0, PAGES);
	g4_space_open(d.rig.wg, space);
	assert_true(g4_direct_is_open(&space->direct));
	expect_pages(d.rig.wg, 0, PAGES);
	free(page);
	free(model);
	end();
}

/* ------------------------------------------------------------------ disks that fail meanwhile */

static struct faulty faulty;

/* As make(), of memory that fails where the set asks for it. */
static void make_faulty(uint32_t disks, uint32_t parity)
{
	const struct g4_fault through = {.write_through = true};
	uint64_t sizes[MOST_DISKS];

	for (uint32_t n = 0; n < disks; n++)
		sizes[n] = EACH_BYTES;
	disks_make(&d, disks, sizes);
	disks_format_rows(&d, parity, G4_CHECKSUM_NONE);
	disks_wrap_faulty(&d, &faulty);
	for (uint32_t n = 0; n < disks; n++) {
		g4_dev_fault_set(faulty.fault[n], &through);
		faulty.fault[n]->map = d.memory[n];
		faulty.fault[n]->persist = G4_DEV_PERSIST_NEVER;
		faulty.fault[n]->opened = n + 1;
	}
	disks_assemble_faulty(&d, &faulty);
	set = faulty.set;
	disks_begin_fs(&d, set, 0);
	assert_true(g4_direct_is_open(&d.rig.fs->space.direct));
	watch();
	choose_pages();
}

static void fail_next(uint32_t disk)
{
	const struct g4_fault fault = {.write_through = true, .fail_write_at = 1};

	g4_dev_fault_set(faulty.fault[disk], &fault);
}

static uint32_t disks_in_use(void)
{
	struct g4_disk_info info;
	uint32_t used = 0;

	set->ops = own_ops; /* by which a set is known */
	for (uint32_t n = 0; n < d.count && g4_set_disk(set, n, &info); n++)
		used |= (uint32_t)(info.state == G4_DISK_ACTIVE) << n;
	set->ops = &watched_ops;
	return used;
}

/* All of it, of disks that are opened anew. */
static void expect_on(uint32_t which)
{
	struct g4_wg *wg = g4_wg_create(9);
	uint8_t *found = rig_memory(PAGES * G4_PAGE_BYTES, 9);
	struct g4_dev *dev;

	if (disks_try_open(&d, which, which != all_of(), 0, &dev) < 0)
		fail_msg("%s", d.message);
	assert_int_equal(g4_dev_read(wg, dev, first_page * G4_PAGE_BYTES, found, PAGES * G4_PAGE_BYTES), 0);
	assert_memory_equal(found, model, PAGES * G4_PAGE_BYTES);
	g4_dev_close(dev);
	g4_wg_destroy(wg);
	free(found);
}

/* Each of them, between what is kept and its flush: the rest has it, and nobody reads what the one that was dropped has missed, though it is memory still. */
static void a_disk_may_fail_while_parts_are_kept(void **state)
{
	(void)state;
	for (uint32_t level = 0; level < 2; level++)
		for (uint32_t bad = 0; bad < 4; bad += 1 + level) {
			const uint64_t at = 12 * 7 + 5 + bad, pages = 12 * 6;

			make_faulty(4, 1 + level);
			struct g4_space *space = &d.rig.fs->space;
			change(at, pages, 70 + bad);
			write_large(d.rig.wg, at, pages);
			assert_int_not_equal(kept()->count, 0);
			fail_next(bad);
			for (uint32_t turn = 0; turn < 8 && disks_in_use() == all_of(); turn++) {
				change(at + 13 * turn, 5, 90 + turn);
				assert_int_equal(
					g4_space_write(d.rig.wg, space, g4_page_address(first_page + at + 13 * turn),
						       model + (at + 13 * turn) * G4_PAGE_BYTES, 5 * G4_PAGE_BYTES, 0),
					0);
				assert_int_equal(g4_space_flush(d.rig.wg, space), 0);
			}
			assert_int_equal(disks_in_use(), all_of() & ~(1u << bad));
			assert_int_equal(kept()->count, 0);
			assert_true(g4_direct_is_open(&space->direct));
			for (uint32_t turn = 0; turn < 24;
			     turn++) { /* of each column, less than a stripe; and held rows have to go */
				const uint64_t page = 24 * turn + 1;
				change(page, 7, 60 + turn);
				assert_int_equal(g4_space_write(d.rig.wg, space, g4_page_address(first_page + page),
								model + page * G4_PAGE_BYTES, 7 * G4_PAGE_BYTES, 0),
						 0);
				assert_int_equal(g4_space_flush(d.rig.wg, space), 0);
			}
			for (uint64_t page = 0; page < PAGES;
			     page += 12) /* where anything is held all of a request goes to the set */
				expect_pages(d.rig.wg, page, 12);
			/* whole stripes and parts of them, which the disk gets no more of */
			count_anew();
			change(at - 3, pages, 80 + bad);
			write_large(d.rig.wg, at - 3, pages);
			assert_int_equal(grants, 0);
			expect_pages(d.rig.wg, 0, PAGES);
			g4_space_open(d.rig.wg, space);
			assert_int_equal(space->direct.table.missing, 1);
			change(at + 3, pages, 85 + bad);
			write_large(d.rig.wg, at + 3, pages);
			assert_int_equal(kept()->count, 0);
			expect_pages(d.rig.wg, 0, PAGES);
			assert_int_equal(g4_space_flush(d.rig.wg, space), 0);
			set->ops = own_ops;
			disks_unmount_fs(&d, set, true);
			expect_on(all_of() & ~(1u << bad));
			free(model);
			disks_free(&d);
		}
}

/* More of them than can be lost: whoever wants it durable hears of it, and nothing is told to be there that is not. */
static void too_many_may_fail_while_parts_are_kept(void **state)
{
	const uint64_t at = 12 * 7 + 5, pages = 12 * 6;

	(void)state;
	make_faulty(4, 1);
	struct g4_space *space = &d.rig.fs->space;
	change(at, pages, 70);
	write_large(d.rig.wg, at, pages);
	for (uint32_t n = 1; n < 4; n++)
		fail_next(n);
	assert_true(g4_space_flush(d.rig.wg, space) < 0);
	assert_true(g4_space_flush(d.rig.wg, space) < 0);
	set->ops = own_ops;
	(void)g4_fs_unmount(d.rig.wg, d.rig.fs, false);
	g4_wg_destroy(d.rig.wg);
	g4_dev_close(d.outer);
	free(model);
	disks_free(&d);
}

/* A disk that is dropped is noted in words that an agent takes, or gives back, at that moment. */
static void *drop_again_and_again(void *argument)
{
	struct g4_set *host = (struct g4_set *)set->host;

	for (uint32_t turn = 0; turn < 2000; turn++) {
		pthread_mutex_lock(&host->lock);
		g4_set_grants_doubt(host, turn % 2 == 0);
		pthread_mutex_unlock(&host->lock);
	}
	g4_sub32_rel((uint32_t *)argument, 1);
	return NULL;
}

static void words_move_while_disks_are_dropped(void **state)
{
	static _Alignas(8) uint32_t words[2][G4_DEV_WORDS];
	uint32_t dropping = 1;
	pthread_t thread;

	(void)state;
	make(4, 1, G4_CHECKSUM_NONE);
	assert_int_equal(pthread_create(&thread, NULL, drop_again_and_again, &dropping), 0);
	for (uint32_t turn = 0; g4_load32_acq(&dropping); turn++)
		own_ops->use_words(set, turn % 3 == 2 ? NULL : words[turn % 3]);
	pthread_join(thread, NULL);
	for (uint64_t n = 0; n < G4_DEV_HELD; n++)
		assert_int_equal((uint32_t)*g4_dev_held_word(own_ops->words(set), n * G4_MIB), 0);
	own_ops->use_words(set, NULL);
	end();
}

/* More than there is room for go by way of the set, as before. */
static void without_room_the_set_has_them(void **state)
{
	(void)state;
	make(4, 1, G4_CHECKSUM_NONE);
	choose_pages();
	kept()->buckets_used = 2;
	count_anew();
	for (uint64_t n = 0; n < 40; n++) { /* two parts each, of stripes that no other has parts of */
		change(n * 36 + 1, 33, (uint32_t)n);
		write_large(d.rig.wg, n * 36 + 1, 33);
	}
	assert_in_range(kept()->count, 1, 2 * G4_KEPT_WAYS);
	assert_int_equal(parts, 80 - kept()->count);
	expect_pages(d.rig.wg, 0, PAGES);
	assert_int_equal(g4_space_flush(d.rig.wg, &d.rig.fs->space), 0);
	expect_stored(0, PAGES);
	free(model);
	end();
}

/* ------------------------------------------------------------------ many at a time */

#define WRITERS 3u
#define SPAN 56u	 /* pages that are one writer's, then the next one's: no multiple of a stripe */
static uint32_t writing; /* atomic */

struct user {
	pthread_t thread;
	struct g4_wg *wg;
	uint32_t number;
};

static void *write_own_spans(void *argument)
{
	const struct user *user = (const struct user *)argument;
	const uint32_t spans = PAGES / SPAN, turns = (uint32_t)(600 / rig_every(6));
	uint64_t seed = user->number + 1;

	for (uint32_t turn = 0; turn < turns; turn++) {
		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
		const uint64_t span = (seed >> 33) % (spans / WRITERS) * WRITERS + user->number,
			       skip = (seed >> 20) % 8, less = (seed >> 24) % 8, at = span * SPAN + skip,
			       pages = SPAN - skip - less;
		change(at, pages, (uint32_t)(seed >> 32));
		if (turn % 8 == 7)
			assert_int_equal(g4_space_write(user->wg, &d.rig.fs->space, g4_page_address(first_page + at),
							model + at * G4_PAGE_BYTES, 3 * G4_PAGE_BYTES, 0),
					 0);
		if (turn % 8 == 7)
			assert_int_equal(
				g4_space_write(user->wg, &d.rig.fs->space, g4_page_address(first_page + at + 3),
					       model + (at + 3) * G4_PAGE_BYTES, (pages - 3) * G4_PAGE_BYTES, 0),
				0);
		else
			write_large(user->wg, at, pages);
		expect_pages(user->wg, at, pages);
	}
	g4_sub32_rel(&writing, 1);
	return NULL;
}

static void *flush_again_and_again(void *argument)
{
	const struct user *user = (const struct user *)argument;

	while (g4_load32_acq(&writing) > 0) {
		assert_int_equal(g4_space_flush(user->wg, &d.rig.fs->space), 0);
		if (user->number % 2)
			g4_space_open(user->wg, &d.rig.fs->space); /* the gate closes, and opens */
		sched_yield();
	}
	return NULL;
}

static void neighbours_and_flushes_do_not_disturb_each_other(void **state)
{
	struct user users[WRITERS + 2];

	(void)state;
	make(4, 1, G4_CHECKSUM_NONE);
	choose_pages();
	g4_store32_rel(&writing, WRITERS);
	for (uint32_t n = 0; n < WRITERS + 2; n++) {
		users[n].number = n;
		users[n].wg = g4_wg_create(3 + n);
		assert_int_equal(pthread_create(&users[n].thread, NULL,
						n < WRITERS ? write_own_spans : flush_again_and_again, &users[n]),
				 0);
	}
	for (uint32_t n = 0; n < WRITERS + 2; n++) {
		pthread_join(users[n].thread, NULL);
		g4_wg_destroy(users[n].wg);
	}
	expect_pages(d.rig.wg, 0, PAGES);
	assert_int_equal(g4_space_flush(d.rig.wg, &d.rig.fs->space), 0);
	assert_int_equal(kept()->count, 0);
	expect_stored(0, PAGES);
	free(model);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_large_file_leaves_parts_at_its_ends_alone),
		cmocka_unit_test(a_row_of_pages_may_be_more_than_is_granted),
		cmocka_unit_test(what_was_synced_survives_a_kill),
		cmocka_unit_test(whoever_asks_the_device_finds_what_was_kept),
		cmocka_unit_test(what_lies_behind_a_chunk_is_the_callers),
		cmocka_unit_test(what_can_not_be_written_out_is_kept),
		cmocka_unit_test(a_disk_may_fail_while_parts_are_kept),
		cmocka_unit_test(too_many_may_fail_while_parts_are_kept),
		cmocka_unit_test(words_move_while_disks_are_dropped),
		cmocka_unit_test(without_room_the_set_has_them),
		cmocka_unit_test(neighbours_and_flushes_do_not_disturb_each_other),
	};

	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
