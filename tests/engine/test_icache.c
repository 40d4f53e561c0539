/* SPDX-License-Identifier: Apache-2.0 */
/* The table of in-core inodes: the keys by which the cache knows their pages; whose place in it is given away. */
#include "rig.h"

#include "fs/fs.h"

/* Before an in-core inode without references is taken, once. */
static struct g4_inode_core *takes; /* by others, too */
static void (*before_taking)(void);

static bool hooked_cas(uint32_t *p, uint32_t expected, uint32_t desired)
{
	void (*const hook)(void) = before_taking;

	before_taking = NULL;
	if (hook) {
		takes = (struct g4_inode_core *)(void *)((uint8_t *)p - offsetof(struct g4_inode_core, refs));
		hook();
	}
	return g4_cas32_acq(p, expected, desired);
}
#define g4_cas32_acq hooked_cas
#include "inode/icache.c" /* NOLINT(bugprone-suspicious-include) */

#define DEVICE_BYTES (64 * G4_MIB)
#define MORE_THAN_CORES 4600u /* the least number of in-core inodes is 4096 */

static struct rig rig;
static struct g4_wg *wg;

static int setup(void **state)
{
	(void)state;
	rig_begin(&rig, DEVICE_BYTES, 0, NULL);
	wg = rig.wg;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_end(&rig);
	return 0;
}

static uint64_t key_of(uint64_t ino)
{
	uint32_t inode;

	assert_int_equal(g4_icache_get(wg, rig.fs, ino, &inode), 0);
	const uint64_t key = g4_icache_at(rig.fs, inode)->data_key;
	g4_icache_put(rig.fs, inode);
	return key;
}

static uint32_t generation_of(uint64_t ino)
{
	struct g4_attr attr = {0};

	assert_int_equal(op_getattr(&rig, ino, &attr), 0);
	return (uint32_t)attr.generation;
}

static void far_numbers_and_high_generations_have_keys_of_their_own(void **state)
{
	const struct {
		uint64_t ino;
		uint32_t generation;
	} inodes[] = {
		{0x100118, 2},
		{0x100118, 3},
		{0x100118, 3 + (1u << 24)},
		{(UINT64_C(1) << 48) + 0x100118, 2}, /* 3 << 40 is this number's bit 48, with the generation above it */
		{(UINT64_C(1) << 48) + 0x100118, 3},
		{(UINT64_C(1) << 61) + 0x100118, 3},
	};
	const uint32_t count = sizeof(inodes) / sizeof(inodes[0]);
	uint64_t keys[sizeof(inodes) / sizeof(inodes[0])];

	(void)state;
	for (uint32_t i = 0; i < count; i++) {
		keys[i] = g4_icache_new_key(&rig.fs->icache);
		assert_int_not_equal(keys[i], 0); /* metadata */
		g4_icache_remember_key(&rig.fs->icache, inodes[i].ino, inodes[i].generation, keys[i]);
	}
	for (uint32_t i = 0; i < count; i++) {
		const uint64_t key = keys[i];
		keys[i] = g4_icache_recall_key(&rig.fs->icache, inodes[i].ino, inodes[i].generation);
		assert_true(keys[i] == key || keys[i] > keys[count - 1]); /* forgotten */
		assert_int_not_equal(g4_icache_recall_key(&rig.fs->icache, inodes[i].ino, inodes[i].generation),
				     keys[i]);
		for (uint32_t k = 0; k < i; k++)
			if (keys[i] == keys[k])
				fail_msg("inode 0x%lx of generation %u and 0x%lx of %u have one key",
					 (unsigned long)inodes[i].ino, inodes[i].generation,
					 (unsigned long)inodes[k].ino, inodes[k].generation);
	}
}

/* Generations come round: keys are of 64 bits. */
static void an_incarnation_with_an_old_generation_has_a_new_key(void **state)
{
	uint64_t first, second;

	(void)state;
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &first), 0);
	const uint64_t key = key_of(first);
	const uint32_t generation = generation_of(first);
	assert_int_equal(op_rmdir(&rig, G4_NODE_ROOT, "d"), 0);
	rig.fs->first_generation += (uint32_t)key - (uint32_t)(rig.fs->icache.last_key + 1);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "d", 0755, &second), 0);
	assert_int_equal(first, second); /* else the test tests nothing */
	assert_int_equal(generation_of(second), generation);
	assert_int_not_equal(key_of(second), key);
}

/* What is in the cache is found by the inode when it comes back into in-core inode. */
static void a_key_outlives_the_core(void **state)
{
	uint64_t first, node;
	char name[32];

	(void)state;
	assert_in_range(rig.fs->icache.count, 1, MORE_THAN_CORES - 1);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "first", G4_S_IFREG | 0644, &first), 0);
	assert_int_equal(op_sync(&rig), 0);
	const uint64_t key = key_of(first);
	/* it was asked for, and so stays for one round of the clock */
	for (uint32_t n = 0; n < 2 * MORE_THAN_CORES; n++) {
		snprintf(name, sizeof(name), "f%u", n);
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &node), 0);
	}
	assert_int_equal(g4_icache_index_of(rig.fs, first), G4_NO_INODE); /* else the test tests nothing */
	assert_int_equal(key_of(first), key);
}

/* A new inode that nobody has asked for since gives its place away at once: else one that makes files looks at all of them, in one create. */
static void making_files_does_not_sweep_the_table(void **state)
{
	const struct g4_icache *icache = &rig.fs->icache;
	uint32_t longest = 0;
	uint64_t node;
	char name[32];

	(void)state;
	for (uint32_t n = 0; n < MORE_THAN_CORES; n++) {
		const uint32_t before = icache->hand;
		snprintf(name, sizeof(name), "f%u", n);
		assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, name, G4_S_IFREG | 0644, &node), 0);
		if (icache->hand - before > longest)
			longest = icache->hand - before;
	}
	assert_in_range(icache->count, 64, MORE_THAN_CORES - 1); /* else the test tests nothing */
	assert_in_range(longest, 1, 16);
}

/* Somebody whose clock comes round meanwhile gives the same in-core inode to a file. */
static void make_another(void)
{
	uint64_t node;

	rig.fs->icache.hand = (uint32_t)(takes - rig.fs->icache.inodes);
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "another", G4_S_IFREG | 0644, &node), 0);
	assert_int_equal(takes->ino, node); /* else the test tests nothing */
	assert_int_equal(takes->refs, 0);
}

static void what_was_free_a_moment_ago_leaves_its_chain(void **state)
{
	const struct g4_icache *icache = &rig.fs->icache;
	uint64_t node;
	uint32_t chains = 0;

	(void)state;
	/* of a directory that has a page, for then it is shared */
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "first", G4_S_IFREG | 0644, &node), 0);
	before_taking = make_another;
	assert_int_equal(op_mknod(&rig, G4_NODE_ROOT, "file", G4_S_IFREG | 0644, &node), 0);
	assert_int_equal(takes->ino, node);
	for (uint32_t bucket = 0; bucket <= icache->bucket_mask; bucket++) {
		uint32_t steps = 0;
		for (uint32_t i = icache->buckets[bucket]; i != G4_NO_INODE; i = icache->inodes[i].next) {
			chains += &icache->inodes[i] == takes;
			assert_in_range(++steps, 1, icache->count); /* it ends */
		}
	}
	assert_int_equal(chains, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(far_numbers_and_high_generations_have_keys_of_their_own, setup,
						teardown),
		cmocka_unit_test_setup_teardown(an_incarnation_with_an_old_generation_has_a_new_key, setup, teardown),
		cmocka_unit_test_setup_teardown(a_key_outlives_the_core, setup, teardown),
		cmocka_unit_test_setup_teardown(making_files_does_not_sweep_the_table, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_free_a_moment_ago_leaves_its_chain, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
