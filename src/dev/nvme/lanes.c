/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes as the users of an NVMe queue (lanes.h). */
#include "dev/nvme/lanes.h"

#define LOOKS_PER_CHECK 1024u /* at the clock, and at what the host says */
#define RANGE_MOST_BLOCKS 0xfffff000u
#define RANGES_MOST 256u /* of a DSM; with blocks of 512 bytes 512 TiB */

/* ---- commands ---- */

G4_FN static void describe_data(const struct g4_nvme_lanes *lanes, uint32_t number,
				const struct g4_remote_request *request, struct g4_nvme_command *command)
{
	const uint64_t lba = request->offset_bytes >> lanes->block_shift;
	const uint64_t pages = g4_pages_for(request->bytes);
	const uint64_t chunk = (uintptr_t)lanes->staging + number * lanes->chunk_bytes;

	command->opcode = request->op == G4_IO_READ ? G4_NVME_READ : G4_NVME_WRITE;
	command->prp1 = chunk;
	if (pages > 1)
		command->prp2 =
			pages == 2 ? chunk + G4_PAGE_BYTES : (uintptr_t)lanes->lists + number * G4_NVME_LIST_BYTES;
	command->dword10 = (uint32_t)lba;
	command->dword11 = (uint32_t)(lba >> 32);
	command->dword12 = (uint32_t)(request->bytes >> lanes->block_shift) - 1;
	if (request->op == G4_IO_WRITE && (request->flags & G4_IO_FUA))
		command->dword12 |= G4_NVME_RW_FUA;
}

/* The ranges stand in the slot's chunk. What is behind the last of them is not discarded, which is as good. */
G4_FN static void describe_discard(const struct g4_nvme_lanes *lanes, uint32_t number,
				   const struct g4_remote_request *request, struct g4_nvme_command *command)
{
	uint8_t *chunk = lanes->staging + number * lanes->chunk_bytes;
	struct g4_nvme_range *range = (struct g4_nvme_range *)chunk;
	uint64_t lba = request->offset_bytes >> lanes->block_shift, left = request->bytes >> lanes->block_shift;
	uint32_t count = 0;

	for (; left > 0 && count < RANGES_MOST; count++) {
		const uint32_t blocks = (uint32_t)g4_min64(left, RANGE_MOST_BLOCKS);
		range[count].attributes = 0;
		range[count].blocks = blocks;
		range[count].lba = lba;
		lba += blocks;
		left -= blocks;
	}
	command->opcode = G4_NVME_DSM;
	command->prp1 = (uintptr_t)chunk;
	command->dword10 = count - 1;
	command->dword11 = G4_NVME_DSM_DEALLOCATE;
}

G4_FN static void describe(const struct g4_nvme_lanes *lanes, uint32_t number, const struct g4_remote_request *request,
			   struct g4_nvme_command *command)
{
	memset(command, 0, sizeof(*command));
	command->nsid = lanes->nsid;
	if (request->op == G4_IO_READ || request->op == G4_IO_WRITE)
		describe_data(lanes, number, request, command);
	else if (request->op == G4_IO_DISCARD)
		describe_discard(lanes, number, request, command);
	else
		command->opcode = G4_NVME_FLUSH;
}

G4_FN void g4_nvme_lanes_post(struct g4_nvme_lanes *lanes, uint32_t slot, const struct g4_remote_request *request)
{
	describe(lanes, slot, request, &lanes->flight.slots[slot].command);
	lanes->flight.slots[slot].tries = 0;
	g4_nvme_flight_send(&lanes->flight, slot);
}

/* ---- completions ---- */

/* False: nothing waits for it, or it is sent again. */
G4_FN static bool has_ended(struct g4_nvme_lanes *lanes, uint32_t id, uint32_t under_way, uint32_t status,
			    struct g4_nvme_lane_end *ended)
{
	struct g4_nvme_flight *flight = &lanes->flight;
	const uint32_t number = id & 0xff;

	if (number >= flight->count || under_way != id + 1) {
		g4_store64_rlx(&flight->counts.stray, flight->counts.stray + 1);
		return false;
	}
	g4_store32_rlx(&flight->slots[number].under_way, 0);
	ended->slot = number;
	return g4_nvme_flight_ended(flight, number, status, &ended->code);
}

/* In loops of their own, so that loads do not wait for each other. */
G4_FN static uint32_t take_completions(struct g4_nvme_lanes *lanes, struct g4_nvme_lane_end ended[G4_NVME_TAKE_MOST])
{
	struct g4_nvme_flight *flight = &lanes->flight;
	uint64_t word[G4_NVME_TAKE_MOST];
	uint32_t under_way[G4_NVME_TAKE_MOST], count = 0;
	const uint32_t taken = g4_nvme_pair_take(&flight->pair, word);

	g4_nvme_pair_consumed(&flight->pair);
	for (uint32_t i = 0; i < G4_NVME_TAKE_MOST; i++)
		under_way[i] =
			i < taken ?
				g4_load32_fenced(
					&flight->slots[g4_nvme_completion_id(word[i]) % G4_NVME_LANE_SLOTS].under_way) :
				0;
	g4_fence_acq();
	for (uint32_t i = 0; i < taken; i++) {
		const uint32_t id = g4_nvme_completion_id(word[i]), status = g4_nvme_completion_status(word[i]);

		for (uint32_t k = 0; k < i; k++) /* the same one may be there twice */
			if (g4_nvme_completion_id(word[k]) == id)
				under_way[i] = 0;
		if (has_ended(lanes, id, under_way[i], status, &ended[count]))
			count++;
	}
	return count;
}

/* ---- recovery ---- */

/*
 * What the host is to do about a command that is late: abort it, and if that does not help, reset the controller. One at a time: a
 * second one would take the place of the first before the host has read it, and that one's next step is a reset.
 */
G4_FN static void complain(struct g4_nvme_lanes *lanes)
{
	const uint64_t now = g4_monotonic_ns();

	if (g4_load32_acq_sys(&lanes->talk->heard) != lanes->late)
		return;
	const uint32_t late = g4_nvme_flight_late(&lanes->flight, now, lanes->timeout_ns);
	if (late == 0)
		return;
	if (!g4_nvme_flight_give_time(&lanes->flight, late, now)) {
		g4_store32_rel_sys(&lanes->talk->wish, lanes->reset + 1);
		return;
	}
	lanes->late = late | (~lanes->late & G4_NVME_AGAIN);
	g4_store32_rel_sys(&lanes->talk->late, lanes->late);
}

/* What the host tells. Lanes are quiet before they say so, and begin anew only when the host has seen that. */
G4_FN static void listen(struct g4_nvme_lanes *lanes)
{
	struct g4_nvme_flight *flight = &lanes->flight;
	const uint32_t told = g4_load32_acq_sys(&lanes->talk->told), reset = told >> G4_NVME_RESET_SHIFT;

	if (reset != lanes->reset || (told & G4_NVME_TOLD_DEAD)) {
		if (g4_nvme_flight_pause(flight))
			g4_store32_rel(&lanes->cache.lost, 1);
		lanes->reset = reset;
		g4_store32_rel_sys(&lanes->talk->said,
				   reset << G4_NVME_RESET_SHIFT | (lanes->cache.lost ? G4_NVME_SAID_LOST : 0));
	}
	if (told & G4_NVME_TOLD_LOST)
		g4_store32_rel(&lanes->cache.lost, 1);
	if (told & G4_NVME_TOLD_DEAD)
		flight->dead = 1;
	else if (flight->paused && (told & G4_NVME_TOLD_READY))
		g4_nvme_flight_restart(flight);
}

/* Slots that get no answer. */
G4_FN static uint32_t take_failed(struct g4_nvme_lanes *lanes, struct g4_nvme_lane_end ended[G4_NVME_TAKE_MOST])
{
	uint32_t count = 0;

	for (uint32_t number = 0; count < G4_NVME_TAKE_MOST && g4_nvme_flight_fails(&lanes->flight, &number);
	     number++) {
		ended[count].slot = number;
		g4_nvme_flight_ended(&lanes->flight, number, G4_NVME_INTERNAL_ERROR | G4_NVME_DNR,
				     &ended[count++].code);
	}
	return count;
}

G4_FN uint32_t g4_nvme_lanes_take(struct g4_nvme_lanes *lanes, struct g4_nvme_lane_end ended[G4_NVME_TAKE_MOST])
{
	struct g4_nvme_flight *flight = &lanes->flight;
	const uint32_t count = flight->paused ? 0 : take_completions(lanes, ended);

	if (count > 0)
		return count;
	g4_nvme_pair_help(&flight->pair);
	if (++lanes->idle % LOOKS_PER_CHECK == 0 && !flight->dead) {
		listen(lanes);
		if (!flight->paused)
			complain(lanes);
	}
	return take_failed(lanes, ended);
}
