/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metadata blocks: read and verified once on their way into the cache, sealed (address, generation, checksum) on their
 * way out. In the cache an indirect page holds bare pointers; its header exists on disk only.
 */
#ifndef G4_BLOCK_H
#define G4_BLOCK_H

#include "cache/cache.h"
#include "format/format.h"
#include "hash/crc32c.h"

struct g4_in_log {     /* a page whose newest image has not come home */
	uint64_t home; /* its address */
	uint64_t log;  /* the image's */
};

struct g4_meta { /* what verification needs to know */
	struct g4_cache *cache;
	struct g4_space *space;
	struct g4_layout layout;
	uint32_t fs_tag;
	uint32_t in_log_count;
	struct g4_in_log *in_log; /* by home; of a mount that can not write what the journal holds. Constant */
};

/* Writes header and checksum into a page that is about to be written to `address`. */
G4_FN void g4_block_seal(void *page, uint32_t type, uint64_t address, uint64_t generation, uint32_t fs_tag);
/* The same for an indirect page: embeds the header in the spare bits. */
G4_FN void g4_indirect_seal(void *page, uint64_t inode, uint32_t level, uint64_t address, uint64_t generation,
			    uint32_t fs_tag);
/*
 * Leader. Seals a page that is no indirect one, by all lanes; returns the checksum of the sealed page. `job` lies in
 * scratch memory.
 */
G4_FN uint32_t g4_block_seal_wide(struct g4_wg *wg, void *page, uint32_t type, uint64_t address, uint64_t generation,
				  uint32_t fs_tag, struct g4_crc32c_job *job);
/* Checks magic, type, file system, address and checksum of a page read from `address`. */
G4_FN int g4_block_verify(const void *page, uint32_t type, uint64_t address, uint32_t fs_tag);
/* Verifies an indirect page and strips it to bare pointers; the header goes to *header. */
G4_FN int g4_indirect_verify(void *page, uint64_t address, uint32_t fs_tag, struct g4_indirect_header *header);

/*
 * Leader. References the cached block at `address`, reading and verifying it when needed. *line is to be given back
 * with g4_cache_put. Errors: -G4_E_IO, the corruption codes, -G4_E_NOMEM when the cache is all in use.
 */
G4_FN int g4_meta_get(struct g4_wg *wg, struct g4_meta *meta, uint64_t address, uint32_t type, uint32_t *line);
/* The same where the block may well be in line `near`, which spares looking for it. */
G4_FN int g4_meta_get_near(struct g4_wg *wg, struct g4_meta *meta, uint64_t address, uint32_t type, uint32_t near,
			   uint32_t *line);
/* The same for an indirect page that must belong to `inode` at `level`. */
G4_FN int g4_meta_get_indirect(struct g4_wg *wg, struct g4_meta *meta, uint64_t address, uint64_t inode, uint32_t level,
			       uint32_t *line);
/* References a line for a block whose old contents do not matter: zeroed, typed. The caller makes it dirty. */
G4_FN int g4_meta_new(struct g4_wg *wg, struct g4_meta *meta, uint64_t address, uint32_t type, uint32_t *line);

#endif
