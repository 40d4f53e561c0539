/* SPDX-License-Identifier: Apache-2.0 */
/* Records of background jobs. */
#ifndef G4_FSCK_JOBS_H
#define G4_FSCK_JOBS_H

#include "fsck/fsck_types.h"

/* Of a root block that is whole. A repair drops what is not valid. */
void g4_fsck_jobs(struct g4_fsck *fsck, const struct g4_root *root);

#endif
