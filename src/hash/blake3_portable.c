/* SPDX-License-Identifier: Apache-2.0 */
/* BLAKE3 in plain C: the compression function, one block at a time. The reference, and what each lane of a GPU runs. */
#include "hash/blake3_compress.h"

/* A whole block in 16-byte loads where it lies so; a short one is padded with zeros. */
G4_FN static inline void load(uint32_t m[16], const uint8_t *block, uint32_t bytes)
{
	if (bytes == G4_BLAKE3_BLOCK_BYTES && ((uintptr_t)block & 15) == 0) {
		memcpy(m, __builtin_assume_aligned(block, 16), G4_BLAKE3_BLOCK_BYTES);
		return;
	}
	if (bytes == G4_BLAKE3_BLOCK_BYTES) {
		memcpy(m, block, G4_BLAKE3_BLOCK_BYTES);
		return;
	}
	for (uint32_t i = 0; i < 16; i++) {
		m[i] = 0;
		for (uint32_t k = 4 * i; k < 4 * i + 4 && k < bytes; k++)
			m[i] |= (uint32_t)block[k] << 8 * (k - 4 * i);
	}
}

G4_FN void g4_blake3_compress(uint32_t cv[8], const uint8_t *block, uint32_t bytes, uint64_t leaf, uint32_t flags)
{
	uint32_t m[16];

	load(m, block, bytes);
	g4_blake3_add_block(cv, m, bytes, leaf, flags);
}

G4_FN void g4_blake3_job_portable(const struct g4_blake3_job *job)
{
	uint32_t cv[8] = G4_BLAKE3_IV;
	uint32_t blocks = g4_blake3_blocks(job->bytes);

	for (uint32_t i = 0; i < blocks; i++) {
		uint32_t at = i * G4_BLAKE3_BLOCK_BYTES;

		g4_blake3_compress(cv, job->data + at, (uint32_t)g4_min64(job->bytes - at, G4_BLAKE3_BLOCK_BYTES),
				   job->leaf, g4_blake3_block_flags(job->flags, i, blocks));
	}
	memcpy(job->cv, cv, sizeof(cv));
}
