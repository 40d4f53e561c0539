/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "store/backend.h"
#include "store/crypto.h"
#include "store/pack.h"
#include "store/pack_parity.h"

#define TRAILER_BYTES 16
#define ENTRY_BYTES_MIN (1 + STORE_ID_BYTES + 1)
enum { KIND_GROUP = 3 }; /* beside the types of blobs */

static const char trailer_magic[8] = {'p', 'a', 'c', 'k', 'e', 'n', 'd', '\n'};

/* ------------------------------------------------------------------------------------------------------- headers */

void store_header_open(struct store_header *h, struct store_in *in, uint32_t version)
{
	*h = (struct store_header){.in = in,
				   .version = version,
				   .offset = STORE_PREFIX_BYTES,
				   .left = store_in_count(in, ENTRY_BYTES_MIN)};
}

static bool spoil(struct store_header *h)
{
	h->in->bad = true;
	return false;
}

static bool blob_type(uint8_t type)
{
	return type == STORE_DATA || type == STORE_TREE;
}

static bool next_member(struct store_header *h, struct store_header_entry *entry)
{
	const uint8_t type = store_in_u8(h->in);
	const uint8_t *id = store_in_bytes(h->in, STORE_ID_BYTES);
	const uint32_t raw = (uint32_t)store_in_limited(h->in, STORE_GROUP_MAX);

	if (h->in->bad || !blob_type(type) || raw == 0 || raw > STORE_GROUP_MAX - h->inner)
		return spoil(h);
	*entry = (struct store_header_entry){.type = type,
					     .grouped = true,
					     .offset = h->offset,
					     .stored = h->group_stored,
					     .raw = raw,
					     .inner = h->inner};
	memcpy(&entry->id, id, STORE_ID_BYTES);
	h->inner += raw;
	h->left--;
	if (--h->group_left == 0)
		h->offset += h->group_stored;
	return true;
}

bool store_header_next(struct store_header *h, struct store_header_entry *entry)
{
	if (h->left == 0 || h->in->bad)
		return false;
	if (h->group_left > 0)
		return next_member(h, entry);
	const uint8_t kind = store_in_u8(h->in);
	if (kind == KIND_GROUP && h->version >= 2) {
		h->group_stored = (uint32_t)store_in_limited(h->in, STORE_PACK_MAX - h->offset);
		h->group_left = store_in_limited(h->in, h->left);
		h->inner = 0;
		return h->in->bad || h->group_left == 0 ? spoil(h) : next_member(h, entry);
	}
	const uint8_t *id = store_in_bytes(h->in, STORE_ID_BYTES);
	*entry = (struct store_header_entry){.type = kind, .offset = h->offset};
	entry->stored = (uint32_t)store_in_limited(h->in, STORE_PACK_MAX - h->offset);
	entry->raw = (uint32_t)store_in_limited(h->in, STORE_BLOB_MAX);
	if (h->in->bad || !blob_type(kind) || entry->raw == 0)
		return spoil(h);
	memcpy(&entry->id, id, STORE_ID_BYTES);
	h->offset += entry->stored;
	h->left--;
	return true;
}

void store_header_add_blob(struct store_buf *header, uint8_t type, const struct store_id *id, uint64_t stored,
			   uint64_t raw)
{
	store_buf_u8(header, type);
	store_buf_add(header, id, STORE_ID_BYTES);
	store_buf_varint(header, stored);
	store_buf_varint(header, raw);
}

void store_header_add_group(struct store_buf *header, uint64_t stored, uint64_t count)
{
	store_buf_u8(header, KIND_GROUP);
	store_buf_varint(header, stored);
	store_buf_varint(header, count);
}

void store_header_add_member(struct store_buf *header, uint8_t type, const struct store_id *id, uint64_t raw)
{
	store_buf_u8(header, type);
	store_buf_add(header, id, STORE_ID_BYTES);
	store_buf_varint(header, raw);
}

/* Blobs of a header must end where the header begins. */
static int check_header(const struct store *s, const struct store_buf *body, uint64_t header_at, const char *what)
{
	struct store_in in = store_in_of(body->data, body->size);
	struct store_header_entry entry;
	struct store_header header;

	store_header_open(&header, &in, s->version);
	while (store_header_next(&header, &entry))
		;
	if (!store_in_done(&in) || header.offset != header_at)
		return store_fail(STORE_E_DAMAGED, "%s is damaged: its header does not fit its blobs", what);
	return 0;
}

/* --------------------------------------------------------------------------------------------------------- packs */

void store_pack_end(const struct store *s, const uint8_t prefix[STORE_PREFIX_BYTES], const struct store_buf *body,
		    struct store_buf *out)
{
	struct store_buf packed = {0};

	store_body_pack(body, &packed);
	const uint32_t protected_data = (uint32_t)(packed.size + store_protection_bytes(s->encrypted));
	uint8_t *to = store_buf_reserve(out, protected_data);
	store_protect(s->encrypted ? s->file_key : NULL, prefix, STORE_PREFIX_BYTES, packed.data, packed.size, to);
	out->size += protected_data;
	store_buf_u32(out, protected_data);
	store_buf_u32(out, 0);
	store_buf_add(out, trailer_magic, sizeof(trailer_magic));
	store_buf_free(&packed);
}

/* From the last bytes of a pack of `bytes` bytes: where the protected header begins. */
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

/* From the last bytes of a file of *bytes bytes: those of the pack in it, before its parity. */
static int own_bytes(const uint8_t *tail, const char *what, uint64_t *bytes)
{
	G4_STATIC_ASSERT(TRAILER_BYTES == STORE_PARITY_TAIL_BYTES, "one read gives either");
	if (!store_parity_split(tail, *bytes, bytes) || *bytes < STORE_PREFIX_BYTES + TRAILER_BYTES)
		return store_fail(STORE_E_DAMAGED, "%s is damaged: its parity has another size", what);
	return 0;
}

static int open_header(const struct store *s, const uint8_t *prefix, const uint8_t *protected_data, size_t bytes,
		       uint64_t header_at, const char *what, struct store_buf *body)
{
	struct store_buf packed = {0};
	bool encrypted;
	uint32_t version;
	int rc = store_prefix_check(prefix, STORE_PACK, what, &version, &encrypted);

	uint8_t *to = store_buf_reserve(&packed, bytes);
	if (rc == 0 && encrypted != s->encrypted)
		rc = store_fail(STORE_E_DAMAGED, "%s is %s, unlike the repository", what,
				encrypted ? "encrypted" : "not encrypted");
	if (rc == 0 && version != s->version)
		rc = store_fail(STORE_E_DAMAGED, "%s is of format version %u, unlike the repository", what, version);
	if (rc == 0 &&
	    !store_unprotect(s->encrypted ? s->file_key : NULL, prefix, STORE_PREFIX_BYTES, protected_data, bytes, to))
		rc = store_fail(STORE_E_DAMAGED, "%s is damaged: the authentication of its header fails", what);
	if (rc == 0 && (rc = store_body_unpack(packed.data, bytes - store_protection_bytes(s->encrypted), body)) != 0)
		rc = store_fail(rc, "%s is damaged: of its header, %s", what, store_message());
	if (rc == 0)
		rc = check_header(s, body, header_at, what);
	store_buf_free(&packed);
	return rc;
}

int store_pack_header(const struct store *s, const uint8_t *pack, size_t bytes, const char *what,
		      struct store_buf *body)
{
	uint64_t own = bytes, at = 0;

	if (bytes < STORE_PREFIX_BYTES + TRAILER_BYTES || bytes > STORE_PACK_MAX)
		return store_fail(STORE_E_DAMAGED, "%s is damaged: it has an impossible size", what);
	int rc = own_bytes(pack + bytes - TRAILER_BYTES, what, &own);
	if (rc == 0)
		rc = header_place(pack + own - TRAILER_BYTES, own, what, &at);
	return rc != 0 ? rc : open_header(s, pack, pack + at, own - TRAILER_BYTES - at, at, what, body);
}

int store_pack_header_get(struct store *s, const struct store_id *name, uint64_t bytes, struct store_buf *body)
{
	const struct store_backend_ops *ops = s->backend->ops;
	uint8_t prefix[STORE_PREFIX_BYTES], trailer[TRAILER_BYTES];
	const uint64_t file_bytes = bytes;
	char what[80], hex[STORE_HEX_BYTES];
	struct store_buf protected_data = {0};
	uint64_t at = 0;
	int rc;

	snprintf(what, sizeof(what), "pack %.16s", store_hex(name, hex));
	if (bytes < STORE_PREFIX_BYTES + TRAILER_BYTES || bytes > STORE_PACK_MAX)
		return store_fail(STORE_E_DAMAGED, "%s is damaged: it has an impossible size", what);
	rc = ops->get(s->backend, STORE_PACK, name, 0, prefix, sizeof(prefix));
	if (rc == 0)
		rc = ops->get(s->backend, STORE_PACK, name, bytes - TRAILER_BYTES, trailer, sizeof(trailer));
	if (rc == 0)
		rc = own_bytes(trailer, what, &bytes);
	if (rc == 0 && bytes != file_bytes)
		rc = ops->get(s->backend, STORE_PACK, name, bytes - TRAILER_BYTES, trailer, sizeof(trailer));
	if (rc == 0)
		rc = header_place(trailer, bytes, what, &at);
	if (rc == 0) {
		const size_t size = bytes - TRAILER_BYTES - at;

		rc = ops->get(s->backend, STORE_PACK, name, at, store_buf_reserve(&protected_data, size), size);
		if (rc == 0)
			rc = open_header(s, prefix, protected_data.data, size, at, what, body);
	}
	store_buf_free(&protected_data);
	return rc;
}

bool store_pack_header_lost(const struct store *s, int rc)
{
	return rc == STORE_E_DAMAGED || rc == STORE_E_VERSION || (rc == STORE_E_IO && !s->backend->ops->remote);
}
