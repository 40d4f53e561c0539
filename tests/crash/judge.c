/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of docs/reliability.md. */
#include "judge.h"

#include "fs/fs.h"

#define EVERYBODY UINT32_MAX

bool party_owns(const struct party *party, const char *path)
{
	if (strcmp(path, SECOND_LIFE) == 0) /* explore.c judges it */
		return false;
	if (!party->tag)
		return true;
	return (path[0] == 't' && path[1] == party->tag) || (strncmp(path, "sh/", 3) == 0 && path[3] == party->tag);
}

/* ------------------------------------------------------------------ differences between states */

/* The next node that is the party's. */
static const struct node *next_owned(const struct party *party, const struct tree *tree, uint32_t *at)
{
	while (*at < tree->count) {
		const struct node *node = &tree->nodes[(*at)++];
		if (party_owns(party, node->path))
			return node;
	}
	return NULL;
}

static bool same_names(const struct party *party, const struct tree *a, const struct tree *b)
{
	const struct node *x, *y;
	uint32_t at_a = 0, at_b = 0;

	do {
		x = next_owned(party, a, &at_a);
		y = next_owned(party, b, &at_b);
		if (x && y && !same_but_contents(x, y))
			return false;
	} while (x && y);
	return !x && !y;
}

static bool has_collision(const struct tree *tree, const struct node *node)
{
	const struct node *twin = tree_find(tree, node->path);

	return twin && same_but_contents(node, twin);
}

/* Whether a step from one state to the next changed an inode's names or attributes, or a directory's entries. */
static bool touches(const struct tree *before, const struct tree *after, uint32_t id)
{
	for (uint32_t k = 0; k < before->count; k++)
		if ((before->nodes[k].id == id || before->nodes[k].parent_id == id) &&
		    !has_collision(after, &before->nodes[k]))
			return true;
	for (uint32_t k = 0; k < after->count; k++)
		if ((after->nodes[k].id == id || after->nodes[k].parent_id == id) &&
		    !has_collision(before, &after->nodes[k]))
			return true;
	return false;
}

void party_prepare(struct party *party)
{
	for (uint32_t k = 0; k < party->count; k++) {
		const struct part *part = &party->parts[k];
		party->sync_names[k] = 0;
		party->sync_ids[k] = 0;
		if (!part_is_sync(part) || party->codes[k] < 0)
			continue;
		if (part->verb == SYNCFS) {
			party->sync_names[k] = k;
			party->sync_ids[k] = EVERYBODY;
			continue;
		}
		const struct node *node = tree_find(&party->states[k], part->path);
		if (!node)
			continue;
		party->sync_ids[k] = node->id;
		for (uint32_t j = 0; j < k; j++)
			if (touches(&party->states[j], &party->states[j + 1], node->id))
				party->sync_names[k] = j + 1;
	}
}

/* ------------------------------------------------------------------ windows */

void party_window(const struct party *party, uint32_t requests, struct window *window)
{
	memset(window, 0, sizeof(*window));
	for (uint32_t k = 0; k < party->done; k++) {
		if (party->sync_ids[k] == 0 || party->ended[k] > requests)
			continue;
		window->names = window->names > party->sync_names[k] ? window->names : party->sync_names[k];
		if (party->sync_ids[k] == EVERYBODY) {
			window->files = k;
		} else {
			window->file[window->count].id = party->sync_ids[k];
			window->file[window->count++].from = k;
		}
	}
	while (window->reached < party->count && party->begun[window->reached] <= requests)
		window->reached++;
}

bool window_same(const struct window *a, const struct window *b)
{
	return a->names == b->names && a->reached == b->reached && a->files == b->files && a->count == b->count &&
	       memcmp(a->file, b->file, a->count * sizeof(a->file[0])) == 0;
}

/* ------------------------------------------------------------------ contents of one file */

struct question { /* about one inode, names being those of state m */
	const struct party *party;
	uint32_t id;
	uint32_t from, to; /* states that contents may be of */
	uint32_t m;
};

static const struct node *in_state(const struct question *q, uint32_t state)
{
	return tree_find_id(&q->party->states[state], q->id);
}

/* Contents that may be there although the names say less: parts that leave names alone are seen when they like. */
static bool leaves_names(const struct part *part)
{
	return part->verb == WRITE || part->verb == COPY || part->verb == DEDUPE || part->verb == DIG ||
	       part->verb == PUNCH || part->verb == ZERO || part_is_of_disks(part) || part_is_sync(part);
}

/*
 * The part, which is durable, fixes page p (or the size, for p UINT64_MAX) of the inode: nothing older may be found.
 */
static bool pins(const struct question *q, uint32_t k, uint64_t p)
{
	const struct part *part = &q->party->parts[k];
	const struct tree *before = &q->party->states[k];
	const struct node *node;

	if (q->party->codes[k] < 0 || part->verb < RENAME || part->verb == TMPFILE || part_is_of_disks(part) ||
	    part_is_sync(part))
		return false;
	node = part->verb == CUT_OPEN ? NULL : tree_find(before, part->path);
	if (!node || node->id != q->id || !g4_is_reg(node->mode))
		return false;
	switch (part->verb) {
	case RENAME: /* over another file: what was written before goes first */
	case WHITEOUT:
	case EXCHANGE:
		return tree_find(before, part->path2) != NULL;
	case TRUNCATE:
		return part->bytes > node->size || p == UINT64_MAX || p >= part->bytes / G4_PAGE_BYTES;
	case ALLOCATE:
		return part->offset + part->bytes > node->size;
	case INSERT:
	case COLLAPSE: /* every page in its new place, and what was written before is there */
		return true;
	case PUNCH:
	case ZERO:
		return p >= g4_pages_for(part->offset) && p < (part->offset + part->bytes) / G4_PAGE_BYTES;
	default:
		return false;
	}
}

/* The oldest state that page p, or the size, may be of. */
static uint32_t oldest(const struct question *q, uint64_t p)
{
	for (uint32_t k = q->m; k > q->from; k--)
		if (pins(q, k - 1, p))
			return k;
	return q->from;
}

/* The size at a state; a durable truncation after it has cut what it was. */
static bool size_at(const struct question *q, uint32_t state, uint32_t pinned, uint64_t *size)
{
	const struct node *node = in_state(q, state);

	if (!node)
		return false;
	*size = node->size;
	if (state < pinned) {
		const struct node *cut = in_state(q, pinned);
		const struct part *part = &q->party->parts[pinned - 1];
		if (!cut || part->verb != TRUNCATE)
			return false;
		*size = g4_min64(*size, cut->size);
	}
	return true;
}

/* Sizes of states, and between two of them, in order, what whole pages make: a file grows page by page. */
static bool size_possible(const struct question *q, uint64_t size)
{
	uint32_t pinned = oldest(q, UINT64_MAX);
	uint64_t least = UINT64_MAX, at;

	for (uint32_t s = q->from; s <= q->to; s++) {
		if (!size_at(q, s, pinned, &at))
			continue;
		if (at == size || (size % G4_PAGE_BYTES == 0 && least < size && size < at))
			return true;
		least = g4_min64(least, at);
	}
	return false;
}

/* A page that was never written, or not any more, reads as zeros: older zeros may be seen where newer data is late. */
static bool page_possible(const struct question *q, uint32_t k, uint64_t value)
{
	uint32_t first = oldest(q, page_index(k));

	for (uint32_t s = value == 0 ? q->from : first; s <= q->to; s++) {
		const struct node *node = in_state(q, s);
		if (node && node_page(&q->party->states[s], node, k) == value)
			return true;
	}
	return false;
}

static bool file_possible(struct question *q, const struct tree *now, const struct node *node, const char **why)
{
	if (!size_possible(q, node->size)) {
		*why = "a file has a size that it never had";
		return false;
	}
	for (uint32_t k = 0; k < node->page_count; k++)
		if (!page_possible(q, k, node_page(now, node, k))) {
			static _Thread_local char text[192];
			snprintf(text, sizeof(text),
				 "a page of a file holds what it never held, or what a sync or a later operation ruled "
				 "out: page %lu of %s, %03lx",
				 (unsigned long)page_index(k), node->path,
				 (unsigned long)(node_page(now, node, k) & 0xfff));
			*why = text;
			return false;
		}
	return true;
}

/* ------------------------------------------------------------------ all of it */

static bool files_possible(const struct party *party, const struct window *window, uint32_t m, const struct tree *now,
			   const char **why)
{
	const struct node *node;
	uint32_t at = 0, to = m;

	while (to < window->reached && leaves_names(&party->parts[to]))
		to++;
	while ((node = next_owned(party, now, &at)) != NULL) {
		struct question q = {.party = party, .id = node->id, .from = window->files, .to = to, .m = m};
		for (uint32_t k = 0; k < window->count; k++)
			if (window->file[k].id == node->id && window->file[k].from > q.from)
				q.from = window->file[k].from;
		/* a sync of the file says nothing of names that others lost before it */
		if (q.to < q.from)
			q.to = q.from;
		if (g4_is_reg(node->mode) && !file_possible(&q, now, node, why))
			return false;
	}
	return true;
}

uint64_t party_judge(const struct party *party, const struct window *window, const struct tree *now, const char **why)
{
	uint64_t possible = 0;

	*why = "these names never were there together, or a sync says more";
	for (uint32_t m = window->names; m <= window->reached; m++)
		if (same_names(party, now, &party->states[m]) && files_possible(party, window, m, now, why))
			possible |= UINT64_C(1) << m;
	return possible;
}

/* Of each pair: what the one surely did began after the other had ended what it surely did not. */
bool parties_in_order(const struct party *parties, uint32_t count, const uint64_t *possible)
{
	for (uint32_t i = 0; i < count; i++) {
		uint32_t most = 63u - (uint32_t)__builtin_clzll(possible[i]);
		if (most >= parties[i].done)
			continue;
		for (uint32_t j = 0; j < count; j++) {
			uint32_t least = (uint32_t)__builtin_ctzll(possible[j]);
			if (i != j && least > 0 && parties[j].begun_at[least - 1] > parties[i].ended_at[most])
				return false;
		}
	}
	return true;
}

void party_print(const struct party *party)
{
	char line[128];

	for (uint32_t k = 0; k < party->count; k++) {
		part_print(&party->parts[k], line, sizeof(line));
		printf("    part %u: %-50s -> %d, requests %u to %u\n", k, line, party->codes[k], party->begun[k],
		       party->ended[k]);
	}
}
