/* SPDX-License-Identifier: Apache-2.0 */
/* Results whose words come in any order: what the engine marks (ring/execute.h), and when a client takes them. */
#include <pthread.h>

#include "ring/client_host.h"
#include "ring/execute.h"

#include "api_fixture.h" /* its fs is a parameter's name there */

#define MOST_WORDS (1 + G4_RING_ALL_WORDS) /* with tops, which is the first */

/* What the words behind a result's first one are to be taken for, and what they look like on their way. */
struct parcel {
	uint64_t values[G4_RING_ALL_WORDS];
	uint64_t marked[MOST_WORDS];
	uint32_t count; /* of marked */
};

static void pack(struct parcel *parcel, bool attr)
{
	const uint32_t words = attr ? G4_RING_ALL_WORDS : G4_RING_FEW_WORDS;

	parcel->count = 1 + words;
	parcel->marked[0] = UINT64_C(1) << 63 | (uint64_t)attr << 62;
	for (uint32_t i = 0; i < words; i++) {
		parcel->marked[0] |= parcel->values[i] >> 63 << i;
		parcel->marked[1 + i] = parcel->values[i] | UINT64_C(1) << 63;
	}
}

static void pack_noise(struct parcel *parcel, bool attr, uint64_t *seed)
{
	for (uint32_t i = 0; i < G4_RING_ALL_WORDS; i++)
		parcel->values[i] = api_random(seed) % 4 ? api_random(seed) : 0;
	pack(parcel, attr);
}

/* Out of ThreadSanitizer's sight, as the stores of a GPU are: the taker of a result finds out by its words alone. */
__attribute__((noinline, no_sanitize("thread"))) static void put_word(struct g4_ring_result *result,
								      const struct parcel *parcel, uint32_t word)
{
	volatile uint64_t *to = &result->tops;

	to[word] = parcel->marked[word];
}

/* The same order for the same seed. */
static void shuffle(uint32_t order[MOST_WORDS], uint32_t count, uint64_t *seed)
{
	for (uint32_t i = 0; i < count; i++) {
		const uint32_t k = (uint32_t)(api_random(seed) % (i + 1));

		order[i] = order[k];
		order[k] = i;
	}
}

static bool is_what_was_sent(const struct g4_ring_result *taken, const struct parcel *parcel)
{
	return !(taken->tops & G4_RING_HAS_ATTR) == (parcel->count != MOST_WORDS) &&
	       memcmp(&taken->value, parcel->values, (parcel->count - 1) * sizeof(uint64_t)) == 0;
}

static void expect_taken(struct g4_ring_result *result, const struct parcel *parcel)
{
	static const struct g4_ring_result nothing;
	struct g4_ring_result taken;

	result->word = 77 | G4_RING_WORD_FULL;
	assert_true(g4_ring_result_take(result, &taken));
	assert_true(is_what_was_sent(&taken, parcel));
	assert_int_equal(taken.word, 77 | G4_RING_WORD_FULL);
	assert_memory_equal(&result->tops, &nothing.tops, sizeof(nothing) - sizeof(nothing.word));
	assert_false(g4_ring_result_take(result, &taken));
}

static void expect_not_taken(struct g4_ring_result *result)
{
	const struct g4_ring_result before = *result;
	struct g4_ring_result taken;

	assert_false(g4_ring_result_take(result, &taken));
	assert_memory_equal(result, &before, sizeof(before));
}

static void a_result_is_taken_when_its_last_word_is_there(void **state)
{
	struct g4_ring_result result = {0};
	struct parcel parcel = {0};
	uint64_t seed = 1;

	(void)state;
	for (uint32_t round = 0; round < 40; round++) {
		if (round >= 4) /* before: zeros, and all bits */
			pack_noise(&parcel, round % 2, &seed);
		else
			memset(parcel.values, round < 2 ? 0 : 0xff, sizeof(parcel.values));
		pack(&parcel, round % 2);
		for (uint32_t last = 0; last < parcel.count; last++) {
			for (uint32_t i = 0; i < parcel.count; i++)
				if (i != last)
					put_word(&result, &parcel, i);
			expect_not_taken(&result);
			put_word(&result, &parcel, last);
			expect_taken(&result, &parcel);
		}
	}
}

static void the_words_of_a_result_come_in_any_order(void **state)
{
	struct g4_ring_result result = {0};
	uint32_t order[MOST_WORDS];
	struct parcel parcel;
	uint64_t seed = 2;

	(void)state;
	for (uint32_t round = 0; round < 2000; round++) {
		pack_noise(&parcel, api_random(&seed) % 2, &seed);
		shuffle(order, parcel.count, &seed);
		for (uint32_t i = 0; i < parcel.count; i++) {
			expect_not_taken(&result);
			put_word(&result, &parcel, order[i]);
		}
		expect_taken(&result, &parcel);
	}
}

static void each_value_keeps_its_highest_bit(void **state)
{
	struct g4_ring_result result = {0};
	struct parcel parcel;

	(void)state;
	for (uint32_t attr = 0; attr < 2; attr++) {
		for (uint32_t high = 0; high < G4_RING_ALL_WORDS; high++) {
			for (uint32_t i = 0; i < G4_RING_ALL_WORDS; i++)
				parcel.values[i] = i + (i == high ? UINT64_C(1) << 63 : 0);
			pack(&parcel, attr);
			for (uint32_t i = 0; i < parcel.count; i++)
				put_word(&result, &parcel, i);
			expect_taken(&result, &parcel);
		}
	}
}

static void the_engine_marks_words_as_clients_take_them(void **state)
{
	struct g4_ring_result result;
	struct parcel parcel;
	uint64_t seed = 3;

	(void)state;
	for (uint32_t round = 0; round < 200; round++) {
		pack_noise(&parcel, round % 2, &seed);
		memset(&result, 0, sizeof(result));
		result.tops = round % 2 ? G4_RING_HAS_ATTR : 0;
		memcpy(&result.value, parcel.values, (parcel.count - 1) * sizeof(uint64_t));
		g4_session_mark(false, NULL, &result, parcel.count * sizeof(uint64_t));
		assert_memory_equal(&result.tops, parcel.marked, parcel.count * sizeof(uint64_t));
		expect_taken(&result, &parcel);
	}
}

#define PARCELS 3000u

struct post {
	struct g4_ring_result result;
	uint32_t taken; /* how many were */
	uint32_t wrong;
};

/* Sends one after the other, each in an order of its own; the receiver knows from the seed what they are. */
static void *send_parcels(void *argument)
{
	struct post *post = argument;
	uint32_t order[MOST_WORDS];
	struct parcel parcel;
	uint64_t seed = 4;

	for (uint32_t n = 0; n < PARCELS; n++) {
		pack_noise(&parcel, n % 3, &seed);
		shuffle(order, parcel.count, &seed);
		while (g4_load32_acq(&post->taken) != n)
			g4_pause();
		for (uint32_t i = 0; i < parcel.count; i++)
			put_word(&post->result, &parcel, order[i]);
	}
	return NULL;
}

static void a_result_is_taken_while_its_words_come(void **state)
{
	struct post post = {.wrong = 0};
	struct g4_ring_result taken;
	uint32_t order[MOST_WORDS];
	struct parcel parcel;
	uint64_t seed = 4;
	pthread_t thread;

	(void)state;
	ok(pthread_create(&thread, NULL, send_parcels, &post));
	for (uint32_t n = 0; n < PARCELS; n++) {
		pack_noise(&parcel, n % 3, &seed);
		shuffle(order, parcel.count, &seed);
		while (!g4_ring_result_take(&post.result, &taken))
			g4_pause();
		post.wrong += !is_what_was_sent(&taken, &parcel);
		g4_store32_rel(&post.taken, n + 1);
	}
	ok(pthread_join(thread, NULL));
	assert_int_equal(post.wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_result_is_taken_when_its_last_word_is_there),
		cmocka_unit_test(the_words_of_a_result_come_in_any_order),
		cmocka_unit_test(each_value_keeps_its_highest_bit),
		cmocka_unit_test(the_engine_marks_words_as_clients_take_them),
		cmocka_unit_test(a_result_is_taken_while_its_words_come),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
