/* SPDX-License-Identifier: Apache-2.0 */
/* What all lanes do of a commit is what one alone would: the record's checksum, and tags that fill descriptor after descriptor. */
#include "files/files.h"

#include "hash/crc32c.h"
#include "journal/wide.h"
#include "journal/workers.h"

#define IMAGES 70u

static struct g4_txn_log the_log; /* in memory that lanes share */
static uint64_t revokes[2 * G4_JOURNAL_TAGS];

static void the_checksum_is_that_of_all_images(void **state)
{
	struct g4_journal *j = &fs->journal;
	uint8_t *images = rig_memory(IMAGES * G4_PAGE_BYTES, 5);

	(void)state;
	for (uint32_t k = 0; k < IMAGES; k++)
		j->record_crcs[k] = g4_crc32c(0, images + k * G4_PAGE_BYTES, G4_PAGE_BYTES);
	for (uint32_t count = 0; count <= IMAGES; count++) {
		the_log.line_count = count;
		assert_int_equal(g4_wide_crc(wg, j, &the_log, 77), g4_crc32c(77, images, count * G4_PAGE_BYTES));
	}
	free(images);
}

/* Images, revokes, and two for each page of data: the last descriptor is not full, and nothing is written behind its end. */
static void tags_follow_each_other_over_descriptors(void **state)
{
	struct g4_journal *j = &fs->journal;
	const uint32_t images = 20, revoked = G4_JOURNAL_TAGS, data = 3;

	(void)state;
	the_log = (struct g4_txn_log){
		.revokes = revokes, .line_count = images, .revoke_count = revoked, .data_count = data};
	for (uint32_t k = 0; k < images; k++)
		g4_record_addresses(j)[k] = g4_page_address(1000 + k);
	for (uint32_t k = 0; k < revoked; k++)
		revokes[k] = (5000 + k) * G4_PAGE_BYTES;
	for (uint32_t k = 0; k < data; k++)
		the_log.data[k] = (struct g4_data_tag){g4_page_address(9000 + k), 0xabc0 + k};
	const uint32_t before = j->record_data;
	j->record_data = data;
	const uint32_t count = g4_tag_count(j, &the_log);
	assert_int_equal(count, images + revoked + 2 * data);
	memset(j->record, 0, 3 * G4_PAGE_BYTES);
	for (uint32_t d = 0; d * G4_JOURNAL_TAGS < count; d++)
		g4_wide_tags(wg, j, &the_log, d);
	j->record_data = before;
	for (uint32_t t = 0; t < 2 * G4_JOURNAL_TAGS; t++) {
		const struct g4_journal_descriptor *page =
			(const struct g4_journal_descriptor *)(const void *)(j->record +
									     t / G4_JOURNAL_TAGS * G4_PAGE_BYTES);
		const uint32_t of_data = t - images - revoked;
		const uint64_t wanted = t >= count	     ? 0 :
					t < images	     ? (1000 + t) * G4_PAGE_BYTES :
					t < images + revoked ? (5000 + t - images) * G4_PAGE_BYTES :
					of_data % 2	     ? 0xabc0 + of_data / 2 :
							       (9000 + of_data / 2) * G4_PAGE_BYTES;
		assert_int_equal(page->tags[t % G4_JOURNAL_TAGS], wanted);
	}
}

/* What is left of a list is what was in it, in its order, whichever of them were taken out; nothing behind its end is looked at. */
static void what_left_a_list_leaves_no_gap(void **state)
{
	static const uint32_t one_in[] = {1, 2, 3, 50, 1000000};
	static uint32_t lines[1200], wanted[1200];

	(void)state;
	for (uint32_t t = 0; t < 5; t++) {
		for (uint32_t count = 0; count < 1100; count = count < 150 ? count + 1 : count * 2) {
			uint32_t kept = 0;
			for (uint32_t k = 0; k < 1200; k++) {
				lines[k] = k * 7919 % one_in[t] == 0 ? G4_NO_LINE : 100000 + k;
				if (k < count && lines[k] != G4_NO_LINE)
					wanted[kept++] = lines[k];
			}
			const uint32_t behind = lines[count];
			assert_int_equal(g4_wide_compact(wg, lines, count), kept);
			assert_memory_equal(lines, wanted, kept * sizeof(lines[0]));
			assert_int_equal(lines[count], behind);
		}
	}
}

RUN_TESTS(fs_test(the_checksum_is_that_of_all_images), fs_test(tags_follow_each_other_over_descriptors),
	  fs_test(what_left_a_list_leaves_no_gap))
