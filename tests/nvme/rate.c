/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads of a device at random places by one thread, through the engine's own device layer: `nvme:ADDRESS` is the engine's driver, a
 * block device of the same drive the kernel's with io_uring. Nothing is written, unless -w says so.
 *
 * Usage: nvme_rate [-s SECONDS] [-b BYTES] [-d DEPTH] [-w trim|fill] DEVICE
 *   -w     discards or overwrites all of the device first: what it holds is gone
 * Prints: device, bytes of a read, depth, reads/s, then µs of a read: processor time (user's, kernel's). Of a drive also how long a waiter polls,
 * and how many sleeps there were for each read. In the end, whether the device was trimmed or filled first, and what it held before the reads.
 */
#define _GNU_SOURCE 1
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/memory_host.h"
#include "base/thread_host.h"
#include "dev/before_host.h"
#include "dev/dev_host.h"
#include "dev/nvme/device_host.h"
#include "dev/nvme/waking_host.h"
#include "simt/simt_host.h"

#define DEPTH_MOST 64u

static double seconds = 2;
static uint64_t read_bytes = 4096;
static uint32_t depth = 1;

static void die(const char *what)
{
	fprintf(stderr, "nvme_rate: %s\n", what);
	exit(1);
}

static double microseconds(const struct timeval *from, const struct timeval *to)
{
	return (double)(to->tv_sec - from->tv_sec) * 1e6 + (double)(to->tv_usec - from->tv_usec);
}

/* How many reads were done; the oldest one is waited for. */
static uint64_t read_for_a_while(struct g4_dev *dev, uint8_t *memory)
{
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_iov iov[DEPTH_MOST];
	struct g4_io io[DEPTH_MOST];
	const uint64_t until = g4_monotonic_ns() + (uint64_t)(seconds * 1e9);
	uint64_t done = 0, random = 1;
	bool more = true;

	if (!wg)
		die("out of memory");
	for (uint64_t n = 0; more || n % depth != 0; n++) {
		const uint32_t i = n % depth;

		if (n >= depth && (g4_dev_wait(wg, dev, &io[i]) < 0 || !++done))
			die("a read failed");
		more = more && g4_monotonic_ns() < until;
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
		iov[i] = (struct g4_iov){.base = memory + i * read_bytes, .bytes = read_bytes};
		io[i] = (struct g4_io){.op = G4_IO_READ,
				       .offset_bytes = (random >> 33) % (g4_dev_props(dev)->size_bytes / read_bytes) *
						       read_bytes,
				       .iov = &iov[i],
				       .iov_count = 1};
		g4_dev_submit(wg, dev, &io[i]);
	}
	for (uint32_t i = 0; i < depth; i++, done++)
		if (g4_dev_wait(wg, dev, &io[i]) < 0)
			die("a read failed");
	g4_wg_destroy(wg);
	return done;
}

/* All of it, with what no drive can compress. */
static void prepare(struct g4_dev *dev, const char *how)
{
	const uint64_t bytes = g4_dev_props(dev)->size_bytes;
	uint64_t *memory = g4_memory_map(G4_MIB), random = 1;
	struct g4_io discard = {.op = G4_IO_DISCARD, .discard_bytes = bytes};

	if (!memory)
		die("out of memory");
	if (strcmp(how, "trim") == 0) {
		if (!g4_dev_props(dev)->discard)
			die("the device does not discard");
		g4_dev_submit(NULL, dev, &discard);
		if (g4_dev_wait(NULL, dev, &discard) < 0)
			die("a discard failed");
	} else {
		for (uint64_t at = 0; at < bytes; at += G4_MIB) {
			for (uint32_t i = 0; i < G4_MIB / sizeof(*memory); i++)
				memory[i] = random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
			if (g4_dev_write(NULL, dev, at, memory, g4_min64(G4_MIB, bytes - at), 0) < 0)
				die("a write failed");
		}
	}
	if (g4_dev_flush(NULL, dev) < 0)
		die("a flush failed");
	g4_memory_unmap(memory, G4_MIB);
}

int main(int argc, char **argv)
{
	struct g4_dev_open_options options = {.flags = G4_DEV_READ_ONLY};
	const char *how = NULL;
	uint32_t zeros;
	char before_text[G4_BEFORE_TEXT_BYTES];
	struct rusage before, after;
	struct g4_dev *dev;
	char text[256] = "";

	for (int c; (c = getopt(argc, argv, "s:b:d:w:")) != -1;) {
		if (c == 's')
			seconds = strtod(optarg, NULL);
		else if (c == 'b')
			read_bytes = strtoull(optarg, NULL, 10);
		else if (c == 'd')
			depth = (uint32_t)strtoul(optarg, NULL, 10);
		else if (c == 'w')
			how = optarg;
		else
			return 2;
	}
	if (argc != optind + 1 || seconds <= 0 || depth == 0 || depth > DEPTH_MOST || read_bytes < 512 ||
	    read_bytes > G4_MIB || read_bytes % 512 != 0)
		die("one DEVICE, SECONDS above 0, BYTES a multiple of 512 up to 1 MiB, DEPTH up to 64");
	if (how && strcmp(how, "trim") != 0 && strcmp(how, "fill") != 0)
		die("-w takes trim or fill");
	if (how)
		options.flags = G4_DEV_EXCLUSIVE;
	if (g4_dev_open(argv[optind], &options, &dev, text, sizeof(text)) < 0)
		die(text);
	if (read_bytes % g4_dev_props(dev)->sector_bytes != 0 || g4_dev_props(dev)->size_bytes < read_bytes)
		die("the device has larger sectors, or is smaller");
	uint8_t *memory = g4_memory_map(depth * read_bytes);
	if (!memory)
		die("out of memory");
	memset(memory, 1, depth * read_bytes);
	if (how)
		prepare(dev, how);
	if (g4_dev_look_before(NULL, dev, G4_BEFORE_PLACES, &zeros) < 0)
		die("a read failed");
	getrusage(RUSAGE_SELF, &before);
	const uint64_t begin = g4_monotonic_ns(), reads = read_for_a_while(dev, memory);
	const double ns = (double)(g4_monotonic_ns() - begin);
	getrusage(RUSAGE_SELF, &after);
	const double user = microseconds(&before.ru_utime, &after.ru_utime) / (double)reads;
	const double kernel = microseconds(&before.ru_stime, &after.ru_stime) / (double)reads;
	printf("%-20s  %7ju  %2u  %8.0f reads/s  %7.1f us of processor time each (%.1f, %.1f)", argv[optind],
	       (uintmax_t)read_bytes, depth, (double)reads * 1e9 / ns, user + kernel, user, kernel);
	const struct g4_nvme *nvme = g4_nvme_of(dev);
	if (nvme)
		printf("  polls %.0f us, %.2f sleeps each", (double)nvme->poll_ns / 1e3,
		       (double)g4_nvme_waits_of(nvme).sleeps / (double)reads);
	printf("  %s: %s\n",
	       !how			? "as it was" :
	       strcmp(how, "trim") == 0 ? "trimmed first" :
					  "filled first",
	       g4_dev_say_before(zeros, G4_BEFORE_PLACES, before_text));
	g4_memory_unmap(memory, depth * read_bytes);
	g4_dev_close(dev);
	return 0;
}
