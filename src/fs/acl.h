/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX access control lists, in the form of the kernel's extended attributes. */
#ifndef G4_ACL_H
#define G4_ACL_H

#include "fs/cred.h"
#include "inode/mounted.h"

#define G4_ACL_MAX_BYTES 1024u

struct g4_acl_result { /* what a new inode gets from its directory's default ACL */
	uint32_t mode;
	uint32_t access_bytes, default_bytes;
	uint8_t access[G4_ACL_MAX_BYTES];
	uint8_t default_[G4_ACL_MAX_BYTES];
};

G4_FN int g4_acl_inherit(struct g4_wg *wg, struct g4_fs *fs, const struct g4_inode_core *parent, uint32_t mode,
			 uint32_t umask, struct g4_acl_result *out);
/* Checks an ACL in xattr form; *mode_bits gets the rwxrwxrwx it stands for, *equivalent whether mode bits say it all. */
G4_FN int g4_acl_check(const void *value, uint64_t bytes, uint32_t *mode_bits, bool *equivalent);
/* The access ACL after chmod, in place. */
G4_FN void g4_acl_chmod(void *value, uint64_t bytes, uint32_t mode);
/* G4_ACCESS_* bits that the ACL grants, or a negative code. */
G4_FN int g4_acl_allows(const void *value, uint64_t bytes, const struct g4_inode_core *inode,
			const struct g4_cred *cred, uint32_t want);

#endif
