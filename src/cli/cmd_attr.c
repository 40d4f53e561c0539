/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs attr: the flags that chattr(1) and lsattr(1) know, and what else stat(1) does not tell. */
#include <dirent.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cli/attach.h"
#include "cli/cli.h"
#include "print/report.h"

const char g4_help_attr[] =
	"get [--json] [--image IMAGE] FILE...\n"
	"   or: gpu4fs attr list [--json] DIRECTORY...\n"
	"   or: gpu4fs attr set [+|-|=]FLAGS FILE...\n"
	"   or: gpu4fs attr set [--image IMAGE] checksum=ALGORITHM|dedup=WORD|raid=LEVEL FILE...\n\n"
	"get shows the flags, birth time, inode number and extended attributes of files on a\n"
	"mounted file system; list shows the flags of everything in directories; set adds (+),\n"
	"removes (-) or replaces (=) flags.\n\n"
	"  i  immutable: can not be changed, renamed, linked or removed\n"
	"  a  append only\n"
	"  d  no dump\n"
	"  A  reading does not set the access time\n\n"
	"set checksum= says what sums pages get that are written from now on: blake3, xxh3,\n"
	"crc32c, none, or default, which is what mkfs was told. Of a directory: those of files and\n"
	"directories that are made in it. set dedup= says whether pages that are written from now on\n"
	"and are there already are shared: on, off, default, or domain, which is on among the files\n"
	"of this directory, or in this file, and with no others; it goes by checksums. set raid=\n"
	"says of which level the chunks are that pages go to which are written from now on: one\n"
	"that 'gpu4fs disk assign' has made room for, or default. With --image, get shows this and set changes it in a file\n"
	"system that is not mounted.\n\n"
	"      --image IMAGE  of a device that is not mounted; paths begin at its root\n"
	"      --json         print one JSON object\n"
	"      --help         show this\n";

/* What says how contents are kept; each is an attribute "gpu4fs.WORD". */
static const struct policy {
	/* none: what a value is that there is not; missing: why one can not be had */
	const char *word, *name, *none, *missing;
} policies[] = {
	{"checksum", "gpu4fs.checksum", "blake3, xxh3, crc32c, none and default are, and not", NULL},
	{"dedup", "gpu4fs.dedup", "on, off, domain and default are, and not", NULL},
	{"raid", "gpu4fs.raid", "there is no level",
	 "the file system has no chunks of that level; 'gpu4fs disk assign' makes room for some"},
};
#define POLICY_RAID 2
#define POLICY_COUNT (sizeof(policies) / sizeof(policies[0]))
#define POLICY_BYTES 32 /* more than any of their values */

static const struct flag {
	char letter;
	int bit;
	const char *name;
} flags[] = {
	{'i', FS_IMMUTABLE_FL, "immutable"},
	{'a', FS_APPEND_FL, "append"},
	{'d', FS_NODUMP_FL, "nodump"},
	{'A', FS_NOATIME_FL, "noatime"},
};
#define FLAG_COUNT (sizeof(flags) / sizeof(flags[0]))

static bool failed(const char *path)
{
	g4_cli_error("attr", "%s: %s", path, g4_cli_why(errno));
	return false;
}

static bool failed_with(const char *path, int64_t result)
{
	errno = (int)-result;
	return failed(path);
}

/* ------------------------------------------------------------------ of images */

/* Everything that comes of it is in the engine: the image is mounted in this process. */
static gpu4fs *mount_image(const char *image, uint32_t how)
{
	const struct gpu4fs_options options = {.size = sizeof(options), .flags = how};
	gpu4fs *fs = NULL;

	if (gpu4fs_mount(&image, 1, &options, &fs) < 0)
		g4_cli_error("attr", "%s", gpu4fs_last_message());
	return fs;
}

static bool unmount_image(const char *image, gpu4fs *fs)
{
	const int rc = gpu4fs_unmount(fs);

	return rc == 0 || failed_with(image, rc);
}

/* ------------------------------------------------------------------ set */

/* "+ia": the bits named; false for a letter that is no flag. */
static bool parse_spec(const char *spec, int *bits)
{
	*bits = 0;
	if (strchr("+-=", spec[0]) == NULL || spec[0] == 0)
		return false;
	for (const char *letter = spec + 1; *letter != 0; letter++) {
		size_t i = 0;
		while (i < FLAG_COUNT && flags[i].letter != *letter)
			i++;
		if (i == FLAG_COUNT)
			return false;
		*bits |= flags[i].bit;
	}
	return spec[1] != 0 || spec[0] == '=';
}

static bool set_one(const char *path, char how, int bits)
{
	const int ours = FS_IMMUTABLE_FL | FS_APPEND_FL | FS_NODUMP_FL | FS_NOATIME_FL;
	int value = 0;
	const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return failed(path);
	bool good = ioctl(fd, FS_IOC_GETFLAGS, &value) == 0;
	if (how == '+')
		value |= bits;
	else if (how == '-')
		value &= ~bits;
	else
		value = (value & ~ours) | bits;
	good = good && ioctl(fd, FS_IOC_SETFLAGS, &value) == 0;
	if (!good)
		failed(path);
	close(fd);
	return good;
}

static bool set_policy(const char *command, gpu4fs *fs, const char *path, const struct policy *policy,
		       const char *value)
{
	const size_t bytes = strlen(value);
	int rc;

	if (fs != NULL)
		rc = gpu4fs_lsetxattr(fs, NULL, path, policy->name, value, bytes, 0);
	else
		rc = lsetxattr(path, policy->name, value, bytes, 0) == 0 ? 0 : -errno;
	if (rc == -EINVAL)
		g4_cli_error(command, "%s: %s '%s'", path, policy->none, value);
	else if (rc == -EOPNOTSUPP && policy->missing != NULL)
		g4_cli_error(command, "%s: %s", path, policy->missing);
	else if (rc != 0)
		g4_cli_error(command, "%s: %s", path, g4_cli_why(-rc));
	return rc == 0;
}

bool g4_cli_set_raid(const char *command, gpu4fs *fs, const char *path, const char *level)
{
	return set_policy(command, fs, path, &policies[POLICY_RAID], level);
}

static int run_set_policy(const char *image, const struct policy *policy, const char *value, char **paths)
{
	gpu4fs *fs = image ? mount_image(image, 0) : NULL;
	bool good = image == NULL || fs != NULL;

	for (; (fs != NULL || image == NULL) && *paths != NULL; paths++)
		good = set_policy("attr", fs, *paths, policy, value) && good;
	if (fs != NULL)
		good = unmount_image(image, fs) && good;
	return good ? G4_EXIT_OK : G4_EXIT_FAILURE;
}

static int run_set(int argc, char **argv)
{
	const char *image = NULL;
	bool good = true;
	int bits;

	if (argc > 2 && strcmp(argv[1], "--image") == 0) {
		image = argv[2];
		argc -= 2;
		argv += 2;
	}
	if (argc < 3)
		return g4_cli_usage("attr", "set needs flags and a file");
	for (size_t i = 0; i < POLICY_COUNT; i++) {
		const size_t bytes = strlen(policies[i].word);
		if (strncmp(argv[1], policies[i].word, bytes) == 0 && argv[1][bytes] == '=')
			return run_set_policy(image, &policies[i], argv[1] + bytes + 1, argv + 2);
	}
	if (image != NULL)
		return g4_cli_usage("attr", "flags are set on a mounted file system");
	if (!parse_spec(argv[1], &bits))
		return g4_cli_usage("attr", "'%s' is no set of flags: +, - or = and letters of i, a, d and A are",
				    argv[1]);
	for (int i = 2; i < argc; i++)
		good = set_one(argv[i], argv[1][0], bits) && good;
	return good ? G4_EXIT_OK : G4_EXIT_FAILURE;
}

/* ------------------------------------------------------------------ get and list */

/* The flags of an open file; 0 for what can have none. */
static int read_flags(int fd)
{
	int value = 0;

	return ioctl(fd, FS_IOC_GETFLAGS, &value) == 0 ? value : 0;
}

static void report_flags(struct g4_report *report, int value)
{
	char letters[FLAG_COUNT + 1] = "";

	if (!report->json) {
		for (size_t i = 0; i < FLAG_COUNT; i++)
			letters[i] = (value & flags[i].bit) != 0 ? flags[i].letter : '-';
		g4_report_text(report, "flags", letters);
		return;
	}
	g4_report_list(report, "flags");
	for (size_t i = 0; i < FLAG_COUNT; i++) {
		if ((value & flags[i].bit) != 0)
			g4_report_text(report, NULL, flags[i].name);
	}
	g4_report_end(report);
}

static void report_xattrs(struct g4_report *report, const char *path)
{
	static char names[65536];
	const ssize_t bytes = llistxattr(path, names, sizeof(names));

	g4_report_list(report, "extended_attributes");
	for (ssize_t at = 0; at < bytes; at += (ssize_t)strlen(names + at) + 1)
		g4_report_text(report, NULL, names + at);
	g4_report_end(report);
}

static const char domain_name[] = "gpu4fs.domain";

/* Its number, where there is one. */
static void report_domain(struct g4_report *report, const char *text, int64_t bytes)
{
	if (bytes > 0 && text[0] != '0')
		g4_report_format(report, "domain", "%.*s", (int)bytes, text);
}

/* What is on no gpu4fs has none. */
static void report_policies(struct g4_report *report, const char *path)
{
	char text[POLICY_BYTES];

	for (size_t i = 0; i < POLICY_COUNT; i++) {
		const ssize_t bytes = lgetxattr(path, policies[i].name, text, sizeof(text));
		if (bytes >= 0)
			g4_report_format(report, policies[i].word, "%.*s", (int)bytes, text);
	}
	report_domain(report, text, lgetxattr(path, domain_name, text, sizeof(text)));
}

static uint64_t time_of(const struct statx_timestamp *stamp)
{
	return (uint64_t)(stamp->tv_sec * 1000000000 + stamp->tv_nsec);
}

/* Text begins with the first file that there is something to say about. */
static void start_files(struct g4_report *report, bool json)
{
	if (report->out != NULL)
		return;
	g4_report_start(report, stdout, json);
	g4_report_list(report, "files");
}

static bool get_one(struct g4_report *report, const char *path)
{
	struct statx found;
	int generation, value = 0;

	if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &found) != 0)
		return failed(path);
	const bool can_have_flags = S_ISREG(found.stx_mode) || S_ISDIR(found.stx_mode);
	const int fd = can_have_flags ? open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC) : -1;
	start_files(report, false);
	g4_report_object(report, NULL);
	g4_report_text(report, "path", path);
	g4_report_hex(report, "inode", found.stx_ino);
	if (fd >= 0) {
		value = read_flags(fd);
		if (ioctl(fd, FS_IOC_GETVERSION, &generation) == 0)
			g4_report_count(report, "generation", (uint32_t)generation);
		close(fd);
	}
	report_flags(report, value);
	g4_report_count(report, "size_bytes", found.stx_size);
	g4_report_count(report, "allocated_bytes", found.stx_blocks * 512);
	if ((found.stx_mask & STATX_BTIME) != 0)
		g4_report_time(report, "btime_ns", time_of(&found.stx_btime));
	report_policies(report, path);
	report_xattrs(report, path);
	g4_report_end(report);
	return true;
}

static bool get_in_image(struct g4_report *report, gpu4fs *fs, const char *path)
{
	char text[POLICY_COUNT][POLICY_BYTES];
	int64_t bytes[POLICY_COUNT];

	for (size_t i = 0; i < POLICY_COUNT; i++) {
		bytes[i] = gpu4fs_lgetxattr(fs, NULL, path, policies[i].name, text[i], sizeof(text[i]));
		if (bytes[i] < 0)
			return failed_with(path, bytes[i]);
	}
	start_files(report, false);
	g4_report_object(report, NULL);
	g4_report_text(report, "path", path);
	for (size_t i = 0; i < POLICY_COUNT; i++)
		g4_report_format(report, policies[i].word, "%.*s", (int)bytes[i], text[i]);
	report_domain(report, text[0], gpu4fs_lgetxattr(fs, NULL, path, domain_name, text[0], sizeof(text[0])));
	g4_report_end(report);
	return true;
}

static bool list_one(struct g4_report *report, const char *path)
{
	DIR *directory = opendir(path);

	if (directory == NULL)
		return failed(path);
	start_files(report, false);
	for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    (entry->d_type != DT_REG && entry->d_type != DT_DIR))
			continue;
		const int fd = openat(dirfd(directory), entry->d_name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			continue; /* gone, or not ours to read */
		g4_report_object(report, NULL);
		report_flags(report, read_flags(fd));
		g4_report_text(report, "name", entry->d_name);
		g4_report_end(report);
		close(fd);
	}
	closedir(directory);
	return true;
}

static int run_show(int argc, char **argv, bool list)
{
	static const struct option long_options[] = {
		{"json", no_argument, NULL, 'j'}, {"image", required_argument, NULL, 'i'}, {NULL, 0, NULL, 0}};
	struct g4_report report = {.out = NULL};
	const char *image = NULL;
	bool json = false, good = true;
	gpu4fs *fs = NULL;

	for (int answer; (answer = getopt_long(argc, argv, ":", long_options, NULL)) != -1;) {
		if (answer == 'j')
			json = true;
		else if (answer == 'i' && !list)
			image = optarg;
		else if (answer == 'i')
			return g4_cli_usage("attr", "list shows a mounted file system");
		else
			return g4_cli_bad_option("attr", answer, argv);
	}
	if (optind == argc)
		return g4_cli_usage("attr", "no file was given");
	if (image != NULL && (fs = mount_image(image, GPU4FS_READ_ONLY)) == NULL)
		return G4_EXIT_FAILURE;
	if (json)
		start_files(&report, true);
	for (int i = optind; i < argc; i++)
		good = (fs   ? get_in_image(&report, fs, argv[i]) :
			list ? list_one(&report, argv[i]) :
			       get_one(&report, argv[i])) &&
		       good;
	if (fs != NULL)
		good = unmount_image(image, fs) && good;
	if (report.out != NULL)
		g4_report_finish(&report);
	return good ? G4_EXIT_OK : G4_EXIT_FAILURE;
}

int g4_cli_attr(int argc, char **argv)
{
	if (argc < 2)
		return g4_cli_usage("attr", "get, list or set is needed");
	if (strcmp(argv[1], "set") == 0)
		return run_set(argc - 1, argv + 1);
	if (strcmp(argv[1], "list") == 0)
		return run_show(argc - 1, argv + 1, true);
	if (strcmp(argv[1], "get") == 0)
		return run_show(argc - 1, argv + 1, false);
	return run_show(argc, argv, false);
}
