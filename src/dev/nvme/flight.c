/* SPDX-License-Identifier: Apache-2.0 */
/* Commands under way (flight.h). */
#include "dev/nvme/flight.h"

#define TURN_MASK 0x7fu /* identifiers stay below 2^15 */

G4_STATIC_ASSERT(sizeof(struct g4_nvme_slot) == 128, "no two slots share a cache line");
G4_STATIC_ASSERT(sizeof(struct g4_nvme_flight) % 128 == 0, "nor do what is behind them and others");

G4_FN static int32_t code_of(uint32_t status)
{
	switch (status & G4_NVME_STATUS_MASK) {
	case G4_NVME_OK:
		return 0;
	case G4_NVME_CAPACITY:
		return -G4_E_NOSPC;
	case G4_NVME_LBA_RANGE:
		return -G4_E_DEV_RANGE;
	case G4_NVME_READ_ONLY:
		return -G4_E_DEV_READONLY;
	default:
		return -G4_E_IO;
	}
}

/* ---- what the controller's cache holds ---- */

G4_FN static bool is_cached_write(const struct g4_nvme_command *command)
{
	return command->opcode == G4_NVME_WRITE && !(command->dword12 & G4_NVME_RW_FUA);
}

G4_FN static struct g4_nvme_cache *cache_of(const struct g4_nvme_flight *flight, uint32_t number)
{
	return &flight->cache[flight->slots[number].space];
}

/* For a FLUSH: what it was to make durable may be gone. */
G4_FN static bool is_lost(const struct g4_nvme_flight *flight, uint32_t number, const struct g4_nvme_command *command)
{
	return command->opcode == G4_NVME_FLUSH && g4_load32_acq(&cache_of(flight, number)->lost) != 0;
}

/* Who is about to send it may have looked too early: what is under way when a namespace is shut may succeed. */
G4_FN static bool is_shut(const struct g4_nvme_flight *flight, uint32_t number, const struct g4_nvme_command *command)
{
	return command->opcode != G4_NVME_READ && g4_load32_rlx(&cache_of(flight, number)->shut) != 0;
}

/* Before others learn that the command has ended. The store is left out where it changes nothing: all queues share the word. */
G4_FN static void note_end(struct g4_nvme_flight *flight, uint32_t number, const struct g4_nvme_command *command,
			   int code)
{
	const bool dirties = code == 0 ? is_cached_write(command) : command->opcode == G4_NVME_FLUSH;

	if (dirties && g4_load32_rlx(&cache_of(flight, number)->dirty) == 0)
		g4_store32_rlx(&cache_of(flight, number)->dirty, 1);
}

/* ---- sending ---- */

/* It is this caller's: not sent yet, or nobody else looks. */
G4_FN static void park(struct g4_nvme_flight *flight, uint32_t number, uint64_t state)
{
	g4_store64_rel(&flight->slots[number].state, (state & ~(uint64_t)G4_NVME_SENT) | G4_NVME_PARKED);
	g4_add32(&flight->parked, 1);
}

/*
 * A FLUSH makes durable what was acknowledged before it is sent: the word is cleared before others see the command, and what is
 * acknowledged meanwhile sets it again. One under way counts as if it were set (g4_nvme_flight_pause()); it has its place in the queue
 * before the word is cleared, so one of both is always seen.
 */
G4_FN static void send(struct g4_nvme_flight *flight, uint32_t number, uint32_t id,
		       const struct g4_nvme_command *command)
{
	const bool flushes = command->opcode == G4_NVME_FLUSH;
	const uint64_t state = (g4_monotonic_ns() & G4_NVME_SINCE_MASK) | (id + 1) | (flushes ? G4_NVME_FLUSHES : 0) |
			       (is_cached_write(command) ? G4_NVME_CACHED : 0);

	if (!is_lost(flight, number, command) && !is_shut(flight, number, command) &&
	    g4_nvme_pair_submit(&flight->pair, command, &flight->slots[number].state, state | G4_NVME_SENT,
				flushes ? &cache_of(flight, number)->dirty : NULL))
		return; /* it may be complete, and the slot somebody else's */
	park(flight, number, state);
}

/* Who notes a command as late does so before it ends, and so before this. */
G4_FN static uint32_t next_id(struct g4_nvme_slot *slot, uint32_t number)
{
	const uint64_t late = g4_load64_rlx(&slot->late);
	uint32_t id;

	do
		id = number | (++slot->turn & TURN_MASK) << 8;
	while (id + 1 == late);
	return id;
}

/* From the caller's copy: on a GPU the slot's would have to be read again. */
G4_FN void g4_nvme_flight_begin(struct g4_nvme_flight *flight, uint32_t number, struct g4_nvme_command *command)
{
	struct g4_nvme_slot *slot = &flight->slots[number];
	const uint32_t id = next_id(slot, number);

	slot->tries = 1;
	command->id = (g4_le16)id;
	if (command != &slot->command)
		g4_copy16(&slot->command, command, sizeof(*command));
	send(flight, number, id, command);
}

G4_FN static void send_again(struct g4_nvme_flight *flight, uint32_t number)
{
	struct g4_nvme_slot *slot = &flight->slots[number];
	const uint32_t id = next_id(slot, number);

	slot->command.id = (g4_le16)id;
	send(flight, number, id, &slot->command);
}

/* ---- ending ---- */

/* What the slot's holder did comes before the completion, so it needs no order here. */
G4_FN bool g4_nvme_flight_claim(struct g4_nvme_flight *flight, uint32_t id)
{
	const uint32_t number = id & 0xff;

	if (number >= flight->count || !g4_nvme_is_under_way(g4_load64_acq(&flight->slots[number].state), id)) {
		g4_store64_rlx(&flight->counts.stray, flight->counts.stray + 1);
		return false;
	}
	g4_store64_rlx(&flight->slots[number].state, 0);
	return true;
}

/* It has failed, with nothing lost. A FLUSH that was aborted because it was late has not: the cache has what it had. */
G4_FN static bool is_tried_again(const struct g4_nvme_slot *slot, uint32_t status)
{
	if ((status & G4_NVME_DNR) || slot->tries >= G4_NVME_TRIES)
		return false;
	return slot->command.opcode != G4_NVME_FLUSH || ((status & G4_NVME_STATUS_MASK) == G4_NVME_ABORTED &&
							 g4_load64_rlx(&slot->late) == slot->command.id + UINT64_C(1));
}

G4_FN bool g4_nvme_flight_ended(struct g4_nvme_flight *flight, uint32_t number, uint32_t status, int32_t *code)
{
	struct g4_nvme_slot *slot = &flight->slots[number];
	const bool lost = is_lost(flight, number, &slot->command);

	*code = lost ? -G4_E_IO : code_of(status);
	if (*code != 0 && !lost && is_tried_again(slot, status)) {
		g4_store64_rlx(&flight->counts.retried, flight->counts.retried + 1);
		slot->tries++;
		send_again(flight, number);
		return false;
	}
	note_end(flight, number, &slot->command, *code);
	if (*code == 0)
		g4_store64_rlx(&flight->counts.completed, flight->counts.completed + 1);
	else
		g4_store64_rlx(&flight->counts.failed, flight->counts.failed + 1);
	return true;
}

G4_FN static bool must_fail(const struct g4_nvme_flight *flight, uint32_t number)
{
	const struct g4_nvme_command *command = &flight->slots[number].command;

	return flight->dead || is_lost(flight, number, command) || is_shut(flight, number, command);
}

G4_FN bool g4_nvme_flight_fails(struct g4_nvme_flight *flight, uint32_t *number)
{
	for (; *number < flight->count && g4_load32_rlx(&flight->parked) > 0; ++*number) {
		struct g4_nvme_slot *slot = &flight->slots[*number];
		if (!(g4_load64_acq(&slot->state) & G4_NVME_PARKED)) /* nor is its command anybody's to look at */
			continue;
		const bool fails = must_fail(flight, *number);
		if (flight->paused && !fails)
			continue;
		g4_sub32(&flight->parked, 1);
		g4_store64_rlx(&slot->state, 0);
		if (fails)
			return true;
		send_again(flight, *number);
	}
	return false;
}

/* ---- a controller that does not answer ---- */

/* Clocks are compared that need not agree: before its time is no time. */
G4_FN static bool is_late(uint64_t state, uint64_t now_ns, uint64_t ns)
{
	const uint64_t since = state & G4_NVME_SINCE_MASK;

	return (state & G4_NVME_SENT) && now_ns >= since && now_ns - since >= ns;
}

G4_FN uint32_t g4_nvme_flight_late(const struct g4_nvme_flight *flight, uint64_t now_ns, uint64_t ns)
{
	for (uint32_t i = 0; i < flight->count; i++) {
		const uint64_t state = g4_load64_rlx(&flight->slots[i].state);

		if (is_late(state, now_ns, ns))
			return (uint32_t)state & G4_NVME_ID_MASK;
	}
	return 0;
}

G4_FN enum g4_nvme_lateness g4_nvme_flight_give_time(struct g4_nvme_flight *flight, uint32_t late, uint64_t now_ns)
{
	struct g4_nvme_slot *slot = &flight->slots[(late - 1) & 0xff];
	const uint64_t state = g4_load64_rlx(&slot->state);
	const uint64_t later = (now_ns & G4_NVME_SINCE_MASK) | (state & ~G4_NVME_SINCE_MASK);

	if (!g4_nvme_is_under_way(state, late - 1))
		return G4_NVME_NOT_LATE;
	if (g4_load64_rlx(&slot->late) == late)
		return G4_NVME_LATE_AGAIN;
	g4_store64_rlx(&slot->late, late);
	return g4_cas64(&slot->state, state, later) ? G4_NVME_LATE : G4_NVME_NOT_LATE;
}

/*
 * A slot without a place in the queue is its holder's, which finds the pair paused and parks it. Nobody ends the others
 * meanwhile. So no
 * command is parked that will still be sent by its holder, and none is missed.
 */
G4_FN uint32_t g4_nvme_flight_pause(struct g4_nvme_flight *flight)
{
	uint32_t flushes = 0, loses = 0;

	if (flight->paused)
		return 0;
	flight->paused = 1;
	g4_nvme_pair_pause(&flight->pair);
	for (uint32_t i = 0; i < flight->count; i++) {
		const uint64_t state = g4_load64_acq(&flight->slots[i].state);

		if (!(state & G4_NVME_SENT))
			continue;
		flushes |= (state & G4_NVME_FLUSHES) ? 1u << flight->slots[i].space : 0;
		park(flight, i, state);
		g4_store64_rlx(&flight->counts.resent, flight->counts.resent + 1);
	}
	for (uint32_t s = 0; s == 0 || s < flight->spaces; s++)
		if (flight->cache[s].is_volatile && ((flushes >> s & 1) || g4_load32_acq(&flight->cache[s].dirty) != 0))
			loses |= 1u << s;
	return loses;
}

G4_FN void g4_nvme_flight_restart(struct g4_nvme_flight *flight)
{
	flight->paused = 0;
	g4_nvme_pair_restart(&flight->pair);
}
