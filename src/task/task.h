/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task: work in numbered pieces that one workgroup (the owner) opens and that any others (helpers) share. The owner takes
 * pieces like everybody and then waits for those that others took, so it depends on nobody: where no helper comes, it does
 * all of them. What the pieces are, and where helpers find open tasks, is the caller's (data/split.c: large transfers;
 * journal/workers.c: the pages of a commit).
 *
 * `turn` holds the number of pieces and the next one. One addition takes pieces: with compare-and-swap all but one of
 * hundreds of warps failed. The workgroup that took a piece owns it; while one is not reported done, the task, and what its pieces
 * read, stays as the owner opened it. A late addition to a task without pieces left takes nothing; if the task was opened
 * anew meanwhile, it takes a piece of that, which is as good.
 *
 *      63                      32 31                       0
 *     +--------------------------+--------------------------+
 *     | pieces                   | next piece               |
 *     +--------------------------+--------------------------+
 *
 * Rules. 1. Helpers hold no lock that a piece takes, and a workgroup inside an operation never helps: others would wait for what it
 * holds. 2. A piece never waits for the owner. 3. The owner waits for pieces that were
 * taken, and for nothing else. 4. Only the owner opens a task, after it has waited for the one before.
 *
 * All functions: leader, thread-safe, and on a GPU in memory that all workgroups reach.
 */
#ifndef G4_TASK_H
#define G4_TASK_H

#include "simt/simt.h"

#define G4_TASK_MAX_PIECES (UINT32_C(1) << 30) /* so that late additions never reach the upper half */
#define G4_TASK_MAX_POSITION (UINT64_C(1) << 47)

struct g4_task {
	uint64_t turn;
	uint64_t
		failed; /* position of the first failure and, in the low 16 bits, its positive code; UINT64_MAX: none */
	uint32_t done;	/* pieces */
	uint32_t padding;
};

/* Owner. Everything that the pieces read was written before. 1..G4_TASK_MAX_PIECES. */
G4_FN G4_INLINE void g4_task_open(struct g4_task *task, uint32_t pieces)
{
	g4_store64_rlx(&task->failed, UINT64_MAX);
	g4_store32_rlx(&task->done, 0);
	g4_store64_rel(&task->turn, (uint64_t)pieces << 32);
}

/* Whether there may be a piece to take: one look, without order. */
G4_FN G4_INLINE bool g4_task_is_open(const struct g4_task *task)
{
	const uint64_t turn = g4_load64_rlx(&task->turn);

	return (uint32_t)turn < turn >> 32;
}

/* Takes up to `most` pieces from *first on; how many, 0: none are left. Each is to be reported by g4_task_done(). */
G4_FN G4_INLINE uint32_t g4_task_take(struct g4_task *task, uint32_t most, uint32_t *first)
{
	if (!g4_task_is_open(task)) /* bounds the additions behind the last piece by the number of workgroups */
		return 0;
	const uint64_t turn = g4_add64_acq(&task->turn, most);
	const uint32_t pieces = (uint32_t)(turn >> 32);

	*first = (uint32_t)turn;
	return *first < pieces ? (uint32_t)g4_min64(most, pieces - *first) : 0;
}

/* Reports pieces that were taken. What they wrote is there for the owner when it has waited. */
G4_FN G4_INLINE void g4_task_done(struct g4_task *task, uint32_t pieces)
{
	/* ours are not reported yet: the number is that of the task which they belong to */
	const uint32_t all = (uint32_t)(g4_load64_rlx(&task->turn) >> 32);

	if (g4_add32_rel(&task->done, pieces) + pieces == all)
		g4_wake(&task->done);
}

/*
 * A piece failed: code < 0, at a position that orders failures (below G4_TASK_MAX_POSITION). The failure with the lowest
 * position counts, in whatever order they were met.
 */
G4_FN G4_INLINE void g4_task_fail(struct g4_task *task, uint64_t position, int code)
{
	const uint64_t word = position << 16 | (uint32_t)-code;
	uint64_t seen = g4_load64_rlx(&task->failed);

	while (word < seen && !g4_cas64(&task->failed, seen, word))
		seen = g4_load64_rlx(&task->failed);
}

/* Owner. Whether all pieces are done, so that it need not wait. */
G4_FN G4_INLINE bool g4_task_is_done(const struct g4_task *task)
{
	return g4_load32_acq(&task->done) == (uint32_t)(g4_load64_rlx(&task->turn) >> 32);
}

/* Whether something before this position, or at it, has failed: what comes behind a failure need not be done. */
G4_FN G4_INLINE bool g4_task_failed_before(const struct g4_task *task, uint64_t position)
{
	return position >= g4_load64_rlx(&task->failed) >> 16;
}

/* Owner. Waits until all pieces are done. 0, or the code of the first failure; *position is then where that was. */
G4_FN G4_INLINE int g4_task_wait(struct g4_task *task, uint64_t *position)
{
	const uint32_t all = (uint32_t)(g4_load64_rlx(&task->turn) >> 32);
	uint32_t seen;

	while ((seen = g4_load32_acq(&task->done)) != all)
		g4_wait(&task->done, seen);
	const uint64_t failed = g4_load64_rlx(&task->failed);
	if (failed == UINT64_MAX)
		return 0;
	*position = failed >> 16;
	return -(int)(uint32_t)(failed & 0xffff);
}

#endif
