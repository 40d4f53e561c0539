/* SPDX-License-Identifier: Apache-2.0 */
/* Targets of symbolic links: in the inode or in a page, and what is left of one that never came to be. */
#include "rig.h"

#include "fs/fs.h"
#include "simt/simt_host.h"

static struct rig rig;
static struct g4_wg *wg;
static struct g4_fs *fs;
static char target[G4_PATH_MAX + 1], found[G4_PATH_MAX + 1];

static void mount(const struct g4_fault *fault)
{
	rig.fs = fs = rig_mount_fs(&rig, wg, fault);
	rig.wg = wg;
}

static int setup(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < G4_PATH_MAX; k++)
		target[k] = (char)('a' + k % 23);
	wg = g4_wg_create(0);
	rig_open(&rig, 64 * G4_MIB, 0);
	mount(NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_unmount_fs(&rig, wg, fs, true);
	rig.fs = NULL;
	rig_expect_clean(&rig, RIG_ANY_FREE, "at the end");
	rig_close(&rig);
	g4_wg_destroy(wg);
	return 0;
}

static int make(const char *name, uint32_t bytes, uint64_t *ino)
{
	const char kept = target[bytes];

	target[bytes] = 0;
	const int rc = op_symlink(&rig, G4_NODE_ROOT, name, target, ino);
	target[bytes] = kept;
	return rc;
}

static void expect(uint64_t ino, uint32_t bytes)
{
	struct g4_attr attr;
	uint64_t done;

	assert_int_equal(op_readlink(&rig, ino, found, sizeof(found) - 1, &done), 0);
	assert_int_equal(done, bytes);
	assert_memory_equal(found, target, bytes);
	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	assert_int_equal(attr.size, bytes);
	assert_int_equal(attr.blocks_512, bytes > G4_INLINE_BYTES ? G4_PAGE_BYTES / 512 : 0);
}

static void targets_of_every_length_come_back(void **state)
{
	const uint32_t lengths[] = {1, 2, 127, G4_INLINE_BYTES, G4_INLINE_BYTES + 1, 1000, 2048, G4_PATH_MAX - 1};
	enum { COUNT = sizeof(lengths) / sizeof(lengths[0]) };
	uint64_t ino[COUNT];

	(void)state;
	for (uint32_t k = 0; k < COUNT; k++) {
		const char name[] = {(char)('a' + k), 0};
		assert_int_equal(make(name, lengths[k], &ino[k]), 0);
		expect(ino[k], lengths[k]);
	}
	assert_int_equal(make("long", G4_PATH_MAX, &ino[0]), -G4_E_NAMETOOLONG);
	assert_int_equal(make("none", 0, &ino[0]), -G4_E_NOENT);
	rig_unmount_fs(&rig, wg, fs, true);
	mount(NULL);
	for (uint32_t k = 0; k < COUNT; k++) {
		const char name[] = {(char)('a' + k), 0};
		struct g4_attr attr;
		assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, name, &attr), 0);
		expect(attr.ino, lengths[k]);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
	}
}

/* After an error of the device, and where the name is there already, the page is free again. */
static void a_link_that_never_came_to_be_leaves_no_page(void **state)
{
	struct g4_fault fault;
	uint64_t ino;

	(void)state;
	assert_int_equal(make("link", 1000, &ino), 0);
	assert_int_equal(op_sync(&rig), 0);
	const uint64_t free_pages = fs->alloc.free_pages;
	assert_int_equal(make("link", 1000, &ino), -G4_E_EXIST);
	assert_int_equal(fs->alloc.free_pages, free_pages);
	rig_unmount_fs(&rig, wg, fs, true);

	memset(&fault, 0, sizeof(fault));
	mount(&fault);
	assert_int_equal(make("other", 1000, &ino), 0);
	assert_int_equal(op_sync(&rig), 0);
	const uint64_t before = fs->alloc.free_pages;
	fault.fail_write_at = 1;
	g4_dev_fault_set(rig.dev, &fault);
	assert_int_equal(make("third", 1000, &ino), -G4_E_IO);
	assert_int_equal(fs->alloc.free_pages, before);
	assert_int_equal(make("third", 1000, &ino), 0); /* it failed once */
	expect(ino, 1000);
}

#define symlink_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		symlink_test(targets_of_every_length_come_back),
		symlink_test(a_link_that_never_came_to_be_leaves_no_page),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
