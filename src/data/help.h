/* SPDX-License-Identifier: Apache-2.0 */
/* Helping with what others have split: the pieces that are no operations. */
#ifndef G4_DATA_HELP_H
#define G4_DATA_HELP_H

#include "data/split.h"

/* Leader, outside of any operation: does a piece of a job of any kind but NAMES and CLEAR. *done: where it failed, the bytes of it before that. */
G4_FN int g4_split_move(struct g4_wg *wg, struct g4_fs *fs, const struct g4_split_job *job,
			const struct g4_split_piece *piece, uint64_t *done);

#endif
