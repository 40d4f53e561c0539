/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each structure can say about itself. Callers have verified the page's header and checksum; here the contents
 * are still an untrusted client's: every count is checked before it is used, every loop ends within the page.
 *
 * Version 1 writes no data checksums and no small data blocks, so pointers that claim either are damaged.
 */
#include "format/layout.h"

#define REGION_WORDS 8u

/* File types as directory entries hold them (DT_*); the top 4 bits of an inode's mode hold the same numbers. */
enum file_type {
	TYPE_FIFO = 1,
	TYPE_CHR = 2,
	TYPE_DIR = 4,
	TYPE_BLK = 6,
	TYPE_REG = 8,
	TYPE_LNK = 10,
	TYPE_SOCK = 12,
};

G4_FN static uint32_t inode_type(const struct g4_inode *inode)
{
	return (uint32_t)inode->mode >> 12;
}

G4_FN bool g4_ino_plausible(uint64_t ino, const struct g4_layout *layout)
{
	const uint64_t address = g4_address_stored(g4_ptr_address(ino));

	if (ino != g4_ino_make(g4_ptr_address(ino)) || address % G4_SLAB_SLOT_BYTES != 0 ||
	    address % G4_PAGE_BYTES == 0)
		return false;
	return address >= layout->data_address && address < g4_layout_end(layout);
}

G4_FN int g4_ptr_validate(g4_ptr ptr, const struct g4_layout *layout)
{
	const uint32_t tag = g4_ptr_tag(ptr);
	const uint64_t address = g4_address_stored(g4_ptr_address(ptr));
	const uint64_t bytes = g4_tag_pages(tag) * G4_PAGE_BYTES, end = g4_layout_end(layout);

	if ((ptr & G4_PTR_PHYSICAL) == 0 || (ptr & (G4_PTR_SPARE | G4_PTR_CHECKSUM)) != 0 || tag == G4_TAG_SMALL)
		return -G4_E_CORRUPT_MAP;
	if ((ptr & G4_PTR_INDIRECT) != 0 && (tag != G4_TAG_4K || (ptr & G4_PTR_VALID) == 0))
		return -G4_E_CORRUPT_MAP;
	if (address % bytes != 0 || address < layout->data_address || address >= end)
		return -G4_E_CORRUPT_MAP;
	return bytes > end - address ? -G4_E_CORRUPT_MAP : 0;
}

/* ------------------------------------------------------------------ inode */

/* A page that must hold data: 4 KiB, valid. */
G4_FN static bool is_written_page(g4_ptr ptr, const struct g4_layout *layout)
{
	return g4_ptr_validate(ptr, layout) == 0 && g4_ptr_tag(ptr) == G4_TAG_4K &&
	       (ptr & (G4_PTR_INDIRECT | G4_PTR_VALID)) == G4_PTR_VALID;
}

/* A slot of map[]: height 0 points to pages; above, to indirect pages, or early to the one page that fills the slot. */
G4_FN static bool map_slot_is_possible(g4_ptr ptr, uint32_t height, bool directory, const struct g4_layout *layout)
{
	if (ptr == 0)
		return true;
	if (g4_ptr_validate(ptr, layout) != 0)
		return false;
	if ((ptr & G4_PTR_INDIRECT) != 0)
		return height != 0;
	if (directory)
		return height == 0 && g4_ptr_tag(ptr) == G4_TAG_4K && (ptr & G4_PTR_VALID) != 0;
	return height <= 2 && g4_ptr_tag(ptr) == G4_TAG_4K + height;
}

G4_FN static bool inode_map_is_possible(const struct g4_inode *inode, const struct g4_layout *layout)
{
	const uint32_t type = inode_type(inode);
	const bool mapped = type == TYPE_REG || type == TYPE_DIR || type == TYPE_LNK;

	if (inode->map_height > G4_MAP_MAX_HEIGHT)
		return false;
	if ((inode->flags & G4_INODE_INLINE) != 0)
		return (type == TYPE_REG || type == TYPE_LNK) && inode->map_height == 0 &&
		       inode->size <= G4_INLINE_BYTES;
	for (uint32_t slot = 0; slot < g4_inode_slots(inode); slot++) {
		if (!mapped && inode->map[slot] != 0)
			return false;
		if (!map_slot_is_possible(inode->map[slot], inode->map_height, type == TYPE_DIR, layout))
			return false;
	}
	return mapped || inode->map_height == 0;
}

G4_FN static bool inode_size_is_possible(const struct g4_inode *inode)
{
	switch (inode_type(inode)) {
	case TYPE_REG:
		return inode->size <= G4_FILE_MAX_BYTES;
	case TYPE_DIR:
		return inode->size <= G4_FILE_MAX_BYTES && inode->size % G4_PAGE_BYTES == 0;
	case TYPE_LNK:
		return inode->size < G4_PATH_MAX;
	case TYPE_CHR:
	case TYPE_BLK:
	case TYPE_FIFO:
	case TYPE_SOCK:
		return inode->size == 0;
	default:
		return false;
	}
}

/* Sums in the inode; or a block of them, in a slab of the data area: of what has a map of pages. */
G4_FN static bool sums_are_possible(const struct g4_inode *inode, const struct g4_layout *layout)
{
	const bool few = (inode->flags & G4_INODE_SUMS_INLINE) != 0;
	const uint64_t address = inode->checksums;

	if (address == 0 && !few)
		return true;
	if ((inode_type(inode) != TYPE_REG && inode_type(inode) != TYPE_LNK) || (inode->flags & G4_INODE_INLINE) != 0)
		return false;
	if (few)
		return address == 0 && inode->map_height == 0 && inode->few.reserved == 0;
	return address % sizeof(struct g4_sums_block) == 0 && address % G4_PAGE_BYTES != 0 &&
	       address >= layout->data_address && address < g4_layout_end(layout);
}

/* Pages that a move of others leaves: of a file with a map that recovery is led to. */
G4_FN bool g4_inode_gap_is_possible(const struct g4_inode *inode)
{
	const uint64_t most = G4_FILE_MAX_BYTES / G4_PAGE_BYTES + 1;

	if ((inode->flags & G4_INODE_GAP) == 0)
		return true;
	return inode_type(inode) == TYPE_REG &&
	       (inode->flags & (G4_INODE_INLINE | G4_INODE_ORPHAN)) == G4_INODE_ORPHAN && inode->parent != 0 &&
	       inode->parent <= most && inode->rdev <= most - inode->parent &&
	       inode->size <= G4_FILE_MAX_BYTES - inode->parent * G4_PAGE_BYTES;
}

/* A file may lead to one page from as many places as it has: it is not bound by the device. */
G4_FN static uint64_t most_pages(const struct g4_inode *inode, const struct g4_layout *layout)
{
	return inode_type(inode) == TYPE_REG ? 2 * (G4_FILE_MAX_BYTES / G4_PAGE_BYTES) :
					       g4_layout_end(layout) / G4_PAGE_BYTES;
}

/* Only a file has a map with indirect pages. */
G4_FN static bool may_share_map(const struct g4_inode *inode)
{
	return (inode->flags & G4_INODE_SHARES_MAP) == 0 ||
	       (inode_type(inode) == TYPE_REG && (inode->flags & (G4_INODE_INLINE | G4_INODE_SUMS_INLINE)) == 0);
}

G4_FN int g4_inode_validate(const struct g4_inode *inode, const struct g4_layout *layout)
{
	const bool directory = inode_type(inode) == TYPE_DIR;

	if (inode->reserved0 != 0 || (inode->flags & ~(uint32_t)G4_INODE_KNOWN) != 0 ||
	    !sums_are_possible(inode, layout) || !g4_inode_gap_is_possible(inode) || !may_share_map(inode))
		return -G4_E_CORRUPT_INODE;
	if (!inode_size_is_possible(inode) || !inode_map_is_possible(inode, layout))
		return -G4_E_CORRUPT_INODE;
	if (inode->nlink > G4_LINK_MAX || inode->pages > most_pages(inode, layout))
		return -G4_E_CORRUPT_INODE;
	if (directory ? inode->nlink == 1 : inode->entries != g4_inode_domain(inode))
		return -G4_E_CORRUPT_INODE;
	if (directory && inode->nlink != 0 && !g4_ino_plausible(inode->parent, layout))
		return -G4_E_CORRUPT_INODE;
	if (inode->orphan_next != 0 && !g4_ino_plausible(inode->orphan_next, layout))
		return -G4_E_CORRUPT_INODE;
	if (inode->xattr != 0 && !is_written_page(inode->xattr, layout))
		return -G4_E_CORRUPT_INODE;
	return 0;
}

/* ------------------------------------------------------------------ space */

#define SECOND_OF_PAIR 0x5555u /* used ^ used >> 1: bit i differs from bit i + 1 */

G4_FN int g4_slab_validate(const struct g4_slab_header *slab)
{
	if (slab->kind != G4_SLAB_INODES && slab->kind != G4_SLAB_SMALL)
		return -G4_E_CORRUPT_ALLOC;
	if (slab->kind == G4_SLAB_SMALL &&
	    ((slab->used & 2) == 0 || ((slab->used ^ slab->used >> 1) & SECOND_OF_PAIR) != 0))
		return -G4_E_CORRUPT_ALLOC; /* two slots of a block that are not both used, or both free */
	return (slab->used & 1) == 0 ? -G4_E_CORRUPT_ALLOC : 0;
}

G4_FN bool g4_sums_block_is_used(const struct g4_slab_header *slab, uint32_t offset)
{
	return slab->kind == G4_SLAB_SMALL && offset % sizeof(struct g4_sums_block) == 0 && offset != 0 &&
	       (slab->used >> offset / G4_SLAB_SLOT_BYTES & 1) != 0;
}

G4_FN int g4_alloc_page_validate(const struct g4_alloc_page *page, uint64_t group)
{
	if (page->group != group)
		return -G4_E_CORRUPT_ALLOC;
	for (uint32_t region = 0; region < G4_GROUP_REGIONS; region++) {
		const struct g4_region *bits = &page->regions[region];
		for (uint32_t word = 0; word < REGION_WORDS; word++) {
			if ((bits->slab[word] & ~bits->used[word]) != 0)
				return -G4_E_CORRUPT_ALLOC;
		}
	}
	return 0;
}

G4_FN bool g4_job_is_valid(const struct g4_job_record *job)
{
	if (job->kind == G4_JOB_NONE)
		return job->state == 0 && job->number == 0;
	return job->kind < G4_JOB_KINDS && job->state >= G4_JOB_RUNNING && job->state < G4_JOB_STATES &&
	       (job->flags & ~G4_JOB_FLAGS) == 0 && job->number != 0 &&
	       (job->state == G4_JOB_FAILED) == (job->code != 0);
}

G4_FN bool g4_finding_is_valid(const struct g4_finding *finding)
{
	if (finding->code == 0)
		return finding->inode == 0 && finding->address == 0 && finding->pages == 0;
	return finding->pages != 0 && finding->code < 0x8000;
}

G4_FN int g4_groups_page_validate(const struct g4_groups_page *page, uint64_t first_group, uint64_t group_count)
{
	if (page->first_group != first_group || first_group >= group_count)
		return -G4_E_CORRUPT_ALLOC;

	const uint64_t count = g4_min64(group_count - first_group, G4_GROUPS_PER_PAGE);
	for (uint64_t index = 0; index < count; index++) {
		const struct g4_group_descriptor *group = &page->groups[index];
		if (group->free_pages > G4_GROUP_PAGES || group->slabs > G4_GROUP_PAGES - group->free_pages)
			return -G4_E_CORRUPT_ALLOC;
		if ((group->flags & ~G4_GROUP_INITIALISED) != 0 || group->reserved != 0)
			return -G4_E_CORRUPT_ALLOC;
		if (group->flags == 0 && group->free_pages != G4_GROUP_PAGES)
			return -G4_E_CORRUPT_ALLOC;
	}
	return 0;
}

/* ------------------------------------------------------------------ directories */

G4_FN static bool file_type_is_known(uint32_t type)
{
	return type == TYPE_FIFO || type == TYPE_CHR || type == TYPE_DIR || type == TYPE_BLK || type == TYPE_REG ||
	       type == TYPE_LNK || type == TYPE_SOCK;
}

G4_FN static bool name_is_possible(const uint8_t *name, uint32_t bytes)
{
	if (bytes == 0 || (name[0] == '.' && (bytes == 1 || (bytes == 2 && name[1] == '.'))))
		return false;
	for (uint32_t byte = 0; byte < bytes; byte++) {
		if (name[byte] == 0 || name[byte] == '/')
			return false;
	}
	return true;
}

G4_FN static bool unit_is_used(const struct g4_dir_leaf *leaf, uint32_t unit)
{
	return (leaf->used[unit / 64] >> (unit % 64) & 1) != 0;
}

G4_FN int g4_dir_leaf_validate(const struct g4_dir_leaf *leaf, const struct g4_layout *layout)
{
	const uint64_t header_units = (UINT64_C(1) << G4_DIR_HEADER_UNITS) - 1;

	if ((leaf->used[0] & header_units) != header_units)
		return -G4_E_CORRUPT_DIR;
	uint32_t unit = G4_DIR_HEADER_UNITS;
	while (unit < G4_DIR_UNITS) {
		if (!unit_is_used(leaf, unit)) {
			unit++;
			continue;
		}
		const uint8_t *bytes = &leaf->units[(unit - G4_DIR_HEADER_UNITS) * G4_DIR_UNIT_BYTES];
		struct g4_dir_entry entry;
		memcpy(&entry, bytes, sizeof(entry));
		const uint32_t units = 1 + (entry.name_bytes + G4_DIR_UNIT_BYTES - 1u) / G4_DIR_UNIT_BYTES;
		if (units > G4_DIR_UNITS - unit)
			return -G4_E_CORRUPT_DIR;
		for (uint32_t i = 1; i < units; i++) {
			if (!unit_is_used(leaf, unit + i))
				return -G4_E_CORRUPT_DIR;
		}
		if (!file_type_is_known(entry.file_type) || !g4_ino_plausible(entry.inode, layout) ||
		    !name_is_possible(bytes + sizeof(entry), entry.name_bytes))
			return -G4_E_CORRUPT_DIR;
		unit += units;
	}
	return 0;
}

G4_FN int g4_dir_index_validate(const struct g4_dir_index *index, uint64_t dir_pages)
{
	if (index->count == 0 || index->count > G4_DIR_INDEX_ENTRIES)
		return -G4_E_CORRUPT_DIR;
	if (index->level == 0 || index->level > G4_DIR_MAX_LEVEL)
		return -G4_E_CORRUPT_DIR;
	for (uint32_t i = 0; i < index->count; i++) {
		const struct g4_dir_index_entry *entry = &index->entries[i];
		/* Page 0 is the root and nobody's child. */
		if (entry->page == 0 || entry->page >= dir_pages || entry->collision > UINT16_MAX)
			return -G4_E_CORRUPT_DIR;
		if (i == 0)
			continue;
		const struct g4_dir_index_entry *last = &index->entries[i - 1];
		if (entry->hash < last->hash || (entry->hash == last->hash && entry->collision <= last->collision))
			return -G4_E_CORRUPT_DIR;
	}
	return 0;
}

/* ------------------------------------------------------------------ extended attributes */

/* The record at `bytes`, of which `room` bytes are left in the page: its length, or 0 when it is damaged. */
G4_FN static uint32_t xattr_record_check(const uint8_t *bytes, uint32_t room, const struct g4_layout *layout)
{
	struct g4_xattr_record record;

	if (room < sizeof(record))
		return 0;
	memcpy(&record, bytes, sizeof(record));
	if (record.record_bytes > room || record.record_bytes % 8 != 0)
		return 0;
	if (record.space < G4_XATTR_USER || record.space > G4_XATTR_ACL_DEFAULT || record.flags > G4_XATTR_EXTERNAL)
		return 0;
	/* The ACL spaces are one attribute each and need no name. */
	if ((record.name_bytes == 0) != (record.space >= G4_XATTR_ACL_ACCESS))
		return 0;

	const bool external = (record.flags & G4_XATTR_EXTERNAL) != 0;
	if (record.value_bytes > (external ? G4_XATTR_VALUE_MAX : G4_XATTR_INLINE_MAX))
		return 0;
	const uint32_t value_bytes = external ? (uint32_t)sizeof(g4_ptr) : record.value_bytes;
	if (record.record_bytes < sizeof(record) + record.name_bytes + value_bytes)
		return 0;
	const uint8_t *name = bytes + sizeof(record);
	for (uint32_t byte = 0; byte < record.name_bytes; byte++) {
		if (name[byte] == 0)
			return 0;
	}
	if (external) {
		/* The pointer follows the name directly: it has no alignment. */
		g4_ptr value;
		memcpy(&value, name + record.name_bytes, sizeof(value));
		if (!is_written_page(value, layout))
			return 0;
	}
	return record.record_bytes;
}

G4_FN int g4_xattr_page_validate(const struct g4_xattr_page *page, const struct g4_layout *layout)
{
	if (page->bytes > G4_XATTR_PAYLOAD || !g4_ino_plausible(page->inode, layout))
		return -G4_E_CORRUPT_XATTR;
	if (page->next != 0 && !is_written_page(page->next, layout))
		return -G4_E_CORRUPT_XATTR;
	if (page->header.type == G4_BLOCK_XATTR_VALUE)
		return 0;

	uint32_t at = 0;
	while (at < page->bytes) {
		const uint32_t bytes = xattr_record_check(page->payload + at, page->bytes - at, layout);
		if (bytes == 0)
			return -G4_E_CORRUPT_XATTR;
		at += bytes;
	}
	return 0;
}
