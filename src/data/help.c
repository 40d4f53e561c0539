/* SPDX-License-Identifier: Apache-2.0 */
/* A helper's side of large transfers (split.c): moves the bytes of a piece, or makes its directories, as the owner would. */
#include "data/help.h"
#include "data/batch.h"
#include "data/read.h"
#include "data/split.h"
#include "inode/chain.h"

G4_FN bool g4_split_help(struct g4_wg *wg, struct g4_fs *fs)
{
	struct g4_split_piece piece;
	struct g4_split_job *job;
	uint64_t done = 0;
	int rc;

	if (!g4_split_find(wg, fs, &job, &piece))
		return false;
	if (job->work.kind == G4_SPLIT_READ)
		rc = g4_read_piece(wg, fs, &job->work, piece.offset, piece.bytes, &done);
	else if (job->work.kind == G4_SPLIT_WRITE)
		rc = g4_store_piece(wg, fs, job->work.batch, &piece);
	else
		rc = g4_chain_piece(wg, fs, job->work.chain, (uint32_t)piece.offset, (uint32_t)piece.bytes);
	g4_split_done(job, &piece, rc, done);
	g4_split_leave(job);
	return true;
}
