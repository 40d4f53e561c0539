/* SPDX-License-Identifier: Apache-2.0 */
/* Time stamps: the clock of the file system, and stamps without a transaction. */
#ifndef G4_TIMES_H
#define G4_TIMES_H

#include "inode/mounted.h"

/*
 * What files are stamped with. Behind FUSE the kernel stamps, too, with the time of its last tick; so that what happens
 * later is not older, we stamp with that clock then, and never with less than a stamp of the kernel's that we have seen:
 * it may be some ticks ahead (Linux 6.13: of CLOCK_REALTIME_COARSE, for other file systems' sake).
 */
G4_FN uint64_t g4_now(const struct g4_fs *fs);
/* Its days since 1970, UTC; 0 before that. */
#define G4_DAY_NS UINT64_C(86400000000000)
G4_FN uint32_t g4_today(const struct g4_fs *fs);
G4_FN void g4_saw_stamp(struct g4_fs *fs, uint64_t time_ns);
/* Marks time stamps as changed without a transaction; they are logged with the next one or by write-back. */
G4_FN void g4_touch(struct g4_fs *fs, uint32_t index, bool modified, bool changed);
/* Of a read-locked inode that was read. */
G4_FN void g4_touch_read(struct g4_fs *fs, uint32_t index);

#endif
