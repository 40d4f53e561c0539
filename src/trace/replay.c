/* SPDX-License-Identifier: Apache-2.0 */
/* From a trace to its pages, and through a cache. */
#include "trace/replay.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "trace/policy.h"

static const struct {
	const char *name;
	g4_policy_access *access;
} policies[] = {
#define POLICY_ROW(NAME, name, function, words) {name, g4_policy_##function},
	G4_POLICIES(POLICY_ROW)
#undef POLICY_ROW
};

const char *g4_policy_name(enum g4_policy policy)
{
	return policies[policy].name;
}

/* ------------------------------------------------------------------ pages */

struct name { /* of a page, in the table; number 0: free, else its number and 1 */
	uint64_t file, page;
	uint32_t number;
};

struct names {
	struct name *table;
	uint64_t mask, count;
};

/* The same as in cache/cache.c, before it is divided by the count of sets. */
static uint64_t spread(uint64_t file, uint64_t page)
{
	const uint64_t x = file * UINT64_C(0x9e3779b97f4a7c15);
	return (x ^ (x >> 29)) + page;
}

static struct name *find_name(const struct names *names, uint64_t file, uint64_t page)
{
	uint64_t at = spread(file, page) * UINT64_C(0xd6e8feb86659fd93);

	for (at ^= at >> 32;; at++) {
		struct name *name = &names->table[at & names->mask];
		if (name->number == 0 || (name->file == file && name->page == page))
			return name;
	}
}

static int grow(struct names *names)
{
	const struct names before = *names;

	names->mask = before.table ? 2 * before.mask + 1 : 4095;
	names->table = calloc(names->mask + 1, sizeof(*names->table));
	if (!names->table) {
		*names = before;
		return -G4_E_NOMEM;
	}
	for (uint64_t i = 0; before.table && i <= before.mask; i++)
		if (before.table[i].number)
			*find_name(names, before.table[i].file, before.table[i].page) = before.table[i];
	free(before.table);
	return 0;
}

/* The number of a page; a new one has the next. */
static int number_of(struct names *names, struct g4_pages *pages, uint64_t file, uint64_t page, uint32_t *number)
{
	if (2 * (names->count + 1) > names->mask + 1 || !names->table) {
		const int rc = grow(names);
		if (rc < 0)
			return rc;
	}
	struct name *name = find_name(names, file, page);
	if (name->number == 0) {
		*name = (struct name){file, page, (uint32_t)++names->count};
		pages->spread[name->number - 1] = spread(file, page);
	}
	*number = name->number - 1;
	return 0;
}

int g4_pages_of(const struct g4_trace *trace, struct g4_pages *pages)
{
	const uint64_t count = trace->page_count, room = count ? count : 1;
	struct names names = {0};
	uint32_t *last = NULL;
	int rc = 0;

	*pages = (struct g4_pages){
		.page = malloc(room * sizeof(uint32_t)),
		.next = malloc(room * sizeof(uint32_t)),
		.write = malloc(room),
		.spread = malloc(room * sizeof(uint64_t)),
	};
	if (!pages->page || !pages->next || !pages->write || !pages->spread)
		rc = -G4_E_NOMEM;
	for (uint64_t i = 0; rc == 0 && i < trace->count; i++) {
		const struct g4_trace_access *access = &trace->accesses[i];
		for (uint32_t k = 0; rc == 0 && k < access->pages; k++) {
			rc = number_of(&names, pages, access->file, access->page + k, &pages->page[pages->count]);
			pages->write[pages->count++] = access->write;
			pages->writes += access->write;
		}
	}
	pages->distinct = (uint32_t)names.count;
	free(names.table);
	if (rc == 0)
		last = malloc((pages->distinct + 1) * sizeof(*last));
	if (!last) {
		g4_pages_free(pages);
		return -G4_E_NOMEM;
	}
	memset(last, 0xff, pages->distinct * sizeof(*last));
	for (uint64_t at = count; at-- > 0;) {
		pages->next[at] = last[pages->page[at]];
		last[pages->page[at]] = (uint32_t)at;
	}
	free(last);
	return 0;
}

void g4_pages_free(struct g4_pages *pages)
{
	free(pages->page);
	free(pages->next);
	free(pages->write);
	free(pages->spread);
	memset(pages, 0, sizeof(*pages));
}

/* ------------------------------------------------------------------ through a cache */

static bool set_up(struct g4_sim *sim, uint32_t sets, bool future)
{
	const size_t distinct = (size_t)sim->trace->distinct + 1;

	sim->pages = calloc(distinct, sizeof(*sim->pages));
	sim->sets = malloc(sets * sizeof(*sim->sets));
	if (future) {
		sim->heap = malloc((size_t)sets * sim->ways * sizeof(uint32_t));
		sim->used = malloc(distinct * sizeof(uint32_t));
		sim->place = malloc(distinct * sizeof(uint32_t));
	}
	if (!sim->pages || !sim->sets || (future && (!sim->heap || !sim->used || !sim->place)))
		return false;
	for (uint32_t i = 0; i < sets; i++)
		g4_sim_start(&sim->sets[i]);
	return true;
}

int g4_replay(const struct g4_pages *pages, enum g4_policy policy, uint32_t capacity, uint32_t ways,
	      struct g4_replay *out)
{
	struct g4_sim sim = {.trace = pages, .ways = ways == 0 || ways > capacity ? capacity : ways};
	uint32_t sets;

	*out = (struct g4_replay){0};
	if (capacity == 0)
		return 0;
	sets = capacity / sim.ways;
	*out = (struct g4_replay){.capacity = sets * sim.ways, .sets = sets};
	sim.set_count = sets;
	sim.duel = G4_DUEL_MIDDLE;
	const bool ready = set_up(&sim, sets, policy == G4_POLICY_MIN);
	for (uint32_t i = 0; ready && policy == G4_POLICY_CLOCKPRO && i < sets; i++)
		sim.sets[i].target = sim.ways;
	for (uint64_t at = 0; ready && at < pages->count; at++) {
		const uint32_t page = pages->page[at];
		const bool hit = policies[policy].access(&sim, &sim.sets[pages->spread[page] % sets], page, at);
		out->hits += hit;
		out->read_hits += hit && !pages->write[at];
	}
	free(sim.pages);
	free(sim.sets);
	free(sim.heap);
	free(sim.used);
	free(sim.place);
	return ready ? 0 : -G4_E_NOMEM;
}
