/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <unistd.h>

#include "store/names.h"
#include "store/scratch.h"
#include "store/tree.h"

/* Of a run in the file, in memory. */
#define BUFFER_BYTES (32 * G4_KIB)

/* Names that are sorted, one after the other, each with its zero. */
struct run {
	uint64_t at, end; /* what of it is still in the file */
	char *buffer;
	size_t have, used; /* bytes of the buffer, and where its next name is */
};

struct store_names {
	size_t memory_bytes;
	struct store_buf text; /* names of this run, each with its zero */
	uint32_t *places;      /* of names in it */
	size_t count, room, next;
	bool sorted, unwritten;
	int fd; /* -1: no file */
	uint64_t file_bytes;
	struct run *runs;
	size_t runs_count;
	size_t *heap; /* of runs by their next names, the first one on top */
	size_t heap_count;
	char last[STORE_NAME_MAX + 1];
	bool any; /* `last` is one */
};

struct store_names *store_names_open(size_t memory_bytes)
{
	struct store_names *n = (struct store_names *)store_alloc(sizeof(*n));

	n->memory_bytes = memory_bytes != 0 ? memory_bytes : STORE_NAMES_BYTES;
	n->fd = -1;
	return n;
}

void store_names_close(struct store_names *n)
{
	if (n == NULL)
		return;
	for (size_t i = 0; i < n->runs_count; i++)
		free(n->runs[i].buffer);
	if (n->fd >= 0)
		close(n->fd);
	store_buf_free(&n->text);
	free(n->places);
	free(n->runs);
	free(n->heap);
	free(n);
}

static int by_text(const void *a, const void *b, void *user)
{
	const char *text = (const char *)((const struct store_names *)user)->text.data;

	return strcmp(text + *(const uint32_t *)a, text + *(const uint32_t *)b);
}

static void sort(struct store_names *n)
{
	if (n->count > 1)
		qsort_r(n->places, n->count, sizeof(*n->places), by_text, n);
}

/* What is in memory becomes a run in the file. */
static void spill(struct store_names *n)
{
	struct store_buf sorted = {0};

	if (n->fd < 0)
		n->fd = store_scratch_file();
	sort(n);
	for (size_t i = 0; i < n->count; i++) {
		const char *name = (const char *)n->text.data + n->places[i];

		store_buf_add(&sorted, name, strlen(name) + 1);
	}
	n->unwritten = n->fd < 0 || !store_scratch_write(n->fd, sorted.data, sorted.size, n->file_bytes);
	if (!n->unwritten) {
		n->runs = (struct run *)store_realloc(n->runs, (n->runs_count + 1) * sizeof(*n->runs));
		n->runs[n->runs_count++] = (struct run){.at = n->file_bytes, .end = n->file_bytes + sorted.size};
		n->file_bytes += sorted.size;
		n->text.size = 0;
		n->count = 0;
	}
	store_buf_free(&sorted);
}

void store_names_add(struct store_names *n, const char *name)
{
	const size_t bytes = strnlen(name, STORE_NAME_MAX);

	/* places have 32 bits, so that many are the last ones in memory */
	if (n->count > 0 && !n->unwritten && n->text.size + n->count * sizeof(*n->places) >= n->memory_bytes)
		spill(n);
	if (n->text.size + bytes + 1 > UINT32_MAX)
		store_alloc(SIZE_MAX);
	if (n->count == n->room) {
		n->room = n->room == 0 ? 16 : n->room + n->room / 2;
		n->places = (uint32_t *)store_realloc(n->places, n->room * sizeof(*n->places));
	}
	n->places[n->count++] = (uint32_t)n->text.size;
	store_buf_add(&n->text, name, bytes);
	store_buf_u8(&n->text, 0);
}

/* -------------------------------------------------------------------------------------------------------- merging */

static const char *head_of(const struct run *run)
{
	return run->buffer + run->used;
}

/* Makes the run's next name whole in its buffer. 0: there is none. */
static int fill(const struct store_names *n, struct run *run)
{
	if (memchr(run->buffer + run->used, 0, run->have - run->used) != NULL)
		return 1;
	memmove(run->buffer, run->buffer + run->used, run->have - run->used);
	run->have -= run->used;
	run->used = 0;
	const uint64_t bytes = g4_min64(BUFFER_BYTES - run->have, run->end - run->at);
	const int rc = store_scratch_read(n->fd, run->buffer + run->have, bytes, run->at, "names");
	if (rc != 0)
		return rc;
	run->at += bytes;
	run->have += bytes;
	return run->have > 0;
}

/* Moves the run at `place` of the heap down to where it belongs. */
static void sift(struct store_names *n, size_t place)
{
	for (;;) {
		size_t first = place;

		for (size_t child = 2 * place + 1; child <= 2 * place + 2 && child < n->heap_count; child++)
			if (strcmp(head_of(&n->runs[n->heap[child]]), head_of(&n->runs[n->heap[first]])) < 0)
				first = child;
		if (first == place)
			return;
		const size_t run = n->heap[place];
		n->heap[place] = n->heap[first];
		n->heap[first] = run;
		place = first;
	}
}

static int begin_merging(struct store_names *n)
{
	int more = 1;

	n->sorted = true;
	sort(n);
	n->heap = (size_t *)store_alloc((n->runs_count + 1) * sizeof(*n->heap));
	for (size_t i = 0; i < n->runs_count && more >= 0; i++) {
		n->runs[i].buffer = (char *)store_alloc(BUFFER_BYTES);
		more = fill(n, &n->runs[i]);
		if (more == 1)
			n->heap[n->heap_count++] = i;
	}
	for (size_t i = n->heap_count; i > 0; i--)
		sift(n, i - 1);
	return more < 0 ? more : 0;
}

/* The first of all runs and of what is in memory goes to `last`. */
static int take(struct store_names *n, char to[STORE_NAME_MAX + 1])
{
	const char *memory = n->next < n->count ? (const char *)n->text.data + n->places[n->next] : NULL;
	struct run *run = n->heap_count > 0 ? &n->runs[n->heap[0]] : NULL;

	if (memory == NULL && run == NULL)
		return 0;
	if (run == NULL || (memory != NULL && strcmp(memory, head_of(run)) <= 0)) {
		memcpy(to, memory, strlen(memory) + 1);
		n->next++;
		return 1;
	}
	const size_t bytes = strlen(head_of(run)) + 1;
	memcpy(to, head_of(run), bytes);
	run->used += bytes;
	const int more = fill(n, run);
	if (more < 0)
		return more;
	if (more == 0)
		n->heap[0] = n->heap[--n->heap_count];
	sift(n, 0);
	return 1;
}

int store_names_next(struct store_names *n, const char **name)
{
	char next[STORE_NAME_MAX + 1];
	int rc = n->sorted ? 0 : begin_merging(n);

	if (rc != 0)
		return rc;
	do /* a directory that changes may tell a name twice */
		rc = take(n, next);
	while (rc == 1 && n->any && strcmp(next, n->last) == 0);
	if (rc != 1)
		return rc;
	memcpy(n->last, next, sizeof(next));
	n->any = true;
	*name = n->last;
	return 1;
}
