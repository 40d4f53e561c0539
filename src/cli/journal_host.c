/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the journal without replaying it. A record counts when its descriptors, its commit page and the checksum over
 * all of it are right and its sequence is the next one; the first that is not ends the log, as after a torn write. The
 * newest record also counts on data pages that were on their way beside it: it is void unless all of them arrived.
 */
#include <stdlib.h>

#include "cli/image_host.h"
#include "hash/crc32c.h"
#include "journal/block.h"

static uint64_t log_pages(const struct g4_image *image)
{
	return image->layout.journal_bytes / G4_PAGE_BYTES - 1;
}

uint64_t g4_image_log_address(const struct g4_image *image, uint64_t log_page)
{
	return image->layout.journal_address + (1 + log_page % log_pages(image)) * G4_PAGE_BYTES;
}

/* Reads and verifies one page of the log; continues *crc over it. */
static int read_log_page(struct g4_image *image, uint64_t log_page, uint32_t type, uint64_t sequence, void *copy,
			 uint32_t *crc)
{
	const uint64_t address = g4_image_log_address(image, log_page);
	const struct g4_block_header *header = copy;
	const void *page;
	int status = g4_image_raw_page(image, address, &page);

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
		if (read_log_page(image, record->log_page + index, G4_BLOCK_JOURNAL_DESCRIPTOR, record->sequence, &page,
				  crc) < 0 ||
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
			if (page.page_count == 0 || record->pages > log_pages(image) ||
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
		if (g4_image_raw_page(image, g4_image_log_address(image, at), &page) < 0)
			return false;
		crc = g4_crc32c(crc, page, G4_PAGE_BYTES);
	}
	if (read_log_page(image, commit_page, G4_BLOCK_JOURNAL_COMMIT, record->sequence, &commit, &ignored) < 0)
		return false;
	record->time_ns = commit.time_ns;
	return commit.sequence == record->sequence && commit.record_pages == record->pages &&
	       commit.record_crc32c == crc;
}

static bool is_home(const struct g4_image *image, uint64_t address)
{
	return address % G4_PAGE_BYTES == 0 && address >= image->layout.groups_address &&
	       address < image->layout.backup_address;
}

/* A record may only write what transactions write: metadata behind the journal. */
static bool tags_are_possible(const struct g4_image *image, const struct g4_journal_record *record)
{
	for (uint64_t i = 0; i < (uint64_t)record->blocks + record->revokes; i++) {
		if (!is_home(image, record->tags[i]))
			return false;
	}
	return true;
}

static bool data_arrived(struct g4_image *image, const struct g4_journal_record *record)
{
	const g4_le64 *pairs = record->tags + record->blocks + record->revokes;
	const void *page;

	for (uint32_t i = 0; i < record->data_pages; i++) {
		if (!is_home(image, pairs[2 * i]) || g4_image_raw_page(image, pairs[2 * i], &page) < 0 ||
		    g4_crc32c(0, page, G4_PAGE_BYTES) != pairs[2 * i + 1])
			return false;
	}
	return true;
}

/* Takes the tags as well, which the caller frees. */
static bool read_record(struct g4_image *image, struct g4_journal_record *record, g4_le64 **tags)
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
	g4_le64 *newest_tags = NULL, *tags;

	record.sequence = state->header.tail_sequence;
	record.log_page = state->header.tail_page;
	while (read_record(image, &record, &tags)) {
		if (!tags_are_possible(image, &record))
			state->status = -G4_E_CORRUPT_JOURNAL;
		if (state->status < 0 || state->pages + record.pages > log_pages(image)) {
			free(tags);
			break;
		}
		if (newest_tags != NULL && visit != NULL)
			visit(context, &newest);
		free(newest_tags);
		newest = record;
		newest_tags = tags;
		add_record(state, &record);
		record.log_page = (record.log_page + record.pages) % log_pages(image);
		record.sequence++;
	}
	if (newest_tags == NULL)
		return;
	if (!data_arrived(image, &newest))
		take_back(state, &newest);
	else if (visit != NULL)
		visit(context, &newest);
	free(newest_tags);
}

int g4_image_scan_journal(struct g4_image *image, g4_journal_visit visit, void *context, struct g4_journal_state *state)
{
	const void *page;

	memset(state, 0, sizeof(*state));
	state->status = g4_image_raw_page(image, image->layout.journal_address, &page);
	if (state->status < 0)
		return 0;
	memcpy(&state->header, page, sizeof(state->header));
	state->status =
		g4_block_verify(&state->header, G4_BLOCK_JOURNAL_HEADER, image->layout.journal_address, image->fs_tag);
	if (state->status == 0 && state->header.tail_page >= log_pages(image))
		state->status = -G4_E_CORRUPT_JOURNAL;
	if (state->status < 0)
		return 0;

	scan_records(image, visit, context, state);
	return 0;
}

/* ------------------------------------------------------------------ overlay */

static uint64_t *overlay_slot(struct g4_overlay *overlay, uint64_t page)
{
	uint64_t at = (page * UINT64_C(0x9e3779b97f4a7c15)) & (overlay->room - 1);

	while (overlay->keys[at] != 0 && overlay->keys[at] != page)
		at = (at + 1) & (overlay->room - 1);
	if (overlay->keys[at] == 0) {
		overlay->keys[at] = page;
		overlay->count++;
	}
	return &overlay->addresses[at];
}

static void overlay_record(void *context, const struct g4_journal_record *record)
{
	struct g4_image *image = context;
	const uint64_t first_image = record->log_page + record->descriptors;

	for (uint32_t i = 0; i < record->blocks; i++) {
		const uint64_t page = record->tags[i] / G4_PAGE_BYTES;
		*overlay_slot(&image->overlay, page) = g4_image_log_address(image, first_image + i);
	}
	/* A page freed in this transaction: neither this record's image nor an older one may come back. */
	for (uint32_t i = 0; i < record->revokes; i++) {
		const uint64_t page = record->tags[record->blocks + i] / G4_PAGE_BYTES;
		*overlay_slot(&image->overlay, page) = 0;
	}
}

int g4_image_load_overlay(struct g4_image *image, struct g4_journal_state *state)
{
	struct g4_overlay *overlay = &image->overlay;

	int status = g4_image_scan_journal(image, NULL, NULL, state);
	if (status < 0 || state->blocks + state->revokes == 0)
		return status;
	uint64_t room = 64;
	while (room < 2 * (state->blocks + state->revokes))
		room *= 2;
	overlay->keys = calloc(room, sizeof(*overlay->keys));
	overlay->addresses = calloc(room, sizeof(*overlay->addresses));
	if (overlay->keys == NULL || overlay->addresses == NULL)
		return -G4_E_NOMEM;
	overlay->room = room;
	return g4_image_scan_journal(image, overlay_record, image, state);
}
