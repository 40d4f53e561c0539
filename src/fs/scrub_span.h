/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of a file that several workgroups look at for a scrub. Leader. */
#ifndef G4_SCRUB_SPAN_H
#define G4_SCRUB_SPAN_H

#include "fs/scrub_look.h"

/*
 * Some pages from `page` on, no further than `end`, and no more than `most` with contents; how many were done, holes included. -1: what
 * leads to them can not be had.
 */
G4_FN int64_t g4_scrub_some(struct g4_scrub_step *step, const struct g4_inode_core *inode, uint64_t page, uint64_t end,
			    uint64_t most);
/*
 * Owner, the inode locked. As many pages from `page` on as the helpers are worth, where the file has so many; 0: it is too little to
 * be shared, or nobody helps.
 */
G4_FN uint64_t g4_scrub_share(struct g4_scrub_step *step, uint32_t index, uint64_t page);
/* For workgroups that have nothing else to do and are in no operation: a piece of that. False: there was none. */
G4_FN bool g4_scrub_help(struct g4_wg *wg, struct g4_fs *fs);
/* Whether there may be one: one look, without order, by any lane. */
G4_FN G4_INLINE bool g4_scrub_calls(const struct g4_fs *fs)
{
	return g4_task_is_open(&fs->jobs.scrub.span.task);
}

#endif
