/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chunk/kernels.h"
#include "hash/blake3.h"
#include "stand_in_device.h"

struct stand_in_plan plan;
const struct stand_in_plan all_is_well = {.gpus = 1,
					  .submit_fails = {STAND_IN_NEVER, STAND_IN_NEVER},
					  .collect_fails = {STAND_IN_NEVER, STAND_IN_NEVER},
					  .restart_fails = STAND_IN_NEVER,
					  .declines = STAND_IN_NEVER,
					  .healthy = STAND_IN_NEVER};
uint64_t alone_batches, alone_borders;
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static void *need(void *memory)
{
	assert_non_null(memory);
	return memory;
}

static bool planned(const uint32_t *at, uint32_t now)
{
	return now == at[0] || now == at[1];
}

static uint32_t fake_count(const struct shredder_device_setup *setup)
{
	(void)setup;
	return plan.gpus;
}

static int fake_restart(struct shredder_device *device, const struct shredder_restart *at)
{
	const struct shredder_restart beginning = {0};
	uint32_t working = 0;

	for (uint32_t i = 0; i < device->gpus; i++) {
		device->failed[i] = device->failed[i] || device->restarts == plan.restart_fails;
		working += !device->failed[i];
	}
	device->restarts++;
	if (working == 0)
		return SHREDDER_E_ENGINE;
	at = at == NULL ? &beginning : at;
	shredder_resolver_init(&device->resolver, device->setup.rule);
	device->resolver.start = device->resolver.scanned = at->open;
	device->position = at->position;
	device->held_bytes = at->before_bytes;
	device->held = (uint8_t *)need(realloc(device->held, at->before_bytes + 1));
	if (at->before_bytes > 0)
		memcpy(device->held, at->before, at->before_bytes);
	if (device->setup.digests && at->open < at->position)
		assert_true(at->before_bytes >= at->position - at->open);
	device->given = device->ends_count = 0;
	return 0;
}

static int fake_open(const struct shredder_device_setup *setup, struct shredder_device **out, const char **why)
{
	*why = "it has no GPU";
	if (plan.gpus == 0)
		return SHREDDER_E_ENGINE;
	*out = (struct shredder_device *)need(calloc(1, sizeof(**out)));
	(*out)->setup = *setup;
	(*out)->gpus = setup->gpus_count != 0 ? setup->gpus_count : plan.gpus;
	(*out)->number = setup->gpus != NULL ? setup->gpus[0] : 0;
	pthread_mutex_init(&(*out)->lock, NULL);
	return 0;
}

static void fake_close(struct shredder_device *device)
{
	pthread_mutex_destroy(&device->lock);
	free(device->held);
	free(device->ends);
	free(device);
}

static void *fake_alloc(struct shredder_device *device, uint64_t bytes)
{
	(void)device;
	return aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
}

static void fake_free(struct shredder_device *device, void *memory, uint64_t bytes)
{
	(void)device;
	(void)bytes;
	free(memory);
}

static bool fake_owns(struct shredder_device *device, const void *data)
{
	(void)device;
	(void)data;
	return false;
}

static bool fake_gpu(const struct shredder_device *device, uint32_t index, uint32_t *number, const char **trouble)
{
	*number = index + 5;
	*trouble = index < device->gpus && device->failed[index] ? "it was told to fail" : NULL;
	return index < device->gpus;
}

/* What engine.h asks of it. */
static void queue_alone(struct shredder_device *device, const struct shredder_batch *batch)
{
	uint64_t last = 0;

	assert_true(device->gpus == 1 && device->setup.find_chunks && batch->position == 0 && batch->last);
	assert_true(batch->bytes > 0 && batch->bytes <= device->setup.buffer_bytes);
	assert_true(batch->slot < device->setup.buffers && batch->borders_count <= device->setup.borders);
	for (uint32_t i = 0; i < batch->borders_count; last = batch->borders[i++])
		assert_true(batch->borders[i] > last && batch->borders[i] < batch->bytes);
	for (uint32_t i = device->alone_first; i != device->alone_end; i++)
		assert_int_not_equal(device->alone[i % 64]->slot, batch->slot);
	device->alone[device->alone_end++ % 64] = batch;
}

static int submit_locked(struct shredder_device *device, struct shredder_batch *batch)
{
	for (uint32_t tries = 0; tries == 0 || device->failed[device->turn]; tries++) {
		if (tries == device->gpus)
			return SHREDDER_E_KERNEL;
		device->turn = (device->turn + 1) % device->gpus;
	}
	batch->gpu = device->turn;
	device->failed[batch->gpu] = planned(plan.submit_fails, device->submits++) && device->number != plan.healthy;
	if (device->failed[batch->gpu])
		return SHREDDER_E_KERNEL;
	if (batch->alone)
		queue_alone(device, batch);
	return 0;
}

static void find_marks(const struct shredder_device *device, const uint8_t *before, const struct shredder_batch *batch,
		       uint64_t *marks)
{
	shredder_find_fn *find = device->setup.rule->params.algorithm == SHREDDER_GEAR ? shredder_find_gear_portable :
											 shredder_find_rabin_portable;

	find(device->setup.rule, before + SHREDDER_WINDOW_BYTES - SHREDDER_HISTORY_BYTES, batch->data, batch->bytes,
	     marks);
}

/* `all`: what was held, then the batch, which begins at `position`. */
static void hash_ends(struct shredder_device *device, const uint8_t *all, uint64_t start)
{
	const uint64_t origin = device->position - device->held_bytes;

	for (uint64_t i = 0; i < device->ends_count; i++) {
		struct shredder_end *end = &device->ends[i];

		assert_true(start >= origin);
		g4_blake3(all + (start - origin), end->end - start, end->digest);
		end->has_digest = 1;
		start = end->end;
	}
}

/* All chunks that end in the batch, and what the next batch needs. */
static void find_chunks(struct shredder_device *device, const struct shredder_batch *batch)
{
	const uint64_t bytes = device->held_bytes + batch->bytes, room = batch->bytes + 2;
	uint8_t *all = (uint8_t *)need(malloc(bytes + 1)), before[SHREDDER_WINDOW_BYTES] = {0};
	uint64_t *marks = (uint64_t *)need(calloc(shredder_mark_words(batch->bytes) + 1, sizeof(*marks)));
	const uint64_t start = device->resolver.start;
	bool more;

	assert_int_equal(batch->position, device->position);
	memcpy(all, device->held, device->held_bytes);
	memcpy(all + device->held_bytes, batch->data, batch->bytes);
	const uint64_t window = g4_min64(device->held_bytes, sizeof(before));
	memcpy(before + sizeof(before) - window, all + device->held_bytes - window, window);
	find_marks(device, before, batch, marks);
	const struct shredder_view view = {batch->data, batch->bytes, batch->position, before, marks, batch->last};
	device->ends = (struct shredder_end *)need(realloc(device->ends, room * sizeof(*device->ends)));
	device->ends_count = (uint64_t)shredder_resolve(&device->resolver, &view, device->ends, room, &more);
	assert_false(more);
	if (device->setup.digests)
		hash_ends(device, all, start);
	device->given = 0;
	device->position += batch->bytes;
	const uint64_t keep =
		g4_min64(bytes, g4_max64(device->position - g4_min64(device->resolver.start, device->position), 64));
	memmove(all, all + bytes - keep, keep);
	free(device->held);
	device->held = all;
	device->held_bytes = keep;
	free(marks);
}

/* All chunks of a batch that is alone, stream by stream. */
static void find_alone(struct shredder_device *device, const struct shredder_batch *batch)
{
	const uint8_t before[SHREDDER_WINDOW_BYTES] = {0};
	const uint64_t room = batch->bytes / device->setup.rule->params.min_bytes + batch->borders_count + 2;
	uint64_t *marks = (uint64_t *)need(calloc(shredder_mark_words(batch->bytes) + 1, sizeof(*marks)));
	uint64_t begin = 0;
	bool more;

	device->ends = (struct shredder_end *)need(realloc(device->ends, room * sizeof(*device->ends)));
	device->ends_count = device->given = 0;
	for (uint32_t i = 0; i <= batch->borders_count; i++) {
		const uint64_t end = i < batch->borders_count ? batch->borders[i] : batch->bytes;
		const struct shredder_batch stream = {.data = batch->data + begin, .bytes = end - begin};
		const struct shredder_view view = {stream.data, stream.bytes, 0, before, marks, true};
		struct shredder_end *ends = device->ends + device->ends_count;
		struct shredder_resolver resolver;
		uint64_t start = 0;

		find_marks(device, before, &stream, marks);
		shredder_resolver_init(&resolver, device->setup.rule);
		const uint64_t count =
			(uint64_t)shredder_resolve(&resolver, &view, ends, room - device->ends_count, &more);
		assert_false(more);
		for (uint64_t k = 0; k < count; k++) {
			g4_blake3(stream.data + start, ends[k].end - start, ends[k].digest);
			ends[k].has_digest = 1;
			start = ends[k].end;
			ends[k].end += begin;
		}
		device->ends_count += count;
		begin = end;
	}
	free(marks);
}

static void collect_alone(struct shredder_device *device, struct shredder_batch *batch)
{
	if (device->handed != batch) {
		assert_ptr_equal(device->alone[device->alone_first % 64], batch);
		find_alone(device, batch);
		device->handed = batch;
		pthread_mutex_lock(&counting);
		batch->declined = alone_batches >= plan.declines;
		alone_batches++;
		alone_borders += batch->borders_count;
		pthread_mutex_unlock(&counting);
	}
	batch->count = batch->declined ? 0 : g4_min64(g4_min64(batch->room, 3), device->ends_count - device->given);
	memcpy(batch->ends, device->ends + device->given, batch->count * sizeof(*batch->ends));
	device->given += batch->count;
	batch->more = !batch->declined && device->given < device->ends_count;
	if (!batch->more) {
		device->handed = NULL;
		device->alone_first++;
	}
}

static int collect_locked(struct shredder_device *device, struct shredder_batch *batch)
{
	if ((planned(plan.collect_fails, device->collects++) && device->number != plan.healthy) ||
	    device->failed[batch->gpu]) {
		device->failed[batch->gpu] = true;
		return SHREDDER_E_KERNEL;
	}
	if (batch->alone) {
		collect_alone(device, batch);
		return 0;
	}
	if (!device->setup.find_chunks) {
		uint8_t before[SHREDDER_WINDOW_BYTES] = {0};
		const uint64_t window = g4_min64(device->held_bytes, sizeof(before));

		memcpy(before + sizeof(before) - window, device->held + device->held_bytes - window, window);
		find_marks(device, before, batch, batch->marks);
		device->held = (uint8_t *)need(realloc(device->held, batch->bytes + 1));
		memcpy(device->held, batch->data, batch->bytes);
		device->held_bytes = batch->bytes;
		return 0;
	}
	if (device->given == device->ends_count && device->position == batch->position)
		find_chunks(device, batch);
	batch->count = g4_min64(g4_min64(batch->room, 3), device->ends_count - device->given);
	memcpy(batch->ends, device->ends + device->given, batch->count * sizeof(*batch->ends));
	device->given += batch->count;
	batch->more = device->given < device->ends_count;
	return 0;
}

static void note_caller(struct shredder_device *device)
{
	for (uint32_t i = 0; i < device->callers_count; i++)
		if (pthread_equal(device->callers[i], pthread_self()))
			return;
	assert_true(device->callers_count < STAND_IN_CALLERS_MAX);
	device->callers[device->callers_count++] = pthread_self();
}

/* submit() and collect() may run beside each other. */
static int fake_submit(struct shredder_device *device, struct shredder_batch *batch)
{
	pthread_mutex_lock(&device->lock);
	note_caller(device);
	const int rc = submit_locked(device, batch);
	pthread_mutex_unlock(&device->lock);
	return rc;
}

static int fake_collect(struct shredder_device *device, struct shredder_batch *batch)
{
	pthread_mutex_lock(&device->lock);
	note_caller(device);
	const int rc = collect_locked(device, batch);
	pthread_mutex_unlock(&device->lock);
	return rc;
}

const struct shredder_device_ops stand_in_device = {
	"cuda",	     fake_open,	   fake_close, fake_alloc, fake_free, fake_restart,
	fake_submit, fake_collect, fake_owns,  fake_count, fake_gpu,
};
