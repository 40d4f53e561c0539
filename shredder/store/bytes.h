/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers that grow, and a cursor that parses what a stranger may have written. */
#ifndef SHREDDER_STORE_BYTES_H
#define SHREDDER_STORE_BYTES_H

#include "base/base.h"

/* Memory, or the process ends after a sentence. */
void *store_alloc(size_t bytes);
/* Not zeros. */
void *store_alloc_aligned(size_t alignment, size_t bytes);
void *store_realloc(void *memory, size_t bytes);
char *store_strdup(const char *text);

/*
 * "A/B/NAME" of a name in a folder that knows the one above it: above() gives a folder's name and moves on to the one above, NULL behind the last
 * one. The caller frees it.
 */
char *store_path_up(const void *folder, const char *name, const char *(*above)(const void **folder));

/* Zero is an empty one. */
struct store_buf {
	uint8_t *data;
	size_t size, room;
};
void store_buf_free(struct store_buf *buf);
/* Room for `bytes` more; where they go. */
uint8_t *store_buf_reserve(struct store_buf *buf, size_t bytes);
void store_buf_add(struct store_buf *buf, const void *data, size_t bytes);
void store_buf_u8(struct store_buf *buf, uint8_t value);
void store_buf_u32(struct store_buf *buf, uint32_t value);
void store_buf_u64(struct store_buf *buf, uint64_t value);
void store_buf_varint(struct store_buf *buf, uint64_t value);
void store_buf_svarint(struct store_buf *buf, int64_t value);
void store_buf_string(struct store_buf *buf, const void *text, size_t bytes);

/* What is left to parse. After the first thing that does not fit, `bad` is set and everything gives zeros. */
struct store_in {
	const uint8_t *at, *end;
	bool bad;
};
static inline struct store_in store_in_of(const void *data, size_t bytes)
{
	return (struct store_in){(const uint8_t *)data, (const uint8_t *)data + bytes, false};
}
static inline size_t store_in_left(const struct store_in *in)
{
	return (size_t)(in->end - in->at);
}
/* True when all was right and nothing is left. */
static inline bool store_in_done(const struct store_in *in)
{
	return !in->bad && in->at == in->end;
}
/* NULL when there are not so many. */
const uint8_t *store_in_bytes(struct store_in *in, uint64_t bytes);
uint8_t store_in_u8(struct store_in *in);
uint32_t store_in_u32(struct store_in *in);
uint64_t store_in_u64(struct store_in *in);
/* The shortest form only. */
uint64_t store_in_varint(struct store_in *in);
int64_t store_in_svarint(struct store_in *in);
/* A varint of at most `max`. */
uint64_t store_in_limited(struct store_in *in, uint64_t max);
/* The number of things that have at least `each` bytes: no more than can be there. */
uint64_t store_in_count(struct store_in *in, size_t each);
/* A string of min to max bytes, in place; its length in *bytes. */
const uint8_t *store_in_string(struct store_in *in, size_t min, size_t max, size_t *bytes);

#endif
