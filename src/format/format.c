/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where things lie on a disk, and the indirect page's header in its pointers' spare bits.
 *
 * Layout, in address order:
 *
 *     0        zero page
 *     4 KiB    superblock
 *     8 KiB    journal header, log                         journal_bytes in all
 *              group descriptors, 504 a page               and room for more
 *              allocation maps, one page a group           and room for more
 *              root block
 *     data_address ...
 *     last full page: second superblock
 *
 * Groups tile the disk from address 0: the fixed area, the second superblock, and what the last group has beyond the
 * end of the disk, are pages in use like any other.
 */
#include "format/layout.h"
#include "format/spare_bits.h"

#define JOURNAL_MIN_BYTES (2 * G4_MIB) /* the largest operation must fit half of it */
#define JOURNAL_DEFAULT_MIN_BYTES JOURNAL_MIN_BYTES
#define JOURNAL_DEFAULT_MAX_BYTES (128 * G4_MIB)
#define GROWTH_SHARE UINT64_C(1024) /* of the device is for maps that a larger one will have */
/* Keeps every sum of addresses below 2^63. */
#define DISK_MAX_BYTES (UINT64_C(1) << 62)

/* The negative code of a journal size that mkfs would refuse, 0 for a good one. */
G4_FN static int journal_bytes_check(uint64_t size_bytes, uint64_t journal_bytes)
{
	if (journal_bytes % G4_PAGE_BYTES != 0 || journal_bytes < JOURNAL_MIN_BYTES || journal_bytes > size_bytes / 4)
		return -G4_E_INVAL;
	return 0;
}

G4_FN int g4_layout_plan(uint64_t size_bytes, uint64_t journal_bytes, struct g4_layout *out)
{
	if (size_bytes < G4_MIN_DEVICE_BYTES)
		return -G4_E_DEV_SMALL;
	if (size_bytes > DISK_MAX_BYTES)
		return -G4_E_INVAL;

	const uint64_t size = g4_align_down(size_bytes, G4_PAGE_BYTES);
	if (journal_bytes == 0) {
		journal_bytes = g4_align_down(size / 64, G4_PAGE_BYTES);
		journal_bytes = g4_max64(journal_bytes, JOURNAL_DEFAULT_MIN_BYTES);
		journal_bytes = g4_min64(journal_bytes, JOURNAL_DEFAULT_MAX_BYTES);
	}
	const int status = journal_bytes_check(size, journal_bytes);
	if (status != 0)
		return status;

	out->size_bytes = size;
	out->group_count = (size + G4_GROUP_BYTES - 1) / G4_GROUP_BYTES;
	out->groups_pages = (out->group_count + G4_GROUPS_PER_PAGE - 1) / G4_GROUPS_PER_PAGE;
	out->journal_address = G4_SUPERBLOCK_ADDRESS + G4_PAGE_BYTES;
	out->journal_bytes = journal_bytes;
	out->groups_address = out->journal_address + journal_bytes;
	/* room for the maps of a device sixteen times as large */
	const uint64_t room = out->group_count + size / GROWTH_SHARE / G4_PAGE_BYTES;
	out->alloc_address = out->groups_address + (room + G4_GROUPS_PER_PAGE - 1) / G4_GROUPS_PER_PAGE * G4_PAGE_BYTES;
	out->root_address = out->alloc_address + room * G4_PAGE_BYTES;
	out->data_address = out->root_address + G4_PAGE_BYTES;
	out->backup_address = size - G4_PAGE_BYTES;
	if (out->data_address >= out->backup_address)
		return -G4_E_DEV_SMALL;
	return 0;
}

G4_FN void g4_layout_of(const struct g4_superblock *sb, struct g4_layout *out)
{
	out->size_bytes = sb->size_bytes;
	out->journal_address = sb->journal_address;
	out->journal_bytes = sb->journal_bytes;
	out->groups_address = sb->groups_address;
	out->groups_pages = sb->group_count / G4_GROUPS_PER_PAGE + (sb->group_count % G4_GROUPS_PER_PAGE != 0);
	out->alloc_address = sb->alloc_address;
	out->group_count = sb->group_count;
	out->root_address = sb->root_address;
	out->data_address = sb->data_address;
	out->backup_address = sb->size_bytes - G4_PAGE_BYTES;
}

G4_FN uint64_t g4_layout_room(const struct g4_layout *layout)
{
	const uint64_t described = (layout->alloc_address - layout->groups_address) / G4_PAGE_BYTES;
	const uint64_t mapped = (layout->root_address - layout->alloc_address) / G4_PAGE_BYTES;

	return g4_min64(described * G4_GROUPS_PER_PAGE, mapped);
}

G4_FN uint32_t g4_superblock_tag(const struct g4_superblock *sb)
{
	uint32_t tag;

	if (sb->features_incompat & G4_FEATURE_INCOMPAT_TAG)
		return sb->metadata_tag;
	memcpy(&tag, sb->uuid, sizeof(tag));
	return tag;
}

G4_FN int g4_superblock_resize(struct g4_superblock *sb, uint64_t size_bytes)
{
	sb->size_bytes = sb->total_bytes = size_bytes;
	sb->group_count = size_bytes / G4_GROUP_BYTES + (size_bytes % G4_GROUP_BYTES != 0);
	return g4_superblock_validate(sb, size_bytes);
}

/* True when [address, address + bytes) is whole pages inside [*floor, ceiling); moves *floor behind it. */
G4_FN static bool area_follows(uint64_t address, uint64_t bytes, uint64_t *floor, uint64_t ceiling)
{
	if (address % G4_PAGE_BYTES != 0 || bytes == 0 || bytes % G4_PAGE_BYTES != 0)
		return false;
	if (address < *floor || address >= ceiling || bytes > ceiling - address)
		return false;
	*floor = address + bytes;
	return true;
}

G4_FN static bool geometry_is_possible(const struct g4_superblock *sb)
{
	const uint64_t size = sb->size_bytes;

	if (size < G4_MIN_DEVICE_BYTES || size > DISK_MAX_BYTES || size % G4_PAGE_BYTES != 0)
		return false;
	if (sb->group_count != (size + G4_GROUP_BYTES - 1) / G4_GROUP_BYTES)
		return false;
	if (journal_bytes_check(size, sb->journal_bytes) != 0)
		return false;

	struct g4_layout layout;
	g4_layout_of(sb, &layout);
	uint64_t floor = G4_SUPERBLOCK_ADDRESS + G4_PAGE_BYTES;
	const uint64_t end = layout.backup_address;
	return area_follows(layout.journal_address, layout.journal_bytes, &floor, end) &&
	       area_follows(layout.groups_address, layout.groups_pages * G4_PAGE_BYTES, &floor, end) &&
	       area_follows(layout.alloc_address, layout.group_count * G4_PAGE_BYTES, &floor, end) &&
	       area_follows(layout.root_address, G4_PAGE_BYTES, &floor, end) &&
	       area_follows(layout.data_address, G4_PAGE_BYTES, &floor, end);
}

G4_FN static bool disks_are_possible(const struct g4_superblock *sb)
{
	if (sb->disk_count == 0 || sb->disk_count > G4_MAX_DISKS || sb->disk_index >= sb->disk_count)
		return false;
	if ((sb->features_incompat & G4_FEATURE_INCOMPAT_PARITY) &&
	    !(sb->features_incompat & G4_FEATURE_INCOMPAT_DISKS))
		return false;
	/* what the set gives: the whole of it (space/set_host.c) */
	if (sb->features_incompat & G4_FEATURE_INCOMPAT_DISKS)
		return sb->disk_index_bits == 0 && sb->total_bytes == sb->size_bytes && sb->chunk_count != 0 &&
		       sb->chunk_count <= G4_CHUNKS_MAX && sb->copies != 0 && sb->copies <= G4_COPIES_MAX;
	if (sb->disk_index_bits > 6 || (UINT32_C(1) << sb->disk_index_bits) < sb->disk_count)
		return false;
	/* An address must leave the disk index's bits alone. */
	if (sb->disk_index_bits != 0 && sb->size_bytes > (UINT64_C(1) << (64 - sb->disk_index_bits)))
		return false;
	return sb->disk_count == 1 ? sb->total_bytes == sb->size_bytes : sb->total_bytes > sb->size_bytes;
}

G4_FN int g4_superblock_validate(const struct g4_superblock *sb, uint64_t device_bytes)
{
	const uint32_t states = G4_STATE_CLEAN | G4_STATE_MOUNTED | G4_STATE_ERROR;

	if (sb->magic != G4_SUPERBLOCK_MAGIC)
		return -G4_E_SB_MAGIC;
	if (sb->version > G4_FORMAT_VERSION)
		return -G4_E_SB_VERSION;
	if ((sb->features_incompat & ~G4_FEATURES_INCOMPAT) != 0)
		return -G4_E_SB_FEATURE;
	if (sb->version == 0 || (sb->state & ~states) != 0 || !geometry_is_possible(sb) || !disks_are_possible(sb))
		return -G4_E_SB_GEOMETRY;
	if (sb->inode_bytes != sizeof(struct g4_inode) || sb->small_bytes != G4_SLAB_SLOT_BYTES)
		return -G4_E_SB_GEOMETRY;
	if (!g4_policy_is_known(sb->policy) || (sb->policy & G4_POLICY_DEDUP) == G4_POLICY_DEDUP_DOMAIN ||
	    (sb->policy & G4_POLICY_RAID))
		return -G4_E_POLICY;
	if (sb->label[G4_LABEL_BYTES - 1] != 0)
		return -G4_E_SB_GEOMETRY;
	if (sb->size_bytes > device_bytes)
		return -G4_E_SB_TRUNCATED;
	return 0;
}

G4_FN bool g4_policy_is_known(uint32_t policy)
{
	return (policy & ~G4_POLICY_KNOWN) == 0 && (policy & G4_POLICY_CHECKSUM) <= G4_CHECKSUM_COUNT &&
	       (policy & G4_POLICY_DEDUP) <= G4_POLICY_DEDUP_DOMAIN &&
	       (policy & G4_POLICY_RAID) >> G4_POLICY_RAID_SHIFT < G4_LEVELS;
}

G4_FN bool g4_policy_dedup(uint32_t policy, uint32_t super)
{
	const uint32_t own = policy & G4_POLICY_DEDUP, dedup = own ? own : super & G4_POLICY_DEDUP;

	return dedup == G4_POLICY_DEDUP_ON || dedup == G4_POLICY_DEDUP_DOMAIN;
}

G4_FN uint32_t g4_policy_checksum(uint32_t policy, uint32_t super)
{
	const uint32_t own = policy & G4_POLICY_CHECKSUM, checksum = own ? own : super & G4_POLICY_CHECKSUM;

	if (!g4_policy_is_known(policy) || !g4_policy_is_known(super))
		return G4_CHECKSUM_UNKNOWN;
	return checksum ? checksum - 1 : G4_CHECKSUM_NONE;
}

G4_FN uint64_t g4_superblock_home(const struct g4_superblock *sb)
{
	if ((sb->state & G4_STATE_CLEAN) != 0 || sb->state == G4_STATE_MOUNTED)
		return sb->header.generation;
	return 0;
}

G4_FN bool g4_superblock_is_newer(const struct g4_superblock *first, const struct g4_superblock *second)
{
	const bool newer =
		second->header.generation > first->header.generation ||
		(second->header.generation == first->header.generation && second->mount_count > first->mount_count);

	return newer && g4_bytes_equal(first->uuid, second->uuid, sizeof(first->uuid));
}

/* Bit `bit` of the header is bit bit % 8 of its byte bit / 8. */
#define SPARE_SHIFT 6

G4_FN uint8_t g4_indirect_header_byte(const g4_le64 *slots, uint32_t n)
{
	uint32_t value = 0;

	for (uint32_t bit = 0; bit < 8; bit++)
		value |= (uint32_t)(slots[8 * n + bit] >> SPARE_SHIFT & 1) << bit;
	return (uint8_t)value;
}

G4_FN void g4_indirect_set_header_byte(g4_le64 *slots, uint32_t n, uint8_t value)
{
	for (uint32_t bit = 0; bit < 8; bit++)
		slots[8 * n + bit] = (slots[8 * n + bit] & ~G4_PTR_SPARE) | (uint64_t)(value >> bit & 1) << SPARE_SHIFT;
}

G4_FN static void set_header_bytes(g4_le64 *slots, uint32_t first, const void *bytes, uint32_t count)
{
	for (uint32_t n = 0; n < count; n++)
		g4_indirect_set_header_byte(slots, first + n, ((const uint8_t *)bytes)[n]);
}

G4_FN void g4_indirect_embed(g4_le64 *slots, const struct g4_indirect_header *header)
{
	set_header_bytes(slots, 0, header, sizeof(*header));
}

G4_FN void g4_indirect_embed_places(g4_le64 *slots, const struct g4_sums_places *places)
{
	set_header_bytes(slots, offsetof(struct g4_indirect_header, sums), places, sizeof(*places));
}

G4_FN void g4_indirect_embed_below(g4_le64 *slots, uint32_t pages)
{
	for (uint32_t k = 0; k < sizeof(((struct g4_indirect_header *)0)->below); k++)
		g4_indirect_set_header_byte(slots, (uint32_t)offsetof(struct g4_indirect_header, below) + k,
					    (uint8_t)(pages >> 8 * k));
}

G4_FN void g4_indirect_extract(const g4_le64 *slots, struct g4_indirect_header *header)
{
	for (uint32_t n = 0; n < sizeof(*header); n++)
		((uint8_t *)header)[n] = g4_indirect_header_byte(slots, n);
}

G4_FN void g4_indirect_strip(g4_le64 *slots)
{
	for (uint32_t slot = 0; slot < G4_INDIRECT_SLOTS; slot++)
		slots[slot] &= ~G4_PTR_SPARE;
}
