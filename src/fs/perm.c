/* SPDX-License-Identifier: Apache-2.0 */
/* Who may do what: mode bits, access control lists, ownership. Callers whose checks the kernel made are trusted. */
#include "fs/fs.h"

G4_FN bool g4_is_root(const struct g4_cred *cred)
{
	return cred == NULL || cred->uid == 0 || (cred->flags & G4_CRED_TRUSTED);
}

G4_FN bool g4_is_owner(const struct g4_core *core, const struct g4_cred *cred)
{
	return g4_is_root(cred) || cred->uid == core->disk.uid;
}

G4_FN bool g4_in_group(const struct g4_cred *cred, uint32_t gid)
{
	if (cred->gid == gid)
		return true;
	for (uint32_t i = 0; i < cred->group_count && i < G4_CRED_MAX_GROUPS; i++)
		if (cred->groups[i] == gid)
			return true;
	return false;
}

/* By the access list of an inode that has attributes; without one by what the mode grants. */
G4_FN G4_COLD static int by_list(struct g4_wg *wg, struct g4_fs *fs, struct g4_core *core, const struct g4_cred *cred,
				 uint32_t want, uint32_t granted)
{
	uint8_t acl[G4_ACL_MAX_BYTES];
	uint64_t bytes;
	int rc = g4_xattr_get(wg, fs, core, G4_XATTR_ACL_ACCESS, "", 0, acl, sizeof(acl), &bytes);

	if (rc == 0)
		return g4_acl_allows(acl, bytes, core, cred, want);
	if (rc != -G4_E_NODATA)
		return rc;
	return (granted & want & 7) == want ? 0 : -G4_E_ACCES;
}

G4_FN int g4_permission(struct g4_wg *wg, struct g4_fs *fs, struct g4_core *core, const struct g4_cred *cred,
			uint32_t want)
{
	uint32_t mode = core->disk.mode, granted;

	if (cred == NULL || (cred->flags & G4_CRED_TRUSTED))
		return 0;
	if (cred->uid == 0) /* may do all but execute what nobody may */
		return (want & G4_ACCESS_EXEC) && !g4_is_dir(mode) && !(mode & 0111) ? -G4_E_ACCES : 0;
	if (cred->uid == core->disk.uid) {
		granted = mode >> 6;
	} else {
		granted = g4_in_group(cred, core->disk.gid) ? mode >> 3 : mode;
		if (core->disk.xattr)
			return by_list(wg, fs, core, cred, want, granted);
	}
	return (granted & want & 7) == want ? 0 : -G4_E_ACCES;
}
