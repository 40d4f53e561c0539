/* SPDX-License-Identifier: Apache-2.0 */
/* What lies on a set is spread over its disks while others use it, by one workgroup at a time. Of the files of this folder alone. */
#ifndef G4_SET_SPREAD_HOST_H
#define G4_SET_SPREAD_HOST_H

#include "space/set_types_host.h"

/* Whether that can be done at all; else a sentence. *left: bytes of places that would be moved, about. Thread-safe. */
int g4_set_spread_check(struct g4_set *set, uint64_t *left, struct g4_dev_message message);
/* About `used` bytes of a part of the address space, one of `parts` that are of `bytes` each, are in use. -G4_E_INVAL: there are none of that number. */
int g4_set_spread_use(struct g4_set *set, uint64_t part, uint64_t parts, uint64_t bytes, uint64_t used);
/* What comes next: *bytes of the address space, from *address on; 0: nothing does. *left: as above. */
int g4_set_spread_next(struct g4_set *set, uint64_t *address, uint64_t *bytes, uint64_t *left);
/*
 * About *bytes of that, from its beginning on, are moved; idle: they held nothing when or after it was told. Then *bytes is how much of a
 * place was copied, *moved how much of it lies elsewhere now; 0: somebody writes there, or the table is another one, try again. After an
 * error of which the set is not stuck all lies where it lay.
 */
int g4_set_spread_move(struct g4_wg *wg, struct g4_set *set, bool idle, uint64_t *bytes, uint64_t *moved);

#endif
