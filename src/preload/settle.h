/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes the kernel's for what a call means, and not for the descriptor that it is about. */
#ifndef G4_PRELOAD_SETTLE_H
#define G4_PRELOAD_SETTLE_H

#include <poll.h>
#include <sys/select.h>
#include <sys/socket.h>

#include "preload/preload.h"

struct iocb;

/* What lies in the arguments of poll(2), select(2), sendmsg(2) (io.c) and io_submit(2) (opens.c). */
void g4p_settle_polled(const struct pollfd *fds, nfds_t count);
void g4p_settle_sets(int count, const fd_set *in, const fd_set *out, const fd_set *other);
/* Rights that are sent. False, with errno: one of them cannot become the kernel's, and must not be sent. */
bool g4p_settle_rights(const struct msghdr *message);
/* The same of several messages: *count becomes the number of those in front of such a one, if there are any. */
bool g4p_settle_messages(const struct mmsghdr *messages, unsigned int *count);
void g4p_settle_blocks(long count, struct iocb **blocks);

/* The process is going to lock a part of a file, as fcntl(2) does, by a descriptor of the kernel's (calls.c). */
void g4p_record_lock(int fd);
/* The mount and inode of a descriptor of the kernel's; NULL: of none (connect.c). Calm. */
const struct g4p_mount *g4p_inode_of(int fd, uint64_t *ino);
/* Whether the engine serves a descriptor of the inode (files.c). Calm. */
bool g4p_has_inode(const struct g4p_mount *mount, uint64_t ino);
/* All that is open of an inode becomes the kernel's, and what is opened of it later is so from the start (files.c). Calm. */
void g4p_settle_inode(const struct g4p_mount *mount, uint64_t ino);

/*
 * The process is going to be told of what the kernel does with what is there (inotify and its relatives, leases): where that is in one of our mounts,
 * what it does there itself from now on, and what the processes do that it forks, is the kernel's (connect.c).
 */
void g4p_watches(int at, const char *path);

/* Whether files may not grow as they like (RLIMIT_FSIZE): then the kernel writes, which looks at that (process.c). */
bool g4p_is_limited(void);
void g4p_limits_changed(void);

#endif
