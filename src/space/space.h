/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address space that a file system lives in, over its devices. Nobody above looks at the devices: what they can do is asked
 * here. Version 1 of the format has one disk, and an address is a place on it; logical chunks (RAID) will be translated here.
 */
#ifndef G4_SPACE_H
#define G4_SPACE_H

#include "dev/dev.h"
#include "format/format.h"
#include "hash/siphash.h"
#include "space/direct.h"
#include "space/tier.h"

struct g4_space { /* of the files of this folder; a mount has one in the engine's memory */
	struct g4_dev *disks[G4_MAX_DISKS];
	uint32_t disk_count;
	bool volatile_cache; /* as it was when the space was opened */
	uint64_t mended;     /* pages of a copy, by g4_space_mend(); atomic */
	/* atomic, by disk: pages that were met damaged, and no copy was right; begins with what the superblock says */
	uint64_t damaged[G4_MAX_DISKS];
	struct g4_tier tier;	 /* without one until g4_tier_init() */
	struct g4_direct direct; /* closed until g4_space_open() */
};

/* The space on one disk, which stays the caller's. */
G4_FN void g4_space_init(struct g4_space *space, struct g4_dev *disk);
/*
 * Lanes do requests to mapped disks of a set by themselves from now on, where that is possible. Leader; nobody else uses the space yet, or it is told
 * again.
 */
G4_FN void g4_space_open(struct g4_wg *wg, struct g4_space *space);
/* Before: memory for parts of stripes that lanes keep, which stays the caller's. */
G4_FN void g4_space_set_kept(struct g4_space *space, uint8_t *memory, uint64_t bytes);
/* The same disk is used as `disk` from now on, and what is in engine memory lies `by` bytes further on; it is not looked at, for it may be an address on a GPU. */
G4_FN void g4_space_moved(struct g4_space *space, struct g4_dev *disk, intptr_t by);

/* ---- properties: per-lane, thread-safe ---- */
/* Bytes that the devices offer: what the superblock says is no more than that. */
G4_FN uint64_t g4_space_bytes(const struct g4_space *space);
/* Whether transfers are copies of memory, done by the lanes that ask for them. */
G4_FN bool g4_space_is_mapped(const struct g4_space *space);
/* Whether most transfers are that, though the space is not mapped; it may change. */
G4_FN G4_INLINE bool g4_space_is_direct(const struct g4_space *space)
{
	return g4_direct_is_open(&space->direct);
}
/* And what is a part of a stripe with parity, of so many bytes, is no copy; 0: there are none. */
G4_FN G4_INLINE uint64_t g4_space_stripe_bytes(const struct g4_space *space)
{
	return g4_space_is_direct(space) ? g4_load64_rlx(&space->direct.stripe_bytes) : 0;
}
/* Whether what was written is durable only after a flush. */
G4_FN G4_INLINE bool g4_space_has_volatile_cache(const struct g4_space *space)
{
	return space->volatile_cache;
}
/* What is stored at an address of such a space, in memory, and behind it what is stored at the next ones. */
G4_FN const void *g4_space_memory(const struct g4_space *space, struct g4_address address);
/* Whether a caller may submit requests before those that it has submitted are collected (below). */
G4_FN bool g4_space_may_overlap(const struct g4_space *space);
G4_FN bool g4_space_can_discard(const struct g4_space *space);
/* Whether transfers to and from this memory are possible: it is aligned to the devices' sectors, as pages always are. */
G4_FN bool g4_space_takes(const struct g4_space *space, const void *memory);

/*
 * ---- requests that are waited for at once: leader, thread-safe. 0 or a negative code ----
 * Addresses and lengths are multiples of 4 KiB.
 */
G4_FN int g4_space_read(struct g4_wg *wg, struct g4_space *space, struct g4_address address, void *to, uint64_t bytes);
G4_FN int g4_space_write(struct g4_wg *wg, struct g4_space *space, struct g4_address address, const void *from,
			 uint64_t bytes, uint32_t flags);
/*
 * Copies of everything that the devices keep. g4_space_read() gives any; this gives one, counted from 0. -G4_E_NOENT: its disk is
 * missing.
 */
G4_FN uint32_t g4_space_copies(const struct g4_space *space);
/* Copies, and what parity makes of other pages: for a caller that has found no copy to be right. */
G4_FN uint32_t g4_space_versions(const struct g4_space *space);
G4_FN int g4_space_read_copy(struct g4_wg *wg, struct g4_space *space, uint32_t copy, struct g4_address address,
			     void *to, uint64_t bytes);
/* The same, with G4_IO_CLASS(). */
G4_FN int g4_space_read_copy_as(struct g4_wg *wg, struct g4_space *space, uint32_t copy, struct g4_address address,
				void *to, uint64_t bytes, uint32_t flags);
/* Pages did not match: what a second tier has of them is forgotten, so that the device is asked the next time. Thread-safe. */
G4_FN void g4_space_distrust(struct g4_space *space, struct g4_address address, uint64_t bytes);
/*
 * Pages that were verified go to all copies that are not the same; how many pages were not. Nobody else may be writing there. What
 * can not be written stays as it is.
 */
G4_FN uint64_t g4_space_mend(struct g4_wg *wg, struct g4_space *space, struct g4_address address, const void *good,
			     uint64_t bytes);
/* By what a page is known again, against what rots, and nobody who wants it so. Above G4_PAGE_HAS_NO_SUM. */
G4_FN G4_INLINE uint64_t g4_space_page_print(uint64_t address, const void *page)
{
	const uint64_t key[2] = {address, UINT64_C(0x726f7773)};

	return g4_siphash13(key, page, G4_PAGE_BYTES) | 4;
}
/*
 * With parity: rows that begin there are compared, and what is known to be wrong is written again. -G4_E_PARITY: something is wrong
 * still.
 */
G4_FN int g4_space_check(struct g4_wg *wg, struct g4_space *space, struct g4_address address, uint64_t bytes);
/*
 * A page was met of which no copy is right: counts it for each disk that has one, and says which, disk d by bit d. Leader, thread-safe;
 * the workgroup has no requests under way.
 */
G4_FN uint64_t g4_space_blame(struct g4_wg *wg, struct g4_space *space, struct g4_address address);
/* How many disks `damaged` counts for. */
G4_FN uint32_t g4_space_disks(const struct g4_space *space);
/* An order about the disks of a set: dev.h. Also an error, and nothing was ordered: the device does not take what lanes keep of it. */
G4_FN int g4_space_order(struct g4_wg *wg, struct g4_space *space, struct g4_dev_order *order);
/* Completed writes become durable. */
G4_FN int g4_space_flush(struct g4_wg *wg, struct g4_space *space);
/* What a discarded range reads is undefined until it is written. -G4_E_NOTSUP: it can not. */
G4_FN int g4_space_discard(struct g4_wg *wg, struct g4_space *space, struct g4_address address, uint64_t bytes);

/*
 * ---- requests that are submitted and collected: leader, thread-safe ----
 * A read or a write. It and what it points to are the caller's, stay until it is collected, and lie in memory that all
 * workgroups reach: then another workgroup may collect it, if it was told so with release and acquire order. A workgroup
 * collects its requests, or hands them on, before it submits others, unless g4_space_may_overlap(): behind an I/O agent
 * requests hold slots, and a workgroup that waits for a slot must not hold some (dev/README.md, "Locks" 6).
 */
struct g4_space_io {
	struct g4_address address;
	struct g4_io io; /* op, flags, iov, iov_count are the caller's; the rest belongs to the space and the device */
};
/* Makes a request out of `iov_count` parts, which follow one another from `address` on; more may be counted in until it is submitted. */
G4_FN G4_INLINE void g4_space_io_init(struct g4_space_io *request, uint32_t op, struct g4_address address,
				      struct g4_iov *iov, uint32_t iov_count)
{
	memset(request, 0, sizeof(*request));
	request->address = address;
	request->io.op = op;
	request->io.iov = iov;
	request->io.iov_count = iov_count;
}
G4_FN void g4_space_submit(struct g4_wg *wg, struct g4_space *space, struct g4_space_io *requests, uint32_t count);
/* Returns when all are done; the error of the first, in their order, that failed. Each has its own in io.result. */
G4_FN int g4_space_collect(struct g4_wg *wg, struct g4_space *space, struct g4_space_io *requests, uint32_t count);
/* Both, one after the other, or what is faster for a caller that waits. */
G4_FN int g4_space_transfer(struct g4_wg *wg, struct g4_space *space, struct g4_space_io *requests, uint32_t count);
/*
 * ---- whole stripes with parity that several workgroups write, where all disks are memory (direct.h) ----
 * Of `bytes` that the caller will write from an address on, in parts of at most `most` bytes. False: it writes as ever. It waits for nothing but those who write parts
 * until it ends. in_use: G4_IO_IN_USE. Leader, thread-safe, without requests under way and without another grant.
 */
G4_FN bool g4_space_take_stripes(struct g4_wg *wg, struct g4_space *space, struct g4_address address, uint64_t bytes,
				 uint64_t most, bool in_use, struct g4_direct_grant *grant);
/* Whole ones of these. Leader, any workgroup; each is written by one. */
G4_FN void g4_space_write_stripes(struct g4_wg *wg, struct g4_space *space, struct g4_address address,
				  struct g4_iov *iov, uint32_t iov_count);
/* A part of a stripe in front of them (which 0) or behind, once, of the one who took them. True: it is done, or kept until a flush; else it is to be written behind their end. */
G4_FN bool g4_space_write_part(struct g4_wg *wg, struct g4_space *space, struct g4_direct_grant *grant, uint32_t which,
			       struct g4_iov *iov, uint32_t iov_count);
/* All of them were written. The one who took them. */
G4_FN void g4_space_end_stripes(struct g4_space *space, const struct g4_direct_grant *grant);

/*
 * The same as g4_space_transfer() of reads that the second tier of the cache may answer (space/tier.h): whoever has to see what the device has now reads it
 * otherwise. `small`: what lies beside it is likely to be wanted next, and may come with it. The caller's locks keep others from writing there.
 */
G4_FN int g4_space_fetch(struct g4_wg *wg, struct g4_space *space, struct g4_space_io *requests, uint32_t count,
			 bool small);
/* A page of metadata. A tier with victims keeps it at once, as it was read. */
G4_FN int g4_space_fetch_page(struct g4_wg *wg, struct g4_space *space, struct g4_address address, void *to,
			      bool small);

#endif
