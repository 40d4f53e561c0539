/* SPDX-License-Identifier: Apache-2.0 */
#include "damage.h"

#include "journal/block.h"

#define GROUP_WORDS (G4_GROUP_PAGES / 64)
#define REGION_WORDS (G4_REGION_PAGES / 64)

static void layout_of(const struct rig *rig, struct g4_layout *layout)
{
	g4_layout_of((const struct g4_superblock *)(const void *)(rig->image + G4_SUPERBLOCK_ADDRESS), layout);
}

struct g4_inode *damage_inode(struct rig *rig, uint64_t ino)
{
	return (struct g4_inode *)(void *)(rig->image + g4_ptr_offset(ino));
}

void damage_seal(struct rig *rig, uint64_t address)
{
	uint8_t *page = rig->image + g4_align_down(address, G4_PAGE_BYTES);
	struct g4_block_header header;
	uint32_t tag;

	memcpy(&tag, ((struct g4_superblock *)(void *)(rig->image + G4_SUPERBLOCK_ADDRESS))->uuid, sizeof(tag));
	memcpy(&header, page, sizeof(header));
	g4_block_seal(page, header.type, g4_address_from(header.address), header.generation, tag);
}

struct g4_dir_entry *damage_entry(struct rig *rig, uint64_t dir, uint64_t ino, uint64_t *leaf)
{
	*leaf = g4_ptr_offset(damage_inode(rig, dir)->map[0]);
	for (uint32_t unit = G4_DIR_HEADER_UNITS; unit < G4_DIR_UNITS; unit++) {
		struct g4_dir_entry *entry =
			(struct g4_dir_entry *)(void *)(rig->image + *leaf + unit * G4_DIR_UNIT_BYTES);
		if (entry->inode == ino)
			return entry;
	}
	fail_msg("no entry");
	return NULL;
}

void damage_drop_name(struct rig *rig, uint64_t dir, uint64_t ino)
{
	uint64_t leaf;
	const struct g4_dir_entry *entry = damage_entry(rig, dir, ino, &leaf);
	struct g4_dir_leaf *page = (struct g4_dir_leaf *)(void *)(rig->image + leaf);
	const uint32_t first = (uint32_t)((const uint8_t *)entry - rig->image - leaf) / G4_DIR_UNIT_BYTES;
	const uint32_t units = 1 + (entry->name_bytes + G4_DIR_UNIT_BYTES - 1u) / G4_DIR_UNIT_BYTES;

	for (uint32_t unit = first; unit < first + units; unit++)
		page->used[unit / 64] &= ~(UINT64_C(1) << unit % 64);
	damage_seal(rig, leaf);
}

struct g4_alloc_page *damage_map(struct rig *rig, uint64_t address)
{
	struct g4_layout layout;

	layout_of(rig, &layout);
	return (struct g4_alloc_page *)(void *)(rig->image + layout.alloc_address +
						address / G4_GROUP_BYTES * G4_PAGE_BYTES);
}

void damage_free_page(struct rig *rig, uint64_t address, bool counts)
{
	const uint64_t page = address / G4_PAGE_BYTES % G4_GROUP_PAGES, group = address / G4_GROUP_BYTES;
	struct g4_alloc_page *map = damage_map(rig, address);
	struct g4_region *region = &map->regions[page / G4_REGION_PAGES];
	const uint32_t word = page % G4_REGION_PAGES / 64;
	const uint64_t bit = UINT64_C(1) << page % 64;
	struct g4_layout layout;

	layout_of(rig, &layout);
	struct g4_groups_page *groups = (struct g4_groups_page *)(void *)(rig->image + layout.groups_address);
	assert_true((region->used[word] & bit) != 0);
	if (counts) {
		groups->groups[group].free_pages++;
		groups->groups[group].slabs -= (region->slab[word] & bit) != 0;
		damage_seal(rig, layout.groups_address);
	}
	region->used[word] &= ~bit;
	region->slab[word] &= ~bit;
	damage_seal(rig, layout.alloc_address + group * G4_PAGE_BYTES);
}
