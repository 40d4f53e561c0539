/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs info and gpu4fs df. */
#include <errno.h>
#include <getopt.h>
#include <mntent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/units_host.h"
#include "base/uuid_host.h"
#include "cli/cli.h"
#include "cli/health.h"
#include "cli/layout.h"
#include "cli/show.h"
#include "client/explain.h"
#include "fs/probe_host.h"
#include "fuse/fuse.h"
#include "space/set_host.h"

const char g4_help_info[] = "[--json | --udev] DEVICE...|DIRECTORY\n\n"
			    "Shows the superblock of the file system on DEVICE or mounted at DIRECTORY, and what\n"
			    "runs a mounted one.\n\n"
			    "      --json  print one JSON object\n"
			    "      --udev  print what udev rules import, ID_FS_TYPE=gpu4fs and so on; nothing, and\n"
			    "              status 1, when the device holds something else\n"
			    "      --help  show this\n";

const char g4_help_df[] = "[--json] [-b|-h] [DEVICE|DIRECTORY]...\n\n"
			  "Shows how much space is used, of mounted file systems and of images that are not\n"
			  "mounted. Without an argument: of all mounted gpu4fs file systems.\n\n"
			  "  -b, --bytes           sizes in bytes\n"
			  "  -h, --human-readable  sizes with units, as without -b\n"
			  "      --json            print one JSON object\n"
			  "      --help            show this\n";

enum { OPTION_JSON = 256, OPTION_UDEV };
static const struct option long_options[] = {
	{"json", no_argument, NULL, OPTION_JSON},
	{"udev", no_argument, NULL, OPTION_UDEV},
	{"bytes", no_argument, NULL, 'b'},
	{"human-readable", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static int parse(const char *command, const char *letters, int argc, char **argv, bool *json, bool *bytes, bool *udev)
{
	for (int answer; (answer = getopt_long(argc, argv, letters, long_options, NULL)) != -1;) {
		if (answer == OPTION_JSON)
			*json = true;
		else if (answer == 'b' && bytes != NULL)
			*bytes = true;
		else if (answer == 'h' && bytes != NULL)
			*bytes = false;
		else if (answer == OPTION_UDEV && udev != NULL)
			*udev = true;
		else
			return g4_cli_bad_option(command, answer, argv);
	}
	return 0;
}

struct space { /* of one file system */
	char device[4096], directory[4096];
	uint64_t bytes, used, free;
};

/* Free pages as the group descriptors count them, the journal's word included. */
static int count_free(struct g4_image *image, uint64_t *pages)
{
	const struct g4_layout *layout = &image->layout;
	struct g4_groups_page page;
	int status = 0;

	*pages = 0;
	for (uint64_t first = 0; status == 0 && first < layout->group_count; first += G4_GROUPS_PER_PAGE) {
		status = g4_image_block(image, g4_layout_groups_page(layout, first), G4_BLOCK_GROUPS, &page);
		if (status == 0)
			status = g4_groups_page_validate(&page, first, layout->group_count);
		for (uint64_t i = 0; status == 0 && i < G4_GROUPS_PER_PAGE && first + i < layout->group_count; i++)
			*pages += page.groups[i].free_pages;
	}
	return status;
}

static int image_space(const char *name, struct space *space, char *message, size_t bytes)
{
	struct g4_image image;
	struct g4_journal_state journal;
	uint64_t pages = 0;
	g4_fuse_wait_for_last_mount(name); /* umount(8) does not */
	int status = g4_image_open(&image, name, message, bytes);

	if (status < 0)
		return status;
	status = g4_image_load_overlay(&image, &journal);
	if (status == 0)
		status = count_free(&image, &pages);
	if (status < 0) {
		snprintf(message, bytes, "%s: %s", name, g4_strerror(status));
	} else {
		snprintf(space->device, sizeof(space->device), "%s", name);
		space->directory[0] = 0;
		/* as statfs(2) of a mount has it: journal, maps and superblocks do not count */
		space->bytes = image.layout.backup_address - image.layout.data_address;
		space->free = g4_min64(pages * G4_PAGE_BYTES, space->bytes);
		space->used = space->bytes - space->free;
	}
	g4_image_close(&image);
	return status;
}

static int mount_space(const char *directory, const char *device, struct space *space, char *message, size_t bytes)
{
	struct statvfs found;

	if (statvfs(directory, &found) != 0) {
		snprintf(message, bytes, "%s: %s", directory, g4_cli_why(errno));
		return -G4_E_IO;
	}
	snprintf(space->device, sizeof(space->device), "%s", device);
	snprintf(space->directory, sizeof(space->directory), "%s", directory);
	space->bytes = found.f_blocks * found.f_frsize;
	space->free = found.f_bfree * found.f_frsize;
	space->used = space->bytes - g4_min64(space->free, space->bytes);
	return 0;
}

static int find_space(const char *name, struct space *space, char *message, size_t bytes)
{
	char device[4096];
	struct stat found;

	errno = 0;
	if (stat(name, &found) == 0 && S_ISDIR(found.st_mode)) {
		if (g4_probe_mount_source(name, false, device, sizeof(device)))
			return mount_space(name, device, space, message, bytes);
		snprintf(message, bytes, "%s: is on no gpu4fs file system", name);
		return -G4_E_INVAL;
	}
	if (g4_fuse_has_ended(errno)) { /* its directory */
		snprintf(message, bytes, "%s: %s", name, g4_cli_why(errno));
		return -G4_E_IO;
	}
	return image_space(name, space, message, bytes);
}

struct table {
	struct g4_report report;
	bool exact;  /* bytes */
	bool titled; /* for people: the columns have been named, which is done when there is something in them */
};

static void print_titles(struct table *table)
{
	if (!table->titled && !table->report.json)
		printf("%-24s %14s %14s %14s %5s %s\n", "device", "size", "used", "free", "use%", "mounted on");
	table->titled = true;
}

static void print_space(struct table *table, const struct space *space)
{
	struct g4_report *report = &table->report;
	const uint64_t percent = space->bytes == 0 ? 0 : (space->used * 100 + space->bytes - 1) / space->bytes;
	char size[24], used[24], available[24];

	if (report->json) {
		g4_report_object(report, NULL);
		g4_report_text(report, "device", space->device);
		if (space->directory[0] != 0)
			g4_report_text(report, "directory", space->directory);
		g4_report_count(report, "size_bytes", space->bytes);
		g4_report_count(report, "used_bytes", space->used);
		g4_report_count(report, "free_bytes", space->free);
		g4_report_end(report);
		return;
	}
	print_titles(table);
	if (table->exact) {
		snprintf(size, sizeof(size), "%llu", (unsigned long long)space->bytes);
		snprintf(used, sizeof(used), "%llu", (unsigned long long)space->used);
		snprintf(available, sizeof(available), "%llu", (unsigned long long)space->free);
	} else {
		g4_format_size(space->bytes, size, sizeof(size));
		g4_format_size(space->used, used, sizeof(used));
		g4_format_size(space->free, available, sizeof(available));
	}
	printf("%-24s %14s %14s %14s %4llu%% %s\n", space->device, size, used, available, (unsigned long long)percent,
	       space->directory);
}

static bool print_one(struct table *table, const char *name)
{
	struct space space;
	char message[512];

	const int rc = find_space(name, &space, message, sizeof(message));
	if (rc < 0) {
		g4_cli_error("df", "%s%s", message, g4c_advice(rc));
		return false;
	}
	print_space(table, &space);
	return true;
}

static bool print_all_mounts(struct table *table)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	bool good = true;

	for (struct mntent *mount; mounts != NULL && (mount = getmntent(mounts)) != NULL;) {
		if (g4_probe_is_mount_type(mount->mnt_type))
			good = print_one(table, mount->mnt_dir) && good;
	}
	if (mounts != NULL)
		endmntent(mounts);
	return good;
}

int g4_cli_df(int argc, char **argv)
{
	struct table table = {.exact = false};
	bool json = false, good = true;
	const int status = parse("df", ":bh", argc, argv, &json, &table.exact, NULL);

	if (status != 0)
		return status;
	g4_report_start(&table.report, stdout, json);
	if (json)
		g4_report_list(&table.report, "filesystems");
	if (optind == argc)
		good = print_all_mounts(&table);
	for (int i = optind; i < argc; i++)
		good = print_one(&table, argv[i]) && good;
	if (good)
		print_titles(&table);
	if (json)
		g4_report_finish(&table.report);
	return good ? G4_EXIT_OK : G4_EXIT_FAILURE;
}

/* Pages that were found damaged since mkfs: of a mount its server knows, unless it is not ours to ask. */
static bool count_damage(struct g4_image *image, const struct g4_health *health, uint64_t *pages)
{
	struct g4_journal_state journal;
	struct g4_root root;

	if (health != NULL) {
		*pages = health->damaged_pages;
		return true;
	}
	if (g4_image_load_overlay(image, &journal) < 0 || g4_image_root(image, &root) < 0)
		return false;
	*pages = root.damaged_pages;
	return true;
}

/* Of a set: what its disks say that it survives. */
static void show_redundancy(struct g4_report *report, const char *name)
{
	static struct g4_set_status status;
	char **names = NULL, message[512];
	uint32_t count = 0;

	if (g4_set_names(name, &names, &count) == 0 &&
	    g4_set_examine((const char *const *)names, count, &status, message, sizeof(message)) == 0)
		g4_cli_show_redundancy(report, &status);
	free(names);
}

/* Of a set: which disks it has. Callers that know more than its superblocks say so in `health`. */
static void show_disks(struct g4_report *report, const char *name, const struct g4_dev *dev,
		       const struct g4_health *health)
{
	struct g4_disk_info disk;

	if (!g4_set_disk(dev, 0, &disk))
		return;
	show_redundancy(report, name);
	if (report->json)
		g4_report_count(report, "copies", g4_max64(g4_dev_props(dev)->copies, 1));
	g4_report_list(report, "disks");
	for (uint32_t d = 0; g4_set_disk(dev, d, &disk); d++) {
		g4_report_object(report, NULL);
		g4_report_count(report, "disk", d);
		g4_report_uuid(report, "uuid", disk.uuid);
		g4_report_text(report, "device", disk.name != NULL ? disk.name : "-");
		g4_report_text(report, "state", g4_disk_state_name(disk.state));
		g4_report_size(report, "size_bytes", disk.bytes);
		g4_report_count(report, "mended_pages", disk.mended);
		g4_report_count(report, "damaged_pages_met", health != NULL ? health->disk_damaged[d] : disk.damaged);
		g4_report_end(report);
	}
	g4_report_end(report);
	g4_report_list(report, "spares");
	for (uint32_t k = 0; g4_set_spare(dev, k, &disk); k++) {
		g4_report_object(report, NULL);
		g4_report_text(report, "device", disk.name);
		g4_report_text(report, "state", g4_disk_state_name(disk.state));
		g4_report_size(report, "size_bytes", disk.bytes);
		g4_report_end(report);
	}
	g4_report_end(report);
}

/* What a mount's cache was asked for since then. */
static void show_cache(struct g4_report *report, const struct g4_cache_use *cache)
{
	const uint64_t wanted = cache->data_hits + cache->data_misses;

	g4_report_object(report, "cache");
	g4_report_size(report, "size_bytes", cache->bytes);
	g4_report_count(report, "data_hits", cache->data_hits);
	g4_report_count(report, "data_misses", cache->data_misses);
	if (wanted > 0)
		g4_report_real(report, "data_hit_ratio", (double)cache->data_hits / (double)wanted);
	g4_report_count(report, "metadata_hits", cache->metadata_hits);
	g4_report_count(report, "metadata_misses", cache->metadata_misses);
	g4_report_count(report, "locked_hits", cache->locked_hits);
	g4_report_count(report, "waited_hits", cache->waited_hits);
	g4_report_count(report, "peeked_hits", cache->peeked_hits);
	g4_report_count(report, "cold_misses", cache->cold_misses);
	g4_report_count(report, "clean_misses", cache->clean_misses);
	g4_report_count(report, "borrowed_lines", cache->borrowed_lines);
	g4_report_count(report, "no_lines", cache->no_lines);
	g4_report_count(report, "waited_misses", cache->waited_misses);
	g4_report_count(report, "data_without_line", cache->data_without);
	g4_report_count(report, "metadata_without_line", cache->metadata_without);
	g4_report_end(report);
	g4_report_object(report, "tier");
	g4_report_size(report, "size_bytes", cache->tier_bytes);
	g4_report_count(report, "hits", cache->tier_hits);
	g4_report_count(report, "misses", cache->tier_misses);
	g4_report_count(report, "pages_ahead", cache->tier_ahead);
	g4_report_count(report, "reads_ahead", cache->tier_ahead_reads);
	g4_report_count(report, "dropped", cache->tier_dropped);
	g4_report_count(report, "victims_down", cache->tier_down);
	g4_report_count(report, "victims_down_again", cache->tier_down_again);
	g4_report_count(report, "victims_old", cache->tier_down_old);
	g4_report_count(report, "victims_up", cache->tier_up);
	g4_report_end(report);
}

static void print_info(struct g4_image *image, const struct g4_journal_state *journal, const char *directory, bool json)
{
	struct g4_health of_mount;
	const struct g4_health *health = g4_cli_mount_health(directory, &of_mount) ? &of_mount : NULL;
	struct g4_report report;
	char engine[16], use[512];
	uint64_t damaged;

	g4_report_start(&report, stdout, json);
	g4_report_text(&report, "device", image->name);
	if (directory != NULL)
		g4_report_text(&report, "mounted_on", directory);
	else if (g4_probe_in_use(image->name, use, sizeof(use)))
		g4_report_text(&report, "in_use", use);
	if (directory != NULL && g4_fuse_mount_engine(directory, engine, sizeof(engine)))
		g4_report_text(&report, "engine", engine);
	if (directory != NULL && g4_fuse_mount_access(directory) != NULL)
		g4_report_text(&report, "access", g4_fuse_mount_access(directory));
	g4_show_superblock(&report, &image->sb);
	show_disks(&report, image->name, image->dev, health);
	g4_report_text(&report, "first_superblock",
		       image->primary_status == 0 ? "good" : g4_strerror(image->primary_status));
	g4_report_text(&report, "second_superblock",
		       image->backup_status == 0 ? "good" : g4_strerror(image->backup_status));
	g4_report_text(&report, "journal", journal->status == 0 ? "good" : g4_strerror(journal->status));
	g4_report_count(&report, "journal_transactions", journal->records);
	if (count_damage(image, health, &damaged))
		g4_report_count(&report, "damaged_pages_met", damaged);
	if (health != NULL)
		show_cache(&report, &health->cache);
	g4_report_finish(&report);
}

/* As udev's own builtin encodes it: what is not safe in the name of a link, and is no UTF-8 beyond ASCII, as \\xNN. */
static void print_encoded(const char *key, const char *text)
{
	printf("%s=", key);
	for (const unsigned char *c = (const unsigned char *)text; *c != 0; c++) {
		const bool safe = (*c >= '0' && *c <= '9') || (*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z') ||
				  strchr("#+-.:=@_", *c) != NULL || *c >= 0x80;
		if (safe)
			putchar(*c);
		else
			printf("\\x%02x", *c);
	}
	putchar('\n');
}

/* For udev rules: no words about what it does not find, and no waiting. */
static int print_for_udev(const char *name)
{
	char message[512], uuid[G4_UUID_TEXT_BYTES], label[G4_LABEL_BYTES];
	struct g4_image image;

	if (g4_image_open(&image, name, message, sizeof(message)) < 0)
		return G4_EXIT_FAILURE;
	g4_uuid_format(image.sb.uuid, uuid);
	snprintf(label, sizeof(label), "%.*s", (int)sizeof(label) - 1, (const char *)image.sb.label);
	printf("ID_FS_TYPE=gpu4fs\nID_FS_USAGE=filesystem\nID_FS_VERSION=%u\nID_FS_UUID=%s\n",
	       (unsigned)image.sb.version, uuid);
	print_encoded("ID_FS_UUID_ENC", uuid);
	if (label[0] != 0) {
		print_encoded("ID_FS_LABEL_ENC", label);
		for (char *c = label; *c != 0; c++) /* one word, whatever it was */
			*c = (unsigned char)*c > ' ' && *c != 0x7f ? *c : '_';
		printf("ID_FS_LABEL=%s\n", label);
	}
	g4_image_close(&image);
	return G4_EXIT_OK;
}

int g4_cli_info(int argc, char **argv)
{
	char message[512], device[4096];
	struct g4_image image;
	struct g4_journal_state journal;
	bool json = false, udev = false;
	int status = parse("info", ":", argc, argv, &json, NULL, &udev);

	if (status != 0)
		return status;
	if (argc == optind)
		return g4_cli_usage("info", "a device is needed");
	const char *name = g4_cli_disks(argv + optind, argc - optind), *directory = NULL;
	if (udev)
		return print_for_udev(name);
	if (g4_probe_mount_source(name, true, device, sizeof(device))) {
		directory = name;
		name = g4_cli_mount_disks(directory, device, false);
	} else if (g4_cli_no_mount("info", name)) {
		return G4_EXIT_FAILURE;
	}
	g4_fuse_wait_for_last_mount(name);
	status = g4_image_open(&image, name, message, sizeof(message));
	if (status < 0) {
		g4_cli_error("info", "%s%s", message, g4c_advice(status));
		return G4_EXIT_FAILURE;
	}
	status = g4_image_scan_journal(&image, NULL, NULL, &journal);
	if (status == 0)
		print_info(&image, &journal, directory, json);
	g4_image_close(&image);
	return status == 0 ? G4_EXIT_OK : G4_EXIT_FAILURE;
}
