/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters: defaults and checks; the prepared rule; arithmetic of polynomials over GF(2). */
#include "chunk/rule.h"

#define DEFAULT_MASK_BITS 13
#define DEFAULT_NORMALIZATION 2
#define DEFAULT_RECORD_BYTES G4_MIB
#define RECORD_BYTES_MAX G4_TIB
#define GEAR_BITS 32
#define GEAR_MASK_BITS_MAX 28
#define DEGREE_MIN 16
#define DEGREE_MAX 63

const uint32_t shredder_gear_table[256] = {
	0x0433ebf2, 0x092fb477, 0x2b653bde, 0x0af92870, 0xd4acdb9d, 0x1c58d24e, 0x171125f3, 0xd004637a, 0xf0ae45d1,
	0x8040d9a7, 0x9ab70e48, 0xb5a1798f, 0x9dcf0f8c, 0x4f677744, 0x6e3a698b, 0xcaa15a6e, 0x3ae3c0aa, 0x7024182f,
	0x7ff78dcc, 0x89527707, 0xce6ce8b2, 0x1bf8e9a2, 0x0374eab8, 0x60917ad3, 0x6ab4e6e0, 0x5e6eac83, 0x72079b01,
	0xc7853953, 0xf8a05e45, 0x477b24b4, 0x24f1b575, 0x1252f981, 0x1f1edf90, 0x52940242, 0x7ae8ec02, 0x8f937472,
	0xebfb4502, 0xf5f3f45e, 0x74b3e842, 0xf48f9e41, 0x1bb3b455, 0x55d868a2, 0x77501c00, 0xc865d918, 0x61d2ce81,
	0xf4820f23, 0x02983dd8, 0x1c0090fd, 0xfc5c375d, 0x9b4e18d1, 0xa6228501, 0xe6b22643, 0x6636f207, 0x9d15fe10,
	0xd35da985, 0x1281598e, 0x8a74b140, 0xb52ebb69, 0xe73642e0, 0x76e62298, 0xf98502f7, 0xa4bdcd5d, 0xe441cd5a,
	0xfe70ed77, 0xcf7d2a66, 0xe5f058f4, 0x0780f5b2, 0xd6c1b445, 0x115ade52, 0xe8543b84, 0xc1ce604b, 0xb7e46fec,
	0x1879b349, 0xb0a05bf0, 0x4a2476ae, 0x9d4a44d0, 0x3ccb1fd3, 0x162478f5, 0x2d3baca3, 0x7fe789b6, 0x5735b5a2,
	0x7f0d7669, 0x93d36cb6, 0x571aa979, 0x14f87640, 0x599ad873, 0x7892cfe8, 0xe502095e, 0xdad924fa, 0x9a5e1328,
	0xcb123873, 0x0e066ce2, 0x6f012228, 0x701afbc0, 0x53c2661c, 0xf6ff1dae, 0x8d596e27, 0x428db750, 0xad143e6c,
	0x7d369e7c, 0x7dd6482b, 0x50390963, 0xe2f5aff0, 0xdcfc9f9b, 0xc5fb310d, 0x901441bc, 0xe3d0cfb2, 0x9cdba65c,
	0xb8c1e17f, 0x4350d2c2, 0x496bfd56, 0x29676858, 0xcc423495, 0xa749083c, 0xe1e7e8ad, 0xa676b568, 0x930ec958,
	0xca53f1e5, 0xfec2b573, 0xc0c8430e, 0xbe7fada9, 0xc64a1011, 0xdcc48c6e, 0x281ea33f, 0x8c06dc22, 0xf8f1f351,
	0x8ef0dca1, 0x5e500239, 0xaeb16376, 0x3222618d, 0xd6c9eb89, 0xd29274fc, 0xfbecb2a4, 0xb461151b, 0xa9c3f1e3,
	0xe8017cbc, 0x05283d6a, 0x5a2a979c, 0x95b45c32, 0x92923469, 0xce2fba81, 0x1c34423a, 0xa895478d, 0x4f8498ea,
	0xd74f29a9, 0xd2dd2d13, 0xc86b7482, 0x2ea52e3f, 0x49155535, 0x947b8ec0, 0x6634bbd6, 0x67845494, 0x16d91c98,
	0x864471b6, 0x0e5877b5, 0x4d5e9b93, 0x18b558aa, 0x2d594331, 0x5c4ad6f6, 0x4b4b22a8, 0xdcbabee1, 0xc8a05676,
	0x8260bc5b, 0x4c05a119, 0x3484afa1, 0xcc836903, 0xed8d7d13, 0xc62d810a, 0xa93afeee, 0xcc1f184b, 0xb18f1d94,
	0x17d2dd51, 0x3c37f69f, 0x7428a2b0, 0xf32f92c3, 0x99c3bfe4, 0x51c95b8c, 0xf229e2f3, 0x5a907b8b, 0x552c81ff,
	0xd8b17151, 0x74065ba9, 0x45f0d9bc, 0x04315d4c, 0x41990f2d, 0x82bae259, 0x33ffee7f, 0x079e3746, 0x96302a42,
	0x021e9167, 0x90c5f43d, 0xca93d778, 0xc5d62d83, 0xcddbdc41, 0xd5445264, 0x70f26b49, 0x4dc4d7b3, 0x66fda00d,
	0x1ed7080c, 0x44375643, 0x36b46ebc, 0x4591951a, 0x5804c8c6, 0xebbeff0f, 0xf67dd90e, 0x8610da63, 0x336cd973,
	0xc48bb032, 0x300fc85f, 0x66499152, 0x7a4a0a9c, 0x8cb772e1, 0xf3b5d52e, 0x0dfbd288, 0x3b53baf1, 0x9a4e661e,
	0x1327329f, 0x16009870, 0x11624ef2, 0xfd513556, 0x9b80ce75, 0xd4116dec, 0x6612f717, 0x4c7ddb0a, 0x5eeff71b,
	0x929e0f40, 0xca7af37b, 0xb2950a08, 0xa72ad476, 0x5092a798, 0xdd62978e, 0x2868d40e, 0x59b54d8a, 0xc022f160,
	0xbca687bc, 0xdb058827, 0x3046e78e, 0x68539776, 0x20cb0953, 0xd2d302bc, 0xb67ca732, 0x374ddb04, 0x50a8ebbb,
	0xd73e39c0, 0x198312e6, 0xf0f2e2fa, 0xf89782b3, 0x96e459f1, 0x66ba1bce, 0x7e7bade8, 0x4b403894, 0x1c95401e,
	0x20cfc733, 0xb893e584, 0x1aadf2d8, 0x3b364e2e,
};

const char *shredder_strerror(int code)
{
	switch (code) {
	case 0:
		return "no error";
#define ERROR_CASE(name, number, sentence)                                                                             \
	case SHREDDER_E_##name:                                                                                        \
		return sentence;
		SHREDDER_ERRORS(ERROR_CASE)
#undef ERROR_CASE
	default:
		return "unknown error";
	}
}

/* ------------------------------------------------------------------------------------------------- polynomials */

uint32_t shredder_gf2_degree(uint64_t p)
{
	return 63 - (uint32_t)__builtin_clzll(p);
}

uint64_t shredder_gf2_multiply(uint64_t a, uint64_t b, uint64_t p)
{
	const uint64_t top = UINT64_C(1) << shredder_gf2_degree(p);
	uint64_t product = 0;

	for (; b != 0; b >>= 1) {
		if (b & 1)
			product ^= a;
		a <<= 1;
		if (a & top)
			a ^= p;
	}
	return product;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b != 0) {
		while (a != 0 && shredder_gf2_degree(a) >= shredder_gf2_degree(b))
			a ^= b << (shredder_gf2_degree(a) - shredder_gf2_degree(b));
		const uint64_t rest = a;
		a = b;
		b = rest;
	}
	return a;
}

/* x^(2^n) mod p */
static uint64_t frobenius(uint32_t n, uint64_t p)
{
	uint64_t power = 2;

	while (n-- > 0)
		power = shredder_gf2_multiply(power, power, p);
	return power;
}

/*
 * Rabin's test: p of degree k is irreducible exactly when x^(2^k) = x mod p and, for each prime q that divides k,
 * x^(2^(k/q)) - x has no factor in common with p (M. Rabin, "Probabilistic algorithms in finite fields", 1980).
 */
int shredder_polynomial_is_irreducible(uint64_t polynomial)
{
	if (polynomial < 4) /* x and x + 1 */
		return polynomial >= 2;

	const uint32_t degree = shredder_gf2_degree(polynomial);
	uint32_t rest = degree;
	if (frobenius(degree, polynomial) != 2)
		return 0;
	for (uint32_t q = 2; rest > 1; q++) {
		if (rest % q != 0)
			continue;
		while (rest % q == 0)
			rest /= q;
		if (gcd(polynomial, frobenius(degree / q, polynomial) ^ 2) != 1)
			return 0;
	}
	return 1;
}

/* --------------------------------------------------------------------------------------------------- parameters */

static int complete_rabin(struct shredder_params *p)
{
	if (p->polynomial == 0)
		p->polynomial = SHREDDER_POLYNOMIAL;
	if (p->polynomial < UINT64_C(1) << DEGREE_MIN)
		return SHREDDER_E_DEGREE;
	if (!shredder_polynomial_is_irreducible(p->polynomial))
		return SHREDDER_E_REDUCIBLE;
	if (p->mask_bits == 0)
		p->mask_bits = DEFAULT_MASK_BITS;
	if (p->mask_bits > shredder_gf2_degree(p->polynomial))
		return SHREDDER_E_MASK;

	const uint64_t mask = (UINT64_C(1) << p->mask_bits) - 1;
	if (p->marker == 0)
		p->marker = SHREDDER_MARKER & mask;
	if (p->marker != SHREDDER_ZERO_MARKER && (p->marker & ~mask) != 0)
		return SHREDDER_E_MARKER;
	p->normalization = SHREDDER_NO_NORMALIZATION;
	return 0;
}

static int complete_gear(struct shredder_params *p)
{
	if (p->mask_bits == 0)
		p->mask_bits = DEFAULT_MASK_BITS;
	if (p->mask_bits > GEAR_MASK_BITS_MAX)
		return SHREDDER_E_MASK;
	if (p->normalization == 0)
		p->normalization = p->mask_bits > DEFAULT_NORMALIZATION ? DEFAULT_NORMALIZATION : p->mask_bits - 1;
	if (p->normalization == 0)
		p->normalization = SHREDDER_NO_NORMALIZATION;
	if (p->normalization != SHREDDER_NO_NORMALIZATION &&
	    (p->normalization >= p->mask_bits || p->normalization > GEAR_BITS - p->mask_bits))
		return SHREDDER_E_MASK;
	p->polynomial = 0;
	p->marker = 0;
	return 0;
}

/* Expected distance of candidates, where it fits. */
static uint64_t expected_bytes(const struct shredder_params *p)
{
	return UINT64_C(1) << g4_min64(p->mask_bits, 60);
}

static int complete_sizes(struct shredder_params *p)
{
	const uint64_t expected = expected_bytes(p);

	if (p->min_bytes == 0)
		p->min_bytes = g4_min64(g4_max64(expected / 4, 1), p->max_bytes == 0 ? SHREDDER_NONE : p->max_bytes);
	const uint64_t min = p->min_bytes == SHREDDER_NONE ? 1 : p->min_bytes;
	if (p->max_bytes == 0)
		p->max_bytes = g4_max64(expected * 8, min);
	if (min > p->max_bytes)
		return SHREDDER_E_SIZES;
	if (p->algorithm == SHREDDER_RABIN) {
		p->normal_bytes = 0;
		return 0;
	}
	if (p->normal_bytes == 0)
		p->normal_bytes = g4_min64(g4_max64(expected, min), p->max_bytes);
	return p->normal_bytes < min || p->normal_bytes > p->max_bytes ? SHREDDER_E_SIZES : 0;
}

static int complete_records(struct shredder_params *p)
{
	if (p->delimiter_bytes == 0 && p->record == NULL) {
		p->record_bytes = 0;
		return 0;
	}
	if (p->delimiter_bytes > SHREDDER_DELIMITER_MAX || (p->delimiter_bytes != 0 && p->record != NULL))
		return SHREDDER_E_RECORD;
	if (p->record_bytes == 0)
		p->record_bytes = DEFAULT_RECORD_BYTES;
	return p->record_bytes > RECORD_BYTES_MAX ? SHREDDER_E_RECORD : 0;
}

int shredder_params_complete(struct shredder_params *params)
{
	struct shredder_params p;
	int rc;

	if (params == NULL)
		return SHREDDER_E_INVAL;
	if (params->size != sizeof(*params))
		return SHREDDER_E_VERSION;
	p = *params;
	if (p.reserved != 0)
		return SHREDDER_E_VERSION;
	if (p.algorithm == 0)
		p.algorithm = SHREDDER_RABIN;
	if (p.algorithm == SHREDDER_RABIN)
		rc = complete_rabin(&p);
	else
		rc = p.algorithm == SHREDDER_GEAR ? complete_gear(&p) : SHREDDER_E_ALGORITHM;
	if (rc == 0)
		rc = complete_sizes(&p);
	if (rc == 0)
		rc = complete_records(&p);
	if (rc == 0)
		*params = p;
	return rc;
}

/* --------------------------------------------------------------------------------------------------------- rule */

/* x^n mod p */
static uint64_t power_of_x(uint32_t n, uint64_t p)
{
	uint64_t power = 1;

	while (n-- > 0)
		power = shredder_gf2_multiply(power, 2, p);
	return power;
}

/*
 * With Q = P x^s: u x^s mod Q = (u mod P) x^s. A byte t at the top leaves as t x^(8 planes) = (t x^degree) x^s, one that
 * leaves the window as t x^384 = (t x^(384 - s)) x^s. A remainder by Q has s bits too many for one by P, at the top.
 */
static void init_planes(struct shredder_rule *rule)
{
	const uint64_t polynomial = rule->params.polynomial;
	const uint32_t s = 8 * rule->planes - rule->degree;
	const uint64_t leave = power_of_x(8 * SHREDDER_WINDOW_BYTES - s, polynomial);

	for (uint32_t j = 0; j < 8; j++) {
		rule->plane_push[j] = rule->push[1U << j] << s;
		rule->plane_pop[j] = shredder_gf2_multiply(leave, UINT64_C(1) << j, polynomial) << s;
		if (j + s >= 8)
			rule->plane_reduce[j] =
				rule->push[1U << (j + s - 8)] ^ (UINT64_C(1) << (rule->degree + j + s - 8));
	}
}

static void init_rabin(struct shredder_rule *rule)
{
	const struct shredder_params *p = &rule->params;
	const uint64_t polynomial = p->polynomial;

	rule->degree = shredder_gf2_degree(polynomial);
	rule->planes = (rule->degree + 7) / 8;
	rule->mask = (UINT64_C(1) << p->mask_bits) - 1;
	rule->marker = p->marker == SHREDDER_ZERO_MARKER ? 0 : p->marker;

	/* x^degree is the polynomial without its leading term */
	const uint64_t x_degree = polynomial ^ (UINT64_C(1) << rule->degree);
	const uint64_t x_window = power_of_x(8 * SHREDDER_WINDOW_BYTES, polynomial);
	for (uint64_t t = 0; t < 256; t++) {
		rule->push[t] = shredder_gf2_multiply(x_degree, t, polynomial);
		rule->pop[t] = shredder_gf2_multiply(x_window, t, polynomial);
	}
	init_planes(rule);
}

/* The n high-order bits, 1 to 32. */
static uint32_t high_bits(uint32_t n)
{
	return (uint32_t)(UINT64_MAX << (GEAR_BITS - n));
}

void shredder_rule_init(struct shredder_rule *rule, const struct shredder_params *params)
{
	memset(rule, 0, sizeof(*rule));
	rule->params = *params;
	if (params->min_bytes == SHREDDER_NONE)
		rule->params.min_bytes = 1;
	if (params->algorithm == SHREDDER_RABIN) {
		init_rabin(rule);
		return;
	}

	const uint32_t v = params->normalization == SHREDDER_NO_NORMALIZATION ? 0 : params->normalization;
	rule->loose = high_bits(params->mask_bits - v);
	rule->strict = high_bits(params->mask_bits + v);
}

uint64_t shredder_fingerprint(const struct shredder_rule *rule, const uint8_t *window)
{
	if (rule->params.algorithm == SHREDDER_GEAR) {
		uint32_t hash = 0;

		for (uint32_t i = SHREDDER_WINDOW_BYTES - SHREDDER_GEAR_WINDOW_BYTES; i < SHREDDER_WINDOW_BYTES; i++)
			hash = 2 * hash + shredder_gear_table[window[i]];
		return hash;
	}

	uint64_t r = 0;
	for (uint32_t i = 0; i < SHREDDER_WINDOW_BYTES; i++)
		r = shredder_rabin_push(rule, r, window[i]);
	return r;
}
