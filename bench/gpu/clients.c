/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eight client threads on a file system: what they get, and what the processors do for it. The file system is any that
 * is mounted, behind system calls, or gpu4fs through its library, in this process or connected to a server. Figures have
 * the names that tests/gpu/gpu_bench gives to its own, which are of the same operations, so that they can be compared:
 *
 *	stat	a path of two components that was just made: the time of one call, and the rate of all clients
 *	make	mknod() in turn in 64 directories of each client
 *	one	mknod() in one directory by one client, two, four and all, each time in a new one
 *	stream	64 files, eight of each client in turn, 2 MiB at a time from and into 64 MiB of the client's memory. Behind
 *		system calls once with O_DIRECT, and once through the page cache, where the time of writing includes the fsync
 *		of every file: without it nothing has been written anywhere. What is read from the page cache is in it.
 *	random	4 KiB at random places of one file that was read before
 *	dedup	if it is named: 64 files as in stream, all pages different, without deduplication and with it; the same pages in other
 *		files; and with one page in ten that is new. Each page gets its number before it is written, which is part of the time.
 *		What is read is compared, and what space it took is told.
 *
 * Rates of calls are those of --seconds seconds. Processor time includes the clients': with system calls and with the
 * CPU engine it is they who do the work.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "cpu_use.h"
#include "gpu4fs/gpu4fs.h"

#define CLIENTS 8u
#define DIRECTORIES 64u /* of a client */
#define FILES 8u	/* of a client */
#define STAT_FILES 64u
#define PIECE (UINT64_C(2) << 20)
#define PIECES 32u /* of a client's memory */
#define PAGE 4096u
#define PIECE_PAGES (PIECE / PAGE)
#define BATCH 64u /* names a call */
#define NAME_BYTES 32u
#define LEVELS 4000u
#define PATHS 5u	 /* of so many levels */
#define SAMPLES 2000000u /* of one call at a time, at most */

static const char usage[] =
	"usage: clients [OPTION]... TARGET [NAME]...\n\n"
	"TARGET is a directory. NAME is stat, make, one, stream, random or dedup; all of them but the last.\n\n"
	"  --engine=NAME   TARGET is a device, which libgpu4fs formats and mounts with this engine\n"
	"  --connect       TARGET is the socket of gpu4fs serve\n"
	"  --dedup         with --engine: what is formatted deduplicates\n"
	"  --server=PID    a server whose processor time counts as well\n"
	"  --file-mib=N    size of each of 64 files; the one for random reads has twice as much [256]\n"
	"  --names=N       what each of eight clients makes at most [60000]\n"
	"  --seconds=N     how long rates of calls are measured [2]\n"
	"  --output=FILE   writes JSON as well\n";

static struct settings {
	const char *target, *engine;
	bool connect, dedup;
	long server;
	uint64_t file_bytes, names;
	double seconds;
} set = {.file_bytes = UINT64_C(256) << 20, .names = 60000, .seconds = 2};

struct object { /* an open file or directory */
	int fd;
	gpu4fs_file *file;
};

struct client {
	pthread_t thread;
	uint32_t index;
	gpu4fs *fs; /* NULL: system calls */
	struct object root;
	struct object directories[DIRECTORIES], files[FILES], random;
	uint8_t *memory;
	bool sync;	 /* files are synced after writing */
	double deadline; /* for what has no other end */
	uint64_t most;	 /* names in one directory */
	uint32_t fresh;	 /* dedup: of so many pages one is new; 0: none */
	uint64_t salt;	 /* and what tells it from others */
	uint64_t done;
	int error;
};

static struct client clients[CLIENTS];
static FILE *json;

static void must(int64_t rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "clients: %s: %s\n", what, strerror((int)-rc));
	exit(1);
}

static void number_of(const char *text, uint64_t most, uint64_t *out)
{
	char *end;

	*out = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end != 0 || *out == 0 || *out > most) {
		fputs(usage, stderr);
		exit(2);
	}
}

/* ------------------------------------------------------------------ one call, either way */

static int64_t result(int64_t rc)
{
	return rc < 0 ? -errno : rc;
}

static int64_t do_mkdir(struct client *c, const char *path)
{
	return c->fs ? gpu4fs_mkdir(c->fs, NULL, path, 0755) : result(mkdirat(c->root.fd, path, 0755));
}

static int64_t do_mknod(struct client *c, const struct object *at, const char *name)
{
	return c->fs ? gpu4fs_mknod(c->fs, at->file, name, S_IFREG | 0644, 0) :
		       result(mknodat(at->fd, name, S_IFREG | 0644, 0));
}

/* Many new names, or what many names lead to: one call where there is one. */
static int64_t do_many(struct client *c, const struct object *at, bool make, char (*names)[NAME_BYTES])
{
	struct gpu4fs_batch_entry entries[BATCH];
	struct gpu4fs_stat stats[BATCH];
	struct stat theirs;
	int64_t rc = 0;

	for (uint32_t k = 0; k < BATCH && !c->fs && rc >= 0; k++)
		rc = make ? result(mknodat(at->fd, names[k], S_IFREG | 0644, 0)) :
			    result(fstatat(at->fd, names[k], &theirs, 0));
	if (!c->fs)
		return rc;
	for (uint32_t k = 0; k < BATCH; k++)
		entries[k] = (struct gpu4fs_batch_entry){.op = make ? GPU4FS_BATCH_CREATE : GPU4FS_BATCH_STAT,
							 .mode = 0644,
							 .path = names[k],
							 .stat = make ? NULL : &stats[k]};
	rc = gpu4fs_batch(c->fs, at->file, entries, BATCH, 0);
	for (uint32_t k = 0; k < BATCH && rc >= 0 && rc < BATCH; k++)
		rc = entries[k].result < 0 ? entries[k].result : rc;
	return rc;
}

/* Directories one in the other, named "d". */
static int64_t do_deep(struct client *c, const char *top, uint32_t levels)
{
	char *path = malloc(strlen(top) + 2 * levels + 1);
	int64_t rc = path ? 0 : -ENOMEM;

	if (path && c->fs) {
		strcpy(path, top);
		for (uint32_t k = 1; k < levels; k++)
			strcat(path + strlen(top) + 2 * (k - 1), "/d");
		rc = gpu4fs_mkdir_all(c->fs, NULL, path, 0755, NULL);
	}
	for (int fd = c->root.fd, k = 0; path && !c->fs && rc >= 0 && k < (int)levels; k++) {
		const char *name = k == 0 ? top : "d";
		rc = result(mkdirat(fd, name, 0755));
		const int below = rc < 0 ? -1 : openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		rc = rc < 0 ? rc : result(below);
		if (fd != c->root.fd)
			close(fd);
		fd = below;
		if (k + 1 == (int)levels && below >= 0)
			close(below);
	}
	free(path);
	return rc;
}

static int64_t do_stat(struct client *c, const char *path)
{
	struct gpu4fs_stat ours;
	struct stat theirs;

	return c->fs ? gpu4fs_stat(c->fs, NULL, path, &ours) : result(fstatat(c->root.fd, path, &theirs, 0));
}

static int64_t do_open(struct client *c, const char *path, int flags, struct object *out)
{
	if (c->fs)
		return gpu4fs_open(c->fs, NULL, path, flags, 0644, &out->file);
	out->fd = openat(c->root.fd, path, flags | O_CLOEXEC, 0644);
	return result(out->fd);
}

static int64_t do_close(struct client *c, struct object *object)
{
	return c->fs ? gpu4fs_close(object->file) : result(close(object->fd));
}

static int64_t do_unlink(struct client *c, const char *path)
{
	return c->fs ? gpu4fs_unlink(c->fs, NULL, path) : result(unlinkat(c->root.fd, path, 0));
}

static int64_t do_fsync(struct client *c, struct object *object)
{
	return c->fs ? gpu4fs_fsync(object->file) : result(fsync(object->fd));
}

static int64_t do_pread(struct client *c, struct object *object, void *to, uint64_t bytes, uint64_t at)
{
	int64_t got = c->fs ? gpu4fs_pread(object->file, to, bytes, (int64_t)at) :
			      result(pread(object->fd, to, bytes, (off_t)at));

	return got >= 0 && got != (int64_t)bytes ? -EIO : got;
}

static int64_t do_pwrite(struct client *c, struct object *object, const void *from, uint64_t bytes, uint64_t at)
{
	int64_t put = c->fs ? gpu4fs_pwrite(object->file, from, bytes, (int64_t)at) :
			      result(pwrite(object->fd, from, bytes, (off_t)at));

	return put >= 0 && put != (int64_t)bytes ? -EIO : put;
}

/* ------------------------------------------------------------------ figures */

static int rows;

/* how: what else distinguishes it; NULL: nothing. */
static void report(const char *metric, const char *unit, double value, const char *how, const struct cpu_use *use)
{
	printf("%-42s %12.3f %-5s %-9s cores: %6.2f own, %6.2f all\n", metric, value, unit, how ? how : "",
	       use->own / use->wall, use->busy / use->wall);
	fflush(stdout);
	if (!json)
		return;
	fprintf(json,
		"%s\n {\"metric\": \"%s\", \"unit\": \"%s\", \"value\": %.6g, \"how\": \"%s\", \"seconds\": %.4f, "
		"\"cpu_seconds\": %.4f, \"busy_seconds\": %.4f}",
		rows++ ? "," : "[", metric, unit, value, how ? how : "", use->wall, use->own, use->busy);
	fflush(json);
}

static double server_seconds(void)
{
	unsigned long user, system;
	char path[64];
	int fields;
	FILE *file;

	if (set.server == 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%ld/stat", set.server);
	file = fopen(path, "re");
	must(file ? 0 : -errno, "the server");
	/* its name in brackets has no spaces */
	fields = fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
	fclose(file);
	must(fields == 2 ? 0 : -EINVAL, "the server");
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

/* Before a measurement: what earlier ones left to be written is written. */
static struct cpu_use begin(void)
{
	struct cpu_use use;

	if (!clients[0].fs)
		must(result(syncfs(clients[0].root.fd)), "syncfs");
	use = cpu_use_now();
	use.own += server_seconds();
	return use;
}

static struct cpu_use end(const struct cpu_use *start)
{
	struct cpu_use use = cpu_use_since(start);

	use.own += server_seconds();
	return use;
}

/* So many clients at once: the sum of what they did. */
static uint64_t run_some(uint32_t count, void *(*work)(void *), const char *what, struct cpu_use *use)
{
	const struct cpu_use start = begin();
	uint64_t done = 0;

	for (uint32_t i = 0; i < count; i++) {
		clients[i].done = 0;
		clients[i].error = 0;
		clients[i].deadline = start.wall + set.seconds;
		must(-pthread_create(&clients[i].thread, NULL, work, &clients[i]), "a thread");
	}
	for (uint32_t i = 0; i < count; i++)
		pthread_join(clients[i].thread, NULL);
	*use = end(&start);
	for (uint32_t i = 0; i < count; i++) {
		must(clients[i].error, what);
		done += clients[i].done;
	}
	return done;
}

static uint64_t run_all(void *(*work)(void *), const char *what, struct cpu_use *use)
{
	return run_some(CLIENTS, work, what, use);
}

/* False from time to time: looking at the clock is dear where calls are cheap. */
static bool goes_on(const struct client *c)
{
	return c->done % 32 != 0 || cpu_use_wall() < c->deadline;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* One call at a time of the first client. */
static void latency(int64_t (*call)(struct client *), const char *metric, bool with_p99)
{
	static double us[SAMPLES];
	struct client *c = &clients[0];
	const struct cpu_use start = begin();
	char name[64];

	c->deadline = start.wall + 1;
	for (c->done = 0; c->done < SAMPLES && (c->done == 0 || goes_on(c)); c->done++) {
		double before = cpu_use_wall();
		must(call(c), metric);
		us[c->done] = (cpu_use_wall() - before) * 1e6;
	}
	const struct cpu_use use = end(&start);
	qsort(us, c->done, sizeof(us[0]), by_value);
	snprintf(name, sizeof(name), "%s, depth 1, p50", metric);
	report(name, "us", us[c->done / 2], NULL, &use);
	if (!with_p99)
		return;
	snprintf(name, sizeof(name), "%s, depth 1, p99", metric);
	report(name, "us", us[c->done * 99 / 100], NULL, &use);
}

/* ------------------------------------------------------------------ stat, make */

static int64_t stat_one(struct client *c)
{
	char path[32];

	snprintf(path, sizeof(path), "s%u/f%u", c->index, (unsigned)(c->done * 7 % STAT_FILES));
	return do_stat(c, path);
}

static void *stat_all(void *argument)
{
	struct client *c = argument;

	while (c->error == 0 && goes_on(c)) {
		c->error = (int)stat_one(c);
		c->done++;
	}
	return NULL;
}

static void bench_stat(void)
{
	struct cpu_use use;
	char path[32];

	for (uint32_t i = 0; i < CLIENTS; i++) {
		snprintf(path, sizeof(path), "s%u", i);
		must(do_mkdir(&clients[i], path), path);
		for (unsigned f = 0; f < STAT_FILES; f++) {
			snprintf(path, sizeof(path), "s%u/f%u", i, f);
			must(do_mknod(&clients[i], &clients[i].root, path), path);
		}
	}
	latency(stat_one, "stat of a cached path", true);
	uint64_t done = run_all(stat_all, "stat", &use);
	report("stat of a cached path, 8 clients", "M/s", (double)done / 1e6 / use.wall, NULL, &use);
}

static void *make_all(void *argument)
{
	struct client *c = argument;
	char name[32];

	while (c->error == 0 && c->done < set.names && (c->done == 0 || goes_on(c))) {
		snprintf(name, sizeof(name), "n%u", (unsigned)c->done);
		c->error = (int)do_mknod(c, &c->directories[c->done % DIRECTORIES], name);
		c->done++;
	}
	return NULL;
}

/* In one directory, names of its own. */
static void *one_all(void *argument)
{
	struct client *c = argument;
	char name[32];

	while (c->error == 0 && c->done < c->most && (c->done == 0 || goes_on(c))) {
		snprintf(name, sizeof(name), "n%u.%u", c->index, (unsigned)c->done);
		c->error = (int)do_mknod(c, &c->directories[0], name);
		c->done++;
	}
	return NULL;
}

static void bench_one(void)
{
	struct cpu_use use;
	char path[32], metric[64];

	for (uint32_t count = 1; count <= CLIENTS; count *= 2) {
		snprintf(path, sizeof(path), "one%u", count);
		must(do_mkdir(&clients[0], path), path);
		for (uint32_t i = 0; i < count; i++) {
			clients[i].most = 1 + set.names / count;
			must(do_open(&clients[i], path, O_RDONLY | O_DIRECTORY, &clients[i].directories[0]), path);
		}
		const uint64_t done = run_some(count, one_all, "mknod", &use);
		snprintf(metric, sizeof(metric), "create in one directory, %u client%s", count, count == 1 ? "" : "s");
		report(metric, "M/s", (double)done / 1e6 / use.wall, NULL, &use);
		for (uint32_t i = 0; i < count; i++)
			must(do_close(&clients[i], &clients[i].directories[0]), "close");
	}
}

static void *many_all(void *argument)
{
	struct client *c = argument;
	char names[BATCH][NAME_BYTES];

	while (c->error >= 0 && c->done < set.names && (c->done == 0 || goes_on(c))) {
		for (uint32_t k = 0; k < BATCH; k++)
			snprintf(names[k], NAME_BYTES, "b%u", (unsigned)c->done + k);
		c->error = (int)do_many(c, &c->directories[c->done / BATCH % DIRECTORIES], true, names);
		c->done += BATCH;
	}
	c->error = c->error > 0 ? 0 : c->error;
	return NULL;
}

/* The first names of the first directory, again and again. */
static void *look_all(void *argument)
{
	struct client *c = argument;
	char names[BATCH][NAME_BYTES];

	for (uint32_t k = 0; k < BATCH; k++)
		snprintf(names[k], NAME_BYTES, "b%u", k);
	while (c->error >= 0 && (c->done == 0 || goes_on(c))) {
		c->error = (int)do_many(c, &c->directories[0], false, names);
		c->done += BATCH;
	}
	c->error = c->error > 0 ? 0 : c->error;
	return NULL;
}

static void bench_many(void)
{
	struct cpu_use use;
	char top[32];
	uint64_t done = run_all(many_all, "a batch", &use);

	report("create, 64 names a call, 8 clients", "M/s", (double)done / 1e6 / use.wall, NULL, &use);
	done = run_all(look_all, "a batch", &use);
	report("stat, 64 names a call, 8 clients", "M/s", (double)done / 1e6 / use.wall, NULL, &use);
	const struct cpu_use start = begin();
	for (uint32_t k = 0; k < PATHS; k++) {
		snprintf(top, sizeof(top), "deep%u", k);
		must(do_deep(&clients[0], top, LEVELS), top);
	}
	use = end(&start);
	report("a path of 4 000 directories is made", "ms", use.wall * 1e3 / PATHS, NULL, &use);
}

static void bench_make(void)
{
	struct cpu_use use;
	char path[32];

	for (uint32_t i = 0; i < CLIENTS; i++) {
		for (uint32_t d = 0; d < DIRECTORIES; d++) {
			snprintf(path, sizeof(path), "m%u.%u", i, d);
			must(do_mkdir(&clients[i], path), path);
			must(do_open(&clients[i], path, O_RDONLY | O_DIRECTORY, &clients[i].directories[d]), path);
		}
	}
	uint64_t done = run_all(make_all, "mknod", &use);
	report("create in many directories, 8 clients", "M/s", (double)done / 1e6 / use.wall, NULL, &use);
	bench_many();
	for (uint32_t i = 0; i < CLIENTS; i++)
		for (uint32_t d = 0; d < DIRECTORIES; d++)
			must(do_close(&clients[i], &clients[i].directories[d]), "close");
}

/* ------------------------------------------------------------------ data */

static uint64_t pattern(const struct client *c, uint64_t word)
{
	return word * UINT64_C(0x9e3779b97f4a7c15) + c->index;
}

static void *write_all(void *argument)
{
	struct client *c = argument;

	for (uint64_t i = 0; c->error >= 0 && i < FILES * set.file_bytes / PIECE; i++)
		c->error = (int)do_pwrite(c, &c->files[i % FILES], c->memory + i % PIECES * PIECE, PIECE,
					  i / FILES * PIECE);
	for (uint32_t f = 0; c->error >= 0 && c->sync && f < FILES; f++)
		c->error = (int)do_fsync(c, &c->files[f]);
	return NULL;
}

static void *read_all(void *argument)
{
	struct client *c = argument;

	for (uint64_t i = 0; c->error >= 0 && i < FILES * set.file_bytes / PIECE; i++)
		c->error = (int)do_pread(c, &c->files[i % FILES], c->memory + i % PIECES * PIECE, PIECE,
					 i / FILES * PIECE);
	return NULL;
}

static void report_stream(const char *verb, const char *how, const struct cpu_use *use)
{
	char metric[64];

	if (set.file_bytes % (1 << 30) == 0)
		snprintf(metric, sizeof(metric), "%s 64 files of %u GiB", verb, (unsigned)(set.file_bytes >> 30));
	else
		snprintf(metric, sizeof(metric), "%s 64 files of %u MiB", verb, (unsigned)(set.file_bytes >> 20));
	report(metric, "GB/s", (double)(CLIENTS * FILES * set.file_bytes) / 1e9 / use->wall, how, use);
}

static void stream(int flags, const char *how)
{
	struct cpu_use use;
	char path[32];

	for (uint32_t i = 0; i < CLIENTS; i++) {
		struct client *c = &clients[i];
		for (uint32_t f = 0; f < FILES; f++) {
			snprintf(path, sizeof(path), "b%u.%u", i, f);
			must(do_open(c, path, O_RDWR | O_CREAT | O_EXCL | flags, &c->files[f]), path);
		}
		for (uint64_t k = 0; k < PIECES * PIECE / 8; k++)
			((uint64_t *)c->memory)[k] = pattern(c, k);
		c->sync = !c->fs && !(flags & O_DIRECT);
	}
	run_all(write_all, "writing", &use);
	report_stream("write", how, &use);
	for (uint32_t i = 0; i < CLIENTS; i++)
		memset(clients[i].memory, 0, PIECES * PIECE);
	run_all(read_all, "reading", &use);
	report_stream("read", how, &use);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		struct client *c = &clients[i];
		/* the pieces repeat; each place was read, unless all files together are smaller */
		for (uint64_t k = 0; k < PIECES * PIECE / 8 && k < FILES * set.file_bytes / 8; k += 511)
			must(((uint64_t *)c->memory)[k] == pattern(c, k) ? 0 : -EIO, "other data than was written");
		for (uint32_t f = 0; f < FILES; f++) {
			must(do_close(c, &c->files[f]), "close");
			snprintf(path, sizeof(path), "b%u.%u", i, f);
			must(do_unlink(c, path), path);
		}
	}
}

static void bench_stream(void)
{
	if (clients[0].fs) {
		stream(0, NULL);
		return;
	}
	stream(O_DIRECT, "O_DIRECT");
	stream(0, "buffered");
}

/* ------------------------------------------------------------------ pages that are there already */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* What the first word of a page of piece i of a client is: no two pages of all clients have the same one, but by their numbers. */
static uint64_t number_of_page(const struct client *c, uint64_t i, uint64_t k)
{
	const uint64_t pages = CLIENTS * FILES * set.file_bytes / PAGE;
	const uint64_t page = (c->index * FILES * set.file_bytes / PIECE + i) * PIECE_PAGES + k;

	return mix(1 + page + (c->fresh && page % c->fresh == 0 ? c->salt * pages : 0));
}

static void *write_numbered(void *argument)
{
	struct client *c = argument;

	for (uint64_t i = 0; c->error >= 0 && i < FILES * set.file_bytes / PIECE; i++) {
		uint8_t *piece = c->memory + i % PIECES * PIECE;
		for (uint64_t k = 0; k < PIECE_PAGES; k++)
			*(uint64_t *)(void *)(piece + k * PAGE) = number_of_page(c, i, k);
		c->error = (int)do_pwrite(c, &c->files[i % FILES], piece, PIECE, i / FILES * PIECE);
	}
	for (uint32_t f = 0; c->error >= 0 && c->sync && f < FILES; f++)
		c->error = (int)do_fsync(c, &c->files[f]);
	return NULL;
}

static void *read_numbered(void *argument)
{
	struct client *c = argument;

	for (uint64_t i = 0; c->error >= 0 && i < FILES * set.file_bytes / PIECE; i++) {
		uint64_t *piece = (uint64_t *)(void *)(c->memory + i % PIECES * PIECE);
		c->error = (int)do_pread(c, &c->files[i % FILES], piece, PIECE, i / FILES * PIECE);
		for (uint64_t k = 0; c->error >= 0 && k < PIECE_PAGES; k++)
			if (piece[k * (PAGE / 8)] != number_of_page(c, i, k) ||
			    piece[k * (PAGE / 8) + 511] != pattern(c, i % PIECES * (PIECE / 8) + k * (PAGE / 8) + 511))
				c->error = -EILSEQ; /* other data than was written */
	}
	return NULL;
}

static uint64_t free_bytes(struct client *c)
{
	struct gpu4fs_statfs ours;
	struct statvfs theirs;

	if (c->fs) {
		must(gpu4fs_syncfs(c->fs), "syncfs");
		must(gpu4fs_statfs(c->fs, &ours), "statfs");
		return ours.blocks_free * ours.block_bytes;
	}
	must(result(syncfs(c->root.fd)), "syncfs");
	must(result(fstatvfs(c->root.fd, &theirs)), "statfs");
	return theirs.f_bfree * theirs.f_frsize;
}

static void numbered(const char *how, uint32_t phase, int flags, uint32_t fresh, bool stays)
{
	struct cpu_use use, reading;
	char path[32];

	for (uint32_t i = 0; i < CLIENTS; i++) {
		struct client *c = &clients[i];
		for (uint32_t f = 0; f < FILES; f++) {
			snprintf(path, sizeof(path), "d%u.%u.%u", phase, i, f);
			must(do_open(c, path, O_RDWR | O_CREAT | O_EXCL | (c->fs ? flags : 0), &c->files[f]), path);
		}
		for (uint64_t k = 0; k < PIECES * PIECE / 8; k++)
			((uint64_t *)c->memory)[k] = pattern(c, k);
		c->sync = !c->fs;
		c->fresh = fresh;
		c->salt = phase;
	}
	const uint64_t before = free_bytes(&clients[0]);
	run_all(write_numbered, "writing", &use);
	report_stream("write", how, &use);
	const double took = (double)(before - free_bytes(&clients[0]));
	report("space that they take", "%", 100 * took / (double)(CLIENTS * FILES * set.file_bytes), how, &use);
	for (uint32_t i = 0; i < CLIENTS; i++)
		memset(clients[i].memory, 0, PIECES * PIECE);
	run_all(read_numbered, "reading", &reading);
	report_stream("read", how, &reading);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		for (uint32_t f = 0; f < FILES; f++) {
			must(do_close(&clients[i], &clients[i].files[f]), "close");
			snprintf(path, sizeof(path), "d%u.%u.%u", phase, i, f);
			if (!stays)
				must(do_unlink(&clients[i], path), path);
		}
	}
}

static void bench_dedup(void)
{
	numbered("sums", 0, GPU4FS_O_NODEDUP, 0, false);
	numbered("new", 1, GPU4FS_O_DEDUP, 0, true);
	numbered("known", 2, GPU4FS_O_DEDUP, 0, false);
	numbered("90 known", 3, GPU4FS_O_DEDUP, 10, false);
}

/* ------------------------------------------------------------------ small reads */

static int64_t read_one(struct client *c)
{
	uint64_t x = (c->done + c->index * UINT64_C(1000003)) * UINT64_C(0x9e3779b97f4a7c15);

	return do_pread(c, &c->random, c->memory + c->done % 1024 * PAGE, PAGE,
			(x >> 20) % (2 * set.file_bytes / PAGE) * PAGE);
}

static void *random_all(void *argument)
{
	struct client *c = argument;

	while (c->error >= 0 && (c->done == 0 || goes_on(c))) {
		c->error = (int)read_one(c);
		c->done++;
	}
	return NULL;
}

static void bench_random(void)
{
	const uint64_t part = 128 * 1024; /* small enough to go through every cache */
	struct cpu_use use;

	for (uint32_t i = 0; i < CLIENTS; i++)
		must(do_open(&clients[i], "random", O_RDWR | O_CREAT, &clients[i].random), "random");
	for (uint64_t at = 0; at < 2 * set.file_bytes; at += part)
		must(do_pwrite(&clients[0], &clients[0].random, clients[0].memory, part, at), "writing");
	for (uint64_t at = 0; at < 2 * set.file_bytes; at += part)
		must(do_pread(&clients[0], &clients[0].random, clients[0].memory, part, at), "reading");
	latency(read_one, "4 KiB cached read", false);
	uint64_t done = run_all(random_all, "reading", &use);
	report("4 KiB random read, 8 host clients", "M/s", (double)done / 1e6 / use.wall, NULL, &use);
	for (uint32_t i = 0; i < CLIENTS; i++)
		must(do_close(&clients[i], &clients[i].random), "close");
}

/* ------------------------------------------------------------------ from start to end */

static const struct bench {
	const char *name;
	void (*run)(void);
	bool named; /* only if it is */
} benches[] = {{"stat", bench_stat, false},	{"make", bench_make, false},	 {"one", bench_one, false},
	       {"random", bench_random, false}, {"stream", bench_stream, false}, {"dedup", bench_dedup, true}};
#define BENCHES (sizeof(benches) / sizeof(benches[0]))

static void open_library(struct client *c)
{
	const struct gpu4fs_mkfs_options format = {.size = sizeof(format),
						   .flags = GPU4FS_MKFS_FORCE | (set.dedup ? GPU4FS_MKFS_DEDUP : 0)};
	const struct gpu4fs_options options = {
		.size = sizeof(options), .engine = set.engine, .cache_bytes = 8 * set.file_bytes, .format = &format};
	int rc = 0;

	if (set.connect)
		rc = gpu4fs_connect(set.target, NULL, &c->fs);
	else if (c->index == 0)
		rc = gpu4fs_mount(&set.target, 1, &options, &c->fs);
	else
		c->fs = clients[0].fs;
	if (rc < 0) {
		fprintf(stderr, "clients: %s\n", gpu4fs_last_message());
		exit(1);
	}
}

static void open_all(void)
{
	for (uint32_t i = 0; i < CLIENTS; i++) {
		struct client *c = &clients[i];
		c->index = i;
		c->memory = aligned_alloc(PAGE, PIECES * PIECE);
		must(c->memory ? 0 : -ENOMEM, "memory");
		memset(c->memory, (int)i + 1, PIECES * PIECE);
		if (set.connect || set.engine) {
			open_library(c);
			continue;
		}
		c->root.fd = open(set.target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		must(result(c->root.fd), set.target);
	}
}

static void close_all(void)
{
	for (uint32_t i = 0; i < CLIENTS; i++) {
		if (!clients[i].fs)
			close(clients[i].root.fd);
		else if (set.connect || i == 0)
			must(gpu4fs_unmount(clients[i].fs), "unmounting");
		free(clients[i].memory);
	}
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{"engine", required_argument, NULL, 'e'},   {"connect", no_argument, NULL, 'c'},
		{"dedup", no_argument, NULL, 'd'},	    {"server", required_argument, NULL, 'p'},
		{"file-mib", required_argument, NULL, 'f'}, {"seconds", required_argument, NULL, 's'},
		{"names", required_argument, NULL, 'n'},    {"output", required_argument, NULL, 'o'},
		{"help", no_argument, NULL, 'h'},	    {NULL, 0, NULL, 0}};
	uint64_t number;

	for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		switch (option) {
		case 'e':
			set.engine = optarg;
			break;
		case 'c':
			set.connect = true;
			break;
		case 'd':
			set.dedup = true;
			break;
		case 'p':
			number_of(optarg, 1 << 30, &number);
			set.server = (long)number;
			break;
		case 'f':
			number_of(optarg, 1 << 20, &number);
			set.file_bytes = ((number + 1) & ~UINT64_C(1)) << 20; /* whole pieces */
			break;
		case 'n':
			number_of(optarg, 1 << 20, &set.names);
			break;
		case 's':
			number_of(optarg, 1000, &number);
			set.seconds = (double)number;
			break;
		case 'o':
			json = fopen(optarg, "we");
			must(json ? 0 : -errno, optarg);
			break;
		default:
			fputs(usage, option == 'h' ? stdout : stderr);
			exit(option == 'h' ? 0 : 2);
		}
	}
	if (optind >= argc) {
		fputs(usage, stderr);
		exit(2);
	}
	set.target = argv[optind++];
}

static bool is_wanted(const struct bench *bench, char **wanted, int count)
{
	for (int i = 0; i < count; i++)
		if (strcmp(wanted[i], bench->name) == 0)
			return true;
	return count == 0 && !bench->named;
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	open_all();
	for (size_t b = 0; b < BENCHES; b++)
		if (is_wanted(&benches[b], argv + optind, argc - optind))
			benches[b].run();
	close_all();
	if (json) {
		fputs(rows ? "\n]\n" : "[]\n", json);
		must(fclose(json) == 0 ? 0 : -errno, "the output");
	}
	return 0;
}
