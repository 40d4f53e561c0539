/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small POSIX file system in memory, and random operations that go to it and to an engine. After each operation both
 * must give the same answer; model_compare() walks both trees. A model owns one or two directories of the engine: one of
 * its own, and one that other models use, too, with names that begin with another character.
 */
#ifndef MODEL_H
#define MODEL_H

#include "rig.h"

struct model;

/* `own` exists and is empty; `shared` is 0 or a directory that is not in `own`. `tag` starts this model's names. */
struct model *model_new(struct rig *rig, uint64_t seed, char tag, uint64_t own, uint64_t shared);
void model_free(struct model *m);
/* One random operation on both. */
void model_step(struct model *m);
/* Compares everything. exact_times: nothing may have changed since the last call, time stamps included. */
void model_compare(struct model *m, bool exact_times);
/* Closes all handles, as an unmount asks for. */
void model_close_handles(struct model *m);
/* How many operations did what was asked; how many the engine refused for want of space. */
uint64_t model_done(const struct model *m);
uint64_t model_full(const struct model *m);

#endif
