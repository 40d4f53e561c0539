/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of rings for a leader whose lanes serve: what is inline elsewhere (execute.h), once for all of them. */
#include "ring/execute.h"

struct optimistic_job {
	struct g4_optimistic_memory memory;
	struct g4_fs *fs;
	struct g4_session *session;
	struct g4_session_stage *stage;
	uint32_t number;
	uint32_t bytes;
};

G4_REGION_BODY static void optimistic_region(struct g4_wg *wg, void *args)
{
	struct optimistic_job *job = (struct optimistic_job *)args;

	g4_converge(wg);
	const struct g4_session_view view = g4_session_view(job->session);
	const uint32_t bytes = g4_session_look_up_optimistically(wg, &job->memory, job->fs, job->session, view,
								 job->number, job->stage);

	if (g4_wg_lane(wg) == 0)
		job->bytes = bytes;
}

G4_FN uint32_t g4_session_look_up_in_region(struct g4_wg *wg, struct g4_fs *fs, struct g4_session *session,
					    uint32_t number, struct g4_session_stage *stage)
{
	if (g4_wg_width(wg) == 1 || !g4_command_is(stage->slot.command.op, G4_LOOKS_UP))
		return G4_SESSION_NOT_PLAIN;
	const uint32_t mark = g4_scratch_mark(wg);
	struct optimistic_job *job = (struct optimistic_job *)g4_scratch_take(wg, sizeof(*job));
	g4_optimistic_furnish(&job->memory, fs);
	job->fs = fs;
	job->session = session;
	job->stage = stage;
	job->number = number;
	g4_region(wg, G4_REGION_OPTIMISTIC_LOOKUP, optimistic_region, job);
	const uint32_t bytes = job->bytes;
	g4_scratch_release(wg, mark);
	return bytes;
}

G4_FN void g4_session_execute(struct g4_wg *wg, struct g4_fs *fs, struct g4_session *session, uint32_t number,
			      struct g4_session_stage *stage)
{
	g4_session_execute_as(false, wg, NULL, fs, session, number, stage);
}
