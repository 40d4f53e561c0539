/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The write pipeline (DESIGN.md "The way of a write"): everything that is stored of a file's contents goes through its stages,
 * a batch of pages at a time.
 *
 * gather -> hash -> dedup -> place -> store -> publish
 *
 * A stage is a file that reads and extends the batch; parity is made below, by sets of disks. Data goes to space that nothing
 * points to yet; publish alone touches metadata: it makes the data reachable in a transaction, together with the size. Crash
 * before publish: the old contents, and the space was never taken on disk. Crash after: the new. An I/O error leaves dirty
 * pages dirty and gives the claimed space back.
 *
 * Leader, in-core inode write-locked.
 */
#ifndef G4_BATCH_H
#define G4_BATCH_H

#include "data/split.h"
#include "data/sums.h"

#define G4_BATCH_PAGES 256u /* from the cache; as many segments */
#define G4_BATCH_SUMS                                                                                                  \
	512u /* pages that have sums, from memory: a large page; also what is copied first (bounce_stage.h) */

enum g4_segment_kind {
	G4_SEGMENT_NEW,	     /* space that was claimed for it */
	G4_SEGMENT_IN_PLACE, /* space that was allocated before and never written */
	/* nothing is stored of these */
	G4_SEGMENT_FOUND, /* pages with these contents, which others lead to */
	G4_SEGMENT_ZEROS  /* a hole */
};

/* Pages in a row, in the file and on the device. */
struct g4_segment {
	struct g4_address address;
	uint64_t page;
	uint32_t pages;
	uint32_t first; /* index into the batch */
	uint32_t kind;	/* enum g4_segment_kind */
};

G4_FN G4_INLINE bool g4_segment_is_stored(const struct g4_segment *segment)
{
	return segment->kind < G4_SEGMENT_FOUND;
}

/* Of a request that stores it. */
G4_FN G4_INLINE uint32_t g4_segment_io_flags(const struct g4_segment *segment)
{
	return segment->kind == G4_SEGMENT_IN_PLACE ? G4_IO_IN_USE : 0;
}

/*
 * What is known of a page's contents before it has a place: nothing, that they are zeros, twice the index (and 1) of the first
 * page in the lists that is like it, or the address of a page like it, which is larger.
 */
#define G4_KNOWN_NOT UINT64_C(0)
#define G4_KNOWN_ZEROS UINT64_C(1)
#define G4_KNOWN_SAME(index) (((index) + UINT64_C(1)) * 2)
G4_STATIC_ASSERT(G4_KNOWN_SAME(G4_BATCH_SUMS) <= G4_PAGE_BYTES, "there is no page at these addresses");
#define G4_BATCH_SEEN (2 * G4_BATCH_SUMS)

#define G4_BOUNCE_FLIGHTS 4u /* buffers of one writer, */
#define G4_STAGE_BUFFERS 8u  /* or of one whose pages are looked for, where there are many: a large page */
#define G4_BOUNCE_PARTS 8u   /* of a buffer, which lie apart on the device */

/* Pages of a bounce buffer on their way to the device. In scratch memory. */
struct g4_bounce_flight {
	uint32_t count;
	struct g4_iov parts[G4_BOUNCE_PARTS];
	struct g4_space_io requests[G4_BOUNCE_PARTS];
};

struct g4_batch_marks {
	struct g4_sum_entry sums[G4_BATCH_SUMS];
	uint32_t marks[G4_BATCH_SUMS];
	struct g4_bounce_flight flights[G4_STAGE_BUFFERS]; /* bounce_stage.c */
};

/*
 * The row of free pages that files which are written as a whole are put into, one behind the other (docs/design/space.md). It is where
 * place.c looks first, and nobody's until it is claimed.
 */
#define G4_ROW_PAGES 32u /* that are as good as more: what a reader of small files has by one request (space/tier.h) */
struct g4_free_row {
	struct g4_address next;
	uint64_t pages;	 /* from `next` on */
	uint64_t wanted; /* pages that are still to be placed there */
	uint32_t pool;	 /* that it is in */
	bool ended;	 /* free pages in rows are short: no more is looked for */
};

/* Of batches that are not stored yet. */
struct g4_batch_placing {
	uint32_t domains[G4_BATCH_SUMS]; /* of the batch that a page is of, by its index in the lists */
	struct g4_free_row row;
};

/* What batches keep their lists in. One batch has all of it, or several share it. */
struct g4_batch_lists {
	uint32_t lines[G4_BATCH_SUMS];
	uint64_t pages[G4_BATCH_SUMS];
	struct g4_segment segments[G4_BATCH_PAGES];
	union {
		struct g4_sum_entry sums[G4_BATCH_SUMS] __attribute__((aligned(16)));
		struct g4_batch_marks of_lines; /* which may be found */
	};
	union {
		struct g4_iov iovs[G4_BATCH_SUMS]; /* of what is stored at a time */
		uint32_t
			seen[G4_BATCH_SEEN]; /* before: a table by sum of indices, and 1, of pages that are the first */
	};
	union {
		struct g4_space_io requests[G4_BATCH_PAGES / 2];
		struct g4_batch_placing placing; /* before */
	};
	uint64_t known[G4_BATCH_SUMS];
};

struct g4_batch {
	struct g4_batch_lists *lists;
	uint32_t most; /* lines, and segments, that its part of the lists has room for */
	/* gather */
	uint32_t count;
	const uint8_t *direct; /* data of all pages, which are one row from direct_page on, instead of lines */
	bool foreign;	       /* that is memory that others may change: sums are of what was stored of it */
	bool staged; /* all of a row from pages[0] on lie in bounce buffers: lines are numbers of pages there (bounce_stage.h) */
	bool whole;	 /* all of its file: g4_place_in_row() */
	bool moves;	 /* all lines are what is stored elsewhere: they have their sums, and none is dirty */
	uint8_t wish;	 /* of all lines; enum g4_dedup_wish */
	uint16_t hinted; /* while it is published: `known` of new pages before this one is what the table says then */
	uint64_t direct_page;
	uint64_t reserved; /* pages of space reserved for them and their mapping */
	uint64_t pooled;   /* and for them in a pool of their own; then not in `reserved` */

	uint32_t *lines;
	uint64_t *pages;
	/* place */
	uint32_t segment_count;
	uint32_t coming;  /* staged: pages that will be behind these */
	uint64_t claimed; /* pages of new space, out of the reservation */
	struct g4_segment *segments;
	/* hash */
	uint32_t algorithm; /* enum g4_checksum_algorithm; 0: the pages have no sums */
	struct g4_sum_entry *sums;
	/* dedup */
	bool dedup;	 /* what is stored is for others to find, and the next four are valid */
	bool looks;	 /* its pages are looked for */
	bool verifies;	 /* a sum proves nothing: what was found was compared */
	uint32_t domain; /* for which: a file's */
	uint64_t *known;
};

/* Stripes that some of a batch's pages are, to be written by several workgroups. In scratch memory. */
struct g4_batch_stripes {
	struct g4_batch *batch;
	uint32_t first; /* page of the batch that they begin with */
	uint32_t done
		[2]; /* pages in front of them and behind, of stripes that are not whole, that are written or kept */
	struct g4_direct_grant grant;
};

/* Several batches, and a page. */
#define G4_BATCH_SCRATCH_BYTES(batches)                                                                                \
	(sizeof(struct g4_batch_lists) + (batches) * sizeof(struct g4_batch) + G4_PAGE_BYTES)
G4_STATIC_ASSERT(G4_BATCH_SCRATCH_BYTES(1) <= G4_FS_SCRATCH_BYTES, "they fit in scratch memory");

/* The part of lists for `most` pages behind the first `used` ones. */
G4_FN G4_INLINE void g4_batch_init(struct g4_batch *batch, struct g4_batch_lists *lists, uint32_t used, uint32_t most)
{
	memset(batch, 0, sizeof(*batch));
	batch->lists = lists;
	batch->most = most;
	batch->lines = &lists->lines[used];
	batch->pages = &lists->pages[used];
	batch->segments = &lists->segments[used];
	batch->sums = &lists->sums[used];
	batch->known = &lists->known[used];
}

/* The contents of its page k, in memory that nobody changes unless the batch is foreign. */
G4_FN G4_INLINE const void *g4_batch_page(const struct g4_fs *fs, const struct g4_batch *batch, uint32_t k)
{
	if (batch->direct)
		return batch->direct + (uint64_t)k * G4_PAGE_BYTES;
	if (batch->staged)
		return fs->bounce.memory + (uint64_t)batch->lines[k] * G4_PAGE_BYTES;
	return g4_line_data(&fs->cache, batch->lines[k]);
}

/* Where a sum proves nothing. Of its pages that were found elsewhere, and compared: g4_share_mark() from before; of others 0. */
G4_FN G4_INLINE uint32_t *g4_batch_marks(const struct g4_batch *batch)
{
	return &batch->lists->of_lines.marks[batch->known - batch->lists->known];
}

G4_FN G4_INLINE struct g4_batch_lists *g4_batch_lists_take(struct g4_wg *wg)
{
	return (struct g4_batch_lists *)g4_scratch_take(wg, sizeof(struct g4_batch_lists));
}

/* A batch in scratch memory, not before what may write back with another one. */
G4_FN G4_INLINE struct g4_batch *g4_batch_take(struct g4_wg *wg)
{
	struct g4_batch *batch = (struct g4_batch *)g4_scratch_take(wg, sizeof(struct g4_batch));

	g4_batch_init(batch, g4_batch_lists_take(wg), 0, G4_BATCH_PAGES);
	return batch;
}

/* ---- gather.c ---- */
/* Up to a batch of an inode's dirty lines, sorted by page, whose writers wished the same. */
G4_FN void g4_gather_dirty(struct g4_fs *fs, const struct g4_inode_core *inode, struct g4_batch *batch);
/* Pages in a row, whole, from memory that the space takes. */
G4_FN void g4_gather_memory(const uint8_t *from, uint64_t page, uint32_t count, uint64_t reserved,
			    struct g4_batch *batch);
/* What is reserved for the batch's lines from `from` on; and in a pool of their own. */
G4_FN uint64_t g4_gathered_reservation(const struct g4_fs *fs, const struct g4_batch *batch, uint32_t from);
G4_FN uint64_t g4_gathered_pooled(const struct g4_fs *fs, const struct g4_batch *batch, uint32_t from);

/* ---- hash.c ---- */
/*
 * The sums of a batch's pages, which nobody changes any more until they are stored, as the file's policy wants them. Foreign
 * ones get theirs when they are stored.
 */
G4_FN int g4_hash(struct g4_wg *wg, struct g4_fs *fs, uint32_t policy, struct g4_batch *batch);

/* ---- dedup.c ---- */
/* Whether what is written to the file with a wish is looked for in the table of contents, page by page. */
G4_FN bool g4_dedup_wanted(const struct g4_fs *fs, const struct g4_inode_core *inode, uint32_t wish);
/*
 * What is known of the contents of a batch's pages from `from` on, where the file's policy wants that; those before have places. Nothing
 * of what is stored from a caller's memory.
 */
G4_FN void g4_dedup_batch(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
			  uint32_t from);

/* Of a batch for which that was done some time ago, and whose sums prove what its pages are: also what was listed since. */
G4_FN void g4_dedup_late(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch);

/* ---- place.c: where a data page gets its address; src/space chooses the disk by it ---- */
/*
 * Finds space for a batch's pages from `from` on, behind those that have theirs, in segments. It ends where there is no room for more of
 * them. After an error a batch that has none before `from` has none at all; another one ends where there was no space.
 */
G4_FN int g4_place(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
		   uint32_t from);
/*
 * Before: a gathered batch that is all of its file goes into the lists' row, which is wanted for so many pages more then. `first`: of
 * those that share the lists.
 */
G4_FN void g4_place_in_row(const struct g4_inode_core *inode, struct g4_batch *batch, bool first);
/*
 * The same for one page whose inode may not exist yet, near `goal` (0: anywhere), from what nobody has reserved; of the own
 * level where the policy's is full.
 */
G4_FN int g4_place_page(struct g4_wg *wg, struct g4_fs *fs, uint32_t policy, struct g4_address goal,
			struct g4_batch *batch);
/* 1..want pages in a row for space that is not written (fallocate), from a reservation, which shrinks by *got. */
G4_FN int g4_place_unwritten(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, uint64_t want,
			     struct g4_address *address, uint64_t *got);
/* Gives back the new space of the batch's pages from `from` on, which may lie inside a segment. */
G4_FN void g4_place_undo(struct g4_fs *fs, const struct g4_batch *batch, uint32_t from);

/* ---- store.c ---- */
/* Writes a placed batch to the device, together with idle workgroups where it is large. */
G4_FN int g4_store(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch);
/* Placed batches that share lists, of dirty lines, in as few transfers as they fit in. */
G4_FN int g4_store_together(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batches, uint32_t count);
/* A piece of that (help.c): offsets count from the batch's first page. */
G4_FN int g4_store_piece(struct g4_wg *wg, struct g4_fs *fs, struct g4_batch *batch,
			 const struct g4_split_piece *piece);

/* The same where it is one of whole stripes: offsets count from the first of them. */
G4_FN void g4_store_stripes(struct g4_wg *wg, struct g4_fs *fs, const struct g4_batch_stripes *stripes,
			    const struct g4_split_piece *piece);

/* ---- publish.c ---- */
/*
 * Makes a stored batch reachable; `size` is what the file is long when all of it is. *published: pages done, fewer than all of
 * them without an error where a page that was found is gone: the next batch looks for none.
 */
G4_FN int g4_publish(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
		     uint64_t size, uint32_t *published);
/* The whole contents of a tiny file go into the inode. */
G4_FN int g4_publish_inline(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, const void *data);

/* ---- pipeline.c: the stages one after the other ---- */
/*
 * Hash, look up, place, store and publish one gathered batch. *published: pages that are reachable now, from the batch's start;
 * their reservation is used up, and so is all of that of a batch that is direct or moves. The others, also where there was no error, are for the next
 * batch.
 */
G4_FN int g4_pipeline_run(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
			  uint64_t size, uint32_t *published);
/* Its parts: what comes before a batch is stored, `first` of those that share lists or not; and after it, which ended with `rc`. */
G4_FN int g4_pipeline_prepare(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
			      bool first);
G4_FN int g4_pipeline_finish(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *inode, struct g4_batch *batch,
			     uint64_t size, int rc, uint32_t *published);
/* Instead of what comes behind the first one: nothing comes of a batch that has no places. */
G4_FN void g4_pipeline_cancel(struct g4_fs *fs, const struct g4_inode_core *inode, const struct g4_batch *batch);
/*
 * The same for a batch of dirty lines of each of several inodes, all of them write-locked, that share lists: what they have to
 * store is on its way together. results: of each; published as above.
 */
G4_FN void g4_pipeline_run_together(struct g4_wg *wg, struct g4_fs *fs, struct g4_inode_core *const *inodes,
				    struct g4_batch *batches, uint32_t count, int *results, uint32_t *published);
/*
 * For a page that the caller's own transaction makes reachable, together with something else: stores it now, in space near
 * `goal` (0: anywhere). `policy`: of the file whose it will be. ahead->address is none if this fails.
 */
G4_FN int g4_store_ahead(struct g4_wg *wg, struct g4_fs *fs, uint32_t policy, struct g4_address goal,
			 const uint8_t *data, struct g4_page_ahead *ahead);
/* In that transaction: it becomes page `page` of the file. The caller logs the inode. */
G4_FN int g4_publish_ahead(struct g4_wg *wg, struct g4_fs *fs, struct g4_txn *txn, struct g4_inode_core *inode,
			   uint64_t page, const struct g4_page_ahead *ahead);
/* Or nothing comes of it. */
G4_FN void g4_drop_ahead(struct g4_fs *fs, const struct g4_page_ahead *ahead);

#endif
