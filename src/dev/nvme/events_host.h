/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a controller says without being asked: asynchronous events. One request for them is with the controller for as long as it works;
 * its answer is found by those that look at the controller now and then, and the thread of its recovery does what is to be done. Host only.
 */
#ifndef G4_DEV_NVME_EVENTS_HOST_H
#define G4_DEV_NVME_EVENTS_HOST_H

#include "dev/nvme/controller_host.h"

#define G4_NVME_EVENTS_MOST 1000u /* in an hour: of one that has more to say no more is wanted */

/* Thread-safe, cheap: whether there is an event that nothing was done about. Waits for nobody. */
bool g4_nvme_has_event(struct g4_nvme *nvme);
/*
 * Does something about it, and asks for the next one; by the holder of admin_lock. False: the controller is to be reset, because of *why.
 */
bool g4_nvme_hear_event(struct g4_nvme *nvme, const char **why);
/*
 * Warnings that a drive has given since it was opened, the lowest of these bits of its health, as text: "" if there is none of them.
 */
const char *g4_nvme_warning(uint32_t warnings);

#endif
