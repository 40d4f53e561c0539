/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metadata blocks: read and verified once on their way into the cache, sealed (address, generation, checksum) on their
 * way out. In the cache an indirect page holds bare pointers; its header exists on disk only.
 */
#ifndef G4_BLOCK_H
#define G4_BLOCK_H

#include "cache/cache.h"
#include "format/layout.h"
#include "hash/crc32c.h"
#include "space/sealed.h"

struct g4_in_log {		/* a page whose newest image has not come home */
	struct g4_address home; /* where it belongs */
	struct g4_address log;	/* where the image lies */
	uint64_t sequence;	/* of its transaction, which it is sealed with */
	uint32_t copy;		/* in which copy of the log: others may have an older image there */
};

/* What a cache line has of a metadata page, while somebody holds a reference. Guarded by the transaction (README.md). */
struct g4_meta_line {
	uint64_t txn;	 /* transaction in which it is dirty, 0: none. Lines of files have 0 here, too (g4_txn_has()) */
	uint64_t home;	 /* newest committed transaction not yet written home, 0: none */
	uint64_t inode;	 /* indirect pages and pages of sums: owner */
	uint8_t type;	 /* enum g4_block_type */
	uint8_t level;	 /* indirect pages; pages of sums: of theirs */
	uint8_t freed;	 /* its page was freed in the running transaction */
	uint8_t quarter; /* pages of sums */
	uint32_t
		below; /* indirect pages: pages of a file from this one down, or 0 (FORMAT.md, "Shared indirect pages") */
};
G4_STATIC_ASSERT(sizeof(struct g4_meta_line) <= sizeof(((struct g4_line *)0)->kept), "a line keeps it");
G4_FN G4_INLINE struct g4_meta_line *g4_meta_line(const struct g4_cache *cache, uint32_t line)
{
	return (struct g4_meta_line *)(void *)cache->lines[line].kept;
}

/* Where the pages of sums of a cached indirect page are; the line's note. */
G4_FN G4_INLINE struct g4_sums_places *g4_meta_places(const struct g4_cache *cache, uint32_t line)
{
	return (struct g4_sums_places *)(void *)&cache->notes[line];
}

struct g4_meta { /* what verification needs to know */
	struct g4_cache *cache;
	struct g4_space *space;
	struct g4_layout layout;
	uint32_t fs_tag;
	uint32_t in_log_count;
	struct g4_in_log *in_log; /* by home; of a mount that can not write what the journal holds. Constant */
};

/* Another copy of an image than the one that was verified and is damaged since: one of the same transaction. 0, or there is none. */
G4_FN int g4_block_read_image(struct g4_wg *wg, const struct g4_meta *meta, const struct g4_in_log *image, void *page);

/*
 * Leader. References the cached block at `address`, reading and verifying it when needed. *line is to be given back
 * with g4_cache_put. Errors: -G4_E_IO, the corruption codes, -G4_E_NOMEM when the cache is all in use.
 */
G4_FN int g4_meta_get(struct g4_wg *wg, struct g4_meta *meta, struct g4_address address, uint32_t type, uint32_t *line);
/*
 * Leader. Reads blocks that are going to be asked for with one wait for all, and leaves them in the cache. What can not be read, or is not
 * right, is left to those who ask. At most G4_META_TOGETHER.
 */
#define G4_META_TOGETHER 16u
struct g4_meta_wanted {
	struct g4_address address;
	uint32_t type;
};
G4_FN void g4_meta_read_together(struct g4_wg *wg, struct g4_meta *meta, const struct g4_meta_wanted *wanted,
				 uint32_t count);
/* A few of them, in the order of their addresses, so that of two workgroups that want the same pages none waits for what waits for it. */
struct g4_meta_ahead {
	struct g4_meta_wanted wanted[G4_META_TOGETHER];
	uint32_t count; /* 0 at first */
};
/* One more, unless it is there. False: there is no room. */
G4_FN bool g4_meta_want(struct g4_meta_ahead *ahead, struct g4_address address, uint32_t type);
/* They are read, as g4_meta_read_together() does; none is left. */
G4_FN void g4_meta_read_ahead(struct g4_wg *wg, struct g4_meta *meta, struct g4_meta_ahead *ahead);
/* g4_meta_get() where the block may well be in line `near`, which spares looking for it. */
G4_FN int g4_meta_get_near(struct g4_wg *wg, struct g4_meta *meta, struct g4_address address, uint32_t type,
			   uint32_t near, uint32_t *line);
/* The same for an indirect page that must belong to `inode` at `level`. 0: to any inode. */
G4_FN int g4_meta_get_indirect(struct g4_wg *wg, struct g4_meta *meta, struct g4_address address, uint64_t inode,
			       uint32_t level, uint32_t *line);
/* The same for a page of sums. */
G4_FN int g4_meta_get_sums(struct g4_wg *wg, struct g4_meta *meta, struct g4_address address, uint64_t inode,
			   uint32_t level, uint32_t quarter, uint32_t *line);
/* References a line for a block whose old contents do not matter: zeroed, typed. The caller makes it dirty. */
G4_FN int g4_meta_new(struct g4_wg *wg, struct g4_meta *meta, struct g4_address address, uint32_t type, uint32_t *line);

/*
 * How many pages of a log of `log_pages` pages are read at a time where all of it is looked at: 1 MiB at most, as a disk likes it, and
 * of a small log a sixteenth, as its buffer should stay in the processor's cache.
 */
G4_FN G4_INLINE uint64_t g4_log_read_pages(uint64_t log_pages)
{
	return g4_min64(G4_MIB / G4_PAGE_BYTES, log_pages / 16 + 1);
}

#endif
