/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts, with and without their server: state files, unmounting, remounting, block devices of root. */
#ifndef G4_FUSE_MOUNTS_H
#define G4_FUSE_MOUNTS_H

#include <sys/types.h>

#include "fuse/fuse.h"

struct g4_fuse_host;

/*
 * state.c: one small file per mount under /run, named by the mount's device number and its server. The serving process holds an
 * exclusive lock on it for its whole life and writes its result into it last; a process that waits for the unmount waits for
 * the lock.
 */
struct g4_fuse_mount_entry {
	unsigned major, minor;
	unsigned user_id; /* who mounted */
	char type[64];
	char source[4096]; /* what is mounted, as the server named it; PATH_MAX */
};
/* The topmost mount on the absolute path dir, from /proc/self/mountinfo: 0 or -errno, -ENOENT when there is none. */
int g4_fuse_find_mount(const char *dir, struct g4_fuse_mount_entry *entry);
/* Where a block device is mounted, for the caller to free, or NULL. */
char *g4_fuse_find_device(dev_t device, struct g4_fuse_mount_entry *entry);
/* Creates and locks the file: a descriptor or -errno. `engine` as in g4_engine_name(). */
int g4_fuse_state_create(const struct g4_fuse_mount_entry *entry, const char *engine);
/* Opens the file of a mount that somebody serves: a descriptor or -errno. */
int g4_fuse_state_open(const struct g4_fuse_mount_entry *entry);
/* Says in the file that an error has ended writing. */
void g4_fuse_state_stopped(int fd);
/* Says in the file that some of what was written found no room, and those who wrote it were told. */
void g4_fuse_state_no_room(int fd);
/* Records the result (a negative code or 0), removes the file and gives the lock back. */
void g4_fuse_state_finish(const struct g4_fuse_mount_entry *entry, int fd, int result);
/* True when the server of the mount on path has ended without unmounting it, so that nothing can answer there any more. */
bool g4_fuse_mount_is_dead(const char *path, const struct g4_fuse_mount_entry *entry);
/* Waits for the server's end. 0: *result and *no_room hold what it recorded; -ENODATA: it ended without a word; else -errno. */
int g4_fuse_state_wait(const struct g4_fuse_mount_entry *entry, int fd, int *result, bool *no_room);

/* remount.c: the mount on path becomes read-only, its other flags stay. 0 or -errno: EBUSY while a file is open for writing. */
int g4_fuse_make_read_only(const char *path);

/* umount.c */
/* The absolute path of a mount point, for the caller to free; NULL with errno. */
char *g4_fuse_mount_path(const char *dir);
/*
 * Unmounts what dead servers have left on path, which a new mount would hide, not replace; and elsewhere of a block device,
 * which the kernel keeps claimed. Says so on stderr; false, with the reason printed, when one is in use.
 */
bool g4_fuse_remove_dead_mounts(const char *path, const char *device);

/* block.c: block devices of root */
/* Mounts it: a descriptor of /dev/fuse, or -errno. Nobody else may have a claim on the device (g4_dev_lend()). */
int g4_fuse_block_mount(const struct g4_fuse_options *options, const char *device, const char *mountpoint);
/* Takes such a mount away if it is still there, in the middle of whatever it does. */
void g4_fuse_block_unmount(struct g4_fuse_host *host, const char *mountpoint);

#endif
