/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomics of the cpu and lanes builds, over the compiler's builtins. Threads of one machine share one coherence domain:
 * engine scope and system scope are the same.
 */
#ifndef G4_SIMT_CPU_ATOMIC_H
#define G4_SIMT_CPU_ATOMIC_H

#include "base/base.h"

#define G4_ATOMIC_LOAD(bits, name, order)                                                                              \
	G4_INLINE uint##bits##_t g4_load##bits##_##name(const uint##bits##_t *p)                                       \
	{                                                                                                              \
		return __atomic_load_n(p, order);                                                                      \
	}
#define G4_ATOMIC_STORE(bits, name, order)                                                                             \
	G4_INLINE void g4_store##bits##_##name(uint##bits##_t *p, uint##bits##_t value)                                \
	{                                                                                                              \
		__atomic_store_n(p, value, order);                                                                     \
	}
#define G4_ATOMIC_FETCH(bits, name, builtin)                                                                           \
	G4_INLINE uint##bits##_t name##bits(uint##bits##_t *p, uint##bits##_t value)                                   \
	{                                                                                                              \
		return builtin(p, value, __ATOMIC_ACQ_REL);                                                            \
	}

#define G4_ATOMIC_FETCH_ORDERED(bits, name, builtin, suffix, order)                                                    \
	G4_INLINE uint##bits##_t name##bits##_##suffix(uint##bits##_t *p, uint##bits##_t value)                        \
	{                                                                                                              \
		return builtin(p, value, order);                                                                       \
	}

#define G4_ATOMICS(bits)                                                                                               \
	G4_ATOMIC_LOAD(bits, rlx, __ATOMIC_RELAXED)                                                                    \
	G4_ATOMIC_LOAD(bits, rlx_sys, __ATOMIC_RELAXED)                                                                \
	G4_ATOMIC_LOAD(bits, acq, __ATOMIC_ACQUIRE)                                                                    \
	G4_ATOMIC_LOAD(bits, acq_sys, __ATOMIC_ACQUIRE)                                                                \
	G4_ATOMIC_STORE(bits, rlx, __ATOMIC_RELAXED)                                                                   \
	G4_ATOMIC_STORE(bits, rlx_sys, __ATOMIC_RELAXED)                                                               \
	G4_ATOMIC_STORE(bits, rel, __ATOMIC_RELEASE)                                                                   \
	G4_ATOMIC_STORE(bits, rel_sys, __ATOMIC_RELEASE)                                                               \
	G4_ATOMIC_FETCH(bits, g4_add, __atomic_fetch_add)                                                              \
	G4_ATOMIC_FETCH(bits, g4_sub, __atomic_fetch_sub)                                                              \
	G4_ATOMIC_FETCH(bits, g4_or, __atomic_fetch_or)                                                                \
	G4_ATOMIC_FETCH(bits, g4_and, __atomic_fetch_and)                                                              \
	G4_ATOMIC_FETCH(bits, g4_xchg, __atomic_exchange_n)                                                            \
	G4_ATOMIC_FETCH_ORDERED(bits, g4_add, __atomic_fetch_add, acq, __ATOMIC_ACQUIRE)                               \
	G4_ATOMIC_FETCH_ORDERED(bits, g4_add, __atomic_fetch_add, rel, __ATOMIC_RELEASE)                               \
	G4_ATOMIC_FETCH_ORDERED(bits, g4_add, __atomic_fetch_add, rlx, __ATOMIC_RELAXED)                               \
	G4_ATOMIC_FETCH_ORDERED(bits, g4_or, __atomic_fetch_or, rlx, __ATOMIC_RELAXED)                                 \
	G4_ATOMIC_FETCH_ORDERED(bits, g4_and, __atomic_fetch_and, rlx, __ATOMIC_RELAXED)                               \
	G4_ATOMIC_FETCH_ORDERED(bits, g4_xchg, __atomic_exchange_n, acq, __ATOMIC_ACQUIRE)                             \
	G4_ATOMIC_FETCH_ORDERED(bits, g4_sub, __atomic_fetch_sub, rel, __ATOMIC_RELEASE)                               \
                                                                                                                       \
	G4_INLINE bool g4_cas##bits(uint##bits##_t *p, uint##bits##_t expected, uint##bits##_t desired)                \
	{                                                                                                              \
		return __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);  \
	}                                                                                                              \
                                                                                                                       \
	G4_INLINE bool g4_cas##bits##_acq(uint##bits##_t *p, uint##bits##_t expected, uint##bits##_t desired)          \
	{                                                                                                              \
		return __atomic_compare_exchange_n(p, &expected, desired, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE);  \
	}                                                                                                              \
                                                                                                                       \
	G4_INLINE uint##bits##_t g4_atomic_max##bits(uint##bits##_t *p, uint##bits##_t value)                          \
	{                                                                                                              \
		uint##bits##_t old = __atomic_load_n(p, __ATOMIC_RELAXED);                                             \
                                                                                                                       \
		/* Stores even an unchanged maximum: acquire and release then hold for every call. */                  \
		while (!__atomic_compare_exchange_n(p, &old, old < value ? value : old, true, __ATOMIC_ACQ_REL,        \
						    __ATOMIC_RELAXED))                                                 \
			;                                                                                              \
		return old;                                                                                            \
	}

G4_ATOMICS(32)
G4_ATOMICS(64)
G4_ATOMIC_LOAD(8, rlx, __ATOMIC_RELAXED)
G4_ATOMIC_STORE(8, rlx, __ATOMIC_RELAXED)

G4_INLINE uint64_t g4_atomic_max64_rlx(uint64_t *p, uint64_t value)
{
	uint64_t old = __atomic_load_n(p, __ATOMIC_RELAXED);

	while (old < value && !__atomic_compare_exchange_n(p, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return old;
}

G4_INLINE void g4_load_pair_rlx(uint64_t pair[2], const uint64_t *from)
{
	pair[0] = g4_load64_rlx(&from[0]);
	pair[1] = g4_load64_rlx(&from[1]);
}

/* Keeps what is before it before the stores behind it, for readers without a lock. */
G4_INLINE void g4_fence_rel(void)
{
	__atomic_thread_fence(__ATOMIC_RELEASE);
}

G4_INLINE void g4_fence_rel_sys(void)
{
	g4_fence_rel();
}

/* Keeps relaxed loads before it before everything behind it. */
G4_INLINE void g4_fence_acq(void)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}
G4_INLINE void g4_fence_acq_sys(void)
{
	g4_fence_acq();
}

G4_INLINE uint32_t g4_load32_fenced(const uint32_t *p)
{
	return g4_load32_acq(p);
}
G4_INLINE uint64_t g4_load64_fenced(const uint64_t *p)
{
	return g4_load64_acq(p);
}
G4_INLINE uint64_t g4_load64_fenced_sys(const uint64_t *p)
{
	return g4_load64_acq_sys(p);
}
G4_INLINE void g4_store64_fenced(uint64_t *p, uint64_t value)
{
	g4_store64_rel(p, value);
}
G4_INLINE void g4_store64_fenced_sys(uint64_t *p, uint64_t value)
{
	g4_store64_rel_sys(p, value);
}
G4_INLINE uint32_t g4_add32_fenced(uint32_t *p, uint32_t value)
{
	return g4_add32_rel(p, value);
}
G4_INLINE uint64_t g4_add64_fenced(uint64_t *p, uint64_t value)
{
	return g4_add64_rel(p, value);
}
G4_INLINE uint32_t g4_sub32_fenced(uint32_t *p, uint32_t value)
{
	return g4_sub32_rel(p, value);
}
G4_INLINE uint64_t g4_sub64_fenced(uint64_t *p, uint64_t value)
{
	return g4_sub64_rel(p, value);
}

#undef G4_ATOMICS
#undef G4_ATOMIC_FETCH_ORDERED
#undef G4_ATOMIC_FETCH
#undef G4_ATOMIC_STORE
#undef G4_ATOMIC_LOAD

#endif
