/* SPDX-License-Identifier: Apache-2.0 */
/* Pure translations between the kernel's and the engine's words; thread-safe. */
#ifndef G4_FUSE_CONVERT_H
#define G4_FUSE_CONVERT_H

#include <sys/stat.h>
#include <time.h>

#include "fs/command.h"

void g4_fuse_stat(const struct g4_attr *attr, struct stat *st);
uint64_t g4_fuse_time_ns(const struct timespec *time); /* saturates at the ends of the range */
struct timespec g4_fuse_timespec(uint64_t time_ns);
/* G4_OPEN_* for open(2) flags, under the rules of the write-back cache when that is on. */
uint32_t g4_fuse_open_flags(int flags, bool writeback);
/* FS_*_FL of chattr(1) and FS_XFLAG_* for G4_INODE_* and back; back returns false for a flag the engine lacks. */
uint32_t g4_fuse_fs_flags(uint32_t inode_flags);
uint32_t g4_fuse_xflags(uint32_t inode_flags);
bool g4_fuse_from_fs_flags(uint32_t fs_flags, uint32_t *inode_flags);
bool g4_fuse_from_xflags(uint32_t xflags, uint32_t *inode_flags);
/* Drops the names that start with "trusted." from an attribute list, in place; returns the bytes left. */
size_t g4_fuse_hide_trusted(char *list, size_t bytes);

#endif
