/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear combinations by vectors of bytes, which a variant includes once. It defines before:
 *
 *     TARGET, COMBINE                the attribute with its instructions; the name of the function
 *     VECTOR, ZERO, XOR(a, b)        some bytes, and their addition
 *     LOAD(from), STORE(to, vector), IS_ZERO(vector)
 *     KEY, key_of(coefficient)       what multiplying by a number takes
 *     SPLIT, split(vector)           what multiplying a vector takes, made once for all rows
 *     product(split, key)
 *     STEP_1, STEP_2, STEP_4         vectors of a buffer that one step goes through, for 1, 2 and up to 4 rows: as many as fit
 *
 * The remainder that is less than a vector is left to the portable variant.
 */
#ifndef G4_PARITY_COMBINE_SIMD_HOST_H
#define G4_PARITY_COMBINE_SIMD_HOST_H

#include "parity/combine.h"

#if G4_PARITY_HAVE_X86 && defined(TARGET)
#define ALWAYS static inline __attribute__((always_inline))
#define MOST_STEP 4u

/* A buffer that is not all zeros, and its coefficients. */
struct operand {
	const uint8_t *in;
	KEY key[G4_PARITY_MOST];
};

/* Returns how many there are. */
static uint32_t gather(const struct g4_parity_job *job, struct operand *operand)
{
	const uint32_t first = job->shape != G4_PARITY_ANY; /* row 0 takes no key */
	uint32_t count = 0;

	for (uint32_t c = 0; c < job->columns; c++) {
		if (!job->in[c])
			continue;
		operand[count].in = (const uint8_t *)job->in[c];
		for (uint32_t r = first; r < job->rows; r++)
			operand[count].key[r] = key_of((uint8_t)(job->term[c] >> 8 * r));
		count++;
	}
	return count;
}

/* A step's sums of all rows. */
TARGET ALWAYS void add_all(VECTOR sum[G4_PARITY_MOST][MOST_STEP], const struct operand *operand, uint32_t count,
			   uint64_t at, uint32_t rows, bool ones, uint32_t step)
{
	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *in = operand[i].in + at;

#pragma GCC unroll 4
		for (uint32_t v = 0; v < step; v++) {
			const VECTOR data = LOAD(in + v * sizeof(VECTOR));
			const SPLIT parts = split(data);

			if (ones)
				sum[0][v] = XOR(sum[0][v], data);
#pragma GCC unroll 4
			for (uint32_t r = ones; r < rows; r++)
				sum[r][v] = XOR(sum[r][v], product(parts, operand[i].key[r]));
		}
	}
}

TARGET ALWAYS void begin_step(VECTOR sum[G4_PARITY_MOST][MOST_STEP], const struct g4_parity_job *job, uint64_t at,
			      bool load, uint32_t rows, uint32_t step)
{
#pragma GCC unroll 4
	for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 4
		for (uint32_t v = 0; v < step; v++)
			sum[r][v] = load ? LOAD((const uint8_t *)job->out[r] + at + v * sizeof(VECTOR)) : ZERO;
	}
}

/* Bit r of the result: row r is not all zeros. */
TARGET ALWAYS uint32_t nonzero(VECTOR sum[G4_PARITY_MOST][MOST_STEP], uint32_t rows, uint32_t step)
{
	uint32_t which = 0;

#pragma GCC unroll 4
	for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 4
		for (uint32_t v = 0; v < step; v++)
			which |= (uint32_t)!IS_ZERO(sum[r][v]) << r;
	}
	return which;
}

TARGET ALWAYS void store_all(VECTOR sum[G4_PARITY_MOST][MOST_STEP], const struct g4_parity_job *job, uint64_t at,
			     uint32_t rows, uint32_t step)
{
#pragma GCC unroll 4
	for (uint32_t r = 0; r < rows; r++) {
#pragma GCC unroll 4
		for (uint32_t v = 0; v < step; v++)
			STORE((uint8_t *)job->out[r] + at + v * sizeof(VECTOR), sum[r][v]);
	}
}

/* Whole steps from *from on, which becomes their end. Inlined with constants. */
TARGET ALWAYS uint32_t run(const struct g4_parity_job *job, const struct operand *operand, uint32_t count,
			   uint64_t *from, uint64_t to, uint32_t rows, bool ones, uint32_t step)
{
	const uint64_t size = step * sizeof(VECTOR);
	uint64_t at = *from;
	uint32_t wrong = 0;

	for (; at + size <= to; at += size) {
		VECTOR sum[G4_PARITY_MOST][MOST_STEP];

		if (job->way == G4_PARITY_SET)
			begin_step(sum, job, at, false, rows, step);
		else
			begin_step(sum, job, at, true, rows, step);
		add_all(sum, operand, count, at, rows, ones, step);
		if (job->way == G4_PARITY_COMPARE)
			wrong |= nonzero(sum, rows, step);
		else
			store_all(sum, job, at, rows, step);
	}
	*from = at;
	return wrong;
}

TARGET ALWAYS uint32_t run_both(const struct g4_parity_job *job, const struct operand *operand, uint32_t count,
				uint64_t *from, uint64_t to, uint32_t rows, bool ones, uint32_t step)
{
	const uint32_t wrong = run(job, operand, count, from, to, rows, ones, step);

	return wrong | run(job, operand, count, from, to, rows, ones, 1);
}

TARGET uint32_t COMBINE(const struct g4_parity_job *job, uint64_t from, uint64_t to)
{
	struct operand operand[G4_PARITY_DISKS];
	const uint32_t count = gather(job, operand);
	uint32_t wrong;

	switch (job->rows * 2 + (job->shape != G4_PARITY_ANY)) {
	case 2:
		wrong = run_both(job, operand, count, &from, to, 1, false, STEP_1);
		break;
	case 3:
		wrong = run_both(job, operand, count, &from, to, 1, true, STEP_1);
		break;
	case 4:
		wrong = run_both(job, operand, count, &from, to, 2, false, STEP_2);
		break;
	case 5:
		wrong = run_both(job, operand, count, &from, to, 2, true, STEP_2);
		break;
	case 6:
		wrong = run_both(job, operand, count, &from, to, 3, false, STEP_4);
		break;
	case 7:
		wrong = run_both(job, operand, count, &from, to, 3, true, STEP_4);
		break;
	case 8:
		wrong = run_both(job, operand, count, &from, to, 4, false, STEP_4);
		break;
	default:
		wrong = run_both(job, operand, count, &from, to, 4, true, STEP_4);
	}
	return from < to ? wrong | g4_parity_combine_portable(job, from, to) : wrong;
}
#endif
#endif
