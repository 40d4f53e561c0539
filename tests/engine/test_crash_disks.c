/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Power cuts of file systems of several disks. Each operation of the crash explorer runs with copies on two disks, or on
 * three; the power fails at any request to any of them, each keeps some of what it had not flushed, and any disks but one are
 * lost with it. And with files whose level is another one than that of what leads to them, on three disks of which one is
 * lost. What is found then is judged as on one disk (test_crash.c). G4_CRASH_SEED varies it; the power fails at each
 * G4_CRASH_EVERY-th request from a random one on.
 */
#include "crash.h"
#include "disks.h"

#include "fs/resize_host.h"

#define SMALL_BYTES (11 * G4_MIB)
#define LEVELS_BYTES (26 * G4_MIB) /* of which half are of copies, and there is a log */
#define MOST_MARKS 16u

struct run {
	struct disks d, crashed;
	struct disks_order *order;
	struct faulty f;
	uint8_t *base[MOST_DISKS]; /* populated */
	struct mark {
		uint32_t at; /* requests */
		struct progress progress;
	} marks[MOST_MARKS];
	uint32_t mark_count, lost; /* disks that may be, at a time */
	uint64_t states;
};

static void note_progress(const struct progress *progress)
{
	struct run *run = (struct run *)progress->context;

	assert_true(run->mark_count < MOST_MARKS);
	run->marks[run->mark_count++] = (struct mark){__atomic_load_n(&run->order->count, __ATOMIC_RELAXED), *progress};
}

/* What had been begun and synced before request `at`. */
static struct progress progress_at(const struct run *run, uint32_t at)
{
	struct progress progress = {0};

	for (uint32_t m = 0; m < run->mark_count; m++)
		if (run->marks[m].at <= at)
			progress = run->marks[m].progress;
	return progress;
}

static void restore(struct run *run)
{
	for (uint32_t n = 0; n < run->d.count; n++)
		rig_copy(run->d.memory[n], run->base[n], run->d.bytes[n]);
}

static void judge(struct run *run, const struct workload *w, uint32_t at, uint32_t which)
{
	const struct g4_fault fault = {.cut_after_writes = at, .seed = which};
	const struct progress progress = progress_at(run, at);

	if (disks_try_mount(&run->crashed, which, which != (1u << run->d.count) - 1) < 0)
		bad(w, &fault, "with disks %u it does not mount: %s", which, run->crashed.message);
	crash_check(&run->crashed.rig, w, &fault, &progress);
	disks_unmount(&run->crashed);
	if (run->lost + 1 < run->d.count)
		disks_expect_clean(&run->crashed, which);
	/* whichever was there has all of it by itself */
	for (uint32_t n = 0; n < run->d.count && run->lost + 1 == run->d.count; n++)
		if (which >> n & 1)
			disks_expect_clean(&run->crashed, 1u << n);
	run->states++;
}

static void explore(struct run *run, struct workload *w, uint64_t seed, uint32_t every)
{
	struct progress progress = {0};

	restore(run);
	disks_mount(&run->d, (1u << run->d.count) - 1);
	w->state_count = 0;
	crash_see(&run->d.rig, &w->states[w->state_count++]);
	disks_unmount(&run->d);
	restore(run);
	disks_mount(&run->d, (1u << run->d.count) - 1);
	crash_run(&run->d.rig, w, &progress, true);
	disks_unmount(&run->d);
	/* as it is cut off */
	restore(run);
	memset(run->order, 0, sizeof(*run->order));
	run->mark_count = 0;
	progress = (struct progress){.changed = note_progress, .context = run};
	disks_open_faulty(&run->d, &run->f);
	disks_watch(&run->d, &run->f, run->order);
	disks_mount_faulty(&run->d, &run->f);
	crash_run(&run->d.rig, w, &progress, false);
	assert_int_equal(op_sync(&run->d.rig), 0);
	const uint32_t total = run->order->count;
	for (uint32_t at = (uint32_t)(seed % every); at <= total; at += every)
		for (uint32_t which = 1; which < 1u << run->d.count; which++) {
			if (run->d.count - (uint32_t)__builtin_popcount(which) > run->lost)
				continue;
			disks_crash(&run->crashed, run->base, &run->f, run->order, at, &seed);
			judge(run, w, at, which);
		}
	disks_unmount(&run->d);
	for (uint32_t s = 0; s < w->state_count; s++)
		crash_forget(&w->states[s]);
}

/* Two copies, and all files in chunks of RAID 5. */
static void format_levels(struct disks *d)
{
	const struct g4_set_plan plan = {.raid = G4_RAID_1, .copies = 2, .leave_percent = 50};
	struct g4_dev *set;
	uint64_t bytes;

	disks_format_plan(d, &plan, G4_CHECKSUM_NONE);
	assert_int_equal(disks_try_open(d, (1u << d->count) - 1, false, 0, &set), 0);
	assert_int_equal(g4_set_assign_to(set, G4_LEVEL_PARITY, 0, d->message, sizeof(d->message)), 0);
	assert_int_equal(g4_resize_device(set, 0, &bytes, d->message, sizeof(d->message)), 0);
	g4_dev_close(set);
	disks_mount(d, (1u << d->count) - 1);
	assert_int_equal(op_setxattr(&d->rig, G4_NODE_ROOT, "gpu4fs.raid", "5", 1, 0), 0);
	disks_unmount(d);
}

/* operation NULL: each of the crash explorer's, or some of them. */
static void explore_all(uint32_t disks, bool levels, const struct operation *operation, uint32_t every_operation,
			uint32_t every_request)
{
	const uint64_t size = levels ? LEVELS_BYTES : SMALL_BYTES, bytes[MOST_DISKS] = {size, size, size};
	struct run *run = (struct run *)calloc(1, sizeof(*run));
	struct workload *w = (struct workload *)malloc(sizeof(*w));
	uint64_t seed = rig_setting("G4_CRASH_SEED", 1);

	print_message("seed %lu\n", (unsigned long)seed);
	crash_pattern = (uint8_t *)aligned_alloc(G4_PAGE_BYTES, 2 * G4_MIB);
	run->order = (struct disks_order *)calloc(1, sizeof(*run->order));
	disks_make(&run->d, disks, bytes);
	disks_make(&run->crashed, disks, bytes);
	run->lost = levels ? 1 : disks - 1;
	if (levels)
		format_levels(&run->d);
	else
		disks_format_copies(&run->d, G4_RAID_1, disks, G4_CHECKSUM_NONE);
	disks_mount(&run->d, (1u << disks) - 1);
	crash_populate(&run->d.rig);
	disks_unmount(&run->d);
	for (uint32_t n = 0; n < disks; n++) {
		run->base[n] = (uint8_t *)malloc(run->d.bytes[n]);
		rig_copy(run->base[n], run->d.memory[n], run->d.bytes[n]);
	}
	for (uint32_t k = 0; k < (operation ? 1 : crash_operation_count); k += every_operation)
		for (uint32_t kind = 0; kind < 3; kind++) {
			if (!crash_takes(k / every_operation, kind))
				continue;
			*w = (struct workload){.steps = {operation ? operation : &crash_operations[k]}, .count = 1};
			w->syncs = kind > 0;
			w->everything = kind == 2;
			explore(run, w, rig_random(&seed), every_request);
		}
	print_message("%lu states\n", (unsigned long)run->states);
	for (uint32_t n = 0; n < disks; n++)
		free(run->base[n]);
	disks_free(&run->crashed);
	disks_free(&run->d);
	free(run->order);
	free(run);
	free(w);
	free(crash_pattern);
}

static void every_operation_survives_on_either_of_two_disks(void **state)
{
	(void)state;
	explore_all(2, false, NULL, 1, (uint32_t)rig_setting("G4_CRASH_EVERY", 3 * rig_every(4)));
}

static void operations_survive_on_any_of_three_disks(void **state)
{
	(void)state;
	explore_all(3, false, NULL, 4, (uint32_t)rig_setting("G4_CRASH_EVERY", 5 * rig_every(4)));
}

static void files_of_another_level_survive_on_any_two_of_three_disks(void **state)
{
	(void)state;
	explore_all(3, true, NULL, 5, (uint32_t)rig_setting("G4_CRASH_EVERY", 9 * rig_every(4)));
}

/* Files are made at the one level and moved to the other; nothing but where they lie changes. */
static int move_files(struct rig *rig)
{
	static const char *const names[] = {"b", "big", "holes"};
	struct g4_restriped told;
	struct g4_attr attr;
	int rc = 0;

	for (uint32_t k = 0; k < 3 && rc == 0; k++) {
		struct g4_cmd cmd = {.op = G4_CMD_RESTRIPE, .data = &told, .length = sizeof(told)};

		rc = op_lookup(rig, G4_NODE_ROOT, names[k], &attr);
		if (rc == 0)
			rc = op_setxattr(rig, attr.ino, "gpu4fs.raid", "1", 1, 0);
		cmd.node = attr.ino;
		do {
			rc = rc == 0 ? g4_engine_execute(rig->engine, &cmd) : rc;
			assert_true(rc < 0 || told.moved > 0);
			cmd.offset = told.next;
		} while (rc == 0 && told.next > 0);
	}
	return rc;
}

static void files_that_are_moved_between_levels_survive(void **state)
{
	static const struct operation moving = {"restripe", move_files, NULL};

	(void)state;
	explore_all(3, true, &moving, 1, (uint32_t)rig_setting("G4_CRASH_EVERY", 3 * rig_every(4)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_operation_survives_on_either_of_two_disks),
		cmocka_unit_test(operations_survive_on_any_of_three_disks),
		cmocka_unit_test(files_that_are_moved_between_levels_survive),
		cmocka_unit_test(files_of_another_level_survive_on_any_two_of_three_disks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
