/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the page cache gives up, in the second tier: tier_bench [--cache=MIB] [--tier=MIB] [--rounds=N] [--sums] IMAGE, which it formats, with BLAKE3 or without sums.
 *
 * A file of twice the page cache (64) is read twice, all pages of it in a random order, 4 KiB at a time; then in a row, 64 KiB at a time. By
 * turns with three ways to use memory: the page cache alone; with a tier below it (448), into which it gives pages up; and a page cache as
 * large as both. Each mount has a second pass of both kinds, which counts. It prints medians over the rounds in MB/s by the wall clock, and by
 * the thread's processor time.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu4fs/gpu4fs.h"

#define MIB (UINT64_C(1) << 20)
#define PAGE UINT64_C(4096)
#define MOST_ROUNDS 31
#define ROW_BYTES (16 * PAGE) /* of a read in a row */

enum way { ALONE, TIER, LARGE, WAYS };
enum kind { RANDOM, ROW, KINDS };
static const char *const way_names[WAYS] = {"cache alone", "cache and tier", "cache of both"};
static const char *const kind_names[KINDS] = {"random 4 KiB", "in a row, 64 KiB"};

struct rate {
	double wall, processor; /* MB/s */
};

static const char *image;
static uint64_t cache_bytes = 64 * MIB, tier_bytes = 448 * MIB;
static uint8_t *buffer;

static void must(int64_t rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "tier_bench: %s: %s\n", what, gpu4fs_strerror((int)rc));
	exit(1);
}

static double seconds_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static gpu4fs *mount_as(enum way way, const struct gpu4fs_mkfs_options *format)
{
	const struct gpu4fs_options options = {.size = sizeof(options),
					       .cache_bytes = way == LARGE ? cache_bytes + tier_bytes : cache_bytes,
					       .tier_bytes = way == TIER ? tier_bytes : 1,
					       .format = format};
	gpu4fs *fs;
	const int rc = gpu4fs_mount(&image, 1, &options, &fs);

	if (rc < 0) {
		fprintf(stderr, "tier_bench: %s\n", gpu4fs_last_message());
		exit(1);
	}
	return fs;
}

static uint64_t file_bytes(void)
{
	return 2 * cache_bytes;
}

static void write_file(uint32_t checksum)
{
	const struct gpu4fs_mkfs_options format = {.size = sizeof(format),
						   .flags = GPU4FS_MKFS_FORCE,
						   .create_bytes = file_bytes() + 256 * MIB,
						   .checksum = checksum};
	gpu4fs *fs = mount_as(ALONE, &format);
	gpu4fs_file *file;

	must(gpu4fs_open(fs, NULL, "/file", O_RDWR | O_CREAT, 0600, &file), "open");
	for (uint64_t at = 0; at < file_bytes(); at += MIB) {
		for (uint64_t k = 0; k < MIB / 8; k++)
			((uint64_t *)(void *)buffer)[k] = (at + k) * UINT64_C(0x9e3779b97f4a7c15);
		must(gpu4fs_pwrite(file, buffer, MIB, (int64_t)at), "write");
	}
	must(gpu4fs_close(file), "close");
	must(gpu4fs_unmount(fs), "unmount");
}

/* All pages once; a step that has no factor with the number of pages comes to each. */
static struct rate pass(gpu4fs_file *file, enum kind kind)
{
	const uint64_t bytes = kind == RANDOM ? PAGE : ROW_BYTES, count = file_bytes() / bytes;
	const double wall = seconds_of(CLOCK_MONOTONIC), processor = seconds_of(CLOCK_THREAD_CPUTIME_ID);

	for (uint64_t k = 0; k < count; k++) {
		const uint64_t at = (kind == RANDOM ? (k * 7919 + 13) % count : k) * bytes;
		must(gpu4fs_pread(file, buffer, bytes, (int64_t)at), "read");
		if (*(const uint64_t *)(const void *)buffer !=
		    (at / MIB * MIB + at % MIB / 8) * UINT64_C(0x9e3779b97f4a7c15)) {
			fprintf(stderr, "tier_bench: something else was read than written\n");
			exit(1);
		}
	}
	return (struct rate){(double)file_bytes() * 1e-6 / (seconds_of(CLOCK_MONOTONIC) - wall),
			     (double)file_bytes() * 1e-6 / (seconds_of(CLOCK_THREAD_CPUTIME_ID) - processor)};
}

static int by_value(const void *a, const void *b)
{
	const double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

static double median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(values[0]), by_value);
	return values[count / 2];
}

int main(int argc, char **argv)
{
	static double walls[WAYS][KINDS][MOST_ROUNDS], processors[WAYS][KINDS][MOST_ROUNDS];
	static const struct option options[] = {{"cache", required_argument, NULL, 'c'},
						{"tier", required_argument, NULL, 't'},
						{"rounds", required_argument, NULL, 'r'},
						{"sums", no_argument, NULL, 'k'},
						{0}};
	uint32_t checksum = GPU4FS_CHECKSUM_NONE;
	int rounds = 3;

	for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (option == 'c')
			cache_bytes = strtoull(optarg, NULL, 10) * MIB;
		else if (option == 't')
			tier_bytes = strtoull(optarg, NULL, 10) * MIB;
		else if (option == 'r')
			rounds = atoi(optarg);
		else if (option == 'k')
			checksum = GPU4FS_CHECKSUM_BLAKE3;
		else
			return 2;
	}
	if (optind + 1 != argc || cache_bytes < MIB || rounds < 1 || rounds > MOST_ROUNDS) {
		fprintf(stderr, "usage: tier_bench [--cache=MIB] [--tier=MIB] [--rounds=1..%d] [--sums] IMAGE\n",
			MOST_ROUNDS);
		return 2;
	}
	image = argv[optind];
	buffer = aligned_alloc(PAGE, MIB);
	if (!buffer)
		return 1;
	write_file(checksum);
	for (int round = 0; round < rounds; round++) {
		for (int way = 0; way < WAYS; way++) {
			gpu4fs *fs = mount_as((enum way)way, NULL);
			gpu4fs_file *file;
			must(gpu4fs_open(fs, NULL, "/file", O_RDONLY, 0, &file), "open");
			for (int kind = 0; kind < KINDS; kind++) {
				pass(file, (enum kind)kind);
				const struct rate rate = pass(file, (enum kind)kind);
				walls[way][kind][round] = rate.wall;
				processors[way][kind][round] = rate.processor;
			}
			must(gpu4fs_close(file), "close");
			must(gpu4fs_unmount(fs), "unmount");
		}
	}
	printf("a file of %llu MiB, page cache %llu MiB, tier %llu MiB; second pass, MB/s (by processor time)\n",
	       (unsigned long long)(file_bytes() / MIB), (unsigned long long)(cache_bytes / MIB),
	       (unsigned long long)(tier_bytes / MIB));
	for (int kind = 0; kind < KINDS; kind++)
		for (int way = 0; way < WAYS; way++)
			printf("%-17s %-15s %8.0f (%.0f)\n", kind_names[kind], way_names[way],
			       median(walls[way][kind], rounds), median(processors[way][kind], rounds));
	free(buffer);
	return 0;
}
