/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "hash/blake3.h"
#include "parity/parity.h"
#include "simt/simt_host.h"
#include "store/crypto.h"
#include "store/pack_parity.h"

#define CHUNKS 32u
#define BLOCK_BYTES 4096u
#define SUM_BYTES 8u
/* Chunks have a multiple of this. */
#define CHUNK_UNIT 16u

_Static_assert(STORE_PARITY_MOST == G4_PARITY_MOST, "what the code has");
static const char tail_magic[8] = {'p', 'a', 'r', 'i', 't', 'y', ' ', '\n'};

/* Of a stripe of so many bytes. */
static uint64_t chunk_bytes(uint64_t stripe_bytes)
{
	return (stripe_bytes + CHUNKS * CHUNK_UNIT - 1) / (CHUNKS * CHUNK_UNIT) * CHUNK_UNIT;
}

static uint64_t rows_of(uint64_t chunk)
{
	return (chunk + BLOCK_BYTES - 1) / BLOCK_BYTES;
}

static uint64_t stripe_section(uint64_t stripe_bytes, uint32_t parity)
{
	const uint64_t chunk = chunk_bytes(stripe_bytes);

	return parity * chunk + (CHUNKS + parity) * rows_of(chunk) * SUM_BYTES;
}

uint64_t store_parity_bytes(uint64_t pack_bytes, uint32_t parity)
{
	const uint64_t whole = pack_bytes / STORE_PARITY_STRIPE_BYTES, rest = pack_bytes % STORE_PARITY_STRIPE_BYTES;

	if (parity == 0)
		return 0;
	return whole * stripe_section(STORE_PARITY_STRIPE_BYTES, parity) +
	       (rest > 0 ? stripe_section(rest, parity) : 0) + STORE_PARITY_TAIL_BYTES;
}

bool store_parity_split(const uint8_t tail[STORE_PARITY_TAIL_BYTES], uint64_t bytes, uint64_t *pack_bytes)
{
	uint32_t parity, pack;

	*pack_bytes = bytes;
	if (memcmp(tail + 8, tail_magic, sizeof(tail_magic)) != 0)
		return true;
	memcpy(&parity, tail, sizeof(parity));
	memcpy(&pack, tail + 4, sizeof(pack));
	*pack_bytes = pack;
	return parity >= 1 && parity <= G4_PARITY_MOST && pack < bytes &&
	       pack + store_parity_bytes(pack, parity) == bytes;
}

/* -------------------------------------------------------------------------------------------------------- making */

struct store_parity {
	uint32_t parity;
	struct g4_wg *wg;
	uint8_t *rest; /* a stripe whose last chunks are not whole */
	struct store_buf section;
	uint64_t pack_bytes;
	bool ended;
};

struct store_parity *store_parity_open(uint32_t parity)
{
	struct store_parity *p = (struct store_parity *)store_alloc(sizeof(*p));

	p->parity = parity;
	p->wg = g4_wg_create(0);
	p->rest = (uint8_t *)store_alloc(STORE_PARITY_STRIPE_BYTES);
	if (p->wg == NULL)
		store_alloc(SIZE_MAX);
	return p;
}

void store_parity_close(struct store_parity *p)
{
	if (p == NULL)
		return;
	g4_wg_destroy(p->wg);
	store_buf_free(&p->section);
	free(p->rest);
	free(p);
}

static void sum_block(const uint8_t *chunk, uint64_t bytes, uint64_t row, uint8_t sum[SUM_BYTES])
{
	uint8_t digest[G4_BLAKE3_BYTES];

	g4_blake3(chunk + row * BLOCK_BYTES, g4_min64(BLOCK_BYTES, bytes - row * BLOCK_BYTES), digest);
	memcpy(sum, digest, SUM_BYTES);
}

/* A stripe as whole chunks, zeros behind its end. */
static const uint8_t *whole_chunks(struct store_parity *p, const uint8_t *data, size_t bytes)
{
	const uint64_t all = CHUNKS * chunk_bytes(bytes);

	if (bytes == all)
		return data;
	memcpy(p->rest, data, bytes);
	memset(p->rest + bytes, 0, all - bytes);
	return p->rest;
}

void store_parity_add(struct store_parity *p, const uint8_t *data, size_t bytes)
{
	const uint64_t chunk = chunk_bytes(bytes), rows = rows_of(chunk);
	const void *in[CHUNKS];
	void *out[G4_PARITY_MOST];

	if (p->ended) {
		p->section.size = 0;
		p->pack_bytes = 0;
		p->ended = false;
	}
	p->pack_bytes += bytes;
	if (bytes == 0)
		return;
	uint8_t *to = store_buf_reserve(&p->section, stripe_section(bytes, p->parity));
	data = whole_chunks(p, data, bytes);
	for (uint32_t i = 0; i < CHUNKS; i++)
		in[i] = data + i * chunk;
	for (uint32_t i = 0; i < p->parity; i++)
		out[i] = to + i * chunk;
	g4_parity_encode(p->wg, CHUNKS, p->parity, in, out, chunk);
	uint8_t *sums = to + p->parity * chunk;
	for (uint32_t i = 0; i < CHUNKS + p->parity; i++)
		for (uint64_t row = 0; row < rows; row++, sums += SUM_BYTES)
			sum_block((const uint8_t *)(i < CHUNKS ? in[i] : out[i - CHUNKS]), chunk, row, sums);
	p->section.size += stripe_section(bytes, p->parity);
}

const struct store_buf *store_parity_end(struct store_parity *p)
{
	store_buf_u32(&p->section, p->parity);
	store_buf_u32(&p->section, (uint32_t)p->pack_bytes);
	store_buf_add(&p->section, tail_magic, sizeof(tail_magic));
	p->ended = true;
	return &p->section;
}

void store_parity_append(struct store_buf *file, uint32_t parity)
{
	struct store_parity *p = store_parity_open(parity);

	for (uint64_t at = 0; at < file->size; at += STORE_PARITY_STRIPE_BYTES)
		store_parity_add(p, file->data + at, g4_min64(STORE_PARITY_STRIPE_BYTES, file->size - at));
	const struct store_buf *section = store_parity_end(p);
	store_buf_add(file, section->data, section->size);
	store_parity_close(p);
}

bool store_parity_fits(const uint8_t *file, size_t bytes)
{
	struct store_buf fresh = {0};
	uint64_t own;

	if (bytes < STORE_PARITY_TAIL_BYTES ||
	    !store_parity_split(file + bytes - STORE_PARITY_TAIL_BYTES, bytes, &own) || own == bytes)
		return false;
	store_buf_add(&fresh, file, own);
	store_parity_append(&fresh, file[bytes - STORE_PARITY_TAIL_BYTES]);
	const bool fits = fresh.size == bytes && memcmp(fresh.data, file, bytes) == 0;
	store_buf_free(&fresh);
	return fits;
}

/* ------------------------------------------------------------------------------------------------------- mending */

/* The size of the pack in a file, from the file's size alone: the tail may be what is damaged. 0: that parity gives no such size. */
static uint64_t pack_in(uint64_t bytes, uint32_t parity)
{
	uint64_t low = 1, high = bytes;

	while (low < high) { /* the sum grows with the pack */
		const uint64_t middle = (low + high) / 2;

		if (middle + store_parity_bytes(middle, parity) < bytes)
			low = middle + 1;
		else
			high = middle;
	}
	return low + store_parity_bytes(low, parity) == bytes ? low : 0;
}

/* Blocks whose sums do not match. False: there are more of them than that row's parity. */
static bool mend_row(struct store_parity *p, uint8_t *chunks, uint64_t chunk, const uint8_t *sums, uint64_t row,
		     struct g4_parity_room *room)
{
	const uint64_t rows = rows_of(chunk), bytes = g4_min64(BLOCK_BYTES, chunk - row * BLOCK_BYTES);
	void *blocks[CHUNKS + G4_PARITY_MOST];
	uint64_t lost = 0;
	uint32_t count = 0;

	for (uint32_t i = 0; i < CHUNKS + p->parity; i++) {
		uint8_t sum[SUM_BYTES];

		sum_block(chunks + i * chunk, chunk, row, sum);
		blocks[i] = chunks + i * chunk + row * BLOCK_BYTES;
		if (memcmp(sum, sums + (i * rows + row) * SUM_BYTES, SUM_BYTES) != 0) {
			lost |= UINT64_C(1) << i;
			count++;
		}
	}
	return count <= p->parity &&
	       (lost == 0 || g4_parity_reconstruct(p->wg, CHUNKS, p->parity, lost, blocks, bytes, room));
}

/* False: a row could not be mended; the others are. */
static bool mend_stripe(struct store_parity *p, uint8_t *data, size_t bytes, const uint8_t *section, uint8_t *chunks,
			struct g4_parity_room *room)
{
	const uint64_t chunk = chunk_bytes(bytes);
	bool whole = true;

	memset(chunks, 0, CHUNKS * chunk);
	memcpy(chunks, data, bytes);
	memcpy(chunks + CHUNKS * chunk, section, p->parity * chunk);
	for (uint64_t row = 0; row < rows_of(chunk); row++)
		whole = mend_row(p, chunks, chunk, section + p->parity * chunk, row, room) && whole;
	memcpy(data, chunks, bytes);
	return whole;
}

static bool mend_as(uint8_t *file, size_t bytes, uint64_t pack_bytes, uint32_t parity, const struct store_id *name)
{
	struct store_parity *p = store_parity_open(parity);
	struct g4_parity_room *room = (struct g4_parity_room *)store_alloc(sizeof(*room));
	uint8_t *chunks = (uint8_t *)store_alloc((CHUNKS + parity) * chunk_bytes(STORE_PARITY_STRIPE_BYTES));
	const uint8_t *section = file + pack_bytes;
	struct store_id found;
	bool whole = true;

	for (uint64_t at = 0; at < pack_bytes; at += STORE_PARITY_STRIPE_BYTES) {
		const uint64_t stripe = g4_min64(STORE_PARITY_STRIPE_BYTES, pack_bytes - at);

		whole = mend_stripe(p, file + at, stripe, section, chunks, room) && whole;
		section += stripe_section(stripe, parity);
		store_parity_add(p, file + at, stripe);
	}
	const struct store_buf *fresh = store_parity_end(p);
	memcpy(file + pack_bytes, fresh->data, fresh->size);
	store_digest(file, bytes, found.bytes);
	free(chunks);
	free(room);
	store_parity_close(p);
	return name != NULL ? store_id_equal(&found, name) : whole;
}

bool store_parity_mend(uint8_t *file, size_t bytes, const struct store_id *name)
{
	if (bytes == 0)
		return false;
	uint8_t *old = (uint8_t *)store_alloc(bytes);
	bool mended = false;

	memcpy(old, file, bytes);
	for (uint32_t parity = 1; parity <= G4_PARITY_MOST && !mended; parity++) {
		const uint64_t pack_bytes = pack_in(bytes, parity);

		if (pack_bytes == 0)
			continue;
		mended = mend_as(file, bytes, pack_bytes, parity, name);
		if (!mended)
			memcpy(file, old, bytes);
	}
	free(old);
	return mended;
}
