/* SPDX-License-Identifier: Apache-2.0 */
/* Joining transactions where these are as small as they get, with the smallest cache; and what no transaction has room for. */
#include "rig.h"

#include "fs/fs.h"

static struct rig rig;
static struct g4_wg *wg;

static int setup(void **state)
{
	(void)state;
	rig_begin(&rig, 32 * G4_MIB, 1, NULL); /* the smallest cache that a mount allows */
	wg = rig.wg;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_end(&rig);
	return 0;
}

/* A link with a page of its own whose name splits a leaf announces more blocks than anything else does. */
static void what_needs_most_fits_the_smallest_cache(void **state)
{
	char name[200], target[1000];

	(void)state;
	memset(target, 't', sizeof(target));
	target[sizeof(target) - 1] = 0;
	for (uint32_t k = 0; k < 100; k++) {
		snprintf(name, sizeof(name), "%0180u", k);
		assert_int_equal(op_symlink(&rig, G4_NODE_ROOT, name, target, NULL), 0);
	}
}

static void what_has_no_room_in_any_transaction_fails_and_does_no_harm(void **state)
{
	struct g4_txn txn;

	(void)state;
	assert_int_equal(g4_begin(wg, rig.fs, rig.fs->journal.max_blocks + 1, &txn), -G4_E_JOURNAL_FULL);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, NULL), 0);
	assert_int_equal(g4_begin(wg, rig.fs, rig.fs->journal.max_blocks, &txn), 0);
	assert_int_equal(g4_end(rig.fs, &txn, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_needs_most_fits_the_smallest_cache, setup, teardown),
		cmocka_unit_test_setup_teardown(what_has_no_room_in_any_transaction_fails_and_does_no_harm, setup,
						teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
