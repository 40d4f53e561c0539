/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3-128: published vectors, what libxxhash says of pages, and all variants against the portable one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hash/xxh3.h"

#define BUFFER_BYTES 70000

static uint8_t buffer[BUFFER_BYTES];

/* The bytes that xxHash's own tests use. */
static int fill_buffer(void **state)
{
	uint64_t x = 2654435761u;

	(void)state;
	for (size_t i = 0; i < sizeof(buffer); i++) {
		buffer[i] = (uint8_t)(x >> 56);
		x *= UINT64_C(11400714785074694797);
	}
	return 0;
}

static void known_hashes_match(void **state)
{
	static const struct {
		uint64_t bytes, low, high;
	} known[] = {
		/* xxHash, cli/xsum_sanity_check.c: XXH3_128bits with seed 0 */
		{403, UINT64_C(0xcdeb804d65c6dea4), UINT64_C(0x1b6de21e332dd73d)},
		{512, UINT64_C(0x617e49599013cb6b), UINT64_C(0x18d2d110dcc9bca1)},
		{2048, UINT64_C(0xdd59e2c3a5f038e0), UINT64_C(0xf736557fd47073a5)},
		{2240, UINT64_C(0x6e73a90539cf2948), UINT64_C(0xccb134fbfa7ce49d)},
		{2367, UINT64_C(0xcb37aeb9e5d361ed), UINT64_C(0xe89c0f6ff369b427)},
		/* the same bytes by libxxhash 0.8.1 (xxhsum -H2) */
		{241, UINT64_C(0xc5a639ecd2030e5e), UINT64_C(0x99a80ecf0ecfc647)},
		{1024, UINT64_C(0xdd85c9b5c1109c5c), UINT64_C(0x0d30d24071c64c57)},
		{1025, UINT64_C(0xd870c0fa13211c6a), UINT64_C(0xfd3ee4fe7f2954c6)},
		{4096, UINT64_C(0xe91206429d1f48f9), UINT64_C(0xb9cfaea2ca5626a4)},
		{12288, UINT64_C(0x3b211056477ae032), UINT64_C(0xdb9b4e1dcdf54ecc)},
		{16384, UINT64_C(0xedd17b079a94769e), UINT64_C(0x035fd334e0a37a89)},
		{70000, UINT64_C(0x1f8d9e4a592b32ba), UINT64_C(0x2390a920aef9cc96)},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		uint64_t hash[2];

		g4_xxh3_128(buffer, known[i].bytes, hash);
		assert_int_equal(hash[0], known[i].low);
		assert_int_equal(hash[1], known[i].high);
	}
}

static void every_bit_counts(void **state)
{
	uint64_t whole[2], hash[2];

	(void)state;
	g4_xxh3_128(buffer, G4_PAGE_BYTES, whole);
	for (uint32_t bit = 0; bit < G4_PAGE_BYTES * 8; bit++) {
		buffer[bit / 8] ^= (uint8_t)(1 << bit % 8);
		g4_xxh3_128(buffer, G4_PAGE_BYTES, hash);
		assert_memory_not_equal(hash, whole, sizeof(hash));
		buffer[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

#if G4_XXH3_HAVE_X86
static void compare_variant(void (*variant)(const uint8_t *data, uint64_t bytes, uint64_t sums[8]))
{
	for (uint64_t bytes = G4_XXH3_LEAST_BYTES; bytes < 9000; bytes++) {
		const uint8_t *data = buffer + bytes % 67;
		uint64_t sums[8], portable[8];

		variant(data, bytes, sums);
		g4_xxh3_sums_portable(data, bytes, portable);
		assert_memory_equal(sums, portable, sizeof(sums));
	}
}
#endif

static void avx2_agrees_with_portable(void **state)
{
	(void)state;
#if G4_XXH3_HAVE_X86
	if (g4_xxh3_avx2_usable()) {
		compare_variant(g4_xxh3_sums_avx2);
		return;
	}
#endif
	skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_hashes_match),
		cmocka_unit_test(every_bit_counts),
		cmocka_unit_test(avx2_agrees_with_portable),
	};

	return cmocka_run_group_tests_name("xxh3", tests, fill_buffer, NULL);
}
