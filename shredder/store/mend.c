/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/backend.h"
#include "store/crypto.h"
#include "store/mend.h"
#include "store/pack_parity.h"

/* Of what a disk can read, or not. */
#define SECTOR_BYTES 4096u

struct store_mends {
	atomic_bool any;
	pthread_mutex_t mutex;
	struct store_id pack; /* the last one that was tried */
	bool tried, there;
	struct store_buf bytes; /* of it, as far as it could be mended */
};

struct store_mends *store_mends_new(void)
{
	struct store_mends *m = (struct store_mends *)store_alloc(sizeof(*m));

	pthread_mutex_init(&m->mutex, NULL);
	return m;
}

void store_mends_free(struct store_mends *m)
{
	if (m == NULL)
		return;
	store_buf_free(&m->bytes);
	pthread_mutex_destroy(&m->mutex);
	free(m);
}

bool store_mends_any(struct store *s)
{
	return atomic_load(&s->mends->any);
}

/* What mending may help against. */
static bool may_help(const struct store *s, int rc)
{
	return rc == 0 || rc == STORE_E_DAMAGED || rc == STORE_E_VERSION ||
	       (rc == STORE_E_IO && !s->backend->ops->remote);
}

/* What can be read of a file that cannot be read as a whole, zeros for the rest. False when that is nothing. */
static bool read_around(const struct store *s, enum store_kind kind, const struct store_id *name,
			struct store_buf *bytes)
{
	const struct store_backend_ops *ops = s->backend->ops;
	bool any = false;
	uint64_t size;

	bytes->size = 0;
	if (ops->size(s->backend, kind, name, &size) != 0 || size < STORE_PREFIX_BYTES || size > STORE_PACK_MAX)
		return false;
	uint8_t *to = store_buf_reserve(bytes, size);
	if (ops->remote) {
		any = ops->get(s->backend, kind, name, 0, to, size) == 0;
		bytes->size = any ? size : 0;
		return any;
	}
	for (uint64_t at = 0; at < size; at += SECTOR_BYTES) {
		const size_t part = (size_t)g4_min64(SECTOR_BYTES, size - at);

		if (ops->get(s->backend, kind, name, at, to + at, part) == 0)
			any = true;
		else
			memset(to + at, 0, part);
	}
	bytes->size = any ? size : 0;
	return any;
}

/* Its bytes are those of its name: what is wrong with it is something else. */
static bool is_whole(enum store_kind kind, const struct store_id *name, const struct store_buf *bytes)
{
	struct store_id digest;

	store_digest(bytes->data, bytes->size, digest.bytes);
	return kind != STORE_CONFIG && store_id_equal(&digest, name);
}

enum store_mended store_mend_file(struct store *s, int rc, enum store_kind kind, const struct store_id *name,
				  struct store_buf *bytes)
{
	char text[STORE_TEXT_BYTES];
	enum store_mended mended = STORE_MENDED_NOT;

	if (!may_help(s, rc) || kind == STORE_LOCK)
		return STORE_MENDED_NOT;
	snprintf(text, sizeof(text), "%s", store_message());
	const bool there = (rc != STORE_E_IO && bytes->size > 0) || read_around(s, kind, name, bytes);
	if (there && !is_whole(kind, name, bytes))
		mended = store_parity_mend(bytes->data, bytes->size, kind == STORE_CONFIG ? NULL : name);
	if (mended == STORE_MENDED)
		atomic_store(&s->mends->any, true);
	else
		store_fail(rc, "%s", text);
	return mended;
}

/* With the mutex held. A pack may be whole: then its place in the index is wrong, or reading works now. */
static void try_pack(struct store *s, const struct store_id *pack)
{
	struct store_mends *m = s->mends;

	m->pack = *pack;
	m->tried = true;
	m->there = read_around(s, STORE_PACK, pack, &m->bytes);
	if (m->there && !is_whole(STORE_PACK, pack, &m->bytes) &&
	    store_parity_mend(m->bytes.data, m->bytes.size, pack) != STORE_MENDED_NOT)
		atomic_store(&m->any, true);
}

bool store_mend_range(struct store *s, int rc, const struct store_id *pack, uint64_t offset, void *to, size_t bytes)
{
	struct store_mends *m = s->mends;
	char text[STORE_TEXT_BYTES];

	if (s->parity == 0 || !may_help(s, rc))
		return false;
	snprintf(text, sizeof(text), "%s", store_message());
	pthread_mutex_lock(&m->mutex);
	if (!m->tried || !store_id_equal(&m->pack, pack))
		try_pack(s, pack);
	const bool there = m->there && offset <= m->bytes.size && bytes <= m->bytes.size - offset;
	if (there)
		memcpy(to, m->bytes.data + offset, bytes);
	pthread_mutex_unlock(&m->mutex);
	if (!there)
		store_fail(rc, "%s", text);
	return there;
}
