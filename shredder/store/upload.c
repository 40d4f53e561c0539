/* SPDX-License-Identifier: Apache-2.0 */
#include "store/upload.h"

int store_upload_begin(struct store_upload *u, struct store_backend *backend, enum store_kind kind)
{
	memset(u, 0, sizeof(*u));
	u->backend = backend;
	u->kind = kind;
	return backend->ops->begin != NULL ? backend->ops->begin(backend, &u->incoming) : 0;
}

int store_upload_add(struct store_upload *u, const void *data, size_t bytes)
{
	if (u->incoming != NULL)
		return u->backend->ops->add(u->backend, u->incoming, data, bytes);
	store_buf_add(&u->bytes, data, bytes);
	return 0;
}

int store_upload_end(struct store_upload *u, const struct store_id *name)
{
	int rc;

	if (u->incoming != NULL)
		rc = u->backend->ops->end(u->backend, u->incoming, u->kind, name);
	else
		rc = u->backend->ops->put(u->backend, u->kind, name, u->bytes.data, u->bytes.size);
	u->incoming = NULL;
	store_buf_free(&u->bytes);
	return rc;
}

void store_upload_abandon(struct store_upload *u)
{
	if (u->incoming != NULL)
		u->backend->ops->end(u->backend, u->incoming, u->kind, NULL);
	u->incoming = NULL;
	store_buf_free(&u->bytes);
}
