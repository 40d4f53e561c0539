/* SPDX-License-Identifier: Apache-2.0 */
/* Going through directories: everything below one, and the differences of two. */
#include <stdio.h>
#include <stdlib.h>

#include "store/maintain.h"

char *store_node_path(const char *path, const struct store_node *node)
{
	char *whole = (char *)store_alloc(strlen(path) + node->name_bytes + 2);

	sprintf(whole, "%s/", path);
	memcpy(whole + strlen(path) + 1, node->name, node->name_bytes);
	return whole;
}

/* ---------------------------------------------------------------------------------------------------------- visit */

struct visit_frame {
	struct store_dir dir;
	char *path;
};

int store_visit(struct store *s, struct store_codec *codec, const struct store_content *content, const char *path,
		store_visit_fn *each, void *user)
{
	struct visit_frame *frames = (struct visit_frame *)store_alloc(sizeof(*frames));
	struct store_node node;
	size_t depth = 1, room = 1;
	int rc = 0;

	store_dir_open(&frames[0].dir, s, codec, content);
	frames[0].path = store_strdup(path);
	while (depth > 0) {
		struct visit_frame *frame = &frames[depth - 1];
		const int more = rc < 0 ? 0 : store_dir_next(&frame->dir, &node);

		if (more <= 0) {
			rc = rc < 0 ? rc : more;
			store_dir_close(&frame->dir);
			free(frame->path);
			depth--;
			continue;
		}
		char *below = store_node_path(frame->path, &node);
		rc = each(user, below, &node);
		if (rc != 0 || node.type != STORE_NODE_DIR) {
			free(below);
			rc = rc == 1 ? 0 : rc;
			continue;
		}
		if (depth == room) {
			room *= 2;
			frames = (struct visit_frame *)store_realloc(frames, room * sizeof(*frames));
		}
		store_dir_open(&frames[depth].dir, s, codec, &node.content);
		frames[depth++].path = below;
	}
	free(frames);
	return rc;
}

/* ----------------------------------------------------------------------------------------------------------- diff */

struct side {
	struct store_dir dir;
	struct store_node node;
	bool there; /* `node` is its next entry */
	bool open;
};
struct diff_frame {
	struct side left, right;
	char *path;
};

static void open_side(struct side *side, struct store *s, struct store_codec *codec,
		      const struct store_content *content)
{
	memset(side, 0, sizeof(*side));
	side->open = content != NULL;
	if (side->open)
		store_dir_open(&side->dir, s, codec, content);
}

static int fill_side(struct side *side)
{
	int rc;

	if (!side->open || side->there)
		return 0;
	rc = store_dir_next(&side->dir, &side->node);
	side->there = rc == 1;
	if (rc == 0) {
		store_dir_close(&side->dir);
		side->open = false;
	}
	return rc < 0 ? rc : 0;
}

static bool same_content(const struct store_content *a, const struct store_content *b)
{
	return a->count == b->count && a->bytes == b->bytes &&
	       (a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0);
}

static bool same_bytes(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes)
{
	return a_bytes == b_bytes && (a_bytes == 0 || memcmp(a, b, a_bytes) == 0);
}

static bool same_metadata(const struct store_node *a, const struct store_node *b)
{
	return a->mode == b->mode && (a->flags & STORE_LINKED) == (b->flags & STORE_LINKED) && a->uid == b->uid &&
	       a->gid == b->gid && a->mtime.seconds == b->mtime.seconds && a->mtime.ns == b->mtime.ns &&
	       same_bytes(a->attributes, a->attributes_bytes, b->attributes, b->attributes_bytes);
}

/* 0: the same, for directories of themselves only; else 1 and what changed. */
static bool compare(const struct store_node *a, const struct store_node *b, enum store_change *change)
{
	*change = STORE_METADATA;
	if (a->type != b->type) {
		*change = STORE_TYPE;
		return true;
	}
	if ((a->type == STORE_NODE_FILE && (a->size != b->size || !same_content(&a->content, &b->content))) ||
	    !same_bytes(a->target, a->target_bytes, b->target, b->target_bytes) || a->major != b->major ||
	    a->minor != b->minor) {
		*change = STORE_CONTENT;
		return true;
	}
	if (!same_metadata(a, b))
		return true;
	*change = STORE_INODE;
	return (a->flags & STORE_LINKED) != 0 && a->inode != b->inode;
}

static int step(struct store *s, struct store_codec *codec, struct diff_frame **frames, size_t *depth, size_t *room,
		store_diff_fn *each, void *user)
{
	struct diff_frame *frame = &(*frames)[*depth - 1];
	struct store_node *left = frame->left.there ? &frame->left.node : NULL;
	struct store_node *right = frame->right.there ? &frame->right.node : NULL;
	enum store_change change;
	int rc = 0;

	if (left != NULL && right != NULL) {
		const int order = store_name_compare(left->name, left->name_bytes, right->name, right->name_bytes);

		if (order < 0)
			right = NULL;
		else if (order > 0)
			left = NULL;
	}
	frame->left.there = frame->left.there && left == NULL;
	frame->right.there = frame->right.there && right == NULL;
	const struct store_node *either = left != NULL ? left : right;
	if (either == NULL)
		return 0;
	char *path = store_node_path(frame->path, either);
	if (left == NULL)
		rc = each(user, STORE_ADDED, path, NULL, right);
	else if (right == NULL)
		rc = each(user, STORE_REMOVED, path, left, NULL);
	else if (compare(left, right, &change))
		rc = each(user, change, path, left, right);
	const bool into_left = left != NULL && left->type == STORE_NODE_DIR;
	const bool into_right = right != NULL && right->type == STORE_NODE_DIR;
	if (rc != 0 || (!into_left && !into_right) ||
	    (into_left && into_right && same_content(&left->content, &right->content))) {
		free(path);
		return rc;
	}
	/* copies, since the frames move; what they point to are buffers, which stay */
	const struct store_content below_left = into_left ? left->content : (struct store_content){0};
	const struct store_content below_right = into_right ? right->content : (struct store_content){0};
	if (*depth == *room) {
		*room *= 2;
		*frames = (struct diff_frame *)store_realloc(*frames, *room * sizeof(**frames));
	}
	struct diff_frame *below = &(*frames)[(*depth)++];
	open_side(&below->left, s, codec, into_left ? &below_left : NULL);
	open_side(&below->right, s, codec, into_right ? &below_right : NULL);
	below->path = path;
	return 0;
}

int store_diff(struct store *s, struct store_codec *codec, const struct store_content *left,
	       const struct store_content *right, store_diff_fn *each, void *user)
{
	struct diff_frame *frames = (struct diff_frame *)store_alloc(sizeof(*frames));
	size_t depth = 1, room = 1;
	int rc = 0;

	open_side(&frames[0].left, s, codec, left);
	open_side(&frames[0].right, s, codec, right);
	frames[0].path = store_strdup("");
	while (depth > 0) {
		struct diff_frame *frame = &frames[depth - 1];

		if (rc == 0)
			rc = fill_side(&frame->left);
		if (rc == 0)
			rc = fill_side(&frame->right);
		if (rc == 0 && (frame->left.there || frame->right.there)) {
			rc = step(s, codec, &frames, &depth, &room, each, user);
			continue;
		}
		if (frame->left.open)
			store_dir_close(&frame->left.dir);
		if (frame->right.open)
			store_dir_close(&frame->right.dir);
		free(frame->path);
		depth--;
	}
	free(frames);
	return rc;
}
