/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NVMe driver on the emulated controller: every shape of data that PRPs describe, short queues with many threads, commands in
 * any order, and a controller that lies, fails, answers twice, to nobody or not at all, or goes away.
 */
#define _GNU_SOURCE 1
#include "base/memory_host.h"
#include "dev/nvme/recovery_host.h"
#include "unit/nvme/emulated.h"

#define THREADS 4u
#define ROUNDS 37u

static int try_open(const char *medium, const struct g4_emu_options *emu_options, const struct g4_nvme_options *options,
		    struct g4_dev **dev)
{
	return try_emulated(open_device(medium), emu_options, options, dev);
}

static struct g4_dev *open_emu(const struct g4_emu_options *emu_options, const struct g4_nvme_options *options)
{
	return open_emulated(open_device("mem:16M"), emu_options, options);
}

/* ------------------------------------------------------------------ data */

static void data_comes_back(void **state)
{
	struct g4_dev *dev = open_emu(NULL, NULL);

	(void)state;
	assert_int_equal(g4_dev_props(dev)->sector_bytes, 512);
	assert_int_equal(g4_dev_props(dev)->size_bytes, 16 * G4_MIB);
	assert_true(g4_dev_props(dev)->discard);
	all_shapes(dev);
	g4_dev_close(dev);
}

static void blocks_of_4096_bytes_work_too(void **state)
{
	const struct g4_emu_options options = {.block_bytes = 4096};
	struct g4_dev *dev = open_emu(&options, NULL);

	(void)state;
	assert_int_equal(g4_dev_props(dev)->sector_bytes, 4096);
	all_shapes(dev);
	assert_int_equal(g4_dev_write(wg, dev, 512, buffer, 512, 0), -G4_E_DEV_ALIGN);
	g4_dev_close(dev);
}

/* Its index has bits in two places, of which the upper ones mean nothing where there are 16 formats at most. */
static void a_format_behind_the_sixteenth_is_found(void **state)
{
	(void)state;
	for (uint32_t block_bytes = 512; block_bytes <= 4096; block_bytes += 4096 - 512)
		for (uint32_t few = 0; few < 2; few++) {
			const struct g4_emu_options options = {.block_bytes = block_bytes,
							       .lies = few ? G4_EMU_STRAY_FORMAT : G4_EMU_MANY_FORMATS};
			struct g4_dev *dev = open_emu(&options, NULL);
			assert_int_equal(g4_dev_props(dev)->sector_bytes, block_bytes);
			write_and_read(dev, 8192, 0, 65536, 0);
			g4_dev_close(dev);
		}
}

static void small_transfers_and_one_slot_are_enough(void **state)
{
	const struct g4_emu_options options = {.mdts = 1};
	const struct g4_nvme_options one = {.queues = 1, .slots = 1};
	struct g4_dev *dev = open_emu(&options, &one);

	(void)state;
	all_shapes(dev);
	g4_dev_close(dev);
}

/* The controller refuses longer ones. */
static void short_queues_are_enough(void **state)
{
	const uint32_t entries[] = {2, 100};

	(void)state;
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		const struct g4_emu_options options = {.entries = entries[i]};
		struct g4_dev *dev = open_emu(&options, NULL);
		assert_true(2 * g4_nvme_of(dev)->slots <= entries[i] && 4 * g4_nvme_of(dev)->slots > entries[i]);
		all_shapes(dev);
		run_workers(dev, THREADS, ROUNDS);
		set((struct g4_emu_faults){.fatal_at = 3}); /* they are made again */
		all_shapes(dev);
		g4_dev_close(dev);
	}
}

/* Vectors whose pieces begin and end inside pages are several commands. */
static uint64_t move_odd_pieces(const struct g4_emu_options *options)
{
	struct g4_dev *dev = open_emu(options, NULL);
	struct g4_iov iov[40];
	uint64_t at = 0, bytes = 0;

	for (uint32_t i = 0; i < 40; i++) {
		iov[i] = (struct g4_iov){.base = buffer + at, .bytes = 512 * (1 + mix(i) % 20)};
		at += iov[i].bytes + 512 * (i % 5);
		fill(iov[i].base, iov[i].bytes, bytes, 7);
		bytes += iov[i].bytes;
	}
	struct g4_io io = {.op = G4_IO_WRITE, .offset_bytes = 1536, .iov = iov, .iov_count = 40};
	g4_dev_submit(wg, dev, &io);
	assert_int_equal(g4_dev_wait(wg, dev, &io), 0);
	assert_int_equal(g4_dev_read(wg, dev, 1536, buffer + 3 * G4_MIB, bytes), 0);
	check(buffer + 3 * G4_MIB, bytes, 0, 7);
	memset(buffer, 0, at);
	io.op = G4_IO_READ;
	g4_dev_submit(wg, dev, &io);
	assert_int_equal(g4_dev_wait(wg, dev, &io), 0);
	for (uint32_t i = 0, from = 0; i < 40; from += (uint32_t)iov[i++].bytes)
		check(iov[i].base, iov[i].bytes, from, 7);
	const uint64_t commands = g4_nvme_device_counts(dev).completed;
	g4_dev_close(dev);
	return commands;
}

static void vectors_of_odd_pieces_work(void **state)
{
	const struct g4_emu_options any = {.sgls = 1}, aligned = {.sgls = 2}, unknown = {.sgls = 3};
	const uint64_t by_prps = move_odd_pieces(NULL);

	(void)state;
	assert_true(move_odd_pieces(&any) < by_prps);
	assert_true(move_odd_pieces(&aligned) < by_prps);
	assert_int_equal(move_odd_pieces(&unknown), by_prps); /* it is not asked for what nobody knows */
}

/* The controller refuses commands that cross one. */
static void boundaries_are_kept(void **state)
{
	(void)state;
	for (uint32_t sgls = 0; sgls < 2; sgls++)
		for (uint32_t boundary = 1; boundary < 300; boundary = 3 * boundary + 1) {
			const struct g4_emu_options options = {.boundary = boundary, .sgls = sgls};
			struct g4_dev *dev = open_emu(&options, NULL);
			write_and_read(dev, 512, 512, 65536, 0);
			write_and_read(dev, 4096, 0, 65536 + 512, G4_IO_FUA);
			g4_dev_close(dev);
			(void)move_odd_pieces(&options);
		}
}

static void preferred_sizes_are_kept(void **state)
{
	(void)state;
	for (uint32_t write = 1; write < 16; write = 2 * write + 1) { /* a command has 16 blocks */
		const struct g4_emu_options options = sizes_for(write);
		struct g4_dev *dev = open_emu(&options, NULL);
		writes_are_cut_at_granules(dev, write);
		g4_dev_close(dev);
	}
}

/* A write of an alignment where no granule is within reach, and of whole optimal sizes where they are. */
static void preferred_alignments_and_optimal_sizes_are_kept(void **state)
{
	const struct g4_emu_options aligned = {
		.mdts = 1, .write_granularity = 1, .write_alignment = 1, .write_optimal = 14};
	const struct g4_emu_options beyond = {.mdts = 1, .write_granularity = 64, .write_alignment = 4};
	struct g4_dev *dev = open_emu(&aligned, NULL);

	(void)state;
	writes_are_cut_at_granules(dev, 14);
	g4_dev_close(dev);
	dev = open_emu(&beyond, NULL);
	writes_are_cut_at_granules(dev, 4);
	g4_dev_close(dev);
}

static void writes_that_could_be_whole_are(void **state)
{
	const struct g4_emu_options cases[] = {ATOMIC_CASES};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct g4_dev *dev = open_emu(&cases[i], NULL);
		short_writes_are_whole(dev);
		g4_dev_close(dev);
	}
}

/* It is used as if it had said nothing of them. */
static void sizes_that_contradict_themselves_are_not_gone_by(void **state)
{
	const struct g4_emu_options odd = {.lies = G4_EMU_ODD_SIZES};
	struct g4_dev *dev = open_emu(&odd, NULL);
	const struct g4_nvme_sizes *sizes = &g4_nvme_of(dev)->spaces[0].sizes;

	(void)state;
	assert_int_equal(sizes->whole_boundary, 0);
	assert_int_equal(sizes->write, 8);
	assert_int_equal(sizes->write_start, 0);
	assert_int_equal(sizes->write_optimal, 0);
	assert_int_equal(sizes->discard, 0);
	all_shapes(dev);
	g4_dev_close(dev);
}

static void whole_granules_are_discarded(void **state)
{
	const struct g4_emu_options options = sizes_for(0);
	struct g4_dev *dev = open_emu(&options, NULL);

	(void)state;
	granules_are_discarded(dev);
	g4_dev_close(dev);
}

/* The controller fails what exceeds one. A limit below a granule leaves no granules. */
static void limits_of_discards_are_kept(void **state)
{
	const struct g4_emu_options cases[] = {LIMIT_CASES};
	const struct g4_emu_options below = limited((struct g4_emu_options){.discard_range = 3}),
				    small = {.discard_range = 9, .discard_blocks = 8, .discard_ranges = 1}; /* a page */

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct g4_emu_options options = limited(cases[i]);
		struct g4_dev *dev = open_emu(&options, NULL);
		granules_are_discarded(dev);
		assert_int_equal(g4_nvme_of(dev)->spaces[0].sizes.discard, DISCARDS_OF);
		g4_dev_close(dev);
	}
	struct g4_dev *dev = open_emu(&small, NULL);
	discards(dev);
	g4_dev_close(dev);
	dev = open_emu(&below, NULL);
	assert_int_equal(g4_nvme_of(dev)->spaces[0].sizes.discard, 0);
	g4_dev_close(dev);
}

/* It would count a question that it does not know as an error. */
static void a_controller_of_before_has_no_limits_and_is_not_asked(void **state)
{
	const struct g4_emu_options options = {.lies = G4_EMU_OLD, .discard_range = 3};
	struct g4_dev *dev = open_emu(&options, NULL);
	struct g4_nvme_health_log log[G4_PAGE_BYTES / sizeof(struct g4_nvme_health_log)];
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};

	(void)state;
	assert_int_equal(g4_nvme_of(dev)->spaces[0].sizes.range, 0);
	assert_int_equal(g4_nvme_ask(g4_nvme_of(dev), G4_NVME_GET_LOG, G4_NVME_ALL_NAMESPACES,
				     G4_NVME_LOG_DWORD(G4_NVME_LOG_HEALTH, sizeof(log[0])), log, "health", sentence),
			 0);
	assert_int_equal(log[0].errors[0], 0);
	g4_dev_close(dev);
}

static void discarded_blocks_are_given_back(void **state)
{
	struct g4_dev *dev = open_emu(NULL, NULL);

	(void)state;
	discards(dev);
	g4_dev_close(dev);
}

static void what_is_empty_or_beyond_the_end_needs_no_controller(void **state)
{
	struct g4_dev *dev = open_emu(NULL, NULL);

	(void)state;
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 0), 0);
	assert_int_equal(g4_dev_read(wg, dev, 16 * G4_MIB, buffer, 512), -G4_E_DEV_RANGE);
	assert_int_equal(g4_nvme_device_counts(dev).completed, 0);
	g4_dev_close(dev);
}

/* ------------------------------------------------------------------ many at once */

static void many_threads_share_queues_of_any_length(void **state)
{
	const struct g4_nvme_options queues[] = {
		{.queues = 1, .slots = 1}, {.queues = 1, .slots = 4}, {.queues = 1}, {.queues = 3, .slots = 2}, {0}};

	(void)state;
	for (size_t i = 0; i < sizeof(queues) / sizeof(queues[0]); i++) {
		struct g4_dev *dev = open_emu(NULL, &queues[i]);
		run_workers(dev, THREADS, ROUNDS);
		assert_int_equal(g4_nvme_device_counts(dev).stray, 0);
		g4_dev_close(dev);
	}
}

/* As an IOMMU would have it: what else is in a command fails the test. */
static bool reaches(void *context, const void *memory, uint64_t bytes)
{
	void *piece;
	uint64_t piece_bytes;

	(void)context;
	return g4_memory_find(memory, &piece, &piece_bytes) &&
	       (const uint8_t *)memory + bytes <= (const uint8_t *)piece + piece_bytes;
}

/* Tickets of a queue of the host's: two a command. */
static uint32_t tickets(const struct g4_dev *dev, uint32_t queue)
{
	return ((const struct g4_nvme *)dev->host)->queues[queue].flight.pair.tickets;
}

static void who_waits_for_slots_moves_to_an_idle_queue(void **state)
{
	const struct g4_nvme_options options = {.queues = 2, .slots = 2};
	struct g4_dev *dev = open_emu(NULL, &options);
	const uint32_t first = g4_wg_index(wg) % 2, begun[2] = {tickets(dev, 0), tickets(dev, 1)};
	struct g4_iov iov[4];
	struct g4_io io[4];
	uint32_t rounds;

	(void)state;
	set((struct g4_emu_faults){.latency_ns = 100000});
	fill(buffer, 4 * 4096, 0, 7);
	for (uint32_t i = 0; i < 4; i++) {
		iov[i] = (struct g4_iov){.base = buffer + i * 4096, .bytes = 4096};
		io[i] = (struct g4_io){.op = G4_IO_WRITE, .offset_bytes = i * 4096, .iov = &iov[i], .iov_count = 1};
	}
	/* four for two slots: in nearly every round somebody waits */
	for (rounds = 0; rounds < 100 * G4_MAPPER_PATIENCE && tickets(dev, 1 - first) == begun[1 - first]; rounds++) {
		submit_all(wg, dev, io, 4);
		for (uint32_t i = 4; i-- > 0;)
			assert_int_equal(g4_dev_wait(wg, dev, &io[i]), 0);
	}
	assert_true(rounds > G4_MAPPER_PATIENCE / 4); /* of four requests at most three wait */
	assert_int_equal(tickets(dev, 1 - first) - begun[1 - first], 2 * 4);
	assert_int_equal(tickets(dev, first) - begun[first], 2 * 4 * (rounds - 1));
	memset(buffer, 0, 4 * 4096);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4 * 4096), 0);
	check(buffer, 4 * 4096, 0, 7);
	g4_dev_close(dev);
}

static void data_in_memory_that_the_controller_does_not_have_is_copied(void **state)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};
	const struct g4_nvme_options queues = {.queues = 2, .slots = 4};
	struct g4_nvme_provider provider;
	struct g4_dev *dev;
	uint8_t *const mine = buffer;

	(void)state;
	assert_int_equal(g4_emu_open(open_device("mem:16M"), NULL, &emu, &provider), 0);
	provider.reach = reaches;
	assert_int_equal(g4_nvme_device_open("emu:test", &provider, &queues, &dev, sentence), 0);
	buffer = g4_memory_map(BUFFER_BYTES);
	assert_non_null(buffer);
	all_shapes(dev);
	assert_int_equal(g4_nvme_device_counts(dev).copied, 0);
	g4_memory_unmap(buffer, BUFFER_BYTES);
	buffer = mine;
	all_shapes(dev);
	assert_int_equal(g4_nvme_device_counts(dev).copied, 32);
	run_workers(dev, THREADS, ROUNDS);
	set((struct g4_emu_faults){.fail_at = 2, .status = G4_NVME_WRITE_FAULT | G4_NVME_DNR});
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, G4_MIB, 0), -G4_E_IO);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, G4_MIB, 0), 0);
	g4_dev_close(dev);
}

/* As without an IOMMU: no address of the process is one of the controller's, which has one piece of memory. */
#define ELSEWHERE (UINT64_C(1) << 46)
#define PIECE_BYTES (2 * G4_MIB)
static uint8_t *piece;

static void *obtain(void *context, uint64_t bytes, uint64_t *address)
{
	(void)context;
	assert_in_range(bytes, 1, PIECE_BYTES);
	*address = (uintptr_t)piece + ELSEWHERE;
	return piece;
}

static bool reaches_nothing(void *context, const void *memory, uint64_t bytes)
{
	(void)context;
	(void)memory;
	(void)bytes;
	return false;
}

static void memory_may_be_elsewhere_for_the_controller(void **state)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};

	(void)state;
	for (uint32_t sgls = 0; sgls < 2; sgls++) {
		const struct g4_emu_options options = {.sgls = sgls, .shift = ELSEWHERE};
		const struct g4_nvme_options queues = {.queues = 8};
		struct g4_nvme_provider provider;
		struct g4_dev *dev;
		piece = g4_memory_map(PIECE_BYTES);
		assert_non_null(piece);
		assert_int_equal(g4_emu_open(open_device("mem:16M"), &options, &emu, &provider), 0);
		provider.obtain = obtain;
		provider.obtain_most_bytes = PIECE_BYTES;
		provider.reach = reaches_nothing;
		assert_int_equal(g4_nvme_device_open("emu:test", &provider, &queues, &dev, sentence), 0);
		all_shapes(dev);
		discards(dev);
		run_workers(dev, THREADS, ROUNDS);
		set((struct g4_emu_faults){.fatal_at = 3}); /* queues are made again */
		all_shapes(dev);
		assert_int_equal(g4_nvme_device_counts(dev).resets, 1);
		g4_dev_close(dev);
		g4_memory_unmap(piece, PIECE_BYTES);
	}
}

/* As with an IOMMU of few bits: all memory is at a distance for the controller, and most of it reached without a copy. */
static void all_memory_may_be_at_a_distance_for_the_controller(void **state)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};
	uint8_t *const mine = buffer;

	(void)state;
	for (uint32_t sgls = 0; sgls < 2; sgls++) {
		const struct g4_emu_options options = {.sgls = sgls, .shift = ELSEWHERE};
		const struct g4_nvme_options queues = {.queues = 2, .slots = 4};
		struct g4_nvme_provider provider;
		struct g4_dev *dev;

		assert_int_equal(g4_emu_open(open_device("mem:16M"), &options, &emu, &provider), 0);
		provider.shift = ELSEWHERE;
		provider.reach = reaches;
		assert_int_equal(g4_nvme_device_open("emu:test", &provider, &queues, &dev, sentence), 0);
		buffer = g4_memory_map(BUFFER_BYTES);
		assert_non_null(buffer);
		all_shapes(dev);
		discards(dev);
		set((struct g4_emu_faults){.fatal_at = 3}); /* queues are made again */
		all_shapes(dev);
		assert_int_equal(g4_nvme_device_counts(dev).resets, 1);
		assert_int_equal(g4_nvme_device_counts(dev).copied, 0);
		g4_memory_unmap(buffer, BUFFER_BYTES);
		buffer = mine;
		run_workers(dev, THREADS, ROUNDS);
		g4_dev_close(dev);
	}
}

static void commands_may_be_late_and_in_any_order(void **state)
{
	const struct g4_nvme_options queues = {.queues = 2, .slots = 8};
	struct g4_dev *dev = open_emu(NULL, &queues);

	(void)state;
	set((struct g4_emu_faults){.shuffle = 42, .latency_ns = 20000});
	run_workers(dev, THREADS, ROUNDS);
	g4_dev_close(dev);
}

/* ------------------------------------------------------------------ errors */

static void a_status_without_dnr_is_tried_again(void **state)
{
	struct g4_dev *dev = open_emu(NULL, NULL);

	(void)state;
	set((struct g4_emu_faults){.fail_at = 1, .fail_count = 3, .status = G4_NVME_INTERNAL_ERROR});
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), 0);
	assert_int_equal(g4_nvme_device_counts(dev).retried, 3);
	set((struct g4_emu_faults){.fail_at = 1, .fail_count = G4_NVME_TRIES, .status = G4_NVME_INTERNAL_ERROR});
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), -G4_E_IO);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), 0);
	g4_dev_close(dev);
}

/* A later one would succeed, and what this one lost would count as durable. */
static void a_flush_that_fails_is_not_tried_again(void **state)
{
	struct g4_dev *dev = open_emu(NULL, NULL);

	(void)state;
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), 0);
	set((struct g4_emu_faults){.fail_at = 1, .fail_count = 1, .status = G4_NVME_INTERNAL_ERROR});
	assert_int_equal(g4_dev_flush(wg, dev), -G4_E_IO);
	assert_int_equal(g4_nvme_device_counts(dev).retried, 0);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	g4_dev_close(dev);
}

static void a_status_with_dnr_is_an_error_at_once(void **state)
{
	const struct {
		uint32_t status;
		int code;
	} cases[] = {{G4_NVME_READ_FAULT, -G4_E_IO},
		     {G4_NVME_CAPACITY, -G4_E_NOSPC},
		     {G4_NVME_READ_ONLY, -G4_E_DEV_READONLY},
		     {G4_NVME_LBA_RANGE, -G4_E_DEV_RANGE},
		     {G4_NVME_STATUS(7, 0xff), -G4_E_IO}};
	struct g4_dev *dev = open_emu(NULL, NULL);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set((struct g4_emu_faults){.fail_at = 1, .status = cases[i].status | G4_NVME_DNR});
		assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), cases[i].code);
	}
	assert_int_equal(g4_nvme_device_counts(dev).retried, 0);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), 0);
	g4_dev_close(dev);
}

static void one_command_of_several_that_fails_fails_the_request(void **state)
{
	const struct g4_emu_options options = {.mdts = 1};
	struct g4_dev *dev = open_emu(&options, NULL);

	(void)state;
	set((struct g4_emu_faults){.fail_at = 5, .status = G4_NVME_WRITE_FAULT | G4_NVME_DNR});
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 128 * 1024, 0), -G4_E_IO);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 128 * 1024, 0), 0);
	g4_dev_close(dev);
}

static void errors_of_the_medium_arrive(void **state)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};
	const struct g4_fault faults = {.fail_read_at = 1, .fail_write_at = 1, .fail_flush_at = 1};
	struct g4_dev *fault, *dev;

	(void)state;
	assert_int_equal(g4_dev_fault_open(open_device("mem:4M"), &fault), 0);
	assert_int_equal(g4_nvme_emu_device_open("emu:test", fault, NULL, NULL, &dev, NULL, sentence), 0);
	assert_true(g4_dev_props(dev)->volatile_cache);
	g4_dev_fault_set(fault, &faults);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), -G4_E_IO);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), -G4_E_IO);
	assert_int_equal(g4_dev_flush(wg, dev), -G4_E_IO);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	g4_dev_close(dev);
}

static void lost_power_takes_what_was_not_flushed(void **state)
{
	struct g4_dev *const fault = open_fault(), *const dev = open_emulated(fault, NULL, NULL);

	(void)state;
	loses_what_was_not_flushed(dev, fault);
	g4_dev_close(dev);
}

static void a_completion_that_nobody_waits_for_is_counted_and_forgotten(void **state)
{
	struct g4_dev *dev = open_emu(NULL, NULL);

	(void)state;
	set((struct g4_emu_faults){.phantom_at = 1});
	for (uint32_t i = 0; i < 1000; i++)
		write_and_read(dev, i * 512, 0, 512, 0);
	assert_int_equal(g4_nvme_device_counts(dev).stray, 1);
	g4_dev_close(dev);
}

/* ------------------------------------------------------------------ controllers that are of no more use */

static void expect_death(struct g4_emu_faults faults)
{
	const bool silent = faults.mute_at || faults.wrong_id_at; /* otherwise the default has to be long enough */
	const struct g4_nvme_options options = {.timeout_ns = silent ? SHORT_NS : 0, .resets = G4_NVME_NO_RESETS};
	struct g4_dev *dev = open_emu(NULL, &options);
	struct g4_iov iov[3];
	struct g4_io io[3];

	faults.aborts = G4_EMU_ABORTS_IN_VAIN;
	set(faults);
	for (uint32_t i = 0; i < 3; i++) {
		iov[i] = (struct g4_iov){.base = buffer + i * G4_MIB, .bytes = 4096};
		io[i] = (struct g4_io){.op = G4_IO_READ, .offset_bytes = i * 4096, .iov = &iov[i], .iov_count = 1};
	}
	submit_all(wg, dev, io, 3);
	while (!g4_dev_poll(wg, dev, &io[2]))
		g4_pause();
	for (uint32_t i = 0; i < 3; i++)
		(void)g4_dev_wait(wg, dev, &io[i]); /* all come to an end */
	/* the one that the controller owes may not be among them; it is the only one after that */
	int code = 0;
	for (uint32_t i = 0; i < 100 && code == 0; i++)
		code = g4_dev_write(wg, dev, 0, buffer, 8 * 4096, 0);
	assert_int_equal(io[0].result < 0 || io[1].result < 0 || io[2].result < 0 || code < 0, 1);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), -G4_E_IO);
	assert_int_equal(g4_dev_flush(wg, dev), -G4_E_IO);
	/* nor is it asked anything, with whatever patience */
	struct g4_nvme *nvme = dev->host;
	uint8_t page[G4_PAGE_BYTES];
	nvme->admin_timeout_ns = UINT64_MAX / 2;
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(g4_nvme_ask(nvme, G4_NVME_IDENTIFY, 0, G4_NVME_CNS_CONTROLLER, page, "identify",
					     (struct g4_dev_message){0}),
				 -G4_E_IO);
	g4_dev_close(dev);
}

static void no_answer_ends_in_an_error(void **state)
{
	(void)state;
	expect_death((struct g4_emu_faults){.mute_at = 1});
	expect_death((struct g4_emu_faults){.mute_at = 3});
}

static void an_answer_with_a_wrong_identifier_is_none(void **state)
{
	(void)state;
	expect_death((struct g4_emu_faults){.wrong_id_at = 2});
}

static void a_controller_that_has_failed_ends_all_requests(void **state)
{
	(void)state;
	expect_death((struct g4_emu_faults){.fatal_at = 1});
	expect_death((struct g4_emu_faults){.fatal_at = 2});
}

static void a_controller_that_has_left_ends_all_requests(void **state)
{
	(void)state;
	expect_death((struct g4_emu_faults){.vanish_at = 1});
	expect_death((struct g4_emu_faults){.vanish_at = 2});
}

static void a_controller_that_somebody_else_has_reset_ends_all_requests(void **state)
{
	(void)state;
	expect_death((struct g4_emu_faults){.reset_at = 1});
	expect_death((struct g4_emu_faults){.reset_at = 2});
}

/* Its owner looks at a request late, and somebody else at the clock meanwhile: the controller has done what it had to. */
static void an_answer_that_nobody_has_looked_at_is_not_late(void **state)
{
	const struct g4_nvme_options options = {.queues = 2, .timeout_ns = SHORT_NS};
	struct g4_dev *dev = open_emu(NULL, &options);
	struct g4_nvme *nvme = dev->host;
	struct g4_iov iov = {.base = buffer, .bytes = 4096};
	struct g4_io io = {.op = G4_IO_READ, .iov = &iov, .iov_count = 1};
	const uint64_t late = g4_monotonic_ns() + 2 * SHORT_NS;

	(void)state;
	g4_dev_submit(wg, dev, &io);
	while (g4_monotonic_ns() < late || !g4_nvme_pair_is_answered(&nvme->queues[1].flight.pair))
		g4_pause();
	g4_nvme_check(nvme);
	assert_int_equal(g4_dev_wait(wg, dev, &io), 0);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), 0);
	g4_dev_close(dev);
}

/* Nobody hangs, and nobody gets a slot that still belongs to a command. */
static void *work_until_it_fails(void *argument)
{
	struct worker *w = argument;
	struct g4_wg *own = g4_wg_create(w->index + 2);
	uint8_t *memory = pages(65536);
	int code = 0;

	while (code == 0)
		code = g4_dev_write(own, w->dev, w->index * G4_MIB, memory, 65536, 0);
	assert_int_equal(code, -G4_E_IO);
	free(memory);
	g4_wg_destroy(own);
	return NULL;
}

static void all_threads_come_back_when_the_controller_dies(void **state)
{
	const struct g4_emu_options small = {.mdts = 1};
	const struct g4_nvme_options options = {
		.queues = 2, .slots = 4, .timeout_ns = SHORT_NS, .resets = G4_NVME_NO_RESETS};
	const struct g4_emu_faults faults[] = {
		{.mute_at = 700, .aborts = G4_EMU_ABORTS_IN_VAIN}, {.fatal_at = 700}, {.vanish_at = 700}};
	struct worker workers[THREADS];

	(void)state;
	for (size_t k = 0; k < sizeof(faults) / sizeof(faults[0]); k++) {
		struct g4_dev *dev = open_emu(&small, &options);
		set(faults[k]);
		for (uint32_t i = 0; i < THREADS; i++) {
			workers[i] = (struct worker){.dev = dev, .index = i};
			assert_int_equal(pthread_create(&workers[i].thread, NULL, work_until_it_fails, &workers[i]), 0);
		}
		for (uint32_t i = 0; i < THREADS; i++)
			pthread_join(workers[i].thread, NULL);
		g4_dev_close(dev);
	}
}

/* ------------------------------------------------------------------ controllers that cannot be opened */

static void a_controller_that_lies_is_refused(void **state)
{
	const struct {
		uint32_t lies;
		int code;
		const char *sentence;
	} cases[] = {
		{G4_EMU_NO_NAMESPACE, -G4_E_DEV_OPEN, "not active"},
		{G4_EMU_TOO_MANY_BLOCKS, -G4_E_DEV_OPEN, "9223372036854775808 blocks"},
		{G4_EMU_ODD_BLOCKS, -G4_E_DEV_OPEN, "blocks of 2^7 bytes"},
		{G4_EMU_METADATA, -G4_E_DEV_OPEN, "8 bytes of metadata"},
		{G4_EMU_NO_SUCH_FORMAT, -G4_E_DEV_OPEN, "format 9 of 2"},
		{G4_EMU_NO_SUCH_FORMAT | G4_EMU_MANY_FORMATS, -G4_E_DEV_OPEN, "format 41 of 20"},
		{G4_EMU_TOO_MANY_FORMATS, -G4_E_DEV_OPEN, "could have 200 formats: 64 is the most"},
		{G4_EMU_LARGE_COMMANDS, -G4_E_DEV_OPEN, "another size"},
		{G4_EMU_SHORT_QUEUES, -G4_E_DEV_OPEN, "queues have one entry"},
		{G4_EMU_NEVER_READY, -G4_E_IO, "does not become ready"},
		{G4_EMU_FAILS_AT_ONCE, -G4_E_IO, "status 00000002"},
		{G4_EMU_NOT_THERE, -G4_E_DEV_OPEN, "all ones"},
		{G4_EMU_MUTE, -G4_E_IO, "does not answer (identify controller)"},
		{G4_EMU_REFUSES_QUEUES, -G4_E_IO, "create a completion queue (status 101)"},
	};
	struct g4_dev *dev;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct g4_emu_options lies = {.lies = cases[i].lies};
		const struct g4_nvme_options options = {.admin_timeout_ns = lies.lies == G4_EMU_MUTE ? SHORT_NS : 0};
		assert_int_equal(try_open("mem:4M", &lies, &options, &dev), cases[i].code);
		if (!strstr(message, cases[i].sentence))
			fail_msg("\"%s\" does not say \"%s\"", message, cases[i].sentence);
		assert_ptr_equal(strstr(message, "emu:test: "), message);
	}
}

/* What is checked is what is used, although the controller writes over it. ThreadSanitizer sees who looks at its memory. */
static void an_answer_that_changes_is_looked_at_once(void **state)
{
	const struct g4_emu_options fickle = {.lies = G4_EMU_REWRITES};
	const struct g4_nvme_options options = {.queues = 1, .slots = 1};
	const uint32_t rounds = 200;
	struct g4_dev *dev;

	(void)state;
	for (uint32_t i = 0; i < rounds; i++) {
		if (try_open("mem:4M", &fickle, &options, &dev) < 0)
			continue; /* with a sentence, which the tests of lies look at */
		const struct g4_dev_props *props = g4_dev_props(dev);
		assert_true(props->sector_bytes == 512 || props->sector_bytes == 4096);
		assert_true(props->size_bytes >= G4_PAGE_BYTES && props->size_bytes <= INT64_MAX);
		assert_int_equal(props->size_bytes % props->sector_bytes, 0);
		g4_dev_close(dev);
	}
}

static void a_namespace_that_is_not_there_is_refused(void **state)
{
	const struct g4_nvme_options options = {.nsid = 2};
	struct g4_dev *dev;

	(void)state;
	assert_int_equal(try_open("mem:4M", NULL, &options, &dev), -G4_E_DEV_OPEN);
	assert_non_null(strstr(message, "no namespace 2, the highest is 1"));
}

/* What the controller says of itself is told whatever its namespaces are. */
static void questions_need_no_namespace(void **state)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};
	const struct g4_emu_options empty = {.lies = G4_EMU_NO_NAMESPACE};
	struct g4_nvme_options options = {.queues = 1, .slots = 1, .read_only = true};
	uint8_t page[G4_PAGE_BYTES];
	struct g4_nvme_provider provider;
	struct g4_nvme *nvme;

	(void)state;
	assert_int_equal(g4_emu_open(open_device("mem:4M"), &empty, &emu, &provider), 0);
	assert_int_equal(g4_nvme_open("emu:test", &provider, &options, &nvme, sentence), -G4_E_DEV_OPEN);
	options.questions = true;
	assert_int_equal(g4_emu_open(open_device("mem:4M"), &empty, &emu, &provider), 0);
	assert_int_equal(g4_nvme_open("emu:test", &provider, &options, &nvme, sentence), 0);
	assert_int_equal(g4_nvme_ask(nvme, G4_NVME_IDENTIFY, 0, G4_NVME_CNS_CONTROLLER, page, "identify", sentence), 0);
	assert_memory_equal(((struct g4_nvme_controller_data *)(void *)page)->model, "gpu4fs", 6);
	g4_nvme_close(nvme);
}

/* What could change a drive is not sent, whoever asks for it. */
static void nothing_but_questions_is_asked(void **state)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};
	const uint32_t orders[] = {G4_NVME_FORMAT, G4_NVME_SET_FEATURES, G4_NVME_CREATE_SQ, G4_NVME_ABORT, 0x84};
	struct g4_dev *dev = open_emu(NULL, NULL);
	uint8_t page[G4_PAGE_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		assert_int_equal(g4_nvme_ask(dev->host, orders[i], 1, 0, page, "format", sentence), -G4_E_NOTSUP);
		assert_non_null(strstr(message, "'nvme format'"));
	}
	assert_int_equal(g4_nvme_ask(dev->host, G4_NVME_GET_LOG, G4_NVME_ALL_NAMESPACES,
				     G4_NVME_LOG_DWORD(G4_NVME_LOG_ERRORS, 64), page, "errors", sentence),
			 0);
	assert_int_equal(((struct g4_nvme_error_entry *)(void *)page)->count, 0);
	g4_dev_close(dev);
}

static int ask_namespace(struct g4_nvme *nvme, uint8_t *page)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};

	memset(page, 0xa5, G4_PAGE_BYTES);
	return g4_nvme_ask(nvme, G4_NVME_IDENTIFY, 1, G4_NVME_CNS_NAMESPACE, page, "identify", sentence);
}

/* Its page and its identifier are the controller's until it answers, or is reset: the answer would come into that of the next question. */
static void a_question_without_an_answer_is_not_forgotten(void **state)
{
	struct g4_dev *dev = open_emu(NULL, NULL);
	struct g4_nvme *nvme = dev->host;
	const uint64_t patience = nvme->admin_timeout_ns;
	uint8_t expected[G4_PAGE_BYTES], page[G4_PAGE_BYTES];

	(void)state;
	assert_int_equal(ask_namespace(nvme, expected), 0);
	for (uint32_t round = 0; round < 2; round++) {
		set((struct g4_emu_faults){.holds_admin = true});
		nvme->admin_timeout_ns = 20000000;
		assert_int_equal(ask_namespace(nvme, page), -G4_E_IO);
		assert_non_null(strstr(message, "does not answer (identify)"));
		const uint32_t sent = nvme->admin.tickets;
		assert_int_equal(ask_namespace(nvme, page), -G4_E_IO);
		assert_non_null(strstr(message, "has not answered a question before"));
		assert_int_equal(nvme->admin.tickets, sent);
		nvme->admin_timeout_ns = patience;
		set((struct g4_emu_faults){.fatal_at = round});
		if (round > 0) /* a reset forgets it */
			write_and_read(dev, 0, 0, 4096, 0);
		assert_int_equal(ask_namespace(nvme, page), 0);
		assert_memory_equal(page, expected, G4_PAGE_BYTES);
	}
	assert_int_equal(g4_nvme_device_counts(dev).resets, 1);
	g4_dev_close(dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(data_comes_back),
		cmocka_unit_test(blocks_of_4096_bytes_work_too),
		cmocka_unit_test(a_format_behind_the_sixteenth_is_found),
		cmocka_unit_test(small_transfers_and_one_slot_are_enough),
		cmocka_unit_test(short_queues_are_enough),
		cmocka_unit_test(vectors_of_odd_pieces_work),
		cmocka_unit_test(boundaries_are_kept),
		cmocka_unit_test(preferred_sizes_are_kept),
		cmocka_unit_test(preferred_alignments_and_optimal_sizes_are_kept),
		cmocka_unit_test(writes_that_could_be_whole_are),
		cmocka_unit_test(sizes_that_contradict_themselves_are_not_gone_by),
		cmocka_unit_test(whole_granules_are_discarded),
		cmocka_unit_test(limits_of_discards_are_kept),
		cmocka_unit_test(a_controller_of_before_has_no_limits_and_is_not_asked),
		cmocka_unit_test(discarded_blocks_are_given_back),
		cmocka_unit_test(what_is_empty_or_beyond_the_end_needs_no_controller),
		cmocka_unit_test(many_threads_share_queues_of_any_length),
		cmocka_unit_test(who_waits_for_slots_moves_to_an_idle_queue),
		cmocka_unit_test(data_in_memory_that_the_controller_does_not_have_is_copied),
		cmocka_unit_test(memory_may_be_elsewhere_for_the_controller),
		cmocka_unit_test(all_memory_may_be_at_a_distance_for_the_controller),
		cmocka_unit_test(commands_may_be_late_and_in_any_order),
		cmocka_unit_test(a_status_without_dnr_is_tried_again),
		cmocka_unit_test(a_flush_that_fails_is_not_tried_again),
		cmocka_unit_test(a_status_with_dnr_is_an_error_at_once),
		cmocka_unit_test(one_command_of_several_that_fails_fails_the_request),
		cmocka_unit_test(errors_of_the_medium_arrive),
		cmocka_unit_test(lost_power_takes_what_was_not_flushed),
		cmocka_unit_test(a_completion_that_nobody_waits_for_is_counted_and_forgotten),
		cmocka_unit_test(no_answer_ends_in_an_error),
		cmocka_unit_test(an_answer_with_a_wrong_identifier_is_none),
		cmocka_unit_test(a_controller_that_has_failed_ends_all_requests),
		cmocka_unit_test(a_controller_that_has_left_ends_all_requests),
		cmocka_unit_test(a_controller_that_somebody_else_has_reset_ends_all_requests),
		cmocka_unit_test(an_answer_that_nobody_has_looked_at_is_not_late),
		cmocka_unit_test(all_threads_come_back_when_the_controller_dies),
		cmocka_unit_test(a_controller_that_lies_is_refused),
		cmocka_unit_test(an_answer_that_changes_is_looked_at_once),
		cmocka_unit_test(a_namespace_that_is_not_there_is_refused),
		cmocka_unit_test(questions_need_no_namespace),
		cmocka_unit_test(nothing_but_questions_is_asked),
		cmocka_unit_test(a_question_without_an_answer_is_not_forgotten),
	};

	return cmocka_run_group_tests(tests, begin_emulated, end_emulated);
}
