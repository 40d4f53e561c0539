/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pack is durable before the index says that its blobs are, and index files are written after the packs that they name.
 *
 * One thread at a time adds to the open pack of a type (`busy`), and copies without the mutex; the mutex guards the lists of pieces, what is
 * open, and the result.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock_host.h"
#include "hash/blake3.h"
#include "store/pack_parity.h"
#include "store/packer.h"
#include "store/upload.h"

/* Of the open packs of both types, of the writer, and two that wait. */
#define STORE_PIECES 5
#define INDEX_EVERY_NS (UINT64_C(30) * 1000000000)

struct pack;

struct piece {
	uint8_t *data;
	size_t bytes;
	struct pack *pack;
	bool last;
	struct piece *next;
};

struct pack {
	struct piece *piece; /* that is filled; NULL: none yet */
	uint64_t bytes;
	uint8_t prefix[STORE_PREFIX_BYTES];
	struct store_buf header; /* entries */
	uint32_t *numbers;
	uint32_t count, room;

	/* the writer's */
	struct store_upload upload;
	bool begun;
	struct g4_blake3 hash;
	struct store_parity *parity; /* NULL: none */
	struct store_buf body;	     /* the header's, complete with the last piece */

	struct pack *next; /* of all that are not written */
};

struct store_packer {
	struct store *s;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct pack *open[3]; /* by type */
	bool busy[3];
	struct pack *packs;
	struct piece pieces[STORE_PIECES];
	struct piece *free, *full, **full_end;
	pthread_t writer;
	bool ending, abandoned, joined;
	int rc;
	char text[STORE_TEXT_BYTES];
	uint64_t written;

	/* the writer's */
	struct store_buf records;
	uint64_t records_packs, records_ns;
};

/* -------------------------------------------------------------------------------------------------------- writer */

static int write_index(struct store_packer *p)
{
	struct store_id name;
	int rc = 0;

	if (p->records_packs > 0)
		rc = store_index_put(p->s, p->records_packs, &p->records, &name);
	pthread_mutex_lock(&p->mutex);
	p->written += p->records.size;
	pthread_mutex_unlock(&p->mutex);
	p->records.size = 0;
	p->records_packs = 0;
	p->records_ns = g4_clock_ns(CLOCK_MONOTONIC);
	return rc;
}

static void free_pack(struct store_packer *p, struct pack *pack)
{
	pthread_mutex_lock(&p->mutex);
	for (struct pack **at = &p->packs; *at != NULL; at = &(*at)->next)
		if (*at == pack) {
			*at = pack->next;
			break;
		}
	pthread_mutex_unlock(&p->mutex);
	if (pack->begun)
		store_upload_abandon(&pack->upload);
	store_parity_close(pack->parity);
	store_buf_free(&pack->header);
	store_buf_free(&pack->body);
	free(pack->numbers);
	free(pack);
}

/* All its pieces are written: it gets its name, and its blobs their places. */
static int end_pack(struct store_packer *p, struct pack *pack)
{
	struct store_in in = store_in_of(pack->body.data, pack->body.size);
	struct store_header_entry from;
	struct store_header header;
	struct store_id name;

	g4_blake3_final(&pack->hash, name.bytes);
	pack->begun = false;
	const int rc = store_upload_end(&pack->upload, &name);
	if (rc != 0)
		return rc;
	const uint32_t number = store_index_pack(p->s, &name, pack->bytes);
	store_index_written(p->s, number);
	store_header_open(&header, &in, p->s->version);
	for (uint32_t i = 0; i < pack->count && store_header_next(&header, &from); i++)
		store_index_place(p->s, pack->numbers[i], &from, number);
	store_index_record(&p->records, &name, pack->bytes, &pack->body);
	p->records_packs++;
	pthread_mutex_lock(&p->mutex);
	p->written += pack->bytes;
	pthread_mutex_unlock(&p->mutex);
	return 0;
}

/* Behind the last piece. */
static int add_parity(struct pack *pack)
{
	const struct store_buf *section = store_parity_end(pack->parity);

	g4_blake3_update(&pack->hash, section->data, section->size);
	pack->bytes += section->size;
	return store_upload_add(&pack->upload, section->data, section->size);
}

static int write_piece(struct store_packer *p, const struct piece *piece)
{
	struct pack *pack = piece->pack;
	int rc = 0;

	if (!pack->begun) {
		g4_blake3_init(&pack->hash);
		pack->parity =
			p->s->parity == 0 ? NULL : store_parity_open(store_parity_layout(p->s->version), p->s->parity);
		rc = store_upload_begin(&pack->upload, p->s->backend, STORE_PACK);
		pack->begun = rc == 0;
	}
	if (rc == 0)
		rc = store_upload_add(&pack->upload, piece->data, piece->bytes);
	g4_blake3_update(&pack->hash, piece->data, piece->bytes);
	if (rc == 0 && pack->parity != NULL)
		store_parity_add(pack->parity, piece->data, piece->bytes);
	if (rc == 0 && pack->parity != NULL && piece->last)
		rc = add_parity(pack);
	if (rc == 0 && piece->last)
		rc = end_pack(p, pack);
	if (rc == 0 && (p->records.size >= STORE_INDEX_BODY_BYTES ||
			g4_clock_ns(CLOCK_MONOTONIC) - p->records_ns > INDEX_EVERY_NS))
		rc = write_index(p);
	if (piece->last)
		free_pack(p, pack);
	return rc;
}

static void *write_packs(void *user)
{
	struct store_packer *p = (struct store_packer *)user;
	int rc = 0;

	p->records_ns = g4_clock_ns(CLOCK_MONOTONIC);
	pthread_mutex_lock(&p->mutex);
	while (rc == 0 && !p->abandoned) {
		struct piece *piece = p->full;

		if (piece == NULL && p->ending)
			break;
		if (piece == NULL) {
			pthread_cond_wait(&p->changed, &p->mutex);
			continue;
		}
		p->full = piece->next;
		if (p->full == NULL)
			p->full_end = &p->full;
		pthread_mutex_unlock(&p->mutex);
		rc = write_piece(p, piece);
		pthread_mutex_lock(&p->mutex);
		piece->next = p->free;
		p->free = piece;
		pthread_cond_broadcast(&p->changed);
	}
	const bool index = rc == 0 && !p->abandoned;
	pthread_mutex_unlock(&p->mutex);
	if (index)
		rc = write_index(p);
	pthread_mutex_lock(&p->mutex);
	if (rc != 0) {
		p->rc = rc;
		snprintf(p->text, sizeof(p->text), "%s", store_message());
	}
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->mutex);
	return NULL;
}

/* -------------------------------------------------------------------------------------------------------- adding */

/* With the mutex held. */
static void hand_over(struct store_packer *p, struct pack *pack, bool last)
{
	struct piece *piece = pack->piece;

	pack->piece = NULL;
	piece->last = last;
	piece->next = NULL;
	*p->full_end = piece;
	p->full_end = &piece->next;
	pthread_cond_broadcast(&p->changed);
}

/* A piece to fill; false after a failure. */
static bool need_piece(struct store_packer *p, struct pack *pack)
{
	if (pack->piece != NULL)
		return true;
	pthread_mutex_lock(&p->mutex);
	while (p->rc == 0 && p->free == NULL)
		pthread_cond_wait(&p->changed, &p->mutex);
	if (p->rc == 0) {
		pack->piece = p->free;
		p->free = pack->piece->next;
		pack->piece->bytes = 0;
		pack->piece->pack = pack;
	}
	pthread_mutex_unlock(&p->mutex);
	return pack->piece != NULL;
}

/* By the thread that has the pack. */
static bool append(struct store_packer *p, struct pack *pack, const uint8_t *data, size_t bytes)
{
	pack->bytes += bytes;
	while (bytes > 0) {
		if (!need_piece(p, pack))
			return false;
		struct piece *piece = pack->piece;
		const size_t part = (size_t)g4_min64(bytes, STORE_PIECE_BYTES - piece->bytes);
		memcpy(piece->data + piece->bytes, data, part);
		piece->bytes += part;
		data += part;
		bytes -= part;
		if (piece->bytes < STORE_PIECE_BYTES)
			continue;
		pthread_mutex_lock(&p->mutex);
		hand_over(p, pack, false);
		pthread_mutex_unlock(&p->mutex);
	}
	return true;
}

/* Header and trailer; from then on the pack is the writer's. A last piece may be empty. */
static bool close_pack(struct store_packer *p, enum store_blob_type type)
{
	struct pack *pack = p->open[type];
	struct store_buf end = {0};

	store_buf_varint(&pack->body, pack->count);
	store_buf_add(&pack->body, pack->header.data, pack->header.size);
	store_pack_end(p->s, pack->prefix, &pack->body, &end);
	const bool done = append(p, pack, end.data, end.size) && need_piece(p, pack);
	store_buf_free(&end);
	if (!done)
		return false;
	pthread_mutex_lock(&p->mutex);
	p->open[type] = NULL;
	hand_over(p, pack, true);
	pthread_mutex_unlock(&p->mutex);
	return true;
}

/* The open pack of a type, for this thread alone until give_pack(). NULL: writing has failed. */
static struct pack *take_pack(struct store_packer *p, enum store_blob_type type)
{
	pthread_mutex_lock(&p->mutex);
	while (p->rc == 0 && p->busy[type])
		pthread_cond_wait(&p->changed, &p->mutex);
	struct pack *pack = p->open[type];
	const bool failed = p->rc != 0;
	p->busy[type] = p->busy[type] || !failed;
	if (!failed && pack == NULL) {
		pack = (struct pack *)store_alloc(sizeof(*pack));
		pack->next = p->packs;
		p->packs = pack;
		p->open[type] = pack;
	}
	pthread_mutex_unlock(&p->mutex);
	if (failed)
		return NULL;
	if (pack->bytes == 0) {
		store_prefix_make(pack->prefix, STORE_PACK, p->s->version, p->s->encrypted);
		append(p, pack, pack->prefix, sizeof(pack->prefix)); /* a failure shows in the next one */
	}
	return pack;
}

static int give_pack(struct store_packer *p, enum store_blob_type type, bool done)
{
	if (done && (p->open[type]->bytes >= STORE_PACK_BYTES || p->open[type]->header.size >= STORE_HEADER_BYTES))
		done = close_pack(p, type);
	pthread_mutex_lock(&p->mutex);
	p->busy[type] = false;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->mutex);
	return done ? 0 : store_fail(p->rc, "%s", p->text);
}

static void add_number(struct pack *pack, uint32_t number)
{
	if (pack->count == pack->room) {
		pack->room = pack->room == 0 ? 64 : 2 * pack->room;
		pack->numbers = (uint32_t *)store_realloc(pack->numbers, pack->room * sizeof(*pack->numbers));
	}
	pack->numbers[pack->count++] = number;
}

static int failure(struct store_packer *p)
{
	pthread_mutex_lock(&p->mutex);
	const int rc = store_fail(p->rc, "%s", p->text);
	pthread_mutex_unlock(&p->mutex);
	return rc;
}

int store_packer_add(struct store_packer *p, enum store_blob_type type, uint32_t number, const struct store_id *id,
		     const struct store_buf *stored, uint64_t raw_bytes)
{
	struct pack *pack = take_pack(p, type);

	if (pack == NULL)
		return failure(p);
	store_header_add_blob(&pack->header, (uint8_t)type, id, stored->size, raw_bytes);
	add_number(pack, number);
	return give_pack(p, type, append(p, pack, stored->data, stored->size));
}

int store_packer_add_group(struct store_packer *p, const struct store_group *group, const struct store_buf *stored)
{
	const enum store_blob_type type = group->members[0].type;
	struct pack *pack = take_pack(p, type);

	if (pack == NULL)
		return failure(p);
	store_header_add_group(&pack->header, stored->size, group->count);
	for (uint32_t i = 0; i < group->count; i++) {
		const struct store_member *member = &group->members[i];

		store_header_add_member(&pack->header, (uint8_t)member->type, &member->id, member->raw);
		add_number(pack, member->number);
	}
	return give_pack(p, type, append(p, pack, stored->data, stored->size));
}

/* ------------------------------------------------------------------------------------------------ opening, ending */

struct store_packer *store_packer_open(struct store *s)
{
	struct store_packer *p = (struct store_packer *)store_alloc(sizeof(*p));

	p->s = s;
	p->full_end = &p->full;
	pthread_mutex_init(&p->mutex, NULL);
	pthread_cond_init(&p->changed, NULL);
	for (size_t i = 0; i < STORE_PIECES; i++) {
		p->pieces[i].data = (uint8_t *)store_alloc_aligned(STORE_ALIGN_BYTES, STORE_PIECE_BYTES);
		p->pieces[i].next = p->free;
		p->free = &p->pieces[i];
	}
	if (pthread_create(&p->writer, NULL, write_packs, p) != 0) {
		p->rc = store_fail(STORE_E_IO, "a thread cannot be started");
		snprintf(p->text, sizeof(p->text), "%s", store_message());
		p->joined = true;
	}
	return p;
}

static void end_writer(struct store_packer *p, bool abandoned)
{
	if (p->joined)
		return;
	for (int type = STORE_DATA; type <= STORE_TREE; type++)
		if (p->open[type] != NULL && !abandoned)
			close_pack(p, (enum store_blob_type)type);
	pthread_mutex_lock(&p->mutex);
	p->abandoned = abandoned;
	p->ending = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->mutex);
	pthread_join(p->writer, NULL);
	p->joined = true;
}

int store_packer_finish(struct store_packer *p)
{
	end_writer(p, false);
	return p->rc == 0 ? 0 : store_fail(p->rc, "%s", p->text);
}

void store_packer_close(struct store_packer *p)
{
	end_writer(p, true);
	while (p->packs != NULL)
		free_pack(p, p->packs);
	for (size_t i = 0; i < STORE_PIECES; i++)
		free(p->pieces[i].data);
	store_buf_free(&p->records);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->mutex);
	free(p);
}

uint64_t store_packer_written(struct store_packer *p)
{
	pthread_mutex_lock(&p->mutex);
	const uint64_t written = p->written;
	pthread_mutex_unlock(&p->mutex);
	return written;
}
