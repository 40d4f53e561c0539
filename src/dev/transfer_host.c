/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Synchronous requests on host files: the fast path of a single access, and the only path where io_uring is not
 * available. Short transfers are continued until the request is complete; durability is that of dev.h: RWF_DSYNC for
 * FUA, fdatasync for FLUSH.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "dev/dev_ops_host.h"

G4_STATIC_ASSERT(sizeof(struct g4_iov) == sizeof(struct iovec) &&
			 offsetof(struct g4_iov, base) == offsetof(struct iovec, iov_base) &&
			 offsetof(struct g4_iov, bytes) == offsetof(struct iovec, iov_len),
		 "the kernel takes our vectors as they are");

bool g4_iov_next(const struct g4_iov *iov, uint32_t iov_count, uint64_t done_bytes, struct g4_iov_part *part)
{
	uint32_t index = 0;
	while (index < iov_count && done_bytes >= iov[index].bytes)
		done_bytes -= iov[index++].bytes;
	if (index == iov_count)
		return false;
	part->index = index;
	part->within_bytes = done_bytes;
	part->count = done_bytes ? 1 : (uint32_t)g4_min64(iov_count - index, IOV_MAX);
	return true;
}

static ssize_t transfer_part(int fd, uint32_t op, int rw_flags, uint64_t offset, const struct g4_iov *iov,
			     const struct g4_iov_part *part)
{
	struct iovec rest = {.iov_base = (char *)iov[part->index].base + part->within_bytes,
			     .iov_len = iov[part->index].bytes - part->within_bytes};
	const struct iovec *vector = part->within_bytes ? &rest : (const struct iovec *)&iov[part->index];
	if (op == G4_IO_READ)
		return preadv2(fd, vector, (int)part->count, (off_t)offset, rw_flags);
	return pwritev2(fd, vector, (int)part->count, (off_t)offset, rw_flags);
}

static int transfer(const struct g4_dev *dev, const struct g4_io *io)
{
	const struct g4_file *file = dev->host;
	int rw_flags = io->op == G4_IO_WRITE && (io->flags & G4_IO_FUA) ? RWF_DSYNC : 0;
	struct g4_iov_part part;
	uint64_t done = 0;
	while (g4_iov_next(io->iov, io->iov_count, done, &part)) {
		ssize_t moved = transfer_part(file->fd, io->op, rw_flags, io->offset_bytes + done, io->iov, &part);
		if (moved < 0 && errno == EINTR)
			continue;
		if (moved < 0)
			return g4_dev_code(errno);
		/* O_DIRECT continues at whole sectors only. No progress: the file has become shorter. */
		uint64_t sectors = g4_align_down((uint64_t)moved, dev->props.sector_bytes);
		if (sectors == 0)
			return -G4_E_IO;
		done += sectors;
	}
	return 0;
}

static int flush(const struct g4_file *file)
{
	int result;
	do {
		result = fdatasync(file->fd);
	} while (result != 0 && errno == EINTR);
	return result == 0 ? 0 : g4_dev_code(errno);
}

int g4_file_discard(const struct g4_file *file, uint64_t offset, uint64_t bytes)
{
	uint64_t range[2] = {offset, bytes};
	int result;
	if (bytes == 0)
		return 0;
	do {
		if (file->block_device)
			result = ioctl(file->fd, BLKDISCARD, range);
		else
			result = fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
					   (off_t)bytes);
	} while (result != 0 && errno == EINTR);
	return result == 0 ? 0 : g4_dev_code(errno);
}

int g4_file_execute(struct g4_wg *wg, struct g4_dev *dev, struct g4_io *io)
{
	(void)wg;
	switch (io->op) {
	case G4_IO_FLUSH:
		return flush((const struct g4_file *)dev->host);
	case G4_IO_DISCARD:
		return g4_file_discard((const struct g4_file *)dev->host, io->offset_bytes, io->discard_bytes);
	default:
		return transfer(dev, io);
	}
}
