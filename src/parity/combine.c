/* SPDX-License-Identifier: Apache-2.0 */
/* Linear combinations: chooses the variant once, on first use, and shares the work between the lanes. */
#include "parity/combine.h"

#if G4_CUDA
G4_FN static uint32_t combine(struct g4_wg *wg, const struct g4_parity_job *job, uint64_t bytes)
{
	return g4_parity_combine_words(wg, job, bytes);
}
#else
enum variant { VARIANT_UNKNOWN, VARIANT_PORTABLE, VARIANT_AVX2, VARIANT_AVX512 };

/* Threads that race to set it write the same value. */
static uint32_t chosen;

static uint32_t choose(void)
{
	uint32_t variant = VARIANT_PORTABLE;

#if G4_PARITY_HAVE_X86
	if (g4_parity_avx512_usable())
		variant = VARIANT_AVX512;
	else if (g4_parity_avx2_usable())
		variant = VARIANT_AVX2;
#endif
	g4_store32_rlx(&chosen, variant);
	return variant;
}

/* Each lane has one part, of whole cache lines where the buffers are aligned. */
static uint32_t combine(struct g4_wg *wg, const struct g4_parity_job *job, uint64_t bytes)
{
	const uint64_t part = g4_align_up(bytes / g4_wg_width(wg) + 1, 64);
	const uint64_t from = g4_min64(g4_wg_lane(wg) * part, bytes), to = g4_min64(from + part, bytes);
	uint32_t variant = g4_load32_rlx(&chosen);

	if (variant == VARIANT_UNKNOWN)
		variant = choose();
	switch (variant) {
#if G4_PARITY_HAVE_X86
	case VARIANT_AVX512:
		return g4_parity_combine_avx512(job, from, to);
	case VARIANT_AVX2:
		return g4_parity_combine_avx2(job, from, to);
#endif
	default:
		return g4_parity_combine_portable(job, from, to);
	}
}
#endif

G4_FN uint32_t g4_parity_combine(struct g4_wg *wg, const struct g4_parity_job *job, uint64_t bytes)
{
	const uint32_t mine = combine(wg, job, bytes);
	uint32_t wrong = 0;

	if (job->way != G4_PARITY_COMPARE) {
		g4_sync(wg);
		return 0;
	}
	for (uint32_t r = 0; r < job->rows; r++)
		wrong |= (uint32_t)g4_any(wg, mine >> r & 1) << r;
	return wrong;
}
