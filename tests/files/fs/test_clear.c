/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One CLEAR by several workgroups: each name goes once, no more than the command may remove, and nothing of another directory's. (What
 * one workgroup does: engine/test_clear.c.)
 */
#include "files/files.h"

#include <pthread.h>

#include "fs/clear.h"
#include "inode/inode.h"
#include "inode/txn.h"

#define HELPERS 3u
#define ROOT G4_NODE_ROOT

static struct helper {
	pthread_t id;
	struct g4_wg *wg;
} helpers[HELPERS];
static uint32_t stop;
static uint64_t helped;

static int begin(void **state)
{
	const int rc = files_begin(state);

	for (uint32_t k = 0; k < HELPERS; k++)
		helpers[k].wg = g4_wg_create(1 + k);
	fs->split.helpers = HELPERS;
	helped = 0;
	return rc;
}

static int end(void **state)
{
	fs->split.helpers = 0;
	for (uint32_t k = 0; k < HELPERS; k++)
		g4_wg_destroy(helpers[k].wg);
	rig.cred = NULL;
	return files_end(state);
}

static void *help(void *argument)
{
	struct helper *helper = argument;

	while (!g4_load32_acq(&stop)) {
		if (g4_split_help(helper->wg, fs))
			g4_add64(&helped, 1);
		else
			g4_pause();
	}
	return NULL;
}

static void start_helpers(void)
{
	stop = 0;
	for (uint32_t k = 0; k < HELPERS; k++)
		assert_int_equal(pthread_create(&helpers[k].id, NULL, help, &helpers[k]), 0);
}

static void stop_helpers(void)
{
	g4_store32_rel(&stop, 1);
	for (uint32_t k = 0; k < HELPERS; k++)
		assert_int_equal(pthread_join(helpers[k].id, NULL), 0);
}

static uint64_t make_directory(uint64_t parent, const char *name)
{
	uint64_t ino;

	assert_int_equal(op_mkdir(&rig, parent, name, 0777, &ino), 0);
	return ino;
}

static void make_files(uint64_t dir, uint32_t count)
{
	char name[32];

	for (uint32_t k = 0; k < count; k++) {
		snprintf(name, sizeof(name), "file %u", k);
		assert_int_equal(op_mknod(&rig, dir, name, G4_S_IFREG | 0644, NULL), 0);
	}
}

/* Until nothing is left; how many went. */
static uint64_t clear_all(uint64_t dir, uint64_t most, uint64_t from)
{
	uint64_t all = 0, removed;

	do {
		assert_int_equal(op_clear(&rig, dir, most, from, &removed), 0);
		assert_in_range(removed, 0, most);
		all += removed;
	} while (removed > 0);
	return all;
}

static uint64_t names_of(uint64_t dir)
{
	uint32_t index;

	assert_int_equal(g4_icache_get(wg, fs, dir, &index), 0);
	const uint64_t names = g4_icache_at(fs, index)->disk.entries;
	g4_icache_put(fs, index);
	return names;
}

static uint64_t pages_of(uint64_t dir)
{
	uint32_t index;

	assert_int_equal(g4_icache_get(wg, fs, dir, &index), 0);
	const uint64_t pages = g4_icache_at(fs, index)->disk.pages;
	g4_icache_put(fs, index);
	return pages;
}

static struct g4_clear_part part_of(uint64_t dir, uint64_t pieces)
{
	struct g4_clear_part part = {.ino = dir,
				     .most = 100000,
				     .tries = 100000,
				     .piece_tries = G4_CLEAR_PIECE_TRIES,
				     .span = (G4_DIR_POSITIONS + pieces - 1) / pieces};
	struct g4_attr attr;

	assert_int_equal(op_getattr(&rig, dir, &attr), 0);
	part.ranges = (uint32_t)pieces;
	part.turns = 1;
	part.generation = (uint32_t)attr.generation;
	part.cmd.node = dir;
	return part;
}

/* All names of a piece: who has one tries a bounded number of them at a time. */
static void clear_piece(struct g4_clear_part *part)
{
	uint64_t before;

	do {
		before = part->removed;
		assert_int_equal(g4_clear_piece(wg, fs, part, 0), 0);
	} while (part->removed > before);
}

/* By hand: a piece has the names of its range and those below them, and what is wide is left. */
static void a_piece_is_a_range(void **state)
{
	static struct g4_clear_part part;
	const uint64_t top = make_directory(ROOT, "top"), names = 300, pieces = 7;
	uint64_t gone = 0;

	(void)state;
	make_files(top, (uint32_t)names);
	part = part_of(top, pieces);
	for (uint32_t k = 0; k < pieces; k++) {
		const uint64_t before = names_of(top);
		assert_int_equal(before, names - gone);
		assert_int_equal(g4_clear_piece(wg, fs, &part, k), 0);
		gone = part.removed;
		assert_int_equal(part.taken, gone);
		assert_int_equal(names_of(top), names - gone);
		assert_true(gone > k * names / pieces / 2 && (k + 1 == pieces || gone < names)); /* about its part */
		assert_int_equal(g4_clear_piece(wg, fs, &part, k), 0);
		assert_int_equal(part.removed, gone);
	}
	assert_int_equal(gone, names);
	/* no more than it may */
	make_files(top, 50);
	part.most = gone + 20;
	for (uint32_t k = 0; k < pieces; k++)
		assert_int_equal(g4_clear_piece(wg, fs, &part, k), 0);
	assert_int_equal(part.removed, part.most);
	assert_int_equal(names_of(top), 30);
	/* of a directory that is gone there is nothing to do */
	assert_int_equal(clear_all(top, 100, 0), 30);
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
	part.most = 10000;
	assert_int_equal(g4_clear_piece(wg, fs, &part, 0), 0);
}

/* Calls of others come to a helper while it has one, also where there is much below its names. */
static void a_piece_ends(void **state)
{
	static struct g4_clear_part part;
	const uint64_t top = make_directory(ROOT, "top");

	(void)state;
	make_files(make_directory(top, "small"), 3000);
	part = part_of(top, 1);
	for (uint64_t before = 0; names_of(top) > 0; before = part.tried) {
		assert_int_equal(g4_clear_piece(wg, fs, &part, 0), 0);
		assert_in_range(part.tried - before, 1, G4_CLEAR_PIECE_TRIES);
	}
	assert_int_equal(part.removed, 3001);
	assert_int_equal(part.taken, part.removed);
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
}

/* Between where commands begin and the first name there is none; all others are spread over what is left. */
static void how_far_apart_names_are(void **state)
{
	const uint64_t all = G4_DIR_POSITIONS, names = 1000;

	(void)state;
	for (uint64_t eighths = 0; eighths < 8; eighths++) {
		const uint64_t first = all / 8 * eighths, start = all / 8 * 3, left = all - first;
		assert_in_range(g4_clear_span(names, 0, first, all, 1), left / names - 1, left / names);
		/* a command that begins elsewhere goes around */
		const uint64_t around = all - (first >= start ? first - start : all - start + first);
		assert_in_range(g4_clear_span(names, start, first, all, 1), around / names - 1, around / names);
	}
	/* of a leaf that has them near to each other; of one with few names nothing is known */
	assert_int_equal(g4_clear_span(names, 0, 1000, 1000 + 60 * 7, 60), 14);
	assert_int_equal(g4_clear_span(names, 0, 0, 60 * 7, 3), all / names);
	assert_in_range(g4_clear_span(UINT32_MAX, 0, all - 1, all, 126), 1, all);
	assert_in_range(g4_clear_span(0, 0, 0, all, 1), 1, all);
}

/* However little is left of a directory, its parts have few names: somebody is to do for all workgroups until the end. */
static void parts_are_many_until_the_end(void **state)
{
	const uint64_t top = make_directory(ROOT, "top"), names = 4000;
	uint64_t removed;

	(void)state;
	fs->split.helpers = 64; /* nobody comes */
	for (uint64_t left = names; left >= 100; left /= 2) {
		make_files(top, (uint32_t)names);
		if (left < names)
			assert_int_equal(op_clear(&rig, top, names - left, 0, &removed), 0);
		memset(fs->split.jobs, 0, sizeof(fs->split.jobs));
		assert_int_equal(op_clear(&rig, top, names, 0, &removed), 0);
		assert_int_equal(removed, left);
		uint64_t pieces = 0; /* of one job that had all names */
		for (uint32_t k = 0; k < G4_SPLIT_JOBS; k++)
			pieces += fs->split.jobs[k].work.bytes;
		assert_in_range(pieces, g4_min64(left, G4_CLEAR_PIECES) * 3 / 4, g4_max64(left, 2 * G4_CLEAR_PIECES));
	}
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
}

/* By hand: several have one range, and begin at different places of what is below it. */
static void a_range_has_turns(void **state)
{
	static struct g4_clear_part part;
	const uint64_t top = make_directory(ROOT, "top"), below = make_directory(top, "below"), names = 1000;
	uint64_t before = 0;

	(void)state;
	make_files(below, (uint32_t)names);
	part = part_of(top, 1);
	part.turns = 4;
	part.piece_tries = 100;
	for (uint32_t turn = 0; turn < 4; turn++) {
		static uint64_t records[512];
		uint64_t bytes;
		assert_int_equal(g4_clear_piece(wg, fs, &part, turn), 0);
		assert_int_equal(part.removed, before + part.piece_tries - 1); /* one was the directory */
		before = part.removed;
		/* from its own place on: the next name there is not the first */
		const uint64_t place = G4_DIR_POSITIONS / 4 * turn;
		assert_int_equal(op_readdir(&rig, below, place + G4_COOKIE_NAMES, records, 64, &bytes), 0);
		assert_true(bytes > 0);
		assert_true(((const struct g4_dirent *)records)->cookie > place + G4_DIR_POSITIONS / 20);
	}
	/* what the others have removed is gone, also the directory */
	for (uint32_t turn = 0; names_of(top) > 0; turn++)
		assert_int_equal(g4_clear_piece(wg, fs, &part, turn % 4), 0);
	assert_int_equal(part.removed, names + 1);
	assert_int_equal(part.taken, part.removed);
	assert_int_equal(g4_clear_piece(wg, fs, &part, 3), 0);
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
}

/* Pages stay while names go, and go when who removed the names goes elsewhere, or ends, or may not remove the directory. */
static void directories_that_stay_have_few_pages(void **state)
{
	const struct g4_cred user = {.uid = 1000, .gid = 1000};
	static struct g4_clear_part part;
	const uint64_t top = make_directory(ROOT, "top"), below = make_directory(top, "below");
	uint64_t deep = below;

	(void)state;
	make_files(below, 1000);
	for (uint32_t level = 0; level < G4_CLEAR_WAY + 5; level++) { /* more than the walk remembers */
		deep = make_directory(deep, "deep");
		make_files(deep, level % 20 == 0 ? 300 : 0);
	}
	make_files(deep, 3000);
	part = part_of(top, 1);
	const uint64_t most = pages_of(below);
	while (names_of(top) > 0) {
		struct g4_attr attr;
		assert_int_equal(g4_clear_piece(wg, fs, &part, 0), 0);
		/* its leaves are half full and more, but for what a few removals in others leave */
		if (op_getattr(&rig, below, &attr) == 0)
			assert_in_range(pages_of(below), 1, most * names_of(below) / 1000 + 3);
	}
	assert_int_equal(part.removed, 1 + 1000 + G4_CLEAR_WAY + 5 + 4 * 300 + 3000);
	/* as long as it is not removed it is a directory like others */
	const uint64_t kept = make_directory(top, "kept");
	struct g4_attr open = {.mode = 0777}, closed = {.mode = 0755};
	make_files(kept, 200);
	assert_int_equal(op_setattr(&rig, kept, G4_SET_MODE, &open), 0);
	assert_int_equal(op_setattr(&rig, top, G4_SET_MODE, &closed), 0);
	part = part_of(top, 1);
	part.cred = user;
	part.cmd.cred = &part.cred;
	assert_int_equal(g4_clear_piece(wg, fs, &part, 0), -G4_E_ACCES);
	assert_int_equal(names_of(top), 1);
	assert_int_equal(part.removed, 200 - names_of(kept));
	if (names_of(kept) > 0) /* who may not remove it may have been told so at once */
		assert_int_equal(names_of(kept), 200);
	else
		assert_int_equal(pages_of(kept), 1);
	assert_int_equal(clear_all(top, 1000, 0), 1 + 200 - part.removed);
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
}

/* Few directories, each of several workgroups: who meets a name that another one removes goes on. */
static void several_are_in_one_directory(void **state)
{
	char name[32];

	(void)state;
	start_helpers();
	fs->split.helpers = 4 * G4_CLEAR_SHARED_DIRS * HELPERS;
	for (uint32_t turn = 0; turn < 3 || g4_load64_acq(&helped) == 0; turn++) {
		const uint64_t top = make_directory(ROOT, "top");
		uint64_t names = 0;
		for (uint32_t k = 0; k < G4_CLEAR_SHARED_DIRS + turn; k++) {
			snprintf(name, sizeof(name), "d%u", k);
			const uint64_t dir = make_directory(top, name);
			make_files(dir, 150);
			make_files(make_directory(dir, "deeper"), k);
			names += 1 + 150 + 1 + k;
		}
		assert_int_equal(clear_all(top, turn == 1 ? 333 : 100000, turn * 0x40000000u), names);
		assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
	}
	stop_helpers();
}

/* What a crash left before the first name goes, too. */
static void pages_before_the_first_name_go(void **state)
{
	static struct g4_clear_part part;
	const uint64_t top = make_directory(ROOT, "top");
	uint64_t removed;

	(void)state;
	make_files(top, 4000);
	const uint64_t pages = pages_of(top);
	part = part_of(top, 4);
	for (uint64_t before = UINT64_MAX; before != part.removed;) { /* the first quarter's */
		before = part.removed;
		assert_int_equal(g4_clear_piece(wg, fs, &part, 0), 0);
	}
	assert_int_equal(pages_of(top), pages);
	fs->split.helpers = 1;
	assert_int_equal(op_clear(&rig, top, 200, 0, &removed), 0);
	assert_int_equal(removed, 200);
	assert_in_range(pages_of(top), 2, pages * 4 / 5);
	assert_int_equal(clear_all(top, 10000, 0), 4000 - part.removed - 200);
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
}

static void what_is_deep_is_left_to_the_owner(void **state)
{
	static struct g4_clear_part part;
	const uint64_t top = make_directory(ROOT, "top"), names = G4_CLEAR_SHARED;
	char name[32];

	(void)state;
	for (uint32_t k = 0; k < names; k++) {
		snprintf(name, sizeof(name), "d%u", k);
		uint64_t dir = make_directory(top, name);
		for (uint32_t level = 0; k % 8 == 0 && level < G4_CLEAR_PIECE_TRIES; level++)
			dir = make_directory(dir, "chain");
	}
	part = part_of(top, 1);
	clear_piece(&part);
	assert_in_range(part.removed, 0, names - names / 8);
	start_helpers();
	assert_int_equal(clear_all(top, 100000, 0), names + names / 8 * G4_CLEAR_PIECE_TRIES - part.removed);
	stop_helpers();
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
}

/* What a crash behind a job leaves: leaves without names, in a tree that fsck (files_end()) and everybody else can use. */
static void leaves_without_names_are_a_directory(void **state)
{
	static uint64_t records[512];
	const uint64_t top = make_directory(ROOT, "top");
	uint64_t bytes;

	(void)state;
	for (uint32_t turn = 0; turn < 2; turn++) {
		make_files(top, 4000);
		const uint64_t pages = pages_of(top);
		struct g4_clear_part part = part_of(top, 1);
		clear_piece(&part);
		assert_int_equal(part.removed, 4000);
		assert_int_equal(pages_of(top), pages);
		assert_int_equal(op_readdir(&rig, top, G4_COOKIE_NAMES, records, sizeof(records), &bytes), 0);
		assert_int_equal(bytes, 0);
		if (turn == 0) { /* names come into them; and others are united with them */
			make_files(top, 1000);
			assert_int_equal(clear_all(top, 1000, 0), 1000);
			assert_in_range(pages_of(top), 1, pages - 1);
		}
	}
	make_files(top, 10);
	/* one goes as a whole */
	const uint64_t other = make_directory(ROOT, "other");
	make_files(other, 2000);
	struct g4_clear_part part = part_of(other, 1);
	clear_piece(&part);
	assert_true(pages_of(other) > 10);
	assert_int_equal(op_rmdir(&rig, ROOT, "other"), 0);
}

static void what_is_wide_is_left_to_the_owner(void **state)
{
	static struct g4_clear_part part;
	const uint64_t top = make_directory(ROOT, "top"), small = make_directory(top, "small"),
		       deep = make_directory(make_directory(top, "deep"), "deeper");

	(void)state;
	make_files(small, 10);
	make_files(make_directory(top, "wide"), G4_CLEAR_WIDE + 1);
	make_files(make_directory(deep, "wide"), G4_CLEAR_WIDE + 1);
	make_files(top, 5);
	part = part_of(top, 1);
	assert_int_equal(g4_clear_piece(wg, fs, &part, 0), 0);
	assert_int_equal(part.removed, 10 + 1 + 5);
	assert_int_equal(names_of(top), 2);
	assert_int_equal(clear_all(top, 100000, 0), 2 * (G4_CLEAR_WIDE + 1) + 2 + 2);
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
}

/* A wide directory, one with many small ones, and one with many wide ones, with helpers that come when they like. */
static void several_workgroups_clear_a_tree(void **state)
{
	static const uint64_t most[] = {100000, 333, 64};
	char name[32];

	(void)state;
	start_helpers();
	for (uint32_t turn = 0; turn < 3 || g4_load64_acq(&helped) == 0; turn++) {
		const uint64_t top = make_directory(ROOT, "top"), wide = make_directory(top, "wide"),
			       many = make_directory(top, "many");
		uint64_t names = 2;
		make_files(wide, 3000);
		names += 3000;
		for (uint32_t k = 0; k < 150; k++) {
			snprintf(name, sizeof(name), "d%u", k);
			make_files(make_directory(many, name), k % 30);
			names += 1 + k % 30;
		}
		if (turn == 0) /* more of them than others may have */
			for (uint32_t k = 0; k < 2; k++) {
				snprintf(name, sizeof(name), "w%u", k);
				make_files(make_directory(many, name), G4_CLEAR_WIDE + 10);
				names += G4_CLEAR_WIDE + 11;
			}
		assert_int_equal(clear_all(top, most[turn % 3], turn * 0x40000000u), names);
		assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
	}
	stop_helpers();
}

/* The owner unites what others leave, with each command. */
static void no_page_stays_without_names(void **state)
{
	const uint64_t top = make_directory(ROOT, "top");
	uint64_t removed;

	(void)state;
	make_files(top, 4000);
	const uint64_t pages = pages_of(top);
	assert_true(pages > 30);
	start_helpers();
	assert_int_equal(op_clear(&rig, top, 3000, 0, &removed), 0);
	assert_int_equal(removed, 3000);
	assert_in_range(pages_of(top), 2, pages * 4 / 10);
	assert_int_equal(op_clear(&rig, top, 3000, 0, &removed), 0);
	assert_int_equal(removed, 1000);
	assert_int_equal(pages_of(top), 1);
	stop_helpers();
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
}

static void what_may_not_go_ends_it(void **state)
{
	const struct g4_cred user = {.uid = 1000, .gid = 1000};
	const uint64_t top = make_directory(ROOT, "top");
	struct g4_attr closed = {.mode = 0755};
	uint64_t removed, all = 0, kept;
	char name[32];
	int rc;

	(void)state;
	make_files(top, 300);
	for (uint32_t k = 0; k < 5; k++) {
		snprintf(name, sizeof(name), "kept%u", k);
		kept = make_directory(top, name);
		make_files(kept, 3);
		assert_int_equal(op_setattr(&rig, kept, G4_SET_MODE, &closed), 0);
	}
	start_helpers();
	rig.cred = &user;
	do {
		rc = op_clear(&rig, top, 1000, 0, &removed);
		all += removed;
	} while (rc == 0 && removed > 0);
	rig.cred = NULL;
	assert_int_equal(rc, -G4_E_ACCES);
	assert_in_range(all, 0, 300);
	assert_int_equal(names_of(top), 305 - all);
	assert_int_equal(clear_all(top, 1000, 0), 305 - all + 15);
	stop_helpers();
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
}

/* ---- an image's directory that says to have few names ---- */

#define FORGED 120u /* index pages of level 1, each of whose entries leads to the same leaf */

/* A page of an index of a level whose entries divide positions from `from` on, one each `step`, and lead to pages[k % pages]. */
static struct g4_address forge_index(struct g4_txn *txn, uint32_t level, uint64_t from, uint64_t step, uint32_t count,
				     const struct g4_address *to, uint32_t pages)
{
	struct g4_address address;
	uint32_t line;

	assert_int_equal(g4_alloc_metadata(wg, &fs->alloc, txn, &address), 0);
	assert_int_equal(g4_meta_new(wg, &fs->meta, address, G4_BLOCK_DIR_INDEX, &line), 0);
	g4_txn_dirty(txn, line);
	struct g4_dir_index *index = (struct g4_dir_index *)g4_line_data(&fs->cache, line);
	index->count = count;
	index->level = level;
	for (uint32_t k = 0; k < count; k++) {
		index->entries[k].hash = (uint32_t)((from + k * step) >> 16);
		index->entries[k].page = g4_address_stored(to[k % pages]);
	}
	g4_cache_put(&fs->cache, line);
	return address;
}

/* Pages of metadata that were asked for. */
static uint64_t looks(void)
{
	uint64_t all = 0;

	for (uint32_t k = 0; k < G4_CACHE_TALLIES; k++)
		all += g4_load64_rlx(&fs->cache.tallies[k].hits[G4_CACHE_METADATA]);
	return all;
}

/* What it comes to when a helper leaves it is bounded, whatever its index pages say. */
static void a_directory_that_lies_is_left_at_last(void **state)
{
	const uint64_t top = make_directory(ROOT, "top"), below = make_directory(top, "below"),
		       step = (G4_DIR_POSITIONS / FORGED) >> 16 << 16, each = (step / G4_DIR_INDEX_ENTRIES) >> 16 << 16;
	static struct g4_clear_part part;
	struct g4_address pages[FORGED + 1];
	struct g4_txn txn;
	uint32_t index;

	(void)state;
	make_files(below, 70);
	assert_int_equal(pages_of(below), 1);
	assert_int_equal(g4_icache_get(wg, fs, below, &index), 0);
	struct g4_inode_core *inode = g4_icache_at(fs, index);
	const uint64_t root = inode->disk.map[0];
	const struct g4_address leaf = g4_ptr_address(root);
	for (uint32_t k = 0; k <= FORGED; k++) {
		assert_int_equal(g4_begin(wg, fs, 16, &txn), 0);
		pages[k] = k < FORGED ? forge_index(&txn, 1, k * step, each, G4_DIR_INDEX_ENTRIES, &leaf, 1) :
					forge_index(&txn, 2, 0, step, FORGED, pages, FORGED);
		assert_int_equal(g4_end(fs, &txn, 0), 0);
	}
	inode->disk.map[0] = g4_ptr_make(pages[FORGED], G4_TAG_4K, G4_PTR_VALID);
	inode->disk.pages = 100000;
	part = part_of(top, 1);
	part.piece_tries = 2;
	const uint64_t before = looks();
	assert_int_equal(g4_clear_piece(wg, fs, &part, 0), 0);
	assert_int_equal(part.removed, 1);
	assert_in_range(looks() - before, 1, G4_CLEAR_UNIONS * 80);
	inode->disk.map[0] = root;
	inode->disk.pages = 1;
	for (uint32_t k = 0; k <= FORGED; k++) {
		assert_int_equal(g4_begin(wg, fs, 32, &txn), 0);
		assert_int_equal(g4_alloc_free_metadata(wg, &fs->alloc, &txn, pages[k]), 0);
		assert_int_equal(g4_inode_log(wg, fs, &txn, inode), 0);
		assert_int_equal(g4_end(fs, &txn, 0), 0);
	}
	g4_icache_put(fs, index);
	assert_int_equal(clear_all(top, 1000, 0), 70);
	assert_int_equal(op_rmdir(&rig, ROOT, "top"), 0);
}

#define clear_test(f) cmocka_unit_test_setup_teardown(f, begin, end)

RUN_TESTS(clear_test(a_piece_is_a_range), clear_test(a_piece_ends), clear_test(how_far_apart_names_are),
	  clear_test(parts_are_many_until_the_end), clear_test(a_range_has_turns),
	  clear_test(directories_that_stay_have_few_pages), clear_test(several_are_in_one_directory),
	  clear_test(pages_before_the_first_name_go), clear_test(what_is_deep_is_left_to_the_owner),
	  clear_test(leaves_without_names_are_a_directory), clear_test(what_is_wide_is_left_to_the_owner),
	  clear_test(several_workgroups_clear_a_tree), clear_test(no_page_stays_without_names),
	  clear_test(what_may_not_go_ends_it), clear_test(a_directory_that_lies_is_left_at_last))
