/* SPDX-License-Identifier: Apache-2.0 */
/* A set of digests that grows. */
#ifndef SHREDDER_CLI_DIGESTS_H
#define SHREDDER_CLI_DIGESTS_H

#include <stdbool.h>
#include <stdint.h>

/* Half a digest names a chunk well enough to count: among 2^40 chunks two meet with a chance of 2^-49. */
struct digest_set {
	struct digest_key {
		uint64_t half[2];
		uint32_t group; /* of the input that brought it first, from 1; 0: free */
	} * keys;
	uint64_t room, used;
};

/* Zero is an empty set. Gives the group that brought the digest first, `group` itself if nobody did; 0: out of memory. */
uint32_t digest_set_add(struct digest_set *set, const uint8_t *digest, uint32_t group);
void digest_set_free(struct digest_set *set);

#endif
