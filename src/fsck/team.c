/* SPDX-License-Identifier: Apache-2.0 */
/* What the members of a team share: work for members that are free, the table of links, the end. together.c is above. */
#include <stdlib.h>

#include "fsck/tables.h"
#include "fsck/team.h"

void g4_fsck_stop_team(struct g4_fsck *fsck)
{
	struct g4_fsck_team *team = fsck->team;

	fsck->fatal = -G4_E_INTR; /* ends its loops */
	pthread_mutex_lock(&team->lock);
	team->stopped = true;
	pthread_cond_broadcast(&team->wake);
	pthread_mutex_unlock(&team->lock);
}

void g4_fsck_hand_out(struct g4_fsck *fsck, uint64_t dir, const struct g4_fsck_entry *entries, uint64_t count)
{
	struct g4_fsck_team *team = fsck->team;
	struct g4_fsck_job job = {.dir = dir, .count = count};

	if (entries != NULL) {
		job.entries = malloc(count * sizeof(*entries));
		if (job.entries == NULL) {
			g4_fsck_stop_team(fsck);
			return;
		}
		memcpy(job.entries, entries, count * sizeof(*entries));
	}
	pthread_mutex_lock(&team->lock);
	const bool room =
		g4_fsck_reserve(fsck, (void **)&team->jobs, team->job_count, &team->job_room, sizeof(*team->jobs));
	if (room)
		team->jobs[team->job_count++] = job;
	if (room && team->idle > 0)
		pthread_cond_signal(&team->wake);
	pthread_mutex_unlock(&team->lock);
	if (!room) {
		free(job.entries);
		g4_fsck_stop_team(fsck);
	}
}

struct g4_fsck_table *g4_fsck_lock_links(struct g4_fsck *fsck)
{
	if (fsck->team == NULL)
		return &fsck->links;
	pthread_mutex_lock(&fsck->team->lock);
	return &fsck->team->first->links;
}

void g4_fsck_unlock_links(struct g4_fsck *fsck)
{
	if (fsck->team != NULL)
		pthread_mutex_unlock(&fsck->team->lock);
}

uint64_t g4_fsck_met_by_others(const struct g4_fsck *fsck)
{
	return fsck->team == NULL ? 0 : __atomic_load_n(&fsck->team->pages_met, __ATOMIC_RELAXED);
}

bool g4_fsck_take_job(struct g4_fsck_team *team, struct g4_fsck_job *job)
{
	bool taken = false;

	pthread_mutex_lock(&team->lock);
	team->idle++;
	while (!team->stopped && team->job_count == 0 && team->idle < team->members)
		pthread_cond_wait(&team->wake, &team->lock);
	if (!team->stopped && team->job_count > 0) {
		*job = team->jobs[--team->job_count];
		team->idle--;
		taken = true;
	} else {
		pthread_cond_broadcast(&team->wake); /* this is the end for all */
	}
	pthread_mutex_unlock(&team->lock);
	return taken;
}
