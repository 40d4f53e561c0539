/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Permissions: mode bits, access control lists, ownership; and what a file may no longer do when others change it. Callers
 * whose checks the kernel made are trusted.
 */
#include "fs/perm.h"
#include "fs/acl.h"
#include "fs/xattr.h"
#include "inode/times.h"

/* Of an inode that has attributes, somebody else's: by its access list; without one by what the mode grants. */
G4_FN G4_COLD static int by_list(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode,
				 const struct g4_cred *cred, uint32_t want)
{
	const uint32_t mode = inode->disk.mode, granted = g4_in_group(cred, inode->disk.gid) ? mode >> 3 : mode;
	uint8_t acl[G4_ACL_MAX_BYTES];
	uint64_t bytes;
	int rc = g4_xattr_get(wg, fs, inode, G4_XATTR_ACL_ACCESS, "", 0, acl, sizeof(acl), &bytes);

	if (rc == 0)
		return g4_acl_allows(acl, bytes, inode, cred, want);
	if (rc != -G4_E_NODATA)
		return rc;
	return (granted & want & 7) == want ? 0 : -G4_E_ACCES;
}

G4_FN int g4_permission(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, const struct g4_cred *cred,
			uint32_t want)
{
	const int rc = g4_mode_permits(inode, cred, want);

	return rc > 0 ? by_list(wg, fs, inode, cred, want) : rc;
}

G4_FN int g4_may_follow(const struct g4_inode_core *dir, const struct g4_inode_core *link, const struct g4_cred *cred)
{
	const uint32_t shared = G4_S_ISVTX | G4_S_IWOTH;

	if (g4_is_trusted(cred) || (dir->disk.mode & shared) != shared || link->disk.uid == cred->uid ||
	    link->disk.uid == dir->disk.uid)
		return 0;
	return -G4_E_ACCES;
}

G4_FN int g4_may_reuse(const struct g4_inode_core *dir, const struct g4_inode_core *inode, const struct g4_cred *cred)
{
	const uint32_t type = inode->disk.mode & G4_S_IFMT;

	if (type == G4_S_IFLNK) /* which a creator of a file would follow */
		return g4_may_follow(dir, inode, cred);
	if (g4_is_trusted(cred) || !(dir->disk.mode & G4_S_ISVTX) || inode->disk.uid == dir->disk.uid ||
	    inode->disk.uid == cred->uid)
		return 0;
	uint32_t others = type == G4_S_IFREG ? G4_S_IWOTH | G4_S_IWGRP : type == G4_S_IFIFO ? G4_S_IWOTH : 0;
	return dir->disk.mode & others ? -G4_E_ACCES : 0;
}

G4_FN uint32_t g4_mode_less_ids(const struct g4_inode_core *inode, const struct g4_cred *cred)
{
	uint32_t mode = inode->disk.mode;

	if (g4_is_dir(mode))
		return mode;
	/* without execution by the group set-gid is no privilege: users that could set it leave it */
	bool may_set = cred == NULL || cred->uid == 0 || g4_in_group(cred, inode->disk.gid);
	return mode & ~(G4_S_ISUID | ((mode & G4_S_IXGRP) || !may_set ? G4_S_ISGID : 0));
}

G4_FN int g4_drop_privileges(struct g4_wg *wg, struct g4_fs *fs, uint32_t index, const struct g4_cred *cred)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	uint32_t mode = g4_is_root(cred) ? inode->disk.mode : g4_mode_less_ids(inode, cred);
	int rc = inode->disk.xattr ? g4_drop_capability(wg, fs, inode) : 0;

	if (rc == 0 && mode != inode->disk.mode) {
		inode->disk.mode = (g4_le16)mode;
		g4_touch(fs, index, false, true);
	}
	return rc;
}
