/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing the parity of a repository. A file's parity is a section behind its bytes, so a file with another section is another file with another
 * name; what is inside stays, and no blob moves within its pack.
 *
 * Crashes. The configuration comes first, by one rename: from then on everybody writes with the new parity. Of a key or snapshot the new file is
 * durable before the old one is removed: there may be both, which say the same. Of packs a batch is written, then an index that names these in
 * the place of the old ones, then the old index files go, durably, then the old packs: no index names what is gone. What is left of a change that was
 * cut off is files of both kinds, all of them whole, and the next change goes on with those that have another parity.
 */
#include <stdio.h>
#include <stdlib.h>

#include "store/backend.h"
#include "store/crypto.h"
#include "store/index.h"
#include "store/maintain.h"
#include "store/mend.h"
#include "store/pack_parity.h"

/* Packs that are there twice for a while: so many bytes at least, and a part of all, since each batch writes the whole index. */
#define BATCH_BYTES G4_GIB
#define BATCHES_MAX 16

struct changing {
	struct store *s;
	struct store_parity_change *change;
	struct store_buf file;
	bool *keep; /* by number of a pack */
	uint32_t keep_room;
	struct store_id *old; /* packs of this batch */
	size_t old_count;
	struct store_id *fresh; /* that the batch has written, and no index names yet */
	size_t fresh_count;
	uint64_t batch_bytes, batch_most;
	uint64_t done, total;
};

/*
 * 1: the file is another one now, in c->file, with this name; 0: it has the right parity, or is damaged or missing, which was told. It is authenticated by
 * its name, or mended so that it has it.
 */
static int change_bytes(struct changing *c, enum store_kind kind, const struct store_id *old, struct store_id *name)
{
	struct store *s = c->s;
	struct store_buf *file = &c->file;
	uint64_t own;
	int rc = store_raw_get(s->backend, kind, old, file);

	if (rc != 0 && store_mend_file(s, rc, kind, old, file) != STORE_MENDED) {
		c->change->problems++;
		c->change->problem(c->change->user, store_message());
		return 0;
	}
	own = file->size;
	if (!store_parity_split(file->data + file->size - STORE_PARITY_TAIL_BYTES, file->size, &own) ||
	    own < STORE_PREFIX_BYTES)
		return store_fail(STORE_E_DAMAGED, "a file is damaged: its parity has another size");
	file->size = own;
	if (s->parity > 0)
		store_parity_append(file, store_parity_layout(s->version), s->parity);
	store_digest(file->data, file->size, name->bytes);
	return store_id_equal(name, old) ? 0 : 1;
}

static int change_others(struct changing *c, enum store_kind kind)
{
	struct store_backend *b = c->s->backend;
	struct store_listed *files;
	struct store_id name;
	size_t count;
	int rc = store_list_all(b, kind, &files, &count);

	for (size_t i = 0; i < count && rc == 0; i++) {
		const int changed = change_bytes(c, kind, &files[i].name, &name);

		rc = changed < 0 ? changed : 0;
		if (changed != 1)
			continue;
		rc = b->ops->put(b, kind, &name, c->file.data, c->file.size);
		if (rc == 0)
			rc = b->ops->remove(b, kind, &files[i].name);
		if (rc == 0 && kind == STORE_KEY && store_id_equal(&files[i].name, &c->s->key_name))
			c->s->key_name = name;
		c->change->others++;
		c->change->bytes += c->file.size;
	}
	free(files);
	return rc;
}

static void keep_pack(struct changing *c, uint32_t number, bool keep)
{
	if (number >= c->keep_room) {
		c->keep_room = 2 * number + 64;
		c->keep = (bool *)store_realloc(c->keep, c->keep_room);
	}
	c->keep[number] = keep;
}

/* Whether there are other index files than these, or nobody can tell: writing one may fail behind the moment from which it is there. */
static bool index_changed(struct store_backend *b, const struct store_listed *old, size_t old_count)
{
	struct store_listed *now;
	char text[STORE_TEXT_BYTES];
	size_t count;
	bool changed;

	snprintf(text, sizeof(text), "%s", store_message());
	changed = store_list_all(b, STORE_INDEX, &now, &count) != 0;
	if (!changed) {
		changed = count != old_count;
		for (size_t i = 0; i < count && !changed; i++)
			changed = !store_id_equal(&now[i].name, &old[i].name);
		free(now);
	}
	store_fail(STORE_E_IO, "%s", text);
	return changed;
}

/* The index names the batch's new packs, and nothing names the old ones any more: they go. */
static int end_batch(struct changing *c)
{
	struct store_backend *b = c->s->backend;
	struct store_listed *old = NULL;
	struct store_id *names = NULL;
	size_t old_count = 0, names_count = 0;
	int rc = store_list_all(b, STORE_INDEX, &old, &old_count);

	if (rc == 0)
		rc = store_index_rewrite(c->s, c->keep, &names, &names_count);
	if (rc == 0 || index_changed(b, old, old_count))
		c->fresh_count = 0;
	for (size_t i = 0; i < old_count && rc == 0; i++) {
		bool again = false;

		for (size_t k = 0; k < names_count; k++)
			again = again || store_id_equal(&old[i].name, &names[k]);
		if (!again)
			rc = b->ops->remove(b, STORE_INDEX, &old[i].name);
	}
	if (rc == 0) /* an old index that a crash brings back would name packs that are gone */
		rc = b->ops->settle(b, STORE_INDEX);
	for (size_t i = 0; i < c->old_count && rc == 0; i++)
		rc = b->ops->remove(b, STORE_PACK, &c->old[i]);
	c->old_count = 0;
	c->batch_bytes = 0;
	free(old);
	free(names);
	return rc;
}

static int change_pack(struct changing *c, uint32_t number)
{
	const struct store_pack pack = store_pack_at(c->s, number);
	const uint32_t count = store_pack_count(c->s);
	struct store_id name;
	const int changed = change_bytes(c, STORE_PACK, &pack.name, &name);

	c->done += pack.bytes;
	if (c->change->progress != NULL)
		c->change->progress(c->change->user, c->done, c->total);
	if (changed != 1)
		return changed < 0 ? changed : 0;
	int rc = c->s->backend->ops->put(c->s->backend, STORE_PACK, &name, c->file.data, c->file.size);
	if (rc != 0)
		return rc;
	const uint32_t fresh = store_index_pack(c->s, &name, c->file.size);
	keep_pack(c, fresh, true);
	if (fresh >= count) { /* else an index has it already: one that was cut off */
		c->fresh = (struct store_id *)store_realloc(c->fresh, (c->fresh_count + 1) * sizeof(*c->fresh));
		c->fresh[c->fresh_count++] = name;
	}
	keep_pack(c, number, false);
	c->old = (struct store_id *)store_realloc(c->old, (c->old_count + 1) * sizeof(*c->old));
	c->old[c->old_count++] = pack.name;
	c->change->packs++;
	c->change->bytes += c->file.size;
	c->batch_bytes += c->file.size;
	return c->batch_bytes >= c->batch_most ? end_batch(c) : 0;
}

/* After a failure, of a full disk most often: what was written in vain would fill it until somebody prunes. The old packs are all there. */
static void drop_fresh(struct changing *c)
{
	char text[STORE_TEXT_BYTES];

	snprintf(text, sizeof(text), "%s", store_message());
	for (size_t i = 0; i < c->fresh_count; i++)
		if (c->s->backend->ops->remove(c->s->backend, STORE_PACK, &c->fresh[i]) != 0)
			break; /* prune removes them */
	store_fail(STORE_E_IO, "%s", text);
}

static int change_packs(struct changing *c)
{
	const uint32_t count = store_pack_count(c->s);
	int rc = 0;

	for (uint32_t i = 0; i < count; i++) {
		keep_pack(c, i, true);
		c->total += store_pack_at(c->s, i).bytes;
	}
	c->batch_most = g4_max64(BATCH_BYTES, c->total / BATCHES_MAX);
	for (uint32_t i = 0; i < count && rc == 0; i++)
		rc = change_pack(c, i);
	return rc != 0 || count == 0 ? rc : end_batch(c); /* index files have parity themselves: once at least */
}

int store_parity_set(struct store *s, uint32_t parity, struct store_parity_change *change)
{
	struct changing c = {.s = s, .change = change};
	int rc;

	if (s->version < STORE_VERSION_APART)
		return store_fail(
			STORE_E_INVAL,
			"the parity of a repository of format %u cannot be changed; 'shredder copy' into a new "
			"one",
			s->version);
	rc = store_index_load(s, NULL, NULL, NULL); /* what cannot be read would be lost from the new one */
	if (rc == 0)
		rc = store_config_parity(s, parity);
	if (rc == 0 && s->encrypted)
		rc = change_others(&c, STORE_KEY);
	if (rc == 0)
		rc = change_others(&c, STORE_SNAPSHOT);
	if (rc == 0 && (rc = change_packs(&c)) != 0)
		drop_fresh(&c);
	if (rc == 0)
		rc = s->backend->ops->clean(s->backend);
	free(c.keep);
	free(c.old);
	free(c.fresh);
	store_buf_free(&c.file);
	return rc;
}
