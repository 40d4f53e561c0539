/* SPDX-License-Identifier: Apache-2.0 */
/* A helper's side of large transfers (split.c): moves the bytes of a piece, or makes its directories, as the owner would. */
#include "data/help.h"
#include "data/batch.h"
#include "data/bounce_stage.h"
#include "data/read.h"
#include "data/split.h"
#include "inode/chain.h"

G4_FN int g4_split_move(struct g4_wg *wg, struct g4_fs *fs, const struct g4_split_job *job,
			const struct g4_split_piece *piece, uint64_t *done)
{
	*done = 0;
	if (job->work.kind == G4_SPLIT_READ)
		return g4_read_piece(wg, fs, &job->work, piece->offset, piece->bytes, done);
	if (job->work.kind == G4_SPLIT_WRITE)
		return g4_store_piece(wg, fs, job->work.batch, piece);
	if (job->work.kind == G4_SPLIT_STRIPES) {
		g4_store_stripes(wg, fs, job->work.stripes, piece);
		return 0;
	}
	if (job->work.kind == G4_SPLIT_LOST)
		return g4_direct_make(wg, &fs->space.direct, job->work.lost, piece->offset, piece->bytes) ?
			       0 :
			       -G4_E_BUSY; /* an order has closed the gate */
	if (job->work.kind == G4_SPLIT_STAGE) {
		g4_stage_piece(wg, fs, &job->work, piece);
		return 0;
	}
	return g4_chain_piece(wg, fs, job->work.chain, (uint32_t)piece->offset, (uint32_t)piece->bytes);
}
