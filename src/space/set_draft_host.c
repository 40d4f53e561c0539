/* SPDX-License-Identifier: Apache-2.0 */
/* The table of chunks while it is changed under requests: what there was, and how the set gets what was made of it. */
#define _GNU_SOURCE 1

#include "space/set_draft_host.h"

#include <stdlib.h>

#include "simt/simt_host.h"
#include "space/set_drain_host.h"

void g4_set_draft_end(struct g4_set_draft *draft)
{
	free(draft->super);
	free(draft->spans);
	g4_set_move_end(&draft->move);
	memset(draft, 0, sizeof(*draft));
}

int g4_set_draft_begin(struct g4_set_draft *draft, struct g4_set *set)
{
	memset(draft, 0, sizeof(*draft));
	draft->super = malloc(sizeof(*draft->super));
	draft->spans = calloc(G4_CHUNKS_MAX * (size_t)G4_CHUNK_PLACES + 1, sizeof(*draft->spans));
	draft->move.chunks = calloc(G4_CHUNKS_MAX, sizeof(*draft->move.chunks));
	if (!draft->super || !draft->spans || !draft->move.chunks) {
		g4_set_draft_end(draft);
		return -G4_E_NOMEM;
	}
	pthread_mutex_lock(&set->lock);
	*draft->super = *set->super;
	pthread_mutex_unlock(&set->lock);
	memcpy(draft->move.chunks, set->chunks, set->map.count * sizeof(*draft->move.chunks));
	draft->move.count = set->map.count;
	return 0;
}

int g4_set_draft_lock(struct g4_wg *wg, struct g4_set *set)
{
	if (!set->parity)
		return 0;
	g4_rows_lock(wg, set);
	int rc = g4_rows_empty(wg, set);
	if (rc == 0) /* a disk may have failed at that */
		rc = g4_set_check_whole(set, (struct g4_dev_message){.text = NULL});
	if (rc < 0)
		g4_set_draft_unlock(set);
	return rc;
}

void g4_set_draft_unlock(struct g4_set *set)
{
	if (set->parity)
		pthread_rwlock_unlock(&set->parity->lock);
}

int g4_set_draft_switch(struct g4_wg *wg, struct g4_set *set, const struct g4_set_draft *draft)
{
	const struct g4_set_growth growth = {.chunks = draft->move.chunks,
					     .chunk_count = draft->move.count,
					     .disk_count = set->count,
					     .moves = true,
					     .live = true};

	pthread_mutex_lock(&set->lock);
	const int rc = g4_set_switch_table(wg, set, &growth);
	pthread_mutex_unlock(&set->lock);
	return rc;
}
