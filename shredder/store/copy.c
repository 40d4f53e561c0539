/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying a snapshot has two passes. The first one reads its directories and gives the contents of files to a pool, which reads the
 * chunks, names and protects them for the target; the second one writes the directories again, with the names that the first one found.
 *
 * With the same cuts, what the pool gets is single chunks, each once: `ids` has the new name of each blob of the source, by its number
 * in the index. With other cuts it gets whole contents, which are cut again: `contents` has the new content for each old one; the
 * second pass keeps directories there, too, so that one that several snapshots have is written once.
 *
 * What an earlier run has copied is not read again: snapshots that are in both repositories are walked side by side, and
 * what their files consist of is known then.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/backend.h"
#include "store/blob.h"
#include "store/copy.h"
#include "store/cutter.h"

/* Of a blob: the pool has it, or its new name is known; of a directory's: learn() has seen it. */
enum { GIVEN = 1, LEARNED = 2 };

#define JOBS_MAX 64
#define ROWS 65536

/* An old content and what it became. */
struct mapped {
	struct store_id key;
	struct store_buf old; /* until the pool has done it */
	struct store_buf content;
	uint64_t count;
	struct mapped *next;
};

struct both {
	struct store_id from, to;
};

struct copy {
	struct store *from, *to;
	const struct store_copy_options *options;
	struct store_keeping keeping;
	bool same_cuts;
	struct store_codec codec; /* this thread's */

	struct store_id *ids;
	uint8_t *known;		/* of each blob of the source */
	struct mapped **mapped; /* rows by key */

	struct both *both; /* snapshots */
	size_t both_count;

	pthread_mutex_t mutex;
	int rc;
	char text[STORE_TEXT_BYTES];
	atomic_bool failed;
	atomic_ullong read_bytes;
	uint64_t total_bytes, progress_ns;
};

struct worker {
	struct copy *op;
	struct store_cutter cutter;
	struct store_buf blob;
};

static void fail(struct copy *op, int rc)
{
	pthread_mutex_lock(&op->mutex);
	if (op->rc == 0) {
		op->rc = rc;
		snprintf(op->text, sizeof(op->text), "%s", store_message());
	}
	pthread_mutex_unlock(&op->mutex);
	atomic_store(&op->failed, true);
	store_pool_stop(op->keeping.pool);
}

/* --------------------------------------------------------------------------------------------------- old and new */

static struct store_id key_of(const struct store_content *content)
{
	struct store_id key;

	store_digest(content->data, content->bytes, key.bytes);
	return key;
}

static struct mapped *find_mapped(const struct copy *op, const struct store_id *key)
{
	uint32_t row;

	memcpy(&row, key, sizeof(row));
	struct mapped *at = op->mapped[row % ROWS];
	while (at != NULL && !store_id_equal(&at->key, key))
		at = at->next;
	return at;
}

static struct mapped *add_mapped(struct copy *op, const struct store_id *key)
{
	struct mapped *mapped = (struct mapped *)store_alloc(sizeof(*mapped));
	uint32_t row;

	memcpy(&row, key, sizeof(row));
	mapped->key = *key;
	mapped->next = op->mapped[row % ROWS];
	op->mapped[row % ROWS] = mapped;
	return mapped;
}

static void free_mapped(struct copy *op)
{
	for (size_t i = 0; i < ROWS; i++)
		while (op->mapped[i] != NULL) {
			struct mapped *next = op->mapped[i]->next;

			store_buf_free(&op->mapped[i]->old);
			store_buf_free(&op->mapped[i]->content);
			free(op->mapped[i]);
			op->mapped[i] = next;
		}
	free(op->mapped);
}

/* The number of a blob of the source. */
static int find_blob(struct copy *op, const struct store_part *part, enum store_blob_type type, uint32_t *number)
{
	struct store_entry entry;
	char hex[STORE_HEX_BYTES];

	const int rc = store_index_find(op->from, &part->id, number, &entry);
	if (rc != 0 && rc != STORE_E_NO_BLOB)
		return rc;
	if (rc == 0 && entry.type == type && entry.raw == part->bytes)
		return 0;
	return store_fail(STORE_E_NO_BLOB, "%s: the index does not know blob %.16s; 'shredder check' tells more",
			  op->from->backend->path, store_hex(&part->id, hex));
}

/* --------------------------------------------------------------------------------------------------------- pool */

static int copy_blob(struct worker *w, uint32_t number)
{
	struct copy *op = w->op;
	struct store_entry entry;
	int rc = store_index_at(op->from, number, &entry);

	w->blob.size = 0;
	if (rc == 0)
		rc = store_blob_get(op->from, &w->cutter.codec, STORE_DATA, &entry.id, &w->blob);
	atomic_fetch_add(&op->read_bytes, w->blob.size);
	if (rc == 0)
		rc = store_cutter_keep(&w->cutter, STORE_DATA, w->blob.data, w->blob.size, &op->ids[number]);
	return rc;
}

static int cut_blob(struct worker *w, const struct store_part *part)
{
	int rc = store_blob_get(w->op->from, &w->cutter.codec, STORE_DATA, &part->id, &w->blob);

	for (size_t at = 0; at < w->blob.size && rc == 0;) {
		size_t room;
		uint8_t *to = store_cutter_room(&w->cutter, &room);
		const size_t bytes = (size_t)g4_min64(room, w->blob.size - at);

		memcpy(to, w->blob.data + at, bytes);
		at += bytes;
		rc = store_cutter_took(&w->cutter, bytes, false);
	}
	atomic_fetch_add(&w->op->read_bytes, w->blob.size);
	return rc;
}

/* Cuts again, each stretch between holes by itself, as a backup does. */
static int cut_content(struct worker *w, struct mapped *mapped)
{
	struct store_in in = store_in_of(mapped->old.data, mapped->old.size);
	struct store_part part;
	int rc = 0;

	store_cutter_begin(&w->cutter, 0); /* nothing waits */
	while (rc == 0 && in.at != in.end && store_part_next(&in, &part)) {
		if (!part.hole) {
			rc = cut_blob(w, &part);
			continue;
		}
		rc = store_cutter_took(&w->cutter, 0, true);
		store_cutter_hole(&w->cutter, part.bytes);
	}
	if (rc == 0)
		rc = store_cutter_took(&w->cutter, 0, true);
	store_buf_free(&mapped->old);
	store_buf_add(&mapped->content, w->cutter.content.data, w->cutter.content.size);
	mapped->count = w->cutter.content_count;
	return rc;
}

static void do_job(void *member, void *user)
{
	struct worker *w = (struct worker *)member;
	struct store_keeping_job *job = (struct store_keeping_job *)user;
	const int rc = job->blob	     ? store_cutter_do(&w->cutter, &job->of_blob) :
		       job->own.what != NULL ? cut_content(w, (struct mapped *)job->own.what) :
					       copy_blob(w, (uint32_t)job->own.number);

	if (rc != 0)
		fail(w->op, rc);
}

/* ---------------------------------------------------------------------------------------------------- first pass */

/* Tree blobs to look at. */
struct stack {
	struct store_part *parts;
	size_t count, room;
};

static int push_pieces(struct copy *op, struct stack *stack, const struct store_content *content)
{
	struct store_in in = store_content_in(content);
	struct store_part part;
	uint32_t number;
	int rc = 0;

	while (rc == 0 && in.at != in.end && store_part_next(&in, &part)) {
		rc = find_blob(op, &part, STORE_TREE, &number);
		if (rc != 0 || (op->known[number] & GIVEN) != 0)
			continue;
		op->known[number] |= GIVEN;
		if (stack->count == stack->room) {
			stack->room = stack->room == 0 ? 64 : 2 * stack->room;
			stack->parts =
				(struct store_part *)store_realloc(stack->parts, stack->room * sizeof(*stack->parts));
		}
		stack->parts[stack->count++] = part;
	}
	return rc;
}

/* Gives to the pool what of a file is not known. */
static int give_file(struct copy *op, const struct store_node *node)
{
	struct store_in in = store_content_in(&node->content);
	struct store_keeping_job job = {.blob = false};
	struct store_part part;
	uint32_t number;
	int rc = 0;

	if (!op->same_cuts) {
		const struct store_id key = key_of(&node->content);

		if (find_mapped(op, &key) != NULL)
			return 0;
		struct mapped *mapped = add_mapped(op, &key);
		store_buf_add(&mapped->old, node->content.data, node->content.bytes);
		job.own.what = mapped;
		store_pool_add(op->keeping.pool, &job);
		return 0;
	}
	while (rc == 0 && in.at != in.end && store_part_next(&in, &part)) {
		if (part.hole)
			continue;
		rc = find_blob(op, &part, STORE_DATA, &number);
		if (rc != 0 || op->known[number] != 0)
			continue;
		op->known[number] = GIVEN;
		job.own.number = number;
		store_pool_add(op->keeping.pool, &job);
	}
	return rc;
}

static int give_piece(struct copy *op, struct stack *stack, const struct store_part *part, struct store_buf *piece)
{
	struct store_node node;
	char hex[STORE_HEX_BYTES];
	int rc = store_blob_get(op->from, &op->codec, STORE_TREE, &part->id, piece);
	struct store_in in = store_in_of(piece->data, piece->size);

	while (rc == 0 && in.at != in.end && store_node_read(&in, &node)) {
		if (node.type == STORE_NODE_DIR)
			rc = push_pieces(op, stack, &node.content);
		else if (node.type == STORE_NODE_FILE)
			rc = give_file(op, &node);
	}
	if (rc == 0 && in.bad)
		rc = store_fail(STORE_E_DAMAGED, "directory blob %.16s is refused: it has impossible entries",
				store_hex(&part->id, hex));
	return rc;
}

static void report_progress(struct copy *op)
{
	if (op->options->progress != NULL && store_progress_due(&op->progress_ns))
		op->options->progress(op->options->user, atomic_load(&op->read_bytes), op->total_bytes);
}

static int first_pass(struct copy *op, const struct store_content *root)
{
	const uint32_t threads = store_threads(op->options->threads);
	struct worker *workers = (struct worker *)store_alloc(threads * sizeof(*workers));
	const struct store_pool_options pool = {.threads = threads,
						.members = workers,
						.member_bytes = sizeof(*workers),
						.job_bytes = sizeof(struct store_keeping_job),
						.jobs_max = JOBS_MAX,
						.work = do_job};
	struct stack stack = {0};
	struct store_buf piece = {0};
	int rc = 0;

	for (uint32_t i = 0; i < threads && rc == 0; i++) {
		workers[i].op = op;
		rc = store_cutter_open(&workers[i].cutter, &op->keeping, NULL);
	}
	if (rc == 0 && (op->keeping.pool = store_pool_open(&pool)) == NULL)
		rc = STORE_E_IO;
	if (rc == 0)
		rc = push_pieces(op, &stack, root);
	while (rc == 0 && stack.count > 0 && !atomic_load(&op->failed)) {
		const struct store_part part = stack.parts[--stack.count];

		rc = give_piece(op, &stack, &part, &piece);
		report_progress(op);
	}
	if (rc != 0 && op->keeping.pool != NULL)
		fail(op, rc);
	store_pool_close(op->keeping.pool);
	op->keeping.pool = NULL;
	for (uint32_t i = 0; i < threads && rc == 0 && !atomic_load(&op->failed); i++)
		rc = store_cutter_flush(&workers[i].cutter);
	for (uint32_t i = 0; i < threads; i++) {
		store_cutter_close(&workers[i].cutter);
		store_buf_free(&workers[i].blob);
	}
	free(workers);
	free(stack.parts);
	store_buf_free(&piece);
	return op->rc != 0 ? store_fail(op->rc, "%s", op->text) : rc;
}

/* --------------------------------------------------------------------------------------------------- second pass */

struct frame {
	struct store_dir dir;
	struct store_pieces pieces;
	struct store_id key;
	struct store_buf entry; /* its own, in the source; empty for the root */
};

struct writing {
	struct copy *op;
	struct store_cutter cutter;
	struct frame *frames;
	size_t depth, room;
	struct store_buf entry, content;
};

static void push(struct writing *w, const struct store_content *content, const struct store_node *node)
{
	if (w->depth == w->room) {
		w->room = w->room == 0 ? 16 : 2 * w->room;
		w->frames = (struct frame *)store_realloc(w->frames, w->room * sizeof(*w->frames));
	}
	struct frame *frame = &w->frames[w->depth++];
	memset(frame, 0, sizeof(*frame));
	frame->key = key_of(content);
	if (node != NULL)
		store_buf_add(&frame->entry, node->raw, node->raw_bytes);
	store_dir_open(&frame->dir, w->op->from, &w->op->codec, content);
}

/* An entry of the directory on top, with another content. */
static int add_entry(struct writing *w, const struct store_node *node, const struct store_content *content)
{
	struct frame *frame = &w->frames[w->depth - 1];
	struct store_node copy = *node;

	copy.content = *content;
	if (w->op->to->version < STORE_VERSION_ATIME)
		copy.flags &= (uint8_t)~STORE_ATIME;
	store_node_write(&frame->pieces.piece, &copy);
	return store_piece_ends(frame->pieces.piece.size, node->name, node->name_bytes) ?
		       store_cutter_piece(&w->cutter, &frame->pieces) :
		       0;
}

/* What the content of a file became. */
static int new_content(struct writing *w, const struct store_node *node, struct store_content *content)
{
	struct copy *op = w->op;
	struct store_in in = store_content_in(&node->content);
	struct store_part part;
	uint32_t number;
	int rc = 0;

	*content = node->content;
	if (node->content.count == 0)
		return 0;
	if (!op->same_cuts) {
		const struct store_id key = key_of(&node->content);
		const struct mapped *mapped = find_mapped(op, &key);

		if (mapped == NULL)
			return store_fail(STORE_E_IO,
					  "a file's content was not copied: this is a fault of the program");
		*content = (struct store_content){mapped->content.data, mapped->content.size, mapped->count};
		return 0;
	}
	w->content.size = 0;
	content->count = 0;
	while (rc == 0 && in.at != in.end && store_part_next(&in, &part)) {
		if (!part.hole && (rc = find_blob(op, &part, STORE_DATA, &number)) == 0)
			part.id = op->ids[number];
		store_part_add(&w->content, &content->count, &part);
	}
	content->data = w->content.data;
	content->bytes = w->content.size;
	return rc;
}

static int take_node(struct writing *w, const struct store_node *node)
{
	struct store_content content = node->content;
	int rc = 0;

	if (node->type == STORE_NODE_FILE)
		rc = new_content(w, node, &content);
	if (node->type == STORE_NODE_DIR) {
		const struct store_id key = key_of(&node->content);
		const struct mapped *mapped = find_mapped(w->op, &key);

		if (mapped == NULL) {
			push(w, &node->content, node);
			return 0;
		}
		content = (struct store_content){mapped->content.data, mapped->content.size, mapped->count};
	}
	return rc != 0 ? rc : add_entry(w, node, &content);
}

/* The directory on top is complete: what it became is known, and its entry goes to the one below. */
static int pop(struct writing *w)
{
	struct frame frame = w->frames[w->depth - 1];
	struct store_node node;
	int rc = store_cutter_piece(&w->cutter, &frame.pieces);
	struct mapped *mapped = find_mapped(w->op, &frame.key);

	if (mapped == NULL)
		mapped = add_mapped(w->op, &frame.key);
	store_buf_free(&mapped->content);
	mapped->content = frame.pieces.content;
	mapped->count = frame.pieces.content_count;
	memset(&frame.pieces.content, 0, sizeof(frame.pieces.content));
	w->depth--;
	if (rc == 0 && frame.entry.size > 0) {
		const struct store_content content = {mapped->content.data, mapped->content.size, mapped->count};
		struct store_in in = store_in_of(frame.entry.data, frame.entry.size);

		store_node_read(&in, &node);
		rc = add_entry(w, &node, &content);
	}
	store_dir_close(&frame.dir);
	store_pieces_free(&frame.pieces);
	store_buf_free(&frame.entry);
	return rc;
}

static int second_pass(struct copy *op, const struct store_content *root, struct store_snapshot *snapshot)
{
	struct writing w = {.op = op};
	struct store_node node;
	int rc = store_cutter_open(&w.cutter, &op->keeping, NULL);

	if (rc == 0)
		push(&w, root, NULL);
	while (rc == 0 && w.depth > 0) {
		rc = store_dir_next(&w.frames[w.depth - 1].dir, &node);
		if (rc == 1)
			rc = take_node(&w, &node);
		else if (rc == 0)
			rc = pop(&w);
	}
	if (rc == 0) {
		const struct store_id key = key_of(root);
		const struct mapped *mapped = find_mapped(op, &key);

		store_buf_add(&snapshot->root, mapped->content.data, mapped->content.size);
		snapshot->root_count = mapped->count;
		rc = store_cutter_flush(&w.cutter);
	}
	for (; w.depth > 0; w.depth--) {
		store_dir_close(&w.frames[w.depth - 1].dir);
		store_pieces_free(&w.frames[w.depth - 1].pieces);
		store_buf_free(&w.frames[w.depth - 1].entry);
	}
	store_cutter_close(&w.cutter);
	store_buf_free(&w.entry);
	store_buf_free(&w.content);
	free(w.frames);
	return rc;
}

/* ---------------------------------------------------------------------------------------- what is in both already */

static bool all_there(struct store *s, const struct store_content *content)
{
	struct store_in in = store_content_in(content);
	struct store_entry entry;
	struct store_part part;
	uint32_t number;

	while (in.at != in.end && store_part_next(&in, &part))
		if (!part.hole && store_index_find(s, &part.id, &number, &entry) != 0)
			return false;
	return !in.bad;
}

/* A file that both have: what it consists of here and there. */
static void learn_file(struct copy *op, const struct store_node *old, const struct store_node *copied)
{
	struct store_in in = store_content_in(&old->content), other = store_content_in(&copied->content);
	struct store_part part, theirs;
	uint32_t number;

	if (old->size != copied->size || !all_there(op->to, &copied->content))
		return;
	if (!op->same_cuts) {
		const struct store_id key = key_of(&old->content);

		if (find_mapped(op, &key) != NULL)
			return;
		struct mapped *mapped = add_mapped(op, &key);
		store_buf_add(&mapped->content, copied->content.data, copied->content.bytes);
		mapped->count = copied->content.count;
		return;
	}
	while (in.at != in.end && other.at != other.end && store_part_next(&in, &part) &&
	       store_part_next(&other, &theirs)) {
		if (part.bytes != theirs.bytes || part.hole != theirs.hole)
			return;
		if (part.hole || find_blob(op, &part, STORE_DATA, &number) != 0 || op->known[number] != 0)
			continue;
		op->known[number] = GIVEN;
		op->ids[number] = theirs.id;
	}
}

struct side {
	struct store_dir dir;
	struct store_node node;
	bool there;
};
struct pair {
	struct side old, copied;
};

static void advance(struct side *side)
{
	side->there = store_dir_next(&side->dir, &side->node) == 1;
}

static void open_pair(struct copy *op, struct pair *pair, const struct store_content *old,
		      const struct store_content *copied)
{
	memset(pair, 0, sizeof(*pair));
	store_dir_open(&pair->old.dir, op->from, &op->codec, old);
	store_dir_open(&pair->copied.dir, op->to, &op->codec, copied);
	advance(&pair->old);
	advance(&pair->copied);
}

/* True when all of the directory was learned before; from now on it was. */
static bool learned(struct copy *op, const struct store_content *content)
{
	struct store_in in = store_content_in(content);
	struct store_part part;
	uint32_t number;
	bool before = true;

	while (in.at != in.end && store_part_next(&in, &part) && find_blob(op, &part, STORE_TREE, &number) == 0) {
		before = before && (op->known[number] & LEARNED) != 0;
		op->known[number] |= LEARNED;
	}
	return before;
}

/* Two snapshots side by side; what differs is left out. What cannot be read ends its directory: nothing is lost but time. */
static void learn(struct copy *op, const struct store_content *old, const struct store_content *copied)
{
	struct pair *pairs = (struct pair *)store_alloc(sizeof(*pairs));
	size_t depth = 1, room = 1;

	open_pair(op, &pairs[0], old, copied);
	while (depth > 0) {
		struct side *a = &pairs[depth - 1].old, *b = &pairs[depth - 1].copied;

		if (!a->there || !b->there) {
			store_dir_close(&a->dir);
			store_dir_close(&b->dir);
			depth--;
			continue;
		}
		const int order =
			store_name_compare(a->node.name, a->node.name_bytes, b->node.name, b->node.name_bytes);
		const bool both = order == 0 && a->node.type == b->node.type;
		if (both && a->node.type == STORE_NODE_FILE)
			learn_file(op, &a->node, &b->node);
		if (both && a->node.type == STORE_NODE_DIR && !learned(op, &a->node.content)) {
			struct pair below;

			open_pair(op, &below, &a->node.content, &b->node.content);
			advance(a);
			advance(b);
			if (depth == room) {
				room *= 2;
				pairs = (struct pair *)store_realloc(pairs, room * sizeof(*pairs));
			}
			pairs[depth++] = below;
			continue;
		}
		if (order <= 0)
			advance(a);
		if (order >= 0)
			advance(b);
	}
	free(pairs);
}

static bool same_texts(char *const *a, size_t a_count, char *const *b, size_t b_count)
{
	if (a_count != b_count)
		return false;
	for (size_t i = 0; i < a_count; i++)
		if (strcmp(a[i], b[i]) != 0)
			return false;
	return true;
}

/* A copy keeps all of this; two backups do not have the same nanosecond. */
static bool same_snapshot(const struct store_snapshot *a, const struct store_snapshot *b)
{
	return a->time.seconds == b->time.seconds && a->time.ns == b->time.ns && strcmp(a->host, b->host) == 0 &&
	       strcmp(a->user, b->user) == 0 && same_texts(a->paths, a->paths_count, b->paths, b->paths_count) &&
	       same_texts(a->tags, a->tags_count, b->tags, b->tags_count) && a->files == b->files &&
	       a->directories == b->directories && a->others == b->others && a->bytes == b->bytes;
}

/* ------------------------------------------------------------------------------------------------------ everything */

static char **copy_texts(char *const *texts, size_t count)
{
	char **copies = (char **)store_alloc(count * sizeof(*copies));

	for (size_t i = 0; i < count; i++)
		copies[i] = store_strdup(texts[i]);
	return copies;
}

static void describe(const struct store_snapshot *old, struct store_snapshot *copied)
{
	memset(copied, 0, sizeof(*copied));
	copied->time = old->time;
	copied->host = store_strdup(old->host);
	copied->user = store_strdup(old->user);
	copied->uid = old->uid;
	copied->gid = old->gid;
	copied->paths = copy_texts(old->paths, old->paths_count);
	copied->paths_count = old->paths_count;
	copied->tags = copy_texts(old->tags, old->tags_count);
	copied->tags_count = old->tags_count;
	copied->files = old->files;
	copied->directories = old->directories;
	copied->others = old->others;
	copied->bytes = old->bytes;
	copied->unread = old->unread;
	copied->program = store_strdup(old->program);
	store_buf_add(&copied->owners.list, old->owners.list.data, old->owners.list.size);
	copied->owners.count = old->owners.count;
}

static void add_both(struct copy *op, const struct store_id *from, const struct store_id *to)
{
	op->both = (struct both *)store_realloc(op->both, (op->both_count + 1) * sizeof(*op->both));
	op->both[op->both_count++] = (struct both){*from, *to};
}

static int copy_one(struct copy *op, const struct store_snapshot *old, struct store_id *name)
{
	const struct store_content root = store_snapshot_root(old);
	struct store_snapshot copied;

	describe(old, &copied);
	for (size_t i = 0; i < op->both_count && old->has_parent && !copied.has_parent; i++)
		if (store_id_equal(&op->both[i].from, &old->parent)) {
			copied.has_parent = true;
			copied.parent = op->both[i].to;
		}
	op->keeping.packer = op->options->dry_run ? NULL : store_packer_open(op->to);
	int rc = first_pass(op, &root);
	if (rc == 0)
		rc = second_pass(op, &root, &copied);
	if (op->keeping.packer != NULL) {
		if (rc == 0)
			rc = store_packer_finish(op->keeping.packer);
		store_packer_close(op->keeping.packer);
		op->keeping.packer = NULL;
		if (rc == 0)
			rc = store_snapshot_put(op->to, &copied);
	}
	*name = copied.name;
	store_snapshot_free(&copied);
	return rc;
}

/* Snapshots that are there already are learned from: only what is new since is read. */
static int copy_all(struct copy *op, const struct store_snapshot *list, size_t count, struct store_copy_result *result)
{
	const struct store_filter all = {0};
	struct store_snapshot *there;
	size_t there_count;
	int rc = store_snapshots(op->to, &all, &there, &there_count);

	if (rc != 0)
		return rc;
	for (size_t i = 0; i < count && rc == 0; i++) {
		struct store_id name;
		size_t k = 0;

		while (k < there_count && !same_snapshot(&list[i], &there[k]))
			k++;
		if (k < there_count) {
			const struct store_content old = store_snapshot_root(&list[i]);
			const struct store_content copied = store_snapshot_root(&there[k]);

			learn(op, &old, &copied);
			add_both(op, &list[i].name, &there[k].name);
			result->present++;
			op->options->copied(op->options->user, &list[i], NULL);
			continue;
		}
		op->total_bytes = list[i].bytes;
		atomic_store(&op->read_bytes, 0);
		rc = copy_one(op, &list[i], &name);
		result->read_bytes += atomic_load(&op->read_bytes);
		if (rc != 0)
			break;
		add_both(op, &list[i].name, &name);
		result->copied++;
		op->options->copied(op->options->user, &list[i], &name);
	}
	store_snapshots_free(there, there_count);
	return rc;
}

bool store_same_cuts(const struct store *a, const struct store *b)
{
	const struct shredder_params *p = &a->params, *q = &b->params;

	return p->algorithm == q->algorithm && p->mask_bits == q->mask_bits && p->polynomial == q->polynomial &&
	       p->marker == q->marker && p->min_bytes == q->min_bytes && p->max_bytes == q->max_bytes;
}

int store_copy(struct store *from, struct store *to, const struct store_snapshot *list, size_t count,
	       const struct store_copy_options *options, struct store_copy_result *result)
{
	struct copy *op = (struct copy *)store_alloc(sizeof(*op));

	memset(result, 0, sizeof(*result));
	op->from = from;
	op->to = to;
	op->options = options;
	op->keeping.s = to;
	op->keeping.level = options->level;
	op->same_cuts = store_same_cuts(from, to);
	op->ids = (struct store_id *)store_alloc(store_index_count(from) * sizeof(*op->ids));
	op->known = (uint8_t *)store_alloc(store_index_count(from));
	op->mapped = (struct mapped **)store_alloc(ROWS * sizeof(*op->mapped));
	pthread_mutex_init(&op->mutex, NULL);
	store_codec_init(&op->codec, 0);
	const int rc = copy_all(op, list, count, result);
	result->new_blobs = atomic_load(&op->keeping.new_blobs);
	result->new_bytes = atomic_load(&op->keeping.new_bytes);
	result->stored_bytes = atomic_load(&op->keeping.stored_bytes);
	store_codec_free(&op->codec);
	pthread_mutex_destroy(&op->mutex);
	free_mapped(op);
	free(op->both);
	free(op->ids);
	free(op->known);
	free(op);
	return rc;
}
