/* SPDX-License-Identifier: Apache-2.0 */
/* A client's place in an engine: its shared memory, its quotas, and the threads that serve it. Host only. */
#ifndef G4_PORT_HOST_H
#define G4_PORT_HOST_H

#include "engine/ring.h"

struct g4_engine;
struct g4_port_host;

struct g4_port_options {
	struct g4_cred cred; /* who the client is */
	uint32_t flags;	     /* G4_PORT_* */
	uint32_t entries;    /* 0: G4_RING_DEFAULT_ENTRIES; a power of two */
	uint64_t data_bytes; /* 0: G4_RING_DEFAULT_DATA_BYTES; whole pages */
	uint32_t handles;    /* 0: 4096 open files */
	uint32_t threads;    /* CPU engine: commands of the client that run side by side; 0: by the processors */
};

/*
 * Makes ring and data area (memfds that neither side can resize) and begins to serve them. 0 or a negative code.
 */
int g4_port_open(struct g4_engine *engine, const struct g4_port_options *options, struct g4_port_host **out);
/* Tells the client that it is over, waits for its running commands, closes its files and frees everything. */
void g4_port_shut(struct g4_port_host *port);
/* Takes the next command of a port whose commands run in this process: 1. 0: none; -1: the client broke the protocol. */
int g4_port_claim(struct g4_port *port, uint32_t *number);
/* The client rang. */
void g4_port_rung(struct g4_port_host *port);

/* The memory, as this process sees it. */
void *g4_port_ring(const struct g4_port_host *port);
void *g4_port_data(const struct g4_port_host *port);
/* The memfds, for the client; they stay the port's. */
int g4_port_ring_fd(const struct g4_port_host *port);
int g4_port_data_fd(const struct g4_port_host *port);
uint64_t g4_port_ring_bytes(const struct g4_port_host *port);
uint64_t g4_port_data_bytes(const struct g4_port_host *port);

#endif
