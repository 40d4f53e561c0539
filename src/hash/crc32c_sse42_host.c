/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32C with the crc32 instruction, which takes three cycles but starts one each: three streams side by side keep it
 * busy (Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction", Intel 2011).
 *
 *      p           p + stream    p + 2 stream   p + 3 stream
 *      |     a     |      b      |      c       |
 *
 * The CRC of the whole is a * x^(16 stream) + b * x^(8 stream) + c modulo the polynomial, for a stream of `stream` bytes.
 * A carry-less multiplication by a constant shifts a and b; the crc32 instruction that takes the last word of c reduces
 * the products. A product of two reflected 32-bit polynomials comes out multiplied by x, and the crc32 instruction
 * multiplies by x^32: hence the constants are x^(16 stream - 33) and x^(8 stream - 33).
 */
#include "hash/crc32c.h"

#if G4_CRC32C_HAVE_SSE42
#include <immintrin.h>

#define TARGET __attribute__((target("sse4.2,pclmul")))

/* Stream lengths: three long ones are a page less 16 bytes, the others take what is left. Multiples of 8. */
#define LONG_BYTES 1360
#define LONG_SHIFT_A 0x5aa1f3cf
#define LONG_SHIFT_B 0x3f70cc6f
#define MIDDLE_BYTES 336
#define MIDDLE_SHIFT_A 0xcec3662e
#define MIDDLE_SHIFT_B 0xa60ce07b
#define SHORT_BYTES 80
#define SHORT_SHIFT_A 0x878a92a7
#define SHORT_SHIFT_B 0x39d3b296

static inline uint64_t word_at(const uint8_t *p)
{
	uint64_t word;

	memcpy(&word, p, 8);
	return word;
}

TARGET static inline uint64_t multiply(uint64_t a, uint32_t b)
{
	return (uint64_t)_mm_cvtsi128_si64(
		_mm_clmulepi64_si128(_mm_cvtsi64_si128((int64_t)a), _mm_cvtsi64_si128((int64_t)(uint64_t)b), 0));
}

/* Adds 3 * stream bytes to the state. Inlined with constants, once for each length. */
TARGET static inline __attribute__((always_inline)) uint64_t add_streams(uint64_t state, const uint8_t *p,
									 uint64_t stream, uint32_t shift_a,
									 uint32_t shift_b)
{
	const uint8_t *last = p + stream - 8;
	uint64_t a = state;
	uint64_t b = 0;
	uint64_t c = 0;

	for (; p < last; p += 8) {
		a = _mm_crc32_u64(a, word_at(p));
		b = _mm_crc32_u64(b, word_at(p + stream));
		c = _mm_crc32_u64(c, word_at(p + 2 * stream));
	}
	a = _mm_crc32_u64(a, word_at(p));
	b = _mm_crc32_u64(b, word_at(p + stream));
	return _mm_crc32_u64(c, word_at(p + 2 * stream) ^ multiply(a, shift_a) ^ multiply(b, shift_b));
}

TARGET uint32_t g4_crc32c_sse42(uint32_t crc, const void *data, uint64_t bytes)
{
	const uint8_t *p = (const uint8_t *)data;
	uint64_t state = (uint32_t)~crc;

	for (; bytes >= 3 * LONG_BYTES; bytes -= 3 * LONG_BYTES, p += 3 * LONG_BYTES)
		state = add_streams(state, p, LONG_BYTES, LONG_SHIFT_A, LONG_SHIFT_B);
	for (; bytes >= 3 * MIDDLE_BYTES; bytes -= 3 * MIDDLE_BYTES, p += 3 * MIDDLE_BYTES)
		state = add_streams(state, p, MIDDLE_BYTES, MIDDLE_SHIFT_A, MIDDLE_SHIFT_B);
	for (; bytes >= 3 * SHORT_BYTES; bytes -= 3 * SHORT_BYTES, p += 3 * SHORT_BYTES)
		state = add_streams(state, p, SHORT_BYTES, SHORT_SHIFT_A, SHORT_SHIFT_B);
	for (; bytes >= 8; bytes -= 8, p += 8)
		state = _mm_crc32_u64(state, word_at(p));
	for (; bytes; bytes--)
		state = _mm_crc32_u8((uint32_t)state, *p++);
	return ~(uint32_t)state;
}

bool g4_crc32c_sse42_usable(void)
{
	return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}
#endif
