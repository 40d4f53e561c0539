/* SPDX-License-Identifier: Apache-2.0 */
/* gpu4fs resize: of a mounted file system by its server, else here. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/units_host.h"
#include "cli/cli.h"
#include "cli/health.h"
#include "client/explain.h"
#include "dev/dev_host.h"
#include "fs/probe_host.h"
#include "fs/resize_host.h"
#include "fuse/fuse.h"
#include "fuse/ioctl.h"
#include "space/set_host.h"

const char g4_help_resize[] = "DEVICE|DIRECTORY [SIZE]\n\n"
			      "Gives the file system on DEVICE, or mounted at DIRECTORY, another size; without SIZE\n"
			      "that of the device. An image file becomes longer or shorter with it.\n\n"
			      "It grows while it is mounted, on the CPU's engine, or while it is not; in all to 16\n"
			      "times the size that it was made with. It shrinks only while it is not mounted, and\n"
			      "not below what is in use furthest behind: nothing is moved. A crash in between\n"
			      "leaves the old size or the new one.\n\n"
			      "      --help  show this\n\n"
			      "SIZE is a number with an optional unit: 4096, 512M, 1.5T.\n";

static int failed(const char *name, const char *message)
{
	g4_cli_error("resize", "%s: %s", name, message);
	return G4_EXIT_FAILURE;
}

static int done(const char *name, uint64_t bytes)
{
	char text[24];

	g4_format_size(bytes, text, sizeof(text));
	printf("%s has %s now, %llu bytes\n", name, text, (unsigned long long)bytes);
	return G4_EXIT_OK;
}

/* Of a block device, or a file: what a mounted file system can have at most. */
static uint64_t size_of(const char *device)
{
	struct stat found;
	const int fd = open(device, O_RDONLY | O_CLOEXEC);
	off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);

	if (end <= 0 && fd >= 0 && fstat(fd, &found) == 0)
		end = found.st_size;
	if (fd >= 0)
		close(fd);
	return end > 0 ? (uint64_t)end : 0;
}

static int resize_mount(const char *directory, const char *device, uint64_t bytes)
{
	struct g4_ioc_resize resize = {.bytes = g4_align_down(bytes ? bytes : size_of(device), G4_PAGE_BYTES)};
	char message[256];
	const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return failed(directory, g4_cli_why(errno));
	const int rc = ioctl(fd, G4_IOC_RESIZE, &resize);
	const int error = errno;
	struct statvfs now;
	if (resize.bytes == 0 && fstatvfs(fd, &now) == 0) /* as large as what it lies on */
		resize.bytes = (uint64_t)now.f_blocks * now.f_frsize;
	close(fd);
	if (rc != 0)
		return failed(directory, error == ENOTTY ? "its server is too old to resize it" : g4_cli_why(error));
	if (resize.status == 0)
		return done(directory, resize.bytes);
	g4_resize_explain(resize.status, resize.bytes, resize.limit, message, sizeof(message));
	return failed(directory, message);
}

static int resize_device(const char *device, uint64_t bytes)
{
	const struct g4_set_options open_options = {.open = {.flags = G4_DEV_EXCLUSIVE, .queues = 1}, .mounts = true};
	char message[512] = "";
	struct g4_dev *dev;
	uint64_t result;

	g4_fuse_wait_for_last_mount(device); /* umount(8) does not */
	if (g4_probe_in_use(device, message, sizeof(message))) {
		g4_cli_error("resize", "%s is %s; give the directory to let it grow", device, message);
		return G4_EXIT_FAILURE;
	}
	int rc = g4_set_open((const char *const[]){device}, 1, &open_options, &dev, message, sizeof(message));
	if (rc < 0) {
		g4c_explain(rc, device, message, sizeof(message));
		g4_cli_error("resize", "%s", message);
		return G4_EXIT_FAILURE;
	}
	rc = g4_resize_device(dev, bytes, &result, message, sizeof(message));
	g4_dev_close(dev);
	return rc < 0 ? failed(device, message) : done(device, result);
}

int g4_cli_resize(int argc, char **argv)
{
	static const struct option none[] = {{NULL, 0, NULL, 0}};
	char device[4096];
	uint64_t bytes = 0;
	const int answer = getopt_long(argc, argv, ":", none, NULL);

	if (answer != -1)
		return g4_cli_bad_option("resize", answer, argv);
	if (argc - optind < 1 || argc - optind > 2)
		return g4_cli_usage("resize", "a device or a directory is needed, and at most a size");
	const char *name = argv[optind];
	if (argc - optind == 2 && (g4_parse_size(argv[optind + 1], &bytes) < 0 || bytes == 0))
		return g4_cli_usage("resize", "'%s' is no size", argv[optind + 1]);
	if (g4_probe_mount_source(name, true, device, sizeof(device)))
		return resize_mount(name, device, bytes);
	if (g4_cli_no_mount("resize", name))
		return G4_EXIT_FAILURE;
	return resize_device(name, bytes);
}
