/* SPDX-License-Identifier: Apache-2.0 */
/* Policies of files and directories (format.h), as users read and set them. Leader. */
#ifndef G4_POLICY_H
#define G4_POLICY_H

#include "inode/mounted.h"

/* The fields that users set, by their names behind "gpu4fs."; and the number of the domain, which is only told. */
enum g4_policy_field { G4_POLICY_FIELD_CHECKSUM, G4_POLICY_FIELD_DEDUP, G4_POLICY_FIELD_RAID, G4_POLICY_FIELD_DOMAIN };

/* What the inode's own policy says in a field, as a word, or a number, of at most G4_POLICY_TEXT bytes, no NUL. Locked. Its length. */
#define G4_POLICY_TEXT 12u
G4_FN uint32_t g4_policy_text(const struct g4_inode_core *inode, enum g4_policy_field field, char *text);
/* The value of a field that a word names, in its bits of the policy. -G4_E_INVAL: none. */
G4_FN int g4_policy_parse(enum g4_policy_field field, const char *text, uint64_t bytes, uint32_t *value);
/*
 * How what is written to the file from now on is kept, or to files that are made in the directory. `value`: of the field, in its bits.
 * Write-locked, outside of transactions.
 */
G4_FN int g4_policy_set(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, enum g4_policy_field field, uint32_t value);

#endif
