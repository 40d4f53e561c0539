/* SPDX-License-Identifier: Apache-2.0 */
/* Two threads that do what workgroups without work of their own do: they take pieces of others' jobs. */
#ifndef HELPING_H
#define HELPING_H

#include <pthread.h>
#include <sched.h>

#include "rig.h"

#include "data/help.h"
#include "data/split.h"
#include "simt/simt_host.h"

static struct helper {
	pthread_t thread;
	struct g4_wg *wg;
	struct g4_fs *fs;
	uint64_t pieces; /* of stripes; atomic */
} helpers[2];
static uint32_t helpers_stop; /* atomic */
static uint32_t hold;	      /* atomic: helpers that get a piece of stripes keep it until this is 0 */
static uint32_t holders;      /* atomic */

static inline void *help(void *argument)
{
	struct helper *helper = (struct helper *)argument;
	struct g4_fs *fs = helper->fs;
	struct g4_split_piece piece;
	struct g4_split_job *job;

	while (!g4_load32_acq(&helpers_stop)) {
		uint64_t done;
		if (!g4_split_find(helper->wg, fs, &job, &piece)) {
			sched_yield();
			continue;
		}
		if (job->work.kind == G4_SPLIT_STRIPES) {
			g4_add64(&helper->pieces, 1);
			g4_add32(&holders, 1);
			while (g4_load32_acq(&hold))
				sched_yield();
			g4_sub32_rel(&holders, 1);
		}
		const int rc = g4_split_move(helper->wg, fs, job, &piece, &done);
		const uint32_t kind = job->work.kind;
		g4_split_done(job, &piece, rc, done);
		g4_split_leave(fs, job, kind);
	}
	return NULL;
}

static inline void start_helpers(struct g4_fs *fs)
{
	g4_store32_rel(&helpers_stop, 0);
	fs->split.helpers = 2;
	for (uint32_t k = 0; k < 2; k++) {
		helpers[k].pieces = 0;
		helpers[k].fs = fs;
		helpers[k].wg = g4_wg_create(10 + k);
		assert_int_equal(pthread_create(&helpers[k].thread, NULL, help, &helpers[k]), 0);
	}
}

static inline uint64_t helped(void)
{
	return g4_load64_rlx(&helpers[0].pieces) + g4_load64_rlx(&helpers[1].pieces);
}

static inline void stop_helpers(struct g4_fs *fs)
{
	g4_store32_rel(&helpers_stop, 1);
	for (uint32_t k = 0; k < 2; k++) {
		pthread_join(helpers[k].thread, NULL);
		g4_wg_destroy(helpers[k].wg);
	}
	fs->split.helpers = 0;
	assert_int_equal(fs->split.stripe_helpers, 0);
	assert_int_equal(fs->split.stripes, 0);
}

#endif
