/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indirect pages that several files have. Whoever meets one first walks what hangs at it, for all owners; the others count themselves
 * as owners and add the number of pages that it says, or that a page of level 1 shows: so a map of shared maps takes as long as it has
 * pages, whatever is reached through it, and several threads need not wait for each other. What the first one finds out is compared
 * with that number.
 */
#include <inttypes.h>

#include "format/indirect.h"
#include "format/sums.h"
#include "fsck/claim.h"
#include "fsck/fix.h"
#include "fsck/owners.h"
#include "fsck/report.h"
#include "fsck/shared_map.h"
#include "fsck/tables.h"
#include "journal/block.h"

bool g4_fsck_may_share_maps(const struct g4_fsck *fsck)
{
	return (fsck->image->sb.features_incompat & G4_FEATURE_INCOMPAT_SHARED_MAPS) != 0;
}

static void set_flag(struct g4_fsck *fsck, uint64_t ino, bool shares)
{
	struct g4_inode *slot = g4_fsck_edit_inode(fsck, ino);

	if (slot == NULL)
		return;
	slot->flags = shares ? slot->flags | G4_INODE_SHARES_MAP : slot->flags & ~G4_INODE_SHARES_MAP;
	g4_fsck_seal_inode(fsck, ino);
}

void g4_fsck_check_sharing(struct g4_fsck *fsck, uint64_t ino, const struct g4_inode *inode,
			   const struct g4_fsck_where *where)
{
	if ((inode->flags & G4_INODE_SHARES_MAP) == 0)
		return;
	fsck->sharing_files++;
	if (g4_fsck_may_share_maps(fsck))
		return;
	g4_fsck_problem(fsck, G4_FSCK_INODE, where, "inode 0x%" PRIx64 " says that it shares its map, and no file may",
			ino);
	if (!fsck->repairing)
		return;
	set_flag(fsck, ino, false);
	g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, where, 0, 0, "the file's map is taken for its own");
}

/*
 * A count of owners that is wrong, and that nobody but a superblock could have told to be, has made its file one that shares. What nobody has
 * a part of keeps the file system from being written.
 */
bool g4_fsck_stop_sharing(struct g4_fsck *fsck)
{
	if (!fsck->made_superblock || !g4_fsck_may_share_maps(fsck) || fsck->shared_maps != 0)
		return false;
	fsck->image->sb.features_incompat &= ~G4_FEATURE_INCOMPAT_SHARED_MAPS;
	return fsck->sharing_files != 0;
}

void g4_fsck_set_sharing(struct g4_fsck *fsck, const struct g4_fsck_where *where, struct g4_address address)
{
	fsck->map_walk.shares = true;
	g4_fsck_problem(fsck, G4_FSCK_INODE, where,
			"the indirect page at 0x%" PRIx64 " has several owners, and the inode does not say so",
			g4_address_stored(address));
	if (!fsck->repairing)
		return;
	set_flag(fsck, where->ino, true);
	g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, where, 0, 0, "the inode says that it shares its map");
}

/* ------------------------------------------------------------------ claims */

/* The bit of the bitmap of indirect pages decides who is first; only then is the page claimed among all others. */
enum g4_fsck_map_claim g4_fsck_claim_map(struct g4_fsck *fsck, struct g4_address address,
					 const struct g4_fsck_where *where)
{
	const uint64_t page = g4_address_page(address), bit = UINT64_C(1) << page % 64;

	if ((__atomic_fetch_or(&fsck->maps[page / 64], bit, __ATOMIC_RELAXED) & bit) != 0)
		return G4_FSCK_MAP_AGAIN;
	return g4_fsck_claim_metadata(fsck, address, where, "an indirect page") ? G4_FSCK_MAP_FIRST : G4_FSCK_MAP_TAKEN;
}

bool g4_fsck_map_is_counted(const struct g4_fsck *fsck, struct g4_address address)
{
	const uint64_t page = g4_address_page(address);
	const struct g4_fsck_owners *owners = g4_fsck_find_owners(fsck, page / G4_REGION_PAGES);

	return owners != NULL && owners->counted[page % G4_REGION_PAGES] != 0;
}

/* Of level 1: single pages, itself and its pages of sums. */
static uint64_t count_slots(const struct g4_map_frame *frame)
{
	uint64_t pages = 1;

	for (uint32_t slot = 0; slot < G4_INDIRECT_SLOTS; slot++)
		pages += frame->slots[slot] != 0;
	for (uint32_t quarter = 0; quarter < G4_SUMS_QUARTERS; quarter++)
		pages += !g4_address_is_none(g4_sums_place(&frame->sums, frame->page, quarter));
	return pages;
}

void g4_fsck_tell_map(struct g4_fsck *fsck, struct g4_address address)
{
	if (g4_fsck_may_share_maps(fsck) && !g4_address_is_none(address))
		g4_fsck_set_bits(fsck, &fsck->told_maps, g4_address_page(address), 1);
}

bool g4_fsck_map_is_told(const struct g4_fsck *fsck, struct g4_address address)
{
	return fsck->told_maps != NULL && g4_fsck_bit(fsck->told_maps, g4_address_page(address));
}

bool g4_fsck_share_map(struct g4_fsck *fsck, const struct g4_fsck_where *where, const struct g4_map_item *item,
		       uint64_t *pages)
{
	const struct g4_map_frame *frame = &fsck->map_walk.frames[fsck->map_walk.depth + 1];
	const uint64_t page = g4_address_page(frame->page);

	if (fsck->repairing && g4_fsck_map_is_told(fsck, frame->page) && !g4_fsck_is_touched(fsck, where->ino))
		g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, where, item->file_page * G4_PAGE_BYTES,
			       G4_PAGE_BYTES << 9 * item->height,
			       "contents that other files have by the same indirect page, and lost or have doubts of");
	if (!g4_fsck_meet_map(fsck, page)) {
		g4_fsck_problem(fsck, G4_FSCK_OWNERS, where,
				"the indirect page at 0x%" PRIx64 " has more owners than are counted",
				g4_address_stored(frame->page));
		return false;
	}
	const uint64_t below = item->height == 1 ? count_slots(frame) : frame->below;
	*pages += below;
	return below != 0 && (fsck->bad_maps == NULL || !g4_fsck_bit(fsck->bad_maps, page));
}

/* ------------------------------------------------------------------ what it says of the pages below */

static void set_below(struct g4_fsck *fsck, struct g4_address address, uint32_t below)
{
	g4_le64 *slots = (g4_le64 *)(void *)g4_fsck_edit(fsck, address);
	struct g4_indirect_header header;

	if (slots == NULL)
		return;
	g4_indirect_extract(slots, &header);
	g4_indirect_set_below(&header, below);
	g4_indirect_embed(slots, &header);
	g4_indirect_seal(slots, header.inode, header.level, address, fsck->sequence, fsck->image->fs_tag);
}

void g4_fsck_end_map(struct g4_fsck *fsck, const struct g4_fsck_where *where, struct g4_address address, uint32_t level,
		     uint32_t below, uint64_t pages, bool good)
{
	const bool counts = level == G4_SHARED_MAP_LEVEL;
	const bool shared = counts && g4_fsck_map_is_counted(fsck, address);

	if (!good) {
		g4_fsck_set_bits(fsck, &fsck->bad_maps, g4_address_page(address), 1);
		return;
	}
	/* what others had may say it still; not where it is not known yet whether there are others */
	const bool may_say = shared || !fsck->made_superblock;
	if (below == 0 ? !shared : counts && below == pages && may_say)
		return;
	g4_fsck_problem(fsck, G4_FSCK_MAP, where,
			"the indirect page at 0x%" PRIx64 " says that a file has %" PRIu32
			" pages from it down, there are %" PRIu64,
			g4_address_stored(address), below, pages);
	if (!fsck->repairing)
		return;
	set_below(fsck, address, shared ? (uint32_t)pages : 0);
	g4_fsck_change(fsck, G4_FSCK_REPAIRED, where, 0, 0, "the indirect page says how many pages hang at it");
}
