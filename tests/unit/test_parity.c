/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parity: that the code is MDS, every square part of its matrix; vectors; all erasures of stripes of up to 16 disks and samples of up to
 * 64; changes and verification. (The variants: test_parity_combine.c.)
 */
#include "hash/crc32c.h"
#include "unit/parity_stripe.h"
#include "unit/parity_vectors.h"

static struct g4_parity_scratch *scratch;
static struct g4_wg *wg;

static int begin(void **state)
{
	(void)state;
	wg = g4_wg_create(0);
	scratch = malloc(sizeof(*scratch));
	return wg == NULL || scratch == NULL;
}

static int end(void **state)
{
	(void)state;
	free(scratch);
	g4_wg_destroy(wg);
	return 0;
}

/* ---- the field and the matrix, by arithmetic of our own ---- */

static uint8_t products[256][256], inverses[256];

static uint8_t slow_product(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (uint32_t bit = 0; bit < 8; bit++) {
		if (b >> bit & 1)
			product ^= a << bit;
	}
	for (uint32_t bit = 15; bit-- > 8;) {
		if (product >> bit & 1)
			product ^= 0x11du << (bit - 8);
	}
	return (uint8_t)product;
}

static void make_products(void)
{
	for (uint32_t a = 0; a < 256; a++) {
		for (uint32_t b = 0; b < 256; b++) {
			products[a][b] = slow_product(a, b);
			if (products[a][b] == 1)
				inverses[a] = (uint8_t)b;
		}
	}
}

static uint8_t power_of_2(uint32_t n)
{
	uint8_t power = 1;

	while (n-- > 0)
		power = products[power][2];
	return power;
}

static void coefficients_are_what_the_header_says(void **state)
{
	(void)state;
	for (uint32_t j = 0; j < G4_PARITY_DISKS; j++) {
		const uint8_t two = power_of_2(j + 1), four = power_of_2(j + 2);

		assert_int_equal(g4_parity_coefficient(0, j), 1);
		assert_int_equal(g4_parity_coefficient(1, j), power_of_2(j));
		assert_int_equal(g4_parity_coefficient(2, j), products[two][inverses[two ^ 1]]);
		assert_int_equal(g4_parity_coefficient(3, j), products[four][inverses[four ^ 1]]);
	}
}

typedef uint8_t matrix[G4_PARITY_MOST][G4_PARITY_DISKS];

/* Rows rows[0] to rows[n - 1] and as many columns: true if they have no inverse. */
static bool is_singular(matrix of, const uint32_t *rows, const uint32_t *columns, uint32_t n)
{
	uint8_t a[4][4];

	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t j = 0; j < n; j++)
			a[i][j] = of[rows[i]][columns[j]];
	}
	for (uint32_t i = 0; i < n; i++) {
		uint32_t pivot = i;

		while (pivot < n && a[pivot][i] == 0)
			pivot++;
		if (pivot == n)
			return true;
		for (uint32_t j = 0; j < n; j++) {
			const uint8_t other = a[i][j];

			a[i][j] = a[pivot][j];
			a[pivot][j] = other;
		}
		for (uint32_t under = i + 1; under < n; under++) {
			const uint8_t factor = products[a[under][i]][inverses[a[i][i]]];

			for (uint32_t j = i; j < n; j++)
				a[under][j] ^= products[factor][a[i][j]];
		}
	}
	return false;
}

struct parts {
	uint64_t count, singular;
};

/* All choices of n columns out of `most`, for these rows. */
static void try_columns(matrix of, const uint32_t *rows, uint32_t n, uint32_t most, struct parts *parts)
{
	uint32_t columns[4] = {0, 1, 2, 3};

	for (;;) {
		uint32_t last = n;

		parts->singular += is_singular(of, rows, columns, n);
		parts->count++;
		while (last > 0 && columns[last - 1] == most - (n - last) - 1)
			last--;
		if (last == 0)
			return;
		for (uint32_t value = ++columns[last - 1]; last < n; last++)
			columns[last] = ++value;
	}
}

/*
 * The square parts of the matrix for 64 disks and every m: of those that need parity m - 1, which 64 - m columns have. The others are
 * parts of the matrix for a smaller m.
 */
static struct parts try_all(matrix of)
{
	struct parts parts = {0, 0};

	for (uint32_t m = 1; m <= G4_PARITY_MOST; m++) {
		for (uint32_t set = 1u << (m - 1); set < 1u << m; set++) {
			uint32_t rows[4], n = 0;

			for (uint32_t r = 0; r < m; r++) {
				if (set >> r & 1)
					rows[n++] = r;
			}
			try_columns(of, rows, n, G4_PARITY_DISKS - m, &parts);
		}
	}
	/* sum over m and n of (m - 1 over n - 1) (64 - m over n) */
	assert_int_equal(parts.count,
			 63 + (62 + 1891) + (61 + 2 * 1830 + 35990) + (60 + 3 * 1770 + 3 * 34220 + 487635));
	return parts;
}

/* A code is MDS if every square part of its parity matrix has an inverse. */
static void every_square_part_has_an_inverse(void **state)
{
	struct parts parts;
	matrix code;

	(void)state;
	for (uint32_t r = 0; r < G4_PARITY_MOST; r++) {
		for (uint32_t j = 0; j < G4_PARITY_DISKS; j++)
			code[r][j] = g4_parity_coefficient(r, j);
	}
	parts = try_all(code);
	print_message("%llu square parts, %llu singular\n", (unsigned long long)parts.count,
		      (unsigned long long)parts.singular);
	assert_int_equal(parts.singular, 0);
}

/* That the test above would see it: the document's Vandermonde matrix, powers 0 to 3 of the numbers from 1 on, makes none. */
static void the_documents_code_is_not_mds(void **state)
{
	struct parts parts;
	matrix code;

	(void)state;
	for (uint32_t r = 0; r < G4_PARITY_MOST; r++) {
		for (uint32_t j = 0; j < G4_PARITY_DISKS; j++)
			code[r][j] = r ? products[code[r - 1][j]][j + 1] : 1;
	}
	parts = try_all(code);
	print_message("%llu square parts, %llu singular\n", (unsigned long long)parts.count,
		      (unsigned long long)parts.singular);
	assert_true(parts.singular > 0);
}

/* ---- stripes ---- */

enum action { ENCODE, VERIFY, UPDATE, RECONSTRUCT };

struct call {
	enum action action;
	uint64_t lost;
	void *chunk[G4_PARITY_DISKS];
	uint32_t n;
	uint32_t terms[G4_PARITY_DISKS];
	const void *contents[G4_PARITY_DISKS];
	uint64_t result;
};

static struct call call;

static void run_call(struct g4_wg *group, void *args)
{
	struct call *c = (struct call *)args;
	const struct stripe *s = &stripe;
	const void *const *data = (const void *const *)c->chunk;
	uint64_t result = 0;

	g4_converge(group);
	switch (c->action) {
	case ENCODE:
		g4_parity_encode(group, s->k, s->m, data, c->chunk + s->k, s->bytes);
		break;
	case VERIFY:
		result = g4_parity_verify(group, s->k, s->m, data, c->chunk + s->k, s->bytes);
		break;
	case UPDATE:
		g4_parity_update(group, c->n, c->terms, c->contents, s->m, c->chunk + s->k, s->bytes, scratch);
		break;
	case RECONSTRUCT:
		result = g4_parity_reconstruct(group, s->k, s->m, c->lost, c->chunk, s->bytes, scratch);
	}
	/* every lane has the same result */
	assert_true(g4_all(group, result == g4_broadcast(group, result, 0)));
	if (g4_wg_lane(group) == 0)
		c->result = result;
}

static uint64_t do_call(enum action action)
{
	memset(scratch, 0xa5, sizeof(*scratch));
	call.action = action;
	g4_region(wg, G4_REGION_USER, run_call, &call);
	return call.result;
}

static void begin_stripe(uint32_t k, uint32_t m, uint32_t bytes, bool aligned)
{
	place_stripe(k, m, bytes, aligned);
	memcpy(call.chunk, stripe.chunk, sizeof(call.chunk));
}

static void expect_guards(void)
{
	for (uint32_t i = 0; i < stripe.k + stripe.m; i++) {
		for (uint32_t b = 0; b < GUARD; b++) {
			assert_int_equal(((uint8_t *)stripe.chunk[i])[stripe.bytes + b], 0xee);
			assert_int_equal(((uint8_t *)stripe.chunk[i])[(int)b - (int)GUARD], 0xee);
		}
	}
}

/* The parity as the header defines it. */
static void expect_parity(void)
{
	for (uint32_t r = 0; r < stripe.m; r++) {
		const uint8_t *parity = (const uint8_t *)stripe.chunk[stripe.k + r];

		for (uint32_t i = 0; i < stripe.bytes; i++) {
			uint8_t sum = 0;

			for (uint32_t j = 0; j < stripe.k; j++) {
				if (call.chunk[j])
					sum ^= products[g4_parity_coefficient(r, j)]
						       [((const uint8_t *)stripe.chunk[j])[i]];
			}
			assert_int_equal(parity[i], sum);
		}
	}
}

static void vectors_match(void **state)
{
	(void)state;
	for (size_t v = 0; v < sizeof(parity_vectors) / sizeof(parity_vectors[0]); v++) {
		for (uint32_t m = 1; m <= G4_PARITY_MOST; m++) {
			begin_stripe(parity_vectors[v].k, m, parity_vectors[v].bytes, v % 2);
			for (uint32_t j = 0; j < stripe.k; j++) {
				for (uint32_t i = 0; i < stripe.bytes; i++)
					((uint8_t *)stripe.chunk[j])[i] = parity_vector_byte(j, i);
			}
			do_call(ENCODE);
			for (uint32_t r = 0; r < m; r++)
				assert_int_equal(g4_crc32c(0, stripe.chunk[stripe.k + r], stripe.bytes),
						 parity_vectors[v].crc[r]);
			expect_guards();
		}
	}
}

/* ---- what the functions promise ---- */

static void parity_is_as_defined(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 300; round++) {
		const uint32_t m = 1 + below(4), k = 1 + below(round % 4 ? 12 : G4_PARITY_DISKS - m);

		begin_stripe(k, m, below(round % 10 ? 600 : MOST_BYTES), round % 3 == 0);
		fill_stripe();
		for (uint32_t j = 0; j < k; j++) {
			if (below(6) == 0)
				call.chunk[j] = NULL; /* counts as zeros */
		}
		do_call(ENCODE);
		expect_parity();
		expect_guards();
		assert_int_equal(do_call(VERIFY), 0);
	}
}

static void one_wrong_bit_is_seen(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 2000; round++) {
		const uint32_t m = 1 + below(4), k = 1 + below(12), bytes = 1 + below(500), bad = below(k + m);
		uint8_t *byte;

		begin_stripe(k, m, bytes, round % 2);
		fill_stripe();
		do_call(ENCODE);
		byte = (uint8_t *)stripe.chunk[bad] + below(bytes);
		*byte ^= (uint8_t)(1 << below(8));
		/* data: all parities are wrong, for no coefficient is 0 */
		assert_int_equal(do_call(VERIFY), bad < k ? (1u << m) - 1 : 1u << (bad - k));
	}
}

/* Contents of some chunks, from and to zeros as well, change; the parity is then what encoding makes. */
static void changes_give_the_same_parity(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 500; round++) {
		const uint32_t m = 1 + below(4), k = 1 + below(round % 4 ? 12 : 60), bytes = below(600);
		const uint32_t changes = 1 + below(k < 32 ? k : 32);

		begin_stripe(k, m, bytes, round % 2);
		fill_stripe();
		for (uint32_t j = 0; j < k; j++) {
			if (below(4) == 0)
				call.chunk[j] = NULL;
		}
		do_call(ENCODE);
		call.n = 0;
		for (uint32_t i = 0; i < changes; i++) {
			uint8_t *to = memory[G4_PARITY_DISKS + i];

			if (call.chunk[i]) { /* out with the old */
				memcpy(to, stripe.chunk[i], bytes);
				call.terms[call.n] = i;
				call.contents[call.n++] = to;
				call.chunk[i] = NULL;
			}
			if (below(3) > 0) {
				fill_random(stripe.chunk[i], bytes);
				call.terms[call.n] = i;
				call.contents[call.n++] = call.chunk[i] = stripe.chunk[i];
			}
		}
		if (call.n > 0)
			do_call(UPDATE);
		expect_parity();
		expect_guards();
		assert_int_equal(do_call(VERIFY), 0);
	}
}

static uint8_t saved[G4_PARITY_DISKS][MOST_BYTES];

static void save_stripe(void)
{
	for (uint32_t i = 0; i < stripe.k + stripe.m; i++)
		memcpy(saved[i], stripe.chunk[i], stripe.bytes);
}

/* Loses the chunks in `lost`; all but those in `unwanted` come back. `spare`: parities that are not needed are not there. */
static void lose(uint64_t lost, uint64_t unwanted, bool spare)
{
	uint32_t needed = g4_count_bits(lost & ((UINT64_C(1) << stripe.k) - 1));

	memcpy(call.chunk, stripe.chunk, sizeof(call.chunk));
	call.lost = lost;
	for (uint32_t i = 0; i < stripe.k + stripe.m; i++) {
		if (lost >> i & 1) {
			memset(stripe.chunk[i], 0x5a, stripe.bytes);
			if (unwanted >> i & 1)
				call.chunk[i] = NULL;
		} else if (i >= stripe.k) {
			if (needed > 0)
				needed--;
			else if (spare)
				call.chunk[i] = NULL;
		}
	}
	assert_int_equal(do_call(RECONSTRUCT), true);
	for (uint32_t i = 0; i < stripe.k + stripe.m; i++) {
		if (lost & unwanted & UINT64_C(1) << i) {
			for (uint32_t b = 0; b < stripe.bytes; b++)
				assert_int_equal(((uint8_t *)stripe.chunk[i])[b], 0x5a);
			memcpy(stripe.chunk[i], saved[i], stripe.bytes);
		}
		assert_memory_equal(stripe.chunk[i], saved[i], stripe.bytes);
	}
}

static void all_erasures_up_to_16_disks(void **state)
{
	uint64_t count = 0;

	(void)state;
	for (uint32_t m = 1; m <= G4_PARITY_MOST; m++) {
		for (uint32_t k = 1; k + m <= 16; k++) {
			begin_stripe(k, m, 1 + below(300), k % 2);
			fill_stripe();
			do_call(ENCODE);
			save_stripe();
			for (uint64_t lost = 1; lost < UINT64_C(1) << (k + m); lost++) {
				if (g4_count_bits(lost) > m)
					continue;
				lose(lost, count % 3 ? 0 : next_random(), count % 2);
				count++;
			}
			expect_guards();
		}
	}
	print_message("%llu erasures\n", (unsigned long long)count);
}

static void sampled_erasures_up_to_64_disks(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 400; round++) {
		const uint32_t m = 1 + below(4), k = round % 4 ? 1 + below(G4_PARITY_DISKS - m) : G4_PARITY_DISKS - m;

		begin_stripe(k, m, 1 + below(round % 50 ? 200 : MOST_BYTES), round % 2);
		fill_stripe();
		do_call(ENCODE);
		save_stripe();
		for (uint32_t i = 0; i < 10; i++) {
			uint64_t lost = 0;

			while (g4_count_bits(lost) < m)
				lost |= UINT64_C(1) << below(k + m);
			lose(lost, i % 2 ? 0 : next_random(), i % 3 == 0);
		}
		expect_guards();
	}
}

static void data_that_counts_as_zeros_stays_so(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 300; round++) {
		const uint32_t m = 1 + below(4), k = 2 + below(10), bytes = 1 + below(300);
		uint32_t lost_one, zero;

		begin_stripe(k, m, bytes, round % 2);
		fill_stripe();
		zero = below(k);
		lost_one = (zero + 1 + below(k - 1)) % k;
		call.chunk[zero] = NULL;
		do_call(ENCODE);
		memcpy(saved[0], stripe.chunk[lost_one], bytes);
		memset(stripe.chunk[lost_one], 0x5a, bytes);
		call.lost = UINT64_C(1) << lost_one;
		assert_int_equal(do_call(RECONSTRUCT), true);
		assert_memory_equal(stripe.chunk[lost_one], saved[0], bytes);
	}
}

/* Refused, and nothing is written. */
static void too_much_lost_is_refused(void **state)
{
	(void)state;
	for (uint32_t round = 0; round < 1000; round++) {
		const uint32_t m = 1 + below(4), k = 1 + below(12), bytes = 1 + below(100);
		uint64_t lost = 0;

		begin_stripe(k, m, bytes, round % 2);
		fill_stripe();
		do_call(ENCODE);
		while (g4_count_bits(lost) <= m)
			lost |= UINT64_C(1) << below(k + m);
		save_stripe();
		call.lost = lost;
		assert_int_equal(do_call(RECONSTRUCT), false);
		for (uint32_t i = 0; i < k + m; i++)
			assert_memory_equal(stripe.chunk[i], saved[i], bytes);
	}
}

/* A parity that nobody can read is no parity. */
static void parities_that_are_not_at_hand_are_not_used(void **state)
{
	(void)state;
	begin_stripe(4, 3, 100, true);
	fill_stripe();
	do_call(ENCODE);
	save_stripe();
	call.lost = 3;
	call.chunk[4] = NULL;
	memset(stripe.chunk[0], 0, 100);
	assert_int_equal(do_call(RECONSTRUCT), true);
	assert_memory_equal(stripe.chunk[0], saved[0], 100);
	call.chunk[6] = NULL;
	assert_int_equal(do_call(RECONSTRUCT), false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(coefficients_are_what_the_header_says),
		cmocka_unit_test(every_square_part_has_an_inverse),
		cmocka_unit_test(the_documents_code_is_not_mds),
		cmocka_unit_test(vectors_match),
		cmocka_unit_test(parity_is_as_defined),
		cmocka_unit_test(one_wrong_bit_is_seen),
		cmocka_unit_test(changes_give_the_same_parity),
		cmocka_unit_test(all_erasures_up_to_16_disks),
		cmocka_unit_test(sampled_erasures_up_to_64_disks),
		cmocka_unit_test(data_that_counts_as_zeros_stays_so),
		cmocka_unit_test(too_much_lost_is_refused),
		cmocka_unit_test(parities_that_are_not_at_hand_are_not_used),
	};

	make_products();
	return cmocka_run_group_tests_name("parity", tests, begin, end);
}
