/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHREDDER_TEST_FOLDER_H
#define SHREDDER_TEST_FOLDER_H

#include <stddef.h>

/*
 * Makes a folder of a test's own; its path, of at most `room` bytes, is for the caller, who removes it. 0 or -1. In $TMPDIR where that is
 * set; else in memory, where files there can have attributes (/dev/shm, Linux 6.6), or in /tmp: ext4 looks at every inode that was removed
 * within the last minutes whenever it makes one, which was nine tenths of the time of tests that make and remove thousands of files.
 */
int test_folder(char *path, size_t room, const char *name);

#endif
