/* SPDX-License-Identifier: Apache-2.0 */
/* Making workgroups in the lanes build: a stack for each lane but the leader, which uses its thread's. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(G4_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

#include "simt/lanes/wg_types.h"
#include "simt/simt_host.h"

#define STACK_BYTES (256 * G4_KIB)

/* makecontext() passes numbers of the size of an int. */
static void lane_main(unsigned int high, unsigned int low)
{
	struct g4_wg *wg = (struct g4_wg *)(uintptr_t)((uint64_t)high << 32 | low);

	for (;;)
		g4_lanes_serve(wg);
}

/* They are in the middle of nothing: each waits for a region. */
static void free_lanes(struct g4_wg *wg)
{
	for (uint32_t i = 1; i < G4_LANES; i++) {
#if defined(G4_TSAN)
		if (wg->lanes[i].fiber) {
			__tsan_acquire(&wg->lanes[i]);
			__tsan_destroy_fiber(wg->lanes[i].fiber);
		}
#endif
		if (wg->lanes[i].stack)
			munmap(wg->lanes[i].stack, STACK_BYTES);
	}
}

/* The lowest page is closed: a stack that is too small ends the program. */
static bool make_lane(struct g4_wg *wg, struct g4_lane *lane)
{
	void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);

	if (stack == MAP_FAILED)
		return false;
	lane->stack = stack;
	if (mprotect(stack, (size_t)sysconf(_SC_PAGESIZE), PROT_NONE) != 0 || getcontext(&lane->context) != 0)
		return false;
	lane->context.uc_stack.ss_sp = stack;
	lane->context.uc_stack.ss_size = STACK_BYTES;
	makecontext(&lane->context, (void (*)(void))lane_main, 2, (unsigned int)((uint64_t)(uintptr_t)wg >> 32),
		    (unsigned int)(uintptr_t)wg);
	return true;
}

static bool make_lanes(struct g4_wg *wg)
{
	for (uint32_t i = 1; i < G4_LANES; i++) {
		if (!make_lane(wg, &wg->lanes[i])) {
			free_lanes(wg);
			return false;
		}
	}
	return true;
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
	if (!make_lanes(wg))
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
	free_lanes(wg);
	g4_scratch_free(&wg->scratch);
	free(wg);
}
