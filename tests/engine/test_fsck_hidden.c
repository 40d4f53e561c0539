/* SPDX-License-Identifier: Apache-2.0 */
/*
 * "0 lost" is true: damage with right checksums, after which only a look at what the pages themselves say, or at what
 * counts that do not fit any more say, tells that something is missing. Files that were removed stay removed.
 */
#include "damage.h"

#include <inttypes.h>
#include <sys/stat.h>

#include "fsck/fsck.h"
#include "simt/simt_host.h"

#define DEVICE_BYTES (64 * G4_MIB)
#define JOURNAL_BYTES (2 * G4_MIB)
#define FILES 45u /* so that some slabs have nothing else */
#define INLINE_BYTES 60u

static struct rig rig;
static struct g4_wg *wg;
static uint8_t *whole; /* the image before any damage */
static uint64_t root, inline_dir, paged_dir, attribute_dir;
static uint64_t inlines[FILES], paged[FILES], removed[FILES], with_attributes, before_it, behind_it;
static struct g4_fsck fsck; /* of the last repair */
static char *words;

static void must(int rc)
{
	assert_true(rc >= 0);
}

static void mount(void)
{
	rig.fs = rig_mount_fs(&rig, wg, NULL);
	rig.wg = wg;
}

static void unmount(void)
{
	rig_unmount_fs(&rig, wg, rig.fs, true);
	rig.fs = NULL;
}

static void make_files(uint64_t dir, uint64_t *inos, uint64_t bytes)
{
	uint8_t contents[G4_PAGE_BYTES];
	char name[32];

	for (uint32_t i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "file %u", i);
		must(op_mknod(&rig, dir, name, S_IFREG | 0644, &inos[i]));
		rig_pattern(contents, inos[i], bytes);
		must(op_write(&rig, inos[i], 0, 0, contents, bytes, NULL));
	}
}

static uint64_t slab_of(uint64_t ino)
{
	return g4_align_down(g4_ptr_offset(ino), G4_PAGE_BYTES);
}

static void make_attributes(void)
{
	uint8_t value[900];
	char name[32];

	must(op_mkdir(&rig, G4_NODE_ROOT, "attributes", 0755, &attribute_dir));
	must(op_mknod(&rig, attribute_dir, "before", S_IFREG | 0644, &before_it));
	must(op_write(&rig, before_it, 0, 0, "some contents", 13, NULL));
	must(op_write(&rig, before_it, 0, 9 * G4_PAGE_BYTES, "some contents", 13, NULL));
	must(op_mknod(&rig, attribute_dir, "with attributes", S_IFREG | 0644, &with_attributes));
	for (uint32_t i = 0; i < 6; i++) {
		snprintf(name, sizeof(name), "user.number %u", i);
		rig_pattern(value, i, sizeof(value));
		must(op_setxattr(&rig, with_attributes, name, value, sizeof(value), 0));
	}
	must(op_mknod(&rig, attribute_dir, "behind", S_IFREG | 0644, &behind_it));
	must(op_write(&rig, behind_it, 0, 9 * G4_PAGE_BYTES, "some contents", 13, NULL));
}

/* Slabs of removed files keep what they held when they were freed. */
static void make_removed(void)
{
	char name[32];
	uint64_t dir;

	must(op_mkdir(&rig, G4_NODE_ROOT, "removed", 0755, &dir));
	make_files(dir, removed, INLINE_BYTES);
	unmount(); /* so that they are home */
	mount();
	for (uint32_t i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "file %u", i);
		must(op_unlink(&rig, dir, name));
	}
	must(op_sync(&rig));
}

static int setup(void **state)
{
	uint64_t later;

	(void)state;
	wg = g4_wg_create(0);
	rig_open(&rig, DEVICE_BYTES, JOURNAL_BYTES);
	mount();
	must(op_mkdir(&rig, G4_NODE_ROOT, "inline", 0755, &inline_dir));
	make_files(inline_dir, inlines, INLINE_BYTES);
	must(op_mkdir(&rig, G4_NODE_ROOT, "paged", 0755, &paged_dir));
	make_files(paged_dir, paged, G4_PAGE_BYTES);
	make_attributes();
	make_removed();
	unmount();
	mount(); /* the map is newer than what it says of the slabs */
	must(op_mknod(&rig, G4_NODE_ROOT, "later", S_IFREG | 0644, &later));
	must(op_write(&rig, later, 0, G4_PAGE_BYTES, "later", 5, NULL));
	unmount();
	whole = malloc(rig.bytes);
	assert_non_null(whole);
	rig_copy(whole, rig.image, rig.bytes);
	struct g4_layout layout;
	g4_layout_of((struct g4_superblock *)(void *)(whole + G4_SUPERBLOCK_ADDRESS), &layout);
	root = g4_ino_at(layout.data_address + G4_SLAB_SLOT_BYTES);
	/* What a repair must not take for lost is there to be taken. */
	const struct g4_slab_header *slab = (const struct g4_slab_header *)(const void *)(whole + slab_of(removed[20]));
	const uint64_t page = slab_of(removed[20]) / G4_PAGE_BYTES;
	assert_int_equal(slab->header.type, G4_BLOCK_SLAB);
	assert_true(slab->used > 1);
	assert_int_equal(
		damage_map(&rig, 0)->regions[page / G4_REGION_PAGES].used[page % G4_REGION_PAGES / 64] >> page % 64 & 1,
		0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	g4_fsck_free(&fsck);
	free(words);
	free(whole);
	rig_close(&rig);
	g4_wg_destroy(wg);
	return 0;
}

static void restore(void)
{
	rig_copy(rig.image, whole, rig.bytes);
}

/* ------------------------------------------------------------------ repair */

static void repair_with(bool safe_only)
{
	const struct g4_fsck_repair_options options = {.safe_only = safe_only};
	struct g4_journal_state journal;
	struct g4_image image = {.name = NULL};
	char message[512] = "";
	size_t bytes;

	g4_fsck_free(&fsck);
	free(words);
	words = NULL;
	memset(&fsck, 0, sizeof(fsck));
	fsck.out = open_memstream(&words, &bytes);
	fsck.printed_limit = UINT64_MAX;
	must(g4_fsck_repair_device(&fsck, &image, rig.name, &options, &journal, message, sizeof(message)));
	fclose(fsck.out);
	g4_image_close(&image);
}

static void repair(void)
{
	char *text;

	repair_with(false);
	if (fsck.problems != 0)
		fail_msg("the repair did not end:\n%s", words);
	if (rig_fsck(&rig, &text).problems != 0)
		fail_msg("the repaired image has problems:\n%s", text);
	free(text);
}

static bool is_reported(uint64_t ino)
{
	for (uint64_t i = 0; i < fsck.change_count; i++) {
		if (fsck.changes[i].ino == ino && fsck.changes[i].outcome != G4_FSCK_REPAIRED)
			return true;
	}
	return false;
}

static uint64_t said(enum g4_fsck_outcome outcome)
{
	return fsck.by_outcome[outcome];
}

/* The inode behind a path of two names, 0: there is none. */
static uint64_t find(const char *dir, const char *name)
{
	struct g4_attr attr;

	if (op_lookup(&rig, G4_NODE_ROOT, dir, &attr) < 0 || op_lookup(&rig, attr.ino, name, &attr) < 0)
		return 0;
	return attr.ino;
}

static bool in_lost_and_found(uint64_t ino)
{
	char name[40];

	snprintf(name, sizeof(name), "#%" PRIx64, g4_ptr_offset(ino));
	return find("lost+found", name) == ino;
}

static bool has_its_contents(uint64_t ino, uint64_t bytes)
{
	uint8_t wanted[G4_PAGE_BYTES], found[G4_PAGE_BYTES + 1];
	uint64_t done;

	rig_pattern(wanted, ino, bytes);
	return op_read(&rig, ino, 0, 0, found, sizeof(found), &done) == 0 && done == bytes &&
	       memcmp(wanted, found, bytes) == 0;
}

static void expect_removed_stay_removed(void)
{
	for (uint32_t i = 0; i < FILES; i++) {
		if (in_lost_and_found(removed[i]))
			fail_msg("removed file %u is back:\n%s", i, words);
	}
}

/* ------------------------------------------------------------------ attributes */

static void expect_attributes(void)
{
	uint8_t wanted[900], found[1000];
	char name[32];
	uint64_t bytes = 0;

	mount();
	for (uint32_t i = 0; i < 6; i++) {
		snprintf(name, sizeof(name), "user.number %u", i);
		rig_pattern(wanted, i, sizeof(wanted));
		const int rc = op_getxattr(&rig, with_attributes, name, found, sizeof(found), &bytes);
		if (rc < 0 || bytes != sizeof(wanted) || memcmp(wanted, found, sizeof(wanted)) != 0)
			fail_msg("attribute %u is gone:\n%s", i, words);
	}
	unmount();
}

/* A file that the walk meets before or after the owner, whose pointer leads to a page of its chain. */
static void claim_attributes(uint64_t thief, uint64_t page)
{
	restore();
	damage_inode(&rig, thief)->map[1] = g4_ptr_at(page, G4_TAG_4K, G4_PTR_VALID);
	damage_seal(&rig, g4_ptr_offset(thief));
	repair();
	assert_true(is_reported(thief));
	assert_false(is_reported(with_attributes));
	expect_attributes();
}

static void test_attribute_page_as_contents(void **state)
{
	struct g4_xattr_page page;

	(void)state;
	restore();
	const uint64_t first = g4_ptr_offset(damage_inode(&rig, with_attributes)->xattr);
	memcpy(&page, rig.image + first, sizeof(page));
	assert_int_not_equal(page.next, 0);
	claim_attributes(before_it, first);
	claim_attributes(behind_it, first);
	claim_attributes(before_it, g4_ptr_offset(page.next));
	claim_attributes(behind_it, g4_ptr_offset(page.next));
}

/* ------------------------------------------------------------------ slabs that the map calls free */

/* The names of a slab's files go; how many these are. */
static uint32_t drop_names(uint64_t dir, const uint64_t *inos, uint64_t slab)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < FILES; i++) {
		if (slab_of(inos[i]) != slab)
			continue;
		damage_drop_name(&rig, dir, inos[i]);
		count++;
	}
	return count;
}

static void expect_found(const uint64_t *inos, uint64_t slab, uint64_t bytes)
{
	for (uint32_t i = 0; i < FILES; i++) {
		if (slab_of(inos[i]) == slab && !(in_lost_and_found(inos[i]) && has_its_contents(inos[i], bytes)))
			fail_msg("file %u is not in lost+found:\n%s", i, words);
	}
}

static void hide_slab(uint64_t dir, const uint64_t *inos, uint64_t bytes, bool counts)
{
	const uint64_t slab = slab_of(inos[20]);

	restore();
	assert_int_equal(drop_names(dir, inos, slab), G4_SLAB_SLOTS - 1);
	damage_free_page(&rig, slab, counts);
	repair_with(true);
	assert_int_not_equal(fsck.problems, 0); /* nothing that -p may put right */
	repair();
	mount();
	expect_found(inos, slab, bytes);
	expect_removed_stay_removed();
	unmount();
}

static void test_slab_with_contents(void **state)
{
	(void)state;
	hide_slab(paged_dir, paged, G4_PAGE_BYTES, false);
	hide_slab(paged_dir, paged, G4_PAGE_BYTES, true);
}

static void test_slab_without_contents(void **state)
{
	(void)state;
	hide_slab(inline_dir, inlines, INLINE_BYTES, false);
	hide_slab(inline_dir, inlines, INLINE_BYTES, true);
}

/* The names go with their page, which is unreadable; the directory is built anew, and not in the slab's place. */
static void test_slab_and_leaf(void **state)
{
	const uint64_t slab = slab_of(inlines[20]);

	(void)state;
	restore();
	memset(rig.image + g4_ptr_offset(damage_inode(&rig, inline_dir)->map[0]), 0, G4_PAGE_BYTES);
	damage_free_page(&rig, slab, true);
	repair();
	mount();
	expect_found(inlines, slab, INLINE_BYTES);
	expect_found(inlines, slab_of(inlines[5]), INLINE_BYTES);
	expect_removed_stay_removed();
	unmount();
}

/* The counts fit, too; that the slab was written after the map says that it was not freed. */
static void test_slab_newer_than_its_map(void **state)
{
	const uint64_t slab = slab_of(inlines[20]);
	struct g4_attr attr = {.mode = 0600};

	(void)state;
	restore();
	mount();
	for (uint32_t i = 0; i < FILES; i++)
		must(op_setattr(&rig, inlines[i], G4_SET_MODE, &attr));
	unmount();
	const uint32_t names = drop_names(inline_dir, inlines, slab);
	damage_inode(&rig, inline_dir)->entries -= names;
	damage_seal(&rig, g4_ptr_offset(inline_dir));
	damage_inode(&rig, root)->nlink++; /* what makes somebody look */
	damage_seal(&rig, g4_ptr_offset(root));
	damage_free_page(&rig, slab, true);
	repair();
	mount();
	expect_found(inlines, slab, INLINE_BYTES);
	expect_removed_stay_removed();
	unmount();
}

/* A check that looks at free space. */
static uint64_t check_thoroughly(uint32_t threads)
{
	static struct g4_fsck checker;
	struct g4_journal_state journal;
	struct g4_image image;
	char message[512];

	memset(&checker, 0, sizeof(checker));
	checker.out = fopen("/dev/null", "w");
	checker.thorough = true;
	checker.threads = threads;
	must(g4_image_open(&image, rig.name, message, sizeof(message)));
	must(g4_image_load_overlay(&image, &journal));
	must(g4_fsck_run(&checker, &image, &journal));
	fclose(checker.out);
	const uint64_t problems = checker.problems;
	g4_fsck_free(&checker);
	g4_image_close(&image);
	return problems;
}

/* With nothing else wrong at all, only -f looks, and only who is newer than the map is believed. */
static void test_thorough_check(void **state)
{
	struct g4_attr attr = {.mode = 0600};
	const uint64_t slab = slab_of(inlines[20]);

	(void)state;
	restore();
	assert_int_equal(check_thoroughly(1), 0);
	assert_int_equal(check_thoroughly(4), 0);
	mount();
	for (uint32_t i = 0; i < FILES; i++)
		must(op_setattr(&rig, inlines[i], G4_SET_MODE, &attr));
	unmount();
	assert_int_equal(check_thoroughly(1), 0);
	damage_inode(&rig, inline_dir)->entries -= drop_names(inline_dir, inlines, slab);
	damage_seal(&rig, g4_ptr_offset(inline_dir));
	damage_free_page(&rig, slab, true);
	assert_true(check_thoroughly(1) >= G4_SLAB_SLOTS - 1);
	assert_true(check_thoroughly(4) >= G4_SLAB_SLOTS - 1);
}

/* Full slabs have no bit of their own in the map; this one a file claims as its contents. */
static void test_slab_as_contents(void **state)
{
	const uint64_t slab = slab_of(inlines[20]);

	(void)state;
	restore();
	assert_int_equal(drop_names(inline_dir, inlines, slab), G4_SLAB_SLOTS - 1);
	damage_inode(&rig, paged[3])->map[0] = g4_ptr_at(slab, G4_TAG_4K, G4_PTR_VALID);
	damage_seal(&rig, g4_ptr_offset(paged[3]));
	repair();
	assert_true(is_reported(paged[3]));
	mount();
	expect_found(inlines, slab, INLINE_BYTES);
	unmount();
}

/* Damage elsewhere does not bring removed files back. */
static void test_removed_files_stay_removed(void **state)
{
	(void)state;
	restore();
	damage_inode(&rig, inlines[7])->nlink = 3;
	damage_seal(&rig, g4_ptr_offset(inlines[7]));
	damage_drop_name(&rig, paged_dir, paged[7]);
	memset(rig.image + g4_ptr_offset(damage_inode(&rig, attribute_dir)->map[0]), 0, G4_PAGE_BYTES);
	repair();
	mount();
	assert_true(in_lost_and_found(paged[7]));
	assert_true(in_lost_and_found(with_attributes));
	expect_removed_stay_removed();
	unmount();
}

/* ------------------------------------------------------------------ what can not be found any more */

static void free_slot(uint64_t ino)
{
	struct g4_slab_header *slab = (struct g4_slab_header *)(void *)(rig.image + slab_of(ino));

	slab->used &= (g4_le16) ~(1u << g4_ptr_offset(ino) % G4_PAGE_BYTES / G4_SLAB_SLOT_BYTES);
	memset(damage_inode(&rig, ino), 0, sizeof(struct g4_inode));
	damage_seal(&rig, slab_of(ino));
}

/* Name and inode are gone; what still counts the name is the directory. */
static void test_name_and_inode(void **state)
{
	(void)state;
	restore();
	damage_drop_name(&rig, inline_dir, inlines[20]);
	free_slot(inlines[20]);
	repair_with(true);
	assert_int_not_equal(fsck.problems, 0);
	repair();
	assert_int_equal(said(G4_FSCK_LOST), 1);
	assert_non_null(strstr(words, "lost: "));
}

/* A file whose link count is one too high may have lost a second name, or its count is wrong: it proves nothing found. */
static void miscount_links(void)
{
	damage_inode(&rig, paged[3])->nlink++;
	damage_seal(&rig, slab_of(paged[3]));
}

static void test_name_and_inode_beside_a_wrong_link_count(void **state)
{
	(void)state;
	restore();
	damage_drop_name(&rig, inline_dir, inlines[20]);
	free_slot(inlines[20]);
	miscount_links();
	repair();
	assert_int_equal(fsck.lost_files, 1);
	assert_int_equal(said(G4_FSCK_LOST), 1);
}

/* The directory counts as many names more as the slab has inodes: all of them are looked for, though a link seems to be gone. */
static void test_slab_beside_a_wrong_link_count(void **state)
{
	const uint64_t slab = slab_of(inlines[20]);

	(void)state;
	restore();
	assert_int_equal(drop_names(inline_dir, inlines, slab), G4_SLAB_SLOTS - 1);
	damage_free_page(&rig, slab, true);
	miscount_links();
	repair();
	mount();
	expect_found(inlines, slab, INLINE_BYTES);
	expect_removed_stay_removed();
	unmount();
}

/* Nothing but pages that nobody leads to speaks of it. */
static void test_leaked_contents(void **state)
{
	(void)state;
	restore();
	damage_drop_name(&rig, paged_dir, paged[20]);
	damage_inode(&rig, paged_dir)->entries--;
	damage_seal(&rig, g4_ptr_offset(paged_dir));
	free_slot(paged[20]);
	repair();
	assert_true(said(G4_FSCK_DOUBTFUL) + said(G4_FSCK_LOST) > 0);
}

/* The pointer leads to a free page: that the map is wrong is not sure. */
static void test_pointer_to_free_space(void **state)
{
	(void)state;
	restore();
	struct g4_inode *inode = damage_inode(&rig, paged[20]);
	inode->map[0] = g4_ptr_at(40 * G4_MIB, G4_TAG_4K, G4_PTR_VALID);
	damage_seal(&rig, g4_ptr_offset(paged[20]));
	repair();
	assert_true(is_reported(paged[20]));
}

/* A name leads to another file: that one has two and counts one, the other none. */
static void test_name_of_another(void **state)
{
	uint64_t leaf;

	(void)state;
	restore();
	damage_entry(&rig, inline_dir, inlines[20], &leaf)->inode = inlines[30];
	damage_seal(&rig, leaf);
	repair();
	assert_true(is_reported(inlines[30]));
	mount();
	assert_true(in_lost_and_found(inlines[20]));
	unmount();
}

/* An attribute of a directory that its inode leads to no more: the count of pages tells. */
static void test_attributes_of_a_directory(void **state)
{
	(void)state;
	restore();
	mount();
	must(op_setxattr(&rig, inline_dir, "user.note", "a value", 7, 0));
	unmount();
	damage_inode(&rig, inline_dir)->xattr = 0;
	damage_seal(&rig, g4_ptr_offset(inline_dir));
	repair();
	assert_true(is_reported(inline_dir));
}

/* The root block names another directory; the root is the one that is its own parent, where mkfs puts it. */
static void test_root_is_another_directory(void **state)
{
	struct g4_layout layout;

	(void)state;
	restore();
	g4_layout_of((struct g4_superblock *)(void *)(rig.image + G4_SUPERBLOCK_ADDRESS), &layout);
	((struct g4_root *)(void *)(rig.image + layout.root_address))->root_inode = paged_dir;
	damage_seal(&rig, layout.root_address);
	repair();
	mount();
	if (find("inline", "file 20") != inlines[20])
		fail_msg("the wrong directory is the root:\n%s", words);
	assert_int_equal(find("paged", "file 20"), paged[20]);
	unmount();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attribute_page_as_contents),
		cmocka_unit_test(test_slab_with_contents),
		cmocka_unit_test(test_slab_without_contents),
		cmocka_unit_test(test_slab_and_leaf),
		cmocka_unit_test(test_slab_newer_than_its_map),
		cmocka_unit_test(test_thorough_check),
		cmocka_unit_test(test_slab_as_contents),
		cmocka_unit_test(test_removed_files_stay_removed),
		cmocka_unit_test(test_name_and_inode),
		cmocka_unit_test(test_name_and_inode_beside_a_wrong_link_count),
		cmocka_unit_test(test_slab_beside_a_wrong_link_count),
		cmocka_unit_test(test_leaked_contents),
		cmocka_unit_test(test_pointer_to_free_space),
		cmocka_unit_test(test_name_of_another),
		cmocka_unit_test(test_attributes_of_a_directory),
		cmocka_unit_test(test_root_is_another_directory),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
