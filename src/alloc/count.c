/* SPDX-License-Identifier: Apache-2.0 */
/* What of a range of pages nobody has, for who copies all of it (alloc.h, "memory view"). Nothing is claimed: it is true when it is asked. */
#include "alloc/alloc.h"

/* Whether a page that one word of the view has is claimed, between two pages of it. */
G4_FN static bool has_any(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t page, uint64_t end)
{
	const uint64_t mask = (end - page == 64 ? ~UINT64_C(0) : (UINT64_C(1) << (end - page)) - 1) << page % 64;

	if (page / G4_REGION_PAGES >= g4_load64_acq(&alloc->region_count))
		return false;
	if (g4_alloc_in_use(wg, alloc, g4_page_address(page)) != 0) /* or its group's map can not be read */
		return true;
	return (g4_load64_acq(&alloc->used[page / 64]) & mask) != 0;
}

G4_FN uint64_t g4_alloc_count(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t page, uint64_t most, bool used)
{
	const uint64_t end = page + most;
	uint64_t at = page;

	while (at < end) {
		const uint64_t next = g4_min64(g4_align_down(at, 64) + 64, end);
		if (has_any(wg, alloc, at, next) != used)
			break;
		at = next;
	}
	return at - page;
}
