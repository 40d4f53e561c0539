/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that were read lately: the kernel asks for 128 KiB at a time, and a chunk has a quarter to two MiB and is authenticated as a whole.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/mounted_parts.h"

#define CACHE_BYTES (64 * G4_MIB)

void mounted_cache_init(struct mounted_cache *c, struct store *s)
{
	memset(c, 0, sizeof(*c));
	c->s = s;
	pthread_rwlock_init(&c->index, NULL);
	pthread_mutex_init(&c->mutex, NULL);
	pthread_cond_init(&c->changed, NULL);
}

void mounted_cache_free(struct mounted_cache *c)
{
	for (size_t i = 0; i < MOUNTED_CACHED; i++)
		store_buf_free(&c->blobs[i].bytes);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->mutex);
	pthread_rwlock_destroy(&c->index);
}

/* With the mutex held. */
static struct mounted_blob *find(struct mounted_cache *c, const struct store_id *id)
{
	for (size_t i = 0; i < MOUNTED_CACHED; i++)
		if (c->blobs[i].used != 0 && store_id_equal(&c->blobs[i].id, id))
			return &c->blobs[i];
	return NULL;
}

static void drop(struct mounted_cache *c, struct mounted_blob *blob)
{
	c->bytes -= blob->bytes.size;
	store_buf_free(&blob->bytes);
	blob->used = 0;
	blob->loading = false;
}

/* With the mutex held: a place for one more, the least lately used ones going for it. NULL: everything is in use. */
static struct mounted_blob *make_room(struct mounted_cache *c, uint64_t bytes)
{
	struct mounted_blob *free_one, *oldest;

	for (;;) {
		free_one = NULL;
		oldest = NULL;
		for (size_t i = 0; i < MOUNTED_CACHED; i++) {
			struct mounted_blob *blob = &c->blobs[i];

			if (blob->used == 0)
				free_one = blob;
			else if (blob->users == 0 && (oldest == NULL || blob->used < oldest->used))
				oldest = blob;
		}
		if ((free_one != NULL && c->bytes + bytes <= CACHE_BYTES) || oldest == NULL)
			return free_one;
		drop(c, oldest);
	}
}

static int load(struct mounted_cache *c, const struct store_part *part, struct store_buf *bytes)
{
	struct store_codec codec;

	store_codec_init(&codec, 0);
	pthread_rwlock_rdlock(&c->index);
	int rc = store_blob_get(c->s, &codec, STORE_DATA, &part->id, bytes);
	pthread_rwlock_unlock(&c->index);
	if (rc == STORE_E_NO_BLOB || rc == STORE_E_ABSENT) { /* a prune has moved it */
		rc = mounted_cache_reload(c);
		pthread_rwlock_rdlock(&c->index);
		if (rc == 0)
			rc = store_blob_get(c->s, &codec, STORE_DATA, &part->id, bytes);
		pthread_rwlock_unlock(&c->index);
	}
	store_codec_free(&codec);
	if (rc == 0 && bytes->size != part->bytes)
		rc = store_fail(STORE_E_DAMAGED, "a chunk does not have the size that its file says");
	return rc;
}

const struct mounted_blob *mounted_cache_get(struct mounted_cache *c, const struct store_part *part)
{
	struct mounted_blob *blob;

	pthread_mutex_lock(&c->mutex);
	for (;;) {
		blob = find(c, &part->id);
		if (blob == NULL && (blob = make_room(c, part->bytes)) != NULL)
			break;
		if (blob != NULL && !blob->loading) {
			blob->users++;
			blob->used = ++c->clock;
			pthread_mutex_unlock(&c->mutex);
			return blob;
		}
		pthread_cond_wait(&c->changed, &c->mutex);
	}
	blob->id = part->id;
	blob->users = 1;
	blob->used = ++c->clock;
	blob->loading = true;
	pthread_mutex_unlock(&c->mutex);
	struct store_buf bytes = {0};
	const int rc = load(c, part, &bytes);
	pthread_mutex_lock(&c->mutex);
	blob->loading = false;
	if (rc == 0) {
		blob->bytes = bytes;
		c->bytes += bytes.size;
	} else {
		store_buf_free(&bytes);
		blob->users = 0;
		drop(c, blob);
	}
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->mutex);
	return rc == 0 ? blob : NULL;
}

void mounted_cache_put(struct mounted_cache *c, const struct mounted_blob *blob)
{
	pthread_mutex_lock(&c->mutex);
	((struct mounted_blob *)blob)->users--;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->mutex);
}

int mounted_cache_reload(struct mounted_cache *c)
{
	pthread_rwlock_wrlock(&c->index);
	const int rc = store_index_load(c->s, NULL, NULL, NULL);
	pthread_rwlock_unlock(&c->index);
	return rc;
}
