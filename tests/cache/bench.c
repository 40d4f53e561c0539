/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a page takes, by kind of hit and miss: cache_bench [--samples=N] [--sums] [--json] (the NVMe document's figures of chapter 6, on
 * the CPU engine; on a GPU: `gpu_bench acquire`).
 *
 * First the cache alone, whose pages come from nowhere: until a referenced line is there. Then reads of 4 KiB by gpu4fs_pread(), at places
 * without an order, of a mount whose image is memory; one thread, nobody else. Each kind is made so that all its samples are of it, and
 * what the engine has counted meanwhile (gpu4fs info) is beside it: how many of the samples were. A row has ns: minimum, quartiles with
 * the median, 99.9 %, maximum; the first is what two looks at the clock take, which all others contain. --json: an object a line.
 *
 *   hit          the page is there                    clean miss   it replaces another one
 *   peeked hit   as lanes look for it                 borrowed     all lines of its set are in use: it comes into one of the pool
 *   locked hit   it is in a line of the pool          tier hit     it replaces another one, and was in the second tier
 *   cold miss    it comes into a line without a page  dirty        written, where what is in the cache has to be written back first
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cache/cache.h"
#include "client/client.h"

#define PAGE UINT64_C(4096)
#define MIB (UINT64_C(1) << 20)

static uint32_t sample_count = 50000, samples;
static uint64_t asked; /* with those that no sample was left for */
static uint32_t *took;
static uint8_t *buffer;
static bool json;

static void must(int64_t rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "cache_bench: %s: %s\n", what, gpu4fs_strerror((int)rc));
	exit(1);
}

static void *memory(uint64_t count, uint64_t bytes)
{
	void *all = aligned_alloc(PAGE, (count * bytes + PAGE - 1) / PAGE * PAGE);

	if (!all)
		must(-ENOMEM, "memory");
	memset(all, 0, (count * bytes + PAGE - 1) / PAGE * PAGE);
	return all;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void sample(uint64_t since)
{
	const uint64_t ns = now_ns() - since;

	asked++;
	if (samples < sample_count)
		took[samples++] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

static int by_value(const void *a, const void *b)
{
	const uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

/* Ends a row. of_kind: how many were of this kind; UINT64_MAX: not counted. */
static void row(const char *level, const char *kind, uint64_t of_kind)
{
	static const uint32_t places[] = {0, 250, 500, 750, 999, 1000};

	qsort(took, samples, sizeof(*took), by_value);
	printf(json ? "{\"level\": \"%s\", \"kind\": \"%s\", \"ns\": [" : "%-8s %-12s", level, kind);
	for (uint32_t k = 0; k < 6; k++) {
		const uint32_t ns = took[(uint64_t)(samples - 1) * places[k] / 1000];
		printf(json ? "%s%u" : "%s %9u", json && k > 0 ? ", " : "", ns);
	}
	if (json && of_kind == UINT64_MAX)
		printf("], \"of_kind\": null, \"asked\": %llu}\n", (unsigned long long)asked);
	else if (json)
		printf("], \"of_kind\": %llu, \"asked\": %llu}\n", (unsigned long long)of_kind,
		       (unsigned long long)asked);
	else if (of_kind == UINT64_MAX)
		printf("   %llu\n", (unsigned long long)asked);
	else
		printf("   %llu of %llu\n", (unsigned long long)of_kind, (unsigned long long)asked);
	fflush(stdout);
	samples = 0;
	asked = 0;
}

/* ------------------------------------------------------------------ the cache alone */

#define LINES 16384u
static struct g4_cache cache;

static void clear_cache(void)
{
	static struct g4_line *lines;
	static struct g4_cache_set *sets;
	static struct g4_note *notes;
	static uint8_t *frames;

	if (!lines) {
		lines = memory(LINES, sizeof(*lines));
		sets = memory(g4_cache_sets_for(LINES), sizeof(*sets));
		notes = memory(LINES, sizeof(*notes));
		frames = memory(LINES, PAGE);
	}
	memset(lines, 0, LINES * sizeof(*lines));
	memset(sets, 0, g4_cache_sets_for(LINES) * sizeof(*sets));
	g4_cache_init(&cache, lines, frames, NULL, sets, notes, LINES);
}

static uint64_t events(enum g4_cache_event event)
{
	struct g4_cache_counts counts;

	g4_cache_count_all(&cache, &counts);
	return counts.events[event];
}

/* A page, referenced, that was not there. */
static uint32_t fill(uint64_t index, bool timed)
{
	const uint64_t since = now_ns();
	bool fresh;
	const uint32_t line = g4_cache_get(NULL, &cache, 1, index, true, &fresh);

	if (timed)
		sample(since);
	if (line != G4_NO_LINE && fresh)
		g4_cache_filled(&cache, line);
	return line;
}

static uint64_t scattered(uint64_t k, uint64_t count)
{
	return (k * 7919 + 13) % count; /* no factor of a power of two times a small number */
}

static void misses_alone(void)
{
	uint64_t count = 0, index = 0;

	while (samples < sample_count) { /* until a set is full, it is cold */
		clear_cache();
		for (uint64_t k = 0; k < cache.overflow_first / 2 && samples < sample_count; k++)
			g4_cache_put(&cache, fill(scattered(k, cache.overflow_first), true));
		count += events(G4_CACHE_COLD_MISS);
	}
	row("cache", "cold miss", count);
	for (; index < 2 * LINES; index++)
		g4_cache_put(&cache, fill(index, false));
	count = events(G4_CACHE_CLEAN_MISS);
	for (; samples < sample_count; index++)
		g4_cache_put(&cache, fill(index, true));
	row("cache", "clean miss", events(G4_CACHE_CLEAN_MISS) - count);
}

/* All ways of the first sets are in use, so that more pages of these lie in the pool. */
static void pool_alone(void)
{
	const uint32_t sets = (LINES - cache.overflow_first) / 4;
	static uint32_t held[LINES];
	uint64_t borrowed = 0, locked = 0;
	uint32_t used = 0;

	clear_cache();
	for (uint32_t set = 0; set < sets; set++)
		for (uint32_t way = 0; way < G4_CACHE_WAYS; way++)
			held[used++] = fill(set + (uint64_t)way * cache.set_count, false);
	while (samples < sample_count) {
		const uint64_t before = events(G4_CACHE_BORROWED);
		for (uint32_t set = 0; set < sets && samples < sample_count; set++) {
			const uint64_t page = scattered(set, sets) + (uint64_t)G4_CACHE_WAYS * cache.set_count;
			g4_cache_put(&cache, fill(page, true));
		}
		borrowed += events(G4_CACHE_BORROWED) - before;
	}
	row("cache", "borrowed", borrowed);
	for (uint32_t set = 0; set < sets; set++)
		held[used++] = fill(set + (uint64_t)G4_CACHE_WAYS * cache.set_count, false);
	locked = events(G4_CACHE_LOCKED_HIT);
	for (uint64_t k = 0; samples < sample_count; k++) {
		const uint64_t since = now_ns();
		const uint32_t line =
			g4_cache_find(&cache, 1, scattered(k, sets) + (uint64_t)G4_CACHE_WAYS * cache.set_count);
		sample(since);
		g4_cache_put(&cache, line);
	}
	row("cache", "locked hit", events(G4_CACHE_LOCKED_HIT) - locked);
	while (used > 0)
		g4_cache_put(&cache, held[--used]);
}

static void alone(void)
{
	for (uint64_t k = 0; k < sample_count; k++)
		sample(now_ns());
	row("clock", "", UINT64_MAX);
	clear_cache();
	for (uint64_t k = 0; k < cache.overflow_first; k++)
		g4_cache_put(&cache, fill(k, false));
	for (uint32_t peeks = 0; peeks < 2; peeks++) {
		uint64_t found = 0;
		for (uint64_t k = 0; samples < sample_count; k++) {
			const uint64_t index = scattered(k, cache.overflow_first), since = now_ns();
			const uint32_t line = peeks ? g4_cache_peek(&cache, 1, index) : g4_cache_find(&cache, 1, index);
			sample(since);
			found += line != G4_NO_LINE;
			if (line != G4_NO_LINE)
				g4_cache_put(&cache, line);
		}
		row("cache", peeks ? "peeked hit" : "hit", found);
	}
	pool_alone();
	misses_alone();
}

/* ------------------------------------------------------------------ reads of a mount */

#define FILE_BYTES (64 * MIB)
#define FILE_PAGES (FILE_BYTES / PAGE)

static char image[64];
static gpu4fs *fs;
static gpu4fs_file *file;

static void mount_with(uint64_t cache_bytes, uint64_t tier_bytes, const struct gpu4fs_mkfs_options *format)
{
	const struct gpu4fs_options options = {.size = sizeof(options),
					       .flags = GPU4FS_NOATIME,
					       .cache_bytes = cache_bytes,
					       .tier_bytes = tier_bytes ? tier_bytes : 1,
					       .format = format};
	const char *name = image;

	if (gpu4fs_mount(&name, 1, &options, &fs) < 0) {
		fprintf(stderr, "cache_bench: %s\n", gpu4fs_last_message());
		exit(1);
	}
	must(gpu4fs_open(fs, NULL, "/file", O_RDWR | O_CREAT, 0600, &file), "open");
}

static void unmount(void)
{
	must(gpu4fs_close(file), "close");
	must(gpu4fs_unmount(fs), "unmount");
}

static struct g4_cache_use use(void)
{
	static struct g4_health health;
	struct g4_cmd cmd = {.op = G4_CMD_JOB_LIST, .length = sizeof(health), .data = &health};

	must(g4c_run(fs->mount->engine, &cmd), "counts");
	return health.cache;
}

/* Pages of the file once each, without an order, at most `count`. */
static void pass(uint64_t count, bool writes, bool timed)
{
	for (uint64_t k = 0; k < count; k++) {
		const int64_t at = (int64_t)(scattered(k, FILE_PAGES) * PAGE);
		const uint64_t since = now_ns();
		const int64_t rc =
			writes ? gpu4fs_pwrite(file, buffer, PAGE, at) : gpu4fs_pread(file, buffer, PAGE, at);
		if (timed)
			sample(since);
		must(rc, "transfer");
	}
}

static void reads(uint32_t checksum)
{
	const struct gpu4fs_mkfs_options format = {
		.size = sizeof(format), .flags = GPU4FS_MKFS_FORCE, .checksum = checksum};
	struct g4_cache_use before, after;
	uint64_t cold = 0;

	mount_with(0, 0, &format);
	for (uint64_t at = 0; at < FILE_BYTES; at += MIB)
		must(gpu4fs_pwrite(file, buffer, MIB, (int64_t)at), "write");
	unmount();
	while (samples < sample_count) { /* all of it has room */
		mount_with(2 * FILE_BYTES, 0, NULL);
		must(gpu4fs_pread(file, buffer, 1, 0), "read");
		before = use();
		pass(FILE_PAGES, false, true);
		cold += use().data_misses - before.data_misses;
		unmount();
	}
	row("pread", "cold miss", cold);
	mount_with(2 * FILE_BYTES, 0, NULL);
	pass(FILE_PAGES, false, false);
	before = use();
	while (samples < sample_count)
		pass(FILE_PAGES, false, true);
	row("pread", "hit", use().data_hits - before.data_hits);
	unmount();
	mount_with(FILE_BYTES / 8, 0, NULL);
	pass(FILE_PAGES, false, false);
	before = use();
	while (samples < sample_count)
		pass(FILE_PAGES, false, true);
	row("pread", "clean miss", use().clean_misses - before.clean_misses);
	unmount();
	mount_with(FILE_BYTES / 8, 2 * FILE_BYTES, NULL);
	for (uint32_t round = 0; round < 2; round++)
		pass(FILE_PAGES, false, false);
	before = use();
	while (samples < sample_count)
		pass(FILE_PAGES, false, true);
	row("pread", "tier hit", use().tier_up - before.tier_up);
	unmount();
	mount_with(FILE_BYTES / 8, 0, NULL);
	pass(FILE_PAGES / 2, true, false);
	before = use();
	while (samples < sample_count)
		pass(FILE_PAGES, true, true);
	after = use();
	row("pwrite", "dirty", UINT64_MAX);
	if (!json)
		printf("# of these writes %llu waited for a line, %llu pages borrowed one\n",
		       (unsigned long long)(after.waited_misses - before.waited_misses),
		       (unsigned long long)(after.borrowed_lines - before.borrowed_lines));
	unmount();
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"samples", required_argument, NULL, 'n'},
						{"sums", no_argument, NULL, 's'},
						{"json", no_argument, NULL, 'j'},
						{0}};
	uint32_t checksum = GPU4FS_CHECKSUM_NONE;

	for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (option == 'n') {
			sample_count = (uint32_t)strtoul(optarg, NULL, 10);
		} else if (option == 's') {
			checksum = GPU4FS_CHECKSUM_BLAKE3;
		} else if (option == 'j') {
			json = true;
		} else {
			fprintf(stderr, "usage: cache_bench [--samples=N] [--sums] [--json]\n");
			return 2;
		}
	}
	if (sample_count < 1000) {
		fprintf(stderr, "cache_bench: at least 1000 samples\n");
		return 2;
	}
	const int fd = memfd_create("cache_bench", 0);
	must(fd < 0 || ftruncate(fd, 4 * FILE_BYTES) ? -errno : 0, "image");
	snprintf(image, sizeof(image), "/proc/self/fd/%d", fd);
	took = memory(sample_count, sizeof(*took));
	buffer = memory(1, MIB);
	memset(buffer, 7, MIB);
	if (!json)
		printf("%-8s %-12s %9s %9s %9s %9s %9s %9s   of this kind\n", "ns", "kind", "minimum", "25 %", "50 %",
		       "75 %", "99.9 %", "maximum");
	alone();
	reads(checksum);
	return 0;
}
