/* SPDX-License-Identifier: Apache-2.0 */
/* Ending a kernel whose warps wait for each other for ever. */
#ifndef G4_SIMT_CUDA_STOP_H
#define G4_SIMT_CUDA_STOP_H

#include "base/base.h"

/*
 * Not 0: every warp that waits for a lock or a word traps, which ends the kernel with an error. The host sets it when a
 * kernel does not leave in time, for example because another warp faulted in a debugger or spins in a bug.
 */
extern G4_FN uint32_t g4_abort_word;

#endif
