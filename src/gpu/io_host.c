/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's way to devices that are not mapped (io_host.h). */
#ifdef G4_HAVE_CUDA
#define _GNU_SOURCE 1
#include "gpu/io_host.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/log_host.h"
#include "base/memory_host.h"
#include "dev/dev_types.h"
#include "dev/nvme/device_host.h"
#include "dev/nvme/place_host.h"

#define WHY_BYTES 512u /* with what CUDA says */
#define TRY_NS UINT64_C(10000000000)
#define UNREAD 0xa5

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

static void unshare_keeper(struct g4_gpu_io *io)
{
	uint64_t bytes;
	bool is_io;

	while (io->keeper_registered > 0)
		g4_gpu_unregister(io->gpu, g4_nvme_keeper_memory(io->keeper, --io->keeper_registered, &bytes, &is_io));
}

static void close_keeper(struct g4_gpu_io *io)
{
	unshare_keeper(io);
	g4_nvme_keeper_close(io->keeper);
	io->keeper = NULL;
}

/* -G4_E_NOTSUP: the GPU can not have all of it, or has it at another address. */
static int share_keeper(struct g4_gpu_io *io, struct g4_dev_message why)
{
	while (io->keeper_registered < G4_NVME_KEEPER_PIECES) {
		uint64_t bytes;
		void *shared;
		bool is_io;
		void *at = g4_nvme_keeper_memory(io->keeper, io->keeper_registered, &bytes, &is_io);
		const char *what = is_io ? "registers" : "queues and memory for data";
		const int rc = is_io ? g4_gpu_register_io(io->gpu, at, bytes, &shared) :
				       g4_gpu_register(io->gpu, at, bytes, &shared);

		if (rc < 0)
			return g4_dev_fail(why, -G4_E_NOTSUP, "CUDA does not take its %s (%s)", what, g4_gpu_error());
		io->keeper_registered++;
		if (shared != at)
			return g4_dev_fail(why, -G4_E_NOTSUP, "CUDA has its %s at another address than the host", what);
	}
	return 0;
}

/* The GPU has nothing of it any more; a command that it has begun may still write to the memory. */
static void abandon_keeper(struct g4_gpu_io *io)
{
	unshare_keeper(io);
	g4_nvme_keeper_abandon(io->keeper);
	g4_gpu_free(io->gpu, io->remote);
	io->remote = NULL;
}

/* Whether what lanes read is what the host reads. */
static int compare_chunks(struct g4_dev *dev, const struct g4_nvme_lanes *lanes, uint32_t count,
			  struct g4_dev_message why)
{
	const uint64_t bytes = g4_nvme_lanes_try_bytes(lanes);
	uint8_t *expected = aligned_alloc(G4_PAGE_BYTES, g4_align_up(bytes, G4_PAGE_BYTES));
	int rc = expected ? g4_dev_read(NULL, dev, 0, expected, bytes) : -G4_E_NOMEM;

	for (uint32_t i = 0; i < count && rc == 0; i++)
		if (memcmp(lanes[i].staging, expected, bytes) != 0)
			rc = g4_dev_fail(why, -G4_E_NOTSUP,
					 "what it reads for the GPU, by queue %u, is not what it reads for the host",
					 i);
	free(expected);
	return rc;
}

/*
 * A read by each queue, which a drive that the GPU's doorbells do not reach leaves without an answer: it would be late under a mount that relies on
 * it. `lanes` as the host has them.
 */
static int try_queues(struct g4_gpu_io *io, struct g4_dev *dev, const struct g4_nvme_lanes *lanes,
		      struct g4_nvme_lanes *on_gpu, struct g4_dev_message why)
{
	const uint32_t count = g4_nvme_keeper_queues(io->keeper);

	for (uint32_t i = 0; i < count; i++)
		memset(lanes[i].staging, UNREAD, g4_nvme_lanes_try_bytes(lanes));
	g4_nvme_keeper_rest(io->keeper, false);
	const int rc = g4_gpu_try_lanes(io->gpu, on_gpu, count, TRY_NS);
	if (rc == -G4_E_AGAIN)
		return g4_dev_fail(
			why, -G4_E_NOTSUP,
			"a read that the GPU began had no answer: its doorbells do not reach the drive, or the "
			"drive's completions not the GPU");
	if (rc < 0)
		return g4_dev_fail(why, -G4_E_NOTSUP, "a read by the GPU failed: %s (%s)", g4_strerror(rc),
				   g4_gpu_error());
	return compare_chunks(dev, lanes, count, why);
}

/* What stands in the way of a drive and the GPU, before anything is tried. */
static void say_place(const struct g4_dev *dev)
{
	const char *address = g4_nvme_address_of(dev);
	struct g4_gpu_description gpu = {0};

	if (address && g4_gpu_describe(&gpu))
		g4_place_say("", g4_dev_name(dev), address, gpu.bus_id, g4_place_locked_bytes());
}

/* -G4_E_NOTSUP, and why: it is no controller, or the GPU can not reach it; an agent can do its requests. */
static int open_keeper(struct g4_gpu_io *io, struct g4_dev *dev, struct g4_dev *on_gpu, struct g4_dev_message why)
{
	int rc = g4_nvme_keeper_open(dev, NULL, &io->keeper, why);

	if (rc < 0)
		return rc;
	rc = share_keeper(io, why);
	if (rc < 0) {
		close_keeper(io);
		return rc;
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
	if (rc == 0) {
		rc = try_queues(io, dev, (struct g4_nvme_lanes *)(behind + lanes_at),
				(struct g4_nvme_lanes *)(io->remote + lanes_at), why);
		if (rc < 0)
			abandon_keeper(io);
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
static bool add_disk(struct g4_gpu_io *io, uint64_t map, uint64_t bytes, uint64_t opened)
{
	void *at, *shared = NULL;

	if (io->disk_count == G4_GPU_IO_DISKS)
		return false;
	at = mremap((void *)(uintptr_t)map, 0, bytes, MREMAP_MAYMOVE);
	if (at == MAP_FAILED)
		return false;
	g4_memory_populate(at, bytes);
	if (g4_gpu_register(io->gpu, at, bytes, &shared) < 0) {
		munmap(at, bytes);
		return false;
	}
	io->disks[io->disk_count].at = (uint8_t *)at;
	io->disks[io->disk_count].opened = opened;
	io->disks[io->disk_count++].bytes = bytes;
	return shared == at;
}

/* The same, unless it is there already. */
static bool place_disk(struct g4_gpu_io *io, struct g4_direct_table *table, uint32_t disk)
{
	uint32_t n = 0;

	while (n < io->disk_count &&
	       (io->disks[n].opened != table->opened[disk] || io->disks[n].bytes != table->disk_bytes[disk]))
		n++;
	if (n == io->disk_count && !add_disk(io, table->disks[disk], table->disk_bytes[disk], table->opened[disk]))
		return false;
	table->disks[disk] = (uintptr_t)io->disks[n].at;
	return true;
}

/* The kernel's lanes have all of them at the addresses that the table says then, or the table is of no use. */
static int place_disks(void *context, void *memory, uint64_t bytes)
{
	struct g4_gpu_io *io = (struct g4_gpu_io *)context;
	struct g4_direct_table *table = (struct g4_direct_table *)memory;

	if (bytes < sizeof(*table))
		return -G4_E_INVAL;
	bool placed = true;
	for (uint32_t d = 0; d < table->disk_count && placed; d++) {
		if (table->disks[d] == 0)
			continue;
		placed = table->opened[d] != io->refused;
		if (placed && !place_disk(io, table, d)) {
			placed = false;
			io->refused = table->opened[d];
			g4_log(G4_LOG_WARN,
			       "the GPU can not use disk %u by itself; requests to the set go through the host", d);
		}
	}
	return placed ? 0 : -G4_E_NOTSUP;
}

/*
 * At the mount: then that they are to be had is known, and so is that nobody discards, for a GPU would go on with the memory that was there before a
 * hole. Disks that come later are placed by the agent, when the table is asked for.
 */
static void place_first(struct g4_gpu_io *io, struct g4_direct *direct, struct g4_dev *on_gpu)
{
	if ((g4_direct_is_open(direct) || g4_direct_makes(direct)) &&
	    place_disks(io, &direct->table, sizeof(direct->table)) == 0) {
		on_gpu->props.discard = false;
		g4_agent_place(io->agent, place_disks, io);
		return;
	}
	forget_disks(io);
	direct->finished = true;
	direct->open = direct->makes = 0;
}

/* ---- either ---- */

int g4_gpu_io_open(struct g4_gpu_io *io, struct g4_gpu *gpu, struct g4_dev *dev, bool wanted, struct g4_direct *direct,
		   struct g4_dev *on_gpu)
{
	char why[WHY_BYTES] = "";

	io->gpu = gpu;
	if (wanted)
		say_place(dev);
	int rc = open_keeper(io, dev, on_gpu, (struct g4_dev_message){.text = why, .bytes = sizeof(why)});
	if (rc == 0 && wanted)
		g4_log(G4_LOG_INFO, "%s: the GPU uses %u of its queues", g4_dev_name(dev),
		       g4_nvme_keeper_queues(io->keeper));
	if (rc != -G4_E_NOTSUP)
		return rc;
	if (wanted)
		g4_log(G4_LOG_WARN, "%s: its requests go through the host, not queues of the GPU: %s", g4_dev_name(dev),
		       why);
	rc = open_agent(io, dev, on_gpu);
	if (rc == 0)
		place_first(io, direct, on_gpu);
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
