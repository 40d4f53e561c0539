/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the layers of the NVMe driver cost on the emulated controller: reads at random places of a medium of memory. Each
 * controller has a thread and so has who reads, and each of them needs a processor of its own. Ways:
 *   raw     one thread writes commands and doorbells itself, as the specification has it: no atomics but the doorbell's, nothing shared
 *   pair    the same commands through pair.c, which many lanes may share
 *   driver  g4_dev_submit(), g4_dev_wait(): requests, slots, retries, checks
 *   lanes   what lanes of an engine do (nvme/lanes.c), by threads, in one queue
 *   mapped  the same with four queues and the mapper
 *   met     as mapped, by threads whose indices put all of them into the same queue
 *   uring   no controller: the medium, a file, by the kernel's io_uring
 *   pread   the same by pread() or pwrite(), by as many threads as the others have requests under way
 * Times are from just before the submission until the reader has seen the completion, those of each thread's first two million
 * reads; of more than 16 threads all together have as many as 16. A reader of many reads through the driver waits for the oldest one.
 *
 * Usage: nvme_bench [-l] [-s SECONDS] [-b BYTES] [-m MIB]
 *   -l: only rows of lanes; SECONDS of each row (1); BYTES of a read, 512 to 1 MiB (512); MIB of memory as the medium (64)
 * Prints a line for each: way, controllers, threads, depth of each, requests/s, then ns: minimum, quartiles, 99.9 %, maximum.
 *
 * Usage: nvme_bench -w WAY[,WAY]... [-b BYTES[,BYTES]...] [-d DEPTH[,DEPTH]...] [-t THREADS] [-o read|write] [-q] [-f FILE] [-i] [-j] [-s SECONDS] [-m MIB]
 *   Rows of one controller, for each size, depth and way. -q: places in a row; -f: the medium is this file, which writes overwrite; -j: an object
 *   of JSON a line, which also has requests a second of the threads' processor time. Sizes that are no sectors of the medium are left out. -i: raw, pair and driver do not wake the controller, and who waits
 *   polls and is the controller: the code of both is measured, where there are no processors for both.
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log_host.h"
#include "dev/dev_host.h"
#include "dev/nvme/device_host.h"
#include "dev/nvme/lanes_host.h"
#include "simt/simt_host.h"

#define DEPTH_MOST 64u
#define THREADS_MOST 256u
#define CONTROLLERS_MOST 8u
#define SAMPLES_MOST 2000000u
#define SAMPLED_THREADS 16u
#define QUEUES_MOST 8u
#define BYTES_MOST G4_MIB

enum way { RAW, PAIR, DRIVER, LANES, MAPPED, MET, URING, PREAD, WAYS };
static const char *const way_names[] = {"raw", "pair", "driver", "lanes", "mapped", "met", "uring", "pread"};
#define LANE_QUEUES 4u

static double seconds = 1;
static uint64_t request_bytes = 512, medium_mib = 64, medium_bytes;
static const char *file; /* NULL: the medium is memory */
static bool writes, in_a_row, json, alone;

struct worker {
	pthread_t thread;
	enum way way;
	struct g4_dev *dev;
	struct g4_nvme_queue *queue; /* of raw and pair */
	uint32_t index, depth;
	uint64_t done, ns, cpu_ns;
	uint32_t *samples;
	uint32_t sample_count, samples_most;
	uint8_t *memory;
	uint64_t memory_each; /* of a request: whole pages */
	uint64_t since[DEPTH_MOST];
	uint64_t random;
	int fd; /* of pread */
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
	if (in_a_row)
		return w->random++ % (medium_bytes / request_bytes) * request_bytes;
	w->random = w->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (w->random >> 33) % (medium_bytes / request_bytes) * request_bytes;
}

static void ended(struct worker *w, uint32_t index)
{
	if (w->sample_count < w->samples_most)
		w->samples[w->sample_count++] = (uint32_t)g4_min64(g4_monotonic_ns() - w->since[index], UINT32_MAX);
	w->done++;
}

/* ---- raw and pair: commands by hand ---- */

/* The PRPs of all but the first page of each request's memory, which stays where it is. */
static void fill_lists(const struct worker *w)
{
	for (uint32_t i = 0; i < w->depth; i++) {
		g4_le64 *list = (g4_le64 *)(w->queue->lists + i * G4_NVME_LIST_BYTES);

		for (uint64_t at = G4_PAGE_BYTES; at < w->memory_each; at += G4_PAGE_BYTES)
			*list++ = (uintptr_t)w->memory + i * w->memory_each + at;
	}
}

static uint64_t second_prp(const struct worker *w, uint32_t index)
{
	if (request_bytes <= G4_PAGE_BYTES)
		return 0;
	if (request_bytes <= 2 * G4_PAGE_BYTES)
		return (uintptr_t)w->memory + index * w->memory_each + G4_PAGE_BYTES;
	return (uintptr_t)w->queue->lists + index * G4_NVME_LIST_BYTES;
}

static void send(struct worker *w, uint32_t index)
{
	struct g4_nvme_pair *pair = &w->queue->flight.pair;
	struct g4_nvme_command command
		__attribute__((aligned(16))) = {.opcode = writes ? G4_NVME_WRITE : G4_NVME_READ,
						.id = (g4_le16)index,
						.nsid = 1,
						.prp1 = (uintptr_t)w->memory + index * w->memory_each,
						.prp2 = second_prp(w, index)};
	const uint64_t lba = next_offset(w) >> w->queue->first.block_shift;

	w->since[index] = g4_monotonic_ns();
	command.dword10 = (uint32_t)lba;
	command.dword12 = (uint32_t)(request_bytes >> w->queue->first.block_shift) - 1;
	if (w->way == PAIR) {
		g4_nvme_pair_submit(pair, &command, NULL, 0, NULL);
		return;
	}
	pair->commands[w->tail] = command;
	w->tail = (w->tail + 1) % pair->entries;
	g4_store32_rel_sys(pair->tail_doorbell, w->tail);
}

/* Between two looks. */
static void rest(const struct worker *w)
{
	const struct g4_nvme_provider *provider = &((struct g4_nvme *)w->dev->host)->provider;

	if (!alone)
		g4_pause();
	else if (!provider->work(provider->context))
		sched_yield(); /* its thread is at it */
}

/* The identifier of the next completion, when there is one. */
static uint32_t receive(struct worker *w)
{
	struct g4_nvme_pair *pair = &w->queue->flight.pair;
	uint64_t end;
	uint32_t result;

	if (w->way == PAIR) {
		while (!g4_nvme_pair_next(pair, &end, &result))
			rest(w);
		g4_nvme_pair_consumed(pair);
	} else {
		const uint32_t phase = !(w->head / pair->entries & 1);

		while (end = g4_load64_acq_sys(&pair->completions[w->head % pair->entries].end),
		       g4_nvme_completion_phase(end) != phase)
			rest(w);
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

	fill_lists(w);
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
		ended(w, receive(w));
	w->ns = g4_monotonic_ns() - begin;
}

/* ---- the driver ---- */

static void await(const struct worker *w, struct g4_wg *wg, struct g4_io *io)
{
	while (alone && w->way == DRIVER && !g4_dev_poll(wg, w->dev, io))
		rest(w);
	if (g4_dev_wait(wg, w->dev, io) < 0)
		die("a request failed");
}

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
			await(w, wg, &io[i]);
			ended(w, i);
		}
		more = more && g4_monotonic_ns() < until;
		iov[i] = (struct g4_iov){.base = w->memory + i * w->memory_each, .bytes = request_bytes};
		io[i] = (struct g4_io){.op = writes ? G4_IO_WRITE : G4_IO_READ,
				       .offset_bytes = next_offset(w),
				       .iov = &iov[i],
				       .iov_count = 1};
		w->since[i] = g4_monotonic_ns();
		g4_dev_submit(wg, w->dev, &io[i]);
	}
	for (uint32_t i = 0; i < w->depth; i++) {
		await(w, wg, &io[i]);
		ended(w, i);
	}
	w->ns = g4_monotonic_ns() - begin;
	g4_wg_destroy(wg);
}

/* ---- the kernel's system calls ---- */

static void run_pread(struct worker *w)
{
	const uint64_t begin = g4_monotonic_ns(), until = begin + (uint64_t)(seconds * 1e9);

	do {
		const off_t at = (off_t)next_offset(w);

		w->since[0] = g4_monotonic_ns();
		const ssize_t moved = writes ? pwrite(w->fd, w->memory, request_bytes, at) :
					       pread(w->fd, w->memory, request_bytes, at);
		if (moved != (ssize_t)request_bytes)
			die("a request failed");
		ended(w, 0);
	} while (g4_monotonic_ns() < until);
	w->ns = g4_monotonic_ns() - begin;
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *run_worker(void *argument)
{
	struct worker *w = argument;
	const uint64_t begin = thread_cpu_ns();

	if (w->way == PREAD)
		run_pread(w);
	else if (w->way >= DRIVER)
		run_driver(w);
	else
		run_by_hand(w);
	w->cpu_ns = thread_cpu_ns() - begin;
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
	uint64_t samples = 0, done = 0, cpu_ns = 0;
	double rate = 0;

	for (uint32_t i = 0; i < count; i++) {
		samples += workers[i].sample_count;
		done += workers[i].done;
		cpu_ns += workers[i].cpu_ns;
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
	const uint32_t ns[] = {
		all[0],		 all[samples / 4], all[samples / 2], all[samples * 3 / 4], all[samples * 999 / 1000],
		all[samples - 1]};
	if (json)
		printf("{\"way\": \"%s\", \"medium\": \"%s\", \"op\": \"%s\", \"order\": \"%s\", \"bytes\": %ju, "
		       "\"controllers\": %u, \"threads\": %u, \"depth\": %u, \"requests_s\": %.0f, "
		       "\"requests_cpu_s\": %.0f, "
		       "\"ns\": [%u, %u, %u, %u, %u, %u]}\n",
		       way_names[way], file ? "file" : "memory", writes ? "write" : "read",
		       in_a_row ? "sequential" : "random", (uintmax_t)request_bytes, controllers, count, depth, rate,
		       (double)done * 1e9 / (double)cpu_ns, ns[0], ns[1], ns[2], ns[3], ns[4], ns[5]);
	else
		printf("%-6s  %u  %2u  %2u  %9.0f  %6u  %6u  %6u  %6u  %8u  %9u\n", way_names[way], controllers, count,
		       depth, rate, ns[0], ns[1], ns[2], ns[3], ns[4], ns[5]);
	fflush(stdout);
	free(all);
}

static struct g4_dev *open_medium(void)
{
	char name[32], text[256] = "";
	struct g4_dev *medium;

	snprintf(name, sizeof(name), "mem:%juM", (uintmax_t)medium_mib);
	if (g4_dev_open(file ? file : name, NULL, &medium, text, sizeof(text)) < 0)
		die(text[0] ? text : "cannot open the medium");
	medium_bytes = g4_dev_props(medium)->size_bytes;
	if (medium_bytes < request_bytes)
		die("the medium is smaller than a request");
	return medium;
}

/* Memory that was never written is one page for all. */
static void fill_memory(struct g4_dev *medium)
{
	static uint8_t piece[G4_MIB] __attribute__((aligned(4096)));

	memset(piece, 1, sizeof(piece));
	for (uint64_t at = 0; !file && at < medium_bytes; at += sizeof(piece))
		if (g4_dev_write(NULL, medium, at, piece, sizeof(piece), 0) < 0)
			die("a write failed");
}

static struct g4_dev *open_device(enum way way, uint32_t threads)
{
	const struct g4_nvme_options options = {
		.queues = way == DRIVER ? threads < QUEUES_MOST ? threads : QUEUES_MOST : 1,
		.lanes = way >= MAPPED ? LANE_QUEUES : way == LANES};
	const struct g4_nvme_lanes_options few = {.slots = way == LANES ? 8 :
									  2}; /* eight in all: they are to be scarce */
	char text[256] = "";
	const struct g4_dev_message message = {.text = text, .bytes = sizeof(text)};
	struct g4_dev *dev, *medium = open_medium();

	fill_memory(medium);
	if (way >= URING)
		return medium;
	if (g4_nvme_emu_device_open("bench", medium, NULL, &options, &dev, NULL, message) < 0)
		die(text[0] ? text : "cannot open the medium");
	if (alone && way <= DRIVER)
		g4_nvme_of(dev)->provider.rung = NULL;
	if (way >= LANES && g4_dev_lanes_open(dev, &few, &dev, (struct g4_dev_message){0}) < 0)
		die("there is no queue for lanes");
	return dev;
}

static void open_worker(struct worker *w, uint32_t count)
{
	w->samples_most = SAMPLES_MOST / (count > SAMPLED_THREADS ? count / SAMPLED_THREADS : 1);
	w->memory_each = g4_align_up(request_bytes, G4_PAGE_BYTES);
	w->queue = w->way < LANES ? &((struct g4_nvme *)w->dev->host)->queues[0] : NULL;
	w->samples = malloc(w->samples_most * sizeof(*w->samples));
	w->memory = aligned_alloc(G4_PAGE_BYTES, w->depth * w->memory_each);
	if (!w->samples || !w->memory)
		die("out of memory");
	memset(w->samples, 0, w->samples_most * sizeof(*w->samples));
	memset(w->memory, 1, w->depth * w->memory_each);
	if (w->way != PREAD)
		return;
	w->fd = open(file, (writes ? O_RDWR : O_RDONLY) | O_DIRECT);
	if (w->fd < 0)
		die("cannot open the file without the page cache");
}

static void row(enum way way, uint32_t controllers, uint32_t threads_each, uint32_t depth)
{
	const uint32_t count = controllers * threads_each;
	static struct worker workers[THREADS_MOST];
	struct g4_dev *devs[CONTROLLERS_MOST];

	for (uint32_t i = 0; i < controllers; i++)
		devs[i] = open_device(way, threads_each);
	for (uint32_t i = 0; i < count; i++) {
		workers[i] = (struct worker){
			.way = way, .dev = devs[i / threads_each], .index = i, .depth = depth, .random = i};
		open_worker(&workers[i], count);
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
		if (way == PREAD)
			close(workers[i].fd);
	}
	for (uint32_t i = 0; i < controllers; i++)
		g4_dev_close(devs[i]);
}

static void all_rows(void)
{
	for (uint32_t depth = 1; depth <= DEPTH_MOST; depth = depth == 1 ? 32 : depth * 2)
		for (int way = RAW; way <= DRIVER; way++)
			row((enum way)way, 1, 1, depth);
	for (uint32_t threads = 2; threads <= 8; threads *= 2)
		row(DRIVER, 1, threads, 32);
	for (int way = LANES; way <= MET; way++)
		row((enum way)way, 1, 16, 1);
	for (uint32_t controllers = 2; controllers <= CONTROLLERS_MOST; controllers *= 2)
		row(DRIVER, controllers, 1, 32);
}

/* ---- chosen rows ---- */

#define LIST_MOST 32u
struct list {
	uint64_t items[LIST_MOST];
	uint32_t count;
};

/* Numbers, or names of ways. */
static struct list parse_list(char *text, bool ways)
{
	struct list list = {.count = 0};

	for (char *word; (word = strsep(&text, ",")) && list.count < LIST_MOST; list.count++) {
		uint64_t way = 0;

		while (ways && way < WAYS && strcmp(word, way_names[way]) != 0)
			way++;
		if (way == WAYS)
			die("there is no such way");
		list.items[list.count] = ways ? way : strtoull(word, NULL, 10);
	}
	return list;
}

static bool fits_sectors(void)
{
	struct g4_dev *medium = open_medium();
	const bool fits = request_bytes % g4_dev_props(medium)->sector_bytes == 0;

	g4_dev_close(medium);
	return fits;
}

static void chosen_rows(const struct list *ways, const struct list *sizes, const struct list *depths, uint32_t threads)
{
	for (uint32_t size = 0; size < sizes->count; size++) {
		request_bytes = sizes->items[size];
		for (uint32_t d = 0; d < depths->count && fits_sectors(); d++)
			for (uint32_t way = 0; way < ways->count; way++) {
				const uint32_t depth = (uint32_t)depths->items[d];
				const bool each = ways->items[way] == PREAD; /* a thread has one request */

				row((enum way)ways->items[way], 1, each ? threads * depth : threads, each ? 1 : depth);
			}
	}
}

int main(int argc, char **argv)
{
	struct list ways = {.count = 0}, sizes = {.items = {512}, .count = 1}, depths = {.items = {1}, .count = 1};
	bool lanes_only = false;
	uint32_t threads = 1;

	for (int c; (c = getopt(argc, argv, "ls:b:m:w:d:t:o:qf:ij")) != -1;) {
		if (c == 'l')
			lanes_only = true;
		else if (c == 's')
			seconds = strtod(optarg, NULL);
		else if (c == 'b')
			sizes = parse_list(optarg, false);
		else if (c == 'm')
			medium_mib = strtoull(optarg, NULL, 10);
		else if (c == 'w')
			ways = parse_list(optarg, true);
		else if (c == 'd')
			depths = parse_list(optarg, false);
		else if (c == 't')
			threads = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 'o' && (strcmp(optarg, "read") == 0 || strcmp(optarg, "write") == 0))
			writes = strcmp(optarg, "write") == 0;
		else if (c == 'q')
			in_a_row = true;
		else if (c == 'f')
			file = optarg;
		else if (c == 'i')
			alone = true;
		else if (c == 'j')
			json = true;
		else
			return 2;
	}
	for (uint32_t i = 0; i < sizes.count; i++)
		if (sizes.items[i] < 512 || sizes.items[i] > BYTES_MOST || sizes.items[i] % 512 != 0)
			die("BYTES are a multiple of 512 up to 1 MiB");
	for (uint32_t i = 0; i < depths.count; i++)
		if (depths.items[i] == 0 || depths.items[i] > DEPTH_MOST || threads * depths.items[i] > THREADS_MOST)
			die("DEPTH is 1 to 64, and THREADS times DEPTH at most 256");
	for (uint32_t i = 0; i < ways.count; i++)
		if (ways.items[i] >= URING && !file)
			die("uring and pread want -f FILE");
	for (uint32_t i = 0; i < ways.count; i++)
		for (uint32_t d = 0; d < depths.count; d++)
			if (ways.items[i] >= LANES && ways.items[i] <= MET && depths.items[d] > 1)
				die("a lane has one request: who submits waits for slots that only its own waits would give back");
	if (seconds <= 0 || medium_mib == 0 || threads == 0 || threads > THREADS_MOST)
		die("SECONDS above 0, MIB above 0, THREADS 1 to 256");
	if (ways.count > 0) {
		chosen_rows(&ways, &sizes, &depths, threads);
		return 0;
	}
	request_bytes = sizes.items[0];
	printf("way  controllers  threads  depth  requests/s   minimum  25%%  median  75%%  99.9%%  maximum (ns)\n");
	for (int way = LANES; lanes_only && way <= MET; way++)
		row((enum way)way, 1, 16, 1);
	if (!lanes_only)
		all_rows();
	return 0;
}
