/* SPDX-License-Identifier: Apache-2.0 */
/* Records of background jobs, and what the last scrub found. None of it is about anybody's data: what is not valid goes. */
#include "fsck/jobs.h"

#include <inttypes.h>
#include <string.h>

#include "fsck/fix.h"
#include "fsck/report.h"

static struct g4_root *edit_root(struct g4_fsck *fsck)
{
	return fsck->repairing ? (struct g4_root *)(void *)g4_fsck_edit(fsck, g4_layout_root(&fsck->image->layout)) :
				 NULL;
}

static void drop_job(struct g4_fsck *fsck, const struct g4_job_record *job, uint32_t i)
{
	g4_fsck_problem(fsck, G4_FSCK_JOB, NULL,
			"the record of background job %" PRIu64 " is not valid: kind %u, state %u", job->number,
			job->kind, job->state);
	struct g4_root *root = edit_root(fsck);
	if (root == NULL)
		return;
	memset(&root->jobs[i], 0, sizeof(root->jobs[i]));
	g4_fsck_seal(fsck, g4_layout_root(&fsck->image->layout), G4_BLOCK_ROOT);
	g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0, "background job %" PRIu64 " is dropped", job->number);
}

static void drop_finding(struct g4_fsck *fsck, uint32_t i)
{
	g4_fsck_problem(fsck, G4_FSCK_JOB, NULL, "finding %u of the last scrub is not valid", i);
	struct g4_root *root = edit_root(fsck);
	if (root == NULL)
		return;
	memset(&root->findings[i], 0, sizeof(root->findings[i]));
	g4_fsck_seal(fsck, g4_layout_root(&fsck->image->layout), G4_BLOCK_ROOT);
	g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0, "a finding of the last scrub is dropped");
}

void g4_fsck_jobs(struct g4_fsck *fsck, const struct g4_root *root)
{
	for (uint32_t i = 0; i < G4_JOBS; i++) {
		bool twice = false;
		for (uint32_t k = 0; k < i; k++)
			twice = twice || (root->jobs[i].number != 0 && root->jobs[k].number == root->jobs[i].number);
		if (!g4_job_is_valid(&root->jobs[i]) || root->jobs[i].number > root->job_count || twice)
			drop_job(fsck, &root->jobs[i], i);
	}
	for (uint32_t i = 0; i < G4_FINDINGS; i++)
		if (!g4_finding_is_valid(&root->findings[i]))
			drop_finding(fsck, i);
}
