/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is told to end gives back its lock, and a lock may go only when nothing behind it changes the repository any more. So what gives files their
 * names or removes them goes through this gate, which the ending thread closes: others stop in front of it, until the process is gone.
 */
#ifndef SHREDDER_STORE_GATE_H
#define SHREDDER_STORE_GATE_H

#include "base/base.h"

void store_gate_enter(void);
void store_gate_leave(void); /* errno stays */
/* From now on only the caller passes. False: somebody is still in there after so many nanoseconds. */
bool store_gate_close(uint64_t ns);

#endif
