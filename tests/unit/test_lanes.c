/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A controller's queue, and several, in the hands of lanes (dev/nvme/lanes.c), here threads: everything that a remote device does, with fewer slots
 * than there are requests, and a controller that fails, is silent, answers twice or goes away.
 */
#define _GNU_SOURCE 1
#include "unit/nvme/emulated.h"

#define THREADS 3u
#define ROUNDS 6u

static struct g4_dev *dev;
static uint32_t resets; /* what the next controller may have; 0: the default */
static uint32_t queues_of_lanes = 1;

static void open_on(struct g4_dev *medium, const struct g4_emu_options *emulated,
		    const struct g4_nvme_lanes_options *options)
{
	const struct g4_nvme_options queues = {.queues = 1, .resets = resets, .lanes = queues_of_lanes};

	dev = open_lanes(medium, emulated, &queues, options);
}

static int begin(void **state)
{
	const int rc = begin_emulated(state);

	resets = 0;
	open_on(open_device("mem:16M"), NULL, NULL);
	return rc;
}

static int end(void **state)
{
	g4_dev_close(dev);
	return end_emulated(state);
}
#define lanes_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

static void again(struct g4_dev *medium, const struct g4_emu_options *emulated,
		  const struct g4_nvme_lanes_options *options)
{
	g4_dev_close(dev);
	open_on(medium, emulated, options);
}

/* As by the host's queues; the controller fails commands that cross its boundary, and those of other sizes. */
static void sizes_of_the_drive_are_kept(void **state)
{
	(void)state;
	for (uint32_t boundary = 1; boundary < 300; boundary = 3 * boundary + 1) {
		const struct g4_emu_options options = {.boundary = boundary};
		again(open_device("mem:16M"), &options, NULL);
		write_and_read(dev, 512, 0, 65536, 0);
		write_and_read(dev, 4096, 0, 65536 + 512, G4_IO_FUA);
	}
	for (uint32_t write = 1; write < 16; write = 2 * write + 1) {
		const struct g4_emu_options options = sizes_for(write);
		again(open_device("mem:16M"), &options, NULL);
		writes_are_cut_at_granules(dev, write);
	}
	granules_are_discarded(dev);
	const struct g4_emu_options whole[] = {ATOMIC_CASES};
	for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
		again(open_device("mem:16M"), &whole[i], NULL);
		short_writes_are_whole(dev);
	}
}

/* One command is all that lanes send: what exceeds it keeps its contents, as it may. */
static void limits_of_discards_are_kept(void **state)
{
	const struct g4_emu_options cases[] = {LIMIT_CASES};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct g4_emu_options options = limited(cases[i]);
		again(open_device("mem:16M"), &options, NULL);
		if (options.discard_ranges != 1) {
			granules_are_discarded(dev);
			continue;
		}
		fill(buffer, 65536, 0, 1);
		assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 65536, 0), 0);
		discard_sectors(dev, 8, 5 * DISCARDS_OF);
		assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 65536), 0);
		for (uint64_t at = 8 * 512; at < (8 + 2 * DISCARDS_OF) * 512; at++)
			assert_int_equal(buffer[at], 0);
		fill(buffer + 8 * 512, 2 * DISCARDS_OF * 512, 8 * 512, 1);
		check(buffer, 65536, 0, 1);
	}
}

static void data_comes_back(void **state)
{
	const struct g4_emu_options large = {.block_bytes = 4096}, small = {.mdts = 1};
	const struct g4_nvme_lanes_options one = {.slots = 1, .chunk_bytes = 8192};

	(void)state;
	assert_int_equal(g4_dev_props(dev)->size_bytes, 16 * G4_MIB);
	assert_false(g4_dev_props(dev)->mapped);
	all_shapes(dev);
	again(open_device("mem:16M"), &large, NULL);
	all_shapes(dev);
	again(open_device("mem:16M"), &small, &one);
	all_shapes(dev);
}

static void what_is_discarded_is_forgotten_and_nothing_else(void **state)
{
	(void)state;
	discards(dev);
}

static void lost_power_takes_what_was_not_flushed(void **state)
{
	struct g4_dev *const fault = open_fault();

	(void)state;
	again(fault, NULL, NULL);
	loses_what_was_not_flushed(dev, fault);
}

/* ---- many at once ---- */

static void many_threads_share_few_slots(void **state)
{
	const struct g4_nvme_lanes_options options[] = {{.slots = 1}, {.slots = 3, .chunk_bytes = 4096}, {0}};

	(void)state;
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		again(open_device("mem:16M"), NULL, &options[i]);
		run_workers(dev, THREADS, ROUNDS);
		g4_emu_set(emu, &(struct g4_emu_faults){.shuffle = 42, .latency_ns = 20000});
		run_workers(dev, THREADS, ROUNDS);
		assert_int_equal(g4_dev_lanes_counts(dev).stray, 0);
	}
}

/* ---- a controller that does not do what it should ---- */

static void a_status_without_dnr_is_tried_again_but_a_flush(void **state)
{
	(void)state;
	fill(buffer, 4096, 0, 9);
	g4_emu_set(emu, &(struct g4_emu_faults){.fail_at = 1, .fail_count = 3, .status = G4_NVME_INTERNAL_ERROR});
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), 0);
	assert_int_equal(g4_dev_lanes_counts(dev).retried, 3);
	g4_emu_set(emu, &(struct g4_emu_faults){
				.fail_at = 1, .fail_count = G4_NVME_TRIES, .status = G4_NVME_INTERNAL_ERROR});
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), -G4_E_IO);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), 0);
	check(buffer, 4096, 0, 9);
	const uint64_t before = g4_dev_lanes_counts(dev).retried;
	g4_emu_set(emu, &(struct g4_emu_faults){.fail_at = 1, .fail_count = 1, .status = G4_NVME_INTERNAL_ERROR});
	assert_int_equal(g4_dev_flush(wg, dev), -G4_E_IO);
	assert_int_equal(g4_dev_lanes_counts(dev).retried, before);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
}

static void a_status_with_dnr_is_an_error_at_once(void **state)
{
	const struct {
		uint32_t status;
		int code;
	} cases[] = {{G4_NVME_WRITE_FAULT, -G4_E_IO},
		     {G4_NVME_CAPACITY, -G4_E_NOSPC},
		     {G4_NVME_READ_ONLY, -G4_E_DEV_READONLY}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		g4_emu_set(emu, &(struct g4_emu_faults){.fail_at = i + 1, .status = cases[i].status | G4_NVME_DNR});
		assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 5 * G4_MIB, 0), cases[i].code);
		assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 5 * G4_MIB, 0), 0);
	}
	assert_int_equal(g4_dev_lanes_counts(dev).retried, 0);
	assert_int_equal(g4_dev_lanes_counts(dev).failed, 3);
}

static void a_completion_that_nobody_waits_for_is_counted_and_forgotten(void **state)
{
	(void)state;
	g4_emu_set(emu, &(struct g4_emu_faults){.phantom_at = 1});
	for (uint32_t i = 0; i < 300; i++)
		write_and_read(dev, i * 512, 0, 512, 0);
	assert_int_equal(g4_dev_lanes_counts(dev).stray, 1);
}

static void all_fails_and_nothing_hangs(void)
{
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 512), -G4_E_IO);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, G4_MIB, G4_IO_FUA), -G4_E_IO);
	assert_int_equal(g4_dev_flush(wg, dev), -G4_E_IO);
}

static void a_controller_that_is_silent_fails_all(void **state)
{
	const struct g4_nvme_lanes_options impatient = {.timeout_ns = SHORT_NS};

	(void)state;
	resets = G4_NVME_NO_RESETS;
	again(open_device("mem:16M"), NULL, &impatient);
	g4_emu_set(emu, &(struct g4_emu_faults){.mute_at = 1, .aborts = G4_EMU_ABORTS_IN_VAIN});
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 5 * G4_MIB, 0), -G4_E_IO);
	all_fails_and_nothing_hangs();
}

static void a_controller_that_fails_or_vanishes_fails_all(void **state)
{
	const struct g4_emu_faults faults[] = {{.fatal_at = 2}, {.vanish_at = 2}, {.reset_at = 2}};

	(void)state;
	resets = G4_NVME_NO_RESETS;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		again(open_device("mem:16M"), NULL, NULL);
		g4_emu_set(emu, &faults[i]);
		assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 5 * G4_MIB, 0), -G4_E_IO);
		all_fails_and_nothing_hangs();
	}
}

static void devices_without_such_a_queue_are_refused(void **state)
{
	const struct g4_nvme_options queues = {.queues = 1};
	const struct g4_dev_message none = {0};
	struct g4_dev *plain = open_device("mem:16M"), *inner;
	struct g4_nvme_keeper *keeper;

	(void)state;
	assert_int_equal(g4_nvme_keeper_open(plain, NULL, &keeper, none), -G4_E_NOTSUP);
	assert_int_equal(g4_nvme_emu_device_open("emu:test", plain, NULL, &queues, &inner, NULL, none), 0);
	assert_int_equal(g4_nvme_keeper_open(inner, NULL, &keeper, none), -G4_E_NOTSUP);
	g4_dev_close(inner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {lanes_test(data_comes_back),
					   lanes_test(sizes_of_the_drive_are_kept),
					   lanes_test(limits_of_discards_are_kept),
					   lanes_test(what_is_discarded_is_forgotten_and_nothing_else),
					   lanes_test(lost_power_takes_what_was_not_flushed),
					   lanes_test(many_threads_share_few_slots),
					   lanes_test(a_status_without_dnr_is_tried_again_but_a_flush),
					   lanes_test(a_status_with_dnr_is_an_error_at_once),
					   lanes_test(a_completion_that_nobody_waits_for_is_counted_and_forgotten),
					   lanes_test(a_controller_that_is_silent_fails_all),
					   lanes_test(a_controller_that_fails_or_vanishes_fails_all),
					   lanes_test(devices_without_such_a_queue_are_refused)};

	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	queues_of_lanes = 3;
	failed += cmocka_run_group_tests(tests, NULL, NULL);
	return failed;
}
