/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the table of contents of inline deduplication costs (src/dedup): lookups, and lookups that are followed by an insertion where
 * nothing is found, with a table in memory of so many entries.
 *
 * Rates are those of a thread, in seconds of processor time.
 *
 * Usage: ddt_bench [ENTRIES [THREADS [SECONDS]]], by default 16 million, 1 and 3. Hashes are random, as those of contents are.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory_host.h"
#include "dedup/table.h"

#define MOST_THREADS 64u
#define ENTRY_BYTES 8u
#define ROOM_PERCENT 125u /* so that few buckets are full */

enum kind { FIND_PRESENT, FIND_ABSENT, INSERT_FULL, KINDS };

struct worker {
	pthread_t thread;
	struct g4_ddt *ddt;
	uint64_t entries, seed, done, found;
	enum kind kind;
	const uint32_t *stop;
	double seconds; /* of processor time */
};

/* Of this thread, so that other work of the machine hardly counts. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* The hash of contents number n. */
static void hash_of(uint64_t n, uint64_t hash[4])
{
	for (uint64_t w = 0; w < 4; w++)
		hash[w] = mix(4 * n + w + 1);
}

static void *work(void *user)
{
	struct worker *worker = (struct worker *)user;
	const double start = now();
	uint64_t hash[4];

	while (!g4_load32_rlx(worker->stop)) {
		for (uint32_t k = 0; k < 256; k++) {
			const uint64_t n = worker->kind == FIND_PRESENT ? mix(worker->seed) % worker->entries :
									  worker->entries + worker->seed;
			worker->seed += MOST_THREADS;
			hash_of(n, hash);
			const bool found = !g4_address_is_none(g4_ddt_find(worker->ddt, hash));
			if (worker->kind == INSERT_FULL && !found)
				g4_ddt_insert(worker->ddt, hash, g4_page_address(1 + n % (UINT64_C(1) << 40)));
			worker->found += found;
		}
		worker->done += 256;
	}
	worker->seconds = now() - start;
	return NULL;
}

static void measure(struct g4_ddt *ddt, uint64_t entries, uint32_t threads, double seconds, enum kind kind)
{
	static const char *const names[KINDS] = {"find what is there", "find what is not",
						 "find and insert, for what nobody asked for"};
	static struct worker workers[MOST_THREADS];
	uint64_t done = 0, found = 0;
	uint32_t stop = 0;
	struct timespec pause = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
	double took = 0;

	for (uint32_t t = 0; t < threads; t++) {
		const struct worker worker = {.ddt = ddt, .entries = entries, .seed = t, .kind = kind, .stop = &stop};
		workers[t] = worker;
		if (pthread_create(&workers[t].thread, NULL, work, &workers[t]) != 0)
			abort();
	}
	nanosleep(&pause, NULL);
	g4_store32_rel(&stop, 1);
	for (uint32_t t = 0; t < threads; t++) {
		pthread_join(workers[t].thread, NULL);
		done += workers[t].done;
		found += workers[t].found;
		took += workers[t].seconds;
	}
	printf("%-44s %7.2f M/s, %3.0f %% found\n", names[kind], (double)done / took * 1e-6,
	       100.0 * (double)found / (double)done);
}

int main(int argc, char **argv)
{
	const uint64_t entries = argc > 1 ? strtoull(argv[1], NULL, 10) : 16000000;
	const uint32_t threads = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 1;
	const double seconds = argc > 3 ? strtod(argv[3], NULL) : 3;
	const uint64_t bytes = entries * ENTRY_BYTES / 100 * ROOM_PERCENT;
	static struct g4_ddt ddt;
	struct g4_ddt_stats stats;
	uint64_t hash[4];

	if (entries < 100000 || threads == 0 || threads > MOST_THREADS) {
		fprintf(stderr, "usage: ddt_bench [ENTRIES [THREADS [SECONDS]]], 100000 entries at least\n");
		return 2;
	}
	void *memory = g4_memory_map(g4_ddt_memory(bytes));
	if (!memory) {
		fprintf(stderr, "ddt_bench: there is no memory for %llu entries\n", (unsigned long long)entries);
		return 1;
	}
	g4_ddt_init(&ddt, memory, bytes);
	const double start = now();
	for (uint64_t n = 0; n < entries; n++) {
		hash_of(n, hash);
		g4_ddt_insert(&ddt, hash, g4_page_address(n + 1));
	}
	printf("%-44s %7.2f M/s\n", "insert into an empty table", (double)entries / (now() - start) * 1e-6);
	g4_ddt_stats(&ddt, &stats);
	printf("%llu entries of %llu, %.1f bytes each\n", (unsigned long long)stats.entries,
	       (unsigned long long)stats.places, (double)g4_ddt_memory(bytes) / (double)stats.places);
	for (uint32_t kind = 0; kind < KINDS; kind++)
		measure(&ddt, entries, threads, seconds, (enum kind)kind);
	g4_memory_unmap(memory, g4_ddt_memory(bytes));
	return 0;
}
