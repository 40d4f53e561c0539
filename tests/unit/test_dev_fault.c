/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fault device: what survives a power cut, which requests fail, what is recorded. Every behaviour holds over memory
 * and over a file.
 */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <time.h>

#include "dev_util.h"

#define DEVICE_BYTES (UINT64_C(4) * G4_MIB)

struct fixture {
	struct g4_wg *wg;
	struct g4_dev *dev;
	uint8_t *buffer; /* 256 KiB */
	uint64_t sector;
	char path[512]; /* file: the image */
};

static int setup_over(void **state, struct g4_dev *inner, struct fixture *f)
{
	f->wg = g4_wg_create(0);
	f->buffer = pages(256 * G4_KIB);
	f->sector = g4_dev_props(inner)->sector_bytes;
	*state = f;
	return g4_dev_fault_open(inner, &f->dev);
}

static int setup_mem(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	assert_non_null(f);
	return setup_over(state, open_device("mem:4M"), f);
}

static int setup_file(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct g4_dev *inner;
	struct g4_dev_open_options options = {.flags = G4_DEV_CREATE, .create_bytes = DEVICE_BYTES};
	assert_non_null(f);
	temporary_path(f->path, sizeof(f->path), temporary_directory());
	assert_int_equal(g4_dev_open(f->path, &options, &inner, NULL, 0), 0);
	return setup_over(state, inner, f);
}

/* A fault device over a fault device: cuts of the outer one only. */
static int setup_nested(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct g4_dev *inner;
	assert_non_null(f);
	assert_int_equal(g4_dev_fault_open(open_device("mem:4M"), &inner), 0);
	return setup_over(state, inner, f);
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	g4_dev_close(f->dev);
	if (f->path[0])
		unlink(f->path);
	free(f->buffer);
	g4_wg_destroy(f->wg);
	free(f);
	return 0;
}

/* Page `page` gets the content of `version`. */
static int put(struct fixture *f, uint64_t page, uint64_t version, uint32_t flags)
{
	fill(f->buffer, 4096, page * 4096, version);
	return g4_dev_write(f->wg, f->dev, page * 4096, f->buffer, 4096, flags);
}

/* The version that the sector of `memory` (content of device offset `offset`) holds: 0 is zeros, below 100. */
static uint64_t version_of(const uint8_t *memory, uint64_t offset)
{
	uint64_t word;
	memcpy(&word, memory, 8);
	if (word == 0)
		return 0;
	for (uint64_t version = 1; version < 100; version++) {
		if (word == (mix(offset / 8) ^ mix(version)))
			return version;
	}
	fail_msg("a sector holds what nobody wrote");
	return 0;
}

/* The version that all of page `page` holds. */
static uint64_t get(struct fixture *f, uint64_t page)
{
	assert_int_equal(g4_dev_read(f->wg, f->dev, page * 4096, f->buffer, 4096), 0);
	uint64_t version = version_of(f->buffer, page * 4096);
	if (version)
		check(f->buffer, 4096, page * 4096, version);
	return version;
}

static void cut_and_restore(struct fixture *f)
{
	assert_int_equal(g4_dev_fault_cut(f->dev), 0);
	g4_dev_fault_power_on(f->dev);
}

/* ---- without faults ---- */

static void it_is_a_queued_device_with_a_write_cache(void **state)
{
	struct fixture *f = *state;
	const struct g4_dev_props *props = g4_dev_props(f->dev);
	assert_int_equal(props->size_bytes, DEVICE_BYTES);
	assert_false(props->mapped);
	assert_true(props->volatile_cache);
	assert_null(g4_dev_map(f->dev, 0));
}

static void reads_see_the_newest_write(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(get(f, 3), 0);
	assert_int_equal(put(f, 3, 1, 0), 0);
	assert_int_equal(get(f, 3), 1);
	assert_int_equal(put(f, 3, 2, G4_IO_FUA), 0);
	assert_int_equal(get(f, 3), 2);
	assert_int_equal(put(f, 3, 3, 0), 0);
	assert_int_equal(get(f, 3), 3);
	assert_int_equal(g4_dev_flush(f->wg, f->dev), 0);
	assert_int_equal(get(f, 3), 3);
}

static void partly_overwritten_data_is_put_together(void **state)
{
	struct fixture *f = *state;
	uint64_t bytes = 16 * f->sector;
	fill(f->buffer, bytes, 0, 1);
	assert_int_equal(g4_dev_write(f->wg, f->dev, 0, f->buffer, bytes, 0), 0);
	assert_int_equal(g4_dev_flush(f->wg, f->dev), 0);
	fill(f->buffer, 2 * f->sector, 3 * f->sector, 2);
	assert_int_equal(g4_dev_write(f->wg, f->dev, 3 * f->sector, f->buffer, 2 * f->sector, 0), 0);
	fill(f->buffer, f->sector, 4 * f->sector, 3);
	assert_int_equal(g4_dev_write(f->wg, f->dev, 4 * f->sector, f->buffer, f->sector, 0), 0);
	struct g4_iov iov[2] = {{f->buffer, 4 * f->sector}, {f->buffer + 65536, 12 * f->sector}};
	struct g4_io io = {.op = G4_IO_READ, .iov = iov, .iov_count = 2};
	g4_dev_submit(f->wg, f->dev, &io);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &io), 0);
	check(f->buffer, 3 * f->sector, 0, 1);
	check(f->buffer + 3 * f->sector, f->sector, 3 * f->sector, 2);
	check(f->buffer + 65536, f->sector, 4 * f->sector, 3);
	check(f->buffer + 65536 + f->sector, 11 * f->sector, 5 * f->sector, 1);
}

static void bad_requests_are_refused_before_they_count(void **state)
{
	struct fixture *f = *state;
	uint64_t reads, writes, flushes;
	assert_int_equal(g4_dev_write(f->wg, f->dev, DEVICE_BYTES, f->buffer, 4096, 0), -G4_E_DEV_RANGE);
	assert_int_equal(g4_dev_read(f->wg, f->dev, 7, f->buffer, 4096), -G4_E_DEV_ALIGN);
	assert_int_equal(put(f, 0, 1, 0), 0);
	assert_int_equal(get(f, 0), 1);
	assert_int_equal(get(f, 0), 1);
	assert_int_equal(g4_dev_flush(f->wg, f->dev), 0);
	g4_dev_fault_counts(f->dev, &reads, &writes, &flushes);
	assert_int_equal(reads, 2);
	assert_int_equal(writes, 1);
	assert_int_equal(flushes, 1);
}

static void unwrapping_gives_everything_back(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(put(f, 5, 4, 0), 0);
	f->dev = g4_dev_fault_unwrap(f->dev);
	assert_int_equal(get(f, 5), 4);
}

/* ---- power cuts ---- */

static void flushed_and_fua_writes_survive_a_cut(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(put(f, 1, 1, 0), 0);
	assert_int_equal(g4_dev_flush(f->wg, f->dev), 0);
	assert_int_equal(put(f, 2, 2, G4_IO_FUA), 0);
	assert_int_equal(put(f, 3, 3, 0), 0);
	cut_and_restore(f);
	assert_int_equal(get(f, 1), 1);
	assert_int_equal(get(f, 2), 2);
	assert_int_equal(get(f, 3), 0);
}

/* The FUA write replaces the older unflushed one for good; the newer unflushed one is lost. */
static void a_fua_write_keeps_its_place_among_unflushed_ones(void **state)
{
	struct fixture *f = *state;
	assert_int_equal(put(f, 1, 1, 0), 0);
	assert_int_equal(put(f, 1, 2, G4_IO_FUA), 0);
	assert_int_equal(put(f, 1, 3, 0), 0);
	assert_int_equal(get(f, 1), 3);
	cut_and_restore(f);
	assert_int_equal(get(f, 1), 2);
}

static void after_the_cut_everything_fails_until_power_returns(void **state)
{
	struct fixture *f = *state;
	struct g4_fault fault = {.cut_after_writes = 2};
	struct g4_io discard = {.op = G4_IO_DISCARD, .discard_bytes = 4096};
	g4_dev_fault_set(f->dev, &fault);
	assert_int_equal(put(f, 1, 1, 0), 0);
	assert_int_equal(g4_dev_flush(f->wg, f->dev), 0);
	assert_int_equal(put(f, 2, 2, 0), 0);
	assert_int_equal(put(f, 3, 3, 0), -G4_E_IO);
	assert_int_equal(g4_dev_read(f->wg, f->dev, 0, f->buffer, 4096), -G4_E_IO);
	assert_int_equal(g4_dev_flush(f->wg, f->dev), -G4_E_IO);
	g4_dev_submit(f->wg, f->dev, &discard);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &discard), -G4_E_IO);
	g4_dev_fault_power_on(f->dev);
	assert_int_equal(get(f, 1), 1);
	assert_int_equal(get(f, 2), 0);
	assert_int_equal(get(f, 3), 0);
	assert_int_equal(put(f, 3, 3, 0), 0);
	assert_int_equal(put(f, 4, 3, 0), 0);
	assert_int_equal(put(f, 5, 3, 0), 0);
}

static void unflushed_writes_can_be_kept(void **state)
{
	struct fixture *f = *state;
	struct g4_fault fault = {.cut_after_writes = 2, .keep_unflushed = true};
	g4_dev_fault_set(f->dev, &fault);
	assert_int_equal(put(f, 1, 1, 0), 0);
	assert_int_equal(put(f, 1, 2, 0), 0);
	g4_dev_fault_power_on(f->dev);
	assert_int_equal(get(f, 1), 2);
}

static void a_cut_inside_a_write_fails_that_write(void **state)
{
	struct fixture *f = *state;
	struct g4_fault fault = {.cut_after_writes = 2, .cut_inside = true};
	g4_dev_fault_set(f->dev, &fault);
	assert_int_equal(put(f, 1, 1, G4_IO_FUA), 0);
	assert_int_equal(put(f, 2, 2, G4_IO_FUA), -G4_E_IO);
	g4_dev_fault_power_on(f->dev);
	assert_int_equal(get(f, 1), 1);
	assert_int_equal(get(f, 2), 0);
}

#define SUBSET_PAGES 64

/*
 * Flushed version 1 everywhere, then versions 2 and 3 of every page in one 8-page and one 1-page request each, then a
 * cut with `seed`. The whole device goes to `image`.
 */
static void survivors(struct fixture *f, uint64_t seed, uint8_t *image)
{
	struct g4_fault fault = {.seed = seed};
	for (uint64_t version = 1; version <= 3; version++) {
		uint64_t step = version == 3 ? 1 : 8;
		for (uint64_t page = 0; page < SUBSET_PAGES; page += step) {
			fill(f->buffer, step * 4096, page * 4096, version);
			assert_int_equal(g4_dev_write(f->wg, f->dev, page * 4096, f->buffer, step * 4096, 0), 0);
		}
		if (version == 1)
			assert_int_equal(g4_dev_flush(f->wg, f->dev), 0);
	}
	g4_dev_fault_set(f->dev, &fault);
	cut_and_restore(f);
	assert_int_equal(g4_dev_read(f->wg, f->dev, 0, image, SUBSET_PAGES * 4096), 0);
}

static void a_seed_chooses_a_repeatable_subset_of_sectors(void **state)
{
	struct fixture *f = *state;
	uint64_t seen[4] = {0};
	uint64_t torn_pages = 0;
	uint8_t *first = pages(SUBSET_PAGES * 4096);
	uint8_t *again = pages(SUBSET_PAGES * 4096);
	survivors(f, 42, first);
	for (uint64_t at = 0; at < SUBSET_PAGES * 4096; at += f->sector) {
		uint64_t version = version_of(first + at, at);
		check(first + at, f->sector, at, version);
		seen[version]++;
		torn_pages += at % 4096 && version != version_of(first + at - f->sector, at - f->sector);
	}
	assert_int_equal(seen[0], 0);
	assert_true(seen[1] > 0 && seen[2] > 0 && seen[3] > 0);
	assert_true(torn_pages > 0 || f->sector == 4096);
	survivors(f, 42, again);
	assert_memory_equal(first, again, SUBSET_PAGES * 4096);
	survivors(f, 43, again);
	assert_memory_not_equal(first, again, SUBSET_PAGES * 4096);
	free(again);
	free(first);
}

static void an_unflushed_discard_is_undone_by_a_cut(void **state)
{
	struct fixture *f = *state;
	struct g4_io io = {.op = G4_IO_DISCARD, .offset_bytes = 4096, .discard_bytes = 8192};
	for (uint64_t page = 0; page < 4; page++)
		assert_int_equal(put(f, page, 1, 0), 0);
	assert_int_equal(g4_dev_flush(f->wg, f->dev), 0);
	for (int flushed = 0; flushed < 2; flushed++) {
		g4_dev_submit(f->wg, f->dev, &io);
		assert_int_equal(g4_dev_wait(f->wg, f->dev, &io), 0);
		assert_int_equal(get(f, 0), 1);
		assert_int_equal(get(f, 1), 0);
		assert_int_equal(get(f, 2), 0);
		assert_int_equal(get(f, 3), 1);
		if (flushed)
			assert_int_equal(g4_dev_flush(f->wg, f->dev), 0);
		cut_and_restore(f);
		assert_int_equal(get(f, 1), flushed ? 0 : 1);
	}
}

static void without_a_write_cache_what_completes_is_durable(void **state)
{
	struct fixture *f = *state;
	struct g4_fault fault = {.write_through = true};
	g4_dev_fault_set(f->dev, &fault);
	assert_false(g4_dev_props(f->dev)->volatile_cache);
	assert_int_equal(put(f, 1, 1, 0), 0);
	cut_and_restore(f);
	assert_int_equal(get(f, 1), 1);
	fault.cut_after_writes = 2;
	fault.cut_inside = true;
	g4_dev_fault_set(f->dev, &fault);
	assert_int_equal(put(f, 1, 2, 0), 0);
	assert_int_equal(put(f, 1, 3, 0), -G4_E_IO);
	g4_dev_fault_power_on(f->dev);
	assert_int_equal(get(f, 1), 2);
	fault = (struct g4_fault){0};
	g4_dev_fault_set(f->dev, &fault);
	assert_true(g4_dev_props(f->dev)->volatile_cache);
	assert_int_equal(put(f, 1, 3, 0), 0);
	cut_and_restore(f);
	assert_int_equal(get(f, 1), 2);
}

/* ---- errors, rot and delay ---- */

static void the_chosen_request_fails_once(void **state)
{
	struct fixture *f = *state;
	struct g4_fault fault = {.fail_read_at = 2, .fail_write_at = 3, .fail_flush_at = 1};
	assert_int_equal(put(f, 1, 1, 0), 0);
	g4_dev_fault_set(f->dev, &fault);
	assert_int_equal(get(f, 1), 1);
	assert_int_equal(g4_dev_read(f->wg, f->dev, 4096, f->buffer, 4096), -G4_E_IO);
	assert_int_equal(get(f, 1), 1);
	assert_int_equal(put(f, 1, 2, 0), 0);
	assert_int_equal(put(f, 1, 3, 0), 0);
	assert_int_equal(put(f, 1, 4, 0), -G4_E_IO);
	assert_int_equal(get(f, 1), 3);
	assert_int_equal(put(f, 1, 5, 0), 0);
	assert_int_equal(g4_dev_flush(f->wg, f->dev), -G4_E_IO);
	assert_int_equal(g4_dev_flush(f->wg, f->dev), 0);
	cut_and_restore(f);
	assert_int_equal(get(f, 1), 5);
}

static void a_failed_flush_makes_nothing_durable(void **state)
{
	struct fixture *f = *state;
	struct g4_fault fault = {.fail_flush_at = 1};
	g4_dev_fault_set(f->dev, &fault);
	assert_int_equal(put(f, 1, 1, 0), 0);
	assert_int_equal(g4_dev_flush(f->wg, f->dev), -G4_E_IO);
	assert_int_equal(get(f, 1), 1);
	cut_and_restore(f);
	assert_int_equal(get(f, 1), 0);
}

static void flipped_bits_are_read_wherever_the_data_is(void **state)
{
	struct fixture *f = *state;
	struct g4_io discard = {.op = G4_IO_DISCARD, .offset_bytes = 8192, .discard_bytes = 4096};
	assert_int_equal(put(f, 1, 1, 0), 0);
	for (int flushed = 0; flushed < 2; flushed++) {
		assert_int_equal(get(f, 1), 1);
		uint8_t before = f->buffer[1000];
		assert_int_equal(g4_dev_fault_flip(f->dev, 4096 + 1000, 0x10), 0);
		assert_int_equal(g4_dev_read(f->wg, f->dev, 4096, f->buffer, 4096), 0);
		assert_int_equal(f->buffer[1000], before ^ 0x10);
		assert_int_equal(g4_dev_fault_flip(f->dev, 4096 + 1000, 0x10), 0);
		assert_int_equal(g4_dev_flush(f->wg, f->dev), 0);
	}
	g4_dev_submit(f->wg, f->dev, &discard);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &discard), 0);
	assert_int_equal(g4_dev_fault_flip(f->dev, 8192, 1), 0);
	assert_int_equal(g4_dev_read(f->wg, f->dev, 8192, f->buffer, 4096), 0);
	assert_int_equal(f->buffer[0], 1);
	assert_int_equal(g4_dev_fault_flip(f->dev, DEVICE_BYTES, 1), -G4_E_DEV_RANGE);
}

static uint64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* 64 requests of 20 ms each: together they take about 20 ms, not 1.3 s. */
static void delayed_requests_overlap(void **state)
{
	enum { COUNT = 64 };
	struct fixture *f = *state;
	struct g4_fault fault = {.delay_ns = 20 * 1000 * 1000};
	struct g4_iov iov = {f->buffer, 4096};
	struct g4_io ios[COUNT];
	uint64_t start = now_ms();
	for (uint64_t i = 0; i < COUNT; i++)
		ios[i] = (struct g4_io){.op = G4_IO_WRITE, .offset_bytes = i * 4096, .iov = &iov, .iov_count = 1};
	g4_dev_fault_set(f->dev, &fault);
	submit_all(f->wg, f->dev, ios, COUNT);
	assert_false(g4_dev_poll(f->wg, f->dev, &ios[COUNT - 1]));
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(g4_dev_wait(f->wg, f->dev, &ios[i]), 0);
	assert_in_range(now_ms() - start, 19, 1000);
	assert_true(g4_dev_poll(f->wg, f->dev, &ios[0]));
}

/* ---- recording ---- */

static void requests_are_recorded_in_order(void **state)
{
	struct fixture *f = *state;
	struct g4_iov iov[2];
	struct g4_io io = {.op = G4_IO_WRITE, .flags = G4_IO_FUA, .offset_bytes = 8192, .iov = iov, .iov_count = 2};
	struct g4_io discard = {.op = G4_IO_DISCARD, .offset_bytes = 4096, .discard_bytes = 4096};
	struct g4_fault fault = {.fail_write_at = 2};
	assert_int_equal(put(f, 0, 9, 0), 0);
	g4_dev_fault_record(f->dev, true);
	g4_dev_fault_set(f->dev, &fault);
	assert_int_equal(put(f, 1, 1, 0), 0);
	assert_int_equal(put(f, 1, 2, 0), -G4_E_IO);
	assert_int_equal(get(f, 1), 1);
	assert_int_equal(g4_dev_flush(f->wg, f->dev), 0);
	fill(f->buffer, 8192, 8192, 3);
	iov[0] = (struct g4_iov){f->buffer, 4096};
	iov[1] = (struct g4_iov){f->buffer + 4096, 4096};
	g4_dev_submit(f->wg, f->dev, &io);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &io), 0);
	g4_dev_submit(f->wg, f->dev, &discard);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &discard), 0);
	g4_dev_fault_record(f->dev, false);
	assert_int_equal(put(f, 7, 7, 0), 0);

	assert_int_equal(g4_dev_fault_recorded(f->dev), 4);
	const struct g4_fault_op *op = g4_dev_fault_recorded_op(f->dev, 0);
	assert_int_equal(op->op, G4_IO_WRITE);
	assert_int_equal(op->flags, 0);
	assert_int_equal(op->offset_bytes, 4096);
	assert_int_equal(op->bytes, 4096);
	check(op->data, 4096, 4096, 1);
	op = g4_dev_fault_recorded_op(f->dev, 1);
	assert_int_equal(op->op, G4_IO_FLUSH);
	assert_int_equal(op->bytes, 0);
	assert_null(op->data);
	op = g4_dev_fault_recorded_op(f->dev, 2);
	assert_int_equal(op->flags, G4_IO_FUA);
	assert_int_equal(op->bytes, 8192);
	check(op->data, 8192, 8192, 3);
	op = g4_dev_fault_recorded_op(f->dev, 3);
	assert_int_equal(op->op, G4_IO_DISCARD);
	assert_int_equal(op->offset_bytes, 4096);
	assert_int_equal(op->bytes, 4096);
	assert_null(g4_dev_fault_recorded_op(f->dev, 4));
	g4_dev_fault_record(f->dev, true);
	assert_int_equal(g4_dev_fault_recorded(f->dev), 0);
}

/* Two writes at a time, a flush before the second is known to be complete, a write after all of them. */
static void the_record_tells_which_requests_overlapped(void **state)
{
	struct fixture *f = *state;
	const struct g4_fault slow = {.delay_ns = 1000};
	struct g4_iov iov = {.base = f->buffer, .bytes = 4096};
	struct g4_io ios[3] = {{.op = G4_IO_WRITE, .iov = &iov, .iov_count = 1},
			       {.op = G4_IO_WRITE, .offset_bytes = 4096, .iov = &iov, .iov_count = 1},
			       {.op = G4_IO_FLUSH}};
	const uint64_t done_at[] = {2, 3, 3, 4, UINT64_MAX};

	g4_dev_fault_set(f->dev, &slow);
	g4_dev_fault_record(f->dev, true);
	submit_all(f->wg, f->dev, ios, 2);
	assert_int_equal(g4_dev_fault_recorded_op(f->dev, 0)->done_at, UINT64_MAX);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &ios[0]), 0);
	g4_dev_submit(f->wg, f->dev, &ios[2]);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &ios[2]), 0);
	while (!g4_dev_poll(f->wg, f->dev, &ios[1]))
		g4_pause();
	assert_int_equal(put(f, 3, 1, 0), 0);
	g4_dev_submit(f->wg, f->dev, &ios[0]);
	g4_dev_fault_record(f->dev, false);
	assert_int_equal(g4_dev_fault_recorded(f->dev), 5);
	for (uint64_t k = 0; k < 5; k++)
		assert_int_equal(g4_dev_fault_recorded_op(f->dev, k)->done_at, done_at[k]);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &ios[0]), 0);
}

static void it_is_open_until_its_last_owner_closes_it(void **state)
{
	struct fixture *f = *state;

	g4_dev_fault_share(f->dev);
	g4_dev_close(f->dev);
	assert_int_equal(put(f, 1, 1, 0), 0);
	assert_int_equal(get(f, 1), 1);
}

/* Replaying the record up to a flush gives what the device would hold after a cut there. */
struct seen {
	uint64_t requests, bytes, first_offset;
};

static void see(void *context, const struct g4_io *io)
{
	struct seen *seen = context;
	if (seen->requests++ == 0)
		seen->first_offset = io->offset_bytes;
	for (uint32_t k = 0; k < io->iov_count; k++)
		seen->bytes += io->iov[k].bytes;
}

static void a_watcher_sees_requests_before_they_are_executed(void **state)
{
	struct fixture *f = *state;
	struct seen seen = {0};
	struct g4_fault fault = {.fail_write_at = 1};
	g4_dev_fault_watch(f->dev, see, &seen);
	g4_dev_fault_set(f->dev, &fault);
	assert_int_equal(put(f, 3, 1, 0), -G4_E_IO);
	assert_int_equal(seen.requests, 1);
	assert_int_equal(seen.first_offset, 3 * 4096);
	assert_int_equal(seen.bytes, 4096);
	assert_int_equal(g4_dev_flush(f->wg, f->dev), 0);
	assert_int_equal(seen.requests, 2);
	g4_dev_fault_watch(f->dev, NULL, NULL);
	assert_int_equal(put(f, 3, 1, 0), 0);
	assert_int_equal(seen.requests, 2);
}

struct under_way {
	uint64_t now, most;
};

static void begins(void *context, const struct g4_io *io)
{
	struct under_way *under_way = context;
	(void)io;
	under_way->now++;
	under_way->most = g4_max64(under_way->most, under_way->now);
}

static void ends(void *context, const struct g4_io *io)
{
	struct under_way *under_way = context;
	assert_int_equal(g4_load32_acq(&io->done), 0);
	under_way->now--;
}

/* What overlaps on several devices is known by who watches all of them. */
static void a_watcher_sees_requests_before_they_are_complete(void **state)
{
	struct fixture *f = *state;
	struct under_way under_way = {0};
	const struct g4_fault slow = {.delay_ns = 1000, .fail_write_at = 2};
	struct g4_iov iov = {.base = f->buffer, .bytes = 4096};
	struct g4_io ios[3] = {{.op = G4_IO_WRITE, .iov = &iov, .iov_count = 1},
			       {.op = G4_IO_WRITE, .offset_bytes = 4096, .iov = &iov, .iov_count = 1},
			       {.op = G4_IO_FLUSH}};

	g4_dev_fault_watch(f->dev, begins, &under_way);
	g4_dev_fault_watch_done(f->dev, ends);
	assert_int_equal(put(f, 3, 1, 0), 0); /* without a delay it is complete at once */
	assert_int_equal(under_way.now, 0);
	assert_int_equal(under_way.most, 1);
	g4_dev_fault_set(f->dev, &slow);
	submit_all(f->wg, f->dev, ios, 3);
	assert_int_equal(under_way.now, 3);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &ios[1]), -G4_E_IO);
	assert_int_equal(under_way.now, 2);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &ios[0]), 0);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &ios[2]), 0);
	assert_int_equal(under_way.now, 0);
	g4_dev_fault_watch_done(f->dev, NULL);
	g4_dev_fault_watch(f->dev, NULL, NULL);
}

static void the_record_replays_to_the_same_device(void **state)
{
	struct fixture *f = *state;
	struct g4_dev *copy = open_device("mem:4M");
	uint8_t *map = g4_dev_map(copy, 0);
	g4_dev_fault_record(f->dev, true);
	for (uint64_t i = 0; i < 50; i++) {
		assert_int_equal(put(f, i * 7 % 16, 1 + i, i % 3 == 0 ? G4_IO_FUA : 0), 0);
		if (i % 10 == 9)
			assert_int_equal(g4_dev_flush(f->wg, f->dev), 0);
	}
	cut_and_restore(f);
	for (uint64_t i = 0; i < g4_dev_fault_recorded(f->dev); i++) {
		const struct g4_fault_op *op = g4_dev_fault_recorded_op(f->dev, i);
		if (op->op == G4_IO_WRITE)
			memcpy(map + op->offset_bytes, op->data, op->bytes);
	}
	assert_int_equal(g4_dev_read(f->wg, f->dev, 0, f->buffer, 16 * 4096), 0);
	assert_memory_equal(f->buffer, map, 16 * 4096);
	g4_dev_close(copy);
}

/* ---- many threads ---- */

struct worker {
	struct fixture *f;
	pthread_t thread;
	uint32_t index;
	uint64_t errors;
};

static void *work(void *argument)
{
	struct worker *w = argument;
	struct g4_wg *wg = g4_wg_create(w->index);
	uint8_t *memory = aligned_alloc(4096, 8192);
	for (uint64_t round = 1; round < 200; round++) {
		uint64_t offset = (w->index * 64 + round % 64) * 4096;
		fill(memory, 4096, offset, round);
		w->errors += g4_dev_write(wg, w->f->dev, offset, memory, 4096, round % 5 ? 0 : G4_IO_FUA) != 0;
		w->errors += g4_dev_read(wg, w->f->dev, offset, memory + 4096, 4096) != 0;
		w->errors += memcmp(memory, memory + 4096, 4096) != 0;
		if (round % 16 == 0)
			w->errors += g4_dev_flush(wg, w->f->dev) != 0;
	}
	free(memory);
	g4_wg_destroy(wg);
	return NULL;
}

static void threads_may_share_it(void **state)
{
	struct fixture *f = *state;
	struct worker workers[4];
	for (uint32_t i = 0; i < 4; i++) {
		workers[i] = (struct worker){.f = f, .index = i};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (uint32_t i = 0; i < 4; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].errors, 0);
	}
}

#define OVER(test)                                                                                                     \
	cmocka_unit_test_setup_teardown(test, setup_mem, teardown),                                                    \
		cmocka_unit_test_setup_teardown(test, setup_file, teardown),                                           \
		cmocka_unit_test_setup_teardown(test, setup_nested, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		OVER(it_is_a_queued_device_with_a_write_cache),
		OVER(reads_see_the_newest_write),
		OVER(partly_overwritten_data_is_put_together),
		OVER(bad_requests_are_refused_before_they_count),
		OVER(unwrapping_gives_everything_back),
		OVER(flushed_and_fua_writes_survive_a_cut),
		OVER(a_fua_write_keeps_its_place_among_unflushed_ones),
		OVER(after_the_cut_everything_fails_until_power_returns),
		OVER(unflushed_writes_can_be_kept),
		OVER(a_cut_inside_a_write_fails_that_write),
		OVER(a_seed_chooses_a_repeatable_subset_of_sectors),
		OVER(an_unflushed_discard_is_undone_by_a_cut),
		OVER(without_a_write_cache_what_completes_is_durable),
		OVER(the_chosen_request_fails_once),
		OVER(a_failed_flush_makes_nothing_durable),
		OVER(flipped_bits_are_read_wherever_the_data_is),
		OVER(delayed_requests_overlap),
		OVER(requests_are_recorded_in_order),
		OVER(the_record_tells_which_requests_overlapped),
		OVER(it_is_open_until_its_last_owner_closes_it),
		OVER(a_watcher_sees_requests_before_they_are_executed),
		OVER(a_watcher_sees_requests_before_they_are_complete),
		OVER(the_record_replays_to_the_same_device),
		OVER(threads_may_share_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
