/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A controller that the system wants back while it is used: somebody removes it in an orderly way, and waits. What is in memory only may
 * be written first; then it is shut down, all requests to it fail, and the system has it. And one of which the system has heard that it, or
 * its link, has failed: it is reset. Host only.
 */
#ifndef G4_DEV_NVME_LEAVING_HOST_H
#define G4_DEV_NVME_LEAVING_HOST_H

#include "dev/nvme/controller_host.h"

/* Of the thread below, `attendance` of struct g4_nvme; each is left once, by who changes it. */
enum g4_nvme_attendance {
	G4_NVME_LISTENS,
	G4_NVME_SAVES,
	G4_NVME_LEAVES,	  /* or has: it waits for nobody's locks */
	G4_NVME_DISMISSED /* while it listened: it ends; while it saved: it closes the controller */
};

/*
 * What a process does before it lets go of a controller, while requests are still possible; NULL: nothing. One at a time: it is in nobody's
 * hands any more when the next call returns.
 */
void g4_nvme_before_leaving(void (*save)(void *context), void *context);

/*
 * A thread waits for what the system says from now on, where the provider tells it. Without a thread, as a log line says, the system waits
 * for its user, and failures are noticed by requests.
 */
void g4_nvme_attend(struct g4_nvme *nvme);
/* Closes it, and nobody waits any longer. If it is being let go of, when that is done; if something is saved first, later, without waiting. */
void g4_nvme_end(struct g4_nvme *nvme);
/* Whether the system has it: another one may have its address. */
bool g4_nvme_has_left(const struct g4_nvme *nvme);

#endif
