/* SPDX-License-Identifier: Apache-2.0 */
/* Walking a path inside of a command (lookup.c). Leader. */
#ifndef G4_FS_WALK_H
#define G4_FS_WALK_H

#include "fs/command.h"
#include "inode/mounted.h"

struct g4_place { /* an inode as a command names it */
	uint64_t ino;
	uint32_t generation;
};

struct g4_walked {
	uint64_t ino; /* what the path leads to, or, with an error, the directory that the walk has come to */
	uint32_t generation;
	bool own;    /* with an error: it is about a component of the path itself, not of a link's target */
	uint64_t at; /* and that, or the link, begins so many bytes behind the path's begin */
};
/*
 * RESOLVE from an inode, of a path of any length: it is walked in pieces, of which each may follow 40 links. Of a path that does not
 * exist it tells what is needed to make the rest. `attr` is needed; with an error it is undefined.
 */
G4_FN int g4_walk(struct g4_wg *wg, struct g4_fs *fs, const struct g4_place *from, const char *path, uint64_t bytes,
		  uint32_t flags, const struct g4_cred *cred, struct g4_attr *attr, struct g4_walked *walked);
/* How many components begin in so many bytes of a path. */
G4_FN uint32_t g4_path_components(const char *path, uint64_t bytes);

#endif
