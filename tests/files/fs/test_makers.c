/* SPDX-License-Identifier: Apache-2.0 */
/* Names that are changed beside others: what is done when somebody was there between the look and the lock, and what is counted. */
#include "files/files.h"

#include "dir/shrink.h"
#include "fs/makers.h"
#include "fs/remove.h"

#define ROOT G4_NODE_ROOT
#define LONG 200u /* bytes of a name of which a leaf has few */

/* The directory "d", in which `a`, `b` and `c` are; and a file without a name there. */
static struct maker {
	uint64_t dir, ino[3];
	uint32_t index;
	struct g4_inode_core *inode;
	struct held held;
	struct g4_dir_slot slot, to;
} m;

static void begin(void)
{
	memset(&m, 0, sizeof(m));
	assert_int_equal(op_mkdir(&rig, ROOT, "d", 0755, &m.dir), 0);
	assert_int_equal(op_mknod(&rig, m.dir, "a", 0100644, &m.ino[0]), 0);
	assert_int_equal(op_mknod(&rig, m.dir, "b", 0100644, &m.ino[1]), 0);
	assert_int_equal(op_mknod(&rig, m.dir, "c", 0100644, &m.ino[2]), 0);
	m.held = files_hold("held");
	assert_int_equal(g4_icache_get(wg, fs, m.dir, &m.index), 0);
	m.inode = g4_icache_at(fs, m.index);
}

static void end(void)
{
	g4_icache_put(fs, m.index);
	files_let_go(m.held);
}

/* What a maker sees before others come. */
static int see(const char *name, struct g4_dir_slot *slot)
{
	g4_read_lock(&m.inode->lock);
	int rc = g4_name_find(wg, fs, m.inode, G4_LOCKED_SHARED, name, (uint32_t)strlen(name), slot);
	g4_read_unlock(&m.inode->lock);
	return rc;
}

static struct g4_named named(const char *name, struct g4_dir_slot *slot)
{
	struct g4_named n = {name, (uint32_t)strlen(name), slot, false};
	return n;
}

enum change { INSERT, REMOVE, RENAME };

/* The change itself, with the inode locked that it is about; met: what a rename meets, or G4_NO_INODE. */
static int change(enum change what, const char *name, const char *name2, uint32_t index, uint32_t met)
{
	const struct g4_named from = named(name, &m.slot), to = named(name2 ? name2 : "", &m.to);
	struct g4_inode_core *inode = g4_icache_at(fs, index),
			     *other = met == G4_NO_INODE ? NULL : g4_icache_at(fs, met);
	struct g4_txn txn;
	int rc;

	g4_read_lock(&m.inode->lock);
	g4_icache_lock_two(fs, inode, other);
	assert_int_equal(g4_begin(wg, fs, G4_NAME_CREDITS + 2, &txn), 0);
	rc = what == INSERT ? g4_makers_insert(wg, fs, &txn, m.inode, &from, index, g4_now(fs)) :
	     what == REMOVE ? g4_makers_remove(wg, fs, &txn, m.inode, &from, inode, g4_now(fs)) :
			      g4_makers_rename(wg, fs, &txn, m.inode, &from, &to, inode, other, g4_now(fs));
	if (rc == 0) { /* as an operation would go on */
		bool unused;
		if (what == INSERT) {
			inode->disk.nlink++;
			assert_int_equal(g4_inode_log(wg, fs, &txn, inode), 0);
		} else if (what == REMOVE) {
			assert_int_equal(g4_lose_name(wg, fs, &txn, index, g4_now(fs), &unused), 0);
		} else if (other) {
			assert_int_equal(g4_lose_name(wg, fs, &txn, met, g4_now(fs), &unused), 0);
		}
	}
	assert_int_equal(g4_end(fs, &txn, rc), rc);
	g4_icache_unlock_two(inode, other);
	g4_read_unlock(&m.inode->lock);
	return rc;
}

static uint32_t get(uint64_t ino)
{
	uint32_t index;

	assert_int_equal(g4_icache_get(wg, fs, ino, &index), 0);
	return index;
}

static void expect(const char *name, uint64_t ino)
{
	struct g4_attr attr = {0};
	int rc = op_lookup(&rig, m.dir, name, &attr);

	assert_int_equal(rc, ino ? 0 : -G4_E_NOENT);
	assert_int_equal(ino ? attr.ino : 0, ino);
}

/* What is counted, in memory and in the slab alike. */
static void expect_counts(uint32_t entries, uint32_t links)
{
	uint32_t line;

	assert_int_equal(m.inode->disk.entries, entries);
	assert_int_equal(m.inode->disk.nlink, links);
	assert_int_equal(g4_meta_get(wg, &fs->meta, g4_address_page_start(g4_ptr_address(m.inode->ino)), G4_BLOCK_SLAB,
				     &line),
			 0);
	const uint8_t *page = g4_line_data(&fs->cache, line);
	assert_memory_equal(page + g4_slab_slot_of(g4_ptr_address(m.inode->ino)) * G4_SLAB_SLOT_BYTES, &m.inode->disk,
			    sizeof(m.inode->disk));
	g4_cache_put(&fs->cache, line);
}

static void changes_are_counted_in_memory_and_in_the_slab(void **state)
{
	uint64_t below, ino;

	(void)state;
	begin();
	expect_counts(3, 2);
	const uint64_t before = m.inode->disk.change_count;
	assert_int_equal(see("n", &m.slot), -G4_E_NOENT);
	assert_int_equal(change(INSERT, "n", NULL, m.held.index, G4_NO_INODE), 0);
	expect("n", m.held.ino);
	expect_counts(4, 2);
	assert_true(m.inode->disk.change_count > before);
	assert_int_equal(op_mkdir(&rig, m.dir, "below", 0755, &below), 0);
	expect_counts(5, 3);
	assert_int_equal(op_rename(&rig, m.dir, "a", m.dir, "b", 0), 0);
	expect_counts(4, 3);
	expect("b", m.ino[0]);
	assert_int_equal(op_rename(&rig, m.dir, "below", m.dir, "under", 0), 0);
	expect_counts(4, 3);
	assert_int_equal(op_rmdir(&rig, m.dir, "under"), 0);
	expect_counts(3, 2);
	assert_int_equal(op_unlink(&rig, m.dir, "n"), 0);
	assert_int_equal(op_mknod(&rig, m.dir, "n", 0100644, &ino), 0);
	expect_counts(3, 2);
	end();
}

/* One more name at a time, with what the directory's times become; modified first, as it was. */
static void expect_times(uint64_t before, uint64_t now, uint64_t after)
{
	struct g4_txn txn;
	struct g4_txn_page slab;

	g4_write_lock(&m.inode->lock);
	m.inode->disk.mtime_ns = m.inode->disk.ctime_ns = before;
	assert_int_equal(g4_begin(wg, fs, G4_NAME_CREDITS, &txn), 0);
	assert_int_equal(g4_inode_log(wg, fs, &txn, m.inode), 0);
	assert_int_equal(g4_inode_get_slab(wg, &txn, m.inode, &slab), 0);
	g4_inode_count(&txn, m.inode, &slab, 0, 0, now);
	g4_txn_put(&txn, &slab);
	assert_int_equal(g4_end(fs, &txn, 0), 0);
	assert_int_equal(m.inode->disk.mtime_ns, after);
	assert_int_equal(m.inode->disk.ctime_ns, after);
	g4_write_unlock(&m.inode->lock);
	expect_counts(3, 2);
}

static void times_rise_unless_the_clock_was_set_back(void **state)
{
	const uint64_t now = g4_now(fs), second = UINT64_C(1000000000);

	(void)state;
	begin();
	expect_times(now - 1, now, now);
	expect_times(now, now, now);
	expect_times(now + 1, now, now + 1);	       /* somebody came later */
	expect_times(now + second, now, now + second); /* as late as it may be */
	expect_times(now + second + 1, now, now);      /* of a clock that was set back */
	expect_times((uint64_t)-5, now, now);	       /* before 1970 */
	expect_times((uint64_t)-5, (uint64_t)-3, (uint64_t)-3);
	expect_times((uint64_t)-3, (uint64_t)-5, (uint64_t)-3);
	expect_times(7, (uint64_t)-5, 7);
	expect_times(now, (uint64_t)-5, (uint64_t)-5);
	end();
}

static void a_name_that_came_meanwhile_is_not_made_twice(void **state)
{
	uint64_t ino;

	(void)state;
	begin();
	assert_int_equal(see("n", &m.slot), -G4_E_NOENT);
	assert_int_equal(op_mknod(&rig, m.dir, "n", 0100644, &ino), 0);
	assert_int_equal(change(INSERT, "n", NULL, m.held.index, G4_NO_INODE), G4_ALONE);
	expect("n", ino);
	expect_counts(4, 2);
	end();
}

static void other_names_that_came_meanwhile_are_no_matter(void **state)
{
	uint64_t ino;

	(void)state;
	begin();
	assert_int_equal(see("n", &m.slot), -G4_E_NOENT);
	assert_int_equal(op_mknod(&rig, m.dir, "o", 0100644, &ino), 0);
	assert_int_equal(op_unlink(&rig, m.dir, "a"), 0);
	assert_int_equal(change(INSERT, "n", NULL, m.held.index, G4_NO_INODE), 0);
	expect("n", m.held.ino);
	expect("o", ino);
	expect_counts(4, 2);
	end();
}

static void a_leaf_that_filled_meanwhile_is_split_before_the_next_attempt(void **state)
{
	char name[LONG + 1], last[LONG + 1];
	struct g4_dir_slot slot;
	uint64_t ino;
	uint32_t count = 3;

	(void)state;
	begin();
	memset(last, 'l', LONG);
	last[LONG] = 0;
	assert_int_equal(see(last, &m.slot), -G4_E_NOENT);
	for (uint32_t k = 0; assert_int_equal(see(last, &slot), -G4_E_NOENT), g4_dir_insert_credits(&slot, LONG) == 1;
	     k++) {
		memset(name, 'f', LONG);
		snprintf(name + LONG - 8, 9, "%08u", k);
		assert_int_equal(op_mknod(&rig, m.dir, name, 0100644, &ino), 0);
		count++;
	}
	assert_int_equal(m.inode->disk.pages, 1);
	assert_int_equal(change(INSERT, last, NULL, m.held.index, G4_NO_INODE), G4_NO_ROOM);
	expect_counts(count, 2);
	assert_int_equal(op_mknod(&rig, m.dir, last, 0100644, &ino), 0); /* the operation itself goes on */
	assert_true(m.inode->disk.pages > 1);
	expect_counts(count + 1, 2);
	end();
}

static void a_name_that_went_meanwhile_is_not_taken(void **state)
{
	uint64_t ino;

	(void)state;
	begin();
	const uint32_t index = get(m.ino[0]);
	assert_int_equal(see("a", &m.slot), 0);
	assert_int_equal(op_rename(&rig, m.dir, "a", m.dir, "z", 0), 0);
	assert_int_equal(change(REMOVE, "a", NULL, index, G4_NO_INODE), G4_ALONE);
	assert_int_equal(op_mknod(&rig, m.dir, "a", 0100644, &ino), 0);
	assert_int_equal(change(REMOVE, "a", NULL, index, G4_NO_INODE), G4_ALONE); /* another inode's now */
	expect("a", ino);
	expect("z", m.ino[0]);
	expect_counts(4, 2);
	g4_icache_put(fs, index);
	end();
}

static void a_name_that_was_moved_in_its_leaf_is_found_there(void **state)
{
	uint64_t ino;

	(void)state;
	begin();
	const uint32_t index = get(m.ino[0]);
	assert_int_equal(see("a", &m.slot), 0);
	const uint32_t unit = m.slot.unit;
	assert_int_equal(op_rename(&rig, m.dir, "a", m.dir, "a longer name than before", 0), 0);
	assert_int_equal(op_mknod(&rig, m.dir, "o", 0100644, &ino), 0); /* where it was */
	assert_int_equal(op_rename(&rig, m.dir, "a longer name than before", m.dir, "a", 0), 0);
	assert_int_equal(change(REMOVE, "a", NULL, index, G4_NO_INODE), 0);
	assert_int_not_equal(m.slot.unit, unit);
	expect("a", 0);
	expect("b", m.ino[1]);
	expect("c", m.ino[2]);
	expect("o", ino);
	expect_counts(3, 2);
	g4_icache_put(fs, index);
	end();
}

static void a_rename_is_both_names_or_none(void **state)
{
	uint64_t ino;

	(void)state;
	begin();
	const uint32_t a = get(m.ino[0]), b = get(m.ino[1]);
	assert_int_equal(see("a", &m.slot), 0);
	assert_int_equal(see("n", &m.to), -G4_E_NOENT);
	assert_int_equal(op_mknod(&rig, m.dir, "n", 0100644, &ino), 0);
	assert_int_equal(change(RENAME, "a", "n", a, G4_NO_INODE), G4_ALONE);
	expect("a", m.ino[0]);
	expect("n", ino);
	assert_int_equal(see("b", &m.to), 0);
	assert_int_equal(op_rename(&rig, m.dir, "b", m.dir, "o", 0), 0);
	assert_int_equal(change(RENAME, "a", "b", a, b), G4_ALONE); /* what it was to replace has gone */
	assert_int_equal(op_rename(&rig, m.dir, "o", m.dir, "b", 0), 0);
	expect_counts(4, 2);
	assert_int_equal(change(RENAME, "a", "b", a, b), 0);
	expect("a", 0);
	expect("b", m.ino[0]);
	expect_counts(3, 2);
	g4_icache_put(fs, a);
	g4_icache_put(fs, b);
	end();
}

/* Names of many leaves: one of a leaf that is nearly empty is left to who has the directory alone, if that fits with one beside it. */
static void a_leaf_that_emptied_meanwhile_is_united_by_who_has_the_directory_alone(void **state)
{
	char name[LONG + 1];
	struct g4_dir_slot slot;
	uint32_t count = 3, alone = 0, sparse = 0;
	uint64_t ino;

	(void)state;
	begin();
	memset(name, 'f', LONG);
	for (uint32_t k = 0; k < 200; k++, count++) {
		snprintf(name + LONG - 8, 9, "%08u", k);
		assert_int_equal(op_mknod(&rig, m.dir, name, 0100644, &ino), 0);
	}
	for (uint32_t k = 0; k < 200; k++) {
		const struct g4_dir dir = g4_dir_shared(fs, m.inode);
		const uint64_t pages = dir.pages;
		snprintf(name + LONG - 8, 9, "%08u", k);
		assert_int_equal(see(name, &slot), 0);
		if (g4_dir_shrink_credits(&dir, &slot, LONG)) {
			const uint32_t index = get(slot.inode),
				       beside =
					       g4_dir_used_beside(wg, &dir, g4_dir_position(slot.hash, slot.collision));
			const bool unites = g4_dir_shrinks(&dir, &slot, LONG, beside);
			m.slot = slot;
			assert_int_equal(change(REMOVE, name, NULL, index, G4_NO_INODE), unites ? G4_ALONE : 0);
			g4_icache_put(fs, index);
			if (unites)
				assert_int_equal(op_unlink(&rig, m.dir, name), 0);
			assert_int_equal(unites, m.inode->disk.pages < pages);
			alone += unites;
			sparse++;
		} else {
			assert_int_equal(op_unlink(&rig, m.dir, name), 0);
		}
		expect_counts(--count, 2);
	}
	assert_true(alone > 0 && sparse > alone);
	assert_int_equal(m.inode->disk.pages, 1);
	end();
}

RUN_TESTS(fs_test(changes_are_counted_in_memory_and_in_the_slab), fs_test(times_rise_unless_the_clock_was_set_back),
	  fs_test(a_name_that_came_meanwhile_is_not_made_twice), fs_test(other_names_that_came_meanwhile_are_no_matter),
	  fs_test(a_leaf_that_filled_meanwhile_is_split_before_the_next_attempt),
	  fs_test(a_name_that_went_meanwhile_is_not_taken), fs_test(a_name_that_was_moved_in_its_leaf_is_found_there),
	  fs_test(a_rename_is_both_names_or_none),
	  fs_test(a_leaf_that_emptied_meanwhile_is_united_by_who_has_the_directory_alone))
