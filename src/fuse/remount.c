/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mount -o remount: what the kernel keeps of a mount can be changed, read-only above all; what the server was started with
 * stays. mount(8) hands all options of the mount to its helper, so those are not refused.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include "fs/probe_host.h"
#include "fuse/mounts.h"

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

int g4_fuse_make_read_only(const char *path)
{
	static const struct {
		unsigned long of_statvfs, of_mount;
	} kept[] = {{ST_NOSUID, MS_NOSUID},	    {ST_NODEV, MS_NODEV},
		    {ST_NOEXEC, MS_NOEXEC},	    {ST_NOATIME, MS_NOATIME},
		    {ST_NODIRATIME, MS_NODIRATIME}, {ST_RELATIME, MS_RELATIME},
		    {ST_MANDLOCK, MS_MANDLOCK},	    {ST_SYNCHRONOUS, MS_SYNCHRONOUS}};
	unsigned long flags = MS_REMOUNT | MS_RDONLY;
	struct statvfs st;

	if (statvfs(path, &st) < 0)
		return -errno;
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		flags |= st.f_flag & kept[i].of_statvfs ? kept[i].of_mount : 0;
	return mount(NULL, path, NULL, flags, NULL) == 0 ? 0 : -errno;
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

	if (!path || g4_fuse_find_mount(path, &entry) < 0 || !g4_probe_is_mount_type(entry.type))
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
