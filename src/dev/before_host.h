/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device holds before it is measured: one that was trimmed, or never written, answers reads without looking at its medium. Host only.
 */
#ifndef G4_DEV_BEFORE_HOST_H
#define G4_DEV_BEFORE_HOST_H

#include "dev/dev_host.h"

#define G4_BEFORE_PLACES 64u
#define G4_BEFORE_TEXT_BYTES 96u

/*
 * Reads a page at each of so many places, from the first to the last one, at equal distances. *zeros: how many of them hold nothing but zeros.
 * 0, or a code of a read that failed.
 */
int g4_dev_look_before(struct g4_wg *wg, struct g4_dev *dev, uint32_t places, uint32_t *zeros);
/* Says so, and in a word what that is like. Returns text. */
char *g4_dev_say_before(uint32_t zeros, uint32_t places, char text[G4_BEFORE_TEXT_BYTES]);

#endif
