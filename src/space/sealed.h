/* SPDX-License-Identifier: Apache-2.0 */
/* Pages that begin with a block header, on their way to a device and back. Per-lane. */
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

#endif
