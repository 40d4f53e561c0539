/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lies on the disks of a set is spread over them while it is mounted: a job. What is moved where is the set's
 * (space/set_spread_host.c), which is told what is in use; the record only shows it. Leader, with jobs->owner.
 */
#ifndef G4_REBALANCE_H
#define G4_REBALANCE_H

#include "fs/command.h"
#include "inode/mounted.h"

/* As g4_scrub_step(). */
G4_FN int g4_rebalance_step(struct g4_wg *wg, struct g4_fs *fs, struct g4_job_record *record);
/*
 * Of `most` pages from there on, which the set has said come next: some are moved, and order->done tells how much, order->bytes what was copied:
 * what is not in use goes without a copy.
 */
G4_FN int g4_rebalance_move(struct g4_wg *wg, struct g4_fs *fs, uint64_t page, uint64_t most,
			    struct g4_dev_order *order);
/* What a step has lent to the set and could not take back then is taken back. False: a request may be meant for it still, later. */
G4_FN bool g4_rebalance_take_back(struct g4_wg *wg, struct g4_fs *fs);
/* The command DISK with REBALANCE: whether it can be done, else a sentence in the command's memory; and the record's numbers. */
G4_FN int g4_rebalance_order(struct g4_wg *wg, struct g4_fs *fs, struct g4_cmd *cmd, struct g4_job_record *record);

#endif
