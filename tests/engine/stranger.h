/* SPDX-License-Identifier: Apache-2.0 */
/* A client of a ring that fills its slots by hand, and what it fills them with. The engine is that of `fs`. */
#ifndef STRANGER_H
#define STRANGER_H

#include "api_fixture.h"
#include "engine/port_host.h"

#define DEADLINE_NS (UINT64_C(600) * 1000 * 1000 * 1000)

struct stranger {
	struct g4_port_host *port;
	uint8_t *ring, *data;
	struct g4_ring_header *header;
	uint32_t next; /* number of the next command */
};

/* uid 1000, with a small ring: 16 entries, 4 MiB of data, 4 handles. */
extern const struct g4_port_options somebody;

void stranger_enter(struct stranger *s, const struct g4_port_options *options);
void stranger_leave(struct stranger *s);
void stranger_post(struct stranger *s, const struct g4_ring_slot *slot);
/* The result of command `number`; NULL when the server gave up. */
const struct g4_ring_result *stranger_await(struct stranger *s, uint32_t number);
int stranger_status(const struct g4_ring_result *result);
/* Waits for the result of command `number` and takes it; its status. *taken is zeros where there is no more than a word. */
int stranger_take(struct stranger *s, uint32_t number, struct g4_ring_result *taken);
/* One command; its status. */
int stranger_run(struct stranger *s, const struct g4_ring_slot *slot);
/* One command that succeeds; its whole result. */
struct g4_ring_result stranger_ask(struct stranger *s, const struct g4_ring_slot *slot);
/* Opens or makes a file in the root directory; the handle that the client gets. */
uint64_t stranger_open(struct stranger *s, const char *name, uint32_t flags);

/* A command on the root directory, with a name or NULL. */
struct g4_ring_slot slot_of(uint32_t op, const char *name);
struct g4_ring_slot open_slot(const char *name, uint32_t flags);
/* A command on a handle. */
struct g4_ring_slot io_slot(uint32_t op, uint64_t handle, uint64_t data, uint64_t length);

#endif
