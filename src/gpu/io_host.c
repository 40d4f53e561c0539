/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's way to devices that are not mapped (io_host.h). */
#ifdef G4_HAVE_CUDA
#define _GNU_SOURCE 1
#include "gpu/io_host.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "dev/dev_types.h"

/* ---- by an agent ---- */

static int open_agent(struct g4_gpu_io *io, struct g4_dev *dev, struct g4_dev *on_gpu)
{
	struct g4_remote *remote = malloc(sizeof(*remote));
	void *shared;
	int rc = -G4_E_NOMEM;

	io->remote = g4_gpu_alloc(io->gpu, sizeof(*remote));
	if (remote && io->remote)
		rc = g4_agent_open(dev, NULL, &io->agent);
	if (rc == 0) {
		uint64_t bytes;
		void *memory = g4_agent_memory(io->agent, &bytes);
		rc = g4_gpu_register(io->gpu, memory, bytes, &shared);
		io->agent_registered = rc == 0;
	}
	if (rc == 0) {
		g4_agent_describe(io->agent, shared, remote, (struct g4_remote *)io->remote, on_gpu);
		rc = g4_gpu_put(io->gpu, io->remote, remote, sizeof(*remote));
	}
	free(remote);
	return rc;
}

static void close_agent(struct g4_gpu_io *io)
{
	uint64_t bytes;

	if (io->agent_registered)
		g4_gpu_unregister(io->gpu, g4_agent_memory(io->agent, &bytes));
	g4_agent_close(io->agent);
	io->agent_registered = false;
	io->agent = NULL;
}

/* ---- by the kernel's own lanes ---- */

static void close_keeper(struct g4_gpu_io *io)
{
	uint64_t bytes;

	while (io->keeper_registered > 0)
		g4_gpu_unregister(io->gpu, g4_nvme_keeper_memory(io->keeper, --io->keeper_registered, &bytes));
	g4_nvme_keeper_close(io->keeper);
	io->keeper = NULL;
}

/* False: the GPU can not have all of it, or has it at another address. */
static bool share_keeper(struct g4_gpu_io *io)
{
	void *at, *shared;
	uint64_t bytes;

	do {
		at = g4_nvme_keeper_memory(io->keeper, io->keeper_registered, &bytes);
		if (g4_gpu_register(io->gpu, at, bytes, &shared) < 0)
			return false;
		io->keeper_registered++;
	} while (shared == at && io->keeper_registered < G4_NVME_KEEPER_PIECES);
	return shared == at;
}

/* -G4_E_NOTSUP: it is no controller, or the GPU can not reach it; an agent can do its requests. */
static int open_keeper(struct g4_gpu_io *io, struct g4_dev *dev, struct g4_dev *on_gpu)
{
	int rc = g4_nvme_keeper_open(dev, NULL, &io->keeper);

	if (rc < 0)
		return rc;
	if (!share_keeper(io)) {
		close_keeper(io);
		return -G4_E_NOTSUP;
	}
	/* the queues' struct g4_remote, then their lanes */
	const uint64_t lanes_at = g4_align_up(g4_nvme_keeper_queues(io->keeper) * sizeof(struct g4_remote), 128);
	const uint64_t bytes =
		g4_align_up(lanes_at + g4_nvme_keeper_queues(io->keeper) * sizeof(struct g4_nvme_lanes), 128);
	uint8_t *behind = aligned_alloc(128, bytes);
	io->remote = g4_gpu_alloc(io->gpu, bytes);
	rc = -G4_E_NOMEM;
	if (behind && io->remote) {
		g4_nvme_keeper_describe(io->keeper, (struct g4_nvme_lanes *)(behind + lanes_at),
					(struct g4_nvme_lanes *)(io->remote + lanes_at), (struct g4_remote *)behind,
					(struct g4_remote *)io->remote, on_gpu);
		rc = g4_gpu_put(io->gpu, io->remote, behind, bytes);
	}
	free(behind);
	return rc;
}

/* ---- past both: mapped disks of a set ---- */

static void forget_disks(struct g4_gpu_io *io)
{
	while (io->disk_count > 0) {
		io->disk_count--;
		g4_gpu_unregister(io->gpu, io->disks[io->disk_count].at);
		munmap(io->disks[io->disk_count].at, io->disks[io->disk_count].bytes);
	}
}

/*
 * A disk for the kernel's lanes, in a mapping of its own: the set's goes with its disk, when an order takes that out, and what is registered has to
 * stay until it is not. Private memory can not be mapped twice.
 */
static bool place_disk(struct g4_gpu_io *io, struct g4_direct *direct, uint32_t disk)
{
	uint64_t *place = &direct->table.disks[disk];
	const uint64_t bytes = direct->table.disk_bytes[disk];
	void *at = mremap((void *)(uintptr_t)*place, 0, bytes, MREMAP_MAYMOVE), *shared = NULL;

	if (at == MAP_FAILED)
		return false;
	if (g4_gpu_register(io->gpu, at, bytes, &shared) < 0) {
		munmap(at, bytes);
		return false;
	}
	io->disks[io->disk_count].at = (uint8_t *)at;
	io->disks[io->disk_count++].bytes = bytes;
	direct->shift[disk] = (uintptr_t)at - *place;
	*place = (uintptr_t)at;
	return shared == at;
}

/* The kernel's lanes have all of them at the addresses that they have here, or none. */
static void place_disks(struct g4_gpu_io *io, struct g4_direct *direct, struct g4_dev *on_gpu)
{
	const uint32_t count = g4_direct_is_open(direct) ? direct->table.disk_count : 0;
	bool placed = count > 0;

	for (uint32_t d = 0; d < count && placed; d++)
		placed = place_disk(io, direct, d);
	direct->fixed = true;
	if (placed) { /* a GPU would go on with the memory that was there before a hole */
		on_gpu->props.discard = false;
		return;
	}
	forget_disks(io);
	direct->finished = true;
	direct->open = 0;
}

/* ---- either ---- */

int g4_gpu_io_open(struct g4_gpu_io *io, struct g4_gpu *gpu, struct g4_dev *dev, struct g4_direct *direct,
		   struct g4_dev *on_gpu)
{
	io->gpu = gpu;
	int rc = open_keeper(io, dev, on_gpu);

	if (rc != -G4_E_NOTSUP)
		return rc;
	rc = open_agent(io, dev, on_gpu);
	if (rc == 0)
		place_disks(io, direct, on_gpu);
	return rc;
}

void g4_gpu_io_close(struct g4_gpu_io *io)
{
	close_keeper(io);
	close_agent(io);
	forget_disks(io);
	if (io->remote)
		g4_gpu_free(io->gpu, io->remote);
	io->remote = NULL;
}

void g4_gpu_io_rest(struct g4_gpu_io *io, bool resting)
{
	if (io->agent)
		g4_agent_rest(io->agent, resting);
	if (io->keeper)
		g4_nvme_keeper_rest(io->keeper, resting);
}

int g4_gpu_io_set_area(struct g4_gpu_io *io, uint32_t index, uint8_t *host, const void *device, uint64_t bytes)
{
	const struct g4_remote_area area = {(uintptr_t)device, bytes};
	int rc;

	if (!io->agent)
		return 0;
	if (bytes > 0)
		g4_agent_set_area(io->agent, index, host, bytes);
	rc = g4_gpu_put(io->gpu, io->remote + offsetof(struct g4_remote, areas) + index * sizeof(area), &area,
			sizeof(area));
	if (rc == 0 && index >= io->area_count) {
		io->area_count = index + 1;
		rc = g4_gpu_put(io->gpu, io->remote + offsetof(struct g4_remote, area_count), &io->area_count,
				sizeof(io->area_count));
	}
	if (bytes == 0)
		g4_agent_set_area(io->agent, index, NULL, 0);
	return rc;
}

#endif
