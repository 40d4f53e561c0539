/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sealing and verifying pages of metadata (space/sealed.h) by all lanes: one lane of a GPU takes a hundred microseconds and more for
 * the checksum of a page, and for a header that stands in spare bits of all of it. Leader; pages lie in memory that all lanes reach.
 */
#ifndef G4_SEALED_WIDE_H
#define G4_SEALED_WIDE_H

#include "hash/crc32c.h"
#include "space/sealed.h"

/* What a header says besides the file system. */
struct g4_sealed_about {
	uint32_t type;		 /* enum g4_block_type */
	uint32_t level, quarter; /* indirect pages and pages of sums: level and owner; pages of sums: quarter */
	uint64_t inode;
	uint32_t below; /* indirect pages */
};

/* Seals; the checksum of the sealed page. */
G4_FN uint32_t g4_seal_wide(struct g4_wg *wg, void *page, const struct g4_sealed_about *about,
			    struct g4_address address, uint64_t generation, uint32_t fs_tag);
/* Verifies, and strips what has its header in spare bits; *about is what the header says. `type` is what the page is to be. */
G4_FN int g4_verify_wide(struct g4_wg *wg, void *page, uint32_t type, struct g4_address address, uint32_t fs_tag,
			 struct g4_sealed_about *about, struct g4_sums_places *places);

/* The region that they open. Collective. */
#define G4_SEALED_HEADER_BYTES 64u
struct g4_sealed_job {
	uint32_t type;
	bool seals;
	uint8_t header[G4_SEALED_HEADER_BYTES]; /* of a page that has it in spare bits */
	void *page;
	uint32_t found; /* the checksum of the page with none in it */
	struct g4_crc32c_job crc;
};
G4_FN void g4_sealed_region(struct g4_wg *wg, void *args);

#endif
