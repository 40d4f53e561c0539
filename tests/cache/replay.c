/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hit ratios of a mount: replay_bench [--cache=PERCENT,...] [--tier=MIB] TRACE..., of traces that `gpu4fs trace record` has made.
 *
 * Makes every file of a trace in an image in memory, as large as the trace uses it, mounts that anew with a page cache of so many percent
 * of the pages that the trace uses (at least 2 MiB), and makes the accesses, one by one, in this thread. It prints what the engine has
 * counted (gpu4fs info): pages of files and of metadata that were wanted and found, and how many were not; and the seconds of processor
 * time. A page that the trace writes is written as a whole, so reads alone ask for pages that may not be there. Commits come by the clock,
 * so runs differ; the policy is that of the build.
 */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "client/client.h"
#include "trace/trace.h"

#define PAGE UINT64_C(4096)
#define MOST_SIZES 16
#define MOST_PAGES 256u /* of one call */

struct file {
	uint64_t number, pages;
	gpu4fs_file *open;
};

static struct file *files; /* by number */
static uint64_t file_count;
static uint8_t *buffer;

static void must(int64_t rc, const char *what)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "replay_bench: %s: %s\n", what, gpu4fs_strerror((int)rc));
	exit(1);
}

static int by_number(const void *a, const void *b)
{
	const struct file *left = a, *right = b;

	return (left->number > right->number) - (left->number < right->number);
}

static struct file *file_of(uint64_t number)
{
	const struct file key = {.number = number};

	return bsearch(&key, files, file_count, sizeof(*files), by_number);
}

static void list_files(const struct g4_trace *trace)
{
	uint64_t n = 0;

	files = calloc(trace->count + 1, sizeof(*files));
	if (!files)
		must(-ENOMEM, "files");
	for (uint64_t i = 0; i < trace->count; i++)
		files[i].number = trace->accesses[i].file;
	qsort(files, trace->count, sizeof(*files), by_number);
	for (uint64_t i = 0; i < trace->count; i++)
		if (n == 0 || files[n - 1].number != files[i].number)
			files[n++] = files[i];
	file_count = n;
	for (uint64_t i = 0; i < trace->count; i++) {
		struct file *file = file_of(trace->accesses[i].file);
		const uint64_t end = trace->accesses[i].page + trace->accesses[i].pages;
		if (file->pages < end)
			file->pages = end;
	}
}

static uint64_t used_pages(void)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < file_count; i++)
		sum += files[i].pages;
	return sum;
}

static gpu4fs *mount_with(const char *image, uint64_t cache_bytes, uint64_t tier_bytes,
			  const struct gpu4fs_mkfs_options *format)
{
	const struct gpu4fs_options options = {
		.size = sizeof(options), .cache_bytes = cache_bytes, .tier_bytes = tier_bytes, .format = format};
	gpu4fs *fs;

	if (gpu4fs_mount(&image, 1, &options, &fs) < 0) {
		fprintf(stderr, "replay_bench: %s\n", gpu4fs_last_message());
		exit(1);
	}
	return fs;
}

static void open_all(gpu4fs *fs)
{
	char name[64];

	for (uint64_t i = 0; i < file_count; i++) {
		snprintf(name, sizeof(name), "/%llu/%llu", (unsigned long long)(i / 256), (unsigned long long)i);
		must(gpu4fs_open(fs, NULL, name, O_RDWR | O_CREAT, 0600, &files[i].open), "open");
	}
}

static void close_all(void)
{
	for (uint64_t i = 0; i < file_count; i++)
		must(gpu4fs_close(files[i].open), "close");
}

static void access_pages(const struct file *file, uint64_t page, uint64_t pages, bool write)
{
	for (uint64_t n; pages > 0; page += n, pages -= n) {
		n = pages < MOST_PAGES ? pages : MOST_PAGES;
		const int64_t at = (int64_t)(page * PAGE);
		must(write ? gpu4fs_pwrite(file->open, buffer, n * PAGE, at) :
			     gpu4fs_pread(file->open, buffer, n * PAGE, at),
		     write ? "write" : "read");
	}
}

static void make_files(const char *image)
{
	const struct gpu4fs_mkfs_options format = {
		.size = sizeof(format), .flags = GPU4FS_MKFS_FORCE, .checksum = GPU4FS_CHECKSUM_NONE};
	gpu4fs *fs = mount_with(image, 0, 1, &format);
	char name[32];

	for (uint64_t i = 0; i * 256 < file_count; i++) {
		snprintf(name, sizeof(name), "/%llu", (unsigned long long)i);
		must(gpu4fs_mkdir(fs, NULL, name, 0700), "mkdir");
	}
	open_all(fs);
	for (uint64_t i = 0; i < file_count; i++)
		access_pages(&files[i], 0, files[i].pages, true);
	close_all();
	must(gpu4fs_unmount(fs), "unmount");
}

static double processor_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static struct g4_cache_use use_of(gpu4fs *fs)
{
	static struct g4_health health;
	struct g4_cmd cmd = {.op = G4_CMD_JOB_LIST, .length = sizeof(health), .data = &health};

	must(g4c_run(fs->mount->engine, &cmd), "counts");
	return health.cache;
}

/* Pages that took a line: missed, written anew, or read beside others. */
static uint64_t came_in(const struct g4_cache_use *use)
{
	return use->cold_misses + use->clean_misses + use->borrowed_lines;
}

static double percent(uint64_t hits, uint64_t misses)
{
	return hits + misses ? 100.0 * (double)hits / (double)(hits + misses) : 0;
}

static void replay(const char *name, const char *image, const struct g4_trace *trace, double share, uint64_t tier_bytes)
{
	uint64_t bytes = (uint64_t)((double)used_pages() * share / 100) * PAGE;

	if (bytes < UINT64_C(2) << 20)
		bytes = UINT64_C(2) << 20;
	gpu4fs *fs = mount_with(image, bytes, tier_bytes ? tier_bytes : 1, NULL);
	open_all(fs);
	const struct g4_cache_use before = use_of(fs);
	const double begin = processor_seconds();
	for (uint64_t i = 0; i < trace->count; i++)
		access_pages(file_of(trace->accesses[i].file), trace->accesses[i].page, trace->accesses[i].pages,
			     trace->accesses[i].write);
	const double seconds = processor_seconds() - begin;
	const struct g4_cache_use after = use_of(fs);
	const uint64_t data_hits = after.data_hits - before.data_hits,
		       hits = after.metadata_hits - before.metadata_hits;
	const uint64_t data_misses = after.data_misses - before.data_misses,
		       misses = after.metadata_misses - before.metadata_misses;
	printf("%s\t%g\t%.1f\t%.2f\t%.2f\t%llu\t%llu\t%llu\t%.2f\n", name, share, (double)bytes / (1 << 20),
	       percent(data_hits, data_misses), percent(hits, misses), (unsigned long long)data_misses,
	       (unsigned long long)misses, (unsigned long long)(came_in(&after) - came_in(&before)), seconds);
	fflush(stdout);
	close_all();
	must(gpu4fs_unmount(fs), "unmount");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"cache", required_argument, NULL, 'c'}, {"tier", required_argument, NULL, 't'}, {0}};
	double shares[MOST_SIZES] = {5, 10, 20, 40, 80};
	int share_count = 5;
	uint64_t tier_bytes = 0;

	for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (option == 'c') {
			share_count = 0;
			for (char *word = strtok(optarg, ","); word && share_count < MOST_SIZES;
			     word = strtok(NULL, ","))
				shares[share_count++] = atof(word);
		} else if (option == 't') {
			tier_bytes = strtoull(optarg, NULL, 10) << 20;
		} else {
			return 2;
		}
	}
	if (optind == argc || share_count == 0) {
		fprintf(stderr, "usage: replay_bench [--cache=PERCENT,...] [--tier=MIB] TRACE...\n");
		return 2;
	}
	buffer = aligned_alloc(PAGE, MOST_PAGES * PAGE);
	if (!buffer)
		return 1;
	memset(buffer, 1, MOST_PAGES * PAGE);
	printf("trace\tcache %%\tMiB\tdata hits %%\tmetadata hits %%\tdata misses\tmetadata misses\tpages in\tprocessor s\n");
	for (int t = optind; t < argc; t++) {
		struct g4_trace trace = {0};
		char message[G4_TRACE_MESSAGE_BYTES], image[64];
		FILE *in = fopen(argv[t], "rb");
		const int fd = memfd_create("replay", 0);
		if (!in || fd < 0 || g4_trace_read(in, &trace, message) < 0) {
			fprintf(stderr, "replay_bench: %s: %s\n", argv[t], in && fd >= 0 ? message : strerror(errno));
			return 1;
		}
		fclose(in);
		snprintf(image, sizeof(image), "/proc/self/fd/%d", fd);
		list_files(&trace);
		must(ftruncate(fd, (off_t)(used_pages() * PAGE * 2 + (UINT64_C(256) << 20))) ? -errno : 0, "image");
		make_files(image);
		for (int k = 0; k < share_count; k++)
			replay(argv[t], image, &trace, shares[k], tier_bytes);
		g4_trace_free(&trace);
		free(files);
		close(fd);
	}
	free(buffer);
	return 0;
}
