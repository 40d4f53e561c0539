/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of pages by a workgroup: against each algorithm alone, for any number of pages, and what names the algorithm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hash/sums.h"
#include "simt/simt_host.h"

#define BUFFER_PAGES 80u
#define MOST 150u

static uint8_t buffer[BUFFER_PAGES * 4096] __attribute__((aligned(4096)));
static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

struct set {
	enum g4_sum_algorithm algorithm;
	uint32_t n, pages;
	const void *data[MOST];
	struct g4_sum sums[MOST];
	union g4_sums_scratch scratch;
};

static struct set set;
static struct g4_wg *wg;

static void sum_together(struct g4_wg *group, void *args)
{
	struct set *s = (struct set *)args;

	g4_converge(group);
	g4_sums(group, s->algorithm, s->n, s->data, s->pages, s->sums, &s->scratch);
}

static int begin(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(buffer); i++)
		buffer[i] = (uint8_t)next_random();
	wg = g4_wg_create(0);
	return wg == NULL;
}

static int end(void **state)
{
	(void)state;
	g4_wg_destroy(wg);
	return 0;
}

static void make(enum g4_sum_algorithm algorithm, uint32_t n, uint32_t pages)
{
	set.algorithm = algorithm;
	set.n = n;
	set.pages = pages;
	for (uint32_t i = 0; i < n; i++)
		set.data[i] = buffer + next_random() % (BUFFER_PAGES - pages + 1) * 4096;
	memset(set.sums, 0xee, sizeof(set.sums));
	memset(&set.scratch, 0xa5, sizeof(set.scratch));
	g4_region(wg, G4_REGION_USER, sum_together, &set);
}

/* What the table in sums.h says, from the functions for one buffer. */
static void expected(enum g4_sum_algorithm algorithm, const void *data, uint64_t bytes, uint8_t sum[32])
{
	uint64_t hash[2];
	uint32_t crc;

	memset(sum, 0, 32);
	switch (algorithm) {
	case G4_SUM_BLAKE3:
		g4_blake3(data, bytes, sum);
		sum[31] = (uint8_t)((sum[31] & 0x07) | 0x08); /* bit 251; above it is nothing */
		break;
	case G4_SUM_XXH3:
		g4_xxh3_128(data, bytes, hash);
		memcpy(sum, hash, sizeof(hash));
		sum[30] = 2 << 3; /* bits 243 to 250 */
		break;
	default:
		crc = g4_crc32c(0, data, bytes);
		memcpy(sum, &crc, sizeof(crc));
		sum[30] = 1 << 3;
	}
}

static void check(void)
{
	uint8_t untouched[32];

	memset(untouched, 0xee, sizeof(untouched));
	for (uint32_t i = 0; i < MOST; i++) {
		uint8_t sum[32];

		if (i < set.n)
			expected(set.algorithm, set.data[i], set.pages * G4_PAGE_BYTES, sum);
		assert_memory_equal(&set.sums[i], i < set.n ? sum : untouched, sizeof(sum));
	}
}

static void pages_have_their_own_sums(void **state)
{
	(void)state;
	for (uint32_t n = 0; n <= MOST; n += n < 10 ? 1 : 1 + next_random() % 9) {
		for (enum g4_sum_algorithm algorithm = G4_SUM_BLAKE3; algorithm <= G4_SUM_XXH3; algorithm++) {
			make(algorithm, n, 1);
			check();
		}
	}
}

/* Lists of entries: 512 of 32 bytes. */
static void lists_have_their_own_sums(void **state)
{
	(void)state;
	for (uint32_t n = 0; n <= 70; n += n < 5 ? 1 : 13) {
		for (enum g4_sum_algorithm algorithm = G4_SUM_BLAKE3; algorithm <= G4_SUM_XXH3; algorithm++) {
			make(algorithm, n, 3);
			check();
			make(algorithm, n, 4);
			check();
		}
	}
}

static void an_entry_names_its_algorithm(void **state)
{
	struct g4_sum sum;

	(void)state;
	memset(&sum, 0xff, sizeof(sum));
	g4_sum_of_blake3(&sum);
	assert_int_equal(sum.word[3], UINT64_C(0x0fffffffffffffff));
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(sum.word[i], UINT64_MAX);
	memset(&sum, 0, sizeof(sum));
	g4_sum_of_blake3(&sum);
	assert_int_equal(sum.word[3], UINT64_C(0x0800000000000000));
	assert_int_equal(g4_sum_name(G4_SUM_CRC32C), UINT64_C(0x0008000000000000));
	assert_int_equal(g4_sum_name(G4_SUM_XXH3), UINT64_C(0x0010000000000000));
}

static void any_bit_makes_sums_differ(void **state)
{
	struct g4_sum a, b;

	(void)state;
	memcpy(&a, buffer, sizeof(a));
	for (uint32_t bit = 0; bit < 256; bit++) {
		b = a;
		assert_true(g4_sum_equal(&a, &b));
		b.word[bit / 64] ^= UINT64_C(1) << bit % 64;
		assert_false(g4_sum_equal(&a, &b));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_have_their_own_sums),
		cmocka_unit_test(lists_have_their_own_sums),
		cmocka_unit_test(an_entry_names_its_algorithm),
		cmocka_unit_test(any_bit_makes_sums_differ),
	};

	return cmocka_run_group_tests_name("sums", tests, begin, end);
}
