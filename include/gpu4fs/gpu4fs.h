/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libgpu4fs: use a gpu4fs file system from inside a program, without mounting it in the operating system.
 *
 *	gpu4fs *fs;
 *	gpu4fs_file *file;
 *	const char *image = "disk.img";
 *	int rc = gpu4fs_mount(&image, 1, NULL, &fs);
 *	if (rc)
 *		errx(1, "%s", gpu4fs_last_message());
 *	rc = gpu4fs_open(fs, NULL, "/notes/today", O_RDWR | O_CREAT, 0644, &file);
 *
 * The thread that calls a function executes the operation itself: there is no server, no copy between address spaces
 * and no system call for cached data. gpu4fs(3) is the overview, docs/example.c a whole program.
 *
 * Results
 *	Functions that return int give 0, functions that return int64_t give a count or an offset; both give a negative
 *	errno value on failure (never -1 with errno). An out parameter is written only on success. Where a function's
 *	comment lists no errors, those of the POSIX call of the same name apply. Beside them, any function may return
 *	-EIO (device error), -EUCLEAN (the image is damaged: run fsck.gpu4fs), -ENOMEM, and any that changes something
 *	-EROFS or -ENOSPC. After an error that endangers metadata the file system turns read-only: changes
 *	give -EIO or -EROFS, reads go on.
 *
 * Threads
 *	Everything may be called from any thread at any time, on the same objects too, with these exceptions: a
 *	gpu4fs_dir is used by one thread at a time, and an object is closed (gpu4fs_close(), gpu4fs_closedir(),
 *	gpu4fs_session_close(), gpu4fs_unmount()) only when no other call is using it. A read sees a write to the same
 *	pages before or after it, never half of one.
 *
 * Paths
 *	Bytes without encoding, at most 4095, components at most 255. A path that starts with '/' starts at the root of
 *	the file system, never of the host. Any other starts at the directory handle `at`, or with at == NULL at the
 *	session's working directory, which is the root unless its credentials say otherwise. Symbolic links stay inside
 *	the file system; 40 are followed at most.
 *
 * Memory
 *	The library never keeps a pointer that it was given after the call returns, except in asynchronous operations
 *	(gpu4fs_submit()), and never hands out memory that the caller must free.
 *
 * Versions
 *	Structures that go into the library start with `size`: set it to sizeof(struct ...) and the rest to zero or to
 *	what you want. Later versions append fields; zero always means the default. -EINVAL says that size is too small
 *	to be right, -E2BIG that a field is set which this library does not know. Structures that come out have
 *	reserved fields instead.
 *
 * Parts
 *	This file includes them all: gpu4fs_mount.h (making, mounting, sessions, health), gpu4fs_path.h (files by path,
 *	extended attributes), gpu4fs_file.h (open files and directories, locks, asynchronous operations).
 */
#ifndef GPU4FS_H
#define GPU4FS_H

#include "gpu4fs/gpu4fs_file.h"
#include "gpu4fs/gpu4fs_mount.h"
#include "gpu4fs/gpu4fs_path.h"

#endif
