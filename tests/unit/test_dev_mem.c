/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped devices: memory and shared file mappings. */
#define _GNU_SOURCE 1
#include <sys/stat.h>

#include "dev_util.h"

#define DEVICE_BYTES (UINT64_C(64) * G4_MIB)

struct fixture {
	struct g4_wg *wg;
	struct g4_dev *dev;
	uint8_t *buffer; /* 1 MiB */
	char path[512];	 /* dax: the file */
};

static struct fixture *make_fixture(void)
{
	struct fixture *f = calloc(1, sizeof(*f));
	assert_non_null(f);
	f->wg = g4_wg_create(0);
	assert_non_null(f->wg);
	f->buffer = pages(G4_MIB);
	return f;
}

static int setup_mem(void **state)
{
	struct fixture *f = make_fixture();
	f->dev = open_device("mem:64M");
	*state = f;
	return 0;
}

static int setup_dax(void **state, const char *directory)
{
	struct fixture *f = make_fixture();
	char name[520];
	char message[256] = "";
	struct g4_dev_open_options options = {.flags = G4_DEV_CREATE, .create_bytes = DEVICE_BYTES};
	temporary_path(f->path, sizeof(f->path), directory);
	snprintf(name, sizeof(name), "dax:%s", f->path);
	*state = f;
	return g4_dev_open(name, &options, &f->dev, message, sizeof(message));
}

static int setup_dax_disk(void **state)
{
	return setup_dax(state, temporary_directory());
}

static int setup_dax_shm(void **state)
{
	return setup_dax(state, access("/dev/shm", W_OK) == 0 ? "/dev/shm" : temporary_directory());
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	g4_dev_close(f->dev);
	if (f->path[0])
		unlink(f->path);
	free(f->buffer);
	g4_wg_destroy(f->wg);
	free(f);
	return 0;
}

static void properties_are_those_of_a_mapped_device(void **state)
{
	struct fixture *f = *state;
	const struct g4_dev_props *props = g4_dev_props(f->dev);
	assert_int_equal(props->size_bytes, DEVICE_BYTES);
	assert_int_equal(props->sector_bytes, 512);
	assert_true(props->mapped);
	assert_false(props->read_only);
}

static void requests_and_the_map_see_the_same_bytes(void **state)
{
	struct fixture *f = *state;
	uint8_t *map = g4_dev_map(f->dev, 0);
	assert_non_null(map);
	fill(f->buffer, G4_MIB, 512, 1);
	assert_int_equal(g4_dev_write(f->wg, f->dev, 512, f->buffer, G4_MIB, 0), 0);
	assert_memory_equal(map + 512, f->buffer, G4_MIB);
	fill(map + G4_MIB * 2, G4_MIB, 0, 2);
	assert_int_equal(g4_dev_read(f->wg, f->dev, 2 * G4_MIB, f->buffer, G4_MIB), 0);
	check(f->buffer, G4_MIB, 0, 2);
	assert_ptr_equal(g4_dev_map(f->dev, DEVICE_BYTES - 1), map + DEVICE_BYTES - 1);
	assert_null(g4_dev_map(f->dev, DEVICE_BYTES));
}

static void a_new_device_reads_zeros(void **state)
{
	struct fixture *f = *state;
	memset(f->buffer, 0xff, 8192);
	assert_int_equal(g4_dev_read(f->wg, f->dev, DEVICE_BYTES - 8192, f->buffer, 8192), 0);
	for (int i = 0; i < 8192; i++)
		assert_int_equal(f->buffer[i], 0);
}

static void requests_are_done_when_submit_returns(void **state)
{
	struct fixture *f = *state;
	struct g4_iov iov[2] = {{f->buffer, 4096}, {f->buffer + 8192, 512}};
	struct g4_io ios[3] = {
		{.op = G4_IO_WRITE, .flags = G4_IO_FUA, .offset_bytes = 512, .iov = iov, .iov_count = 2},
		{.op = G4_IO_FLUSH},
		{.op = G4_IO_READ, .offset_bytes = 512, .iov = iov, .iov_count = 2},
	};
	fill(f->buffer, 8192 + 512, 0, 3);
	submit_all(f->wg, f->dev, ios, 3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ios[i].done, 1);
		assert_true(g4_dev_poll(f->wg, f->dev, &ios[i]));
		assert_int_equal(g4_dev_wait(f->wg, f->dev, &ios[i]), 0);
	}
	check(f->buffer, 4096, 0, 3);
	check(f->buffer + 8192, 512, 8192, 3);
}

static void wild_requests_are_refused(void **state)
{
	struct fixture *f = *state;
	struct g4_iov wide[2] = {{f->buffer, UINT64_MAX - 511}, {f->buffer, 1024}};
	struct g4_io ios[3] = {
		{.op = G4_IO_WRITE, .offset_bytes = 512, .iov = wide, .iov_count = 2},
		{.op = G4_IO_DISCARD, .offset_bytes = 512, .discard_bytes = UINT64_MAX - 511},
		{.op = G4_IO_DISCARD, .offset_bytes = 100, .discard_bytes = 4096},
	};
	assert_int_equal(g4_dev_read(f->wg, f->dev, DEVICE_BYTES - 512, f->buffer, 1024), -G4_E_DEV_RANGE);
	assert_int_equal(g4_dev_read(f->wg, f->dev, UINT64_MAX & ~UINT64_C(511), f->buffer, 512), -G4_E_DEV_RANGE);
	assert_int_equal(g4_dev_write(f->wg, f->dev, 511, f->buffer, 512, 0), -G4_E_DEV_ALIGN);
	assert_int_equal(g4_dev_write(f->wg, f->dev, 0, f->buffer, 513, 0), -G4_E_DEV_ALIGN);
	assert_int_equal(g4_dev_write(f->wg, f->dev, 0, f->buffer + 1, 512, 0), -G4_E_DEV_ALIGN);
	submit_all(f->wg, f->dev, ios, 3);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &ios[0]), -G4_E_DEV_RANGE);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &ios[1]), -G4_E_DEV_RANGE);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &ios[2]), -G4_E_DEV_ALIGN);
}

static void a_discard_leaves_its_neighbours_alone(void **state)
{
	struct fixture *f = *state;
	struct g4_io io = {.op = G4_IO_DISCARD, .offset_bytes = 4096 + 512, .discard_bytes = 16384};
	if (!g4_dev_props(f->dev)->discard)
		skip();
	fill(f->buffer, 65536, 0, 4);
	assert_int_equal(g4_dev_write(f->wg, f->dev, 0, f->buffer, 65536, 0), 0);
	g4_dev_submit(f->wg, f->dev, &io);
	assert_int_equal(g4_dev_wait(f->wg, f->dev, &io), 0);
	assert_int_equal(g4_dev_read(f->wg, f->dev, 0, f->buffer, 65536), 0);
	check(f->buffer, 4096 + 512, 0, 4);
	check(f->buffer + 4096 + 512 + 16384, 65536 - (4096 + 512 + 16384), 4096 + 512 + 16384, 4);
	for (int i = 8192; i < 20480; i++)
		assert_int_equal(f->buffer[i], 0);
}

static void a_dax_file_holds_what_was_flushed(void **state)
{
	struct fixture *f = *state;
	char name[520];
	fill(f->buffer, G4_MIB, 0, 5);
	memcpy(g4_dev_map(f->dev, 0), f->buffer, G4_MIB);
	assert_int_equal(g4_dev_flush(f->wg, f->dev), 0);
	assert_int_equal(g4_dev_write(f->wg, f->dev, G4_MIB + 512, f->buffer, 512, G4_IO_FUA), 0);
	g4_dev_close(f->dev);
	snprintf(name, sizeof(name), "dax:%s", f->path);
	f->dev = open_device(name);
	check(g4_dev_map(f->dev, 0), G4_MIB, 0, 5);
	check(g4_dev_map(f->dev, G4_MIB + 512), 512, 0, 5);
}

static void a_dax_file_is_the_same_device_through_its_path(void **state)
{
	struct fixture *f = *state;
	fill(f->buffer, G4_MIB, 0, 6);
	assert_int_equal(g4_dev_write(f->wg, f->dev, 0, f->buffer, G4_MIB, 0), 0);
	assert_int_equal(g4_dev_flush(f->wg, f->dev), 0);
	struct g4_dev *file = open_device(f->path);
	memset(f->buffer, 0, G4_MIB);
	assert_int_equal(g4_dev_read(f->wg, file, 0, f->buffer, G4_MIB), 0);
	check(f->buffer, G4_MIB, 0, 6);
	g4_dev_close(file);
}

static void huge_memory_costs_nothing_until_written(void **state)
{
	(void)state;
	struct g4_wg *wg = g4_wg_create(0);
	struct g4_dev *dev = open_device("mem:64G");
	uint8_t *buffer = pages(4096);
	fill(buffer, 4096, 0, 7);
	assert_int_equal(g4_dev_write(wg, dev, 64 * G4_GIB - 4096, buffer, 4096, 0), 0);
	memset(buffer, 0, 4096);
	assert_int_equal(g4_dev_read(wg, dev, 64 * G4_GIB - 4096, buffer, 4096), 0);
	check(buffer, 4096, 0, 7);
	free(buffer);
	g4_dev_close(dev);
	g4_wg_destroy(wg);
}

static void a_read_only_device_refuses_writes(void **state)
{
	struct fixture *f = *state;
	struct g4_dev_open_options options = {.flags = G4_DEV_READ_ONLY};
	struct g4_dev *dev = NULL;
	char name[520];
	struct g4_io io = {.op = G4_IO_DISCARD, .discard_bytes = 4096};
	snprintf(name, sizeof(name), "dax:%s", f->path);
	assert_int_equal(g4_dev_open(name, &options, &dev, NULL, 0), 0);
	assert_true(g4_dev_props(dev)->read_only);
	assert_int_equal(g4_dev_write(f->wg, dev, 0, f->buffer, 4096, 0), -G4_E_DEV_READONLY);
	g4_dev_submit(f->wg, dev, &io);
	assert_int_equal(g4_dev_wait(f->wg, dev, &io), -G4_E_DEV_READONLY);
	assert_int_equal(g4_dev_read(f->wg, dev, 0, f->buffer, 4096), 0);
	assert_int_equal(g4_dev_flush(f->wg, dev), 0);
	g4_dev_close(dev);
}

#define MAPPED(test)                                                                                                   \
	cmocka_unit_test_setup_teardown(test, setup_mem, teardown),                                                    \
		cmocka_unit_test_setup_teardown(test, setup_dax_disk, teardown),                                       \
		cmocka_unit_test_setup_teardown(test, setup_dax_shm, teardown)
#define DAX(test)                                                                                                      \
	cmocka_unit_test_setup_teardown(test, setup_dax_disk, teardown),                                               \
		cmocka_unit_test_setup_teardown(test, setup_dax_shm, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		MAPPED(properties_are_those_of_a_mapped_device),
		MAPPED(requests_and_the_map_see_the_same_bytes),
		MAPPED(a_new_device_reads_zeros),
		MAPPED(requests_are_done_when_submit_returns),
		MAPPED(wild_requests_are_refused),
		MAPPED(a_discard_leaves_its_neighbours_alone),
		DAX(a_dax_file_holds_what_was_flushed),
		DAX(a_dax_file_is_the_same_device_through_its_path),
		DAX(a_read_only_device_refuses_writes),
		cmocka_unit_test(huge_memory_costs_nothing_until_written),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
