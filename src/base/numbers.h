/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of POSIX and Linux that commands carry and the layers below understand; and the name of the root directory. */
#ifndef G4_NUMBERS_H
#define G4_NUMBERS_H

#include "base/base.h"

#define G4_S_IFMT 0170000u
#define G4_S_IFSOCK 0140000u
#define G4_S_IFLNK 0120000u
#define G4_S_IFREG 0100000u
#define G4_S_IFBLK 0060000u
#define G4_S_IFDIR 0040000u
#define G4_S_IFCHR 0020000u
#define G4_S_IFIFO 0010000u
#define G4_S_ISUID 04000u
#define G4_S_ISGID 02000u
#define G4_S_ISVTX 01000u
#define G4_S_IWGRP 00020u
#define G4_S_IXGRP 00010u
#define G4_S_IWOTH 00002u

G4_FN G4_INLINE bool g4_is_dir(uint32_t mode)
{
	return (mode & G4_S_IFMT) == G4_S_IFDIR;
}

G4_FN G4_INLINE bool g4_is_reg(uint32_t mode)
{
	return (mode & G4_S_IFMT) == G4_S_IFREG;
}

G4_FN G4_INLINE bool g4_is_link(uint32_t mode)
{
	return (mode & G4_S_IFMT) == G4_S_IFLNK;
}

/* COPY_RANGE: what can not be shared is an error, and is not copied */
#define G4_COPY_SHARE 0x01u
#define G4_COPY_SAME 0x02u    /* so, and only pages that are the same in both, up to the first that is not */
#define G4_COPY_COMPARE 0x04u /* with SAME: bytes are compared whatever the sums are */
#define G4_COPY_ZEROS                                                                                                  \
	0x08u /* with SAME, of a range with itself: it is compared with zeros, and pages of zeros become holes */
#define G4_COPY_FLAGS (G4_COPY_SHARE | G4_COPY_SAME | G4_COPY_COMPARE | G4_COPY_ZEROS)

#define G4_FALLOC_KEEP_SIZE 0x01u /* same numbers as fallocate(2) */
#define G4_FALLOC_PUNCH_HOLE 0x02u
#define G4_FALLOC_COLLAPSE_RANGE 0x08u
#define G4_FALLOC_ZERO_RANGE 0x10u
#define G4_FALLOC_INSERT_RANGE 0x20u
#define G4_SEEK_DATA 3u /* same numbers as lseek(2) */
#define G4_SEEK_HOLE 4u
#define G4_NODE_ROOT UINT64_C(1) /* of the root directory, whatever inode that is */

#endif
