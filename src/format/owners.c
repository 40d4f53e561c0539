/* SPDX-License-Identifier: Apache-2.0 */
#include "format/owners.h"
#include "base/error.h"
#include "format/layout.h"
#include "format/sums.h"

/* 0, or a page that the allocator may have given away. */
G4_FN static bool is_metadata_or_none(uint64_t address, const struct g4_layout *layout)
{
	return address == 0 ||
	       (address % G4_PAGE_BYTES == 0 && address >= layout->data_address && address < g4_layout_end(layout));
}

G4_FN int g4_shares_page_validate(const struct g4_shares_page *page, uint64_t group, const struct g4_layout *layout)
{
	if (page->group != group || !is_metadata_or_none(page->buffered, layout))
		return -G4_E_CORRUPT_ALLOC;
	for (uint32_t region = 0; region < G4_GROUP_REGIONS; region++) {
		if (!is_metadata_or_none(page->owners[region], layout))
			return -G4_E_CORRUPT_ALLOC;
		for (uint32_t quarter = 0; quarter < G4_LISTING_QUARTERS; quarter++)
			if (!is_metadata_or_none(page->listings[region][quarter], layout) ||
			    (page->listings[region][quarter] == 0 && g4_listed_any(page, region, quarter)))
				return -G4_E_CORRUPT_ALLOC;
	}
	return 0;
}

G4_FN int g4_owners_page_validate(const struct g4_owners_page *page, uint64_t region)
{
	uint32_t shared = 0;

	for (uint32_t i = 0; i < G4_REGION_PAGES; i++)
		shared += page->more[i] != 0;
	return page->region != region || page->shared != shared ? -G4_E_CORRUPT_ALLOC : 0;
}

G4_FN int g4_buffered_page_validate(const struct g4_buffered_page *page, uint64_t group)
{
	if (page->group != group || page->count > G4_BUFFERED_MOST)
		return -G4_E_CORRUPT_ALLOC;
	for (uint32_t k = 0; k < page->count; k++)
		if (page->pages[k] >= G4_GROUP_PAGES)
			return -G4_E_CORRUPT_ALLOC;
	return 0;
}

G4_FN bool g4_buffered_bits(const struct g4_buffered_page *page, uint32_t region, uint64_t bits[G4_REGION_WORDS])
{
	bool any = false;

	memset(bits, 0, G4_REGION_WORDS * sizeof(*bits));
	for (uint32_t k = 0; k < page->count; k++) {
		const uint32_t at = page->pages[k] - region * G4_REGION_PAGES;
		if (at >= G4_REGION_PAGES)
			continue;
		bits[at / 64] |= UINT64_C(1) << at % 64;
		any = true;
	}
	return any;
}

G4_FN uint32_t g4_buffered_most(const struct g4_buffered_page *page)
{
	uint16_t counts[G4_GROUP_REGIONS];
	uint32_t most = 0;

	memset(counts, 0, sizeof(counts));
	for (uint32_t k = 0; k < page->count; k++) {
		const uint32_t region = page->pages[k] / G4_REGION_PAGES;
		counts[region]++;
		most = counts[region] > counts[most] ? region : most;
	}
	return most;
}

G4_FN int g4_listing_page_validate(const struct g4_listing_page *page, uint64_t region, uint32_t quarter)
{
	return page->region != region || page->quarter != quarter ? -G4_E_CORRUPT_ALLOC : 0;
}

G4_FN uint8_t g4_listing_since(struct g4_listing_page *page, uint32_t today)
{
	if (today <= page->day) /* the clock was set back: rather too young */
		return 0;
	if (today - page->day > G4_LISTING_SINCE_MOST) {
		const uint32_t moved = today - G4_LISTING_SINCE_MOST - page->day;

		page->day += moved;
		for (uint32_t pair = 0; pair < G4_LISTING_PAIRS; pair++)
			page->since[pair] = (uint8_t)(page->since[pair] - g4_min64(moved, page->since[pair]));
	}
	return (uint8_t)(today - page->day);
}

/* Alike in every bit, and different for different words. */
G4_FN static uint64_t mix(uint64_t word)
{
	word = (word ^ word >> 33) * UINT64_C(0xff51afd7ed558ccd);
	word = (word ^ word >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return word ^ word >> 33;
}

G4_FN struct g4_listing_key g4_listing_key(const struct g4_sum_entry *sum, uint64_t domain)
{
	const uint32_t algorithm = g4_sum_entry_algorithm(sum);
	struct g4_listing_key key;
	uint64_t words[4];

	memcpy(words, sum, sizeof(words));
	if (algorithm != G4_CHECKSUM_BLAKE3) {
		words[0] = mix(words[0] ^ algorithm);
		words[1] = mix(words[1] ^ words[0]);
		words[2] = 0;
		words[3] = algorithm;
	}
	words[0] ^= domain * UINT64_C(0x9e3779b97f4a7c15);
	words[1] ^= domain * UINT64_C(0xc2b2ae3d27d4eb4f);
	words[2] ^= domain;
	memcpy(key.bytes, words, sizeof(words));
	return key;
}

G4_FN uint32_t g4_listing_algorithm(const uint8_t *listed)
{
	uint64_t word = 0;

	memcpy(&word, listed + 24, G4_LISTING_SUM_BYTES - 24);
	return word == G4_CHECKSUM_CRC32C || word == G4_CHECKSUM_XXH3 ? (uint32_t)word : G4_CHECKSUM_BLAKE3;
}

G4_FN bool g4_listing_is_of(const uint8_t *listed, const struct g4_sum_entry *sum, uint64_t most)
{
	const struct g4_listing_key plain = g4_listing_key(sum, 0);
	uint64_t words[3], of[3];

	memcpy(words, listed, sizeof(words));
	memcpy(of, plain.bytes, sizeof(of));
	const uint64_t domain = words[2] ^ of[2];
	const struct g4_listing_key key = g4_listing_key(sum, domain);

	return domain <= most && g4_bytes_equal(key.bytes, listed, G4_LISTING_SUM_BYTES);
}
