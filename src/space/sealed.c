/* SPDX-License-Identifier: Apache-2.0 */
/* Sealing and verifying pages with a block header: at their beginning, or in the spare bits of their entries. */
#include "space/sealed.h"

#include "format/sums.h"
#include "hash/crc32c.h"

G4_STATIC_ASSERT(offsetof(struct g4_block_header, crc32c) == G4_CRC32C_FIELD, "where the checksum stands");

/*
 * The one thing in a page that is not linear, so that a sum of pages, which parity may make, is no page: the CRC of a sum is right (FORMAT.md, "Block
 * header"). The upper 16 bits of SplitMix64's mix (Steele, Lea and Flood, 2014).
 */
G4_FN static uint16_t check_of(struct g4_address address, uint64_t generation)
{
	uint64_t mixed = g4_address_stored(address) * UINT64_C(0x9e3779b97f4a7c15) + generation;

	mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
	return (uint16_t)g4_max64(mixed >> 48, 1);
}

G4_FN void g4_block_fill(struct g4_block_header *header, uint32_t type, struct g4_address address, uint64_t generation,
			 uint32_t fs_tag)
{
	header->magic = G4_BLOCK_MAGIC;
	header->type = (uint16_t)type;
	header->check = check_of(address, generation);
	header->crc32c = 0;
	header->fs_tag = fs_tag;
	header->address = g4_address_stored(address);
	header->generation = generation;
}

G4_FN void g4_block_seal(void *page, uint32_t type, struct g4_address address, uint64_t generation, uint32_t fs_tag)
{
	struct g4_block_header *header = (struct g4_block_header *)page;

	g4_block_fill(header, type, address, generation, fs_tag);
	header->crc32c = g4_crc32c(0, page, G4_PAGE_BYTES);
}

G4_FN int g4_block_check(const struct g4_block_header *header, uint32_t type, struct g4_address address,
			 uint32_t fs_tag)
{
	if (header->magic != G4_BLOCK_MAGIC || header->fs_tag != fs_tag)
		return -G4_E_CHECKSUM;
	if (header->type != type)
		return -G4_E_TYPE;
	if (header->address != g4_address_stored(address))
		return -G4_E_MISDIRECTED;
	return header->check == 0 || header->check == check_of(address, header->generation) ? 0 : -G4_E_CHECKSUM;
}

G4_FN int g4_block_verify(const void *page, uint32_t type, struct g4_address address, uint32_t fs_tag)
{
	const struct g4_block_header *header = (const struct g4_block_header *)page;
	struct g4_block_header zeroed = *header;
	uint32_t crc;

	zeroed.crc32c = 0;
	crc = g4_crc32c(0, &zeroed, sizeof(zeroed));
	crc = g4_crc32c(crc, (const uint8_t *)page + sizeof(zeroed), G4_PAGE_BYTES - sizeof(zeroed));
	if (header->magic != G4_BLOCK_MAGIC || crc != header->crc32c)
		return -G4_E_CHECKSUM;
	return g4_block_check(header, type, address, fs_tag);
}

G4_FN void g4_indirect_seal(void *page, uint64_t inode, uint32_t level, struct g4_address address, uint64_t generation,
			    uint32_t fs_tag)
{
	struct g4_indirect_header header, before;

	g4_indirect_extract((const g4_le64 *)page, &before);
	memset(&header, 0, sizeof(header));
	g4_block_fill(&header.header, G4_BLOCK_INDIRECT, address, generation, fs_tag);
	header.sums = before.sums;
	memcpy(header.below, before.below, sizeof(header.below));
	header.inode = inode;
	header.level = (uint8_t)level;
	g4_indirect_embed((g4_le64 *)page, &header);
	header.header.crc32c = g4_crc32c(0, page, G4_PAGE_BYTES);
	g4_indirect_strip((g4_le64 *)page);
	g4_indirect_embed((g4_le64 *)page, &header);
}

G4_FN void g4_sums_seal(struct g4_sums_page *page, uint64_t inode, uint32_t level, uint32_t quarter,
			struct g4_address address, uint64_t generation, uint32_t fs_tag)
{
	struct g4_sums_header header;

	memset(&header, 0, sizeof(header));
	g4_block_fill(&header.header, G4_BLOCK_CHECKSUMS, address, generation, fs_tag);
	header.inode = inode;
	header.level = level;
	header.quarter = quarter;
	g4_sums_embed(page, &header);
	header.header.crc32c = g4_crc32c(0, page, G4_PAGE_BYTES);
	g4_sums_embed(page, &header);
}

G4_FN int g4_indirect_verify(void *page, struct g4_address address, uint32_t fs_tag, struct g4_indirect_header *header)
{
	struct g4_indirect_header zeroed;
	uint32_t crc;

	g4_indirect_extract((const g4_le64 *)page, header);
	zeroed = *header;
	zeroed.header.crc32c = 0;
	g4_indirect_strip((g4_le64 *)page);
	g4_indirect_embed((g4_le64 *)page, &zeroed);
	crc = g4_crc32c(0, page, G4_PAGE_BYTES);
	g4_indirect_strip((g4_le64 *)page);
	if (crc != header->header.crc32c)
		return -G4_E_CHECKSUM;
	return g4_block_check(&header->header, G4_BLOCK_INDIRECT, address, fs_tag);
}

G4_FN int g4_sums_verify(struct g4_sums_page *page, struct g4_address address, uint32_t fs_tag,
			 struct g4_sums_header *header)
{
	struct g4_sums_header zeroed;
	uint32_t crc;

	g4_sums_extract(page, header);
	zeroed = *header;
	zeroed.header.crc32c = 0;
	g4_sums_embed(page, &zeroed);
	crc = g4_crc32c(0, page, G4_PAGE_BYTES);
	g4_sums_strip(page);
	if (crc != header->header.crc32c)
		return -G4_E_CHECKSUM;
	return g4_block_check(&header->header, G4_BLOCK_CHECKSUMS, address, fs_tag);
}

G4_FN bool g4_block_is_whole(void *page, struct g4_address address, uint32_t fs_tag, uint64_t *generation)
{
	const struct g4_block_header header = *(const struct g4_block_header *)page;
	struct g4_indirect_header indirect;
	struct g4_sums_header sums;

	*generation = header.generation;
	if (g4_block_verify(page, header.type, address, fs_tag) == 0)
		return true;
	g4_sums_extract((const struct g4_sums_page *)page, &sums);
	*generation = sums.header.generation;
	if (sums.header.magic == G4_BLOCK_MAGIC &&
	    g4_sums_verify((struct g4_sums_page *)page, address, fs_tag, &sums) == 0)
		return true;
	const bool whole = g4_indirect_verify(page, address, fs_tag, &indirect) == 0;
	*generation = indirect.header.generation;
	return whole;
}

G4_FN uint64_t g4_block_generation(void *page, struct g4_address address, uint32_t fs_tag)
{
	uint64_t generation;

	return g4_block_is_whole(page, address, fs_tag, &generation) ? generation : 0;
}
