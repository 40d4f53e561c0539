/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of all pages of sums is the sum of what each group has in `group_listings`, and of those that are being made. Of a group that was
 * not counted yet that is a bound, which a page that is made need not raise where it is the most that a group can have.
 *
 * Crash: all of it is made anew by the next mount.
 */
#include "alloc/quota.h"

#include "format/owners.h"

#define GROUP_MOST (G4_GROUP_REGIONS * G4_LISTING_QUARTERS)
G4_STATIC_ASSERT(GROUP_MOST <= UINT8_MAX, "a byte of group_listings");

G4_FN void g4_quota_set(struct g4_alloc *alloc, uint64_t bytes)
{
	(void)g4_xchg64(&alloc->listing_quota, bytes == 0 ? UINT64_MAX : bytes / G4_PAGE_BYTES);
}

G4_FN bool g4_quota_take(struct g4_alloc *alloc)
{
	for (;;) {
		const uint64_t quota = g4_load64_acq(&alloc->listing_quota);
		if (quota == UINT64_MAX) {
			g4_add64_rlx(&alloc->listing_pages, 1);
		} else {
			const uint64_t pages = g4_load64_acq(&alloc->listing_pages);
			if (pages >= quota)
				return false;
			if (!g4_cas64(&alloc->listing_pages, pages, pages + 1))
				continue;
		}
		if (g4_load64_acq(&alloc->listing_quota) == quota)
			return true;
		g4_quota_give(alloc); /* it has been changed meanwhile: the place was had by the old one */
	}
}

G4_FN void g4_quota_give(struct g4_alloc *alloc)
{
	g4_sub64(&alloc->listing_pages, 1);
}

G4_FN void g4_quota_took(struct g4_alloc *alloc, uint64_t group)
{
	const uint8_t before = g4_load8_rlx(&alloc->group_listings[group]);

	if (before < GROUP_MOST)
		g4_store8_rlx(&alloc->group_listings[group], (uint8_t)(before + 1));
	else /* the bound has it already */
		g4_quota_give(alloc);
}

G4_FN void g4_quota_freed(struct g4_alloc *alloc, uint64_t group)
{
	const uint8_t before = g4_load8_rlx(&alloc->group_listings[group]);

	if (before == 0) /* of a hostile image, whose descriptor says that all is free */
		return;
	g4_store8_rlx(&alloc->group_listings[group], (uint8_t)(before - 1));
	g4_quota_give(alloc);
}

G4_FN void g4_quota_counted(struct g4_alloc *alloc, uint64_t group, uint32_t count)
{
	const uint64_t before = g4_load8_rlx(&alloc->group_listings[group]);

	g4_store8_rlx(&alloc->group_listings[group], (uint8_t)count);
	if (count > before)
		g4_add64(&alloc->listing_pages, count - before);
	else
		g4_sub64(&alloc->listing_pages, before - count);
}
