/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices on an emulated controller: through the host's queues, or as lanes of an engine use one (here threads). What both must do.
 */
#ifndef G4_TEST_EMULATED_H
#define G4_TEST_EMULATED_H

#include <pthread.h>

#include "base/log_host.h"
#include "dev/nvme/device_host.h"
#include "dev/nvme/lanes_host.h"
#include "unit/dev_util.h"

#define BUFFER_BYTES (6 * G4_MIB)
#define SHORT_NS UINT64_C(300000000) /* how long a controller may be silent where it is to be */
#define WORKERS_MOST 4u

static struct g4_wg *wg;
static uint8_t *buffer;
static struct g4_emu *emu;
static char message[256];
static struct g4_dev *host_side; /* of the last device that lanes use: the host's queues */

static int begin_emulated(void **state)
{
	(void)state;
	g4_log_set_level(G4_LOG_ERROR);
	wg = g4_wg_create(1);
	buffer = pages(BUFFER_BYTES);
	return wg ? 0 : -1;
}

static int end_emulated(void **state)
{
	(void)state;
	free(buffer);
	g4_wg_destroy(wg);
	g4_log_set_level(G4_LOG_WARN);
	return 0;
}

/* The medium is the device's, also when this fails. */
static int try_emulated(struct g4_dev *medium, const struct g4_emu_options *emulated,
			const struct g4_nvme_options *options, struct g4_dev **dev)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};

	message[0] = '\0';
	return g4_nvme_emu_device_open("emu:test", medium, emulated, options, dev, &emu, sentence);
}

static inline struct g4_dev *open_emulated(struct g4_dev *medium, const struct g4_emu_options *emulated,
					   const struct g4_nvme_options *options)
{
	struct g4_dev *dev = NULL;

	if (try_emulated(medium, emulated, options, &dev) < 0)
		fail_msg("%s", message);
	return dev;
}

static inline struct g4_dev *open_lanes(struct g4_dev *medium, const struct g4_emu_options *emulated,
					const struct g4_nvme_options *options,
					const struct g4_nvme_lanes_options *lanes)
{
	struct g4_nvme_options with_lanes = options ? *options : (struct g4_nvme_options){.queues = 1};
	struct g4_dev *dev;

	with_lanes.lanes = (uint32_t)g4_max64(with_lanes.lanes, 1);
	host_side = open_emulated(medium, emulated, &with_lanes);
	assert_int_equal(g4_dev_lanes_open(host_side, lanes, &dev, (struct g4_dev_message){0}), 0);
	return dev;
}

static inline void set(struct g4_emu_faults faults)
{
	g4_emu_set(emu, &faults);
}

/* ---- data ---- */

static inline void write_and_read(struct g4_dev *dev, uint64_t offset, uint64_t at, uint64_t bytes, uint32_t flags)
{
	fill(buffer + at, bytes, offset, bytes + flags);
	assert_int_equal(g4_dev_write(wg, dev, offset, buffer + at, bytes, flags), 0);
	memset(buffer + at, 0, bytes);
	assert_int_equal(g4_dev_read(wg, dev, offset, buffer + at, bytes), 0);
	check(buffer + at, bytes, offset, bytes + flags);
}

/* One page, two, a list of them, and several commands; from a page's start and inside it. */
static inline void all_shapes(struct g4_dev *dev)
{
	const uint64_t sector = g4_dev_props(dev)->sector_bytes;
	const uint64_t sizes[] = {sector, 4096, 4096 + sector, 8192, 12288 + sector, 64 * 1024, G4_MIB, 5 * G4_MIB};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		write_and_read(dev, (i + 1) * sector, 0, sizes[i], 0);
		write_and_read(dev, (i + 3) * sector, sector, sizes[i], G4_IO_FUA);
	}
	assert_int_equal(g4_dev_flush(wg, dev), 0);
}

static inline void discards(struct g4_dev *dev)
{
	struct g4_io io = {.op = G4_IO_DISCARD, .offset_bytes = 8192, .discard_bytes = 8192};

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

/* ---- sizes that a drive likes; the controller fails what is of others ---- */

#define DISCARDS_OF 16u /* blocks, from multiples of 8 on */
static inline struct g4_emu_options sizes_for(uint32_t write)
{
	return (struct g4_emu_options){
		.mdts = 1, .write_granularity = write, .discard_granularity = DISCARDS_OF, .discard_alignment = 8};
}

/* From a granule's start, so that each command but the last one can end at another's. */
static inline void writes_are_cut_at_granules(struct g4_dev *dev, uint32_t write)
{
	for (uint64_t sectors = 1; sectors < 400; sectors = 3 * sectors + 1) {
		write_and_read(dev, 512 * write * sectors, 0, 512 * sectors, 0);
		write_and_read(dev, 512 * write * sectors, 512, 512 * sectors, G4_IO_FUA);
	}
}

/* Boundaries as long as a unit and longer, from block 0 and from another one; long and short commands; what is whole anywhere. */
#define ATOMIC_CASES                                                                                                   \
	{.whole = 8, .whole_boundary = 8}, {.whole = 8, .whole_boundary = 8, .whole_offset = 3},                       \
		{.whole = 8, .whole_boundary = 12, .whole_offset = 7, .whole_anywhere = 2},                            \
	{                                                                                                              \
		.mdts = 1, .whole = 16, .whole_boundary = 24, .whole_offset = 5                                        \
	}

static inline void short_writes_are_whole(struct g4_dev *dev)
{
	for (uint64_t first = 0; first < 26; first++)
		for (uint64_t count = 1; count < 40; count += 1 + first % 3)
			write_and_read(dev, 512 * first, 0, 512 * count, 0);
}

static inline void discard_sectors(struct g4_dev *dev, uint64_t first, uint64_t count)
{
	struct g4_io io = {.op = G4_IO_DISCARD, .offset_bytes = 512 * first, .discard_bytes = 512 * count};

	g4_dev_submit(wg, dev, &io);
	assert_int_equal(g4_dev_wait(wg, dev, &io), 0);
}

/* Whole granules are, what is beside them keeps its contents; where there is none, nothing is asked for. */
static inline void granules_are_discarded(struct g4_dev *dev)
{
	const uint64_t bytes = UINT64_C(512) * 8 * DISCARDS_OF;

	for (uint64_t first = 1; first < 20; first++)
		for (uint64_t count = 1; count < 5 * DISCARDS_OF; count += 5) {
			const uint64_t start = (first + 7) / 8 * 8, end = first + count;
			const uint64_t granules = start < end ? (end - start) / DISCARDS_OF : 0;
			fill(buffer, bytes, 0, 1);
			assert_int_equal(g4_dev_write(wg, dev, 0, buffer, bytes, 0), 0);
			discard_sectors(dev, first, count);
			assert_int_equal(g4_dev_read(wg, dev, 0, buffer, bytes), 0);
			for (uint64_t at = 0; at < 512 * granules * DISCARDS_OF; at++)
				assert_int_equal(buffer[512 * start + at], 0);
			fill(buffer + 512 * start, 512 * granules * DISCARDS_OF, 512 * start, 1);
			check(buffer, bytes, 0, 1);
		}
}

/* Granules are of 16 blocks: a range has one, or three, or what is left of a command. */
#define LIMIT_CASES                                                                                                    \
	{.discard_range = 24}, {.discard_range = 50, .discard_ranges = 3},                                             \
		{.discard_blocks = 40, .discard_ranges = 1},                                                           \
	{                                                                                                              \
		.discard_range = 17, .discard_blocks = 100                                                             \
	}

static inline struct g4_emu_options limited(struct g4_emu_options limits)
{
	limits.discard_granularity = DISCARDS_OF;
	limits.discard_alignment = 8;
	return limits;
}

/* A medium with a volatile cache that forgets at a cut what was not flushed. */
static inline struct g4_dev *open_fault(void)
{
	const struct g4_fault settings = {0};
	struct g4_dev *fault;

	assert_int_equal(g4_dev_fault_open(open_device("mem:16M"), &fault), 0);
	g4_dev_fault_set(fault, &settings);
	return fault;
}

/* What was flushed or written with FUA is there after power was lost, the rest is not. */
static inline void loses_what_was_not_flushed(struct g4_dev *dev, struct g4_dev *fault)
{
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
	struct g4_dev *dev;
	uint32_t index, rounds;
	bool polls;
};

/* Requests overlap; each thread has its own part of the device. */
static void *work(void *argument)
{
	struct worker *w = argument;
	struct g4_wg *own = g4_wg_create(w->index + 2);
	const uint64_t base = w->index * 2 * G4_MIB;
	uint8_t *memory = pages(8 * 16384);
	struct g4_iov iov[8];
	struct g4_io io[8];

	for (uint32_t round = 0; round < w->rounds; round++) {
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
			submit_all(own, w->dev, io, 8);
			for (uint32_t i = 0; i < 8; i++) {
				while (w->polls && !g4_dev_poll(own, w->dev, &io[i]))
					g4_pause();
				assert_int_equal(g4_dev_wait(own, w->dev, &io[i]), 0);
				if (pass)
					check(iov[i].base, iov[i].bytes, io[i].offset_bytes, round);
			}
		}
	}
	free(memory);
	g4_wg_destroy(own);
	return NULL;
}

static inline void run_workers(struct g4_dev *dev, uint32_t count, uint32_t rounds)
{
	struct worker workers[WORKERS_MOST];

	for (uint32_t i = 0; i < count; i++) {
		workers[i] = (struct worker){.dev = dev, .index = i, .rounds = rounds, .polls = i == 0};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (uint32_t i = 0; i < count; i++)
		pthread_join(workers[i].thread, NULL);
}

#endif
