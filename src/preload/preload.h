/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interception library inside: what its files share. docs/design/preload.md says what goes to the engine and what to the kernel.
 *
 * A wrapper of a call by path begins with g4p_enter(), of one by descriptor with g4p_use(). Where these say that the call is the kernel's,
 * or the engine's answer is not for the program (g4p_leave() gives G4P_KERNEL), the C library's own function is called, which asks it.
 */
#ifndef G4_PRELOAD_H
#define G4_PRELOAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "gpu4fs/gpu4fs.h"
#include "preload/calm.h"
#include "preload/memory.h"
#include "preload/trace.h"

#define G4P_MOUNTS 8u
#define G4P_FILES 65536u		 /* larger descriptors are the kernel's */
#define G4P_ENVIRONMENT "GPU4FS_PRELOAD" /* SOCKET=DIRECTORY lines */
/* One directory whose files are the engine's. Constant, apart from what says otherwise. */
struct g4p_mount {
	char directory[G4P_PATH_BYTES];
	size_t directory_bytes;
	char socket[108];
	dev_t device; /* of the mount below */
	gpu4fs *fs;   /* NULL: not connected; changed by connect.c */
	bool off;     /* the engine is not asked any more, or never was */
	uint32_t
		looked; /* at the process's mounts, when g4c_mount_changes() was this; guarded by connect.c's lock, and read without */
	bool opens; /* the server gives the kernel's descriptors, so files may be opened here */
};

/* What an open descriptor that the engine serves stands for: as the kernel's open file description. */
struct g4p_file {
	uint32_t refs;	       /* descriptors, streams and calls; guarded by the table's lock */
	pthread_rwlock_t lock; /* read: a call uses the handle by way of a descriptor; write: it becomes the kernel's */
	bool settled;	       /* it is the kernel's; guarded by lock */
	bool hidden;	       /* its placeholders are nothing's: g4p_hide_file(); changed with lock and the table's */
	bool directory;
	int flags; /* of open(2), without what matters to opening alone */
	gpu4fs_file *handle;
	struct g4p_mount *mount;
	gpu4fs *fs; /* the connection that it was opened by, which may be another one than the mount's by now */
};

/* ------------------------------------------------------------------ calls.c: around each call */

/* A call by path. */
struct g4p_call {
	struct g4p_calm calm;
	enum g4p_number number;
	struct g4p_mount *mount;
	gpu4fs *fs;
	gpu4fs_file *at;
	struct g4p_file *held; /* what at belongs to */
	bool by_working_directory;
	const char *path;
};

#define G4P_KERNEL INT64_MIN
/*
 * at: a descriptor, or AT_FDCWD. 0: the engine has the answer for this path, and g4p_leave() must follow, with it. Else G4P_KERNEL, or
 * -1 with errno: the kernel cannot be asked.
 */
int64_t g4p_enter(struct g4p_call *call, enum g4p_number number, int at, const char *path);
/* Finds the place of a second path of the same call. False: it is none of this mount's; the call is still to be left. */
bool g4p_enter_second(struct g4p_call *second, const struct g4p_call *first, int at, const char *path);
void g4p_leave_second(struct g4p_call *second);
/* Ends the call with the engine's answer, a result or a negative errno. What the program gets: a result, -1 with errno, or G4P_KERNEL. */
int64_t g4p_leave(struct g4p_call *call, int64_t result);

/* Before the kernel gets a path that may begin at one of our descriptors. False, with errno: it must not. */
bool g4p_settle_start(int at, const char *path, enum g4p_number number);
/* Before the kernel gets a path: if it is one of those that name descriptors (/proc/self/fd/N, /dev/fd/N), all are the kernel's. */
void g4p_settle_shown(const char *path);

/* A call by descriptor. */
struct g4p_use {
	struct g4p_calm calm;
	struct g4p_file *file;
	gpu4fs_file *handle;
};

/* Whether the engine serves the descriptor; then g4p_done() must follow. */
bool g4p_use(struct g4p_use *use, enum g4p_number number, int fd);
/* What the program gets: a result, or -1 with errno. */
int64_t g4p_done(struct g4p_use *use, int64_t result);

/* ------------------------------------------------------------------ connect.c: mounts and their servers */

void g4p_start(void); /* reads the environment, once; called by whatever comes first */
struct g4p_mount *g4p_mounts(uint32_t *count);
/* The mount's file system, connected; NULL: there is none to be had. Calm. */
gpu4fs *g4p_connect(struct g4p_mount *mount);
/* The server of this connection has ended: the next call makes a new one, if there is a server again. Calm. */
void g4p_disconnect(struct g4p_mount *mount, gpu4fs *fs);
/* Whether a descriptor is this library's own, which programs may not close. */
bool g4p_owns(int fd);
/* Gets the library's own descriptor out of the way of a number that the program asks for. Calm. */
void g4p_make_way(int fd);
void g4p_connect_forked(bool shared);
void g4p_connect_lock(bool lock);
/* Credentials, the root or a namespace, of a thread or of all: from now on all is the kernel's, what is open as well. */
void g4p_credentials_changed(void);
void g4p_umask_changed(mode_t mask);
/* The process has mounted something: where that is inside one of our mounts, all is the kernel's from now on. */
void g4p_mounts_changed(void);

/* ------------------------------------------------------------------ files.c: descriptors */

/* Whether the engine serves the descriptor, or did a moment ago: without a lock. */
bool g4p_is_ours(int fd);
/* A descriptor that the engine serves, with a reference; NULL: it is the kernel's. */
struct g4p_file *g4p_get(int fd);
void g4p_put(struct g4p_file *file);
/*
 * A number for a file that is going to be opened; a negative errno: none is free. For opens that change what they open, which may not
 * fail for want of a number afterwards. Calm.
 */
int g4p_reserve(const struct g4p_mount *mount, int flags);
void g4p_unreserve(int fd);
/*
 * Makes a file of the handle, which it then owns, also on failure: a new descriptor, or a negative errno. fs: which opened it; number:
 * reserved, or -1. Calm.
 */
int g4p_install(struct g4p_mount *mount, gpu4fs *fs, gpu4fs_file *handle, int flags, int number);
/* fd is a copy of the descriptor of `file` from now on, and of nothing else. */
void g4p_set(int fd, struct g4p_file *file);
/* The number is going to be closed. */
void g4p_forget(int fd);
/* The kernel is going to give the number to another description, by dup2(2). */
void g4p_number_goes(int fd);
/* Makes a file the kernel's, under all of its numbers: 0 or a negative errno. Calm. */
int g4p_settle_file(struct g4p_file *file);
/*
 * The same from outside: of one descriptor, which may be the kernel's; of all of them, or those that an exec keeps. False, with errno:
 * the kernel must not get the number, for paths that begin there would begin at the mount's root.
 */
bool g4p_settle(int fd, enum g4p_number number);
void g4p_settle_all(bool kept_by_exec, enum g4p_number number); /* streams.c */
void g4p_streams_lock(bool lock);				/* streams.c */
/* Where it cannot become the kernel's, and may not go on: its numbers are nothing's, an error for their users. Calm. */
void g4p_lose_file(struct g4p_file *file);
/* The same for other programs: here the numbers stay the engine's, and a copy of one in another program is an error for its users. Calm. */
void g4p_hide_file(struct g4p_file *file);
void g4p_files_lock(bool lock);
/* In the child of a fork: what could not be settled is lost to it. shared: the numbers are the parent's as well. */
void g4p_files_forked(bool shared);
bool g4p_any_files(void);
int g4p_files_end(void); /* behind the largest descriptor that was ever one of ours */

/* ------------------------------------------------------------------ connect.c: the working directory */

void g4p_directory_changed(void);
/* From begin to its end, which may nest, the C library changes the working directory by itself: relative paths are the kernel's. */
void g4p_wander(bool begin);
/* The working directory where it is in a mount, with a reference; NULL: it is not. Calm. */
struct g4p_file *g4p_working_directory(void);

/* ------------------------------------------------------------------ process.c: another process, another program */

/*
 * Around a fork by number; child: in that, where the parent's connections end. shared: the two have one table of descriptors
 * (CLONE_FILES). Calm.
 */
void g4p_fork_begins(bool shared);
void g4p_fork_ends(bool child, bool shared);
void g4p_exec_begins(const char *path);

/* stats.c */
void g4p_to_stat(const struct g4p_mount *mount, const struct gpu4fs_stat *from, struct stat *to);

#endif
