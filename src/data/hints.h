/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many pages in the table of contents at a time (dedup/table.h), by all lanes: each waits for memory by itself, and the leader for the slowest of
 * them alone. On a processor, whose workgroup is one thread, all buckets are on their way before the first is looked at.
 */
#ifndef G4_DATA_HINTS_H
#define G4_DATA_HINTS_H

#include "data/batch.h"

struct g4_hints_job { /* in scratch memory */
	struct g4_fs *fs;
	const struct g4_sum_entry *sums;
	uint64_t domain;
	uint32_t count;
	/* what is looked for */
	uint64_t *found;	      /* NULL: hints are made */
	const struct g4_batch *batch; /* NULL: no page is looked at */
	uint32_t first;		      /* of the batch's pages */
	bool same;		      /* those of which nothing is known, among themselves */
	/* what is made */
	struct g4_address address;
};

/* Collective; args: a job. */
G4_FN void g4_hints_region(struct g4_wg *wg, void *args);

/* Leader. What is known of the batch's pages from `first` on: zeros, where the table says that such a page lies, or nothing. */
G4_FN void g4_hints_look(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch, uint32_t first);
/*
 * Leader. Of the batch's pages from `first` on of which nothing is known: those that are like one before in the lists, by their sums, are known to be. The
 * others are what later ones are like.
 */
G4_FN void g4_hints_same(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch, uint32_t first);
/* Leader. Where the table says that pages with these sums lie in a domain, or 0. The sums and `found` lie in memory that all lanes reach. */
G4_FN void g4_hints_find(struct g4_wg *wg, struct g4_fs *fs, const struct g4_sum_entry *sums, uint64_t domain,
			 uint32_t count, uint64_t *found);
/* Leader. Pages with these sums are listed in a domain from an address on. */
G4_FN void g4_hints_insert(struct g4_wg *wg, struct g4_fs *fs, const struct g4_sum_entry *sums, uint64_t domain,
			   uint32_t count, struct g4_address address);

#endif
