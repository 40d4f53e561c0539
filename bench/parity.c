/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast one thread makes parity, in processor time: ours, each variant that this processor has, and ISA-L where it is installed.
 * They take turns of a millisecond, so that all of them see the same machine, and the median of each one's turns counts. bench/parity.py
 * runs it.
 *
 * Usage: parity_bench [-t SECONDS] [-m MIB] [-b BYTES] [-k CHUNKS] [-v]
 *   SECONDS in all of each row (0.2); MIB of memory that is gone through (256); BYTES of a chunk (4096); CHUNKS of data (4); -v: the slower
 *   variants, too
 * Prints a line for each: what, a tabulator, GB/s of data.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "parity/combine.h"
#include "simt/simt_host.h"

#define TURN_S 0.001
#define MOST_TURNS 10000u

static double seconds = 0.2;
static uint64_t memory_bytes = 256 * G4_MIB, chunk_bytes = 4096;
static uint32_t k = 4, m;
static bool all_variants;
static struct g4_wg *wg;
static uint8_t *memory;

/* ISA-L's functions, as its manual declares them. */
static void (*ec_init_tables)(int k, int rows, unsigned char *a, unsigned char *tables);
static void (*ec_encode_data)(int len, int k, int rows, unsigned char *tables, unsigned char **data,
			      unsigned char **coding);
static int (*xor_gen)(int vectors, int len, void **array);
static int (*pq_gen)(int vectors, int len, void **array);
static unsigned char isal_tables[32 * G4_PARITY_DISKS * G4_PARITY_MOST];

/* Makes the m parities, behind the k chunks of data. */
typedef void parity_fn(void **chunk);

static void by_ours(void **chunk)
{
	g4_parity_encode(wg, k, m, (const void *const *)chunk, chunk + k, chunk_bytes);
}

static uint32_t code[G4_PARITY_DISKS];

static struct g4_parity_job job_of(void **chunk)
{
	const struct g4_parity_job job = {
		.way = G4_PARITY_SET,
		.shape = G4_PARITY_CODE,
		.rows = m,
		.columns = k,
		.term = code,
		.in = (const void *const *)chunk,
		.out = chunk + k,
	};

	return job;
}

static void by_portable(void **chunk)
{
	const struct g4_parity_job job = job_of(chunk);

	g4_parity_combine_portable(&job, 0, chunk_bytes);
}

#if G4_PARITY_HAVE_X86
static void by_avx2(void **chunk)
{
	const struct g4_parity_job job = job_of(chunk);

	g4_parity_combine_avx2(&job, 0, chunk_bytes);
}
#endif

static void by_ec_encode_data(void **chunk)
{
	ec_encode_data((int)chunk_bytes, (int)k, (int)m, isal_tables, (unsigned char **)chunk,
		       (unsigned char **)chunk + k);
}

static void by_xor_gen(void **chunk)
{
	if (xor_gen((int)k + 1, (int)chunk_bytes, chunk) != 0)
		abort();
}

static void by_pq_gen(void **chunk)
{
	if (pq_gen((int)k + 2, (int)chunk_bytes, chunk) != 0)
		abort();
}

/* Of this thread: a machine is never quiet. */
static double cpu_seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

struct row {
	const char *name;
	parity_fn *fn;
	double rate[MOST_TURNS]; /* GB/s of each turn */
	uint64_t at;
};

static struct row rows[8];

static void chunks_at(uint64_t at, void **chunk)
{
	for (uint32_t i = 0; i < k + m; i++)
		chunk[i] = memory + at + i * chunk_bytes;
}

/* One turn, in stripes that lie one after the other and fill `bytes`. Returns GB/s. */
static double take_turn(struct row *row, uint64_t bytes)
{
	const uint64_t stripe_bytes = (k + m) * chunk_bytes;
	const double begin = cpu_seconds();
	double now = begin, made = 0;

	while (now - begin < TURN_S) {
		/* the clock is looked at once in 256 KiB */
		for (uint64_t done = 0; done < 256 * G4_KIB; done += stripe_bytes) {
			void *chunk[G4_PARITY_DISKS];

			if (row->at + stripe_bytes > bytes)
				row->at = 0;
			chunks_at(row->at, chunk);
			row->fn(chunk);
			row->at += stripe_bytes;
			made += (double)(k * chunk_bytes);
		}
		now = cpu_seconds();
	}
	return made / 1e9 / (now - begin);
}

static int compare_rates(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure(uint32_t count, const char *where, uint64_t bytes)
{
	const uint32_t turns = (uint32_t)g4_min64((uint64_t)(seconds / TURN_S) + 1, MOST_TURNS);

	for (uint32_t i = 0; i < count; i++) {
		rows[i].at = 0;
		take_turn(&rows[i], bytes); /* what is only needed once */
	}
	for (uint32_t turn = 0; turn < turns; turn++) {
		for (uint32_t i = 0; i < count; i++)
			rows[i].rate[turn] = take_turn(&rows[i], bytes);
	}
	for (uint32_t i = 0; i < count; i++) {
		qsort(rows[i].rate, turns, sizeof(double), compare_rates);
		printf("%s, %s\t%.3f\n", rows[i].name, where, rows[i].rate[turns / 2]);
	}
}

/* What a peer makes is what ours makes. */
static bool agrees(const struct row *row)
{
	const uint64_t parity_bytes = m * chunk_bytes;
	uint8_t *copy = malloc(parity_bytes);
	void *chunk[G4_PARITY_DISKS];
	bool same;

	if (!copy)
		return false;
	chunks_at(0, chunk);
	by_ours(chunk);
	memcpy(copy, chunk[k], parity_bytes);
	memset(chunk[k], 0xee, parity_bytes);
	row->fn(chunk);
	same = memcmp(copy, chunk[k], parity_bytes) == 0;
	free(copy);
	if (!same)
		fprintf(stderr, "parity_bench: %s with %u and %u chunks makes another parity\n", row->name, k, m);
	return same;
}

static void open_isal(void)
{
	void *library = dlopen("libisal.so.2", RTLD_NOW);

	if (!library)
		return;
	*(void **)&ec_init_tables = dlsym(library, "ec_init_tables");
	*(void **)&ec_encode_data = dlsym(library, "ec_encode_data");
	*(void **)&xor_gen = dlsym(library, "xor_gen");
	*(void **)&pq_gen = dlsym(library, "pq_gen");
}

static void add_row(uint32_t *count, const char *name, parity_fn *fn)
{
	rows[*count].name = name;
	rows[(*count)++].fn = fn;
}

static bool measure_all(void)
{
	const uint64_t stripe_bytes = (k + m) * chunk_bytes;
	unsigned char matrix[G4_PARITY_DISKS * G4_PARITY_MOST];
	uint32_t count = 0;

	add_row(&count, "ours", by_ours);

	if (all_variants) {
#if G4_PARITY_HAVE_X86
		if (g4_parity_avx2_usable())
			add_row(&count, "AVX2", by_avx2);
#endif
		add_row(&count, "portable", by_portable);
	}
	for (uint32_t i = 0; i < m * k; i++)
		matrix[i] = g4_parity_coefficient(i / k, i % k);
	if (ec_init_tables && ec_encode_data) {
		ec_init_tables((int)k, (int)m, matrix, isal_tables);
		add_row(&count, "ec_encode_data", by_ec_encode_data);
	}
	if (xor_gen && m == 1)
		add_row(&count, "xor_gen", by_xor_gen);
	if (pq_gen && m == 2)
		add_row(&count, "pq_gen", by_pq_gen);
	for (uint32_t i = 1; i < count; i++) {
		if (!agrees(&rows[i]))
			return false;
	}
	measure(count, "memory", memory_bytes);
	measure(count, "cache", stripe_bytes);
	return true;
}

static bool read_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "t:m:b:k:v")) != -1) {
		const double value = option == 'v' || option == '?' ? 1 : atof(optarg);

		if (value <= 0)
			return false;
		if (option == 't')
			seconds = value;
		else if (option == 'm')
			memory_bytes = (uint64_t)value * G4_MIB;
		else if (option == 'b')
			chunk_bytes = (uint64_t)value;
		else if (option == 'k')
			k = (uint32_t)value;
		else if (option == 'v')
			all_variants = true;
		else
			return false;
	}
	return optind == argc && k + G4_PARITY_MOST <= G4_PARITY_DISKS && chunk_bytes % 64 == 0 &&
	       (k + G4_PARITY_MOST) * chunk_bytes <= memory_bytes;
}

int main(int argc, char **argv)
{
	uint64_t x = 88172645463325252u;

	if (!read_options(argc, argv)) {
		fprintf(stderr, "usage: parity_bench [-t SECONDS] [-m MIB] [-b BYTES] [-k CHUNKS] [-v]\n");
		return 2;
	}
	memory = mmap(NULL, memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	wg = g4_wg_create(0);
	if (memory == MAP_FAILED || !wg) {
		fprintf(stderr, "parity_bench: no memory\n");
		return 1;
	}
	for (uint64_t i = 0; i < memory_bytes / 8; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		((uint64_t *)memory)[i] = x;
	}
	for (uint32_t j = 0; j < G4_PARITY_DISKS; j++) {
		for (uint32_t r = 0; r < G4_PARITY_MOST; r++)
			code[j] |= (uint32_t)g4_parity_coefficient(r, j) << 8 * r;
	}
	open_isal();
	for (m = 1; m <= G4_PARITY_MOST; m++) {
		printf("m\t%u\n", m);
		if (!measure_all())
			return 1;
	}
	g4_wg_destroy(wg);
	munmap(memory, memory_bytes);
	return 0;
}
