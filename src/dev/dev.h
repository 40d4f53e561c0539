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
/*
 * WRITE: some of these pages are somebody's already, as space that was reserved for a file. All others are nobody's before a transaction
 * that comes later makes them somebody's, or images of the journal are of them: a device with parity relies on that (G4_ORDER_ROWS_CUT).
 */
#define G4_IO_IN_USE 8u

struct g4_iov {
	void *base;
	uint64_t bytes;
};

/*
 * One request. The caller owns it and everything it points to until it is complete. offset and every iov length are multiples
 * of the sector size, every base aligned to it; at most G4_IO_MAX_IOV vectors. FLUSH uses no range; DISCARD and CHECK take
 * offset and discard_bytes. CHECK of a device with parity compares rows that begin in the range, and writes again what is known
 * to be wrong in them, where it can be written: -G4_E_PARITY: something is wrong still. Of others nothing is done.
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
	/* READ with G4_IO_COPY(copies) and so many more: made of other pages, where those are in a row with parity, in that many ways */
	uint32_t remakes;
};

/* What a READ or WRITE moves. */
G4_HD G4_INLINE uint64_t g4_io_bytes(const struct g4_io *io)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < io->iov_count; i++)
		bytes += io->iov[i].bytes;
	return bytes;
}

/* Leader. `bytes` of the request's memory, from `within` on, are copied to other memory that lies in one piece, or from there. */
G4_FN G4_INLINE void g4_io_copy(struct g4_wg *wg, const struct g4_io *io, uint64_t within, uint64_t bytes,
				uint8_t *other, bool to_other)
{
	for (uint32_t i = 0; i < io->iov_count && bytes > 0; i++) {
		const struct g4_iov *part = &io->iov[i];
		if (within >= part->bytes) {
			within -= part->bytes;
			continue;
		}
		uint8_t *memory = (uint8_t *)part->base + within;
		const uint64_t n = g4_min64(bytes, part->bytes - within);
		if (to_other)
			g4_copy(wg, other, memory, n);
		else
			g4_copy(wg, memory, other, n);
		other += n;
		bytes -= n;
		within = 0;
	}
}

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
/* Leader. A request from start to end, with its result; `done` of it means nothing. */
G4_FN int g4_dev_execute(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io);
/* Leader. One request, start to end, on one buffer; the fast path for a synchronous access. */
G4_FN int g4_dev_read(struct g4_wg *wg, struct g4_dev *dev, uint64_t offset, void *buffer, uint64_t bytes);
/* Two such reads side by side; *second_rc: what came of the second one, where the first one's result is returned. */
G4_FN int g4_dev_read_two(struct g4_wg *wg, struct g4_dev *dev, uint64_t first, void *to, uint64_t second,
			  void *second_to, uint64_t bytes, int *second_rc);
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

/*
 * Leader, without requests under way. Where the disks of a set of mapped ones are, as the set's own table (space/direct.h). -G4_E_NOTSUP: it is none, or
 * requests have to go through it now.
 */
G4_FN int g4_dev_layout(struct g4_wg *wg, struct g4_dev *dev, void *table, uint64_t bytes);
/*
 * Words in memory that both the device's process and the caller see, at a multiple of 8; NULL: the device gives no grants. The first ones are grants', and then
 * come, for stripes with parity that begin in MiB n of the address space, n + G4_DEV_HELD and so on, words of 64 bits: how many of their rows are held back, in the
 * lower half, and how often one more came to be. Rows that are held are not all on disks, or on their way there; of others no page that stays changes on them.
 */
#define G4_DEV_GRANTS 1024u /* at a time */
#define G4_DEV_HELD 1024u
#define G4_DEV_WORDS (G4_DEV_GRANTS + 2 * G4_DEV_HELD)
G4_STATIC_ASSERT(G4_DEV_GRANTS % 2 == 0, "words of 64 bits lie behind");
G4_FN uint32_t *g4_dev_words(const struct g4_dev *dev);
G4_HD G4_INLINE uint64_t *g4_dev_held_word(uint32_t *words, uint64_t stripe)
{
	return (uint64_t *)(void *)(words + G4_DEV_GRANTS) + stripe / G4_MIB % G4_DEV_HELD;
}
/*
 * Leader, without requests under way, and without another grant. May the caller write `bytes` of whole stripes with parity of such a set by itself, all columns of
 * them? -G4_E_BUSY: not of these, the device is to be asked; or another code. A grant lasts until its word is not 0: it is 0 when this returns 0, and the grant's
 * owner sets it, without having waited for the device. `number`: of a word, below G4_DEV_GRANTS, which no other grant has; with G4_DEV_GRANT_IN_USE as a
 * request with G4_IO_IN_USE.
 */
#define G4_DEV_GRANT_IN_USE UINT32_C(0x80000000)
G4_FN int g4_dev_grant(struct g4_wg *wg, struct g4_dev *dev, uint64_t address, uint64_t bytes, uint32_t number);
G4_FN void g4_dev_end_grant(const struct g4_dev *dev, uint32_t number);
/* Bytes `from` on of a request's memory as a request of their own, with `parts` for room: as many as the request has. */
G4_FN void g4_io_narrow(const struct g4_io *io, uint64_t from, uint64_t bytes, struct g4_iov *parts,
			struct g4_io *narrower);

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
	/*
	 * out: what comes next of a rebuild is `bytes` of the device's addresses from `done` on, 0: it is at its end. `all` of them are made already, which can
	 * not be left out any more; disk: of how many of them a byte of the disk is one (COLUMNS), from UNIT_SHIFT on how many MiB of the disk are left out together, 0: single pages are
	 */
	G4_ORDER_NEXT,
	/*
	 * the caller makes what comes next of a rebuild by itself, where it reaches all disks (g4_dev_layout()), and then says MADE: of place `all`, below TAKEN_NUMBER_SHIFT, of
	 * chunk `disk` of that table `bytes` from `done` on. In: of the device's addresses there `bytes` are in use, 0: that is not known, and no more than `all` are wanted.
	 * What can not be left out behind them comes with them. Out: bytes 0: not now, and nothing is to be said. Several parts may be taken at a time, and what comes next is
	 * behind all of them, for NEXT and SKIP as well. Where something is taken, `done` bytes in front may be left out, as by SKIP
	 */
	G4_ORDER_TAKE,
	/*
	 * what was taken up to the part with number `all` was made, `bytes` in all; 0: nothing was. Out: so many count, in their order; where that is less somebody has written
	 * there meanwhile, and nothing counts any more that is taken: it is to be made again, when the caller writes nothing there any more
	 */
	G4_ORDER_MADE,
	/* `bytes` of that, from its beginning on, were free when or after NEXT was told: they are left out, behind what is taken when that counts. out: so many are */
	G4_ORDER_SKIP,
	G4_ORDER_ADD_SPARE,    /* name: a new one becomes a spare; what is on it is gone */
	G4_ORDER_REMOVE_SPARE, /* name: a spare is none any more */
	/* the first spare that will do begins to be rebuilt in the place of a disk that has failed; -G4_E_NO_TARGET: none has, or later; -G4_E_AGAIN: lanes have it
	 * in their table, and are to ask for one without it before (g4_dev_layout()) */
	G4_ORDER_RELIEVE,
	G4_ORDER_SPREAD, /* can what lies on the disks be spread over them? out: `all` bytes of places would be moved, about */
	/* out: what comes next of that is `bytes` of the device's addresses from `done` on, 0: nothing does; of `all`, as above */
	G4_ORDER_SPREAD_NEXT,
	/* some of `bytes` of that are moved; disk 1: they were free when or after it was told. Out: so many were copied, and `done` moved */
	G4_ORDER_SPREAD_MOVE,
	/* about `done` pages of part `disk`, of `bytes`, of the address space are in use; all: how many parts there are, G4_USE_PARTS at most */
	G4_ORDER_SPREAD_USE,
	/*
	 * nothing is in use of `bytes` of the address space from `done` on, nor will be before TAKE_BACK: their places are room for what is spread.
	 * Bytes 0: all are told. Out then: bytes 0, a request may be meant for them still, try again; else 1
	 */
	G4_ORDER_SPREAD_LEND,
	G4_ORDER_SPREAD_LAY, /* they are laid anew; -G4_E_NOSPC: there is no room for all of them, nothing was changed */
	G4_ORDER_SPREAD_BACK, /* they are the owner's again. Out: bytes 0, a request may be meant for what lay there, try again; else 1 */
	/* addresses that lie nowhere get places again, as far as there is room. Out: `bytes` of them, and disk 1: none yet, try again. Nothing is lent */
	G4_ORDER_SPREAD_FILL,
	/*
	 * name: what lies on that disk is to be moved away, so that it can be removed. out: its UUID in `done` and `all`. Of each chunk is told then how
	 * much of it is in use (LEAVE_USE), and whether there is room for that is asked by another LEAVE, with disk 1
	 */
	G4_ORDER_LEAVE,
	/*
	 * done, all: the UUID of a disk, also in the next two. Out: what of it is moved next (SPREAD_MOVE), as by SPREAD_NEXT, and disk: enum
	 * g4_dev_room. -G4_E_NOENT: it is none of the set
	 */
	G4_ORDER_LEAVE_NEXT,
	/*
	 * out: of the chunks that begin before address `bytes` the last one that can be given up: it has `bytes` from `done` on, `all` places
	 * on other disks, and disk: how many columns of data, from UNIT_SHIFT on of how many MiB of a place a part of it is at least, with LEAVES where one is on that disk, HELPS where one is on a disk that can take what comes
	 * next. -G4_E_NOENT: there is none
	 */
	G4_ORDER_LEAVE_CHUNK,
	/* of each place of the chunk at address `done` `bytes` are in use, or lie beside what is, and `all` could be given up; or as copies, dev/leave.h */
	G4_ORDER_LEAVE_USE,
	/* nothing lies on it any more: it is none of the set. Out: bytes 0, requests are under way, try again; else its number, disk, is that of `all` before */
	G4_ORDER_LEAVE_END,
	/* `bytes` of a chunk, from `done` on, whole units or up to its end, have no place from now on: nothing is in use there, nor will be. Out: bytes 0: nothing of its level would be left, or with disk 1: requests are under way, try again. Parts of units, and what is in use: dev/leave.h */
	G4_ORDER_GIVE_UP,
	/* disk: enum g4_rows_ask. Of which pages CHECK would have to know what they hold is noted, or is not any more */
	G4_ORDER_ROWS_ASK,
	/* out: the address `bytes` of the page with number `done` of those, in ascending order, once no more are noted; -G4_E_NOENT: there is none */
	G4_ORDER_ROWS_NEXT,
	/* all: what that page holds, at address `bytes`: g4_space_page_print(), or one of the following */
	G4_ORDER_ROWS_TELL,
	/* disk: enum g4_rows_cut. Of a set that was opened to be mounted, before anything is written: rows that a crash may have cut short */
	G4_ORDER_ROWS_CUT
};
enum g4_rows_cut {
	/*
	 * of those that do not fit some are taken, and which pages have to be known is noted, `all` of them (ROWS_NEXT, ROWS_TELL); 0: there are no more
	 * rows, and the set is as any other
	 */
	G4_ROWS_CUT_NEXT,
	/*
	 * what was told of them is all that is known: those of which each page is nobody's, or has what was told of it, were cut short, and fit from now on. Of any
	 * other one a page has rotted: nothing of it is written
	 */
	G4_ROWS_CUT_TOLD,
	G4_ROWS_CUT_UNKNOWN /* nothing will be told: what is left of them fits when this returns 0, whatever they have */
};
enum g4_rows_ask {
	G4_ROWS_ASK_END,   /* nothing is noted any more */
	G4_ROWS_ASK_BEGIN, /* from now on, and what was before is forgotten */
	G4_ROWS_ASK_ROOM   /* out, all: so many more can be noted */
};
#define G4_PAGE_IS_UNKNOWN UINT64_C(0) /* any more, or yet */
#define G4_PAGE_IS_FREE UINT64_C(1)    /* whatever lies there is nobody's */
#define G4_PAGE_HAS_NO_SUM UINT64_C(2) /* contents, of which nobody knows more than the row tells */
enum g4_dev_room {		       /* of other disks for what comes next of one that is to be removed */
		   G4_ROOM_FOR_ALL,
		   G4_ROOM_FOR_THIS,
		   G4_ROOM_FOR_NOTHING
};
#define G4_USE_PARTS 128u
#define G4_LEND_MOST 64u /* parts that are lent at a time */
#define G4_NEXT_COLUMNS 0xffu
#define G4_NEXT_UNIT_SHIFT 16u
#define G4_TAKEN_NUMBER_SHIFT 16u
#define G4_LEAVE_COLUMNS 0xffu
#define G4_LEAVE_LEAVES 0x100u
#define G4_LEAVE_HELPS 0x200u
#define G4_LEAVE_UNIT_SHIFT 16u
struct g4_dev_order {
	uint32_t op;
	uint32_t disk;	  /* out: its number */
	const char *name; /* as users type it, ended by 0 */
	char *text;	  /* out: a sentence where it could not be done, ended by 0; or NULL */
	uint64_t text_bytes;
	uint64_t bytes;	    /* out: that were copied; 0: it is to be tried again later. In: above */
	uint64_t done, all; /* out: bytes of the disk that is being rebuilt. In: above */
};
/*
 * Leader, without requests under way. Orders about a rebuild come one at a time. 0 or a negative code: -G4_E_NOTSUP: it is no
 * set, or nothing of that can be done here; -G4_E_NO_TARGET: no disk is being rebuilt.
 */
G4_FN int g4_dev_order(struct g4_wg *wg, struct g4_dev *dev, struct g4_dev_order *order);
/* The address of byte `offset` of a mapped device; NULL for a queued one and beyond the end. */
G4_FN void *g4_dev_map(struct g4_dev *dev, uint64_t offset);

#endif
