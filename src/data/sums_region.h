/* SPDX-License-Identifier: Apache-2.0 */
/* The region in which all lanes make sums. */
#ifndef G4_DATA_SUMS_REGION_H
#define G4_DATA_SUMS_REGION_H

#include "data/sums.h"
#include "hash/sums.h"

struct g4_sums_job { /* in scratch memory */
	uint32_t algorithm, count;
	const void *pages[G4_SUMS_AT_ONCE];
	struct g4_sum sums[G4_SUMS_AT_ONCE];
	union g4_page_sums_room room;
};

/* Collective; args: a job. */
G4_FN void g4_sums_region(struct g4_wg *wg, void *args);

#endif
