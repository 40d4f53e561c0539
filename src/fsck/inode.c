/* SPDX-License-Identifier: Apache-2.0 */
/* Inodes: their block maps, attributes, page counts. */
#include <inttypes.h>
#include <sys/stat.h>

#include "format/indirect.h"
#include "fsck/claim.h"
#include "fsck/fix.h"
#include "fsck/inode.h"
#include "fsck/listed.h"
#include "fsck/plan.h"
#include "fsck/report.h"
#include "fsck/shared_map.h"
#include "fsck/space.h"
#include "fsck/tables.h"

/* ------------------------------------------------------------------ inodes */

/* The inode that a name leads to can not be used: its slot goes and, with it, the name. */
static enum g4_fsck_met give_up(struct g4_fsck *fsck, const struct g4_fsck_where *where)
{
	if (fsck->repairing && !g4_address_is_none(where->leaf_address)) {
		fsck->dir_gone = fsck->dir_gone || where->file_type == S_IFDIR >> 12;
		g4_fsck_change(fsck, G4_FSCK_LOST, where, 0, 0, "the inode 0x%" PRIx64 " and so the name", where->ino);
		g4_fsck_drop_entry(fsck, where);
	}
	return G4_FSCK_UNUSABLE;
}

/* An inode that is not valid: put right in its slab, or its slot is freed. */
static bool mend(struct g4_fsck *fsck, uint64_t ino, const struct g4_fsck_where *where, struct g4_inode *inode)
{
	struct g4_fsck_where here = *where;

	here.ino = ino;
	if (!g4_fsck_mend_inode(fsck, ino, inode, &here)) {
		if (g4_address_is_none(where->leaf_address))
			g4_fsck_change(fsck, G4_FSCK_LOST, &here, 0, 0, "the inode 0x%" PRIx64, ino);
		g4_fsck_free_slot(fsck, ino);
		return false;
	}
	struct g4_inode *slot = g4_fsck_edit_inode(fsck, ino);
	if (slot == NULL)
		return false;
	*slot = *inode;
	g4_fsck_seal_inode(fsck, ino);
	g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, &here, 0, 0, "fields of inode 0x%" PRIx64 " were impossible", ino);
	return true;
}

enum g4_fsck_met g4_fsck_meet(struct g4_fsck *fsck, uint64_t ino, const struct g4_fsck_where *where,
			      struct g4_inode *inode)
{
	const struct g4_address address = g4_ptr_address(ino);
	const uint64_t page = g4_address_page(address);
	const uint32_t slot = g4_slab_slot_of(address);
	struct g4_fsck_cell *slab = g4_fsck_slab(fsck, page, where);
	const void *data;

	if (slab == NULL)
		return G4_FSCK_UNUSABLE;
	if (slab->c != 0) {
		g4_fsck_problem(fsck, G4_FSCK_ENTRY, where, "inode 0x%" PRIx64 " can not be read: %s", ino,
				g4_strerror(-(int)slab->c));
		return give_up(fsck, where);
	}
	if ((slab->a >> slot & 1) == 0) {
		g4_fsck_problem(fsck, G4_FSCK_ENTRY, where, "inode 0x%" PRIx64 " is not in use", ino);
		return give_up(fsck, where);
	}
	int status = g4_image_page(fsck->image, g4_page_address(page), &data);
	if (status == 0) {
		memcpy(inode, (const uint8_t *)data + slot * G4_SLAB_SLOT_BYTES, sizeof(*inode));
		status = g4_inode_validate(inode, &fsck->image->layout);
	}
	const bool again = (slab->b >> slot & 1) != 0;
	const bool doubtful = !again && (slab->d & G4_FSCK_SALVAGED) != 0;
	const bool unproven = !again && (slab->d & (G4_FSCK_HIDDEN | G4_FSCK_UNCONFIRMED)) != 0;
	slab->b |= 1u << slot;
	if (status < 0) {
		if (!again)
			g4_fsck_problem(fsck, G4_FSCK_INODE, where, "inode 0x%" PRIx64 " is damaged", ino);
		if (!fsck->repairing)
			return G4_FSCK_UNUSABLE;
		if (!mend(fsck, ino, where, inode)) {
			slab = g4_fsck_find(&fsck->slabs, page);
			slab->a &= ~(1u << slot);
			return give_up(fsck, where);
		}
	} else if (fsck->repairing && doubtful) {
		struct g4_fsck_where here = *where;
		here.ino = ino;
		g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, &here, 0, 0, "inode 0x%" PRIx64 " comes out of a damaged page",
			       ino);
	}
	if (status == 0 && fsck->repairing && unproven && !g4_fsck_is_touched(fsck, ino))
		g4_fsck_disarm(fsck, ino, where);
	return again ? G4_FSCK_AGAIN : G4_FSCK_FIRST;
}

/* ------------------------------------------------------------------ block map */

static struct g4_fsck_task task_of(enum g4_fsck_task_kind kind, const struct g4_map_item *item,
				   const struct g4_fsck_where *where)
{
	return (struct g4_fsck_task){
		.kind = kind,
		.ino = where->ino,
		.where = *where,
		.spot = {.page = item->page, .slot = item->slot},
		.ptr = item->ptr,
		.file_page = item->file_page,
		.height = item->height,
	};
}

/* What can be kept of a damaged indirect page shows when all that others use is known. */
static void salvage_later(struct g4_fsck *fsck, const struct g4_map_item *item, const struct g4_fsck_where *where)
{
	const struct g4_fsck_task task = task_of(G4_FSCK_SALVAGE, item, where);

	g4_fsck_add_task(fsck, &task);
}

/* What is to be done about what hangs at an indirect page. */
enum below { SKIP, WALK, SHARED };

static void tell_damaged(struct g4_fsck *fsck, const struct g4_map_item *item, const struct g4_fsck_where *where,
			 int status)
{
	g4_fsck_note_broken(fsck, g4_ptr_address(item->ptr));
	g4_fsck_problem(fsck, G4_FSCK_MAP, where,
			"the indirect page at 0x%" PRIx64 ", for the contents from page %" PRIu64 " on, is damaged: %s",
			g4_address_stored(g4_ptr_address(item->ptr)), item->file_page, g4_strerror(status));
	if (fsck->repairing)
		salvage_later(fsck, item, where);
}

/* It is this file's and at its level, so the file has it twice. */
static void tell_twice(struct g4_fsck *fsck, const struct g4_map_item *item, const struct g4_fsck_where *where)
{
	g4_fsck_problem(fsck, G4_FSCK_SHARED, where, "the indirect page at 0x%" PRIx64 " is in the map twice",
			g4_address_stored(g4_ptr_address(item->ptr)));
	if (fsck->repairing)
		g4_fsck_cut(fsck, where, item);
}

static enum below check_indirect(struct g4_fsck *fsck, const struct g4_map_item *item,
				 const struct g4_fsck_where *where)
{
	const struct g4_map_item here = *item;
	const struct g4_address address = g4_ptr_address(here.ptr);

	if (!fsck->repairing && !g4_fsck_claim_metadata(fsck, address, where, "an indirect page"))
		return SKIP;
	const int status = g4_map_walk_enter(&fsck->map_walk);
	if (status < 0) {
		tell_damaged(fsck, &here, where, status);
		return SKIP;
	}
	if (!fsck->repairing || !g4_fsck_bit(fsck->metadata, g4_address_page(address))) {
		if (fsck->repairing)
			g4_fsck_claim_metadata(fsck, address, where, "an indirect page");
		return WALK;
	}
	fsck->map_walk.depth--;
	tell_twice(fsck, &here, where);
	return SKIP;
}

/* More lead there than its owners are counted: this file may be the one that should not. */
static bool has_excess(const struct g4_fsck *fsck, struct g4_address address, uint64_t pages)
{
	if (fsck->excess_owners == NULL)
		return false;
	for (uint64_t page = g4_address_page(address); page < g4_address_page(address) + pages; page++) {
		if (g4_fsck_bit(fsck->excess_owners, page))
			return true;
	}
	return false;
}

/* The same where files may share indirect pages. A repair reads the page before it claims it, as above. */
static enum below check_shared(struct g4_fsck *fsck, const struct g4_map_item *item, const struct g4_fsck_where *where)
{
	const struct g4_map_item here = *item;
	const struct g4_address address = g4_ptr_address(here.ptr);
	enum g4_fsck_map_claim claim = fsck->repairing ? G4_FSCK_MAP_FIRST : g4_fsck_claim_map(fsck, address, where);

	if (claim == G4_FSCK_MAP_TAKEN)
		return SKIP;
	if (!fsck->map_walk.shares && g4_fsck_map_is_counted(fsck, address))
		g4_fsck_set_sharing(fsck, where, address);
	const int status = g4_map_walk_enter(&fsck->map_walk);
	if (status < 0) {
		tell_damaged(fsck, &here, where, status);
		return SKIP;
	}
	if (fsck->repairing)
		claim = g4_fsck_claim_map(fsck, address, where);
	if (fsck->repairing && has_excess(fsck, address, 1) && !g4_fsck_is_touched(fsck, where->ino))
		g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, where, here.file_page * G4_PAGE_BYTES,
			       G4_PAGE_BYTES << 9 * here.height,
			       "contents whose map more files lead to than its owners are counted");
	fsck->shared_maps +=
		claim == G4_FSCK_MAP_AGAIN || fsck->map_walk.frames[fsck->map_walk.depth].maker != where->ino;
	if (claim != G4_FSCK_MAP_AGAIN)
		return WALK;
	fsck->map_walk.depth--;
	if (fsck->map_walk.shares && here.height <= G4_SHARED_MAP_LEVEL)
		return SHARED;
	tell_twice(fsck, &here, where);
	return SKIP;
}

/* In the round after one that found pages used twice: true when these contents are to move out of them. */
static bool must_move(const struct g4_fsck *fsck, struct g4_address address, uint64_t pages, bool *doubtful)
{
	bool move = false;

	*doubtful = false;
	if (fsck->shared_before == NULL)
		return false;
	for (uint64_t page = g4_address_page(address); page < g4_address_page(address) + pages; page++) {
		if (!g4_fsck_bit(fsck->shared_before, page))
			continue;
		*doubtful = true;
		move = move || g4_fsck_bit(fsck->used, page) || g4_fsck_bit(fsck->metadata_before, page);
	}
	return move;
}

/* Either the map is wrong, or the pointer is; or what else leads there as metadata. New copies are in no map yet. */
static bool is_disputed(const struct g4_fsck *fsck, g4_ptr ptr)
{
	const uint64_t first = g4_address_page(g4_ptr_address(ptr));

	for (uint64_t page = first; page < first + g4_tag_pages(g4_ptr_tag(ptr)); page++) {
		if (fsck->broken != NULL && g4_fsck_bit(fsck->broken, page))
			return true;
		if (!g4_fsck_bit(fsck->bad_group, page / G4_GROUP_PAGES) && !g4_fsck_bit(fsck->alloc_used, page) &&
		    (fsck->taken == NULL || !g4_fsck_bit(fsck->taken, page)))
			return (ptr & G4_PTR_VALID) != 0;
	}
	return false;
}

static void check_data(struct g4_fsck *fsck, const struct g4_map_item *item, const struct g4_fsck_where *where)
{
	const struct g4_address address = g4_ptr_address(item->ptr);
	const uint64_t pages = g4_tag_pages(g4_ptr_tag(item->ptr));
	bool doubtful;

	if (must_move(fsck, address, pages, &doubtful)) {
		const struct g4_fsck_task task = task_of(G4_FSCK_CLONE, item, where);
		fsck->problems++;
		g4_fsck_add_task(fsck, &task);
		return;
	}
	if (doubtful)
		g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, where, item->file_page * G4_PAGE_BYTES, pages * G4_PAGE_BYTES,
			       "contents that something else had, too");
	else if (fsck->repairing && is_disputed(fsck, item->ptr) && !g4_fsck_is_touched(fsck, where->ino))
		g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, where, item->file_page * G4_PAGE_BYTES, pages * G4_PAGE_BYTES,
			       "contents in space that the map calls free, or that should be metadata");
	else if (fsck->repairing && has_excess(fsck, address, pages) && !g4_fsck_is_touched(fsck, where->ino))
		g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, where, item->file_page * G4_PAGE_BYTES, pages * G4_PAGE_BYTES,
			       "contents that more files lead to than its owners are counted");
	if ((item->ptr & G4_PTR_VALID) != 0)
		g4_fsck_meet_listed(fsck, address, pages);
	if (fsck->repairing && (item->ptr & G4_PTR_VALID) == 0)
		g4_fsck_set_bits(fsck, &fsck->unwritten, g4_address_page(address), pages);
	g4_fsck_claim_data(fsck, address, pages, where);
}

/* An indirect page whose contents are being walked: how much there was before it. */
struct begun {
	struct g4_address address;
	uint32_t level;
	uint64_t pages;
	uint64_t told; /* to be lost or in doubt */
	bool good;
	bool any; /* of it was told that */
};

static uint64_t told_so_far(const struct g4_fsck *fsck)
{
	return fsck->by_outcome[G4_FSCK_DOUBTFUL] + fsck->by_outcome[G4_FSCK_LOST];
}

/* Those behind which the walk is. *good becomes that of all that was walked so far. */
static void end_maps(struct g4_fsck *fsck, const struct g4_fsck_where *where, struct begun *begun, uint32_t *depth,
		     uint64_t pages, bool *good)
{
	for (; *depth > fsck->map_walk.depth; --*depth) {
		const struct begun *last = &begun[*depth];
		if (last->any || told_so_far(fsck) > last->told || g4_fsck_map_is_told(fsck, last->address)) {
			g4_fsck_tell_map(fsck, last->address);
			begun[*depth - 1].any = true;
		}
		if (g4_fsck_may_share_maps(fsck))
			g4_fsck_end_map(fsck, where, last->address, last->level, fsck->map_walk.frames[*depth].below,
					pages - last->pages, *good);
		*good = *good && last->good;
	}
}

static bool check_map(struct g4_fsck *fsck, uint64_t ino, const struct g4_inode *inode,
		      const struct g4_fsck_where *where, uint64_t *pages)
{
	struct begun begun[G4_MAP_MAX_HEIGHT + 1];
	struct g4_map_item here;
	uint32_t depth = 0;
	bool good = true;
	enum below below;

	g4_map_walk_start(&fsck->map_walk, fsck->image, ino, inode);
	while (fsck->fatal == 0) {
		const struct g4_map_item *item = g4_map_walk_next(&fsck->map_walk);
		end_maps(fsck, where, begun, &depth, *pages, &good);
		switch (item->kind) {
		case G4_MAP_END:
			return good;
		case G4_MAP_DATA:
			*pages += g4_tag_pages(g4_ptr_tag(item->ptr));
			here = *item;
			check_data(fsck, item, where);
			if (here.height > 0 && (here.ptr & G4_PTR_VALID) != 0)
				good = g4_fsck_sums_large(fsck, inode, where, &here, pages) && good;
			break;
		case G4_MAP_INDIRECT:
			here = *item;
			below = g4_fsck_may_share_maps(fsck) ? check_shared(fsck, item, where) :
							       check_indirect(fsck, item, where);
			if (below == SHARED) {
				good = g4_fsck_share_map(fsck, where, &here, pages) && good;
				break;
			}
			if (below == WALK) {
				depth = fsck->map_walk.depth;
				begun[depth] = (struct begun){.address = g4_ptr_address(here.ptr),
							      .level = here.height,
							      .pages = *pages,
							      .told = told_so_far(fsck),
							      .good = good};
				good = true;
			}
			++*pages;
			if (below == WALK) {
				const struct g4_sums_places sums = fsck->map_walk.frames[depth].sums;
				good = g4_fsck_sums_pages(fsck, where, &here, &sums, pages) && good;
			} else {
				good = false;
			}
			break;
		case G4_MAP_DAMAGED:
			g4_fsck_problem(fsck, G4_FSCK_MAP, where,
					"the pointer 0x%" PRIx64 " for the contents from page %" PRIu64
					" on is impossible",
					item->ptr, item->file_page);
			if (fsck->repairing)
				g4_fsck_cut(fsck, where, item);
			good = false;
		}
	}
	return false;
}

/* ------------------------------------------------------------------ extended attributes */

/* One page of an attribute or value chain. */
static bool read_xattr_page(struct g4_fsck *fsck, g4_ptr ptr, uint32_t type, uint64_t ino,
			    const struct g4_fsck_where *where, struct g4_xattr_page *page)
{
	const struct g4_address address = g4_ptr_address(ptr);

	int status = g4_image_block(fsck->image, address, type, page);
	if (status == 0)
		status = g4_xattr_page_validate(page, &fsck->image->layout);
	if (status == 0 && page->inode == ino) {
		/* It says whose it is; a file that claims it as contents gets a copy in the next round. Not if it comes twice. */
		const bool again = fsck->repairing && g4_fsck_bit(fsck->metadata, g4_address_page(address));
		const bool alone = g4_fsck_claim_metadata(fsck, address, where, "an attribute page");
		return alone || (fsck->repairing && !again);
	}
	g4_fsck_note_broken(fsck, address);
	g4_fsck_problem(fsck, G4_FSCK_XATTR, where, "the attribute page at 0x%" PRIx64 " %s%s",
			g4_address_stored(address), status < 0 ? "is damaged: " : "belongs to another inode",
			status < 0 ? g4_strerror(status) : "");
	return false;
}

static bool check_value(struct g4_fsck *fsck, g4_ptr ptr, uint32_t value_bytes, uint64_t ino,
			const struct g4_fsck_where *where, uint64_t *pages)
{
	struct g4_xattr_page page;
	uint64_t found = 0;

	while (ptr != 0 && found <= value_bytes) {
		if (!read_xattr_page(fsck, ptr, G4_BLOCK_XATTR_VALUE, ino, where, &page))
			return false;
		++*pages;
		found += page.bytes;
		ptr = page.next;
	}
	if (found == value_bytes)
		return true;
	g4_fsck_problem(fsck, G4_FSCK_XATTR, where, "an attribute value of %u bytes has %" PRIu64 " in its pages",
			value_bytes, found);
	return false;
}

/* Takes the record at payload byte `at` out of the attribute page at `address`. */
static void drop_record(struct g4_fsck *fsck, struct g4_address address, uint32_t at, const struct g4_fsck_where *where)
{
	struct g4_xattr_page *page = (struct g4_xattr_page *)(void *)g4_fsck_edit(fsck, address);
	struct g4_xattr_record record;

	if (page == NULL)
		return;
	memcpy(&record, page->payload + at, sizeof(record));
	g4_fsck_change(fsck, G4_FSCK_LOST, where, 0, 0, "the extended attribute '%.*s' (space %u)",
		       (int)record.name_bytes, (const char *)page->payload + at + sizeof(record), record.space);
	const uint32_t behind = at + record.record_bytes;
	memmove(page->payload + at, page->payload + behind, page->bytes - behind);
	memset(page->payload + page->bytes - record.record_bytes, 0, record.record_bytes);
	page->bytes -= record.record_bytes;
	g4_fsck_seal(fsck, address, G4_BLOCK_XATTR);
}

static bool check_records(struct g4_fsck *fsck, struct g4_address address, struct g4_xattr_page *page, uint64_t ino,
			  const struct g4_fsck_where *where, uint64_t *pages)
{
	bool good = true;

	for (uint32_t at = 0; at < page->bytes && fsck->fatal == 0;) {
		struct g4_xattr_record record;
		memcpy(&record, page->payload + at, sizeof(record));
		if ((record.flags & G4_XATTR_EXTERNAL) != 0) {
			g4_ptr value;
			memcpy(&value, page->payload + at + sizeof(record) + record.name_bytes, sizeof(value));
			const bool whole = check_value(fsck, value, record.value_bytes, ino, where, pages);
			good = whole && good;
			if (!whole && fsck->repairing) {
				drop_record(fsck, address, at, where);
				if (g4_image_block(fsck->image, address, G4_BLOCK_XATTR, page) < 0)
					return false;
				continue;
			}
		}
		at += record.record_bytes;
	}
	return good;
}

/* The pointer that led to an attribute page: in the page before, or in the inode (before: none). */
static void set_next(struct g4_fsck *fsck, uint64_t ino, struct g4_address before, g4_ptr ptr)
{
	if (g4_address_is_none(before)) {
		struct g4_inode *inode = g4_fsck_edit_inode(fsck, ino);
		if (inode != NULL)
			inode->xattr = ptr;
		g4_fsck_seal_inode(fsck, ino);
		return;
	}
	struct g4_xattr_page *page = (struct g4_xattr_page *)(void *)g4_fsck_edit(fsck, before);
	if (page != NULL)
		page->next = ptr;
	g4_fsck_seal(fsck, before, G4_BLOCK_XATTR);
}

/* Ends because a page that comes a second time can not be claimed. */
static bool check_xattrs(struct g4_fsck *fsck, uint64_t ino, g4_ptr ptr, const struct g4_fsck_where *where,
			 uint64_t *pages)
{
	struct g4_xattr_page page;
	struct g4_address before = G4_NO_ADDRESS;
	bool good = true;

	while (ptr != 0 && fsck->fatal == 0) {
		const struct g4_address address = g4_ptr_address(ptr);
		if (!read_xattr_page(fsck, ptr, G4_BLOCK_XATTR, ino, where, &page)) {
			if (fsck->repairing) {
				g4_fsck_change(fsck, G4_FSCK_LOST, where, 0, 0,
					       "extended attributes from page 0x%" PRIx64 " on",
					       g4_address_stored(address));
				set_next(fsck, ino, before, 0);
			}
			return false;
		}
		++*pages;
		good = check_records(fsck, address, &page, ino, where, pages) && good;
		ptr = page.next;
		if (page.bytes == 0) {
			g4_fsck_problem(fsck, G4_FSCK_XATTR, where, "the attribute page at 0x%" PRIx64 " is empty",
					g4_address_stored(address));
			if (fsck->repairing) {
				g4_fsck_change(fsck, G4_FSCK_REPAIRED, where, 0, 0,
					       "the empty attribute page is left out");
				set_next(fsck, ino, before, ptr);
			}
		} else {
			before = address;
		}
	}
	return good;
}

/* ------------------------------------------------------------------ all of it */

/* Unless something of the file was said to be lost, pages may have been lost by damage that nothing else tells. */
static void set_pages(struct g4_fsck *fsck, uint64_t ino, uint64_t pages, const struct g4_fsck_where *where)
{
	struct g4_inode *slot = g4_fsck_edit_inode(fsck, ino);
	const bool expected = g4_fsck_is_touched(fsck, ino);

	if (slot == NULL)
		return;
	slot->pages = pages;
	g4_fsck_seal_inode(fsck, ino);
	g4_fsck_change(fsck, expected ? G4_FSCK_REPAIRED : G4_FSCK_DOUBTFUL, where, 0, 0,
		       "the inode counts %" PRIu64 " pages now", pages);
}

/* A link has a target of at least one byte. */
static void retarget(struct g4_fsck *fsck, uint64_t ino, const struct g4_fsck_where *where)
{
	struct g4_inode *inode = g4_fsck_edit_inode(fsck, ino);

	if (inode == NULL)
		return;
	g4_fsck_change(fsck, G4_FSCK_LOST, where, 0, 0, "the link's target; it leads to '?' now");
	inode->flags = (inode->flags & ~G4_INODE_SUMS_INLINE) | G4_INODE_INLINE;
	inode->size = 1;
	inode->checksums = 0;
	inode->map_height = 0;
	memset(inode->map, 0, sizeof(inode->map));
	inode->inline_data[0] = '?';
	g4_fsck_seal_inode(fsck, ino);
}

/* What the policy says more than this version knows it can not have written; without sums the word is reserved. */
static void check_policy(struct g4_fsck *fsck, uint64_t ino, uint32_t policy, const struct g4_fsck_where *where)
{
	const bool has_sums = (fsck->image->sb.features_incompat & G4_FEATURE_INCOMPAT_SUMS) != 0;

	if (policy == 0 || (has_sums && g4_policy_is_known(policy)))
		return;
	g4_fsck_problem(fsck, G4_FSCK_INODE, where, "inode 0x%" PRIx64 " has the impossible policy 0x%" PRIx32, ino,
			policy);
	struct g4_inode *slot = fsck->repairing ? g4_fsck_edit_inode(fsck, ino) : NULL;
	if (slot == NULL)
		return;
	slot->policy = 0;
	g4_fsck_seal_inode(fsck, ino);
	g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, where, 0, 0, "what is written from now on is kept as by default");
}

/* A domain that nobody has made would be made once more, and then be two at a time. */
static void check_domain(struct g4_fsck *fsck, uint64_t ino, const struct g4_inode *inode,
			 const struct g4_fsck_where *where)
{
	const bool has = (inode->policy & G4_POLICY_DEDUP) == G4_POLICY_DEDUP_DOMAIN;
	const bool may = (fsck->image->sb.features_incompat & G4_FEATURE_INCOMPAT_DOMAINS) != 0;
	const uint64_t domain = g4_inode_domain(inode);
	struct g4_root root;

	if (!has)
		return;
	if (may && domain != 0 && domain <= G4_DOMAIN_MOST && fsck->forgot_domains) {
		fsck->domains_met = g4_max64(fsck->domains_met, domain);
		return;
	}
	if (may && domain != 0 && g4_image_root(fsck->image, &root) == 0 && domain <= root.domains)
		return;
	g4_fsck_problem(fsck, G4_FSCK_INODE, where,
			"inode 0x%" PRIx64 " is of domain %" PRIu64 " of deduplication, which there is not", ino,
			domain);
	struct g4_inode *slot = fsck->repairing ? g4_fsck_edit_inode(fsck, ino) : NULL;
	if (slot == NULL)
		return;
	g4_inode_set_domain(slot, 0);
	slot->policy = (slot->policy & ~G4_POLICY_DEDUP) | G4_POLICY_DEDUP_OFF;
	g4_fsck_seal_inode(fsck, ino);
	g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, where, 0, 0, "what is written from now on is not deduplicated");
}

bool g4_fsck_contents(struct g4_fsck *fsck, uint64_t ino, const struct g4_inode *inode,
		      const struct g4_fsck_where *where)
{
	uint64_t pages = 0;
	bool good;

	check_policy(fsck, ino, inode->policy, where);
	check_domain(fsck, ino, inode, where);
	g4_fsck_check_sharing(fsck, ino, inode, where);
	if (S_ISDIR(inode->mode))
		good = g4_fsck_read_directory(fsck, inode, where, &pages);
	else
		good = check_map(fsck, ino, inode, where, &pages);
	good = g4_fsck_sums_block(fsck, inode, where) && good;
	if ((inode->flags & G4_INODE_SUMS_INLINE) != 0)
		g4_fsck_check_listed(fsck, where, inode->few.map, inode->few.sums, G4_FEW_PAGES);

	good = check_xattrs(fsck, ino, inode->xattr, where, &pages) && good;
	if (S_ISLNK(inode->mode) && inode->size == 0) {
		g4_fsck_problem(fsck, G4_FSCK_INODE, where, "the symbolic link has no target");
		if (fsck->repairing)
			retarget(fsck, ino, where);
	}
	/* With a part missing the count proves nothing. */
	if (good && inode->pages != pages) {
		g4_fsck_problem(fsck, G4_FSCK_PAGES, where,
				"inode 0x%" PRIx64 " counts %" PRIu64 " pages, it has %" PRIu64, ino, inode->pages,
				pages);
		if (fsck->repairing)
			set_pages(fsck, ino, pages, where);
	}
	return good;
}
