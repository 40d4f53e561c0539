/* SPDX-License-Identifier: Apache-2.0 */
/* Pages with a block header, on their way to a device and back. Per-lane. */
#ifndef G4_SEALED_H
#define G4_SEALED_H

#include "format/format.h"

/* Writes header and checksum into a page that is about to be written to `address`. */
G4_FN void g4_block_seal(void *page, uint32_t type, struct g4_address address, uint64_t generation, uint32_t fs_tag);
/* Checks magic, type, file system, address and checksum of a page read from `address`. */
G4_FN int g4_block_verify(const void *page, uint32_t type, struct g4_address address, uint32_t fs_tag);

/* A header without its checksum, wherever it stands; and what is wrong with one whose checksum is right. */
G4_FN void g4_block_fill(struct g4_block_header *header, uint32_t type, struct g4_address address, uint64_t generation,
			 uint32_t fs_tag);
G4_FN int g4_block_check(const struct g4_block_header *header, uint32_t type, struct g4_address address,
			 uint32_t fs_tag);

/* g4_block_seal() for an indirect page: embeds the header in the spare bits. Where its pages of sums are stands there already. */
G4_FN void g4_indirect_seal(void *page, uint64_t inode, uint32_t level, struct g4_address address, uint64_t generation,
			    uint32_t fs_tag);
G4_FN void g4_sums_seal(struct g4_sums_page *page, uint64_t inode, uint32_t level, uint32_t quarter,
			struct g4_address address, uint64_t generation, uint32_t fs_tag);
/* Verifies an indirect page and strips it to bare pointers; the header goes to *header. */
G4_FN int g4_indirect_verify(void *page, struct g4_address address, uint32_t fs_tag, struct g4_indirect_header *header);
/* The same of a page of sums, whose entries are bare then. */
G4_FN int g4_sums_verify(struct g4_sums_page *page, struct g4_address address, uint32_t fs_tag,
			 struct g4_sums_header *header);

/* Whether a page is metadata of whatever type in its own place; its generation then. The page may be changed. */
G4_FN bool g4_block_is_whole(void *page, struct g4_address address, uint32_t fs_tag, uint64_t *generation);
/* That generation, 0 of anything else. The page may be changed. */
G4_FN uint64_t g4_block_generation(void *page, struct g4_address address, uint32_t fs_tag);

#endif
