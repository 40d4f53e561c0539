/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a repository: their prefix, and the protected body of all but packs and keys (FORMAT.md, sections 1 and 2). */
#include <stdio.h>

#include "store/backend.h"
#include "store/crypto.h"
#include "store/mend.h"
#include "store/pack_parity.h"

static const char magic[8] = {'s', 'h', 'r', 'e', 'd', 'd', 'e', 'r'};

const char *store_kind_word(enum store_kind kind)
{
	switch (kind) {
#define KIND_CASE(name, number, folder, what)                                                                          \
	case STORE_##name:                                                                                             \
		return what;
		STORE_KINDS(KIND_CASE)
#undef KIND_CASE
	}
	return "";
}

void store_prefix_make(uint8_t prefix[STORE_PREFIX_BYTES], enum store_kind kind, uint32_t version, bool encrypted)
{
	memset(prefix, 0, STORE_PREFIX_BYTES);
	memcpy(prefix, magic, sizeof(magic));
	prefix[8] = (uint8_t)kind;
	prefix[9] = encrypted ? 1 : 0;
	prefix[10] = (uint8_t)version;
}

int store_prefix_check(const uint8_t *prefix, enum store_kind kind, const char *what, uint32_t *version,
		       bool *encrypted)
{
	uint8_t wanted[STORE_PREFIX_BYTES];

	*version = prefix[10] | (uint32_t)prefix[11] << 8;
	if (memcmp(prefix, magic, sizeof(magic)) != 0)
		return store_fail(STORE_E_DAMAGED, "%s is no file of a repository, or its beginning is damaged", what);
	if (*version > STORE_VERSION)
		return store_fail(STORE_E_VERSION,
				  "%s is of format version %u; this program knows versions up to %d: use a newer one",
				  what, *version, STORE_VERSION);
	*encrypted = (prefix[9] & 1) != 0;
	store_prefix_make(wanted, kind, *version, *encrypted);
	if (*version == 0 || memcmp(prefix, wanted, sizeof(wanted)) != 0)
		return store_fail(STORE_E_DAMAGED, "%s is damaged: its first bytes are not those of a %s", what,
				  store_kind_word(kind));
	return 0;
}

const char *store_describe(enum store_kind kind, const struct store_id *name, char text[80])
{
	char hex[STORE_HEX_BYTES];

	if (kind == STORE_CONFIG)
		snprintf(text, 80, "%s", store_kind_word(kind));
	else
		snprintf(text, 80, "%s %.16s", store_kind_word(kind), store_hex(name, hex));
	return text;
}

int store_raw_get(struct store_backend *backend, enum store_kind kind, const struct store_id *name,
		  struct store_buf *bytes)
{
	uint8_t digest[STORE_ID_BYTES];
	char what[80];
	uint64_t size;
	uint32_t version;
	bool encrypted;
	int rc = backend->ops->size(backend, kind, name, &size);

	store_describe(kind, name, what);
	bytes->size = 0;
	if (rc != 0)
		return rc;
	if (size < STORE_PREFIX_BYTES || size > STORE_PACK_MAX + STORE_PROTECTION_BYTES)
		return store_fail(STORE_E_DAMAGED, "%s is damaged: it has an impossible size", what);
	rc = backend->ops->get(backend, kind, name, 0, store_buf_reserve(bytes, size), size);
	if (rc != 0)
		return rc;
	bytes->size = size;
	rc = store_prefix_check(bytes->data, kind, what, &version, &encrypted);
	if (rc != 0 || kind == STORE_CONFIG)
		return rc;
	store_digest(bytes->data, bytes->size, digest);
	if (memcmp(digest, name, sizeof(digest)) != 0)
		return store_fail(STORE_E_DAMAGED, "%s is damaged: its bytes do not match its name", what);
	return 0;
}

/* Leaves the parity of a file out whose bytes are as they should be. */
static int cut_parity(struct store_buf *bytes, const char *what)
{
	uint64_t own = bytes->size;

	if (bytes->data[10] < STORE_VERSION_PARITY)
		return 0;
	if (!store_parity_split(bytes->data + bytes->size - STORE_PARITY_TAIL_BYTES, bytes->size, &own) ||
	    own < STORE_PREFIX_BYTES)
		return store_fail(STORE_E_DAMAGED, "%s is damaged: its parity has another size", what);
	bytes->size = own;
	return 0;
}

/* The configuration's name says nothing about its bytes, so its parity does, which may be what is damaged. */
static bool config_fits(const struct store_buf *bytes)
{
	return store_parity_fits(bytes->data, bytes->size); /* the version may be what is damaged */
}

int store_own_get(struct store *s, enum store_kind kind, const struct store_id *name, struct store_buf *bytes)
{
	int rc = store_raw_get(s->backend, kind, name, bytes);
	uint32_t version;
	bool encrypted;
	char what[80];

	store_describe(kind, name, what);
	if ((rc != 0 || (kind == STORE_CONFIG && !config_fits(bytes))) &&
	    store_mend_file(s, rc, kind, name, bytes) == STORE_MENDED)
		rc = store_prefix_check(bytes->data, kind, what, &version, &encrypted);
	return rc != 0 ? rc : cut_parity(bytes, what);
}

int store_file_make(struct store *s, enum store_kind kind, const struct store_buf *body, struct store_buf *out,
		    struct store_id *name)
{
	struct store_buf packed = {0}, file = {0};

	if (body->size > STORE_BODY_MAX)
		return store_fail(STORE_E_INVAL, "the %s would be larger than it may be", store_kind_word(kind));
	store_body_pack(body, &packed);
	store_prefix_make(store_buf_reserve(&file, STORE_PREFIX_BYTES), kind, s->version, s->encrypted);
	file.size = STORE_PREFIX_BYTES;
	uint8_t *to = store_buf_reserve(&file, packed.size + STORE_PROTECTION_BYTES);
	store_protect(s->encrypted ? s->file_key : NULL, file.data, STORE_PREFIX_BYTES, packed.data, packed.size, to);
	file.size += packed.size + store_protection_bytes(s->encrypted);
	if (s->parity > 0 && s->version >= STORE_VERSION_PARITY && kind != STORE_LOCK)
		store_parity_append(&file, store_parity_layout(s->version), s->parity);
	memset(name, 0, sizeof(*name));
	if (kind != STORE_CONFIG)
		store_digest(file.data, file.size, name->bytes);
	store_buf_free(&packed);
	*out = file;
	return 0;
}

int store_file_put(struct store *s, enum store_kind kind, const struct store_buf *body, struct store_id *name)
{
	struct store_buf file = {0};
	int rc = store_file_make(s, kind, body, &file, name);

	if (rc == 0)
		rc = s->backend->ops->put(s->backend, kind, name, file.data, file.size);
	store_buf_free(&file);
	return rc;
}

int store_config_replace(struct store *s, const struct store_buf *body)
{
	struct store_buf file = {0};
	struct store_id name;
	int rc = store_file_make(s, STORE_CONFIG, body, &file, &name);

	if (rc == 0)
		rc = s->backend->ops->replace(s->backend, STORE_CONFIG, &name, file.data, file.size);
	store_buf_free(&file);
	return rc;
}

int store_file_get(struct store *s, enum store_kind kind, const struct store_id *name, struct store_buf *body)
{
	struct store_buf file = {0}, packed = {0};
	char what[80];
	int rc = store_own_get(s, kind, name, &file);

	store_describe(kind, name, what);
	if (rc == 0 && ((file.data[9] & 1) != 0) != s->encrypted)
		rc = store_fail(STORE_E_DAMAGED, "%s is %s, unlike the repository: it is not used", what,
				s->encrypted ? "not encrypted" : "encrypted");
	if (rc == 0 && file.data[10] != s->version)
		rc = store_fail(STORE_E_DAMAGED, "%s is of format version %u, unlike the repository: it is not used",
				what, file.data[10]);
	if (rc == 0) {
		uint8_t *to = store_buf_reserve(&packed, file.size);

		if (!store_unprotect(s->encrypted ? s->file_key : NULL, file.data, STORE_PREFIX_BYTES,
				     file.data + STORE_PREFIX_BYTES, file.size - STORE_PREFIX_BYTES, to))
			rc = store_fail(STORE_E_DAMAGED, "%s is damaged: its authentication fails", what);
		else
			packed.size = file.size - STORE_PREFIX_BYTES - store_protection_bytes(s->encrypted);
	}
	if (rc == 0 && (rc = store_body_unpack(packed.data, packed.size, body)) != 0) {
		rc = store_fail(rc, "%s is damaged: %s", what, store_message());
	}
	store_buf_free(&file);
	store_buf_free(&packed);
	return rc;
}
