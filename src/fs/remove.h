/* SPDX-License-Identifier: Apache-2.0 */
/* What removing a name and renaming over one share. */
#ifndef G4_REMOVE_H
#define G4_REMOVE_H

#include "dir/dir.h"
#include "fs/command.h"
#include "fs/cred.h"
#include "inode/mounted.h"

/* Whether the name of a locked inode may go from a locked directory: in sticky ones only its owner, the directory's, or root. */
G4_FN int g4_check_delete(const struct g4_inode_core *parent, const struct g4_inode_core *inode,
			  const struct g4_cred *cred);
/*
 * In a transaction: a locked inode lost a name. Without names it becomes an orphan; *unused says that nobody uses it,
 * so that the caller deletes it when its locks are gone.
 */
G4_FN int g4_lose_name(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, uint32_t index, uint64_t now,
		       bool *unused);
/*
 * UNLINK or RMDIR whose directory keeps its pages, so that nobody has it alone for their sake; the caller unites them when many names have
 * gone. Where that does not happen they go with other removals near them, or with the directory.
 */
G4_FN int g4_remove_keeping_pages(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd);
/*
 * The same of name k of a listing, as UNLINK, with the directory locked, shared, since it was listed, and its permissions asked for (WRITE and EXEC):
 * without a lookup. -G4_E_NOENT: the name is gone since. *unused: G4_NO_INODE, or the inode that the caller deletes when it has unlocked the directory; referenced.
 * G4_ALONE (makers.h): nothing was changed, for it is no such name any more, or was none: a removal of its own says what it is.
 */
G4_FN int g4_remove_listed(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *dir, struct g4_dir_listed *listed,
			   uint32_t k, struct g4_cmd *cmd, uint32_t *unused);
/*
 * Of a directory that is locked alone: frees leaves without names and unites those that have few, some of those from *from on, before
 * `until`; *from is where to go on.
 */
G4_FN int g4_unite_pages(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t *from,
			 uint64_t until);

#endif
