/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many pages in the table of contents at a time (dedup/table.h), by all lanes: each waits for memory by itself, and the leader for the slowest of
 * them alone. On a processor, whose workgroup is one thread, all buckets are on their way before the first is looked at.
 */
#ifndef G4_DATA_HINTS_H
#define G4_DATA_HINTS_H

#include "data/batch.h"

/* Of a batch's pages, a bit each: those of which the table says where one like it lies, and those of which nothing is known. */
struct g4_hints_seen {
	uint64_t hints[G4_BATCH_SUMS / 64], unknown[G4_BATCH_SUMS / 64];
};

struct g4_hints_job { /* in scratch memory */
	struct g4_fs *fs;
	const struct g4_sum_entry *sums;
	uint64_t domain;
	uint32_t count;
	/* what is looked for */
	uint64_t *found;	      /* NULL: hints are made */
	const struct g4_batch *batch; /* NULL: no page is looked at */
	uint32_t first;		      /* of the batch's pages */
	bool late;		      /* those alone of which nothing is known, none of which is zeros */
	bool same;		      /* those of which nothing is known, among themselves */
	struct g4_hints_seen seen;    /* of what was looked at */
	/* what is made */
	struct g4_address address;
	uint64_t *others; /* in: what was found before; out: what has come since, and has gone for it; NULL */
	const struct g4_listing_page *listing; /* NULL: of `sums`; else of what a quarter lists, from `address` on, */
	uint64_t bits[G4_LISTING_PAGES / 64];  /* these pages, as what was asked for */
};

/* Collective; args: a job. */
G4_FN void g4_hints_region(struct g4_wg *wg, void *args);

/*
 * Leader. What is known of the batch's pages from `first` on: zeros, where the table says that such a page lies, or nothing; *seen. `late`: of those alone of
 * which nothing was known.
 */
G4_FN void g4_hints_look(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch, uint32_t first, bool late,
			 struct g4_hints_seen *seen);
/*
 * Leader. Of the batch's pages from `first` on of which nothing is known: those that are like one before in the lists, by their sums, are known to be. The
 * others are what later ones are like.
 */
G4_FN void g4_hints_same(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch, uint32_t first);
/* Leader. Where the table says that pages with these sums lie in a domain, or 0. The sums and `found` lie in memory that all lanes reach. */
G4_FN void g4_hints_find(struct g4_wg *wg, struct g4_fs *fs, const struct g4_sum_entry *sums, uint64_t domain,
			 uint32_t count, uint64_t *found);
/*
 * Leader. Pages with these sums are listed in a domain from an address on. `others`, or NULL: what g4_hints_find() said of them; where the table has
 * heard of another such page since, that one, which was listed before, else 0.
 */
G4_FN void g4_hints_insert(struct g4_wg *wg, struct g4_fs *fs, const struct g4_sum_entry *sums, uint64_t domain,
			   uint32_t count, struct g4_address address, uint64_t *others);
/* Leader. What a quarter lists that begins at an address, as if it had been asked for. The page of sums is in memory that all lanes reach. */
G4_FN void g4_hints_bring(struct g4_wg *wg, struct g4_fs *fs, const uint64_t bits[G4_LISTING_PAGES / 64],
			  const struct g4_listing_page *listing, struct g4_address address);

#endif
