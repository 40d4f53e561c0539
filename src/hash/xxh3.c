/* SPDX-License-Identifier: Apache-2.0 */
/*
 * XXH3-128: the portable variant, the choice of a variant, and the hash of many buffers by the lanes of a workgroup.
 *
 * By lanes: four of them take one buffer, each two of the eight sums, which depend on each other's input only. Each goes
 * through four blocks side by side, so that four loads are under way and the secret is loaded once for all; what the blocks
 * add is then scrambled in in their order.
 */
#include "hash/xxh3_types.h"

static G4_CONST uint8_t secret[] __attribute__((aligned(16))) = G4_XXH3_SECRET;
G4_STATIC_ASSERT(sizeof(secret) == 192, "XXH3's secret");
static G4_CONST uint64_t start[8] = G4_XXH3_START;

/* `at` need not be aligned. */
G4_FN static uint64_t secret_word(uint32_t at)
{
	return g4_load_bytes(secret + at, 8);
}

/* What a stripe's word adds to its own sum; to the neighbour's it adds itself. */
G4_FN static inline uint64_t product(uint64_t word, uint64_t key)
{
	const uint64_t keyed = word ^ key;

	return (keyed & UINT32_MAX) * (keyed >> 32);
}

/* `sum` is number i. */
G4_FN static uint64_t scramble(uint64_t sum, uint32_t i)
{
	return (sum ^ sum >> 47 ^ secret_word(G4_XXH3_SCRAMBLE_AT + 8 * i)) * G4_XXH3_PRIME32_1;
}

/* What sums 2 q and 2 q + 1 add to the half of the result that has the secret from `at` on. */
G4_FN static uint64_t fold(uint64_t even, uint64_t odd, uint32_t q, uint32_t at)
{
	const unsigned __int128 wide =
		(unsigned __int128)(even ^ secret_word(at + 16 * q)) * (odd ^ secret_word(at + 16 * q + 8));

	return (uint64_t)wide ^ (uint64_t)(wide >> 64);
}

G4_FN static uint64_t avalanche(uint64_t hash)
{
	hash = (hash ^ hash >> 37) * UINT64_C(0x165667919e3779f9);
	return hash ^ hash >> 32;
}

/* The result from what the four pairs of sums fold to. */
G4_FN static void finish(uint64_t bytes, const uint64_t (*part)[2], uint64_t out[2])
{
	uint64_t low = bytes * G4_XXH3_PRIME64_1;
	uint64_t high = ~(bytes * G4_XXH3_PRIME64_2);

	for (uint32_t q = 0; q < 4; q++) {
		low += part[q][0];
		high += part[q][1];
	}
	out[0] = avalanche(low);
	out[1] = avalanche(high);
}

/* ---- one lane ---- */

G4_FN static void add_stripe(const uint8_t *data, uint32_t secret_at, uint64_t sums[8])
{
	for (uint32_t i = 0; i < 8; i++) {
		const uint64_t word = g4_load_bytes(data + 8 * i, 8);

		sums[i ^ 1] += word;
		sums[i] += product(word, secret_word(secret_at + 8 * i));
	}
}

G4_FN void g4_xxh3_sums_portable(const uint8_t *data, uint64_t bytes, uint64_t sums[8])
{
	const uint64_t stripes = (bytes - 1) / G4_XXH3_STRIPE; /* before the last */

	for (uint32_t i = 0; i < 8; i++)
		sums[i] = start[i];
	for (uint64_t i = 0; i < stripes; i++) {
		add_stripe(data + i * G4_XXH3_STRIPE, (uint32_t)(i % G4_XXH3_BLOCK_STRIPES) * G4_XXH3_STEP, sums);
		if (i % G4_XXH3_BLOCK_STRIPES != G4_XXH3_BLOCK_STRIPES - 1)
			continue;
		for (uint32_t k = 0; k < 8; k++)
			sums[k] = scramble(sums[k], k);
	}
	add_stripe(data + bytes - G4_XXH3_STRIPE, G4_XXH3_LAST_AT, sums);
}

#if G4_XXH3_HAVE_X86
enum variant { VARIANT_UNKNOWN, VARIANT_PORTABLE, VARIANT_AVX2 };

/* Threads that race to set it write the same value. */
static uint32_t chosen;

static uint32_t choose(void)
{
	uint32_t variant = g4_xxh3_avx2_usable() ? VARIANT_AVX2 : VARIANT_PORTABLE;

	g4_store32_rlx(&chosen, variant);
	return variant;
}

static void add_all(const uint8_t *data, uint64_t bytes, uint64_t sums[8])
{
	uint32_t variant = g4_load32_rlx(&chosen);

	if (variant == VARIANT_UNKNOWN)
		variant = choose();
	switch (variant) {
	case VARIANT_AVX2:
		g4_xxh3_sums_avx2(data, bytes, sums);
		break;
	default:
		g4_xxh3_sums_portable(data, bytes, sums);
	}
}
#else
G4_FN static void add_all(const uint8_t *data, uint64_t bytes, uint64_t sums[8])
{
	g4_xxh3_sums_portable(data, bytes, sums);
}
#endif

G4_FN void g4_xxh3_128(const void *data, uint64_t bytes, uint64_t out[2])
{
	uint64_t part[4][2];
	uint64_t sums[8];

	add_all((const uint8_t *)data, bytes, sums);
	for (uint32_t q = 0; q < 4; q++) {
		part[q][0] = fold(sums[2 * q], sums[2 * q + 1], q, G4_XXH3_LOW_AT);
		part[q][1] = fold(sums[2 * q], sums[2 * q + 1], q, G4_XXH3_HIGH_AT);
	}
	finish(bytes, (const uint64_t(*)[2])part, out);
}

/* ---- by lanes ---- */

/* The secret's words for words 2 q and 2 q + 1 of a stripe of a block. */
G4_FN static inline void stripe_keys(uint32_t stripe, uint32_t q, uint64_t key[2])
{
	memcpy(key, __builtin_assume_aligned(secret + stripe * G4_XXH3_STEP + 16 * q, 8), 16);
}

/* Those for the last stripe of all. */
G4_FN static inline void last_keys(uint32_t q, uint64_t key[2])
{
	key[0] = secret_word(G4_XXH3_LAST_AT + 16 * q);
	key[1] = secret_word(G4_XXH3_LAST_AT + 16 * q + 8);
}

G4_FN static inline void add_words(const uint64_t word[2], const uint64_t key[2], uint64_t sum[2])
{
	sum[0] += word[1] + product(word[0], key[0]);
	sum[1] += word[0] + product(word[1], key[1]);
}

#if G4_CUDA
/*
 * All lanes of a warp: block[b][i] = what block b of the page adds to sum i; `end`: the hash ends with the page. A lane has words
 * 2 q and 2 q + 1 of every eighth stripe: so the warp loads 512 bytes that lie together at a time, and a lane's keys are
 * only two pairs. Of its eight numbers each lane then gives away the half that a partner adds up, three times: lane 4 i + q
 * is left with number i.
 */
G4_FN static inline uint64_t share(uint32_t upper, uint64_t first, uint64_t second, int partner)
{
	const uint64_t keep = upper ? second : first, give = upper ? first : second;

	return keep + __shfl_xor_sync(G4_WARP_ALL, give, partner);
}

/* A lane's keys, for even and for odd eights of stripes, and for the last of these where the hash ends. */
struct lane_keys {
	uint64_t even[2], odd[2], last[2];
};

G4_FN static inline void add_page(const uint8_t *page, uint32_t lane, const struct lane_keys *keys, bool end,
				  uint64_t (*block)[8])
{
	const uint64_t last[2] = {end ? keys->last[0] : keys->odd[0], end ? keys->last[1] : keys->odd[1]};
	uint64_t word[8][2], sum[8], four[4];

#pragma unroll
	for (uint32_t i = 0; i < 8; i++)
		memcpy(word[i], __builtin_assume_aligned(page + i * 512 + lane * 16, 16), sizeof(word[i]));
#pragma unroll
	for (uint32_t b = 0; b < 4; b++) {
		const uint64_t *even = word[2 * b], *odd = word[2 * b + 1];

		sum[2 * b] = even[1] + product(even[0], keys->even[0]) + odd[1] +
			     product(odd[0], b == 3 ? last[0] : keys->odd[0]);
		sum[2 * b + 1] = even[0] + product(even[1], keys->even[1]) + odd[0] +
				 product(odd[1], b == 3 ? last[1] : keys->odd[1]);
	}
#pragma unroll
	for (uint32_t i = 0; i < 4; i++)
		four[i] = share(lane & 16, sum[i], sum[i + 4], 16);
	const uint64_t first = share(lane & 8, four[0], four[2], 8), second = share(lane & 8, four[1], four[3], 8);

	block[lane / 8][lane % 4 * 2 + lane / 4 % 2] = share(lane & 4, first, second, 4);
}

/* All lanes: of each page of `n` buffers. */
G4_FN static void add_pages(struct g4_wg *wg, uint32_t n, const void *const *data, uint32_t pages,
			    struct g4_xxh3_scratch *scratch)
{
	const uint32_t lane = g4_wg_lane(wg);
	struct lane_keys keys;

	stripe_keys(lane / 4, lane % 4, keys.even);
	stripe_keys(lane / 4 + 8, lane % 4, keys.odd);
	if (lane / 4 == 7)
		last_keys(lane % 4, keys.last);
	else
		memcpy(keys.last, keys.odd, sizeof(keys.last));
	G4_ROLLED
	for (uint32_t i = 0; i < n; i++) {
		G4_ROLLED
		for (uint32_t page = 0; page < pages; page++)
			add_page((const uint8_t *)data[i] + page * G4_PAGE_BYTES, lane, &keys, page + 1 == pages,
				 scratch->block[i * pages + page]);
	}
}
#else
/* What a page's blocks add to sums 2 q and 2 q + 1. */
static void add_page(const uint8_t *page, uint32_t q, bool end, uint64_t (*block)[8])
{
	for (uint32_t b = 0; b < 4; b++) {
		uint64_t sum[2] = {0, 0};

		for (uint32_t stripe = 0; stripe < G4_XXH3_BLOCK_STRIPES; stripe++) {
			uint64_t key[2], word[2];

			if (end && b == 3 && stripe == G4_XXH3_BLOCK_STRIPES - 1)
				last_keys(q, key);
			else
				stripe_keys(stripe, q, key);
			memcpy(word, page + b * G4_XXH3_BLOCK + stripe * G4_XXH3_STRIPE + 16 * q, sizeof(word));
			add_words(word, key, sum);
		}
		memcpy(&block[b][2 * q], sum, sizeof(sum));
	}
}

/* Four lanes have a page. */
static void add_pages(struct g4_wg *wg, uint32_t n, const void *const *data, uint32_t pages,
		      struct g4_xxh3_scratch *scratch)
{
	const uint32_t lane = g4_wg_lane(wg);

	for (uint32_t i = lane / 4; i < n * pages; i += g4_wg_width(wg) / 4)
		add_page((const uint8_t *)data[i / pages] + i % pages * G4_PAGE_BYTES, lane % 4, i % pages + 1 == pages,
			 scratch->block[i]);
}
#endif

/* Scrambles what the blocks of a buffer add into sums 2 q and 2 q + 1, in their order. */
G4_FN static void join_blocks(const uint64_t (*block)[8], uint32_t blocks, uint32_t q, uint64_t part[2])
{
	uint64_t even = start[2 * q], odd = start[2 * q + 1];

	G4_ROLLED
	for (uint32_t i = 0; i < blocks; i++) {
		even += block[i][2 * q];
		odd += block[i][2 * q + 1];
		if (i + 1 == blocks) /* the last stripe is not followed by that */
			break;
		even = scramble(even, 2 * q);
		odd = scramble(odd, 2 * q + 1);
	}
	part[0] = fold(even, odd, q, G4_XXH3_LOW_AT);
	part[1] = fold(even, odd, q, G4_XXH3_HIGH_AT);
}

G4_FN void g4_xxh3_group(struct g4_wg *wg, uint32_t n, const void *const *data, uint32_t pages, uint64_t last,
			 uint64_t (*out)[4], struct g4_xxh3_scratch *scratch)
{
	const uint32_t lane = g4_wg_lane(wg), width = g4_wg_width(wg), most = G4_XXH3_SCRATCH_PAGES / pages;

	G4_ROLLED
	for (uint32_t first = 0; first < n; first += most) {
		const uint32_t count = (uint32_t)g4_min64(n - first, most);

		add_pages(wg, count, data + first, pages, scratch);
		g4_sync(wg);
		G4_ROLLED
		for (uint32_t i = lane / 4; i < count; i += width / 4)
			join_blocks((const uint64_t(*)[8])scratch->block[i * pages], 4 * pages, lane % 4,
				    scratch->part[i][lane % 4]);
		g4_sync(wg);
		for (uint32_t i = lane; i < count; i += width) {
			finish(pages * G4_PAGE_BYTES, (const uint64_t(*)[2])scratch->part[i], out[first + i]);
			out[first + i][2] = 0;
			out[first + i][3] = last;
		}
		g4_sync(wg);
	}
}
