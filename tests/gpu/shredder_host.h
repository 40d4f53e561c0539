/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU's half of the Shredder test: what the chunks must be. */
#ifndef GPU_SHREDDER_HOST_H
#define GPU_SHREDDER_HOST_H

#include "chunk/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The bitmap of candidates by the portable kernel, in marks[shredder_mark_words(bytes)]. */
void reference_marks(const struct shredder_rule *rule, const uint8_t *data, uint64_t bytes, uint64_t *marks);

/*
 * The chunks of a stream of `bytes` bytes, with digests: portable kernel, CPU resolver, BLAKE3. Gives how many; *out is
 * the caller's to free(). Ends the program when memory runs out.
 */
uint64_t reference_chunks(const struct shredder_rule *rule, const uint8_t *data, uint64_t bytes,
			  struct shredder_end **out);

/* Bytes a second of the document's host-only version: portable rabin, a region for each of `threads` threads. */
double reference_threads(const uint8_t *data, uint64_t bytes, uint32_t threads);

#ifdef __cplusplus
}
#endif

#endif
