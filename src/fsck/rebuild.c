/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories built anew: the entries of all pages that can still be read go, in the order of their hashes, into new
 * leaves under new index pages. The old pages stay as they are until the maps say that nothing uses them, so an
 * interruption loses nothing.
 *
 * A leaf does not say whose it is. One that no index leads to is taken to be of the only directory that misses pages,
 * or of the one that a subdirectory in it calls its parent; else the inodes that it names go to lost+found. A leaf that
 * two directories lead to leaves its names in both: hard links, of which none is wrong.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "dir/dir.h"
#include "dir/leaf.h"
#include "fsck/fix.h"
#include "fsck/plan.h"
#include "fsck/report.h"
#include "fsck/space.h"
#include "fsck/tables.h"
#include "fsck/task.h"
#include "hash/siphash.h"
#include "journal/block.h"

/* Filled to this, so that the next names do not split every leaf. */
#define LEAF_UNITS_WANTED 200u
#define INDEX_ENTRIES_WANTED 200u

struct item {
	uint64_t ino;
	uint64_t name_at;
	uint32_t hash;
	uint16_t collision;
	uint8_t name_bytes, file_type;
};

struct child {
	struct g4_address address;
	uint64_t low; /* the lowest position */
};

struct builder {
	struct g4_fsck *fsck;
	struct item *items;
	uint64_t count, room;
	uint8_t *names;
	uint64_t name_bytes, name_room;
	struct g4_address *stack;
	uint64_t depth, stack_room;
	struct g4_fsck_table visited;
	struct child *children;
	uint64_t child_count, child_room;
	uint64_t pages;	 /* of the new tree */
	uint64_t keeper; /* the task that what hangs at damaged index pages is noted for; NO_TASK: it is not */
	bool missing;	 /* some pages can not be read */
	bool doubtful;	 /* some entries come out of damaged pages */
};

#define NO_TASK UINT64_MAX

static void free_builder(struct builder *b)
{
	free(b->items);
	free(b->names);
	free(b->stack);
	free(b->visited.cells);
	free(b->children);
}

/* ------------------------------------------------------------------ collecting */

static uint32_t hash_of(const struct builder *b, const uint8_t *name, uint32_t bytes)
{
	return (uint32_t)g4_siphash13(b->fsck->image->sb.hash_key, name, bytes);
}

/* The inode knows its type better than an entry that may be damaged. */
static uint8_t type_of(struct g4_fsck *fsck, const struct g4_dir_entry *entry)
{
	struct g4_inode inode;

	if (g4_image_inode(fsck->image, entry->inode, &inode) == 0)
		return (uint8_t)(inode.mode >> 12);
	return S_IFREG >> 12; /* the next round drops the name */
}

/* Makes a name of what can be none: no slash, no zero, not "." or "..". */
static void mend_name(uint8_t *name, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++) {
		if (name[i] == '/' || name[i] == 0)
			name[i] = '_';
	}
	if (name[0] == '.' && (bytes == 1 || (bytes == 2 && name[1] == '.')))
		name[0] = '_';
}

static void add_item(struct builder *b, const struct g4_dir_entry *entry, const uint8_t *name, uint32_t name_bytes)
{
	struct g4_fsck *fsck = b->fsck;

	while (b->name_bytes + name_bytes > b->name_room) {
		if (!g4_fsck_reserve(fsck, (void **)&b->names, b->name_room, &b->name_room, 1))
			return;
	}
	if (!g4_fsck_reserve(fsck, (void **)&b->items, b->count, &b->room, sizeof(*b->items)))
		return;
	memcpy(b->names + b->name_bytes, name, name_bytes);
	mend_name(b->names + b->name_bytes, name_bytes);
	b->items[b->count++] = (struct item){
		.ino = entry->inode,
		.name_at = b->name_bytes,
		.hash = hash_of(b, b->names + b->name_bytes, name_bytes),
		.collision = entry->collision,
		.name_bytes = (uint8_t)name_bytes,
		.file_type = type_of(fsck, entry),
	};
	b->name_bytes += name_bytes;
}

static bool take_entry(void *context, const struct g4_entry_view *view)
{
	add_item(context, &view->entry, view->name, view->entry.name_bytes);
	return false;
}

/* Out of a page whose checksum is wrong: an entry counts when its name has the hash that it says. */
static void take_doubtful_entries(struct builder *b, const struct g4_dir_leaf *leaf)
{
	for (uint32_t unit = G4_DIR_HEADER_UNITS; unit < G4_DIR_UNITS;) {
		const uint8_t *at = &leaf->units[(unit - G4_DIR_HEADER_UNITS) * G4_DIR_UNIT_BYTES];
		struct g4_dir_entry entry;
		memcpy(&entry, at, sizeof(entry));
		const uint32_t units = 1 + (entry.name_bytes + G4_DIR_UNIT_BYTES - 1u) / G4_DIR_UNIT_BYTES;
		const bool used = (leaf->used[unit / 64] >> (unit % 64) & 1) != 0;
		if (used && entry.name_bytes != 0 && units <= G4_DIR_UNITS - unit &&
		    g4_ino_plausible(entry.inode, &b->fsck->image->layout) &&
		    hash_of(b, at + sizeof(entry), entry.name_bytes) == entry.hash) {
			add_item(b, &entry, at + sizeof(entry), entry.name_bytes);
			unit += units;
		} else {
			unit++;
		}
	}
}

static void push(struct builder *b, struct g4_address address)
{
	if (!g4_address_starts_page(address) || !g4_layout_holds(&b->fsck->image->layout, address) ||
	    g4_fsck_find(&b->visited, g4_address_page(address)) != NULL)
		return;
	if (g4_fsck_add(b->fsck, &b->visited, g4_address_page(address)) == NULL ||
	    !g4_fsck_reserve(b->fsck, (void **)&b->stack, b->depth, &b->stack_room, sizeof(*b->stack)))
		return;
	b->stack[b->depth++] = address;
}

static bool header_is_right(const struct builder *b, const struct g4_block_header *header, struct g4_address address)
{
	return header->magic == G4_BLOCK_MAGIC && header->fs_tag == b->fsck->image->fs_tag &&
	       header->address == g4_address_stored(address);
}

static bool is_taken(const struct builder *b, struct g4_address address)
{
	return g4_fsck_bit(b->fsck->used, g4_address_page(address));
}

/* As far as its group's map can be read. */
static bool is_allocated(const struct builder *b, struct g4_address address)
{
	const uint64_t page = g4_address_page(address);

	return g4_fsck_bit(b->fsck->bad_group, page / G4_GROUP_PAGES) || g4_fsck_bit(b->fsck->alloc_used, page);
}

/* A child of a damaged index page is this directory's, if nobody else has it. That is said once: as soon as it is kept somebody has it. */
static void push_doubtful(struct builder *b, struct g4_address address)
{
	if (!g4_address_starts_page(address) || is_taken(b, address) || !is_allocated(b, address))
		return;
	push(b, address);
	if (b->keeper == NO_TASK)
		return;
	struct g4_fsck_cell *cell = g4_fsck_add(b->fsck, &b->fsck->adopted, g4_address_page(address));
	if (cell != NULL)
		cell->a = (uint32_t)b->keeper;
}

/* Children of an index page. */
static void push_children(struct builder *b, const struct g4_dir_index *index, bool whole)
{
	const uint32_t count = whole && index->count <= G4_DIR_INDEX_ENTRIES ? index->count : G4_DIR_INDEX_ENTRIES;

	for (uint32_t i = 0; i < count; i++) {
		const struct g4_address address = g4_address_from(index->entries[i].page);
		if (!g4_layout_holds(&b->fsck->image->layout, address))
			continue;
		if (whole)
			push(b, address);
		else
			push_doubtful(b, address);
	}
}

static void collect_page(struct builder *b, struct g4_address address)
{
	struct g4_fsck *fsck = b->fsck;
	union {
		uint8_t bytes[G4_PAGE_BYTES];
		struct g4_block_header header;
		struct g4_dir_leaf leaf;
		struct g4_dir_index index;
	} page = {.bytes = {0}};
	const void *contents;
	uint32_t type;

	int status = g4_image_page(fsck->image, address, &contents);
	if (status == 0)
		memcpy(page.bytes, contents, sizeof(page.bytes));
	if (status < 0 || !header_is_right(b, &page.header, address) ||
	    (page.header.type != G4_BLOCK_DIR_LEAF && page.header.type != G4_BLOCK_DIR_INDEX)) {
		b->missing = true;
		return;
	}
	status = g4_image_directory_page(fsck->image, address, page.bytes, &type);
	g4_fsck_set_bit(fsck->used, g4_address_page(address));
	b->doubtful = b->doubtful || status < 0;
	if (page.header.type == G4_BLOCK_DIR_INDEX)
		push_children(b, &page.index, status == 0);
	else if (status == 0)
		g4_leaf_each_entry(&page.leaf, address, take_entry, b);
	else
		take_doubtful_entries(b, &page.leaf);
}

static void collect(struct builder *b, uint64_t ino)
{
	struct g4_inode inode;

	if (g4_image_inode(b->fsck->image, ino, &inode) < 0)
		return;
	if (inode.map[0] != 0 && (inode.map[0] & G4_PTR_INDIRECT) == 0)
		push(b, g4_ptr_address(inode.map[0]));
	while (b->depth > 0 && b->fsck->fatal == 0)
		collect_page(b, b->stack[--b->depth]);
}

static void keep_directory(struct g4_fsck *fsck, uint64_t ino, uint64_t task)
{
	struct builder b = {.fsck = fsck, .keeper = task};

	collect(&b, ino);
	free_builder(&b);
}

void g4_fsck_keep_directory(struct g4_fsck *fsck, uint64_t task)
{
	keep_directory(fsck, fsck->tasks[task].ino, task);
}

/* ------------------------------------------------------------------ leaves that nothing leads to */

struct owner_search {
	struct g4_fsck *fsck;
	uint64_t owner; /* 0: no entry tells */
	bool possible;
	bool strict; /* every inode must be one that can be used and that nothing else names */
	bool alone;  /* none may be named by anything else: else these are old pages of a directory that is there */
	uint32_t entries;
};

static bool ask_entry(void *context, const struct g4_entry_view *view)
{
	struct owner_search *search = context;
	struct g4_fsck *fsck = search->fsck;
	struct g4_inode inode;
	const struct g4_address address = g4_ptr_address(view->entry.inode);
	const uint32_t hash = (uint32_t)g4_siphash13(fsck->image->sb.hash_key, view->name, view->entry.name_bytes);

	if (hash != view->entry.hash) {
		search->possible = false;
		return true;
	}
	const bool usable = g4_image_inode(fsck->image, view->entry.inode, &inode) == 0;
	const struct g4_fsck_cell *slab = g4_fsck_find(&fsck->slabs, g4_address_page(address));
	const bool met = slab != NULL && (slab->b >> g4_slab_slot_of(address) & 1) != 0;
	search->entries++;
	if ((search->strict && !usable) || ((search->strict || search->alone) && met)) {
		search->possible = false;
		return true;
	}
	if (usable && S_ISDIR(inode.mode) && !met)
		search->owner = inode.parent;
	return false;
}

/* The task of the directory that a lost leaf belongs to, or task_count. */
static uint64_t find_owner(struct g4_fsck *fsck, const struct g4_dir_leaf *leaf, struct g4_address address)
{
	struct owner_search search = {
		.fsck = fsck,
		.possible = true,
		.strict = g4_fsck_bit(fsck->bad_group, g4_address_page(address) / G4_GROUP_PAGES),
	};
	uint64_t only = fsck->task_count, candidates = 0;

	g4_leaf_each_entry(leaf, address, ask_entry, &search);
	for (uint64_t i = 0; search.possible && i < fsck->task_count; i++) {
		if (fsck->tasks[i].kind != G4_FSCK_REBUILD || !fsck->tasks[i].missing)
			continue;
		if (fsck->tasks[i].ino == search.owner)
			return i;
		only = i;
		candidates++;
	}
	return candidates == 1 && search.owner == 0 ? only : fsck->task_count;
}

static bool anybody_misses_pages(const struct g4_fsck *fsck)
{
	for (uint64_t i = 0; i < fsck->task_count; i++) {
		if (fsck->tasks[i].kind == G4_FSCK_REBUILD && fsck->tasks[i].missing)
			return true;
	}
	return false;
}

static void adopt(struct g4_fsck *fsck, uint64_t page)
{
	union {
		struct g4_dir_leaf leaf;
		struct g4_dir_index index;
	} copy;
	uint32_t type;

	if (g4_image_directory_page(fsck->image, g4_page_address(page), &copy, &type) < 0 || type != G4_BLOCK_DIR_LEAF)
		return;
	const uint64_t owner = find_owner(fsck, &copy.leaf, g4_page_address(page));
	if (owner == fsck->task_count)
		return;
	struct g4_fsck_cell *cell = g4_fsck_add(fsck, &fsck->adopted, page);
	if (cell == NULL)
		return;
	cell->a = (uint32_t)owner;
	g4_fsck_set_bit(fsck->used, page);
}

/* Directories that nothing leads to have their own pages, which are nobody else's. */
static void keep_lost_directories(struct g4_fsck *fsck)
{
	uint64_t count;

	g4_fsck_find_slabs(fsck);
	uint64_t *pages = g4_fsck_keys(fsck, &fsck->slabs, &count);
	for (uint64_t i = 0; i < count; i++) {
		const struct g4_fsck_cell *slab = g4_fsck_find(&fsck->slabs, pages[i]);
		uint32_t unmet = slab->c != 0 ? 0 : slab->a & ~slab->b & 0xfffeu;
		for (; unmet != 0; unmet &= unmet - 1) {
			const uint32_t slot = (uint32_t)__builtin_ctz(unmet);
			const uint64_t ino = g4_ino_of_slot(g4_page_address(pages[i]), slot);
			struct g4_inode inode;
			if (g4_image_inode(fsck->image, ino, &inode) == 0 && S_ISDIR(inode.mode) && inode.nlink != 0)
				keep_directory(fsck, ino, NO_TASK);
		}
	}
	free(pages);
}

void g4_fsck_adopt_leaves(struct g4_fsck *fsck)
{
	if (!anybody_misses_pages(fsck))
		return;
	keep_lost_directories(fsck);
	for (uint64_t word = 0; word < fsck->bitmap_words && fsck->fatal == 0; word++) {
		const bool unknown = g4_fsck_bit(fsck->bad_group, word * 64 / G4_GROUP_PAGES);
		uint64_t candidates = (unknown ? UINT64_MAX : fsck->alloc_used[word]) & ~fsck->used[word];
		for (; candidates != 0; candidates &= candidates - 1)
			adopt(fsck, word * 64 + (uint64_t)__builtin_ctzll(candidates));
	}
}

static void rescue(struct g4_fsck *fsck, uint64_t page)
{
	const struct g4_address address = g4_page_address(page);
	struct owner_search search = {.fsck = fsck, .possible = true, .alone = true};
	struct g4_dir_leaf leaf;

	search.strict = g4_fsck_bit(fsck->bad_group, page / G4_GROUP_PAGES);
	if (g4_image_block(fsck->image, address, G4_BLOCK_DIR_LEAF, &leaf) < 0 ||
	    g4_dir_leaf_validate(&leaf, &fsck->image->layout) < 0)
		return;
	g4_leaf_each_entry(&leaf, address, ask_entry, &search);
	if (!search.possible || search.entries == 0)
		return;
	const struct g4_fsck_task task = {
		.kind = G4_FSCK_RESCUE,
		.where = {.dir = G4_NO_DIR},
		.ptr = g4_ptr_make(address, G4_TAG_4K, G4_PTR_VALID),
	};
	fsck->problems++;
	g4_fsck_add_task(fsck, &task);
}

bool g4_fsck_rescue_leaves(struct g4_fsck *fsck)
{
	const uint64_t before = fsck->task_count;

	for (uint64_t word = 0; word < fsck->bitmap_words && fsck->fatal == 0; word++) {
		const bool unknown = g4_fsck_bit(fsck->bad_group, word * 64 / G4_GROUP_PAGES);
		uint64_t candidates = (unknown ? UINT64_MAX : fsck->alloc_used[word]) & ~fsck->used[word];
		for (; candidates != 0; candidates &= candidates - 1)
			rescue(fsck, word * 64 + (uint64_t)__builtin_ctzll(candidates));
	}
	return fsck->task_count != before;
}

static void collect_adopted(struct builder *b, uint64_t task)
{
	uint64_t count;
	uint64_t *pages = g4_fsck_keys(b->fsck, &b->fsck->adopted, &count);

	for (uint64_t i = 0; i < count; i++) {
		if (g4_fsck_find(&b->fsck->adopted, pages[i])->a == task)
			push(b, g4_page_address(pages[i]));
	}
	free(pages);
	while (b->depth > 0 && b->fsck->fatal == 0)
		collect_page(b, b->stack[--b->depth]);
}

static void collect_additions(struct builder *b, uint64_t dir)
{
	for (uint64_t i = 0; i < b->fsck->addition_count; i++) {
		const struct g4_fsck_addition *addition = &b->fsck->additions[i];
		const struct g4_dir_entry entry = {.inode = addition->ino, .file_type = addition->file_type};
		if (addition->dir == dir)
			add_item(b, &entry, (const uint8_t *)addition->name, (uint32_t)strlen(addition->name));
	}
}

/* ------------------------------------------------------------------ names */

static struct builder *sorted; /* qsort() has no context; one directory is built at a time */

static int compare_names(const struct item *x, const struct item *y)
{
	const uint32_t shorter = x->name_bytes < y->name_bytes ? x->name_bytes : y->name_bytes;
	const int order = memcmp(sorted->names + x->name_at, sorted->names + y->name_at, shorter);

	return order != 0 ? order : (int)x->name_bytes - (int)y->name_bytes;
}

/* By hash; of equal hash by name, of equal names the older collision number first. */
static int compare_items(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	const int order = compare_names(x, y);
	if (order != 0)
		return order;
	return x->collision != y->collision ? (x->collision < y->collision ? -1 : 1) :
	       x->ino != y->ino		    ? (x->ino < y->ino ? -1 : 1) :
					      0;
}

/* A name that is there twice gets "~1", "~2", ... at its end; what comes of that is sorted again. */
static void rename_item(struct builder *b, struct item *item, uint32_t number, const struct g4_fsck_where *where)
{
	uint8_t name[G4_NAME_MAX];
	char suffix[16];
	const uint32_t more = (uint32_t)snprintf(suffix, sizeof(suffix), "~%u", number);
	const uint32_t kept = item->name_bytes + more > G4_NAME_MAX ? G4_NAME_MAX - more : item->name_bytes;
	struct g4_dir_entry entry = {.inode = item->ino, .file_type = item->file_type, .collision = 0};

	memcpy(name, b->names + item->name_at, kept);
	memcpy(name + kept, suffix, more);
	g4_fsck_change(b->fsck, G4_FSCK_REPAIRED, where, 0, 0,
		       "the second '%.*s' of the directory is called '%.*s' now", (int)item->name_bytes,
		       (const char *)b->names + item->name_at, (int)(kept + more), (const char *)name);
	const uint64_t at = (uint64_t)(item - b->items);
	add_item(b, &entry, name, kept + more);
	if (b->fsck->fatal == 0)
		b->items[at] = b->items[--b->count];
}

/* Sorts; of one name that leads to one inode twice, one stays. */
static void sort_items(struct builder *b)
{
	uint64_t kept = 0;

	sorted = b;
	if (b->count > 1)
		qsort(b->items, b->count, sizeof(*b->items), compare_items);
	for (uint64_t i = 0; i < b->count; i++) {
		const bool same_name = kept > 0 && b->items[kept - 1].hash == b->items[i].hash &&
				       compare_names(&b->items[kept - 1], &b->items[i]) == 0;
		if (!same_name || b->items[kept - 1].ino != b->items[i].ino)
			b->items[kept++] = b->items[i];
	}
	b->count = kept;
}

/* True when names occurred twice: the others got new ones, which have to be sorted in. */
static bool separate_names(struct builder *b, const struct g4_fsck_where *where)
{
	uint64_t first = 0;
	bool again = false;

	sort_items(b);
	for (uint64_t i = 1; i < b->count && b->fsck->fatal == 0; i++) {
		if (b->items[first].hash != b->items[i].hash || compare_names(&b->items[first], &b->items[i]) != 0) {
			first = i;
			continue;
		}
		rename_item(b, &b->items[i], (uint32_t)(i - first), where);
		again = true;
	}
	return again;
}

static int compare_numbers(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return (int)x->collision - (int)y->collision;
}

/*
 * Items of one hash, at most G4_COLLISIONS: a number stays unless an earlier one has it, for it is somebody's place in a listing. Sorted
 * by it.
 */
static void number_collisions(struct item *items, uint64_t count)
{
	enum { HAD = 1, TAKEN = 2 };
	static uint8_t numbers[G4_COLLISIONS]; /* all 0 between two hashes; one directory is built at a time */
	uint32_t next = 0;

	for (uint64_t i = 0; i < count; i++)
		numbers[items[i].collision] = HAD;
	for (uint64_t i = 0; i < count; i++) {
		if (numbers[items[i].collision] & TAKEN) {
			while (numbers[next] != 0)
				next++;
			items[i].collision = (uint16_t)next;
		}
		numbers[items[i].collision] |= TAKEN;
	}
	for (uint64_t i = 0; i < count; i++) /* each that was marked is an item's */
		numbers[items[i].collision] = 0;
	qsort(items, count, sizeof(*items), compare_numbers);
}

/* ------------------------------------------------------------------ the new tree */

static bool add_child(struct builder *b, struct g4_address address, uint64_t low)
{
	if (!g4_fsck_reserve(b->fsck, (void **)&b->children, b->child_count, &b->child_room, sizeof(*b->children)))
		return false;
	b->children[b->child_count++] = (struct child){.address = address, .low = low};
	b->pages++;
	return true;
}

/* None: there is no room, or no memory. */
static struct g4_address new_page(struct builder *b, uint8_t **page)
{
	const struct g4_address address = g4_fsck_find_room(b->fsck, 1);

	*page = g4_address_is_none(address) ? NULL : g4_fsck_edit(b->fsck, address);
	if (*page == NULL)
		return G4_NO_ADDRESS;
	memset(*page, 0, G4_PAGE_BYTES);
	return address;
}

static void put_entry(struct builder *b, struct g4_dir_leaf *leaf, uint32_t unit, const struct item *item)
{
	uint8_t *at = &leaf->units[(unit - G4_DIR_HEADER_UNITS) * G4_DIR_UNIT_BYTES];
	const struct g4_dir_entry entry = {
		.inode = item->ino,
		.hash = item->hash,
		.collision = item->collision,
		.name_bytes = item->name_bytes,
		.file_type = item->file_type,
	};

	memcpy(at, &entry, sizeof(entry));
	memcpy(at + sizeof(entry), b->names + item->name_at, item->name_bytes);
	for (uint32_t i = unit; i < unit + g4_leaf_units_for(item->name_bytes); i++)
		leaf->used[i / 64] |= UINT64_C(1) << i % 64;
}

/* The end of the items that share the hash of `first`. */
static uint64_t end_of_hash(const struct builder *b, uint64_t first, uint32_t *units)
{
	uint64_t end = first;

	for (*units = 0; end < b->count && b->items[end].hash == b->items[first].hash; end++)
		*units += g4_leaf_units_for(b->items[end].name_bytes);
	return end;
}

/* Where the leaf begins whose first item this is: before the first of its hash, or with it. */
static uint64_t low_of(const struct builder *b, uint64_t first)
{
	const struct item *item = &b->items[first];

	if (first == 0)
		return 0;
	return g4_dir_position(item->hash, item[-1].hash == item->hash ? item->collision : 0);
}

/* One leaf with items from `first` on; returns the first that is not in it. */
static uint64_t build_leaf(struct builder *b, uint64_t first)
{
	uint8_t *page;
	const struct g4_address address = new_page(b, &page);
	uint32_t unit = G4_DIR_HEADER_UNITS;
	uint64_t at = first;

	if (g4_address_is_none(address))
		return b->count;
	struct g4_dir_leaf *leaf = (struct g4_dir_leaf *)(void *)page;
	leaf->used[0] = (UINT64_C(1) << G4_DIR_HEADER_UNITS) - 1;
	while (at < b->count) {
		uint32_t units;
		const uint64_t end = end_of_hash(b, at, &units);
		if (at > first && unit + units > LEAF_UNITS_WANTED)
			break;
		for (; at < end && unit + g4_leaf_units_for(b->items[at].name_bytes) <= G4_DIR_UNITS; at++) {
			put_entry(b, leaf, unit, &b->items[at]);
			unit += g4_leaf_units_for(b->items[at].name_bytes);
		}
		if (at < end) { /* more names of one hash than a leaf holds */
			b->fsck->image->sb.features_incompat |= G4_FEATURE_INCOMPAT_EQUAL_HASHES;
			break;
		}
	}
	g4_fsck_seal(b->fsck, address, G4_BLOCK_DIR_LEAF);
	return add_child(b, address, low_of(b, first)) ? at : b->count;
}

/* Index pages over children [first, end); they become children themselves. */
static void build_level(struct builder *b, uint64_t first, uint64_t end, uint32_t level)
{
	while (first < end && b->fsck->fatal == 0) {
		uint8_t *page;
		const struct g4_address address = new_page(b, &page);
		struct g4_dir_index *index = (struct g4_dir_index *)(void *)page;
		if (g4_address_is_none(address))
			return;
		const uint64_t low = b->children[first].low;
		index->level = level;
		index->count = (uint32_t)g4_min64(end - first, INDEX_ENTRIES_WANTED);
		for (uint32_t i = 0; i < index->count; i++, first++) {
			index->entries[i].hash = (uint32_t)(b->children[first].low >> 16);
			index->entries[i].collision = (uint32_t)(b->children[first].low & UINT16_MAX);
			index->entries[i].page = g4_address_stored(b->children[first].address);
		}
		g4_fsck_seal(b->fsck, address, G4_BLOCK_DIR_INDEX);
		if (!add_child(b, address, low))
			return;
	}
}

/* The new tree's root; none for an empty directory. */
static struct g4_address build_tree(struct builder *b)
{
	uint64_t first = 0;

	for (uint64_t i = 0; i < b->count;) {
		uint32_t units;
		uint64_t end = end_of_hash(b, i, &units);
		if (end - i >
		    G4_COLLISIONS) { /* more than there are numbers: the rest go to lost+found by their inodes */
			memmove(&b->items[i + G4_COLLISIONS], &b->items[end], (b->count - end) * sizeof(*b->items));
			b->count -= end - i - G4_COLLISIONS;
			end = i + G4_COLLISIONS;
		}
		number_collisions(&b->items[i], end - i);
		i = end;
	}
	for (uint64_t at = 0; at < b->count && b->fsck->fatal == 0;)
		at = build_leaf(b, at);
	for (uint32_t level = 1; b->child_count - first > 1 && b->fsck->fatal == 0 && !b->fsck->no_room; level++) {
		const uint64_t end = b->child_count;
		build_level(b, first, end, level);
		first = end;
	}
	return b->child_count == 0 ? G4_NO_ADDRESS : b->children[b->child_count - 1].address;
}

static uint64_t attribute_pages(struct g4_fsck *fsck, g4_ptr ptr)
{
	struct g4_xattr_page page;
	uint64_t pages = 0;

	while (ptr != 0 && pages < G4_GROUP_PAGES &&
	       g4_image_block(fsck->image, g4_ptr_address(ptr), G4_BLOCK_XATTR, &page) == 0) {
		pages++;
		ptr = page.next;
	}
	return pages;
}

void g4_fsck_rebuild_directory(struct g4_fsck *fsck, uint64_t task)
{
	const struct g4_fsck_where where = fsck->tasks[task].where;
	const uint64_t ino = fsck->tasks[task].ino;
	struct builder b = {.fsck = fsck, .keeper = NO_TASK};

	collect(&b, ino);
	const bool missing = b.missing || fsck->tasks[task].missing;
	collect_adopted(&b, task);
	const uint64_t kept = b.count;
	collect_additions(&b, ino);
	while (separate_names(&b, &where) && fsck->fatal == 0)
		;
	sorted = NULL;
	const struct g4_address root = build_tree(&b);
	struct g4_inode *inode = fsck->fatal != 0 || fsck->no_room ? NULL : g4_fsck_edit_inode(fsck, ino);
	if (inode != NULL) {
		struct g4_fsck_cell *dropped = g4_fsck_find(&fsck->dropped, ino);
		g4_fsck_missing_names(fsck, inode, dropped == NULL ? 0 : dropped->a, kept);
		if (dropped != NULL)
			dropped->a = 0;
		memset(inode->map, 0, sizeof(inode->map));
		inode->map_height = 0;
		inode->map[0] = g4_address_is_none(root) ? 0 : g4_ptr_make(root, G4_TAG_4K, G4_PTR_VALID);
		inode->pages = b.pages + attribute_pages(fsck, inode->xattr);
		inode->entries = (uint32_t)b.count;
		g4_fsck_seal_inode(fsck, ino);
		g4_fsck_change(fsck, G4_FSCK_REPAIRED, &where, 0, 0,
			       "the directory is built anew from %" PRIu64 " names", b.count);
		if (missing)
			g4_fsck_change(fsck, G4_FSCK_LOST, &where, 0, 0,
				       "names in pages that can not be read; their files go to lost+found");
		else if (b.doubtful)
			g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, &where, 0, 0,
				       "names out of damaged pages; files whose names are lost go to lost+found");
	}
	free_builder(&b);
}
