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

/* G4_FN qualifies every engine function, G4_CONST every constant table that engine code reads. */
#if defined(__CUDACC__)
#define G4_CUDA 1
#define G4_FN __device__
#define G4_CONST __device__ const
#else
#define G4_CUDA 0
#define G4_FN
#define G4_CONST const
#endif
#define G4_INLINE static inline

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

G4_FN G4_INLINE uint64_t g4_align_up(uint64_t value, uint64_t power_of_two)
{
	return (value + power_of_two - 1) & ~(power_of_two - 1);
}

G4_FN G4_INLINE uint64_t g4_align_down(uint64_t value, uint64_t power_of_two)
{
	return value & ~(power_of_two - 1);
}

/* Number of 4 KiB pages that hold `bytes` bytes. */
G4_FN G4_INLINE uint64_t g4_pages_for(uint64_t bytes)
{
	return (bytes >> G4_PAGE_SHIFT) + ((bytes & (G4_PAGE_BYTES - 1)) != 0);
}

G4_FN G4_INLINE uint64_t g4_min64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

G4_FN G4_INLINE uint64_t g4_max64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

#endif
