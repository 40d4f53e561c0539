/* SPDX-License-Identifier: Apache-2.0 */
/* Making and opening a repository; everything else here is below this. */
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/uuid_host.h"
#include "chunk/rule.h"
#include "store/backend.h"
#include "store/blob.h"
#include "store/crypto.h"
#include "store/index.h"
#include "store/keys.h"
#include "store/mend.h"

#define MASK_BITS 18
#define SECRET_DEGREE 63

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

void store_close(struct store *s)
{
	if (s == NULL)
		return;
	store_unlock(s);
	store_index_free(s);
	store_groups_free(s->groups);
	store_mends_free(s->mends);
	if (s->backend != NULL)
		s->backend->ops->close(s->backend);
	store_wipe(s, sizeof(*s));
	free(s);
}

/*
 * As other programs name what is not a directory ("s3:...", "S3:...", "my-remote:...", "user@host:..."), with nothing there of that name. Whoever takes
 * it for a place that is far away must not get a directory.
 */
static bool is_elsewhere(const char *path)
{
	const size_t bytes = strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-._@");
	struct stat there;

	return bytes > 1 && path[0] != '.' && path[bytes] == ':' && lstat(path, &there) != 0;
}

/* Schemes of addresses have no case. */
static bool is_rest(const char *path)
{
	return strncasecmp(path, STORE_REST_PREFIX, strlen(STORE_REST_PREFIX)) == 0;
}

int store_backend_at(const struct store_place *place, struct store_backend **out)
{
	if (is_rest(place->path))
		return store_backend_rest(place, out);
	if (is_elsewhere(place->path))
		return store_fail(STORE_E_INVAL,
				  "'%s' names a kind of place that there is not: a repository is a directory, or "
				  "%sADDRESS; a directory of such a name is ./%s",
				  place->path, STORE_REST_PREFIX, place->path);
	*out = store_backend_local(place->path);
	return 0;
}

int store_create(const struct store_place *place, const struct store_secret *secret,
		 const struct shredder_params *params, struct store **out)
{
	return store_create_as(place, secret, params, &(struct store_form){.version = STORE_VERSION}, out);
}

/* Config comes last: without it there is no repository. */
int store_create_as(const struct store_place *place, const struct store_secret *secret,
		    const struct shredder_params *params, const struct store_form *form, struct store **out)
{
	struct store *s = (struct store *)store_alloc(sizeof(*s));
	int rc = store_crypto_init();

	if (rc == 0)
		rc = store_backend_at(place, &s->backend);
	s->version = form->version;
	s->parity = form->parity;
	s->groups = store_groups_new();
	s->mends = store_mends_new();
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
		rc = s->encrypted ? store_key_add(s, secret, &s->key_name) : 0;
	}
	if (rc == 0)
		rc = store_config_put(s);
	if (rc != 0) {
		store_close(s);
		return rc;
	}
	*out = s;
	return 0;
}

static int open_config(struct store *s, store_ask_fn *ask, void *user)
{
	struct store_buf raw = {0};
	struct store_secret secret = {0};
	struct store_id none = {0};
	int rc = store_own_get(s, STORE_CONFIG, &none, &raw);

	if (rc == 0) {
		s->version = raw.data[10];
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
		rc = store_config_get(s);
	store_buf_free(&raw);
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
	s->groups = store_groups_new();
	s->mends = store_mends_new();
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
