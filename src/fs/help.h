/* SPDX-License-Identifier: Apache-2.0 */
/* Helping with what others have split (data/split.h). */
#ifndef G4_HELP_H
#define G4_HELP_H

#include "inode/mounted.h"

/* Leader, outside of any operation: does one piece of somebody's job, if there is one; whether there was. */
G4_FN bool g4_split_help(struct g4_wg *wg, struct g4_fs *fs);

#endif
