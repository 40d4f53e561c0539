/* SPDX-License-Identifier: Apache-2.0 */
/* A GUID partition table on a device, made by hand: a protective MBR, three partitions, and the backup at the end. */
#ifndef G4_TEST_GPT_TABLE_H
#define G4_TEST_GPT_TABLE_H

#include <string.h>

#include "dev/dev_host.h"

#define TABLE_ENTRIES 4u
#define TABLE_ENTRY_BYTES 128u

struct gpt_table {
	uint64_t blocks;
	uint32_t block_bytes;
	uint8_t *first, *last; /* blocks 0 to 2, and the last two; 4096 bytes each at most */
};

static inline uint32_t table_crc(const uint8_t *from, uint64_t bytes)
{
	uint32_t crc = UINT32_MAX;

	for (uint64_t i = 0; i < bytes; i++) {
		crc ^= from[i];
		for (uint32_t bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
	}
	return ~crc;
}

static inline void put64(uint8_t *at, uint64_t value)
{
	memcpy(at, &value, 8);
}
static inline void put32(uint8_t *at, uint32_t value)
{
	memcpy(at, &value, 4);
}

/* Checksums of a header and its entries, after they were changed. */
static inline void table_seal(uint8_t *header, const uint8_t *entries)
{
	put32(header + 88, table_crc(entries, TABLE_ENTRIES * TABLE_ENTRY_BYTES));
	put32(header + 16, 0);
	put32(header + 16, table_crc(header, 92));
}

static inline void table_header(uint8_t *h, uint64_t own, uint64_t other, uint64_t blocks, uint64_t entries_block)
{
	memcpy(h, "EFI PART", 8);
	put32(h + 8, 0x10000);
	put32(h + 12, 92);
	put64(h + 24, own);
	put64(h + 32, other);
	put64(h + 40, 3);
	put64(h + 48, blocks - 3);
	put64(h + 72, entries_block);
	put32(h + 80, TABLE_ENTRIES);
	put32(h + 84, TABLE_ENTRY_BYTES);
}

static inline void table_entry(uint8_t *entries, uint32_t number, uint64_t first, uint64_t last)
{
	uint8_t *at = entries + (number - 1) * TABLE_ENTRY_BYTES;

	memset(at, 0x11 * (int)number, 32);
	put64(at + 32, first);
	put64(at + 40, last);
}

/* Partitions 1 (16 blocks from 8), 2 (256 from 64), 4 (to the last usable block); 3 is unused. `memory`: 5 blocks, zeroed. */
static inline struct gpt_table table_make(uint8_t *memory, uint64_t blocks, uint32_t block_bytes)
{
	struct gpt_table t = {blocks, block_bytes, memory, memory + 3 * (uint64_t)block_bytes};
	uint8_t *entries = memory + 2 * (uint64_t)block_bytes;

	memory[446 + 4] = 0xee;
	memory[510] = 0x55;
	memory[511] = 0xaa;
	table_entry(entries, 1, 8, 23);
	table_entry(entries, 2, 64, 319);
	table_entry(entries, 4, 512, blocks - 3);
	table_header(memory + block_bytes, 1, blocks - 1, blocks, 2);
	table_seal(memory + block_bytes, entries);
	memcpy(t.last, entries, block_bytes);
	table_header(t.last + block_bytes, blocks - 1, 1, blocks, blocks - 2);
	table_seal(t.last + block_bytes, entries);
	return t;
}

static inline int table_write(const struct gpt_table *t, struct g4_dev *dev)
{
	const int rc = g4_dev_write(NULL, dev, 0, t->first, 3 * (uint64_t)t->block_bytes, 0);

	return rc < 0 ? rc :
			g4_dev_write(NULL, dev, (t->blocks - 2) * t->block_bytes, t->last, 2 * (uint64_t)t->block_bytes,
				     0);
}

#endif
