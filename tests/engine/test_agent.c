/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine on a device behind an I/O agent, as the CUDA engine has it: random operations against the model, with queues
 * of all lengths and a slow device, then the same image without the agent; errors, a device that vanishes, and the replay
 * afterwards.
 */
#include "model.h"

#include <pthread.h>

#include "dev/agent_host.h"
#include "fs/fs.h"

#define THREADS 4u
#define BIG_BYTES (3 * G4_MIB)

struct world {
	struct rig rig;
	struct g4_dev *remote;
};

/* The device of the rig as a file, behind a fault device if asked, behind an agent. */
static void mount_behind_agent(struct world *w, const struct g4_agent_options *queue, const struct g4_fault *fault)
{
	const struct g4_mount_options options = {.commit_ms = fault ? 1000000 : 20, .cache_bytes = w->rig.cache_bytes};
	const struct g4_dev_open_options one = {.queues = 1};
	char message[256] = "";
	struct g4_dev *dev;

	/* the name without "dax:": requests then take time */
	if (g4_dev_open(w->rig.name + 4, &one, &dev, message, sizeof(message)) < 0)
		fail_msg("%s", message);
	w->rig.fault = NULL;
	if (fault) {
		assert_int_equal(g4_dev_fault_open(dev, &w->rig.fault), 0);
		dev = w->rig.fault;
		g4_dev_fault_set(dev, fault);
	}
	assert_int_equal(g4_dev_remote_open(dev, queue, &w->remote), 0);
	if (g4_engine_mount_device(w->remote, &options, &w->rig.engine, message, sizeof(message)) < 0)
		fail_msg("%s", message);
}

static uint64_t steps(uint64_t normal)
{
	return rig_slow() ? normal / 6 : normal;
}

/* What the model knows is there, through the plain device, and the checker agrees. */
static void compare_without_agent(struct world *w, struct model **models, uint32_t count)
{
	for (uint32_t k = 0; k < count; k++) {
		model_close_handles(models[k]);
		model_compare(models[k], false);
	}
	assert_int_equal(rig_unmount(&w->rig), 0);
	rig_expect_clean(&w->rig, RIG_ANY_FREE, "after an unmount");
	rig_mount(&w->rig);
	for (uint32_t k = 0; k < count; k++)
		model_compare(models[k], true);
	assert_int_equal(rig_unmount(&w->rig), 0);
}

static void run_alone(const struct g4_agent_options *queue, const struct g4_fault *fault, uint64_t count)
{
	struct world w;
	struct model *model;

	rig_open(&w.rig, 32 * G4_MIB, 0);
	mount_behind_agent(&w, queue, fault);
	model = model_new(&w.rig, queue->slots + 1, 'a', G4_NODE_ROOT, 0);
	for (uint32_t round = 0; round < 3; round++) {
		for (uint64_t n = 0; n < count; n++)
			model_step(model);
		compare_without_agent(&w, &model, 1);
		mount_behind_agent(&w, queue, fault);
	}
	assert_int_equal(rig_unmount(&w.rig), 0);
	model_free(model);
	rig_close(&w.rig);
}

static void operations_match_the_model(void **state)
{
	const struct g4_agent_options queue = {0};

	(void)state;
	run_alone(&queue, NULL, steps(2500));
}

static void operations_match_the_model_with_one_short_slot(void **state)
{
	const struct g4_agent_options queue = {.slots = 1, .chunk_bytes = 4096};

	(void)state;
	run_alone(&queue, NULL, steps(1000));
}

static void operations_match_the_model_on_a_slow_device(void **state)
{
	const struct g4_agent_options queue = {.slots = 3, .chunk_bytes = 16384};
	const struct g4_fault slow = {.delay_ns = 100000};

	(void)state;
	run_alone(&queue, &slow, steps(400));
}

/* ------------------------------------------------------------------ threads */

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

static void threads_share_a_short_queue(void **state)
{
	const struct g4_agent_options queue = {.slots = 2, .chunk_bytes = 8192};
	struct worker workers[THREADS];
	struct model *models[THREADS];
	uint64_t shared, own;
	struct world w;

	(void)state;
	rig_open(&w.rig, 64 * G4_MIB, 0);
	mount_behind_agent(&w, &queue, NULL);
	assert_int_equal(op_mkdir(&w.rig, G4_NODE_ROOT, "shared", 0755, &shared), 0);
	for (uint32_t k = 0; k < THREADS; k++) {
		char name[16];
		snprintf(name, sizeof(name), "own%u", k);
		assert_int_equal(op_mkdir(&w.rig, G4_NODE_ROOT, name, 0755, &own), 0);
		models[k] = model_new(&w.rig, 100 + k, (char)('a' + (int)k), own, shared);
		workers[k] = (struct worker){.model = models[k], .steps = steps(1200)};
	}
	for (uint32_t k = 0; k < THREADS; k++)
		assert_int_equal(pthread_create(&workers[k].thread, NULL, work, &workers[k]), 0);
	for (uint32_t k = 0; k < THREADS; k++)
		pthread_join(workers[k].thread, NULL);
	compare_without_agent(&w, models, THREADS);
	for (uint32_t k = 0; k < THREADS; k++)
		model_free(models[k]);
	rig_close(&w.rig);
}

/* ------------------------------------------------------------------ errors */

static uint8_t *pattern(uint64_t seed)
{
	uint8_t *bytes = (uint8_t *)aligned_alloc(4096, BIG_BYTES);

	assert_non_null(bytes);
	rig_pattern(bytes, seed, BIG_BYTES);
	return bytes;
}

static void expect_pattern(struct rig *rig, uint64_t node, uint64_t seed)
{
	uint8_t *wanted = pattern(seed), *got = pattern(0);
	uint64_t done;

	assert_int_equal(op_read(rig, node, 0, 0, got, BIG_BYTES, &done), 0);
	assert_int_equal(done, BIG_BYTES);
	assert_memory_equal(got, wanted, BIG_BYTES);
	free(wanted);
	free(got);
}

static void an_error_is_the_commands_and_passes(void **state)
{
	const struct g4_agent_options queue = {.slots = 4, .chunk_bytes = 65536};
	const struct g4_fault none = {0}, write_error = {.fail_write_at = 5}, read_error = {.fail_read_at = 2};
	uint8_t *bytes = pattern(7);
	uint64_t node, done;
	struct world w;

	(void)state;
	rig_open(&w.rig, 64 * G4_MIB, 0);
	mount_behind_agent(&w, &queue, &none);
	assert_int_equal(op_mknod(&w.rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0644, &node), 0);
	g4_dev_fault_set(w.rig.fault, &write_error);
	int rc = op_write(&w.rig, node, 0, 0, bytes, BIG_BYTES, &done);
	assert_true(rc == -G4_E_IO || (rc == 0 && done < BIG_BYTES)); /* what was written is told */
	g4_dev_fault_set(w.rig.fault, &none);
	assert_int_equal(op_write(&w.rig, node, 0, 0, bytes, BIG_BYTES, &done), 0);
	assert_int_equal(done, BIG_BYTES);
	assert_int_equal(op_fsync(&w.rig, node), 0);
	g4_dev_fault_set(w.rig.fault, &read_error);
	rc = op_read(&w.rig, node, 0, 0, bytes, BIG_BYTES, &done);
	assert_true(rc == -G4_E_IO || (rc == 0 && done < BIG_BYTES));
	g4_dev_fault_set(w.rig.fault, &none);
	expect_pattern(&w.rig, node, 7);
	assert_int_equal(rig_unmount(&w.rig), 0);
	rig_expect_clean(&w.rig, RIG_ANY_FREE, "after errors");
	rig_mount(&w.rig);
	expect_pattern(&w.rig, node, 7);
	free(bytes);
	rig_close(&w.rig);
}

/* What was synced is there after the device came back, whenever it went; and nobody waits for it for ever. */
static void a_device_that_vanishes_loses_nothing_that_was_synced(void **state)
{
	const struct g4_agent_options queue = {.slots = 4, .chunk_bytes = 65536};
	uint8_t *bytes = pattern(8);

	(void)state;
	for (uint64_t cut = 1; cut < 40; cut += rig_slow() ? 7 : 2) {
		const struct g4_fault none = {0}, gone = {.cut_after_writes = cut};
		uint64_t node, other, done;
		struct g4_attr attr;
		struct world w;

		rig_open(&w.rig, 32 * G4_MIB, 0);
		mount_behind_agent(&w, &queue, &none);
		assert_int_equal(op_mknod(&w.rig, G4_NODE_ROOT, "kept", G4_S_IFREG | 0644, &node), 0);
		assert_int_equal(op_write(&w.rig, node, 0, 0, bytes, BIG_BYTES, &done), 0);
		assert_int_equal(op_fsync(&w.rig, node), 0);
		g4_dev_fault_set(w.rig.fault, &gone);
		int rc = op_mknod(&w.rig, G4_NODE_ROOT, "other", G4_S_IFREG | 0644, &other);
		for (int i = 0; i < 4 && rc == 0; i++) {
			rc = op_write(&w.rig, other, 0, (uint64_t)i * BIG_BYTES, bytes, BIG_BYTES, &done);
			rc = rc < 0 || done < BIG_BYTES ? -G4_E_IO : op_fsync(&w.rig, other);
		}
		if (cut < 20)
			assert_true(rc < 0);
		rig_unmount(&w.rig); /* fails where the device was gone before */
		rig_mount(&w.rig);
		assert_int_equal(op_lookup(&w.rig, G4_NODE_ROOT, "kept", &attr), 0);
		expect_pattern(&w.rig, attr.ino, 8);
		assert_int_equal(rig_unmount(&w.rig), 0);
		rig_expect_clean(&w.rig, RIG_ANY_FREE, "after the device came back");
		rig_close(&w.rig);
	}
	free(bytes);
}

static void what_was_synced_survives_a_stop_without_unmount(void **state)
{
	const struct g4_agent_options queue = {.slots = 8, .chunk_bytes = 65536};
	uint8_t *bytes = pattern(9);
	struct g4_attr attr;
	uint64_t node, done;
	struct world w;

	(void)state;
	rig_open(&w.rig, 32 * G4_MIB, 0);
	mount_behind_agent(&w, &queue, NULL);
	assert_int_equal(op_mknod(&w.rig, G4_NODE_ROOT, "f", G4_S_IFREG | 0644, &node), 0);
	assert_int_equal(op_write(&w.rig, node, 0, 0, bytes, BIG_BYTES, &done), 0);
	assert_int_equal(op_fsync(&w.rig, node), 0);
	assert_int_equal(op_mknod(&w.rig, G4_NODE_ROOT, "later", G4_S_IFREG | 0644, &node), 0);
	rig_abandon(&w.rig);
	rig_mount(&w.rig);
	assert_int_equal(op_lookup(&w.rig, G4_NODE_ROOT, "f", &attr), 0);
	expect_pattern(&w.rig, attr.ino, 9);
	assert_int_equal(rig_unmount(&w.rig), 0);
	rig_expect_clean(&w.rig, RIG_ANY_FREE, "after a replay");
	free(bytes);
	rig_close(&w.rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(operations_match_the_model),
		cmocka_unit_test(operations_match_the_model_with_one_short_slot),
		cmocka_unit_test(operations_match_the_model_on_a_slow_device),
		cmocka_unit_test(threads_share_a_short_queue),
		cmocka_unit_test(an_error_is_the_commands_and_passes),
		cmocka_unit_test(a_device_that_vanishes_loses_nothing_that_was_synced),
		cmocka_unit_test(what_was_synced_survives_a_stop_without_unmount),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
