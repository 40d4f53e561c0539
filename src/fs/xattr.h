/* SPDX-License-Identifier: Apache-2.0 */
/* Extended attributes by space and name, of a write-locked (set, remove, clear) or read-locked in-core inode. */
#ifndef G4_XATTR_H
#define G4_XATTR_H

#include "fs/command.h"
#include "inode/mounted.h"

G4_FN int g4_xattr_get(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t space,
		       const char *name, uint32_t name_bytes, void *to, uint64_t room, uint64_t *bytes);
G4_FN int g4_xattr_set(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
		       uint32_t space, const char *name, uint32_t name_bytes, const void *value, uint64_t bytes,
		       uint32_t flags);
G4_FN int g4_xattr_remove(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			  uint32_t space, const char *name, uint32_t name_bytes);
/* Removes security.capability from a write-locked inode, if it has that. Outside of transactions. */
G4_FN int g4_drop_capability(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode);
/* Frees attributes as far as the transaction's credits go; done when inode->disk.xattr is 0. */
G4_FN int g4_xattr_clear(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode);

/* metadata blocks that one attribute change dirties at most: record page, value chains old and new, their space */
#define G4_XATTR_CREDITS 56u
G4_STATIC_ASSERT(G4_XATTR_CREDITS <= G4_TXN_LEAST_BLOCKS, "any transaction has these");
#define G4_XATTR_MAX_PAGES 64u /* of records; 256 KiB */

/* References a page of an inode's records, checked: struct g4_xattr_page. The first one is inode->disk.xattr. */
G4_FN int g4_xattr_page(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *inode, g4_ptr ptr,
			uint32_t *line);

#endif
