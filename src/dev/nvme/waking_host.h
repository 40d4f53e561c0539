/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What wakes threads that sleep until a request of one of the host's queues is done (waiting_host.h): the queue's interrupt, and other
 * threads. docs/design/nvme.md, "Waiting", says why no wake-up is lost. Host only.
 */
#ifndef G4_DEV_NVME_WAKING_HOST_H
#define G4_DEV_NVME_WAKING_HOST_H

#include "dev/nvme/controller_host.h"

/* Of a queue. All of it but `lock` is read and changed by all that wait. */
struct g4_nvme_waking {
	pthread_mutex_t lock; /* of changes to `on` */
	int event;	      /* an eventfd(2) that interrupts count up by 1; -1: there are none */
	uint32_t on;	      /* the interrupt */
	uint32_t deaf;	      /* 1: interrupts do not arrive */
	uint32_t unheard;     /* sleeps that ended by time, with a completion there, since the last interrupt */
	uint32_t listening;   /* lock: 1 while a thread takes the interrupts for all that sleep */
	uint32_t generation;  /* a futex: the others sleep until it changes */
	uint32_t score;	      /* how many of 256 waits end by polling, the latest counting most */
	uint32_t unpolled;    /* waits that slept at once since one polled */
	uint32_t polled;      /* waits that ended by polling since one slept */
	uint64_t sleeps;      /* of all threads */
	uint64_t looks;	      /* of waits that slept: steps (g4_nvme_step()) */
	uint64_t wakes;	      /* of those that sleep, for what somebody else did */
} __attribute__((aligned(128)));
#define G4_NVME_SCORE_MOST 256u

/* What threads have done until now, all queues together. */
struct g4_nvme_waits {
	uint64_t sleeps, looks, wakes;
	uint32_t on, deaf; /* queues */
};

/* For all of the host's queues, which are there; false: out of memory. */
bool g4_nvme_waking_open(struct g4_nvme *nvme);
/* The provider is closed. */
void g4_nvme_waking_close(struct g4_nvme *nvme);

/* Whether there is an interrupt to be waited for. */
bool g4_nvme_can_listen(const struct g4_nvme_waking *waking);
/*
 * Thread-safe. Counts the caller among the sleepers of queue `index`, for whom a completion interrupts from then on. False: it does not, and the
 * caller is not counted. Otherwise it counts itself out, in queue.sleepers.
 */
bool g4_nvme_begin_to_sleep(struct g4_nvme *nvme, uint32_t index);
/* Thread-safe. No interrupts any more, unless somebody sleeps. */
void g4_nvme_turn_off(struct g4_nvme *nvme, uint32_t index);
/* For the one that listens. Takes what was counted; whether an interrupt was among it. */
bool g4_nvme_take_interrupts(const struct g4_nvme_waking *waking);

/* Thread-safe. Wakes those that sleep. */
void g4_nvme_wake(struct g4_nvme_waking *waking);
/* The same, if a look of the caller's, or of somebody else, was for them: to be called behind each look. */
void g4_nvme_pass_on(struct g4_nvme *nvme, uint32_t index);
/* The same in all queues, whether or not. */
void g4_nvme_wake_all(struct g4_nvme *nvme);

struct g4_nvme_waits g4_nvme_waits_of(const struct g4_nvme *nvme);

#endif
