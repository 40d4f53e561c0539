/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lanes write of stripes with parity that is less than a stripe: kept in the engine's memory until the rest of the stripe is written, or somebody
 * needs it on the disks (docs/design/redundancy.md, Mapped disks). A set with parity is flushed, and nothing is durable before; so what is kept is
 * what a disk's cache would have.
 *
 * A slot has some pages of one stripe. Who writes them out, or adds some, has taken it: nobody else changes it then, and readers still find what it has.
 *
 *     free --begin--> taken --end--> pages --begin, settle--> taken --end--> free, or pages
 *
 * 1. Pages of a slot are newer than what the set has of them. Whoever writes pages in another way has them forgotten first.
 * 2. Who has taken a slot waits for no other slot, and who has a grant for none at all: the set may wait for the grant.
 * 3. A bucket's lock is held while its slots are looked at, or a reader copies; its holder waits for nothing.
 */
#ifndef G4_DIRECT_KEPT_H
#define G4_DIRECT_KEPT_H

#include "dev/dev.h"
#include "format/format.h"

#define G4_KEPT_WAYS 4u
#define G4_KEPT_BUCKETS 64u
#define G4_KEPT_PAGES 64u /* of a stripe at most */
#define G4_KEPT_BYTES (16 * G4_MIB)
#define G4_KEPT_NONE UINT32_MAX

struct g4_kept_slot {
	uint64_t stripe; /* where it begins. The next one, too: atomic, changed under the lock, with release order */
	uint64_t pages;	 /* a bit for each that is here */
	uint32_t taken;
};
struct g4_kept_bucket {
	struct g4_lock kept_lock;
	struct g4_kept_slot slots[G4_KEPT_WAYS];
} G4_OWN_LINE;
struct g4_kept {	 /* zeroed: nothing is ever kept */
	uint8_t *memory; /* of all slots; the mount's */
	uint64_t memory_bytes;
	uint64_t slot_bytes; /* the longest stripe. The next two, too: atomic */
	uint32_t buckets_used;
	uint32_t count; /* slots that are not free */
	struct g4_kept_bucket buckets[G4_KEPT_BUCKETS];
};

/* Whether anything is. What was kept before is seen by whoever heard of it, and what is not any more is where it lies on disks. */
G4_FN G4_INLINE bool g4_kept_any(const struct g4_kept *kept)
{
	return g4_load32_acq(&kept->count) != 0;
}
/* Nothing is kept. Stripes have at most so many bytes of data from now on; 0: nothing ever is. Nobody keeps anything meanwhile; others may settle. */
G4_FN void g4_kept_lay(struct g4_kept *kept, uint64_t stripe_bytes);

/* ---- leader, thread-safe ---- */
/*
 * Takes a slot for the stripe that begins at an address, of which the caller writes pages `own` (bits) of `all`. *whole: the slot has all others.
 * G4_KEPT_NONE: there is none, or somebody has taken it. Waits for nobody.
 */
G4_FN uint32_t g4_kept_begin(struct g4_kept *kept, uint64_t stripe, uint64_t own, uint64_t all, bool *whole);
/* Of a slot that the caller has taken: where its stripe's data lies, and which pages of it. */
G4_FN uint8_t *g4_kept_memory(const struct g4_kept *kept, uint32_t number);
G4_FN uint64_t g4_kept_pages(const struct g4_kept *kept, uint32_t number);
/* It has these pages from now on; none: it is free. */
G4_FN void g4_kept_end(struct g4_kept *kept, uint32_t number, uint64_t pages);
/*
 * The first pages in a row of those that a read request wants of stripes of a chunk, from `within` of it on, that are kept: they are copied. How many bytes; *skip: as
 * many in front of them are not kept, `bytes` where none is.
 */
G4_FN uint64_t g4_kept_read(struct g4_wg *wg, struct g4_kept *kept, const struct g4_chunk *chunk,
			    const struct g4_io *io, uint64_t within, uint64_t bytes, uint64_t *skip);
/* The caller writes there now: what is kept of it is not, any more. Waits for who has taken a slot of it. */
G4_FN void g4_kept_forget(struct g4_kept *kept, const struct g4_chunk *chunk, uint64_t address, uint64_t bytes);
/*
 * What is kept there goes to the device, in writes that are complete when it returns, also what others have taken. After an error it is kept still.
 * Without requests under way, a slot that it has taken, or a grant.
 */
G4_FN int g4_kept_settle(struct g4_wg *wg, struct g4_kept *kept, struct g4_dev *dev, uint64_t address, uint64_t bytes);

#endif
