/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spares inside an open set, and which device is what of it. Of the files of this folder alone; what others ask of spares is in
 * set_host.h.
 */
#ifndef G4_SET_SPARE_HOST_H
#define G4_SET_SPARE_HOST_H

#include "space/set_types_host.h"

/* ---- judging, and what superblocks say (set_label_host.c) ---- */
static inline bool g4_set_is_spare_label(const struct g4_superblock *sb)
{
	return (sb->features_incompat & G4_FEATURE_INCOMPAT_SPARE) != 0;
}
/* Whether a spare is one of the set that the other superblock speaks for. */
bool g4_set_is_spare_of(const struct g4_superblock *lead, const struct g4_superblock *spare);
/* The disk that is being rebuilt is no longer, because of others: that would be so with any spare, so none takes its place. */
void g4_set_give_up(struct g4_wg *wg, struct g4_set *set, uint32_t disk);

/* ---- which device it is: orders held ---- */
/* The disk of the set that a name stands for; G4_MAX_DISKS: none. */
uint32_t g4_set_find_name(const struct g4_set *set, const char *name);
/* The same of a device, also by what it says. */
uint32_t g4_set_find_disk(struct g4_wg *wg, struct g4_set *set, struct g4_dev *dev, const char *name);
/* The spare that a name stands for; G4_MAX_SPARES: none. */
uint32_t g4_set_find_spare(const struct g4_set *set, const char *name);
/* Says which of them it is already; its code. */
int g4_set_tell_disk(const char *name, uint32_t disk, struct g4_dev_message message);
int g4_set_tell_spare(const char *name, struct g4_dev_message message);
/* Whether a device can be one of the set, whatever its size. */
int g4_set_check_device(const struct g4_set *set, const struct g4_dev *dev, const char *name,
			struct g4_dev_message message);

/* ---- the list: orders held, or nobody else has the set ---- */
/* An open device that is a spare is the set's, which copies the name. -G4_E_NOMEM, -G4_E_SB_DISKS: it is the caller's still. */
int g4_set_put_spare(struct g4_set *set, struct g4_dev *dev, const char *name, struct g4_dev_message message);
/* A spare is the caller's, who makes something else of it; its name stays the set's. NULL: there is no memory. */
struct g4_dev *g4_set_take_spare(struct g4_set *set, uint32_t index);

/* A disk has taken the place of another: spares know the disks of now. One that does not take that is logged, and stays. */
void g4_set_tell_spares(struct g4_wg *wg, struct g4_set *set);

/* ---- orders: they take the lock. As g4_set_add_spare(), g4_set_remove_spare() ---- */
int g4_set_order_spare(struct g4_wg *wg, struct g4_set *set, const char *name, bool removes,
		       struct g4_dev_message message);

#endif
