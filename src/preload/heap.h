/* SPDX-License-Identifier: Apache-2.0 */
/* The library's own memory, by the names under which the linker finds it: what it means by malloc(3) and its relatives. Thread-safe. */
#ifndef G4_PRELOAD_HEAP_H
#define G4_PRELOAD_HEAP_H

#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(hidden) /* programs may have functions of these names */
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t bytes);
void __wrap_free(void *memory);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t most);
#pragma GCC visibility pop
/* The C library's. */
void __real_free(void *memory);
void *__real_realloc(void *memory, size_t bytes);
/* Around a fork. */
void g4p_heap_lock(bool lock);

#endif
