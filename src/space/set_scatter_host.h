/* SPDX-License-Identifier: Apache-2.0 */
/* Rows become copies where they find no room in one piece. Of the files of this folder alone. */
#ifndef G4_SET_SCATTER_HOST_H
#define G4_SET_SCATTER_HOST_H

#include "space/set_types_host.h"

/*
 * Orders held, by one workgroup at a time. *bytes of the address space from `address` on, whole MiB of places at the end of a unit of rows of the own level, part of which
 * stays: as much of that as finds room in copies, at its end; on no disk with the number `leaving`. Then *bytes is how much; 0: requests are under way, try again.
 * -G4_E_NOSPC: no MiB of a place finds any; -G4_E_PARITY: some of it does not fit its parity, and all stays rows; -G4_E_INVAL: it is nothing of that kind.
 */
int g4_set_scatter(struct g4_wg *wg, struct g4_set *set, uint64_t address, uint32_t leaving, uint64_t *bytes);

#endif
