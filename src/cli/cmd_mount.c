/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs mount and gpu4fs umount. Exit statuses are mount(8)'s. */
#include <getopt.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "fuse/fuse.h"
#include "space/set_host.h"

const char g4_help_mount[] =
	"[-f] [-d] [-r] [-o OPTION,...] DEVICE... DIRECTORY\n\n"
	"Mounts the file system on DEVICE at DIRECTORY and returns when it can be used; a\n"
	"process in the background serves it until it is unmounted. Of a file system of\n"
	"several disks all are named, in any order. A drive nvme:ADDRESS (gpu4fs nvme) of\n"
	"which nothing is in use is taken from the kernel's driver for that time.\n\n"
	"  -o OPTION,...  mount options\n"
	"  -r             the same as -o ro\n"
	"  -f             stay in the foreground\n"
	"  -d             stay in the foreground and print every request\n"
	"      --help     show this\n\n"
	"Mount options:\n"
	"  ro rw                          read-only or not\n"
	"  remount                        change that of a mount, and the flags below\n"
	"  engine=cpu|cuda|auto           what runs the file system; cpu\n"
	"  sms=N                          multiprocessors of the GPU, at most\n"
	"  gpu_queues=N                   queues of a drive nvme:ADDRESS that the GPU fills and\n"
	"                                 polls itself; 0. Not tried with a real drive yet\n"
	"  host_memory=SIZE               memory that a drive nvme:ADDRESS gets for its tables, if\n"
	"                                 it wants some, at most; 64M; 0: none. Not tried with a\n"
	"                                 real drive yet\n"
	"  cache=SIZE                     memory for file contents and metadata; 256M\n"
	"  tier=SIZE                      memory for what lies beside small files that are read;\n"
	"                                 a sixteenth of the cache; 0: none. With engine=cuda\n"
	"                                 memory of the host for what the GPU's cache gives up;\n"
	"                                 none unless it is given\n"
	"  dedup_memory=SIZE              memory for what deduplication finds pages by; a\n"
	"                                 sixteenth of the cache\n"
	"  dedup_verify                   share what has the same BLAKE3 only when all bytes are\n"
	"                                 the same; with other checksums that is always done\n"
	"  commit=SECONDS                 longest time that a change stays in memory; 5\n"
	"  relatime noatime strictatime   when reading sets the access time\n"
	"  sync, dirsync                  every change is on the device when its call returns\n"
	"  device=DEVICE                  another disk of the same file system\n"
	"  degraded                       mount although a disk is missing, where the others\n"
	"                                 have a copy of everything, or its parity\n"
	"  discard                        give space that is freed back to the device, or to\n"
	"                                 what an image file lies on; fstrim(8) does it at once\n"
	"  nosuid nodev noexec            as for any file system\n"
	"  allow_other                    for other users, too; the default for root\n"
	"  writeback nowriteback          the kernel collects small writes, the default\n"
	"  socket=PATH                    serve programs there, too (gpu4fs run); the kernel\n"
	"                                 then caches nothing\n"
	"  threads=N                      threads that serve; by default by the processors\n"
	"  readdirplus=yes|auto|no        attributes along with names\n"
	"  mirror=yes|auto|no             the server keeps what it has answered; auto: with a GPU\n"
	"  attr_timeout=S entry_timeout=S negative_timeout=S\n"
	"                                 how long the kernel trusts what it knows; a week\n\n"
	"Changes are durable when fsync() returns, or after commit= seconds at most once the\n"
	"kernel has passed them on. sync(1) of a whole mount makes them so on block devices\n"
	"that root has mounted (Linux 6.18), not in image files.\n";

const char g4_help_umount[] = "[-l] [-f] DIRECTORY\n\n"
			      "Unmounts the gpu4fs file system at DIRECTORY and returns when all of it is on the\n"
			      "device. umount(8) unmounts, too, but waits for that only where root has mounted a\n"
			      "block device.\n\n"
			      "  -l, --lazy   detach it now, even when it is busy, and do not wait\n"
			      "  -f, --force  unmount it even when its server does not answer, and do not wait\n"
			      "      --help   show this\n";

static int usage(int status)
{
	return status == 0 ? 0 : G4_MOUNT_EXIT_USAGE;
}

/* One name for the disks that stand there and those that -o device= names. */
static const char *with_others(char **names, int count, const char *others)
{
	char *all[G4_MAX_DISKS + G4_MAX_SPARES + 1], **more = NULL;
	uint32_t more_count = 0;
	int n = 0;

	if (others[0] == 0 || g4_set_names(others, &more, &more_count) < 0)
		return g4_cli_disks(names, count);
	for (; n < count && n < (int)(G4_MAX_DISKS + G4_MAX_SPARES); n++)
		all[n] = names[n];
	for (uint32_t k = 0; k < more_count && n <= (int)(G4_MAX_DISKS + G4_MAX_SPARES); k++)
		all[n++] = more[k];
	const char *disks = g4_cli_disks(all, n);
	free(more);
	return disks;
}

/* The server has another working directory, and who asks for its disks names them from the root on. */
static const char *full_names(const char *device)
{
	char **names = NULL, *full[2 * (G4_MAX_DISKS + G4_MAX_SPARES)] = {NULL}, *joined = NULL;
	uint32_t count = 0, room = sizeof(full) / sizeof(full[0]);
	bool good = g4_set_names(device, &names, &count) == 0 && count <= room;

	for (uint32_t n = 0; good && n < count; n++)
		good = (full[n] = g4_set_full_name(names[n])) != NULL;
	if (good)
		joined = g4_set_join((const char *const *)full, count);
	for (uint32_t n = 0; n < room; n++)
		free(full[n]);
	free(names);
	return joined != NULL ? g4_cli_keep(joined) : device;
}

int g4_cli_mount(int argc, char **argv)
{
	static const struct option none[] = {{NULL, 0, NULL, 0}};
	struct g4_fuse_options options;
	char message[512] = "";

	g4_fuse_options_init(&options);
	/* mount(8) passes -s, -n and -v, which ask for nothing that we do not do, and -t for helpers of several types. */
	for (int answer; (answer = getopt_long(argc, argv, ":o:fdrwsnvt:", none, NULL)) != -1;) {
		switch (answer) {
		case 'o':
			if (g4_fuse_parse_options(optarg, &options, message, sizeof(message)) < 0)
				return usage(g4_cli_usage("mount", "%s", message));
			break;
		case 'f':
			options.foreground = true;
			break;
		case 'd':
			options.debug = true;
			break;
		case 'r':
		case 'w':
			options.read_only = answer == 'r';
			break;
		case 's':
		case 'n':
		case 'v':
		case 't':
			break;
		default:
			return usage(g4_cli_bad_option("mount", answer, argv));
		}
	}
	if (argc - optind < 2)
		return usage(g4_cli_usage("mount", "a device and a directory are needed"));
	const char *const devices[] = {
		full_names(with_others(argv + optind, argc - optind - 1, options.other_devices))};
	options.devices = devices;
	options.device_count = 1;
	options.mountpoint = argv[argc - 1];
	return options.remount ? g4_fuse_remount(&options) : g4_fuse_main(&options);
}

int g4_cli_umount(int argc, char **argv)
{
	static const struct option long_options[] = {
		{"lazy", no_argument, NULL, 'l'}, {"force", no_argument, NULL, 'f'}, {NULL, 0, NULL, 0}};
	uint32_t flags = 0;

	/* -n, -r, -v and -t are umount(8)'s, which ask for nothing that we do not do. */
	for (int answer; (answer = getopt_long(argc, argv, ":lnrvft:", long_options, NULL)) != -1;) {
		if (answer == 'l')
			flags |= G4_UMOUNT_LAZY;
		else if (answer == 'f')
			flags |= G4_UMOUNT_FORCE;
		else if (answer == ':' || answer == '?')
			return usage(g4_cli_bad_option("umount", answer, argv));
	}
	if (argc - optind != 1)
		return usage(g4_cli_usage("umount", "%s",
					  argc == optind ? "no directory was given" :
							   "one directory at a time can be unmounted"));
	return g4_fuse_umount(argv[optind], flags);
}
