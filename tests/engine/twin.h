/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A drive as the twin of the device in memory: requests are done by the drive, and memory follows. What is put into memory meanwhile (a
 * state, what is undone) is written to the drive by twin_match(). Whatever the drive reads has to be what memory has. So tests that
 * set memory back and look at it work on a device whose contents they cannot look at or change behind its driver. Not thread-safe.
 */
#ifndef TWIN_H
#define TWIN_H

#include <stdint.h>

struct g4_dev;

/* `image` stays the caller's; of the drive the first `bytes` are used. Prints why and ends the program where it can not be had. */
struct g4_dev *twin_open(const char *drive, uint8_t *image, uint64_t bytes);
/* The drive has what memory has. No request is under way. */
void twin_match(struct g4_dev *twin);
/* The twin, which has what memory has, as a device for whoever closes what it was given: the twin stays open, and outlives it. */
struct g4_dev *twin_lend(struct g4_dev *twin);

#endif
