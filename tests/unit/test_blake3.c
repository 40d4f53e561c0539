/* SPDX-License-Identifier: Apache-2.0 */
/* BLAKE3: published vectors, pieces of any size, many buffers, the workgroup's form, all variants against the portable one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "hash/blake3_types.h"
#include "simt/simt_host.h"
#include "unit/blake3_vectors.h"

#define BUFFER_BYTES (700 * 1024)
#define MANY 60

static uint8_t buffer[BUFFER_BYTES];
static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static void fill_random(void)
{
	for (size_t i = 0; i < sizeof(buffer); i++)
		buffer[i] = (uint8_t)next_random();
}

static void fill_vectors(void)
{
	for (size_t i = 0; i < sizeof(buffer); i++)
		buffer[i] = blake3_vector_byte(i);
}

/* The digest by the portable variant alone, a block at a time. */
static void reference(const uint8_t *data, uint64_t bytes, uint8_t out[32])
{
	uint64_t leaves = g4_blake3_leaves(bytes);
	struct g4_blake3_tree tree;

	g4_blake3_tree_init(&tree);
	for (uint64_t leaf = 0; leaf < leaves; leaf++) {
		uint32_t cv[8];
		struct g4_blake3_job job = {
			.data = data + leaf * 1024,
			.leaf = leaf,
			.bytes = g4_blake3_leaf_bytes(bytes, leaf),
			.flags = leaves == 1 ? G4_BLAKE3_ROOT : 0,
			.cv = cv,
		};

		g4_blake3_job_portable(&job);
		if (leaf + 1 < leaves)
			g4_blake3_tree_push(&tree, cv, 1);
		else
			g4_blake3_tree_final(&tree, cv, out);
	}
}

static void assert_digest(const uint8_t digest[32], const char *hex)
{
	char text[65];

	for (int i = 0; i < 32; i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
	assert_string_equal(text, hex);
}

static void published_vectors_match(void **state)
{
	(void)state;
	fill_vectors();
	for (size_t i = 0; i < BLAKE3_VECTORS; i++) {
		uint8_t digest[32];
		struct g4_blake3 hash;

		reference(buffer, blake3_vectors[i].bytes, digest);
		assert_digest(digest, blake3_vectors[i].digest);
		g4_blake3(buffer, blake3_vectors[i].bytes, digest);
		assert_digest(digest, blake3_vectors[i].digest);
		g4_blake3_init(&hash);
		g4_blake3_update(&hash, buffer, blake3_vectors[i].bytes);
		g4_blake3_final(&hash, digest);
		assert_digest(digest, blake3_vectors[i].digest);
	}
}

/* The published vectors of the keyed hash, of the same input. */
#define BLAKE3_VECTOR_KEY "whats the Elvish word for friend"
static const struct {
	uint64_t bytes;
	const char *digest;
} blake3_keyed_vectors[] = {
	{0, "92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26"},
	{1, "6d7878dfff2f485635d39013278ae14f1454b8c0a3a2d34bc1ab38228a80c95b"},
	{1023, "c951ecdf03288d0fcc96ee3413563d8a6d3589547f2c2fb36d9786470f1b9d6e"},
	{1024, "75c46f6f3d9eb4f55ecaaee480db732e6c2105546f1e675003687c31719c7ba4"},
	{1025, "357dc55de0c7e382c900fd6e320acc04146be01db6a8ce7210b7189bd664ea69"},
	{2048, "879cf1fa2ea0e79126cb1063617a05b6ad9d0b696d0d757cf053439f60a99dd1"},
	{2049, "9f29700902f7c86e514ddc4df1e3049f258b2472b6dd5267f61bf13983b78dd5"},
	{3073, "68dede9bef00ba89e43f31a6825f4cf433389fedae75c04ee9f0cf16a427c95a"},
	{4096, "befc660aea2f1718884cd8deb9902811d332f4fc4a38cf7c7300d597a081bfc0"},
	{5121, "6ccf1c34753e7a044db80798ecd0782a8f76f33563accaddbfbb2e0ea4b2d024"},
	{6145, "9ac301e9e39e45e3250a7e3b3df701aa0fb6889fbd80eeecf28dbc6300fbc539"},
	{7169, "ed9b1a922c046fdb3d423ae34e143b05ca1bf28b710432857bf738bcedbfa511"},
};
#define BLAKE3_KEYED_VECTORS (sizeof(blake3_keyed_vectors) / sizeof(blake3_keyed_vectors[0]))

static void published_keyed_vectors_match(void **state)
{
	(void)state;
	fill_vectors();
	for (size_t i = 0; i < BLAKE3_KEYED_VECTORS; i++) {
		uint8_t digest[32];

		g4_blake3_keyed((const uint8_t *)BLAKE3_VECTOR_KEY, buffer, blake3_keyed_vectors[i].bytes, digest);
		assert_digest(digest, blake3_keyed_vectors[i].digest);
	}
}

static void no_bytes_need_no_pointer(void **state)
{
	uint8_t digest[32];
	struct g4_blake3 hash;

	(void)state;
	g4_blake3(NULL, 0, digest);
	assert_digest(digest, blake3_vectors[0].digest);
	g4_blake3_init(&hash);
	g4_blake3_update(&hash, NULL, 0);
	g4_blake3_final(&hash, digest);
	assert_digest(digest, blake3_vectors[0].digest);
}

static void pieces_of_any_size_make_the_whole(void **state)
{
	(void)state;
	fill_random();
	for (int round = 0; round < 200; round++) {
		uint64_t bytes = next_random() % (round % 4 ? 20000 : BUFFER_BYTES);
		uint64_t most = 1 + next_random() % (round % 3 ? 3000 : BUFFER_BYTES);
		uint8_t wanted[32], digest[32];
		struct g4_blake3 hash;

		reference(buffer, bytes, wanted);
		g4_blake3_init(&hash);
		for (uint64_t at = 0; at < bytes;) {
			uint64_t take = g4_min64(next_random() % (most + 1), bytes - at);

			g4_blake3_update(&hash, buffer + at, take);
			at += take;
		}
		g4_blake3_final(&hash, digest);
		assert_memory_equal(digest, wanted, 32);
	}
}

static void final_leaves_room_for_more(void **state)
{
	uint8_t wanted[32], digest[32];
	struct g4_blake3 hash;

	(void)state;
	fill_random();
	g4_blake3_init(&hash);
	for (uint64_t bytes = 0; bytes < 5000; bytes += 61) {
		g4_blake3_final(&hash, digest);
		reference(buffer, bytes, wanted);
		assert_memory_equal(digest, wanted, 32);
		g4_blake3_update(&hash, buffer + bytes, 61);
	}
}

static void every_bit_counts(void **state)
{
	uint8_t whole[32], digest[32];

	(void)state;
	fill_random();
	g4_blake3(buffer, 4096, whole);
	for (uint32_t bit = 0; bit < 4096 * 8; bit += 13) {
		buffer[bit / 8] ^= (uint8_t)(1 << bit % 8);
		g4_blake3(buffer, 4096, digest);
		assert_memory_not_equal(digest, whole, 32);
		buffer[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

/* ---- many buffers ---- */

struct set {
	uint64_t n;
	const void *data[MANY];
	uint64_t bytes[MANY];
	uint8_t out[MANY][32];
	struct g4_blake3_scratch scratch;
};

/* Buffers of up to `most` bytes at any address. */
static void make_set(struct set *set, uint64_t n, uint64_t most)
{
	set->n = n;
	for (uint64_t i = 0; i < n; i++) {
		set->bytes[i] = next_random() % (most + 1);
		set->data[i] = buffer + next_random() % (BUFFER_BYTES - set->bytes[i]);
	}
	memset(set->out, 0xee, sizeof(set->out));
}

static void check_set(const struct set *set)
{
	uint8_t untouched[32];

	memset(untouched, 0xee, sizeof(untouched));
	for (uint64_t i = 0; i < set->n; i++) {
		uint8_t wanted[32];

		reference((const uint8_t *)set->data[i], set->bytes[i], wanted);
		assert_memory_equal(set->out[i], wanted, 32);
	}
	for (uint64_t i = set->n; i < MANY; i++)
		assert_memory_equal(set->out[i], untouched, 32);
}

static const uint64_t most_bytes[] = {0, 64, 1024, 1500, 4096, 20000, 262144, 300000, 600000};
#define SIZES (sizeof(most_bytes) / sizeof(most_bytes[0]))

static void many_buffers_have_their_own_digests(void **state)
{
	struct set *set = (struct set *)test_malloc(sizeof(*set));

	(void)state;
	fill_random();
	for (uint64_t round = 0; round < 8 * SIZES; round++) {
		make_set(set, round % 5 ? next_random() % MANY : round % 3, most_bytes[round % SIZES]);
		g4_blake3_many(set->n, set->data, set->bytes, set->out);
		check_set(set);
	}
	test_free(set);
}

static void many_pages_have_their_own_digests(void **state)
{
	struct set *set = (struct set *)test_malloc(sizeof(*set));

	(void)state;
	fill_random();
	for (uint64_t n = 1; n < MANY; n += 3) {
		make_set(set, n, 0);
		for (uint64_t i = 0; i < n; i++) {
			set->bytes[i] = 4096;
			set->data[i] = buffer + i * 4096;
		}
		g4_blake3_many(set->n, set->data, set->bytes, set->out);
		check_set(set);
	}
	test_free(set);
}

static void hash_together(struct g4_wg *wg, void *args)
{
	struct set *set = (struct set *)args;
	const uint64_t half = set->n / 2;

	g4_converge(wg);
	/* twice with the same scratch: no lane may be behind in the first call when another one begins the second */
	g4_blake3_group(wg, half, set->data, set->bytes, set->out, &set->scratch);
	g4_blake3_group(wg, set->n - half, set->data + half, set->bytes + half, set->out + half, &set->scratch);
}

static void a_workgroup_hashes_many_buffers(void **state)
{
	struct set *set = (struct set *)test_malloc(sizeof(*set));
	struct g4_wg *wg = g4_wg_create(0);

	(void)state;
	assert_non_null(wg);
	fill_random();
	memset(&set->scratch, 0xa5, sizeof(set->scratch));
	for (uint64_t round = 0; round < 5 * SIZES; round++) {
		make_set(set, round % 5 ? next_random() % MANY : round % 3, most_bytes[round % SIZES]);
		g4_region(wg, G4_REGION_USER, hash_together, set);
		check_set(set);
	}
	g4_wg_destroy(wg);
	test_free(set);
}

static void a_workgroup_matches_published_vectors(void **state)
{
	struct set *set = (struct set *)test_malloc(sizeof(*set));
	struct g4_wg *wg = g4_wg_create(0);

	(void)state;
	assert_non_null(wg);
	fill_vectors();
	set->n = BLAKE3_VECTORS;
	for (size_t i = 0; i < BLAKE3_VECTORS; i++) {
		set->data[i] = buffer;
		set->bytes[i] = blake3_vectors[i].bytes;
	}
	g4_region(wg, G4_REGION_USER, hash_together, set);
	for (size_t i = 0; i < BLAKE3_VECTORS; i++)
		assert_digest(set->out[i], blake3_vectors[i].digest);
	g4_wg_destroy(wg);
	test_free(set);
}

/* ---- variants ---- */

#if G4_BLAKE3_HAVE_X86
#define MOST_JOBS 41

typedef void jobs_fn(uint32_t n, const struct g4_blake3_job *jobs);

/* Leaves of any length, full ones, and parents that overwrite their children, as joining a level does. */
static void compare_variant(jobs_fn *variant)
{
	static uint32_t ours[2 * MOST_JOBS][8], theirs[2 * MOST_JOBS][8];
	struct g4_blake3_job jobs[MOST_JOBS], portable[MOST_JOBS];

	fill_random();
	for (uint32_t round = 0; round < 600; round++) {
		uint32_t n = (uint32_t)(next_random() % (MOST_JOBS + 1));
		uint32_t what = round % 3;

		memcpy(ours, buffer, sizeof(ours));
		memcpy(theirs, buffer, sizeof(theirs));
		for (uint32_t i = 0; i < n; i++) {
			uint32_t bytes = what == 1 ? (uint32_t)(next_random() % 1025) : 1024;

			jobs[i] = (struct g4_blake3_job){
				.data = what == 2 ? (const uint8_t *)ours[2 * i] :
						    buffer + next_random() % (BUFFER_BYTES - 1024),
				.leaf = what == 2 ? 0 : next_random(),
				.bytes = what == 2 ? 64 : bytes,
				.flags = (what == 2 ? G4_BLAKE3_PARENT : 0) |
					 (next_random() % 4 == 0 && round % 2 ? G4_BLAKE3_ROOT : 0),
				.cv = ours[i],
			};
			portable[i] = jobs[i];
			portable[i].cv = theirs[i];
			if (what == 2)
				portable[i].data = (const uint8_t *)theirs[2 * i];
		}
		variant(n, jobs);
		g4_blake3_jobs_portable(n, portable);
		assert_memory_equal(ours, theirs, sizeof(ours));
	}
}
#endif

static void avx2_agrees_with_portable(void **state)
{
	(void)state;
#if G4_BLAKE3_HAVE_X86
	if (g4_blake3_avx2_usable()) {
		compare_variant(g4_blake3_jobs_avx2);
		return;
	}
#endif
	skip();
}

static void avx512_agrees_with_portable(void **state)
{
	(void)state;
#if G4_BLAKE3_HAVE_X86
	if (g4_blake3_avx512_usable()) {
		compare_variant(g4_blake3_jobs_avx512);
		compare_variant(g4_blake3_jobs_avx512vl);
		return;
	}
#endif
	skip();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_vectors_match),
		cmocka_unit_test(published_keyed_vectors_match),
		cmocka_unit_test(no_bytes_need_no_pointer),
		cmocka_unit_test(pieces_of_any_size_make_the_whole),
		cmocka_unit_test(final_leaves_room_for_more),
		cmocka_unit_test(every_bit_counts),
		cmocka_unit_test(many_buffers_have_their_own_digests),
		cmocka_unit_test(many_pages_have_their_own_digests),
		cmocka_unit_test(a_workgroup_hashes_many_buffers),
		cmocka_unit_test(a_workgroup_matches_published_vectors),
		cmocka_unit_test(avx2_agrees_with_portable),
		cmocka_unit_test(avx512_agrees_with_portable),
	};

	return cmocka_run_group_tests_name("blake3", tests, NULL, NULL);
}
