/* SPDX-License-Identifier: Apache-2.0 */
/* A client of a ring that fills its slots by hand, and what it fills them with. The engine is that of `fs`. */
#ifndef UNTRUSTED_H
#define UNTRUSTED_H

#include "api_fixture.h"
#include "ring/session_host.h"

#define DEADLINE_NS (UINT64_C(600) * 1000 * 1000 * 1000)

struct untrusted {
	struct g4_session_host *session;
	uint8_t *ring, *data;
	struct g4_ring_header *header;
	uint32_t next; /* number of the next command */
};

/* uid 1000, with a small ring: 16 entries, 4 MiB of data, 4 handles. */
extern const struct g4_session_options somebody;

void untrusted_enter(struct untrusted *s, const struct g4_session_options *options);
void untrusted_leave(struct untrusted *s);
void untrusted_post(struct untrusted *s, const struct g4_ring_slot *slot);
/* The result of command `number`; NULL when the server gave up. */
const struct g4_ring_result *untrusted_await(struct untrusted *s, uint32_t number);
int untrusted_status(const struct g4_ring_result *result);
/* Waits for the result of command `number` and takes it; its status. *taken is zeros where there is no more than a word. */
int untrusted_take(struct untrusted *s, uint32_t number, struct g4_ring_result *taken);
/* One command; its status. */
int untrusted_run(struct untrusted *s, const struct g4_ring_slot *slot);
/* One command that succeeds; its whole result. */
struct g4_ring_result untrusted_ask(struct untrusted *s, const struct g4_ring_slot *slot);
/* Opens or makes a file in the root directory; the handle that the client gets. */
uint64_t untrusted_open(struct untrusted *s, const char *name, uint32_t flags);

/* A command on the root directory, with a name or NULL. */
struct g4_ring_slot slot_of(uint32_t op, const char *name);
struct g4_ring_slot open_slot(const char *name, uint32_t flags);
/* A command on a handle. */
struct g4_ring_slot io_slot(uint32_t op, uint64_t handle, uint64_t data, uint64_t length);

#endif
