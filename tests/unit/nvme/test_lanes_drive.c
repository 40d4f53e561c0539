/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of a drive in the hands of an engine's lanes, here threads: a controller that nobody wakes, whose addresses are at a distance, that does
 * not reach all memory; and one that the system asks for while lanes have it. It is given away when they have left, and not before.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/memory_host.h"
#include "dev/nvme/leaving_host.h"
#include "unit/nvme/emulated.h"

#define ELSEWHERE (UINT64_C(1) << 40)
#define QUEUES 3u /* of lanes */
#define THREADS 4u
#define ROUNDS 20u
#define REGISTERS_BYTES 8192u

static struct g4_dev *dev;	     /* the lanes' */
static struct g4_dev *medium;	     /* of the next drive; NULL: memory */
static uint64_t shift, reaches_most; /* bytes of one piece */
static uint32_t asks;		     /* for memory */
static int asked;
static uint32_t gone, gone_from_lanes;
static bool touched; /* since it was let go of */
static uint8_t *registers;
static uint64_t controller;		    /* struct g4_nvme, for the thread that lets go of it */
static uint32_t given[REGISTERS_BYTES / 4]; /* what they were when it was let go of */

static bool reaches(void *context, const void *memory, uint64_t bytes)
{
	(void)context;
	(void)memory;
	g4_add32(&asks, 1);
	errno = ENOMEM;
	return bytes <= reaches_most;
}

/* Copies them, without what the controller says by itself: its status. */
static void look_at_registers(uint32_t *copy)
{
	for (uint32_t i = 0; i < REGISTERS_BYTES / 4; i++)
		copy[i] = i == G4_NVME_CSTS / 4 ? 0 : g4_load32_rlx((const uint32_t *)(void *)registers + i);
}

static void (*close_emulated)(void *context);

static void close_and_compare(void *context)
{
	static uint32_t now[REGISTERS_BYTES / 4];

	look_at_registers(now);
	touched = gone && memcmp(now, given, sizeof(given)) != 0;
	close_emulated(context);
}

static void let_go(void *context)
{
	(void)context;
	gone_from_lanes = ((const struct g4_nvme *)(uintptr_t)g4_load64_acq(&controller))->lanes_taken;
	look_at_registers(given);
	g4_add32(&gone, 1);
}

static void open_drive(void)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};
	const struct g4_emu_options emulated = {.drive = true, .shift = shift};
	const struct g4_nvme_options options = {.queues = 1, .slots = 8, .lanes = QUEUES, .timeout_ns = 100 * SHORT_NS};
	struct g4_nvme_provider provider;

	assert_int_equal(g4_emu_open(medium ? medium : open_device("mem:16M"), &emulated, &emu, &provider), 0);
	assert_null(provider.stay_awake);
	registers = provider.registers;
	provider.shift = shift;
	provider.reach = reaches;
	provider.asked = asked;
	provider.let_go = let_go;
	close_emulated = provider.close;
	provider.close = close_and_compare;
	if (g4_nvme_device_open("nvme:test", &provider, &options, &host_side, sentence) < 0)
		fail_msg("%s", message);
	g4_store64_rel(&controller, (uintptr_t)g4_nvme_of(host_side));
}

static void open_lanes_of_drive(void)
{
	open_drive();
	assert_int_equal(g4_dev_lanes_open(host_side, NULL, &dev, (struct g4_dev_message){0}), 0);
}

static int begin(void **state)
{
	begin_emulated(state);
	medium = NULL;
	shift = 0;
	reaches_most = UINT64_MAX;
	gone = gone_from_lanes = 0;
	touched = false;
	asked = eventfd(0, EFD_CLOEXEC);
	return asked < 0 ? -1 : 0;
}

static int end(void **state)
{
	g4_nvme_before_leaving(NULL, NULL);
	close(asked);
	return end_emulated(state);
}
#define drive_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

static void ask(void)
{
	const uint64_t one = 1;

	assert_int_equal(write(asked, &one, sizeof(one)), sizeof(one));
}

static void await(const uint32_t *what)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	while (g4_load32_acq(what) == 0)
		nanosleep(&nap, NULL);
}

/* ---- addresses ---- */

static void lanes_name_memory_where_the_controller_has_it(void **state)
{
	(void)state;
	shift = ELSEWHERE;
	open_lanes_of_drive();
	all_shapes(dev); /* in the command, by two pages, by a list */
	discards(dev);	 /* ranges in a chunk */
	run_workers(dev, THREADS, ROUNDS);
	set((struct g4_emu_faults){.fatal_at = 3}); /* queues are made again */
	all_shapes(dev);
	assert_int_equal(g4_nvme_device_counts(host_side).resets, 1);
	assert_true(g4_dev_lanes_counts(dev).completed > 0);
	g4_dev_close(dev);
}

/* What lanes are to reach: whole pages, of which the registers' are those with the doorbells of their queues and no more. */
static void pieces_are_what_lanes_use(void **state)
{
	const struct g4_dev_message none = {0};
	struct g4_nvme_keeper *keeper;
	uint64_t bytes;
	bool io;

	(void)state;
	open_drive();
	assert_int_equal(g4_nvme_keeper_open(host_side, NULL, &keeper, none), 0);
	for (uint32_t i = 0; i < G4_NVME_KEEPER_PIECES; i++) {
		const uint8_t *at = g4_nvme_keeper_memory(keeper, i, &bytes, &io);
		assert_int_equal((uintptr_t)at % G4_PAGE_BYTES + bytes % G4_PAGE_BYTES, 0);
		assert_false(io); /* of an emulated controller all is memory */
		if (i != 1)
			continue;
		assert_ptr_equal(at, registers + G4_NVME_DOORBELLS);
		assert_int_equal(bytes, G4_PAGE_BYTES);
	}
	g4_nvme_keeper_rest(keeper, false);
	g4_nvme_keeper_rest(keeper, true);
	g4_nvme_keeper_close(keeper);
	g4_dev_close(host_side);
}

/* ---- the first command ---- */

static struct g4_nvme_lanes tried[QUEUES] __attribute__((aligned(128)));
static struct g4_dev seen; /* by them */

static void read_by_each(uint64_t seed);

static struct g4_nvme_keeper *open_tried(void)
{
	const struct g4_dev_message none = {0};
	static struct g4_remote remote[QUEUES];
	struct g4_nvme_keeper *keeper;

	assert_int_equal(g4_nvme_keeper_open(host_side, NULL, &keeper, none), 0);
	assert_int_equal(g4_nvme_keeper_queues(keeper), QUEUES);
	g4_nvme_keeper_describe(keeper, tried, tried, remote, remote, &seen);
	return keeper;
}

static void lanes_that_reach_the_drive_read_what_the_host_reads(void **state)
{
	(void)state;
	shift = ELSEWHERE;
	open_drive();
	fill(buffer, 65536, 0, 1);
	assert_int_equal(g4_dev_write(wg, host_side, 0, buffer, 65536, 0), 0);
	struct g4_nvme_keeper *keeper = open_tried();
	for (uint32_t i = 0; i < QUEUES; i++) {
		assert_int_equal(g4_nvme_lanes_try(&tried[i], UINT64_MAX), 0);
		check(tried[i].staging, g4_nvme_lanes_try_bytes(&tried[i]), 0, 1);
	}
	set((struct g4_emu_faults){.fail_at = 1, .fail_count = 1, .status = G4_NVME_READ_FAULT | G4_NVME_DNR});
	assert_int_equal(g4_nvme_lanes_try(&tried[0], UINT64_MAX), -G4_E_IO);
	g4_nvme_keeper_close(keeper);
	g4_dev_close(host_side);
}

/* Its command may be anywhere: resets go on without it, and so does the drive's leave, though its memory is still there. */
static void lanes_that_do_not_reach_the_drive_are_abandoned(void **state)
{
	static uint32_t nowhere;

	(void)state;
	open_drive();
	struct g4_nvme_keeper *keeper = open_tried();
	tried[0].flight.pair.tail_doorbell = &nowhere;
	assert_int_equal(g4_nvme_lanes_try(&tried[0], 1000000), -G4_E_AGAIN);
	assert_true(nowhere != 0);
	g4_nvme_keeper_abandon(keeper);
	all_shapes(host_side);
	set((struct g4_emu_faults){.fatal_at = 3});
	all_shapes(host_side);
	assert_int_equal(g4_nvme_device_counts(host_side).resets, 1);
	ask();
	await(&gone);
	g4_nvme_keeper_close(keeper);
	g4_dev_close(host_side);
}

/* A GPU may end in the middle of them. What the drive does then it does with memory that is still its own. */
static void lanes_may_leave_commands_under_way(void **state)
{
	const struct g4_remote_request request = {.op = G4_IO_READ, .bytes = 65536};

	(void)state;
	open_drive();
	set((struct g4_emu_faults){.latency_ns = 30000000});
	struct g4_nvme_keeper *keeper = open_tried();
	for (uint32_t i = 0; i < QUEUES; i++)
		g4_nvme_lanes_post(&tried[i], 0, &request);
	g4_nvme_keeper_close(keeper);
	assert_int_equal(g4_dev_read(wg, host_side, 0, buffer, 65536), 0); /* behind them */
	set((struct g4_emu_faults){.fatal_at = 1});
	assert_int_equal(g4_dev_read(wg, host_side, 0, buffer, 65536), 0);
	read_by_each(3); /* and those that come after a reset have memory of their own */
	g4_dev_close(host_side);
}

/* ---- one set of lanes after the other, while somebody else keeps the drive open ---- */

/* What every queue reads is what the host has written: a completion of the lanes before is none of a read that these have begun. */
static void read_by_each(uint64_t seed)
{
	fill(buffer, 65536, 0, seed);
	assert_int_equal(g4_dev_write(wg, host_side, 0, buffer, 65536, 0), 0);
	struct g4_nvme_keeper *keeper = open_tried();
	for (uint32_t i = 0; i < QUEUES; i++) {
		memset(tried[i].staging, 0xa5, g4_nvme_lanes_try_bytes(&tried[i]));
		assert_int_equal(g4_nvme_lanes_try(&tried[i], UINT64_MAX), 0);
		check(tried[i].staging, g4_nvme_lanes_try_bytes(&tried[i]), 0, seed);
	}
	g4_nvme_keeper_close(keeper);
}

static void refused(struct g4_dev *inner, const char *words);

/* They are where the lanes before have left them, which nobody else knows; a reset makes them anew. */
static void queues_are_for_one_set_of_lanes(void **state)
{
	(void)state;
	open_drive();
	read_by_each(1);
	refused(host_side, "were since it was opened");
	set((struct g4_emu_faults){.fatal_at = 3});
	all_shapes(host_side);
	assert_int_equal(g4_nvme_device_counts(host_side).resets, 1);
	read_by_each(2);
	refused(host_side, "were since it was opened");
	g4_dev_close(host_side);
}

static void forget(void *context)
{
	assert_int_equal(g4_dev_fault_cut(context), 0);
	g4_dev_fault_power_on(context);
}

/* The next command finds the controller failed, and what it had not flushed is lost. */
static void fail_now(void)
{
	set((struct g4_emu_faults){.fatal_at = 1, .at_reset = forget, .context = medium});
	assert_int_equal(g4_dev_read(wg, host_side, 65536, buffer + 65536, 4096), 0);
}

/* Lanes that have left are nobody who could say what they had written. */
static void what_lanes_left_unflushed_is_the_hosts_to_lose(void **state)
{
	(void)state;
	medium = open_fault();
	open_drive();
	struct g4_nvme_keeper *keeper = open_tried();
	fill(buffer, 4096, 0, 1);
	assert_int_equal(g4_dev_write(wg, &seen, 0, buffer, 4096, 0), 0);
	g4_nvme_keeper_close(keeper);
	fail_now();
	assert_int_equal(g4_dev_read(wg, host_side, 0, buffer, 4096), 0);
	for (uint32_t i = 0; i < 4096; i++)
		assert_int_equal(buffer[i], 0);
	assert_int_equal(g4_dev_flush(wg, host_side), -G4_E_IO);
	g4_dev_close(host_side);
}

/* A flush of theirs says as little as the host's, before they have heard anything of the controller. */
static void lanes_know_what_was_lost_before_they_came(void **state)
{
	(void)state;
	medium = open_fault();
	open_drive();
	fill(buffer, 4096, 0, 1);
	assert_int_equal(g4_dev_write(wg, host_side, 0, buffer, 4096, 0), 0);
	fail_now();
	struct g4_nvme_keeper *keeper = open_tried();
	assert_int_equal(g4_dev_flush(wg, &seen), -G4_E_IO);
	assert_int_equal(g4_dev_flush(wg, host_side), -G4_E_IO);
	g4_nvme_keeper_close(keeper);
	g4_dev_close(host_side);
}

/* ---- drives that lanes can not have ---- */

static void refused(struct g4_dev *inner, const char *words)
{
	const struct g4_dev_message why = {.text = message, .bytes = sizeof(message)};
	struct g4_nvme_keeper *keeper;

	assert_int_equal(g4_nvme_keeper_open(inner, NULL, &keeper, why), -G4_E_NOTSUP);
	if (!strstr(message, words))
		fail_msg("%s", message);
}

static void memory_that_can_not_be_mapped_is_told(void **state)
{
	const struct g4_dev_message none = {0};
	struct g4_nvme_keeper *keeper;

	(void)state;
	open_drive();
	reaches_most = G4_MIB; /* chunks are more */
	refused(host_side, "can not be mapped for it: Cannot allocate memory");
	all_shapes(host_side);
	reaches_most = UINT64_MAX; /* they were given back */
	assert_int_equal(g4_nvme_keeper_open(host_side, NULL, &keeper, none), 0);
	refused(host_side, "in use");
	g4_nvme_keeper_close(keeper);
	g4_dev_close(host_side);
}

static uint8_t *piece;
#define PIECE_BYTES (4 * G4_MIB)

static void *obtain(void *context, uint64_t bytes, uint64_t *address)
{
	(void)context;
	assert_in_range(bytes, 1, PIECE_BYTES);
	*address = (uintptr_t)piece;
	return piece;
}

static void drives_without_an_iommu_are_not_lanes(void **state)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};
	const struct g4_emu_options emulated = {.drive = true};
	const struct g4_nvme_options options = {.queues = 2, .lanes = QUEUES};
	struct g4_nvme_provider provider;

	(void)state;
	piece = g4_memory_map(PIECE_BYTES);
	assert_non_null(piece);
	assert_int_equal(g4_emu_open(open_device("mem:16M"), &emulated, &emu, &provider), 0);
	provider.obtain = obtain;
	provider.obtain_most_bytes = PIECE_BYTES;
	provider.reach = reaches;
	reaches_most = 0;
	assert_int_equal(g4_nvme_device_open("nvme:test", &provider, &options, &host_side, sentence), 0);
	assert_int_equal(g4_nvme_of(host_side)->queue_count, 2); /* no memory for queues that nobody may use */
	refused(host_side, "without an IOMMU");
	all_shapes(host_side);
	g4_dev_close(host_side);
	g4_memory_unmap(piece, PIECE_BYTES);
}

/* ---- the system asks for it ---- */

static int write_page(struct g4_wg *own, uint64_t page)
{
	uint8_t *memory = pages(4096);

	memset(memory, 0x5a, 4096);
	const int rc = g4_dev_write(own, dev, page * 4096, memory, 4096, 0);
	free(memory);
	return rc;
}

/* It has failed for lanes, but is theirs until they are closed; then nobody has touched it since it was let go of. */
static void expect_end(void)
{
	assert_int_equal(write_page(wg, 1), -G4_E_IO);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), -G4_E_IO);
	assert_int_equal(g4_dev_flush(wg, dev), -G4_E_IO);
	assert_int_equal(g4_load32_acq(&gone), 0);
	g4_dev_close(dev);
	assert_int_equal(g4_load32_acq(&gone), 1);
	assert_int_equal(gone_from_lanes, 0);
	assert_false(touched);
}

static uint32_t saves;

static void save(void *context)
{
	struct g4_wg *own = g4_wg_create(2);

	(void)context;
	assert_int_equal(write_page(own, 2), 0);
	assert_int_equal(g4_dev_flush(own, dev), 0);
	g4_wg_destroy(own);
	g4_store32_rel(&saves, 1);
}

static void await_death(void)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	while (g4_load32_acq(&g4_nvme_of(host_side)->state) != G4_NVME_DEAD)
		nanosleep(&nap, NULL);
}

static void one_that_lanes_have_is_kept_until_they_leave(void **state)
{
	(void)state;
	saves = 0;
	g4_nvme_before_leaving(save, NULL);
	open_lanes_of_drive();
	all_shapes(dev);
	ask();
	await(&saves); /* by lanes: they work until then */
	await_death();
	expect_end();
}

static void *write_on(void *argument)
{
	struct worker *w = argument;
	struct g4_wg *own = g4_wg_create(w->index + 2);
	uint64_t n = 0;
	int rc;

	do {
		rc = write_page(own, w->index * 64 + n % 64);
		g4_store32_rel(&w->rounds, (uint32_t)++n);
	} while (rc == 0);
	assert_int_equal(rc, -G4_E_IO);
	g4_wg_destroy(own);
	return NULL;
}

static void lanes_that_write_all_the_time_come_back(void **state)
{
	struct worker workers[WORKERS_MOST] = {{0}};

	(void)state;
	open_lanes_of_drive();
	set((struct g4_emu_faults){.latency_ns = 20000, .shuffle = 5});
	for (uint32_t i = 0; i < WORKERS_MOST; i++) {
		workers[i].index = i;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, write_on, &workers[i]), 0);
	}
	for (uint32_t i = 0; i < WORKERS_MOST; i++)
		await(&workers[i].rounds);
	ask();
	for (uint32_t i = 0; i < WORKERS_MOST; i++)
		pthread_join(workers[i].thread, NULL);
	await_death();
	expect_end();
}

/* Lanes that have nothing to do hear of nothing: the end comes without them. */
static void idle_lanes_leave_as_well(void **state)
{
	(void)state;
	open_lanes_of_drive();
	ask();
	await_death();
	assert_int_equal(g4_load32_acq(&gone), 0);
	g4_dev_close(dev);
	assert_int_equal(g4_load32_acq(&gone), 1);
	assert_int_equal(gone_from_lanes, 0);
}

static void one_that_has_vanished_is_kept_as_well(void **state)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	(void)state;
	open_lanes_of_drive();
	set((struct g4_emu_faults){.vanish_at = 1});
	assert_int_equal(write_page(wg, 1), -G4_E_IO);
	ask();
	while (g4_load32_acq(&g4_nvme_of(host_side)->attendance) != G4_NVME_LEAVES)
		nanosleep(&nap, NULL);
	expect_end();
}

static void nobody_takes_one_that_is_asked_for(void **state)
{
	(void)state;
	open_drive();
	ask();
	await(&gone);
	refused(host_side, "does not work");
	g4_dev_close(host_side);
	assert_int_equal(g4_load32_acq(&gone), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		drive_test(lanes_name_memory_where_the_controller_has_it),
		drive_test(pieces_are_what_lanes_use),
		drive_test(lanes_that_reach_the_drive_read_what_the_host_reads),
		drive_test(lanes_that_do_not_reach_the_drive_are_abandoned),
		drive_test(lanes_may_leave_commands_under_way),
		drive_test(queues_are_for_one_set_of_lanes),
		drive_test(what_lanes_left_unflushed_is_the_hosts_to_lose),
		drive_test(lanes_know_what_was_lost_before_they_came),
		drive_test(memory_that_can_not_be_mapped_is_told),
		drive_test(drives_without_an_iommu_are_not_lanes),
		drive_test(one_that_lanes_have_is_kept_until_they_leave),
		drive_test(lanes_that_write_all_the_time_come_back),
		drive_test(idle_lanes_leave_as_well),
		drive_test(one_that_has_vanished_is_kept_as_well),
		drive_test(nobody_takes_one_that_is_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
