/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indirect pages that several files have, written by hand: they are walked once and counted for all, what is wrong about them is
 * found and put right without a file losing what is there, and a mount reads them, and writes each file by itself.
 */
#include "damage.h"
#include "rig.h"

#include "data/map.h"
#include "format/indirect.h"
#include "format/owners.h"
#include "format/sums.h"
#include "fsck/fsck.h"
#include "journal/block.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (24 * G4_MIB)
#define SINGLES 100u			/* pages at the beginning of each file */
#define LARGE_AT (4 * (uint64_t)G4_MIB) /* a page of 2 MiB of the high ones */
#define FAR_PAGE UINT64_C(9000)		/* makes them high */
#define SECOND_PAGE UINT64_C(600)	/* of the low ones, in another indirect page */
#define PATTERN_BYTES (2 * (uint64_t)G4_MIB)

static struct rig rig;
static uint8_t *pattern, *found;
static uint64_t high, high_copy, low, low_copy;

static uint64_t make(const char *name)
{
	uint64_t ino;

	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &ino), 0);
	return ino;
}

static void put(uint64_t ino, uint64_t offset, uint64_t bytes)
{
	for (uint64_t at = 0, done; at < bytes; at += done)
		assert_int_equal(op_write(&rig, ino, 0, offset + at, pattern + at, bytes - at, &done), 0);
}

/* By the hand of a version that shares: the empty file has the map of the other one. Owners and numbers are left for callers. */
static void share_by_hand(uint64_t from, uint64_t to)
{
	struct g4_inode *a = damage_inode(&rig, from), *b = damage_inode(&rig, to);

	a->flags |= G4_INODE_SHARES_MAP;
	b->flags = (b->flags & ~G4_INODE_INLINE) | G4_INODE_SHARES_MAP;
	b->map_height = a->map_height;
	b->size = a->size;
	b->pages = a->pages;
	memcpy(b->map, a->map, sizeof(b->map));
	damage_seal(&rig, g4_ptr_offset(from));
	damage_seal(&rig, g4_ptr_offset(to));
}

static void set_features(uint64_t on, uint64_t off)
{
	struct g4_layout layout;
	struct g4_superblock *sb = (struct g4_superblock *)(void *)(rig.image + G4_SUPERBLOCK_ADDRESS);

	g4_layout_of(sb, &layout);
	const uint64_t both[] = {G4_SUPERBLOCK_ADDRESS, layout.backup_address};
	for (uint32_t k = 0; k < 2; k++) {
		sb = (struct g4_superblock *)(void *)(rig.image + both[k]);
		sb->features_incompat = (sb->features_incompat | on) & ~off;
		damage_seal(&rig, both[k]);
	}
}

/* The image, unmounted: a file with a shared page of level 2, one with two of level 1. Counted by a repair. */
static int setup_with(uint32_t checksum)
{
	struct rig_repair how = {0};

	rig_open_as(&rig, checksum, RIG_AS_SET, DEVICE_BYTES, 2 * G4_MIB);
	rig.wg = g4_wg_create(0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	pattern = rig_memory(PATTERN_BYTES, 3);
	found = rig_memory(PATTERN_BYTES, 4);
	high = make("high");
	put(high, 0, SINGLES * G4_PAGE_BYTES);
	put(high, FAR_PAGE * G4_PAGE_BYTES, G4_PAGE_BYTES);
	put(high, LARGE_AT, PATTERN_BYTES);
	low = make("low");
	put(low, 0, SINGLES * G4_PAGE_BYTES);
	put(low, SECOND_PAGE * G4_PAGE_BYTES, G4_PAGE_BYTES);
	high_copy = make("high copy");
	low_copy = make("low copy");
	assert_int_equal(op_sync(&rig), 0);
	struct g4_run run;
	rig_run_at(&rig, high, LARGE_AT / G4_PAGE_BYTES, &run);
	assert_int_equal(run.level, 1);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	assert_int_equal(damage_inode(&rig, high)->map_height, 2);
	assert_int_equal(damage_inode(&rig, low)->map_height, 1);
	share_by_hand(high, high_copy);
	share_by_hand(low, low_copy);
	set_features(G4_FEATURES_REFLINK_MAPS, 0);
	assert_int_equal(rig_repair(&rig, &how), 0);
	assert_int_equal(how.outcome[G4_FSCK_LOST], 0);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "with owners that were counted");
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return setup_with(G4_CHECKSUM_NONE);
}

static int setup_sums(void **state)
{
	(void)state;
	return setup_with(G4_CHECKSUM_BLAKE3);
}

static int teardown(void **state)
{
	(void)state;
	g4_wg_destroy(rig.wg);
	rig_close(&rig);
	free(pattern);
	free(found);
	return 0;
}

static uint64_t address_in(uint64_t ino, uint32_t slot)
{
	return g4_address_stored(g4_ptr_address(damage_inode(&rig, ino)->map[slot]));
}

static g4_le64 *indirect_at(uint64_t address, struct g4_indirect_header *header)
{
	g4_le64 *slots = (g4_le64 *)(void *)(rig.image + address);

	g4_indirect_extract(slots, header);
	assert_int_equal(header->header.type, G4_BLOCK_INDIRECT);
	return slots;
}

static void seal_indirect(uint64_t address, const struct g4_indirect_header *header)
{
	g4_le64 *slots = (g4_le64 *)(void *)(rig.image + address);

	g4_indirect_strip(slots);
	g4_indirect_embed(slots, header);
	g4_indirect_seal(slots, header->inode, header->level, g4_address_from(address), header->header.generation,
			 header->header.fs_tag);
}

/* The count of a page, in the page of counts of its region. */
static g4_le32 *count_of(uint64_t address, struct g4_owners_page **page)
{
	const uint64_t shares_at = damage_map(&rig, address)->shares;
	const struct g4_shares_page *shares = (const struct g4_shares_page *)(void *)(rig.image + shares_at);

	assert_int_not_equal(shares_at, 0);
	const uint64_t at = shares->owners[address / G4_REGION_BYTES % G4_GROUP_REGIONS];
	assert_int_not_equal(at, 0);
	*page = (struct g4_owners_page *)(void *)(rig.image + at);
	assert_int_equal((*page)->region, address / G4_REGION_BYTES);
	return &(*page)->more[address / G4_PAGE_BYTES % G4_REGION_PAGES];
}

static void set_count(uint64_t address, uint32_t more)
{
	struct g4_owners_page *page;
	g4_le32 *count = count_of(address, &page);

	page->shared = page->shared - (*count != 0) + (more != 0);
	*count = more;
	damage_seal(&rig, page->header.address);
}

/* Each file changes by itself: what the others have stays. The image is put back. */
static void expect_changes(const uint64_t *all)
{
	uint8_t *before = rig_memory(rig.bytes, 1), *other = rig_memory(G4_PAGE_BYTES, 5);
	struct g4_statfs statfs;

	rig_copy(before, rig.image, rig.bytes);
	rig_mount(&rig);
	for (uint32_t k = 0; k < 4; k++) {
		uint64_t done;
		assert_int_equal(op_write(&rig, all[k], 0, 7 * G4_PAGE_BYTES, other, G4_PAGE_BYTES, &done), 0);
		assert_int_equal(op_fallocate(&rig, all[k], G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE,
					      30 * G4_PAGE_BYTES, 5 * G4_PAGE_BYTES),
				 0);
		assert_int_equal(op_fsync(&rig, all[k]), 0);
		for (uint32_t n = k + 1; n < 4; n++) {
			rig_expect_contents(&rig, all[n], 0, found, pattern, SINGLES * G4_PAGE_BYTES);
			if (n < 2)
				rig_expect_contents(&rig, all[n], LARGE_AT, found, pattern, PATTERN_BYTES);
		}
	}
	for (uint32_t k = 0; k < 4; k++) {
		rig_expect_contents(&rig, all[k], 0, found, pattern, 7 * G4_PAGE_BYTES);
		rig_expect_contents(&rig, all[k], 7 * G4_PAGE_BYTES, found, other, G4_PAGE_BYTES);
		rig_expect_contents(&rig, all[k], 8 * G4_PAGE_BYTES, found, pattern + 8 * G4_PAGE_BYTES,
				    22 * G4_PAGE_BYTES);
		assert_int_equal(op_truncate(&rig, all[k], k % 2 ? 0 : 20 * G4_PAGE_BYTES), 0);
	}
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &statfs), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, statfs.blocks_free, "after changes");
	rig_copy(rig.image, before, rig.bytes);
	free(before);
	free(other);
}

/* What all files have, by a mount that reads only and one that writes. */
static void expect_contents(void)
{
	const uint64_t all[] = {high, high_copy, low, low_copy};

	assert_int_equal(rig_try_mount(&rig, G4_MOUNT_READ_ONLY, NULL), 0);
	for (uint32_t k = 0; k < 4; k++) {
		rig_expect_contents(&rig, all[k], 0, found, pattern, SINGLES * G4_PAGE_BYTES);
		rig_expect_contents(&rig, all[k], (k < 2 ? FAR_PAGE : SECOND_PAGE) * G4_PAGE_BYTES, found, pattern,
				    G4_PAGE_BYTES);
		if (k < 2)
			rig_expect_contents(&rig, all[k], LARGE_AT, found, pattern, PATTERN_BYTES);
		assert_int_equal(op_truncate(&rig, all[k], 0), -G4_E_ROFS);
	}
	assert_int_equal(rig_unmount(&rig), 0);
	expect_changes(all);
}

/* What is wrong is found, in these words among others; it is put right, and nothing is lost. */
static void expect_mended(const char *words)
{
	struct rig_repair how = {0};
	char *text;

	assert_true(rig_fsck(&rig, &text).problems > 0);
	if (strstr(text, words) == NULL)
		fail_msg("nothing about '%s':\n%s", words, text);
	free(text);
	assert_int_equal(rig_repair(&rig, &how), 0);
	if (how.outcome[G4_FSCK_LOST] != 0)
		fail_msg("something is lost:\n%s", how.text);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	expect_contents();
}

/* ------------------------------------------------------------------ what is right */

static void shared_pages_are_counted_and_read(void **state)
{
	const uint64_t tops[] = {address_in(high, 0), address_in(low, 0), address_in(low, 1)};
	struct g4_indirect_header header;
	struct g4_owners_page *page;

	(void)state;
	for (uint32_t k = 0; k < 3; k++) {
		assert_int_equal(*count_of(tops[k], &page), 1);
		indirect_at(tops[k], &header);
		assert_int_equal(g4_indirect_below(&header), k == 0 ? damage_inode(&rig, high)->pages : 0);
	}
	expect_contents();
	rig_expect_clean(&rig, RIG_ANY_FREE, "after reading");
}

/* Pages of sums of large pages that name no other inode than the page that leads to them can not be written by its other owners. */
static void without_rows_nothing_is_written(void **state)
{
	(void)state;
	set_features(0, G4_FEATURE_INCOMPAT_ROWS);
	assert_int_equal(rig_try_mount(&rig, 0, NULL), -G4_E_ROFS);
	assert_int_equal(rig_try_mount(&rig, G4_MOUNT_READ_ONLY, NULL), 0);
	rig_expect_contents(&rig, low_copy, 0, found, pattern, SINGLES * G4_PAGE_BYTES);
	assert_int_equal(rig_unmount(&rig), 0);
	set_features(G4_FEATURE_INCOMPAT_ROWS, 0);
	expect_contents();
}

/* A team of threads finds the same; and of contents each page that several files have is compared once. */
static void several_threads_find_nothing_wrong(void **state)
{
	const uint64_t singles = 2 * (SINGLES + 1);
	char *text;

	(void)state;
	for (uint32_t threads = 1; threads <= 4; threads += 3) {
		const struct rig_data data = rig_fsck_data(&rig, threads, &text);
		if (data.problems != 0 || data.damaged != 0)
			fail_msg("%s", text);
		free(text);
		/* the page of 2 MiB hangs at one of level 2, and is compared for each file */
		assert_int_equal(data.compared + data.without, singles + 2 * PATTERN_BYTES / G4_PAGE_BYTES);
		assert_int_equal(data.unverified, 0);
	}
}

static void a_file_may_have_one_page_in_several_places(void **state)
{
	struct g4_inode *inode = damage_inode(&rig, low);
	struct rig_repair how = {0};
	struct g4_owners_page *page;

	(void)state;
	for (uint32_t slot = 2; slot < G4_MAP_SLOTS; slot++)
		inode->map[slot] = inode->map[0];
	inode->size = G4_MAP_SLOTS * PATTERN_BYTES;
	damage_seal(&rig, g4_ptr_offset(low));
	assert_int_equal(rig_repair(&rig, &how), 0);
	assert_int_equal(how.outcome[G4_FSCK_LOST], 0);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	assert_int_equal(*count_of(address_in(low, 0), &page), 1 + G4_MAP_SLOTS - 2);
	expect_contents();
}

/* ------------------------------------------------------------------ what is wrong */

static void wrong_counts_are_put_right(void **state)
{
	static const uint32_t counts[] = {0, 2, UINT32_MAX};

	(void)state;
	for (uint32_t k = 0; k < 3; k++) {
		set_count(address_in(high, 0), counts[k]);
		set_count(address_in(low, 1), counts[k]);
		expect_mended("owners beyond the first are counted");
	}
}

static void wrong_numbers_of_pages_are_put_right(void **state)
{
	const uint64_t address = address_in(high, 0), at_low = address_in(low, 0);
	struct g4_indirect_header header;

	(void)state;
	for (uint32_t k = 0; k < 3; k++) {
		indirect_at(address, &header);
		const uint32_t right = g4_indirect_below(&header);
		g4_indirect_set_below(&header, k == 0 ? 0 : right + k);
		seal_indirect(address, &header);
		expect_mended("pages from it down");
		indirect_at(address, &header);
		assert_int_equal(g4_indirect_below(&header), right);
	}
	/* of level 1 there is none */
	indirect_at(at_low, &header);
	g4_indirect_set_below(&header, SINGLES + 1);
	seal_indirect(at_low, &header);
	expect_mended("pages from it down");
}

static void an_inode_that_does_not_say_that_it_shares_says_so_again(void **state)
{
	const uint64_t all[] = {high, high_copy, low, low_copy};

	(void)state;
	for (uint32_t k = 0; k < 4; k++) {
		damage_inode(&rig, all[k])->flags &= ~G4_INODE_SHARES_MAP;
		damage_seal(&rig, g4_ptr_offset(all[k]));
		expect_mended("the inode does not say so");
		assert_true(damage_inode(&rig, all[k])->flags & G4_INODE_SHARES_MAP);
	}
}

/* Without the feature nobody writes such a file: contents in its inode beside the flag would be one that nobody reads. */
static void an_inode_that_may_not_share_is_not_written(void **state)
{
	(void)state;
	set_features(0, G4_FEATURE_INCOMPAT_SHARED_MAPS);
	rig_mount(&rig);
	assert_int_equal(op_truncate(&rig, low, 0), -G4_E_CORRUPT_INODE);
	(void)rig_unmount(&rig); /* an inode that is damaged has ended all writing */
}

static void what_no_file_may_share_is_said_by_none(void **state)
{
	struct rig_repair how = {0};

	(void)state;
	for (uint32_t k = 0; k < 2; k++) { /* no copies any more, and no counts */
		struct g4_inode *inode = damage_inode(&rig, k ? low_copy : high_copy);
		memset(inode->map, 0, sizeof(inode->map));
		inode->pages = inode->size = 0;
		damage_seal(&rig, g4_ptr_offset(k ? low_copy : high_copy));
	}
	set_features(0, G4_FEATURE_INCOMPAT_SHARED_MAPS);
	assert_int_equal(rig_repair(&rig, &how), 0);
	assert_non_null(strstr(how.text, "says that it shares its map"));
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	assert_false(damage_inode(&rig, low)->flags & G4_INODE_SHARES_MAP);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
	rig_expect_clean(&rig, RIG_ANY_FREE, "after a mount");
}

/* A bit of a pointer: all others are kept, for both files. */
static void a_damaged_page_is_kept_for_all_owners(void **state)
{
	const uint64_t addresses[] = {address_in(low, 0), address_in(high, 0)};

	(void)state;
	for (uint32_t k = 0; k < 2; k++) {
		struct rig_repair how = {0};
		((uint64_t *)(void *)(rig.image + addresses[k]))[300] ^= UINT64_C(1) << 60;
		assert_int_equal(rig_repair(&rig, &how), 0);
		assert_int_equal(how.outcome[G4_FSCK_LOST], 1); /* that pointer */
		free(how.text);
		rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
		expect_contents();
	}
}

/* An impossible pointer in a page that is whole goes, for both; how many pages they have is right afterwards. */
static void what_is_cut_is_cut_for_all_owners(void **state)
{
	struct g4_indirect_header header;
	struct rig_repair how = {0};
	const uint64_t address = address_in(low, 0), pages = damage_inode(&rig, low)->pages;

	(void)state;
	g4_le64 *slots = indirect_at(address, &header);
	g4_indirect_strip(slots);
	slots[7] ^= UINT64_C(1) << 60;
	seal_indirect(address, &header);
	assert_int_equal(rig_repair(&rig, &how), 0);
	assert_int_equal(how.outcome[G4_FSCK_LOST], 1);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	assert_int_equal(damage_inode(&rig, low)->pages, pages - 1);
	assert_int_equal(damage_inode(&rig, low_copy)->pages, pages - 1);
}

/* A third file has a shared page as contents: it gets a copy, and the map stays. */
static void a_shared_page_that_is_contents_as_well_stays_a_map(void **state)
{
	const uint64_t ino = low_copy;
	struct g4_indirect_header header;
	struct rig_repair how = {0};
	const uint64_t second = address_in(low, 1);

	(void)state;
	g4_le64 *slots = indirect_at(second, &header);
	g4_indirect_strip(slots);
	slots[500] = g4_ptr_at(address_in(high, 0), G4_TAG_4K, G4_PTR_VALID);
	seal_indirect(second, &header);
	assert_int_equal(rig_repair(&rig, &how), 0);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	assert_int_equal(address_in(ino, 1), second);
	expect_contents();
}

/* A page of level 3 can not be shared: what would count what hangs there has no room for it. Nor can a page that no count allows. */
static void maps_of_maps_of_maps_end(void **state)
{
	struct g4_inode *inode = damage_inode(&rig, high_copy);
	struct rig_repair how = {0};
	struct g4_indirect_header header;
	const uint64_t top = address_in(high, 0);

	(void)state;
	/* one page of level 2 in all slots of the inode, whose page of level 1 is in all of its slots */
	g4_le64 *slots = indirect_at(top, &header);
	g4_indirect_strip(slots);
	for (uint32_t slot = 0; slot < G4_INDIRECT_SLOTS; slot++)
		if (slot != LARGE_AT / PATTERN_BYTES)
			slots[slot] = slots[0];
	seal_indirect(top, &header);
	for (uint32_t slot = 1; slot < G4_MAP_SLOTS; slot++)
		inode->map[slot] = inode->map[0];
	damage_seal(&rig, g4_ptr_offset(high_copy));
	assert_int_equal(rig_repair(&rig, &how), 0);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	char *text;
	const struct rig_data data = rig_fsck_data(&rig, 2, &text);
	assert_int_equal(data.problems, 0);
	free(text);
}

/* Without superblocks nobody knows whether maps are shared; inodes tell. */
static void superblocks_that_are_made_anew_say_what_is_shared(void **state)
{
	struct rig_repair how = {.find_superblock = true};
	struct g4_superblock *sb = (struct g4_superblock *)(void *)(rig.image + G4_SUPERBLOCK_ADDRESS);
	struct g4_layout layout;

	(void)state;
	g4_layout_of(sb, &layout);
	memset(rig.image + layout.backup_address, 0, G4_PAGE_BYTES);
	memset(sb, 0, G4_PAGE_BYTES);
	assert_int_equal(rig_repair(&rig, &how), 0);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	assert_true(sb->features_incompat & G4_FEATURE_INCOMPAT_SHARED_MAPS);
	expect_contents();
}

/* Counts of owners that are wrong make nobody share anything: the file system can be written to afterwards. */
static void a_stray_count_beside_lost_superblocks_is_no_sharing(void **state)
{
	const uint64_t all[] = {high, high_copy, low, low_copy};
	struct rig_repair how = {.find_superblock = true};
	struct g4_superblock *sb = (struct g4_superblock *)(void *)(rig.image + G4_SUPERBLOCK_ADDRESS);
	struct g4_owners_page *page;
	struct g4_layout layout;

	(void)state;
	for (uint32_t k = 0; k < 4; k++) { /* no copies any more; the counts stay */
		struct g4_inode *inode = damage_inode(&rig, all[k]);
		inode->flags &= ~G4_INODE_SHARES_MAP;
		if (k % 2) {
			memset(inode->map, 0, sizeof(inode->map));
			inode->pages = inode->size = 0;
		}
		damage_seal(&rig, g4_ptr_offset(all[k]));
	}
	assert_int_equal(*count_of(address_in(high, 0), &page), 1);
	assert_int_equal(*count_of(address_in(low, 0), &page), 1);
	g4_layout_of(sb, &layout);
	memset(rig.image + layout.backup_address, 0, G4_PAGE_BYTES);
	memset(sb, 0, G4_PAGE_BYTES);
	assert_int_equal(rig_repair(&rig, &how), 0);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	assert_int_equal(sb->features_incompat & G4_FEATURE_INCOMPAT_SHARED_MAPS, 0);
	for (uint32_t k = 0; k < 4; k++)
		assert_int_equal(damage_inode(&rig, all[k])->flags & G4_INODE_SHARES_MAP, 0);
	rig_mount(&rig);
	for (uint32_t k = 0; k < 4; k += 2) {
		rig_expect_contents(&rig, all[k], 0, found, pattern, SINGLES * G4_PAGE_BYTES);
		rig_expect_contents(&rig, all[k], (k < 2 ? FAR_PAGE : SECOND_PAGE) * G4_PAGE_BYTES, found, pattern,
				    G4_PAGE_BYTES);
		put(all[k], 0, G4_PAGE_BYTES);
	}
	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after a mount that writes");
}

/* A link has no map to share: one that says so gets a target like any other that has lost its own. */
static void a_link_that_says_that_it_shares_is_put_right(void **state)
{
	struct rig_repair how = {0};
	uint64_t link = 0;

	(void)state;
	set_features(0, G4_FEATURE_INCOMPAT_SHARED_MAPS);
	for (uint32_t k = 0; k < 2; k++) { /* no copies any more, and no counts */
		struct g4_inode *inode = damage_inode(&rig, k ? low_copy : high_copy);
		memset(inode->map, 0, sizeof(inode->map));
		inode->pages = inode->size = 0;
		damage_seal(&rig, g4_ptr_offset(k ? low_copy : high_copy));
	}
	assert_int_equal(rig_repair(&rig, &how), 0);
	free(how.text);
	rig_mount(&rig);
	assert_int_equal(op_symlink(&rig, G4_NODE_ROOT, "link", "target", &link), 0);
	assert_int_equal(rig_unmount(&rig), 0);
	set_features(G4_FEATURE_INCOMPAT_SHARED_MAPS, 0);
	struct g4_inode *inode = damage_inode(&rig, link);
	inode->flags = (inode->flags & ~G4_INODE_INLINE) | G4_INODE_SHARES_MAP;
	inode->size = 0;
	memset(inode->map, 0, sizeof(inode->map));
	damage_seal(&rig, g4_ptr_offset(link));
	assert_int_equal(rig_repair(&rig, &how), 0);
	free(how.text);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
	assert_int_equal(damage_inode(&rig, link)->flags & G4_INODE_SHARES_MAP, 0);
}

/* Counts, a number of pages and a flag are wrong at once, and the power goes at each write of the repair: another one loses nothing. */
static void a_repair_that_is_cut_off_is_repeated(void **state)
{
	uint8_t *damaged = rig_memory(rig.bytes, 1);
	struct g4_indirect_header header;
	uint64_t writes = 0;
	int rc = -1;

	(void)state;
	set_count(address_in(low, 1), 0);
	indirect_at(address_in(high, 0), &header);
	g4_indirect_set_below(&header, 1);
	seal_indirect(address_in(high, 0), &header);
	damage_inode(&rig, low_copy)->flags &= ~G4_INODE_SHARES_MAP;
	damage_seal(&rig, g4_ptr_offset(low_copy));
	rig_copy(damaged, rig.image, rig.bytes);
	while (rc != 0) {
		struct rig_repair first = {.stop_at_write = ++writes}, again = {0};
		rig_copy(rig.image, damaged, rig.bytes);
		rc = rig_repair(&rig, &first);
		free(first.text);
		assert_true(writes < 200);
		assert_int_equal(rig_repair(&rig, &again), 0);
		assert_int_equal(again.outcome[G4_FSCK_LOST], 0);
		free(again.text);
		rig_expect_clean(&rig, RIG_ANY_FREE, "after both");
		expect_contents();
	}
	free(damaged);
	assert_true(writes > 4); /* superblocks, records, pages at home */
}

/* Seals whatever a page is, after it was damaged. */
static void seal_any(uint64_t address, const struct g4_indirect_header *indirect, const struct g4_sums_header *sums)
{
	if (indirect != NULL)
		seal_indirect(address, indirect);
	else if (sums != NULL)
		g4_sums_seal((struct g4_sums_page *)(void *)(rig.image + address), sums->inode, sums->level,
			     sums->quarter, g4_address_from(address), sums->header.generation, sums->header.fs_tag);
	else
		damage_seal(&rig, address);
}

/* One word of a page of metadata becomes another one: of an indirect page a pointer or a part of its header. */
static void damage_word(uint64_t address, uint64_t *seed)
{
	struct g4_block_header *header = (struct g4_block_header *)(void *)(rig.image + address);
	struct g4_indirect_header indirect, *is_indirect = NULL;
	struct g4_sums_header sums, *is_sums = NULL;
	g4_le64 *words = (g4_le64 *)(void *)header;

	g4_indirect_extract(words, &indirect);
	g4_sums_extract((const struct g4_sums_page *)(void *)header, &sums);
	if (header->magic != G4_BLOCK_MAGIC && indirect.header.magic == G4_BLOCK_MAGIC)
		is_indirect = &indirect;
	else if (header->magic != G4_BLOCK_MAGIC && sums.header.magic == G4_BLOCK_MAGIC)
		is_sums = &sums;
	else if (header->magic != G4_BLOCK_MAGIC)
		return;
	const uint64_t first = is_indirect == NULL && is_sums == NULL ? sizeof(*header) / 8 : 0;
	g4_le64 *word = &words[first + rig_random(seed) % (512 - first)];
	if (is_indirect != NULL && rig_random(seed) % 3 == 0)
		word = (g4_le64 *)(void *)((uint8_t *)&indirect + sizeof(*header)) + rig_random(seed) % 2;
	switch (rig_random(seed) % 4) {
	case 0:
		*word ^= UINT64_C(1) << rig_random(seed) % 64;
		break;
	case 1:
		*word = words[first + rig_random(seed) % 16];
		break;
	case 2:
		*word = 0;
		break;
	default: /* somebody's indirect page */
		*word = g4_ptr_at(address_in(rig_random(seed) % 2 ? high : low, 0), G4_TAG_4K,
				  G4_PTR_VALID | G4_PTR_INDIRECT);
	}
	if (rig_random(seed) % 4 != 0)
		seal_any(address, is_indirect, is_sums);
}

/* Pages of metadata are damaged, most of them with right checksums: a repair ends, and what it leaves is whole. */
static void any_damage_is_repaired(void **state)
{
	uint8_t *before = rig_memory(rig.bytes, 1);
	uint64_t seed = 16, pages[64], count = 0;
	struct g4_layout layout;

	(void)state;
	g4_layout_of((const struct g4_superblock *)(void *)(rig.image + G4_SUPERBLOCK_ADDRESS), &layout);
	rig_copy(before, rig.image, rig.bytes);
	for (uint64_t at = layout.data_address; at < rig.bytes - G4_PAGE_BYTES && count < 64; at += G4_PAGE_BYTES) {
		const struct g4_alloc_page *map = damage_map(&rig, at);
		const uint64_t page = at / G4_PAGE_BYTES % G4_GROUP_PAGES;
		uint64_t generation;
		uint8_t copy[G4_PAGE_BYTES] __attribute__((aligned(8)));
		memcpy(copy, rig.image + at, sizeof(copy));
		const struct g4_superblock *sb =
			(const struct g4_superblock *)(void *)(rig.image + G4_SUPERBLOCK_ADDRESS);
		if ((map->regions[page / G4_REGION_PAGES].used[page % G4_REGION_PAGES / 64] >> page % 64 & 1) != 0 &&
		    g4_block_is_whole(copy, g4_address_from(at), g4_superblock_tag(sb), &generation))
			pages[count++] = at;
	}
	assert_true(count > 8);
	for (uint32_t round = 0; round < 400; round += (uint32_t)rig_every(8)) {
		struct rig_repair how = {0};
		char when[40];
		for (uint64_t damages = 1 + rig_random(&seed) % 2; damages > 0; damages--)
			damage_word(pages[rig_random(&seed) % count], &seed);
		assert_int_equal(rig_repair(&rig, &how), 0);
		free(how.text);
		snprintf(when, sizeof(when), "after round %u", round);
		rig_expect_clean(&rig, RIG_ANY_FREE, when);
		rig_copy(rig.image, before, rig.bytes);
	}
	free(before);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define WITH_SUMS(name)                                                                                                \
	{                                                                                                              \
#name " with sums", name, setup_sums, teardown, NULL                                                   \
	}
	const struct CMUnitTest tests[] = {
		TEST(shared_pages_are_counted_and_read),
		WITH_SUMS(shared_pages_are_counted_and_read),
		TEST(without_rows_nothing_is_written),
		TEST(several_threads_find_nothing_wrong),
		WITH_SUMS(several_threads_find_nothing_wrong),
		TEST(a_file_may_have_one_page_in_several_places),
		TEST(wrong_counts_are_put_right),
		WITH_SUMS(wrong_counts_are_put_right),
		WITH_SUMS(wrong_numbers_of_pages_are_put_right),
		WITH_SUMS(an_inode_that_does_not_say_that_it_shares_says_so_again),
		TEST(an_inode_that_may_not_share_is_not_written),
		TEST(what_no_file_may_share_is_said_by_none),
		TEST(a_damaged_page_is_kept_for_all_owners),
		TEST(what_is_cut_is_cut_for_all_owners),
		TEST(a_shared_page_that_is_contents_as_well_stays_a_map),
		TEST(maps_of_maps_of_maps_end),
		WITH_SUMS(a_repair_that_is_cut_off_is_repeated),
		TEST(any_damage_is_repaired),
		WITH_SUMS(any_damage_is_repaired),
		WITH_SUMS(superblocks_that_are_made_anew_say_what_is_shared),
		TEST(a_stray_count_beside_lost_superblocks_is_no_sharing),
		WITH_SUMS(a_stray_count_beside_lost_superblocks_is_no_sharing),
		TEST(a_link_that_says_that_it_shares_is_put_right),
	};

	return cmocka_run_group_tests_name("fsck_shared_map", tests, NULL, NULL);
}
