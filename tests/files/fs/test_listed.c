/* SPDX-License-Identifier: Apache-2.0 */
/* Names of a leaf's copy, by all lanes: which rows are true, and what is left to the leader. */
#include "files/files.h"

#include <pthread.h>

#include "dir/leaf.h"
#include "fs/listed.h"

#define NAMES 50u
#define ROOT G4_NODE_ROOT

static uint64_t dir, inos[NAMES];
static struct g4_inode_core *directory;
static struct g4_listed_job *job;
static struct g4_dir_listed *listed;

static int begin(void **state)
{
	char name[16];
	uint32_t index;

	if (files_begin(state) != 0)
		return -1;
	assert_int_equal(op_mkdir(&rig, ROOT, "d", 0755, &dir), 0);
	for (uint32_t k = 0; k < NAMES; k++) {
		snprintf(name, sizeof(name), "n%u", k);
		if (k == 7)
			assert_int_equal(op_mkdir(&rig, dir, name, 0755, &inos[k]), 0);
		else
			assert_int_equal(op_mknod(&rig, dir, name, 0100644, &inos[k]), 0);
	}
	assert_int_equal(g4_icache_get(wg, fs, dir, &index), 0);
	directory = g4_icache_at(fs, index);
	listed = g4_scratch_take(wg, sizeof(*listed));
	job = g4_scratch_take(wg, sizeof(*job));
	return 0;
}

static int end(void **state)
{
	g4_scratch_release(wg, 0);
	g4_icache_put(fs, (uint32_t)(directory - fs->icache.inodes));
	return files_end(state);
}

/* The only leaf, and a job for all its names. */
static void copy(void)
{
	const struct g4_dir pages = g4_dir_shared(fs, directory);

	assert_int_equal(g4_dir_read_leaf(wg, &pages, 0, listed), 0);
	assert_int_equal(listed->count, NAMES);
	*job = (struct g4_listed_job){.fs = fs, .listed = listed, .dir = dir, .plus = true, .count = NAMES};
}

static uint32_t row_of(uint64_t ino)
{
	for (uint32_t k = 0; k < NAMES; k++)
		if (listed->items[k].entry->inode == ino)
			return k;
	fail();
	return 0;
}

static uint32_t known(void)
{
	uint32_t count = 0;

	for (uint32_t k = 0; k < NAMES; k++)
		count += job->rows[k] == G4_LISTED_KNOWN;
	return count;
}

static struct g4_inode_core *core_of(uint64_t ino)
{
	uint32_t index;

	assert_true(g4_icache_find(fs, ino, &index));
	g4_icache_put(fs, index);
	return g4_icache_at(fs, index);
}

static void rows_are_what_the_inodes_have(void **state)
{
	struct g4_attr attr;

	(void)state;
	copy();
	g4_listed_look(wg, job);
	assert_int_equal(known(), NAMES);
	for (uint32_t k = 0; k < NAMES; k++) {
		assert_int_equal(op_getattr(&rig, inos[k], &attr), 0);
		assert_memory_equal(&job->attrs[row_of(inos[k])], &attr, sizeof(attr));
	}
}

static void a_leaf_that_changed_leaves_all_rows(void **state)
{
	(void)state;
	copy();
	assert_int_equal(op_unlink(&rig, dir, "n3"), 0);
	g4_listed_look(wg, job);
	assert_int_equal(known(), 0);
	g4_read_lock(&directory->lock);
	assert_int_equal(g4_listed_attr(wg, job, directory, row_of(inos[3])), -G4_E_NOENT);
	assert_int_equal(g4_listed_attr(wg, job, directory, row_of(inos[4])), 0);
	g4_read_unlock(&directory->lock);
	assert_int_equal(job->rows[row_of(inos[3])], G4_LISTED_GONE);
	assert_int_equal(job->attrs[row_of(inos[4])].ino, inos[4]);
}

static void what_somebody_is_changing_is_left(void **state)
{
	struct g4_inode_core *core = core_of(inos[5]);

	(void)state;
	copy();
	g4_write_lock(&core->lock);
	g4_listed_look(wg, job);
	g4_write_unlock(&core->lock);
	assert_int_equal(known(), NAMES - 1);
	assert_int_equal(job->rows[row_of(inos[5])], G4_LISTED_LEFT);
	g4_read_lock(&directory->lock);
	assert_int_equal(g4_listed_attr(wg, job, directory, row_of(inos[5])), 0);
	g4_read_unlock(&directory->lock);
}

static uint32_t stop;

/* Two that lie apart, one behind the other, under the lock. */
static void *change_owner(void *context)
{
	struct g4_inode_core *core = context;

	for (uint32_t k = 0; !g4_load32_acq(&stop); k = (k + 1) & 0xffff) {
		g4_write_lock(&core->lock);
		core->disk.uid = k;
		core->disk.btime_ns = k;
		g4_write_unlock(&core->lock);
	}
	return NULL;
}

static void half_of_a_change_is_no_row(void **state)
{
	struct g4_inode_core *core = core_of(inos[9]);
	const uint64_t uid = core->disk.uid, btime = core->disk.btime_ns;
	const uint32_t enough = g4_wg_width(wg) > 1 ? 30 : 3000; /* lanes that are threads wait for each other */
	uint32_t seen = 0, last = 0;
	pthread_t changer;

	(void)state;
	stop = 0;
	copy();
	job->first = row_of(inos[9]);
	core->disk.uid = 0;
	core->disk.btime_ns = 0;
	assert_int_equal(pthread_create(&changer, NULL, change_owner, core), 0);
	while (seen < enough) {
		job->count = 1;
		g4_listed_look(wg, job);
		if (job->rows[job->first] != G4_LISTED_KNOWN) {
			g4_pause();
			continue;
		}
		const struct g4_attr *attr = &job->attrs[job->first];
		assert_int_equal(attr->uid, attr->btime_ns);
		seen += attr->uid != last;
		last = attr->uid;
	}
	g4_store32_rel(&stop, 1);
	assert_int_equal(pthread_join(changer, NULL), 0);
	core->disk.uid = (uint32_t)uid;
	core->disk.btime_ns = btime;
}

/* Directories whose parent is another one, and a name of the directory itself, which would be locked twice. */
static void what_can_not_be_right_is_left(void **state)
{
	struct g4_inode_core *core = core_of(inos[7]);
	const uint64_t parent = core->disk.parent;
	struct g4_dir_entry *entry;

	(void)state;
	copy();
	core->disk.parent = ROOT;
	entry = (struct g4_dir_entry *)(uintptr_t)listed->items[row_of(inos[8])].entry;
	entry->inode = dir;
	const uint32_t own = row_of(dir);
	g4_listed_look(wg, job);
	assert_int_equal(known(), NAMES - 2);
	assert_int_equal(job->rows[row_of(inos[7])], G4_LISTED_LEFT);
	assert_int_equal(job->rows[own], G4_LISTED_LEFT);
	g4_read_lock(&directory->lock);
	assert_int_equal(g4_listed_attr(wg, job, directory, row_of(inos[7])), -G4_E_CORRUPT_DIR);
	assert_int_equal(g4_listed_attr(wg, job, directory, own), -G4_E_CORRUPT_DIR);
	g4_read_unlock(&directory->lock);
	core->disk.parent = parent;
}

static void records_fill_the_room(void **state)
{
	static uint64_t records[4096];

	(void)state;
	for (uint64_t room = 0; room <= 3000; room += 8) {
		copy();
		job->to = (uint8_t *)records;
		job->room = room;
		memset(records, 0xee, sizeof(records));
		g4_listed_look(wg, job);
		const uint32_t count = job->count;
		if (count > 2) /* one goes meanwhile: its record does, too */
			job->rows[1] = G4_LISTED_GONE;
		const uint64_t bytes = g4_listed_give(wg, job);
		uint32_t given = 0;
		for (uint64_t at = 0; at < bytes; given++) {
			const struct g4_dirent *record = (const void *)((const uint8_t *)records + at);
			const struct g4_dir_item *item = &listed->items[count > 2 && given > 0 ? given + 1 : given];
			assert_int_equal(record->ino, item->entry->inode);
			assert_int_equal(record->cookie, item->position + G4_COOKIE_FIRST);
			assert_int_equal(record->name_bytes, item->entry->name_bytes);
			assert_memory_equal((const uint8_t *)(record + 1) + sizeof(struct g4_attr),
					    g4_leaf_name(item->entry), record->name_bytes);
			at += record->record_bytes;
		}
		assert_int_equal(given, count > 2 ? count - 1 : count);
		assert_in_range(bytes, 0, room);
		for (uint64_t k = room / 8; k < 4096; k++)
			assert_int_equal(records[k], UINT64_C(0xeeeeeeeeeeeeeeee));
		if (count < NAMES) /* the next would not have had room */
			assert_true(room < (count + 1) * (sizeof(struct g4_dirent) + sizeof(struct g4_attr) + 8));
	}
}

#define listed_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

RUN_TESTS(listed_test(rows_are_what_the_inodes_have), listed_test(a_leaf_that_changed_leaves_all_rows),
	  listed_test(what_somebody_is_changing_is_left), listed_test(half_of_a_change_is_no_row),
	  listed_test(what_can_not_be_right_is_left), listed_test(records_fill_the_room))
