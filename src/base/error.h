/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private error codes: one origin each. Functions return 0 or a count on success and a negative code on failure.
 * The boundary (client, FUSE, CLI) turns a code into errno with g4_errno() and into a sentence with g4_strerror().
 *
 * G4_ERRORS(X): X(NAME, number, errno, sentence). Numbers are stable: they appear in ring completions.
 */
#ifndef G4_ERROR_H
#define G4_ERROR_H

#include <errno.h>

#include "base/base.h"

#define G4_ERRORS(X)                                                                                                   \
	/* what a caller asked for */                                                                                  \
	X(NOENT, 1, ENOENT, "no such file or directory")                                                               \
	X(EXIST, 2, EEXIST, "the name exists already")                                                                 \
	X(NOTDIR, 3, ENOTDIR, "a path component is not a directory")                                                   \
	X(ISDIR, 4, EISDIR, "is a directory")                                                                          \
	X(NOTEMPTY, 5, ENOTEMPTY, "the directory is not empty")                                                        \
	X(NAMETOOLONG, 6, ENAMETOOLONG, "the name is longer than 255 bytes or the path longer than 4095")              \
	X(INVAL, 7, EINVAL, "invalid argument")                                                                        \
	X(PERM, 8, EPERM, "operation not permitted")                                                                   \
	X(ACCES, 9, EACCES, "permission denied")                                                                       \
	X(LOOP, 10, ELOOP, "too many symbolic links, or a link where none may be followed")                            \
	X(MLINK, 11, EMLINK, "too many links")                                                                         \
	X(FBIG, 12, EFBIG, "the file would become too large")                                                          \
	X(BADF, 13, EBADF, "the handle does not allow this operation")                                                 \
	X(STALE, 14, ESTALE, "the inode does not exist any more")                                                      \
	X(NODATA, 15, ENODATA, "no such extended attribute")                                                           \
	X(RANGE, 16, ERANGE, "the buffer is too small for the value")                                                  \
	X(XATTR_BIG, 17, E2BIG, "the extended attribute is larger than 64 KiB")                                        \
	X(NOTSUP, 18, EOPNOTSUPP, "the operation is not supported")                                                    \
	X(NXIO, 19, ENXIO, "no data beyond this offset")                                                               \
	X(XDEV, 20, EXDEV, "source and target lie in different file systems")                                          \
	X(BUSY, 21, EBUSY, "busy")                                                                                     \
	X(NOSYS, 22, ENOSYS, "the command is not known to this engine")                                                \
	X(AGAIN, 23, EAGAIN, "would block")                                                                            \
	X(INTR, 24, EINTR, "interrupted")                                                                              \
	X(OVERFLOW, 25, EOVERFLOW, "a value does not fit its field")                                                   \
	X(XATTR_SPACE, 26, ENOSPC, "no room for more extended attributes in this file")                                \
	X(CANCELED, 27, ECANCELED, "not tried, because something before it failed")                                    \
	X(LEAVES, 28, EXDEV, "the path leaves the file system")                                                        \
	X(FAULT, 29, EFAULT, "the buffer cannot be written")                                                           \
	/* resources */                                                                                                \
	X(NOSPC, 40, ENOSPC, "the file system is full")                                                                \
	X(NOMEM, 41, ENOMEM, "out of memory")                                                                          \
	X(NFILE, 42, ENFILE, "too many files are open")                                                                \
	X(ROFS, 43, EROFS, "the file system is read-only")                                                             \
	X(SHUTDOWN, 44, EIO, "the file system was shut down after an error; unmount it and run fsck.gpu4fs")           \
	X(NO_NUMBER, 45, EMFILE, "the process has no number for another descriptor")                                   \
	/* devices */                                                                                                  \
	X(IO, 60, EIO, "input/output error")                                                                           \
	X(DEV_NAME, 61, EINVAL, "the device name is not understood")                                                   \
	X(DEV_OPEN, 62, ENODEV, "the device cannot be opened")                                                         \
	X(DEV_BUSY, 63, EBUSY, "the device is in use")                                                                 \
	X(DEV_SMALL, 64, ENOSPC, "the device is too small")                                                            \
	X(DEV_READONLY, 65, EROFS, "the device is read-only")                                                          \
	X(DEV_RANGE, 66, EIO, "an access beyond the end of the device")                                                \
	X(DEV_ALIGN, 67, EINVAL, "an access is not aligned to the device's sector")                                    \
	/* images */                                                                                                   \
	X(SB_MAGIC, 80, EINVAL, "no gpu4fs superblock found")                                                          \
	X(SB_VERSION, 81, EINVAL, "the image was made by a newer gpu4fs; use that version")                            \
	X(SB_FEATURE, 82, EINVAL, "the image uses features that this version does not know")                           \
	X(SB_GEOMETRY, 83, EUCLEAN, "the superblock describes an impossible layout")                                   \
	X(SB_TRUNCATED, 84, EUCLEAN, "the device is smaller than the file system on it")                               \
	X(SB_DISKS, 85, EINVAL, "not all disks of the file system were given")                                         \
	X(CHECKSUM, 86, EUCLEAN, "a metadata block has a wrong checksum")                                              \
	X(MISDIRECTED, 87, EUCLEAN, "a metadata block carries another block's address")                                \
	X(TYPE, 88, EUCLEAN, "a metadata block has another type than expected")                                        \
	X(CORRUPT_INODE, 89, EUCLEAN, "an inode is damaged")                                                           \
	X(CORRUPT_DIR, 90, EUCLEAN, "a directory block is damaged")                                                    \
	X(CORRUPT_MAP, 91, EUCLEAN, "a file's block map is damaged")                                                   \
	X(CORRUPT_ALLOC, 92, EUCLEAN, "the allocation map is damaged")                                                 \
	X(CORRUPT_XATTR, 93, EUCLEAN, "an extended attribute block is damaged")                                        \
	X(CORRUPT_JOURNAL, 94, EUCLEAN, "the journal is damaged")                                                      \
	X(JOURNAL_FULL, 95, EIO, "an operation does not fit the journal")                                              \
	X(JOURNAL_OLD, 96, EUCLEAN, "what the journal holds is older than what is in place")                           \
	X(JOURNAL_GAP, 97, EUCLEAN,                                                                                    \
	  "a transaction in the journal is damaged, and newer ones follow it; fsck.gpu4fs tells what would be lost")   \
	X(CORRUPT_SUMS, 98, EIO, "the sums of a file's pages are damaged")                                             \
	X(DATA, 99, EIO, "a page of a file is not what was written")                                                   \
	X(POLICY, 100, EIO, "the policy for data says more than this version knows; use a newer gpu4fs")               \
	X(NO_TARGET, 101, ENODEV, "no disk is being rebuilt any more")                                                 \
	X(TARGET, 102, EIO, "the disk that was being rebuilt failed, and is no longer used")                           \
	X(SOURCE, 103, EIO, "what is to be rebuilt can not be read from the other disks")                              \
	X(PARITY, 104, EUCLEAN, "data and parity do not fit together, and which of them is wrong is not known")

enum g4_error {
#define G4_ERROR_ENUM(name, number, unix_errno, sentence) G4_E_##name = (number),
	G4_ERRORS(G4_ERROR_ENUM)
#undef G4_ERROR_ENUM
};

#ifdef __cplusplus
extern "C" {
#endif

/* The errno value (positive) for a negative code; EIO for a number that is no code. Host only. Thread-safe. */
int g4_errno(int code);
/* A sentence for a negative code, static storage. Host only. Thread-safe. */
const char *g4_strerror(int code);

#ifdef __cplusplus
}
#endif

#endif
