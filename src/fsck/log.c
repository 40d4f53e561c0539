/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the journal without replaying it. A record counts when its descriptors, its commit page and the checksum over
 * all of it are right and its sequence is the next one; the first that is not ends the log, as after a torn write. The
 * newest record also counts on data pages that were on their way beside it: it is void unless all of them arrived.
 *
 * A header that is lost costs nothing as long as the log is whole: from the oldest record of the newest unbroken row of
 * sequences on, everything can be replayed, for what is home already is written home again, and pages that were freed
 * since are revoked by records of the same row. If the row ends before the newest transaction of all, that would put old
 * metadata over new: journal/replay_host.c says what tells.
 */
#include <stdlib.h>

#include "fsck/image.h"
#include "hash/crc32c.h"
#include "journal/block.h"

#define SEQUENCE_END (UINT64_C(1) << 62)

struct g4_address g4_image_log_address(const struct g4_image *image, uint64_t log_page)
{
	return g4_address_after_pages(g4_layout_journal(&image->layout),
				      1 + log_page % g4_layout_log_pages(&image->layout));
}

/* Reads and verifies one page of a copy of the log; continues *crc over it. */
static int read_log_page(struct g4_image *image, uint32_t number, uint64_t log_page, uint32_t type, uint64_t sequence,
			 void *copy, uint32_t *crc)
{
	const struct g4_address address = g4_image_log_address(image, log_page);
	const struct g4_block_header *header = copy;
	const void *page;
	int status = g4_image_copy_page(image, number, address, &page);

	if (status < 0)
		return status;
	memcpy(copy, page, G4_PAGE_BYTES);
	status = g4_block_verify(copy, type, address, image->fs_tag);
	if (status == 0 && header->generation != sequence)
		status = -G4_E_CORRUPT_JOURNAL;
	*crc = g4_crc32c(*crc, copy, G4_PAGE_BYTES);
	return status;
}

/* The descriptor pages of the record at `record->log_page`, and their tags; false when there is no such record. */
static bool read_descriptors(struct g4_image *image, struct g4_journal_record *record, g4_le64 **tags, uint32_t *crc)
{
	struct g4_journal_descriptor page;
	g4_le64 *all = NULL;

	record->descriptors = 1;
	for (uint32_t index = 0; index < record->descriptors; index++) {
		if (read_log_page(image, record->copy, record->log_page + index, G4_BLOCK_JOURNAL_DESCRIPTOR,
				  record->sequence, &page, crc) < 0 ||
		    page.sequence != record->sequence || page.page_index != index)
			goto none;
		if (index == 0) {
			const uint64_t count =
				(uint64_t)page.block_count + page.revoke_count + 2 * (uint64_t)page.data_count;
			record->descriptors = page.page_count;
			record->blocks = page.block_count;
			record->revokes = page.revoke_count;
			record->data_pages = page.data_count;
			record->pages = (uint64_t)page.page_count + page.block_count + 1;
			if (page.page_count == 0 || record->pages > g4_layout_log_pages(&image->layout) ||
			    count > (uint64_t)page.page_count * G4_JOURNAL_TAGS)
				goto none;
			all = malloc((uint64_t)page.page_count * sizeof(page.tags));
			if (all == NULL)
				goto none;
		} else if (page.page_count != record->descriptors || page.block_count != record->blocks ||
			   page.revoke_count != record->revokes || page.data_count != record->data_pages) {
			goto none;
		}
		memcpy(all + (uint64_t)index * G4_JOURNAL_TAGS, page.tags, sizeof(page.tags));
	}
	*tags = all;
	return true;
none:
	free(all);
	return false;
}

/* Everything behind the descriptors: images and the commit page. */
static bool is_committed(struct g4_image *image, struct g4_journal_record *record, uint32_t crc)
{
	struct g4_journal_commit commit;
	const uint64_t commit_page = record->log_page + record->pages - 1;
	const void *page;
	uint32_t ignored = 0;

	for (uint64_t at = record->log_page + record->descriptors; at < commit_page; at++) {
		if (g4_image_copy_page(image, record->copy, g4_image_log_address(image, at), &page) < 0)
			return false;
		crc = g4_crc32c(crc, page, G4_PAGE_BYTES);
	}
	if (read_log_page(image, record->copy, commit_page, G4_BLOCK_JOURNAL_COMMIT, record->sequence, &commit,
			  &ignored) < 0)
		return false;
	record->time_ns = commit.time_ns;
	return commit.sequence == record->sequence && commit.record_pages == record->pages &&
	       commit.record_crc32c == crc;
}

static bool is_home(const struct g4_image *image, struct g4_address address)
{
	return g4_address_starts_page(address) &&
	       !g4_address_is_before(address, g4_layout_groups_page(&image->layout, 0)) &&
	       g4_address_is_before(address, g4_layout_backup(&image->layout));
}

/* A record may only write what transactions write: metadata behind the journal. */
static bool tags_are_possible(const struct g4_image *image, const struct g4_journal_record *record)
{
	for (uint64_t i = 0; i < (uint64_t)record->blocks + record->revokes; i++) {
		if (!is_home(image, g4_address_from(record->tags[i])))
			return false;
	}
	return true;
}

/* In one copy: recovery writes it to the others. */
static bool page_arrived(struct g4_image *image, struct g4_address address, uint64_t crc)
{
	const void *page;

	for (uint32_t copy = 0; copy < g4_space_copies(&image->space); copy++) {
		if (g4_image_copy_page(image, copy, address, &page) >= 0 && g4_crc32c(0, page, G4_PAGE_BYTES) == crc)
			return true;
	}
	return false;
}

static bool data_arrived(struct g4_image *image, const struct g4_journal_record *record)
{
	const g4_le64 *pairs = record->tags + record->blocks + record->revokes;

	for (uint32_t i = 0; i < record->data_pages; i++) {
		const struct g4_address address = g4_address_from(pairs[2 * i]);
		if (!is_home(image, address) || !page_arrived(image, address, pairs[2 * i + 1]))
			return false;
	}
	return true;
}

/* As record->copy has it. */
static bool read_copy(struct g4_image *image, struct g4_journal_record *record, g4_le64 **tags)
{
	uint32_t crc = 0;

	*tags = NULL;
	if (!read_descriptors(image, record, tags, &crc))
		return false;
	record->tags = *tags;
	if (is_committed(image, record, crc))
		return true;
	free(*tags);
	*tags = NULL;
	return false;
}

bool g4_image_read_record(struct g4_image *image, struct g4_journal_record *record, g4_le64 **tags)
{
	for (record->copy = 0; record->copy < g4_space_copies(&image->space); record->copy++) {
		if (read_copy(image, record, tags))
			return true;
	}
	return false;
}

/* How a record changes the totals: when it is found, and when it turns out to be void. */
static void add_record(struct g4_journal_state *state, const struct g4_journal_record *record)
{
	state->records++;
	state->pages += record->pages;
	state->blocks += record->blocks;
	state->revokes += record->revokes;
}

static void take_back(struct g4_journal_state *state, const struct g4_journal_record *record)
{
	state->records--;
	state->pages -= record->pages;
	state->blocks -= record->blocks;
	state->revokes -= record->revokes;
}

/* The records from the tail on. Each is visited when its successor is known, so that the newest can be held back. */
static void scan_records(struct g4_image *image, g4_journal_visit visit, void *context, struct g4_journal_state *state)
{
	struct g4_journal_record newest = {.tags = NULL}, record = {.tags = NULL};
	const uint64_t home = g4_superblock_home(&image->sb);
	g4_le64 *newest_tags = NULL, *tags;
	uint64_t walked = 0;

	record.sequence = state->header.tail_sequence;
	record.log_page = state->header.tail_page;
	while (g4_image_read_record(image, &record, &tags)) {
		const bool is_old = record.sequence <= home;
		if (!is_old && !tags_are_possible(image, &record))
			state->status = -G4_E_CORRUPT_JOURNAL;
		walked += record.pages;
		if (state->status < 0 || walked > g4_layout_log_pages(&image->layout)) {
			free(tags);
			break;
		}
		if (newest_tags != NULL && visit != NULL)
			visit(context, &newest);
		free(newest_tags);
		newest_tags = NULL;
		if (is_old) {
			free(tags);
		} else {
			newest = record;
			newest_tags = tags;
			add_record(state, &record);
		}
		record.log_page = (record.log_page + record.pages) % g4_layout_log_pages(&image->layout);
		record.sequence++;
	}
	state->next_sequence = record.sequence;
	state->next_page = record.log_page;
	if (newest_tags == NULL)
		return;
	if (!data_arrived(image, &newest)) {
		take_back(state, &newest);
		state->next_sequence = newest.sequence;
		state->next_page = newest.log_page;
	} else if (visit != NULL) {
		visit(context, &newest);
	}
	free(newest_tags);
}

int g4_image_scan_journal(struct g4_image *image, g4_journal_visit visit, void *context, struct g4_journal_state *state)
{
	const void *page;

	memset(state, 0, sizeof(*state));
	page = image->journal_header;
	state->status = page != NULL ? 0 : g4_image_raw_page(image, g4_layout_journal(&image->layout), &page);
	state->header_damaged = state->status < 0;
	if (state->status < 0)
		return 0;
	memcpy(&state->header, page, sizeof(state->header));
	state->status = g4_block_verify(&state->header, G4_BLOCK_JOURNAL_HEADER, g4_layout_journal(&image->layout),
					image->fs_tag);
	/* Sequences begin below 2^32 and rise by one a transaction. */
	if (state->status == 0 && (state->header.tail_page >= g4_layout_log_pages(&image->layout) ||
				   state->header.tail_sequence == 0 || state->header.tail_sequence >= SEQUENCE_END))
		state->status = -G4_E_CORRUPT_JOURNAL;
	state->header_damaged = state->status < 0;
	if (state->status < 0)
		return 0;

	scan_records(image, visit, context, state);
	if (state->status == 0 && state->next_sequence <= g4_superblock_home(&image->sb)) {
		state->status = -G4_E_JOURNAL_OLD; /* the log is known to go on */
		state->header_damaged = true;
	}
	return 0;
}

/* The sequence of the record whose first page this is, 0: it is no such page. */
static uint64_t first_of_record(const struct g4_image *image, const void *page, struct g4_address address)
{
	struct g4_journal_descriptor descriptor;

	memcpy(&descriptor, page, sizeof(descriptor));
	if (descriptor.header.magic != G4_BLOCK_MAGIC || descriptor.header.type != G4_BLOCK_JOURNAL_DESCRIPTOR ||
	    descriptor.page_index != 0 || descriptor.header.generation != descriptor.sequence ||
	    g4_block_verify(&descriptor, G4_BLOCK_JOURNAL_DESCRIPTOR, address, image->fs_tag) < 0)
		return 0;
	return descriptor.sequence;
}

uint64_t g4_image_starts_record(struct g4_image *image, uint64_t log_page)
{
	const struct g4_address address = g4_image_log_address(image, log_page);
	const void *page;

	return g4_image_raw_page(image, address, &page) < 0 ? 0 : first_of_record(image, page, address);
}

uint64_t g4_image_records_between(struct g4_image *image, uint64_t after, uint64_t before)
{
	const uint64_t log_pages = g4_layout_log_pages(&image->layout), most = g4_log_read_pages(log_pages);
	uint8_t *buffer = aligned_alloc(G4_PAGE_BYTES, most * G4_PAGE_BYTES);
	uint64_t count = 0;

	for (uint64_t first = 0; first < log_pages; first += most) {
		const uint64_t pages = g4_min64(most, log_pages - first);
		const struct g4_address start = g4_image_log_address(image, first);
		const bool whole = buffer != NULL && image->buffer == NULL &&
				   g4_dev_read(image->wg, image->dev, g4_address_stored(start), buffer,
					       pages * G4_PAGE_BYTES) >= 0;
		for (uint64_t i = 0; i < pages; i++) {
			/* Without memory, with several copies, or with a sector that can not be read: page by page. */
			const uint64_t sequence = whole ? first_of_record(image, buffer + i * G4_PAGE_BYTES,
									  g4_address_after_pages(start, i)) :
							  g4_image_starts_record(image, first + i);
			count += sequence > after && sequence < before;
		}
	}
	free(buffer);
	return count;
}

/* ------------------------------------------------------------------ a new header */

static bool read_at(struct g4_image *image, uint64_t log_page, uint64_t sequence, struct g4_journal_record *record)
{
	g4_le64 *tags = NULL;

	*record = (struct g4_journal_record){.sequence = sequence, .log_page = log_page};
	const bool there = g4_image_read_record(image, record, &tags);
	free(tags);
	return there;
}

/* The newest record that is whole and that may not be home. */
static bool newest_record(struct g4_image *image, struct g4_journal_record *newest)
{
	const uint64_t home = g4_superblock_home(&image->sb);
	bool found = false;

	for (uint64_t page = 0; page < g4_layout_log_pages(&image->layout); page++) {
		struct g4_journal_record record;
		const uint64_t sequence = g4_image_starts_record(image, page);
		if (sequence <= home || (found && sequence <= newest->sequence) ||
		    !read_at(image, page, sequence, &record))
			continue;
		*newest = record;
		found = true;
	}
	return found;
}

/* The record that ends where `next` starts and has the sequence before. */
static bool record_before(struct g4_image *image, const struct g4_journal_record *next, struct g4_journal_record *found)
{
	for (uint64_t page = 0; page < g4_layout_log_pages(&image->layout); page++) {
		if (g4_image_starts_record(image, page) == next->sequence - 1 &&
		    read_at(image, page, next->sequence - 1, found) &&
		    (page + found->pages) % g4_layout_log_pages(&image->layout) == next->log_page)
			return true;
	}
	return false;
}

/* The generation of a page that is metadata in its own place, and 0 of anything else. */
static uint64_t generation_of(struct g4_image *image, struct g4_address address)
{
	g4_le64 copy[G4_INDIRECT_SLOTS];
	const void *page;

	if (g4_image_raw_page(image, address, &page) < 0)
		return 0;
	memcpy(copy, page, sizeof(copy));
	return g4_block_generation(copy, address, image->fs_tag);
}

uint64_t g4_image_newest_fixed(struct g4_image *image)
{
	const struct g4_layout *layout = &image->layout;
	uint64_t newest = 0;

	for (uint64_t at = layout->groups_address; at < layout->data_address; at += G4_PAGE_BYTES)
		newest = g4_max64(newest, generation_of(image, g4_address_from(at)));
	return newest;
}

struct age {
	struct g4_image *image;
	uint64_t newest; /* generation of what the records would write */
};

static void look_at_home(void *context, const struct g4_journal_record *record)
{
	struct age *age = context;

	for (uint32_t i = 0; i < record->blocks; i++)
		age->newest = g4_max64(age->newest, generation_of(age->image, g4_address_from(record->tags[i])));
}

/* Whether metadata in place is newer than the newest record of the row that begins at *header. */
static bool is_old(struct g4_image *image, const struct g4_journal_header *header, uint64_t last)
{
	struct g4_journal_state state = {.header = *header};
	struct age age = {.image = image, .newest = g4_image_newest_fixed(image)};

	scan_records(image, look_at_home, &age, &state);
	return age.newest > last;
}

bool g4_image_find_tail(struct g4_image *image, struct g4_journal_header *header, uint64_t *older)
{
	struct g4_journal_record tail = {.sequence = 0}, before;
	const uint64_t home = g4_superblock_home(&image->sb);

	*older = 0;
	if (!newest_record(image, &tail))
		return false;
	const uint64_t last = tail.sequence;
	for (uint64_t walked = tail.pages; tail.sequence > home + 1 && record_before(image, &tail, &before);) {
		walked += before.pages;
		if (walked > g4_layout_log_pages(&image->layout))
			break;
		tail = before;
	}
	memset(header, 0, sizeof(*header));
	header->tail_sequence = tail.sequence;
	header->tail_page = tail.log_page;
	if ((image->sb.state & G4_STATE_CLEAN) != 0 || is_old(image, header, last)) {
		*older = last;
		return false;
	}
	g4_block_seal(header, G4_BLOCK_JOURNAL_HEADER, g4_layout_journal(&image->layout), tail.sequence - 1,
		      image->fs_tag);
	return true;
}

/* ------------------------------------------------------------------ overlay */

static void overlay_record(void *context, const struct g4_journal_record *record)
{
	struct g4_image *image = context;
	struct g4_overlay *overlay = &image->overlay;
	const uint64_t first_image = record->log_page + record->descriptors;

	for (uint32_t i = 0; i < record->blocks; i++) {
		const uint64_t page = g4_address_page(g4_address_from(record->tags[i]));
		overlay->pages[g4_overlay_slot(overlay, page)] = (struct g4_overlay_page){
			.page = page, .image = g4_image_log_address(image, first_image + i), .copy = record->copy};
	}
	/* A page freed in this transaction: neither this record's image nor an older one may come back. */
	for (uint32_t i = 0; i < record->revokes; i++) {
		const uint64_t page = g4_address_page(g4_address_from(record->tags[record->blocks + i]));
		overlay->pages[g4_overlay_slot(overlay, page)] = (struct g4_overlay_page){.page = page};
	}
}

static int load_overlay(struct g4_image *image, struct g4_journal_state *state)
{
	struct g4_overlay *overlay = &image->overlay;

	int status = g4_image_scan_journal(image, NULL, NULL, state);
	uint64_t older = 0;
	if (status == 0 && state->header_damaged && g4_image_find_tail(image, &image->found_header, &older)) {
		const int damage = state->status;
		image->journal_header = &image->found_header;
		g4_image_scan_journal(image, NULL, NULL, state);
		state->status = damage; /* of the header on the device; the records are those that a mount finds */
		state->header_damaged = true;
	}
	state->older = older;
	if (status < 0 || state->blocks + state->revokes == 0)
		return status;
	uint64_t room = 64;
	while (room < 2 * (state->blocks + state->revokes))
		room *= 2;
	overlay->pages = calloc(room, sizeof(*overlay->pages));
	if (overlay->pages == NULL)
		return -G4_E_NOMEM;
	overlay->room = room;
	struct g4_journal_state ignored;
	return g4_image_scan_journal(image, overlay_record, image, &ignored);
}

/* A resize that was committed and not brought to its end: the next mount will, and so has a writer of superblocks. */
static void finish_resize(struct g4_image *image)
{
	struct g4_superblock sb = image->sb;
	struct g4_root root;

	if (!(sb.features_incompat & G4_FEATURE_INCOMPAT_RESIZING) ||
	    g4_image_block(image, g4_layout_root(&image->layout), G4_BLOCK_ROOT, &root) < 0)
		return;
	sb.features_incompat &= ~G4_FEATURE_INCOMPAT_RESIZING;
	if (root.size_bytes == 0 || root.size_bytes == sb.size_bytes ||
	    (root.size_bytes <= image->device_bytes && g4_superblock_resize(&sb, root.size_bytes) == 0))
		g4_image_use_superblock(image, &sb);
}

int g4_image_load_overlay(struct g4_image *image, struct g4_journal_state *state)
{
	const int status = load_overlay(image, state);

	if (status == 0)
		finish_resize(image);
	return status;
}
