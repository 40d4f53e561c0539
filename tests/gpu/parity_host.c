/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parity in the GPU's memory: that it is that of the CPU, and how fast it is.
 *
 * Usage: parity [-g GIB] [-r REPEAT] [-o FILE.json]      GIB of memory (8), the median of REPEAT runs (11)
 * Exit status 1: something was wrong; 2: the GPU failed.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/parity.h"
#include "hash/crc32c.h"
#include "parity/parity.h"
#include "simt/simt_host.h"
#include "unit/parity_vectors.h"

#define MOST_BYTES 8192u
#define CALLS 600u

static FILE *json;
static int rows;
static uint64_t wrong;
static double nominal;
static struct g4_wg *wg;
static uint8_t chunk[128][MOST_BYTES], expected[64][MOST_BYTES];
static struct parity_call call;

static void failed(const char *what)
{
	fprintf(stderr, "parity: the GPU failed: %s\n", what);
	exit(2);
}

static void expect(bool is, const char *what)
{
	if (!is && wrong++ < 20)
		printf("FAILED: %s: %u and %u chunks of %llu bytes, lost %llx\n", what, call.k, call.m,
		       (unsigned long long)call.bytes, (unsigned long long)call.lost);
}

static void do_call(enum parity_work work)
{
	call.work = work;
	if (!parity_gpu_call(&call))
		failed("a call");
}

static void check_vectors(void)
{
	for (size_t v = 0; v < sizeof(parity_vectors) / sizeof(parity_vectors[0]); v++) {
		call.k = parity_vectors[v].k;
		call.m = G4_PARITY_MOST;
		call.bytes = parity_vectors[v].bytes;
		call.lost = 0;
		for (uint32_t i = 0; i < call.k + call.m; i++) {
			call.chunk[i] = chunk[i];
			call.shift[i] = 0;
			for (uint32_t b = 0; b < call.bytes; b++)
				chunk[i][b] = parity_vector_byte(i, b);
		}
		do_call(PARITY_ENCODE);
		for (uint32_t r = 0; r < call.m; r++)
			expect(g4_crc32c(0, chunk[call.k + r], call.bytes) == parity_vectors[v].crc[r], "a vector");
	}
}

static uint32_t below(uint32_t n)
{
	return (uint32_t)rand() % n;
}

static void save(void)
{
	for (uint32_t i = 0; i < call.k + call.m; i++)
		memcpy(expected[i], chunk[i], call.bytes);
}

static void expect_saved(const char *what)
{
	for (uint32_t i = 0; i < call.k + call.m; i++)
		expect(memcmp(chunk[i], expected[i], call.bytes) == 0, what);
}

/* Encodes, verifies, changes and loses chunks of one stripe. The CPU says what is right. */
static void check_stripe(void)
{
	void *parity[G4_PARITY_MOST];
	uint32_t bad;

	for (uint32_t i = 0; i < call.k + call.m; i++) {
		call.chunk[i] = chunk[i];
		for (uint32_t b = 0; b < call.bytes; b++)
			chunk[i][b] = (uint8_t)rand();
	}
	for (uint32_t r = 0; r < call.m; r++)
		parity[r] = expected[call.k + r];
	save();
	g4_parity_encode(wg, call.k, call.m, (const void *const *)call.chunk, parity, call.bytes);
	do_call(PARITY_ENCODE);
	expect_saved("encoding");
	do_call(PARITY_VERIFY);
	expect(call.result == 0, "verifying what is right");
	bad = below(call.k + call.m);
	chunk[bad][below((uint32_t)call.bytes)] ^= (uint8_t)(1 + below(255));
	do_call(PARITY_VERIFY);
	expect(call.result == (bad < call.k ? (1u << call.m) - 1 : 1u << (bad - call.k)), "verifying what is wrong");
	memcpy(chunk[bad], expected[bad], call.bytes);

	/* the first chunk gets other contents */
	call.n = 2;
	call.term[0] = call.term[1] = 0;
	for (uint32_t i = 0; i < 2; i++) {
		call.chunk[call.k + call.m + i] = chunk[70 + i];
		call.shift[call.k + call.m + i] = call.shift[0];
	}
	memcpy(chunk[70], chunk[0], call.bytes);
	for (uint32_t b = 0; b < call.bytes; b++)
		chunk[0][b] = chunk[71][b] = (uint8_t)rand();
	memcpy(expected[0], chunk[0], call.bytes);
	g4_parity_encode(wg, call.k, call.m, (const void *const *)call.chunk, parity, call.bytes);
	do_call(PARITY_UPDATE);
	expect_saved("a change");

	call.lost = 0;
	for (uint32_t i = 0; i < call.m; i++)
		call.lost |= UINT64_C(1) << below(call.k + call.m);
	for (uint32_t i = 0; i < call.k + call.m; i++) {
		if (call.lost >> i & 1)
			memset(chunk[i], 0x5a, call.bytes);
	}
	do_call(PARITY_RECONSTRUCT);
	expect(call.result == 1, "reconstruction");
	expect_saved("reconstruction");
}

static void check(void)
{
	check_vectors();
	for (uint32_t i = 0; i < CALLS; i++) {
		call.m = 1 + below(G4_PARITY_MOST);
		call.k = 1 + below(i % 4 ? 12 : G4_PARITY_DISKS - call.m);
		call.bytes = i % 3 ? 1 + below(3000) : 16 * (1 + below(MOST_BYTES / 16));
		for (uint32_t c = 0; c < call.k + call.m; c++)
			call.shift[c] = i % 2 ? 0 : i % 4 ? below(64) : 16 * below(4);
		check_stripe();
	}
	printf("parity on the GPU against the CPU's, %u stripes: %llu wrong\n", CALLS, (unsigned long long)wrong);
}

/* `target`: a part of what the memory can do. */
static void report(const char *metric, double bytes_a_second, double target)
{
	const double part = nominal > 0 ? bytes_a_second / nominal : 0;

	printf("%-52s %8.1f GB/s  %5.1f %%", metric, bytes_a_second / 1e9, part * 100);
	if (target > 0 && nominal > 0)
		printf("  target %.0f %%: %s", target * 100, part >= target ? "met" : "MISSED");
	printf("\n");
	fflush(stdout);
	if (!json)
		return;
	fprintf(json,
		"%s\n  {\"bench\": \"gpu-parity\", \"engine\": \"cuda\", \"metric\": \"%s\", \"unit\": \"GB/s\", \"ours\": %.6g, "
		"\"peers\": {\"device memory\": %.6g}, ",
		rows++ ? "," : "", metric, bytes_a_second / 1e9, nominal / 1e9);
	if (target > 0 && nominal > 0)
		fprintf(json, "\"target\": {\"peer\": \"device memory\", \"ratio\": %.3g}, \"met\": %s}", target,
			part >= target ? "true" : "false");
	else
		fprintf(json, "\"target\": null, \"met\": null}");
}

static void measure(enum parity_work work, uint32_t k, uint32_t m, uint64_t bytes, uint32_t repeat, double target)
{
	static const char *const names[] = {"encoding", "verifying", "a change of one chunk", "reconstruction of data",
					    "reading"};
	char metric[100];
	double moved, seconds = parity_gpu_time(work, k, m, bytes, repeat, &moved);

	if (work == PARITY_READ)
		snprintf(metric, sizeof(metric), "reading");
	else
		snprintf(metric, sizeof(metric), "%s, %u+%u, %llu KiB a call", names[work], k, m,
			 (unsigned long long)(bytes / 1024));
	if (seconds <= 0)
		failed(metric);
	report(metric, moved / seconds, target);
}

/* Rates are of all bytes that are read and written. */
static void measure_all(uint32_t repeat)
{
	static const uint32_t shapes[][2] = {{3, 1}, {4, 2}, {10, 2}, {4, 3}, {10, 3}, {4, 4}, {10, 4}};
	double moved, seconds = parity_gpu_copy_time(repeat, &moved);

	if (seconds <= 0)
		failed("a copy");
	printf("device memory: %.1f GB/s\n", nominal / 1e9);
	report("the driver's copy", moved / seconds, 0);
	measure(PARITY_READ, 4, 2, 0, repeat, 0);
	for (uint32_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
		for (uint64_t bytes = 4 * G4_KIB; bytes <= 64 * G4_KIB; bytes *= 4)
			measure(PARITY_ENCODE, shapes[s][0], shapes[s][1], bytes, repeat, shapes[s][1] == 2 ? 0.8 : 0);
		measure(PARITY_VERIFY, shapes[s][0], shapes[s][1], 64 * G4_KIB, repeat, 0);
		if (shapes[s][0] >= shapes[s][1])
			measure(PARITY_RECONSTRUCT, shapes[s][0], shapes[s][1], 64 * G4_KIB, repeat, 0);
		measure(PARITY_UPDATE, shapes[s][0], shapes[s][1], 4 * G4_KIB, repeat, 0);
	}
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
			fprintf(stderr, "usage: parity [-g GIB] [-r REPEAT] [-o FILE.json]\n");
			return 2;
		}
	}
	wg = g4_wg_create(0);
	if (!wg || !parity_gpu_open(bytes))
		failed("memory");
	nominal = parity_gpu_nominal();
	check();
	if (json)
		fprintf(json, "[");
	measure_all(repeat);
	if (json) {
		fprintf(json, "\n]\n");
		if (fclose(json) != 0)
			wrong++;
	}
	parity_gpu_close();
	g4_wg_destroy(wg);
	return wrong != 0;
}
