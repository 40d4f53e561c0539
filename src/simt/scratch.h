/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scratch memory: an arena of a workgroup, whose lanes share it. Included by simt/simt.h.
 *
 *      0                        used                  bytes
 *     +------------+-----------+---------------------+
 *     | an         | what it   | free                |
 *     | operation  | calls     |                     |
 *     +------------+-----------+---------------------+
 *
 * A function that needs memory notes a mark, takes what it needs, and releases to the mark on every way out. What its callers
 * took stays as it is, and what it calls takes behind it: no function has to know of the others, and a commit on the way into
 * a transaction takes behind the operation. The depth is bounded: nothing recurses, and what can be taken at a time is added
 * up where the deepest of it is declared (inode/mounted.h).
 *
 * Taken memory holds anything. Debug builds overwrite what is taken and released; AddressSanitizer reports an access to
 * what is not taken. Running out is a fault of the engine and ends it.
 *
 * All functions: leader.
 */
#ifndef G4_SCRATCH_H
#define G4_SCRATCH_H

#include "base/base.h"

#if defined(G4_ASAN)
#include <sanitizer/asan_interface.h>
#define G4_SCRATCH_OPEN(at, bytes) ASAN_UNPOISON_MEMORY_REGION(at, bytes)
#define G4_SCRATCH_SHUT(at, bytes) ASAN_POISON_MEMORY_REGION(at, bytes)
#else
#define G4_SCRATCH_OPEN(at, bytes) ((void)(at), (void)(bytes))
#define G4_SCRATCH_SHUT(at, bytes) ((void)(at), (void)(bytes))
#endif

struct g4_scratch {
	uint8_t *base; /* 64 B aligned */
	uint32_t bytes;
	uint32_t used;
};

/* The arena over memory that is the workgroup's, 64 B aligned. */
G4_HD G4_INLINE void g4_scratch_init(struct g4_scratch *scratch, void *memory, uint32_t bytes)
{
	scratch->base = (uint8_t *)memory;
	scratch->bytes = bytes;
	scratch->used = 0;
}

G4_FN G4_INLINE void g4_scratch_fill(const struct g4_scratch *scratch, uint32_t from, uint32_t to)
{
#if defined(NDEBUG) || defined(__CUDA_ARCH__) /* there a leader fills one word after the other */
	(void)scratch;
	(void)from;
	(void)to;
#else
	memset(scratch->base + from, 0xdb, to - from);
#endif
}

G4_FN G4_INLINE void *g4_scratch_cut(struct g4_scratch *scratch, uint64_t bytes, uint32_t alignment)
{
	const uintptr_t base = (uintptr_t)scratch->base;
	const uint32_t from = (uint32_t)(g4_align_up(base + scratch->used, alignment) - base);

	if (bytes > scratch->bytes || from > scratch->bytes - bytes)
		G4_TRAP();
	const uint32_t to = (uint32_t)g4_align_up(from + bytes, 64);
	G4_SCRATCH_OPEN(scratch->base + from, to - from);
	g4_scratch_fill(scratch, from, to);
	scratch->used = to;
	return scratch->base + from;
}

G4_FN G4_INLINE void g4_scratch_cut_back(struct g4_scratch *scratch, uint32_t mark)
{
	G4_SCRATCH_OPEN(scratch->base + mark, scratch->used - mark);
	g4_scratch_fill(scratch, mark, scratch->used);
	G4_SCRATCH_SHUT(scratch->base + mark, scratch->bytes - mark);
	scratch->used = mark;
}

#endif
