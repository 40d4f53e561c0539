/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes as the users of an NVMe queue (lanes.h). */
#include "dev/nvme/lanes.h"

#define LOOKS_PER_CHECK 1024u /* at the clock, and at what the host says */
#define RANGE_MOST_BLOCKS 0xfffff000u
#define TRY_BYTES (16 * G4_KIB) /* a list of pages */
#define TRY_LOOKS 32u
#define RANGES_MOST 256u /* of a DSM; with blocks of 512 bytes 512 TiB */

/* ---- commands ---- */

G4_FN static uint64_t block_of(const struct g4_nvme_lanes *lanes, uint64_t offset)
{
	return lanes->first_block + (offset >> lanes->block_shift);
}

/* The controller's, of memory of the host. */
G4_FN static uint64_t address_of(const struct g4_nvme_lanes *lanes, const uint8_t *memory)
{
	return (uintptr_t)memory + lanes->shift;
}

G4_FN uint64_t g4_nvme_lanes_cut(const struct g4_nvme_lanes *lanes, uint64_t offset, uint64_t left, bool writes)
{
	return g4_nvme_cut(&lanes->sizes, block_of(lanes, offset), left >> lanes->block_shift,
			   lanes->chunk_bytes >> lanes->block_shift, writes)
	       << lanes->block_shift;
}

G4_FN bool g4_nvme_lanes_discards(const struct g4_nvme_lanes *lanes, uint64_t offset, uint64_t bytes)
{
	uint64_t lba = block_of(lanes, offset), blocks = bytes >> lanes->block_shift;

	g4_nvme_granules(&lanes->sizes, &lba, &blocks);
	return blocks > 0;
}

G4_FN static void describe_data(const struct g4_nvme_lanes *lanes, uint32_t number,
				const struct g4_remote_request *request, struct g4_nvme_command *command)
{
	const uint64_t lba = block_of(lanes, request->offset_bytes);
	const uint64_t pages = g4_pages_for(request->bytes);
	const uint64_t chunk = address_of(lanes, lanes->staging + number * lanes->chunk_bytes);

	command->opcode = request->op == G4_IO_READ ? G4_NVME_READ : G4_NVME_WRITE;
	command->prp1 = chunk;
	if (pages > 1)
		command->prp2 = pages == 2 ? chunk + G4_PAGE_BYTES :
					     address_of(lanes, lanes->lists + number * G4_NVME_LIST_BYTES);
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
	uint64_t lba = block_of(lanes, request->offset_bytes), left = request->bytes >> lanes->block_shift;
	uint64_t most = lanes->sizes.discard_most ? lanes->sizes.discard_most : UINT64_MAX;
	const uint64_t ranges = lanes->sizes.ranges ? g4_min64(lanes->sizes.ranges, RANGES_MOST) : RANGES_MOST;
	uint32_t count = 0;

	while (count < ranges) {
		g4_nvme_granules(&lanes->sizes, &lba, &left);
		const uint64_t blocks = g4_nvme_range(&lanes->sizes, g4_min64(left, most), RANGE_MOST_BLOCKS);
		if (blocks == 0)
			break;
		range[count].attributes = 0;
		range[count].blocks = (uint32_t)blocks;
		range[count++].lba = lba;
		lba += blocks;
		left -= blocks;
		most -= blocks;
	}
	command->opcode = G4_NVME_DSM;
	command->prp1 = address_of(lanes, chunk);
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
	struct g4_nvme_command command __attribute__((aligned(16)));

	describe(lanes, slot, request, &command);
	g4_nvme_flight_begin(&lanes->flight, slot, &command);
}

/* ---- completions ---- */

G4_FN bool g4_nvme_lanes_ended(const struct g4_nvme_lanes *lanes, uint32_t slot, int32_t *code)
{
	const uint64_t state = g4_load64_acq(&lanes->flight.slots[slot].state);

	*code = -(int32_t)((uint32_t)state & G4_NVME_ID_MASK);
	return (state & G4_NVME_ENDED) != 0;
}

G4_FN static uint32_t slot_of(uint64_t end)
{
	return g4_nvme_completion_id(end) % G4_NVME_LANE_SLOTS;
}

/* Completions that were taken together: which of them end their slots, bit i that of end[i], and which of these need care. */
struct judged {
	uint32_t ends, care;
};

/*
 * By what the slots' states were. A read that succeeded needs no look at its command. The same completion may be there twice. All of it
 * is in registers on a GPU, so no loop here has an end that is not known.
 */
G4_FN static struct judged judge(const uint64_t end[G4_NVME_TAKE_MOST], const uint64_t state[G4_NVME_TAKE_MOST],
				 uint32_t count)
{
	uint64_t seen[G4_NVME_LANE_SLOTS / 64] = {0};
	struct judged judged = {0, 0};

	G4_UNROLLED
	for (uint32_t i = 0; i < G4_NVME_TAKE_MOST; i++) {
		if (i >= count)
			continue;
		const uint32_t id = g4_nvme_completion_id(end[i]), slot = slot_of(end[i]);
		const uint64_t bit = UINT64_C(1) << slot % 64;
		bool twice = false;

		for (uint32_t w = 0; w < G4_NVME_LANE_SLOTS / 64; w++)
			twice = twice || (slot / 64 == w && (seen[w] & bit));
		if (twice || (id & 0xff) != slot || !g4_nvme_is_under_way(state[i], id))
			continue;
		for (uint32_t w = 0; w < G4_NVME_LANE_SLOTS / 64; w++)
			seen[w] |= slot / 64 == w ? bit : 0;
		judged.ends |= 1u << i;
		if (g4_nvme_completion_status(end[i]) != G4_NVME_OK || (state[i] & (G4_NVME_FLUSHES | G4_NVME_CACHED)))
			judged.care |= 1u << i;
	}
	return judged;
}

G4_FN static void count_ends(struct g4_nvme_flight *flight, struct judged judged, uint32_t count)
{
	const uint32_t plain = g4_count_bits(judged.ends & ~judged.care), stray = count - g4_count_bits(judged.ends);

	if (plain > 0)
		g4_store64_rlx(&flight->counts.completed, flight->counts.completed + plain);
	if (stray > 0)
		g4_store64_rlx(&flight->counts.stray, flight->counts.stray + stray);
}

/* With errors, and of writes and flushes: what was noted about them has to be seen before their ends. How many have ended. */
G4_FN static uint32_t end_with_care(struct g4_nvme_flight *flight, const uint64_t end[G4_NVME_TAKE_MOST],
				    uint32_t which)
{
	uint64_t state[G4_NVME_TAKE_MOST];
	uint32_t ended = 0;
	int32_t code;

	for (uint32_t i = 0; which >> i; i++) {
		state[i] = 0; /* it is sent again */
		if ((which >> i & 1) &&
		    g4_nvme_flight_ended(flight, slot_of(end[i]), g4_nvme_completion_status(end[i]), &code))
			state[i] = G4_NVME_ENDED | (uint32_t)-code;
	}
	g4_fence_rel();
	for (uint32_t i = 0; which >> i; i++) {
		if (state[i] == 0)
			continue;
		g4_store64_fenced(&flight->slots[slot_of(end[i])].state, state[i]);
		ended++;
	}
	return ended;
}

/* Loads first, all on their way together, then what they say, then stores. */
G4_FN static uint32_t take_completions(struct g4_nvme_lanes *lanes, uint32_t own)
{
	struct g4_nvme_flight *flight = &lanes->flight;
	uint64_t end[G4_NVME_TAKE_MOST], state[G4_NVME_TAKE_MOST];
	const uint32_t count = g4_nvme_pair_take(&flight->pair, end);

	if (count == 0)
		return 0;
	g4_nvme_pair_consumed(&flight->pair);
	G4_UNROLLED
	for (uint32_t i = 0; i < G4_NVME_TAKE_MOST; i++)
		if (i < count)
			state[i] = g4_load64_fenced(&flight->slots[slot_of(end[i])].state);
	const struct judged judged = judge(end, state, count);
	count_ends(flight, judged, count);
	if (count == 1 && slot_of(end[0]) != own) /* of several, taking them was followed by a fence */
		g4_fence_rel();
	G4_UNROLLED
	for (uint32_t i = 0; i < G4_NVME_TAKE_MOST; i++)
		if ((judged.ends & ~judged.care) >> i & 1)
			g4_store64_fenced(&flight->slots[slot_of(end[i])].state, G4_NVME_ENDED);
	const uint32_t careful = judged.care ? end_with_care(flight, end, judged.care) : 0;
	return careful + g4_count_bits(judged.ends & ~judged.care);
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
	const enum g4_nvme_lateness lateness = g4_nvme_flight_give_time(&lanes->flight, late, now);
	if (lateness == G4_NVME_NOT_LATE)
		return;
	if (lateness == G4_NVME_LATE_AGAIN) {
		g4_store32_rel_sys(&lanes->talk->wish, lanes->reset + 1);
		return;
	}
	lanes->late = late | (~lanes->late & G4_NVME_AGAIN);
	g4_store32_rel_sys(&lanes->talk->late, lanes->late);
}

/* What the host tells. Lanes are quiet before they say so, and begin anew only when the host has seen that. */
G4_FN static void hear_host(struct g4_nvme_lanes *lanes)
{
	struct g4_nvme_flight *flight = &lanes->flight;
	const uint32_t told = g4_load32_acq_sys(&lanes->talk->told), reset = told >> G4_NVME_RESET_SHIFT;

	if (reset != lanes->reset || (told & G4_NVME_TOLD_DEAD)) {
		if (g4_nvme_flight_pause(flight))
			g4_store32_rel(&flight->cache->lost, 1);
		lanes->reset = reset;
		g4_store32_rel_sys(&lanes->talk->said,
				   reset << G4_NVME_RESET_SHIFT |
					   (g4_load32_acq(&flight->cache->lost) ? G4_NVME_SAID_LOST : 0));
	}
	if (told & G4_NVME_TOLD_SHUT)
		g4_store32_rlx(&flight->cache->shut, 1);
	if (told & G4_NVME_TOLD_LOST)
		g4_store32_rel(&flight->cache->lost, 1);
	if (told & G4_NVME_TOLD_DEAD)
		flight->dead = 1;
	else if (flight->paused && (told & G4_NVME_TOLD_READY))
		g4_nvme_flight_restart(flight);
	g4_store32_rlx(&lanes->stopped, flight->paused && !flight->dead);
}

G4_FN bool g4_nvme_lanes_alarm(const struct g4_nvme_lanes *lanes)
{
	return g4_load32_rlx(&lanes->stopped) != 0;
}

G4_FN void g4_nvme_lanes_attend(struct g4_nvme_lanes *lanes)
{
	if (!lanes->flight.dead)
		hear_host(lanes);
}

/* Slots that get no answer. */
G4_FN static uint32_t take_failed(struct g4_nvme_lanes *lanes)
{
	struct g4_nvme_flight *flight = &lanes->flight;
	uint32_t count = 0;
	int32_t code;

	for (uint32_t number = 0; g4_nvme_flight_fails(flight, &number); number++, count++) {
		g4_nvme_flight_ended(flight, number, G4_NVME_INTERNAL_ERROR | G4_NVME_DNR, &code);
		g4_store64_rel(&flight->slots[number].state, G4_NVME_ENDED | (uint32_t)-code);
	}
	return count;
}

G4_FN static void check(struct g4_nvme_lanes *lanes)
{
	hear_host(lanes);
	if (!lanes->flight.paused)
		complain(lanes);
}

G4_FN uint32_t g4_nvme_lanes_take(struct g4_nvme_lanes *lanes, uint32_t looks, uint32_t own)
{
	struct g4_nvme_flight *flight = &lanes->flight;
	const bool parked = g4_load32_rlx(&flight->parked) > 0, paused = flight->paused;
	uint32_t count = parked ? take_failed(lanes) : 0;

	for (uint32_t i = 0; i < looks && !paused && count == 0; i++) {
		count = take_completions(lanes, own);
		if (count == 0)
			g4_nvme_pair_help(&flight->pair);
	}
	if (count > 0)
		return count;
	lanes->idle += looks;
	if (lanes->idle >= LOOKS_PER_CHECK && !flight->dead) {
		lanes->idle = 0;
		check(lanes);
	}
	return 0;
}

/* ---- the first command ---- */

G4_FN uint64_t g4_nvme_lanes_try_bytes(const struct g4_nvme_lanes *lanes)
{
	return g4_nvme_lanes_cut(lanes, 0, g4_min64(TRY_BYTES, lanes->chunk_bytes), false);
}

G4_FN int g4_nvme_lanes_try(struct g4_nvme_lanes *lanes, uint64_t ns)
{
	const struct g4_remote_request request = {
		.op = G4_IO_READ, .flags = 0, .offset_bytes = 0, .bytes = g4_nvme_lanes_try_bytes(lanes)};
	const uint64_t begin = g4_monotonic_ns();
	int32_t code;

	g4_nvme_lanes_post(lanes, 0, &request);
	while (!g4_nvme_lanes_ended(lanes, 0, &code)) {
		if (g4_monotonic_ns() - begin >= ns)
			return -G4_E_AGAIN;
		g4_nvme_lanes_take(lanes, TRY_LOOKS, 0);
	}
	return code;
}
