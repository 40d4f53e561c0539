/* SPDX-License-Identifier: Apache-2.0 */
/* Rows with parity that a crash may have cut short, and what a mount knows of their pages (cut_host.c). Host only. */
#ifndef G4_CUT_HOST_H
#define G4_CUT_HOST_H

#include "alloc/alloc.h"

/* Takes the next of them: *asked pages have to be known. 0: there are none left, or the device has no such rows. */
int g4_cut_next(struct g4_wg *wg, struct g4_dev *dev, uint64_t *asked);
/*
 * Tells what is known of those, and has them completed. `replayed`: as the journal was judged; `alloc`: maps as they are with that. It may be
 * called for each turn of g4_cut_next() with the same ones.
 */
int g4_cut_tell(struct g4_wg *wg, struct g4_space *space, struct g4_alloc *alloc, const struct g4_replay *replayed,
		uint64_t asked);
/* Nothing is known of what is left. */
int g4_cut_end(struct g4_wg *wg, struct g4_dev *dev);

#endif
