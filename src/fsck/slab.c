/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs of inodes. */
#include <inttypes.h>

#include "fsck/claim.h"
#include "fsck/fix.h"
#include "fsck/inode.h"
#include "fsck/report.h"
#include "fsck/tables.h"

static int read_slab(struct g4_fsck *fsck, uint64_t page, struct g4_slab_header *slab)
{
	uint8_t copy[G4_PAGE_BYTES];
	int status = g4_image_block(fsck->image, g4_page_address(page), G4_BLOCK_SLAB, copy);

	memcpy(slab, copy, sizeof(*slab));
	if (status == 0)
		status = g4_slab_validate(slab);
	/* Version 1 keeps inodes in slabs and nothing else. */
	return status == 0 && slab->kind != G4_SLAB_INODES ? -G4_E_CORRUPT_ALLOC : status;
}

/* Also of inodes whose names are in directories that are lost with them, somebody may want to know. */
static void tell_lost_slab(struct g4_fsck *fsck, uint64_t page)
{
	for (uint32_t slot = 1; slot < G4_SLAB_SLOTS; slot++) {
		const uint64_t ino = g4_ino_of_slot(g4_page_address(page), slot);
		const struct g4_fsck_where where = {.dir = G4_NO_DIR, .ino = ino};
		g4_fsck_change(fsck, G4_FSCK_LOST, &where, 0, 0, "inode 0x%" PRIx64 ", if it was in use", ino);
	}
}

struct g4_fsck_cell *g4_fsck_slab(struct g4_fsck *fsck, uint64_t page, const struct g4_fsck_where *where)
{
	struct g4_slab_header slab;
	struct g4_fsck_cell *cell = g4_fsck_find(&fsck->slabs, page);

	if (cell != NULL)
		return cell;
	cell = g4_fsck_add(fsck, &fsck->slabs, page);
	if (cell == NULL)
		return NULL;
	int status = read_slab(fsck, page, &slab);
	if (status < 0) {
		g4_fsck_note_broken(fsck, g4_page_address(page));
		g4_fsck_problem(fsck, G4_FSCK_SLAB, NULL,
				"the slab at 0x%" PRIx64 ", with up to 15 inodes, is damaged: %s", page * G4_PAGE_BYTES,
				g4_strerror(status));
		if (fsck->repairing)
			status = g4_fsck_salvage_slab(fsck, page, status, &slab);
		if (fsck->repairing && status < 0)
			tell_lost_slab(fsck, page);
		/* The tables may have grown while its inodes were looked at. */
		cell = g4_fsck_find(&fsck->slabs, page);
		cell->d |= G4_FSCK_SALVAGED;
	}
	cell->c = (uint32_t)-status;
	cell->a = status == 0 ? slab.used : 0;
	if (g4_fsck_find(&fsck->hidden, page) != NULL)
		cell->d |= G4_FSCK_HIDDEN;
	if ((status == 0 || !fsck->repairing) && !fsck->slabs_later)
		g4_fsck_claim_metadata(fsck, g4_page_address(page), where, "a slab");
	return cell;
}
