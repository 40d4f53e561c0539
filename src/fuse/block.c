/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Block devices are served as fuseblk: the kernel then claims the device as for any other file system, forwards sync(2) and
 * syncfs(2) (since Linux 6.18), and umount(2) sends DESTROY and returns when that is answered, which is when the image is
 * clean and the device closed. Only root may mount so, and libfuse would say on stderr why it could not, where a mount of
 * the plain kind is as good.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "format/format.h"
#include "fuse/mounts.h"
#include "fuse/server.h"

int g4_fuse_block_mount(const struct g4_fuse_options *o, const char *device, const char *mountpoint)
{
	const unsigned long flags = (o->read_only ? MS_RDONLY : 0ul) | (o->nosuid ? MS_NOSUID : 0ul) |
				    (o->nodev ? MS_NODEV : 0ul) | (o->noexec ? MS_NOEXEC : 0ul) |
				    (o->sync ? MS_SYNCHRONOUS : 0ul) | (o->dirsync ? MS_DIRSYNC : 0ul) |
				    (o->atime == G4_ATIME_NOATIME ? MS_NOATIME : 0ul);
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC), result;
	char words[160];

	if (fd < 0)
		return -errno;
	snprintf(words, sizeof(words), "fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions%s,blksize=%u", fd,
		 o->allow_other ? ",allow_other" : "", (unsigned)G4_PAGE_BYTES);
	if (mount(device, mountpoint, "fuseblk.gpu4fs", flags, words) == 0)
		return fd;
	result = -errno;
	close(fd);
	return result;
}

void g4_fuse_block_unmount(struct g4_fuse_host *host, const char *mountpoint)
{
	struct pollfd connection = {.fd = fuse_session_fd(host->session)};

	/* Not while somebody unmounts it, nor after that. MNT_FORCE: nobody would answer DESTROY. */
	if (host->destroy_fd < 0 && poll(&connection, 1, 0) >= 0 && !(connection.revents & POLLERR))
		(void)umount2(mountpoint, MNT_FORCE | MNT_DETACH | UMOUNT_NOFOLLOW);
}

void g4_fuse_destroy_asked(struct g4_fuse_host *host, int fd, uint64_t unique)
{
	host->destroy_unique = unique;
	host->destroy_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* the worker's goes with its thread */
	fuse_session_exit(host->session);
}

void g4_fuse_destroy_done(struct g4_fuse_host *host)
{
	const struct fuse_out_header out = {.len = sizeof(out), .unique = host->destroy_unique};

	if (host->destroy_fd < 0)
		return;
	(void)!write(host->destroy_fd, &out, sizeof(out)); /* fails where nobody waits any more */
	close(host->destroy_fd);
	host->destroy_fd = -1;
}
