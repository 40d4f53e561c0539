/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs tune: what stands in the superblocks alone, and can be changed there. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>

#include "base/uuid_host.h"
#include "cli/cli.h"
#include "cli/health.h"
#include "client/explain.h"
#include "dev/dev_host.h"
#include "fs/mount_host.h"
#include "fs/policy.h"
#include "fs/probe_host.h"
#include "fs/tune_host.h"
#include "fuse/fuse.h"

const char g4_help_tune[] =
	"[-L LABEL] [-U UUID|random] [--checksum ALGORITHM]\n"
	"            [--dedup on|off] [--dedup-quota SIZE|none] [--degraded] DEVICE...\n"
	"       gpu4fs tune --dedup-quota SIZE|none DIRECTORY\n\n"
	"Changes the label, the UUID, the sums or the sharing of files of a file system that is not mounted;\n"
	"--dedup-quota also of one that is mounted at DIRECTORY.\n\n"
	"  -L, --label LABEL  at most 63 bytes; \"\" for none\n"
	"  -U, --uuid UUID    a UUID, or 'random'; versions before this one refuse an image\n"
	"                     whose UUID was changed\n"
	"      --checksum ALGORITHM\n"
	"                     sums of what is written from now on, of files that have none of\n"
	"                     their own: blake3, xxh3, crc32c or none; what is there gets them\n"
	"                     by gpu4fs scrub start --add-sums\n"
	"      --dedup on|off whether pages that are written from now on, and are there already,\n"
	"                     are not stored again, of files that say nothing else and have\n"
	"                     checksums; with others than blake3 pages are compared\n"
	"      --dedup-quota SIZE|none\n"
	"                     what is kept on the device to find pages by takes no more than SIZE,\n"
	"                     4K for up to 512K of contents; others are written as without --dedup\n"
	"      --degraded     although a disk is missing, where the others have a copy of\n"
	"                     everything; it is out of date from then on\n"
	"      --help         show this\n";

/* Of a file system that is mounted there: its server writes the superblocks. */
static int tune_mount(const char *directory, uint64_t quota)
{
	struct g4_dedup_counts counts;
	int status = 0;
	int rc = g4_cli_mount_dedup(directory, G4_DEDUP_QUOTA, quota, &counts, &status);

	if (rc == -ENOTTY || status == -G4_E_INVAL)
		g4_cli_error("tune", "%s: its server is too old to change it", directory);
	else if (rc < 0)
		g4_cli_error("tune", "%s: %s", directory, g4_cli_why(-rc));
	else if (status < 0)
		g4_cli_error("tune", "%s: %s", directory, g4_strerror(status));
	return rc < 0 || status < 0 ? G4_EXIT_FAILURE : G4_EXIT_OK;
}

int g4_cli_tune(int argc, char **argv)
{
	static const struct option long_options[] = {{"label", required_argument, NULL, 'L'},
						     {"uuid", required_argument, NULL, 'U'},
						     {"checksum", required_argument, NULL, 'c'},
						     {"dedup", required_argument, NULL, 'D'},
						     {"dedup-quota", required_argument, NULL, 'q'},
						     {"degraded", no_argument, NULL, 'd'},
						     {NULL, 0, NULL, 0}};
	const char *label = NULL;
	char message[512] = "";
	uint8_t uuid[16];
	bool has_uuid = false, has_quota = false, degraded = false;
	uint64_t quota = 0;
	uint32_t checksum = 0, dedup = 0;
	struct g4_dev *dev;

	for (int answer; (answer = getopt_long(argc, argv, ":L:U:", long_options, NULL)) != -1;) {
		if (answer == 'L') {
			label = optarg;
		} else if (answer == 'U') {
			has_uuid = true;
			if (strcmp(optarg, "random") == 0 ? g4_uuid_random(uuid) < 0 : g4_uuid_parse(optarg, uuid) < 0)
				return g4_cli_usage("tune", "'%s' is no UUID", optarg);
		} else if (answer == 'c') {
			if (g4_policy_parse(G4_POLICY_FIELD_CHECKSUM, optarg, strlen(optarg), &checksum) < 0 ||
			    checksum == 0)
				return g4_cli_usage("tune", "'%s' is no checksum: none, blake3, xxh3 and crc32c are",
						    optarg);
		} else if (answer == 'D') {
			if (g4_policy_parse(G4_POLICY_FIELD_DEDUP, optarg, strlen(optarg), &dedup) < 0 || dedup == 0)
				return g4_cli_usage("tune", "'%s' is neither on nor off", optarg);
		} else if (answer == 'q') {
			has_quota = true;
			if (!g4_tune_quota(optarg, &quota))
				return g4_cli_usage("tune", "'%s' is no quota: none and sizes from 4K on are", optarg);
		} else if (answer == 'd') {
			degraded = true;
		} else {
			return g4_cli_bad_option("tune", answer, argv);
		}
	}
	if (label != NULL && strlen(label) >= G4_LABEL_BYTES)
		return g4_cli_usage("tune", "a label has at most %u bytes", G4_LABEL_BYTES - 1);
	if (label == NULL && !has_uuid && checksum == 0 && dedup == 0 && !has_quota)
		return g4_cli_usage("tune", "nothing to change: --label, --uuid, --checksum, --dedup or --dedup-quota "
					    "is needed");
	if (argc == optind)
		return g4_cli_usage("tune", "a device is needed");
	if (g4_probe_mount_source(argv[optind], true, message, sizeof(message))) {
		if (label != NULL || has_uuid || checksum != 0 || dedup != 0 || degraded || argc - optind > 1)
			return g4_cli_usage("tune",
					    "of a file system that is mounted --dedup-quota alone can be changed");
		return tune_mount(argv[optind], quota);
	}
	if (g4_cli_no_mount("tune", argv[optind]))
		return G4_EXIT_FAILURE;
	const char *device = g4_cli_disks(argv + optind, argc - optind);
	g4_fuse_wait_for_last_mount(device); /* umount(8) does not */
	if (g4_probe_in_use(device, message, sizeof(message))) {
		g4_cli_error("tune", "%s is %s; unmount it first%s", device, message,
			     has_quota ? ", or give the directory to change --dedup-quota alone" : "");
		return G4_EXIT_FAILURE;
	}
	int rc = g4_fs_open_unused(&device, 1, degraded, &dev, message, sizeof(message));
	if (rc == 0) {
		rc = g4_tune(dev, label, has_uuid ? uuid : NULL, checksum | dedup, has_quota ? &quota : NULL);
		if (rc < 0)
			snprintf(message, sizeof(message), "%s: %s%s", device, g4_strerror(rc), g4c_advice(rc));
		g4_dev_close(dev);
	} else {
		g4c_explain(rc, device, message, sizeof(message));
	}
	if (rc < 0)
		g4_cli_error("tune", "%s", message);
	return rc < 0 ? G4_EXIT_FAILURE : G4_EXIT_OK;
}
