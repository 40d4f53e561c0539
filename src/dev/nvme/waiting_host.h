/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a thread waits for a request in one of the host's queues: it polls for about as long as a sleep costs, and then sleeps until the
 * queue's interrupt, or until somebody else has looked (waking_host.h). The controller is looked at now and then, so that no wait is for ever. Host
 * only.
 */
#ifndef G4_DEV_NVME_WAITING_HOST_H
#define G4_DEV_NVME_WAITING_HOST_H

#include "dev/nvme/controller_host.h"

/*
 * Blocks until the request is done, which was started in queue `index`. A workgroup may move to another queue for its next requests, if it has to wait for a
 * slot; NULL: there is none.
 */
void g4_nvme_wait(struct g4_nvme *nvme, struct g4_wg *wg, uint32_t index, const struct g4_nvme_target *target,
		  struct g4_io *io);

#endif
