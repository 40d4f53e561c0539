/* SPDX-License-Identifier: Apache-2.0 */
#include "untrusted.h"

#include <sys/mman.h>

#include "client/client.h"
#include "ring/client_host.h"
#include "simt/simt.h"

void untrusted_enter(struct untrusted *s, const struct g4_session_options *options)
{
	ok(g4_session_open(g4_engine_sessions(fs->mount->engine), options, &s->session));
	s->ring = mmap(NULL, g4_session_ring_bytes(s->session), PROT_READ | PROT_WRITE, MAP_SHARED,
		       g4_session_ring_fd(s->session), 0);
	s->data = mmap(NULL, g4_session_data_bytes(s->session), PROT_READ | PROT_WRITE, MAP_SHARED,
		       g4_session_data_fd(s->session), 0);
	assert_ptr_not_equal(s->ring, MAP_FAILED);
	assert_ptr_not_equal(s->data, MAP_FAILED);
	s->header = (struct g4_ring_header *)s->ring;
	s->next = 1;
}

void untrusted_leave(struct untrusted *s)
{
	uint64_t ring_bytes = g4_session_ring_bytes(s->session), data_bytes = g4_session_data_bytes(s->session);

	g4_session_shut(s->session);
	munmap(s->ring, ring_bytes);
	munmap(s->data, data_bytes);
}

void untrusted_post(struct untrusted *s, const struct g4_ring_slot *slot)
{
	*g4_ring_slot_of(s->ring, s->header->entries, s->next) = *slot;
	g4_store32_rel(&s->header->tail, s->next);
	g4_ring_wake(s->header, -1);
	s->next++;
}

const struct g4_ring_result *untrusted_await(struct untrusted *s, uint32_t number)
{
	struct g4_ring_result *result = g4_ring_result_of(s->ring, s->header->entries, number);
	uint64_t until = g4_monotonic_ns() + DEADLINE_NS;

	while ((g4_load64_acq(&result->word) & G4_RING_NUMBER_MASK) != (number & G4_RING_NUMBER_MASK)) {
		if (g4_load32_acq(&s->header->state) != G4_RING_RUNS)
			return NULL;
		assert_true(g4_monotonic_ns() < until);
		g4_pause();
	}
	return result;
}

int untrusted_status(const struct g4_ring_result *result)
{
	int32_t small;

	assert_non_null(result);
	small = (int32_t)(result->word >> 32);
	return small < 0 ? small : 0;
}

int untrusted_take(struct untrusted *s, uint32_t number, struct g4_ring_result *taken)
{
	struct g4_ring_result *result = g4_ring_result_of(s->ring, s->header->entries, number);
	const int status = untrusted_status(untrusted_await(s, number));

	memset(taken, 0, sizeof(*taken));
	while ((result->word & G4_RING_WORD_FULL) && !g4_ring_result_take(result, taken))
		g4_pause();
	return status;
}

int untrusted_run(struct untrusted *s, const struct g4_ring_slot *slot)
{
	struct g4_ring_result unused;
	uint32_t number = s->next;

	untrusted_post(s, slot);
	return untrusted_take(s, number, &unused);
}

struct g4_ring_result untrusted_ask(struct untrusted *s, const struct g4_ring_slot *slot)
{
	struct g4_ring_result taken;
	uint32_t number = s->next;

	untrusted_post(s, slot);
	assert_int_equal(untrusted_take(s, number, &taken), 0);
	assert_true(taken.word & G4_RING_WORD_FULL);
	return taken;
}

struct g4_ring_slot slot_of(uint32_t op, const char *name)
{
	struct g4_ring_slot slot = {.command = {.op = op,
						.node = G4_NODE_ROOT,
						.umask = 022,
						.name_bytes = name ? (uint16_t)strlen(name) : 0,
						.text_at = G4_RING_TEXT_INLINE}};

	if (name)
		memcpy(slot.text, name, strlen(name));
	return slot;
}

const struct g4_session_options somebody = {
	.cred = {.uid = 1000, .gid = 1000, .umask = 022}, .data_bytes = 4 * G4_MIB, .entries = 16, .handles = 4};

struct g4_ring_slot open_slot(const char *name, uint32_t flags)
{
	struct g4_ring_slot slot = slot_of(G4_CMD_CREATE, name);

	slot.command.flags = flags;
	slot.command.mode = S_IFREG | 0644;
	return slot;
}

uint64_t untrusted_open(struct untrusted *s, const char *name, uint32_t flags)
{
	const struct g4_ring_slot slot = open_slot(name, flags);

	return untrusted_ask(s, &slot).handle;
}

struct g4_ring_slot io_slot(uint32_t op, uint64_t handle, uint64_t data, uint64_t length)
{
	struct g4_ring_slot slot = slot_of(op, NULL);

	slot.command.node = 0;
	slot.command.handle = handle;
	slot.command.data = data;
	slot.command.length = length;
	return slot;
}
