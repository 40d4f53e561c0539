/* SPDX-License-Identifier: Apache-2.0 */
/* What recoveries read and what they left. */
#include "recall.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

static void *need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static bool has(const uint64_t *bits, uint32_t page)
{
	return bits[page / 64] >> page % 64 & 1;
}

static void enter(uint64_t *bits, uint32_t page)
{
	bits[page / 64] |= UINT64_C(1) << page % 64;
}

static uint64_t *new_bits(const struct recall *r)
{
	return (uint64_t *)need(calloc(r->words, sizeof(uint64_t)));
}

void recall_open(struct recall *r, struct sketch *sketch)
{
	memset(r, 0, sizeof(*r));
	r->sketch = sketch;
	r->words = (sketch->memory->page_count + 63) / 64;
	r->read_now = new_bits(r);
	r->written_now = new_bits(r);
}

void recall_forget(struct recall *r)
{
	for (uint32_t k = 0; k < r->read_sets; k++)
		free(r->reads[k].bits);
	for (uint32_t k = 0; k < r->write_sets; k++)
		free(r->writes[k].bits);
	r->read_sets = r->write_sets = r->result_count = 0;
	table_clear(&r->found);
}

void recall_close(struct recall *r)
{
	recall_forget(r);
	free(r->results);
	free(r->read_now);
	free(r->written_now);
}

/* ------------------------------------------------------------------ sets and sums */

/* Of what is settled in these pages. */
static uint64_t settled_sum(const struct recall *r, const uint64_t *bits)
{
	const uint64_t *settled = r->sketch->memory->settled;
	uint64_t sum = 0;

	for (uint32_t word = 0; word < r->words; word++)
		for (uint64_t left = bits[word]; left != 0; left &= left - 1)
			sum ^= settled[64 * word + (uint32_t)__builtin_ctzll(left)];
	return sum;
}

/* Of what the sketched state has in these pages. */
static uint64_t sum_in(struct recall *r, struct page_set *set)
{
	struct sketch *k = r->sketch;

	if (set->sum_serial != k->memory->settle_serial) {
		set->sum = settled_sum(r, set->bits);
		set->sum_serial = k->memory->settle_serial;
	}
	uint64_t sum = set->sum;
	for (uint32_t n = 0; n < k->count; n++) {
		uint32_t page = k->pages[n].page;
		if (has(set->bits, page))
			sum ^= sketch_sum(k, page) ^ k->memory->settled[page];
	}
	return sum;
}

static uint64_t key_of(uint64_t sum, uint32_t set)
{
	return sum + set * UINT64_C(0x9e3779b97f4a7c15);
}

/* RECALL_SETS: there is no room for one more. */
static uint32_t find_set(struct recall *r, struct page_set *sets, uint32_t *count, const uint64_t *bits)
{
	const size_t bytes = r->words * sizeof(uint64_t);
	uint32_t k = 0;

	while (k < *count && memcmp(sets[k].bits, bits, bytes) != 0)
		k++;
	if (k == *count && k < RECALL_SETS) {
		sets[k] = (struct page_set){.bits = new_bits(r), .sum_serial = r->sketch->memory->settle_serial - 1};
		memcpy(sets[k].bits, bits, bytes);
		++*count;
	}
	return k;
}

/* ------------------------------------------------------------------ asking */

static const struct recall_result *find_result(struct recall *r)
{
	for (uint32_t n = 0; n < r->read_sets; n++) {
		uint32_t set = r->order[n];
		uint32_t *known = table_find(&r->found, key_of(sum_in(r, &r->reads[set]), set));
		if (!known)
			continue;
		if (n > 0) { /* what is found often is tried first */
			r->order[n] = r->order[n - 1];
			r->order[n - 1] = set;
		}
		return &r->results[*known];
	}
	return NULL;
}

bool recall_home(struct recall *r, uint64_t *home)
{
	const struct recall_result *result = find_result(r);
	uint64_t all;

	if (!result)
		return false;
	sketch_sums(r->sketch, &all, home);
	*home ^= sum_in(r, &r->writes[result->writes]) ^ result->sum ^ result->view;
	return true;
}

/* ------------------------------------------------------------------ remembering */

void recall_begin(struct recall *r)
{
	memset(r->read_now, 0, r->words * sizeof(uint64_t));
	memset(r->written_now, 0, r->words * sizeof(uint64_t));
	r->running = true;
}

/* What is written in part has been read, too: the rest of it stays. */
void recall_request(struct recall *r, bool write, uint64_t offset, uint64_t bytes)
{
	if (!r->running)
		return;
	for (uint64_t page = offset / G4_PAGE_BYTES; page * G4_PAGE_BYTES < offset + bytes; page++) {
		bool whole = page * G4_PAGE_BYTES >= offset && (page + 1) * G4_PAGE_BYTES <= offset + bytes;
		if ((!write || !whole) && !has(r->written_now, (uint32_t)page))
			enter(r->read_now, (uint32_t)page);
		if (write)
			enter(r->written_now, (uint32_t)page);
	}
}

void recall_drop(struct recall *r)
{
	r->running = false;
}

/* Of what is in memory in home pages that were written; of all that were written only these stay. */
static uint64_t left_behind(struct recall *r)
{
	const struct memory *m = r->sketch->memory;
	uint64_t sum = 0;

	for (uint32_t page = 0; page < m->page_count; page++) {
		if (!has(r->written_now, page))
			continue;
		if (memory_is_home(m, page))
			sum ^= memory_page_sum(page, m->bytes + (uint64_t)page * G4_PAGE_BYTES);
		else
			r->written_now[page / 64] &= ~(UINT64_C(1) << page % 64);
	}
	return sum;
}

void recall_end(struct recall *r, uint64_t view)
{
	uint64_t sum = left_behind(r);

	r->running = false;
	if (r->read_sets == RECALL_SETS || r->write_sets == RECALL_SETS)
		recall_forget(r);
	uint32_t count = r->read_sets, reads = find_set(r, r->reads, &r->read_sets, r->read_now);
	if (reads == count)
		r->order[count] = reads;
	uint32_t writes = find_set(r, r->writes, &r->write_sets, r->written_now);
	uint64_t key = key_of(sum_in(r, &r->reads[reads]), reads);
	if (table_find(&r->found, key))
		return;
	if (r->result_count == r->result_room) {
		r->result_room = r->result_room ? 2 * r->result_room : 4096;
		r->results = (struct recall_result *)need(
			realloc(r->results, r->result_room * sizeof(struct recall_result)));
	}
	r->results[r->result_count] = (struct recall_result){.writes = writes, .sum = sum, .view = view};
	table_add(&r->found, key, r->result_count++);
}
