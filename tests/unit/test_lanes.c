/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A controller's queue in the hands of lanes (dev/nvme/lanes.c), here threads: everything that a remote device does, with fewer slots
 * than there are requests, and a controller that fails, is silent, answers twice or goes away.
 */
#define _GNU_SOURCE 1
#include <pthread.h>

#include "base/log_host.h"
#include "dev/nvme/device_host.h"
#include "dev/nvme/lanes_host.h"
#include "unit/dev_util.h"

#define BUFFER_BYTES (6 * G4_MIB)
#define THREADS 3u
#define ROUNDS 6u
#define SHORT_NS UINT64_C(300000000) /* how long a controller may be silent where it is to be */

static uint8_t *buffer;
static struct g4_wg *wg;
static struct g4_emu *emu;
static struct g4_dev *dev;

static void open_on(struct g4_dev *medium, const struct g4_emu_options *emulated,
		    const struct g4_nvme_lanes_options *options)
{
	const struct g4_nvme_options queues = {.queues = 1, .lanes = true};
	char text[256] = "";
	const struct g4_dev_message message = {.text = text, .bytes = sizeof(text)};
	struct g4_dev *inner;

	if (g4_nvme_emu_device_open("emu:test", medium, emulated, &queues, &inner, &emu, message) < 0)
		fail_msg("%s", text);
	assert_int_equal(g4_dev_lanes_open(inner, options, &dev), 0);
}

static int begin(void **state)
{
	(void)state;
	g4_log_set_level(G4_LOG_ERROR);
	wg = g4_wg_create(1);
	buffer = pages(BUFFER_BYTES);
	open_on(open_device("mem:16M"), NULL, NULL);
	return wg ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	g4_dev_close(dev);
	free(buffer);
	g4_wg_destroy(wg);
	g4_log_set_level(G4_LOG_WARN);
	return 0;
}
#define lanes_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

static void again(struct g4_dev *medium, const struct g4_emu_options *emulated,
		  const struct g4_nvme_lanes_options *options)
{
	g4_dev_close(dev);
	open_on(medium, emulated, options);
}

static void write_and_read(uint64_t offset, uint64_t bytes, uint32_t flags)
{
	fill(buffer, bytes, offset, bytes + flags);
	assert_int_equal(g4_dev_write(wg, dev, offset, buffer, bytes, flags), 0);
	memset(buffer, 0, bytes);
	assert_int_equal(g4_dev_read(wg, dev, offset, buffer, bytes), 0);
	check(buffer, bytes, offset, bytes + flags);
}

static void all_shapes(void)
{
	const uint64_t sector = g4_dev_props(dev)->sector_bytes;
	const uint64_t sizes[] = {sector, 4096, 4096 + sector, 8192, 12288 + sector, 64 * 1024, G4_MIB, 5 * G4_MIB};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		write_and_read((i + 1) * sector, sizes[i], 0);
		write_and_read((i + 3) * sector, sizes[i], G4_IO_FUA);
	}
	assert_int_equal(g4_dev_flush(wg, dev), 0);
}

static void data_comes_back(void **state)
{
	const struct g4_emu_options large = {.block_bytes = 4096}, small = {.mdts = 1};
	const struct g4_nvme_lanes_options one = {.slots = 1, .chunk_bytes = 8192};

	(void)state;
	assert_int_equal(g4_dev_props(dev)->size_bytes, 16 * G4_MIB);
	assert_false(g4_dev_props(dev)->mapped);
	all_shapes();
	again(open_device("mem:16M"), &large, NULL);
	all_shapes();
	again(open_device("mem:16M"), &small, &one);
	all_shapes();
}

static void what_is_discarded_is_forgotten_and_nothing_else(void **state)
{
	struct g4_io io = {.op = G4_IO_DISCARD, .offset_bytes = 8192, .discard_bytes = 8192};

	(void)state;
	fill(buffer, 32768, 0, 1);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 32768, 0), 0);
	g4_dev_submit(wg, dev, &io);
	assert_int_equal(g4_dev_wait(wg, dev, &io), 0);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 32768), 0);
	check(buffer, 8192, 0, 1);
	check(buffer + 16384, 16384, 16384, 1);
	for (uint32_t i = 8192; i < 16384; i++) /* a medium of memory forgets */
		assert_int_equal(buffer[i], 0);
}

/* What was flushed or written with FUA is there after power was lost, the rest is not. */
static void lost_power_takes_what_was_not_flushed(void **state)
{
	const struct g4_fault settings = {0};
	struct g4_dev *fault;

	(void)state;
	assert_int_equal(g4_dev_fault_open(open_device("mem:4M"), &fault), 0);
	g4_dev_fault_set(fault, &settings);
	again(fault, NULL, NULL);
	fill(buffer, 12288, 0, 3);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), 0);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	assert_int_equal(g4_dev_write(wg, dev, 4096, buffer + 4096, 4096, G4_IO_FUA), 0);
	assert_int_equal(g4_dev_write(wg, dev, 8192, buffer + 8192, 4096, 0), 0);
	assert_int_equal(g4_dev_fault_cut(fault), 0);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), -G4_E_IO);
	g4_dev_fault_power_on(fault);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 12288), 0);
	check(buffer, 8192, 0, 3);
	for (uint32_t i = 8192; i < 12288; i++)
		assert_int_equal(buffer[i], 0);
}

/* ---- many at once ---- */

struct worker {
	pthread_t thread;
	uint32_t index;
};

static void *work(void *argument)
{
	const struct worker *w = argument;
	struct g4_wg *group = g4_wg_create(w->index + 2);
	const uint64_t base = w->index * 2 * G4_MIB;
	uint8_t *memory = pages(8 * 16384);
	struct g4_iov iov[8];
	struct g4_io io[8];

	for (uint32_t round = 0; round < ROUNDS; round++)
		for (uint32_t pass = 0; pass < 2; pass++) {
			for (uint32_t i = 0; i < 8; i++) {
				iov[i] = (struct g4_iov){.base = memory + i * 16384,
							 .bytes = 512 * (1 + (round + i) % 32)};
				io[i] = (struct g4_io){.op = pass ? G4_IO_READ : G4_IO_WRITE,
						       .offset_bytes = base + i * 65536,
						       .iov = &iov[i],
						       .iov_count = 1};
				if (pass)
					memset(iov[i].base, 0, iov[i].bytes);
				else
					fill(iov[i].base, iov[i].bytes, io[i].offset_bytes, round);
			}
			submit_all(group, dev, io, 8);
			for (uint32_t i = 0; i < 8; i++) {
				while (w->index == 0 && !g4_dev_poll(group, dev, &io[i]))
					g4_pause();
				assert_int_equal(g4_dev_wait(group, dev, &io[i]), 0);
				if (pass)
					check(iov[i].base, iov[i].bytes, io[i].offset_bytes, round);
			}
		}
	free(memory);
	g4_wg_destroy(group);
	return NULL;
}

static void run_workers(void)
{
	struct worker workers[THREADS];

	for (uint32_t i = 0; i < THREADS; i++) {
		workers[i].index = i;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
}

static void many_threads_share_few_slots(void **state)
{
	const struct g4_nvme_lanes_options options[] = {{.slots = 1}, {.slots = 3, .chunk_bytes = 4096}, {0}};

	(void)state;
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		again(open_device("mem:16M"), NULL, &options[i]);
		run_workers();
		g4_emu_set(emu, &(struct g4_emu_faults){.shuffle = 42, .latency_ns = 20000});
		run_workers();
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
		write_and_read(i * 512, 512, 0);
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
	again(open_device("mem:16M"), NULL, &impatient);
	g4_emu_set(emu, &(struct g4_emu_faults){.mute_at = 1});
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 5 * G4_MIB, 0), -G4_E_IO);
	all_fails_and_nothing_hangs();
}

static void a_controller_that_fails_or_vanishes_fails_all(void **state)
{
	const struct g4_emu_faults faults[] = {{.fatal_at = 2}, {.vanish_at = 2}, {.reset_at = 2}};

	(void)state;
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
	assert_int_equal(g4_nvme_keeper_open(plain, NULL, &keeper), -G4_E_NOTSUP);
	assert_int_equal(g4_nvme_emu_device_open("emu:test", plain, NULL, &queues, &inner, NULL, none), 0);
	assert_int_equal(g4_nvme_keeper_open(inner, NULL, &keeper), -G4_E_NOTSUP);
	g4_dev_close(inner);
}

int main(void)
{
	const struct CMUnitTest tests[] = {lanes_test(data_comes_back),
					   lanes_test(what_is_discarded_is_forgotten_and_nothing_else),
					   lanes_test(lost_power_takes_what_was_not_flushed),
					   lanes_test(many_threads_share_few_slots),
					   lanes_test(a_status_without_dnr_is_tried_again_but_a_flush),
					   lanes_test(a_status_with_dnr_is_an_error_at_once),
					   lanes_test(a_completion_that_nobody_waits_for_is_counted_and_forgotten),
					   lanes_test(a_controller_that_is_silent_fails_all),
					   lanes_test(a_controller_that_fails_or_vanishes_fails_all),
					   lanes_test(devices_without_such_a_queue_are_refused)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
