/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices, engine side: every request is checked here, requests to mapped devices are executed here, and the rest goes
 * to what the device's kind offers (dev_ops_host.h).
 *
 * A request that fails its check completes at once with the code and never reaches a device, so a damaged image that
 * leads to a wild address costs an error, not a wild access. Whatever needs a system call lies in *_host.c; in CUDA code
 * such requests complete with -G4_E_NOTSUP unless they go to an agent on the host (remote.h).
 */
#include "dev/dev.h"

#include "dev/dev_types.h"
#include "dev/remote.h"
#if !G4_CUDA
#include "dev/dev_ops_host.h"
#endif

/* ---- checks ---- */

G4_FN static int check_range(const struct g4_dev *dev, uint64_t offset, uint64_t bytes)
{
	const uint64_t size = g4_load64_rlx(&dev->props.size_bytes); /* devices grow */

	if (offset > size || bytes > size - offset)
		return -G4_E_DEV_RANGE;
	if ((offset | bytes) & (dev->props.sector_bytes - 1))
		return -G4_E_DEV_ALIGN;
	return 0;
}

G4_FN static int check_buffer(const struct g4_dev *dev, const void *base)
{
	return ((uintptr_t)base & (dev->props.sector_bytes - 1)) ? -G4_E_DEV_ALIGN : 0;
}

G4_FN static int check_vector(const struct g4_dev *dev, const struct g4_io *io)
{
	uint64_t end = io->offset_bytes;
	if (io->iov_count > G4_IO_MAX_IOV)
		return -G4_E_INVAL;
	int code = check_range(dev, end, 0);
	for (uint32_t i = 0; i < io->iov_count && code == 0; i++) {
		code = check_range(dev, end, io->iov[i].bytes);
		if (code == 0)
			code = check_buffer(dev, io->iov[i].base);
		end += io->iov[i].bytes;
	}
	return code;
}

G4_FN static int check_request(const struct g4_dev *dev, const struct g4_io *io)
{
	if ((io->flags & ~(G4_IO_FUA | G4_IO_CLASS_MASK | G4_IO_COPY_MASK | G4_IO_IN_USE)) ||
	    (io->flags & G4_IO_COPY_MASK) > G4_IO_COPY(g4_max64(dev->props.copies, 1) + dev->props.remakes - 1))
		return -G4_E_INVAL;
	if (dev->props.read_only && (io->op == G4_IO_WRITE || io->op == G4_IO_DISCARD))
		return -G4_E_DEV_READONLY;
	switch (io->op) {
	case G4_IO_READ:
	case G4_IO_WRITE:
		return check_vector(dev, io);
	case G4_IO_FLUSH:
		return 0;
	case G4_IO_CHECK:
		return check_range(dev, io->offset_bytes, io->discard_bytes);
	case G4_IO_DISCARD:
		return dev->props.discard ? check_range(dev, io->offset_bytes, io->discard_bytes) : -G4_E_NOTSUP;
	default:
		return -G4_E_INVAL;
	}
}

/* ---- the kinds of devices: everything that is not done in this file leaves it here ---- */

#if G4_CUDA
/* The queued devices that a GPU can use are those behind an agent, and nobody there can ask the host for the rest. */
G4_FN static bool kind_is_usable(const struct g4_dev *dev)
{
	return dev->remote != NULL;
}
G4_FN static void kind_submit(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *first)
{
	g4_remote_submit(wg, dev, first);
}
G4_FN static void kind_poll(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	g4_remote_poll(wg, dev, io);
}
G4_FN static void kind_wait(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	g4_remote_wait(wg, dev, io);
}
G4_FN static int kind_flush(struct g4_dev *dev)
{
	(void)dev;
	return -G4_E_NOTSUP;
}
G4_FN static int kind_persist(struct g4_dev *dev, uint64_t offset, uint64_t bytes)
{
	(void)dev;
	(void)offset;
	(void)bytes;
	return -G4_E_NOTSUP;
}
G4_FN static int kind_discard(struct g4_dev *dev, uint64_t offset, uint64_t bytes)
{
	return kind_persist(dev, offset, bytes);
}
/* One request from start to end. False: it has no faster way than submitting and waiting. */
G4_FN static bool kind_execute(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io, int *result)
{
	(void)wg;
	(void)dev;
	(void)io;
	(void)result;
	return false;
}
G4_FN static uint64_t kind_disks_at(struct g4_wg *wg, struct g4_dev *dev, uint64_t offset)
{
	return dev->remote ? g4_remote_disks_at(wg, dev, offset) : 1;
}
G4_FN static int kind_order(struct g4_wg *wg, struct g4_dev *dev, struct g4_dev_order *order)
{
	return dev->remote ? g4_remote_order(wg, dev, order) : -G4_E_NOTSUP;
}
G4_FN static int kind_layout(struct g4_wg *wg, struct g4_dev *dev, void *table, uint64_t bytes)
{
	return dev->remote ? g4_remote_layout_of(wg, dev, table, bytes) : -G4_E_NOTSUP;
}
G4_FN static int kind_grant(struct g4_wg *wg, struct g4_dev *dev, uint64_t address, uint64_t bytes, uint32_t number)
{
	return dev->remote ? g4_remote_grant(wg, dev, address, bytes, number) : -G4_E_NOTSUP;
}
G4_FN static uint32_t *kind_words(const struct g4_dev *dev)
{
	return dev->remote ? dev->remote->words : NULL;
}
#else
static bool kind_is_usable(const struct g4_dev *dev)
{
	return dev->ops->submit != NULL;
}
static void kind_submit(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *first)
{
	dev->ops->submit(wg, dev, first);
}
static void kind_poll(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	dev->ops->poll(wg, dev, io);
}
static void kind_wait(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	dev->ops->wait(wg, dev, io);
}
static int kind_flush(struct g4_dev *dev)
{
	return dev->ops->flush(dev);
}
static int kind_persist(struct g4_dev *dev, uint64_t offset, uint64_t bytes)
{
	return dev->ops->persist(dev, offset, bytes);
}
static int kind_discard(struct g4_dev *dev, uint64_t offset, uint64_t bytes)
{
	return dev->ops->discard(dev, offset, bytes);
}
static bool kind_execute(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io, int *result)
{
	if (!dev->ops->execute)
		return false;
	*result = dev->ops->execute(wg, dev, io);
	return true;
}
static uint64_t kind_disks_at(struct g4_wg *wg, struct g4_dev *dev, uint64_t offset)
{
	return dev->ops && dev->ops->disks_at ? dev->ops->disks_at(wg, dev, offset) : 1;
}
static int kind_order(struct g4_wg *wg, struct g4_dev *dev, struct g4_dev_order *order)
{
	return dev->ops && dev->ops->order ? dev->ops->order(wg, dev, order) : -G4_E_NOTSUP;
}
static int kind_layout(struct g4_wg *wg, struct g4_dev *dev, void *table, uint64_t bytes)
{
	return dev->ops && dev->ops->layout ? dev->ops->layout(wg, dev, table, bytes) : -G4_E_NOTSUP;
}
static int kind_grant(struct g4_wg *wg, struct g4_dev *dev, uint64_t address, uint64_t bytes, uint32_t number)
{
	return dev->ops && dev->ops->grant ? dev->ops->grant(wg, dev, address, bytes, number) : -G4_E_NOTSUP;
}
static uint32_t *kind_words(const struct g4_dev *dev)
{
	if (dev->remote)
		return dev->remote->words;
	return dev->ops && dev->ops->words ? dev->ops->words(dev) : NULL;
}
#endif

/* ---- mapped devices ---- */

G4_FN static bool is_durable_at_once(const struct g4_dev *dev)
{
	return dev->persist == G4_DEV_PERSIST_NEVER;
}

G4_FN static int mapped_transfer(struct g4_wg *wg, struct g4_dev *dev, const struct g4_io *io)
{
	const uint64_t bytes = g4_io_bytes(io);

	g4_io_copy(wg, io, 0, bytes, dev->map + io->offset_bytes, io->op != G4_IO_READ);
	if (io->op == G4_IO_READ || !(io->flags & G4_IO_FUA) || is_durable_at_once(dev))
		return 0;
	return kind_persist(dev, io->offset_bytes, bytes);
}

G4_FN static int mapped_execute(struct g4_wg *wg, struct g4_dev *dev, const struct g4_io *io)
{
	switch (io->op) {
	case G4_IO_FLUSH:
		return is_durable_at_once(dev) ? 0 : kind_flush(dev);
	case G4_IO_DISCARD:
		return kind_discard(dev, io->offset_bytes, io->discard_bytes);
	default:
		return mapped_transfer(wg, dev, io);
	}
}

/* ---- requests ---- */

G4_FN static void complete(struct g4_io *io, int result)
{
	io->result = result;
	g4_store32_rel(&io->done, 1);
}

G4_FN static bool is_nothing(const struct g4_dev *dev, const struct g4_io *io)
{
	return io->op == G4_IO_CHECK && dev->props.remakes == 0;
}

/* Checks a request and, on a mapped device, executes it. Returns false when it is left for the kind's queue. */
G4_FN static bool begin(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	io->result = 0;
	io->cookie = 0;
	g4_store32_rlx(&io->done, 0);
	int code = check_request(dev, io);
	if (code == 0 && is_nothing(dev, io)) {
		complete(io, 0);
		return true;
	}
	if (code == 0 && !dev->props.mapped) {
		if (kind_is_usable(dev))
			return false;
		code = -G4_E_NOTSUP;
	}
	complete(io, code == 0 ? mapped_execute(wg, dev, io) : code);
	return true;
}

G4_FN void g4_dev_submit(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *first)
{
	uint32_t left = 0;
	for (struct g4_io *io = first; io; io = io->next)
		left += !begin(wg, dev, io);
	if (left > 0)
		kind_submit(wg, dev, first);
}

G4_FN bool g4_dev_poll(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	if (g4_load32_acq(&io->done))
		return true;
	kind_poll(wg, dev, io);
	return g4_load32_acq(&io->done) != 0;
}

G4_FN int g4_dev_wait(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	if (!g4_load32_acq(&io->done))
		kind_wait(wg, dev, io);
	return io->result;
}

/* ---- one request on one buffer ---- */

G4_FN int g4_dev_execute(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	int result = check_request(dev, io);

	if (result < 0 || is_nothing(dev, io))
		return result;
	if (dev->props.mapped)
		return mapped_execute(wg, dev, io);
	if (kind_execute(wg, dev, io, &result))
		return result;
	g4_dev_submit(wg, dev, io);
	return g4_dev_wait(wg, dev, io);
}

G4_FN static int transfer(struct g4_wg *wg, struct g4_dev *dev, uint32_t op, uint32_t flags, uint64_t offset,
			  void *buffer, uint64_t bytes)
{
	struct g4_iov iov;
	iov.base = buffer;
	iov.bytes = bytes;
	struct g4_io io;
	memset(&io, 0, sizeof(io));
	io.op = op;
	io.flags = flags;
	io.offset_bytes = offset;
	io.iov = &iov;
	io.iov_count = 1;
	return g4_dev_execute(wg, dev, &io);
}

G4_FN int g4_dev_read(struct g4_wg *wg, struct g4_dev *dev, uint64_t offset, void *buffer, uint64_t bytes)
{
	return transfer(wg, dev, G4_IO_READ, 0, offset, buffer, bytes);
}

G4_FN int g4_dev_read_two(struct g4_wg *wg, struct g4_dev *dev, uint64_t first, void *to, uint64_t second,
			  void *second_to, uint64_t bytes, int *second_rc)
{
	struct g4_iov iov[2] = {{to, bytes}, {second_to, bytes}};
	struct g4_io io[2];

	memset(io, 0, sizeof(io));
	for (uint32_t k = 0; k < 2; k++) {
		io[k].op = G4_IO_READ;
		io[k].offset_bytes = k == 0 ? first : second;
		io[k].iov = &iov[k];
		io[k].iov_count = 1;
	}
	io[0].next = &io[1];
	g4_dev_submit(wg, dev, &io[0]);
	const int rc = g4_dev_wait(wg, dev, &io[0]);
	*second_rc = g4_dev_wait(wg, dev, &io[1]);
	return rc;
}

G4_FN int g4_dev_read_as(struct g4_wg *wg, struct g4_dev *dev, uint64_t offset, void *buffer, uint64_t bytes,
			 uint32_t flags)
{
	return transfer(wg, dev, G4_IO_READ, flags, offset, buffer, bytes);
}

G4_FN int g4_dev_write(struct g4_wg *wg, struct g4_dev *dev, uint64_t offset, const void *buffer, uint64_t bytes,
		       uint32_t flags)
{
	return transfer(wg, dev, G4_IO_WRITE, flags, offset, (void *)(uintptr_t)buffer, bytes);
}

G4_FN int g4_dev_flush(struct g4_wg *wg, struct g4_dev *dev)
{
	struct g4_io io;
	memset(&io, 0, sizeof(io));
	io.op = G4_IO_FLUSH;
	return g4_dev_execute(wg, dev, &io);
}

/* ---- properties ---- */

G4_FN uint64_t g4_dev_disks_at(struct g4_wg *wg, struct g4_dev *dev, uint64_t offset)
{
	return kind_disks_at(wg, dev, offset);
}

G4_FN int g4_dev_order(struct g4_wg *wg, struct g4_dev *dev, struct g4_dev_order *order)
{
	return kind_order(wg, dev, order);
}

G4_FN int g4_dev_layout(struct g4_wg *wg, struct g4_dev *dev, void *table, uint64_t bytes)
{
	return kind_layout(wg, dev, table, bytes);
}

G4_FN int g4_dev_grant(struct g4_wg *wg, struct g4_dev *dev, uint64_t address, uint64_t bytes, uint32_t number)
{
	return kind_grant(wg, dev, address, bytes, number);
}

G4_FN uint32_t *g4_dev_words(const struct g4_dev *dev)
{
	return kind_words(dev);
}

G4_FN void g4_dev_end_grant(const struct g4_dev *dev, uint32_t number)
{
	g4_store32_rel_sys(&kind_words(dev)[number], 1);
}

G4_FN void g4_io_narrow(const struct g4_io *io, uint64_t from, uint64_t bytes, struct g4_iov *parts,
			struct g4_io *narrower)
{
	uint64_t at = 0;
	uint32_t count = 0;

	for (uint32_t i = 0; i < io->iov_count && at < from + bytes; i++) {
		const struct g4_iov *part = &io->iov[i];
		const uint64_t skip = from > at ? g4_min64(from - at, part->bytes) : 0,
			       some = g4_min64(part->bytes, from + bytes - at) - skip;
		at += part->bytes;
		if (skip == part->bytes || some == 0)
			continue;
		parts[count].base = (uint8_t *)part->base + skip;
		parts[count++].bytes = some;
	}
	memset(narrower, 0, sizeof(*narrower));
	narrower->op = io->op;
	narrower->flags = io->flags;
	narrower->offset_bytes = io->offset_bytes + from;
	narrower->iov = parts;
	narrower->iov_count = count;
}

G4_FN const struct g4_dev_props *g4_dev_props(const struct g4_dev *dev)
{
	return &dev->props;
}

G4_FN bool g4_dev_may_overlap(const struct g4_dev *dev)
{
	return !dev->remote;
}

G4_FN void *g4_dev_map(struct g4_dev *dev, uint64_t offset)
{
	return dev->map && offset < dev->props.size_bytes ? dev->map + offset : NULL;
}
