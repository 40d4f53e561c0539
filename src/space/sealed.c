/* SPDX-License-Identifier: Apache-2.0 */
/* Sealing and verifying pages that begin with a block header. */
#include "space/sealed.h"

#include "hash/crc32c.h"

G4_STATIC_ASSERT(offsetof(struct g4_block_header, crc32c) == G4_CRC32C_FIELD, "where the checksum stands");

G4_FN void g4_block_fill(struct g4_block_header *header, uint32_t type, struct g4_address address, uint64_t generation,
			 uint32_t fs_tag)
{
	header->magic = G4_BLOCK_MAGIC;
	header->type = (uint16_t)type;
	header->reserved = 0;
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
	return header->address == g4_address_stored(address) ? 0 : -G4_E_MISDIRECTED;
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
