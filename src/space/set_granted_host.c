/* SPDX-License-Identifier: Apache-2.0 */
/* Rows that others write by themselves now (set_grant_host.c), and those who wait for them. */
#define _GNU_SOURCE 1
#include "space/set_granted_host.h"

#include <sched.h>
#include <stdlib.h>

#include "base/clock_host.h"
#include "base/log_host.h"

#define MOST_NS (UINT64_C(30) * 1000 * 1000 * 1000)
#define LOOKS 1000u /* before others have the processor */

struct granted {
	const uint32_t *word;
	uint64_t from, to; /* addresses */
};
struct g4_set_grants {
	uint32_t count;
	bool lost; /* somebody never ended */
	uint32_t words[G4_DEV_GRANTS];
	struct granted granted[G4_DEV_GRANTS];
};

int g4_set_grants_begin(struct g4_set *set)
{
	set->parity->grants = calloc(1, sizeof(*set->parity->grants));
	return set->parity->grants ? 0 : -G4_E_NOMEM;
}

void g4_set_grants_end(struct g4_set *set)
{
	free(set->parity->grants);
}

uint32_t *g4_set_grants_words(const struct g4_set *set)
{
	return set->parity->grants->words;
}

bool g4_set_grants_note(struct g4_set *set, uint32_t *word, uint64_t address, uint64_t bytes)
{
	struct g4_set_grants *grants = set->parity->grants;
	uint32_t left = 0;

	for (uint32_t n = 0; n < grants->count; n++)
		if (g4_load32_acq_sys(grants->granted[n].word) == 0)
			grants->granted[left++] = grants->granted[n];
	grants->count = left;
	if (left == G4_DEV_GRANTS)
		return false;
	g4_store32_rel_sys(word, 0);
	grants->granted[grants->count++] = (struct granted){word, address, address + bytes};
	return true;
}

static bool await_one(const uint32_t *word)
{
	uint64_t until = 0;

	for (uint32_t looks = 1; g4_load32_acq_sys(word) == 0; looks++) {
		if (looks % LOOKS != 0) {
			g4_pause();
			continue;
		}
		sched_yield();
		until = until ? until : g4_monotonic_ns() + MOST_NS;
		if (g4_monotonic_ns() > until)
			return false;
	}
	return true;
}

int g4_set_grants_await_some(struct g4_set *set, uint64_t address, uint64_t bytes)
{
	const struct g4_set_grants *grants = set->parity->grants;

	if (grants->lost)
		return -G4_E_IO;
	for (uint32_t n = 0; n < grants->count; n++) {
		const struct granted *one = &grants->granted[n];
		if (one->from >= address + bytes || address >= one->to || await_one(one->word))
			continue;
		g4_log(G4_LOG_ERROR, "rows were given to be written, and nobody has written them for 30 seconds");
		return -G4_E_IO;
	}
	return 0;
}

int g4_set_grants_await(struct g4_set *set)
{
	const int rc = g4_set_grants_await_some(set, 0, UINT64_MAX);

	if (rc == 0)
		set->parity->grants->count = 0;
	return rc;
}

void g4_set_grants_forget(struct g4_set *set)
{
	set->parity->grants->lost = g4_set_grants_await(set) < 0;
	set->parity->grants->count = 0;
}
