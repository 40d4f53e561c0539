/* SPDX-License-Identifier: Apache-2.0 */
/* The superblocks of a mounted file system. Leader, which has set `resizing` of struct g4_fs, which guards them. */
#ifndef G4_SUPER_H
#define G4_SUPER_H

#include "inode/mounted.h"

enum g4_fs_resizing { G4_FS_RESIZES = 1, G4_FS_ADDS_FEATURE = 2 };

/* Counts of damage by disk go into the superblock in memory, which is to be written; of one device the root block has the count. */
G4_FN G4_INLINE void g4_super_take_counts(struct g4_fs *fs)
{
	for (uint32_t d = 0; (fs->super.features_incompat & G4_FEATURE_INCOMPAT_DISKS) && d < G4_MAX_DISKS; d++)
		fs->super.disk_damaged[d] = g4_load64_rlx(&fs->space.damaged[d]);
}
/* The superblock as it is in memory, durably, to one place: also its generation, that of what was home at the mount. */
G4_FN int g4_super_write(struct g4_wg *wg, struct g4_fs *fs, struct g4_address address);
/* What is inside is told which features there are. */
G4_FN void g4_super_apply_features(struct g4_fs *fs);
/*
 * Adds an incompatible feature, durably, before anything on disk needs it: nobody sees it before both copies have it. Waits
 * for a workgroup that
 * just adds one. -G4_E_BUSY: the size is just changing. Crash in between: the first copy has it or not, and nothing needs it yet.
 */
G4_FN int g4_super_add_feature(struct g4_wg *wg, struct g4_fs *fs, uint64_t feature);
/*
 * Another quota for listed pages (bytes; 0: none), durably: both copies have it before anybody goes by it. Codes and waiting are those of
 * g4_super_add_feature(). Crash in between: the next mount has the old one or the new one, and nothing was listed that the old one did not let.
 */
G4_FN int g4_super_set_quota(struct g4_wg *wg, struct g4_fs *fs, uint64_t bytes);

#endif
