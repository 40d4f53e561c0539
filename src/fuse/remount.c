/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mount -o remount: what the kernel keeps of a mount can be changed, read-only above all; what the server was started with
 * stays. mount(8) hands all options of the mount to its helper, so those are not refused.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/xattr.h>

#include "fuse/fuse_types.h"

static unsigned long kernel_flags(const struct g4_fuse_options *o)
{
	return (o->read_only ? MS_RDONLY : 0ul) | (o->nosuid ? MS_NOSUID : 0ul) | (o->nodev ? MS_NODEV : 0ul) |
	       (o->noexec ? MS_NOEXEC : 0ul) | (o->sync ? MS_SYNCHRONOUS : 0ul) | (o->dirsync ? MS_DIRSYNC : 0ul) |
	       (o->atime == G4_ATIME_NOATIME ? MS_NOATIME : 0ul);
}

static int set_flags(const char *path, unsigned long flags)
{
	if (mount(NULL, path, NULL, MS_REMOUNT | flags, NULL) == 0)
		return 0;
	if (errno == EBUSY)
		fprintf(stderr, "gpu4fs: %s has files that are open for writing: it cannot become read-only\n", path);
	else
		fprintf(stderr, "gpu4fs: %s cannot be remounted: %s\n", path, strerror(errno));
	return G4_MOUNT_EXIT_FAIL;
}

/* A server that takes no changes, because it was mounted so or after an error, says that to a change of nothing, too. */
static bool server_is_read_only(const char *path)
{
	return removexattr(path, "user.gpu4fs.is_writable") < 0 && errno == EROFS;
}

int g4_fuse_remount(const struct g4_fuse_options *options)
{
	char *path = g4_fuse_mount_path(options->mountpoint);
	unsigned long flags = kernel_flags(options);
	struct g4_fuse_mount_entry entry;
	int status = G4_MOUNT_EXIT_FAIL;

	if (!path || g4_fuse_find_mount(path, &entry) < 0 || !strstr(entry.type, "gpu4fs"))
		fprintf(stderr, "gpu4fs: %s is not a mount of gpu4fs\n", options->mountpoint);
	else
		status = set_flags(path, flags);
	if (status == 0 && !options->read_only && server_is_read_only(path)) {
		(void)set_flags(path, flags | MS_RDONLY);
		fprintf(stderr,
			"gpu4fs: %s was mounted read-only, or became so after an error: unmount it and mount it again\n",
			path);
		status = G4_MOUNT_EXIT_FAIL;
	}
	free(path);
	return status;
}
