/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For callers that use a connection in place of a mount of the same file system (src/preload): paths that would leave the mount are
 * not followed, and what is open can become the kernel's.
 */
#ifndef G4_CLIENT_BENEATH_H
#define G4_CLIENT_BENEATH_H

#include <stdbool.h>
#include <sys/stat.h>

#include "gpu4fs/gpu4fs.h"

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
 * The same where no number is free: *instead_of is closed a moment before the descriptor comes, so that this gets its number, if no other
 * thread does; and is -1 then, also on failure.
 */
int g4c_hand_over_as(gpu4fs_file *file, int flags, int *instead_of);
bool g4c_is_directory(const gpu4fs_file *file);
uint64_t g4c_inode_of(const gpu4fs_file *file);
/* Closes a file; where the engine is elsewhere, without waiting until that has happened. */
void g4c_close_soon(gpu4fs_file *file);
/*
 * Whether the directory, of which stat(2) says `found`, is the root of this server's mount. handed: the server hands descriptors over,
 * and that of its root has told; else the inode's number and the time of its last change have, which a copy of the image has as well.
 */
bool g4c_is_mounted_at(gpu4fs *fs, const char *directory, struct stat *found, bool *handed);
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
