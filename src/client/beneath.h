/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For callers that use a connection in place of a mount of the same file system (src/preload): paths that would leave the mount are
 * not followed, and what is open can become the kernel's.
 */
#ifndef G4_CLIENT_BENEATH_H
#define G4_CLIENT_BENEATH_H

#include <stdbool.h>
#include <sys/types.h>

#include "gpu4fs/gpu4fs.h"

struct g4_make_room;

/*
 * From now on a path that leads out of the root, by ".." there or by a symbolic link to a path from "/", is -EXDEV: where it would
 * lead only the kernel knows. So is a rename of a directory, whose place the kernel remembers. Before the first call with fs.
 */
void g4c_stay_beneath(gpu4fs *fs);
/*
 * What is read goes into the callers' memory by this function; where that says false, the call is -EFAULT, and a position stays where it
 * was. Before the first call with fs.
 */
void g4c_deliver_by(gpu4fs *fs, bool (*by)(void *to, const void *from, size_t bytes));
/* The bits that new files do not get. No call is running. */
void g4c_set_umask(gpu4fs *fs, uint32_t umask);
/*
 * A descriptor of the kernel for an open file, close-on-exec, the caller's; flags: of open(2), what of O_APPEND, O_SYNC, O_DSYNC,
 * O_DIRECT, O_NOATIME and O_NONBLOCK it is to have. Its position is the beginning. Or a negative errno: -EOPNOTSUPP where the server
 * has no mount or may not open files by handle; -EMFILE: this process has no number for it. Thread-safe.
 */
int g4c_hand_over(gpu4fs_file *file, int flags);
/*
 * The same where no number is free: `room` closes one a moment before the descriptor comes, so that this gets it, if no other thread does. It is not
 * called where no answer comes.
 */
int g4c_hand_over_in(gpu4fs_file *file, int flags, const struct g4_make_room *room);
bool g4c_is_directory(const gpu4fs_file *file);
uint64_t g4c_inode_of(const gpu4fs_file *file);
/* Closes a file; where the engine is elsewhere, without waiting until that has happened. */
void g4c_close_soon(gpu4fs_file *file);
/*
 * The device and number of what is there, as stat(2) says them, without asking a server, for they do not change: on a mount whose attributes are
 * asked for each time that spares a request.
 */
bool g4c_identify(int at, const char *path, dev_t *device, uint64_t *ino);
/*
 * Whether the directory is the root of this server's mount, as that has said when it was connected to, and the device of that. handed: the server
 * hands descriptors over.
 */
bool g4c_is_mounted_at(const gpu4fs *fs, const char *directory, dev_t *device, bool *handed);
/* The same of a server that is only asked for that: 0, or a negative errno with gpu4fs_last_message(), -EBUSY: it has no place now. */
int g4c_serves_mount_at(const char *socket, const char *directory, bool *serves);
/* The server has gone: closes the connection's socket, and all that is asked of fs fails. Once. Thread-safe. */
void g4c_end(gpu4fs *fs);
/* Whether the server has said that it goes, or a call has found that it is gone. */
bool g4c_is_over(const gpu4fs *fs);
/* Changes when something was mounted or unmounted that the server's process sees. */
uint32_t g4c_mount_changes(const gpu4fs *fs);
/* The connection's socket. */
int g4c_socket(const gpu4fs *fs);
/*
 * Uses a copy of the socket at the first free number from `least` on. The number that it had is still open, for the caller to close,
 * or better to replace where other calls may be running; -1: it could not be copied.
 */
int g4c_move_socket(gpu4fs *fs, int least);
/*
 * In a process that was forked: lets go of a connection that stays the parent's. Nothing of fs may be used any more. shared: its
 * descriptors are the parent's as well.
 */
void g4c_forsake(gpu4fs *fs, bool shared);

#endif
