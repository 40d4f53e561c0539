/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA engine: struct shredder_device_ops on the GPUs of a machine (gpu.cuh has one of them).
 *
 * One GPU: the kernels of a batch leave in device memory where the open chunk begins, and the next batch's go on from
 * there; the end of a batch is kept on the GPU for the next one's headroom. The host waits for nothing but results.
 *
 * Several GPUs: batches of the host's memory go to them in turn. The beginning of the open chunk goes from GPU to GPU by
 * relay.cuh, and the end of a batch is copied from the host to the next GPU, too, so that no GPU needs another one's memory.
 * For that a batch holds the headroom of the next: where buffers are smaller, one GPU does everything. Data that lies in a
 * GPU's memory is that GPU's work alone. It is not copied, unless its beginning or end lies across a piece of 16 bytes.
 *
 * Kernels have room for a candidate in 1 KiB. Where there are more, the batch fails, and so do those behind it, since their
 * beginning is not known. collect() then does the first one with a bitmap of candidates, which always has room, and the
 * resolver of the CPU engine; then it starts the next one again. Slow, and the same result.
 *
 * A batch that is alone begins and ends a stream. Nothing behind it depends on it, so where it fails for want of room, the caller is told
 * and nothing is done again.
 *
 * A GPU that gives an error is not used again; the caller restarts the stream with those that are left, see restart(). After
 * an exception in a kernel that is none: CUDA then refuses everything to the process, on every GPU.
 *
 * Locks: `lock` is held while work is put into the streams, not while waiting, except in those two cases.
 */
#include <cuda_runtime.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "chunk/cuda/cuda_engine.h"
#include "chunk/cuda/gpu.cuh"
#include "chunk/resolve.h"

struct shredder_device {
	const struct shredder_rule *rule;
	struct shredder_device_setup setup;
	pthread_mutex_t lock;
	struct gpu gpus[SHREDDER_GPUS_MAX]; /* those that were named */
	uint32_t count;
	struct gpu *active[SHREDDER_GPUS_MAX]; /* those that are used */
	uint32_t active_count;
	uint32_t turn;	    /* which active one takes the next batch from the host */
	struct gpu **doing; /* the GPU that has the batch of each slot */
	bool fresh;	    /* no batch was submitted since the restart */
	bool owned;	    /* the last batch that was submitted lies in the memory of a GPU */
	int owner;	    /* and this is CUDA's number of that GPU */
	uint64_t submitted; /* batches, ever */
	uint32_t under_way; /* batches submitted and not collected */
	uint64_t open;	    /* the open chunk's beginning after the last batch that was collected */
	/* page-locked; with several GPUs */
	struct baton *batons; /* one more than slots: a batch's is read before it is written again */
	volatile uint32_t *stop;
};

/* While it lives, this thread may change its current device: the caller's comes back after. */
class device_keeper
{
	typedef int get_fn(void **);
	typedef int set_fn(void *);
	void *context_ = NULL;
	set_fn *set_ = NULL;

	/* Not cudaSetDevice(): that would open a device that the caller never used. */
	static void *driver_function(const char *name)
	{
		enum cudaDriverEntryPointQueryResult result;
		void *function = NULL;

		if (cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result) != cudaSuccess)
			return NULL;
		return result == cudaDriverEntryPointSuccess ? function : NULL;
	}

      public:
	device_keeper()
	{
		static get_fn *const get = (get_fn *)driver_function("cuCtxGetCurrent");
		static set_fn *const set = (set_fn *)driver_function("cuCtxSetCurrent");

		if (get && set && get(&context_) == 0)
			set_ = set;
	}
	device_keeper(const device_keeper &) = delete;
	device_keeper &operator=(const device_keeper &) = delete;
	~device_keeper()
	{
		if (set_)
			set_(context_);
	}
};

static bool several(const struct shredder_device *device)
{
	return device->active_count > 1;
}

/* ---------------------------------------------------------------------------------------------- open and close */

static void cuda_close(struct shredder_device *device)
{
	device_keeper keeper;

	if (device->stop)
		*device->stop = 1;
	for (uint32_t i = 0; i < device->count; i++)
		free_gpu(&device->gpus[i]);
	cudaFreeHost(device->batons);
	cudaFreeHost((void *)device->stop);
	pthread_mutex_destroy(&device->lock);
	free(device->doing);
	free(device);
}

static int refuse(const char **why, int code, const char *reason)
{
	*why = reason;
	return code;
}

static uint32_t cuda_count(const struct shredder_device_setup *setup)
{
	int devices = 0;

	if (cudaGetDeviceCount(&devices) != cudaSuccess)
		devices = 0;
	if (devices > 0 && setup->buffer_bytes < headroom_for(setup))
		return 1;
	if (setup->gpus && setup->gpus_count)
		return (uint32_t)g4_min64(setup->gpus_count, SHREDDER_GPUS_MAX);
	return (uint32_t)g4_min64(setup->gpus_count ? g4_min64(setup->gpus_count, (uint32_t)devices) :
						      (uint32_t)devices,
				  SHREDDER_GPUS_MAX);
}

/* Opens what was named; the number of those that work. */
static uint32_t open_gpus(struct shredder_device *device, int devices)
{
	const struct shredder_device_setup *setup = &device->setup;

	device->count = cuda_count(setup);
	for (uint32_t i = 0; i < device->count; i++) {
		struct gpu *gpu = &device->gpus[i];

		gpu->index = i;
		gpu->number = (int)(setup->gpus ? g4_min64(setup->gpus[i], INT32_MAX) : i);
		gpu->usable = true;
		if (gpu->number >= devices) {
			give_up(gpu, "there is no such GPU");
			continue;
		}
		int rc = open_gpu(gpu, setup);
		if (rc != 0) {
			give_up(gpu, rc == SHREDDER_E_NOMEM ? "not enough memory for its buffers" : NULL);
			free_gpu(gpu);
			continue;
		}
		device->active[device->active_count++] = gpu;
	}
	return device->active_count;
}

static int make_relay(struct shredder_device *device)
{
	uint64_t bytes = (device->setup.buffers + 1) * sizeof(*device->batons);

	TRY(cudaHostAlloc((void **)&device->batons, bytes, cudaHostAllocPortable));
	TRY(cudaHostAlloc((void **)&device->stop, sizeof(*device->stop), cudaHostAllocPortable));
	memset(device->batons, 0, bytes);
	*device->stop = 0;
	return 0;
}

static int cuda_open(const struct shredder_device_setup *setup, struct shredder_device **out, const char **why)
{
	const struct shredder_params *params = &setup->rule->params;
	struct shredder_device *device;
	int devices = 0;
	int rc;

	if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
		return refuse(why, SHREDDER_E_ENGINE, "there is no GPU that CUDA can use");
	if (setup->find_chunks && (params->delimiter_bytes || params->record))
		return refuse(why, SHREDDER_E_ENGINE, "the GPU does not look for records");
	if (setup->digests && params->max_bytes > LONGEST_HASHED_BYTES)
		return refuse(why, SHREDDER_E_ENGINE, "the GPU hashes no chunks of more than 64 MiB");
	if (setup->borders && setup->buffer_bytes >= NOTE_BORDER)
		return refuse(why, SHREDDER_E_BUFFERS, shredder_strerror(SHREDDER_E_BUFFERS));
	device_keeper keeper;
	device = (struct shredder_device *)calloc(1, sizeof(*device));
	if (!device)
		return refuse(why, SHREDDER_E_NOMEM, "out of memory");
	device->setup = *setup;
	device->rule = setup->rule;
	device->fresh = true;
	pthread_mutex_init(&device->lock, NULL);
	device->doing = (struct gpu **)calloc(setup->buffers, sizeof(struct gpu *));
	rc = !device->doing ? SHREDDER_E_NOMEM : open_gpus(device, devices) ? 0 : SHREDDER_E_ENGINE;
	if (rc == 0 && several(device))
		rc = make_relay(device);
	if (rc != 0) {
		static thread_local char reason[TROUBLE_BYTES + 16];

		snprintf(reason, sizeof(reason), "GPU %d: %s", device->gpus[0].number, device->gpus[0].trouble);
		cuda_close(device);
		return refuse(why, rc, rc == SHREDDER_E_NOMEM ? "out of memory" : reason);
	}
	device->setup.gpus = NULL;
	*out = device;
	return 0;
}

static bool cuda_gpu(const struct shredder_device *device, uint32_t index, uint32_t *number, const char **trouble)
{
	if (index >= device->count)
		return false;
	*number = (uint32_t)device->gpus[index].number;
	*trouble = device->gpus[index].usable ? NULL : device->gpus[index].trouble;
	return true;
}

/* -------------------------------------------------------------------------------------------------- submitting */

/* The number of the GPU whose memory this is, or -1. */
static int owner_of(const void *data)
{
	struct cudaPointerAttributes attributes;

	if (cudaPointerGetAttributes(&attributes, data) != cudaSuccess) {
		/* It stays the last error otherwise. */
		cudaGetLastError();
		return -1;
	}
	return attributes.type == cudaMemoryTypeDevice ? attributes.device : -1;
}

static bool cuda_owns(struct shredder_device *device, const void *data)
{
	(void)device;
	return owner_of(data) >= 0;
}

/* Headroom of a batch from the host, for one GPU: the end of the batch before, which is kept for that. */
static int carry_over(struct gpu *gpu, struct slot *slot, const struct shredder_batch *batch)
{
	if (batch->position == 0)
		TRY(cudaMemsetAsync(slot->memory, 0, gpu->headroom, gpu->compute));
	else
		TRY(cudaMemcpyAsync(slot->memory, gpu->tail, gpu->headroom, cudaMemcpyDeviceToDevice, gpu->compute));
	TRY(cudaMemcpyAsync(gpu->tail, slot->memory + batch->bytes, gpu->headroom, cudaMemcpyDeviceToDevice,
			    gpu->compute));
	return 0;
}

/* The same for several GPUs, in front of the batch's own bytes: hand_over() brought it. */
static int take_over(struct gpu *gpu, struct slot *slot, const struct shredder_batch *batch)
{
	if (batch->position == 0)
		TRY(cudaMemsetAsync(slot->memory, 0, gpu->headroom, gpu->copy));
	else
		TRY(cudaMemcpyAsync(slot->memory, gpu->tail, gpu->headroom, cudaMemcpyDeviceToDevice, gpu->copy));
	return 0;
}

/* The end of the batch goes to the GPU that has the next one, now, since the host's memory is the caller's again then. */
static int hand_over(struct gpu *next, const struct shredder_batch *batch)
{
	const uint8_t *from = batch->data + batch->bytes - next->headroom;

	TRY(cudaSetDevice(next->number));
	TRY(cudaMemcpyAsync(next->tail, from, next->headroom, cudaMemcpyDefault, next->copy));
	TRY(cudaEventRecord(next->slots[batch->slot].tailed, next->copy));
	return 0;
}

/* Headroom of a batch from a GPU's memory: what lies before it there. */
static int copy_before(struct gpu *gpu, struct slot *slot, const struct shredder_batch *batch)
{
	uint64_t before = g4_min64(batch->position, gpu->headroom);
	uint64_t none = gpu->headroom - before;

	TRY(cudaMemsetAsync(slot->memory, 0, none, gpu->compute));
	TRY(cudaMemcpyAsync(slot->memory + none, batch->data - before, before, cudaMemcpyDefault, gpu->compute));
	return 0;
}

/* The bytes of a batch come to the slot, and what lies before them to its headroom. */
static int bring(struct shredder_device *device, struct gpu *gpu, struct slot *slot, const struct shredder_batch *batch)
{
	uint8_t *to = slot->memory + gpu->headroom;
	bool takes = several(device) && !device->owned;

	TRY(cudaEventRecord(slot->begun, gpu->copy));
	if (takes)
		TRY_CODE(take_over(gpu, slot, batch));
	if (batch->bytes)
		TRY(cudaMemcpyAsync(to, batch->data, batch->bytes, cudaMemcpyDefault, gpu->copy));
	TRY(cudaEventRecord(slot->copied, gpu->copy));
	TRY(cudaStreamWaitEvent(gpu->compute, slot->copied, 0));
	if (!takes)
		TRY_CODE(device->owned ? copy_before(gpu, slot, batch) : carry_over(gpu, slot, batch));
	slot->in.data = to;
	slot->in.low = -(int64_t)gpu->headroom;
	return 0;
}

/* A batch is used where it lies; the stream's bytes before it lie before it. */
static int stay(struct gpu *gpu, struct slot *slot, const struct shredder_batch *batch)
{
	TRY(cudaEventRecord(slot->begun, gpu->copy));
	TRY(cudaEventRecord(slot->copied, gpu->copy));
	slot->in.data = batch->data;
	slot->in.low = -(int64_t)batch->position;
	return 0;
}

static bool page_locked(const void *memory)
{
	struct cudaPointerAttributes attributes;

	if (cudaPointerGetAttributes(&attributes, memory) != cudaSuccess) {
		cudaGetLastError();
		return false;
	}
	return attributes.type == cudaMemoryTypeHost;
}

/*
 * Small batches, which come from the host, have their chunks written by the GPU itself: that takes no second wait. Large
 * ones, which lie in the GPU's memory, are fetched while the next one is computed.
 */
static void choose_target(const struct gpu *gpu, struct slot *slot, const struct shredder_batch *batch, bool owned)
{
	if (batch->ends != slot->known) {
		slot->known = batch->ends;
		slot->known_locked = batch->ends && page_locked(batch->ends);
	}
	slot->target = slot->known_locked ? batch->ends : slot->host_chunks;
	slot->target_room = slot->known_locked ? batch->room : gpu->chunk_room;
	if (owned)
		slot->target = NULL;
}

/* Notes where the batch lies, and chooses the GPU: the one that owns the bytes, or the next. */
static struct gpu *choose_gpu(struct shredder_device *device, const struct shredder_batch *batch)
{
	if (batch->bytes || batch->position == 0) {
		device->owner = batch->bytes ? owner_of(batch->data) : -1;
		device->owned = device->owner >= 0;
	}
	if (!device->owned)
		return device->active[device->turn];
	for (uint32_t i = 0; i < device->active_count; i++) {
		if (device->active[i]->number == device->owner)
			return device->active[i];
	}
	return device->active[0];
}

static void make_relay_of(const struct shredder_device *device, struct slot *slot)
{
	uint64_t batons = device->setup.buffers + 1;

	slot->relay = {};
	if (!several(device) || !device->setup.find_chunks)
		return;
	slot->relay.stamp = device->submitted + 1;
	slot->relay.to = &device->batons[device->submitted % batons];
	slot->relay.from = device->fresh ? NULL : &device->batons[(device->submitted + batons - 1) % batons];
	slot->relay.stop = (const uint32_t *)device->stop;
}

static int submit_on(struct shredder_device *device, struct gpu *gpu, const struct shredder_batch *batch)
{
	struct slot *slot = &gpu->slots[batch->slot];
	bool aligned = ((uintptr_t)batch->data | batch->position | batch->bytes) % PIECE_BYTES == 0;

	TRY(cudaSetDevice(gpu->number));
	if (batch->position == 0)
		TRY(cudaMemsetAsync(gpu->chain, 0, sizeof(*gpu->chain), gpu->compute));
	slot->position = batch->position;
	slot->last = batch->last;
	slot->alone = batch->alone;
	slot->borders_count = batch->borders_count;
	if (batch->borders_count)
		TRY(cudaMemcpyAsync(slot->borders, batch->borders, batch->borders_count * sizeof(*slot->borders),
				    cudaMemcpyHostToDevice, gpu->compute));
	slot->in.bytes = (uint32_t)batch->bytes;
	slot->next = NULL;
	make_relay_of(device, slot);
	if (device->owned && aligned && device->owner == gpu->number)
		TRY_CODE(stay(gpu, slot, batch));
	else
		TRY_CODE(bring(device, gpu, slot, batch));
	choose_target(gpu, slot, batch, device->owned);
	TRY(cudaEventRecord(slot->started, gpu->compute));
	if (device->setup.find_chunks)
		TRY_CODE(launch_chunks(gpu, slot));
	else if (batch->bytes)
		TRY_CODE(launch_find(gpu, slot, slot->marks));
	TRY(cudaEventRecord(slot->done, gpu->compute));
	slot->pending = true;
	slot->fetched = false;
	return 0;
}

static int submit_locked(struct shredder_device *device, struct shredder_batch *batch)
{
	struct gpu *gpu = choose_gpu(device, batch);
	int rc = submit_on(device, gpu, batch);

	batch->gpu = gpu->index;
	device->doing[batch->slot] = gpu;
	if (rc != 0) {
		give_up(gpu, NULL);
		return rc;
	}
	device->fresh = false;
	device->submitted++;
	device->under_way++;
	if (!several(device) || device->owned)
		return 0;
	device->turn = (device->turn + 1) % device->active_count;
	if (batch->last)
		return 0;
	struct gpu *next = device->active[device->turn];
	rc = hand_over(next, batch);
	if (rc != 0)
		give_up(next, NULL);
	gpu->slots[batch->slot].next = next;
	return rc;
}

static int cuda_submit(struct shredder_device *device, struct shredder_batch *batch)
{
	device_keeper keeper;
	int rc;

	if (batch->slot >= device->setup.buffers || batch->bytes > device->setup.buffer_bytes)
		return SHREDDER_E_INVAL;
	if (several(device) && !batch->last && batch->bytes < device->active[0]->headroom)
		return SHREDDER_E_INVAL;
	if (batch->alone ? several(device) || batch->position != 0 || !batch->last || !device->setup.find_chunks ||
				   batch->borders_count > device->setup.borders :
			   batch->borders_count != 0)
		return SHREDDER_E_INVAL;
	pthread_mutex_lock(&device->lock);
	rc = submit_locked(device, batch);
	pthread_mutex_unlock(&device->lock);
	return rc;
}

/* ----------------------------------------------------------------------------------------- when there is no room */

/* Tells a GPU where the open chunk begins, and whether the batches behind may be resolved. */
static int set_chain(struct gpu *gpu, uint64_t open, bool poisoned)
{
	struct chain chain = {open, poisoned, 0};

	return upload(gpu, gpu->chain, &chain, sizeof(chain));
}

/* Tells the thread with the batch that is submitted next. Nothing is under way that could look at it. */
static int set_next(struct shredder_device *device, struct gpu *gpu, uint64_t open, bool poisoned)
{
	struct baton *baton;

	if (!several(device))
		return set_chain(gpu, open, poisoned);
	baton = &device->batons[(device->submitted - 1) % (device->setup.buffers + 1)];
	baton->open = open;
	baton->poisoned = poisoned;
	return 0;
}

/* The batch's bytes and the window before them, and its bitmap of candidates, on the host. */
struct fallback {
	uint8_t *bytes;
	uint64_t *marks;
	uint32_t *device_marks;
	int64_t *start;
	uint32_t *first_leaf, *group_chunk;
};

static void free_fallback(struct fallback *f)
{
	free(f->bytes);
	free(f->marks);
	free(f->start);
	free(f->first_leaf);
	free(f->group_chunk);
	cudaFree(f->device_marks);
}

static int fetch_batch(struct gpu *gpu, const struct slot *slot, struct fallback *f)
{
	uint64_t words = shredder_mark_words(slot->in.bytes);
	uint64_t before = g4_min64(WINDOW_BYTES, (uint64_t)-slot->in.low);

	f->bytes = (uint8_t *)calloc(1, WINDOW_BYTES + slot->in.bytes);
	f->marks = (uint64_t *)calloc(words + 1, sizeof(*f->marks));
	f->start = (int64_t *)calloc((size_t)gpu->chunk_room + 1, sizeof(*f->start));
	f->first_leaf = (uint32_t *)calloc((size_t)gpu->chunk_room + 1, sizeof(*f->first_leaf));
	f->group_chunk = (uint32_t *)calloc((size_t)gpu->leaf_room / WARP_LANES + 1, sizeof(*f->group_chunk));
	if (!f->bytes || !f->marks || !f->start || !f->first_leaf || !f->group_chunk)
		return SHREDDER_E_NOMEM;
	TRY(cudaMemcpy(f->bytes + WINDOW_BYTES - before, slot->in.data - before, before + slot->in.bytes,
		       cudaMemcpyDeviceToHost));
	if (!slot->in.bytes)
		return 0;
	TRY_CODE(device_array(&f->device_marks, 2 * words));
	TRY_CODE(launch_find(gpu, slot, f->device_marks));
	TRY(cudaStreamSynchronize(gpu->compute));
	TRY(cudaMemcpy(f->marks, f->device_marks, words * sizeof(*f->marks), cudaMemcpyDeviceToHost));
	return 0;
}

/* Digests of chunks[0 .. count) whose first begins at stream offset `begin`. */
static int digest_resolved(struct gpu *gpu, struct slot *slot, struct fallback *f, uint64_t begin,
			   struct shredder_end *chunks, uint32_t count)
{
	struct outcome outcome = {0, 0, count, 0, 0};

	f->start[0] = (int64_t)(begin - slot->position);
	f->first_leaf[0] = 0;
	for (uint32_t i = 0; i < count; i++) {
		f->start[i + 1] = (int64_t)(chunks[i].end - slot->position);
		f->first_leaf[i + 1] =
			f->first_leaf[i] + (uint32_t)g4_blake3_leaves((uint64_t)(f->start[i + 1] - f->start[i]));
		for (uint32_t group = (f->first_leaf[i] + WARP_LANES - 1) / WARP_LANES;
		     group * WARP_LANES < f->first_leaf[i + 1]; group++)
			f->group_chunk[group] = i;
	}
	outcome.leaves = f->first_leaf[count];
	TRY_CODE(upload(gpu, gpu->start, f->start, (count + 1) * sizeof(*f->start)));
	TRY_CODE(upload(gpu, gpu->first_leaf, f->first_leaf, (count + 1) * sizeof(*f->first_leaf)));
	TRY_CODE(upload(gpu, gpu->group_chunk, f->group_chunk,
			(outcome.leaves / WARP_LANES + 1) * sizeof(*f->group_chunk)));
	TRY_CODE(upload(gpu, slot->outcome, &outcome, sizeof(outcome)));
	TRY_CODE(upload(gpu, slot->chunks, chunks, count * sizeof(*chunks)));
	TRY_CODE(launch_digests(gpu, slot));
	TRY(cudaStreamSynchronize(gpu->compute));
	TRY(cudaMemcpy(chunks, slot->chunks, count * sizeof(*chunks), cudaMemcpyDeviceToHost));
	return 0;
}

/* Resolves a batch with the CPU engine's resolver, in portions of chunk_room chunks. */
static int resolve_on_host(struct shredder_device *device, struct gpu *gpu, struct slot *slot, struct fallback *f)
{
	struct shredder_view view = {
		f->bytes + WINDOW_BYTES, slot->in.bytes, slot->position, f->bytes, f->marks, slot->last};
	struct shredder_resolver resolver;
	uint64_t begin = device->open;
	bool more = true;

	shredder_resolver_init(&resolver, device->rule);
	resolver.start = device->open;
	resolver.scanned = device->open;
	slot->ready_count = 0;
	while (more) {
		uint64_t room = slot->ready_count + gpu->chunk_room;
		void *larger = realloc(slot->resolved, room * sizeof(*slot->resolved));
		if (!larger)
			return SHREDDER_E_NOMEM;
		slot->resolved = (struct shredder_end *)larger;
		struct shredder_end *chunks = slot->resolved + slot->ready_count;
		int64_t count = shredder_resolve(&resolver, &view, chunks, gpu->chunk_room, &more);
		if (count < 0)
			return (int)count;
		if (count > 0 && device->setup.digests)
			TRY_CODE(digest_resolved(gpu, slot, f, begin, chunks, (uint32_t)count));
		if (count > 0)
			begin = chunks[count - 1].end;
		slot->ready_count += (uint64_t)count;
	}
	slot->ready = slot->resolved;
	device->open = begin;
	return 0;
}

/* The oldest batch failed, and with it all that were submitted behind it. */
static int redo(struct shredder_device *device, struct gpu *gpu, struct slot *slot)
{
	bool others = device->under_way > 1;
	uint64_t open;
	int rc = 0;

	/* the thread that waits for this batch has got its answer, and failed as well */
	for (uint32_t i = 0; i < device->active_count; i++)
		TRY(cudaStreamSynchronize(device->active[i]->compute));
	TRY_CODE(set_chain(gpu, device->open, false));
	slot->relay.from = NULL;
	TRY_CODE(launch_chunks(gpu, slot));
	TRY(cudaStreamSynchronize(gpu->compute));
	open = slot->told->open;
	if (slot->told->failed) {
		struct fallback f = {};

		rc = fetch_batch(gpu, slot, &f);
		if (rc == 0)
			rc = resolve_on_host(device, gpu, slot, &f);
		free_fallback(&f);
		slot->fetched = rc == 0;
		open = device->open;
	}
	return rc == 0 ? set_next(device, gpu, open, others) : rc;
}

/* --------------------------------------------------------------------------------------------------- collecting */

static uint64_t elapsed_ns(cudaEvent_t from, cudaEvent_t to)
{
	float ms = 0;

	return cudaEventElapsedTime(&ms, from, to) == cudaSuccess ? (uint64_t)(ms * 1e6F) : 0;
}

/* The time that the GPU computed, without the wait for another one. */
static uint64_t kernel_ns(const struct slot *slot)
{
	if (!slot->relay.from)
		return elapsed_ns(slot->started, slot->done);
	return elapsed_ns(slot->started, slot->found) + elapsed_ns(slot->received, slot->done);
}

/* What the GPU found comes to the host, unless it is there: straight to the caller where that works. */
static int fetch_chunks(struct shredder_device *device, struct gpu *gpu, struct slot *slot,
			const struct shredder_batch *batch)
{
	slot->ready_count = slot->told->chunks;
	device->open = slot->told->open;
	if (slot->target && slot->ready_count <= slot->target_room) {
		slot->ready = slot->target;
		return 0;
	}
	slot->ready = slot->ready_count <= batch->room && page_locked(batch->ends) ? batch->ends : slot->host_chunks;
	if (slot->ready_count)
		TRY(cudaMemcpyAsync(slot->ready, slot->chunks, slot->ready_count * sizeof(*slot->chunks),
				    cudaMemcpyDeviceToHost, gpu->fetch));
	TRY(cudaEventRecord(slot->begun, gpu->fetch));
	TRY(cudaEventSynchronize(slot->begun));
	return 0;
}

static int finish(struct shredder_device *device, struct gpu *gpu, struct slot *slot, struct shredder_batch *batch)
{
	int rc = 0;

	TRY(cudaSetDevice(gpu->number));
	TRY(cudaEventSynchronize(slot->done));
	batch->transfer_ns = elapsed_ns(slot->begun, slot->copied);
	batch->kernel_ns = kernel_ns(slot);
	slot->given = 0;
	slot->ready_count = 0;
	slot->fetched = false;
	if (!device->setup.find_chunks) {
		if (batch->bytes)
			TRY(cudaMemcpy(batch->marks, slot->marks, shredder_mark_words(batch->bytes) * 8,
				       cudaMemcpyDeviceToHost));
		slot->fetched = true;
		return 0;
	}
	if (slot->told->failed && slot->alone) {
		batch->declined = true;
		slot->fetched = true;
		return 0;
	}
	if (slot->told->failed) {
		pthread_mutex_lock(&device->lock);
		rc = redo(device, gpu, slot);
		pthread_mutex_unlock(&device->lock);
	}
	if (rc == 0 && !slot->fetched)
		rc = fetch_chunks(device, gpu, slot, batch);
	slot->fetched = true;
	return rc;
}

/* The batch's memory is the caller's again when the next GPU has the end of it, too. */
static int wait_for_next(struct gpu *next, uint32_t slot)
{
	if (next)
		TRY(cudaEventSynchronize(next->slots[slot].tailed));
	return 0;
}

static int give_up_locked(struct shredder_device *device, struct gpu *gpu, int rc)
{
	pthread_mutex_lock(&device->lock);
	give_up(gpu, NULL);
	pthread_mutex_unlock(&device->lock);
	return rc;
}

static int cuda_collect(struct shredder_device *device, struct shredder_batch *batch)
{
	device_keeper keeper;
	struct gpu *gpu = device->doing[batch->slot];
	struct slot *slot = &gpu->slots[batch->slot];
	uint64_t take;

	if (slot->pending) {
		int rc = finish(device, gpu, slot, batch);

		if (rc != 0)
			return give_up_locked(device, gpu, rc);
		rc = wait_for_next(slot->next, batch->slot);
		if (rc != 0)
			return give_up_locked(device, slot->next, rc);
		slot->pending = false;
		pthread_mutex_lock(&device->lock);
		device->under_way--;
		pthread_mutex_unlock(&device->lock);
	}
	batch->gpu = gpu->index;
	take = g4_min64(batch->room, slot->ready_count - slot->given);
	if (take && slot->ready != batch->ends)
		memcpy(batch->ends, slot->ready + slot->given, take * sizeof(*batch->ends));
	slot->given += take;
	batch->count = take;
	batch->more = slot->given < slot->ready_count;
	return 0;
}

/* -------------------------------------------------------------------------------------------------- restarting */

/* Waits until nothing runs on the GPU any more. */
static int settle(struct gpu *gpu)
{
	TRY(cudaSetDevice(gpu->number));
	for (cudaStream_t stream : {gpu->copy, gpu->compute, gpu->fetch})
		TRY(cudaStreamSynchronize(stream));
	for (uint32_t i = 0; i < gpu->setup.buffers; i++) {
		gpu->slots[i].pending = false;
		gpu->slots[i].known = NULL;
	}
	/* a failed batch leaves counts behind */
	TRY(cudaMemsetAsync(gpu->counts, 0, gpu->most_tasks * sizeof(*gpu->counts), gpu->compute));
	TRY(cudaStreamSynchronize(gpu->compute));
	return 0;
}

/* The next batch's headroom and the open chunk's beginning. */
static int prime(struct gpu *gpu, const struct shredder_restart *at)
{
	uint64_t bytes = g4_min64(at->before_bytes, gpu->headroom);

	TRY(cudaSetDevice(gpu->number));
	TRY(cudaMemsetAsync(gpu->tail, 0, gpu->headroom - bytes, gpu->compute));
	if (bytes)
		TRY_CODE(upload(gpu, gpu->tail + gpu->headroom - bytes, at->before + at->before_bytes - bytes, bytes));
	return set_chain(gpu, at->open, false);
}

/* Waits for all, and keeps those that work. */
static void keep_active(struct shredder_device *device)
{
	uint32_t kept = 0;

	if (device->stop)
		*device->stop = 1;
	for (uint32_t i = 0; i < device->active_count; i++) {
		struct gpu *gpu = device->active[i];

		if (gpu->usable && settle(gpu) != 0)
			give_up(gpu, NULL);
		if (gpu->usable)
			device->active[kept++] = gpu;
	}
	device->active_count = kept;
	if (device->stop)
		*device->stop = 0;
}

static const struct shredder_restart stream_beginning = {0, 0, NULL, 0};

static bool owner_failed(const struct shredder_device *device)
{
	bool named = false;

	for (uint32_t i = 0; device->owned && i < device->count; i++) {
		if (device->gpus[i].number != device->owner)
			continue;
		if (device->gpus[i].usable)
			return false;
		named = true;
	}
	return named;
}

static int restart_locked(struct shredder_device *device, const struct shredder_restart *at)
{
	for (;;) {
		keep_active(device);
		if (device->active_count == 0)
			return SHREDDER_E_ENGINE;
		if (prime(device->active[0], at) == 0)
			break;
		give_up(device->active[0], NULL);
	}
	device->turn = 0;
	device->under_way = 0;
	device->open = at->open;
	device->fresh = true;
	return at == &stream_beginning || !owner_failed(device) ? 0 : SHREDDER_E_KERNEL;
}

static int cuda_restart(struct shredder_device *device, const struct shredder_restart *at)
{
	device_keeper keeper;
	int rc;

	pthread_mutex_lock(&device->lock);
	rc = restart_locked(device, at ? at : &stream_beginning);
	pthread_mutex_unlock(&device->lock);
	return rc;
}

static void *cuda_alloc(struct shredder_device *device, uint64_t bytes)
{
	device_keeper keeper;
	void *memory = NULL;

	for (uint32_t i = 0; i < device->active_count; i++) {
		if (cudaSetDevice(device->active[i]->number) == cudaSuccess &&
		    cudaHostAlloc(&memory, bytes, cudaHostAllocPortable) == cudaSuccess)
			return memory;
		cudaGetLastError();
	}
	return NULL;
}

static void cuda_free(struct shredder_device *device, void *memory, uint64_t bytes)
{
	device_keeper keeper;

	(void)device;
	(void)bytes;
	cudaFreeHost(memory);
}

const struct shredder_device_ops shredder_device_cuda = {
	"cuda",	     cuda_open,	   cuda_close, cuda_alloc, cuda_free, cuda_restart,
	cuda_submit, cuda_collect, cuda_owns,  cuda_count, cuda_gpu,
};
