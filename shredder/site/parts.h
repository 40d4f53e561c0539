/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes of uploads, in memory, so that a client whose connection is cut off sends the rest only when it comes back. It is bound to the client's
 * key and the address; the whole is judged when it is there, as one that came at once. When there are too many the oldest of those whose
 * connection has ended go: then the client sends all of it. A client that was started again makes other packs, so nothing is worth a place
 * on the disk.
 *
 * A site may not see that a connection is cut: it hangs until SILENCE_S are over. So a client that asks what is there of an upload has
 * given up the connection it came by, and that one adds nothing from then on.
 *
 * Threads may call everything at a time. A part has one request, which adds to it and ends it.
 */
#ifndef SHREDDER_SITE_PARTS_H
#define SHREDDER_SITE_PARTS_H

#include "store/bytes.h"

struct site_parts;
struct site_part;

struct site_parts *site_parts_new(void);
void site_parts_free(struct site_parts *parts);
/* One begins, of `wanted` bytes in the end; 0: that is not known. */
struct site_part *site_part_begin(struct site_parts *parts, const char *key, const char *url, uint64_t wanted);
/* One goes on, of which exactly `from` of `wanted` bytes are there, and whose connection has ended or was given up. NULL: there is none. */
struct site_part *site_part_resume(struct site_parts *parts, const char *key, const char *url, uint64_t from,
				   uint64_t wanted);
/* False: its client has given this connection up. */
bool site_part_add(struct site_parts *parts, struct site_part *part, const void *data, size_t bytes);
/* All of it is here: moves it to `body`, and ends the part. */
void site_part_take(struct site_parts *parts, struct site_part *part, struct store_buf *body);
/* Its connection has ended before. */
void site_part_leave(struct site_parts *parts, struct site_part *part);
/* Bytes that are there for a client that asks; 0: none that are worth it. */
size_t site_part_bytes(struct site_parts *parts, const char *key, const char *url);

#endif
