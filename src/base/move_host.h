/* SPDX-License-Identifier: Apache-2.0 */
/* Pointers into memory that moves to other addresses. Host only. */
#ifndef G4_MOVE_HOST_H
#define G4_MOVE_HOST_H

#include "base/base.h"

/* Adds `by` bytes to a pointer, of whatever type. The result need not point to memory of this processor. */
#define G4_MOVE(pointer, by) ((pointer) = (void *)((uintptr_t)(pointer) + (uintptr_t)(by)))

#endif
