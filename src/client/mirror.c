/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of fixed size, two places a hash. An entry is a sequence lock: who writes makes its sequence odd and gives up where another
 * one does, who reads copies, and believes the copy if the sequence is the same afterwards. Entries change as words, each of them whole.
 */
#include "client/mirror.h"

#include <errno.h>
#include <stdlib.h>

#include "simt/simt.h"

#define WAYS 2u
#define PATH_WORDS 30u
#define EPOCH_WORDS ((G4_TRAIL_PLACES + 3) / 4)

struct entry {
	uint64_t sequence;
	uint64_t hash; /* of the question; 0: nothing was ever put */
	uint64_t start;
	uint64_t shape; /* the question's other numbers */
	uint64_t status;
	uint64_t count;
	uint64_t values[G4_TRAIL_PLACES];
	uint64_t epochs[EPOCH_WORDS]; /* four each */
	struct g4_attr attr;
	uint64_t path[PATH_WORDS];
};
G4_STATIC_ASSERT(sizeof(struct entry) == 512 && sizeof(struct g4_attr) % 8 == 0, "words, and half a KiB of them");

struct g4c_mirror {
	const uint64_t *epochs;
	struct entry *entries;
	uint32_t mask;
	uint32_t turn; /* which of two places is given up next */
};

struct g4c_mirror *g4c_mirror_new(const uint64_t *epochs, uint32_t entries)
{
	struct g4c_mirror *mirror = calloc(1, sizeof(*mirror));

	if (!mirror)
		return NULL;
	mirror->epochs = epochs;
	mirror->mask = entries - 1;
	mirror->entries = calloc(entries, sizeof(*mirror->entries));
	if (!mirror->entries) {
		free(mirror);
		return NULL;
	}
	return mirror;
}

void g4c_mirror_free(struct g4c_mirror *mirror)
{
	if (!mirror)
		return;
	free(mirror->entries);
	free(mirror);
}

/* ------------------------------------------------------------------ questions */

static uint32_t path_words(const struct g4c_question *question)
{
	return (question->path_bytes + 7u) / 8;
}

static uint64_t path_word(const struct g4c_question *question, uint32_t w)
{
	const uint32_t left = question->path_bytes - 8 * w;

	return g4_load_bytes(question->path + (size_t)8 * w, left < 8 ? left : 8);
}

static uint64_t shape_of(const struct g4c_question *question)
{
	return question->generation | (uint64_t)question->asks << 32 | (uint64_t)question->path_bytes << 48;
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

/* Never 0. The last word once more, for a product's low bits know nothing of its factors' high ones: names often differ in those alone. */
static uint64_t hash_of(const struct g4c_question *question)
{
	uint64_t hash = mix(question->start, shape_of(question));

	for (uint32_t w = 0; w < path_words(question); w++)
		hash = mix(hash, path_word(question, w));
	return mix(hash, 0) | 1;
}

static struct entry *place_of(const struct g4c_mirror *mirror, uint64_t hash, uint32_t way)
{
	return &mirror->entries[(hash >> 8 & mirror->mask) ^ way];
}

/* Whether an entry that may be changing seems to be the question's. */
static bool is_of(const struct entry *entry, const struct g4c_question *question, uint64_t hash)
{
	if (g4_load64_rlx(&entry->hash) != hash || g4_load64_rlx(&entry->start) != question->start ||
	    g4_load64_rlx(&entry->shape) != shape_of(question))
		return false;
	for (uint32_t w = 0; w < path_words(question); w++)
		if (g4_load64_rlx(&entry->path[w]) != path_word(question, w))
			return false;
	return true;
}

/* ------------------------------------------------------------------ finding */

/* Whether the epochs have the values that the copy of an entry says. */
static bool holds(const struct g4c_mirror *mirror, const struct entry *copy, struct g4_trail *trail)
{
	if (copy->count > G4_TRAIL_PLACES)
		return false; /* torn */
	g4_trail_begin(trail);
	for (uint32_t k = 0; k < copy->count; k++) {
		const uint16_t epoch = (uint16_t)(copy->epochs[k / 4] >> 16 * (k % 4));

		if (g4_load64_acq(&mirror->epochs[epoch % G4_EPOCHS]) != copy->values[k])
			return false;
		g4_trail_add(trail, epoch, copy->values[k]);
	}
	return true;
}

/* Copies what lies before the path. False: it is another one's, or was changed meanwhile, or is old. */
static bool find_in(const struct g4c_mirror *mirror, const struct entry *entry, const struct g4c_question *question,
		    uint64_t hash, struct entry *copy, struct g4_trail *trail)
{
	const uint64_t sequence = g4_load64_acq(&entry->sequence);

	if ((sequence & 1) || !is_of(entry, question, hash))
		return false;
	g4_peek(copy, entry, offsetof(struct entry, path) / 8);
	g4_fence_acq();
	return g4_load64_rlx(&entry->sequence) == sequence && holds(mirror, copy, trail);
}

bool g4c_mirror_find(struct g4c_mirror *mirror, const struct g4c_question *question, int *status, struct g4_attr *attr,
		     struct g4_trail *trail)
{
	struct g4_trail unused;
	struct entry copy;

	if (path_words(question) > PATH_WORDS)
		return false;
	const uint64_t hash = hash_of(question);
	for (uint32_t way = 0; way < WAYS; way++) {
		if (!find_in(mirror, place_of(mirror, hash, way), question, hash, &copy, trail ? trail : &unused))
			continue;
		*status = (int)(int64_t)copy.status;
		if (attr)
			*attr = copy.attr;
		return true;
	}
	return false;
}

/* ------------------------------------------------------------------ keeping */

/* The values that the epochs have now. False: they are not those that the engine has seen. */
static bool read_epochs(const struct g4c_mirror *mirror, const struct g4_trail *trail, struct entry *fresh)
{
	uint64_t sum = 0;

	for (uint32_t k = 0; k < trail->count; k++) {
		const uint16_t epoch = trail->epochs[k] % G4_EPOCHS;

		fresh->values[k] = g4_load64_acq(&mirror->epochs[epoch]);
		fresh->epochs[k / 4] |= (uint64_t)epoch << 16 * (k % 4);
		sum = g4_trail_sum(sum, fresh->values[k]);
	}
	return sum == trail->sum;
}

static struct entry *choose_place(struct g4c_mirror *mirror, const struct g4c_question *question, uint64_t hash)
{
	for (uint32_t way = 0; way < WAYS; way++)
		if (is_of(place_of(mirror, hash, way), question, hash))
			return place_of(mirror, hash, way);
	for (uint32_t way = 0; way < WAYS; way++)
		if (g4_load64_rlx(&place_of(mirror, hash, way)->hash) == 0)
			return place_of(mirror, hash, way);
	return place_of(mirror, hash, g4_add32_rlx(&mirror->turn, 1) % WAYS);
}

bool g4c_mirror_put(struct g4c_mirror *mirror, const struct g4c_question *question, int status,
		    const struct g4_attr *attr, const struct g4_trail *trail)
{
	struct entry fresh = {0};

	if (!g4_trail_is_good(trail) || path_words(question) > PATH_WORDS || !read_epochs(mirror, trail, &fresh))
		return false;
	const uint64_t hash = hash_of(question);
	struct entry *entry = choose_place(mirror, question, hash);
	const uint64_t sequence = g4_load64_rlx(&entry->sequence);
	fresh.hash = hash;
	fresh.start = question->start;
	fresh.shape = shape_of(question);
	fresh.status = (uint64_t)(int64_t)status;
	fresh.count = trail->count;
	if (attr)
		fresh.attr = *attr;
	for (uint32_t w = 0; w < path_words(question); w++)
		fresh.path[w] = path_word(question, w);
	if ((sequence & 1) || !g4_cas64(&entry->sequence, sequence, sequence + 1))
		return true; /* somebody else writes there: what is kept is a matter of luck anyway */
	g4_fence_rel();
	const uint32_t words = (uint32_t)(offsetof(struct entry, path) / 8) + path_words(question);
	for (uint32_t w = 1; w < words; w++)
		g4_store64_rlx((uint64_t *)entry + w, ((const uint64_t *)&fresh)[w]);
	g4_store64_rel(&entry->sequence, sequence + 2);
	return true;
}

bool g4c_mirror_keep(struct g4c_mirror *mirror, const struct g4c_question *question, int rc, const struct g4_attr *attr,
		     const struct g4_trail *trail)
{
	return (rc == 0 || rc == -ENOENT || rc == -EACCES) &&
	       g4c_mirror_put(mirror, question, rc, rc ? NULL : attr, trail);
}
