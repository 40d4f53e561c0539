/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of queues for lanes (lanes_host.h). */
#define _GNU_SOURCE 1
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory_host.h"
#include "base/thread_host.h"
#include "dev/nvme/device_host.h"
#include "dev/nvme/lanes_host.h"
#include "dev/nvme/recovery_host.h"

#define CHUNK_BYTES (256 * G4_KIB)
#define SLOTS_IN_ALL 256u /* of several queues: each has a chunk of memory that is pinned */
#define CHECK_NS 10000000

struct g4_nvme_keeper {
	struct g4_dev *inner;
	struct g4_nvme *nvme;
	uint32_t slots;
	uint64_t chunk_bytes, timeout_ns;
	uint8_t *staging;
	uint64_t staging_bytes;
	struct g4_nvme_left *left; /* in which the controller gets that memory when the keeper is closed */
	uint32_t queues;
	struct g4_nvme_talk *talks; /* behind the chunks, one a queue */
	uint32_t told;		    /* what was said last; the thread's */
	uint32_t late[G4_MAPPER_QUEUES_MOST];
	uint32_t first_reset; /* the one after which lanes begin */

	pthread_t thread;
	bool runs, abandoned;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stopping;
};

/* ---- the thread ---- */

static void sleep_until_check(struct g4_nvme_keeper *keeper)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += CHECK_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&keeper->wake, &keeper->lock, &until);
}

/* A command of a queue's, and what the host does about it. */
static void hear(struct g4_nvme_keeper *keeper, uint32_t queue)
{
	struct g4_nvme_talk *talk = &keeper->talks[queue];
	const uint32_t late = g4_load32_acq_sys(&talk->late), reset = keeper->told >> G4_NVME_RESET_SHIFT;

	if (!(keeper->told & G4_NVME_TOLD_READY))
		keeper->late[queue] = late; /* of a queue that is no more */
	else if (g4_load32_acq_sys(&talk->wish) == reset + 1)
		g4_nvme_lanes_late(keeper->nvme, queue, 0, reset);
	else if (late != keeper->late[queue] && g4_nvme_lanes_late(keeper->nvme, queue, late & ~G4_NVME_AGAIN, reset))
		keeper->late[queue] = late;
	g4_store32_rel_sys(&talk->heard, keeper->late[queue]);
}

/* What lanes of all queues have said: that of those who are behind, as long as there are some. */
static uint32_t said_by_all(const struct g4_nvme_keeper *keeper)
{
	uint32_t all = g4_load32_acq_sys(&keeper->talks[0].said);

	for (uint32_t i = 1; i < keeper->queues; i++) {
		const uint32_t said = g4_load32_acq_sys(&keeper->talks[i].said);
		const uint32_t reset = said >> G4_NVME_RESET_SHIFT, least = all >> G4_NVME_RESET_SHIFT;
		all = (uint32_t)g4_min64(reset, least) << G4_NVME_RESET_SHIFT | ((said | all) & G4_NVME_SAID_LOST);
	}
	return all;
}

static void look_after(struct g4_nvme_keeper *keeper)
{
	g4_nvme_check(keeper->nvme);
	for (uint32_t i = 0; i < keeper->queues; i++)
		hear(keeper, i);
	keeper->told = g4_nvme_tell_lanes(keeper->nvme, said_by_all(keeper), keeper->told);
	for (uint32_t i = 0; i < keeper->queues; i++)
		g4_store32_rel_sys(&keeper->talks[i].told, keeper->told);
}

static void *keep(void *argument)
{
	struct g4_nvme_keeper *keeper = argument;

	pthread_mutex_lock(&keeper->lock);
	while (!keeper->stopping) {
		sleep_until_check(keeper);
		look_after(keeper);
	}
	pthread_mutex_unlock(&keeper->lock);
	return NULL;
}

/* ---- memory ---- */

static uint8_t *chunk_of(const struct g4_nvme_keeper *keeper, uint32_t queue, uint32_t slot)
{
	return keeper->staging + ((uint64_t)queue * keeper->slots + slot) * keeper->chunk_bytes;
}

/* PRPs do not change: a slot has one chunk. The first page of a chunk is in the command. */
static void fill_lists(struct g4_nvme_keeper *keeper, uint32_t queue)
{
	for (uint32_t slot = 0; slot < keeper->slots; slot++) {
		g4_le64 *list = (g4_le64 *)(keeper->nvme->lanes[queue].lists + slot * G4_NVME_LIST_BYTES);
		for (uint64_t page = 1; page < keeper->chunk_bytes / G4_PAGE_BYTES; page++)
			list[page - 1] =
				(uintptr_t)chunk_of(keeper, queue, slot) + page * G4_PAGE_BYTES + keeper->nvme->shift;
	}
}

/*
 * A device's registers are mapped page by page, when they are used first, and who has them mapped a second time may find nothing before. The
 * first page of doorbells has admin's, which was rung; of others one is read, which does nothing.
 */
static void touch_registers(const struct g4_nvme *nvme)
{
	const uint8_t *const rung = nvme->provider.registers + G4_NVME_DOORBELLS;
	uint64_t bytes;
	const uint8_t *from = g4_nvme_lanes_registers(nvme, &bytes);

	for (uint64_t at = 0; at < bytes; at += G4_PAGE_BYTES)
		if (from + at != rung)
			(void)g4_load32_rlx_sys((const uint32_t *)(from + at));
}

static int map_memory(struct g4_nvme_keeper *keeper, struct g4_dev_message why)
{
	const struct g4_nvme_provider *provider = &keeper->nvme->provider;
	const uint64_t talk_bytes = g4_align_up(keeper->queues * sizeof(struct g4_nvme_talk), G4_PAGE_BYTES);
	const uint64_t chunks_bytes = (uint64_t)keeper->queues * keeper->slots * keeper->chunk_bytes;

	keeper->staging_bytes = chunks_bytes + talk_bytes;
	keeper->staging = g4_memory_map(keeper->staging_bytes);
	if (!keeper->staging)
		return -G4_E_NOMEM;
	keeper->talks = (struct g4_nvme_talk *)(keeper->staging + chunks_bytes);
	for (uint32_t i = 0; i < keeper->queues; i++) {
		keeper->talks[i].told = keeper->told;
		fill_lists(keeper, i);
	}
	touch_registers(keeper->nvme);
	if (!provider->reach || provider->reach(provider->context, keeper->staging, keeper->staging_bytes))
		return 0;
	return g4_dev_fail(why, -G4_E_NOTSUP, "%" PRIu64 " MiB of memory for data can not be mapped for it: %m",
			   keeper->staging_bytes / G4_MIB);
}

/* ---- opening and closing ---- */

static void choose_sizes(struct g4_nvme_keeper *keeper, const struct g4_nvme_lanes_options *options)
{
	const struct g4_nvme_queue *queue = keeper->nvme->lanes;
	const uint64_t most = g4_align_down(queue->piece_bytes, G4_PAGE_BYTES);

	keeper->queues = (uint32_t)g4_min64(keeper->nvme->lane_count, G4_MAPPER_QUEUES_MOST);
	keeper->slots = (uint32_t)g4_min64(queue->pool.count, G4_NVME_LANE_SLOTS);
	if (keeper->queues > 1 && !(options && options->slots))
		while (keeper->slots > 1 && keeper->slots * keeper->queues > SLOTS_IN_ALL)
			keeper->slots /= 2; /* it stays a power of two */
	if (options && options->slots)
		keeper->slots = (uint32_t)g4_min64(keeper->slots, options->slots);
	keeper->chunk_bytes = g4_min64(options && options->chunk_bytes ? options->chunk_bytes : CHUNK_BYTES, most);
	keeper->timeout_ns = options && options->timeout_ns ? options->timeout_ns : keeper->nvme->timeout_ns;
}

static const char *why_not(const struct g4_nvme *nvme)
{
	if (!nvme)
		return "it is no single NVMe drive whose queues are this program's (nvme:ADDRESS)";
	if (nvme->provider.obtain)
		return "without an IOMMU it reaches no memory but one page of the driver's";
	return nvme->lanes ? NULL : "the drive has no queues to spare, or was opened without any for lanes";
}

int g4_nvme_keeper_open(struct g4_dev *inner, const struct g4_nvme_lanes_options *options, struct g4_nvme_keeper **out,
			struct g4_dev_message why)
{
	struct g4_nvme *nvme = g4_nvme_of(inner);
	const char *none = why_not(nvme);
	struct g4_nvme_keeper *keeper;
	pthread_condattr_t clock;

	if (none)
		return g4_dev_fail(why, -G4_E_NOTSUP, "%s", none);
	if (!g4_nvme_take_lanes(nvme, g4_nvme_target_of(inner)->space))
		return g4_dev_fail(why, -G4_E_NOTSUP,
				   "its queues for lanes are in use, or were since it was opened, or it does not work");
	keeper = calloc(1, sizeof(*keeper));
	if (!keeper) {
		g4_nvme_leave_lanes(nvme, false);
		return -G4_E_NOMEM;
	}
	keeper->inner = inner;
	keeper->nvme = nvme;
	keeper->first_reset = nvme->lanes_reset;
	keeper->told = keeper->first_reset << G4_NVME_RESET_SHIFT | G4_NVME_TOLD_READY;
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&keeper->wake, &clock);
	pthread_condattr_destroy(&clock);
	pthread_mutex_init(&keeper->lock, NULL);
	choose_sizes(keeper, options);
	keeper->left = malloc(sizeof(*keeper->left));
	int rc = keeper->left ? map_memory(keeper, why) : -G4_E_NOMEM;
	if (rc == 0)
		keeper->runs = g4_thread_start(&keeper->thread, keep, keeper) == 0;
	if (!keeper->runs) {
		g4_nvme_keeper_close(keeper);
		return rc < 0 ? rc : -G4_E_NOMEM;
	}
	*out = keeper;
	return 0;
}

static void stop(struct g4_nvme_keeper *keeper)
{
	pthread_mutex_lock(&keeper->lock);
	keeper->stopping = true;
	pthread_cond_signal(&keeper->wake);
	pthread_mutex_unlock(&keeper->lock);
	pthread_join(keeper->thread, NULL);
	keeper->runs = false;
	look_after(keeper);
	g4_nvme_keeper_rest(keeper, true);
}

void g4_nvme_keeper_abandon(struct g4_nvme_keeper *keeper)
{
	stop(keeper);
	g4_nvme_leave_lanes(keeper->nvme, true);
	keeper->abandoned = true;
}

/* A GPU that has failed has ended in the middle of commands, and nobody but the controller knows of which. */
static void give_memory_back(struct g4_nvme_keeper *keeper, bool used)
{
	if (!used) {
		g4_memory_unmap(keeper->staging, keeper->staging_bytes);
		free(keeper->left);
		return;
	}
	*keeper->left = (struct g4_nvme_left){.memory = keeper->staging, .bytes = keeper->staging_bytes};
	g4_nvme_leave_behind(keeper->nvme, keeper->left);
}

void g4_nvme_keeper_close(struct g4_nvme_keeper *keeper)
{
	if (!keeper)
		return;
	const bool opened = keeper->runs;
	if (opened)
		stop(keeper);
	if (!keeper->abandoned)
		g4_nvme_leave_lanes(keeper->nvme, opened);
	give_memory_back(keeper, opened || keeper->abandoned);
	pthread_cond_destroy(&keeper->wake);
	pthread_mutex_destroy(&keeper->lock);
	free(keeper);
}

void g4_nvme_keeper_rest(struct g4_nvme_keeper *keeper, bool resting)
{
	const struct g4_nvme_provider *provider = &keeper->nvme->provider;

	if (provider->stay_awake)
		provider->stay_awake(provider->context, !resting);
}

void *g4_nvme_keeper_memory(const struct g4_nvme_keeper *keeper, uint32_t index, uint64_t *bytes, bool *io)
{
	const struct g4_nvme *nvme = keeper->nvme;

	*io = index == 1 && nvme->provider.io_memory;
	if (index == 1)
		return g4_nvme_lanes_registers(nvme, bytes);
	*bytes = index == 0 ? nvme->memory_bytes : keeper->staging_bytes;
	return index == 0 ? nvme->memory : keeper->staging;
}

static void close_lanes(struct g4_dev *dev);
static const struct g4_dev_ops lanes_ops = {
	.submit = g4_remote_submit, .poll = g4_remote_poll, .wait = g4_remote_wait, .close = close_lanes};

uint32_t g4_nvme_keeper_queues(const struct g4_nvme_keeper *keeper)
{
	return keeper->queues;
}

static void describe_lanes(const struct g4_nvme_keeper *keeper, uint32_t index, struct g4_nvme_lanes *lanes,
			   struct g4_nvme_cache *cache_at)
{
	const struct g4_nvme_queue *queue = &keeper->nvme->lanes[index];
	const struct g4_nvme_target *target = g4_nvme_target_of(keeper->inner);

	memset(lanes, 0, sizeof(*lanes));
	lanes->flight.pair = queue->flight.pair;
	lanes->flight.count = keeper->slots;
	lanes->flight.cache = cache_at;
	lanes->cache.is_volatile = keeper->inner->props.volatile_cache;
	/* what a reset before has lost; of one that comes from now on they hear before their queues are made anew */
	lanes->cache.lost = g4_load32_acq(&keeper->nvme->caches[target->space].lost) != 0;
	lanes->cache.shut = g4_load32_acq(&keeper->nvme->caches[target->space].shut);
	lanes->lists = queue->lists;
	lanes->staging = chunk_of(keeper, index, 0);
	lanes->shift = keeper->nvme->shift;
	lanes->chunk_bytes = keeper->chunk_bytes;
	lanes->timeout_ns = keeper->timeout_ns;
	lanes->nsid = target->nsid;
	lanes->block_shift = target->block_shift;
	lanes->first_block = target->first_block;
	lanes->sizes = target->sizes;
	lanes->talk = &keeper->talks[index];
	lanes->reset = keeper->first_reset;
}

void g4_nvme_keeper_describe(const struct g4_nvme_keeper *keeper, struct g4_nvme_lanes *lanes,
			     struct g4_nvme_lanes *lanes_at, struct g4_remote *remote, struct g4_remote *remote_at,
			     struct g4_dev *dev)
{
	for (uint32_t i = 0; i < keeper->queues; i++) {
		describe_lanes(keeper, i, &lanes[i], &lanes_at[0].cache);
		memset(&remote[i], 0, sizeof(remote[i]));
		remote[i].lanes = &lanes_at[i];
		remote[i].staging = chunk_of(keeper, i, 0);
		remote[i].chunk_bytes = keeper->chunk_bytes;
		remote[i].slots = keeper->slots;
		g4_slots_init(&remote[i].pool, keeper->slots);
	}
	g4_mapper_init(&remote[0].mapper, keeper->queues);
	/* a GPU has no use for the functions; threads that stand in for one have */
	*dev = (struct g4_dev){.props = keeper->inner->props, .ops = &lanes_ops, .remote = remote_at};
}

/* ---- a device of this process ---- */

struct lanes_device {
	struct g4_dev dev; /* first */
	struct g4_nvme_keeper *keeper;
	struct g4_nvme_lanes *lanes;
};

static void free_device(struct lanes_device *device)
{
	free(device->dev.remote);
	free(device->lanes);
	free(device);
}

static void close_lanes(struct g4_dev *dev)
{
	struct lanes_device *device = (struct lanes_device *)dev;
	struct g4_dev *inner = device->keeper->inner;

	g4_nvme_keeper_close(device->keeper);
	free_device(device);
	g4_dev_close(inner);
}

int g4_dev_lanes_open(struct g4_dev *inner, const struct g4_nvme_lanes_options *options, struct g4_dev **out,
		      struct g4_dev_message why)
{
	struct lanes_device *device = calloc(1, sizeof(*device));

	if (!device)
		return -G4_E_NOMEM;
	const int rc = g4_nvme_keeper_open(inner, options, &device->keeper, why);
	if (rc < 0) {
		free_device(device);
		return rc;
	}
	const uint32_t queues = g4_nvme_keeper_queues(device->keeper);
	struct g4_remote *remote = aligned_alloc(128, g4_align_up(queues * sizeof(*remote), 128));
	device->dev.remote = remote;
	device->lanes = aligned_alloc(128, g4_align_up(queues * sizeof(*device->lanes), 128));
	if (!remote || !device->lanes) {
		g4_nvme_keeper_close(device->keeper);
		free_device(device);
		return -G4_E_NOMEM;
	}
	g4_nvme_keeper_describe(device->keeper, device->lanes, device->lanes, remote, remote, &device->dev);
	g4_nvme_keeper_rest(device->keeper, false);
	*out = &device->dev;
	return 0;
}

struct g4_nvme_counts g4_dev_lanes_counts(const struct g4_dev *dev)
{
	const struct lanes_device *device = (const struct lanes_device *)dev;
	struct g4_nvme_counts sum = {0};

	for (uint32_t i = 0; i < g4_nvme_keeper_queues(device->keeper); i++)
		g4_nvme_counts_add(&sum, &device->lanes[i].flight.counts);
	return sum;
}

struct g4_nvme_lanes *g4_dev_lanes_of(const struct g4_dev *dev)
{
	return ((const struct lanes_device *)dev)->lanes;
}
