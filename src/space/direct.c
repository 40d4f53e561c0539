/* SPDX-License-Identifier: Apache-2.0 */
#include "space/direct.h"

#include "parity/parity.h"
#include "space/chunk.h"

/* ---- the gate ---- */

/* Who is counted by an addition behind that of the one who closes (wait_for_all()) finds the gate closed. */
G4_FN bool g4_direct_enter(struct g4_direct *direct, uint32_t counter, const uint32_t *open)
{
	g4_add32(&direct->counters[counter].inside, 1);
	if (g4_load32_acq(open) != 0)
		return true;
	g4_direct_leave(direct, counter);
	return false;
}

G4_FN static bool enter(struct g4_direct *direct, uint32_t counter)
{
	return g4_direct_enter(direct, counter, &direct->open);
}

G4_FN static void wait_for_all(struct g4_direct *direct)
{
	for (uint32_t k = 0; k < G4_DIRECT_COUNTERS; k++)
		while (g4_add32(&direct->counters[k].inside, 0) != 0) /* added, not loaded: see enter() */
			g4_pause();
}

/*
 * The lock is held. 0: nothing is kept. Else something can not be written out: it is kept still, and the gate has to stay shut, so that whoever asks the device
 * for it tries again, by addresses, whatever stripes are then.
 */
G4_FN static int shut(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev)
{
	if (g4_direct_is_open(direct) || g4_direct_makes(direct)) {
		g4_store32_rel(&direct->open, 0);
		g4_store32_rel(&direct->makes, 0);
		wait_for_all(direct);
	}
	return g4_direct_settle(wg, direct, dev, 0, UINT64_MAX);
}

/* The lock is held, the gate is shut, and nothing is kept. */
G4_FN static void ask(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev)
{
	if (direct->finished || g4_dev_props(dev)->disks == 0 ||
	    g4_dev_layout(wg, dev, &direct->table, sizeof(direct->table)) < 0)
		return;
	if (direct->table.target != G4_MAX_DISKS) {
		g4_store32_rel(&direct->makes, 1);
		return;
	}
	uint64_t most = 0;
	for (uint32_t n = 0; n < direct->table.chunk_count; n++) {
		const struct g4_chunk *chunk = &direct->table.chunks[n];
		if (chunk->parity && direct->table.missing == 0)
			most = g4_max64(most, g4_chunk_stripe_data(chunk));
	}
	g4_store64_rlx(&direct->stripe_bytes, most);
	g4_kept_lay(&direct->kept, direct->table.read_only ? 0 : most);
	g4_store32_rel(&direct->open, 1);
}

G4_FN void g4_direct_ask(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev)
{
	g4_lock(&direct->lock);
	if (shut(wg, direct, dev) == 0)
		ask(wg, direct, dev);
	g4_unlock(&direct->lock);
}

G4_FN int g4_direct_begin_order(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev)
{
	g4_lock(&direct->lock);
	const int rc = shut(wg, direct, dev);
	if (rc < 0)
		g4_unlock(&direct->lock);
	return rc;
}

G4_FN void g4_direct_end_order(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev)
{
	ask(wg, direct, dev);
	g4_unlock(&direct->lock);
}

G4_FN void g4_direct_begin_step(struct g4_direct *direct)
{
	g4_lock(&direct->lock);
}

G4_FN void g4_direct_end_step(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev, bool ends)
{
	if (ends && shut(wg, direct, dev) == 0)
		ask(wg, direct, dev);
	g4_unlock(&direct->lock);
}

/* ---- requests ---- */

struct call {
	struct g4_wg *wg;
	struct g4_direct *direct;
	struct g4_dev *dev;
	const struct g4_io *io;
	uint64_t bytes;
};

struct part { /* of a request */
	uint64_t within, bytes;
};

/* Parts of the request by way of the set, side by side; never all of it, which its caller gives to the device. False: that, or one could not be done. */
G4_FN static bool through(const struct call *call, struct part first, struct part second)
{
	const struct part parts[2] = {first, second};
	struct g4_io ios[2], *list = NULL, **link = &list;
	int rc = 0;

	if (first.bytes == call->bytes)
		return false;
	const uint32_t mark = g4_scratch_mark(call->wg);
	for (uint32_t p = 0; p < 2; p++) {
		if (parts[p].bytes == 0)
			continue;
		struct g4_iov *iovs = (struct g4_iov *)g4_scratch_take(call->wg, call->io->iov_count * sizeof(*iovs));
		g4_io_narrow(call->io, parts[p].within, parts[p].bytes, iovs, &ios[p]);
		*link = &ios[p];
		link = &ios[p].next;
	}
	if (list)
		g4_dev_submit(call->wg, call->dev, list);
	for (; list; list = list->next) {
		const int one = g4_dev_wait(call->wg, call->dev, list);
		rc = one < 0 ? one : rc;
	}
	g4_scratch_release(call->wg, mark);
	return rc == 0;
}

/* Which copy is read, of those that are there; as many as there are copies: none is. */
G4_FN static uint32_t choose_copy(const struct g4_direct_table *table, const struct g4_piece *piece, uint64_t address)
{
	const uint32_t first = g4_chunk_turn(address, piece->copies);

	if (table->missing == 0)
		return first;
	for (uint32_t k = 0; k < piece->copies; k++) {
		const uint32_t c = (first + k) % piece->copies;
		if (piece->disks[c] != table->target && table->disks[piece->disks[c]] != 0)
			return c;
	}
	return piece->copies;
}

/* A piece of a request, `within` its data, from one copy or to all. False: none is there. */
G4_FN static bool do_piece(const struct call *call, uint64_t within, const struct g4_piece *piece)
{
	const bool reads = call->io->op == G4_IO_READ;
	const uint32_t first = reads ? choose_copy(&call->direct->table, piece, call->io->offset_bytes + within) : 0;

	if (first == piece->copies)
		return false;
	for (uint32_t c = first; c < (reads ? first + 1 : piece->copies); c++)
		g4_io_copy(call->wg, call->io, within, piece->bytes,
			   (uint8_t *)(uintptr_t)call->direct->table.disks[piece->disks[c]] + piece->offsets[c],
			   !reads);
	return true;
}

/* ---- rows with parity ---- */

/* Bytes of each column go at a time, by way of memory that nobody changes: the caller's is read once. */
G4_FN static void write_block(struct g4_wg *wg, struct g4_direct_rows *rows, uint64_t at, uint64_t bytes)
{
	for (uint32_t c = 0; c < rows->data; c++)
		g4_copy_in_region(wg, rows->block[c], (const uint8_t *)rows->from[c] + at, bytes);
	for (uint32_t r = g4_wg_lane(wg); r < rows->parity; r += g4_wg_width(wg))
		rows->made[r] = (uint8_t *)rows->to[rows->data + r] + at;
	g4_sync(wg);
	for (uint32_t c = 0; c < rows->data; c++)
		g4_copy_in_region(wg, (uint8_t *)rows->to[c] + at, rows->block[c], bytes);
	g4_parity_encode(wg, rows->data, rows->parity, (const void *const *)rows->block, rows->made, bytes);
}

G4_REGION_BODY void g4_direct_region(struct g4_wg *wg, void *args)
{
	struct g4_direct_rows *rows = (struct g4_direct_rows *)args;

	g4_converge(wg);
	for (uint64_t at = 0; at < rows->bytes; at += rows->block_bytes)
		write_block(wg, rows, at, g4_min64(rows->bytes - at, rows->block_bytes));
}

struct cursor { /* of a request's data */
	uint32_t part;
	uint64_t within;
};

G4_FN static void advance(const struct g4_io *io, struct cursor *at, uint64_t bytes)
{
	at->within += bytes;
	while (at->part < io->iov_count && at->within >= io->iov[at->part].bytes)
		at->within -= io->iov[at->part++].bytes;
}

/* Its data begins at *at, which is behind it then. */
G4_FN static void write_stripe(const struct call *call, const struct g4_chunk *chunk, uint64_t stripe,
			       struct cursor *at, struct g4_direct_rows *rows)
{
	const struct g4_io *io = call->io;
	struct cursor columns[G4_CHUNK_PLACES];

	for (uint32_t c = 0; c < rows->data; c++) {
		columns[c] = *at;
		advance(io, at, chunk->stripe_bytes);
	}
	for (uint64_t done = 0; done < chunk->stripe_bytes; done += rows->bytes) {
		rows->bytes = chunk->stripe_bytes - done;
		for (uint32_t c = 0; c < rows->data; c++) {
			const struct g4_iov *part = &io->iov[columns[c].part];
			rows->from[c] = (const uint8_t *)part->base + columns[c].within;
			rows->bytes = g4_min64(rows->bytes, part->bytes - columns[c].within);
		}
		for (uint32_t c = 0; c < chunk->columns; c++) {
			const uint64_t place = g4_chunk_place(chunk, stripe, c);
			rows->to[c] = (uint8_t *)(uintptr_t)call->direct->table.disks[g4_place_disk(place)] +
				      g4_place_address(place) + stripe * chunk->stripe_bytes + done;
		}
		g4_region(call->wg, G4_REGION_DIRECT, g4_direct_region, rows);
		for (uint32_t c = 0; c < rows->data; c++)
			advance(io, &columns[c], rows->bytes);
	}
}

#define BLOCKS_BYTES (16 * G4_KIB) /* of all columns */
#define BLOCK_MOST                                                                                                     \
	(4 * G4_KIB) /* of a column: what a warp has under way at a time; what is behind that waits once more */
G4_FN static struct g4_direct_rows *take_rows(struct g4_wg *wg, const struct g4_chunk *chunk)
{
	struct g4_direct_rows *rows = (struct g4_direct_rows *)g4_scratch_take(wg, sizeof(*rows));
	uint8_t *blocks = (uint8_t *)g4_scratch_take(wg, BLOCKS_BYTES);

	rows->data = g4_chunk_data_columns(chunk);
	rows->parity = chunk->parity;
	rows->block_bytes = g4_min64(g4_align_down(BLOCKS_BYTES / rows->data, 512), BLOCK_MOST);
	for (uint32_t c = 0; c < rows->data; c++)
		rows->block[c] = blocks + c * rows->block_bytes;
	return rows;
}

/* A word for a grant; G4_DEV_GRANTS: all are in use. */
G4_FN static uint32_t take_word(struct g4_direct *direct, uint32_t first)
{
	for (uint32_t n = 0; n < G4_DEV_GRANTS; n++) {
		const uint32_t number = (first + n) % G4_DEV_GRANTS;
		if (g4_load32_rlx(&direct->taken[number]) == 0 && g4_xchg32(&direct->taken[number], 1) == 0)
			return number;
	}
	return G4_DEV_GRANTS;
}

/* Stripes that begin at an address of the chunk. Counted in the gate. */
G4_FN static void write_stripes(const struct call *call, const struct g4_chunk *chunk, uint64_t address,
				uint64_t within, uint64_t bytes)
{
	const uint32_t mark = g4_scratch_mark(call->wg);
	struct g4_direct_rows *rows = take_rows(call->wg, chunk);
	const uint64_t stripe_bytes = g4_chunk_stripe_data(chunk);
	uint64_t stripe = (address - chunk->address) / stripe_bytes;
	struct cursor at = {0, 0};

	advance(call->io, &at, within);
	for (uint64_t done = 0; done < bytes; done += stripe_bytes)
		write_stripe(call, chunk, stripe++, &at, rows);
	g4_scratch_release(call->wg, mark);
}

/* The number of a grant for whole stripes; G4_DEV_GRANTS: there is none. Counted in the gate. */
G4_FN static uint32_t take_grant(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev, uint64_t address,
				 uint64_t bytes, bool in_use)
{
	const uint32_t number = take_word(direct, g4_wg_index(wg)), how = in_use ? G4_DEV_GRANT_IN_USE : 0;

	if (number == G4_DEV_GRANTS || g4_dev_grant(wg, dev, address, bytes, number | how) == 0)
		return number;
	g4_store32_rel(&direct->taken[number], 0);
	return G4_DEV_GRANTS;
}

/* Nothing was asked of the device since it was given. */
G4_FN static void end_grant(struct g4_direct *direct, const struct g4_dev *dev, uint32_t number)
{
	g4_dev_end_grant(dev, number);
	g4_store32_rel(&direct->taken[number], 0);
}

struct stripes { /* of what is written to a chunk: in front of the first whole one, and whole ones */
	uint64_t head, whole;
};

G4_FN static struct stripes stripes_of(const struct g4_chunk *chunk, uint64_t address, uint64_t bytes)
{
	const uint64_t stripe = g4_chunk_stripe_data(chunk), skip = (address - chunk->address) % stripe,
		       head = skip ? g4_min64(bytes, stripe - skip) : 0;

	return (struct stripes){head, (bytes - head) / stripe * stripe};
}

/* ---- parts of stripes ---- */

/* Looks for room to keep a part of a stripe, or for what makes it whole. */
G4_FN static void begin_part(struct g4_kept *kept, const struct g4_chunk *chunk, struct g4_direct_part *part)
{
	const uint64_t stripe = g4_chunk_stripe_data(chunk), skip = (part->address - chunk->address) % stripe;

	part->slot = G4_KEPT_NONE;
	part->whole = false;
	if (part->bytes == 0 || stripe > G4_KEPT_PAGES * G4_PAGE_BYTES)
		return;
	part->slot =
		g4_kept_begin(kept, part->address - skip,
			      g4_bit_run((uint32_t)(skip / G4_PAGE_BYTES), (uint32_t)(part->bytes / G4_PAGE_BYTES)),
			      g4_bit_run(0, (uint32_t)(stripe / G4_PAGE_BYTES)), &part->whole);
}

/* A part that is not granted, or was written as a whole: its slot has what it had, or nothing. */
G4_FN static void end_part(struct g4_kept *kept, const struct g4_direct_part *part, bool written)
{
	if (part->slot != G4_KEPT_NONE)
		g4_kept_end(kept, part->slot, written ? 0 : g4_kept_pages(kept, part->slot));
}

/*
 * A grant for whole stripes, and for those at both ends that become whole by what is kept of them. False: there is none. Counted in the gate. `keeps`: the rest may be
 * kept; else it is the caller's. `in_use`: of reserved space, of which nothing is kept: what is kept was nobody's before, so that a stripe of it needs no such mark.
 */
G4_FN static bool begin_rows(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev,
			     const struct g4_chunk *chunk, uint64_t address, uint64_t bytes, bool in_use, bool keeps,
			     struct g4_direct_grant *grant)
{
	const struct stripes is = stripes_of(chunk, address, bytes);
	const uint64_t stripe = g4_chunk_stripe_data(chunk), behind = is.head + is.whole;

	if (is.whole == 0)
		return false;
	grant->address = address + is.head;
	grant->bytes = is.whole;
	grant->parts[0] = (struct g4_direct_part){address, is.head, G4_KEPT_NONE, false};
	grant->parts[1] = (struct g4_direct_part){address + behind, bytes - behind, G4_KEPT_NONE, false};
	if (g4_kept_any(&direct->kept))
		g4_kept_forget(&direct->kept, chunk, grant->address, grant->bytes);
	for (uint32_t p = 0; p < 2 && keeps && !in_use; p++)
		begin_part(&direct->kept, chunk, &grant->parts[p]);
	const uint64_t front = grant->parts[0].whole ? stripe : 0, back = grant->parts[1].whole ? stripe : 0;
	grant->number = take_grant(wg, direct, dev, grant->address - front, front + grant->bytes + back, in_use);
	for (uint32_t p = 0; p < 2 && grant->number == G4_DEV_GRANTS; p++)
		end_part(&direct->kept, &grant->parts[p], false);
	return grant->number < G4_DEV_GRANTS;
}

/* All of it is written. */
G4_FN static void end_rows(struct g4_direct *direct, const struct g4_dev *dev, const struct g4_direct_grant *grant)
{
	end_grant(direct, dev, grant->number);
	for (uint32_t p = 0; p < 2; p++)
		end_part(&direct->kept, &grant->parts[p], grant->parts[p].whole);
}

/* The stripe of a part, of what is kept and what the caller has. */
G4_FN static void write_whole(const struct call *call, const struct g4_chunk *chunk, const struct g4_direct_part *part)
{
	const struct g4_io *io = call->io;
	const uint64_t stripe = g4_chunk_stripe_data(chunk), skip = (part->address - chunk->address) % stripe,
		       behind = skip + part->bytes;
	const uint32_t mark = g4_scratch_mark(call->wg);
	struct g4_iov *iovs = (struct g4_iov *)g4_scratch_take(call->wg, (io->iov_count + 2) * sizeof(*iovs));
	uint8_t *kept = g4_kept_memory(&call->direct->kept, part->slot);
	struct g4_io all = *io;
	uint32_t n = 0;

	if (skip > 0)
		iovs[n++] = (struct g4_iov){kept, skip};
	for (uint32_t i = 0; i < io->iov_count; i++)
		iovs[n++] = io->iov[i];
	if (behind < stripe)
		iovs[n++] = (struct g4_iov){kept + behind, stripe - behind};
	all.iov = iovs;
	all.iov_count = n;
	const struct call whole = {call->wg, call->direct, call->dev, &all, stripe};
	write_stripes(&whole, chunk, part->address - skip, 0, stripe);
	g4_scratch_release(call->wg, mark);
}

/* A request of all of a part. False: the caller has to write it. */
G4_FN static bool write_part(const struct call *call, const struct g4_chunk *chunk, struct g4_direct_part *part)
{
	struct g4_kept *kept = &call->direct->kept;

	if (part->slot == G4_KEPT_NONE)
		return false;
	if (part->whole) {
		write_whole(call, chunk, part);
		return true;
	}
	const uint64_t skip = (part->address - chunk->address) % g4_chunk_stripe_data(chunk);
	g4_io_copy(call->wg, call->io, 0, part->bytes, g4_kept_memory(kept, part->slot) + skip, true);
	g4_kept_end(kept, part->slot,
		    g4_kept_pages(kept, part->slot) |
			    g4_bit_run((uint32_t)(skip / G4_PAGE_BYTES), (uint32_t)(part->bytes / G4_PAGE_BYTES)));
	part->slot = G4_KEPT_NONE;
	return true;
}

/* A part of the request's own, on its way. Scratch memory until the mark. */
G4_FN static struct g4_io *narrow(const struct call *call, struct part part)
{
	struct g4_io *io = (struct g4_io *)g4_scratch_take(call->wg, sizeof(*io));
	uint64_t at = 0;
	uint32_t most = 0;

	for (uint32_t i = 0; i < call->io->iov_count; at += call->io->iov[i++].bytes)
		most += at + call->io->iov[i].bytes > part.within && at < part.within + part.bytes;
	g4_io_narrow(call->io, part.within, part.bytes,
		     (struct g4_iov *)g4_scratch_take(call->wg, g4_max64(most, 1) * sizeof(struct g4_iov)), io);
	return io;
}

/* A part of the request goes by way of the set. */
G4_FN static void forget(const struct call *call, const struct g4_chunk *chunk, struct part part)
{
	if (part.bytes > 0 && g4_kept_any(&call->direct->kept))
		g4_kept_forget(&call->direct->kept, chunk, call->io->offset_bytes + part.within, part.bytes);
}

/* A part of the request that lies in one chunk with parity. */
G4_FN static bool write_rows(const struct call *call, const struct g4_chunk *chunk, uint64_t within, uint64_t bytes)
{
	const uint64_t address = call->io->offset_bytes + within;
	const bool in_use = (call->io->flags & G4_IO_IN_USE) != 0, keeps = !(call->io->flags & G4_IO_FUA);
	struct g4_direct_grant grant;
	struct part left[2];

	if (!begin_rows(call->wg, call->direct, call->dev, chunk, address, bytes, in_use, keeps, &grant)) {
		forget(call, chunk, (struct part){within, bytes});
		return through(call, (struct part){within, bytes}, (struct part){0, 0});
	}
	write_stripes(call, chunk, grant.address, grant.address - call->io->offset_bytes, grant.bytes);
	for (uint32_t p = 0; p < 2; p++) {
		struct g4_direct_part *part = &grant.parts[p];
		const uint32_t mark = g4_scratch_mark(call->wg);
		left[p] = (struct part){part->address - call->io->offset_bytes, part->bytes};
		const struct call one = {call->wg, call->direct, call->dev, narrow(call, left[p]), part->bytes};
		if (write_part(&one, chunk, part))
			left[p].bytes = 0;
		g4_scratch_release(call->wg, mark);
	}
	end_rows(call->direct, call->dev, &grant);
	for (uint32_t p = 0; p < 2; p++)
		forget(call, chunk, left[p]);
	return through(call, left[0], left[1]);
}

/* Where the stripe of an address begins. */
G4_FN static uint64_t stripe_at(const struct g4_chunk *chunk, uint64_t address)
{
	return address - (address - chunk->address) % g4_chunk_stripe_data(chunk);
}

G4_FN static uint64_t held_at(const struct call *call, uint64_t address)
{
	return g4_load64_acq_sys(g4_dev_held_word(g4_dev_words(call->dev), address));
}

/* Whether rows of stripes there are held back, or perhaps of others. */
G4_FN static bool holds_some(const struct call *call, const struct g4_chunk *chunk, uint64_t address, uint64_t bytes)
{
	const uint64_t first = stripe_at(chunk, address) / G4_MIB, last = (address + bytes - 1) / G4_MIB;

	for (uint64_t n = first; n <= last; n++)
		if ((uint32_t)held_at(call, n * G4_MIB) != 0)
			return true;
	return false;
}

/* From columns that are there. */
G4_FN static bool read_columns(const struct call *call, const struct g4_chunk_map *map, uint64_t within, uint64_t bytes)
{
	struct g4_piece piece;

	for (uint64_t done = 0; done < bytes; done += piece.bytes) {
		g4_chunk_translate(map, call->io->offset_bytes + within + done, bytes - done, &piece);
		if (!do_piece(call, within + done, &piece))
			return false;
	}
	return true;
}

/* ---- rows of which columns are lost ---- */

struct rows { /* of a stripe: the same bytes of some of its columns, which are wanted */
	const struct g4_chunk *chunk;
	uint64_t stripe, from, to; /* of each column */
	uint64_t wanted;	   /* a bit for each */
	uint64_t within;	   /* of the request: where its column 0 is, or would be */
};

G4_FN static bool has_lost(const struct g4_direct_table *table, const struct rows *rows)
{
	for (uint64_t left = rows->wanted; left; left &= left - 1) {
		const uint64_t place = g4_chunk_place(rows->chunk, rows->stripe, g4_lowest_bit(left));
		if (!g4_direct_source(table, place, rows->stripe * rows->chunk->stripe_bytes + rows->from,
				      rows->to - rows->from))
			return true;
	}
	return false;
}

/* What is wanted of them, as far as the request's memory lies together for each column. Columns go on behind that. */
G4_FN static void make_some(const struct call *call, const struct rows *rows, struct cursor *columns, uint64_t most,
			    struct g4_direct_remake *r)
{
	const struct g4_io *io = call->io;

	r->bytes = most;
	for (uint64_t left = rows->wanted; left; left &= left - 1) {
		const uint32_t c = g4_lowest_bit(left);
		const struct g4_iov *part = &io->iov[columns[c].part];
		r->to[c] = (uint8_t *)part->base + columns[c].within;
		r->bytes = g4_min64(r->bytes, part->bytes - columns[c].within);
	}
	g4_region(call->wg, G4_REGION_REMAKE, g4_direct_remake_region, r);
	for (uint64_t left = rows->wanted; left; left &= left - 1)
		advance(io, &columns[g4_lowest_bit(left)], r->bytes);
	for (uint32_t c = 0; c < rows->chunk->columns; c++)
		r->from[c] = r->from[c] ? (const uint8_t *)r->from[c] + r->bytes : NULL;
}

G4_FN static bool make_rows(const struct call *call, const struct rows *rows, struct g4_direct_remake *r)
{
	const uint64_t bytes = rows->to - rows->from;
	struct cursor columns[G4_CHUNK_PLACES];

	if (!g4_direct_choose(&call->direct->table, rows->chunk, rows->stripe, rows->from, bytes, r))
		return false;
	for (uint64_t left = rows->wanted; left; left &= left - 1) {
		const uint32_t c = g4_lowest_bit(left);
		columns[c].part = 0;
		columns[c].within = 0;
		advance(call->io, &columns[c], rows->within + c * (uint64_t)rows->chunk->stripe_bytes + rows->from);
	}
	for (uint64_t done = 0; done < bytes; done += r->bytes)
		make_some(call, rows, columns, bytes - done, r);
	return true;
}

/* Bytes `from` to `to` of a stripe's data, some of them lost: rows of which the same columns are wanted together. */
G4_FN static bool make_stripe(const struct call *call, struct rows *rows, uint64_t from, uint64_t to,
			      struct g4_direct_remake *r)
{
	const uint64_t bytes = rows->chunk->stripe_bytes, low = from % bytes, high = (to - 1) % bytes + 1;
	const uint32_t first = (uint32_t)(from / bytes), last = (uint32_t)((to - 1) / bytes);
	const uint64_t ends[4] = {first == last ? low : 0, first == last ? high : g4_min64(low, high),
				  first == last ? high : g4_max64(low, high), first == last ? high : bytes};

	for (uint32_t part = 0; part < 3; part++) {
		rows->from = ends[part];
		rows->to = ends[part + 1];
		rows->wanted = 0;
		for (uint32_t c = first; c <= last; c++)
			if ((c > first || rows->from >= low) && (c < last || rows->from < high))
				rows->wanted |= UINT64_C(1) << c;
		if (rows->wanted && rows->to > rows->from && !make_rows(call, rows, r))
			return false;
	}
	return true;
}

/* Of a part of the request in one stripe. *made: some of it was made of other columns. */
G4_FN static bool read_stripe(const struct call *call, const struct g4_chunk_map *map, const struct g4_chunk *chunk,
			      uint64_t within, uint64_t bytes, struct g4_direct_remake *r, bool *made)
{
	const uint64_t address = call->io->offset_bytes + within, begin = stripe_at(chunk, address),
		       from = address - begin, size = chunk->stripe_bytes;
	struct rows rows = {chunk, (begin - chunk->address) / g4_chunk_stripe_data(chunk), 0, size, 0, within - from};

	for (uint64_t c = from / size; c <= (from + bytes - 1) / size; c++)
		rows.wanted |= UINT64_C(1) << c;
	if (!has_lost(&call->direct->table, &rows))
		return read_columns(call, map, within, bytes);
	*made = true;
	return make_stripe(call, &rows, from, from + bytes, r);
}

/* Of stripes that begin in the same MiB. False: rows there are on their way, or came to be meanwhile, or too much is lost. */
G4_FN static bool read_together(const struct call *call, const struct g4_chunk_map *map, const struct g4_chunk *chunk,
				uint64_t within, uint64_t bytes, struct g4_direct_remake *r)
{
	const uint64_t address = call->io->offset_bytes + within, first = stripe_at(chunk, address),
		       held = held_at(call, first);
	bool made = false;

	if ((uint32_t)held != 0)
		return false;
	for (uint64_t done = 0, some; done < bytes; done += some) {
		some = g4_min64(bytes - done,
				stripe_at(chunk, address + done) + g4_chunk_stripe_data(chunk) - (address + done));
		if (!read_stripe(call, map, chunk, within + done, some, r, &made))
			return false;
	}
	if (!made)
		return true;
	g4_fence_acq_sys(); /* what was read of columns is of before the next look */
	return held_at(call, first) == held;
}

G4_FN static bool read_without(const struct call *call, const struct g4_chunk_map *map, const struct g4_chunk *chunk,
			       uint64_t within, uint64_t bytes)
{
	const uint64_t address = call->io->offset_bytes + within, stripe = g4_chunk_stripe_data(chunk);
	const uint32_t mark = g4_scratch_mark(call->wg);
	struct g4_direct_remake *r = g4_direct_take_remake(call->wg, chunk, BLOCK_MOST);
	bool done_all = true;

	for (uint64_t done = 0, some; done < bytes && done_all; done += some) {
		const uint64_t next = (stripe_at(chunk, address + done) / G4_MIB + 1) * G4_MIB, /* address */
			end = chunk->address + (next - chunk->address + stripe - 1) / stripe * stripe;
		some = g4_min64(bytes - done, end - (address + done));
		done_all = read_together(call, map, chunk, within + done, some, r);
	}
	g4_scratch_release(call->wg, mark);
	return done_all;
}

/* Rows of which nothing is kept. */
G4_FN static bool read_stored(const struct call *call, const struct g4_chunk_map *map, const struct g4_chunk *chunk,
			      uint64_t within, uint64_t bytes)
{
	if (call->direct->table.missing != 0 ? read_without(call, map, chunk, within, bytes) :
					       !holds_some(call, chunk, call->io->offset_bytes + within, bytes) &&
						       read_columns(call, map, within, bytes))
		return true;
	return through(call, (struct part){within, bytes}, (struct part){0, 0});
}

G4_FN static bool read_rows(const struct call *call, const struct g4_chunk_map *map, const struct g4_chunk *chunk,
			    uint64_t within, uint64_t bytes)
{
	struct g4_kept *kept = &call->direct->kept;

	if (!g4_kept_any(kept))
		return read_stored(call, map, chunk, within, bytes);
	for (uint64_t done = 0; done < bytes;) {
		uint64_t skip;
		const uint64_t copied =
			g4_kept_read(call->wg, kept, chunk, call->io, within + done, bytes - done, &skip);
		if (skip > 0 && !read_stored(call, map, chunk, within + done, skip))
			return false;
		done += skip + copied;
	}
	return true;
}

/* ---- rows that several workgroups write ---- */

#define PART_BYTES                                                                                                     \
	(64 * G4_KIB) /* as large reads: more warps at a time, each of which waits for what it reads over PCIe */
/* Of what lies in one chunk, and in front of a superblock. */
G4_FN static bool take_of_chunk(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev,
				const struct g4_chunk *chunk, uint64_t address, uint64_t bytes, uint64_t most,
				bool in_use, struct g4_direct_grant *grant)
{
	const uint64_t stripe = chunk->parity ? g4_chunk_stripe_data(chunk) : UINT64_MAX;

	if (stripe > most)
		return false;
	grant->part_bytes = g4_max64(PART_BYTES / stripe, 1) * stripe;
	return begin_rows(wg, direct, dev, chunk, address, bytes, in_use, true, grant);
}

G4_FN static bool take_rows_of(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev, uint64_t address,
			       uint64_t bytes, uint64_t most, bool in_use, struct g4_direct_grant *grant)
{
	const struct g4_direct_table *table = &direct->table;
	const struct g4_chunk_map map = {table->chunks, table->chunk_count};

	if (address > table->bytes || bytes > table->bytes - address || table->read_only || table->missing != 0)
		return false;
	for (uint64_t done = 0, here; done < bytes; done += here) {
		const uint64_t at = address + done;
		const struct g4_chunk *chunk = g4_chunk_find(&map, at);
		here = g4_min64(g4_chunk_until(table->supers, G4_DIRECT_SUPERS, at, bytes - done),
				chunk->address + chunk->bytes - at);
		if (here > 0 && take_of_chunk(wg, direct, dev, chunk, at, here, most, in_use, grant))
			return true;
		here = g4_max64(here, G4_PAGE_BYTES); /* a superblock's */
	}
	return false;
}

G4_FN bool g4_direct_take(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev, uint64_t address,
			  uint64_t bytes, uint64_t most, bool in_use, struct g4_direct_grant *grant)
{
	grant->counter = g4_wg_index(wg) % G4_DIRECT_COUNTERS;
	if ((address | bytes) % G4_PAGE_BYTES != 0 || !g4_direct_is_open(direct) || !enter(direct, grant->counter))
		return false;
	if (take_rows_of(wg, direct, dev, address, bytes, most, in_use, grant))
		return true;
	g4_sub32(&direct->counters[grant->counter].inside, 1);
	return false;
}

G4_FN void g4_direct_write(struct g4_wg *wg, struct g4_direct *direct, const struct g4_io *io)
{
	const struct g4_chunk_map map = {direct->table.chunks, direct->table.chunk_count};
	const struct call call = {wg, direct, NULL, io, g4_io_bytes(io)};

	write_stripes(&call, g4_chunk_find(&map, io->offset_bytes), io->offset_bytes, 0, call.bytes);
}

G4_FN bool g4_direct_write_part(struct g4_wg *wg, struct g4_direct *direct, struct g4_direct_grant *grant,
				uint32_t which, const struct g4_io *io)
{
	const struct g4_chunk_map map = {direct->table.chunks, direct->table.chunk_count};
	struct g4_direct_part *part = &grant->parts[which];
	const struct call call = {wg, direct, NULL, io, part->bytes};

	return write_part(&call, g4_chunk_find(&map, grant->address), part);
}

G4_FN void g4_direct_end(struct g4_direct *direct, const struct g4_dev *dev, const struct g4_direct_grant *grant)
{
	end_rows(direct, dev, grant);
	g4_sub32(&direct->counters[grant->counter].inside, 1);
}

/* ---- all of a request ---- */

/* What was done of one that is left to the device in its middle is done again there. */
G4_FN static bool do_all(const struct call *call)
{
	const struct g4_direct_table *table = &call->direct->table;
	const struct g4_chunk_map map = {table->chunks, table->chunk_count};
	const struct g4_io *io = call->io;
	struct g4_piece piece;

	if (io->offset_bytes > table->bytes || call->bytes > table->bytes - io->offset_bytes ||
	    (io->op == G4_IO_WRITE && (table->read_only || table->missing != 0)))
		return false;
	for (uint64_t within = 0; within < call->bytes; within += piece.bytes) {
		const uint64_t address = io->offset_bytes + within;
		const uint64_t most = g4_chunk_until(table->supers, G4_DIRECT_SUPERS, address, call->bytes - within);

		if (most == 0)
			return false;
		g4_chunk_translate(&map, address, most, &piece);
		if (piece.copies == 0)
			return false;
		if (piece.parity == 0) {
			if (!do_piece(call, within, &piece))
				return false;
			continue;
		}
		const struct g4_chunk *chunk = g4_chunk_find(&map, address);
		piece.bytes = g4_min64(most, chunk->address + chunk->bytes - address);
		if (!(io->op == G4_IO_READ ? read_rows(call, &map, chunk, within, piece.bytes) :
					     write_rows(call, chunk, within, piece.bytes)))
			return false;
	}
	return true;
}

G4_FN bool g4_direct_do(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev, const struct g4_io *io)
{
	const uint32_t counter = g4_wg_index(wg) % G4_DIRECT_COUNTERS;

	if (!g4_direct_is_open(direct) || (io->op != G4_IO_READ && io->op != G4_IO_WRITE) ||
	    (io->flags & ~(G4_IO_FUA | G4_IO_CLASS_MASK | G4_IO_IN_USE)) != 0 || io->iov_count > G4_IO_MAX_IOV)
		return false;
	const struct call call = {wg, direct, dev, io, g4_io_bytes(io)};
	if ((io->offset_bytes | call.bytes) % G4_PAGE_BYTES != 0 || !enter(direct, counter))
		return false;
	const bool done = do_all(&call);
	g4_sub32(&direct->counters[counter].inside, 1);
	return done;
}
