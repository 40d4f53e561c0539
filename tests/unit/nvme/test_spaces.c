/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several devices of one controller: namespaces and partitions that a process has open at a time, through one set of queues. What one
 * does is not the others': data, exclusiveness, flushes and what a reset has lost.
 */
#define _GNU_SOURCE 1
#include "files/dev/gpt_table.h"
#include "unit/nvme/emulated.h"

#define ADDRESS "ffff:1f:1f.7" /* of no device */

static struct g4_dev *media[2];
static bool opened;

/* The first open makes the controller; others find it, and close what they were given. */
static int open_where(uint32_t nsid, uint32_t partition, uint32_t flags, struct g4_dev **dev)
{
	const struct g4_dev_message sentence = {.text = message, .bytes = sizeof(message)};
	const struct g4_nvme_where where = {.nsid = nsid, .partition = partition};
	const struct g4_emu_options emulated = {.second = media[1]};
	const struct g4_dev_open_options options = {.flags = flags};
	struct g4_nvme_provider provider;

	if (!opened)
		assert_int_equal(g4_emu_open(media[0], &emulated, &emu, &provider), 0);
	const int rc = g4_nvme_drive_open("it", ADDRESS, &where, &options, opened ? NULL : &provider, dev, sentence);
	opened = true;
	return rc;
}

static struct g4_dev *must_open(uint32_t nsid, uint32_t partition, uint32_t flags)
{
	struct g4_dev *dev;

	if (open_where(nsid, partition, flags, &dev) < 0)
		fail_msg("%s", message);
	return dev;
}

static int begin(void **state)
{
	media[0] = open_device("mem:16M");
	media[1] = open_device("mem:8M");
	opened = false;
	return begin_emulated(state);
}
#define space_test(f) cmocka_unit_test_setup_teardown(f, begin, end_emulated)

static void two_namespaces_are_two_devices(void **state)
{
	struct g4_dev *first = must_open(1, 0, G4_DEV_EXCLUSIVE), *second = must_open(2, 0, G4_DEV_EXCLUSIVE);

	(void)state;
	assert_int_equal(g4_dev_props(first)->size_bytes, 16 * G4_MIB);
	assert_int_equal(g4_dev_props(second)->size_bytes, 8 * G4_MIB);
	assert_ptr_equal(g4_nvme_of(first), g4_nvme_of(second));
	all_shapes(first);
	all_shapes(second);
	fill(buffer, 8192, 0, 1);
	assert_int_equal(g4_dev_write(wg, first, 4096, buffer, 8192, 0), 0);
	fill(buffer, 8192, 0, 2);
	assert_int_equal(g4_dev_write(wg, second, 4096, buffer, 8192, 0), 0);
	assert_int_equal(g4_dev_read(wg, first, 4096, buffer, 8192), 0);
	check(buffer, 8192, 0, 1);
	assert_int_equal(g4_dev_write(wg, second, 8 * G4_MIB, buffer, 512, 0), -G4_E_DEV_RANGE);
	g4_dev_close(first);
	assert_int_equal(g4_dev_read(wg, second, 4096, buffer, 8192), 0); /* the controller stays */
	check(buffer, 8192, 0, 2);
	first = must_open(1, 0, 0);
	assert_int_equal(g4_dev_read(wg, first, 4096, buffer, 8192), 0);
	check(buffer, 8192, 0, 1);
	g4_dev_close(second);
	g4_dev_close(first);
}

struct both {
	pthread_t thread;
	struct g4_dev *dev;
};

static void *run_on(void *argument)
{
	run_workers(((struct both *)argument)->dev, 2, 10);
	return NULL;
}

static void threads_on_both_share_queues(void **state)
{
	struct both both[2] = {{.dev = must_open(1, 0, 0)}, {.dev = must_open(2, 0, 0)}};

	(void)state;
	g4_emu_set(emu, &(struct g4_emu_faults){.shuffle = 3});
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&both[i].thread, NULL, run_on, &both[i]), 0);
	for (uint32_t i = 0; i < 2; i++)
		pthread_join(both[i].thread, NULL);
	assert_int_equal(g4_nvme_device_counts(both[0].dev).stray, 0);
	g4_dev_close(both[0].dev);
	g4_dev_close(both[1].dev);
}

static void a_namespace_belongs_to_one_writer(void **state)
{
	struct g4_dev *first = must_open(1, 0, G4_DEV_EXCLUSIVE), *reader, *none;

	(void)state;
	assert_int_equal(open_where(1, 0, G4_DEV_EXCLUSIVE, &none), -G4_E_DEV_BUSY);
	assert_int_equal(open_where(3, 0, 0, &none), -G4_E_DEV_OPEN);
	assert_non_null(strstr(message, "there is no namespace 3, the highest is 2"));
	reader = must_open(1, 0, G4_DEV_READ_ONLY);
	assert_int_equal(g4_dev_write(wg, reader, 0, buffer, 512, 0), -G4_E_DEV_READONLY);
	g4_dev_close(first);
	first = must_open(1, 0, G4_DEV_EXCLUSIVE);
	g4_dev_close(first);
	g4_dev_close(reader);
}

static void partitions_of_a_namespace_are_devices_too(void **state)
{
	struct g4_dev *whole = must_open(2, 0, 0), *parts[2], *none;

	(void)state;
	memset(buffer, 0, 5 * 512);
	const struct gpt_table table = table_make(buffer, 8 * G4_MIB / 512, 512);
	assert_int_equal(table_write(&table, whole), 0);
	assert_int_equal(open_where(2, 3, 0, &none), -G4_E_DEV_OPEN);
	assert_int_equal(open_where(1, 1, 0, &none), -G4_E_DEV_OPEN); /* the other namespace has none */
	parts[0] = must_open(2, 1, G4_DEV_EXCLUSIVE);
	parts[1] = must_open(2, 4, G4_DEV_EXCLUSIVE);
	assert_int_equal(open_where(2, 1, G4_DEV_EXCLUSIVE, &none), -G4_E_DEV_BUSY);
	assert_int_equal(open_where(2, 0, G4_DEV_EXCLUSIVE, &none), -G4_E_DEV_BUSY); /* they are in use */
	none = must_open(1, 0, G4_DEV_EXCLUSIVE);
	g4_dev_close(none);
	assert_int_equal(g4_dev_props(parts[0])->size_bytes, 16 * 512);
	all_shapes(parts[1]);
	discards(parts[1]);
	fill(buffer, 8192, 0, 7);
	assert_int_equal(g4_dev_write(wg, parts[0], 0, buffer, 8192, 0), 0);
	assert_int_equal(g4_dev_write(wg, parts[0], 8192, buffer, 512, 0), -G4_E_DEV_RANGE);
	assert_int_equal(g4_dev_read(wg, whole, 8 * 512, buffer, 8192), 0);
	check(buffer, 8192, 0, 7);
	struct g4_io beyond = {.op = G4_IO_DISCARD, .offset_bytes = 4096, .discard_bytes = 8192};
	g4_dev_submit(wg, parts[0], &beyond);
	assert_int_equal(g4_dev_wait(wg, parts[0], &beyond), -G4_E_DEV_RANGE);
	g4_dev_close(whole);
	g4_dev_close(parts[0]);
	g4_dev_close(parts[1]);
}

/* ---- resets ---- */

static void forget_all(void *context)
{
	(void)context;
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(g4_dev_fault_cut(media[i]), 0);
		g4_dev_fault_power_on(media[i]);
	}
}

/* A flush is of one namespace: it tells nothing of what the other has written, which a reset then loses. */
static void a_flush_of_one_is_none_of_the_other(void **state)
{
	for (uint32_t i = 0; i < 2; i++) {
		g4_dev_close(media[i]);
		media[i] = open_fault();
	}
	(void)state;
	struct g4_dev *devs[2] = {must_open(1, 0, 0), must_open(2, 0, 0)};
	fill(buffer, 4096, 0, 1);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(g4_dev_write(wg, devs[i], 0, buffer, 4096, 0), 0);
	assert_int_equal(g4_dev_flush(wg, devs[0]), 0);
	g4_emu_set(emu, &(struct g4_emu_faults){.fatal_at = 1, .at_reset = forget_all});
	assert_int_equal(g4_dev_read(wg, devs[0], 0, buffer, 4096), 0);
	assert_int_equal(g4_nvme_device_counts(devs[0]).resets, 1);
	check(buffer, 4096, 0, 1);
	g4_emu_set(emu, &(struct g4_emu_faults){0});
	assert_int_equal(g4_dev_flush(wg, devs[0]), 0);
	assert_int_equal(g4_dev_flush(wg, devs[1]), -G4_E_IO);
	g4_dev_close(devs[0]);
	g4_dev_close(devs[1]);
}

/* After a reset each namespace that was opened has to be what it was. */
static void a_namespace_that_shrank_is_seen(void **state)
{
	struct g4_dev *second = must_open(2, 0, 0), *first = must_open(1, 0, 0);

	(void)state;
	all_shapes(first);
	g4_emu_set(emu, &(struct g4_emu_faults){.fatal_at = 1, .lies = G4_EMU_HALF});
	assert_int_equal(g4_dev_read(wg, second, 0, buffer, 4096), -G4_E_IO);
	assert_int_equal(g4_dev_read(wg, first, 0, buffer, 4096), -G4_E_IO);
	g4_dev_close(first);
	g4_dev_close(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		space_test(two_namespaces_are_two_devices),	 space_test(threads_on_both_share_queues),
		space_test(a_namespace_belongs_to_one_writer),	 space_test(partitions_of_a_namespace_are_devices_too),
		space_test(a_flush_of_one_is_none_of_the_other), space_test(a_namespace_that_shrank_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
