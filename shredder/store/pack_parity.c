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
#define PACKED_UNIT 16u
/* Behind the file's own bytes where sections are apart: this byte, and zeros up to a whole block. */
#define PAD_BYTE 0x80

_Static_assert(STORE_PARITY_MOST == G4_PARITY_MOST, "what the code has");
static const char tail_magic[STORE_PARITY_LAYOUTS][8] = {
	{'p', 'a', 'r', 'i', 't', 'y', ' ', '\n'},
	{'p', 'a', 'r', 'i', 't', 'y', '2', '\n'},
};

static uint64_t rounded(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* Of a stripe of so many bytes. */
static uint64_t chunk_bytes(enum store_parity_layout layout, uint64_t stripe_bytes)
{
	const uint64_t unit = layout == STORE_PARITY_APART ? BLOCK_BYTES : PACKED_UNIT;

	return rounded(stripe_bytes, CHUNKS * unit) / CHUNKS;
}

static uint64_t rows_of(uint64_t chunk)
{
	return (chunk + BLOCK_BYTES - 1) / BLOCK_BYTES;
}

static uint64_t stripe_section(enum store_parity_layout layout, uint64_t stripe_bytes, uint32_t parity)
{
	const uint64_t chunk = chunk_bytes(layout, stripe_bytes);

	return parity * chunk + (CHUNKS + parity) * rows_of(chunk) * SUM_BYTES;
}

/* A file as it is cut into stripes: with what is between it and its parity. */
static uint64_t padded(enum store_parity_layout layout, uint64_t pack_bytes)
{
	return layout == STORE_PARITY_APART ? rounded(pack_bytes + 1, BLOCK_BYTES) : pack_bytes;
}

/* Behind the stripes of a file of so many padded bytes. */
static uint64_t behind_stripes(enum store_parity_layout layout, uint64_t padded_bytes, uint32_t parity)
{
	const uint64_t whole = padded_bytes / STORE_PARITY_STRIPE_BYTES,
		       rest = padded_bytes % STORE_PARITY_STRIPE_BYTES;

	return whole * stripe_section(layout, STORE_PARITY_STRIPE_BYTES, parity) +
	       (rest > 0 ? stripe_section(layout, rest, parity) : 0) + STORE_PARITY_TAIL_BYTES;
}

uint64_t store_parity_bytes(enum store_parity_layout layout, uint64_t pack_bytes, uint32_t parity)
{
	const uint64_t all = padded(layout, pack_bytes);

	return parity == 0 ? 0 : all - pack_bytes + behind_stripes(layout, all, parity);
}

/* False: no section ends so. */
static bool layout_of(const uint8_t tail[STORE_PARITY_TAIL_BYTES], enum store_parity_layout *layout)
{
	for (uint32_t i = 0; i < STORE_PARITY_LAYOUTS; i++) {
		*layout = (enum store_parity_layout)i;
		if (memcmp(tail + 8, tail_magic[i], sizeof(tail_magic[i])) == 0)
			return true;
	}
	return false;
}

bool store_parity_split(const uint8_t tail[STORE_PARITY_TAIL_BYTES], uint64_t bytes, uint64_t *pack_bytes)
{
	enum store_parity_layout layout;
	uint32_t parity, pack;

	*pack_bytes = bytes;
	if (!layout_of(tail, &layout))
		return true;
	memcpy(&parity, tail, sizeof(parity));
	memcpy(&pack, tail + 4, sizeof(pack));
	*pack_bytes = pack;
	return parity >= 1 && parity <= G4_PARITY_MOST && pack < bytes &&
	       pack + store_parity_bytes(layout, pack, parity) == bytes;
}

/* -------------------------------------------------------------------------------------------------------- making */

struct store_parity {
	enum store_parity_layout layout;
	uint32_t parity;
	struct g4_wg *wg;
	uint8_t *rest; /* a stripe whose last chunks are not whole */
	uint8_t *last; /* a stripe that may be padded yet */
	size_t last_bytes;
	struct store_buf section; /* begins with room for the padding */
	uint64_t pack_bytes;
	bool ended;
};

struct store_parity *store_parity_open(enum store_parity_layout layout, uint32_t parity)
{
	struct store_parity *p = (struct store_parity *)store_alloc(sizeof(*p));

	p->layout = layout;
	p->parity = parity;
	p->wg = g4_wg_create(0);
	p->rest = (uint8_t *)store_alloc(STORE_PARITY_STRIPE_BYTES);
	p->last = (uint8_t *)store_alloc(STORE_PARITY_STRIPE_BYTES);
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
	free(p->last);
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
	const uint64_t all = CHUNKS * chunk_bytes(p->layout, bytes);

	if (bytes == all)
		return data;
	memcpy(p->rest, data, bytes);
	memset(p->rest + bytes, 0, all - bytes);
	return p->rest;
}

static void add_stripe(struct store_parity *p, const uint8_t *data, size_t bytes)
{
	const uint64_t chunk = chunk_bytes(p->layout, bytes), rows = rows_of(chunk);
	const void *in[CHUNKS];
	void *out[G4_PARITY_MOST];

	uint8_t *to = store_buf_reserve(&p->section, stripe_section(p->layout, bytes, p->parity));
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
	p->section.size += stripe_section(p->layout, bytes, p->parity);
}

static void begin_section(struct store_parity *p)
{
	p->section.size = 0;
	if (p->layout == STORE_PARITY_APART) {
		store_buf_reserve(&p->section, BLOCK_BYTES);
		p->section.size = BLOCK_BYTES;
	}
	p->pack_bytes = 0;
	p->last_bytes = 0;
	p->ended = false;
}

void store_parity_add(struct store_parity *p, const uint8_t *data, size_t bytes)
{
	if (p->ended || p->pack_bytes == 0)
		begin_section(p);
	p->pack_bytes += bytes;
	if (p->layout == STORE_PARITY_APART && bytes < STORE_PARITY_STRIPE_BYTES) {
		memcpy(p->last, data, bytes);
		p->last_bytes = bytes;
	} else if (bytes > 0) {
		add_stripe(p, data, bytes);
	}
}

/* Of the last stripe, which it ends; its place in front of the section is filled from the end. */
static void pad(struct store_parity *p)
{
	const size_t bytes = padded(p->layout, p->pack_bytes) - p->pack_bytes;

	memset(p->last + p->last_bytes, 0, bytes);
	p->last[p->last_bytes] = PAD_BYTE;
	add_stripe(p, p->last, p->last_bytes + bytes);
	memmove(p->section.data + bytes, p->section.data + BLOCK_BYTES, p->section.size - BLOCK_BYTES);
	p->section.size -= BLOCK_BYTES - bytes;
	memcpy(p->section.data, p->last + p->last_bytes, bytes);
}

const struct store_buf *store_parity_end(struct store_parity *p)
{
	if (p->ended || p->pack_bytes == 0)
		begin_section(p);
	if (p->layout == STORE_PARITY_APART)
		pad(p);
	store_buf_u32(&p->section, p->parity);
	store_buf_u32(&p->section, (uint32_t)p->pack_bytes);
	store_buf_add(&p->section, tail_magic[p->layout], sizeof(tail_magic[p->layout]));
	p->ended = true;
	return &p->section;
}

void store_parity_append(struct store_buf *file, enum store_parity_layout layout, uint32_t parity)
{
	struct store_parity *p = store_parity_open(layout, parity);

	for (uint64_t at = 0; at < file->size; at += STORE_PARITY_STRIPE_BYTES)
		store_parity_add(p, file->data + at, g4_min64(STORE_PARITY_STRIPE_BYTES, file->size - at));
	const struct store_buf *section = store_parity_end(p);
	store_buf_add(file, section->data, section->size);
	store_parity_close(p);
}

bool store_parity_fits(const uint8_t *file, size_t bytes)
{
	struct store_buf fresh = {0};
	enum store_parity_layout layout;
	uint64_t own;

	if (bytes < STORE_PARITY_TAIL_BYTES || !layout_of(file + bytes - STORE_PARITY_TAIL_BYTES, &layout) ||
	    !store_parity_split(file + bytes - STORE_PARITY_TAIL_BYTES, bytes, &own))
		return false;
	store_buf_add(&fresh, file, own);
	store_parity_append(&fresh, layout, file[bytes - STORE_PARITY_TAIL_BYTES]);
	const bool fits = fresh.size == bytes && memcmp(fresh.data, file, bytes) == 0;
	store_buf_free(&fresh);
	return fits;
}

/* ------------------------------------------------------------------------------------------------------- mending */

/* One way in which a file of so many bytes can have been made. */
struct attempt {
	struct store_parity *p; /* with the layout and the parity */
	uint8_t *file;
	uint64_t padded_bytes;
	uint8_t *chunks; /* a stripe's, its parity behind them */
	struct g4_parity_scratch scratch;
	uint8_t old[G4_PARITY_MOST][BLOCK_BYTES];
	uint64_t matching; /* blocks that had their sums */
	bool mended, lost; /* some rows were, some cannot be */
};

/* The padded size of a file, from its size alone: the tail may be what is damaged. 0: this layout gives no such size. */
static uint64_t padded_in(enum store_parity_layout layout, uint32_t parity, uint64_t bytes)
{
	const uint64_t unit = layout == STORE_PARITY_APART ? BLOCK_BYTES : 1;
	uint64_t low = 1, high = bytes / unit;

	while (low < high) { /* the sum grows with the file */
		const uint64_t middle = (low + high) / 2;

		if (middle * unit + behind_stripes(layout, middle * unit, parity) < bytes)
			low = middle + 1;
		else
			high = middle;
	}
	return low * unit + behind_stripes(layout, low * unit, parity) == bytes ? low * unit : 0;
}

static bool sum_matches(const uint8_t *chunk, uint64_t bytes, uint64_t row, const uint8_t *sum)
{
	uint8_t found[SUM_BYTES];

	sum_block(chunk, bytes, row, found);
	return memcmp(found, sum, SUM_BYTES) == 0;
}

/* A block that was made again has its sum now, or is what it was: then the sum is what is damaged. */
static bool block_is_right(const struct attempt *a, uint32_t block, uint64_t chunk, const uint8_t *sums, uint64_t row,
			   const uint8_t *old, uint64_t bytes)
{
	const uint8_t *made = a->chunks + block * chunk;

	return sum_matches(made, chunk, row, sums + (block * rows_of(chunk) + row) * SUM_BYTES) ||
	       memcmp(old, made + row * BLOCK_BYTES, bytes) == 0;
}

/* Of a row whose lost blocks were made again. False: one of them is wrong, and all are as they were. */
static bool keep_row(struct attempt *a, uint64_t chunk, const uint8_t *sums, uint64_t row, uint64_t lost,
		     void *const *blocks, uint64_t bytes)
{
	const uint32_t all = CHUNKS + a->p->parity;
	uint32_t saved = 0;
	bool right = true;

	for (uint32_t i = 0; i < all && right; i++)
		if ((lost >> i & 1) != 0)
			right = block_is_right(a, i, chunk, sums, row, a->old[saved++], bytes);
	saved = 0;
	for (uint32_t i = 0; i < all && !right; i++)
		if ((lost >> i & 1) != 0)
			memcpy(blocks[i], a->old[saved++], bytes);
	return right;
}

/* Blocks whose sums do not match; false: there are more of them than that row's parity. */
static bool mend_row(struct attempt *a, uint64_t chunk, const uint8_t *sums, uint64_t row)
{
	const uint64_t rows = rows_of(chunk), bytes = g4_min64(BLOCK_BYTES, chunk - row * BLOCK_BYTES);
	const uint32_t all = CHUNKS + a->p->parity;
	void *blocks[CHUNKS + G4_PARITY_MOST];
	uint64_t lost = 0;
	uint32_t count = 0;

	for (uint32_t i = 0; i < all; i++) {
		blocks[i] = a->chunks + i * chunk + row * BLOCK_BYTES;
		if (sum_matches(a->chunks + i * chunk, chunk, row, sums + (i * rows + row) * SUM_BYTES))
			continue;
		lost |= UINT64_C(1) << i;
		if (count < a->p->parity)
			memcpy(a->old[count], blocks[i], bytes);
		count++;
	}
	a->matching += all - count;
	if (count == 0)
		return true;
	if (count > a->p->parity ||
	    !g4_parity_reconstruct(a->p->wg, CHUNKS, a->p->parity, lost, blocks, bytes, &a->scratch) ||
	    !keep_row(a, chunk, sums, row, lost, blocks, bytes))
		return false;
	a->mended = true;
	return true;
}

static void mend_stripe(struct attempt *a, uint8_t *data, size_t bytes, uint8_t *section)
{
	const uint64_t chunk = chunk_bytes(a->p->layout, bytes);
	const uint32_t parity = a->p->parity;

	memset(a->chunks, 0, CHUNKS * chunk);
	memcpy(a->chunks, data, bytes);
	memcpy(a->chunks + CHUNKS * chunk, section, parity * chunk);
	for (uint64_t row = 0; row < rows_of(chunk); row++)
		if (!mend_row(a, chunk, section + parity * chunk, row))
			a->lost = true;
	memcpy(data, a->chunks, bytes);
	memcpy(section, a->chunks + CHUNKS * chunk, parity * chunk);
}

/* Where the file itself ends; 0: it does not say. */
static uint64_t own_bytes(const struct attempt *a)
{
	uint64_t at = a->padded_bytes;

	if (a->p->layout == STORE_PARITY_PACKED)
		return at;
	while (at > 0 && a->padded_bytes - at < BLOCK_BYTES && a->file[at - 1] == 0)
		at--;
	return at > 1 && a->file[at - 1] == PAD_BYTE ? at - 1 : 0;
}

/* Of one stripe that has none of its sums: they are what is lost if its parity is that of its bytes. */
static bool only_sums_lost(const struct attempt *a, const struct store_buf *fresh)
{
	const uint64_t parity_bytes = a->p->parity * chunk_bytes(a->p->layout, a->padded_bytes);

	return a->matching == 0 && a->padded_bytes <= STORE_PARITY_STRIPE_BYTES &&
	       memcmp(fresh->data, a->file, a->padded_bytes + parity_bytes) == 0;
}

/* Makes the section again, and judges the whole. */
static bool is_mended(struct attempt *a, size_t bytes, const struct store_id *name)
{
	const uint64_t own = own_bytes(a);
	struct store_buf fresh = {0};
	struct store_id found;
	bool right;

	if (own == 0)
		return false;
	store_buf_add(&fresh, a->file, own);
	store_parity_append(&fresh, a->p->layout, a->p->parity);
	store_digest(fresh.data, fresh.size, found.bytes);
	right = fresh.size == bytes;
	if (right)
		right = name != NULL ? store_id_equal(&found, name) : !a->lost || only_sums_lost(a, &fresh);
	if (right)
		memcpy(a->file, fresh.data, bytes);
	store_buf_free(&fresh);
	return right;
}

/* Into `out`, which has the file's bytes. */
static enum store_mended mend_as(enum store_parity_layout layout, uint32_t parity, uint8_t *out, size_t bytes,
				 const struct store_id *name, uint64_t *matching)
{
	struct attempt *a;
	enum store_mended mended = STORE_MENDED_NOT;
	const uint64_t padded_bytes = padded_in(layout, parity, bytes);
	uint8_t *section = out + padded_bytes;

	if (padded_bytes == 0)
		return STORE_MENDED_NOT;
	a = (struct attempt *)store_alloc(sizeof(*a));
	a->p = store_parity_open(layout, parity);
	a->file = out;
	a->padded_bytes = padded_bytes;
	a->chunks = (uint8_t *)store_alloc((CHUNKS + parity) * chunk_bytes(layout, STORE_PARITY_STRIPE_BYTES));
	for (uint64_t at = 0; at < padded_bytes; at += STORE_PARITY_STRIPE_BYTES) {
		const uint64_t stripe = g4_min64(STORE_PARITY_STRIPE_BYTES, padded_bytes - at);

		mend_stripe(a, out + at, stripe, section);
		section += stripe_section(layout, stripe, parity);
	}
	if (is_mended(a, bytes, name))
		mended = STORE_MENDED;
	else if (a->mended)
		mended = STORE_MENDED_PARTLY;
	*matching = a->matching;
	store_parity_close(a->p);
	free(a->chunks);
	free(a);
	return mended;
}

enum store_mended store_parity_mend(uint8_t *file, size_t bytes, const struct store_id *name)
{
	enum store_mended best = STORE_MENDED_NOT;
	uint64_t best_matching = 0;
	uint8_t *tried;

	if (bytes == 0)
		return STORE_MENDED_NOT;
	tried = (uint8_t *)store_alloc(2 * bytes);
	memcpy(tried + bytes, file, bytes); /* as it was */
	/* the newest layout first: parity of what is apart looks like that of something packed where a short file leaves zeros */
	for (uint32_t i = 0; i < STORE_PARITY_LAYOUTS * G4_PARITY_MOST && best != STORE_MENDED; i++) {
		uint64_t matching = 0;

		memcpy(tried, tried + bytes, bytes);
		const enum store_mended mended =
			mend_as((enum store_parity_layout)(STORE_PARITY_APART - i / G4_PARITY_MOST),
				i % G4_PARITY_MOST + 1, tried, bytes, name, &matching);
		if (mended == STORE_MENDED || (mended == STORE_MENDED_PARTLY && matching > best_matching)) {
			memcpy(file, tried, bytes);
			best = mended;
			best_matching = matching;
		}
	}
	free(tried);
	return best;
}
