/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large transfers and other work with pieces, done by more than one workgroup (fs/README.md, rules 10 and 11). Leader. Doing a piece
 * is not done here: an owner does it itself (read.c, store.c, fs/nested.c, fs/batch.c), a helper in fs/help.c.
 */
#ifndef G4_SPLIT_H
#define G4_SPLIT_H

#include "inode/mounted.h"

#define G4_SPLIT_CLEAR_HELPERS 256u /* at one job: a name that goes is a chain of misses, whoever has it */

struct g4_split_piece {
	uint64_t offset, bytes; /* as in the job's work */
};

/* Opens a job for what `work` says. NULL: it is too little, or nobody would help; the caller does it alone. */
G4_FN struct g4_split_job *g4_split_open(struct g4_wg *wg, struct g4_fs *fs, const struct g4_split_work *work);
/* The next piece that is worth doing; false: none is left. Each is to be reported by g4_split_done(). */
G4_FN bool g4_split_take(struct g4_split_job *job, struct g4_split_piece *piece);
/* rc: what became of the piece; done: where it failed, the bytes of it before that. */
G4_FN void g4_split_done(struct g4_split_job *job, const struct g4_split_piece *piece, int rc, uint64_t done);
/* Owner. Whether there is nothing to wait for. */
G4_FN G4_INLINE bool g4_split_is_done(const struct g4_split_job *job)
{
	return g4_task_is_done(&job->task);
}
/* Owner. Waits for the pieces that others took. 0, or the error of the first byte that failed; *done: the bytes before that. */
G4_FN int g4_split_close(struct g4_fs *fs, struct g4_split_job *job, uint64_t *done);
/*
 * Helper, outside of any operation: a piece of somebody's job, if there is one. When it is done, g4_split_leave(), with the kind
 * that the job had.
 */
G4_FN bool g4_split_find(struct g4_wg *wg, struct g4_fs *fs, struct g4_split_job **job, struct g4_split_piece *piece);
G4_FN void g4_split_leave(struct g4_fs *fs, struct g4_split_job *job, uint32_t kind);

#endif
