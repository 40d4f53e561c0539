/* SPDX-License-Identifier: Apache-2.0 */
/* A state as pointers to its pages. */
#include "sketch.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static void *need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

void sketch_open(struct sketch *k, struct memory *memory)
{
	memset(k, 0, sizeof(*k));
	k->memory = memory;
	k->place = (uint32_t *)need(calloc(memory->page_count, sizeof(uint32_t)));
}

void sketch_close(struct sketch *k)
{
	for (uint32_t n = 0; n < k->scratch_count; n++)
		free(k->scratch[n]);
	free(k->scratch);
	free(k->pages);
	free(k->place);
}

void sketch_clear(struct sketch *k)
{
	k->count = k->scratch_used = 0;
}

static struct sketch_page *find(const struct sketch *k, uint32_t page)
{
	uint32_t at = k->place[page];

	return at < k->count && k->pages[at].page == page ? &k->pages[at] : NULL;
}

static struct sketch_page *find_or_add(struct sketch *k, uint32_t page)
{
	struct sketch_page *p = find(k, page);

	if (p)
		return p;
	if (k->count == k->room) {
		k->room = k->room ? 2 * k->room : 256;
		k->pages = (struct sketch_page *)need(realloc(k->pages, k->room * sizeof(struct sketch_page)));
	}
	k->place[page] = k->count;
	p = &k->pages[k->count++];
	*p = (struct sketch_page){.page = page, .bytes = k->memory->bytes + (uint64_t)page * G4_PAGE_BYTES};
	return p;
}

void sketch_whole(struct sketch *k, uint32_t page, const uint8_t *bytes, uint64_t sum)
{
	struct sketch_page *p = find_or_add(k, page);

	p->own = NULL;
	p->bytes = bytes;
	p->sum = sum;
	p->summed = true;
}

static uint8_t *scratch_page(struct sketch *k)
{
	if (k->scratch_used == k->scratch_count) {
		k->scratch = (uint8_t **)need(realloc(k->scratch, (k->scratch_count + 1) * sizeof(uint8_t *)));
		k->scratch[k->scratch_count++] = (uint8_t *)need(aligned_alloc(G4_PAGE_BYTES, G4_PAGE_BYTES));
	}
	return k->scratch[k->scratch_used++];
}

void sketch_part(struct sketch *k, uint64_t offset, const uint8_t *bytes, uint64_t count)
{
	struct sketch_page *p = find_or_add(k, (uint32_t)(offset / G4_PAGE_BYTES));

	if (!p->own) {
		p->own = scratch_page(k);
		memcpy(p->own, p->bytes, G4_PAGE_BYTES);
		p->bytes = p->own;
	}
	memcpy(p->own + offset % G4_PAGE_BYTES, bytes, count);
	p->summed = false;
}

void sketch_rot(struct sketch *k, uint64_t offset, uint8_t mask)
{
	const struct sketch_page *p = find_or_add(k, (uint32_t)(offset / G4_PAGE_BYTES));
	const uint8_t byte = p->bytes[offset % G4_PAGE_BYTES] ^ mask;

	sketch_part(k, offset, &byte, 1);
}

static uint64_t sum_of(struct sketch_page *p)
{
	if (!p->summed) {
		p->sum = memory_page_sum(p->page, p->bytes);
		p->summed = true;
	}
	return p->sum;
}

uint64_t sketch_sum(struct sketch *k, uint32_t page)
{
	struct sketch_page *p = find(k, page);

	return p ? sum_of(p) : k->memory->settled[page];
}

void sketch_sums(struct sketch *k, uint64_t *all, uint64_t *home)
{
	const struct memory *m = k->memory;

	memory_settled(m, all, home);
	for (uint32_t n = 0; n < k->count; n++) {
		struct sketch_page *p = &k->pages[n];
		if (!memory_counts(m, p->page))
			continue;
		uint64_t change = sum_of(p) ^ m->settled[p->page];
		*all ^= change;
		if (memory_is_home(m, p->page))
			*home ^= change;
	}
}

void sketch_apply(const struct sketch *k)
{
	for (uint32_t n = 0; n < k->count; n++) {
		const struct sketch_page *p = &k->pages[n];
		uint64_t offset = (uint64_t)p->page * G4_PAGE_BYTES;
		memory_save(k->memory, offset, G4_PAGE_BYTES);
		memcpy(k->memory->bytes + offset, p->bytes, G4_PAGE_BYTES);
	}
}
