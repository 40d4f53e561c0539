/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One image checked by several threads. They only find out whether anything is wrong: the first problem stops them, and
 * the check begins anew with one thread, which tells it. So a report never depends on the number of threads, and an
 * image without problems, the usual case, is checked as fast as the processors and the device allow.
 *
 * Each member is a struct g4_fsck with tables, a cache and a workgroup of its own. Work is a directory: its pages, its
 * inodes and all that these own; subdirectories are work for a member that is free. Shared are
 *   - the bitmap of pages met, set by atomic operations: of two that claim a page one finds it taken;
 *   - the table of inodes with several links, and the list of work, under the team's lock;
 *   - the owners met of pages that several files have, counted by atomic operations; which pages were met as indirect ones;
 *   - which of the listed pages were met, set by them, too;
 *   - the image and the maps, which nobody changes.
 * A slab has inodes of several directories. Members note in their own tables which of its slots they have met. When
 * all is done these become one table: a slot that two have met is a problem unless the inode has several links.
 */
#include <stdlib.h>

#include "fsck/claim.h"
#include "fsck/space.h"
#include "fsck/tables.h"
#include "fsck/team.h"
#include "fsck/tree.h"

static void *work(void *argument)
{
	struct g4_fsck *member = argument;
	struct g4_fsck_team *team = member->team;
	struct g4_fsck_job job;

	while (g4_fsck_take_job(team, &job)) {
		const uint64_t before = member->pages_met;
		g4_fsck_do_job(member, &job);
		free(job.entries);
		if (member != team->first)
			__atomic_fetch_add(&team->pages_met, member->pages_met - before, __ATOMIC_RELAXED);
		if (member->fatal != 0)
			g4_fsck_stop_team(member);
	}
	return NULL;
}

/* ------------------------------------------------------------------ members */

struct member {
	struct g4_fsck fsck;
	struct g4_image image;
	pthread_t thread;
};

static bool start_member(struct member *member, const struct g4_fsck *first, uint32_t index)
{
	struct g4_fsck *fsck = &member->fsck;

	if (g4_image_share(first->image, index, &member->image) < 0)
		return false;
	fsck->image = &member->image;
	fsck->team = first->team;
	fsck->slabs_later = true;
	fsck->used = first->used;
	fsck->orphans = first->orphans;
	fsck->owner_regions = first->owner_regions;
	fsck->owners = first->owners;
	fsck->listed = first->listed;
	fsck->domains = first->domains;
	fsck->owner_count = first->owner_count;
	fsck->maps = first->maps;
	fsck->rows = first->rows;
	if (pthread_create(&member->thread, NULL, work, fsck) == 0)
		return true;
	g4_image_close(&member->image);
	return false;
}

static void join_block(struct g4_fsck *fsck, const struct g4_fsck_cell *cell)
{
	struct g4_fsck_cell *block = g4_fsck_add(fsck, &fsck->blocks, cell->key);

	if (block == NULL)
		return;
	if ((block->b & cell->b) != 0)
		g4_fsck_stop_team(fsck); /* two files have one */
	block->a = cell->a;
	block->b |= cell->b;
	block->c = cell->c;
}

/* Slots that a member has met. One that others have met, too, must be of an inode with several links. */
static void join_slab(struct g4_fsck *fsck, const struct g4_fsck_cell *cell)
{
	struct g4_fsck_cell *slab = g4_fsck_add(fsck, &fsck->slabs, cell->key);

	if (slab == NULL)
		return;
	for (uint32_t twice = slab->b & cell->b; twice != 0; twice &= twice - 1) {
		const uint64_t slot = (uint64_t)__builtin_ctz(twice);
		const uint64_t ino = g4_ino_of_slot(g4_page_address(cell->key), slot);
		if (g4_fsck_find(&fsck->team->first->links, ino) == NULL)
			g4_fsck_stop_team(fsck);
	}
	slab->a = cell->a;
	slab->b |= cell->b;
	slab->c = cell->c;
}

/* Takes over what a member has found, and frees the rest of it. */
static void join_member(struct g4_fsck *fsck, struct member *member)
{
	struct g4_fsck *other = &member->fsck;

	pthread_join(member->thread, NULL);
	if (member->image.damaged_count > 0)
		g4_fsck_stop_team(fsck);
	for (uint64_t i = 0; i < other->slabs.room; i++) {
		if (other->slabs.cells[i].key != 0)
			join_slab(fsck, &other->slabs.cells[i]);
	}
	for (uint64_t i = 0; i < other->blocks.room; i++) {
		if (other->blocks.cells[i].key != 0)
			join_block(fsck, &other->blocks.cells[i]);
	}
	fsck->pages_met += other->pages_met;
	fsck->files += other->files;
	fsck->directories += other->directories;
	fsck->symlinks += other->symlinks;
	fsck->others += other->others;
	free(other->slabs.cells);
	free(other->blocks.cells);
	free(other->entries);
	g4_image_close(&member->image);
}

static void claim_slabs(struct g4_fsck *fsck)
{
	uint64_t count;
	uint64_t *pages = g4_fsck_keys(fsck, &fsck->slabs, &count);

	fsck->slabs_later = false;
	for (uint64_t i = 0; i < count; i++)
		g4_fsck_claim_metadata(fsck, g4_page_address(pages[i]), NULL, "a slab");
	free(pages);
	pages = g4_fsck_keys(fsck, &fsck->blocks, &count);
	for (uint64_t i = 0; i < count; i++)
		g4_fsck_claim_metadata(fsck, g4_page_address(pages[i]), NULL, "a slab of blocks of sums");
	free(pages);
}

/* The tree, whose root is handed out. */
static void check_tree(struct g4_fsck *fsck)
{
	struct member *members = calloc(fsck->threads, sizeof(*members));
	const uint32_t wanted = members == NULL ? 1 : fsck->threads;
	uint32_t started = 0;

	fsck->team->members = wanted;
	while (started + 1 < wanted && start_member(&members[started], fsck, started + 1))
		started++;
	if (started + 1 < wanted) { /* the others must not wait for those that do not come */
		pthread_mutex_lock(&fsck->team->lock);
		fsck->team->members = started + 1;
		pthread_cond_broadcast(&fsck->team->wake);
		pthread_mutex_unlock(&fsck->team->lock);
	}
	work(fsck);
	for (uint32_t i = 0; i < started; i++)
		join_member(fsck, &members[i]);
	fsck->team->pages_met = 0; /* they are the first's now */
	free(members);
}

bool g4_fsck_check_together(struct g4_fsck *fsck)
{
	struct g4_fsck_team team = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER, .first = fsck};
	const bool repairing = fsck->repairing;

	fsck->repairing = false;
	fsck->slabs_later = true;
	fsck->team = &team;
	if (g4_fsck_load_maps(fsck)) {
		g4_fsck_orphans(fsck);
		g4_fsck_tree(fsck);
		if (!team.stopped)
			check_tree(fsck);
	}
	if (!team.stopped && fsck->fatal == 0) {
		claim_slabs(fsck);
		g4_fsck_find_slabs(fsck);
		g4_fsck_unreachable(fsck);
		g4_fsck_link_counts(fsck);
		g4_fsck_compare_maps(fsck);
	}
	if (fsck->image->damaged_count > 0)
		g4_fsck_stop_team(fsck);
	for (uint64_t i = 0; i < team.job_count; i++)
		free(team.jobs[i].entries);
	free(team.jobs);
	fsck->team = NULL;
	fsck->slabs_later = false;
	fsck->repairing = repairing;
	return !team.stopped && fsck->fatal == 0;
}
