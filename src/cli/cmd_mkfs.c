/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs mkfs. */
#define _GNU_SOURCE 1 /* fallocate() */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units_host.h"
#include "base/uuid_host.h"
#include "cli/cli.h"
#include "client/explain.h"
#include "dev/dev_host.h"
#include "fs/mkfs_host.h"
#include "fs/policy.h"
#include "fs/probe_host.h"
#include "fs/tune_host.h"
#include "fuse/fuse.h"
#include "print/report.h"
#include "space/set_host.h"

const char g4_help_mkfs[] = "[OPTION...] DEVICE... [SIZE]\n\n"
			    "Makes an empty file system on DEVICE. What is known to be in use is refused; what\n"
			    "holds something else already is refused without --force.\n\n"
			    "  -L, --label LABEL        name of the file system, at most 63 bytes\n"
			    "  -U, --uuid UUID          its UUID instead of a random one\n"
			    "  -J, --journal-size SIZE  a multiple of 4K, at least 2M, at most a quarter of the\n"
			    "                           device; 1/64 of it by default, between 2M and 128M\n"
			    "      --raid LEVEL         over several devices: none, one behind the other, the\n"
			    "                           default; 0, striped; 1, copies of everything on\n"
			    "                           different devices; 5, 6, triple, quadruple: striped,\n"
			    "                           with one to four parities: as many may be lost. Sizes\n"
			    "                           may differ\n"
			    "      --copies N           with --raid 1: 2 to 11, as many at most as there are\n"
			    "                           devices; 2 by default. Any N - 1 devices may be lost\n"
			    "      --stripe SIZE        not with --raid 1: 16K to 1M, a power of 2; 128K by default,\n"
			    "                           16K where devices with parity are memory\n"
			    "      --unassigned PERCENT  of several devices: so much of each is left for files of\n"
			    "                           another level, see 'gpu4fs disk assign'\n"
			    "  -s, --size SIZE          create DEVICE as a file of this size; with --force an\n"
			    "                           existing file gets this size\n"
			    "      --checksum ALGORITHM  sums of all pages of files, verified on every read:\n"
			    "                           blake3, the default, xxh3, crc32c, or none\n"
			    "      --dedup              pages that are there already are not stored again; with\n"
			    "                           another checksum than blake3 they are compared\n"
			    "      --dedup-quota SIZE   what is kept on the device to find them by takes no more\n"
			    "                           than SIZE, 4K for up to 512K of contents; others are\n"
			    "                           written as without --dedup. none, the default\n"
			    "      --preallocate        reserve all blocks of an image file now, so that it never\n"
			    "                           finds the file system full that it lies in\n"
			    "      --owner UID[:GID]    owner of the root directory; 0:0 by default\n"
			    "      --mode MODE          its permissions, octal; 755 by default\n"
			    "  -f, --force              overwrite what is there\n"
			    "  -q, --quiet              print nothing\n"
			    "      --json               print one JSON object\n"
			    "      --help               show this\n\n"
			    "SIZE is a number with an optional unit: 4096, 512M, 1.5T. DEVICE has at least 8M.\n";

struct mkfs_options {
	const char *device; /* the first, or the one at hand */
	char **devices;
	uint32_t device_count;
	struct g4_set_plan set;
	bool set_said;	     /* an option that needs several */
	uint64_t size_bytes; /* 0: as it is */
	bool force, quiet, json, preallocate;
	uint8_t uuid[16];
	struct g4_mkfs_options format;
	struct g4_progress progress;
};

enum {
	OPTION_JSON = 256,
	OPTION_OWNER,
	OPTION_MODE,
	OPTION_PREALLOCATE,
	OPTION_CHECKSUM,
	OPTION_DEDUP,
	OPTION_DEDUP_QUOTA,
	OPTION_RAID,
	OPTION_UNASSIGNED,
	OPTION_STRIPE,
	OPTION_COPIES
};
static const struct option long_options[] = {
	{"label", required_argument, NULL, 'L'},
	{"uuid", required_argument, NULL, 'U'},
	{"journal-size", required_argument, NULL, 'J'},
	{"size", required_argument, NULL, 's'},
	{"preallocate", no_argument, NULL, OPTION_PREALLOCATE},
	{"checksum", required_argument, NULL, OPTION_CHECKSUM},
	{"dedup", no_argument, NULL, OPTION_DEDUP},
	{"dedup-quota", required_argument, NULL, OPTION_DEDUP_QUOTA},
	{"raid", required_argument, NULL, OPTION_RAID},
	{"unassigned", required_argument, NULL, OPTION_UNASSIGNED},
	{"stripe", required_argument, NULL, OPTION_STRIPE},
	{"copies", required_argument, NULL, OPTION_COPIES},
	{"owner", required_argument, NULL, OPTION_OWNER},
	{"mode", required_argument, NULL, OPTION_MODE},
	{"force", no_argument, NULL, 'f'},
	{"quiet", no_argument, NULL, 'q'},
	{"json", no_argument, NULL, OPTION_JSON},
	{NULL, 0, NULL, 0},
};

static bool parse_number(const char *text, int base, uint64_t most, char **end, uint32_t *out)
{
	errno = 0;
	const unsigned long long value = strtoull(text, end, base);
	if (*end == text || text[0] < '0' || text[0] > '9' || errno != 0 || value > most)
		return false;
	*out = (uint32_t)value;
	return true;
}

static int no_size(const char *text)
{
	return g4_cli_usage("mkfs", "'%s' is no size: 4096, 512M and 1.5T are", text);
}

static bool parse_owner(const char *text, struct g4_mkfs_options *format)
{
	char *end;

	if (!parse_number(text, 10, UINT32_MAX - 1, &end, &format->root_uid))
		return false;
	format->root_gid = format->root_uid;
	if (*end == ':' && !parse_number(end + 1, 10, UINT32_MAX - 1, &end, &format->root_gid))
		return false;
	return *end == 0;
}

static bool parse_raid(const char *text, struct g4_set_plan *plan)
{
	const uint32_t level = g4_level_of(text);

	if (level == G4_LEVELS)
		return false;
	plan->raid = g4_level_raid(level, &plan->parity);
	return true;
}

static int parse_option(int answer, char **argv, struct mkfs_options *options)
{
	char *end;

	switch (answer) {
	case 'L':
		options->format.label = optarg;
		if (strlen(optarg) < G4_LABEL_BYTES)
			return 0;
		return g4_cli_usage("mkfs", "a label has at most %d bytes", G4_LABEL_BYTES - 1);
	case 'U':
		options->format.uuid = options->uuid;
		if (g4_uuid_parse(optarg, options->uuid) == 0)
			return 0;
		return g4_cli_usage("mkfs", "'%s' is no UUID", optarg);
	case 'J':
		if (g4_parse_size(optarg, &options->format.journal_bytes) == 0 && options->format.journal_bytes != 0)
			return 0;
		return no_size(optarg);
	case 's':
		if (g4_parse_size(optarg, &options->size_bytes) == 0 && options->size_bytes != 0)
			return 0;
		return no_size(optarg);
	case OPTION_OWNER:
		if (parse_owner(optarg, &options->format))
			return 0;
		return g4_cli_usage("mkfs", "'%s' is no owner: numbers as in 1000:1000 are", optarg);
	case OPTION_MODE:
		if (parse_number(optarg, 8, 07777, &end, &options->format.root_mode) && *end == 0)
			return 0;
		return g4_cli_usage("mkfs", "'%s' is no octal mode", optarg);
	case 'f':
		options->force = true;
		return 0;
	case 'q':
		options->quiet = true;
		return 0;
	case OPTION_JSON:
		options->json = true;
		return 0;
	case OPTION_PREALLOCATE:
		options->preallocate = true;
		return 0;
	case OPTION_UNASSIGNED:
		options->set_said = true;
		if (parse_number(optarg, 10, 99, &end, &options->set.leave_percent) &&
		    (*end == 0 || strcmp(end, "%") == 0))
			return 0;
		return g4_cli_usage("mkfs", "'%s' is no percentage from 0 to 99", optarg);
	case OPTION_RAID:
		options->set_said = true;
		if (parse_raid(optarg, &options->set))
			return 0;
		return g4_cli_usage("mkfs", "'%s' is no level: none, 0, 1, 5, 6, triple and quadruple are", optarg);
	case OPTION_COPIES:
		options->set_said = true;
		if (parse_number(optarg, 10, G4_COPIES_MAX, &end, &options->set.copies) && *end == 0 &&
		    options->set.copies >= 2)
			return 0;
		return g4_cli_usage("mkfs", "'%s' is no number of copies: 2 to %u are", optarg, G4_COPIES_MAX);
	case OPTION_STRIPE:
		options->set_said = true;
		if (g4_parse_size(optarg, &options->set.stripe_bytes) == 0 && options->set.stripe_bytes != 0)
			return 0;
		return no_size(optarg);
	case OPTION_CHECKSUM:
		if (g4_policy_parse(G4_POLICY_FIELD_CHECKSUM, optarg, strlen(optarg), &options->format.checksum) == 0 &&
		    options->format.checksum != 0)
			return 0;
		return g4_cli_usage("mkfs", "'%s' is no checksum: none, blake3, xxh3 and crc32c are", optarg);
	case OPTION_DEDUP:
		options->format.dedup = true;
		return 0;
	case OPTION_DEDUP_QUOTA:
		if (g4_tune_quota(optarg, &options->format.dedup_quota))
			return 0;
		return g4_cli_usage("mkfs", "'%s' is no quota: none and sizes from 4K on are", optarg);
	default:
		return g4_cli_bad_option("mkfs", answer, argv);
	}
}

static int parse(int argc, char **argv, struct mkfs_options *options)
{
	for (int answer; (answer = getopt_long(argc, argv, ":L:U:J:s:fq", long_options, NULL)) != -1;) {
		const int status = parse_option(answer, argv, options);
		if (status != 0)
			return status;
	}
	if (optind == argc)
		return g4_cli_usage("mkfs", "no device was given");
	uint32_t count = (uint32_t)(argc - optind);
	if (count > 1 && options->size_bytes == 0) {
		const char *last = argv[argc - 1];
		if (g4_parse_size(last, &options->size_bytes) == 0 && options->size_bytes != 0)
			count--;
		else if (count == 2 && last[0] >= '0' && last[0] <= '9')
			return no_size(last);
		else
			options->size_bytes = 0;
	}
	options->set.journal_bytes = options->format.journal_bytes;
	options->devices = argv + optind;
	options->device_count = count;
	options->device = argv[optind];
	/* as of tune: a file of that name would become a disk of a set; ./on is one that is meant */
	for (uint32_t d = 0; d < count && options->format.dedup; d++)
		if (strcmp(options->devices[d], "on") == 0 || strcmp(options->devices[d], "off") == 0)
			return g4_cli_usage("mkfs", "--dedup takes no value, and '%s' would be a device",
					    options->devices[d]);
	if (count > G4_MAX_DISKS)
		return g4_cli_usage("mkfs", "a file system has at most %u devices", G4_MAX_DISKS);
	if (count == 1 && options->set_said)
		return g4_cli_usage("mkfs", "--raid, --stripe, --copies and --unassigned are for several devices");
	if (options->format.dedup && options->format.checksum == g4_policy_of(G4_CHECKSUM_NONE))
		return g4_cli_usage("mkfs", "--dedup goes by checksums, and --checksum=none makes none");
	if (options->set.stripe_bytes != 0 && options->set.raid != G4_RAID_0 && options->set.raid != G4_RAID_PARITY)
		return g4_cli_usage("mkfs", "--stripe is for --raid 0, 5, 6, triple and quadruple");
	if (options->set.copies != 0 && options->set.raid != G4_RAID_1)
		return g4_cli_usage("mkfs", "--copies is for --raid 1");
	return 0;
}

/* How the device gets the size that was asked; *created tells whether there was no file before. 0 or an exit status. */
static int prepare_size(struct mkfs_options *options, struct g4_dev_open_options *open, bool *created)
{
	struct stat found;

	*created = false;
	if (strncmp(options->device, "mem:", 4) == 0 && options->size_bytes != 0)
		return g4_cli_usage("mkfs", "mem: has its size in its name");
	if (options->size_bytes == 0)
		return 0;
	if (!g4_dev_has_path(options->device))
		return g4_cli_usage("mkfs", "%s: only a file can be given a size", options->device);
	options->size_bytes = g4_align_up(options->size_bytes, G4_PAGE_BYTES);
	if (stat(g4_dev_path(options->device), &found) != 0) {
		*created = errno == ENOENT;
		open->flags |= *created ? G4_DEV_CREATE : 0;
		open->create_bytes = options->size_bytes;
		return 0; /* opening it says what is wrong with it */
	}
	if (!S_ISREG(found.st_mode))
		return g4_cli_usage("mkfs", "%s: only a file can be given a size", options->device);
	if ((uint64_t)found.st_size == options->size_bytes)
		return 0;
	if (!options->force) {
		g4_cli_error("mkfs", "%s: exists with another size; --force changes it", options->device);
		return G4_EXIT_FAILURE;
	}
	open->flags |= G4_DEV_RESIZE;
	open->create_bytes = options->size_bytes;
	return 0;
}

/* Gives the file all of its blocks; what is in it stays. */
static int preallocate(const char *device)
{
	struct stat file;
	int code = 0;

	const int fd = open(g4_dev_path(device), O_RDWR | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &file) != 0)
		code = errno;
	else if (!S_ISREG(file.st_mode))
		code = ENOTSUP;
	else if (fallocate(fd, 0, 0, file.st_size) != 0)
		code = errno;
	if (fd >= 0)
		close(fd);
	if (code == 0)
		return 0;
	g4_cli_error("mkfs", "%s: its blocks can not be reserved: %s", device,
		     code == ENOTSUP ? "only those of a file, on a file system that knows fallocate(2)" :
				       strerror(code));
	return G4_EXIT_FAILURE;
}

static void print_result(const struct mkfs_options *options, const struct g4_superblock *sb)
{
	struct g4_report report;

	if (options->quiet && !options->json)
		return;
	g4_report_start(&report, stdout, options->json);
	g4_report_text(&report, "device", options->device);
	if (options->device_count > 1) {
		g4_report_list(&report, "devices");
		for (uint32_t d = 0; d < options->device_count; d++)
			g4_report_text(&report, NULL, options->devices[d]);
		g4_report_end(&report);
	}
	g4_report_uuid(&report, "uuid", sb->uuid);
	if (sb->label[0] != 0 || options->json)
		g4_report_name(&report, "label", sb->label, strnlen((const char *)sb->label, G4_LABEL_BYTES));
	g4_report_size(&report, "size_bytes", sb->size_bytes);
	g4_report_size(&report, "journal_bytes", sb->journal_bytes);
	g4_report_count(&report, "groups", sb->group_count);
	g4_report_finish(&report);
}

/* Of one device: whether it may be overwritten, and its blocks. 0 or an exit status. */
static int prepare(const struct mkfs_options *options, struct g4_dev *dev)
{
	const char *foreign = options->force ? NULL : g4_probe_foreign(dev);

	if (foreign != NULL) {
		g4_cli_error("mkfs", "%s holds %s already; --force overwrites it", options->device, foreign);
		return G4_EXIT_FAILURE;
	}
	return options->preallocate ? preallocate(options->device) : 0;
}

static int make(struct mkfs_options *options, struct g4_dev *dev)
{
	struct g4_superblock sb;
	char message[512] = "";

	g4_progress_start(&options->progress, "making");
	options->format.progress = &options->progress;
	const int status = g4_mkfs(dev, &options->format, &sb, message, sizeof(message));
	g4_progress_clear(&options->progress);
	if (status < 0) {
		g4c_explain(status, options->device, message, sizeof(message));
		g4_cli_error("mkfs", "%s", message);
		return G4_EXIT_FAILURE;
	}
	print_result(options, &sb);
	return G4_EXIT_OK;
}

struct disk { /* of those that are to be formatted */
	struct g4_dev *dev;
	bool created;
};

/* Opens options->device. 0 or an exit status. */
static int open_disk(struct mkfs_options *options, struct disk *disk)
{
	struct g4_dev_open_options open_options = {.flags = G4_DEV_EXCLUSIVE};
	char message[512];

	g4_fuse_wait_for_last_mount(options->device); /* umount(8) does not */
	if (g4_probe_in_use(options->device, message, sizeof(message))) {
		g4_cli_error("mkfs", "%s is %s", options->device, message);
		return G4_EXIT_FAILURE;
	}
	int status = prepare_size(options, &open_options, &disk->created);
	if (status != 0)
		return status;
	status = g4_dev_open(options->device, &open_options, &disk->dev, message, sizeof(message));
	if (status < 0) {
		g4c_explain(status, options->device, message, sizeof(message));
		g4_cli_error("mkfs", "%s%s", message,
			     disk->created || options->size_bytes || !g4_dev_has_path(options->device) ? "" :
			     access(g4_dev_path(options->device), F_OK) == 0			       ? "" :
									       "; --size SIZE creates a file");
		return G4_EXIT_FAILURE;
	}
	return prepare(options, disk->dev);
}

/* One device, or a set of several, which then has them. 0 or an exit status. */
static int join(const struct mkfs_options *options, struct disk *disks, struct g4_dev **dev)
{
	struct g4_dev *devs[G4_MAX_DISKS];
	char message[512] = "";

	*dev = disks[0].dev;
	for (uint32_t d = 0; d < options->device_count; d++)
		devs[d] = disks[d].dev;
	if (options->device_count > 1 && g4_set_make(devs, (const char *const *)options->devices, options->device_count,
						     &options->set, dev, message, sizeof(message)) < 0) {
		g4_cli_error("mkfs", "%s", message);
		return G4_EXIT_FAILURE;
	}
	for (uint32_t d = 0; d < options->device_count; d++)
		disks[d].dev = NULL;
	return 0;
}

int g4_cli_mkfs(int argc, char **argv)
{
	struct mkfs_options options = {.device = ""};
	struct disk disks[G4_MAX_DISKS] = {{NULL, false}};
	struct g4_dev *dev = NULL;
	int status = parse(argc, argv, &options);

	if (status != 0)
		return status;
	for (uint32_t d = 1; d < options.device_count; d++)
		for (uint32_t other = 0; other < d; other++)
			if (strcmp(options.devices[other], options.devices[d]) == 0 &&
			    strncmp(options.devices[d], "mem:", 4) != 0) {
				g4_cli_error("mkfs", "%s is named twice", options.devices[d]);
				return G4_EXIT_FAILURE;
			}
	for (uint32_t d = 0; d < options.device_count && status == 0; d++) {
		options.device = options.devices[d];
		status = open_disk(&options, &disks[d]);
	}
	options.device = options.devices[0];
	if (status == 0)
		status = join(&options, disks, &dev);
	if (status == 0)
		status = make(&options, dev);
	g4_dev_close(dev);
	for (uint32_t d = 0; d < options.device_count; d++) {
		g4_dev_close(disks[d].dev);
		if (status != 0 && disks[d].created)
			unlink(g4_dev_path(options.devices[d]));
	}
	return status;
}
