/* SPDX-License-Identifier: Apache-2.0 */
/* Contents of symbolic links: in the inode, or in a page. Leader. */
#ifndef G4_SYMLINK_H
#define G4_SYMLINK_H

#include "data/sums.h"

/* A symbolic link's target, at most G4_PATH_MAX - 1 bytes. Read-locked. */
G4_FN int g4_link_read(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, char *to, uint32_t room, uint32_t *bytes);
/*
 * Before the transaction that makes the link, which will have this policy: stores a long target in a page of its own.
 * ahead->address none: none is needed.
 */
G4_FN int g4_link_store(struct g4_wg *wg, struct g4_fs *fs, uint32_t policy, const char *target, uint32_t bytes,
			struct g4_page_ahead *ahead);
/* In that transaction: the new inode gets its target. The caller logs it. */
G4_FN int g4_link_publish(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  const char *target, uint32_t bytes, const struct g4_page_ahead *ahead);
/* The page of a link that never came to be. */
G4_FN void g4_link_drop(struct g4_fs *fs, const struct g4_page_ahead *ahead);

#endif
