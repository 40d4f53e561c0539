/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pipeline with a device whose GPUs fail: the one that goes on finds the rest of the chunks, and no chunk is lost or comes
 * twice. The device is a stand-in, which takes the place of devices.c.
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
#include "hash/blake3.h"
#include "model.h"
#include "stand_in_device.h"

#define GPUS_MAX STAND_IN_GPUS_MAX

bool shredder_device_known(const char *name)
{
	return strcmp(name, "cuda") == 0;
}

const struct shredder_device_ops *shredder_device_find(const char *name)
{
	(void)name;
	return &stand_in_device;
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
