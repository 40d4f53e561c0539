/* SPDX-License-Identifier: Apache-2.0 */
/* Wing and Gong's search: whether one order of operations that overlapped explains all their answers. States that were tried are remembered. */
#include "linear.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static const char *const verb_names[] = {"mknod",     "mkdir",	  "unlink", "rmdir",	"rename",
					 "noreplace", "exchange", "link",   "lookup",	"stat",
					 "list",      "write",	  "read",   "truncate", "mkdir_all"};

/* A table that is too small is no answer. */
static void must(bool holds)
{
	if (!holds)
		abort();
}

static bool is_directory(const struct linear_state *state, uint32_t place)
{
	return state->directory >> place & 1;
}

void linear_put(struct linear_state *state, uint32_t place, uint64_t ino, bool directory)
{
	state->at[place] = ino;
	state->directory = (state->directory & ~(UINT64_C(1) << place)) | (uint64_t)directory << place;
}

uint64_t linear_links(const struct linear_state *state, uint64_t ino)
{
	uint64_t count = 0;

	for (uint32_t p = 0; p < LINEAR_PLACES; p++)
		count += state->at[p] == ino;
	return count;
}

/* The links that a stat tells. */
static uint64_t names_of(const struct linear_state *state, uint64_t ino)
{
	for (uint32_t p = 0; p < LINEAR_PLACES; p++)
		if (state->at[p] == ino && is_directory(state, p))
			return 2;
	return linear_links(state, ino);
}

static int expect_rename(struct linear_state *state, const struct linear_step *step)
{
	uint64_t from = state->at[step->place], to = state->at[step->to];
	bool from_directory = is_directory(state, step->place), to_directory = is_directory(state, step->to);

	if (!from)
		return -G4_E_NOENT;
	if (step->verb == LINEAR_NOREPLACE && to)
		return -G4_E_EXIST;
	if (step->verb == LINEAR_EXCHANGE) {
		if (!to)
			return -G4_E_NOENT;
		linear_put(state, step->place, to, to_directory);
		linear_put(state, step->to, from, from_directory);
		return 0;
	}
	if (from == to)
		return 0;
	if (to && from_directory != to_directory)
		return to_directory ? -G4_E_ISDIR : -G4_E_NOTDIR;
	linear_put(state, step->to, from, from_directory);
	linear_put(state, step->place, 0, false);
	return 0;
}

static int expect_link(struct linear_state *state, const struct linear_step *step)
{
	if (state->at[step->place])
		return -G4_E_EXIST;
	for (uint32_t p = 0; p < LINEAR_PLACES; p++)
		if (state->at[p] == step->ino && is_directory(state, p))
			return -G4_E_PERM;
	if (linear_links(state, step->ino) == 0)
		return -G4_E_NOENT;
	linear_put(state, step->place, step->ino, false);
	return 0;
}

/* Applies the step; false: from this state it cannot have ended as it did. */
static bool fits(struct linear_state *state, const struct linear_step *step)
{
	uint64_t at = state->at[step->place];
	bool directory = is_directory(state, step->place);
	int code = 0;

	switch (step->verb) {
	case LINEAR_MAKE:
	case LINEAR_MAKE_DIR:
		code = at ? -G4_E_EXIST : 0;
		if (!at)
			linear_put(state, step->place, step->ino, step->verb == LINEAR_MAKE_DIR);
		break;
	case LINEAR_MAKE_ALL:
		code = at && !directory ? -G4_E_EXIST : 0;
		if (code == 0 && step->code == 0 && (step->value != !at || (at && step->ino != at)))
			return false;
		if (!at)
			linear_put(state, step->place, step->ino, true);
		break;
	case LINEAR_UNLINK:
	case LINEAR_RMDIR:
		code = !at ? -G4_E_NOENT : 0;
		if (at && directory != (step->verb == LINEAR_RMDIR))
			code = directory ? -G4_E_ISDIR : -G4_E_NOTDIR;
		if (code == 0)
			linear_put(state, step->place, 0, false);
		break;
	case LINEAR_RENAME:
	case LINEAR_NOREPLACE:
	case LINEAR_EXCHANGE:
		code = expect_rename(state, step);
		break;
	case LINEAR_LINK:
		code = expect_link(state, step);
		/* what was removed may have been a directory: two things are wrong, either answer will do */
		if (code == -G4_E_NOENT && step->code == -G4_E_PERM)
			code = step->code;
		break;
	case LINEAR_LOOKUP:
		code = at ? 0 : -G4_E_NOENT;
		if (at &&
		    (step->ino != at || (!step->half_told && step->value != (directory ? 2 : linear_links(state, at)))))
			return false;
		break;
	case LINEAR_STAT: /* it is held without names, too */
		if (step->value != names_of(state, step->ino))
			return false;
		break;
	case LINEAR_LIST:
		if (step->value !=
		    ((state->at[step->to / 2 * 2] ? 1u : 0u) | (state->at[step->to / 2 * 2 + 1] ? 2u : 0u)))
			return false;
		break;
	case LINEAR_WRITE:
		state->byte = step->byte;
		break;
	case LINEAR_READ:
		if (step->value != state->byte)
			return false;
		break;
	default:
		state->byte = 256;
		break;
	}
	return code == step->code;
}

/* ------------------------------------------------------------------ the search */

struct position {
	uint8_t done[LINEAR_WORKERS];
	struct linear_state state;
};
#define TRIED 65536u
#define FREE 255u
static struct position
	tried[TRIED]; /* open addressing, by hash; done[0] == FREE: free, as all are between two rounds */
static uint32_t tried_at[TRIED], tried_count; /* which are not */
static bool tried_made;

static bool try_once(const struct position *position)
{
	uint64_t hash = 0;
	const uint64_t words[] = {position->state.at[0],
				  position->state.at[1],
				  position->state.at[2],
				  position->state.at[3],
				  position->state.byte,
				  position->state.directory,
				  position->done[0] * 65536u + position->done[1] * 256u + position->done[2]};

	for (uint32_t w = 0; w < sizeof(words) / sizeof(words[0]); w++)
		hash = (hash ^ words[w]) * UINT64_C(0x9e3779b97f4a7c15) ^ hash >> 29;
	for (uint32_t at = (uint32_t)(hash % TRIED);; at = (at + 1) % TRIED) {
		if (tried[at].done[0] == FREE) {
			tried_at[tried_count++] = at;
			must(tried_count < TRIED);
			tried[at] = *position;
			return true;
		}
		if (memcmp(tried[at].done, position->done, LINEAR_WORKERS) == 0 &&
		    memcmp(&tried[at].state, &position->state, sizeof(struct linear_state)) == 0)
			return false;
	}
}

static void add_end(struct linear_round *round, const struct linear_state *state)
{
	for (uint32_t e = 0; e < round->end_count; e++)
		if (memcmp(&round->ends[e], state, sizeof(*state)) == 0)
			return;
	must(round->end_count < LINEAR_STATES);
	round->ends[round->end_count++] = *state;
}

/* Follows every order that the clock allows. Recursion is as deep as there are steps. */
static void search(struct linear_round *round, const struct position *position)
{
	uint64_t first_end = UINT64_MAX;
	bool complete = true;

	if (!try_once(position))
		return;
	for (uint32_t t = 0; t < LINEAR_WORKERS; t++)
		if (position->done[t] < LINEAR_STEPS) {
			first_end = g4_min64(first_end, round->steps[t][position->done[t]].ended);
			complete = false;
		}
	if (complete) {
		add_end(round, &position->state);
		return;
	}
	for (uint32_t t = 0; t < LINEAR_WORKERS; t++) {
		const struct linear_step *step = &round->steps[t][position->done[t]];
		struct position next = *position;

		if (position->done[t] < LINEAR_STEPS && step->begun < first_end && fits(&next.state, step)) {
			next.done[t]++;
			search(round, &next);
		}
	}
}

void linear_print(FILE *to, const struct linear_round *round, const struct linear_state *start)
{
	fprintf(to, "began with %lx %lx %lx %lx, directories %lx, byte %lu\n", (unsigned long)start->at[0],
		(unsigned long)start->at[1], (unsigned long)start->at[2], (unsigned long)start->at[3],
		(unsigned long)start->directory, (unsigned long)start->byte);
	for (uint32_t t = 0; t < LINEAR_WORKERS; t++)
		for (uint32_t k = 0; k < LINEAR_STEPS; k++) {
			const struct linear_step *step = &round->steps[t][k];
			fprintf(to, "worker %u [%lu, %lu] %s %u %u byte %u: %d, inode %lx, value %lu\n", t,
				(unsigned long)step->begun, (unsigned long)step->ended, verb_names[step->verb],
				step->place, step->to, step->byte, step->code, (unsigned long)step->ino,
				(unsigned long)step->value);
		}
}

bool linear_overlaps(const struct linear_round *round)
{
	for (uint32_t t = 0; t < LINEAR_WORKERS * LINEAR_STEPS; t++)
		for (uint32_t u = 0; u < LINEAR_WORKERS * LINEAR_STEPS; u++) {
			const struct linear_step *a = &round->steps[t / LINEAR_STEPS][t % LINEAR_STEPS];
			const struct linear_step *b = &round->steps[u / LINEAR_STEPS][u % LINEAR_STEPS];
			if (t / LINEAR_STEPS != u / LINEAR_STEPS && a->begun < b->begun && b->begun < a->ended)
				return true;
		}
	return false;
}

bool linear_check(struct linear_round *round, const struct linear_state *start)
{
	const struct position position = {.state = *start};

	if (!tried_made)
		for (uint32_t at = 0; at < TRIED; at++)
			tried[at].done[0] = FREE;
	tried_made = true;
	round->end_count = 0;
	search(round, &position);
	while (tried_count > 0)
		tried[tried_at[--tried_count]].done[0] = FREE;
	return round->end_count > 0;
}

bool linear_may_end_in(const struct linear_round *round, const struct linear_state *found)
{
	for (uint32_t e = 0; e < round->end_count; e++)
		if (memcmp(&round->ends[e], found, sizeof(*found)) == 0)
			return true;
	return false;
}
