/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a controller is waited for. What counts is time in which somebody looks: between two looks not more than a 64th of all
 * of it passes. A program that was stopped meanwhile, or had no processor, has not seen what the controller had to say, and one that is
 * a thread of its (emu_host.h) had no time to say it. Host only.
 */
#ifndef G4_DEV_NVME_PATIENCE_HOST_H
#define G4_DEV_NVME_PATIENCE_HOST_H

#include "base/base.h"

#define G4_PATIENCE_LOOKS 64u

struct g4_patience {
	uint64_t left_ns, step_ns, last_ns;
};

static inline struct g4_patience g4_patience(uint64_t ns, uint64_t now_ns)
{
	return (struct g4_patience){ns, g4_max64(ns / G4_PATIENCE_LOOKS, 1), now_ns};
}

/* To be asked behind each look in vain. False: it was the last one. */
static inline bool g4_patience_lasts(struct g4_patience *patience, uint64_t now_ns)
{
	const uint64_t step = g4_min64(now_ns - patience->last_ns, patience->step_ns);

	patience->last_ns = now_ns;
	patience->left_ns -= g4_min64(step, patience->left_ns);
	return patience->left_ns > 0;
}

#endif
