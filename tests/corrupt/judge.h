/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and repairs of a rig's image, and what may be different afterwards. For processes that end with the first failure. */
#ifndef JUDGE_H
#define JUDGE_H

#include "corrupt/world.h"

#define JUDGE_BAD 1 /* exit status */

extern char *judge_words; /* of the last check or repair, for a failure */

/* Tells what is wrong, and what the checker said, and ends the process. */
__attribute__((format(printf, 1, 2))) _Noreturn void judge_bad(const char *format, ...);
/* One check without repair: the number of problems, or -1 when the image can not be opened. */
int64_t judge_check(struct rig *rig);
/* *fsck keeps its report. A failure is one of the test unless it was asked for. 0 or a negative code. */
int judge_repair(struct rig *rig, struct g4_fsck *fsck, uint64_t stop_at_write);
/* Did one of these repairs say that something may have happened to this inode? */
bool judge_is_reported(const struct g4_fsck *reports, uint32_t count, uint64_t ino);
bool judge_is_same(const struct world_file *a, const struct world_file *b);
/* The same inode: where it was, else in lost+found, else anywhere; NULL: it is gone. */
const struct world_file *judge_find(const struct world_list *list, const struct world_file *wanted);

#endif
