/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repairs that need one page: they change its patch at once. Each tells what it does to the user's files before it does
 * it, for afterwards the name may be gone.
 *
 * What decides: a page with a right checksum is believed before one without; of a damaged slab only those slots are
 * taken that validate as inodes (a slot that is not in use is zero, or an inode that nobody names); a field that
 * contradicts the rest of its inode is set to what the rest says.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock_host.h"
#include "format/sums.h"
#include "fsck/fix.h"
#include "fsck/report.h"
#include "fsck/tables.h"
#include "journal/block.h"

/* ------------------------------------------------------------------ pages */

uint8_t *g4_fsck_edit(struct g4_fsck *fsck, struct g4_address address)
{
	uint8_t *page = g4_image_patch(fsck->image, address);

	if (page == NULL)
		fsck->fatal = -G4_E_NOMEM;
	return page;
}

void g4_fsck_seal(struct g4_fsck *fsck, struct g4_address address, uint32_t type)
{
	uint8_t *page = g4_fsck_edit(fsck, address);

	if (page != NULL)
		g4_block_seal(page, type, address, fsck->sequence, fsck->image->fs_tag);
}

static struct g4_address slab_address(uint64_t ino)
{
	return g4_address_page_start(g4_ptr_address(ino));
}

struct g4_inode *g4_fsck_edit_inode(struct g4_fsck *fsck, uint64_t ino)
{
	uint8_t *page = g4_fsck_edit(fsck, slab_address(ino));

	return page == NULL ?
		       NULL :
		       (struct g4_inode *)(void *)(page + g4_slab_slot_of(g4_ptr_address(ino)) * G4_SLAB_SLOT_BYTES);
}

void g4_fsck_seal_inode(struct g4_fsck *fsck, uint64_t ino)
{
	g4_fsck_seal(fsck, slab_address(ino), G4_BLOCK_SLAB);
}

bool g4_fsck_is_touched(const struct g4_fsck *fsck, uint64_t ino)
{
	return g4_fsck_find(&fsck->touched, ino) != NULL;
}

/* ------------------------------------------------------------------ inodes */

static bool is_type(uint32_t type)
{
	return type == S_IFIFO >> 12 || type == S_IFCHR >> 12 || type == S_IFDIR >> 12 || type == S_IFBLK >> 12 ||
	       type == S_IFREG >> 12 || type == S_IFLNK >> 12 || type == S_IFSOCK >> 12;
}

static bool is_pointer(const struct g4_fsck *fsck, g4_ptr ptr)
{
	return ptr != 0 && g4_ptr_validate(ptr, &fsck->image->layout) == 0;
}

/* Sums where other maps have pointers, whatever the flag says: these hardly ever look like that. */
static bool has_few_sums(const struct g4_inode *inode)
{
	uint32_t sums = 0;

	if ((!S_ISREG(inode->mode) && !S_ISLNK(inode->mode)) || (inode->flags & G4_INODE_INLINE) != 0 ||
	    inode->few.reserved != 0)
		return false;
	for (uint32_t i = 0; i < G4_FEW_PAGES; i++) {
		const struct g4_sum_entry *sum = &inode->few.sums[i];
		if (g4_sum_entry_algorithm(sum) >= G4_CHECKSUM_COUNT || sum->bytes[31] >> 4 != 0)
			return false;
		sums += g4_sum_entry_algorithm(sum) != G4_CHECKSUM_NONE;
	}
	return sums > 0;
}

/* Fields that are counted or rebuilt anyway, and those that version 1 writes as zero. */
static void mend_plain_fields(const struct g4_fsck *fsck, uint64_t ino, struct g4_inode *inode)
{
	const struct g4_layout *layout = &fsck->image->layout;
	const bool directory = S_ISDIR(inode->mode), few = has_few_sums(inode);

	inode->reserved0 = 0;
	inode->flags &= G4_INODE_KNOWN;
	if (!g4_inode_gap_is_possible(inode))
		inode->flags &= ~G4_INODE_GAP;
	inode->checksums = 0;
	inode->flags &= ~G4_INODE_SUMS_INLINE;
	if (few) {
		inode->flags |= G4_INODE_SUMS_INLINE;
		inode->map_height = 0;
	}
	if (!S_ISREG(inode->mode) || (inode->flags & (G4_INODE_INLINE | G4_INODE_SUMS_INLINE)) != 0)
		inode->flags &= ~G4_INODE_SHARES_MAP;
	if (inode->nlink > G4_LINK_MAX || (directory && inode->nlink == 1))
		inode->nlink = directory ? 2 : 1;
	if (inode->pages > layout->size_bytes / G4_PAGE_BYTES)
		inode->pages = 0;
	if (!directory)
		inode->entries = (uint32_t)g4_inode_domain(inode);
	if (directory && inode->nlink != 0 && !g4_ino_plausible(inode->parent, layout))
		inode->parent = ino;
	if (!g4_ino_plausible(inode->orphan_next, layout))
		inode->orphan_next = 0;
}

/* Height of the map as its first usable slot tells; the present one when none does. */
static uint8_t height_from_slots(struct g4_fsck *fsck, const struct g4_inode *inode)
{
	for (uint32_t slot = 0; slot < g4_inode_slots(inode); slot++) {
		const g4_ptr ptr = inode->map[slot];
		struct g4_indirect_header header;
		g4_le64 slots[G4_INDIRECT_SLOTS];
		if (!is_pointer(fsck, ptr))
			continue;
		if ((ptr & G4_PTR_INDIRECT) == 0)
			return (uint8_t)(g4_ptr_tag(ptr) - G4_TAG_4K);
		if (g4_image_indirect(fsck->image, g4_ptr_address(ptr), slots, &header) == 0 && header.level >= 1 &&
		    header.level <= G4_MAP_MAX_HEIGHT)
			return (uint8_t)header.level;
	}
	return inode->map_height <= G4_MAP_MAX_HEIGHT ? inode->map_height : 0;
}

/* Contents in the inode or behind pointers: the flag may be what is wrong. */
static void mend_inline_flag(const struct g4_fsck *fsck, struct g4_inode *inode)
{
	bool all_pointers = true, none = true;

	for (uint32_t slot = 0; slot < g4_inode_slots(inode); slot++) {
		all_pointers = all_pointers && (inode->map[slot] == 0 || is_pointer(fsck, inode->map[slot]));
		none = none && inode->map[slot] == 0;
	}
	const bool may_be = S_ISREG(inode->mode) || S_ISLNK(inode->mode);
	if (!may_be || (inode->size > G4_INLINE_BYTES && all_pointers && !none))
		inode->flags &= ~G4_INODE_INLINE;
	else if (!all_pointers && inode->size <= G4_INLINE_BYTES)
		inode->flags |= G4_INODE_INLINE;
	if ((inode->flags & G4_INODE_INLINE) != 0) {
		inode->map_height = 0;
		inode->flags &= ~G4_INODE_SHARES_MAP;
		inode->size = g4_min64(inode->size, G4_INLINE_BYTES);
	}
}

/* Slots that the height does not allow go. */
static void mend_map(struct g4_fsck *fsck, struct g4_inode *inode, const struct g4_fsck_where *where)
{
	const struct g4_layout *layout = &fsck->image->layout;
	struct g4_inode probe = *inode;

	memset(probe.map, 0, sizeof(probe.map));
	if (g4_inode_validate(inode, layout) == 0)
		return;
	if (g4_inode_validate(&probe, layout) == 0 || inode->map_height > G4_MAP_MAX_HEIGHT)
		inode->map_height = S_ISDIR(inode->mode) ? 0 : height_from_slots(fsck, inode);
	probe.map_height = inode->map_height;
	for (uint32_t slot = 0; slot < g4_inode_slots(inode); slot++) {
		const uint64_t span = G4_PAGE_BYTES << 9 * inode->map_height;
		probe.map[0] = inode->map[slot];
		if (g4_inode_validate(&probe, layout) == 0)
			continue;
		/* The file's last part may be shorter than what the slot covers; the span says where to look. */
		g4_fsck_change(fsck, G4_FSCK_LOST, where, slot * span, span, "the pointer 0x%" PRIx64 " is impossible",
			       inode->map[slot]);
		inode->map[slot] = 0;
	}
}

/* A size is kept where it can be; where it can not, it is what the type allows. */
static void mend_size(struct g4_fsck *fsck, struct g4_inode *inode, const struct g4_fsck_where *where)
{
	const uint64_t size = inode->size;

	if (S_ISREG(inode->mode))
		inode->size = g4_min64(size, G4_FILE_MAX_BYTES);
	else if (S_ISLNK(inode->mode))
		inode->size = g4_min64(size, G4_PATH_MAX - 1);
	else
		inode->size = 0;
	if (S_ISREG(inode->mode) && size > G4_FILE_MAX_BYTES) {
		/* Nothing but the pages tells where the contents end. */
		uint64_t end = 0;
		for (uint32_t slot = 0; slot < g4_inode_slots(inode); slot++) {
			if (is_pointer(fsck, inode->map[slot]))
				end = (uint64_t)(slot + 1)
				      << 9 * inode->map_height; /* pages: as bytes it may not fit */
		}
		inode->size = end > G4_FILE_MAX_BYTES / G4_PAGE_BYTES ? G4_FILE_MAX_BYTES : end * G4_PAGE_BYTES;
	}
	if (inode->size != size && !S_ISDIR(inode->mode))
		g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, where, 0, 0,
			       "the size, %" PRIu64 ", is impossible; it is now %" PRIu64, size, inode->size);
}

bool g4_fsck_mend_inode(struct g4_fsck *fsck, uint64_t ino, struct g4_inode *inode, const struct g4_fsck_where *where)
{
	const struct g4_layout *layout = &fsck->image->layout;
	const uint32_t permissions = inode->mode & 07777u, hint = where->file_type;
	struct g4_inode mended = *inode;

	if (g4_inode_validate(inode, layout) == 0)
		return true;
	if (is_type(hint))
		mended.mode = (g4_le16)(hint << 12 | permissions);
	if (!is_type(mended.mode >> 12))
		return false;
	mend_plain_fields(fsck, ino, &mended);
	if (g4_inode_validate(&mended, layout) != 0)
		mend_inline_flag(fsck, &mended);
	if (g4_inode_validate(&mended, layout) != 0 && mended.xattr != 0) {
		const g4_ptr xattr = mended.xattr;
		mended.xattr = 0;
		if (g4_ptr_validate(xattr, layout) == 0 && g4_ptr_tag(xattr) == G4_TAG_4K &&
		    (xattr & (G4_PTR_INDIRECT | G4_PTR_VALID)) == G4_PTR_VALID)
			mended.xattr = xattr;
		else
			g4_fsck_change(fsck, G4_FSCK_LOST, where, 0, 0, "all extended attributes");
	}
	if (g4_inode_validate(&mended, layout) != 0)
		mend_size(fsck, &mended, where);
	if (g4_inode_validate(&mended, layout) != 0)
		mend_map(fsck, &mended, where);
	if (g4_inode_validate(&mended, layout) != 0)
		return false;
	*inode = mended;
	return true;
}

void g4_fsck_free_slot(struct g4_fsck *fsck, uint64_t ino)
{
	struct g4_inode *inode = g4_fsck_edit_inode(fsck, ino);

	struct g4_slab_header *slab = (struct g4_slab_header *)(void *)g4_fsck_edit(fsck, slab_address(ino));
	if (inode == NULL || slab == NULL)
		return;
	memset(inode, 0, sizeof(*inode));
	const uint32_t slot = g4_slab_slot_of(g4_ptr_address(ino));
	slab->used &= (g4_le16) ~(1u << slot);
	g4_fsck_seal_inode(fsck, ino);
}

/* ------------------------------------------------------------------ slabs */

/* True when the header is what a slab at this place has, whatever the checksum says. */
static bool header_is_right(const struct g4_fsck *fsck, const struct g4_slab_header *slab, struct g4_address address)
{
	return slab->header.magic == G4_BLOCK_MAGIC && slab->header.type == G4_BLOCK_SLAB &&
	       slab->header.fs_tag == fsck->image->fs_tag && slab->header.address == g4_address_stored(address) &&
	       slab->kind == G4_SLAB_INODES && (slab->used & 1) != 0;
}

int g4_fsck_salvage_slab(struct g4_fsck *fsck, uint64_t page, int status, struct g4_slab_header *slab)
{
	const struct g4_address address = g4_page_address(page);
	uint8_t copy[G4_PAGE_BYTES] __attribute__((aligned(8)));
	const void *contents;
	uint32_t kept = 0;

	/* Another page's contents, whole: those inodes are not the ones that belong here. */
	if (status == -G4_E_MISDIRECTED || status == -G4_E_TYPE || g4_image_page(fsck->image, address, &contents) < 0)
		return status;
	memcpy(copy, contents, sizeof(copy));
	memcpy(slab, copy, sizeof(*slab));
	const bool trusted = header_is_right(fsck, slab, address);
	for (uint32_t slot = 1; slot < G4_SLAB_SLOTS; slot++) {
		struct g4_inode *inode = (struct g4_inode *)(void *)(copy + slot * G4_SLAB_SLOT_BYTES);
		const uint64_t ino = g4_ino_of_slot(address, slot);
		const struct g4_fsck_where where = {.dir = G4_NO_DIR, .ino = ino};
		/* Free slots are zero, whatever the header says of them. */
		const bool used = trusted && (slab->used >> slot & 1) != 0;
		const bool good = used ? g4_fsck_mend_inode(fsck, ino, inode, &where) :
					 g4_inode_validate(inode, &fsck->image->layout) == 0 && inode->nlink != 0;
		if (good)
			kept |= 1u << slot;
		else
			memset(inode, 0, sizeof(*inode));
	}
	if (kept == 0)
		return status;
	uint8_t *patch = g4_fsck_edit(fsck, address);
	if (patch == NULL)
		return -G4_E_NOMEM;
	memset(copy, 0, sizeof(*slab));
	memcpy(slab, copy, sizeof(*slab));
	slab->kind = G4_SLAB_INODES;
	slab->used = (g4_le16)(kept | 1);
	memcpy(copy, slab, sizeof(*slab));
	memcpy(patch, copy, sizeof(copy));
	g4_fsck_seal(fsck, address, G4_BLOCK_SLAB);
	return 0;
}

void g4_fsck_empty_directory(struct g4_inode *inode, uint32_t permissions, uint64_t parent)
{
	const uint64_t now = g4_clock_ns(CLOCK_REALTIME);

	memset(inode, 0, sizeof(*inode));
	inode->mode = (g4_le16)(S_IFDIR | permissions);
	inode->nlink = 2;
	inode->generation = (uint32_t)(now / 1000000000);
	inode->atime_ns = inode->mtime_ns = inode->ctime_ns = inode->btime_ns = now;
	inode->parent = parent;
}

uint64_t g4_fsck_make_root(struct g4_fsck *fsck)
{
	const struct g4_address address = g4_layout_data(&fsck->image->layout);
	const uint64_t ino = g4_ino_of_slot(address, 1);
	uint8_t copy[G4_PAGE_BYTES];
	const bool whole = g4_image_block(fsck->image, address, G4_BLOCK_SLAB, copy) == 0;
	uint8_t *page = g4_fsck_edit(fsck, address);

	if (page == NULL)
		return 0;
	if (!whole)
		memset(page, 0, G4_PAGE_BYTES);
	struct g4_slab_header *slab = (struct g4_slab_header *)(void *)page;
	struct g4_inode *inode = (struct g4_inode *)(void *)(page + G4_SLAB_SLOT_BYTES);
	slab->kind = G4_SLAB_INODES;
	slab->used |= 3;
	g4_fsck_empty_directory(inode, 0755, ino);
	g4_fsck_seal_inode(fsck, ino);
	return ino;
}

/* ------------------------------------------------------------------ maps */

void g4_fsck_set_pointer(struct g4_fsck *fsck, uint64_t ino, const struct g4_fsck_spot *spot, g4_ptr ptr)
{
	if (g4_address_is_none(spot->page)) {
		struct g4_inode *inode = g4_fsck_edit_inode(fsck, ino);
		if (inode == NULL)
			return;
		inode->map[spot->slot] = ptr;
		g4_fsck_seal_inode(fsck, ino);
		return;
	}
	g4_le64 *slots = (g4_le64 *)(void *)g4_fsck_edit(fsck, spot->page);
	struct g4_indirect_header header;
	if (slots == NULL)
		return;
	g4_indirect_extract(slots, &header);
	g4_indirect_strip(slots);
	slots[spot->slot] = ptr;
	g4_indirect_embed_places(slots, &header.sums);
	g4_indirect_seal(slots, header.inode, header.level, spot->page, fsck->sequence, fsck->image->fs_tag);
}

void g4_fsck_cut(struct g4_fsck *fsck, const struct g4_fsck_where *where, const struct g4_map_item *item)
{
	const struct g4_fsck_spot spot = {.page = item->page, .slot = item->slot};

	g4_fsck_change(fsck, G4_FSCK_LOST, where, item->file_page * G4_PAGE_BYTES, G4_PAGE_BYTES << 9 * item->height,
		       "contents whose pointers are gone read as zeros");
	g4_fsck_set_pointer(fsck, where->ino, &spot, 0);
}

/* ------------------------------------------------------------------ entries */

static struct g4_dir_entry *edit_entry(struct g4_fsck *fsck, const struct g4_fsck_where *where,
				       struct g4_dir_leaf **leaf)
{
	*leaf = (struct g4_dir_leaf *)(void *)g4_fsck_edit(fsck, where->leaf_address);
	return *leaf == NULL ? NULL :
			       (struct g4_dir_entry *)(void *)&(*leaf)
				       ->units[(where->unit - G4_DIR_HEADER_UNITS) * G4_DIR_UNIT_BYTES];
}

void g4_fsck_drop_entry(struct g4_fsck *fsck, const struct g4_fsck_where *where)
{
	struct g4_dir_leaf *leaf;
	const struct g4_dir_entry *entry = edit_entry(fsck, where, &leaf);

	if (entry == NULL)
		return;
	const uint32_t units = 1 + (entry->name_bytes + G4_DIR_UNIT_BYTES - 1u) / G4_DIR_UNIT_BYTES;
	for (uint32_t unit = where->unit; unit < where->unit + units; unit++)
		leaf->used[unit / 64] &= ~(UINT64_C(1) << unit % 64);
	struct g4_fsck_cell *dropped = g4_fsck_add(fsck, &fsck->dropped, fsck->dirs[where->dir].ino);
	if (dropped != NULL)
		dropped->a++;
	fsck->names_astray++;
	g4_fsck_seal(fsck, where->leaf_address, G4_BLOCK_DIR_LEAF);
}

void g4_fsck_retype_entry(struct g4_fsck *fsck, const struct g4_fsck_where *where, uint32_t file_type)
{
	struct g4_dir_leaf *leaf;
	struct g4_dir_entry *entry = edit_entry(fsck, where, &leaf);

	if (entry == NULL)
		return;
	entry->file_type = (uint8_t)file_type;
	g4_fsck_seal(fsck, where->leaf_address, G4_BLOCK_DIR_LEAF);
}
