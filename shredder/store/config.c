/* SPDX-License-Identifier: Apache-2.0 */
/* What a repository's configuration says: FORMAT.md, section 8. It changes when its parity does. */
#include "store/backend.h"
#include "store/crypto.h"

/* Longest chunk that cutter.c can take. */
#define CHUNK_MAX (2 * G4_MIB)

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
	if (s->version >= 2)
		store_buf_u8(body, (uint8_t)s->parity);
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
	s->parity = s->version >= 2 ? store_in_u8(&in) : 0;
	if (!store_in_done(&in) || s->parity > STORE_PARITY_MOST || shredder_params_complete(&s->params) != 0 ||
	    !params_usable(&s->params))
		return store_fail(STORE_E_DAMAGED, "the configuration is damaged: its parameters are impossible");
	memcpy(s->uuid, uuid, sizeof(s->uuid));
	return 0;
}

int store_config_put(struct store *s)
{
	struct store_buf body = {0};
	struct store_id name;

	encode_config(s, &body);
	const int rc = store_file_put(s, STORE_CONFIG, &body, &name);
	store_buf_free(&body);
	return rc;
}

int store_config_get(struct store *s)
{
	const struct store_id none = {{0}};
	struct store_buf body = {0};
	int rc = store_file_get(s, STORE_CONFIG, &none, &body);

	if (rc == 0)
		rc = decode_config(s, &body);
	store_buf_free(&body);
	return rc;
}

int store_config_parity(struct store *s, uint32_t parity)
{
	const uint32_t old = s->parity;
	struct store_buf body = {0};
	int rc;

	s->parity = parity; /* of the configuration's own file, too */
	encode_config(s, &body);
	rc = s->backend->ops->remote || s->backend->ops->replace == NULL ?
		     store_fail(STORE_E_INVAL,
				"%s: parity can be changed only where the repository's files are: run it "
				"there, on the directory",
				s->backend->path) :
		     store_config_replace(s, &body);
	if (rc != 0)
		s->parity = old;
	store_buf_free(&body);
	return rc;
}
