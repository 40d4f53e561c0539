/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a round of repair leaves for its end. Room for new pages is taken only where the allocation maps say that nothing
 * is, and nothing was met; where a map is damaged, only where no page of metadata of this file system lies.
 */
#include <stdlib.h>

#include "format/sums.h"
#include "fsck/plan.h"
#include "fsck/report.h"
#include "fsck/tables.h"
#include "journal/block.h"
#include "space/set_host.h"

void g4_fsck_add_task(struct g4_fsck *fsck, const struct g4_fsck_task *task)
{
	for (uint64_t i = 0; task->kind == G4_FSCK_REBUILD && i < fsck->task_count; i++) {
		if (fsck->tasks[i].kind != G4_FSCK_REBUILD || fsck->tasks[i].ino != task->ino)
			continue;
		fsck->tasks[i].missing = fsck->tasks[i].missing || task->missing;
		return;
	}
	if (g4_fsck_reserve(fsck, (void **)&fsck->tasks, fsck->task_count, &fsck->task_room, sizeof(*fsck->tasks)))
		fsck->tasks[fsck->task_count++] = *task;
}

void g4_fsck_add_name(struct g4_fsck *fsck, uint64_t dir, uint64_t ino, uint32_t file_type, const char *name)
{
	struct g4_fsck_addition addition = {.dir = dir, .ino = ino, .file_type = (uint8_t)file_type};

	snprintf(addition.name, sizeof(addition.name), "%s", name);
	if (g4_fsck_reserve(fsck, (void **)&fsck->additions, fsck->addition_count, &fsck->addition_room,
			    sizeof(*fsck->additions)))
		fsck->additions[fsck->addition_count++] = addition;
}

/* ------------------------------------------------------------------ room */

/* With no map to tell: a page that says it is metadata of this file system is left alone. */
static bool is_metadata(struct g4_fsck *fsck, uint64_t page)
{
	struct g4_indirect_header indirect;
	struct g4_block_header header;
	struct g4_sums_header sums;
	const void *contents;

	if (g4_image_page(fsck->image, g4_page_address(page), &contents) < 0)
		return true;
	memcpy(&header, contents, sizeof(header));
	g4_indirect_extract(contents, &indirect);
	g4_sums_extract(contents, &sums);
	return (header.magic == G4_BLOCK_MAGIC && header.fs_tag == fsck->image->fs_tag) ||
	       (sums.header.magic == G4_BLOCK_MAGIC && sums.header.fs_tag == fsck->image->fs_tag) ||
	       (indirect.header.magic == G4_BLOCK_MAGIC && indirect.header.fs_tag == fsck->image->fs_tag);
}

/* How much is risked for room, one after the other. */
enum risk {
	SURE,	 /* free by the map, and nothing of this file system, which a wrong map may have forgotten */
	UNKNOWN, /* the same where there is no map */
	CRAMPED, /* free by the map, whatever is there */
	RISKS
};

/* Of a set: whether no disk has the page. */
static bool is_gone(struct g4_fsck *fsck, uint64_t page)
{
	const uint64_t address = page * G4_PAGE_BYTES;
	struct g4_chunk *chunk = &fsck->chunk;

	if (address - chunk->address >= chunk->bytes)
		for (uint32_t n = 0;
		     g4_set_chunk(fsck->image->dev, n, chunk) && address - chunk->address >= chunk->bytes; n++)
			;
	return chunk->bytes != 0 && g4_chunk_is_gone(chunk);
}

static bool is_free(struct g4_fsck *fsck, uint64_t page, enum risk risk)
{
	const bool unknown = g4_fsck_bit(fsck->bad_group, page / G4_GROUP_PAGES);

	if (g4_fsck_bit(fsck->used, page) || is_gone(fsck, page))
		return false;
	if (unknown)
		return risk == UNKNOWN && !is_metadata(fsck, page);
	return !g4_fsck_bit(fsck->alloc_used, page) && (risk == CRAMPED || fsck->searched || !is_metadata(fsck, page));
}

static uint64_t search(struct g4_fsck *fsck, uint64_t pages, enum risk risk)
{
	const uint64_t end = fsck->bitmap_words * 64;
	uint64_t start = g4_align_up(fsck->hand, pages);

	for (uint64_t tried = 0; tried < end / pages + 1; tried++, start += pages) {
		if (start + pages > end)
			start = 0;
		uint64_t fits = 0;
		while (fits < pages && is_free(fsck, start + fits, risk))
			fits++;
		if (fits == pages)
			return start;
	}
	return 0;
}

struct g4_address g4_fsck_find_room(struct g4_fsck *fsck, uint64_t pages)
{
	enum risk risk = SURE;
	uint64_t first;

	while ((first = search(fsck, pages, risk)) == 0 && risk + 1 < RISKS)
		risk++;
	if (first == 0) {
		fsck->no_room = true;
		return G4_NO_ADDRESS;
	}
	if (risk == CRAMPED && !fsck->cramped)
		g4_fsck_change(fsck, G4_FSCK_DOUBTFUL, NULL, 0, 0,
			       "free space is scarce: what the maps may have forgotten is overwritten");
	fsck->cramped = fsck->cramped || risk == CRAMPED;
	if (!g4_fsck_set_bits(fsck, &fsck->taken, first, pages))
		return G4_NO_ADDRESS;
	for (uint64_t page = first; page < first + pages; page++)
		g4_fsck_set_bit(fsck->used, page);
	fsck->hand = first + pages;
	return g4_page_address(first);
}
