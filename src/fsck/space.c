/* SPDX-License-Identifier: Apache-2.0 */
/* Superblocks, group descriptors, allocation maps. */
#include <inttypes.h>
#include <stdlib.h>

#include "fsck/claim.h"
#include "fsck/inode.h"
#include "fsck/listed.h"
#include "fsck/report.h"
#include "fsck/shares.h"
#include "fsck/space.h"
#include "fsck/tables.h"

/* ------------------------------------------------------------------ superblocks */

static bool superblocks_agree(const struct g4_superblock *a, const struct g4_superblock *b)
{
	const uint64_t added = G4_FEATURE_INCOMPAT_RESIZING | G4_FEATURES_ADDED | G4_FEATURE_INCOMPAT_SHARED_MAPS;
	struct g4_superblock left = *a, right = *b;

	/* What each write changes, and the header. */
	memset(&left.header, 0, sizeof(left.header));
	memset(&right.header, 0, sizeof(right.header));
	left.state = right.state = 0;
	left.mounted_ns = right.mounted_ns = 0;
	left.written_ns = right.written_ns = 0;
	left.mount_count = right.mount_count = 0;
	memset(left.label, 0, sizeof(left.label));
	memset(right.label, 0, sizeof(right.label));
	/* of several disks counts that were written by themselves; of one it has none */
	if (a->features_incompat & b->features_incompat & G4_FEATURE_INCOMPAT_DISKS)
		memcpy(left.disk_damaged, right.disk_damaged, sizeof(left.disk_damaged));
	/* what is added while mounted is in one first, and is used when both have it */
	left.features_incompat &= ~added;
	right.features_incompat &= ~added;
	return memcmp(&left, &right, sizeof(left)) == 0;
}

void g4_fsck_superblocks(struct g4_fsck *fsck)
{
	const struct g4_image *image = fsck->image;

	if (fsck->foreign != NULL)
		g4_fsck_problem(fsck, G4_FSCK_SUPERBLOCK, NULL,
				"the device holds %s, or what is left of that; a repair overwrites it", fsck->foreign);
	if (fsck->made_superblock) {
		g4_fsck_problem(fsck, G4_FSCK_SUPERBLOCK, NULL,
				"there is no superblock; one is made of what the group descriptors tell");
		if (fsck->repairing)
			g4_fsck_change(
				fsck, G4_FSCK_LOST, NULL, 0, 0,
				"the label, all but the first eight digits of the UUID, and the key of the directories' "
				"hash, so that these are built anew");
		return;
	}
	if (fsck->repairing && (image->sb.state & G4_STATE_ERROR) != 0)
		g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0,
			       "the mark that it stopped after an error is taken away");
	if (image->primary_status < 0) {
		g4_fsck_problem(fsck, G4_FSCK_SUPERBLOCK, NULL,
				"the first superblock is damaged (%s); the second is used",
				g4_strerror(image->primary_status));
		if (fsck->repairing)
			g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0,
				       "the first superblock is written from the second");
	}
	if (image->backup_status < 0) {
		g4_fsck_problem(fsck, G4_FSCK_SUPERBLOCK, NULL,
				"the second superblock, at 0x%" PRIx64 ", is damaged (%s)",
				image->layout.backup_address, g4_strerror(image->backup_status));
		if (fsck->repairing)
			g4_fsck_change(fsck, G4_FSCK_REPAIRED, NULL, 0, 0,
				       "the second superblock is written from the first");
	}
	if (image->primary_status == 0 && image->backup_status == 0 &&
	    !superblocks_agree(&image->primary, &image->backup)) {
		g4_fsck_problem(fsck, G4_FSCK_SUPERBLOCK, NULL, "the two superblocks describe different file systems");
		if (fsck->repairing)
			g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, NULL, 0, 0,
				       "the second superblock is written from the first");
	}
}

/* ------------------------------------------------------------------ maps */

static void set_bad_group(struct g4_fsck *fsck, uint64_t group)
{
	fsck->bad_group[group / 64] |= UINT64_C(1) << group % 64;
}

/* Takes over what a map says. */
static void take_map(struct g4_fsck *fsck, uint64_t group, const struct g4_alloc_page *page)
{
	for (uint32_t word = 0; word < G4_FSCK_GROUP_WORDS; word++) {
		const struct g4_region *region = &page->regions[word / G4_FSCK_REGION_WORDS];
		const uint64_t used = region->used[word % G4_FSCK_REGION_WORDS];
		fsck->alloc_used[group * G4_FSCK_GROUP_WORDS + word] = used;
		fsck->alloc_slab[group * G4_FSCK_GROUP_WORDS + word] = region->slab[word % G4_FSCK_REGION_WORDS];
		fsck->pages_marked += (uint64_t)__builtin_popcountll(used);
	}
}

static void load_map(struct g4_fsck *fsck, uint64_t group, const struct g4_group_descriptor *descriptor)
{
	struct g4_alloc_page page;
	uint64_t used_pages = 0, slabs = 0;

	if ((descriptor->flags & G4_GROUP_INITIALISED) == 0)
		return; /* all free, and so says the descriptor: it was validated */
	int status =
		g4_image_block(fsck->image, g4_layout_map_page(&fsck->image->layout, group), G4_BLOCK_ALLOC, &page);
	if (status == 0)
		status = g4_alloc_page_validate(&page, group);
	if (status < 0) {
		g4_fsck_problem(fsck, G4_FSCK_ALLOC, NULL, "the allocation map of group %" PRIu64 " is damaged: %s",
				group, g4_strerror(status));
		set_bad_group(fsck, group);
		g4_fsck_load_owners(fsck, group, NULL);
		return;
	}
	take_map(fsck, group, &page);
	g4_fsck_load_owners(fsck, group, &page);
	for (uint64_t word = group * G4_FSCK_GROUP_WORDS; word < (group + 1) * G4_FSCK_GROUP_WORDS; word++) {
		used_pages += (uint64_t)__builtin_popcountll(fsck->alloc_used[word]);
		slabs += (uint64_t)__builtin_popcountll(fsck->alloc_slab[word]);
	}
	if (descriptor->free_pages != G4_GROUP_PAGES - used_pages || descriptor->slabs != slabs)
		g4_fsck_problem(fsck, G4_FSCK_GROUP_COUNT, NULL,
				"group %" PRIu64
				": the descriptor counts %u free pages and %u slabs with room, its map has %" PRIu64
				" and %" PRIu64,
				group, descriptor->free_pages, descriptor->slabs, G4_GROUP_PAGES - used_pages, slabs);
}

/* Without its descriptor: a map that is this group's was written for it. */
static void load_map_alone(struct g4_fsck *fsck, uint64_t group)
{
	struct g4_alloc_page page;
	int status =
		g4_image_block(fsck->image, g4_layout_map_page(&fsck->image->layout, group), G4_BLOCK_ALLOC, &page);

	if (status == 0)
		status = g4_alloc_page_validate(&page, group);
	if (status < 0)
		set_bad_group(fsck, group);
	else
		take_map(fsck, group, &page);
	g4_fsck_load_owners(fsck, group, status < 0 ? NULL : &page);
}

static void claim_fixed_area(struct g4_fsck *fsck)
{
	const struct g4_layout *layout = &fsck->image->layout;
	const uint64_t end = layout->group_count * G4_GROUP_BYTES;

	g4_fsck_claim(fsck, G4_NO_ADDRESS, layout->data_address / G4_PAGE_BYTES, NULL, "the fixed area");
	g4_fsck_claim(fsck, g4_layout_backup(layout), (end - layout->backup_address) / G4_PAGE_BYTES, NULL,
		      "the second superblock");
}

bool g4_fsck_load_maps(struct g4_fsck *fsck)
{
	const struct g4_layout *layout = &fsck->image->layout;
	const bool may_share_rows = (fsck->image->sb.features_incompat & G4_FEATURE_INCOMPAT_ROWS) != 0;
	const bool may_share_maps = (fsck->image->sb.features_incompat & G4_FEATURE_INCOMPAT_SHARED_MAPS) != 0;

	fsck->bitmap_words = layout->group_count * G4_FSCK_GROUP_WORDS;
	fsck->used = calloc(fsck->bitmap_words, sizeof(uint64_t));
	fsck->alloc_used = calloc(fsck->bitmap_words, sizeof(uint64_t));
	fsck->alloc_slab = calloc(fsck->bitmap_words, sizeof(uint64_t));
	fsck->bad_group = calloc(layout->group_count / 64 + 1, sizeof(uint64_t));
	if (fsck->repairing && fsck->metadata == NULL)
		fsck->metadata = calloc(fsck->bitmap_words, sizeof(uint64_t));
	if (may_share_rows)
		fsck->rows = calloc(fsck->bitmap_words, sizeof(uint64_t));
	if (may_share_maps)
		fsck->maps = calloc(fsck->bitmap_words, sizeof(uint64_t));
	if (fsck->used == NULL || fsck->alloc_used == NULL || fsck->alloc_slab == NULL || fsck->bad_group == NULL ||
	    (fsck->repairing && fsck->metadata == NULL) || (may_share_maps && fsck->maps == NULL) ||
	    (may_share_rows && fsck->rows == NULL)) {
		fsck->fatal = -G4_E_NOMEM;
		return false;
	}
	for (uint64_t first = 0; first < layout->group_count; first += G4_GROUPS_PER_PAGE) {
		const uint64_t count = g4_min64(layout->group_count - first, G4_GROUPS_PER_PAGE);
		struct g4_groups_page page;
		int status = g4_image_block(fsck->image, g4_layout_groups_page(layout, first), G4_BLOCK_GROUPS, &page);
		if (status == 0)
			status = g4_groups_page_validate(&page, first, layout->group_count);
		if (status < 0)
			g4_fsck_problem(fsck, G4_FSCK_GROUPS, NULL,
					"the descriptors of groups %" PRIu64 " to %" PRIu64 " are damaged: %s", first,
					first + count - 1, g4_strerror(status));
		for (uint64_t group = first; group < first + count; group++) {
			if (status < 0)
				load_map_alone(fsck, group);
			else
				load_map(fsck, group, &page.groups[group - first]);
		}
	}
	claim_fixed_area(fsck);
	return true;
}

/* ------------------------------------------------------------------ slabs that no directory led to */

/* `kind` 0: of inodes, or of nobody knows what. One of blocks of sums may be damaged, if it still says that: no inode is lost with it. */
static bool looks_like_slab(struct g4_fsck *fsck, uint64_t page, uint32_t kind)
{
	uint8_t copy[G4_PAGE_BYTES] __attribute__((aligned(8))) = {0};
	const struct g4_slab_header *slab = (const struct g4_slab_header *)(const void *)copy;
	const bool small = kind == G4_SLAB_SMALL;

	if (g4_image_block(fsck->image, g4_page_address(page), G4_BLOCK_SLAB, copy) < 0)
		return small && slab->header.magic == G4_BLOCK_MAGIC && slab->header.type == G4_BLOCK_SLAB &&
		       slab->header.address == page * G4_PAGE_BYTES && slab->kind == G4_SLAB_SMALL;
	return (slab->kind == G4_SLAB_SMALL) == small;
}

/* No map says that it is in use: its inodes are judged one by one, and it is claimed with the first that is kept. */
static void add_unconfirmed(struct g4_fsck *fsck, uint64_t page)
{
	struct g4_slab_header slab;
	struct g4_fsck_cell *cell = g4_fsck_add(fsck, &fsck->slabs, page);
	const void *contents;

	if (cell == NULL)
		return;
	cell->d = G4_FSCK_UNCONFIRMED;
	cell->c = G4_E_CORRUPT_ALLOC;
	if (g4_image_page(fsck->image, g4_page_address(page), &contents) < 0)
		return;
	memcpy(&slab, contents, sizeof(slab));
	if (g4_slab_validate(&slab) != 0 || slab.kind != G4_SLAB_INODES)
		return;
	cell->a = slab.used;
	cell->c = 0;
}

/* What was found in free space in an earlier round. */
static void add_hidden(struct g4_fsck *fsck)
{
	uint64_t count;
	uint64_t *pages = g4_fsck_keys(fsck, &fsck->hidden, &count);

	for (uint64_t i = 0; i < count; i++)
		g4_fsck_slab(fsck, pages[i], NULL);
	free(pages);
}

void g4_fsck_find_slabs(struct g4_fsck *fsck)
{
	add_hidden(fsck);
	for (uint64_t word = 0; word < fsck->bitmap_words; word++) {
		/* Slabs with room are known by their bit; full ones look like leaked pages at first. */
		uint64_t candidates = fsck->alloc_slab[word] | (fsck->alloc_used[word] & ~fsck->used[word]);
		const bool unknown = fsck->repairing && g4_fsck_bit(fsck->bad_group, word / G4_FSCK_GROUP_WORDS);
		if (unknown)
			candidates = ~fsck->used[word];
		while (candidates != 0 && fsck->fatal == 0) {
			const uint64_t page = word * 64 + (uint64_t)__builtin_ctzll(candidates);
			const bool marked = g4_fsck_bit(fsck->alloc_slab, page);
			candidates &= candidates - 1;
			if (g4_fsck_find(&fsck->blocks, page) != NULL)
				continue;
			if (!unknown && g4_fsck_find(&fsck->slabs, page) == NULL &&
			    looks_like_slab(fsck, page, G4_SLAB_SMALL))
				g4_fsck_blocks(fsck, page);
			else if (unknown && g4_fsck_find(&fsck->slabs, page) == NULL && looks_like_slab(fsck, page, 0))
				add_unconfirmed(fsck, page);
			else if (!unknown && g4_fsck_find(&fsck->slabs, page) == NULL &&
				 (marked || looks_like_slab(fsck, page, 0)))
				g4_fsck_slab(fsck, page, NULL);
		}
	}
}

/* ------------------------------------------------------------------ what was met against what is marked */

static void report_run(struct g4_fsck *fsck, uint64_t first, uint64_t end, bool leaked)
{
	const uint64_t count = end - first;

	g4_fsck_problem(fsck, leaked ? G4_FSCK_LEAKED : G4_FSCK_UNMARKED, NULL,
			"%" PRIu64 " page%s from 0x%" PRIx64 " on: %s", count, count == 1 ? "" : "s",
			first * G4_PAGE_BYTES,
			leaked ? "marked as used, but nothing uses them" : "in use, but marked as free");
}

/* Runs of set bits of `bits(word)`, across words. */
static void compare_bits(struct g4_fsck *fsck, bool leaked)
{
	uint64_t run_start = UINT64_MAX;

	for (uint64_t word = 0; word <= fsck->bitmap_words; word++) {
		uint64_t bits = 0;
		if (word < fsck->bitmap_words && !g4_fsck_bit(fsck->bad_group, word / G4_FSCK_GROUP_WORDS))
			bits = leaked ? fsck->alloc_used[word] & ~fsck->used[word] :
					fsck->used[word] & ~fsck->alloc_used[word];
		if ((bits == 0 && run_start == UINT64_MAX) || (bits == UINT64_MAX && run_start != UINT64_MAX))
			continue;
		for (uint64_t bit = 0; bit < 64; bit++) {
			const bool set = (bits >> bit & 1) != 0;
			if (set && run_start == UINT64_MAX)
				run_start = word * 64 + bit;
			if (!set && run_start != UINT64_MAX) {
				report_run(fsck, run_start, word * 64 + bit, leaked);
				run_start = UINT64_MAX;
			}
		}
	}
}

static void compare_slab_bits(struct g4_fsck *fsck, const struct g4_fsck_table *slabs)
{
	uint64_t count;
	uint64_t *pages = g4_fsck_keys(fsck, slabs, &count);

	for (uint64_t i = 0; i < count; i++) {
		const struct g4_fsck_cell *slab = g4_fsck_find(slabs, pages[i]);
		const bool has_room = slab->a != UINT16_MAX;
		if (slab->c != 0 || !g4_fsck_bit(fsck->used, pages[i]) ||
		    g4_fsck_bit(fsck->bad_group, pages[i] / G4_GROUP_PAGES) ||
		    has_room == g4_fsck_bit(fsck->alloc_slab, pages[i]))
			continue;
		g4_fsck_problem(fsck, G4_FSCK_SLAB_BIT, NULL,
				"the slab at 0x%" PRIx64 " %s, its group's map says otherwise",
				pages[i] * G4_PAGE_BYTES, has_room ? "has free slots" : "is full");
	}
	free(pages);
}

/* What a file had that is gone, inode and all, looks like this. */
static void tell_leaked(struct g4_fsck *fsck)
{
	uint64_t pages = 0;

	for (uint64_t word = 0; word < fsck->bitmap_words; word++)
		pages += (uint64_t)__builtin_popcountll(g4_fsck_leaked(fsck, word));
	if (pages != 0)
		g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, NULL, 0, 0,
			       "%" PRIu64
			       " page%s that the maps call used, and that nothing leads to, %s free now: if these "
			       "were a file's, that is lost",
			       pages, pages == 1 ? "" : "s", pages == 1 ? "is" : "are");
}

void g4_fsck_compare_maps(struct g4_fsck *fsck)
{
	g4_fsck_unmet_blocks(fsck);
	g4_fsck_compare_owners(fsck);
	g4_fsck_compare_listed(fsck);
	if (fsck->repairing)
		tell_leaked(fsck);
	compare_bits(fsck, true);
	compare_bits(fsck, false);
	compare_slab_bits(fsck, &fsck->slabs);
	compare_slab_bits(fsck, &fsck->blocks);
}
