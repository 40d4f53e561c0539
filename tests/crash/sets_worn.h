/* SPDX-License-Identifier: Apache-2.0 */
/* A set of which pages have rotted, as many as can be made good, or more. */
#ifndef CRASH_SETS_WORN_H
#define CRASH_SETS_WORN_H

#include "explore.h"

/* A scrub to its end. False: it does not come to that, or has found what can not be made good; `text` says so. */
bool sets_scrub(struct lab *lab, struct g4_fs *fs, struct actor *actor, char *text, size_t room);
/*
 * The disks `active`, as many as the set has, are clean and have what `is` says, in memory; what is done to them is undone. Some pages rot as
 * far as they can be made good, and are: everything is read, scrubbed, and there without the disks `later`. False: it is not, and `text` says
 * what.
 */
bool sets_mend(struct lab *lab, uint32_t active, uint32_t later, const struct tree *is, uint64_t random, char *text,
	       size_t room);
/*
 * The disks `active`, as many as the set has, are clean and have what `is` says, in memory; what is done to it is undone. False: something
 * is an error or is wrong that should not be, and `text` says what.
 */
bool sets_wear_out(struct lab *lab, uint32_t active, const struct tree *is, uint64_t random, char *text, size_t room);

#endif
