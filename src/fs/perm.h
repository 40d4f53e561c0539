/* SPDX-License-Identifier: Apache-2.0 */
/* Permissions. The in-core inode is locked. */
#ifndef G4_PERM_H
#define G4_PERM_H

#include "fs/cred.h"
#include "inode/mounted.h"

/*
 * Per-lane. What the mode of a locked in-core inode, or of a copy, permits of `want` (G4_ACCESS_* bits): 0, or
 * -G4_E_ACCES; 1: an access list decides, if there is one.
 */
G4_FN G4_INLINE int g4_mode_permits(const struct g4_inode_core *inode, const struct g4_cred *cred, uint32_t want)
{
	const uint32_t mode = inode->disk.mode;
	uint32_t granted = mode >> 6;

	if (g4_is_trusted(cred))
		return 0;
	if (cred->uid == 0) /* may do all but execute what nobody may */
		return (want & G4_ACCESS_EXEC) && !g4_is_dir(mode) && !(mode & 0111) ? -G4_E_ACCES : 0;
	if (cred->uid != inode->disk.uid) {
		if (inode->disk.xattr)
			return 1;
		granted = g4_in_group(cred, inode->disk.gid) ? mode >> 3 : mode;
	}
	return (granted & want & 7) == want ? 0 : -G4_E_ACCES;
}

/* The whole answer: 0 or a negative code. */
G4_FN int g4_permission(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, const struct g4_cred *cred,
			uint32_t want);
/*
 * What Linux forbids by its sysctl fs.protected_symlinks (1), _fifos (1) and _regular (2), of things that others left in sticky
 * directories; for all but trusted callers, whose kernel has its own settings. The directory is that of the name.
 * _hardlinks (1) is in the command that links.
 */
G4_FN int g4_may_follow(const struct g4_inode_core *dir, const struct g4_inode_core *link, const struct g4_cred *cred);
G4_FN int g4_may_reuse(const struct g4_inode_core *dir, const struct g4_inode_core *inode, const struct g4_cred *cred);
/* The mode less the set-id bits that a file loses when somebody changes its contents or its owner. */
G4_FN uint32_t g4_mode_less_ids(const struct g4_inode_core *inode, const struct g4_cred *cred);
/*
 * Before the contents of a write-locked regular file change: takes its capabilities away, whichever user changes it, and its set-id
 * bits, unless root does. They are gone also where the change then fails, as in Linux. Outside of transactions.
 */
G4_FN int g4_drop_privileges(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, const struct g4_cred *cred);

#endif
