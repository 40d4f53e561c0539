/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs map: what filefrag(8) shows where there is FIEMAP, which FUSE does not pass on. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/cli.h"
#include "fuse/ioctl.h"
#include "print/report.h"

const char g4_help_map[] = "[--json] FILE...\n\n"
			   "Shows where files of a mounted file system lie: for each piece its offset in the file,\n"
			   "its length, its address on the device, all in bytes, and flags. Holes are left out.\n"
			   "A file is synced first.\n\n"
			   "  inline     in the inode, which is at this address\n"
			   "  unwritten  allocated and never written: it reads as zeros\n"
			   "  huge       pages of 2 MiB or more\n"
			   "  shared     another file has it, too, or another place of this one\n\n"
			   "      --json  print one JSON object\n"
			   "      --help  show this\n";

static const struct {
	uint32_t bit;
	const char *name;
} flags[] = {
	{G4_MAP_INLINE, "inline"}, {G4_MAP_UNWRITTEN, "unwritten"}, {G4_MAP_HUGE, "huge"}, {G4_MAP_SHARED, "shared"}};
#define FLAG_COUNT (sizeof(flags) / sizeof(flags[0]))

static bool failed(const char *path)
{
	g4_cli_error("map", "%s: %s", path, errno == ENOTTY ? "is on no gpu4fs file system" : g4_cli_why(errno));
	return false;
}

static void print_extent(struct g4_report *report, const struct g4_map_extent *extent)
{
	if (report->json) {
		g4_report_object(report, NULL);
		g4_report_count(report, "offset", extent->offset);
		g4_report_count(report, "length", extent->length);
		g4_report_count(report, "address", extent->address);
		g4_report_list(report, "flags");
		for (size_t i = 0; i < FLAG_COUNT; i++)
			if (extent->flags & flags[i].bit)
				g4_report_text(report, NULL, flags[i].name);
		g4_report_end(report);
		g4_report_end(report);
		return;
	}
	printf("%18llu %18llu %18llu", (unsigned long long)extent->offset, (unsigned long long)extent->length,
	       (unsigned long long)extent->address);
	for (size_t i = 0; i < FLAG_COUNT; i++)
		if (extent->flags & flags[i].bit)
			printf(" %s", flags[i].name);
	putchar('\n');
}

static bool print_extents(struct g4_report *report, int fd)
{
	static struct g4_ioc_map map;
	uint64_t next = 0;

	do {
		map.offset = next;
		if (ioctl(fd, G4_IOC_MAP, &map) != 0)
			return false;
		for (uint32_t i = 0; i < map.count && i < G4_IOC_MAP_EXTENTS; i++) {
			print_extent(report, &map.extents[i]);
			next = map.extents[i].offset + map.extents[i].length;
		}
	} while (map.count > 0);
	return true;
}

static bool print_file(struct g4_report *report, const char *path)
{
	const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return failed(path);
	bool good = fsync(fd) == 0 || errno == EROFS;
	if (report->json) {
		g4_report_object(report, NULL);
		g4_report_name(report, "path", path, strlen(path));
		g4_report_list(report, "extents");
	} else {
		g4_print_name(stdout, path, strlen(path));
		printf(":\n%18s %18s %18s flags\n", "offset", "length", "address");
	}
	good = good && print_extents(report, fd);
	if (report->json) {
		g4_report_end(report);
		g4_report_end(report);
	}
	if (!good)
		failed(path);
	close(fd);
	return good;
}

int g4_cli_map(int argc, char **argv)
{
	static const struct option long_options[] = {{"json", no_argument, NULL, 'j'}, {NULL, 0, NULL, 0}};
	struct g4_report report;
	bool json = false, good = true;

	for (int answer; (answer = getopt_long(argc, argv, ":", long_options, NULL)) != -1;) {
		if (answer != 'j')
			return g4_cli_bad_option("map", answer, argv);
		json = true;
	}
	if (optind == argc)
		return g4_cli_usage("map", "a file is needed");
	g4_report_start(&report, stdout, json);
	if (json)
		g4_report_list(&report, "files");
	for (int i = optind; i < argc; i++)
		good = print_file(&report, argv[i]) && good;
	if (json)
		g4_report_finish(&report);
	return good ? G4_EXIT_OK : G4_EXIT_FAILURE;
}
