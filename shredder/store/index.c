/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock_host.h"
#include "store/backend.h"
#include "store/index.h"

#define TRAILER_BYTES 16
#define ENTRY_BYTES_MIN (1 + STORE_ID_BYTES + 2)
/* Blobs of one index file, about: 4 MiB. */
#define INDEX_BODY_BYTES (4 * G4_MIB)

static const char trailer_magic[8] = {'p', 'a', 'c', 'k', 'e', 'n', 'd', '\n'};

/* Of a blob in an index file: its id and hardly more, since ids cannot be compressed. */
#define INDEX_BLOB_BYTES 36
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
	const struct store_entry entry = {.id = *id, .pack = STORE_PACK_PENDING, .type = (uint8_t)type};

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

/* The number of a pack, which it gets if it has none: a pack in several index files is one. */
static uint32_t add_pack(struct store_index *x, const struct store_id *name, uint64_t bytes)
{
	pthread_mutex_lock(&x->mutex);
	uint32_t row = pack_row(x, name);
	if (x->rows[row] == 0) {
		if (x->packs_count == x->packs_room) {
			x->packs_room = x->packs_room == 0 ? 64 : 2 * x->packs_room;
			x->packs = (struct store_pack *)store_realloc(x->packs, x->packs_room * sizeof(*x->packs));
		}
		x->packs[x->packs_count++] = (struct store_pack){*name, bytes};
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

/* ------------------------------------------------------------------------------------------------------- headers */

uint64_t store_header_begin(struct store_in *in)
{
	return store_in_count(in, ENTRY_BYTES_MIN);
}

bool store_header_next(struct store_in *in, uint32_t *offset, struct store_header_entry *entry)
{
	entry->type = store_in_u8(in);
	const uint8_t *id = store_in_bytes(in, STORE_ID_BYTES);
	entry->stored = (uint32_t)store_in_limited(in, STORE_PACK_MAX);
	entry->raw = (uint32_t)store_in_limited(in, STORE_BLOB_MAX);
	entry->offset = *offset;
	if (in->bad || (entry->type != STORE_DATA && entry->type != STORE_TREE) || entry->raw == 0 ||
	    entry->stored > STORE_PACK_MAX - *offset) {
		in->bad = true;
		return false;
	}
	memcpy(&entry->id, id, STORE_ID_BYTES);
	*offset += entry->stored;
	return true;
}

/* Blobs of a header must end where the header begins. */
static int check_header(const struct store_buf *body, uint64_t header_at, const char *what)
{
	struct store_in in = store_in_of(body->data, body->size);
	struct store_header_entry entry;
	uint32_t offset = STORE_PREFIX_BYTES;
	uint64_t count = store_header_begin(&in);

	while (count-- > 0 && store_header_next(&in, &offset, &entry))
		;
	if (!store_in_done(&in) || offset != header_at)
		return store_fail(STORE_E_DAMAGED, "%s is damaged: its header does not fit its blobs", what);
	return 0;
}

/* From the last bytes of a pack of `bytes` bytes: where the sealed header begins. */
static int header_place(const uint8_t *trailer, uint64_t bytes, const char *what, uint64_t *at)
{
	uint32_t header_bytes, zeros;

	memcpy(&header_bytes, trailer, sizeof(header_bytes));
	memcpy(&zeros, trailer + 4, sizeof(zeros));
	if (memcmp(trailer + 8, trailer_magic, sizeof(trailer_magic)) != 0 || zeros != 0 ||
	    header_bytes > bytes - STORE_PREFIX_BYTES - TRAILER_BYTES)
		return store_fail(STORE_E_DAMAGED, "%s is damaged: it has no end", what);
	*at = bytes - TRAILER_BYTES - header_bytes;
	return 0;
}

static int open_header(const struct store *s, const uint8_t *prefix, const uint8_t *sealed, size_t bytes,
		       uint64_t header_at, const char *what, struct store_buf *body)
{
	struct store_buf packed = {0};
	bool encrypted;
	int rc = store_prefix_check(prefix, STORE_PACK, what, &encrypted);

	uint8_t *to = store_buf_reserve(&packed, bytes);
	if (rc == 0 && encrypted != s->encrypted)
		rc = store_fail(STORE_E_DAMAGED, "%s is %s, unlike the repository", what,
				encrypted ? "encrypted" : "not encrypted");
	if (rc == 0 && !store_unseal(s->encrypted ? s->file_key : NULL, prefix, STORE_PREFIX_BYTES, sealed, bytes, to))
		rc = store_fail(STORE_E_DAMAGED, "%s is damaged: the authentication of its header fails", what);
	if (rc == 0 && (rc = store_body_unpack(packed.data, bytes - store_seal_bytes(s->encrypted), body)) != 0)
		rc = store_fail(rc, "%s is damaged: of its header, %s", what, store_message());
	if (rc == 0)
		rc = check_header(body, header_at, what);
	store_buf_free(&packed);
	return rc;
}

int store_pack_header(const struct store *s, const uint8_t *pack, size_t bytes, const char *what,
		      struct store_buf *body)
{
	uint64_t at = 0;

	if (bytes < STORE_PREFIX_BYTES + TRAILER_BYTES || bytes > STORE_PACK_MAX)
		return store_fail(STORE_E_DAMAGED, "%s is damaged: it has an impossible size", what);
	const int rc = header_place(pack + bytes - TRAILER_BYTES, bytes, what, &at);
	return rc != 0 ? rc : open_header(s, pack, pack + at, bytes - TRAILER_BYTES - at, at, what, body);
}

int store_pack_header_get(struct store *s, const struct store_id *name, uint64_t bytes, struct store_buf *body)
{
	const struct store_backend_ops *ops = s->backend->ops;
	uint8_t prefix[STORE_PREFIX_BYTES], trailer[TRAILER_BYTES];
	char what[80], hex[STORE_HEX_BYTES];
	struct store_buf sealed = {0};
	uint64_t at = 0;
	int rc;

	snprintf(what, sizeof(what), "pack %.16s", store_hex(name, hex));
	if (bytes < STORE_PREFIX_BYTES + TRAILER_BYTES || bytes > STORE_PACK_MAX)
		return store_fail(STORE_E_DAMAGED, "%s is damaged: it has an impossible size", what);
	rc = ops->get(s->backend, STORE_PACK, name, 0, prefix, sizeof(prefix));
	if (rc == 0)
		rc = ops->get(s->backend, STORE_PACK, name, bytes - TRAILER_BYTES, trailer, sizeof(trailer));
	if (rc == 0)
		rc = header_place(trailer, bytes, what, &at);
	if (rc == 0) {
		const size_t size = bytes - TRAILER_BYTES - at;

		rc = ops->get(s->backend, STORE_PACK, name, at, store_buf_reserve(&sealed, size), size);
		if (rc == 0)
			rc = open_header(s, prefix, sealed.data, size, at, what, body);
	}
	store_buf_free(&sealed);
	return rc;
}

/* Adds what `in` lists. */
static int add_blobs(struct store_index *x, struct store_in *in, uint32_t pack, uint64_t bytes)
{
	struct store_header_entry from;
	uint32_t offset = STORE_PREFIX_BYTES, number;
	uint64_t count = store_header_begin(in);
	int rc = 0;

	while (rc >= 0 && count-- > 0 && store_header_next(in, &offset, &from)) {
		const struct store_entry entry = {.id = from.id,
						  .pack = pack,
						  .offset = from.offset,
						  .stored = from.stored,
						  .raw = from.raw,
						  .type = from.type};

		if (offset > bytes) {
			in->bad = true;
			break;
		}
		rc = store_table_add(x->table, &entry, &number);
	}
	return rc < 0 ? rc : 0;
}

int store_index_add(struct store *s, const struct store_id *name, uint64_t bytes, const struct store_buf *header)
{
	struct store_in in = store_in_of(header->data, header->size);
	const int rc = add_blobs(s->index, &in, add_pack(s->index, name, bytes), bytes);

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
		rc = add_blobs(s->index, &in, add_pack(s->index, &id, bytes), bytes);
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
		    STORE_E_ABSENT) /* whoever pruned replaced it; prune works alone, so this is a reader without a lock */
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

static int put_index(struct store *s, uint64_t packs, const struct store_buf *records, struct store_id **names,
		     size_t *count)
{
	struct store_buf body = {0};
	struct store_id name;
	int rc;

	store_buf_varint(&body, packs);
	store_buf_add(&body, records->data, records->size);
	rc = store_file_put(s, STORE_INDEX, &body, &name);
	store_buf_free(&body);
	if (rc == 0) {
		*names = (struct store_id *)store_realloc(*names, (*count + 1) * sizeof(**names));
		(*names)[(*count)++] = name;
	}
	return rc;
}

/*
 * A blob that lies in several packs is in the table once, so of the others' headers there are gaps: packs are written with the headers that
 * they have, read again.
 */
int store_index_rewrite(struct store *s, const bool *keep, struct store_id **names, size_t *count)
{
	struct store_buf records = {0}, header = {0};
	uint64_t packs = 0;
	int rc = 0;

	*names = NULL;
	*count = 0;
	for (uint32_t i = 0; i < s->index->packs_count && rc == 0; i++) {
		const struct store_pack pack = store_pack_at(s, i);

		if (!keep[i])
			continue;
		rc = store_pack_header_get(s, &pack.name, pack.bytes, &header);
		if (rc != 0)
			break;
		store_buf_add(&records, &pack.name, STORE_ID_BYTES);
		store_buf_varint(&records, pack.bytes);
		store_buf_add(&records, header.data, header.size);
		packs++;
		if (records.size >= INDEX_BODY_BYTES) {
			rc = put_index(s, packs, &records, names, count);
			records.size = 0;
			packs = 0;
		}
	}
	if (rc == 0 && packs > 0)
		rc = put_index(s, packs, &records, names, count);
	store_buf_free(&records);
	store_buf_free(&header);
	return rc;
}

/* --------------------------------------------------------------------------------------------------------- blobs */

int store_blob_raw(struct store *s, const struct store_entry *entry, struct store_buf *out)
{
	char hex[STORE_HEX_BYTES];

	out->size = 0;
	if (entry->pack == STORE_PACK_PENDING)
		return store_fail(STORE_E_NO_BLOB, "blob %.16s is not written yet", store_hex(&entry->id, hex));
	const struct store_pack pack = store_pack_at(s, entry->pack);
	const int rc = s->backend->ops->get(s->backend, STORE_PACK, &pack.name, entry->offset,
					    store_buf_reserve(out, entry->stored), entry->stored);
	if (rc == 0)
		out->size = entry->stored;
	return rc;
}

int store_blob_get(struct store *s, struct store_codec *codec, enum store_blob_type type, const struct store_id *id,
		   struct store_buf *out)
{
	struct store_buf stored = {0};
	struct store_entry entry;
	char hex[STORE_HEX_BYTES], text[STORE_TEXT_BYTES];
	uint32_t number;
	int rc;

	rc = store_index_find(s, id, &number, &entry);
	if (rc == 0 && entry.type != type)
		rc = store_fail(STORE_E_NO_BLOB, "blob %.16s is of another type", store_hex(id, hex));
	if (rc == 0)
		rc = store_blob_raw(s, &entry, &stored);
	if (rc == 0)
		rc = store_blob_unseal(s, codec, type, id, stored.data, stored.size, entry.raw, out);
	store_buf_free(&stored);
	if (rc == STORE_E_DAMAGED) {
		const struct store_pack pack = store_pack_at(s, entry.pack);

		snprintf(text, sizeof(text), "%s", store_message());
		rc = store_fail(rc, "%s (in pack %.16s)", text, store_hex(&pack.name, hex));
	}
	return rc;
}

/* -------------------------------------------------------------------------------------------------------- packer */

#define BUFFERS 4 /* filled for data, for trees; waiting or written */
#define INDEX_EVERY_NS (UINT64_C(30) * 1000000000)

struct pack_buffer {
	struct store_buf bytes;	 /* the pack */
	struct store_buf header; /* entries */
	uint32_t *numbers;
	uint32_t count, room;
	struct pack_buffer *next;
};

struct store_packer {
	struct store *s;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct pack_buffer *open[3]; /* by type */
	struct pack_buffer *free, *full, **full_end;
	pthread_t writer;
	bool ending, abandoned, joined;
	int rc; /* of the writer */
	char text[STORE_TEXT_BYTES];
	uint64_t written;

	/* the writer's */
	struct store_buf records;
	uint64_t records_packs, records_ns;
};

static int write_index(struct store_packer *p)
{
	struct store_id *names = NULL;
	size_t count = 0;
	int rc = 0;

	if (p->records_packs > 0)
		rc = put_index(p->s, p->records_packs, &p->records, &names, &count);
	free(names);
	pthread_mutex_lock(&p->mutex);
	p->written += p->records.size;
	pthread_mutex_unlock(&p->mutex);
	p->records.size = 0;
	p->records_packs = 0;
	p->records_ns = g4_clock_ns(CLOCK_MONOTONIC);
	return rc;
}

static void close_pack(struct store *s, struct pack_buffer *b, struct store_buf *body)
{
	struct store_buf packed = {0};

	body->size = 0;
	store_buf_varint(body, b->count);
	store_buf_add(body, b->header.data, b->header.size);
	store_body_pack(body, &packed);
	const uint32_t sealed = (uint32_t)(packed.size + store_seal_bytes(s->encrypted));
	uint8_t *to = store_buf_reserve(&b->bytes, sealed);
	store_seal(s->encrypted ? s->file_key : NULL, b->bytes.data, STORE_PREFIX_BYTES, packed.data, packed.size, to);
	b->bytes.size += sealed;
	store_buf_u32(&b->bytes, sealed);
	store_buf_u32(&b->bytes, 0);
	store_buf_add(&b->bytes, trailer_magic, sizeof(trailer_magic));
	store_buf_free(&packed);
}

/* The pack is durable before the table says that its blobs are. */
static int write_pack(struct store_packer *p, struct pack_buffer *b)
{
	struct store_index *x = p->s->index;
	struct store_header_entry from;
	struct store_buf body = {0};
	struct store_id name;
	uint32_t offset = STORE_PREFIX_BYTES;

	close_pack(p->s, b, &body);
	store_digest(b->bytes.data, b->bytes.size, name.bytes);
	const int rc = p->s->backend->ops->put(p->s->backend, STORE_PACK, &name, b->bytes.data, b->bytes.size);
	if (rc == 0) {
		struct store_in in = store_in_of(body.data, body.size);

		const uint32_t pack = add_pack(x, &name, b->bytes.size);
		store_header_begin(&in);
		for (uint32_t i = 0; i < b->count && store_header_next(&in, &offset, &from); i++)
			store_table_place(x->table, b->numbers[i], pack, from.offset, from.stored, from.raw);
		store_buf_add(&p->records, &name, STORE_ID_BYTES);
		store_buf_varint(&p->records, b->bytes.size);
		store_buf_add(&p->records, body.data, body.size);
		p->records_packs++;
		pthread_mutex_lock(&p->mutex);
		p->written += b->bytes.size;
		pthread_mutex_unlock(&p->mutex);
	}
	store_buf_free(&body);
	return rc;
}

static void *write_packs(void *user)
{
	struct store_packer *p = (struct store_packer *)user;
	int rc = 0;

	p->records_ns = g4_clock_ns(CLOCK_MONOTONIC);
	pthread_mutex_lock(&p->mutex);
	while (rc == 0) {
		struct pack_buffer *b = p->full;

		if (p->abandoned || (b == NULL && p->ending))
			break;
		if (b == NULL) {
			pthread_cond_wait(&p->changed, &p->mutex);
			continue;
		}
		p->full = b->next;
		if (p->full == NULL)
			p->full_end = &p->full;
		pthread_mutex_unlock(&p->mutex);
		rc = write_pack(p, b);
		if (rc == 0 && (p->records.size >= INDEX_BODY_BYTES ||
				g4_clock_ns(CLOCK_MONOTONIC) - p->records_ns > INDEX_EVERY_NS))
			rc = write_index(p);
		pthread_mutex_lock(&p->mutex);
		b->next = p->free;
		p->free = b;
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

struct store_packer *store_packer_open(struct store *s)
{
	struct store_packer *p = (struct store_packer *)store_alloc(sizeof(*p));

	p->s = s;
	p->full_end = &p->full;
	pthread_mutex_init(&p->mutex, NULL);
	pthread_cond_init(&p->changed, NULL);
	for (int i = 0; i < BUFFERS; i++) {
		struct pack_buffer *b = (struct pack_buffer *)store_alloc(sizeof(*b));

		b->next = p->free;
		p->free = b;
	}
	if (pthread_create(&p->writer, NULL, write_packs, p) != 0) {
		p->rc = store_fail(STORE_E_IO, "a thread cannot be started");
		snprintf(p->text, sizeof(p->text), "%s", store_message());
		p->joined = true;
	}
	return p;
}

/* With the mutex held. */
static void hand_over(struct store_packer *p, enum store_blob_type type)
{
	struct pack_buffer *b = p->open[type];

	p->open[type] = NULL;
	b->next = NULL;
	*p->full_end = b;
	p->full_end = &b->next;
	pthread_cond_broadcast(&p->changed);
}

static void begin_pack(struct store_packer *p, struct pack_buffer *b)
{
	b->bytes.size = 0;
	b->header.size = 0;
	b->count = 0;
	if (b->bytes.room == 0)
		store_buf_reserve(&b->bytes, STORE_PACK_BYTES + STORE_PACK_BYTES / 8);
	store_prefix_make(store_buf_reserve(&b->bytes, STORE_PREFIX_BYTES), STORE_PACK, p->s->encrypted);
	b->bytes.size = STORE_PREFIX_BYTES;
}

int store_packer_add(struct store_packer *p, enum store_blob_type type, uint32_t number, const struct store_id *id,
		     const struct store_buf *stored, uint64_t raw_bytes)
{
	pthread_mutex_lock(&p->mutex);
	while (p->rc == 0 && p->open[type] == NULL && p->free == NULL)
		pthread_cond_wait(&p->changed, &p->mutex);
	if (p->rc != 0) {
		pthread_mutex_unlock(&p->mutex);
		return store_fail(p->rc, "%s", p->text);
	}
	if (p->open[type] == NULL) {
		p->open[type] = p->free;
		p->free = p->free->next;
		begin_pack(p, p->open[type]);
	}
	struct pack_buffer *b = p->open[type];
	store_buf_add(&b->bytes, stored->data, stored->size);
	store_buf_u8(&b->header, (uint8_t)type);
	store_buf_add(&b->header, id, STORE_ID_BYTES);
	store_buf_varint(&b->header, stored->size);
	store_buf_varint(&b->header, raw_bytes);
	if (b->count == b->room) {
		b->room = b->room == 0 ? 64 : 2 * b->room;
		b->numbers = (uint32_t *)store_realloc(b->numbers, b->room * sizeof(*b->numbers));
	}
	b->numbers[b->count++] = number;
	if (b->bytes.size >= STORE_PACK_BYTES)
		hand_over(p, type);
	pthread_mutex_unlock(&p->mutex);
	return 0;
}

static void end_writer(struct store_packer *p, bool abandoned)
{
	if (p->joined)
		return;
	pthread_mutex_lock(&p->mutex);
	p->abandoned = abandoned;
	for (int type = STORE_DATA; type <= STORE_TREE; type++)
		if (p->open[type] != NULL && !abandoned)
			hand_over(p, (enum store_blob_type)type);
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

static void free_buffers(struct pack_buffer *b)
{
	while (b != NULL) {
		struct pack_buffer *next = b->next;

		store_buf_free(&b->bytes);
		store_buf_free(&b->header);
		free(b->numbers);
		free(b);
		b = next;
	}
}

void store_packer_close(struct store_packer *p)
{
	end_writer(p, true);
	free_buffers(p->free);
	free_buffers(p->full);
	for (int type = STORE_DATA; type <= STORE_TREE; type++)
		if (p->open[type] != NULL) {
			p->open[type]->next = NULL;
			free_buffers(p->open[type]);
		}
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
