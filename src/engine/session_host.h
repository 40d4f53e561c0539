/* SPDX-License-Identifier: Apache-2.0 */
/* A client's place in an engine: its shared memory, its quotas, and the threads that serve it. Host only. */
#ifndef G4_SESSION_HOST_H
#define G4_SESSION_HOST_H

#include "engine/ring.h"

struct g4_engine;
struct g4_session_host;

struct g4_session_options {
	struct g4_cred cred; /* who the client is */
	uint32_t flags;	     /* G4_SESSION_* */
	uint32_t entries;    /* 0: G4_RING_DEFAULT_ENTRIES; a power of two */
	uint64_t data_bytes; /* 0: G4_RING_DEFAULT_DATA_BYTES; whole pages */
	uint32_t handles;    /* 0: 4096 open files */
	uint32_t threads;    /* CPU engine: commands of the client that run side by side; 0: by the processors */
};

/*
 * Makes ring and data area (memfds that neither side can resize) and begins to serve them. 0 or a negative code.
 */
int g4_session_open(struct g4_engine *engine, const struct g4_session_options *options, struct g4_session_host **out);
/* Tells the client that it is over, waits for its running commands, closes its files and frees everything. */
void g4_session_shut(struct g4_session_host *session);
/* Takes the next command of a session whose commands run in this process: 1. 0: none; -1: the client broke the protocol. */
int g4_session_claim(struct g4_session *session, uint32_t *number);
/* The client rang. */
void g4_session_rung(struct g4_session_host *session);

/* The memory, as this process sees it. */
void *g4_session_ring(const struct g4_session_host *session);
void *g4_session_data(const struct g4_session_host *session);
/* The memfds, for the client; they stay the session's. */
int g4_session_ring_fd(const struct g4_session_host *session);
int g4_session_data_fd(const struct g4_session_host *session);
uint64_t g4_session_ring_bytes(const struct g4_session_host *session);
uint64_t g4_session_data_bytes(const struct g4_session_host *session);

#endif
