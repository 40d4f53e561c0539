/* SPDX-License-Identifier: Apache-2.0 */
/* Which disks of a set are asked: a flush goes to those that were written since their last one, a read to the copy that is less busy. */
#include "disks.h"

#include "simt/simt_host.h"

#define AT (8 * G4_MIB) /* behind the journal */

static uint64_t flushes_of(const struct faulty *f, uint32_t disk)
{
	uint64_t reads, writes, flushes;

	g4_dev_fault_counts(f->fault[disk], &reads, &writes, &flushes);
	return flushes;
}

static uint64_t reads_of(const struct faulty *f, uint32_t disk)
{
	uint64_t reads, writes, flushes;

	g4_dev_fault_counts(f->fault[disk], &reads, &writes, &flushes);
	return reads;
}

/* The disks that a flush of the set asks. */
static uint32_t flush(struct g4_wg *wg, const struct faulty *f, uint32_t count)
{
	uint64_t before[MOST_DISKS];
	uint32_t asked = 0;

	for (uint32_t n = 0; n < count; n++)
		before[n] = flushes_of(f, n);
	assert_int_equal(g4_dev_flush(wg, f->set), 0);
	for (uint32_t n = 0; n < count; n++) {
		assert_true(flushes_of(f, n) <= before[n] + 1);
		asked |= (uint32_t)(flushes_of(f, n) > before[n]) << n;
	}
	return asked;
}

static void a_flush_asks_the_disks_that_were_written(void **state)
{
	static const struct {
		enum g4_raid raid;
		uint32_t copies;
	} cases[] = {{G4_RAID_0, 0}, {G4_RAID_1, 2}};

	(void)state;
	for (uint32_t c = 0; c < 2; c++) {
		struct g4_wg *wg = g4_wg_create(9);
		uint8_t *page = rig_memory(G4_PAGE_BYTES, 3);
		struct faulty f;
		struct disks d;
		disks_make(&d, 4, NULL);
		disks_format_copies(&d, cases[c].raid, cases[c].copies, G4_CHECKSUM_NONE);
		disks_open_faulty(&d, &f);
		(void)flush(wg, &f, 4);
		for (uint64_t at = AT; at < AT + 8 * G4_MIB; at += G4_MIB / 2) {
			const uint32_t disks = (uint32_t)g4_dev_disks_at(wg, f.set, at);
			assert_int_equal(g4_dev_write(wg, f.set, at, page, G4_PAGE_BYTES, 0), 0);
			assert_int_equal(flush(wg, &f, 4), disks);
			assert_int_equal(flush(wg, &f, 4), 0);
			assert_int_equal(g4_dev_write(wg, f.set, at, page, G4_PAGE_BYTES, G4_IO_FUA), 0);
			assert_int_equal(flush(wg, &f, 4), 0);
		}
		g4_dev_close(f.set);
		free(page);
		g4_wg_destroy(wg);
		disks_free(&d);
	}
}

/*
 * Whoever had the set before may have been killed between a write and its flush. What he wrote is found, so it is durable when a flush
 * of the next one says so.
 */
static void what_was_written_before_the_set_was_opened_is_flushed(void **state)
{
	const struct g4_set_options options = {.degraded = false};
	struct g4_wg *wg = g4_wg_create(9);
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 3), *found = rig_memory(G4_PAGE_BYTES, 4);
	const char *names[4];
	struct faulty f;
	struct disks d;

	(void)state;
	disks_make(&d, 4, NULL);
	disks_format_copies(&d, G4_RAID_0, 0, G4_CHECKSUM_NONE);
	disks_open_faulty(&d, &f);
	for (uint64_t at = AT; at < AT + 4 * G4_MIB; at += G4_MIB / 2)
		assert_int_equal(g4_dev_write(wg, f.set, at, page, G4_PAGE_BYTES, 0), 0);
	for (uint32_t n = 0; n < 4; n++) {
		names[n] = d.names[n];
		g4_dev_fault_share(f.fault[n]);
	}
	g4_dev_close(f.set);
	assert_int_equal(g4_set_assemble(f.fault, names, 4, &options, &f.set, d.message, sizeof(d.message)), 0);
	assert_int_equal(g4_dev_flush(wg, f.set), 0);
	for (uint32_t n = 0; n < 4; n++) {
		assert_int_equal(g4_dev_fault_cut(f.fault[n]), 0);
		g4_dev_fault_power_on(f.fault[n]);
	}
	for (uint64_t at = AT; at < AT + 4 * G4_MIB; at += G4_MIB / 2) {
		assert_int_equal(g4_dev_read(wg, f.set, at, found, G4_PAGE_BYTES), 0);
		assert_memory_equal(found, page, G4_PAGE_BYTES);
	}
	g4_dev_close(f.set);
	free(page);
	free(found);
	g4_wg_destroy(wg);
	disks_free(&d);
}

/* It may be complete on the disk before the flush began, or be none of it: the set knows only who has been told that it is. */
static void a_write_that_ends_behind_a_flush_is_flushed_by_the_next(void **state)
{
	struct g4_wg *wg = g4_wg_create(9);
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 3);
	struct g4_iov iov = {page, G4_PAGE_BYTES};
	struct g4_io io = {.op = G4_IO_WRITE, .offset_bytes = AT, .iov = &iov, .iov_count = 1};
	struct faulty f;
	struct disks d;

	(void)state;
	disks_make(&d, 4, NULL);
	disks_format_copies(&d, G4_RAID_0, 0, G4_CHECKSUM_NONE);
	disks_open_faulty(&d, &f);
	(void)flush(wg, &f, 4);
	const uint32_t disk = (uint32_t)g4_dev_disks_at(wg, f.set, AT);
	g4_dev_submit(wg, f.set, &io);
	(void)flush(wg, &f, 4);
	assert_int_equal(g4_dev_wait(wg, f.set, &io), 0);
	assert_int_equal(flush(wg, &f, 4), disk);
	assert_int_equal(flush(wg, &f, 4), 0);
	g4_dev_close(f.set);
	free(page);
	g4_wg_destroy(wg);
	disks_free(&d);
}

/* What could not be flushed is not taken for flushed. */
static void a_flush_that_fails_counts_for_nothing(void **state)
{
	const struct g4_fault fails = {.fail_flush_at = 1};
	struct g4_wg *wg = g4_wg_create(9);
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 3);
	struct faulty f;
	struct disks d;

	(void)state;
	disks_make(&d, 4, NULL);
	disks_format_copies(&d, G4_RAID_0, 0, G4_CHECKSUM_NONE);
	disks_open_faulty(&d, &f);
	(void)flush(wg, &f, 4);
	const uint32_t disk = (uint32_t)g4_dev_disks_at(wg, f.set, AT);
	assert_int_equal(g4_dev_write(wg, f.set, AT, page, G4_PAGE_BYTES, 0), 0);
	g4_dev_fault_set(f.fault[__builtin_ctz(disk)], &fails);
	assert_int_equal(g4_dev_flush(wg, f.set), -G4_E_IO);
	assert_int_equal(flush(wg, &f, 4), disk);
	g4_dev_close(f.set);
	free(page);
	g4_wg_destroy(wg);
	disks_free(&d);
}

/*
 * With parity: what is held, and could not be made durable without disks that can not be done without, is promised by no later flush either,
 * though all disks work again, whether the log could not be written or not be flushed.
 */
static void what_is_held_is_promised_by_no_flush_after_one_that_failed(void **state)
{
	const struct g4_fault fails[] = {{.fail_flush_at = 1}, {.fail_write_at = 1}};

	(void)state;
	for (uint32_t k = 0; k < 4; k++) { /* a page, and more than are written behind the caller's back */
		struct g4_wg *wg = g4_wg_create(9);
		uint8_t *page = rig_memory(G4_PAGE_BYTES, 3);
		struct g4_chunk chunk;
		struct faulty f;
		struct disks d;
		disks_make(&d, 4, NULL);
		disks_format_rows(&d, 1, G4_CHECKSUM_NONE);
		disks_open_faulty(&d, &f);
		for (uint32_t n = 0; g4_set_chunk(f.set, n, &chunk) && chunk.parity == 0; n++)
			;
		assert_int_equal(chunk.parity, 1);
		for (uint32_t n = 0; n < (k / 2 ? 100u : 1u); n++)
			assert_int_equal(g4_dev_write(wg, f.set, chunk.address + n * 4 * ROWS_STRIPE, page,
						      G4_PAGE_BYTES, 0),
					 0);
		for (uint32_t n = 0; n < 4; n++)
			g4_dev_fault_set(f.fault[n], &fails[k % 2]);
		assert_int_equal(g4_dev_flush(wg, f.set), -G4_E_IO);
		for (uint32_t again = 0; again < 3; again++)
			assert_int_equal(g4_dev_flush(wg, f.set), -G4_E_IO);
		g4_dev_close(f.set);
		free(page);
		g4_wg_destroy(wg);
		disks_free(&d);
	}
}

/* With parity: the record of the journal and the entry of the log lie on the same two disks, and what goes to its place has the log. */
static void an_overwrite_of_a_row_flushes_two_disks(void **state)
{
	uint8_t *page = rig_memory(G4_PAGE_BYTES, 5);
	uint64_t ino, done, before[4];
	struct faulty f;
	struct disks d;

	(void)state;
	disks_make(&d, 4, NULL);
	disks_format_rows(&d, 1, G4_CHECKSUM_NONE);
	disks_open_faulty(&d, &f);
	disks_mount_faulty(&d, &f);
	assert_int_equal(op_mknod(&d.rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0644, &ino), 0);
	for (uint32_t n = 0; n < 12; n++) {
		assert_int_equal(op_write(&d.rig, ino, 0, n * UINT64_C(4096), page, G4_PAGE_BYTES, &done), 0);
		assert_int_equal(op_fsync(&d.rig, ino), 0);
	}
	for (uint32_t k = 0; k < 4; k++)
		before[k] = flushes_of(&f, k);
	for (uint32_t n = 0; n < 6; n++) {
		assert_int_equal(op_write(&d.rig, ino, 0, n * UINT64_C(4096), page, G4_PAGE_BYTES, &done), 0);
		assert_int_equal(op_fsync(&d.rig, ino), 0);
	}
	uint64_t asked = 0;
	for (uint32_t k = 0; k < 4; k++)
		asked += flushes_of(&f, k) - before[k];
	assert_int_equal(asked, 12);
	disks_unmount(&d);
	disks_expect_clean(&d, 15);
	free(page);
	disks_free(&d);
}

static void a_read_goes_to_the_copy_that_is_less_busy(void **state)
{
	struct g4_wg *wg = g4_wg_create(9);
	uint8_t *large = rig_memory(64 * 1024, 3), *page = rig_memory(G4_PAGE_BYTES, 4);
	struct g4_iov iov = {large, 64 * 1024};
	struct g4_io io = {.op = G4_IO_READ, .offset_bytes = AT, .iov = &iov, .iov_count = 1};
	struct faulty f;
	struct disks d;
	uint64_t before[2];

	(void)state;
	disks_make(&d, 2, NULL);
	disks_format_copies(&d, G4_RAID_1, 2, G4_CHECKSUM_NONE);
	disks_open_faulty(&d, &f);
	for (uint32_t k = 0; k < 2; k++)
		before[k] = reads_of(&f, k);
	g4_dev_submit(wg, f.set, &io);
	const uint32_t busy = reads_of(&f, 1) > before[1];
	for (uint32_t k = 0; k < 2; k++)
		before[k] = reads_of(&f, k);
	for (uint32_t n = 0; n < 5; n++)
		assert_int_equal(g4_dev_read(wg, f.set, AT + n * G4_PAGE_BYTES, page, G4_PAGE_BYTES), 0);
	assert_int_equal(reads_of(&f, busy), before[busy]);
	assert_int_equal(reads_of(&f, 1 - busy), before[1 - busy] + 5);
	assert_int_equal(g4_dev_wait(wg, f.set, &io), 0);
	/* none is: neighbouring MiB lie on other copies, and what was read keeps nobody busy */
	for (uint32_t n = 0; n < 4; n++)
		assert_int_equal(g4_dev_read(wg, f.set, AT + n * G4_MIB, page, G4_PAGE_BYTES), 0);
	assert_int_equal(reads_of(&f, busy), before[busy] + 2);
	assert_int_equal(reads_of(&f, 1 - busy), before[1 - busy] + 7);
	g4_dev_close(f.set);
	free(page);
	free(large);
	g4_wg_destroy(wg);
	disks_free(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flush_asks_the_disks_that_were_written),
		cmocka_unit_test(what_was_written_before_the_set_was_opened_is_flushed),
		cmocka_unit_test(a_write_that_ends_behind_a_flush_is_flushed_by_the_next),
		cmocka_unit_test(a_flush_that_fails_counts_for_nothing),
		cmocka_unit_test(what_is_held_is_promised_by_no_flush_after_one_that_failed),
		cmocka_unit_test(an_overwrite_of_a_row_flushes_two_disks),
		cmocka_unit_test(a_read_goes_to_the_copy_that_is_less_busy),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
