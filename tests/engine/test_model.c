/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations against the model, on devices that get full and caches that overflow. G4_MODEL_SEED and
 * G4_MODEL_STEPS choose others than the test's own.
 */
#include "model.h"

#include <pthread.h>

#define THREADS 4

static uint64_t statfs_free(struct rig *rig)
{
	struct g4_statfs statfs;

	assert_int_equal(op_statfs(rig, &statfs), 0);
	return statfs.blocks_free;
}

/* Unmounts, checks, mounts, and expects everything to be as it was. */
static void remount(struct rig *rig, struct model **models, uint32_t count)
{
	for (uint32_t k = 0; k < count; k++) {
		model_close_handles(models[k]);
		model_compare(models[k], false);
	}
	assert_int_equal(op_sync(rig), 0);
	uint64_t free_pages = statfs_free(rig);
	int rc = rig_unmount(rig);
	if (rc < 0)
		fail_msg("unmount: %s", g4_strerror(rc));
	rig_expect_clean(rig, free_pages, "after an unmount");
	rig_mount(rig);
	assert_in_range(statfs_free(rig), free_pages, free_pages + RIG_MOST_SLABS);
	for (uint32_t k = 0; k < count; k++)
		model_compare(models[k], true);
}

static void run_alone(uint64_t device_bytes, uint64_t seed, uint64_t steps, uint64_t batch)
{
	struct model *model;
	struct rig rig;

	print_message("device %lu MiB, seed %lu\n", (unsigned long)(device_bytes / G4_MIB), (unsigned long)seed);
	rig_open(&rig, device_bytes, 0);
	rig_mount(&rig);
	model = model_new(&rig, seed, 'a', G4_NODE_ROOT, 0);
	for (uint64_t n = 1; n <= steps; n++) {
		model_step(model);
		if (n % batch == 0)
			remount(&rig, &model, 1);
	}
	print_message("%lu operations done, %lu refused for want of space\n", (unsigned long)model_done(model),
		      (unsigned long)model_full(model));
	assert_int_equal(rig_unmount(&rig), 0);
	model_free(model);
	rig_close(&rig);
}

static uint64_t steps(uint64_t normal)
{
	return rig_setting("G4_MODEL_STEPS", normal / rig_every(5));
}

static void random_operations_match_the_model(void **state)
{
	(void)state;
	run_alone(64 * G4_MIB, rig_setting("G4_MODEL_SEED", 1), steps(12000), 1000);
}

static void random_operations_match_the_model_on_a_full_device(void **state)
{
	(void)state;
	run_alone(16 * G4_MIB, rig_setting("G4_MODEL_SEED", 2), steps(12000), 700);
}

static void random_operations_match_the_model_over_many_remounts(void **state)
{
	(void)state;
	run_alone(32 * G4_MIB, rig_setting("G4_MODEL_SEED", 3), steps(3000), 50);
}

struct worker {
	pthread_t thread;
	struct model *model;
	uint64_t steps;
};

static void *work(void *argument)
{
	struct worker *worker = (struct worker *)argument;

	for (uint64_t n = 0; n < worker->steps; n++)
		model_step(worker->model);
	return NULL;
}

static void run_together(uint64_t device_bytes, uint64_t seed, uint64_t rounds, uint64_t each)
{
	struct worker workers[THREADS];
	struct model *models[THREADS];
	uint64_t shared, own;
	struct rig rig;

	print_message("device %lu MiB, seed %lu\n", (unsigned long)(device_bytes / G4_MIB), (unsigned long)seed);
	rig_open(&rig, device_bytes, 0);
	rig_mount(&rig);
	assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, "shared", 0755, &shared), 0);
	for (uint32_t k = 0; k < THREADS; k++) {
		char name[16];
		snprintf(name, sizeof(name), "own%u", k);
		assert_int_equal(op_mkdir(&rig, G4_NODE_ROOT, name, 0755, &own), 0);
		models[k] = model_new(&rig, seed * 100 + k, (char)('a' + (int)k), own, shared);
	}
	for (uint64_t round = 0; round < rounds; round++) {
		for (uint32_t k = 0; k < THREADS; k++) {
			workers[k] = (struct worker){.model = models[k], .steps = each};
			assert_int_equal(pthread_create(&workers[k].thread, NULL, work, &workers[k]), 0);
		}
		for (uint32_t k = 0; k < THREADS; k++)
			pthread_join(workers[k].thread, NULL);
		remount(&rig, models, THREADS);
	}
	for (uint32_t k = 0; k < THREADS; k++) {
		print_message("thread %u: %lu operations done, %lu refused\n", k, (unsigned long)model_done(models[k]),
			      (unsigned long)model_full(models[k]));
		model_free(models[k]);
	}
	assert_int_equal(rig_unmount(&rig), 0);
	rig_close(&rig);
}

static void threads_match_their_models(void **state)
{
	(void)state;
	run_together(64 * G4_MIB, rig_setting("G4_MODEL_SEED", 4), 6, steps(1200));
}

static void threads_match_their_models_on_a_full_device(void **state)
{
	(void)state;
	run_together(16 * G4_MIB, rig_setting("G4_MODEL_SEED", 5), 6, steps(1200));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_operations_match_the_model),
		cmocka_unit_test(random_operations_match_the_model_on_a_full_device),
		cmocka_unit_test(random_operations_match_the_model_over_many_remounts),
		cmocka_unit_test(threads_match_their_models),
		cmocka_unit_test(threads_match_their_models_on_a_full_device),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
