/* SPDX-License-Identifier: Apache-2.0 */
/* The stage in which pages get their sums: those that the hash itself gives, of the file's policy, wherever the pages lie. */
#include "files/data/stages.h"

static void expect_sums(uint32_t algorithm, uint32_t count)
{
	struct g4_sum_entry entry;

	assert_int_equal(batch->algorithm, algorithm);
	for (uint32_t k = 0; k < count; k++) {
		const void *page = data + (uint64_t)k * G4_PAGE_BYTES;
		memset(&entry, 0, sizeof(entry));
		g4_sums_make(wg, algorithm, &page, 1, &entry);
		assert_memory_equal(&batch->sums[k], &entry, sizeof(entry));
		assert_int_equal(g4_sum_entry_algorithm(&batch->sums[k]), algorithm);
		if (k > 0)
			assert_memory_not_equal(&batch->sums[k], &batch->sums[k - 1], sizeof(entry));
	}
}

/* Each algorithm, for lines of the cache and for memory, over more pages than are hashed at a time. */
static void pages_get_the_sums_of_their_policy(void **state)
{
	static const uint32_t algorithms[] = {G4_CHECKSUM_BLAKE3, G4_CHECKSUM_XXH3, G4_CHECKSUM_CRC32C};
	const uint32_t count = G4_SUMS_AT_ONCE + 3;
	uint64_t pages[G4_SUMS_AT_ONCE + 3];

	(void)state;
	for (uint32_t k = 0; k < count; k++)
		pages[k] = k;
	stages_write(pages, count);
	for (uint32_t a = 0; a < sizeof(algorithms) / sizeof(algorithms[0]); a++) {
		g4_write_lock(&inode->lock);
		g4_gather_dirty(fs, inode, batch);
		assert_int_equal(batch->count, count);
		assert_int_equal(g4_hash(wg, fs, 1 + algorithms[a], batch), 0);
		expect_sums(algorithms[a], count);
		memset(batch->sums, 0, count * sizeof(batch->sums[0]));
		g4_gather_memory(data, 0, count, 0, batch);
		assert_int_equal(g4_hash(wg, fs, 1 + algorithms[a], batch), 0);
		expect_sums(algorithms[a], count);
		g4_write_unlock(&inode->lock);
	}
}

static void a_policy_without_sums_or_unknown_makes_none(void **state)
{
	(void)state;
	g4_gather_memory(data, 0, 4, 0, batch);
	assert_int_equal(g4_hash(wg, fs, 1 + G4_CHECKSUM_NONE, batch), 0);
	assert_int_equal(batch->algorithm, G4_CHECKSUM_NONE);
	assert_int_equal(g4_hash(wg, fs, ~G4_POLICY_KNOWN, batch), -G4_E_POLICY);
}

/* What others may change is hashed by the stage that stores it. */
static void foreign_memory_is_left_alone(void **state)
{
	struct g4_sum_entry none;

	(void)state;
	memset(&none, 0x77, sizeof(none));
	g4_gather_memory(data, 0, 1, 0, batch);
	batch->foreign = true;
	batch->sums[0] = none;
	assert_int_equal(g4_hash(wg, fs, 1 + G4_CHECKSUM_BLAKE3, batch), 0);
	assert_int_equal(batch->algorithm, G4_CHECKSUM_BLAKE3);
	assert_memory_equal(&batch->sums[0], &none, sizeof(none));
}

RUN_TESTS(stage_test(pages_get_the_sums_of_their_policy), stage_test(a_policy_without_sums_or_unknown_makes_none),
	  stage_test(foreign_memory_is_left_alone))
