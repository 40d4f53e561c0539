/* SPDX-License-Identifier: Apache-2.0 */
/* Repairs for the end of a round, when everything that can be reached was met. */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "fsck/fix.h"
#include "fsck/owners.h"
#include "fsck/plan.h"
#include "fsck/report.h"
#include "fsck/shared_map.h"
#include "fsck/shares.h"
#include "fsck/space.h"
#include "fsck/tables.h"
#include "fsck/task.h"
#include "journal/block.h"

#define LOST_AND_FOUND "lost+found"

/* ------------------------------------------------------------------ damaged indirect pages */

/* Contents whose owners are counted, and not all of them were met: this is one of those. */
static bool has_more_owners(const struct g4_fsck *fsck, uint64_t page)
{
	const struct g4_fsck_owners *owners = g4_fsck_find_owners(fsck, page / G4_REGION_PAGES);
	const uint32_t at = (uint32_t)(page % G4_REGION_PAGES);

	return owners != NULL && (owners->data[at / 64] >> at % 64 & 1) != 0 && owners->counted[at] > owners->met[at];
}

/* The same of an indirect page. */
static bool has_more_maps(const struct g4_fsck *fsck, uint64_t page)
{
	const struct g4_fsck_owners *owners = g4_fsck_find_owners(fsck, page / G4_REGION_PAGES);
	const uint32_t at = (uint32_t)(page % G4_REGION_PAGES);

	return owners != NULL && fsck->maps != NULL && g4_fsck_bit(fsck->maps, page) &&
	       owners->counted[at] > owners->met[at];
}

/*
 * A pointer out of a damaged page counts when it leads to what the maps call used, and nobody else uses that, or fewer than are
 * counted.
 */
static bool is_credible(struct g4_fsck *fsck, g4_ptr ptr, uint32_t height)
{
	const struct g4_layout *layout = &fsck->image->layout;
	const uint64_t first = g4_address_page(g4_ptr_address(ptr)), pages = g4_tag_pages(g4_ptr_tag(ptr));

	if (g4_ptr_validate(ptr, layout) != 0)
		return false;
	if ((ptr & G4_PTR_INDIRECT) != 0 ? height == 0 : height > 2 || g4_ptr_tag(ptr) != G4_TAG_4K + height)
		return false;
	for (uint64_t page = first; page < first + pages; page++) {
		const bool unknown = g4_fsck_bit(fsck->bad_group, page / G4_GROUP_PAGES);
		const bool data = (ptr & (G4_PTR_INDIRECT | G4_PTR_VALID)) == G4_PTR_VALID;
		const bool more = data			       ? has_more_owners(fsck, page) :
				  (ptr & G4_PTR_INDIRECT) != 0 ? has_more_maps(fsck, page) :
								 false;
		if ((g4_fsck_bit(fsck->used, page) && !more) || (!unknown && !g4_fsck_bit(fsck->alloc_used, page)))
			return false;
	}
	return true;
}

/* The pointer is believed. The next round meets it like any other; until then others out of damaged pages know of it. */
static void keep_page(struct g4_fsck *fsck, uint64_t page, bool data)
{
	const uint64_t bit = UINT64_C(1) << page % 64;
	const uint64_t first = fsck->used[page / 64] & bit ? 0 : bit;

	fsck->used[page / 64] |= bit;
	if (data)
		g4_fsck_meet_owners(fsck, page / 64, first, bit & ~first);
	else if (first == 0)
		g4_fsck_meet_map(fsck, page);
}

static void tell_salvaged(struct g4_fsck *fsck, const struct g4_fsck_task *task, uint32_t slot, bool kept)
{
	const uint64_t span = G4_PAGE_BYTES << 9 * (task->height - 1);

	g4_fsck_change(fsck, kept ? G4_FSCK_DOUBTFUL : G4_FSCK_LOST, &task->where,
		       task->file_page * G4_PAGE_BYTES + slot * span, span,
		       kept ? "pointers out of a damaged page" : "a pointer of a damaged page is impossible");
}

/* Whether a file's indirect page may be another one's, or several files'. */
static bool shares_map(struct g4_fsck *fsck, uint64_t ino)
{
	struct g4_inode inode;

	return fsck->maps != NULL && g4_image_inode(fsck->image, ino, &inode) == 0 &&
	       (inode.flags & G4_INODE_SHARES_MAP) != 0;
}

static void salvage_map(struct g4_fsck *fsck, const struct g4_fsck_task *task)
{
	const struct g4_address address = g4_ptr_address(task->ptr);
	struct g4_map_item item = {.file_page = task->file_page,
				   .height = task->height,
				   .ptr = task->ptr,
				   .page = task->spot.page,
				   .slot = task->spot.slot};
	const bool shares = shares_map(fsck, task->ino);
	g4_le64 slots[G4_INDIRECT_SLOTS];
	struct g4_indirect_header header;
	uint32_t kept = 0;

	const int status = g4_image_indirect(fsck->image, address, slots, &header);
	const bool ours = header.header.magic == G4_BLOCK_MAGIC && header.header.type == G4_BLOCK_INDIRECT &&
			  header.header.fs_tag == fsck->image->fs_tag &&
			  header.header.address == g4_address_stored(address) &&
			  (header.inode == task->ino || shares) && header.level == task->height;
	if (shares && ours && status == 0) {
		g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, &task->where, task->file_page * G4_PAGE_BYTES,
			       G4_PAGE_BYTES << 9 * task->height,
			       "pointers out of a damaged page, which others have, too");
		return; /* as a task of another owner has left it; the next round meets it */
	}
	if (status != -G4_E_CHECKSUM || !ours || g4_fsck_bit(fsck->used, g4_address_page(address))) {
		g4_fsck_cut(fsck, &task->where, &item);
		return;
	}
	for (uint32_t slot = 0; slot < G4_INDIRECT_SLOTS; slot++) {
		if (slots[slot] == 0)
			continue;
		const bool credible = is_credible(fsck, slots[slot], task->height - 1);
		tell_salvaged(fsck, task, slot, credible);
		kept += credible;
		if (!credible)
			slots[slot] = 0;
		for (uint64_t page = 0; credible && page < g4_tag_pages(g4_ptr_tag(slots[slot])); page++) {
			const uint64_t at = g4_address_page(g4_ptr_address(slots[slot])) + page;
			keep_page(fsck, at, (slots[slot] & G4_PTR_INDIRECT) == 0);
		}
	}
	uint8_t *patch = kept == 0 ? NULL : g4_fsck_edit(fsck, address);
	if (patch == NULL) {
		g4_fsck_cut(fsck, &task->where, &item);
		return;
	}
	memcpy(patch, slots, sizeof(slots));
	g4_indirect_seal(patch, header.inode, task->height, address, fsck->sequence, fsck->image->fs_tag);
	g4_fsck_set_bit(fsck->used, g4_address_page(address));
}

/* ------------------------------------------------------------------ contents used twice */

static void copy_shared(struct g4_fsck *fsck, const struct g4_fsck_task *task)
{
	const uint64_t pages = g4_tag_pages(g4_ptr_tag(task->ptr));
	struct g4_map_item item = {.file_page = task->file_page,
				   .height = task->height,
				   .ptr = task->ptr,
				   .page = task->spot.page,
				   .slot = task->spot.slot};

	/* Never written: a hole reads the same. */
	if ((task->ptr & G4_PTR_VALID) == 0) {
		g4_fsck_change(fsck, G4_FSCK_REPAIRED, &task->where, 0, 0, "space that another file uses is given up");
		g4_fsck_set_pointer(fsck, task->ino, &task->spot, 0);
		return;
	}
	const struct g4_address to = g4_fsck_find_room(fsck, pages);
	if (g4_address_is_none(to)) {
		fsck->no_room = false;
		g4_fsck_cut(fsck, &task->where, &item);
		return;
	}
	if (!g4_fsck_reserve(fsck, (void **)&fsck->copies, fsck->copy_count, &fsck->copy_room, sizeof(*fsck->copies)))
		return;
	fsck->copies[fsck->copy_count++] =
		(struct g4_fsck_copy){.from = g4_ptr_address(task->ptr), .to = to, .pages = pages};
	g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, &task->where, task->file_page * G4_PAGE_BYTES, pages * G4_PAGE_BYTES,
		       "contents that something else had, too; this file has a copy now");
	g4_fsck_tell_map(fsck, task->spot.page);
	g4_fsck_set_pointer(fsck, task->ino, &task->spot, (task->ptr & ~G4_PTR_OFFSET_MASK) | g4_address_stored(to));
}

/* ------------------------------------------------------------------ lost+found */

/* A slot of a slab that has one, or of a new slab; its number, 0: no room. */
static uint64_t take_slot(struct g4_fsck *fsck)
{
	struct g4_address address = G4_NO_ADDRESS;
	uint64_t count;
	uint64_t *pages = g4_fsck_keys(fsck, &fsck->slabs, &count);

	for (uint64_t i = 0; i < count && g4_address_is_none(address); i++) {
		const struct g4_fsck_cell *slab = g4_fsck_find(&fsck->slabs, pages[i]);
		if (slab->c == 0 && slab->a != UINT16_MAX && g4_fsck_bit(fsck->used, pages[i]))
			address = g4_page_address(pages[i]);
	}
	free(pages);
	const bool fresh = g4_address_is_none(address);
	if (fresh)
		address = g4_fsck_find_room(fsck, 1);
	struct g4_slab_header *slab =
		g4_address_is_none(address) ? NULL : (struct g4_slab_header *)(void *)g4_fsck_edit(fsck, address);
	if (slab == NULL)
		return 0;
	if (fresh) {
		memset(slab, 0, G4_PAGE_BYTES);
		slab->kind = G4_SLAB_INODES;
		slab->used = 1;
	}
	const uint32_t slot = (uint32_t)__builtin_ctz(~(uint32_t)slab->used);
	slab->used |= (g4_le16)(1u << slot);
	struct g4_fsck_cell *cell = g4_fsck_add(fsck, &fsck->slabs, g4_address_page(address));
	if (cell == NULL)
		return 0;
	cell->a = slab->used;
	return g4_ino_of_slot(address, slot);
}

static void make_directory(struct g4_fsck *fsck, uint64_t ino, uint64_t parent)
{
	struct g4_inode *inode = g4_fsck_edit_inode(fsck, ino);

	if (inode == NULL)
		return;
	g4_fsck_empty_directory(inode, 0700, parent);
	g4_fsck_seal_inode(fsck, ino);
}

static void rebuild(struct g4_fsck *fsck, uint64_t ino)
{
	const struct g4_fsck_task task = {.kind = G4_FSCK_REBUILD, .ino = ino, .where = {.dir = G4_NO_DIR, .ino = ino}};

	g4_fsck_add_task(fsck, &task);
}

/* The directory's number; it is made when there is none. 0: it can not be. */
static uint64_t lost_and_found(struct g4_fsck *fsck)
{
	struct g4_dir_entry entry;
	struct g4_inode inode;
	struct g4_root root;

	if (g4_image_root(fsck->image, &root) < 0)
		return 0;
	const int status =
		g4_image_find_entry(fsck->image, root.root_inode, LOST_AND_FOUND, strlen(LOST_AND_FOUND), &entry);
	if (status < 0 && status != -G4_E_NOENT)
		return 0;
	if (status == 0 && entry.file_type == S_IFDIR >> 12 && g4_image_inode(fsck->image, entry.inode, &inode) == 0 &&
	    S_ISDIR(inode.mode))
		return entry.inode;
	/* Another thing of that name keeps it; the directory will be "lost+found~1". */
	const uint64_t ino = take_slot(fsck);
	if (ino == 0)
		return 0;
	make_directory(fsck, ino, root.root_inode);
	g4_fsck_add_name(fsck, root.root_inode, ino, S_IFDIR >> 12, LOST_AND_FOUND);
	g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0, "made the directory " LOST_AND_FOUND);
	rebuild(fsck, root.root_inode);
	return ino;
}

static bool is_directory(struct g4_fsck *fsck, uint64_t ino)
{
	struct g4_inode inode;

	return g4_ino_plausible(ino, &fsck->image->layout) && g4_image_inode(fsck->image, ino, &inode) == 0 &&
	       S_ISDIR(inode.mode);
}

static void connect_inode(struct g4_fsck *fsck, const struct g4_fsck_task *task, uint64_t home)
{
	char name[40];

	snprintf(name, sizeof(name), "#%" PRIx64, g4_address_stored(g4_ptr_address(task->ino)));
	g4_fsck_add_name(fsck, home, task->ino, task->height, name);
	fsck->connected += g4_fsck_is_proven(fsck, task->ino);
	g4_fsck_change(fsck, G4_FSCK_REPAIRED, &task->where, 0, 0, "inode 0x%" PRIx64 " is now " LOST_AND_FOUND "/%s",
		       task->ino, name);
	if (task->height != S_IFDIR >> 12)
		return;
	struct g4_inode *inode = g4_fsck_edit_inode(fsck, task->ino);
	if (inode == NULL)
		return;
	fsck->dir_gone = fsck->dir_gone || !is_directory(fsck, inode->parent);
	inode->parent = home;
	g4_fsck_seal_inode(fsck, task->ino);
}

/* The leaf becomes the root of a new directory. Counts and the map are put right by the next rounds. */
static void rescue_leaf(struct g4_fsck *fsck, const struct g4_fsck_task *task, uint64_t home)
{
	const uint64_t ino = take_slot(fsck);
	char name[40];

	if (ino == 0)
		return;
	make_directory(fsck, ino, home);
	struct g4_inode *inode = g4_fsck_edit_inode(fsck, ino);
	if (inode == NULL)
		return;
	fsck->dir_gone = true;
	inode->map[0] = task->ptr;
	inode->pages = 1;
	g4_fsck_seal_inode(fsck, ino);
	snprintf(name, sizeof(name), "#names-%" PRIx64, g4_address_stored(g4_ptr_address(task->ptr)));
	g4_fsck_add_name(fsck, home, ino, S_IFDIR >> 12, name);
	g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0,
		       "names of a directory that is lost are now in " LOST_AND_FOUND "/%s", name);
}

static void connect_all(struct g4_fsck *fsck)
{
	const uint64_t count = fsck->task_count;
	uint64_t home = 0;

	for (uint64_t i = 0; i < count && fsck->fatal == 0; i++) {
		const struct g4_fsck_task task = fsck->tasks[i];
		if (task.kind != G4_FSCK_CONNECT && task.kind != G4_FSCK_RESCUE)
			continue;
		if (home == 0)
			home = lost_and_found(fsck);
		if (home == 0)
			return;
		if (task.kind == G4_FSCK_CONNECT)
			connect_inode(fsck, &task, home);
		else
			rescue_leaf(fsck, &task, home);
	}
	if (home != 0)
		rebuild(fsck, home);
}

/* ------------------------------------------------------------------ all tasks */

void g4_fsck_do_tasks(struct g4_fsck *fsck)
{
	for (uint64_t i = 0; i < fsck->task_count; i++) {
		if (fsck->tasks[i].kind == G4_FSCK_REBUILD)
			g4_fsck_keep_directory(fsck, i);
	}
	for (uint64_t i = 0; i < fsck->task_count && fsck->fatal == 0; i++) {
		const struct g4_fsck_task task = fsck->tasks[i];
		if (task.kind == G4_FSCK_SALVAGE)
			salvage_map(fsck, &task);
	}
	g4_fsck_adopt_leaves(fsck);
	for (uint64_t i = 0; i < fsck->task_count && fsck->fatal == 0; i++) {
		const struct g4_fsck_task task = fsck->tasks[i];
		if (task.kind == G4_FSCK_CLONE)
			copy_shared(fsck, &task);
	}
	connect_all(fsck);
	for (uint64_t i = 0; i < fsck->task_count && fsck->fatal == 0; i++) {
		if (fsck->tasks[i].kind == G4_FSCK_REBUILD)
			g4_fsck_rebuild_directory(fsck, i);
	}
}

/* ------------------------------------------------------------------ the orphan list */

void g4_fsck_relink_orphans(struct g4_fsck *fsck)
{
	const struct g4_address address = g4_layout_root(&fsck->image->layout);
	uint64_t head = 0, linked = 0;

	if (fsck->orphan_list_count > 1)
		qsort(fsck->orphan_list, fsck->orphan_list_count, sizeof(*fsck->orphan_list), g4_fsck_compare_numbers);
	for (uint64_t i = fsck->orphan_list_count; i-- > 0 && fsck->fatal == 0;) {
		const uint64_t ino = fsck->orphan_list[i];
		struct g4_inode *inode = ino == head ? NULL : g4_fsck_edit_inode(fsck, ino);
		if (inode == NULL)
			continue;
		inode->flags |= G4_INODE_ORPHAN;
		inode->orphan_next = head;
		g4_fsck_seal_inode(fsck, ino);
		head = ino;
		linked++;
	}
	struct g4_root *root = (struct g4_root *)(void *)g4_fsck_edit(fsck, address);
	if (root == NULL)
		return;
	root->orphan_head = head;
	g4_fsck_seal(fsck, address, G4_BLOCK_ROOT);
	g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0, "the orphan list is written anew, with %" PRIu64 " inodes",
		       linked);
}

/* ------------------------------------------------------------------ maps */

/* The map of a group by what was met; counts in *free_pages and *slabs. */
static void make_map(const struct g4_fsck *fsck, uint64_t group, struct g4_alloc_page *map, uint64_t *free_pages,
		     uint64_t *slabs)
{
	memset(map->regions, 0, sizeof(map->regions));
	memset(map->reserved, 0, sizeof(map->reserved));
	map->group = group;
	map->shares = fsck->group_shares == NULL ? 0 : g4_address_stored(fsck->group_shares[group]);
	*free_pages = G4_GROUP_PAGES;
	*slabs = 0;
	for (uint32_t word = 0; word < G4_FSCK_GROUP_WORDS; word++) {
		struct g4_region *region = &map->regions[word / G4_FSCK_REGION_WORDS];
		uint64_t used = fsck->used[group * G4_FSCK_GROUP_WORDS + word];
		region->used[word % G4_FSCK_REGION_WORDS] = used;
		*free_pages -= (uint64_t)__builtin_popcountll(used);
		for (used &= fsck->metadata[group * G4_FSCK_GROUP_WORDS + word]; used != 0; used &= used - 1) {
			const uint64_t bit = (uint64_t)__builtin_ctzll(used);
			const struct g4_fsck_cell *slab =
				g4_fsck_find(&fsck->slabs, (group * G4_FSCK_GROUP_WORDS + word) * 64 + bit);
			if (slab == NULL)
				slab = g4_fsck_find(&fsck->blocks, (group * G4_FSCK_GROUP_WORDS + word) * 64 + bit);
			if (slab == NULL || slab->c != 0 || slab->a == UINT16_MAX)
				continue;
			region->slab[word % G4_FSCK_REGION_WORDS] |= UINT64_C(1) << bit;
			++*slabs;
		}
	}
}

static bool map_is_right(struct g4_fsck *fsck, uint64_t group, const struct g4_alloc_page *wanted)
{
	struct g4_alloc_page page;
	const struct g4_address address = g4_layout_map_page(&fsck->image->layout, group);

	return g4_image_block(fsck->image, address, G4_BLOCK_ALLOC, &page) == 0 && page.group == group &&
	       page.shares == wanted->shares && memcmp(page.regions, wanted->regions, sizeof(page.regions)) == 0;
}

/* The right descriptor of a group, whose map is patched where it is wrong. */
static struct g4_group_descriptor mend_group(struct g4_fsck *fsck, uint64_t group,
					     const struct g4_group_descriptor *before)
{
	const struct g4_address address = g4_layout_map_page(&fsck->image->layout, group);
	struct g4_alloc_page wanted = {.group = 0};
	uint64_t free_pages, slabs;

	make_map(fsck, group, &wanted, &free_pages, &slabs);
	const bool untouched =
		free_pages == G4_GROUP_PAGES && (before == NULL || (before->flags & G4_GROUP_INITIALISED) == 0);
	if (!untouched && !map_is_right(fsck, group, &wanted)) {
		uint8_t *page = g4_fsck_edit(fsck, address);
		if (page != NULL)
			memcpy(page, &wanted, sizeof(wanted));
		g4_fsck_seal(fsck, address, G4_BLOCK_ALLOC);
		g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0,
			       "the allocation map of group %" PRIu64 " is what was found", group);
	}
	return (struct g4_group_descriptor){
		.free_pages = (g4_le16)free_pages,
		.slabs = (g4_le16)slabs,
		.flags = untouched ? 0 : G4_GROUP_INITIALISED,
	};
}

void g4_fsck_rebuild_maps(struct g4_fsck *fsck)
{
	const struct g4_layout *layout = &fsck->image->layout;

	g4_fsck_rebuild_owners(fsck);
	for (uint64_t first = 0; first < layout->group_count && fsck->fatal == 0; first += G4_GROUPS_PER_PAGE) {
		const struct g4_address address = g4_layout_groups_page(layout, first);
		const uint64_t count = g4_min64(layout->group_count - first, G4_GROUPS_PER_PAGE);
		struct g4_groups_page page;
		int status = g4_image_block(fsck->image, address, G4_BLOCK_GROUPS, &page);
		if (status == 0)
			status = g4_groups_page_validate(&page, first, layout->group_count);
		bool right = status == 0;
		for (uint64_t i = 0; i < count; i++) {
			const struct g4_group_descriptor wanted =
				mend_group(fsck, first + i, status == 0 ? &page.groups[i] : NULL);
			right = right && memcmp(&wanted, &page.groups[i], sizeof(wanted)) == 0;
			page.groups[i] = wanted;
		}
		uint8_t *patch = right ? NULL : g4_fsck_edit(fsck, address);
		if (patch == NULL)
			continue;
		page.first_group = first;
		memset(page.reserved, 0, sizeof(page.reserved));
		memset(&page.groups[count], 0, (G4_GROUPS_PER_PAGE - count) * sizeof(page.groups[0]));
		memcpy(patch, &page, sizeof(page));
		g4_fsck_seal(fsck, address, G4_BLOCK_GROUPS);
		g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0,
			       "the group descriptors from %" PRIu64 " on are counted anew", first);
	}
}
