/* SPDX-License-Identifier: Apache-2.0 */
/* One image checked by several threads (together.c), and what these members of a team share (team.c). */
#ifndef G4_FSCK_TEAM_H
#define G4_FSCK_TEAM_H

#include <pthread.h>

#include "fsck/fsck_types.h"

struct g4_fsck_job {		       /* for a member of a team (team.c) */
	uint64_t dir;		       /* inode of the directory to be looked into */
	struct g4_fsck_entry *entries; /* NULL: all of it, else only these, malloc'ed */
	uint64_t count;
};
struct g4_fsck_team {
	struct g4_fsck *first; /* its table of links is everybody's */
	uint64_t pages_met;    /* by all but the first; atomic */

	pthread_mutex_t lock; /* of all that follows, and of first->links */
	pthread_cond_t wake;
	struct g4_fsck_job *jobs;
	uint64_t job_count, job_room;
	uint32_t members, idle;
	bool stopped;
};

/*
 * Checks everything behind the journal with fsck->threads threads. True: there is no problem, and *fsck is as if it had
 * found that alone. False: there is one, or something went wrong; what *fsck holds of this round means nothing.
 */
bool g4_fsck_check_together(struct g4_fsck *fsck);
/* Members: work for a member that is free. `entries` are copied. */
void g4_fsck_hand_out(struct g4_fsck *fsck, uint64_t dir, const struct g4_fsck_entry *entries, uint64_t count);
/* Members: a problem. Everybody stops. */
void g4_fsck_stop_team(struct g4_fsck *fsck);
/* Members have one table of links, the locked one's; also without a team. */
struct g4_fsck_table *g4_fsck_lock_links(struct g4_fsck *fsck);
void g4_fsck_unlock_links(struct g4_fsck *fsck);
/* Pages that the other members have met so far; 0 without a team. */
uint64_t g4_fsck_met_by_others(const struct g4_fsck *fsck);
/* Members: the next job. False: there is none, and no member is left that could hand out any. */
bool g4_fsck_take_job(struct g4_fsck_team *team, struct g4_fsck_job *job);

#endif
