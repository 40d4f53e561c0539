/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes as commands tell them. */
#ifndef G4_ATTR_H
#define G4_ATTR_H

#include "fs/command.h"
#include "inode/inode_types.h"

G4_FN G4_INLINE void g4_fill_attr(const struct g4_inode_core *inode, struct g4_attr *attr)
{
	const struct g4_inode *disk = &inode->disk;
	const uint64_t own = g4_load64_rlx(&disk->pages); /* of a directory these grow beside others, too */

	attr->ino = inode->ino;
	attr->size = g4_is_dir(disk->mode) ? own * G4_PAGE_BYTES : inode->size;
	/* what is dirty may have its space already: no more of it is counted than makes the file as large as it is */
	uint64_t pages = g4_pages_for(inode->size), missing = pages > own ? pages - own : 0;
	attr->blocks_512 = (own + g4_min64(inode->dirty_count, missing)) * (G4_PAGE_BYTES / 512);
	attr->atime_ns = g4_load64_rlx(&disk->atime_ns); /* readers move it */
	attr->mtime_ns = g4_load64_rlx(&disk->mtime_ns); /* these of a directory its makers */
	attr->ctime_ns = g4_load64_rlx(&disk->ctime_ns);
	attr->btime_ns = disk->btime_ns;
	attr->rdev = g4_is_dir(disk->mode) ? 0 : disk->rdev; /* there it is the domain */
	attr->generation = disk->generation;
	attr->change_count = g4_load64_rlx(&disk->change_count);
	attr->mode = disk->mode;
	attr->nlink = g4_load32_rlx(&disk->nlink);
	attr->uid = disk->uid;
	attr->gid = disk->gid;
	attr->flags = disk->flags & (G4_INODE_IMMUTABLE | G4_INODE_APPEND | G4_INODE_NODUMP | G4_INODE_NOATIME);
	attr->tells = disk->xattr == 0 ? G4_TELLS_NO_XATTR : 0;
	attr->token = 0;
}

#endif
