/* SPDX-License-Identifier: Apache-2.0 */
/*
 * assert_memory_equal() of all tests of the engine. cmocka compares byte by byte, without a sanitizer, which was a quarter of
 * engine.rebalance_rows in release. So words are compared first, and cmocka tells the differences where there are any (`--wrap` in G4Tests.cmake).
 * AddressSanitizer, which does not see what cmocka reads, looks at all of it; ThreadSanitizer, which does not either, at none.
 */
#include "rig.h"

void __real__assert_memory_equal(const void *a, const void *b, size_t size, const char *file, int line);
void __wrap__assert_memory_equal(const void *a, const void *b, size_t size, const char *file, int line);

#if defined(G4_TSAN)
#define UNWATCHED __attribute__((noinline, no_sanitize("thread"), no_builtin("memcmp", "bcmp")))

struct word {
	uint64_t bits;
} __attribute__((packed, may_alias));

/* A loop that stays one: memcmp() is watched whatever calls it. */
UNWATCHED bool rig_equal(const void *a, const void *b, size_t bytes)
{
	const struct word *x = a, *y = b;
	uint64_t other = 0;

	for (size_t i = 0; i < bytes / 8; i++)
		other |= x[i].bits ^ y[i].bits;
	for (size_t i = bytes / 8 * 8; i < bytes; i++)
		other |= ((const uint8_t *)a)[i] ^ ((const uint8_t *)b)[i];
	return !other;
}
#else
bool rig_equal(const void *a, const void *b, size_t bytes)
{
	return bytes == 0 || memcmp(a, b, bytes) == 0;
}
#endif

void __wrap__assert_memory_equal(const void *a, const void *b, size_t size, const char *file, int line)
{
	if (!rig_equal(a, b, size))
		__real__assert_memory_equal(a, b, size, file, line);
}
