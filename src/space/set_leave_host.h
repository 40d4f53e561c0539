/* SPDX-License-Identifier: Apache-2.0 */
/* A disk of a set is removed while others use it, by one workgroup at a time. Of the files of this folder alone. */
#ifndef G4_SET_LEAVE_HOST_H
#define G4_SET_LEAVE_HOST_H

#include "space/set_types_host.h"

/* What the orders of dev.h ask for, LEAVE and those behind it. */
int g4_set_leave_order(struct g4_wg *wg, struct g4_set *set, struct g4_dev_order *order);

#endif
