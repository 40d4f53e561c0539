/* SPDX-License-Identifier: Apache-2.0 */
#include "workload.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define PAGE UINT64_C(4096)
#define MIB (UINT64_C(1) << 20)
#define CACHED_FILE_BYTES (16 * MIB)
#define POOL_BYTES (8 * MIB)
#define PATH_BYTES 64

struct state {
	const struct workload_target *target;
	const struct workload_options *options;
	unsigned char *pool;   /* random bytes to write */
	unsigned char *buffer; /* 1 MiB to read into */
	uint64_t random;
	uint64_t stamp; /* makes every written page different */
	uint64_t started_ns;
	double started_cpu;
	bool silent; /* warming up: nothing is reported */
};

/* ------------------------------------------------------------------ measuring */

static void check(int64_t result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, strerror((int)-result));
		exit(1);
	}
}

static void *allocate(size_t bytes)
{
	void *memory = NULL;

	if (posix_memalign(&memory, PAGE, bytes ? bytes : 1)) {
		fprintf(stderr, "out of memory\n");
		exit(1);
	}
	return memory;
}

static uint64_t next_random(uint64_t *random)
{
	uint64_t x = *random += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static double cpu_seconds(const struct state *state)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6 +
	       (state->target->server_cpu_seconds ? state->target->server_cpu_seconds(state->target->context) : 0);
}

static void start(struct state *state)
{
	state->started_cpu = cpu_seconds(state);
	state->started_ns = now_ns();
}

static double seconds_since_start(const struct state *state)
{
	return (double)(now_ns() - state->started_ns) / 1e9;
}

static void report(const struct state *state, const char *metric, const char *unit, double value, double cpu)
{
	if (state->silent)
		return;
	printf("{\"metric\": \"%s\", \"unit\": \"%s\", \"value\": %.6g, \"cpu_seconds\": %.3f}\n", metric, unit, value,
	       cpu);
	fflush(stdout);
}

/* The CPU time is what was used since start(). */
static void report_one(const struct state *state, const char *metric, const char *unit, double value)
{
	report(state, metric, unit, value, cpu_seconds(state) - state->started_cpu);
}

/* The numbers 0 .. count - 1 in random order. */
static uint32_t *shuffled(struct state *state, uint32_t count)
{
	uint32_t *order = allocate((size_t)count * sizeof(*order));

	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	for (uint32_t i = count; i > 1; i--) {
		uint32_t j = (uint32_t)(next_random(&state->random) % i), swap = order[i - 1];

		order[i - 1] = order[j];
		order[j] = swap;
	}
	return order;
}

/* ------------------------------------------------------------------ metadata */

static void name_of(const struct state *state, uint32_t number, const char *kind, char *path)
{
	snprintf(path, PATH_BYTES, "/dir-%u/%s-%u", number / state->options->files, kind,
		 number % state->options->files);
}

static void create_one(struct state *state, const char *path)
{
	void *file;

	check(state->target->open(state->target->context, path, WORKLOAD_CREATE, &file), path);
	check(state->target->close(file), path);
}

enum operation { CREATE, STAT, RENAME, LOOKUP, UNLINK, OPERATIONS };

/* What one metadata metric took, over all passes. */
struct total {
	double seconds, cpu_seconds;
};

static void run_metadata(struct state *state, enum operation operation, struct total *total)
{
	const struct workload_target *target = state->target;
	uint32_t count = state->options->dirs * state->options->files;
	uint32_t *order = shuffled(state, count);
	char path[PATH_BYTES], to[PATH_BYTES];

	start(state);
	for (uint32_t i = 0; i < count; i++) {
		name_of(state, operation == CREATE ? i : order[i], operation < LOOKUP ? "file" : "renamed", path);
		switch (operation) {
		case CREATE:
			create_one(state, path);
			break;
		case STAT:
		case LOOKUP:
			check(target->stat(target->context, path), path);
			break;
		case RENAME:
			name_of(state, order[i], "renamed", to);
			check(target->rename(target->context, path, to), path);
			break;
		case UNLINK:
			check(target->unlink(target->context, path), path);
			break;
		}
	}
	total->seconds += seconds_since_start(state);
	total->cpu_seconds += cpu_seconds(state) - state->started_cpu;
	free(order);
	check(target->sync(target->context), "sync");
}

static void metadata_pass(struct state *state, struct total totals[OPERATIONS])
{
	const struct workload_target *target = state->target;
	char path[PATH_BYTES];

	for (uint32_t i = 0; i < state->options->dirs; i++) {
		snprintf(path, sizeof(path), "/dir-%u", i);
		check(target->mkdir(target->context, path), path);
	}
	for (enum operation operation = CREATE; operation < OPERATIONS; operation++) {
		if (operation == LOOKUP)
			check(target->forget_names(target->context), "forget names");
		run_metadata(state, operation, &totals[operation]);
	}
	for (uint32_t i = 0; i < state->options->dirs; i++) {
		snprintf(path, sizeof(path), "/dir-%u", i);
		check(target->rmdir(target->context, path), path);
	}
}

static void metadata(struct state *state)
{
	static const char *const names[OPERATIONS] = {"create", "stat", "rename", "lookup", "unlink"};
	double count = (double)state->options->passes * state->options->dirs * state->options->files;
	struct total totals[OPERATIONS] = {0};

	for (uint32_t i = 0; i < state->options->passes; i++)
		metadata_pass(state, totals);
	for (int i = 0; i < OPERATIONS; i++)
		report(state, names[i], "ops/s", count / totals[i].seconds, totals[i].cpu_seconds);
}

/* ------------------------------------------------------------------ data */

/* `bytes` random bytes, a multiple of the page size, no page like any other. */
static const void *fresh_data(struct state *state, uint64_t bytes)
{
	uint64_t first = next_random(&state->random) % ((POOL_BYTES - bytes) / PAGE + 1);
	unsigned char *data = state->pool + first * PAGE;

	for (uint64_t at = 0; at < bytes; at += PAGE) {
		state->stamp++;
		memcpy(data + at, &state->stamp, sizeof(state->stamp));
	}
	return data;
}

static void *open_file(struct state *state, const char *path, unsigned int flags)
{
	void *file;

	check(state->target->open(state->target->context, path, flags, &file), path);
	return file;
}

static void expect(int64_t result, uint64_t bytes, const char *what)
{
	check(result, what);
	if ((uint64_t)result != bytes) {
		fprintf(stderr, "%s: moved %lld of %llu bytes\n", what, (long long)result, (unsigned long long)bytes);
		exit(1);
	}
}

static void write_file(struct state *state, const char *path, uint64_t bytes)
{
	void *file = open_file(state, path, WORKLOAD_CREATE);

	for (uint64_t at = 0; at < bytes; at += MIB)
		expect(state->target->pwrite(file, fresh_data(state, MIB), MIB, (int64_t)at), MIB, "write");
	check(state->target->fsync(file), "fsync");
	check(state->target->close(file), "close");
}

static void read_file(struct state *state, void *file, uint64_t bytes)
{
	for (uint64_t at = 0; at < bytes; at += MIB)
		expect(state->target->pread(file, state->buffer, MIB, (int64_t)at), MIB, "read");
}

static void sequential(struct state *state, const char *path)
{
	uint64_t bytes = state->options->file_bytes;
	void *file;

	start(state);
	write_file(state, path, bytes);
	report_one(state, "seq_write", "MB/s", (double)bytes / 1e6 / seconds_since_start(state));

	check(state->target->drop_caches(state->target->context, path), "drop caches");
	file = open_file(state, path, 0);
	start(state);
	read_file(state, file, bytes);
	report_one(state, "seq_read", "MB/s", (double)bytes / 1e6 / seconds_since_start(state));
	check(state->target->close(file), "close");
}

static void cached_reads(struct state *state, const char *path)
{
	uint32_t count = state->options->cached_reads;
	uint64_t pages = CACHED_FILE_BYTES / PAGE;
	void *file;

	write_file(state, path, CACHED_FILE_BYTES);
	file = open_file(state, path, 0);
	read_file(state, file, CACHED_FILE_BYTES);
	start(state);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t page = next_random(&state->random) % pages;

		expect(state->target->pread(file, state->buffer, PAGE, (int64_t)(page * PAGE)), PAGE, "read");
	}
	report_one(state, "cached_read_4k", "ns", seconds_since_start(state) * 1e9 / count);
	check(state->target->close(file), "close");
	check(state->target->unlink(state->target->context, path), "unlink");
}

static void random_pages(struct state *state, const char *path)
{
	uint32_t pages = (uint32_t)(state->options->file_bytes / PAGE);
	uint32_t count = state->options->random_ops < pages ? state->options->random_ops : pages;
	uint32_t *order = shuffled(state, pages);
	void *file;

	check(state->target->drop_caches(state->target->context, path), "drop caches");
	file = open_file(state, path, 0);
	start(state);
	for (uint32_t i = 0; i < count; i++)
		expect(state->target->pread(file, state->buffer, PAGE, (int64_t)(order[i] * PAGE)), PAGE, "read");
	report_one(state, "rand_read_4k", "MB/s", (double)count * PAGE / 1e6 / seconds_since_start(state));

	start(state);
	for (uint32_t i = 0; i < count; i++)
		expect(state->target->pwrite(file, fresh_data(state, PAGE), PAGE, (int64_t)(order[i] * PAGE)), PAGE,
		       "write");
	check(state->target->fsync(file), "fsync");
	report_one(state, "rand_write_4k", "MB/s", (double)count * PAGE / 1e6 / seconds_since_start(state));
	check(state->target->close(file), "close");
	free(order);
}

static int compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void fsyncs(struct state *state, const char *path)
{
	uint32_t count = state->options->fsyncs;
	uint64_t pages = state->options->file_bytes / PAGE;
	uint64_t *latency = allocate(count * sizeof(*latency));
	void *file = open_file(state, path, 0);

	start(state);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t page = next_random(&state->random) % pages, before;

		expect(state->target->pwrite(file, fresh_data(state, PAGE), PAGE, (int64_t)(page * PAGE)), PAGE,
		       "write");
		before = now_ns();
		check(state->target->fsync(file), "fsync");
		latency[i] = now_ns() - before;
	}
	qsort(latency, count, sizeof(*latency), compare_ns);
	report_one(state, "fsync_p50", "us", (double)latency[count / 2] / 1e3);
	report_one(state, "fsync_p99", "us", (double)latency[(uint64_t)count * 99 / 100] / 1e3);
	check(state->target->close(file), "close");
	free(latency);
}

/*
 * A little of everything, unreported: the first use of memory (the kernel's slabs as well as the page cache in-process) and
 * of code is not what anybody measures.
 */
static void warm_up(struct state *state)
{
	const struct workload_options *full = state->options;
	struct workload_options small = *full;

	small.dirs = full->dirs / 4 + 1;
	small.passes = 1;
	small.cached_reads = full->cached_reads / 8 + 1;
	state->options = &small;
	state->silent = true;
	metadata(state);
	cached_reads(state, "/warm");
	state->silent = false;
	state->options = full;
}

int workload_run(const struct workload_target *target, const struct workload_options *options)
{
	struct state state = {.target = target, .options = options, .random = 20240229};

	state.pool = allocate(POOL_BYTES);
	state.buffer = allocate(MIB);
	for (uint64_t at = 0; at < POOL_BYTES; at += sizeof(uint64_t)) {
		uint64_t word = next_random(&state.random);

		memcpy(state.pool + at, &word, sizeof(word));
	}
	warm_up(&state);
	metadata(&state);
	sequential(&state, "/data");
	cached_reads(&state, "/cached");
	random_pages(&state, "/data");
	fsyncs(&state, "/data");
	check(target->unlink(target->context, "/data"), "unlink");
	free(state.pool);
	free(state.buffer);
	return 0;
}

/* ------------------------------------------------------------------ command line */

enum {
	DIRS = 1,
	FILES,
	PASSES,
	FILE_MIB,
	CACHED_READS,
	RANDOM_OPS,
	FSYNCS,
	IMAGE_MIB,
	CACHE_MIB,
	REMOUNT,
	SERVER,
	HELP
};

static const struct option long_options[] = {
	{"dirs", required_argument, NULL, DIRS},
	{"files", required_argument, NULL, FILES},
	{"passes", required_argument, NULL, PASSES},
	{"file-mib", required_argument, NULL, FILE_MIB},
	{"cached-reads", required_argument, NULL, CACHED_READS},
	{"random-ops", required_argument, NULL, RANDOM_OPS},
	{"fsyncs", required_argument, NULL, FSYNCS},
	{"image-mib", required_argument, NULL, IMAGE_MIB},
	{"cache-mib", required_argument, NULL, CACHE_MIB},
	{"remount", required_argument, NULL, REMOUNT},
	{"server", required_argument, NULL, SERVER},
	{"help", no_argument, NULL, HELP},
	{NULL, 0, NULL, 0},
};

static void usage(FILE *to, const char *program, const char *what)
{
	fprintf(to,
		"Usage: %s [OPTION]... %s\n"
		"Runs the workload of workload.h and prints one JSON object a metric.\n\n"
		"  --dirs=N          directories for the metadata metrics [8]\n"
		"  --files=N         files in each [2000]\n"
		"  --passes=N        how often all of them are made and removed [4]\n"
		"  --file-mib=N      size of the file for I/O, MiB [1024]\n"
		"  --cached-reads=N  [500000]\n"
		"  --random-ops=N    4 KiB reads and writes, at most the file's pages [16384]\n"
		"  --fsyncs=N        [1000]\n"
		"  --image-mib=N     in-process: size of the image, MiB [2048]\n"
		"  --cache-mib=N     in-process: page cache, MiB [the library's default]\n"
		"  --remount=COMMAND system calls: unmounts and mounts DIRECTORY, to empty caches\n"
		"  --server=FILE     system calls: holds the process id of the FUSE server of DIRECTORY,\n"
		"                    whose CPU time counts\n",
		program, what);
}

static uint32_t positive(const char *text)
{
	char *end;
	unsigned long value;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || value == 0 || value > 100000000) {
		fprintf(stderr, "%s is no number from 1 to 100000000\n", text);
		exit(2);
	}
	return (uint32_t)value;
}

void workload_parse(int argc, char **argv, const char *what, struct workload_options *options)
{
	int option;

	*options = (struct workload_options){
		.dirs = 8,
		.files = 2000,
		.passes = 4,
		.file_bytes = 1024 * MIB,
		.cached_reads = 500000,
		.random_ops = 16384,
		.fsyncs = 1000,
		.image_bytes = 2048 * MIB,
	};
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (option) {
		case DIRS:
			options->dirs = positive(optarg);
			break;
		case FILES:
			options->files = positive(optarg);
			break;
		case PASSES:
			options->passes = positive(optarg);
			break;
		case FILE_MIB:
			options->file_bytes = positive(optarg) * MIB;
			break;
		case CACHED_READS:
			options->cached_reads = positive(optarg);
			break;
		case RANDOM_OPS:
			options->random_ops = positive(optarg);
			break;
		case FSYNCS:
			options->fsyncs = positive(optarg);
			break;
		case IMAGE_MIB:
			options->image_bytes = positive(optarg) * MIB;
			break;
		case CACHE_MIB:
			options->cache_bytes = positive(optarg) * MIB;
			break;
		case REMOUNT:
			options->remount = optarg;
			break;
		case SERVER:
			options->server = optarg;
			break;
		case HELP:
			usage(stdout, argv[0], what);
			exit(0);
		default:
			usage(stderr, argv[0], what);
			exit(2);
		}
	}
	if (optind != argc - 1) {
		usage(stderr, argv[0], what);
		exit(2);
	}
	options->target = argv[optind];
	if ((uint64_t)options->dirs * options->files > 100000000 || options->file_bytes / PAGE > UINT32_MAX) {
		fprintf(stderr, "that is too much\n");
		exit(2);
	}
}
