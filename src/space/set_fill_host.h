/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that lie nowhere get places again, while others use the set. Of the files of this folder alone. */
#ifndef G4_SET_FILL_HOST_H
#define G4_SET_FILL_HOST_H

#include "space/set_types_host.h"

/* As many as there is room for. *bytes of them; 0: there are none, or no room. *again: requests are under way, try again. By one workgroup at a time. */
int g4_set_fill(struct g4_wg *wg, struct g4_set *set, uint64_t *bytes, bool *again);

#endif
