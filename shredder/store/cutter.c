/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "store/cutter.h"

int store_cutter_open(struct store_cutter *c, struct store_keeping *keeping)
{
	const struct shredder_options options = {.size = sizeof(options),
						 .engine = "cpu",
						 .threads = 1,
						 .buffers = 2,
						 .buffer_bytes = STORE_CUTTER_BYTES,
						 .params = &keeping->s->params};

	memset(c, 0, sizeof(*c));
	c->keeping = keeping;
	store_codec_init(&c->codec, keeping->level);
	c->buffer = (uint8_t *)store_alloc(STORE_CUTTER_BYTES); /* from the kernel; takes no memory until it is used */
	const int rc = shredder_open(&options, &c->chunker);
	return rc == 0 ? 0 : store_fail(STORE_E_CHUNKER, "the chunker cannot be opened: %s", shredder_strerror(rc));
}

void store_cutter_close(struct store_cutter *c)
{
	shredder_close(c->chunker);
	store_codec_free(&c->codec);
	store_buf_free(&c->protected_data);
	store_buf_free(&c->content);
	for (int type = STORE_DATA; type <= STORE_TREE; type++)
		store_group_free(&c->groups[type]);
	free(c->buffer);
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

	if (k->pool == NULL || !store_pool_has_idle(k->pool))
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
	if (k->pool != NULL && store_pool_has_idle(k->pool)) {
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

void store_cutter_begin(struct store_cutter *c)
{
	c->have = 0;
	c->content.size = 0;
	c->content_count = 0;
}

static int keep_chunk(struct store_cutter *c, const void *data, size_t bytes, const uint8_t digest[32])
{
	struct store_part part = {.bytes = bytes};
	const int rc = keep_digest(c, STORE_DATA, data, bytes, digest, &part.id);

	store_part_add(&c->content, &c->content_count, &part);
	return rc;
}

/* The chunks of the buffer; without `last` what is behind the last cut is left: *rest bytes. */
static int cut_buffer(struct store_cutter *c, bool last, size_t *rest)
{
	struct shredder_chunk chunk;
	uint8_t digest[32];
	int rc = 0, taken = 0;

	*rest = 0;
	if (last && c->have <= c->keeping->s->params.min_bytes) { /* one chunk, whatever is in it */
		store_digest(c->buffer, c->have, digest);
		return c->have == 0 ? 0 : keep_chunk(c, c->buffer, c->have, digest);
	}
	if (shredder_begin_buffer(c->chunker, c->buffer, c->have) != 0)
		return store_fail(STORE_E_CHUNKER, "cutting failed: %s", shredder_last_message(c->chunker));
	while (rc == 0 && (taken = shredder_next(c->chunker, &chunk)) == 1) {
		if (!last && chunk.offset + chunk.length == c->have && chunk.cut == SHREDDER_CUT_END)
			*rest = chunk.length;
		else
			rc = keep_chunk(c, chunk.data, chunk.length, chunk.digest);
	}
	if (rc == 0 && taken == 0)
		return 0;
	if (rc == 0 || taken < 0)
		rc = store_fail(STORE_E_CHUNKER, "cutting failed: %s", shredder_last_message(c->chunker));
	shredder_abandon(c->chunker);
	return rc;
}

int store_cutter_took(struct store_cutter *c, size_t bytes, bool last)
{
	size_t rest;

	c->have += bytes;
	if (!last && c->have < STORE_CUTTER_BYTES)
		return 0;
	const int rc = cut_buffer(c, last, &rest);
	memmove(c->buffer, c->buffer + c->have - rest, rest);
	c->have = rest;
	return rc;
}

void store_cutter_hole(struct store_cutter *c, uint64_t bytes)
{
	const struct store_part part = {.bytes = bytes, .hole = true};

	if (bytes > 0)
		store_part_add(&c->content, &c->content_count, &part);
}
