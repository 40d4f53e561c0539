/* SPDX-License-Identifier: Apache-2.0 */
/* Undo levels and sums. A sum is the exclusive or over pages of a hash of number and contents: order does not matter. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

/* ------------------------------------------------------------------ hashing */

#define PRIME_A UINT64_C(0x9e3779b97f4a7c15)
#define PRIME_B UINT64_C(0xd6e8feb86659fd93)

static uint64_t turn(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static uint64_t finish(uint64_t x)
{
	x = (x ^ x >> 32) * PRIME_B;
	x = (x ^ x >> 29) * PRIME_A;
	return x ^ x >> 32;
}

uint64_t hash_bytes(const void *data, uint64_t bytes, uint64_t seed)
{
	const uint8_t *at = (const uint8_t *)data;
	uint64_t lanes[4] = {seed, seed + PRIME_A, seed ^ PRIME_B, ~seed}, word, sum = bytes;

	for (; bytes >= 32; bytes -= 32, at += 32)
		for (int lane = 0; lane < 4; lane++) {
			memcpy(&word, at + 8 * lane, 8);
			lanes[lane] = turn((lanes[lane] ^ word) * PRIME_A, 31);
		}
	for (uint64_t n; bytes > 0; bytes -= n, at += n) {
		n = bytes < 8 ? bytes : 8;
		word = 0;
		memcpy(&word, at, n);
		lanes[n & 3] = turn((lanes[n & 3] ^ word) * PRIME_A, 31);
	}
	for (int lane = 0; lane < 4; lane++)
		sum = finish(sum ^ lanes[lane]);
	return sum;
}

uint64_t memory_page_sum(uint32_t page, const uint8_t *bytes)
{
	return hash_bytes(bytes, G4_PAGE_BYTES, HASH_SEED + page);
}

static uint64_t page_sum(const struct memory *m, uint32_t page)
{
	return memory_page_sum(page, m->bytes + (uint64_t)page * G4_PAGE_BYTES);
}

/* ------------------------------------------------------------------ levels */

static void *need(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

void memory_open(struct memory *m, uint8_t *bytes, uint64_t disk_bytes, uint32_t disks)
{
	memset(m, 0, sizeof(*m));
	m->bytes = bytes;
	m->disk_pages = (uint32_t)(disk_bytes / G4_PAGE_BYTES);
	m->page_count = disks * m->disk_pages;
	m->present = (1u << disks) - 1;
	m->elsewhere = (uint8_t *)need(calloc(m->page_count, 1));
	m->settled = (uint64_t *)need(calloc(m->page_count, sizeof(uint64_t)));
	m->saved_in = (uint32_t *)need(calloc(m->page_count, sizeof(uint32_t)));
	m->visited = (uint32_t *)need(calloc(m->page_count, sizeof(uint32_t)));
	for (uint32_t page = 0; page < m->page_count; page++) {
		m->settled[page] = page_sum(m, page);
		m->all[page / m->disk_pages] ^= m->settled[page];
		m->home[page / m->disk_pages] ^= m->settled[page];
	}
	m->serial = 1;
}

void memory_leave_out(struct memory *m, uint64_t offset, uint64_t bytes)
{
	for (uint64_t at = offset / G4_PAGE_BYTES; at * G4_PAGE_BYTES < offset + bytes; at++) {
		if (m->elsewhere[at])
			continue;
		m->elsewhere[at] = true;
		m->home[at / m->disk_pages] ^= m->settled[at];
	}
}

void memory_close(struct memory *m)
{
	free(m->elsewhere);
	free(m->settled);
	free(m->saved_in);
	free(m->visited);
	free(m->stack);
	free(m->copies);
}

uint32_t memory_mark(struct memory *m)
{
	m->serial++;
	return m->count;
}

static void save_page(struct memory *m, uint32_t page)
{
	if (m->saved_in[page] == m->serial)
		return;
	m->saved_in[page] = m->serial;
	if (m->count == m->room) {
		m->room = m->room ? m->room * 2 : 1024;
		m->stack = (uint32_t *)need(realloc(m->stack, m->room * sizeof(uint32_t)));
		m->copies = (uint8_t *)need(realloc(m->copies, (uint64_t)m->room * G4_PAGE_BYTES));
	}
	m->stack[m->count] = page;
	memcpy(m->copies + (uint64_t)m->count * G4_PAGE_BYTES, m->bytes + (uint64_t)page * G4_PAGE_BYTES,
	       G4_PAGE_BYTES);
	m->count++;
}

void memory_save(struct memory *m, uint64_t offset, uint64_t bytes)
{
	for (uint64_t page = offset / G4_PAGE_BYTES; page * G4_PAGE_BYTES < offset + bytes; page++)
		save_page(m, (uint32_t)page);
}

void memory_back(struct memory *m, uint32_t mark)
{
	while (m->count > mark) {
		m->count--;
		memcpy(m->bytes + (uint64_t)m->stack[m->count] * G4_PAGE_BYTES,
		       m->copies + (uint64_t)m->count * G4_PAGE_BYTES, G4_PAGE_BYTES);
	}
	m->serial++; /* the level around saves anew what it changes from here on */
}

/* ------------------------------------------------------------------ sums */

void memory_settled(const struct memory *m, uint64_t *all, uint64_t *home)
{
	*all = *home = m->present * PRIME_A; /* what others have is nothing to those that are present */
	for (uint32_t left = m->present; left != 0; left &= left - 1) {
		*all ^= m->all[__builtin_ctz(left)];
		*home ^= m->home[__builtin_ctz(left)];
	}
}

void memory_sums(struct memory *m, uint32_t mark, uint64_t *all, uint64_t *home)
{
	memory_settled(m, all, home);
	m->visit++;
	for (uint32_t k = mark; k < m->count; k++) {
		uint32_t page = m->stack[k];
		if (m->visited[page] == m->visit)
			continue;
		m->visited[page] = m->visit;
		if (!memory_counts(m, page))
			continue;
		uint64_t change = page_sum(m, page) ^ m->settled[page];
		*all ^= change;
		if (memory_is_home(m, page))
			*home ^= change;
	}
}

void memory_settle(struct memory *m, uint32_t mark)
{
	m->visit++;
	for (uint32_t k = mark; k < m->count; k++) {
		uint32_t page = m->stack[k], disk = page / m->disk_pages;
		if (m->visited[page] == m->visit)
			continue;
		m->visited[page] = m->visit;
		uint64_t sum = page_sum(m, page), change = sum ^ m->settled[page];
		if (change == 0)
			continue;
		m->all[disk] ^= change;
		if (memory_is_home(m, page))
			m->home[disk] ^= change;
		m->settled[page] = sum;
		m->settle_serial++;
	}
}

void memory_back_settled(struct memory *m, uint32_t mark)
{
	uint32_t end = m->count;

	memory_back(m, mark);
	m->count = end; /* the list of pages is still there */
	memory_settle(m, mark);
	m->count = mark;
}
