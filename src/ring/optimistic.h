/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lookups of a ring's clients by a whole workgroup, without a lock (fs/optimistic.h). Inline: a call would have its caller's
 * registers written to memory, and fetched from it afterwards.
 */
#ifndef G4_RING_OPTIMISTIC_H
#define G4_RING_OPTIMISTIC_H

#include "fs/optimistic.h"
#include "ring/ring.h"

/* What of a session is asked for each command. It is constant while the session is served, so it may be fetched beside the slot. */
struct g4_session_view {
	bool in_core; /* G4_SESSION_IN_PROCESS */
	bool root;    /* its own credentials: g4_is_root() */
};

G4_FN G4_INLINE struct g4_session_view g4_session_view(const struct g4_session *session)
{
	const struct g4_session_view view = {(session->flags & G4_SESSION_IN_PROCESS) != 0, g4_is_root(&session->cred)};

	return view;
}

/* Nothing of the slot needs to be fetched or checked further. */
G4_FN G4_INLINE bool g4_session_is_plain(struct g4_wg *wg, const struct g4_session *session,
					 struct g4_session_view view, const struct g4_ring_command *c)
{
	uint64_t named = 0;

	if (!g4_command_is(c->op, G4_LOOKS_UP) || c->text_at != G4_RING_TEXT_INLINE ||
	    c->name_bytes > G4_RING_TEXT_BYTES || c->name2_bytes || c->cred_bytes || c->attr_bytes || c->walk_bytes)
		return false;
	if (view.in_core || c->node <= G4_NODE_ROOT)
		return true;
	if (g4_wg_lane(wg) == 0)
		named = g4_session_names(session, c->node, c->generation, c->token);
	return g4_broadcast(wg, named, 0);
}

/*
 * Collective. Executes the LOOKUP or RESOLVE in stage->slot, if it is a plain one that the caches can answer and that meets
 * nobody, in a furnished memory. As g4_session_run(), or G4_SESSION_NOT_PLAIN: nothing was done, that function is to be called.
 */
#define G4_SESSION_NOT_PLAIN UINT32_MAX
G4_FN G4_INLINE uint32_t g4_session_look_up_optimistically(struct g4_wg *wg, struct g4_optimistic_memory *memory,
							   const struct g4_fs *fs, struct g4_session *session,
							   struct g4_session_view view, uint32_t number,
							   struct g4_session_stage *stage)
{
	const struct g4_ring_command *c = &stage->slot.command;
	const bool attr = c->wants_attr != 0;
	struct g4_cmd cmd;
	uint32_t bytes = 0;

	if (!g4_session_is_plain(wg, session, view, c))
		return G4_SESSION_NOT_PLAIN;
	memset(&cmd, 0, sizeof(cmd));
	cmd.op = c->op;
	cmd.node = c->node;
	cmd.generation = c->generation;
	cmd.flags = c->flags;
	cmd.name = (const char *)stage->slot.text;
	cmd.name_bytes = c->name_bytes;
	cmd.cred = &session->cred;
	cmd.attr = attr ? &stage->result.attr : NULL;
	cmd.data = &stage->result.trail;
	if (!g4_optimistic_lookup(true, wg, memory, fs, &cmd, view.root))
		return G4_SESSION_NOT_PLAIN;
	if (g4_wg_lane(wg) == 0) {
		const uint64_t words[G4_RING_FEW_WORDS] = {0, c->handle, c->offset};
		if (attr) {
			const bool trail =
				memory->epochs && g4_trail_of(&cmd) && g4_trail_is_good(&stage->result.trail);
			bytes = g4_session_full_result(session, view.in_core, number, words, true, trail,
						       &stage->result);
		} else {
			stage->result.word = number & G4_RING_NUMBER_MASK;
			g4_session_publish(session, number, stage);
		}
	}
	g4_sync(wg); /* the result is there for all */
	return (uint32_t)g4_broadcast(wg, bytes, 0);
}

#endif
