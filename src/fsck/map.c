/* SPDX-License-Identifier: Apache-2.0 */
/* Walking block maps and directories without recursion. */
#include <sys/stat.h>

#include "dir/tree.h"
#include "format/indirect.h"
#include "fsck/image.h"

void g4_map_walk_start(struct g4_map_walk *walk, struct g4_image *image, uint64_t ino, const struct g4_inode *inode)
{
	walk->image = image;
	walk->ino = ino;
	walk->shares = (inode->flags & G4_INODE_SHARES_MAP) != 0 &&
		       (image->sb.features_incompat & G4_FEATURE_INCOMPAT_SHARED_MAPS) != 0;
	walk->entered = 0;
	/* No map needs more indirect pages than the device has pages: one that shares them would go on for ages. */
	walk->most = image->layout.size_bytes / G4_PAGE_BYTES;
	walk->depth = 0;
	struct g4_map_frame *frame = &walk->frames[0];
	frame->page = G4_NO_ADDRESS;
	frame->file_page = 0;
	frame->height = inode->map_height;
	frame->next = 0;
	frame->maker = ino;
	frame->below = 0;
	/* What holds its contents in the inode, or has none, has no map. */
	frame->count = (inode->flags & G4_INODE_INLINE) != 0 ? 0 : g4_inode_slots(inode);
	memcpy(frame->slots, inode->map, sizeof(inode->map));
}

static uint64_t pages_of_slot(uint32_t height)
{
	return UINT64_C(1) << 9 * height;
}

static enum g4_map_kind kind_of(const struct g4_map_walk *walk, g4_ptr ptr, uint32_t height)
{
	if (g4_ptr_validate(ptr, &walk->image->layout) != 0)
		return G4_MAP_DAMAGED;
	if ((ptr & G4_PTR_INDIRECT) != 0)
		return height == 0 ? G4_MAP_DAMAGED : G4_MAP_INDIRECT;
	return height <= 2 && g4_tag_pages(g4_ptr_tag(ptr)) == pages_of_slot(height) ? G4_MAP_DATA : G4_MAP_DAMAGED;
}

const struct g4_map_item *g4_map_walk_next(struct g4_map_walk *walk)
{
	for (;;) {
		struct g4_map_frame *frame = &walk->frames[walk->depth];
		while (frame->next < frame->count && frame->slots[frame->next] == 0)
			frame->next++;
		if (frame->next < frame->count) {
			const g4_ptr ptr = frame->slots[frame->next];
			walk->item = (struct g4_map_item){
				.kind = kind_of(walk, ptr, frame->height),
				.file_page = frame->file_page + frame->next * pages_of_slot(frame->height),
				.height = frame->height,
				.ptr = ptr,
				.page = frame->page,
				.slot = frame->next,
			};
			frame->next++;
			return &walk->item;
		}
		if (walk->depth == 0) {
			walk->item.kind = G4_MAP_END;
			return &walk->item;
		}
		walk->depth--;
	}
}

int g4_map_walk_enter(struct g4_map_walk *walk)
{
	struct g4_indirect_header header;
	struct g4_map_frame *frame = &walk->frames[walk->depth + 1];

	const bool may_share = (walk->image->sb.features_incompat & G4_FEATURE_INCOMPAT_SHARED_MAPS) != 0;

	if (walk->item.kind != G4_MAP_INDIRECT || ++walk->entered > walk->most)
		return -G4_E_CORRUPT_MAP;
	const int status = g4_image_indirect(walk->image, g4_ptr_address(walk->item.ptr), frame->slots, &header);
	if (status < 0)
		return status;
	if ((header.inode != walk->ino && !walk->shares) || header.level != walk->item.height ||
	    (g4_indirect_below(&header) != 0 && !may_share))
		return -G4_E_CORRUPT_MAP;
	frame->page = g4_ptr_address(walk->item.ptr);
	frame->file_page = walk->item.file_page;
	frame->height = walk->item.height - 1;
	frame->next = 0;
	frame->count = G4_INDIRECT_SLOTS;
	frame->sums = header.sums;
	frame->maker = header.inode;
	frame->below = g4_indirect_below(&header);
	walk->depth++;
	return 0;
}

/* ------------------------------------------------------------------ directories */

void g4_dir_walk_start(struct g4_dir_walk *walk, struct g4_image *image, const struct g4_inode *inode)
{
	walk->image = image;
	walk->depth = 0;
	walk->at_root = inode->map[0] != 0;
	walk->root = g4_ptr_address(inode->map[0]);
	walk->entered = 0;
}

bool g4_dir_walk_next(struct g4_dir_walk *walk)
{
	if (walk->at_root) {
		walk->at_root = false;
		walk->address = walk->root;
		walk->low = 0;
		walk->high = G4_DIR_POSITIONS;
		walk->level = UINT32_MAX;
		return true;
	}
	while (walk->depth > 0) {
		struct g4_dir_frame *frame = &walk->frames[walk->depth - 1];
		if (frame->next == frame->page.count) {
			walk->depth--;
			continue;
		}
		const uint32_t slot = frame->next++;
		walk->address = g4_address_from(frame->page.entries[slot].page);
		walk->low = g4_dir_bound_of(&frame->page.entries[slot]);
		walk->high =
			slot + 1 < frame->page.count ? g4_dir_bound_of(&frame->page.entries[slot + 1]) : frame->high;
		walk->level = frame->page.level - 1;
		return true;
	}
	return false;
}

int g4_dir_walk_enter(struct g4_dir_walk *walk)
{
	union { /* which of the two it is shows when it has been read */
		struct g4_dir_leaf leaf;
		struct g4_dir_index index;
	} page;

	if (++walk->entered > walk->image->layout.size_bytes / G4_PAGE_BYTES)
		return -G4_E_CORRUPT_DIR;
	const int status = g4_image_directory_page(walk->image, walk->address, &page, &walk->type);
	if (status < 0)
		return status;
	if (walk->type == G4_BLOCK_DIR_LEAF) {
		walk->leaf = page.leaf;
		return walk->level == 0 || walk->level == UINT32_MAX ? 0 : -G4_E_CORRUPT_DIR;
	}
	/* Levels fall on the way down, so the frames suffice. */
	if ((walk->level != UINT32_MAX && page.index.level != walk->level) ||
	    g4_dir_bound_of(&page.index.entries[0]) != walk->low ||
	    g4_dir_bound_of(&page.index.entries[page.index.count - 1]) >= walk->high)
		return -G4_E_CORRUPT_DIR;
	struct g4_dir_frame *frame = &walk->frames[walk->depth++];
	frame->page = page.index;
	frame->high = walk->high;
	frame->next = 0;
	return 0;
}

bool g4_leaf_each_entry(const struct g4_dir_leaf *leaf, struct g4_address leaf_address, g4_entry_visit visit,
			void *context)
{
	uint32_t unit = G4_DIR_HEADER_UNITS;

	while (unit < G4_DIR_UNITS) {
		if ((leaf->used[unit / 64] >> (unit % 64) & 1) == 0) {
			unit++;
			continue;
		}
		const uint8_t *at = &leaf->units[(unit - G4_DIR_HEADER_UNITS) * G4_DIR_UNIT_BYTES];
		struct g4_entry_view view = {
			.name = at + sizeof(view.entry),
			.leaf_address = leaf_address,
			.unit = unit,
		};
		memcpy(&view.entry, at, sizeof(view.entry));
		if (visit(context, &view))
			return true;
		unit += 1 + (view.entry.name_bytes + G4_DIR_UNIT_BYTES - 1u) / G4_DIR_UNIT_BYTES;
	}
	return false;
}

int g4_image_each_entry(struct g4_image *image, uint64_t dir_ino, g4_entry_visit visit, void *context, bool *found)
{
	struct g4_inode inode;
	struct g4_dir_walk walk;
	int status = g4_image_inode(image, dir_ino, &inode);

	*found = false;
	if (status < 0)
		return status;
	if (!S_ISDIR(inode.mode))
		return -G4_E_NOTDIR;
	g4_dir_walk_start(&walk, image, &inode);
	while (status == 0 && !*found && g4_dir_walk_next(&walk)) {
		status = g4_dir_walk_enter(&walk);
		if (status == 0 && walk.type == G4_BLOCK_DIR_LEAF)
			*found = g4_leaf_each_entry(&walk.leaf, walk.address, visit, context);
	}
	return status;
}

struct wanted {
	const char *name;
	size_t bytes;
	struct g4_dir_entry *entry;
};

static bool is_wanted(void *context, const struct g4_entry_view *view)
{
	const struct wanted *wanted = context;

	if (view->entry.name_bytes != wanted->bytes || memcmp(view->name, wanted->name, wanted->bytes) != 0)
		return false;
	*wanted->entry = view->entry;
	return true;
}

int g4_image_find_entry(struct g4_image *image, uint64_t dir_ino, const char *name, size_t bytes,
			struct g4_dir_entry *entry)
{
	struct wanted wanted = {.name = name, .bytes = bytes, .entry = entry};
	bool found = false;
	const int status = g4_image_each_entry(image, dir_ino, is_wanted, &wanted, &found);

	return status == 0 && !found ? -G4_E_NOENT : status;
}

int g4_image_resolve(struct g4_image *image, const char *path, uint64_t *ino)
{
	struct g4_root root;
	int status = g4_image_root(image, &root);

	*ino = root.root_inode;
	while (status == 0) {
		path += strspn(path, "/");
		if (*path == 0)
			return 0;
		struct g4_dir_entry entry = {0};
		const size_t bytes = strcspn(path, "/");
		status = g4_image_find_entry(image, *ino, path, bytes, &entry);
		*ino = entry.inode;
		path += bytes;
	}
	return status;
}
