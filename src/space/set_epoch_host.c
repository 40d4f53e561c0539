/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of chunks that changes under requests. They look at one of two views, take no lock for it, and count themselves there from before
 * they look until they are done:
 *
 *   epoch      e                          e + 1                      e + 2
 *   view 0     looked at                  those of e are done        filled, then looked at
 *   view 1     nobody, filled             looked at                  those of e + 1 are done
 *
 * A view is filled again when nobody is counted there any more. So of each table but the newest all requests are done before the next switch,
 * and before anything is copied to a place that only such a table has. Nobody waits for a request: a caller may have some that it has not
 * collected. A request that read the epoch and counted itself too late finds another epoch, and looks again.
 */
#define _GNU_SOURCE 1

#include <stdlib.h>
#include <time.h>

#include "simt/simt_host.h"
#include "space/set_epoch_host.h"

const struct g4_chunk_map *g4_set_view_of(const struct g4_set *set, uint64_t epoch)
{
	return &set->views[epoch % 2].map;
}

const struct g4_chunk_map *g4_set_view_enter(struct g4_set *set, uint64_t *epoch)
{
	for (;;) {
		*epoch = g4_load64_acq(&set->epoch);
		g4_add32(&set->views[*epoch % 2].users, 1);
		if (g4_load64_acq(&set->epoch) == *epoch)
			return g4_set_view_of(set, *epoch);
		g4_set_view_leave(set, *epoch);
	}
}

void g4_set_view_leave(struct g4_set *set, uint64_t epoch)
{
	g4_sub32(&set->views[epoch % 2].users, 1);
}

bool g4_set_view_is_alone(struct g4_set *set)
{
	/* added, not loaded: who counts after this sees the newest epoch */
	return g4_add32(&set->views[(g4_load64_acq(&set->epoch) + 1) % 2].users, 0) == 0;
}

bool g4_set_view_wait(struct g4_set *set, uint32_t most)
{
	const struct timespec rest = {.tv_nsec = 1000 * 1000};
	bool alone = g4_set_view_is_alone(set);

	for (uint32_t turn = 0; turn < most && !alone; turn++) {
		nanosleep(&rest, NULL);
		alone = g4_set_view_is_alone(set);
	}
	return alone;
}

int g4_set_view_reserve(struct g4_set *set)
{
	if (!set->other_chunks)
		set->other_chunks = calloc(G4_CHUNKS_MAX, sizeof(*set->other_chunks));
	return set->other_chunks ? 0 : -G4_E_NOMEM;
}

void g4_set_view_switch(struct g4_set *set, const struct g4_chunk *chunks, uint32_t count)
{
	const uint64_t next = g4_load64_acq(&set->epoch) + 1;
	struct g4_chunk *filled = set->other_chunks;

	memcpy(filled, chunks, count * sizeof(*chunks));
	set->other_chunks = set->chunks;
	set->chunks = filled;
	set->map = set->views[next % 2].map = (struct g4_chunk_map){.chunks = filled, .count = count};
	g4_store64_rel(&set->epoch, next);
}

bool g4_set_is_unused(struct g4_set *set, uint32_t disk)
{
	/* added, not loaded: who counts after this finds that the disk is not to be used */
	return g4_add32(&set->disks[disk].users, 0) == 0;
}

/* Lock held, and nobody looks at a table that has such numbers. */
static bool forget(struct g4_set *set)
{
	for (uint32_t d = set->count; d < G4_MAX_DISKS; d++) {
		if (!set->disks[d].dev)
			continue;
		g4_store32_rel(&set->disks[d].state, G4_DISK_MISSING);
		if (!g4_set_is_unused(set, d))
			return false;
		set->disks[d].dev = NULL;
		set->disks[d].name = NULL;
	}
	return true;
}

bool g4_set_forget_numbers(struct g4_set *set)
{
	if (!g4_set_view_is_alone(set))
		return false;
	pthread_mutex_lock(&set->lock);
	const bool forgotten = forget(set);
	pthread_mutex_unlock(&set->lock);
	return forgotten;
}
