/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large transfers and other work with pieces, done by more than one workgroup. Moving data is bound by what one workgroup has under way: a warp
 * copies a few GB/s, and hundreds of them wait for commands. So the workgroup that executes a large transfer (the owner) puts its
 * data movement into a job, cut into pieces, and workgroups that have nothing else to do (helpers) take pieces of it.
 *
 * The owner takes pieces like everybody and then waits for those that helpers took. It depends on nobody: where nobody
 * comes, it does all of them. A helper depends on nobody either: it holds no lock, and a piece takes none but the
 * cache's and waits for the device only (fs/README.md, rule 10). Locks, checks, space and transactions are the owner's. The pieces of
 * a batch of names are operations instead: their owner holds nothing, and a helper what an operation holds.
 *
 * Pieces are those of a task (task/task.h), one for each job. A job stays as it is until the owner has seen all pieces done; so
 * everything in it may be read by workgroups that own a piece, and by no other.
 */
#include "data/split.h"

#include "data/batch.h"
#include "inode/chain.h"

#define HELPERS_MOST 64u			  /* at one job: what it takes to fill PCIe, and some */
#define LOST_HELPERS_MOST G4_SPLIT_STRIPE_HELPERS /* where columns are read: each of them has fewer bytes under way */
/* Of memory that is copied, and of requests to a device: as much as a chunk of an agent holds. */
#define COPY_PIECE_BYTES (64u * 1024)
#define REQUEST_PIECE_BYTES (256u * 1024)
#define ROWS_PIECE_BYTES (2 * G4_MIB) /* of which parts of stripes are few; more than a batch of the cache has */
#define STAGE_PIECE_BYTES                                                                                              \
	(128u * 1024) /* of what is copied and hashed: as much as is hashed at a time, in one bounce buffer */
G4_STATIC_ASSERT(REQUEST_PIECE_BYTES == G4_SPLIT_PIECE_PAGES * G4_PAGE_BYTES &&
			 REQUEST_PIECE_BYTES % STAGE_PIECE_BYTES == 0,
		 "the largest piece, and parts of a buffer");
/*
 * Fewer are not worth it. Nor may they be: what is shared is more than a stack and than the shared memory of a block on a
 * GPU, for other warps could not move data to or from those.
 */
#define LEAST_PIECES 4u
#define MOST_BYTES G4_TIB /* pieces and positions can be counted */
G4_STATIC_ASSERT(MOST_BYTES / COPY_PIECE_BYTES < G4_TASK_MAX_PIECES && MOST_BYTES < G4_TASK_MAX_POSITION, "of a task");

G4_FN static uint32_t piece_bytes(const struct g4_fs *fs, const struct g4_split_work *work)
{
	if (work->kind == G4_SPLIT_CHAIN)
		return G4_CHAIN_PIECE;
	if (work->kind == G4_SPLIT_NAMES)
		return G4_SPLIT_PIECE_NAMES;
	if (work->kind == G4_SPLIT_CLEAR)
		return 1;
	if (work->kind == G4_SPLIT_STAGE)
		return STAGE_PIECE_BYTES;
	if (work->kind == G4_SPLIT_STRIPES)
		return (uint32_t)work->stripes->grant.part_bytes;
	if (work->kind == G4_SPLIT_LOST)
		return (uint32_t)work->lost->part_bytes;
	const uint64_t stripe = work->kind == G4_SPLIT_WRITE ? g4_space_stripe_bytes(&fs->space) : 0;
	if (stripe > REQUEST_PIECE_BYTES)
		return ROWS_PIECE_BYTES;
	return g4_space_is_mapped(&fs->space) || (work->kind == G4_SPLIT_READ && g4_space_is_direct(&fs->space)) ?
		       COPY_PIECE_BYTES :
		       REQUEST_PIECE_BYTES;
}

/* ------------------------------------------------------------------ pieces */

/* Pieces end where the offset is a multiple of their size, so that no two share a page. */
G4_FN bool g4_split_take(struct g4_split_job *job, struct g4_split_piece *piece)
{
	const struct g4_split_work *work = &job->work;
	uint32_t k;

	while (g4_task_take(&job->task, 1, &k) > 0) {
		const uint64_t border = (work->offset / job->piece_bytes + k) * job->piece_bytes;

		piece->offset = g4_max64(work->offset, border);
		piece->bytes = g4_min64(work->offset + work->bytes, border + job->piece_bytes) - piece->offset;
		if (!g4_task_failed_before(&job->task, piece->offset - work->offset))
			return true;
		g4_task_done(&job->task, 1); /* behind an error nothing is asked for any more */
	}
	return false;
}

G4_FN void g4_split_done(struct g4_split_job *job, const struct g4_split_piece *piece, int rc, uint64_t done)
{
	if (rc < 0)
		g4_task_fail(&job->task, piece->offset - job->work.offset + done, rc);
	g4_task_done(&job->task, 1);
}

/* ------------------------------------------------------------------ helpers */

G4_FN static bool join(struct g4_split_job *job, struct g4_split_piece *piece)
{
	const uint32_t most = g4_load32_rlx(&job->helpers_most); /* the job may become another one meanwhile */

	if (!g4_task_is_open(&job->task) || g4_load32_rlx(&job->helpers) >= most)
		return false;
	if (g4_add32(&job->helpers, 1) < most && g4_split_take(job, piece))
		return true;
	g4_sub32_rel(&job->helpers, 1);
	return false;
}

G4_FN static void count_out(struct g4_split *split)
{
	g4_add32_rlx(&split->stripe_helpers, -UINT32_C(1));
}

/* They read and write columns over PCIe: more than a certain number of helpers keep each other waiting. */
G4_FN static bool is_counted(uint32_t kind)
{
	return kind == G4_SPLIT_STRIPES || kind == G4_SPLIT_LOST;
}

G4_FN void g4_split_leave(struct g4_fs *fs, struct g4_split_job *job, uint32_t kind)
{
	if (is_counted(kind))
		count_out(&fs->split);
	g4_sub32_rel(&job->helpers, 1);
}

/* One helper more at jobs with stripes, if one may come: counted before it joins, however many look at a time. */
G4_FN static bool count_in(struct g4_split *split)
{
	if (g4_load32_rlx(&split->stripe_helpers) >= G4_SPLIT_STRIPE_HELPERS)
		return false;
	if (g4_add32(&split->stripe_helpers, 1) < G4_SPLIT_STRIPE_HELPERS)
		return true;
	count_out(split);
	return false;
}

/* `stripes`: what the job was when it was looked at; it may have become another one. */
G4_FN static bool join_counted(struct g4_split *split, struct g4_split_job *job, bool stripes,
			       struct g4_split_piece *piece)
{
	if (stripes && !count_in(split))
		return false;
	const bool joined = join(job, piece), is = joined && is_counted(job->work.kind);
	if (stripes && !is)
		count_out(split);
	else if (is && !stripes)
		g4_add32_rlx(&split->stripe_helpers, 1);
	return joined;
}

G4_FN bool g4_split_find(struct g4_wg *wg, struct g4_fs *fs, struct g4_split_job **job, struct g4_split_piece *piece)
{
	struct g4_split *split = &fs->split;
	const uint64_t open = g4_load64_rlx(&split->open);

	if (open == 0)
		return false;
	g4_fence_acq(); /* a job that is seen open is seen as it was opened */
	const uint64_t stripes = g4_load64_rlx(&split->stripes);
	/* not all begin with the same, but of parts of a disk with the oldest, so that one is complete while others are made */
	const uint32_t oldest = g4_load32_rlx(&split->lost_first), first = oldest ? oldest - 1 : g4_wg_index(wg);
	for (uint32_t n = 0; n < G4_SPLIT_JOBS; n++) {
		uint32_t i = (first + n) % G4_SPLIT_JOBS;
		*job = &split->jobs[i];
		if ((open >> i & 1) && join_counted(split, *job, stripes >> i & 1, piece))
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------ owners */

G4_FN static bool take_slot(struct g4_split *split, uint32_t first, uint32_t *slot)
{
	uint64_t used = g4_load64_rlx(&split->used);

	for (uint32_t n = 0; n < G4_SPLIT_JOBS; n++) {
		*slot = (first + n) % G4_SPLIT_JOBS;
		if (!(used >> *slot & 1)) {
			used = g4_or64(&split->used, UINT64_C(1) << *slot);
			if (!(used >> *slot & 1))
				return true;
		}
	}
	return false;
}

G4_FN static uint32_t helpers_most(uint32_t kind)
{
	return kind == G4_SPLIT_LOST  ? LOST_HELPERS_MOST :
	       kind == G4_SPLIT_CLEAR ? G4_SPLIT_CLEAR_HELPERS :
					HELPERS_MOST;
}

G4_FN struct g4_split_job *g4_split_open(struct g4_wg *wg, struct g4_fs *fs, const struct g4_split_work *work)
{
	struct g4_split *split = &fs->split;
	const uint32_t piece = piece_bytes(fs, work);
	uint32_t slot;

	if (g4_load32_rlx(&split->helpers) == 0 || work->bytes < (uint64_t)LEAST_PIECES * piece ||
	    work->bytes > MOST_BYTES ||
	    !take_slot(split, work->kind == G4_SPLIT_LOST ? split->lost_next : g4_wg_index(wg), &slot))
		return NULL;
	struct g4_split_job *job = &split->jobs[slot];
	job->work = *work;
	job->piece_bytes = piece;
	g4_store32_rlx(&job->helpers_most, helpers_most(work->kind));
	g4_task_open(&job->task, (uint32_t)((work->offset + work->bytes - 1) / piece - work->offset / piece + 1));
	if (is_counted(work->kind))
		g4_or64(&split->stripes, UINT64_C(1) << slot);
	if (work->kind == G4_SPLIT_LOST) {
		split->lost_next = slot + 1;
		split->lost |= UINT64_C(1) << slot;
		if (g4_load32_rlx(&split->lost_first) == 0)
			g4_store32_rlx(&split->lost_first, slot + 1);
	}
	g4_or64(&split->open, UINT64_C(1) << slot);
	return job;
}

/* LOST jobs have one owner at a time, who closes the oldest first: where the next one is, plus 1. */
G4_FN static uint32_t next_lost(uint64_t lost, uint32_t slot)
{
	for (uint32_t n = 1; n < G4_SPLIT_JOBS; n++)
		if (lost >> (slot + n) % G4_SPLIT_JOBS & 1)
			return (slot + n) % G4_SPLIT_JOBS + 1;
	return 0;
}

G4_FN int g4_split_close(struct g4_fs *fs, struct g4_split_job *job, uint64_t *done)
{
	struct g4_split *split = &fs->split;
	const uint64_t bit = UINT64_C(1) << (job - split->jobs);

	g4_and64(&split->open, ~bit);
	*done = job->work.bytes;
	int rc = g4_task_wait(&job->task, done);
	if (is_counted(job->work.kind))
		g4_and64(&split->stripes, ~bit);
	if (job->work.kind == G4_SPLIT_LOST) {
		split->lost &= ~bit;
		g4_store32_rlx(&split->lost_first, next_lost(split->lost, (uint32_t)(job - split->jobs)));
	}
	g4_and64(&split->used, ~bit);
	return rc;
}
