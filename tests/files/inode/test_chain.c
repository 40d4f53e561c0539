/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chain of directories: its pieces can be made in any order, and nothing of it is found before all of it is there. (What is made by
 * paths, and by several: engine/test_nested.c.)
 */
#include "files/files.h"

#include "alloc/pages.h"

#define COUNT (2 * G4_CHAIN_PIECE + 3)
#define SLABS 3u

static uint64_t pages[COUNT + SLABS];
static uint32_t begins[SLABS], lines[SLABS];
static char names[COUNT * 4 + 2];

static void put_names(void)
{
	char *at = names;

	for (uint32_t k = 0; k < COUNT; k++) {
		if (k % G4_CHAIN_PIECE == 0)
			begins[k / G4_CHAIN_PIECE] = (uint32_t)(at - names);
		at += sprintf(at, "%s%c%c", k % 3 ? "/" : "//", (char)('a' + k / 26), (char)('a' + k % 26));
	}
	*at = '/'; /* what comes behind */
}

static void pieces_are_made_in_any_order(void **state)
{
	static struct g4_chain chain __attribute__((aligned(64)));
	struct g4_alloc_runs runs;
	struct g4_txn txn;
	struct g4_attr attr;
	uint64_t dir;
	uint32_t index;
	char name[3] = "";

	(void)state;
	put_names();
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &dir), 0);
	assert_int_equal(g4_icache_get(wg, fs, dir, &index), 0);
	struct g4_inode_core *above = g4_icache_at(fs, index);
	g4_icache_lock(fs, above);
	g4_alloc_claim_runs(wg, &fs->alloc, COUNT + SLABS, &runs);
	assert_int_equal(runs.count, COUNT + SLABS);
	assert_int_equal(g4_begin(wg, fs, COUNT + SLABS + G4_NAME_CREDITS + G4_ALLOC_PAGES_CREDITS, &txn), 0);
	assert_int_equal(g4_alloc_publish_runs(wg, &fs->alloc, &txn, &runs, COUNT + SLABS, pages), 0);
	chain.pattern = above->disk;
	chain.sequence = txn.sequence;
	chain.names = names;
	chain.begins = begins;
	chain.lines = lines;
	chain.count = COUNT;
	chain.slabs = pages;
	chain.leaves = pages + SLABS;
	chain.above = dir;
	chain.first_key = g4_icache_new_keys(&fs->icache, COUNT);
	for (uint32_t p = SLABS; p-- > 0;) {
		const uint32_t count = p + 1 < SLABS ? G4_CHAIN_PIECE : COUNT % G4_CHAIN_PIECE;
		assert_int_equal(g4_chain_piece(wg, fs, &chain, p * G4_CHAIN_PIECE, count), 0);
		assert_int_equal(op_getattr(&rig, g4_chain_ino(&chain, p * G4_CHAIN_PIECE), &attr), -G4_E_STALE);
	}
	assert_int_equal(g4_chain_finish(wg, fs, &txn, &chain), 0);
	struct g4_dir pages_of = g4_dir_of(fs, above);
	pages_of.root = g4_ptr_make(g4_chain_leaf(&chain, 0), G4_TAG_4K, G4_PTR_VALID);
	pages_of.pages = 1;
	g4_dir_changed(above, &pages_of, 1, above->disk.btime_ns);
	above->disk.nlink++;
	assert_int_equal(g4_inode_log(wg, fs, &txn, above), 0);
	assert_int_equal(g4_end(fs, &txn, 0), 0);
	g4_write_unlock(&above->lock);
	g4_icache_put(fs, index);
	for (uint32_t k = 0; k < COUNT; k++) {
		name[0] = (char)('a' + k / 26);
		name[1] = (char)('a' + k % 26);
		assert_int_equal(op_lookup(&rig, dir, name, &attr), 0);
		assert_int_equal(attr.ino, g4_chain_ino(&chain, k));
		assert_int_equal(attr.generation, g4_chain_generation(fs, &chain, k));
		assert_int_equal(attr.nlink, k + 1 < COUNT ? 3 : 2);
		dir = attr.ino;
	}
	/* the last slab has room: the next inode takes it */
	assert_int_equal(op_mkdir(&rig, dir, "x", 0755, NULL), 0);
}

RUN_TESTS(fs_test(pieces_are_made_in_any_order))
