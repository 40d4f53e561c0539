/* SPDX-License-Identifier: Apache-2.0 */
#include "space/direct.h"

#include "space/chunk.h"

/* Where a request has got to in its memory. */
struct cursor {
	const struct g4_io *io;
	uint32_t part;
	uint64_t within;
};

/* ---- the gate ---- */

/* Who is counted by an addition behind that of the one who closes (wait_for_all()) finds the gate closed. */
G4_FN static bool enter(struct g4_direct *direct, uint32_t counter)
{
	g4_add32(&direct->counters[counter].inside, 1);
	if (g4_direct_is_open(direct))
		return true;
	g4_sub32(&direct->counters[counter].inside, 1);
	return false;
}

G4_FN static void wait_for_all(struct g4_direct *direct)
{
	for (uint32_t k = 0; k < G4_DIRECT_COUNTERS; k++)
		while (g4_add32(&direct->counters[k].inside, 0) != 0) /* added, not loaded: see enter() */
			g4_pause();
}

/* The lock is held. */
G4_FN static void shut(struct g4_direct *direct)
{
	if (!g4_direct_is_open(direct))
		return;
	g4_store32_rel(&direct->open, 0);
	wait_for_all(direct);
}

/* The lock is held, and the gate is shut. */
G4_FN static void ask(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev)
{
	if (direct->finished || g4_dev_props(dev)->disks == 0 ||
	    g4_dev_layout(wg, dev, &direct->table, sizeof(direct->table)) < 0)
		return;
	for (uint32_t d = 0; d < direct->table.disk_count; d++)
		direct->table.disks[d] += direct->shift[d];
	g4_store32_rel(&direct->open, 1);
}

G4_FN void g4_direct_ask(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev)
{
	g4_lock(&direct->lock);
	shut(direct);
	ask(wg, direct, dev);
	g4_unlock(&direct->lock);
}

G4_FN void g4_direct_begin_order(struct g4_direct *direct)
{
	g4_lock(&direct->lock);
	shut(direct);
	direct->finished = direct->fixed;
}

G4_FN void g4_direct_end_order(struct g4_wg *wg, struct g4_direct *direct, struct g4_dev *dev)
{
	ask(wg, direct, dev);
	g4_unlock(&direct->lock);
}

/* ---- requests ---- */

/* How much of it lies in front of the next superblock; 0: it begins with one. */
G4_FN static uint64_t up_to_super(const struct g4_direct_table *table, uint64_t address, uint64_t bytes)
{
	for (uint32_t k = 0; k < G4_DIRECT_SUPERS; k++)
		if (address < table->supers[k] + G4_PAGE_BYTES)
			bytes = g4_min64(bytes, table->supers[k] > address ? table->supers[k] - address : 0);
	return bytes;
}

/* The next `bytes` of the request's memory, to or from one place. */
G4_FN static void copy(struct g4_wg *wg, struct cursor at, uint8_t *place, uint64_t bytes)
{
	while (bytes > 0) {
		const struct g4_iov *part = &at.io->iov[at.part];
		const uint64_t some = g4_min64(bytes, part->bytes - at.within);
		uint8_t *memory = (uint8_t *)part->base + at.within;

		if (at.io->op == G4_IO_READ)
			g4_copy(wg, memory, place, some);
		else
			g4_copy(wg, place, memory, some);
		place += some;
		bytes -= some;
		at.part++;
		at.within = 0;
	}
}

G4_FN static void skip(struct cursor *at, uint64_t bytes)
{
	at->within += bytes;
	while (at->part < at->io->iov_count && at->within >= at->io->iov[at->part].bytes)
		at->within -= at->io->iov[at->part++].bytes;
}

#define TURN_SHIFT 20 /* reads of neighbouring MiB go to other copies */

G4_FN static bool do_piece(struct g4_wg *wg, const struct g4_direct_table *table, const struct g4_piece *piece,
			   const struct cursor *at, uint64_t address)
{
	const bool reads = at->io->op == G4_IO_READ;

	if (piece->copies == 0 || piece->parity != 0)
		return false;
	const uint32_t first = reads ? (uint32_t)(address >> TURN_SHIFT) % piece->copies : 0;
	for (uint32_t c = first; c < (reads ? first + 1 : piece->copies); c++)
		copy(wg, *at, (uint8_t *)(uintptr_t)table->disks[piece->disks[c]] + piece->offsets[c], piece->bytes);
	return true;
}

/* What was done of one that is left to the device in its middle is done again there. */
G4_FN static bool do_all(struct g4_wg *wg, const struct g4_direct_table *table, const struct g4_io *io, uint64_t bytes)
{
	const struct g4_chunk_map map = {table->chunks, table->chunk_count};
	struct cursor at = {io, 0, 0};
	uint64_t address = io->offset_bytes;

	if (address > table->bytes || bytes > table->bytes - address || (table->read_only && io->op == G4_IO_WRITE))
		return false;
	skip(&at, 0);
	while (bytes > 0) {
		const uint64_t most = up_to_super(table, address, bytes);
		struct g4_piece piece;

		if (most == 0)
			return false;
		g4_chunk_translate(&map, address, most, &piece);
		if (!do_piece(wg, table, &piece, &at, address))
			return false;
		skip(&at, piece.bytes);
		address += piece.bytes;
		bytes -= piece.bytes;
	}
	return true;
}

G4_FN bool g4_direct_do(struct g4_wg *wg, struct g4_direct *direct, const struct g4_io *io)
{
	const uint32_t counter = g4_wg_index(wg) % G4_DIRECT_COUNTERS;
	uint64_t bytes = 0;

	if (!g4_direct_is_open(direct) || (io->op != G4_IO_READ && io->op != G4_IO_WRITE) ||
	    (io->flags & ~(G4_IO_FUA | G4_IO_CLASS_MASK)) != 0 || io->iov_count > G4_IO_MAX_IOV)
		return false;
	for (uint32_t k = 0; k < io->iov_count; k++)
		bytes += io->iov[k].bytes;
	if ((io->offset_bytes | bytes) % G4_PAGE_BYTES != 0 || !enter(direct, counter))
		return false;
	const bool done = do_all(wg, &direct->table, io, bytes);
	g4_sub32(&direct->counters[counter].inside, 1);
	return done;
}
