/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of NVMe controllers that lanes of a GPU fill and poll, with emulated controllers over memory, a thread of the host each:
 * first that what lanes write is what they read, then how fast it is.
 *
 * Usage: nvme [-s SECONDS] [-c | -f] [-o FILE.json]      SECONDS a row (1); -c: the check alone; -f: what bench/nvme.py draws, of reads and
 * writes: each way by the size of a request, with one under way and 32 and, up to 64 KiB, with 8 192 of eight controllers
 * Prints a line a row: way, controllers, queues, lanes, depth, bytes, requests/s, then ns: minimum, quartiles, 99 %, 99.9 %, maximum.
 * Exit status 1: something was wrong; 2: the GPU failed.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log_host.h"
#include "dev/dev_host.h"
#include "dev/nvme/device_host.h"
#include "dev/nvme/lanes_host.h"
#include "gpu/nvme.h"

#define CONTROLLERS_MOST 8u
#define MEDIUM_MIB 64u

static const char *const way_names[] = {"raw", "pair", "driver", "lanes", "check"};

static FILE *json;
static uint32_t rows, wrong, writes;
static double seconds = 1;
static uint32_t *samples;
static bool fills; /* media are written in full first: memory that never was is one page for all */

static void die(int status, const char *what)
{
	fprintf(stderr, "nvme: %s\n", what);
	exit(status);
}

static int by_value(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static uint32_t sample_at(const struct nvme_run *run, uint64_t in_thousand)
{
	return run->sample_count ? samples[(run->sample_count - 1) * in_thousand / 1000] : 0;
}

static void print_row(const struct nvme_run *run, uint32_t controllers)
{
	static const uint64_t places[] = {0, 250, 500, 750, 990, 999, 1000};
	const double rate = (double)run->done / run->elapsed_s;

	qsort(samples, run->sample_count, sizeof(*samples), by_value);
	printf("%-6s  %u  %2u  %5u/%-2u  %2u  %s%4u  %10.0f ", way_names[run->way], controllers, run->queues,
	       run->callers, run->lanes_per_warp, run->depth, run->writes ? "write " : "", run->bytes, rate);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		printf(" %7u", sample_at(run, places[i]));
	printf("%s\n", run->error == 1 ? "  FAILED: a request failed" :
		       run->error      ? "  FAILED: no answer" :
		       run->wrong      ? "  FAILED: other contents" :
					 "");
	fflush(stdout);
	wrong += run->error != 0 || run->wrong != 0 || run->done == 0;
	if (!json)
		return;
	fprintf(json,
		"%s{\"way\": \"%s\", \"controllers\": %u, \"queues\": %u, \"lanes\": %u, \"lanes_per_warp\": %u, \"depth\": %u, "
		"\"op\": \"%s\", \"bytes\": %u, \"requests_s\": %.0f, \"wrong\": %llu, \"ns\": [",
		rows++ ? ",\n" : "", way_names[run->way], controllers, run->queues, run->callers, run->lanes_per_warp,
		run->depth, run->writes ? "write" : "read", run->bytes, rate, (unsigned long long)run->wrong);
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		fprintf(json, "%s%u", i ? ", " : "", sample_at(run, places[i]));
	fprintf(json, "]}");
}

static void fill(struct g4_dev *medium)
{
	static uint8_t piece[G4_MIB] __attribute__((aligned(4096)));

	memset(piece, 1, sizeof(piece));
	for (uint64_t at = 0; at < MEDIUM_MIB * G4_MIB; at += sizeof(piece))
		if (g4_dev_write(NULL, medium, at, piece, sizeof(piece), 0) < 0)
			die(1, "a write failed");
}

/* `lanes`: with so many queues for lanes beside the others. */
static void open_controller(struct g4_dev **dev, uint32_t queues, uint32_t lanes)
{
	char text[256] = "", name[32];
	const struct g4_dev_message message = {.text = text, .bytes = sizeof(text)};
	const struct g4_nvme_options options = {.queues = queues, .lanes = lanes};
	struct g4_dev *medium;

	snprintf(name, sizeof(name), "mem:%uM", MEDIUM_MIB);
	if (g4_dev_open(name, NULL, &medium, text, sizeof(text)) < 0)
		die(1, text);
	if (fills)
		fill(medium);
	if (g4_nvme_emu_device_open("test", medium, NULL, &options, dev, NULL, message) < 0)
		die(1, text[0] ? text : "cannot open the medium");
	const struct g4_nvme *nvme = (*dev)->host;
	nvme->provider.stay_awake(nvme->provider.context, true); /* who fills queues here tells it nothing */
	if (nvme->queue_count != queues)
		die(1, "the controller gave other queues");
	if (!nvme_gpu_share(nvme->memory, nvme->memory_bytes) ||
	    !nvme_gpu_share(nvme->provider.registers, nvme->provider.register_bytes))
		die(2, "the GPU failed");
}

static void close_controller(struct g4_dev *dev)
{
	const struct g4_nvme *nvme = dev->host;

	nvme_gpu_unshare(nvme->memory);
	nvme_gpu_unshare(nvme->provider.registers);
	g4_dev_close(dev);
}

static void share_keeper(const struct g4_nvme_keeper *keeper, bool share)
{
	uint64_t bytes;
	bool io;
	void *staging = g4_nvme_keeper_memory(keeper, G4_NVME_KEEPER_PIECES - 1, &bytes, &io);

	if (!share)
		nvme_gpu_unshare(staging);
	else if (!nvme_gpu_share(staging, bytes)) /* its other pieces are the controller's */
		die(2, "the GPU failed");
}

/* Its queues become those of number `first`, `first` + `step` and so on. */
static struct g4_nvme_keeper *put_lanes(struct g4_dev *dev, uint32_t first, uint32_t step, uint32_t count,
					uint32_t bytes)
{
	static struct g4_nvme_lanes lanes[G4_MAPPER_QUEUES_MOST];
	static struct g4_remote remote[G4_MAPPER_QUEUES_MOST];
	const struct g4_nvme_lanes_options options = {.slots = G4_NVME_LANE_SLOTS,
						      .chunk_bytes = g4_align_up(bytes, G4_PAGE_BYTES)};
	struct g4_nvme_keeper *keeper;
	struct g4_dev seen;

	if (g4_nvme_keeper_open(dev, &options, &keeper, (struct g4_dev_message){0}) < 0 ||
	    g4_nvme_keeper_queues(keeper) != count)
		die(1, "the controller has no such queues for lanes");
	share_keeper(keeper, true);
	g4_nvme_keeper_describe(keeper, lanes, lanes, remote, remote, &seen);
	g4_nvme_keeper_rest(keeper, false);
	for (uint32_t i = 0; i < count; i++)
		if (!nvme_gpu_put_lanes(first + i * step, &lanes[i], &remote[i].pool))
			die(2, "the GPU failed");
	return keeper;
}

/* The PRPs of all but the first page of each request by hand. */
static void fill_lists(const struct g4_dev *dev, const struct nvme_run *run)
{
	const struct g4_nvme *nvme = dev->host;

	for (uint32_t i = 0; i < run->depth; i++) {
		g4_le64 *list = (g4_le64 *)(nvme->queues[0].lists + i * G4_NVME_LIST_BYTES);

		for (uint64_t at = G4_PAGE_BYTES; at < nvme_gpu_buffer_bytes(run); at += G4_PAGE_BYTES)
			*list++ = (uintptr_t)nvme_gpu_buffer(run, i) + at;
	}
}

/* The queues of all controllers in turns, so that neighbouring lanes meet at none. */
static void row(enum nvme_way way, uint32_t controllers, uint32_t queues_each, uint32_t callers,
		uint32_t lanes_per_warp, uint32_t depth, uint32_t bytes)
{
	struct g4_dev *devs[CONTROLLERS_MOST];
	struct g4_nvme_keeper *keepers[CONTROLLERS_MOST];
	const bool lanes = way == NVME_LANES;
	struct nvme_run run = {.way = way,
			       .callers = callers,
			       .lanes_per_warp = lanes_per_warp,
			       .depth = depth,
			       .queues = controllers * queues_each,
			       .bytes = bytes,
			       .writes = writes,
			       .blocks = MEDIUM_MIB * G4_MIB / bytes,
			       .seconds = seconds,
			       .samples = samples};

	for (uint32_t i = 0; i < controllers; i++)
		open_controller(&devs[i], lanes ? 1 : queues_each, lanes ? queues_each : 0);
	for (uint32_t i = 0; lanes && i < controllers; i++)
		keepers[i] = put_lanes(devs[i], i, controllers, queues_each, bytes);
	if (way <= NVME_PAIR)
		fill_lists(devs[0], &run);
	for (uint32_t i = 0; !lanes && i < run.queues; i++) {
		const struct g4_nvme *nvme = devs[i % controllers]->host;
		if (!nvme_gpu_put_queue(i, &nvme->queues[i / controllers]))
			die(2, "the GPU failed");
	}
	if (!nvme_gpu_run(&run))
		die(2, "the GPU failed");
	print_row(&run, controllers);
	for (uint32_t i = 0; i < controllers; i++) {
		if (lanes) {
			share_keeper(keepers[i], false);
			g4_nvme_keeper_close(keepers[i]);
		}
		close_controller(devs[i]);
	}
}

static void check(void)
{
	row(NVME_CHECK, 1, 1, 1, 1, 1, 4096);
	row(NVME_CHECK, 1, 1, 32, 32, 1, 512);
	row(NVME_CHECK, 1, 1, 512, 32, 1, 512); /* more than slots: callers wait for their turn */
	row(NVME_CHECK, 2, 8, 2048, 32, 1, 1024);
	row(NVME_CHECK, 8, 8, NVME_GPU_CALLERS, 32, 1, 512);
}

static void measure(void)
{
	for (uint32_t depth = 1; depth <= 64; depth = depth == 1 ? 32 : depth * 2) {
		row(NVME_RAW, 1, 1, 1, 1, depth, 512);
		row(NVME_PAIR, 1, 1, 1, 1, depth, 512);
	}
	for (int way = NVME_DRIVER; way <= NVME_LANES; way++) {
		row((enum nvme_way)way, 1, 1, 1, 1, 1, 512);
		row((enum nvme_way)way, 1, 1, 1, 1, 1, 4096);
		row((enum nvme_way)way, 1, 1, 32, 1, 1, 512);
		row((enum nvme_way)way, 1, 1, 128, 1, 1, 512);
		row((enum nvme_way)way, 1, 1, 128, 32, 1, 512);
		for (uint32_t controllers = 2; controllers <= CONTROLLERS_MOST; controllers *= 2)
			row((enum nvme_way)way, controllers, 1, 128 * controllers, 1, 1, 512);
		row((enum nvme_way)way, CONTROLLERS_MOST, 1, 1024, 1, 1, 4096);
		row((enum nvme_way)way, CONTROLLERS_MOST, 1, NVME_GPU_CALLERS, 32, 1,
		    512); /* eight times as many as slots */
	}
	for (uint32_t controllers = 1; controllers <= CONTROLLERS_MOST; controllers *= 2)
		row(NVME_DRIVER, controllers, 8, 1024 * controllers, 32, 1, 512);
	for (uint32_t queues = 2; queues <= 8; queues *= 2)
		row(NVME_LANES, 1, queues, 128 * queues, 1, 1, 512);
	row(NVME_LANES, CONTROLLERS_MOST, 4, 2048, 1, 1, 512);
	row(NVME_LANES, CONTROLLERS_MOST, 8, 2048, 1, 1, 512);
	row(NVME_DRIVER, CONTROLLERS_MOST, 8, 1024, 1, 1, 512);
}

/* The document's figures 6.2 to 6.8. */
static void measure_figures(void)
{
	static const uint32_t sizes[] = {512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 262144, 1048576};

	for (writes = 0; writes < 2; writes++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			for (int way = NVME_RAW; way <= NVME_LANES; way++) {
				row((enum nvme_way)way, 1, 1, 1, 1, 1, sizes[i]);
				if (way <= NVME_PAIR)
					row((enum nvme_way)way, 1, 1, 1, 1, 32, sizes[i]);
				else
					row((enum nvme_way)way, 1, 1, 32, 1, 1, sizes[i]);
			}
			if (sizes[i] * (uint64_t)NVME_GPU_CALLERS > NVME_GPU_BUFFERS_BYTES)
				continue;
			row(NVME_DRIVER, CONTROLLERS_MOST, 8, NVME_GPU_CALLERS, 32, 1, sizes[i]);
			row(NVME_LANES, CONTROLLERS_MOST, 8, NVME_GPU_CALLERS, 32, 1, sizes[i]);
		}
	writes = 0;
}

int main(int argc, char **argv)
{
	bool only_check = false, figures = false;

	for (int c; (c = getopt(argc, argv, "s:cfo:")) != -1;) {
		if (c == 's')
			seconds = strtod(optarg, NULL);
		else if (c == 'c')
			only_check = true;
		else if (c == 'f')
			figures = fills = true;
		else if (c != 'o' || !(json = fopen(optarg, "w")))
			die(1, "usage: nvme [-s SECONDS] [-c | -f] [-o FILE.json]");
	}
	samples = malloc(NVME_GPU_SAMPLES * sizeof(*samples));
	if (!samples || !nvme_gpu_open())
		die(2, "the GPU failed");
	printf("way  controllers  queues  lanes/of a warp  depth  bytes  requests/s   minimum 25%% 50%% 75%% 99%% 99.9%% "
	       "maximum (ns)\n");
	if (json)
		fprintf(json, "[");
	if (figures)
		measure_figures();
	else
		check();
	if (!figures && !only_check)
		measure();
	if (json) {
		fprintf(json, "]\n");
		fclose(json);
	}
	nvme_gpu_close();
	printf("%u rows failed\n", wrong);
	return wrong != 0;
}
