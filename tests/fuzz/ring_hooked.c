/* SPDX-License-Identifier: Apache-2.0 */
#include "ring_hooks.h"

#define g4_copy hooked_copy
#define g4_execute hooked_execute
#include "ring/ring.c" /* NOLINT(bugprone-suspicious-include): it is compiled anew */
