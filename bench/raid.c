/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The benchmarks of the RAID document (chapter 6) on any file system: behind system calls, in the directory TARGET, or gpu4fs through its
 * library in this process, on the device or the set TARGET, which has a file system. What the document varies as shader invocations is the
 * size of a call here. Prints a line for each value: figure, series, x, value, CPU seconds, kernel threads' seconds, with tabs between.
 *
 *	memory	MB/s	copy: memory to memory (the document's memory copy, 6.1): what no file system is faster than
 *	calls	MB/s	write, read: a new file in calls of x bytes with one fsync at the end, and read so, caches dropped before
 *	files	MB/s	N files: so many new ones, a thread each, 1 MiB a call, with an fsync of each; x bytes in all (6.4, 6.8, 6.13)
 *	small	MB/s	random read, random write: 4 KiB at pages in random order, each once, caches dropped before; writes end with one fsync
 *	small	us	fsync p50, fsync p99: a 4 KiB overwrite of a random page and its fsync; x is 4096 in this figure
 *
 * CPU seconds are this process's. Those of the kernel's threads are what all of them ran meanwhile (/proc/PID/schedstat), for whomever: of loop
 * devices, parity, write-back; 0 where they can not be seen. Before the first figure a file of the size that is measured is written and removed: a device that allocates has done so.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "gpu4fs/gpu4fs.h"

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define PAGE (4 * KIB)
#define POOL_BYTES (32 * MIB)
#define LONGEST_CALL (16 * MIB)
#define MOST_FILES 16u
#define MOST_SIZES 16u
#define MOST_THREADS 4096u
#define KERNEL_THREAD 0x00200000u /* PF_KTHREAD of /proc/PID/stat */

static const char usage[] = "usage: raid_bench [OPTION]... TARGET\n\n"
			    "TARGET is a directory, or a device or D0,D1,... with a gpu4fs file system.\n\n"
			    "  --parts=LIST       of memory,calls,files,small [all]\n"
			    "  --size=MIB         of what is written and read [256]\n"
			    "  --calls=LIST       KiB of a call [4,16,64,256,1024,4096]\n"
			    "  --files=LIST       files written at once [1,4,10]\n"
			    "  --ops=N            4 KiB reads and writes at random places [4096]\n"
			    "  --fsyncs=N         overwrites with an fsync each [200]\n"
			    "  --remount=COMMAND  unmounts and mounts a directory, to empty caches\n";

struct list {
	uint64_t values[MOST_SIZES];
	uint32_t count;
};

static struct {
	const char *target, *remount, *parts;
	bool is_device;
	uint64_t bytes;
	struct list calls, files;
	uint32_t ops, fsyncs;
} set = {
	.parts = "memory,calls,files,small",
	.bytes = 256 * MIB,
	.calls = {{4, 16, 64, 256, 1024, 4096}, 6},
	.files = {{1, 4, 10}, 3},
	.ops = 4096,
	.fsyncs = 200,
};

static gpu4fs *fs;    /* of a device */
static int root = -1; /* of a directory */
static uint8_t *pool, *buffer;

/* ------------------------------------------------------------------ files of either kind */

struct file {
	gpu4fs_file *ours; /* NULL: fd */
	int fd;
};

static void must(int64_t rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "raid_bench: %s: %s\n", what, strerror((int)-rc));
	exit(1);
}

static int64_t result(int64_t rc)
{
	return rc < 0 ? -errno : rc;
}

static struct file open_file(const char *name, bool make)
{
	const int flags = make ? O_RDWR | O_CREAT | O_EXCL : O_RDWR;
	struct file file = {NULL, -1};

	if (fs)
		must(gpu4fs_open(fs, NULL, name, flags, 0644, &file.ours), name);
	else
		must(file.fd = (int)result(openat(root, name, flags | O_CLOEXEC, 0644)), name);
	return file;
}

static void put(struct file file, const void *from, uint64_t bytes, uint64_t at)
{
	const int64_t done = file.ours ? gpu4fs_pwrite(file.ours, from, bytes, (int64_t)at) :
					 result(pwrite(file.fd, from, bytes, (off_t)at));

	must(done < 0 || (uint64_t)done == bytes ? done : -ENOSPC, "write");
}

static void get(struct file file, uint64_t bytes, uint64_t at)
{
	const int64_t done = file.ours ? gpu4fs_pread(file.ours, buffer, bytes, (int64_t)at) :
					 result(pread(file.fd, buffer, bytes, (off_t)at));

	must(done < 0 || (uint64_t)done == bytes ? done : -EIO, "read");
}

static void sync_file(struct file file)
{
	must(file.ours ? gpu4fs_fsync(file.ours) : result(fsync(file.fd)), "fsync");
}

static void close_file(struct file file)
{
	must(file.ours ? gpu4fs_close(file.ours) : result(close(file.fd)), "close");
}

static void remove_file(const char *name)
{
	must(fs ? gpu4fs_unlink(fs, NULL, name) : result(unlinkat(root, name, 0)), name);
}

static void start(void)
{
	if (set.is_device && gpu4fs_mount(&set.target, 1, NULL, &fs) < 0) {
		fprintf(stderr, "raid_bench: %s\n", gpu4fs_last_message());
		exit(1);
	}
	if (!set.is_device)
		must(root = (int)result(open(set.target, O_RDONLY | O_DIRECTORY | O_CLOEXEC)), set.target);
}

static void end(void)
{
	if (set.is_device)
		must(gpu4fs_unmount(fs), "unmount");
	else
		close(root);
	fs = NULL;
	root = -1;
}

/* Unmounts and mounts; behind system calls the kernel forgets what is left, if it lets us. */
static void drop_caches(void)
{
	end();
	if (!set.is_device) {
		sync();
		if (set.remount)
			must(system(set.remount) == 0 ? 0 : -EIO, set.remount);
		const int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
		if (fd >= 0) {
			must(result(write(fd, "3", 1)), "drop_caches");
			close(fd);
		}
	}
	start();
}

/* ------------------------------------------------------------------ measuring */

struct used {
	double wall, cpu, kernel; /* seconds */
};

/* What each of the kernel's threads had run when now() was called last. */
static struct thread {
	long id;
	uint64_t ns;
} threads[MOST_THREADS];
static uint32_t thread_count;

/* False: it is gone, or none of the kernel's. */
static bool read_thread(long id, struct thread *thread)
{
	unsigned long long ran;
	unsigned int flags;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/stat", id);
	FILE *file = fopen(path, "re");
	bool good =
		file && fscanf(file, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && (flags & KERNEL_THREAD);
	if (file)
		fclose(file);
	if (!good)
		return false;
	snprintf(path, sizeof(path), "/proc/%ld/schedstat", id);
	file = fopen(path, "re");
	good = file && fscanf(file, "%llu", &ran) == 1;
	if (file)
		fclose(file);
	*thread = (struct thread){id, ran};
	return good;
}

/* Calls visit() for each of them. */
static void each_thread(void (*visit)(const struct thread *thread, void *user), void *user)
{
	DIR *dir = opendir("/proc");
	struct thread thread;

	for (const struct dirent *entry; dir && (entry = readdir(dir));) {
		const long id = strtol(entry->d_name, NULL, 10);

		if (id > 0 && read_thread(id, &thread))
			visit(&thread, user);
	}
	if (dir)
		closedir(dir);
}

static void keep_thread(const struct thread *thread, void *user)
{
	(void)user;
	if (thread_count < MOST_THREADS)
		threads[thread_count++] = *thread;
}

static void add_thread(const struct thread *thread, void *user)
{
	uint64_t before = 0;

	for (uint32_t i = 0; i < thread_count; i++)
		if (threads[i].id == thread->id)
			before = threads[i].ns;
	*(double *)user += (double)(thread->ns - before) / 1e9;
}

/* The wall clock is read last here and first there: what reading the others takes is not measured. One measurement at a time. */
static struct used now(void)
{
	thread_count = 0;
	each_thread(keep_thread, NULL);
	const double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);

	return (struct used){seconds_of(CLOCK_MONOTONIC), cpu, 0};
}

static struct used since(struct used then)
{
	struct used used = {seconds_of(CLOCK_MONOTONIC) - then.wall, seconds_of(CLOCK_PROCESS_CPUTIME_ID) - then.cpu,
			    0};

	each_thread(add_thread, &used.kernel);
	return used;
}

static void print(const char *figure, const char *series, uint64_t x, double value, struct used used)
{
	printf("%s\t%s\t%llu\t%.6g\t%.4f\t%.4f\n", figure, series, (unsigned long long)x, value, used.cpu, used.kernel);
	fflush(stdout);
}

static void print_rate(const char *figure, const char *series, uint64_t x, uint64_t bytes, struct used used)
{
	print(figure, series, x, (double)bytes / 1e6 / used.wall, used);
}

static uint64_t next_random(uint64_t *random)
{
	uint64_t x = *random += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* Random bytes in another order for each place, so that nothing finds them equal. */
static const uint8_t *data_for(uint64_t bytes, uint64_t *random)
{
	return pool + next_random(random) % ((POOL_BYTES - bytes) / PAGE + 1) * PAGE;
}

/* ------------------------------------------------------------------ figures */

static void write_in_calls(struct file file, uint64_t bytes, uint64_t call)
{
	uint64_t random = bytes ^ call;

	for (uint64_t at = 0; at < bytes; at += call) {
		const uint64_t part = call < bytes - at ? call : bytes - at;

		put(file, data_for(part, &random), part, at);
	}
	sync_file(file);
}

static void read_in_calls(struct file file, uint64_t bytes, uint64_t call)
{
	for (uint64_t at = 0; at < bytes; at += call)
		get(file, call < bytes - at ? call : bytes - at, at);
}

static void bench_memory(void)
{
	const struct used then = now();
	uint64_t done = 0;

	for (uint64_t at = 0; done < set.bytes; done += LONGEST_CALL, at = (at + LONGEST_CALL) % POOL_BYTES)
		memcpy(buffer, pool + at, LONGEST_CALL);
	__asm__ volatile("" : : "r"(buffer) : "memory"); /* somebody might read it */
	print_rate("memory", "copy", 0, done, since(then));
}

static void bench_calls(void)
{
	for (uint32_t i = 0; i < set.calls.count; i++) {
		const uint64_t call = set.calls.values[i] * KIB;
		struct used then = now();
		struct file file = open_file("calls", true);

		write_in_calls(file, set.bytes, call);
		print_rate("calls", "write", call, set.bytes, since(then));
		close_file(file);
		drop_caches();
		file = open_file("calls", false);
		then = now();
		read_in_calls(file, set.bytes, call);
		print_rate("calls", "read", call, set.bytes, since(then));
		close_file(file);
		remove_file("calls");
	}
}

struct writer {
	pthread_t thread;
	char name[32];
	uint64_t bytes;
};

static void *write_one(void *argument)
{
	const struct writer *writer = argument;
	const struct file file = open_file(writer->name, true);

	write_in_calls(file, writer->bytes, MIB);
	close_file(file);
	return NULL;
}

static void write_files(uint32_t count, uint64_t bytes)
{
	struct writer writers[MOST_FILES];
	const struct used then = now();
	char series[32];

	for (uint32_t i = 0; i < count; i++) {
		writers[i].bytes = bytes / count / PAGE * PAGE;
		snprintf(writers[i].name, sizeof(writers[i].name), "file-%u", i);
		must(-pthread_create(&writers[i].thread, NULL, write_one, &writers[i]), "thread");
	}
	for (uint32_t i = 0; i < count; i++)
		must(-pthread_join(writers[i].thread, NULL), "thread");
	snprintf(series, sizeof(series), "%u file%s", count, count > 1 ? "s" : "");
	print_rate("files", series, bytes, writers[0].bytes * count, since(then));
	for (uint32_t i = 0; i < count; i++)
		remove_file(writers[i].name);
}

static void bench_files(void)
{
	for (uint32_t i = 0; i < set.files.count; i++)
		for (uint64_t bytes = set.bytes / 64; bytes <= set.bytes; bytes *= 8)
			write_files((uint32_t)set.files.values[i], bytes);
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static uint32_t *pages_in_random_order(uint32_t pages)
{
	uint32_t *order = malloc(pages * sizeof(*order));
	uint64_t random = 1;

	must(order ? 0 : -ENOMEM, "memory");
	for (uint32_t i = 0; i < pages; i++)
		order[i] = i;
	for (uint32_t i = pages; i > 1; i--) {
		const uint32_t j = (uint32_t)(next_random(&random) % i), kept = order[i - 1];

		order[i - 1] = order[j];
		order[j] = kept;
	}
	return order;
}

static void bench_fsyncs(struct file file, const uint32_t *order)
{
	double *took = malloc(set.fsyncs * sizeof(*took));
	const struct used then = now();
	uint64_t random = 2;

	must(took ? 0 : -ENOMEM, "memory");
	for (uint32_t i = 0; i < set.fsyncs; i++) {
		const double before = seconds_of(CLOCK_MONOTONIC);

		put(file, data_for(PAGE, &random), PAGE, order[i] * PAGE);
		sync_file(file);
		took[i] = (seconds_of(CLOCK_MONOTONIC) - before) * 1e6;
	}
	const struct used used = since(then);
	qsort(took, set.fsyncs, sizeof(*took), compare);
	print("small", "fsync p50", PAGE, took[set.fsyncs / 2], used);
	print("small", "fsync p99", PAGE, took[set.fsyncs * 99 / 100], used);
	free(took);
}

static void bench_small(void)
{
	uint32_t *order = pages_in_random_order((uint32_t)(set.bytes / PAGE));
	struct file file = open_file("small", true);
	uint64_t random = 3;

	write_in_calls(file, set.bytes, MIB);
	close_file(file);
	drop_caches();
	file = open_file("small", false);
	struct used then = now();
	for (uint32_t i = 0; i < set.ops; i++)
		get(file, PAGE, order[i] * PAGE);
	print_rate("small", "random read", PAGE, set.ops * PAGE, since(then));
	then = now();
	for (uint32_t i = 0; i < set.ops; i++)
		put(file, data_for(PAGE, &random), PAGE, order[i] * PAGE);
	sync_file(file);
	print_rate("small", "random write", PAGE, set.ops * PAGE, since(then));
	bench_fsyncs(file, order);
	close_file(file);
	remove_file("small");
	free(order);
}

/* ------------------------------------------------------------------ command line */

static void refuse(void)
{
	fputs(usage, stderr);
	exit(2);
}

static uint64_t number(const char *text, uint64_t most, char **rest)
{
	errno = 0;
	const unsigned long long value = strtoull(text, rest, 10);

	if (text[0] < '0' || text[0] > '9' || errno != 0 || value == 0 || value > most)
		refuse();
	return value;
}

static uint64_t only_number(const char *text, uint64_t most)
{
	char *rest;
	const uint64_t value = number(text, most, &rest);

	if (*rest != 0)
		refuse();
	return value;
}

static struct list numbers(char *text, uint64_t most)
{
	struct list list = {.count = 0};

	for (char *rest;; text = rest + 1) {
		if (list.count == MOST_SIZES)
			refuse();
		list.values[list.count++] = number(text, most, &rest);
		if (*rest == 0)
			return list;
		if (*rest != ',')
			refuse();
	}
}

static void read_options(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"parts", required_argument, NULL, 'p'},   {"size", required_argument, NULL, 's'},
		{"calls", required_argument, NULL, 'c'},   {"files", required_argument, NULL, 'f'},
		{"ops", required_argument, NULL, 'o'},	   {"fsyncs", required_argument, NULL, 'y'},
		{"remount", required_argument, NULL, 'r'}, {NULL, 0, NULL, 0}};

	for (int answer; (answer = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
		if (answer == 'p')
			set.parts = optarg;
		else if (answer == 's')
			set.bytes = only_number(optarg, 1 << 20) * MIB;
		else if (answer == 'c')
			set.calls = numbers(optarg, LONGEST_CALL / KIB);
		else if (answer == 'f')
			set.files = numbers(optarg, MOST_FILES);
		else if (answer == 'o')
			set.ops = (uint32_t)only_number(optarg, 1 << 20);
		else if (answer == 'y')
			set.fsyncs = (uint32_t)only_number(optarg, 1 << 20);
		else if (answer == 'r')
			set.remount = optarg;
		else
			refuse();
	}
	if (argc - optind != 1 || set.ops > set.bytes / PAGE || set.fsyncs > set.bytes / PAGE)
		refuse();
	set.target = argv[optind];
}

static bool wants(const char *part)
{
	char parts[128], whole[32];

	snprintf(parts, sizeof(parts), ",%s,", set.parts);
	snprintf(whole, sizeof(whole), ",%s,", part);
	return strstr(parts, whole) != NULL;
}

int main(int argc, char **argv)
{
	struct stat about;
	uint64_t random = 4;

	read_options(argc, argv);
	set.is_device = stat(set.target, &about) < 0 || !S_ISDIR(about.st_mode);
	pool = malloc(POOL_BYTES);
	buffer = malloc(LONGEST_CALL);
	must(pool && buffer ? 0 : -ENOMEM, "memory");
	for (uint64_t at = 0; at < POOL_BYTES; at += sizeof(uint64_t)) {
		const uint64_t word = next_random(&random);

		memcpy(pool + at, &word, sizeof(word));
	}
	memset(buffer, 1, LONGEST_CALL);
	start();
	const struct file file = open_file("first", true);
	write_in_calls(file, set.bytes, MIB);
	close_file(file);
	remove_file("first");
	if (wants("memory"))
		bench_memory();
	if (wants("calls"))
		bench_calls();
	if (wants("files"))
		bench_files();
	if (wants("small"))
		bench_small();
	end();
	return 0;
}
