/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "store/cutter.h"

/* Less is not worth the way to a GPU and back. */
#define LOAD_LEAST G4_MIB
/* Room for a stream's beginning: with less the next one begins in a new buffer. */
#define ROOM_LEAST (64 * G4_KIB)

int store_cutter_open(struct store_cutter *c, struct store_keeping *keeping, void *user)
{
	const struct shredder_options options = {.size = sizeof(options),
						 .engine = keeping->engine != NULL ? keeping->engine : "cpu",
						 .threads = 1,
						 .buffers = 2,
						 .buffer_bytes = STORE_CUTTER_BYTES,
						 .params = &keeping->s->params};

	memset(c, 0, sizeof(*c));
	c->keeping = keeping;
	c->user = user;
	store_codec_init(&c->codec, keeping->level);
	c->size = STORE_CUTTER_BYTES;
	c->buffer = (uint8_t *)store_alloc(c->size); /* from the kernel; takes no memory until it is used */
	if (keeping->service != NULL && keeping->together)
		c->borders = (uint32_t *)store_alloc(STORE_WAITING_MAX * sizeof(*c->borders));
	const int rc = shredder_open(&options, &c->chunker);
	return rc == 0 ? 0 : store_fail(STORE_E_CHUNKER, "the chunker cannot be opened: %s", shredder_strerror(rc));
}

static void free_buffer(struct store_cutter *c)
{
	if (c->locked)
		shredder_service_free(c->keeping->service, c->buffer);
	else
		free(c->buffer);
}

void store_cutter_close(struct store_cutter *c)
{
	shredder_close(c->chunker);
	store_codec_free(&c->codec);
	store_buf_free(&c->protected_data);
	store_buf_free(&c->content);
	for (int type = STORE_DATA; type <= STORE_TREE; type++)
		store_group_free(&c->groups[type]);
	free_buffer(c);
	free(c->borders);
	free(c->ends);
}

/* ---------------------------------------------------------------------------------------------------------- blobs */

static int protect(struct store_cutter *c, enum store_blob_type type, uint32_t number, const struct store_id *id,
		   const void *data, size_t bytes)
{
	struct store_keeping *k = c->keeping;

	c->protected_data.size = 0;
	store_blob_protect(k->s, &c->codec, type, id, data, bytes, &c->protected_data);
	atomic_fetch_add(&k->new_blobs, 1);
	atomic_fetch_add(&k->new_bytes, bytes);
	atomic_fetch_add(&k->stored_bytes, c->protected_data.size);
	return k->packer == NULL ? 0 : store_packer_add(k->packer, type, number, id, &c->protected_data, bytes);
}

/* Gives a copy to somebody who has nothing to do; false: nobody has. */
static bool give(struct store_keeping *k, enum store_blob_type type, uint32_t number, const struct store_id *id,
		 const void *data, size_t bytes)
{
	struct store_keeping_job job = {.blob = true};

	if (k->pool == NULL || !store_pool_wants(k->pool))
		return false;
	job.of_blob = (struct store_blob_job){
		.type = type, .number = number, .id = *id, .data = (uint8_t *)malloc(bytes), .bytes = bytes};
	if (job.of_blob.data == NULL)
		return false;
	memcpy(job.of_blob.data, data, bytes);
	if (store_pool_give(k->pool, &job))
		return true;
	free(job.of_blob.data);
	return false;
}

static int protect_group(struct store_cutter *c, const struct store_group *group)
{
	struct store_keeping *k = c->keeping;

	c->protected_data.size = 0;
	store_group_protect(k->s, &c->codec, group->raw.data, group->raw.size, &c->protected_data);
	atomic_fetch_add(&k->new_blobs, group->count);
	atomic_fetch_add(&k->new_bytes, group->raw.size);
	atomic_fetch_add(&k->stored_bytes, c->protected_data.size);
	return k->packer == NULL ? 0 : store_packer_add_group(k->packer, group, &c->protected_data);
}

/* A worker that has nothing to do gets it, or it is protected here. */
static int end_group(struct store_cutter *c, struct store_group *group)
{
	struct store_keeping *k = c->keeping;
	struct store_keeping_job job = {.blob = true};

	if (group->count == 0)
		return 0;
	if (k->pool != NULL && store_pool_wants(k->pool)) {
		job.of_blob.group = (struct store_group *)store_alloc(sizeof(*group));
		*job.of_blob.group = *group;
		if (store_pool_give(k->pool, &job)) {
			memset(group, 0, sizeof(*group));
			return 0;
		}
		free(job.of_blob.group);
	}
	const int rc = protect_group(c, group);
	store_group_clear(group);
	return rc;
}

int store_cutter_flush(struct store_cutter *c)
{
	const int rc = end_group(c, &c->groups[STORE_DATA]);

	return rc != 0 ? rc : end_group(c, &c->groups[STORE_TREE]);
}

int store_cutter_do(struct store_cutter *c, struct store_blob_job *job)
{
	if (job->group != NULL) {
		const int rc = protect_group(c, job->group);

		store_group_free(job->group);
		free(job->group);
		return rc;
	}
	const int rc = protect(c, job->type, job->number, &job->id, job->data, job->bytes);

	free(job->data);
	return rc;
}

static int keep_digest(struct store_cutter *c, enum store_blob_type type, const void *data, size_t bytes,
		       const uint8_t digest[32], struct store_id *id)
{
	struct store_keeping *k = c->keeping;
	uint32_t number;

	store_name_blob(k->s, type, digest, id);
	const int fresh = store_index_claim(k->s, id, type, &number);
	if (fresh != 1)
		return fresh;
	if (k->packer == NULL) { /* then it counts as stored, or all that is new would stay in memory */
		const struct store_header_entry nowhere = {.id = *id, .type = (uint8_t)type, .raw = (uint32_t)bytes};

		store_index_place(k->s, number, &nowhere, 0);
	}
	if (k->s->version >= 2 && bytes <= STORE_GROUPED_BYTES) {
		struct store_group *group = &c->groups[type];

		return store_group_add(group, type, number, id, data, bytes) ? end_group(c, group) : 0;
	}
	if (give(k, type, number, id, data, bytes))
		return 0;
	return protect(c, type, number, id, data, bytes);
}

int store_cutter_keep(struct store_cutter *c, enum store_blob_type type, const void *data, size_t bytes,
		      struct store_id *id)
{
	uint8_t digest[32];

	store_digest(data, bytes, digest);
	return keep_digest(c, type, data, bytes, digest, id);
}

int store_cutter_piece(struct store_cutter *c, struct store_pieces *p)
{
	struct store_part part = {.bytes = p->piece.size};

	if (p->piece.size == 0)
		return 0;
	const int rc = store_cutter_keep(c, STORE_TREE, p->piece.data, p->piece.size, &part.id);
	store_part_add(&p->content, &p->content_count, &part);
	p->piece.size = 0;
	return rc;
}

void store_pieces_free(struct store_pieces *p)
{
	store_buf_free(&p->piece);
	store_buf_free(&p->content);
	p->content_count = 0;
}

/* --------------------------------------------------------------------------------------------------------- stream */

static int keep_chunk(struct store_cutter *c, struct store_parts *to, const void *data, size_t bytes,
		      const uint8_t digest[32])
{
	struct store_part part = {.bytes = bytes};

	if (c->keeping->between != NULL)
		c->keeping->between(c->user);
	const int rc = keep_digest(c, STORE_DATA, data, bytes, digest, &part.id);

	store_part_add(&to->bytes, &to->count, &part);
	return rc;
}

/* Where the stream begins that is read now: behind those that wait. */
static size_t current_begin(const struct store_cutter *c)
{
	return c->waiting == 0 ? 0 : c->borders[c->waiting - 1];
}

static void complete(struct store_cutter *c, uint32_t index, struct store_parts *parts)
{
	const struct store_content content = {parts->bytes.data, parts->bytes.size, parts->count};

	c->keeping->complete(c->user, index, &content);
	parts->bytes.size = 0;
	parts->count = 0;
}

/* The chunks of `bytes` bytes from `data` on, by the processor; without `last` what is behind the last cut is left: *rest bytes. */
static int cut_stream(struct store_cutter *c, const uint8_t *data, size_t bytes, bool last, struct store_parts *to,
		      size_t *rest)
{
	struct shredder_chunk chunk;
	uint8_t digest[32];
	int rc = 0, taken = 0;

	*rest = 0;
	if (last && bytes <= c->keeping->s->params.min_bytes) { /* one chunk, whatever is in it */
		store_digest(data, bytes, digest);
		return bytes == 0 ? 0 : keep_chunk(c, to, data, bytes, digest);
	}
	if (shredder_begin_buffer(c->chunker, data, bytes) != 0)
		return store_fail(STORE_E_CHUNKER, "cutting failed: %s", shredder_last_message(c->chunker));
	while (rc == 0 && (taken = shredder_next(c->chunker, &chunk)) == 1) {
		if (!last && chunk.offset + chunk.length == bytes && chunk.cut == SHREDDER_CUT_END)
			*rest = chunk.length;
		else
			rc = keep_chunk(c, to, chunk.data, chunk.length, chunk.digest);
	}
	if (rc == 0 && taken == 0)
		return 0;
	if (rc == 0 || taken < 0)
		rc = store_fail(STORE_E_CHUNKER, "cutting failed: %s", shredder_last_message(c->chunker));
	shredder_abandon(c->chunker);
	return rc;
}

/* All of the buffer, stream by stream. */
static int cut_by_processor(struct store_cutter *c, bool last, struct store_parts *waited, struct store_parts *current,
			    size_t *rest)
{
	size_t begin = 0;
	int rc = 0;

	for (uint32_t i = 0; i < c->waiting && rc == 0; i++) {
		rc = cut_stream(c, c->buffer + begin, c->borders[i] - begin, true, waited, rest);
		begin = c->borders[i];
		if (rc == 0)
			complete(c, i, waited);
	}
	return rc != 0 ? rc : cut_stream(c, c->buffer + begin, c->have - begin, last, current, rest);
}

/* What a GPU found. */
static int keep_load(struct store_cutter *c, const struct shredder_load *load, bool last, struct store_parts *waited,
		     struct store_parts *current, size_t *rest)
{
	uint32_t stream = 0;
	size_t begin = 0;
	int rc = 0;

	*rest = 0;
	for (uint64_t i = 0; i < load->count && rc == 0; i++) {
		const struct shredder_end *end = &load->ends[i];
		const size_t bytes = end->end - begin;

		if (!last && stream == c->waiting && end->end == load->bytes && end->cut == SHREDDER_CUT_END)
			*rest = bytes;
		else
			rc = keep_chunk(c, stream < c->waiting ? waited : current, c->buffer + begin, bytes,
					end->digest);
		begin = end->end;
		if (rc == 0 && stream < c->waiting && begin == c->borders[stream])
			complete(c, stream++, waited);
	}
	return rc;
}

/* True: a GPU has found the chunks of all that is in the buffer. */
static bool cut_by_service(struct store_cutter *c, struct shredder_load *load)
{
	struct shredder_service *service = c->keeping->service;
	const uint64_t room = STORE_LOAD_BYTES / c->keeping->s->params.min_bytes + STORE_WAITING_MAX + 2;

	/* the first load that is worth it opens the GPUs */
	if (service == NULL || c->have < LOAD_LEAST ||
	    !(c->have >= c->size / 2 ? shredder_service_begin(service) : shredder_service_ready(service)))
		return false;
	if (c->ends == NULL)
		c->ends = (struct shredder_end *)store_alloc(room * sizeof(*c->ends));
	*load = (struct shredder_load){.data = c->buffer,
				       .bytes = c->have,
				       .borders = c->borders,
				       .borders_count = c->waiting - (current_begin(c) == c->have ? 1 : 0),
				       .ends = c->ends,
				       .room = room};
	return shredder_service_cut(service, load) == 0;
}

/* Once the GPUs are open: into memory that they read fast. `rest` bytes at the end of the buffer stay in use. */
static void keep_rest(struct store_cutter *c, size_t rest)
{
	struct shredder_service *service = c->keeping->service;
	uint8_t *larger = NULL;

	if (service != NULL && !c->locked)
		larger = (uint8_t *)shredder_service_alloc(service);
	memmove(larger != NULL ? larger : c->buffer, c->buffer + c->have - rest, rest);
	if (larger != NULL) {
		free_buffer(c);
		c->buffer = larger;
		c->size = STORE_LOAD_BYTES;
		c->locked = true;
	}
	c->have = rest;
	c->waiting = 0;
}

/* All that is in the buffer; last: nothing is left of it. */
static int cut_buffer(struct store_cutter *c, bool last)
{
	struct store_parts waited = {0}, current = {c->content, c->content_count};
	struct shredder_load load;
	size_t rest = 0;
	const int rc = cut_by_service(c, &load) ? keep_load(c, &load, last, &waited, &current, &rest) :
						  cut_by_processor(c, last, &waited, &current, &rest);

	c->content = current.bytes;
	c->content_count = current.count;
	store_buf_free(&waited.bytes);
	keep_rest(c, rest);
	return rc;
}

int store_cutter_cut_waiting(struct store_cutter *c)
{
	c->have = current_begin(c); /* what is behind it is left of a stream that failed */
	return c->waiting == 0 ? 0 : cut_buffer(c, true);
}

int store_cutter_begin(struct store_cutter *c, uint64_t bytes)
{
	const bool full = c->waiting == STORE_WAITING_MAX || c->size - current_begin(c) < g4_max64(bytes, ROOM_LEAST);
	const int rc = full ? store_cutter_cut_waiting(c) : 0;

	c->have = current_begin(c);
	c->content.size = 0;
	c->content_count = 0;
	c->may_wait = bytes > 0 && c->borders != NULL && shredder_service_hopes(c->keeping->service);
	c->waits = false;
	return rc;
}

int store_cutter_took(struct store_cutter *c, size_t bytes, bool last)
{
	c->have += bytes;
	if (last && c->may_wait && c->content.size == 0 && c->have > current_begin(c)) {
		c->borders[c->waiting++] = (uint32_t)c->have;
		c->waits = true;
		return 0;
	}
	return last || c->have == c->size ? cut_buffer(c, last) : 0;
}

void store_cutter_hole(struct store_cutter *c, uint64_t bytes)
{
	const struct store_part part = {.bytes = bytes, .hole = true};

	if (bytes > 0)
		store_part_add(&c->content, &c->content_count, &part);
}
