/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of pages: where they are kept. What they say about contents is data.c's. A repair gives up sums that can not be had or
 * that something else uses; the contents stay, and are not verified any more.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "format/sums.h"
#include "fsck/claim.h"
#include "fsck/fix.h"
#include "fsck/inode.h"
#include "fsck/listed.h"
#include "fsck/owners.h"
#include "fsck/report.h"
#include "fsck/tables.h"
#include "hash/blake3.h"
#include "journal/block.h"

/* ------------------------------------------------------------------ pages of sums of an indirect page */

/* What the entry of a large page says of one of its pages of sums. */
static uint64_t hash_of(const struct g4_sums_page *page)
{
	struct g4_sums_page copy = *page;
	uint8_t digest[G4_BLAKE3_BYTES];
	uint64_t hash;

	for (uint32_t i = 0; i < G4_SUMS_SLOTS; i++)
		if (g4_sum_entry_algorithm(&copy.entries[i]) == G4_CHECKSUM_LARGE)
			g4_sum_entry_drop_place(&copy.entries[i]);
	g4_blake3(&copy, sizeof(copy), digest);
	memcpy(&hash, digest, sizeof(hash));
	return hash & G4_SUMS_HASH_MASK;
}

int g4_fsck_read_sums(struct g4_image *image, struct g4_address address, uint64_t ino, uint32_t level, uint32_t quarter,
		      const struct g4_sum_entry *large, struct g4_sums_page *page)
{
	struct g4_sums_header header;
	int status = g4_ptr_validate(g4_ptr_make(address, G4_TAG_4K, G4_PTR_VALID), &image->layout);

	if (status == 0)
		status = g4_image_sums(image, address, page, &header);
	/* of a large page of level 1 the hash tells, whoever made it */
	const bool any = large != NULL && level == 1 && (image->sb.features_incompat & G4_FEATURE_INCOMPAT_ROWS);
	if (status == 0 && ((header.inode != ino && !any) || header.level != level || header.quarter != quarter))
		status = -G4_E_CORRUPT_SUMS;
	if (status == 0 && large != NULL && hash_of(page) != g4_sum_entry_hash(large, quarter))
		status = -G4_E_CORRUPT_SUMS;
	return status;
}

/* Reads a page of sums, for the slots of a quarter of a level, from page `from` of the file on. Told where it can not be had. */
static int read_page(struct g4_fsck *fsck, const struct g4_fsck_where *where, struct g4_address address, uint32_t level,
		     uint32_t quarter, uint64_t from, const struct g4_sum_entry *large, struct g4_sums_page *page)
{
	const uint64_t maker = fsck->map_walk.frames[fsck->map_walk.depth].maker;
	const int status = g4_fsck_read_sums(fsck->image, address, maker, level, quarter, large, page);

	if (status < 0) {
		g4_fsck_note_broken(fsck, address);
		g4_fsck_problem(fsck, G4_FSCK_SUMS, where,
				"the page of sums at 0x%" PRIx64 ", for the contents from page %" PRIu64
				" on, is damaged: %s",
				g4_address_stored(address), from, g4_strerror(status));
	}
	return status;
}

/* Claims one that was read. 0; 1: something is wrong, and it stays; or a negative code: it is to be given up. */
static int claim_page(struct g4_fsck *fsck, const struct g4_fsck_where *where, struct g4_address address)
{
	const bool again = fsck->repairing && g4_fsck_bit(fsck->metadata, g4_address_page(address));
	const bool disputed = fsck->sums_twice != NULL && g4_fsck_bit(fsck->sums_twice, g4_address_page(address));
	const bool alone = g4_fsck_claim_metadata(fsck, address, where, "a page of sums");

	if (!again && !disputed)
		return alone ? 0 :
			       1; /* it says whose it is: a file that claims it as contents gets a copy in the next round */
	/* two of this file's indirect pages lead there, and it does not say which is right: the first one gives it up a round later */
	if (again)
		g4_fsck_set_bits(fsck, &fsck->sums_twice, g4_address_page(address), 1);
	else
		g4_fsck_problem(fsck, G4_FSCK_SUMS, where, "the page of sums at 0x%" PRIx64 " was in the map twice",
				g4_address_stored(address));
	return -G4_E_CORRUPT_SUMS;
}

/* Both. With `large` it is what this entry says. */
static int check_page(struct g4_fsck *fsck, const struct g4_fsck_where *where, struct g4_address address,
		      uint32_t level, uint32_t quarter, uint64_t from, const struct g4_sum_entry *large,
		      struct g4_sums_page *page)
{
	const int status = read_page(fsck, where, address, level, quarter, from, large, page);

	return status < 0 ? status : claim_page(fsck, where, address);
}

/* Contents whose sums were in a page that was damaged, when the file was written to. Clears them. */
static uint32_t take_lost(const g4_le64 *slots, struct g4_sum_entry *entries, uint32_t count)
{
	uint32_t lost = 0;

	for (uint32_t i = 0; i < count; i++) {
		if (g4_sum_entry_algorithm(&entries[i]) != G4_CHECKSUM_LOST)
			continue;
		lost += (slots[i] & (G4_PTR_VALID | G4_PTR_INDIRECT)) == G4_PTR_VALID;
		memset(&entries[i], 0, sizeof(entries[i]));
	}
	return lost;
}

/* False: there are some. */
static bool tell_lost(struct g4_fsck *fsck, const struct g4_fsck_where *where, uint32_t lost, uint64_t file_page,
		      uint32_t pages)
{
	if (lost == 0)
		return true;
	g4_fsck_problem(fsck, G4_FSCK_SUMS, where,
			"the sums of %" PRIu32 " pages, from page %" PRIu64 " on, were in a page that was damaged",
			lost, file_page);
	if (fsck->repairing)
		g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, where, file_page * G4_PAGE_BYTES,
			       (uint64_t)pages * G4_PAGE_BYTES,
			       "contents whose sums are gone: they can not be verified");
	return false;
}

/* Of a quarter of an indirect page of level 1, which the walk has entered. */
static bool check_lost(struct g4_fsck *fsck, const struct g4_fsck_where *where, struct g4_address address,
		       uint64_t file_page, uint32_t quarter, struct g4_sums_page *page)
{
	const g4_le64 *slots = &fsck->map_walk.frames[fsck->map_walk.depth].slots[quarter * G4_SUMS_SLOTS];
	const uint32_t lost = take_lost(slots, page->entries, G4_SUMS_SLOTS);
	struct g4_sums_page *stored =
		lost > 0 && fsck->repairing ? (struct g4_sums_page *)(void *)g4_fsck_edit(fsck, address) : NULL;
	struct g4_sums_header header;

	if (stored != NULL) {
		g4_sums_extract(stored, &header);
		*stored = *page;
		g4_sums_seal(stored, header.inode, header.level, header.quarter, address, fsck->sequence,
			     fsck->image->fs_tag);
	}
	return tell_lost(fsck, where, lost, file_page + (uint64_t)quarter * G4_SUMS_SLOTS, G4_SUMS_SLOTS);
}

static void give_up_page(struct g4_fsck *fsck, const struct g4_fsck_where *where, struct g4_address indirect,
			 uint32_t level, uint64_t file_page, uint32_t quarter)
{
	const uint64_t bytes = (uint64_t)G4_SUMS_SLOTS * G4_PAGE_BYTES << 9 * (level - 1);
	g4_le64 *slots = (g4_le64 *)(void *)g4_fsck_edit(fsck, indirect);
	struct g4_indirect_header header;

	if (slots == NULL)
		return;
	g4_indirect_extract(slots, &header);
	(void)g4_sums_set_place(&header.sums, indirect, quarter, G4_NO_ADDRESS);
	g4_indirect_embed_places(slots, &header.sums);
	g4_indirect_seal(slots, header.inode, header.level, indirect, fsck->sequence, fsck->image->fs_tag);
	g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, where, file_page * G4_PAGE_BYTES + quarter * bytes, bytes,
		       "contents whose sums are gone: they can not be verified");
}

bool g4_fsck_sums_pages(struct g4_fsck *fsck, const struct g4_fsck_where *where, const struct g4_map_item *item,
			const struct g4_sums_places *places, uint64_t *pages)
{
	const struct g4_address indirect = g4_ptr_address(item->ptr);
	const uint64_t file_page = item->file_page;
	const uint32_t level = item->height;
	bool good = true;

	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++) {
		const struct g4_address address = g4_sums_place(places, indirect, quarter);
		struct g4_sums_page page;
		if (g4_address_is_none(address))
			continue;
		const int status =
			check_page(fsck, where, address, level, quarter,
				   file_page + ((uint64_t)quarter * G4_SUMS_SLOTS << 9 * (level - 1)), NULL, &page);
		*pages += status >= 0;
		good = good && status == 0;
		if (status < 0 && fsck->repairing)
			give_up_page(fsck, where, indirect, level, file_page, quarter);
		if (status >= 0 && level == 1) {
			const struct g4_map_frame *frame = &fsck->map_walk.frames[fsck->map_walk.depth];
			g4_fsck_check_listed(fsck, where, &frame->slots[quarter * G4_SUMS_SLOTS], page.entries,
					     G4_SUMS_SLOTS);
			good = check_lost(fsck, where, address, file_page, quarter, &page) && good;
		}
	}
	return good;
}

/* ------------------------------------------------------------------ large pages */

/* Where the block of an inode lies: its slab, and how many bytes behind the beginning. */
static struct g4_address slab_of_block(const struct g4_inode *inode)
{
	return g4_address_page_start(g4_address_from(inode->checksums));
}

static uint32_t offset_of_block(const struct g4_inode *inode)
{
	return (uint32_t)(inode->checksums % G4_PAGE_BYTES);
}

int g4_fsck_read_block(struct g4_image *image, const struct g4_inode *inode, struct g4_sums_block *block)
{
	const struct g4_address page = slab_of_block(inode);
	const uint32_t offset = offset_of_block(inode);
	uint8_t copy[G4_PAGE_BYTES] __attribute__((aligned(8)));

	memset(block, 0, sizeof(*block));
	if (g4_address_is_none(page))
		return 0;
	int status = g4_image_block(image, page, G4_BLOCK_SLAB, copy);
	if (status == 0 && !g4_sums_block_is_used((const struct g4_slab_header *)(const void *)copy, offset))
		status = -G4_E_CORRUPT_SUMS;
	if (status == 0)
		memcpy(block, copy + offset, sizeof(*block));
	return status;
}

/* The entry of a large page, and where it stands: in a page of sums, or in a block of them. */
struct place {
	struct g4_address page;
	uint32_t offset;
	bool in_block;
	struct g4_sum_entry entry;
};

/* An entry of zeros where it can not be had: what it stands in is told of elsewhere. */
static void find_entry(struct g4_fsck *fsck, const struct g4_inode *inode, const struct g4_map_item *item,
		       struct place *place)
{
	const struct g4_map_frame *frame = &fsck->map_walk.frames[fsck->map_walk.depth];
	const struct g4_sums_places *places = &frame->sums;
	const uint32_t quarter = item->slot / G4_SUMS_SLOTS;
	struct g4_sums_page page __attribute__((aligned(8)));

	memset(place, 0, sizeof(*place));
	if (!g4_address_is_none(item->page)) {
		place->page = g4_sums_place(places, item->page, quarter);
		place->offset = item->slot % G4_SUMS_SLOTS * (uint32_t)sizeof(place->entry);
		if (!g4_address_is_none(place->page) && g4_fsck_read_sums(fsck->image, place->page, frame->maker,
									  item->height + 1, quarter, NULL, &page) == 0)
			place->entry = page.entries[item->slot % G4_SUMS_SLOTS];
		return;
	}
	place->in_block = true;
	place->page = slab_of_block(inode);
	place->offset = offset_of_block(inode) + item->slot * (uint32_t)sizeof(place->entry);
	struct g4_sums_block block;
	if (g4_fsck_read_block(fsck->image, inode, &block) == 0)
		place->entry = block.entries[item->slot];
}

static void give_up_entry(struct g4_fsck *fsck, const struct g4_fsck_where *where, const struct g4_map_item *item,
			  const struct place *place)
{
	uint8_t *bytes = g4_fsck_edit(fsck, place->page);
	struct g4_sums_header header;

	if (bytes == NULL)
		return;
	struct g4_sums_page *page = (struct g4_sums_page *)(void *)bytes;
	if (!place->in_block) {
		g4_sums_extract(page, &header);
		g4_sums_strip(page);
	}
	memset(bytes + place->offset, 0, sizeof(place->entry));
	if (place->in_block)
		g4_fsck_seal(fsck, place->page, G4_BLOCK_SLAB);
	else
		g4_sums_seal(page, header.inode, header.level, header.quarter, place->page, fsck->sequence,
			     fsck->image->fs_tag);
	g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, where, item->file_page * G4_PAGE_BYTES,
		       g4_tag_pages(g4_ptr_tag(item->ptr)) * G4_PAGE_BYTES,
		       "contents whose sums are gone: they can not be verified");
}

/*
 * Of a large page of level 1, where its pages of sums may have several owners: who meets them first claims them, the others are counted, by
 * the first of the four.
 */
static int check_shared_row(struct g4_fsck *fsck, const struct g4_fsck_where *where, const struct g4_sum_entry *entry,
			    uint64_t file_page, struct g4_sums_page *row, uint64_t *pages)
{
	const struct g4_address first = g4_sum_entry_place(entry);
	const uint64_t page = g4_address_page(first), bit = UINT64_C(1) << page % 64;
	int worst = 0;

	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++) {
		const int status = read_page(fsck, where, g4_address_after_pages(first, quarter), 1, quarter,
					     file_page + (uint64_t)quarter * G4_SUMS_SLOTS, entry, &row[quarter]);
		*pages += status >= 0;
		worst = status < 0 ? status : worst;
	}
	if (worst < 0)
		return worst;
	if ((__atomic_fetch_or(&fsck->rows[page / 64], bit, __ATOMIC_RELAXED) & bit) != 0) {
		if (g4_fsck_meet_map(fsck, page))
			return 0;
		g4_fsck_problem(fsck, G4_FSCK_OWNERS, where,
				"the pages of sums at 0x%" PRIx64 " have more owners than are counted",
				g4_address_stored(first));
		return 1;
	}
	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++) {
		const int status = claim_page(fsck, where, g4_address_after_pages(first, quarter));
		worst = status < 0 || worst == 0 ? status : worst;
	}
	return worst;
}

/* The four pages of sums that an entry of a large page leads to. The worst of what check_page() says of them. */
static int check_row(struct g4_fsck *fsck, const struct g4_fsck_where *where, const struct g4_sum_entry *entry,
		     uint32_t level, uint64_t file_page, struct g4_sums_page *row, uint64_t *pages)
{
	int worst = 0;

	if (g4_sum_entry_algorithm(entry) == G4_CHECKSUM_NONE) {
		memset(row, 0, G4_SUMS_QUARTERS * sizeof(*row));
		return 0;
	}
	if (g4_sum_entry_algorithm(entry) != G4_CHECKSUM_LARGE) {
		g4_fsck_problem(fsck, G4_FSCK_SUMS, where,
				"the sum of the large page with the contents from page %" PRIu64 " on is impossible",
				file_page);
		return -G4_E_CORRUPT_SUMS;
	}
	if (level == 1 && fsck->rows != NULL)
		return check_shared_row(fsck, where, entry, file_page, row, pages);
	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++) {
		const uint64_t from = file_page + ((uint64_t)quarter * G4_SUMS_SLOTS << 9 * (level - 1));
		const int status = check_page(fsck, where, g4_address_after_pages(g4_sum_entry_place(entry), quarter),
					      level, quarter, from, entry, &row[quarter]);
		*pages += status >= 0;
		worst = status < 0 || worst == 0 ? status : worst;
	}
	return worst;
}

static void check_listed_rows(struct g4_fsck *fsck, const struct g4_fsck_where *where, struct g4_address address,
			      const struct g4_sums_page *row)
{
	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++)
		g4_fsck_check_listed_row(fsck, where, g4_address_after_pages(address, quarter * G4_SUMS_SLOTS),
					 row[quarter].entries, G4_SUMS_SLOTS);
}

bool g4_fsck_sums_large(struct g4_fsck *fsck, const struct g4_inode *inode, const struct g4_fsck_where *where,
			const struct g4_map_item *item, uint64_t *pages)
{
	struct g4_sums_page row[G4_SUMS_QUARTERS], below[G4_SUMS_QUARTERS];
	struct place place;

	find_entry(fsck, inode, item, &place);
	int status = check_row(fsck, where, &place.entry, item->height, item->file_page, row, pages);
	if (item->height == 1 && status >= 0)
		check_listed_rows(fsck, where, g4_ptr_address(item->ptr), row);
	for (uint32_t i = 0; item->height == 2 && status >= 0 && i < G4_INDIRECT_SLOTS; i++) {
		const int part = check_row(fsck, where, &row[i / G4_SUMS_SLOTS].entries[i % G4_SUMS_SLOTS], 1,
					   item->file_page + (uint64_t)i * G4_INDIRECT_SLOTS, below, pages);
		if (part >= 0)
			check_listed_rows(fsck, where,
					  g4_address_after_pages(g4_ptr_address(item->ptr),
								 (uint64_t)i * G4_INDIRECT_SLOTS),
					  below);
		status = part < 0 || status == 0 ? part : status;
	}
	if (status < 0 && fsck->repairing)
		give_up_entry(fsck, where, item, &place);
	return status == 0;
}

/* ------------------------------------------------------------------ blocks of sums, of the slots in inodes */

struct g4_fsck_cell *g4_fsck_blocks(struct g4_fsck *fsck, uint64_t page)
{
	struct g4_fsck_cell *cell = g4_fsck_find(&fsck->blocks, page);
	uint8_t copy[G4_PAGE_BYTES];
	const struct g4_slab_header *slab = (const struct g4_slab_header *)(const void *)copy;

	if (cell != NULL)
		return cell;
	cell = g4_fsck_add(fsck, &fsck->blocks, page);
	if (cell == NULL)
		return NULL;
	int status = g4_ptr_validate(g4_ptr_make(g4_page_address(page), G4_TAG_4K, G4_PTR_VALID), &fsck->image->layout);
	if (status == 0)
		status = g4_image_block(fsck->image, g4_page_address(page), G4_BLOCK_SLAB, copy);
	if (status == 0)
		status = g4_slab_validate(slab);
	if (status == 0 && slab->kind != G4_SLAB_SMALL)
		status = -G4_E_CORRUPT_SUMS;
	cell->c = (uint32_t)-status;
	cell->a = status == 0 ? slab->used : 0;
	if (status < 0) {
		g4_fsck_note_broken(fsck, g4_page_address(page));
		g4_fsck_problem(fsck, G4_FSCK_SUMS, NULL, "the slab of blocks of sums at 0x%" PRIx64 " is damaged: %s",
				page * G4_PAGE_BYTES, g4_strerror(status));
	} else if (!fsck->slabs_later) {
		g4_fsck_claim_metadata(fsck, g4_page_address(page), NULL, "a slab of blocks of sums");
	}
	return cell;
}

/* Of the slots of an inode. */
static bool check_lost_in_block(struct g4_fsck *fsck, const struct g4_inode *inode, const struct g4_fsck_where *where)
{
	const struct g4_address page = slab_of_block(inode);
	const uint32_t offset = offset_of_block(inode);
	uint8_t copy[G4_PAGE_BYTES], *stored;
	struct g4_sums_block block;

	if (g4_image_block(fsck->image, page, G4_BLOCK_SLAB, copy) < 0)
		return false;
	memcpy(&block, copy + offset, sizeof(block));
	g4_fsck_check_listed(fsck, where, inode->map, block.entries, G4_MAP_SLOTS);
	const uint32_t lost = take_lost(inode->map, block.entries, G4_MAP_SLOTS);
	if (lost > 0 && fsck->repairing && (stored = g4_fsck_edit(fsck, page)) != NULL) {
		memcpy(stored + offset, &block, sizeof(block));
		g4_fsck_seal(fsck, page, G4_BLOCK_SLAB);
	}
	return tell_lost(fsck, where, lost, 0, G4_MAP_SLOTS);
}

bool g4_fsck_sums_block(struct g4_fsck *fsck, const struct g4_inode *inode, const struct g4_fsck_where *where)
{
	const struct g4_address address = g4_address_from(inode->checksums);
	const uint32_t slot = g4_slab_slot_of(address);

	if (g4_address_is_none(address))
		return true;
	struct g4_fsck_cell *cell = g4_fsck_blocks(fsck, g4_address_page(address));
	if (cell == NULL)
		return false;
	if (cell->c == 0 && (cell->a >> slot & 1) != 0 && (cell->b >> slot & 1) == 0) {
		cell->b |= 3u << slot;
		return inode->map_height > 0 || check_lost_in_block(fsck, inode, where);
	}
	g4_fsck_problem(fsck, G4_FSCK_SUMS, where, "the block of sums at 0x%" PRIx64 " %s", inode->checksums,
			cell->c != 0		   ? "can not be read" :
			(cell->a >> slot & 1) == 0 ? "is not in use" :
						     "is another file's, too");
	if (fsck->repairing) {
		struct g4_inode *slot_of = g4_fsck_edit_inode(fsck, where->ino);
		if (slot_of != NULL) {
			slot_of->checksums = 0;
			g4_fsck_seal_inode(fsck, where->ino);
			g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, where, 0, G4_MAP_SLOTS * G4_PAGE_BYTES,
				       "contents whose sums are gone: they can not be verified");
		}
	}
	return false;
}

void g4_fsck_unmet_blocks(struct g4_fsck *fsck)
{
	uint64_t count;
	uint64_t *pages = g4_fsck_keys(fsck, &fsck->blocks, &count);

	for (uint64_t i = 0; i < count; i++) {
		const struct g4_fsck_cell *cell = g4_fsck_find(&fsck->blocks, pages[i]);
		const uint32_t unmet = cell->c != 0 ? 0 : cell->a & ~cell->b & 0xfffcu;
		if (unmet == 0)
			continue;
		g4_fsck_problem(fsck, G4_FSCK_SUMS, NULL, "%d blocks of sums in the slab at 0x%" PRIx64 " are nobody's",
				__builtin_popcount(unmet) / 2, pages[i] * G4_PAGE_BYTES);
		struct g4_slab_header *slab =
			!fsck->repairing ?
				NULL :
				(struct g4_slab_header *)(void *)g4_fsck_edit(fsck, g4_page_address(pages[i]));
		if (slab == NULL)
			continue;
		slab->used = (g4_le16)(slab->used & ~unmet);
		g4_fsck_seal(fsck, g4_page_address(pages[i]), G4_BLOCK_SLAB);
		g4_fsck_find(&fsck->blocks, pages[i])->a &= ~unmet;
		g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0, "blocks of sums that nobody has are free now");
	}
	free(pages);
}
