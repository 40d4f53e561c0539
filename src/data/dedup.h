/* SPDX-License-Identifier: Apache-2.0 */
/* Filling the table of contents, which is in memory, from the listed pages that are on the device. */
#ifndef G4_DATA_DEDUP_H
#define G4_DATA_DEDUP_H

#include "inode/mounted.h"

/*
 * The listed pages of one group, the next one, become hints of the table of contents. False: there are no groups left. By who does
 * background jobs, one at a time, outside of operations.
 */
G4_FN bool g4_dedup_load(struct g4_wg *wg, struct g4_fs *fs);

#endif
