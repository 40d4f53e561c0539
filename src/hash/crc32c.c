/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C: chooses the variant once, on first use. */
#include "hash/crc32c.h"

#if G4_CRC32C_HAVE_SSE42
#include "simt/simt.h"

enum crc32c_variant { VARIANT_UNKNOWN, VARIANT_PORTABLE, VARIANT_SSE42 };

/* Threads that race to set it write the same value. */
static uint32_t chosen;

static uint32_t choose(void)
{
	uint32_t variant = g4_crc32c_sse42_usable() ? VARIANT_SSE42 : VARIANT_PORTABLE;

	g4_store32_rlx(&chosen, variant);
	return variant;
}

uint32_t g4_crc32c(uint32_t crc, const void *data, uint64_t bytes)
{
	uint32_t variant = g4_load32_rlx(&chosen);

	if (variant == VARIANT_UNKNOWN)
		variant = choose();
	switch (variant) {
	case VARIANT_SSE42:
		return g4_crc32c_sse42(crc, data, bytes);
	default:
		return g4_crc32c_portable(crc, data, bytes);
	}
}
#else
G4_FN uint32_t g4_crc32c(uint32_t crc, const void *data, uint64_t bytes)
{
	return g4_crc32c_portable(crc, data, bytes);
}
#endif
