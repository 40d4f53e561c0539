/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making workgroups in the lanes build: a thread for each lane but the leader. The threads serve until they are
 * dismissed, and serve again unless the workgroup is being destroyed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <stdlib.h>

#include "base/thread_host.h"
#include "simt/lanes/wg_types.h"
#include "simt/simt_host.h"

static void *lane_main(void *arg)
{
	struct g4_lane_thread *self = (struct g4_lane_thread *)arg;
	struct g4_wg *wg = self->wg;
	uint32_t start;

	g4_lane_self = self->lane;
	while ((start = g4_load32_acq(&wg->start)) == G4_START_WAIT)
		g4_wait(&wg->start, G4_START_WAIT);
	if (start == G4_START_ABANDON)
		return NULL;
	while (!g4_lanes_serve(wg))
		;
	return NULL;
}

static void set_start(struct g4_wg *wg, enum g4_start start)
{
	g4_store32_rel(&wg->start, (uint32_t)start);
	g4_wake(&wg->start);
}

/* For calls that fail only when this file is wrong. */
static void must_be_zero(int rc, const char *what)
{
	if (rc == 0)
		return;
	fprintf(stderr, "gpu4fs: %s: error %d\n", what, rc);
	abort();
}

static void join_lanes(struct g4_wg *wg, uint32_t end)
{
	for (uint32_t lane = 1; lane < end; lane++)
		must_be_zero(pthread_join(wg->threads[lane].thread, NULL), "pthread_join");
}

static bool start_lanes(struct g4_wg *wg)
{
	uint32_t lane;

	for (lane = 1; lane < G4_LANES; lane++) {
		wg->threads[lane].wg = wg;
		wg->threads[lane].lane = lane;
		if (g4_thread_start(&wg->threads[lane].thread, lane_main, &wg->threads[lane]) != 0)
			break;
	}
	set_start(wg, lane == G4_LANES ? G4_START_GO : G4_START_ABANDON);
	if (lane < G4_LANES)
		join_lanes(wg, lane);
	return lane == G4_LANES;
}

struct g4_wg *g4_wg_create_with(uint32_t index, uint32_t scratch_bytes)
{
	struct g4_wg *wg;

	if (index >= G4_WG_MAX)
		return NULL;
	wg = (struct g4_wg *)calloc(1, sizeof(*wg));
	if (!wg)
		return NULL;
	wg->index = index;
	if (!g4_scratch_allocate(&wg->scratch, scratch_bytes))
		goto free_wg;
	if (!start_lanes(wg))
		goto free_scratch;
	return wg;

free_scratch:
	g4_scratch_free(&wg->scratch);
free_wg:
	free(wg);
	return NULL;
}

void g4_wg_destroy(struct g4_wg *wg)
{
	if (!wg)
		return;
	g4_lanes_quit(wg);
	join_lanes(wg, G4_LANES);
	g4_scratch_free(&wg->scratch);
	free(wg);
}
