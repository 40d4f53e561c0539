/* SPDX-License-Identifier: Apache-2.0 */
/* Reading an image: pages as they are on the device, patches above them, names and inodes. */
#include "files/fsck/checked.h"

#include "files/files.h"

static void pages_are_those_of_the_device(void **state)
{
	const uint64_t chunk = G4_CHUNK_BYTES, last = checked->rig.bytes - G4_PAGE_BYTES;
	const uint64_t at[] = {0, chunk - G4_PAGE_BYTES, chunk, 3 * chunk + G4_PAGE_BYTES, last, chunk};
	const void *page;

	(void)state;
	check();
	for (uint32_t k = 0; k < sizeof(at) / sizeof(at[0]); k++) {
		assert_int_equal(g4_image_page(&checked->image, g4_address_from(at[k]), &page), 0);
		assert_memory_equal(page, checked->rig.image + at[k], G4_PAGE_BYTES);
	}
}

static void patches_lie_above_the_device(void **state)
{
	const uint64_t at[] = {40 * G4_PAGE_BYTES, 7 * G4_PAGE_BYTES, 9000 * G4_PAGE_BYTES};
	const void *page;
	uint64_t count;

	(void)state;
	check();
	for (uint32_t k = 0; k < 3; k++) {
		uint8_t *patch = g4_image_patch(&checked->image, g4_address_from(at[k]));
		assert_non_null(patch);
		assert_memory_equal(patch, checked->rig.image + at[k], G4_PAGE_BYTES);
		patch[5] ^= 0xff;
		assert_int_equal(g4_image_page(&checked->image, g4_address_from(at[k]), &page), 0);
		assert_ptr_equal(page, patch);
		assert_int_equal(g4_image_raw_page(&checked->image, g4_address_from(at[k]), &page), 0);
		assert_memory_equal(page, checked->rig.image + at[k], G4_PAGE_BYTES);
	}
	struct g4_address *patched = g4_image_patched(&checked->image, &count);
	assert_int_equal(count, 3);
	assert_int_equal(g4_address_stored(patched[0]), at[1]);
	assert_int_equal(g4_address_stored(patched[1]), at[0]);
	assert_int_equal(g4_address_stored(patched[2]), at[2]);
	free(patched);
}

static void a_page_counts_by_its_checksum(void **state)
{
	uint8_t slab[G4_PAGE_BYTES];
	struct g4_inode inode;
	uint64_t ino;

	(void)state;
	checked->rig.image[page_of(checked->files[20]) + 3000] ^= 1;
	check();
	assert_int_equal(g4_image_resolve(&checked->image, "/dir/file 20", &ino), 0);
	assert_int_equal(ino, checked->files[20]);
	assert_int_equal(g4_image_inode(&checked->image, ino, &inode), -G4_E_CHECKSUM);
	assert_int_equal(g4_image_block(&checked->image, g4_address_from(page_of(ino)), G4_BLOCK_SLAB, slab),
			 -G4_E_CHECKSUM);
	assert_int_equal(g4_image_resolve(&checked->image, "/dir/file 99", &ino), -G4_E_NOENT);
}

/* Of every page, patched ones among them, with chunks that are cached and chunks that are not. */
static void a_page_that_is_read_once_is_the_same(void **state)
{
	uint8_t wanted[G4_PAGE_BYTES] = {0}, found[G4_PAGE_BYTES] = {0};
	uint32_t good = 0;

	(void)state;
	check();
	g4_image_patch(&checked->image, g4_address_from(page_of(checked->files[0])))[3000] ^= 1;
	for (int pass = 0; pass < 2; pass++)
		for (uint64_t at = 0; at < checked->rig.bytes; at += G4_PAGE_BYTES) {
			const struct g4_address address = g4_address_from(at);
			const int once = g4_image_block_once(&checked->image, address, G4_BLOCK_SLAB, found);
			assert_int_equal(once, g4_image_block(&checked->image, address, G4_BLOCK_SLAB, wanted));
			assert_memory_equal(found, wanted, G4_PAGE_BYTES);
			good += once == 0;
		}
	assert_in_range(good, 2, 100);
}

RUN_TESTS(fsck_test(pages_are_those_of_the_device), fsck_test(patches_lie_above_the_device),
	  fsck_test(a_page_counts_by_its_checksum), fsck_test(a_page_that_is_read_once_is_the_same))
