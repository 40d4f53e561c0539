/* SPDX-License-Identifier: Apache-2.0 */
/* Policies of files and directories (format.h), as users read and set them. Leader. */
#ifndef G4_POLICY_H
#define G4_POLICY_H

#include "inode/mounted.h"

/* What sums the inode's own policy names, as a word of at most G4_POLICY_TEXT bytes, no NUL. Locked. Its length. */
#define G4_POLICY_TEXT 8u
G4_FN uint32_t g4_policy_checksum_text(const struct g4_inode_core *inode, char *text);
/* The field of the policy that a word names. -G4_E_INVAL: none. */
G4_FN int g4_policy_checksum_parse(const char *text, uint64_t bytes, uint32_t *checksum);
/* What is written to the file from now on, or to files that are made in the directory. Write-locked, outside of transactions. */
G4_FN int g4_policy_set_checksum(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, uint32_t checksum);

#endif
