/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "store/replace.h"

/* Removes all files of a kind but those named. */
static int remove_others(struct store *s, enum store_kind kind, const struct store_listed *old, size_t old_count,
			 const struct store_id *stay, size_t stay_count)
{
	int rc = 0;

	for (size_t i = 0; i < old_count && rc == 0; i++) {
		bool stays = false;

		for (size_t k = 0; k < stay_count && !stays; k++)
			stays = store_id_equal(&old[i].name, &stay[k]);
		if (!stays)
			rc = s->backend->ops->remove(s->backend, kind, &old[i].name);
	}
	return rc;
}

/* Which packs the new index names. */
struct staying {
	bool *stays;
	struct store_id *names; /* sorted */
	size_t count;
};

/* A pack that was written now may have an old number: without encryption a prune that was cut off and is run again makes the same bytes. */
static void choose(struct store *s, const bool *keep, uint32_t packs, struct staying *chosen)
{
	const uint32_t all = store_pack_count(s);

	chosen->stays = (bool *)store_alloc(all + 1);
	chosen->names = (struct store_id *)store_alloc((all + 1) * sizeof(*chosen->names));
	chosen->count = 0;
	for (uint32_t i = 0; i < all; i++) {
		const struct store_pack pack = store_pack_at(s, i);

		chosen->stays[i] = i >= packs || keep[i] || pack.written;
		if (chosen->stays[i])
			chosen->names[chosen->count++] = pack.name;
	}
	if (chosen->count > 1)
		qsort(chosen->names, chosen->count, STORE_ID_BYTES, store_id_order);
}

/* Of the listed ones. */
static int remove_packs(struct store *s, const struct staying *chosen, const struct store_listed *gone, size_t count)
{
	int rc = 0;

	for (size_t i = 0; i < count && rc == 0; i++)
		if (chosen->count == 0 ||
		    bsearch(&gone[i].name, chosen->names, chosen->count, STORE_ID_BYTES, store_id_order) == NULL)
			rc = s->backend->ops->remove(s->backend, STORE_PACK, &gone[i].name);
	return rc;
}

static int replace(struct store *s, const bool *keep, uint32_t packs, const struct store_listed *gone, size_t count,
		   bool in_place)
{
	struct staying chosen;
	struct store_id *names = NULL;
	struct store_listed *old_index = NULL;
	size_t names_count = 0, old_index_count = 0;
	int rc = store_list_all(s->backend, STORE_INDEX, &old_index, &old_index_count);

	choose(s, keep, packs, &chosen);
	if (rc == 0 && !in_place)
		rc = store_index_rewrite(s, chosen.stays, &names, &names_count);
	if (rc == 0)
		rc = remove_others(s, STORE_INDEX, old_index, old_index_count, names, names_count);
	if (rc == 0) /* an old index that a crash brings back would name packs that are gone */
		rc = s->backend->ops->settle(s->backend, STORE_INDEX);
	if (rc == 0)
		rc = remove_packs(s, &chosen, gone, count);
	if (rc == 0 && in_place) {
		rc = store_index_rewrite(s, chosen.stays, &names, &names_count);
		if (rc != 0)
			rc = store_fail(rc,
					"there was no room for a new index beside the old one, and now there is none: "
					"'shredder check --repair' makes it anew");
	}
	free(chosen.stays);
	free(chosen.names);
	free(names);
	free(old_index);
	return rc;
}

int store_packs_replace(struct store *s, const bool *keep, uint32_t packs, const struct store_listed *gone,
			size_t count)
{
	return replace(s, keep, packs, gone, count, false);
}

int store_packs_replace_in_place(struct store *s, const bool *keep, uint32_t packs, const struct store_listed *gone,
				 size_t count)
{
	return replace(s, keep, packs, gone, count, true);
}
