/* SPDX-License-Identifier: Apache-2.0 */
/* A client's place in an engine: its shared memory, its quotas, and the threads that serve it. Host only. */
#ifndef G4_SESSION_HOST_H
#define G4_SESSION_HOST_H

#include "ring/ring.h"

struct g4_session_host;

/*
 * What runs the commands of sessions: an engine, as this folder knows it. One on the CPU has `run` and `close`, which threads
 * of the session call; one that looks at rings itself has `attach` and `detach`. Without either, sessions cannot be opened.
 */
struct g4_session_engine {
	void *context; /* first argument of all */
	/* Runs a session's command on the calling thread. Fails only before it began, for want of memory. Thread-safe. */
	int (*run)(void *context, struct g4_session *session, uint32_t number, struct g4_session_stage *stage);
	/* Closes the handles of a session that nobody serves any more. */
	int (*close)(void *context, struct g4_session *session);
	/* Ends a use that g4_session_use_handle() began, in this process; fails only for want of memory. NULL: there are none. */
	int (*unuse_handle)(void *context, struct g4_session *session, uint64_t number);
	/* Serves one more session, until `detach` returns: then no command of it runs and its handles are closed. */
	int (*attach)(void *context, const struct g4_session *session, uint64_t ring_bytes, uint32_t *id);
	void (*detach)(void *context, uint32_t id);
	/*
	 * The memory of its epochs, made when the first one asks: a descriptor, the engine's, or a negative code. NULL: it has none.
	 * Thread-safe.
	 */
	int (*epochs)(void *context);
	/* A client rang the doorbell. NULL: it has none. */
	void (*ring_doorbell)(void *context);
};

struct g4_session_options {
	struct g4_cred cred; /* the client's */
	uint32_t flags;	     /* G4_SESSION_* */
	uint32_t entries;    /* 0: G4_RING_DEFAULT_ENTRIES; a power of two */
	uint64_t data_bytes; /* 0: G4_RING_DEFAULT_DATA_BYTES; whole pages */
	uint32_t handles;    /* 0: 4096 open files */
	uint32_t threads;    /* CPU engine: commands of the client that run side by side; 0: by the processors */
};

/*
 * Makes ring and data area (memfds that neither side can resize) and begins to serve them. 0 or a negative code. The engine
 * outlives the session.
 */
int g4_session_open(const struct g4_session_engine *engine, const struct g4_session_options *options,
		    struct g4_session_host **out);
/* Tells the client that it is over, waits for its running commands, closes its files and frees everything. */
void g4_session_shut(struct g4_session_host *host);
/* Takes the next command of a session whose commands run in this process: 1. 0: none; -1: the client broke the protocol. */
int g4_session_claim(struct g4_session *session, uint32_t *number);
/* The client rang. */
void g4_session_rung(struct g4_session_host *host);

/* For g4_session_use_handle(). */
struct g4_session *g4_session_of(struct g4_session_host *host);
/* The memory, as this process sees it. */
void *g4_session_ring(const struct g4_session_host *host);
void *g4_session_data(const struct g4_session_host *host);
/* The memfds, for the client; they stay the session's. */
int g4_session_ring_fd(const struct g4_session_host *host);
int g4_session_data_fd(const struct g4_session_host *host);
uint64_t g4_session_ring_bytes(const struct g4_session_host *host);
uint64_t g4_session_data_bytes(const struct g4_session_host *host);
/* Something was mounted or unmounted, somewhere: the client may want to look. From one thread at a time. */
void g4_session_mounts_changed(struct g4_session_host *host);

#endif
