/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the CUDA engine costs and gives: rings, metadata and data, from host clients and from kernels. Clients here
 * write slots by hand, so that the figures are the engine's and not a client library's.
 *
 * Usage: gpu_bench [-s SMS] [-d DEVICE] [-c CACHE_MIB] [-t TIER_MIB] [-f MIB of each of 64 files] [-k CHECKSUM] [-u] [-n NAMES] [-l BYTES]
 *                  [-r RAID LEVEL of DEVICE,DEVICE...] [-g GIB of each device] [-p KIB of each stripe]
 *		   [-x DEVICE, an empty disk for `rebuild`, which has a set of copies or parity by -r; -m: mounted anew without the lost one] [-o FILE.json] [NAME]...
 *	default: all, without sums; names as in the table at the end. With -k names of rows end with the checksum's. -u: what is written is
 *	deduplicated. forest: 16 384 directories of NAMES files (64; 640: 10 million), whose names are of BYTES (9; at most 255).
 *	pipeline, insert: the deduplication document's figures 6.5 to 6.13 (-u);
 *	list: a directory of a million files; clear: it is removed as `rm -r` does, and so is a tree of a thousand of a thousand
 *
 * cpu_seconds of a row are the engine's: the clients' own, who poll, are beside them, and so is what the whole machine
 * was busy with meanwhile (kernel threads, too).
 */
#include <getopt.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "dev/dev_host.h"
#include "engine/engine.h"
#include "fs/mkfs_host.h"
#include "fs/policy.h"
#include "gpu/cpu_use.h"
#include "gpu/cuda_host.h"
#include "gpu/gpu.h"
#include "gpu/gpu_bench.h"
#include "ring/client_host.h"
#include "ring/session_host.h"
#include "space/set_host.h"

#define CLIENTS 8u
#define ENTRIES 1024u
#define KERNEL_SMS 100u /* for kernels beside the engine */

static struct g4_engine *engine;
static bool in_host_memory;  /* "dax:", which has a target of its own */
static const char *checksum; /* NULL: none */
static uint32_t checksum_policy;
static bool deduplicates;
static FILE *json;
static int rows;
static uint32_t sms;		 /* 0: as many as there are */
static const char *raid;	 /* NULL: one device */
static const char *device_names; /* with commas between them */
static const char *spare_name;	 /* NULL: there is none */
static bool remounts;		 /* before it is made again */
static uint64_t disk_bytes = 72 * G4_GIB;
static uint64_t cache_bytes = 8 * G4_GIB, tier_bytes;
static uint64_t stripe_bytes; /* 0: what mkfs takes */

static struct g4_mount_options mount_options(void)
{
	return (struct g4_mount_options){
		.cache_bytes = cache_bytes, .tier_bytes = tier_bytes, .kind = G4_ENGINE_CUDA, .sms = sms};
}

static void must(int rc, const char *what)
{
	if (rc == 0)
		return;
	fprintf(stderr, "gpu_bench: %s: %s\n", what, rc < 0 ? g4_strerror(rc) : "failed");
	exit(1);
}

static double clients_cpu;	/* of all clients so far: what is left is the engine's */
static struct cpu_use measured; /* what the next row is about; own: the clients' */

static double thread_cpu(void);

static struct cpu_use begin_measuring(void)
{
	struct cpu_use begin = cpu_use_now();

	begin.own = thread_cpu(); /* this thread polls, or waits in CUDA: a client */
	return begin;
}

static void end_measuring(const struct cpu_use *begin, double other_clients)
{
	measured = cpu_use_since(begin);
	measured.own = thread_cpu() - begin->own;
	clients_cpu += measured.own;
	measured.own += other_clients;
}

static double cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
	       ((double)usage.ru_utime.tv_usec + (double)usage.ru_stime.tv_usec) / 1e6 - clients_cpu;
}

/* more: whether more is better. target 0: none. */
static void report(const char *metric, const char *unit, double value, double target, bool more, double cpu)
{
	bool met = target == 0 || (more ? value >= target : value <= target);
	char named[96];

	if (checksum) {
		snprintf(named, sizeof(named), "%s, %s", metric, checksum);
		metric = named;
	}
	printf("%-44s %14.3f %-8s target %10.3f %-4s cpu %.3f s", metric, value, unit, target,
	       target == 0 ? "-" :
	       met	   ? "yes" :
			     "no",
	       cpu);
	if (measured.wall > 0)
		printf(", cores: %.3f engine, %.1f clients, %.1f all", cpu / measured.wall,
		       measured.own / measured.wall, measured.busy / measured.wall);
	putchar('\n');
	fflush(stdout);
	if (json) {
		fprintf(json,
			"%s\n  {\"bench\": \"gpu\", \"engine\": \"cuda\", \"metric\": \"%s\", \"unit\": \"%s\", \"ours\": %.6g, "
			"\"peers\": {}, ",
			rows++ ? "," : "", metric, unit, value);
		if (target == 0)
			fputs("\"target\": null, \"met\": null, ", json);
		else
			fprintf(json, "\"target\": {\"%s\": %.6g}, \"met\": %s, ", more ? "at_least" : "at_most",
				target, met ? "true" : "false");
		fprintf(json,
			"\"seconds\": %.4f, \"cpu_seconds\": %.4f, \"clients_cpu_seconds\": %.4f, "
			"\"busy_seconds\": %.4f}",
			measured.wall, cpu, measured.own, measured.busy);
		fflush(json); /* rows outlive a crash */
	}
	measured = (struct cpu_use){0};
}

/* ------------------------------------------------------------------ clients by hand */

struct hand {
	struct g4_session_host *session;
	uint8_t *data;
	struct g4_ring_header *header;
	uint32_t next, done; /* numbers: of the next command, of the last whose result was taken */
	uint64_t errors;
	int doorbell;
};

static void open_hand(struct hand *h, uint64_t data_bytes)
{
	const struct g4_session_options options = {.cred = {.umask = 022},
						   .flags = G4_SESSION_MAY_ACT | G4_SESSION_IN_PROCESS,
						   .entries = ENTRIES,
						   .data_bytes = data_bytes};

	must(g4_session_open(g4_engine_sessions(engine), &options, &h->session), "a port");
	h->header = g4_session_ring(h->session);
	h->data = g4_session_data(h->session);
	h->next = 1;
	h->done = 0;
	h->errors = 0;
}

/* The kernel may be asleep: wakes it by a command of the process's own ring. */
static void wake_kernel(void)
{
	struct g4_cmd nop = {.op = G4_CMD_NOP};

	must(g4_engine_execute(engine, &nop), "waking the kernel");
}

static void post(struct hand *h, const struct g4_ring_slot *slot)
{
	*g4_ring_slot_of(h->header, ENTRIES, h->next) = *slot;
	h->next++;
}

static void publish(struct hand *h)
{
	g4_store32_rel(&h->header->tail, h->next - 1);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (g4_load32_acq(&h->header->engine_waits) != G4_RING_AWAKE)
		g4_session_rung(h->session);
}

static bool has(const struct hand *h, uint32_t number, uint64_t *word)
{
	*word = g4_load64_acq(&g4_ring_result_of(h->header, ENTRIES, number)->word);
	return (*word & G4_RING_NUMBER_MASK) == number;
}

/* The result is taken. */
static void await(struct hand *h, uint32_t number, struct g4_ring_result *taken)
{
	struct g4_ring_result *result = g4_ring_result_of(h->header, ENTRIES, number);
	uint64_t word;

	while (!has(h, number, &word))
		__builtin_ia32_pause();
	if ((int32_t)(word >> 32) < 0) {
		if (h->errors++ == 0)
			fprintf(stderr, "gpu_bench: a command failed: %s\n", g4_strerror((int32_t)(word >> 32)));
	}
	while ((word & G4_RING_WORD_FULL) && !g4_ring_result_take(result, taken))
		__builtin_ia32_pause();
}

static struct g4_ring_slot command(uint32_t op)
{
	return (struct g4_ring_slot){
		.command = {.op = op, .node = G4_NODE_ROOT, .umask = 022, .text_at = G4_RING_TEXT_INLINE}};
}

static void set_name(struct g4_ring_slot *slot, const char *name)
{
	slot->command.name_bytes = (uint16_t)strlen(name);
	memcpy(slot->text, name, slot->command.name_bytes);
}

static int run_one(struct hand *h, const struct g4_ring_slot *slot, struct g4_ring_result *result)
{
	uint64_t word;

	post(h, slot);
	publish(h);
	await(h, h->next - 1, result);
	has(h, h->next - 1, &word);
	h->done = h->next - 1;
	int32_t small = (int32_t)(word >> 32);
	return small < 0 ? small : 0;
}

static uint64_t make_directory(struct hand *h, const char *name)
{
	struct g4_ring_slot slot = command(G4_CMD_MKDIR);
	struct g4_ring_result result;

	set_name(&slot, name);
	slot.command.mode = 0755;
	slot.command.wants_attr = 1;
	must(run_one(h, &slot, &result), name);
	return result.attr.ino;
}

static uint64_t open_file(struct hand *h, uint64_t directory, const char *name, uint64_t *ino)
{
	struct g4_ring_slot slot = command(G4_CMD_CREATE);
	struct g4_ring_result result;

	set_name(&slot, name);
	slot.command.node = directory;
	slot.command.mode = S_IFREG | 0644;
	slot.command.flags = G4_OPEN_READ | G4_OPEN_WRITE;
	slot.command.wants_attr = 1;
	must(run_one(h, &slot, &result), name);
	if (ino)
		*ino = result.attr.ino;
	return result.handle;
}

/* ------------------------------------------------------------------ many clients, many commands */

#define MOST_NODES 1024

struct load;
typedef void fill_slot(struct load *load, struct g4_ring_slot *slot, uint64_t i);

struct load { /* of one client */
	struct hand hand;
	fill_slot *fill;
	struct g4_ring_slot slot;
	uint64_t count;
	uint32_t depth;
	uint32_t index;
	uint64_t nodes[MOST_NODES];
	uint32_t node_count;
	uint64_t bytes;
	uint64_t salt;	/* dedup: of pages that are new, */
	uint32_t fresh; /* of so many one; 0: none */
	double cpu;	/* of the client's thread */
	pthread_t thread;
};

static double thread_cpu(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void *run_load(void *argument)
{
	struct load *load = argument;
	struct hand *h = &load->hand;
	uint64_t posted = 0, taken = 0;
	struct g4_ring_result result;

	while (taken < load->count) {
		uint64_t before = posted;
		while (posted < load->count && posted - taken < load->depth) {
			if (load->fill)
				load->fill(load, &load->slot, posted);
			post(h, &load->slot);
			posted++;
		}
		if (posted != before)
			publish(h);
		/* takes what is there, at least one */
		uint64_t word;
		await(h, ++h->done, &result);
		taken++;
		while (taken < posted && has(h, h->done + 1, &word)) {
			await(h, ++h->done, &result);
			taken++;
		}
	}
	load->cpu = thread_cpu();
	return NULL;
}

static double run_loads(struct load *loads, uint32_t clients)
{
	uint64_t errors = 0;
	double others = 0;

	wake_kernel();
	const struct cpu_use begin = begin_measuring();
	for (uint32_t i = 0; i < clients; i++)
		must(pthread_create(&loads[i].thread, NULL, run_load, &loads[i]), "a thread");
	for (uint32_t i = 0; i < clients; i++) {
		pthread_join(loads[i].thread, NULL);
		errors += loads[i].hand.errors;
		clients_cpu += loads[i].cpu;
		others += loads[i].cpu;
	}
	end_measuring(&begin, others);
	if (errors)
		fprintf(stderr, "gpu_bench: %llu commands failed\n", (unsigned long long)errors);
	return measured.wall;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void latency(struct hand *h, const struct g4_ring_slot *slot, uint32_t count, uint64_t *p50, uint64_t *p99)
{
	uint64_t *ns = malloc(count * sizeof(*ns));
	struct g4_ring_result result;

	wake_kernel();
	const struct cpu_use start = begin_measuring();
	for (uint32_t i = 0; i < count; i++) {
		uint64_t begin = g4_monotonic_ns();
		run_one(h, slot, &result);
		ns[i] = g4_monotonic_ns() - begin;
	}
	end_measuring(&start, 0);
	qsort(ns, count, sizeof(*ns), by_value);
	*p50 = ns[count / 2];
	*p99 = ns[count * 99ull / 100];
	free(ns);
}

/* ------------------------------------------------------------------ the benchmarks */

static void open_loads(struct load *loads, uint32_t clients, uint64_t data_bytes)
{
	memset(loads, 0, clients * sizeof(*loads));
	for (uint32_t i = 0; i < clients; i++) {
		loads[i].index = i;
		loads[i].depth = ENTRIES / 2;
		open_hand(&loads[i].hand, data_bytes);
	}
}

static void close_loads(struct load *loads, uint32_t clients)
{
	for (uint32_t i = 0; i < clients; i++)
		g4_session_shut(loads[i].hand.session);
}

static void bench_null(void)
{
	struct load loads[CLIENTS];
	uint64_t p50, p99;
	double cpu = cpu_seconds();

	open_loads(loads, CLIENTS, 0);
	const struct g4_ring_slot nop = command(G4_CMD_NOP);
	latency(&loads[0].hand, &nop, 20000, &p50, &p99);
	report("null command, depth 1, p50", "us", (double)p50 / 1e3, 5.5, false, cpu_seconds() - cpu);
	report("null command, depth 1, p99", "us", (double)p99 / 1e3, 8, false, 0);
	for (uint32_t clients = 1; clients <= CLIENTS; clients *= 8) {
		for (uint32_t i = 0; i < clients; i++) {
			loads[i].slot = nop;
			loads[i].count = 4000000;
		}
		cpu = cpu_seconds();
		double seconds = run_loads(loads, clients);
		report(clients == 1 ? "null commands, 1 client" : "null commands, 8 clients", "M/s",
		       4.0 * clients / seconds, clients == 1 ? 0 : 100, true, cpu_seconds() - cpu);
	}
	close_loads(loads, CLIENTS);
}

static void fill_stat(struct load *load, struct g4_ring_slot *slot, uint64_t i)
{
	char name[32];

	snprintf(name, sizeof(name), "s%u/f%u", load->index, (unsigned)(i * 7 % 64));
	set_name(slot, name);
}

static void bench_stat(void)
{
	struct load loads[CLIENTS];
	uint64_t p50, p99;
	char name[32];
	double cpu;

	open_loads(loads, CLIENTS, 0);
	for (uint32_t c = 0; c < CLIENTS; c++) {
		snprintf(name, sizeof(name), "s%u", c);
		uint64_t directory = make_directory(&loads[c].hand, name);
		for (int f = 0; f < 64; f++) {
			struct g4_ring_slot slot = command(G4_CMD_MKNOD);
			struct g4_ring_result result;
			snprintf(name, sizeof(name), "f%d", f);
			set_name(&slot, name);
			slot.command.node = directory;
			slot.command.mode = S_IFREG | 0644;
			must(run_one(&loads[c].hand, &slot, &result), name);
		}
		loads[c].slot = command(G4_CMD_RESOLVE);
		loads[c].slot.command.wants_attr = 1;
		loads[c].fill = fill_stat;
		loads[c].count = 1000000;
	}
	cpu = cpu_seconds();
	fill_stat(&loads[0], &loads[0].slot, 5);
	latency(&loads[0].hand, &loads[0].slot, 20000, &p50, &p99);
	report("stat of a cached path, depth 1, p50", "us", (double)p50 / 1e3, 10, false, cpu_seconds() - cpu);
	report("stat of a cached path, depth 1, p99", "us", (double)p99 / 1e3, 0, false, 0);
	cpu = cpu_seconds();
	double seconds = run_loads(loads, CLIENTS);
	report("stat of a cached path, 8 clients", "M/s", CLIENTS / seconds, 20, true, cpu_seconds() - cpu);
	close_loads(loads, CLIENTS);
}

static void fill_make(struct load *load, struct g4_ring_slot *slot, uint64_t i)
{
	char name[32];

	snprintf(name, sizeof(name), "n%llu", (unsigned long long)i);
	set_name(slot, name);
	slot->command.node = load->nodes[i % load->node_count];
}

/* Makers in one directory wait for each other. */
static void make_in(const char *metric, char prefix, uint32_t directories, uint64_t files, double target)
{
	struct load loads[CLIENTS];
	char name[32];

	open_loads(loads, CLIENTS, 0);
	for (uint32_t c = 0; c < CLIENTS; c++) {
		loads[c].node_count = directories / CLIENTS;
		for (uint32_t d = 0; d < loads[c].node_count; d++) {
			snprintf(name, sizeof(name), "%c%u.%u", prefix, c, d);
			loads[c].nodes[d] = make_directory(&loads[c].hand, name);
		}
		loads[c].slot = command(G4_CMD_MKNOD);
		loads[c].slot.command.mode = S_IFREG | 0644;
		loads[c].fill = fill_make;
		loads[c].count = files / CLIENTS;
	}
	double cpu = cpu_seconds();
	double seconds = run_loads(loads, CLIENTS);
	report(metric, "M/s", (double)files / 1e6 / seconds, target, true, cpu_seconds() - cpu);
	close_loads(loads, CLIENTS);
}

static void bench_make(void)
{
	make_in("create in 512 directories, 8 clients", 'm', 512, 480000, 0);
	make_in("create in many directories, 8 clients", 'n', CLIENTS * MOST_NODES, 1600000, 5);
}

/* ------------------------------------------------------------------ data */

#define FILES 64u
#define PIECE (2 * G4_MIB)
#define STREAM_DEPTH 16u

static uint64_t file_bytes = G4_GIB;

static void stream_name(char *name, size_t bytes, const char *verb)
{
	if (file_bytes % G4_GIB == 0)
		snprintf(name, bytes, "%s %u files of %u GiB", verb, FILES, (unsigned)(file_bytes / G4_GIB));
	else
		snprintf(name, bytes, "%s %u files of %u MiB", verb, FILES, (unsigned)(file_bytes / G4_MIB));
}

static void fill_stream(struct load *load, struct g4_ring_slot *slot, uint64_t i)
{
	/* the files of a client in turn, as a program does that writes them side by side */
	slot->command.handle = load->nodes[i % load->bytes];
	slot->command.node = 0;
	slot->command.offset = i / load->bytes * PIECE;
	slot->command.length = PIECE;
	slot->command.data = i % (2 * STREAM_DEPTH) * PIECE;
}

/*
 * What is wanted of a level over PCIe, which takes 52 GB/s: of writes that, divided by what is written for each byte, at 90 %, and of a rebuild by what is read
 * for each byte. Of other levels nothing is.
 */
static const struct wanted {
	const char *level;
	double written, rebuilt;
} wanted_levels[] = {{"0", 45, 0}, {"1", 23, 40}, {"5", 35, 16}, {"6", 31, 12}};

static struct wanted wanted(void)
{
	for (uint32_t l = 0; raid && l < sizeof(wanted_levels) / sizeof(wanted_levels[0]); l++)
		if (strcmp(raid, wanted_levels[l].level) == 0)
			return wanted_levels[l];
	return (struct wanted){NULL, raid ? 0 : in_host_memory ? 40 : 45, 0};
}

static void bench_stream(void)
{
	struct load loads[CLIENTS];
	char name[48];
	double cpu, seconds;

	open_loads(loads, CLIENTS, 2 * STREAM_DEPTH * PIECE);
	for (uint32_t c = 0; c < CLIENTS; c++) {
		loads[c].bytes = FILES / CLIENTS;
		for (uint32_t f = 0; f < FILES / CLIENTS; f++) {
			snprintf(name, sizeof(name), "big%u.%u", c, f);
			loads[c].nodes[f] = open_file(&loads[c].hand, G4_NODE_ROOT, name, NULL);
		}
		for (uint64_t k = 0; k < 2 * STREAM_DEPTH * PIECE / 8; k++)
			((uint64_t *)loads[c].hand.data)[k] = k * 0x9e3779b97f4a7c15 + c;
		loads[c].slot = command(G4_CMD_WRITE);
		loads[c].fill = fill_stream;
		loads[c].depth = STREAM_DEPTH;
		loads[c].count = FILES / CLIENTS * file_bytes / PIECE;
	}
	cpu = cpu_seconds();
	seconds = run_loads(loads, CLIENTS);
	stream_name(name, sizeof(name), "write");
	report(name, "GB/s", FILES * (double)file_bytes / 1e9 / seconds, wanted().written, true, cpu_seconds() - cpu);
	for (uint32_t depth = STREAM_DEPTH; depth > 0; depth /= 4) {
		for (uint32_t c = 0; c < CLIENTS; c++) {
			loads[c].slot = command(G4_CMD_READ);
			loads[c].depth = depth;
		}
		cpu = cpu_seconds();
		seconds = run_loads(loads, CLIENTS);
		stream_name(name, sizeof(name), "read");
		snprintf(name + strlen(name), sizeof(name) - strlen(name), ", depth %u", depth);
		report(name, "GB/s", FILES * (double)file_bytes / 1e9 / seconds, in_host_memory ? 0 : 45, true,
		       cpu_seconds() - cpu);
	}
	/* what was read last is what was written there: the pieces repeat every 2 * STREAM_DEPTH */
	for (uint32_t c = 0; c < CLIENTS; c++)
		for (uint64_t k = 0; k < 2 * STREAM_DEPTH * PIECE / 8; k += 511)
			if (((uint64_t *)loads[c].hand.data)[k] != k * 0x9e3779b97f4a7c15 + c) {
				fprintf(stderr, "gpu_bench: client %u read something else than it wrote\n", c);
				exit(1);
			}
	close_loads(loads, CLIENTS);
}

/* ------------------------------------------------------------------ a disk that is lost, and made again */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* The newest job, as the engine tells it. */
static struct g4_job_record last_job(struct hand *h)
{
	struct g4_ring_slot list = command(G4_CMD_JOB_LIST);
	const struct g4_health *health = (const struct g4_health *)(const void *)h->data;
	struct g4_job_record last = {0};
	struct g4_ring_result result;

	list.command.data = 0;
	list.command.length = sizeof(*health);
	must(run_one(h, &list, &result), "asking for jobs");
	for (uint32_t i = 0; i < G4_JOBS; i++)
		if (health->jobs[i].number > last.number)
			last = health->jobs[i];
	return last;
}

#define LOST_READS 20000u /* of 4 KiB, a client */

static void fill_scattered(struct load *load, struct g4_ring_slot *slot, uint64_t i)
{
	const uint64_t x = mix(load->salt + i), pages = file_bytes / G4_PAGE_BYTES;

	slot->command.handle = load->nodes[x % load->bytes];
	slot->command.node = 0;
	slot->command.offset = (x >> 8) % pages * G4_PAGE_BYTES;
	slot->command.length = G4_PAGE_BYTES;
	slot->command.data = i % ENTRIES * G4_PAGE_BYTES;
}

struct reading { /* GB/s */
	double sequential, scattered;
};

/* target 0: none; else a share of what was read before. */
static struct reading read_both(struct load *loads, const char *when, const struct reading *before)
{
	struct reading is;
	char name[80];

	for (uint32_t c = 0; c < CLIENTS; c++) {
		loads[c].slot = command(G4_CMD_READ);
		loads[c].fill = fill_stream;
		loads[c].depth = 4;
		loads[c].count = FILES / CLIENTS * file_bytes / PIECE;
	}
	double cpu = cpu_seconds(), seconds = run_loads(loads, CLIENTS);
	is.sequential = FILES * (double)file_bytes / 1e9 / seconds;
	snprintf(name, sizeof(name), "read, depth 4, %s", when);
	report(name, "GB/s", is.sequential, before ? 0.7 * before->sequential : 0, true, cpu_seconds() - cpu);
	for (uint32_t c = 0; c < CLIENTS; c++)
		for (uint64_t k = 0; k < 2 * STREAM_DEPTH * PIECE / 8; k += 511)
			if (((uint64_t *)loads[c].hand.data)[k] != k * 0x9e3779b97f4a7c15 + c) {
				fprintf(stderr, "gpu_bench: client %u read something else than it wrote, %s\n", c,
					when);
				exit(1);
			}
	for (uint32_t c = 0; c < CLIENTS; c++) {
		loads[c].fill = fill_scattered;
		loads[c].depth = ENTRIES / 2;
		loads[c].count = LOST_READS;
		loads[c].salt += CLIENTS * LOST_READS + c * LOST_READS;
	}
	cpu = cpu_seconds();
	seconds = run_loads(loads, CLIENTS);
	is.scattered = CLIENTS * LOST_READS * (double)G4_PAGE_BYTES / 1e9 / seconds;
	snprintf(name, sizeof(name), "4 KiB random read, %s", when);
	report(name, "GB/s", is.scattered, before ? 0.6 * before->scattered : 0, true, cpu_seconds() - cpu);
	return is;
}

static void order_disk(uint32_t order, const char *name)
{
	char text[256] = "";
	struct g4_cmd cmd = {.op = G4_CMD_DISK,
			     .mask = order,
			     .flags = order == G4_DISK_REPLACE ? G4_JOB_EAGER : 0,
			     .name = name,
			     .name_bytes = (uint16_t)strlen(name),
			     .data = text,
			     .length = sizeof(text)};

	if (g4_engine_execute(engine, &cmd) == 0)
		return;
	fprintf(stderr, "gpu_bench: an order about %s: %s\n", name, text);
	exit(1);
}

/* An empty device of the size that all have. */
static void make_spare(void)
{
	const struct g4_dev_open_options open = {.flags = G4_DEV_CREATE, .create_bytes = disk_bytes};
	char message[256] = "";
	struct g4_dev *dev;

	if (g4_dev_open(spare_name, &open, &dev, message, sizeof(message)) < 0) {
		fprintf(stderr, "gpu_bench: %s\n", message);
		exit(1);
	}
	g4_dev_close(dev);
}

/* Mounted anew without its first disks. */
static void mount_degraded(uint32_t without)
{
	const struct g4_set_options set = {.degraded = true};
	const char *rest = device_names;
	const struct g4_mount_options options = mount_options();
	char message[256] = "";
	struct g4_dev *dev;

	for (uint32_t d = 0; d < without; d++)
		rest = strchr(rest, ',') + 1;
	must(g4_engine_unmount(engine), "unmounting");
	if (g4_set_open(&rest, 1, &set, &dev, message, sizeof(message)) == 0 &&
	    g4_engine_mount_device(dev, &options, &engine, message, sizeof(message)) == 0)
		return;
	fprintf(stderr, "gpu_bench: %s\n", message);
	exit(1);
}

static void open_lost(struct load *loads)
{
	char name[32];

	open_loads(loads, CLIENTS, 2 * STREAM_DEPTH * PIECE);
	for (uint32_t c = 0; c < CLIENTS; c++) {
		loads[c].bytes = FILES / CLIENTS;
		for (uint32_t f = 0; f < FILES / CLIENTS; f++) {
			snprintf(name, sizeof(name), "lost%u.%u", c, f);
			loads[c].nodes[f] = open_file(&loads[c].hand, G4_NODE_ROOT, name, NULL);
		}
	}
}

/* Files of all clients, on the disks. */
static void write_lost(struct load *loads)
{
	open_lost(loads);
	for (uint32_t c = 0; c < CLIENTS; c++) {
		for (uint64_t k = 0; k < 2 * STREAM_DEPTH * PIECE / 8; k++)
			((uint64_t *)loads[c].hand.data)[k] = k * 0x9e3779b97f4a7c15 + c;
		loads[c].slot = command(G4_CMD_WRITE);
		loads[c].fill = fill_stream;
		loads[c].depth = STREAM_DEPTH;
		loads[c].count = FILES / CLIENTS * file_bytes / PIECE;
	}
	run_loads(loads, CLIENTS);
	struct g4_cmd sync = {.op = G4_CMD_SYNCFS};
	must(g4_engine_execute(engine, &sync), "syncing");
}

/* Reads of a set that is whole, and without as many disks as may be lost, up to two, which go one after the other; at last they are not there at the mount. */
static void bench_degraded(void)
{
	static const char *const whens[] = {"one disk lost", "two disks lost"};
	struct load loads[CLIENTS];
	uint32_t parity = 0;

	if (!raid || !device_names || !strchr(device_names, ',') || strcmp(raid, "0") == 0) {
		puts("degraded: without a set (-r) that bears it no disk can be done without");
		return;
	}
	const bool has_rows = g4_level_raid(g4_level_of(raid), &parity) == G4_RAID_PARITY;
	const uint32_t most = has_rows && parity > 1 ? 2 : 1;
	write_lost(loads);
	const struct reading whole = read_both(loads, "all disks", NULL);
	const char *at = device_names;
	for (uint32_t d = 0; d < most; d++) {
		char name[256];
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, ","), at);
		at += strcspn(at, ",") + 1;
		order_disk(G4_DISK_OFFLINE, name);
		read_both(loads, whens[d], &whole);
	}
	close_loads(loads, CLIENTS);
	mount_degraded(most);
	open_lost(loads);
	read_both(loads, "mounted without", &whole);
	close_loads(loads, CLIENTS);
}

/* Reads of a set that is whole, without its first disk, and with another one in its place; and how long that takes to be made. */
static void bench_rebuild(void)
{
	struct load loads[CLIENTS];
	char name[80], first[256];
	double cpu;

	if (!raid || !spare_name || !device_names) {
		puts("rebuild: without a set (-r) and a disk more (-x) there is nothing to be made again");
		return;
	}
	write_lost(loads);
	const struct reading whole = read_both(loads, "all disks", NULL);
	snprintf(first, sizeof(first), "%.*s", (int)strcspn(device_names, ","), device_names);
	make_spare();
	order_disk(G4_DISK_OFFLINE, first);
	read_both(loads, "one disk lost", &whole);
	if (remounts) {
		close_loads(loads, CLIENTS);
		mount_degraded(1);
		open_lost(loads);
	}
	wake_kernel();
	cpu = cpu_seconds();
	const struct cpu_use begin = begin_measuring();
	order_disk(G4_DISK_REPLACE, spare_name);
	struct g4_job_record job;
	while ((job = last_job(&loads[0].hand)).state == G4_JOB_RUNNING)
		usleep(2000);
	end_measuring(&begin, 0);
	must(job.state == G4_JOB_DONE && job.kind == G4_JOB_REBUILD ? 0 : 1, "the rebuild");
	snprintf(name, sizeof(name), "rebuild of %.2f GB, RAID %s, with its beginning", (double)job.bytes / 1e9, raid);
	const double all = measured.wall;
	report(name, "GB/s", (double)job.bytes / 1e9 / all, 0, true, cpu_seconds() - cpu);
	snprintf(name, sizeof(name), "rebuild, RAID %s", raid);
	report(name, "GB/s", (double)job.bytes / (double)job.run_ns, wanted().rebuilt, true, 0);
	read_both(loads, "made again", &whole);
	close_loads(loads, CLIENTS);
}

/* ------------------------------------------------------------------ pages that are there already */

/* What a page's first word is: another one for each page of all clients. */
static uint64_t number_of_page(const struct load *load, uint64_t i, uint64_t k)
{
	const uint64_t page = ((uint64_t)load->index * load->count + i) * (PIECE / G4_PAGE_BYTES) + k;
	const uint64_t pages = CLIENTS * load->count * (PIECE / G4_PAGE_BYTES);

	return mix(1 + page + (load->fresh && page % load->fresh == 0 ? load->salt * pages : 0));
}

/* A place in the data area is used again when the command that had it has ended. */
static void fill_numbered(struct load *load, struct g4_ring_slot *slot, uint64_t i)
{
	fill_stream(load, slot, i);
	for (uint64_t k = 0; k < PIECE / G4_PAGE_BYTES; k++)
		*(uint64_t *)(void *)(load->hand.data + slot->command.data + k * G4_PAGE_BYTES) =
			number_of_page(load, i, k);
}

static struct g4_dedup_counts dedup_counts(void)
{
	struct g4_dedup_counts counts = {0};
	struct g4_cmd cmd = {.op = G4_CMD_DEDUP, .mask = G4_DEDUP_STATS, .length = sizeof(counts), .data = &counts};

	must(g4_engine_execute(engine, &cmd), "counts of deduplication");
	return counts;
}

/* Of what was read last, the data area full. */
static void check_numbered(const struct load *load)
{
	const uint64_t first = load->count - g4_min64(load->count, 2 * STREAM_DEPTH);
	const uint64_t *data = (const uint64_t *)(const void *)load->hand.data;

	for (uint64_t i = first; i < load->count; i++) {
		for (uint64_t k = 0; k < PIECE / G4_PAGE_BYTES; k++) {
			const uint64_t at = (i % (2 * STREAM_DEPTH) * PIECE + k * G4_PAGE_BYTES) / 8;
			if (data[at] == number_of_page(load, i, k) &&
			    data[at + 511] == (at + 511) * 0x9e3779b97f4a7c15 + load->index)
				continue;
			fprintf(stderr, "gpu_bench: client %u read something else than it wrote\n", load->index);
			exit(1);
		}
	}
}

/* Writes new files and reads them; what was read last, the data area full, is compared. */
static void write_numbered(struct load *loads, uint32_t phase, const char *what, uint32_t fresh)
{
	const struct g4_dedup_counts before = dedup_counts();
	char name[80], metric[48];

	for (uint32_t c = 0; c < CLIENTS; c++) {
		for (uint32_t f = 0; f < FILES / CLIENTS; f++) {
			snprintf(name, sizeof(name), "dedup%u.%u.%u", phase, c, f);
			loads[c].nodes[f] = open_file(&loads[c].hand, G4_NODE_ROOT, name, NULL);
		}
		loads[c].slot = command(G4_CMD_WRITE);
		loads[c].fill = fill_numbered;
		loads[c].salt = phase;
		loads[c].fresh = fresh;
	}
	double cpu = cpu_seconds(), seconds = run_loads(loads, CLIENTS);
	stream_name(metric, sizeof(metric), "write");
	snprintf(name, sizeof(name), "%s, %s", metric, what);
	report(name, "GB/s", FILES * (double)file_bytes / 1e9 / seconds, in_host_memory ? 0 : 45, true,
	       cpu_seconds() - cpu);
	const struct g4_dedup_counts after = dedup_counts();
	printf("  of %llu pages %llu were there, %llu are listed\n",
	       (unsigned long long)(FILES * file_bytes / G4_PAGE_BYTES), (unsigned long long)(after.hits - before.hits),
	       (unsigned long long)(after.misses - before.misses));
	for (uint32_t c = 0; c < CLIENTS; c++) {
		loads[c].slot = command(G4_CMD_READ);
		loads[c].fill = fill_stream;
		memset(loads[c].hand.data, 0, 2 * STREAM_DEPTH * PIECE);
	}
	cpu = cpu_seconds();
	seconds = run_loads(loads, CLIENTS);
	stream_name(metric, sizeof(metric), "read");
	snprintf(name, sizeof(name), "%s, %s", metric, what);
	report(name, "GB/s", FILES * (double)file_bytes / 1e9 / seconds, 0, true, cpu_seconds() - cpu);
	for (uint32_t c = 0; c < CLIENTS; c++)
		check_numbered(&loads[c]);
}

/* Pages that are all different, the same in other files, and with one in ten that is new. */
static void bench_dedup(void)
{
	struct load loads[CLIENTS];

	if (!deduplicates) {
		puts("dedup: without -u nothing is looked for");
		return;
	}
	open_loads(loads, CLIENTS, 2 * STREAM_DEPTH * PIECE);
	for (uint32_t c = 0; c < CLIENTS; c++) {
		loads[c].bytes = FILES / CLIENTS;
		loads[c].depth = STREAM_DEPTH;
		loads[c].count = FILES / CLIENTS * file_bytes / PIECE;
		for (uint64_t k = 0; k < 2 * STREAM_DEPTH * PIECE / 8; k++)
			((uint64_t *)loads[c].hand.data)[k] = k * 0x9e3779b97f4a7c15 + c;
	}
	write_numbered(loads, 0, "new pages", 0);
	write_numbered(loads, 1, "known pages", 0);
	write_numbered(loads, 2, "nine in ten known", 10);
	close_loads(loads, CLIENTS);
}

#define ONE_BYTES (8 * G4_GIB)
#define ONE_PIECE (16 * G4_MIB)
#define ONE_PLACES 8u /* of the data area, in turn */

static void fill_one(struct load *load, struct g4_ring_slot *slot, uint64_t i)
{
	slot->command.handle = load->nodes[0];
	slot->command.node = 0;
	slot->command.offset = i * ONE_PIECE;
	slot->command.length = ONE_PIECE;
	slot->command.data = i % ONE_PLACES * ONE_PIECE;
}

static void remove_one(struct hand *h, uint64_t handle, const char *name)
{
	struct g4_ring_slot unlink = command(G4_CMD_UNLINK), release = command(G4_CMD_RELEASE);
	struct g4_ring_slot sync = command(G4_CMD_SYNCFS);
	struct g4_ring_result result;

	set_name(&unlink, name);
	must(run_one(h, &unlink, &result), name);
	release.command.node = 0;
	release.command.handle = handle;
	must(run_one(h, &release, &result), name);
	must(run_one(h, &sync, &result), "syncing"); /* so that the space is free */
}

/* ------------------------------------------------------------------ the deduplication document's figures 6.7 to 6.13 */

enum pipeline_pages { PIPELINE_ALONE, PIPELINE_NEW, PIPELINE_KNOWN, PIPELINE_KINDS };
#define PIPELINE_BYTES (64 * G4_MIB) /* of smaller files so many are written that they are about as much, */
#define PIPELINE_MOST 128u	     /* at most so many */
#define PIPELINE_FILES 8u

struct pipeline { /* files of one size that one client writes, one after the other, each to its fsync */
	struct load *load;
	uint64_t size;
	uint32_t files;
	enum pipeline_pages pages;
	uint64_t first; /* numbers of its pages are from here on */
	double seconds;
	pthread_t thread;
};

static void pipeline_write(struct load *load, uint64_t node, uint64_t bytes, uint64_t number, bool alone)
{
	const uint64_t pieces = (bytes + PIECE - 1) / PIECE;
	struct hand *h = &load->hand;
	struct g4_ring_slot slot = command(G4_CMD_WRITE), sync = command(G4_CMD_FSYNC);
	struct g4_ring_result result;
	uint64_t posted = 0;

	slot.command.node = sync.command.node = 0;
	slot.command.handle = sync.command.handle = node;
	slot.command.flags = alone ? G4_WRITE_NODEDUP : 0;
	for (uint64_t taken = 0; taken < pieces; taken++) {
		const uint64_t before = posted;
		while (posted < pieces && posted - taken < STREAM_DEPTH) {
			slot.command.offset = posted * PIECE;
			slot.command.length = g4_min64(bytes - slot.command.offset, PIECE);
			slot.command.data = posted % (2 * STREAM_DEPTH) * PIECE;
			for (uint64_t at = 0; at < slot.command.length; at += G4_PAGE_BYTES)
				*(uint64_t *)(void *)(h->data + slot.command.data + at) = mix(1 + number++);
			post(h, &slot);
			posted++;
		}
		if (posted != before)
			publish(h);
		await(h, ++h->done, &result);
	}
	must(run_one(h, &sync, &result), "fsync");
}

static void *pipeline_run(void *argument)
{
	struct pipeline *p = argument;
	const uint64_t start = g4_monotonic_ns();

	for (uint32_t f = 0; f < p->files; f++)
		pipeline_write(p->load, p->load->nodes[f], p->size, p->first + f * (p->size / G4_PAGE_BYTES),
			       p->pages == PIPELINE_ALONE);
	p->seconds = (double)(g4_monotonic_ns() - start) / 1e9;
	return NULL;
}

static void pipeline_remove(struct load *load, uint32_t files, uint64_t round)
{
	char name[48];

	for (uint32_t f = 0; f < files; f++) {
		snprintf(name, sizeof(name), "pipeline%u.%u.%llu", load->index, f, (unsigned long long)round);
		remove_one(&load->hand, load->nodes[f], name);
	}
}

/*
 * So many clients, each with files of one size. New pages are other ones each time; those that are known are of files that are there still.
 * Alone: they are not looked for, but they have their sums.
 */
static void pipeline_of(struct load *loads, uint32_t clients, uint64_t size)
{
	static const char *const names[PIPELINE_KINDS] = {"not looked for", "new pages", "known pages"};
	static uint64_t number = UINT64_C(1) << 40, round; /* pages that no other benchmark has */
	const uint32_t files = (uint32_t)g4_max64(1, g4_min64(PIPELINE_BYTES / clients / size, PIPELINE_MOST));
	const uint64_t pages = files * size / G4_PAGE_BYTES;
	struct pipeline p[PIPELINE_FILES];
	uint64_t found[PIPELINE_KINDS], rounds[PIPELINE_KINDS];
	char name[96], text[24];

	snprintf(text, sizeof(text), size < G4_MIB ? "%llu KiB" : "%llu MiB",
		 (unsigned long long)(size < G4_MIB ? size / 1024 : size / G4_MIB));
	for (uint32_t kind = 0; kind < PIPELINE_KINDS; kind++) {
		const uint64_t before = dedup_counts().hits;
		double all = 0;
		rounds[kind] = round++;
		for (uint32_t c = 0; c < clients; c++) {
			for (uint32_t f = 0; f < files; f++) {
				snprintf(name, sizeof(name), "pipeline%u.%u.%llu", c, f,
					 (unsigned long long)rounds[kind]);
				loads[c].nodes[f] = open_file(&loads[c].hand, G4_NODE_ROOT, name, NULL);
			}
			p[c] = (struct pipeline){.load = &loads[c],
						 .size = size,
						 .files = files,
						 .pages = kind,
						 .first = number + c * pages};
		}
		wake_kernel();
		const struct cpu_use begin = begin_measuring();
		if (clients == 1) { /* a thread takes as long to begin as a small file to be written */
			pipeline_run(&p[0]);
			all = p[0].seconds;
		}
		for (uint32_t c = 0; clients > 1 && c < clients; c++)
			must(pthread_create(&p[c].thread, NULL, pipeline_run, &p[c]), "a thread");
		for (uint32_t c = 0; clients > 1 && c < clients; c++) {
			pthread_join(p[c].thread, NULL);
			all = p[c].seconds > all ? p[c].seconds : all;
		}
		end_measuring(&begin, 0);
		found[kind] = dedup_counts().hits - before;
		if (kind != PIPELINE_NEW) /* what is looked for next is what was new */
			number += clients * pages;
		snprintf(name, sizeof(name), "pipeline, %u file%s of %s, %s", clients,
			 clients == 1 ? "" : "s side by side", text, names[kind]);
		report(name, "GB/s", (double)(clients * pages) * G4_PAGE_BYTES / 1e9 / all, 0, true, 0);
		for (uint32_t c = 0; kind == PIPELINE_ALONE && c < clients; c++)
			pipeline_remove(&loads[c], files, rounds[kind]);
	}
	if (found[PIPELINE_ALONE] || found[PIPELINE_NEW] || found[PIPELINE_KNOWN] != clients * pages)
		printf("  of %llu pages %llu, %llu and %llu were found\n", (unsigned long long)(clients * pages),
		       (unsigned long long)found[0], (unsigned long long)found[1], (unsigned long long)found[2]);
}

/* One file by its size, eight side by side, and more and more of 64 MiB at a time. */
static void bench_pipeline(void)
{
	struct load loads[PIPELINE_FILES];

	if (!deduplicates) {
		puts("pipeline: without -u nothing is looked for");
		return;
	}
	open_loads(loads, PIPELINE_FILES, 2 * STREAM_DEPTH * PIECE);
	for (uint32_t c = 0; c < PIPELINE_FILES; c++)
		for (uint64_t k = 0; k < 2 * STREAM_DEPTH * PIECE / 8; k++)
			((uint64_t *)loads[c].hand.data)[k] = k * 0x9e3779b97f4a7c15;
	for (uint64_t bytes = 4096; bytes <= G4_GIB; bytes *= 4)
		pipeline_of(loads, 1, bytes);
	for (uint64_t bytes = 65536; bytes <= 256 * G4_MIB; bytes *= 4)
		pipeline_of(loads, PIPELINE_FILES, bytes);
	for (uint32_t files = 1; files <= PIPELINE_FILES; files++)
		pipeline_of(loads, files, 64 * G4_MIB);
	close_loads(loads, PIPELINE_FILES);
}

/* One stream: what many warps make of one command. */
static void bench_one(void)
{
	static const uint32_t ops[] = {G4_CMD_WRITE, G4_CMD_READ};
	struct load load;
	uint64_t words = ONE_PLACES * ONE_PIECE / 8;
	char name[80];

	open_loads(&load, 1, ONE_PLACES * ONE_PIECE);
	uint64_t *data = (uint64_t *)load.hand.data;
	load.nodes[0] = open_file(&load.hand, G4_NODE_ROOT, "one", NULL);
	load.fill = fill_one;
	load.count = ONE_BYTES / ONE_PIECE;
	for (uint32_t o = 0; o < 2; o++) {
		for (uint64_t k = 0; k < words; k++)
			data[k] = ops[o] == G4_CMD_WRITE ? k * 0x9e3779b97f4a7c15 : 0;
		for (uint32_t depth = 1; depth <= 4; depth *= 4) {
			load.slot = command(ops[o]);
			load.depth = depth;
			double cpu = cpu_seconds();
			double seconds = run_loads(&load, 1);
			snprintf(name, sizeof(name), "%s one file of 8 GiB, 1 client, depth %u, 16 MiB a command",
				 ops[o] == G4_CMD_WRITE ? "write" : "read", depth);
			report(name, "GB/s", (double)ONE_BYTES / 1e9 / seconds, 0, true, cpu_seconds() - cpu);
		}
	}
	for (uint64_t k = 0; k < words; k += 7) {
		if (data[k] != k * 0x9e3779b97f4a7c15) {
			fprintf(stderr, "gpu_bench: one file: something else was read than written\n");
			exit(1);
		}
	}
	remove_one(&load.hand, load.nodes[0], "one");
	close_loads(&load, 1);
}

#define SCRUB_BYTES (32 * G4_GIB)
#define SINGLES 2000u /* commands of a kind */

static void fill_scrubbed(struct load *load, struct g4_ring_slot *slot, uint64_t i)
{
	/* four files in turn */
	fill_one(load, slot, i / 4);
	slot->command.handle = load->nodes[i % 4];
	slot->command.data = i % ONE_PLACES * ONE_PIECE;
}

/* Of 32 GiB in four files. The rate is that of the time in which it ran, by the engine's own clock. */
static void bench_scrub(void)
{
	struct g4_ring_slot start = command(G4_CMD_JOB_START);
	struct g4_ring_result result;
	struct load load;
	char name[16];

	if (checksum_policy == g4_policy_of(G4_CHECKSUM_NONE)) {
		puts("scrub: without sums (-k) there are no contents to be compared");
		return;
	}
	open_loads(&load, 1, ONE_PLACES * ONE_PIECE);
	for (uint64_t k = 0; k < ONE_PLACES * ONE_PIECE / 8; k++)
		((uint64_t *)load.hand.data)[k] = k * 0x9e3779b97f4a7c15;
	for (uint32_t f = 0; f < 4; f++) {
		snprintf(name, sizeof(name), "scrub%u", f);
		load.nodes[f] = open_file(&load.hand, G4_NODE_ROOT, name, NULL);
	}
	load.fill = fill_scrubbed;
	load.count = SCRUB_BYTES / ONE_PIECE;
	load.depth = 4;
	load.slot = command(G4_CMD_WRITE);
	run_loads(&load, 1);
	for (uint32_t round = 0; round < 3; round++) {
		double cpu = cpu_seconds();
		start.command.node2 = G4_JOB_SCRUB;
		start.command.flags = G4_JOB_EAGER;
		must(run_one(&load.hand, &start, &result), "starting a scrub");
		struct g4_job_record job;
		while ((job = last_job(&load.hand)).state == G4_JOB_RUNNING)
			usleep(2000);
		must(job.state == G4_JOB_DONE && job.errors == 0 && job.bytes >= SCRUB_BYTES ? 0 : 1, "the scrub");
		report("scrub of 32 GiB in 4 files", "GB/s", (double)job.bytes / (double)job.run_ns,
		       in_host_memory ? 0 : 1000, true, cpu_seconds() - cpu);
	}
	for (uint32_t f = 0; f < 4; f++) {
		snprintf(name, sizeof(name), "scrub%u", f);
		remove_one(&load.hand, load.nodes[f], name);
	}
	close_loads(&load, 1);
}

/* One name at a time, in a directory of its own: made, and removed. */
static void time_names(struct hand *h, uint32_t op, uint64_t directory, const char *metric)
{
	static uint64_t ns[SINGLES];
	struct g4_ring_slot slot = command(op);
	struct g4_ring_result result;
	char name[32];

	slot.command.node = directory;
	slot.command.mode = S_IFREG | 0644;
	for (uint32_t i = 0; i < SINGLES; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		set_name(&slot, name);
		const int64_t begin = g4_realtime_ns();
		must(run_one(h, &slot, &result), name);
		ns[i] = (uint64_t)(g4_realtime_ns() - begin);
	}
	qsort(ns, SINGLES, sizeof(ns[0]), by_value);
	report(metric, "us", (double)ns[SINGLES / 2] / 1e3, 25, false, 0);
}

/* One command at a time, with nobody else there: a name; a write into the cache, and with an fsync behind it. */
static void bench_single(void)
{
	static uint64_t into[SINGLES], durable[SINGLES];
	struct g4_ring_slot write = command(G4_CMD_WRITE), sync = command(G4_CMD_FSYNC);
	struct g4_ring_result result;
	struct hand h;

	open_hand(&h, G4_RING_MIN_DATA_BYTES);
	const uint64_t names = make_directory(&h, "single names");
	time_names(&h, G4_CMD_MKNOD, names, "one create, p50");
	time_names(&h, G4_CMD_UNLINK, names, "one unlink, p50");
	write.command.handle = sync.command.handle = open_file(&h, G4_NODE_ROOT, "single", NULL);
	write.command.node = sync.command.node = 0;
	write.command.length = 4096;
	write.command.data = 0;
	for (uint32_t i = 0; i < SINGLES; i++) {
		write.command.offset = (uint64_t)i % 64 * 4096;
		const int64_t begin = g4_realtime_ns();
		must(run_one(&h, &write, &result), "writing");
		const int64_t written = g4_realtime_ns();
		must(run_one(&h, &sync, &result), "syncing");
		into[i] = (uint64_t)(written - begin);
		durable[i] = (uint64_t)(g4_realtime_ns() - begin);
	}
	qsort(into, SINGLES, sizeof(into[0]), by_value);
	qsort(durable, SINGLES, sizeof(durable[0]), by_value);
	report("one 4 KiB write into the cache, p50", "us", (double)into[SINGLES / 2] / 1e3, 0, false, 0);
	report("one 4 KiB write and fsync, p50", "us", (double)durable[SINGLES / 2] / 1e3, 0, false, 0);
	remove_one(&h, write.command.handle, "single");
	g4_session_shut(h.session);
}

#define SMALL_FILE (512 * G4_MIB)

static void fill_random(struct load *load, struct g4_ring_slot *slot, uint64_t i)
{
	uint64_t x = (i + load->index * UINT64_C(1000003)) * UINT64_C(0x9e3779b97f4a7c15);

	slot->command.handle = load->nodes[0];
	slot->command.node = 0;
	slot->command.offset = (x >> 20) % (SMALL_FILE / 4096) * 4096;
	slot->command.length = 4096;
	slot->command.data = i % ENTRIES * 4096;
}

/* Writes a file through one client, so that it lies in the cache after it was read once. */
static void make_small_file(struct hand *h, uint64_t handle)
{
	struct g4_ring_slot write = command(G4_CMD_WRITE), read = command(G4_CMD_READ);
	struct g4_ring_result result;

	write.command.node = read.command.node = 0;
	write.command.handle = read.command.handle = handle;
	write.command.length = read.command.length = 128 * 1024;
	memset(h->data, 7, 128 * 1024);
	for (uint64_t at = 0; at < SMALL_FILE; at += 128 * 1024) {
		write.command.offset = at;
		must(run_one(h, &write, &result), "writing");
	}
	for (uint64_t at = 0; at < SMALL_FILE; at += 128 * 1024) {
		read.command.offset = at;
		must(run_one(h, &read, &result), "reading");
	}
}

static struct gpu_bench_result last_result;

static bool kernel_job(const char *metric, const char *unit, double scale, double target,
		       const struct gpu_bench_job *job)
{
	struct gpu_bench_result result = {0};
	double cpu = cpu_seconds();
	const struct cpu_use begin = begin_measuring();

	if (!gpu_bench_run(g4_engine_cuda(engine)->fs, job, &result))
		exit(1);
	end_measuring(&begin, 0);
	if (result.first_error)
		fprintf(stderr, "gpu_bench: %s: %s after %llu\n", metric, g4_strerror((int)result.first_error),
			(unsigned long long)result.done);
	report(metric, unit, (double)result.done * scale / result.seconds, target, true, cpu_seconds() - cpu);
	last_result = result;
	return result.first_error == 0;
}

/* 32 pages at a time; the file is /small. More warps hide more of the memory's latency, fewer keep their buffers in the L2. */
static void bench_random_each(void)
{
	const uint32_t most = gpu_bench_resident_warps();
	const uint64_t pins = cache_bytes / G4_PAGE_BYTES / 16; /* so many pages may be mapped */
	const struct gpu_bench_job open = {GPU_BENCH_OPEN, 1, 1, 1, 0, 0};
	char metric[80];

	kernel_job("open by a kernel", "/s", 1, 0, &open);
	usleep(200000); /* the engine's kernel has left the multiprocessors */
	for (uint32_t part = 8; part > 0; part /= 2) {
		const uint32_t map_warps = (uint32_t)g4_min64(most / part, pins / 32);
		const struct gpu_bench_job read = {GPU_BENCH_READ_EACH, most / part, 400, 0, 0, SMALL_FILE};
		const struct gpu_bench_job map = {GPU_BENCH_MAP_EACH, map_warps, 400, 0, 0, SMALL_FILE};
		snprintf(metric, sizeof(metric), "4 KiB random read by a kernel, 32 a call, %u warps", read.warps);
		kernel_job(metric, "GB/s", 4096 / 1e9, part == 1 ? 2000 : 0, &read);
		snprintf(metric, sizeof(metric), "4 KiB random pages in place, 32 a call, %u warps", map.warps);
		kernel_job(metric, "GB/s", 4096 / 1e9, part == 1 ? 2000 : 0, &map);
	}
}

/*
 * How long a lane takes to have a cached page, which is the document's cache latency: one warp, 8 192 lanes, and all that the GPU has, whose
 * rate counts as well. A page's contents are not looked at before the time is taken.
 */
static void bench_acquire(void)
{
	static const char *const places[GPU_BENCH_PLACES] = {"minimum", "25 %", "p50", "75 %", "p99.9", "maximum"};
	static const struct {
		uint32_t work, calls;
		const char *name;
	} ways[] = {{GPU_BENCH_ACQUIRE, 1000, "a lane alone"}, {GPU_BENCH_PIN_EACH, 200, "32 a call, pinned"}};
	const struct gpu_bench_job open = {GPU_BENCH_OPEN, 1, 1, 1, 0, 0};
	const uint32_t warps[] = {1, 8192 / 32, gpu_bench_resident_warps()};
	const uint64_t pins = cache_bytes / G4_PAGE_BYTES / 16;
	struct load loads[CLIENTS];
	uint64_t ino;

	open_loads(loads, CLIENTS, ENTRIES * 4096);
	make_small_file(&loads[0].hand, open_file(&loads[0].hand, G4_NODE_ROOT, "small", &ino));
	kernel_job("open by a kernel", "/s", 1, 0, &open);
	usleep(200000); /* the engine's kernel has left the multiprocessors */
	for (uint32_t way = 0; way < 2; way++) {
		for (uint32_t k = 0; k < 3; k++) {
			const uint32_t with = ways[way].work == GPU_BENCH_PIN_EACH ?
						      (uint32_t)g4_min64(warps[k], pins / 32) :
						      warps[k];
			const struct gpu_bench_job job = {ways[way].work, with, ways[way].calls, 0, 0, SMALL_FILE};
			char metric[80];
			snprintf(metric, sizeof(metric), "cached pages, %s, %u warps", ways[way].name, with);
			kernel_job(metric, "M/s", 1e-6, k == 2 && way == 0 ? 2000 : 0, &job);
			for (uint32_t place = 0; place < GPU_BENCH_PLACES; place++) {
				const bool median = place == 2 && way == 0;
				snprintf(metric, sizeof(metric), "a cached page, %s, %u warps, %s", ways[way].name,
					 with, places[place]);
				report(metric, "us", last_result.took_ns[place] / 1e3,
				       !median ? 0 :
				       k == 0  ? 1 :
				       k == 1  ? 4 :
						 0,
				       false, 0);
			}
		}
	}
	close_loads(loads, CLIENTS);
}

static void bench_random(void)
{
	struct load loads[CLIENTS];
	uint64_t ino, p50, p99;
	double cpu;

	open_loads(loads, CLIENTS, ENTRIES * 4096);
	for (uint32_t c = 0; c < CLIENTS; c++) {
		loads[c].nodes[0] = open_file(&loads[c].hand, G4_NODE_ROOT, "small", &ino);
		if (c == 0)
			make_small_file(&loads[0].hand, loads[0].nodes[0]);
		loads[c].slot = command(G4_CMD_READ);
		loads[c].fill = fill_random;
		loads[c].count = 500000;
	}
	fill_random(&loads[0], &loads[0].slot, 1);
	latency(&loads[0].hand, &loads[0].slot, 10000, &p50, &p99);
	report("4 KiB cached read, depth 1, p50", "us", (double)p50 / 1e3, 0, false, 0);
	cpu = cpu_seconds();
	double seconds = run_loads(loads, CLIENTS);
	report("4 KiB random read, 8 host clients", "M/s", CLIENTS * 0.5 / seconds, 5, true, cpu_seconds() - cpu);
	for (uint32_t warps = 64; warps <= 1600; warps *= 5) {
		char metric[64];
		const struct gpu_bench_job job = {GPU_BENCH_READ, warps, 2000, 0, ino, SMALL_FILE};
		snprintf(metric, sizeof(metric), "4 KiB random read by a kernel, %u warps", warps);
		kernel_job(metric, "GB/s", 4096 / 1e9, warps == 1600 ? 2000 : 0, &job);
	}
	bench_random_each();
	close_loads(loads, CLIENTS);
}

#define TIERED_PIECE (2 * G4_MIB)
#define TIERED_SHARE 4u /* of the file is as large as the page cache */

/* A file that is larger than the page cache, on the device alone. */
static uint64_t make_tiered_file(struct hand *h, uint64_t bytes)
{
	struct g4_ring_slot write = command(G4_CMD_WRITE), sync = command(G4_CMD_SYNCFS);
	struct g4_ring_result result;
	uint64_t ino;

	write.command.node = 0;
	write.command.handle = open_file(h, G4_NODE_ROOT, "tiered", &ino);
	write.command.length = TIERED_PIECE;
	memset(h->data, 9, TIERED_PIECE);
	for (uint64_t at = 0; at < bytes; at += TIERED_PIECE) {
		write.command.offset = at;
		must(run_one(h, &write, &result), "writing");
	}
	must(run_one(h, &sync, &result), "syncing");
	return ino;
}

/* A read of 4 KiB by one warp with nobody else there. */
static void one_read(const char *metric, uint64_t ino, uint64_t bytes)
{
	const struct gpu_bench_job job = {GPU_BENCH_READ, 1, 2000, 0, ino, bytes};
	struct gpu_bench_result result = {0};

	if (!gpu_bench_run(g4_engine_cuda(engine)->fs, &job, &result))
		exit(1);
	must((int)result.first_error, metric);
	report(metric, "us", result.seconds / (double)result.done * 1e6, 0, false, 0);
}

/*
 * What a page costs that the page cache has given up: a file of four times the page cache, from the device, then from the tier (-t; without
 * one from the device again). The share of random reads that the page cache answers is a quarter.
 */
static void bench_tier(void)
{
	const uint64_t bytes = TIERED_SHARE * cache_bytes, pages = bytes / G4_PAGE_BYTES;
	static const char *const passes[] = {"first", "second", "third"};
	char metric[80];
	struct hand h;

	open_hand(&h, G4_RING_MIN_DATA_BYTES);
	const uint64_t ino = make_tiered_file(&h, bytes);
	puts("tier: the file is there");
	for (uint32_t pass = 0; pass < 3; pass++) {
		const uint32_t at_once = pass == 2 ? 16 : 1;
		const struct gpu_bench_job all = {
			GPU_BENCH_READ_ALL, 1024, (uint32_t)(pages / at_once / 1024), at_once, ino, bytes};
		snprintf(metric, sizeof(metric), "%u KiB reads of four times the cache, %s pass, 1024 warps",
			 4 * at_once, passes[pass]);
		kernel_job(metric, "GB/s", at_once * 4096 / 1e9, pass > 0 && tier_bytes > 0 ? 45 : 0, &all);
	}
	usleep(200000); /* the engine's kernel has left the multiprocessors */
	one_read("4 KiB random read, a quarter in the cache, 1 warp", ino, bytes);
	for (uint32_t warps = 64; warps <= 1600; warps *= 5) {
		const struct gpu_bench_job random = {GPU_BENCH_READ, warps, 100, 0, ino, bytes};
		snprintf(metric, sizeof(metric), "4 KiB random read, a quarter in the cache, %u warps", warps);
		kernel_job(metric, "GB/s", 4096 / 1e9, tier_bytes > 0 ? 45 : 0, &random);
	}
	one_read("4 KiB random read, 1 MiB in the cache, 1 warp: warming", ino, G4_MIB);
	one_read("4 KiB random read, 1 MiB in the cache, 1 warp", ino, G4_MIB);
	struct g4_ring_slot list = command(G4_CMD_JOB_LIST);
	const struct g4_health *health = (const struct g4_health *)(const void *)h.data;
	struct g4_ring_result result;
	list.command.data = 0;
	list.command.length = sizeof(*health);
	must(run_one(&h, &list, &result), "asking for counts");
	const struct g4_cache_use *use = &health->cache;
	printf("cache: %llu hits, %llu misses; tier: %llu hits, %llu misses, victims %llu down, %llu again, %llu old, %llu up\n",
	       (unsigned long long)use->data_hits, (unsigned long long)use->data_misses,
	       (unsigned long long)use->tier_hits, (unsigned long long)use->tier_misses,
	       (unsigned long long)use->tier_down, (unsigned long long)use->tier_down_again,
	       (unsigned long long)use->tier_down_old, (unsigned long long)use->tier_up);
	g4_session_shut(h.session);
}

static bool forest_made, directories_made;	 /* by an earlier benchmark */
static uint32_t forest_names = 64, forest_bytes; /* names of a directory, bytes of one; 0: the shortest */
#define FOREST_WARPS 1024u

/* The name of a row about the forest. */
static const char *of_forest(const char *what, uint32_t warps)
{
	static char metric[128], many[32], length[24];

	snprintf(many, sizeof(many), "%u M", (GPU_BENCH_DIRS * forest_names + 500000) / 1000000);
	snprintf(length, sizeof(length), forest_bytes ? " with %u bytes a name" : "", forest_bytes);
	if (warps)
		snprintf(metric, sizeof(metric), "%s from a kernel, %s files%s, 32 a call, %u warps", what, many,
			 length, warps);
	else
		snprintf(metric, sizeof(metric), "%s %s files from a kernel, %u a directory%s", what, many,
			 forest_names, length);
	return metric;
}

/* A million files in directories of 64 names, or as the options say. */
static void bench_forest(void)
{
	const uint32_t dirs = GPU_BENCH_DIRS / FOREST_WARPS, most = gpu_bench_resident_warps();
	const struct gpu_bench_job make = {GPU_BENCH_FOREST, FOREST_WARPS, dirs, forest_names, 0, forest_bytes};
	const struct gpu_bench_job all = {GPU_BENCH_FIND_ALL, FOREST_WARPS, dirs * forest_names / 32, forest_names, 0,
					  forest_bytes};
	struct gpu_bench_result found = {0};

	wake_kernel();
	if (!kernel_job(of_forest("create", 0), "M/s", 1e-6, 0, &make))
		exit(1);
	forest_made = true;
	if (!gpu_bench_run(g4_engine_cuda(engine)->fs, &all, &found))
		exit(1);
	if (found.done != (uint64_t)GPU_BENCH_DIRS * forest_names) {
		fprintf(stderr, "gpu_bench: of all files %llu were found\n", (unsigned long long)found.done);
		exit(1);
	}
	usleep(200000); /* the engine's kernel has left the multiprocessors */
	for (uint32_t part = 4; part > 0; part /= 2) {
		const struct gpu_bench_job look = {GPU_BENCH_LOOKUP_EACH, most / part, 1000,
						   forest_names,	  0,	       forest_bytes};
		const struct gpu_bench_job number = {GPU_BENCH_INO_EACH, most / part, 1000,
						     forest_names,	 0,	      forest_bytes};
		kernel_job(of_forest("lookup", look.warps), "M/s", 1e-6, part == 1 ? 300 : 0, &look);
		kernel_job(of_forest("inode number", number.warps), "M/s", 1e-6, part == 1 ? 300 : 0, &number);
	}
}

/*
 * The directories document's figures of kernels, by workgroups, which are warps here, and lanes of each: its figure 15, the base latency; 19
 * to 21, names of directories of 64; 22, creation in one directory; and what its section 6.2 wishes for, each workgroup in directories of
 * its own. The names end in what bench/gpu/report.py draws them by.
 */
static void bench_workgroups(void)
{
	const uint32_t warps[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512}, lanes[] = {1, 2, 4, 8, 16, 32};
	const uint32_t dirs = GPU_BENCH_DIRS / FOREST_WARPS, kinds = sizeof(warps) / sizeof(warps[0]);
	const struct gpu_bench_job forest = {GPU_BENCH_FOREST, FOREST_WARPS, dirs, forest_names, 0, forest_bytes};
	const struct gpu_bench_job directories = {GPU_BENCH_DIRECTORIES, 512, 4, 64, 0, 0};
	char metric[80], name[32];
	struct hand h;

	open_hand(&h, 0);
	if (!forest_made && !kernel_job("1 M files for workgroups", "M/s", 1e-6, 0, &forest))
		exit(1);
	if (!directories_made && !kernel_job("directories of workgroups", "M/s", 1e-6, 0, &directories))
		exit(1);
	usleep(200000); /* the engine's kernel has left the multiprocessors */
	for (uint32_t i = 0; i < kinds; i++) {
		const struct gpu_bench_job nothing = {GPU_BENCH_NOTHING, warps[i], 10000, 64, 0, 0};
		const struct gpu_bench_job own = {GPU_BENCH_MAKE, warps[i], 256, 64, 0, 1024 + 256 * i};
		struct gpu_bench_job one = {GPU_BENCH_MAKE_SHARED, warps[i], 256, 64, 0, 0};
		snprintf(metric, sizeof(metric), "null command: %u workgroups", warps[i]);
		kernel_job(metric, "M/s", 1e-6, 0, &nothing);
		for (uint32_t l = 0; l < sizeof(lanes) / sizeof(lanes[0]); l++) {
			const struct gpu_bench_job look = {GPU_BENCH_LOOKUP_EACH, warps[i], 1000,
							   forest_names,	  lanes[l], forest_bytes};
			snprintf(metric, sizeof(metric), "wide lookup, %u lanes: %u workgroups", lanes[l], warps[i]);
			kernel_job(metric, "M/s", 1e-6, 0, &look);
		}
		snprintf(name, sizeof(name), "shared%u", warps[i]);
		one.file = make_directory(&h, name);
		snprintf(metric, sizeof(metric), "create in one directory: %u workgroups", warps[i]);
		kernel_job(metric, "M/s", 1e-6, 0, &one);
		snprintf(metric, sizeof(metric), "create, each in its own: %u workgroups", warps[i]);
		kernel_job(metric, "M/s", 1e-6, 0, &own);
	}
	g4_session_shut(h.session);
}

/* ------------------------------------------------------------------ listings and trees that go */

#define LISTED_NAMES (UINT64_C(1) << 20)
#define LISTED_MAKERS 64u

struct lister { /* a thread: its part of a directory, or of the names to make */
	pthread_t id;
	uint64_t directory, first, end;
	uint32_t flags;
	bool makes;
	uint64_t names;
};

static void make_part(const struct lister *l)
{
	enum { AT_ONCE = 512 };
	static _Thread_local _Alignas(8) uint8_t data[AT_ONCE * (sizeof(struct g4_batch_entry) + 16)];
	struct g4_batch_entry *entries = (struct g4_batch_entry *)(void *)data;

	for (uint64_t next = l->first; next < l->end;) {
		const uint32_t count = (uint32_t)g4_min64(AT_ONCE, l->end - next);
		uint32_t at = count * (uint32_t)sizeof(*entries);
		memset(data, 0, at);
		for (uint32_t k = 0; k < count; k++, next++) {
			char name[16];
			const int bytes = snprintf(name, sizeof(name), "n%07llu", (unsigned long long)next);
			entries[k].op = G4_CMD_MKNOD;
			entries[k].mode = S_IFREG | 0644;
			entries[k].path_at = at;
			entries[k].path_bytes = (uint32_t)bytes;
			memcpy(data + at, name, (size_t)bytes);
			at += (uint32_t)bytes;
		}
		struct g4_cmd cmd = {
			.op = G4_CMD_BATCH, .node = l->directory, .data = data, .length = at, .mask = count};
		must(g4_engine_execute(engine, &cmd), "making names");
		for (uint32_t k = 0; k < count; k++)
			must(entries[k].status, "making a name");
	}
}

static void list_part(struct lister *l)
{
	static _Thread_local uint64_t data[8192];
	struct g4_cmd cmd = {.op = G4_CMD_READDIR, .node = l->directory, .cookie = l->first, .flags = l->flags};

	do {
		cmd.data = data;
		cmd.length = sizeof(data);
		must(g4_engine_execute(engine, &cmd), "listing");
		for (uint64_t at = 0; at < cmd.value;) {
			const struct g4_dirent *record =
				(const struct g4_dirent *)(const void *)((const uint8_t *)data + at);
			if (record->cookie > l->end)
				return;
			cmd.cookie = record->cookie;
			l->names += record->cookie > G4_COOKIE_NAMES;
			at += record->record_bytes;
		}
	} while (cmd.value > 0);
}

static void *run_lister(void *argument)
{
	struct lister *l = argument;

	if (l->makes)
		make_part(l);
	else
		list_part(l);
	return NULL;
}

/* Names of so many threads, and their seconds. */
static uint64_t run_listers(struct lister *listers, uint32_t count, double *seconds)
{
	uint64_t names = 0;

	wake_kernel();
	const struct cpu_use begin = begin_measuring();
	for (uint32_t i = 0; i < count; i++)
		must(pthread_create(&listers[i].id, NULL, run_lister, &listers[i]), "a thread");
	for (uint32_t i = 0; i < count; i++) {
		pthread_join(listers[i].id, NULL);
		names += listers[i].names;
	}
	end_measuring(&begin, 0);
	*seconds = measured.wall;
	return names;
}

static void make_names(uint64_t directory, uint64_t count)
{
	const uint32_t makers = (uint32_t)g4_min64(LISTED_MAKERS, (count + 999) / 1000);
	struct lister listers[LISTED_MAKERS];
	double seconds;

	for (uint32_t i = 0; i < makers; i++)
		listers[i] = (struct lister){.directory = directory,
					     .first = count * i / makers,
					     .end = count * (i + 1) / makers,
					     .makes = true};
	(void)run_listers(listers, makers, &seconds);
}

static void list_names(uint64_t directory, uint32_t flags, uint32_t callers)
{
	struct lister listers[LISTED_MAKERS];
	const uint64_t all = UINT64_C(1) << 48; /* positions */
	char metric[80];
	double seconds;

	for (uint32_t i = 0; i < callers; i++)
		listers[i] = (struct lister){.directory = directory,
					     .first = G4_COOKIE_NAMES + all / callers * i,
					     .end = i + 1 == callers ? UINT64_MAX :
								       G4_COOKIE_NAMES + all / callers * (i + 1),
					     .flags = flags};
	const uint64_t names = run_listers(listers, callers, &seconds);
	if (names != LISTED_NAMES) {
		fprintf(stderr, "gpu_bench: %llu names were listed\n", (unsigned long long)names);
		exit(1);
	}
	snprintf(metric, sizeof(metric), "listing of 1 M names%s: %u callers",
		 flags & G4_READDIR_PLUS ? " with attributes" : "", callers);
	report(metric, "M/s", (double)names / 1e6 / seconds, 0, true, 0);
}

#define CLEAR_SECONDS 25.0 /* one that takes longer is not waited for */

/* As `gpu4fs rm -r` does it, by one caller. */
static void clear_names(const char *what, uint64_t directory, uint64_t wanted)
{
	struct g4_cmd cmd = {.op = G4_CMD_CLEAR, .node = directory};
	const uint64_t start = g4_monotonic_ns();
	uint64_t names = 0;
	char metric[96];

	wake_kernel();
	const struct cpu_use begin = begin_measuring();
	do {
		cmd.length = 32768;
		cmd.cookie = 0;
		must(g4_engine_execute(engine, &cmd), "removing");
		names += cmd.value;
	} while (cmd.value > 0 && (double)(g4_monotonic_ns() - start) / 1e9 < CLEAR_SECONDS);
	end_measuring(&begin, 0);
	const double seconds = measured.wall;
	snprintf(metric, sizeof(metric), "%s, %.2f M of %.2f M names", what, (double)names / 1e6, (double)wanted / 1e6);
	report(metric, "s", seconds, 0, false, 0);
	report(what, "s/M", seconds / ((double)names / 1e6), 0.5, false, 0);
}

static void bench_list(void)
{
	struct hand h;

	open_hand(&h, 0);
	const uint64_t wide = make_directory(&h, "listed");
	make_names(wide, LISTED_NAMES);
	for (uint32_t callers = 1; callers <= 16; callers *= 4) {
		list_names(wide, 0, callers);
		list_names(wide, G4_READDIR_PLUS, callers);
	}
	g4_session_shut(h.session);
}

static void bench_clear(void)
{
	char name[32];
	struct hand h;

	open_hand(&h, 0);
	const uint64_t wide = make_directory(&h, "cleared"), tree = make_directory(&h, "tree");
	for (uint32_t d = 0; d < 1000; d++) {
		struct g4_ring_slot slot = command(G4_CMD_MKDIR);
		struct g4_ring_result result;
		snprintf(name, sizeof(name), "d%u", d);
		set_name(&slot, name);
		slot.command.node = tree;
		slot.command.mode = 0755;
		slot.command.wants_attr = 1;
		must(run_one(&h, &slot, &result), name);
		make_names(result.attr.ino, 1000);
	}
	clear_names("rm -r of 1 000 directories of 1 000 files", tree, 1001000);
	make_names(wide, LISTED_NAMES);
	clear_names("rm -r of one directory of 1 M files", wide, LISTED_NAMES);
	g4_session_shut(h.session);
}

static void bench_kernel(void)
{
	const uint32_t warps[] = {1, 16, 256, 800};
	char metric[64];

	wake_kernel();
	for (int i = 0; i < 4; i++) {
		const struct gpu_bench_job nothing = {GPU_BENCH_NOTHING, warps[i], 10000, 64, 0, 0};
		snprintf(metric, sizeof(metric), "null command from a kernel, %u warps", warps[i]);
		kernel_job(metric, "M/s", 1e-6, 0, &nothing);
	}
	const struct gpu_bench_job directories = {GPU_BENCH_DIRECTORIES, 800, 8, 64, 0, 0};
	directories_made = kernel_job("mkdir in the root from a kernel, 800 warps", "M/s", 1e-6, 0, &directories);
	const struct gpu_bench_job make = {GPU_BENCH_MAKE, 800, 512, 64, 0, 0};
	snprintf(metric, sizeof(metric), "create from a kernel, %u warps", make.warps);
	if (!kernel_job(metric, "M/s", 1e-6, 10, &make))
		return;
	for (int i = 0; i < 4; i++) {
		const struct gpu_bench_job look = {GPU_BENCH_LOOKUP, warps[i], 256, 64, 0, 0};
		for (int again = 0; again < 2; again++) {
			snprintf(metric, sizeof(metric), "lookup from a kernel, %u warps%s", warps[i],
				 again ? ", again" : "");
			kernel_job(metric, "M/s", 1e-6, i == 3 && again ? 300 : 0, &look);
		}
	}
}

/* ------------------------------------------------------------------ the table of contents (src/dedup), without the engine */

#define TABLE_ROOM 2u /* places for each entry: few buckets are full */

/* What must be: no key is lost count of, and the table has what its own counters say. */
static void check_table(const char *metric, const struct g4_ddt *ddt, const struct gpu_bench_keys *keys,
			const struct gpu_bench_found *found)
{
	struct g4_ddt_stats stats;

	g4_ddt_stats(ddt, &stats);
	if (found->right + found->others + found->none == keys->count && found->slots == stats.entries)
		return;
	fprintf(stderr,
		"gpu_bench: %s: of %llu keys %llu led to their page, %llu to another one and %llu nowhere; %llu slots are in use "
		"and %llu should\n",
		metric, (unsigned long long)keys->count, (unsigned long long)found->right,
		(unsigned long long)found->others, (unsigned long long)found->none, (unsigned long long)found->slots,
		(unsigned long long)stats.entries);
	exit(1);
}

static struct gpu_bench_found table_row(struct g4_ddt *ddt, uint64_t entries, const char *what, double target,
					const struct gpu_bench_keys *keys)
{
	struct gpu_bench_found found = {0};
	struct g4_ddt_stats before, after;
	char metric[80];
	double cpu = cpu_seconds();
	const struct cpu_use begin = begin_measuring();

	snprintf(metric, sizeof(metric), "table of %llu M, %s", (unsigned long long)entries / 1000000, what);
	g4_ddt_stats(ddt, &before);
	must(gpu_bench_table(ddt, keys, &found) ? 0 : 1, metric);
	end_measuring(&begin, 0);
	report(metric, "M/s", (double)keys->count / 1e6 / found.seconds, target, true, cpu_seconds() - cpu);
	g4_ddt_stats(ddt, &after);
	printf("  %llu keys: %llu to their page, %llu to another's, %llu nowhere; %llu inserted, %llu pushed out, %llu in the "
	       "table\n",
	       (unsigned long long)keys->count, (unsigned long long)found.right, (unsigned long long)found.others,
	       (unsigned long long)found.none, (unsigned long long)(after.inserted - before.inserted),
	       (unsigned long long)(after.evicted - before.evicted), (unsigned long long)after.entries);
	check_table(metric, ddt, keys, &found);
	/* what was not found was inserted, but for what two put into one slot at a time */
	must(after.inserted - before.inserted <= (keys->insert ? found.none : 0) ? 0 : 1, "insertions");
	return found;
}

static void table_of(uint64_t entries, bool wanted)
{
	const uint64_t bytes = g4_ddt_memory(entries * TABLE_ROOM * sizeof(uint64_t)), half = entries / 2;
	const struct gpu_bench_keys fill = {{0, half}, 2 * half, true, false},
				    there = {{0, half}, 2 * half, false, false};
	const struct gpu_bench_keys absent = {{entries, entries + half}, 2 * half, false, false};
	const struct gpu_bench_keys both = {{0, 2 * entries}, half, true, false};
	static struct g4_ddt ddt;
	void *memory = gpu_bench_memory(bytes);

	must(memory ? 0 : 1, "memory for a table");
	g4_ddt_init(&ddt, memory, bytes);
	struct gpu_bench_found found = table_row(&ddt, entries, "look up or insert, all new", wanted ? 500 : 0, &fill);
	must(found.right == 0 && found.slots * 100 >= fill.count * 99 ? 0 : 1, "the entries of a table");
	for (int again = 0; again < 2; again++) {
		found = table_row(&ddt, entries, again ? "look up, all there, again" : "look up, all there",
				  wanted ? 1000 : 0, &there);
		must(found.right == found.slots - found.doubles ? 0 : 1, "every entry of a table is found");
	}
	found = table_row(&ddt, entries, "look up, none there", wanted ? 1000 : 0, &absent);
	must(found.right == 0 ? 0 : 1, "a page that was never inserted");
	found = table_row(&ddt, entries, "look up or insert, half of them new", wanted ? 500 : 0, &both);
	must(found.right <= half / 2 && found.none >= half / 2 * 99 / 100 ? 0 : 1, "half of the keys");
	must(gpu_bench_free(memory) ? 0 : 1, "memory of a table");
}

static void bench_table(void)
{
	usleep(200000); /* the engine's kernel has left the multiprocessors */
	table_of(10000000, false);
	table_of(100000000, true);
}

/* The document's figures 6.5 and 6.6: pages of some files into a table that is empty, and into one that grows with each step; and the same page. */
#define INSERT_FILE 64u /* pages of a file there */
#define INSERT_STEPS 100u

static double insert_pages(struct g4_ddt *ddt, uint64_t first, uint64_t count, bool same)
{
	const struct gpu_bench_keys keys = {{first, same ? first : first + (count + 1) / 2}, count, true, same};
	struct gpu_bench_found found = {0};

	must(gpu_bench_table(ddt, &keys, &found) ? 0 : 1, "inserting");
	must(found.right + found.others + found.none == count ? 0 : 1, "keys of a table");
	return (double)(count * G4_PAGE_BYTES) / 1e9 / found.seconds;
}

static void report_inserted(const char *what, uint64_t pages, double rate)
{
	char metric[96];

	snprintf(metric, sizeof(metric), "%s, %llu pages", what, (unsigned long long)pages);
	report(metric, "GB/s", rate, 0, true, 0);
}

static void bench_insert(void)
{
	static const uint32_t files[] = {1, 10, 22};
	const uint64_t bytes = g4_ddt_memory((1u << 23) * TABLE_ROOM * sizeof(uint64_t));
	static struct g4_ddt ddt;
	char what[64];

	usleep(200000); /* the engine's kernel has left the multiprocessors */
	for (uint64_t pages = INSERT_FILE; pages <= 1u << 22; pages *= 4) {
		for (int same = 0; same < 2; same++) {
			double rate = 0;
			for (int round = 0; round < 3; round++) { /* the first one loads the kernel */
				void *memory = gpu_bench_memory(bytes);
				must(memory ? 0 : 1, "memory for a table");
				g4_ddt_init(&ddt, memory, bytes);
				rate = insert_pages(&ddt, 0, pages, same);
				must(gpu_bench_free(memory) ? 0 : 1, "memory of a table");
			}
			report_inserted(same ? "empty table, the same page" : "empty table", pages, rate);
		}
	}
	for (uint32_t f = 0; f < 3; f++) {
		const uint64_t step = files[f] * INSERT_FILE;
		void *memory = gpu_bench_memory(bytes);
		must(memory ? 0 : 1, "memory for a table");
		g4_ddt_init(&ddt, memory, bytes);
		snprintf(what, sizeof(what), "growing table, files a step %u", files[f]);
		for (uint32_t s = 0; s < INSERT_STEPS; s++) {
			const double rate = insert_pages(&ddt, s * step, step, false);
			if (s == 0 || (s + 1) % 10 == 0)
				report_inserted(what, (s + 1) * step, rate);
		}
		must(gpu_bench_free(memory) ? 0 : 1, "memory of a table");
	}
}

#define WAKE_UPS 15

/* The stations of a wake-up. The GPU's clock is the host's to a few microseconds; differences below 0 count as 0. */
static void add_stations(uint64_t stations[][WAKE_UPS], int i, int64_t begin, int64_t end)
{
	const struct g4_gpu_control *c = g4_engine_cuda(engine)->control;
	const int64_t at[] = {begin, c->wanted_ns, c->launch_ns, c->launched_ns, c->started_ns, end};

	/* the call may return after the kernel has begun */
	stations[0][i] = (uint64_t)(at[1] - at[0]);
	stations[1][i] = (uint64_t)(at[2] - at[1]);
	stations[2][i] = (uint64_t)(at[3] - at[2]);
	stations[3][i] = at[4] > at[2] ? (uint64_t)(at[4] - at[2]) : 0;
	stations[4][i] = at[5] > at[4] ? (uint64_t)(at[5] - at[4]) : 0;
}

/* The kernel leaves after its idle time; what the next command then costs. */
static void bench_idle(void)
{
	static const char *const names[] = {"wake-up: doorbell to agent", "wake-up: agent to launch",
					    "wake-up: CUDA's launch call", "wake-up: launch to kernel",
					    "wake-up: kernel to result"};
	struct hand h;
	struct g4_ring_slot nop = command(G4_CMD_NOP);
	struct g4_ring_result result;
	uint64_t ns[WAKE_UPS], stations[5][WAKE_UPS];
	double cpu;

	open_hand(&h, 0);
	for (int i = 0; i < WAKE_UPS; i++) {
		usleep(200000);
		int64_t begin = g4_realtime_ns();
		must(run_one(&h, &nop, &result), "nop");
		int64_t end = g4_realtime_ns();
		ns[i] = (uint64_t)(end - begin);
		add_stations(stations, i, begin, end);
	}
	qsort(ns, WAKE_UPS, sizeof(ns[0]), by_value);
	report("wake-up of a kernel that has left, p50", "us", (double)ns[WAKE_UPS / 2] / 1e3, 100, false, 0);
	for (int s = 0; s < 5; s++) {
		qsort(stations[s], WAKE_UPS, sizeof(ns[0]), by_value);
		report(names[s], "us", (double)stations[s][WAKE_UPS / 2] / 1e3, 0, false, 0);
	}
	usleep(200000);
	cpu = cpu_seconds();
	usleep(2000000);
	report("idle engine, share of a core", "%", (cpu_seconds() - cpu) / 2 * 100, 0.1, false, 0);
	g4_session_shut(h.session);
}

static const struct bench {
	const char *name;
	void (*run)(void);
} benches[] = {
	{"null", bench_null},	      {"stat", bench_stat},	    {"make", bench_make},
	{"kernel", bench_kernel},     {"random", bench_random},	    {"one", bench_one},
	{"stream", bench_stream},     {"idle", bench_idle},	    {"forest", bench_forest},
	{"scrub", bench_scrub},	      {"single", bench_single},	    {"workgroups", bench_workgroups},
	{"table", bench_table},	      {"dedup", bench_dedup},	    {"tier", bench_tier},
	{"pipeline", bench_pipeline}, {"insert", bench_insert},	    {"rebuild", bench_rebuild},
	{"acquire", bench_acquire},   {"degraded", bench_degraded}, {"list", bench_list},
	{"clear", bench_clear},
};

#define DISKS 8

/* One device, or with -r those that have commas between them. False: the message says why. */
static bool open_device(const char *names, struct g4_dev **dev, char *message, size_t bytes)
{
	const struct g4_dev_open_options open = {.flags = G4_DEV_CREATE, .create_bytes = disk_bytes};
	struct g4_set_plan plan = {.stripe_bytes = stripe_bytes, .journal_bytes = 512 * G4_MIB};
	struct g4_dev *disks[DISKS];
	uint32_t count, opened = 0;
	char **name;

	if (!raid)
		return g4_dev_open(names, &open, dev, message, bytes) == 0;
	const uint32_t level = g4_level_of(raid);
	must(level == G4_LEVELS ? 1 : 0, "-r");
	plan.raid = g4_level_raid(level, &plan.parity);
	must(g4_set_names(names, &name, &count), "-d");
	must(count > DISKS ? 1 : 0, "-d: disks");
	while (opened < count && g4_dev_open(name[opened], &open, &disks[opened], message, bytes) == 0)
		opened++;
	const bool good = opened == count &&
			  g4_set_make(disks, (const char *const *)name, count, &plan, dev, message, bytes) == 0;
	free(name);
	return good;
}

static void mount(const char *device)
{
	const struct g4_mkfs_options format = {
		.journal_bytes = 512 * G4_MIB, .checksum = checksum_policy, .dedup = deduplicates};
	const struct g4_mount_options options = mount_options();
	struct g4_superblock sb;
	char message[256] = "";
	struct g4_dev *dev;
	uint64_t begin = g4_monotonic_ns();

	if (!open_device(device, &dev, message, sizeof(message)) ||
	    g4_mkfs(dev, &format, &sb, message, sizeof(message)) < 0 ||
	    g4_engine_mount_device(dev, &options, &engine, message, sizeof(message)) < 0) {
		fprintf(stderr, "gpu_bench: %s\n", message);
		exit(1);
	}
	printf("mounted %s in %.2f s\n", device, (double)(g4_monotonic_ns() - begin) / 1e9);
}

int main(int argc, char **argv)
{
	const char *device = "mem:72G";

	(void)setvbuf(stdout, NULL, _IOLBF, 0); /* one that is ended has said how far it came */

	for (int option; (option = getopt(argc, argv, "s:o:d:c:t:f:k:un:l:r:g:p:x:m")) != -1;) {
		if (option == 's')
			sms = (uint32_t)atoi(optarg);
		else if (option == 'd')
			device = optarg, in_host_memory = strncmp(optarg, "dax:", 4) == 0;
		else if (option == 'c')
			cache_bytes = strtoull(optarg, NULL, 10) * G4_MIB;
		else if (option == 't')
			tier_bytes = strtoull(optarg, NULL, 10) * G4_MIB;
		else if (option == 'f') /* whole pieces */
			file_bytes = g4_align_up(strtoull(optarg, NULL, 10) * G4_MIB, PIECE);
		else if (option == 'k')
			checksum = optarg;
		else if (option == 'u')
			deduplicates = true;
		else if (option == 'r')
			raid = optarg;
		else if (option == 'x')
			spare_name = optarg;
		else if (option == 'm')
			remounts = true;
		else if (option == 'g')
			disk_bytes = strtoull(optarg, NULL, 10) * G4_GIB;
		else if (option == 'p')
			stripe_bytes = strtoull(optarg, NULL, 10) * G4_KIB;
		else if (option == 'n') /* whole calls */
			forest_names = (uint32_t)g4_align_up(g4_max64(strtoull(optarg, NULL, 10), 1), 32);
		else if (option == 'l')
			forest_bytes = (uint32_t)strtoull(optarg, NULL, 10);
		else if (option == 'o')
			json = fopen(optarg, "w");
	}
	const char *word = checksum ? checksum : "none";
	must(deduplicates && !checksum ? 1 : 0, "-u without -k");
	must(g4_policy_parse(G4_POLICY_FIELD_CHECKSUM, word, strlen(word), &checksum_policy), "-k");
	if (json)
		fputs("[", json);
	device_names = device;
	mount(device);
	for (size_t b = 0; b < sizeof(benches) / sizeof(benches[0]); b++) {
		bool wanted = optind == argc &&
			      benches[b].run != bench_tier &&	 /* which is for a device that is not memory */
			      benches[b].run != bench_rebuild && /* and which for a set */
			      benches[b].run != bench_degraded;
		for (int i = optind; i < argc; i++)
			wanted = wanted || strcmp(argv[i], benches[b].name) == 0;
		if (wanted)
			benches[b].run();
	}
	uint64_t begin = g4_monotonic_ns();
	must(g4_engine_unmount(engine), "unmounting");
	printf("unmounted in %.2f s\n", (double)(g4_monotonic_ns() - begin) / 1e9);
	if (json) {
		fputs("\n]\n", json);
		fclose(json);
	}
	return 0;
}
