/* SPDX-License-Identifier: Apache-2.0 */
/* Large pieces of memory. Host only. */
#ifndef G4_MEMORY_HOST_H
#define G4_MEMORY_HOST_H

#include "base/base.h"

/*
 * Zeroed memory, page-aligned, taken from the system when it is touched; NULL: there is none. Asks for huge pages where
 * the piece is at least one huge page long: a device reads one physical range faster than many small ones (1.2 and 3.0
 * GB/s were measured for 1 MiB reads through virtio), and the processor needs fewer translations. Thread-safe.
 */
void *g4_memory_map(uint64_t bytes);
/*
 * Takes back the wish for huge pages for a part of it, as far as it is whole huge pages: for what is touched here and there, or
 * may never be.
 */
void g4_memory_small_pages(void *memory, uint64_t bytes);
/* Has the kernel give memory to that part now, what is in it stays; thread-safe. Where it cannot, it does so as before, when somebody writes. */
void g4_memory_touch(void *memory, uint64_t bytes);
/*
 * Gives a shared mapping of a file in memory all of the file's pages, by several threads; what the file has not yet is made. For what a device will pin:
 * it then finds the pages one after the other, where each would be a fault. Where the kernel cannot, or has no memory, nothing is changed.
 */
void g4_memory_populate(void *memory, uint64_t bytes);
/* Whether this process may have huge pages at all: where it may not, a first touch is a small one. */
bool g4_memory_has_huge_pages(void);
/* Gives it back; `bytes` as it was asked for. NULL is fine. */
void g4_memory_unmap(void *memory, uint64_t bytes);

/*
 * Zeroed memory that other processes map by *fd, which is the caller's to close. It cannot change its size: a truncation would be a
 * fault for its users. keeps: nobody else can map it for writing. 0, or -G4_E_NOMEM, and *fd is -1.
 */
int g4_memory_share(const char *name, uint64_t bytes, bool keeps, int *fd, void **memory);

/*
 * For a device that has memory pinned: which piece of g4_memory_map() an address is in, false: in none, or too many are there to
 * know; and a call before a piece goes away, during which no piece comes or goes. Thread-safe. A watcher is its owner's memory.
 */
struct g4_memory_watcher {
	void (*goes)(void *context, void *memory, uint64_t bytes);
	void *context;
	struct g4_memory_watcher *next;
};
bool g4_memory_find(const void *at, void **memory, uint64_t *bytes);
void g4_memory_watch(struct g4_memory_watcher *watcher);
void g4_memory_unwatch(struct g4_memory_watcher *watcher); /* of one that does not watch: nothing */

#endif
