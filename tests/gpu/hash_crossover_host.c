/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From which batch on the GPU hashes pages of host memory faster than the CPU: BLAKE3 of 4 KiB pages by 1 to 16 threads
 * with the processor's best vectors, and by the GPU with all copies. Every digest of the GPU is compared with the CPU's.
 *
 * Batches walk through more memory than the caches hold. The CPU's threads wait for their work actively, as those of a
 * pool that is busy do; the GPU's time is that of one caller who waits for the digests.
 *
 * Usage: hash_crossover [-t SECONDS] [-o FILE.json]      SECONDS of each measurement
 */
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "gpu/hash_crossover.h"
#include "hash/blake3.h"
#include "simt/simt_host.h"

#define DATA_BYTES (512 * G4_MIB)
#define MOST_BATCH (256 * G4_MIB)
#define BATCHES 17 /* 4 KiB, 8 KiB, ... 256 MiB */
#define MOST_THREADS 16u
#define THREAD_COUNTS 5
#define CALL_PAGES 64u /* pages that a thread hashes in one call; more fill the vectors no better */

static FILE *json;
static int rows;
static double seconds = 0.2;

/* value below 0: none. */
static void report(const char *metric, const char *unit, double value, double cpu)
{
	if (value < 0)
		printf("%-52s %12s\n", metric, "none");
	else
		printf("%-52s %12.4g %-6s cpu %.3f s\n", metric, value, unit, cpu);
	fflush(stdout);
	if (!json)
		return;
	fprintf(json,
		"%s\n  {\"bench\": \"gpu-hash\", \"engine\": \"cuda\", \"metric\": \"%s\", \"unit\": \"%s\", \"ours\": ",
		rows++ ? "," : "", metric, unit);
	if (value < 0)
		fprintf(json, "null");
	else
		fprintf(json, "%.6g", value);
	fprintf(json, ", \"peers\": {}, \"target\": null, \"met\": null, \"cpu_seconds\": %.4f}", cpu);
}

static double cpu_seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* ------------------------------------------------------------------ the CPU */

struct workers {
	uint32_t threads; /* with the caller */
	uint32_t round;	  /* the threads wait for it to change */
	uint32_t finished;
	bool stop;
	const uint8_t *data;
	uint64_t pages;
	uint8_t (*digests)[32];
	pthread_t thread[MOST_THREADS];
};
struct member {
	struct workers *workers;
	uint32_t index;
};

/* A thread's share of the batch. */
static void hash_share(struct workers *c, uint32_t index)
{
	const uint64_t first = c->pages * index / c->threads, end = c->pages * (index + 1) / c->threads;
	const void *data[CALL_PAGES];
	uint64_t bytes[CALL_PAGES];

	for (uint64_t at = first; at < end; at += CALL_PAGES) {
		uint64_t count = g4_min64(CALL_PAGES, end - at);
		for (uint64_t i = 0; i < count; i++) {
			data[i] = c->data + (at + i) * HASH_PAGE_BYTES;
			bytes[i] = HASH_PAGE_BYTES;
		}
		g4_blake3_many(count, data, bytes, c->digests + at);
	}
}

static void *serve(void *argument)
{
	struct member member = *(struct member *)argument;
	struct workers *c = member.workers;
	uint32_t round = 0;

	free(argument);
	for (;;) {
		while (g4_load32_acq(&c->round) == round)
			g4_pause();
		round++;
		if (c->stop)
			return NULL;
		hash_share(c, member.index);
		g4_add32(&c->finished, 1);
	}
}

static bool start_workers(struct workers *c, uint32_t threads)
{
	*c = (struct workers){.threads = threads};
	for (uint32_t i = 1; i < threads; i++) {
		struct member *member = malloc(sizeof(*member));
		if (!member)
			return false;
		*member = (struct member){c, i};
		if (pthread_create(&c->thread[i], NULL, serve, member) != 0)
			return false;
	}
	return true;
}

static void stop_workers(struct workers *c)
{
	c->stop = true;
	g4_add32(&c->round, 1);
	for (uint32_t i = 1; i < c->threads; i++)
		pthread_join(c->thread[i], NULL);
}

static void hash_by_workers(struct workers *c, const uint8_t *data, uint64_t bytes, uint8_t (*digests)[32])
{
	c->data = data;
	c->pages = bytes / HASH_PAGE_BYTES;
	c->digests = digests;
	g4_store32_rel(&c->finished, 0);
	g4_add32(&c->round, 1);
	hash_share(c, 0);
	while (g4_load32_acq(&c->finished) != c->threads - 1)
		g4_pause();
}

/* ------------------------------------------------------------------ both */

struct way {			 /* to hash a batch */
	struct workers *workers; /* NULL: the GPU */
	enum hash_place place;
	const uint8_t *data;
	uint8_t (*digests)[32];
};

static void hash(const struct way *way, uint64_t at, uint64_t bytes)
{
	if (way->workers) {
		hash_by_workers(way->workers, way->data + at, bytes, way->digests);
	} else if (!hash_gpu_pages(way->place, way->data + at, at, bytes, way->digests)) {
		fprintf(stderr, "hash_crossover: the GPU failed\n");
		exit(1);
	}
}

/* Seconds for a batch, on the average. */
static double measure(const struct way *way, uint64_t batch, double *cpu)
{
	const uint64_t room = way->place == HASH_DEVICE ? MOST_BATCH : DATA_BYTES;
	uint64_t rounds = 0, begin, now, at = 0;

	hash(way, 0, batch); /* what is only needed once */
	*cpu = cpu_seconds();
	begin = now = g4_monotonic_ns();
	while (rounds < 3 || (double)(now - begin) < seconds * 1e9) {
		at = at + 2 * batch <= room ? at + batch : 0;
		hash(way, at, batch);
		rounds++;
		now = g4_monotonic_ns();
	}
	*cpu = (cpu_seconds() - *cpu) / (double)rounds;
	return (double)(now - begin) / 1e9 / (double)rounds;
}

static void size_text(uint64_t bytes, char *text, size_t room)
{
	if (bytes >= G4_MIB)
		snprintf(text, room, "%llu MiB", (unsigned long long)(bytes / G4_MIB));
	else
		snprintf(text, room, "%llu KiB", (unsigned long long)(bytes / G4_KIB));
}

static void measure_way(const struct way *way, const char *name, double times[BATCHES])
{
	char metric[96], size[24];
	double cpu;

	for (int i = 0; i < BATCHES; i++) {
		uint64_t batch = (uint64_t)HASH_PAGE_BYTES << i;
		times[i] = measure(way, batch, &cpu);
		size_text(batch, size, sizeof(size));
		snprintf(metric, sizeof(metric), "BLAKE3 of pages, %s, batches of %s", name, size);
		report(metric, "GB/s", (double)batch / 1e9 / times[i], cpu);
		if (i == 0) {
			snprintf(metric, sizeof(metric), "BLAKE3 of one page, %s", name);
			report(metric, "us", times[i] * 1e6, cpu);
		}
	}
}

/* The smallest batch from which on the GPU is faster at all sizes. */
static void report_crossover(const char *gpu_name, const double gpu[BATCHES], const char *cpu_name,
			     const double cpu[BATCHES])
{
	char metric[96];
	int first = BATCHES;

	while (first > 0 && gpu[first - 1] < cpu[first - 1])
		first--;
	snprintf(metric, sizeof(metric), "crossover, %s against %s", gpu_name, cpu_name);
	report(metric, "bytes", first < BATCHES ? (double)((uint64_t)HASH_PAGE_BYTES << first) : -1, 0);
}

/* Odd batches too: the pieces and the last warp are full in none of them. */
static uint64_t compare(const struct way *ways, uint8_t (*expected)[32])
{
	static const uint64_t pages[] = {1, 7, 8, 9, 33, 1023, 1025, MOST_BATCH / HASH_PAGE_BYTES};
	struct workers alone;
	uint64_t wrong = 0;

	if (!start_workers(&alone, 1))
		return 1;
	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		hash_by_workers(&alone, ways[0].data, pages[i] * HASH_PAGE_BYTES, expected);
		for (int place = 0; place < HASH_PLACES; place++) {
			memset(ways[place].digests, 0, pages[i] * 32);
			hash(&ways[place], 0, pages[i] * HASH_PAGE_BYTES);
			for (uint64_t k = 0; k < pages[i]; k++)
				wrong += memcmp(ways[place].digests[k], expected[k], 32) != 0;
		}
	}
	stop_workers(&alone);
	return wrong;
}

static uint8_t *pageable(uint64_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static int run(uint8_t *pinned, uint8_t *plain, uint8_t (*digests)[32], uint8_t (*expected)[32])
{
	static const uint32_t thread_counts[THREAD_COUNTS] = {1, 2, 4, 8, 16};
	static const char *const place_names[HASH_PLACES] = {"GPU, page-locked", "GPU, pageable", "GPU, its memory"};
	const struct way gpu[HASH_PLACES] = {{NULL, HASH_PINNED, pinned, digests},
					     {NULL, HASH_PAGEABLE, plain, digests},
					     {NULL, HASH_DEVICE, pinned, digests}};
	double gpu_times[HASH_PLACES][BATCHES], cpu_times[THREAD_COUNTS][BATCHES];
	const long cores = sysconf(_SC_NPROCESSORS_ONLN);
	char name[32];

	for (uint64_t i = 0; i < DATA_BYTES / 8; i++)
		((uint64_t *)plain)[i] = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ i >> 7;
	memcpy(pinned, plain, DATA_BYTES);
	if (!hash_gpu_place(pinned, MOST_BATCH))
		return 1;
	uint64_t wrong = compare(gpu, expected);
	for (int place = 0; place < HASH_PLACES; place++)
		measure_way(&gpu[place], place_names[place], gpu_times[place]);
	for (int t = 0; t < THREAD_COUNTS && thread_counts[t] <= (uint64_t)cores; t++) {
		struct workers workers;
		const struct way way = {&workers, HASH_PAGEABLE, plain, digests};
		if (!start_workers(&workers, thread_counts[t]))
			return 1;
		snprintf(name, sizeof(name), "CPU, %u thread%s", thread_counts[t], t == 0 ? "" : "s");
		measure_way(&way, name, cpu_times[t]);
		stop_workers(&workers);
		for (int place = 0; place < HASH_PLACES; place++)
			report_crossover(place_names[place], gpu_times[place], name, cpu_times[t]);
	}
	printf("%llu digests of the GPU are wrong\n", (unsigned long long)wrong);
	return wrong != 0;
}

int main(int argc, char **argv)
{
	for (int option; (option = getopt(argc, argv, "t:o:")) != -1;) {
		if (option == 't') {
			seconds = atof(optarg);
		} else if (option == 'o') {
			json = fopen(optarg, "we");
		} else {
			fprintf(stderr, "usage: hash_crossover [-t SECONDS] [-o FILE.json]\n");
			return 2;
		}
	}
	if (json)
		fputs("[", json);
	if (!hash_gpu_open(MOST_BATCH))
		return 1;
	uint8_t *pinned = hash_gpu_pinned(DATA_BYTES), *plain = pageable(DATA_BYTES);
	void *digests = hash_gpu_pinned(MOST_BATCH / HASH_PAGE_BYTES * 32);
	void *expected = malloc(MOST_BATCH / HASH_PAGE_BYTES * 32);
	if (!pinned || !plain || !digests || !expected) {
		fprintf(stderr, "hash_crossover: no memory\n");
		return 1;
	}
	int status = run(pinned, plain, digests, expected);
	hash_gpu_close();
	free(expected);
	if (json) {
		fputs("\n]\n", json);
		fclose(json);
	}
	return status;
}
