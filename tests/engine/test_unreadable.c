/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device does not give a page that leads to a file's pages, or says whose they are: what is done to that file is told so, or is done as far as it
 * can be reached, and nothing else suffers. When the page can be read again, or fsck has given it up, all of the space comes back.
 */
#include "damage.h"
#include "rig.h"

#include "alloc/share_lines.h"
#include "data/map.h"
#include "fs/fs.h"
#include "inode/icache.h"
#include "inode/orphan.h"
#include "inode/txn.h"
#include "simt/simt_host.h"

#include <inttypes.h>

#define PARTS 5u /* of 2 MiB, each with an indirect page of its own */
#define BAD 1u	 /* the one of which the indirect page has a bad sector */
#define EACH 6u	 /* pages in a part, with holes between them */

static struct rig rig;
static uint8_t *data;
static uint64_t file, other, other_has, empty_pages;

static uint64_t page_of(uint32_t part, uint32_t k)
{
	return part * UINT64_C(512) + 2 * k;
}

static void mount_fs(void)
{
	const struct g4_fault none = {0};

	rig.fs = rig_mount_fs(&rig, rig.wg, &none);
}

static void unmount_clean(void)
{
	assert_int_equal(rig.fs->journal.aborted, 0);
	assert_int_equal(rig.fs->alloc.reserved, 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig.fs = NULL;
}

static void make_bad(uint64_t at)
{
	g4_dev_fault_set(rig.fault, &(struct g4_fault){.bad_at = at, .bad_bytes = at ? 1 : 0});
}

static void write_parts(uint64_t ino, uint64_t first_seed_page)
{
	for (uint32_t part = 0; part < PARTS; part++)
		for (uint32_t k = 0; k < EACH; k++)
			assert_int_equal(op_write(&rig, ino, 0, page_of(part, k) * G4_PAGE_BYTES,
						  data + (first_seed_page + k) * G4_PAGE_BYTES, G4_PAGE_BYTES, NULL),
					 0);
	assert_int_equal(op_sync(&rig), 0);
}

static int begin(uint32_t algorithm)
{
	rig_open_as(&rig, algorithm, RIG_AS_SET, 64 * G4_MIB, 4 * G4_MIB);
	rig.wg = g4_wg_create(0);
	data = rig_memory(4 * EACH * G4_PAGE_BYTES, 3);
	mount_fs();
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "other", G4_S_IFREG | 0600, &other), 0);
	write_parts(other, other_has = EACH);
	unmount_clean(); /* slabs that are being filled are free space then */
	mount_fs();
	empty_pages = rig_free_pages(&rig);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "file", G4_S_IFREG | 0600, &file), 0);
	write_parts(file, 0);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return begin(G4_CHECKSUM_NONE);
}

static int setup_sums(void **state)
{
	(void)state;
	return begin(G4_CHECKSUM_BLAKE3);
}

static int teardown(void **state)
{
	(void)state;
	if (rig.fs)
		rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	rig_close(&rig);
	g4_wg_destroy(rig.wg);
	free(data);
	return 0;
}

/* Where the indirect page of a part lies. */
static uint64_t node_of(uint64_t ino, uint32_t part)
{
	struct g4_map_nodes nodes;
	uint32_t index;

	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	assert_int_equal(g4_map_nodes(rig.wg, rig.fs, g4_icache_at(rig.fs, index), page_of(part, 0), &nodes), 0);
	g4_icache_put(rig.fs, index);
	assert_true(nodes.count > 0);
	return g4_address_stored(nodes.nodes[nodes.count - 1]);
}

/* Mounted anew, so that nothing of it is in memory, with the bad sector. */
static uint64_t mount_with_bad_node(void)
{
	const uint64_t at = node_of(file, BAD);

	unmount_clean();
	mount_fs();
	make_bad(at);
	return at;
}

static void expect_parts(uint64_t ino, uint64_t first_seed_page, bool all)
{
	uint8_t *found = rig_memory(G4_PAGE_BYTES, 0);

	for (uint32_t part = 0; part < PARTS; part++)
		for (uint32_t k = 0; k < EACH && (all || part != BAD); k++) {
			assert_int_equal(
				op_read(&rig, ino, 0, page_of(part, k) * G4_PAGE_BYTES, found, G4_PAGE_BYTES, NULL), 0);
			assert_memory_equal(found, data + (first_seed_page + k) * G4_PAGE_BYTES, G4_PAGE_BYTES);
		}
	free(found);
}

/* Everybody else goes on, and what is done is durable. */
static void expect_others_go_on(void)
{
	assert_int_equal(rig.fs->journal.aborted, 0);
	expect_parts(other, other_has, true);
	other_has = 3 * EACH - other_has;
	write_parts(other, other_has);
	assert_int_equal(rig.fs->journal.aborted, 0);
	expect_parts(other, other_has, true);
}

/* The file has no name; of its pages those of one part are left at most, with what leads there. */
static void expect_most_is_free(void)
{
	struct g4_attr attr;

	assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "file", &attr), -G4_E_NOENT);
	assert_true(rig_free_pages(&rig) < empty_pages);
	assert_true(rig_free_pages(&rig) + EACH + 4 >= empty_pages);
}

/* The space comes back with the next mount that can read it. */
static void expect_mount_finishes(void)
{
	unmount_clean();
	mount_fs();
	assert_int_equal(rig_free_pages(&rig), empty_pages);
	expect_parts(other, other_has, true);
	unmount_clean();
	rig_expect_clean(&rig, empty_pages, "when the page can be read again");
}

static void a_file_with_an_unreadable_page_of_its_map_can_be_removed(void **state)
{
	static const uint8_t value[60000] = {1};

	(void)state;
	assert_int_equal(op_setxattr(&rig, file, "user.a", value, sizeof(value), 0), 0); /* goes all the same */
	assert_int_equal(op_sync(&rig), 0);
	mount_with_bad_node();
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "file"), 0);
	expect_others_go_on();
	expect_most_is_free();
	/* other files go meanwhile, before and behind it on the list of what has no name */
	for (uint32_t k = 0; k < 2; k++) {
		uint64_t ino, handle;
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "open", G4_S_IFREG | 0600, &ino), 0);
		assert_int_equal(op_write(&rig, ino, 0, 0, data, 3 * G4_PAGE_BYTES, NULL), 0);
		assert_int_equal(op_open(&rig, ino, G4_OPEN_READ, &handle), 0);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "open"), 0);
		assert_int_equal(op_release(&rig, handle), 0);
	}
	expect_most_is_free();
	expect_mount_finishes();
}

static void what_replaces_it_has_its_name(void **state)
{
	struct g4_attr attr;
	uint64_t late;

	(void)state;
	mount_with_bad_node();
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "late", G4_S_IFREG | 0600, &late), 0);
	assert_int_equal(op_rename(&rig, G4_NODE_ROOT, "late", G4_NODE_ROOT, "file", 0), 0);
	assert_int_equal(op_lookup(&rig, G4_NODE_ROOT, "file", &attr), 0);
	assert_true(attr.ino == late);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "file"), 0);
	expect_others_go_on();
	expect_most_is_free();
	expect_mount_finishes();
}

static void mount_again_with(uint64_t bad)
{
	const struct g4_fault fault = {.bad_at = bad, .bad_bytes = 1};

	unmount_clean();
	rig.fs = rig_mount_fs(&rig, rig.wg, &fault);
}

static void one_that_was_open_goes_with_its_last_handle(void **state)
{
	uint64_t handle;

	(void)state;
	const uint64_t bad = mount_with_bad_node();
	assert_int_equal(op_open(&rig, file, G4_OPEN_READ, &handle), 0);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "file"), 0);
	assert_int_equal(op_release(&rig, handle), 0);
	/* it is gone for whoever has kept its number, here and behind a mount that meets the page again */
	for (uint32_t k = 0; k < 2; k++) {
		struct g4_attr attr;
		assert_int_equal(op_open(&rig, file, G4_OPEN_READ, &handle), -G4_E_STALE);
		assert_int_equal(op_getattr(&rig, file, &attr), -G4_E_STALE);
		assert_int_equal(op_read(&rig, file, 0, 0, data, G4_PAGE_BYTES, NULL), -G4_E_STALE);
		assert_int_equal(op_link(&rig, file, G4_NODE_ROOT, "again"), -G4_E_STALE);
		if (k == 0)
			mount_again_with(bad);
	}
	expect_others_go_on();
	expect_most_is_free();
	expect_mount_finishes();
}

static void expect_one_left(void)
{
	char *text = NULL;
	const struct rig_verdict verdict = rig_fsck(&rig, &text);

	if (verdict.problems > 0 || verdict.orphans != 1)
		fail_msg("%lu problems, %lu orphans\n%s", (unsigned long)verdict.problems,
			 (unsigned long)verdict.orphans, text);
	free(text);
}

/* A mount that meets it again mounts, and so does one after a crash. */
static void a_mount_that_can_not_read_it_either_goes_on(void **state)
{
	struct g4_fault bad = {.bad_bytes = 1};

	(void)state;
	bad.bad_at = mount_with_bad_node();
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "file"), 0);
	expect_others_go_on();
	unmount_clean();
	expect_one_left();
	for (uint32_t k = 0; k < 3; k++) {
		rig.fs = rig_mount_fs(&rig, rig.wg, &bad);
		expect_most_is_free();
		expect_others_go_on();
		if (k == 1) {
			rig_unmount_fs(&rig, rig.wg, rig.fs, false);
			rig.fs = NULL;
		} else {
			unmount_clean();
		}
		expect_one_left();
	}
	rig.fs = rig_mount_fs(&rig, rig.wg, &bad);
	expect_mount_finishes();
}

/* fsck takes what can not be read for damaged, and gives up what hangs there. */
static void a_repair_gives_up_what_can_not_be_read(void **state)
{
	struct rig_repair how = {0};

	(void)state;
	const uint64_t at = mount_with_bad_node();
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "file"), 0);
	unmount_clean();
	expect_one_left();
	memset(&rig.image[at], 0xff, G4_PAGE_BYTES);
	assert_int_equal(rig_repair(&rig, &how), 0);
	free(how.text);
	mount_fs();
	assert_int_equal(rig_free_pages(&rig), empty_pages);
	expect_parts(other, other_has, true);
	unmount_clean();
	rig_expect_clean(&rig, empty_pages, "after a repair");
}

static void expect_file_is_whole(void)
{
	assert_int_equal(rig.fs->journal.aborted, 0);
	expect_parts(file, 0, false);
	expect_others_go_on();
	make_bad(0);
	expect_parts(file, 0, true);
	unmount_clean();
	rig_expect_clean(&rig, RIG_ANY_FREE, "with a file that nothing was done to");
}

static void one_that_can_not_be_cut_is_told_so(void **state)
{
	const uint64_t size = (page_of(PARTS - 1, EACH - 1) + 1) * G4_PAGE_BYTES;
	struct g4_attr attr;

	(void)state;
	mount_with_bad_node();
	assert_int_equal(op_truncate(&rig, file, 0), -G4_E_IO);
	assert_int_equal(op_truncate(&rig, file, G4_PAGE_BYTES / 2), -G4_E_IO);
	assert_int_equal(op_truncate(&rig, file, page_of(BAD, 1) * G4_PAGE_BYTES), -G4_E_IO);
	assert_int_equal(op_getattr(&rig, file, &attr), 0);
	assert_int_equal(attr.size, size);
	expect_file_is_whole();
}

/* A crash came between the transactions of a truncation: what would be seen of it in a file that grows is kept from being seen. */
static void one_that_was_being_cut_can_only_be_read(void **state)
{
	struct g4_fault bad = {.bad_bytes = 1};
	struct g4_inode_core *inode;
	struct g4_attr attr;
	struct g4_txn txn;
	uint32_t index;

	(void)state;
	bad.bad_at = node_of(file, BAD);
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, file, &index), 0);
	inode = g4_icache_at(rig.fs, index);
	g4_write_lock(&inode->lock);
	assert_int_equal(g4_begin(rig.wg, rig.fs, 2 * G4_MAP_CREDITS, &txn), 0);
	inode->disk.size = 0;
	assert_int_equal(g4_orphan_add(rig.wg, rig.fs, &txn, index), 0);
	assert_int_equal(g4_end(rig.fs, &txn, 0), 0);
	g4_write_unlock(&inode->lock);
	g4_icache_put(rig.fs, index);
	assert_int_equal(g4_commit(rig.wg, rig.fs, UINT64_MAX, false), 0);
	rig_unmount_fs(&rig, rig.wg, rig.fs, false);
	for (uint32_t k = 0; k < 3; k++) {
		rig.fs = rig_mount_fs(&rig, rig.wg, &bad);
		assert_true(rig.fs->flags & G4_FS_READ_ONLY);
		assert_int_equal(op_getattr(&rig, file, &attr), 0);
		assert_int_equal(attr.size, 0);
		expect_parts(other, other_has, true);
		assert_int_equal(op_truncate(&rig, file, G4_MIB), -G4_E_ROFS);
		rig_unmount_fs(&rig, rig.wg, rig.fs, k != 1);
	}
	mount_fs();
	assert_false(rig.fs->flags & G4_FS_READ_ONLY);
	assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "file"), 0);
	expect_parts(other, other_has, true);
	assert_true(rig_free_pages(&rig) + 1 >= empty_pages); /* and a slab that the crash has left */
	unmount_clean();
	rig_expect_clean(&rig, RIG_ANY_FREE, "when what was being cut is gone");
}

static void what_is_behind_it_can_be_cut(void **state)
{
	struct g4_attr attr;

	(void)state;
	mount_with_bad_node();
	assert_int_equal(op_truncate(&rig, file, page_of(PARTS - 1, 0) * G4_PAGE_BYTES), 0);
	assert_int_equal(op_getattr(&rig, file, &attr), 0);
	assert_int_equal(attr.size, page_of(PARTS - 1, 0) * G4_PAGE_BYTES);
	expect_others_go_on();
}

static void pages_do_not_move_past_it(void **state)
{
	const uint64_t bytes = 3 * G4_PAGE_BYTES;

	(void)state;
	mount_with_bad_node();
	assert_int_equal(op_fallocate(&rig, file, G4_FALLOC_COLLAPSE_RANGE, 0, bytes), -G4_E_IO);
	assert_int_equal(op_fallocate(&rig, file, G4_FALLOC_COLLAPSE_RANGE, 0, page_of(BAD, 1) * G4_PAGE_BYTES),
			 -G4_E_IO);
	assert_int_equal(op_fallocate(&rig, file, G4_FALLOC_INSERT_RANGE, 0, bytes), -G4_E_IO);
	expect_file_is_whole();
}

/* Moving divides a large page, whose sums go with its pages. */
static void large_pages_do_not_move_without_their_sums(void **state)
{
	uint8_t *large = rig_memory(2 * G4_MIB, 5);
	const uint64_t bytes = 3 * G4_PAGE_BYTES;
	struct g4_map_nodes nodes;
	uint64_t ino;
	uint32_t index;

	(void)state;
	ino = rig_make_file(&rig, "large", 2 * G4_MIB, large, 2 * G4_MIB);
	assert_int_equal(op_fsync(&rig, ino), 0);
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, ino, &index), 0);
	assert_int_equal(g4_map_nodes(rig.wg, rig.fs, g4_icache_at(rig.fs, index), G4_INDIRECT_SLOTS, &nodes), 0);
	g4_icache_put(rig.fs, index);
	assert_int_equal(nodes.sums_count, G4_SUMS_QUARTERS);
	for (uint32_t k = 0; k < G4_SUMS_QUARTERS; k++) {
		unmount_clean();
		mount_fs();
		make_bad(g4_address_stored(nodes.sums[k]));
		assert_int_equal(op_fallocate(&rig, ino, G4_FALLOC_COLLAPSE_RANGE, 0, bytes), -G4_E_IO);
		assert_int_equal(op_fallocate(&rig, ino, G4_FALLOC_INSERT_RANGE, 0, bytes), -G4_E_IO);
		assert_int_equal(rig.fs->journal.aborted, 0);
		expect_others_go_on();
		make_bad(0);
	}
	uint8_t *found = rig_memory(2 * G4_MIB, 0);
	rig_expect_contents(&rig, ino, 2 * G4_MIB, found, large, 2 * G4_MIB);
	free(found);
	free(large);
	unmount_clean();
	rig_expect_clean(&rig, RIG_ANY_FREE, "with a large page that did not move");
}

/* Holes may come in parts. */
static void a_hole_ends_where_it_begins(void **state)
{
	uint8_t *found = rig_memory(G4_PAGE_BYTES, 0);
	static const uint8_t zeros[G4_PAGE_BYTES];

	(void)state;
	mount_with_bad_node();
	assert_int_equal(op_fallocate(&rig, file, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 0, PARTS * 2 * G4_MIB),
			 -G4_E_IO);
	expect_others_go_on();
	make_bad(0);
	assert_int_equal(op_read(&rig, file, 0, page_of(0, 0) * G4_PAGE_BYTES, found, G4_PAGE_BYTES, NULL), 0);
	assert_memory_equal(found, zeros, G4_PAGE_BYTES);
	for (uint32_t k = 0; k < EACH; k++) {
		assert_int_equal(op_read(&rig, file, 0, page_of(BAD, k) * G4_PAGE_BYTES, found, G4_PAGE_BYTES, NULL),
				 0);
		assert_memory_equal(found, data + k * G4_PAGE_BYTES, G4_PAGE_BYTES);
	}
	free(found);
	unmount_clean();
	rig_expect_clean(&rig, RIG_ANY_FREE, "with a part of a hole");
}

static void a_copy_ends_where_it_begins(void **state)
{
	uint64_t from, to, done;
	int rc;

	(void)state;
	mount_with_bad_node();
	assert_int_equal(op_open(&rig, other, G4_OPEN_READ, &from), 0);
	assert_int_equal(op_open(&rig, file, G4_OPEN_WRITE, &to), 0);
	for (uint64_t at = 0;; at += done) {
		rc = op_copy(&rig, from, at, to, at, PARTS * 2 * G4_MIB - at, &done);
		if (rc < 0 || done == 0)
			break;
	}
	assert_int_equal(rc, -G4_E_IO);
	assert_int_equal(op_release(&rig, from), 0);
	assert_int_equal(op_release(&rig, to), 0);
	expect_others_go_on();
	make_bad(0);
	unmount_clean();
	rig_expect_clean(&rig, RIG_ANY_FREE, "with a part of a copy");
}

/* Where it is said who owns a page: of the region, of the group, and what is buffered. */
static uint32_t owners_of(uint64_t ino, uint64_t page, uint64_t places[3])
{
	struct g4_alloc *alloc = &rig.fs->alloc;
	const uint64_t region = rig_place(&rig, ino, page) / G4_REGION_BYTES;
	struct g4_shares_lines c;
	uint32_t count = 0;

	assert_int_equal(g4_shares_get_counts(rig.wg, alloc, region, &c), 0);
	const uint32_t lines[3] = {c.owners, c.shares, c.buffered};
	for (uint32_t k = 0; k < 3; k++)
		if (lines[k] != G4_NO_LINE)
			places[count++] = rig.fs->cache.lines[lines[k]].index * G4_PAGE_BYTES;
	g4_shares_put_counts(alloc, &c);
	return count;
}

static void copy_all(uint64_t from_ino, uint64_t to_ino)
{
	uint64_t from, to, done;

	assert_int_equal(op_open(&rig, from_ino, G4_OPEN_READ, &from), 0);
	assert_int_equal(op_open(&rig, to_ino, G4_OPEN_WRITE, &to), 0);
	for (uint64_t at = 0; at < (page_of(PARTS - 1, EACH - 1) + 1) * G4_PAGE_BYTES; at += done)
		assert_int_equal(op_copy(&rig, from, at, to, at, PARTS * 2 * G4_MIB - at, &done), 0);
	assert_int_equal(op_release(&rig, from), 0);
	assert_int_equal(op_release(&rig, to), 0);
	assert_int_equal(op_sync(&rig), 0);
}

/* Whoever would have to give up pages of which nobody knows how many own them is told so, and may be removed. */
static void what_says_whose_pages_are_may_be_unreadable(void **state)
{
	const uint64_t hole = PARTS * 2 * G4_MIB;
	uint64_t places[3];

	(void)state;
	unmount_clean();
	mount_fs();
	const uint64_t before = rig_free_pages(&rig);
	for (uint32_t k = 0, count = 1; k < count; k++) {
		uint64_t copy;
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "copy", G4_S_IFREG | 0600, &copy), 0);
		copy_all(file, copy);
		count = owners_of(copy, page_of(BAD, 0), places);
		assert_true(count > 0);
		unmount_clean();
		mount_fs();
		make_bad(places[k]);
		assert_int_equal(op_truncate(&rig, copy, 0), -G4_E_IO);
		assert_int_equal(op_fallocate(&rig, copy, G4_FALLOC_PUNCH_HOLE | G4_FALLOC_KEEP_SIZE, 0, hole),
				 -G4_E_IO);
		assert_int_equal(rig.fs->journal.aborted, 0);
		/* told at once where an indirect page may have other owners */
		const int rc = op_write(&rig, copy, 0, page_of(BAD, 1) * G4_PAGE_BYTES, data, G4_PAGE_BYTES, NULL);
		assert_int_equal(rc < 0 ? rc : op_fsync(&rig, copy), -G4_E_IO);
		assert_int_equal(rig.fs->journal.aborted, 0);
		expect_parts(file, 0, true);
		expect_parts(other, other_has, true);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "copy"), 0);
		assert_int_equal(op_sync(&rig), 0);
		unmount_clean();
		expect_one_left();
		mount_fs();
		assert_int_equal(rig_free_pages(&rig), before);
		expect_parts(file, 0, true);
	}
}

/* Pages of one file that can not be written stay dirty and are tried again; that many of them are too many is nobody else's error. */
static void what_can_not_be_written_is_not_told_to_others(void **state)
{
	const uint32_t limit = 4;
	struct g4_map_nodes nodes;
	uint32_t index;

	(void)state;
	assert_int_equal(g4_icache_get(rig.wg, rig.fs, file, &index), 0);
	assert_int_equal(g4_map_nodes(rig.wg, rig.fs, g4_icache_at(rig.fs, index), page_of(BAD, 0), &nodes), 0);
	g4_icache_put(rig.fs, index);
	assert_true(nodes.sums_count > 0);
	unmount_clean();
	for (uint32_t k = 0; k < 2; k++) {
		mount_fs();
		make_bad(g4_address_stored(nodes.sums[nodes.sums_count - 1]));
		rig.fs->dirty_limit = limit;
		for (uint64_t page = page_of(BAD, 0); rig.fs->dirty_pages <= limit; page++)
			(void)op_write(&rig, file, 0, page * G4_PAGE_BYTES, data, G4_PAGE_BYTES, NULL);
		assert_int_equal(op_fsync(&rig, file), -G4_E_IO);
		assert_int_equal(rig.fs->dirty_pages, limit + 1);
		for (uint32_t part = 0; part < PARTS; part++)
			assert_int_equal(op_write(&rig, other, 0, page_of(part, 0) * G4_PAGE_BYTES,
						  data + other_has * G4_PAGE_BYTES, G4_PAGE_BYTES, NULL),
					 0);
		assert_int_equal(op_fsync(&rig, other), 0);
		assert_int_equal(op_sync(&rig), -G4_E_IO); /* it is everybody's */
		assert_int_equal(rig.fs->dirty_pages, limit + 1);
		expect_parts(other, other_has, true);
		if (k == 0)
			make_bad(0);
		else
			assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "file"), 0);
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(rig.fs->dirty_pages, 0);
		unmount_clean();
		rig_expect_clean(&rig, RIG_ANY_FREE, "with pages that were tried again");
	}
}

/* The last page of the value of the only attribute. */
static uint64_t last_of_value(g4_ptr xattr)
{
	const struct g4_xattr_page *page =
		(const struct g4_xattr_page *)(void *)&rig.image[g4_address_stored(g4_ptr_address(xattr))];
	const struct g4_xattr_record *record = (const struct g4_xattr_record *)(const void *)page->payload;
	g4_ptr ptr;

	assert_true(record->flags & G4_XATTR_EXTERNAL);
	for (memcpy(&ptr, (const char *)(record + 1) + record->name_bytes, sizeof(ptr));; ptr = page->next) {
		page = (const struct g4_xattr_page *)(void *)&rig.image[g4_address_stored(g4_ptr_address(ptr))];
		if (page->next == 0)
			return g4_address_stored(g4_ptr_address(ptr));
	}
}

/* The only page of a directory, one of its attributes, and one of a value. */
static void what_else_an_inode_has_may_be_unreadable(void **state)
{
	static const uint8_t value[6000] = {1};

	(void)state;
	unmount_clean();
	mount_fs();
	const uint64_t before = rig_free_pages(&rig);
	for (uint32_t k = 0; k < 3; k++) {
		uint64_t dir, ino;
		uint32_t index;
		assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "dir", 0755, &dir), 0);
		assert_int_equal(op_mknod(&rig, dir, "name", G4_S_IFREG | 0600, &ino), 0);
		assert_int_equal(op_unlink(&rig, dir, "name"), 0);
		assert_int_equal(op_setxattr(&rig, dir, "user.a", value, sizeof(value), 0), 0);
		assert_int_equal(op_sync(&rig), 0);
		assert_int_equal(g4_icache_get(rig.wg, rig.fs, dir, &index), 0);
		const struct g4_inode disk = g4_icache_at(rig.fs, index)->disk;
		g4_icache_put(rig.fs, index);
		unmount_clean();
		mount_fs();
		make_bad(k == 2 ? last_of_value(disk.xattr) :
				  g4_address_stored(g4_ptr_address(k == 0 ? disk.map[0] : disk.xattr)));
		if (k == 2) {
			assert_int_equal(op_removexattr(&rig, dir, "user.a"), -G4_E_IO);
			assert_int_equal(op_setxattr(&rig, dir, "user.a", value, sizeof(value), 0), -G4_E_IO);
			assert_int_equal(op_setxattr(&rig, dir, "user.a", value, 1, 0), -G4_E_IO);
		}
		assert_int_equal(op_rmdir(&rig, G4_NODE_ROOT, "dir"), 0);
		assert_int_equal(rig.fs->journal.aborted, 0);
		expect_parts(other, other_has, true);
		assert_true(rig_free_pages(&rig) < before);
		unmount_clean();
		expect_one_left();
		mount_fs();
		assert_int_equal(rig_free_pages(&rig), before);
	}
}

/* Each stays in memory. With the table full of them nobody would reach any other file: half of it is left, and mounts after it can be used. */
static void very_many_that_can_not_go_stop_the_journal(void **state)
{
	const uint32_t most = rig.fs->icache.count / 2;
	uint64_t places[3], from, to, done;
	char name[16], *text = NULL;
	uint32_t gone = 0;
	int rc = 0;

	(void)state;
	if (rig_one_thread_is_watched())
		skip();
	assert_int_equal(op_open(&rig, file, G4_OPEN_READ, &from), 0);
	for (uint32_t k = 0; k <= most; k++) {
		uint64_t copy;
		snprintf(name, sizeof(name), "copy%" PRIu32, k);
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &copy), 0);
		assert_int_equal(op_open(&rig, copy, G4_OPEN_WRITE, &to), 0);
		assert_int_equal(op_copy(&rig, from, 0, to, 0, G4_PAGE_BYTES, &done), 0);
		assert_int_equal(op_release(&rig, to), 0);
	}
	assert_int_equal(op_release(&rig, from), 0);
	assert_true(owners_of(file, 0, places) > 0);
	const struct g4_fault bad = {.bad_at = places[0], .bad_bytes = 1};
	unmount_clean();
	mount_fs();
	make_bad(bad.bad_at);
	for (; rc == 0 && gone <= most; gone += rc == 0) {
		snprintf(name, sizeof(name), "copy%" PRIu32, gone);
		rc = op_unlink(&rig, G4_NODE_ROOT, name);
		if (gone == most - 1)
			assert_int_equal(op_sync(&rig), 0);
	}
	assert_int_equal(rc, -G4_E_IO);
	assert_int_equal(gone, most);
	expect_parts(other, other_has, true);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "new", G4_S_IFREG | 0600, &to), -G4_E_ROFS);
	rig_unmount_fs(&rig, rig.wg, rig.fs, false);
	/* what was running when the journal stopped has not happened: those that had gone before leave room for all others */
	for (uint32_t k = 0; k < 2; k++) {
		rig.fs = rig_mount_fs(&rig, rig.wg, &bad);
		expect_parts(other, other_has, true);
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "new", G4_S_IFREG | 0600, &to), 0);
		assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, "new"), 0);
		rig_unmount_fs(&rig, rig.wg, rig.fs, true);
	}
	rig.fs = NULL;
	assert_int_equal(rig_fsck(&rig, &text).problems, 0);
	free(text);
	mount_fs();
	expect_parts(file, 0, true);
	expect_parts(other, other_has, true);
}

#define BOTH(name)                                                                                                     \
	cmocka_unit_test_setup_teardown(name, setup, teardown),                                                        \
		cmocka_unit_test_setup_teardown(name, setup_sums, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(a_file_with_an_unreadable_page_of_its_map_can_be_removed),
		BOTH(what_replaces_it_has_its_name),
		BOTH(one_that_was_open_goes_with_its_last_handle),
		BOTH(a_mount_that_can_not_read_it_either_goes_on),
		BOTH(a_repair_gives_up_what_can_not_be_read),
		BOTH(one_that_can_not_be_cut_is_told_so),
		BOTH(one_that_was_being_cut_can_only_be_read),
		BOTH(what_is_behind_it_can_be_cut),
		BOTH(pages_do_not_move_past_it),
		cmocka_unit_test_setup_teardown(large_pages_do_not_move_without_their_sums, setup_sums, teardown),
		BOTH(a_hole_ends_where_it_begins),
		BOTH(a_copy_ends_where_it_begins),
		BOTH(what_says_whose_pages_are_may_be_unreadable),
		cmocka_unit_test_setup_teardown(what_can_not_be_written_is_not_told_to_others, setup_sums, teardown),
		cmocka_unit_test_setup_teardown(very_many_that_can_not_go_stop_the_journal, setup, teardown),
		BOTH(what_else_an_inode_has_may_be_unreadable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
