/* SPDX-License-Identifier: Apache-2.0 */
/* The checks in their order, and the rounds of a repair. */
#include <inttypes.h>
#include <stdlib.h>

#include "fs/mount_host.h"
#include "fsck/fsck.h"
#include "fsck/journal.h"
#include "fsck/listed.h"
#include "fsck/report.h"
#include "fsck/shared_map.h"
#include "fsck/space.h"
#include "fsck/tables.h"
#include "fsck/task.h"
#include "fsck/team.h"
#include "fsck/tree.h"

/* Damage is put right in a few rounds, for each finds what the one before has uncovered. */
#define MAX_ROUNDS 40u

/* ------------------------------------------------------------------ one round */

/* The tree is not what it will be. */
static bool is_waiting(const struct g4_fsck *fsck)
{
	return fsck->task_count != 0 || fsck->shared != NULL || fsck->new_root;
}

/*
 * Pages in use of which a copy is damaged. What was read instead becomes part of the repair, which writes all copies and goes through
 * the journal like any other.
 */
static void check_copies(struct g4_fsck *fsck)
{
	struct g4_image *image = fsck->image;

	if (image->damaged_count == 0)
		return;
	qsort(image->damaged, image->damaged_count, sizeof(*image->damaged), g4_image_compare_addresses);
	for (uint64_t i = 0; i < image->damaged_count; i++) {
		const struct g4_address address = image->damaged[i];
		if ((i > 0 && g4_address_is(image->damaged[i - 1], address)) ||
		    !g4_fsck_bit(fsck->used, g4_address_page(address)))
			continue;
		g4_fsck_problem(fsck, G4_FSCK_COPY, NULL,
				"a copy of the metadata at 0x%" PRIx64 " is damaged, and another one is whole",
				g4_address_stored(address));
		if (!fsck->repairing)
			continue;
		if (g4_image_patch(image, address) == NULL)
			fsck->fatal = -G4_E_NOMEM;
		g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0,
			       "the copies of the metadata at 0x%" PRIx64 " are the same again",
			       g4_address_stored(address));
	}
	image->damaged_count = 0;
}

static void check_alone(struct g4_fsck *fsck)
{
	if (!g4_fsck_load_maps(fsck))
		return;
	g4_fsck_orphans(fsck);
	g4_fsck_tree(fsck);
	if (is_waiting(fsck))
		return; /* what nothing leads to shows when the tree is whole */
	g4_fsck_find_slabs(fsck);
	g4_fsck_unreachable(fsck);
	if (fsck->fatal != 0 || is_waiting(fsck))
		return;
	g4_fsck_count_domains(fsck);
	g4_fsck_link_counts(fsck);
	g4_fsck_compare_maps(fsck);
	check_copies(fsck);
}

/* ------------------------------------------------------------------ rounds */

static void free_table(struct g4_fsck_table *table)
{
	free(table->cells);
	*table = (struct g4_fsck_table){.cells = NULL};
}

static void free_bitmap(uint64_t **bitmap)
{
	free(*bitmap);
	*bitmap = NULL;
}

static void remember_met(struct g4_fsck *fsck)
{
	if (fsck->ever_used == NULL) {
		fsck->ever_used = fsck->used;
		fsck->used = NULL;
	}
	for (uint64_t word = 0; fsck->used != NULL && word < fsck->bitmap_words; word++)
		fsck->ever_used[word] |= fsck->used[word];
}

/* What a round has found goes, except for the changes and what the next one needs to know. */
static void forget_round(struct g4_fsck *fsck)
{
	free_bitmap(&fsck->shared_before);
	free_bitmap(&fsck->metadata_before);
	fsck->shared_before = fsck->shared;
	fsck->metadata_before = fsck->metadata;
	fsck->shared = fsck->metadata = NULL;
	if (fsck->first_alloc == NULL)
		fsck->first_alloc = fsck->alloc_used;
	else
		free(fsck->alloc_used);
	fsck->alloc_used = NULL;
	if (fsck->repairing)
		remember_met(fsck);
	free_bitmap(&fsck->used);
	free_bitmap(&fsck->unwritten);
	free_bitmap(&fsck->alloc_slab);
	free_bitmap(&fsck->bad_group);
	free_bitmap(&fsck->unknown_owners);
	free_bitmap(&fsck->maps);
	free_bitmap(&fsck->rows);
	free_bitmap(&fsck->bad_maps);
	fsck->sharing_files = fsck->shared_maps = fsck->domains_met = 0;
	free(fsck->group_shares);
	free(fsck->group_buffered);
	fsck->group_shares = fsck->group_buffered = NULL;
	free_table(&fsck->owner_regions);
	fsck->owner_count = 0;
	fsck->owners_wrong = false;
	g4_fsck_free_listed(fsck);
	free_table(&fsck->slabs);
	free_table(&fsck->blocks);
	free_table(&fsck->links);
	free_table(&fsck->orphans);
	free_table(&fsck->adopted);
	free_table(&fsck->late);
	fsck->dir_count = fsck->name_bytes = fsck->stack_count = fsck->entry_count = 0;
	fsck->task_count = fsck->addition_count = fsck->late_count = fsck->orphan_list_count = 0;
	fsck->pages_met = fsck->pages_marked = 0;
	fsck->files = fsck->directories = fsck->symlinks = fsck->others = fsck->orphan_count = 0;
	fsck->orphans_broken = fsck->new_root = false;
	fsck->unnamed = 0;
	fsck->problems = 0;
}

/*
 * Several threads find out whether there is any problem. If so one alone looks for all of them: what it says and does
 * depends on the order in which it meets things. And when something is to be repaired anyway, that one notes on its way
 * what a repair needs to know.
 */
static void check_all(struct g4_fsck *fsck)
{
	const uint64_t problems = fsck->problems;
	const bool will_repair =
		fsck->repairing && (fsck->round != 0 || problems != 0 || fsck->image->patches.count != 0);

	if (fsck->threads > 1 && !will_repair && !fsck->made_superblock) {
		if (g4_fsck_check_together(fsck))
			return;
		/* They stopped at a problem: what they met until then is no round's. */
		free_bitmap(&fsck->used);
		forget_round(fsck);
		fsck->searched = false;
		fsck->problems = problems;
		fsck->fatal = 0;
	}
	check_alone(fsck);
}

int g4_fsck_run(struct g4_fsck *fsck, struct g4_image *image, const struct g4_journal_state *journal)
{
	fsck->image = image;
	g4_fsck_superblocks(fsck);
	g4_fsck_journal(fsck, journal);
	check_all(fsck);
	g4_progress_clear(&fsck->progress);
	return fsck->fatal;
}

static bool is_safe(enum g4_fsck_problem kind)
{
	switch (kind) {
	case G4_FSCK_SUPERBLOCK:
	case G4_FSCK_GROUPS:
	case G4_FSCK_GROUP_COUNT:
	case G4_FSCK_ALLOC:
	case G4_FSCK_OWNERS:
	case G4_FSCK_LISTED:
	case G4_FSCK_LEAKED:
	case G4_FSCK_UNMARKED:
	case G4_FSCK_SLAB_BIT:
	case G4_FSCK_LINKS:
	case G4_FSCK_ENTRIES:
	case G4_FSCK_ORPHAN:
	case G4_FSCK_COPY:
		return true;
	default:
		return false;
	}
}

static bool all_safe(const struct g4_fsck *fsck)
{
	/* A pointer to the wrong page leaves one that nothing leads to; a count of names can be all that is left of one. */
	if (fsck->names_missing != 0 || fsck->excess_owners != NULL ||
	    (fsck->by_kind[G4_FSCK_LEAKED] != 0 && fsck->by_kind[G4_FSCK_UNMARKED] != 0))
		return false;
	for (uint32_t kind = 0; kind < G4_FSCK_PROBLEM_KINDS; kind++) {
		if (fsck->by_kind[kind] != 0 && !is_safe((enum g4_fsck_problem)kind))
			return false;
	}
	return true;
}

/* The end of a round: what could not be put right on the way. */
static void finish_round(struct g4_fsck *fsck)
{
	const bool waiting = is_waiting(fsck);

	if (fsck->task_count != 0)
		g4_fsck_do_tasks(fsck);
	else if (fsck->orphans_broken && !fsck->new_root)
		g4_fsck_relink_orphans(fsck);
	if (!waiting && fsck->fatal == 0 && fsck->problems != 0)
		g4_fsck_rebuild_maps(fsck);
}

int g4_fsck_repair(struct g4_fsck *fsck, struct g4_image *image, const struct g4_journal_state *journal, bool safe_only)
{
	fsck->image = image;
	fsck->repairing = true;
	g4_fsck_superblocks(fsck);
	g4_fsck_journal(fsck, journal);
	fsck->sequence = fsck->reset_journal ? g4_fsck_next_sequence(image, journal) : journal->next_sequence;
	for (fsck->round = 0; fsck->round < MAX_ROUNDS; fsck->round++) {
		check_all(fsck);
		fsck->found += fsck->problems;
		g4_progress_clear(&fsck->progress);
		if (fsck->fatal == 0 && fsck->problems == 0 && fsck->round + 1 < MAX_ROUNDS &&
		    g4_fsck_stop_sharing(fsck)) {
			forget_round(fsck);
			continue;
		}
		if (fsck->fatal != 0 || fsck->problems == 0 || fsck->round + 1 == MAX_ROUNDS ||
		    (safe_only && !all_safe(fsck)))
			break;
		finish_round(fsck);
		if (fsck->fatal != 0 || fsck->no_room)
			break;
		forget_round(fsck);
	}
	if (fsck->fatal == 0 && fsck->problems == 0)
		g4_fsck_tell_missing(fsck);
	return fsck->fatal;
}

/* ------------------------------------------------------------------ a device */

static int open_image(struct g4_fsck *fsck, struct g4_image *image, const char *name, struct g4_journal_state *journal,
		      char *message, size_t bytes)
{
	const int status = g4_fsck_open(fsck, image, name, message, bytes);

	fsck->image = image;
	return status < 0 ? status : g4_image_scan_journal(image, NULL, NULL, journal);
}

/* A header that is damaged is made from the log. False: there is nothing to make one from. */
static bool mend_header(struct g4_fsck *fsck, struct g4_image *image, struct g4_journal_state *journal,
			struct g4_journal_header *header)
{
	uint64_t older; /* told by g4_image_load_overlay() again */

	if (!journal->header_damaged || !g4_image_find_tail(image, header, &older))
		return false;
	g4_fsck_problem(fsck, G4_FSCK_JOURNAL, NULL, "the journal's header is damaged: %s",
			g4_strerror(journal->status));
	g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0,
		       "the journal is read from transaction %" PRIu64 " on, the oldest in its log",
		       (uint64_t)header->tail_sequence);
	const uint64_t home = g4_superblock_home(&image->sb);
	if (home != 0 && g4_image_records_between(image, home, header->tail_sequence) > 0) {
		g4_fsck_problem(fsck, G4_FSCK_JOURNAL, NULL,
				"transaction %" PRIu64 " in the journal is damaged, or one before it",
				(uint64_t)header->tail_sequence - 1);
		g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, NULL, 0, 0,
			       "transactions before %" PRIu64
			       " are not replayed; whether all of them were in place is not known",
			       (uint64_t)header->tail_sequence);
	}
	image->journal_header = header;
	g4_image_scan_journal(image, NULL, NULL, journal);
	return true;
}

/* The records are whole, but say what no transaction can have said. */
static void give_journal_up(struct g4_fsck *fsck, int status)
{
	g4_fsck_problem(fsck, G4_FSCK_JOURNAL, NULL, "the journal can not be replayed: %s", g4_strerror(status));
	g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, NULL, 0, 0,
		       "the journal is emptied; of its transactions those count that can be understood");
	fsck->reset_journal = true;
}

/* What the log has for pages that can not be replayed becomes part of the repair. */
static bool keep_overlay(struct g4_image *image)
{
	for (uint64_t i = 0; i < image->overlay.room; i++) {
		const struct g4_overlay_page *page = &image->overlay.pages[i];
		if (!g4_address_is_none(page->image) && g4_image_patch(image, g4_page_address(page->page)) == NULL)
			return false;
	}
	return true;
}

static int repair_claimed(struct g4_fsck *fsck, struct g4_image *image, const char *name,
			  const struct g4_fsck_repair_options *options, struct g4_journal_state *journal, char *message,
			  size_t bytes)
{
	static struct g4_journal_header header;

	snprintf(message, bytes, "%s", name);
	int status = open_image(fsck, image, name, journal, message, bytes);
	if (status < 0)
		return status;
	if (fsck->foreign != NULL && !options->dry_run && !options->force) {
		snprintf(message, bytes,
			 "%s holds %s, which a repair would overwrite: if nobody needs that, remove its signature with "
			 "wipefs(8), or add --force",
			 name, fsck->foreign);
		g4_image_close(image);
		return -G4_E_EXIST;
	}
	const bool mended = mend_header(fsck, image, journal, &header);
	/* A record that no transaction can have written stops a replay; what is before it is looked at through the log. */
	const bool replay = journal->status == 0 && (mended || journal->records > 0);
	if (replay && !options->dry_run) {
		const int replayed = g4_fsck_replay(image, mended ? &header : NULL, fsck->target);
		fsck->replayed = true;
		g4_image_close(image);
		status = replayed < 0 && replayed != -G4_E_CORRUPT_JOURNAL ? replayed : 0;
		if (status == 0)
			status = open_image(fsck, image, name, journal, message, bytes);
		if (replayed == -G4_E_CORRUPT_JOURNAL)
			give_journal_up(fsck, replayed);
	}
	if (status == 0)
		status = g4_image_load_overlay(image, journal);
	if (status == 0 && !keep_overlay(image))
		status = -G4_E_NOMEM;
	if (status == 0)
		status = g4_fsck_repair(fsck, image, journal, options->safe_only);
	if (status == 0 && fsck->problems == 0 && !options->dry_run) {
		status = g4_fsck_write(fsck, journal);
		fsck->written = status == 0;
	}
	if (status < 0)
		snprintf(message, bytes, "%s: %s", name, g4_strerror(status));
	return status;
}

/* Claimed from before the first look at it: what somebody else changed in between would be overwritten with old pages. */
int g4_fsck_repair_device(struct g4_fsck *fsck, struct g4_image *image, const char *name,
			  const struct g4_fsck_repair_options *options, struct g4_journal_state *journal, char *message,
			  size_t bytes)
{
	int status = 0;

	fsck->repairing = true;
	if (!options->dry_run)
		status = g4_fs_open_unused(&name, 1, options->degraded, &fsck->target, message, bytes);
	return status < 0 ? status : repair_claimed(fsck, image, name, options, journal, message, bytes);
}

void g4_fsck_release(struct g4_fsck *fsck)
{
	g4_dev_close(fsck->target);
	fsck->target = NULL;
}

void g4_fsck_free(struct g4_fsck *fsck)
{
	g4_fsck_release(fsck);
	forget_round(fsck);
	free(fsck->shared_before);
	free(fsck->told_maps);
	free(fsck->metadata_before);
	free(fsck->first_alloc);
	free_table(&fsck->touched);
	free_table(&fsck->hidden);
	free_table(&fsck->dropped);
	free(fsck->excess_owners);
	free(fsck->ever_used);
	free(fsck->owners);
	free(fsck->taken);
	free(fsck->broken);
	free(fsck->sums_twice);
	free(fsck->dirs);
	free(fsck->names);
	free(fsck->stack);
	free(fsck->entries);
	free(fsck->tasks);
	free(fsck->copies);
	free(fsck->damages);
	free(fsck->additions);
	free(fsck->late_dirs);
	free(fsck->orphan_list);
	for (uint64_t i = 0; i < fsck->change_count; i++) {
		free(fsck->changes[i].text);
		free(fsck->changes[i].path);
	}
	free(fsck->changes);
}
