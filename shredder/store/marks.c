/* SPDX-License-Identifier: Apache-2.0 */
/* A tree blob is looked at once, however many snapshots have it: so the work is that of the differences. */
#include <stdio.h>
#include <stdlib.h>

#include "store/marks.h"

/* Blobs of a file that are looked up at a time. */
#define TOGETHER 64

/* Tree blobs to look at. */
struct stack {
	struct store_id *ids;
	size_t count, room;
};

void store_marks_begin(struct store_marks *marks, struct store *s, void (*problem)(void *user, const char *sentence),
		       void *user)
{
	memset(marks, 0, sizeof(*marks));
	marks->s = s;
	marks->used = (uint8_t *)store_alloc(store_index_count(s) + 1);
	marks->problem = problem;
	marks->user = user;
	store_codec_init(&marks->codec, 0);
}

void store_marks_end(struct store_marks *marks)
{
	free(marks->used);
	store_codec_free(&marks->codec);
}

static void tell(struct store_marks *marks, const char *sentence)
{
	marks->problems++;
	marks->problem(marks->user, sentence);
}

/* Marks a blob that was looked up; true when it was not marked before and is there. */
static bool mark(struct store_marks *marks, const struct store_found *found, uint64_t bytes, enum store_blob_type type,
		 const char *of)
{
	char hex[STORE_HEX_BYTES], text[STORE_TEXT_BYTES];

	if (!found->there || found->entry.type != type || found->entry.raw != bytes) {
		snprintf(text, sizeof(text), "%s blob %.16s, of %s, is not in the index",
			 type == STORE_TREE ? "directory" : "data", store_hex(&found->id, hex), of);
		tell(marks, text);
		marks->losses++;
		return false;
	}
	const bool fresh = marks->used[found->number] == 0;
	marks->used[found->number] = 1;
	return fresh;
}

static bool look_up(struct store_marks *marks, struct store_found *found, size_t count)
{
	const int rc = store_index_find_all(marks->s, found, count);

	if (rc != 0)
		tell(marks, store_message());
	return rc == 0;
}

static void push_pieces(struct store_marks *marks, struct stack *stack, const struct store_content *content,
			const char *of)
{
	struct store_in in = store_content_in(content);
	struct store_part part;

	while (in.at != in.end && store_part_next(&in, &part)) {
		struct store_found found = {.id = part.id};

		if (part.hole || !look_up(marks, &found, 1) || !mark(marks, &found, part.bytes, STORE_TREE, of))
			continue;
		if (stack->count == stack->room) {
			stack->room = stack->room == 0 ? 64 : 2 * stack->room;
			stack->ids = (struct store_id *)store_realloc(stack->ids, stack->room * sizeof(*stack->ids));
		}
		stack->ids[stack->count++] = part.id;
	}
}

static void mark_file(struct store_marks *marks, const struct store_node *node)
{
	struct store_in in = store_content_in(&node->content);
	struct store_part part;
	struct store_found found[TOGETHER];
	uint64_t bytes[TOGETHER];
	char of[STORE_NAME_MAX + 16];
	size_t count = 0;

	snprintf(of, sizeof(of), "file '%.*s'", (int)node->name_bytes, (const char *)node->name);
	for (bool more = true; more;) {
		more = in.at != in.end && store_part_next(&in, &part);
		if (more && !part.hole) {
			found[count].id = part.id;
			bytes[count++] = part.bytes;
		}
		if (count == TOGETHER || !more) {
			if (look_up(marks, found, count))
				for (size_t i = 0; i < count; i++)
					mark(marks, &found[i], bytes[i], STORE_DATA, of);
			count = 0;
		}
	}
}

static void mark_piece(struct store_marks *marks, struct stack *stack, const struct store_id *id,
		       struct store_buf *piece)
{
	char hex[STORE_HEX_BYTES], text[STORE_TEXT_BYTES];
	struct store_node node;

	marks->trees++;
	const int rc = store_blob_get(marks->s, &marks->codec, STORE_TREE, id, piece);
	if (rc != 0) {
		tell(marks, store_message());
		marks->losses += rc == STORE_E_DAMAGED;
		return;
	}
	struct store_in in = store_in_of(piece->data, piece->size);
	while (in.at != in.end && store_node_read(&in, &node)) {
		if (node.type == STORE_NODE_DIR)
			push_pieces(marks, stack, &node.content, "a directory");
		else if (node.type == STORE_NODE_FILE)
			mark_file(marks, &node);
	}
	if (in.bad) {
		snprintf(text, sizeof(text), "directory blob %.16s has impossible entries", store_hex(id, hex));
		tell(marks, text);
	}
}

void store_marks_snapshots(struct store_marks *marks, const struct store_listed *names, size_t count)
{
	struct store_buf piece = {0};
	struct stack stack = {0};

	for (size_t i = 0; i < count; i++) {
		struct store_snapshot snapshot;
		char hex[STORE_HEX_BYTES], of[64];

		const int got = store_snapshot_get(marks->s, &names[i].name, &snapshot);
		if (got != 0) {
			if (got != STORE_E_ABSENT)
				tell(marks, store_message());
			continue;
		}
		const struct store_content root = store_snapshot_root(&snapshot);
		snprintf(of, sizeof(of), "snapshot %.16s", store_hex(&names[i].name, hex));
		marks->snapshots++;
		push_pieces(marks, &stack, &root, of);
		while (stack.count > 0) {
			const struct store_id id = stack.ids[--stack.count];

			mark_piece(marks, &stack, &id, &piece);
		}
		store_snapshot_free(&snapshot);
	}
	free(stack.ids);
	store_buf_free(&piece);
}
