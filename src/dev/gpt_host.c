/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GUID partition tables (gpt_host.h).
 *
 *     block 0        1         2 ...              first_usable ... last_usable    ... n - 2     n - 1
 *     protective MBR | header | entries           | partitions                    | entries    | backup header
 *
 * Anybody may have written what is read here: each number is checked before it is used, in blocks of the device, and nothing is added that
 * could overflow.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/log_host.h"
#include "dev/gpt_host.h"

#define SIGNATURE UINT64_C(0x5452415020494645) /* "EFI PART" */
#define REVISION_1 0x00010000u
#define ENTRY_LEAST 128u
#define TABLE_MOST_BYTES G4_MIB
#define PROTECTIVE 0xeeu

struct header {
	g4_le64 signature;
	g4_le32 revision, header_bytes, header_crc, reserved;
	g4_le64 own_block, other_block, first_usable, last_usable;
	uint8_t disk[16];
	g4_le64 entries_block;
	g4_le32 entry_count, entry_bytes, entries_crc, reserved2;
};
G4_STATIC_ASSERT(sizeof(struct header) == 96 && offsetof(struct header, entries_crc) == 88, "a header has 92 bytes");

struct entry {
	uint8_t type[16], unique[16];
	g4_le64 first, last; /* blocks, both belong to it */
	g4_le64 attributes;
};
G4_STATIC_ASSERT(sizeof(struct entry) == 56, "the name that follows is not looked at");

struct table {
	struct g4_dev *dev;
	uint32_t block_bytes;
	uint64_t blocks;
	uint8_t *memory; /* one block, or the entries */
	struct header header;
};

/* CRC-32 of ISO-HDLC, as UEFI has it; CRC-32C (hash/crc32c.h) is another one. */
static uint32_t crc32(uint32_t crc, const uint8_t *from, uint64_t bytes)
{
	crc = ~crc;
	for (uint64_t i = 0; i < bytes; i++) {
		crc ^= from[i];
		for (uint32_t bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

static bool read_blocks(const struct table *t, uint64_t block, uint64_t count)
{
	return g4_dev_read(NULL, t->dev, block * t->block_bytes, t->memory, count * t->block_bytes) == 0;
}

static bool is_unused(const struct entry *entry)
{
	static const uint8_t none[16];

	return memcmp(entry->type, none, sizeof(none)) == 0;
}

static struct entry entry_at(const struct table *t, uint32_t index)
{
	struct entry entry;

	memcpy(&entry, t->memory + (uint64_t)index * t->header.entry_bytes, sizeof(entry));
	return entry;
}

static bool has_protective_mbr(const struct table *t)
{
	if (!read_blocks(t, 0, 1) || t->memory[510] != 0x55 || t->memory[511] != 0xaa)
		return false;
	for (uint32_t i = 0; i < 4; i++)
		if (t->memory[446 + 16 * i + 4] == PROTECTIVE)
			return true;
	return false;
}

/* Reads the header in a block; NULL, or what is wrong with it. */
static const char *read_header(struct table *t, uint64_t block)
{
	struct header *h = &t->header;

	if (!read_blocks(t, block, 1))
		return "it can not be read";
	memcpy(h, t->memory, sizeof(*h));
	if (h->signature != SIGNATURE)
		return "it has no signature";
	if (h->revision < REVISION_1 || h->header_bytes < 92 || h->header_bytes > t->block_bytes)
		return "its header has another form";
	memset(t->memory + offsetof(struct header, header_crc), 0, sizeof(h->header_crc));
	if (crc32(0, t->memory, h->header_bytes) != h->header_crc)
		return "its header's checksum does not match";
	if (h->own_block != block)
		return "its header is another block's";
	if (h->entry_bytes < ENTRY_LEAST || (h->entry_bytes & (h->entry_bytes - 1)) || h->entry_count == 0 ||
	    h->entry_count > TABLE_MOST_BYTES / h->entry_bytes)
		return "it has entries of another form";
	if (h->first_usable > h->last_usable || h->last_usable >= t->blocks || h->first_usable < 2)
		return "its usable blocks are none";
	return NULL;
}

/* The same of the entries, which are in memory then. */
static const char *read_entries(struct table *t)
{
	const struct header *h = &t->header;
	const uint64_t bytes = (uint64_t)h->entry_count * h->entry_bytes;
	const uint64_t count = (bytes + t->block_bytes - 1) / t->block_bytes;

	if (h->entries_block < 2 || h->entries_block >= t->blocks || count > t->blocks - h->entries_block)
		return "its entries lie outside of the device";
	if (h->entries_block <= h->last_usable && h->entries_block + count > h->first_usable)
		return "its entries lie among the partitions";
	if (!read_blocks(t, h->entries_block, count))
		return "its entries can not be read";
	return crc32(0, t->memory, bytes) == h->entries_crc ? NULL : "its entries' checksum does not match";
}

static const char *check_entry(const struct table *t, uint32_t index)
{
	const struct entry entry = entry_at(t, index);

	if (entry.first > entry.last || entry.first < t->header.first_usable || entry.last > t->header.last_usable)
		return "a partition lies outside of the usable blocks";
	for (uint32_t i = 0; i < index; i++) {
		const struct entry other = entry_at(t, i);
		if (!is_unused(&other) && other.first <= entry.last && entry.first <= other.last)
			return "partitions overlap";
	}
	return NULL;
}

static const char *read_table(struct table *t, uint64_t block)
{
	const char *wrong = read_header(t, block);

	if (!wrong)
		wrong = read_entries(t);
	for (uint32_t i = 0; !wrong && i < t->header.entry_count; i++) {
		const struct entry entry = entry_at(t, i);
		if (!is_unused(&entry))
			wrong = check_entry(t, i);
	}
	return wrong;
}

static int find(struct table *t, const char *name, uint32_t number, struct g4_partition *out,
		struct g4_dev_message message)
{
	if (!has_protective_mbr(t))
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: has no GUID partition table", name);
	const char *first = read_table(t, 1), *second = first ? read_table(t, t->blocks - 1) : NULL;
	if (second)
		return g4_dev_fail(message, -G4_E_DEV_OPEN,
				   "%s: its partition table can not be used: %s; nor can its backup: %s", name, first,
				   second);
	if (first)
		g4_log(G4_LOG_WARN, "%s: its partition table can not be used: %s; its backup is", name, first);
	const struct entry entry =
		number <= t->header.entry_count ? entry_at(t, number - 1) : (struct entry){.first = 0};
	if (is_unused(&entry))
		return g4_dev_fail(message, -G4_E_DEV_OPEN, "%s: there is no partition %u", name, number);
	out->offset_bytes = entry.first * t->block_bytes;
	out->bytes = (entry.last - entry.first + 1) * t->block_bytes;
	if (out->bytes < G4_PAGE_BYTES)
		return g4_dev_fail(message, -G4_E_DEV_SMALL, "%s: is too small (%" PRIu64 " bytes)", name, out->bytes);
	return 0;
}

int g4_gpt_find(const char *name, struct g4_dev *dev, uint32_t number, struct g4_partition *out,
		struct g4_dev_message message)
{
	const struct g4_dev_props *props = g4_dev_props(dev);
	struct table t = {.dev = dev, .block_bytes = props->sector_bytes};

	t.blocks = props->size_bytes / t.block_bytes;
	t.memory = aligned_alloc(G4_PAGE_BYTES, TABLE_MOST_BYTES + G4_PAGE_BYTES);
	if (!t.memory)
		return g4_dev_fail(message, -G4_E_NOMEM, "%s: out of memory", name);
	const int rc = find(&t, name, number, out, message);
	free(t.memory);
	return rc;
}
