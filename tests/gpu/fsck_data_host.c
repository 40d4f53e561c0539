/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fsck --data with sums made by the GPU: what it finds is what the threads alone find, in a file of large pages and in many of a few, on a
 * file or block device; and how long both take.
 *
 * Usage: fsck_data [-g GIB] DEVICE      GIB of contents (2). DEVICE is formatted; a file is created if it is not there.
 * Exit status: 0 good, 1 not, 77 there is no GPU.
 */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock_host.h"
#include "fsck/fsck.h"
#include "gpu/sums_host.h"
#include "gpu4fs/gpu4fs.h"

#define PIECE (16 * G4_MIB)
#define SMALL_FILES 2000u
#define THREADS 8u
#define DAMAGED 40u /* pages */

static uint64_t damaged[DAMAGED];

static void die(const char *what, const char *why)
{
	fprintf(stderr, "fsck_data: %s: %s\n", what, why);
	exit(1);
}

static void must(int64_t rc, const char *what)
{
	if (rc < 0)
		die(what, gpu4fs_strerror((int)rc));
}

static gpu4fs_file *make(gpu4fs *fs, const char *name, uint64_t bytes, const uint8_t *data)
{
	gpu4fs_file *file;

	must(gpu4fs_open(fs, NULL, name, O_RDWR | O_CREAT, 0644, &file), "open");
	for (uint64_t at = 0; at < bytes; at += PIECE)
		must(gpu4fs_pwrite(file, data, (size_t)g4_min64(PIECE, bytes - at), (int64_t)at), "write");
	must(gpu4fs_fsync(file), "fsync");
	return file;
}

static uint64_t place_of(gpu4fs_file *file, uint64_t page)
{
	struct gpu4fs_page_sum sum;

	if (gpu4fs_page_sums(file, (int64_t)(page * G4_PAGE_BYTES), &sum, 1) != 1 || sum.algorithm != 1)
		die("a page", "it has no sum by BLAKE3");
	return sum.address;
}

static void populate(const char *device, uint64_t bytes)
{
	const struct gpu4fs_mkfs_options options = {.size = sizeof(options),
						    .flags = GPU4FS_MKFS_FORCE,
						    .create_bytes = bytes + bytes / 8 + G4_GIB,
						    .checksum = GPU4FS_CHECKSUM_BLAKE3};
	uint8_t *data = aligned_alloc(G4_PAGE_BYTES, PIECE);
	gpu4fs_file *file;
	uint32_t n = 0;
	gpu4fs *fs;
	char name[32];

	if (!data)
		die("memory", "there is none");
	for (uint64_t i = 0; i < PIECE / 8; i++)
		((uint64_t *)(void *)data)[i] = (i + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ i >> 7;
	if (gpu4fs_mkfs(&device, 1, &options) < 0)
		die("mkfs", gpu4fs_last_message());
	if (gpu4fs_mount(&device, 1, NULL, &fs) < 0)
		die("mount", gpu4fs_last_message());
	for (uint32_t i = 0; i < SMALL_FILES; i++) { /* one to twenty pages */
		snprintf(name, sizeof(name), "/small%u", i);
		file = make(fs, name, (i % 20 + 1) * G4_PAGE_BYTES - i % 3 * 100, data + i % 50 * G4_PAGE_BYTES);
		if (i % 100 == 7)
			damaged[n++] = place_of(file, i % 20);
		must(gpu4fs_close(file), "close");
	}
	file = make(fs, "/large", bytes, data);
	for (uint64_t k = 0; n < DAMAGED; k++)
		damaged[n++] = place_of(file, (k * 7919 + k) % (bytes / G4_PAGE_BYTES));
	must(gpu4fs_close(file), "close");
	must(gpu4fs_unmount(fs), "unmount");
	free(data);
}

static void damage(const char *device)
{
	const int fd = open(device, O_RDWR | O_CLOEXEC);
	uint8_t byte;

	if (fd < 0)
		die(device, "can not be opened");
	for (uint32_t i = 0; i < DAMAGED; i++) {
		const off_t at = (off_t)(damaged[i] + i * 101);
		if (pread(fd, &byte, 1, at) != 1)
			die(device, "can not be read");
		byte ^= (uint8_t)(1u << i % 8);
		if (pwrite(fd, &byte, 1, at) != 1)
			die(device, "can not be written");
	}
	if (fsync(fd) < 0 || close(fd) < 0)
		die(device, "fsync");
}

struct outcome {
	char *text;
	uint64_t compared, damaged, beside;
	double seconds;
};

static struct outcome check(const char *device, struct g4_page_hasher *hasher)
{
	static struct g4_fsck fsck; /* too large for a stack */
	struct g4_journal_state journal;
	struct outcome outcome;
	struct g4_image image;
	char message[256];
	size_t bytes;

	memset(&fsck, 0, sizeof(fsck));
	fsck.out = open_memstream(&outcome.text, &bytes);
	fsck.printed_limit = UINT64_MAX;
	fsck.threads = THREADS;
	fsck.hasher = hasher;
	if (g4_image_open(&image, device, message, sizeof(message)) < 0)
		die("fsck", message);
	if (g4_image_load_overlay(&image, &journal) < 0 || g4_fsck_run(&fsck, &image, &journal) < 0)
		die("fsck", "the check could not be made");
	const uint64_t begin = g4_clock_ns(CLOCK_MONOTONIC);
	if (g4_fsck_data(&fsck) < 0)
		die("fsck", "contents could not be compared");
	outcome.seconds = (double)(g4_clock_ns(CLOCK_MONOTONIC) - begin) / 1e9;
	outcome.compared = fsck.data_compared;
	outcome.damaged = fsck.damaged_pages;
	outcome.beside = fsck.data_beside;
	if (fsck.problems > 0)
		die("fsck", "there is something wrong but contents");
	fclose(fsck.out);
	g4_fsck_free(&fsck);
	g4_image_close(&image);
	return outcome;
}

int main(int argc, char **argv)
{
	uint64_t bytes = 2 * G4_GIB;
	char why[256];
	int option;

	while ((option = getopt(argc, argv, "g:")) != -1) {
		if (option != 'g' || atoi(optarg) <= 0)
			return 2;
		bytes = (uint64_t)atoi(optarg) * G4_GIB;
	}
	if (optind != argc - 1) {
		fprintf(stderr, "usage: fsck_data [-g GIB] DEVICE\n");
		return 2;
	}
	struct g4_page_hasher *hasher = g4_gpu_sums_open(THREADS, bytes, true, why, sizeof(why));
	printf("%s\n", why);
	if (!hasher)
		return strstr(why, "there is no GPU") ? 77 : 1;
	populate(argv[optind], bytes);
	damage(argv[optind]);
	const struct outcome warm = check(argv[optind], NULL), alone = check(argv[optind], NULL),
			     with = check(argv[optind], hasher);
	g4_gpu_sums_close(hasher);
	printf("%u threads: %.2f s, %.1f GB/s; with the GPU: %.2f s, %.1f GB/s\n", THREADS, alone.seconds,
	       (double)bytes / 1e9 / alone.seconds, with.seconds, (double)bytes / 1e9 / with.seconds);
	printf("%llu pages compared, %llu by the GPU, %llu damaged\n", (unsigned long long)with.compared,
	       (unsigned long long)with.beside, (unsigned long long)with.damaged);
	if (strcmp(alone.text, with.text) != 0 || alone.compared != with.compared || alone.damaged != DAMAGED ||
	    with.damaged != DAMAGED || with.beside != with.compared) {
		printf("FAILED: the threads alone have compared %llu pages and found %llu damaged:\n%s\nwith the GPU:\n%s\n",
		       (unsigned long long)alone.compared, (unsigned long long)alone.damaged, alone.text, with.text);
		return 1;
	}
	char *texts[] = {warm.text, alone.text, with.text};
	for (uint32_t i = 0; i < 3; i++)
		free(texts[i]);
	(void)g4_gpu_sums_open(THREADS, 40 * G4_GIB, false, why,
			       sizeof(why)); /* what would be chosen here; it ends with us */
	printf("for 40 GiB: %s\n", why);
	return 0;
}
