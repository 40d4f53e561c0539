/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lookup cache. All words are read and written as atomics, with one fence for all of a body: it keeps the second look at
 * the sequence behind what was read of it, and what is written of it behind the odd sequence.
 */
#include "dir/lookup.h"

#include "hash/siphash.h"

G4_FN void g4_lookup_print(struct g4_lookup_name *name, const uint64_t secret[4])
{
	if (name->bytes <= G4_LOOKUP_NAME_BYTES)
		return;
	name->print[0] = g4_siphash13(secret, name->text, name->bytes);
	name->print[1] = g4_siphash13(secret + 2, name->text, name->bytes);
}

/* Whether the entry is about this name; what is read may be torn, which the sequence tells. */
G4_FN static bool holds(const struct g4_lookup_entry *entry, const struct g4_lookup_name *name)
{
	uint64_t found[G4_LOOKUP_NAME_WORDS];
	/* all are asked for before one is looked at */
	const uint64_t shape = g4_load64_rlx(&entry->shape), directory = g4_load64_rlx(&entry->directory);

	G4_UNROLLED
	for (uint32_t w = 0; w < G4_LOOKUP_NAME_WORDS; w++)
		found[w] = g4_load64_rlx(&entry->name[w]);
	g4_fence_acq();
	bool same = g4_lookup_same_shape(shape, name) && directory == name->directory;
	G4_ROLLED
	for (uint32_t w = 0; w < G4_LOOKUP_NAME_WORDS && same; w++)
		same = found[w] == g4_lookup_kept_word(name, w);
	return same;
}

/* All words are asked for before one is looked at: on a GPU their ways to memory overlap. */
G4_FN static bool find_in(const struct g4_lookup_entry *entry, const struct g4_lookup_name *name,
			  const uint64_t words[G4_LOOKUP_NAME_WORDS], struct g4_lookup_value *value,
			  struct g4_lookup_seen *seen)
{
	uint64_t found[G4_LOOKUP_NAME_WORDS];
	bool same;

	uint64_t sequence = g4_load64_acq(&entry->sequence);
	seen->entry = entry;
	seen->sequence = sequence;
	uint64_t directory = g4_load64_rlx(&entry->directory), shape = g4_load64_rlx(&entry->shape);
	value->inode = g4_load64_rlx(&entry->inode);
	value->index = (uint32_t)(shape >> G4_LOOKUP_INDEX_SHIFT);
	for (uint32_t w = 0; w < G4_LOOKUP_NAME_WORDS; w++)
		found[w] = g4_load64_rlx(&entry->name[w]);
	g4_fence_acq();
	if ((sequence & 1) || g4_load64_rlx(&entry->sequence) != sequence)
		return false;
	same = directory == name->directory && g4_lookup_same_shape(shape, name);
	for (uint32_t w = 0; w < G4_LOOKUP_NAME_WORDS; w++)
		same = same && found[w] == words[w];
	return same;
}

G4_FN bool g4_lookup_look(const struct g4_lookup *cache, const struct g4_lookup_name *name,
			  struct g4_lookup_value *value, struct g4_lookup_seen *seen)
{
	uint64_t words[G4_LOOKUP_NAME_WORDS];

	for (uint32_t w = 0; w < G4_LOOKUP_NAME_WORDS; w++)
		words[w] = g4_lookup_kept_word(name, w);
	for (uint32_t way = 0; way < G4_LOOKUP_WAYS; way++)
		if (find_in(g4_lookup_slot(cache, name, way), name, words, value, seen))
			return true;
	return false;
}

G4_FN bool g4_lookup_find(const struct g4_lookup *cache, const struct g4_lookup_name *name,
			  struct g4_lookup_value *value)
{
	struct g4_lookup_seen seen;

	return g4_lookup_look(cache, name, value, &seen);
}

/* The way that holds the name, or an empty one, or the first. */
G4_FN static struct g4_lookup_entry *place_of(struct g4_lookup *cache, const struct g4_lookup_name *name)
{
	struct g4_lookup_entry *const first = g4_lookup_slot(cache, name, 0);
	uint64_t shapes[G4_LOOKUP_WAYS], directories[G4_LOOKUP_WAYS];

	/* all are asked for before one is looked at */
	G4_UNROLLED
	for (uint32_t way = 0; way < G4_LOOKUP_WAYS; way++) {
		const struct g4_lookup_entry *entry = g4_lookup_slot(cache, name, way);

		shapes[way] = g4_load64_rlx(&entry->shape);
		directories[way] = g4_load64_rlx(&entry->directory);
	}
	G4_UNROLLED
	for (uint32_t way = 0; way < G4_LOOKUP_WAYS; way++)
		if (shapes[way] == 0 ||
		    (g4_lookup_same_shape(shapes[way], name) && directories[way] == name->directory))
			return g4_lookup_slot(cache, name, way);
	return first;
}

G4_FN struct g4_lookup_entry *g4_lookup_claim(struct g4_lookup *cache, const struct g4_lookup_name *name)
{
	struct g4_lookup_entry *entry = place_of(cache, name);
	const uint64_t sequence = g4_load64_rlx(&entry->sequence);

	if ((sequence & 1) || !g4_cas64_acq(&entry->sequence, sequence, sequence + 1))
		return NULL;
	return entry;
}

G4_FN void g4_lookup_fill_fenced(struct g4_lookup_entry *entry, const struct g4_lookup_name *name,
				 const struct g4_lookup_value *value)
{
	uint64_t words[G4_LOOKUP_NAME_WORDS];

	/* before the stores, behind each of which a load would wait */
	for (uint32_t w = 0; w < G4_LOOKUP_NAME_WORDS; w++)
		words[w] = g4_lookup_kept_word(name, w);
	g4_store64_rlx(&entry->shape, g4_lookup_shape(name) | (uint64_t)value->index << G4_LOOKUP_INDEX_SHIFT);
	g4_store64_rlx(&entry->directory, name->directory);
	g4_store64_rlx(&entry->inode, value->inode);
	for (uint32_t w = 0; w < G4_LOOKUP_NAME_WORDS; w++)
		g4_store64_rlx(&entry->name[w], words[w]);
}

G4_FN void g4_lookup_show_fenced(struct g4_lookup_entry *entry)
{
	g4_store64_fenced(&entry->sequence, g4_load64_rlx(&entry->sequence) + 1);
}

G4_FN void g4_lookup_put(struct g4_lookup *cache, const struct g4_lookup_name *name,
			 const struct g4_lookup_value *value)
{
	struct g4_lookup_entry *entry = g4_lookup_claim(cache, name);

	if (!entry)
		return;
	g4_fence_rel();
	g4_lookup_fill_fenced(entry, name, value);
	g4_fence_rel();
	g4_lookup_show_fenced(entry);
}

G4_FN static void forget_in(struct g4_lookup_entry *entry, const struct g4_lookup_name *name)
{
	for (;;) {
		uint64_t sequence = g4_load64_acq(&entry->sequence);

		/*
		 * A writer at work here writes another name: this one's leaf or directory is locked. So the name is gone already, or
		 * about to be. An entry that does not hold it in one look at one sequence is fine, too.
		 */
		if (sequence & 1)
			return;
		bool same = holds(entry, name);
		if (!same && g4_load64_rlx(&entry->sequence) == sequence)
			return;
		if (same && g4_cas64_acq(&entry->sequence, sequence, sequence + 1)) {
			g4_fence_rel();
			g4_store64_rlx(&entry->shape, 0);
			g4_store64_rel(&entry->sequence, sequence + 2);
			return;
		}
	}
}

/* Two that put a name side by side may have put it in both ways. */
G4_FN void g4_lookup_forget(struct g4_lookup *cache, const struct g4_lookup_name *name)
{
	for (uint32_t way = 0; way < G4_LOOKUP_WAYS; way++)
		forget_in(g4_lookup_slot(cache, name, way), name);
}
