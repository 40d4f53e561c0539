/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomics of the cuda build: nvcc's __nv_atomic builtins, and PTX where these make more of it than has to be. Engine scope is the
 * device; the suffix _sys widens it to the host. PCIe carries no atomics: read-modify-write operations are for device memory, and only loads and stores have
 * a _sys form.
 */
#ifndef G4_SIMT_CUDA_ATOMIC_H
#define G4_SIMT_CUDA_ATOMIC_H

#include "base/base.h"

#define G4_ATOMIC_LOAD(bits, name, order, scope)                                                                       \
	G4_FN G4_INLINE uint##bits##_t g4_load##bits##_##name(const uint##bits##_t *p)                                 \
	{                                                                                                              \
		return __nv_atomic_load_n(const_cast<uint##bits##_t *>(p), order, scope);                              \
	}
#define G4_ATOMIC_STORE(bits, name, order, scope)                                                                      \
	G4_FN G4_INLINE void g4_store##bits##_##name(uint##bits##_t *p, uint##bits##_t value)                          \
	{                                                                                                              \
		__nv_atomic_store_n(p, value, order, scope);                                                           \
	}
/*
 * What is read, modified and written in one step is global memory, and the instruction says so: of a generic address, which may be the
 * block's shared memory or a lane's own, nvcc makes a question and three branches, of 48 instructions where one of 64 bits is two. So
 * there is none of these on the leader's stack or in __shared__ variables.
 */
#define G4_ATOMIC_FETCH(bits, name, op, type, letter, order, argument)                                                 \
	G4_FN G4_INLINE uint##bits##_t name(uint##bits##_t *p, uint##bits##_t value)                                   \
	{                                                                                                              \
		uint##bits##_t old;                                                                                    \
                                                                                                                       \
		asm volatile("atom." order ".gpu.global." op "." type " %0, [%1], %2;"                                 \
			     : "=" letter(old)                                                                         \
			     : "l"(__cvta_generic_to_global(p)), letter(argument)                                      \
			     : "memory");                                                                              \
		return old;                                                                                            \
	}
#define G4_ATOMIC_CAS(bits, name, letter, order)                                                                       \
	G4_FN G4_INLINE bool name(uint##bits##_t *p, uint##bits##_t expected, uint##bits##_t desired)                  \
	{                                                                                                              \
		uint##bits##_t old;                                                                                    \
                                                                                                                       \
		asm volatile("atom." order ".gpu.global.cas.b" #bits " %0, [%1], %2, %3;"                              \
			     : "=" letter(old)                                                                         \
			     : "l"(__cvta_generic_to_global(p)), letter(expected), letter(desired)                     \
			     : "memory");                                                                              \
		return old == expected;                                                                                \
	}

#define G4_ATOMICS(bits, letter)                                                                                       \
	G4_ATOMIC_LOAD(bits, rlx, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE)                                       \
	G4_ATOMIC_LOAD(bits, rlx_sys, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_SYSTEM)                                   \
	G4_ATOMIC_LOAD(bits, acq, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_DEVICE)                                       \
	G4_ATOMIC_LOAD(bits, acq_sys, __NV_ATOMIC_ACQUIRE, __NV_THREAD_SCOPE_SYSTEM)                                   \
	G4_ATOMIC_STORE(bits, rlx, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE)                                      \
	G4_ATOMIC_STORE(bits, rlx_sys, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_SYSTEM)                                  \
	G4_ATOMIC_STORE(bits, rel, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_DEVICE)                                      \
	G4_ATOMIC_STORE(bits, rel_sys, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_SYSTEM)                                  \
	G4_ATOMIC_FETCH(bits, g4_add##bits, "add", "u" #bits, letter, "acq_rel", value)                                \
	G4_ATOMIC_FETCH(bits, g4_add##bits##_acq, "add", "u" #bits, letter, "acquire", value)                          \
	G4_ATOMIC_FETCH(bits, g4_add##bits##_rel, "add", "u" #bits, letter, "release", value)                          \
	G4_ATOMIC_FETCH(bits, g4_add##bits##_rlx, "add", "u" #bits, letter, "relaxed", value)                          \
	G4_ATOMIC_FETCH(bits, g4_sub##bits, "add", "u" #bits, letter, "acq_rel", -value)                               \
	G4_ATOMIC_FETCH(bits, g4_sub##bits##_rel, "add", "u" #bits, letter, "release", -value)                         \
	G4_ATOMIC_FETCH(bits, g4_or##bits, "or", "b" #bits, letter, "acq_rel", value)                                  \
	G4_ATOMIC_FETCH(bits, g4_and##bits, "and", "b" #bits, letter, "acq_rel", value)                                \
	G4_ATOMIC_FETCH(bits, g4_or##bits##_rlx, "or", "b" #bits, letter, "relaxed", value)                            \
	G4_ATOMIC_FETCH(bits, g4_and##bits##_rlx, "and", "b" #bits, letter, "relaxed", value)                          \
	G4_ATOMIC_FETCH(bits, g4_xchg##bits, "exch", "b" #bits, letter, "acq_rel", value)                              \
	G4_ATOMIC_FETCH(bits, g4_xchg##bits##_acq, "exch", "b" #bits, letter, "acquire", value)                        \
	G4_ATOMIC_FETCH(bits, g4_atomic_max##bits, "max", "u" #bits, letter, "acq_rel", value)                         \
	G4_ATOMIC_CAS(bits, g4_cas##bits, letter, "acq_rel")                                                           \
	G4_ATOMIC_CAS(bits, g4_cas##bits##_acq, letter, "acquire")

G4_ATOMICS(32, "r")
G4_ATOMICS(64, "l")
G4_ATOMIC_FETCH(64, g4_atomic_max64_rlx, "max", "u64", "l", "relaxed", value)

/* A byte is loaded and stored whole; atomics of the hardware begin with wider ones. */
G4_FN G4_INLINE uint8_t g4_load8_rlx(const uint8_t *p)
{
	return *(const volatile uint8_t *)p;
}
G4_FN G4_INLINE void g4_store8_rlx(uint8_t *p, uint8_t value)
{
	*(volatile uint8_t *)p = value;
}

/*
 * Keeps what is before it before the stores behind it, for readers without a lock. It waits until all that was written has arrived, and leaves
 * the L1 as it is: what nvcc makes of __nv_atomic_thread_fence() is a fence of both halves, or, of one half, of the dearest kind.
 */
G4_FN G4_INLINE void g4_fence_rel(void)
{
	asm volatile("fence.release.gpu;" ::: "memory");
}

G4_FN G4_INLINE void g4_fence_rel_sys(void)
{
	__nv_atomic_thread_fence(__NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_SYSTEM);
}

/* Keeps relaxed loads before it before everything behind it. It waits for them alone, and empties the L1. */
G4_FN G4_INLINE void g4_fence_acq(void)
{
	asm volatile("fence.acquire.gpu;" ::: "memory");
}
G4_FN G4_INLINE void g4_fence_acq_sys(void)
{
	__nv_atomic_thread_fence(__NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_SYSTEM);
}

G4_FN G4_INLINE uint32_t g4_load32_fenced(const uint32_t *p)
{
	return g4_load32_rlx(p);
}
G4_FN G4_INLINE uint64_t g4_load64_fenced(const uint64_t *p)
{
	return g4_load64_rlx(p);
}
/*
 * Each goes over PCIe, for the L2 cache keeps nothing of the host's memory. Those of system scope wait for each other where they are of
 * one cache line: sixteen take 9 us on an H200 instead of 2.
 */
G4_FN G4_INLINE uint64_t g4_load64_fenced_sys(const uint64_t *p)
{
	return g4_load64_rlx(p);
}
G4_FN G4_INLINE void g4_store64_fenced(uint64_t *p, uint64_t value)
{
	g4_store64_rlx(p, value);
}
G4_FN G4_INLINE void g4_store64_fenced_sys(uint64_t *p, uint64_t value)
{
	g4_store64_rlx_sys(p, value);
}
G4_FN G4_INLINE uint32_t g4_add32_fenced(uint32_t *p, uint32_t value)
{
	return g4_add32_rlx(p, value);
}
G4_FN G4_INLINE uint64_t g4_add64_fenced(uint64_t *p, uint64_t value)
{
	return g4_add64_rlx(p, value);
}
G4_FN G4_INLINE uint32_t g4_sub32_fenced(uint32_t *p, uint32_t value)
{
	return g4_add32_rlx(p, -value);
}
G4_FN G4_INLINE uint64_t g4_sub64_fenced(uint64_t *p, uint64_t value)
{
	return g4_add64_rlx(p, -value);
}

G4_FN G4_INLINE void g4_peek_acq(uint64_t *to, const uint64_t *from)
{
	*to = g4_load64_acq(from);
}

/*
 * Copies 8 B words that others may be changing, each of them whole: eight at a time are on their way, for a store between two
 * loads would make the second wait. Their number is a constant, so that nothing is left of the comparisons.
 */
G4_FN G4_INLINE void g4_peek(void *to, const void *from, uint32_t words)
{
	uint64_t *out = (uint64_t *)to;
	const uint64_t *in = (const uint64_t *)from;

#pragma unroll
	for (uint32_t i = 0; i < words; i += 8) {
		uint64_t batch[8];

#pragma unroll
		for (uint32_t k = 0; k < 8; k++)
			batch[k] = i + k < words ? g4_load64_rlx(&in[i + k]) : 0;
#pragma unroll
		for (uint32_t k = 0; k < 8; k++)
			if (i + k < words)
				out[i + k] = batch[k];
	}
}

/* Two words, 16 B aligned, each of them whole: one way to memory. */
G4_FN G4_INLINE void g4_load_pair_rlx(uint64_t pair[2], const uint64_t *from)
{
	asm volatile("ld.relaxed.gpu.v2.b64 {%0, %1}, [%2];" : "=l"(pair[0]), "=l"(pair[1]) : "l"(from) : "memory");
}

#undef G4_ATOMICS
#undef G4_ATOMIC_CAS
#undef G4_ATOMIC_FETCH
#undef G4_ATOMIC_STORE
#undef G4_ATOMIC_LOAD

#endif
