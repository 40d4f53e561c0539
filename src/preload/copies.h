/* SPDX-License-Identifier: Apache-2.0 */
/* Private mappings that are copies of what a file held: which memory they are. */
#ifndef G4_PRELOAD_COPIES_H
#define G4_PRELOAD_COPIES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The memory is a copy from now on. False: there is no place to note it. Calm. */
bool g4p_copy_made(void *memory, size_t bytes);
/* The kernel's mmap(2) with MAP_FIXED: what is there is no copy any more. */
void *g4p_map_over(void *where, size_t bytes, int protection, int flags, int fd, off_t offset);

#endif
