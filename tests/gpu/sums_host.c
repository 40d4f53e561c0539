/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of pages in the GPU's memory: that they are those of the CPU, and how fast they are.
 *
 * Usage: sums [-g GIB] [-r REPEAT] [-o FILE.json]      GIB of data (8), the median of REPEAT runs (11)
 * Exit status 1: a sum was wrong; 2: the GPU failed.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/sums.h"
#include "hash/sums.h"
#include "simt/simt_host.h"

#define TEST_PAGES 2048u
#define LARGE_BYTES (2 * G4_MIB)

static FILE *json;
static int rows;
static uint64_t wrong;
static struct g4_wg *wg;
static union g4_sums_scratch scratch;

static void report(const char *metric, const char *unit, double value, double at_least)
{
	const bool better = value >= at_least;

	printf("%-44s %10.4g %-5s", metric, value, unit);
	if (at_least > 0)
		printf(" target %.4g: %s", at_least, better ? "met" : "MISSED");
	printf("\n");
	fflush(stdout);
	if (!json)
		return;
	fprintf(json,
		"%s\n  {\"bench\": \"gpu-sums\", \"engine\": \"cuda\", \"metric\": \"%s\", \"unit\": \"%s\", \"ours\": %.6g, "
		"\"peers\": {}, ",
		rows++ ? "," : "", metric, unit, value);
	if (at_least > 0)
		fprintf(json, "\"target\": {\"at_least\": %.6g}, \"met\": %s}", at_least, better ? "true" : "false");
	else
		fprintf(json, "\"target\": null, \"met\": null}");
}

static void failed(const char *what)
{
	fprintf(stderr, "sums: the GPU failed: %s\n", what);
	exit(2);
}

/* Compares sums of `count` buffers of `pages` pages, `batch` a call. */
static void compare(const uint8_t *data, enum g4_sum_algorithm algorithm, uint32_t count, uint32_t pages,
		    uint32_t batch)
{
	static struct g4_sum got[TEST_PAGES], expected[TEST_PAGES];
	static const void *where[TEST_PAGES];
	static uint64_t at[TEST_PAGES];

	for (uint32_t i = 0; i < count; i++) {
		at[i] = (uint64_t)rand() % (TEST_PAGES - pages + 1);
		where[i] = data + at[i] * G4_PAGE_BYTES;
	}
	if (!sums_gpu_some(algorithm, count, at, pages, batch, (uint8_t(*)[32])got))
		failed("sums of some pages");
	g4_sums(wg, algorithm, count, where, pages, expected, &scratch);
	for (uint32_t i = 0; i < count; i++) {
		if (g4_sum_equal(&got[i], &expected[i]))
			continue;
		if (wrong++ < 20)
			printf("FAILED: algorithm %d, buffer %u of %u of %u pages, batches of %u\n", algorithm, i,
			       count, pages, batch);
	}
}

/* The CPU's hash of the page of 2 MiB at `data`. */
static void hash_large(const uint8_t *data, enum g4_sum_algorithm algorithm, struct g4_sum *hash)
{
	static struct g4_sum sums[LARGE_BYTES / G4_PAGE_BYTES];
	const void *where[LARGE_BYTES / G4_PAGE_BYTES], *list = sums;

	for (uint32_t i = 0; i < LARGE_BYTES / G4_PAGE_BYTES; i++)
		where[i] = data + i * G4_PAGE_BYTES;
	g4_sums(wg, algorithm, LARGE_BYTES / G4_PAGE_BYTES, where, 1, sums, &scratch);
	g4_sums(wg, G4_SUM_BLAKE3, 1, &list, sizeof(sums) / G4_PAGE_BYTES, hash, &scratch);
}

static void check_large(const uint8_t *data, enum g4_sum_algorithm algorithm)
{
	uint8_t got[24];
	struct g4_sum hash;

	if (sums_gpu_time(SUMS_OF_2M_PAGES, algorithm, 1) < 0)
		failed("sums of 2 MiB pages");
	for (uint64_t i = 0; i < TEST_PAGES * G4_PAGE_BYTES / LARGE_BYTES; i++) {
		hash_large(data + i * LARGE_BYTES, algorithm, &hash);
		if (!sums_gpu_hash(SUMS_OF_2M_PAGES, i, got))
			failed("a copy");
		if (memcmp(got, &hash, sizeof(got)) != 0) {
			printf("FAILED: algorithm %d, 2 MiB page %llu\n", algorithm, (unsigned long long)i);
			wrong++;
		}
	}
}

static void check(void)
{
	static const uint32_t counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 63, 64, 65, 100, 1031, TEST_PAGES};
	static const uint32_t batches[] = {1, 3, 8, 31, 32, 33, 64};
	uint8_t *data = malloc(TEST_PAGES * G4_PAGE_BYTES);

	if (!data || !sums_gpu_fetch(data, TEST_PAGES * G4_PAGE_BYTES))
		failed("the data");
	for (enum g4_sum_algorithm a = G4_SUM_BLAKE3; a <= G4_SUM_XXH3; a++) {
		for (uint32_t c = 0; c < sizeof(counts) / sizeof(*counts); c++) {
			for (uint32_t b = 0; b < sizeof(batches) / sizeof(*batches); b++) {
				compare(data, a, counts[c], 1, batches[b]);
				compare(data, a, counts[c] / 8 + 1, 3, batches[b]);
				compare(data, a, counts[c] / 8 + 1, 4, batches[b]);
			}
		}
		check_large(data, a);
	}
	free(data);
	printf("sums on the GPU against the CPU's: %llu wrong\n", (unsigned long long)wrong);
}

static void measure(enum sums_work work, enum g4_sum_algorithm algorithm, const char *metric, uint64_t bytes,
		    uint32_t repeat, double at_least)
{
	double seconds = sums_gpu_time(work, algorithm, repeat);

	if (seconds <= 0)
		failed(metric);
	report(metric, "GB/s", (double)bytes / 1e9 / seconds, at_least);
}

static void measure_all(uint64_t bytes, uint32_t repeat)
{
	measure(SUMS_ONLY_READ, G4_SUM_BLAKE3, "reading", bytes, repeat, 0);
	measure(SUMS_ONLY_COMPRESS, G4_SUM_BLAKE3, "BLAKE3, compression alone", bytes, repeat, 0);
	measure(SUMS_BY_ANY_BUFFERS, G4_SUM_BLAKE3, "BLAKE3, 4 KiB, as buffers of any length", bytes, repeat, 0);
	measure(SUMS_OF_PAGES, G4_SUM_BLAKE3, "BLAKE3, pages of 4 KiB", bytes, repeat, 1650);
	measure(SUMS_OF_2M_PAGES, G4_SUM_BLAKE3, "BLAKE3, pages of 2 MiB", bytes, repeat, 1650);
	measure(SUMS_OF_1G_PAGES, G4_SUM_BLAKE3, "BLAKE3, pages of 1 GiB", bytes, repeat, 1650);
	measure(SUMS_OF_PAGES, G4_SUM_XXH3, "XXH3-128, pages of 4 KiB", bytes, repeat, 0);
	measure(SUMS_OF_1G_PAGES, G4_SUM_XXH3, "XXH3-128, pages of 1 GiB", bytes, repeat, 0);
	measure(SUMS_OF_PAGES, G4_SUM_CRC32C, "CRC-32C, pages of 4 KiB", bytes, repeat, 0);
	measure(SUMS_OF_1G_PAGES, G4_SUM_CRC32C, "CRC-32C, pages of 1 GiB", bytes, repeat, 0);
	report("BLAKE3, one page by one workgroup", "us", sums_gpu_latency(G4_SUM_BLAKE3, 1000) * 1e6, 0);
	report("XXH3-128, one page by one workgroup", "us", sums_gpu_latency(G4_SUM_XXH3, 1000) * 1e6, 0);
	report("CRC-32C, one page by one workgroup", "us", sums_gpu_latency(G4_SUM_CRC32C, 1000) * 1e6, 0);
}

int main(int argc, char **argv)
{
	uint64_t bytes = 8 * G4_GIB;
	uint32_t repeat = 11;
	int option;

	while ((option = getopt(argc, argv, "g:r:o:")) != -1) {
		if (option == 'g' && atoi(optarg) > 0) {
			bytes = (uint64_t)atoi(optarg) * G4_GIB;
		} else if (option == 'r' && atoi(optarg) > 0) {
			repeat = (uint32_t)atoi(optarg);
		} else if (option == 'o') {
			json = fopen(optarg, "w");
			if (!json) {
				perror(optarg);
				return 2;
			}
		} else {
			fprintf(stderr, "usage: sums [-g GIB] [-r REPEAT] [-o FILE.json]\n");
			return 2;
		}
	}
	wg = g4_wg_create(0);
	if (!wg || !sums_gpu_open(bytes))
		failed("memory");
	check();
	if (json)
		fprintf(json, "[");
	measure_all(bytes, repeat);
	if (json) {
		fprintf(json, "\n]\n");
		if (fclose(json) != 0)
			wrong++;
	}
	sums_gpu_close();
	g4_wg_destroy(wg);
	return wrong != 0;
}
