/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32C of a page by all lanes of a workgroup. A CRC is linear: the checksum of A and B in sequence is that of A times
 * x^(8 |B|) modulo the polynomial, plus that of B. So each lane takes a part and multiplies its checksum by the power of
 * x that stands for what follows; the sum is the page's. Numbers are reflected: bit 31 is the coefficient of x^0.
 */
#include "hash/crc32c.h"
#if G4_CUDA
#include "hash/cuda/crc32c_mma.h"
#endif

#define PAGE_BYTES 4096u
#define UNIT_BYTES 128u /* a part is one of these or several */
#define POLYNOMIAL UINT32_C(0x82f63b78)

/* x^(8 * 128 * i) modulo the polynomial; the last one is a page's. */
static G4_CONST uint32_t power[PAGE_BYTES / UNIT_BYTES + 1] = {
	0x80000000, 0xb8fdb1e7, 0x88e56f72, 0x67db2c4a, 0x74c360a4, 0xb469724f, 0x631bb273, 0x654f84e7, 0xe4172b16,
	0x4f47bf52, 0x71892b1b, 0x69c2af09, 0x835305c9, 0x0e36a726, 0x196b1eae, 0x15e8653c, 0x0d65762a, 0xe6aef08f,
	0xafc81338, 0xe31e7f5b, 0xb5a50ab7, 0x46bf959e, 0xf373c3ac, 0xe31b4008, 0x5f60970f, 0x9e7b1c10, 0xd46d3063,
	0xebd59d26, 0x3a5275ea, 0xd597ad7e, 0x02331c01, 0xa957c550, 0x35d73a62};

G4_FN static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (uint32_t bit = 32; bit-- > 0;) {
		product ^= a >> bit & 1 ? b : 0;
		b = b >> 1 ^ (b & 1 ? POLYNOMIAL : 0);
	}
	return product;
}

G4_FN uint32_t g4_crc32c_append_page(uint32_t first, uint32_t page)
{
	return multiply(first, power[PAGE_BYTES / UNIT_BYTES]) ^ page;
}

/* x^(8 * (4096 - G4_CRC32C_FIELD)) modulo the polynomial: what the word and all behind it are shifted by. */
#define FIELD_POWER UINT32_C(0xc512c929)

G4_FN uint32_t g4_crc32c_set_field(uint32_t crc, uint32_t value)
{
	return crc ^ multiply(value, FIELD_POWER);
}

/* The power of x by squaring: one multiplication or two for each bit of the number. */
G4_FN uint32_t g4_crc32c_append_pages(uint32_t first, uint32_t second, uint32_t pages)
{
	uint32_t square = power[PAGE_BYTES / UNIT_BYTES];

	for (; pages; pages >>= 1) {
		if (pages & 1)
			first = multiply(first, square);
		square = multiply(square, square);
	}
	return first ^ second;
}

#if G4_CUDA
#define ZERO_PAGE UINT32_C(0x98f94189) /* the checksum of a page of zeros: what the first and the last inversion make */

/* Of two pages: even lanes have the first one's checksum, odd ones the second's. */
G4_FN static inline uint32_t two_pages(const void *first, const void *second, uint32_t lane)
{
	uint32_t crc = multiply(g4_crc32c_rows(first, second, lane), g4_crc32c_matrix.behind[lane / 4]);

	for (int step = 4; step < G4_WARP_LANES; step *= 2)
		crc ^= __shfl_xor_sync(G4_WARP_ALL, crc, step);
	return crc ^ ZERO_PAGE;
}

/* The matrix units have room for two pages: the second one is the same. Three quarters of the time that tables take, which each lane looks up. */
G4_REGION_BODY void g4_crc32c_region(struct g4_wg *wg, void *args)
{
	struct g4_crc32c_job *job = (struct g4_crc32c_job *)args;
	const uint32_t lane = g4_wg_lane(wg);

	g4_converge(wg);
	const uint32_t crc = two_pages(job->data, job->data, lane);
	job->part[lane] = lane == 0 ? crc : 0;
	g4_sync(wg);
}
#else
G4_REGION_BODY void g4_crc32c_region(struct g4_wg *wg, void *args)
{
	struct g4_crc32c_job *job = (struct g4_crc32c_job *)args;
	const uint32_t lane = g4_wg_lane(wg), width = g4_wg_width(wg), bytes = PAGE_BYTES / width;
	const uint32_t behind = (width - 1 - lane) * (bytes / UNIT_BYTES);

	g4_converge(wg);
	job->part[lane] = multiply(g4_crc32c(0, job->data + lane * bytes, bytes), power[behind]);
	g4_sync(wg);
}
#endif

G4_FN bool g4_crc32c_is_wide(const struct g4_wg *wg)
{
	const uint32_t width = g4_wg_width(wg);

	return width > 1 && width <= PAGE_BYTES / UNIT_BYTES && (width & (width - 1)) == 0;
}

G4_FN uint32_t g4_crc32c_wide(struct g4_wg *wg, const void *page)
{
	const uint32_t width = g4_wg_width(wg);
	uint32_t crc = 0;

	if (!g4_crc32c_is_wide(wg))
		return g4_crc32c(0, page, PAGE_BYTES);
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_crc32c_job *job = (struct g4_crc32c_job *)g4_scratch_take(wg, sizeof(*job));
	job->data = (const uint8_t *)page;
	g4_region(wg, G4_REGION_CRC32C, g4_crc32c_region, job);
	for (uint32_t lane = 0; lane < width; lane++)
		crc ^= job->part[lane];
	g4_scratch_release(wg, mark);
	return crc;
}

#if G4_CUDA
G4_FN void g4_crc32c_group(struct g4_wg *wg, uint32_t n, const void *const *data, uint32_t pages, uint64_t last,
			   uint64_t (*out)[4])
{
	const uint32_t lane = g4_wg_lane(wg);

	G4_ROLLED
	for (uint32_t i = 0; i < n; i += 2) {
		const uint8_t *first = (const uint8_t *)data[i];
		const uint8_t *second =
			(const uint8_t *)data[g4_min64(i + 1, n - 1)]; /* the same, if there is no other */
		uint32_t crc = 0;

		G4_ROLLED
		for (uint32_t page = 0; page < pages; page++)
			crc = g4_crc32c_append_page(crc, two_pages(first + page * PAGE_BYTES,
								   second + page * PAGE_BYTES, lane));
		if (lane < 2 && i + lane < n) {
			uint64_t *to = out[i + lane];

			to[0] = crc;
			to[1] = to[2] = 0;
			to[3] = last;
		}
	}
	g4_sync(wg);
}
#else
/* Starts loading a page: a processor's own prefetching ends where a page ends, and the three streams begin everywhere in it. */
G4_FN static void fetch_page(const void *page)
{
	for (uint32_t at = 0; at < PAGE_BYTES; at += 64)
		g4_prefetch((const uint8_t *)page + at);
}

G4_FN void g4_crc32c_group(struct g4_wg *wg, uint32_t n, const void *const *data, uint32_t pages, uint64_t last,
			   uint64_t (*out)[4])
{
	const uint32_t width = g4_wg_width(wg);

	for (uint32_t i = g4_wg_lane(wg); i < n; i += width) {
		if (i + width < n)
			fetch_page(data[i + width]);
		out[i][0] = g4_crc32c(0, data[i], pages * G4_PAGE_BYTES);
		out[i][1] = out[i][2] = 0;
		out[i][3] = last;
	}
	g4_sync(wg);
}
#endif
