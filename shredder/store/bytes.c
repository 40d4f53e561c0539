/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "store/bytes.h"

static void *check_memory(void *memory)
{
	if (memory == NULL) {
		fputs("shredder: out of memory\n", stderr);
		_Exit(1);
	}
	return memory;
}

void *store_alloc(size_t bytes)
{
	return check_memory(calloc(1, bytes > 0 ? bytes : 1));
}

void *store_alloc_aligned(size_t alignment, size_t bytes)
{
	return check_memory(aligned_alloc(alignment, bytes));
}

void *store_realloc(void *memory, size_t bytes)
{
	return check_memory(realloc(memory, bytes > 0 ? bytes : 1));
}

char *store_strdup(const char *text)
{
	return (char *)check_memory(strdup(text));
}

char *store_path_up(const void *folder, const char *name, const char *(*above)(const void **folder))
{
	size_t bytes = strlen(name) + 1;
	const void *at = folder;
	const char *part;

	while ((part = above(&at)) != NULL)
		bytes += strlen(part) + 1;
	char *path = (char *)store_alloc(bytes), *end = path + bytes - 1 - strlen(name);
	memcpy(end, name, strlen(name));
	for (at = folder; (part = above(&at)) != NULL;) {
		*--end = '/';
		end -= strlen(part);
		memcpy(end, part, strlen(part));
	}
	return path;
}

void store_buf_free(struct store_buf *buf)
{
	free(buf->data);
	memset(buf, 0, sizeof(*buf));
}

uint8_t *store_buf_reserve(struct store_buf *buf, size_t bytes)
{
	if (buf->room - buf->size < bytes) {
		size_t room = buf->room + buf->room / 2 + 64;

		if (room - buf->size < bytes)
			room = buf->size + bytes;
		buf->data = (uint8_t *)store_realloc(buf->data, room);
		buf->room = room;
	}
	return buf->data + buf->size;
}

void store_buf_add(struct store_buf *buf, const void *data, size_t bytes)
{
	uint8_t *to = store_buf_reserve(buf, bytes);

	if (bytes > 0)
		memcpy(to, data, bytes);
	buf->size += bytes;
}

void store_buf_u8(struct store_buf *buf, uint8_t value)
{
	store_buf_add(buf, &value, 1);
}

void store_buf_u32(struct store_buf *buf, uint32_t value)
{
	store_buf_add(buf, &value, sizeof(value));
}

void store_buf_u64(struct store_buf *buf, uint64_t value)
{
	store_buf_add(buf, &value, sizeof(value));
}

void store_buf_varint(struct store_buf *buf, uint64_t value)
{
	uint8_t bytes[10];
	size_t count = 0;

	while (value >= 0x80) {
		bytes[count++] = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	bytes[count++] = (uint8_t)value;
	store_buf_add(buf, bytes, count);
}

void store_buf_svarint(struct store_buf *buf, int64_t value)
{
	store_buf_varint(buf, ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0));
}

void store_buf_string(struct store_buf *buf, const void *text, size_t bytes)
{
	store_buf_varint(buf, bytes);
	store_buf_add(buf, text, bytes);
}

static uint64_t spoil(struct store_in *in)
{
	in->bad = true;
	in->at = in->end;
	return 0;
}

const uint8_t *store_in_bytes(struct store_in *in, uint64_t bytes)
{
	const uint8_t *from = in->at;

	if (in->bad || bytes > store_in_left(in)) {
		spoil(in);
		return NULL;
	}
	in->at += bytes;
	return from;
}

uint8_t store_in_u8(struct store_in *in)
{
	const uint8_t *from = store_in_bytes(in, 1);

	return from == NULL ? 0 : *from;
}

uint32_t store_in_u32(struct store_in *in)
{
	const uint8_t *from = store_in_bytes(in, 4);
	uint32_t value = 0;

	if (from != NULL)
		memcpy(&value, from, sizeof(value));
	return value;
}

uint64_t store_in_u64(struct store_in *in)
{
	const uint8_t *from = store_in_bytes(in, 8);
	uint64_t value = 0;

	if (from != NULL)
		memcpy(&value, from, sizeof(value));
	return value;
}

uint64_t store_in_varint(struct store_in *in)
{
	uint64_t value = 0;

	for (uint32_t shift = 0; shift < 64; shift += 7) {
		const uint8_t byte = store_in_u8(in);

		if (shift == 63 && byte > 1)
			break;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return byte == 0 && shift > 0 ? spoil(in) : value;
	}
	return spoil(in);
}

int64_t store_in_svarint(struct store_in *in)
{
	const uint64_t value = store_in_varint(in);

	return (int64_t)((value >> 1) ^ (value & 1 ? UINT64_MAX : 0));
}

uint64_t store_in_limited(struct store_in *in, uint64_t max)
{
	const uint64_t value = store_in_varint(in);

	return value > max ? spoil(in) : value;
}

uint64_t store_in_count(struct store_in *in, size_t each)
{
	const uint64_t count = store_in_varint(in);

	return count > store_in_left(in) / each ? spoil(in) : count;
}

const uint8_t *store_in_string(struct store_in *in, size_t min, size_t max, size_t *bytes)
{
	const uint64_t count = store_in_varint(in);

	*bytes = 0;
	if (count < min || count > max)
		spoil(in);
	const uint8_t *text = store_in_bytes(in, count);
	if (text != NULL)
		*bytes = count;
	return text;
}
