/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes sums of pages beside the processor, of many at a time: a GPU (gpu/sums_host.h). Host only.
 *
 * The pages lie in slots of one buffer. A thread fills its slot, starts it, goes on with another one, and comes back for the sums.
 * Different slots are used by different threads at the same time.
 */
#ifndef G4_PAGE_HASHER_HOST_H
#define G4_PAGE_HASHER_HOST_H

#include "hash/sums.h"

struct g4_page_hasher {
	uint32_t slots, slot_pages;
	uint8_t *memory; /* slot k: slot_pages pages, from page k * slot_pages of it on */
	/* Begins with the sums, by BLAKE3, of the first `pages` pages of a slot, which stay as they are until wait() has returned. */
	int (*start)(struct g4_page_hasher *hasher, uint32_t slot, uint32_t pages);
	/* Of a slot that was started: *sums are good until it is started again. */
	int (*wait)(struct g4_page_hasher *hasher, uint32_t slot, const struct g4_sum **sums);
};

static inline uint8_t *g4_page_hasher_slot(const struct g4_page_hasher *hasher, uint32_t slot)
{
	return hasher->memory + (uint64_t)slot * hasher->slot_pages * G4_PAGE_BYTES;
}

#endif
