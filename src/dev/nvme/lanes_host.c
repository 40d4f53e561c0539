/* SPDX-License-Identifier: Apache-2.0 */
/* The host's side of a queue for lanes (lanes_host.h). */
#define _GNU_SOURCE 1
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory_host.h"
#include "base/thread_host.h"
#include "dev/nvme/device_host.h"
#include "dev/nvme/lanes_host.h"
#include "dev/nvme/recovery_host.h"

#define CHUNK_BYTES (256 * G4_KIB)
#define CHECK_NS 10000000

struct g4_nvme_keeper {
	struct g4_dev *inner;
	struct g4_nvme *nvme;
	uint32_t slots;
	uint64_t chunk_bytes, timeout_ns;
	uint8_t *staging;
	uint64_t staging_bytes;
	struct g4_nvme_talk *talk; /* behind the chunks */
	uint32_t told, late;	   /* what was said last; the thread's */
	uint32_t first_reset;	   /* the one after which lanes begin */

	pthread_t thread;
	bool runs;
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

static void look_after(struct g4_nvme_keeper *keeper)
{
	struct g4_nvme_talk *talk = keeper->talk;
	const uint32_t late = g4_load32_acq_sys(&talk->late), reset = keeper->told >> G4_NVME_RESET_SHIFT;

	g4_nvme_check(keeper->nvme);
	if (!(keeper->told & G4_NVME_TOLD_READY))
		keeper->late = late; /* of a queue that is no more */
	else if (g4_load32_acq_sys(&talk->wish) == reset + 1)
		g4_nvme_lanes_late(keeper->nvme, 0, reset);
	else if (late != keeper->late && g4_nvme_lanes_late(keeper->nvme, late & ~G4_NVME_AGAIN, reset))
		keeper->late = late;
	g4_store32_rel_sys(&talk->heard, keeper->late);
	keeper->told = g4_nvme_tell_lanes(keeper->nvme, g4_load32_acq_sys(&talk->said), keeper->told);
	g4_store32_rel_sys(&talk->told, keeper->told);
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

/* PRPs do not change: a slot has one chunk. The first page of a chunk is in the command. */
static void fill_lists(struct g4_nvme_keeper *keeper)
{
	for (uint32_t slot = 0; slot < keeper->slots; slot++) {
		g4_le64 *list = (g4_le64 *)(keeper->nvme->lanes->lists + slot * G4_NVME_LIST_BYTES);
		for (uint64_t page = 1; page < keeper->chunk_bytes / G4_PAGE_BYTES; page++)
			list[page - 1] = (uintptr_t)keeper->staging + slot * keeper->chunk_bytes + page * G4_PAGE_BYTES;
	}
}

static bool map_memory(struct g4_nvme_keeper *keeper)
{
	const struct g4_nvme_provider *provider = &keeper->nvme->provider;

	keeper->staging_bytes = keeper->slots * keeper->chunk_bytes + G4_PAGE_BYTES;
	keeper->staging = g4_memory_map(keeper->staging_bytes);
	if (!keeper->staging)
		return false;
	keeper->talk = (struct g4_nvme_talk *)(keeper->staging + keeper->slots * keeper->chunk_bytes);
	keeper->talk->told = keeper->told;
	fill_lists(keeper);
	return !provider->reach || provider->reach(provider->context, keeper->staging, keeper->staging_bytes);
}

/* ---- opening and closing ---- */

static void choose_sizes(struct g4_nvme_keeper *keeper, const struct g4_nvme_lanes_options *options)
{
	const struct g4_nvme_queue *queue = keeper->nvme->lanes;
	const uint64_t most = g4_align_down(queue->piece_bytes, G4_PAGE_BYTES);

	keeper->slots = (uint32_t)g4_min64(queue->pool.count, G4_NVME_LANE_SLOTS);
	if (options && options->slots)
		keeper->slots = (uint32_t)g4_min64(keeper->slots, options->slots);
	keeper->chunk_bytes = g4_min64(options && options->chunk_bytes ? options->chunk_bytes : CHUNK_BYTES, most);
	keeper->timeout_ns = options && options->timeout_ns ? options->timeout_ns : keeper->nvme->timeout_ns;
}

int g4_nvme_keeper_open(struct g4_dev *inner, const struct g4_nvme_lanes_options *options, struct g4_nvme_keeper **out)
{
	struct g4_nvme *nvme = g4_nvme_of(inner);
	struct g4_nvme_keeper *keeper;
	pthread_condattr_t clock;

	if (!nvme || !nvme->lanes || !nvme->provider.stay_awake || !g4_nvme_take_lanes(nvme))
		return -G4_E_NOTSUP;
	keeper = calloc(1, sizeof(*keeper));
	if (!keeper) {
		g4_nvme_leave_lanes(nvme);
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
	keeper->runs = map_memory(keeper) && g4_thread_start(&keeper->thread, keep, keeper) == 0;
	if (!keeper->runs) {
		g4_nvme_keeper_close(keeper);
		return -G4_E_NOMEM;
	}
	*out = keeper;
	return 0;
}

void g4_nvme_keeper_close(struct g4_nvme_keeper *keeper)
{
	if (!keeper)
		return;
	if (keeper->runs) {
		pthread_mutex_lock(&keeper->lock);
		keeper->stopping = true;
		pthread_cond_signal(&keeper->wake);
		pthread_mutex_unlock(&keeper->lock);
		pthread_join(keeper->thread, NULL);
		look_after(keeper);
		g4_nvme_keeper_rest(keeper, true);
	}
	g4_nvme_leave_lanes(keeper->nvme);
	g4_memory_unmap(keeper->staging, keeper->staging_bytes);
	pthread_cond_destroy(&keeper->wake);
	pthread_mutex_destroy(&keeper->lock);
	free(keeper);
}

void g4_nvme_keeper_rest(struct g4_nvme_keeper *keeper, bool resting)
{
	keeper->nvme->provider.stay_awake(keeper->nvme->provider.context, !resting);
}

void *g4_nvme_keeper_memory(const struct g4_nvme_keeper *keeper, uint32_t index, uint64_t *bytes)
{
	const struct g4_nvme *nvme = keeper->nvme;
	void *const pieces[G4_NVME_KEEPER_PIECES] = {nvme->memory, nvme->provider.registers, keeper->staging};
	const uint64_t sizes[] = {nvme->memory_bytes, nvme->provider.register_bytes, keeper->staging_bytes};

	*bytes = sizes[index];
	return pieces[index];
}

static void close_lanes(struct g4_dev *dev);
static const struct g4_dev_ops lanes_ops = {
	.submit = g4_remote_submit, .poll = g4_remote_poll, .wait = g4_remote_wait, .close = close_lanes};

void g4_nvme_keeper_describe(const struct g4_nvme_keeper *keeper, struct g4_nvme_lanes *lanes,
			     struct g4_nvme_lanes *lanes_at, struct g4_remote *remote, struct g4_remote *remote_at,
			     struct g4_dev *dev)
{
	const struct g4_nvme_queue *queue = keeper->nvme->lanes;

	memset(lanes, 0, sizeof(*lanes));
	lanes->flight.pair = queue->flight.pair;
	lanes->flight.count = keeper->slots;
	lanes->flight.cache = &lanes_at->cache;
	lanes->cache.is_volatile = keeper->nvme->cache.is_volatile;
	lanes->lists = queue->lists;
	lanes->staging = keeper->staging;
	lanes->chunk_bytes = keeper->chunk_bytes;
	lanes->timeout_ns = keeper->timeout_ns;
	lanes->nsid = queue->nsid;
	lanes->block_shift = queue->block_shift;
	lanes->talk = keeper->talk;
	lanes->reset = keeper->first_reset;
	memset(remote, 0, sizeof(*remote));
	remote->lanes = lanes_at;
	remote->staging = keeper->staging;
	remote->chunk_bytes = keeper->chunk_bytes;
	remote->slots = keeper->slots;
	g4_slots_init(&remote->pool, keeper->slots);
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
	if (device) {
		free(device->dev.remote);
		free(device->lanes);
	}
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

int g4_dev_lanes_open(struct g4_dev *inner, const struct g4_nvme_lanes_options *options, struct g4_dev **out)
{
	struct g4_remote *remote = aligned_alloc(128, g4_align_up(sizeof(*remote), 128));
	struct lanes_device *device = calloc(1, sizeof(*device));
	int rc = -G4_E_NOMEM;

	if (device && remote) {
		device->dev.remote = remote;
		device->lanes = aligned_alloc(128, g4_align_up(sizeof(*device->lanes), 128));
		if (device->lanes)
			rc = g4_nvme_keeper_open(inner, options, &device->keeper);
	} else {
		free(remote);
	}
	if (rc < 0) {
		free_device(device);
		return rc;
	}
	g4_nvme_keeper_describe(device->keeper, device->lanes, device->lanes, remote, remote, &device->dev);
	g4_nvme_keeper_rest(device->keeper, false);
	*out = &device->dev;
	return 0;
}

struct g4_nvme_counts g4_dev_lanes_counts(const struct g4_dev *dev)
{
	return g4_dev_lanes_of(dev)->flight.counts;
}

struct g4_nvme_lanes *g4_dev_lanes_of(const struct g4_dev *dev)
{
	return ((const struct lanes_device *)dev)->lanes;
}
