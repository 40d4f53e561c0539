/* SPDX-License-Identifier: Apache-2.0 */
/* Inodes: their slabs, block maps, attributes, page counts. */
#include <inttypes.h>
#include <sys/stat.h>

#include "cli/fsck_host.h"

/* ------------------------------------------------------------------ slabs */

static int read_slab(struct g4_fsck *fsck, uint64_t page, struct g4_slab_header *slab)
{
	uint8_t copy[G4_PAGE_BYTES];
	int status = g4_image_block(fsck->image, page * G4_PAGE_BYTES, G4_BLOCK_SLAB, copy);

	memcpy(slab, copy, sizeof(*slab));
	if (status == 0)
		status = g4_slab_validate(slab);
	/* Version 1 keeps inodes in slabs and nothing else. */
	return status == 0 && slab->kind != G4_SLAB_INODES ? -G4_E_CORRUPT_ALLOC : status;
}

struct g4_fsck_cell *g4_fsck_slab(struct g4_fsck *fsck, uint64_t page, const struct g4_fsck_where *where)
{
	struct g4_slab_header slab;
	struct g4_fsck_cell *cell = g4_fsck_find(&fsck->slabs, page);

	if (cell != NULL)
		return cell;
	cell = g4_fsck_add(fsck, &fsck->slabs, page);
	if (cell == NULL)
		return NULL;
	const int status = read_slab(fsck, page, &slab);
	cell->c = (uint32_t)-status;
	cell->a = status == 0 ? slab.used : 0;
	if (status < 0)
		g4_fsck_problem(fsck, G4_FSCK_SLAB, NULL,
				"the slab at 0x%" PRIx64 ", with up to 15 inodes, is damaged: %s", page * G4_PAGE_BYTES,
				g4_strerror(status));
	g4_fsck_claim(fsck, page * G4_PAGE_BYTES, 1, where, "a slab");
	return cell;
}

enum g4_fsck_met g4_fsck_meet(struct g4_fsck *fsck, uint64_t ino, const struct g4_fsck_where *where,
			      struct g4_inode *inode)
{
	const uint64_t address = g4_ptr_address(ino), page = address / G4_PAGE_BYTES;
	const uint32_t slot = (uint32_t)(address % G4_PAGE_BYTES / G4_SLAB_SLOT_BYTES);
	struct g4_fsck_cell *slab = g4_fsck_slab(fsck, page, where);
	const void *data;

	if (slab == NULL)
		return G4_FSCK_UNUSABLE;
	if (slab->c != 0) {
		g4_fsck_problem(fsck, G4_FSCK_ENTRY, where, "inode 0x%" PRIx64 " can not be read: %s", ino,
				g4_strerror(-(int)slab->c));
		return G4_FSCK_UNUSABLE;
	}
	if ((slab->a >> slot & 1) == 0) {
		g4_fsck_problem(fsck, G4_FSCK_ENTRY, where, "inode 0x%" PRIx64 " is not in use", ino);
		return G4_FSCK_UNUSABLE;
	}
	int status = g4_image_page(fsck->image, page * G4_PAGE_BYTES, &data);
	if (status == 0) {
		memcpy(inode, (const uint8_t *)data + slot * G4_SLAB_SLOT_BYTES, sizeof(*inode));
		status = g4_inode_validate(inode, &fsck->image->layout);
	}
	const bool again = (slab->b >> slot & 1) != 0;
	slab->b |= 1u << slot;
	if (status < 0) {
		if (!again)
			g4_fsck_problem(fsck, G4_FSCK_INODE, where, "inode 0x%" PRIx64 " is damaged", ino);
		return G4_FSCK_UNUSABLE;
	}
	return again ? G4_FSCK_AGAIN : G4_FSCK_FIRST;
}

/* ------------------------------------------------------------------ block map */

static bool check_indirect(struct g4_fsck *fsck, const struct g4_map_item *item, const struct g4_fsck_where *where)
{
	const uint64_t address = g4_ptr_address(item->ptr), file_page = item->file_page;

	if (!g4_fsck_claim(fsck, address, 1, where, "an indirect page"))
		return false;
	const int status = g4_map_walk_enter(&fsck->map_walk);
	if (status < 0)
		g4_fsck_problem(fsck, G4_FSCK_MAP, where,
				"the indirect page at 0x%" PRIx64 ", for the contents from page %" PRIu64
				" on, is damaged: %s",
				address, file_page, g4_strerror(status));
	return status == 0;
}

static bool check_map(struct g4_fsck *fsck, uint64_t ino, const struct g4_inode *inode,
		      const struct g4_fsck_where *where, uint64_t *pages)
{
	bool good = true;

	g4_map_walk_start(&fsck->map_walk, fsck->image, ino, inode);
	while (fsck->fatal == 0) {
		const struct g4_map_item *item = g4_map_walk_next(&fsck->map_walk);
		const uint64_t data_pages = g4_tag_pages(g4_ptr_tag(item->ptr));
		switch (item->kind) {
		case G4_MAP_END:
			return good;
		case G4_MAP_DATA:
			*pages += data_pages;
			g4_fsck_claim(fsck, g4_ptr_address(item->ptr), data_pages, where, "data");
			break;
		case G4_MAP_INDIRECT:
			++*pages;
			good = check_indirect(fsck, item, where) && good;
			break;
		case G4_MAP_DAMAGED:
			g4_fsck_problem(fsck, G4_FSCK_MAP, where,
					"the pointer 0x%" PRIx64 " for the contents from page %" PRIu64
					" on is impossible",
					item->ptr, item->file_page);
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
	const uint64_t address = g4_ptr_address(ptr);

	if (!g4_fsck_claim(fsck, address, 1, where, "an attribute page"))
		return false;
	int status = g4_image_block(fsck->image, address, type, page);
	if (status == 0)
		status = g4_xattr_page_validate(page, &fsck->image->layout);
	if (status == 0 && page->inode == ino)
		return true;
	g4_fsck_problem(fsck, G4_FSCK_XATTR, where, "the attribute page at 0x%" PRIx64 " %s%s", address,
			status < 0 ? "is damaged: " : "belongs to another inode",
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

static bool check_records(struct g4_fsck *fsck, const struct g4_xattr_page *page, uint64_t ino,
			  const struct g4_fsck_where *where, uint64_t *pages)
{
	bool good = true;

	for (uint32_t at = 0; at < page->bytes;) {
		struct g4_xattr_record record;
		memcpy(&record, page->payload + at, sizeof(record));
		if ((record.flags & G4_XATTR_EXTERNAL) != 0) {
			g4_ptr value;
			memcpy(&value, page->payload + at + sizeof(record) + record.name_bytes, sizeof(value));
			good = check_value(fsck, value, record.value_bytes, ino, where, pages) && good;
		}
		at += record.record_bytes;
	}
	return good;
}

/* Ends because a page that comes a second time can not be claimed. */
static bool check_xattrs(struct g4_fsck *fsck, uint64_t ino, g4_ptr ptr, const struct g4_fsck_where *where,
			 uint64_t *pages)
{
	struct g4_xattr_page page;
	bool good = true;

	while (ptr != 0) {
		if (!read_xattr_page(fsck, ptr, G4_BLOCK_XATTR, ino, where, &page))
			return false;
		++*pages;
		good = check_records(fsck, &page, ino, where, pages) && good;
		ptr = page.next;
	}
	return good;
}

/* ------------------------------------------------------------------ all of it */

bool g4_fsck_contents(struct g4_fsck *fsck, uint64_t ino, const struct g4_inode *inode,
		      const struct g4_fsck_where *where)
{
	uint64_t pages = 0;
	bool good;

	if (S_ISDIR(inode->mode))
		good = g4_fsck_read_directory(fsck, inode, where, &pages);
	else
		good = check_map(fsck, ino, inode, where, &pages);

	good = check_xattrs(fsck, ino, inode->xattr, where, &pages) && good;
	if (S_ISLNK(inode->mode) && inode->size == 0)
		g4_fsck_problem(fsck, G4_FSCK_INODE, where, "the symbolic link has no target");
	/* With a part missing the count proves nothing. */
	if (good && inode->pages != pages)
		g4_fsck_problem(fsck, G4_FSCK_PAGES, where,
				"inode 0x%" PRIx64 " counts %" PRIu64 " pages, it has %" PRIu64, ino, inode->pages,
				pages);
	return good;
}
