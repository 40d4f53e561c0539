/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damage that the engine met on a GPU, on its way to the host, which writes lines about it: a ring in host memory. The engine's own
 * (inode/events.h) is emptied into this one by the housekeeper, as far as the host has taken what was there; so each waits for nobody.
 *
 *     warps --g4_event_post()--> ring in engine memory --housekeeper--> ring in host memory --teller--> log
 */
#ifndef G4_GPU_TOLD_H
#define G4_GPU_TOLD_H

#include "inode/events.h"

struct g4_gpu_told {  /* each side writes its own line */
	uint32_t put; /* GPU: events in the ring, of all */
	uint32_t padding0;
	uint64_t lost; /* of all: those that found no room in the engine's ring */
	uint8_t padding1[112];
	uint32_t taken; /* host */
	uint8_t padding2[124];
	struct g4_event events[G4_EVENTS];
};

/* GPU, the leader of one workgroup. A look at the engine's own memory when there is nothing to tell. */
G4_FN G4_INLINE void g4_gpu_put_told(struct g4_fs *fs, struct g4_gpu_told *told)
{
	struct g4_event event;

	/* what was lost found the ring full: there is something to take then */
	if (g4_load64_rlx(&fs->events.posted) == g4_load64_rlx(&fs->events.taken))
		return;
	uint32_t put = g4_load32_rlx_sys(&told->put);
	while (put - g4_load32_acq_sys(&told->taken) < G4_EVENTS && g4_event_take(fs, &event)) {
		told->events[put % G4_EVENTS] = event;
		g4_store32_rel_sys(&told->put, ++put);
	}
	g4_store64_rlx_sys(&told->lost, g4_load64_rlx(&fs->events.lost));
}

/* Host, one thread. The oldest that was not taken. False: there is none. */
G4_FN G4_INLINE bool g4_gpu_take_told(struct g4_gpu_told *told, struct g4_event *event)
{
	const uint32_t taken = g4_load32_rlx_sys(&told->taken);

	if (g4_load32_acq_sys(&told->put) == taken)
		return false;
	*event = told->events[taken % G4_EVENTS];
	g4_store32_rel_sys(&told->taken, taken + 1);
	return true;
}

#endif
