/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What came of uploads that were cut off, in memory, so that a client that comes back sends the rest only. It is bound to the client's key and the
 * address; the whole is judged when it is there, as one that came at once. When there are too many the oldest go: then the client sends all of
 * it. A client that was started again makes other packs, so nothing is worth a place on the disk.
 *
 * Threads may call everything at a time.
 */
#ifndef SHREDDER_SITE_PARTS_H
#define SHREDDER_SITE_PARTS_H

#include "store/bytes.h"

struct site_parts;

struct site_parts *site_parts_new(void);
void site_parts_free(struct site_parts *parts);
/* Keeps `body`, of `wanted` bytes in the end; empties it. */
void site_part_keep(struct site_parts *parts, const char *key, const char *url, uint64_t wanted,
		    struct store_buf *body);
/* Bytes that are there; 0: none. */
size_t site_part_bytes(struct site_parts *parts, const char *key, const char *url);
/* Moves a part of exactly `from` of `wanted` bytes to `body`, for whoever comes first. False: there is none. */
bool site_part_take(struct site_parts *parts, const char *key, const char *url, uint64_t from, uint64_t wanted,
		    struct store_buf *body);

#endif
