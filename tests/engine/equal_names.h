/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of one hash. Nobody finds hundreds of them by trying, so in a program one of whose sources includes this, the hash of a name that
 * begins with '=' is that of its second letter: the program's own copy takes the place of the library's, for the engine and the checker.
 * Lanes that hash a name themselves (fs/optimistic.h) find no such name in the lookup cache, and ask for it as for one that is not there.
 */
#ifndef EQUAL_NAMES_H
#define EQUAL_NAMES_H

#include "hash/siphash.h"

G4_FN uint64_t plain_siphash13(const uint64_t key[2], const void *data, uint64_t bytes);
#define g4_siphash13 plain_siphash13
#include "hash/siphash.c" /* NOLINT(bugprone-suspicious-include) */
#undef g4_siphash13

/* a: the lowest hash, z: the highest. */
G4_FN static uint32_t equal_hash(char letter)
{
	return letter == 'a' ? 0 : letter == 'z' ? UINT32_MAX : (uint32_t)(uint8_t)letter << 24;
}

G4_FN uint64_t g4_siphash13(const uint64_t key[2], const void *data, uint64_t bytes)
{
	const uint64_t hash = plain_siphash13(key, data, bytes);
	const char *text = (const char *)data;

	return bytes < 2 || text[0] != '=' ? hash : hash >> 32 << 32 | equal_hash(text[1]);
}

#endif
