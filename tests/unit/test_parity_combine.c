/* SPDX-License-Identifier: Apache-2.0 */
/* Linear combinations: all variants, and what is chosen among them for all lanes, against the portable one. */
#include "unit/parity_stripe.h"

static struct g4_wg *wg;

static int begin(void **state)
{
	(void)state;
	wg = g4_wg_create(0);
	return wg == NULL;
}

static int end(void **state)
{
	(void)state;
	g4_wg_destroy(wg);
	return 0;
}

struct variant_call {
	const struct g4_parity_job *job;
	uint64_t bytes;
	uint32_t wrong;
	bool same; /* in all lanes */
};

static void run_words(struct g4_wg *group, void *args)
{
	struct variant_call *c = (struct variant_call *)args;
	uint32_t mine, wrong = 0;

	g4_converge(group);
	mine = g4_parity_combine_words(group, c->job, c->bytes);
	for (uint32_t r = 0; r < G4_PARITY_MOST; r++)
		wrong |= (uint32_t)g4_any(group, mine >> r & 1) << r;
	if (g4_wg_lane(group) == 0)
		c->wrong = wrong;
}

static void run_chosen(struct g4_wg *group, void *args)
{
	struct variant_call *c = (struct variant_call *)args;

	g4_converge(group);
	const uint32_t wrong = g4_parity_combine(group, c->job, c->bytes);
	const bool same = g4_all(group, wrong == g4_broadcast(group, wrong, 0));
	if (g4_wg_lane(group) == 0) {
		c->wrong = wrong;
		c->same = same;
	}
}

static uint32_t by_all_lanes(const struct g4_parity_job *job, uint64_t from, uint64_t to)
{
	static struct variant_call c;

	assert_int_equal(from, 0);
	c = (struct variant_call){.job = job, .bytes = to};
	g4_region(wg, G4_REGION_USER, run_chosen, &c);
	assert_true(c.same);
	return c.wrong;
}

static uint32_t by_words(const struct g4_parity_job *job, uint64_t from, uint64_t to)
{
	struct variant_call *c = malloc(sizeof(*c));
	uint32_t wrong;

	assert_int_equal(from, 0);
	assert_non_null(c);
	c->job = job;
	c->bytes = to;
	g4_region(wg, G4_REGION_USER, run_words, c);
	wrong = c->wrong;
	free(c);
	return wrong;
}

typedef uint32_t combine_fn(const struct g4_parity_job *job, uint64_t from, uint64_t to);

/* Some columns, rows, terms, lengths and alignments, of each way and shape: the same bytes as from the portable variant. */
static void compare_variant(combine_fn *variant, uint32_t rounds, bool any_beginning)
{
	static uint8_t expected[G4_PARITY_MOST][MOST_BYTES + 2 * GUARD];
	static uint32_t code[G4_PARITY_DISKS];

	for (uint32_t round = 0; round < rounds; round++) {
		const uint32_t columns = 1 + below(round % 8 ? 9 : 60), rows = 1 + below(4);
		const uint32_t bytes = below(round % 16 ? 700 : MOST_BYTES);
		const uint32_t from = any_beginning && bytes ? below(bytes) : 0;
		void *out[4], *other[4];
		struct g4_parity_job job = {
			.way = (enum g4_parity_way)below(3),
			.shape = (enum g4_parity_shape)below(3),
			.rows = rows,
			.columns = columns,
			.term = code,
			.in = (const void *const *)stripe.chunk,
			.out = out,
		};
		struct g4_parity_job portable = job;
		uint32_t wrong;

		place_stripe(columns, rows, bytes, round % 2);
		fill_stripe();
		for (uint32_t c = 0; c < columns; c++) {
			if (below(8) == 0)
				stripe.chunk[c] = NULL;
			code[c] = 0;
			for (uint32_t r = 0; r < rows; r++)
				code[c] |= (uint32_t)(job.shape == G4_PARITY_CODE ? g4_parity_coefficient(r, c) :
						      job.shape == G4_PARITY_ONES && r == 0 ? 1 :
						      below(4)				    ? below(256) :
											      below(2))
					   << 8 * r;
		}
		portable.out = other;
		for (uint32_t r = 0; r < rows; r++) {
			out[r] = stripe.chunk[columns + r];
			other[r] = expected[r] + stripe.shift[columns + r];
			fill_random(out[r], bytes);
			memcpy(other[r], out[r], bytes);
		}
		if (job.way == G4_PARITY_COMPARE && bytes > from) {
			/* mostly right: one row has a wrong byte */
			const uint32_t bad = below(rows + 1), at = from + below(bytes - from);

			portable.way = G4_PARITY_SET;
			g4_parity_combine_portable(&portable, from, bytes);
			portable.way = G4_PARITY_COMPARE;
			if (bad < rows)
				((uint8_t *)other[bad])[at] ^= (uint8_t)(1 << below(8));
			for (uint32_t r = 0; r < rows; r++)
				memcpy(out[r], other[r], bytes);
			wrong = bad < rows ? 1u << bad : 0;
		} else {
			wrong = 0;
		}
		assert_int_equal(g4_parity_combine_portable(&portable, from, bytes), wrong);
		assert_int_equal(variant(&job, from, bytes), wrong);
		for (uint32_t r = 0; r < rows; r++) {
			assert_memory_equal(out[r], other[r], bytes);
			for (uint32_t b = 0; b < GUARD; b++)
				assert_int_equal(((uint8_t *)out[r])[bytes + b], 0xee);
		}
	}
}

static void avx2_agrees_with_portable(void **state)
{
	(void)state;
#if G4_PARITY_HAVE_X86
	if (g4_parity_avx2_usable()) {
		compare_variant(g4_parity_combine_avx2, 4000, true);
		return;
	}
#endif
	skip();
}

static void avx512_agrees_with_portable(void **state)
{
	(void)state;
#if G4_PARITY_HAVE_X86
	if (g4_parity_avx512_usable()) {
		compare_variant(g4_parity_combine_avx512, 4000, true);
		return;
	}
#endif
	skip();
}

static void words_agree_with_portable(void **state)
{
	(void)state;
	compare_variant(by_words, 4000, false);
}

static void what_is_chosen_agrees_with_portable(void **state)
{
	(void)state;
	compare_variant(by_all_lanes, 4000, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(avx2_agrees_with_portable),
		cmocka_unit_test(avx512_agrees_with_portable),
		cmocka_unit_test(words_agree_with_portable),
		cmocka_unit_test(what_is_chosen_agrees_with_portable),
	};

	return cmocka_run_group_tests_name("parity combine", tests, begin, end);
}
