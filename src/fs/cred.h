/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials: per-lane. NULL: root. */
#ifndef G4_CRED_H
#define G4_CRED_H

#include "fs/command.h"
#include "inode/inode_types.h"

G4_FN G4_INLINE bool g4_is_trusted(const struct g4_cred *cred)
{
	return cred == NULL || (cred->flags & G4_CRED_TRUSTED);
}

G4_FN G4_INLINE bool g4_is_root(const struct g4_cred *cred)
{
	return cred == NULL || cred->uid == 0 || (cred->flags & G4_CRED_TRUSTED);
}

G4_FN G4_INLINE bool g4_is_owner(const struct g4_inode_core *inode, const struct g4_cred *cred)
{
	return g4_is_root(cred) || cred->uid == inode->disk.uid;
}

G4_FN G4_INLINE bool g4_in_group(const struct g4_cred *cred, uint32_t gid)
{
	if (cred->gid == gid)
		return true;
	for (uint32_t i = 0; i < cred->group_count && i < G4_CRED_MAX_GROUPS; i++)
		if (cred->groups[i] == gid)
			return true;
	return false;
}

#endif
