/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes as the users of an NVMe queue (lanes.h). */
#include "dev/nvme/lanes.h"

#define TURN_MASK 0x7fu	      /* identifiers stay below 2^15 */
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

G4_FN static void describe(const struct g4_nvme_lanes *lanes, uint32_t number, struct g4_nvme_command *command)
{
	const struct g4_remote_request *request = &lanes->slot[number].request;

	memset(command, 0, sizeof(*command));
	command->nsid = lanes->nsid;
	if (request->op == G4_IO_READ || request->op == G4_IO_WRITE)
		describe_data(lanes, number, request, command);
	else if (request->op == G4_IO_DISCARD)
		describe_discard(lanes, number, request, command);
	else
		command->opcode = G4_NVME_FLUSH;
}

/* By the slot's holder, and again by who looks. The queue has copied the command when this returns. */
G4_FN static void send(struct g4_nvme_lanes *lanes, uint32_t number)
{
	struct g4_nvme_lane_slot *slot = &lanes->slot[number];
	const uint32_t id = number | (++slot->turn & TURN_MASK) << 8;
	struct g4_nvme_command command __attribute__((aligned(16)));

	describe(lanes, number, &command);
	command.id = (g4_le16)id;
	slot->tries++;
	g4_store64_rlx(&slot->since_ns, g4_monotonic_ns());
	g4_store32_rel(&slot->under_way, id + 1);
	g4_nvme_pair_submit(&lanes->pair, &command);
}

G4_FN void g4_nvme_lanes_post(struct g4_nvme_lanes *lanes, uint32_t slot, const struct g4_remote_request *request)
{
	lanes->slot[slot].request = *request;
	lanes->slot[slot].tries = 0;
	send(lanes, slot);
}

/* ---- completions ---- */

/* False: nothing waits for it, or it is sent again. */
G4_FN static bool has_ended(struct g4_nvme_lanes *lanes, uint32_t id, uint32_t under_way, uint32_t status)
{
	const uint32_t number = id & 0xff;

	if (number >= lanes->slots || under_way != id + 1) {
		lanes->counts.stray++;
		return false;
	}
	if (status == 0 || !g4_nvme_may_retry(lanes->slot[number].request.op, status, lanes->slot[number].tries))
		return true;
	lanes->counts.retried++;
	send(lanes, number);
	return false;
}

/* In loops of their own, so that loads do not wait for each other. */
G4_FN static uint32_t take_completions(struct g4_nvme_lanes *lanes, struct g4_nvme_lane_end ended[G4_NVME_TAKE_MOST])
{
	uint64_t word[G4_NVME_TAKE_MOST];
	uint32_t under_way[G4_NVME_TAKE_MOST], count = 0;
	const uint32_t taken = g4_nvme_pair_take(&lanes->pair, word);

	g4_nvme_pair_consumed(&lanes->pair);
	for (uint32_t i = 0; i < G4_NVME_TAKE_MOST; i++)
		under_way[i] =
			i < taken ?
				g4_load32_fenced(
					&lanes->slot[g4_nvme_completion_id(word[i]) % G4_NVME_LANE_SLOTS].under_way) :
				0;
	g4_fence_acq();
	for (uint32_t i = 0; i < taken; i++) {
		const uint32_t id = g4_nvme_completion_id(word[i]), status = g4_nvme_completion_status(word[i]);

		for (uint32_t k = 0; k < i; k++) /* the same one may be there twice */
			if (g4_nvme_completion_id(word[k]) == id)
				under_way[i] = 0;
		if (!has_ended(lanes, id, under_way[i], status))
			continue;
		ended[count].slot = id & 0xff;
		ended[count].code = g4_nvme_code(status);
		g4_store32_rlx(&lanes->slot[id & 0xff].under_way, 0);
		count++;
	}
	return count;
}

G4_FN static bool is_overdue(const struct g4_nvme_lanes *lanes)
{
	const uint64_t now = g4_monotonic_ns();

	for (uint32_t i = 0; i < lanes->slots; i++) {
		const struct g4_nvme_lane_slot *slot = &lanes->slot[i];
		if (g4_load32_acq(&slot->under_way) != 0 && g4_load64_rlx(&slot->since_ns) + lanes->timeout_ns <= now)
			return true;
	}
	return false;
}

G4_FN static void check_controller(struct g4_nvme_lanes *lanes)
{
	const bool silent = is_overdue(lanes);

	if (silent)
		g4_store32_rel_sys(lanes->given_up, 1);
	lanes->dead = silent || g4_load32_acq_sys(lanes->gone) != 0;
}

/* Slots that a dead controller owes an answer. */
G4_FN static uint32_t take_abandoned(struct g4_nvme_lanes *lanes, struct g4_nvme_lane_end ended[G4_NVME_TAKE_MOST])
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < lanes->slots && count < G4_NVME_TAKE_MOST; i++)
		if (g4_load32_acq(&lanes->slot[i].under_way) != 0) {
			ended[count].slot = i;
			ended[count++].code = -G4_E_IO;
			g4_store32_rlx(&lanes->slot[i].under_way, 0);
		}
	return count;
}

G4_FN uint32_t g4_nvme_lanes_take(struct g4_nvme_lanes *lanes, struct g4_nvme_lane_end ended[G4_NVME_TAKE_MOST])
{
	uint32_t count = lanes->dead ? 0 : take_completions(lanes, ended), failed = 0;

	if (count == 0) {
		g4_nvme_pair_help(&lanes->pair);
		if (!lanes->dead && ++lanes->idle % LOOKS_PER_CHECK == 0)
			check_controller(lanes);
		if (lanes->dead)
			count = take_abandoned(lanes, ended);
	}
	for (uint32_t i = 0; i < count; i++)
		failed += ended[i].code != 0;
	lanes->counts.failed += failed;
	lanes->counts.completed += count - failed;
	return count;
}
