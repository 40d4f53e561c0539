/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: any parameters, on any stream, in any pieces. What the library accepts must give the model's chunks; what it
 * refuses it must refuse every time.
 */
#include <stdlib.h>
#include <string.h>

#include "hash/blake3.h"
#include "model.h"
#include "replay.h"

#define STREAM_BYTES_MAX 20000

static uint32_t outcome; /* chunks, or the code of what was refused */

struct input {
	const uint8_t *data;
	size_t size;
};

/* The next `bytes` bytes as a number; zeros behind the end. */
static uint64_t take(struct input *in, uint32_t bytes)
{
	uint64_t value = 0;

	for (uint32_t i = 0; i < bytes && in->size > 0; i++, in->size--)
		value |= (uint64_t)*in->data++ << (8 * i);
	return value;
}

/* One of the values that have a meaning of their own, a small one, or any. */
static uint64_t take_bound(struct input *in)
{
	switch (take(in, 1) % 4) {
	case 0:
		return 0;
	case 1:
		return SHREDDER_NONE;
	case 2:
		return take(in, 2);
	default:
		return take(in, 8);
	}
}

static void take_params(struct input *in, struct shredder_params *p)
{
	memset(p, 0, sizeof(*p));
	p->size = take(in, 1) % 64 == 63 ? (uint32_t)take(in, 4) : (uint32_t)sizeof(*p);
	p->algorithm = (uint32_t)take(in, 1) % 4;
	p->mask_bits = (uint32_t)take(in, 1) % 70;
	p->normalization = take(in, 1) % 2 == 0 ? (uint32_t)take(in, 1) % 40 : SHREDDER_NO_NORMALIZATION;
	p->polynomial = take(in, 1) % 2 == 0 ? 0 : take(in, 8);
	p->marker = take_bound(in);
	p->min_bytes = take_bound(in);
	p->max_bytes = take_bound(in);
	p->normal_bytes = take_bound(in);
	p->delimiter_bytes = take(in, 1) % 2 == 0 ? 0 : (uint32_t)take(in, 1) % 40;
	for (uint32_t i = 0; i < p->delimiter_bytes && i < SHREDDER_DELIMITER_MAX; i++)
		p->delimiter[i] = (uint8_t)take(in, 1);
	p->record_bytes = take_bound(in);
}

/* Bytes, and copies of bytes before them: a few instructions make a long stream with structure. */
static uint64_t make_stream(struct input *in, uint8_t *stream)
{
	uint64_t bytes = 0;

	while (in->size > 0 && bytes < STREAM_BYTES_MAX) {
		const uint64_t length = take(in, 2) % 2000, back = take(in, 1);
		const uint64_t end = bytes + length < STREAM_BYTES_MAX ? bytes + length : STREAM_BYTES_MAX;
		struct dice dice = {take(in, 1)};

		for (; bytes < end; bytes++)
			stream[bytes] = back != 0 && back <= bytes ? stream[bytes - back] : (uint8_t)dice_roll(&dice);
	}
	return bytes;
}

static void require(int true_thing)
{
	if (!true_thing)
		abort();
}

struct check {
	const uint8_t *stream;
	const struct model_cut *cuts;
	size_t count, found;
};

/* Takes what chunks there are; gives what ended them. */
static int take_chunks(shredder *s, struct check *check)
{
	struct shredder_chunk chunk;
	uint8_t digest[32];
	int rc;

	while ((rc = shredder_next(s, &chunk)) == 1) {
		require(check->found < check->count);
		const uint64_t start = check->found == 0 ? 0 : check->cuts[check->found - 1].end;
		require(chunk.offset == start && chunk.offset + chunk.length == check->cuts[check->found].end);
		require(chunk.fingerprint == check->cuts[check->found].fingerprint);
		require(chunk.cut == check->cuts[check->found].cut);
		g4_blake3(check->stream + start, chunk.length, digest);
		require(memcmp(digest, chunk.digest, 32) == 0);
		require(chunk.data == NULL || memcmp(chunk.data, check->stream + start, chunk.length) == 0);
		check->found++;
	}
	return rc;
}

static void push_all(shredder *s, struct check *check, uint64_t bytes, uint64_t piece)
{
	require(shredder_begin_push(s) == 0);
	for (uint64_t at = 0; at < bytes;) {
		const int64_t taken = shredder_push(s, check->stream + at, piece < bytes - at ? piece : bytes - at);

		require(taken >= 0);
		at += (uint64_t)taken;
		require(take_chunks(s, check) == SHREDDER_E_AGAIN);
	}
	require(shredder_push_end(s) == 0);
	require(take_chunks(s, check) == 0 && check->found == check->count);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const engines[] = {"cpu", "portable", "avx2", "avx512"};
	static uint8_t stream[STREAM_BYTES_MAX];
	struct input in = {data, size};
	struct shredder_params params, complete_params;
	shredder *s;

	take_params(&in, &params);
	struct shredder_options options = {
		.size = sizeof(options), .params = &params, .buffers = 2, .buffer_bytes = 4096};
	options.threads = 1 + (uint32_t)take(&in, 1) % 2;
	options.flags = (uint32_t)take(&in, 1) % 2 == 0 ? 0 : SHREDDER_NO_DATA;
	options.engine = engines[take(&in, 1) % 4];
	const uint64_t piece = 1 + take(&in, 2) % 6000;
	complete_params = params;
	const int rc = shredder_params_complete(&complete_params);
	outcome = (uint32_t)rc;
	/* buffers hold the largest chunk: not a matter of this test */
	if (rc == 0 && complete_params.max_bytes <= SHREDDER_DATA_MAX && complete_params.max_bytes > 1 << 20)
		return 0;
	const int opened = shredder_open(&options, &s);
	if (opened == SHREDDER_E_ENGINE) /* this processor lacks it */
		return 0;
	require(opened == rc);
	if (rc != 0)
		return 0;

	const uint64_t bytes = make_stream(&in, stream);
	struct model_cut *cuts;
	struct check check = {.stream = stream, .count = model_cuts(&complete_params, stream, bytes, &cuts)};
	check.cuts = cuts;
	push_all(s, &check, bytes, piece);
	outcome = (uint32_t)check.found;
	check.found = 0;
	require(shredder_begin_buffer(s, stream, bytes) == 0);
	require(take_chunks(s, &check) == 0 && check.found == check.count);
	shredder_close(s);
	free(cuts);
	return 0;
}

uint32_t fuzz_outcome(void)
{
	return outcome;
}
