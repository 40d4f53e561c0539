/* SPDX-License-Identifier: Apache-2.0 */
/* Commands under way (flight.h). */
#include "dev/nvme/flight.h"

#define TURN_MASK 0x7fu /* identifiers stay below 2^15 */
#define PARKED 0x10000u /* of g4_nvme_slot.under_way */

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

/* For a FLUSH: what it was to make durable may be gone. */
G4_FN static bool is_lost(const struct g4_nvme_flight *flight, const struct g4_nvme_command *command)
{
	return command->opcode == G4_NVME_FLUSH && g4_load32_acq(&flight->cache->lost) != 0;
}

/* Before others learn that the command has ended. The store is left out where it changes nothing: all queues share the word. */
G4_FN static void note_end(struct g4_nvme_flight *flight, const struct g4_nvme_command *command, int code)
{
	const bool dirties = code == 0 ? is_cached_write(command) : command->opcode == G4_NVME_FLUSH;

	if (dirties && g4_load32_rlx(&flight->cache->dirty) == 0)
		g4_store32_rlx(&flight->cache->dirty, 1);
}

/* ---- sending ---- */

/* It is this caller's as long as nobody else has parked or ended it. */
G4_FN static void park(struct g4_nvme_flight *flight, uint32_t number, uint32_t under_way)
{
	if (g4_cas32(&flight->slots[number].under_way, under_way, under_way | PARKED))
		g4_add32(&flight->parked, 1);
}

/*
 * A FLUSH makes durable what was acknowledged before it is sent: the word is cleared before others see the command, and what is
 * acknowledged meanwhile sets it again. One under way counts as if it were set (g4_nvme_flight_pause()); it has its place in the queue
 * before the word is cleared, so one of both is always seen.
 */
G4_FN void g4_nvme_flight_send(struct g4_nvme_flight *flight, uint32_t number)
{
	struct g4_nvme_slot *slot = &flight->slots[number];
	const uint32_t id = number | (++slot->turn & TURN_MASK) << 8;
	uint32_t *dirty = slot->command.opcode == G4_NVME_FLUSH ? &flight->cache->dirty : NULL;

	slot->tries++;
	slot->command.id = (g4_le16)id;
	g4_store64_rlx(&slot->since_ns, g4_monotonic_ns());
	g4_store32_rlx(&slot->sent, 0);
	g4_store32_rel(&slot->under_way, id + 1);
	if (!is_lost(flight, &slot->command) && g4_nvme_pair_submit(&flight->pair, &slot->command, &slot->sent, dirty))
		return; /* it may be complete, and the slot somebody else's */
	park(flight, number, id + 1);
}

/* ---- ending ---- */

G4_FN bool g4_nvme_flight_ended(struct g4_nvme_flight *flight, uint32_t number, uint32_t status, int32_t *code)
{
	struct g4_nvme_slot *slot = &flight->slots[number];

	*code = is_lost(flight, &slot->command) ? -G4_E_IO : code_of(status);
	if (*code != 0 && !(status & G4_NVME_DNR) && slot->tries < G4_NVME_TRIES &&
	    slot->command.opcode != G4_NVME_FLUSH) {
		g4_store64_rlx(&flight->counts.retried, flight->counts.retried + 1);
		g4_nvme_flight_send(flight, number);
		return false;
	}
	note_end(flight, &slot->command, *code);
	if (*code == 0)
		g4_store64_rlx(&flight->counts.completed, flight->counts.completed + 1);
	else
		g4_store64_rlx(&flight->counts.failed, flight->counts.failed + 1);
	return true;
}

G4_FN static bool must_fail(const struct g4_nvme_flight *flight, const struct g4_nvme_slot *slot)
{
	return flight->dead || is_lost(flight, &slot->command);
}

G4_FN bool g4_nvme_flight_fails(struct g4_nvme_flight *flight, uint32_t *number)
{
	for (; *number < flight->count && g4_load32_rlx(&flight->parked) > 0; ++*number) {
		struct g4_nvme_slot *slot = &flight->slots[*number];
		const uint32_t under_way = g4_load32_acq(&slot->under_way);
		if (!(under_way & PARKED)) /* nor is its command anybody's to look at */
			continue;
		const bool fails = must_fail(flight, slot);
		if (flight->paused && !fails)
			continue;
		g4_sub32(&flight->parked, 1);
		g4_store32_rlx(&slot->under_way, 0);
		if (fails)
			return true;
		slot->tries--;
		g4_nvme_flight_send(flight, *number);
	}
	return false;
}

/* ---- a controller that does not answer ---- */

G4_FN uint32_t g4_nvme_flight_late(const struct g4_nvme_flight *flight, uint64_t now_ns, uint64_t ns)
{
	for (uint32_t i = 0; i < flight->count; i++) {
		const struct g4_nvme_slot *slot = &flight->slots[i];
		const uint32_t under_way = g4_load32_acq(&slot->under_way);

		if (under_way != 0 && !(under_way & PARKED) && g4_load64_rlx(&slot->since_ns) + ns <= now_ns)
			return under_way;
	}
	return 0;
}

/* Where the command has ended meanwhile, the next one of its slot gets some time too much. */
G4_FN bool g4_nvme_flight_give_time(struct g4_nvme_flight *flight, uint32_t late, uint64_t now_ns)
{
	struct g4_nvme_slot *slot = &flight->slots[(late - 1) & 0xff];

	if (g4_load32_rlx(&slot->late) == late)
		return false;
	g4_store32_rlx(&slot->late, late);
	g4_store64_rlx(&slot->since_ns, now_ns);
	return true;
}

/*
 * A slot without a place in the queue is its holder's, who finds the pair paused and parks it. Nobody ends the others meanwhile. So no
 * command is parked that will still be sent by its holder, and none is missed.
 */
G4_FN bool g4_nvme_flight_pause(struct g4_nvme_flight *flight)
{
	bool flushes = false;

	if (flight->paused)
		return false;
	flight->paused = 1;
	g4_nvme_pair_pause(&flight->pair);
	for (uint32_t i = 0; i < flight->count; i++) {
		struct g4_nvme_slot *slot = &flight->slots[i];
		const uint32_t under_way = g4_load32_acq(&slot->under_way);

		if (under_way == 0 || (under_way & PARKED) || g4_load32_rlx(&slot->sent) == 0)
			continue;
		flushes = flushes || slot->command.opcode == G4_NVME_FLUSH;
		park(flight, i, under_way);
		g4_store64_rlx(&flight->counts.resent, flight->counts.resent + 1);
	}
	return flight->cache->is_volatile && (flushes || g4_load32_acq(&flight->cache->dirty) != 0);
}

G4_FN void g4_nvme_flight_restart(struct g4_nvme_flight *flight)
{
	flight->paused = 0;
	g4_nvme_pair_restart(&flight->pair);
}
