/* SPDX-License-Identifier: Apache-2.0 */
/* Transactions of operations; errors that stop them. */
#ifndef G4_TXN_H
#define G4_TXN_H

#include "inode/mounted.h"

/*
 * Joins a transaction, committing as often as needed first. The caller may hold inode locks, nothing else.
 * -G4_E_JOURNAL_FULL: no transaction has so many credits; each has G4_TXN_LEAST_BLOCKS.
 */
G4_FN int g4_begin(struct g4_wg *wg, struct g4_fs *fs, uint32_t credits, struct g4_txn *txn);
/*
 * Leaves it and passes on what became of the operation. One that failed for another reason than its arguments or want of
 * space, after it had changed something, is half done: the journal stops, so that the transaction never commits.
 */
G4_FN int g4_end(struct g4_fs *fs, struct g4_txn *txn, int code);
/* Makes transactions up to `sequence` durable; UINT64_MAX: all. */
G4_FN int g4_commit(struct g4_wg *wg, struct g4_fs *fs, uint64_t sequence, bool checkpoint);
/*
 * Leader, outside of any operation: commits a transaction that is nearly full, before those who are in need of room find it full and one of them
 * has to. 1: it was; 0: it is not; or an error.
 */
G4_FN int g4_commit_early(struct g4_wg *wg, struct g4_fs *fs);
/* Metadata is damaged or cannot be written: no more changes. */
G4_FN void g4_fs_error(struct g4_fs *fs, int code);
/* Passes a code on; a corruption or write error of metadata also turns the file system read-only. */
G4_FN int g4_check_failure(struct g4_fs *fs, int code);

G4_FN G4_INLINE int g4_check(struct g4_fs *fs, int code)
{
	return code < 0 ? g4_check_failure(fs, code) : code;
}

#endif
