/* SPDX-License-Identifier: Apache-2.0 */
/* What orders about a disk that is to be removed say beside dev.h: of rows, which are cut into smaller parts where they have no room as they are. */
#ifndef G4_DEV_LEAVE_H
#define G4_DEV_LEAVE_H

#include "dev/dev.h"

/* LEAVE_CHUNK, disk: no other disk may have the place on the one that goes; the chunk is of the level that mkfs made; the number of the disk that goes */
#define G4_LEAVE_FIXED 0x400u
#define G4_LEAVE_OWN 0x800u
#define G4_LEAVE_UNIT_MASK 0xffu /* from G4_LEAVE_UNIT_SHIFT on */
#define G4_LEAVE_DISK_SHIFT 24u

/* LEAVE_USE, disk: of the chunk `bytes` of copies in all would be made, on any of the other disks, and of each place `all` could be given up then */
#define G4_LEAVE_USE_COPIES 1u

/*
 * GIVE_UP, disk: the part is in use, and becomes copies, on no disk with this number: whole MiB of places at the end of a unit of rows of the own level, of which
 * something stays. Out: so many `bytes` at its end; 0 with disk 1: try again. -G4_E_NOSPC: no MiB of a place has room; -G4_E_PARITY: some of it does not fit its parity. Without that, 0, one end of a unit of rows, whole MiB of its places, may be given up
 * as well, and the rest stays.
 */
#define G4_GIVE_UP_TO_COPIES(number) ((number) + 1u)

#endif
