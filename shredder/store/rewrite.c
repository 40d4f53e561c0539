/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot's tree is read in depth and written again: entries that stay are the same bytes, so a directory that does not change becomes the
 * blobs that are there, and only what lies on the way to a change is stored. What is written before a crash is in no snapshot, and
 * prune removes it.
 *
 *	old pieces --entries--> excluded? lost? --entries that stay--> new pieces --> the entry of the directory in the one above
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/backend.h"
#include "store/blob.h"
#include "store/cutter.h"
#include "store/maintain.h"
#include "store/rewrite.h"

/* Of a blob: not looked at yet. Of a pack: it is there with another size, so what is in it has to be read. */
enum { UNKNOWN, THERE, LOST };

/* A directory that is being read and written. */
struct level {
	char *path;
	struct store_buf entry;	  /* its own, as it was; empty for the root */
	struct store_buf content; /* the pieces that it had */
	struct store_in parts;
	struct store_buf piece; /* whose entries are taken, all of them possible */
	struct store_in in;
	uint8_t last[STORE_NAME_MAX];
	size_t last_bytes;
	struct store_pieces pieces; /* that it gets */
};

struct rewriting {
	struct store *s;
	const struct store_rewrite_options *options;
	struct store_keeping keeping;
	struct store_cutter cutter;
	struct level *levels;
	size_t depth, room;
	struct store_buf blob, parts;
	struct store_looked own_looked, *looked; /* at what there was at the beginning; mend only */
	uint64_t files, directories, others, bytes;
	bool passes_whole; /* goes past directories that are known to be whole; counts nothing */
};

static void tell(struct rewriting *w, const char *path, const char *sentence)
{
	if (w->options->told != NULL)
		w->options->told(w->options->user, path, sentence);
}

/* What another try would not find either. */
static bool is_lost(const struct rewriting *w, int rc)
{
	return w->options->mend && (rc == STORE_E_NO_BLOB || rc == STORE_E_DAMAGED || rc == STORE_E_ABSENT);
}

/* ------------------------------------------------------------------------------------------------------- what is there */

void store_looked_free(struct store_looked *looked)
{
	free(looked->chunks);
	free(looked->packs);
	memset(looked, 0, sizeof(*looked));
}

static int compare_listed(const void *a, const void *b)
{
	return memcmp(((const struct store_listed *)a)->name.bytes, ((const struct store_listed *)b)->name.bytes,
		      STORE_ID_BYTES);
}

/* The index may name packs that are gone, or that have been cut off. */
static int look_at_packs(struct rewriting *w)
{
	struct store_looked *looked = w->looked;
	struct store_listed *names;
	size_t count;

	if (looked->packs != NULL)
		return 0;
	const int rc = store_list_all(w->s->backend, STORE_PACK, &names, &count);

	if (rc != 0)
		return rc;
	looked->chunks_count = store_index_count(w->s);
	looked->chunks = (uint8_t *)store_alloc(looked->chunks_count + 1);
	looked->packs_count = store_pack_count(w->s);
	looked->packs = (uint8_t *)store_alloc(looked->packs_count + 1);
	for (uint32_t i = 0; i < looked->packs_count; i++) {
		const struct store_pack pack = store_pack_at(w->s, i);
		const struct store_listed one = {.name = pack.name}, *there = NULL;

		if (count > 0)
			there = (const struct store_listed *)bsearch(&one, names, count, sizeof(*names),
								     compare_listed);
		looked->packs[i] = there == NULL ? LOST : there->bytes == pack.bytes ? THERE : UNKNOWN;
	}
	free(names);
	return 0;
}

/* 0: the chunk is there, 1: it is lost, or an error. */
static int look_at_chunk(struct rewriting *w, const struct store_part *part)
{
	struct store_looked *looked = w->looked;
	struct store_entry entry;
	uint32_t number;
	int rc = store_index_find(w->s, &part->id, &number, &entry);

	if (rc != 0)
		return rc == STORE_E_NO_BLOB ? 1 : rc;
	if (entry.type != STORE_DATA || entry.raw != part->bytes || number >= looked->chunks_count)
		return 1;
	if (looked->chunks[number] != UNKNOWN)
		return looked->chunks[number] == LOST;
	bool lost = entry.pack >= looked->packs_count || looked->packs[entry.pack] == LOST;
	if (!lost && (w->options->read_data || looked->packs[entry.pack] != THERE)) {
		rc = store_blob_get(w->s, &w->cutter.codec, STORE_DATA, &part->id, &w->blob);
		lost = is_lost(w, rc);
		if (rc != 0 && !lost)
			return rc;
	}
	looked->chunks[number] = lost ? LOST : THERE;
	return lost;
}

/* What is known of a directory's piece; NULL: the index has none such. */
static uint8_t *known_of(struct rewriting *w, const struct store_part *part)
{
	struct store_entry entry;
	uint32_t number;

	if (part->hole || store_index_find(w->s, &part->id, &number, &entry) != 0 || entry.type != STORE_TREE ||
	    number >= w->looked->chunks_count)
		return NULL;
	return &w->looked->chunks[number];
}

/* All pieces of a directory, each of which a whole directory has: what they name is whole as well. */
static bool is_whole(struct rewriting *w, const struct store_content *content)
{
	struct store_in in = store_content_in(content);
	struct store_part part;

	while (in.at != in.end) {
		const uint8_t *known = store_part_next(&in, &part) ? known_of(w, &part) : NULL;
		if (known == NULL || *known != THERE)
			return false;
	}
	return true;
}

/* What was written again is what was there. */
static void note_whole(struct rewriting *w, const struct store_content *content)
{
	struct store_in in = store_content_in(content);
	struct store_part part;

	while (in.at != in.end && store_part_next(&in, &part)) {
		uint8_t *known = known_of(w, &part);
		if (known != NULL)
			*known = THERE;
	}
}

/* -------------------------------------------------------------------------------------------------------------- reading */

static void push(struct rewriting *w, char *path, const struct store_content *content, const struct store_node *node)
{
	if (w->depth == w->room) {
		w->room = w->room == 0 ? 16 : 2 * w->room;
		w->levels = (struct level *)store_realloc(w->levels, w->room * sizeof(*w->levels));
	}
	struct level *level = &w->levels[w->depth++];
	memset(level, 0, sizeof(*level));
	level->path = path;
	if (node != NULL)
		store_buf_add(&level->entry, node->raw, node->raw_bytes);
	store_buf_add(&level->content, content->data, content->bytes);
	level->parts = store_in_of(level->content.data, level->content.size);
}

static void drop(struct rewriting *w)
{
	struct level *level = &w->levels[--w->depth];

	free(level->path);
	store_buf_free(&level->entry);
	store_buf_free(&level->content);
	store_buf_free(&level->piece);
	store_pieces_free(&level->pieces);
}

/* Whether all entries of a piece are possible, and behind those before it. */
static bool piece_is_right(struct level *level)
{
	struct store_in in = store_in_of(level->piece.data, level->piece.size);
	struct store_node node;
	const uint8_t *last = level->last;
	size_t last_bytes = level->last_bytes;

	while (in.at != in.end) {
		if (!store_node_read(&in, &node) ||
		    (last_bytes > 0 && store_name_compare(last, last_bytes, node.name, node.name_bytes) >= 0))
			return false;
		last = node.name;
		last_bytes = node.name_bytes;
	}
	if (last != level->last)
		memcpy(level->last, last, last_bytes);
	level->last_bytes = last_bytes;
	return true;
}

/* 1 and an entry of the directory on top; 0 at its end; or an error. */
static int next_entry(struct rewriting *w, struct store_node *node)
{
	struct level *level = &w->levels[w->depth - 1];
	struct store_part part;
	char hex[STORE_HEX_BYTES];

	while (level->in.at == level->in.end) {
		if (level->parts.at == level->parts.end)
			return 0;
		if (!store_part_next(&level->parts, &part) || part.hole)
			return store_fail(STORE_E_DAMAGED, "a directory's list of pieces is damaged");
		int rc = store_blob_get(w->s, &w->cutter.codec, STORE_TREE, &part.id, &level->piece);
		if (rc == 0 && !piece_is_right(level))
			rc = store_fail(STORE_E_DAMAGED, "directory blob %.16s is refused: it has impossible entries",
					store_hex(&part.id, hex));
		if (rc == 0) {
			level->in = store_in_of(level->piece.data, level->piece.size);
			continue;
		}
		if (!is_lost(w, rc))
			return rc;
		tell(w, level->path[0] == 0 ? "/" : level->path, "names in this directory are lost");
	}
	return store_node_read(&level->in, node) ? 1 : STORE_E_DAMAGED;
}

/* -------------------------------------------------------------------------------------------------------------- writing */

static int add_entry(struct rewriting *w, const struct store_node *node)
{
	struct level *level = &w->levels[w->depth - 1];

	store_node_write(&level->pieces.piece, node);
	return store_piece_ends(level->pieces.piece.size, node->name, node->name_bytes) ?
		       store_cutter_piece(&w->cutter, &level->pieces) :
		       0;
}

/* Holes in the place of chunks that are lost. */
static int take_file(struct rewriting *w, const char *path, const struct store_node *node)
{
	struct store_in in = store_content_in(&node->content);
	struct store_node copy = *node;
	struct store_part part;
	uint64_t lost_bytes = 0, count = 0;
	char sentence[96];

	w->parts.size = 0;
	while (w->options->mend && in.at != in.end && store_part_next(&in, &part)) {
		const int lost = part.hole ? 0 : look_at_chunk(w, &part);

		if (lost < 0)
			return lost;
		lost_bytes += lost == 1 ? part.bytes : 0;
		part.hole = part.hole || lost == 1;
		store_part_add(&w->parts, &count, &part);
	}
	if (lost_bytes > 0) {
		copy.content = (struct store_content){w->parts.data, w->parts.size, count};
		copy.flags |= STORE_UNSETTLED;
		snprintf(sentence, sizeof(sentence), "%llu of %llu bytes are lost and are zeros now",
			 (unsigned long long)lost_bytes, (unsigned long long)node->size);
		tell(w, path, sentence);
	}
	w->files++;
	w->bytes += node->size;
	return add_entry(w, &copy);
}

static int take_node(struct rewriting *w, const struct store_node *node)
{
	const bool directory = node->type == STORE_NODE_DIR;
	char *path = store_node_path(w->levels[w->depth - 1].path, node);
	int rc = 0;

	if (w->options->excludes != NULL && store_excluded(w->options->excludes, path, directory)) {
		tell(w, path, "is left out");
	} else if (directory && w->passes_whole && is_whole(w, &node->content)) {
		rc = add_entry(w, node);
	} else if (directory) {
		push(w, path, &node->content, node);
		return 0;
	} else if (node->type == STORE_NODE_FILE) {
		rc = take_file(w, path, node);
	} else {
		w->others++;
		rc = add_entry(w, node);
	}
	free(path);
	return rc;
}

/* The directory on top is complete, and its entry goes to the one below it, which is there. */
static int pop(struct rewriting *w)
{
	struct level *level = &w->levels[w->depth - 1];
	struct store_node node;
	int rc = store_cutter_piece(&w->cutter, &level->pieces);
	struct store_buf content = level->pieces.content, entry = level->entry;
	const uint64_t count = level->pieces.content_count;
	const bool same = content.size == level->content.size &&
			  (content.size == 0 || memcmp(content.data, level->content.data, content.size) == 0);
	struct store_in in = store_in_of(entry.data, entry.size);

	memset(&level->pieces.content, 0, sizeof(content));
	memset(&level->entry, 0, sizeof(entry));
	drop(w);
	if (rc == 0 && !store_node_read(&in, &node))
		rc = store_fail(STORE_E_DAMAGED, "a directory's entry is damaged");
	if (rc == 0) {
		node.content = (struct store_content){content.data, content.size, count};
		if (w->passes_whole && same)
			note_whole(w, &node.content);
		w->directories++;
		rc = add_entry(w, &node);
	}
	store_buf_free(&content);
	store_buf_free(&entry);
	return rc;
}

/* Everything above the `base` lowest directories, which stay open. */
static int work(struct rewriting *w, size_t base)
{
	struct store_node node;
	int rc = 0;

	while (rc == 0) {
		rc = next_entry(w, &node);
		if (rc == 1)
			rc = take_node(w, &node);
		else if (rc == 0 && w->depth == base)
			break;
		else if (rc == 0)
			rc = pop(w);
	}
	return rc;
}

/* ----------------------------------------------------------------------------------------------------------- from outside */

static int begin(struct rewriting *w, struct store *s, const struct store_rewrite_options *options)
{
	memset(w, 0, sizeof(*w));
	w->s = s;
	w->options = options;
	w->keeping.s = s;
	w->keeping.level = options->level;
	w->looked = options->looked != NULL ? options->looked : &w->own_looked;
	const int rc = store_cutter_open(&w->cutter, &w->keeping, NULL);
	if (rc != 0)
		return rc;
	w->keeping.packer = options->dry_run ? NULL : store_packer_open(s);
	return options->mend ? look_at_packs(w) : 0;
}

/* The root is on top and complete: what it became is the snapshot's; and all is stored. */
static int finish(struct rewriting *w, struct store_pieces *root)
{
	int rc = store_cutter_piece(&w->cutter, &w->levels[0].pieces);

	*root = w->levels[0].pieces;
	memset(&w->levels[0].pieces, 0, sizeof(*root));
	if (rc == 0 && root->content_count == 0)
		rc = store_fail(STORE_E_NONE, "nothing would be left of it");
	if (rc == 0)
		rc = store_cutter_flush(&w->cutter);
	if (rc == 0 && w->keeping.packer != NULL)
		rc = store_packer_finish(w->keeping.packer);
	return rc;
}

static void end(struct rewriting *w)
{
	while (w->depth > 0)
		drop(w);
	if (w->keeping.packer != NULL)
		store_packer_close(w->keeping.packer);
	store_cutter_close(&w->cutter);
	store_buf_free(&w->blob);
	store_buf_free(&w->parts);
	free(w->levels);
	store_looked_free(&w->own_looked);
}

/* Takes the root's content. */
static void give(struct rewriting *w, struct store_pieces *root, struct store_snapshot *snapshot)
{
	store_buf_free(&snapshot->root);
	snapshot->root = root->content;
	snapshot->root_count = root->content_count;
	memset(&root->content, 0, sizeof(root->content));
	snapshot->files = w->files;
	snapshot->directories = w->directories;
	snapshot->others = w->others;
	snapshot->bytes = w->bytes;
}

/* The snapshot stays what it is unless `gives`. */
static int visit(struct store *s, const struct store_rewrite_options *options, bool passes_whole, bool gives,
		 struct store_snapshot *snapshot)
{
	const struct store_content old = store_snapshot_root(snapshot);
	struct store_pieces root = {0};
	struct rewriting w;
	int rc = begin(&w, s, options);

	w.passes_whole = passes_whole;
	if (rc == 0 && !(passes_whole && old.bytes > 0 && is_whole(&w, &old))) {
		push(&w, store_strdup(""), &old, NULL);
		rc = work(&w, 1);
		if (rc == 0)
			rc = finish(&w, &root);
		const bool same = root.content.size == old.bytes &&
				  (old.bytes == 0 || memcmp(root.content.data, old.data, old.bytes) == 0);
		if (rc == 0 && same && passes_whole)
			note_whole(&w, &old);
		if (rc == 0 && !same && gives)
			give(&w, &root, snapshot);
		if (rc == 0 && !same)
			rc = 1;
	}
	end(&w);
	store_pieces_free(&root);
	return rc;
}

/*
 * Where nothing is stored, what is told is found without the rest, and most of a tree that has lost something is whole. Where something is, this may not
 * come first: what a dry run would store is in the index in memory, as if it were there.
 */
int store_rewrite(struct store *s, const struct store_rewrite_options *options, struct store_snapshot *snapshot)
{
	if (options->mend && options->excludes == NULL && options->dry_run) {
		struct store_rewrite_options looking = *options;

		if (!options->names)
			looking.told = NULL;
		const int rc = visit(s, &looking, true, false, snapshot);
		if (rc == 0 || options->names || (rc < 0 && rc != STORE_E_NONE))
			return rc;
	}
	return visit(s, options, false, true, snapshot);
}

/* ------------------------------------------------------------------------------------- directories that nobody has */

struct orphan {
	struct store_id id;
	uint32_t bytes;
};

static int compare_orphans(const void *a, const void *b)
{
	return memcmp(((const struct orphan *)a)->id.bytes, ((const struct orphan *)b)->id.bytes, STORE_ID_BYTES);
}

static void mark(struct store *s, const struct store_content *content, bool *named)
{
	struct store_in in = store_content_in(content);
	struct store_entry entry;
	struct store_part part;
	uint32_t number;

	while (in.at != in.end && store_part_next(&in, &part))
		if (!part.hole && store_index_find(s, &part.id, &number, &entry) == 0)
			named[number] = true;
}

/* What a piece of a directory names; one that cannot be read names nothing, and is none that could be recovered. */
static int mark_piece(struct rewriting *w, const struct store_id *id, bool *named, bool *readable)
{
	struct store_node node;
	const int rc = store_blob_get(w->s, &w->cutter.codec, STORE_TREE, id, &w->blob);
	struct store_in in = store_in_of(w->blob.data, w->blob.size);

	*readable = rc == 0;
	if (rc != 0)
		return is_lost(w, rc) ? 0 : rc;
	while (in.at != in.end && store_node_read(&in, &node))
		if (node.type == STORE_NODE_DIR)
			mark(w->s, &node.content, named);
	return 0;
}

static int mark_snapshots(struct store *s, bool *named)
{
	const struct store_filter all = {0};
	struct store_snapshot *list;
	size_t count;
	const int rc = store_snapshots(s, &all, &list, &count);

	for (size_t i = 0; i < count && rc == 0; i++) {
		const struct store_content root = store_snapshot_root(&list[i]);

		mark(s, &root, named);
	}
	if (rc == 0)
		store_snapshots_free(list, count);
	return rc;
}

/* Sorted by id; the caller frees them. */
static int find_orphans(struct rewriting *w, struct orphan **orphans, size_t *count)
{
	const uint64_t blobs = store_index_count(w->s);
	bool *named = (bool *)store_alloc(blobs + 1), *readable = (bool *)store_alloc(blobs + 1);
	struct store_entry entry;
	int rc = mark_snapshots(w->s, named);

	*count = 0;
	*orphans = NULL;
	for (uint32_t i = 0; i < blobs && rc == 0; i++)
		if ((rc = store_index_at(w->s, i, &entry)) == 0 && entry.type == STORE_TREE)
			rc = mark_piece(w, &entry.id, named, &readable[i]);
	for (uint32_t i = 0; i < blobs && rc == 0; i++) {
		if (named[i] || !readable[i] || (rc = store_index_at(w->s, i, &entry)) != 0)
			continue;
		*orphans = (struct orphan *)store_realloc(*orphans, (*count + 1) * sizeof(**orphans));
		(*orphans)[(*count)++] = (struct orphan){entry.id, entry.raw};
	}
	if (*count > 0)
		qsort(*orphans, *count, sizeof(**orphans), compare_orphans);
	free(named);
	free(readable);
	return rc;
}

/* A directory of that name, of whoever recovers it, which nobody else may look into. */
static int recover_one(struct rewriting *w, const struct orphan *orphan)
{
	const struct store_part part = {.bytes = orphan->bytes, .id = orphan->id};
	struct store_buf content = {0}, entry = {0};
	char hex[STORE_HEX_BYTES];
	uint64_t count = 0;

	store_hex(&orphan->id, hex);
	store_part_add(&content, &count, &part);
	struct store_node node = {.name = (const uint8_t *)hex,
				  .name_bytes = strlen(hex),
				  .type = STORE_NODE_DIR,
				  .mode = 0700,
				  .uid = geteuid(),
				  .gid = getegid(),
				  .mtime = store_now(),
				  .content = {content.data, content.size, count}};
	store_node_write(&entry, &node);
	struct store_in in = store_in_of(entry.data, entry.size);
	const bool read = store_node_read(&in, &node);
	int rc = STORE_E_DAMAGED;
	if (read) {
		push(w, store_node_path("", &node), &node.content, &node);
		rc = work(w, 2);
	}
	if (rc == 0)
		rc = pop(w);
	store_buf_free(&content);
	store_buf_free(&entry);
	return rc;
}

static void describe(struct store_snapshot *snapshot)
{
	char host[65], user[65];

	store_host(host);
	store_user(user);
	snapshot->time = store_now();
	snapshot->host = store_strdup(host);
	snapshot->user = store_strdup(user);
	snapshot->uid = geteuid();
	snapshot->gid = getegid();
	snapshot->paths = (char **)store_alloc(sizeof(char *));
	snapshot->paths[0] = store_strdup("/");
	snapshot->paths_count = 1;
	snapshot->tags = (char **)store_alloc(sizeof(char *));
	snapshot->tags[0] = store_strdup("recovered");
	snapshot->tags_count = 1;
	snapshot->program = store_strdup("shredder " G4_VERSION);
}

int store_recover(struct store *s, const struct store_rewrite_options *options, struct store_snapshot *snapshot,
		  uint64_t *found)
{
	struct store_rewrite_options mending = *options;
	const struct store_content nothing = {0};
	struct store_pieces root = {0};
	struct orphan *orphans = NULL;
	struct rewriting w;
	size_t count = 0;

	mending.mend = true;
	int rc = begin(&w, s, &mending);
	if (rc == 0)
		rc = find_orphans(&w, &orphans, &count);
	*found = count;
	if (rc == 0 && count > 0) {
		push(&w, store_strdup(""), &nothing, NULL);
		for (size_t i = 0; i < count && rc == 0; i++)
			rc = recover_one(&w, &orphans[i]);
		if (rc == 0)
			rc = finish(&w, &root);
		if (rc == 0) {
			describe(snapshot);
			give(&w, &root, snapshot);
		}
	}
	end(&w);
	free(orphans);
	store_pieces_free(&root);
	return rc;
}
