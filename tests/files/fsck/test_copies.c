/* SPDX-License-Identifier: Apache-2.0 */
/* Of several copies of a page the newest that is whole counts, and those that are not like it are told. */
#include "engine/disks.h"

#include "files/files.h"
#include "fsck/copies.h"
#include "fsck/fsck.h"
#include "journal/block.h"

/* The root block in the memory of a disk. */
static uint8_t *root_in(const struct disks *d, uint32_t disk, struct g4_address root)
{
	for (uint64_t at = 0; at < d->bytes[disk]; at += G4_PAGE_BYTES) {
		const struct g4_block_header *header = (const struct g4_block_header *)(void *)(d->memory[disk] + at);
		if (header->magic == G4_BLOCK_MAGIC && header->type == G4_BLOCK_ROOT &&
		    header->address == g4_address_stored(root))
			return d->memory[disk] + at;
	}
	fail_msg("disk %u has no root block", disk);
	return NULL;
}

static void read_root(struct disks *d, uint8_t *page, uint32_t *damaged)
{
	struct g4_image image;
	char message[256];

	if (g4_image_open(&image, disks_name_of(d, 3), message, sizeof(message)) < 0)
		fail_msg("%s", message);
	assert_int_equal(g4_image_read_copies(&image, g4_layout_root(&image.layout), page, G4_PAGE_BYTES, damaged), 0);
	g4_image_close(&image);
}

static void the_newest_whole_copy_counts(void **state)
{
	uint8_t wanted[G4_PAGE_BYTES], found[G4_PAGE_BYTES];
	struct g4_image image;
	uint32_t damaged;
	char message[256];
	struct disks d;

	(void)state;
	disks_make(&d, 2, NULL);
	disks_format_copies(&d, G4_RAID_1, 2, G4_CHECKSUM_BLAKE3);
	assert_int_equal(g4_image_open(&image, disks_name_of(&d, 3), message, sizeof(message)), 0);
	const struct g4_address root = g4_layout_root(&image.layout);
	const uint32_t tag = image.fs_tag;
	g4_image_close(&image);
	uint8_t *copies[2] = {root_in(&d, 0, root), root_in(&d, 1, root)};
	memcpy(wanted, copies[0], sizeof(wanted));
	read_root(&d, found, &damaged);
	assert_memory_equal(found, wanted, sizeof(found));
	assert_int_equal(damaged, 0);
	for (uint32_t bad = 0; bad < 2; bad++) { /* rotten */
		copies[bad][2000] ^= 1;
		read_root(&d, found, &damaged);
		assert_memory_equal(found, wanted, sizeof(found));
		assert_int_equal(damaged, 1);
		copies[bad][2000] ^= 1;
	}
	for (uint32_t newer = 0; newer < 2; newer++) { /* the other has missed a write, and is whole */
		struct g4_root *page = (struct g4_root *)(void *)copies[newer];
		page->damaged_pages = 77;
		g4_block_seal(page, G4_BLOCK_ROOT, root, page->header.generation + 1, tag);
		read_root(&d, found, &damaged);
		assert_memory_equal(found, copies[newer], sizeof(found));
		assert_int_equal(damaged, 1);
		memcpy(copies[newer], wanted, sizeof(wanted));
	}
	disks_free(&d);
}

RUN_TESTS(cmocka_unit_test(the_newest_whole_copy_counts))
