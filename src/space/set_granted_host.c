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
/* Of the time between two of them no more counts: who was stopped did not look, and those that have grants were stopped as well. */
#define STEP_NS (UINT64_C(100) * 1000 * 1000)

struct granted {
	uint32_t number;   /* of its word */
	uint64_t from, to; /* addresses */
};
struct g4_set_grants {
	uint32_t *words;
	uint32_t count;
	bool lost;	/* somebody never ended */
	uint32_t doubt; /* atomic; g4_set_grants_doubt() */
	struct granted granted[G4_DEV_GRANTS];
	_Alignas(8) uint32_t own[G4_DEV_WORDS];
};

int g4_set_grants_begin(struct g4_set *set)
{
	struct g4_set_grants *grants = calloc(1, sizeof(*grants));

	if (!grants)
		return -G4_E_NOMEM;
	grants->words = grants->own;
	set->parity->grants = grants;
	return 0;
}

void g4_set_grants_end(struct g4_set *set)
{
	free(set->parity->grants);
}

uint32_t *g4_set_grants_words(const struct g4_set *set)
{
	return set->parity->grants->words;
}

void g4_set_grants_hold(struct g4_set *set, uint64_t stripe, bool more)
{
	uint64_t *word = g4_dev_held_word(set->parity->grants->words, stripe);

	if (more)
		g4_add64(word, (UINT64_C(1) << 32) + 1);
	else
		g4_sub64(word, 1);
	g4_fence_rel_sys(); /* what is stored behind that, in places of the row, comes later */
}

void g4_set_grants_doubt(struct g4_set *set, bool doubt)
{
	struct g4_set_grants *grants = set->parity->grants;

	if (g4_xchg32(&grants->doubt, doubt) == (uint32_t)doubt)
		return;
	for (uint64_t n = 0; n < G4_DEV_HELD; n++)
		g4_set_grants_hold(set, n * G4_MIB, doubt);
}

bool g4_set_grants_note(struct g4_set *set, uint32_t number, uint64_t address, uint64_t bytes)
{
	struct g4_set_grants *grants = set->parity->grants;
	uint32_t left = 0;

	if (g4_load32_acq(&grants->doubt))
		return false;
	for (uint32_t n = 0; n < grants->count; n++)
		if (g4_load32_acq_sys(&grants->words[grants->granted[n].number]) == 0)
			grants->granted[left++] = grants->granted[n];
	grants->count = left;
	for (uint32_t n = 0; n < left; n++)
		if (grants->granted[n].number == number)
			return false;
	g4_store32_rel_sys(&grants->words[number], 0);
	grants->granted[grants->count++] = (struct granted){number, address, address + bytes};
	return true;
}

bool g4_set_grants_any(const struct g4_set *set)
{
	const struct g4_set_grants *grants = set->parity->grants;
	bool any = false;

	for (uint32_t n = 0; n < grants->count && !any; n++)
		any = g4_load32_acq_sys(&grants->words[grants->granted[n].number]) == 0;
	return any;
}

static bool await_one(const uint32_t *word)
{
	uint64_t waited = 0, before = 0;

	for (uint32_t looks = 1; g4_load32_acq_sys(word) == 0; looks++) {
		if (looks % LOOKS != 0) {
			g4_pause();
			continue;
		}
		sched_yield();
		const uint64_t now = g4_monotonic_ns();
		waited += before ? g4_min64(now - before, STEP_NS) : 0;
		before = now;
		if (waited > MOST_NS)
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
		if (one->from >= address + bytes || address >= one->to || await_one(&grants->words[one->number]))
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

void g4_set_grants_move(struct g4_set *set, uint32_t *words)
{
	struct g4_set_grants *grants = set->parity->grants;

	grants->lost = g4_set_grants_await(set) < 0;
	grants->count = 0;
	words = words ? words : grants->own;
	pthread_mutex_lock(&set->lock); /* g4_set_grants_doubt() counts in them with that lock alone */
	if (words != grants->words)
		memcpy(words, grants->words, G4_DEV_WORDS * sizeof(*words));
	grants->words = words;
	pthread_mutex_unlock(&set->lock);
}
