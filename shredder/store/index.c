/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table: entries in segments that never move, found by open addressing with their numbers; a table at most half full of four-byte
 * slots, so that a blob costs about 60 bytes.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock_host.h"
#include "store/backend.h"
#include "store/index.h"

#define SEGMENT 16384u
#define SLOTS_FIRST 65536u
#define TRAILER_BYTES 16
#define ENTRY_BYTES_MIN (1 + STORE_ID_BYTES + 2)
/* Blobs of one index file, about: 4 MiB. */
#define INDEX_BODY_BYTES (4 * G4_MIB)

static const char trailer_magic[8] = {'p', 'a', 'c', 'k', 'e', 'n', 'd', '\n'};

struct store_index {
	pthread_mutex_t mutex;
	struct store_entry **segments;
	uint64_t count;
	uint32_t *slots; /* number + 1; 0: free */
	uint64_t slots_count;
	struct store_pack *packs;
	uint32_t packs_count, packs_room;
};

void store_index_new(struct store *s)
{
	struct store_index *x = (struct store_index *)store_alloc(sizeof(*x));

	store_index_free(s);
	pthread_mutex_init(&x->mutex, NULL);
	x->slots_count = SLOTS_FIRST;
	x->slots = (uint32_t *)store_alloc(x->slots_count * sizeof(*x->slots));
	s->index = x;
}

void store_index_free(struct store *s)
{
	struct store_index *x = s->index;

	if (x == NULL)
		return;
	for (uint64_t i = 0; i * SEGMENT < x->count; i++)
		free(x->segments[i]);
	free(x->segments);
	free(x->slots);
	free(x->packs);
	pthread_mutex_destroy(&x->mutex);
	free(x);
	s->index = NULL;
}

static struct store_entry *entry_at(const struct store_index *x, uint64_t number)
{
	return &x->segments[number / SEGMENT][number % SEGMENT];
}

/* Ids are as good as random, so their bytes are the hash. */
static uint64_t slot_of(const struct store_index *x, const struct store_id *id)
{
	uint64_t at;

	memcpy(&at, id, sizeof(at));
	for (at &= x->slots_count - 1; x->slots[at] != 0; at = (at + 1) & (x->slots_count - 1))
		if (store_id_equal(&entry_at(x, x->slots[at] - 1)->id, id))
			break;
	return at;
}

static void grow(struct store_index *x)
{
	free(x->slots);
	x->slots_count *= 2;
	x->slots = (uint32_t *)store_alloc(x->slots_count * sizeof(*x->slots));
	for (uint64_t i = 0; i < x->count; i++)
		x->slots[slot_of(x, &entry_at(x, i)->id)] = (uint32_t)i + 1;
}

/* A new entry, in the slot that slot_of() gave. */
static struct store_entry *insert(struct store_index *x, uint64_t slot, const struct store_id *id)
{
	if (x->count % SEGMENT == 0) {
		x->segments = (struct store_entry **)store_realloc(x->segments,
								   (x->count / SEGMENT + 1) * sizeof(*x->segments));
		x->segments[x->count / SEGMENT] = (struct store_entry *)store_alloc(SEGMENT * sizeof(**x->segments));
	}
	x->slots[slot] = (uint32_t)x->count + 1;
	struct store_entry *entry = entry_at(x, x->count++);
	entry->id = *id;
	if (2 * x->count > x->slots_count)
		grow(x);
	return entry;
}

bool store_index_find(struct store *s, const struct store_id *id, uint32_t *number, struct store_entry *entry)
{
	struct store_index *x = s->index;

	pthread_mutex_lock(&x->mutex);
	const uint64_t slot = slot_of(x, id);
	const bool found = x->slots[slot] != 0;
	if (found) {
		*number = x->slots[slot] - 1;
		*entry = *entry_at(x, *number);
	}
	pthread_mutex_unlock(&x->mutex);
	return found;
}

uint64_t store_index_count(struct store *s)
{
	pthread_mutex_lock(&s->index->mutex);
	const uint64_t count = s->index->count;
	pthread_mutex_unlock(&s->index->mutex);
	return count;
}

struct store_entry store_index_at(struct store *s, uint32_t number)
{
	pthread_mutex_lock(&s->index->mutex);
	const struct store_entry entry = *entry_at(s->index, number);
	pthread_mutex_unlock(&s->index->mutex);
	return entry;
}

bool store_index_claim(struct store *s, const struct store_id *id, enum store_blob_type type, uint32_t *number)
{
	struct store_index *x = s->index;

	pthread_mutex_lock(&x->mutex);
	const uint64_t slot = slot_of(x, id);
	const bool fresh = x->slots[slot] == 0;
	if (fresh) {
		struct store_entry *entry = insert(x, slot, id);

		entry->type = (uint8_t)type;
		entry->pack = STORE_PACK_PENDING;
		*number = (uint32_t)(x->count - 1);
	}
	pthread_mutex_unlock(&x->mutex);
	return fresh;
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

/* With the mutex held. */
static uint32_t add_pack(struct store_index *x, const struct store_id *name, uint64_t bytes)
{
	if (x->packs_count == x->packs_room) {
		x->packs_room = x->packs_room == 0 ? 64 : 2 * x->packs_room;
		x->packs = (struct store_pack *)store_realloc(x->packs, x->packs_room * sizeof(*x->packs));
	}
	x->packs[x->packs_count] = (struct store_pack){*name, bytes};
	return x->packs_count++;
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

/* Adds what `in` lists; the pack's number was taken before. With the mutex held. */
static void add_blobs(struct store_index *x, struct store_in *in, uint32_t pack, uint64_t bytes)
{
	struct store_header_entry from;
	uint32_t offset = STORE_PREFIX_BYTES;
	uint64_t count = store_header_begin(in);

	while (count-- > 0 && store_header_next(in, &offset, &from)) {
		const uint64_t slot = slot_of(x, &from.id);

		if (offset > bytes) {
			in->bad = true;
			return;
		}
		if (x->slots[slot] != 0)
			continue;
		struct store_entry *entry = insert(x, slot, &from.id);
		entry->type = from.type;
		entry->pack = pack;
		entry->offset = from.offset;
		entry->stored = from.stored;
		entry->raw = from.raw;
	}
}

int store_index_add(struct store *s, const struct store_id *name, uint64_t bytes, const struct store_buf *header)
{
	struct store_in in = store_in_of(header->data, header->size);

	pthread_mutex_lock(&s->index->mutex);
	add_blobs(s->index, &in, add_pack(s->index, name, bytes), bytes);
	pthread_mutex_unlock(&s->index->mutex);
	return store_in_done(&in) ? 0 : store_fail(STORE_E_DAMAGED, "the header of a pack is damaged");
}

/* --------------------------------------------------------------------------------------------------- index files */

static int by_pack_name(const void *a, const void *b)
{
	return memcmp(&((const struct store_pack *)a)->name, &((const struct store_pack *)b)->name, STORE_ID_BYTES);
}

static int read_index(struct store *s, const struct store_id *name, struct store_buf *body)
{
	struct store_index *x = s->index;
	char hex[STORE_HEX_BYTES];
	int rc = store_file_get(s, STORE_INDEX, name, body);

	if (rc != 0)
		return rc;
	struct store_in in = store_in_of(body->data, body->size);
	pthread_mutex_lock(&x->mutex);
	for (uint64_t packs = store_in_count(&in, STORE_ID_BYTES + 2); packs > 0 && !in.bad; packs--) {
		const uint8_t *pack = store_in_bytes(&in, STORE_ID_BYTES);
		const uint64_t bytes = store_in_limited(&in, STORE_PACK_MAX);
		struct store_id id;

		if (in.bad)
			break;
		memcpy(&id, pack, sizeof(id));
		add_blobs(x, &in, add_pack(x, &id, bytes), bytes);
	}
	pthread_mutex_unlock(&x->mutex);
	return store_in_done(&in) ?
		       0 :
		       store_fail(STORE_E_DAMAGED, "index file %.16s is damaged: it is none", store_hex(name, hex));
}

/* A pack in several index files gets one number; entries keep the first. */
static void unite_packs(struct store_index *x)
{
	struct store_pack *sorted = (struct store_pack *)store_alloc(x->packs_count * sizeof(*sorted));
	uint32_t *number = (uint32_t *)store_alloc(x->packs_count * sizeof(*number));
	uint32_t count = 0;

	if (x->packs_count > 0)
		memcpy(sorted, x->packs, x->packs_count * sizeof(*sorted));
	qsort(sorted, x->packs_count, sizeof(*sorted), by_pack_name);
	for (uint32_t i = 0; i < x->packs_count; i++)
		if (i == 0 || !store_id_equal(&sorted[i].name, &sorted[count - 1].name))
			sorted[count++] = sorted[i];
	for (uint32_t i = 0; i < x->packs_count; i++)
		number[i] = (uint32_t)((struct store_pack *)bsearch(&x->packs[i], sorted, count, sizeof(*sorted),
								    by_pack_name) -
				       sorted);
	for (uint64_t i = 0; i < x->count; i++)
		entry_at(x, i)->pack = number[entry_at(x, i)->pack];
	free(number);
	free(x->packs);
	x->packs = sorted;
	x->packs_room = x->packs_count;
	x->packs_count = count;
}

int store_index_load(struct store *s, uint64_t *damaged, void (*tell)(void *user, const char *sentence), void *user)
{
	struct store_buf body = {0};
	struct store_listed *names;
	size_t count;
	int rc = store_list_all(s->backend, STORE_INDEX, &names, &count);

	store_index_new(s);
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
	if (rc == 0)
		unite_packs(s->index);
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

	if (!store_index_find(s, id, &number, &entry) || entry.type != type)
		return store_fail(STORE_E_NO_BLOB, "the index does not know blob %.16s; 'shredder check' tells more",
				  store_hex(id, hex));
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

		pthread_mutex_lock(&x->mutex);
		const uint32_t pack = add_pack(x, &name, b->bytes.size);
		store_header_begin(&in);
		for (uint32_t i = 0; i < b->count && store_header_next(&in, &offset, &from); i++) {
			struct store_entry *entry = entry_at(x, b->numbers[i]);

			entry->pack = pack;
			entry->offset = from.offset;
			entry->stored = from.stored;
			entry->raw = from.raw;
		}
		pthread_mutex_unlock(&x->mutex);
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
