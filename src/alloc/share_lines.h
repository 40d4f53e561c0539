/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages of metadata that counts of owners and listed pages of a region are in, for share.c and share_place.c. Leader; the group's
 * lock is held from the first call to g4_shares_put_counts().
 */
#ifndef G4_SHARE_LINES_H
#define G4_SHARE_LINES_H

#include "alloc/alloc.h"
#include "format/owners.h"

/* The lines of what leads to the counts of a region, referenced; G4_NO_LINE: there is none. */
struct g4_shares_lines {
	uint64_t group;
	uint32_t region; /* of the group */
	uint32_t map, shares, owners, buffered;
	bool frees; /* what is made for it may be of the pages that are kept: others become free by it */
};

G4_FN G4_INLINE struct g4_lock *g4_shares_lock(struct g4_alloc *alloc, uint64_t group)
{
	return &alloc->share_locks[group % G4_SHARE_LOCKS];
}

G4_FN G4_INLINE struct g4_alloc_page *g4_shares_map(struct g4_alloc *alloc, const struct g4_shares_lines *c)
{
	return (struct g4_alloc_page *)g4_line_data(alloc->meta->cache, c->map);
}

G4_FN G4_INLINE struct g4_shares_page *g4_shares_of(struct g4_alloc *alloc, const struct g4_shares_lines *c)
{
	return (struct g4_shares_page *)g4_line_data(alloc->meta->cache, c->shares);
}

G4_FN G4_INLINE struct g4_owners_page *g4_shares_owners(struct g4_alloc *alloc, const struct g4_shares_lines *c)
{
	return (struct g4_owners_page *)g4_line_data(alloc->meta->cache, c->owners);
}

G4_FN G4_INLINE struct g4_buffered_page *g4_shares_buffered(struct g4_alloc *alloc, const struct g4_shares_lines *c)
{
	return (struct g4_buffered_page *)g4_line_data(alloc->meta->cache, c->buffered);
}

/* What leads to the counts of a region, and the listed pages. After an error nothing is referenced. */
G4_FN int g4_shares_get(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t region, struct g4_shares_lines *c);
/* The page of counts of c's region, if there is one, for which there is a page of shares; G4_NO_LINE after an error. */
G4_FN int g4_shares_get_owners(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_shares_lines *c);
/* Both, and the group's page of buffered owners. After an error nothing is referenced. */
G4_FN int g4_shares_get_counts(struct g4_wg *wg, struct g4_alloc *alloc, uint64_t region, struct g4_shares_lines *c);
/* Also behind one of them that has failed. */
G4_FN void g4_shares_put_counts(struct g4_alloc *alloc, struct g4_shares_lines *c);
/* One of them. */
G4_FN G4_INLINE void g4_shares_put(struct g4_alloc *alloc, uint32_t *line)
{
	if (*line != G4_NO_LINE)
		g4_cache_put(alloc->meta->cache, *line);
	*line = G4_NO_LINE;
}
/* Owners beyond the first that the group's page counts for a region. */
G4_FN G4_INLINE uint32_t g4_shares_whole(struct g4_alloc *alloc, const struct g4_shares_lines *c, uint32_t region)
{
	if (c->shares == G4_NO_LINE || !g4_load32_acq(&alloc->counts_regions)) /* without the feature it is reserved */
		return 0;
	return g4_shares_of(alloc, c)->whole[region];
}

#endif
