/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Columns of stripes that lanes make of the other ones: what a disk that is rebuilt lacks (direct_lost.c), and what readers want of a disk that is missing
 * (direct.c). Nobody is kept from writing there meanwhile: who asks for it finds out whether somebody has, and does not count what was made then.
 */
#include "space/direct.h"

G4_FN struct g4_direct_remake *g4_direct_take_remake(struct g4_wg *wg, const struct g4_chunk *chunk, uint64_t most)
{
	struct g4_direct_remake *r = (struct g4_direct_remake *)g4_scratch_take(wg, sizeof(*r));
	uint8_t *near = (uint8_t *)g4_scratch_take(wg, G4_DIRECT_NEAR_BYTES);

	r->data = g4_chunk_data_columns(chunk);
	r->parity = chunk->parity;
	r->block_bytes = g4_min64(g4_align_down(G4_DIRECT_NEAR_BYTES / r->data, 512), most);
	for (uint32_t c = 0; c < chunk->columns; c++) /* as many as there are columns of data are looked at */
		r->near[c] = near;
	return r;
}

G4_FN uint8_t *g4_direct_source(const struct g4_direct_table *table, uint64_t place, uint64_t within, uint64_t bytes)
{
	const uint32_t disk = g4_place_disk(place);
	const uint64_t at = g4_place_address(place) + within;

	if (disk >= table->disk_count || disk == table->target || table->disks[disk] == 0 ||
	    at > table->disk_bytes[disk] || bytes > table->disk_bytes[disk] - at)
		return NULL;
	return (uint8_t *)(uintptr_t)table->disks[disk] + at;
}

G4_FN bool g4_direct_choose(const struct g4_direct_table *table, const struct g4_chunk *chunk, uint64_t stripe,
			    uint64_t within, uint64_t bytes, struct g4_direct_remake *r)
{
	uint8_t *near = (uint8_t *)r->near[0];
	uint32_t wanted = 0; /* parities, in the place of data */

	r->lost = 0;
	r->bytes = bytes;
	for (uint32_t c = 0; c < chunk->columns; c++) {
		r->from[c] = g4_direct_source(table, g4_chunk_place(chunk, stripe, c),
					      stripe * chunk->stripe_bytes + within, bytes);
		r->to[c] = NULL;
		if (!r->from[c])
			r->lost |= UINT64_C(1) << c;
		wanted += c < r->data && !r->from[c];
		if (c >= r->data && r->from[c] && wanted == 0)
			r->from[c] = NULL;
		else if (c >= r->data && r->from[c])
			wanted--;
		r->near[c] = near;
		near += r->from[c] ? r->block_bytes : 0;
	}
	return g4_count_bits(r->lost) <= r->parity;
}

G4_FN static void remake_block(struct g4_wg *wg, struct g4_direct_remake *r, uint64_t at, uint64_t bytes)
{
	const uint32_t columns = r->data + r->parity;

	for (uint32_t c = 0; c < columns; c++)
		if (r->from[c])
			g4_copy_in_region(wg, r->near[c], (const uint8_t *)r->from[c] + at, bytes);
	for (uint32_t c = g4_wg_lane(wg); c < columns; c += g4_wg_width(wg))
		r->block[c] = r->from[c] ? r->near[c] : r->to[c] ? (uint8_t *)r->to[c] + at : NULL;
	g4_sync(wg);
	for (uint32_t c = 0; c < columns; c++)
		if (r->from[c] && r->to[c])
			g4_copy_in_region(wg, (uint8_t *)r->to[c] + at, r->near[c], bytes);
	g4_parity_reconstruct(wg, r->data, r->parity, r->lost, r->block, bytes, &r->scratch);
	g4_sync(wg);
}

/* Many bytes of each column are under way at a time; what is made of them goes to its place at once. */
G4_REGION_BODY void g4_direct_remake_region(struct g4_wg *wg, void *args)
{
	struct g4_direct_remake *r = (struct g4_direct_remake *)args;

	g4_converge(wg);
	if (r->data == 0) {
		g4_copy_in_region(wg, r->to[0], r->from[0], r->bytes);
		g4_sync(wg);
		return;
	}
	for (uint64_t at = 0; at < r->bytes; at += r->block_bytes)
		remake_block(wg, r, at, g4_min64(r->bytes - at, r->block_bytes));
}
