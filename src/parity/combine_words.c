/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear combinations by a GPU's lanes, in words of four bytes. Everything is in registers: memory is to be the bound.
 *
 * A GPU takes bytes out of two words by a selector of four nibbles (pick(), the instruction PRMT), or spreads a byte's highest bit. So
 *
 *     times 2:    spread the highest bits, keep 0x1d of each, and add that to the words shifted: four instructions. The second parity
 *                 is 2 (2 (... + data 2) + data 1) + data 0 (Horner's rule).
 *     times any:  a number is bits 0 to 2, bits 4 to 6, and the bits 3 and 7: three tables, of 8, 8 and 4 bytes. The selectors of two words
 *                 are made together, a nibble of either in each byte, and are those of all rows. What is picked stays mixed up, as mix()
 *                 says, until a row is done.
 *
 * A host's compiler knows no such instruction: there this is for tests.
 */
#include "parity/combine.h"
#include "parity/field.h"

#define ALWAYS G4_FN static inline __attribute__((always_inline))
#if G4_CUDA
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED
#endif

#define PIECE_BYTES 16u /* what a lane loads at a time */
#define PIECE_WORDS 4u
#define MOST_PIECES 2u
#define MOST_WORDS (MOST_PIECES * PIECE_WORDS)
#define COLUMNS 4u /* whose pieces are loaded together: so many loads are under way */

struct piece {
	uint32_t word[PIECE_WORDS];
} __attribute__((aligned(PIECE_BYTES)));

/* c times 0 to 7, c times 16 times 0 to 7, c times 0, 8, 128 and 136. */
struct table {
	uint32_t low[2], high[2], last, unused[3];
} __attribute__((aligned(32)));

#define LOW_0(c)                                                                                                       \
	G4_GF_SUM(c, 0x03020100, 0x06040200, 0x0c080400, 0x18100800, 0x30201000, 0x60402000, 0xc0804000, 0x9d1d8000)
#define LOW_4(c)                                                                                                       \
	G4_GF_SUM(c, 0x07060504, 0x0e0c0a08, 0x1c181410, 0x38302820, 0x70605040, 0xe0c0a080, 0xdd9d5d1d, 0xa727ba3a)
#define HIGH_0(c)                                                                                                      \
	G4_GF_SUM(c, 0x30201000, 0x60402000, 0xc0804000, 0x9d1d8000, 0x273a1d00, 0x4e743a00, 0x9ce87400, 0x25cde800)
#define HIGH_4(c)                                                                                                      \
	G4_GF_SUM(c, 0x70605040, 0xe0c0a080, 0xdd9d5d1d, 0xa727ba3a, 0x534e6974, 0xa69cd2e8, 0x5125b9cd, 0xa24a6f87)
#define LAST(c)                                                                                                        \
	G4_GF_SUM(c, 0x88800800, 0x0d1d1000, 0x1a3a2000, 0x34744000, 0x68e88000, 0xd0cd1d00, 0xbd873a00, 0x67137400)
#define TABLES(c)                                                                                                      \
	{                                                                                                              \
		{LOW_0(c), LOW_4(c)}, {HIGH_0(c), HIGH_4(c)}, LAST(c),                                                 \
		{                                                                                                      \
			0                                                                                              \
		}                                                                                                      \
	}

static G4_CONST struct table tables[256] = G4_GF_TABLE(TABLES);

/*
 * Byte i of the result: of the eight bytes low and high, the one that the lower three bits of nibble i of `select` say; if its fourth bit
 * is set, eight times that byte's highest bit.
 */
ALWAYS uint32_t pick(uint32_t low, uint32_t high, uint32_t select)
{
	uint32_t picked;

#if defined(__CUDA_ARCH__)
	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(picked) : "r"(low), "r"(high), "r"(select));
#else
	const uint64_t bytes = (uint64_t)high << 32 | low;

	picked = 0;
	for (uint32_t i = 0; i < 4; i++) {
		const uint32_t nibble = select >> 4 * i & 15;
		const uint32_t byte = (uint32_t)(bytes >> 8 * (nibble & 7)) & 0xff;

		picked |= (nibble & 8 ? 0xff * (byte >> 7) : byte) << 8 * i;
	}
#endif
	return picked;
}

ALWAYS uint32_t twice(uint32_t four)
{
	return (four << 1 & UINT32_C(0xfefefefe)) ^ (pick(four, 0, 0xba98) & G4_GF_REDUCE * UINT32_C(0x01010101));
}

/* What the sums of two words become when all columns are added: bytes 0 and 1 of both, then 2 and 3, alternate in what was picked. */
ALWAYS void mix_back(uint32_t pair[2])
{
	const uint32_t first = pick(pair[0], pair[1], 0x6420), second = pick(pair[0], pair[1], 0x7531);

	pair[0] = first;
	pair[1] = second;
}

/* Which bytes of the tables the numbers of two words are. */
struct selectors {
	uint32_t low, high, last;
};

ALWAYS struct selectors select_bytes(uint32_t first, uint32_t second)
{
	const uint32_t low = (first & UINT32_C(0x0f0f0f0f)) | (second << 4 & UINT32_C(0xf0f0f0f0));
	const uint32_t high = (first >> 4 & UINT32_C(0x0f0f0f0f)) | (second & UINT32_C(0xf0f0f0f0));
	const struct selectors s = {
		.low = low & UINT32_C(0x77777777),
		.high = high & UINT32_C(0x77777777),
		.last = (low >> 3 & UINT32_C(0x11111111)) | (high >> 2 & UINT32_C(0x22222222)),
	};

	return s;
}

ALWAYS uint32_t look_up(const struct table *t, const struct selectors *s, uint32_t shift)
{
	return pick(t->low[0], t->low[1], s->low >> shift) ^ pick(t->high[0], t->high[1], s->high >> shift) ^
	       pick(t->last, 0, s->last >> shift);
}

/* Adds a column to the rows from `first` on by tables. */
ALWAYS void add_products(uint32_t sum[G4_PARITY_MOST][MOST_WORDS], const uint32_t *data, uint32_t term, uint32_t first,
			 uint32_t rows, uint32_t words)
{
	struct table t[G4_PARITY_MOST];

	UNROLLED
	for (uint32_t r = first; r < rows; r++)
		t[r] = tables[term >> 8 * r & 0xff];
	UNROLLED
	for (uint32_t w = 0; w < words; w += 2) {
		const struct selectors s = select_bytes(data[w], data[w + 1]);

		UNROLLED
		for (uint32_t r = first; r < rows; r++) {
			sum[r][w] ^= look_up(&t[r], &s, 0);
			sum[r][w + 1] ^= look_up(&t[r], &s, 16);
		}
	}
}

/* Where a lane's pieces are. */
struct place {
	uint64_t at, stride, end;
};

/* Column c's pieces; zeros beyond the end of what there is. */
ALWAYS void load(uint32_t *data, const struct g4_parity_job *job, uint32_t c, const struct place *place,
		 uint32_t pieces)
{
	const uint8_t *in = c < job->columns ? (const uint8_t *)job->in[c] : NULL;

	UNROLLED
	for (uint32_t p = 0; p < pieces; p++) {
		const uint64_t at = place->at + p * place->stride;
		struct piece piece = {{0, 0, 0, 0}};

		if (in && at < place->end)
			memcpy(&piece, __builtin_assume_aligned(in + at, PIECE_BYTES), sizeof(piece));
		UNROLLED
		for (uint32_t w = 0; w < PIECE_WORDS; w++)
			data[p * PIECE_WORDS + w] = piece.word[w];
	}
}

/* Adds the rows up; `powers`, `tabled`: from which row on coefficients are powers of 2, and any. */
ALWAYS void add_columns(uint32_t sum[G4_PARITY_MOST][MOST_WORDS], const struct g4_parity_job *job,
			const struct place *place, uint32_t powers, uint32_t tabled, uint32_t rows, uint32_t pieces)
{
	const uint32_t words = pieces * PIECE_WORDS;

	/* from the last column to the first, for Horner's rule; those that are not there come first, and are zeros */
	for (uint32_t group = (job->columns + COLUMNS - 1) / COLUMNS; group-- > 0;) {
		uint32_t data[COLUMNS][MOST_WORDS];

		UNROLLED
		for (uint32_t c = 0; c < COLUMNS; c++)
			load(data[c], job, group * COLUMNS + c, place, pieces);
		UNROLLED
		for (uint32_t c = COLUMNS; c-- > 0;) {
			const uint32_t column = group * COLUMNS + c;

			UNROLLED
			for (uint32_t w = 0; w < words; w++) {
				if (powers > 0)
					sum[0][w] ^= data[c][w];
				if (tabled > powers)
					sum[powers][w] = twice(sum[powers][w]) ^ data[c][w];
			}
			if (rows > tabled && column < job->columns)
				add_products(sum, data[c], job->term[column], tabled, rows, words);
		}
	}
	UNROLLED
	for (uint32_t r = tabled; r < rows; r++) {
		UNROLLED
		for (uint32_t w = 0; w < words; w += 2)
			mix_back(&sum[r][w]);
	}
}

/* Writes or compares a row's pieces; true: they are wrong. */
ALWAYS bool finish(const struct g4_parity_job *job, uint32_t r, const uint32_t *sum, const struct place *place,
		   uint32_t pieces)
{
	uint8_t *out = (uint8_t *)job->out[r];
	uint32_t differ = 0;

	UNROLLED
	for (uint32_t p = 0; p < pieces; p++) {
		const uint64_t at = place->at + p * place->stride;
		struct piece old = {{0, 0, 0, 0}};

		if (at >= place->end)
			break;
		if (job->way != G4_PARITY_SET)
			memcpy(&old, __builtin_assume_aligned(out + at, PIECE_BYTES), sizeof(old));
		UNROLLED
		for (uint32_t w = 0; w < PIECE_WORDS; w++) {
			old.word[w] ^= sum[p * PIECE_WORDS + w];
			differ |= old.word[w];
		}
		if (job->way != G4_PARITY_COMPARE)
			memcpy(__builtin_assume_aligned(out + at, PIECE_BYTES), &old, sizeof(old));
	}
	return job->way == G4_PARITY_COMPARE && differ != 0;
}

/* A lane's pieces of the first `end` bytes, of buffers at multiples of 16. Inlined with constants. */
ALWAYS uint32_t run(struct g4_wg *wg, const struct g4_parity_job *job, uint64_t end, uint32_t powers, uint32_t tabled,
		    uint32_t rows, uint32_t pieces)
{
	const uint64_t stride = g4_wg_width(wg) * PIECE_BYTES;
	uint32_t wrong = 0;

	G4_ROLLED
	for (uint64_t at = g4_wg_lane(wg) * PIECE_BYTES; at < end; at += pieces * stride) {
		const struct place place = {.at = at, .stride = stride, .end = end};
		uint32_t sum[G4_PARITY_MOST][MOST_WORDS];

		UNROLLED
		for (uint32_t r = 0; r < rows; r++) {
			UNROLLED
			for (uint32_t w = 0; w < pieces * PIECE_WORDS; w++)
				sum[r][w] = 0;
		}
		add_columns(sum, job, &place, powers, tabled, rows, pieces);
		UNROLLED
		for (uint32_t r = 0; r < rows; r++)
			wrong |= (uint32_t)finish(job, r, sum[r], &place, pieces) << r;
	}
	return wrong;
}

/* Byte by byte. */
G4_FN static uint32_t run_bytes(struct g4_wg *wg, const struct g4_parity_job *job, uint64_t from, uint64_t to)
{
	uint32_t wrong = 0;

	G4_ROLLED
	for (uint64_t at = from + g4_wg_lane(wg); at < to; at += g4_wg_width(wg)) {
		uint32_t sum = 0;

		G4_ROLLED
		for (uint32_t c = 0; c < job->columns; c++) {
			if (job->in[c])
				sum ^= g4_gf_multiply4(job->term[c], ((const uint8_t *)job->in[c])[at]);
		}
		G4_ROLLED
		for (uint32_t r = 0; r < job->rows; r++, sum >>= 8) {
			uint8_t *out = (uint8_t *)job->out[r] + at;
			const uint8_t change = (uint8_t)(job->way == G4_PARITY_SET ? sum : sum ^ *out);

			if (job->way != G4_PARITY_COMPARE)
				*out = change;
			else if (change)
				wrong |= 1u << r;
		}
	}
	return wrong;
}

/* Collective. */
G4_FN static bool all_aligned(struct g4_wg *wg, const struct g4_parity_job *job)
{
	const uint32_t width = g4_wg_width(wg);
	uintptr_t bits = 0;

	for (uint32_t c = g4_wg_lane(wg); c < job->columns; c += width)
		bits |= (uintptr_t)job->in[c];
	for (uint32_t r = g4_wg_lane(wg); r < job->rows; r += width)
		bits |= (uintptr_t)job->out[r];
	return g4_all(wg, bits % PIECE_BYTES == 0);
}

G4_FN uint32_t g4_parity_combine_words(struct g4_wg *wg, const struct g4_parity_job *job, uint64_t bytes)
{
	const uint64_t end = all_aligned(wg, job) ? g4_align_down(bytes, PIECE_BYTES) : 0;
	uint32_t wrong;

	switch (job->rows * 3 + job->shape) {
	case 3 + G4_PARITY_ANY:
		wrong = run(wg, job, end, 0, 0, 1, 2);
		break;
	case 3 + G4_PARITY_ONES:
	case 3 + G4_PARITY_CODE:
		wrong = run(wg, job, end, 1, 1, 1, 2);
		break;
	case 6 + G4_PARITY_CODE:
		wrong = run(wg, job, end, 1, 2, 2, 2);
		break;
	case 9 + G4_PARITY_CODE:
		wrong = run(wg, job, end, 1, 2, 3, 1);
		break;
	case 12 + G4_PARITY_CODE:
		wrong = run(wg, job, end, 1, 2, 4, 1);
		break;
	case 6 + G4_PARITY_ANY:
	case 6 + G4_PARITY_ONES:
		wrong = run(wg, job, end, 0, 0, 2, 2);
		break;
	case 9 + G4_PARITY_ANY:
	case 9 + G4_PARITY_ONES:
		wrong = run(wg, job, end, 0, 0, 3, 1);
		break;
	default:
		wrong = run(wg, job, end, 0, 0, 4, 1);
	}
	return wrong | run_bytes(wg, job, end, bytes);
}
