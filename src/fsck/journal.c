/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal when it is not as the engine left it.
 *
 * A record that a crash tore is the newest: the next is written only after it is durable. So a record whose sequence
 * lies beyond the end of the log says that something in between was durable once and is damaged now; what it and its
 * successors would have changed is lost. That the newest record itself is damaged looks like a torn write and can not be
 * told from one.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "fsck/journal.h"
#include "fsck/report.h"
#include "journal/block.h"

uint64_t g4_fsck_next_sequence(struct g4_image *image, const struct g4_journal_state *journal)
{
	uint64_t newest = g4_max64(image->sb.header.generation, g4_image_newest_fixed(image));

	if (!journal->header_damaged)
		newest = g4_max64(newest, journal->next_sequence);
	for (uint64_t page = 0; page < g4_layout_log_pages(&image->layout); page++)
		newest = g4_max64(newest, g4_image_starts_record(image, page));
	return newest + 1;
}

/* ------------------------------------------------------------------ what is lost with records */

/* The inodes in a slab's image: each that differs from what is home would have been changed. */
static void tell_slab(struct g4_fsck *fsck, struct g4_address home, const uint8_t *image, uint64_t sequence)
{
	struct g4_slab_header slab;
	uint8_t old[G4_PAGE_BYTES];
	const void *page;

	memset(old, 0, sizeof(old));
	if (g4_image_page(fsck->image, home, &page) == 0)
		memcpy(old, page, sizeof(old));
	memcpy(&slab, image, sizeof(slab));
	for (uint32_t slot = 1; slot < G4_SLAB_SLOTS; slot++) {
		const uint32_t at = slot * G4_SLAB_SLOT_BYTES;
		const struct g4_fsck_where where = {.dir = G4_NO_DIR, .ino = g4_ino_of_slot(home, slot)};
		if (memcmp(old + at, image + at, G4_SLAB_SLOT_BYTES) != 0)
			g4_fsck_change(fsck, G4_FSCK_LOST, &where, 0, 0,
				       "what transaction %" PRIu64 " changed in inode 0x%" PRIx64, sequence, where.ino);
	}
}

/* Reads what it can of the record at a page of the log, whether it is whole or not. */
static void tell_record(struct g4_fsck *fsck, uint64_t log_page, uint64_t sequence)
{
	struct g4_image *image = fsck->image;
	struct g4_journal_descriptor first;
	uint8_t copy[G4_PAGE_BYTES];
	const void *page;

	if (g4_image_raw_page(image, g4_image_log_address(image, log_page), &page) < 0)
		return;
	memcpy(&first, page, sizeof(first));
	const uint64_t blocks =
		g4_min64(first.block_count, g4_min64(G4_JOURNAL_TAGS, g4_layout_log_pages(&image->layout)));
	for (uint64_t i = 0; i < blocks; i++) {
		const struct g4_address home = g4_address_from(first.tags[i]);
		const struct g4_address at = g4_image_log_address(image, log_page + first.page_count + i);
		if (!g4_address_starts_page(home) || !g4_layout_holds(&image->layout, home) ||
		    g4_image_raw_page(image, at, &page) < 0)
			continue;
		memcpy(copy, page, sizeof(copy));
		if (g4_block_verify(copy, G4_BLOCK_SLAB, home, image->fs_tag) == 0)
			tell_slab(fsck, home, copy, sequence);
	}
}

static void tell_lost_records(struct g4_fsck *fsck, uint64_t expected)
{
	for (uint64_t page = 0; page < g4_layout_log_pages(&fsck->image->layout); page++) {
		const uint64_t sequence = g4_image_starts_record(fsck->image, page);
		if (sequence >= expected)
			tell_record(fsck, page, sequence);
	}
}

/* Without a header, and with nothing in the log that may be replayed. */
static void begin_anew(struct g4_fsck *fsck, const struct g4_journal_state *journal)
{
	if ((fsck->image->sb.state & G4_STATE_CLEAN) != 0)
		g4_fsck_change(
			fsck, G4_FSCK_REPAIRED, NULL, 0, 0,
			"the journal starts anew; the file system was unmounted properly and needs nothing of it");
	else if (journal->older != 0)
		g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, NULL, 0, 0,
			       "the journal starts anew; its newest transaction, %" PRIu64
			       ", is older than what is in place and is not replayed; whether it had newer ones is not "
			       "known",
			       journal->older);
	else
		g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, NULL, 0, 0,
			       "the journal starts anew; whether it had anything to replay is not known");
}

void g4_fsck_journal(struct g4_fsck *fsck, const struct g4_journal_state *journal)
{
	const uint64_t expected = journal->next_sequence;

	if (journal->status < 0)
		g4_fsck_problem(fsck, G4_FSCK_JOURNAL, NULL, "the journal's header or a record in it is damaged: %s",
				g4_strerror(journal->status));
	/* Those beyond `expected` no end of a log leaves behind. */
	const uint64_t stranded =
		journal->header_damaged ? 0 : g4_image_records_between(fsck->image, expected, UINT64_MAX);
	if (stranded > 0)
		g4_fsck_problem(fsck, G4_FSCK_JOURNAL, NULL,
				"transaction %" PRIu64 " in the journal is damaged: it and %" PRIu64
				" newer ones can not be replayed",
				expected, stranded);
	if (!fsck->repairing || (journal->status == 0 && stranded == 0))
		return;
	fsck->reset_journal = true;
	if (journal->header_damaged) {
		begin_anew(fsck, journal);
		return;
	}
	tell_lost_records(fsck, expected);
	g4_fsck_change(fsck, G4_FSCK_LOST, NULL, 0, 0,
		       "the journal is emptied; what it had from transaction %" PRIu64 " on is given up", expected);
}
