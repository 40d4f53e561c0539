/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: pages of metadata of an image, whatever is written into them. */
#include "fuzz.h"

#include "fsck/journal.h"
#include "fsck/tables.h"
#include "journal/block.h"

static struct fuzz_base base;

static void bring_home(void)
{
	struct g4_image image;
	struct g4_dev *dev;
	char message[256];

	if (g4_dev_open(base.rig.name, NULL, &dev, message, sizeof(message)) < 0 ||
	    g4_image_open(&image, base.rig.name, message, sizeof(message)) < 0 || g4_fsck_replay(&image, NULL, dev) < 0)
		abort();
	g4_image_close(&image);
	g4_dev_close(dev);
}

/* Everything that is metadata and in use, each place once; superblocks and the few others of their kind more often. */
static void find_places(void)
{
	static struct g4_fsck fsck;
	struct g4_journal_state journal;
	struct g4_image image;
	char message[256];

	fsck.out = fopen("/dev/null", "w");
	if (fsck.out == NULL || g4_image_open(&image, base.rig.name, message, sizeof(message)) < 0 ||
	    g4_image_load_overlay(&image, &journal) < 0 || g4_fsck_repair(&fsck, &image, &journal, false) < 0 ||
	    fsck.found != 0)
		abort();
	for (uint64_t page = 0; page < image.layout.size_bytes / G4_PAGE_BYTES; page++) {
		if (g4_fsck_bit(fsck.metadata, page))
			fuzz_add_place(&base, page * G4_PAGE_BYTES);
	}
	const uint32_t others = base.place_count / 16;
	for (uint32_t i = 0; i < others; i++) {
		fuzz_add_place(&base, image.layout.root_address);
		fuzz_add_place(&base, image.layout.alloc_address);
		fuzz_add_place(&base, image.layout.groups_address);
	}
	fuzz_add_place(&base, G4_SUPERBLOCK_ADDRESS);
	fuzz_add_place(&base, image.layout.backup_address);
	fuzz_add_place(&base, image.layout.journal_address);
	fclose(fsck.out);
	g4_fsck_free(&fsck);
	g4_image_close(&image);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	fuzz_make_image(&base);
	bring_home();
	find_places();
	fuzz_finish_base(&base);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_apply(&base, data, size);
	fuzz_use(&base);
	fuzz_apply(&base, data, size);
	fuzz_repair(&base);
	return 0;
}

uint32_t fuzz_outcome(void)
{
	return fuzz_image_sum(&base);
}
