/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errands: what an I/O agent is asked about the disks of a set, and what takes long there. A thread of their own does them one after the
 * other, so that requests go on meanwhile. Host only.
 */
#ifndef G4_DEV_ERRAND_HOST_H
#define G4_DEV_ERRAND_HOST_H

#include "dev/remote.h"

#ifdef __cplusplus
extern "C" {
#endif

struct g4_errand { /* the caller's until it is posted, and again when it is done */
	struct g4_remote_request request;
	struct g4_remote_order *message; /* with request.bytes; NULL: it has none */
	int32_t result;
	uint32_t done; /* 0 -> 1 with release order */
	struct g4_errand *next;
};
struct g4_errands;

/* A table was told (g4_dev_layout()), and says where the asker finds the disks when this has returned 0; else he gets the code. */
typedef int g4_errand_found(void *context, void *table, uint64_t bytes);

/* Whether a request is an errand. */
bool g4_errand_is(const struct g4_remote_request *request);
/* Does it now. What it was sent is not trusted. */
int g4_errand_do(struct g4_wg *wg, struct g4_dev *dev, const struct g4_errand *errand);

/* For a device that stays the caller's. NULL: there is no memory, or no thread. */
struct g4_errands *g4_errands_open(struct g4_dev *dev);
/* For those that are posted from now on. NULL: tables are given as they are. Thread-safe. */
void g4_errands_place(struct g4_errands *errands, g4_errand_found *found, void *context);
/* It is done after those that were posted before. Thread-safe. */
void g4_errands_post(struct g4_errands *errands, struct g4_errand *errand);
/* All of them are done. NULL is ignored. */
void g4_errands_close(struct g4_errands *errands);

#ifdef __cplusplus
}
#endif

#endif
