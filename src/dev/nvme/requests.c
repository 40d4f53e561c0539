/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests as commands (requests.h).
 *
 * Progress: every waiter looks at completions, and these give slots back, of all requests. So a workgroup may wait for
 * a slot while it has others, and none of those that wait needs another one's help.
 */
#include "dev/nvme/requests.h"

#define STARTED_BITS 56u /* of g4_io.cookie: bytes that were started */
#define STARTED_MASK ((UINT64_C(1) << STARTED_BITS) - 1)
#define ALL_STARTED (UINT64_C(1) << STARTED_BITS)
#define RANGE_MOST_BLOCKS (UINT64_C(1) << 31)
#define SGL_MOST (G4_NVME_LIST_BYTES / sizeof(struct g4_nvme_sgl))

G4_STATIC_ASSERT(sizeof(struct g4_nvme_queue) % 128 == 0, "no two queues share a cache line");

/* ---- ending ---- */

G4_FN static void release(struct g4_io *io)
{
	if (g4_sub32(&io->queue, 1) == 1)
		g4_store32_rel(&io->done, 1);
}

/* The slot's command has ended; its slot is nobody's now but this caller's. */
G4_FN static void end(struct g4_nvme_queue *queue, uint32_t number, uint32_t status)
{
	struct g4_io *io = queue->flight.slots[number].io;
	int32_t code;

	if (!g4_nvme_flight_ended(&queue->flight, number, status, &code))
		return;
	if (code != 0) /* the first one stays */
		g4_cas32((uint32_t *)&io->result, 0, (uint32_t)code);
	g4_slots_give(&queue->pool, g4_io_class(io), number);
	release(io);
}

/* Takes completions, and what is parked; ends at most as many as there are slots. How many were taken. */
G4_FN static uint32_t take_completions(struct g4_nvme_queue *queue)
{
	struct g4_nvme_flight *flight = &queue->flight;
	const bool paused = flight->paused;
	uint32_t n = 0;
	uint64_t word;

	for (; n < flight->count && !paused && g4_nvme_pair_next(&flight->pair, &word, NULL); n++) {
		const uint32_t id = g4_nvme_completion_id(word);

		if (g4_nvme_flight_claim(flight, id))
			end(queue, id & 0xff, g4_nvme_completion_status(word));
	}
	if (!paused)
		g4_nvme_pair_consumed(&flight->pair);
	for (uint32_t number = 0; n < flight->count && g4_nvme_flight_fails(flight, &number); n++, number++)
		end(queue, number, G4_NVME_INTERNAL_ERROR | G4_NVME_DNR);
	return n;
}

/*
 * Ends what is complete, for all, unless another workgroup does. Who sleeps has had this lock behind counting itself, so it is seen here,
 * or has seen what was ended.
 */
G4_FN static void look(struct g4_nvme_queue *queue)
{
	if (!g4_slots_try_look(&queue->pool))
		return;
	if (take_completions(queue) > 0 && g4_load32_rlx(&queue->sleepers) > 0)
		g4_store32_rlx(&queue->wake, 1);
	g4_slots_looked(&queue->pool);
}

/* What is parked fails or is sent by the next look, unless a reset is under way: whoever ends that wakes all. */
G4_FN static bool has_nothing(const struct g4_nvme_flight *flight)
{
	if (g4_load32_rlx(&flight->parked) > 0 && (!flight->paused || flight->dead))
		return false;
	return flight->paused || (g4_nvme_pair_is_rung(&flight->pair) && !g4_nvme_pair_is_answered(&flight->pair));
}

G4_FN bool g4_nvme_is_quiet(struct g4_nvme_queue *queue)
{
	if (!g4_slots_try_look(&queue->pool))
		return false;
	const bool nothing = has_nothing(&queue->flight);
	g4_slots_looked(&queue->pool);
	return nothing;
}

/* ---- starting ---- */

G4_FN static bool is_data(const struct g4_io *io)
{
	return io->op == G4_IO_READ || io->op == G4_IO_WRITE;
}

G4_FN static uint64_t bytes_of(const struct g4_io *io)
{
	if (!is_data(io))
		return io->op == G4_IO_DISCARD ? io->discard_bytes : 1;
	return g4_io_bytes(io);
}

/* PRPs: all pages but the first begin at a page's start, all but the last end at a page's end. */
struct pages {
	uint64_t *list; /* all but the first one */
	uint64_t first;
	uint64_t bytes;
	uint32_t count;
};

/* Adds what it can of a buffer. False: the command ends here. */
G4_FN static bool add_buffer(struct pages *pages, uint64_t at, uint64_t bytes, uint64_t most)
{
	while (bytes > 0) {
		const uint64_t within = at & (G4_PAGE_BYTES - 1);
		const uint64_t n = g4_min64(g4_min64(bytes, G4_PAGE_BYTES - within), most - pages->bytes);

		if (n == 0 || (pages->count > 0 && within != 0))
			return false;
		if (pages->count == 0)
			pages->first = at;
		else
			pages->list[pages->count - 1] = at;
		pages->count++;
		pages->bytes += n;
		at += n;
		bytes -= n;
		if (at & (G4_PAGE_BYTES - 1))
			return false;
	}
	return true;
}

/* A part of a request's data: how much of it a command may move. */
struct part {
	uint32_t first; /* vector */
	uint64_t skip;	/* bytes of it */
	uint64_t most;
};

G4_FN static struct part part_at(const struct g4_nvme_queue *queue, const struct g4_nvme_target *target,
				 const struct g4_io *io, uint64_t skip)
{
	struct part part = {0, skip, 0};

	const uint64_t lba = target->first_block + ((io->offset_bytes + skip) >> target->block_shift);
	part.most = g4_nvme_cut(&target->sizes, lba, (bytes_of(io) - skip) >> target->block_shift,
				queue->piece_bytes >> target->block_shift, io->op == G4_IO_WRITE)
		    << target->block_shift;
	while (part.skip >= io->iov[part.first].bytes)
		part.skip -= io->iov[part.first++].bytes;
	return part;
}

/* By PRPs; returns how many bytes, which may be less than the part has. */
G4_FN static uint64_t describe_pages(const struct g4_nvme_queue *queue, const struct g4_io *io, struct part part,
				     uint8_t *list, struct g4_nvme_command *command)
{
	struct pages pages;

	memset(&pages, 0, sizeof(pages));
	pages.list = (uint64_t *)list;
	for (uint32_t i = part.first; i < io->iov_count && pages.bytes < part.most; i++) {
		if (!add_buffer(&pages, (uintptr_t)io->iov[i].base + part.skip + queue->shift,
				io->iov[i].bytes - part.skip, part.most))
			break;
		part.skip = 0;
	}
	command->prp1 = pages.first;
	if (pages.count > 1)
		command->prp2 = pages.count == 2 ? pages.list[0] : (uintptr_t)list + queue->shift;
	return pages.bytes;
}

/* By an SGL: vectors as they are, as many as fit. */
G4_FN static uint64_t describe_vectors(const struct g4_nvme_queue *queue, const struct g4_io *io, struct part part,
				       uint8_t *list, struct g4_nvme_command *command)
{
	struct g4_nvme_sgl *descriptors = (struct g4_nvme_sgl *)list;
	uint32_t count = 0;
	uint64_t bytes = 0;

	for (uint32_t i = part.first; i < io->iov_count && bytes < part.most && count < SGL_MOST; i++) {
		const uint64_t n = g4_min64(io->iov[i].bytes - part.skip, part.most - bytes);
		if (n == 0)
			continue;
		memset(&descriptors[count], 0, sizeof(descriptors[count]));
		descriptors[count].address = (uintptr_t)io->iov[i].base + part.skip + queue->shift;
		descriptors[count++].bytes = (uint32_t)n;
		bytes += n;
		part.skip = 0;
	}
	command->flags = G4_NVME_SGL;
	command->prp1 = (uintptr_t)list + queue->shift;
	command->prp2 = count * sizeof(*descriptors) | (uint64_t)G4_NVME_SGL_LAST_SEGMENT << 56;
	return bytes;
}

/* The command for what comes at `skip` bytes of the request's data. Returns how many bytes it moves. */
G4_FN static uint64_t describe_data(const struct g4_nvme_queue *queue, const struct g4_nvme_target *target,
				    const struct g4_io *io, uint64_t skip, uint8_t *list,
				    struct g4_nvme_command *command)
{
	const uint64_t lba = target->first_block + ((io->offset_bytes + skip) >> target->block_shift);
	const struct part part = part_at(queue, target, io, skip);
	uint64_t bytes = describe_pages(queue, io, part, list, command);

	if (bytes < part.most && queue->has_sgl)
		bytes = describe_vectors(queue, io, part, list, command);
	command->opcode = io->op == G4_IO_READ ? G4_NVME_READ : G4_NVME_WRITE;
	command->dword10 = (uint32_t)lba;
	command->dword11 = (uint32_t)(lba >> 32);
	command->dword12 = (uint32_t)(bytes >> target->block_shift) - 1;
	if (io->op == G4_IO_WRITE && (io->flags & G4_IO_FUA))
		command->dword12 |= G4_NVME_RW_FUA;
	return bytes;
}

/* Whether there is a granule to be discarded behind `skip` bytes. */
G4_FN static bool has_granule(const struct g4_nvme_target *target, const struct g4_io *io, uint64_t skip)
{
	uint64_t lba = target->first_block + ((io->offset_bytes + skip) >> target->block_shift);
	uint64_t blocks = (io->discard_bytes - skip) >> target->block_shift;

	g4_nvme_granules(&target->sizes, &lba, &blocks);
	return blocks > 0;
}

/* There is a granule. Returns how many bytes are done with: all where none follows. */
G4_FN static uint64_t describe_discard(const struct g4_nvme_queue *queue, const struct g4_nvme_target *target,
				       const struct g4_io *io, uint64_t skip, uint8_t *list,
				       struct g4_nvme_command *command)
{
	struct g4_nvme_range *range = (struct g4_nvme_range *)list;
	const uint64_t first = target->first_block + ((io->offset_bytes + skip) >> target->block_shift);
	uint64_t lba = first, blocks = (io->discard_bytes - skip) >> target->block_shift;

	g4_nvme_granules(&target->sizes, &lba, &blocks);
	blocks = g4_nvme_range(&target->sizes, blocks, RANGE_MOST_BLOCKS);
	range->attributes = 0;
	range->blocks = (uint32_t)blocks;
	range->lba = lba;
	command->opcode = G4_NVME_DSM;
	command->prp1 = (uintptr_t)list + queue->shift;
	command->dword11 = G4_NVME_DSM_DEALLOCATE;
	const uint64_t done = (lba + blocks - first) << target->block_shift;
	return has_granule(target, io, skip + done) ? done : io->discard_bytes - skip;
}

/* Starts what comes next. */
G4_FN static void start_next(struct g4_nvme_queue *queue, const struct g4_nvme_target *target, struct g4_io *io,
			     uint32_t number)
{
	struct g4_nvme_slot *slot = &queue->flight.slots[number];
	uint8_t *list = queue->lists + number * G4_NVME_LIST_BYTES;
	const uint64_t started = io->cookie & STARTED_MASK;

	memset(&slot->command, 0, sizeof(slot->command));
	slot->command.nsid = target->nsid;
	slot->space = target->space;
	slot->io = io;
	if (is_data(io))
		io->cookie += describe_data(queue, target, io, started, list, &slot->command);
	else if (io->op == G4_IO_DISCARD)
		io->cookie += describe_discard(queue, target, io, started, list, &slot->command);
	else /* G4_NVME_FLUSH is 0 */
		io->cookie += 1;
	g4_add32(&io->queue, 1);
	g4_nvme_flight_begin(&queue->flight, number, &slot->command);
}

/* Whether something is left to start. If not, its owner lets go of the request, which may be done then. */
G4_FN static bool has_more(struct g4_io *io)
{
	if (io->cookie & ALL_STARTED)
		return false;
	if ((io->cookie & STARTED_MASK) < bytes_of(io) && g4_load32_acq((uint32_t *)&io->result) == 0)
		return true;
	io->cookie |= ALL_STARTED;
	release(io);
	return false;
}

/* False: slots have run out. */
G4_FN static bool start_more(struct g4_nvme_queue *queue, const struct g4_nvme_target *target, struct g4_io *io)
{
	uint32_t number;

	while (has_more(io)) {
		if (!g4_slots_take(&queue->pool, g4_io_class(io), &number))
			return false;
		start_next(queue, target, io, number);
	}
	return true;
}

G4_FN void g4_nvme_start(struct g4_nvme_queue *queue, const struct g4_nvme_target *target, struct g4_io *io)
{
	io->queue = 1;
	if (io->op == G4_IO_DISCARD && !has_granule(target, io, 0))
		io->cookie += io->discard_bytes; /* nothing is left to start */
	start_more(queue, target, io);
}

G4_FN bool g4_nvme_step(struct g4_nvme_queue *queue, const struct g4_nvme_target *target, struct g4_io *io,
			struct g4_nvme_turn *turn)
{
	uint32_t number;

	if (g4_load32_acq(&io->done))
		return true;
	look(queue);
	g4_nvme_pair_help(&queue->flight.pair);
	if (g4_load32_acq(&io->done))
		return true;
	if (turn && turn->asked) {
		if (!g4_slots_got(&queue->pool, g4_io_class(io), turn->ticket, &number))
			return false;
		turn->asked = false;
		start_next(queue, target, io, number);
	}
	/* a ticket only while nothing is under way: the request cannot end meanwhile, and the slot is used */
	if (!(io->cookie & ALL_STARTED) && !start_more(queue, target, io) && turn && g4_load32_acq(&io->queue) == 1 &&
	    has_more(io)) {
		turn->ticket = g4_slots_ask(&queue->pool, g4_io_class(io));
		turn->asked = true;
	}
	return g4_load32_acq(&io->done) != 0;
}

G4_FN uint32_t g4_nvme_overdue(struct g4_nvme_queue *queue, uint64_t now_ns, uint64_t ns)
{
	uint32_t late;

	if (!g4_nvme_flight_late(&queue->flight, now_ns, ns) || !g4_slots_try_look(&queue->pool))
		return 0;
	/* nobody else looks: what is under way still is not in anybody's hands */
	late = g4_nvme_flight_late(&queue->flight, now_ns, ns);
	if (queue->flight.paused || g4_nvme_pair_is_answered(&queue->flight.pair))
		late = 0;
	g4_slots_looked(&queue->pool);
	return late;
}
