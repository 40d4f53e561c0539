/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checking: keys, index, packs against the index, all directories of all snapshots, and with read_data every blob. Nothing is
 * believed because something else said so: a pack's header is compared with the index, a blob's id with its content.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/backend.h"
#include "store/crew.h"
#include "store/crypto.h"
#include "store/index.h"
#include "store/maintain.h"
#include "store/marks.h"
#include "store/pack_parity.h"

/* Of what a disk can read, or not. */
#define SECTOR_BYTES 4096u

struct check {
	struct store *s;
	const struct store_check_options *options;
	struct store_check_result *result;
	pthread_mutex_t mutex;
	atomic_uint next_pack;
	atomic_ullong blobs, bytes;
};

static void problem(void *user, const char *sentence)
{
	struct check *c = (struct check *)user;

	pthread_mutex_lock(&c->mutex);
	c->result->problems++;
	c->options->problem(c->options->user, sentence);
	pthread_mutex_unlock(&c->mutex);
}

__attribute__((format(printf, 2, 3))) static void problem_format(struct check *c, const char *format, ...)
{
	char text[STORE_TEXT_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	problem(c, text);
}

static int by_name(const void *a, const void *b)
{
	return memcmp(&((const struct store_listed *)a)->name, &((const struct store_listed *)b)->name, STORE_ID_BYTES);
}

/* Packs of the index against those that are there. */
static int check_packs(struct check *c)
{
	struct store_listed *names;
	size_t count, known = 0;
	char hex[STORE_HEX_BYTES];
	int rc = store_list_all(c->s->backend, STORE_PACK, &names, &count);

	if (rc != 0)
		return rc;
	c->result->packs = store_pack_count(c->s);
	for (uint32_t i = 0; i < c->result->packs; i++) {
		const struct store_pack pack = store_pack_at(c->s, i);
		struct store_listed key = {.name = pack.name};
		const struct store_listed *found =
			count == 0 ? NULL :
				     (const struct store_listed *)bsearch(&key, names, count, sizeof(*names), by_name);

		known += found != NULL;
		if (found == NULL)
			problem_format(c, "pack %.16s is missing", store_hex(&pack.name, hex));
		else if (found->bytes != pack.bytes)
			problem_format(c, "pack %.16s has %llu bytes, not %llu", store_hex(&pack.name, hex),
				       (unsigned long long)found->bytes, (unsigned long long)pack.bytes);
	}
	c->result->unknown_packs = count - known;
	free(names);
	return 0;
}

/* False after a sentence. Of a group that cannot be opened one is enough. */
static bool open_blob(const struct check *c, struct store_codec *codec, const struct store_header_entry *entry,
		      const uint8_t *bytes, struct store_buf *out, bool *whole)
{
	const enum store_blob_type type = (enum store_blob_type)entry->type;
	char hex[STORE_HEX_BYTES];

	if (!entry->grouped)
		return store_blob_unseal(c->s, codec, type, &entry->id, bytes + entry->offset, entry->stored,
					 entry->raw, out) == 0;
	if (entry->inner == 0) {
		*whole = store_group_unseal(c->s, codec, bytes + entry->offset, entry->stored, out) == 0;
		if (!*whole)
			return false;
	}
	if (!*whole)
		return true;
	if ((uint64_t)entry->inner + entry->raw > out->size) {
		store_fail(STORE_E_DAMAGED, "blob %.16s is damaged: it lies outside of its group",
			   store_hex(&entry->id, hex));
		return false;
	}
	return store_blob_verify(c->s, type, &entry->id, out->data + entry->inner, entry->raw) == 0;
}

/* The blobs that a header names against the index; `pack` may hold their bytes, or be NULL. */
static void check_blobs(struct check *c, struct store_codec *codec, const struct store_pack *pack,
			const struct store_buf *header, const uint8_t *bytes, struct store_buf *out)
{
	struct store_in in = store_in_of(header->data, header->size);
	struct store_header_entry entry;
	struct store_header cursor;
	struct store_entry known;
	char hex[STORE_HEX_BYTES], blob[STORE_HEX_BYTES];
	uint32_t number;
	bool whole = true; /* the group that `out` has */

	store_header_open(&cursor, &in, c->s->version);
	while (store_header_next(&cursor, &entry)) {
		const int rc = store_index_find(c->s, &entry.id, &number, &known);

		if (rc != 0 && rc != STORE_E_NO_BLOB)
			problem(c, store_message());
		else if (rc != 0 || known.type != entry.type || known.raw != entry.raw)
			problem_format(c, "blob %.16s of pack %.16s is not in the index, or otherwise",
				       store_hex(&entry.id, blob), store_hex(&pack->name, hex));
		if (bytes != NULL && !open_blob(c, codec, &entry, bytes, out, &whole))
			problem_format(c, "%s (in pack %.16s)", store_message(), store_hex(&pack->name, hex));
		atomic_fetch_add(&c->blobs, 1);
	}
}

static void check_pack(struct check *c, struct store_codec *codec, const struct store_pack *pack,
		       struct store_buf *whole, struct store_buf *header, struct store_buf *out)
{
	char hex[STORE_HEX_BYTES], what[80];
	int rc;

	snprintf(what, sizeof(what), "pack %.16s", store_hex(&pack->name, hex));
	if (!c->options->read_data) {
		rc = store_pack_header_get(c->s, &pack->name, pack->bytes, header);
		if (rc == 0)
			check_blobs(c, codec, pack, header, NULL, out);
		else if (rc != STORE_E_ABSENT) /* which was told before */
			problem(c, store_message());
		return;
	}
	rc = store_raw_get(c->s->backend, STORE_PACK, &pack->name, whole);
	if (rc == STORE_E_ABSENT)
		return;
	/* go on after a wrong name: which blobs are damaged is worth knowing */
	if (rc != 0)
		problem(c, store_message());
	atomic_fetch_add(&c->bytes, whole->size);
	if (whole->size == 0)
		return;
	if (store_pack_header(c->s, whole->data, whole->size, what, header) != 0) {
		problem(c, store_message());
		return;
	}
	check_blobs(c, codec, pack, header, whole->data, out);
}

static void *check_some(void *user)
{
	struct check *c = (struct check *)user;
	struct store_buf whole = {0}, header = {0}, out = {0};
	struct store_codec codec;
	const uint32_t count = store_pack_count(c->s);

	store_codec_init(&codec, 0);
	for (uint32_t i; (i = atomic_fetch_add(&c->next_pack, 1)) < count;) {
		const struct store_pack pack = store_pack_at(c->s, i);

		check_pack(c, &codec, &pack, &whole, &header, &out);
		if (c->options->progress != NULL) {
			pthread_mutex_lock(&c->mutex);
			c->options->progress(c->options->user, i, count);
			pthread_mutex_unlock(&c->mutex);
		}
	}
	store_codec_free(&codec);
	store_buf_free(&whole);
	store_buf_free(&header);
	store_buf_free(&out);
	return NULL;
}

static void check_all_packs(struct check *c)
{
	const uint32_t threads = store_threads(c->options->threads);
	pthread_t *others = (pthread_t *)store_alloc(threads * sizeof(*others));
	uint32_t started = 0;

	while (started + 1 < threads && pthread_create(&others[started], NULL, check_some, c) == 0)
		started++;
	check_some(c);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(others[i], NULL);
	free(others);
}

/* What can be read of a pack that cannot be read as a whole, zeros for the rest. Nothing when that is nothing. */
static void read_around(const struct check *c, const struct store_listed *pack, struct store_buf *whole)
{
	bool any = false;

	whole->size = 0;
	if (pack->bytes < STORE_PREFIX_BYTES || pack->bytes > STORE_PACK_MAX)
		return;
	uint8_t *to = store_buf_reserve(whole, pack->bytes);
	for (uint64_t at = 0; at < pack->bytes; at += SECTOR_BYTES) {
		const size_t bytes = (size_t)g4_min64(SECTOR_BYTES, pack->bytes - at);

		if (c->s->backend->ops->get(c->s->backend, STORE_PACK, &pack->name, at, to + at, bytes) == 0)
			any = true;
		else
			memset(to + at, 0, bytes);
	}
	whole->size = any ? pack->bytes : 0;
}

/* One that is not what its name says, or cannot be read, and has parity enough. */
static int mend_pack(struct check *c, const struct store_listed *pack, struct store_buf *whole)
{
	const struct store_id *name = &pack->name;
	struct store *s = c->s;
	char hex[STORE_HEX_BYTES], text[STORE_TEXT_BYTES];
	int rc = store_raw_get(s->backend, STORE_PACK, name, whole);

	/* elsewhere it is the connection that fails, and does so for all packs */
	const bool unreadable = rc == STORE_E_IO && s->backend->ops->replace != NULL;
	snprintf(text, sizeof(text), "%s", rc == 0 ? "" : store_message());
	if (unreadable)
		read_around(c, pack, whole);
	atomic_fetch_add(&c->bytes, whole->size);
	if (rc != STORE_E_DAMAGED && rc != STORE_E_VERSION && !unreadable)
		return rc;
	if (whole->size == 0 || !store_parity_mend(whole->data, whole->size, name)) {
		if (!c->options->read_data) /* which tells more */
			problem(c, text);
		return 0;
	}
	if (s->backend->ops->replace == NULL) {
		problem_format(
			c,
			"pack %.16s is damaged and can be mended, but not from here: 'shredder check --repair' at the "
			"site does it",
			store_hex(name, hex));
		return 0;
	}
	rc = s->backend->ops->replace(s->backend, STORE_PACK, name, whole->data, whole->size);
	if (rc != 0)
		return rc;
	snprintf(text, sizeof(text), "pack %.16s was damaged and is mended", store_hex(name, hex));
	c->result->mended++;
	if (c->options->mended != NULL)
		c->options->mended(c->options->user, text);
	return 0;
}

static int mend_packs(struct check *c)
{
	struct store_listed *packs;
	struct store_buf whole = {0};
	size_t count;
	int rc = store_list_all(c->s->backend, STORE_PACK, &packs, &count);

	for (size_t i = 0; i < count && rc == 0; i++)
		rc = mend_pack(c, &packs[i], &whole);
	store_buf_free(&whole);
	free(packs);
	return rc;
}

/*
 * A new index from the headers of all packs; the old one goes when the new one is there. When a pack could not be read, which may pass, of the
 * old one goes only what is damaged: the rest may be all that names that pack's blobs.
 */
static int rebuild(struct check *c)
{
	struct store *s = c->s;
	struct store_listed *packs, *old = NULL;
	size_t count, old_count = 0, names_count;
	struct store_buf header = {0}, body = {0};
	struct store_id *names = NULL;
	bool unread = false;
	int rc = store_list_all(s->backend, STORE_PACK, &packs, &count);

	if (rc == 0)
		rc = store_list_all(s->backend, STORE_INDEX, &old, &old_count);
	store_index_new(s);
	for (size_t i = 0; i < count && rc == 0; i++) {
		rc = store_pack_header_get(s, &packs[i].name, packs[i].bytes, &header);
		if (rc == 0)
			rc = store_index_add(s, &packs[i].name, packs[i].bytes, &header);
		else if (rc == STORE_E_DAMAGED || rc == STORE_E_VERSION ||
			 (rc == STORE_E_IO && s->backend->ops->replace != NULL)) {
			unread = unread || rc == STORE_E_IO;
			problem_format(c, "%s; its blobs are left out of the new index", store_message());
			rc = 0;
		}
	}
	if (rc == 0) {
		bool *keep = (bool *)store_alloc(store_pack_count(s) + 1);

		memset(keep, 1, store_pack_count(s) + 1);
		rc = store_index_rewrite(s, keep, &names, &names_count);
		free(keep);
	}
	for (size_t i = 0; i < old_count && rc == 0; i++) {
		bool again = false;

		for (size_t k = 0; k < names_count; k++)
			again = again || store_id_equal(&old[i].name, &names[k]);
		if (!again && unread)
			again = store_file_get(s, STORE_INDEX, &old[i].name, &body) != STORE_E_DAMAGED;
		if (!again)
			rc = s->backend->ops->remove(s->backend, STORE_INDEX, &old[i].name);
	}
	store_buf_free(&header);
	store_buf_free(&body);
	free(names);
	free(packs);
	free(old);
	return rc;
}

static void check_keys(struct check *c)
{
	struct store_listed *names;
	size_t count;

	if (!c->s->encrypted || store_list_all(c->s->backend, STORE_KEY, &names, &count) != 0)
		return;
	for (size_t i = 0; i < count; i++) {
		struct store_buf file = {0};

		if (store_raw_get(c->s->backend, STORE_KEY, &names[i].name, &file) != 0)
			problem(c, store_message());
		store_buf_free(&file);
	}
	free(names);
}

int store_check(struct store *s, const struct store_check_options *options, struct store_check_result *result)
{
	struct check c = {.s = s, .options = options, .result = result};
	struct store_listed *snapshots;
	struct store_marks marks;
	size_t snapshots_count;
	int rc;

	memset(result, 0, sizeof(*result));
	pthread_mutex_init(&c.mutex, NULL);
	check_keys(&c);
	rc = store_list_all(s->backend, STORE_SNAPSHOT, &snapshots, &snapshots_count);
	if (rc == 0 && options->repair && s->parity > 0)
		rc = mend_packs(&c);
	if (rc == 0 && options->repair)
		rc = rebuild(&c);
	else if (rc == 0)
		rc = store_index_load(s, &(uint64_t){0}, problem, &c);
	if (rc == 0)
		rc = check_packs(&c);
	if (rc == 0) {
		check_all_packs(&c);
		store_marks_begin(&marks, s, problem, &c);
		store_marks_snapshots(&marks, snapshots, snapshots_count);
		result->snapshots = marks.snapshots;
		result->trees = marks.trees;
		store_marks_end(&marks);
	}
	free(snapshots);
	result->blobs = atomic_load(&c.blobs);
	result->read_bytes = atomic_load(&c.bytes);
	pthread_mutex_destroy(&c.mutex);
	return rc;
}
