/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the layers of the NVMe driver cost on the emulated controller: reads at random places of a medium of memory. Each
 * controller has a thread and so has who reads, and each of them needs a processor of its own. Three ways:
 *   raw     one thread writes commands and doorbells itself, as the specification has it: no atomics but the doorbell's, nothing shared
 *   pair    the same commands through pair.c, which many lanes may share
 *   driver  g4_dev_submit(), g4_dev_wait(): requests, slots, retries, checks
 *   lanes   what lanes of an engine do (nvme/lanes.c), by threads, in one queue
 *   mapped  the same with four queues and the mapper
 *   met     as mapped, by threads whose indices put all of them into the same queue
 * Times are from just before the submission until the reader has seen the completion, those of each thread's first two million
 * reads. A reader of many reads through the driver waits for the oldest one.
 *
 * Usage: nvme_bench [-l] [-s SECONDS] [-b BYTES] [-m MIB]
 *   -l: only rows of lanes; SECONDS of each row (1); BYTES of a read, 512 to 4096 (512); MIB of memory as the medium (64)
 * Prints a line for each: way, controllers, threads, depth of each, requests/s, then ns: minimum, quartiles, 99.9 %, maximum.
 */
#define _GNU_SOURCE 1
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log_host.h"
#include "dev/dev_host.h"
#include "dev/nvme/device_host.h"
#include "dev/nvme/lanes_host.h"
#include "simt/simt_host.h"

#define DEPTH_MOST 64u
#define THREADS_MOST 16u
#define CONTROLLERS_MOST 8u
#define SAMPLES_MOST 2000000u

enum way { RAW, PAIR, DRIVER, LANES, MAPPED, MET };
static const char *const way_names[] = {"raw", "pair", "driver", "lanes", "mapped", "met"};
#define LANE_QUEUES 4u

static double seconds = 1;
static uint64_t read_bytes = 512, medium_mib = 64;

struct worker {
	pthread_t thread;
	enum way way;
	struct g4_dev *dev;
	struct g4_nvme_queue *queue; /* of raw and pair */
	uint32_t index, depth;
	uint64_t done, ns;
	uint32_t *samples;
	uint32_t sample_count;
	uint8_t *memory;
	uint64_t since[DEPTH_MOST];
	uint64_t random;
	/* raw: */
	uint32_t tail, head;
};

static void die(const char *what)
{
	fprintf(stderr, "nvme_bench: %s\n", what);
	exit(1);
}

static uint64_t next_offset(struct worker *w)
{
	w->random = w->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (w->random >> 33) % (medium_mib * G4_MIB / read_bytes) * read_bytes;
}

static void ended(struct worker *w, uint32_t index)
{
	if (w->sample_count < SAMPLES_MOST)
		w->samples[w->sample_count++] = (uint32_t)g4_min64(g4_monotonic_ns() - w->since[index], UINT32_MAX);
	w->done++;
}

/* ---- raw and pair: commands by hand ---- */

static void send(struct worker *w, uint32_t index)
{
	struct g4_nvme_pair *pair = &w->queue->flight.pair;
	struct g4_nvme_command command __attribute__((aligned(16))) = {
		.opcode = G4_NVME_READ, .id = (g4_le16)index, .nsid = 1, .prp1 = (uintptr_t)w->memory + index * 4096};
	const uint64_t lba = next_offset(w) >> w->queue->first.block_shift;

	w->since[index] = g4_monotonic_ns();
	command.dword10 = (uint32_t)lba;
	command.dword12 = (uint32_t)(read_bytes >> w->queue->first.block_shift) - 1;
	if (w->way == PAIR) {
		g4_nvme_pair_submit(pair, &command, NULL, 0, NULL);
		return;
	}
	pair->commands[w->tail] = command;
	w->tail = (w->tail + 1) % pair->entries;
	g4_store32_rel_sys(pair->tail_doorbell, w->tail);
}

/* The identifier of the next completion, when there is one. */
static uint32_t receive(struct worker *w)
{
	struct g4_nvme_pair *pair = &w->queue->flight.pair;
	uint64_t end;
	uint32_t result;

	if (w->way == PAIR) {
		while (!g4_nvme_pair_next(pair, &end, &result))
			g4_pause();
		g4_nvme_pair_consumed(pair);
	} else {
		const uint32_t phase = !(w->head / pair->entries & 1);

		while (end = g4_load64_acq_sys(&pair->completions[w->head % pair->entries].end),
		       g4_nvme_completion_phase(end) != phase)
			g4_pause();
		w->head++;
		g4_store32_rel_sys(pair->head_doorbell, w->head % pair->entries);
	}
	if (g4_nvme_completion_status(end) != 0 || g4_nvme_completion_id(end) >= w->depth)
		die("a command failed");
	return g4_nvme_completion_id(end);
}

static void run_by_hand(struct worker *w)
{
	const uint64_t begin = g4_monotonic_ns(), until = begin + (uint64_t)(seconds * 1e9);

	for (uint32_t i = 0; i < w->depth; i++)
		send(w, i);
	for (bool more = true; more;) {
		const uint32_t index = receive(w);
		ended(w, index);
		more = g4_monotonic_ns() < until;
		if (more)
			send(w, index);
	}
	for (uint32_t i = 1; i < w->depth; i++)
		receive(w);
	w->ns = g4_monotonic_ns() - begin;
}

/* ---- the driver ---- */

static void run_driver(struct worker *w)
{
	struct g4_wg *wg = g4_wg_create(w->way == MET ? w->index * LANE_QUEUES : w->index);
	struct g4_iov iov[DEPTH_MOST];
	struct g4_io io[DEPTH_MOST];
	const uint64_t begin = g4_monotonic_ns(), until = begin + (uint64_t)(seconds * 1e9);
	bool more = true;

	if (!wg)
		die("out of memory");
	for (uint64_t n = 0; more || n % w->depth != 0; n++) {
		const uint32_t i = n % w->depth;

		if (n >= w->depth) {
			if (g4_dev_wait(wg, w->dev, &io[i]) < 0)
				die("a request failed");
			ended(w, i);
		}
		more = more && g4_monotonic_ns() < until;
		iov[i] = (struct g4_iov){.base = w->memory + i * 4096, .bytes = read_bytes};
		io[i] = (struct g4_io){
			.op = G4_IO_READ, .offset_bytes = next_offset(w), .iov = &iov[i], .iov_count = 1};
		w->since[i] = g4_monotonic_ns();
		g4_dev_submit(wg, w->dev, &io[i]);
	}
	for (uint32_t i = 0; i < w->depth; i++)
		if (g4_dev_wait(wg, w->dev, &io[i]) < 0)
			die("a request failed");
	w->ns = g4_monotonic_ns() - begin;
	g4_wg_destroy(wg);
}

static void *run_worker(void *argument)
{
	struct worker *w = argument;

	if (w->way >= DRIVER)
		run_driver(w);
	else
		run_by_hand(w);
	return NULL;
}

/* ---- rows ---- */

static int by_value(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static void print_row(enum way way, uint32_t controllers, struct worker *workers, uint32_t count, uint32_t depth)
{
	uint64_t samples = 0;
	double rate = 0;

	for (uint32_t i = 0; i < count; i++) {
		samples += workers[i].sample_count;
		rate += (double)workers[i].done * 1e9 / (double)workers[i].ns;
	}
	uint32_t *all = malloc((samples + 1) * sizeof(*all));
	if (!all || samples == 0)
		die("no samples");
	samples = 0;
	for (uint32_t i = 0; i < count; i++) {
		memcpy(all + samples, workers[i].samples, workers[i].sample_count * sizeof(*all));
		samples += workers[i].sample_count;
	}
	qsort(all, samples, sizeof(*all), by_value);
	printf("%-6s  %u  %2u  %2u  %9.0f  %6u  %6u  %6u  %6u  %8u  %9u\n", way_names[way], controllers, count, depth,
	       rate, all[0], all[samples / 4], all[samples / 2], all[samples * 3 / 4], all[samples * 999 / 1000],
	       all[samples - 1]);
	fflush(stdout);
	free(all);
}

static void row(enum way way, uint32_t controllers, uint32_t threads_each, uint32_t depth)
{
	const uint32_t count = controllers * threads_each;
	static struct worker workers[THREADS_MOST];
	struct g4_dev *devs[CONTROLLERS_MOST];
	char medium_name[32], text[256] = "";
	const struct g4_dev_message message = {.text = text, .bytes = sizeof(text)};
	const struct g4_nvme_options options = {.queues = way == DRIVER ? threads_each : 1,
						.lanes = way >= MAPPED ? LANE_QUEUES : way == LANES};
	const struct g4_nvme_lanes_options few = {.slots = way == LANES ? 8 :
									  2}; /* eight in all: they are to be scarce */

	snprintf(medium_name, sizeof(medium_name), "mem:%juM", (uintmax_t)medium_mib);
	for (uint32_t i = 0; i < controllers; i++) {
		struct g4_dev *medium;
		if (g4_dev_open(medium_name, NULL, &medium, text, sizeof(text)) < 0 ||
		    g4_nvme_emu_device_open("bench", medium, NULL, &options, &devs[i], NULL, message) < 0)
			die(text[0] ? text : "cannot open the medium");
		if (way >= LANES && g4_dev_lanes_open(devs[i], &few, &devs[i], (struct g4_dev_message){0}) < 0)
			die("there is no queue for lanes");
	}
	for (uint32_t i = 0; i < count; i++) {
		struct worker *w = &workers[i];
		*w = (struct worker){
			.way = way, .dev = devs[i / threads_each], .index = i, .depth = depth, .random = i};
		w->queue = way < LANES ? &((struct g4_nvme *)w->dev->host)->queues[0] : NULL;
		w->samples = malloc(SAMPLES_MOST * sizeof(*w->samples));
		w->memory = aligned_alloc(4096, (uint64_t)DEPTH_MOST * 4096);
		if (!w->samples || !w->memory)
			die("out of memory");
		memset(w->samples, 0, SAMPLES_MOST * sizeof(*w->samples));
		memset(w->memory, 0, (uint64_t)DEPTH_MOST * 4096);
	}
	for (uint32_t i = 0; i < count; i++)
		if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) != 0)
			die("cannot start a thread");
	for (uint32_t i = 0; i < count; i++)
		pthread_join(workers[i].thread, NULL);
	print_row(way, controllers, workers, count, depth);
	for (uint32_t i = 0; i < count; i++) {
		free(workers[i].samples);
		free(workers[i].memory);
	}
	for (uint32_t i = 0; i < controllers; i++)
		g4_dev_close(devs[i]);
}

int main(int argc, char **argv)
{
	bool lanes_only = false;

	for (int c; (c = getopt(argc, argv, "ls:b:m:")) != -1;) {
		if (c == 'l')
			lanes_only = true;
		else if (c == 's')
			seconds = strtod(optarg, NULL);
		else if (c == 'b')
			read_bytes = strtoull(optarg, NULL, 10);
		else if (c == 'm')
			medium_mib = strtoull(optarg, NULL, 10);
		else
			return 2;
	}
	if (seconds <= 0 || read_bytes < 512 || read_bytes > 4096 || read_bytes % 512 != 0 || medium_mib == 0)
		die("SECONDS above 0, BYTES a multiple of 512 up to 4096, MIB above 0");
	printf("way  controllers  threads  depth  requests/s   minimum  25%%  median  75%%  99.9%%  maximum (ns)\n");
	for (int way = LANES; lanes_only && way <= MET; way++)
		row((enum way)way, 1, 16, 1);
	if (lanes_only)
		return 0;
	for (uint32_t depth = 1; depth <= DEPTH_MOST; depth = depth == 1 ? 32 : depth * 2)
		for (int way = RAW; way <= DRIVER; way++)
			row((enum way)way, 1, 1, depth);
	for (uint32_t threads = 2; threads <= 8; threads *= 2)
		row(DRIVER, 1, threads, 32);
	for (int way = LANES; way <= MET; way++)
		row((enum way)way, 1, 16, 1);
	for (uint32_t controllers = 2; controllers <= CONTROLLERS_MOST; controllers *= 2)
		row(DRIVER, controllers, 1, 32);
	return 0;
}
