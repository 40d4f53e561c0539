/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies: what a file or its directory says about sums holds for what is written from then on; who may say it; and the feature is on
 * disk before anything needs it.
 */
#include "rig.h"

#include "data/map.h"
#include "format/sums.h"
#include "fs/cred.h"
#include "inode/icache.h"
#include "simt/simt_host.h"

#define PAGES 40u
static struct rig rig;
static uint8_t pattern[PAGES * G4_PAGE_BYTES], found[PAGES * G4_PAGE_BYTES];

static void begin(uint32_t checksum)
{
	rig_open_as(&rig, checksum, RIG_AS_SET, 64 * G4_MIB, 2 * G4_MIB);
	rig.wg = g4_wg_create(0);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
	rig_pattern(pattern, 5, sizeof(pattern));
}

static int setup_without(void **state)
{
	(void)state;
	begin(G4_CHECKSUM_NONE);
	return 0;
}

static int setup_with(void **state)
{
	(void)state;
	begin(G4_CHECKSUM_BLAKE3);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (rig.fs)
		rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig_expect_clean(&rig, RIG_ANY_FREE, "at the end");
	g4_wg_destroy(rig.wg);
	rig_close(&rig);
	return 0;
}

static void again(void)
{
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
}

static uint64_t make(uint64_t dir, const char *name)
{
	uint64_t ino;

	assert_int_equal(op_mknod(&rig, dir, name, G4_S_IFREG | 0644, &ino), 0);
	return ino;
}

static int set(uint64_t ino, const char *checksum)
{
	return op_setxattr(&rig, ino, "gpu4fs.checksum", checksum, strlen(checksum), 0);
}

static void expect_set(uint64_t ino, const char *checksum)
{
	char text[32] = "";
	uint64_t bytes;

	assert_int_equal(op_getxattr(&rig, ino, "gpu4fs.checksum", text, sizeof(text) - 1, &bytes), 0);
	assert_int_equal(bytes, strlen(checksum));
	assert_string_equal(text, checksum);
}

static void put(uint64_t ino, uint64_t page, uint64_t pages)
{
	const uint64_t at = page * G4_PAGE_BYTES;

	assert_int_equal(op_write(&rig, ino, 0, at, pattern + at, pages * G4_PAGE_BYTES, NULL), 0);
	assert_int_equal(op_fsync(&rig, ino), 0);
}

static void expect_contents(uint64_t ino, uint64_t pages)
{
	for (uint64_t page = 0; page < pages; page++)
		assert_int_equal(op_read(&rig, ino, 0, page * G4_PAGE_BYTES, found + page * G4_PAGE_BYTES,
					 G4_PAGE_BYTES, NULL),
				 0);
	assert_memory_equal(found, pattern, pages * G4_PAGE_BYTES);
}

/* What the page on the device has a sum by. */
static uint32_t sum_of(uint64_t ino, uint64_t page)
{
	struct g4_sum_entry sum;
	uint32_t index;

	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	assert_int_equal(g4_map_sums(rig.wg, rig.fs, g4_icache_at(rig.fs, index), page, 1, &sum), 0);
	g4_icache_put(rig.fs, index);
	return g4_sum_entry_algorithm(&sum);
}

static uint64_t features(uint64_t address)
{
	return ((const struct g4_superblock *)(const void *)(rig.image + address))->features_incompat &
	       G4_FEATURE_INCOMPAT_SUMS;
}

static void an_image_without_sums_is_given_them(void **state)
{
	const uint64_t ino = make(G4_NODE_ROOT, "f"), other = make(G4_NODE_ROOT, "other");

	(void)state;
	put(ino, 0, 20);
	expect_set(ino, "default");
	assert_int_equal(features(G4_SUPERBLOCK_ADDRESS), 0);
	assert_int_equal(set(ino, "blake3"), 0);
	assert_int_not_equal(features(G4_SUPERBLOCK_ADDRESS), 0); /* before anything was committed */
	assert_int_not_equal(features(rig.bytes - G4_PAGE_BYTES), 0);
	expect_set(ino, "blake3");
	put(ino, 10, 20);
	put(other, 0, 20);
	again();
	expect_set(ino, "blake3");
	for (uint64_t page = 0; page < 30; page++)
		assert_int_equal(sum_of(ino, page), page < 10 ? G4_CHECKSUM_NONE : G4_CHECKSUM_BLAKE3);
	assert_int_equal(sum_of(other, 5), G4_CHECKSUM_NONE);
	expect_contents(ino, 30);
}

static void a_change_holds_for_what_is_written_then(void **state)
{
	static const char *const names[] = {"blake3", "xxh3", "none", "crc32c", "default"};
	static const uint32_t numbers[] = {G4_CHECKSUM_BLAKE3, G4_CHECKSUM_XXH3, G4_CHECKSUM_NONE, G4_CHECKSUM_CRC32C,
					   G4_CHECKSUM_BLAKE3};
	const uint64_t ino = make(G4_NODE_ROOT, "f");

	(void)state;
	for (uint32_t i = 0; i < 5; i++) {
		/* what is dirty belongs to the policy before */
		assert_int_equal(set(ino, names[i]), 0);
		assert_int_equal(op_write(&rig, ino, 0, i * 8 * G4_PAGE_BYTES, pattern + i * 8 * G4_PAGE_BYTES,
					  8 * G4_PAGE_BYTES, NULL),
				 0);
	}
	assert_int_equal(op_removexattr(&rig, ino, "gpu4fs.checksum"), 0);
	expect_set(ino, "default");
	again();
	for (uint64_t page = 0; page < PAGES; page++)
		assert_int_equal(sum_of(ino, page), numbers[page / 8]);
	expect_contents(ino, PAGES);
	/* over what has sums, without: they are gone, too */
	assert_int_equal(set(ino, "none"), 0);
	put(ino, 0, 4);
	again();
	assert_int_equal(sum_of(ino, 3), G4_CHECKSUM_NONE);
	assert_int_equal(sum_of(ino, 4), G4_CHECKSUM_BLAKE3);
	expect_contents(ino, PAGES);
}

static void what_is_made_inherits_it(void **state)
{
	uint64_t dir, sub, ino, link, temporary, handle;
	char target[300];

	(void)state;
	memset(target, 'x', sizeof(target) - 1);
	target[sizeof(target) - 1] = 0;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	expect_set(dir, "default");
	assert_int_equal(set(dir, "xxh3"), 0);
	assert_int_equal(op_mkdir(&rig, dir, "sub", 0755, &sub), 0);
	expect_set(sub, "xxh3");
	ino = make(sub, "f");
	expect_set(ino, "xxh3");
	assert_int_equal(op_symlink(&rig, sub, "link", target, &link), 0);
	assert_int_equal(op_tmpfile(&rig, sub, &temporary, &handle), 0);
	expect_set(temporary, "xxh3");
	assert_int_equal(op_release(&rig, handle), 0);
	put(ino, 0, 2);
	again();
	assert_int_equal(sum_of(ino, 1), G4_CHECKSUM_XXH3);
	assert_int_equal(sum_of(link, 0), G4_CHECKSUM_XXH3);
	/* a name somewhere else changes nothing */
	assert_int_equal(op_rename(&rig, sub, "f", G4_NODE_ROOT, "f", 0), 0);
	expect_set(ino, "xxh3");
}

static uint64_t domain_of(uint64_t ino)
{
	char text[12] = "";
	uint64_t bytes;

	assert_int_equal(op_getxattr(&rig, ino, "gpu4fs.domain", text, sizeof(text) - 1, &bytes), 0);
	text[bytes] = 0;
	return strtoull(text, NULL, 10);
}

/* Which domain a file is of is told to anybody, and set by nobody. */
static void its_domain_has_a_number(void **state)
{
	const char *const names[] = {"d1", "d2"};
	uint64_t dirs[2], inside[2];

	(void)state;
	const uint64_t outside = make(G4_NODE_ROOT, "f");
	assert_int_equal(domain_of(outside), 0);
	for (uint32_t n = 0; n < 2; n++) {
		assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, names[n], 0755, &dirs[n]), 0);
		assert_int_equal(op_setxattr(&rig, dirs[n], "gpu4fs.dedup", "domain", 6, 0), 0);
		inside[n] = make(dirs[n], "f");
		assert_int_equal(domain_of(inside[n]), domain_of(dirs[n]));
		assert_int_not_equal(domain_of(dirs[n]), 0);
	}
	assert_int_not_equal(domain_of(dirs[0]), domain_of(dirs[1]));
	assert_int_equal(op_setxattr(&rig, outside, "gpu4fs.domain", "1", 1, 0), -G4_E_PERM);
	assert_int_equal(op_removexattr(&rig, inside[0], "gpu4fs.domain"), -G4_E_PERM);
	assert_int_equal(op_setxattr(&rig, inside[0], "gpu4fs.dedup", "on", 2, 0), 0);
	assert_int_equal(domain_of(inside[0]), 0);
}

static void its_owner_sets_it(void **state)
{
	const struct g4_cred owner = {.uid = 1000, .gid = 1000}, other = {.uid = 1001, .gid = 1000};
	const uint64_t ino = make(G4_NODE_ROOT, "f");
	struct g4_attr attr = {.uid = 1000, .gid = 1000, .mode = 0666};
	uint64_t fifo, bytes;
	char text[8];

	(void)state;
	assert_int_equal(op_setattr(&rig, ino, G4_SET_UID | G4_SET_GID | G4_SET_MODE, &attr), 0);
	rig.cred = &other;
	assert_int_equal(set(ino, "none"), -G4_E_PERM);
	assert_int_equal(op_removexattr(&rig, ino, "gpu4fs.checksum"), -G4_E_PERM);
	expect_set(ino, "default");
	rig.cred = &owner;
	assert_int_equal(set(ino, "none"), 0);
	expect_set(ino, "none");
	assert_int_equal(set(ino, "md5"), -G4_E_INVAL);
	assert_int_equal(set(ino, "blake"), -G4_E_INVAL);
	assert_int_equal(set(ino, ""), -G4_E_INVAL);
	assert_int_equal(op_setxattr(&rig, ino, "gpu4fs.checksum", "none", 4, G4_XATTR_CREATE), -G4_E_EXIST);
	assert_int_equal(op_setxattr(&rig, ino, "gpu4fs.checksums", "none", 4, 0), -G4_E_NOTSUP);
	assert_int_equal(op_getxattr(&rig, ino, "gpu4fs.checksum", NULL, 0, &bytes), 0);
	assert_int_equal(bytes, 4);
	assert_int_equal(op_getxattr(&rig, ino, "gpu4fs.checksum", text, 3, &bytes), -G4_E_RANGE);
	assert_int_equal(op_listxattr(&rig, ino, text, sizeof(text), &bytes), 0);
	assert_int_equal(bytes, 0);
	rig.cred = NULL;
	assert_int_equal(set(ino, "default"), 0);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "fifo", G4_S_IFIFO | 0644, &fifo), 0);
	assert_int_equal(set(fifo, "none"), -G4_E_NOTSUP);
	attr.flags = G4_INODE_IMMUTABLE;
	assert_int_equal(op_setattr(&rig, ino, G4_SET_FLAGS, &attr), 0);
	assert_int_equal(set(ino, "none"), -G4_E_PERM);
}

/* Each write of setting it fails or is the last: the policy is set or not, and never without the feature. */
static void no_policy_without_the_feature(void **state)
{
	bool done = false;

	(void)state;
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	g4_wg_destroy(rig.wg);
	for (uint64_t cut = 1; !done; cut++) {
		struct g4_fault fault = {0};
		uint64_t ino, bytes;
		char text[16] = "";
		rig_close(&rig);
		rig_open_as(&rig, G4_CHECKSUM_NONE, RIG_AS_SET, 64 * G4_MIB, 2 * G4_MIB);
		struct g4_wg *wg = g4_wg_create(0);
		rig.wg = wg;
		rig.fs = rig_mount_fs(&rig, wg, &fault);
		ino = make(G4_NODE_ROOT, "f");
		assert_int_equal(op_sync(&rig), 0);
		fault.cut_after_writes = cut;
		g4_dev_fault_set(rig.dev, &fault);
		int rc = set(ino, "crc32c");
		rc = rc < 0 ? rc : op_fsync(&rig, ino);
		done = rc == 0 && cut > 3;
		rig_unmount_fs(&rig, wg, rig.fs, false);
		rig.fs = rig_mount_fs(&rig, wg, NULL);
		assert_int_equal(op_getxattr(&rig, ino, "gpu4fs.checksum", text, sizeof(text) - 1, &bytes), 0);
		if (rc == 0)
			assert_string_equal(text, "crc32c");
		if (strcmp(text, "default") != 0)
			assert_int_not_equal(features(G4_SUPERBLOCK_ADDRESS), 0);
		rig_unmount_fs(&rig, wg, rig.fs, true);
		rig_expect_clean(&rig, RIG_ANY_FREE, "after a cut");
		if (!done)
			g4_wg_destroy(wg);
	}
	rig.fs = NULL;
}

static void poke(uint64_t ino, uint32_t policy)
{
	struct g4_slab_header *slab =
		(struct g4_slab_header *)(void *)(rig.image + g4_align_down(g4_ptr_offset(ino), G4_PAGE_BYTES));
	struct g4_superblock sb;

	((struct g4_inode *)(void *)(rig.image + g4_ptr_offset(ino)))->policy = policy;
	memcpy(&sb, rig.image + G4_SUPERBLOCK_ADDRESS, sizeof(sb));
	g4_block_seal(slab, G4_BLOCK_SLAB, g4_address_from(slab->header.address), slab->header.generation,
		      g4_superblock_tag(&sb));
}

static void an_unknown_policy_is_read_and_not_written(void **state)
{
	static const uint32_t unknown[] = {6, 15, 0x40, 0x800, 0x1000, 0x80000002u};
	const uint64_t ino = make(G4_NODE_ROOT, "f");

	(void)state;
	put(ino, 0, 20);
	for (uint32_t i = 0; i < 5; i++) {
		struct rig_repair how = {0};
		rig_unmount_fs(&rig, rig.wg, rig.fs, true);
		poke(ino, unknown[i]);
		rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
		expect_contents(ino, 20);
		assert_int_equal(op_write(&rig, ino, 0, 0, "x", 1, NULL), -G4_E_POLICY);
		assert_int_equal(op_write(&rig, ino, 0, 0, pattern, sizeof(pattern), NULL), -G4_E_POLICY);
		assert_int_equal(op_truncate(&rig, ino, 100), -G4_E_POLICY);
		expect_contents(ino, 20);
		assert_int_equal(rig.fs->journal.aborted, 0);
		rig_unmount_fs(&rig, rig.wg, rig.fs, true);
		rig.fs = NULL;
		assert_int_equal(rig_repair(&rig, &how), 0);
		assert_int_equal(how.found, 1);
		free(how.text);
		rig_expect_clean(&rig, RIG_ANY_FREE, "after the repair");
		rig.fs = rig_mount_fs(&rig, rig.wg, NULL);
		expect_set(ino, "default");
		put(ino, 0, 20);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_image_without_sums_is_given_them, setup_without, teardown),
		cmocka_unit_test_setup_teardown(a_change_holds_for_what_is_written_then, setup_with, teardown),
		cmocka_unit_test_setup_teardown(what_is_made_inherits_it, setup_with, teardown),
		cmocka_unit_test_setup_teardown(its_domain_has_a_number, setup_with, teardown),
		cmocka_unit_test_setup_teardown(its_owner_sets_it, setup_with, teardown),
		cmocka_unit_test_setup_teardown(no_policy_without_the_feature, setup_without, teardown),
		cmocka_unit_test_setup_teardown(an_unknown_policy_is_read_and_not_written, setup_with, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
