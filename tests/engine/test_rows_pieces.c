/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk is removed from a mounted set of rows with parity in which files lie in all parts, so that no place of 8 MiB is free in a row, though much is free in
 * pieces: it goes, users write meanwhile, and what files have survives the power and the loss of any disk.
 */
#include "moving.h"
#include "rows_moving.h"

#include "alloc/alloc.h"
#include "dev/leave.h"
#include "space/set_rows_host.h"
#include "space/set_table_host.h"

#define MOST_FILES 96u
/* Something of each region of rows, which is 16 MiB of files, and no more than half of the allocator's 2 MiB, wherever a file begins there. */
#define PIECE_BYTES (4 * G4_MIB)
#define KEPT_OF 3u

struct pieces {
	struct disks d;
	struct g4_dev *dev;
	uint32_t count;
	uint64_t inos[MOST_FILES], bytes;
};

/* Of all disks rows over the first ones and over the others: what is free of the ones is no room where the others lie. */
static const struct shape shape = {3, 1, 3, 0};

static struct g4_job_record job(struct disks *d)
{
	return newest_of(d, G4_JOB_REMOVE);
}

/* ---- the set ---- */

/* Files of a size in all parts, of which one of so many is kept. Mounted. */
static void begin_pieces(struct pieces *p, uint64_t bytes, uint32_t of)
{
	uint8_t *data = rig_memory(G4_MIB, 5); /* as disks_expect_filled() has it */
	uint64_t ballast, done = G4_MIB;
	uint32_t made = 0;
	char name[16];

	memset(p, 0, sizeof(*p));
	p->bytes = bytes;
	format(&p->d, &shape, &ballast);
	disks_mount_fs(&p->d, all_of(&p->d), &p->dev);
	for (; done == G4_MIB; made++) {
		uint64_t ino = 0;
		snprintf(name, sizeof(name), "p%u", made);
		assert_true(made < of * MOST_FILES);
		assert_int_equal(op_mknod(&p->d.rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &ino), 0);
		for (uint64_t at = 0; at < bytes && done == G4_MIB; at += G4_MIB)
			if (op_write(&p->d.rig, ino, 0, at, data, G4_MIB, &done) < 0)
				done = 0;
		if (made % of == 1 && done == G4_MIB)
			p->inos[p->count++] = ino;
	}
	for (uint32_t n = 0; n < made; n++) {
		snprintf(name, sizeof(name), "p%u", n);
		if (n % of != 1 || n + 1 == made) /* the last one is not whole */
			assert_int_equal(op_unlink(&p->d.rig, G4_NODE_ROOT, name), 0);
	}
	disks_unmount_fs(&p->d, p->dev, true);
	disks_mount_fs(&p->d, all_of(&p->d), &p->dev);
	free(data);
}

static void expect_pieces(const struct pieces *p, struct disks *d)
{
	for (uint32_t n = 0; n < p->count; n++)
		disks_expect_filled(d, p->inos[n], p->bytes);
}

static uint32_t rest_of(const struct disks *d, uint32_t disk)
{
	return all_of(d) & ~(1u << disk);
}

static void start(struct disks *d, uint32_t disk)
{
	if (order(d, G4_DISK_REMOVE, d->names[disk]) < 0)
		fail_msg("%s", d->message);
}

/* At most so many steps, with users between them. */
static void run(struct disks *d, struct model *m, uint32_t uses, uint32_t most)
{
	for (uint32_t steps = 0; steps < most && job(d).state == G4_JOB_RUNNING; steps++) {
		for (uint32_t k = 0; k < uses; k++)
			use(m, d);
		step(d);
		assert_true(steps < 4000);
	}
}

static void expect_done(struct disks *d)
{
	const struct g4_job_record record = job(d);

	if (record.state != G4_JOB_DONE)
		fail_msg("it ended with state %u, %s", record.state, g4_strerror(-(int)record.code));
	assert_int_equal(record.done, record.units);
}

/* Of the own level in copies, but for the front: what was rows. */
static uint32_t scattered(struct g4_dev *dev)
{
	struct g4_chunk chunk;
	uint32_t count = 0;

	for (uint32_t n = 1; g4_set_chunk(dev, n, &chunk); n++)
		count += chunk.copies > 1;
	return count;
}

static uint64_t count_regions(const struct g4_set *set)
{
	uint64_t regions = 0;

	for (uint32_t n = 0; n < set->map.count; n++)
		regions += g4_set_log_regions(&set->chunks[n]);
	return regions;
}

/* What is there without the disk, and without any other one; also when all that is free was written. Not mounted. */
static void expect_without(struct pieces *p, uint32_t disk, struct model *m)
{
	const uint32_t rest = rest_of(&p->d, disk);
	uint8_t *before[MOST_DISKS];
	struct g4_dev *dev;
	uint64_t small;

	assert_true(disks_try_open(&p->d, all_of(&p->d), true, G4_DEV_READ_ONLY, &dev) < 0);
	disks_mount_fs(&p->d, rest, &dev);
	const uint64_t bytes = fill_in_small_pieces(&p->d, &small);
	disks_unmount_fs(&p->d, dev, true);
	keep_disks(&p->d, before);
	for (uint32_t lost = 0; lost < p->d.count; lost++) {
		if (lost != disk && !disks_takes_loss(1u << lost))
			continue;
		disks_expect_clean(&p->d, rest & ~(1u << lost));
		disks_mount_fs(&p->d, rest & ~(1u << lost), &dev);
		expect_pieces(p, &p->d);
		if (m)
			expect_model(m, &p->d);
		expect_small_pieces(&p->d, small, bytes);
		if (lost == disk)
			assert_int_equal(disks_scrub(&p->d), 0);
		disks_unmount_fs(&p->d, dev, true);
		restore_disks(&p->d, before);
	}
	for (uint32_t n = 0; n < p->d.count; n++)
		free(before[n]);
}

/* ---- tests ---- */

static void a_disk_goes_where_files_lie_in_all_parts(void **state)
{
	uint32_t pieces = 0;

	(void)state;
	for (uint32_t s = 0; s < 2; s++) {
		static struct pieces p;
		struct model m;
		const uint32_t disk = s % 2 ? 1 : 4;
		begin_pieces(&p, PIECE_BYTES, KEPT_OF);
		begin_model(&m, &p.d);
		const struct g4_set *set = (const struct g4_set *)p.dev->host;
		const uint64_t regions = set->parity->regions;
		start(&p.d, disk);
		run(&p.d, &m, 3, UINT32_MAX);
		expect_done(&p.d);
		pieces += scattered(p.dev);
		assert_int_equal(count_regions(set),
				 regions); /* all bits of the map are those of the same rows as before */
		expect_pieces(&p, &p.d);
		expect_model(&m, &p.d);
		assert_int_equal(disks_scrub(&p.d), 0);
		disks_unmount_fs(&p.d, p.dev, true);
		expect_without(&p, disk, &m);
		end_model(&m);
		disks_free(&p.d);
	}
	assert_true(pieces > 0);
}

/* Where copies would take more than there is, and no shorter rows have room either: the look before it begins has counted that. */
static void what_has_no_room_in_pieces_is_refused(void **state)
{
	static struct pieces p;

	(void)state;
	begin_pieces(&p, 7 * G4_MIB, 2);
	const uint64_t idle = g4_alloc_free_in(&p.d.rig.fs->alloc, G4_LEVEL_OWN);
	assert_int_equal(order(&p.d, G4_DISK_REMOVE, p.d.names[4]), -G4_E_NOSPC);
	assert_non_null(strstr(p.d.message, "are missing"));
	assert_int_equal(job(&p.d).kind, G4_JOB_NONE);
	assert_int_equal(g4_alloc_free_in(&p.d.rig.fs->alloc, G4_POOL_GONE), 0);
	assert_int_equal(g4_alloc_free_in(&p.d.rig.fs->alloc, G4_LEVEL_OWN), idle);
	expect_pieces(&p, &p.d);
	disks_unmount_fs(&p.d, p.dev, true);
	disks_expect_clean(&p.d, all_of(&p.d));
	disks_free(&p.d);
}

/* Who has looked a chunk up before it was made copies, or was given up, finds no rows behind the lock, and is told so. */
static void who_asks_for_rows_that_are_none_is_told(void **state)
{
	static struct pieces p;
	struct g4_chunk chunk = {.parity = 0};
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 1);
	const struct g4_iov iov = {page, G4_PAGE_BYTES};
	uint32_t copies = 0, gone = 0;

	(void)state;
	begin_pieces(&p, PIECE_BYTES, KEPT_OF);
	start(&p.d, 4);
	run(&p.d, NULL, 0, UINT32_MAX);
	expect_done(&p.d);
	struct g4_set *set = (struct g4_set *)p.dev->host;
	for (uint32_t n = 0; g4_set_chunk(p.dev, n, &chunk); n++) {
		if (chunk.parity)
			continue;
		copies += chunk.copies > 0;
		gone += chunk.copies == 0;
		assert_int_equal(g4_set_parity_read(p.d.rig.wg, set, chunk.address, G4_PAGE_BYTES, &iov, 1,
						    G4_ANY_PARITY),
				 -G4_E_AGAIN);
		assert_int_equal(g4_set_parity_mend(p.d.rig.wg, set, chunk.address, G4_PAGE_BYTES, &iov, 1),
				 -G4_E_NOENT);
	}
	assert_true(copies > 1 && gone > 0);
	disks_unmount_fs(&p.d, p.dev, true);
	disks_free(&p.d);
	free(page);
}

/* What the map says of the region that has an address. */
static bool says_made(const struct g4_set *set, uint64_t address)
{
	const struct g4_chunk *chunk = g4_chunk_find(&set->map, address);
	const uint64_t within = (address - chunk->address) / g4_chunk_data_columns(chunk);
	const uint64_t bit = g4_set_log_region(set, chunk, within / G4_PARITY_REGION_BYTES);

	return set->parity->made[bit / 8] >> bit % 8 & 1;
}

/* Rows of which nothing is in use, on disks that had other bytes before, and no parity was made. Mounted. */
static void begin_never_made(struct disks *d, struct g4_dev **dev, struct g4_chunk *chunk)
{
	uint64_t sizes[MOST_DISKS];
	bool found = false;

	for (uint32_t n = 0; n < MOST_DISKS; n++)
		sizes[n] = ROWS_BYTES;
	disks_make(d, 6, sizes);
	d->count = 3;
	disks_format_rows(d, 1, G4_CHECKSUM_CRC32C);
	for (uint32_t n = 0; n < 3; n++) {
		rig_pattern(d->memory[d->count], 77 + n, d->bytes[d->count]);
		add_next(d, true);
	}
	disks_mount_fs(d, all_of(d), dev);
	for (uint32_t n = 0; !found && g4_set_chunk(*dev, n, chunk); n++)
		found = chunk->parity && g4_place_disk(chunk->places[0]) >= 3 && chunk->place_bytes >= 4 * UNIT;
	assert_true(found);
}

static void give_up(struct disks *d, struct g4_dev *dev, uint64_t address, uint64_t bytes)
{
	struct g4_dev_order order = {.op = G4_ORDER_GIVE_UP, .done = address, .bytes = bytes};

	assert_int_equal(g4_dev_order(d->rig.wg, dev, &order), 0);
	assert_int_equal(order.bytes, bytes);
}

static void write_page(struct disks *d, struct g4_dev *dev, uint64_t address, const uint8_t *page)
{
	assert_int_equal(g4_dev_write(d->rig.wg, dev, address, page, G4_PAGE_BYTES, 0), 0);
	assert_int_equal(g4_dev_flush(d->rig.wg, dev), 0);
}

/*
 * Of one unit in four a MiB stays, in the middle of it or at an end, and its parity was made: those of the others was not, and the map says so wherever the
 * units before them end. What is written there then has parity that makes it again.
 */
static void what_is_left_of_a_unit_takes_no_other_ones_bit(void **state)
{
	static const uint32_t stays[] = {7, 3, 0};

	(void)state;
	for (uint32_t n = 0; n < 3 * sizeof(stays) / sizeof(stays[0]); n++) {
		const uint32_t made = n % 3, front = stays[n / 3];
		uint8_t *page = rig_memory(G4_PAGE_BYTES, 3), *found = rig_memory(G4_PAGE_BYTES, 4);
		struct g4_chunk chunk;
		struct g4_piece piece;
		struct g4_dev *dev;
		struct disks d;
		begin_never_made(&d, &dev, &chunk);
		const struct g4_set *set = (const struct g4_set *)dev->host;
		const uint64_t columns = g4_chunk_data_columns(&chunk), unit = UNIT * columns, mib = G4_MIB * columns,
			       rest = chunk.address + made * unit + front * mib,
			       next = chunk.address + (made + 1) * unit, regions = count_regions(set);
		write_page(&d, dev, rest, page);
		if (front < 7)
			give_up(&d, dev, rest + mib, (7 - front) * mib);
		if (front > 0)
			give_up(&d, dev, chunk.address + made * unit, front * mib);
		assert_int_equal(count_regions(set), regions);
		for (uint32_t k = 0; k < 4; k++)
			assert_int_equal(says_made(set, k == made ? rest : chunk.address + k * unit), k == made);
		write_page(&d, dev, next, page);
		g4_chunk_translate(&set->map, next, G4_PAGE_BYTES, &piece);
		const uint32_t lost = piece.disks[0];
		disks_unmount_fs(&d, dev, true);
		assert_int_equal(disks_try_open(&d, all_of(&d) & ~(1u << lost), true, 0, &dev), 0);
		struct g4_wg *wg = g4_wg_create(0);
		assert_int_equal(g4_dev_read(wg, dev, next, found, G4_PAGE_BYTES), 0);
		assert_memory_equal(found, page, G4_PAGE_BYTES);
		g4_wg_destroy(wg);
		g4_dev_close(dev);
		disks_free(&d);
		free(page);
		free(found);
	}
}

static int try_order(struct disks *d, struct g4_dev *dev, uint64_t address, uint64_t bytes, uint32_t disk,
		     uint64_t *done)
{
	struct g4_dev_order order = {.op = G4_ORDER_GIVE_UP, .done = address, .bytes = bytes, .disk = disk};
	const int rc = g4_dev_order(d->rig.wg, dev, &order);

	*done = order.bytes;
	return rc;
}

/* Pieces take no more than half of the table: whole regions can be given up then. */
static void pieces_leave_half_of_the_table(void **state)
{
	const uint64_t each = (G4_CHUNKS_MAX / 4 + 128) * UNIT, sizes[] = {each, each, each};
	struct g4_chunk chunk = {.parity = 0};
	struct g4_dev *dev;
	struct disks d;
	uint64_t done = 0;
	int rc = 0;

	(void)state;
	disks_make(&d, 3, sizes);
	disks_format_rows(&d, 1, G4_CHECKSUM_CRC32C);
	disks_mount_fs(&d, all_of(&d), &dev);
	const struct g4_set *set = (const struct g4_set *)dev->host;
	for (uint32_t n = 0; !chunk.parity && g4_set_chunk(dev, n, &chunk); n++)
		;
	const uint64_t unit = UNIT * g4_chunk_data_columns(&chunk), mib = G4_MIB * g4_chunk_data_columns(&chunk);
	uint64_t at = chunk.address + g4_align_down(chunk.place_bytes, UNIT) / UNIT * unit;
	while (rc == 0) {
		at -= unit;
		assert_true(at > chunk.address + 4 * unit);
		rc = try_order(&d, dev, at + unit - mib, mib, 0, &done);
	}
	assert_int_equal(rc, -G4_E_NOSPC);
	assert_in_range(set->map.count, G4_TABLE_PIECES_MOST - 2, G4_TABLE_PIECES_MOST);
	assert_int_equal(try_order(&d, dev, at, mib, 0, &done), -G4_E_NOSPC);
	assert_int_equal(try_order(&d, dev, at + unit - mib, mib, G4_GIVE_UP_TO_COPIES(MOST_DISKS), &done),
			 -G4_E_NOSPC);
	for (uint32_t n = 0; n < 2; n++) {
		at -= unit;
		assert_int_equal(try_order(&d, dev, at, unit, 0, &done), 0);
		assert_int_equal(done, unit);
	}
	disks_unmount_fs(&d, dev, true);
	disks_free(&d);
}

/* All pages of one column of each unit, on a disk that stays. Not mounted. */
static void let_rot(struct disks *d, const struct g4_chunk *chunks, uint32_t count, uint32_t disk)
{
	for (uint32_t n = 0; n < count; n++)
		for (uint32_t k = 0; k < chunks[n].columns; k++)
			for (uint64_t at = 0; g4_place_disk(chunks[n].places[k]) == disk && at < chunks[n].place_bytes;
			     at += G4_PAGE_BYTES)
				d->memory[disk][g4_place_address(chunks[n].places[k]) + at + 100] ^= 0x55;
}

static uint32_t tell_rows(struct g4_dev *dev, struct g4_chunk *chunks, uint32_t most)
{
	uint32_t count = 0;

	for (uint32_t n = 0; count < most && g4_set_chunk(dev, n, &chunks[count]); n++)
		count += chunks[count].parity > 0;
	return count;
}

/* Parity can still make what has rotted, and copies could not: rows that do not fit stay rows, and go when a scrub has mended them. */
static void what_does_not_fit_its_parity_becomes_no_copies(void **state)
{
	static struct pieces p;
	struct g4_chunk chunks[64];
	const uint32_t disk = 4;

	(void)state;
	begin_pieces(&p, PIECE_BYTES, KEPT_OF);
	const uint32_t count = tell_rows(p.dev, chunks, 64);
	disks_unmount_fs(&p.d, p.dev, true);
	let_rot(&p.d, chunks, count, 3);
	disks_mount_fs(&p.d, all_of(&p.d), &p.dev);
	start(&p.d, disk);
	run(&p.d, NULL, 0, UINT32_MAX);
	assert_int_equal(job(&p.d).state, G4_JOB_FAILED);
	assert_int_equal(job(&p.d).code, G4_E_PARITY);
	expect_pieces(&p, &p.d);
	assert_int_equal(disks_scrub(&p.d), 0);
	start(&p.d, disk);
	run(&p.d, NULL, 0, UINT32_MAX);
	expect_done(&p.d);
	assert_true(scattered(p.dev) > 0);
	expect_pieces(&p, &p.d);
	assert_int_equal(disks_scrub(&p.d), 0);
	disks_unmount_fs(&p.d, p.dev, true);
	expect_without(&p, disk, NULL);
	disks_free(&p.d);
}

static void it_goes_on_after_an_unmount(void **state)
{
	static struct pieces p;
	const uint32_t disk = 4;
	struct model m;

	(void)state;
	begin_pieces(&p, PIECE_BYTES, KEPT_OF);
	begin_model(&m, &p.d);
	start(&p.d, disk);
	for (uint32_t turn = 0; job(&p.d).state == G4_JOB_RUNNING; turn++) {
		run(&p.d, &m, 2, 3);
		disks_unmount_fs(&p.d, p.dev, true);
		const uint32_t there = disks_try_open(&p.d, all_of(&p.d), false, G4_DEV_READ_ONLY, &p.dev) == 0 ?
					       all_of(&p.d) :
					       rest_of(&p.d, disk);
		if (there == all_of(&p.d))
			g4_dev_close(p.dev);
		if (turn % rig_every(4) == 0)
			disks_expect_clean(&p.d, there);
		disks_mount_fs(&p.d, there, &p.dev);
		expect_model(&m, &p.d);
	}
	expect_done(&p.d);
	assert_true(scattered(p.dev) > 0);
	disks_unmount_fs(&p.d, p.dev, true);
	expect_without(&p, disk, &m);
	end_model(&m);
	disks_free(&p.d);
}

/* Each step is whole or has not been: what was synced is there, also with a disk lost, and the order goes on. */
static void the_power_fails_at_any_request(void **state)
{
	static struct disks_order requests;
	static struct synced synced;
	static struct pieces p;
	const uint32_t disk = 4, every = (uint32_t)rig_setting("G4_CRASH_EVERY", 151 * rig_every(4));
	uint8_t *before[MOST_DISKS];
	uint64_t random = 1;
	uint32_t states = 0, without = 0;
	struct disks crashed;
	struct faulty f;

	(void)state;
	begin_pieces(&p, PIECE_BYTES, KEPT_OF);
	disks_unmount_fs(&p.d, p.dev, true);
	keep_disks(&p.d, before);
	mount_faulty(&p.d, &f, &requests);
	g4_dev_fault_share(f.fault[disk]);
	start(&p.d, disk);
	for (uint32_t steps = 0; job(&p.d).state == G4_JOB_RUNNING; steps++) {
		if (steps % 4 == 0 && synced.count < MOST_SYNCED) {
			assert_int_equal(disks_put(&p.d, synced.count, 1), 0);
			synced.at[synced.count++] = requests.count;
		}
		step(&p.d);
	}
	expect_done(&p.d);
	disks_make(&crashed, p.d.count, p.d.bytes);
	for (uint32_t at = every / 2; at <= requests.count; at += every, states++) {
		const uint32_t lost = states % 3 == 1 ? 1u << (states / 3 % 4) : 0;
		uint32_t files = 0, there = all_of(&p.d);
		struct g4_dev *dev;
		while (files < synced.count && synced.at[files] <= at)
			files++;
		disks_crash(&crashed, before, &f, &requests, at, &random);
		if (disks_try_mount(&crashed, there & ~lost, lost != 0) < 0) {
			there = rest_of(&crashed, disk);
			if (disks_try_mount(&crashed, there & ~lost, lost != 0) < 0)
				fail_msg("after %u requests without %x: %s", at, lost, crashed.message);
			without++;
		}
		disks_expect_files(&crashed, files, 1);
		expect_pieces(&p, &crashed);
		disks_unmount(&crashed);
		if (lost)
			continue;
		/* an engine goes on with it, and may have come to its end */
		if (disks_try_open(&crashed, there, false, G4_DEV_READ_ONLY, &dev) == 0)
			g4_dev_close(dev);
		else
			there = rest_of(&crashed, disk);
		disks_expect_clean(&crashed, there);
		disks_mount_fs(&crashed, there, &dev);
		if (there == all_of(&crashed)) {
			if (job(&crashed).state != G4_JOB_RUNNING)
				start(&crashed, disk);
			run(&crashed, NULL, 0, UINT32_MAX);
			expect_done(&crashed);
			there = rest_of(&crashed, disk);
		}
		assert_int_equal(disks_scrub(&crashed), 0);
		disks_unmount_fs(&crashed, dev, true);
		disks_expect_clean(&crashed, there);
		disks_mount_fs(&crashed, there & ~(1u << (states % 4)), &dev);
		disks_expect_files(&crashed, files, 1);
		expect_pieces(&p, &crashed);
		disks_unmount_fs(&crashed, dev, true);
	}
	print_message("%u requests, %u states, %u without the disk\n", requests.count, states, without);
	assert_true(states > 0);
	disks_free(&crashed);
	disks_unmount_fs(&p.d, f.set, true);
	g4_dev_close(f.fault[disk]);
	for (uint32_t n = 0; n < p.d.count; n++)
		free(before[n]);
	disks_free(&p.d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_disk_goes_where_files_lie_in_all_parts),
		cmocka_unit_test(what_has_no_room_in_pieces_is_refused),
		cmocka_unit_test(who_asks_for_rows_that_are_none_is_told),
		cmocka_unit_test(what_is_left_of_a_unit_takes_no_other_ones_bit),
		cmocka_unit_test(pieces_leave_half_of_the_table),
		cmocka_unit_test(what_does_not_fit_its_parity_becomes_no_copies),
		cmocka_unit_test(it_goes_on_after_an_unmount),
		cmocka_unit_test(the_power_fails_at_any_request),
	};

	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
