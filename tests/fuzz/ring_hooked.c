/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_hooks.h"

#define g4_copy hooked_copy
#define g4_execute hooked_execute
/* NOLINTBEGIN(bugprone-suspicious-include): they are compiled anew */
#include "ring/execute.c"
#include "ring/ring.c"
/* NOLINTEND(bugprone-suspicious-include) */
