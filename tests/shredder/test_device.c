/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pipeline with a device whose GPUs fail: the one that goes on finds the rest of the chunks, and no chunk is lost or comes
 * twice. The device is a stand-in that keeps the contract of engine.h and computes with the portable kernels; it takes the
 * place of devices.c.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "chunk/chunker.h"
#include "chunk/devices.h"
#include "chunk/kernels.h"
#include "chunk/resolve.h"
#include "hash/blake3.h"
#include "model.h"

#define GPUS_MAX 3
#define CALLERS_MAX 16
#define NEVER UINT32_MAX

/* What the next device does: GPUs that it has, and the calls at which the GPU of the batch fails. */
static struct plan {
	uint32_t gpus;
	uint32_t submit_fails[2], collect_fails[2];
	uint32_t restart_fails; /* all GPUs fail at this restart */
} plan;

struct shredder_device {
	struct shredder_device_setup setup;
	pthread_mutex_t lock;
	bool failed[GPUS_MAX];
	uint32_t turn, submits, collects, restarts;
	pthread_t callers[CALLERS_MAX]; /* of submit() and collect() */
	uint32_t callers_count;
	struct shredder_resolver resolver;
	uint64_t position; /* of what is collected next */
	uint8_t *held;	   /* bytes in front of it: the open chunk's and the window's */
	uint64_t held_bytes;
	struct shredder_end *ends; /* of the batch that is collected */
	uint64_t ends_count, given;
};

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

	for (uint32_t i = 0; i < plan.gpus; i++) {
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
	*trouble = index < plan.gpus && device->failed[index] ? "it was told to fail" : NULL;
	return index < plan.gpus;
}

static int submit_locked(struct shredder_device *device, struct shredder_batch *batch)
{
	for (uint32_t tries = 0; tries == 0 || device->failed[device->turn]; tries++) {
		if (tries == plan.gpus)
			return SHREDDER_E_KERNEL;
		device->turn = (device->turn + 1) % plan.gpus;
	}
	batch->gpu = device->turn;
	device->failed[batch->gpu] = planned(plan.submit_fails, device->submits++);
	return device->failed[batch->gpu] ? SHREDDER_E_KERNEL : 0;
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

static int collect_locked(struct shredder_device *device, struct shredder_batch *batch)
{
	if (planned(plan.collect_fails, device->collects++) || device->failed[batch->gpu]) {
		device->failed[batch->gpu] = true;
		return SHREDDER_E_KERNEL;
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
	assert_true(device->callers_count < CALLERS_MAX);
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

static const struct shredder_device_ops fake = {
	"cuda",	     fake_open,	   fake_close, fake_alloc, fake_free, fake_restart,
	fake_submit, fake_collect, fake_owns,  fake_count, fake_gpu,
};

bool shredder_device_known(const char *name)
{
	return strcmp(name, "cuda") == 0;
}

const struct shredder_device_ops *shredder_device_find(const char *name)
{
	(void)name;
	return &fake;
}

/* --------------------------------------------------------------------------------------------------------- tests */

struct source {
	const uint8_t *data;
	uint64_t bytes, at;
	struct model_cut *cuts; /* what must come */
	size_t count;
};

static int64_t read_source(void *user, void *to, uint64_t bytes)
{
	struct source *source = (struct source *)user;
	const uint64_t part = g4_min64(bytes, source->bytes - source->at);

	memcpy(to, source->data + source->at, part);
	source->at += part;
	return (int64_t)part;
}

enum way { IN_MEMORY, READ, PUSHED, WAYS };

static void begin(shredder *s, enum way way, struct source *source)
{
	source->at = 0;
	if (way == IN_MEMORY)
		assert_int_equal(shredder_begin_buffer(s, source->data, source->bytes), 0);
	else if (way == READ)
		assert_int_equal(shredder_begin_reader(s, read_source, source), 0);
	else
		assert_int_equal(shredder_begin_push(s), 0);
}

/* Pushes what fits; the end, too, when all is in. */
static void push_more(shredder *s, struct source *source)
{
	const int64_t taken = shredder_push(s, source->data + source->at, source->bytes - source->at);

	assert_true(taken >= 0);
	source->at += (uint64_t)taken;
	if (source->at == source->bytes)
		assert_true(shredder_push_end(s) <= 0);
}

static void expect(shredder *s, const struct shredder_options *options, enum way way, struct source *source)
{
	const struct model_cut *cuts = source->cuts;
	struct shredder_chunk chunk;
	uint8_t digest[32] = {0};
	size_t index = 0;
	int rc;

	begin(s, way, source);
	while ((rc = shredder_next(s, &chunk)) == 1 || rc == SHREDDER_E_AGAIN) {
		if (rc == SHREDDER_E_AGAIN) {
			push_more(s, source);
			continue;
		}
		assert_true(index < source->count);
		assert_int_equal(chunk.offset, index == 0 ? 0 : cuts[index - 1].end);
		assert_int_equal(chunk.offset + chunk.length, cuts[index].end);
		assert_int_equal(chunk.fingerprint, cuts[index].fingerprint);
		assert_int_equal(chunk.cut, cuts[index].cut);
		if ((options->flags & SHREDDER_NO_DIGEST) == 0)
			g4_blake3(source->data + chunk.offset, chunk.length, digest);
		assert_memory_equal(chunk.digest, digest, 32);
		index++;
	}
	assert_int_equal(rc, 0);
	assert_int_equal(index, source->count);
}

static uint32_t working_gpus(const shredder *s, uint64_t *bytes)
{
	struct shredder_gpu_stats stats;
	uint32_t working = 0;

	*bytes = 0;
	for (uint32_t i = 0; shredder_get_gpu_stats(s, i, &stats); i++) {
		assert_int_equal(stats.number, i + 5);
		working += stats.failed == 0;
		*bytes += stats.bytes;
	}
	return working;
}

/* One input, and a second one, in every way. */
static void run_plan(struct shredder_params params, uint64_t bytes)
{
	const struct shredder_params whole = complete(params);
	uint8_t *data = make_content(CONTENT_RANDOM, bytes, 7, &whole);
	struct source source = {.data = data, .bytes = bytes};

	source.count = model_cuts(&whole, data, bytes, &source.cuts);
	for (uint32_t flags = 0; flags <= (SHREDDER_NO_DIGEST | SHREDDER_NO_DATA); flags++) {
		if ((flags & SHREDDER_NO_DIRECT) != 0)
			continue;
		for (uint32_t way = 0; way < 2 * WAYS; way++) {
			const struct shredder_options options = {.size = sizeof(options),
								 .engine = "cuda",
								 .threads = way < WAYS ? 1 : 3,
								 .flags = flags,
								 .buffer_bytes = 8192,
								 .params = &whole};
			struct shredder_stats stats;
			uint64_t searched;
			shredder *s;

			assert_int_equal(shredder_open(&options, &s), 0);
			expect(s, &options, (enum way)(way % WAYS), &source);
			shredder_get_stats(s, &stats);
			const uint32_t working = working_gpus(s, &searched);
			assert_int_equal(stats.gpus, plan.gpus);
			assert_true((stats.fell_back != NULL) == (working < plan.gpus));
			if (working == 0)
				assert_string_equal(stats.engine, "cpu");
			if (working == plan.gpus)
				assert_int_equal(searched, bytes);
			expect(s, &options, (enum way)(way % WAYS), &source);
			shredder_close(s);
		}
	}
	free(source.cuts);
	free(data);
}

static const struct plan all_is_well = {
	.gpus = 1, .submit_fails = {NEVER, NEVER}, .collect_fails = {NEVER, NEVER}, .restart_fails = NEVER};

/* Chunks shorter than a buffer; longer ones, whose beginning is not kept; gear; records, whose cuts the host finds. */
static void run_all_rules(void)
{
	const struct shredder_params records = {.mask_bits = 8, .delimiter_bytes = 1, .delimiter = {'7'}};

	run_plan((struct shredder_params){.mask_bits = 9}, 40000);
	run_plan((struct shredder_params){.mask_bits = 14, .max_bytes = 40000}, 70000);
	run_plan((struct shredder_params){.mask_bits = 14, .max_bytes = SHREDDER_NONE}, 70000);
	run_plan((struct shredder_params){.algorithm = SHREDDER_GEAR, .mask_bits = 10}, 30000);
	run_plan(records, 30000);
}

static void several_gpus_give_the_same(void **state)
{
	(void)state;
	plan = all_is_well;
	for (plan.gpus = 1; plan.gpus <= GPUS_MAX; plan.gpus++)
		run_all_rules();
}

static void the_cpu_goes_on_for_the_only_gpu(void **state)
{
	(void)state;
	for (uint32_t at = 0; at < 9; at += 4) {
		plan = all_is_well;
		plan.collect_fails[0] = at;
		run_all_rules();
		plan = all_is_well;
		plan.submit_fails[0] = at;
		run_all_rules();
	}
}

static void other_gpus_go_on(void **state)
{
	(void)state;
	for (uint32_t at = 0; at < 6; at += 2) {
		plan = all_is_well;
		plan.gpus = 3;
		plan.collect_fails[0] = at;
		plan.collect_fails[1] = at + 2;
		run_all_rules();
		plan = all_is_well;
		plan.gpus = 2;
		plan.submit_fails[0] = at;
		plan.collect_fails[0] = at + 5;
		run_all_rules();
	}
}

static void a_restart_can_fail(void **state)
{
	(void)state;
	for (uint32_t at = 0; at < 3; at++) {
		plan = all_is_well;
		plan.gpus = 3;
		plan.collect_fails[0] = 2;
		plan.restart_fails = at;
		run_all_rules();
	}
}

static void wait_for_spare_workers(shredder *s, uint32_t count)
{
	for (bool there = false; !there; sched_yield()) {
		pthread_mutex_lock(&s->lock);
		there = s->spare == count;
		pthread_mutex_unlock(&s->lock);
	}
}

/* A device that gives chunks needs two workers. The others sleep meanwhile, and help when the CPU goes on. */
static void a_device_wakes_few_threads(void **state)
{
	const struct shredder_params whole = complete((struct shredder_params){.mask_bits = 9});
	const struct shredder_options options = {
		.size = sizeof(options), .engine = "cuda", .threads = 9, .buffer_bytes = 8192, .params = &whole};
	const uint64_t bytes = 1000000;
	uint8_t *data = make_content(CONTENT_RANDOM, bytes, 7, &whole);
	struct source source = {.data = data, .bytes = bytes};
	struct shredder_stats stats;
	shredder *s;

	(void)state;
	plan = all_is_well;
	source.count = model_cuts(&whole, data, bytes, &source.cuts);
	assert_int_equal(shredder_open(&options, &s), 0);
	for (uint32_t way = 0; way < WAYS; way++)
		expect(s, &options, (enum way)way, &source);
	assert_true(s->device->callers_count <= 3); /* this thread is one */
	wait_for_spare_workers(s, 6);
	plan.collect_fails[0] = s->device->collects;
	expect(s, &options, IN_MEMORY, &source);
	shredder_get_stats(s, &stats);
	assert_string_equal(stats.engine, "cpu");
	wait_for_spare_workers(s, 0);
	expect(s, &options, READ, &source);
	shredder_close(s);
	free(source.cuts);
	free(data);
}

/* The ring is the device's while there is one, unless the caller says otherwise. */
static void a_device_has_few_large_buffers(void **state)
{
	struct shredder_options options = {.size = sizeof(options), .engine = "cuda", .threads = 12};
	struct shredder_stats stats;
	shredder *s;

	(void)state;
	plan = all_is_well;
	for (plan.gpus = 1; plan.gpus <= GPUS_MAX; plan.gpus++) {
		assert_int_equal(shredder_open(&options, &s), 0);
		shredder_get_stats(s, &stats);
		assert_int_equal(stats.buffers, 4 * plan.gpus + 1);
		assert_int_equal(stats.buffer_bytes, 16 * G4_MIB);
		shredder_close(s);
	}
	plan.gpus = 0; /* it cannot be opened */
	assert_int_equal(shredder_open(&options, &s), 0);
	shredder_get_stats(s, &stats);
	assert_int_equal(stats.buffers, 15);
	assert_int_equal(stats.buffer_bytes, 4 * G4_MIB);
	shredder_close(s);
	options.buffers = 7;
	options.buffer_bytes = 65536;
	for (plan.gpus = 0; plan.gpus <= 1; plan.gpus++) {
		assert_int_equal(shredder_open(&options, &s), 0);
		shredder_get_stats(s, &stats);
		assert_int_equal(stats.buffers, 7);
		assert_int_equal(stats.buffer_bytes, 65536);
		shredder_close(s);
	}
}

static void a_list_that_cannot_be_is_refused(void **state)
{
	const uint32_t numbers[] = {0};
	struct shredder_options options = {.size = sizeof(options), .gpus = numbers};
	shredder *s;

	(void)state;
	plan = all_is_well;
	assert_int_equal(shredder_open(&options, &s), SHREDDER_E_INVAL);
	options.gpus_count = SHREDDER_GPUS_MAX + 1;
	assert_int_equal(shredder_open(&options, &s), SHREDDER_E_INVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(several_gpus_give_the_same),
		cmocka_unit_test(the_cpu_goes_on_for_the_only_gpu),
		cmocka_unit_test(other_gpus_go_on),
		cmocka_unit_test(a_restart_can_fail),
		cmocka_unit_test(a_device_wakes_few_threads),
		cmocka_unit_test(a_device_has_few_large_buffers),
		cmocka_unit_test(a_list_that_cannot_be_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
