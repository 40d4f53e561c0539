/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs disk: disks of a file system of several, while it is not mounted. */
#include <getopt.h>

#include "cli/cli.h"
#include "client/explain.h"
#include "dev/dev_host.h"
#include "fs/mkfs_host.h"
#include "fs/probe_host.h"
#include "fuse/fuse.h"
#include "space/set_host.h"

const char g4_help_disk[] = "rebuild DEVICE...\n"
			    "       gpu4fs disk replace [-f] DEVICE... NEW\n\n"
			    "For file systems with copies of everything, or parity, that are not mounted.\n\n"
			    "'rebuild' brings a disk up to date that missed writes; all are named. 'replace' lets\n"
			    "NEW take the place of a disk that is missing; those that are there are named. The old\n"
			    "one is refused from then on. Both copy all of a disk.\n\n"
			    "  -f, --force  overwrite what NEW holds\n"
			    "      --help   show this\n";

/* Whether a device may be used. */
static bool is_free(const char *device)
{
	char use[512];

	g4_fuse_wait_for_last_mount(device); /* umount(8) does not */
	if (!g4_probe_in_use(device, use, sizeof(use)))
		return true;
	g4_cli_error("disk", "%s is %s; unmount it first", device, use);
	return false;
}

/* Whether a new device holds something; that it can not be opened is for others to say. */
static bool holds_something(const char *device)
{
	const struct g4_dev_open_options open = {.flags = G4_DEV_READ_ONLY, .queues = 1};
	char unused[512];
	struct g4_dev *dev;

	if (g4_dev_open(device, &open, &dev, unused, sizeof(unused)) < 0)
		return false;
	const char *foreign = g4_probe_foreign(dev);
	g4_dev_close(dev);
	if (foreign != NULL)
		g4_cli_error("disk", "%s holds %s already; --force overwrites it", device, foreign);
	return foreign != NULL;
}

int g4_cli_disk(int argc, char **argv)
{
	static const struct option long_options[] = {{"force", no_argument, NULL, 'f'}, {NULL, 0, NULL, 0}};
	struct g4_progress progress = {0};
	char message[1024] = "";
	uint32_t disk = 0;
	bool force = false;

	for (int answer; (answer = getopt_long(argc, argv, ":f", long_options, NULL)) != -1;) {
		if (answer != 'f')
			return g4_cli_bad_option("disk", answer, argv);
		force = true;
	}
	const char *word = optind < argc ? argv[optind++] : "";
	const bool rebuild = strcmp(word, "rebuild") == 0;
	const int count = argc - optind;
	if (!rebuild && strcmp(word, "replace") != 0)
		return g4_cli_usage("disk", "'%s' is no order: rebuild and replace are", word);
	if (count < 2)
		return g4_cli_usage("disk", "at least two devices are needed");
	const char *const *names = (const char *const *)argv + optind, *last = names[count - 1];
	for (int n = 0; n < count; n++)
		if (!is_free(names[n]))
			return G4_EXIT_FAILURE;
	if (!rebuild && !force && holds_something(last))
		return G4_EXIT_FAILURE;
	g4_progress_start(&progress, "copying");
	const int rc = g4_set_rebuild(names, (uint32_t)count, rebuild, &progress, &disk, message, sizeof(message));
	g4_progress_clear(&progress);
	if (rc < 0) {
		g4_cli_error("disk", "%s", message);
		return G4_EXIT_FAILURE;
	}
	printf("disk %u is up to date\n", disk);
	return G4_EXIT_OK;
}
