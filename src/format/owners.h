/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of data with several owners, on disk: FORMAT.md, "Owners". */
#ifndef G4_OWNERS_H
#define G4_OWNERS_H

#include "format/format.h"

/* Pages with several owners: those of a region that has any lead to a page of counts. */
struct g4_shares_page {
	struct g4_block_header header;
	g4_le64 group;
	uint8_t reserved[24];
	g4_le64 owners[G4_GROUP_REGIONS]; /* addresses of struct g4_owners_page; 0: none in the region is shared */
	uint8_t reserved2[3784];
};
G4_STATIC_ASSERT(sizeof(struct g4_shares_page) == 4096, "shares of a group");
struct g4_owners_page {
	struct g4_block_header header;
	g4_le64 region;
	g4_le32 shared; /* counts that are not 0; never 0 itself */
	uint8_t reserved[20];
	g4_le32 more[G4_REGION_PAGES]; /* how many owners a page has beyond the first */
	uint8_t reserved2[1984];
};
G4_STATIC_ASSERT(sizeof(struct g4_owners_page) == 4096, "owners of a region's pages");

G4_FN int g4_shares_page_validate(const struct g4_shares_page *page, uint64_t group, const struct g4_layout *layout);
G4_FN int g4_owners_page_validate(const struct g4_owners_page *page, uint64_t region);

#endif
