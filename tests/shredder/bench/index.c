/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much memory the index of a backup repository takes, and how fast it looks up.
 *
 * Usage: index_bench [-m MIB] [-t THREADS] [BLOBS]
 *	BLOBS of the index (10 000 000); MIB of memory for entries (256); THREADS that look up together (1)
 *
 * Prints for each step the million look-ups a second, in wall and in processor time, and what was read of the file:
 *	add        blobs as an index file has them; room for all was made beforehand
 *	packs      in the order of their packs: a backup of what is there
 *	random     blobs that are there, in any order
 *	absent     blobs that are not there: a backup of what is new
 *	together   64 that are there at a time, in any order, by so many threads: `check` and `prune`
 *	new        the same of blobs that are not there
 */
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "store/table.h"

static double clock_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static struct store_entry entry_of(uint64_t i)
{
	struct store_entry entry = {
		.pack = (uint32_t)(i / 60), .offset = 16, .stored = 1000, .raw = 1000, .type = STORE_DATA};

	for (uint64_t k = 0; k < 4; k++) {
		const uint64_t word = mix((4 * i + k + 1) * UINT64_C(0x9e3779b97f4a7c15));

		memcpy(entry.id.bytes + 8 * k, &word, 8);
	}
	return entry;
}

enum step { ADD, PACKS, RANDOM, ABSENT };

static uint64_t number_of(enum step step, uint64_t i, uint64_t blobs)
{
	return step == RANDOM ? mix(i + 1) % blobs : step == ABSENT ? blobs + i : i;
}

static void measure(struct store_table *t, enum step step, uint64_t count, uint64_t blobs)
{
	static const char *const names[] = {"add", "packs", "random", "absent"};
	const uint64_t reads = store_table_sizes(t).reads;
	const double wall = clock_of(CLOCK_MONOTONIC), cpu = clock_of(CLOCK_THREAD_CPUTIME_ID);
	struct store_entry found;
	uint32_t number;

	for (uint64_t i = 0; i < count; i++) {
		const struct store_entry entry = entry_of(number_of(step, i, blobs));
		const int rc = step == ADD ? store_table_add(t, &entry, &number) :
					     store_table_find(t, &entry.id, &number, &found);

		if (rc != (step != ABSENT)) {
			fprintf(stderr, "index_bench: %s\n", rc < 0 ? store_message() : "a wrong answer");
			exit(1);
		}
	}
	printf("%-8s %8.2f M/s %8.2f M/s of CPU  %.4f pages read each\n", names[step],
	       (double)count / 1e6 / (clock_of(CLOCK_MONOTONIC) - wall),
	       (double)count / 1e6 / (clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu),
	       (double)(store_table_sizes(t).reads - reads) / (double)count);
	fflush(stdout);
}

#define TOGETHER 64
#define BATCHES 16384u

/* One thread's. Ids are made beforehand, since that takes as long as finding them. */
struct looking {
	struct store_table *t;
	struct store_id *ids;
	bool there;
	pthread_t thread;
};

static void *look(void *user)
{
	const struct looking *l = (const struct looking *)user;
	struct store_found found[TOGETHER];

	for (uint64_t batch = 0; batch < BATCHES; batch++) {
		for (size_t i = 0; i < TOGETHER; i++)
			found[i].id = l->ids[batch * TOGETHER + i];
		if (store_table_find_all(l->t, found, TOGETHER) != 0 || found[batch % TOGETHER].there != l->there) {
			fprintf(stderr, "index_bench: a wrong answer\n");
			exit(1);
		}
	}
	return NULL;
}

static void measure_together(struct store_table *t, bool there, uint64_t blobs, size_t threads)
{
	struct looking *all = (struct looking *)store_alloc(threads * sizeof(*all));

	for (size_t i = 0; i < threads; i++) {
		all[i] = (struct looking){.t = t, .there = there};
		all[i].ids = (struct store_id *)store_alloc(BATCHES * TOGETHER * sizeof(struct store_id));
		for (uint64_t k = 0; k < BATCHES * TOGETHER; k++)
			all[i].ids[k] = entry_of(number_of(there ? RANDOM : ABSENT, k + i * 7919, blobs)).id;
	}
	const double wall = clock_of(CLOCK_MONOTONIC), cpu = clock_of(CLOCK_PROCESS_CPUTIME_ID);
	for (size_t i = 0; i < threads; i++)
		if (pthread_create(&all[i].thread, NULL, look, &all[i]) != 0)
			exit(1);
	for (size_t i = 0; i < threads; i++)
		pthread_join(all[i].thread, NULL);
	const double count = (double)threads * BATCHES * TOGETHER / 1e6;
	printf("%-8s %8.2f M/s %8.2f M/s of CPU  %zu threads\n", there ? "together" : "new",
	       count / (clock_of(CLOCK_MONOTONIC) - wall), count / (clock_of(CLOCK_PROCESS_CPUTIME_ID) - cpu), threads);
	for (size_t i = 0; i < threads; i++)
		free(all[i].ids);
	free(all);
}

int main(int argc, char **argv)
{
	uint64_t blobs = 10000000, memory = STORE_INDEX_BYTES;
	struct rusage usage;
	size_t threads = 1;
	int option;

	while ((option = getopt(argc, argv, "m:t:")) == 'm' || option == 't')
		if (option == 'm')
			memory = strtoull(optarg, NULL, 10) * G4_MIB;
		else
			threads = strtoull(optarg, NULL, 10);
	if (option != -1 || argc - optind > 1 || (argc > optind && (blobs = strtoull(argv[optind], NULL, 10)) == 0) ||
	    2 * blobs >= UINT32_MAX || threads == 0 || threads > 1024) {
		fprintf(stderr, "usage: index_bench [-m MIB] [-t THREADS] [BLOBS]\n");
		return 2;
	}
	struct store_table *t = store_table_open(blobs, memory);
	measure(t, ADD, blobs, blobs);
	measure(t, PACKS, g4_min64(blobs, 10000000), blobs);
	measure(t, RANDOM, g4_min64(blobs, 1000000), blobs);
	measure(t, ABSENT, g4_min64(blobs, 10000000), blobs);
	for (size_t i = 1; i <= threads; i = i < threads && 2 * i > threads ? threads : 2 * i) {
		measure_together(t, true, blobs, i);
		measure_together(t, false, blobs, i);
	}
	const struct store_table_sizes sizes = store_table_sizes(t);
	getrusage(RUSAGE_SELF, &usage);
	printf("memory   %.1f MB: %.2f bytes a blob of slots, %.1f MB of entries; file %.1f MB; the process had %.1f MB\n",
	       (double)(sizes.slot_bytes + sizes.entry_bytes) / 1e6, (double)sizes.slot_bytes / (double)blobs,
	       (double)sizes.entry_bytes / 1e6, (double)sizes.file_bytes / 1e6, (double)usage.ru_maxrss * 1024 / 1e6);
	store_table_close(t);
	return 0;
}
