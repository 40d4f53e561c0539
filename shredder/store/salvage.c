/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs of which blobs are damaged: what can be opened goes into new packs, the rest leaves the index, so that the next backup stores it again; then
 * snapshots that miss it now are whole again.
 *
 *	every pack: read, mended, opened --damaged--> read once more, its good blobs --> new packs
 *	                                --missing-->  looked for once more; nothing is left of it
 *	then (replace.h): an index without the damaged and the missing ones, away with the old index, away with the damaged packs
 *
 * A pack is given up only when it has failed twice. What its parity can mend stays where it is: `check --repair` writes it. What cannot be read stays as
 * well, since that may pass, unless the pack was named.
 *
 * Crashes. New packs come first; until the old index is gone, it names packs that are there, and the new index names what both have. A
 * salvage that was cut off is one that has stored some blobs twice; the next one goes on, and a prune removes what is there twice.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/backend.h"
#include "store/blob.h"
#include "store/maintain.h"
#include "store/mend.h"
#include "store/packer.h"
#include "store/pool.h"
#include "store/replace.h"

/* HEADLESS: damaged, and what it has says the index alone. */
enum state { SKIPPED, FINE, MENDABLE, UNREAD, MISSING, DAMAGED, HEADLESS };

struct salvage {
	struct store *s;
	const struct store_salvage_options *options;
	struct store_salvage_result *result;
	uint32_t packs; /* that the index names, of all numbers below the state is known */
	uint64_t blobs;
	uint8_t *states;
	bool *keep, *moved; /* packs, blobs */
	atomic_uint next_pack;
	pthread_mutex_t mutex;
	int rc; /* of a thread */
	char text[STORE_TEXT_BYTES];

	/* of the one thread that moves */
	struct store_packer *packer;  /* NULL: nothing was moved yet, or a dry run */
	struct store_group groups[3]; /* by type */
	struct store_codec codec;
	struct store_buf whole, header, raw, stored;
	struct store_id *headless;	    /* sorted */
	size_t headless_count, known_count; /* of these, what an index file tells */
};

__attribute__((format(printf, 2, 3))) static void tell(struct salvage *v, const char *format, ...)
{
	char text[STORE_TEXT_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	pthread_mutex_lock(&v->mutex);
	v->options->told(v->options->user, text);
	pthread_mutex_unlock(&v->mutex);
}

static bool is_named(const struct salvage *v, const struct store_id *pack)
{
	for (size_t i = 0; i < v->options->packs_count; i++)
		if (store_id_equal(&v->options->packs[i], pack))
			return true;
	return false;
}

/* ---------------------------------------------------------------------------------------------------------- looking */

static bool all_open(const struct salvage *v, struct store_codec *codec, const struct store_buf *whole,
		     const struct store_buf *header, struct store_buf *raw)
{
	struct store_in in = store_in_of(header->data, header->size);
	struct store_header_entry entry;
	struct store_header cursor;
	bool group = true;

	store_header_open(&cursor, &in, v->s->version);
	while (store_header_next(&cursor, &entry))
		if (store_blob_open_in(v->s, codec, &entry, whole, raw, &group) != 0)
			return false;
	return true;
}

/* What there is of a pack, mended as far as it can be, in `whole`, and its header. The repository's failure, or 0 and what the pack is. */
static int look(const struct salvage *v, struct store_codec *codec, const struct store_id *pack,
		struct store_buf *whole, struct store_buf *header, struct store_buf *raw, enum state *state)
{
	char hex[STORE_HEX_BYTES], what[80];
	int rc = store_raw_get(v->s->backend, STORE_PACK, pack, whole);

	snprintf(what, sizeof(what), "pack %.16s", store_hex(pack, hex));
	*state = MISSING;
	if (rc == STORE_E_ABSENT)
		return 0;
	if (rc == STORE_E_IO && v->s->backend->ops->remote)
		return rc;
	*state = MENDABLE;
	if (rc != 0 && store_mend_file(v->s, rc, STORE_PACK, pack, whole) == STORE_MENDED)
		return 0;
	*state = UNREAD;
	if (rc == STORE_E_IO && !is_named(v, pack))
		return 0;
	*state = HEADLESS;
	if (store_pack_header(v->s, whole->data, whole->size, what, header) != 0)
		return 0;
	*state = rc == 0 && all_open(v, codec, whole, header, raw) ? FINE : DAMAGED;
	return 0;
}

static void fail(struct salvage *v, int rc)
{
	pthread_mutex_lock(&v->mutex);
	if (v->rc == 0) {
		v->rc = rc;
		snprintf(v->text, sizeof(v->text), "%s", store_message());
	}
	pthread_mutex_unlock(&v->mutex);
	atomic_store(&v->next_pack, v->packs);
}

static void *look_at_some(void *user)
{
	struct salvage *v = (struct salvage *)user;
	struct store_buf whole = {0}, header = {0}, raw = {0};
	struct store_codec codec;

	store_codec_init(&codec, 0);
	for (uint32_t i; (i = atomic_fetch_add(&v->next_pack, 1)) < v->packs;) {
		const struct store_pack pack = store_pack_at(v->s, i);
		enum state state = SKIPPED;

		if (v->options->packs_count > 0 && !is_named(v, &pack.name))
			continue;
		const int rc = look(v, &codec, &pack.name, &whole, &header, &raw, &state);
		if (rc != 0) {
			fail(v, rc);
			break;
		}
		v->states[i] = (uint8_t)state;
		pthread_mutex_lock(&v->mutex);
		v->result->read_packs++;
		v->result->read_bytes += whole.size;
		if (v->options->progress != NULL)
			v->options->progress(v->options->user, i, v->packs);
		pthread_mutex_unlock(&v->mutex);
	}
	store_codec_free(&codec);
	store_buf_free(&whole);
	store_buf_free(&header);
	store_buf_free(&raw);
	return NULL;
}

static int look_at_all(struct salvage *v)
{
	const uint32_t threads = store_threads(v->options->threads);
	pthread_t *others = (pthread_t *)store_alloc(threads * sizeof(*others));
	uint32_t started = 0;

	while (started + 1 < threads && pthread_create(&others[started], NULL, look_at_some, v) == 0)
		started++;
	look_at_some(v);
	for (uint32_t i = 0; i < started; i++)
		pthread_join(others[i], NULL);
	free(others);
	return v->rc == 0 ? 0 : store_fail(v->rc, "%s", v->text);
}

/* ----------------------------------------------------------------------------------------------------------- moving */

static struct store_packer *packer_of(struct salvage *v)
{
	if (v->packer == NULL && !v->options->dry_run)
		v->packer = store_packer_open(v->s);
	return v->packer;
}

/* The pack stays, and what it has was opened, or can be mended: of one that was not looked at, or could not be read, nobody knows. */
static bool is_safe_in(const struct salvage *v, uint32_t pack)
{
	return pack < v->packs && v->keep[pack] && (v->states[pack] == FINE || v->states[pack] == MENDABLE);
}

/* 1: the blob lies in no pack that is known to have it, and has not been moved yet; its number. */
static int has_to_move(struct salvage *v, const struct store_header_entry *from, uint32_t *number)
{
	struct store_entry entry;
	const int rc = store_index_find(v->s, &from->id, number, &entry);

	if (rc == STORE_E_NO_BLOB) /* of a header that has more than the index says of it */
		return store_index_claim(v->s, &from->id, (enum store_blob_type)from->type, number);
	if (rc != 0 || *number >= v->blobs)
		return rc;
	if (v->moved[*number])
		return 0;
	return !is_safe_in(v, entry.pack);
}

static int close_group(struct salvage *v, struct store_group *group)
{
	int rc = 0;

	if (group->count > 0 && !v->options->dry_run) {
		v->stored.size = 0;
		store_group_protect(v->s, &v->codec, group->raw.data, group->raw.size, &v->stored);
		rc = store_packer_add_group(packer_of(v), group, &v->stored);
	}
	store_group_clear(group);
	return rc;
}

/* A blob that could be opened: its bytes lie in v->raw. */
static int move(struct salvage *v, const struct store_header_entry *entry)
{
	const enum store_blob_type type = (enum store_blob_type)entry->type;
	uint32_t number;
	const int needed = has_to_move(v, entry, &number);

	if (needed != 1)
		return needed;
	if (number < v->blobs)
		v->moved[number] = true;
	v->result->moved_blobs++;
	if (entry->grouped)
		return store_group_add(&v->groups[type], type, number, &entry->id, v->raw.data + entry->inner,
				       entry->raw) ?
			       close_group(v, &v->groups[type]) :
			       0;
	if (v->options->dry_run)
		return 0;
	const struct store_buf stored = {v->whole.data + entry->offset, entry->stored, entry->stored};
	return store_packer_add(packer_of(v), type, number, &entry->id, &stored, entry->raw);
}

/* What lies in v->whole, by this header. */
static int move_blobs(struct salvage *v, uint32_t number, const struct store_buf *header)
{
	const struct store_pack pack = store_pack_at(v->s, number);
	struct store_in in = store_in_of(header->data, header->size);
	struct store_header_entry entry;
	struct store_header cursor;
	uint64_t blobs = 0, bad = 0;
	char hex[STORE_HEX_BYTES];
	bool group = true;
	int rc = 0;

	store_header_open(&cursor, &in, v->s->version);
	while (rc == 0 && store_header_next(&cursor, &entry)) {
		blobs++;
		if (store_blob_open_in(v->s, &v->codec, &entry, &v->whole, &v->raw, &group) == 0)
			rc = move(v, &entry);
		else
			bad++;
	}
	if (rc == 0)
		tell(v, "pack %.16s is damaged: %llu of its %llu blobs cannot be read%s", store_hex(&pack.name, hex),
		     (unsigned long long)bad, (unsigned long long)blobs,
		     v->options->dry_run ? "" : ", the others are in new packs");
	return rc;
}

/* For the second time: one that is whole now stays, as one does that cannot be read now. `known`: its header, if its own is lost; NULL: not known. */
static int take_apart(struct salvage *v, uint32_t number, const struct store_buf *known)
{
	const struct store_pack pack = store_pack_at(v->s, number);
	char hex[STORE_HEX_BYTES];
	enum state state;
	const int rc = look(v, &v->codec, &pack.name, &v->whole, &v->header, &v->raw, &state);

	if (rc != 0)
		return rc;
	if (state == MISSING) {
		v->states[number] = MISSING;
		tell(v, "pack %.16s is missing", store_hex(&pack.name, hex));
		return 0;
	}
	if (state == HEADLESS && known == NULL) { /* now its header is lost as well: take_known() is next */
		v->states[number] = HEADLESS;
		return 0;
	}
	if (state < MISSING) {
		tell(v, "pack %.16s was damaged or missing when it was read first, and is not now: it stays",
		     store_hex(&pack.name, hex));
		v->states[number] = (uint8_t)state;
		v->keep[number] = true;
		v->result->unread_packs += state == UNREAD;
		v->result->mendable_packs += state == MENDABLE;
		return 0;
	}
	v->states[number] = (uint8_t)state; /* also of one that was missing */
	return move_blobs(v, number, state == HEADLESS ? known : &v->header);
}

/* What an index file says of a pack whose header is lost. */
static int take_known(void *user, size_t index, uint64_t bytes, const struct store_buf *header)
{
	struct salvage *v = (struct salvage *)user;

	v->known_count++;
	return take_apart(v, store_index_pack(v->s, &v->headless[index], bytes), header);
}

static int move_all(struct salvage *v)
{
	int rc = 0;

	v->headless = (struct store_id *)store_alloc((v->packs + 1) * sizeof(*v->headless));
	for (uint32_t i = 0; i < v->packs && rc == 0; i++) {
		if (v->states[i] == DAMAGED || v->states[i] == MISSING)
			rc = take_apart(v, i, NULL);
		if (v->states[i] == HEADLESS)
			v->headless[v->headless_count++] = store_pack_at(v->s, i).name;
	}
	if (rc == 0 && v->headless_count > 0) {
		qsort(v->headless, v->headless_count, sizeof(*v->headless), store_id_order);
		rc = store_index_known(v->s, v->headless, v->headless_count, take_known, v);
		if (rc == 0 && v->known_count < v->headless_count)
			rc = store_fail(
				STORE_E_DAMAGED,
				"what is in a damaged pack is known to an index file alone, which cannot be read now; "
				"nothing was removed");
	}
	for (int type = STORE_DATA; type <= STORE_TREE && rc == 0; type++)
		rc = close_group(v, &v->groups[type]);
	return rc == 0 && v->packer != NULL ? store_packer_finish(v->packer) : rc;
}

/* ---------------------------------------------------------------------------------------------------------- together */

/* Tells of packs that are not damaged and not well; which ones stay. */
static void choose(struct salvage *v)
{
	struct store_salvage_result *r = v->result;
	char hex[STORE_HEX_BYTES];

	for (uint32_t i = 0; i < v->packs; i++) {
		const struct store_pack pack = store_pack_at(v->s, i);

		store_hex(&pack.name, hex);
		v->keep[i] = v->states[i] < MISSING;
		r->mendable_packs += v->states[i] == MENDABLE;
		r->unread_packs += v->states[i] == UNREAD;
		if (v->states[i] == MENDABLE)
			tell(v,
			     "pack %.16s is damaged and stays, since it has parity enough: 'shredder check --repair' mends it",
			     hex);
		else if (v->states[i] == UNREAD)
			tell(v,
			     "pack %.16s cannot be read and stays, since that may pass: 'shredder repair packs %.16s' gives up "
			     "what cannot be read",
			     hex, hex);
	}
}

/* Blobs that were in packs that go, and have not been moved. The caller frees them. */
static int find_lost(struct salvage *v, struct store_id **lost, size_t *count)
{
	size_t room = 0;
	int rc = 0;

	*lost = NULL;
	*count = 0;
	for (uint64_t i = 0; i < v->blobs && rc == 0; i++) {
		struct store_entry entry;

		if (v->moved[i] || (rc = store_index_at(v->s, (uint32_t)i, &entry)) != 0)
			continue;
		if (entry.pack >= v->packs || v->keep[entry.pack])
			continue;
		if (*count == room) {
			room = room == 0 ? 64 : 2 * room;
			*lost = (struct store_id *)store_realloc(*lost, room * sizeof(**lost));
		}
		(*lost)[(*count)++] = entry.id;
	}
	return rc;
}

/* Away with the packs that go; then the index as it is now tells what is lost: another pack may have a blob of one that went. */
static int replace(struct salvage *v, const struct store_id *lost, size_t lost_count)
{
	struct store_listed *gone = (struct store_listed *)store_alloc((v->packs + 1) * sizeof(*gone));
	size_t count = 0;
	int rc;

	for (uint32_t i = 0; i < v->packs; i++)
		if (!v->keep[i])
			gone[count++].name = store_pack_at(v->s, i).name;
	rc = store_packs_replace(v->s, v->keep, v->packs, gone, count);
	free(gone);
	if (rc == 0)
		rc = v->s->backend->ops->clean(v->s->backend);
	if (rc == 0)
		rc = store_index_load(v->s, NULL, NULL, NULL);
	for (size_t i = 0; i < lost_count && rc == 0; i++) {
		struct store_found found = {.id = lost[i]};

		rc = store_index_find_all(v->s, &found, 1);
		v->result->lost_blobs += rc == 0 && !found.there;
	}
	return rc;
}

static int salvage(struct salvage *v)
{
	struct store_id *lost = NULL;
	size_t lost_count = 0;
	int rc = look_at_all(v);

	if (rc != 0)
		return rc;
	choose(v);
	rc = move_all(v);
	for (uint32_t i = 0; i < v->packs; i++) {
		v->result->damaged_packs += v->states[i] >= DAMAGED;
		v->result->missing_packs += v->states[i] == MISSING;
	}
	if (rc == 0)
		rc = find_lost(v, &lost, &lost_count);
	if (rc == 0 && v->options->dry_run)
		v->result->lost_blobs = lost_count;
	else if (rc == 0 && v->result->damaged_packs + v->result->missing_packs > 0)
		rc = replace(v, lost, lost_count);
	free(lost);
	return rc;
}

int store_salvage(struct store *s, const struct store_salvage_options *options, struct store_salvage_result *result)
{
	struct salvage v = {.s = s, .options = options, .result = result};
	int rc = store_index_load(s, NULL, NULL, NULL);

	memset(result, 0, sizeof(*result));
	if (rc != 0)
		return rc;
	v.packs = store_pack_count(s);
	v.blobs = store_index_count(s);
	v.states = (uint8_t *)store_alloc(v.packs + 1);
	v.keep = (bool *)store_alloc(v.packs + 1);
	v.moved = (bool *)store_alloc(v.blobs + 1);
	pthread_mutex_init(&v.mutex, NULL);
	store_codec_init(&v.codec, options->level);
	rc = salvage(&v);
	if (v.packer != NULL)
		store_packer_close(v.packer);
	for (int type = STORE_DATA; type <= STORE_TREE; type++)
		store_group_free(&v.groups[type]);
	store_codec_free(&v.codec);
	store_buf_free(&v.whole);
	store_buf_free(&v.header);
	store_buf_free(&v.raw);
	store_buf_free(&v.stored);
	pthread_mutex_destroy(&v.mutex);
	free(v.headless);
	free(v.states);
	free(v.keep);
	free(v.moved);
	return rc;
}
