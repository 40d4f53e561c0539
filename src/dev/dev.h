/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Block devices as the engine sees them: byte-addressed space with requests of whole sectors.
 *
 * Two classes. A *mapped* device (mem:, dax:) is load/store memory: requests finish inside g4_dev_submit(), and
 * g4_dev_map() gives a pointer. A *queued* device (file, block device, NVMe) completes later. Durability: a write is
 * durable once a later FLUSH on the device has completed, or at its own completion when it carries G4_IO_FUA.
 * Completed but unflushed writes may be lost, torn at sector size and reordered by a power cut.
 */
#ifndef G4_DEV_H
#define G4_DEV_H

#include "base/error.h"
#include "dev/slots.h"
#include "simt/simt.h"

struct g4_dev; /* one open device */

enum g4_io_op { G4_IO_READ, G4_IO_WRITE, G4_IO_FLUSH, G4_IO_DISCARD, G4_IO_CHECK };
#define G4_IO_FUA 1u /* WRITE: durable when complete */
/*
 * READ and WRITE of a device that keeps several copies: of this one alone, counted from 0. Without it a read gives what any
 * copy holds, another one where one can not be read; a write goes to all.
 */
#define G4_IO_COPY(copy) (((uint32_t)(copy) + 1) << 8)
#define G4_IO_COPY_MASK UINT32_C(0xff00)
/* What it is for: enum g4_io_class (slots.h). Where a device has to choose, it decides who comes first; 0: foreground. */
#define G4_IO_CLASS(io_class) ((uint32_t)(io_class) << 1)
#define G4_IO_CLASS_MASK UINT32_C(6)

struct g4_iov {
	void *base;
	uint64_t bytes;
};

/*
 * One request. The caller owns it and everything it points to until it is complete. offset and every iov length are multiples
 * of the sector size, every base aligned to it; at most G4_IO_MAX_IOV vectors. FLUSH uses no range; DISCARD and CHECK take
 * offset and discard_bytes. CHECK of a device with parity compares rows that begin in the range, and writes again what is known
 * to be wrong in them, where it can be written: -G4_E_CHECKSUM: something is wrong still. Of others nothing is done.
 */
#define G4_IO_MAX_IOV 1024
struct g4_io {
	uint32_t op;
	uint32_t flags;
	uint64_t offset_bytes;
	uint64_t discard_bytes;
	struct g4_iov *iov;
	uint32_t iov_count;
	int32_t result;	    /* 0 or a negative code; valid once done */
	uint32_t done;	    /* 0 -> 1 with release order */
	uint32_t queue;	    /* the device's own */
	uint64_t cookie;    /* the device's own */
	struct g4_io *next; /* submitted with it, NULL: the last; g4_dev_submit() looks at it and nobody later */
};

struct g4_dev_props {
	uint64_t size_bytes;
	uint32_t sector_bytes; /* 512 or 4096: alignment and atomicity unit */
	bool mapped;
	bool read_only;
	bool volatile_cache; /* FLUSH means something */
	bool discard;
	bool zeroes;	 /* what was discarded reads as zeros until it is written */
	uint32_t disks;	 /* of a set; else 0 */
	uint32_t copies; /* of everything; 0 and 1: there is one */
	/* READ with G4_IO_COPY(copies) and so many more: made of other pages, where those are in a row with parity */
	uint32_t remakes;
};

G4_HD G4_INLINE uint32_t g4_io_class(const struct g4_io *io)
{
	return (io->flags & G4_IO_CLASS_MASK) >> 1;
}

/*
 * Leader, thread-safe. Starts a request and those that follow it by `next`, with as few system calls as possible; errors show
 * in io->result.
 */
G4_FN void g4_dev_submit(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *first);
/* Leader, not only the one that submitted it. Returns when the request is done, with its result. */
G4_FN int g4_dev_wait(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io);
/* Leader. True when the request is done; collects completions on the way and never blocks. */
G4_FN bool g4_dev_poll(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io);
/* Leader. One request, start to end, on one buffer; the fast path for a synchronous access. */
G4_FN int g4_dev_read(struct g4_wg *wg, struct g4_dev *dev, uint64_t offset, void *buffer, uint64_t bytes);
G4_FN int g4_dev_read_as(struct g4_wg *wg, struct g4_dev *dev, uint64_t offset, void *buffer, uint64_t bytes,
			 uint32_t flags);
G4_FN int g4_dev_write(struct g4_wg *wg, struct g4_dev *dev, uint64_t offset, const void *buffer, uint64_t bytes,
		       uint32_t flags);
G4_FN int g4_dev_flush(struct g4_wg *wg, struct g4_dev *dev);
G4_FN const struct g4_dev_props *g4_dev_props(const struct g4_dev *dev);
/* Whether a caller with requests under way may submit others: behind an agent requests hold slots (README.md, "Locks" 6). */
G4_FN bool g4_dev_may_overlap(const struct g4_dev *dev);
/* Leader, without requests under way. Bit d: the page at `offset` lies on disk d of a set, or would; 1 of any other device. */
G4_FN uint64_t g4_dev_disks_at(struct g4_wg *wg, struct g4_dev *dev, uint64_t offset);

/* ---- disks of a set ---- */
enum g4_dev_order_op {
	G4_ORDER_REBUILD, /* name: a disk that missed something; it begins to be rebuilt */
	G4_ORDER_REPLACE, /* name: a new one begins to be rebuilt, in the place of one that is not used; what is on it is gone */
	G4_ORDER_STEP,	  /* some more of that, of copies at most `bytes`, 0: as much as a step does; 1: it is done */
	G4_ORDER_NOTE,	  /* how far it is becomes durable */
	G4_ORDER_STOP,	  /* it is given up, and that disk is not used */
	G4_ORDER_OFFLINE, /* name: one that is used is used no more */
	G4_ORDER_ASK,	  /* how far it is */
	/* disk: its name into text, "": it is not used; -G4_E_NOENT: there is none of that number. From G4_MAX_DISKS on: spares */
	G4_ORDER_NAME,
	G4_ORDER_ADD,	 /* name: a new one becomes one more, and the device may be longer; what is on it is gone */
	G4_ORDER_ASSIGN, /* disk: a level; name: bytes in decimal, 0: all. Chunks of it, and the device is longer */
	/*
	 * bytes: an address. Out: its chunk is done to bytes, of level `all`, mkfs's are of level disk. -G4_E_NOENT: none has it. Not by
	 * numbers: chunks get others while pieces of them move (SPREAD_MOVE)
	 */
	G4_ORDER_CHUNK,
	/* out: what comes next of a rebuild is `bytes` of the device's addresses from `done` on; 0: it is at its end */
	G4_ORDER_NEXT,
	/* `bytes` of that, from its beginning on, were free when or after NEXT was told: they are left out. out: so many are */
	G4_ORDER_SKIP,
	G4_ORDER_ADD_SPARE,    /* name: a new one becomes a spare; what is on it is gone */
	G4_ORDER_REMOVE_SPARE, /* name: a spare is none any more */
	/* the first spare that will do begins to be rebuilt in the place of a disk that has failed; -G4_E_NO_TARGET: none has, or later */
	G4_ORDER_RELIEVE,
	G4_ORDER_SPREAD, /* can what lies on the disks be spread over them? out: `all` bytes of places would be moved, about */
	/* out: what comes next of that is `bytes` of the device's addresses from `done` on, 0: nothing does; of `all`, as above */
	G4_ORDER_SPREAD_NEXT,
	/* some of `bytes` of that are moved; disk 1: they were free when or after it was told. Out: so many were copied, and `done` moved */
	G4_ORDER_SPREAD_MOVE
};
struct g4_dev_order {
	uint32_t op;
	uint32_t disk;	  /* out: its number */
	const char *name; /* as users type it, ended by 0 */
	char *text;	  /* out: a sentence where it could not be done, ended by 0; or NULL */
	uint64_t text_bytes;
	uint64_t bytes;	    /* out: that were copied; 0: it is to be tried again later. In: above */
	uint64_t done, all; /* out: bytes of the disk that is being rebuilt */
};
/*
 * Leader, without requests under way. Orders about a rebuild come one at a time. 0 or a negative code: -G4_E_NOTSUP: it is no
 * set, or nothing of that can be done here; -G4_E_NO_TARGET: no disk is being rebuilt.
 */
G4_FN int g4_dev_order(struct g4_wg *wg, struct g4_dev *dev, struct g4_dev_order *order);
/* The address of byte `offset` of a mapped device; NULL for a queued one and beyond the end. */
G4_FN void *g4_dev_map(struct g4_dev *dev, uint64_t offset);

#endif
