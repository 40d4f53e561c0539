/* SPDX-License-Identifier: Apache-2.0 */
/* The sizes that a namespace likes: what of IDENTIFY is gone by, and where commands are cut. (On a controller: test_emulated.c.) */
#include "dev/nvme/namespace_host.h"
#include "unit/dev_util.h"

/* ---- what is gone by ---- */

static struct g4_nvme_namespace_data data;

static int begin_data(void **state)
{
	(void)state;
	memset(&data, 0, sizeof(data));
	return 0;
}

static uint32_t unheeded_of(struct g4_nvme_atomics controller)
{
	uint32_t unheeded;

	(void)g4_nvme_sizes_of(controller, &data, 9, &unheeded);
	return unheeded;
}

static struct g4_nvme_sizes sizes_of(struct g4_nvme_atomics controller)
{
	uint32_t unheeded;
	const struct g4_nvme_sizes sizes = g4_nvme_sizes_of(controller, &data, 9, &unheeded);

	assert_int_equal(unheeded, 0);
	return sizes;
}

static void nothing_is_said_by_zeros(void **state)
{
	const struct g4_nvme_sizes none = {0};

	(void)state;
	data.write_granularity = data.discard_granularity = 7; /* which NSFEAT does not say are there */
	data.atomic_boundary_power_fail = 7;
	const struct g4_nvme_sizes sizes = sizes_of((struct g4_nvme_atomics){0, 0});
	assert_memory_equal(&sizes, &none, sizeof(none));
}

static void what_is_said_is_gone_by(void **state)
{
	(void)state;
	data.features = G4_NVME_FEATURES_ATOMIC | G4_NVME_FEATURES_SIZES;
	data.boundary = 256;
	data.atomic_normal = 15;
	data.atomic_power_fail = 7;
	data.atomic_boundary_power_fail = 15;
	data.atomic_offset = 15;
	data.write_granularity = 7;
	data.write_alignment = 3;
	data.optimal_write = 31;
	data.discard_granularity = 63;
	data.discard_alignment = 7;
	const struct g4_nvme_sizes sizes = sizes_of((struct g4_nvme_atomics){1, 1});
	assert_int_equal(sizes.boundary, 256);
	assert_int_equal(sizes.whole, 8);
	assert_int_equal(sizes.whole_anywhere, 2);
	assert_int_equal(sizes.whole_boundary, 16);
	assert_int_equal(sizes.whole_offset, 15);
	assert_int_equal(sizes.write, 8);
	assert_int_equal(sizes.write_start, 4);
	assert_int_equal(sizes.write_optimal, 32);
	assert_int_equal(sizes.discard, 64);
	assert_int_equal(sizes.discard_start, 8);
}

#define IS(name) (1u << G4_NVME_UNHEEDED_##name)

static void odd_atomics_are_none(void **state)
{
	uint32_t unheeded;

	(void)state;
	data.features = G4_NVME_FEATURES_ATOMIC;
	data.atomic_normal = data.atomic_power_fail = data.atomic_boundary_power_fail = 7;
	assert_int_equal(unheeded_of((struct g4_nvme_atomics){7, 7}), 0);
	assert_int_equal(unheeded_of((struct g4_nvme_atomics){6, 7}), IS(ATOMIC_UNITS));
	assert_int_equal(unheeded_of((struct g4_nvme_atomics){8, 7}),
			 IS(ATOMIC_UNITS)); /* the namespace's is shorter */
	assert_int_equal(unheeded_of((struct g4_nvme_atomics){8, 8}), IS(ATOMIC_UNITS));
	data.atomic_power_fail = 8;
	assert_int_equal(unheeded_of((struct g4_nvme_atomics){0, 0}), IS(ATOMIC_UNITS) | IS(ATOMIC_BOUNDARIES));
	data.atomic_power_fail = 7;
	data.atomic_offset = 8;
	assert_int_equal(unheeded_of((struct g4_nvme_atomics){0, 0}), IS(ATOMIC_BOUNDARIES));
	data.atomic_offset = 7;
	data.atomic_boundary_normal = 6;
	assert_int_equal(unheeded_of((struct g4_nvme_atomics){0, 0}), IS(ATOMIC_BOUNDARIES));
	assert_int_equal(g4_nvme_sizes_of((struct g4_nvme_atomics){0, 0}, &data, 9, &unheeded).whole_boundary, 0);
	data.features = 0; /* the controller's own are gone by, which know no boundaries */
	data.atomic_boundary_normal = 7;
	assert_int_equal(unheeded_of((struct g4_nvme_atomics){1, 1}), 0);
	assert_int_equal(g4_nvme_sizes_of((struct g4_nvme_atomics){1, 1}, &data, 9, &unheeded).whole_boundary, 0);
}

static void odd_preferences_are_none(void **state)
{
	const struct g4_nvme_atomics none = {0, 0};
	uint32_t unheeded;

	(void)state;
	data.features = G4_NVME_FEATURES_SIZES;
	data.write_granularity = 7;
	data.write_alignment = 2;
	assert_int_equal(unheeded_of(none), IS(WRITE_ALIGNMENT));
	data.write_alignment = 7;
	data.optimal_write = 11;
	assert_int_equal(unheeded_of(none), IS(OPTIMAL_WRITE));
	assert_int_equal(g4_nvme_sizes_of(none, &data, 9, &unheeded).write, 8);
	assert_int_equal(g4_nvme_sizes_of(none, &data, 9, &unheeded).write_optimal, 0);
	data.optimal_write = 0;
	data.discard_granularity = 4095; /* 2 MiB of 512 bytes */
	assert_int_equal(unheeded_of(none), 0);
	data.discard_granularity = 4096;
	assert_int_equal(unheeded_of(none), IS(DISCARD));
	data.discard_granularity = 0;
	data.discard_alignment = UINT16_MAX;
	assert_int_equal(unheeded_of(none), IS(DISCARD));
}

static void each_sentence_is_there(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < G4_NVME_UNHEEDED_COUNT; i++)
		assert_true(strlen(g4_nvme_unheeded[i]) > 20);
}

/* ---- formats ---- */

static void the_fastest_format_that_would_do_is_named(void **state)
{
	(void)state;
	data.formats = 17;
	data.format = 1 | 0x20; /* number 17 */
	data.format_list[0] = (struct g4_nvme_format){.lba_shift = 9, .performance = 2};
	data.format_list[1] =
		(struct g4_nvme_format){.lba_shift = 12, .metadata_bytes = 8}; /* the best, and of no use */
	data.format_list[2] = (struct g4_nvme_format){.lba_shift = 11};
	data.format_list[16] = (struct g4_nvme_format){.lba_shift = 12, .performance = 1};
	data.format_list[17] = (struct g4_nvme_format){.lba_shift = 9, .performance = 3};
	data.format_list[18] = (struct g4_nvme_format){.lba_shift = 12}; /* is not there */
	assert_int_equal(g4_nvme_faster_format(&data), 16);
	data.format = 0x20;
	assert_int_equal(g4_nvme_faster_format(&data), UINT32_MAX);
	data.formats = UINT8_MAX; /* nothing behind the last of them is looked at */
	data.format = UINT8_MAX;
	assert_int_equal(g4_nvme_faster_format(&data), UINT32_MAX);
}

/* ---- where commands are cut ---- */

static bool crosses(const struct g4_nvme_sizes *sizes, uint64_t lba, uint64_t blocks)
{
	for (uint64_t at = sizes->whole_offset; at < lba + blocks; at += sizes->whole_boundary)
		if (lba < at)
			return true;
	return false;
}

/* For each start, length and longest command: commands follow each other, and a write that could be whole crosses no boundary. */
static void writes_are_cut_where_they_would_not_be_whole(void **state)
{
	const struct g4_nvme_sizes cases[] = {{.whole = 4, .whole_anywhere = 1, .whole_boundary = 4},
					      {.whole = 4, .whole_anywhere = 1, .whole_boundary = 4, .whole_offset = 3},
					      {.whole = 6, .whole_anywhere = 3, .whole_boundary = 7, .whole_offset = 2},
					      {.whole = 6, .whole_anywhere = 1, .whole_boundary = 9, .write = 3},
					      {.whole = 5, .whole_anywhere = 1, .whole_boundary = 8, .boundary = 6}};

	(void)state;
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++)
		for (uint64_t first = 0; first < 20; first++)
			for (uint64_t count = 1; count < 30; count++)
				for (uint64_t most = 1; most < 14; most++)
					for (uint64_t done = 0; done < count;) {
						const uint64_t blocks =
							g4_nvme_cut(&cases[c], first + done, count - done, most, true);
						assert_true(blocks >= 1 && blocks <= most && blocks <= count - done);
						assert_false(blocks > cases[c].whole_anywhere &&
							     blocks <= cases[c].whole &&
							     crosses(&cases[c], first + done, blocks));
						done += blocks;
					}
}

/* One that is longer is not whole in any case, one that is short enough is whole in any case, and a read does not care. */
static void nothing_else_is_cut(void **state)
{
	const struct g4_nvme_sizes sizes = {
		.whole = 4, .whole_anywhere = 2, .whole_boundary = 4, .write = 8, .write_optimal = 8};

	(void)state;
	assert_int_equal(g4_nvme_cut(&sizes, 3, 2, 100, true), 2);
	assert_int_equal(g4_nvme_cut(&sizes, 3, 3, 100, true), 1);
	assert_int_equal(g4_nvme_cut(&sizes, 3, 5, 100, true), 5);
	assert_int_equal(g4_nvme_cut(&sizes, 3, 3, 100, false), 3);
	assert_int_equal(g4_nvme_cut(&sizes, 3, 50, 20, false), 20);
}

static void the_best_end_within_reach_is_taken(void **state)
{
	const struct g4_nvme_sizes sizes = {.write = 8, .write_start = 4, .write_optimal = 32};

	(void)state;
	assert_int_equal(g4_nvme_cut(&sizes, 30, 100, 40, true), 34); /* to 64 */
	assert_int_equal(g4_nvme_cut(&sizes, 33, 100, 30, true), 23); /* to 56: 64 is too far */
	assert_int_equal(g4_nvme_cut(&sizes, 33, 100, 6, true), 3);   /* to 36 */
	assert_int_equal(g4_nvme_cut(&sizes, 33, 100, 2, true), 2);
	assert_int_equal(g4_nvme_cut(&sizes, 33, 20, 20, true), 20); /* its own end */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_is_said_by_zeros, begin_data),
		cmocka_unit_test_setup(what_is_said_is_gone_by, begin_data),
		cmocka_unit_test_setup(odd_atomics_are_none, begin_data),
		cmocka_unit_test_setup(odd_preferences_are_none, begin_data),
		cmocka_unit_test(each_sentence_is_there),
		cmocka_unit_test_setup(the_fastest_format_that_would_do_is_named, begin_data),
		cmocka_unit_test(writes_are_cut_where_they_would_not_be_whole),
		cmocka_unit_test(nothing_else_is_cut),
		cmocka_unit_test(the_best_end_within_reach_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
