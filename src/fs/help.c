/* SPDX-License-Identifier: Apache-2.0 */
/* A helper's side of what owners have split: bytes of transfers, directories of a chain, entries of a batch, names of a directory that is cleared. */
#include "fs/help.h"
#include "data/help.h"
#include "fs/batch.h"
#include "fs/clear.h"

G4_FN bool g4_split_help(struct g4_wg *wg, struct g4_fs *fs)
{
	struct g4_split_piece piece;
	struct g4_split_job *job;
	uint64_t done = 0;
	int rc = 0;

	if (!g4_split_find(wg, fs, &job, &piece))
		return false;
	const uint32_t kind = job->work.kind;
	if (kind == G4_SPLIT_NAMES)
		g4_batch_piece(wg, fs, job->work.names, (uint32_t)piece.offset, (uint32_t)piece.bytes);
	else if (kind == G4_SPLIT_CLEAR)
		rc = g4_clear_piece(wg, fs, job->work.clear, (uint32_t)piece.offset);
	else
		rc = g4_split_move(wg, fs, job, &piece, &done);
	g4_split_done(job, &piece, rc, done);
	g4_split_leave(fs, job, kind); /* it may be another one by now */
	return true;
}
