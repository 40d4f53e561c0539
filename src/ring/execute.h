/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command of a ring, from its slot to its result, for the two kinds of workgroup that serve rings: a leader whose lanes
 * serve, and all lanes of a warp together. The copies, of one round trip over PCIe each, are then all lanes' own: regions that the
 * leader opens for them would take longer. Inline, for the sake of registers, as optimistic.h is.
 */
#ifndef G4_RING_EXECUTE_H
#define G4_RING_EXECUTE_H

#include "ring/optimistic.h"

G4_STATIC_ASSERT(sizeof(struct g4_ring_slot) % sizeof(uint64_t) == 0 &&
			 sizeof(struct g4_ring_result) % sizeof(uint64_t) == 0,
		 "whole words");

/* A lookup by all lanes, for a leader whose lanes serve. As g4_session_look_up_optimistically(), optimistic.h. */
G4_FN uint32_t g4_session_look_up_in_region(struct g4_wg *wg, struct g4_fs *fs, struct g4_session *session,
					    uint32_t number, struct g4_session_stage *stage);

/* In all of the following: collective if `together`, else the leader's. */

G4_FN G4_INLINE void g4_session_fetch(bool together, struct g4_wg *wg, struct g4_session *session, uint32_t number,
				      struct g4_session_stage *stage)
{
	const struct g4_ring_slot *slot = g4_ring_slot_of(session->ring, session->entries, number);
	const uint64_t *from = (const uint64_t *)slot;
	uint64_t *to = (uint64_t *)&stage->slot;

	if (!together) {
		g4_copy(wg, &stage->slot, slot, sizeof(*slot));
		return;
	}
	for (uint32_t i = g4_wg_lane(wg); i < sizeof(*slot) / sizeof(uint64_t); i += g4_wg_width(wg))
		to[i] = g4_load64_rlx_sys(&from[i]);
	g4_sync(wg);
}

/* Executes what is not looked up without a lock: g4_session_run(). */
G4_FN G4_INLINE uint32_t g4_session_run_as(bool together, struct g4_wg *wg, struct g4_fs *fs,
					   struct g4_session *session, uint32_t number, struct g4_session_stage *stage)
{
	uint32_t bytes = 0;

	if (!together)
		return g4_session_run(wg, fs, session, number, stage);
	if (g4_wg_lane(wg) == 0) {
		bytes = g4_session_run(wg, fs, session, number, stage);
		g4_wg_dismiss(wg);
	} else {
		g4_fs_serve(wg);
	}
	return (uint32_t)g4_broadcast(wg, bytes, 0);
}

/* Marks the words of a result in memory that the lanes share. Collective if `together`, else the leader's. */
G4_FN G4_INLINE void g4_session_mark(bool together, struct g4_wg *wg, struct g4_ring_result *result, uint32_t bytes)
{
	const uint32_t words = bytes / sizeof(uint64_t) - 1, width = together ? g4_wg_width(wg) : 1;
	const uint32_t lane = together ? g4_wg_lane(wg) : 0;
	uint64_t *word = &result->value, tops = 0;

	for (uint32_t at = 0; at < words; at += width) {
		const uint64_t mine = at + lane < words ? word[at + lane] : 0;
		const bool top = mine >> 63;

		tops |= (together ? g4_ballot(wg, top) : top) << at;
		if (at + lane < words)
			word[at + lane] = mine | G4_RING_IS_THERE;
	}
	if (lane == 0)
		result->tops |= tops | G4_RING_IS_THERE;
	if (together)
		g4_sync(wg);
}

/*
 * Writes the words of a result, and then the one that says it is there. looked_up: nothing was done that the client would have to
 * see before that word, so it waits for nothing.
 */
G4_FN G4_INLINE void g4_session_give(bool together, struct g4_wg *wg, struct g4_session *session, uint32_t number,
				     const struct g4_session_stage *stage, uint32_t bytes, bool looked_up)
{
	struct g4_ring_result *result = g4_ring_result_of(session->ring, session->entries, number);
	const uint64_t *from = (const uint64_t *)&stage->result;
	uint64_t *to = (uint64_t *)result;

	if (!together) {
		g4_copy(wg, &result->tops, &stage->result.tops, bytes);
		g4_session_publish(session, number, stage);
		return;
	}
	for (uint32_t i = g4_wg_lane(wg); i <= bytes / sizeof(uint64_t); i += g4_wg_width(wg))
		if (i > 0 || looked_up)
			g4_store64_rlx_sys(&to[i], from[i]);
	g4_sync(wg);
	if (g4_wg_lane(wg) != 0)
		return;
	if (looked_up)
		g4_add32_rlx(&session->done, 1);
	else
		g4_session_publish(session, number, stage);
}

/*
 * Executes command `number` of a session, which this workgroup alone claimed, and gives its result. `memory`: where the lanes look
 * names up together, furnished; else NULL.
 */
G4_FN G4_INLINE void g4_session_execute_as(bool together, struct g4_wg *wg, struct g4_optimistic_memory *memory,
					   struct g4_fs *fs, struct g4_session *session, uint32_t number,
					   struct g4_session_stage *stage)
{
	const struct g4_session_view view = g4_session_view(session); /* on its way together with the slot */
	uint32_t bytes;

	g4_session_fetch(together, wg, session, number, stage);
	bytes = together ? g4_session_look_up_optimistically(wg, memory, fs, session, view, number, stage) :
			   g4_session_look_up_in_region(wg, fs, session, number, stage);
	const bool looked_up = bytes != G4_SESSION_NOT_PLAIN;
	if (!looked_up)
		bytes = g4_session_run_as(together, wg, fs, session, number, stage);
	if (bytes == 0)
		return;
	g4_session_mark(together, wg, &stage->result, bytes);
	/* who was told of a change by this answer reads its epoch in the host's memory next: that comes before it */
	g4_session_give(together, wg, session, number, stage, bytes, looked_up && !(together && memory->epochs));
}

/*
 * Leader, thread-safe. Executes command `number` of a session, which this workgroup alone claimed, and publishes its
 * result.
 */
G4_FN void g4_session_execute(struct g4_wg *wg, struct g4_fs *fs, struct g4_session *session, uint32_t number,
			      struct g4_session_stage *stage);

#endif
