/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, names, sealed files, making and opening a repository. */
#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/uuid_host.h"
#include "chunk/rule.h"
#include "store/backend.h"
#include "store/crypto.h"
#include "store/index.h"
#include "store/keys.h"

#define MASK_BITS 18
#define SECRET_DEGREE 63
/* Longest chunk that cutter.c can take. */
#define CHUNK_MAX (2 * G4_MIB)

static _Thread_local char message[STORE_TEXT_BYTES];

int store_fail(int code, const char *format, ...)
{
	char text[STORE_TEXT_BYTES]; /* the old message may be an argument */
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	memcpy(message, text, sizeof(message));
	return code;
}

const char *store_message(void)
{
	return message;
}

const char *store_hex(const struct store_id *id, char text[STORE_HEX_BYTES])
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < STORE_ID_BYTES; i++) {
		text[2 * i] = digits[id->bytes[i] >> 4];
		text[2 * i + 1] = digits[id->bytes[i] & 15];
	}
	text[STORE_HEX_BYTES - 1] = 0;
	return text;
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool store_unhex(const char *text, struct store_id *id)
{
	if (strlen(text) != STORE_HEX_BYTES - 1)
		return false;
	for (int i = 0; i < STORE_ID_BYTES; i++) {
		if (digit(text[2 * i]) < 0 || digit(text[2 * i + 1]) < 0)
			return false;
		id->bytes[i] = (uint8_t)(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
	}
	return true;
}

const char *store_kind_name(enum store_kind kind)
{
	switch (kind) {
#define KIND_CASE(name, number, folder, what)                                                                          \
	case STORE_##name:                                                                                             \
		return folder;
		STORE_KINDS(KIND_CASE)
#undef KIND_CASE
	}
	return "";
}

static const char *kind_word(enum store_kind kind)
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

struct store_time store_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (struct store_time){now.tv_sec, (uint32_t)now.tv_nsec};
}

void store_host(char host[65])
{
	struct utsname names;

	snprintf(host, 65, "%.64s", uname(&names) == 0 ? names.nodename : "");
}

void store_user(char user[65])
{
	const struct passwd *entry = getpwuid(geteuid());

	if (entry != NULL)
		snprintf(user, 65, "%.64s", entry->pw_name);
	else
		snprintf(user, 65, "%ld", (long)geteuid());
}

/* -------------------------------------------------------------------------------------------------- sealed files */

static const char magic[8] = {'s', 'h', 'r', 'e', 'd', 'd', 'e', 'r'};

void store_prefix_make(uint8_t prefix[STORE_PREFIX_BYTES], enum store_kind kind, bool encrypted)
{
	memset(prefix, 0, STORE_PREFIX_BYTES);
	memcpy(prefix, magic, sizeof(magic));
	prefix[8] = (uint8_t)kind;
	prefix[9] = encrypted ? 1 : 0;
	prefix[10] = STORE_VERSION;
}

int store_prefix_check(const uint8_t *prefix, enum store_kind kind, const char *what, bool *encrypted)
{
	const uint32_t version = prefix[10] | (uint32_t)prefix[11] << 8;
	uint8_t wanted[STORE_PREFIX_BYTES];

	if (memcmp(prefix, magic, sizeof(magic)) != 0)
		return store_fail(STORE_E_DAMAGED, "%s is no file of a repository, or its beginning is damaged", what);
	if (version > STORE_VERSION)
		return store_fail(STORE_E_VERSION,
				  "%s is of format version %u; this program knows versions up to %d: use a newer one",
				  what, version, STORE_VERSION);
	*encrypted = (prefix[9] & 1) != 0;
	store_prefix_make(wanted, kind, *encrypted);
	if (memcmp(prefix, wanted, sizeof(wanted)) != 0)
		return store_fail(STORE_E_DAMAGED, "%s is damaged: its first bytes are not those of a %s", what,
				  kind_word(kind));
	return 0;
}

/* "snapshot 0123456789abcdef" */
static const char *describe(enum store_kind kind, const struct store_id *name, char text[80])
{
	char hex[STORE_HEX_BYTES];

	if (kind == STORE_CONFIG)
		snprintf(text, 80, "%s", kind_word(kind));
	else
		snprintf(text, 80, "%s %.16s", kind_word(kind), store_hex(name, hex));
	return text;
}

int store_raw_get(struct store_backend *backend, enum store_kind kind, const struct store_id *name,
		  struct store_buf *bytes)
{
	uint8_t digest[STORE_ID_BYTES];
	char what[80];
	uint64_t size;
	bool encrypted;
	int rc = backend->ops->size(backend, kind, name, &size);

	describe(kind, name, what);
	bytes->size = 0;
	if (rc != 0)
		return rc;
	if (size < STORE_PREFIX_BYTES || size > STORE_PACK_MAX + STORE_SEAL_BYTES)
		return store_fail(STORE_E_DAMAGED, "%s is damaged: it has an impossible size", what);
	rc = backend->ops->get(backend, kind, name, 0, store_buf_reserve(bytes, size), size);
	if (rc != 0)
		return rc;
	bytes->size = size;
	rc = store_prefix_check(bytes->data, kind, what, &encrypted);
	if (rc != 0 || kind == STORE_CONFIG)
		return rc;
	store_digest(bytes->data, bytes->size, digest);
	if (memcmp(digest, name, sizeof(digest)) != 0)
		return store_fail(STORE_E_DAMAGED, "%s is damaged: its bytes do not match its name", what);
	return 0;
}

int store_file_put(struct store *s, enum store_kind kind, const struct store_buf *body, struct store_id *name)
{
	struct store_buf packed = {0}, file = {0};
	int rc;

	if (body->size > STORE_BODY_MAX)
		return store_fail(STORE_E_INVAL, "the %s would be larger than it may be", kind_word(kind));
	store_body_pack(body, &packed);
	store_prefix_make(store_buf_reserve(&file, STORE_PREFIX_BYTES), kind, s->encrypted);
	file.size = STORE_PREFIX_BYTES;
	uint8_t *to = store_buf_reserve(&file, packed.size + STORE_SEAL_BYTES);
	store_seal(s->encrypted ? s->file_key : NULL, file.data, STORE_PREFIX_BYTES, packed.data, packed.size, to);
	file.size += packed.size + store_seal_bytes(s->encrypted);
	memset(name, 0, sizeof(*name));
	if (kind != STORE_CONFIG)
		store_digest(file.data, file.size, name->bytes);
	rc = s->backend->ops->put(s->backend, kind, name, file.data, file.size);
	store_buf_free(&packed);
	store_buf_free(&file);
	return rc;
}

int store_file_get(struct store *s, enum store_kind kind, const struct store_id *name, struct store_buf *body)
{
	struct store_buf file = {0}, packed = {0};
	char what[80];
	int rc = store_raw_get(s->backend, kind, name, &file);

	describe(kind, name, what);
	if (rc == 0 && ((file.data[9] & 1) != 0) != s->encrypted)
		rc = store_fail(STORE_E_DAMAGED, "%s is %s, unlike the repository: it is not used", what,
				s->encrypted ? "not encrypted" : "encrypted");
	if (rc == 0) {
		uint8_t *to = store_buf_reserve(&packed, file.size);

		if (!store_unseal(s->encrypted ? s->file_key : NULL, file.data, STORE_PREFIX_BYTES,
				  file.data + STORE_PREFIX_BYTES, file.size - STORE_PREFIX_BYTES, to))
			rc = store_fail(STORE_E_DAMAGED, "%s is damaged: its authentication fails", what);
		else
			packed.size = file.size - STORE_PREFIX_BYTES - store_seal_bytes(s->encrypted);
	}
	if (rc == 0 && (rc = store_body_unpack(packed.data, packed.size, body)) != 0) {
		rc = store_fail(rc, "%s is damaged: %s", what, store_message());
	}
	store_buf_free(&file);
	store_buf_free(&packed);
	return rc;
}

/* ------------------------------------------------------------------------------------------------------- opening */

/* A marker that no run of one byte value has: such runs are cut at the maximum only. */
static void choose_marker(struct shredder_params *p)
{
	const uint64_t mask = (UINT64_C(1) << p->mask_bits) - 1;
	uint8_t window[SHREDDER_WINDOW_BYTES];
	struct shredder_rule rule;
	bool taken = true;

	shredder_rule_init(&rule, p);
	while (taken) {
		store_random(&p->marker, sizeof(p->marker));
		p->marker &= mask;
		taken = p->marker == 0; /* which would mean the default */
		for (int byte = 0; byte < 256 && !taken; byte++) {
			memset(window, byte, sizeof(window));
			taken = (shredder_fingerprint(&rule, window) & mask) == p->marker;
		}
	}
}

static void choose_params(struct shredder_params *p, bool secret)
{
	memset(p, 0, sizeof(*p));
	p->size = sizeof(*p);
	p->algorithm = SHREDDER_RABIN;
	p->mask_bits = MASK_BITS;
	while (secret && !shredder_polynomial_is_irreducible(p->polynomial)) {
		store_random(&p->polynomial, sizeof(p->polynomial));
		p->polynomial |= UINT64_C(1) << SECRET_DEGREE | 1;
	}
	shredder_params_complete(p);
	if (secret)
		choose_marker(p);
}

static void encode_config(const struct store *s, struct store_buf *body)
{
	store_buf_add(body, s->uuid, sizeof(s->uuid));
	store_buf_u64(body, (uint64_t)s->created);
	store_buf_u8(body, (uint8_t)s->params.algorithm);
	store_buf_u8(body, (uint8_t)s->params.mask_bits);
	store_buf_u64(body, s->params.polynomial);
	store_buf_u64(body, s->params.marker);
	store_buf_u64(body, s->params.min_bytes);
	store_buf_u64(body, s->params.max_bytes);
}

/* Files are chunked piece by piece, which gives a stream's cuts because no window reaches beyond a minimum (backup.c). */
static bool params_usable(const struct shredder_params *p)
{
	return p->algorithm == SHREDDER_RABIN && p->min_bytes >= SHREDDER_WINDOW_BYTES && p->max_bytes <= CHUNK_MAX;
}

static int decode_config(struct store *s, const struct store_buf *body)
{
	struct store_in in = store_in_of(body->data, body->size);
	const uint8_t *uuid = store_in_bytes(&in, sizeof(s->uuid));

	s->created = (int64_t)store_in_u64(&in);
	memset(&s->params, 0, sizeof(s->params));
	s->params.size = sizeof(s->params);
	s->params.algorithm = store_in_u8(&in);
	s->params.mask_bits = store_in_u8(&in);
	s->params.polynomial = store_in_u64(&in);
	s->params.marker = store_in_u64(&in);
	s->params.min_bytes = store_in_u64(&in);
	s->params.max_bytes = store_in_u64(&in);
	if (!store_in_done(&in) || shredder_params_complete(&s->params) != 0 || !params_usable(&s->params))
		return store_fail(STORE_E_DAMAGED, "the configuration is damaged: its parameters are impossible");
	memcpy(s->uuid, uuid, sizeof(s->uuid));
	return 0;
}

void store_close(struct store *s)
{
	if (s == NULL)
		return;
	store_unlock(s);
	store_index_free(s);
	if (s->backend != NULL)
		s->backend->ops->close(s->backend);
	store_wipe(s, sizeof(*s));
	free(s);
}

int store_backend_at(const struct store_place *place, struct store_backend **out)
{
	if (strncmp(place->path, STORE_REST_PREFIX, strlen(STORE_REST_PREFIX)) == 0)
		return store_backend_rest(place, out);
	*out = store_backend_local(place->path);
	return 0;
}

/* Config comes last: without it there is no repository. */
int store_create(const struct store_place *place, const struct store_secret *secret,
		 const struct shredder_params *params, struct store **out)
{
	struct store *s = (struct store *)store_alloc(sizeof(*s));
	struct store_buf body = {0};
	struct store_id name;
	int rc = store_crypto_init();

	if (rc == 0)
		rc = store_backend_at(place, &s->backend);
	s->encrypted = secret != NULL;
	if (rc == 0)
		rc = s->backend->ops->create(s->backend);
	if (rc == 0 && g4_uuid_random(s->uuid) != 0)
		rc = store_fail(STORE_E_IO, "the system gives no random numbers");
	if (rc == 0) {
		store_random(s->master, sizeof(s->master));
		store_derive(s);
		s->created = store_now().seconds;
		if (params != NULL)
			s->params = *params;
		else
			choose_params(&s->params, s->encrypted);
		encode_config(s, &body);
		rc = s->encrypted ? store_key_add(s, secret, &s->key_name) : 0;
	}
	if (rc == 0)
		rc = store_file_put(s, STORE_CONFIG, &body, &name);
	store_buf_free(&body);
	if (rc != 0) {
		store_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

static int open_config(struct store *s, store_ask_fn *ask, void *user)
{
	struct store_buf raw = {0}, body = {0};
	struct store_secret secret = {0};
	struct store_id none = {0};
	int rc = store_raw_get(s->backend, STORE_CONFIG, &none, &raw);

	if (rc == 0) {
		s->encrypted = (raw.data[9] & 1) != 0;
		if (s->encrypted && ask == NULL)
			rc = store_fail(STORE_E_INVAL, "%s is encrypted; leave --no-encryption out", s->backend->path);
		else if (!s->encrypted && ask != NULL)
			rc = store_fail(STORE_E_INVAL,
					"%s is not encrypted; if that is as it should be, say --no-encryption",
					s->backend->path);
	}
	if (rc == 0 && s->encrypted && (rc = ask(user, &secret)) == 0)
		rc = store_key_find(s, &secret);
	if (rc == 0)
		rc = store_file_get(s, STORE_CONFIG, &none, &body);
	if (rc == 0)
		rc = decode_config(s, &body);
	store_buf_free(&raw);
	store_buf_free(&body);
	return rc;
}

int store_open(const struct store_place *place, store_ask_fn *ask, void *user, struct store **out)
{
	struct store_backend *backend;
	int rc = store_crypto_init();

	if (rc == 0)
		rc = store_backend_at(place, &backend);
	return rc == 0 ? store_open_backend(backend, ask, user, out) : rc;
}

int store_open_backend(struct store_backend *backend, store_ask_fn *ask, void *user, struct store **out)
{
	struct store *s = (struct store *)store_alloc(sizeof(*s));
	int rc;

	s->backend = backend;
	rc = backend->ops->open(backend);
	if (rc == 0)
		rc = open_config(s, ask, user);
	if (rc != 0) {
		store_close(s);
		return rc;
	}
	*out = s;
	return 0;
}
