/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories by size, through the library in this process: names_bench [--least=N] [--most=N] [--cache=MIB] DEVICE, which it formats (`mem:8G`).
 *
 * For --least (1000), ten times as many, ... names, up to --most, random ones of 16 bytes: so many directories that there are 200 000 names at least; all are
 * made, looked up in an order that has nothing to do with that, and removed. Of each it prints millions a second, by the wall clock
 * and, for a busy machine, of the thread's processor time, and of a directory the bytes of its pages for each name, with their part of
 * 1.5 * (name + 24), which are wanted at most. No rate should fall by more than half from the first to the last.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "gpu4fs/gpu4fs.h"

#define LEAST 200000u /* names a row */
#define NAME_BYTES 16u

static gpu4fs *fs;

static void must(int64_t rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "names_bench: %s: %s\n", what, gpu4fs_strerror((int)rc));
	exit(1);
}

/* A bijection of 64 bits (splitmix64's), so that names are random and none comes twice. */
static void name_of(uint64_t k, char name[NAME_BYTES + 1])
{
	k += UINT64_C(0x9e3779b97f4a7c15);
	k = (k ^ k >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	k = (k ^ k >> 27) * UINT64_C(0x94d049bb133111eb);
	snprintf(name, NAME_BYTES + 1, "%016llx", (unsigned long long)(k ^ k >> 31));
}

enum what { MAKE, LOOK_UP, REMOVE };

/* All names of some directories; rates by the wall and by the processor's clock, in millions a second. */
static void pass(enum what what, gpu4fs_file **directories, uint64_t count, uint64_t names)
{
	const double wall = seconds_of(CLOCK_MONOTONIC), processor = seconds_of(CLOCK_THREAD_CPUTIME_ID);
	char name[NAME_BYTES + 1];
	struct gpu4fs_stat stat;

	for (uint64_t d = 0; d < count; d++)
		for (uint64_t k = 0; k < names; k++) {
			/* a step that has no factor with powers of ten */
			name_of(what == MAKE ? k : (k * 7919 + 13) % names, name);
			if (what == MAKE)
				must(gpu4fs_mknod(fs, directories[d], name, S_IFREG | 0600, 0), "mknod");
			else if (what == LOOK_UP)
				must(gpu4fs_lstat(fs, directories[d], name, &stat), "stat");
			else
				must(gpu4fs_unlink(fs, directories[d], name), "unlink");
		}
	const double all = (double)(count * names) * 1e-6;
	printf(" %8.3f %8.3f", all / (seconds_of(CLOCK_MONOTONIC) - wall),
	       all / (seconds_of(CLOCK_THREAD_CPUTIME_ID) - processor));
	fflush(stdout);
}

static void row(uint64_t names)
{
	const uint64_t count = names < LEAST ? LEAST / names : 1;
	gpu4fs_file **directories = calloc(count, sizeof(*directories));
	struct gpu4fs_stat stat;
	char path[64];

	if (directories == NULL)
		must(-ENOMEM, "memory");
	for (uint64_t d = 0; d < count; d++) {
		snprintf(path, sizeof(path), "/%llu.%llu", (unsigned long long)names, (unsigned long long)d);
		must(gpu4fs_mkdir(fs, NULL, path, 0700), path);
		must(gpu4fs_open(fs, NULL, path, O_RDONLY | O_DIRECTORY, 0, &directories[d]), path);
	}
	printf("%9llu", (unsigned long long)names);
	pass(MAKE, directories, count, names);
	must(gpu4fs_fstat(directories[0], &stat), "stat");
	pass(LOOK_UP, directories, count, names);
	pass(REMOVE, directories, count, names);
	printf(" %7.1f %5.2f\n", (double)stat.size / (double)names,
	       (double)stat.size / (double)names / (1.5 * (NAME_BYTES + 24)));
	for (uint64_t d = 0; d < count; d++) {
		snprintf(path, sizeof(path), "/%llu.%llu", (unsigned long long)names, (unsigned long long)d);
		must(gpu4fs_close(directories[d]), "close");
		must(gpu4fs_rmdir(fs, NULL, path), path);
	}
	free(directories);
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {{"least", required_argument, NULL, 'l'},
						     {"most", required_argument, NULL, 'm'},
						     {"cache", required_argument, NULL, 'c'},
						     {NULL, 0, NULL, 0}};
	const struct gpu4fs_mkfs_options format = {.size = sizeof(format), .flags = GPU4FS_MKFS_FORCE};
	struct gpu4fs_options options = {.size = sizeof(options), .format = &format, .cache_bytes = UINT64_C(1) << 30};
	uint64_t least = 1000, most = 1000000;

	for (int answer; (answer = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
		if (answer == 'l')
			least = strtoull(optarg, NULL, 10);
		else if (answer == 'm')
			most = strtoull(optarg, NULL, 10);
		else if (answer == 'c')
			options.cache_bytes = strtoull(optarg, NULL, 10) << 20;
		else
			return 2;
	}
	if (argc - optind != 1 || least == 0) {
		fprintf(stderr, "usage: names_bench [--least=N] [--most=N] [--cache=MIB] DEVICE, which is formatted\n");
		return 2;
	}
	const char *device = argv[optind];
	if (gpu4fs_mount(&device, 1, &options, &fs) < 0) {
		fprintf(stderr, "names_bench: %s\n", gpu4fs_last_message());
		return 1;
	}
	printf("    names   made/us  of cpu  found/us  of cpu  gone/us  of cpu bytes of what is wanted\n");
	for (uint64_t names = least; names <= most; names *= 10)
		row(names);
	must(gpu4fs_unmount(fs), "unmount");
	return 0;
}
