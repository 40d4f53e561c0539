/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An image whose two superblocks are both lost, as when somebody has put a partition table on the device, which takes
 * its first and its last pages.
 *
 * The journal begins at a fixed place and ends where the group descriptors begin; those say what they are and where they
 * belong, and how many groups there are. From the journal's length and the number of groups follows every other
 * address (g4_layout_plan), and the root block and the first slab have to be there. In the last group there may be a second
 * superblock that nobody looked for, because the device has grown since. If not, a new one is made. It lacks what only
 * superblocks hold: the label, twelve bytes of the UUID (the first four are in every page) and the key of the
 * directories' hash. Entries need no key to be read, so the repair builds all directories anew with another.
 *
 * A file system that was here before may have left whole pages in what is now the journal. The log is written from its
 * beginning, so its first page that is whole tells which file system is the newer one.
 */
#include <stdio.h>
#include <string.h>

#include "fs/mkfs_host.h"
#include "fsck/fsck.h"
#include "journal/block.h"

#define JOURNAL_ADDRESS (G4_SUPERBLOCK_ADDRESS + G4_PAGE_BYTES)

struct search {
	struct g4_image *image;
	uint32_t fs_tag; /* of the file system looked for */
	bool tag_known;
	struct g4_layout layout;
};

/* A copy of the page at an address, if it says that it is what is looked for. */
static bool read_block(struct search *search, struct g4_address address, uint32_t type, uint32_t fs_tag, void *copy)
{
	const void *page;

	if (g4_image_raw_page(search->image, address, &page) < 0)
		return false;
	memcpy(copy, page, G4_PAGE_BYTES);
	return g4_block_verify(copy, type, address, fs_tag) == 0;
}

/* How many groups are described from an address on; 0: not one. */
static uint64_t count_groups(struct search *search, struct g4_address address, uint32_t fs_tag)
{
	static const struct g4_group_descriptor none;
	struct g4_groups_page page;
	uint64_t count = 0;

	while (count % G4_GROUPS_PER_PAGE == 0 && read_block(search, address, G4_BLOCK_GROUPS, fs_tag, &page) &&
	       page.first_group == count) {
		uint64_t here = 0;
		while (here < G4_GROUPS_PER_PAGE && memcmp(&page.groups[here], &none, sizeof(none)) != 0)
			here++;
		if (here == 0)
			break;
		count += here;
		address = g4_address_after_pages(address, 1);
	}
	return count;
}

/* The first page of a type in these bytes; 0: none. */
static uint64_t find_block(struct search *search, uint64_t from, uint64_t end, uint32_t type, uint32_t fs_tag)
{
	uint8_t page[G4_PAGE_BYTES];

	for (uint64_t at = from; at < end; at += G4_PAGE_BYTES)
		if (read_block(search, g4_address_from(at), type, fs_tag, page))
			return at;
	return 0;
}

/*
 * A file system of this size whose groups are described at an address; its root block and first slab must be there. Its
 * tables lie as mkfs places them, or, where it had another size then, as the same with that size: so they are looked for.
 */
static bool fits(struct search *search, uint64_t size_bytes, uint64_t groups_address, uint32_t fs_tag)
{
	struct g4_layout *layout = &search->layout;
	uint8_t page[G4_PAGE_BYTES];

	/* a journal that is too long for the size now was not for the size then */
	if (g4_layout_plan(size_bytes, groups_address - JOURNAL_ADDRESS, layout) != 0)
		return false;
	if (!read_block(search, g4_layout_root(layout), G4_BLOCK_ROOT, fs_tag, page)) {
		const uint64_t end = groups_address + search->image->device_bytes / 4;
		layout->alloc_address = find_block(search, groups_address + layout->groups_pages * G4_PAGE_BYTES, end,
						   G4_BLOCK_ALLOC, fs_tag);
		if (layout->alloc_address == 0)
			return false;
		layout->root_address = find_block(search, layout->alloc_address + layout->group_count * G4_PAGE_BYTES,
						  end, G4_BLOCK_ROOT, fs_tag);
		layout->data_address = layout->root_address + G4_PAGE_BYTES;
		if (layout->root_address == 0)
			return false;
	}
	return read_block(search, g4_layout_root(layout), G4_BLOCK_ROOT, fs_tag, page) &&
	       read_block(search, g4_layout_data(layout), G4_BLOCK_SLAB, fs_tag, page);
}

static bool try_groups(struct search *search, struct g4_address address, uint32_t fs_tag)
{
	const uint64_t device = search->image->device_bytes;
	const uint64_t groups = count_groups(search, address, fs_tag);

	if (groups == 0 || (groups - 1) * G4_GROUP_BYTES >= device)
		return false;
	/* Where the device has grown the end in the last group is not known; what is too much of it will be free space. */
	return fits(search, g4_min64(device, groups * G4_GROUP_BYTES), g4_address_stored(address), fs_tag);
}

/* True: layout and tag are known. */
static bool find_layout(struct search *search)
{
	struct g4_image *image = search->image;
	const uint64_t end = JOURNAL_ADDRESS + image->device_bytes / 4; /* no journal is longer */

	for (uint64_t at = JOURNAL_ADDRESS; at < end; at += G4_PAGE_BYTES) {
		const struct g4_address address = g4_address_from(at);
		struct g4_block_header header;
		uint8_t copy[G4_PAGE_BYTES];
		const void *page;
		if (g4_image_raw_page(image, address, &page) < 0)
			continue;
		memcpy(&header, page, sizeof(header));
		const bool journal = header.type == G4_BLOCK_JOURNAL_HEADER ||
				     header.type == G4_BLOCK_JOURNAL_DESCRIPTOR ||
				     header.type == G4_BLOCK_JOURNAL_COMMIT;
		if (header.magic != G4_BLOCK_MAGIC || header.address != at ||
		    (journal ? search->tag_known : header.type != G4_BLOCK_GROUPS) ||
		    (search->tag_known && search->fs_tag != header.fs_tag) ||
		    !read_block(search, address, header.type, header.fs_tag, copy))
			continue;
		search->fs_tag = header.fs_tag;
		if (!journal && try_groups(search, address, header.fs_tag))
			return true;
		search->tag_known = journal || search->tag_known;
	}
	return false;
}

/* The second superblock of a file system that is smaller than its device. */
static bool find_backup(struct search *search, struct g4_superblock *sb)
{
	const struct g4_layout *layout = &search->layout;
	const uint64_t first = (layout->group_count - 1) * G4_GROUP_BYTES;

	for (uint64_t end = layout->size_bytes; end > first; end -= G4_PAGE_BYTES) {
		if (g4_image_read_superblock(search->image, g4_address_from(end - G4_PAGE_BYTES), sb) == 0 &&
		    sb->size_bytes == end && sb->groups_address == layout->groups_address &&
		    g4_superblock_tag(sb) == search->fs_tag)
			return true;
	}
	return false;
}

static int search_superblock(struct g4_fsck *fsck, struct g4_image *image)
{
	struct search search = {.image = image};

	if (!find_layout(&search))
		return -G4_E_SB_MAGIC;
	if (find_backup(&search, &image->backup)) {
		image->backup_status = 0;
		g4_image_use_superblock(image, &image->backup);
		return 0;
	}
	const int status = g4_superblock_make(&search.layout, &fsck->superblock);
	if (status < 0)
		return status;
	memcpy(fsck->superblock.uuid, &search.fs_tag, sizeof(search.fs_tag));
	fsck->superblock.state = G4_STATE_ERROR;
	/* nobody knows; they only say that there may be what they are for. The last one goes where no file has it (write.c) */
	fsck->superblock.features_incompat |= G4_FEATURES_ADDED | G4_FEATURE_INCOMPAT_SHARED_MAPS;
	fsck->made_superblock = true;
	g4_image_use_superblock(image, &fsck->superblock);
	return 0;
}

/* False: what is there is somebody's, or too new; a search would not change that. */
static bool is_lost(int status)
{
	switch (-status) {
	case G4_E_SB_MAGIC:
	case G4_E_SB_GEOMETRY:
	case G4_E_CHECKSUM:
	case G4_E_MISDIRECTED:
	case G4_E_TYPE:
	case G4_E_IO:
		return true;
	default:
		return false;
	}
}

/* What somebody else has put on the device. A partition table is what takes superblocks, and holds nothing itself. */
static const char *find_foreign(const struct g4_image *image)
{
	const char *name = g4_probe_foreign(image->dev);

	return name == NULL || strcmp(name, "gpu4fs") == 0 || strstr(name, "partition table") != NULL ? NULL : name;
}

static int choose(struct g4_fsck *fsck, struct g4_image *image)
{
	const int status = g4_image_choose_superblock(image);

	if (status == 0 || !is_lost(status))
		return status;
	if (!fsck->made_superblock) {
		fsck->foreign = find_foreign(image);
		return search_superblock(fsck, image);
	}
	g4_image_use_superblock(image, &fsck->superblock); /* a second time, after the journal was replayed */
	return 0;
}

int g4_fsck_open(struct g4_fsck *fsck, struct g4_image *image, const char *name, char *message, size_t bytes)
{
	if (!fsck->find_superblock) {
		const int status = g4_image_open(image, name, message, bytes);
		const size_t used = strlen(message);
		if (status < 0 && is_lost(status) && strstr(message, ", not gpu4fs") == NULL &&
		    strstr(message, "; leave it out") == NULL) /* one of several, which others can do without */
			snprintf(message + used, bytes - used, "%s",
				 "; if it had one, see --find-superblock in fsck.gpu4fs(8)");
		return status;
	}
	int status = g4_image_open_device(image, name, message, bytes);
	if (status == 0) {
		status = choose(fsck, image);
		if (status < 0 && is_lost(status) && fsck->foreign != NULL)
			snprintf(message, bytes, "%s holds %s, and nothing that a superblock could be made from", name,
				 fsck->foreign);
		else if (status < 0)
			snprintf(message, bytes, "%s: %s%s", name, g4_strerror(status),
				 is_lost(status) ? ", and nothing that one could be made from" : "");
	}
	if (status < 0)
		g4_image_close(image);
	return status;
}
