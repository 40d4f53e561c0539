/* SPDX-License-Identifier: Apache-2.0 */
/* Many directories, each in the one before, in one transaction (docs/design/directories.md, "MKDIR_ALL"). */
#ifndef G4_NESTED_H
#define G4_NESTED_H

#include "fs/walk.h"

/*
 * Leader, outside of transactions. Makes directories of a path below an empty one, *here, from *at on, and at most so many as one
 * transaction takes; the path's last name is never among them. How many, and *here and *at are behind them. 0: this way is not for
 * them, for they are few, or names, permissions or what is in *here ask for MKDIR. A negative code: what is wrong, and nothing was made.
 */
G4_FN int g4_make_nested(struct g4_wg *wg, struct g4_fs *fs, const struct g4_cred *cred, uint32_t mode,
			 struct g4_place *here, const char *path, uint32_t bytes, uint32_t *at);

#endif
