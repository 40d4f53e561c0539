/* SPDX-License-Identifier: Apache-2.0 */
/* The region in which all lanes make sums, and compare them. */
#ifndef G4_DATA_SUMS_REGION_H
#define G4_DATA_SUMS_REGION_H

#include "data/sums.h"
#include "hash/sums.h"

struct g4_sums_job { /* in scratch memory */
	uint32_t algorithm, count;
	const void *pages[G4_SUMS_AT_ONCE];
	struct g4_sum sums[G4_SUMS_AT_ONCE];
	const struct g4_sum_entry *expected; /* in memory that all lanes reach; NULL: sums are made, by `algorithm` */
	const uint8_t *row; /* NULL: `pages` says where they are; else `count` pages in a row, which may be more */
	uint32_t differ, unknown;	     /* as of g4_sums_compare(); of a row: not 0 where any page has a bit */
	uint8_t algorithms[G4_SUMS_AT_ONCE]; /* of what is expected */
	union g4_page_sums_scratch scratch;
};

/* Collective; args: a job. */
G4_FN void g4_sums_region(struct g4_wg *wg, void *args);

#endif
