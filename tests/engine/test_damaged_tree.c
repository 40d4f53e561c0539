/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images whose directories lead where no directory can: every page is well-formed and carries a right checksum, and
 * still the engine must neither hang on its own locks nor walk for ever. A test that hangs is ended by its alarm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka needs its own four first */
#include <cmocka.h>

#include <unistd.h>

#include "dev/dev_host.h"
#include "fs/mkfs_host.h"
#include "fs/mount_host.h"
#include "simt/simt_host.h"

#define DEADLINE_S 600

static struct g4_wg *wg;
static struct g4_dev *dev;
static struct g4_superblock sb;
static const struct g4_cred root = {.umask = 022};

static struct g4_fs *mount(void)
{
	struct g4_fs_options options = {.cache_bytes = 8 * G4_MIB};
	struct g4_fs *fs;
	char message[256];

	assert_int_equal(g4_fs_mount(wg, dev, &options, &fs, message, sizeof(message)), 0);
	return fs;
}

static int on_name(struct g4_fs *fs, uint32_t op, uint64_t node, const char *name, uint64_t *ino)
{
	struct g4_attr attr = {0};
	struct g4_cmd cmd = {.op = op,
			     .node = node,
			     .name = name,
			     .name_bytes = (uint16_t)strlen(name),
			     .mode = 0755,
			     .attr = op == G4_CMD_RMDIR || op == G4_CMD_UNLINK ? NULL : &attr,
			     .cred = &root};
	int rc = g4_execute(wg, fs, &cmd);

	if (ino)
		*ino = attr.ino;
	return rc;
}

static int list(struct g4_fs *fs, uint64_t node)
{
	uint64_t data[512];
	struct g4_cmd cmd = {
		.op = G4_CMD_READDIR, .node = node, .flags = G4_READDIR_PLUS, .data = data, .length = sizeof(data)};
	return g4_execute(wg, fs, &cmd);
}

/* The page at an address of the unmounted image, and its new checksum after a change. */
static void *page_at(uint64_t address)
{
	return g4_dev_map(dev, address);
}

static void seal(uint64_t address)
{
	const struct g4_block_header *header = page_at(address);
	g4_block_seal(page_at(address), header->type, g4_address_from(address), header->generation, header->fs_tag);
}

static struct g4_inode *inode_at(uint64_t ino)
{
	return page_at(g4_ptr_offset(ino));
}

/* The only entry of a directory. */
static struct g4_dir_entry *entry_of(uint64_t ino, uint64_t *leaf)
{
	*leaf = g4_ptr_offset(inode_at(ino)->map[0]);
	return (struct g4_dir_entry *)(void *)((struct g4_dir_leaf *)page_at(*leaf))->units;
}

/* "/a/b", unmounted. */
static int setup(void **state)
{
	struct g4_dev_open_options open = {0};
	struct g4_mkfs_options options = {0};
	char message[256];
	uint64_t a;

	(void)state;
	alarm(DEADLINE_S);
	wg = g4_wg_create(0);
	assert_non_null(wg);
	assert_int_equal(g4_dev_open("mem:64M", &open, &dev, message, sizeof(message)), 0);
	assert_int_equal(g4_mkfs(dev, &options, &sb, message, sizeof(message)), 0);
	struct g4_fs *fs = mount();
	assert_int_equal(on_name(fs, G4_CMD_MKDIR, G4_NODE_ROOT, "a", &a), 0);
	assert_int_equal(on_name(fs, G4_CMD_MKDIR, a, "b", NULL), 0);
	assert_int_equal(g4_fs_unmount(wg, fs, true), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	alarm(0);
	g4_dev_close(dev);
	g4_wg_destroy(wg);
	return 0;
}

static uint64_t root_ino(void)
{
	return ((const struct g4_root *)page_at(sb.root_address))->root_inode;
}

/* /a/b/c is /a, which says so too: nothing but the walk itself can tell. */
static void a_tree_to_clear_that_is_below_itself(void **state)
{
	uint64_t leaf, a, b;
	const struct g4_cred *cred = &root;

	(void)state;
	struct g4_fs *fs = mount();
	assert_int_equal(on_name(fs, G4_CMD_LOOKUP, G4_NODE_ROOT, "a", &a), 0);
	assert_int_equal(on_name(fs, G4_CMD_LOOKUP, a, "b", &b), 0);
	assert_int_equal(on_name(fs, G4_CMD_MKDIR, b, "c", NULL), 0);
	assert_int_equal(g4_fs_unmount(wg, fs, true), 0);
	entry_of(b, &leaf)->inode = a;
	seal(leaf);
	inode_at(a)->parent = b;
	seal(g4_align_down(g4_ptr_offset(a), G4_PAGE_BYTES));
	fs = mount();
	struct g4_cmd cmd = {.op = G4_CMD_CLEAR, .node = a, .length = 100, .cred = cred};
	/* Users who move directories meanwhile can make it look the same, and that stops nobody else's file system. */
	assert_int_equal(g4_execute(wg, fs, &cmd), -G4_E_NOTEMPTY);
	assert_int_equal(cmd.value, 0);
	assert_int_equal(on_name(fs, G4_CMD_MKDIR, b, "d", NULL), 0);
	g4_fs_unmount(wg, fs, false);
}

/*
 * /a/b counts names and has none, as one is left whose leaf another directory has, too, and cleared. It can not go, and is met again and again: that is
 * said at once, not after all tries.
 */
static void a_directory_to_clear_that_counts_names_it_does_not_have(void **state)
{
	uint64_t a, b;

	(void)state;
	struct g4_fs *fs = mount();
	assert_int_equal(on_name(fs, G4_CMD_LOOKUP, G4_NODE_ROOT, "a", &a), 0);
	assert_int_equal(on_name(fs, G4_CMD_LOOKUP, a, "b", &b), 0);
	assert_int_equal(g4_fs_unmount(wg, fs, true), 0);
	inode_at(b)->entries = 3;
	seal(g4_align_down(g4_ptr_offset(b), G4_PAGE_BYTES));
	fs = mount();
	struct g4_cmd cmd = {.op = G4_CMD_CLEAR, .node = a, .length = 100, .cred = &root};
	assert_int_equal(g4_execute(wg, fs, &cmd), -G4_E_CORRUPT_DIR);
	assert_int_equal(cmd.value, 0);
	g4_fs_unmount(wg, fs, false);
}

static void a_name_that_leads_to_its_own_directory(void **state)
{
	uint64_t leaf;
	struct g4_dir_entry *entry = entry_of(root_ino(), &leaf);

	(void)state;
	entry->inode = root_ino();
	seal(leaf);
	struct g4_fs *fs = mount();
	assert_int_equal(on_name(fs, G4_CMD_RMDIR, G4_NODE_ROOT, "a", NULL), -G4_E_CORRUPT_DIR);
	assert_int_equal(list(fs, G4_NODE_ROOT), -G4_E_CORRUPT_DIR);
	g4_fs_unmount(wg, fs, false);
}

static void a_name_that_leads_to_the_directory_above(void **state)
{
	uint64_t leaf, a;

	(void)state;
	a = entry_of(root_ino(), &leaf)->inode;
	entry_of(a, &leaf)->inode = root_ino();
	seal(leaf);
	struct g4_fs *fs = mount();
	struct g4_cmd rename = {.op = G4_CMD_RENAME,
				.node = a,
				.name = "b",
				.name_bytes = 1,
				.node2 = G4_NODE_ROOT,
				.name2 = "c",
				.name2_bytes = 1,
				.cred = &root};
	assert_int_equal(g4_execute(wg, fs, &rename), -G4_E_CORRUPT_DIR);
	assert_int_equal(list(fs, a), -G4_E_CORRUPT_DIR);
	g4_fs_unmount(wg, fs, false);
}

/* An inode has more names than links: when those are gone it is, and what is left leads to nothing, wherever it was remembered. */
static void a_name_that_is_left_of_a_freed_inode(void **state)
{
	uint64_t leaf, a = entry_of(root_ino(), &leaf)->inode, x;

	(void)state;
	struct g4_fs *fs = mount();
	struct g4_cmd link = {.op = G4_CMD_LINK, .node2 = a, .name2 = "y", .name2_bytes = 1, .cred = &root};
	assert_int_equal(on_name(fs, G4_CMD_MKNOD, a, "x", &x), 0);
	link.node = x;
	assert_int_equal(g4_execute(wg, fs, &link), 0);
	assert_int_equal(g4_fs_unmount(wg, fs, true), 0);
	assert_int_equal(inode_at(x)->nlink, 2);
	inode_at(x)->nlink = 1;
	seal(g4_align_down(g4_ptr_offset(x), G4_PAGE_BYTES));
	fs = mount();
	assert_int_equal(on_name(fs, G4_CMD_LOOKUP, a, "y", NULL), 0);
	assert_int_equal(on_name(fs, G4_CMD_UNLINK, a, "x", NULL), 0);
	assert_int_equal(on_name(fs, G4_CMD_LOOKUP, a, "y", NULL), -G4_E_CORRUPT_INODE);
	assert_int_equal(list(fs, a), -G4_E_CORRUPT_DIR);
	g4_fs_unmount(wg, fs, false);
}

/* The directory is empty by its own account, so that removing it frees its pages: an index page that is its own child. */
static void an_index_page_that_is_its_own_child(void **state)
{
	uint64_t leaf, a = entry_of(root_ino(), &leaf)->inode;

	(void)state;
	(void)entry_of(a, &leaf);
	struct g4_dir_index *index = page_at(leaf);
	index->header.type = G4_BLOCK_DIR_INDEX;
	memset(&index->count, 0, sizeof(*index) - sizeof(index->header));
	index->count = 1;
	index->level = 1;
	index->entries[0].page = leaf;
	seal(leaf);
	inode_at(a)->entries = 0;
	seal(g4_align_down(g4_ptr_offset(a), G4_PAGE_BYTES));
	struct g4_fs *fs = mount();
	assert_int_equal(on_name(fs, G4_CMD_RMDIR, G4_NODE_ROOT, "a", NULL), -G4_E_CORRUPT_DIR);
	g4_fs_unmount(wg, fs, false);
}

/* On the orphan list with a name: what recovery takes for an unfinished truncation would free the directory's page. */
static void a_directory_that_is_to_shrink(void **state)
{
	struct g4_fs_options options = {.cache_bytes = 8 * G4_MIB};
	uint64_t leaf, a = entry_of(root_ino(), &leaf)->inode;
	struct g4_root *block = page_at(sb.root_address);
	struct g4_fs *fs;
	char message[256];

	(void)state;
	(void)entry_of(a, &leaf);
	inode_at(a)->flags |= G4_INODE_ORPHAN;
	seal(g4_align_down(g4_ptr_offset(a), G4_PAGE_BYTES));
	block->orphan_head = a;
	seal(sb.root_address);
	assert_int_equal(g4_fs_mount(wg, dev, &options, &fs, message, sizeof(message)), -G4_E_CORRUPT_INODE);
	assert_int_equal(((struct g4_dir_leaf *)page_at(leaf))->header.type, G4_BLOCK_DIR_LEAF);
	assert_int_equal(g4_ptr_offset(inode_at(a)->map[0]), leaf);
}

/* ------------------------------------------------------------------ a full leaf */

#define LONG 250u
#define LEAVES 251u /* to which a page leads: one less than it can */

/* A name of LONG bytes. */
static const char *long_name(uint32_t number)
{
	static char name[LONG + 1];

	memset(name, 'n', LONG);
	for (uint32_t digit = 0; digit < 8; digit++)
		name[digit] = (char)('a' + (number >> 4 * digit & 15));
	return name;
}

static int make_symlink(struct g4_fs *fs, uint64_t node, const char *name)
{
	struct g4_attr attr = {0};
	struct g4_cmd cmd = {.op = G4_CMD_SYMLINK,
			     .node = node,
			     .name = name,
			     .name_bytes = (uint16_t)strlen(name),
			     .name2 = "target",
			     .name2_bytes = 6,
			     .attr = &attr,
			     .cred = &root};

	return g4_execute(wg, fs, &cmd);
}

/* Fills up a leaf with entries of two units for a hash, to `end`. */
static uint32_t put_entries(struct g4_dir_leaf *leaf, uint32_t unit, uint32_t end, uint64_t ino, uint32_t hash)
{
	for (uint16_t collision = 0; unit < end; unit += 2) {
		uint8_t *at = (uint8_t *)leaf + unit * G4_DIR_UNIT_BYTES;
		struct g4_dir_entry *entry = (struct g4_dir_entry *)(void *)at;

		*entry = (struct g4_dir_entry){ino, hash, collision++, G4_DIR_UNIT_BYTES, 8};
		memset(entry + 1, 'x', G4_DIR_UNIT_BYTES);
		for (uint32_t k = unit; k < unit + 2; k++)
			leaf->used[k / 64] |= UINT64_C(1) << k % 64;
	}
	return unit;
}

/*
 * The hash of a name that is to be made has nearly all of its leaf, a few are below and a few above, and the page above has room for one
 * more: no cut between two hashes gives the name room. So it is cut within that hash, which needs the feature.
 */
static void a_leaf_that_no_cut_between_hashes_helps(void **state)
{
	uint64_t unused, a = entry_of(root_ino(), &unused)->inode, file;
	const char *name = NULL;
	uint32_t hash = 0, number = 0;

	(void)state;
	struct g4_fs *fs = mount();
	assert_int_equal(on_name(fs, G4_CMD_MKNOD, G4_NODE_ROOT, "f", &file), 0);
	for (; number < 20; number++) /* more than a leaf has room for */
		assert_int_equal(on_name(fs, G4_CMD_MKNOD, a, long_name(number), NULL), 0);
	for (; number < 1000 && (hash < 1000 || hash > UINT32_MAX / 2); number++) {
		name = long_name(number);
		hash = g4_dir_hash(fs->hash_key, name, LONG);
	}
	assert_in_range(hash, 1000, UINT32_MAX / 2);
	assert_int_equal(g4_fs_unmount(wg, fs, true), 0);

	const uint64_t above = g4_ptr_offset(inode_at(a)->map[0]);
	struct g4_dir_index *index = page_at(above);
	assert_int_equal(index->header.type, G4_BLOCK_DIR_INDEX);
	assert_int_equal(index->count, 2);
	for (uint32_t k = 1; k < LEAVES; k++)
		index->entries[k] = (struct g4_dir_index_entry){hash + 1000 + k, 0, index->entries[1].page};
	index->count = LEAVES;
	seal(above);
	const uint64_t below = index->entries[0].page;
	struct g4_dir_leaf *leaf = page_at(below);
	memset(leaf->used, 0, sizeof(leaf->used));
	leaf->used[0] = (1u << G4_DIR_HEADER_UNITS) - 1;
	uint32_t unit = put_entries(leaf, G4_DIR_HEADER_UNITS, 8, file, 1);
	unit = put_entries(leaf, unit, 240, file, hash);
	put_entries(leaf, unit, 250, file, hash + 1);
	seal(below);

	fs = mount();
	assert_int_equal(make_symlink(fs, a, name), 0);
	assert_true(fs->super.features_incompat & G4_FEATURE_INCOMPAT_EQUAL_HASHES);
	assert_int_equal(on_name(fs, G4_CMD_LOOKUP, a, name, NULL), 0);
	g4_fs_unmount(wg, fs, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_tree_to_clear_that_is_below_itself, setup, teardown),
		cmocka_unit_test_setup_teardown(a_directory_to_clear_that_counts_names_it_does_not_have, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_name_that_leads_to_its_own_directory, setup, teardown),
		cmocka_unit_test_setup_teardown(a_name_that_leads_to_the_directory_above, setup, teardown),
		cmocka_unit_test_setup_teardown(a_name_that_is_left_of_a_freed_inode, setup, teardown),
		cmocka_unit_test_setup_teardown(an_index_page_that_is_its_own_child, setup, teardown),
		cmocka_unit_test_setup_teardown(a_directory_that_is_to_shrink, setup, teardown),
		cmocka_unit_test_setup_teardown(a_leaf_that_no_cut_between_hashes_helps, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
