/* SPDX-License-Identifier: Apache-2.0 */
/* A batch that workgroups share. */
#ifndef G4_FS_BATCH_H
#define G4_FS_BATCH_H

#include "fs/command.h"
#include "inode/mounted.h"

struct g4_names { /* in memory that all workgroups reach, as the command's data is; constant while pieces are done */
	struct g4_cmd cmd;
	struct g4_cred cred;
};

/* Leader, outside of any operation. Does so many entries of a batch that was checked: each has its result in the data. */
G4_FN void g4_batch_piece(struct g4_wg *wg, struct g4_fs *fs, const struct g4_names *names, uint32_t first,
			  uint32_t count);

#endif
