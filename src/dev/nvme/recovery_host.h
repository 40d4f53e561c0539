/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done about a controller that fails: a late command is aborted; if that does not help, or the controller has failed, it is
 * reset and gets what was under way again, a few times an hour; then it is dead, and all requests fail. docs/design/nvme.md says what a
 * reset may lose and which callers learn of it. Host only.
 */
#ifndef G4_DEV_NVME_RECOVERY_HOST_H
#define G4_DEV_NVME_RECOVERY_HOST_H

#include "dev/nvme/controller_host.h"

/*
 * Thread-safe, cheap: called now and then by a thread that waits. What is to be done, a thread of its own does: it waits for
 * workgroups that
 * look at completions, and these may wait for the caller to take a slot.
 */
void g4_nvme_check(struct g4_nvme *nvme);
/* The same, at once, as if it were another time. */
void g4_nvme_check_at(struct g4_nvme *nvme, uint64_t now_ns);
/* Its two halves. What was found is forgotten where another thread has done something about the controller meanwhile. */
bool g4_nvme_find(struct g4_nvme *nvme, uint64_t now_ns, struct g4_nvme_finding *finding);
bool g4_nvme_mend(struct g4_nvme *nvme, const struct g4_nvme_finding *finding);

/* ---- for the keeper of lanes' queues (lanes_host.h), one thread at a time ---- */
/*
 * The queues are lanes' from now on, for one namespace. False: somebody else has them, or they could not be made again after a reset, or are not
 * empty: who used them knows where in them the controller is, and where its next completion comes.
 */
bool g4_nvme_take_lanes(struct g4_nvme *nvme, uint32_t space);
/* `used`: they may not be empty. */
void g4_nvme_leave_lanes(struct g4_nvme *nvme, bool used);
/* Another thread: until they are not lanes', of a controller that is dead, so that nobody takes them any more. */
void g4_nvme_await_lanes(struct g4_nvme *nvme);
/*
 * What lanes are to be told (lanes.h), after what those of all queues have said; may make the queues. The same as before where it is not
 * known.
 */
uint32_t g4_nvme_tell_lanes(struct g4_nvme *nvme, uint32_t said, uint32_t told);
/*
 * A command of theirs, in queue `index` of them, is late (1 + its identifier); 0: once more. Lanes know of no reset behind `reset`. False: nothing is begun, and
 * the keeper says it again, unless the queue is made anew.
 */
bool g4_nvme_lanes_late(struct g4_nvme *nvme, uint32_t index, uint32_t late, uint32_t reset);

#endif
