/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's side of a remote device (remote.h).
 *
 * A struct g4_io becomes one or more slots: data is cut at the chunk's size, and a write that is to be durable and takes
 * several slots ends with a flush. In io->queue stands the queue (high half), and the list of its slots that are under way begins
 * there (1 + slot); io->cookie counts the bytes of data that were started; UINT64_MAX: nothing is left to start.
 *
 * Progress: a workgroup that waits for a slot holds none. The holder of one finds it finished without anybody else's
 * help: the agent or the controller finishes what is posted, and a holder that waits looks itself.
 */
#include "dev/remote.h"

#include "dev/dev_types.h"
#include "dev/nvme/lanes.h"
#include "simt/scratch.h"

#define AREA_LEAST_BYTES (32 * G4_KIB) /* data in an area is worth a request of its own from this size on */
#define AREA_MOST_BYTES (G4_MIB)       /* and cut here, so that the device has several pieces to work on */
#define OUTCOME_DONE (UINT64_C(1) << 32)
#define NO_SLOT G4_NVME_NO_SLOT
#define QUEUE_SHIFT 16u /* of g4_io.queue */
#define SLOT_MASK 0xffffu
#define FINISHED_AT_ONCE 8u
#define LOOKS 32u /* at a controller's completions, by a waiter that looks for all */

struct piece {
	uint32_t op;
	uint32_t flags;
	uint64_t within; /* offset in the data of the g4_io */
	uint64_t bytes;
	uint64_t at; /* in its area */
	uint32_t area;
};

#if !G4_CUDA
void g4_remote_init(struct g4_remote *remote, void *memory, uint32_t slots, uint64_t chunk_bytes)
{
	const struct g4_remote_layout layout = g4_remote_layout(slots, chunk_bytes);
	uint8_t *base = (uint8_t *)memory;

	memset(remote, 0, sizeof(*remote));
	remote->posted = (uint64_t *)memory;
	remote->finished = (const uint64_t *)(base + layout.finished_at);
	remote->requests = (struct g4_remote_request *)(base + layout.requests_at);
	remote->words = (uint32_t *)(base + layout.words_at);
	remote->staging = base + layout.staging_at;
	remote->chunk_bytes = chunk_bytes;
	remote->slots = slots;
	g4_slots_init(&remote->pool, slots);
	g4_mapper_init(&remote->mapper, 1);
}
#endif

/* ---- queues ---- */

G4_FN static uint32_t queue_of(const struct g4_io *io)
{
	return io->queue >> QUEUE_SHIFT;
}

G4_FN static struct g4_remote *remote_of(const struct g4_dev *dev, const struct g4_io *io)
{
	return &dev->remote[queue_of(io)];
}

/* 1 + the first of its slots; 0: nothing of it is under way. */
G4_FN static uint32_t first_slot(const struct g4_io *io)
{
	return io->queue & SLOT_MASK;
}

/* For a workgroup that has to wait for a slot: where it begins the next time. */
G4_FN static void consider_moving(const struct g4_wg *wg, const struct g4_dev *dev, uint32_t queue)
{
	struct g4_mapper *mapper = &dev->remote->mapper;
	uint32_t other;

	if (mapper->queues > 1 && g4_mapper_waited(mapper, g4_wg_index(wg), queue, &other))
		g4_mapper_move(mapper, g4_wg_index(wg), queue, g4_slots_load(&dev->remote[queue].pool), other,
			       g4_slots_load(&dev->remote[other].pool));
}

G4_FN static uint32_t await_slot(const struct g4_wg *wg, const struct g4_dev *dev, const struct g4_io *io)
{
	struct g4_slots *pool = &remote_of(dev, io)->pool;
	uint32_t slot, rests = 1;

	if (g4_slots_take(pool, g4_io_class(io), &slot))
		return slot;
	const uint32_t ticket = g4_slots_ask(pool, g4_io_class(io));
	consider_moving(wg, dev, queue_of(io));
	while (!g4_slots_got(pool, g4_io_class(io), ticket, &slot))
		g4_slots_rest(&rests);
	return slot;
}

/* ---- cutting ---- */

/* Whether an operation takes what its memory has, and whether it changes that. */
G4_FN static bool takes_data(uint32_t op)
{
	return op == G4_IO_WRITE || (g4_remote_asks(op) && op != G4_REMOTE_LAYOUT);
}

G4_FN static bool gives_data(uint32_t op)
{
	return op == G4_IO_READ || (g4_remote_asks(op) && op != G4_REMOTE_GRANT);
}

/* Whether memory lies in an area; if so, where in it. */
G4_FN static bool in_area(const struct g4_remote *r, const void *base, uint64_t bytes, uint32_t *area, uint64_t *at)
{
	uint32_t count = g4_load32_rlx(&r->area_count);

	for (uint32_t i = 1; i < count; i++) {
		uint64_t start = g4_load64_rlx(&r->areas[i].start), room = g4_load64_rlx(&r->areas[i].bytes);

		*at = (uintptr_t)base - start;
		if (*at < room && bytes <= room - *at) {
			*area = i;
			return true;
		}
	}
	return false;
}

/* Bytes of data, `most` at most, from `skip` bytes behind the first part's start up to a part that is worth a request of its own. */
G4_FN static uint64_t until_area(const struct g4_remote *r, const struct g4_iov *parts, uint32_t count, uint64_t skip,
				 uint64_t most)
{
	uint64_t bytes = parts[0].bytes - skip, at;
	uint32_t area;

	for (uint32_t k = 1; k < count && bytes < most; k++) {
		if (parts[k].bytes >= AREA_LEAST_BYTES && in_area(r, parts[k].base, parts[k].bytes, &area, &at))
			break;
		bytes += parts[k].bytes;
	}
	return g4_min64(bytes, most);
}

G4_FN static void data_piece(const struct g4_remote *r, const struct g4_io *io, uint64_t total, struct piece *piece)
{
	uint64_t skip = io->cookie;
	uint32_t i = 0;

	while (skip >= io->iov[i].bytes)
		skip -= io->iov[i++].bytes;
	uint64_t here = io->iov[i].bytes - skip;
	piece->op = io->op;
	piece->flags = io->flags & (G4_IO_COPY_MASK | G4_IO_CLASS_MASK | G4_IO_IN_USE);
	piece->within = io->cookie;
	piece->area = G4_REMOTE_STAGING;
	if (r->lanes)
		piece->bytes = g4_nvme_lanes_cut(r->lanes, io->offset_bytes + io->cookie, total - io->cookie,
						 io->op == G4_IO_WRITE);
	else
		piece->bytes = g4_min64(total - io->cookie, r->chunk_bytes);
	piece->at = 0;
	if (here >= AREA_LEAST_BYTES &&
	    in_area(r, (const uint8_t *)io->iov[i].base + skip, here, &piece->area, &piece->at))
		piece->bytes = g4_min64(here, AREA_MOST_BYTES);
	else if (!r->lanes)
		piece->bytes = until_area(r, &io->iov[i], io->iov_count - i, skip, piece->bytes);
	if (piece->bytes == total)
		piece->flags = io->flags;
}

/* What is to be started next. False: nothing, or nothing before that which is under way has ended. */
G4_FN static bool next_piece(const struct g4_remote *r, const struct g4_io *io, struct piece *piece)
{
	if (io->result < 0)
		return false;
	memset(piece, 0, sizeof(*piece));
	piece->op = io->op;
	if (!takes_data(io->op) && !gives_data(io->op)) {
		piece->bytes = io->op == G4_IO_FLUSH ? 0 : io->discard_bytes;
		if (io->op == G4_IO_DISCARD && r->lanes &&
		    !g4_nvme_lanes_discards(r->lanes, io->offset_bytes, io->discard_bytes))
			return false;
		return io->cookie == 0;
	}
	uint64_t total = g4_io_bytes(io);
	if (io->cookie < total) {
		data_piece(r, io, total, piece);
		return true;
	}
	piece->op = G4_IO_FLUSH;
	return io->cookie == total && total > 0 && (io->flags & G4_IO_FUA) && first_slot(io) == 0;
}

/* ---- moving data ---- */

G4_FN static uint8_t *chunk_of(const struct g4_remote *r, uint32_t slot)
{
	return r->staging + slot * r->chunk_bytes;
}

G4_FN static void post(struct g4_remote *r, uint32_t slot, const struct g4_remote_request *request)
{
	r->requests[slot] = *request;
	/*
	 * Before there is a number: the agent takes requests in this order, and those with later ones would wait until all that this workgroup has
	 * written to the host's memory has arrived there.
	 */
	g4_fence_rel_sys();
	const uint32_t number = g4_add32_rlx(&r->post_count, 1);
	g4_store64_fenced_sys(&r->posted[number % r->slots], g4_remote_word(number, slot));
}

G4_FN static void start(struct g4_wg *wg, struct g4_remote *r, struct g4_io *io, const struct piece *piece,
			uint32_t slot)
{
	struct g4_remote_slot *own = &r->slot[slot];
	bool data = takes_data(piece->op) || gives_data(piece->op);
	bool staged = data && piece->area == G4_REMOTE_STAGING;

	g4_store64_rlx(&own->outcome, 0);
	own->at = piece->within;
	own->bytes = staged && gives_data(piece->op) ? piece->bytes : 0;
	own->next = first_slot(io);
	io->queue += slot + 1 - own->next;
	/* started: all there is, where nothing has to follow */
	io->cookie = data && piece->bytes < g4_io_bytes(io) ? piece->within + piece->bytes : UINT64_MAX;
	if (staged && takes_data(piece->op))
		g4_io_copy(wg, io, piece->within, piece->bytes, chunk_of(r, slot), true);
	const struct g4_remote_request request = {
		.op = piece->op,
		.flags = piece->flags,
		.offset_bytes = io->offset_bytes + piece->within,
		.bytes = piece->bytes,
		.at = staged ? slot * r->chunk_bytes : piece->at,
		.area = piece->area,
	};
	if (r->lanes)
		g4_nvme_lanes_post(r->lanes, slot, &request);
	else
		post(r, slot, &request);
}

/* ---- ending ---- */

/*
 * Passes on what the agent has finished next, if it has. On a GPU the words are on their way together, for each is a trip over PCIe, behind
 * all that is written there.
 */
G4_FN static bool pass_finished(struct g4_remote *r)
{
	const uint32_t number = r->seen_count;
	uint64_t words[FINISHED_AT_ONCE];
	uint32_t count = 0;

	for (uint32_t i = 0; i < FINISHED_AT_ONCE; i++)
		words[i] = g4_load64_fenced_sys(&r->finished[(number + i) % r->slots]);
	while (count < FINISHED_AT_ONCE && g4_remote_is(words[count], number + count))
		count++;
	if (count == 0)
		return false;
	g4_fence_acq_sys();
	r->seen_count = number + count;
	g4_fence_rel();
	for (uint32_t i = 0; i < count; i++)
		g4_store64_fenced(&r->slot[((uint32_t)words[i] >> G4_REMOTE_CODE_BITS) % r->slots].outcome,
				  OUTCOME_DONE | (words[i] & G4_REMOTE_CODE_MASK));
	return true;
}

/* What has become of a slot's request: 1: it is under way; 0 or a negative code. */
G4_FN static int outcome_of(const struct g4_remote *r, uint32_t slot)
{
	int32_t code;

	if (r->lanes)
		return g4_nvme_lanes_ended(r->lanes, slot, &code) ? code : 1;
	const uint64_t outcome = g4_load64_acq(&r->slot[slot].outcome);
	return outcome ? -(int)(uint32_t)outcome : 1;
}

/*
 * Sees what has been finished since, unless somebody else is looking. It ends with the end of `own`, a slot of the caller's, or
 * NO_SLOT, and after as many rounds as there are slots: with others that post all the time there would always be more, and the one that
 * looks has a request of its own to go on with.
 */
G4_FN static void look(struct g4_remote *r, uint32_t own)
{
	bool more = true;

	if (!g4_slots_try_look(&r->pool))
		return;
	for (uint32_t round = 0; round < r->slots && more; round++) {
		more = r->lanes ? g4_nvme_lanes_take(r->lanes, own == NO_SLOT ? 1 : LOOKS, own) > 0 : pass_finished(r);
		more = more && (own == NO_SLOT || outcome_of(r, own) > 0);
	}
	g4_slots_looked(&r->pool);
}

/*
 * The same, in the queue of a request. While the host resets the controller, all its queues have to be quiet, also those that nobody
 * looks at because nothing is under way in them.
 */
G4_FN static void look_for(const struct g4_dev *dev, const struct g4_io *io, uint32_t own)
{
	struct g4_remote *r = remote_of(dev, io);

	look(r, own);
	if (!r->lanes || dev->remote->mapper.queues <= 1 || !g4_nvme_lanes_alarm(r->lanes))
		return;
	for (uint32_t i = 0; i < dev->remote->mapper.queues; i++) {
		struct g4_remote *other = &dev->remote[i];
		if (!g4_slots_try_look(&other->pool))
			continue;
		g4_nvme_lanes_attend(other->lanes);
		g4_slots_looked(&other->pool);
	}
}

/* Takes in what has ended of a request. */
G4_FN static void collect(struct g4_wg *wg, struct g4_remote *r, struct g4_io *io)
{
	uint32_t *link = &io->queue;

	while (*link & SLOT_MASK) {
		uint32_t slot = (*link & SLOT_MASK) - 1;
		struct g4_remote_slot *own = &r->slot[slot];
		const int code = outcome_of(r, slot);

		if (code > 0) {
			link = &own->next;
			continue;
		}
		if (code == 0 && own->bytes > 0)
			g4_io_copy(wg, io, own->at, own->bytes, chunk_of(r, slot), false);
		if (io->result == 0)
			io->result = code;
		*link += own->next - (slot + 1);
		g4_slots_give(&r->pool, g4_io_class(io), slot);
	}
}

G4_FN static bool ended(const struct g4_remote *r, struct g4_io *io)
{
	struct piece piece;

	if (first_slot(io) != 0 || next_piece(r, io, &piece))
		return false;
	g4_store32_rel(&io->done, 1);
	return true;
}

/* ---- requests ---- */

/* Starts what can be started at once. True when nothing is left to start. */
G4_FN static bool begin(struct g4_wg *wg, struct g4_remote *r, struct g4_io *io)
{
	struct piece piece;
	uint32_t slot;

	while (next_piece(r, io, &piece)) {
		if (!g4_slots_take(&r->pool, g4_io_class(io), &slot))
			return false;
		start(wg, r, io, &piece, slot);
	}
	ended(r, io);
	return io->cookie == UINT64_MAX || !(io->flags & G4_IO_FUA); /* else a flush follows */
}

G4_FN void g4_remote_submit(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *first)
{
	const uint32_t queues = dev->remote->mapper.queues;
	const uint32_t queue = queues > 1 ? g4_mapper_queue(&dev->remote->mapper, g4_wg_index(wg)) : 0;
	bool started = true;

	for (struct g4_io *io = first; io; io = io->next)
		io->queue = queue << QUEUE_SHIFT;
	for (struct g4_io *io = first; io && started; io = io->next)
		started = g4_load32_rlx(&io->done) || begin(wg, &dev->remote[queue], io);
}

G4_FN void g4_remote_poll(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	struct g4_remote *r = remote_of(dev, io);

	look_for(dev, io, NO_SLOT);
	collect(wg, r, io);
	if (!ended(r, io))
		begin(wg, r, io);
}

G4_FN void g4_remote_wait(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	struct g4_remote *r = remote_of(dev, io);
	uint32_t rests = 1, slot;
	struct piece piece;

	for (;;) {
		collect(wg, r, io);
		if (ended(r, io))
			return;
		if (next_piece(r, io, &piece) &&
		    (first_slot(io) == 0 || g4_slots_take(&r->pool, g4_io_class(io), &slot))) {
			if (first_slot(io) == 0)
				slot = await_slot(wg, dev, io);
			start(wg, r, io, &piece, slot);
			rests = 1;
			continue;
		}
		look_for(dev, io, first_slot(io) - 1); /* NO_SLOT where there is none */
		if (first_slot(io) == 0 || outcome_of(r, first_slot(io) - 1) > 0)
			g4_slots_rest(&rests);
	}
}

/* ---- what is asked about the disks of a set ---- */

G4_FN static int ask(struct g4_wg *wg, struct g4_dev *dev, uint32_t op, void *message, uint64_t bytes)
{
	struct g4_iov iov = {message, bytes};
	struct g4_io io;

	memset(&io, 0, sizeof(io));
	io.op = op;
	io.iov = &iov;
	io.iov_count = 1;
	g4_remote_submit(wg, dev, &io);
	if (!g4_load32_acq(&io.done))
		g4_remote_wait(wg, dev, &io);
	return io.result;
}

/* As many characters as there is room for, and the 0 behind them. False: these are not all. */
G4_FN static bool put_text(char *to, uint64_t room, const char *from)
{
	uint64_t at = 0;

	for (; at + 1 < room && from[at]; at++)
		to[at] = from[at];
	to[at] = 0;
	return from[at] == 0;
}

G4_FN int g4_remote_order(struct g4_wg *wg, struct g4_dev *dev, struct g4_dev_order *order)
{
	const uint64_t room = G4_REMOTE_ORDER_BYTES - sizeof(struct g4_remote_order);
	const bool speaks = order->name || order->text;

	if (dev->props.disks == 0)
		return -G4_E_NOTSUP;
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_remote_order *message =
		(struct g4_remote_order *)g4_scratch_take(wg, speaks ? G4_REMOTE_ORDER_BYTES : sizeof(*message));
	char *text = (char *)(message + 1);
	memset(message, 0, sizeof(*message));
	message->op = order->op;
	message->disk = order->disk;
	message->bytes = order->bytes;
	message->done = order->done;
	message->all = order->all;
	int rc = 0;
	if (speaks && !put_text(text, room, order->name ? order->name : ""))
		rc = -G4_E_NAMETOOLONG;
	if (rc == 0)
		rc = ask(wg, dev, G4_REMOTE_ORDER, message, speaks ? G4_REMOTE_ORDER_BYTES : sizeof(*message));
	if (rc == 0) {
		rc = message->result;
		order->disk = message->disk;
		order->bytes = message->bytes;
		order->done = message->done;
		order->all = message->all;
		if (order->text && order->text_bytes > 0) {
			text[room - 1] = 0;
			(void)put_text(order->text, order->text_bytes, text);
		}
	}
	g4_scratch_release(wg, mark);
	return rc;
}

G4_FN int g4_remote_layout_of(struct g4_wg *wg, struct g4_dev *dev, void *table, uint64_t bytes)
{
	if (dev->props.disks == 0 || bytes > dev->remote->chunk_bytes)
		return -G4_E_NOTSUP;
	return ask(wg, dev, G4_REMOTE_LAYOUT, table, bytes);
}

G4_FN int g4_remote_grant(struct g4_wg *wg, struct g4_dev *dev, uint64_t address, uint64_t bytes, uint32_t number)
{
	if (dev->props.disks == 0)
		return -G4_E_NOTSUP;
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_remote_order *message = (struct g4_remote_order *)g4_scratch_take(wg, sizeof(*message));
	memset(message, 0, sizeof(*message));
	message->disk = number;
	message->address = address;
	message->bytes = bytes;
	const int rc = ask(wg, dev, G4_REMOTE_GRANT, message, sizeof(*message));
	g4_scratch_release(wg, mark);
	return rc;
}

G4_FN uint64_t g4_remote_disks_at(struct g4_wg *wg, struct g4_dev *dev, uint64_t offset)
{
	if (dev->props.disks == 0)
		return 1;
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_remote_order *message = (struct g4_remote_order *)g4_scratch_take(wg, sizeof(*message));
	memset(message, 0, sizeof(*message));
	message->address = offset;
	const uint64_t disks = ask(wg, dev, G4_REMOTE_WHERE, message, sizeof(*message)) == 0 ? message->disks : 0;
	g4_scratch_release(wg, mark);
	return disks;
}
