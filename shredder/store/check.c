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
#include "store/blob.h"
#include "store/crypto.h"
#include "store/index.h"
#include "store/maintain.h"
#include "store/marks.h"
#include "store/mend.h"
#include "store/pack_parity.h"
#include "store/pool.h"

struct check {
	struct store *s;
	const struct store_check_options *options;
	struct store_check_result *result;
	pthread_mutex_t mutex;
	atomic_uint next_pack;
	atomic_ullong blobs, bytes, read_packs;
	struct store_id *bad; /* packs, some of them more than once: what mends and what reads may both find one */
	size_t bad_count, bad_room;
	const bool *chosen; /* packs that are read as a whole; NULL: all or none */
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

static void note_bad(struct check *c, const struct store_id *pack)
{
	pthread_mutex_lock(&c->mutex);
	if (c->bad_count == c->bad_room) {
		c->bad_room = c->bad_room == 0 ? 16 : 2 * c->bad_room;
		c->bad = (struct store_id *)store_realloc(c->bad, c->bad_room * sizeof(*c->bad));
	}
	c->bad[c->bad_count++] = *pack;
	pthread_mutex_unlock(&c->mutex);
}

/* Each once. */
static uint64_t count_bad(struct check *c)
{
	uint64_t count = 0;

	if (c->bad_count > 1)
		qsort(c->bad, c->bad_count, sizeof(*c->bad), store_id_order);
	for (size_t i = 0; i < c->bad_count; i++)
		count += i == 0 || !store_id_equal(&c->bad[i - 1], &c->bad[i]);
	return count;
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
				     (const struct store_listed *)bsearch(&key, names, count, sizeof(*names),
									  store_id_order);

		known += found != NULL;
		if (found == NULL) {
			note_bad(c, &pack.name);
			problem_format(c, "pack %.16s is missing", store_hex(&pack.name, hex));
		}
		if (found != NULL && found->bytes != pack.bytes)
			problem_format(c, "pack %.16s has %llu bytes, not %llu", store_hex(&pack.name, hex),
				       (unsigned long long)found->bytes, (unsigned long long)pack.bytes);
	}
	c->result->unknown_packs = count - known;
	free(names);
	return 0;
}

/* Blobs of a header that are looked up at a time. */
#define TOGETHER 64

/* The blobs that a header names against the index; `bytes`: the pack's, in which all must open, or NULL. False: some did not. */
static bool check_blobs(struct check *c, struct store_codec *codec, const struct store_pack *pack,
			const struct store_buf *header, const struct store_buf *bytes, struct store_buf *out)
{
	struct store_in in = store_in_of(header->data, header->size);
	struct store_header_entry entries[TOGETHER];
	struct store_found known[TOGETHER];
	struct store_header cursor;
	char hex[STORE_HEX_BYTES], blob[STORE_HEX_BYTES];
	bool whole = true; /* the group that `out` has */
	bool open = true;
	size_t count;

	store_header_open(&cursor, &in, c->s->version);
	do {
		for (count = 0; count < TOGETHER && store_header_next(&cursor, &entries[count]); count++)
			known[count].id = entries[count].id;
		const int rc = store_index_find_all(c->s, known, count);
		if (rc != 0)
			problem(c, store_message());
		for (size_t i = 0; i < count; i++) {
			const struct store_header_entry *entry = &entries[i];

			if (rc == 0 &&
			    (!known[i].there || known[i].entry.type != entry->type || known[i].entry.raw != entry->raw))
				problem_format(c, "blob %.16s of pack %.16s is not in the index, or otherwise",
					       store_hex(&entry->id, blob), store_hex(&pack->name, hex));
			atomic_fetch_add(&c->blobs, 1);
			if (bytes == NULL || store_blob_open_in(c->s, codec, entry, bytes, out, &whole) == 0)
				continue;
			open = false;
			if (whole || entry->inner == 0) /* of a group that cannot be opened one is enough */
				problem_format(c, "%s (in pack %.16s)", store_message(), store_hex(&pack->name, hex));
		}
	} while (count > 0);
	return open;
}

static void check_pack(struct check *c, struct store_codec *codec, const struct store_pack *pack, bool read_data,
		       struct store_buf *whole, struct store_buf *header, struct store_buf *out)
{
	char hex[STORE_HEX_BYTES], what[80];
	int rc;

	snprintf(what, sizeof(what), "pack %.16s", store_hex(&pack->name, hex));
	if (!read_data) {
		rc = store_pack_header_get(c->s, &pack->name, pack->bytes, header);
		if (rc == 0)
			check_blobs(c, codec, pack, header, NULL, out);
		else if (rc != STORE_E_ABSENT) /* which was told before */
			problem(c, store_message());
		if (store_pack_header_lost(c->s, rc))
			note_bad(c, &pack->name);
		return;
	}
	rc = store_raw_get(c->s->backend, STORE_PACK, &pack->name, whole);
	if (rc == STORE_E_ABSENT)
		return;
	/* go on after a wrong name: which blobs are damaged is worth knowing */
	bool good =
		!store_pack_header_lost(c->s, rc); /* of a site, what could not be read says nothing about the pack */
	if (rc != 0)
		problem(c, store_message());
	atomic_fetch_add(&c->bytes, whole->size);
	atomic_fetch_add(&c->read_packs, 1);
	if (whole->size > 0 && store_pack_header(c->s, whole->data, whole->size, what, header) != 0) {
		problem(c, store_message());
		good = false;
	} else if (whole->size > 0) {
		good = check_blobs(c, codec, pack, header, whole, out) && good;
	}
	if (!good)
		note_bad(c, &pack->name);
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

		check_pack(c, &codec, &pack, c->chosen != NULL ? c->chosen[i] : c->options->read_data, &whole, &header,
			   &out);
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

static uint32_t random_below(uint32_t n)
{
	uint64_t number;

	store_random(&number, sizeof(number));
	return (uint32_t)(number % n); /* the remainder's bias is nothing here */
}

/* Those of a subset. By chance: other ones each time, so that all have their turn. */
static bool *choose_packs(struct check *c, const struct store_check_subset *subset)
{
	const uint32_t count = store_pack_count(c->s);
	bool *chosen = (bool *)store_alloc(count + 1);
	uint32_t *order = (uint32_t *)store_alloc((count + 1) * sizeof(*order));
	const uint32_t wanted = (uint32_t)(subset->share * count + 0.999999);
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct store_pack pack = store_pack_at(c->s, i);

		order[i] = i;
		chosen[i] = subset->parts > 0 && pack.name.bytes[0] % subset->parts == subset->part - 1;
	}
	for (uint32_t i = 0; i < count && (i < wanted || bytes < subset->bytes); i++) {
		const uint32_t other = i + random_below(count - i), pack = order[other];

		order[other] = order[i];
		chosen[pack] = true;
		bytes += store_pack_at(c->s, pack).bytes;
	}
	free(order);
	return chosen;
}

static void check_all_packs(struct check *c)
{
	bool *chosen =
		c->options->subset != NULL && !c->options->read_data ? choose_packs(c, c->options->subset) : NULL;
	const uint32_t threads = store_threads(c->options->threads);
	pthread_t *others = (pthread_t *)store_alloc(threads * sizeof(*others));
	uint32_t started = 0;

	c->chosen = chosen;
	while (started + 1 < threads && pthread_create(&others[started], NULL, check_some, c) == 0)
		started++;
	check_some(c);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(others[i], NULL);
	free(others);
	free(chosen);
	c->chosen = NULL;
}

/* A file that is not what its name says, or cannot be read, and has parity enough. */
static int mend_one(struct check *c, enum store_kind kind, const struct store_id *name, struct store_buf *whole)
{
	struct store *s = c->s;
	char what[80], text[STORE_TEXT_BYTES];
	int rc = store_raw_get(s->backend, kind, name, whole);

	snprintf(text, sizeof(text), "%s", rc == 0 ? "" : store_message());
	if (rc == 0 && (kind != STORE_CONFIG || store_parity_fits(whole->data, whole->size))) {
		atomic_fetch_add(&c->bytes, whole->size);
		return 0;
	}
	/* elsewhere it is the connection that fails, and does so for all files */
	if (rc == STORE_E_ABSENT || (rc == STORE_E_IO && s->backend->ops->remote))
		return rc == STORE_E_ABSENT ? 0 : rc;
	const bool unread = rc == STORE_E_IO;
	const enum store_mended mended = store_mend_file(s, rc, kind, name, whole);
	atomic_fetch_add(&c->bytes, whole->size);
	/* what could not be read stays: it may be read another time, and a site takes nothing that has not its name */
	if (mended == STORE_MENDED_PARTLY && kind == STORE_PACK && !unread && !s->backend->ops->remote) {
		rc = s->backend->ops->replace(s->backend, kind, name, whole->data, whole->size);
		if (rc != 0)
			return rc;
		problem_format(c,
			       "%s was damaged beyond its parity: what could be mended is, blobs in the rest are lost",
			       store_describe(kind, name, what));
		note_bad(c, name);
		return 0;
	}
	if (mended != STORE_MENDED) {
		if (kind == STORE_PACK)
			note_bad(c, name);
		if (kind == STORE_PACK && !c->options->read_data) /* which tells more; of others, their readers tell */
			problem(c, text);
		return 0;
	}
	rc = s->backend->ops->replace == NULL ?
		     STORE_E_INVAL :
		     s->backend->ops->replace(s->backend, kind, name, whole->data, whole->size);
	store_describe(kind, name, what);
	if (rc == STORE_E_INVAL) {
		problem_format(c,
			       "%s is damaged and can be mended, but not from here: 'shredder check --repair' at the "
			       "site does it",
			       what);
		return 0;
	}
	if (rc != 0)
		return rc;
	snprintf(text, sizeof(text), "%s was damaged and is mended", what);
	c->result->mended += kind == STORE_PACK;
	c->result->mended_others += kind != STORE_PACK;
	if (c->options->mended != NULL)
		c->options->mended(c->options->user, text);
	return 0;
}

typedef int each_fn(struct check *c, enum store_kind kind, const struct store_id *name, struct store_buf *whole);

static int each_file(struct check *c, enum store_kind kind, each_fn *each)
{
	struct store_listed config = {.bytes = 0}, *files = &config;
	struct store_buf whole = {0};
	size_t count = 1;
	int rc = kind == STORE_CONFIG ? 0 : store_list_all(c->s->backend, kind, &files, &count);

	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = each(c, kind, &files[i].name, &whole);
	store_buf_free(&whole);
	if (files != &config)
		free(files);
	return rc;
}

/* Those that may have parity but packs. What cannot be mended is told by its readers. */
static int each_other(struct check *c, each_fn *each)
{
	static const enum store_kind kinds[] = {STORE_CONFIG, STORE_KEY, STORE_SNAPSHOT, STORE_INDEX};
	int rc = 0;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds) && rc == 0; i++)
		if (c->s->version >= STORE_VERSION_PARITY && (kinds[i] != STORE_KEY || c->s->encrypted))
			rc = each_file(c, kinds[i], each);
	return rc;
}

/* Readers mend it for themselves and go on; a check tells. */
static int tell_mendable(struct check *c, enum store_kind kind, const struct store_id *name, struct store_buf *whole)
{
	const int rc = store_raw_get(c->s->backend, kind, name, whole);
	char what[80];

	if (rc == 0 && (kind != STORE_CONFIG || store_parity_fits(whole->data, whole->size)))
		return 0;
	if (store_mend_file(c->s, rc, kind, name, whole) == STORE_MENDED)
		problem_format(c, "%s is damaged; 'shredder check --repair' mends it",
			       store_describe(kind, name, what));
	return 0;
}

struct rebuilding {
	struct check *c;
	struct store_id *lost; /* packs whose header cannot be read */
	size_t lost_count, known;
};

/* What an old index file says of a pack whose own header is lost. */
static int add_known(void *user, size_t number, uint64_t bytes, const struct store_buf *header)
{
	struct rebuilding *r = (struct rebuilding *)user;
	const int rc = store_index_add(r->c->s, &r->lost[number], bytes, header);

	r->known += rc == 0;
	return rc == STORE_E_DAMAGED ? 0 : rc;
}

/* Its index is that of all headers, and of what the old one says where a header is lost. */
static int add_packs(struct check *c, const struct store_listed *packs, size_t count, bool *unread)
{
	struct rebuilding r = {.c = c, .lost = (struct store_id *)store_alloc((count + 1) * sizeof(*r.lost))};
	struct store_buf header = {0};
	struct store *s = c->s;
	int rc = 0;

	store_index_new(s);
	for (size_t i = 0; i < count && rc == 0; i++) {
		rc = store_pack_header_get(s, &packs[i].name, packs[i].bytes, &header);
		if (rc == 0) {
			rc = store_index_add(s, &packs[i].name, packs[i].bytes, &header);
		} else if (store_pack_header_lost(s, rc)) {
			*unread = *unread || rc == STORE_E_IO;
			problem_format(c, "%s; what the old index says of it is kept", store_message());
			r.lost[r.lost_count++] = packs[i].name;
			rc = 0;
		}
	}
	if (rc == 0 && r.lost_count > 0)
		rc = store_index_known(s, r.lost, r.lost_count, add_known, &r);
	if (rc == 0 && r.known < r.lost_count)
		problem_format(
			c,
			"of %zu packs whose header is lost no index file says anything: their blobs are left out "
			"of the new index",
			r.lost_count - r.known);
	store_buf_free(&header);
	free(r.lost);
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
	struct store_buf body = {0};
	struct store_id *names = NULL;
	bool unread = false;
	int rc = store_list_all(s->backend, STORE_PACK, &packs, &count);

	if (rc == 0)
		rc = store_list_all(s->backend, STORE_INDEX, &old, &old_count);
	if (rc == 0)
		rc = add_packs(c, packs, count, &unread);
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
		if (rc != 0 && store_file_get(s, STORE_INDEX, &old[i].name, &body) == 0)
			rc = 0; /* where nothing may be removed: it says what the new one says */
	}
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

		if (store_own_get(c->s, STORE_KEY, &names[i].name, &file) != 0)
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
	rc = store_list_all(s->backend, STORE_SNAPSHOT, &snapshots, &snapshots_count);
	if (rc == 0 && s->parity > 0)
		rc = each_other(&c, options->repair ? mend_one : tell_mendable);
	if (rc == 0 && options->repair && s->parity > 0)
		rc = each_file(&c, STORE_PACK, mend_one);
	check_keys(&c);
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
		result->losses = marks.losses;
		store_marks_end(&marks);
	}
	free(snapshots);
	result->blobs = atomic_load(&c.blobs);
	result->read_bytes = atomic_load(&c.bytes);
	result->read_packs = atomic_load(&c.read_packs);
	result->bad_packs = count_bad(&c);
	free(c.bad);
	pthread_mutex_destroy(&c.mutex);
	return rc;
}
