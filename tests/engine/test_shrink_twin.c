/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two directories of an image with one tree, of which one shrinks in the middle of a step of the other: each has a lock of its own, so nothing keeps
 * them apart. The test stands wherever a step looks at a page, changes or frees one, so all is in one order. test_twin_directories.c has threads.
 */
#include "long_names.h"

#include "dir/tree.h"

#define NAMES 2000u /* below one index page */
#define STEPS 3000u /* more than there can be */

static struct {
	struct g4_dir dir; /* the other directory */
	struct g4_wg *wg;
	void (*shrink)(struct g4_wg *wg, struct g4_dir *dir);
	uint32_t point, passed; /* at which it comes between, and where the step is */
	bool inside, came;
	bool is_odd;
	int odd; /* what no answer can be */
} twin;

static void come_between(void)
{
	if (twin.inside || twin.passed++ != twin.point)
		return;
	twin.inside = twin.came = true;
	twin.shrink(twin.wg, &twin.dir);
	twin.inside = false;
}

static void hooked_dirty(struct g4_txn *txn, uint32_t line)
{
	come_between();
	g4_txn_dirty(txn, line);
}

static int hooked_free(struct g4_wg *wg, struct g4_alloc *alloc, struct g4_txn *txn, struct g4_address address)
{
	come_between();
	return g4_alloc_free_metadata(wg, alloc, txn, address);
}

static int hooked_get_page(struct g4_wg *wg, const struct g4_dir *dir, struct g4_address address, uint32_t *line)
{
	come_between();
	return g4_dir_get_page(wg, dir, address, line);
}

#define g4_txn_dirty hooked_dirty
#define g4_alloc_free_metadata hooked_free
#define g4_dir_get_page hooked_get_page
#include "dir/shrink.c" /* NOLINT(bugprone-suspicious-include) */
#undef g4_txn_dirty
#undef g4_alloc_free_metadata
#undef g4_dir_get_page

/* ---- ways to shrink: each leaves its transactions whatever comes, and says then what was odd ---- */

static void note(int rc)
{
	const bool is_answer = rc >= 0 || rc == -G4_E_CORRUPT_DIR || rc == -G4_E_CORRUPT_ALLOC || rc == -G4_E_TYPE ||
			       rc == -G4_E_NOSPC || rc == -G4_E_ROFS || rc == -G4_E_CHECKSUM || rc == -G4_E_MISDIRECTED;

	if (is_answer)
		return;
	twin.is_odd = true;
	twin.odd = rc;
}

/* As behind a clearing. */
static void in_runs(struct g4_wg *wg, struct g4_dir *dir)
{
	uint64_t from = 0;
	int rc = 0;

	for (uint32_t step = 0; step < STEPS && from != UINT64_MAX && rc >= 0; step++) {
		uint32_t looks = 5;
		struct g4_txn txn;
		rc = g4_begin(wg, names.fs, G4_DIR_SHRINK_CREDITS + 3 * 16, &txn);
		if (rc == 0) {
			rc = g4_dir_shrink_some(wg, dir, &txn, &from, UINT64_MAX, 16, &looks);
			g4_end(names.fs, &txn, rc);
		}
	}
	note(rc);
}

/* As behind removals all over it. */
static void by_places(struct g4_wg *wg, struct g4_dir *dir)
{
	int rc = 0;

	for (uint64_t place = 0; place < 512 && rc >= 0; place++) {
		struct g4_txn txn;
		rc = g4_begin(wg, names.fs, G4_DIR_SHRINK_CREDITS, &txn);
		if (rc == 0) {
			rc = g4_dir_shrink(wg, dir, &txn, place << (48 - 9));
			g4_end(names.fs, &txn, rc);
		}
	}
	note(rc);
}

/* As of a directory that goes. */
static void page_by_page(struct g4_wg *wg, struct g4_dir *dir)
{
	int rc = 1;

	for (uint32_t step = 0; step < STEPS && rc > 0; step++) {
		struct g4_txn txn;
		rc = g4_begin(wg, names.fs, 16, &txn);
		if (rc == 0) {
			rc = g4_dir_free_page(wg, dir, &txn);
			g4_end(names.fs, &txn, rc);
		}
	}
	note(rc);
}

/* ---- */

/* One name in so many stays. */
static void fill_and_empty(uint32_t one_in)
{
	for (uint32_t k = 0; k < NAMES; k++)
		names_insert(k);
	for (uint32_t k = 0; k < NAMES; k++) {
		struct g4_dir_slot slot = {0};
		struct g4_txn txn;
		if (one_in > 0 && k % one_in == 0)
			continue;
		assert_int_equal(names_lookup(k, &slot), 0);
		assert_int_equal(g4_begin(names.wg, names.fs, 4, &txn), 0);
		assert_int_equal(g4_dir_remove(names.wg, &names.dir, &txn, &slot), 0);
		g4_txn_end(&txn);
	}
	assert_int_equal(g4_commit(names.wg, names.fs, UINT64_MAX, false), 0);
}

/* Whatever became of the page that both began with: it has no more entries than a page can have. */
static void expect_a_count(struct g4_address root)
{
	const uint32_t line = g4_cache_find(&names.fs->cache, 0, g4_address_page(root));

	if (line == G4_NO_LINE)
		return;
	if (g4_meta_line(&names.fs->cache, line)->type == G4_BLOCK_DIR_INDEX)
		assert_in_range(((const struct g4_dir_index *)g4_line_data(&names.fs->cache, line))->count, 0,
				G4_DIR_INDEX_ENTRIES);
	g4_cache_put(&names.fs->cache, line);
}

/* A step of the one way, and at each point of it the other way to its end; first, then: what they are. */
static void between(void (*first)(struct g4_wg *, struct g4_dir *), void (*then)(struct g4_wg *, struct g4_dir *),
		    uint32_t one_in)
{
	const uint32_t step = rig_slow() ? 7 : 1;

	for (uint32_t point = 0; point < 60; point += step) {
		/* a transaction has room for all that both do: who comes between waits for none, for the other one is inside */
		names_begin(128 * G4_MIB, 32 * G4_MIB, 48 * G4_MIB);
		assert_true(names.fs->journal.max_blocks > 1500);
		fill_and_empty(one_in);
		const struct g4_address root = g4_ptr_address(names.dir.root);
		memset(&twin, 0, sizeof(twin));
		twin.wg = g4_wg_create(1);
		twin.dir = names.dir;
		twin.shrink = then;
		twin.point = point;
		first(names.wg, &names.dir);
		assert_true(twin.came);
		if (twin.is_odd)
			fail_msg("at point %u an answer is %d", point, twin.odd);
		expect_a_count(root);
		assert_int_equal((names.fs->journal.gate & ~(UINT64_C(3) << 62)) >> 32, 0);
		g4_wg_destroy(twin.wg);
		assert_int_equal(names_teardown(NULL), 0);
	}
}

static void leaves_go_in_runs_from_both(void **state)
{
	(void)state;
	between(in_runs, in_runs, 0);
}

static void leaves_are_united_by_both(void **state)
{
	(void)state;
	between(by_places, by_places, 16);
	between(in_runs, by_places, 16);
}

static void a_directory_goes_that_another_one_shrinks(void **state)
{
	(void)state;
	between(in_runs, page_by_page, 0);
	between(page_by_page, in_runs, 0);
	between(page_by_page, page_by_page, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leaves_go_in_runs_from_both),
		cmocka_unit_test(leaves_are_united_by_both),
		cmocka_unit_test(a_directory_goes_that_another_one_shrinks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
