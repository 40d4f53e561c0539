/* SPDX-License-Identifier: Apache-2.0 */
/* New inodes: whose they are and what they may, and that nothing is left of one that could not get its name. */
#include "files/files.h"

#define ROOT G4_NODE_ROOT

static void a_new_inode_is_its_makers_less_the_umask(void **state)
{
	const struct g4_cred cred = {.uid = 7, .gid = 8, .umask = 022};
	struct g4_attr attr = {.mode = 0777};
	uint64_t dir, ino;

	(void)state;
	assert_int_equal(op_mkdir(&rig, ROOT, "d", 0777, &dir), 0);
	assert_int_equal(op_setattr(&rig, dir, G4_SET_MODE, &attr), 0);
	rig.cred = &cred;
	assert_int_equal(op_mknod(&rig, dir, "f", 0666 | 0100000, &ino), 0);
	rig.cred = NULL;
	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	assert_int_equal(attr.uid, 7);
	assert_int_equal(attr.gid, 8);
	assert_int_equal(attr.mode & 07777, 0644);
	assert_int_equal(attr.nlink, 1);
}

static void a_directory_with_set_gid_gives_its_group(void **state)
{
	struct g4_attr attr = {.mode = 02777, .gid = 99};
	uint64_t dir, below;

	(void)state;
	assert_int_equal(op_mkdir(&rig, ROOT, "d", 0777, &dir), 0);
	assert_int_equal(op_setattr(&rig, dir, G4_SET_MODE | G4_SET_GID, &attr), 0);
	attr.mode = 02777;
	assert_int_equal(op_setattr(&rig, dir, G4_SET_MODE, &attr), 0);
	assert_int_equal(op_mkdir(&rig, dir, "below", 0755, &below), 0);
	assert_int_equal(op_getattr(&rig, below, &attr), 0);
	assert_int_equal(attr.gid, 99);
	assert_int_equal(attr.mode & 02000, 02000);
	assert_int_equal(attr.nlink, 2);
}

static void a_name_that_is_there_leaves_nothing_behind(void **state)
{
	uint64_t ino;

	(void)state;
	assert_int_equal(op_mknod(&rig, ROOT, "f", 0100644, &ino), 0);
	assert_int_equal(op_sync(&rig), 0);
	const uint64_t free_pages = fs->alloc.free_pages;
	for (uint32_t i = 0; i < 40; i++) {
		assert_int_equal(op_mknod(&rig, ROOT, "f", 0100644, &ino), -G4_E_EXIST);
		assert_int_equal(op_mkdir(&rig, ROOT, "f", 0755, &ino), -G4_E_EXIST);
		assert_int_equal(op_symlink(&rig, ROOT, "f", "target", &ino), -G4_E_EXIST);
	}
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(fs->alloc.free_pages, free_pages);
}

/* Names so long that a leaf has few, until one more divides it; the name of that one. */
static void fill_leaf(uint64_t dir, const struct g4_inode_core *inode, char name[G4_NAME_MAX + 1])
{
	const struct g4_dir pages = g4_dir_of(fs, inode);
	struct g4_dir_slot slot;
	uint64_t ino;

	memset(name, 'n', G4_NAME_MAX);
	name[G4_NAME_MAX] = 0;
	for (uint32_t k = 0;; k++) {
		snprintf(name, G4_NAME_MAX + 1, "%03u", k);
		name[3] = 'n';
		slot.line = G4_NO_LINE;
		if (inode->disk.pages > 0 && g4_dir_lookup(wg, &pages, name, G4_NAME_MAX, &slot) == -G4_E_NOENT &&
		    g4_dir_insert_credits(&slot, G4_NAME_MAX) > 1)
			return;
		assert_int_equal(op_mknod(&rig, dir, name, 0100644, &ino), 0);
		assert_int_equal(inode->disk.pages, 1);
	}
}

/* A leaf is divided for a name that is going to be made, and for no other. */
static void a_full_leaf_is_divided_for_who_may_make_the_name(void **state)
{
	const struct g4_cred other = {.uid = 7, .gid = 8};
	char name[G4_NAME_MAX + 1], there[G4_NAME_MAX + 1];
	uint64_t dir, ino;
	uint32_t index, line;

	(void)state;
	assert_int_equal(op_mkdir(&rig, ROOT, "d", 0755, &dir), 0);
	assert_int_equal(g4_icache_get(wg, fs, dir, &index), 0);
	const struct g4_inode_core *inode = g4_icache_at(fs, index);
	assert_int_equal(op_mknod(&rig, dir, "first", 0100644, &ino), 0);
	fill_leaf(dir, inode, name);
	const uint32_t entries = inode->disk.entries;

	memcpy(there, name, sizeof(there));
	memcpy(there, "000", 3);
	assert_int_equal(op_mknod(&rig, dir, there, 0100644, &ino), -G4_E_EXIST);
	rig.cred = &other;
	assert_int_equal(op_mknod(&rig, dir, name, 0100644, &ino), -G4_E_ACCES);
	rig.cred = NULL;
	assert_int_equal(inode->disk.pages, 1);
	assert_int_equal(inode->disk.entries, entries);

	assert_int_equal(op_mknod(&rig, dir, name, 0100644, &ino), 0);
	assert_int_equal(inode->disk.pages, 3);
	assert_int_equal(inode->disk.entries, entries + 1);
	const struct g4_address page = g4_address_page_start(g4_ptr_address(dir));
	assert_int_equal(g4_meta_get(wg, &fs->meta, page, G4_BLOCK_SLAB, &line), 0);
	assert_memory_equal((uint8_t *)g4_line_data(&fs->cache, line) +
				    g4_slab_slot_of(g4_ptr_address(dir)) * G4_SLAB_SLOT_BYTES,
			    &inode->disk, sizeof(inode->disk));
	g4_cache_put(&fs->cache, line);
	g4_icache_put(fs, index);
}

RUN_TESTS(fs_test(a_new_inode_is_its_makers_less_the_umask), fs_test(a_directory_with_set_gid_gives_its_group),
	  fs_test(a_name_that_is_there_leaves_nothing_behind),
	  fs_test(a_full_leaf_is_divided_for_who_may_make_the_name))
