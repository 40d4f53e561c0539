/* SPDX-License-Identifier: Apache-2.0 */
/* Address translation for one disk: the identity. */
#include "raid/space.h"

G4_FN int g4_space_read(struct g4_wg *wg, struct g4_space *space, uint64_t address, void *to, uint64_t bytes)
{
	return g4_dev_read(wg, space->disks[0], address, to, bytes);
}

G4_FN int g4_space_write(struct g4_wg *wg, struct g4_space *space, uint64_t address, const void *from, uint64_t bytes,
			 uint32_t flags)
{
	return g4_dev_write(wg, space->disks[0], address, from, bytes, flags);
}

G4_FN int g4_space_flush(struct g4_wg *wg, struct g4_space *space)
{
	return space->volatile_cache ? g4_dev_flush(wg, space->disks[0]) : 0;
}

G4_FN bool g4_space_can_discard(const struct g4_space *space)
{
	return g4_dev_props(space->disks[0])->discard;
}

G4_FN int g4_space_discard(struct g4_wg *wg, struct g4_space *space, uint64_t address, uint64_t bytes)
{
	struct g4_io io;

	memset(&io, 0, sizeof(io));
	io.op = G4_IO_DISCARD;
	io.offset_bytes = address;
	io.discard_bytes = bytes;
	g4_dev_submit(wg, space->disks[0], &io);
	return g4_dev_wait(wg, space->disks[0], &io);
}

G4_FN int g4_space_transfer(struct g4_wg *wg, struct g4_space *space, struct g4_io *ios, uint32_t count)
{
	int first = 0;

	if (count == 1 && ios[0].iov_count == 1) {
		const struct g4_iov *iov = &ios[0].iov[0];
		if (ios[0].op == G4_IO_READ)
			return g4_space_read(wg, space, ios[0].offset_bytes, iov->base, iov->bytes);
		return g4_space_write(wg, space, ios[0].offset_bytes, iov->base, iov->bytes, ios[0].flags);
	}
	g4_dev_submit_many(wg, space->disks[0], ios, count);
	for (uint32_t i = 0; i < count; i++) {
		int rc = g4_dev_wait(wg, space->disks[0], &ios[i]);
		if (rc < 0 && first == 0)
			first = rc;
	}
	return first;
}
