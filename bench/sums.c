/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast one thread makes sums of 4 KiB pages, in processor time: ours, each variant that this processor has, libxxhash where it is installed,
 * and Fletcher-4, which the file system does not have. bench/sums.py runs it.
 *
 * Usage: sums_bench [-t SECONDS] [-m MIB]      SECONDS of each measurement (0.3); MIB of memory (256)
 * Prints a line for each: what, a tabulator, GB/s.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "hash/blake3_types.h"
#include "hash/sums.h"
#include "simt/simt_host.h"

#define CALL_PAGES 256u
#define CACHED_BYTES (CALL_PAGES * G4_PAGE_BYTES)

static double seconds = 0.3;
static struct g4_wg *wg;
static union g4_sums_scratch scratch;
static struct g4_sum sums[CALL_PAGES];

struct hash128 {
	uint64_t low, high;
};
static struct hash128 (*libxxhash)(const void *data, size_t bytes);

/* Sums of `n` pages into `sums`. */
typedef void sums_fn(uint32_t n, const void *const *pages);

static void by_blake3(uint32_t n, const void *const *pages)
{
	g4_sums(wg, G4_SUM_BLAKE3, n, pages, 1, sums, &scratch);
}

static void by_xxh3(uint32_t n, const void *const *pages)
{
	g4_sums(wg, G4_SUM_XXH3, n, pages, 1, sums, &scratch);
}

static void by_crc32c(uint32_t n, const void *const *pages)
{
	g4_sums(wg, G4_SUM_CRC32C, n, pages, 1, sums, &scratch);
}

static void by_crc32c_portable(uint32_t n, const void *const *pages)
{
	for (uint32_t i = 0; i < n; i++)
		sums[i].word[0] = g4_crc32c_portable(0, pages[i], G4_PAGE_BYTES);
}

/* XXH3 up to its last step. */
static void by_xxh3_portable(uint32_t n, const void *const *pages)
{
	uint64_t all[8];

	for (uint32_t i = 0; i < n; i++) {
		g4_xxh3_sums_portable(pages[i], G4_PAGE_BYTES, all);
		sums[i].word[0] = all[0] ^ all[5];
	}
}

static void by_libxxhash(uint32_t n, const void *const *pages)
{
	for (uint32_t i = 0; i < n; i++) {
		struct hash128 hash = libxxhash(pages[i], G4_PAGE_BYTES);

		sums[i] = (struct g4_sum){{hash.low, hash.high, 0, 0}};
	}
}

#if defined(__x86_64__)
/*
 * Fletcher-4 as ZFS has it (document, section 5.1.4): four sums of 64 bits of 32-bit words, each of the one before. Eight
 * streams side by side; what joins them at the end is left out, which makes it a little faster than it can be.
 */
typedef uint64_t eight __attribute__((vector_size(64)));
typedef uint32_t eight_words __attribute__((vector_size(32)));

__attribute__((target("avx512f"))) static void by_fletcher4(uint32_t n, const void *const *pages)
{
	for (uint32_t i = 0; i < n; i++) {
		const eight_words *words = (const eight_words *)pages[i];
		eight a = {0}, b = {0}, c = {0}, d = {0};

		for (uint32_t k = 0; k < G4_PAGE_BYTES / sizeof(*words); k++) {
			a += __builtin_convertvector(words[k], eight);
			b += a;
			c += b;
			d += c;
		}
		sums[i] = (struct g4_sum){{a[0] + a[7], b[0] + b[7], c[0] + c[7], d[0] + d[7]}};
	}
}
#endif

/* Of this thread: a machine is never quiet. */
static double cpu_seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void measure_in(const char *name, const char *where, sums_fn *fn, const uint8_t *data, uint64_t bytes)
{
	const void *pages[CALL_PAGES];
	uint64_t hashed = 0, at = 0;
	double begin = 0, now = 0;

	for (uint32_t warm = 0; warm < 2; warm++) {
		hashed = 0;
		begin = now = cpu_seconds();
		while (now - begin < (warm ? seconds : seconds / 10)) {
			for (uint32_t i = 0; i < CALL_PAGES; i++)
				pages[i] = data + at + i * G4_PAGE_BYTES;
			fn(CALL_PAGES, pages);
			at = (at + CACHED_BYTES) % bytes;
			hashed += CACHED_BYTES;
			now = cpu_seconds();
		}
	}
	printf("%s, %s\t%.3f\n", name, where, (double)hashed / 1e9 / (now - begin));
}

static void measure(const char *name, sums_fn *fn, const uint8_t *data, uint64_t bytes)
{
	measure_in(name, "memory", fn, data, bytes);
	measure_in(name, "cache", fn, data, CACHED_BYTES);
}

/* libxxhash and ours say the same of every page. */
static bool agree(const uint8_t *data, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += G4_PAGE_BYTES) {
		struct hash128 theirs = libxxhash(data + at, G4_PAGE_BYTES);
		uint64_t ours[2];

		g4_xxh3_128(data + at, G4_PAGE_BYTES, ours);
		if (ours[0] != theirs.low || ours[1] != theirs.high)
			return false;
	}
	return true;
}

static int measure_all(const uint8_t *data, uint64_t bytes)
{
	void *library = dlopen("libxxhash.so.0", RTLD_NOW);

	measure("BLAKE3", by_blake3, data, bytes);
	measure("XXH3-128", by_xxh3, data, bytes);
	measure("XXH3-128 portable", by_xxh3_portable, data, bytes);
	if (library)
		*(void **)&libxxhash = dlsym(library, "XXH3_128bits");
	if (libxxhash && !agree(data, bytes)) {
		fprintf(stderr, "sums_bench: libxxhash says something else\n");
		return 1;
	}
	if (libxxhash)
		measure("XXH3-128 libxxhash", by_libxxhash, data, bytes);
	measure("CRC-32C", by_crc32c, data, bytes);
	measure("CRC-32C portable", by_crc32c_portable, data, bytes);
#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx512f"))
		measure("Fletcher-4", by_fletcher4, data, bytes);
#endif
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t bytes = 256 * G4_MIB, x = 88172645463325252u;
	int option, status;
	uint64_t *data;

	while ((option = getopt(argc, argv, "t:m:")) != -1) {
		if (option == 't' && atof(optarg) > 0) {
			seconds = atof(optarg);
		} else if (option == 'm' && atoi(optarg) > 0) {
			bytes = (uint64_t)atoi(optarg) * G4_MIB;
		} else {
			fprintf(stderr, "usage: sums_bench [-t SECONDS] [-m MIB]\n");
			return 2;
		}
	}
	data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	wg = g4_wg_create(0);
	if (data == MAP_FAILED || !wg) {
		fprintf(stderr, "sums_bench: no memory\n");
		return 1;
	}
	for (uint64_t i = 0; i < bytes / 8; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		data[i] = x;
	}
	status = measure_all((const uint8_t *)data, bytes);
	g4_wg_destroy(wg);
	munmap(data, bytes);
	return status;
}
