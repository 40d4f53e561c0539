/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages of files that a session has read, in its own memory, and whether they still are what the engine has (docs/design/mirror.md,
 * "Contents"). All functions are thread-safe; none waits.
 */
#ifndef G4C_PAGES_H
#define G4C_PAGES_H

#include "base/base.h"

#define G4C_PAGES_AT_ONCE 32u /* of one read, at most */

struct g4c_pages;

/* Pages of one file that follow each other. */
struct g4c_page_run {
	uint64_t ino;
	uint64_t generation;
	uint64_t first; /* page of the file, of G4_PAGE_BYTES */
	uint32_t count;
};

/* Puts bytes into the memory of who reads. False: it cannot be written. */
typedef bool g4c_deliver(void *to, const void *from, size_t bytes);

/*
 * `epochs`: G4_EPOCHS of them, the caller's until the table is freed. NULL: no memory. The memory of pages is taken with the first of them;
 * a child of a fork has none of them, and no core dump.
 */
struct g4c_pages *g4c_pages_new(const uint64_t *epochs);
void g4c_pages_free(struct g4c_pages *pages);
/* The value that an epoch has now: to be read before the command that reads what will depend on it. */
uint64_t g4c_pages_epoch(const struct g4c_pages *pages, uint16_t epoch);
/*
 * Reads from what is kept. False: not all of it is; *old: for the file has changed. *done: bytes, fewer than asked for at the end of the
 * file, or -EFAULT. bytes: not 0, of at most G4C_PAGES_AT_ONCE + 1 pages.
 */
bool g4c_pages_find(struct g4c_pages *pages, uint64_t ino, uint64_t generation, uint64_t offset, size_t bytes,
		    g4c_deliver *deliver, void *to, int64_t *done, bool *old);
/*
 * Room for the pages of a run, or for its first ones, `least` at least: *count of them, one after the other, to be filled and ended with
 * g4c_pages_filled() by the same thread. NULL: there is none now.
 */
uint8_t *g4c_pages_room(struct g4c_pages *pages, const struct g4c_page_run *run, uint32_t least, uint32_t *count);
/*
 * The room of a run (count as g4c_pages_room() said) has so many bytes of the file, which were read while its epoch had this value, or later.
 * ends: the file ended behind them. bytes 0 and not ends: nothing is kept.
 */
void g4c_pages_filled(struct g4c_pages *pages, const struct g4c_page_run *run, uint64_t bytes, bool ends,
		      uint16_t epoch, uint64_t value);

#endif
