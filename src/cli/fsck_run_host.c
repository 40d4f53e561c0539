/* SPDX-License-Identifier: Apache-2.0 */
/* The checks in their order. */
#include <stdlib.h>

#include "cli/fsck_host.h"

static void check_journal(struct g4_fsck *fsck, const struct g4_journal_state *journal)
{
	if (journal->status < 0)
		g4_fsck_problem(fsck, G4_FSCK_JOURNAL, NULL, "the journal's header or a record in it is damaged: %s",
				g4_strerror(journal->status));
}

int g4_fsck_run(struct g4_fsck *fsck, struct g4_image *image, const struct g4_journal_state *journal)
{
	fsck->image = image;
	g4_fsck_superblocks(fsck);
	check_journal(fsck, journal);
	if (!g4_fsck_load_maps(fsck))
		return fsck->fatal;
	g4_fsck_orphans(fsck);
	g4_fsck_tree(fsck);
	g4_fsck_find_slabs(fsck);
	g4_fsck_unreachable(fsck);
	if (fsck->fatal == 0) {
		g4_fsck_link_counts(fsck);
		g4_fsck_compare_maps(fsck);
	}
	g4_progress_clear(&fsck->progress);
	return fsck->fatal;
}

void g4_fsck_free(struct g4_fsck *fsck)
{
	free(fsck->used);
	free(fsck->alloc_used);
	free(fsck->alloc_slab);
	free(fsck->bad_group);
	free(fsck->slabs.cells);
	free(fsck->links.cells);
	free(fsck->orphans.cells);
	free(fsck->dirs);
	free(fsck->names);
	free(fsck->stack);
	free(fsck->entries);
}
