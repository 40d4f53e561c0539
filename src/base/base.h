/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every layer needs: fixed-width types, the function qualifiers that let one source compile as C11, C++20 and
 * CUDA, units, and the error codes.
 *
 * Subset rules (DESIGN.md "One source"): no VLA, no _Atomic, no function pointers and no recursion in engine code, no
 * implicit conversion from void *, designated initialisers in declaration order. Files named *_host.c, and headers
 * named *_host.h, are host only: nvcc never compiles them and they may use the C library freely.
 */
#ifndef G4_BASE_H
#define G4_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * G4_FN qualifies every engine function, G4_HD the few inline helpers that the CUDA engine's host side calls as well,
 * G4_CONST every constant table that engine code reads.
 */
#if defined(__CUDACC__)
#define G4_CUDA 1
#define G4_FN __device__
#define G4_HD __host__ __device__
#define G4_CONST __device__ const
#else
#define G4_CUDA 0
#define G4_FN
#define G4_HD
#define G4_CONST const
#endif
#define G4_INLINE static inline
/*
 * For what is rarely needed, as `G4_FN G4_COLD static`: a function of its own. On a GPU a function that holds it would otherwise save
 * the registers that it needs in memory at each call, and its instructions would lie between those that are needed.
 */
#define G4_COLD __attribute__((noinline))
/* Before a loop: nvcc leaves it one. Most unrolled loops only make other code leave the instruction cache. */
#if defined(__CUDACC__)
#define G4_ROLLED _Pragma("unroll 1")
#else
#define G4_ROLLED
#endif
/* Before a loop over few things: on a GPU they are in registers then, and all that it loads is on its way at once. */
#if defined(__CUDACC__)
#define G4_UNROLLED _Pragma("unroll")
#else
#define G4_UNROLLED
#endif
/* Begins a cache line: of a structure, or of the members from one on that many change, so that what they change lies apart from what all read. */
#define G4_OWN_LINE __attribute__((aligned(64)))
/* For what can not be: ends the program, or the kernel. */
#if defined(__CUDA_ARCH__)
#define G4_TRAP() __trap()
#else
#define G4_TRAP() __builtin_trap()
#endif

#ifdef __cplusplus
#define G4_STATIC_ASSERT(cond, text) static_assert(cond, text)
#else
#define G4_STATIC_ASSERT(cond, text) _Static_assert(cond, text)
#endif

/* On-disk integers are little-endian. The names mark the fields; every supported host and GPU is little-endian. */
typedef uint16_t g4_le16;
typedef uint32_t g4_le32;
typedef uint64_t g4_le64;
G4_STATIC_ASSERT(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "gpu4fs supports little-endian machines");

#define G4_KIB UINT64_C(1024)
#define G4_MIB (G4_KIB * 1024)
#define G4_GIB (G4_MIB * 1024)
#define G4_TIB (G4_GIB * 1024)

#define G4_PAGE_SHIFT 12
#define G4_PAGE_BYTES UINT64_C(4096)

/* In builds with assertions, for what a mask is made of. */
G4_HD G4_INLINE void g4_must_be_power_of_two(uint64_t number)
{
#if !defined(NDEBUG) && !defined(__CUDA_ARCH__)
	if (number == 0 || (number & (number - 1)) != 0)
		G4_TRAP();
#else
	(void)number;
#endif
}

G4_HD G4_INLINE uint64_t g4_align_up(uint64_t value, uint64_t power_of_two)
{
	g4_must_be_power_of_two(power_of_two);
	return (value + power_of_two - 1) & ~(power_of_two - 1);
}

/* Starts loading the cache line of an address that will be read soon. */
G4_HD G4_INLINE void g4_prefetch(const void *address)
{
#ifndef __CUDA_ARCH__
	__builtin_prefetch(address);
#else
	asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
#endif
}

G4_HD G4_INLINE uint64_t g4_align_down(uint64_t value, uint64_t power_of_two)
{
	g4_must_be_power_of_two(power_of_two);
	return value & ~(power_of_two - 1);
}

/* Number of 4 KiB pages that hold `bytes` bytes. */
G4_HD G4_INLINE uint64_t g4_pages_for(uint64_t bytes)
{
	return (bytes >> G4_PAGE_SHIFT) + ((bytes & (G4_PAGE_BYTES - 1)) != 0);
}

G4_HD G4_INLINE uint64_t g4_min64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * How many words, from the first on, are `first`, `first + step` and so on. Eight are loaded at a time: on a GPU each one would be waited for.
 */
G4_HD G4_INLINE uint64_t g4_count_row(const uint64_t *words, uint64_t count, uint64_t first, uint64_t step)
{
	uint64_t n = 0;

	for (uint64_t differ = 0; n + 8 <= count; n += 8) {
		for (uint64_t i = 0; i < 8; i++)
			differ |= words[n + i] ^ (first + (n + i) * step);
		if (differ)
			break;
	}
	while (n < count && words[n] == first + n * step)
		n++;
	return n;
}

/* Number of the lowest set bit; value is not 0. */
G4_HD G4_INLINE uint32_t g4_lowest_bit(uint64_t value)
{
#if defined(__CUDA_ARCH__)
	return (uint32_t)__ffsll((long long)value) - 1;
#else
	return (uint32_t)__builtin_ctzll(value);
#endif
}

/* `span` set bits from bit `bit` on, inside a word. */
G4_HD G4_INLINE uint64_t g4_bit_run(uint32_t bit, uint32_t span)
{
	return (span == 64 ? ~UINT64_C(0) : (UINT64_C(1) << span) - 1) << bit;
}

/* The upper half of a product of 128 bits. */
G4_HD G4_INLINE uint64_t g4_mul_high64(uint64_t a, uint64_t b)
{
#if defined(__CUDA_ARCH__)
	return __umul64hi(a, b);
#else
	__extension__ typedef unsigned __int128 wide;
	return (uint64_t)((wide)a * b >> 64);
#endif
}

G4_HD G4_INLINE uint32_t g4_count_bits(uint64_t value)
{
#if defined(__CUDA_ARCH__)
	return (uint32_t)__popcll((long long)value);
#else
	return (uint32_t)__builtin_popcountll(value);
#endif
}

G4_HD G4_INLINE uint64_t g4_max64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * The 1 to 8 bytes at `at` as a little-endian number. Needs no alignment: on a GPU, which has no loads without it, the aligned
 * words around the bytes are read, so that what lies beside them in these words is touched, too.
 */
G4_HD G4_INLINE uint64_t g4_load_bytes(const void *at, uint32_t bytes)
{
#if defined(__CUDA_ARCH__)
	const uint32_t skip = (uint32_t)(uintptr_t)at % 8;
	const uint64_t *words = (const uint64_t *)((const uint8_t *)at - skip);
	uint64_t value = words[0] >> 8 * skip;

	if (skip + bytes > 8)
		value |= words[1] << (64 - 8 * skip);
	return value & ~UINT64_C(0) >> (64 - 8 * bytes);
#else
	const uint8_t *p = (const uint8_t *)at;
	uint64_t value;
	uint32_t low, high;

	if (bytes == 8) {
		memcpy(&value, p, 8);
		return value;
	}
	if (bytes >= 4) { /* the two may overlap */
		memcpy(&low, p, 4);
		memcpy(&high, p + bytes - 4, 4);
		return low | (uint64_t)high << 8 * (bytes - 4);
	}
	return p[0] | (uint64_t)p[bytes / 2] << 8 * (bytes / 2) | (uint64_t)p[bytes - 1] << 8 * (bytes - 1);
#endif
}

/* What a GPU would stop at, ends a program of a debug build. */
G4_HD G4_INLINE void g4_expect_aligned16(const void *at, uint32_t bytes)
{
#if defined(NDEBUG) || defined(__CUDA_ARCH__)
	(void)at;
	(void)bytes;
#else
	if (((uintptr_t)at | bytes) % 16 != 0)
		G4_TRAP();
#endif
}

/*
 * memset() to 0 and memcpy() of records in memory aligned to 16 B, in multiples of that, by one lane: nvcc makes a byte at a
 * time of the others, hundreds of instructions in a row.
 */
G4_HD G4_INLINE void g4_zero16(void *to, uint32_t bytes)
{
#if defined(__CUDA_ARCH__)
	ulonglong2 *x = (ulonglong2 *)to;

#pragma unroll 4
	for (uint32_t i = 0; i < bytes / 16; i++)
		x[i] = make_ulonglong2(0, 0);
#else
	g4_expect_aligned16(to, bytes);
	memset(to, 0, bytes);
#endif
}

G4_HD G4_INLINE void g4_copy16(void *to, const void *from, uint32_t bytes)
{
#if defined(__CUDA_ARCH__)
	ulonglong2 *x = (ulonglong2 *)to;
	const ulonglong2 *y = (const ulonglong2 *)from;
	const uint32_t count = bytes / 16;

	/* eight are on their way at a time: a load behind a store waits for it, which waits for a load, a trip to the L2 cache each */
#pragma unroll 1
	for (uint32_t i = 0; i < count; i += 8) {
		ulonglong2 batch[8];

#pragma unroll
		for (uint32_t k = 0; k < 8; k++)
			if (i + k < count)
				batch[k] = y[i + k];
#pragma unroll
		for (uint32_t k = 0; k < 8; k++)
			if (i + k < count)
				x[i + k] = batch[k];
	}
#else
	g4_expect_aligned16(to, bytes);
	g4_expect_aligned16(from, bytes);
	memcpy(to, from, bytes);
#endif
}

/*
 * What engine code calls where a program would call memcmp() and memmove(), which device code lacks; memcpy() and
 * memset() are there. One lane's work: for names and records. Whole pages go through g4_copy() and g4_equal().
 */
G4_HD G4_INLINE bool g4_bytes_equal(const void *a, const void *b, uint64_t bytes)
{
#if defined(__CUDA_ARCH__)
	const uint8_t *x = (const uint8_t *)a, *y = (const uint8_t *)b;

	G4_ROLLED
	for (uint64_t at = 0; at < bytes; at += 8) {
		const uint32_t n = (uint32_t)g4_min64(8, bytes - at);

		if (g4_load_bytes(x + at, n) != g4_load_bytes(y + at, n))
			return false;
	}
	return true;
#else
	return bytes == 0 || memcmp(a, b, bytes) == 0;
#endif
}

/* The ranges may overlap. */
G4_HD G4_INLINE void g4_bytes_move(void *to, const void *from, uint64_t bytes)
{
#if defined(__CUDA_ARCH__)
	uint8_t *x = (uint8_t *)to;
	const uint8_t *y = (const uint8_t *)from;

	if (x <= y) {
		for (uint64_t i = 0; i < bytes; i++)
			x[i] = y[i];
	} else {
		while (bytes-- > 0)
			x[bytes] = y[bytes];
	}
#else
	if (bytes > 0)
		memmove(to, from, bytes);
#endif
}

#endif
