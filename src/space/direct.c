/* SPDX-License-Identifier: Apache-2.0 */
#include "space/direct.h"

#include "space/chunk.h"

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

/* A piece of a request, `within` its data. */
G4_FN static bool do_piece(struct g4_wg *wg, const struct g4_direct_table *table, const struct g4_io *io,
			   uint64_t within, const struct g4_piece *piece)
{
	const bool reads = io->op == G4_IO_READ;

	if (piece->copies == 0 || piece->parity != 0)
		return false;
	const uint32_t first = reads ? g4_chunk_turn(io->offset_bytes + within, piece->copies) : 0;
	for (uint32_t c = first; c < (reads ? first + 1 : piece->copies); c++)
		g4_io_copy(wg, io, within, piece->bytes,
			   (uint8_t *)(uintptr_t)table->disks[piece->disks[c]] + piece->offsets[c], !reads);
	return true;
}

/* What was done of one that is left to the device in its middle is done again there. */
G4_FN static bool do_all(struct g4_wg *wg, const struct g4_direct_table *table, const struct g4_io *io, uint64_t bytes)
{
	const struct g4_chunk_map map = {table->chunks, table->chunk_count};
	struct g4_piece piece;

	if (io->offset_bytes > table->bytes || bytes > table->bytes - io->offset_bytes ||
	    (table->read_only && io->op == G4_IO_WRITE))
		return false;
	for (uint64_t within = 0; within < bytes; within += piece.bytes) {
		const uint64_t address = io->offset_bytes + within;
		const uint64_t most = g4_chunk_until(table->supers, G4_DIRECT_SUPERS, address, bytes - within);

		if (most == 0)
			return false;
		g4_chunk_translate(&map, address, most, &piece);
		if (!do_piece(wg, table, io, within, &piece))
			return false;
	}
	return true;
}

G4_FN bool g4_direct_do(struct g4_wg *wg, struct g4_direct *direct, const struct g4_io *io)
{
	const uint32_t counter = g4_wg_index(wg) % G4_DIRECT_COUNTERS;

	if (!g4_direct_is_open(direct) || (io->op != G4_IO_READ && io->op != G4_IO_WRITE) ||
	    (io->flags & ~(G4_IO_FUA | G4_IO_CLASS_MASK)) != 0 || io->iov_count > G4_IO_MAX_IOV)
		return false;
	const uint64_t bytes = g4_io_bytes(io);
	if ((io->offset_bytes | bytes) % G4_PAGE_BYTES != 0 || !enter(direct, counter))
		return false;
	const bool done = do_all(wg, &direct->table, io, bytes);
	g4_sub32(&direct->counters[counter].inside, 1);
	return done;
}
