/* SPDX-License-Identifier: Apache-2.0 */
/* Joining and committing transactions on behalf of operations. */
#include "inode/txn.h"
#include "alloc/release.h"

G4_FN void g4_fs_error(struct g4_fs *fs, int code)
{
	g4_journal_abort(&fs->journal, code);
}

G4_FN int g4_check_failure(struct g4_fs *fs, int code)
{
	switch (-code) {
	case G4_E_CHECKSUM:
	case G4_E_MISDIRECTED:
	case G4_E_TYPE:
	case G4_E_CORRUPT_INODE:
	case G4_E_CORRUPT_DIR:
	case G4_E_CORRUPT_MAP:
	case G4_E_CORRUPT_ALLOC:
	case G4_E_CORRUPT_XATTR:
	case G4_E_CORRUPT_JOURNAL:
		g4_fs_error(fs, code);
		break;
	default:
		break;
	}
	return code;
}

/* When there are no credits, or a commit is under way. */
G4_FN G4_COLD static int begin_late(struct g4_wg *wg, struct g4_fs *fs, uint32_t credits, struct g4_txn *txn)
{
	if (credits > fs->journal.max_blocks)
		return -G4_E_JOURNAL_FULL; /* no commit makes such room */
	for (;;) {
		/* this one is full, if any: hundreds may find that, and one commit serves them all */
		uint64_t running = g4_load64_acq(&fs->journal.running);
		int rc = g4_txn_begin(&fs->journal, credits, txn);
		if (rc != -G4_E_AGAIN)
			return rc;
		if (g4_txn_await(wg, &fs->journal, credits))
			continue;
		rc = g4_commit(wg, fs, running, false);
		if (rc < 0)
			return rc;
	}
}

G4_FN int g4_begin(struct g4_wg *wg, struct g4_fs *fs, uint32_t credits, struct g4_txn *txn)
{
	const uint32_t flags = fs->flags; /* on its way with the next */
	const bool call = g4_wg_width(wg) > 1 && g4_commit_workers_call(&fs->journal);

	if (flags & G4_FS_READ_ONLY)
		return -G4_E_ROFS;
	/* one warp alone takes a third of a second for a large commit: each workgroup that comes by does a few pages of it */
	if (call)
		g4_commit_workers_help(wg, &fs->journal);
	int rc = g4_txn_begin(&fs->journal, credits, txn);
	return rc == -G4_E_AGAIN ? begin_late(wg, fs, credits, txn) : rc;
}

G4_FN int g4_end(struct g4_fs *fs, struct g4_txn *txn, int code)
{
	/* want of space is undone or leaves a valid state; what a device or an image did wrong may have come anywhere */
	if (txn->changed && (-code >= G4_E_IO || code == -G4_E_NOMEM))
		g4_fs_error(fs, code);
	g4_txn_end(txn);
	return code;
}

G4_FN int g4_commit(struct g4_wg *wg, struct g4_fs *fs, uint64_t sequence, bool checkpoint)
{
	const struct g4_extent *frees;
	uint32_t count;

	if (fs->flags & G4_FS_READ_ONLY)
		return 0;
	int rc = g4_journal_commit(wg, &fs->journal, sequence, checkpoint, &frees, &count);
	if (rc <= 0) {
		if (rc < 0)
			g4_fs_error(fs, rc);
		return rc;
	}
	g4_alloc_release_runs(wg, &fs->alloc, frees, count);
	rc = g4_journal_finish(wg, &fs->journal);
	if (rc < 0)
		g4_fs_error(fs, rc);
	return rc;
}

G4_FN int g4_commit_early(struct g4_wg *wg, struct g4_fs *fs)
{
	const uint64_t running = g4_load64_acq(&fs->journal.running);

	/* a journal that was stopped stays as full as it is */
	if (!g4_journal_is_nearly_full(&fs->journal) || g4_load32_acq(&fs->journal.aborted))
		return 0;
	const int rc = g4_commit(wg, fs, running, false);
	return rc < 0 ? rc : 1;
}
