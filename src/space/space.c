/* SPDX-License-Identifier: Apache-2.0 */
/* Address translation for one disk: the identity. */
#include "space/space.h"

#include "simt/scratch.h"

G4_FN void g4_space_init(struct g4_space *space, struct g4_dev *disk)
{
	memset(space, 0, sizeof(*space));
	space->disks[0] = disk;
	space->disk_count = 1;
	space->volatile_cache = g4_dev_props(disk)->volatile_cache;
}

G4_FN void g4_space_open(struct g4_wg *wg, struct g4_space *space)
{
	g4_direct_ask(wg, &space->direct, space->disks[0]);
}

G4_FN void g4_space_set_kept(struct g4_space *space, uint8_t *memory, uint64_t bytes)
{
	space->direct.kept.memory = bytes > 0 ? memory : NULL; /* else it would be what lies behind the mount's */
	space->direct.kept.memory_bytes = bytes;
}

G4_FN void g4_space_moved(struct g4_space *space, struct g4_dev *disk, intptr_t by)
{
	space->disks[0] = disk;
	if (space->direct.kept.memory)
		space->direct.kept.memory += by;
}

/* ---- properties ---- */

G4_FN uint64_t g4_space_bytes(const struct g4_space *space)
{
	return g4_dev_props(space->disks[0])->size_bytes;
}

G4_FN bool g4_space_is_mapped(const struct g4_space *space)
{
	return g4_dev_props(space->disks[0])->mapped;
}

G4_FN bool g4_space_may_overlap(const struct g4_space *space)
{
	return g4_dev_may_overlap(space->disks[0]);
}

G4_FN bool g4_space_can_discard(const struct g4_space *space)
{
	return g4_dev_props(space->disks[0])->discard;
}

G4_FN bool g4_space_takes(const struct g4_space *space, const void *memory)
{
	return ((uintptr_t)memory & (g4_dev_props(space->disks[0])->sector_bytes - 1)) == 0;
}

/* ---- where an address lies ---- */

/* The disk, and the place on it. */
G4_FN static struct g4_dev *disk_of(const struct g4_space *space, struct g4_address address, uint64_t *offset)
{
	*offset = g4_address_stored(address);
	return space->disks[0];
}

G4_FN const void *g4_space_memory(const struct g4_space *space, struct g4_address address)
{
	uint64_t offset;
	struct g4_dev *disk = disk_of(space, address, &offset);

	return g4_dev_map(disk, offset);
}

/* ---- what the second tier is told ---- */

#define EVERYTHING (UINT64_MAX / 2) /* bytes, however large the devices are and become */

/* Something may change on the device, from now on until write_end(). */
G4_FN static void write_begin(struct g4_space *space, struct g4_address address, uint64_t bytes)
{
	if (g4_tier_is_used(&space->tier))
		g4_tier_write_begin(&space->tier, g4_address_page(address), g4_pages_for(bytes));
}

G4_FN static void write_end(struct g4_space *space, struct g4_address address, uint64_t bytes)
{
	if (g4_tier_is_used(&space->tier))
		g4_tier_write_end(&space->tier, g4_address_page(address), g4_pages_for(bytes));
}

G4_FN void g4_space_distrust(struct g4_space *space, struct g4_address address, uint64_t bytes)
{
	write_begin(space, address, bytes);
	write_end(space, address, bytes);
}

/* ---- at once ---- */

/* A request that is not begun. True: it is done, without an error. */
G4_FN static bool do_directly(struct g4_wg *wg, struct g4_space *space, const struct g4_io *io)
{
	return g4_direct_is_open(&space->direct) && g4_direct_do(wg, &space->direct, space->disks[0], io);
}

/* Before the device is asked for a range, or to do something with it. */
G4_FN static int settle(struct g4_wg *wg, struct g4_space *space, uint64_t address, uint64_t bytes)
{
	return g4_direct_settle(wg, &space->direct, space->disks[0], address, bytes);
}

/* One on one buffer, from start to end. */
G4_FN static int execute(struct g4_wg *wg, struct g4_space *space, uint32_t op, struct g4_address address, void *memory,
			 uint64_t bytes, uint32_t flags)
{
	struct g4_iov iov = {memory, bytes};
	struct g4_io io;

	memset(&io, 0, sizeof(io));
	io.op = op;
	io.flags = flags;
	io.iov = &iov;
	io.iov_count = 1;
	struct g4_dev *disk = disk_of(space, address, &io.offset_bytes);
	if (do_directly(wg, space, &io))
		return 0;
	const int rc = settle(wg, space, io.offset_bytes, bytes);
	return rc < 0 ? rc : g4_dev_execute(wg, disk, &io);
}

G4_FN static int read_as(struct g4_wg *wg, struct g4_space *space, struct g4_address address, void *to, uint64_t bytes,
			 uint32_t flags)
{
	return execute(wg, space, G4_IO_READ, address, to, bytes, flags);
}

G4_FN int g4_space_read(struct g4_wg *wg, struct g4_space *space, struct g4_address address, void *to, uint64_t bytes)
{
	return read_as(wg, space, address, to, bytes, 0);
}

G4_FN int g4_space_write(struct g4_wg *wg, struct g4_space *space, struct g4_address address, const void *from,
			 uint64_t bytes, uint32_t flags)
{
	write_begin(space, address, bytes);
	const int rc = execute(wg, space, G4_IO_WRITE, address, (void *)(uintptr_t)from, bytes, flags);
	write_end(space, address, bytes);
	if (g4_address_stored(address) == G4_SUPERBLOCK_ADDRESS &&
	    g4_direct_is_open(&space->direct)) /* the second one may be elsewhere now */
		g4_space_open(wg, space);
	return rc;
}

/* ---- copies ---- */

G4_FN uint32_t g4_space_copies(const struct g4_space *space)
{
	return (uint32_t)g4_max64(g4_dev_props(space->disks[0])->copies, 1);
}

G4_FN uint32_t g4_space_versions(const struct g4_space *space)
{
	return g4_space_copies(space) + g4_dev_props(space->disks[0])->remakes;
}

G4_FN static int transfer_copy(struct g4_wg *wg, struct g4_space *space, uint32_t op, uint32_t copy,
			       struct g4_address address, void *memory, uint64_t bytes, uint32_t flags)
{
	struct g4_iov iov = {memory, bytes};
	struct g4_io io;

	memset(&io, 0, sizeof(io));
	io.op = op;
	io.flags = flags | G4_IO_COPY(copy);
	io.iov = &iov;
	io.iov_count = 1;
	struct g4_dev *disk = disk_of(space, address, &io.offset_bytes);
	int rc = settle(wg, space, io.offset_bytes, bytes);
	if (rc < 0)
		return rc;
	if (op == G4_IO_WRITE)
		write_begin(space, address, bytes);
	g4_dev_submit(wg, disk, &io);
	rc = g4_dev_wait(wg, disk, &io);
	if (op == G4_IO_WRITE)
		write_end(space, address, bytes);
	return rc;
}

G4_FN int g4_space_read_copy_as(struct g4_wg *wg, struct g4_space *space, uint32_t copy, struct g4_address address,
				void *to, uint64_t bytes, uint32_t flags)
{
	if (g4_space_copies(space) == 1)
		return read_as(wg, space, address, to, bytes, flags);
	return transfer_copy(wg, space, G4_IO_READ, copy, address, to, bytes, flags);
}

G4_FN int g4_space_read_copy(struct g4_wg *wg, struct g4_space *space, uint32_t copy, struct g4_address address,
			     void *to, uint64_t bytes)
{
	return g4_space_read_copy_as(wg, space, copy, address, to, bytes, 0);
}

/* One page in one copy. Whether it was not the same, and is now. */
G4_FN static bool mend_page(struct g4_wg *wg, struct g4_space *space, uint32_t copy, struct g4_address address,
			    void *good, void *buffer)
{
	const int rc = transfer_copy(wg, space, G4_IO_READ, copy, address, buffer, G4_PAGE_BYTES, 0);

	if (rc == -G4_E_NOENT || (rc == 0 && g4_bytes_equal(buffer, good, G4_PAGE_BYTES)))
		return false;
	return transfer_copy(wg, space, G4_IO_WRITE, copy, address, good, G4_PAGE_BYTES, 0) == 0;
}

G4_FN uint64_t g4_space_mend(struct g4_wg *wg, struct g4_space *space, struct g4_address address, const void *good,
			     uint64_t bytes)
{
	const uint32_t copies = g4_space_copies(space), mark = g4_scratch_mark(wg);
	uint8_t *buffer = g4_scratch_take_page(wg);
	uint64_t mended = 0;

	for (uint64_t at = 0; at < bytes; at += G4_PAGE_BYTES)
		for (uint32_t copy = 0; copy < copies; copy++)
			mended += mend_page(wg, space, copy, g4_address_after(address, at),
					    (uint8_t *)(uintptr_t)good + at, buffer);
	g4_scratch_release(wg, mark);
	g4_add64_rlx(&space->mended, mended);
	return mended;
}

G4_FN uint32_t g4_space_disks(const struct g4_space *space)
{
	/* jobs change it while others ask */
	return (uint32_t)g4_max64(g4_load32_acq(&g4_dev_props(space->disks[0])->disks), 1);
}

G4_FN uint64_t g4_space_blame(struct g4_wg *wg, struct g4_space *space, struct g4_address address)
{
	uint64_t offset;
	struct g4_dev *disk = disk_of(space, address, &offset);
	const uint64_t disks = offset < g4_dev_props(disk)->size_bytes ?
				       g4_dev_disks_at(wg, disk, g4_align_down(offset, G4_PAGE_BYTES)) :
				       0;

	for (uint32_t d = 0; d < g4_space_disks(space); d++)
		if (disks >> d & 1)
			g4_add64_rlx(&space->damaged[d], 1);
	return disks;
}

enum effect { EFFECT_NONE, EFFECT_NOTES, EFFECT_CHANGES };

/* What an order does to the disks: nothing; it notes who writes to them from then on; or which there are, or what lies where, is another. */
G4_FN static enum effect effect_of(uint32_t op)
{
	switch (op) {
	case G4_ORDER_ASK:
	case G4_ORDER_NAME:
	case G4_ORDER_CHUNK:
	case G4_ORDER_SPREAD:
	case G4_ORDER_SPREAD_USE:
	case G4_ORDER_LEAVE_CHUNK:
	case G4_ORDER_LEAVE_USE:
	case G4_ORDER_ROWS_ASK:
	case G4_ORDER_ROWS_NEXT:
	case G4_ORDER_ROWS_TELL:
	case G4_ORDER_ROWS_CUT:
		return EFFECT_NONE;
	case G4_ORDER_NEXT:
	case G4_ORDER_TAKE:
	case G4_ORDER_SPREAD_NEXT:
	case G4_ORDER_SPREAD_LEND:
	case G4_ORDER_SPREAD_BACK:
	case G4_ORDER_LEAVE:
	case G4_ORDER_LEAVE_NEXT:
		return EFFECT_NOTES;
	default:
		return EFFECT_CHANGES;
	}
}

/* While a disk is rebuilt the gate is closed to requests, and these change nothing that its table says, unless they end that. */
G4_FN static bool is_step(uint32_t op)
{
	return op == G4_ORDER_NEXT || op == G4_ORDER_SKIP || op == G4_ORDER_STEP || op == G4_ORDER_TAKE ||
	       op == G4_ORDER_MADE;
}

/*
 * A disk is relieved that has failed, and those who are on the way past the set read others, which stay as they are: it is in no table then, for where it failed
 * under them they get another one before. Nor does anybody make one then, for who relieves has the turn of jobs.
 */
G4_FN static int give(struct g4_wg *wg, struct g4_space *space, struct g4_dev_order *order, bool alone)
{
	struct g4_direct *direct = &space->direct;
	struct g4_dev *dev = space->disks[0];
	const bool step = is_step(order->op);

	int rc = 0;

	if (step)
		g4_direct_begin_step(direct);
	else if (alone)
		rc = g4_direct_begin_order(wg, direct, dev);
	if (rc < 0)
		return rc;
	rc = g4_dev_order(wg, dev, order);
	if (order->op == G4_ORDER_RELIEVE && rc == -G4_E_AGAIN) {
		g4_direct_ask(wg, direct, dev);
		rc = g4_dev_order(wg, dev, order);
	}
	/* what stood in the way of the table when the rebuild began may be over */
	const bool again = order->op == G4_ORDER_NEXT && !g4_direct_is_open(direct) && !g4_direct_makes(direct);
	if (step)
		g4_direct_end_step(wg, direct, dev, rc != 0 || again);
	else if (alone)
		g4_direct_end_order(wg, direct, dev);
	else if (order->op == G4_ORDER_RELIEVE && rc == 0)
		g4_direct_ask(wg, direct, dev);
	return rc;
}

G4_FN int g4_space_order(struct g4_wg *wg, struct g4_space *space, struct g4_dev_order *order)
{
	const enum effect effect = effect_of(order->op);
	const bool alone = effect != EFFECT_NONE && order->op != G4_ORDER_RELIEVE;

	if (effect ==
	    EFFECT_CHANGES) /* what is there stays the same, but from which disks it comes, and with which errors */
		write_begin(space, G4_NO_ADDRESS, EVERYTHING);
	const int rc = give(wg, space, order, alone);
	if (effect == EFFECT_CHANGES)
		write_end(space, G4_NO_ADDRESS, EVERYTHING);
	return rc;
}

G4_FN int g4_space_flush(struct g4_wg *wg, struct g4_space *space)
{
	const int rc = settle(wg, space, 0, UINT64_MAX);

	return rc == 0 && space->volatile_cache ? g4_dev_flush(wg, space->disks[0]) : rc;
}

/* A request of a range without memory. */
G4_FN static int do_range(struct g4_wg *wg, struct g4_space *space, uint32_t op, struct g4_address address,
			  uint64_t bytes)
{
	struct g4_io io;

	memset(&io, 0, sizeof(io));
	io.op = op;
	io.discard_bytes = bytes;
	struct g4_dev *disk = disk_of(space, address, &io.offset_bytes);
	int rc = settle(wg, space, io.offset_bytes, bytes);
	if (rc < 0)
		return rc;
	write_begin(space, address, bytes); /* a check writes what it finds wrong */
	g4_dev_submit(wg, disk, &io);
	rc = g4_dev_wait(wg, disk, &io);
	write_end(space, address, bytes);
	return rc;
}

G4_FN int g4_space_discard(struct g4_wg *wg, struct g4_space *space, struct g4_address address, uint64_t bytes)
{
	return do_range(wg, space, G4_IO_DISCARD, address, bytes);
}

G4_FN int g4_space_check(struct g4_wg *wg, struct g4_space *space, struct g4_address address, uint64_t bytes)
{
	return do_range(wg, space, G4_IO_CHECK, address, bytes);
}

/* ---- submit and collect ---- */

G4_FN void g4_space_submit(struct g4_wg *wg, struct g4_space *space, struct g4_space_io *requests, uint32_t count)
{
	struct g4_dev *disk = NULL;
	struct g4_io *first = NULL, **link = &first;

	for (uint32_t i = 0; i < count; i++) {
		struct g4_io *io = &requests[i].io;
		disk = disk_of(space, requests[i].address, &io->offset_bytes);
		io->next = NULL;
		if (io->op == G4_IO_WRITE)
			write_begin(space, requests[i].address, g4_io_bytes(io));
		if (do_directly(wg, space, io)) {
			io->result = 0;
			g4_store32_rel(&io->done, 1);
			continue;
		}
		const int rc = settle(wg, space, io->offset_bytes, g4_io_bytes(io));
		if (rc < 0) {
			io->result = rc;
			g4_store32_rel(&io->done, 1);
			continue;
		}
		*link = io;
		link = &io->next;
	}
	if (first)
		g4_dev_submit(wg, disk, first);
}

G4_FN int g4_space_collect(struct g4_wg *wg, struct g4_space *space, struct g4_space_io *requests, uint32_t count)
{
	int first = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t offset;
		int rc = g4_dev_wait(wg, disk_of(space, requests[i].address, &offset), &requests[i].io);

		if (requests[i].io.op == G4_IO_WRITE)
			write_end(space, requests[i].address, g4_io_bytes(&requests[i].io));
		if (rc < 0 && first == 0)
			first = rc;
	}
	return first;
}

G4_FN int g4_space_transfer(struct g4_wg *wg, struct g4_space *space, struct g4_space_io *requests, uint32_t count)
{
	const struct g4_io *io = &requests[0].io;

	/* a file's device does one piece with one system call */
	if (count == 1 && io->iov_count == 1 && !(io->flags & G4_IO_COPY_MASK)) {
		const struct g4_iov *part = &io->iov[0];
		if (io->op == G4_IO_READ)
			return read_as(wg, space, requests[0].address, part->base, part->bytes, io->flags);
		return g4_space_write(wg, space, requests[0].address, part->base, part->bytes, io->flags);
	}
	g4_space_submit(wg, space, requests, count);
	return g4_space_collect(wg, space, requests, count);
}

/* ---- stripes of several workgroups ---- */

G4_FN bool g4_space_take_stripes(struct g4_wg *wg, struct g4_space *space, struct g4_address address, uint64_t bytes,
				 uint64_t most, bool in_use, struct g4_direct_grant *grant)
{
	uint64_t offset;
	struct g4_dev *disk = disk_of(space, address, &offset);

	if (!g4_direct_take(wg, &space->direct, disk, offset, bytes, most, in_use, grant))
		return false;
	write_begin(space, g4_address_from(grant->address), grant->bytes);
	return true;
}

G4_FN void g4_space_write_stripes(struct g4_wg *wg, struct g4_space *space, struct g4_address address,
				  struct g4_iov *iov, uint32_t iov_count)
{
	struct g4_space_io request;

	g4_space_io_init(&request, G4_IO_WRITE, address, iov, iov_count);
	disk_of(space, address, &request.io.offset_bytes);
	g4_direct_write(wg, &space->direct, &request.io);
}

G4_FN bool g4_space_write_part(struct g4_wg *wg, struct g4_space *space, struct g4_direct_grant *grant, uint32_t which,
			       struct g4_iov *iov, uint32_t iov_count)
{
	const struct g4_address address = g4_address_from(grant->parts[which].address);
	const uint64_t bytes = grant->parts[which].bytes;
	struct g4_space_io request;

	g4_space_io_init(&request, G4_IO_WRITE, address, iov, iov_count);
	disk_of(space, address, &request.io.offset_bytes);
	write_begin(space, address, bytes);
	const bool done = g4_direct_write_part(wg, &space->direct, grant, which, &request.io);
	write_end(space, address, bytes);
	return done;
}

G4_FN void g4_space_end_stripes(struct g4_space *space, const struct g4_direct_grant *grant)
{
	write_end(space, g4_address_from(grant->address), grant->bytes);
	g4_direct_end(&space->direct, space->disks[0], grant);
}

/* ---- through the second tier ---- */

/* The pages of a request that may be in the tier; 0: it is none of those. */
G4_FN static uint64_t pages_for_tier(const struct g4_space_io *request)
{
	uint64_t pages = 0;

	for (uint32_t part = 0; part < request->io.iov_count; part++) {
		if (request->io.iov[part].bytes % G4_PAGE_BYTES != 0)
			return 0;
		pages += request->io.iov[part].bytes / G4_PAGE_BYTES;
	}
	return pages <= G4_TIER_MOST_PAGES && g4_address_starts_page(request->address) ? pages : 0;
}

/* Pages from..to of a request, as one of its own with `parts` for room. */
G4_FN static void narrow(const struct g4_space_io *request, uint64_t from, uint64_t to, struct g4_iov *parts,
			 struct g4_space_io *narrower)
{
	const uint64_t first = from * G4_PAGE_BYTES;

	g4_io_narrow(&request->io, first, (to - from) * G4_PAGE_BYTES, parts, &narrower->io);
	narrower->address = g4_address_after(request->address, first);
}

/* The request's pages with what lies beside them. False: it is not wanted, or could not be read. */
G4_FN static bool fetch_block(struct g4_wg *wg, struct g4_space *space, const struct g4_space_io *request,
			      uint64_t pages)
{
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_tier_fill *fill = (struct g4_tier_fill *)g4_scratch_take(wg, sizeof(*fill));
	bool read = false;

	if (g4_tier_begin(&space->tier, g4_address_page(request->address), pages, request->io.iov,
			  request->io.iov_count, g4_space_bytes(space) / G4_PAGE_BYTES, fill)) {
		struct g4_space_io wider;
		g4_space_io_init(&wider, G4_IO_READ, g4_page_address(fill->page), fill->parts, fill->part_count);
		wider.io.flags = request->io.flags;
		read = g4_space_transfer(wg, space, &wider, 1) == 0;
		g4_tier_filled(&space->tier, fill, read);
	}
	g4_scratch_release(wg, mark);
	return read;
}

/* What the tier has of it, and the rest from the device. */
G4_FN static int fetch_through_tier(struct g4_wg *wg, struct g4_space *space, struct g4_space_io *request,
				    uint64_t pages, bool small)
{
	uint64_t from, to;

	if (g4_tier_read(wg, &space->tier, g4_address_page(request->address), pages, request->io.iov,
			 request->io.iov_count, &from, &to))
		return 0;
	if (to - from == pages)
		return small && fetch_block(wg, space, request, pages) ? 0 : g4_space_transfer(wg, space, request, 1);
	const uint32_t mark = g4_scratch_mark(wg);
	struct g4_iov *parts = (struct g4_iov *)g4_scratch_take(wg, (to - from) * sizeof(*parts));
	struct g4_space_io rest;
	narrow(request, from, to, parts, &rest);
	const int rc = small && fetch_block(wg, space, &rest, to - from) ? 0 : g4_space_transfer(wg, space, &rest, 1);
	g4_scratch_release(wg, mark);
	return rc;
}

G4_FN int g4_space_fetch(struct g4_wg *wg, struct g4_space *space, struct g4_space_io *requests, uint32_t count,
			 bool small)
{
	const uint64_t pages = g4_tier_is_used(&space->tier) && count == 1 ? pages_for_tier(&requests[0]) : 0;

	return pages > 0 ? fetch_through_tier(wg, space, &requests[0], pages, small) :
			   g4_space_transfer(wg, space, requests, count);
}

G4_FN int g4_space_fetch_page(struct g4_wg *wg, struct g4_space *space, struct g4_address address, void *to, bool small)
{
	struct g4_iov iov = {to, G4_PAGE_BYTES};
	struct g4_space_io request;
	const uint64_t version = g4_tier_version(&space->tier, g4_address_page(address));

	g4_space_io_init(&request, G4_IO_READ, address, &iov, 1);
	request.io.flags = G4_IO_CLASS(G4_CLASS_METADATA);
	const int rc = g4_space_fetch(wg, space, &request, 1, small);
	if (rc == 0)
		g4_tier_put(wg, &space->tier, g4_address_page(address), version, to);
	return rc;
}
