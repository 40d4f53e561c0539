/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine on an NVMe controller that is reset again and again while it works, through the host's queues and through lanes'. Without a
 * volatile cache nobody notices. With one, a reset drops what was not flushed, and then the power goes: what is found is what a power
 * cut may leave (test_crash.c), so no fsync has returned for what the reset took. G4_CRASH_SEED varies it.
 */
#include "crash.h"
#include "model.h"

#include "dev/nvme/device_host.h"
#include "dev/nvme/lanes_host.h"
#include "fs/fs.h"

#define DEVICE_BYTES (16 * G4_MIB)
#define JOURNAL_BYTES (2 * G4_MIB)
#define MANY_RESETS 100000u
#define MOST_COMMANDS 12u
#define LANE_QUEUES 3u
#define NEVER_MS 1000000u
#define BIG_WRITE 21u /* of crash_operations */

static struct rig rig;
static struct g4_dev *fault, *controller;
static struct g4_emu *emu;

static void mount_on_controller(bool lanes, uint32_t commit_ms, const struct g4_fault *settings)
{
	const struct g4_nvme_options queues = {
		.queues = 2, .slots = 32, .resets = MANY_RESETS, .lanes = lanes ? LANE_QUEUES : 0};
	const struct g4_mount_options options = {.commit_ms = commit_ms, .cache_bytes = rig.cache_bytes};
	char message[256] = "";
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};
	struct g4_dev *dev, *medium;

	assert_int_equal(g4_dev_open(rig.name, NULL, &medium, message, sizeof(message)), 0);
	assert_int_equal(g4_dev_fault_open(medium, &fault), 0);
	g4_dev_fault_set(fault, settings);
	assert_int_equal(g4_nvme_emu_device_open("emu:test", fault, NULL, &queues, &controller, &emu, sentence), 0);
	dev = controller;
	if (lanes)
		assert_int_equal(g4_dev_lanes_open(controller, NULL, &dev, (struct g4_dev_message){0}), 0);
	if (g4_engine_mount_device(dev, &options, &rig.engine, message, sizeof(message)) < 0)
		fail_msg("%s", message);
}

static void set(struct g4_emu_faults faults)
{
	g4_emu_set(emu, &faults);
}

/* ---- nothing to lose ---- */

static void expect_clean(struct model *model)
{
	struct g4_statfs statfs;

	model_compare(model, false);
	assert_int_equal(op_sync(&rig), 0);
	assert_int_equal(op_statfs(&rig, &statfs), 0);
	assert_true(g4_nvme_device_counts(controller).resets > 2);
	set((struct g4_emu_faults){0});
	assert_int_equal(rig_unmount(&rig), 0);
	rig_expect_clean(&rig, statfs.blocks_free, "after resets");
	rig_mount(&rig);
	model_compare(model, true);
}

static void run_model(bool lanes, struct g4_emu_faults faults)
{
	const struct g4_fault durable = {.write_through = true};
	const uint64_t steps = rig_setting("G4_MODEL_STEPS", 600);

	rig_open(&rig, DEVICE_BYTES, JOURNAL_BYTES);
	mount_on_controller(lanes, 20, &durable);
	struct model *model = model_new(&rig, 11, 'a', G4_NODE_ROOT, 0);
	set(faults);
	for (uint64_t n = 0; n < steps; n++)
		model_step(model);
	model_close_handles(model);
	expect_clean(model);
	assert_int_equal(rig_unmount(&rig), 0);
	model_free(model);
	rig_close(&rig);
}

static void resets_without_a_cache_are_not_noticed(void **state)
{
	(void)state;
	run_model(false, (struct g4_emu_faults){.reset_at = 17, .repeat = true, .shuffle = 5});
	run_model(true, (struct g4_emu_faults){.fatal_at = 23, .repeat = true});
}

/* ---- something to lose ---- */

static uint8_t *base; /* the populated image */
static struct workload workload;
static uint64_t explored, resets, noticed;

static void forget(void *context)
{
	(void)g4_dev_fault_cut(context);
	g4_dev_fault_power_on(context);
}

/* What states there are. */
static void rehearse(struct workload *w)
{
	const struct g4_fault none = {0};
	struct progress progress = {0};

	rig_copy(rig.image, base, DEVICE_BYTES);
	assert_int_equal(rig_try_mount(&rig, 0, &none), 0);
	w->state_count = 0;
	crash_see(&rig, &w->states[w->state_count++]);
	rig_abandon(&rig);
	rig_copy(rig.image, base, DEVICE_BYTES);
	assert_int_equal(rig_try_mount(&rig, 0, &none), 0);
	crash_run(&rig, w, &progress, true);
	rig_abandon(&rig);
}

/* The reset comes at the n-th command, and the power goes at the end. */
static void reset_once(struct workload *w, uint64_t n, uint64_t rule)
{
	const struct g4_fault settings = {.seed = rule & 1 ? rule | 1 : 0, .keep_unflushed = rule % 5 == 0};
	struct progress progress = {0};
	char *text = NULL;

	rig_copy(rig.image, base, DEVICE_BYTES);
	mount_on_controller(rule >> 3 & 1, NEVER_MS, &settings);
	set((struct g4_emu_faults){.fatal_at = n, .at_reset = forget, .context = fault});
	crash_run(&rig, w, &progress, false);
	const bool was_reset = g4_nvme_device_counts(controller).resets > 0;
	resets += was_reset;
	noticed += was_reset && op_sync(&rig) < 0;
	set((struct g4_emu_faults){0});
	g4_dev_fault_cut(fault);
	rig_abandon(&rig);
	if (rig_try_mount(&rig, 0, NULL) < 0)
		bad(w, &settings, "the image does not mount");
	crash_check(&rig, w, &settings, &progress);
	if (rig_unmount(&rig) < 0)
		bad(w, &settings, "it does not unmount");
	const struct rig_verdict verdict = rig_fsck(&rig, &text);
	if (verdict.problems > 0 || verdict.orphans > 0)
		bad(w, &settings, "%lu problems, %lu orphans\n%s", (unsigned long)verdict.problems,
		    (unsigned long)verdict.orphans, text);
	free(text);
	explored++;
}

/* An operation, and another one, each with a sync; the reset comes at one command after the other, or at any. */
static void explore(uint32_t operation, uint32_t times, uint64_t *seed)
{
	workload = (struct workload){.steps = {&crash_operations[operation], &crash_operations[operation / 2]},
				     .count = 2,
				     .syncs = 3,
				     .everything = operation % 2};
	rehearse(&workload);
	for (uint32_t i = 0; i < times; i++) {
		const uint64_t rule = rig_random(seed);
		reset_once(&workload, 1 + (times == MOST_COMMANDS ? i : rule >> 8) % MOST_COMMANDS, rule);
	}
	for (uint32_t s = 0; s < workload.state_count; s++)
		crash_forget(&workload.states[s]);
}

static void what_a_reset_takes_was_never_promised(void **state)
{
	uint64_t seed = rig_setting("G4_CRASH_SEED", 1);

	(void)state;
	print_message("seed %lu\n", (unsigned long)seed);
	crash_pattern = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, 2 * G4_MIB);
	base = (uint8_t *)malloc(DEVICE_BYTES);
	assert_non_null(crash_pattern);
	assert_non_null(base);
	rig_open(&rig, DEVICE_BYTES, JOURNAL_BYTES);
	rig_mount(&rig);
	crash_populate(&rig);
	assert_int_equal(rig_unmount(&rig), 0);
	rig_copy(base, rig.image, DEVICE_BYTES);
	explore(BIG_WRITE, MOST_COMMANDS, &seed); /* among them one that hits data, or the flush behind it */
	assert_true(noticed > 0);
	for (uint32_t k = 0; k < crash_operation_count; k += (uint32_t)rig_every(3))
		explore(k, 2, &seed);
	print_message("%lu runs, %lu resets, %lu of them noticed\n", (unsigned long)explored, (unsigned long)resets,
		      (unsigned long)noticed);
	rig_close(&rig);
	free(base);
	free(crash_pattern);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resets_without_a_cache_are_not_noticed),
		cmocka_unit_test(what_a_reset_takes_was_never_promised),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
