/* SPDX-License-Identifier: Apache-2.0 */
/* The code's coefficients, and what is asked of parity as linear combinations. */
#include "parity/combine.h"
#include "parity/field.h"

/* Byte r of code[j] is the coefficient of data chunk j in parity r. */
static G4_CONST uint32_t code[G4_PARITY_DISKS] = {
	0xa6f50101, 0x9ca60201, 0x739c0401, 0xec730801, 0x5eec1001, 0x555e2001, 0xa1554001, 0xa8a18001,
	0xfaa81d01, 0x75fa3a01, 0x84757401, 0xe584e801, 0xc1e5cd01, 0x8bc18701, 0x668b1301, 0xdd662601,
	0x27dd4c01, 0x62279801, 0xf3622d01, 0xe8f35a01, 0xb5e8b401, 0xd3b57501, 0x03d3ea01, 0x8f03c901,
	0xbb8f8f01, 0xabbb0301, 0xdfab0601, 0x88df0c01, 0x56881801, 0x58563001, 0xad586001, 0x2dadc001,
	0x922d9d01, 0x08922701, 0x61084e01, 0x1f619c01, 0xbd1f2501, 0xa5bd4a01, 0xb2a59401, 0x42b23501,
	0xea426a01, 0xdbead401, 0x6bdbb501, 0x136b7701, 0xc613ee01, 0x38c6c101, 0x05389f01, 0x68052301,
	0x46684601, 0x99468c01, 0x3f990501, 0xd13f0a01, 0x22d11401, 0x83222801, 0x96835001, 0x7a96a001,
	0x537a5d01, 0xf753ba01, 0xc4f76901, 0x2ec4d201, 0x902eb901, 0x1d906f01, 0x361dde01, 0xb736a101,
};

G4_FN uint8_t g4_parity_coefficient(uint32_t parity, uint32_t data)
{
	return (uint8_t)(code[data] >> 8 * parity);
}

/* All data chunks against the first m parities. */
G4_FN static struct g4_parity_job whole_stripe(enum g4_parity_way way, uint32_t k, uint32_t m, const void *const *data,
					       void *const *parity)
{
	const struct g4_parity_job job = {
		.way = way,
		.shape = G4_PARITY_CODE,
		.rows = m,
		.columns = k,
		.term = code,
		.in = data,
		.out = parity,
	};

	return job;
}

G4_FN void g4_parity_encode(struct g4_wg *wg, uint32_t k, uint32_t m, const void *const *data, void *const *parity,
			    uint64_t bytes)
{
	const struct g4_parity_job job = whole_stripe(G4_PARITY_SET, k, m, data, parity);

	g4_parity_combine(wg, &job, bytes);
}

G4_FN uint32_t g4_parity_verify(struct g4_wg *wg, uint32_t k, uint32_t m, const void *const *data, void *const *parity,
				uint64_t bytes)
{
	const struct g4_parity_job job = whole_stripe(G4_PARITY_COMPARE, k, m, data, parity);

	return g4_parity_combine(wg, &job, bytes);
}

G4_FN void g4_parity_update(struct g4_wg *wg, uint32_t n, const uint32_t *chunk, const void *const *data, uint32_t m,
			    void *const *parity, uint64_t bytes, struct g4_parity_scratch *scratch)
{
	const struct g4_parity_job job = {
		.way = G4_PARITY_ADD,
		.shape = G4_PARITY_ONES,
		.rows = m,
		.columns = n,
		.term = scratch->term,
		.in = data,
		.out = parity,
	};

	for (uint32_t i = g4_wg_lane(wg); i < n; i += g4_wg_width(wg))
		scratch->term[i] = code[chunk[i]];
	g4_sync(wg);
	g4_parity_combine(wg, &job, bytes);
}

/* ---- reconstruction ---- */

/* What is lost, and what takes its place. Row i of the solution: lost data chunk i, of the parities less the other data's part of them. */
struct loss {
	uint32_t data;			 /* how many data chunks are lost */
	uint32_t rows;			 /* how many chunks are to be made */
	uint8_t lost[G4_PARITY_MOST];	 /* the data chunks */
	uint8_t parity[G4_PARITY_MOST];	 /* those that take their place */
	uint8_t row[G4_PARITY_MOST];	 /* the chunks to be made */
	uint32_t weight[G4_PARITY_MOST]; /* byte r of weight[u]: those parities in row r */
	uint8_t solution[G4_PARITY_MOST][G4_PARITY_MOST];
};

G4_FN static bool find_loss(uint32_t k, uint32_t m, uint64_t lost, void *const *chunk, struct loss *loss)
{
	uint32_t found = 0;

	if (g4_count_bits(lost) > m)
		return false;
	loss->data = loss->rows = 0;
	for (uint64_t left = lost; left; left &= left - 1) {
		const uint32_t i = g4_lowest_bit(left);

		if (i < k)
			loss->lost[loss->data++] = (uint8_t)i;
		if (chunk[i])
			loss->row[loss->rows++] = (uint8_t)i;
	}
	for (uint32_t p = 0; p < m && found < loss->data; p++) {
		if (!(lost >> (k + p) & 1) && chunk[k + p])
			loss->parity[found++] = (uint8_t)p;
	}
	return found == loss->data;
}

/* By Gauss and Jordan: the inverse of the lost chunks' coefficients in the parities that take their place. The code has one for all. */
G4_FN static void solve(struct loss *loss)
{
	const uint32_t n = loss->data;
	uint8_t a[G4_PARITY_MOST][2 * G4_PARITY_MOST];

	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t j = 0; j < n; j++) {
			a[i][j] = g4_parity_coefficient(loss->parity[i], loss->lost[j]);
			a[i][n + j] = i == j;
		}
	}
	for (uint32_t i = 0; i < n; i++) {
		/* every square part of the code's matrix has an inverse, the first i + 1 rows and columns, too: no pivot is 0 */
		const uint8_t inverse = g4_gf_inverse(a[i][i]);

		for (uint32_t j = 0; j < 2 * n; j++)
			a[i][j] = g4_gf_multiply(a[i][j], inverse);
		for (uint32_t other = 0; other < n; other++) {
			const uint8_t factor = a[other][i];

			for (uint32_t j = 0; other != i && j < 2 * n; j++)
				a[other][j] ^= g4_gf_multiply(a[i][j], factor);
		}
	}
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t j = 0; j < n; j++)
			loss->solution[i][j] = a[i][n + j];
	}
}

/* A lost data chunk is its row of the solution; a lost parity has the lost data's as its coefficients say. */
G4_FN static void weigh(uint32_t k, struct loss *loss)
{
	for (uint32_t u = 0; u < loss->data; u++)
		loss->weight[u] = 0;
	for (uint32_t r = 0; r < loss->rows; r++) {
		const uint32_t i = loss->row[r];

		for (uint32_t l = 0; l < loss->data; l++) {
			const uint8_t has = i < k ? loss->lost[l] == i : g4_parity_coefficient(i - k, loss->lost[l]);

			for (uint32_t u = 0; u < loss->data; u++)
				loss->weight[u] ^= (uint32_t)g4_gf_multiply(has, loss->solution[l][u]) << 8 * r;
		}
	}
}

/* The coefficients of data chunk j, which is not lost. */
G4_FN static uint32_t data_term(const struct loss *loss, uint32_t k, uint32_t j)
{
	uint32_t term = 0;

	for (uint32_t r = 0; r < loss->rows; r++) {
		if (loss->row[r] >= k)
			term |= (uint32_t)g4_parity_coefficient(loss->row[r] - k, j) << 8 * r;
	}
	for (uint32_t u = 0; u < loss->data; u++)
		term ^= g4_gf_multiply4(loss->weight[u], g4_parity_coefficient(loss->parity[u], j));
	return term;
}

G4_FN bool g4_parity_reconstruct(struct g4_wg *wg, uint32_t k, uint32_t m, uint64_t lost, void *const *chunk,
				 uint64_t bytes, struct g4_parity_scratch *scratch)
{
	bool ones = true;
	struct loss loss;

	if (!find_loss(k, m, lost, chunk, &loss))
		return false;
	if (loss.rows == 0)
		return true;
	solve(&loss);
	weigh(k, &loss);
	for (uint32_t j = g4_wg_lane(wg); j < k; j += g4_wg_width(wg)) {
		scratch->in[j] = lost >> j & 1 ? NULL : chunk[j];
		scratch->term[j] = scratch->in[j] ? data_term(&loss, k, j) : 0;
		ones = ones && (!scratch->in[j] || (scratch->term[j] & 0xff) == 1);
	}
	if (g4_wg_lane(wg) == 0) {
		for (uint32_t u = 0; u < loss.data; u++) {
			scratch->in[k + u] = chunk[k + loss.parity[u]];
			scratch->term[k + u] = loss.weight[u];
			ones = ones && (loss.weight[u] & 0xff) == 1;
		}
		for (uint32_t r = 0; r < loss.rows; r++)
			scratch->out[r] = chunk[loss.row[r]];
	}
	ones = g4_all(wg, ones); /* and all of the scratch is there */

	const struct g4_parity_job job = {
		.way = G4_PARITY_SET,
		.shape = ones ? G4_PARITY_ONES : G4_PARITY_ANY,
		.rows = loss.rows,
		.columns = k + loss.data,
		.term = scratch->term,
		.in = scratch->in,
		.out = scratch->out,
	};

	g4_parity_combine(wg, &job, bytes);
	return true;
}
