/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inodes on disk, by themselves: new ones, logged ones, ones that are put back or freed; the orphan list in memory and on disk; the
 * queue of those with something to write back; stamps. (The table in memory: test_icache.c.)
 */
#include "rig.h"

#include "fs/fs.h"

#define DEVICE_BYTES (64 * G4_MIB)

static struct rig rig;
static struct g4_wg *wg;
static struct g4_fs *fs;

static int setup(void **state)
{
	(void)state;
	rig_begin(&rig, DEVICE_BYTES, 0, NULL);
	wg = rig.wg;
	fs = rig.fs;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_end(&rig);
	return 0;
}

static void begin(struct g4_txn *txn)
{
	assert_int_equal(g4_begin(wg, fs, 48, txn), 0);
}

static uint32_t make(struct g4_txn *txn)
{
	uint32_t index;

	assert_int_equal(g4_inode_new(wg, fs, txn, G4_S_IFREG | 0600, &index), 0);
	return index;
}

/* What the slab says of an inode. */
static struct g4_inode in_slab(uint64_t ino)
{
	const struct g4_address address = g4_ptr_address(ino), page = g4_address_page_start(address);
	struct g4_inode inode;
	uint32_t line;

	assert_int_equal(g4_meta_get(wg, &fs->meta, page, G4_BLOCK_SLAB, &line), 0);
	memcpy(&inode, (const uint8_t *)g4_line_data(&fs->cache, line) + g4_slab_slot_of(address) * G4_SLAB_SLOT_BYTES,
	       sizeof(inode));
	g4_cache_put(&fs->cache, line);
	return inode;
}

static void a_new_inode_is_there_when_it_is_logged(void **state)
{
	struct g4_txn txn;

	(void)state;
	begin(&txn);
	const uint32_t index = make(&txn);
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	const uint64_t ino = inode->ino;
	assert_int_equal(g4_load32_acq(&inode->state), G4_ICACHE_READY);
	assert_int_equal(in_slab(ino).mode, 0);
	inode->disk.nlink = 1;
	assert_int_equal(g4_inode_log(wg, fs, &txn, inode), 0);
	assert_int_equal(inode->logged, txn.sequence);
	assert_int_equal(in_slab(ino).mode, G4_S_IFREG | 0600);
	assert_int_equal(in_slab(ino).generation, inode->disk.generation);
	/* no name leads to it: it goes as it came, and its number means nothing any more */
	assert_int_equal(g4_inode_free(wg, fs, &txn, index), 0);
	assert_true(inode->dead);
	g4_write_unlock(&inode->lock);
	g4_icache_put(fs, index);
	assert_int_equal(g4_end(fs, &txn, 0), 0);
	uint32_t again;
	assert_int_equal(g4_icache_get(wg, fs, ino, &again), -G4_E_STALE);
}

static void a_failed_operation_leaves_the_attributes_alone(void **state)
{
	struct g4_txn txn;
	uint32_t index;
	uint64_t ino;

	(void)state;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0640, &ino), 0);
	assert_int_equal(g4_icache_get(wg, fs, ino, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	for (uint32_t changed = 0; changed < 2; changed++) {
		g4_write_lock(&inode->lock);
		const struct g4_inode before = inode->disk;
		begin(&txn);
		inode->disk.mode = G4_S_IFREG | 0777;
		inode->disk.uid = 5;
		inode->disk.flags |= G4_INODE_NODUMP;
		inode->disk.mtime_ns = 1;
		txn.changed = changed; /* pages of the inode, say: those stay changed, so that it is logged */
		assert_int_equal(g4_inode_settle(wg, fs, &txn, inode, &before, -G4_E_NOSPC), -G4_E_NOSPC);
		assert_int_equal(g4_end(fs, &txn, -G4_E_NOSPC), -G4_E_NOSPC);
		assert_int_equal(inode->disk.mode, before.mode);
		assert_int_equal(inode->disk.uid, before.uid);
		assert_int_equal(inode->disk.flags, before.flags);
		assert_int_equal(inode->disk.mtime_ns, before.mtime_ns);
		assert_int_equal(in_slab(ino).change_count, before.change_count + changed);
		g4_write_unlock(&inode->lock);
	}
	g4_icache_put(fs, index);
}

/* The list on disk, from the root block on. */
static uint32_t orphans(uint64_t *list, uint32_t room)
{
	uint32_t line, count = 0;

	assert_int_equal(
		g4_meta_get(wg, &fs->meta, g4_address_from(fs->meta.layout.root_address), G4_BLOCK_ROOT, &line), 0);
	uint64_t ino = ((const struct g4_root *)g4_line_data(&fs->cache, line))->orphan_head;
	g4_cache_put(&fs->cache, line);
	for (; ino && count < room; ino = in_slab(ino).orphan_next)
		list[count++] = ino;
	return count;
}

static void expect_orphans(const uint64_t *expected, uint32_t count)
{
	uint64_t list[16];
	uint32_t i = fs->orphan_head, before = G4_NO_INODE;

	assert_int_equal(orphans(list, 16), count);
	for (uint32_t k = 0; k < count; k++) {
		assert_int_equal(list[k], expected[k]);
		assert_int_not_equal(i, G4_NO_INODE);
		assert_int_equal(g4_icache_at(fs, i)->ino, expected[k]);
		assert_int_equal(g4_icache_at(fs, i)->orphan_prev, before);
		assert_true(g4_icache_at(fs, i)->disk.flags & G4_INODE_ORPHAN);
		before = i;
		i = g4_icache_at(fs, i)->orphan_next;
	}
	assert_int_equal(i, G4_NO_INODE);
}

static void change_list(uint32_t index, bool add)
{
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	struct g4_txn txn;

	g4_write_lock(&inode->lock);
	begin(&txn);
	const int rc = add ? g4_orphan_add(wg, fs, &txn, index) : g4_orphan_remove(wg, fs, &txn, index);
	assert_int_equal(g4_end(fs, &txn, rc), 0);
	g4_write_unlock(&inode->lock);
}

static void the_orphan_list_is_the_same_in_memory_and_on_disk(void **state)
{
	uint64_t ino[4];
	uint32_t index[4];

	(void)state;
	for (uint32_t k = 0; k < 4; k++) {
		const char name[] = {(char)('a' + k), 0};
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &ino[k]), 0);
		assert_int_equal(g4_icache_get(wg, fs, ino[k], &index[k]), 0);
		change_list(index[k], true);
		change_list(index[k], true); /* it is there already */
	}
	expect_orphans((uint64_t[]){ino[3], ino[2], ino[1], ino[0]}, 4);
	change_list(index[1], false); /* in the middle, the head, the tail, the last one */
	change_list(index[1], false);
	expect_orphans((uint64_t[]){ino[3], ino[2], ino[0]}, 3);
	change_list(index[3], false);
	expect_orphans((uint64_t[]){ino[2], ino[0]}, 2);
	change_list(index[0], false);
	expect_orphans((uint64_t[]){ino[2]}, 1);
	change_list(index[2], false);
	expect_orphans(NULL, 0);
	for (uint32_t k = 0; k < 4; k++) {
		assert_int_equal(g4_load32_acq(&g4_icache_at(fs, index[k])->refs), 1); /* ours alone */
		g4_icache_put(fs, index[k]);
	}
}

static void the_queue_gives_each_inode_once_in_order(void **state)
{
	uint64_t ino[3];
	uint32_t index[3];

	(void)state;
	for (uint32_t k = 0; k < 3; k++) {
		const char name[] = {(char)('a' + k), 0};
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &ino[k]), 0);
		assert_int_equal(g4_icache_get(wg, fs, ino[k], &index[k]), 0);
	}
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(g4_dequeue_dirty(fs), G4_NO_INODE);
	const uint32_t order[] = {1, 0, 2};
	for (uint32_t k = 0; k < 3; k++) {
		g4_queue_dirty(fs, index[order[k]]);
		g4_queue_dirty(fs, index[order[0]]);
	}
	assert_int_equal(fs->queued_inodes, 3);
	for (uint32_t k = 0; k < 3; k++) {
		assert_int_equal(g4_dequeue_dirty(fs), index[order[k]]);
		assert_int_equal(g4_load32_acq(&g4_icache_at(fs, index[order[k]])->refs), 2); /* ours and the queue's */
		g4_icache_put(fs, index[order[k]]);
	}
	assert_int_equal(g4_dequeue_dirty(fs), G4_NO_INODE);
	assert_int_equal(fs->queued_inodes, 0);
	/* one that is gone is not queued */
	g4_icache_at(fs, index[0])->dead = true;
	g4_queue_dirty(fs, index[0]);
	assert_int_equal(fs->queued_inodes, 0);
	g4_icache_at(fs, index[0])->dead = false;
	for (uint32_t k = 0; k < 3; k++)
		g4_icache_put(fs, index[k]);
}

/* A stamp of the kernel's that is a little ahead holds our clock back; one of another time does not. */
static void stamps_do_not_go_back_behind_a_kernel_that_is_ahead(void **state)
{
	const uint32_t flags = fs->flags;

	(void)state;
	fs->flags |= G4_FS_TICK_TIMES;
	const int64_t now = g4_realtime_of_tick_ns();
	g4_saw_stamp(fs, (uint64_t)now + 40000000);
	const uint64_t stamp = g4_now(fs);
	assert_true(stamp >= (uint64_t)now + 40000000 || g4_realtime_of_tick_ns() >= now + 40000000);
	g4_saw_stamp(fs, (uint64_t)now - 1000); /* an older one changes nothing */
	assert_true(g4_now(fs) >= stamp);
	g4_saw_stamp(fs, (uint64_t)now + INT64_C(3600000000000)); /* of a clock that is an hour ahead */
	assert_true(g4_now(fs) < (uint64_t)now + INT64_C(3600000000000));
	fs->flags = flags;
}

/* The slab that a workgroup makes inodes in is its own while it is mounted, also an empty one. */
static void an_unmount_leaves_no_empty_slab(void **state)
{
	struct g4_statfs before, after;
	uint64_t ino;
	char name[16];

	(void)state;
	assert_int_equal(op_statfs(&rig, &before), 0);
	for (uint32_t file = 0; file < 80; file++) {
		snprintf(name, sizeof(name), "f%u", file % 40);
		if (file < 40)
			assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0600, &ino), 0);
		else
			assert_int_equal(op_unlink(&rig, G4_NODE_ROOT, name), 0);
	}
	rig_unmount_fs(&rig, wg, fs, true);
	rig_expect_clean(&rig, RIG_ANY_FREE, "after the files have gone");
	rig.fs = fs = rig_mount_fs(&rig, wg, NULL);
	assert_int_equal(op_statfs(&rig, &after), 0);
	assert_int_equal(after.blocks_free, before.blocks_free - 1); /* the root directory's leaf */
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "again", G4_S_IFREG | 0600, &ino), 0);
}

#define inode_test(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		inode_test(a_new_inode_is_there_when_it_is_logged),
		inode_test(a_failed_operation_leaves_the_attributes_alone),
		inode_test(the_orphan_list_is_the_same_in_memory_and_on_disk),
		inode_test(the_queue_gives_each_inode_once_in_order),
		inode_test(an_unmount_leaves_no_empty_slab),
		inode_test(stamps_do_not_go_back_behind_a_kernel_that_is_ahead),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
