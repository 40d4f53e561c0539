/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses: where something lies in the space of a file system. A type of its own, so that no count, offset in a file or page
 * number is taken for one. Only this header knows what is inside; with several disks the index of one will stand in its top bits.
 *
 * On disk an address is a g4_le64 (struct g4_block_header, the superblock, tags of the journal) or part of a block pointer.
 */
#ifndef G4_ADDRESS_H
#define G4_ADDRESS_H

#include "base/base.h"

struct g4_address {
	uint64_t bits;
};
#define G4_NO_ADDRESS g4_address_from(0) /* nothing that is addressed lies there */

/* From and to the form that it has on disk. */
G4_FN G4_INLINE struct g4_address g4_address_from(uint64_t stored)
{
	const struct g4_address address = {stored};

	return address;
}
G4_FN G4_INLINE uint64_t g4_address_stored(struct g4_address address)
{
	return address.bits;
}

/* So many bytes further on, in the same piece of space. */
G4_FN G4_INLINE struct g4_address g4_address_after(struct g4_address address, uint64_t bytes)
{
	return g4_address_from(address.bits + bytes);
}
G4_FN G4_INLINE struct g4_address g4_address_after_pages(struct g4_address address, uint64_t pages)
{
	return g4_address_from(address.bits + pages * G4_PAGE_BYTES);
}
G4_FN G4_INLINE bool g4_address_is(struct g4_address a, struct g4_address b)
{
	return a.bits == b.bits;
}
/* Whether it lies in a run of so many pages. */
G4_FN G4_INLINE bool g4_address_in(struct g4_address address, struct g4_address first, uint64_t pages)
{
	return address.bits - first.bits < pages * G4_PAGE_BYTES;
}
/* The page that it lies in. */
G4_FN G4_INLINE struct g4_address g4_address_page_start(struct g4_address address)
{
	return g4_address_from(g4_align_down(address.bits, G4_PAGE_BYTES));
}
G4_FN G4_INLINE bool g4_address_starts_page(struct g4_address address)
{
	return address.bits % G4_PAGE_BYTES == 0;
}
/* By where they lie, for what sorts: those of one disk are in a row. */
G4_FN G4_INLINE bool g4_address_is_before(struct g4_address a, struct g4_address b)
{
	return a.bits < b.bits;
}
G4_FN G4_INLINE bool g4_address_is_none(struct g4_address address)
{
	return address.bits == 0;
}

/* The page that it lies in, counted through the space: what the allocation map and the tags of the cache count. */
G4_FN G4_INLINE uint64_t g4_address_page(struct g4_address address)
{
	return address.bits >> G4_PAGE_SHIFT;
}
G4_FN G4_INLINE struct g4_address g4_page_address(uint64_t page)
{
	return g4_address_from(page << G4_PAGE_SHIFT);
}

#endif
