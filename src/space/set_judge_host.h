/* SPDX-License-Identifier: Apache-2.0 */
/* What the superblocks of disks say of each other (set_judge_host.c). Of the files of this folder alone. */
#ifndef G4_SET_JUDGE_HOST_H
#define G4_SET_JUDGE_HOST_H

#include "space/set_types_host.h"

/* Whether a superblock that is whole can be one of a set. */
bool g4_set_is_label(const struct g4_superblock *sb);
/*
 * Whether one superblock of a set, or of two disks of it, was written later than the other: by the set's generation, else as those of one
 * disk are compared (g4_superblock_is_newer()).
 */
bool g4_set_is_newer(const struct g4_superblock *a, const struct g4_superblock *b);
/* Whether the disk of `a` speaks rather than that of `b`. */
bool g4_set_speaks_before(const struct g4_superblock *a, const struct g4_superblock *b);
/* Whether a disk and the one that speaks were each written without the other. */
bool g4_set_is_split(const struct g4_superblock *lead, const struct g4_superblock *one);

/* Says that two disks, by name, were; its code. */
int g4_set_tell_apart(struct g4_dev_message message, const char *one, const char *other);
/* Whether a disk is the one of its number, for the disk that speaks. */
bool g4_set_is_member(const struct g4_superblock *lead, const struct g4_superblock *one);
/* The number of a disk with that UUID; G4_MAX_DISKS: there is none. */
uint32_t g4_set_number_of(const struct g4_superblock *sb, const uint8_t *uuid);
/* Whether the disk that has said `one` is among those that `sb` knows, by whatever number. */
bool g4_set_knows(const struct g4_superblock *sb, const struct g4_superblock *one);
/*
 * What a disk says by the numbers of an older generation, in which it had another one, or of one that it alone learnt of, becomes what it
 * says by those of `lead`.
 */
void g4_set_follow(const struct g4_superblock *lead, struct g4_superblock *one);
/* Two disks of a superblock have each other's numbers from then on; which one says so stays. */
void g4_set_swap_disks(struct g4_superblock *sb, uint32_t a, uint32_t b);
/* Whether it was being added, or removed, when that was interrupted: it is nobody's. */
bool g4_set_is_unadded(const struct g4_superblock *lead, const struct g4_superblock *one);
/* Whether a disk is the one that is being rebuilt. */
bool g4_set_is_target(const struct g4_superblock *lead, uint32_t disk);

#endif
