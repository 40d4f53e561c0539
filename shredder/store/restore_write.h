/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a restore's bytes come into a file. Large new files are written past the page cache, in runs of chunks that follow one another: whole blocks
 * directly, the ends of a run, whose blocks it shares with its neighbours, through the page cache. A page has bytes of one kind only, since blocks
 * are as large as pages or larger.
 */
#ifndef SHREDDER_STORE_RESTORE_WRITE_H
#define SHREDDER_STORE_RESTORE_WRITE_H

#include "store/tree.h"

/* One file, opened twice. */
struct store_target {
	int fd;
	int direct_fd; /* past the page cache; -1 */
};

/* Chunks on their way into a file. One a thread; zeros at first. */
struct store_run {
	uint8_t *memory; /* a block more than a run has */
	uint64_t offset; /* in the file; its place in the block is that in `memory` */
	uint64_t bytes;
};

/* All of them. -1 and errno. */
int store_write_at(int fd, const uint8_t *data, uint64_t bytes, uint64_t offset);
/* Appends them to `to`. False: they are not there, or cannot be read. */
bool store_read_at(int fd, struct store_buf *to, uint64_t bytes, uint64_t offset);
/* The file `name` of a directory, which is open as `fd`, once more, past the page cache; -1: it is too small for that, or it cannot be. */
int store_open_direct(int folder_fd, const char *name, int fd, uint64_t bytes);
/*
 * Blocks for what comes between two holes: in one piece, and those that are there can be written side by side. Where that cannot be, they are made by
 * writing.
 */
void store_make_blocks(const struct store_target *target, uint64_t begin, uint64_t end);
/* Adds a chunk. The target has a direct_fd, and is the same until the run is empty. -1 and errno. */
int store_run_add(const struct store_target *target, struct store_run *run, const uint8_t *data, uint64_t bytes,
		  uint64_t offset);
/* Writes what is left. -1 and errno. */
int store_run_end(const struct store_target *target, struct store_run *run);

#endif
