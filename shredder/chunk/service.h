/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs that many threads use at once, for whole loads: a load is some MiB that a thread has together, of one stream or of several that stand behind
 * one another. It begins at a cut and ends at one, so loads have nothing to do with each other and come in any order.
 *
 *	thread: fill a load --> cut() --> submit ------------------------> wait --> chunks and digests
 *	thread:          fill a load --> cut() --> submit --------------------> wait --> ...
 *	                                            '--> GPU: the loads one after the other
 *
 * The GPUs are opened when the first thread asks for them, since that takes the better part of a second. What fails is told once, and from then on the
 * callers' processors do the work: no load is lost, since each lies in the memory of the thread that brought it.
 */
#ifndef SHREDDER_SERVICE_H
#define SHREDDER_SERVICE_H

#include "chunk/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

struct shredder_service;

struct shredder_service_options {
	const struct shredder_params *params; /* complete; the minimum is SHREDDER_WINDOW_BYTES at least */
	const uint32_t *gpus;		      /* as in struct shredder_options */
	uint32_t gpus_count;
	uint32_t users;	      /* threads that call cut(), about: no more loads are under way */
	uint64_t load_bytes;  /* of a load at most; below 1 GiB */
	uint32_t borders_max; /* of a load */
};

struct shredder_load {
	const uint8_t *data; /* the caller's, or memory of shredder_service_alloc(), which is faster */
	uint64_t bytes;	     /* at least 1 */
	/* Where a stream ends and the next one begins, ascending between 0 and `bytes`; the last one ends with the load. */
	const uint32_t *borders;
	uint32_t borders_count;
	/* The answer: as many as there can be, by the minimum and the borders, must fit. */
	struct shredder_end *ends;
	uint64_t room, count;
};

/* What shredder_service_get_state() tells. */
struct shredder_service_state {
	uint32_t gpus;	   /* that are there, whether they work or not */
	uint32_t works;	   /* that work now */
	uint64_t bytes;	   /* of loads that they cut */
	char trouble[256]; /* what does not work; "" */
};

/* Nothing is opened yet. NULL: out of memory. */
struct shredder_service *shredder_service_new(const struct shredder_service_options *options);
/* NULL is allowed. Nobody is in cut() any more, and all memory is given back. */
void shredder_service_close(struct shredder_service *service);
/* Opens the GPUs, once. True when cut() has one to work with; false also while another thread opens them. Thread-safe. */
bool shredder_service_begin(struct shredder_service *service);
/* The same without opening anything. Thread-safe. */
bool shredder_service_ready(struct shredder_service *service);
/* False: no GPU will do anything any more. Thread-safe. */
bool shredder_service_hopes(struct shredder_service *service);
/* Page-locked memory for a load, while it is ready; NULL. Thread-safe, as its end is. */
void *shredder_service_alloc(struct shredder_service *service);
void shredder_service_free(struct shredder_service *service, void *memory);
/*
 * The chunks of a load with their digests; waits for them. 0; AGAIN: this load has more candidates than a GPU has room for; another code: no GPU is
 * left, now or from the beginning. Then the caller's processor has to do it. Thread-safe.
 */
int shredder_service_cut(struct shredder_service *service, struct shredder_load *load);
/* Thread-safe. */
void shredder_service_get_state(struct shredder_service *service, struct shredder_service_state *state);

#ifdef __cplusplus
}
#endif

#endif
