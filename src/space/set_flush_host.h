/* SPDX-License-Identifier: Apache-2.0 */
/* Which disks a flush of a set asks: those that were written since the newest flush of them that has succeeded began, and at first all. Of the files of this folder alone. */
#ifndef G4_SET_FLUSH_HOST_H
#define G4_SET_FLUSH_HOST_H

#include "space/set_epoch_host.h"

/*
 * A request, or a row, has written to a disk, completely: before its owner hears of it, and so before any flush that is to cover it begins.
 * What is durable by itself (FUA), and what orders write, which flush all disks themselves, needs no note.
 */
static inline void g4_set_note_written(struct g4_set *set, uint32_t disk)
{
	g4_add64(&set->disks[disk].written, 1);
}

/* Whether a flush of the set has to flush this disk; *written is for g4_set_note_flushed() when that has succeeded. */
static inline bool g4_set_needs_flush(struct g4_set *set, uint32_t disk, uint64_t *written)
{
	/* settled first: who sees that sees what was noted before it was said */
	const bool settled = g4_load64_acq(&set->settled) == g4_load64_acq(&set->renumbered);

	*written = g4_load64_acq(&set->disks[disk].written);
	return *written != g4_load64_acq(&set->disks[disk].flushed) || !settled;
}

/*
 * What was written by numbers that disks had before is complete, for nobody looks at a table that has them: all disks are flushed once
 * more, and from then on those that were written. `epoch` is the caller's, who looks at chunks: as long as he does, no number changes unseen.
 */
static inline void g4_set_settle_numbers(struct g4_set *set, uint64_t epoch)
{
	const uint64_t renumbered = g4_load64_acq(&set->renumbered);

	/* in the middle of a switch, numbers are new and requests begin with the table of before */
	if (g4_load64_acq(&set->settled) == renumbered || epoch < renumbered || !g4_set_view_is_alone(set))
		return;
	for (uint32_t d = 0; d < G4_MAX_DISKS; d++)
		g4_set_note_written(set, d);
	g4_atomic_max64(&set->settled, renumbered);
}

static inline void g4_set_note_flushed(struct g4_set *set, uint32_t disk, uint64_t written)
{
	g4_atomic_max64(&set->disks[disk].flushed, written);
}

#endif
