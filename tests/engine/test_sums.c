/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of pages: every page that is written has one, wherever it is in a map; nothing that is read differs from it; what is damaged is
 * told and not given, and its neighbours are.
 */
#include "rig.h"

#include "data/map.h"
#include "data/sums.h"
#include "format/sums.h"
#include "inode/icache.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (64 * G4_MIB)
#define JOURNAL_BYTES (4 * G4_MIB)

static struct rig rig;
static uint8_t *pattern, *found;
#define PATTERN_BYTES (8 * G4_MIB)

static int begin(uint32_t algorithm)
{
	rig_open_as(&rig, algorithm, RIG_AS_SET, DEVICE_BYTES, JOURNAL_BYTES);
	rig.wg = g4_wg_create(0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	pattern = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, PATTERN_BYTES);
	found = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, PATTERN_BYTES);
	rig_pattern(pattern, 7, PATTERN_BYTES);
	return 0;
}

static int setup_blake3(void **state)
{
	(void)state;
	return begin(G4_CHECKSUM_BLAKE3);
}

static int setup_crc32c(void **state)
{
	(void)state;
	return begin(G4_CHECKSUM_CRC32C);
}

static int setup_xxh3(void **state)
{
	(void)state;
	return begin(G4_CHECKSUM_XXH3);
}

static int teardown(void **state)
{
	(void)state;
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	g4_wg_destroy(rig.wg);
	rig_close(&rig);
	free(pattern);
	free(found);
	return 0;
}

static uint64_t make(const char *name, uint64_t offset, uint64_t bytes)
{
	return rig_make_file(&rig, name, offset, pattern, bytes);
}

static void again(void)
{
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

static void expect(uint64_t ino, uint64_t offset, const uint8_t *contents, uint64_t bytes)
{
	rig_expect_contents(&rig, ino, offset, found, contents, bytes);
}

static uint64_t sizes[] = {129,
			   4096,
			   5000,
			   16 * 4096,
			   16 * 4096 + 1,
			   100 * 4096 + 17,
			   129 * 4096,
			   512 * 4096,
			   600 * 4096,
			   (16 * 512 - 3) * 1024,
			   1900 * 4096 + 5};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void files_of_all_sizes_are_read_back(void **state)
{
	uint64_t ino[SIZES];
	char name[16];

	(void)state;
	for (uint32_t i = 0; i < SIZES; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		ino[i] = make(name, 0, sizes[i]);
	}
	again();
	for (uint32_t i = 0; i < SIZES; i++)
		expect(ino[i], 0, pattern, sizes[i]);
	assert_int_equal(rig.fs->damaged_pages, 0);
}

/* One bit of one page: that page is EIO, all others are read. */
static void a_flipped_bit_is_found(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SIZES; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%u", i);
		const uint64_t ino = make(name, 0, sizes[i]), pages = g4_pages_for(sizes[i]), bad = pages / 2;
		uint64_t done;
		assert_int_equal(op_sync(&rig), 0);
		const uint64_t address = rig_place(&rig, ino, bad);
		again();
		rig.image[address + 1234] ^= 0x10;
		const uint64_t before = rig.fs->damaged_pages;
		for (uint64_t page = 0; page < pages; page++) {
			const uint64_t at = page * G4_PAGE_BYTES, bytes = g4_min64(sizes[i] - at, G4_PAGE_BYTES);
			int rc = op_read(&rig, ino, 0, at, found, bytes, &done);
			if (page == bad) {
				assert_int_equal(rc, -G4_E_DATA);
				continue;
			}
			assert_int_equal(rc, 0);
			assert_memory_equal(found, pattern + at, bytes);
		}
		assert_true(rig.fs->damaged_pages > before);
		/* in one call: what is before it */
		again();
		int rc = op_read(&rig, ino, 0, 0, found, sizes[i], &done);
		if (bad == 0) {
			assert_int_equal(rc, -G4_E_DATA);
		} else {
			assert_int_equal(rc, 0);
			assert_true(done <= bad * G4_PAGE_BYTES);
			assert_memory_equal(found, pattern, done);
		}
		rig.image[address + 1234] ^= 0x10;
		again();
		expect(ino, 0, pattern, sizes[i]);
	}
}

static void overwriting_truncating_and_punching_keep_sums(void **state)
{
	const uint64_t bytes = 300 * 4096;
	uint64_t ino = make("f", 0, bytes), done;
	uint8_t *wanted = (uint8_t *)malloc(bytes);

	(void)state;
	memcpy(wanted, pattern, bytes);
	again();
	memset(wanted + 5000, 9, 70000);
	assert_int_equal(op_write(&rig, ino, 0, 5000, wanted + 5000, 70000, &done), 0);
	again();
	expect(ino, 0, wanted, bytes);
	assert_int_equal(op_truncate(&rig, ino, 200 * 4096 + 100), 0);
	again();
	expect(ino, 0, wanted, 200 * 4096 + 100);
	assert_int_equal(op_truncate(&rig, ino, bytes), 0);
	memset(wanted + 200 * 4096 + 100, 0, bytes - 200 * 4096 - 100);
	again();
	expect(ino, 0, wanted, bytes);
	assert_int_equal(op_truncate(&rig, ino, 10), 0);
	assert_int_equal(op_truncate(&rig, ino, 0), 0);
	assert_int_equal(op_write(&rig, ino, 0, 0, pattern, 9000, &done), 0);
	again();
	expect(ino, 0, pattern, 9000);
	free(wanted);
}

static void everything_is_given_back(void **state)
{
	struct g4_statfs before, after;
	char name[16];

	(void)state;
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &before), 0);
	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < SIZES; i++) {
			snprintf(name, sizeof(name), "f%u", i);
			make(name, 0, sizes[i]);
		}
		again();
		for (uint32_t i = 0; i < SIZES; i++) {
			snprintf(name, sizeof(name), "f%u", i);
			assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
		}
	}
	again();
	assert_int_equal(op_statfs(&rig, &after), 0);
	assert_in_range(after.blocks_free, before.blocks_free - 2, before.blocks_free); /* slabs that are kept */
}

/* ------------------------------------------------------------------ where they are kept */

enum form { NOWHERE, IN_INODE, IN_BLOCK, IN_PAGES };

static const struct g4_inode *on_disk(uint64_t ino)
{
	return (const struct g4_inode *)(const void *)(rig.image + g4_ptr_offset(ino));
}

/* Of an unmounted image. */
static enum form form_of(uint64_t ino)
{
	const struct g4_inode *inode = on_disk(ino);

	if (inode->flags & G4_INODE_SUMS_INLINE)
		return IN_INODE;
	return inode->map_height > 0 ? IN_PAGES : inode->checksums ? IN_BLOCK : NOWHERE;
}

/* What the file is, page by page: its seed, 0 for a hole. */
struct wanted {
	uint64_t ino;
	uint8_t seeds[64];
	uint64_t pages;
};

static void fill_page(uint8_t *to, uint8_t seed)
{
	memset(to, 0, G4_PAGE_BYTES);
	if (seed)
		rig_pattern(to, seed, G4_PAGE_BYTES);
}

static void put(struct wanted *file, uint64_t page, uint64_t pages, uint8_t seed)
{
	for (uint64_t p = page; p < page + pages; p++) {
		file->seeds[p] = seed;
		fill_page(found + (p - page) * G4_PAGE_BYTES, seed);
	}
	file->pages = page + pages > file->pages ? page + pages : file->pages;
	assert_int_equal(op_write(&rig, file->ino, 0, page * G4_PAGE_BYTES, found, pages * G4_PAGE_BYTES, NULL), 0);
}

/* Unmounts, looks and mounts: the image is clean, the sums are where they should be, and the contents are right. */
static void judge(const struct wanted *file, enum form form, uint64_t own_pages)
{
	uint8_t page[G4_PAGE_BYTES];
	uint64_t done;

	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig_expect_clean(&rig, RIG_ANY_FREE, "in between");
	assert_int_equal(form_of(file->ino), form);
	assert_int_equal(on_disk(file->ino)->pages, own_pages);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	const uint64_t damaged = rig.fs->damaged_pages; /* since mkfs */
	for (uint64_t p = 0; p < file->pages; p++) {
		assert_int_equal(op_read(&rig, file->ino, 0, p * G4_PAGE_BYTES, found, G4_PAGE_BYTES, &done), 0);
		fill_page(page, file->seeds[p]);
		assert_memory_equal(found, page, G4_PAGE_BYTES);
	}
	assert_int_equal(rig.fs->damaged_pages, damaged);
}

static void must_be_found(const struct wanted *file, uint64_t page)
{
	const uint64_t address = rig_place(&rig, file->ino, page);
	uint64_t done;

	again();
	rig.image[address + 99] ^= 2;
	assert_int_equal(op_read(&rig, file->ino, 0, page * G4_PAGE_BYTES, found, G4_PAGE_BYTES, &done), -G4_E_DATA);
	rig.image[address + 99] ^= 2;
	again();
}

static void small_files_have_them_in_the_inode(void **state)
{
	struct wanted file = {.ino = make("f", 0, 0)};

	(void)state;
	put(&file, 0, 1, 1);
	judge(&file, IN_INODE, 1);
	must_be_found(&file, 0);
	put(&file, 1, 2, 2);
	judge(&file, IN_INODE, 3);
	must_be_found(&file, 2);
	put(&file, 0, 3, 3);
	judge(&file, IN_INODE, 3);
	put(&file, 3, 1, 4);
	judge(&file, IN_BLOCK, 4);
	for (uint64_t page = 0; page < 4; page++)
		must_be_found(&file, page);
	put(&file, 4, 12, 5);
	judge(&file, IN_BLOCK, 16);
	put(&file, 16, 1, 6);
	judge(&file, IN_PAGES, 17 + 2);
	for (uint64_t page = 0; page < 17; page += 4)
		must_be_found(&file, page);
	/* back to nothing, and on */
	assert_int_equal(op_truncate(&rig, file.ino, 0), 0);
	file.pages = 0;
	again();
	assert_int_equal(on_disk(file.ino)->pages, 0);
}

static void they_move_from_the_inode_to_where_there_is_room(void **state)
{
	struct wanted few = {.ino = make("few", 0, 0)}, far = {.ino = make("far", 0, 0)};
	struct wanted sparse = {.ino = make("sparse", 0, 0)}, last = {.ino = make("last", 0, 0)};

	(void)state;
	/* straight to pages of sums, with and without something in between */
	put(&few, 0, 2, 1);
	judge(&few, IN_INODE, 2);
	put(&few, 2, 40, 2);
	judge(&few, IN_PAGES, 42 + 2);
	must_be_found(&few, 1);
	put(&far, 1, 1, 3);
	judge(&far, IN_INODE, 1);
	put(&far, 40, 1, 4);
	judge(&far, IN_PAGES, 2 + 2);
	must_be_found(&far, 1);
	/* a block, with a hole between */
	put(&sparse, 2, 1, 5);
	judge(&sparse, IN_INODE, 1);
	put(&sparse, 15, 1, 6);
	judge(&sparse, IN_BLOCK, 2);
	must_be_found(&sparse, 2);
	/* and never in the inode where the last slots come first */
	put(&last, 7, 1, 7);
	judge(&last, IN_BLOCK, 1);
	put(&last, 0, 1, 8);
	judge(&last, IN_BLOCK, 2);
}

static void what_is_cut_and_punched_keeps_them(void **state)
{
	struct wanted file = {.ino = make("f", 0, 0)};
	const uint32_t punch = G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE;

	(void)state;
	put(&file, 0, 3, 1);
	assert_int_equal(op_fsync(&rig, file.ino), 0);
	assert_int_equal(op_fallocate(&rig, file.ino, punch, G4_PAGE_BYTES, G4_PAGE_BYTES), 0);
	file.seeds[1] = 0;
	judge(&file, IN_INODE, 2);
	must_be_found(&file, 2);
	put(&file, 1, 1, 2);
	judge(&file, IN_INODE, 3);
	assert_int_equal(op_truncate(&rig, file.ino, 2 * G4_PAGE_BYTES), 0);
	file.pages = 2;
	judge(&file, IN_INODE, 2);
	/* a tail of zeros, in a page that is stored anew */
	assert_int_equal(op_truncate(&rig, file.ino, G4_PAGE_BYTES + 100), 0);
	again();
	assert_int_equal(op_truncate(&rig, file.ino, 2 * G4_PAGE_BYTES), 0);
	again();
	assert_int_equal(op_read(&rig, file.ino, 0, G4_PAGE_BYTES, found, G4_PAGE_BYTES, NULL), 0);
	for (uint32_t i = 100; i < G4_PAGE_BYTES; i++)
		assert_int_equal(found[i], 0);
	put(&file, 1, 1, 3);
	/* unwritten space has none; it needs a slot, though */
	assert_int_equal(op_fallocate(&rig, file.ino, G4_FALLOC_KEEP_SIZE, 0, 10 * G4_PAGE_BYTES), 0);
	judge(&file, IN_BLOCK, 10);
	must_be_found(&file, 0);
	put(&file, 2, 3, 4);
	judge(&file, IN_BLOCK, 10);
	/* all of it goes: the next pages are in the inode again */
	assert_int_equal(op_fallocate(&rig, file.ino, punch, 0, 64 * G4_PAGE_BYTES), 0);
	memset(file.seeds, 0, sizeof(file.seeds));
	judge(&file, NOWHERE, 0);
	put(&file, 1, 1, 5);
	judge(&file, IN_INODE, 1);
	assert_int_equal(op_fallocate(&rig, file.ino, punch, 0, 64 * G4_PAGE_BYTES), 0);
	file.seeds[1] = 0;
	judge(&file, NOWHERE, 0);
	put(&file, 0, 2, 6);
	assert_int_equal(op_truncate(&rig, file.ino, 50),
			 0); /* so short that it goes into the inode itself, in the end */
	again();
	assert_int_equal(op_truncate(&rig, file.ino, 0), 0);
	assert_int_equal(op_write(&rig, file.ino, 0, 0, "small", 5, NULL), 0);
	again();
	assert_true(on_disk(file.ino)->flags & G4_INODE_INLINE);
}

static void small_files_cost_nothing_but_their_pages(void **state)
{
	struct g4_statfs before, after;
	uint64_t ino;
	char name[16];

	(void)state;
	for (uint32_t i = 0; i < 30; i++) { /* so that inodes and names have their pages */
		snprintf(name, sizeof(name), "f%u", i);
		make(name, 0, 0);
	}
	again();
	assert_int_equal(op_statfs(&rig, &before), 0);
	for (uint32_t i = 0; i < 30; i++) {
		struct g4_attr attr;
		snprintf(name, sizeof(name), "f%u", i);
		assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, name, &attr), 0);
		ino = attr.ino;
		assert_int_equal(op_write(&rig, ino, 0, 0, pattern, 9216, NULL), 0);
	}
	again();
	assert_int_equal(op_statfs(&rig, &after), 0);
	assert_int_equal(before.blocks_free - after.blocks_free, 30 * 3);
	/* of sixteen pages: seven blocks of sums in a page */
	for (uint32_t i = 0; i < 28; i++) {
		struct g4_attr attr;
		snprintf(name, sizeof(name), "f%u", i);
		assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, name, &attr), 0);
		assert_int_equal(op_write(&rig, attr.ino, 0, 0, pattern, 16 * G4_PAGE_BYTES, NULL), 0);
	}
	again();
	assert_int_equal(op_statfs(&rig, &after), 0);
	assert_int_equal(before.blocks_free - after.blocks_free, 28 * 16 + 2 * 3 + 4);
	/* a file that another takes the name of leaves nothing */
	for (uint32_t i = 1; i < 30; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		assert_int_equal(op_rename(&rig, G4_NODE_ROOT, name, G4_NODE_ROOT, "f0", 0), 0);
	}
	again();
	assert_int_equal(op_statfs(&rig, &after), 0);
	assert_in_range(before.blocks_free - after.blocks_free, 0, 3);
}

/* Writing without sums where there are some, and with where there are none. */
static void policies_and_few_pages(void **state)
{
	struct wanted file = {.ino = make("f", 0, 0)}, none = {.ino = make("none", 0, 0)};

	(void)state;
	put(&file, 0, 3, 1);
	assert_int_equal(op_setxattr(&rig, file.ino, "gpu4fs.checksum", "none", 4, 0), 0);
	put(&file, 1, 1, 2);
	judge(&file, IN_INODE, 3);
	must_be_found(&file, 0);
	put(&file, 5, 1, 3);
	judge(&file, IN_BLOCK, 4);
	must_be_found(&file, 2);
	put(&file, 40, 1, 4);
	judge(&file, IN_PAGES, 5 + 2);
	must_be_found(&file, 2);

	assert_int_equal(op_setxattr(&rig, none.ino, "gpu4fs.checksum", "none", 4, 0), 0);
	put(&none, 0, 2, 5);
	judge(&none, NOWHERE, 2);
	assert_int_equal(op_setxattr(&rig, none.ino, "gpu4fs.checksum", "default", 7, 0), 0);
	put(&none, 1, 1, 6);
	judge(&none, IN_INODE, 2);
	must_be_found(&none, 1);
}

static void link_targets_have_them_in_the_inode(void **state)
{
	char target[1000], got[1000];
	uint64_t ino, bytes;

	(void)state;
	memset(target, 'y', sizeof(target) - 1);
	target[sizeof(target) - 1] = 0;
	assert_int_equal(op_symlink(&rig, G4_NODE_ROOT, "link", target, &ino), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig_expect_clean(&rig, RIG_ANY_FREE, "with a link");
	assert_int_equal(form_of(ino), IN_INODE);
	assert_int_equal(on_disk(ino)->pages, 1);
	const uint64_t address = g4_ptr_offset(on_disk(ino)->map[0]);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(op_readlink(&rig, ino, got, sizeof(got), &bytes), 0);
	assert_memory_equal(got, target, sizeof(target) - 1);
	again();
	rig.image[address] ^= 1;
	assert_int_equal(op_readlink(&rig, ino, got, sizeof(got), &bytes), -G4_E_DATA);
	rig.image[address] ^= 1;
}

/* ------------------------------------------------------------------ damage */

static struct g4_inode *open_inode(uint64_t ino)
{
	return (struct g4_inode *)(void *)(rig.image + g4_ptr_offset(ino));
}

static void seal_slab(uint64_t inside)
{
	struct g4_slab_header *slab =
		(struct g4_slab_header *)(void *)(rig.image + g4_align_down(inside, G4_PAGE_BYTES));
	struct g4_superblock sb;

	memcpy(&sb, rig.image + G4_SUPERBLOCK_ADDRESS, sizeof(sb));
	g4_block_seal(slab, G4_BLOCK_SLAB, g4_address_from(slab->header.address), slab->header.generation,
		      g4_superblock_tag(&sb));
}

static void repaired(uint64_t least)
{
	struct rig_repair how = {0};

	assert_int_equal(rig_repair(&rig, &how), 0);
	assert_true(how.found >= least);
	if (how.outcome[2] != 0)
		fail_msg("%s", how.text);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
}

/* The flag, the height, a pointer of an inode with sums: found, and no contents are lost that were there. */
static void fsck_mends_inodes_with_sums(void **state)
{
	struct wanted file = {.ino = make("f", 0, 0)}, many = {.ino = make("many", 0, 0)};

	(void)state;
	put(&file, 0, 3, 1);
	put(&many, 0, 16, 2);
	judge(&file, IN_INODE, 3);
	for (uint32_t how = 0; how < 4; how++) {
		rig_unmount_fs(&rig, rig.wg, rig.fs, true);
		struct g4_inode *inode = open_inode(how == 3 ? many.ino : file.ino);
		if (how == 0)
			inode->flags &= ~G4_INODE_SUMS_INLINE;
		else if (how == 1)
			inode->map_height = 1;
		else if (how == 2)
			inode->reserved0 = 1;
		else
			inode->flags |= G4_INODE_SUMS_INLINE; /* and it has a block, too */
		seal_slab(g4_ptr_offset(file.ino));
		repaired(1);
		rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
		judge(&file, IN_INODE, 3);
		must_be_found(&file, 1);
		judge(&many, how == 3 ? NOWHERE : IN_BLOCK, 16);
	}
}

static uint64_t sums_page_of(uint64_t ino, uint64_t quarter)
{
	const uint64_t indirect = g4_ptr_offset(on_disk(ino)->map[0]);
	struct g4_indirect_header header;

	g4_indirect_extract((const g4_le64 *)(const void *)(rig.image + indirect), &header);
	return g4_address_stored(g4_sums_place(&header.sums, g4_address_from(indirect), (uint32_t)quarter));
}

static int read_page(uint64_t ino, uint64_t page)
{
	return op_read(&rig, ino, 0, page * G4_PAGE_BYTES, found, G4_PAGE_BYTES, NULL);
}

static int write_page(uint64_t ino, uint64_t page)
{
	int rc = op_write(&rig, ino, 0, page * G4_PAGE_BYTES, pattern + page * G4_PAGE_BYTES, G4_PAGE_BYTES, NULL);

	return rc < 0 ? rc : op_fsync(&rig, ino);
}

/* Pages that can be read are right; those from `first` to `end` are told, with `healed` among them. */
static void expect_unread(uint64_t ino, uint64_t pages, uint64_t first, uint64_t end, uint64_t healed)
{
	for (uint64_t page = 0; page < pages; page++) {
		const bool unread = page >= first && page < end && page != healed;
		assert_int_equal(read_page(ino, page), unread ? -G4_E_CORRUPT_SUMS : 0);
		if (!unread)
			assert_memory_equal(found, pattern + page * G4_PAGE_BYTES, G4_PAGE_BYTES);
	}
}

static void a_damaged_page_of_sums_does_not_stop_writing(void **state)
{
	const uint64_t ino = make("f", 0, 300 * G4_PAGE_BYTES), gone = make("gone", 0, 300 * G4_PAGE_BYTES);

	(void)state;
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.image[sums_page_of(ino, 1) + 777] ^= 1;
	rig.image[sums_page_of(gone, 2) + 777] ^= 1;
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	expect_unread(ino, 300, 128, 256, UINT64_MAX);
	assert_int_equal(write_page(ino, 140), 0);
	expect_unread(ino, 300, 128, 256, 140);
	again();
	expect_unread(ino, 300, 128, 256, 140);
	/* a part of a page needs the rest of it, and a file can go */
	assert_int_equal(op_write(&rig, ino, 0, 150 * G4_PAGE_BYTES + 5, "x", 1, NULL), -G4_E_CORRUPT_SUMS);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "gone"), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(rig.fs->journal.aborted, 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	repaired(1);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	expect_unread(ino, 300, 0, 0, 0);
	struct wanted file = {.ino = ino};
	must_be_found(&file, 140);
	must_be_found(&file, 127);
}

static void a_damaged_block_of_sums_does_not_stop_writing(void **state)
{
	const uint64_t ino = make("f", 0, 10 * G4_PAGE_BYTES), grown = make("grown", 0, 10 * G4_PAGE_BYTES);
	const uint64_t gone = make("gone", 0, 10 * G4_PAGE_BYTES);

	(void)state;
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.image[g4_align_down(on_disk(ino)->checksums, G4_PAGE_BYTES) + 100] ^= 1; /* they share a slab */
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	expect_unread(ino, 10, 0, 10, UINT64_MAX);
	assert_int_equal(write_page(ino, 4), 0);
	assert_int_equal(write_page(grown, 30), 0);
	assert_int_equal(write_page(grown, 4), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "gone"), 0);
	assert_int_equal(op_sync(&rig), 0);
	(void)gone;
	again();
	expect_unread(ino, 10, 0, 10, 4);
	expect_unread(grown, 10, 0, 10, 4);
	assert_int_equal(read_page(grown, 30), 0);
	assert_int_equal(rig.fs->journal.aborted, 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	repaired(1);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	expect_unread(ino, 10, 0, 0, 0);
	expect_unread(grown, 10, 0, 0, 0);
	struct wanted file = {.ino = ino};
	must_be_found(&file, 4);
}

/* Of a file that lost all its pages, as a repair leaves it. */
static void a_block_without_pages_is_given_back(void **state)
{
	struct wanted file = {.ino = make("f", 0, 0)};
	struct g4_statfs statfs;

	(void)state;
	put(&file, 0, 16, 1);
	judge(&file, IN_BLOCK, 16);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	memset(open_inode(file.ino)->map, 0, sizeof(open_inode(file.ino)->map));
	open_inode(file.ino)->pages = 0;
	seal_slab(g4_ptr_offset(file.ino));
	repaired(1);
	assert_int_not_equal(on_disk(file.ino)->checksums, 0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "f"), 0);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &statfs), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig_expect_clean(&rig, statfs.blocks_free, "after it was deleted");
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

/* What is left in a free block is not somebody else's sums. */
static void a_new_block_says_nothing_of_what_it_was_before(void **state)
{
	struct wanted old = {.ino = make("old", 0, 0)}, file = {.ino = make("f", 0, 0)};
	uint64_t block;

	(void)state;
	put(&old, 0, 16, 1);
	assert_int_equal(op_setxattr(&rig, file.ino, "gpu4fs.checksum", "none", 4, 0), 0);
	put(&file, 0, 16, 2);
	judge(&old, IN_BLOCK, 16);
	block = on_disk(old.ino)->checksums;
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	/* nobody leads to the block: a repair frees it, and leaves it as it is */
	open_inode(old.ino)->checksums = 0;
	seal_slab(g4_ptr_offset(old.ino));
	repaired(1);
	memset(rig.image + block, 0x0a, 512);
	if (((const struct g4_slab_header *)(const void *)(rig.image + g4_align_down(block, G4_PAGE_BYTES)))->kind ==
	    G4_SLAB_SMALL)
		seal_slab(block);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	assert_int_equal(op_setxattr(&rig, file.ino, "gpu4fs.checksum", "blake3", 6, 0), 0);
	put(&file, 3, 1, 3);
	judge(&file, IN_BLOCK, 16);
}

#define ALL(setup)                                                                                                     \
	cmocka_unit_test_setup_teardown(files_of_all_sizes_are_read_back, setup, teardown),                            \
		cmocka_unit_test_setup_teardown(a_flipped_bit_is_found, setup, teardown),                              \
		cmocka_unit_test_setup_teardown(overwriting_truncating_and_punching_keep_sums, setup, teardown),       \
		cmocka_unit_test_setup_teardown(everything_is_given_back, setup, teardown),                            \
		cmocka_unit_test_setup_teardown(small_files_have_them_in_the_inode, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ALL(setup_blake3),
		ALL(setup_xxh3),
		ALL(setup_crc32c),
		cmocka_unit_test_setup_teardown(they_move_from_the_inode_to_where_there_is_room, setup_blake3,
						teardown),
		cmocka_unit_test_setup_teardown(what_is_cut_and_punched_keeps_them, setup_blake3, teardown),
		cmocka_unit_test_setup_teardown(small_files_cost_nothing_but_their_pages, setup_blake3, teardown),
		cmocka_unit_test_setup_teardown(policies_and_few_pages, setup_blake3, teardown),
		cmocka_unit_test_setup_teardown(link_targets_have_them_in_the_inode, setup_xxh3, teardown),
		cmocka_unit_test_setup_teardown(fsck_mends_inodes_with_sums, setup_blake3, teardown),
		cmocka_unit_test_setup_teardown(a_damaged_page_of_sums_does_not_stop_writing, setup_blake3, teardown),
		cmocka_unit_test_setup_teardown(a_damaged_block_of_sums_does_not_stop_writing, setup_xxh3, teardown),
		cmocka_unit_test_setup_teardown(a_block_without_pages_is_given_back, setup_blake3, teardown),
		cmocka_unit_test_setup_teardown(a_new_block_says_nothing_of_what_it_was_before, setup_blake3, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
