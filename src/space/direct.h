/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to a set of mapped disks by the lanes that make them, past the set's host code (docs/design/redundancy.md, Mapped
 * disks). What is not a plain read or write of data in copies, or in stripes, is left to the set; so are parts of stripes with parity, and of whole ones the set
 * is asked before. Of a set with disks missing lanes only read: from other copies, and what rows have lost they make of the other columns.
 */
#ifndef G4_SPACE_DIRECT_H
#define G4_SPACE_DIRECT_H

#include "dev/dev.h"
#include "format/format.h"
#include "parity/parity.h"
#include "space/chunk.h"
#include "space/direct_kept.h"

#define G4_DIRECT_CHUNKS 128u
#define G4_DIRECT_SUPERS 3u
#define G4_DIRECT_COUNTERS 16u

/*
 * What a set tells (g4_dev_layout()); all of it stays true until an order that changes something, or a first superblock is written. While a disk is rebuilt
 * requests go through the set, and what it says is for those who make that disk.
 */
struct g4_direct_table {
	uint64_t supers[G4_DIRECT_SUPERS]; /* addresses of pages that are the set's to read and write */
	uint64_t bytes;			   /* of the address space */
	uint64_t disks[G4_MAX_DISKS];	   /* where their first bytes are, in the set's process; 0: it is missing */
	uint64_t disk_bytes[G4_MAX_DISKS];
	uint64_t opened
		[G4_MAX_DISKS]; /* of all that the process has opened which, so that one is not taken for another */
	uint32_t disk_count, chunk_count;
	uint32_t read_only; /* not 0: nothing is written */
	uint32_t missing;   /* disks of which nothing is read; with any nothing is written but to `target` */
	uint32_t target;    /* the disk that is rebuilt, one of these. Or G4_MAX_DISKS */
	struct g4_chunk chunks[G4_DIRECT_CHUNKS];
};

struct g4_direct { /* zeroed: closed */
	struct g4_lock lock;
	bool finished;	       /* it stays closed. The lock's */
	uint32_t open;	       /* atomic */
	uint32_t makes;	       /* atomic: the table is one of a disk that is rebuilt; not both */
	uint64_t made_bytes;   /* atomic: of such disks, by g4_direct_make() */
	uint64_t lost_most;    /* so much is taken of one at a time; the rebuild's. 0: as much as there are lanes for */
	uint64_t stripe_bytes; /* the longest with parity, 0: no chunk has any; said while it is open */
	struct {
		uint32_t inside; /* atomic: requests on their way */
		uint8_t padding[124];
	} counters[G4_DIRECT_COUNTERS];
	struct g4_direct_table table;
	uint32_t taken[G4_DEV_GRANTS]; /* atomic: 1: a grant has the word of this number */
	struct g4_kept kept;	       /* its memory is the mount's; nothing is kept without it */
};

/*
 * Asks the device for its table, and opens the gate if there is one. Leader, thread-safe, without requests under way. Of a device that is no
 * such set nothing changes.
 */
G4_FN void g4_direct_ask(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev);
/*
 * Before and after an order that may change something: nobody is on the way in between, and what was kept is the device's. One order at a time. Where the device
 * does not take it there must be no order: an error says so, and nothing has begun. Leader.
 */
G4_FN int g4_direct_begin_order(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev);
G4_FN void g4_direct_end_order(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev);
/* The same around a step of a rebuild, by which the gate stays as it is; `ends`: but for this one. */
G4_FN void g4_direct_begin_step(struct g4_direct *direct);
G4_FN void g4_direct_end_step(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev, bool ends);
/*
 * A checked or unchecked request, which is not begun. True: it is done, without an error. False: the device is to be asked. Leader, thread-safe, without
 * requests under way.
 */
G4_FN bool g4_direct_do(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev, const struct g4_io *io);
/* What is written in front of whole stripes or behind them, of one stripe more. */
struct g4_direct_part {
	uint64_t address, bytes; /* no bytes: there is none */
	uint32_t slot;		 /* of what is kept; G4_KEPT_NONE: it is the caller's to write, behind the grant */
	bool whole;		 /* with what is kept of it already: it is among what is granted */
};
/*
 * Whole stripes with parity of one chunk, which the workgroup may write in parts, and others for it. Nobody else reads or writes there.
 * Until it ends all of them only copy: none waits for the device, nor for anybody who may.
 */
struct g4_direct_grant {
	uint64_t address, bytes; /* of whole stripes */
	uint64_t part_bytes;	 /* as much as others want at a time, in whole stripes */
	struct g4_direct_part parts[2];
	uint32_t number, counter;
};
/*
 * The first whole stripes of what the caller will write from an address on, which may begin anywhere in it, in parts of at most `most` bytes. False: there are none, a stripe is more, or they are not
 * granted now: the caller writes as ever. in_use: G4_IO_IN_USE. Leader, thread-safe, without requests under way and without another grant.
 */
G4_FN bool g4_direct_take(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev, uint64_t address,
			  uint64_t bytes, uint64_t most, bool in_use, struct g4_direct_grant *grant);
/* A write request of whole stripes of the grant. Leader, any workgroup; each stripe is written by one. */
G4_FN void g4_direct_write(struct g4_wg *wg, struct g4_direct *direct, const struct g4_io *io);
/*
 * A write request of what lies in front of them (which 0) or behind (1), of the grant's owner, once. True: it is done, or kept. False: the caller writes it
 * when the grant has ended.
 */
G4_FN bool g4_direct_write_part(struct g4_wg *wg, struct g4_direct *direct, struct g4_direct_grant *grant,
				uint32_t which, const struct g4_io *io);
/* All of it is written, and both parts. */
G4_FN void g4_direct_end(struct g4_direct *direct, const struct g4_dev *dev, const struct g4_direct_grant *grant);
/*
 * Before the device is asked for what lanes could have written past it: what is kept of it is there then. 0 at once where nothing is kept. Leader, thread-safe, without
 * requests under way and without a grant.
 */
G4_FN G4_INLINE int g4_direct_settle(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev, uint64_t address,
				     uint64_t bytes)
{
	return g4_kept_any(&direct->kept) ? g4_kept_settle(wg, &direct->kept, dev, address, bytes) : 0;
}
/*
 * A part of a disk that is rebuilt, taken from the set (G4_ORDER_TAKE). Who makes it only reads other disks and writes to this one: nobody looks at what is
 * there before the set has been told that it was made, and the set knows whether anybody has written there meanwhile.
 */
struct g4_direct_lost {
	uint32_t chunk, place;	/* numbers, of the table and of the chunk's places */
	uint64_t within, bytes; /* of the place */
	uint64_t number;	/* which the set has given it */
	uint64_t part_bytes;	/* as much as others want at a time, in whole stripes; g4_direct_begin_lost()'s */
};
/* Of direct.c and direct_lost.c: counted from now on while *open, of which it is one, is not 0. False: it is 0. */
G4_FN bool g4_direct_enter(struct g4_direct *direct, uint32_t counter, const uint32_t *open);
G4_FN G4_INLINE void g4_direct_leave(struct g4_direct *direct, uint32_t counter)
{
	g4_sub32(&direct->counters[counter].inside, 1);
}
/* Whether there may be such a part; it may change. */
G4_FN G4_INLINE bool g4_direct_makes(const struct g4_direct *direct)
{
	return g4_load32_acq(&direct->makes) != 0;
}
/* The caller and others may make it. False: not by this table. Nobody is counted when it returns. Leader, thread-safe. */
G4_FN bool g4_direct_begin_lost(struct g4_wg *wg, struct g4_direct *direct, struct g4_direct_lost *lost);
/*
 * `bytes` of it from `at` on; with parity whole stripes. False: by the table of now it can not be made. Leader, any workgroup, counted meanwhile; each
 * byte is made by one.
 */
G4_FN bool g4_direct_make(struct g4_wg *wg, struct g4_direct *direct, const struct g4_direct_lost *lost, uint64_t at,
			  uint64_t bytes);

/* Whether requests are done so now. */
G4_FN G4_INLINE bool g4_direct_is_open(const struct g4_direct *direct)
{
	return g4_load32_acq(&direct->open) != 0;
}

/* ---- columns of stripes made of others (direct_remake.c) ---- */
/*
 * In scratch memory: so many bytes of columns of a stripe, from the same place of each on. What is read of a column goes by way of memory that is near, so that it
 * is read once for all that is made of it.
 */
struct g4_direct_remake {
	const void *from[G4_CHUNK_PLACES]; /* NULL: it is not looked at */
	void *to[G4_CHUNK_PLACES];	   /* where it is wanted; NULL: it is not */
	uint64_t bytes, lost;		   /* a bit for each column that is */
	uint32_t data, parity;		   /* no data: column 0 is copied */
	void *near[G4_CHUNK_PLACES];	   /* of `from`, on its way */
	uint64_t block_bytes;
	void *block[G4_CHUNK_PLACES];
	struct g4_parity_scratch scratch;
};
#define G4_DIRECT_NEAR_BYTES (16 * G4_KIB)
/* Until it is released; of each column at most `most` bytes are on their way. Leader. */
G4_FN struct g4_direct_remake *g4_direct_take_remake(struct g4_wg *wg, const struct g4_chunk *chunk, uint64_t most);
/* Where this part of a place is, where it can be read; NULL: its disk is missing, is the one that is made, or ends before. Per-lane. */
G4_FN uint8_t *g4_direct_source(const struct g4_direct_table *table, uint64_t place, uint64_t within, uint64_t bytes);
/*
 * `bytes` of each column of a stripe, from `within` of it on: which are lost, and which are looked at to make them. Nothing is wanted yet. False: more are lost
 * than there are parities. Leader.
 */
G4_FN bool g4_direct_choose(const struct g4_direct_table *table, const struct g4_chunk *chunk, uint64_t stripe,
			    uint64_t within, uint64_t bytes, struct g4_direct_remake *r);
/* The regions that all this opens. Collective. */
G4_FN void g4_direct_remake_region(struct g4_wg *wg, void *args);
struct g4_direct_rows { /* in scratch memory: as many bytes of each column of a stripe, data first */
	const void *from[G4_CHUNK_PLACES];
	void *to[G4_CHUNK_PLACES];
	uint64_t bytes;
	uint32_t data, parity;
	void *block[G4_CHUNK_PLACES]; /* of data, on its way */
	void *made[G4_CHUNK_PARITY_MOST];
	uint64_t block_bytes;
};
G4_FN void g4_direct_region(struct g4_wg *wg, void *args);

#endif
