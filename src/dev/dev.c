/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices, engine side: every request is checked here, requests to mapped devices are executed here, and the rest goes
 * to the device's kind by a switch.
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
	if (offset > dev->props.size_bytes || bytes > dev->props.size_bytes - offset)
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
	if (io->flags & ~G4_IO_FUA)
		return -G4_E_INVAL;
	if (dev->props.read_only && (io->op == G4_IO_WRITE || io->op == G4_IO_DISCARD))
		return -G4_E_DEV_READONLY;
	switch (io->op) {
	case G4_IO_READ:
	case G4_IO_WRITE:
		return check_vector(dev, io);
	case G4_IO_FLUSH:
		return 0;
	case G4_IO_DISCARD:
		return dev->props.discard ? check_range(dev, io->offset_bytes, io->discard_bytes) : -G4_E_NOTSUP;
	default:
		return -G4_E_INVAL;
	}
}

/* ---- mapped devices ---- */

G4_FN static int mapped_flush(struct g4_dev *dev)
{
	if (dev->persist == G4_DEV_PERSIST_NEVER)
		return 0;
#if G4_CUDA
	return -G4_E_NOTSUP;
#else
	return g4_mapped_flush(dev);
#endif
}

G4_FN static int mapped_persist(struct g4_dev *dev, uint32_t flags, uint64_t offset, uint64_t bytes)
{
	if (!(flags & G4_IO_FUA) || dev->persist == G4_DEV_PERSIST_NEVER)
		return 0;
#if G4_CUDA
	(void)offset;
	(void)bytes;
	return -G4_E_NOTSUP;
#else
	return g4_mapped_persist(dev, offset, bytes);
#endif
}

G4_FN static int mapped_discard(struct g4_dev *dev, uint64_t offset, uint64_t bytes)
{
#if G4_CUDA
	(void)dev;
	(void)offset;
	(void)bytes;
	return -G4_E_NOTSUP;
#else
	return g4_mapped_discard(dev, offset, bytes);
#endif
}

G4_FN static int mapped_transfer(struct g4_wg *wg, struct g4_dev *dev, const struct g4_io *io)
{
	uint64_t at = io->offset_bytes;
	for (uint32_t i = 0; i < io->iov_count; i++) {
		const struct g4_iov *part = &io->iov[i];
		if (io->op == G4_IO_READ)
			g4_copy(wg, part->base, dev->map + at, part->bytes);
		else
			g4_copy(wg, dev->map + at, part->base, part->bytes);
		at += part->bytes;
	}
	if (io->op == G4_IO_READ)
		return 0;
	return mapped_persist(dev, io->flags, io->offset_bytes, at - io->offset_bytes);
}

G4_FN static int mapped_execute(struct g4_wg *wg, struct g4_dev *dev, const struct g4_io *io)
{
	switch (io->op) {
	case G4_IO_FLUSH:
		return mapped_flush(dev);
	case G4_IO_DISCARD:
		return mapped_discard(dev, io->offset_bytes, io->discard_bytes);
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

/* Checks a request and, on a mapped device, executes it. Returns false when it is left for the kind's queue. */
G4_FN static bool begin(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	io->result = 0;
	io->cookie = 0;
	g4_store32_rlx(&io->done, 0);
	int code = check_request(dev, io);
	if (code == 0 && !dev->props.mapped) {
#if G4_CUDA
		if (dev->kind == G4_DEV_KIND_REMOTE)
			return false;
		code = -G4_E_NOTSUP;
#else
		return false;
#endif
	}
	complete(io, code == 0 ? mapped_execute(wg, dev, io) : code);
	return true;
}

G4_FN void g4_dev_submit(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	g4_dev_submit_many(wg, dev, io, 1);
}

G4_FN void g4_dev_submit_many(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *ios, uint32_t count)
{
	uint32_t left = 0;
	for (uint32_t i = 0; i < count; i++)
		left += !begin(wg, dev, &ios[i]);
	if (left == 0)
		return;
	if (dev->kind == G4_DEV_KIND_REMOTE) {
		g4_remote_submit(wg, dev, ios, count);
		return;
	}
#if !G4_CUDA
	if (dev->kind == G4_DEV_KIND_FILE) {
		g4_queued_submit(dev, g4_wg_index(wg), ios, count);
		return;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (!g4_load32_acq(&ios[i].done))
			g4_fault_submit(dev, &ios[i]);
	}
#endif
}

G4_FN bool g4_dev_poll(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	if (g4_load32_acq(&io->done))
		return true;
	if (dev->kind == G4_DEV_KIND_REMOTE) {
		g4_remote_poll(wg, dev, io);
		return g4_load32_acq(&io->done) != 0;
	}
#if G4_CUDA
	return false;
#else
	if (dev->kind == G4_DEV_KIND_FILE)
		g4_queued_poll(dev, io);
	else
		g4_fault_poll(dev, io);
	return g4_load32_acq(&io->done) != 0;
#endif
}

G4_FN int g4_dev_wait(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	if (g4_load32_acq(&io->done))
		return io->result;
	if (dev->kind == G4_DEV_KIND_REMOTE) {
		g4_remote_wait(wg, dev, io);
		return io->result;
	}
#if G4_CUDA
	return -G4_E_NOTSUP;
#else
	if (dev->kind == G4_DEV_KIND_FILE)
		g4_queued_wait(dev, io);
	else
		g4_fault_wait(dev, io);
	return io->result;
#endif
}

/* ---- one request on one buffer ---- */

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
#if !G4_CUDA
	if (dev->kind == G4_DEV_KIND_FILE) {
		int code = check_request(dev, &io);
		return code == 0 ? g4_file_transfer(dev, op, flags, offset, &iov, 1) : code;
	}
#endif
	g4_dev_submit(wg, dev, &io);
	return g4_dev_wait(wg, dev, &io);
}

G4_FN int g4_dev_read(struct g4_wg *wg, struct g4_dev *dev, uint64_t offset, void *buffer, uint64_t bytes)
{
	return transfer(wg, dev, G4_IO_READ, 0, offset, buffer, bytes);
}

G4_FN int g4_dev_write(struct g4_wg *wg, struct g4_dev *dev, uint64_t offset, const void *buffer, uint64_t bytes,
		       uint32_t flags)
{
	return transfer(wg, dev, G4_IO_WRITE, flags, offset, (void *)(uintptr_t)buffer, bytes);
}

G4_FN int g4_dev_flush(struct g4_wg *wg, struct g4_dev *dev)
{
#if !G4_CUDA
	if (dev->kind == G4_DEV_KIND_FILE)
		return g4_file_flush(dev);
#endif
	struct g4_io io;
	memset(&io, 0, sizeof(io));
	io.op = G4_IO_FLUSH;
	g4_dev_submit(wg, dev, &io);
	return g4_dev_wait(wg, dev, &io);
}

/* ---- properties ---- */

G4_FN const struct g4_dev_props *g4_dev_props(const struct g4_dev *dev)
{
	return &dev->props;
}

G4_FN void *g4_dev_map(struct g4_dev *dev, uint64_t offset)
{
	return dev->map && offset < dev->props.size_bytes ? dev->map + offset : NULL;
}
