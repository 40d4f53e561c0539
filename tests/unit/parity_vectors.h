/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parities of some stripes are: CRC-32C of each, by a program of its own that multiplies bit by bit. Used on CPUs and GPUs.
 */
#ifndef UNIT_PARITY_VECTORS_H
#define UNIT_PARITY_VECTORS_H

#include <stdint.h>

/* Byte i of data chunk j. */
static inline uint8_t parity_vector_byte(uint32_t j, uint32_t i)
{
	uint32_t x = j * UINT32_C(0x9e3779b9) + i * UINT32_C(0x85ebca6b);

	x = (x ^ x >> 15) * UINT32_C(0x2c1b3c6d);
	return (uint8_t)((x ^ x >> 12) >> 8);
}

static const struct {
	uint32_t k, bytes, crc[4];
} parity_vectors[] = {
	{1, 1, {0x527d5351, 0x527d5351, 0x527d5351, 0x527d5351}},
	{1, 4096, {0xc98bb6b9, 0xc98bb6b9, 0xfbfc4987, 0x91635bf3}},
	{2, 16, {0x929176f3, 0x845deef7, 0x8c271d6d, 0x6801a784}},
	{3, 15, {0xe1188ef8, 0x89fae7da, 0x6b67e0e4, 0xa86eb3db}},
	{3, 4096, {0x4da84380, 0x348c9144, 0xfb3ee1c6, 0x58a91047}},
	{4, 17, {0xbcd9eee5, 0x133a22ec, 0x9308e71a, 0x17a2a088}},
	{4, 64, {0xc98c8d0b, 0x54b1172b, 0xcf3d76a5, 0x87a61c09}},
	{4, 4096, {0x114039a2, 0x5c909b23, 0x8be33352, 0xb7938495}},
	{5, 1000, {0x829a32cd, 0x08fc0e5a, 0xe61c863e, 0x0528fb96}},
	{8, 4096, {0x12e96db2, 0x81e2a69d, 0xa3435eaf, 0x85daea6a}},
	{10, 255, {0xe1920931, 0x3bc9f632, 0x09e1c0cf, 0x489fb49a}},
	{10, 4096, {0xbf368203, 0x013a7939, 0x34b15579, 0x0064f498}},
	{12, 8191, {0x0ae8c33e, 0x7e960471, 0xa2af233e, 0x67327a1d}},
	{16, 513, {0x928a4688, 0xc206fbba, 0x65415044, 0xfe220cec}},
	{31, 100, {0x213b988d, 0x42492753, 0xe4af23a4, 0x216e8b8a}},
	{60, 63, {0x273532e9, 0x0765f140, 0x8085d6a3, 0xaf8c7dca}},
	{60, 1024, {0x7c7b5739, 0x00a22e10, 0x3e954966, 0x86470648}},
	{60, 4096, {0x0f8a664f, 0x3612aa21, 0xd1cb27f0, 0x408d4fce}},
};

#endif
