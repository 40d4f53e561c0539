/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses of an IOMMU stand for those of a process (vfio_host.h). VFIO itself is tests/nvme's. */
#include "dev/nvme/vfio_host.h"
#include "unit/dev_util.h"

#define GIB (1024 * G4_MIB)
#define LARGE_PAGE (2 * G4_MIB)

/* As Linux gives it to a process: below the stack, and all later ones below that. */
static const uint64_t memory = UINT64_C(0x7f1234e00000);

/* A 64 bit IOMMU but for the interrupts' addresses, as on a server. */
static const struct vfio_iova_range wide[] = {{0, 0xfedfffff}, {0xfef00000, UINT64_MAX}};
/* 39 bits, with two holes. */
static const struct vfio_iova_range narrow[] = {
	{0, 0x9fffffff}, {0xc0000000, 0xfedfffff}, {0xfef00000, (UINT64_C(1) << 39) - 1}};

static bool is_in(const struct vfio_iova_range *ranges, uint32_t count, uint64_t first, uint64_t last)
{
	bool found = false;

	for (uint32_t i = 0; i < count; i++)
		found = found || (first >= ranges[i].start && last <= ranges[i].end && first <= last);
	return found;
}

static void addresses_that_the_iommu_has_stay(void **state)
{
	(void)state;
	assert_int_equal(g4_vfio_shift(wide, 2, memory), 0);
	assert_int_equal(g4_vfio_shift(narrow, 3, UINT64_C(0x7fffe00000)), 0);
	assert_int_equal(g4_vfio_shift(narrow, 3, narrow[2].end), 0);
	assert_int_equal(g4_vfio_shift(NULL, 0, memory), 0); /* it is not known which it has */
}

static void others_are_at_a_distance_with_room_on_both_sides(void **state)
{
	const uint64_t shift = g4_vfio_shift(narrow, 3, memory);

	(void)state;
	assert_int_not_equal(shift, 0);
	assert_int_equal(shift % LARGE_PAGE, 0); /* the IOMMU's large pages stay such */
	assert_true(is_in(narrow, 3, memory - 300 * GIB + shift, memory + 100 * GIB + shift));
	/* far from there is nothing that it has: that is copied */
	assert_false(is_in(narrow, 3, memory - 600 * GIB + shift, memory - 600 * GIB + shift));
	assert_false(is_in(narrow, 3, UINT64_C(0x555555554000) + shift, UINT64_C(0x555555554000) + shift));
	assert_false(is_in(narrow, 3, UINT64_C(0x400000) + shift, UINT64_C(0x400000) + shift));
}

static void the_largest_range_is_taken_wherever_it_is(void **state)
{
	const struct vfio_iova_range low[] = {{0x100000, 64 * GIB}, {100 * GIB, 101 * GIB}};
	const struct vfio_iova_range one = {LARGE_PAGE, 3 * LARGE_PAGE - 1};

	(void)state;
	const uint64_t shift = g4_vfio_shift(low, 2, memory);
	assert_true(is_in(low, 2, memory - 40 * GIB + shift, memory + 10 * GIB + shift));
	const uint64_t tight = g4_vfio_shift(&one, 1, memory + 4096);
	assert_true(is_in(&one, 1, memory + tight, memory + tight + LARGE_PAGE - 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_that_the_iommu_has_stay),
		cmocka_unit_test(others_are_at_a_distance_with_room_on_both_sides),
		cmocka_unit_test(the_largest_range_is_taken_wherever_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
