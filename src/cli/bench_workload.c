/* SPDX-License-Identifier: Apache-2.0 */
/* Every function that returns int gives 0 or a negative errno, and has said in state->message what failed. */
#include "cli/bench_workload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock_host.h"
#include "base/uuid_host.h"

#define PAGE UINT64_C(4096)
#define MIB (UINT64_C(1) << 20)
#define CACHED_FILE_BYTES (16 * MIB)
#define SEQUENTIAL_READS 5u
#define SMALL_BYTES UINT64_C(9216) /* the median of file systems */
#define SMALL_PAGES g4_pages_for(SMALL_BYTES)
#define POOL_BYTES (8 * MIB)
#define PATH_BYTES 64
#define DEEP_LEVELS 4000u
#define STEP 64u	  /* operations between two looks at the clock and the signals */
#define CACHED_STEP 4096u /* the same for what takes less than a microsecond */

struct state {
	const struct g4_bench_target *target;
	const struct g4_bench_options *options;
	const struct g4_bench_events *events;
	char *message;
	size_t message_bytes;
	unsigned char *pool;   /* random bytes to write */
	unsigned char *buffer; /* 1 MiB to read into */
	uint64_t random;
	uint64_t stamp; /* makes every written page different */
	uint64_t started_ns;
	double started_cpu;
	uint64_t done, total; /* steps, for the progress bar */
	bool silent;	      /* warming up: nothing is reported */
};

/* ------------------------------------------------------------------ measuring */

/* Passes a result on; a failure leaves its words. */
static int check(struct state *state, int64_t result, const char *what)
{
	if (result >= 0)
		return 0;
	snprintf(state->message, state->message_bytes, "%s: %s", what, strerror((int)-result));
	return (int)result;
}

static int step(struct state *state, uint64_t steps)
{
	state->done += steps;
	state->events->progress(state->events->user, state->done, state->total);
	return check(state, *state->events->stop ? -EINTR : 0, "stopped");
}

static int allocate(struct state *state, size_t bytes, void *out)
{
	void *memory = NULL;

	if (posix_memalign(&memory, PAGE, bytes ? bytes : 1))
		return check(state, -ENOMEM, "memory");
	memcpy(out, &memory, sizeof(memory));
	return 0;
}

static uint64_t next_random(uint64_t *random)
{
	uint64_t x = *random += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static int cpu_seconds(struct state *state, double *seconds)
{
	const struct g4_bench_target *target = state->target;
	struct rusage usage;
	double server = 0;
	int rc = 0;

	getrusage(RUSAGE_SELF, &usage);
	if (target->server_cpu_seconds)
		rc = check(state, target->server_cpu_seconds(target->context, &server), "the FUSE server");
	*seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
		   (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6 + server;
	return rc;
}

static int start(struct state *state)
{
	int rc = cpu_seconds(state, &state->started_cpu);

	state->started_ns = g4_clock_ns(CLOCK_MONOTONIC);
	return rc;
}

/* Seconds and CPU seconds since start(). */
static int stop(struct state *state, double *seconds, double *cpu)
{
	*seconds = (double)(g4_clock_ns(CLOCK_MONOTONIC) - state->started_ns) / 1e9;
	int rc = cpu_seconds(state, cpu);
	*cpu -= state->started_cpu;
	return rc;
}

static void report(const struct state *state, const char *metric, const char *unit, double value, double cpu)
{
	const struct g4_bench_result result = {metric, unit, value, cpu};

	if (!state->silent)
		state->events->result(state->events->user, &result);
}

/* The numbers 0 .. count - 1 in random order. */
static int shuffle(struct state *state, uint32_t count, uint32_t **order)
{
	int rc = allocate(state, (size_t)count * sizeof(**order), order);

	if (rc < 0)
		return rc;
	for (uint32_t i = 0; i < count; i++)
		(*order)[i] = i;
	for (uint32_t i = count; i > 1; i--) {
		uint32_t j = (uint32_t)(next_random(&state->random) % i), swap = (*order)[i - 1];

		(*order)[i - 1] = (*order)[j];
		(*order)[j] = swap;
	}
	return 0;
}

/* ------------------------------------------------------------------ metadata */

static void name_of(const struct state *state, uint32_t number, const char *kind, char *path)
{
	snprintf(path, PATH_BYTES, "dir-%u/%s-%u", number / state->options->files, kind,
		 number % state->options->files);
}

enum operation { CREATE, STAT, RENAME, LOOKUP, UNLINK, OPERATIONS };
static const char *const operation_names[OPERATIONS] = {"create", "stat", "rename", "lookup", "unlink"};

/* What one metadata metric took, over all passes. */
struct total {
	double seconds, cpu_seconds;
};

static int create_one(const struct g4_bench_target *target, const char *path)
{
	void *file = NULL;
	int rc = target->open(target->context, path, G4_BENCH_CREATE, &file);

	return rc < 0 ? rc : target->close(file);
}

/* What an operation is given. */
struct names {
	char path[PATH_BYTES], to[PATH_BYTES];
};

/*
 * The names in the order in which they are used, made before the clock starts: printing one takes as long as finding it in a
 * cache.
 */
static int make_names(struct state *state, enum operation operation, uint32_t count, struct names **names)
{
	uint32_t *order;
	int rc = shuffle(state, count, &order);

	if (rc < 0)
		return rc;
	rc = allocate(state, count * sizeof(**names), names);
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		const uint32_t number = operation == CREATE ? i : order[i];

		name_of(state, number, operation < LOOKUP ? "file" : "renamed", (*names)[i].path);
		if (operation == RENAME)
			name_of(state, number, "renamed", (*names)[i].to);
	}
	free(order);
	return rc;
}

static int operate(const struct g4_bench_target *target, enum operation operation, const struct names *names)
{
	switch (operation) {
	case CREATE:
		return create_one(target, names->path);
	case RENAME:
		return target->rename(target->context, names->path, names->to);
	case UNLINK:
		return target->unlink(target->context, names->path);
	default:
		return target->stat(target->context, names->path);
	}
}

static int run_metadata(struct state *state, enum operation operation, struct total *total)
{
	const uint32_t count = state->options->dirs * state->options->files;
	double seconds = 0, cpu = 0;
	struct names *names;
	int rc = make_names(state, operation, count, &names);

	if (rc < 0)
		return rc;
	rc = start(state);
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		rc = check(state, operate(state->target, operation, &names[i]), operation_names[operation]);
		if (rc == 0 && (i + 1) % STEP == 0)
			rc = step(state, STEP);
	}
	if (rc == 0)
		rc = stop(state, &seconds, &cpu);
	free(names);
	if (rc < 0)
		return rc;
	total->seconds += seconds;
	total->cpu_seconds += cpu;
	return check(state, state->target->sync(state->target->context), "sync");
}

static int many_one_by_one(const struct g4_bench_target *target, enum g4_bench_many kind, const char *const *paths,
			   uint32_t count)
{
	int rc = 0;

	for (uint32_t i = 0; i < count && rc == 0; i++) {
		if (kind == G4_BENCH_MANY_CREATE)
			rc = create_one(target, paths[i]);
		else if (kind == G4_BENCH_MANY_UNLINK)
			rc = target->unlink(target->context, paths[i]);
		else
			rc = target->stat(target->context, paths[i]);
	}
	return rc;
}

static int run_many(struct state *state, enum g4_bench_many kind, const struct names *names, uint32_t count,
		    struct total *total)
{
	const struct g4_bench_target *target = state->target;
	const char *paths[STEP];
	double seconds = 0, cpu = 0;
	int rc = start(state);

	for (uint32_t i = 0, n; i < count && rc == 0; i += n) {
		n = (uint32_t)g4_min64(STEP, count - i);
		for (uint32_t k = 0; k < n; k++)
			paths[k] = names[i + k].path;
		rc = check(state,
			   target->many ? target->many(target->context, kind, paths, n) :
					  many_one_by_one(target, kind, paths, n),
			   "a batch");
		if (rc == 0 && n == STEP)
			rc = step(state, STEP);
	}
	if (rc == 0)
		rc = stop(state, &seconds, &cpu);
	total->seconds += seconds;
	total->cpu_seconds += cpu;
	return rc < 0 ? rc : check(state, target->sync(target->context), "sync");
}

/* Files in the directories of metadata_pass(), by calls for many names. */
static int batches_pass(struct state *state, struct total totals[G4_BENCH_MANY_KINDS])
{
	const uint32_t count = state->options->dirs * state->options->files;
	int rc = 0;

	for (int kind = 0; kind < G4_BENCH_MANY_KINDS && rc == 0; kind++) {
		struct names *names = NULL;
		rc = make_names(state, kind == G4_BENCH_MANY_CREATE ? CREATE : STAT, count, &names);
		if (rc == 0)
			rc = run_many(state, (enum g4_bench_many)kind, names, count, &totals[kind]);
		free(names);
	}
	return rc;
}

static uint32_t deep_levels(const struct g4_bench_options *options)
{
	return (uint32_t)g4_min64(DEEP_LEVELS, (uint64_t)options->dirs * options->files);
}

static int deep_one(struct state *state, int (*run)(void *context, const char *name, uint32_t levels),
		    const char *metric)
{
	const uint32_t levels = deep_levels(state->options);
	double seconds = 0, cpu = 0;
	int rc = start(state);

	if (rc == 0)
		rc = check(state, run(state->target->context, "deep", levels), metric);
	if (rc == 0)
		rc = stop(state, &seconds, &cpu);
	if (rc < 0)
		return rc;
	report(state, metric, "ops/s", levels / seconds, cpu);
	return step(state, STEP);
}

static int deep(struct state *state, const char *path)
{
	const struct g4_bench_target *target = state->target;
	int rc = deep_one(state, target->deep_mkdir, "deep_mkdir");

	(void)path;
	if (rc == 0)
		rc = deep_one(state, target->deep_stat, "deep_stat");
	return rc < 0 ? rc :
			check(state, target->deep_rmdir(target->context, "deep", deep_levels(state->options)), "rmdir");
}

static int make_dirs(struct state *state, bool make)
{
	const struct g4_bench_target *target = state->target;
	char path[PATH_BYTES];
	int rc = 0;

	for (uint32_t i = 0; i < state->options->dirs && rc == 0; i++) {
		snprintf(path, sizeof(path), "dir-%u", i);
		rc = check(state, (make ? target->mkdir : target->rmdir)(target->context, path),
			   make ? "mkdir" : "rmdir");
	}
	return rc;
}

static int metadata_pass(struct state *state, struct total totals[OPERATIONS], struct total many[G4_BENCH_MANY_KINDS])
{
	const struct g4_bench_target *target = state->target;
	int rc = make_dirs(state, true);

	for (enum operation operation = CREATE; operation < OPERATIONS && rc == 0; operation++) {
		if (operation == LOOKUP)
			rc = check(state, target->forget_names(target->context), "forget names");
		if (rc == 0)
			rc = run_metadata(state, operation, &totals[operation]);
	}
	if (rc == 0)
		rc = batches_pass(state, many);
	return rc < 0 ? rc : make_dirs(state, false);
}

static int metadata(struct state *state)
{
	static const char *const many_names[] = {"batch_create", "batch_stat", "batch_unlink"};
	double count = (double)state->options->passes * state->options->dirs * state->options->files;
	struct total totals[OPERATIONS] = {0}, many[G4_BENCH_MANY_KINDS] = {0};
	int rc = 0;

	for (uint32_t i = 0; i < state->options->passes && rc == 0; i++)
		rc = metadata_pass(state, totals, many);
	for (int i = 0; i < OPERATIONS && rc == 0; i++)
		report(state, operation_names[i], "ops/s", count / totals[i].seconds, totals[i].cpu_seconds);
	for (int i = 0; i < G4_BENCH_MANY_KINDS && rc == 0; i++)
		report(state, many_names[i], "ops/s", count / many[i].seconds, many[i].cpu_seconds);
	return rc;
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

static int open_file(struct state *state, const char *path, unsigned int flags, void **file)
{
	return check(state, state->target->open(state->target->context, path, flags, file), "open");
}

/* Closes a file whose use ended with rc. */
static int close_file(struct state *state, void *file, int rc)
{
	int closed = state->target->close(file);

	return rc < 0 ? rc : check(state, closed, "close");
}

static int expect(struct state *state, int64_t result, uint64_t bytes, const char *what)
{
	if (result >= 0 && (uint64_t)result != bytes) { /* a full file system writes what fits first */
		snprintf(state->message, state->message_bytes, "%s: only %lld of %llu bytes", what, (long long)result,
			 (unsigned long long)bytes);
		return -EIO;
	}
	return check(state, result, what);
}

static int write_at(struct state *state, void *file, uint64_t bytes, uint64_t at)
{
	return expect(state, state->target->pwrite(file, fresh_data(state, bytes), bytes, (int64_t)at), bytes, "write");
}

static int read_at(struct state *state, void *file, uint64_t bytes, uint64_t at)
{
	return expect(state, state->target->pread(file, state->buffer, bytes, (int64_t)at), bytes, "read");
}

static int compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int write_file(struct state *state, const char *path, uint64_t bytes)
{
	void *file = NULL;
	int rc = open_file(state, path, G4_BENCH_CREATE, &file);

	if (rc < 0)
		return rc;
	for (uint64_t at = 0; at < bytes && rc == 0; at += MIB) {
		rc = write_at(state, file, MIB, at);
		if (rc == 0)
			rc = step(state, STEP);
	}
	if (rc == 0)
		rc = check(state, state->target->fsync(file), "fsync");
	return close_file(state, file, rc);
}

static int read_file(struct state *state, void *file, uint64_t bytes)
{
	int rc = 0;

	for (uint64_t at = 0; at < bytes && rc == 0; at += MIB) {
		rc = read_at(state, file, MIB, at);
		if (rc == 0)
			rc = step(state, STEP);
	}
	return rc;
}

/* One pass over a file that no cache knows; adds to *cpu. */
static int read_uncached(struct state *state, const char *path, uint64_t *took_ns, double *cpu)
{
	double seconds = 0, used = 0;
	void *file = NULL;
	int rc = check(state, state->target->drop_caches(state->target->context, path), "drop caches");

	if (rc == 0)
		rc = open_file(state, path, 0, &file);
	if (rc < 0)
		return rc;
	rc = start(state);
	if (rc == 0)
		rc = read_file(state, file, state->options->file_bytes);
	if (rc == 0)
		rc = stop(state, &seconds, &used);
	*took_ns = (uint64_t)(seconds * 1e9);
	*cpu += used;
	return close_file(state, file, rc);
}

static int sequential(struct state *state, const char *path)
{
	uint64_t bytes = state->options->file_bytes, took[SEQUENTIAL_READS];
	double seconds = 0, used = 0, cpu = 0;
	int rc = start(state);

	if (rc == 0)
		rc = write_file(state, path, bytes);
	if (rc == 0)
		rc = stop(state, &seconds, &used);
	if (rc < 0)
		return rc;
	report(state, "seq_write", "MB/s", (double)bytes / 1e6 / seconds, used);

	/* several times: a device that gives more in bursts has less for a target that wrote fast just before */
	for (uint32_t pass = 0; pass < SEQUENTIAL_READS && rc == 0; pass++)
		rc = read_uncached(state, path, &took[pass], &cpu);
	if (rc < 0)
		return rc;
	qsort(took, SEQUENTIAL_READS, sizeof(took[0]), compare_ns);
	const uint64_t median = took[SEQUENTIAL_READS / 2];
	report(state, "seq_read", "MB/s", (double)bytes * 1e3 / (double)median, cpu / SEQUENTIAL_READS);
	return 0;
}

static uint64_t cached_file_bytes(const struct g4_bench_options *options)
{
	return g4_min64(options->file_bytes, CACHED_FILE_BYTES);
}

static int cached_reads(struct state *state, const char *path)
{
	uint32_t count = state->options->cached_reads;
	uint64_t bytes = cached_file_bytes(state->options), pages = g4_max64(bytes / PAGE, 1);
	double seconds = 0, cpu = 0;
	void *file = NULL;
	int rc = write_file(state, path, bytes);

	if (rc == 0)
		rc = open_file(state, path, 0, &file);
	if (rc < 0)
		return rc;
	rc = read_file(state, file, bytes);
	if (rc == 0)
		rc = start(state);
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		rc = read_at(state, file, PAGE, next_random(&state->random) % pages * PAGE);
		if (rc == 0 && (i + 1) % CACHED_STEP == 0)
			rc = step(state, STEP);
	}
	if (rc == 0)
		rc = stop(state, &seconds, &cpu);
	rc = close_file(state, file, rc);
	if (rc < 0)
		return rc;
	report(state, "cached_read_4k", "ns", seconds * 1e9 / count, cpu);
	return check(state, state->target->unlink(state->target->context, path), "unlink");
}

/* Files that are written, or read, whole, in order of their names. */
static int pass_small(struct state *state, const char *folder, bool writes)
{
	const struct g4_bench_target *target = state->target;
	char path[PATH_BYTES];
	int rc = 0;

	for (uint32_t i = 0; i < state->options->files && rc == 0; i++) {
		void *file = NULL;
		snprintf(path, sizeof(path), "%s/file-%u", folder, i);
		rc = open_file(state, path, writes ? G4_BENCH_CREATE : 0, &file);
		if (rc < 0)
			break;
		rc = writes ? write_at(state, file, SMALL_BYTES, 0) : read_at(state, file, SMALL_BYTES, 0);
		rc = close_file(state, file, rc);
		if (rc == 0 && (i + 1) % STEP == 0)
			rc = step(state, STEP);
	}
	return rc == 0 && writes ? check(state, target->sync(target->context), "sync") : rc;
}

static int small_files(struct state *state, const char *folder)
{
	const struct g4_bench_target *target = state->target;
	char path[PATH_BYTES];
	int rc = check(state, target->mkdir(target->context, folder), "mkdir");

	snprintf(path, sizeof(path), "%s/file-0", folder);
	for (int writes = 1; writes >= 0 && rc == 0; writes--) {
		double seconds = 0, cpu = 0;
		if (!writes)
			rc = check(state, target->drop_caches(target->context, path), "drop caches");
		if (rc == 0)
			rc = start(state);
		if (rc == 0)
			rc = pass_small(state, folder, writes);
		if (rc == 0)
			rc = stop(state, &seconds, &cpu);
		if (rc == 0)
			report(state, writes ? "small_write" : "small_read", "ops/s", state->options->files / seconds,
			       cpu);
	}
	for (uint32_t i = 0; i < state->options->files && rc == 0; i++) {
		snprintf(path, sizeof(path), "%s/file-%u", folder, i);
		rc = check(state, target->unlink(target->context, path), "unlink");
	}
	return rc < 0 ? rc : check(state, target->rmdir(target->context, folder), "rmdir");
}

static int read_pages(struct state *state, void *file, const uint32_t *order, uint32_t count)
{
	double seconds = 0, cpu = 0;
	int rc = start(state);

	for (uint32_t i = 0; i < count && rc == 0; i++) {
		rc = read_at(state, file, PAGE, order[i] * PAGE);
		if (rc == 0 && (i + 1) % STEP == 0)
			rc = step(state, STEP);
	}
	if (rc == 0)
		rc = stop(state, &seconds, &cpu);
	if (rc == 0)
		report(state, "rand_read_4k", "MB/s", (double)count * PAGE / 1e6 / seconds, cpu);
	return rc;
}

static int write_pages(struct state *state, void *file, const uint32_t *order, uint32_t count)
{
	double seconds = 0, cpu = 0;
	int rc = start(state);

	for (uint32_t i = 0; i < count && rc == 0; i++) {
		rc = write_at(state, file, PAGE, order[i] * PAGE);
		if (rc == 0 && (i + 1) % STEP == 0)
			rc = step(state, STEP);
	}
	if (rc == 0)
		rc = check(state, state->target->fsync(file), "fsync");
	if (rc == 0)
		rc = stop(state, &seconds, &cpu);
	if (rc == 0)
		report(state, "rand_write_4k", "MB/s", (double)count * PAGE / 1e6 / seconds, cpu);
	return rc;
}

static uint32_t random_count(const struct g4_bench_options *options)
{
	return (uint32_t)g4_min64(options->random_ops, options->file_bytes / PAGE);
}

static int random_pages(struct state *state, const char *path)
{
	uint32_t pages = (uint32_t)(state->options->file_bytes / PAGE), count = random_count(state->options), *order;
	void *file = NULL;
	int rc = shuffle(state, pages, &order);

	if (rc < 0)
		return rc;
	rc = check(state, state->target->drop_caches(state->target->context, path), "drop caches");
	if (rc == 0)
		rc = open_file(state, path, 0, &file);
	if (rc == 0) {
		rc = read_pages(state, file, order, count);
		if (rc == 0)
			rc = write_pages(state, file, order, count);
		rc = close_file(state, file, rc);
	}
	free(order);
	return rc;
}

static int fsyncs(struct state *state, const char *path)
{
	uint32_t count = state->options->fsyncs;
	uint64_t pages = state->options->file_bytes / PAGE, *latency;
	double seconds = 0, cpu = 0;
	void *file = NULL;
	int rc = allocate(state, count * sizeof(*latency), &latency);

	if (rc < 0)
		return rc;
	rc = open_file(state, path, 0, &file);
	if (rc < 0) {
		free(latency);
		return rc;
	}
	rc = start(state);
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		rc = write_at(state, file, PAGE, next_random(&state->random) % pages * PAGE);
		uint64_t before = g4_clock_ns(CLOCK_MONOTONIC);
		if (rc == 0)
			rc = check(state, state->target->fsync(file), "fsync");
		latency[i] = g4_clock_ns(CLOCK_MONOTONIC) - before;
		if (rc == 0)
			rc = step(state, STEP);
	}
	if (rc == 0)
		rc = stop(state, &seconds, &cpu);
	rc = close_file(state, file, rc);
	if (rc == 0) {
		qsort(latency, count, sizeof(*latency), compare_ns);
		const uint64_t half = latency[count / 2], most = latency[(uint64_t)count * 99 / 100];
		report(state, "fsync_p50", "us", (double)half / 1e3, cpu);
		report(state, "fsync_p99", "us", (double)most / 1e3, cpu);
	}
	free(latency);
	return rc;
}

/* ------------------------------------------------------------------ all of it */

static struct g4_bench_options warm_up_options(const struct g4_bench_options *full)
{
	struct g4_bench_options small = *full;

	small.dirs = full->dirs / 4 + 1;
	small.passes = 1;
	small.cached_reads = full->cached_reads / 8 + 1;
	return small;
}

/*
 * A little of everything, unreported: the first use of memory (the kernel's slabs as well as the page cache in-process)
 * and of code is not what anybody measures.
 */
static int warm_up(struct state *state)
{
	const struct g4_bench_options *full = state->options, small = warm_up_options(full);

	state->options = &small;
	state->silent = true;
	int rc = metadata(state);
	if (rc == 0)
		rc = cached_reads(state, "warm");
	state->silent = false;
	state->options = full;
	return rc;
}

/* As step() counts them. */
static uint64_t metadata_steps(const struct g4_bench_options *options)
{
	return (uint64_t)options->dirs * options->files / STEP * STEP * (OPERATIONS + G4_BENCH_MANY_KINDS) *
	       options->passes;
}

static uint64_t cached_steps(const struct g4_bench_options *options)
{
	return (cached_file_bytes(options) / MIB * 2 + options->cached_reads / CACHED_STEP) * STEP;
}

static uint64_t all_steps(const struct g4_bench_options *options)
{
	const struct g4_bench_options warm = warm_up_options(options);

	return metadata_steps(&warm) + cached_steps(&warm) + metadata_steps(options) + cached_steps(options) +
	       options->file_bytes / MIB * (1 + SEQUENTIAL_READS) * STEP + random_count(options) / STEP * STEP * 2 +
	       (uint64_t)options->fsyncs * STEP + UINT64_C(2) * STEP + options->files / STEP * STEP * UINT64_C(2);
}

uint64_t g4_bench_space(const struct g4_bench_options *options)
{
	uint64_t files = (uint64_t)options->dirs * options->files;

	/* a new inode and its name take less than 1 KiB anywhere; new pages come before the old ones are free */
	return options->file_bytes + g4_max64(cached_file_bytes(options), 2 * PAGE * random_count(options)) +
	       files * 1024 + options->dirs * 8 * PAGE + deep_levels(options) * 2 * PAGE +
	       options->files * (SMALL_PAGES + 1) * PAGE + 2 * MIB;
}

bool g4_bench_name(char name[G4_BENCH_NAME_BYTES])
{
	char text[G4_UUID_TEXT_BYTES];
	uint8_t uuid[16];

	if (g4_uuid_random(uuid) != 0)
		return false;
	snprintf(name, G4_BENCH_NAME_BYTES, ".gpu4fs-bench-%s", g4_uuid_format(uuid, text));
	return true;
}

static int run_all(struct state *state)
{
	int (*const parts[])(struct state *, const char *) = {deep,	    sequential, cached_reads,
							      random_pages, fsyncs,	small_files};
	const char *const paths[] = {"deep", "data", "cached", "data", "data", "small"};
	int rc = warm_up(state);

	if (rc == 0)
		rc = metadata(state);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && rc == 0; i++)
		rc = parts[i](state, paths[i]);
	return rc;
}

int g4_bench_run(const struct g4_bench_target *target, const struct g4_bench_options *options,
		 const struct g4_bench_events *events, char *message, size_t bytes)
{
	struct state state = {.target = target,
			      .options = options,
			      .events = events,
			      .message = message,
			      .message_bytes = bytes,
			      .random = 20240229,
			      .total = all_steps(options)};
	int rc = allocate(&state, POOL_BYTES, &state.pool);

	if (rc == 0)
		rc = allocate(&state, MIB, &state.buffer);
	if (rc == 0) {
		for (uint64_t at = 0; at < POOL_BYTES; at += sizeof(uint64_t)) {
			uint64_t word = next_random(&state.random);

			memcpy(state.pool + at, &word, sizeof(word));
		}
		rc = run_all(&state);
	}
	free(state.pool);
	free(state.buffer);
	return rc;
}
