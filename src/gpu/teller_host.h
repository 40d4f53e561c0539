/* SPDX-License-Identifier: Apache-2.0 */
/* Writes lines about damage that an engine on a GPU met. A thread: it sleeps while the kernel is not there. */
#ifndef G4_GPU_TELLER_HOST_H
#define G4_GPU_TELLER_HOST_H

#include "gpu/told.h"

struct g4_gpu_teller;

/* Both stay until it is stopped. 0 or -G4_E_NOMEM. */
int g4_gpu_teller_start(struct g4_gpu_told *told, const struct g4_dev *dev, struct g4_gpu_teller **out);
/* The kernel comes, or it has left. Thread-safe; NULL is ignored. */
void g4_gpu_teller_look(struct g4_gpu_teller *teller, bool runs);
/* Tells what is left, and ends. No kernel runs; NULL is ignored. */
void g4_gpu_teller_stop(struct g4_gpu_teller *teller);

#endif
