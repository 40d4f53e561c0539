/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The I/O agent: a thread that does the device requests of an engine that cannot do them itself (remote.h). Host only.
 * Functions are thread-safe unless they say otherwise.
 */
#ifndef G4_DEV_AGENT_HOST_H
#define G4_DEV_AGENT_HOST_H

#include "dev/errand_host.h"
#include "dev/remote.h"

#ifdef __cplusplus
extern "C" {
#endif

struct g4_agent;

struct g4_agent_options {
	uint32_t slots;	      /* requests at a time; 0: as many as possible, G4_REMOTE_SLOTS */
	uint64_t chunk_bytes; /* staging memory of each, a multiple of 4 KiB; 0: 256 KiB */
};

/* An agent for `inner`, which stays the caller's and is nobody else's meanwhile. Its thread rests. NULL: defaults. */
int g4_agent_open(struct g4_dev *inner, const struct g4_agent_options *options, struct g4_agent **out);
/* Requests that were posted and not begun fail with G4_E_IO; those under way are waited for. NULL is ignored. */
void g4_agent_close(struct g4_agent *agent);

/* What engine and agent share; the engine may address it elsewhere. */
void *g4_agent_memory(const struct g4_agent *agent, uint64_t *bytes);
/*
 * Fills in the engine's side: `*remote` and `*dev`, for an engine that addresses the shared memory at `memory` and will
 * have *remote at `remote_at`.
 */
void g4_agent_describe(const struct g4_agent *agent, void *memory, struct g4_remote *remote,
		       struct g4_remote *remote_at, struct g4_dev *dev);
/*
 * Area `index` (from 1 on) becomes `bytes` bytes at `base`; 0 bytes: no area. Waits for requests that use what it was
 * before. The engine is told elsewhere: of a new area later, of the end of one before.
 */
void g4_agent_set_area(struct g4_agent *agent, uint32_t index, void *base, uint64_t bytes);

/*
 * Where the engine finds disks of a set that its lanes use by themselves: whoever asks for the set's table (g4_dev_layout()) gets it as `found` has made it
 * (errand_host.h), on a thread of the agent's.
 */
void g4_agent_place(struct g4_agent *agent, g4_errand_found *found, void *context);

/* Resting, the agent looks every 20 ms only, until it finds something: for an engine that is not at work. */
void g4_agent_rest(struct g4_agent *agent, bool resting);

struct g4_agent_counts {
	uint64_t requests;
	uint64_t placed; /* of them, done in an area without a copy */
	uint64_t naps;	 /* times it slept for a moment because there was nothing to do */
};
struct g4_agent_counts g4_agent_counts(struct g4_agent *agent);

/*
 * A device of this process behind an agent with a thread of its own (tests, and engines on threads): the new device owns
 * `inner` and works like it. On failure `inner` stays the caller's.
 */
int g4_dev_remote_open(struct g4_dev *inner, const struct g4_agent_options *options, struct g4_dev **out);
/* Its agent. */
struct g4_agent *g4_dev_remote_agent(struct g4_dev *dev);

#ifdef __cplusplus
}
#endif

#endif
