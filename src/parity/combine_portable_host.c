/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear combinations in plain C, the reference. Coefficient c times d is the sum of 2^b d over the bits b of c: a block of each buffer is
 * doubled in place, eight numbers a word, and added to the rows that have the bit. The loops over a block become vectors.
 */
#include "parity/combine.h"
#include "parity/field.h"

#define BLOCK_WORDS 64u
#define BLOCK_BYTES (BLOCK_WORDS * 8)

static void add_words(uint64_t *restrict to, const uint64_t *restrict from)
{
	for (uint32_t i = 0; i < BLOCK_WORDS; i++)
		to[i] ^= from[i];
}

static void add_term(const struct g4_parity_job *job, uint32_t term, uint64_t data[BLOCK_WORDS],
		     uint64_t sum[][BLOCK_WORDS])
{
	while (term) {
		for (uint32_t r = 0; r < job->rows; r++) {
			if (term >> 8 * r & 1)
				add_words(sum[r], data);
		}
		term = term >> 1 & UINT32_C(0x7f7f7f7f);
		for (uint32_t i = 0; term && i < BLOCK_WORDS; i++)
			data[i] = g4_gf_twice8(data[i]);
	}
}

uint32_t g4_parity_combine_portable(const struct g4_parity_job *job, uint64_t from, uint64_t to)
{
	uint64_t sum[G4_PARITY_MOST][BLOCK_WORDS], data[BLOCK_WORDS];
	uint32_t wrong = 0;

	for (uint64_t at = from; at < to; at += BLOCK_BYTES) {
		const uint64_t bytes = g4_min64(to - at, BLOCK_BYTES);

		memset(sum, 0, sizeof(sum));
		for (uint32_t c = 0; c < job->columns; c++) {
			if (!job->in[c])
				continue;
			memset((uint8_t *)data + bytes, 0, sizeof(data) - bytes);
			memcpy(data, (const uint8_t *)job->in[c] + at, bytes);
			add_term(job, job->term[c], data, sum);
		}
		for (uint32_t r = 0; r < job->rows; r++) {
			uint8_t *out = (uint8_t *)job->out[r] + at;

			if (job->way == G4_PARITY_COMPARE) {
				wrong |= (uint32_t)(memcmp(out, sum[r], bytes) != 0) << r;
				continue;
			}
			if (job->way == G4_PARITY_ADD) {
				memcpy(data, out, bytes);
				add_words(sum[r], data);
			}
			memcpy(out, sum[r], bytes);
		}
	}
	return wrong;
}
