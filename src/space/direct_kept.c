/* SPDX-License-Identifier: Apache-2.0 */
#include "space/direct_kept.h"

#include "simt/scratch.h"
#include "space/chunk.h"

#define AT_ONCE 8u /* requests of who writes out */

G4_FN static uint64_t slot_bytes(const struct g4_kept *kept)
{
	return g4_load64_rlx(&kept->slot_bytes);
}

G4_FN static uint32_t bucket_count(const struct g4_kept *kept)
{
	return g4_load32_rlx(&kept->buckets_used);
}

G4_FN void g4_kept_lay(struct g4_kept *kept, uint64_t stripe_bytes)
{
	const uint64_t each = G4_KEPT_WAYS * stripe_bytes;
	const bool fit =
		stripe_bytes > 0 && stripe_bytes <= G4_KEPT_PAGES * G4_PAGE_BYTES && each <= kept->memory_bytes;

	g4_store64_rlx(&kept->slot_bytes, fit ? stripe_bytes : 0);
	if (fit)
		g4_store32_rlx(&kept->buckets_used, (uint32_t)g4_min64(kept->memory_bytes / each, G4_KEPT_BUCKETS));
}

/* ---- slots ---- */

/* Stripes beside each other are in different ones, whatever their length is. */
G4_FN static uint32_t bucket_of(const struct g4_kept *kept, uint64_t stripe)
{
	return (uint32_t)((stripe / G4_PAGE_BYTES * UINT64_C(0x9e3779b97f4a7c15)) >> 40) % bucket_count(kept);
}

G4_FN static struct g4_kept_slot *slot_at(struct g4_kept *kept, uint32_t number)
{
	return &kept->buckets[number / G4_KEPT_WAYS].slots[number % G4_KEPT_WAYS];
}

G4_FN static bool is_free(const struct g4_kept_slot *slot)
{
	return !slot->taken && g4_load64_rlx(&slot->pages) == 0;
}

/* The bucket's lock is held. Which slot has the stripe, or is free; G4_KEPT_WAYS: none. */
G4_FN static uint32_t find(const struct g4_kept_bucket *bucket, uint64_t stripe, bool or_free)
{
	uint32_t spare = G4_KEPT_WAYS;

	for (uint32_t way = 0; way < G4_KEPT_WAYS; way++) {
		const struct g4_kept_slot *slot = &bucket->slots[way];
		if (is_free(slot))
			spare = way;
		else if (slot->stripe == stripe)
			return way;
	}
	return or_free ? spare : G4_KEPT_WAYS;
}

/* Without the lock: whether the stripe may have a slot. False: what it had is on disks by now, also where another stripe has the slot. */
G4_FN static bool may_have(const struct g4_kept_bucket *bucket, uint64_t stripe)
{
	bool may = false;

	for (uint32_t way = 0; way < G4_KEPT_WAYS && !may; way++)
		may = g4_load64_fenced(&bucket->slots[way].stripe) == stripe &&
		      g4_load64_fenced(&bucket->slots[way].pages) != 0;
	g4_fence_acq();
	return may;
}

G4_FN uint32_t g4_kept_begin(struct g4_kept *kept, uint64_t stripe, uint64_t own, uint64_t all, bool *whole)
{
	if (slot_bytes(kept) == 0 || all >> (slot_bytes(kept) / G4_PAGE_BYTES - 1) > 1)
		return G4_KEPT_NONE;
	const uint32_t b = bucket_of(kept, stripe);
	struct g4_kept_bucket *bucket = &kept->buckets[b];
	uint32_t number = G4_KEPT_NONE;

	g4_lock(&bucket->kept_lock);
	const uint32_t way = find(bucket, stripe, true);
	struct g4_kept_slot *slot = way < G4_KEPT_WAYS ? &bucket->slots[way] : NULL;
	if (slot && !slot->taken) {
		if (is_free(slot))
			g4_add32(&kept->count, 1);
		g4_store64_rel(&slot->stripe, stripe);		  /* who looked for the one before finds it on disks */
		g4_store64_rlx(&slot->pages, slot->pages & ~own); /* of before the caller's pages were freed */
		slot->taken = 1;
		number = b * G4_KEPT_WAYS + way;
		*whole = (slot->pages | own) == all;
	}
	g4_unlock(&bucket->kept_lock);
	return number;
}

G4_FN uint8_t *g4_kept_memory(const struct g4_kept *kept, uint32_t number)
{
	return kept->memory + number * slot_bytes(kept);
}

G4_FN uint64_t g4_kept_pages(const struct g4_kept *kept, uint32_t number)
{
	return g4_load64_rlx(&kept->buckets[number / G4_KEPT_WAYS].slots[number % G4_KEPT_WAYS].pages);
}

G4_FN void g4_kept_end(struct g4_kept *kept, uint32_t number, uint64_t pages)
{
	struct g4_kept_bucket *bucket = &kept->buckets[number / G4_KEPT_WAYS];
	struct g4_kept_slot *slot = slot_at(kept, number);

	g4_lock(&bucket->kept_lock);
	if (pages == 0)
		g4_sub32(&kept->count, 1);
	g4_store64_rel(&slot->pages, pages); /* none: who finds that looks at disks, where they are by now */
	slot->taken = 0;
	g4_unlock(&bucket->kept_lock);
}

/* ---- who reads and writes there ---- */

struct range { /* of a stripe, in it */
	uint64_t stripe, from, to;
};

/* What of an address and so many bytes behind it lies in the stripe where it begins. */
G4_FN static struct range range_at(const struct g4_chunk *chunk, uint64_t address, uint64_t bytes)
{
	const uint64_t data = g4_chunk_stripe_data(chunk), from = (address - chunk->address) % data;

	return (struct range){address - from, from, g4_min64(from + bytes, data)};
}

G4_FN static uint64_t bits_of(const struct range *range)
{
	return g4_bit_run((uint32_t)(range->from / G4_PAGE_BYTES),
			  (uint32_t)((range->to - range->from) / G4_PAGE_BYTES));
}

/* How many bits in a row are set from `bit` on, at most `most`. */
G4_FN static uint32_t run_from(uint64_t bits, uint32_t bit, uint32_t most)
{
	uint32_t run = 0;

	while (run < most && bits >> (bit + run) & 1)
		run++;
	return run;
}

G4_FN uint64_t g4_kept_read(struct g4_wg *wg, struct g4_kept *kept, const struct g4_chunk *chunk,
			    const struct g4_io *io, uint64_t within, uint64_t bytes, uint64_t *skip)
{
	uint64_t copied = 0;

	for (uint64_t done = 0; done < bytes && copied == 0;) {
		const struct range range = range_at(chunk, io->offset_bytes + within + done, bytes - done);
		const uint32_t b = bucket_of(kept, range.stripe);
		struct g4_kept_bucket *bucket = &kept->buckets[b];

		*skip = done;
		done += range.to - range.from;
		if (!may_have(bucket, range.stripe))
			continue;
		g4_lock(&bucket->kept_lock);
		const uint32_t way = find(bucket, range.stripe, false);
		const uint64_t here = way < G4_KEPT_WAYS ? bucket->slots[way].pages & bits_of(&range) : 0;
		if (here) {
			const uint32_t first = g4_lowest_bit(here),
				       pages = run_from(here, first, G4_KEPT_PAGES - first);
			*skip += first * G4_PAGE_BYTES - range.from;
			copied = pages * G4_PAGE_BYTES;
			g4_io_copy(wg, io, within + *skip, copied,
				   g4_kept_memory(kept, b * G4_KEPT_WAYS + way) + first * G4_PAGE_BYTES, false);
		}
		g4_unlock(&bucket->kept_lock);
	}
	*skip = copied > 0 ? *skip : bytes;
	return copied;
}

/* Pages of a stripe are not kept any more. False: somebody has taken its slot. */
G4_FN static bool forget(struct g4_kept *kept, struct g4_kept_bucket *bucket, const struct range *range)
{
	bool done = true;

	g4_lock(&bucket->kept_lock);
	const uint32_t way = find(bucket, range->stripe, false);
	if (way < G4_KEPT_WAYS && (bucket->slots[way].pages & bits_of(range))) {
		struct g4_kept_slot *slot = &bucket->slots[way];
		done = !slot->taken;
		if (done)
			g4_store64_rlx(&slot->pages, slot->pages & ~bits_of(range));
		if (done && slot->pages == 0)
			g4_sub32(&kept->count, 1);
	}
	g4_unlock(&bucket->kept_lock);
	return done;
}

G4_FN void g4_kept_forget(struct g4_kept *kept, const struct g4_chunk *chunk, uint64_t address, uint64_t bytes)
{
	for (uint64_t done = 0; done < bytes;) {
		const struct range range = range_at(chunk, address + done, bytes - done);
		struct g4_kept_bucket *bucket = &kept->buckets[bucket_of(kept, range.stripe)];

		while (may_have(bucket, range.stripe) && !forget(kept, bucket, &range))
			g4_pause();
		done += range.to - range.from;
	}
}

/* ---- out ---- */

struct batch {	/* in scratch memory */
	int rc; /* the first error */
	uint32_t count, slots;
	struct g4_io ios[AT_ONCE];
	struct g4_iov iovs[AT_ONCE];
	uint32_t numbers[AT_ONCE]; /* of slots that were taken */
};

/* What was gathered is written; its slots are given back. */
G4_FN static void write_out(struct g4_wg *wg, struct g4_kept *kept, struct g4_dev *dev, struct batch *batch)
{
	if (batch->count > 0)
		g4_dev_submit(wg, dev, &batch->ios[0]);
	for (uint32_t n = 0; n < batch->count; n++) {
		const int rc = g4_dev_wait(wg, dev, &batch->ios[n]);
		batch->rc = batch->rc < 0 ? batch->rc : rc;
	}
	for (uint32_t n = 0; n < batch->slots; n++)
		g4_kept_end(kept, batch->numbers[n], batch->rc < 0 ? g4_kept_pages(kept, batch->numbers[n]) : 0);
	batch->count = batch->slots = 0;
}

/* A request for pages in a row of a slot that was taken. */
G4_FN static void gather(struct batch *batch, uint8_t *memory, uint64_t stripe, uint32_t first, uint32_t pages)
{
	const uint32_t n = batch->count++;
	struct g4_io *io = &batch->ios[n];

	batch->iovs[n].base = memory + first * G4_PAGE_BYTES;
	batch->iovs[n].bytes = pages * G4_PAGE_BYTES;
	memset(io, 0, sizeof(*io));
	io->op = G4_IO_WRITE;
	io->offset_bytes = stripe + first * G4_PAGE_BYTES;
	io->iov = &batch->iovs[n];
	io->iov_count = 1;
	if (n > 0)
		batch->ios[n - 1].next = io;
}

/* All pages of a slot that was taken, which is given back with the last of them. */
G4_FN static void gather_slot(struct g4_wg *wg, struct g4_kept *kept, struct g4_dev *dev, struct batch *batch,
			      uint32_t number)
{
	const struct g4_kept_slot *slot = slot_at(kept, number);

	for (uint64_t left = slot->pages; left;) {
		const uint32_t first = g4_lowest_bit(left), pages = run_from(left, first, G4_KEPT_PAGES - first);
		left &= ~g4_bit_run(first, pages);
		if (batch->count == AT_ONCE)
			write_out(wg, kept, dev, batch);
		gather(batch, g4_kept_memory(kept, number), slot->stripe, first, pages);
	}
	batch->numbers[batch->slots++] = number;
}

enum turn { NOT_THERE, TAKEN_NOW, TAKEN };

/* Which pages of a slot lie in a range of addresses. */
G4_FN static uint64_t pages_in(const struct g4_kept *kept, const struct g4_kept_slot *slot, uint64_t address,
			       uint64_t bytes)
{
	const uint64_t from = g4_max64(address, slot->stripe) - slot->stripe,
		       end = address < UINT64_MAX - bytes ? address + bytes : UINT64_MAX,
		       to = g4_min64(end - g4_min64(end, slot->stripe), slot_bytes(kept));

	return from >= to ? 0 :
			    slot->pages & g4_bit_run((uint32_t)(from / G4_PAGE_BYTES),
						     (uint32_t)((to - from) / G4_PAGE_BYTES));
}

/* Takes a slot if it has pages of a range of addresses. */
G4_FN static enum turn take(struct g4_kept *kept, uint32_t number, uint64_t address, uint64_t bytes)
{
	struct g4_kept_bucket *bucket = &kept->buckets[number / G4_KEPT_WAYS];
	struct g4_kept_slot *slot = slot_at(kept, number);
	enum turn turn = NOT_THERE;

	if (g4_load64_acq(&slot->pages) == 0)
		return NOT_THERE;
	g4_lock(&bucket->kept_lock);
	if (pages_in(kept, slot, address, bytes)) {
		turn = slot->taken ? TAKEN : TAKEN_NOW;
		slot->taken = 1;
	}
	g4_unlock(&bucket->kept_lock);
	return turn;
}

G4_FN int g4_kept_settle(struct g4_wg *wg, struct g4_kept *kept, struct g4_dev *dev, uint64_t address, uint64_t bytes)
{
	if (!g4_kept_any(kept))
		return 0;
	const uint32_t mark = g4_scratch_mark(wg);
	struct batch *batch = (struct batch *)g4_scratch_take(wg, sizeof(*batch));
	batch->rc = 0;
	batch->count = batch->slots = 0;
	for (uint32_t n = 0; n < bucket_count(kept) * G4_KEPT_WAYS;) {
		const enum turn turn = take(kept, n, address, bytes);
		if (turn == TAKEN_NOW)
			gather_slot(wg, kept, dev, batch, n);
		else if (turn == TAKEN && batch->slots > 0)
			write_out(wg, kept, dev, batch); /* so that nobody waits for us while we wait */
		else if (turn == TAKEN)
			g4_pause();
		n += turn != TAKEN;
	}
	write_out(wg, kept, dev, batch);
	const int rc = batch->rc;
	g4_scratch_release(wg, mark);
	return rc;
}
