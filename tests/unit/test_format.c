/* SPDX-License-Identifier: Apache-2.0 */
/* Layout planning, the superblock's own checks, and the header hidden in an indirect page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* cmocka needs the three above */
#include <cmocka.h>

#include "format/layout.h"

static struct g4_superblock good_superblock(uint64_t size_bytes)
{
	struct g4_superblock sb = {.magic = G4_SUPERBLOCK_MAGIC, .version = G4_FORMAT_VERSION};
	struct g4_layout layout;

	assert_int_equal(g4_layout_plan(size_bytes, 0, &layout), 0);
	sb.state = G4_STATE_CLEAN;
	sb.size_bytes = sb.total_bytes = layout.size_bytes;
	sb.journal_address = layout.journal_address;
	sb.journal_bytes = layout.journal_bytes;
	sb.groups_address = layout.groups_address;
	sb.alloc_address = layout.alloc_address;
	sb.group_count = layout.group_count;
	sb.data_address = layout.data_address;
	sb.root_address = layout.root_address;
	sb.inode_bytes = sb.small_bytes = 256;
	sb.disk_count = 1;
	return sb;
}

static void a_plan_is_in_order_and_inside_the_device(void **state)
{
	(void)state;
	for (uint64_t size = G4_MIN_DEVICE_BYTES; size <= 16 * 1024 * G4_TIB; size = size * 3 + 1234567) {
		struct g4_layout layout;
		assert_int_equal(g4_layout_plan(size, 0, &layout), 0);
		assert_true(layout.size_bytes <= size && size - layout.size_bytes < G4_PAGE_BYTES);
		assert_int_equal(layout.journal_address, 2 * G4_PAGE_BYTES);
		assert_int_equal(layout.groups_address, layout.journal_address + layout.journal_bytes);
		assert_true(layout.alloc_address >= layout.groups_address + layout.groups_pages * G4_PAGE_BYTES);
		assert_true(layout.root_address >= layout.alloc_address + layout.group_count * G4_PAGE_BYTES);
		/* room to become sixteen times as large, for a thousandth */
		assert_true(g4_layout_room(&layout) * G4_GROUP_BYTES >= 16 * (layout.size_bytes - 4 * G4_MIB));
		assert_true(layout.root_address - layout.groups_address < layout.size_bytes / 500 + 4 * G4_PAGE_BYTES);
		assert_int_equal(layout.data_address, layout.root_address + G4_PAGE_BYTES);
		assert_int_equal(layout.backup_address, layout.size_bytes - G4_PAGE_BYTES);
		assert_true(layout.data_address < layout.backup_address);
		assert_true(layout.group_count * G4_GROUP_BYTES >= layout.size_bytes);
		assert_true((layout.group_count - 1) * G4_GROUP_BYTES < layout.size_bytes);
		assert_true(layout.groups_pages * G4_GROUPS_PER_PAGE >= layout.group_count);
	}
}

static void a_planned_superblock_is_valid_and_gives_its_layout_back(void **state)
{
	(void)state;
	for (uint64_t size = G4_MIN_DEVICE_BYTES; size <= 16 * 1024 * G4_TIB; size = size * 5 + 4321) {
		struct g4_layout planned, found;
		const struct g4_superblock sb = good_superblock(size);
		assert_int_equal(g4_superblock_validate(&sb, size), 0);
		assert_int_equal(g4_layout_plan(size, 0, &planned), 0);
		g4_layout_of(&sb, &found);
		assert_memory_equal(&planned, &found, sizeof(planned));
	}
}

static void the_journal_follows_the_size_within_its_limits(void **state)
{
	struct g4_layout layout;

	(void)state;
	assert_int_equal(g4_layout_plan(G4_MIN_DEVICE_BYTES, 0, &layout), 0);
	assert_int_equal(layout.journal_bytes, 2 * G4_MIB);
	assert_int_equal(g4_layout_plan(2 * G4_GIB, 0, &layout), 0);
	assert_int_equal(layout.journal_bytes, 32 * G4_MIB);
	assert_int_equal(g4_layout_plan(G4_TIB, 0, &layout), 0);
	assert_int_equal(layout.journal_bytes, 128 * G4_MIB);
	assert_int_equal(g4_layout_plan(64 * G4_MIB, 16 * G4_MIB, &layout), 0);
	assert_int_equal(layout.journal_bytes, 16 * G4_MIB);
	assert_int_equal(g4_layout_plan(64 * G4_MIB, 2 * G4_MIB, &layout), 0);
}

static void impossible_plans_are_refused(void **state)
{
	struct g4_layout layout;

	(void)state;
	assert_int_equal(g4_layout_plan(0, 0, &layout), -G4_E_DEV_SMALL);
	assert_int_equal(g4_layout_plan(G4_MIN_DEVICE_BYTES - 1, 0, &layout), -G4_E_DEV_SMALL);
	assert_int_equal(g4_layout_plan(UINT64_MAX, 0, &layout), -G4_E_INVAL);
	assert_int_equal(g4_layout_plan(64 * G4_MIB, 2 * G4_MIB - G4_PAGE_BYTES, &layout), -G4_E_INVAL);
	assert_int_equal(g4_layout_plan(64 * G4_MIB, 16 * G4_MIB + G4_PAGE_BYTES, &layout), -G4_E_INVAL);
	assert_int_equal(g4_layout_plan(64 * G4_MIB, G4_MIB + 1, &layout), -G4_E_INVAL);
	assert_int_equal(g4_layout_plan(64 * G4_MIB, UINT64_MAX, &layout), -G4_E_INVAL);
}

/* Each row damages one field of a good superblock. */
#define SUPERBLOCK_DAMAGE(X)                                                                                           \
	X(magic, 0, SB_MAGIC)                                                                                          \
	X(version, G4_FORMAT_VERSION + 1, SB_VERSION)                                                                  \
	X(version, 0, SB_GEOMETRY)                                                                                     \
	X(features_incompat, UINT64_C(1) << 63, SB_FEATURE)                                                            \
	X(state, 8, SB_GEOMETRY)                                                                                       \
	X(size_bytes, 0, SB_GEOMETRY)                                                                                  \
	X(size_bytes, 1000 * G4_MIB + 1, SB_GEOMETRY)                                                                  \
	X(size_bytes, UINT64_MAX & ~UINT64_C(4095), SB_GEOMETRY)                                                       \
	X(total_bytes, 0, SB_GEOMETRY)                                                                                 \
	X(journal_address, 0, SB_GEOMETRY)                                                                             \
	X(journal_address, 2 * G4_PAGE_BYTES + 512, SB_GEOMETRY)                                                       \
	X(journal_bytes, 0, SB_GEOMETRY)                                                                               \
	X(journal_bytes, UINT64_MAX & ~UINT64_C(4095), SB_GEOMETRY)                                                    \
	X(groups_address, 2 * G4_PAGE_BYTES, SB_GEOMETRY)                                                              \
	X(groups_address, UINT64_MAX & ~UINT64_C(4095), SB_GEOMETRY)                                                   \
	X(alloc_address, 0, SB_GEOMETRY)                                                                               \
	X(alloc_address, 999 * G4_MIB, SB_GEOMETRY)                                                                    \
	X(group_count, 0, SB_GEOMETRY)                                                                                 \
	X(group_count, UINT64_MAX, SB_GEOMETRY)                                                                        \
	X(data_address, 0, SB_GEOMETRY)                                                                                \
	X(data_address, 1000 * G4_MIB, SB_GEOMETRY)                                                                    \
	X(root_address, 4097, SB_GEOMETRY)                                                                             \
	X(root_address, UINT64_MAX & ~UINT64_C(4095), SB_GEOMETRY)                                                     \
	X(inode_bytes, 128, SB_GEOMETRY)                                                                               \
	X(small_bytes, 0, SB_GEOMETRY)                                                                                 \
	X(policy, 6, POLICY)                                                                                           \
	X(policy, 0x30, POLICY)                                                                                        \
	X(disk_count, 0, SB_GEOMETRY)                                                                                  \
	X(disk_count, G4_MAX_DISKS + 1, SB_GEOMETRY)                                                                   \
	X(disk_index, 1, SB_GEOMETRY)                                                                                  \
	X(disk_index_bits, 7, SB_GEOMETRY)                                                                             \
	X(label[G4_LABEL_BYTES - 1], 'x', SB_GEOMETRY)

static void the_newer_superblock_is_known(void **state)
{
	struct g4_superblock first = good_superblock(G4_GIB), second = first;

	(void)state;
	first.header.generation = second.header.generation = 7;
	assert_false(g4_superblock_is_newer(&first, &second));
	second.mount_count = first.mount_count + 1;
	assert_true(g4_superblock_is_newer(&first, &second));
	assert_false(g4_superblock_is_newer(&second, &first));
	first.header.generation = 8; /* counts before the number of mounts */
	assert_false(g4_superblock_is_newer(&first, &second));
	assert_true(g4_superblock_is_newer(&second, &first));
	second.header.generation = 9;
	assert_true(g4_superblock_is_newer(&first, &second));
	second.uuid[0] ^= 1;
	assert_false(g4_superblock_is_newer(&first, &second));
}

static void every_damaged_superblock_field_is_caught(void **state)
{
	const uint64_t device_bytes = 1000 * G4_MIB;

	(void)state;
#define CHECK_DAMAGE(field, value, error)                                                                              \
	{                                                                                                              \
		struct g4_superblock sb = good_superblock(device_bytes);                                               \
		assert_int_equal(g4_superblock_validate(&sb, device_bytes), 0);                                        \
		sb.field = (value);                                                                                    \
		assert_int_equal(g4_superblock_validate(&sb, device_bytes), -G4_E_##error);                            \
	}
	SUPERBLOCK_DAMAGE(CHECK_DAMAGE)
#undef CHECK_DAMAGE
	const struct g4_superblock sb = good_superblock(device_bytes);
	assert_int_equal(g4_superblock_validate(&sb, device_bytes - 1), -G4_E_SB_TRUNCATED);
}

static void unknown_compatible_features_are_no_reason_to_refuse(void **state)
{
	struct g4_superblock sb = good_superblock(G4_GIB);

	(void)state;
	sb.features_compat = sb.features_ro_compat = UINT64_MAX;
	sb.features_incompat = G4_FEATURES_INCOMPAT;
	sb.chunk_count = sb.copies = 1; /* of several disks */
	assert_int_equal(g4_superblock_validate(&sb, G4_GIB), 0);
	sb.copies = 0;
	assert_int_equal(g4_superblock_validate(&sb, G4_GIB), -G4_E_SB_GEOMETRY);
}

static void an_indirect_header_survives_in_the_spare_bits(void **state)
{
	g4_le64 slots[G4_INDIRECT_SLOTS], original[G4_INDIRECT_SLOTS];
	struct g4_indirect_header in, out;

	(void)state;
	srandom(7);
	for (uint32_t round = 0; round < 50; round++) {
		for (uint32_t i = 0; i < G4_INDIRECT_SLOTS; i++) {
			const uint64_t bits = (uint64_t)random() << 33 ^ (uint64_t)random() << 11 ^ (uint64_t)random();
			slots[i] = bits; /* spare bits are whatever they are: embed overwrites them */
			original[i] = bits & ~G4_PTR_SPARE;
		}
		for (size_t i = 0; i < sizeof(in); i++)
			((uint8_t *)&in)[i] = (uint8_t)random();
		g4_indirect_embed(slots, &in);
		g4_indirect_extract(slots, &out);
		assert_memory_equal(&in, &out, sizeof(in));
		g4_indirect_strip(slots);
		assert_memory_equal(slots, original, sizeof(slots));
		g4_indirect_extract(slots, &out);
		memset(&in, 0, sizeof(in));
		assert_memory_equal(&in, &out, sizeof(in));
	}
}

static void header_bit_b_is_the_spare_bit_of_pointer_b(void **state)
{
	(void)state;
	for (uint32_t bit = 0; bit < G4_INDIRECT_SLOTS; bit++) {
		g4_le64 slots[G4_INDIRECT_SLOTS] = {0};
		struct g4_indirect_header header = {0};
		((uint8_t *)&header)[bit / 8] = (uint8_t)(1u << bit % 8);
		g4_indirect_embed(slots, &header);
		for (uint32_t i = 0; i < G4_INDIRECT_SLOTS; i++)
			assert_int_equal(slots[i], i == bit ? G4_PTR_SPARE : 0);
	}
}

static void block_types_have_names(void **state)
{
	(void)state;
	assert_string_equal(g4_block_type_name(G4_BLOCK_ALLOC), "allocation map");
	assert_string_equal(g4_block_type_name(G4_BLOCK_NONE), "none");
	assert_string_equal(g4_block_type_name(4711), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_plan_is_in_order_and_inside_the_device),
		cmocka_unit_test(a_planned_superblock_is_valid_and_gives_its_layout_back),
		cmocka_unit_test(the_journal_follows_the_size_within_its_limits),
		cmocka_unit_test(impossible_plans_are_refused),
		cmocka_unit_test(every_damaged_superblock_field_is_caught),
		cmocka_unit_test(the_newer_superblock_is_known),
		cmocka_unit_test(unknown_compatible_features_are_no_reason_to_refuse),
		cmocka_unit_test(an_indirect_header_survives_in_the_spare_bits),
		cmocka_unit_test(header_bit_b_is_the_spare_bit_of_pointer_b),
		cmocka_unit_test(block_types_have_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
