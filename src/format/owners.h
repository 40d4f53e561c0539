/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of data that have several owners, or may get them, on disk: FORMAT.md, "Owners" and "Listed pages". */
#ifndef G4_OWNERS_H
#define G4_OWNERS_H

#include "format/format.h"

#define G4_LISTING_PAGES 128u /* of a quarter of a region */
#define G4_LISTING_QUARTERS (G4_REGION_PAGES / G4_LISTING_PAGES)
#define G4_LISTING_SUM_BYTES 31u
#define G4_LISTING_PAIRS (G4_LISTING_PAGES / 2)
#define G4_LISTING_SINCE_MOST UINT8_MAX

/*
 * Pages with several owners: those of a region that has any lead to a page of counts. And those that others may find by their
 * contents, with the feature LISTED.
 */
struct g4_shares_page {
	struct g4_block_header header;
	g4_le64 group;
	uint8_t reserved[24];
	g4_le64 owners[G4_GROUP_REGIONS]; /* addresses of struct g4_owners_page; 0: none in the region is shared */
	/* addresses of struct g4_listing_page; 0: none in the quarter is listed */
	g4_le64 listings[G4_GROUP_REGIONS][G4_LISTING_QUARTERS];
	g4_le64 listed[G4_GROUP_REGIONS][G4_REGION_PAGES / 64]; /* a bit a page, as in struct g4_region */
	g4_le64 buffered; /* address of struct g4_buffered_page; 0: none. With the feature BUFFERED */
	/* how many owners all pages of a region have beyond the first, and beyond other counts. With the feature WHOLE */
	g4_le32 whole[G4_GROUP_REGIONS];
	uint8_t reserved2[676];
};
G4_STATIC_ASSERT(sizeof(struct g4_shares_page) == 4096, "shares of a group");
G4_STATIC_ASSERT(offsetof(struct g4_shares_page, listed) == 1304, "shares of a group");
G4_STATIC_ASSERT(offsetof(struct g4_shares_page, whole) == 3296, "shares of a group");
struct g4_owners_page {
	struct g4_block_header header;
	g4_le64 region;
	g4_le32 shared; /* counts that are not 0; never 0 itself */
	uint8_t reserved[20];
	g4_le32 more[G4_REGION_PAGES]; /* how many owners a page has beyond the first */
	uint8_t reserved2[1984];
};
G4_STATIC_ASSERT(sizeof(struct g4_owners_page) == 4096, "owners of a region's pages");

/*
 * Owners that are not counted in the pages of counts yet, of a group: each entry is the number of a page in the group that has one more than
 * is counted there. In any order; a page may be there several times.
 */
#define G4_BUFFERED_MOST 2016u
struct g4_buffered_page {
	struct g4_block_header header;
	g4_le64 group;
	g4_le32 count;
	uint8_t reserved[20];
	g4_le16 pages[G4_BUFFERED_MOST];
};
G4_STATIC_ASSERT(sizeof(struct g4_buffered_page) == 4096, "buffered owners of a group's pages");

/* The sums of listed pages. */
struct g4_listing_page {
	struct g4_block_header header;
	g4_le64 region;
	g4_le32 quarter; /* of the region */
	g4_le32 day;	 /* UTC, since 1970; 0: of a version that knows none */
	/* of each pair of pages: so many days behind `day` the younger one was listed; 0: on `day`, or before */
	uint8_t since[G4_LISTING_PAIRS];
	uint8_t reserved[16];
	uint8_t sums[G4_LISTING_PAGES][G4_LISTING_SUM_BYTES]; /* keys; of BLAKE3-256 the lower 248 bits */
};
G4_STATIC_ASSERT(sizeof(struct g4_listing_page) == 4096, "listing of a quarter of a region");
G4_STATIC_ASSERT(offsetof(struct g4_listing_page, since) == 48, "listing of a quarter of a region");

/* What `since` is for pages that are listed today; `day` moves where a byte is too small for that, and all bytes with it. */
G4_FN uint8_t g4_listing_since(struct g4_listing_page *page, uint32_t today);
/* The day at which page k was listed, or a later one; of what was listed longer ago than can be told the latest that it may be. */
G4_FN G4_INLINE uint64_t g4_listing_day(const struct g4_listing_page *page, uint32_t k)
{
	return (uint64_t)page->day + page->since[k / 2];
}

#define G4_DOMAIN_MOST UINT64_C(0xffffffff)

/*
 * What a page with this sum is listed with in a domain of deduplication; 0 is everybody's, in which it is the sum. So what is asked for in
 * one domain is not found in another, as if its contents were others, and a reader that knows both sums can tell the domain:
 * the third word of a
 * domain's constant is its number. The first two choose the place in the table of contents.
 */
struct g4_listing_key {
	uint8_t bytes[G4_LISTING_SUM_BYTES + 1]; /* the last one is the sum's */
};
/*
 * Of a sum that is no BLAKE3: 128 bits made of it, then zeros, then the kind that its entry says (FORMAT.md, "Listed pages"). It is a hint:
 * contents are the same when all bytes are.
 */
G4_FN struct g4_listing_key g4_listing_key(const struct g4_sum_entry *sum, uint64_t domain);
/* Whether pages with such a sum can be listed. */
G4_FN G4_INLINE bool g4_listing_takes(uint32_t algorithm)
{
	return algorithm == G4_CHECKSUM_BLAKE3 || algorithm == G4_CHECKSUM_CRC32C || algorithm == G4_CHECKSUM_XXH3;
}
/* What a listed page's sum is by: one of these. */
G4_FN uint32_t g4_listing_algorithm(const uint8_t *listed);
G4_STATIC_ASSERT(sizeof(struct g4_listing_key) == sizeof(struct g4_sum_entry),
		 "a key is a sum, and what does not count");
/* Whether a page that is listed so has this sum, in a domain up to `most`. */
G4_FN bool g4_listing_is_of(const uint8_t *listed, const struct g4_sum_entry *sum, uint64_t most);

/* Whether any page of a quarter is listed. */
G4_FN G4_INLINE bool g4_listed_any(const struct g4_shares_page *page, uint32_t region, uint32_t quarter)
{
	return (page->listed[region][2 * quarter] | page->listed[region][2 * quarter + 1]) != 0;
}
G4_FN G4_INLINE bool g4_listed(const struct g4_shares_page *page, uint32_t region, uint32_t at)
{
	return (page->listed[region][at / 64] >> at % 64 & 1) != 0;
}

G4_FN int g4_shares_page_validate(const struct g4_shares_page *page, uint64_t group, const struct g4_layout *layout);
G4_FN int g4_owners_page_validate(const struct g4_owners_page *page, uint64_t region);
G4_FN int g4_buffered_page_validate(const struct g4_buffered_page *page, uint64_t group);
/* Bits of the pages of a region that have buffered owners; whether there are any. */
#define G4_REGION_WORDS (G4_REGION_PAGES / 64)
G4_FN bool g4_buffered_bits(const struct g4_buffered_page *page, uint32_t region, uint64_t bits[G4_REGION_WORDS]);
/* The region that most of them are of. */
G4_FN uint32_t g4_buffered_most(const struct g4_buffered_page *page);
/* Takes the k-th out: the last one has its place then. */
G4_FN G4_INLINE void g4_buffered_take(struct g4_buffered_page *page, uint32_t k)
{
	page->pages[k] = page->pages[--page->count];
}
G4_FN int g4_listing_page_validate(const struct g4_listing_page *page, uint64_t region, uint32_t quarter);

#endif
