/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "store/group.h"

bool store_group_add(struct store_group *g, enum store_blob_type type, uint32_t number, const struct store_id *id,
		     const void *data, size_t bytes)
{
	if (g->count == g->room) {
		g->room = g->room == 0 ? 64 : 2 * g->room;
		g->members = (struct store_member *)store_realloc(g->members, g->room * sizeof(*g->members));
	}
	g->members[g->count++] =
		(struct store_member){.id = *id, .number = number, .raw = (uint32_t)bytes, .type = type};
	if (g->raw.room == 0)
		store_buf_reserve(&g->raw, STORE_GROUP_BYTES + STORE_GROUPED_BYTES);
	store_buf_add(&g->raw, data, bytes);
	return g->raw.size >= STORE_GROUP_BYTES;
}

void store_group_clear(struct store_group *g)
{
	g->raw.size = 0;
	g->count = 0;
}

void store_group_free(struct store_group *g)
{
	store_buf_free(&g->raw);
	free(g->members);
	memset(g, 0, sizeof(*g));
}
