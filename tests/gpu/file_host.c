/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA engine on a file or a block device, where an I/O agent on the host does its requests:
 *   tree    many threads make, write, rename and remove files; they, the CPU engine and fsck find what is expected, and
 *           each engine goes on with what the other left
 *   gone    the device vanishes under a running engine: calls fail, nothing hangs, what was synced is there afterwards
 *   kill    the engine's process is killed while it works: the CPU engine replays, everything that was synced is there
 *   speed   sequential writing and reading, fsync and random reads, with the processor time that they cost
 *
 * Usage: file [-e ENGINE] [-m SIZE_MIB] [-r KILLS] [-g GIB] [-q QUEUES] DEVICE [STAGE]...
 * DEVICE is formatted, a drive (nvme:ADDRESS, emu:drive:FILE) as well, of which the GPU has QUEUES, of none unless told; a file is created with 8
 * GiB (-m) if it is not there. Exit status: 0 good, 1 not. Every part
 * runs in a process of its own, so that none inherits CUDA from another.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "dev/dev_host.h"
#include "engine/engine.h"
#include "fs/mkfs_host.h"
#include "gpu/cuda_host.h"
#include "gpu/smoke.h"
#include "gpu4fs/gpu4fs.h"
#include "ring/client_host.h"

#define THREADS 16u
#define FILES 60u
#define BIG_BYTES SMOKE_KEPT_BYTES
#define PIECE (2 * G4_MIB)

static struct settings {
	const char *engine, *device;
	uint64_t create_bytes, speed_bytes;
	uint32_t kills, queues;
} set = {.engine = "cuda", .create_bytes = 8 * G4_GIB, .speed_bytes = 4 * G4_GIB, .kills = 5};

static void die(const char *what, int rc)
{
	fprintf(stderr, "file: %s: %s\n", what, rc < 0 ? gpu4fs_strerror(rc) : "failed");
	exit(1);
}

static void must(int64_t rc, const char *what)
{
	if (rc < 0)
		die(what, (int)rc);
}

static void check(bool good, const char *what)
{
	if (!good)
		die(what, 0);
}

/* For codes of the engine's own. */
static void must_g4(int rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "file: %s: %s\n", what, g4_strerror(rc));
	exit(1);
}

/* ------------------------------------------------------------------ processes */

static bool run_child(void (*work)(void))
{
	int status = -1;

	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		work();
		fflush(stdout);
		_exit(0);
	}
	bool ended = child > 0 && waitpid(child, &status, 0) == child;
	if (ended && WIFSIGNALED(status))
		fprintf(stderr, "file: a part ended by signal %d\n", WTERMSIG(status));
	return ended && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void fsck(void)
{
	char program[] = "fsck", image[4096];
	char *arguments[] = {program, image, NULL};

	snprintf(image, sizeof(image), "%s", set.device);
	optind = 1; /* it reads options, as this program did */
	check(g4_cli_fsck(2, arguments) == 0, "fsck found problems");
}

static void make(void)
{
	const struct gpu4fs_mkfs_options options = {
		.size = sizeof(options), .flags = GPU4FS_MKFS_FORCE, .create_bytes = set.create_bytes, .label = "file"};

	if (gpu4fs_mkfs(&set.device, 1, &options) < 0)
		die(gpu4fs_last_message(), 0);
}

static gpu4fs *mount(const char *engine)
{
	const struct gpu4fs_options options = {.size = sizeof(options),
					       .engine = engine,
					       .gpu_queues = strcmp(engine, "cpu") == 0 ? 0 : set.queues,
					       .commit_ms = 200};
	gpu4fs *fs;

	if (gpu4fs_mount(&set.device, 1, &options, &fs) < 0)
		die(gpu4fs_last_message(), 0);
	return fs;
}

/* ------------------------------------------------------------------ files with a pattern */

static void write_file(gpu4fs *fs, const char *path, uint64_t seed, uint64_t bytes, bool sync)
{
	uint8_t *data = malloc(bytes + 1);
	gpu4fs_file *file;

	check(data != NULL, "memory");
	for (uint64_t i = 0; i < bytes; i++)
		data[i] = smoke_byte(seed, i);
	must(gpu4fs_open(fs, NULL, path, O_RDWR | O_CREAT | O_TRUNC, 0644, &file), path);
	check(gpu4fs_pwrite(file, data, bytes, 0) == (int64_t)bytes, path);
	if (sync)
		must(gpu4fs_fsync(file), "fsync");
	must(gpu4fs_close(file), path);
	free(data);
}

static bool is_right(gpu4fs *fs, const char *path, uint64_t seed, uint64_t bytes)
{
	uint8_t *data = malloc(bytes + 1);
	gpu4fs_file *file;
	bool right;

	if (gpu4fs_open(fs, NULL, path, O_RDONLY, 0, &file) < 0) {
		free(data);
		return false;
	}
	right = data && gpu4fs_pread(file, data, bytes + 1, 0) == (int64_t)bytes;
	for (uint64_t i = 0; right && i < bytes; i++)
		right = data[i] == smoke_byte(seed, i);
	must(gpu4fs_close(file), path);
	free(data);
	return right;
}

static uint64_t bytes_of(uint32_t thread, uint32_t file)
{
	return file % 20 == 13 ? BIG_BYTES + thread * 4096 : smoke_bytes(thread, file);
}

/* ------------------------------------------------------------------ tree */

struct worker {
	pthread_t thread;
	gpu4fs *fs;
	uint32_t index;
};

static void run_workers(gpu4fs *fs, void *(*work)(void *))
{
	struct worker workers[THREADS];

	for (uint32_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.fs = fs, .index = i};
		check(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "threads");
	}
	for (uint32_t i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
}

static void *make_tree(void *argument)
{
	const struct worker *w = argument;
	char path[64], other[64];

	snprintf(path, sizeof(path), "/w%u", w->index);
	must(gpu4fs_mkdir(w->fs, NULL, path, 0755), path);
	for (uint32_t f = 0; f < FILES; f++) {
		snprintf(path, sizeof(path), "/w%u/f%u", w->index, f);
		write_file(w->fs, path, smoke_seed(w->index, f), bytes_of(w->index, f), f % 10 == 0);
		check(is_right(w->fs, path, smoke_seed(w->index, f), bytes_of(w->index, f)), path);
		snprintf(other, sizeof(other), "/w%u/g%u", w->index, f);
		if (smoke_is_removed(f))
			must(gpu4fs_unlink(w->fs, NULL, path), path);
		else if (smoke_is_renamed(f))
			must(gpu4fs_rename(w->fs, NULL, path, NULL, other, 0), path);
	}
	return NULL;
}

static void *check_tree(void *argument)
{
	const struct worker *w = argument;
	struct gpu4fs_stat stat;
	char path[64];

	for (uint32_t f = 0; f < FILES; f++) {
		snprintf(path, sizeof(path), "/w%u/%c%u", w->index,
			 smoke_is_renamed(f) && !smoke_is_removed(f) ? 'g' : 'f', f);
		if (smoke_is_removed(f))
			check(gpu4fs_stat(w->fs, NULL, path, &stat) < 0, "a removed file is there");
		else
			check(is_right(w->fs, path, smoke_seed(w->index, f), bytes_of(w->index, f)), path);
	}
	return NULL;
}

static void tree_first(void)
{
	gpu4fs *fs = mount(set.engine);

	run_workers(fs, make_tree);
	run_workers(fs, check_tree);
	must(gpu4fs_unmount(fs), "unmounting");
}

static void tree_cpu(void)
{
	gpu4fs *fs = mount("cpu");

	run_workers(fs, check_tree);
	write_file(fs, "/of the cpu", 99, BIG_BYTES, false);
	must(gpu4fs_unmount(fs), "unmounting");
}

static void tree_again(void)
{
	gpu4fs *fs = mount(set.engine);

	run_workers(fs, check_tree);
	check(is_right(fs, "/of the cpu", 99, BIG_BYTES), "what the CPU engine wrote");
	write_file(fs, "/of the cpu", 100, BIG_BYTES / 2, true);
	must(gpu4fs_unmount(fs), "unmounting");
}

static void tree_end(void)
{
	gpu4fs *fs = mount("cpu");

	run_workers(fs, check_tree);
	check(is_right(fs, "/of the cpu", 100, BIG_BYTES / 2), "what was written over it");
	must(gpu4fs_unmount(fs), "unmounting");
}

static bool tree(void)
{
	return run_child(make) && run_child(tree_first) && run_child(fsck) && run_child(tree_cpu) &&
	       run_child(tree_again) && run_child(fsck) && run_child(tree_end);
}

/* ------------------------------------------------------------------ kill */

static struct progress { /* shared by the processes */
	uint64_t synced[THREADS];
} * progress;

static uint64_t kill_bytes(uint64_t n)
{
	return n % 16 == 5 ? BIG_BYTES : n * 977 % 40000;
}

static void *write_on(void *argument)
{
	const struct worker *w = argument;
	char path[64];

	snprintf(path, sizeof(path), "/w%u", w->index);
	must(gpu4fs_mkdir(w->fs, NULL, path, 0755), path);
	for (uint64_t n = 0;; n++) {
		snprintf(path, sizeof(path), "/w%u/%llu", w->index, (unsigned long long)n);
		write_file(w->fs, path, w->index * 1000 + n, kill_bytes(n), true);
		g4_store64_rel(&progress->synced[w->index], n + 1);
	}
	return NULL;
}

static void kill_victim(void)
{
	run_workers(mount(set.engine), write_on);
}

static void *check_synced(void *argument)
{
	const struct worker *w = argument;
	char path[64];

	for (uint64_t n = 0; n < g4_load64_acq(&progress->synced[w->index]); n++) {
		snprintf(path, sizeof(path), "/w%u/%llu", w->index, (unsigned long long)n);
		check(is_right(w->fs, path, w->index * 1000 + n, kill_bytes(n)), path);
	}
	return NULL;
}

static void kill_check(void)
{
	gpu4fs *fs = mount("cpu");

	run_workers(fs, check_synced);
	must(gpu4fs_unmount(fs), "unmounting");
}

static uint64_t synced_files(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < THREADS; i++)
		sum += g4_load64_acq(&progress->synced[i]);
	return sum;
}

static bool kill_once(uint64_t after)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	int status;

	memset(progress, 0, sizeof(*progress));
	if (!run_child(make))
		return false;
	pid_t child = fork();
	if (child == 0) {
		kill_victim();
		_exit(1);
	}
	while (synced_files() < after && waitpid(child, &status, WNOHANG) == 0)
		nanosleep(&pause, NULL);
	if (synced_files() < after)
		return false;
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	printf("kill: %llu files were synced\n", (unsigned long long)synced_files());
	return run_child(kill_check) && run_child(fsck);
}

static bool kill_all(void)
{
	bool good = true;

	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(progress != MAP_FAILED, "memory");
	for (uint32_t k = 0; k < set.kills && good; k++)
		good = kill_once(20 + k * 137);
	return good;
}

/* ------------------------------------------------------------------ the engine's own interface */

static struct g4_engine *engine;
static struct g4_dev *fault;

static void mount_engine(bool faulty)
{
	const struct g4_dev_open_options open = {.flags = G4_DEV_EXCLUSIVE, .lane_queues = set.queues};
	struct g4_mount_options options = {
		.cache_bytes = 512 * G4_MIB, .commit_ms = 1000, .gpu_queues = faulty ? 0 : set.queues};
	struct g4_dev *dev;
	char message[256];

	must_g4(g4_engine_parse_kind(set.engine, &options.kind), set.engine);
	if (g4_dev_open(set.device, &open, &dev, message, sizeof(message)) < 0)
		die(message, 0);
	if (faulty) {
		must_g4(g4_dev_fault_open(dev, &fault), "the fault device");
		dev = fault;
	}
	if (g4_engine_mount_device(dev, &options, &engine, message, sizeof(message)) < 0)
		die(message, 0);
}

static uint64_t open_file(const char *name)
{
	struct g4_attr attr;
	struct g4_cmd cmd = {.op = G4_CMD_CREATE,
			     .node = G4_NODE_ROOT,
			     .name = name,
			     .name_bytes = (uint16_t)strlen(name),
			     .mode = S_IFREG | 0644,
			     .flags = G4_OPEN_READ | G4_OPEN_WRITE,
			     .attr = &attr};

	must_g4(g4_engine_execute(engine, &cmd), name);
	return cmd.handle;
}

static int transfer(uint32_t op, uint64_t handle, uint64_t offset, void *data, uint64_t bytes)
{
	struct g4_cmd cmd = {.op = op, .handle = handle, .offset = offset, .data = data, .length = bytes};
	int rc = g4_engine_execute(engine, &cmd);

	return rc == 0 && op != G4_CMD_FSYNC && cmd.value != bytes ? -G4_E_IO : rc;
}

/* Memory that commands use without a copy, where the engine has such. */
static void *allocate(uint64_t bytes)
{
	const struct g4_cuda_engine *cuda = g4_engine_cuda(engine);
	void *memory = cuda ? g4_ring_client_alloc(cuda->ring, bytes) : aligned_alloc(4096, bytes);

	check(memory != NULL, "memory");
	return memory;
}

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ------------------------------------------------------------------ gone */

static void gone_engine(void)
{
	uint64_t kept, lost;
	uint8_t *data;
	int rc = 0;

	mount_engine(true);
	data = allocate(PIECE);
	for (uint64_t i = 0; i < PIECE; i++)
		data[i] = smoke_byte(5, i);
	kept = open_file("kept");
	must_g4(transfer(G4_CMD_WRITE, kept, 0, data, PIECE), "writing");
	must_g4(transfer(G4_CMD_FSYNC, kept, 0, NULL, 0), "fsync");
	lost = open_file("lost");
	must_g4(g4_dev_fault_cut(fault), "cutting the power");
	for (int i = 0; i < 100 && rc == 0; i++) {
		rc = transfer(G4_CMD_WRITE, lost, (uint64_t)i * PIECE, data, PIECE);
		rc = rc < 0 ? rc : transfer(G4_CMD_FSYNC, lost, 0, NULL, 0);
	}
	check(rc < 0, "a write without a device succeeded");
	printf("gone: the write failed with: %s\n", g4_strerror(rc));
	double begin = seconds_now();
	rc = g4_engine_unmount(engine);
	printf("gone: unmounting took %.3f s: %s\n", seconds_now() - begin, g4_strerror(rc));
	check(rc < 0, "unmounting without a device succeeded");
}

static void gone_check(void)
{
	gpu4fs *fs = mount("cpu");

	check(is_right(fs, "/kept", 5, PIECE), "what was synced");
	must(gpu4fs_unmount(fs), "unmounting");
}

static bool gone(void)
{
	return run_child(make) && run_child(gone_engine) && run_child(gone_check) && run_child(fsck);
}

/* ------------------------------------------------------------------ speed */

struct stream {
	pthread_t thread;
	uint32_t op, index;
	uint64_t handle, bytes, piece;
	uint8_t *data;
	double cpu; /* of the client */
};

static double thread_cpu(void)
{
	struct timespec time;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double process_cpu(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
	       ((double)usage.ru_utime.tv_usec + (double)usage.ru_stime.tv_usec) / 1e6;
}

static void *run_stream(void *argument)
{
	struct stream *s = argument;
	double cpu = thread_cpu();

	for (uint64_t at = 0; at < s->bytes; at += s->piece) {
		if (s->op == G4_CMD_WRITE)
			((uint64_t *)s->data)[0] = at + s->index;
		must_g4(transfer(s->op, s->handle, at, s->data, s->piece), "a transfer");
		if (s->op == G4_CMD_READ)
			check(((uint64_t *)s->data)[0] == at + s->index, "other data than was written");
	}
	s->cpu = thread_cpu() - cpu;
	return NULL;
}

static void run_streams(struct stream *streams, uint32_t count, uint32_t op, const char *what)
{
	double cpu = process_cpu(), begin = seconds_now(), clients = 0;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < count; i++) {
		streams[i].op = op;
		check(pthread_create(&streams[i].thread, NULL, run_stream, &streams[i]) == 0, "threads");
	}
	for (uint32_t i = 0; i < count; i++) {
		pthread_join(streams[i].thread, NULL);
		bytes += streams[i].bytes;
		clients += streams[i].cpu;
	}
	for (uint32_t i = 0; i < count && op == G4_CMD_WRITE; i++)
		must_g4(transfer(G4_CMD_FSYNC, streams[i].handle, 0, NULL, 0), "fsync");
	double seconds = seconds_now() - begin;
	cpu = process_cpu() - cpu - clients;
	printf("%-28s %2u streams %8.2f GB/s, engine and agent %5.1f %% of a core\n", what, count,
	       (double)bytes / 1e9 / seconds, cpu / seconds * 100);
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void time_calls(struct stream *s, uint32_t op, const char *what)
{
	enum { CALLS = 1000 };
	double times[CALLS], cpu = process_cpu(), own = thread_cpu(), start = seconds_now();

	for (uint64_t i = 0; i < CALLS; i++) {
		uint64_t at = i * 7919 % (s->bytes / PIECE) * PIECE + 4096 * (1 + i % 500);
		double begin = seconds_now();
		must_g4(transfer(op, s->handle, at, s->data, 4096), what);
		if (op == G4_CMD_WRITE)
			must_g4(transfer(G4_CMD_FSYNC, s->handle, 0, NULL, 0), what);
		times[i] = (seconds_now() - begin) * 1e6;
	}
	double seconds = seconds_now() - start;
	cpu = process_cpu() - cpu - (thread_cpu() - own);
	qsort(times, CALLS, sizeof(times[0]), by_value);
	printf("%-28s p50 %8.1f us, p99 %8.1f us, engine and agent %5.1f %% of a core\n", what, times[CALLS / 2],
	       times[CALLS * 99 / 100], cpu / seconds * 100);
}

static void remount_for_speed(struct stream *streams, uint32_t count)
{
	char name[16];

	mount_engine(false);
	for (uint32_t i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "s%u", i);
		streams[i].handle = open_file(name);
		streams[i].data = allocate(PIECE);
	}
}

static void speed_engine(void)
{
	struct stream streams[THREADS] = {0};
	const struct timespec second = {.tv_sec = 1};

	for (uint32_t i = 0; i < THREADS; i++) {
		streams[i].index = i;
		streams[i].piece = PIECE;
		streams[i].bytes = g4_align_down(set.speed_bytes / THREADS, PIECE);
	}
	remount_for_speed(streams, THREADS);
	run_streams(streams, THREADS, G4_CMD_WRITE, "sequential write, new");
	run_streams(streams, THREADS, G4_CMD_WRITE, "sequential write, over it");
	must_g4(g4_engine_unmount(engine), "unmounting");
	remount_for_speed(streams, THREADS);
	run_streams(streams, THREADS, G4_CMD_READ, "sequential read, cold");
	run_streams(streams, 1, G4_CMD_READ, "sequential read");
	run_streams(streams, 1, G4_CMD_WRITE, "sequential write");
	time_calls(&streams[1], G4_CMD_READ, "4 KiB random read, cold");
	time_calls(&streams[2], G4_CMD_WRITE, "4 KiB overwrite and fsync");
	double cpu = process_cpu();
	nanosleep(&second, NULL);
	printf("%-28s %5.2f %% of a core\n", "idle", (process_cpu() - cpu) * 100);
	must_g4(g4_engine_unmount(engine), "unmounting");
}

static bool speed(void)
{
	return run_child(make) && run_child(speed_engine) && run_child(fsck);
}

/* ------------------------------------------------------------------ */

static const struct stage {
	const char *name;
	bool (*run)(void);
} stages[] = {{"tree", tree}, {"gone", gone}, {"kill", kill_all}, {"speed", speed}};

static bool is_wanted(const char *name, int count, char **wanted)
{
	for (int i = 0; i < count; i++)
		if (strcmp(wanted[i], name) == 0)
			return true;
	return count == 0;
}

int main(int argc, char **argv)
{
	int passed = 0, failed = 0;

	for (int option; (option = getopt(argc, argv, "e:m:r:g:q:")) != -1;) {
		if (option == 'e')
			set.engine = optarg;
		else if (option == 'm')
			set.create_bytes = strtoull(optarg, NULL, 10) * G4_MIB;
		else if (option == 'r')
			set.kills = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'q')
			set.queues = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'g')
			set.speed_bytes = strtoull(optarg, NULL, 10) * G4_GIB;
		else
			optind = argc;
	}
	if (optind >= argc) {
		fprintf(stderr,
			"usage: file [-e ENGINE] [-m SIZE_MIB] [-r KILLS] [-g GIB] [-q QUEUES] DEVICE [STAGE]...\n");
		return 1;
	}
	set.device = argv[optind++];
	for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
		if (!is_wanted(stages[i].name, argc - optind, argv + optind))
			continue;
		double begin = seconds_now();
		bool good = stages[i].run();
		printf("%s: %s, %.1f s\n", stages[i].name, good ? "good" : "FAILED", seconds_now() - begin);
		passed += good;
		failed += !good;
	}
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed ? 1 : 0;
}
