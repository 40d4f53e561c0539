/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parts of a file system lie in its space: FORMAT.md. All functions: per-lane, thread-safe. */
#ifndef G4_FORMAT_LAYOUT_H
#define G4_FORMAT_LAYOUT_H

#include "format/format.h"

/*
 * In bytes from the beginning of the space, as the superblock has it: areas are measured and divided, and stored numbers are compared
 * with their ends before they are addresses. The functions below make addresses of them, and nothing else does
 * (tests/layering.py).
 */
struct g4_layout {
	uint64_t size_bytes;
	uint64_t journal_address, journal_bytes;
	uint64_t groups_address, groups_pages;
	uint64_t alloc_address, group_count;
	uint64_t root_address;
	uint64_t data_address;
	uint64_t backup_address; /* second superblock */
};
/*
 * Where the space that structures may lie in ends: the second superblock. A resize moves it upwards while others look at addresses
 * (fs/resize.c), which is why it is loaded once for each of them, in one piece.
 */
G4_FN G4_INLINE uint64_t g4_layout_end(const struct g4_layout *layout)
{
#if G4_CUDA
	return *(const volatile uint64_t *)&layout->backup_address;
#else
	return __atomic_load_n(&layout->backup_address, __ATOMIC_RELAXED);
#endif
}
/* The first group in the page of descriptors that has `group`; the first page's border at `groups` or behind it. */
G4_FN G4_INLINE uint64_t g4_layout_groups_first(uint64_t group)
{
	return group - group % G4_GROUPS_PER_PAGE;
}
G4_FN G4_INLINE uint64_t g4_layout_groups_border(uint64_t groups)
{
	return g4_layout_groups_first(groups + G4_GROUPS_PER_PAGE - 1);
}
/* The page of descriptors that a group has its own in, its allocation map, and the root block. */
G4_FN G4_INLINE struct g4_address g4_layout_groups_page(const struct g4_layout *layout, uint64_t group)
{
	return g4_address_from(layout->groups_address + group / G4_GROUPS_PER_PAGE * G4_PAGE_BYTES);
}
G4_FN G4_INLINE struct g4_address g4_layout_map_page(const struct g4_layout *layout, uint64_t group)
{
	return g4_address_from(layout->alloc_address + group * G4_PAGE_BYTES);
}
G4_FN G4_INLINE struct g4_address g4_layout_root(const struct g4_layout *layout)
{
	return g4_address_from(layout->root_address);
}
/* The header of the journal, the first page that may be allocated, which is a slab, and the second superblock. */
G4_FN G4_INLINE struct g4_address g4_layout_journal(const struct g4_layout *layout)
{
	return g4_address_from(layout->journal_address);
}
G4_FN G4_INLINE struct g4_address g4_layout_data(const struct g4_layout *layout)
{
	return g4_address_from(layout->data_address);
}
G4_FN G4_INLINE struct g4_address g4_layout_backup(const struct g4_layout *layout)
{
	return g4_address_from(g4_layout_end(layout));
}
/* Pages of the log: the journal without its header. */
G4_FN G4_INLINE uint64_t g4_layout_log_pages(const struct g4_layout *layout)
{
	return layout->journal_bytes / G4_PAGE_BYTES - 1;
}
/* Whether it is behind what is always in the same place, and before the second superblock. */
G4_FN G4_INLINE bool g4_layout_holds(const struct g4_layout *layout, struct g4_address address)
{
	return g4_address_stored(address) >= layout->data_address && g4_address_stored(address) < g4_layout_end(layout);
}
/* Where everything goes on a device of size_bytes; journal_bytes 0 chooses. 0 or -G4_E_DEV_SMALL. */
G4_FN int g4_layout_plan(uint64_t size_bytes, uint64_t journal_bytes, struct g4_layout *out);
/* As a superblock says. */
G4_FN void g4_layout_of(const struct g4_superblock *sb, struct g4_layout *out);
/* For how many groups there is room in the areas of descriptors and maps. */
G4_FN uint64_t g4_layout_room(const struct g4_layout *layout);

#endif
