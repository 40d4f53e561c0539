/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The space over devices of each kind: requests that one workgroup submits and another collects, errors of several, and what
 * the space says that its devices can do.
 */
#define _GNU_SOURCE 1
#include <pthread.h>

#include "dev/agent_host.h"
#include "dev_util.h"
#include "space/space.h"

#define IMAGE_BYTES (UINT64_C(8) * G4_MIB)
#define COUNT 24u
#define PARTS 3u
#define PART_BYTES UINT64_C(8192)
#define REQUEST_BYTES (PARTS * PART_BYTES)

struct hand_over { /* memory that both workgroups reach */
	struct g4_space space;
	struct g4_space_io requests[COUNT];
	struct g4_iov parts[COUNT][PARTS];
	uint32_t submitted;
	int rc;
};

static struct g4_dev *open_file(void)
{
	const struct g4_dev_open_options options = {.flags = G4_DEV_CREATE, .queues = 2, .create_bytes = IMAGE_BYTES};
	char path[512], message[256] = "";
	struct g4_dev *dev;

	temporary_path(path, sizeof(path), temporary_directory());
	if (g4_dev_open(path, &options, &dev, message, sizeof(message)) < 0)
		fail_msg("%s", message);
	unlink(path);
	return dev;
}

static struct g4_dev *open_mem(void)
{
	return open_device("mem:8M");
}

static struct g4_dev *open_delayed(void)
{
	const struct g4_fault settings = {.delay_ns = 100000};
	struct g4_dev *fault;

	assert_int_equal(g4_dev_fault_open(open_mem(), &fault), 0);
	g4_dev_fault_set(fault, &settings);
	return fault;
}

/* Fewer slots than requests: some are started only when they are collected. */
static struct g4_dev *open_remote(void)
{
	const struct g4_agent_options options = {.slots = 4, .chunk_bytes = 16384};
	struct g4_dev *dev;

	assert_int_equal(g4_dev_remote_open(open_file(), &options, &dev), 0);
	return dev;
}

/* Scattered over the space, no two beside each other. */
static struct g4_address place_of(uint32_t i)
{
	return g4_address_from((uint64_t)(i * 7 % COUNT) * 2 * REQUEST_BYTES);
}

static void fill_in(struct hand_over *work, uint32_t op, uint8_t *buffer)
{
	for (uint32_t i = 0; i < COUNT; i++) {
		for (uint32_t k = 0; k < PARTS; k++)
			work->parts[i][k] = (struct g4_iov){buffer + (i * PARTS + k) * PART_BYTES, PART_BYTES};
		g4_space_io_init(&work->requests[i], op, place_of(i), work->parts[i], PARTS);
	}
}

static void *collect(void *argument)
{
	struct hand_over *work = argument;
	struct g4_wg *wg = g4_wg_create(2);
	uint32_t seen;

	while ((seen = g4_load32_acq(&work->submitted)) == 0)
		g4_wait(&work->submitted, seen);
	work->rc = g4_space_collect(wg, &work->space, work->requests, COUNT);
	g4_wg_destroy(wg);
	return NULL;
}

/* The collector waits already when the requests are submitted. */
static void submit_here_collect_there(struct g4_wg *wg, struct hand_over *work)
{
	pthread_t thread;

	work->submitted = 0;
	work->rc = 1;
	assert_int_equal(pthread_create(&thread, NULL, collect, work), 0);
	g4_space_submit(wg, &work->space, work->requests, COUNT);
	g4_xchg32(&work->submitted, 1);
	g4_wake(&work->submitted);
	pthread_join(thread, NULL);
	assert_int_equal(work->rc, 0);
	for (uint32_t i = 0; i < COUNT; i++)
		assert_int_equal(work->requests[i].io.result, 0);
}

static void another_workgroup_collects(struct g4_dev *dev)
{
	struct g4_wg *wg = g4_wg_create(1);
	struct hand_over *work = calloc(1, sizeof(*work));
	uint8_t *buffer = pages(COUNT * REQUEST_BYTES);

	g4_space_init(&work->space, dev);
	for (uint32_t i = 0; i < COUNT; i++)
		fill(buffer + i * REQUEST_BYTES, REQUEST_BYTES, g4_address_stored(place_of(i)), 1);
	fill_in(work, G4_IO_WRITE, buffer);
	submit_here_collect_there(wg, work);
	memset(buffer, 0, COUNT * REQUEST_BYTES);
	fill_in(work, G4_IO_READ, buffer);
	submit_here_collect_there(wg, work);
	for (uint32_t i = 0; i < COUNT; i++)
		check(buffer + i * REQUEST_BYTES, REQUEST_BYTES, g4_address_stored(place_of(i)), 1);
	free(buffer);
	free(work);
	g4_dev_close(dev);
	g4_wg_destroy(wg);
}

static void another_workgroup_collects_from_memory(void **state)
{
	(void)state;
	another_workgroup_collects(open_mem());
}

static void another_workgroup_collects_from_a_file(void **state)
{
	(void)state;
	another_workgroup_collects(open_file());
}

static void another_workgroup_collects_what_takes_its_time(void **state)
{
	(void)state;
	another_workgroup_collects(open_delayed());
}

static void another_workgroup_collects_behind_an_agent(void **state)
{
	(void)state;
	another_workgroup_collects(open_remote());
}

static void the_first_error_in_order_is_the_one_that_counts(void **state)
{
	(void)state;
	const struct g4_fault settings = {.fail_write_at = 3};
	struct g4_wg *wg = g4_wg_create(1);
	struct hand_over *work = calloc(1, sizeof(*work));
	uint8_t *buffer = pages(COUNT * REQUEST_BYTES);
	struct g4_dev *fault;

	assert_int_equal(g4_dev_fault_open(open_mem(), &fault), 0);
	g4_dev_fault_set(fault, &settings);
	g4_space_init(&work->space, fault);
	fill_in(work, G4_IO_WRITE, buffer);
	work->requests[5].address = g4_address_from(IMAGE_BYTES); /* beyond the end */
	assert_int_equal(g4_space_transfer(wg, &work->space, work->requests, COUNT), -G4_E_IO);
	for (uint32_t i = 0; i < COUNT; i++)
		assert_int_equal(work->requests[i].io.result, i == 2 ? -G4_E_IO : i == 5 ? -G4_E_DEV_RANGE : 0);
	free(buffer);
	free(work);
	g4_dev_close(fault);
	g4_wg_destroy(wg);
}

static void properties_are_those_of_the_device(void **state)
{
	(void)state;
	struct g4_dev *mem = open_mem(), *file = open_file();
	struct g4_space space;

	g4_space_init(&space, mem);
	assert_true(g4_space_is_mapped(&space));
	assert_false(g4_space_has_volatile_cache(&space));
	assert_int_equal(g4_space_bytes(&space), 8 * G4_MIB);
	g4_space_init(&space, file);
	assert_false(g4_space_is_mapped(&space));
	assert_true(g4_space_has_volatile_cache(&space));
	assert_int_equal(g4_space_bytes(&space), IMAGE_BYTES);
	assert_int_equal(g4_space_can_discard(&space), g4_dev_props(file)->discard);
	g4_dev_close(mem);
	g4_dev_close(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_workgroup_collects_from_memory),
		cmocka_unit_test(another_workgroup_collects_from_a_file),
		cmocka_unit_test(another_workgroup_collects_what_takes_its_time),
		cmocka_unit_test(another_workgroup_collects_behind_an_agent),
		cmocka_unit_test(the_first_error_in_order_is_the_one_that_counts),
		cmocka_unit_test(properties_are_those_of_the_device),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
