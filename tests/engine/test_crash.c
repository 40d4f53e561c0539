/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power cuts. A workload of one or two operations, with or without a sync between them, runs on a small populated image
 * behind the fault device; the power is cut at every write, by every rule for what an unflushed write leaves. After
 * recovery:
 *   - the names form one of the states between the last sync and the end, never something else;
 *   - every page of every file is what it was at one of these points, and the size is too;
 *   - the checker finds nothing, no orphan is left, and the free space is what it counts.
 * What states there are, a run without faults tells. G4_CRASH_SEED and G4_CRASH_SHARE (of a thousand pairs) vary it.
 */
#include "crash.h"

#include "fs/fs.h"

#define DEVICE_BYTES (8 * G4_MIB)
#define JOURNAL_BYTES (2 * G4_MIB)
#define NO_LIMIT UINT64_MAX

static uint8_t *base; /* the populated image */

static void reset(struct rig *rig)
{
	rig_copy(rig->image, base, DEVICE_BYTES);
}

static uint64_t explored;

/* One cut; returns whether the workload got that far. */
static bool crash_once(struct rig *rig, struct workload *w, const struct g4_fault *fault, uint64_t recovery_cut)
{
	struct progress progress = {0};
	struct g4_statfs statfs;

	reset(rig);
	if (rig_try_mount(rig, 0, fault) == 0) {
		crash_run(rig, w, &progress, false);
		if (recovery_cut == NO_LIMIT && progress.reached == w->count) {
			/* the unmount is part of it: everything goes home */
			rig_unmount(rig);
		} else {
			g4_dev_fault_cut(rig->fault);
			rig_abandon(rig);
		}
	}
	if (recovery_cut != NO_LIMIT) { /* the power goes again while recovery writes */
		const struct g4_fault again = {.cut_after_writes = recovery_cut, .seed = fault->seed};
		if (rig_try_mount(rig, 0, &again) == 0) {
			g4_dev_fault_cut(rig->fault);
			rig_abandon(rig);
		}
	}
	if (rig_try_mount(rig, 0, NULL) < 0)
		bad(w, fault, "the image does not mount");
	assert_int_equal(op_statfs(rig, &statfs), 0);
	crash_check(rig, w, fault, &progress);
	if (rig_unmount(rig) < 0)
		bad(w, fault, "it does not unmount");
	char *text = NULL;
	struct rig_verdict verdict = rig_fsck(rig, &text);
	if (verdict.problems > 0 || verdict.orphans > 0)
		bad(w, fault, "%lu problems, %lu orphans\n%s", (unsigned long)verdict.problems,
		    (unsigned long)verdict.orphans, text);
	if (verdict.free_pages != statfs.blocks_free)
		bad(w, fault, "%lu pages are free, statfs said %lu", (unsigned long)verdict.free_pages,
		    (unsigned long)statfs.blocks_free);
	free(text);
	explored++;
	return true;
}

/* The run without faults: states and number of writes. */
static void rehearse(struct rig *rig, struct workload *w)
{
	const struct g4_fault none = {0};
	struct progress progress = {0};
	uint64_t reads, flushes;

	reset(rig);
	assert_int_equal(rig_try_mount(rig, 0, &none), 0);
	w->state_count = 0;
	crash_see(rig, &w->states[w->state_count++]);
	rig_abandon(rig);
	reset(rig);
	assert_int_equal(rig_try_mount(rig, 0, &none), 0);
	crash_run(rig, w, &progress, true);
	rig_abandon(rig);
	/* looking changes when inodes are logged; count without */
	reset(rig);
	assert_int_equal(rig_try_mount(rig, 0, &none), 0);
	crash_run(rig, w, &progress, false);
	struct g4_dev *dev = rig->fault;
	assert_int_equal(op_sync(rig), 0);
	g4_dev_fault_counts(dev, &reads, &w->writes, &flushes);
	w->writes += 12; /* what an unmount writes at most here */
	rig_abandon(rig);
}

static void explore(struct rig *rig, struct workload *w, uint64_t seed, uint64_t every)
{
	rehearse(rig, w);
	for (uint64_t n = 1 + seed % every; n <= w->writes; n += every) {
		uint64_t rule = rig_random(&seed);
		struct g4_fault fault = {.cut_after_writes = n};
		switch (rule % 5) {
		case 0:
			fault.keep_unflushed = true;
			break;
		case 1:
			break;
		case 2:
			fault.cut_inside = true;
			fault.seed = rule | 1;
			break;
		case 3:
			fault.cut_inside = true;
			fault.keep_unflushed = true;
			break;
		default:
			fault.seed = rule | 1;
			break;
		}
		crash_once(rig, w, &fault, rule % 7 == 0 ? 1 + (rule >> 8) % 12 : NO_LIMIT);
	}
	for (uint32_t s = 0; s < w->state_count; s++)
		crash_forget(&w->states[s]);
}

static void prepare(struct rig *rig)
{
	crash_pattern = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, 2 * G4_MIB);
	base = (uint8_t *)malloc(DEVICE_BYTES);
	assert_non_null(crash_pattern);
	assert_non_null(base);
	rig_open(rig, DEVICE_BYTES, JOURNAL_BYTES);
	rig->cache_bytes = 4 * G4_MIB;
	rig_mount(rig);
	crash_populate(rig);
	assert_int_equal(rig_unmount(rig), 0);
	rig_copy(base, rig->image, DEVICE_BYTES);
	explored = 0;
}

static void finish(struct rig *rig)
{
	print_message("%lu crashes\n", (unsigned long)explored);
	rig_close(rig);
	free(base);
	free(crash_pattern);
}

static struct workload workload;

static void every_operation_survives_every_cut(void **state)
{
	uint64_t seed = rig_setting("G4_CRASH_SEED", 1);
	struct rig rig;

	(void)state;
	print_message("seed %lu\n", (unsigned long)seed);
	prepare(&rig);
	for (uint32_t k = 0; k < crash_operation_count; k++)
		for (uint32_t kind = 0; kind < 3; kind++) {
			if (!crash_takes(k, kind))
				continue;
			workload = (struct workload){.steps = {&crash_operations[k]}, .count = 1};
			workload.syncs = kind > 0;
			workload.everything = kind == 2;
			explore(&rig, &workload, rig_random(&seed), rig_every(4));
		}
	finish(&rig);
}

static void pairs_of_operations_survive_cuts(void **state)
{
	uint64_t seed = rig_setting("G4_CRASH_SEED", 2), share = rig_setting("G4_CRASH_SHARE", rig_slow() ? 15 : 90);
	struct rig rig;

	(void)state;
	print_message("seed %lu\n", (unsigned long)seed);
	prepare(&rig);
	for (uint32_t a = 0; a < crash_operation_count; a++)
		for (uint32_t b = 0; b < crash_operation_count; b++) {
			if (rig_random(&seed) % 1000 >= share)
				continue;
			workload = (struct workload){.steps = {&crash_operations[a], &crash_operations[b]}, .count = 2};
			workload.syncs = (uint32_t)rig_random(&seed) % 4;
			workload.everything = rig_random(&seed) % 3 == 0;
			explore(&rig, &workload, rig_random(&seed), 1 + rig_every(4));
		}
	finish(&rig);
}

#define NO_LIMIT UINT64_MAX

/* ------------------------------------------------------------------ errors of the device */

enum failing { READS, WRITES, FLUSHES };

/* One operation on a device that fails once; whatever it says, the image is whole afterwards. */
static bool fail_once(struct rig *rig, struct workload *w, enum failing what, uint64_t n)
{
	struct g4_fault fault = {0};
	struct progress progress = {0};
	uint64_t counts[3];

	reset(rig);
	if (rig_try_mount(rig, 0, &fault) < 0)
		bad(w, &fault, "the image does not mount");
	g4_dev_fault_counts(rig->fault, &counts[READS], &counts[WRITES], &counts[FLUSHES]);
	uint64_t before = counts[what];
	fault.fail_read_at = what == READS ? n : 0;
	fault.fail_write_at = what == WRITES ? n : 0;
	fault.fail_flush_at = what == FLUSHES ? n : 0;
	g4_dev_fault_set(rig->fault, &fault);
	crash_run(rig, w, &progress, false);
	(void)op_sync(rig);
	g4_dev_fault_counts(rig->fault, &counts[READS], &counts[WRITES], &counts[FLUSHES]);
	bool reached = counts[what] - before >= n;
	(void)rig_unmount(rig);
	if (rig_try_mount(rig, 0, NULL) < 0)
		bad(w, &fault, "after failure %lu of kind %d the image does not mount", (unsigned long)n, (int)what);
	crash_check(rig, w, &fault, &progress);
	assert_int_equal(rig_unmount(rig), 0);
	char *text = NULL;
	struct rig_verdict verdict = rig_fsck(rig, &text);
	/* a second superblock that could not be written is told, and no harm */
	if (verdict.problems > 0 || verdict.orphans > 0)
		bad(w, &fault, "failure %lu of kind %d: %lu problems, %lu orphans\n%s", (unsigned long)n, (int)what,
		    (unsigned long)verdict.problems, (unsigned long)verdict.orphans, text);
	free(text);
	explored++;
	return reached;
}

static void every_operation_survives_a_device_that_fails_once(void **state)
{
	struct rig rig;

	(void)state;
	prepare(&rig);
	for (uint32_t k = 0; k < crash_operation_count; k += (uint32_t)rig_every(3)) {
		workload = (struct workload){.steps = {&crash_operations[k]}, .count = 1, .syncs = 1};
		rehearse(&rig, &workload);
		for (uint32_t what = READS; what <= FLUSHES; what++)
			for (uint64_t n = 1; n < 60 && fail_once(&rig, &workload, (enum failing)what, n); n++)
				;
		for (uint32_t s = 0; s < workload.state_count; s++)
			crash_forget(&workload.states[s]);
	}
	finish(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_survives_every_cut),
		cmocka_unit_test(pairs_of_operations_survive_cuts),
		cmocka_unit_test(every_operation_survives_a_device_that_fails_once),
	};
	cmocka_set_test_filter(getenv("CMOCKA_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
