/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: the journal of an image that was not unmounted. The first byte's lowest bit says whether the checksums over
 * the records are put right after the edits, so that what the records say is replayed.
 */
#include "fuzz.h"

#include "hash/crc32c.h"
#include "journal/block.h"

static struct fuzz_base base;
static struct g4_layout layout;
static struct {
	uint64_t first, pages;
} records[64];
static uint32_t record_count;

static uint64_t address_of(uint64_t log_page)
{
	const uint64_t log = layout.journal_bytes / G4_PAGE_BYTES - 1;

	return layout.journal_address + (1 + log_page % log) * G4_PAGE_BYTES;
}

static void take_record(void *context, const struct g4_journal_record *record)
{
	(void)context;
	if (record_count == sizeof(records) / sizeof(records[0]))
		return;
	records[record_count].first = record->log_page;
	records[record_count++].pages = record->pages;
	for (uint64_t i = 0; i < record->pages; i++) {
		/* Descriptors and commit pages decide most. */
		const bool decides = i < record->descriptors || i + 1 == record->pages;
		for (uint32_t times = 0; times < (decides ? 8 : 1); times++)
			fuzz_add_place(&base, address_of(record->log_page + i));
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct g4_journal_state journal;
	struct g4_image image;
	char message[256];

	(void)argc;
	(void)argv;
	fuzz_make_image(&base);
	if (g4_image_open(&image, base.rig.name, message, sizeof(message)) < 0)
		abort();
	layout = image.layout;
	g4_image_scan_journal(&image, take_record, NULL, &journal);
	fuzz_add_place(&base, layout.journal_address);
	g4_image_close(&image);
	if (record_count < 2)
		abort();
	fuzz_finish_base(&base);
	return 0;
}

/* The checksum of each record as its pages are now. */
static void seal_records(void)
{
	for (uint32_t i = 0; i < record_count; i++) {
		const uint64_t last = records[i].first + records[i].pages - 1;
		struct g4_journal_commit *commit = (void *)(base.work.image + address_of(last));
		uint32_t crc = 0;
		for (uint64_t page = records[i].first; page < last; page++)
			crc = g4_crc32c(crc, base.work.image + address_of(page), G4_PAGE_BYTES);
		commit->record_crc32c = crc;
		fuzz_token(&base, address_of(last));
	}
}

static void apply(const uint8_t *data, size_t size)
{
	fuzz_apply(&base, data, size);
	if (size > 0 && (data[0] & 1) != 0)
		seal_records();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	apply(data, size);
	fuzz_use(&base);
	apply(data, size);
	fuzz_repair(&base);
	return 0;
}

uint32_t fuzz_outcome(void)
{
	return fuzz_image_sum(&base);
}
