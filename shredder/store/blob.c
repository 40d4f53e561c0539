/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/backend.h"
#include "store/blob.h"
#include "store/mend.h"

/*
 * Groups that are held, up to 4 MiB each, and hardly ever more than one: the files of a directory that was saved ten times lie in those of ten backups, and
 * a restore comes back to each of them all the time. A thread uses one, while it fills it or copies out of it; of more threads than this some wait.
 */
#define HELD 24

struct held {
	struct store_id pack; /* by name: numbers are other ones when an index is read again */
	uint32_t offset;
	bool valid, loading;
	uint32_t users;
	uint64_t used; /* when */
	struct store_buf raw;
};

struct store_groups {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct held held[HELD];
	uint64_t clock;
};

struct store_groups *store_groups_new(void)
{
	struct store_groups *g = (struct store_groups *)store_alloc(sizeof(*g));

	pthread_mutex_init(&g->mutex, NULL);
	pthread_cond_init(&g->changed, NULL);
	return g;
}

void store_groups_free(struct store_groups *g)
{
	if (g == NULL)
		return;
	for (size_t i = 0; i < HELD; i++)
		store_buf_free(&g->held[i].raw);
	pthread_cond_destroy(&g->changed);
	pthread_mutex_destroy(&g->mutex);
	free(g);
}

/* A blob's stored form; of one in a group, the group's. */
static int get_stored(struct store *s, const struct store_entry *entry, struct store_buf *out)
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

/* With the mutex held: the group, or a place for it, which has `loading` set; waits while all are in use. */
static struct held *find(struct store_groups *g, const struct store_id *pack, uint32_t offset)
{
	for (;;) {
		struct held *oldest = NULL;
		bool wait = false;

		for (size_t i = 0; i < HELD; i++) {
			struct held *h = &g->held[i];
			const bool same = h->offset == offset && store_id_equal(&h->pack, pack);

			if (same && h->valid)
				return h;
			wait = wait || (same && h->loading);
			if (h->users == 0 && !h->loading && (oldest == NULL || h->used < oldest->used))
				oldest = h;
		}
		if (!wait && oldest != NULL) {
			oldest->pack = *pack;
			oldest->offset = offset;
			oldest->valid = false;
			oldest->loading = true;
			return oldest;
		}
		pthread_cond_wait(&g->changed, &g->mutex);
	}
}

/* What get_stored() gave, or failed to give, as it is in the mended pack; its reader authenticates it. */
static bool mend_stored(struct store *s, int rc, const struct store_entry *entry, struct store_buf *stored)
{
	if (entry->pack == STORE_PACK_PENDING)
		return false;
	const struct store_pack pack = store_pack_at(s, entry->pack);
	stored->size = 0;
	if (!store_mend_range(s, rc, &pack.name, entry->offset, store_buf_reserve(stored, entry->stored),
			      entry->stored))
		return false;
	stored->size = entry->stored;
	return true;
}

static int load(struct store *s, struct store_codec *codec, const struct store_entry *entry, struct store_buf *raw)
{
	char text[STORE_TEXT_BYTES];
	struct store_buf stored = {0};
	int rc = get_stored(s, entry, &stored);

	if (rc == 0)
		rc = store_group_unprotect(s, codec, stored.data, stored.size, raw);
	if (rc != 0) {
		const int first = rc;

		snprintf(text, sizeof(text), "%s", store_message());
		if (mend_stored(s, rc, entry, &stored))
			rc = store_group_unprotect(s, codec, stored.data, stored.size, raw);
		if (rc != 0)
			rc = store_fail(first, "%s", text);
	}
	store_buf_free(&stored);
	return rc;
}

/* A group that stays until give_group(). */
static int take_group(struct store *s, struct store_codec *codec, const struct store_entry *entry, struct held **out)
{
	const struct store_pack pack = store_pack_at(s, entry->pack);
	struct store_groups *g = s->groups;
	int rc = 0;

	pthread_mutex_lock(&g->mutex);
	struct held *h = find(g, &pack.name, entry->offset);
	if (!h->valid) {
		pthread_mutex_unlock(&g->mutex);
		rc = load(s, codec, entry, &h->raw);
		pthread_mutex_lock(&g->mutex);
		h->loading = false;
		h->valid = rc == 0;
		pthread_cond_broadcast(&g->changed);
	}
	if (rc == 0) {
		h->users++;
		h->used = ++g->clock;
		*out = h;
	}
	pthread_mutex_unlock(&g->mutex);
	return rc;
}

static void give_group(struct store_groups *g, struct held *h)
{
	pthread_mutex_lock(&g->mutex);
	if (--h->users == 0)
		pthread_cond_broadcast(&g->changed);
	pthread_mutex_unlock(&g->mutex);
}

static int get_grouped(struct store *s, struct store_codec *codec, const struct store_entry *entry,
		       struct store_buf *out)
{
	char hex[STORE_HEX_BYTES];
	struct held *h;
	int rc;

	out->size = 0;
	if (entry->pack == STORE_PACK_PENDING)
		return store_fail(STORE_E_NO_BLOB, "blob %.16s is not written yet", store_hex(&entry->id, hex));
	rc = take_group(s, codec, entry, &h);
	if (rc != 0)
		return rc;
	if ((uint64_t)entry->inner + entry->raw <= h->raw.size)
		store_buf_add(out, h->raw.data + entry->inner, entry->raw);
	else
		rc = store_fail(STORE_E_DAMAGED, "blob %.16s is damaged: it lies outside of its group",
				store_hex(&entry->id, hex));
	give_group(s->groups, h);
	return rc != 0 ? rc : store_blob_verify(s, (enum store_blob_type)entry->type, &entry->id, out->data, out->size);
}

int store_blob_open(struct store *s, struct store_codec *codec, const struct store_entry *entry,
		    struct store_buf *stored, struct store_buf *out)
{
	const enum store_blob_type type = (enum store_blob_type)entry->type;
	char text[STORE_TEXT_BYTES];
	int rc = get_stored(s, entry, stored);

	if (rc == 0)
		rc = store_blob_unprotect(s, codec, type, &entry->id, stored->data, stored->size, entry->raw, out);
	if (rc != 0) {
		const int first = rc;

		snprintf(text, sizeof(text), "%s", store_message());
		if (mend_stored(s, rc, entry, stored))
			rc = store_blob_unprotect(s, codec, type, &entry->id, stored->data, stored->size, entry->raw,
						  out);
		if (rc != 0)
			rc = store_fail(first, "%s", text);
	}
	return rc;
}

static int get_single(struct store *s, struct store_codec *codec, const struct store_entry *entry,
		      struct store_buf *out)
{
	struct store_buf stored = {0};
	const int rc = store_blob_open(s, codec, entry, &stored, out);

	store_buf_free(&stored);
	return rc;
}

int store_blob_get(struct store *s, struct store_codec *codec, enum store_blob_type type, const struct store_id *id,
		   struct store_buf *out)
{
	struct store_entry entry;
	char hex[STORE_HEX_BYTES], text[STORE_TEXT_BYTES];
	uint32_t number;
	int rc = store_index_find(s, id, &number, &entry);

	if (rc == 0 && entry.type != type)
		rc = store_fail(STORE_E_NO_BLOB, "blob %.16s is of another type", store_hex(id, hex));
	if (rc == 0)
		rc = entry.grouped ? get_grouped(s, codec, &entry, out) : get_single(s, codec, &entry, out);
	if (rc == STORE_E_DAMAGED) {
		const struct store_pack pack = store_pack_at(s, entry.pack);

		snprintf(text, sizeof(text), "%s", store_message());
		rc = store_fail(rc, "%s (in pack %.16s)", text, store_hex(&pack.name, hex));
	}
	return rc;
}

int store_blob_open_in(const struct store *s, struct store_codec *codec, const struct store_header_entry *entry,
		       const struct store_buf *pack, struct store_buf *out, bool *whole)
{
	const enum store_blob_type type = (enum store_blob_type)entry->type;
	const uint8_t *stored = pack->data + entry->offset;
	char hex[STORE_HEX_BYTES];

	if ((uint64_t)entry->offset + entry->stored > pack->size) {
		*whole = *whole && !entry->grouped;
		return store_fail(STORE_E_DAMAGED, "blob %.16s is damaged: its pack ends before it",
				  store_hex(&entry->id, hex));
	}
	if (!entry->grouped)
		return store_blob_unprotect(s, codec, type, &entry->id, stored, entry->stored, entry->raw, out);
	if (entry->inner == 0) {
		const int rc = store_group_unprotect(s, codec, stored, entry->stored, out);

		*whole = rc == 0;
		if (rc != 0)
			return rc;
	}
	if (!*whole)
		return STORE_E_DAMAGED;
	if ((uint64_t)entry->inner + entry->raw > out->size)
		return store_fail(STORE_E_DAMAGED, "blob %.16s is damaged: it lies outside of its group",
				  store_hex(&entry->id, hex));
	return store_blob_verify(s, type, &entry->id, out->data + entry->inner, entry->raw);
}
