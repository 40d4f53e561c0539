/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a controller says without being asked: warnings of its health, a namespace that shrinks or grows, errors, and what nobody knows; and
 * one that says it without an end, or not what it was.
 */
#define _GNU_SOURCE 1
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dev/nvme/events_host.h"
#include "dev/nvme/recovery_host.h"
#include "engine/engine.h"
#include "fs/mkfs_host.h"
#include "unit/nvme/emulated.h"

#define DAY_NS UINT64_C(86400000000000)
#define BLOCKS (16 * G4_MIB / 512)

static struct g4_dev *dev;
static struct g4_nvme *nvme;
static int log_file, log_before;

static void open_with(const struct g4_emu_options *emulated)
{
	const struct g4_nvme_options options = {.queues = 1, .admin_timeout_ns = SHORT_NS};

	host_side = dev = open_emulated(open_device("mem:16M"), emulated, &options);
	nvme = g4_nvme_of(dev);
}

static int begin(void **state)
{
	const int rc = begin_emulated(state);

	log_before = dup(STDERR_FILENO);
	log_file = memfd_create("log", MFD_CLOEXEC);
	if (log_before < 0 || log_file < 0 || dup2(log_file, STDERR_FILENO) < 0)
		return -1;
	g4_log_set_level(G4_LOG_INFO);
	open_with(NULL);
	return rc;
}

static int end(void **state)
{
	if (dev)
		g4_dev_close(dev);
	if (dup2(log_before, STDERR_FILENO) < 0)
		return -1;
	close(log_before);
	close(log_file);
	return end_emulated(state);
}

/* How often the log says it. */
static uint32_t said(const char *what)
{
	char text[65536];
	const ssize_t bytes = pread(log_file, text, sizeof(text) - 1, 0);
	uint32_t count = 0;

	assert_true(bytes >= 0);
	text[bytes] = '\0';
	for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
		count++;
	return count;
}

/* As a thread that waits does now and then; what is begun, another one does. */
static void look(void)
{
	g4_nvme_check_at(nvme, g4_monotonic_ns());
	sched_yield();
}

static bool is_quiet(void)
{
	return g4_load32_acq(&nvme->state) == G4_NVME_WORKS && g4_emu_awaited(emu) == 1;
}

/* Until it was heard of, and the next one is asked for. */
static void until_events_are(uint32_t count)
{
	while (g4_load32_acq(&nvme->state) != G4_NVME_WORKS || nvme->events < count)
		look();
	while (!is_quiet())
		look();
	assert_int_equal(nvme->events, count);
}

static void report(uint32_t event)
{
	set((struct g4_emu_faults){.event = event});
}

/* ---- tests ---- */

static void one_is_always_asked_for(void **state)
{
	(void)state;
	until_events_are(0);
	set((struct g4_emu_faults){.fatal_at = 1});
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), 0);
	until_events_are(0);
	assert_int_equal(g4_nvme_device_counts(host_side).resets, 1);
	report(G4_NVME_EVENT(G4_NVME_EVENT_ERROR, G4_NVME_ERROR_NO_QUEUE, G4_NVME_LOG_ERRORS));
	until_events_are(1);
}

/* It is with the controller for as long as there is nothing to say. */
static void a_request_for_events_is_never_late(void **state)
{
	struct g4_nvme_finding finding;

	(void)state;
	until_events_are(0);
	assert_false(g4_nvme_find(nvme, g4_monotonic_ns() + DAY_NS, &finding));
	all_shapes(dev);
	assert_int_equal(g4_nvme_device_counts(host_side).aborted, 0);
	assert_int_equal(g4_nvme_device_counts(host_side).resets, 0);
	assert_int_equal(g4_nvme_device_counts(host_side).stray, 0);
}

static void each_warning_is_told_once(void **state)
{
	(void)state;
	set((struct g4_emu_faults){.warnings = 2});
	until_events_are(1);
	set((struct g4_emu_faults){.warnings = 2 | 8});
	until_events_are(2);
	set((struct g4_emu_faults){.warnings = 0});
	set((struct g4_emu_faults){.warnings = 0x1f});
	until_events_are(3);
	assert_int_equal(nvme->warnings, 0x1f);
	assert_int_equal(said("the drive warns that"), 5);
	for (uint32_t bit = 1; bit <= 16; bit <<= 1)
		assert_int_equal(said(g4_nvme_warning(bit)), 1);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
}

/* What is there can be read; nothing is written, for what belongs to it may be beyond its end. */
static void a_namespace_that_shrinks_is_only_read(void **state)
{
	(void)state;
	write_and_read(dev, 0, 0, 65536, 0);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	set((struct g4_emu_faults){.blocks = BLOCKS / 2});
	until_events_are(1);
	assert_int_equal(said("namespace 1 has shrunk from 16777216 to 8388608 bytes while it is used"), 1);
	assert_int_equal(g4_dev_flush(wg, dev), -G4_E_IO);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, 0), -G4_E_IO);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, G4_IO_FUA), -G4_E_IO);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 65536), 0);
	check(buffer, 65536, 0, 65536);
	assert_int_equal(g4_dev_read(wg, dev, 9 * G4_MIB, buffer, 4096), -G4_E_DEV_RANGE);
	set((struct g4_emu_faults){.blocks = BLOCKS / 4}); /* it is told once */
	until_events_are(2);
	set((struct g4_emu_faults){0}); /* and stays so, whatever it becomes later */
	until_events_are(3);
	assert_int_equal(said("while it is used"), 1);
	assert_int_equal(g4_dev_flush(wg, dev), -G4_E_IO);
}

static int make_directory(struct g4_engine *engine, const char *name)
{
	static const struct g4_cred root = {0};
	struct g4_attr attr;
	struct g4_cmd make = {.op = G4_CMD_MKDIR,
			      .node = G4_NODE_ROOT,
			      .mode = 0755,
			      .name = name,
			      .name_bytes = (uint16_t)strlen(name),
			      .attr = &attr,
			      .cred = &root};

	return g4_engine_execute(engine, &make);
}

static int sync_all(struct g4_engine *engine)
{
	struct g4_cmd sync = {.op = G4_CMD_SYNCFS};

	return g4_engine_execute(engine, &sync);
}

/* By its next commit, and its server says why. */
static void a_file_system_in_one_that_shrinks_becomes_read_only(void **state)
{
	const struct g4_mkfs_options format = {.checksum = g4_policy_of(G4_CHECKSUM_BLAKE3)};
	const struct g4_mount_options options = {
		.kind = G4_ENGINE_CPU, .commit_ms = 1000000, .cache_bytes = 4 * G4_MIB};
	struct g4_superblock sb;
	struct g4_engine *engine;

	(void)state;
	assert_int_equal(g4_mkfs(dev, &format, &sb, message, sizeof(message)), 0);
	struct g4_dev *const medium = dev;
	dev = NULL; /* the engine's */
	assert_int_equal(g4_engine_mount_device(medium, &options, &engine, message, sizeof(message)), 0);
	assert_int_equal(make_directory(engine, "before"), 0);
	assert_int_equal(sync_all(engine), 0);
	set((struct g4_emu_faults){.blocks = BLOCKS / 2});
	until_events_are(1);
	assert_int_equal(make_directory(engine, "after"), 0);
	assert_true(sync_all(engine) < 0);
	assert_int_equal(make_directory(engine, "never"), -G4_E_ROFS);
	assert_int_equal(said("namespace 1 has shrunk"), 1);
	assert_true(g4_engine_unmount(engine) < 0);
}

static void lanes_hear_of_a_namespace_that_shrinks(void **state)
{
	const struct g4_nvme_options options = {.queues = 1};

	(void)state;
	g4_dev_close(dev);
	dev = open_lanes(open_device("mem:16M"), NULL, &options, NULL);
	nvme = g4_nvme_of(host_side);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	set((struct g4_emu_faults){.blocks = BLOCKS / 2});
	until_events_are(1);
	while (g4_dev_flush(wg, dev) == 0)
		sched_yield();
	assert_int_equal(g4_dev_flush(wg, dev), -G4_E_IO);
	assert_int_equal(g4_dev_write(wg, dev, 0, buffer, 4096, G4_IO_FUA), -G4_E_IO);
	assert_int_equal(g4_dev_read(wg, dev, 0, buffer, 4096), 0);
}

static void a_namespace_that_grows_is_used_as_it_was(void **state)
{
	const struct g4_emu_options small = {.lies = G4_EMU_HALF};

	(void)state;
	g4_dev_close(dev);
	open_with(&small);
	set((struct g4_emu_faults){.blocks = 4 * BLOCKS}); /* half of it, which it tells, is twice what it was */
	until_events_are(1);
	assert_int_equal(said("has grown to"), 1);
	all_shapes(dev);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	set((struct g4_emu_faults){.blocks = BLOCKS}); /* as large as it was */
	until_events_are(2);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
	set((struct g4_emu_faults){.blocks = BLOCKS / 4});
	until_events_are(3);
	assert_int_equal(said("has grown to"), 1);
	assert_int_equal(said("has shrunk"), 1);
	assert_int_equal(g4_dev_flush(wg, dev), -G4_E_IO);
}

static void an_error_that_stays_is_a_reset(void **state)
{
	(void)state;
	report(G4_NVME_EVENT(G4_NVME_EVENT_ERROR, G4_NVME_ERROR_STAYS, G4_NVME_LOG_ERRORS));
	while (g4_nvme_device_counts(host_side).resets == 0 || !is_quiet())
		look();
	assert_int_equal(said("reports an error inside that stays; it is reset"), 1);
	all_shapes(dev);
}

/* Logs that there are, and such that there are not. */
static void others_are_told_or_forgotten(void **state)
{
	uint32_t count = 0;

	(void)state;
	for (uint32_t type = 0; type < 8; type++)
		for (uint32_t what = 0; what < 8; what++) {
			const uint32_t log = (type + what) % 5 + (type == 7 ? 0xc0 : 0);
			const bool wanted = type != G4_NVME_EVENT_HEALTH &&
					    (type != G4_NVME_EVENT_NOTICE || what <= G4_NVME_NOTICE_FIRMWARE);
			if (!wanted || (type == G4_NVME_EVENT_ERROR && what == G4_NVME_ERROR_STAYS) ||
			    (type | what | log) == 0)
				continue;
			for (uint32_t turn = 0; turn < 2; turn++) {
				report(G4_NVME_EVENT(type, what, log));
				until_events_are(++count);
			}
		}
	assert_int_equal(said("a value that is none"), 1);
	assert_int_equal(said("other firmware"), 2);
	assert_int_equal(g4_nvme_device_counts(host_side).resets, 0);
	assert_int_equal(g4_dev_flush(wg, dev), 0);
}

static void events_without_an_end_are_not_asked_for_any_more(void **state)
{
	(void)state;
	set((struct g4_emu_faults){.event = G4_NVME_EVENT(7, 1, 0), .floods = true});
	while (g4_load32_acq(&nvme->state) != G4_NVME_WORKS || nvme->events <= G4_NVME_EVENTS_MOST)
		look();
	assert_int_equal(said("events without an end"), 1);
	assert_int_equal(g4_emu_awaited(emu), 0);
	all_shapes(dev);
}

/* Its log does not come: requests work, so it is not worth a reset. */
static void a_log_without_an_answer_is_the_last_one(void **state)
{
	(void)state;
	until_events_are(0);
	set((struct g4_emu_faults){.event = G4_NVME_EVENT(G4_NVME_EVENT_HEALTH, 1, G4_NVME_LOG_HEALTH),
				   .warnings = 1,
				   .holds_admin = true});
	while (said("does not say more of an event") == 0)
		look();
	set((struct g4_emu_faults){0});
	while (g4_load32_acq(&nvme->state) != G4_NVME_WORKS)
		look();
	assert_int_equal(g4_nvme_device_counts(host_side).resets, 0);
	all_shapes(dev);
}

static void a_controller_without_events_will_do(void **state)
{
	const struct g4_emu_options options = {.lies = G4_EMU_NO_EVENTS};

	(void)state;
	g4_dev_close(dev);
	open_with(&options);
	while (g4_load32_acq(&nvme->listens))
		look();
	set((struct g4_emu_faults){.warnings = 1});
	all_shapes(dev);
	assert_int_equal(nvme->events, 0);
}

#define EVENTS_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		EVENTS_TEST(one_is_always_asked_for),
		EVENTS_TEST(a_request_for_events_is_never_late),
		EVENTS_TEST(each_warning_is_told_once),
		EVENTS_TEST(a_namespace_that_shrinks_is_only_read),
		EVENTS_TEST(a_file_system_in_one_that_shrinks_becomes_read_only),
		EVENTS_TEST(lanes_hear_of_a_namespace_that_shrinks),
		EVENTS_TEST(a_namespace_that_grows_is_used_as_it_was),
		EVENTS_TEST(an_error_that_stays_is_a_reset),
		EVENTS_TEST(others_are_told_or_forgotten),
		EVENTS_TEST(events_without_an_end_are_not_asked_for_any_more),
		EVENTS_TEST(a_log_without_an_answer_is_the_last_one),
		EVENTS_TEST(a_controller_without_events_will_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
