/* SPDX-License-Identifier: Apache-2.0 */
/* A set of which more has rotted than can be made good. */
#ifndef CRASH_SETS_WORN_H
#define CRASH_SETS_WORN_H

#include "explore.h"

/*
 * The disks `active`, as many as the set has, are clean and have what `is` says, in memory; what is done to it is undone. False: something
 * is an error or is wrong that should not be, and `text` says what.
 */
bool sets_wear_out(struct lab *lab, uint32_t active, const struct tree *is, uint64_t random, char *text, size_t room);

#endif
