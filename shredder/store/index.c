/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/backend.h"
#include "store/index.h"
#include "store/pack.h"

/* Of a blob in an index file: its id and hardly more, since ids cannot be compressed. */
#define INDEX_BLOB_BYTES 34
#define PACK_ROWS_FIRST 1024u
/* Room for more is not made before there are more: sizes of files are what somebody else says. */
#define EXPECTED_MAX (UINT64_C(1) << 27)

struct store_index {
	struct store_table *table;
	pthread_mutex_t mutex; /* of the packs */
	struct store_pack *packs;
	uint32_t packs_count, packs_room;
	uint32_t *rows; /* number + 1 of a pack, at its name or the next free place; 0: free */
	uint32_t rows_count;
};

static void new_index(struct store *s, uint64_t expected)
{
	struct store_index *x = (struct store_index *)store_alloc(sizeof(*x));

	store_index_free(s);
	pthread_mutex_init(&x->mutex, NULL);
	x->table = store_table_open(expected, s->index_bytes != 0 ? s->index_bytes : STORE_INDEX_BYTES);
	x->rows_count = PACK_ROWS_FIRST;
	x->rows = (uint32_t *)store_alloc(x->rows_count * sizeof(*x->rows));
	s->index = x;
}

void store_index_new(struct store *s)
{
	new_index(s, 0);
}

void store_index_free(struct store *s)
{
	struct store_index *x = s->index;

	if (x == NULL)
		return;
	store_table_close(x->table);
	free(x->packs);
	free(x->rows);
	pthread_mutex_destroy(&x->mutex);
	free(x);
	s->index = NULL;
}

int store_index_find(struct store *s, const struct store_id *id, uint32_t *number, struct store_entry *entry)
{
	char hex[STORE_HEX_BYTES];
	const int rc = store_table_find(s->index->table, id, number, entry);

	return rc == 1 ? 0 :
	       rc < 0  ? rc :
			 store_fail(STORE_E_NO_BLOB, "the index does not know blob %.16s; 'shredder check' tells more",
				    store_hex(id, hex));
}

int store_index_find_all(struct store *s, struct store_found *found, size_t count)
{
	return store_table_find_all(s->index->table, found, count);
}

uint64_t store_index_count(struct store *s)
{
	return store_table_count(s->index->table);
}

int store_index_at(struct store *s, uint32_t number, struct store_entry *entry)
{
	return store_table_at(s->index->table, number, entry);
}

int store_index_claim(struct store *s, const struct store_id *id, enum store_blob_type type, uint32_t *number)
{
	const struct store_entry entry = {.id = *id, .pack = STORE_PACK_PENDING, .type = type};

	return store_table_add(s->index->table, &entry, number);
}

uint32_t store_pack_count(struct store *s)
{
	pthread_mutex_lock(&s->index->mutex);
	const uint32_t count = s->index->packs_count;
	pthread_mutex_unlock(&s->index->mutex);
	return count;
}

struct store_pack store_pack_at(struct store *s, uint32_t number)
{
	pthread_mutex_lock(&s->index->mutex);
	const struct store_pack pack = s->index->packs[number];
	pthread_mutex_unlock(&s->index->mutex);
	return pack;
}

static uint32_t pack_row(const struct store_index *x, const struct store_id *name)
{
	uint32_t row;

	memcpy(&row, name, sizeof(row));
	for (row &= x->rows_count - 1; x->rows[row] != 0; row = (row + 1) & (x->rows_count - 1))
		if (store_id_equal(&x->packs[x->rows[row] - 1].name, name))
			break;
	return row;
}

static void grow_rows(struct store_index *x)
{
	free(x->rows);
	x->rows_count *= 2;
	x->rows = (uint32_t *)store_alloc(x->rows_count * sizeof(*x->rows));
	for (uint32_t i = 0; i < x->packs_count; i++)
		x->rows[pack_row(x, &x->packs[i].name)] = i + 1;
}

/* A pack in several index files is one. */
uint32_t store_index_pack(struct store *s, const struct store_id *name, uint64_t bytes)
{
	struct store_index *x = s->index;

	pthread_mutex_lock(&x->mutex);
	uint32_t row = pack_row(x, name);
	if (x->rows[row] == 0) {
		if (x->packs_count == x->packs_room) {
			x->packs_room = x->packs_room == 0 ? 64 : 2 * x->packs_room;
			x->packs = (struct store_pack *)store_realloc(x->packs, x->packs_room * sizeof(*x->packs));
		}
		x->packs[x->packs_count++] = (struct store_pack){.name = *name, .bytes = bytes};
		x->rows[row] = x->packs_count;
		if (2 * x->packs_count > x->rows_count) {
			grow_rows(x);
			row = pack_row(x, name);
		}
	}
	const uint32_t number = x->rows[row] - 1;
	pthread_mutex_unlock(&x->mutex);
	return number;
}

void store_index_written(struct store *s, uint32_t number)
{
	pthread_mutex_lock(&s->index->mutex);
	s->index->packs[number].written = true;
	pthread_mutex_unlock(&s->index->mutex);
}

/* ---------------------------------------------------------------------------------------------------- index files */

static struct store_entry entry_of(const struct store_header_entry *from, uint32_t pack)
{
	return (struct store_entry){.id = from->id,
				    .pack = pack,
				    .offset = from->offset,
				    .stored = from->stored,
				    .raw = from->raw,
				    .type = from->type,
				    .grouped = from->grouped,
				    .inner = from->inner};
}

/* Adds what `in` lists. */
static int add_blobs(struct store *s, struct store_in *in, uint32_t pack, uint64_t bytes)
{
	struct store_header_entry from;
	struct store_header header;
	uint32_t number;
	int rc = 0;

	store_header_open(&header, in, s->version);
	while (rc >= 0 && store_header_next(&header, &from)) {
		const struct store_entry entry = entry_of(&from, pack);

		if (header.offset > bytes) {
			in->bad = true;
			break;
		}
		rc = store_table_add(s->index->table, &entry, &number);
	}
	return rc < 0 ? rc : 0;
}

int store_index_add(struct store *s, const struct store_id *name, uint64_t bytes, const struct store_buf *header)
{
	struct store_in in = store_in_of(header->data, header->size);
	const int rc = add_blobs(s, &in, store_index_pack(s, name, bytes), bytes);

	if (rc != 0)
		return rc;
	return store_in_done(&in) ? 0 : store_fail(STORE_E_DAMAGED, "the header of a pack is damaged");
}

/* --------------------------------------------------------------------------------------------------- index files */

static int read_index(struct store *s, const struct store_id *name, struct store_buf *body)
{
	char hex[STORE_HEX_BYTES];
	int rc = store_file_get(s, STORE_INDEX, name, body);

	if (rc != 0)
		return rc;
	struct store_in in = store_in_of(body->data, body->size);
	for (uint64_t packs = store_in_count(&in, STORE_ID_BYTES + 2); packs > 0 && rc == 0; packs--) {
		const uint8_t *pack = store_in_bytes(&in, STORE_ID_BYTES);
		const uint64_t bytes = store_in_limited(&in, STORE_PACK_MAX);
		struct store_id id;

		if (in.bad)
			break;
		memcpy(&id, pack, sizeof(id));
		rc = add_blobs(s, &in, store_index_pack(s, &id, bytes), bytes);
	}
	if (rc != 0)
		return rc;
	return store_in_done(&in) ?
		       0 :
		       store_fail(STORE_E_DAMAGED, "index file %.16s is damaged: it is none", store_hex(name, hex));
}

int store_index_load(struct store *s, uint64_t *damaged, void (*tell)(void *user, const char *sentence), void *user)
{
	struct store_buf body = {0};
	struct store_listed *names;
	uint64_t bytes = 0;
	size_t count;
	int rc = store_list_all(s->backend, STORE_INDEX, &names, &count);

	for (size_t i = 0; i < count && rc == 0; i++)
		bytes += names[i].bytes;
	new_index(s, g4_min64(bytes / INDEX_BLOB_BYTES, EXPECTED_MAX));
	for (size_t i = 0; i < count && rc == 0; i++) {
		rc = read_index(s, &names[i].name, &body);
		if (rc ==
		    STORE_E_ABSENT) /* a prune replaced it; prune works alone, so this is a reader without a lock */
			rc = 0;
		if (rc == 0 || rc == STORE_E_VERSION)
			continue;
		if (damaged != NULL) {
			++*damaged;
			tell(user, store_message());
			rc = 0;
		} else {
			rc = store_fail(rc, "%s; 'shredder check --repair' makes a new index from the packs",
					store_message());
		}
	}
	free(names);
	store_buf_free(&body);
	return rc;
}

void store_index_place(struct store *s, uint32_t number, const struct store_header_entry *from, uint32_t pack)
{
	const struct store_entry entry = entry_of(from, pack);

	store_table_place(s->index->table, number, &entry);
}

int store_index_put(struct store *s, uint64_t packs, const struct store_buf *records, struct store_id *name)
{
	struct store_buf body = {0};
	int rc;

	store_buf_varint(&body, packs);
	store_buf_add(&body, records->data, records->size);
	rc = store_file_put(s, STORE_INDEX, &body, name);
	store_buf_free(&body);
	return rc;
}

void store_index_record(struct store_buf *records, const struct store_id *name, uint64_t bytes,
			const struct store_buf *header)
{
	store_buf_add(records, name, STORE_ID_BYTES);
	store_buf_varint(records, bytes);
	store_buf_add(records, header->data, header->size);
}

/* ---- what older index files say */

struct known {
	struct store *s;
	const struct store_id *names;
	size_t count;
	bool *told;
	store_known_fn *each;
	void *user;
};

/* The records of one index file. */
static int tell_known(struct known *k, const struct store_buf *body)
{
	struct store_in in = store_in_of(body->data, body->size);
	int rc = 0;

	for (uint64_t packs = store_in_count(&in, STORE_ID_BYTES + 2); packs > 0 && rc == 0; packs--) {
		const uint8_t *name = store_in_bytes(&in, STORE_ID_BYTES);
		const uint64_t bytes = store_in_limited(&in, STORE_PACK_MAX);
		struct store_buf record = {.data = (uint8_t *)in.at};
		struct store_header_entry entry;
		struct store_header header;

		store_header_open(&header, &in, k->s->version);
		while (store_header_next(&header, &entry))
			;
		if (in.bad || header.offset > bytes)
			break;
		record.size = (size_t)(in.at - record.data);
		const struct store_id *found =
			(const struct store_id *)bsearch(name, k->names, k->count, sizeof(*k->names), store_id_order);
		if (found == NULL || k->told[found - k->names])
			continue;
		k->told[found - k->names] = true;
		rc = k->each(k->user, (size_t)(found - k->names), bytes, &record);
	}
	return rc;
}

int store_index_known(struct store *s, const struct store_id *names, size_t count, store_known_fn *each, void *user)
{
	struct known k = {.s = s, .names = names, .count = count, .each = each, .user = user};
	struct store_buf body = {0};
	struct store_listed *files;
	size_t files_count;
	int rc = store_list_all(s->backend, STORE_INDEX, &files, &files_count);

	k.told = (bool *)store_alloc(count + 1);
	for (size_t i = 0; i < files_count && rc == 0; i++) {
		rc = store_file_get(s, STORE_INDEX, &files[i].name, &body);
		if (rc == 0)
			rc = tell_known(&k, &body);
		else if (rc == STORE_E_ABSENT || store_pack_header_lost(s, rc))
			rc = 0;
	}
	free(k.told);
	free(files);
	store_buf_free(&body);
	return rc;
}

/* ---- writing all of it again */

struct rewriting {
	struct store *s;
	struct store_buf records;
	uint64_t packs;
	struct store_id *names; /* of what was written */
	size_t count;
	struct store_id *lost; /* packs whose header cannot be read */
	size_t lost_count, known;
	char text[STORE_TEXT_BYTES]; /* of the last one of these */
};

static int put_records(struct rewriting *r)
{
	int rc = 0;

	if (r->packs > 0) {
		r->names = (struct store_id *)store_realloc(r->names, (r->count + 1) * sizeof(*r->names));
		rc = store_index_put(r->s, r->packs, &r->records, &r->names[r->count]);
		r->count += rc == 0;
	}
	r->records.size = 0;
	r->packs = 0;
	return rc;
}

static int add_record(struct rewriting *r, const struct store_id *name, uint64_t bytes, const struct store_buf *header)
{
	store_index_record(&r->records, name, bytes, header);
	r->packs++;
	return r->records.size >= STORE_INDEX_BODY_BYTES ? put_records(r) : 0;
}

static int add_known_record(void *user, size_t number, uint64_t bytes, const struct store_buf *header)
{
	struct rewriting *r = (struct rewriting *)user;

	r->known++;
	return add_record(r, &r->lost[number], bytes, header);
}

/* Where no header can be read, what an older index file says of the pack is what is known of it. */
static int add_lost(struct rewriting *r)
{
	int rc;

	if (r->lost_count == 0)
		return 0;
	qsort(r->lost, r->lost_count, sizeof(*r->lost), store_id_order);
	rc = store_index_known(r->s, r->lost, r->lost_count, add_known_record, r);
	return rc != 0 || r->known == r->lost_count ? rc : store_fail(STORE_E_DAMAGED, "%s", r->text);
}

/*
 * A blob that lies in several packs is in the table once, so of the others' headers there are gaps: packs are written with the headers that
 * they have, read again.
 */
int store_index_rewrite(struct store *s, const bool *keep, struct store_id **names, size_t *count)
{
	struct rewriting r = {.s = s};
	struct store_buf header = {0};
	int rc = 0;

	r.lost = (struct store_id *)store_alloc((s->index->packs_count + 1) * sizeof(*r.lost));
	for (uint32_t i = 0; i < s->index->packs_count && rc == 0; i++) {
		const struct store_pack pack = store_pack_at(s, i);

		if (!keep[i])
			continue;
		rc = store_pack_header_get(s, &pack.name, pack.bytes, &header);
		if (rc == 0) {
			rc = add_record(&r, &pack.name, pack.bytes, &header);
		} else if (rc == STORE_E_ABSENT || store_pack_header_lost(s, rc)) {
			snprintf(r.text, sizeof(r.text), "%s", store_message());
			r.lost[r.lost_count++] = pack.name;
			rc = 0;
		}
	}
	if (rc == 0)
		rc = add_lost(&r);
	if (rc == 0)
		rc = put_records(&r);
	*names = r.names;
	*count = r.count;
	free(r.lost);
	store_buf_free(&r.records);
	store_buf_free(&header);
	return rc;
}

/* ------------------------------------------------------------------------------------------------------- shares */

/* Members of a group came one after the other. One that lies elsewhere, too, may not be among them: then the others have its share. */
int store_index_shares(struct store *s, store_share_fn *each, void *user)
{
	const uint64_t blobs = store_index_count(s);
	struct store_entry *run = NULL;
	size_t count = 0, room = 0;
	uint64_t raw = 0;
	int rc = 0;

	for (uint64_t i = 0; i <= blobs && rc == 0; i++) {
		struct store_entry entry = {.pack = STORE_PACK_PENDING};

		if (i < blobs && (rc = store_index_at(s, (uint32_t)i, &entry)) != 0)
			break;
		const bool same = count > 0 && i < blobs && entry.grouped && run[0].grouped &&
				  entry.pack == run[0].pack && entry.offset == run[0].offset;
		if (!same) {
			for (size_t k = 0; k < count; k++)
				each(user, (uint32_t)(i - count + k), &run[k],
				     run[k].grouped ? (uint64_t)run[k].stored * run[k].raw / raw : run[k].stored);
			count = 0;
			raw = 0;
		}
		if (count == room) {
			room = room == 0 ? 64 : 2 * room;
			run = (struct store_entry *)store_realloc(run, room * sizeof(*run));
		}
		run[count++] = entry;
		raw += entry.raw;
	}
	free(run);
	return rc;
}
