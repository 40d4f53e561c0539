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

/* A pack that was written now may have an old number: without encryption a prune that was cut off and is run again makes the same bytes. */
int store_packs_replace(struct store *s, const bool *keep, uint32_t packs, const struct store_listed *gone,
			size_t count)
{
	const uint32_t all = store_pack_count(s);
	bool *stays = (bool *)store_alloc(all + 1);
	struct store_id *names = NULL, *pack_names = (struct store_id *)store_alloc((all + 1) * sizeof(*pack_names));
	struct store_listed *old_index = NULL;
	size_t names_count = 0, old_index_count = 0, pack_count = 0;
	int rc = store_list_all(s->backend, STORE_INDEX, &old_index, &old_index_count);

	for (uint32_t i = 0; i < all; i++) {
		const struct store_pack pack = store_pack_at(s, i);

		stays[i] = i >= packs || keep[i] || pack.written;
		if (stays[i])
			pack_names[pack_count++] = pack.name;
	}
	if (rc == 0)
		rc = store_index_rewrite(s, stays, &names, &names_count);
	if (rc == 0)
		rc = remove_others(s, STORE_INDEX, old_index, old_index_count, names, names_count);
	if (rc == 0) /* an old index that a crash brings back would name packs that are gone */
		rc = s->backend->ops->settle(s->backend, STORE_INDEX);
	if (pack_count > 1)
		qsort(pack_names, pack_count, STORE_ID_BYTES, store_id_order);
	for (size_t i = 0; i < count && rc == 0; i++)
		if (pack_count == 0 ||
		    bsearch(&gone[i].name, pack_names, pack_count, STORE_ID_BYTES, store_id_order) == NULL)
			rc = s->backend->ops->remove(s->backend, STORE_PACK, &gone[i].name);
	free(stays);
	free(names);
	free(pack_names);
	free(old_index);
	return rc;
}
