/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that come, go and move beside others in the same directory (docs/design/directories.md, "Many makers in one directory"). The
 * directory is locked shared, by makers; a workgroup that unites pages of it or divides index pages, changes its attributes or removes
 * it has it alone.
 *
 * Each function is called inside of a transaction that has G4_NAME_CREDITS for the directory and a block for each leaf. It
 * locks the leaf, looks whether the name is still what the caller has seen, and changes leaf, counts and lookup cache: all or nothing
 * of it. A leaf is locked for no longer than that takes, and nobody waits for the device with it: what has to be read is referenced
 * before, and a lookup gives the leaf back while it loads an inode. Crash at any line: the transaction has all of it or nothing.
 *
 * An inode that a name is taken from is write-locked by the caller, which has seen g4_name_leads_to() since: so no other takes that
 * name, and what follows for the inode is the caller's in the same transaction.
 */
#ifndef G4_MAKERS_H
#define G4_MAKERS_H

#include "fs/names.h"

/* Nothing was changed: this needs the directory alone, or another maker was faster; with the directory alone it turns out which. */
#define G4_ALONE 1
/* Nothing was changed: a new name has no room in its leaf. g4_makers_make_room() may make some. */
#define G4_NO_ROOM 2
/* Attempts with that, before it is done with the directory alone: in each of them others were faster. */
#define G4_MAKERS_TRIES 8u

/* What keeps a name, which a lookup has not found, from being put in beside others: 0, G4_ALONE or G4_NO_ROOM. */
G4_FN G4_INLINE int g4_makers_lack(const struct g4_dir_slot *slot, uint32_t bytes)
{
	if (slot->alone)
		return G4_ALONE;
	return g4_dir_insert_credits(slot, bytes) > 1 ? G4_NO_ROOM : 0;
}

struct g4_named { /* a name in the directory, and what a lookup said of it */
	const char *text;
	uint32_t bytes;
	struct g4_dir_slot *slot;
	bool keeps_pages; /* remove: the leaf stays as it is, for the caller unites it with others later */
};

/* Leader, all of them; the directory is read-locked. 0, G4_ALONE, a negative code, or, of a new name, G4_NO_ROOM. */
/* A name that was not there, for the write-locked inode at `index`. */
G4_FN int g4_makers_insert(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *dir,
			   const struct g4_named *name, uint32_t index, uint64_t now);
/* The name of a write-locked inode. */
G4_FN int g4_makers_remove(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *dir,
			   const struct g4_named *name, const struct g4_inode_core *inode, uint64_t now);
/* The name of one, to one that was not there (met: NULL) or to that of another. */
G4_FN int g4_makers_rename(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *dir,
			   const struct g4_named *from, const struct g4_named *to, const struct g4_inode_core *moved,
			   const struct g4_inode_core *met, uint64_t now);
/*
 * Splits the leaf of a hash that has no room for a name of so many bytes; the transaction has G4_NAME_CREDITS + G4_DIR_SPLIT_CREDITS.
 * 0: there is room now, or was already.
 */
G4_FN int g4_makers_divide(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *dir,
			   uint32_t hash, uint32_t name_bytes);
/*
 * Leader, with no inode locked and outside of transactions. Makes room for a name in a directory, in a transaction of its own: beside
 * others if a split of the name's leaf will do. 0, or what is wrong; somebody may have filled it again by the time of the next attempt.
 * G4_ALONE: names of its hash would have to be divided.
 */
G4_FN int g4_makers_make_room(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *dir, const struct g4_cred *cred,
			      const char *name, uint32_t bytes);

#endif
