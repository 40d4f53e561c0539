/* SPDX-License-Identifier: Apache-2.0 */
#include "format/sums.h"

#define DISTANCE_BITS 40

G4_FN struct g4_address g4_sums_place(const struct g4_sums_places *places, struct g4_address address, uint32_t quarter)
{
	const uint8_t *bytes = places->distance[quarter];
	uint64_t distance = 0;

	for (uint32_t i = 0; i < sizeof(places->distance[0]); i++)
		distance |= (uint64_t)bytes[i] << (8 * i);
	if (distance == 0)
		return G4_NO_ADDRESS;
	if (distance >> (DISTANCE_BITS - 1))
		distance |= ~UINT64_C(0) << DISTANCE_BITS;
	return g4_address_after_pages(address, distance);
}

G4_FN bool g4_sums_set_place(struct g4_sums_places *places, struct g4_address address, uint32_t quarter,
			     struct g4_address to)
{
	const int64_t distance =
		g4_address_is_none(to) ? 0 : (int64_t)g4_address_page(to) - (int64_t)g4_address_page(address);
	const int64_t limit = INT64_C(1) << (DISTANCE_BITS - 1);

	if (distance < -limit || distance >= limit)
		return false;
	for (uint32_t i = 0; i < sizeof(places->distance[0]); i++)
		places->distance[quarter][i] = (uint8_t)((uint64_t)distance >> (8 * i));
	return true;
}

/* Half a byte of the header is the top half of the last byte of an entry; the low half comes first. */
G4_FN uint8_t g4_sums_header_byte(const struct g4_sums_page *page, uint32_t n)
{
	return (uint8_t)(page->entries[2 * n].bytes[31] >> 4 | (page->entries[2 * n + 1].bytes[31] & 0xf0));
}

G4_FN void g4_sums_set_header_byte(struct g4_sums_page *page, uint32_t n, uint8_t value)
{
	uint8_t *low = &page->entries[2 * n].bytes[31], *high = &page->entries[2 * n + 1].bytes[31];

	*low = (uint8_t)((*low & 0x0f) | value << 4);
	*high = (uint8_t)((*high & 0x0f) | (value & 0xf0));
}

G4_FN void g4_sums_embed(struct g4_sums_page *page, const struct g4_sums_header *header)
{
	for (uint32_t n = 0; n < sizeof(*header); n++)
		g4_sums_set_header_byte(page, n, ((const uint8_t *)header)[n]);
}

G4_FN void g4_sums_extract(const struct g4_sums_page *page, struct g4_sums_header *header)
{
	for (uint32_t n = 0; n < sizeof(*header); n++)
		((uint8_t *)header)[n] = g4_sums_header_byte(page, n);
}

G4_FN void g4_sums_strip(struct g4_sums_page *page)
{
	for (uint32_t n = 0; n < sizeof(struct g4_sums_header); n++)
		g4_sums_set_header_byte(page, n, 0);
}

#define BLAKE3_BIT 251
#define KIND_BIT 243
#define LOST_KIND 254u
#define LARGE_KIND 255u
#define PLACE_BITS 51u
#define HASH_BITS 48u
G4_STATIC_ASSERT(PLACE_BITS + G4_SUMS_QUARTERS * HASH_BITS == KIND_BIT, "all of an entry");

/* Up to 64 bits of an entry from some bit on. */
G4_FN static uint64_t get_bits(const struct g4_sum_entry *entry, uint32_t first, uint32_t count)
{
	uint64_t value = entry->words[first / 64] >> (first % 64);

	if (first % 64 + count > 64)
		value |= entry->words[first / 64 + 1] << (64 - first % 64);
	return value & ((UINT64_C(1) << count) - 1);
}

G4_FN static void put_bits(struct g4_sum_entry *entry, uint32_t first, uint32_t count, uint64_t value)
{
	const uint64_t mask = (UINT64_C(1) << count) - 1;
	g4_le64 *words = entry->words;

	words[first / 64] = (words[first / 64] & ~(mask << (first % 64))) | (value & mask) << (first % 64);
	if (first % 64 + count > 64) {
		const uint32_t in = 64 - first % 64;
		words[first / 64 + 1] = (words[first / 64 + 1] & ~(mask >> in)) | (value & mask) >> in;
	}
}

G4_FN uint32_t g4_sum_entry_algorithm(const struct g4_sum_entry *entry)
{
	if (get_bits(entry, BLAKE3_BIT, 1))
		return G4_CHECKSUM_BLAKE3;
	switch (get_bits(entry, KIND_BIT, 8)) {
	case 0:
		return G4_CHECKSUM_NONE;
	case 1:
		return G4_CHECKSUM_CRC32C;
	case 2:
		return G4_CHECKSUM_XXH3;
	case LOST_KIND:
		return G4_CHECKSUM_LOST;
	case LARGE_KIND:
		return G4_CHECKSUM_LARGE;
	default:
		return G4_CHECKSUM_UNKNOWN;
	}
}

G4_FN void g4_sum_entry_make_lost(struct g4_sum_entry *entry)
{
	memset(entry, 0, sizeof(*entry));
	put_bits(entry, KIND_BIT, 8, LOST_KIND);
}

G4_FN void g4_sum_entry_make_large(struct g4_sum_entry *entry, struct g4_address address, const uint64_t *hashes)
{
	memset(entry, 0, sizeof(*entry));
	put_bits(entry, 0, PLACE_BITS, g4_address_page(address));
	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++)
		put_bits(entry, PLACE_BITS + quarter * HASH_BITS, HASH_BITS, hashes[quarter]);
	put_bits(entry, KIND_BIT, 8, LARGE_KIND);
}

G4_FN struct g4_address g4_sum_entry_place(const struct g4_sum_entry *entry)
{
	return g4_page_address(get_bits(entry, 0, PLACE_BITS));
}

G4_FN uint64_t g4_sum_entry_hash(const struct g4_sum_entry *entry, uint32_t quarter)
{
	return get_bits(entry, PLACE_BITS + quarter * HASH_BITS, HASH_BITS);
}

G4_FN void g4_sum_entry_drop_place(struct g4_sum_entry *entry)
{
	put_bits(entry, 0, PLACE_BITS, 0);
}
