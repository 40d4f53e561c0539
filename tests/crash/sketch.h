/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A state before it is in memory: of each page that differs where its bytes are, and the sum of all. Most states were seen before or
 * recover as others did, and are never more than this. Pages that a request wrote as a whole stay where the record has them; only a
 * page that is torn is put together, in memory of the sketch's own. Not thread-safe.
 */
#ifndef CRASH_SKETCH_H
#define CRASH_SKETCH_H

#include "memory.h"

struct sketch_page {
	uint32_t page;
	bool summed;
	uint8_t *own; /* NULL: `bytes` are another's */
	const uint8_t *bytes;
	uint64_t sum;
};
struct sketch {
	struct memory *memory; /* which has what was settled, and nothing else, while there are pages here */
	struct sketch_page *pages;
	uint32_t count, room;
	uint32_t *place;   /* of a page among these, if that one is there */
	uint8_t **scratch; /* pages */
	uint32_t scratch_used, scratch_count;
};

void sketch_open(struct sketch *k, struct memory *memory);
void sketch_close(struct sketch *k);
/* Nothing differs. */
void sketch_clear(struct sketch *k);
/* A whole page is these bytes, which stay there; their sum. */
void sketch_whole(struct sketch *k, uint32_t page, const uint8_t *bytes, uint64_t sum);
/* Bytes of one page are these. */
void sketch_part(struct sketch *k, uint64_t offset, const uint8_t *bytes, uint64_t count);
/* A byte of a page is another. */
void sketch_rot(struct sketch *k, uint64_t offset, uint8_t mask);
/* A page's part of the sums. */
uint64_t sketch_sum(struct sketch *k, uint32_t page);
void sketch_sums(struct sketch *k, uint64_t *all, uint64_t *home);
/* Puts it into memory, in the level that was begun last. */
void sketch_apply(const struct sketch *k);

#endif
