/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the program, by pointers that may be bad (memory.c). */
#ifndef G4_PRELOAD_MEMORY_H
#define G4_PRELOAD_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#define G4P_PATH_BYTES 4096u

extern bool g4p_guarded; /* there are mounts, and faults are found out (signals.c) */
/* How many of the bytes can be read, from the first on. There are mounts, here and below. */
size_t g4p_readable(const void *from, size_t bytes);
static inline bool g4p_can_read(const void *from, size_t bytes)
{
	return g4p_readable(from, bytes) == bytes;
}
/* Whether it can be read up to its end, or as far as a path can be long. NULL cannot. */
bool g4p_is_string(const char *text);
/* Whether it begins with this character, and can be read so far. False where there are no mounts. */
bool g4p_begins_with(const char *text, char first);
/* False: it cannot be written everywhere; some of it may be. */
bool g4p_copy_out(void *to, const void *from, size_t bytes);
/* In a signal handler: whether the fault is one of the functions above, which goes on and says so. */
bool g4p_resume(void *context);

#endif
